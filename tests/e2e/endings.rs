//! How a run ends: well, with the command's status and its exact output; or badly, with an error that says how.

use std::time::{Duration, Instant};

use spica_runner::board;
use spica_runner::error::{FAILED, Result, TIMEOUT};
use spica_runner::exec::{Outcome, Script, exec};
use spica_runner::prepare::{Request, prepare};
use spica_runner::project::Project;
use spica_runner::qemu::{Event, Session};
use spica_runner::spica::{HALTED, is_power_off};

const LIMIT: Duration = Duration::from_secs(300);

fn run(board: &str, native: bool, command: &str, limit: Duration) -> (Vec<u8>, Result<Outcome>) {
    let project = Project::find(None).expect("the project");
    let board = board::find(board).expect("a board");
    let mut request = Request { native, unpacked: true, ..Request::new(board) };
    let script = Script::new(command, &mut request.overlay).expect("a script");
    let run = prepare(&project, &request).expect("a run");
    let mut output = Vec::new();
    let mut listener = |bytes: &[u8]| {
        output.extend_from_slice(bytes);
        Ok(Vec::new())
    };
    let outcome = exec(&run, &script, limit, None, false, &mut listener);
    (output, outcome)
}

#[test]
fn output_and_status_are_the_commands() {
    let project = Project::find(None).expect("the project");
    let busybox = std::fs::read(project.build("guests/debian/tree/bin/busybox")).expect("busybox");
    for native in [true, false] {
        let (output, outcome) = run("cubieboard", native, "head -c 100000 /bin/busybox; exit 42", LIMIT);
        let outcome = outcome.expect("a status");
        assert_eq!(outcome.status, 42);
        assert!(output == busybox[..100_000], "{} bytes of output, and not those", output.len());
        if !native {
            assert!(outcome.spica.iter().any(|l| is_power_off(l, "debian")), "{:#?}", outcome.spica);
            assert_eq!(outcome.spica.last().map(String::as_str), Some(HALTED));
        }
    }
}

#[test]
fn a_panic_is_an_error() {
    for native in [true, false] {
        let error = run("vexpress-a9", native, "echo c >/proc/sysrq-trigger", LIMIT).1.expect_err("a panic");
        assert_eq!(error.status, FAILED);
        assert_eq!(error.message, "the guest's kernel panicked");
        assert!(error.details.is_some_and(|d| d.contains("Kernel panic - not syncing: sysrq triggered crash")));
    }
}

#[test]
fn switching_off_before_the_end_is_an_error() {
    for native in [true, false] {
        let error = run("cubieboard", native, "poweroff -f", LIMIT).1.expect_err("no status");
        assert_eq!(error.message, "the guest switched itself off before the command had ended");
    }
}

#[test]
fn a_timeout_comes_with_a_report() {
    let (output, outcome) = run("vexpress-a9", false, "echo begun; sleep 1000", Duration::from_secs(90));
    let error = outcome.expect_err("no status");
    assert_eq!(error.status, TIMEOUT);
    assert_eq!(output, b"begun\n");
    let details = error.details.expect("a report");
    assert!(details.contains("spica: guest debian: report, as asked for"), "{details}");
}

#[test]
fn a_restart_boots_again() {
    let project = Project::find(None).expect("the project");
    let board = board::find("cubieboard").expect("a board");
    let mut request = Request { append: "quiet".into(), unpacked: true, ..Request::new(board) };
    Script::new("echo now; reboot -f", &mut request.overlay).expect("a script");
    let run = prepare(&project, &request).expect("a run");
    let mut session = Session::start(board, &run.boot(), None, false).expect("QEMU");
    let deadline = Instant::now() + LIMIT;
    let mut console = String::new();
    while console.matches("begin>now").count() < 3 {
        match session.next(None, Some(deadline)).expect("a console") {
            Event::Guest(bytes) => console.push_str(&String::from_utf8_lossy(&bytes)),
            Event::Quiet | Event::Exited(_) => panic!("it did not restart twice:\n{}", session.console(40)),
            _ => {}
        }
    }
}
