//! A block device against a model: whatever mixture of requests a good driver makes, however it cuts its buffers, and
//! however often the device is interrupted in its work, disk and memory are in the end what they would be if each
//! request was a copy.

use proptest::prelude::*;
use spica_virtio::testing::{BUFFERS, Buffer, Rig};
use spica_virtio::{Plug, Work};

const SECTOR: usize = 512;
const SECTORS: u64 = 64;
/// What each request has of memory, one behind the other.
const APART: u32 = 0x8000;

#[derive(Clone, Debug)]
struct Request {
    write: bool,
    sector: u64,
    sectors: u32,
    /// Where the data are cut into buffers, in bytes from the start of the last cut.
    cuts: Vec<u32>,
    indirect: bool,
    fill: u8,
}

fn request() -> impl Strategy<Value = Request> {
    let cuts = prop::collection::vec(1u32..3000, 0..6);
    (any::<bool>(), 0..SECTORS + 2, 1u32..20, cuts, any::<bool>(), any::<u8>()).prop_map(
        |(write, sector, sectors, cuts, indirect, fill)| Request { write, sector, sectors, cuts, indirect, fill },
    )
}

impl Request {
    fn bytes(&self) -> usize {
        self.sectors as usize * SECTOR
    }

    fn is_on_disk(&self) -> bool {
        self.sector + u64::from(self.sectors) <= SECTORS
    }

    fn range(&self) -> core::ops::Range<usize> {
        let start = self.sector as usize * SECTOR;
        start..start + self.bytes()
    }

    /// Puts it into queue 0, with its memory at `at`: header, status, data; the table behind.
    fn put(&self, rig: &mut Rig, at: u32) -> u16 {
        let kind = u32::from(self.write);
        rig.ram.set(at, &[&kind.to_le_bytes()[..], &[0; 4], &self.sector.to_le_bytes()].concat());
        rig.ram.set(at + 16, &[0xee]);
        let mut buffers = vec![Buffer::Read(at.into(), 16)];
        let (mut data, mut left) = (u64::from(at) + 32, self.bytes() as u32);
        for cut in self.cuts.iter().copied().chain([u32::MAX]) {
            let len = cut.min(left);
            if len != 0 {
                buffers.push(if self.write { Buffer::Read(data, len) } else { Buffer::Write(data, len) });
            }
            (data, left) = (data + u64::from(len), left - len);
        }
        buffers.push(Buffer::Write(u64::from(at) + 16, 1));
        let queue = &mut rig.driver.queues[0];
        if self.indirect {
            queue.put_indirect(&mut rig.ram, at + APART - 0x200, &buffers)
        } else {
            queue.put(&mut rig.ram, &buffers)
        }
    }
}

proptest! {
    #[test]
    fn a_disk_is_what_was_written_to_it(
        requests in prop::collection::vec(request(), 1..12),
        features in any::<u64>(),
        budgets in prop::collection::vec(1u32..20_000, 1..8),
    ) {
        let plug = Plug::Block { disk: 0, sectors: SECTORS, read_only: false, serial: [0; 20] };
        // Chains of direct descriptors have to fit all at once. Indirect ones are always wanted.
        let mut rig = Rig::with(&plug, features | 1 << 28, 128);
        for (n, request) in requests.iter().enumerate() {
            let data: Vec<u8> = (0..request.bytes()).map(|k| request.fill.wrapping_mul(7).wrapping_add(k as u8)).collect();
            rig.ram.set(BUFFERS + n as u32 * APART + 32, &data);
        }
        let heads: Vec<u16> = requests.iter().enumerate().map(|(n, r)| r.put(&mut rig, BUFFERS + n as u32 * APART)).collect();

        let (mut disk, mut memory) = (rig.ends.disk.clone(), rig.ram.bytes.clone());
        for (n, request) in requests.iter().enumerate() {
            let at = (BUFFERS - rig.ram.base) as usize + n * APART as usize;
            memory[at + 16] = u8::from(!request.is_on_disk());
            let data = at + 32..at + 32 + request.bytes();
            if !request.is_on_disk() {
            } else if request.write {
                disk[request.range()].copy_from_slice(&memory[data]);
            } else {
                memory[data].copy_from_slice(&disk[request.range()]);
            }
        }

        rig.driver.kick(&mut rig.slot, 0);
        let mut budgets = budgets.iter().cycle();
        while rig.slot.wants_service() {
            rig.slot.serve(&mut rig.ram, &mut rig.ends, &mut Work::new(*budgets.next().unwrap()));
        }
        prop_assert!(!rig.needs_reset());
        for (head, request) in heads.iter().zip(&requests) {
            let read = if !request.write && request.is_on_disk() { request.bytes() as u32 } else { 0 };
            let status = u32::from(request.write || request.is_on_disk());
            prop_assert_eq!(rig.used(0), Some((*head, read + status)));
        }
        prop_assert_eq!(rig.used(0), None);
        prop_assert_eq!(&rig.ends.disk, &disk);
        // Behind the used ring, nothing but what was asked for has changed.
        let used = (rig.driver.queues[0].device - rig.ram.base) as usize;
        let behind = used + 4 + 128 * 8 + 2;
        prop_assert_eq!(&rig.ram.bytes[..used], &memory[..used]);
        prop_assert_eq!(&rig.ram.bytes[behind..], &memory[behind..]);
    }
}
