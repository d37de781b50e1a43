//! Other kernels of Linux than the one of most tests: Debian's in real time, and a newer one; and kinds of Linux that
//! are built here (`guests/linux`): in T32, elsewhere in the address space, preempted, for one processor. Each boots on
//! both boards, by both engines, is of its kind, its programs run, and it changes its code.
//!
//! In T32, exceptions are taken in Thumb state, a compiler uses what T32 has beyond A32, and ftrace and kprobes patch
//! half-words of code that runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use spica_runner::exec::{Outcome, Script, exec};
use spica_runner::prepare::{self, Request, prepare};
use spica_runner::project::{Project, read};
use spica_runner::{board, debian, process};

const LIMIT: Duration = Duration::from_secs(600);
const BOARDS: [&str; 2] = ["cubieboard", "vexpress-a9"];

/// What is done in the guest. First it says what it is: its instruction set, as functions in T32 begin at any
/// half-word; the byte that its text's addresses begin with; ticks in a second, by the loops that a delay of one tick
/// takes, and of a second (`BogoMIPS` are 500,000 loops).
///
/// Socket filters are compiled, and the kernel's log has their code.
///
/// The probed function begins with 32 bits in T32: of those that begin with 16, Linux 6.1 emulates `PUSH` with R7 lost,
/// where the function tracer has it for a frame pointer.
const COMMANDS: &str = r#"
uname -r
[ $(grep -ciE '^.{7}[26ae] t ' /proc/kallsyms) -ge 100 ] && set=T32 || set=A32
text=$(sed -n 's/^\(..\)...... T _stext$/\1/p' /proc/kallsyms)
loops='s/.* ([0-9]+)\.([0-9]+) BogoMIPS \(lpj=([0-9]+)\).*/\1 \2 \3/p'
ticks=$(dmesg | sed -nE "$loops" | awk '{ printf "%.0f", ($1 + $2 / 100) * 500000 / $3 }')
echo $set at 0x$text, $ticks ticks, $(uname -v | grep -oE 'SMP|PREEMPT[_A-Z]*')
mount -t debugfs none /sys/kernel/debug
cd /sys/kernel/debug/tracing || exit 1
echo 'p:opened path_openat' >kprobe_events
echo 1 >events/kprobes/opened/enable
for n in 1 2 3 4 5 6 7 8 9 10; do : </proc/version; done
echo 0 >events/kprobes/opened/enable
n=$(grep -c 'opened: (path_openat' trace)
[ "$n" -ge 10 ] && echo 'probed'
echo >kprobe_events
echo function >current_tracer
for n in 1 2 3 4 5 6 7 8 9 10; do : </proc/version; done
echo 0 >tracing_on
n=$(grep -c 'do_sys_openat2 <-' trace)
[ "$n" -ge 10 ] && echo 'traced'
echo nop >current_tracer
cd /
head -c 4000000 /dev/zero | md5sum
n=0; while [ $n -lt 100 ]; do /bin/true & n=$((n + 1)); done; wait
grep -q 'arch_timer' /proc/interrupts && echo 'ticks'
complaints='bug:|warning|oops|unhandled|undefined|unexpected'
dmesg | grep -iE "$complaints"
echo 2 >/proc/sys/net/core/bpf_jit_enable
probe bpf
n=$(dmesg | grep -c 'flen=.*image=')
[ "$n" -ge 5 ] && echo 'compiled'
dmesg | grep -iE "$complaints"
echo end
"#;

/// What these commands print in a guest, and how they end.
#[track_caller]
fn executed(project: &Project, mut request: Request, commands: &str) -> (String, Outcome) {
    let script = Script::new(commands, &mut request.overlay).expect("a script");
    let run = prepare(project, &request).expect("a run");
    let mut output = Vec::new();
    let mut listener = |bytes: &[u8]| {
        output.extend_from_slice(bytes);
        Ok(Vec::new())
    };
    let outcome = exec(&run, &script, LIMIT, None, false, &mut listener);
    let output = String::from_utf8_lossy(&output).into_owned();
    let said = |error| panic!("{}, {}: {error}\n{output}", request.board.name, request.spica_append);
    let outcome = outcome.unwrap_or_else(said);
    (output, outcome)
}

