//! What the two papers report: every figure that their texts state in numbers, with the place where it stands.
//!
//! Most of both evaluations is bar charts whose values are printed nowhere; **a number that exists only in a picture
//! is left out** here, for reading bars off with a ruler would be a measurement of our own. [`CHARTS`] lists those
//! charts, so that it is plain what is left out.
//!
//! Both papers measured time on the same board, a BeagleBoard with a Cortex-A8, each with its own kernel and its own
//! selection of benchmarks. None of it is comparable with an instruction count without care: see [`COMPARABILITY`].
//!
//! * *STAR*: N. Penneman, D. Kudinskas, A. Rawsthorne, B. De Sutter, K. De Bosschere: Evaluation of dynamic binary
//!   translation techniques for full system virtualisation on ARMv7-A.
//! * *ARMvisor*: J.-H. Ding, C.-J. Lin, P.-H. Chang, C.-H. Tsang, W.-C. Hsu, Y.-C. Chung: ARMvisor: System
//!   Virtualization for ARM. Proceedings of the Linux Symposium, July 2012, pages 93–107.

use std::fmt;

/// A paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paper {
    /// The STAR hypervisor.
    Star,
    /// The ARMvisor hypervisor.
    Armvisor,
}

impl fmt::Display for Paper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Paper::Star => "STAR",
            Paper::Armvisor => "ARMvisor",
        })
    }
}

/// A figure as a paper states it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// One number.
    Exactly(f64),
    /// From the first to the second.
    Between(f64, f64),
    /// No more than this.
    AtMost(f64),
    /// More than this.
    Over(f64),
    /// About this.
    About(f64),
}

/// What a number counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Per cent.
    Percent,
    /// Times as long as natively, or times as much.
    Times,
    /// Things counted.
    Count,
}

/// A figure of a paper.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figure {
    /// Which paper.
    pub paper: Paper,
    /// Section, figure or table.
    pub place: &'static str,
    /// What it is a figure of.
    pub what: &'static str,
    /// The figure.
    pub value: Value,
    /// What it counts.
    pub unit: Unit,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.unit {
            Unit::Percent => " %",
            Unit::Times => "×",
            Unit::Count => "",
        };
        match self.value {
            Value::Exactly(x) => write!(f, "{x}{unit}"),
            Value::Between(low, high) => write!(f, "{low} to {high}{unit}"),
            Value::AtMost(x) => write!(f, "at most {x}{unit}"),
            Value::Over(x) => write!(f, "over {x}{unit}"),
            Value::About(x) => write!(f, "about {x}{unit}"),
        }
    }
}

/// The figures as a table. A row with a name is a constant as well.
macro_rules! figures {
    ($($name:tt: $paper:ident, $place:literal, $value:expr, $unit:ident, $what:literal;)*) => {
        $(figures!(@constant $name, $paper, $place, $value, $unit, $what);)*

        /// All figures that the texts state, in the papers' order.
        pub const FIGURES: &[Figure] = &[$(figures!(@figure $paper, $place, $value, $unit, $what)),*];
    };
    (@constant _, $($figure:tt)*) => {};
    (@constant $name:ident, $paper:ident, $place:literal, $value:expr, $unit:ident, $what:literal) => {
        #[doc = concat!($place, ": ", $what, ".")]
        pub const $name: Figure = figures!(@figure $paper, $place, $value, $unit, $what);
    };
    (@figure $paper:ident, $place:literal, $value:expr, $unit:ident, $what:literal) => {{
        use Value::*;
        Figure { paper: Paper::$paper, place: $place, what: $what, value: $value, unit: Unit::$unit }
    }};
}

