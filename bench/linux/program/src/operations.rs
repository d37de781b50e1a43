//! Kernel operations, defined as lmbench defines them (`lat_syscall`, `lat_sig`, `lat_pipe`, `lat_unix`, `lat_select`,
//! `lat_proc`, `lat_pagefault`, `lat_mmap`), without its code.
//!
//! Each is repeated in a loop, twice as often as before until the loop takes long enough; the last loop counts. The
//! loop's own two or three instructions are not taken off.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use spica_freestanding::Arguments;
use spica_freestanding::linux::{Backing, call, exit, fork, map, number, pipe, protection, read, simple, unmap, write};
use spica_freestanding::output::{OUTPUT, line};
use spica_freestanding::signals::{install, signal};

use crate::linux::{exec, ignore, mount, now, open, open_file, redirect, skip_faults, socket_pair, wait};
use crate::usage;

/// The file that is looked at, opened and mapped.
const FILE: &CStr = c"/tmp/bench-file";
/// How much of it is mapped, in bytes, as for lmbench.
const FILE_SIZE: usize = 4 << 20;
const PAGE: usize = 4096;
/// The least microseconds for a loop, unless the arguments say otherwise.
const ENOUGH: u64 = 50_000;

/// An operation: does it this many times.
type Operation = fn(u32) -> Time;

/// How long something took, in nanoseconds.
#[derive(Clone, Copy)]
struct Time {
    /// All that was measured.
    spent: u64,
    /// What of it does not count.
    overhead: u64,
}

/// Every operation, by its name in `spica bench`.
const OPERATIONS: &[(&str, Operation)] = &[
    ("null", |n| repeat(n, || _ = simple(number::GETPPID, 0, 0, 0))),
    ("read", |n| with_file(c"/dev/zero", open::READ, |f| repeat(n, || assert_eq!(read(f, &mut [0]), 1)))),
    ("write", |n| with_file(c"/dev/null", open::WRITE, |f| repeat(n, || assert_eq!(write(f, &[0]), 1)))),
    ("stat", |n| repeat(n, || status(number::STAT64, FILE.as_ptr() as u32))),
    ("fstat", |n| with_file(FILE, open::READ, |f| repeat(n, || status(number::FSTAT64, f)))),
    ("open-close", |n| repeat(n, || with_file(FILE, open::READ, |_| ()))),
    ("signal-install", |n| repeat(n, || ignore(signal::USR1))),
    ("signal-catch", catch),
    ("protection-fault", fault),
    ("pipe", |n| there_and_back(n, Some(pipe()), pipe())),
    ("unix", |n| there_and_back(n, None, socket_pair())),
    ("select-10", |n| select(n, 10)),
    ("select-100", |n| select(n, 100)),
    ("fork-exit", |n| repeat(n, || child(|| exit(0)))),
    ("fork-exec", |n| {
        repeat(n, || child(|| become_program(c"/proc/self/exe", &[c"stopwatch", c"operation", c"nothing"])))
    }),
    ("fork-shell", |n| repeat(n, || child(|| become_program(c"/bin/sh", &[c"sh", c"-c", c"true"])))),
    ("page-fault", page_faults),
    ("mmap", mmap),
    ("cacheflush", cache_flush),
    ("jit", write_and_call),
    ("ftrace", trace_functions),
    ("interval-timer", ticks),
    ("sleep", sleeps),
    ("misaligned", misaligned),
    ("processes", ring),
    ("spread", spread),
    ("compute", compute),
    ("fresh-page", fresh_pages),
];

/// Times the operation that the arguments name, and prints the nanoseconds of one.
pub fn run(arguments: &Arguments) -> ! {
    let operation = named(arguments);
    let enough = argument(arguments, 3).unwrap_or(ENOUGH) * 1000;
    let mut count = 1u32;
    let time = loop {
        let time = operation(count);
        if time.spent >= enough || count >= 1 << 30 {
            break time.spent.saturating_sub(time.overhead);
        }
        count *= 2;
    };
    say(time, count);
}

