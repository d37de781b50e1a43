//! CP14 and CP15 register moves.

use super::{Flow, barrier, bit, copy, emulate, free_register, restore, scratch, spill};
use crate::block::Undo;
use crate::emit::Emitter;
use crate::layout::{HOT_FIELDS, PAGE_WORDS};
use crate::options::Options;
use crate::papers;
use crate::trap::{CLEAN_LINE, CLEAN_LINES, FORGET_LINE, FORGET_LINES, LineLoop, is_line_at_r12};
use spica_isa::{Cond, CpReg, Decoded, ModImm, Op, Reg, asm, encode};
use spica_vcpu::cp15::FPEXC_EN;
use spica_vcpu::field;

/// What is legal in User mode and means the same there is copied; what is plain storage is a load from the vCPU page,
/// or a store to it; the rest is interpreted.
pub fn register(e: &mut Emitter<'_>, options: &Options, d: &Decoded, load: bool, reg: CpReg, rt: Reg) -> Flow {
    if rt.is_pc() || d.uncond {
        return emulate(e, d, false);
    }
    if (reg.coproc, reg.opc1, reg.crn, reg.crm, reg.opc2) == (14, 6, 1, 0, 0)
        && options.plain_registers
        && options.thumbee
    {
        return handler_base(e, d, load, rt);
    }
    if reg.coproc != 15 {
        return emulate(e, d, false);
    }
    match (load, reg.crn, reg.opc1, reg.crm, reg.opc2) {
        // CP15ISB, CP15DSB, CP15DMB: barriers, unprivileged (B4.2.5).
        (false, 7, 0, 5, 4) => barrier(e, d),
        (false, 7, 0, 10, 4 | 5) => copy(e, d),
        (_, 13, 0, 0, 2) if options.lent_thread_id || papers::takes_tpidrurw(options) => {
            storage(e, d, load, rt, field::TPIDRURW)
        }
        // The real TPIDRURW is the guest's, and User mode may change it at any time (B4.1.150).
        (_, 13, 0, 0, 2) => copy(e, d),
        (false, 13, 0, 0, 3) if options.plain_registers && options.lent_thread_id => {
            e.page_field(false, d.cond, rt, field::TPIDRURO);
            // Where code in place reads it (`in_place::instead`).
            let op = Op::CoprocMove { load: false, reg: CpReg { opc2: 2, ..reg }, rt };
            e.emit(encode(&Decoded { op, ..*d }));
            Flow::Continues
        }
        (_, 13, 0, 0, 3) if options.plain_registers => storage(e, d, load, rt, field::TPIDRURO),
        (_, 13, 0, 0, 4) if options.plain_registers => storage(e, d, load, rt, field::TPIDRPRW),
        (false, 3, 0, 0, 0) if options.lazy_dacr => domain_access(e, options, d, rt),
        (true, ..) if options.plain_registers => match shown(reg) {
            Some(field) => storage(e, d, true, rt, field),
            None => emulate(e, d, false),
        },
        // TLBIMVA, ITLBIMVA, DTLBIMVA.
        (false, 8, 0, 3 | 5 | 6 | 7, 1) if options.tlb_page => {
            let end = loop_over_pages(e, d, rt).filter(|_| options.tlb_range);
            own_trap(e, d, rt, end.map_or(crate::trap::TLB_PAGE, |end| crate::trap::tlb_range(rt.n() as u8, end)))
        }
        (false, 2, 0, 0, 0) if options.space_switch => own_trap(e, d, rt, crate::trap::TTBR0),
        (false, 13, 0, 0, 1) if options.space_switch => own_trap(e, d, rt, crate::trap::CONTEXTIDR),
        (false, 7, 0, crm, opc2) if options.cache_maintenance => maintenance(e, options, d, (crm, opc2), rt),
        _ => emulate(e, d, false),
    }
}

/// A write that has a trap of its own, with the value in the vCPU page.
fn own_trap(e: &mut Emitter<'_>, d: &Decoded, rt: Reg, trap: u32) -> Flow {
    e.page_field(false, d.cond, rt, field::TARGET);
    e.emit(asm::svc(d.cond, trap));
    Flow::Continues
}

