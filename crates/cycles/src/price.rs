//! What each count costs in cycles, and how we know.
//!
//! Manuals state few of these figures. One that they do not state is an estimate with a range, and whoever shows cycles
//! shows what the ranges come to. Sources that are cited, beside those of [`crate::core`]: the Cortex-A8 TRM §16.4 and
//! its Table 16-16 (8 cycles and up for a load that misses, 24 for a walk whose tables are in the L2 cache, 13 for a
//! flow change that was not predicted); H&P §2.6 (an L1 miss of a Cortex-A8 at 1 GHz takes 11 cycles, one of the L2
//! 60); 7-cpu (a Cortex-A9 at 1.2 GHz: 19 cycles for the L2, 7 for a micro TLB miss, 7 more for a main one, 110 ns for
//! memory); TI (Texas Instruments' performance guides of Processor SDK Linux, 09.01: `lat_mem_rd` of an AM335x, a
//! Cortex-A8, and an AM437x, a Cortex-A9, both at 1 GHz).

use std::fmt;
use std::ops::{Add, Mul};

use crate::core::Core;
use crate::counts::{Count, Counts, Part};

/// A quantity that is known within limits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Range {
    /// The least that it may be.
    pub low: f64,
    /// The value to use where one is needed.
    pub mid: f64,
    /// The most that it may be.
    pub high: f64,
}

impl Range {
    /// A range.
    #[must_use]
    pub const fn new(low: f64, mid: f64, high: f64) -> Range {
        Range { low, mid, high }
    }

    /// Something known exactly.
    #[must_use]
    pub const fn exactly(value: f64) -> Range {
        Range { low: value, mid: value, high: value }
    }
}

/// Low with low, middle with middle, high with high.
impl Add for Range {
    type Output = Range;

    fn add(self, other: Range) -> Range {
        Range { low: self.low + other.low, mid: self.mid + other.mid, high: self.high + other.high }
    }
}

/// Low with low, middle with middle, high with high: what two quantities that are not negative allow.
impl Mul for Range {
    type Output = Range;

    fn mul(self, other: Range) -> Range {
        Range { low: self.low * other.low, mid: self.mid * other.mid, high: self.high * other.high }
    }
}

impl Mul<f64> for Range {
    type Output = Range;

    fn mul(self, factor: f64) -> Range {
        self * Range::exactly(factor)
    }
}

/// How a figure is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A manual states it, there.
    Manual(&'static str),
    /// Somebody measured and published it, there.
    Published(&'static str),
    /// Our own measurement gives it.
    Measured,
    /// Nobody states it: a guess, for this reason.
    Estimate(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Manual(at) | Source::Published(at) => f.write_str(at),
            Source::Measured => f.write_str("measured"),
            Source::Estimate(why) => write!(f, "estimate: {why}"),
        }
    }
}

/// What one of a count costs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Price {
    /// Cycles.
    pub cycles: Range,
    /// How the middle value is known; what the ends are from, it says as well.
    pub source: Source,
}

const fn price(low: f64, mid: f64, high: f64, source: Source) -> Price {
    Price { cycles: Range::new(low, mid, high), source }
}

const NOTHING: Price = price(0.0, 0.0, 0.0, Source::Measured);

/// What one of a count costs on a core.
#[must_use]
pub const fn of(core: Core, count: Count) -> Price {
    match core {
        Core::CortexA8 => cortex_a8(count),
        Core::CortexA9 => cortex_a9(count),
    }
}

