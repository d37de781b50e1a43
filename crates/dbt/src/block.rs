//! One block: a run of guest instructions from one entry, translated in order.
//!
//! It is A32 or T32 as a whole ([`crate::at`]). It ends at unconditional control flow, at the end of the guest's page,
//! at the size limit, or where the code page is full. Translation is a function of the guest's words and of where the
//! block lies in the cache, so that it can be repeated to find the guest instruction of a code-cache address.

use crate::at::{At, address};
use crate::client::Client;
use crate::emit::Emitter;
use crate::layout::PAGE;
use crate::options::Options;
use crate::papers::spill::Place;
use crate::records::MAX_LENGTH;
use crate::rules::{self, Flow};
use spica_addr::GuestVa;
use spica_isa::Reg;
use spica_isa::t32::{self, Code, ItState};

/// What must be put right in the guest's registers before it sees a fault in the middle of a translation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Undo {
    /// This register's value is there.
    pub spilled: Option<(Reg, Place)>,
    /// And this one's in spill slot 1 of the vCPU page.
    pub beside: Option<Reg>,
    /// This register is to be increased by that.
    pub adjust: Option<(Reg, u32)>,
    /// This register has been used for something else. It does not matter: no fault can come before the instruction at
    /// this place overwrites it.
    pub lost: Option<Reg>,
}

impl Undo {
    /// Nothing.
    pub const NONE: Undo = Undo { spilled: None, beside: None, adjust: None, lost: None };

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
    /// Its address, with bit 0 set if it is T32.
    pub guest: GuestVa,
    /// The ITSTATE that it is executed in.
    pub it: ItState,
    /// What to undo if it faults there.
    pub undo: Undo,
}

/// Translates the block at `entry`, of at most `limit` instructions, with the guest's words fetched by `fetch` from the
/// page of `entry` only. `client` sees its runs. Returns the number of guest instructions in it. With that as the
/// limit, it is the same again.
pub fn translate<C: Client>(
    emitter: &mut Emitter<'_>,
    options: &Options,
    entry: GuestVa,
    limit: usize,
    client: &mut C,
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
    client.run_begins(emitter, entry);
    loop {
        // Nobody looks at what is copied.
        if C::ROOM == 0 && lost.is_none() {
            let in_page = (PAGE - pc.page_offset()) as usize / 4;
            let copied = emitter.copy(pc, in_page.min(limit - count), &mut fetch);
            count += copied;
            pc = pc.wrapping_add(4 * copied as u32);
            if copied != 0 && (pc.page_offset() == 0 || count >= limit || !emitter.has_room()) {
                emitter.begin(pc);
                emitter.exit(pc);
                return count;
            }
        }
        emitter.begin(pc);
        emitter.set_undo(Undo { lost, ..Undo::NONE });
        let decoded = spica_isa::decode(fetch(pc));
        // What is joined to the instruction before it is no access, and has one word.
        if lost.is_none() {
            client.instruction(emitter, &decoded, pc);
        }
        let flow = rules::translate(emitter, options, &decoded, At::a32(pc));
        count += 1;
        pc = pc.wrapping_add(4);
        client.run_ends(pc);
        if flow == Flow::Ends {
            return count;
        }
        // There is room: the rule for the instruction used less of it than there was to be, by more than two words.
        let before = lost;
        lost = emitter.take_joined();
        // An ISB gives back nothing: what comes behind it does.
        if flow == Flow::Splits {
            lost = lost.or(before);
        }
        if lost.is_some() {
            continue;
        }
        if pc.page_offset() == 0 || count >= limit || !emitter.has_room_beside(C::ROOM) || flow == Flow::Splits {
            emitter.begin(pc);
            emitter.exit(pc);
            return count;
        }
        if C::ROOM != 0 && rules::may_leave(&decoded) {
            emitter.begin(pc);
            client.run_begins(emitter, pc);
        }
    }
}

/// How far a block of T32 code may go.
#[derive(Clone, Copy)]
pub struct Extent {
    /// In instructions.
    pub limit: usize,
    /// Up to the end of an IT block beyond that, which would have to be left slowly.
    pub whole_it_blocks: bool,
    /// Not to this address.
    pub stop: Option<GuestVa>,
}

/// Translates the block of T32 code at `entry`, whose bit 0 is set, in the state `it` of an IT block. The guest's
/// half-words are fetched by `fetch` from the page of `entry`, and from the page behind for the second half of a first
/// instruction that lies across the end of the page. Returns the number of instructions, and the address behind them.
/// With that number as the limit, and nothing else in `extent`, it is the same again.
pub fn translate_t32(
    emitter: &mut Emitter<'_>,
    options: &Options,
    entry: GuestVa,
    it: ItState,
    extent: Extent,
    mut fetch: impl FnMut(GuestVa) -> u16,
) -> (usize, GuestVa) {
    let limit = extent.limit.clamp(1, MAX_LENGTH);
    let most = if extent.whole_it_blocks { (limit + MOST_IN_IT).min(MAX_LENGTH) } else { limit };
    let (mut pc, mut it) = (address(entry), it);
    let mut count = 0;
    emitter.begin_t32(entry, None, it);
    if emitter.mirror_of(entry).is_some() {
        rules::landing(emitter);
    }
    loop {
        let first = fetch(pc);
        let wide = Code::begins_wide(first);
        let code = Code::new(first, if wide { fetch(pc.wrapping_add(2)) } else { 0 });
        let at = At::t32(pc, code.length());
        emitter.begin_t32(at.entry(), Some(code), it);
        let decoded = t32::decode(code, it);
        emitter.set_may_take(limit.saturating_sub(count + 1), extent.stop);
        let flow = rules::t32(emitter, options, &decoded, at);
        count += 1;
        pc = pc.wrapping_add(code.length());
        let (more, bytes) = emitter.take_taken();
        count += more;
        pc = pc.wrapping_add(bytes);
        if flow == Flow::Ends {
            return (count, pc);
        }
        it = match decoded.op {
            t32::Op::IfThen(state) => state,
            _ => it.advance(),
        };
        let full = count >= if it.in_block() { most } else { limit };
        let ends = full || extent.stop == Some(pc) || !emitter.has_room() || flow == Flow::Splits;
        // An instruction across the end of the page is a block of its own.
        let left = pc.page() == entry.page() && !(pc.page_offset() == LAST_HALF_WORD && Code::begins_wide(fetch(pc)));
        if ends || !left {
            let next = GuestVa(pc.0 | 1);
            emitter.begin_t32(next, None, it);
            emitter.exit_t32(next, it);
            return (count, pc);
        }
    }
}

/// The most instructions of an IT block.
const MOST_IN_IT: usize = 4;
/// Where in a page its last half-word is.
pub const LAST_HALF_WORD: u32 = 0xffe;
