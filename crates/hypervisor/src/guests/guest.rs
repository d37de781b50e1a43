//! A guest among others: its virtual machine, whether it wants to run, and what it got.

use alloc::format;
use alloc::string::{String, ToString};
use core::num::NonZeroU32;

use spica_bundle::{GuestOptions, Restart};
use spica_console::Limit;
use spica_sched::{Latency, Turn};

use super::debug::Debugger;
use crate::console;
use crate::host::Host;
use crate::host_cpu::HostCpu;
use crate::vm::backtrace::Backtrace;
use crate::vm::boot::Image;
use crate::vm::devices::TakeBack;
use crate::vm::report::{self, Piece};
use crate::vm::summary::Summary;
use crate::vm::{Stop, Vm};

/// Whether a guest wants to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It does.
    Ready,
    /// It waits for an interrupt.
    Waiting,
    /// Somebody paused it at this host time; it was waiting, or not.
    Paused {
        /// Host time.
        since: u64,
        /// It waits for an interrupt, too.
        waiting: bool,
    },
    /// It is off.
    Off(Until),
    /// Spica failed on its behalf: it is off until the board starts anew, and nothing but its name and its size is to
    /// be looked at.
    Failed,
}

/// How long a guest stays off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// For good, unless somebody starts it while others still run.
    Never,
    /// Until somebody starts it: the board waits for that.
    Command,
    /// Until this host time.
    Time(u64),
}

/// How long a guest that is to be started again stays off at first; twice as long the next time, and so on.
const FIRST_DELAY: u32 = 1;
/// How long at most, in seconds. A guest that ran as long begins with the first delay again.
const LAST_DELAY: u32 = 64;

/// See the module's text.
pub struct Guest {
    /// What it is and has.
    pub vm: Vm,
    /// What it is booted from.
    pub image: Image,
    /// Whether it wants to run.
    pub state: State,
    /// When it runs.
    pub turn: Turn,
    /// It has not used up a slice since it woke: it need not wait for the end of another one's.
    pub fresh: bool,
    /// Host ticks that it ran, or was worked for.
    pub ran: u64,
    /// Host time at which the interrupt came due that woke it, until it runs.
    pub woken: Option<u64>,
    /// How long it was left waiting.
    pub latency: Latency,
    /// Times that it was switched to.
    pub switches: u64,
    /// The resets that it asked for itself.
    pub restarts: Limit,
    /// Its debugger, if it has one.
    pub debugger: Option<Debugger>,
    restart: Restart,
    /// It was off, so that its RAM does not hold what it held.
    cold: bool,
    /// Seconds to stay off if it ends now and is to be started again.
    delay: u32,
    /// Host time of the last start.
    started: u64,
    ending: Option<Ending>,
    /// Of the RAM that it has given away, what has come back since it is to start again.
    back: TakeBack,
}

/// What is still to be said of a guest's end.
struct Ending {
    stop: Stop,
    /// With counters.
    stats: bool,
    /// It starts again behind so many seconds.
    delay: Option<u32>,
    /// Lines that are said.
    said: usize,
    /// Where it was called from, once that was looked for.
    backtrace: Option<Backtrace>,
}

impl Guest {
    /// A guest that was just loaded.
    pub fn new(vm: Vm, image: Image, options: &GuestOptions, host: &Host) -> Guest {
        let weight = NonZeroU32::new(options.weight).unwrap_or(NonZeroU32::MIN);
        let started = vm.counts_from();
        Guest {
            vm,
            image,
            state: if options.autostart { State::Ready } else { State::Off(Until::Command) },
            turn: Turn::new(weight, 0),
            fresh: false,
            ran: 0,
            woken: None,
            latency: Latency::default(),
            switches: 0,
            restarts: Limit::new(host.ticks(1_000_000)),
            debugger: None,
            restart: options.restart,
            cold: false,
            delay: FIRST_DELAY,
            started,
            ending: None,
            back: TakeBack::default(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.vm.name()
    }

    /// Host time at which a timer of the guest's comes due while it waits.
    pub fn deadline(&self, host: &Host) -> Option<u64> {
        self.vm.deadline(host)
    }

    /// Its state in a word.
    pub fn state_name(&self) -> &'static str {
        match self.state {
            State::Ready => "running",
            State::Waiting => "waiting",
            State::Paused { .. } => "paused",
            State::Off(Until::Time(_)) => "restarting",
            State::Off(_) => "off",
            State::Failed => "failed",
        }
    }

    /// Whether it does nothing more by itself, and nobody waits for it.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Off(Until::Never) | State::Failed)
    }