const fn cortex_a8(count: Count) -> Price {
    use Source::{Estimate, Manual, Published};
    match count {
        Count::Instructions | Count::Lost => NOTHING,
        Count::Base => price(0.9, 1.0, 1.3, Estimate("rules of TRM chapter 16, of which the model has the main ones")),
        Count::FetchOuter => {
            price(8.0, 11.0, 20.0, Published("H&P §2.6: 11 for an L1 miss; at least 8 by TRM Table 16-16"))
        }
        Count::LoadOuter => price(
            6.0,
            8.0,
            11.0,
            Published(
                "TRM Table 16-16: 8; TI: 6 to 9 beyond the first cache's 3, at strides of 128 bytes; H&P §2.6: 11",
            ),
        ),
        Count::FetchMemory | Count::LoadMemory => {
            price(71.0, 110.0, 220.0, Estimate("at least 11 + 60 (H&P §2.6); TI: 180 to 220 with 16 bits of DDR3"))
        }
        Count::StoreOuter => price(0.0, 1.0, 8.0, Estimate("none unless the store buffer is full (TRM Table 16-16)")),
        Count::StoreMemory => price(
            0.0,
            6.0,
            60.0,
            Estimate("none unless the store buffer is full (TRM Table 16-16); then memory's time"),
        ),
        Count::LoadUncached => price(60.0, 100.0, 200.0, Estimate("as a line from memory")),
        Count::StoreUncached => price(1.0, 10.0, 60.0, Estimate("buffered")),
        Count::LoadDevice => price(30.0, 80.0, 200.0, Estimate("a bus at a fraction of the core's clock")),
        Count::StoreDevice => price(5.0, 20.0, 100.0, Estimate("buffered, one at a time")),
        Count::FetchMainTlb | Count::DataMainTlb => NOTHING,
        Count::FetchWalk | Count::DataWalk => {
            price(4.0, 4.0, 8.0, Manual("TRM Table 16-16: 24 with the tables in L2; 2 × 10 are its reads"))
        }
        Count::WalkInner | Count::WalkOuter => {
            price(10.0, 10.0, 14.0, Manual("TRM Table 16-16: 24 with the tables in L2, of which a read is 10"))
        }
        Count::WalkMemory => price(60.0, 100.0, 200.0, Estimate("at least H&P's 60 for an L2 miss")),
        Count::MissedDirect | Count::MissedIndirect | Count::MissedReturn => {
            price(13.0, 13.0, 13.0, Manual("TRM §16.4.1"))
        }
        Count::ExceptionEntry => {
            price(13.0, 18.0, 40.0, Estimate("at least a flow change that was not predicted, 13 (TRM §16.4.1)"))
        }
        Count::ExceptionReturn => {
            price(13.0, 18.0, 40.0, Estimate("at least a flow change that was not predicted, 13 (TRM §16.4.1)"))
        }
        Count::ModeChange => price(1.0, 7.0, 20.0, Estimate("between a plain instruction and a flush")),
        Count::Isb => price(8.0, 13.0, 30.0, Estimate("a flush of the pipeline")),
        Count::Dsb => price(5.0, 15.0, 100.0, Estimate("up to a drain of the store buffer")),
        Count::Dmb => price(1.0, 8.0, 60.0, Estimate("up to a drain of the store buffer")),
        Count::ContextWrite => price(2.0, 10.0, 60.0, Estimate("as any coprocessor write; its barriers count apart")),
        Count::CoprocessorWrite | Count::CoprocessorRead => {
            price(3.0, 12.0, 60.0, Estimate("slow next to memory: STAR §6.1 finds so without giving cycles"))
        }
        Count::TlbOperation => price(5.0, 15.0, 60.0, Estimate("the operation alone; later misses count apart")),
        Count::CacheLine => price(5.0, 15.0, 70.0, Estimate("a look-up, up to a write-back of the line")),
        Count::InstructionCacheAll => price(5.0, 60.0, 600.0, Estimate("the operation alone; refills count apart")),
        Count::PredictorFlush => price(1.0, 5.0, 30.0, Estimate("the operation alone; later misses count apart")),
        Count::PredictorWord => price(1.0, 5.0, 30.0, Estimate("as one of all predictions")),
    }
}

