//! What each event costs, in cycles, on the two cores, and how we know.
//!
//! The technical reference manuals say little about what privileged operations cost, and the Cortex-A9's next to
//! nothing. Each figure therefore carries its [`Source`], and most are estimates with a wide range: better an honest
//! range than a precise guess. Costs are *beyond* the instruction's own share of the base CPI.
//!
//! Sources that are cited:
//! * Cortex-A8 TRM: ARM DDI 0344, chapter 5 (program flow prediction) and 16 (instruction cycle timing);
//! * H&P: J. Hennessy, D. Patterson, Computer Architecture: A Quantitative Approach, 5th edition, sections 2.6 and
//!   3.13;
//! * 7-cpu: the measurements of a Cortex-A9 (Exynos 4210, 1.2 GHz) published at 7-cpu.com;
//! * STAR: the paper's §6.1, which finds coprocessor registers slow on a Cortex-A8, but gives no cycles.

use crate::events::Event;
use crate::results::Board;

pub use spica_cycles::Core;
pub use spica_cycles::price::{Range, Source};

/// The core of a board.
impl From<Board> for Core {
    fn from(board: Board) -> Core {
        match board {
            Board::Cubieboard => Core::CortexA8,
            Board::VexpressA9 => Core::CortexA9,
        }
    }
}

/// A cost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cost {
    /// Cycles per event, or per instruction.
    pub cycles: Range,
    /// How its middle value is known.
    pub source: Source,
    /// How its ends are known, if otherwise than the middle.
    pub ends: Option<Source>,
}

impl Cost {
    const fn estimate(low: f64, mid: f64, high: f64, why: &'static str) -> Cost {
        Cost { cycles: Range::new(low, mid, high), source: Source::Estimate(why), ends: None }
    }
}

/// Cycles per instruction, without any of the events.
#[must_use]
pub const fn base_cpi(core: Core) -> Cost {
    match core {
        Core::CortexA8 => Cost::estimate(
            1.0,
            1.5,
            2.5,
            "two instructions a cycle at best, which pipeline stalls keep far away (H&P §3.13); kernel code has more \
             misses than the benchmarks there",
        ),
        Core::CortexA9 => Cost::estimate(
            0.8,
            1.2,
            2.0,
            "the Cortex-A8’s divided by 1.28, by which the Cortex-A9 is faster at the same clock on average (H&P §3.13, \
             Figure 3.40)",
        ),
    }
}

const FLOW_CHANGE: &str =
    "at least one flow change that was not predicted, 13 cycles (Cortex-A8 TRM §16.4.1); the most is a guess";
const REFILL_A9: &str = "about 8 to 11 stages to refill, and the manual gives no figure";

