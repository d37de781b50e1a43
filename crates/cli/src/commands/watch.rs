//! `spica watch`: its arguments.

use std::fs::File;
use std::io::{BufWriter, Write, stdout};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use spica_cli::counts::{self, Counter, Counts, Sampling};
use spica_cli::cycles::{self, Code};
use spica_cli::edges::{self, EdgeCounter};
use spica_cli::heap::{self, Checker};
use spica_cli::lines::Source;
use spica_cli::sharing::{self, Watcher};
use spica_cli::signals::Signals;
use spica_cli::stacks::{Format, Stacks};
use spica_cli::tracer::Tracer;
use spica_cli::unwind::Tables;
use spica_cli::{debugger, symbols, times};
use spica_console::debug::SAMPLE_EVERY;
use spica_kallsyms::Symbol;
use spica_runner::control::client::Board;
use spica_runner::error::{Context, Error, Result};
use spica_runner::progress::Step;
use spica_runner::project::Project;
use spica_runner::qemu;
use spica_trace::calls::Calls;

#[derive(Args)]
#[command(after_help = "\
A guest is watched from outside: nothing is installed in it, and it notices nothing but that some of the processor's
time is not its own. What is watched is let go at the end, also when Ctrl-C ends it; what came by then is written.

A session:
  spica run                                       in one terminal
  spica watch syscalls --for 5s                   in another, while the guest does something
  spica watch profile --for 5s                    or this, or both at once

docs/watching.md says how it works, what is not seen, and what it costs.")]
pub struct WatchArgs {
    #[command(subcommand)]
    client: Client,
}

#[derive(Subcommand)]
enum Client {
    /// Each system call of all programs of a Linux guest, with its registers, its result, and how long it took
    #[command(after_help = "\
A line for each call, in the order in which they are made:

     0.000143 ls[c1b6a940] openat(0xffffff9c, 0xb6fd51b0, 0xa0000, 0) = 3 <0.000052>

the time since the first record, in seconds; the task's name and where its task_struct is, or its stack as long as it
is not known whose that is; the registers that the call reads, from R0 on; the result, with the error's name; and how
long the call took. What a pointer points to is not shown. `= ?` has not returned, `goes on at` returns elsewhere: in a
signal's handler, or in another program after execve. A guest that calls faster than the serial line carries, some
3,000 times a second, loses records: how many is said.

  spica watch syscalls --guest web --for 1m -o web.txt
  spica watch syscalls --json | jq 'select(.result < 0)'")]
    Syscalls {
        #[command(flatten)]
        what: What,
        /// A line of JSON for each call
        #[arg(long)]
        json: bool,
    },
    /// What the guest's kernel executes, by function: instructions, counted one by one
    #[command(after_help = "\
A line for each function, those with most instructions first:

     instructions  share      entries  function
         42124000  31.2 %      210620  __memzero

how many of its instructions were executed, of all that the kernel executed; how often its first instruction was; and
its name, as the kernel itself has it (CONFIG_KALLSYMS). Code without a name, as in modules or the exception vectors,
has its page's address. Nothing is sampled: two runs of the same give the same. User code is not counted.

The guest stands still twice, for some milliseconds in which its clocks stand, too. In between its kernel takes some
three times as long.

A FILE whose name ends so shows who has called whom:

  .svg     a flame graph, for a browser: a function stands on what has called it, and is as wide as what it and what
           it calls have executed. Click on one to magnify it; Ctrl-F finds names
  .folded  the same as text, for other programs: a line for each stack, and its instructions
  .dot     a call graph, for Graphviz: dot -Tsvg calls.dot -o calls.svg

For that, the kernel's stack is looked at after each --every instructions of it, at random distances. What a function
itself has executed is still counted and exact; how it is divided among its callers is of these samples, and so an
estimate. Linux kernels have tables of how their stacks are unwound (CONFIG_ARM_UNWIND), which are read beforehand; in
others, and in modules, callers are a guess.

With the debug symbols of the kernel, --lines counts by lines of source instead. `spica symbols --debug` fetches them
for the guest's kernel, if it is one of Debian's.

With --cycles, functions are in the order of the cycles that they take, by a model of the pipeline of a Cortex-A8 that
finds all in its caches and predicts all branches: which functions wait for their own results. What misses take is in
`spica profile --cycles`.

