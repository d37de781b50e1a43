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
use spica_machine::map::GICC;
use spica_machine::{GICC_EOIR, GICC_IAR};
use spica_mmu::DomainAccess;

use crate::world::InterruptSite;

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
        Known { page: page.page(), plain: plain_register(word) }
    }
}

/// The register that LDR or STR of a word loads or stores, if it changes no other.
pub fn plain_register(word: u32) -> Option<u8> {
    if let Some(rt) = spica_isa::word_at_offset(word) {
        return Some(rt.n() as u8);
    }
    match spica_isa::decode(word).op {
        Op::Mem(mem) if mem.size == MemSize::Word && mem.pre && !mem.writeback && !mem.rt.is_pc() => {
            Some(mem.rt.n() as u8)
        }
        _ => None,
    }
}

/// What is known of places that reach devices.
pub struct Sites {
    sites: [Option<Site>; SITES],
    /// Where the guest was last seen to read GICC_IAR, where before that, and where to write GICC_EOIR, each with its
    /// address. A handler reads in a loop, which is two blocks if it is entered from above.
    interrupt: [Option<(Site, GuestVa)>; 3],
    /// Changes whenever that does.
    interrupt_version: u32,
    /// There is one.
    used: bool,
}

impl Default for Sites {
    fn default() -> Self {
        Sites { sites: [None; SITES], interrupt: [None; 3], interrupt_version: 0, used: false }
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
        let (at, va) = (va, va.page());
        self.used = true;
        let first = Self::index(pc);
        // What is there of this place is replaced, else the older of two.
        if self.sites[first].is_some_and(|site| site.pc != pc.0) {
            self.sites[first + 1] = self.sites[first];
        }
        let site = Site { pc: pc.0, generation, write, va, domain, device };
        self.sites[first] = Some(site);
        let register = if write { GICC_EOIR } else { GICC_IAR };
        if device.page == GICC && device.plain.is_some() && at.0 - va.0 == register {
            if !write {
                self.interrupt[1] = self.interrupt[0].filter(|(other, _)| other.pc != site.pc);
            }
            self.interrupt[if write { 2 } else { 0 }] = Some((site, at));
            self.interrupt_version += 1;
        }
    }

    /// Two places that read GICC_IAR and one that writes GICC_EOIR, in this code-cache generation, for assembly.
    pub fn interrupt_sites(&self, generation: u64) -> [InterruptSite; 3] {
        self.interrupt.map(|known| {
            let known = known.filter(|(site, _)| site.generation == generation);
            let site = known.and_then(|(site, at)| InterruptSite::new(site.pc, at.0, site.device.plain?, site.domain));
            site.unwrap_or_default()
        })
    }

    /// Changes whenever [`Self::interrupt_sites`] may, within a generation.
    pub const fn interrupt_version(&self) -> u32 {
        self.interrupt_version
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        if core::mem::take(&mut self.used) {
            self.sites.fill(None);
            self.interrupt = [None; 3];
            self.interrupt_version += 1;
        }
    }
}
