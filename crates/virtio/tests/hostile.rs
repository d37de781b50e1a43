//! Drivers that do anything at all: no device panics, works without end, or asks more of the other ends than there is.
//!
//! What is thrown at a device: register accesses of any kind, rings and chains that are nearly right, memory that
//! changes under the device, other ends that come and go, and in between an orderly start, so that the devices get far
//! enough for the rest to matter.

use proptest::prelude::*;
use spica_addr::GuestPa;
use spica_devices::Width;
use spica_virtio::Plug;
use spica_virtio::testing::hostile::{self, Act};
use spica_virtio::testing::{BUFFERS, Buffer, RAM, Rig};

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

fn run(plug: &Plug, acts: Vec<Act>) {
    let mut rig = Rig::new(plug);
    for act in acts {
        hostile::perform(&mut rig, act);
    }
    hostile::check(&mut rig);
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
