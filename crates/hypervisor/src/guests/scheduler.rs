//! The scheduler: lets the guests run by turns, wakes those that wait, and sleeps when nobody wants to run.
//!
//! It runs on the host's stack, between two runs of guests ([`crate::vm::Vm::run`]), with interrupts masked: a guest
//! comes back when it waits or stops, when its slice is over, when the interrupt of another one is due, or when
//! somebody typed. What is done on a guest's behalf is done on that guest's stack, and if Spica fails there, the others
//! go on ([`crate::contain`]).

use alloc::string::String;
use alloc::vec::Vec;

use super::guest::{Guest, State, Until};
use super::monitor::Monitor;
use crate::contain::shared;
use crate::host::Host;
use crate::host_cpu::HostCpu;
use crate::memory::canary::Canary;
use crate::vm::{Pause, Stop, report};
use crate::world::core_state::CoreState;
use crate::{console, contain, println};

/// Longest time that a guest runs while another wants to, in microseconds.
pub const SLICE: u32 = 10_000;
/// How much a guest that waited may be ahead of the others, in microseconds of its own time.
const CREDIT: u32 = 10_000;
/// How far a guest that wakes must be ahead of the running one to take over, in the same.
const MARGIN: u32 = 1_000;
/// How long a line that is not complete is kept from the console, in microseconds.
const PARTIAL: u32 = 200_000;
/// How long guests run between two pieces of a long answer of the monitor, or of a report, in microseconds.
const BETWEEN_PIECES: u32 = 1_000;
/// How long guests run between two pieces of what a guest takes back of its memory, in microseconds.
const BETWEEN_PAGES: u32 = 250;
/// What it takes at most from the host timer's interrupt until it is seen, in microseconds. What takes longer is the
/// running guest's own: Spica was at work for it.
const ENTRY: u32 = 5;

/// See the module's text.
pub struct Scheduler {
    /// The guests, in the manifest's order.
    pub guests: Vec<Guest>,
    /// The processor that they run on, with its queue.
    core: HostCpu,
    /// The host.
    pub host: Host,
    /// When lines that are not complete are shown.
    partial_at: Option<u64>,
    /// When the monitor goes on with what it has not finished.
    monitor_at: Option<u64>,
    /// Whose end is being reported, and when that goes on.
    reporting: (usize, Option<u64>),
    /// Say every counter at the end of a guest.
    stats: bool,
    /// Host time at which scheduling began.
    pub began: u64,
    ticks: Ticks,
    /// For the monitor's `check`.
    pub canary: Canary,
}

/// The times above in ticks of the host's timer.
#[derive(Clone, Copy)]
struct Ticks {
    credit: u64,
    margin: u64,
    partial: u64,
    pieces: u64,
    back: u64,
    entry: u64,
}

impl Scheduler {
    /// A scheduler for `guests`, which are all loaded.
    pub fn new(guests: Vec<Guest>, mut core: HostCpu, mut host: Host, stats: bool) -> Scheduler {
        let began = host.now();
        // Nobody pays for what came before: the making of the guests takes longer than their slices.
        core.queue.charge(began);
        let ticks = Ticks {
            credit: host.ticks(CREDIT),
            margin: host.ticks(MARGIN),
            partial: host.ticks(PARTIAL),
            pieces: host.ticks(BETWEEN_PIECES),
            back: host.ticks(BETWEEN_PAGES),
            entry: host.ticks(ENTRY),
        };
        Scheduler {
            guests,
            core,
            host,
            partial_at: None,
            monitor_at: None,
            reporting: (0, None),
            stats,
            began,
            ticks,
            canary: Canary::place(),
        }
    }

    /// Runs the guests until all are over.
    pub fn run(&mut self) {
        let mut monitor = Monitor::default();
        loop {
            self.host.serve_interrupts();
            if monitor.listen(self) {
                // What was asked for is no guest's doing.
                self.core.queue.charge(self.host.now());
            }
            let now = self.host.now();
            self.monitor_at = monitor.has_more(&self.host).then(|| now + self.ticks.pieces);
            self.host.resume_uplink(now);
            self.wake(now);
            self.show_partial(now);
            self.host.resume_console(now);
            self.say_restarts(now);
            self.report(now);
            match self.next(now) {
                Some(next) => self.give_turn(next, now),
                None => {
                    // Who waits is next most of the time: what the core has of it stays there until another one runs.
                    let waits = |at: usize| self.guests[at].state == State::Waiting;
                    if !self.core.queue.current().is_some_and(waits) {
                        self.leave();
                    }
                    if self.guests.iter().all(|guest| guest.is_over() && !guest.has_report()) {
                        if self.host.trace_is_awaited(now) {
                            // Awake: where time is counted in instructions, it leaps while the board sleeps, and
                            // whoever reads is always late.
                            continue;
                        }
                        return;
                    }
                    let limit = self.deadline().into_iter().chain(self.host.trace_deadline(now)).min();
                    self.host.set_limit(limit);
                    self.host.wait();
                    self.core.queue.charge(self.host.now());
                }
            }
        }
    }

