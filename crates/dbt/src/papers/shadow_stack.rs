//! STAR's shadow stack (§5.1.1): calls note where they are returned to, and returns go there without a trap if it is
//! right. Off by default, and there to be compared with the return mirror.
//!
//! A call pushes one word onto a ring in the vCPU page ([`VcpuPage::returns`]): the address of its own **way back**,
//! which lies in its block. A return pops that and jumps there with its target in LR, whatever it is; the way back
//! knows the one address that it is for, and compares. So an entry of the ring need not be taken back when blocks are
//! dropped, unmapped or unlinked: it leads to an exit like any other (`SVC` [`trap::LINK`] where it is not linked),
//! which lasts until the next flush, and a flush is followed by [`clear`]. The exit is linked to pages that are mapped
//! in all address spaces only, for the return may be in another than the call.
//!
//! R0 waits in spill slot 0 meanwhile, the guest's LR in [`LINK_SLOT`], whatever the technique to spill. Pops that were
//! wrong are taken back, since a return that had no call (Linux sets LR by hand for system calls and interrupts) must
//! not shift all those behind it. What never returned stays, and is overwritten after [`RETURNS`] calls.
//!
//! The guest can write to the ring. It can jump anywhere in the code cache without that, too.

use crate::cache::{CodeMemory, Translator, patch};
use crate::emit::Emitter;
use crate::layout::{HOT_FIELDS, Layout, PAGE, PAGE_WORDS};
use crate::options::Options;
use crate::return_mirror::LINK_SLOT;
use crate::rules::{Flow, indirect};
use crate::trap;
use spica_addr::{CachePc, GuestVa};
use spica_isa::{Cond, Decoded, ModImm, Op, Reg, asm, encode};
use spica_vcpu::{RETURNS, VcpuPage, field};

/// `STR PC, [LR, #4]!`: what is stored is the address of the next but one instruction.
pub const PUSH: u32 = 0xe5ae_f004;
/// `LDR PC, [R0], #-4`.
pub const POP: u32 = 0xe410_f004;

const R0: Reg = Reg::new(0);

/// Where no call is expected to return to, or not to this target: the last words in front of the code of each page.
const MISS: usize = FRONT - 7;
/// The same where nothing was popped: what empty entries lead to.
const EMPTY: usize = MISS + 3;

/// The bit that an address in the ring gets by overflow.
const OVERFLOW: u32 = 4 * RETURNS as u32;
const _: () = assert!((field::RETURNS + 4).is_multiple_of(2 * OVERFLOW) && OVERFLOW.is_power_of_two());

/// Words in front of the code of each page.
pub(crate) const FRONT: usize = HOT_FIELDS as usize / 4;

/// Whether calls and returns that do not go through the return mirror use the shadow stack.
pub(crate) const fn is_used(options: &Options) -> bool {
    options.shadow_stack && options.indirect
}

/// LR = `behind`, the address behind the call that is being translated, and noted on the ring. False if there is none.
pub(crate) fn call(e: &mut Emitter<'_>, options: &Options, behind: GuestVa) -> bool {
    if is_used(options) {
        push(e, behind);
    }
    is_used(options)
}

/// A return by the shadow stack, if there is one. `load` gets its target into LR, whose own value is away then.
pub(crate) fn return_by(e: &mut Emitter<'_>, options: &Options, cond: Cond, load: Option<Op>) -> Option<Flow> {
    if !is_used(options) {
        return None;
    }
    let skip = e.begin_skip(cond);
    indirect::put_link_away(e, Cond::Al);
    if let Some(op) = load {
        e.emit(encode(&Decoded { cond: Cond::Al, op, word: 0, uncond: false }));
    }
    pop(e);
    Some(indirect::left(e, skip))
}