  spica watch profile --guest web --for 10s -o profile.txt
  spica watch profile --cycles --for 10s
  spica watch profile --for 10s -o flames.svg
  spica watch profile --lines build/debug/vmlinux-6.1.0-50-armmp
  spica watch profile --runs                      the counts that this is made of: address, instructions, times")]
    Profile {
        #[command(flatten)]
        what: What,
        /// The runs of instructions that were counted, as they are, in the order of their addresses
        #[arg(long, conflicts_with = "lines")]
        runs: bool,
        /// By lines of source, with the debug symbols of the kernel in this ELF file
        #[arg(long, value_name = "VMLINUX")]
        lines: Option<PathBuf>,
        /// By the cycles that a Cortex-A8's pipeline takes
        #[arg(long, conflicts_with_all = ["lines", "runs"])]
        cycles: bool,
        /// For a flame graph, folded stacks or a call graph: so many instructions lie between two samples in the mean
        #[arg(long, value_name = "COUNT", default_value_t = 20_000, value_parser = every)]
        every: u32,
    },
    /// Errors of the guest's kernel with its heap: use after free, accesses out of bounds, double frees
    #[command(after_help = "\
A paragraph for each error, those that happened first come first:

use after free: read of 4 bytes at 0xc24f1a40, 3 times
  by            seq_show+0x1c
    called by   seq_read_iter+0xe4
    called by   vfs_read+0xb4
    …
  object        64 bytes at 0xc24f1a40; this is at offset 0
  allocated by  seq_open+0x30
  freed by      seq_release+0x18

the instruction that did it, and who called its function, the first time; the object, as large as was asked for; and who
called the allocator. Code of modules has no names and is shown by addresses, and who called it is a guess.

Every load and store of the kernel is checked that may be of an object from kmalloc or a cache (kmem_cache) that was
allocated or freed while this watches: not those that are older. The kernel is to be Linux 6.1 with SLUB, as Debian 12
has it; it needs no KASAN and no debug symbols. docs/watching.md says what is not seen.

With --uninitialised, reads of memory that was allocated and not written since then are errors, too. Debian's kernel
clears all that it allocates, so that there are none: the guest has to be booted with init_on_alloc=0. A structure that
is copied before all of it was written, which is harmless, is told of as well.

The guest stands still twice, for some milliseconds in which its clocks stand, too. In between its kernel takes some
four times as long.

  spica watch heap --for 1m
  spica watch heap --json | jq -r .by | sort | uniq -c
  spica watch heap --guest web --for 10m -o heap.txt")]
    Heap {
        #[command(flatten)]
        what: What,
        /// Reads of what nobody has written since it was allocated as well, in a guest whose kernel does not clear it
        #[arg(long)]
        uninitialised: bool,
        /// A line of JSON for each error
        #[arg(long)]
        json: bool,
    },
    /// Which cache lines the guest's processes, interrupts and devices share, and who writes there
    #[command(after_help = "\
Who communicates with whom, then the lines of memory, those first that changed hands most:

  lines     turns  written by                   used by
     31       410  sh[c1c9cb40]                 cat[c1b6a940]
      …

0xc0e04d00  211 turns  jiffies
  interrupts                   reads, writes    106 turns  load tick_do_update_jiffies64+0x38  store …
  cat[c1b6a940]                reads            105 turns  load …

a line of 64 bytes, and what of the kernel's variables is in it, if the kernel has their names (CONFIG_KALLSYMS_ALL);
each of its users: whether it reads and writes, how often it came to use the line after somebody else had (a turn), and
where it first loaded and stored, as far as that is known. A process is shown with its name and where its task_struct
is. Two that use one line, but no variable of it in common, share it falsely: on several processors it would go to and
fro between them.

Shown are lines that at least two use, one of which writes, while this watches: what the kernel itself does, for
processes and in interrupts, and what virtio devices read and write. Not seen are programs' own accesses to their
memory, and the kernel's through their addresses; 24 processes are told apart, in the order in which they appear, all
others are one. The kernel is to be like Linux 6.1. docs/watching.md says how it works.

The guest stands still twice, for some milliseconds in which its clocks stand, too. In between its kernel takes some
twelve times as long.

