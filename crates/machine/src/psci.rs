//! PSCI: the firmware interface by which a guest switches CPUs and itself on and off (DEN 0022D), on top of the SMC
//! calling convention (DEN 0028).
//!
//! A guest calls with `smc #0`, the function in r0 and arguments from r1; the answer goes to r0. There is one CPU, it
//! is on, and it has MPIDR affinity 0, so most of the interface is a matter of refusing correctly.

/// What a call asks the hypervisor to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PsciResult {
    /// Continue the guest with this value in r0.
    Value(u32),
    /// The guest has switched itself off.
    PowerOff,
    /// The guest wants to start over.
    Reset,
    /// The CPU waits for an interrupt, as by WFI, and then continues with 0 (success) in r0.
    Suspend,
}

const SUCCESS: u32 = 0;
const NOT_SUPPORTED: u32 = -1i32 as u32;
const INVALID_PARAMETERS: u32 = -2i32 as u32;
const DENIED: u32 = -3i32 as u32;
const ALREADY_ON: u32 = -4i32 as u32;

/// Version 1.1 of PSCI and of the calling convention.
const VERSION_1_1: u32 = 0x0001_0001;

const SMCCC_VERSION: u32 = 0x8000_0000;
const SMCCC_ARCH_FEATURES: u32 = 0x8000_0001;

const PSCI_VERSION: u32 = 0x8400_0000;
const CPU_SUSPEND: u32 = 0x8400_0001;
const CPU_OFF: u32 = 0x8400_0002;
const CPU_ON: u32 = 0x8400_0003;
const AFFINITY_INFO: u32 = 0x8400_0004;
const MIGRATE_INFO_TYPE: u32 = 0x8400_0006;
const SYSTEM_OFF: u32 = 0x8400_0008;
const SYSTEM_RESET: u32 = 0x8400_0009;
const PSCI_FEATURES: u32 = 0x8400_000a;

/// MIGRATE_INFO_TYPE: there is no trusted OS that would have to be migrated.
const NO_TRUSTED_OS: u32 = 2;

/// A power state of CPU_SUSPEND: the bits that the original format defines.
const POWER_STATE_BITS: u32 = 0x0301_ffff;

/// Answers the call of a function with its first three arguments, r1 to r3.
#[must_use]
pub fn call(function_id: u32, args: [u32; 3]) -> PsciResult {
    let value = match function_id {
        SMCCC_VERSION | PSCI_VERSION => VERSION_1_1,
        SMCCC_ARCH_FEATURES if matches!(args[0], SMCCC_VERSION | SMCCC_ARCH_FEATURES) => SUCCESS,
        CPU_SUSPEND if args[0] & !POWER_STATE_BITS != 0 => INVALID_PARAMETERS,
        // A power-down request may be answered by a mere standby, for the context is then intact: the caller goes on
        // behind its call (DEN 0022D, 5.4.2).
        CPU_SUSPEND => return PsciResult::Suspend,
        // The last CPU has to use SYSTEM_OFF.
        CPU_OFF => DENIED,
        CPU_ON if args[0] == 0 => ALREADY_ON,
        CPU_ON => INVALID_PARAMETERS,
        // Affinity level 0 is the CPU; the levels above exist if anything on them is on.
        AFFINITY_INFO if args[0] == 0 && args[1] <= 3 => 0,
        AFFINITY_INFO => INVALID_PARAMETERS,
        MIGRATE_INFO_TYPE => NO_TRUSTED_OS,
        SYSTEM_OFF => return PsciResult::PowerOff,
        SYSTEM_RESET => return PsciResult::Reset,
        PSCI_FEATURES => features(args[0]),
        _ => NOT_SUPPORTED,
    };
    PsciResult::Value(value)
}

/// Which functions there are; for CPU_SUSPEND, 0 stands for the original format of the power state.
const fn features(function_id: u32) -> u32 {
    match function_id {
        SMCCC_VERSION | PSCI_VERSION | CPU_SUSPEND | CPU_OFF | CPU_ON | AFFINITY_INFO | MIGRATE_INFO_TYPE
        | SYSTEM_OFF | SYSTEM_RESET | PSCI_FEATURES => SUCCESS,
        _ => NOT_SUPPORTED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PsciResult::Value;

    #[test]
    fn what_linux_asks_at_boot() {
        assert_eq!(call(PSCI_VERSION, [0; 3]), Value(0x1_0001));
        assert_eq!(call(MIGRATE_INFO_TYPE, [0; 3]), Value(2));
        assert_eq!(call(PSCI_FEATURES, [SMCCC_VERSION, 0, 0]), Value(0));
        assert_eq!(call(SMCCC_VERSION, [0; 3]), Value(0x1_0001));
        assert_eq!(call(PSCI_FEATURES, [CPU_SUSPEND, 0, 0]), Value(0));
        // SYSTEM_SUSPEND, SYSTEM_RESET2, MEM_PROTECT, and the 64-bit functions, are not there.
        for absent in [0x8400_000e, 0x8400_0012, 0x8400_0013, 0xc400_0003] {
            assert_eq!(call(PSCI_FEATURES, [absent, 0, 0]), Value(NOT_SUPPORTED));
            assert_eq!(call(absent, [0; 3]), Value(NOT_SUPPORTED));
        }
        // The workarounds of the calling convention's architecture functions: none.
        assert_eq!(call(SMCCC_ARCH_FEATURES, [0x8000_8000, 0, 0]), Value(NOT_SUPPORTED));
    }

    #[test]
    fn the_one_cpu_is_on() {
        assert_eq!(call(CPU_ON, [0, 0x4000_0000, 0]), Value(ALREADY_ON));
        assert_eq!(call(CPU_ON, [1, 0x4000_0000, 0]), Value(INVALID_PARAMETERS));
        assert_eq!(call(AFFINITY_INFO, [0, 0, 0]), Value(0));
        assert_eq!(call(AFFINITY_INFO, [1, 0, 0]), Value(INVALID_PARAMETERS));
        assert_eq!(call(CPU_OFF, [0; 3]), Value(DENIED));
    }

    #[test]
    fn off_reset_and_suspend() {
        assert_eq!(call(SYSTEM_OFF, [0; 3]), PsciResult::PowerOff);
        assert_eq!(call(SYSTEM_RESET, [0; 3]), PsciResult::Reset);
        assert_eq!(call(CPU_SUSPEND, [0; 3]), PsciResult::Suspend);
        assert_eq!(call(CPU_SUSPEND, [1 << 16, 0, 0]), PsciResult::Suspend);
        assert_eq!(call(CPU_SUSPEND, [1 << 31, 0, 0]), Value(INVALID_PARAMETERS));
    }
}
