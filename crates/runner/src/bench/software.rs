//! What a run is made with: all that must be equal for its figures to repeat.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use spica_bench::results::{Group, Run, Software};

use super::meter::Instrument;
use super::workloads::{self, Prepared};
use super::{ICOUNT_SHIFT, MEMORY, plan};
use crate::board::Board;
use crate::emulator;
use crate::error::Result;
use crate::image::Image;
use crate::needed::QEMU;
use crate::prepare;
use crate::process;
use crate::project::{Project, fingerprint, read};

/// The parameter that says whether traps and other events were counted.
pub const EVENTS: &str = "events";
/// Its value if so.
pub const COUNTED: &str = "counted";
/// The parameter that says, if it is there, that time was modelled, and with what.
pub const CYCLES: &str = "cycles";

/// What is here now.
///
/// # Errors
/// If QEMU is missing, or Spica cannot be built.
pub fn describe(
    project: &Project,
    suites: &BTreeMap<Group, Prepared>,
    boards: &[&'static Board],
    native_only: bool,
    instrument: Option<&Instrument>,
) -> Result<Run> {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        process::output(command.arg("-C").arg(project.root()).args(arguments), "cannot ask git").ok()
    };
    let commit = git(&["rev-parse", "HEAD"]).map_or_else(|| "unknown".into(), |c| c.trim().to_string());
    // Without git nobody knows; so it counts as changed.
    let dirty = git(&["status", "--porcelain"]).is_none_or(|s| !s.trim().is_empty());
    let qemu = match instrument {
        Some(Instrument::Clock(tools)) => tools.emulator.version.clone(),
        _ => emulator::version(QEMU.as_ref())?,
    };

    let guest = prepare::fetch(project, false)?;
    let mut packages = BTreeMap::new();
    let mut kernel = String::new();
    let of_workloads = suites.values().flat_map(|s| s.packages.iter().cloned());
    for package in guest.packages.into_iter().chain(of_workloads) {
        if package.name.starts_with("linux-image-") {
            kernel = format!("{} {}", package.name, package.version);
        } else {
            packages.insert(package.name, package.version);
        }
    }
    let software = Software { kernel, packages };
    let mut parameters = BTreeMap::new();
    if !suites.is_empty() {
        let named = |(name, value): &(&str, &str)| (format!("linux.{name}"), value.to_string());
        parameters.extend(workloads::PARAMETERS.iter().map(named));
    }
    parameters.insert("guest.memory".into(), MEMORY.into());
    // Counting is done with programs of its own in the guest: see `counts`.
    let events = matches!(instrument, Some(Instrument::Counter(_)));
    parameters.insert(EVENTS.into(), if events { COUNTED } else { "not counted" }.into());
    if let Some(Instrument::Clock(tools)) = instrument {
        let packages = tools.emulator.packages()?;
        let packages: Vec<_> = packages.iter().map(|p| format!("{} sha256:{}", p.name, p.sha256)).collect();
        let of = if packages.is_empty() { "this machine's own QEMU".into() } else { packages.join(", ") };
        parameters.insert(CYCLES.into(), of);
    }
    if !native_only {
        let image = read(&prepare::board_image(project, Image::Shipped)?)?;
        parameters.insert("spica.image".into(), format!("sha256:{}", fingerprint(&[&image])));
    }
    Ok(Run {
        commit,
        dirty,
        date: date(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())),
        qemu,
        icount_shift: ICOUNT_SHIFT,
        boards: boards.iter().map(|b| (plan::results_board(b), software.clone())).collect(),
        parameters,
    })
}

/// The name of the result file of a run that begins now: `2026-01-02-030405-0123456789ab.json`.
#[must_use]
pub fn file_name(run: &Run) -> String {
    let date = run.date.replace('T', "-").replace([':', 'Z'], "");
    let commit = run.commit.get(..12).unwrap_or(&run.commit);
    let changed = if run.dirty { "-changed" } else { "" };
    format!("{date}-{commit}{changed}.json")
}

/// Seconds since 1970 as `YYYY-MM-DDTHH:MM:SSZ`.
fn date(seconds: u64) -> String {
    let (mut days, rest) = (seconds / 86_400, seconds % 86_400);
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 0;
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", month + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(date(1_767_225_599), "2025-12-31T23:59:59Z");
        assert_eq!(date(1_767_225_600), "2026-01-01T00:00:00Z");
    }

    #[test]
    fn file_names() {
        let run = Run {
            commit: "0123456789abcdef".into(),
            dirty: true,
            date: date(1_767_323_045),
            qemu: String::new(),
            icount_shift: 1,
            boards: [].into(),
            parameters: [].into(),
        };
        assert_eq!(file_name(&run), "2026-01-02-030405-0123456789ab-changed.json");
    }
}
