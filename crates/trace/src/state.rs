//! A guest, record by record: which process it is in, whether user code or the kernel runs, and what for.
//!
//! Records say when that changes, if not always what it was before: whether an abort that assembly answers was the
//! guest's own is known from what follows, and so is where a guest goes on in its next turn.

use std::collections::BTreeMap;

use spica_trace_ring::Record;
use spica_trace_ring::record::{self, class, trap};

use crate::names::{self, Name};
use crate::timeline::{Interrupts, Row, Value, trap_details};

/// What runs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mode {
    /// It is not known yet; if it turns out to be the kernel, it is for this.
    Unknown(&'static str),
    /// User code.
    User,
    /// The kernel, for this.
    Kernel(Name),
}

/// It is not known at all.
const UNKNOWN: Mode = Mode::Unknown("kernel");

/// A process, as far as it can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// By the kernel's own pointer to what runs, a thread of it.
    Task(u32),
    /// By its tables.
    Tables(u32),
    /// Not at all.
    Unknown,
    /// One of those that have no row, for there are [`MOST`] already.
    Other,
}

/// Processes with a row of their own at most: a guest can make as many as it has instructions.
const MOST: usize = 4096;

/// What is known of a process.
struct Process {
    row: Row,
    /// What it was about when another one ran.
    left: Mode,
}

/// See the module's text.
pub(crate) struct Guest {
    spica: Row,
    virtio: Row,
    interrupts: Interrupts,
    processes: BTreeMap<Key, Process>,
    /// The process that runs.
    current: Key,
    /// The table that user code has.
    tables: Option<u32>,
    /// The tasks whose kernel stacks are known.
    stacks: BTreeMap<u32, u32>,
    /// Since when it has the processor; `None` if the guest has not.
    since: Option<u64>,
    /// Until when the guest has it.
    until: u64,
    mode: Mode,
    mode_since: u64,
    /// TTBR0 that was written, and when, since user code or a task was last known; and CONTEXTIDR.
    space: Option<(u64, u32)>,
    context: u32,
    /// An abort of user code of which the outcome is not known yet, and its address.
    abort: Option<(u64, u32)>,
}

/// The bits of TTBR0 that are the table's address, if that is as short as can be.
const TABLE: u32 = !0x7f;
/// The bits of CONTEXTIDR that are the ASID.
const ASID: u32 = 0xff;
/// The bits of SP that tell kernel stacks apart: they have 8 KiB.
pub(crate) const STACK: u32 = !0x1fff;

impl Guest {
    pub(crate) fn new(begin: u64) -> Guest {
        Guest {
            spica: Row::new("Spica: traps and translation", 1),
            virtio: Row::new("virtio devices", 2),
            interrupts: Interrupts::default(),
            processes: BTreeMap::new(),
            current: Key::Unknown,
            tables: None,
            stacks: BTreeMap::new(),
            since: None,
            until: 0,
            mode: UNKNOWN,
            mode_since: begin,
            space: None,
            context: 0,
            abort: None,
        }
    }

    /// Takes in the next record of this guest's.
    pub(crate) fn take(&mut self, time: u64, record: &Record) {
        if time > self.until {
            self.rest(self.until);
        }
        if record.kind == record::TURN {
            self.rest(time);
            self.until = time + u64::from(record.length);
            self.begin(time);
            return;
        }
        if self.since.is_none() && record.kind != record::VIRTIO && record.kind != record::INTERRUPT {
            // The record of this turn is lost, or comes when this turn ends.
            self.until = u64::MAX;
            self.begin(time);
        }
        let end = time + u64::from(record.length);
        match record.kind {
            record::SYSTEM_CALL => {
                self.user_was_at(time);
                self.enter(time, Mode::Kernel(names::system_call(record.argument)));
            }
            record::EXCEPTION_RETURN => {
                self.kernel_was_at(time);
                self.returns(time, record.length);
                self.enter(time, Mode::User);
            }
            record::TASK => {
                self.kernel_was_at(time);
                self.stacks.insert(record.length & STACK, record.argument);
                let switched = self.space_written();
                self.switch(switched.unwrap_or(time), Key::Task(record.argument));
            }
            record::TTBR0 => {
                self.kernel_was_at(time);
                self.space = Some((time, record.argument));
            }
            record::CONTEXTIDR => {
                self.kernel_was_at(time);
                self.context = record.argument;
            }
            record::USER_DATA_ABORT | record::USER_PREFETCH_ABORT => {
                self.user_was_at(time);
                self.abort = Some((time, record.argument));
                let point = self.spica.point(time, "abort of user code", "abort");
                point.details.push(("address", Value::Hex(record.argument)));
                point.details.push(("status", Value::Hex(record.length)));
            }
            record::VIRTIO => _ = self.virtio.span(time, end, "devices work", "virtio"),
            record::INTERRUPT => self.interrupts.take(time, record),
            record::TRANSLATION => {
                let span = self.spica.span(time, end, "translation", "translation");
                span.details.push(("blocks", Value::Number(record.detail.into())));
                span.details.push(("for", Value::Hex(record.argument)));
            }
            kind if (record::TRAP + 1..record::TRAP + 8).contains(&kind) => self.trap(time, end, record),
            _ => {}
        }
    }

