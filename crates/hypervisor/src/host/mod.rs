//! The host as virtual machines see it: the time, one timer, the console, interrupts.

pub mod disks;
mod entropy;
pub mod networks;
pub mod pending;
pub mod trace;
pub mod uplink;

crate::parts::part!(trace: other, "the timeline");

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use spica_console::command::PROGRAM_LINE_BYTES;
use spica_console::consoles::Consoles;

use crate::arch::barrier;
use crate::board::{Board, Line};
use crate::console;
use crate::contain::shared;
use crate::layout::HOST_ASID;
use crate::machine::{GuestMachine, Machine};
use crate::world::{Clock, HostAlarm};
use disks::Disks;
use entropy::Entropy;
use networks::Networks;
use pending::PendingSlots;
use spica_drivers::Alarm;
use spica_sched::{BOUNDS, bounds_in_ticks};
use trace::Tracer;

/// Bytes that can be typed before anybody looks: the longest line of a program, and some.
const TYPED_BYTES: usize = PROGRAM_LINE_BYTES + 2048;

/// The console's transmitter gets so many bytes in [`CONSOLE_WINDOW`] at most, but for those that guests send in their
/// own time. Only an emulated one takes so many: a quarter of a megabyte in a second.
const CONSOLE_BYTES: usize = 256;
/// How long that is, in microseconds.
const CONSOLE_WINDOW: u32 = 1000;
/// Bytes that go to the console at once at most while nobody wants to run: a page of a guest's memory, as text.
const HURRIED: usize = 4096;
/// Bytes that go to the console at once at most when a guest prints.
const PRINTED: usize = 1024;

/// See the module's text.
pub struct Host {
    board: Board,
    /// The guests' consoles.
    pub consoles: Consoles,
    /// The guests' networks.
    pub networks: Networks,
    /// The board's disks that guests have.
    pub disks: Disks,
    /// Who records what guests do.
    pub tracer: Tracer,
    /// Which virtio devices of guests have something pending from the host.
    pub pending: PendingSlots,
    /// The guests' balloons: guest and slot.
    pub balloons: Vec<(usize, usize)>,
    /// The guests' virtio consoles: guest and slot.
    pub terminals: Vec<(usize, usize)>,
    /// Until when the console's bytes count together, and how many there were.
    console_window: (u64, usize),
    /// The scheduler knows that the console waits for the end of its window.
    console_waits: bool,
    /// Until when the frames of the uplink count together, and whether there were so many that it waits until then.
    window: (u64, bool),
    entropy: Entropy,
    /// Which guest runs.
    current: usize,
    /// What was typed and nobody has looked at.
    typed: VecDeque<u8>,
    /// Host time at which the scheduler wants to be asked, whoever runs.
    limit: Option<u64>,
    attention: bool,
    /// Host time at which the limit's interrupt was seen, in this turn.
    limit_seen: Option<u64>,
    /// Host time at which this turn's guest ran on.
    entered: Option<u64>,
    /// Nobody but this turn's guest wants to run.
    alone: bool,
    /// Ticks for which it has slept in this turn.
    slept: u64,
    /// Ticks by which a guest that sleeps is woken before it is due.
    ahead: u64,
    /// Host ASIDs that no VM has yet.
    asids: RangeInclusive<u8>,
    /// Guest counter ticks per host timer tick, as [`ratio_above`] gives it.
    ratio: (u32, u64),
    /// The inverse of that, as [`ratio_below`] does.
    inverse: (u32, u64),
    /// See [`Host::latency_bounds`].
    latency_bounds: [u64; BOUNDS.len()],
    /// Seconds since 1970 when the host's timer stood at `boot_ticks`.
    boot_time: u64,
    boot_ticks: u64,
    /// The deadline that the timer is set to; the outer `None` where it was used up, or nobody knows.
    armed: Option<Option<u64>>,
    /// The guest's deadline behind it, with that guest's start, and the limit: most of the time nothing has changed.
    armed_for: Option<(u64, Option<u64>, Option<u64>)>,
}

const fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// For so long a guest runs at most whose devices have more to do.
const SOON_US: u32 = 100;

/// By so much a guest that sleeps is woken before its timer is due: about what it takes to wake it.
const WAKE_US: u32 = 4;

/// `over / under` as a whole number and a fraction of 2^64, rounded up.
const fn ratio_above(over: u32, under: u32) -> (u32, u64) {
    let rest = (over % under) as u128;
    (over / under, (rest << 64).div_ceil(under as u128) as u64)
}

