//! What a guest did last, as far as Spica had a part in it: for the report on a guest that stops, or is silent.
//!
//! Kept are exceptions that the guest's kernel takes by way of Rust, its accesses to devices, instructions that are
//! interpreted for it, and what it asks of its firmware. What assembly answers alone is not seen, as most system calls,
//! nor are faults of user code that are answered at once (`trap/fast_abort.rs`): there are so many that nothing else
//! would be left. The same event again and again is kept once, with how often it came.

use core::fmt;

use spica_addr::GuestPa;
use spica_vcpu::Exception;

use super::counters::Class;

/// Events that are kept.
pub const EVENTS: usize = 64;

/// An event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The guest takes an exception.
    Exception(Exception),
    /// A system call: its number by Linux' convention (R7), and where it was made.
    SystemCall {
        /// R7.
        number: u32,
        /// The address of the SVC.
        pc: u32,
    },
    /// An instruction of this class is interpreted.
    Interpreted {
        /// Its class.
        class: Class,
        /// The instruction.
        word: u32,
        /// Its address.
        pc: u32,
    },
    /// The guest reads from a device, or finds nothing there.
    Read(GuestPa),
    /// It writes to a device, or finds nothing there.
    Write(GuestPa),
    /// It calls its firmware (PSCI): R0, and where that was.
    Firmware {
        /// R0.
        function: u32,
        /// The address behind the SMC.
        behind: u32,
    },
}

/// An event, and how often it came in a row.
#[derive(Clone, Copy)]
struct Event {
    what: What,
    times: u32,
    /// The value that was read or written last.
    value: u32,
}

/// The latest events of a virtual CPU.
pub struct Events {
    ring: [Option<Event>; EVENTS],
    /// Where the latest one is.
    latest: usize,
}

impl Default for Events {
    fn default() -> Self {
        Events { ring: [None; EVENTS], latest: 0 }
    }
}

impl Events {
    /// Something happens.
    // Where the kind is known, to compare and to keep it takes half of the instructions.
    #[inline(always)]
    pub fn note(&mut self, what: What) {
        self.note_value(what, 0);
    }

    /// An access to a device, with its value.
    #[inline(always)]
    pub fn note_value(&mut self, what: What, value: u32) {
        match &mut self.ring[self.latest % EVENTS] {
            Some(event) if event.what == what => {
                event.times = event.times.saturating_add(1);
                event.value = value;
            }
            _ => {
                self.latest = (self.latest + 1) % EVENTS;
                self.ring[self.latest % EVENTS] = Some(Event { what, times: 1, value });
            }
        }
    }

    /// From the earliest to the latest, each with how often it came.
    fn all(&self) -> impl DoubleEndedIterator<Item = &Event> {
        let (before, after) = self.ring.split_at((self.latest + 1) % EVENTS);
        after.iter().chain(before).flatten()
    }

    /// From the earliest to the latest, as text.
    pub fn lines(&self) -> impl Iterator<Item = impl fmt::Display> {
        self.all()
    }

    /// The first of the `count` exceptions that came last, without anything in between.
    pub fn first_of(&self, count: u32) -> Option<impl fmt::Display> {
        let mut count = count;
        let exceptions = self.all().rev().take_while(|event| matches!(event.what, What::Exception(_)));
        exceptions
            .take_while(|event| {
                let goes_on = count != 0;
                count = count.saturating_sub(event.times);
                goes_on
            })
            .last()
            .map(|event| Event { times: 1, ..*event })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value;
        match self.what {
            What::Exception(exception) => match exception {
                Exception::Undefined { pc } => write!(f, "{pc:08x} undefined instruction"),
                Exception::SupervisorCall { pc } => write!(f, "{pc:08x} supervisor call"),
                Exception::PrefetchAbort { pc, fsr, far } => {
                    write!(f, "{pc:08x} prefetch abort at {far:08x}, status {fsr:x}")
                }
                Exception::DataAbort { pc, fsr, far } => write!(f, "{pc:08x} data abort at {far:08x}, status {fsr:x}"),
                Exception::Irq { pc } => write!(f, "{pc:08x} interrupt"),
                Exception::Fiq { pc } => write!(f, "{pc:08x} fast interrupt"),
            }?,
            What::SystemCall { number, pc } => write!(f, "{pc:08x} system call {number}")?,
            What::Interpreted { class, word, pc } => write!(f, "{pc:08x} {}, {word:08x}", class.name())?,
            What::Read(pa) => write!(f, "         read of {pa}: {value:x}")?,
            What::Write(pa) => write!(f, "         write to {pa}: {value:x}")?,
            What::Firmware { function, behind } => write!(f, "{behind:08x} firmware call {function:x}")?,
        }
        match self.times {
            1 => Ok(()),
            times => write!(f, ", {times} times"),
        }
    }
}
