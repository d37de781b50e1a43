//! Trap counts: one workload alone in a boot, and what Spica counted beyond a boot with none.
//!
//! Spica prints its counters once, at the end of a guest. So each workload is booted alone, and what another boot counted is
//! subtracted: for an application, a boot without any workload; for a kernel operation, which a program repeats until it has
//! taken long enough, a boot in which less time was enough. What remains is that of operations only; booting, starting the
//! program and ending it cancel out.
//!
//! How many operations that are, lmbench does not say. Two [`marker`]s around the program tell how many
//! instructions all of it took, and the difference between the two boots, divided by the instructions of one operation, is
//! the number of operations.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use spica_bench::events::Trap;
use spica_bench::results::{Events, Group};

use super::debugger::Debugger;
use super::plan::Item;
use super::{Context, Side, marker, stats, workloads};
use crate::board::Board;
use crate::error::{Error, Result};
use crate::prepare;

/// The script around the workload's own.
const SCRIPT: &[u8] = b"/spica/before\nsh /spica/workload\n/spica/behind\n";

/// What a boot counted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Count {
    traps: BTreeMap<Trap, u64>,
    /// From the first marker to the second.
    instructions: u64,
}

/// What boots without a workload counted, by board and configuration: each is made once, when it is first wanted.
#[derive(Debug, Default)]
pub struct Baselines(Mutex<BTreeMap<(&'static str, &'static str), Arc<Baseline>>>);

type Baseline = OnceLock<std::result::Result<Count, String>>;

/// How many microseconds of an operation are enough, in the shorter boot and in the longer one.
const ENOUGH: [&str; 2] = ["100000", "300000"];

/// Counts the traps of a workload of which one operation takes so many `instructions`.
///
/// # Errors
/// If a guest does not get to its end, or Spica does not count.
pub(super) fn count(
    context: &Context<'_>,
    board: &'static Board,
    side: Side,
    item: &Item,
    instructions: f64,
) -> Result<Events> {
    let (less, more, operations);
    if item.group == Group::Kernel {
        less = boot(context, board, side, Some(&item.name), ENOUGH[0])?;
        more = boot(context, board, side, Some(&item.name), ENOUGH[1])?;
        let taken = more.instructions.saturating_sub(less.instructions) as f64;
        operations = (taken / instructions).round() as u64;
    } else {
        let cell = {
            let mut all = context.baselines.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry((board.name, side.name())).or_default().clone()
        };
        let made = cell.get_or_init(|| boot(context, board, side, None, ENOUGH[0]).map_err(|e| e.to_string()));
        less = made.clone().map_err(|why| Error::failed(format!("the boot without a workload: {why}")))?;
        more = boot(context, board, side, Some(&item.name), ENOUGH[0])?;
        operations = 1;
    }
    if operations == 0 {
        return Err(Error::failed("a longer run had no more operations than a shorter one"));
    }
    Ok(Events { operations, traps: stats::beyond(&more.traps, &less.traps), ..Events::default() })
}

/// Boots with one workload or none; so many microseconds of an operation are `enough`.
fn boot(context: &Context<'_>, board: &'static Board, side: Side, name: Option<&str>, enough: &str) -> Result<Count> {
    let prepared = workloads::prepare(context.project, name.as_slice())?;
    let mut request = super::request(board, side);
    request.overlay = prepared.overlay;
    let value = |name: &str, value: &'static str| if name == "ENOUGH" { enough.to_string() } else { value.into() };
    let parameters = workloads::PARAMETERS.iter().map(|(n, v)| format!("{n}='{}'\n", value(n, v)));
    request.overlay.file("bench/parameters", 0o644, parameters.collect::<String>().as_bytes());
    request.overlay.file("spica/token", 0o600, b"bench");
    request.overlay.file("spica/command", 0o700, SCRIPT);
    request.overlay.file("spica/workload", 0o700, prepared.command.as_bytes());
    request.overlay.file("spica/before", 0o755, &marker::BEFORE.program(""));
    request.overlay.file("spica/behind", 0o755, &marker::BEHIND.program(""));
    let run = prepare::prepare(context.project, &request)?;
    let log = context.log(board, side, &format!("traps-{}-{enough}", name.unwrap_or("none")))?;
    let mut debugger = Debugger::start(&run, Some(&log), context.verbose)?;
    let before = debugger.run_to(marker::BEFORE.address(), context.stall)?;
    let behind = debugger.run_to(marker::BEHIND.address(), context.stall)?;
    let traps = stats::traps(&debugger.run_to_end(context.stall)?);
    if traps.is_empty() {
        return Err(Error::failed("this Spica does not print its counters"));
    }
    Ok(Count { traps, instructions: behind - before })
}
