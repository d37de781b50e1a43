//! What the translator made of what was executed: each rule, and each way in which it came out, with how often.
//!
//! Seen from outside. A name is the class of the guest instruction, as `rules/mod.rs` of the translator tells them
//! apart, and the look of what stands for it in the code cache: itself, a trap, something that spills, something with a
//! slow path. So coverage does not trust the translator's word for what it did.

use crate::translator::instruction::Instruction;
use spica_dbt::{shadow_stack, spill, trap};
use spica_isa::{Decoded, Op, decode, t32};
use spica_vcpu::field;
use std::collections::{BTreeMap, HashMap};

/// The number of a name in [`Coverage`]; 0 is nobody's.
#[derive(Clone, Copy, Default)]
pub struct Form(u16);

/// What stands for a guest instruction.
#[derive(Default)]
pub struct Made {
    /// Where it is executed from its beginning to its end, with the addresses of the words.
    pub hot: Vec<(u32, u32)>,
    /// What it branches to or loads at the end of the page.
    pub cold: Vec<u32>,
}

/// How often what was executed.
#[derive(Default)]
pub struct Coverage {
    numbers: HashMap<String, u16>,
    counts: Vec<u64>,
}

impl Form {
    /// Nobody's.
    pub const NONE: Form = Form(0);
}

impl Coverage {
    /// The form of what was made of an instruction.
    pub fn form(&mut self, instruction: &Instruction, made: &Made) -> Form {
        let name = match instruction {
            Instruction::A32(d) => format!("{}: {}", class(d), look(d.word, made)),
            Instruction::T32(d) => format!("T32, {}: {}", class_of_t32(d), look(word_of_t32(d), made)),
        };
        self.named(name)
    }

    fn named(&mut self, name: String) -> Form {
        if self.counts.is_empty() {
            self.counts.push(0);
        }
        let number = *self.numbers.entry(name).or_insert_with(|| {
            self.counts.push(0);
            u16::try_from(self.counts.len() - 1).expect("so many names there are not")
        });
        Form(number)
    }

    /// The form of the guest's word `guest` in place: as `word`, or as what leads to its stub.
    pub fn form_in_place(&mut self, guest: u32, word: Option<u32>) -> Form {
        let look = match word {
            None => "a stub",
            Some(word) if word == guest => "as it is",
            Some(_) => "another instruction",
        };
        self.named(format!("{}, in place: {look}", class(&decode(guest))))
    }

    /// Once more.
    pub fn executed(&mut self, form: Form) {
        if let Some(count) = self.counts.get_mut(usize::from(form.0)) {
            *count += 1;
        }
    }

    /// All names, with how often each was executed, and nothing from then on.
    pub fn take(&mut self) -> BTreeMap<String, u64> {
        let Coverage { numbers, mut counts } = std::mem::take(self);
        numbers.into_iter().map(|(name, number)| (name, std::mem::take(&mut counts[usize::from(number)]))).collect()
    }
}

/// The A32 word of a T32 instruction, if there is one.
fn word_of_t32(d: &t32::Decoded) -> u32 {
    match d.op {
        t32::Op::A32(same) => same.word,
        _ => 0,
    }
}

/// The class of a T32 instruction.
fn class_of_t32(d: &t32::Decoded) -> &'static str {
    match d.op {
        t32::Op::A32(same) => class(&same),
        t32::Op::DataProcessing { .. } => "a constant",
        t32::Op::OrNot { .. } => "ORN",
        t32::Op::AddWide { .. } => "ADDW or SUBW",
        t32::Op::Mem(mem) if mem.unprivileged => "unprivileged access",
        t32::Op::Mem(_) => "halfword with an offset",
        t32::Op::MemDual(_) => "LDRD or STRD",
        t32::Op::LoadExclusive { .. } | t32::Op::StoreExclusive { .. } => "exclusive with an offset, or of two",
        t32::Op::Branch { link: false, .. } => "B",
        t32::Op::Branch { .. } => "BL",
        t32::Op::BranchLinkExchangeImm { .. } => "BLX to A32",
        t32::Op::CompareBranch { .. } => "CBZ or CBNZ",
        t32::Op::TableBranch { .. } => "TBB or TBH",
        t32::Op::IfThen(_) | t32::Op::Hint | t32::Op::ThumbEe { .. } => "nothing",
        t32::Op::Undefined | t32::Op::Unpredictable => "no instruction",
    }
}

