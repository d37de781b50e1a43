//! The board image itself: its self-test passes on each board, what it loads is the package's kernel, byte for byte,
//! and it says of all of its code what that is for.

use std::process::Command;
use std::time::{Duration, Instant};

use spica_bench::events;
use spica_runner::bench::counter;
use spica_runner::board;
use spica_runner::exec::{Script, exec};
use spica_runner::image::Image;
use spica_runner::prepare::{self, Request, prepare};
use spica_runner::project::Project;
use spica_runner::qemu::{Boot, Event, Session};

/// The steps of the self-test (crates/hypervisor/src/selftest.rs).
const STEPS: [&str; 7] = [
    "heap ok",
    "copies ok",
    "memory ok",
    "faults ok",
    "timer ok",
    "two guests ok",
    "console input echoes, by interrupt",
];

fn selftest(name: &str) {
    let project = Project::find(None).expect("the project");
    let image = prepare::board_image(&project, Image::Shipped).expect("the board image");
    let trees = prepare::fetch(&project, false).expect("the guest").device_trees;
    let board = board::find(name).expect("a board");
    let tree = board.device_tree.map(|t| trees.join(t));
    let boot = Boot {
        kernel: &image,
        initrd: None,
        append: "spica.selftest",
        device_tree: tree.as_deref(),
        memory_mib: None,
        icount: None,
        plugged: &[],
        debug: None,
        plugin: None,
    };
    let mut session = Session::start(board, &boot, None, false).expect("QEMU");
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut console = String::new();
    while !console.contains("selftest: done") {
        match session.next(None, Some(deadline)).expect("a console") {
            Event::Guest(bytes) => console.push_str(&String::from_utf8_lossy(&bytes)),
            Event::Spica(line) => assert!(!line.contains("panic"), "{name}: {line}\n{console}"),
            Event::Quiet | Event::Exited(_) => panic!("{name} did not end its self-test:\n{console}"),
            _ => {}
        }
    }
    for step in STEPS {
        assert!(console.contains(&format!("selftest: {step}")), "{name}: no {step:?} in\n{console}");
    }
}

fn kernel(name: &str) {
    let project = Project::find(None).expect("the project");
    let guest = prepare::fetch(&project, false).expect("the guest");
    let sum = Command::new("sha256sum").arg(&guest.kernel).output().expect("sha256sum").stdout;
    let expected = String::from_utf8_lossy(&sum);
    let expected = expected.split_whitespace().next().expect("a digest");
    let board = board::find(name).expect("a board");
    let mut request = Request { spica_append: "spica.digest".into(), ..Request::new(board) };
    let script = Script::new("true", &mut request.overlay).expect("a script");
    let run = prepare(&project, &request).expect("a run");
    let outcome =
        exec(&run, &script, Duration::from_secs(300), None, false, &mut |_| Ok(Vec::new())).expect("a status");
    let line =
        format!("guest debian: kernel of {} bytes in its RAM", std::fs::metadata(&guest.kernel).expect("a file").len());
    let said = outcome.spica.iter().find(|l| l.starts_with(&line)).unwrap_or_else(|| panic!("{:#?}", outcome.spica));
    assert!(said.ends_with(&format!("SHA-256 {expected}")), "{said}, but the package's file has {expected}");
}

#[test]
fn the_self_test_passes_on_cubieboard() {
    selftest("cubieboard");
}

#[test]
fn the_self_test_passes_on_vexpress_a9() {
    selftest("vexpress-a9");
}

#[test]
fn the_kernel_is_the_packages_on_cubieboard() {
    kernel("cubieboard");
}

#[test]
#[ignore = "the same on the other board, which boots this kernel in many tests: half a minute"]
fn the_kernel_is_the_packages_on_vexpress_a9() {
    kernel("vexpress-a9");
}

/// What profiles and counters go by: crates/hypervisor/src/parts.rs.
#[test]
fn all_code_belongs_to_a_part_of_a_profile() {
    let project = Project::find(None).expect("the project");
    prepare::board_image(&project, Image::Shipped).expect("the board image");
    let notes = counter::notes(&project, Image::Shipped).expect("notes");
    assert_eq!(notes.unknown, Vec::<String>::new(), "no note says what this code is for");
    for (address, event) in &notes.counts {
        assert!(events::place_of(event).is_some(), "{address:#010x} counts {event}, which is no event");
        assert!(notes.pieces.iter().any(|p| p.range.contains(address)), "{event} at {address:#010x}, where no code is");
    }
    // Three tables of six vectors, the classes of two of them, and what aborts turn out to be.
    let of = |class: &str| notes.counts.iter().filter(|(_, event)| event == class).count();
    assert_eq!((of("exception-entry"), of("trap.interrupt"), of("trap.guest-abort")), (18, 4, 5));
}
