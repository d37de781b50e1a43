//! Other kernels of Linux than the one of most tests: in real time, newer, and in T32. Each boots on both boards, by both
//! engines, its programs run, and it changes its code.
//!
//! In T32, exceptions are taken in Thumb state, a compiler uses what T32 has beyond A32, and ftrace and kprobes patch
//! half-words of code that runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use spica_runner::exec::{Script, exec};
use spica_runner::prepare::{self, Request, prepare};
use spica_runner::project::Project;
use spica_runner::{board, debian, process};

const LIMIT: Duration = Duration::from_secs(600);
const BOARDS: [&str; 2] = ["cubieboard", "vexpress-a9"];

/// What is done in the guest. The probed function begins with 32 bits in T32: of those that begin with 16, Linux 6.1
/// emulates `PUSH` with R7 lost, where the function tracer has it for a frame pointer.
const COMMANDS: &str = r#"
uname -r
echo $(uname -v | grep -oE 'SMP|PREEMPT[_A-Z]*')
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
dmesg | grep -iE 'bug:|warning|oops|unhandled|undefined|unexpected'
echo end
"#;

/// `kernel` works on a board in an engine. Its release has `release` in it, and it says `how` of itself.
#[track_caller]
fn works(project: &Project, kernel: &Path, on: [&str; 2], release: &str, how: &str) {
    let [name, engine] = on;
    let mut request = Request {
        kernel: Some(kernel.into()),
        spica_append: format!("spica.engine={engine}"),
        ..Request::new(board::find(name).expect("a board"))
    };
    let script = Script::new(COMMANDS, &mut request.overlay).expect("a script");
    let run = prepare(project, &request).expect("a run");
    let mut output = Vec::new();
    let mut listener = |bytes: &[u8]| {
        output.extend_from_slice(bytes);
        Ok(Vec::new())
    };
    let outcome = exec(&run, &script, LIMIT, None, false, &mut listener);
    let output = String::from_utf8_lossy(&output).into_owned();
    let outcome = outcome.unwrap_or_else(|error| panic!("{on:?}: {error}\n{output}"));
    let lines: Vec<&str> = output.lines().map(str::trim_end).collect();
    assert!(lines[0].contains(release), "{on:?}: {output}");
    let sum = "90b741f98410e3bb408d92fa49f9c436  -";
    assert_eq!(lines[1..], [how, "probed", "traced", sum, "ticks", "end"], "{on:?}: {output}");
    assert_eq!(outcome.status, 0, "{on:?}: {output}");
}

#[track_caller]
fn works_everywhere(kernel: fn(&Project) -> PathBuf, release: &str, how: &str) {
    let project = Project::find(None).expect("the project");
    let kernel = kernel(&project);
    for board in BOARDS {
        for engine in ["blocks", "in-place"] {
            works(&project, &kernel, [board, engine], release, how);
        }
    }
}

#[test]
#[ignore = "four boots, of a kernel that is hardly another"]
fn debians_linux_in_real_time_works() {
    let kernel = |project: &_| debian::kernel(project, "linux-image-rt-armmp", false).expect("a kernel");
    works_everywhere(kernel, "-rt-armmp", "SMP PREEMPT_RT");
}

#[test]
#[ignore = "four boots, of a kernel that is hardly another"]
fn debians_newer_linux_works() {
    let kernel = |project: &_| debian::kernel(project, "linux-image-armmp", true).expect("a kernel");
    works_everywhere(kernel, "+deb12-armmp", "SMP");
}

#[test]
#[ignore = "builds a kernel, once: five minutes of a processor"]
fn linux_in_t32_works() {
    works_everywhere(in_t32, "-thumb2", "SMP");
}

/// Linux in T32 from Debian's source, built if it is not there.
fn in_t32(project: &Project) -> PathBuf {
    let source = prepare::package(project, "linux-source-6.1").expect("Linux's source");
    let mut build = Command::new(project.source("guests/thumb2/build.sh"));
    build.arg(source.join("usr/src/linux-source-6.1.tar.xz")).arg(project.build("thumb2"));
    PathBuf::from(process::output(&mut build, "cannot build the kernel").expect("a kernel").trim())
}
