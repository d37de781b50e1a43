//! What a VM counts: traps by class, as in STAR's Figure 4, and what Spica did about them. Always on; each is one
//! addition on a path that costs hundreds of instructions.

use spica_isa::{Decoded, Op};

/// The classes of STAR's Figure 4 into which emulated instructions fall.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named after the instructions")]
pub enum Class {
    DirectBranch,
    IndirectBranch,
    ExceptionReturn,
    ModeChange,
    StatusRegister,
    Coprocessor,
    UserBank,
    Unprivileged,
    SystemCall,
    Sleep,
    Other,
}

impl Class {
    /// All, in the order of their numbers.
    pub const ALL: [Class; 11] = [
        Class::DirectBranch,
        Class::IndirectBranch,
        Class::ExceptionReturn,
        Class::ModeChange,
        Class::StatusRegister,
        Class::Coprocessor,
        Class::UserBank,
        Class::Unprivileged,
        Class::SystemCall,
        Class::Sleep,
        Class::Other,
    ];

    /// The class of an instruction that traps.
    pub fn of(d: &Decoded) -> Class {
        match d.op {
            Op::Branch { .. } | Op::BranchLinkExchangeImm { .. } => Class::DirectBranch,
            Op::BranchExchange { .. } | Op::BranchJazelle { .. } => Class::IndirectBranch,
            Op::DataProcessing { s, .. } => {
                if s {
                    Class::ExceptionReturn
                } else {
                    Class::IndirectBranch
                }
            }
            Op::ReturnFromException { .. } => Class::ExceptionReturn,
            Op::MemMultiple(m) if m.user && m.load && m.regs & 0x8000 != 0 => Class::ExceptionReturn,
            Op::MemMultiple(m) if m.user => Class::UserBank,
            Op::MemMultiple(_) => Class::IndirectBranch,
            Op::Mem(m) => {
                if m.unprivileged {
                    Class::Unprivileged
                } else {
                    Class::IndirectBranch
                }
            }
            Op::ChangeState { .. } => Class::ModeChange,
            Op::MsrReg { spsr: false, .. } | Op::MsrImm { spsr: false, .. } => Class::ModeChange,
            Op::Mrs { .. } | Op::MsrReg { .. } | Op::MsrImm { .. } | Op::StoreReturnState { .. } => {
                Class::StatusRegister
            }
            Op::CoprocMove { .. }
            | Op::CoprocMove2 { .. }
            | Op::CoprocData { .. }
            | Op::CoprocMem { .. }
            | Op::VfpSystem { .. } => Class::Coprocessor,
            Op::SupervisorCall { .. } | Op::SecureMonitorCall { .. } | Op::HypervisorCall { .. } => Class::SystemCall,
            Op::WaitForInterrupt | Op::WaitForEvent => Class::Sleep,
            _ => Class::Other,
        }
    }

    /// Its name for programs.
    pub fn key(self) -> &'static str {
        match self {
            Class::DirectBranch => "direct-branch",
            Class::IndirectBranch => "indirect-branch",
            Class::ExceptionReturn => "exception-return",
            Class::ModeChange => "mode-change",
            Class::StatusRegister => "status-register",
            Class::Coprocessor => "coprocessor",
            Class::UserBank => "user-bank",
            Class::Unprivileged => "unprivileged",
            Class::SystemCall => "system-call",
            Class::Sleep => "sleep",
            Class::Other => "other",
        }
    }

    /// Its name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Class::DirectBranch => "direct branch",
            Class::IndirectBranch => "indirect branch",
            Class::ExceptionReturn => "exception return",
            Class::ModeChange => "CPS/MSR CPSR",
            Class::StatusRegister => "MRS/MSR/SRS",
            Class::Coprocessor => "coprocessor",
            Class::UserBank => "LDM/STM user bank",
            Class::Unprivileged => "LDRT/STRT",
            Class::SystemCall => "SVC/SMC",
            Class::Sleep => "WFI/WFE",
            Class::Other => "other",
        }
    }
}

/// The counters.
#[derive(Clone, Default)]
#[expect(missing_docs, reason = "named after what they count")]
pub struct Counters {
    /// Emulated instructions by [`Class`].
    pub emulated: [u64; 11],
    /// Direct exits that were not linked.
    pub links: u64,
    /// Indirect branches through the return mirror that found no block there.
    pub mirror_misses: u64,
    /// Indirect branches that missed the jump cache.
    pub indirect: u64,
    pub user_calls: u64,
    pub undefined: u64,
    /// Faults that the guest never saw: shadow entries that were missing.
    pub hidden_faults: u64,
    /// Of these, those of a domain that the guest had opened and the real DACR not yet.
    pub lazy_openings: u64,
    /// Aborts that the guest took.
    pub guest_aborts: u64,
    /// Lines of the data cache that were cleaned here, not in assembly.
    pub lines: u64,
    pub mmio: u64,
    /// Writes to pages with code that dropped all code of the page.
    pub code_page_writes: u64,
    /// Those that dropped what had been made from the words that changed.
    pub code_patches: u64,
    /// Pages that run in place, since the start.
    pub twins: u64,
    /// Pages that could not.
    pub unfit_pages: u64,
    /// Times that all code went, to be made anew closer together.
    pub preemptive_flushes: u64,
    /// Times that the guest's kernel turned out to be elsewhere than what the return mirror stood for.
    pub mirror_moves: u64,
    pub host_interrupts: u64,
    /// Virtual interrupts delivered.
    pub interrupts: u64,
    /// Loads of the VFP registers, or of VFP being turned on.
    pub vfp_switches: u64,
    pub waits: u64,
    pub resets: u64,
}
