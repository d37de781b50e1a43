//! Drivers that do anything at all: no device panics, works without end, or asks more of the other ends than there is.
//!
//! What is thrown at a device: register accesses of any kind, rings and chains that are nearly right, memory that
//! changes under the device, other ends that come and go, and in between an orderly start, so that the devices get far
//! enough for the rest to matter.

use proptest::prelude::*;
use spica_addr::GuestPa;
use spica_devices::{Mmio, Width};
use spica_virtio::backend::DiskError;
use spica_virtio::testing::driver::{INDIRECT, encode};
use spica_virtio::testing::{BUFFERS, Buffer, Driver, RAM, Rig};
use spica_virtio::{Plug, Work};

#[derive(Clone, Debug)]
enum Act {
    /// A register access.
    Read(u32, Width),
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

fn width() -> impl Strategy<Value = Width> {
    prop_oneof![8 => Just(Width::Word), 1 => Just(Width::Half), 1 => Just(Width::Byte)]
}

fn offset() -> impl Strategy<Value = u32> {
    prop_oneof![6 => (0u32..0x50).prop_map(|word| word * 4), 2 => 0u32..0x200, 1 => any::<u32>()]
}

fn value() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0u32..16, 2 => RAM..RAM + 0x1_0000, 1 => any::<u32>()]
}

/// Mostly RAM, sometimes its edges, seldom anything.
fn place() -> impl Strategy<Value = (u64, u32)> {
    let at = prop_oneof![
        8 => (0u64..0x1_0000).prop_map(|at| u64::from(BUFFERS) + at),
        1 => (0u64..0x1_0000).prop_map(|at| u64::from(RAM) + at),
        1 => (0u64..64).prop_map(|at| u64::from(RAM) + 0x10_0000 - at),
        1 => any::<u64>(),
    ];
    let len = prop_oneof![6 => 1u32..64, 3 => 1u32..0x8000, 1 => Just(16u32), 1 => Just(0u32), 1 => any::<u32>()];
    (at, len)
}

/// A chain of anything.
fn chain() -> impl Strategy<Value = Vec<Buffer>> {
    prop::collection::vec((place(), any::<bool>()), 1..5).prop_map(|buffers| {
        let buffer = |((at, len), write)| if write { Buffer::Write(at, len) } else { Buffer::Read(at, len) };
        buffers.into_iter().map(buffer).collect()
    })
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

/// Where an orderly driver's rings are, and the headers of requests.
fn memory() -> impl Strategy<Value = Act> {
    let at = prop_oneof![
        (0u32..3, 0u32..0x100).prop_map(|(queue, at)| RAM + queue * 0x4000 + at),
        (0u32..3, 0u32..0x30).prop_map(|(queue, at)| RAM + queue * 0x4000 + 0x2000 + at),
        (0u32..0x2000).prop_map(|at| BUFFERS + at),
    ];
    (at, prop::collection::vec(prop_oneof![2 => Just(0u8), 2 => 0u8..16, 1 => any::<u8>()], 1..32))
        .prop_map(|(at, bytes)| Act::Memory(at, bytes))
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        1 => (offset(), width()).prop_map(|(offset, width)| Act::Read(offset, width)),
        1 => (offset(), width(), value()).prop_map(|(offset, width, value)| Act::Write(offset, width, value)),
        2 => (prop_oneof![3 => Just(u64::MAX), 1 => any::<u64>()], 2u32..5)
            .prop_map(|(features, size)| Act::Start(features, 1 << size)),
        12 => (0usize..3, 0u8..128, 0u32..6000, any::<bool>())
            .prop_map(|(queue, kind, len, table)| Act::Good(queue, kind, len, table)),
        1 => (0usize..3, chain(), any::<bool>()).prop_map(|(queue, chain, table)| Act::Put(queue, chain, table)),
        1 => (0usize..3, 0u16..16, place(), 0u16..8, 0u16..20, any::<bool>())
            .prop_map(|(queue, index, place, flags, next, offer)| {
                Act::Descriptor(queue, index, place, flags, next, offer)
            }),
        1 => memory(),
        5 => any::<u8>().prop_map(Act::World),
        8 => prop_oneof![Just(1u32), 1u32..5000, Just(1 << 20)].prop_map(Act::Serve),
    ]
}

fn plug() -> impl Strategy<Value = Plug> {
    prop_oneof![
        Just(Plug::Rng),
        Just(Plug::Console { terminal: 0 }),
        any::<bool>().prop_map(|read_only| Plug::Block { disk: 0, sectors: 64, read_only, serial: [0; 20] }),
        Just(Plug::Net { port: 0, mac: [2, 0, 0, 0, 0, 1] }),
        Just(Plug::Balloon { pages: 256, base: GuestPa(RAM) }),
    ]
}

/// What a call may move beyond its budget: a chain's descriptors, and a piece of data.
const SLACK: u64 = 64 * 16 * 4 + 4096 + 1530 + 64;

/// The rings that an orderly driver knows, fewer where the device has fewer queues.
fn rings(rig: &mut Rig, queue: usize) -> usize {
    queue % rig.driver.queues.len()
}

fn perform(rig: &mut Rig, act: Act) {
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

/// Whatever the device did, these hold.
fn check(rig: &mut Rig) {
    let pages: i64 = rig.ends.pages.iter().map(|&(_, given)| if given { 1 } else { -1 }).sum();
    assert_eq!(i64::from(rig.slot.balloon_pages()), pages);
    assert!(rig.ends.sent.iter().all(|frame| (14..=1518).contains(&frame.len())));
    // Work comes to an end, and the device can be had back.
    rig.serve();
    rig.driver = Driver::start(&mut rig.slot, &mut rig.ram, u64::MAX, 16);
    rig.serve();
    assert!(!rig.needs_reset() && !rig.slot.line());
}

fn run(plug: &Plug, acts: Vec<Act>) {
    let mut rig = Rig::new(plug);
    for act in acts {
        perform(&mut rig, act);
    }
    check(&mut rig);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn no_driver_breaks_a_device(plug in plug(), acts in prop::collection::vec(act(), 1..60)) {
        run(&plug, acts);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200_000, ..ProptestConfig::default() })]

    /// The same for a long time: some minutes.
    #[test]
    #[ignore = "200,000 random cases take minutes; CI has a short run of the same above"]
    fn no_driver_breaks_a_device_in_the_long_run(plug in plug(), acts in prop::collection::vec(act(), 1..120)) {
        run(&plug, acts);
    }
}