/// What an event costs on a core.
#[must_use]
pub const fn cost(core: Core, event: Event) -> Cost {
    use Core::{CortexA8, CortexA9};
    use Event::*;
    match (core, event) {
        (CortexA8, ExceptionEntry) => Cost {
            cycles: Range::new(13.0, 26.0, 60.0),
            source: Source::Estimate("a pipeline flush to the vector and another for the branch there"),
            ends: Some(Source::Estimate(FLOW_CHANGE)),
        },
        (CortexA9, ExceptionEntry) => Cost::estimate(8.0, 20.0, 60.0, REFILL_A9),
        (CortexA8, ExceptionReturn) => Cost {
            cycles: Range::new(13.0, 20.0, 50.0),
            source: Source::Estimate("a flow change that nothing predicts, and the change of mode"),
            ends: Some(Source::Estimate(FLOW_CHANGE)),
        },
        (CortexA9, ExceptionReturn) => Cost::estimate(8.0, 16.0, 50.0, REFILL_A9),
        (CortexA8, ModeSwitch) => Cost::estimate(1.0, 7.0, 20.0, "between a plain instruction and a partial flush"),
        (CortexA9, ModeSwitch) => Cost::estimate(1.0, 8.0, 25.0, "between a plain instruction and a flush"),
        (_, TtbrWrite | AsidWrite | DacrWrite) => {
            Cost::estimate(2.0, 15.0, 60.0, "as any coprocessor write; its barriers count by themselves")
        }
        (CortexA8, TlbMiss) => Cost {
            cycles: Range::new(24.0, 24.0, 144.0),
            source: Source::Manual("Cortex-A8 TRM §16.4.2, Table 16-16: 24 cycles if the tables are in the L2 cache"),
            ends: Some(Source::Published(
                "24 plus two L2 misses of 60 cycles, if the tables are not (H&P §2.6, Cortex-A8 at 1 GHz)",
            )),
        },
        (CortexA9, TlbMiss) => Cost {
            cycles: Range::new(7.0, 14.0, 278.0),
            source: Source::Published("7-cpu: 7 cycles for a micro TLB miss and 7 more for one of the main TLB"),
            ends: Some(Source::Published(
                "7-cpu: the micro TLB’s miss alone; both and two table reads from memory at 110 ns and 1.2 GHz",
            )),
        },
        (_, TlbFlush) => {
            Cost::estimate(5.0, 20.0, 60.0, "the operation alone; the misses that follow count by themselves")
        }
        (_, TlbFlushEntry) => {
            Cost::estimate(5.0, 15.0, 60.0, "the operation alone; the miss that follows counts by itself")
        }
        (CortexA8, DataCacheLine) => {
            Cost::estimate(5.0, 15.0, 70.0, "a look-up, up to a write-back of the line to memory")
        }
        (CortexA9, DataCacheLine) => {
            Cost::estimate(5.0, 20.0, 130.0, "a look-up, up to a write-back through the outer cache")
        }
        (_, InstructionCacheLine) => Cost::estimate(5.0, 15.0, 70.0, "a look-up; the refill comes later"),
        (CortexA8, InstructionCacheFlush) => Cost::estimate(
            50.0,
            400.0,
            4000.0,
            "refills of 8 cycles and up for the lines that are used again, of 256 to 512",
        ),
        (CortexA9, InstructionCacheFlush) => Cost::estimate(
            50.0,
            800.0,
            8000.0,
            "refills of 19 cycles and up (7-cpu) for the lines that are used again, of 1024",
        ),
        (CortexA8, BranchPredictorFlush) => Cost::estimate(
            13.0,
            130.0,
            1300.0,
            "1 to 100 branches that are mispredicted afterwards, at 13 cycles (Cortex-A8 TRM §5.1)",
        ),
        (CortexA9, BranchPredictorFlush) => {
            Cost::estimate(8.0, 90.0, 1000.0, "1 to 100 branches that are mispredicted afterwards")
        }
        (CortexA8, CoprocessorRead | CoprocessorWrite) => {
            Cost::estimate(5.0, 20.0, 60.0, "slow next to memory: STAR §6.1 finds so without giving cycles")
        }
        (CortexA9, CoprocessorRead | CoprocessorWrite) => Cost::estimate(3.0, 15.0, 60.0, "the manual gives no figure"),
        (CortexA8, IndirectBranch) => Cost {
            cycles: Range::new(0.0, 6.5, 13.0),
            source: Source::Estimate("half of them mispredicted"),
            ends: Some(Source::Manual("none or all mispredicted, at 13 cycles (Cortex-A8 TRM §5.1, §16.4.1)")),
        },
        (CortexA9, IndirectBranch) => {
            Cost::estimate(0.0, 4.5, 11.0, "none, half or all mispredicted, at 8 to 11 cycles")
        }
        (CortexA8, Barrier) => {
            Cost::estimate(5.0, 15.0, 100.0, "a flush of the pipeline, up to a drain of the write buffer")
        }
        (CortexA9, Barrier) => {
            Cost::estimate(5.0, 15.0, 130.0, "a flush of the pipeline, up to a drain of the store buffer")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cost_is_a_range_with_a_source() {
        for core in Core::ALL {
            let costs = Event::ALL.iter().map(|&e| cost(core, e)).chain([base_cpi(core)]);
            for c in costs {
                let Range { low, mid, high } = c.cycles;
                assert!(0.0 <= low && low <= mid && mid <= high, "{core}: {c:?}");
                assert!(c.source.to_string().len() > 10);
                let estimate = matches!(c.source, Source::Estimate(_));
                assert!(!estimate || low < high, "an estimate without a range: {c:?}");
            }
        }
    }

    #[test]
    fn what_the_manual_says() {
        assert_eq!(cost(Core::CortexA8, Event::TlbMiss).cycles, Range::new(24.0, 24.0, 144.0));
        assert_eq!(cost(Core::CortexA8, Event::IndirectBranch).cycles.high, 13.0);
        assert!(base_cpi(Core::CortexA9).cycles.mid < base_cpi(Core::CortexA8).cycles.mid);
    }
}
