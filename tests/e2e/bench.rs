//! `spica bench`: figures that repeat to the digit, runs that are interrupted, guests that do not get there, and
//! mistakes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use spica_bench::compare::compare;
use spica_bench::results::{Board, Group, Results, Status};
use spica_runner::bench::{self, Options};
use spica_runner::error::{Error, FAILED, USAGE};
use spica_runner::project::Project;

/// A guest that says nothing for so long has failed; a busy machine may be slow.
const STALL: Duration = Duration::from_secs(300);

/// A directory for results, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(project().build(&format!("test-bench-{}-{number}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn project() -> Project {
    Project::find(None).expect("the project")
}

fn options(board: &str, workload: &str) -> Options {
    Options {
        boards: vec![board.into()],
        configurations: Vec::new(),
        workloads: vec![workload.into()],
        kernel: None,
        quick: true,
        events: false,
        cycles: false,
        output: None,
        resume: None,
        jobs: None,
        stall: STALL,
        verbose: false,
    }
}

/// Runs; says whether all was measured, and gives the result file, the only one in the directory.
fn run(options: Options) -> (bool, PathBuf) {
    let scratch = Scratch::new();
    let dir = scratch.0.clone();
    let measured = bench::run(&project(), &Options { output: Some(dir.clone()), ..options }).expect("a run");
    std::mem::forget(scratch);
    let files = fs::read_dir(&dir).expect("results").flatten().map(|e| e.path());
    let mut files: Vec<_> = files.filter(|f| f.extension().is_some_and(|e| e == "json")).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!(files[0], measured.file);
    (measured.complete, files.remove(0))
}

/// Removes what [`run`] left.
fn remove(file: &Path) {
    let _ = fs::remove_dir_all(file.parent().expect("a directory"));
}

fn load(file: &Path) -> Results {
    bench::load(file).unwrap_or_else(|e| panic!("{e}"))
}

/// Two runs, each with machine operations natively and under Spica.
fn equal_runs(board: &str) {
    let (first_complete, first_file) = run(options(board, "machine/*"));
    let (second_complete, second_file) = run(options(board, "machine/*"));
    let (first, second) = (load(&first_file), load(&second_file));
    let comparison = compare("first", &first, "second", &second);
    assert!(comparison.is_identical(), "{}", comparison.text());
    assert_eq!((first_complete, first.measurements.len()), (second_complete, second.measurements.len()));
    let measured = first.measurements.iter().filter_map(|m| m.figures());
    let (mut count, mut dearer) = (0, 0);
    for figures in measured {
        count += 1;
        dearer += usize::from(figures.ratio() > 1.0);
    }
    assert!(count > 20 && dearer > 10, "{count} of {} measured, {dearer} dearer", first.measurements.len());
    for extension in ["md", "html"] {
        let report = fs::read_to_string(first_file.with_extension(extension)).expect("a report");
        assert!(report.contains(board), "the report has no {board}");
    }
    remove(&first_file);
    remove(&second_file);
}

#[test]
fn equal_runs_give_equal_figures_on_cubieboard() {
    equal_runs("cubieboard");
}

#[test]
#[ignore = "the same on the other board: a minute"]
fn equal_runs_give_equal_figures_on_vexpress_a9() {
    equal_runs("vexpress-a9");
}

/// The subset of these workloads that `spica bench --quick` has, on one board, counted: `least` figures are there, all
/// in their bounds, and every exception that Spica took is a trap of some class.
fn traps_add_up(workloads: Vec<String>, least: u32) {
    let (_, file) = run(Options { workloads, events: true, ..options("cubieboard", "") });
    let results = load(&file);
    let mut counted = 0;
    for measurement in &results.measurements {
        let name = format!("{}/{}", measurement.group, measurement.workload);
        // Several guests have figures that stand for themselves.
        if measurement.finding().is_some() {
            assert_eq!(measurement.group, Group::Several, "{name}");
            continue;
        }
        let Some(figures) = measurement.figures() else {
            let why = measurement.reason().expect("figures or a reason");
            // Not every archive has lmbench; not every board has such interrupts.
            assert!(why.contains("cannot be had") || why.contains("this board"), "{name}: {why}");
            continue;
        };
        if matches!(measurement.group, Group::Kernel | Group::Application) {
            assert!(figures.ratio() > 0.9 && figures.ratio() < 10.0, "{name}: {}", figures.ratio());
        }
        if measurement.group == Group::Machine {
            continue;
        }
        let events = figures.events.as_ref().unwrap_or_else(|| panic!("{name}: nothing was counted"));
        let traps: u64 = events.traps.values().sum();
        let exceptions = events.virtualised["exception-entry"];
        assert_eq!(traps, exceptions, "{name}: traps, exceptions");
        assert!(events.native["exception-entry"] > 0, "{name}: no exception on the bare board");
        counted += 1;
    }
    assert!(counted >= least, "{counted} workloads counted");
    remove(&file);
}

#[test]
#[ignore = "four boots, two of them counted: some minutes"]
fn traps_of_kernel_operations_add_up() {
    traps_add_up(vec!["kernel/*".into()], 6);
}

#[test]
#[ignore = "all that `--quick` has: ten minutes"]
fn a_quick_run_is_complete_and_its_traps_add_up() {
    traps_add_up(Vec::new(), 8);
}

