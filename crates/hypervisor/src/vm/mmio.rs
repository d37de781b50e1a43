//! Places in the code cache that reach devices, and where: the loads and stores of a guest's interrupt and timer
//! handlers, which come back with every tick.
//!
//! The first time, an abort finds out all that there is to know: that the guest's tables allow the access and lead to a
//! device, and that the word in the code cache stands for an instruction that may be interpreted in its place. This
//! remembers it, as a TLB would remember a mapping: small global pages only, until the guest's TLB maintenance, a
//! change of its tables other than that of a process switch, or a flush of the code cache. The page is watched
//! (`Shadow::watch`), so that maintenance of it comes to Rust. The guest's DACR is looked at each time.

use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_mmu::DomainAccess;

/// Places that can be known: pairs, by the low bits of their address.
const SITES: usize = 64;

/// What a place in the code cache is known to reach.
#[derive(Clone, Copy, Default)]
struct Site {
    pc: u32,
    /// `Translator::generation` then.
    generation: u64,
    write: bool,
    va: GuestVa,
    pa: GuestPa,
    domain: u8,
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

    /// The guest's PA of the page of `va`, if the word at `pc`, in code-cache generation `generation`, is known to
    /// reach a device there, and `dacr` allows it.
    pub fn get(&self, pc: CachePc, generation: u64, va: GuestVa, write: bool, dacr: u32) -> Option<GuestPa> {
        let pair = &self.sites[Self::index(pc)..][..2];
        let site = pair.iter().flatten().find(|site| site.pc == pc.0)?;
        let same = site.generation == generation && site.va == va.page() && site.write == write;
        (same && DomainAccess::of(dacr, site.domain) == DomainAccess::Client).then_some(site.pa)
    }

    /// Remembers that the word at `pc` reaches a device at `pa` by the mapping of `va`, in `domain`.
    pub fn note(&mut self, pc: CachePc, generation: u64, va: GuestVa, write: bool, (pa, domain): (GuestPa, u8)) {
        let (va, pa) = (va.page(), pa.page());
        self.used = true;
        let first = Self::index(pc);
        // What is there of this place is replaced, else the older of two.
        if self.sites[first].is_some_and(|site| site.pc != pc.0) {
            self.sites[first + 1] = self.sites[first];
        }
        self.sites[first] = Some(Site { pc: pc.0, generation, write, va, pa, domain });
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        if core::mem::take(&mut self.used) {
            self.sites.fill(None);
        }
    }
}
