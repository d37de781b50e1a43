//! Drivers that do anything at all, one [`Act`] at a time; the acts come from whoever makes them up.

use alloc::vec;
use alloc::vec::Vec;

use spica_devices::{Mmio, Width};

use super::driver::{INDIRECT, encode};
use super::{BUFFERS, Buffer, Driver, RAM, Rig};
use crate::Work;
use crate::backend::DiskError;

/// Something that a driver does, or that happens to its device.
#[derive(Clone, Debug)]
pub enum Act {
    /// A load from a register.
    Read(u32, Width),
    /// A store to one.
    Write(u32, Width, u32),
    /// A fresh start, with these features and this size of queues.
    Start(u64, u16),
    /// A chain, direct or in a table.
    Put(usize, Vec<Buffer>, bool),
    /// A chain that is right, of this kind and length.
    Good(usize, u8, u32, bool),
    /// A descriptor, anyhow, and whether it is made available.
    Descriptor(usize, u16, (u64, u32), u16, u16, bool),
    /// Bytes into memory, where rings and tables are.
    Memory(u32, Vec<u8>),
    /// Something happens at the other end.
    World(u8),
    /// The device works.
    Serve(u32),
}

/// A chain as the device wants it in that queue, with `kind` for what a request has in its header.
fn wanted(device: u32, queue: usize, kind: u8, len: u32) -> Vec<Buffer> {
    let (header, data) = (u64::from(BUFFERS) + u64::from(kind) * 16, u64::from(BUFFERS) + 0x2000);
    let status = Buffer::Write(data + 0x4000, 1);
    match (device, queue, kind % 3) {
        (1, 0, _) => vec![Buffer::Write(data, 1526 + len % 8)],
        (1, _, _) => vec![Buffer::Read(header, 12), Buffer::Read(data, len)],
        (2, _, 0) => vec![Buffer::Read(header, 16), Buffer::Read(data, len & !511 | 512), status],
        (2, _, 1) => vec![Buffer::Read(header, 16), Buffer::Read(data, len & !15 | 16), status],
        (2, ..) => vec![Buffer::Read(header, 16), Buffer::Write(data, len & !511 | 512), status],
        (3, 0, _) | (4, ..) => vec![Buffer::Write(data, len + 1), Buffer::Write(data + 0x3000, 100)],
        _ => vec![Buffer::Read(header, len + 1)],
    }
}

/// Headers and page numbers that a driver might write: small types and sectors, pages of RAM.
fn headers() -> [u8; 0x800] {
    let mut bytes = [0; 0x800];
    for (n, header) in bytes.chunks_mut(16).enumerate() {
        header[0] = (n % 15) as u8;
        header[8] = (n * 5 % 70) as u8;
        if n > 64 {
            header.chunks_mut(4).for_each(|page| page.copy_from_slice(&((RAM >> 12) + n as u32 * 3).to_le_bytes()));
        }
    }
    bytes
}

/// What a call may move beyond its budget: a chain's descriptors, and a piece of data.
const SLACK: u64 = 64 * 16 * 4 + 4096 + 1530 + 64;

/// The rings that an orderly driver knows, fewer where the device has fewer queues.
fn rings(rig: &mut Rig, queue: usize) -> usize {
    queue % rig.driver.queues.len()
}

/// Does it. Panics if a device works more than it may.
pub fn perform(rig: &mut Rig, act: Act) {
    match act {
        Act::Read(offset, width) => drop(rig.slot.read(offset, width)),
        Act::Write(offset, width, value) => rig.slot.write(offset, width, value),
        Act::Start(features, size) => rig.driver = Driver::start(&mut rig.slot, &mut rig.ram, features, size),
        Act::Good(queue, kind, len, table) => {
            let queue = rings(rig, queue);
            let chain = wanted(rig.slot.device_id(), queue, kind, len);
            rig.ram.set(BUFFERS, &headers());
            perform(rig, Act::Put(queue, chain, table));
        }
        Act::Put(queue, chain, table) => {
            let queue = rings(rig, queue);
            let rings = &mut rig.driver.queues[queue];
            if table {
                rings.put_indirect(&mut rig.ram, BUFFERS + 0x8000, &chain);
            } else {
                rings.put(&mut rig.ram, &chain);
            }
            rig.driver.kick(&mut rig.slot, queue as u32);
        }
        Act::Descriptor(queue, index, (at, len), flags, next, offer) => {
            let queue = rings(rig, queue);
            let rings = &mut rig.driver.queues[queue];
            rings.descriptor(&mut rig.ram, index % rings.size, (at, len), flags, next);
            if flags & INDIRECT != 0 {
                rig.ram.set(BUFFERS, &encode((at, len), flags & 3, next));
            }
            if offer {
                rings.offer(&mut rig.ram, index);
            }
            rig.driver.kick(&mut rig.slot, queue as u32);
        }
        Act::Memory(at, bytes) => rig.ram.set(at, &bytes),
        Act::World(what) => {
            let ends = &mut rig.ends;
            match what % 9 {
                0 => ends.disk_error = Some(DiskError::Failed),
                1 => ends.disk_error = Some(DiskError::Later),
                2 => ends.disk_error = None,
                3 => ends.entropy.extend([what; 100]),
                4 => ends.input.extend([what; 300]),
                5 => ends.output_room = usize::from(what) * 4,
                6 => ends.frames.extend([vec![what; 14 + usize::from(what) * 5], vec![what; 1514]]),
                7 => rig.slot.set_balloon_target(what.into()),
                _ => rig.slot.set_link(what & 16 == 0),
            }
            rig.slot.poke();
        }
        Act::Serve(work) => {
            let before = rig.ram.moved.get();
            rig.slot.serve(&mut rig.ram, &mut rig.ends, &mut Work::new(work));
            let moved = rig.ram.moved.get() - before;
            assert!(moved <= u64::from(work) + SLACK, "{moved} bytes for {work}");
        }
    }
}

/// Whatever the device did, these hold; panics if not.
pub fn check(rig: &mut Rig) {
    let pages: i64 = rig.ends.pages.iter().map(|&(_, given)| if given { 1 } else { -1 }).sum();
    assert_eq!(i64::from(rig.slot.balloon_pages()), pages);
    assert!(rig.ends.sent.iter().all(|frame| (14..=1518).contains(&frame.len())));
    // Work comes to an end, and the device can be had back.
    rig.serve();
    rig.driver = Driver::start(&mut rig.slot, &mut rig.ram, u64::MAX, 16);
    rig.serve();
    assert!(!rig.needs_reset() && !rig.slot.line());
}
