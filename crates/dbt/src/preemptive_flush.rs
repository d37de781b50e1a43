//! When all blocks should go although the code cache has room: a *preemptive flush*, as in Dynamo (Bala, Duesterwald
//! and Banerjia, PLDI 2000).
//!
//! Blocks lie in the order in which they were first executed. While a kernel boots, or while a program runs for the
//! first time, code that is seldom executed comes to lie between code that is executed all the time, and the latter is
//! spread over more pages and lines than TLBs and caches have. After a flush, what is still executed is made anew,
//! close together. So a flush pays when the guest has come to *rest*: it executes what it has, and makes hardly any
//! blocks.
//!
//! It costs as much as making the blocks that are executed again, some 6 µs for each. So it may not come soon after
//! another one, and not if most blocks are executed: how many that may be is seen at the first rest after a flush.

/// To have fewer blocks than these beside those that are needed is no reason: they fill some 40 code pages.
const FEW: usize = 2048;
/// The same where blocks are stubs of code that runs in place, beside as many as are needed: not a code page. A TLB
/// needs an entry for each of those, and another one or two for the vCPU page around it, where code in place needs one
/// for 64 KiB.
const FEW_STUBS: usize = 128;
/// The guest is at rest when in this time,
const REST_MS: u64 = 50;
/// no more blocks than these were made: 0.4 % of the time.
const AT_REST: u64 = 32;
/// What is in use at a rest is what is needed if the last flush was no longer ago: else another program may have
/// started since.
const SOON_MS: u64 = 500;
/// Least time before the first flush, for each block that would go: hardly any of a boot's blocks is made anew. With
/// half of it, a flush comes while programs of a start still run, and Linux finds that a timer's interrupt takes long.
const US_PER_BLOCK: u64 = 150;
/// The same for the flushes behind it: if all of the blocks had to be made anew, that would be 0.5 % of the time. Most
/// of them are where one program comes after the other, for each executes much of the kernel's code when it starts.
const US_PER_BLOCK_AGAIN: u64 = 1200;
/// The same where blocks are stubs, of which few are made again as a rule: what a program that starts needs of them, it
/// does not need at rest. If all were, that would be 1 % of the time.
const US_PER_STUB_AGAIN: u64 = 600;
/// Between two looks, the guest has run for so long at most: others run, too.
const MOST_MS: u64 = 8;

/// See the module's text. All times are in ticks of the host's timer.
#[derive(Clone, Debug, Default)]
pub struct PreemptiveFlush {
    /// When it was last asked.
    asked: u64,
    /// How long the guest has run since the last flush, about.
    ran: u64,
    /// How long it had when the present rest, if it is one, began.
    rest_since: u64,
    /// Blocks that had ever been made then.
    made: u64,
    /// Blocks that were in use at the first rest after the last flush, once it has come: 0 if that was not soon. There
    /// is none to learn from before the first flush.
    needed: Option<usize>,
    /// There was a flush.
    flushed: bool,
}

impl PreemptiveFlush {
    /// Asked now and then while the guest runs: whether all of its `in_use` blocks should go. `made` blocks were made
    /// ever, and they may be `stubs`; a millisecond has `per_ms` ticks.
    pub fn is_due(&mut self, now: u64, per_ms: u64, made: u64, (in_use, stubs): (usize, bool)) -> bool {
        self.ran += now.saturating_sub(self.asked).min(MOST_MS * per_ms);
        self.asked = now;
        if made - self.made > AT_REST {
            (self.made, self.rest_since) = (made, self.ran);
        }
        if self.ran - self.rest_since < REST_MS * per_ms {
            return false;
        }
        if self.flushed && self.needed.is_none() {
            self.needed = Some(if self.ran < SOON_MS * per_ms { in_use } else { 0 });
        }
        let us_per_block = match (self.flushed, stubs) {
            (false, _) => US_PER_BLOCK,
            (true, false) => US_PER_BLOCK_AGAIN,
            (true, true) => US_PER_STUB_AGAIN,
        };
        let needed = self.needed.unwrap_or(0);
        let enough = if stubs { needed + FEW_STUBS } else { 2 * needed + FEW };
        in_use >= enough && self.ran >= in_use as u64 * us_per_block * per_ms / 1000
    }