  spica watch sharing --for 10s
  spica watch sharing --guest web --top 10
  spica watch sharing --json | jq 'select(any(.users[]; .name == \"interrupts\"))'")]
    Sharing {
        #[command(flatten)]
        what: What,
        /// So many lines, and pairs of who writes and who uses; all, if there is a FILE
        #[arg(long, value_name = "COUNT")]
        top: Option<usize>,
        /// A line of JSON for each line of memory
        #[arg(long)]
        json: bool,
    },
    /// Which functions of the guest's kernel were executed, and which not, for lcov's tools
    #[command(after_help = "\
The file is a tracefile of lcov, with one source file, which stands for the kernel, and in it a line for each function,
as no debug symbols are needed. lcov and genhtml read it, and add up several:

  spica watch coverage --for 1m -o a.info
  lcov --summary a.info                           so many of so many functions
  lcov -a a.info -a b.info -o all.info

With the debug symbols of the kernel, as in `spica watch profile`, --lines has its source files with their lines:

  spica watch coverage --lines build/debug/vmlinux-6.1.0-50-armmp -o a.info

The kernel is looked at as in `spica watch profile`.")]
    Coverage {
        #[command(flatten)]
        what: What,
        /// With lines of source, by the debug symbols of the kernel in this ELF file
        #[arg(long, value_name = "VMLINUX")]
        lines: Option<PathBuf>,
    },
    /// Which edges of the kernel's control flow each of the guest's processes takes, for fuzzers
    #[command(after_help = "\
A line for each process, those first that have taken most edges:

   edges  process
    3412  find
    1877  sh
     903  interrupts

An edge leads from one run of instructions of the kernel to the next. It has a number of 16 bits, made of the addresses
of both, as in AFL: new numbers say that the process has made the kernel do what it did not before. Processes of one
name are one; 62 names are told apart, the others are one.

With --process, only processes of that name are counted, and what is written is a map as of afl-showmap: a line for each
edge, with its number and how often it was taken, up to 255, behind which comes 1. --json has all maps.

What interrupts do is counted apart, so that the same program has the same edges whenever they come. Some depend on the
time all the same: where the kernel waits for something, or is preempted. The kernel is to be like Linux 6.1.
docs/watching.md says how it works.

The guest stands still twice, for some milliseconds in which its clocks stand, too. In between its kernel takes some
three times as long.

  spica watch edges --for 10s
  spica watch edges --process find --for 10s -o find.map
  spica watch edges --json | jq -r 'select(.process == \"sh\").edges | length'")]
    Edges {
        #[command(flatten)]
        what: What,
        /// Only processes of this name, as `ps` shows it, whose map is written
        #[arg(long, value_name = "NAME", value_parser = edges::name)]
        process: Option<String>,
        /// A line of JSON for each process
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
struct What {
    /// The guest: its name or number, as `spica list` shows them; not needed if there is one
    #[arg(long, value_name = "GUEST")]
    guest: Option<String>,
    /// How long to watch: 500ms, 5s, 2m
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = times::parse)]
    time: Duration,
    /// The file to write; standard output if there is none
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Of several boards that run, the one of `spica run --name NAME`, or of this process
    #[arg(long, value_name = "NAME|PID")]
    run: Option<String>,
}

/// Where the result goes.
struct Output(Option<(PathBuf, File)>);

impl Output {
    /// Makes the file, so that nobody waits for what cannot be written.
    fn create(path: Option<PathBuf>) -> Result<Self> {
        path.map(|path| qemu::output_file(&path).map(|file| (path, file))).transpose().map(Self)
    }

    fn write(self, text: &str) -> Result<()> {
        match self.0 {
            Some((path, file)) => {
                let mut file = BufWriter::new(file);
                let written = file.write_all(text.as_bytes()).and_then(|()| file.flush());
                written.context(|| format!("cannot write {}", path.display()))
            }
            // Whoever reads may have seen enough.
            None => match stdout().write_all(text.as_bytes()) {
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
                written => written.context(|| "cannot write the result"),
            },
        }
    }
}

