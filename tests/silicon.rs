//! What QEMU forgives and a core may not: a boot with work, under the checker (`spica_runner::silicon`).
//!
//! Linux without Spica is the oracle for false alarms. What the checker finds there is explained, by class and mode
//! (`silicon::EXPLAINED`), or the checker is wrong. Under Spica, nothing may be found, in no mode: the guest's own
//! maintenance is Spica's to carry out.

use std::time::{Duration, Instant};

use spica_runner::board;
use spica_runner::error::{Error, Result};
use spica_runner::exec::{Script, exec};
use spica_runner::image::Image;
use spica_runner::prepare::{Request, prepare};
use spica_runner::project::{Project, create_dir, read, read_text};
use spica_runner::silicon::{self, Report, Symbols, explanation, say};

use crate::bare::{self, Guest};
use crate::several::{Board, Part};
use crate::{Machine, Parser, probe};

/// How long a boot with its work may take. It is twenty times as slow as any other.
const TIMEOUT: Duration = Duration::from_secs(3000);

/// How many instructions there must be, that a run has not been looked at in vain.
const LEAST: u64 = 1_000_000;

/// What came of a boot.
#[derive(Clone, Debug)]
pub struct Found {
    /// The checker's report.
    pub report: Report,
    /// Complaints that nothing explains, a line for each.
    pub wrong: Vec<String>,
    /// Complaints that are explained: a line for each kind, with how often.
    pub explained: Vec<String>,
    /// Checks of the guest's own that failed.
    pub failed: Vec<String>,
}

impl Found {
    fn new(project: &Project, machine: Machine, report: Report) -> Result<Found> {
        let native = machine.native();
        let symbols = if native { Symbols::default() } else { Symbols::read(&Image::Shipped.elf(project))? };
        let mut found = Found { report, wrong: Vec::new(), explained: Vec::new(), failed: Vec::new() };
        for complaint in &found.report.complaints {
            match explanation(complaint, native) {
                None => found.wrong.push(say(complaint, &symbols)),
                Some(why) => {
                    let line = format!("{}: {why}", complaint.class);
                    if !found.explained.contains(&line) {
                        found.explained.push(line);
                    }
                }
            }
        }
        Ok(found)
    }

    /// Whether nothing is wrong; else, all that is.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn verdict(&self) -> std::result::Result<(), String> {
        let mut wrong = self.wrong.clone();
        wrong.extend(self.failed.iter().map(|name| format!("the guest's own check {name} failed")));
        if self.report.more != 0 {
            wrong.push(format!("and {} more, in places for which there was no room", self.report.more));
        }
        let Report { instructions, walks, code, invalidated, .. } = self.report;
        if instructions < LEAST || walks == 0 || code == 0 || invalidated == 0 {
            wrong.push(format!("too little was looked at: {}", self.figures()));
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }

    /// How much was looked at.
    #[must_use]
    pub fn figures(&self) -> String {
        let Report { instructions, accesses, walks, code, invalidated, .. } = self.report;
        format!(
            "{instructions} instructions, {accesses} accesses, {walks} uses of pages, {code} words became code, \
             {invalidated} translations were invalidated"
        )
    }
}

/// Bare-metal guests that keep the architecture's rules themselves in the code that runs in User mode. Others of
/// `exact.rs` jump there to what they have written without maintenance, or which nobody has written, on purpose.
pub const GUESTS: &[&str] = &[
    "upkeep",
    "attributes",
    "exclusive",
    "modes",
    "vfp",
    "stale",
    "ranges",
    "code",
    "region",
    "exceptions",
    "pc",
    "cp15",
];

/// Runs one of [`GUESTS`] under Spica, under the checker, with `words` on Spica's command line.
///
/// # Errors
/// If there is no QEMU for it, or the guest does not come to its end.
pub fn check_guest(machine: Machine, name: &str, words: &str) -> Result<Found> {
    let project = Project::find(None)?;
    let tools = silicon::prepare(&project)?;
    create_dir(&project.build("logs"))?;
    let file = project.build(&format!("logs/silicon-{machine:?}-{name}{words}.report"));
    // As in `exact.rs`.
    let no_alignment = u32::from(machine == Machine::VexpressA9);
    let guest = Guest { name, parameters: &[no_alignment], payload: &[] };
    let outcome = bare::run_prepared(machine, &guest, TIMEOUT, words, |run| {
        run.load(tools.argument(&file, run.board, run.board_memory_mib())?, tools.emulator.clone());
        Ok(())
    })?;
    let mut found = Found::new(&project, machine, silicon::report(&file)?)?;
    if !outcome.reason().is_some_and(|reason| reason.starts_with("powered off")) {
        found.failed.push(format!("that it comes to its end: {}", outcome.tail()));
    }
    Ok(found)
}

