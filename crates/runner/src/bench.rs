//! `spica bench`: how many instructions the same work takes with Spica and without.
//!
//! Each workload runs on the bare board and as Spica's guest, on the same emulated board, with the same kernel and the
//! same initial RAM disk, under QEMU's `-icount`: there, time is the count of executed instructions, so what a workload
//! measures with its own clock is instructions, and equal runs give equal figures to the digit, however busy this
//! machine is.
//!
//! The way of a run: [`plan`] says which boots are needed for what is wanted ([`configurations`], boards, workloads);
//! boots run on as many threads as processors, each measured by [`boot`], [`machine`], [`linux`] or `several`; what
//! they come to is [`record`]ed, and the result file written, after each. What became of the figures then is the
//! business of the crate `spica-bench`: comparison, cost model, report.

pub mod boot;
pub mod clock;
pub mod configurations;
pub mod counter;
pub mod counts;
pub(crate) mod debugger;
pub mod glob;
pub mod linux;
pub mod machine;
pub mod marker;
pub mod meter;
pub mod plan;
pub mod record;
mod say;
mod session;
mod several;
pub mod software;
mod watch;
pub mod workloads;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use spica_bench::compare::{Comparison, compare};
use spica_bench::report;
use spica_bench::results::{Finding, Group, Results};

use crate::board::Board;
use crate::error::{Error, Result};
use crate::prepare::Request;
use crate::progress;
use crate::project::{Project, create_dir, fingerprint, read, read_text, write};
use configurations::{Configuration, NATIVE};
use plan::{Item, Wanted};
pub use say::list;
use workloads::Prepared;

/// QEMU's `-icount shift`: an instruction takes 2^shift nanoseconds of guest time.
pub const ICOUNT_SHIFT: u8 = 1;

/// Which workloads time is modelled for.
const ONLY: &str = "only kernel operations, cliffs, probes, applications and boots have";

/// The memory of a Linux guest, and of the same Linux without Spica.
pub(crate) const MEMORY: &str = "256M";

/// What the command line asks for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Boards by name; none means all.
    pub boards: Vec<String>,
    /// Configurations by name; none means the default one.
    pub configurations: Vec<String>,
    /// Workloads by pattern; none means all.
    pub workloads: Vec<String>,
    /// The Linux that guests run where one does, natively and under Spica; `None` means Debian's.
    pub kernel: Option<PathBuf>,
    /// Only the quick subset.
    pub quick: bool,
    /// Count traps by class and other events, too. A run that counted goes on counting.
    pub events: bool,
    /// Model the time, too. A run that did goes on with it. Not with events.
    pub cycles: bool,
    /// Where to write results; `None` means `build/bench`.
    pub output: Option<PathBuf>,
    /// The result file of a run to go on with.
    pub resume: Option<PathBuf>,
    /// How many boards run at the same time; `None` means as many as there are processors.
    pub jobs: Option<usize>,
    /// How long a guest may print nothing.
    pub stall: Duration,
    /// Show what is done.
    pub verbose: bool,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The result file.
    pub file: PathBuf,
    /// The figures that were wanted, a line each.
    pub summary: String,
    /// Whether all that was wanted and can be measured was measured.
    pub complete: bool,
}

/// With or without Spica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The bare board.
    Native,
    /// Spica in a configuration.
    Spica(&'static Configuration),
}

impl Side {
    /// For people, and for the names of files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => NATIVE,
            Self::Spica(configuration) => configuration.name,
        }
    }

    /// Words on Spica's command line.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Native => "",
            Self::Spica(configuration) => configuration.words,
        }
    }
}

/// What all boots of a run have in common.
struct Context<'a> {
    project: &'a Project,
    /// As [`Options::kernel`].
    kernel: Option<PathBuf>,
    /// The workloads that run in Linux, ready.
    suites: BTreeMap<Group, Prepared>,
    /// NuttX's kernel, if it is wanted and there.
    nuttx: Option<PathBuf>,
    /// What was counted without Spica.
    natives: counts::Natives,
    /// What counts beside instructions, if anything does.
    instrument: Option<meter::Instrument>,
    /// Where consoles are kept.
    logs: PathBuf,
    stall: Duration,
    verbose: bool,
}