/// The same, rounded down.
const fn ratio_below(over: u32, under: u32) -> (u32, u64) {
    let rest = (over % under) as u128;
    (over / under, ((rest << 64) / under as u128) as u64)
}

/// `value` times a ratio of [`ratio_above`] or [`ratio_below`], without a division: guests ask for the time often.
fn scaled(value: u64, (whole, fraction): (u32, u64)) -> u64 {
    times(value, whole).saturating_add(((u128::from(value) * u128::from(fraction)) >> 64) as u64)
}

/// `value * factor`, or what is the most: a third of the instructions that a multiplication of 64 bits takes for that.
const fn times(value: u64, factor: u32) -> u64 {
    let (high, low) = ((value >> 32) * factor as u64, (value & u32::MAX as u64) * factor as u64);
    if high >> 32 == 0 { (high << 32).saturating_add(low) } else { u64::MAX }
}

const _: () = {
    assert!(times(7 << 32 | 5, 3) == 21 << 32 | 15 && times(u64::MAX, 1) == u64::MAX && times(u64::MAX, 0) == 0);
    assert!(times(u32::MAX as u64, u32::MAX) == u32::MAX as u64 * u32::MAX as u64);
    assert!(times(1 << 63, 2) == u64::MAX && times(u64::MAX, u32::MAX) == u64::MAX);
    assert!(times((1 << 63) - 1, 2) == u64::MAX - 1 && times(0x1_ffff_ffff, 3) == 0x5_ffff_fffd);
};

impl Host {
    /// The host on `board`, whose devices are ours from now on; it is `time` seconds since 1970.
    pub fn new(mut board: Board, time: u64, consoles: Consoles) -> Host {
        let frequency = board.timer.driver.frequency();
        let common = gcd(Machine::COUNTER_HZ, frequency);
        console::enable_rx_interrupt();
        if let Some(line) = board.console_line {
            board.interrupts.driver.enable(line);
        }
        // Without its interrupt, the transmitter is looked at once in a window.
        console::pause(board.console_line.is_none());
        board.interrupts.driver.enable(board.timer_line);
        let boot_ticks = board.timer.driver.now();
        Host {
            board,
            consoles,
            networks: Networks::default(),
            disks: Disks::default(),
            tracer: Tracer::default(),
            pending: PendingSlots::default(),
            balloons: Vec::new(),
            terminals: Vec::new(),
            console_window: (0, 0),
            console_waits: false,
            window: (0, false),
            entropy: Entropy::new(&[&time.to_le_bytes(), &boot_ticks.to_le_bytes()]),
            current: 0,
            typed: VecDeque::with_capacity(TYPED_BYTES),
            limit: None,
            attention: false,
            limit_seen: None,
            entered: None,
            alone: false,
            slept: 0,
            ahead: u64::from(frequency) * u64::from(WAKE_US) / 1_000_000,
            // 0 owns nothing, 1 is the host's.
            asids: HOST_ASID as u8 + 1..=u8::MAX,
            ratio: ratio_above(Machine::COUNTER_HZ / common, frequency / common),
            inverse: ratio_below(frequency / common, Machine::COUNTER_HZ / common),
            latency_bounds: bounds_in_ticks(frequency),
            boot_time: time,
            boot_ticks,
            armed: None,
            armed_for: None,
        }
    }

    /// The board, to take over devices.
    pub fn board(&mut self) -> &mut Board {
        &mut self.board
    }

    /// Brings to safety what guests have written to the board's disks; waits for it.
    ///
    /// # Errors
    /// Which disk failed.
    pub fn flush_disks(&mut self) -> Result<(), alloc::string::String> {
        self.disks.flush(&mut self.board)
    }

    /// Gives the board back.
    pub fn into_board(self) -> Board {
        self.board
    }

    /// Takes `count` ASIDs for a VM.
    pub fn take_asids(&mut self, count: u8) -> Option<RangeInclusive<u8>> {
        let (first, last) = (*self.asids.start(), *self.asids.end());
        let end = first.checked_add(count)?;
        if count == 0 || end > last {
            return None;
        }
        self.asids = end..=last;
        Some(first..=end - 1)
    }

    /// Host time, in ticks of the host's timer.
    pub fn now(&mut self) -> u64 {
        self.board.timer.driver.now()
    }

