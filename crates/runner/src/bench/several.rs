//! Several guests at once: what they get of the core, how late they wake, what bytes cost that they move, and what all
//! of it costs.
//!
//! Most guests are bare-metal ones ([`crate::bare`]): spinners, which count what they get done by their own clock, and
//! a sleeper, which looks how late it hears of each tick of its timer. Each workload has boots of its own, of two
//! emulated seconds at most. They come to their end by themselves, so nothing is typed and everything repeats to the
//! digit.
//!
//! What a switch costs is taken from what spinners do *not* get done: the board's ticks that all of them used, less
//! those that their rounds take when there is only one guest, divided by the number of switches, which Spica counts. It
//! is all that a switch costs in instructions; what it does to caches and TLBs, QEMU does not have.

mod boots;
mod devices;
mod figures;
pub mod late;
mod rtos;

use spica_bench::results::{Finding, Group};

use super::plan::{Item, Job};
use super::{Context, Said, Side};
use crate::error::Result;
use boots::Boots;
use rtos::Beside;
pub use rtos::kernel as nuttx;

/// What is found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// How far two spinners are from their weights, which are 1 : this.
    Share(u32),
    /// What a guest that waits costs a spinner.
    Idle,
    /// The same, if its timer wakes it 250 times a second.
    Ticking,
    /// How late a sleeper hears of its timer beside so many spinners.
    Wake(usize),
    /// What a switch costs among so many spinners, which use VFP or not.
    Switch(usize, bool),
    /// What so many spinners get done.
    Total(usize),
    /// What a byte from one guest to another costs.
    Network,
    /// What a byte on a disk costs, in a job of `bench/several/disk.sh`.
    Disk(&'static str),
    /// How late a system for real time wakes a thread beside this.
    Rtos(Beside),
}

/// What two spinners may be off their weights, in per cent.
const SHARE_GOAL: f64 = 2.0;
/// What an idle guest may cost, in per cent.
const IDLE_GOAL: f64 = 0.5;

/// Everything: its name, and whether it belongs to the quick subset.
const ALL: &[(&str, What, bool)] = &[
    ("share-1-1", What::Share(1), false),
    ("share-1-2", What::Share(2), true),
    ("share-1-4", What::Share(4), false),
    ("idle-neighbour", What::Idle, true),
    ("ticking-neighbour", What::Ticking, false),
    ("wake-alone", What::Wake(0), false),
    ("wake-beside-1", What::Wake(1), true),
    ("wake-beside-3", What::Wake(3), false),
    ("switch-2", What::Switch(2, false), false),
    ("switch-4", What::Switch(4, false), false),
    ("switch-8", What::Switch(8, false), false),
    ("switch-2-vfp", What::Switch(2, true), false),
    ("total-1", What::Total(1), false),
    ("total-2", What::Total(2), false),
    ("total-4", What::Total(4), false),
    ("total-8", What::Total(8), false),
    ("network-tcp", What::Network, false),
    ("disk-read-4k", What::Disk("read-4k"), false),
    ("disk-write-4k", What::Disk("write-4k"), false),
    ("disk-read-64k", What::Disk("read-64k"), false),
    ("disk-write-64k", What::Disk("write-64k"), false),
    ("rtos-alone", What::Rtos(Beside::Nothing), false),
    ("rtos-beside-linux", What::Rtos(Beside::Idle), false),
    ("rtos-beside-work", What::Rtos(Beside::Work), false),
    ("rtos-beside-work-10", What::Rtos(Beside::Outweighed), false),
];

