use alloc::vec;
use alloc::vec::Vec;

use crate::backend::DiskError;
use crate::testing::{BUFFERS, Buffer, Rig, read};
use crate::{Malformed, Plug, Work};

const B: u64 = BUFFERS as u64;
const STATUS: u32 = BUFFERS + 16;
const DATA: u32 = BUFFERS + 0x100;
/// A status that no device writes.
const NONE: u8 = 0xee;

fn plug(read_only: bool) -> Plug {
    Plug::Block { disk: 0, sectors: 64, read_only, serial: *b"serial number 12345\0" }
}

/// Makes a request, and gives status and bytes written once it is done.
fn request(rig: &mut Rig, kind: u32, sector: u64, data: &[Buffer]) -> Option<(u8, u32)> {
    begin(rig, kind, sector, data);
    rig.kick(0);
    rig.used(0).map(|(_, written)| (rig.ram.get(STATUS, 1)[0], written))
}

fn begin(rig: &mut Rig, kind: u32, sector: u64, data: &[Buffer]) {
    let header = [&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat();
    rig.ram.set(BUFFERS, &header);
    rig.ram.set(STATUS, &[NONE]);
    let chain = [&[Buffer::Read(B, 16)], data, &[Buffer::Write(STATUS.into(), 1)]].concat();
    rig.driver.queues[0].put(&mut rig.ram, &chain);
}

fn read_to(at: u32, len: u32) -> Buffer {
    Buffer::Write(at.into(), len)
}

fn write_from(at: u32, len: u32) -> Buffer {
    Buffer::Read(at.into(), len)
}

#[test]
fn says_what_it_is() {
    let mut rig = Rig::new(&plug(false));
    assert_eq!([0x100, 0x104, 0x10c, 0x114].map(|at| read(&mut rig.slot, at)), [64, 0, 126, 512]);
    assert_eq!(request(&mut rig, 8, 0, &[read_to(DATA, 20)]), Some((0, 21)));
    assert_eq!(rig.ram.get(DATA, 20), b"serial number 12345\0");
    assert_eq!(request(&mut rig, 8, 0, &[read_to(DATA, 3)]), Some((0, 4)));
}

#[test]
fn reads_are_what_is_on_the_disk() {
    let mut rig = Rig::new(&plug(false));
    for (sector, parts) in [(0u64, vec![512]), (63, vec![512]), (3, vec![1, 511]), (5, vec![4096, 512, 3000, 1096])] {
        let mut at = DATA;
        let buffers: Vec<Buffer> = parts
            .iter()
            .map(|&len| {
                at += len;
                read_to(at - len, len)
            })
            .collect();
        let len: u32 = parts.iter().sum();
        assert_eq!(request(&mut rig, 0, sector, &buffers), Some((0, len + 1)));
        let from = sector as usize * 512;
        assert_eq!(rig.ram.get(DATA, len as usize), &rig.ends.disk[from..from + len as usize]);
    }
}

#[test]
fn writes_go_to_the_disk_and_nowhere_else() {
    let mut rig = Rig::new(&plug(false));
    let before = rig.ends.disk.clone();
    let data: Vec<u8> = (0..6144).map(|n| (n / 3) as u8).collect();
    rig.ram.set(DATA, &data);
    assert_eq!(request(&mut rig, 1, 7, &[write_from(DATA, 5000), write_from(DATA + 5000, 1144)]), Some((0, 1)));
    assert_eq!(rig.ends.disk[..7 * 512], before[..7 * 512]);
    assert_eq!(rig.ends.disk[7 * 512..19 * 512], data);
    assert_eq!(rig.ends.disk[19 * 512..], before[19 * 512..]);
    assert_eq!(request(&mut rig, 4, 0, &[]), Some((0, 1)));
    assert_eq!(rig.ends.flushes, 1);
}

#[test]
fn header_and_status_may_be_anyhow_in_buffers() {
    let mut rig = Rig::new(&plug(false));
    begin(&mut rig, 0, 2, &[]);
    let chain = [Buffer::Read(B, 3), Buffer::Read(B + 3, 13), read_to(DATA, 100), read_to(DATA + 100, 413)];
    rig.driver.queues[0].put(&mut rig.ram, &chain);
    rig.kick(0);
    assert_eq!((rig.used(0), rig.used(0)), (Some((0, 1)), Some((2, 513))));
    assert_eq!(rig.ram.get(DATA, 512), &rig.ends.disk[1024..1536]);
    assert_eq!(rig.ram.get(DATA + 512, 1), [0]);
}

#[test]
fn what_is_not_on_the_disk_is_an_error() {
    let mut rig = Rig::new(&plug(false));
    for kind in [0, 1] {
        let buffer = |len| if kind == 0 { read_to(DATA, len) } else { write_from(DATA, len) };
        let written = if kind == 0 { 0 } else { 1 };
        for (sector, len) in [(64, 512), (63, 1024), (u64::MAX, 512), (u64::MAX / 512, 512), (0, 511), (0, 513)] {
            let before = rig.ends.disk.clone();
            assert_eq!(request(&mut rig, kind, sector, &[buffer(len)]), Some((1, written)), "{kind} {sector} {len}");
            assert_eq!(rig.ends.disk, before);
        }
    }
    for kind in [2, 3, 5, 7, 9, 10, 14, u32::MAX] {
        assert_eq!(request(&mut rig, kind, 0, &[]), Some((2, 1)), "{kind}");
    }
    rig.ends.disk_error = Some(DiskError::Failed);
    assert_eq!(request(&mut rig, 0, 0, &[read_to(DATA, 512)]), Some((1, 0)));
    assert_eq!(request(&mut rig, 1, 0, &[write_from(DATA, 512)]), Some((1, 1)));
    assert_eq!(request(&mut rig, 4, 0, &[]), Some((1, 1)));
    assert!(!rig.needs_reset());
}

#[test]
fn read_only_is_read_only() {
    let mut rig = Rig::new(&plug(true));
    assert_eq!(rig.slot.device_id(), 2);
    crate::testing::write(&mut rig.slot, 0x014, 0);
    assert_eq!(read(&mut rig.slot, 0x010) & (1 << 5 | 1 << 13 | 1 << 14), 1 << 5);
    let before = rig.ends.disk.clone();
    assert_eq!(request(&mut rig, 1, 0, &[write_from(DATA, 512)]), Some((1, 1)));
    for kind in [11, 13] {
        assert_eq!(request(&mut rig, kind, 0, &[write_from(DATA, 16)]), Some((2, 1)));
    }
    assert_eq!(rig.ends.disk, before);
    assert_eq!(request(&mut rig, 0, 0, &[read_to(DATA, 512)]), Some((0, 513)));
}

fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
    [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
}

#[test]
fn ranges_are_cleared_and_discarded() {
    let mut rig = Rig::new(&plug(false));
    rig.ram.set(DATA, &[range(1, 2, 0), range(40, 24, 1)].concat());
    let before = rig.ends.disk.clone();
    assert_eq!(request(&mut rig, 13, 0, &[write_from(DATA, 32)]), Some((0, 1)));
    assert_eq!(rig.ends.disk[..512], before[..512]);
    assert!(rig.ends.disk[512..3 * 512].iter().all(|&b| b == 0));
    assert_eq!(rig.ends.disk[3 * 512..40 * 512], before[3 * 512..40 * 512]);
    assert!(rig.ends.disk[40 * 512..].iter().all(|&b| b == 0));
    rig.ram.set(DATA, &range(3, 61, 0));
    assert_eq!(request(&mut rig, 11, 0, &[write_from(DATA, 16)]), Some((0, 1)));
    assert_eq!(rig.ends.discarded, [(3, 61)]);
    for (kind, bytes, status) in [
        (11, range(0, 1, 1), 2),
        (13, range(0, 1, 2), 2),
        (13, range(63, 2, 0), 1),
        (11, range(u64::MAX, 2, 0), 1),
        (13, range(0, u32::MAX, 0), 1),
        (13, range(0, 1 << 23, 0), 1),
    ] {
        rig.ram.set(DATA, &bytes);
        assert_eq!(request(&mut rig, kind, 0, &[write_from(DATA, 16)]), Some((status, 1)), "{kind} {bytes:?}");
    }
    assert_eq!(request(&mut rig, 11, 0, &[write_from(DATA, 15)]), Some((1, 1)));
    assert_eq!(request(&mut rig, 13, 0, &[write_from(DATA, 16 * 17)]), Some((1, 1)));
    assert_eq!(request(&mut rig, 13, 0, &[]), Some((1, 1)));
    // Not agreed on: not supported.
    let mut rig = Rig::with(&plug(false), 0, 8);
    assert_eq!(request(&mut rig, 13, 0, &[write_from(DATA, 16)]), Some((2, 1)));
}

#[test]
fn a_slow_disk_is_waited_for() {
    let mut rig = Rig::new(&plug(false));
    rig.ram.set(DATA, &[5; 8192]);
    rig.ends.disk_error = Some(DiskError::Later);
    for (kind, data) in [(0, read_to(DATA + 8192, 8192)), (1, write_from(DATA, 8192))] {
        assert_eq!(request(&mut rig, kind, 16, &[data]), None);
        rig.poke();
        assert_eq!(rig.used(0), None);
        rig.ends.disk_error = None;
        rig.poke();
        assert!(rig.used(0).is_some());
        assert_eq!(rig.ram.get(STATUS, 1), [0]);
        rig.ends.disk_error = Some(DiskError::Later);
    }
    assert_eq!(rig.ends.disk[16 * 512..32 * 512], [5; 8192]);
    assert_eq!(rig.ends.disk[32 * 512], (32 * 31) as u8, "not one sector more");
}

#[test]
fn a_reset_forgets_the_request() {
    // By the device's reset, or by setting the queue up anew.
    for device in [true, false] {
        let mut rig = Rig::new(&plug(false));
        rig.ends.disk_error = Some(DiskError::Later);
        assert_eq!(request(&mut rig, 1, 16, &[write_from(DATA, 512)]), None);
        rig.ends.disk_error = None;
        if device {
            rig.driver = crate::testing::Driver::start(&mut rig.slot, &mut rig.ram, u64::MAX, 16);
        } else {
            for (register, value) in [(0x030, 0), (0x044, 0), (0x044, 1)] {
                crate::testing::write(&mut rig.slot, register, value);
            }
            let table = rig.driver.queues[0].table;
            rig.ram.set(table, &[0; 0x4000]);
            rig.driver.queues[0] = crate::testing::Rings::new(0, table, 16);
        }
        let before = rig.ends.disk.clone();
        assert_eq!(request(&mut rig, 0, 2, &[read_to(DATA, 512)]), Some((0, 513)), "device: {device}");
        assert_eq!(rig.ram.get(DATA, 512), &rig.ends.disk[1024..1536]);
        assert_eq!(rig.ends.disk, before);
    }
}

#[test]
fn a_long_request_is_done_in_pieces() {
    let mut rig = Rig::new(&plug(false));
    begin(&mut rig, 0, 0, &[read_to(DATA, 32768)]);
    rig.driver.kick(&mut rig.slot, 0);
    let mut turns = 0;
    while rig.slot.wants_service() {
        let moved = rig.ram.moved.get();
        rig.slot.serve(&mut rig.ram, &mut rig.ends, &mut Work::new(5000));
        assert!(rig.ram.moved.get() - moved < 5000 + 4096);
        turns += 1;
        // Descriptors that change meanwhile, change nothing.
        let table = rig.driver.queues[0].table;
        rig.ram.set(table, &[0xff; 64]);
    }
    assert!(turns > 4);
    assert_eq!(rig.used(0), Some((0, 32769)));
    assert_eq!(rig.ram.get(DATA, 32768), rig.ends.disk);
}

#[test]
fn a_request_without_its_parts_is_malformed() {
    for chain in
        [&[Buffer::Read(B, 15), Buffer::Write(STATUS as u64, 1)][..], &[Buffer::Read(B, 16)], &[Buffer::Write(B, 600)]]
    {
        let mut rig = Rig::new(&plug(false));
        rig.request(0, chain);
        assert!(rig.needs_reset(), "{chain:?}");
        assert_eq!(rig.interrupt(), 2);
        let report = alloc::format!("{}", rig.slot);
        assert!(report.ends_with(&alloc::format!("{}", Malformed::Request)), "{report}");
    }
}

#[test]
fn what_a_driver_without_flush_writes_lasts_at_once() {
    for (features, flushes) in [(0, 1), (1 << 9, 0)] {
        let mut rig = Rig::with(&plug(false), features, 8);
        assert_eq!(request(&mut rig, 1, 7, &[write_from(DATA, 5120)]), Some((0, 1)));
        assert_eq!(rig.ends.flushes, flushes);
        assert_eq!(request(&mut rig, 0, 7, &[Buffer::Write(DATA.into(), 512)]), Some((0, 513)));
        assert_eq!(rig.ends.flushes, flushes);
    }
}
