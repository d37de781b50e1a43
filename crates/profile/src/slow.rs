//! Kinds of slow traps: what Rust was entered for, from there to the next entry of the guest.
//!
//! Functions say where Rust spends its instructions, not for whom. So the plugin also sums up all that the image
//! executes from an entry of Rust to the next entry of the guest, by what the image says that Rust is entered for there
//! ([`Image`]); for traps of translated code, by the last `SVC` in the code cache; and for interpreted
//! instructions, by what they are.

use spica_bench::events::{COUNTERS, Event, Trap};
use spica_dbt::trap;

use crate::image::Image;

/// Kind of what comes before the guest is entered for the first time.
pub const START: usize = 0;
/// Kind of the entry for traps of translated code, in place of which the kind of the trap counts.
pub const CALL: usize = 1;
/// How many kinds of entries of Rust there can be.
pub const ENTRIES: usize = 24;
const TRAPS: usize = CALL + ENTRIES;
/// Kind of what is executed in place and replaced, for the first time.
const REPLACED: usize = TRAPS + trap::CLOSED as usize + 1;
const EMULATED: usize = REPLACED + 1;
/// How many kinds there are.
pub const KINDS: usize = EMULATED + COUNTERS;

/// The kind of a trap of translated code, but for those of interpreted instructions.
#[must_use]
pub fn of_trap(number: u32) -> usize {
    match trap::number(number) {
        trap::REPLACED => REPLACED,
        number => TRAPS + number.min(trap::CLOSED) as usize,
    }
}

/// The kind of an interpreted instruction: by the counter of `spica_bench::events` that it belongs to.
#[must_use]
pub fn of_emulated(counter: usize) -> usize {
    EMULATED + counter.min(COUNTERS - 1)
}

/// For people.
#[must_use]
pub fn name(kind: usize, image: &Image) -> String {
    if kind == START {
        return "start".into();
    }
    if kind < TRAPS {
        return image.reason(kind).unwrap_or("entry without a name").into();
    }
    if kind >= EMULATED {
        let counter = kind - EMULATED;
        let name = match Event::ALL.get(counter) {
            Some(event) => event.label(),
            None => Trap::ALL.get(counter - Event::ALL.len()).map_or("", |trap| trap.label()),
        };
        return format!("interpreted: {name}");
    }
    if kind == REPLACED {
        return "replaced instruction, executed for the first time".into();
    }
    match (kind - TRAPS) as u32 {
        trap::LINK => "direct branch that is not linked",
        trap::INDIRECT => "indirect branch that the jump cache does not know",
        trap::DACR => "DACR",
        trap::EXCEPTION_RETURN => "exception return",
        trap::TLB_PAGE | trap::TLB_RANGE => "maintenance of a TLB entry",
        trap::UNPRIVILEGED_LOAD => "unprivileged load",
        trap::UNPRIVILEGED_STORE => "unprivileged store",
        trap::VFP => "FPEXC",
        trap::COUNTER => "the timer's counter",
        trap::TTBR0 => "TTBR0",
        trap::CONTEXTIDR => "CONTEXTIDR",
        trap::CLEAN_LINE => "cleaning of a cache line",
        trap::FORGET_LINE => "invalidation of a line of instructions",
        trap::CLOSED => "branch that was closed for an interrupt",
        _ => "trap without a name",
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Entry;
    use spica_bench::events::{place, place_of_trap};

    #[test]
    fn every_kind_has_its_name() {
        let entry = Entry { at: 0, kind: CALL + 1, reason: "data abort of user code".into() };
        let image = Image { entries: vec![entry], ..Image::default() };
        let name = |kind| name(kind, &image);
        assert_eq!(name(START), "start");
        assert_eq!(name(CALL + 1), "data abort of user code");
        assert_eq!(name(of_trap(trap::LINK)), "direct branch that is not linked");
        assert_eq!(name(of_trap(trap::tlb_range(3, 4))), "maintenance of a TLB entry");
        assert_eq!(name(of_trap(trap::CLOSED + 3)), "branch that was closed for an interrupt");
        for number in [trap::EXCEPTION_RETURN, trap::LENT_EXCEPTION_RETURN, trap::LENT_VECTOR_RETURN] {
            assert_eq!(name(of_trap(number)), "exception return");
        }
        assert_eq!(name(of_trap(trap::REPLACED)), "replaced instruction, executed for the first time");
        assert_eq!(name(of_emulated(place(Event::TlbFlush))), "interpreted: TLB flush");
        assert_eq!(name(of_emulated(place_of_trap(Trap::Interrupt))), "interpreted: interrupt of the board");
        assert_eq!(of_emulated(COUNTERS - 1), KINDS - 1);
    }
}