/// On Spica's command line: guests' kernels run by blocks.
pub const BLOCKS: &str = "spica.engine=blocks";
/// They run in place, and are guests of ours, which begin where their RAM does.
pub const OURS_IN_PLACE: &str = "spica.engine=in-place-from-start@0x40000000";

/// How often guests that count by exclusives do, in either mode.
const COUNTS: [u32; 1] = [300];
/// How often a guest of [`check_several`] is stopped in the midst of its work, and started again.
const STOPS: usize = 8;
/// What Debian does there: files, pipes, processes.
const TYPED: &str = "for n in 1 2 3; do ls -lR /bin /lib | sort | wc -l; done; echo all is done\r";

/// Runs several guests at once under the checker, on a board of Spica's, one of which is stopped and started again and
/// again: small ones of our own, and, if `debian`, a Debian among them, which works, is stopped, and starts once more.
///
/// # Errors
/// If there is no QEMU for it.
///
/// # Panics
/// If a guest does not do what it is to.
pub fn check_several(machine: Machine, debian: bool) -> Result<Found> {
    let project = Project::find(None)?;
    let tools = silicon::prepare(&project)?;
    create_dir(&project.build("logs"))?;
    let kind = if debian { "debian" } else { "small" };
    let file = project.build(&format!("logs/silicon-{machine:?}-several-{kind}.report"));
    let no_alignment = [u32::from(machine == Machine::VexpressA9)];
    let mut parts = vec![
        Part::new("one", "locks", &COUNTS),
        Part::new("two", "locks", &COUNTS),
        Part::new("stale", "stale", &no_alignment),
        Part::new("it", "cycle", &[]),
    ];
    if debian {
        parts.push(Part { name: "debian", guest: None, keys: "memory = \"128M\"\n".into() });
    }
    let mut board = Board::start_changed(machine, &parts, |_, run| {
        run.load(tools.argument(&file, run.board, run.board_memory_mib())?, tools.emulator.clone());
        Ok(())
    })?;
    board.patience = TIMEOUT;
    let mut ups = 0;
    for _ in 0..STOPS {
        ups += 1;
        board.line("it", "up", ups);
        // If it is not at its end already.
        let _ = board.ask("stop it");
        board.tell("start it");
    }
    for name in ["one", "two"] {
        let line = board.line(name, "counted", 1);
        assert_eq!(crate::several::value(&line, "times"), 2 * COUNTS[0], "{line}");
    }
    if debian {
        let prompt = |board: &mut Board, count| {
            board.until("a shell of Debian's", |board| {
                (board.console("debian").matches("root@debian:").count() >= count).then_some(())
            });
        };
        prompt(&mut board, 1);
        board.show(Some("debian"));
        board.type_keys(TYPED);
        board.line("debian", "all is done", 1);
        let shells = board.console("debian").matches("root@debian:").count();
        board.tell("stop debian");
        board.tell("start debian");
        prompt(&mut board, shells + 1);
    }
    drop(board);
    Found::new(&project, machine, silicon::report(&file)?)
}

/// Boots a machine with the work, under the checker, with `words` on Spica's command line.
///
/// # Errors
/// If there is no QEMU for it, or the guest does not come to the end of its work.
pub fn check(machine: Machine, words: &str) -> Result<Found> {
    let project = Project::find(None)?;
    let tools = silicon::prepare(&project)?;
    let board = board::find(machine.board())?;
    let native = machine.native();
    // Time is the count of instructions: else timers would go off all the time.
    let mut request =
        Request { native, append: "quiet".into(), spica_append: words.into(), icount: Some(2), ..Request::new(board) };
    request.overlay.file("bin/probe", 0o755, &read(&probe()?)?);
    let script = Script::new(&read_text(&project.source("tests/guest/silicon.sh"))?, &mut request.overlay)?;
    let mut run = prepare(&project, &request)?;
    create_dir(&project.build("logs"))?;
    let file = project.build(&format!("logs/silicon-{machine:?}{words}.report"));
    run.load(tools.argument(&file, board, run.board_memory_mib())?, tools.emulator.clone());
    let log = file.with_extension("log");
    let start = Instant::now();
    let mut parser = Parser::default();
    let mut listener = |bytes: &[u8]| Ok(parser.feed(bytes, start.elapsed()));
    let result = exec(&run, &script, TIMEOUT, Some(&log), false, &mut listener);
    // What was found until then may be why it did not come to its end.
    let report = silicon::report(&file).map_err(|error| match &result {
        Err(first) => Error { message: format!("{first}; {}", error.message), ..error },
        Ok(_) => error,
    })?;
    let mut found = Found::new(&project, machine, report)?;
    if let Err(error) = result {
        found.failed.push(format!("that it comes to its end: {error}"));
    }
    found.failed.extend(parser.sections.iter().filter(|(_, s)| s.status != Some(0)).map(|(name, _)| name.clone()));
    Ok(found)
}
