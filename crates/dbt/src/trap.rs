//! The traps that translated code makes: `SVC` with a number, and the literal words behind it.
//!
//! **Any number may come from anywhere with any registers**: a hostile guest kernel can jump to any word of a code
//! page, also to a literal that happens to look like an `SVC`. What a trap asks for must therefore be harmless by
//! itself: a link is made only if its exit is one that the translator recorded at that very address, and an emulated
//! instruction is executed with the guest's own rights.

use spica_isa::t32::ItState;

/// `SVC` number of a direct exit that is not linked. One literal word: the guest address that it leads to.
pub const LINK: u32 = 1;
/// `SVC` number of an indirect branch. The target is in the vCPU page.
pub const INDIRECT: u32 = 2;
/// `SVC` number of an instruction to interpret. Two literal words: the instruction, and its guest address.
pub const EMULATE: u32 = 3;
/// `SVC` number of a write to DACR, in the vCPU page already, that may close what is open.
pub const DACR: u32 = 4;
/// `SVC` number of an exception return: the SPSR becomes the CPSR. The target is in the vCPU page.
pub const EXCEPTION_RETURN: u32 = 5;
/// `SVC` number of TLBIMVA (B4.2.2), with its operand where an indirect branch has its target.
pub const TLB_PAGE: u32 = 6;
/// `SVC` number of an unprivileged load, whose address is where an indirect branch has its target. If User mode may do
/// it, the same load with the mode's own rights follows.
pub const UNPRIVILEGED_LOAD: u32 = 7;
/// The same for a store.
pub const UNPRIVILEGED_STORE: u32 = 8;
/// `SVC` number of a write to FPEXC, in the vCPU page already, that turns VFP off while it is really on.
pub const VFP: u32 = 9;
/// `SVC` number of a read of the generic timer's counter: it goes to the vCPU page, from where the block loads it.
pub const COUNTER: u32 = 10;
/// `SVC` number of a write to TTBR0, with the value where an indirect branch has its target. The block goes on, so code
/// that is not mapped in all address spaces sees the change at its end only.
pub const TTBR0: u32 = 11;
/// The same for CONTEXTIDR.
pub const CONTEXTIDR: u32 = 12;
/// `SVC` number of DCCMVAU, DCCMVAC and DCCIMVAC (B4.2.1), with the operand where an indirect branch has its target.
pub const CLEAN_LINE: u32 = 13;
/// The same for ICIMVAU.
pub const FORGET_LINE: u32 = 14;
/// `SVC` number, with that of the end's register in its low three bits, of a [`CLEAN_LINE`] in a loop over lines: see
/// [`LineLoop`].
pub const CLEAN_LINES: u32 = 0x30;
/// The same of a [`FORGET_LINE`].
pub const FORGET_LINES: u32 = 0x38;
/// The same where R12 has the line's address, as it has in Linux's loops over what a program has written: it is not in
/// the vCPU page then.
pub const CLEAN_LINES_AT_R12: u32 = CLEAN_LINES + AT_R12;
/// The same of a [`FORGET_LINE`].
pub const FORGET_LINES_AT_R12: u32 = FORGET_LINES + AT_R12;
const AT_R12: u32 = 0x18;
/// The lowest bit of the line's register in such an `SVC`, which has four bits.
pub const LINE_LOOP_AT: u32 = 10;
/// And of the step's, which has three.
pub const LINE_LOOP_STEP: u32 = 17;
/// `SVC` number of TLBIMVA in a loop over pages, with operands: see [`tlb_range`]. Whoever answers it may do several
/// rounds of the loop at once.
pub const TLB_RANGE: u32 = 15;
/// Words of literals behind the `SVC` of [`EMULATE`].
pub const EMULATE_LITERALS: u32 = 2;
/// `SVC` number, with that of LR in its low four bits, of a branch through the return mirror that was closed because an
/// interrupt waits for the end of its block. LR says the target.
pub const CLOSED: u32 = 0x10;
/// `SVC` number of an [`EXCEPTION_RETURN`] where TPIDRURW is [lent](crate::Options::lent_thread_id) while the kernel
/// runs. It would be [`CLOSED`], of the PC, which never has the target of such a branch.
pub const LENT_EXCEPTION_RETURN: u32 = CLOSED | 15;
/// `SVC` number of the same by `MOVS PC, LR` where no registers of User mode were loaded in front of it: so Linux goes on
/// in Supervisor mode behind its vectors. Assembly asks for that first.
pub const LENT_VECTOR_RETURN: u32 = 0x22;
/// `SVC` number of an instruction of a page that runs in place, in whose copy the `SVC` stands for it
/// ([`crate::in_place`]).
pub const REPLACED: u32 = 0x20;
/// `SVC` number, with that of the register in its low three bits, of a write to DACR in place that traps as a rule, in
/// whose copy the `SVC` stands for it ([`crate::in_place::is_window_edge`]). Assembly does it; to all others, it is a
/// [`REPLACED`].
pub const DACR_IN_PLACE: u32 = REPLACED | 8;

