//! The boot workloads: from reset to the first process, and to a shell.
//!
//! The guest's `/init` is replaced by a [`marker`], which goes on as what was `/init`; that one mounts what
//! every Linux has, and its shell starts a second marker. The counts are of all instructions that the board executed
//! from its first one: the boot loader's few that QEMU puts there, the kernel's decompressor, and with Spica its own
//! start and the copying of the guest into its memory.

use spica_bench::results::Group;

use super::counts::Stop;
use super::debugger::Debugger;
use super::marker::{self, Marker};
use super::meter::Meter;
use super::plan::Item;
use super::{Context, Said, Side};
use crate::board::Board;
use crate::error::Result;
use crate::initramfs::Overlay;
use crate::prepare;
use crate::project::read;

/// To the first instruction of the first process.
const INIT: &str = "init";
/// To the first instruction of the first program that a shell starts.
const SHELL: &str = "shell";

/// Where the boot workloads end.
const MARKERS: [(&str, Marker); 2] = [(INIT, marker::INIT), (SHELL, marker::SHELL)];

/// The boot workloads.
#[must_use]
pub fn items() -> Vec<Item> {
    [INIT, SHELL]
        .into_iter()
        .map(|name| Item {
            group: Group::Boot,
            name: name.into(),
            unit: "boot".into(),
            source: "Debian's kernel and busybox; marker programs of our own".into(),
            quick: true,
        })
        .collect()
}

/// Boots once. What it says goes to `said`.
///
/// # Errors
/// If the guest does not get to the end.
pub(super) fn run(context: &Context<'_>, board: &'static Board, side: Side, said: &mut Said<'_>) -> Result<()> {
    let mut request = super::request(board, side, Group::Boot);
    request.kernel.clone_from(&context.kernel);
    overlay(context, &mut request.overlay)?;
    let run = prepare::prepare(context.project, &request)?;
    let log = context.log(board, side, "boot")?;
    let meter = Meter::new(context, &run, side, &log, None)?;
    let mut debugger = Debugger::start(&run, meter.as_ref().map(Meter::plugin), Some(&log), context.verbose)?;
    let stop = |marker, executed| match &meter {
        Some(meter) => Ok(Some(Stop { marker, executed, counts: meter.read()? })),
        None => Ok(None),
    };
    let reset = stop(marker::RESET, 0)?;
    for (name, marker) in MARKERS {
        let count = debugger.run_to(marker.address(), context.stall(side));
        said.spica.append(&mut debugger.spica);
        let count = count?;
        (said.found)(name, Ok(count as f64));
        if let (Some(reset), Some(here)) = (&reset, stop(marker::BEHIND, count)?) {
            said.stops.insert(name.into(), vec![reset.clone(), here]);
        }
    }
    Ok(())
}

/// Lays the markers over a guest.
fn overlay(context: &Context<'_>, overlay: &mut Overlay) -> Result<()> {
    let init = read(&context.project.source("guests/debian/init"))?;
    overlay.file("init", 0o755, &marker::INIT.program("/spica/init"));
    overlay.file("spica/init", 0o755, &init);
    overlay.file("spica/token", 0o600, b"bench");
    overlay.file("spica/command", 0o700, b"/spica/shell\n");
    overlay.file("spica/shell", 0o755, &marker::SHELL.program(""));
    Ok(())
}
