//! How often something was done lately.
//!
//! Half of it is forgotten with each second that passes, when it is looked at next. So nobody has to walk through all
//! that is counted, and to forget takes no time.

/// Counts seconds, about.
#[derive(Clone, Copy, Default)]
pub(super) struct Clock(u8);

impl Clock {
    pub(super) fn second_passes(&mut self) {
        self.0 = self.0.wrapping_add(1);
    }
}

/// See the module's text.
#[derive(Clone, Copy)]
pub(super) struct Lately {
    times: u16,
    /// As of this second. Who was not looked at for 256 seconds may have forgotten too little.
    second: Clock,
}

impl Lately {
    pub(super) const NEVER: Lately = Lately { times: 0, second: Clock(0) };
    /// So often that it is never forgotten.
    pub(super) const FOR_GOOD: Lately = Lately { times: u16::MAX, second: Clock(0) };

    pub(super) fn times(self, now: Clock) -> u16 {
        if self.times == u16::MAX {
            return self.times;
        }
        self.times.checked_shr(now.0.wrapping_sub(self.second.0).into()).unwrap_or(0)
    }

    /// It was done `times` more. How often now.
    pub(super) fn add(&mut self, times: u16, now: Clock) -> u16 {
        let all = self.times(now).saturating_add(times);
        *self = Lately { times: all, second: now };
        all
    }

    /// Once less.
    pub(super) fn take_back(&mut self, now: Clock) {
        let times = self.times(now);
        if times != u16::MAX {
            *self = Lately { times: times.saturating_sub(1), second: now };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_forgotten_with_each_second() {
        let (mut clock, mut lately) = (Clock(250), Lately::NEVER);
        assert_eq!((lately.times(clock), lately.add(100, clock)), (0, 100));
        let each: [u16; 8] = core::array::from_fn(|_| {
            clock.second_passes();
            lately.times(clock)
        });
        assert_eq!(each, [50, 25, 12, 6, 3, 1, 0, 0]);
        (0..40).for_each(|_| clock.second_passes());
        assert_eq!(lately.times(clock), 0);
    }

    #[test]
    fn what_was_done_long_ago_counts_as_less_than_what_was_done_now() {
        let (mut clock, mut lately) = (Clock::default(), Lately::NEVER);
        lately.add(8, clock);
        clock.second_passes();
        assert_eq!(lately.add(8, clock), 12);
        clock.second_passes();
        assert_eq!(lately.times(clock), 6);
        lately.take_back(clock);
        assert_eq!(lately.times(clock), 5);
        (0..9).for_each(|_| lately.take_back(clock));
        assert_eq!(lately.times(clock), 0);
    }

    #[test]
    fn some_things_are_for_good() {
        let (mut clock, mut refused) = (Clock::default(), Lately::FOR_GOOD);
        (0..300).for_each(|_| clock.second_passes());
        refused.take_back(clock);
        assert_eq!((refused.times(clock), refused.add(1, clock)), (u16::MAX, u16::MAX));
    }
}
