//! Every workload for Linux guests: what it needs and where it comes from. How it is run stands in
//! `bench/linux/run.sh`, under the same name. Probes of the core stand in `bench/probes`.

use spica_bench::results::Group;

use super::inputs;

/// A workload.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Its name, here, in the script, and in result files.
    pub name: &'static str,
    /// The group.
    pub group: Group,
    /// What one operation is, for the reader of a figure: its nanoseconds are those of one of these.
    pub unit: &'static str,
    /// What it does, and which of the usual benchmarks it stands for.
    pub description: &'static str,
    /// The Debian packages whose programs it runs.
    pub packages: &'static [&'static str],
    /// What is taken from them; the libraries come by themselves.
    pub programs: &'static [Program],
    /// Files that are made here: their paths in the guest, and what makes them.
    pub inputs: &'static [(&'static str, Maker)],
    /// What is known of its output: `sha256 HEX` or `bytes NUMBER`.
    pub expected: Option<fn() -> String>,
    /// Whether `bench/linux/program` can stand in where the packages can't be had.
    pub own: bool,
    /// Whether it is part of a quick run.
    pub quick: bool,
}

/// Makes the bytes of a file.
pub type Maker = fn() -> Vec<u8>;

/// A file of a package, and where the guest has it.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The path in the package. One part may be `*`, for the only directory there. What ends in `.gz` is decompressed.
    pub from: &'static str,
    /// The path in the guest.
    pub to: &'static str,
}

/// A program of lmbench.
macro_rules! lmbench {
    ($($name:literal),*) => {
        &[$(Program {
            from: concat!("usr/lib/lmbench/bin/*/", $name),
            // lmbench's own idea of where it is, compiled into `lat_proc`.
            to: concat!("var/tmp/lmbench/", $name),
        }),*]
    };
}

/// Programs that a person would call, too.
macro_rules! programs {
    ($($path:literal),*) => {
        &[$(Program { from: $path, to: concat!("bench/", $path) }),*]
    };
}

/// What lmbench measures.
const fn kernel(name: &'static str, unit: &'static str, programs: &'static [Program]) -> Workload {
    Workload {
        name,
        group: Group::Kernel,
        unit,
        description: unit,
        packages: &["lmbench"],
        programs,
        inputs: &[],
        expected: None,
        own: true,
        quick: false,
    }
}

/// What a program of our own does again and again.
const fn cliff(name: &'static str, unit: &'static str) -> Workload {
    Workload { group: Group::Cliff, packages: &[], ..kernel(name, unit, &[]) }
}

/// A probe of the core.
const fn probe(probe: &spica_probes::Probe) -> Workload {
    Workload { group: Group::Probes, packages: &[], ..kernel(probe.name, probe.kind.unit(), &[]) }
}

/// A run of a program from start to end.
const fn application(
    name: &'static str,
    description: &'static str,
    packages: &'static [&'static str],
    programs: &'static [Program],
) -> Workload {
    Workload {
        name,
        group: Group::Application,
        unit: "run",
        description,
        packages,
        programs,
        inputs: &[],
        expected: None,
        own: false,
        quick: false,
    }
}

impl Workload {
    const fn quick(self) -> Self {
        Self { quick: true, ..self }
    }

    const fn only_lmbench(self) -> Self {
        Self { own: false, ..self }
    }

    const fn with(self, inputs: &'static [(&'static str, Maker)]) -> Self {
        Self { inputs, ..self }
    }

    const fn gives(self, expected: fn() -> String) -> Self {
        Self { expected: Some(expected), ..self }
    }
}

const STRESS: &[Program] = programs!["usr/bin/stress-ng"];
const HACKBENCH: &[Program] = programs!["usr/bin/hackbench"];
const ISPELL: &[Program] = &[
    Program { from: "usr/bin/buildhash", to: "bench/usr/bin/buildhash" },
    Program { from: "usr/bin/ispell", to: "bench/usr/bin/ispell" },
    Program { from: "usr/lib/ispell/english.aff", to: "bench/english.aff" },
    Program { from: "usr/share/ispell/american.med+.mwl.gz", to: "bench/american.mwl" },
];
const ISPELL_PACKAGES: &[&str] = &["ispell", "iamerican", "ienglish-common"];