const fn cortex_a9(count: Count) -> Price {
    use Source::{Estimate, Published};
    match count {
        Count::Instructions | Count::Lost => NOTHING,
        Count::Base => price(0.8, 1.0, 1.4, Estimate("rules of TRM appendix B, of which the model has the main ones")),
        Count::FetchOuter => price(10.0, 19.0, 25.0, Published("7-cpu: 19 for data; what is fetched ahead hides some")),
        Count::LoadOuter => {
            price(8.0, 15.0, 19.0, Estimate("7-cpu: 19 if all depends on it, 7 to 9 a line if nothing does"))
        }
        Count::FetchMemory => price(100.0, 151.0, 200.0, Published("7-cpu: 19 and 110 ns at 1.2 GHz")),
        Count::LoadMemory => {
            price(82.0, 130.0, 151.0, Estimate("7-cpu: 19 and 110 ns if all depends on it, 68 ns if nothing does"))
        }
        Count::StoreOuter => price(0.0, 5.0, 12.0, Estimate("none to 7-cpu's 11.5 for a line in a row of stores")),
        Count::StoreMemory => price(0.0, 20.0, 82.0, Estimate("none to a line's time in a row of stores")),
        Count::LoadUncached => price(80.0, 130.0, 200.0, Estimate("as a line from memory")),
        Count::StoreUncached => price(1.0, 10.0, 80.0, Estimate("buffered")),
        Count::LoadDevice => price(30.0, 80.0, 200.0, Estimate("a bus at a fraction of the core's clock")),
        Count::StoreDevice => price(5.0, 20.0, 100.0, Estimate("buffered, one at a time")),
        Count::FetchMainTlb => price(5.0, 7.0, 9.0, Published("7-cpu: 7 for a micro TLB miss")),
        Count::DataMainTlb => {
            price(3.0, 7.0, 7.0, Published("7-cpu: 7 for a micro TLB miss; others may go on meanwhile"))
        }
        Count::FetchWalk | Count::DataWalk => {
            price(7.0, 14.0, 20.0, Published("7-cpu: 7 for each TLB, with tables in the data cache"))
        }
        Count::WalkInner => price(0.0, 1.0, 4.0, Estimate("within 7-cpu's 7 for the main TLB's miss")),
        Count::WalkOuter => price(10.0, 19.0, 25.0, Published("7-cpu: 19 for the L2")),
        Count::WalkMemory => price(100.0, 151.0, 200.0, Published("7-cpu: 19 and 110 ns at 1.2 GHz")),
        Count::MissedDirect | Count::MissedIndirect | Count::MissedReturn => {
            price(8.0, 9.0, 11.0, Estimate("8 to 11 stages to refill; the manual gives no figure"))
        }
        Count::ExceptionEntry | Count::ExceptionReturn => price(8.0, 15.0, 40.0, Estimate("at least a refill")),
        Count::ModeChange => price(1.0, 8.0, 25.0, Estimate("between a plain instruction and a flush")),
        Count::Isb => price(8.0, 12.0, 30.0, Estimate("a flush of the pipeline")),
        Count::Dsb => price(5.0, 15.0, 130.0, Estimate("up to a drain of the store buffer")),
        Count::Dmb => price(1.0, 8.0, 60.0, Estimate("up to a drain of the store buffer")),
        Count::ContextWrite => price(2.0, 10.0, 60.0, Estimate("as any coprocessor write; its barriers count apart")),
        Count::CoprocessorWrite | Count::CoprocessorRead => {
            price(3.0, 12.0, 60.0, Estimate("the manual gives no figure"))
        }
        Count::TlbOperation => price(5.0, 15.0, 60.0, Estimate("the operation alone; later misses count apart")),
        Count::CacheLine => price(5.0, 20.0, 130.0, Estimate("a look-up, up to a write-back through the outer cache")),
        Count::InstructionCacheAll => price(5.0, 60.0, 600.0, Estimate("the operation alone; refills count apart")),
        Count::PredictorFlush => price(1.0, 5.0, 30.0, Estimate("the operation alone; later misses count apart")),
        Count::PredictorWord => price(1.0, 5.0, 30.0, Estimate("as one of all predictions")),
    }
}

/// The cycles of a part of what was counted.
#[must_use]
pub fn part(core: Core, counts: &Counts, part: Part) -> Range {
    let counted = Count::ALL.iter().filter(|c| c.part() == part);
    let cycles = counted.map(|c| of(core, *c).cycles * counts.get(*c) as f64);
    cycles.fold(Range::exactly(0.0), Add::add)
}

/// The cycles of all that was counted.
#[must_use]
pub fn total(core: Core, counts: &Counts) -> Range {
    Part::ALL.into_iter().map(|p| part(core, counts, p)).fold(Range::exactly(0.0), Add::add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_price_is_a_range_with_a_source() {
        for core in Core::ALL {
            for &count in Count::ALL {
                let Price { cycles: Range { low, mid, high }, source } = of(core, count);
                assert!(0.0 <= low && low <= mid && mid <= high, "{core}: {}", count.key());
                assert!(!matches!(source, Source::Estimate(_)) || low < high, "{core}: {}", count.key());
            }
        }
    }

    #[test]
    fn a_walk_costs_what_the_manual_says() {
        // TRM Table 16-16: 24 cycles if both descriptors are in the L2 cache.
        let mut counts = Counts::default();
        counts.set(Count::DataWalk, 1);
        counts.set(Count::WalkOuter, 2);
        assert_eq!(total(Core::CortexA8, &counts).mid, 24.0);
    }

    #[test]
    fn parts_make_the_whole() {
        let mut counts = Counts::default();
        Count::ALL.iter().enumerate().for_each(|(at, c)| counts.set(*c, at as u64));
        for core in Core::ALL {
            let one_by_one: f64 = Count::ALL.iter().map(|c| of(core, *c).cycles.mid * counts.get(*c) as f64).sum();
            assert!((total(core, &counts).mid - one_by_one).abs() < 1e-6);
        }
    }
}
