//! What each guest did when: rows of spans and points, out of records.

use std::collections::BTreeMap;

use spica_trace_ring::Record;
use spica_trace_ring::record::{self, interrupt, trap, turn};

use crate::names::{self, Name};
use crate::state::Guest;

/// What was recorded.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Ticks of the records' clock in a second.
    pub hertz: u32,
    /// The guests' names, by their numbers.
    pub guests: Vec<String>,
    /// Records, each with its time in 64 bits, as they came.
    pub records: Vec<(u64, Record)>,
    /// Names of tasks, by guest and task.
    pub names: BTreeMap<(usize, u32), String>,
}

/// What something is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The board: who has the processor.
    Board,
    /// A guest, by its number.
    Guest(usize),
}

/// A value beside a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// An address, or bits.
    Hex(u32),
    /// A number.
    Number(u64),
    /// A word.
    Text(Name),
}

/// What else is known of a span or a point.
pub type Details = Vec<(&'static str, Value)>;

/// Something that takes time, in ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it began.
    pub begin: u64,
    /// When it ended.
    pub end: u64,
    /// What it was.
    pub name: Name,
    /// What kind of thing that is, for colours and filters.
    pub category: &'static str,
    /// More of it.
    pub details: Details,
}

/// Something that takes none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// When.
    pub time: u64,
    /// What.
    pub name: Name,
    /// As of spans.
    pub category: &'static str,
    /// More of it.
    pub details: Details,
}

/// A row: its spans lie behind each other, or one within the other.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Where it stands among its subject's rows.
    pub order: u32,
    /// Its spans, in the order of their beginnings; of those that begin together, the longest first.
    pub spans: Vec<Span>,
    /// Its points, in order.
    pub points: Vec<Point>,
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Ticks in a second.
    pub hertz: u32,
    /// The guests' names.
    pub guests: Vec<String>,
    /// The first tick that anything is known of, and the last.
    pub range: (u64, u64),
    /// The rows of each subject, in order.
    pub rows: BTreeMap<Subject, Vec<Row>>,
    /// Blocks that were translated, all of a guest's together: by guest, at a time.
    pub translated: Vec<(usize, u64, u64)>,
    /// Records that had no room.
    pub lost: u64,
}

impl Row {
    pub(crate) fn new(name: impl Into<String>, order: u32) -> Row {
        Row { name: name.into(), order, ..Row::default() }
    }

    pub(crate) fn span(&mut self, begin: u64, end: u64, name: impl Into<Name>, category: &'static str) -> &mut Span {
        self.spans.push(Span { begin, end, name: name.into(), category, details: Vec::new() });
        let last = self.spans.len() - 1;
        &mut self.spans[last]
    }

    pub(crate) fn point(&mut self, time: u64, name: impl Into<Name>, category: &'static str) -> &mut Point {
        self.points.push(Point { time, name: name.into(), category, details: Vec::new() });
        let last = self.points.len() - 1;
        &mut self.points[last]
    }

    /// What was said of the time from `time` on is not so. Spans came in the order of their ends.
    pub(crate) fn cut(&mut self, time: u64) {
        let sound = self.spans.iter().rposition(|span| span.end <= time).map_or(0, |last| last + 1);
        let begun = self.spans.split_off(sound).into_iter().filter(|span| span.begin < time);
        self.spans.extend(begun.map(|span| Span { end: time, ..span }));
    }

    /// Brings its parts in order; what reaches out of what it lies in is cut off there.
    fn settle(&mut self) {
        // A process is around what it does.
        self.spans.sort_by_key(|span| (span.begin, u64::MAX - span.end, span.category != "process"));
        let mut open: Vec<u64> = Vec::new();
        for span in &mut self.spans {
            while open.last().is_some_and(|&end| end <= span.begin && end < span.end) {
                open.pop();
            }
            if let Some(&end) = open.last() {
                span.end = span.end.min(end.max(span.begin));
            }
            open.push(span.end);
        }
        self.points.sort_by_key(|point| point.time);
    }
}