figures! {
    STAR_CONTROL_FLOW: Star, "§5.1, Figure 4", Between(68.0, 96.0), Percent,
        "share of the overhead caused by non-sensitive control flow, naive version";
    _: Star, "§5.1.1, Figure 5", About(4.0), Percent,
        "function returns identified beyond the number of function calls";
    STAR_EXCEPTION_RETURNS: Star, "§5.2, Figure 4", AtMost(4.0), Percent,
        "share of traps that are exception returns, in an optimised engine";
    STAR_MODE_CHANGES: Star, "§5.2, Figure 4", Over(8.0), Percent,
        "share of traps that are CPS and MSR mode changes";
    STAR_USER_REGISTERS: Star, "§5.3, Figure 4", AtMost(8.0), Percent,
        "share of traps that save and restore user mode registers";
    STAR_COPROCESSOR: Star, "§5.5, Figure 4", AtMost(5.0), Percent,
        "share of coprocessor operations and register updates (“mostly limited to”)";
    STAR_SPECIAL_REGISTERS: Star, "§5.6", Between(1.0, 9.0), Percent,
        "share of special register accesses without side effects";
    _: Star, "§4.1", Exactly(8.0), Count,
        "instructions to enter the privileged mode by a lightweight trap";
    _: Star, "§6.1, Figure 6", Exactly(8.0), Count,
        "benchmarks on which spilling one register inside the code cache is only slightly worse than in TPIDRURW";
    _: Star, "§6.1, Figure 7", Over(2.0), Times,
        "overhead of spilling two registers to coprocessor registers over spilling inside the code cache";
    STAR_UNOPTIMISED: Star, "§6.2, Figure 8", Between(20.0, 76.0), Times,
        "slowdown over native, unoptimised (only direct branches linked), all benchmarks";
    STAR_PROCESS_UNOPTIMISED: Star, "§6.2, Figure 8", Exactly(20.0), Times,
        "slowdown of process creation, unoptimised";
    STAR_PROCESS_OPTIMISED: Star, "§6.2, Figure 8", Exactly(7.0), Times,
        "slowdown of process creation, all optimisations";
    STAR_CALLS_UNOPTIMISED: Star, "§6.2, Figure 8", Exactly(76.0), Times,
        "slowdown of simple system calls, unoptimised";
    STAR_CALLS_OPTIMISED: Star, "§6.2, Figure 8", Exactly(15.0), Times,
        "slowdown of simple system calls, all optimisations";
    _: Star, "§6.2, Figure 8", Exactly(45.0), Percent,
        "average reduction in slowdown from shadow stack to all optimisations";
    STAR_APPLICATIONS_NAIVE: Star, "§6.3, Figure 9", AtMost(2.0), Times,
        "run time of applications over native, naive version with linking (“almost a factor of two”)";
    STAR_APPLICATIONS_OPTIMISED: Star, "Abstract, §6.3, §7, Figure 9", AtMost(16.0), Percent,
        "perceived slowdown of applications, all optimisations";
    _: Star, "§7", AtMost(5.0), Times,
        "run time of applications over native, naive version (“up to five times”; §6.3 says almost two, with linking)";
    _: Armvisor, "§3.1.1", Exactly(31.0), Count,
        "sensitive instructions in ARMv6";
    _: Armvisor, "§3.1.1", Exactly(7.0), Count,
        "of them privileged";
    _: Armvisor, "Table 1", Exactly(4.0), Count,
        "critical instructions in the kernel: data processing (MOVS)";
    _: Armvisor, "Table 1", Exactly(34.0), Count,
        "critical instructions in the kernel: MSR, MRS, CPS";
    _: Armvisor, "Table 1", Exactly(8.0), Count,
        "critical instructions in the kernel: LDM (2, 3), STM (2, 3)";
    _: Armvisor, "§6.1, Table 7", About(36.0), Percent,
        "traps left of the original version’s, all optimisations";
    ARMVISOR_SELECT: Armvisor, "§6.2, Figure 6", Exactly(30.0), Times,
        "slowdown of lat_select with 10 files, no optimisation";
    _: Armvisor, "§6.2, Figure 7", Over(80.0), Percent,
        "average improvement of system calls, signals and select, all optimisations (“approximately over”)";
    _: Armvisor, "§6.2, Figure 7", About(45.0), Percent,
        "average improvement of process creation by the memory optimisation alone";
    _: Armvisor, "Abstract", AtMost(6.63), Times,
        "average speed-up on lmbench over its own original version (“up to”)";
    _: Armvisor, "§7", AtMost(4.65), Times,
        "average speed-up on lmbench over its own original version (“up to”; the abstract says 6.63)";
}

/// A row of ARMvisor's Table 7: traps of a program that does nothing, so of the creation of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traps {
    /// The row's name.
    pub name: &'static str,
    /// Without optimisations.
    pub original: u64,
    /// With all optimisations, which paravirtualise the guest.
    pub optimised: u64,
}

/// ARMvisor's Table 7.
pub const ARMVISOR_TABLE_7: &[Traps] = &[
    traps("sen_inst_trap", 12_825, 813),
    traps("irq", 6, 3),
    traps("fast_trap", 5_034, 5_562),
    traps("dat_trans", 1_301, 25),
    traps("protection", 299, 0),
    traps("mmio", 95, 56),
    traps("Dabt_true", 178, 186),
    traps("Pabt_kvm (inst_trans)", 758, 6),
    traps("Pabt_true", 106, 106),
    traps("mem_pv", 0, 714),
];

/// The last row of ARMvisor's Table 7.
pub const ARMVISOR_TABLE_7_TOTAL: Traps = traps("Total_trap", 20_602, 7_471);

const fn traps(name: &'static str, original: u64, optimised: u64) -> Traps {
    Traps { name, original, optimised }
}

/// What a paper measured on, as it says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Which paper.
    pub paper: Paper,
    /// Where it says so.
    pub place: &'static str,
    /// The board and its processor.
    pub board: &'static str,
    /// The guest.
    pub guest: &'static str,
    /// What was measured, and how.
    pub method: &'static str,
}

