//! The system calls of a Linux guest's programs, one by one, of records that have nothing else: who called, what with,
//! what came back, and how long it took.
//!
//! Records do not say who calls. But who returns to user code is known by the kernel's stack, of which each task has
//! one: and a call is by whoever returned last. Its end is the next return with that stack. What it returns with is R0,
//! if it goes on behind the call: else a signal's handler begins there, or another program, and the call's own result
//! is not known.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use spica_trace_ring::record;

use crate::names;
use crate::state::STACK;
use crate::timeline::Recording;

/// Registers of a call.
const REGISTERS: usize = 7;
/// What a call leaves unsaid where its records were lost.
const NOTHING: [Option<u32>; REGISTERS] = [None; REGISTERS];

/// What has become of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It has returned this, in R0.
    Returned(u32),
    /// The task goes on elsewhere, as in a signal's handler or another program.
    Elsewhere(u32),
    /// It has not returned, or that was not recorded.
    Unknown,
}

/// A system call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// When it was made, in ticks of the recording's clock.
    pub begin: u64,
    /// How long it took, if its end is known.
    pub length: Option<u64>,
    /// The kernel's stack, by which calls of one task are told from those of others; `None` if that is not known.
    pub stack: Option<u32>,
    /// The task whose stack that is, if that is known.
    pub task: Option<u32>,
    /// Its number: R7.
    pub number: u32,
    /// R0 to R6, as far as they were recorded.
    pub arguments: [Option<u32>; REGISTERS],
    /// The address behind the instruction.
    pub behind: u32,
    /// See there.
    pub outcome: Outcome,
}

/// The calls of a recording, in the order in which they were made.
#[derive(Default, Debug)]
pub struct Calls {
    /// The calls.
    pub calls: Vec<Call>,
    /// Records that were lost: a call has five, its end has two.
    pub lost: u64,
}

/// A guest, from record to record.
#[derive(Default)]
struct Guest {
    /// The stack of the task that returned to user code last.
    current: Option<u32>,
    /// The last call of each stack, if that has not returned.
    pending: BTreeMap<u32, usize>,
    /// The task that each stack is of, as far as is known.
    tasks: BTreeMap<u32, u32>,
    /// The call whose registers are being recorded.
    recorded: Option<usize>,
    /// A return that follows: when, the stack, and where to.
    returns: Option<(u64, u32, u32)>,
}

impl Calls {
    /// Makes calls of records, as the board writes them where it records nothing else.
    #[must_use]
    pub fn new(recording: &Recording) -> Self {
        let (mut all, mut guests) = (Self::default(), BTreeMap::<u8, Guest>::new());
        for (time, record) in &recording.records {
            if record.kind == record::LOST {
                all.lost += u64::from(record.argument);
                // Who runs and what has ended is not known any more.
                for guest in guests.values_mut() {
                    (guest.current, guest.recorded, guest.returns) = (None, None, None);
                    guest.pending.clear();
                }
                continue;
            }
            let guest = guests.entry(record.guest).or_default();
            let (first, second) = (record.length, record.argument);
            match record.kind {
                record::TASK => _ = guest.tasks.insert(first & STACK, second),
                record::SYSTEM_CALL => all.begin(guest, *time, first, second),
                record::CALL_R0 => all.note(guest, 0, &[first, second]),
                record::CALL_R2 => all.note(guest, 2, &[first, second]),
                record::CALL_R4 => all.note(guest, 4, &[first, second]),
                record::CALL_R6 => all.note(guest, 6, &[first]),
                record::EXCEPTION_RETURN => {
                    guest.returns = Some((*time, first & STACK, second));
                    guest.current = Some(first & STACK);
                }
                record::RETURN_R0 => all.end(guest, first),
                _ => {}
            }
        }
        // A task is often seen only after its first call.
        for call in &mut all.calls {
            let known = call.stack.and_then(|stack| guests.values().find_map(|guest| guest.tasks.get(&stack)));
            call.task = call.task.or(known.copied());
        }
        all
    }

    fn begin(&mut self, guest: &mut Guest, begin: u64, behind: u32, number: u32) {
        let (stack, outcome) = (guest.current, Outcome::Unknown);
        let task = stack.and_then(|stack| guest.tasks.get(&stack).copied());
        let at = self.calls.len();
        self.calls.push(Call { begin, length: None, stack, task, number, arguments: NOTHING, behind, outcome });
        guest.recorded = Some(at);
        if let Some(stack) = stack {
            guest.pending.insert(stack, at);
        }
    }

