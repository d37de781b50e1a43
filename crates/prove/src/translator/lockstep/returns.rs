//! Returns by the shadow stack: what is executed where no call expected them, and what became of each.

use crate::translator::lockstep::blocks::Place;
use crate::translator::lockstep::{Disturb, Lockstep, Next};
use crate::translator::model::Event;
use spica_addr::{CachePc, GuestVa};
use spica_dbt::{Location, Undo};
use spica_isa::t32::ItState;

/// A word that belongs to no block.
const NOWHERE: Place = Place {
    location: Location { guest: GuestVa(0), it: ItState::OUTSIDE, undo: Undo::NONE },
    first: false,
    behind: false,
    form: crate::translator::coverage::Form::NONE,
};

impl Lockstep {
    /// Executes one word in front of the blocks of a page: the return was not expected.
    pub(super) fn missed(&mut self, pc: CachePc) -> Next {
        if std::mem::take(&mut self.popped) {
            // What was popped is put back first, unless that was nothing.
            let empty = self.word(pc.0) & 1 << 20 == 0;
            self.note(if empty { "a return without a call" } else { "a return to elsewhere" });
        }
        let number = self.words;
        self.words += 1;
        let interrupted = match self.disturb {
            Disturb::Random => self.random.one_in(24),
            Disturb::Interrupt(at) => at == number,
            _ => false,
        };
        if interrupted {
            // There is no block to be closed: the look-up that follows has to ask.
            self.leave = Some(pc);
            self.interrupts += 1;
        }
        match self.step(pc) {
            Event::Done => Next::Cache(self.machine.pc),
            Event::Supervisor(number) => self.trapped(number, pc, NOWHERE),
            other => self.fail(&format!("{other:?} in front of the blocks, at {pc}")),
        }
    }
}