    /// Seconds since 1970, for a guest's clock.
    pub fn wall_clock(&mut self) -> u64 {
        let passed = self.now() - self.boot_ticks;
        self.boot_time + passed / u64::from(self.board.timer.driver.frequency())
    }

    /// A guest's counter, which was 0 at host time `start`. That may be before the board's own start, below 0: a
    /// guest that was saved goes on with the counter that it had.
    pub fn guest_now(&mut self, start: u64) -> u64 {
        let now = self.now();
        self.guest_at(start, now)
    }

    /// The same at host time `at`.
    pub fn guest_at(&self, start: u64, at: u64) -> u64 {
        // Exact as long as what has passed times the ratio's denominator is below 2^64.
        scaled(at.wrapping_sub(start), self.ratio)
    }

    /// When a guest's counter was 0 that reaches `count` at host time `at`, or a bit before. `count` is below 2^56.
    pub fn start_for(&self, count: u64, at: u64) -> u64 {
        at.wrapping_sub(scaled(count, self.inverse).saturating_add(1))
    }

    /// Brings `clock`, which [`Self::clock`] gave for a guest that started at `start`, up to date, so that at host time
    /// `now` it is good for the better part of the next turn of the host's clock. It gives the same before and after,
    /// so most of the time nothing is to be done.
    pub fn renew_clock(&mut self, clock: &mut Clock, start: u64, now: u64) {
        const QUARTER_TURN: u32 = 1 << 30;
        if clock.address != 0 && (now as u32).wrapping_sub(clock.base) >= QUARTER_TURN {
            *clock = self.clock(start);
        }
    }

    /// How assembly works out the counter of a guest that started at `start`, for the next turn of the host's clock at
    /// least.
    pub fn clock(&mut self, start: u64) -> Clock {
        let driver = &mut self.board.timer.driver;
        let Some(counter) = driver.counter() else { return Clock::default() };
        let now = driver.now();
        let passed = now.wrapping_sub(start);
        let (whole, part) = self.ratio;
        let fraction = u128::from(passed) * u128::from(part);
        let count = times(passed, whole).saturating_add((fraction >> 64) as u64);
        let halves = |value: u64| [value as u32, (value >> 32) as u32];
        Clock {
            address: counter.address,
            complement: if counter.down { u32::MAX } else { 0 },
            base: now as u32,
            whole,
            part: halves(part),
            fraction: halves(fraction as u64),
            count: halves(count),
        }
    }

    /// The first host time at which a guest's counter, which was 0 at `start`, has reached `ticks`: never early, or the
    /// guest would be woken for nothing, and one tick late at most. On a board whose timer has a microsecond for a tick,
    /// that shows.
    pub fn host_time(&self, start: u64, ticks: u64) -> u64 {
        // What lies on a tick is a bit below it by `inverse`.
        let passed = scaled(ticks, self.inverse).saturating_add(1);
        if start.cast_signed() >= 0 {
            start.saturating_add(passed)
        } else {
            // Before the board's own start.
            passed.saturating_sub(start.wrapping_neg())
        }
    }

    /// Ticks of the host's timer in `microseconds`.
    pub fn ticks(&self, microseconds: u32) -> u64 {
        u64::from(self.board.timer.driver.frequency()) * u64::from(microseconds) / 1_000_000
    }

    /// Sees to an interrupt of the host when the guest's counter reaches `deadline`, or at the limit if that is before.
    pub fn arm_timer(&mut self, start: u64, deadline: Option<u64>) {
        let wanted = (start, deadline, self.limit);
        if self.armed_for == Some(wanted) {
            return;
        }
        let deadline = deadline.map(|ticks| self.host_time(start, ticks));
        let at = deadline.into_iter().chain(self.limit).min();
        shared(|| {
            self.armed_for = Some(wanted);
            if self.armed != Some(at) {
                self.board.timer.driver.set_deadline(at);
                self.armed = Some(at);
            }
        });
    }

    /// How assembly sets the timer for a guest; [`Clock`] says what its counter is.
    pub fn alarm(&self) -> HostAlarm {
        let Some(alarm) = self.board.timer.driver.alarm() else { return HostAlarm::default() };
        let Alarm { control, interval, stop, start, pause, status, lower, running } = alarm;
        let waiting = self.board.interrupts.driver.waiting(self.board.timer_line).unwrap_or_default();
        let (whole, part) = self.inverse;
        let part = (part >> 32) as u32;
        HostAlarm { control, interval, stop, start, pause, whole, part, status, lower, running, waiting }
    }