/// The class of a guest instruction, one for each arm of the translator's `rules::translate`.
fn class(d: &Decoded) -> &'static str {
    let test = matches!(d.op, Op::DataProcessing { op, .. } if op.is_test());
    match d.op {
        Op::DataProcessing { s: true, rd, .. } if rd.is_pc() && !test => "data processing, exception return",
        Op::DataProcessing { rd, .. } if rd.is_pc() && !test => "data processing, branch",
        Op::DataProcessing { .. } => "data processing",
        Op::Mem(mem) if mem.unprivileged => "unprivileged access",
        Op::Mem(mem) if mem.load && mem.rt.is_pc() => "load of the PC",
        Op::Mem(mem) if mem.rn.is_pc() && mem.load => "load by the PC",
        Op::Mem(mem) if mem.rn.is_pc() => "store by the PC",
        Op::Mem(mem) if mem.rt.is_pc() => "store of the PC",
        Op::Mem(_) => "load or store",
        Op::MemMultiple(mem) if mem.user && mem.load && mem.regs & 0x8000 != 0 => "LDM, exception return",
        Op::MemMultiple(mem) if mem.user && mem.load => "LDM, User bank",
        Op::MemMultiple(mem) if mem.user => "STM, User bank",
        Op::MemMultiple(mem) if mem.regs & 0x8000 == 0 => "LDM or STM",
        Op::MemMultiple(mem) if mem.load => "LDM of the PC",
        Op::MemMultiple(_) => "STM of the PC",
        Op::Preload { .. } => "preload",
        Op::VfpMem { rn, .. } if rn.is_pc() => "VFP load or store by the PC",
        Op::Branch { link: false, .. } => "B",
        Op::Branch { .. } => "BL",
        Op::BranchExchange { link: false, .. } => "BX",
        Op::BranchExchange { .. } => "BLX",
        Op::CoprocMove { load: true, .. } => "MRC",
        Op::CoprocMove { .. } => "MCR",
        Op::CoprocMove2 { .. } => "MRRC or MCRR",
        Op::Mrs { spsr: true, .. } => "MRS of the SPSR",
        Op::Mrs { .. } => "MRS",
        Op::MsrReg { spsr: true, .. } => "MSR of the SPSR",
        Op::MsrReg { .. } => "MSR",
        Op::MsrImm { .. } => "MSR of a constant",
        Op::ChangeState { .. } => "CPS",
        Op::VfpSystem { load: true, sysreg: 8, .. } => "VMRS of FPEXC",
        Op::VfpSystem { sysreg: 8, .. } => "VMSR of FPEXC",
        Op::VfpSystem { load: true, sysreg: 0 | 6 | 7, .. } => "VMRS of what VFP is",
        Op::VfpSystem { .. } => "VMRS or VMSR",
        Op::Vfp | Op::VfpMem { .. } => "VFP",
        Op::Exclusive | Op::ClearExclusive => "exclusive",
        Op::InstrSyncBarrier { .. } => "ISB",
        Op::DataSyncBarrier { .. } | Op::DataMemBarrier { .. } => "DSB or DMB",
        Op::WaitForInterrupt | Op::WaitForEvent => "WFI or WFE",
        Op::Plain | Op::MoveWide { .. } | Op::Divide | Op::Hint => "plain",
        Op::SupervisorCall { .. } => "SVC",
        Op::Undefined | Op::Unpredictable => "no instruction",
        Op::StoreReturnState { .. }
        | Op::ReturnFromException { .. }
        | Op::CoprocData { .. }
        | Op::CoprocMem { .. }
        | Op::SecureMonitorCall { .. }
        | Op::SetEndian { .. }
        | Op::BranchLinkExchangeImm { .. }
        | Op::BranchJazelle { .. }
        | Op::Breakpoint { .. }
        | Op::HypervisorCall { .. }
        | Op::VirtExt => "other sensitive",
    }
}