impl Context<'_> {
    /// How long a guest may print nothing.
    fn stall(&self, side: Side) -> Duration {
        match side {
            Side::Native => self.stall,
            Side::Spica(configuration) => self.stall * configuration.patience,
        }
    }

    /// The file for a boot's console.
    fn log(&self, board: &Board, side: Side, what: &str) -> Result<PathBuf> {
        create_dir(&self.logs)?;
        Ok(self.logs.join(format!("{}-{}-{what}.log", board.name, side.name())))
    }
}

/// Where a boot's results go.
struct Said<'a> {
    /// Called with a workload's instructions, or why there are none.
    found: &'a mut Found<'a>,
    /// Called with a figure that has no native counterpart.
    single: &'a mut dyn FnMut(&str, Finding),
    /// The SHA-256 of workloads' outputs.
    digests: &'a mut BTreeMap<String, String>,
    /// The lines of Spica.
    spica: &'a mut Vec<String>,
    /// Where the board stopped for something to be counted.
    stops: &'a mut counts::Stops,
    /// Instructions of workloads that were done a second time, to be counted.
    again: &'a mut BTreeMap<String, f64>,
}

/// What hears of figures.
type Found<'a> = dyn FnMut(&str, std::result::Result<f64, String>) + 'a;

/// The instructions that are executed in so many nanoseconds of guest time.
pub(crate) fn instructions(ns: f64) -> f64 {
    ns / f64::from(1u32 << ICOUNT_SHIFT)
}

/// What is common to all boots of a board that measure a group.
fn request(board: &'static Board, side: Side, group: Group) -> Request {
    let words = match side {
        Side::Native => String::new(),
        Side::Spica(configuration) => match group {
            Group::Kernel | Group::Cliff | Group::Probes | Group::Application => {
                format!("{} {}", configuration.words, configuration.quick_boot)
            }
            Group::Machine | Group::Boot | Group::Several | Group::Latency => configuration.words.to_string(),
        },
    };
    Request {
        native: side == Side::Native,
        append: "quiet".into(),
        memory: Some(MEMORY.into()),
        icount: Some(ICOUNT_SHIFT),
        spica_append: words.trim().to_string(),
        ..Request::new(board)
    }
}

/// All workloads, in the order of the report.
fn items(project: &Project) -> Result<Vec<Item>> {
    let mut items = linux::items();
    items.extend(machine::items(project)?);
    items.extend(boot::items());
    items.extend(several::items());
    items.extend(several::late::items());
    items.sort_by_key(|i| Group::ALL.iter().position(|g| *g == i.group));
    Ok(items)
}

