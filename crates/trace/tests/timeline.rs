//! What records come to.

use spica_trace::{Subject, Timeline};
use spica_trace_ring::record::{self, NOBODY, class, trap};

use crate::{Recorder, example, row, spans};

#[test]
fn who_has_the_processor() {
    let timeline = example().timeline();
    let board = &timeline.rows[&Subject::Board];
    assert_eq!(spans(&board[0]), [(990, 1700, "web"), (1700, 2000, "<db>"), (2000, 2500, "idle")]);
    assert_eq!(spans(&board[1]), [(2500, 2600, "records lost")]);
    assert_eq!((timeline.lost, timeline.range), (17, (990, 2600)));
}

#[test]
fn a_process_between_user_code_and_kernel() {
    let timeline = example().timeline();
    let unknown = row(&timeline, 0, "process that is not known");
    assert_eq!(spans(unknown), [(990, 1001, "runs"), (990, 1001, "kernel")]);
    let process = row(&timeline, 0, "process, ASID 5, tables 0x4f000000");
    let expected = [
        (1001, 1700, "runs"),
        (1001, 1010, "kernel"),
        (1010, 1100, "user code"),
        (1100, 1300, "read"),
        (1300, 1400, "user code"),
        (1400, 1600, "interrupt"),
        (1600, 1700, "user code"),
    ];
    assert_eq!(spans(process), expected);
}

#[test]
fn traps_translation_and_devices() {
    let timeline = example().timeline();
    let expected = [
        (1115, 1155, "unlinked branch"),
        (1120, 1150, "translation"),
        (1400, 1420, "host interrupt"),
        (1425, 1429, "interrupt controller read"),
        (1460, 1464, "interrupt controller write"),
        (1480, 1484, "virtio write"),
    ];
    assert_eq!(spans(row(&timeline, 0, "Spica")), expected);
    let virtio = row(&timeline, 0, "virtio");
    assert_eq!(spans(virtio), [(1486, 1496, "devices work")]);
    assert_eq!((virtio.points[0].time, virtio.points[0].name.as_ref()), (1480, "driver notifies virtio 1"));
    assert_eq!(timeline.translated, [(0, 1120, 4)]);
}

#[test]
fn an_interrupt_from_the_line_to_its_end() {
    let timeline = example().timeline();
    let timer = row(&timeline, 0, "interrupt 27: virtual timer");
    assert_eq!(spans(timer), [(1400, 1425, "raised"), (1425, 1460, "handler")]);
    assert_eq!(timer.points[0].time, 1400);
}

#[test]
fn an_abort_of_user_code_is_known_by_what_follows() {
    let mut it = Recorder::default();
    it.turn(0, 1000).returns(10);
    // The shadow had no entry; the guest's tables have none; and one that Rust answers.
    it.event(100, record::USER_DATA_ABORT, 0x1000);
    it.event(200, record::USER_PREFETCH_ABORT, 0x2000).returns(300);
    it.event(400, record::USER_DATA_ABORT, 0x3000);
    it.trap([403, 5], class::DATA_ABORT, trap::FROM_USER | trap::GUEST_ABORT, 0x3000).returns(500);
    let timeline = it.timeline();
    let expected = [
        (0, 1000, "runs"),
        (0, 10, "kernel"),
        (10, 200, "user code"),
        (200, 300, "page fault"),
        (300, 403, "user code"),
        (403, 500, "page fault"),
        (500, 1000, "user code"),
    ];
    assert_eq!(spans(row(&timeline, 0, "process")), expected);
    let aborts: Vec<_> = row(&timeline, 0, "Spica").points.iter().map(|point| point.time).collect();
    assert_eq!(aborts, [100, 200], "the third is a span");
}