/// The register that `rt` is compared with, if what follows makes a loop over pages of this instruction: Linux's, when
/// it invalidates a range.
fn loop_over_pages(e: &Emitter<'_>, d: &Decoded, rt: Reg) -> Option<u8> {
    let page = rt.n();
    if d.cond != Cond::Al || page >= 8 {
        return None;
    }
    let (is_loop, end) = if let Some([add, cmp, branch]) = e.next_words() {
        const ADD_PAGE: u32 = 0xe280_0a01;
        const CMP: u32 = 0xe150_0000;
        const BCC_TO_THIRD_BEFORE: u32 = 0x3aff_fffb;
        let add_and_cmp = [ADD_PAGE | page << 16 | page << 12, CMP | page << 16 | cmp & 0xf];
        ([add, cmp] == add_and_cmp && branch == BCC_TO_THIRD_BEFORE, cmp & 0xf)
    } else {
        const ADD_PAGE: [u32; 2] = [0xf500, 0x5080];
        const CMP: u32 = 0x4280;
        const BCC_BACK: u32 = 0xd3f9;
        let halves = e.next_halves()?.map(u32::from);
        let end = halves[2] >> 3 & 7;
        (halves == [ADD_PAGE[0] | page, ADD_PAGE[1] | page << 8, CMP | end << 3 | page, BCC_BACK], end)
    };
    (is_loop && end < 8 && page != end).then_some(end as u8)
}

/// The registers of the loop over cache lines that what follows makes of this instruction: Linux's, whenever it
/// maintains more than a line.
fn loop_over_lines(e: &Emitter<'_>, d: &Decoded, rt: Reg) -> Option<LineLoop> {
    let at = rt.n();
    if d.cond != Cond::Al || at >= 8 && at != 12 {
        return None;
    }
    let (is_loop, step, end) = if let Some([add, cmp, branch]) = e.next_words() {
        const ADD: u32 = 0xe080_0000;
        const CMP: u32 = 0xe150_0000;
        const BCC_TO_THIRD_BEFORE: u32 = 0x3aff_fffb;
        let (step, end) = (add & 0xf, cmp & 0xf);
        let words = [ADD | at << 16 | at << 12 | step, CMP | at << 16 | end, BCC_TO_THIRD_BEFORE];
        ([add, cmp, branch] == words, step, end)
    } else {
        // ADD and CMP of any registers, BCC.
        const ADD: u32 = 0x4400;
        const CMP: u32 = 0x4500;
        const CMP_LOW: u32 = 0x4280;
        const BCC_BACK: u32 = 0xd3fa;
        let halves = e.next_halves()?.map(u32::from);
        let (step, end) = (halves[0] >> 3 & 0xf, halves[1] >> 3 & 0xf);
        let (high, low) = (at >> 3 << 7, at & 7);
        let cmp = if at < 8 { CMP_LOW | end << 3 | low } else { CMP | high | end << 3 | low };
        (halves == [ADD | high | step << 3 | low, cmp, BCC_BACK], step, end)
    };
    let told = LineLoop { at: at as u8, end: end as u8, step: step as u8 };
    (is_loop && end < 8 && step < 8 && at != end && at != step).then_some(told)
}

/// A register that is a field of the vCPU page.
fn storage(e: &mut Emitter<'_>, d: &Decoded, load: bool, rt: Reg, field: u32) -> Flow {
    e.page_field(load, d.cond, rt, field);
    Flow::Continues
}

/// The field that has a copy of a register for reading.
fn shown(reg: CpReg) -> Option<u32> {
    Some(match (reg.crn, reg.opc1, reg.crm, reg.opc2) {
        (0, 0, 0, 1) => field::CTR,
        (1, 0, 0, 0) => field::SCTLR,
        (2, 0, 0, 0) => field::TTBR0,
        (2, 0, 0, 1) => field::TTBR1,
        (3, 0, 0, 0) => field::DACR,
        (5, 0, 0, 0) => field::DFSR,
        (5, 0, 0, 1) => field::IFSR,
        (6, 0, 0, 0) => field::DFAR,
        (6, 0, 0, 2) => field::IFAR,
        (13, 0, 0, 1) => field::CONTEXTIDR,
        _ => return None,
    })
}