    fn note(&mut self, guest: &Guest, from: usize, values: &[u32]) {
        if let Some(call) = guest.recorded.and_then(|at| self.calls.get_mut(at)) {
            for (argument, value) in call.arguments[from..].iter_mut().zip(values) {
                *argument = Some(*value);
            }
        }
    }

    fn end(&mut self, guest: &mut Guest, result: u32) {
        let Some((time, stack, to)) = guest.returns.take() else { return };
        if let Some(call) = guest.pending.remove(&stack).and_then(|at| self.calls.get_mut(at)) {
            call.length = Some(time.saturating_sub(call.begin));
            let goes_on = call.behind & !1 == to & !1;
            call.outcome = if goes_on { Outcome::Returned(result) } else { Outcome::Elsewhere(to) };
        }
    }
}

/// The highest number of an error (MAX_ERRNO): a call that fails returns it, negated.
const MAX_ERROR: u32 = 4095;

impl Call {
    /// The error that it failed with, if it did.
    #[must_use]
    pub fn error(&self) -> Option<u32> {
        match self.outcome {
            Outcome::Returned(result) => Some(result.wrapping_neg()).filter(|error| (1..=MAX_ERROR).contains(error)),
            Outcome::Elsewhere(_) | Outcome::Unknown => None,
        }
    }

    /// The registers that the call reads, as far as is known which these are.
    fn read(&self) -> &[Option<u32>] {
        &self.arguments[..names::arguments(self.number).min(REGISTERS)]
    }

    /// The call as a line: `seconds who name(registers) = result <seconds>`. `names` are those of tasks.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, recording: &Recording, guest: usize, out: &mut impl Write) -> fmt::Result {
        let seconds = |ticks: u64| ticks as f64 / f64::from(recording.hertz.max(1));
        let first = recording.records.first().map_or(0, |(time, _)| *time);
        write!(out, "{:11.6} ", seconds(self.begin.saturating_sub(first)))?;
        match (self.task, self.stack) {
            (Some(task), _) => match recording.names.get(&(guest, task)) {
                Some(name) => write!(out, "{name}[{task:08x}] ")?,
                None => write!(out, "task[{task:08x}] ")?,
            },
            (None, Some(stack)) => write!(out, "stack[{stack:08x}] ")?,
            (None, None) => write!(out, "? ")?,
        }
        write!(out, "{}(", names::system_call(self.number))?;
        for (n, argument) in self.read().iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            match argument {
                Some(value @ ..10) => write!(out, "{comma}{value}")?,
                Some(value) => write!(out, "{comma}{value:#x}")?,
                None => write!(out, "{comma}?")?,
            }
        }
        match (self.outcome, self.error()) {
            (_, Some(error)) => match names::error(error) {
                Some(name) => write!(out, ") = -{error} {name}")?,
                None => write!(out, ") = -{error}")?,
            },
            (Outcome::Returned(result @ ..10), _) => write!(out, ") = {result}")?,
            (Outcome::Returned(result), _) => write!(out, ") = {result:#x}")?,
            (Outcome::Elsewhere(to), _) => write!(out, ") = ? goes on at {to:#x}")?,
            (Outcome::Unknown, _) => write!(out, ") = ?")?,
        }
        match self.length {
            Some(length) => writeln!(out, " <{:.6}>", seconds(length)),
            None => writeln!(out),
        }
    }

    /// The call as a line of JSON: numbers as they are, times in seconds; what is not known is `null`.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_json(&self, recording: &Recording, guest: usize, out: &mut impl Write) -> fmt::Result {
        let seconds = |ticks: u64| ticks as f64 / f64::from(recording.hertz.max(1));
        let first = recording.records.first().map_or(0, |(time, _)| *time);
        let number = |value: Option<u32>| value.map_or("null".to_string(), |value| value.to_string());
        // Names of tasks are a guest's own: they are text, but any.
        let name = self.task.and_then(|task| recording.names.get(&(guest, task)));
        let name =
            name.map_or("null".to_string(), |name| format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")));
        write!(out, "{{\"time\":{:.9},", seconds(self.begin.saturating_sub(first)))?;
        write!(out, "\"task\":{},\"name\":{name},\"number\":{},", number(self.task), self.number)?;
        write!(out, "\"call\":\"{}\",\"arguments\":[", names::system_call(self.number))?;
        for (n, argument) in self.read().iter().enumerate() {
            write!(out, "{}{}", if n == 0 { "" } else { "," }, number(*argument))?;
        }
        let result =
            if let Outcome::Returned(result) = self.outcome { result.cast_signed().to_string() } else { "null".into() };
        let length = self.length.map_or("null".to_string(), |length| format!("{:.9}", seconds(length)));
        writeln!(out, "],\"result\":{result},\"seconds\":{length}}}")
    }
}
