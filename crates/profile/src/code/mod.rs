//! What each word of a code page counts as.
//!
//! For every guest instruction that is reached, exactly one executed word counts as its own, the first of its
//! translation: the instruction itself, or what stands in its place. All others are overhead of the rule that emitted
//! them. So the sum of what is the guest's own is the number of kernel instructions that the guest executed, and it can
//! be compared with the bare board.
//!
//! **How it is told.** The translator keeps no record of which rule a word came from, and must not: it would cost. But
//! code pages are filled from one end without gaps, and each rule begins with words that no other has and no guest
//! instruction is copied to: a load or store relative to the PC names a field of the vCPU page, an `SVC` has a number,
//! a branch leads to the cold part. So a page is read from its first word on (`page.rs`), translation by translation,
//! with the words that are data known as such; the cold part is followed in the same order, from the other end.
//! `tests/translator.rs` has the real translator make pages and compares word by word with what it says itself
//! ([`spica_dbt::Translator::locate`]).
//!
//! **What cannot be told.** A constant in place of an operand that is the PC (`adr`), or of a literal, looks like the
//! guest's own `movw` and `movt`: it is taken for that, where nothing else gives it away. The exit at the end of a
//! guest's page looks like a branch. Techniques to spill other than the vCPU page, and the shadow stack, are not known
//! here.

mod page;
mod word;

pub use page::classes;

/// What emitted a word: files of `crates/dbt/src/rules`, some of them in parts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rule {
    /// Instructions that are copied.
    Copied,
    /// `B` and `BL`, exits, and the traps of those that are not linked.
    Branch,
    /// The exit of a block behind which the guest's code just goes on.
    BlockEnd,
    /// Returns, calls and jumps to addresses in registers and memory.
    Indirect,
    /// `MOVS PC, LR` and the like.
    ExceptionReturn,
    /// `MRS`, `MSR`, `CPS`: masks, flags and SPSR.
    Status,
    /// Transfers of User mode's registers.
    UserBank,
    /// System registers that are fields of the vCPU page.
    Register,
    /// Writes of DACR.
    Dacr,
    /// FPEXC.
    Fpexc,
    /// Writes of TTBR0 and CONTEXTIDR.
    Space,
    /// Maintenance of a TLB entry.
    Tlb,
    /// Maintenance of caches and branch predictors.
    Cache,
    /// The generic timer's counter.
    Counter,
    /// `LDRT`, `STRT`.
    Unprivileged,
    /// The PC as an operand, and literals.
    PcOperand,
    /// What is interpreted.
    Emulated,
}

impl Rule {
    /// All of them, in the order of tables.
    pub const ALL: [Rule; 17] = [
        Rule::Copied,
        Rule::Branch,
        Rule::BlockEnd,
        Rule::Indirect,
        Rule::ExceptionReturn,
        Rule::Status,
        Rule::UserBank,
        Rule::Register,
        Rule::Dacr,
        Rule::Fpexc,
        Rule::Space,
        Rule::Tlb,
        Rule::Cache,
        Rule::Counter,
        Rule::Unprivileged,
        Rule::PcOperand,
        Rule::Emulated,
    ];

    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Rule::Copied => "copied instructions",
            Rule::Branch => "direct branches and calls",
            Rule::BlockEnd => "ends of blocks",
            Rule::Indirect => "returns and indirect branches",
            Rule::ExceptionReturn => "exception returns",
            Rule::Status => "status registers and masks",
            Rule::UserBank => "user-bank transfers",
            Rule::Register => "system registers in memory",
            Rule::Dacr => "DACR",
            Rule::Fpexc => "FPEXC",
            Rule::Space => "TTBR0 and CONTEXTIDR",
            Rule::Tlb => "TLB maintenance",
            Rule::Cache => "cache maintenance",
            Rule::Counter => "the timer's counter",
            Rule::Unprivileged => "unprivileged accesses",
            Rule::PcOperand => "PC operands and literals",
            Rule::Emulated => "interpreted instructions",
        }
    }
}

/// What a word counts as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Class {
    /// What emitted it.
    pub rule: Rule,
    /// It stands for a guest instruction.
    pub own: bool,
}
