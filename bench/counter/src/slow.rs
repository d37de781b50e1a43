//! Whom Rust works for: what Spica's image executes from one of its entries to the next entry of the guest, by kind of
//! trap (`spica_profile::slow`).
//!
//! QEMU calls the functions here at a few places only. All run on the one thread that runs the board's only processor.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use spica_bench::events;
use spica_dbt::trap;
use spica_profile::{area, slow};

use crate::classify;

/// Where Rust is entered and left, as the plugin's arguments say.
#[derive(Default)]
pub struct Places {
    /// Addresses of entries, each with its kind.
    pub entries: Vec<(u32, usize)>,
    /// The address where the guest is entered.
    pub leave: Option<u32>,
}

/// What is to be noted when an instruction is executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// Translated code traps, with this kind.
    Trap(usize),
    /// Rust is entered, with this kind.
    Enter(usize),
    /// The guest is entered.
    Leave,
}

impl Places {
    /// What is to be noted at an instruction, with the word behind it.
    pub fn note(&self, address: u32, word: u32, behind: u32) -> Option<Note> {
        let traps = word & 0x0f00_0000 == 0x0f00_0000 && word >> 28 != 15;
        if area::is_cached(address) {
            return traps.then(|| Note::Trap(kind(word & 0x00ff_ffff, behind)));
        }
        if area::counter(address) == area::KERNEL_CODE {
            return traps.then(|| Note::Trap(slow::of_trap(trap::REPLACED)));
        }
        if self.leave == Some(address) {
            return Some(Note::Leave);
        }
        self.entries.iter().find(|(entry, _)| *entry == address).map(|(_, kind)| Note::Enter(*kind))
    }
}

/// The kind of a trap of translated code.
fn kind(number: u32, behind: u32) -> usize {
    const SVC: u32 = 0xef00_0000;
    if number != trap::EMULATE {
        return slow::of_trap(number);
    }
    let event = classify::event(behind).map(events::place);
    let trap = || classify::trap(SVC | number, behind).map_or(0, events::place_of_trap);
    slow::of_emulated(event.unwrap_or_else(trap))
}

/// The kind of the last trap of translated code.
static LAST: AtomicUsize = AtomicUsize::new(0);
/// What Rust works for, or did last.
static CURRENT: AtomicUsize = AtomicUsize::new(slow::START);
/// What the image had executed when Rust was entered.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// Takes note; the image has executed so many instructions until now. Where Rust is left: what it worked for, and how
/// many of them that took.
pub fn taken(note: Note, executed: u64) -> Option<(usize, u64)> {
    match note {
        Note::Trap(kind) => LAST.store(kind, Relaxed),
        Note::Enter(kind) => {
            CURRENT.store(if kind == slow::CALL { LAST.load(Relaxed) } else { kind }, Relaxed);
            BEGUN.store(executed, Relaxed);
        }
        Note::Leave => return Some((CURRENT.load(Relaxed), executed.wrapping_sub(BEGUN.load(Relaxed)))),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use spica_bench::events::{Event, Trap};

    #[test]
    fn notes_are_taken_where_they_belong() {
        let places = Places { entries: vec![(area::IMAGE.start, slow::CALL)], leave: Some(area::IMAGE.start + 4) };
        let code = area::CACHE.start + 0x1100;
        assert_eq!(places.note(code, 0xef00_0001, 7), Some(Note::Trap(slow::of_trap(trap::LINK))));
        assert_eq!(places.note(code, 0x1f00_0006, 7), Some(Note::Trap(slow::of_trap(trap::TLB_PAGE))));
        let flush = slow::of_emulated(events::place(Event::TlbFlush));
        assert_eq!(places.note(code, 0xef00_0003, 0xee08_0f17), Some(Note::Trap(flush)));
        let sleep = slow::of_emulated(events::place_of_trap(Trap::Sleep));
        assert_eq!(places.note(code, 0xef00_0003, 0xe320_f003), Some(Note::Trap(sleep)));
        assert_eq!(places.note(code, 0xe1a0_0000, 0), None);
        assert_eq!(places.note(area::IMAGE.start, 0xef00_0001, 0), Some(Note::Enter(slow::CALL)));
        assert_eq!(places.note(area::IMAGE.start + 4, 0, 0), Some(Note::Leave));
        assert_eq!(places.note(0x1_0000, 0xef00_0000, 0), None);
        assert_eq!(places.note(area::NEAR.start, 0xef00_0001, 7), Some(Note::Trap(slow::of_trap(trap::LINK))));
        assert_eq!(places.note(0xc010_0000, 0xef00_0a20, 7), Some(Note::Trap(slow::of_trap(trap::REPLACED))));
    }

    #[test]
    fn rust_works_for_what_entered_it() {
        assert_eq!(taken(Note::Leave, 1000), Some((slow::START, 1000)));
        assert_eq!(taken(Note::Trap(20), 1000), None);
        assert_eq!(taken(Note::Enter(5), 1010), None);
        assert_eq!(taken(Note::Leave, 1110), Some((5, 100)));
        assert_eq!(taken(Note::Enter(slow::CALL), 2000), None);
        assert_eq!(taken(Note::Leave, 2001), Some((20, 1)));
    }
}