#[test]
fn a_process_that_sleeps_in_a_system_call_comes_back_to_it() {
    let space = |it: &mut Recorder, time: u64, asid: u32, tables: u32| {
        // As Linux does it: by the kernel's own tables.
        it.event(time, record::TTBR0, 0x4000_4059).event(time + 1, record::CONTEXTIDR, asid);
        it.event(time + 2, record::TTBR0, tables);
    };
    let mut it = Recorder::default();
    it.turn(0, 1000);
    space(&mut it, 10, 1, 0x4100_0059);
    it.returns(20).event(100, record::SYSTEM_CALL, 4);
    space(&mut it, 150, 2, 0x4200_0059);
    it.returns(200).event(300, record::SYSTEM_CALL, 0x0123_4567);
    space(&mut it, 350, 1, 0x4100_0059);
    it.returns(400);
    let timeline = it.timeline();
    let first = [
        (12, 152, "runs"),
        (12, 20, "kernel"),
        (20, 100, "user code"),
        (100, 152, "write"),
        (352, 1000, "runs"),
        (352, 400, "write"),
        (400, 1000, "user code"),
    ];
    assert_eq!(spans(row(&timeline, 0, "process, ASID 1")), first);
    let second =
        [(152, 352, "runs"), (152, 200, "kernel"), (200, 300, "user code"), (300, 352, "system call 0x1234567")];
    assert_eq!(spans(row(&timeline, 0, "process, ASID 2")), second);
}

#[test]
fn where_a_guest_is_after_a_turn_is_known_by_what_follows() {
    let mut it = Recorder::default();
    it.turn(0, 100).returns(10).trap([80, 20], class::IRQ, trap::FROM_USER | trap::LAST, 0);
    // It has taken an interrupt; then it has not.
    it.turn(200, 100).returns(250).trap([290, 10], class::IRQ, trap::FROM_USER | trap::LAST, 0);
    it.turn(400, 100).event(450, record::SYSTEM_CALL, 3);
    let timeline = it.timeline();
    let mut inner = spans(row(&timeline, 0, "process"));
    inner.retain(|span| span.2 != "runs");
    let expected = [
        (0, 10, "kernel"),
        (10, 80, "user code"),
        (200, 250, "interrupt"),
        (250, 290, "user code"),
        (400, 450, "user code"),
        (450, 500, "read"),
    ];
    assert_eq!(inner, expected);
}

#[test]
fn tasks_are_known_by_their_stacks() {
    let mut it = Recorder::default();
    it.turn(0, 1000).event(5, record::CONTEXTIDR, 7).event(6, record::TTBR0, 0x4100_0059).returns(10);
    // Its first trap in the kernel says which task it is.
    it.event(100, record::SYSTEM_CALL, 3).task(120, 0xc100_0000, 0xf000_5e00).returns(200);
    // It waits in a call; a thread of the kernel runs, which has no tables of its own, and is interrupted.
    it.event(300, record::SYSTEM_CALL, 114).task(400, 0xc200_0000, 0xf000_7e00);
    // Another thread of the same process returns, which was not seen before it did.
    it.returns_with(500, 0xf000_9fb0).event(600, record::SYSTEM_CALL, 4).task(610, 0xc300_0000, 0xf000_9f00);
    // The first is back where it was, which is only seen when it returns.
    it.returns_with(700, 0xf000_5fb0);
    let timeline = it.timeline();
    let shell = [
        (120, 400, "runs"),
        (120, 200, "read"),
        (200, 300, "user code"),
        (300, 400, "wait4"),
        (700, 1000, "runs"),
        (700, 1000, "user code"),
    ];
    assert_eq!(spans(row(&timeline, 0, "sh, task 0xc1000000")), shell);
    assert_eq!(spans(row(&timeline, 0, "task 0xc2000000")), [(400, 500, "runs"), (400, 500, "kernel")]);
    let other = [(610, 700, "runs"), (610, 700, "write")];
    assert_eq!(spans(row(&timeline, 0, "task 0xc3000000")), other);
    let process = row(&timeline, 0, "process, ASID 7, tables 0x41000000");
    assert_eq!(spans(process).last(), Some(&(600, 610, "write")));
}

