//! Address spaces that assembly may switch to: a guest's writes to TTBR0 and CONTEXTIDR, without Rust (`fast.s`).
//!
//! Linux changes both at each process switch, and TTBR0 once more in between (to no user space at all). What they select has most
//! often been there before, and its tables and ASIDs are still the same.

use alloc::boxed::Box;

use super::{Context, NO_ASID, Side};

/// Slots, chosen by six bits of TTBR0.
const SLOTS: usize = 64;

/// A space, by the guest's TTBR0 and ASID. The layout is known to `fast.s`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SpaceSlot {
    /// TTBR0, all of it.
    ttbr0: u32,
    /// Which bits of CONTEXTIDR matter: those of the ASID, or none where the space holds nothing that depends on it.
    mask: u32,
    /// Their values.
    asid: u32,
    kernel: [u32; 2],
    user: [u32; 2],
    /// What [`super::Context::tlb_asid`] is in it.
    tlb_asid: u32,
    /// And [`super::Context::private`].
    private: *const u32,
    _padding: [u32; 7],
}

/// No TTBR0 that is looked for has this and its slot's six bits.
const EMPTY: SpaceSlot = SpaceSlot {
    ttbr0: 0,
    mask: 0,
    asid: 1,
    kernel: [0; 2],
    user: [0; 2],
    tlb_asid: NO_ASID,
    private: core::ptr::null(),
    _padding: [0; 7],
};

/// The spaces of a guest that are known.
pub struct KnownSpaces {
    // The trap handler keeps a pointer to it.
    slots: Box<[SpaceSlot; SLOTS]>,
    /// A bit for each slot that is in use.
    used: u64,
    /// [`spica_mmu::Shadow::generation`] when they were entered.
    generation: u32,
}

impl KnownSpaces {
    /// None.
    pub fn new() -> KnownSpaces {
        KnownSpaces { slots: Box::new([EMPTY; SLOTS]), used: 0, generation: 0 }
    }

    /// The slots, for the trap handler; they stay where they are.
    pub fn slots(&self) -> *const SpaceSlot {
        self.slots.as_ptr()
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        while self.used != 0 {
            self.slots[self.used.trailing_zeros() as usize] = EMPTY;
            self.used &= self.used - 1;
        }
    }

    /// Forgets all of them if they are of another generation.
    #[inline]
    pub fn keep_if(&mut self, generation: u32) {
        if self.generation != generation {
            self.generation = generation;
            self.clear();
        }
    }

    /// The active space is the one that the guest's TTBR0 and, where it matters, `asid` select.
    pub fn enter(&mut self, context: &Context, asid: Option<u8>, tlb_asid: u32) {
        let (mask, asid) = asid.map_or((0, 0), |asid| (0xff, asid.into()));
        let tables = |side: &Side| [side.ttbr0, side.contextidr];
        let ttbr0 = context.cpu.cp15.ttbr0;
        let (kernel, user) = (tables(&context.kernel), tables(&context.user));
        let slot = (ttbr0 >> 14) as usize % SLOTS;
        self.used |= 1 << slot;
        self.slots[slot] =
            SpaceSlot { ttbr0, mask, asid, kernel, user, tlb_asid, private: context.private, _padding: [0; 7] };
    }
}

impl Default for KnownSpaces {
    fn default() -> Self {
        KnownSpaces::new()
    }
}
