//! The generic timer of one CPU, as CP15 c14 shows it (DDI 0406C, B8.1).
//!
//! The counter is the guest's: ticks since the machine started, which the caller passes in as `now`. A timer is a
//! 64-bit compare value; its line is high while it is enabled, not masked and the counter has reached that value, so
//! no state changes by itself and time needs no simulation. There is no hypervisor below the guest from its own point
//! of view, hence no virtual offset: CNTVCT equals CNTPCT.

use serde::{Deserialize, Serialize};

use crate::state::{State, Unsound, check};

/// The registers of CP15 c14.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimerReg {
    /// CNTFRQ: the frequency of the counter in Hz, for software to read; writing it changes nothing else.
    Cntfrq,
    /// CNTKCTL: what user mode may reach, and the event stream.
    Cntkctl,
    /// CNTP_TVAL: 32 bits of distance from the counter to the physical timer's compare value.
    CntpTval,
    /// CNTP_CTL: ENABLE `[0]`, IMASK `[1]`, ISTATUS `[2]` of the physical timer.
    CntpCtl,
    /// CNTV_TVAL: the same for the virtual timer.
    CntvTval,
    /// CNTV_CTL: the same for the virtual timer.
    CntvCtl,
    /// CNTPCT: the physical counter, 64 bits, read-only.
    Cntpct,
    /// CNTVCT: the virtual counter, 64 bits, read-only.
    Cntvct,
    /// CNTP_CVAL: the physical timer's compare value, 64 bits.
    CntpCval,
    /// CNTV_CVAL: the virtual timer's compare value, 64 bits.
    CntvCval,
}

/// What one of the two timers is set to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Setting {
    /// The compare value.
    pub compare: u64,
    /// The control register, without ISTATUS.
    pub control: u32,
}

const ENABLE: u32 = 1;
const IMASK: u32 = 2;
const ISTATUS: u32 = 4;
/// CNTKCTL: PL0 access `[1:0]` and `[9:8]`, event stream `[7:2]`.
const KCTL_BITS: u32 = 0x3ff;

/// One timer of the two.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Compare {
    value: u64,
    /// ENABLE and IMASK.
    control: u32,
}

impl Compare {
    fn reached(self, now: u64) -> bool {
        self.control & ENABLE != 0 && now >= self.value
    }

    fn control(self, now: u64) -> u32 {
        self.control | if self.reached(now) { ISTATUS } else { 0 }
    }

    fn tval(self, now: u64) -> u32 {
        self.value.wrapping_sub(now) as u32
    }

    fn set_tval(&mut self, value: u32, now: u64) {
        // A signed distance: a negative one has passed already.
        self.value = now.wrapping_add_signed(i64::from(value as i32));
    }

    fn line(self, now: u64) -> bool {
        self.reached(now) && self.control & IMASK == 0
    }

    fn deadline(self, now: u64) -> Option<u64> {
        (self.control & (ENABLE | IMASK) == ENABLE && self.value > now).then_some(self.value)
    }
}

/// The physical and the virtual timer of one CPU.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GenericTimer {
    frequency: u32,
    kctl: u32,
    physical: Compare,
    virtual_: Compare,
}

impl GenericTimer {
    /// Timers after reset, with CNTFRQ reading as `frequency` Hz, as a boot loader leaves it.
    #[must_use]
    pub fn new(frequency: u32) -> Self {
        Self { frequency, kctl: 0, physical: Compare::default(), virtual_: Compare::default() }
    }

    /// The value of a register at counter value `now`; 32-bit registers are zero-extended.
    #[must_use]
    pub fn read(&self, reg: TimerReg, now: u64) -> u64 {
        match reg {
            TimerReg::Cntfrq => self.frequency.into(),
            TimerReg::Cntkctl => self.kctl.into(),
            TimerReg::CntpTval => self.physical.tval(now).into(),
            TimerReg::CntpCtl => self.physical.control(now).into(),
            TimerReg::CntvTval => self.virtual_.tval(now).into(),
            TimerReg::CntvCtl => self.virtual_.control(now).into(),
            TimerReg::Cntpct | TimerReg::Cntvct => now,
            TimerReg::CntpCval => self.physical.value,
            TimerReg::CntvCval => self.virtual_.value,
        }
    }

    /// Writes a register at counter value `now`; 32-bit registers take the low half. The counters ignore writes.
    pub fn write(&mut self, reg: TimerReg, value: u64, now: u64) {
        let low = value as u32;
        match reg {
            TimerReg::Cntfrq => self.frequency = low,
            TimerReg::Cntkctl => self.kctl = low & KCTL_BITS,
            TimerReg::CntpTval => self.physical.set_tval(low, now),
            TimerReg::CntpCtl => self.physical.control = low & (ENABLE | IMASK),
            TimerReg::CntvTval => self.virtual_.set_tval(low, now),
            TimerReg::CntvCtl => self.virtual_.control = low & (ENABLE | IMASK),
            TimerReg::Cntpct | TimerReg::Cntvct => {}
            TimerReg::CntpCval => self.physical.value = value,
            TimerReg::CntvCval => self.virtual_.value = value,
        }
    }

