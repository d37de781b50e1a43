//! Traps and other events, and cycles, by workload.
//!
//! With `--events`, a Linux guest runs under a debugger, with QEMU counting ([`super::counter`]); with `--cycles`,
//! under the model of time ([`super::clock`]). The guest's script
//! starts [`marker`] programs around each workload; the board stops there, and what was counted since the last stop is
//! read. The markers are programs that are started, and what runs after them finds memory otherwise than without: so
//! figures of runs with `--events` are to be compared with each other only.
//!
//! An application runs once between two stops. A kernel operation is repeated by lmbench until that has taken long
//! enough, as it was for its figure, and once more for twice as long: what the last time counted beyond the one
//! before is that of operations alone, because the start of the program, its warming up and its end cancel out, and
//! what happens once only, as translation, was over before. How many operations that are, lmbench does not
//! say; it follows from the instructions of that difference and those of one operation, and is exact to about a
//! percent.
//!
//! The bare board is counted once for all configurations, and its events are scaled to the number of operations under
//! Spica.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use spica_bench::events::{Event, Trap};
use spica_bench::results::{Counted, Events, Group, Timing};

use super::counter::Counts;
use super::debugger::Debugger;
use super::marker::{self, Marker};
use crate::board::Board;

/// Where a board stopped.
#[derive(Clone, Debug)]
pub struct Stop {
    /// The marker there.
    pub marker: Marker,
    /// The instructions executed since reset.
    pub executed: u64,
    /// What was counted since then.
    pub counts: Reading,
}

/// What was counted, of either kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reading {
    /// Traps and other events.
    Events(Counts),
    /// What takes time.
    Time(Box<spica_cycles::Counts>),
}

impl Reading {
    /// What was counted since `before`, which is of the same kind.
    fn since(&self, before: &Reading) -> Reading {
        match (self, before) {
            (Reading::Events(now), Reading::Events(then)) => Reading::Events(now.since(then)),
            (Reading::Time(now), Reading::Time(then)) => Reading::Time(Box::new(now.since(then))),
            (now, _) => now.clone(),
        }
    }

    /// What was counted more than in `less`, another stretch of time, by which this one is longer.
    fn beyond(&self, less: &Reading) -> Reading {
        match (self, less) {
            (Reading::Events(more), Reading::Events(less)) => Reading::Events(more.beyond(less)),
            (more, less) => more.since(less),
        }
    }
}

/// What stands beside the figures of a workload.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Beside {
    /// Traps and other events, if they were counted.
    pub events: Option<Events>,
    /// The time, if it was modelled.
    pub timing: Option<Timing>,
}

/// The stops of each workload in a boot.
pub type Stops = BTreeMap<String, Vec<Stop>>;

/// What was counted for a workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    /// The operations that it covers.
    operations: u64,
    instructions: u64,
    counts: Reading,
}

/// What was counted on bare boards.
#[derive(Debug, Default)]
pub struct Natives(Mutex<BTreeMap<(&'static str, Group, String), Window>>);

impl Natives {
    /// Keeps what was counted for a workload.
    pub fn keep(&self, board: &Board, group: Group, name: &str, window: Window) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert((board.name, group, name.to_string()), window);
    }

    /// What was counted with Spica, together with what was counted without; nothing without the latter.
    pub fn with(&self, board: &Board, group: Group, name: &str, guest: &Window) -> Option<Beside> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&(board.name, group, name.to_string())).map(|native| beside(native, guest))
    }
}

/// Sees to it that the board stops at the script's markers.
pub fn prepare(debugger: &mut Debugger) -> crate::error::Result<()> {
    debugger.stop_at(&marker::IN_WORKLOADS.map(Marker::address))
}

/// What belongs to the operations of the workload of this name, one of which takes so many `instructions`.
///
/// # Errors
/// Why that cannot be said.
pub fn window(group: Group, name: &str, stops: &[Stop], instructions: f64) -> Result<Window, String> {
    let markers: Vec<_> = stops.iter().map(|s| s.marker).collect();
    let expected: &[Marker] = match group {
        Group::Kernel | Group::Cliff | Group::Probes => &[marker::BEFORE, marker::MIDDLE, marker::BEHIND],
        Group::Boot => &[marker::RESET, marker::BEHIND],
        Group::Application | Group::Machine | Group::Several | Group::Latency => &[marker::BEFORE, marker::BEHIND],
    };
    if markers != expected {
        return Err(format!("it did not get from its beginning to its end: {} stops", stops.len()));
    }
    let between = |before: &Stop, behind: &Stop| {
        let instructions = behind.executed.saturating_sub(before.executed);
        Window { operations: 1, instructions, counts: behind.counts.since(&before.counts) }
    };
    let last = between(&stops[stops.len() - 2], &stops[stops.len() - 1]);
    if !group.is_repeated() {
        return Ok(last);
    }
    let first = between(&stops[0], &stops[1]);
    let more = last.instructions.saturating_sub(first.instructions);
    if let Some(probe) = spica_probes::find(name) {
        // How many more they are the second time, is known: what else happened to be executed are no operations.
        let counts = last.counts.beyond(&first.counts);
        return Ok(Window { operations: probe.kind.operations().into(), instructions: more, counts });
    }
    let operations = |n: u64| (n as f64 / instructions).round() as u64;
    // The second time is to be twice the first. Where one operation takes longer than is enough, or lmbench comes to
    // the same number of repetitions again, what it is longer by is no operation: all of it counts then.
    if operations(more) >= 5 && more >= last.instructions / 4 {
        let counts = last.counts.beyond(&first.counts);
        return Ok(Window { operations: operations(more), instructions: more, counts });
    }
    match operations(last.instructions) {
        0 => Err("the time was too short for one operation".into()),
        operations => Ok(Window { operations, ..last }),
    }
}

