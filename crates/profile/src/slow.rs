//! Kinds of slow traps: what Rust was entered for, from there to the next entry of the guest.
//!
//! Functions say where Rust spends its instructions, not for whom. So the plugin also sums up all that the image executes from an
//! entry of Rust (`SAVE_AND_LEAVE` in `crates/hypervisor/src/world/switch.s`) to the next `world_enter`, by the entry's label; for
//! traps of translated code, by the last `SVC` in the code cache; and for interpreted instructions, by what they are.

use spica_bench::events::{COUNTERS, Event, Trap};
use spica_dbt::trap;

/// Labels of entries, and what they are entered for.
const ENTRIES: [(&str, &str); 12] = [
    ("kernel_call", "trap of kernel code"),
    ("kernel_undefined", "a place in the return mirror without a block; undefined instruction"),
    ("kernel_prefetch_abort", "a place in the return mirror without a page"),
    ("kernel_data_abort", "data abort of kernel code"),
    ("kernel_irq", "interrupt of kernel code"),
    ("kernel_fiq", "fast interrupt of kernel code"),
    ("user_undefined", "undefined instruction of user code"),
    ("user_call", "system call of user code"),
    ("user_prefetch_abort", "prefetch abort of user code"),
    ("user_data_abort", "data abort of user code"),
    ("user_irq", "interrupt of user code"),
    ("user_fiq", "fast interrupt of user code"),
];

/// Kind of what comes before the guest is entered for the first time.
pub const START: usize = 0;
/// Kind of the entry for traps of translated code, in place of which the kind of the trap counts.
pub const CALL: usize = 1;
const TRAPS: usize = CALL + ENTRIES.len();
const EMULATED: usize = TRAPS + trap::CLOSED as usize + 1;
/// How many kinds there are.
pub const KINDS: usize = EMULATED + COUNTERS;

/// Labels of the entries of Rust, with their kinds.
pub fn entries() -> impl Iterator<Item = (&'static str, usize)> {
    ENTRIES.iter().enumerate().map(|(at, (label, _))| (*label, CALL + at))
}

/// The label behind which Rust is left.
pub const LEFT: &str = "world_enter";

/// The kind of a trap of translated code, but for those of interpreted instructions.
#[must_use]
pub fn of_trap(number: u32) -> usize {
    TRAPS + trap::number(number).min(trap::CLOSED) as usize
}

/// The kind of an interpreted instruction: by the counter of `spica_bench::events` that it belongs to.
#[must_use]
pub fn of_emulated(counter: usize) -> usize {
    EMULATED + counter.min(COUNTERS - 1)
}

/// For people.
#[must_use]
pub fn name(kind: usize) -> String {
    if kind == START {
        return "start".into();
    }
    if let Some((_, name)) = ENTRIES.get(kind - CALL) {
        return (*name).into();
    }
    if kind >= EMULATED {
        let counter = kind - EMULATED;
        let name = match Event::ALL.get(counter) {
            Some(event) => event.label(),
            None => Trap::ALL.get(counter - Event::ALL.len()).map_or("", |trap| trap.label()),
        };
        return format!("interpreted: {name}");
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
        trap::CLOSED => "branch that was closed for an interrupt",
        _ => "trap without a name",
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use spica_bench::events::{place, place_of_trap};

    #[test]
    fn every_kind_has_its_name() {
        assert_eq!(name(START), "start");
        assert_eq!(entries().find(|(label, _)| *label == "kernel_call"), Some(("kernel_call", CALL)));
        let user = entries().find(|(label, _)| *label == "user_data_abort").unwrap().1;
        assert_eq!(name(user), "data abort of user code");
        assert_eq!(name(of_trap(trap::LINK)), "direct branch that is not linked");
        assert_eq!(name(of_trap(trap::tlb_range(3, 4))), "maintenance of a TLB entry");
        assert_eq!(name(of_trap(trap::CLOSED + 3)), "branch that was closed for an interrupt");
        assert_eq!(name(of_emulated(place(Event::TlbFlush))), "interpreted: TLB flush");
        assert_eq!(name(of_emulated(place_of_trap(Trap::Interrupt))), "interpreted: interrupt of the board");
        assert_eq!(of_emulated(COUNTERS - 1), KINDS - 1);
    }
}