/// Does what the arguments say.
pub fn run(project: &Project, args: WatchArgs) -> Result<()> {
    match args.client {
        Client::Syscalls { what, json } => syscalls(project, what, json),
        Client::Profile { what, runs, lines, cycles, every } => {
            if let Some(format) = what.output.as_deref().and_then(Format::of) {
                return match (runs, &lines, cycles) {
                    (false, None, false) => stacks(project, what, every, format),
                    _ => Err(Error::usage(
                        "--runs, --lines and --cycles are tables: their file is not to end in .svg, .folded or .dot, \
                         which show who has called whom",
                    )),
                };
            }
            if cycles {
                return in_cycles(project, what);
            }
            let how = How { lines, ..How::default() };
            count(project, what, how, |counted| match counted.source {
                Some(source) => source.table(counted.counts),
                None if runs => Ok(counts::runs(counted.counts)),
                None => Ok(counts::table(counted.counts, counted.names)),
            })
        }
        Client::Heap { what, uninitialised, json } => heap(project, what, uninitialised, json),
        Client::Sharing { what, top, json } => sharing(project, what, top, json),
        Client::Edges { what, process, json } => edges(project, what, process, json),
        Client::Coverage { what, lines } => {
            let how = How { lines, ..How::default() };
            count(project, what, how, |counted| match counted.source {
                Some(source) => source.lcov(counted.counts),
                None => Ok(counts::lcov(counted.counts, counted.names)),
            })
        }
    }
}

/// A distance between samples, as it is given.
fn every(text: &str) -> std::result::Result<u32, String> {
    let every = text.parse().ok().filter(|every| SAMPLE_EVERY.contains(every));
    every.ok_or_else(|| format!("it is {} to {}", SAMPLE_EVERY.start(), SAMPLE_EVERY.end()))
}

/// Counts what a guest's kernel executes, and writes which functions take most cycles of the pipeline.
fn in_cycles(project: &Project, what: What) -> Result<()> {
    let how = How { code: true, ..How::default() };
    count(project, what, how, |counted| {
        let (text, unknown) = cycles::table(counted.counts, counted.names, counted.code);
        if unknown != 0 {
            eprintln!("spica: the code of {unknown} instructions could not be read: they have no cycles");
        }
        Ok(text)
    })
}

/// Counts what a guest's kernel executes, with samples of its stack, and writes who has called whom.
fn stacks(project: &Project, what: What, every: u32, format: Format) -> Result<()> {
    let how = How { every: Some(every), ..How::default() };
    count(project, what, how, |Counted { counts: counted, names, tables, .. }| {
        let stacks = Stacks::new(counted, names, tables, every);
        eprintln!("spica: {} samples", counted.samples.len());
        if counted.lost != 0 {
            eprintln!(
                "spica: {} more were lost, for the serial line carries no more: a greater --every makes fewer",
                counted.lost
            );
        }
        match format {
            Format::Folded => Ok(stacks.folded()),
            Format::Graph => Ok(stacks.graph()),
            Format::Flames => {
                let below = format!(
                    "{} instructions, counted; callers by {} samples, one in {every} instructions",
                    stacks.instructions(),
                    counted.samples.len()
                );
                stacks.flames("What the guest's kernel executes", &below)
            }
        }
    })
}

/// What is wanted beside the counts.
#[derive(Default)]
struct How {
    /// Lines of source, by debug symbols in this file.
    lines: Option<PathBuf>,
    /// Samples, so many instructions apart.
    every: Option<u32>,
    /// The words that were executed.
    code: bool,
}

/// What was counted, and what there is beside it, which is empty if nobody wants it.
struct Counted<'a> {
    counts: &'a Counts,
    names: &'a [Symbol],
    tables: &'a Tables,
    source: Option<&'a Source>,
    code: &'a Code,
}