    /// Wakes the guests that wait and have an interrupt, and starts those that were off for long enough.
    fn wake(&mut self, now: u64) {
        for at in 0..self.guests.len() {
            if matches!(self.guests[at].state, State::Off(Until::Time(time)) if time <= now) {
                self.restart_or_say(at);
                self.settle(at);
            }
        }
        let floor = self.floor();
        for at in 0..self.guests.len() {
            let guest = &self.guests[at];
            if guest.state != State::Waiting {
                continue;
            }
            let due = guest.deadline(&self.host).filter(|&due| due <= now);
            let consoles = &self.host.consoles;
            let pending = consoles.peek_input(at).is_some() || consoles.may_go_on(at) || self.host.pending.is_for(at);
            if due.is_some() || pending {
                self.host.speak_for(at);
                let caught_up = self.on_behalf(at, |guest, core, host| {
                    guest.vm.catch_up(core, host);
                    if host.tracer.is_on() {
                        host.trace_wake(due, guest.vm.interrupts());
                    }
                });
                if caught_up.is_none() {
                    continue;
                }
            }
            // Devices with more to do get their guest's turn for it.
            let guest = &mut self.guests[at];
            if guest.vm.wants_turn() {
                guest.state = State::Ready;
                guest.woken = due;
                guest.turn.wake(floor, self.ticks.credit);
                guest.fresh = true;
            }
        }
    }

    /// The least virtual time of those who want to run, or did when somebody last wanted to.
    fn floor(&mut self) -> u64 {
        let ready = self.guests.iter().filter(|guest| guest.state == State::Ready);
        self.core.queue.floor(ready.map(|guest| guest.turn.used()))
    }

    fn ready(&self) -> impl Iterator<Item = (usize, &Guest)> {
        self.guests.iter().enumerate().filter(|(_, guest)| guest.state == State::Ready)
    }

    /// Who runs next.
    fn next(&self, now: u64) -> Option<usize> {
        let least = |(_, guest): &(usize, &Guest)| guest.turn.used();
        let (first, _) = self.ready().min_by_key(least)?;
        let Some(running) = self.core.queue.slices.heir(now, |at| self.guests[at].state == State::Ready) else {
            return Some(first);
        };
        let woke = self.ready().filter(|(_, guest)| guest.fresh).min_by_key(least);
        let takes_over = |guest: &Guest| guest.turn.preempts(&self.guests[running].turn, self.ticks.margin);
        Some(woke.filter(|(_, guest)| takes_over(guest)).map_or(running, |(at, _)| at))
    }

    /// The earliest host time at which something is to be done, whoever runs.
    fn deadline(&self) -> Option<u64> {
        let of_guest = |guest: &Guest| match guest.state {
            State::Waiting => guest.deadline(&self.host),
            State::Off(Until::Time(time)) => Some(time),
            State::Ready | State::Paused { .. } | State::Off(_) | State::Failed => None,
        };
        let of_host = [
            self.partial_at,
            self.monitor_at,
            self.reporting.1,
            self.host.uplink_deadline(),
            self.host.console_deadline(),
        ];
        let said = self.guests.iter().filter_map(|guest| guest.restarts.deadline());
        self.guests.iter().filter_map(of_guest).chain(said).chain(of_host.into_iter().flatten()).min()
    }

    /// Says which guests have restarted, as often as that is to be said.
    fn say_restarts(&mut self, now: u64) {
        for guest in &mut self.guests {
            if let Some(times) = guest.restarts.to_say(now) {
                guest.say_restarts(times);
            }
        }
    }

    /// Says the next piece of what there is to say of guests' ends, if that is due: of one after the other, so that
    /// reports do not mix.
    fn report(&mut self, now: u64) {
        let (last, due) = self.reporting;
        if due.is_some_and(|due| due > now) {
            return;
        }
        let has_report = |at: &usize| self.guests[*at].has_report();
        let whose = Some(last).filter(has_report).or_else(|| (0..self.guests.len()).find(has_report));
        let Some(at) = whose else {
            self.reporting.1 = None;
            return;
        };
        if console::room() >= report::PIECE_BYTES {
            self.on_behalf(at, |guest, core, _| guest.report(core));
            self.settle(at);
        }
        self.reporting = (at, Some(now + self.ticks.pieces));
    }

