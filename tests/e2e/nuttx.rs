//! An operating system for real time that is no Linux: NuttX, built for QEMU's `virt` (`guests/nuttx`). Its shell
//! answers, and its own test of itself, `ostest`, has the results that it has on that machine without Spica. It asks no
//! device tree, so it knows of that machine what others are told.
//!
//! All of it runs in System mode, A32 for the most part; the compiler's functions that divide are T32.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use spica_runner::prepare::{Request, prepare};
use spica_runner::project::Project;
use spica_runner::{board, process};

use super::firmware::Console;

const LIMIT: Duration = Duration::from_secs(900);
/// With what clears the rest of the line, so that it is not found in what is typed.
const PROMPT: &str = "nsh> \x1b[K";

/// Behind these, a line tells of time, or of who came first.
const TIMED: [&str; 9] = [
    "BEFORE: (",
    "AFTER:  (",
    "recursive wdog triggered ",
    "cancel OK, rest ",
    "Average throughput : ",
    "Total execution time: ",
    // Threads of the same priority wait for this semaphore and post it.
    "Sem count: ",
    " sem count=",
    // Two children end at about the same time. Both results pass.
    " waitpid ",
];
/// Lines that are there or not, for the same reasons.
const PERHAPS: [&str; 2] = ["WARNING: wdog latency ticks ", "acceptable because child status is disabled"];

/// What is printed at the shell.
struct Printed {
    /// By commands that say the same whenever they are asked.
    commands: String,
    /// The processes: all but how much of its stack each has used.
    processes: Vec<String>,
    /// By `ostest`: its lines in order of the alphabet, as threads may print them in another one.
    test: Vec<String>,
}

impl Printed {
    #[track_caller]
    fn by(console: &mut Console) -> Self {
        let mut run = |command: &str| {
            console.type_in(command);
            console.session.send(b"\n");
            let printed = console.until(PROMPT);
            printed.strip_suffix(PROMPT).expect("a prompt at the end").to_string()
        };
        let commands = ["help", "uname -a", "free", "hello"].map(&mut run).concat();
        assert!(commands.contains("ostest") && commands.contains("arm qemu-armv7a"), "{commands}");
        let columns = |line: &str| line.split_whitespace().take(8).collect::<Vec<_>>().join(" ");
        let processes: Vec<_> = run("ps").lines().map(columns).collect();
        let from = Instant::now();
        let test = run("ostest");
        eprintln!("ostest took {} s", from.elapsed().as_secs());
        assert!(test.ends_with("ostest_main: Exiting with status 0\n"), "{test}");
        let mut test: Vec<_> = test
            .lines()
            .filter(|line| PERHAPS.iter().all(|perhaps| !line.contains(perhaps)))
            .map(|line| {
                let timed = TIMED.iter().find_map(|mark| Some(line.find(mark)? + mark.len()));
                line[..timed.unwrap_or(line.len())].trim_end().to_string()
            })
            .collect();
        test.sort();
        Self { commands, processes, test }
    }
}

/// The lines that `others` do not have, as often as that.
fn beyond(lines: &[String], others: &[String]) -> Vec<String> {
    let mut others = others.to_vec();
    let mut lines = lines.to_vec();
    lines.retain(|line| {
        let other = others.iter().position(|other| other == line);
        other.map(|at| others.swap_remove(at)).is_none()
    });
    lines
}

/// NuttX, built if it is not there.
#[track_caller]
fn built(project: &Project) -> PathBuf {
    let source = project.build("nuttx-source");
    assert!(
        source.join("nuttx/Makefile").is_file() && source.join("apps/Makefile").is_file(),
        "there is no source of NuttX; these commands bring it:\n\
         git clone --depth 1 -b nuttx-13.0.0 https://github.com/apache/nuttx {0}/nuttx\n\
         git clone --depth 1 -b nuttx-13.0.0 https://github.com/apache/nuttx-apps {0}/apps",
        source.display()
    );
    let mut build = Command::new(project.source("guests/nuttx/build.sh"));
    build.arg(source).arg(project.build("nuttx"));
    PathBuf::from(process::output(&mut build, "cannot build NuttX").expect("NuttX").trim())
}

#[test]
#[ignore = "needs NuttX's source in build/nuttx-source; its test of itself runs four times: 20 minutes"]
fn nuttx_does_what_it_does_natively() {
    let project = Project::find(None).expect("the project");
    let kernel = built(&project);
    let start = |request: &Request| {
        let run = prepare(&project, request).expect("a run");
        let mut console = Console::of(&run, LIMIT);
        console.until(PROMPT);
        (run, console)
    };
    let request = |name| Request { kernel: Some(kernel.clone()), ..Request::new(board::find(name).expect("a board")) };
    let natively = {
        let (_run, mut console) = start(&Request { native: true, ..request("virt") });
        Printed::by(&mut console)
    };
    // That it was a run of all of it.
    assert!(natively.test.len() > 1000, "{:#?}", natively.test);
    for on in [["cubieboard", "blocks"], ["vexpress-a9", "blocks"], ["cubieboard", "in-place@0x40000000"]] {
        let [name, engine] = on;
        let memory = Some("64M".to_string());
        let spica_append = format!("spica.engine={engine}");
        let (_run, mut console) = start(&Request { memory, spica_append, ..request(name) });
        let printed = Printed::by(&mut console);
        assert_eq!(printed.commands, natively.commands, "{on:?}");
        assert_eq!(printed.processes, natively.processes, "{on:?}");
        let (more, less) = (beyond(&printed.test, &natively.test), beyond(&natively.test, &printed.test));
        assert!(more.is_empty() && less.is_empty(), "{on:?}: more: {more:#?}, less: {less:#?}");
        console.type_in("poweroff");
        console.session.send(b"\n");
        console.goes_off();
    }
}
