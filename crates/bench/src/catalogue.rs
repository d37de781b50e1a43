//! Names that both the runner and the report know: the configurations that figures of the papers ask for, and what each
//! kernel operation stands for in STAR's evaluation.
//!
//! A result file may hold other names; they are shown like any other, only not set beside a figure of a paper.

/// Spica as it is shipped.
pub const DEFAULT: &str = "default";
/// The naive translator of STAR §3: every row of its Table 1 traps. The configuration of STAR's Figure 4.
pub const NAIVE: &str = "naive";
/// The naive translator with direct branches linked: what STAR calls unoptimised in Figures 8 and 9, because without
/// linking its system was unusable.
pub const LINKED: &str = "naive+link";

/// What a kernel operation exercises. STAR's text gives figures for kinds rather than for single benchmarks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A system call that does little.
    SystemCall,
    /// `select`.
    Select,
    /// Signals and protection faults.
    Signal,
    /// Pipes and sockets.
    Communication,
    /// Process creation.
    Process,
    /// Switches between processes.
    Switch,
    /// Page faults and mappings.
    Memory,
}

/// A kernel operation of lmbench.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    /// Its name in result files.
    pub name: &'static str,
    /// What it exercises.
    pub kind: Kind,
    /// The benchmark of STAR's Figures 4 to 8 that it is, if it is one of them.
    pub star: Option<&'static str>,
}

/// The kernel operations, in the order in which figures show them.
pub const KERNEL: &[Operation] = &[
    operation("null", Kind::SystemCall, Some("lat_syscall null")),
    operation("read", Kind::SystemCall, Some("lat_syscall read")),
    operation("write", Kind::SystemCall, Some("lat_syscall write")),
    operation("stat", Kind::SystemCall, Some("lat_syscall stat")),
    operation("fstat", Kind::SystemCall, Some("lat_syscall fstat")),
    operation("open-close", Kind::SystemCall, Some("lat_syscall open")),
    operation("select-10", Kind::Select, Some("lat_select -n 10")),
    operation("select-100", Kind::Select, None),
    operation("select-tcp-100", Kind::Select, None),
    operation("signal-install", Kind::Signal, Some("lat_sig install")),
    operation("signal-catch", Kind::Signal, Some("lat_sig catch")),
    operation("protection-fault", Kind::Signal, None),
    operation("pipe", Kind::Communication, Some("lat_pipe")),
    operation("unix", Kind::Communication, None),
    operation("fork-exit", Kind::Process, Some("lat_proc fork")),
    operation("fork-exec", Kind::Process, Some("lat_proc exec")),
    operation("fork-shell", Kind::Process, None),
    operation("context-2", Kind::Switch, None),
    operation("context-8", Kind::Switch, None),
    operation("context-16", Kind::Switch, None),
    operation("page-fault", Kind::Memory, Some("lat_pagefault")),
    operation("mmap", Kind::Memory, None),
];

/// Applications that stand for a program of STAR's Figure 9, by their names in result files, and that program of
/// MiBench.
pub const MIBENCH: &[(&str, &str)] = &[
    ("lame", "lame"),
    ("madplay", "mad"),
    ("toast", "gsm"),
    ("untoast", "gsm"),
    ("cjpeg", "jpeg"),
    ("djpeg", "jpeg"),
    ("ispell", "ispell"),
];

/// Applications that compute: they have little to do with the kernel between their start and their end.
const COMPUTE: &[&str] = &[
    "lame",
    "madplay",
    "toast",
    "untoast",
    "cjpeg",
    "djpeg",
    "ispell-build",
    "ispell",
    "gzip",
    "gunzip",
    "bzip2",
    "bunzip2",
    "xz",
    "unxz",
    "sqlite",
    "stress-matrix",
    "stress-sort",
    "stress-memory",
];

/// Whether an application computes, rather than has the kernel work for it.
#[must_use]
pub fn computes(name: &str) -> bool {
    COMPUTE.contains(&name)
}

/// The program of MiBench that an application stands for.
#[must_use]
pub fn mibench(name: &str) -> Option<&'static str> {
    MIBENCH.iter().find(|(ours, _)| *ours == name).map(|(_, theirs)| *theirs)
}

const fn operation(name: &'static str, kind: Kind, star: Option<&'static str>) -> Operation {
    Operation { name, kind, star }
}

/// The kernel operation of that name.
#[must_use]
pub fn kernel_operation(name: &str) -> Option<&'static Operation> {
    KERNEL.iter().find(|o| o.name == name)
}