    /// A trap that Rust answered.
    fn trap(&mut self, time: u64, end: u64, record: &Record) {
        let has = |bit: u16| record.detail & bit != 0;
        let kind = record.kind - record::TRAP;
        if has(trap::FROM_USER) {
            // It came here by assembly, which could not answer it.
            if self.abort.is_some_and(|(_, address)| address == record.argument) && kind != class::SUPERVISOR_CALL {
                self.abort = None;
                self.spica.points.pop();
            }
            let is_call = kind == class::SUPERVISOR_CALL;
            if !is_call {
                self.user_was_at(time);
            }
            let entered = match kind {
                _ if has(trap::TO_USER) => Mode::User,
                class::SUPERVISOR_CALL => self.mode.clone(),
                class::IRQ | class::FIQ if has(trap::LAST) => Mode::Unknown("interrupt"),
                class::IRQ | class::FIQ => Mode::Kernel("interrupt".into()),
                class::UNDEFINED => Mode::Kernel("undefined instruction".into()),
                _ if has(trap::LAST) && !has(trap::GUEST_ABORT) => Mode::Unknown("page fault"),
                _ => Mode::Kernel("page fault".into()),
            };
            self.enter(time, entered);
        } else {
            self.kernel_was_at(time);
            if has(trap::TO_USER) {
                self.enter(end, Mode::User);
            }
        }
        if has(trap::DEVICE | trap::WRITE)
            && let Some(slot) = names::notified_slot(record.argument)
        {
            self.virtio.point(time, format!("driver notifies virtio {slot}"), "virtio");
        }
        let category = if kind == class::IRQ { "interrupt" } else { "trap" };
        let span = self.spica.span(time, end, names::trap(record), category);
        span.details = trap_details(record);
        if has(trap::FLUSHED) {
            self.spica.point(end, "all translations dropped", "flush");
        }
    }

    /// Up to `time`, user code ran.
    fn user_was_at(&mut self, time: u64) {
        if self.space.is_some() {
            self.returns(time, 0);
        }
        self.abort = None;
        match self.mode {
            Mode::Unknown(_) => self.mode = Mode::User,
            // It has returned in a way that is not recorded.
            Mode::Kernel(_) => self.enter(time, Mode::User),
            Mode::User => {}
        }
    }

    /// Up to `time`, the kernel ran.
    fn kernel_was_at(&mut self, time: u64) {
        if let Some((time, _)) = self.abort.take() {
            self.enter(time, Mode::Kernel("page fault".into()));
        }
        match self.mode {
            Mode::Unknown(what) => self.mode = Mode::Kernel(what.into()),
            // It was entered in a way that is not recorded.
            Mode::User => self.enter(time, Mode::Kernel("kernel".into())),
            Mode::Kernel(_) => {}
        }
    }

    /// From `time` on, this is so.
    fn enter(&mut self, time: u64, mode: Mode) {
        self.close_mode(time);
        self.mode = mode;
    }

    fn process(&mut self) -> &mut Process {
        let (current, context) = (self.current, self.context);
        let order = 20_000 + self.processes.len() as u32;
        self.processes.entry(current).or_insert_with(|| {
            let name = match current {
                Key::Task(task) => format!("task {task:#010x}"),
                Key::Tables(tables) => format!("process, ASID {}, tables {tables:#010x}", context & ASID),
                Key::Unknown => "process that is not known".to_string(),
                Key::Other => "others".to_string(),
            };
            Process { row: Row::new(name, order), left: UNKNOWN }
        })
    }

