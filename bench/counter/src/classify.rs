//! What an instruction counts as.

use spica_bench::events::{Event, Trap};
use spica_dbt::trap;
use spica_isa::{CpReg, Decoded, DpOp, Mem, MemMultiple, Op, Operand2, Reg, ShiftType, decode};

/// The bit of PC in a list of registers.
const PC_LISTED: u16 = 0x8000;

/// An instruction as QEMU shows it.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// Its virtual address.
    pub address: u32,
    /// Its length in bytes.
    pub size: usize,
    /// Its four bytes as a little-endian word; of a short Thumb instruction, the lower half.
    pub word: u32,
}

/// Where user programs end in every guest here; Thumb code is below.
const USER_END: u32 = 0xbf00_0000;

/// Whether a block is Thumb code. Short instructions and odd half-words can be nothing else; a block of long
/// instructions only is Thumb if every one begins as long Thumb instructions do, and not all would be unconditional A32
/// ones.
pub fn is_thumb(block: &[Instruction]) -> bool {
    if block.iter().any(|i| i.size == 2 || i.address % 4 != 0) {
        return true;
    }
    let long = |i: &Instruction| i.word & 0xffff >= 0xe800;
    let always = |i: &Instruction| i.word >> 28 == 0xe;
    block.iter().all(|i| i.address < USER_END && long(i)) && !block.iter().all(always)
}

/// What costs cycles beyond the instruction's own, if anything does.
pub fn event(word: u32) -> Option<Event> {
    let decoded = decode(word);
    match decoded.op {
        _ if is_exception_return(&decoded) => Some(Event::ExceptionReturn),
        _ if is_return(&decoded) => None,
        Op::BranchExchange { .. } | Op::BranchJazelle { .. } => Some(Event::IndirectBranch),
        Op::DataProcessing { op, rd, .. } if rd == Reg::PC && !op.is_test() => Some(Event::IndirectBranch),
        Op::Mem(Mem { load: true, rt, .. }) if rt == Reg::PC => Some(Event::IndirectBranch),
        Op::MemMultiple(m) if m.load && m.regs & PC_LISTED != 0 => Some(Event::IndirectBranch),
        Op::ChangeState { mode: Some(_), .. } => Some(Event::ModeSwitch),
        // The mask of fields: bit 0 is the one with the mode.
        Op::MsrReg { spsr: false, mask, .. } | Op::MsrImm { spsr: false, mask, .. } if mask & 1 != 0 => {
            Some(Event::ModeSwitch)
        }
        Op::DataSyncBarrier { .. } | Op::InstrSyncBarrier { .. } => Some(Event::Barrier),
        Op::CoprocMove { load: true, .. } => Some(Event::CoprocessorRead),
        Op::CoprocMove { load: false, reg, .. } => coprocessor_write(reg),
        _ => None,
    }
}

/// Writes of CP15 (B3.17), by what they do.
fn coprocessor_write(reg: CpReg) -> Option<Event> {
    if (reg.coproc, reg.opc1) != (15, 0) {
        return Some(Event::CoprocessorWrite);
    }
    Some(match (reg.crn, reg.crm, reg.opc2) {
        (2, 0, _) => Event::TtbrWrite,
        (3, 0, 0) => Event::DacrWrite,
        (13, 0, 1) => Event::AsidWrite,
        // The barriers of before ARMv7; DMB is no event.
        (7, 10, 5) => return None,
        (7, 5, 4) | (7, 10, 4) => Event::Barrier,
        (7, 5 | 1, 0) => Event::InstructionCacheFlush,
        (7, 5, 1) => Event::InstructionCacheLine,
        (7, 5 | 1, 6) => Event::BranchPredictorFlush,
        (7, 6 | 10 | 11 | 14, 1 | 2) => Event::DataCacheLine,
        (8, 3 | 5 | 6 | 7, 0 | 2) => Event::TlbFlush,
        (8, 3 | 5 | 6 | 7, 1 | 3) => Event::TlbFlushEntry,
        _ => Event::CoprocessorWrite,
    })
}

/// Loads of PC from the stack, and branches to LR: what the return stack predicts (Cortex-A8 TRM §5.2).
fn is_return(d: &Decoded) -> bool {
    match d.op {
        Op::BranchExchange { link: false, rm } => rm == Reg::LR,
        Op::DataProcessing { op: DpOp::Mov, s: false, rd, op2: Operand2::Shifted { rm, shift, amount }, .. } => {
            (rd, rm, shift, amount) == (Reg::PC, Reg::LR, ShiftType::Lsl, 0)
        }
        Op::Mem(Mem { load: true, rt, rn, pre: false, unprivileged: false, .. }) => (rt, rn) == (Reg::PC, Reg::SP),
        Op::MemMultiple(m) => m.load && !m.user && m.rn == Reg::SP && m.regs & PC_LISTED != 0,
        _ => false,
    }
}

fn is_exception_return(d: &Decoded) -> bool {
    match d.op {
        Op::DataProcessing { op, s: true, rd, .. } => rd == Reg::PC && !op.is_test(),
        Op::MemMultiple(MemMultiple { load: true, user: true, regs, .. }) => regs & PC_LISTED != 0,
        Op::ReturnFromException { .. } => true,
        _ => false,
    }
}