/// Measures.
///
/// # Errors
/// If the command line asks for what does not exist, or nothing can be measured at all. A guest that dies is not an
/// error: it is said, and stands in the results.
pub fn run(project: &Project, options: &Options) -> Result<Measured> {
    // Mistakes first, before anything is fetched or built.
    let boards = plan::select_boards(&options.boards)?;
    let (configurations, native_only) = configurations::select(&options.configurations)?;
    if options.jobs == Some(0) {
        return Err(Error::usage("--jobs 0 runs nothing; expected a number such as 2"));
    }
    let old = options.resume.as_deref().map(load).transpose()?;
    let items = items(project)?;
    let mut chosen = plan::select_items(&items, &options.workloads, options.quick)?;
    if native_only {
        chosen.retain(|item| item.group.has_native());
        if chosen.is_empty() {
            return Err(Error::usage("several guests need Spica; leave out --config native"));
        }
    }
    if options.workloads.is_empty() && old.is_none() {
        // They say nothing of Spica.
        chosen.retain(|item| item.group != Group::Probes);
    }
    let all = (boards, configurations, chosen);
    let (boards, configurations, mut chosen) = match &old {
        Some(old) => session::resumed(old, options, all),
        None => all,
    };

    let counted = |old: &Results| old.run.parameters.get(software::EVENTS).is_some_and(|e| e == software::COUNTED);
    let events = options.events || old.as_ref().is_some_and(counted);
    let timed = |old: &Results| old.run.parameters.contains_key(software::CYCLES);
    let cycles = options.cycles || old.as_ref().is_some_and(timed);
    if cycles && events {
        return Err(Error::usage("events and cycles are counted by different QEMUs; choose one, and start a new run"));
    }
    if cycles && native_only {
        return Err(Error::usage("--cycles compares both sides; leave out --config native"));
    }
    if cycles && options.workloads.is_empty() {
        chosen.retain(|item| plan::is_countable(item.group));
    }
    if cycles && !chosen.iter().any(|item| plan::is_countable(item.group)) {
        return Err(Error::usage(format!("none of the workloads that were chosen has cycles: {ONLY}")));
    }
    let instrument = match (cycles, events && !native_only) {
        (true, _) => Some(meter::Instrument::Clock(clock::prepare(project)?)),
        (false, true) => Some(meter::Instrument::Counter(counter::build(project)?)),
        (false, false) => None,
    };
    let mut suites = BTreeMap::new();
    for group in [Group::Kernel, Group::Cliff, Group::Probes, Group::Application] {
        if chosen.iter().any(|i| i.group == group) {
            suites.insert(group, linux::prepare(project, group, &chosen)?);
        }
    }
    for item in &mut chosen {
        if let Some(source) = suites.get(&item.group).and_then(|s| s.sources.get(item.name.as_str())) {
            item.source.clone_from(source);
        }
    }
    for warning in suites.values().flat_map(|s| &s.warnings) {
        progress::say(format_args!("warning: {warning}"));
    }
    let mut run = software::describe(project, &suites, &boards, native_only, instrument.as_ref())?;
    if let Some(kernel) = &options.kernel {
        if chosen.iter().any(|item| matches!(item.group, Group::Several | Group::Latency)) {
            return Err(Error::usage(
                "several guests run Debian's kernel; choose other workloads, or leave out --kernel",
            ));
        }
        run.boards.values_mut().for_each(|software| software.kernel = kernel.display().to_string());
    }
    let mut with_nuttx = several::with_nuttx(&chosen);
    let nuttx = if with_nuttx.is_empty() { Ok(None) } else { several::nuttx(project).map(Some) };
    match &nuttx {
        Ok(Some(kernel)) => {
            let kernel = format!("sha256:{}", fingerprint(&[&read(kernel)?]));
            run.parameters.insert("nuttx.kernel".into(), kernel);
        }
        Ok(None) => {}
        Err(error) => {
            progress::say(format_args!("warning: {error}"));
            if options.workloads.is_empty() && old.is_none() {
                // Nobody has asked for them.
                chosen.retain(|item| !with_nuttx.contains(item));
                with_nuttx.clear();
            }
        }
    }
    let (file, mut results) = match (old, &options.resume) {
        (Some(mut results), Some(file)) => {
            let same = results.merge(Results::new(run, Vec::new()));
            same.map_err(|e| Error::failed(format!("cannot go on with {}: {e}; start a new run", file.display())))?;
            (file.clone(), results)
        }
        _ => {
            let dir = options.output.clone().unwrap_or_else(|| project.build("bench"));
            (dir.join(software::file_name(&run)), Results::new(run, Vec::new()))
        }
    };
    plan::note(&mut results, &boards, &configurations, &chosen);
    // What cannot be run at all is said, and not tried.
    let mut possible = chosen.clone();
    for (group, suite) in &suites {
        for (name, why) in &suite.missing {
            record::impossible(&mut results, &boards, &configurations, &chosen, *group, name, why);
            possible.retain(|i| (i.group, i.name.as_str()) != (*group, name));
        }
    }
    if let Err(error) = &nuttx {
        for item in &with_nuttx {
            let why = error.to_string();
            record::impossible(&mut results, &boards, &configurations, &chosen, item.group, &item.name, &why);
        }
        possible.retain(|item| !with_nuttx.contains(item));
    }
    if cycles {
        let why = format!("this workload has no cycles: {ONLY}");
        for item in chosen.iter().filter(|item| !plan::is_countable(item.group)) {
            record::impossible(&mut results, &boards, &configurations, &chosen, item.group, &item.name, &why);
        }
        possible.retain(|item| plan::is_countable(item.group));
    }
    save(&results, &file)?;

    let context = Context {
        project,
        kernel: options.kernel.clone(),
        suites,
        nuttx: nuttx.ok().flatten(),
        natives: counts::Natives::default(),
        instrument,
        logs: file.with_extension("logs"),
        stall: options.stall,
        verbose: options.verbose,
    };
    let workers = options.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let wanted = match (native_only, events, cycles) {
        (true, _, _) => Wanted::Native,
        (false, false, false) => Wanted::Figures,
        (false, true, _) => Wanted::Events,
        (false, false, true) => Wanted::Cycles,
    };
    let jobs = plan::jobs(&results, &boards, &configurations, &possible, wanted);
    let count = jobs.len();
    progress::say(format_args!("{count} boots of a board to measure; results go to {}", file.display()));
    session::measure(&context, jobs, workers, &mut |job, outcome| {
        record::record(&mut results, job, outcome, &configurations);
        save(&results, &file)
    })?;
    write_reports(&results, &file.with_extension(""))?;
    let summary = say::summary(&results, &boards, &configurations, &chosen, native_only);
    let complete = complete(&results, &boards, &configurations, &chosen, wanted);
    Ok(Measured { file, summary, complete })
}