    /// Spica failed on its behalf.
    pub fn fail(&mut self) {
        self.state = State::Failed;
        self.ending = None;
    }

    /// Why nothing can be done with it, if it is [`State::Failed`].
    pub fn failure(&self) -> String {
        format!("{} was stopped by an internal error: it is off until the board starts anew", self.name())
    }

    /// Stops it; its clocks stand still.
    ///
    /// # Errors
    /// If it is not running.
    pub fn pause(&mut self, host: &mut Host) -> Result<(), String> {
        match self.state {
            State::Ready | State::Waiting => {
                self.state = State::Paused { since: host.now(), waiting: self.state == State::Waiting };
                Ok(())
            }
            State::Paused { .. } | State::Off(_) | State::Failed => {
                Err(format!("{} is {}", self.name(), self.state_name()))
            }
        }
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// If it is not paused.
    pub fn resume(&mut self, host: &mut Host) -> Result<(), String> {
        let State::Paused { waiting, .. } = self.state else {
            return Err(format!("{} is {}, not paused", self.name(), self.state_name()));
        };
        if self.debugger.as_ref().is_some_and(Debugger::is_replacing) {
            return Err(format!("the memory of {} is being replaced", self.name()));
        }
        self.has_stood(host.now());
        self.state = if waiting { State::Waiting } else { State::Ready };
        Ok(())
    }

    /// Turns it off.
    ///
    /// # Errors
    /// If it is off.
    pub fn stop(&mut self) -> Result<(), String> {
        if let State::Off(Until::Never | Until::Command) = self.state {
            return Err(format!("{} is off", self.name()));
        }
        self.state = State::Off(Until::Command);
        self.cold = true;
        self.back = TakeBack::default();
        Ok(())
    }

    /// Presses its power key, which its own software must heed.
    ///
    /// # Errors
    /// If it is not running.
    pub fn press_power_key(&mut self) -> Result<(), String> {
        match self.state {
            State::Ready | State::Waiting => {
                self.vm.press_power_key();
                Ok(())
            }
            State::Paused { .. } | State::Off(_) | State::Failed => {
                Err(format!("{} is {}", self.name(), self.state_name()))
            }
        }
    }

    /// Resets it, whatever it is doing, or turns it on. It is loaded when its turn comes. If it has given much of its
    /// RAM away, not all comes back in one go: false, and the guest is off; it wants to be asked again.
    ///
    /// # Errors
    /// If pages of its RAM are not to be had. It is off then.
    pub fn restart(&mut self, core: &mut HostCpu, host: &mut Host) -> Result<bool, String> {
        self.cut_report();
        if self.debugger.as_mut().is_some_and(Debugger::take_halted) {
            // It stands again, where it begins.
            self.vm.halt_soon();
        }
        self.state = State::Off(Until::Command);
        match self.vm.take_back(core.enter_host_space(), &mut self.back) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(pages) => {
                return Err(format!(
                    "{} cannot start: disks use {} KiB of its memory, which it gave to its balloon; it can when as much is \
                     discarded there, or another balloon gives as much",
                    self.name(),
                    pages * 4
                ));
            }
        }
        self.vm.reboot(&self.image, self.cold, core, host);
        self.cold = false;
        self.started = host.now();
        self.state = State::Ready;
        Ok(true)
    }