/// The class of a trap that translated code makes, if this is one: an `SVC` without a condition, and the word behind
/// it.
pub fn trap(word: u32, behind: u32) -> Option<Trap> {
    const SVC: u32 = 0xef00_0000;
    let immediate = word.wrapping_sub(SVC);
    if immediate >> 24 != 0 {
        return None;
    }
    Some(match trap::number(immediate) {
        trap::LINK => Trap::DirectBranch,
        trap::INDIRECT => Trap::IndirectBranch,
        number if number & !0xf == trap::CLOSED => Trap::IndirectBranch,
        trap::EMULATE => emulated(&decode(behind)),
        trap::DACR
        | trap::TLB_PAGE
        | trap::TLB_RANGE
        | trap::VFP
        | trap::COUNTER
        | trap::TTBR0
        | trap::CONTEXTIDR
        | trap::CLEAN_LINE => Trap::Coprocessor,
        trap::EXCEPTION_RETURN => Trap::ExceptionReturn,
        trap::UNPRIVILEGED_LOAD | trap::UNPRIVILEGED_STORE => Trap::Unprivileged,
        _ => return None,
    })
}

/// The class of an instruction that is interpreted, as STAR's Figure 4 has them.
fn emulated(d: &Decoded) -> Trap {
    match d.op {
        _ if is_exception_return(d) => Trap::ExceptionReturn,
        _ if is_return(d) => Trap::Return,
        Op::Branch { .. } | Op::BranchLinkExchangeImm { .. } => Trap::DirectBranch,
        Op::BranchExchange { .. } | Op::BranchJazelle { .. } | Op::DataProcessing { .. } => Trap::IndirectBranch,
        Op::MemMultiple(m) => {
            if m.user {
                Trap::UserBank
            } else {
                Trap::IndirectBranch
            }
        }
        Op::Mem(m) => {
            if m.unprivileged {
                Trap::Unprivileged
            } else {
                Trap::IndirectBranch
            }
        }
        Op::ChangeState { .. } | Op::MsrReg { spsr: false, .. } | Op::MsrImm { spsr: false, .. } => Trap::ModeChange,
        Op::Mrs { .. } | Op::MsrReg { .. } | Op::MsrImm { .. } | Op::StoreReturnState { .. } => Trap::StatusRegister,
        Op::CoprocMove { .. }
        | Op::CoprocMove2 { .. }
        | Op::CoprocData { .. }
        | Op::CoprocMem { .. }
        | Op::VfpSystem { .. } => Trap::Coprocessor,
        Op::SupervisorCall { .. } | Op::SecureMonitorCall { .. } | Op::HypervisorCall { .. } => Trap::KernelCall,
        Op::WaitForInterrupt | Op::WaitForEvent => Trap::Sleep,
        _ => Trap::OtherEmulated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_by_the_manual() {
        for (word, expected) in [
            (0xe1a0_0000, None),                               // nop
            (0xe12f_ff1e, None),                               // bx lr
            (0xe1a0_f00e, None),                               // mov pc, lr
            (0xe8bd_8010, None),                               // pop {r4, pc}
            (0xe49d_f004, None),                               // ldr pc, [sp], #4
            (0xe12f_ff13, Some(Event::IndirectBranch)),        // bx r3
            (0xe12f_ff33, Some(Event::IndirectBranch)),        // blx r3
            (0xe28e_f433, Some(Event::IndirectBranch)),        // add pc, lr, #0x33000000
            (0xe597_f000, Some(Event::IndirectBranch)),        // ldr pc, [r7]
            (0xe893_8001, Some(Event::IndirectBranch)),        // ldm r3, {r0, pc}
            (0xe1b0_f00e, Some(Event::ExceptionReturn)),       // movs pc, lr
            (0xe25e_f004, Some(Event::ExceptionReturn)),       // subs pc, lr, #4
            (0xe8fd_8001, Some(Event::ExceptionReturn)),       // ldm sp!, {r0, pc}^
            (0xf8bd_0a00, Some(Event::ExceptionReturn)),       // rfeia sp!
            (0xe8d0_6000, None),                               // ldm r0, {sp, lr}^
            (0xf102_0013, Some(Event::ModeSwitch)),            // cps #19
            (0xf10c_0080, None),                               // cpsid i
            (0xe121_f000, Some(Event::ModeSwitch)),            // msr cpsr_c, r0
            (0xe128_f000, None),                               // msr cpsr_f, r0
            (0xe16f_f000, None),                               // msr spsr_fsxc, r0
            (0xf57f_f04f, Some(Event::Barrier)),               // dsb sy
            (0xf57f_f06f, Some(Event::Barrier)),               // isb
            (0xf57f_f05f, None),                               // dmb
            (0xee07_0f95, Some(Event::Barrier)),               // mcr p15, 0, r0, c7, c5, 4
            (0xee07_0fba, None),                               // mcr p15, 0, r0, c7, c10, 5
            (0xee1d_0f70, Some(Event::CoprocessorRead)),       // mrc p15, 0, r0, c13, c0, 3
            (0xee02_0f10, Some(Event::TtbrWrite)),             // mcr p15, 0, r0, c2, c0, 0
            (0xee03_0f10, Some(Event::DacrWrite)),             // mcr p15, 0, r0, c3, c0, 0
            (0xee0d_0f30, Some(Event::AsidWrite)),             // mcr p15, 0, r0, c13, c0, 1
            (0xee0d_0f90, Some(Event::CoprocessorWrite)),      // mcr p15, 0, r0, c13, c0, 4
            (0xee08_0f17, Some(Event::TlbFlush)),              // mcr p15, 0, r0, c8, c7, 0
            (0xee08_0f53, Some(Event::TlbFlush)),              // mcr p15, 0, r0, c8, c3, 2
            (0xee08_0f37, Some(Event::TlbFlushEntry)),         // mcr p15, 0, r0, c8, c7, 1
            (0xee07_0f15, Some(Event::InstructionCacheFlush)), // mcr p15, 0, r0, c7, c5, 0
            (0xee07_0f35, Some(Event::InstructionCacheLine)),  // mcr p15, 0, r0, c7, c5, 1
            (0xee07_0fd5, Some(Event::BranchPredictorFlush)),  // mcr p15, 0, r0, c7, c5, 6
            (0xee07_0f3a, Some(Event::DataCacheLine)),         // mcr p15, 0, r0, c7, c10, 1
        ] {
            assert_eq!(event(word), expected, "{word:08x}");
        }
    }

    #[test]
    fn traps_by_their_number() {
        for (word, behind, expected) in [
            (0xef00_0000, 0, None),
            (0xef00_0001, 7, Some(Trap::DirectBranch)),
            (0xef00_0002, 0, Some(Trap::IndirectBranch)),
            (0xef00_001e, 0, Some(Trap::IndirectBranch)),
            (0xef00_0004, 0, Some(Trap::Coprocessor)),
            (0xef00_0005, 0, Some(Trap::ExceptionReturn)),
            (0xef00_0008, 0, Some(Trap::Unprivileged)),
            (0xef00_000a, 0, Some(Trap::Coprocessor)),
            (0xef00_000c, 0, Some(Trap::Coprocessor)),
            (0xef00_000d, 0, Some(Trap::Coprocessor)),
            (0xef00_0020, 0, None),
            (0x0f00_0001, 0, None),
            (0x1f00_0006, 0, None),                               // what is only perhaps executed
            (0xef00_0003, 0xeb00_0000, Some(Trap::DirectBranch)), // bl
            (0xef00_0003, 0xe12f_ff1e, Some(Trap::Return)),       // bx lr
            (0xef00_0003, 0xe8bd_8010, Some(Trap::Return)),       // pop {r4, pc}
            (0xef00_0003, 0xe12f_ff33, Some(Trap::IndirectBranch)), // blx r3
            (0xef00_0003, 0xe1b0_f00e, Some(Trap::ExceptionReturn)), // movs pc, lr
            (0xef00_0003, 0xe8d0_6000, Some(Trap::UserBank)),     // ldm r0, {sp, lr}^
            (0xef00_0003, 0xe4b1_2004, Some(Trap::Unprivileged)), // ldrt r2, [r1], #4
            (0xef00_0003, 0xf10c_0080, Some(Trap::ModeChange)),   // cpsid i
            (0xef00_0003, 0xe10f_0000, Some(Trap::StatusRegister)), // mrs r0, cpsr
            (0xef00_0003, 0xe16f_f000, Some(Trap::StatusRegister)), // msr spsr_fsxc, r0
            (0xef00_0003, 0xee1d_0f90, Some(Trap::Coprocessor)),  // mrc p15, 0, r0, c13, c0, 4
            (0xef00_0003, 0xe320_f003, Some(Trap::Sleep)),        // wfi
            (0xef00_0003, 0xe160_0070, Some(Trap::KernelCall)),   // smc #0
        ] {
            assert_eq!(super::trap(word, behind), expected, "{word:08x} {behind:08x}");
        }
    }

    #[test]
    fn thumb_is_told_from_a32() {
        let block = |address: u32, code: &[(usize, u32)]| {
            let mut next = address;
            let mut instruction = |&(size, word): &(usize, u32)| {
                let address = next;
                next += size as u32;
                Instruction { address, size, word }
            };
            code.iter().map(&mut instruction).collect::<Vec<_>>()
        };
        assert!(is_thumb(&block(0x1_0000, &[(4, 0xe92d_f000), (2, 0x4770)])));
        assert!(is_thumb(&block(0x1_0002, &[(4, 0xe1a0_0000)])));
        // push.w {r4-r11, lr}; bl: halves in the order of their addresses.
        assert!(is_thumb(&block(0x1_0000, &[(4, 0x4ff0_e92d), (4, 0xf801_f000)])));
        assert!(!is_thumb(&block(0x1_0000, &[(4, 0xe1a0_0000), (4, 0xe12f_ff1e)])));
        assert!(!is_thumb(&block(0xc010_0000, &[(4, 0x4ff0_e92d)])));
    }
}