    /// Shows lines that are not complete, if that is due.
    fn show_partial(&mut self, now: u64) {
        if !self.host.consoles.has_partial() {
            self.partial_at = None;
        } else if self.partial_at.is_some_and(|at| at <= now) {
            self.host.consoles.show_partial();
            self.host.send_console();
            self.partial_at = None;
        } else if self.partial_at.is_none() {
            self.partial_at = Some(now + self.ticks.partial);
        }
    }

    /// Does something on behalf of guest `at`. `None` if Spica failed: the guest is off for good.
    pub(super) fn on_behalf<R>(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut Guest, &mut HostCpu, &mut Host) -> R,
    ) -> Option<R> {
        let others = self.guests.iter().enumerate().any(|(other, guest)| other != at && !guest.is_over());
        let (guest, core, host) = (&mut self.guests[at], &mut self.core, &mut self.host);
        let (mut act, mut result) = (Some(act), None);
        let done = contain::on_behalf(at, others, &mut || result = act.take().map(|act| act(guest, core, host)));
        if !done {
            self.core.return_to_host_space();
            self.failed(at);
            return None;
        }
        result
    }

    /// Spica failed on behalf of guest `at`.
    #[cold]
    fn failed(&mut self, at: usize) {
        self.guests[at].fail();
        self.tell_debugger(at);
        if self.core.queue.is_current(at) {
            self.core.queue.take_current();
            // Whatever its own records say of what is in the core.
            CoreState::wipe();
        }
    }

    /// The same for somebody who asked.
    ///
    /// # Errors
    /// If Spica fails, or has failed before: what that means for the guest.
    pub fn ask_for<R>(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut Guest, &mut HostCpu, &mut Host) -> R,
    ) -> Result<R, String> {
        let done = if self.guests[at].state == State::Failed { None } else { self.on_behalf(at, act) };
        done.ok_or_else(|| self.guests[at].failure())
    }

    /// Leaves nothing of the guest that ran last in the core.
    pub(super) fn leave(&mut self) {
        if let Some(last) = self.core.queue.take_current() {
            self.guests[last].vm.depart(&mut self.core);
        }
    }

    /// Records what guests do from now on, or of one alone its system calls; for whoever asks if `claim`, else for the
    /// first who does.
    ///
    /// # Errors
    /// If that is done for somebody already, or there is no memory.
    pub fn start_trace(&mut self, claim: bool, calls_of: Option<usize>) -> Result<(), &'static str> {
        let ring = self.host.start_trace(claim, calls_of.is_some(), self.guests.len())?;
        let sound = self.guests.iter_mut().enumerate().filter(|(_, guest)| guest.state != State::Failed);
        for (at, guest) in sound {
            match calls_of {
                None => guest.vm.set_trace(Some(ring)),
                Some(only) if only == at => guest.vm.trace_calls(ring),
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Records nothing any more.
    pub fn stop_trace(&mut self) {
        self.host.stop_trace();
        let sound = self.guests.iter_mut().filter(|guest| guest.state != State::Failed);
        sound.for_each(|guest| guest.vm.set_trace(None));
    }

    /// Lets a guest go on that was paused.
    ///
    /// # Errors
    /// If it is not paused.
    pub fn resume(&mut self, at: usize) -> Result<(), String> {
        let floor = self.floor();
        self.ask_for(at, |guest, _, host| guest.resume(host))??;
        self.guests[at].turn.wake(floor, 0);
        Ok(())
    }

    /// Charges guest `at` for the time that nobody was charged for yet. Gives the host time.
    fn settle(&mut self, at: usize) -> u64 {
        let now = self.host.now();
        self.charge(at, now);
        now
    }

    /// Charges guest `at` for the time up to `until`.
    fn charge(&mut self, at: usize, until: u64) {
        self.charge_but(at, until, 0);
    }

    /// The same, but for so many ticks, for which nobody is charged.
    fn charge_but(&mut self, at: usize, until: u64, slept: u64) {
        let ticks = self.core.queue.charge(until).saturating_sub(slept);
        let guest = &mut self.guests[at];
        guest.turn.charge(ticks);
        guest.ran += ticks;
        self.floor();
    }

    /// Lets guest `at` run for its turn, which may just go on.
    fn give_turn(&mut self, at: usize, now: u64) {
        if !self.core.queue.is_current(at) {
            self.leave();
            self.guests[at].vm.arrive();
            self.guests[at].switches += 1;
            self.core.queue.set_current(at);
        }
        if let Some(used_up) = self.core.queue.slices.used_up(now) {
            self.guests[used_up].fresh = false;
        }
        let slice_end = self.core.queue.slices.turn(at, now, |at| self.guests[at].state == State::Ready);
        let alone = self.ready().count() == 1;
        let limits = self.deadline().into_iter().chain((!alone).then_some(slice_end));
        let limit = limits.chain(self.host.trace_deadline(now)).min();
        self.host.speak_for(at);
        self.host.set_limit(limit);

        // The way here is paid by the guest whose timer wanted it, or else by the one that ran before, until this one
        // runs; and what the interrupt took that threw out this one, by whoever is next: who is interrupted often gets
        // as much done in its time as others do.
        let woken = self.guests[at].woken.take();
        let before = self.core.queue.follows(at);
        let payer = if woken.is_some() { at } else { before };
        let start = self.settle(payer);
        if let Some(due) = woken {
            self.guests[at].latency.record(start.saturating_sub(due), self.host.latency_bounds());
        }
        self.host.begin_turn(alone);
        let traced = if self.host.tracer.is_on() {
            let due = self.guests[at].deadline(&self.host);
            self.host.trace_turn_begins(due)
        } else {
            None
        };
        let pause = self.on_behalf(at, |guest, core, host| guest.vm.run(core, host, &mut guest.latency));
        if let Some(begun) = traced {
            if pause.is_some() {
                self.on_behalf(at, |guest, _, host| guest.vm.turn_ends(host));
            }
            self.host.trace_turn_ends(begun, pause);
        }
        let entered = self.host.entered().unwrap_or(start);
        self.charge(payer, entered);
        let end = match (self.host.limit_seen(), limit) {
            (Some(seen), Some(limit)) => seen - seen.saturating_sub(limit).min(self.ticks.entry),
            _ => self.host.now(),
        };
        self.charge_but(at, end.max(entered), self.host.slept());
        match pause {
            Some(Pause::Wait) => self.guests[at].state = State::Waiting,
            Some(Pause::Stop(stop)) => self.stopped(at, stop),
            Some(Pause::Yield) | None => {}
        }
    }

    /// Guest `at` is over, or wants to begin again, or a debugger wants something of it.
    fn stopped(&mut self, at: usize, stop: Stop) {
        let stop = match stop {
            Stop::Debugger => match self.debug(at) {
                Some(stop) => stop,
                None => return,
            },
            stop => stop,
        };
        self.leave();
        // What it has sent and its UART still has goes out, too.
        self.on_behalf(at, |guest, _, host| {
            guest.vm.take_last_output(|byte| shared(|| host.consoles.put(at, byte)));
            shared(|| crate::console::send_last(&mut host.consoles, at));
        });
        if stop != Stop::Reset {
            if let Some(times) = self.guests[at].restarts.rest() {
                self.guests[at].say_restarts(times);
            }
            let stats = self.stats;
            self.on_behalf(at, |guest, _, host| guest.over(stop, stats, host));
            self.tell_debugger(at);
            return;
        }
        self.guests[at].restarts.happens();
        let now = self.host.now();
        self.say_restarts(now);
        self.restart_or_say(at);
        // Whoever runs next has not asked for that.
        self.settle(at);
    }

    /// Resets guest `at`, or goes on with that, where nobody asked: in pieces, if it takes long.
    fn restart_or_say(&mut self, at: usize) {
        match self.restart_some(at) {
            Ok(true) => {}
            Ok(false) => self.guests[at].state = State::Off(Until::Time(self.host.now() + self.ticks.back)),
            Err(problem) => println!("spica: error: {problem}"),
        }
    }

    /// Resets guest `at` and lets it begin again. Whoever asks for that has others wait for the end.
    ///
    /// # Errors
    /// If it cannot begin: see [`Guest::restart`].
    pub fn restart(&mut self, at: usize) -> Result<(), String> {
        while !self.restart_some(at)? {}
        Ok(())
    }

    /// [`Guest::restart`], with what others have of the guest.
    fn restart_some(&mut self, at: usize) -> Result<bool, String> {
        if self.core.queue.is_current(at) {
            self.leave();
        }
        let floor = self.floor();
        self.host.consoles.begin_again(at);
        self.host.networks.clear(at);
        self.host.pending.take(at);
        let done = self.ask_for(at, Guest::restart)??;
        if done {
            self.guests[at].turn.wake(floor, 0);
        }
        Ok(done)
    }
}
