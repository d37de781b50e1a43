//! How late a system for real time wakes its threads, alone on the board and beside Linux.
//!
//! The system is NuttX with its program `cyclictest`: a thread waits two thousand times for a millisecond, and looks at
//! the clock when it goes on. So a figure contains all that is between the timer and that thread: Spica's wake of the
//! guest, the guest's interrupt, and NuttX's own switch to the thread. cyclictest counts in whole microseconds, which
//! are steps of 500 instructions.
//!
//! NuttX is no package of Debian's. It is built here if its source is there (`guests/nuttx`), and is never fetched. Its
//! kernel starts cyclictest by itself, so nothing is typed and figures repeat to the digit.

use std::path::PathBuf;
use std::process::Command;

use spica_bench::results::{Class, Finding, Group};

use super::boots::Boots;
use super::figures::{WAKE_CLASSES, per_microsecond};
use crate::bench::request;
use crate::bench::watch::Flow;
use crate::bench::workloads::{Program, pack, packages};
use crate::error::{Error, Result};
use crate::guests::Source;
use crate::initramfs::Overlay;
use crate::process;
use crate::progress::Step;
use crate::project::{Project, create_dir, read, write};

/// What is on the board beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Nothing.
    Nothing,
    /// Linux, which has nothing to do.
    Idle,
    /// Linux at work.
    Work,
    /// The same, where the system for real time has ten times Linux's weight.
    Outweighed,
}

/// So much of the board's work does Linux do: processes that talk by pipes.
const HACKBENCH: Program = Program { from: "usr/bin/hackbench", to: "bench/usr/bin/hackbench" };
const PACKAGE: &str = "rt-tests";
const SCRIPT: &str = "bench/several/rtos.sh";

/// The kernel of the system for real time in the scratch directory.
const KERNEL: &str = "nuttx.elf";
/// What that kernel prints before it measures; it is up to its configuration.
const BEGINS: &str = "begins";
/// What cyclictest prints last.
const LAST: &str = "# Histogram Overflows:";

/// Where NuttX's source is looked for, and where its kernel is.
const SOURCE: &str = "nuttx-source";
const BUILT: &str = "nuttx-cyclictest";
/// How the reason begins why there is no kernel.
const ABSENT: &str = "there is no NuttX with cyclictest";

impl Beside {
    const fn has_linux(self) -> bool {
        !matches!(self, Self::Nothing)
    }

    fn manifest(self) -> String {
        let weight = if self == Self::Outweighed { "weight = 1000\n" } else { "" };
        let rtos = format!("[[guest]]\nname = \"rtos\"\nkernel = \"{KERNEL}\"\nmemory = \"64M\"\n{weight}");
        let linux = "\n[[guest]]\nname = \"linux\"\nmemory = \"96M\"\nrestart = \"never\"\n";
        if self.has_linux() { rtos + linux } else { rtos }
    }
}

/// NuttX's kernel. If its source is there, it is built unless that was done before.
///
/// # Errors
/// If there is neither source nor kernel, or if it cannot be built; the error says what helps.
pub fn kernel(project: &Project) -> Result<PathBuf> {
    let (source, built) = (project.build(SOURCE), project.build(BUILT));
    if ["nuttx/Makefile", "apps/Makefile"].iter().all(|file| source.join(file).is_file()) {
        let _step = Step::begin("building NuttX");
        let mut build = Command::new(project.source("guests/nuttx/build.sh"));
        build.arg(source).arg(built).arg(project.source("guests/nuttx/cyclictest.config"));
        return Ok(PathBuf::from(process::output(&mut build, "cannot build NuttX")?.trim()));
    }
    let kernel = built.join(KERNEL);
    if kernel.is_file() {
        return Ok(kernel);
    }
    Err(Error::failed(format!("{ABSENT}; the head of guests/nuttx/build.sh says how to build it")))
}

/// How late the system for real time wakes its thread: on average, and how that is spread, in instructions.
pub fn late(boots: &mut Boots<'_, '_>, beside: Beside) -> Result<Finding> {
    let project = boots.context.project;
    let kernel = boots.context.nuttx.as_deref().ok_or_else(|| Error::failed(ABSENT))?;
    let name = format!("rtos-{beside:?}").to_lowercase();
    let scratch = boots.scratch.join(&name);
    create_dir(&scratch)?;
    write(&scratch.join(KERNEL), &read(kernel)?)?;
    write(&scratch.join("guests.toml"), beside.manifest().as_bytes())?;
    let mut request = request(boots.job.board, boots.job.side, Group::Several);
    request.guests = Some(Source::Manifest(scratch.join("guests.toml")));
    request.append = String::new();
    request.memory = None;
    if beside.has_linux() {
        request.overlay = overlay(project, beside)?;
    }
    let mut said = Said::default();
    boots.watch(&request, &name, &mut |line| said.hear(line))?;
    said.finding(beside).map_err(Error::failed)
}