#[test]
fn what_was_lost_is_not_made_up() {
    let mut it = Recorder::default();
    it.event(5, record::TTBR0, 0x4100_0000).returns(10);
    it.add(20, record::INTERRUPT, 0, [0, 0, 33]);
    it.add(500, record::LOST, NOBODY, [0, 0, 9]);
    it.event(600, record::SYSTEM_CALL, 3);
    it.add(700, record::INTERRUPT, 0, [3, 0, 33]).turn(0, 1000);
    let timeline = it.timeline();
    assert_eq!(
        spans(row(&timeline, 0, "process, ASID 0")),
        [(5, 20, "runs"), (5, 10, "kernel"), (10, 20, "user code")]
    );
    let unknown = [(0, 5, "runs"), (0, 5, "kernel"), (20, 1000, "runs"), (500, 600, "user code"), (600, 1000, "read")];
    assert_eq!(spans(row(&timeline, 0, "process that")), unknown);
    let rows = &timeline.rows[&Subject::Guest(0)];
    assert!(rows.iter().all(|row| !row.name.starts_with("interrupt") || row.spans.is_empty()));
}

#[test]
fn what_began_while_records_were_lost_does_not_shorten_that() {
    let mut it = Recorder::default();
    it.turn(0, 100).returns(10).add(500, record::LOST, NOBODY, [0, 0, 9]);
    // Written behind it, for it began before.
    it.turn(300, 400).event(600, record::SYSTEM_CALL, 3);
    let timeline = it.timeline();
    assert_eq!(spans(&timeline.rows[&Subject::Board][1]), [(100, 500, "records lost")]);
    let known = spans(row(&timeline, 0, "process"));
    assert!(known.iter().all(|&(begin, end, name)| name == "runs" || end <= 100 || begin >= 500), "{known:?}");
}

#[test]
fn what_was_known_before_records_were_lost_does_nothing_behind_that() {
    let mut it = Recorder::default();
    it.turn(0, 20).event(1, record::TTBR0, 0x4100_0000).returns(10);
    it.add(50, record::LOST, NOBODY, [0, 0, 9]);
    // Both began before that, and were written when they ended.
    it.trap([40, 20], class::DATA_ABORT, trap::FROM_USER | trap::TO_USER, 0x8000).turn(35, 65);
    let timeline = it.timeline();
    let known = [(1, 20, "runs"), (1, 10, "kernel"), (10, 20, "user code")];
    assert_eq!(spans(row(&timeline, 0, "process, ASID 0")), known);
    let unknown = spans(row(&timeline, 0, "process that"));
    assert_eq!(unknown, [(0, 1, "runs"), (0, 1, "kernel"), (35, 100, "runs")]);
}

#[test]
fn a_guest_with_tasks_without_end_has_so_many_rows() {
    let mut it = Recorder::default();
    it.turn(0, 100_000);
    (0..5000).for_each(|n| _ = it.task(10 * u64::from(n), 0xc000_0000 + 64 * n, 0xf000_0000 + 0x2000 * n));
    let timeline = it.timeline();
    assert_eq!(timeline.rows[&Subject::Guest(0)].len(), 4096);
    assert_eq!(row(&timeline, 0, "others").spans.iter().filter(|span| span.name == "kernel").count(), 1);
    // The first ones still have theirs.
    it.task(60_000, 0xc000_0000, 0xf000_0000);
    assert_eq!(spans(row(&it.timeline(), 0, "task 0xc0000000")).last(), Some(&(60_000, 100_000, "kernel")));
}

#[test]
fn all_translations_that_are_dropped_are_a_point() {
    let mut it = Recorder::default();
    it.turn(0, 100).trap([20, 30], class::SUPERVISOR_CALL, 1 | trap::FLUSHED, 0xc010_0000);
    let timeline = it.timeline();
    let points: Vec<_> = row(&timeline, 0, "Spica").points.iter().map(|p| (p.time, p.name.as_ref())).collect();
    assert_eq!(points, [(50, "all translations dropped")]);
}

#[test]
fn one_guest_alone() {
    let timeline = Timeline::new(&example().recording(), Some(1));
    assert!(!timeline.rows.contains_key(&Subject::Guest(0)) && timeline.translated.is_empty());
    assert_eq!(spans(row(&timeline, 1, "process")), [(1700, 2000, "runs")]);
    assert_eq!(timeline.rows[&Subject::Board][0].spans.len(), 3, "who had the processor is said of all");
}
