//! Names of what is counted beside instructions.
//!
//! A result file maps names to counts. The names are fixed here, once: whoever counts, whoever draws and the cost model
//! must mean the same thing by them. Two kinds exist. A [`Trap`] is an entry into the hypervisor, by the reason for it;
//! the classes of emulated instructions are those of STAR's Figure 4, the others are what a full system has besides. An
//! [`Event`] is something that an instruction count cannot show but that costs cycles on silicon, counted on the bare
//! board and under the hypervisor alike; the cost model puts a price on it.

use std::fmt;

/// Defines an enum whose variants each have a key (in result files) and a label (in reports).
macro_rules! names {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident = $key:literal, $label:literal;)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name { $($(#[$inner])* $variant,)* }

        impl $name {
            /// All, in the order in which they are listed and drawn.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// Its name in a result file.
            #[must_use]
            pub const fn key(self) -> &'static str {
                match self { $($name::$variant => $key,)* }
            }

            /// Its name in a report.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $($name::$variant => $label,)* }
            }

            /// The one that has this name in a result file.
            #[must_use]
            pub fn from_key(key: &str) -> Option<$name> {
                match key { $($key => Some($name::$variant),)* _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.label())
            }
        }
    };
}

names! {
    /// Why the hypervisor was entered. Every entry has exactly one class, so their sum is the number of traps.
    Trap {
        /// A direct branch: a block exit that is not linked, or an emulated `B`, `BL`, `BLX`.
        DirectBranch = "direct-branch", "direct branch";
        /// A function return (`BX LR`, `MOV PC,LR`, a load of PC from the stack), where told apart from other indirect
        /// branches.
        Return = "return", "function return";
        /// Any other indirect branch.
        IndirectBranch = "indirect-branch", "indirect branch";
        /// An emulated exception return.
        ExceptionReturn = "exception-return", "exception return";
        /// `CPS`, or `MSR` to the CPSR.
        ModeChange = "mode-change", "mode change (CPS, MSR CPSR)";
        /// `LDM`/`STM` of the user bank.
        UserBank = "user-bank", "user registers (LDM/STM ^)";
        /// `LDRT`, `STRT` and their kin.
        Unprivileged = "unprivileged", "unprivileged access (LDRT, STRT)";
        /// A coprocessor instruction with side effects, where told apart from plain reads.
        Coprocessor = "coprocessor", "coprocessor";
        /// `MRS`, `MSR` to the SPSR, `SRS`: copies of registers.
        StatusRegister = "status-register", "status registers (MRS, MSR SPSR)";
        /// `SVC`, `SMC` or `HVC` in the guest's kernel.
        KernelCall = "kernel-call", "SVC, SMC in the kernel";
        /// `WFI`, `WFE`.
        Sleep = "sleep", "sleep (WFI, WFE)";
        /// Any other emulated instruction.
        OtherEmulated = "other-emulated", "other emulated instruction";
        /// `SVC` of the guest's user code: a system call.
        UserCall = "user-call", "system call from user code";
        /// An undefined instruction of the guest's user code.
        Undefined = "undefined", "undefined instruction";
        /// A fault that the guest never sees: a shadow entry was missing.
        HiddenFault = "hidden-fault", "hidden fault (shadow tables)";
        /// An abort that the guest takes.
        GuestAbort = "guest-abort", "guest's own abort";
        /// An access to an emulated device.
        Mmio = "mmio", "device access";
        /// A write to a page that holds translated code or guest tables.
        ProtectedWrite = "protected-write", "write to a protected page";
        /// An interrupt of the board.
        Interrupt = "interrupt", "interrupt of the board";
    }
}

names! {
    /// What costs cycles on silicon beyond an instruction's own.
    Event {
        /// An exception is taken, of any kind.
        ExceptionEntry = "exception-entry", "exception entry";
        /// An exception is returned from.
        ExceptionReturn = "exception-return", "exception return";
        /// `CPS` with a mode, or `MSR` to the byte of the CPSR that has the mode, which kernels also restore interrupt
        /// masks with.
        ModeSwitch = "mode-switch", "mode switch";
        /// A write of TTBR0, TTBR1 or TTBCR.
        TtbrWrite = "ttbr-write", "TTBR write";
        /// A write of CONTEXTIDR, which holds the ASID.
        AsidWrite = "asid-write", "ASID switch";
        /// A write of the DACR.
        DacrWrite = "dacr-write", "DACR write";
        /// A translation that the TLB did not hold and a table walk fetched.
        TlbMiss = "tlb-miss", "TLB miss";
        /// Invalidation of the whole TLB, or of all entries of an ASID.
        TlbFlush = "tlb-flush", "TLB flush";
        /// Invalidation of one TLB entry.
        TlbFlushEntry = "tlb-flush-entry", "TLB entry flush";
        /// Cleaning or invalidation of one line of a data cache.
        DataCacheLine = "data-cache-line", "data cache line operation";
        /// Invalidation of one line of the instruction cache.
        InstructionCacheLine = "instruction-cache-line", "instruction cache line operation";
        /// Invalidation of the whole instruction cache.
        InstructionCacheFlush = "instruction-cache-flush", "instruction cache flush";
        /// Invalidation of the branch predictor.
        BranchPredictorFlush = "branch-predictor-flush", "branch predictor flush";
        /// A read of a coprocessor register (`MRC`).
        CoprocessorRead = "coprocessor-read", "coprocessor read";
        /// A write of a coprocessor register that is none of the above (`MCR`).
        CoprocessorWrite = "coprocessor-write", "coprocessor write";
        /// An indirect branch that the return stack does not predict.
        IndirectBranch = "indirect-branch", "indirect branch";
        /// An instruction or data synchronisation barrier.
        Barrier = "barrier", "ISB or DSB";
    }
}

/// How many counters [`place`] and [`place_of_trap`] number: one for each event, then one for each trap.
pub const COUNTERS: usize = Event::ALL.len() + Trap::ALL.len();

/// The number of an event's counter, for those who count.
#[must_use]
pub const fn place(event: Event) -> usize {
    event as usize
}

/// The number of a trap's counter.
#[must_use]
pub const fn place_of_trap(trap: Trap) -> usize {
    Event::ALL.len() + trap as usize
}

/// The number of the counter of that name: a key of an event, or `trap.` and that of a trap.
#[must_use]
pub fn place_of(name: &str) -> Option<usize> {
    match name.strip_prefix("trap.") {
        Some(trap) => Trap::from_key(trap).map(place_of_trap),
        None => Event::from_key(name).map(place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_place_of_its_own() {
        let events = Event::ALL.iter().map(|e| (e.key().to_string(), place(*e)));
        let traps = Trap::ALL.iter().map(|t| (format!("trap.{}", t.key()), place_of_trap(*t)));
        let all: Vec<_> = events.chain(traps).collect();
        assert_eq!(all.len(), COUNTERS);
        for (expected, (name, place)) in all.iter().enumerate() {
            assert_eq!((*place, place_of(name)), (expected, Some(expected)), "{name}");
        }
        assert_eq!(place_of("trap.nothing"), None);
    }
}