impl Timeline {
    /// The timeline of a recording; of one guest alone, if that is said, and of the board.
    #[must_use]
    pub fn new(recording: &Recording, only: Option<usize>) -> Timeline {
        let mut records = recording.records.clone();
        say_since_when(&mut records);
        // What takes time is recorded at its end. Of what began together, the longest is around the others.
        let length = |record: &Record| if is_span(record.kind) { record.length } else { 0 };
        records.sort_by_key(|(time, record)| (*time, u32::MAX - length(record)));
        let end = |(time, record): &(u64, Record)| time + u64::from(length(record));
        let range = (records.first().map_or(0, |(time, _)| *time), records.iter().map(end).max().unwrap_or(0));
        let mut guests: Vec<Guest> = recording.guests.iter().map(|_| Guest::new(range.0)).collect();
        let task_name = |guest: usize, task: u32| recording.names.get(&(guest, task)).map(String::as_str);
        let mut board = Row::new("processor", 0);
        let mut lost_row = Row::new("lost records", 1);
        let mut lost = 0;
        let mut translated = Vec::new();
        for (time, record) in records {
            let wanted = only.is_none_or(|only| only == usize::from(record.guest));
            match record.kind {
                record::IDLE => _ = board.span(time, time + u64::from(record.length), "idle", "idle"),
                record::LOST => {
                    lost += u64::from(record.argument);
                    let since = time - u64::from(record.length).min(time - range.0);
                    let span = lost_row.span(since, time, "records lost", "lost");
                    span.details.push(("records", Value::Number(record.argument.into())));
                    guests.iter_mut().for_each(|guest| guest.lost(since, time));
                }
                _ => {
                    let number = usize::from(record.guest);
                    let Some(guest) = guests.get_mut(number) else { continue };
                    if record.kind == record::TURN {
                        let end = time + u64::from(record.length);
                        let span = board.span(time, end, recording.guests[number].clone(), "guest");
                        let why = match record.detail {
                            turn::WAIT => "waits for an interrupt",
                            turn::STOP => "stops",
                            _ => "others have something to do",
                        };
                        span.details.push(("then", Value::Text(why.into())));
                    }
                    if wanted {
                        guest.take(time, &record);
                        if record.kind == record::TRANSLATION {
                            translated.push((number, time, u64::from(record.detail)));
                        }
                    }
                }
            }
        }
        let mut sums = vec![0; recording.guests.len()];
        for (guest, _, blocks) in &mut translated {
            sums[*guest] += *blocks;
            *blocks = sums[*guest];
        }
        let mut rows = BTreeMap::from([(Subject::Board, vec![board])]);
        if lost != 0 {
            rows.entry(Subject::Board).or_default().push(lost_row);
        }
        for (number, guest) in guests.into_iter().enumerate() {
            let guest_rows = guest.finish(range.1, &|task| task_name(number, task));
            if !guest_rows.is_empty() {
                rows.insert(Subject::Guest(number), guest_rows);
            }
        }
        rows.values_mut().flatten().for_each(Row::settle);
        Timeline { hertz: recording.hertz, guests: recording.guests.clone(), range, rows, translated, lost }
    }

    /// How many spans and points it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.values().flatten().map(|row| row.spans.len() + row.points.len()).sum()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Nanoseconds from the beginning to a tick.
    #[must_use]
    pub fn nanoseconds(&self, tick: u64) -> u64 {
        let passed = u128::from(tick.saturating_sub(self.range.0));
        (passed * 1_000_000_000 / u128::from(self.hertz.max(1))) as u64
    }
}

/// Makes `length` of what says that records were lost the time since the last that was not: since all that had come by
/// then.
fn say_since_when(records: &mut [(u64, Record)]) {
    let mut known = 0;
    for (time, record) in records {
        if record.kind == record::LOST {
            record.length = time.saturating_sub(known).try_into().unwrap_or(u32::MAX);
        }
        known = known.max(*time + if is_span(record.kind) { u64::from(record.length) } else { 0 });
    }
}

