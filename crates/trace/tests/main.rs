//! The tests of this crate in one program: each program more would be linked with all of it again.

mod calls;
mod names;
mod page;
mod perfetto;
mod random;
mod timeline;

use spica_trace::{Recording, Row, Subject, Timeline};
use spica_trace_ring::Record;
use spica_trace_ring::record::{self, NOBODY, trap, turn};

/// A recording of two guests, with a clock of 1 MHz: a tick is a microsecond.
#[derive(Default)]
struct Recorder(Vec<(u64, Record)>);

impl Recorder {
    fn add(&mut self, time: u64, kind: u8, guest: u8, [detail, length, argument]: [u32; 3]) -> &mut Self {
        let record = Record { time: time as u32, kind, guest, detail: detail as u16, length, argument };
        self.0.push((time, record));
        self
    }

    /// Something of guest 0's that takes no time.
    fn event(&mut self, time: u64, kind: u8, argument: u32) -> &mut Self {
        self.add(time, kind, 0, [0, 0, argument])
    }

    /// A trap of guest 0's.
    fn trap(&mut self, [time, length]: [u64; 2], class: u8, detail: u16, argument: u32) -> &mut Self {
        self.add(time, record::TRAP + class, 0, [detail.into(), length as u32, argument])
    }

    /// A turn of guest 0's.
    fn turn(&mut self, time: u64, length: u32) -> &mut Self {
        self.add(time, record::TURN, 0, [turn::WAIT.into(), length, 0])
    }

    /// A return of guest 0's kernel to user code, with the stack at `sp`.
    fn returns_with(&mut self, time: u64, sp: u32) -> &mut Self {
        self.add(time, record::EXCEPTION_RETURN, 0, [0, sp, 0x8000])
    }

    fn returns(&mut self, time: u64) -> &mut Self {
        self.returns_with(time, 0xf000_5fb0)
    }

    /// Guest 0's kernel runs this task, with the stack at `sp`.
    fn task(&mut self, time: u64, task: u32, sp: u32) -> &mut Self {
        self.add(time, record::TASK, 0, [0, sp, task])
    }

    fn timeline(&self) -> Timeline {
        Timeline::new(&self.recording(), None)
    }

    fn recording(&self) -> Recording {
        let names = [((0, 0xc100_0000), "sh".to_string())].into();
        Recording { hertz: 1_000_000, guests: vec!["web".into(), "<db>".into()], records: self.0.clone(), names }
    }
}

/// A guest that makes a system call and is interrupted, beside one that does nothing but run; something is lost.
fn example() -> Recorder {
    let mut it = Recorder::default();
    it.event(1000, record::CONTEXTIDR, 0x105).event(1001, record::TTBR0, 0x4f00_0059).returns(1010);
    it.event(1100, record::SYSTEM_CALL, 3);
    it.add(1120, record::TRANSLATION, 0, [4, 30, 0xc010_0000]);
    it.trap([1115, 40], record::class::SUPERVISOR_CALL, 1 | trap::TRANSLATED, 0xc010_0000);
    it.returns(1300);
    it.trap([1400, 20], record::class::IRQ, trap::FROM_USER, 0);
    it.add(1400, record::INTERRUPT, 0, [0, 0, 27]);
    it.add(1400, record::INTERRUPT, 0, [1, 0, 27]);
    it.trap([1425, 4], record::class::DATA_ABORT, trap::DEVICE, 0x0801_000c);
    it.add(1425, record::INTERRUPT, 0, [2, 0, 27]);
    it.trap([1460, 4], record::class::DATA_ABORT, trap::DEVICE | trap::WRITE, 0x0801_0010);
    it.add(1460, record::INTERRUPT, 0, [3, 0, 27]);
    it.trap([1480, 4], record::class::DATA_ABORT, trap::DEVICE | trap::WRITE, 0x0a00_0250);
    it.add(1486, record::VIRTIO, 0, [0, 10, 0]);
    it.returns(1600).turn(990, 710);
    it.add(1700, record::TURN, 1, [0, 300, 0]);
    it.add(2000, record::IDLE, NOBODY, [0, 500, 0]);
    it.add(2600, record::LOST, NOBODY, [0, 0, 17]);
    it
}

/// The row of a guest's of which the name begins so.
#[track_caller]
fn row<'a>(timeline: &'a Timeline, guest: usize, name: &str) -> &'a Row {
    let rows = &timeline.rows[&Subject::Guest(guest)];
    let names = || rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>();
    rows.iter().find(|row| row.name.starts_with(name)).unwrap_or_else(|| panic!("no {name:?} in {:?}", names()))
}

/// The spans of a row: begin, end, name.
fn spans(row: &Row) -> Vec<(u64, u64, &str)> {
    row.spans.iter().map(|span| (span.begin, span.end, span.name.as_ref())).collect()
}
