//! Places in the code cache that reach devices, and where: the loads and stores of a guest's interrupt and timer
//! handlers, which come back with every tick.
//!
//! The first time, an abort finds out all that there is to know: that the guest's tables allow the access and lead to a
//! device, and that the word in the code cache stands for an instruction that may be interpreted in its place. This
//! remembers it, as a TLB would remember a mapping: small global pages only, until the guest's TLB maintenance, a
//! change of its tables other than that of a process switch, or a flush of the code cache. The page is watched
//! (`Shadow::watch`), so that maintenance of it comes to Rust. The guest's DACR is looked at each time.

use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_isa::{MemSize, Op};
use spica_mmu::DomainAccess;

/// Places that can be known: pairs, by the low bits of their address.
const SITES: usize = 64;

/// What a place in the code cache is known to reach.
#[derive(Clone, Copy)]
struct Site {
    pc: u32,
    /// `Translator::generation` then.
    generation: u64,
    write: bool,
    va: GuestVa,
    domain: u8,
    device: Known,
}

/// What is known of a place that reaches a device.
#[derive(Clone, Copy)]
pub struct Known {
    /// The guest's PA of the device's page.
    pub page: GuestPa,
    /// The register that is loaded or stored, and nothing else changes: of LDR and STR of a word.
    pub plain: Option<u8>,
}

impl Known {
    /// Of the word in the code cache that reaches the device in `page`.
    pub fn new(page: GuestPa, word: u32) -> Known {
        let plain = match spica_isa::decode(word).op {
            Op::Mem(mem) if mem.size == MemSize::Word && mem.pre && !mem.writeback && !mem.rt.is_pc() => {
                Some(mem.rt.n() as u8)
            }
            _ => None,
        };
        Known { page: page.page(), plain }
    }
}

/// What is known of places that reach devices.
pub struct Sites {
    sites: [Option<Site>; SITES],
    /// There is one.
    used: bool,
}

impl Default for Sites {
    fn default() -> Self {
        Sites { sites: [None; SITES], used: false }
    }
}

impl Sites {
    /// The first of the pair for `pc`.
    const fn index(pc: CachePc) -> usize {
        (pc.0 >> 2) as usize * 2 % SITES
    }

    /// What is known of the word at `pc`, in code-cache generation `generation`: that it reaches a device in the page
    /// of `va`, if `dacr` allows it.
    pub fn get(&self, pc: CachePc, generation: u64, va: GuestVa, write: bool, dacr: u32) -> Option<Known> {
        let pair = &self.sites[Self::index(pc)..][..2];
        let site = pair.iter().flatten().find(|site| site.pc == pc.0)?;
        let same = site.generation == generation && site.va == va.page() && site.write == write;
        (same && DomainAccess::of(dacr, site.domain) == DomainAccess::Client).then_some(site.device)
    }

    /// Remembers that the word at `pc` reaches a device by the mapping of `va`, in `domain`.
    pub fn note(&mut self, pc: CachePc, generation: u64, va: GuestVa, write: bool, (device, domain): (Known, u8)) {
        let va = va.page();
        self.used = true;
        let first = Self::index(pc);
        // What is there of this place is replaced, else the older of two.
        if self.sites[first].is_some_and(|site| site.pc != pc.0) {
            self.sites[first + 1] = self.sites[first];
        }
        self.sites[first] = Some(Site { pc: pc.0, generation, write, va, domain, device });
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        if core::mem::take(&mut self.used) {
            self.sites.fill(None);
        }
    }
}