#[test]
fn a_resumed_run_measures_what_is_missing_and_finds_the_same() {
    let (complete, file) = run(options("cubieboard", "boot/*"));
    let whole = load(&file);
    assert!(complete, "{:?}", whole.measurements);
    let of = |name: &str| whole.find(Board::Cubieboard, "default", Group::Boot, name).and_then(|m| m.figures());
    let (init, shell) = (of("init").expect("a figure").clone(), of("shell").expect("a figure").clone());
    assert!(init.native < shell.native && init.virtualised < shell.virtualised, "the shell comes behind init");
    assert!(init.ratio() > 1.0 && init.ratio() < 10.0, "{}", init.ratio());
    assert_eq!(init.native.fract() + init.virtualised.fract(), 0.0, "instructions come whole");

    // As if Spica's boot had been interrupted behind the first workload.
    let mut part = whole.clone();
    for measurement in part.measurements.iter_mut().filter(|m| m.workload == "shell") {
        measurement.status = Status::Missing { reason: "interrupted".into(), native: Some(shell.native) };
    }
    fs::write(&file, part.to_json()).expect("a file");
    let resume = Options { boards: Vec::new(), workloads: Vec::new(), ..options("", "") };
    let resume = Options { resume: Some(file.clone()), quick: false, ..resume };
    assert!(bench::run(&project(), &resume).expect("a run").complete);
    assert_eq!(load(&file).measurements, whole.measurements);
    remove(&file);
}

#[test]
fn several_guests_are_measured_without_a_bare_board() {
    let (complete, file) = run(options("cubieboard", "several/idle-*"));
    let results = load(&file);
    assert_eq!((complete, results.measurements.len()), (true, 1), "{:?}", results.measurements);
    let idle = results.measurements[0].finding().expect("a figure");
    assert_eq!(idle.meets_goal(), Some(true), "{idle:?}");
    assert!(idle.parts["rounds/ms alone"] > 100.0, "{idle:?}");
    let table = fs::read_to_string(file.with_extension("md")).expect("a table");
    assert!(table.contains("| idle-neighbour | "), "{table}");
    remove(&file);

    let natively = Options { configurations: vec!["native".into()], ..options("cubieboard", "several/*") };
    assert!(error(&natively).message.contains("need Spica"));
}

#[test]
fn a_guest_that_gets_nowhere_is_missing() {
    let (complete, file) = run(Options { stall: Duration::from_millis(1), ..options("vexpress-a9", "boot/*") });
    assert!(!complete);
    let results = load(&file);
    assert_eq!(results.measurements.len(), 2);
    for measurement in &results.measurements {
        let reason = measurement.reason().expect("no figures");
        assert!(reason.contains("the guest did not get there in time"), "{reason}");
    }
    remove(&file);
}

fn error(options: &Options) -> Error {
    bench::run(&project(), options).expect_err("this makes no sense")
}

#[test]
fn unknown_names() {
    let wrong_board = error(&options("virt", "init"));
    assert_eq!(wrong_board.status, USAGE);
    let expected = "unknown board \"virt\"; benchmarks run on cubieboard (Cortex-A8) and vexpress-a9 (Cortex-A9)";
    assert_eq!(wrong_board.message, expected);

    let wrong_configuration = Options { configurations: vec!["fast".into()], ..options("cubieboard", "init") };
    let wrong_configuration = error(&wrong_configuration);
    assert_eq!(wrong_configuration.status, USAGE);
    assert!(wrong_configuration.message.starts_with("unknown configuration \"fast\"; the configurations are native, "));

    // Said before a QEMU for it is fetched.
    let no_cycles = error(&Options { cycles: true, ..options("cubieboard", "machine/*") });
    assert_eq!(no_cycles.status, USAGE);
    assert!(no_cycles.message.starts_with("none of the workloads that were chosen has cycles: only kernel"));
    let both = error(&Options { cycles: true, events: true, ..options("cubieboard", "null") });
    assert_eq!(both.status, USAGE);
    let one_side =
        error(&Options { cycles: true, configurations: vec!["native".into()], ..options("cubieboard", "null") });
    assert_eq!(one_side.status, USAGE);

    let wrong_workload = error(&options("cubieboard", "nulll"));
    assert_eq!(wrong_workload.status, USAGE);
    assert!(wrong_workload.message.starts_with("no workload is called \"nulll\"; the workloads are:\n"));
    assert!(wrong_workload.message.contains("\n  boot/  init shell"), "{wrong_workload}");
}

#[test]
fn result_files_that_are_none() {
    let scratch = Scratch::new();
    fs::create_dir_all(&scratch.0).expect("a directory");
    let file = scratch.0.join("file.json");
    let resume = Options { resume: Some(file.clone()), ..options("cubieboard", "init") };
    let missing = error(&resume);
    assert_eq!(missing.status, FAILED);
    assert!(missing.message.starts_with(&format!("cannot read {}: No such file", file.display())), "{missing}");

    fs::write(&file, "{\"schema\": 1}").expect("a file");
    let broken = error(&resume);
    assert!(broken.message.starts_with(&format!("{}: ", file.display())), "{broken}");
    assert!(bench::report_again(&file, None).is_err() && bench::changes(&file, &file).is_err());
}