core::arch::global_asm!(
    ".arm",
    ".global profile_begins, profile_middle, profile_ends",
    "profile_begins: bx lr",
    "profile_middle: bx lr",
    "profile_ends: bx lr",
);

unsafe extern "C" {
    safe fn profile_begins();
    safe fn profile_middle();
    safe fn profile_ends();
}

/// Does the operation that the arguments name as often as they say, and then twice as often, with functions called
/// before, between and behind, where a debugger can stop the board. Prints the nanoseconds of one: what the second time
/// takes longer, with what does not count, because it is executed all the same.
///
/// All of it was done once before, so that what happens once only is over.
pub fn profile(arguments: &Arguments) -> ! {
    let operation = named(arguments);
    let Some(count) = argument(arguments, 3).and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0)
    else {
        usage("stopwatch profile NAME COUNT");
    };
    operation(2 * count);
    profile_begins();
    let once = operation(count);
    profile_middle();
    let twice = operation(2 * count);
    profile_ends();
    say(twice.spent.saturating_sub(once.spent), count);
}

/// The operation that the second argument names. Without one, this is a process that only begins and ends.
fn named(arguments: &Arguments) -> Operation {
    let name = arguments.get(2).map_or(&b""[..], CStr::to_bytes);
    if name == b"nothing" {
        exit(0);
    }
    match OPERATIONS.iter().find(|(n, _)| n.as_bytes() == name) {
        Some((_, operation)) => *operation,
        None => usage("stopwatch operation NAME [ENOUGH]; no such operation"),
    }
}

/// An argument that is a number.
fn argument(arguments: &Arguments, index: usize) -> Option<u64> {
    arguments.get(index)?.to_str().ok()?.parse().ok()
}

/// Prints the nanoseconds of one of `count` operations, and ends.
fn say(time: u64, count: u32) -> ! {
    // In tenths, since there is no floating point here.
    let tenths = time * 10 / u64::from(count);
    line(OUTPUT, format_args!("{}.{}", tenths / 10, tenths % 10));
    exit(0);
}

/// Does it `count` times; gives the nanoseconds.
#[inline(always)]
fn repeat(count: u32, mut once: impl FnMut()) -> Time {
    let start = now();
    for _ in 0..count {
        once();
    }
    Time { spent: now() - start, overhead: 0 }
}

/// Opens a file, uses it, and closes it.
#[inline(always)]
fn with_file<T>(path: &CStr, flags: u32, work: impl FnOnce(u32) -> T) -> T {
    let file = open_file(path, flags);
    let result = work(file);
    simple(number::CLOSE, file, 0, 0);
    result
}

/// `stat` or `fstat`.
fn status(number: u32, what: u32) {
    let mut status = [0u64; 16]; // More than the kernel's 104 bytes.
    assert_eq!(simple(number, what, (&raw mut status) as u32, 0), 0, "stat");
}

/// A signal sent to oneself and caught, less the system call that sends it.
fn catch(count: u32) -> Time {
    ignore(signal::USR1);
    let me = simple(number::GETPID, 0, 0, 0) as u32;
    let send = |signal| repeat(count, || _ = simple(number::KILL, me, signal, 0));
    let sent = send(0);
    Time { overhead: sent.spent, ..send(signal::USR1) }
}

/// A store to memory that may only be read, and the signal for it caught; less what a caught signal costs.
fn fault(count: u32) -> Time {
    let caught = catch(count);
    let overhead = caught.spent.saturating_sub(caught.overhead);
    skip_faults();
    let page = with_file(FILE, open::READ, |file| map(PAGE, protection::READ, Backing::File(file)));
    let time = repeat(count, || {
        // SAFETY: the store faults, and the handler goes on behind it.
        unsafe { core::arch::asm!(".arm", "str {0}, [{0}]", in(reg) page, options(nostack)) }
    });
    unmap(page, PAGE);
    Time { overhead, ..time }
}