    /// What the physical timer is set to, and the virtual one.
    #[must_use]
    pub fn settings(&self) -> [Setting; 2] {
        [self.physical, self.virtual_].map(|Compare { value, control }| Setting { compare: value, control })
    }

    /// Sets both.
    pub fn set(&mut self, settings: [Setting; 2]) {
        [self.physical, self.virtual_] = settings
            .map(|Setting { compare, control }| Compare { value: compare, control: control & (ENABLE | IMASK) });
    }

    /// The interrupt line of the physical timer.
    #[must_use]
    pub fn line_p(&self, now: u64) -> bool {
        self.physical.line(now)
    }

    /// The interrupt line of the virtual timer.
    #[must_use]
    pub fn line_v(&self, now: u64) -> bool {
        self.virtual_.line(now)
    }

    /// The counter value, later than `now`, at which a line will next rise by itself; `None` if none will.
    #[must_use]
    pub fn next_deadline(&self, now: u64) -> Option<u64> {
        match (self.physical.deadline(now), self.virtual_.deadline(now)) {
            (Some(p), Some(v)) => Some(p.min(v)),
            (p, v) => p.or(v),
        }
    }
}

impl State for GenericTimer {
    fn restore(&mut self, kept: Self) -> Result<(), Unsound> {
        let fits = |compare: Compare| compare.control & !(ENABLE | IMASK) == 0;
        check(kept.kctl & !KCTL_BITS == 0, "a generic timer's CNTKCTL that cannot be")?;
        check(fits(kept.physical) && fits(kept.virtual_), "a generic timer's control register that cannot be")?;
        *self = kept;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tval_is_a_signed_distance() {
        let mut timer = GenericTimer::new(62_500_000);
        timer.write(TimerReg::CntpTval, 100, 1_000);
        assert_eq!(timer.read(TimerReg::CntpCval, 0), 1_100);
        assert_eq!(timer.read(TimerReg::CntpTval, 1_040), 60);
        assert_eq!(timer.read(TimerReg::CntpTval, 1_101), 0xffff_ffff);
        timer.write(TimerReg::CntpTval, 0xffff_ffff, 1_000);
        assert_eq!(timer.read(TimerReg::CntpCval, 0), 999);
    }

    #[test]
    fn line_rises_at_the_deadline_and_obeys_enable_and_mask() {
        let mut timer = GenericTimer::new(1);
        timer.write(TimerReg::CntvCval, 50, 0);
        assert!(!timer.line_v(60) && timer.next_deadline(0).is_none());
        assert_eq!(timer.read(TimerReg::CntvCtl, 60), 0, "disabled: ISTATUS says nothing");
        timer.write(TimerReg::CntvCtl, 1, 0);
        assert_eq!(timer.next_deadline(0), Some(50));
        assert!(!timer.line_v(49) && timer.line_v(50));
        assert_eq!(timer.read(TimerReg::CntvCtl, 50), 5);
        timer.write(TimerReg::CntvCtl, 3, 0);
        assert!(!timer.line_v(50) && timer.next_deadline(0).is_none());
        assert_eq!(timer.read(TimerReg::CntvCtl, 50), 7);
        assert!(!timer.line_p(50), "the physical timer is another");
    }

    #[test]
    fn deadline_is_the_earlier_one_still_to_come() {
        let mut timer = GenericTimer::new(1);
        for (ctl, cval, at) in
            [(TimerReg::CntpCtl, TimerReg::CntpCval, 70), (TimerReg::CntvCtl, TimerReg::CntvCval, 50)]
        {
            timer.write(cval, at, 0);
            timer.write(ctl, 1, 0);
        }
        assert_eq!(timer.next_deadline(0), Some(50));
        assert_eq!(timer.next_deadline(50), Some(70), "what has fired will not fire again");
        assert_eq!(timer.next_deadline(70), None);
    }

    #[test]
    fn settings_are_those_of_the_registers() {
        let mut timer = GenericTimer::new(1);
        timer.write(TimerReg::CntpCval, 7 << 32, 0);
        timer.write(TimerReg::CntvCtl, 7, 0);
        assert_eq!(
            timer.settings(),
            [Setting { compare: 7 << 32, control: 0 }, Setting { compare: 0, control: ENABLE | IMASK }]
        );
        timer.set([Setting { compare: 9, control: u32::MAX }, Setting::default()]);
        assert_eq!((timer.read(TimerReg::CntpCval, 0), timer.read(TimerReg::CntpCtl, 0)), (9, 3));
        assert_eq!(timer.read(TimerReg::CntvCtl, 0), 0);
    }

    #[test]
    fn counters_ignore_writes_and_the_rest_keeps_them() {
        let mut timer = GenericTimer::new(62_500_000);
        timer.write(TimerReg::Cntpct, 5, 9);
        timer.write(TimerReg::Cntkctl, u64::MAX, 9);
        assert_eq!(timer.read(TimerReg::Cntpct, 9), 9);
        assert_eq!(timer.read(TimerReg::Cntvct, 1 << 40), 1 << 40);
        assert_eq!(timer.read(TimerReg::Cntkctl, 9), 0x3ff);
        assert_eq!(timer.read(TimerReg::Cntfrq, 9), 62_500_000);
    }
}