fn push(e: &mut Emitter<'_>, behind: GuestVa) {
    let al = Cond::Al;
    let Some(overflow) = ModImm::encode(OVERFLOW) else { unreachable!("a power of two") };
    let literal = e.literal(behind.0);
    e.page_field(true, al, Reg::LR, field::NEWEST_RETURN);
    e.emit(PUSH);
    let over = e.begin_over(al);
    way_back(e, behind, literal);
    e.end_skip(Some(over));
    e.emit(asm::bic_imm(al, Reg::LR, Reg::LR, overflow));
    e.page_field(false, al, Reg::LR, field::NEWEST_RETURN);
    e.load(al, Reg::LR, literal);
}

/// Where a return comes to with its target in LR and the address of the next entry in R0: on to `behind`, if that is
/// the target, without a flag.
fn way_back(e: &mut Emitter<'_>, behind: GuestVa, literal: usize) {
    let al = Cond::Al;
    e.page_field(false, al, R0, field::NEWEST_RETURN);
    e.load(al, R0, literal);
    e.emit(asm::eor_reg(al, R0, R0, Reg::LR));
    e.emit(asm::clz(al, R0, R0));
    e.emit(asm::lsr_imm(al, R0, R0, 5));
    e.emit(asm::add_pc(R0));
    e.emit(asm::NOP);
    e.branch_to(MISS);
    e.page_field(true, al, R0, field::spill(0));
    e.page_field(true, al, Reg::LR, field::spill(LINK_SLOT));
    e.exit_way_back(behind);
}

/// A return to the address in LR. The guest's LR is in its slot.
fn pop(e: &mut Emitter<'_>) {
    e.page_field(false, Cond::Al, R0, field::spill(0));
    e.page_field(true, Cond::Al, R0, field::NEWEST_RETURN);
    e.emit(POP);
}

/// Writes what each code page has in front of its code.
pub(crate) fn begin_page(words: &mut [u32; PAGE_WORDS]) {
    let al = Cond::Al;
    let accesses = [
        (MISS, true, R0, field::NEWEST_RETURN),
        (MISS + 2, false, R0, field::NEWEST_RETURN),
        (EMPTY, false, Reg::LR, field::TARGET),
        (EMPTY + 1, true, Reg::LR, field::spill(LINK_SLOT)),
        (EMPTY + 2, true, R0, field::spill(0)),
    ];
    for (at, load, rt, field) in accesses {
        words[at] = Emitter::field_access(at, load, al, rt, field);
    }
    words[MISS + 1] = asm::offset(al, R0, R0, 4);
    words[EMPTY + 3] = asm::svc(al, trap::INDIRECT);
}

/// What [`POP`] is while it is to trap instead.
const CLOSED: u32 = asm::svc(Cond::Al, trap::CLOSED_RETURN);

/// [`POP`] as an `SVC` that traps instead, if `word` is that.
pub(crate) fn closed(word: u32) -> Option<u32> {
    (word == POP).then_some(CLOSED)
}

impl Translator {
    /// Undoes [`Self::close`] for the return by the shadow stack at `site`. False if there is none.
    pub fn reopen_return(&mut self, site: CachePc, memory: &mut impl CodeMemory) -> bool {
        let closed = |(page, at): &(u32, usize)| memory.page(*page)[*at] == CLOSED;
        let Some((page, at)) = self.layout().find(site).filter(closed) else { return false };
        patch(page, at, POP, memory);
        true
    }
}

impl Emitter<'_> {
    /// An exit to `target` for the way back from a call.
    fn exit_way_back(&mut self, target: GuestVa) {
        self.exit(target);
        self.mark_way_back();
    }
}

/// Empties the ring of a guest whose code cache is at `layout`: whenever
/// [`Translator::generation`](crate::Translator::generation) changes, and when the page is new.
pub fn clear(page: &mut VcpuPage, layout: &Layout) {
    page.returns.fill(layout.code_page(0).0 + 4 * EMPTY as u32);
    page.newest_return = layout.base + field::RETURNS;
}

/// Whether `pc` lies in front of the code of a page, where returns go that no call was noted for.
#[must_use]
pub fn is_miss(pc: CachePc) -> bool {
    (MISS..FRONT).contains(&((pc.0 % PAGE) as usize / 4))
}