/// A kernel, and what it says of itself.
struct Kind {
    /// Where it is, built or fetched.
    file: fn(&Project, &str) -> PathBuf,
    /// A part of its release.
    release: &'static str,
    /// See [`COMMANDS`].
    says: &'static str,
    /// What the engine's name has behind it for a kernel whose place is not found.
    at: &'static str,
}

/// What all have that are not otherwise.
const LINUX: Kind = Kind { file: built, release: "", says: "A32 at 0xc0, 250 ticks, SMP", at: "" };

impl Kind {
    /// It works on a board in an engine.
    #[track_caller]
    fn works(&self, project: &Project, kernel: &Path, on: [&str; 2]) {
        let [name, engine] = on;
        let mut request = Request {
            kernel: Some(kernel.into()),
            spica_append: format!("spica.stats spica.engine={engine}"),
            ..Request::new(board::find(name).expect("a board"))
        };
        let probe = spica_tests::probe().and_then(|file| read(&file)).expect("the programs");
        request.overlay.file("bin/probe", 0o755, &probe);
        let (output, outcome) = executed(project, request, COMMANDS);
        let lines: Vec<&str> = output.lines().map(str::trim_end).collect();
        assert!(lines[0].contains(self.release), "{on:?}: {output}");
        let sum = "90b741f98410e3bb408d92fa49f9c436  -";
        assert_eq!(
            lines[1..],
            [self.says, "probed", "traced", sum, "ticks", "ok", "compiled", "end"],
            "{on:?}: {output}"
        );
        assert_eq!(outcome.status, 0, "{on:?}: {output}");
        // It runs as the engine is meant to run it, wherever it is.
        let counted = |counter: &str| {
            let found = outcome.spica.iter().find_map(|line| line.split_once(counter)?.1.trim().parse::<u64>().ok());
            found.unwrap_or_else(|| panic!("{on:?}: no {counter}: {:#?}", outcome.spica))
        };
        let in_a32 = self.says.starts_with("A32");
        if engine == "blocks" || !in_a32 {
            // The return mirror went to where Linux unpacks itself, at the start of RAM, and from there to the kernel.
            let expected = if self.at == "@0x40000000" { 1 } else { 2 };
            assert_eq!(counted("translator.mirror-moves "), expected, "{on:?}");
        }
        assert_eq!(counted("in-place.twins ") > 500, in_a32 && engine != "blocks", "{on:?}");
    }

    #[track_caller]
    fn works_everywhere(&self) {
        let project = Project::find(None).expect("the project");
        let kernel = (self.file)(&project, self.release);
        for board in BOARDS {
            for engine in ["blocks".to_string(), format!("in-place{}", self.at)] {
                self.works(&project, &kernel, [board, &engine]);
            }
        }
    }
}

#[test]
#[ignore = "four boots, of a kernel that is hardly another"]
fn debians_linux_in_real_time_works() {
    let file = |project: &_, _: &_| debian::kernel(project, "linux-image-rt-armmp", false).expect("a kernel");
    let says = "A32 at 0xc0, 250 ticks, SMP PREEMPT_RT";
    Kind { file, release: "-rt-armmp", says, ..LINUX }.works_everywhere();
}

#[test]
#[ignore = "four boots, of a kernel that is hardly another"]
fn debians_newer_linux_works() {
    let file = |project: &_, _: &_| debian::kernel(project, "linux-image-armmp", true).expect("a kernel");
    Kind { file, release: "+deb12-armmp", ..LINUX }.works_everywhere();
}

#[test]
#[ignore = "builds a kernel, once: five minutes of a processor"]
fn linux_in_t32_works() {
    Kind { release: "-thumb2", says: "T32 at 0xc0, 250 ticks, SMP", ..LINUX }.works_everywhere();
}