/// A byte to another process and back: over two pipes, or without the first over a pair of sockets.
fn there_and_back(count: u32, first: Option<[u32; 2]>, second: [u32; 2]) -> Time {
    // (reads, writes) of the parent and of the child.
    let (parent, other) = match first {
        Some(first) => ((first[0], second[1]), (second[0], first[1])),
        None => ((second[0], second[0]), (second[1], second[1])),
    };
    let mut byte = [0u8];
    let process = fork();
    if process == 0 {
        // Only the parent may hold the end whose closing ends this loop.
        simple(number::CLOSE, parent.1, 0, 0);
        while read(other.0, &mut byte) == 1 {
            write(other.1, &byte);
        }
        exit(0);
    }
    let time = repeat(count, || {
        assert_eq!(write(parent.1, &[0]), 1, "write");
        assert_eq!(read(parent.0, &mut byte), 1, "read");
    });
    for file in first.iter().flatten().chain(&second) {
        simple(number::CLOSE, *file, 0, 0);
    }
    assert_eq!(wait(process), 0, "the other process");
    time
}

/// Asks which of `files` descriptors, all of one ordinary file, can be written; all can.
fn select(count: u32, files: u32) -> Time {
    let file = open_file(FILE, open::READ);
    let mut set = [0u32; 32];
    // From here on, descriptors are free. As for lmbench, the highest number asked for is that of the descriptors.
    for copy in file + 1..=file + files {
        assert!(simple(number::DUP2, file, copy, 0) >= 0, "dup2");
        set[copy as usize / 32] |= 1 << (copy % 32);
    }
    let time = repeat(count, || {
        let (mut wanted, mut timeout) = (set, [0u32; 2]);
        // SAFETY: the kernel changes the set and the time, which are not used again.
        let ready = unsafe {
            let (set, time) = ((&raw mut wanted) as u32, (&raw mut timeout) as u32);
            call(number::SELECT, [files, 0, set, 0, time, 0])
        };
        assert!(ready > 0, "select");
    });
    for copy in file..=file + files {
        simple(number::CLOSE, copy, 0, 0);
    }
    time
}

/// Forks, lets the child do its work, and waits for it.
fn child(work: impl FnOnce()) {
    let process = fork();
    if process == 0 {
        work();
        exit(1);
    }
    assert_eq!(wait(process), 0, "the child");
}

/// Becomes another program, without output and environment.
fn become_program(program: &CStr, arguments: &[&CStr]) {
    let mut list = [core::ptr::null(); 8];
    for (slot, argument) in list.iter_mut().zip(arguments) {
        *slot = argument.as_ptr().cast::<u8>();
    }
    redirect(open_file(c"/dev/null", open::WRITE), 1);
    exec(program, list.as_ptr(), [core::ptr::null()].as_ptr());
}

/// Touches each page of a mapped file; the time is that of one page, its share in unmapping it included. `count` is
/// rounded up to whole files.
fn page_faults(count: u32) -> Time {
    let pages = (FILE_SIZE / PAGE) as u32;
    let rounds = count.div_ceil(pages);
    let file = open_file(FILE, open::READ);
    let map_and_touch = |touched: u32| {
        let mut at = 0;
        repeat(rounds, || {
            let memory = map(FILE_SIZE, protection::READ, Backing::File(file));
            for _ in 0..touched {
                // A step that is prime to the number of pages, since the kernel looks ahead of who reads in order.
                at = (at + 619) % pages;
                // SAFETY: within the mapped file.
                unsafe { memory.add(at as usize * PAGE).read_volatile() };
            }
            unmap(memory, FILE_SIZE);
        })
    };
    let (with, without) = (map_and_touch(pages), map_and_touch(0));
    simple(number::CLOSE, file, 0, 0);
    let share = |time: Time| time.spent * u64::from(count) / u64::from(rounds * pages);
    Time { spent: share(with), overhead: share(without) }
}