fn beside(native: &Window, guest: &Window) -> Beside {
    match (&native.counts, &guest.counts) {
        (Reading::Events(bare), Reading::Events(counts)) => {
            let scale = guest.operations as f64 / native.operations as f64;
            Beside { events: Some(events(bare, scale, counts, guest.operations)), ..Beside::default() }
        }
        (Reading::Time(bare), Reading::Time(counts)) => {
            let native = Counted::new(native.operations, bare);
            let virtualised = Counted::new(guest.operations, counts);
            Beside { timing: Some(Timing { native, virtualised }), ..Beside::default() }
        }
        _ => Beside::default(),
    }
}

fn events(native: &Counts, scale: f64, guest: &Counts, operations: u64) -> Events {
    let native_count = |event| (native.event(event) as f64 * scale).round() as u64;
    // What nobody counts; the model works with assumptions for it.
    let counted = || Event::ALL.iter().copied().filter(|e| *e != Event::TlbMiss);
    Events {
        operations,
        traps: Trap::ALL.iter().map(|t| (t.key().to_string(), guest.trap(*t))).filter(|(_, n)| *n > 0).collect(),
        native: counted().map(|e| (e.key().to_string(), native_count(e))).collect(),
        virtualised: counted().map(|e| (e.key().to_string(), guest.event(e))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(marker: Marker, executed: u64, calls: u64) -> Stop {
        Stop { marker, executed, counts: Reading::Events(Counts::from_fn(|_| calls)) }
    }

    fn mmio(window: &Window) -> u64 {
        match &window.counts {
            Reading::Events(counts) => counts.trap(Trap::Mmio),
            Reading::Time(_) => panic!("events were counted"),
        }
    }

    #[test]
    fn time_is_of_each_sides_own_operations() {
        let window = |operations, cycles| {
            let mut counts = spica_cycles::Counts::default();
            counts.set(spica_cycles::Count::Base, cycles);
            Window { operations, instructions: 1, counts: Reading::Time(Box::new(counts)) }
        };
        let timing = beside(&window(10, 1000), &window(20, 5000)).timing.unwrap();
        assert_eq!((timing.native.operations, timing.virtualised.operations), (10, 20));
        let mut ratio = timing.ratio(spica_cycles::Core::CortexA8);
        ratio.mid -= 2.5;
        assert!(ratio.mid.abs() < 1e-9);
    }

    #[test]
    fn operations_are_what_the_longer_time_has_more() {
        // Start and end take 1000 instructions and 7 events; an operation 100 and 2.
        let at = [0, 1000 + 100 * 100, 2 * 1000 + 400 * 100];
        let calls = [0, 7 + 200, 2 * 7 + 800];
        let markers = [marker::BEFORE, marker::MIDDLE, marker::BEHIND];
        let stops: Vec<_> = (0..3).map(|i| stop(markers[i], at[i], calls[i])).collect();
        let more = window(Group::Kernel, "null", &stops, 100.0).unwrap();
        assert_eq!((more.operations, mmio(&more)), (200, 400));
        // An operation that takes longer than either time: nothing is left of the difference.
        let long: Vec<_> = (0..3).map(|i| stop(markers[i], 20_000 * i as u64, 50 * i as u64)).collect();
        let all = window(Group::Kernel, "null", &long, 9000.0).unwrap();
        assert_eq!((all.operations, mmio(&all)), (2, 50));
        // The same number of repetitions twice, the second time with something else in between.
        let same = [stop(markers[0], 0, 0), stop(markers[1], 20_000, 300), stop(markers[2], 40_700, 590)];
        let all = window(Group::Kernel, "null", &same, 100.0).unwrap();
        assert_eq!((all.operations, mmio(&all)), (207, 290));
        // A probe's are known, whatever it takes to be made ready.
        let name = "probe-load-32-8m";
        let probe = window(Group::Probes, name, &long, 9000.0).unwrap();
        assert_eq!((probe.operations, mmio(&probe)), (1 << 20, 0));
        let short = [stop(markers[0], 0, 0), stop(markers[1], 90_000, 900), stop(markers[2], 190_000, 1900)];
        assert_eq!(mmio(&window(Group::Probes, name, &short, 1.0).unwrap()), 100);
        assert!(window(Group::Kernel, "null", &stops[..2], 100.0).unwrap_err().contains("2 stops"));
        assert!(window(Group::Application, "gzip", &stops, 100.0).is_err());
    }

    #[test]
    fn the_bare_board_is_scaled() {
        let window = |operations, calls| {
            let counts = stop(marker::BEFORE, 0, calls).counts;
            Window { operations, instructions: 1, counts }
        };
        let board = crate::bench::plan::select_boards(&["cubieboard".into()]).unwrap()[0];
        let natives = Natives::default();
        assert_eq!(natives.with(board, Group::Kernel, "null", &window(4, 8)), None);
        natives.keep(board, Group::Kernel, "null", window(10, 30));
        let events = natives.with(board, Group::Kernel, "null", &window(4, 8)).unwrap().events.unwrap();
        assert_eq!(events.operations, 4);
        assert_eq!((events.native["dacr-write"], events.virtualised["dacr-write"]), (12, 8));
        assert_eq!(events.traps["mmio"], 8);
        assert!(!events.native.contains_key("tlb-miss"));
    }
}
