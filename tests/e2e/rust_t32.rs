//! A kernel that a compiler has made in T32 (`guests/t32`): it prints the same on QEMU's `virt` without Spica and on
//! the boards under Spica, and that is what it is known to print. A compiler decides in which order it first touches
//! memory that is not there yet, under `fetches:` above all: what another one prints natively is to be looked through,
//! and is what is expected then.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use spica_runner::prepare::{Request, prepare};
use spica_runner::project::{Project, read_text};
use spica_runner::qemu::Event;
use spica_runner::spica::{HALTED, failure, is_power_off};
use spica_runner::{board, process};

/// For one run: they take a second or two; a busy machine may take many.
const LIMIT: Duration = Duration::from_secs(60);

/// The kernel, built beside the hypervisor.
fn built(project: &Project) -> &'static PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = project.build("hypervisor");
        let mut cargo = Command::new("cargo");
        cargo.current_dir(project.source("guests/t32"));
        cargo.env("RUSTC_BOOTSTRAP", "1").env_remove("CARGO_TARGET_DIR");
        cargo.args(["build", "--release", "--locked", "--quiet", "--target-dir"]).arg(&target);
        process::output(&mut cargo, "cannot build the kernel in T32").unwrap_or_else(|error| panic!("{error}"));
        target.join("thumbv7a-none-eabi/release/t32")
    })
}

/// What the kernel prints on a board, without Spica or under it, to the end, and what Spica says.
#[track_caller]
fn printed(board: &str, native: bool) -> (String, Vec<String>) {
    let project = Project::find(None).expect("the project");
    let request = Request {
        native,
        kernel: Some(built(&project).clone()),
        memory: Some("16M".to_string()),
        ..Request::new(board::find(board).expect("a board"))
    };
    let run = prepare(&project, &request).expect("a run");
    let mut session = run.start(None, false).expect("QEMU");
    let deadline = Instant::now() + LIMIT;
    // A letter may come in two pieces.
    let (mut guest, mut spica) = (Vec::new(), Vec::<String>::new());
    // One that has lost its way may print for ever.
    while guest.len() < 1 << 16 {
        match session.next(None, Some(deadline)).expect("a console") {
            Event::Guest(bytes) => guest.extend(bytes),
            Event::Spica(line) if line == HALTED => break,
            Event::Spica(line) => spica.push(line),
            Event::Exited(_) if native => break,
            Event::Quiet | Event::Exited(_) => {
                panic!("it does not end:\n{}\n{spica:#?}", process::tail(&String::from_utf8_lossy(&guest), 40))
            }
            _ => {}
        }
    }
    (String::from_utf8_lossy(&guest).replace('\r', ""), spica)
}

/// The lines must be those of `expected.txt`.
#[track_caller]
fn compare(board: &str, printed: &str) {
    let project = Project::find(None).expect("the project");
    let expected = read_text(&project.source("guests/t32/expected.txt")).expect("what it prints");
    assert!(expected.ends_with("\nend\n"), "all of it is expected");
    for (at, (is, should)) in printed.lines().zip(expected.lines()).enumerate() {
        assert_eq!(is, should, "{board}: line {}:\n{printed}", at + 1);
    }
    assert_eq!(printed.lines().count(), expected.lines().count(), "{board}:\n{printed}");
}

#[track_caller]
fn under_spica(board: &str) {
    let (guest, spica) = printed(board, false);
    compare(board, &guest);
    let kind = "guest guest: its kernel is an ELF file, and starts at 0x40100000 in Thumb state";
    assert!(spica.iter().any(|line| line == kind), "{spica:#?}");
    assert!(spica.iter().any(|line| is_power_off(line, "guest")), "{spica:#?}");
    assert_eq!(failure(&spica, &["guest".to_string()]), None, "{spica:#?}");
}

#[test]
fn a_rust_kernel_in_t32_natively() {
    compare("virt", &printed("virt", true).0);
}

#[test]
fn a_rust_kernel_in_t32_on_a_cortex_a8() {
    under_spica("cubieboard");
}

#[test]
fn a_rust_kernel_in_t32_on_a_cortex_a9() {
    under_spica("vexpress-a9");
}