/// What is laid over Linux's initial RAM disk.
fn overlay(project: &Project, beside: Beside) -> Result<Overlay> {
    let mut overlay = Overlay::new();
    if beside != Beside::Idle {
        let tree = packages::fetch(project, [PACKAGE.to_string()].into())?;
        if tree.version(PACKAGE).is_none() {
            return Err(Error::failed(format!("the Debian package {PACKAGE} cannot be had")));
        }
        let mut files = pack::Files::new(&tree.root);
        files.add(&HACKBENCH)?;
        files.put("bench/work", 0o644, Vec::new());
        for (path, permissions, data) in files.finish() {
            overlay.file(&path, permissions, &data);
        }
    }
    overlay.file("spica/token", 0o600, b"bench");
    overlay.file("spica/command", 0o700, &read(&project.source(SCRIPT))?);
    Ok(overlay)
}

/// What the guests said.
#[derive(Clone, Debug, Default)]
struct Said {
    /// Of NuttX, from when it began to measure.
    rtos: Option<Vec<String>>,
    /// Linux was at work before that.
    linux: bool,
    /// What Linux got done meanwhile.
    rounds: u32,
}

impl Said {
    fn hear(&mut self, line: &str) -> Flow {
        let (guest, text) = line.split_once("| ").unwrap_or(("rtos", line));
        match (guest, &mut self.rtos) {
            // What is no line of its own may stand before it.
            ("linux", None) => self.linux |= text.contains("@bench up"),
            ("linux", Some(_)) => self.rounds += u32::from(text.contains("@bench round")),
            ("rtos", None) if text == BEGINS => self.rtos = Some(Vec::new()),
            ("rtos", Some(lines)) => {
                lines.push(text.to_string());
                if text.starts_with(LAST) {
                    return Flow::Enough;
                }
            }
            _ => {}
        }
        Flow::Continue
    }

    fn finding(&self, beside: Beside) -> std::result::Result<Finding, String> {
        let lines = self.rtos.as_deref().ok_or("NuttX did not begin to measure")?;
        if beside.has_linux() && !self.linux {
            return Err("Linux was not up when NuttX began to measure".into());
        }
        let mut finding = Woken::read(lines)?.finding();
        if matches!(beside, Beside::Work | Beside::Outweighed) {
            finding.parts.insert("rounds of hackbench meanwhile".into(), self.rounds.into());
        }
        Ok(finding)
    }
}

/// What cyclictest tells of one thread, in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Woken {
    /// How often it was woken so late.
    counts: Vec<u64>,
    /// How often it was later than that.
    beyond: u64,
    average: u64,
    worst: u64,
}

impl Woken {
    /// From the lines that cyclictest prints.
    fn read(lines: &[String]) -> std::result::Result<Self, String> {
        let value = |start: &str| {
            let rest = lines.iter().find_map(|line| line.strip_prefix(start));
            let value = rest.and_then(|rest| rest.trim().parse::<u64>().ok());
            value.ok_or_else(|| format!("cyclictest did not say `{start}`"))
        };
        let mut counts = Vec::new();
        for line in lines {
            let Some((late, count)) = line.trim().split_once(' ') else { continue };
            let (Ok(late), Ok(count)) = (late.parse::<usize>(), count.parse()) else { continue };
            if late != counts.len() {
                return Err(format!("cyclictest's histogram has {late} µs after {} classes", counts.len()));
            }
            counts.push(count);
        }
        let woken = Self {
            counts,
            beyond: value(LAST)?,
            average: value("# Avg Latencies:")?,
            worst: value("# Max Latencies:")?,
        };
        // A negative figure is printed as a large one, and counted as beyond.
        let (least, total) = (value("# Min Latencies:")?, value("# Total:")?);
        if i32::try_from(least).is_err() {
            return Err("a thread was woken before it was due".into());
        }
        if woken.counts.iter().sum::<u64>() != total || total + woken.beyond == 0 {
            return Err(format!("cyclictest's histogram is not that of {total} wakes: {:?}", woken.counts));
        }
        Ok(woken)
    }

    fn total(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.beyond
    }

    /// What so many per cent of the wakes were not later than.
    fn percentile(&self, share: u64) -> u64 {
        let mut so_far = 0;
        let at = self.counts.iter().position(|count| {
            so_far += count;
            so_far * 100 >= self.total() * share
        });
        at.map_or(self.worst, |at| at as u64)
    }

    /// cyclictest's own average is a whole number.
    fn average(&self) -> f64 {
        let sum: u64 = self.counts.iter().enumerate().map(|(late, count)| late as u64 * count).sum();
        if self.beyond == 0 { sum as f64 / self.total() as f64 } else { self.average as f64 }
    }