    /// Asks it to give `bytes` of its memory to its balloon, or to keep to that much.
    ///
    /// # Errors
    /// If it has no balloon.
    pub fn set_balloon(&mut self, bytes: u32) -> Result<(), String> {
        if !self.vm.set_balloon(bytes) {
            return Err(format!("{} has no balloon: `balloon = true` in the manifest", self.name()));
        }
        Ok(())
    }

    /// Says that it has restarted, so many times.
    pub fn say_restarts(&self, times: u32) {
        match times {
            1 => crate::println!("spica: guest {}: restarted", self.name()),
            _ => crate::println!("spica: guest {}: restarted {times} times", self.name()),
        }
    }

    /// It is over by itself, and may have to start again. What there is to say of that, [`Self::report`] says; with
    /// counters if `stats`.
    pub fn over(&mut self, stop: Stop, stats: bool, host: &mut Host) {
        self.cold = stop == Stop::PowerOff;
        let again = match self.restart {
            Restart::Never => false,
            Restart::OnCrash => stop != Stop::PowerOff,
            Restart::Always => true,
        };
        self.state = State::Off(Until::Never);
        let mut delay = None;
        if again {
            let second = host.ticks(1_000_000);
            if host.now() - self.started >= u64::from(LAST_DELAY) * second {
                self.delay = FIRST_DELAY;
            }
            delay = Some(self.delay);
            self.state = State::Off(Until::Time(host.now() + u64::from(self.delay) * second));
            self.delay = (2 * self.delay).min(LAST_DELAY);
        }
        self.ending = Some(Ending { stop, stats, delay, said: 0, backtrace: None });
    }

    /// Whether there is something to say of its end.
    pub fn has_report(&self) -> bool {
        self.ending.is_some()
    }

    /// Says a piece of what there is to say of its end. Where the console has no room for a report, as when many crash
    /// again and again, only the reason is said.
    pub fn report(&mut self, core: &mut HostCpu) {
        if let Some(ending) = &mut self.ending
            && ending.backtrace.is_none()
        {
            ending.backtrace = Some(Backtrace::of(&self.vm, core.enter_host_space()));
        }
        let Some(Ending { stop, stats, delay, said, backtrace: Some(backtrace) }) = &self.ending else { return };
        let mut piece = Piece::new(*said);
        if *said == 0 && console::room() < report::BYTES {
            piece.line(format_args!("guest {}: {stop} (no room for the report)", self.name()));
        } else {
            report::write(&self.vm, stop, &mut |line| piece.line(line));
            report::write_past(&self.vm, backtrace, &mut |line| piece.line(line));
            if *stats {
                for (name, value) in report::counters(&self.vm).chain(self.scheduling()) {
                    piece.line(format_args!("stat {name} {value}"));
                }
            }
        }
        if let Some(delay) = delay {
            piece.line(format_args!("guest {}: starts again in {delay} s", self.name()));
        }
        let more = piece.has_more();
        self.ending = self.ending.take().filter(|_| more).map(|ending| Ending { said: piece.end(), ..ending });
    }

    /// Nothing more is said of its end: it starts anew.
    fn cut_report(&mut self) {
        if let Some(Ending { stop, said, .. }) = self.ending.take() {
            match said {
                0 => crate::println!("spica: guest {}: {stop} (no report: it was started before)", self.name()),
                _ => crate::println!("spica: guest {}: started, the rest of its report is void", self.name()),
            }
        }
    }

    /// What it got and did so far.
    pub fn summary(&self) -> Summary {
        let wakes = self.latency.classes().map(|(_, count)| count).sum();
        let scheduling = [("ran", self.ran), ("switches", self.switches), ("wakes", wakes)];
        Summary::new(&self.vm, scheduling)
    }

    /// What the scheduler counts for it.
    pub fn scheduling(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        let latency = self.latency.classes().map(|(bound, count)| match bound {
            Some(bound) => (format!("scheduler.latency-below-us.{bound}"), count),
            None => ("scheduler.latency-longer".to_string(), count),
        });
        let rows = [("scheduler.ticks", self.ran), ("scheduler.switches", self.switches)];
        rows.into_iter().map(|(name, value)| (name.to_string(), value)).chain(latency)
    }
}
