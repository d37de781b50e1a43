//! When it is [looked anew](crate::twins::Twins::look_anew) which pages run in place that are executed.
//!
//! A look unmaps all of them, and each that is executed then is fetched again. So it is done where some regions want
//! groups, and less and less often if that comes to nothing. What was not executed for 100 ms of the guest's time
//! behind a look gives its group to others.

/// How long a look takes. A program that waits for the kernel's timer is seen within that, and so is what it does.
const LOOK_MS: u64 = 100;
/// The least time from a look to the next.
const LEAST_MS: u64 = 1_000;
/// The same where looks came to nothing, at most.
const MOST_MS: u64 = 64_000;
/// Between two questions, the guest has run for so long at most: others run, too.
const BETWEEN_MS: u64 = 8;

/// What is to be done now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Now {
    /// Nothing.
    Nothing,
    /// [`Twins::look_anew`](crate::twins::Twins::look_anew).
    Look,
    /// [`Twins::gather`](crate::twins::Twins::gather), whose answer [`Looks::gathered`] is to be told.
    Gather,
}

/// See the module's text. All times are in ticks of the host's timer.
#[derive(Clone, Debug, Default)]
pub struct Looks {
    /// When it was last asked.
    asked: u64,
    /// How long the guest has run since the last look, or since its start, about.
    ran: u64,
    /// How often there was none of what a look is for, in a row.
    vain: u32,
    /// Whether there was a look whose end has not come.
    looks: bool,
    /// Whether anything was gathered since that.
    gathered: bool,
}

impl Looks {
    /// Asked now and then while the guest runs, of which a millisecond has `per_ms` ticks: what is to be done. `wanted`
    /// says whether any region wants a group.
    pub fn now(&mut self, now: u64, per_ms: u64, wanted: impl FnOnce() -> bool) -> Now {
        self.ran += now.saturating_sub(self.asked).min(BETWEEN_MS * per_ms);
        self.asked = now;
        if self.looks {
            return if self.ran >= LOOK_MS * per_ms { Now::Gather } else { Now::Nothing };
        }
        let least = (LEAST_MS << self.vain).min(MOST_MS);
        if self.ran < least * per_ms || !wanted() {
            return Now::Nothing;
        }
        (self.ran, self.looks, self.gathered) = (0, true, false);
        Now::Look
    }

    /// Whether a region got a group. If none does, the look is over.
    pub fn gathered(&mut self, any: bool) {
        self.gathered |= any;
        if !any {
            self.looks = false;
            self.vain = if self.gathered { 0 } else { (self.vain + 1).min(MOST_MS.ilog2()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks of a millisecond.
    const MS: u64 = 24_000;

    #[derive(Default)]
    struct Guest {
        looks: Looks,
        now: u64,
    }

    impl Guest {
        /// Runs until there is something to do, for so many milliseconds at most: what, and how many there were.
        fn run(&mut self, ms: u64, wanted: bool) -> (Now, u64) {
            for n in 1..=ms {
                self.now += MS;
                let what = self.looks.now(self.now, MS, || wanted);
                if what != Now::Nothing {
                    return (what, n);
                }
            }
            (Now::Nothing, ms)
        }
    }

    #[test]
    fn a_look_is_followed_by_what_it_is_for() {
        let mut guest = Guest::default();
        assert_eq!(guest.run(5_000, false), (Now::Nothing, 5_000));
        assert_eq!(guest.run(5_000, true), (Now::Look, 1));
        assert_eq!(guest.run(5_000, true), (Now::Gather, LOOK_MS));
        guest.looks.gathered(true);
        assert_eq!(guest.run(5_000, true), (Now::Gather, 1));
        guest.looks.gathered(false);
        assert_eq!(guest.run(5_000, true), (Now::Look, LEAST_MS - LOOK_MS - 1));
    }

    #[test]
    fn looks_that_come_to_nothing_become_rare() {
        let mut guest = Guest::default();
        let mut all = [0; 12];
        for took in &mut all {
            let (look, ms) = guest.run(200_000, true);
            assert_eq!((look, guest.run(200, true).0), (Now::Look, Now::Gather));
            guest.looks.gathered(false);
            *took = ms;
        }
        assert!(all.is_sorted(), "{all:?}");
        assert_eq!((all[0], all[11]), (LEAST_MS, MOST_MS - LOOK_MS));
        // One that did not, and the next comes soon.
        assert_eq!((guest.run(200_000, true).0, guest.run(200, true).0), (Now::Look, Now::Gather));
        guest.looks.gathered(true);
        guest.looks.gathered(false);
        assert_eq!(guest.run(200_000, true), (Now::Look, LEAST_MS - LOOK_MS));
    }

    /// A guest that does not get the core is not found to execute nothing.
    #[test]
    fn only_the_guests_own_time_counts() {
        let mut guest = Guest::default();
        assert_eq!(guest.run(5_000, true).0, Now::Look);
        guest.now += 1_000_000 * MS;
        assert_eq!(guest.run(5_000, true), (Now::Gather, LOOK_MS - BETWEEN_MS + 1));
    }
}