impl What {
    fn unit(self) -> &'static str {
        match self {
            Self::Share(_) => "% off the weight",
            Self::Idle | Self::Ticking => "% of the core",
            Self::Wake(_) => "instructions from due to delivery",
            Self::Switch(..) => "instructions a switch",
            Self::Total(_) => "% of the work of one guest lost",
            Self::Network | Self::Disk(_) => "instructions a byte",
            Self::Rtos(_) => "instructions from due to a thread",
        }
    }

    fn source(self) -> &'static str {
        match self {
            Self::Share(_) => "two guests that spin",
            Self::Idle => "a guest that spins, one that waits",
            Self::Ticking => "a guest that spins, one with a timer of 250 Hz",
            Self::Wake(_) => "a guest that waits for its timer of 250 Hz",
            Self::Switch(_, false) | Self::Total(_) => "guests that spin",
            Self::Switch(_, true) => "guests that spin and use VFP",
            Self::Network => "two of Debian's kernel, Debian's iperf3",
            Self::Disk(_) => "one of Debian's kernel with a copy-on-write disk, Debian's fio",
            Self::Rtos(Beside::Nothing) => "NuttX's cyclictest, a thread of 1,000 Hz",
            Self::Rtos(Beside::Idle) => "NuttX's cyclictest, and a Linux guest that waits",
            Self::Rtos(Beside::Work) => "NuttX's cyclictest, and a Linux guest with hackbench, tar and gzip",
            Self::Rtos(Beside::Outweighed) => "the same, NuttX with ten times Linux's weight",
        }
    }

    fn find(self, boots: &mut Boots<'_, '_>) -> Result<Finding> {
        match self {
            Self::Share(weight) => figures::share(boots, weight, SHARE_GOAL),
            Self::Idle => figures::neighbour(boots, false).map(|f| Finding { goal: Some(IDLE_GOAL), ..f }),
            Self::Ticking => figures::neighbour(boots, true),
            Self::Wake(beside) => figures::wake(boots, beside),
            Self::Switch(count, vfp) => figures::switch(boots, count, vfp),
            Self::Total(count) => figures::total(boots, count),
            Self::Network => devices::network(boots),
            Self::Disk(job) => devices::disk(boots, job),
            Self::Rtos(beside) => rtos::late(boots, beside),
        }
    }
}

/// The workloads among `items` that run NuttX.
pub fn with_nuttx(items: &[Item]) -> Vec<Item> {
    let runs = |item: &&Item| {
        let what = ALL.iter().find(|(name, ..)| item.group == Group::Several && item.name == *name);
        matches!(what, Some((_, What::Rtos(_), _)))
    };
    items.iter().filter(runs).cloned().collect()
}

/// The workloads.
#[must_use]
pub fn items() -> Vec<Item> {
    let item = |(name, what, quick): &(&str, What, bool)| Item {
        group: Group::Several,
        name: (*name).into(),
        unit: what.unit().into(),
        source: what.source().into(),
        quick: *quick,
    };
    ALL.iter().map(item).collect()
}

/// Boots what the job's items need. What is found goes to `said`.
///
/// # Errors
/// If the console's file cannot be made.
pub(super) fn run(context: &Context<'_>, job: &Job, said: &mut Said<'_>) -> Result<()> {
    let find = |name: &str, boots: &mut Boots<'_, '_>| {
        let (_, what, _) = ALL.iter().find(|(known, ..)| *known == name).expect("a workload of this group");
        what.find(boots)
    };
    each(context, job, said, find)
}

/// Finds out about each of the job's items.
fn each(
    context: &Context<'_>,
    job: &Job,
    said: &mut Said<'_>,
    mut find: impl FnMut(&str, &mut Boots<'_, '_>) -> Result<Finding>,
) -> Result<()> {
    let Side::Spica(configuration) = job.side else { return Ok(()) };
    let scratch = context.project.build(&format!(
        "bench/{}/{}-{}-{}",
        job.group,
        std::process::id(),
        job.board.name,
        configuration.name
    ));
    let log = context.log(job.board, job.side, job.group.name())?;
    let mut boots = Boots::new(context, job, &scratch, &log, said.spica);
    for name in job.items.iter().map(|item| item.name.as_str()) {
        // Each has boots of its own: what fails is missing, and the others are not.
        match find(name, &mut boots) {
            Ok(finding) => (said.single)(name, finding),
            Err(error) => (said.found)(name, Err(error.to_string())),
        }
    }
    let _ = std::fs::remove_dir_all(&scratch);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_workloads_run_nuttx() {
        let names: Vec<_> = with_nuttx(&items()).into_iter().map(|item| item.name).collect();
        assert_eq!(names, ["rtos-alone", "rtos-beside-linux", "rtos-beside-work", "rtos-beside-work-10"]);
    }
}