/// Stores to pages that the kernel has to find and clear first. The time is that of one, its share in mapping and
/// unmapping included. `count` is rounded up to whole mappings.
fn fresh_pages(count: u32) -> Time {
    let pages = (FILE_SIZE / PAGE) as u32;
    let rounds = count.div_ceil(pages);
    let time = repeat(rounds, || {
        let memory = map(FILE_SIZE, protection::READ | protection::WRITE, Backing::Fresh);
        for page in 0..FILE_SIZE / PAGE {
            // SAFETY: within the mapping.
            unsafe { memory.add(page * PAGE).write_volatile(1) };
        }
        unmap(memory, FILE_SIZE);
    });
    Time { spent: time.spent * u64::from(count) / u64::from(rounds * pages), ..time }
}

/// Nothing but user code: two million instructions, which go through 16 KiB of memory again and again. With two
/// nanoseconds for each, that is the time between two ticks of a kernel that has 250 a second. What this takes more
/// than its instructions, ticks have taken.
fn compute(count: u32) -> Time {
    const WORDS: usize = 4096;
    let words = [1u32; WORDS];
    repeat(count, || {
        // SAFETY: it reads the array: four instructions a word, and two for each time through.
        unsafe {
            core::arch::asm!(
                ".arm",
                "2: mov {at}, {start}",
                "3: ldr {word}, [{at}], #4",
                "add {sum}, {sum}, {word}",
                "cmp {at}, {end}",
                "bne 3b",
                "subs {times}, {times}, #1",
                "bne 2b",
                start = in(reg) words.as_ptr(), end = in(reg) words.as_ptr_range().end,
                times = inout(reg) 2_000_000 / (4 * WORDS as u32) => _,
                at = out(reg) _, word = out(reg) _, sum = inout(reg) 0 => _,
                options(nostack, readonly)
            );
        }
    })
}

/// The page of a compiler that makes code at run time.
fn code_page() -> *mut u8 {
    let page = map(PAGE, protection::READ | protection::WRITE | protection::EXEC, Backing::Fresh);
    assert_eq!(flush(page, 64), 0, "cacheflush");
    page
}

/// ARM's system call for code that was written: `len` bytes at `start` are what is executed from now on.
#[inline(always)]
fn flush(start: *const u8, len: u32) -> i32 {
    simple(number::CACHEFLUSH, start as u32, start as u32 + len, 0)
}

/// Makes 64 bytes of code what is executed.
fn cache_flush(count: u32) -> Time {
    let page = code_page();
    let time = repeat(count, || _ = flush(page, 64));
    unmap(page, PAGE);
    time
}

/// Writes two instructions, another constant each time, flushes and calls them.
fn write_and_call(count: u32) -> Time {
    let page = code_page();
    let code = page.cast::<u32>();
    let mut number = 0;
    let time = repeat(count, || {
        number = (number + 1) % 256;
        // SAFETY: within the page, which is ours. MOV R0, #number; BX LR.
        unsafe {
            code.write_volatile(0xe3a0_0000 | number);
            code.add(1).write_volatile(0xe12f_ff1e);
        }
        flush(page, 8);
        let result: u32;
        // SAFETY: calls the two instructions, which change R0 alone.
        unsafe {
            core::arch::asm!(".arm", "blx {0}", in(reg) page, out("r0") result, out("lr") _, options(nostack));
        }
        assert_eq!(result, number, "the code of before");
    });
    unmap(page, PAGE);
    time
}

/// Turns the kernel's function tracer on and off, which changes an instruction at the start of nearly every function.
fn trace_functions(count: u32) -> Time {
    mount(c"tracefs", c"/tmp/tracing");
    with_file(c"/tmp/tracing/current_tracer", open::WRITE, |file| {
        repeat(count, || {
            for tracer in [&b"function"[..], b"nop"] {
                assert_eq!(write(file, tracer), tracer.len() as i32, "write");
            }
        })
    })
}