/// Probes of the core.
pub static PROBES: [Workload; spica_probes::PROBES.len()] = {
    let mut all = [probe(&spica_probes::PROBES[0]); spica_probes::PROBES.len()];
    let mut n = 1;
    while n < all.len() {
        all[n] = probe(&spica_probes::PROBES[n]);
        n += 1;
    }
    all
};

/// All other workloads, in the order of a run: later ones may use what earlier ones have made, and make it themselves
/// if they run alone.
pub const WORKLOADS: &[Workload] = &[
    kernel("null", "getppid()", lmbench!["lat_syscall"]).quick(),
    kernel("read", "read() of a byte of /dev/zero", lmbench!["lat_syscall"]).quick(),
    kernel("write", "write() of a byte to /dev/null", lmbench!["lat_syscall"]),
    kernel("stat", "stat() of a file", lmbench!["lat_syscall"]).quick(),
    kernel("fstat", "fstat() of a file", lmbench!["lat_syscall"]),
    kernel("open-close", "open() and close() of a file", lmbench!["lat_syscall"]),
    kernel("signal-install", "sigaction()", lmbench!["lat_sig"]),
    kernel("signal-catch", "a signal caught, without its sending", lmbench!["lat_sig"]).quick(),
    kernel("protection-fault", "a protection fault, without its signal", lmbench!["lat_sig"]),
    kernel("pipe", "a byte to another process and back", lmbench!["lat_pipe"]).quick(),
    kernel("unix", "a byte to another process and back, by AF_UNIX", lmbench!["lat_unix"]),
    kernel("context-2", "a context switch among 2 processes", lmbench!["lat_ctx"]).only_lmbench().quick(),
    kernel("context-8", "a context switch among 8 processes", lmbench!["lat_ctx"]).only_lmbench(),
    kernel("context-16", "a context switch among 16 processes", lmbench!["lat_ctx"]).only_lmbench(),
    kernel("select-10", "select() on 10 descriptors of files", lmbench!["lat_select"]),
    kernel("select-100", "select() on 100 descriptors of files", lmbench!["lat_select"]),
    kernel("select-tcp-100", "select() on 100 descriptors of sockets", lmbench!["lat_select"]).only_lmbench(),
    kernel("fork-exit", "fork() and exit()", lmbench!["lat_proc", "hello"]).quick(),
    kernel("fork-exec", "fork() and execve()", lmbench!["lat_proc", "hello"]),
    kernel("fork-shell", "a program started by a shell", lmbench!["lat_proc", "hello"]),
    kernel("page-fault", "a page of a mapped file touched", lmbench!["lat_pagefault"]).quick(),
    kernel("mmap", "4 MB mapped, touched here and there, and unmapped", lmbench!["lat_mmap"]),
    cliff("cacheflush", "cacheflush() of 64 bytes"),
    cliff("jit", "8 bytes of code written, flushed and called"),
    cliff("ftrace", "the kernel's function tracer turned on and off"),
    cliff("interval-timer", "a tick of a timer of 50 µs, and its signal"),
    cliff("sleep", "a sleep of 100 µs: how late it ends"),
    cliff("misaligned", "LDRD of an address that the kernel has to mend"),
    cliff("processes", "a turn of one of 40 processes around which a byte goes"),
    cliff("spread", "a page read in each of 1500 megabytes"),
    application("lame", "encodes 8 s of audio as MP3; MiBench's lame", &["lame"], programs!["usr/bin/lame"])
        .with(&[("bench/tone.wav", inputs::tone)]),
    application(
        "madplay",
        "decodes the MP3 with integers; MiBench's mad",
        &["madplay", "lame"],
        programs!["usr/bin/madplay", "usr/bin/lame"],
    )
    .with(&[("bench/tone.wav", inputs::tone)]),
    application("toast", "encodes 80 s of speech as GSM; MiBench's gsm", &["libgsm-tools"], programs!["usr/bin/toast"])
        .with(&[("bench/speech.raw", inputs::speech)])
        .gives(|| inputs::bytes(inputs::GSM_BYTES)),
    application("untoast", "decodes the speech; MiBench's gsm", &["libgsm-tools"], programs!["usr/bin/toast"])
        .with(&[("bench/speech.raw", inputs::speech)])
        .gives(|| inputs::bytes(inputs::speech().len())),
    application("cjpeg", "compresses a picture; MiBench's jpeg", &["libjpeg-turbo-progs"], programs!["usr/bin/cjpeg"])
        .with(&[("bench/picture.ppm", inputs::picture)])
        .quick(),
    application(
        "djpeg",
        "decompresses the picture; MiBench's jpeg",
        &["libjpeg-turbo-progs"],
        programs!["usr/bin/djpeg", "usr/bin/cjpeg"],
    )
    .with(&[("bench/picture.ppm", inputs::picture)])
    .gives(|| inputs::bytes(inputs::picture().len())),
    application("ispell-build", "makes a dictionary of 49,204 words with affixes", ISPELL_PACKAGES, ISPELL),
    application("ispell", "checks the spelling of a text; MiBench's ispell", ISPELL_PACKAGES, ISPELL)
        .with(&[("bench/text", inputs::text)])
        .gives(|| inputs::sha256(&inputs::misspelt())),
    application("gzip", "compresses data", &["gzip"], programs!["bin/gzip"])
        .with(&[("bench/data", inputs::data)])
        .gives(|| inputs::sha256(&inputs::data()))
        .quick(),
    application("gunzip", "decompresses it", &["gzip"], programs!["bin/gzip"])
        .with(&[("bench/data", inputs::data)])
        .gives(|| inputs::sha256(&inputs::data())),
    application("bzip2", "compresses data", &["bzip2"], programs!["bin/bzip2"])
        .with(&[("bench/data", inputs::data)])
        .gives(|| inputs::sha256(&inputs::data())),
    application("bunzip2", "decompresses it", &["bzip2"], programs!["bin/bzip2"])
        .with(&[("bench/data", inputs::data)])
        .gives(|| inputs::sha256(&inputs::data())),
    application("xz", "compresses data", &["xz-utils"], programs!["usr/bin/xz"])
        .with(&[("bench/data", inputs::data)])
        .gives(|| inputs::sha256(&inputs::data())),
    application("unxz", "decompresses it", &["xz-utils"], programs!["usr/bin/xz"])
        .with(&[("bench/data", inputs::data)])
        .gives(|| inputs::sha256(&inputs::data())),
    application(
        "sqlite",
        "fills, queries and changes a data base in a file",
        &["sqlite3"],
        programs!["usr/bin/sqlite3"],
    )
    .with(&[("bench/queries.sql", inputs::queries)])
    .gives(|| inputs::sha256(&inputs::answers()))
    .quick(),
    application(
        "redis",
        "a server of keys and values, and a client, by AF_UNIX",
        &["redis-server", "redis-tools"],
        programs!["usr/bin/redis-server", "usr/bin/redis-benchmark", "usr/bin/redis-cli"],
    )
    .gives(|| inputs::sha256(&inputs::redis_answers())),
    application("hackbench-pipe", "20 processes with much to say, by pipes", &["rt-tests"], HACKBENCH).quick(),
    application("hackbench-socket", "20 processes with much to say, by AF_UNIX", &["rt-tests"], HACKBENCH),
    application("tar-files", "packs 417 small files with busybox", &[], &[]).with(&[("bench/text", inputs::text)]),
    application("grep-files", "searches them for a word with busybox", &[], &[]).with(&[("bench/text", inputs::text)]),
    application("shell-script", "a script of busybox's shell that reads and counts them", &[], &[])
        .with(&[("bench/text", inputs::text), ("bench/script.sh", inputs::script)]),
    application("stress-matrix", "stress-ng: products of matrices of floating-point numbers", &["stress-ng"], STRESS),
    application("stress-sort", "stress-ng: sorts integers", &["stress-ng"], STRESS),
    application("stress-memory", "stress-ng: maps, fills and checks memory", &["stress-ng"], STRESS),
    application("stress-fork", "stress-ng: makes processes", &["stress-ng"], STRESS),
    application("stress-switch", "stress-ng: switches between processes", &["stress-ng"], STRESS),
    application("stress-signal", "stress-ng: catches signals of faults", &["stress-ng"], STRESS),
    application("iperf3-loopback", "8 MiB by TCP from a process to another", &["iperf3"], programs!["usr/bin/iperf3"]),
];
