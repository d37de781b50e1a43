//! From what guests said to figures.

use spica_bench::results::{Class, Finding};

use super::boots::{Boots, Kind, LONG, SHORT, SLEEPS, Said, TICKS, WAITS};
use crate::bare::{Slept, value};
use crate::bench::ICOUNT_SHIFT;
use crate::error::{Error, Result};

/// The weight of guests whose weights are equal.
const EQUAL: u32 = 100;

/// A spinner that counts for two seconds.
fn long(weight: u32, vfp: bool) -> Kind {
    Kind::Spinner { during: LONG, weight, vfp }
}

/// A spinner that counts for half a second.
fn short() -> Kind {
    Kind::Spinner { during: SHORT, weight: EQUAL, vfp: false }
}

/// Instructions in a microsecond.
pub fn per_microsecond() -> f64 {
    1000.0 / f64::from(1u32 << ICOUNT_SHIFT)
}

/// How far two spinners are from their weights, 1 : `weight`: the more of both, in per cent of what is due.
pub fn share(boots: &mut Boots<'_, '_>, weight: u32, goal: f64) -> Result<Finding> {
    let said = boots.boot(&[long(EQUAL, false), long(EQUAL * weight, false)])?;
    let rates = [said[0].rate()?, said[1].rate()?];
    let weights = [1.0, f64::from(weight)];
    let mut finding = Finding { goal: Some(goal), ..Finding::new(0.0) };
    for (rate, (own, name)) in rates.into_iter().zip(weights.into_iter().zip(["first", "second"])) {
        let (share, due) = (rate / (rates[0] + rates[1]), own / (weights[0] + weights[1]));
        finding.parts.insert(format!("share of the {name}, %"), 100.0 * share);
        finding.value = finding.value.max(100.0 * (share / due - 1.0).abs());
    }
    Ok(finding)
}

/// What a neighbour that waits, or one that ticks, costs a spinner, in per cent of what it gets done alone.
pub fn neighbour(boots: &mut Boots<'_, '_>, ticking: bool) -> Result<Finding> {
    let alone = boots.boot(&[short()])?[0].rate()?;
    let neighbour = if ticking { Kind::Sleeper(TICKS) } else { Kind::Waiter(WAITS) };
    let beside = boots.boot(&[short(), neighbour])?[0].rate()?;
    let mut finding = Finding::new(100.0 * (1.0 - beside / alone));
    finding.parts.insert("rounds/ms alone".into(), alone);
    finding.parts.insert("rounds/ms beside it".into(), beside);
    Ok(finding)
}

/// How late a sleeper hears of its ticks beside so many spinners: on average, and how that is spread, in instructions.
pub fn wake(boots: &mut Boots<'_, '_>, beside: usize) -> Result<Finding> {
    let mut kinds = vec![short(); beside];
    kinds.push(Kind::Sleeper(SLEEPS));
    let said = boots.boot(&kinds)?;
    let [period, count, _] = SLEEPS;
    let slept = Slept::read(said[beside].line("slept")?, period, count).map_err(Error::failed)?;
    let class =
        |(at, &count): (usize, &u32)| Class { below: (per_microsecond() as u64) << (at + 1), count: count.into() };
    let mut histogram: Vec<_> = slept.classes.iter().enumerate().map(class).collect();
    // The last class has no bound; what is behind the last event says nothing.
    let used = histogram.iter().rposition(|class| class.count > 0).map_or(0, |at| at + 1);
    if used == histogram.len() {
        return Err(Error::failed(format!("a tick came later than a histogram goes: {slept:?}")));
    }
    histogram.truncate(used.max(WAKE_CLASSES));
    let mut finding = Finding { histogram, ..Finding::new(slept.average * per_microsecond()) };
    finding.parts.insert("at worst".into(), slept.worst * per_microsecond());
    Ok(finding)
}

/// So many classes are shown in any case, so that histograms can be compared: up to 128 microseconds.
pub const WAKE_CLASSES: usize = 7;

/// What some spinners got.
#[derive(Clone, Copy)]
struct Work {
    rounds: f64,
    /// Ticks of the board's timer.
    ticks: f64,
    switches: f64,
}

/// From their start to their end.
fn work(said: &[Said]) -> Result<Work> {
    said.iter().try_fold(Work { rounds: 0.0, ticks: 0.0, switches: 0.0 }, |sum, said| {
        let line = said.line("all")?;
        let rounds = value(line, "rounds").ok_or_else(|| Error::failed(format!("a spinner said {line:?}")))?;
        Ok(Work {
            rounds: sum.rounds + f64::from(rounds),
            ticks: sum.ticks + said.counter("scheduler.ticks")?,
            switches: sum.switches + said.counter("scheduler.switches")?,
        })
    })
}

/// In what long ones take longer than short ones: without what happens once, when guests start and end.
fn steady(boots: &mut Boots<'_, '_>, count: usize, vfp: bool) -> Result<Work> {
    let mut of = |during| work(&boots.boot(&vec![Kind::Spinner { during, weight: EQUAL, vfp }; count])?);
    let (less, more) = (of(SHORT)?, of(LONG)?);
    Ok(Work {
        rounds: more.rounds - less.rounds,
        ticks: more.ticks - less.ticks,
        switches: more.switches - less.switches,
    })
}

/// What a switch costs among so many spinners, in instructions, all told.
pub fn switch(boots: &mut Boots<'_, '_>, count: usize, vfp: bool) -> Result<Finding> {
    let (alone, all) = (steady(boots, 1, vfp)?, steady(boots, count, vfp)?);
    let lost = all.ticks - all.rounds * alone.ticks / alone.rounds;
    let seconds = lost / boots.timer_hertz() / all.switches;
    let mut finding = Finding::new(seconds * 1e6 * per_microsecond());
    finding.parts.insert("switches".into(), all.switches);
    Ok(finding)
}

/// What so many spinners get done together in the same time, less than one alone, in per cent.
pub fn total(boots: &mut Boots<'_, '_>, count: usize) -> Result<Finding> {
    let (alone, all) = (steady(boots, 1, false)?, steady(boots, count, false)?);
    let rates = [alone, all].map(|work| work.rounds / work.ticks * boots.timer_hertz() / 1000.0);
    let mut finding = Finding::new(100.0 * (1.0 - rates[1] / rates[0]));
    finding.parts.insert("rounds/ms of all".into(), rates[1]);
    finding.parts.insert("rounds/ms of one".into(), rates[1] / count as f64);
    Ok(finding)
}