    /// In classes up to 2, 4, 8 … microseconds, as those of other wakes.
    fn histogram(&self) -> Vec<Class> {
        let instructions = per_microsecond() as u64;
        let class = |late: u64| late.checked_ilog2().unwrap_or(0) as usize;
        let mut counts = vec![0; WAKE_CLASSES.max(class(self.worst) + 1)];
        for (late, count) in self.counts.iter().enumerate() {
            if *count > 0 {
                counts[class(late as u64)] += count;
            }
        }
        // Of these only the last is known.
        counts[class(self.worst)] += self.beyond;
        let class = |(at, count)| Class { below: instructions << (at + 1), count };
        counts.into_iter().enumerate().map(class).collect()
    }

    fn finding(&self) -> Finding {
        let average = self.average();
        let mut finding = Finding { histogram: self.histogram(), ..Finding::new(average * per_microsecond()) };
        let mut part = |name: &str, microseconds: f64| {
            finding.parts.insert(name.into(), microseconds * per_microsecond());
            finding.parts.insert(format!("{name}, µs"), microseconds);
        };
        part("on average", average);
        part("99 % not later than", self.percentile(99) as f64);
        part("at worst", self.worst as f64);
        finding
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &[&str]) -> Said {
        let mut said = Said::default();
        let flows: Vec<_> = lines.iter().map(|line| said.hear(line)).collect();
        assert!(flows.iter().rev().skip(1).all(|flow| *flow == Flow::Continue), "{flows:?}");
        said
    }

    const HISTOGRAM: [&str; 13] = [
        "rtos| NuttShell (NSH) NuttX-13.0.0",
        "linux| @bench up",
        "rtos| begins",
        "linux| @bench round",
        "rtos| # Histogram",
        "rtos| 000000 000000",
        "rtos| 000001 000196",
        "rtos| 000002 000003",
        "rtos| # Total: 000000199",
        "rtos| # Min Latencies: 00001",
        "rtos| # Avg Latencies: 00006",
        "rtos| # Max Latencies: 01000",
        "rtos| # Histogram Overflows: 00001",
    ];

    fn with(line: usize, text: &'static str) -> std::result::Result<Finding, String> {
        let mut lines = HISTOGRAM;
        lines[line] = text;
        said(&lines).finding(Beside::Work)
    }

    #[test]
    fn a_histogram_is_read() {
        let finding = said(&HISTOGRAM).finding(Beside::Work).unwrap();
        let counts: Vec<_> = finding.histogram.iter().map(|class| class.count).collect();
        assert_eq!(counts, [196, 3, 0, 0, 0, 0, 0, 0, 0, 1], "up to 1,024 µs");
        assert_eq!(finding.histogram[0].below, 1000);
        assert_eq!(finding.value, 3000.0);
        assert_eq!(finding.parts["99 % not later than, µs"], 2.0);
        assert_eq!(finding.parts["at worst"], 500_000.0);
        assert_eq!(finding.parts["rounds of hackbench meanwhile"], 1.0);
        let alone = with(12, "rtos| # Histogram Overflows: 00000").unwrap();
        assert!((alone.value - 202.0 / 199.0 * 500.0).abs() < 1e-9, "its average is more exact than cyclictest's");
    }

    #[test]
    fn what_is_not_as_it_should_be_is_said() {
        let wrong = |line, text| with(line, text).unwrap_err();
        assert!(wrong(1, "linux| Linux boots").contains("Linux was not up"));
        assert!(wrong(2, "rtos| ends").contains("did not begin"));
        assert!(wrong(6, "rtos| [14 bytes lost]").contains("2 µs after 1 classes"));
        assert!(wrong(6, "rtos| 000001 000195").contains("not that of 199 wakes"));
        assert!(wrong(9, "rtos| # Min Latencies: 4294967295").contains("before it was due"));
        assert!(wrong(11, "rtos| nothing").contains("did not say `# Max Latencies:`"));
    }

    #[test]
    fn the_configuration_says_what_is_waited_for() {
        let config = include_str!("../../../../../guests/nuttx/cyclictest.config");
        assert!(config.contains(&format!("; echo {BEGINS}; cyclictest -c 0 ")), "{config}");
        let script = include_str!("../../../../../guests/nuttx/build.sh");
        assert!(script.contains(&format!("build/{SOURCE} build/{BUILT} guests/nuttx/cyclictest.config")));
    }

    #[test]
    fn manifests_are_accepted() {
        for beside in [Beside::Nothing, Beside::Idle, Beside::Work, Beside::Outweighed] {
            let text = beside.manifest();
            let table: toml::Table = toml::from_str(&text).unwrap();
            assert_eq!(table["guest"].as_array().unwrap().len(), 1 + usize::from(beside.has_linux()), "{text}");
        }
    }
}