/// A write to DACR. It traps only if something is open in the real one that the new value closes. What it opens stays
/// closed until it is used: a kernel that opens user memory for its return to User mode does not use it.
///
/// The store's place is noted. If the domain fault comes that this bet can cost, [`make_eager`] turns the site into one
/// that always traps.
fn domain_access(e: &mut Emitter<'_>, options: &Options, d: &Decoded, rt: Reg) -> Flow {
    // What is conditional may not be executed, while the next instruction is.
    let free = if options.free_registers && d.cond == Cond::Al { free_register(e, options, bit(rt)) } else { None };
    close(e, d, rt, free, crate::trap::DACR, field::DACR, field::DACR_REAL, Some(field::DACR_SITE))
}

/// FPEXC: a write traps only if it turns off what is really on.
pub fn vfp_enable(e: &mut Emitter<'_>, d: &Decoded, load: bool, rt: Reg) -> Flow {
    if load {
        e.page_field(true, d.cond, rt, field::FPEXC);
        // EN alone means anything.
        if let Some(en) = ModImm::encode(FPEXC_EN) {
            e.emit(asm::and_imm(d.cond, rt, rt, en));
        }
        return Flow::Continues;
    }
    close(e, d, rt, None, crate::trap::VFP, field::FPEXC, field::FPEXC_REAL, None)
}

/// FPSID, MVFR0 and MVFR1, which do not change; they can be read with VFP off (B9.3.25).
pub fn vfp_id(e: &mut Emitter<'_>, d: &Decoded, sysreg: u8, rt: Reg) -> Flow {
    if let Some(place) = field::vfp_id(sysreg) {
        e.page_field(true, d.cond, rt, place);
    }
    Flow::Continues
}

/// Stores `rt` to `field`; traps if that has zeroes where `real`, what the real register has, has ones. It works with
/// `free`, or spills.
#[expect(clippy::too_many_arguments, reason = "the instruction, and which of two registers it writes")]
fn close(
    e: &mut Emitter<'_>,
    d: &Decoded,
    rt: Reg,
    free: Option<Reg>,
    trap: u32,
    field: u32,
    real: u32,
    site: Option<u32>,
) -> Flow {
    let rs = free.unwrap_or(scratch(bit(rt)));
    let skip = e.begin_skip(d.cond);
    let slow = if free.is_some() { e.begin_slow_trap_unspilled(trap) } else { e.begin_slow_trap(rs, trap) };
    e.page_field(false, Cond::Al, rt, field);
    if free.is_none() {
        spill(e, Cond::Al, rs);
    }
    if let Some(site) = site {
        e.page_field(false, Cond::Al, Reg::PC, site);
    }
    e.page_field(true, Cond::Al, rs, real);
    if free.is_some() {
        e.set_undo(Undo { lost: free, ..Undo::NONE });
    }
    // 1 if nothing is left of the real value without the new one, else 0.
    e.emit(asm::bic_reg(Cond::Al, rs, rs, rt));
    e.emit(asm::clz(Cond::Al, rs, rs));
    e.emit(asm::lsr_imm(Cond::Al, rs, rs, 5));
    e.emit(asm::add_pc(rs));
    e.emit(asm::NOP);
    e.branch_slow(&slow);
    if free.is_none() {
        restore(e, Cond::Al, rs);
    }
    e.end_slow(slow);
    e.end_skip(skip);
    Flow::Continues
}

/// The generic timer's counter. Reading the host's clock takes a privileged mode; a trap leaves it in the vCPU page.
pub fn counter(e: &mut Emitter<'_>, d: &Decoded, rt: Reg, rt2: Reg) -> Flow {
    e.emit(asm::svc(d.cond, crate::trap::COUNTER));
    e.page_field(true, d.cond, rt, field::COUNTER);
    e.page_field(true, d.cond, rt2, field::COUNTER + 4);
    Flow::Continues
}

/// TEEHBR, whose low two bits are 0.
fn handler_base(e: &mut Emitter<'_>, d: &Decoded, load: bool, rt: Reg) -> Flow {
    if load {
        return storage(e, d, true, rt, field::TEEHBR);
    }
    let rs = scratch(bit(rt));
    spill(e, d.cond, rs);
    e.emit(asm::bic_imm(d.cond, rs, rt, asm::imm(3)));
    e.page_field(false, d.cond, rs, field::TEEHBR);
    restore(e, d.cond, rs);
    Flow::Continues
}

