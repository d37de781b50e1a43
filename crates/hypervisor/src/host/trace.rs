//! The timeline: records of what guests do, while somebody asks for them (`spica trace`).
//!
//! The ring is taken from the heap when that is first so, and stays; where it is known from the start that guests are
//! to be recorded, it is a larger one, of memory of its own. Each turn of a guest begins with the question whether
//! records are wanted ([`Tracer::is_on`]), so that no trap asks. What assembly answers alone is recorded by vectors
//! that are in force meanwhile (`world/trace.s`).

use alloc::boxed::Box;
use alloc::vec::Vec;

use spica_addr::GuestPa;
use spica_trace_ring::record::{self, Record, class, trap};
use spica_trace_ring::{Ring, SLOTS, wire};

use super::Host;
use crate::memory::pool;
use crate::vm::Pause;
use crate::world::Privilege;

/// Longer than whoever reads takes from one question to the next.
const PATIENCE: u32 = 1_000_000;

/// Records of the ring that is there from the start: more than a boot of Debian makes, which has them faster than a
/// serial line.
const MANY: usize = 1 << 18;

/// So many ticks pass at most without a record or a look at the clock: a quarter of a turn of its low half.
const LONGEST: u64 = 1 << 30;

/// See the module's text.
#[derive(Default)]
pub struct Tracer {
    on: bool,
    /// Only system calls are recorded, and who makes them.
    calls: bool,
    /// The ring, once it was wanted.
    ring: Option<&'static Ring>,
    state: State,
    /// The trap that is being answered.
    open: Option<Record>,
    /// What the running guest had counted when it went on last: that is what it has at its next trap.
    counted: Counted,
    /// The device that was last accessed, and whether it was written to.
    device: (GuestPa, bool),
    /// Of each guest, what was last recorded.
    seen: Vec<Seen>,
    /// When the timer of the guest was due that has its turn, if that was before.
    due: Option<u32>,
    /// The time of the last record that was read.
    read: u64,
    /// When all guests were over, or the ring was read after that. Some may be started again.
    last: Option<u64>,
}

/// Interrupts of a guest: that which is signalled, and that which is active.
pub type Interrupts = (Option<u32>, Option<u32>);

/// What was last recorded of a guest.
#[derive(Clone, Copy, Default)]
struct Seen {
    interrupts: Interrupts,
    task: u32,
}

/// Kernels have their data in the upper half, programs in the lower one.
const KERNEL: u32 = 0x8000_0000;

/// Who records for whom.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Nobody.
    #[default]
    Off,
    /// For whoever comes.
    Waiting,
    /// For somebody who has come.
    Claimed,
}

fn leaked(ring: Ring) -> &'static Ring {
    Box::leak(Box::new(ring))
}

/// What a guest counts, for differences.
#[derive(Clone, Copy, Default)]
#[expect(missing_docs, reason = "named after what they count")]
pub struct Counted {
    pub shadow_faults: u32,
    pub guest_aborts: u32,
    pub device_accesses: u32,
    pub code_writes: u32,
    pub blocks: u32,
    pub flushes: u32,
    pub interrupts: u32,
}

impl Counted {
    /// What has happened since `before`: bits of a record.
    fn since(&self, before: &Counted) -> u16 {
        let bit = |now: u32, before: u32, bit: u16| if now == before { 0 } else { bit };
        bit(self.shadow_faults, before.shadow_faults, trap::SHADOW_FAULT)
            | bit(self.guest_aborts, before.guest_aborts, trap::GUEST_ABORT)
            | bit(self.device_accesses, before.device_accesses, trap::DEVICE)
            | bit(self.code_writes, before.code_writes, trap::CODE_WRITE)
            | bit(self.blocks, before.blocks, trap::TRANSLATED)
            | bit(self.flushes, before.flushes, trap::FLUSHED)
    }
}

impl Tracer {
    /// Whether records are wanted.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// A device was accessed.
    #[inline]
    pub fn note_device(&mut self, pa: GuestPa, write: bool) {
        self.device = (pa, write);
    }

    /// Whether all guests are over, and what is left waits for somebody to read it.
    pub fn is_ending(&self) -> bool {
        self.last.is_some()
    }

    /// How many records wait to be read, those that say how many were lost included.
    pub fn waiting(&self) -> usize {
        self.ring.map_or(0, |ring| ring.len() + usize::from(ring.lost.get() != 0))
    }

    fn push(&self, record: Record) {
        if let Some(ring) = self.ring.filter(|_| !self.calls || record.kind == record::TASK) {
            ring.push(record);
        }
    }
}