    /// Assembly has stopped the timer, or set it.
    pub fn forget_deadline(&mut self) {
        (self.armed, self.armed_for) = (None, None);
    }

    /// Behind that: the timer interrupts when the guest's counter reaches `deadline`, at the limit, or before.
    pub fn note_deadline(&mut self, start: u64, deadline: Option<u64>) {
        self.armed_for = Some((start, deadline, self.limit));
    }

    /// The guest's counter, which was 0 at `start`, when the scheduler wants to be asked, or a bit before.
    pub fn limit_of(&self, start: u64) -> Option<u64> {
        const BEFORE: u64 = 8;
        let since_start = |limit: u64| u64::try_from(limit.wrapping_sub(start).cast_signed()).unwrap_or(0);
        self.limit.map(|limit| scaled(since_start(limit), self.ratio).saturating_sub(BEFORE))
    }

    /// What is printed from now on is guest `current`'s, and input goes to it.
    pub fn speak_for(&mut self, current: usize) {
        self.current = current;
    }

    /// The scheduler wants to be asked at host time `limit`, whoever runs.
    pub fn set_limit(&mut self, limit: Option<u64>) {
        self.limit = limit;
    }

    /// The running guest's devices have more to do than they may in one go: the scheduler is asked again soon, even if
    /// the guest does nothing but wait for them, with interrupts masked.
    pub fn ask_soon(&mut self) {
        let soon = self.now() + self.ticks(SOON_US);
        self.limit = Some(self.limit.map_or(soon, |limit| limit.min(soon)));
    }

    /// See [`Self::set_limit`].
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// A guest's turn begins, or goes on; `alone`: nobody else wants to run, until there is something to attend to.
    pub fn begin_turn(&mut self, alone: bool) {
        (self.limit_seen, self.entered) = (None, None);
        (self.alone, self.slept) = (alone, 0);
    }

    /// Whether a guest that waits may do so in its turn ([`Self::sleep`]): nothing is to be seen to meanwhile that does
    /// not interrupt.
    pub fn may_sleep(&self) -> bool {
        self.alone && !self.attention && !self.tracer.is_on() && !self.consoles.has_partial()
    }

    /// The guest whose turn it is sleeps until an interrupt comes: of the timer, which is armed, or of another device.
    /// Serves that. The host time.
    ///
    /// To wake it, to find out what it waits for, and to enter it takes microseconds. So if its timer is due at `due`,
    /// the board's is set for a bit before. Then the time is `due`, before it is: all that was to be done then can be
    /// done at once, and the guest goes on when [`Self::stay_until`] returns. The core had nothing else to do.
    pub fn sleep(&mut self, due: Option<u64>) -> u64 {
        let begun = self.now();
        self.note_entry(begun);
        let early = due.map(|due| due.saturating_sub(self.ahead)).filter(|&early| early > begun);
        if let Some(early) = early {
            let at = self.limit.map_or(early, |limit| limit.min(early));
            shared(|| {
                self.board.timer.driver.set_deadline(Some(at));
                (self.armed, self.armed_for) = (Some(Some(at)), None);
            });
        }
        barrier::wait_for_interrupt();
        let now = self.serve_interrupts();
        self.slept += now.saturating_sub(begun);
        due.filter(|due| (now..=now + self.ahead).contains(due)).unwrap_or(now)
    }

    /// Waits until the host time is `time`, for which [`Self::sleep`] has let it go on: for microseconds at most.
    pub fn stay_until(&mut self, time: u64) {
        while self.now() < time {
            core::hint::spin_loop();
        }
    }

    /// Ticks for which the guest has slept since [`Self::begin_turn`].
    pub fn slept(&self) -> u64 {
        self.slept
    }

    /// How late is how late, in ticks of the host's timer: see [`bounds_in_ticks`].
    pub const fn latency_bounds(&self) -> &[u64; BOUNDS.len()] {
        &self.latency_bounds
    }

    /// Host time at which the limit's interrupt was seen, since [`Self::begin_turn`].
    pub fn limit_seen(&self) -> Option<u64> {
        self.limit_seen
    }

    /// Host time up to which nothing was done for the guest but to let it run on, since [`Self::begin_turn`].
    pub fn entered(&self) -> Option<u64> {
        self.entered
    }