/// `SVC` number where a sample of what the kernel executes is due ([`crate::Counters::countdown`]). The block goes on.
pub const SAMPLE: u32 = 0x40;
/// `SVC` number of an access whose mark is set, with the registers that are spilled meanwhile: see [`check`]. The block
/// goes on.
pub const CHECK: u32 = 0x60;
/// `SVC` number of a place of the kernel's that is told of, with its number: see [`hook`]. The block goes on.
pub const HOOK: u32 = 0x80;
/// `SVC` number of a return by the shadow stack that was closed because an interrupt waits for the end of its block. LR
/// holds the target.
pub const CLOSED_RETURN: u32 = 0xa0;
/// `SVC` number of a T32 instruction to interpret, with its ITSTATE: see [`emulate_t32`]. Two literal words as of
/// [`EMULATE`]: the bits of its code, and its guest address with bit 0 set.
pub const EMULATE_T32: u32 = 0x20;
/// `SVC` number of the end of a block in the middle of an IT block: see [`in_it`]. One literal word as of [`LINK`]; it
/// is never linked.
pub const IN_IT: u32 = 0x21;
/// The lowest bit of the ITSTATE in an `SVC` of [`emulate_t32`] or [`in_it`], which has eight bits.
const ITSTATE: u32 = 8;

/// The low bytes of an `SVC`'s number by which assembly tells what it answers, without asking whose `SVC` it is: a bit
/// for each.
const ANSWERED: [u32; 8] = {
    let numbers = [
        INDIRECT,
        EMULATE,
        DACR,
        EXCEPTION_RETURN,
        TLB_PAGE,
        UNPRIVILEGED_LOAD,
        UNPRIVILEGED_STORE,
        VFP,
        COUNTER,
        TTBR0,
        CONTEXTIDR,
        CLEAN_LINE,
        FORGET_LINE,
        TLB_RANGE,
        LENT_EXCEPTION_RETURN,
        LENT_VECTOR_RETURN,
    ];
    let (mut answered, mut at) = ([0; 8], 0);
    while at < numbers.len() {
        answered[numbers[at] as usize / 32] |= 1 << (numbers[at] % 32);
        at += 1;
    }
    let with_register = [DACR_IN_PLACE, CLEAN_LINES, FORGET_LINES, CLEAN_LINES_AT_R12, FORGET_LINES_AT_R12];
    at = 0;
    while at < with_register.len() {
        answered[with_register[at] as usize / 32] |= 0xff << (with_register[at] % 32);
        at += 1;
    }
    answered
};

/// Whether `word` is an `SVC` that assembly would take for one of ours if a guest's kernel executed it as it is, in A32
/// state, whatever its condition.
#[must_use]
pub const fn is_taken_for_ours(word: u32) -> bool {
    word >> 24 & 0xf == 0xf && word >> 28 != 0xf && ANSWERED[(word & 0xff) as usize / 32] >> (word % 32) & 1 != 0
}

/// Whether `word` is an `SVC` of [`DACR_IN_PLACE`].
#[must_use]
pub const fn is_dacr_in_place(word: u32) -> bool {
    word >> 24 == 0xef && word & 0xf8 == DACR_IN_PLACE
}

/// The immediate of the `SVC` for a T32 instruction that is executed in the state `it`.
#[must_use]
pub const fn emulate_t32(it: ItState) -> u32 {
    EMULATE_T32 | (it.bits() as u32) << ITSTATE
}

/// The immediate of the `SVC` where a block ends, and the next instruction is to be executed in the state `it`.
#[must_use]
pub const fn in_it(it: ItState) -> u32 {
    IN_IT | (it.bits() as u32) << ITSTATE
}

/// The ITSTATE that an `SVC` of [`emulate_t32`] or [`in_it`] names.
#[must_use]
pub const fn it_state(word: u32) -> ItState {
    ItState::new((word >> ITSTATE) as u8)
}

/// The lowest bit of the page's register in an `SVC` of [`tlb_range`].
pub const TLB_RANGE_PAGE: u32 = 8;
/// And of the end's. Each has three bits.
pub const TLB_RANGE_END: u32 = 12;

/// The immediate of the `SVC` for TLBIMVA of the page that register `page` holds, where the guest goes on with `ADD
/// page, page,
/// #0x1000`, `CMP page, end` and, if that is lower, the same TLBIMVA. The registers are among R0 to R7.
#[must_use]
pub const fn tlb_range(page: u8, end: u8) -> u32 {
    TLB_RANGE | (page as u32 & 7) << TLB_RANGE_PAGE | (end as u32 & 7) << TLB_RANGE_END
}