    fn close_mode(&mut self, time: u64) {
        let begun = self.mode_since;
        self.mode_since = time.max(begun);
        if self.since.is_none() || begun >= time {
            return;
        }
        let (name, category) = match &self.mode {
            Mode::Unknown(_) => return,
            Mode::User => ("user code".into(), "user"),
            Mode::Kernel(name) => (name.clone(), "kernel"),
        };
        self.process().row.span(begun, time, name, category);
    }

    fn close_process(&mut self, time: u64) {
        self.close_mode(time);
        if let Some(begun) = self.since.take()
            && begun < time
        {
            let context = self.context;
            let span = self.process().row.span(begun, time, "runs", "process");
            span.details.push(("ASID", Value::Number((context & ASID).into())));
        }
    }

    /// The guest has the processor from `time` on.
    fn begin(&mut self, time: u64) {
        (self.since, self.mode_since) = (Some(time), time);
    }

    /// The guest has the processor no longer since `time`, if it had it.
    fn rest(&mut self, time: u64) {
        if self.since.is_some() {
            self.close_process(time.min(self.until));
        }
    }

    /// When TTBR0 was written, if it was. What it is now is the table that user code has.
    fn space_written(&mut self) -> Option<u64> {
        let (time, ttbr0) = self.space.take()?;
        self.tables = Some(ttbr0 & TABLE);
        Some(time)
    }

    /// The kernel returns to user code, with this SP: of the task whose stack that is, or the process whose tables are
    /// there.
    fn returns(&mut self, time: u64, sp: u32) {
        let switched = self.space_written();
        let task = self.stacks.get(&(sp & STACK)).map(|&task| Key::Task(task));
        let key = task.or(self.tables.map(Key::Tables)).unwrap_or(self.current);
        self.switch(switched.unwrap_or(time), key);
    }

    /// From `time` on, another process runs, or the same one.
    fn switch(&mut self, time: u64, key: Key) {
        let has_row = self.processes.len() < MOST || self.processes.contains_key(&key);
        let key = if has_row { key } else { Key::Other };
        if key == self.current {
            return;
        }
        let time = time.max(self.mode_since);
        let runs = self.since.is_some();
        let left = self.mode.clone();
        self.close_process(time);
        // A task that is seen for the first time is what ran so far, if only its tables were known.
        let known = matches!((self.current, key), (Key::Task(_), _) | (_, Key::Tables(_)));
        self.process().left = left.clone();
        self.current = key;
        self.mode = match &self.process().left {
            Mode::Kernel(name) => Mode::Kernel(name.clone()),
            _ if !known => left,
            Mode::User | Mode::Unknown(_) => Mode::Kernel("kernel".into()),
        };
        if runs {
            self.begin(time);
        }
    }

    /// Records were lost from the one at `from` to `time`.
    pub(crate) fn lost(&mut self, from: u64, time: u64) {
        let since = self.since.filter(|_| self.until > from).map(|since| since.max(from));
        self.rest(from);
        // What had begun by then was written when it had ended, and says of a process what another one may have done.
        self.processes.values_mut().for_each(|process| process.row.cut(from));
        (self.space, self.abort, self.current, self.mode) = (None, None, Key::Unknown, UNKNOWN);
        self.tables = None;
        self.interrupts.forget();
        // It has the processor as long as was said, for a process that is not known.
        (self.since, self.mode_since) = (since, time);
    }

    /// Its rows, of what was known at `end`.
    pub(crate) fn finish<'a>(mut self, end: u64, name: &dyn Fn(u32) -> Option<&'a str>) -> Vec<Row> {
        self.rest(end.min(self.until));
        let processes = self.processes.into_iter().map(|(key, Process { mut row, .. })| {
            if let Key::Task(task) = key
                && let Some(name) = name(task)
            {
                row.name = format!("{name}, task {task:#010x}");
            }
            row
        });
        let rows = [self.spica, self.virtio].into_iter().chain(self.interrupts.finish(end)).chain(processes);
        let mut rows: Vec<Row> = rows.filter(|row| !row.spans.is_empty() || !row.points.is_empty()).collect();
        rows.sort_by_key(|row| row.order);
        rows
    }
}