    /// From `time` on, what is done is the guest's own. Counts once.
    pub fn note_entry(&mut self, time: u64) {
        self.entered.get_or_insert(time);
    }

    /// Whether there is something to see to that is not the running guest's business: the limit has come, or somebody
    /// typed. True once for each.
    #[inline]
    pub fn wants_attention(&mut self) -> bool {
        core::mem::take(&mut self.attention)
    }

    /// Whether [`Self::wants_attention`] is going to say so.
    #[inline]
    pub const fn is_wanted(&self) -> bool {
        self.attention
    }

    /// The scheduler is to be asked.
    pub fn want_attention(&mut self) {
        self.attention = true;
    }

    /// How many bytes the running guest may print now.
    pub fn console_room(&self) -> usize {
        self.consoles.room(self.current)
    }

    /// A byte of the running guest's for the console.
    pub fn console_put(&mut self, byte: u8) {
        shared(|| self.consoles.put(self.current, byte));
    }

    /// The running guest has printed, and has `more` for which there is no room: it hears when there is.
    pub fn console_printed(&mut self, more: bool) {
        shared(|| {
            if more {
                self.consoles.wait(self.current);
            }
            self.send_console();
        });
    }

    /// Sends some of what is to be shown.
    pub fn send_console(&mut self) {
        let waits = console::send(&mut self.consoles, PRINTED).waits;
        self.attention |= waits && !self.console_waits;
        self.console_waits = waits;
    }

    /// Shows nothing of the guests until [`Self::release_console`], but the beginnings of lines that are there.
    pub fn hold_console(&mut self) {
        self.consoles.show_partial();
        self.send_console();
        self.consoles.hold();
    }

    /// Shows what came since, and what comes.
    pub fn release_console(&mut self) {
        self.consoles.release();
        self.send_console();
    }

    /// The transmitter may have room: sends as much as is allowed in a window of time.
    fn serve_console(&mut self) {
        let now = self.now();
        if now >= self.console_window.0 {
            self.console_window = (now + self.ticks(CONSOLE_WINDOW), 0);
        }
        self.console_window.1 += console::send(&mut self.consoles, CONSOLE_BYTES - self.console_window.1).bytes;
        if self.console_window.1 >= CONSOLE_BYTES {
            console::pause(true);
            self.attention = true;
        }
        self.attention |= self.consoles.others_may_go_on(self.current);
    }

    /// When the console goes on by itself, if it waits.
    pub fn console_deadline(&self) -> Option<u64> {
        console::waits().then_some(self.console_window.0)
    }

    /// Lets the console go on if it has waited long enough.
    pub fn resume_console(&mut self, now: u64) {
        if self.console_deadline().is_some_and(|end| end <= now) {
            self.console_waits = false;
            console::pause(self.board.console_line.is_none());
            self.serve_console();
        }
    }

    /// Sends as much as the port takes now of what is to be said: of a long answer, while no guest wants to run. An
    /// emulated port takes all that it is given, a real one what its FIFO has room for.
    pub fn hurry_console(&mut self) {
        console::send(&mut self.consoles, HURRIED);
    }

    /// Random bytes.
    pub fn random(&mut self, into: &mut [u8]) {
        let clock = self.now();
        shared(|| self.entropy.fill(into, clock));
    }

    /// Frames have come: whoever they are for is to be told, and the scheduler, if it is not the running guest.
    pub fn mark_pending(&mut self) {
        self.attention |= shared(|| self.networks.mark_pending(&mut self.pending, self.current));
    }

    /// Whoever waits for a page that it gave to its balloon may have it now.
    pub fn tell_balloons(&mut self) {
        for &(guest, slot) in &self.balloons {
            self.pending.tell(guest, slot);
            self.attention |= guest != self.current;
        }
    }

    /// The slots of the running guest that have something new, a bit each.
    pub fn take_pending(&mut self) -> u32 {
        let mut slots = self.pending.take(self.current);
        if self.consoles.goes_on(self.current) {
            let own = self.terminals.iter().filter(|&&(guest, _)| guest == self.current);
            slots |= own.fold(0, |slots, &(_, slot)| slots | 1 << slot);
        }
        slots
    }

    /// Whether something was typed for the running guest.
    pub fn has_input(&self) -> bool {
        self.consoles.peek_input(self.current).is_some()
    }

