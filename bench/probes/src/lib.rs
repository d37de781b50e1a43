//! Programs that probe a core as one probes silicon.
//!
//! What does a load cost by the size of what is walked through, how many pages do the TLBs reach, what does a branch
//! cost that nobody foresaw? Each probe is a loop of A32 instructions that does one thing, and the data that it works
//! on. The guest's stopwatch (`bench/linux/program`) puts both into memory and calls the loop; on a board, what it
//! costs is measured, and `spica bench --cycles` has the model of a core count it. The tests of this crate interpret
//! the same instructions and feed the model directly: so a probe is known to do what it says, and what the model alone
//! makes of it can be told from what Linux adds.
//!
//! The instructions are made here word by word ([`code`]) and not by a compiler, because their number, their order and
//! their places are what is measured. [`table`] has all probes; [`data`] makes what they load.

#![no_std]
#![forbid(unsafe_code)]

pub mod code;
pub mod data;
pub mod table;

pub use table::{PROBES, find};

/// What a probe does, again and again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Loads a pointer from where the pointer loaded before leads to: through so many bytes in steps of `stride`,
    /// wrapping around; in a random order of the same steps if `shuffled`.
    Chase {
        /// The bytes that it goes through.
        bytes: u32,
        /// From one pointer to the next.
        stride: u32,
        /// Whether the order is random.
        shuffled: bool,
    },
    /// The same with one pointer in each of so many pages. They are in different lines of the caches, too.
    Pages {
        /// How many.
        count: u32,
    },
    /// Stores a word every 64 bytes, through so many bytes.
    Stores {
        /// A multiple of 4096.
        bytes: u32,
    },
    /// Executes this instruction. It uses R2 and R3 alone.
    Instruction {
        /// Its word.
        word: u32,
    },
    /// Branches to the next of so many unconditional branches.
    Taken {
        /// How many, at most 65,536 bytes of them.
        count: u32,
        /// From one to the next, in bytes.
        spacing: u32,
    },
    /// A conditional branch that is never taken.
    NotTaken,
    /// A conditional branch that is taken as the bits of this word say, over and over, and one that ends the loop.
    Pattern {
        /// The bits, from the lowest on.
        bits: u32,
    },
    /// A conditional branch that is taken at random, and one that ends the loop.
    Random,
    /// An indirect branch that goes to each of so many targets in turn, and a direct one back.
    Indirect {
        /// How many.
        targets: u32,
    },
    /// Calls that call, to this depth, and return: one call with its return.
    Calls {
        /// How deep.
        depth: u32,
    },
    /// A system call that does next to nothing.
    SystemCall,
}

/// A probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Its name among the workloads of `spica bench`.
    pub name: &'static str,
    /// What it does.
    pub kind: Kind,
}

/// The operations of a run, about.
pub const OPERATIONS: u32 = 1 << 20;

/// How often loops are unrolled, so that their ends do not matter.
pub const UNROLLED: u32 = 64;

/// Bytes of a page.
pub const PAGE: u32 = 4096;

impl Kind {
    /// One operation, for people.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Kind::Chase { .. } | Kind::Pages { .. } => "load",
            Kind::Stores { .. } => "store",
            Kind::Instruction { .. } => "instruction",
            Kind::Taken { .. } | Kind::NotTaken => "branch",
            Kind::Pattern { .. } | Kind::Random => "round with two branches",
            Kind::Indirect { .. } => "round with an indirect branch",
            Kind::Calls { .. } => "call and return",
            Kind::SystemCall => "system call",
        }
    }

    /// The operations in a round of the probe's loop.
    #[must_use]
    pub const fn in_round(self) -> u32 {
        match self {
            Kind::Chase { .. } | Kind::Pages { .. } | Kind::Instruction { .. } | Kind::NotTaken => UNROLLED,
            Kind::Stores { bytes } => bytes / 64,
            Kind::Taken { count, .. } => count,
            Kind::Pattern { .. } | Kind::Random | Kind::Indirect { .. } => 1,
            Kind::Calls { depth } => depth,
            Kind::SystemCall => 8,
        }
    }

    /// The rounds of a run.
    #[must_use]
    pub const fn rounds(self) -> u32 {
        let operations = match self {
            // Each is some hundred instructions.
            Kind::SystemCall => OPERATIONS / 128,
            _ => OPERATIONS,
        };
        let rounds = operations / self.in_round();
        if rounds == 0 { 1 } else { rounds }
    }

    /// The operations of a run: what a run for two times has more than one for one time.
    #[must_use]
    pub const fn operations(self) -> u32 {
        self.rounds() * self.in_round()
    }

    /// The rounds after which caches, TLBs and predictors have seen all that the probe has: what comes then is like
    /// what has been.
    #[must_use]
    pub const fn warming(self) -> u32 {
        match self {
            Kind::Chase { bytes, stride, .. } => bytes / stride / UNROLLED + 1,
            Kind::Pages { count } => count / UNROLLED + 1,
            Kind::Stores { .. } | Kind::Instruction { .. } | Kind::NotTaken | Kind::SystemCall => 1,
            Kind::Taken { .. } | Kind::Calls { .. } => 4,
            Kind::Pattern { .. } | Kind::Random | Kind::Indirect { .. } => 4096,
        }
    }
}