/// What the papers measured on.
pub const SETTINGS: [Setting; 2] = [
    Setting {
        paper: Paper::Star,
        place: "§5, §6",
        board: "BeagleBoard, TI OMAP 3, Cortex-A8",
        guest: "vanilla Linux 3.4.108, unmodified",
        method: "time: lmbench 3’s own timing, 100 runs averaged, with unsupervised access to hardware timers; \
                 mibench 1 by wall time, large inputs, three runs",
    },
    Setting {
        paper: Paper::Armvisor,
        place: "§6, Table 6",
        board: "TI BeagleBoard, Cortex-A8 at 720 MHz, 16 KB + 16 KB L1, 256 KB L2, 256 MB RAM",
        guest: "Linux 2.6.31.5, paravirtualised, on a Realview-eb ARM11 machine",
        method: "time: lmbench; trap counts of an internal profiler",
    },
];

/// A chart of a paper whose values its text does not state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chart {
    /// Which paper.
    pub paper: Paper,
    /// The figure's number.
    pub number: u32,
    /// What it shows.
    pub shows: &'static str,
    /// What the text states of it.
    pub stated: &'static str,
}

/// The charts whose bars are not given as numbers and are therefore not reproduced.
pub const CHARTS: &[Chart] = &[
    chart(Paper::Star, 4, "frequency of traps by instruction class, naive version", "ranges per class (§5.1 to §5.6)"),
    chart(Paper::Star, 5, "frequency of traps by kind of control flow", "that most are direct branches (§5.1)"),
    chart(Paper::Star, 6, "overhead of spilling at most one register", "the order of the techniques (§6.1)"),
    chart(
        Paper::Star,
        7,
        "overhead of spilling at most two registers",
        "that coprocessor registers cost over twice as much (§6.1)",
    ),
    chart(Paper::Star, 8, "slowdown per optimisation step", "extremes, and the average gain of the last steps (§6.2)"),
    chart(Paper::Star, 9, "run time of mibench programs", "the worst case with and without optimisations (§6.3)"),
    chart(Paper::Armvisor, 6, "slowdown on lmbench, three versions", "one value (§6.2)"),
    chart(Paper::Armvisor, 7, "improvement on lmbench", "averages of two groups (§6.2)"),
];

const fn chart(paper: Paper, number: u32, shows: &'static str, stated: &'static str) -> Chart {
    Chart { paper, number, shows, stated }
}

/// What may and may not be compared, for readers of a report.
pub const COMPARABILITY: &[&str] = &[
    "The papers report times on a real Cortex-A8, with its caches, TLBs, pipeline and memory. Ours are counts of \
     executed instructions on QEMU’s model of a board, where every instruction counts the same and traps, TLB misses \
     and cache misses cost nothing by themselves. A ratio of instructions is not a ratio of times.",
    "The modelled cycles put a price on each kind of event. They are a model: where its costs are estimates, it gives \
     a range, and only the whole range may be compared with a time.",
    "The guests differ: Debian 12’s Linux 6.1 is built for every ARMv7 board and has software PAN, which writes DACR \
     twice per system call and more often where it copies; the Linux 3.4 and 2.6 of the papers lack it. A ratio is \
     therefore over another native path.",
    "The trap counts are comparable in kind: a trap is an entry into the hypervisor for the same class of \
     instruction. Their frequency depends on the guest’s kernel.",
    "ARMvisor’s guest is paravirtualised: its source was changed. STAR’s and ours are not.",
    "The applications differ: STAR ran mibench, ours are programs of Debian that do the same kind of work, on generated \
     inputs.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_7_adds_up_as_the_paper_says() {
        let sum = |of: fn(&Traps) -> u64| ARMVISOR_TABLE_7.iter().map(of).sum::<u64>();
        assert_eq!(sum(|t| t.original), ARMVISOR_TABLE_7_TOTAL.original);
        assert_eq!(sum(|t| t.optimised), ARMVISOR_TABLE_7_TOTAL.optimised);
        let left = 100.0 * ARMVISOR_TABLE_7_TOTAL.optimised as f64 / ARMVISOR_TABLE_7_TOTAL.original as f64;
        assert_eq!(left.round(), 36.0, "§6.1: only about 36%");
    }

    #[test]
    fn figures_read_as_the_papers_put_them() {
        assert_eq!(STAR_UNOPTIMISED.to_string(), "20 to 76×");
        assert_eq!(STAR_APPLICATIONS_OPTIMISED.to_string(), "at most 16 %");
        assert_eq!(STAR_MODE_CHANGES.to_string(), "over 8 %");
    }

    #[test]
    fn no_figure_stands_twice_and_each_has_a_place() {
        for (at, figure) in FIGURES.iter().enumerate() {
            assert!(!figure.place.is_empty() && !figure.what.is_empty());
            assert!(!FIGURES[..at].contains(figure), "{} is there twice", figure.what);
            if let Value::Between(low, high) = figure.value {
                assert!(low < high, "{}", figure.what);
            }
        }
    }
}