/// The registers that an `SVC` of [`tlb_range`] names: the page's, and that of the end.
#[must_use]
pub const fn tlb_range_registers(word: u32) -> (usize, usize) {
    ((word >> TLB_RANGE_PAGE & 7) as usize, (word >> TLB_RANGE_END & 7) as usize)
}

/// The registers of a loop over cache lines: `ADD at, at, step`, `CMP at, end` and, if that is lower, the same
/// operation again. Whoever answers its `SVC` may do several rounds at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineLoop {
    /// What has the line's address: one of R0 to R7, or R12.
    pub at: u8,
    /// What has the address behind the last line: one of R0 to R7.
    pub end: u8,
    /// What has the bytes of a line: one of R0 to R7.
    pub step: u8,
}

impl LineLoop {
    /// The immediate of its `SVC`, of which `number` is [`CLEAN_LINES`] or [`FORGET_LINES`], or what these are where
    /// R12 has the address.
    #[must_use]
    pub const fn svc(self, number: u32) -> u32 {
        let [at, end, step] = [self.at as u32 & 15, self.end as u32 & 7, self.step as u32 & 7];
        let number = if at == 12 { number + AT_R12 } else { number };
        number | end | at << LINE_LOOP_AT | step << LINE_LOOP_STEP
    }
}

/// Whether the address that an `SVC` for a cache line is about is in R12.
#[must_use]
pub const fn is_line_at_r12(word: u32) -> bool {
    matches!(word & 0xf8, CLEAN_LINES_AT_R12 | FORGET_LINES_AT_R12)
}

/// How many rounds of the loop of [`tlb_range`] follow each other in one megabyte, from `first`, what the page's
/// register has now, if that of the end has `end`: one at least.
#[must_use]
pub const fn tlb_range_rounds(first: u32, end: u32) -> u32 {
    let more = end.saturating_sub(1).saturating_sub(first) >> 12;
    let left = 0xff - (first >> 12 & 0xff);
    1 + if more < left { more } else { left }
}

/// The lowest bit of the operands of [`CHECK`] and [`HOOK`].
const OPERAND: u32 = 8;

/// The immediate of the `SVC` for an access whose mark is set. Of R0 to R15, these two are in spill slots 0 and 1; if
/// they are the same one, it is in slot 0.
#[must_use]
pub const fn check(first: u8, second: u8) -> u32 {
    CHECK | (first as u32 & 15) << OPERAND | (second as u32 & 15) << (OPERAND + 4)
}

/// Puts the registers that an `SVC` of [`check`] names back to where they were: `regs` has all others, and `spill` what
/// is in the spill slots. The PC is none of them, in a trap that is not forged.
pub fn unspill(word: u32, regs: &mut [u32], spill: &[u32]) {
    // Slot 0 comes last: see `check`.
    for (slot, &spilled) in spill.iter().enumerate().take(2).rev() {
        if let Some(reg) = regs.get_mut((word >> (OPERAND + 4 * slot as u32) & 15) as usize) {
            *reg = spilled;
        }
    }
}

/// The immediate of the `SVC` at a place that is told of.
#[must_use]
pub const fn hook(number: u8) -> u32 {
    HOOK | (number as u32) << OPERAND
}

/// The number that an `SVC` of [`hook`] has.
#[must_use]
pub const fn hook_number(word: u32) -> u8 {
    (word >> OPERAND) as u8
}

/// The number of an `SVC` of ours, without operands. [`LENT_EXCEPTION_RETURN`] and [`LENT_VECTOR_RETURN`] are an
/// [`EXCEPTION_RETURN`] to all but assembly.
#[must_use]
pub const fn number(word: u32) -> u32 {
    let immediate = word & 0x00ff_ffff;
    match immediate & 0xff {
        number @ (TLB_RANGE | EMULATE_T32 | IN_IT | CHECK | HOOK) => number,
        number if matches!(number & !7, CLEAN_LINES | CLEAN_LINES_AT_R12) => CLEAN_LINE,
        number if matches!(number & !7, FORGET_LINES | FORGET_LINES_AT_R12) => FORGET_LINE,
        LENT_EXCEPTION_RETURN | LENT_VECTOR_RETURN if immediate <= 0xff => EXCEPTION_RETURN,
        _ => immediate,
    }
}

/// Words of literals behind `word`, if it is an `SVC` of ours.
pub(crate) const fn literals(word: u32) -> usize {
    const SVC: u32 = 0xef00_0000;
    match word.wrapping_sub(SVC) {
        LINK => 1,
        EMULATE => EMULATE_LITERALS as usize,
        immediate if immediate >> 24 == 0 => match number(immediate) {
            EMULATE_T32 => EMULATE_LITERALS as usize,
            IN_IT => 1,
            _ => 0,
        },
        _ => 0,
    }
}