impl Host {
    /// Guests are to be recorded from the start on: takes a ring of memory that nobody else wants. If there is none, it
    /// will be the usual one.
    pub fn reserve_trace(&mut self) {
        // Some more, for what the heap keeps of its own.
        let bytes = Ring::bytes(MANY) as u32 + 4096;
        if pool::Share::take(bytes, 0).is_ok() {
            self.tracer.ring = Ring::new(MANY).map(leaked);
        }
    }

    /// Records from now on, for somebody if `claim`, who also gets what was recorded for whoever comes; no more than
    /// system calls if `calls`. Gives the ring.
    ///
    /// # Errors
    /// If that is done for somebody already, or there is no memory.
    pub fn start_trace(&mut self, claim: bool, calls: bool, guests: usize) -> Result<&'static Ring, &'static str> {
        // What is recorded for whoever comes is a timeline.
        if self.tracer.state == State::Claimed || calls && self.tracer.state == State::Waiting {
            return Err("what this board's guests do is recorded for somebody else already");
        }
        const NO_MEMORY: &str = "there is no memory for that";
        let ring = match self.tracer.ring {
            Some(ring) => ring,
            None => leaked(Ring::new(SLOTS).ok_or(NO_MEMORY)?),
        };
        self.tracer.ring = Some(ring);
        if self.tracer.state == State::Off {
            let seen = &mut self.tracer.seen;
            seen.clear();
            seen.try_reserve_exact(guests).map_err(|_| NO_MEMORY)?;
            seen.resize(guests, Seen::default());
            ring.clear();
            self.tracer.read = self.now();
            ring.set_time(self.tracer.read);
            if let Some(counter) = self.board.timer.driver.counter() {
                ring.clock.set(counter.address);
                ring.complement.set(if counter.down { u32::MAX } else { 0 });
            }
        }
        self.tracer.calls = calls;
        let state = if claim { State::Claimed } else { State::Waiting };
        (self.tracer.state, self.tracer.on) = (state, true);
        Ok(ring)
    }

    /// Records no longer.
    pub fn stop_trace(&mut self) {
        (self.tracer.on, self.tracer.state, self.tracer.open) = (false, State::Off, None);
    }

    /// Takes a piece of what was recorded ([`wire`]), of so many bytes at most.
    pub fn take_trace(&mut self, most: usize) -> Vec<u8> {
        let now = self.now();
        self.tracer.last = self.tracer.last.map(|_| now);
        let read = &mut self.tracer.read;
        self.tracer.ring.map_or_else(Vec::new, |ring| wire::take(ring, read, now, most))
    }

    /// Hertz of the clock of the records, and how many of them there is room for.
    pub fn trace_clock(&self) -> (u32, usize) {
        (self.board.timer.driver.frequency(), self.tracer.ring.map_or(0, Ring::slots))
    }

    /// When to look at the clock, so that no record is too far from the one before.
    pub fn trace_deadline(&self, now: u64) -> Option<u64> {
        self.tracer.is_on().then_some(now + LONGEST)
    }

    /// All guests are over. Whether the board stays on, for somebody to read the rest.
    pub fn trace_is_awaited(&mut self, now: u64) -> bool {
        if self.tracer.state == State::Off || self.tracer.waiting() == 0 {
            return false;
        }
        now < *self.tracer.last.get_or_insert(now) + self.ticks(PATIENCE)
    }

    /// Something begins that takes time; `None` if records are not wanted.
    #[inline]
    pub fn trace_begin(&mut self) -> Option<u32> {
        if self.tracer.is_on() { Some(self.trace_now()) } else { None }
    }

    /// The time of a record; whoever takes long says it more often than [`LONGEST`] passes.
    #[cold]
    fn trace_now(&mut self) -> u32 {
        let now = self.now();
        if let Some(ring) = self.tracer.ring {
            ring.set_time(now);
        }
        now as u32
    }

    fn trace_end(&mut self, begun: u32, record: Record) {
        let length = (self.now() as u32).wrapping_sub(begun);
        self.tracer.push(Record { time: begun, length, ..record });
    }

    fn of_guest(&self, kind: u8) -> Record {
        Record { kind, guest: self.current as u8, ..Record::default() }
    }

    /// Nobody wanted to run.
    pub fn trace_idle(&mut self, begun: Option<u32>) {
        if let Some(begun) = begun {
            self.trace_end(begun, Record { kind: record::IDLE, guest: record::NOBODY, ..Record::default() });
        }
    }

    /// Virtio devices of the running guest have worked.
    pub fn trace_virtio(&mut self, begun: Option<u32>) {
        if let Some(begun) = begun {
            self.trace_end(begun, self.of_guest(record::VIRTIO));
        }
    }