/// If word `at` of `page` is the load of [`field::DACR_REAL`] of a DACR write: the word that makes the write trap
/// always. Everything counts as open then.
pub fn make_eager(at: usize, page: &[u32; PAGE_WORDS]) -> Option<u32> {
    // With the store of its place in front of it, it can be told from any other load: nothing else stores there.
    let before = at.checked_sub(1).filter(|&before| before >= HOT_FIELDS as usize / 4)?;
    let rs = Reg::new(page.get(at)? >> 12 & 0xf);
    let store = Emitter::field_access(before, false, Cond::Al, Reg::PC, field::DACR_SITE);
    let load = Emitter::field_access(at, true, Cond::Al, rs, field::DACR_REAL);
    (page[before] == store && page[at] == load && !rs.is_pc()).then(|| asm::all_ones(Cond::Al, rs))
}

/// Cache and branch-predictor maintenance (B4.2.1).
///
/// Translated code is not run from where the guest wrote it, and all agents that look at guest memory look through the
/// caches. So what is left to do concerns user code, which runs natively. What the guest invalidates as a whole is
/// invalidated before user code runs the next time ([`field::STALE`], [`field::STALE_CODE`]), a line of instructions at
/// once, in a trap: a program that has written some words of code must not lose all others. What the guest cleans is
/// cleaned to the point of unification, at once, too: from there instructions are fetched, and to the point of
/// coherency Linux cleans a page before it maps it for execution. By set and way, too, in Spica's own loop: the guest
/// sees caches of one line.
///
/// A data-cache operation by address faults where nothing is mapped (B3.12.3), and nowhere else: domains and
/// permissions are no matter. If nothing has to be done, a byte is loaded from there; whoever handles the fault
/// interprets the instruction if the load was not its fault. Whether ICIMVAU faults as well is IMPLEMENTATION DEFINED;
/// ours does not.
fn maintenance(e: &mut Emitter<'_>, options: &Options, d: &Decoded, (crm, opc2): (u8, u8), rt: Reg) -> Flow {
    let around = if options.line_range { loop_over_lines(e, d, rt) } else { None };
    let line = |e: &mut Emitter<'_>, alone, in_loop| {
        let trap = around.map_or(alone, |around| around.svc(in_loop));
        if !is_line_at_r12(trap) {
            return own_trap(e, d, rt, trap);
        }
        e.emit(asm::svc(d.cond, trap));
        Flow::Continues
    };
    match (crm, opc2) {
        // ICIALLU and its Inner Shareable form.
        (1 | 5, 0) => {
            e.page_field(false, d.cond, Reg::PC, field::STALE_CODE);
            e.page_field(false, d.cond, Reg::PC, field::STALE);
        }
        // BPIALL and its Inner Shareable form, BPIMVA. Linux does so whenever it changes to another process, which
        // must not cost it the instruction cache.
        (1 | 5, 6) | (5, 7) => e.page_field(false, d.cond, Reg::PC, field::STALE),
        // DCCMVAC, DCCMVAU, DCCIMVAC.
        (10 | 11 | 14, 1) => return line(e, CLEAN_LINE, CLEAN_LINES),
        // ICIMVAU.
        (5, 1) => return line(e, FORGET_LINE, FORGET_LINES),
        // DCIMVAC.
        (6, 1) => probe(e, d, rt),
        // DCISW: what is dirty may stay.
        (6, 2) => e.emit(asm::NOP),
        // DCCSW, DCCISW, and what is unknown.
        _ => return emulate(e, d, false),
    }
    Flow::Continues
}

/// Loads a byte from the address in `rt`, for the faults.
fn probe(e: &mut Emitter<'_>, d: &Decoded, rt: Reg) {
    let rs = scratch(bit(rt));
    spill(e, d.cond, rs);
    if let Some(word) = asm::ldr_str(true, d.cond, rs, rt, 0) {
        e.emit(asm::as_byte(word));
    }
    restore(e, d.cond, rs);
}
