//! Address spaces that assembly may switch to: a guest's writes to TTBR0 and CONTEXTIDR, without Rust (`fast.s`).
//!
//! Linux changes both at each process switch, and TTBR0 once more in between (to no user space at all). What they
//! select has most often been there before, and its tables and ASIDs are still the same.

use alloc::boxed::Box;
use alloc::vec;

use spica_mmu::{Changed, Shadow};

use super::{Context, NO_ASID, ViewRegisters};

/// Bits of the hash of TTBR0 that chooses a set of slots, which `fast.s` has again.
pub(super) const SET_BITS: u32 = 7;
/// Sets of slots. Of forty processes, which a server or hackbench easily has,
/// some would share a slot whatever the hash is, and go through Rust at each switch between them.
const SETS: usize = 1 << SET_BITS;
/// Slots of a set.
pub(super) const WAYS: usize = 2;
const SLOTS: usize = SETS * WAYS;

/// The first slot of those where a TTBR0 may be: tables are aligned to 16 KB, and RAM has more of them than there are
/// sets.
fn first_slot(ttbr0: u32) -> usize {
    ((ttbr0 ^ (ttbr0 >> SET_BITS)) >> 14) as usize % SETS * WAYS
}

/// A space, by the guest's TTBR0 and ASID. The layout is known to `fast.s`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SpaceSlot {
    /// TTBR0, all of it.
    pub(super) ttbr0: u32,
    /// Which bits of CONTEXTIDR matter: those of the ASID, or none where the space holds nothing that depends on it.
    pub(super) mask: u32,
    /// Their values.
    pub(super) asid: u32,
    pub(super) kernel: [u32; 2],
    pub(super) user: [u32; 2],
    /// What [`TableRecords::tlb_asid`](super::TableRecords::tlb_asid) is in it.
    pub(super) tlb_asid: u32,
    /// And [`TableRecords::private`](super::TableRecords::private).
    pub(super) private: *const u32,
    /// Which of the shadow's spaces it is.
    index: usize,
    _padding: [u32; 6],
}

impl SpaceSlot {
    /// Whether nobody would find the other slot behind this one, since both are for the same registers.
    fn is_for(&self, other: &SpaceSlot) -> bool {
        (self.ttbr0, self.mask, self.asid) == (other.ttbr0, other.mask, other.asid)
    }
}

/// No TTBR0 that is looked for has this and its slot's bits.
const EMPTY: SpaceSlot = SpaceSlot {
    ttbr0: 0,
    mask: 0,
    asid: 1,
    kernel: [0; 2],
    user: [0; 2],
    tlb_asid: NO_ASID,
    private: core::ptr::null(),
    index: 0,
    _padding: [0; 6],
};

/// The spaces of a guest that are known.
pub struct KnownSpaces {
    // The trap handler keeps a pointer to it.
    slots: Box<[SpaceSlot]>,
    /// A bit for each slot that is in use.
    used: [u32; SLOTS / 32],
    /// [`spica_mmu::Shadow::generation`] when they were entered.
    generation: u32,
    /// The same, or one that it is not, as long as entries are noticed.
    mark: u32,
    noticed: bool,
}

impl KnownSpaces {
    /// None.
    pub fn new() -> KnownSpaces {
        KnownSpaces { slots: vec![EMPTY; SLOTS].into(), used: [0; SLOTS / 32], generation: 0, mark: 0, noticed: false }
    }

    /// The slots, for the trap handler; they stay where they are.
    pub fn slots(&self) -> *const SpaceSlot {
        self.slots.as_ptr()
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.forget_if(|_| true);
    }

    fn forget_if(&mut self, wanted: impl Fn(&SpaceSlot) -> bool) {
        for (used, slots) in self.used.iter_mut().zip(self.slots.chunks_mut(32)) {
            let mut left = *used;
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                if wanted(&slots[bit as usize]) {
                    slots[bit as usize] = EMPTY;
                    *used &= !(1 << bit);
                }
            }
        }
    }

    /// Whether something has become of spaces that [`KnownSpaces::catch_up`] does not know of.
    #[inline]
    pub fn is_behind(&self, shadow: &Shadow) -> bool {
        self.generation != shadow.generation()
    }

    /// Whether there is something to do before the guest is entered: to [catch up](Self::catch_up), or to
    /// [notice](Self::notice) that. One question for both, since it comes at each trap.
    #[inline]
    pub fn is_asked(&self, shadow: &Shadow) -> bool {
        self.mark != shadow.generation()
    }

    /// Each entry into the guest is to be noticed from now on, or none is.
    pub fn notice(&mut self, noticed: bool) {
        self.noticed = noticed;
        self.set_mark();
    }

    fn set_mark(&mut self) {
        self.mark = self.generation.wrapping_sub(self.noticed.into());
    }

    /// Forgets those that are not what they were.
    #[inline]
    pub fn catch_up(&mut self, shadow: &mut Shadow) {
        if self.is_behind(shadow) {
            self.generation = shadow.generation();
            self.set_mark();
            self.forget(shadow.take_changed());
        }
    }

    fn forget(&mut self, changed: Changed) {
        // A space that is good under any ASID holds nothing that depends on one: no number is to be found in its slot.
        self.forget_if(|slot| changed.concerns(slot.index, if slot.mask == 0 { NO_ASID } else { slot.asid }));
    }

    /// The active space, number `index`, is the one that the guest's TTBR0 and, where it matters, `asid` select.
    pub fn enter(&mut self, context: &Context, index: usize, asid: Option<u8>, tlb_asid: u32) {
        let (mask, asid) = asid.map_or((0, 0), |asid| (0xff, asid.into()));
        let tables = |registers: &ViewRegisters| [registers.ttbr0, registers.contextidr];
        let ttbr0 = context.cpu.cp15.ttbr0;
        let (kernel, user) = (tables(&context.kernel), tables(&context.user));
        let entered = SpaceSlot {
            ttbr0,
            mask,
            asid,
            kernel,
            user,
            tlb_asid,
            private: context.tables.private,
            index,
            _padding: [0; 6],
        };
        // The newest is the first of its set, where it is found soonest; the older of the others goes, or what this one
        // was.
        let set = first_slot(ttbr0);
        let (newest, older) = (self.slots[set], set + 1);
        if !newest.is_for(&entered) && self.is_used(set) {
            self.slots[older] = newest;
            self.mark_used(older);
        }
        self.slots[set] = entered;
        self.mark_used(set);
    }

    fn is_used(&self, slot: usize) -> bool {
        self.used[slot / 32] >> (slot % 32) & 1 != 0
    }

    fn mark_used(&mut self, slot: usize) {
        self.used[slot / 32] |= 1 << (slot % 32);
    }
}

impl Default for KnownSpaces {
    fn default() -> Self {
        KnownSpaces::new()
    }
}
