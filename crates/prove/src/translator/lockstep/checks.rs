//! Accesses that are looked at, as of a kernel's heap or to see who uses which line, and places that are told of: what
//! the traps for them find.
//!
//! A mark is set or not by its address alone. Each trap has to find the guest's registers as they were before the
//! instruction, and each set mark has to be found.

use crate::random::Random;
use crate::translator::generate::Window;
use crate::translator::lockstep::blocks::Place;
use crate::translator::lockstep::{Lockstep, Next};
use crate::translator::model;
use spica_addr::{CachePc, GuestVa};
use spica_dbt::checks::{Accessed, Checks, LOADS, Look, STORES};
use spica_dbt::trap;
use spica_isa::{Op, decode};

/// Places that are told of.
const HOOKS: u8 = 12;

/// The byte of marks with this number: a quarter of all are set.
pub(in crate::translator) fn marks(number: u32) -> u32 {
    let spread = number.wrapping_mul(0x9e37_79b1);
    (spread >> 24) & (spread >> 16) & 0xff
}

/// Whether the mark of an address is set; of a line's, that of loads or stores.
fn is_marked(look: Look, address: u32, stores: bool) -> bool {
    let bit = match look {
        Look::Granule => address >> 3 & 7,
        Look::Line => {
            if stores {
                STORES
            } else {
                LOADS
            }
        }
    };
    marks(address >> 6 & 0x7f_ffff) >> bit & 1 != 0
}

/// How many marks that are looked at are set.
fn expected((look, both): (Look, bool), accessed: &Accessed, regs: &[u32]) -> u32 {
    let address = accessed.address(regs);
    let looks: &[u32] = match (look, accessed.bytes) {
        (_, 0..=4) => &[0],
        (Look::Granule, 5..=8) if !both => &[4],
        (_, bytes) => &[0, bytes - 4],
    };
    // What begins as a load may be followed by its store, at which nobody looks.
    let stores = accessed.write || accessed.exclusive;
    looks.iter().map(|&at| u32::from(is_marked(look, address.wrapping_add(at), stores))).sum()
}

impl Lockstep {
    /// From now on accesses are looked at, and some instructions of `window` told of.
    /// In some cases edges are counted instead.
    pub fn check_accesses(&mut self, random: &mut Random, window: &Window) {
        (self.looked, self.exclusives, self.edges) = (0, false, None);
        if random.one_in(4) {
            return self.count_edges(random, window);
        }
        let (look, both) = (if random.one_in(2) { Look::Line } else { Look::Granule }, random.one_in(2));
        self.look = (look, both);
        let mut checks = Box::new(Checks::new(look));
        if both {
            checks.look_at_both();
        }
        self.tell_of_places(&mut checks, random, window);
        self.translator.start_checking(checks, &mut self.code);
    }

    /// Some instructions of `window` are told of, and some code may be left alone.
    pub(super) fn tell_of_places(&mut self, checks: &mut Checks, random: &mut Random, window: &Window) {
        self.hooks = (0..HOOKS).map(|_| window.address(random) & !3).collect();
        for (number, &at) in (0..).zip(&self.hooks) {
            // Two may be the same.
            let _ = checks.hook(GuestVa(at), number);
        }
        if random.one_in(4) {
            self.skipped_code = window.start..window.start + 64;
            checks.skip(GuestVa(window.start), GuestVa(window.start + 64));
        } else {
            self.skipped_code = 0..0;
        }
    }

    /// A trap for an access whose mark is set, or at a place that is told of.
    pub(super) fn checked(&mut self, word: u32, behind: CachePc, place: Place) -> Next {
        let guest = place.location.guest.0;
        if trap::number(word) == trap::HOOK {
            if self.hooks.get(usize::from(trap::hook_number(word))) != Some(&guest) {
                self.fail(&format!("{guest:#x} is told of as something else"));
            }
            self.compare(&self.machine.r.clone(), guest);
            self.note("a place is told of");
            return Next::Cache(behind.0);
        }
        let mut regs = self.machine.r;
        trap::unspill(word, &mut regs, &self.cpu.page.spill);
        self.compare(&regs, guest);
        let Some(accessed) = Accessed::of(&decode(self.reference_memory.word(guest))) else {
            self.fail(&format!("what is at {guest:#x} accesses nothing"));
        };
        if expected(self.look, &accessed, &regs) == 0 {
            self.fail(&format!("no mark is set for what is at {guest:#x}"));
        }
        self.looked += 1;
        self.note(match (self.look.0, accessed.line_bit()) {
            (Look::Granule, _) => "an access whose mark is set",
            (Look::Line, LOADS) => "a load whose line's mark is set",
            (Look::Line, _) => "a store whose line's mark is set",
        });
        Next::Cache(behind.0)
    }

    /// The reference is about to execute an instruction that the host has executed.
    pub(super) fn compare_looks(&mut self) {
        let looked = std::mem::take(&mut self.looked);
        let guest = self.reference.pc;
        if !self.translator.checks() || self.reference.psr & model::T != 0 {
            return;
        }
        if self.edges.is_some() {
            return self.compare_edges(looked);
        }
        let decoded = decode(self.reference_memory.word(guest));
        // Between two of these nothing is looked at, which depends on where blocks begin.
        self.exclusives |= matches!(decoded.op, Op::Exclusive | Op::ClearExclusive);
        if self.exclusives {
            return;
        }
        let accessed = Accessed::of(&decoded).filter(|_| !self.skipped_code.contains(&guest));
        let expected = accessed.map_or(0, |accessed| expected(self.look, &accessed, &self.reference.r));
        if looked != expected {
            self.fail(&format!("{looked} looks at what is at {guest:#x}, not {expected}"));
        }
    }
}
