//! A timeline as Perfetto's viewer (and Chrome's) reads it: JSON of the Trace Event Format.
//!
//! A subject is a *process* there, a row a *thread*: spans are complete events (`X`), points are instants (`i`), the
//! number of translated blocks is a counter (`C`), and names are metadata (`M`). Times are microseconds from the
//! beginning, with three decimals.

use std::io::{Result, Write};

use serde::ser::{SerializeMap, Serializer};
use serde::{Serialize, ser};

use crate::timeline::{Details, Subject, Timeline, Value};

/// An event. The field names are the format's.
#[derive(Serialize)]
struct Event<'a> {
    ph: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    pid: usize,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "microseconds")]
    ts: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "microseconds")]
    dur: Option<u64>,
    /// Whose an instant is: of its thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'static str>,
    #[serde(skip_serializing_if = "Args::is_empty")]
    args: Args<'a>,
}

enum Args<'a> {
    Details(&'a Details),
    Text(&'static str, &'a str),
    Number(&'static str, u64),
}

impl Args<'_> {
    fn is_empty(&self) -> bool {
        matches!(self, Args::Details(details) if details.is_empty())
    }
}

impl Serialize for Args<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Args::Text(key, text) => map.serialize_entry(key, text)?,
            Args::Number(key, number) => map.serialize_entry(key, number)?,
            Args::Details(details) => {
                for (key, value) in *details {
                    match value {
                        Value::Hex(number) => map.serialize_entry(key, &format!("{number:#010x}"))?,
                        Value::Number(number) => map.serialize_entry(key, number)?,
                        Value::Text(text) => map.serialize_entry(key, text)?,
                    }
                }
            }
        }
        map.end()
    }
}

/// Nanoseconds as microseconds, exactly: the format has fractions for that.
fn microseconds<S: Serializer>(nanoseconds: &Option<u64>, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    let nanoseconds = nanoseconds.ok_or_else(|| ser::Error::custom("a time that is none"))?;
    serializer.serialize_f64(nanoseconds as f64 / 1000.0)
}

/// The number of a subject as a process.
fn pid(subject: Subject) -> usize {
    match subject {
        Subject::Board => 1,
        Subject::Guest(number) => 2 + number,
    }
}

struct Writer<W> {
    to: W,
    begun: bool,
}

impl<W: Write> Writer<W> {
    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        self.to.write_all(if std::mem::replace(&mut self.begun, true) { b",\n" } else { b"\n" })?;
        serde_json::to_writer(&mut self.to, event)?;
        Ok(())
    }
}

/// Writes a timeline.
///
/// # Errors
/// If `to` does.
pub fn write(timeline: &Timeline, to: impl Write) -> Result<()> {
    let mut writer = Writer { to, begun: false };
    write!(writer.to, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"lost records\":{}}},", timeline.lost)?;
    write!(writer.to, "\"traceEvents\":[")?;
    let plain =
        Event { ph: "M", name: "", cat: None, pid: 0, tid: 0, ts: None, dur: None, s: None, args: Args::Text("", "") };
    for (&subject, rows) in &timeline.rows {
        let pid = pid(subject);
        let name = match subject {
            Subject::Board => "board",
            Subject::Guest(number) => &timeline.guests[number],
        };
        writer.event(&Event { name: "process_name", pid, args: Args::Text("name", name), ..plain })?;
        let order = Args::Number("sort_index", pid as u64);
        writer.event(&Event { name: "process_sort_index", pid, args: order, ..plain })?;
        for (tid, row) in (1..).zip(rows) {
            writer.event(&Event { name: "thread_name", pid, tid, args: Args::Text("name", &row.name), ..plain })?;
            let order = Args::Number("sort_index", row.order.into());
            writer.event(&Event { name: "thread_sort_index", pid, tid, args: order, ..plain })?;
            for span in &row.spans {
                let (begin, end) = (timeline.nanoseconds(span.begin), timeline.nanoseconds(span.end));
                writer.event(&Event {
                    ph: "X",
                    name: &span.name,
                    cat: Some(span.category),
                    pid,
                    tid,
                    ts: Some(begin),
                    dur: Some(end - begin),
                    args: Args::Details(&span.details),
                    ..plain
                })?;
            }
            for point in &row.points {
                writer.event(&Event {
                    ph: "i",
                    name: &point.name,
                    cat: Some(point.category),
                    pid,
                    tid,
                    ts: Some(timeline.nanoseconds(point.time)),
                    s: Some("t"),
                    args: Args::Details(&point.details),
                    ..plain
                })?;
            }
        }
    }
    for &(guest, time, blocks) in &timeline.translated {
        writer.event(&Event {
            ph: "C",
            name: "blocks translated",
            pid: pid(Subject::Guest(guest)),
            ts: Some(timeline.nanoseconds(time)),
            args: Args::Number("blocks", blocks),
            ..plain
        })?;
    }
    writer.to.write_all(b"\n]}\n")?;
    writer.to.flush()
}