/// What was made of it, by its look.
fn look(word: u32, made: &Made) -> String {
    let trap = |word: u32| match decode(word).op {
        Op::SupervisorCall { .. } => Some(trap::number(word)),
        _ => None,
    };
    // What is behind a trap is for its handler, and not executed.
    let until_trap = made.hot.iter().position(|&(_, word)| trap(word).is_some()).map_or(made.hot.len(), |at| at + 1);
    let hot = || made.hot[..until_trap].iter().map(|&(_, word)| word);
    if hot().eq([word]) {
        return "as it is".into();
    }
    let mut look: Vec<&str> = Vec::new();
    let spilled = made.hot.iter().any(|&(pc, word)| stores_to_slot_0(pc, word) || spills_otherwise(word));
    look.extend(spilled.then_some("with a spill"));
    look.extend(hot().find_map(pushes_or_pops));
    look.extend(hot().find_map(trap).map(trap_name));
    look.extend(hot().any(is_through_mirror).then_some("through the mirror"));
    look.extend(made.cold.iter().copied().find_map(trap).map(|number| match number {
        trap::LINK => "a side exit",
        _ => "a slow path",
    }));
    match look[..] {
        [] => "rewritten".into(),
        _ => look.join(", "),
    }
}

/// Whether a word is what a branch through the return mirror ends in, of A32 code or of T32 code.
pub fn is_through_mirror(word: u32) -> bool {
    word & 0x0ff0_f000 == 0x0280_f000 || word & 0x0fff_ffff == 0x03ce_f003
}

/// Whether the word at `pc` stores a register to spill slot 0 of the vCPU page behind.
fn stores_to_slot_0(pc: u32, word: u32) -> bool {
    let address = pc.wrapping_add(8).wrapping_add(word & 0xfff);
    word & 0x0fff_0000 == 0x058f_0000 && address == (pc & !0xfff).wrapping_add(0x1000 + field::spill(0))
}

fn pushes_or_pops(word: u32) -> Option<&'static str> {
    match word {
        shadow_stack::PUSH => Some("a push"),
        shadow_stack::POP => Some("a pop"),
        _ => None,
    }
}

/// Whether the word begins to spill a register to elsewhere: a lightweight trap, MCR of TPIDRURW or of PMCCNTR.
fn spills_otherwise(word: u32) -> bool {
    word == spill::TRAP || matches!(word & 0x0fff_0fff, 0x0e0d_0f50 | 0x0e09_0f1d)
}

fn trap_name(number: u32) -> &'static str {
    match number {
        trap::LINK => "an exit",
        trap::INDIRECT => "a look-up",
        trap::EMULATE | trap::EMULATE_T32 => "emulated",
        trap::IN_IT => "an end in an IT block",
        trap::DACR => "a trap for DACR",
        trap::EXCEPTION_RETURN => "a trap for exception returns",
        trap::TLB_PAGE | trap::TLB_RANGE => "a trap for a TLB entry",
        trap::UNPRIVILEGED_LOAD | trap::UNPRIVILEGED_STORE => "a trap that checks",
        trap::VFP => "a trap for VFP",
        trap::COUNTER => "a trap for the counter",
        trap::CLEAN_LINE | trap::FORGET_LINE => "a trap for a cache line",
        trap::TTBR0 | trap::CONTEXTIDR => "a trap for address spaces",
        _ => "a closed branch",
    }
}