/// How often the interval timer ticks, in microseconds.
const INTERVAL: u32 = 50;

/// Signals of the interval timer that were caught.
static CAUGHT: AtomicU32 = AtomicU32::new(0);

extern "C" fn count_tick() {
    CAUGHT.store(CAUGHT.load(Relaxed) + 1, Relaxed);
}

/// Loops until so many signals were caught, or for `most` rounds; gives the rounds.
#[inline(never)]
fn spin(caught: u32, most: u32) -> u32 {
    let mut rounds = 0u32;
    // SAFETY: it reads a word of ours.
    unsafe {
        core::arch::asm!(
            ".arm",
            "2: ldr {now}, [{at}]",
            "add {rounds}, {rounds}, #1",
            "cmp {now}, {caught}",
            "bhs 3f",
            "cmp {rounds}, {most}",
            "bne 2b",
            "3:",
            at = in(reg) CAUGHT.as_ptr(), caught = in(reg) caught, most = in(reg) most,
            rounds = inout(reg) rounds, now = out(reg) _,
            options(nostack)
        );
    }
    rounds
}

/// Nanoseconds of [`ROUNDS`] rounds of [`spin`] in which nothing else happens; measured once.
fn spinning() -> u64 {
    static TIME: AtomicU32 = AtomicU32::new(0);
    if TIME.load(Relaxed) == 0 {
        let once = |_| repeat(1, || _ = spin(u32::MAX, ROUNDS)).spent as u32;
        // A tick of the kernel's is in some of them.
        TIME.store((0..8).map(once).min().unwrap_or(0), Relaxed);
    }
    TIME.load(Relaxed).into()
}

/// So many take a good part of the time between two ticks of the kernel's.
const ROUNDS: u32 = 1 << 17;

/// A tick of an interval timer while the program computes: its interrupt, and its signal caught; less the program's own
/// computing.
fn ticks(count: u32) -> Time {
    const REAL: u32 = 0;
    let every = |microseconds| {
        // Seconds and microseconds: of the interval, and until the first.
        let setting = [0, microseconds, 0, microseconds];
        assert_eq!(simple(number::SETITIMER, REAL, (&raw const setting) as u32, 0), 0, "setitimer");
    };
    let round = spinning();
    install(signal::ALRM, count_tick as *const () as u32, 0);
    CAUGHT.store(0, Relaxed);
    every(INTERVAL);
    let mut rounds = 0;
    let time = repeat(1, || rounds = spin(count, 0));
    every(0);
    Time { overhead: u64::from(rounds) * round / u64::from(ROUNDS), ..time }
}

/// Sleeps for 100 µs, and how late that ends: less what it is to take.
fn sleeps(count: u32) -> Time {
    const NANOSECONDS: u32 = 100_000;
    // Without it, the kernel has timers of programs wait for each other, 50 µs long (prctl(2), PR_SET_TIMERSLACK).
    const SET_TIMER_SLACK: u32 = 29;
    assert_eq!(simple(number::PRCTL, SET_TIMER_SLACK, 1, 0), 0, "prctl");
    let time = [0, NANOSECONDS];
    let spent = repeat(count, || assert_eq!(simple(number::NANOSLEEP, (&raw const time) as u32, 0, 0), 0, "nanosleep"));
    Time { overhead: u64::from(count) * u64::from(NANOSECONDS), ..spent }
}