/// Whether `length` of a record of this kind is how long it took.
pub(crate) fn is_span(kind: u8) -> bool {
    matches!(kind, record::TURN | record::IDLE | record::TRANSLATION | record::VIRTIO)
        || (record::TRAP + 1..record::TRAP + 8).contains(&kind)
}

/// How far each interrupt of a guest is.
#[derive(Default)]
pub(crate) struct Interrupts {
    rows: BTreeMap<u32, Row>,
    raised: BTreeMap<u32, u64>,
    active: BTreeMap<u32, u64>,
}

impl Interrupts {
    pub(crate) fn take(&mut self, time: u64, record: &Record) {
        let number = record.argument;
        let row = self.rows.entry(number).or_insert_with(|| {
            Row::new(format!("interrupt {number}: {}", names::interrupt(number)), 100 + number.min(10_000))
        });
        match record.detail {
            interrupt::RAISED => _ = self.raised.entry(number).or_insert(time),
            interrupt::TAKEN => _ = row.point(time, "taken", "interrupt"),
            interrupt::ACKNOWLEDGED => {
                if let Some(raised) = self.raised.remove(&number) {
                    row.span(raised, time, "raised", "interrupt");
                }
                self.active.insert(number, time);
            }
            interrupt::ENDED => {
                if let Some(begun) = self.active.remove(&number) {
                    row.span(begun, time, "handler", "interrupt");
                }
            }
            interrupt::LOWERED => {
                if let Some(raised) = self.raised.remove(&number) {
                    row.span(raised, time, "raised, not acknowledged", "interrupt");
                }
            }
            _ => {}
        }
    }

    /// What is under way is not known any more.
    pub(crate) fn forget(&mut self) {
        self.raised.clear();
        self.active.clear();
    }

    /// What is still under way at the end.
    pub(crate) fn finish(mut self, end: u64) -> impl Iterator<Item = Row> {
        for (name, begun) in [("raised", self.raised), ("handler", self.active)] {
            for (number, begun) in begun {
                if let Some(row) = self.rows.get_mut(&number) {
                    row.span(begun, end, name, "interrupt");
                }
            }
        }
        self.rows.into_values()
    }
}

/// What a trap's record says beside its name.
pub(crate) fn trap_details(record: &Record) -> Details {
    let has = |bit: u16| record.detail & bit != 0;
    let mut details: Details =
        vec![("from", Value::Text(if has(trap::FROM_USER) { "user code" } else { "kernel" }.into()))];
    let kind = record.kind - record::TRAP;
    let svc = u32::from(record.detail & trap::NUMBER);
    let argument = match kind {
        record::class::SUPERVISOR_CALL if has(trap::FROM_USER) => "number",
        record::class::SUPERVISOR_CALL if svc == spica_dbt::trap::EMULATE => "instruction",
        record::class::SUPERVISOR_CALL => "operand",
        record::class::DATA_ABORT if has(trap::DEVICE) => "physical address",
        record::class::DATA_ABORT | record::class::PREFETCH_ABORT => "address",
        _ => "at",
    };
    details.push((argument, Value::Hex(record.argument)));
    if argument == "instruction" {
        details.push(("as text", Value::Text(spica_isa::decode(record.argument).to_string().into())));
    }
    let flags = [
        (trap::SHADOW_FAULT, "shadow fault"),
        (trap::GUEST_ABORT, "guest's abort"),
        (trap::CODE_WRITE, "write to code"),
        (trap::TRANSLATED, "translation"),
        (trap::FLUSHED, "translations dropped"),
    ];
    let with: Vec<_> = flags.iter().filter(|(bit, _)| has(*bit)).map(|(_, name)| *name).collect();
    if !with.is_empty() {
        details.push(("with", Value::Text(with.join(", ").into())));
    }
    details
}