/// Whether all that was wanted and can be measured was measured.
fn complete(
    results: &Results,
    boards: &[&'static Board],
    configurations: &[&'static Configuration],
    items: &[Item],
    wanted: Wanted,
) -> bool {
    let settled = |board: &Board, configuration: &Configuration, item: &Item| {
        let key = plan::key(board, configuration.name, item);
        match wanted {
            Wanted::Native => {
                plan::is_settled(results, &key) || results.get(&key).is_some_and(|m| m.native().is_some())
            }
            Wanted::Figures => plan::is_settled(results, &key),
            Wanted::Events | Wanted::Cycles => {
                plan::is_settled(results, &key) && plan::is_counted(results, &key, wanted)
            }
        }
    };
    boards.iter().all(|b| configurations.iter().all(|c| items.iter().all(|i| settled(b, c, i))))
}

/// Reads a result file.
///
/// # Errors
/// If it cannot be read, or is none.
pub fn load(file: &Path) -> Result<Results> {
    let text = read_text(file)?;
    let wrong = |e| Error::failed(format!("{e}; expected a result file, as `spica bench` writes it"));
    Results::from_json(&file.display().to_string(), &text).map_err(wrong)
}

fn save(results: &Results, file: &Path) -> Result<()> {
    write(file, results.to_json().as_bytes())
}

/// Writes the tables of a run as `place.md`, and its page as `place.html`; gives both names.
fn write_reports(results: &Results, place: &Path) -> Result<[PathBuf; 2]> {
    let (tables, page) = (place.with_added_extension("md"), place.with_added_extension("html"));
    write(&tables, report::markdown(results).as_bytes())?;
    write(&page, report::html(results).as_bytes())?;
    Ok([tables, page])
}

/// What changed between two result files.
///
/// # Errors
/// If one of them cannot be read.
pub fn changes(a: &Path, b: &Path) -> Result<Comparison> {
    Ok(compare(&a.display().to_string(), &load(a)?, &b.display().to_string(), &load(b)?))
}

/// Writes the reports of an existing result file to `directory`, or beside it, under its name; gives their files.
///
/// # Errors
/// If the file cannot be read or is none of results, if `directory` is a file, or if the reports cannot be written.
pub fn report_again(file: &Path, directory: Option<&Path>) -> Result<[PathBuf; 2]> {
    // Said first, whatever the file is.
    if let Some(path) = directory.filter(|path| path.exists() && !path.is_dir()) {
        return Err(Error::usage(format!("--output: {} is a file; expected a directory", path.display())));
    }
    let results = load(file)?;
    let beside = file.with_extension("");
    let place = match (directory, beside.file_name()) {
        (Some(directory), Some(name)) => directory.join(name),
        _ => beside,
    };
    write_reports(&results, &place)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A result file of the repository.
    const STORED: &str = "2026-11-23-021526-2ddfb666f237";

    #[test]
    fn reports_are_made_from_the_result_file_alone() {
        let dir = std::env::temp_dir().join(format!("spica-report-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../bench/results/{STORED}.json"));

        let far = dir.join("made/here");
        report_again(&stored, Some(&far)).unwrap();
        assert!(!stored.with_extension("md").exists(), "the place is the user's choice");
        let tables = fs::read_to_string(far.join(format!("{STORED}.md"))).unwrap();
        assert!(tables.starts_with("# Spica against the bare board\n"), "{tables}");
        let page = fs::read_to_string(far.join(format!("{STORED}.html"))).unwrap();
        assert!(page.starts_with("<!DOCTYPE html>\n"), "{page}");

        // By default they are beside the file.
        let file = dir.join("a.b.json");
        fs::copy(&stored, &file).unwrap();
        report_again(&file, None).unwrap();
        assert_eq!(fs::read_to_string(dir.join("a.b.md")).unwrap(), tables);
        assert_eq!(fs::read_to_string(dir.join("a.b.html")).unwrap(), page);
        fs::remove_dir_all(&dir).unwrap();
    }
}
