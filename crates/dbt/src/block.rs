//! One block: a run of guest instructions from one entry, translated in order.
//!
//! It ends at unconditional control flow, at the end of the guest's page, at the size limit, or where the code page is
//! full. Translation is a function of the guest's words and of where the block lies in the cache, so that it can be
//! repeated to find the guest instruction of a code-cache address.

use crate::emit::Emitter;
use crate::options::Options;
use crate::papers::spill::Place;
use crate::records::MAX_LENGTH;
use crate::rules::{self, Flow};
use spica_addr::GuestVa;
use spica_isa::Reg;

/// What must be put right in the guest's registers before it sees a fault in the middle of a translation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Undo {
    /// This register's value is there.
    pub spilled: Option<(Reg, Place)>,
    /// This register is to be increased by that.
    pub adjust: Option<(Reg, u32)>,
    /// This register has been used for something else. It does not matter: no fault can come before the instruction at
    /// this place overwrites it.
    pub lost: Option<Reg>,
}

impl Undo {
    /// Nothing.
    pub const NONE: Undo = Undo { spilled: None, adjust: None, lost: None };

    /// A spilled register.
    #[must_use]
    pub const fn spilled(reg: Reg, place: Place) -> Undo {
        Undo { spilled: Some((reg, place)), ..Undo::NONE }
    }

    /// The same, with a base register to be corrected as well.
    #[must_use]
    pub const fn adjusting(self, reg: Reg, by: u32) -> Undo {
        Undo { adjust: Some((reg, by)), ..self }
    }
}

/// The guest instruction that a code-cache address belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Location {
    /// Its address.
    pub guest: GuestVa,
    /// What to undo if it faults there.
    pub undo: Undo,
}

/// Translates the block at `entry`, of at most `limit` instructions, with the guest's words fetched by `fetch` from the
/// page of `entry` only. Returns the number of guest instructions in it. With that as the limit, it is the same again.
pub fn translate(
    emitter: &mut Emitter<'_>,
    options: &Options,
    entry: GuestVa,
    limit: usize,
    mut fetch: impl FnMut(GuestVa) -> u32,
) -> usize {
    let limit = limit.clamp(1, MAX_LENGTH);
    let mut pc = entry;
    let mut count = 0;
    let mut lost = None;
    emitter.begin(entry);
    emitter.set_last(entry.wrapping_add(4 * (limit as u32 - 1)));
    if emitter.mirror_of(entry).is_some() {
        rules::landing(emitter);
    }
    loop {
        emitter.begin(pc);
        emitter.set_undo(Undo { lost, ..Undo::NONE });
        let decoded = spica_isa::decode(fetch(pc));
        let flow = rules::translate(emitter, options, &decoded, pc);
        count += 1;
        pc = pc.wrapping_add(4);
        if flow == Flow::Ends {
            return count;
        }
        // There is room: the rule for the instruction used less of it than there was to be, by more than a word.
        lost = emitter.take_joined();
        if lost.is_some() {
            continue;
        }
        if pc.page_offset() == 0 || count >= limit || !emitter.has_room() || flow == Flow::Splits {
            emitter.begin(pc);
            emitter.exit(pc);
            return count;
        }
    }
}