    /// All blocks have gone, for whatever reason.
    pub fn flushed(&mut self) {
        (self.ran, self.rest_since, self.needed, self.flushed) = (0, 0, None, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks of a millisecond.
    const MS: u64 = 24_000;

    /// A guest that is looked at each millisecond.
    #[derive(Default)]
    struct Guest {
        flush: PreemptiveFlush,
        now: u64,
        made: u64,
        in_use: usize,
        stubs: bool,
    }

    impl Guest {
        /// Runs for so many milliseconds, and makes so many blocks in each. Whether a flush was due meanwhile, and the
        /// millisecond; the guest's blocks are gone then.
        fn run(&mut self, ms: u64, blocks: u64) -> Option<u64> {
            for n in 1..=ms {
                self.now += MS;
                self.made += blocks;
                self.in_use += blocks as usize;
                if self.flush.is_due(self.now, MS, self.made, (self.in_use, self.stubs)) {
                    self.in_use = 0;
                    self.flush.flushed();
                    return Some(n);
                }
            }
            None
        }
    }

    #[test]
    fn a_flush_is_due_at_rest_and_not_before() {
        let mut guest = Guest::default();
        assert_eq!(guest.run(2000, 5), None);
        // At rest, once that is long enough for its blocks, and as a rest: its last blocks were too few to interrupt
        // one.
        assert_eq!(guest.run(2000, 0), Some(REST_MS - 5));
        let mut guest = Guest::default();
        assert_eq!(guest.run(100, 100), None);
        assert_eq!(guest.run(2000, 0), Some(10_000 * US_PER_BLOCK / 1000 - 100));
    }

    #[test]
    fn few_blocks_stay() {
        let mut guest = Guest::default();
        assert_eq!(guest.run(10, FEW as u64 / 10), None);
        assert_eq!(guest.run(100_000, 0), None);
    }

    #[test]
    fn what_is_needed_stays() {
        let mut guest = Guest::default();
        guest.run(1000, 5);
        assert!(guest.run(1000, 0).is_some());
        // All of 4,000 blocks are made anew, and that is what the guest needs.
        assert_eq!(guest.run(40, 100), None);
        assert_eq!(guest.run(100_000, 0), None);
        // As many beside them, and some, are a reason.
        assert_eq!(guest.run(40, 100), None);
        assert_eq!(guest.run(100_000, 0), None);
        assert_eq!(guest.run(21, 100), None);
        assert_eq!(guest.run(100_000, 0), Some(REST_MS));
        // Another one may not come before so much time is over.
        assert_eq!(guest.run(100, 100), None);
        assert_eq!(guest.run(REST_MS, 0), None, "that is how many it needs");
        assert_eq!(guest.run(200, 100), None);
        assert_eq!(guest.run(100_000, 0), Some(30_000 * US_PER_BLOCK_AGAIN / 1000 - 300 - REST_MS));
    }

    /// Whatever a guest does, to make blocks anew costs no more than a 200th of its time, but for those of its start;
    /// stubs, a 100th.
    #[test]
    fn flushes_are_no_more_than_time_allows() {
        // With rests that are too short for it, and with longer ones.
        for (longer, least, stubs) in [(20, 1, false), (300, 100, false), (20, 1, true), (300, 100, true)] {
            let mut guest = Guest { stubs, ..Guest::default() };
            let (mut flushes, mut gone) = (0, 0);
            for round in 0..1000 {
                if guest.in_use == 0 {
                    // At rest at once, it seems to need nothing.
                    guest.run(REST_MS + 1, 0);
                }
                guest.run(1 + round % 7, 400);
                let before = guest.in_use as u64;
                if guest.run(60 + round % 50 * longer, 0).is_some() {
                    (flushes, gone) = (flushes + 1, gone + if flushes > 0 { before } else { 0 });
                }
            }
            assert!(flushes >= least, "{flushes}");
            let part = if stubs { 100 } else { 200 };
            assert!(gone * 6 * part <= guest.now / MS * 1000, "{gone} blocks in {} ms", guest.now / MS);
        }
    }

    /// What runs in place soon pays for each page of stubs.
    #[test]
    fn few_stubs_beside_what_is_needed_are_enough() {
        let mut guest = Guest { stubs: true, ..Guest::default() };
        assert_eq!(guest.run(10, 20), None);
        let first = 200 * US_PER_BLOCK / 1000;
        assert_eq!(guest.run(1000, 0), Some(REST_MS.max(first - 10)), "200 of them are enough");
        // 100 are needed: with 120 more there are too few, and then there are enough.
        assert_eq!(guest.run(2, 50), None);
        assert_eq!(guest.run(1000, 0), None);
        assert_eq!(guest.run(3, 40), None);
        assert_eq!(guest.run(10_000, 0), None);
        assert_eq!(guest.run(1, 40), None);
        assert_eq!(guest.run(10_000, 0), Some(REST_MS));
        // What is there at a rest that comes late is not what is needed.
        for _ in 0..SOON_MS / 10 {
            assert_eq!(guest.run(10, 40), None);
            guest.in_use = 400;
        }
        assert_eq!(guest.run(1000, 0), Some(REST_MS));
    }

    #[test]
    fn time_in_which_others_run_does_not_count() {
        let mut guest = Guest::default();
        assert_eq!(guest.run(100, 100), None);
        guest.now += 1_000_000 * MS;
        assert_eq!(guest.run(2000, 0), Some(10_000 * US_PER_BLOCK / 1000 - 100 - MOST_MS + 1));
    }
}
