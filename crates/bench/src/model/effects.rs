//! What a trap does to the core beside being an exception and running instructions.
//!
//! Each trap changes vectors, many change translation tables, and all of them push the guest's entries out of the TLBs.
//! How often is known from Spica's own code, within limits: its fast paths do less than its slow ones, and what they do
//! depends on the version. So these are assumptions, with ranges, and reports list them as such. They stand in where
//! nobody counted, which would flatter the hypervisor if it were left out: for TLB misses always, because QEMU has no
//! such TLB. Where the events were counted, they only say which part of T_virt the counted ones belong to. They stand
//! on the guest's side alone: what the guest's kernel does of its own accord it does on both sides.

use crate::events::{Event, Trap};
use crate::model::costs::Range;

/// How often a trap does something, beyond what the bare board would have done.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Effect {
    /// What it does.
    pub event: Event,
    /// How often per trap.
    pub times: Range,
}

/// Changes of translation tables per trap.
const fn switches(trap: Trap) -> Range {
    match trap {
        // To the hypervisor's own tables, and back.
        Trap::HiddenFault | Trap::GuestAbort | Trap::ProtectedWrite | Trap::Mmio => Range::new(0.0, 2.0, 2.0),
        // From the guest's user view to its kernel view.
        Trap::UserCall => Range::new(0.0, 1.0, 1.0),
        // Back; none within the kernel.
        Trap::ExceptionReturn => Range::new(0.0, 0.5, 1.0),
        // Emulation changes them where it looks into the guest's memory.
        Trap::Coprocessor | Trap::UserBank | Trap::Unprivileged | Trap::Interrupt => Range::new(0.0, 0.0, 2.0),
        _ => Range::exactly(0.0),
    }
}

/// What a trap of that class does.
#[must_use]
pub fn effects(trap: Trap) -> [Effect; 5] {
    let switches = switches(trap);
    // The vectors are changed on the way in and on the way out, each with a barrier, unless a fast path handles the
    // trap. A change of tables is a write of CONTEXTIDR, two of TTBR0 and three barriers (ARM ARM B3.10.4).
    let vectors = Range::new(0.0, 2.0, 2.0);
    // The hypervisor's code, stack and data take a few entries; under tables of its own, those of all that it touches.
    let misses = Range::new(0.0, 1.0, 6.0) + switches * Range::new(0.0, 2.0, 6.0);
    let effect = |event, times| Effect { event, times };
    [
        effect(Event::CoprocessorWrite, vectors),
        effect(Event::AsidWrite, switches),
        effect(Event::TtbrWrite, switches * 2.0),
        effect(Event::Barrier, vectors + switches * 3.0),
        effect(Event::TlbMiss, misses),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_effect_is_a_range() {
        for &trap in Trap::ALL {
            for Effect { event, times } in effects(trap) {
                assert!(
                    0.0 <= times.low && times.low <= times.mid && times.mid <= times.high,
                    "{trap}, {event}: {times:?}"
                );
            }
        }
    }

    #[test]
    fn a_hidden_fault_changes_tables_twice() {
        let of = |event| effects(Trap::HiddenFault).into_iter().find(|e| e.event == event).unwrap().times;
        assert_eq!(of(Event::TtbrWrite).mid, 4.0);
        assert_eq!(of(Event::AsidWrite).mid, 2.0);
        assert_eq!(of(Event::Barrier).mid, 2.0 + 6.0);
        assert_eq!(of(Event::TlbMiss), Range::new(0.0, 1.0 + 4.0, 6.0 + 12.0));
    }
}