    /// Whether the running guest's devices have anything new from the host: what was typed, or a pending slot.
    pub fn has_news(&self) -> bool {
        self.has_input() || self.pending.is_for(self.current) || self.consoles.may_go_on(self.current)
    }

    /// Takes what was typed for the running guest, as far as there is room, and says how much.
    pub fn take_input(&mut self, into: &mut [u8]) -> usize {
        let mut taken = 0;
        while let Some((byte, place)) = self.consoles.peek_input(self.current).zip(into.get_mut(taken)) {
            *place = byte;
            taken += 1;
            self.consoles.pop_input(self.current);
        }
        taken
    }

    /// Passes on what was typed to the running guest, as far as its UART has room for it.
    pub fn feed_console(&mut self, machine: &mut Machine) {
        while let Some(byte) = self.consoles.peek_input(self.current) {
            if !machine.console_input(byte) {
                break;
            }
            self.consoles.pop_input(self.current);
        }
    }

    /// Serves the host's interrupts between two pieces of work for the running guest. False if that guest's turn must
    /// be begun anew first: the scheduler is wanted, or the timer has interrupted, which it does once, and the turn
    /// arms it.
    pub fn may_go_on(&mut self) -> bool {
        self.serve_interrupts();
        !self.wants_attention() && self.armed_for.is_some()
    }

    /// Acknowledges and serves the interrupts that wait, the timer's last: what waits behind that interrupts once more.
    /// Whoever called has the timer armed again. The host time, as it was behind the timer's interrupt, if that was one
    /// of them: not before what it was set to.
    pub fn serve_interrupts(&mut self) -> u64 {
        let time = shared(|| self.serve_waiting());
        time.unwrap_or_else(|| self.now())
    }

    fn serve_waiting(&mut self) -> Option<u64> {
        let mut time = None;
        while let Some(line) = self.board.interrupts.driver.acknowledge() {
            if line == self.board.timer_line {
                let now = self.board.timer.driver.acknowledge();
                time = Some(now);
                self.armed = None;
                self.armed_for = None;
                if self.limit.is_some_and(|limit| limit <= now) {
                    self.attention = true;
                    self.limit_seen = Some(now);
                }
            } else if Some(line) == self.board.console_line {
                while let Some(byte) = console::read() {
                    if self.typed.len() < TYPED_BYTES {
                        self.typed.push_back(byte);
                    }
                    self.attention = true;
                }
                self.serve_console();
            } else if Some(line) == self.networks.uplink_line() {
                self.serve_uplink(line);
            } else {
                self.attention |= self.disks.interrupt(line, &mut self.pending, self.current);
            }
            self.board.interrupts.driver.end(line);
            if time.is_some() {
                // Most of the time there is no other.
                break;
            }
        }
        time
    }

    /// Moves the frames of the uplink, as many as may come in a window of time.
    fn serve_uplink(&mut self, line: Line) {
        let now = self.now();
        let (end, _) = self.window;
        if now >= end {
            self.window.0 = now + self.ticks(uplink::WINDOW);
        }
        let seconds = now / u64::from(self.board.timer.driver.frequency());
        self.window.1 = self.networks.serve_uplink(seconds, now >= end);
        if self.window.1 {
            self.board.interrupts.driver.disable(line);
            self.attention = true;
        }
        self.mark_pending();
    }

    /// When the uplink goes on, if it waits.
    pub fn uplink_deadline(&self) -> Option<u64> {
        let (end, waits) = self.window;
        waits.then_some(end)
    }

    /// Lets the uplink go on if it has waited long enough.
    pub fn resume_uplink(&mut self, now: u64) {
        if self.uplink_deadline().is_some_and(|end| end <= now)
            && let Some(line) = self.networks.uplink_line()
        {
            // What has come meanwhile may have raised its interrupt already.
            self.board.interrupts.driver.enable(line);
            self.serve_uplink(line);
        }
    }

    /// The next byte that was typed, whomever it is for.
    pub fn next_typed(&mut self) -> Option<u8> {
        self.typed.pop_front()
    }

    /// Whether something was typed that nobody has looked at.
    pub fn has_typed(&self) -> bool {
        !self.typed.is_empty()
    }

    /// Sleeps until an interrupt waits, of the timer at the limit or of another device.
    pub fn wait(&mut self) {
        self.arm_timer(0, None);
        let begun = self.trace_begin();
        barrier::wait_for_interrupt();
        self.trace_idle(begun);
    }
}