/// Loads a double word that is not aligned to words, which the kernel does instead of the processor.
fn misaligned(count: u32) -> Time {
    let words = [0u32, 0x0123_4567, 0x89ab_cdef, 0];
    // SAFETY: within the array.
    let at = unsafe { words.as_ptr().cast::<u8>().add(2) };
    repeat(count, || {
        let (low, high): (u32, u32);
        // SAFETY: 8 bytes of the array.
        unsafe {
            core::arch::asm!(".arm", "ldrd r0, r1, [{0}]", in(reg) at, out("r0") low, out("r1") high,
                options(nostack, readonly));
        }
        assert_eq!([low, high], [0x4567_0000, 0xcdef_0123], "a double word");
    })
}

/// A byte goes around among forty processes, each of which stores to four pages of its own before it passes it on. The
/// time is that of one turn. `count` is rounded up to whole rounds.
fn ring(count: u32) -> Time {
    const PROCESSES: usize = 40;
    const PAGES: usize = 4;
    /// Who gets this passes it on and ends.
    const LAST: u8 = 1;
    let memory = map(PAGES * PAGE, protection::READ | protection::WRITE, Backing::Fresh);
    let work = || {
        for page in 0..PAGES {
            // SAFETY: within the mapping.
            unsafe { memory.add(page * PAGE).write_volatile(1) };
        }
    };
    let mut pipes = [[0u32; 2]; PROCESSES];
    pipes.fill_with(pipe);
    let mut others = [0u32; PROCESSES - 1];
    for (at, other) in others.iter_mut().enumerate() {
        *other = fork();
        if *other == 0 {
            let mut byte = [0u8];
            while byte[0] != LAST {
                assert_eq!(read(pipes[at][0], &mut byte), 1, "read");
                work();
                assert_eq!(write(pipes[at + 1][1], &byte), 1, "write");
            }
            exit(0);
        }
    }
    let mut byte = [0u8];
    let mut once = |what| {
        assert_eq!(write(pipes[0][1], &[what]), 1, "write");
        assert_eq!(read(pipes[PROCESSES - 1][0], &mut byte), 1, "read");
        work();
    };
    let rounds = count.div_ceil(PROCESSES as u32);
    // Each process has its pages from the first on.
    once(0);
    let time = repeat(rounds, || once(0));
    once(LAST);
    for other in others {
        assert_eq!(wait(other), 0, "another process");
    }
    for file in pipes.as_flattened() {
        simple(number::CLOSE, *file, 0, 0);
    }
    unmap(memory, PAGES * PAGE);
    Time { spent: time.spent * u64::from(count) / (u64::from(rounds) * PROCESSES as u64), ..time }
}

/// Reads a page in each of 1500 megabytes that are mapped and have nothing but zeroes, one after the other. The time is
/// that of one, once all were read. `count` is rounded up to all of them.
fn spread(count: u32) -> Time {
    const MAPPINGS: usize = 3;
    const MEGABYTES: usize = 500;
    const ALL: u32 = (MAPPINGS * MEGABYTES) as u32;
    let memory = [(); MAPPINGS].map(|()| map(MEGABYTES << 20, protection::READ, Backing::Fresh));
    let all = || {
        for start in memory {
            for megabyte in 0..MEGABYTES {
                // SAFETY: within the mapping.
                unsafe { start.add(megabyte << 20).read_volatile() };
            }
        }
    };
    let rounds = count.div_ceil(ALL);
    all();
    let time = repeat(rounds, all);
    for start in memory {
        unmap(start, MEGABYTES << 20);
    }
    Time { spent: time.spent * u64::from(count) / u64::from(rounds * ALL), ..time }
}

/// Maps a file, writes a byte to every fourth page of its first tenth and unmaps it.
fn mmap(count: u32) -> Time {
    with_file(FILE, open::READ_WRITE, |file| {
        repeat(count, || {
            let memory = map(FILE_SIZE, protection::READ | protection::WRITE, Backing::File(file));
            for at in (0..FILE_SIZE / 10).step_by(16 << 10) {
                // SAFETY: within the mapped file.
                unsafe { memory.add(at).write_volatile(0) };
            }
            unmap(memory, FILE_SIZE);
        })
    })
}
