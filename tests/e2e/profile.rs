//! `spica profile`: profiles that add up, and mistakes.

use std::fs;
use std::time::Duration;

use spica_runner::error::USAGE;
use spica_runner::profile::{Options, run};
use spica_runner::project::Project;

/// A guest that does not get to its next stop in so long has failed; a busy machine may be slow.
const STALL: Duration = Duration::from_secs(300);

fn options(workload: &str) -> Options {
    Options {
        board: "cubieboard".into(),
        kernel: None,
        workloads: vec![workload.into()],
        engine: String::new(),
        cycles: false,
        native: false,
        code: false,
        output: None,
        stall: STALL,
        verbose: false,
    }
}

/// A null system call by an engine, in whose profile are these rows as well.
#[track_caller]
fn null_system_call(engine: &str, rows: &[&str]) {
    let project = Project::find(None).expect("the project");
    let dir = project.build(&format!("test-profile-{}-{engine}", std::process::id()));
    let result = run(&project, &Options { output: Some(dir.clone()), engine: engine.into(), ..options("null") });
    let text = fs::read_to_string(dir.join("cubieboard.md")).unwrap_or_default();
    let left: Vec<_> = fs::read_dir(&dir).expect("tables").flatten().map(|entry| entry.file_name()).collect();
    let _ = fs::remove_dir_all(&dir);
    result.and_then(|profiled| profiled.check()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    // Nothing that no rule is known to emit; tables and console, but no counters left behind.
    for row in ["kernel code", "user code", "DACR", "system calls of user code"].iter().chain(rows) {
        assert!(text.contains(&format!("| {row} |")), "{row}: {text}");
    }
    assert!(!text.contains("no rule is known"), "{text}");
    assert_eq!(left.len(), 3, "{left:?}");
}

#[test]
#[ignore = "a boot with all instructions counted: half a minute"]
fn a_null_system_call_in_place() {
    null_system_call("spica.engine=in-place", &["branches to stubs", "ends of blocks"]);
}

#[test]
#[ignore = "a boot with all instructions counted: half a minute"]
fn a_null_system_call_by_blocks() {
    null_system_call("spica.engine=blocks", &["returns and indirect branches", "the return mirror's branches"]);
}

#[test]
fn mistakes_are_said_first() {
    let project = Project::find(None).expect("the project");
    let error = run(&project, &options("nul")).unwrap_err();
    assert_eq!(error.status, USAGE, "{error}");
    let error = run(&project, &Options { board: "cubie".into(), ..options("null") }).unwrap_err();
    assert_eq!(error.status, USAGE, "{error}");
}
