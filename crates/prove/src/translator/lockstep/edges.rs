//! Edges that translated code counts: which it counts, where, and that it does so behind each branch.
//!
//! Each word that reaches the map is compared with what the guest's address says, which is that of the instruction in
//! front of which it stands; and an instruction to which the guest has branched must have been counted.

use crate::random::Random;
use crate::translator::generate::Window;
use crate::translator::lockstep::Lockstep;
use crate::translator::model;
use spica_addr::GuestVa;
use spica_dbt::checks::Checks;
use spica_dbt::edges::{CURRENT, LAST, MAP, MAPS, place};

/// The map that is in force here.
const IN_FORCE: u32 = MAPS + 3 * MAP;

/// What translated code reaches to count an edge.
pub(in crate::translator) struct Edges {
    map: Vec<u8>,
    last: u16,
    /// What was in [`LAST`] when it was loaded, and what was stored there.
    loaded: u16,
    /// The byte of the map that was stored to, with what was there, and what is now.
    counted: Option<(u16, u8, u8)>,
    /// The instruction that is under way was branched to, and the next one will have been.
    expected: bool,
    branched: bool,
}

impl Edges {
    /// What a load finds, if it is one of a counter's.
    pub(in crate::translator) fn load(&mut self, address: u32, bytes: u32) -> Option<u32> {
        match (address, bytes) {
            (LAST, 2) => {
                self.loaded = self.last;
                Some(self.last.into())
            }
            (CURRENT, 4) => Some(IN_FORCE),
            (_, 1) => self.map.get(address.wrapping_sub(IN_FORCE) as usize).map(|&count| count.into()),
            _ => None,
        }
    }

    /// Does a store, if it is one of a counter's.
    pub(in crate::translator) fn store(&mut self, address: u32, bytes: u32, value: u32) -> Option<()> {
        let edge = address.wrapping_sub(IN_FORCE);
        match (address, bytes) {
            (LAST, 2) => self.last = value as u16,
            (_, 1) => {
                let count = self.map.get_mut(edge as usize)?;
                self.counted = Some((edge as u16, std::mem::replace(count, value as u8), value as u8));
            }
            _ => return None,
        }
        Some(())
    }
}

impl Lockstep {
    /// From now on edges are counted, but not those of some code.
    pub(super) fn count_edges(&mut self, random: &mut Random, window: &Window) {
        let mut checks = Box::new(Checks::of_edges());
        self.tell_of_places(&mut checks, random, window);
        let (expected, branched) = (false, false);
        let map = vec![random.pick(&[0, 1, 254, 255]); MAP as usize];
        self.edges =
            Some(Edges { map, last: random.below(1 << 16) as u16, loaded: 0, counted: None, expected, branched });
        self.translator.start_checking(checks, &mut self.code);
    }

    /// A word was executed that stands in front of the guest's instruction at `guest`.
    pub(super) fn check_edge(&mut self, guest: u32) {
        let Some((edge, before, now)) = self.edges.as_mut().and_then(|edges| edges.counted.take()) else { return };
        let Some(edges) = &self.edges else { return };
        let (place, loaded, last) = (place(GuestVa(guest)), edges.loaded, edges.last);
        if (edge, last) != (place ^ loaded, place >> 1) {
            self.fail(&format!("edge {edge:#x} from {loaded:#x}, and {last:#x} is left, at {guest:#x}: {place:#x}"));
        }
        if now != before.checked_add(1).unwrap_or(1) {
            self.fail(&format!("an edge was counted {before} times, and then {now}"));
        }
        self.looked += 1;
        self.note(if before == 255 { "an edge is counted once more than it can be" } else { "an edge is counted" });
    }

    /// The next instruction is under way.
    pub(super) fn begin_edge(&mut self) {
        if let Some(edges) = &mut self.edges {
            edges.expected = std::mem::take(&mut edges.branched);
        }
    }

    /// The reference has gone from `before` to where it is.
    pub(super) fn note_branch(&mut self, before: u32) {
        let branched = self.reference.pc != before.wrapping_add(4) && self.reference.psr & model::T == 0;
        if let Some(edges) = &mut self.edges {
            edges.branched = branched;
        }
    }

    /// The reference is about to execute an instruction in front of which so many edges were counted.
    pub(super) fn compare_edges(&mut self, counted: u32) {
        let Some(edges) = &self.edges else { return };
        let guest = self.reference.pc;
        let skipped = self.skipped_code.contains(&guest);
        if counted > 1 || skipped && counted != 0 {
            self.fail(&format!("{counted} edges are counted that lead to {guest:#x}"));
        }
        if edges.expected && counted == 0 && !skipped {
            self.fail(&format!("the edge that leads to {guest:#x} is not counted"));
        }
    }
}
