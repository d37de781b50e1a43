//! Endurance: see `spica_runner::endurance`.

use std::time::Duration;

use spica_runner::board;
use spica_runner::endurance::{self, Options, Record};
use spica_runner::project::{Project, create_dir};

/// For a slice: three short rounds, which take some minutes.
const SLICE: Duration = Duration::from_secs(1800);

fn run(name: &str, options: Options) -> Record {
    let project = Project::find(None).expect("the project");
    create_dir(&project.build("logs")).expect("a directory for the log");
    let options = Options { log: Some(project.build(&format!("logs/endurance-{name}.log"))), ..options };
    let record = endurance::run(&project, &options, &mut |line| println!("{line}"));
    let record = record.unwrap_or_else(|error| panic!("{error}\n{}", error.details.as_deref().unwrap_or_default()));
    println!("{}", record.figures());
    assert_eq!(record.verdict(), [""; 0], "{}", record.figures());
    record
}

fn options(board: &str, seconds: u32) -> Options {
    Options { timeout: SLICE, ..Options::new(board::find(board).expect("a board"), seconds) }
}

/// Three rounds under Spica give what a round gives without it.
#[test]
fn slice() {
    let options = Options { less: 16, ..options("cubieboard", 1) };
    // All rounds are to be the same, so one is enough to compare with.
    let native = run("native", Options { native: true, rounds: 1, ..options.clone() });
    let under = run("slice", options);
    for (ours, theirs) in under.rounds[0].iter().zip(&native.rounds[0]) {
        assert_eq!((&ours.name, &ours.result), (&theirs.name, &theirs.result));
    }
    assert_eq!((under.rounds.len(), under.rounds[0].len()), (3, 6));
    assert_eq!(under.levels.len(), 2);
}

#[test]
#[ignore = "takes some 40 minutes; `spica prove --part endurance` runs it for as long as is wanted"]
fn hour() {
    let seconds = std::env::var("SPICA_ENDURANCE").ok().and_then(|s| s.parse().ok()).unwrap_or(3600);
    run("hour", Options { timeout: Duration::from_secs(24 * 3600), ..options("cubieboard", seconds) });
}