#[test]
#[ignore = "builds a kernel, once: five minutes of a processor"]
fn linux_with_half_of_the_addresses_works() {
    let says = "A32 at 0x80, 250 ticks, SMP";
    Kind { release: "-vmsplit-2g", says, ..LINUX }.works_everywhere();
}

#[test]
#[ignore = "builds a kernel, once: five minutes of a processor"]
fn linux_with_most_of_the_addresses_works() {
    let says = "A32 at 0x40, 250 ticks, SMP";
    Kind { release: "-vmsplit-1g", says, at: "@0x40000000", ..LINUX }.works_everywhere();
}

#[test]
#[ignore = "builds a kernel, once: five minutes of a processor"]
fn linux_that_is_preempted_works() {
    Kind { release: "-preempt", says: "A32 at 0xc0, 1000 ticks, SMP PREEMPT", ..LINUX }.works_everywhere();
}

#[test]
#[ignore = "builds a kernel, once: five minutes of a processor"]
fn linux_for_one_processor_works() {
    Kind { release: "-plain", says: "A32 at 0xc0, 250 ticks,", ..LINUX }.works_everywhere();
}

/// Linux's own tests of its compiler for BPF, `test_bpf`: the first 524, in five seconds of the bare board; others are
/// of many values each. The compiler cannot do all of it, and it says which it has compiled.
#[test]
#[ignore = "six boots: three minutes"]
fn linux_tests_its_compiler_for_bpf() {
    const TESTS: &str = r"echo 1 >/proc/sys/net/core/bpf_jit_enable
        dmesg -c >/dev/null
        insmod /lib/test_bpf.ko test_range=0,523
        dmesg | sed -nE 's/^\[ *[0-9.]+\] (test_bpf: )?//; s/(jited:.)( [0-9]+)+/\1/; /(PASS|FAIL|ED)/p'";
    let project = Project::find(None).expect("the project");
    let module = spica_tests::kernel_module(&project, "lib/test_bpf.ko").and_then(|file| read(&file));
    let module = module.expect("a module of Debian's kernel");
    let results = |name, native, words: &str| {
        let board = board::find(name).expect("a board");
        let mut request = Request { native, spica_append: words.into(), ..Request::new(board) };
        request.overlay.file("lib/test_bpf.ko", 0o644, &module);
        let (output, outcome) = executed(&project, request, TESTS);
        // A line of Spica's ends that of the guest which it comes upon.
        let lines: Vec<&str> = output.lines().filter(|line| !line.is_empty()).collect();
        (lines.join("\n"), outcome.spica)
    };
    for name in BOARDS {
        let (expected, _) = results(name, true, "");
        assert!(expected.contains("427 PASSED, 97 FAILED, [419/419 JIT'ed]"), "{expected}");
        assert!(expected.lines().count() >= 400, "{expected}");
        let (found, _) = results(name, false, "spica.engine=blocks");
        assert!(found == expected, "{name}: {found}\nexpected {expected}");
        // The kernel reuses addresses only once all those for modules were used: it comes to where its stubs are.
        let (found, spica) = results(name, false, "");
        assert!(found == expected, "{name}, in place: {found}\nexpected {expected}");
        assert!(spica.iter().any(|line| line.ends_with("runs by blocks now")), "{name}: {spica:#?}");
    }
}

/// Linux of a kind from Debian's source, built if it is not there.
fn built(project: &Project, release: &str) -> PathBuf {
    let source = prepare::package(project, "linux-source-6.1").expect("Linux's source");
    let mut build = Command::new(project.source("guests/linux/build.sh"));
    build.arg(&release[1..]).arg(source.join("usr/src/linux-source-6.1.tar.xz")).arg(project.build("linux"));
    PathBuf::from(process::output(&mut build, "cannot build the kernel").expect("a kernel").trim())
}
