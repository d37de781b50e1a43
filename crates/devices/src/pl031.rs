//! The real-time clock: a PL031 (DDI 0224).
//!
//! It counts seconds from a value that software may load, and raises its line when the count meets a match value. The
//! host's wall clock comes in by [`Pl031::set_time`], before any access and whenever the machine's time advances; all
//! that is stored is the difference between the guest's idea of the time and ours.

use crate::mmio::{Mmio, Width};
use crate::primecell;
use crate::state::{State, Unsound};

use serde::{Deserialize, Serialize};

const DR: u32 = 0x00;
const MR: u32 = 0x04;
const LR: u32 = 0x08;
const CR: u32 = 0x0c;
const IMSC: u32 = 0x10;
const RIS: u32 = 0x14;
const MIS: u32 = 0x18;
const ICR: u32 = 0x1c;

const ID: [u8; 4] = [0x31, 0x10, 0x04, 0x00];

/// The real-time clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pl031 {
    /// Wall-clock seconds, of which the register shows the low half.
    time: u64,
    /// What the guest's count is ahead of `time`, modulo 2^32.
    ahead: u32,
    load: u32,
    match_value: u32,
    /// The wall-clock second at which the count meets the match value next.
    alarm_at: u64,
    raw: bool,
    mask: bool,
}

impl Pl031 {
    /// A clock that shows the wall-clock time `seconds` since 1970.
    #[must_use]
    pub fn new(seconds: u64) -> Self {
        let mut clock = Self { time: seconds, ahead: 0, load: 0, match_value: 0, alarm_at: 0, raw: false, mask: false };
        clock.arm();
        clock
    }

    /// It is now `seconds` since 1970. Time does not go back; an earlier value is ignored.
    pub fn set_time(&mut self, seconds: u64) {
        self.time = self.time.max(seconds);
        if self.time >= self.alarm_at {
            self.raw = true;
            // The count wraps, and meets the value again 136 years on.
            self.alarm_at = self.alarm_at.saturating_add(1 << 32);
        }
    }

    /// Whether the interrupt line is high.
    #[must_use]
    pub const fn line(&self) -> bool {
        self.raw && self.mask
    }

    /// The wall-clock second at which the line rises by itself; `None` if it won't.
    #[must_use]
    pub const fn next_alarm(&self) -> Option<u64> {
        if self.mask && !self.raw { Some(self.alarm_at) } else { None }
    }

    /// The guest's count.
    const fn count(&self) -> u32 {
        (self.time as u32).wrapping_add(self.ahead)
    }

    /// After a change of count or match value. Already equal counts as a meeting.
    fn arm(&mut self) {
        self.alarm_at = self.time.saturating_add(self.match_value.wrapping_sub(self.count()).into());
    }
}

impl Mmio for Pl031 {
    fn read(&mut self, offset: u32, width: Width) -> u32 {
        let word = match offset & !3 {
            DR => self.count(),
            MR => self.match_value,
            LR => self.load,
            // Once started, it cannot be stopped; it starts started.
            CR => 1,
            IMSC => self.mask.into(),
            RIS => self.raw.into(),
            MIS => self.line().into(),
            id => primecell::id_register(ID, id).unwrap_or(0),
        };
        width.extract(word, offset)
    }

    fn write(&mut self, offset: u32, width: Width, value: u32) {
        let value = value & width.mask();
        match offset {
            MR => {
                self.match_value = value;
                self.arm();
            }
            LR => {
                self.load = value;
                self.ahead = value.wrapping_sub(self.time as u32);
                self.arm();
            }
            IMSC => self.mask = value & 1 != 0,
            ICR if value & 1 != 0 => self.raw = false,
            _ => return,
        }
        // A match value that the count shows already raises the interrupt now.
        self.set_time(self.time);
    }
}

/// The time of the clock that takes it over stays: time goes on while a snapshot lies in a drawer.
impl State for Pl031 {
    fn restore(&mut self, kept: Self) -> Result<(), Unsound> {
        let time = self.time;
        *self = Self { time, ..kept };
        self.set_time(time);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const W: Width = Width::Word;

    #[test]
    fn shows_and_sets_the_time() {
        let mut clock = Pl031::new(1_700_000_000);
        assert_eq!(clock.read(DR, W), 1_700_000_000);
        clock.set_time(1_700_000_005);
        assert_eq!(clock.read(DR, W), 1_700_000_005);
        clock.write(LR, W, 1_000);
        assert_eq!((clock.read(DR, W), clock.read(LR, W)), (1_000, 1_000));
        clock.set_time(1_700_000_010);
        assert_eq!(clock.read(DR, W), 1_005);
        clock.set_time(1_600_000_000);
        assert_eq!(clock.read(DR, W), 1_005, "time does not go back");
    }

    #[test]
    fn alarm_rings_once_at_its_second() {
        let mut clock = Pl031::new(100);
        assert!(clock.next_alarm().is_none());
        clock.write(MR, W, 110);
        clock.write(IMSC, W, 1);
        assert_eq!(clock.next_alarm(), Some(110));
        clock.set_time(109);
        assert!(!clock.line());
        clock.set_time(111);
        assert!(clock.line() && clock.next_alarm().is_none());
        assert_eq!((clock.read(RIS, W), clock.read(MIS, W)), (1, 1));
        clock.write(ICR, W, 1);
        assert!(!clock.line());
        clock.set_time(120);
        assert!(!clock.line());
        clock.write(MR, W, 120);
        assert!(clock.line(), "the count shows the match value already");
    }

    #[test]
    fn alarm_follows_the_guests_own_time() {
        let mut clock = Pl031::new(100);
        clock.write(IMSC, W, 1);
        clock.write(LR, W, 5_000);
        clock.write(MR, W, 5_003);
        assert_eq!(clock.next_alarm(), Some(103));
        clock.write(LR, W, 5_002);
        assert_eq!(clock.next_alarm(), Some(101));
    }
}
