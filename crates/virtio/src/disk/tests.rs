use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::{Blank, Image, Overlay, Slab};
use crate::backend::{Disk, DiskError, SECTOR};

const LEN: usize = SECTOR as usize;

fn image(sectors: usize) -> Vec<u8> {
    (0..sectors * LEN).map(|n| (n / LEN * 7 + n % 251) as u8).collect()
}

fn all(disk: &mut impl Disk, sectors: usize) -> Vec<u8> {
    let mut bytes = vec![0xcc; sectors * LEN];
    disk.read(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn an_image_is_read_and_not_written() {
    let bytes = image(3);
    let mut disk = Image(&bytes[..1100]);
    assert_eq!(disk.sectors(), 3);
    let read = all(&mut disk, 3);
    assert_eq!(read[..1100], bytes[..1100]);
    assert!(read[1100..].iter().all(|&b| b == 0));
    assert_eq!(disk.write(0, &[0; LEN]), Err(DiskError::Failed));
    assert_eq!(disk.clear(0, 1), Err(DiskError::Failed));
    disk.read(u64::MAX, &mut [0; LEN]).unwrap();
}

#[test]
fn an_overlay_is_bounded_and_a_discard_gives_room() {
    let bytes = image(64);
    let mut disk = Overlay::new(Image(&bytes), 64, Slab::new(vec![0; 2 * 4096 + 100]));
    assert_eq!(disk.used(), (0, 8192));
    disk.write(8, &[1; LEN]).unwrap();
    disk.write(20, &[2; LEN]).unwrap();
    assert_eq!(disk.write(30, &[3; LEN]), Err(DiskError::Failed));
    disk.write(9, &[4; LEN]).unwrap();
    assert_eq!(disk.used(), (8192, 8192));
    let mut expected = bytes.clone();
    expected[8 * LEN..9 * LEN].fill(1);
    expected[9 * LEN..10 * LEN].fill(4);
    expected[20 * LEN..21 * LEN].fill(2);
    assert_eq!(all(&mut disk, 64), expected);
    disk.discard(17, 7).unwrap();
    assert_eq!(disk.used().0, 8192, "only a part of a cluster");
    disk.discard(16, 8).unwrap();
    assert_eq!(disk.used().0, 4096);
    disk.write(30, &[3; LEN]).unwrap();
    expected[16 * LEN..24 * LEN].copy_from_slice(&bytes[16 * LEN..24 * LEN]);
    expected[30 * LEN..31 * LEN].fill(3);
    assert_eq!(all(&mut disk, 64), expected);
    // Clearing takes no memory, but it is noted, and that is bounded as well.
    disk.clear(32, 16).unwrap();
    assert_eq!(disk.clear(48, 8), Err(DiskError::Failed));
    expected[32 * LEN..48 * LEN].fill(0);
    assert_eq!(all(&mut disk, 64), expected);
}

#[test]
fn what_is_not_on_the_overlay_fails() {
    let mut disk = Overlay::new(Blank, 9, Slab::new(vec![0; 8192]));
    for (sector, len) in [(9, LEN), (8, 2 * LEN), (u64::MAX, LEN), (0, 10 * LEN), (0, 100)] {
        assert_eq!(disk.read(sector, &mut vec![0; len]), Err(DiskError::Failed));
        assert_eq!(disk.write(sector, &vec![0; len]), Err(DiskError::Failed));
    }
    assert_eq!(disk.clear(8, 2), Err(DiskError::Failed));
    assert_eq!(disk.discard(0, u32::MAX), Err(DiskError::Failed));
    disk.write(8, &[7; LEN]).unwrap();
    assert_eq!(all(&mut disk, 9)[8 * LEN..], [7; LEN]);
}

/// What was written to a disk, by its clusters.
fn written(disk: &mut Overlay<Image<'_>, Slab<Vec<u8>>>) -> Vec<(u64, [u8; 4096])> {
    let mut all = Vec::new();
    let mut bytes = [0xee; 4096];
    while let Some(cluster) = disk.next_written(all.last().map_or(0, |(last, _)| last + 1), &mut bytes) {
        all.push((cluster, bytes));
    }
    all
}

#[test]
fn what_was_written_can_be_put_over_the_same_disk() {
    let bytes = image(65);
    let new = |slots: usize| Overlay::new(Image(&bytes), 65, Slab::new(vec![0xdd; slots * 4096]));
    let mut disk = new(4);
    disk.write(9, &[1; LEN]).unwrap();
    disk.write(64, &[2; LEN]).unwrap();
    disk.clear(32, 8).unwrap();
    disk.write(40, &[3; LEN]).unwrap();
    disk.discard(40, 8).unwrap();
    let kept = written(&mut disk);
    assert_eq!(kept.iter().map(|(cluster, _)| *cluster).collect::<Vec<_>>(), [1, 4, 8]);
    assert!(kept[2].1[LEN..].iter().all(|&byte| byte == 0), "behind the disk's end there is nothing");
    assert_eq!(disk.written(), (2, 3));
    let before = all(&mut disk, 65);
    // Over one that has something else.
    let mut other = new(2);
    assert!(other.has_room((2, 3)) && !other.has_room((3, 3)) && !other.has_room((2, 5)));
    other.write(17, &[9; LEN]).unwrap();
    other.clear(0, 8).unwrap();
    other.take_all_back();
    assert_eq!((other.written(), all(&mut other, 65) == bytes), ((0, 0), true));
    for (cluster, bytes) in &kept {
        other.put(*cluster, bytes).unwrap();
    }
    assert!(all(&mut other, 65) == before && written(&mut other) == kept);
    // No more than there is room for, and nothing that is nowhere.
    assert_eq!(other.put(2, &[5; 4096]), Err(DiskError::Failed));
    assert_eq!(other.put(9, &[0; 4096]), Err(DiskError::Failed));
    assert_eq!(other.put(u64::MAX, &[5; 4096]), Err(DiskError::Failed));
    other.take_back(8);
    other.take_back(9);
    other.put(2, &[5; 4096]).unwrap();
    other.put(2, &[0; 4096]).unwrap();
    assert_eq!(other.written(), (1, 3));
}

/// A disk that is never ready.
struct Slow;

impl Disk for Slow {
    fn read(&mut self, _sector: u64, _into: &mut [u8]) -> Result<(), DiskError> {
        Err(DiskError::Later)
    }
    fn write(&mut self, _sector: u64, _from: &[u8]) -> Result<(), DiskError> {
        Err(DiskError::Later)
    }
    fn flush(&mut self) -> Result<(), DiskError> {
        Err(DiskError::Later)
    }
    fn clear(&mut self, _sector: u64, _sectors: u32) -> Result<(), DiskError> {
        Err(DiskError::Later)
    }
}

#[test]
fn an_overlay_waits_for_the_disk_below_and_loses_no_room() {
    let mut disk = Overlay::new(Slow, 64, Slab::new(vec![0; 4096]));
    for _ in 0..5 {
        assert_eq!(disk.write(1, &[1; LEN]), Err(DiskError::Later));
        assert_eq!(disk.read(1, &mut [1; LEN]), Err(DiskError::Later));
        assert_eq!(disk.used().0, 0);
    }
    disk.write(8, &[1; 4096]).unwrap();
    assert_eq!(disk.used().0, 4096, "a whole cluster needs nothing from below");
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, usize, u8),
    Clear(u64, u32),
    Discard(u64, u32),
}

fn step() -> impl Strategy<Value = Step> {
    let run = (0u64..64, 1u32..24).prop_map(|(sector, len)| (sector, len.min(64 - sector as u32)));
    prop_oneof![
        (run.clone(), any::<u8>()).prop_map(|((sector, len), byte)| Step::Write(sector, len as usize, byte)),
        run.clone().prop_map(|(sector, len)| Step::Clear(sector, len)),
        run.prop_map(|(sector, len)| Step::Discard(sector, len)),
    ]
}

proptest! {
    /// With enough memory, an overlay is a disk like any other, and the one below stays as it was.
    #[test]
    fn an_overlay_is_a_disk(steps in prop::collection::vec(step(), 1..60), size in 57usize..=64) {
        let bytes = image(size);
        let mut disk = Overlay::new(Image(&bytes), size as u64, Slab::new(vec![0xdd; 8 * 4096]));
        let mut model = bytes.clone();
        for step in steps {
            let fits = |sector: u64, len: usize| sector as usize + len <= size;
            match step {
                Step::Write(sector, len, byte) if fits(sector, len) => {
                    let data: Vec<u8> = (0..len * LEN).map(|n| byte.wrapping_add(n as u8)).collect();
                    disk.write(sector, &data).unwrap();
                    model[sector as usize * LEN..][..data.len()].copy_from_slice(&data);
                }
                Step::Clear(sector, len) if fits(sector, len as usize) => {
                    disk.clear(sector, len).unwrap();
                    model[sector as usize * LEN..][..len as usize * LEN].fill(0);
                }
                // What is discarded may be what it was, or what is below; nothing else.
                Step::Discard(sector, len) if fits(sector, len as usize) => {
                    disk.discard(sector, len).unwrap();
                    let now = all(&mut disk, size);
                    let discarded = sector as usize * LEN..(sector as usize + len as usize) * LEN;
                    for n in discarded {
                        prop_assert!(now[n] == model[n] || now[n] == bytes[n]);
                        model[n] = now[n];
                    }
                }
                _ => {}
            }
            prop_assert_eq!(&all(&mut disk, size), &model);
        }
    }
}