/// Counts what a guest's kernel executes, and writes what `text` makes of that.
fn count(project: &Project, what: What, how: How, text: impl FnOnce(&Counted<'_>) -> Result<String>) -> Result<()> {
    let How { lines, every, code } = how;
    let mut board = Board::find(project, what.run.as_deref())?;
    let guest = debugger::choose(&board, what.guest.as_deref())?;
    let output = Output::create(what.output)?;
    let signals = Signals::keep().context(|| "cannot wait for Ctrl-C")?;
    let step = Step::begin("reading the debug symbols");
    let source = lines.as_deref().map(Source::read).transpose()?;
    drop(step);
    let step = Step::begin("reading the names of the kernel's functions");
    let names = symbols::names(&mut board, guest);
    drop(step);
    if let (Some(source), Ok(names)) = (&source, &names) {
        source.check(names)?;
    }
    let step = Step::begin("reading how the kernel's stacks are unwound");
    let tables = match (&names, every) {
        (Ok(names), Some(_)) => symbols::unwind_tables(&mut board, guest, names)?,
        _ => Tables::default(),
    };
    drop(step);
    if every.is_some() && tables.is_empty() {
        eprintln!("spica: this kernel does not say how its stacks are unwound: callers are a guess");
    }
    let sampling = every.map(|every| Sampling::new(every, names.as_deref().unwrap_or_default()));
    let mut counter = Counter::start(board, guest, sampling.as_ref())?;
    let begun = Instant::now();
    let step = Step::begin("counting what the kernel executes");
    let ended = counter.count(begun + what.time, &|| signals.has_come());
    drop(step);
    if signals.has_come() {
        eprintln!("spica: stopped after {} ms", begun.elapsed().as_millis());
    }
    ended?;
    let (counted, code) = if code {
        let step = Step::begin("reading what was executed");
        let found = counter.end_with_code(names.as_deref().unwrap_or_default())?;
        drop(step);
        found
    } else {
        (counter.end()?, Code::new())
    };
    let names = names.unwrap_or_else(|problem| {
        eprintln!("spica: {problem}: functions have no names");
        Vec::new()
    });
    let step = Step::begin("adding up what was counted");
    let text =
        text(&Counted { counts: &counted, names: &names, tables: &tables, source: source.as_ref(), code: &code })?;
    drop(step);
    output.write(&text)?;
    eprintln!("spica: {} instructions of the kernel, in {} runs", counted.instructions(), counted.runs.len());
    if counted.missed != 0 {
        eprintln!(
            "spica: {} runs had no counter, or were Thumb code; those of the former were executed {} times",
            counted.missed, counted.uncounted
        );
    }
    Ok(())
}

/// Checks a guest's heap, and writes what was wrong.
fn heap(project: &Project, what: What, uninitialised: bool, json: bool) -> Result<()> {
    let mut board = Board::find(project, what.run.as_deref())?;
    let guest = debugger::choose(&board, what.guest.as_deref())?;
    let output = Output::create(what.output)?;
    let signals = Signals::keep().context(|| "cannot wait for Ctrl-C")?;
    let step = Step::begin("reading the names of the kernel's functions");
    let names = symbols::names(&mut board, guest)?;
    drop(step);
    let step = Step::begin("looking at the kernel's allocator");
    let allocator = symbols::allocator(&mut board, guest, &names)?;
    drop(step);
    let step = Step::begin("reading how the kernel's stacks are unwound");
    let tables = symbols::unwind_tables(&mut board, guest, &names)?;
    drop(step);
    let checker = Checker::start(board, guest, &allocator, uninitialised)?;
    let begun = Instant::now();
    let step = Step::begin("checking the heap");
    checker.wait(begun + what.time, &|| signals.has_come());
    drop(step);
    if signals.has_come() {
        eprintln!("spica: stopped after {} ms", begun.elapsed().as_millis());
    }
    let findings = checker.end(&names, &tables)?;
    let report = if json { heap::report_json } else { heap::report };
    output.write(&report(&findings, &names))?;
    let heap::Findings { faults, allocated, freed, forgotten, lost, to_the_end, .. } = &findings;
    eprintln!("spica: {} errors; {allocated} objects were allocated, {freed} freed", faults.len());
    if *lost != 0 {
        eprintln!("spica: {lost} more errors had no place");
    }
    if *forgotten != 0 {
        eprintln!("spica: {forgotten} objects were forgotten: there were too many to know them all");
    }
    if uninitialised && findings.uninitialised == 0 && *allocated != 0 {
        eprintln!(
            "spica: the kernel has cleared all that it allocated, so nothing can be read that was not written; \
             it does not with init_on_alloc=0 on its command line (spica run --append)"
        );
    }
    if !to_the_end {
        eprintln!("spica: the guest was reset: nothing was checked since then");
    }
    Ok(())
}

/// Lines that are shown on a terminal if nobody says how many.
const TOP: usize = 50;

/// Notes who uses which lines of a guest's memory, and writes which are shared.
fn sharing(project: &Project, what: What, top: Option<usize>, json: bool) -> Result<()> {
    let mut board = Board::find(project, what.run.as_deref())?;
    let guest = debugger::choose(&board, what.guest.as_deref())?;
    let top = top.unwrap_or(if what.output.is_some() { usize::MAX } else { TOP });
    let output = Output::create(what.output)?;
    let signals = Signals::keep().context(|| "cannot wait for Ctrl-C")?;
    let step = Step::begin("reading the names of the kernel's functions");
    let names = symbols::names(&mut board, guest)?;
    drop(step);
    let step = Step::begin("looking at how the kernel switches processes");
    let switching = symbols::switching(&mut board, guest, &names)?;
    drop(step);
    let mut watcher = Watcher::start(board, guest, &switching)?;
    let begun = Instant::now();
    let step = Step::begin("noting who uses which memory");
    let ended = watcher.wait(begun + what.time, &|| signals.has_come());
    drop(step);
    if signals.has_come() {
        eprintln!("spica: stopped after {} ms", begun.elapsed().as_millis());
    }
    ended?;
    let step = Step::begin("reading what was found");
    let findings = watcher.end()?;
    drop(step);
    let text = if json { sharing::json } else { sharing::report };
    output.write(&text(&findings, &names, top))?;
    let sharing::Findings { lines, tasks, looked, switches, lost, to_the_end, .. } = &findings;
    eprintln!(
        "spica: {} lines of memory are shared; {} processes were told apart, with {switches} switches and {looked} \
         accesses that were looked at",
        lines.len(),
        tasks.len()
    );
    if *lost != 0 {
        eprintln!("spica: {lost} more lines had no place");
    }
    if !to_the_end {
        eprintln!("spica: the guest was reset: nothing was noted since then");
    }
    Ok(())
}

/// Counts the edges that the processes of a guest take in its kernel, and writes them.
fn edges(project: &Project, what: What, process: Option<String>, json: bool) -> Result<()> {
    let mut board = Board::find(project, what.run.as_deref())?;
    let guest = debugger::choose(&board, what.guest.as_deref())?;
    let output = Output::create(what.output)?;
    let signals = Signals::keep().context(|| "cannot wait for Ctrl-C")?;
    let step = Step::begin("reading the names of the kernel's functions");
    let names = symbols::names(&mut board, guest)?;
    drop(step);
    let step = Step::begin("looking at how the kernel switches processes");
    let switching = symbols::switching(&mut board, guest, &names)?;
    let counter = EdgeCounter::start(board, guest, &switching, process.as_slice())?;
    drop(step);
    let begun = Instant::now();
    let step = Step::begin("counting edges");
    counter.wait(begun + what.time, &|| signals.has_come());
    drop(step);
    if signals.has_come() {
        eprintln!("spica: stopped after {} ms", begun.elapsed().as_millis());
    }
    let step = Step::begin("reading what was counted");
    let findings = counter.end()?;
    drop(step);
    let text = match &process {
        _ if json => edges::json(&findings),
        Some(process) => edges::showmap(&findings, process),
        None => edges::report(&findings),
    };
    output.write(&text)?;
    let named = findings.maps.len() - 2;
    eprintln!("spica: {named} names of processes, {} switches from one to another", findings.switches);
    if let Some(process) = process
        && !findings.maps.iter().any(|(name, map)| *name == process && !map.is_empty())
    {
        eprintln!("spica: no process called {process} has run");
    }
    if !findings.to_the_end {
        eprintln!("spica: the guest was reset: nothing was counted since then");
    }
    Ok(())
}

fn syscalls(project: &Project, what: What, json: bool) -> Result<()> {
    let board = Board::find(project, what.run.as_deref())?;
    let guest = debugger::choose(&board, what.guest.as_deref())?;
    let output = Output::create(what.output)?;
    let signals = Signals::keep().context(|| "cannot wait for Ctrl-C")?;
    let mut tracer = Tracer::start_calls(board, guest)?;
    let begun = Instant::now();
    let step = Step::begin("watching system calls");
    let end = tracer.record(Some(begun + what.time), &|| signals.has_come());
    drop(step);
    end.say(begun);
    let recording = tracer.into_recording();
    let calls = Calls::new(&recording);
    if calls.calls.is_empty() && calls.lost == 0 {
        return Err(Error::failed(
            "nothing was called: does the guest run programs, and is it one that has SVC for that?",
        ));
    }
    let mut text = String::new();
    for call in &calls.calls {
        let written =
            if json { call.write_json(&recording, guest, &mut text) } else { call.write(&recording, guest, &mut text) };
        written.map_err(|_| Error::failed("a line cannot be written"))?;
    }
    output.write(&text)?;
    eprintln!("spica: {} system calls", calls.calls.len());
    if calls.lost != 0 {
        eprintln!("spica: {} records were lost: the guest called faster than the serial line carries", calls.lost);
    }
    Ok(())
}
