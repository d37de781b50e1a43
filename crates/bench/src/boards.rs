//! What others have measured on boards with a Cortex-A8 or A9: what the model of time is held against.
//!
//! Only what was published with the core's clock is here. A time is given as cycles of that clock; what is the same
//! workload as one of ours has its name. Other kernels of other configurations, other compilers and other memories are
//! in it: what may be expected of a comparison is in `docs/cycles-validation.md`.

use spica_cycles::Core;

/// Measurements of a board.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// The board or the chip, for the head of a column.
    pub board: &'static str,
    /// Where they were published.
    pub source: &'static str,
    /// The core.
    pub core: Core,
    /// Workloads and the cycles of an operation.
    pub cycles: &'static [(&'static str, f64)],
}

impl Measured {
    /// The cycles of a workload, if it was measured.
    #[must_use]
    pub fn cycles(&self, workload: &str) -> Option<f64> {
        self.cycles.iter().find(|(name, _)| *name == workload).map(|(_, cycles)| *cycles)
    }
}

/// All of them.
///
/// Both boards of Texas Instruments run at 1000 MHz, so that a nanosecond is a cycle. Their `lat_mem_rd` is named by
/// sizes in units of a thousandth of a MiB: 62k are 64 KiB. `open` and `connect` go to a file system and a network that
/// are not ours.
pub const MEASURED: &[Measured] = &[
    Measured {
        board: "AM335x, Linux 6.1",
        source: "Texas Instruments, Processor SDK Linux AM335x 09.01, performance guide, LMBench: AM335x evaluation \
                 module at 1000 MHz, 256 KiB L2, DDR3 at 400 MHz",
        core: Core::CortexA8,
        cycles: &[
            ("null", 490.0),
            ("read", 860.0),
            ("write", 670.0),
            ("stat", 6380.0),
            ("fstat", 4550.0),
            ("signal-install", 1330.0),
            ("signal-catch", 8240.0),
            ("protection-fault", 740.0),
            ("page-fault", 1620.0),
            ("pipe", 41_000.0),
            ("unix", 40_960.0),
            ("fork-exit", 1_191_400.0),
            ("fork-exec", 1_521_000.0),
            ("probe-load-128-32k", 3.03),
            ("probe-load-128-64k", 8.87),
            ("probe-load-128-128k", 11.74),
            ("probe-load-128-256k", 62.97),
            ("probe-load-128-512k", 183.34),
            ("probe-load-128-1m", 220.85),
        ],
    },
    Measured {
        board: "AM335x, Linux 6.12",
        source: "the same guide of release 11.02",
        core: Core::CortexA8,
        cycles: &[
            ("null", 500.0),
            ("read", 970.0),
            ("write", 750.0),
            ("stat", 7090.0),
            ("fstat", 2910.0),
            ("signal-install", 1470.0),
            ("signal-catch", 9300.0),
            ("protection-fault", 940.0),
            ("page-fault", 2370.0),
            ("pipe", 45_680.0),
            ("unix", 57_320.0),
            ("fork-exit", 1_447_400.0),
            ("fork-exec", 1_629_350.0),
            ("probe-load-128-32k", 3.04),
            ("probe-load-128-64k", 8.85),
            ("probe-load-128-128k", 14.68),
            ("probe-load-128-256k", 72.76),
            ("probe-load-128-512k", 184.98),
            ("probe-load-128-1m", 227.09),
        ],
    },
    Measured {
        board: "AM437x, Linux 6.1",
        source: "Texas Instruments, Processor SDK Linux AM437x 09.01, performance guide, LMBench: AM437x evaluation \
                 module at 1000 MHz, 256 KiB L2, DDR3 at 400 MHz",
        core: Core::CortexA9,
        cycles: &[
            ("null", 390.0),
            ("read", 670.0),
            ("write", 550.0),
            ("stat", 5040.0),
            ("fstat", 3430.0),
            ("signal-install", 880.0),
            ("signal-catch", 5810.0),
            ("protection-fault", 570.0),
            ("page-fault", 1420.0),
            ("pipe", 29_910.0),
            ("unix", 31_750.0),
            ("fork-exit", 988_170.0),
            ("fork-exec", 1_353_250.0),
            ("probe-load-128-32k", 4.01),
            ("probe-load-128-64k", 16.91),
            ("probe-load-128-128k", 16.01),
            ("probe-load-128-512k", 88.77),
            ("probe-load-128-1m", 98.27),
        ],
    },
    Measured {
        board: "AM437x, Linux 6.12",
        source: "the same guide of release 11.02",
        core: Core::CortexA9,
        cycles: &[
            ("null", 400.0),
            ("read", 730.0),
            ("write", 610.0),
            ("stat", 5140.0),
            ("fstat", 2170.0),
            ("signal-install", 930.0),
            ("signal-catch", 6510.0),
            ("protection-fault", 350.0),
            ("page-fault", 1690.0),
            ("pipe", 31_820.0),
            ("unix", 41_330.0),
            ("fork-exit", 1_266_080.0),
            ("fork-exec", 1_432_250.0),
            ("probe-load-128-32k", 7.16),
            ("probe-load-128-64k", 16.75),
            ("probe-load-128-128k", 15.97),
            ("probe-load-128-512k", 91.64),
            ("probe-load-128-1m", 99.08),
        ],
    },
    Measured {
        board: "Exynos 4210",
        source: "7-cpu.com, ARM Cortex-A9: 1200 MHz, 1 MiB L2. It gives levels: 4 cycles for the first cache, 19 more \
                 for the second, 7 for a miss of the micro TLB, 7 more for one of the main TLB, 110 ns for memory; \
                 those that a probe has are added up here",
        core: Core::CortexA9,
        cycles: &[
            ("probe-load-64-16k", 4.0),
            ("probe-load-64-128k", 23.0),
            ("probe-load-4096-256k", 30.0),
            ("probe-pages-96", 11.0),
            ("probe-pages-256", 18.0),
            ("probe-random-4m", 169.0),
        ],
    },
    Measured {
        board: "manual",
        source: "Cortex-A8 TRM Table 16-16 and §16.4.1: 8 cycles for the second cache and 24 for a walk that finds its \
                 tables there, beyond the 3 of the first cache; 13 for a branch that was not predicted, beyond its 1",
        core: Core::CortexA8,
        cycles: &[
            ("probe-load-64-16k", 3.0),
            ("probe-load-64-128k", 11.0),
            ("probe-pages-64", 27.0),
            ("probe-taken-8-2048", 14.0),
        ],
    },
];

/// The measurements of a core.
pub fn of(core: Core) -> impl Iterator<Item = &'static Measured> {
    MEASURED.iter().filter(move |m| m.core == core)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measurement_is_one() {
        for measured in MEASURED {
            let mut names: Vec<_> = measured.cycles.iter().map(|(name, _)| *name).collect();
            assert!(measured.cycles.iter().all(|(_, cycles)| *cycles >= 1.0), "{}", measured.board);
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), measured.cycles.len(), "{}", measured.board);
        }
        assert_eq!(of(Core::CortexA8).next().and_then(|m| m.cycles("null")), Some(490.0));
        assert_eq!(of(Core::CortexA9).last().and_then(|m| m.cycles("null")), None);
    }
}