    /// The running guest's turn begins. Its timer is or was `due`.
    #[cold]
    pub fn trace_turn_begins(&mut self, due: Option<u64>) -> Option<u32> {
        let begun = self.trace_begin()?;
        let now = self.now();
        (self.tracer.open, self.tracer.last) = (None, None);
        self.tracer.due = due.filter(|&due| due < now && now - due < LONGEST).map(|due| due as u32);
        if let Some(ring) = self.tracer.ring {
            ring.set_guest(self.current as u8);
        }
        Some(begun)
    }

    /// It ends.
    #[cold]
    pub fn trace_turn_ends(&mut self, begun: u32, pause: Option<Pause>) {
        let detail = match pause {
            Some(Pause::Yield) => record::turn::YIELD,
            Some(Pause::Wait) => record::turn::WAIT,
            Some(Pause::Stop(_)) | None => record::turn::STOP,
        };
        self.trace_end(begun, Record { detail, ..self.of_guest(record::TURN) });
    }

    /// The running guest's kernel has trapped, with this in TPIDRURO and SP.
    pub fn trace_task(&mut self, task: u32, sp: u32) {
        let Some(seen) = self.tracer.seen.get_mut(self.current) else { return };
        if task >= KERNEL && task != seen.task {
            seen.task = task;
            let time = self.now() as u32;
            self.tracer.push(Record { time, length: sp, argument: task, ..self.of_guest(record::TASK) });
        }
    }

    /// The running guest has trapped.
    pub fn trace_trap(&mut self, record: Record) {
        let (time, guest) = (self.now() as u32, self.current as u8);
        self.tracer.open = Some(Record { time, guest, ..record });
    }

    /// The running guest, which has no turn, has an interrupt since `due`, or since now.
    #[cold]
    pub fn trace_wake(&mut self, due: Option<u64>, interrupts: Interrupts) {
        let now = self.now();
        self.tracer.due = due.filter(|&due| now - due.min(now) < LONGEST).map(|due| due as u32);
        self.trace_interrupts(now as u32, interrupts, false);
    }

    /// The running guest goes on, at `next`, or its turn ends.
    pub fn trace_answer(&mut self, next: Option<Privilege>, counted: Counted, interrupts: impl FnOnce() -> Interrupts) {
        let now = self.now() as u32;
        let mut since = now;
        let mut taken = false;
        let before = core::mem::replace(&mut self.tracer.counted, counted);
        if let Some(mut record) = self.tracer.open.take() {
            since = record.time;
            record.length = now.wrapping_sub(since);
            record.detail |= counted.since(&before);
            record.detail |= match next {
                Some(Privilege::User) => trap::TO_USER,
                Some(Privilege::Kernel) => 0,
                None => trap::LAST,
            };
            if record.detail & trap::DEVICE != 0 {
                let (pa, write) = self.tracer.device;
                record.argument = pa.0;
                record.detail |= if write { trap::WRITE } else { 0 };
            }
            taken = counted.interrupts != before.interrupts;
            self.tracer.push(record);
            // Few others change what becomes of interrupts.
            let may_change = match record.kind - record::TRAP {
                class::IRQ | class::FIQ => true,
                class::SUPERVISOR_CALL => u32::from(record.detail & trap::NUMBER) == spica_dbt::trap::EMULATE,
                _ => record.detail & trap::DEVICE != 0,
            };
            if !may_change && !taken && next.is_some() {
                return;
            }
        }
        self.trace_interrupts(since, interrupts(), taken);
    }

    /// What has become of the running guest's interrupts, as of `time`. One that is the processor's own is of a timer,
    /// and raised since that was due.
    fn trace_interrupts(&mut self, time: u32, now: Interrupts, taken: bool) {
        let record = self.of_guest(record::INTERRUPT);
        let due = self.tracer.due.take();
        let Some(seen) = self.tracer.seen.get_mut(self.current) else { return };
        let (signalled, active) = core::mem::replace(&mut seen.interrupts, now);
        let push = |detail: u16, interrupt: Option<u32>| {
            if let Some(argument) = interrupt {
                let is_timer = detail == record::interrupt::RAISED && (16..32).contains(&argument);
                let time = due.filter(|_| is_timer).unwrap_or(time);
                self.tracer.push(Record { time, detail, argument, ..record });
            }
        };
        if now.1 != active {
            // It has come and been acknowledged in one access.
            if now.1.is_some() && now.1 != signalled {
                push(record::interrupt::RAISED, now.1);
            }
            let detail = if now.1.is_some() { record::interrupt::ACKNOWLEDGED } else { record::interrupt::ENDED };
            push(detail, now.1.or(active));
        }
        if now.0 != signalled {
            match now.0 {
                Some(_) => push(record::interrupt::RAISED, now.0),
                None if now.1 == active => push(record::interrupt::LOWERED, signalled),
                None => {}
            }
        }
        if taken {
            push(record::interrupt::TAKEN, now.0);
        }
    }
}
