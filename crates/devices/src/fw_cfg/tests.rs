//! What is expected here is what QEMU 7.2 answers for its `virt` with the same items, asked by its qtest protocol, but
//! where a test says otherwise.

use std::vec;
use std::vec::Vec;

use super::*;
use crate::robustness::{Random, access};

const RAM: u32 = 0x4000_0000;
const SIZE: usize = 0x3000;
const END: u32 = RAM + SIZE as u32;
/// Where descriptors are in these tests, and where what is read goes.
const DESCRIPTOR_AT: u32 = RAM + 0x1000;
const BUFFER: u32 = RAM + 0x2000;

/// RAM, and on both sides of it what nobody may touch.
struct Ram {
    bytes: Vec<u8>,
    /// How many bytes were written at most in one go.
    most: usize,
}

impl Ram {
    fn new() -> Self {
        Self { bytes: vec![0xaa; SIZE], most: 0 }
    }

    fn range(at: u32, len: usize) -> Option<core::ops::Range<usize>> {
        let from = at.checked_sub(RAM)? as usize;
        (from + len <= SIZE).then_some(from..from + len)
    }

    fn get(&self, at: u32, len: usize) -> &[u8] {
        &self.bytes[Self::range(at, len).unwrap()]
    }
}

impl Memory for Ram {
    fn read(&self, at: u32, into: &mut [u8]) -> bool {
        Self::range(at, into.len()).map(|range| into.copy_from_slice(&self.bytes[range])).is_some()
    }

    fn write(&mut self, at: u32, from: &[u8]) -> bool {
        self.most = self.most.max(from.len());
        Self::range(at, from.len()).map(|range| self.bytes[range].copy_from_slice(from)).is_some()
    }
}

static LARGE: [u8; 6000] = [7; 6000];

fn items() -> Items {
    let boot = Boot { kernel: b"hello\n", initrd: Some(&LARGE), command_line: "a b".into() };
    Items::new(Some(boot), &[("opt/x", b"abc"), ("opt/a", b""), ("opt/large", &LARGE)])
}

fn device() -> FwCfg {
    FwCfg::new(items())
}

fn select(device: &mut FwCfg, key: u16) {
    device.write(SELECTOR, Width::Half, key.swap_bytes().into());
}

fn bytes(device: &mut FwCfg, count: usize) -> Vec<u8> {
    (0..count).map(|_| device.read(0, Width::Byte) as u8).collect()
}

fn item(device: &mut FwCfg, key: u16, count: usize) -> Vec<u8> {
    select(device, key);
    bytes(device, count)
}

/// Has the device do what a descriptor at `at` says, as far as that is in RAM; the descriptor's first word then.
fn dma_at(device: &mut FwCfg, ram: &mut Ram, at: u64, (control, length, address): (u32, u32, u64)) -> Option<u32> {
    let descriptor = [&control.to_be_bytes()[..], &length.to_be_bytes(), &address.to_be_bytes()].concat();
    for (offset, byte) in descriptor.into_iter().enumerate() {
        let at = u32::try_from(at).ok().and_then(|at| at.checked_add(offset as u32));
        let _in_ram = at.is_some_and(|at| ram.write(at, &[byte]));
    }
    device.write(DMA_HIGH, Width::Word, ((at >> 32) as u32).swap_bytes());
    assert!(!device.is_busy());
    device.write(DMA_LOW, Width::Word, (at as u32).swap_bytes());
    let steps = (0..).take_while(|_| device.is_busy() && device.step(ram) <= PIECE).count();
    assert!(!device.is_busy() && steps <= 2 + SIZE / PIECE as usize + 2, "{steps} steps");
    let mut word = [0; 4];
    u32::try_from(at).is_ok_and(|at| ram.read(at, &mut word)).then_some(u32::from_be_bytes(word))
}

fn dma(device: &mut FwCfg, ram: &mut Ram, descriptor: (u32, u32, u64)) -> u32 {
    dma_at(device, ram, DESCRIPTOR_AT.into(), descriptor).unwrap()
}

#[test]
fn items_are_those_of_qemus_virt() {
    let device = &mut device();
    for (key, expected) in [
        (0x00, &b"QEMU\0\0"[..]),
        (0x01, b"\x03\0\0\0\0"),
        (0x02, &[0; 20]),
        (0x04, b"\x01\0\0"),
        (0x05, b"\x01\0\0"),
        (0x07, &[0; 8]),
        (0x08, b"\x06\0\0\0\0"),
        (0x0b, b"\x70\x17\0\0\0"),
        (0x0e, &[0; 8]),
        // The most processors there can be are no item of this machine.
        (0x0f, &[0; 8]),
        (0x11, b"hello\n\0\0"),
        (0x12, &LARGE),
        (0x14, b"\x04\0\0\0\0"),
        (0x15, b"a b\0\0"),
        (0x8000, &[0; 4]),
        (0x4000, b"QEMU"),
        (0x7fff, &[0; 4]),
    ] {
        assert_eq!(item(device, key, expected.len()), expected, "{key:#x}");
    }
    // After reset, the first is selected.
    assert_eq!(bytes(&mut self::device(), 4), b"QEMU");
    // Without a kernel, there is nothing to start, and with an empty command line one that is empty.
    let mut without = FwCfg::new(Items::new(None, &[]));
    assert!((8..0x19).filter(|&key| key != 0xe).all(|key| item(&mut without, key, 8) == [0; 8]));
    assert_eq!(item(&mut without, 0x19, 2052), [0; 2052]);
    let mut empty = FwCfg::new(Items::new(Some(Boot::default()), &[]));
    assert_eq!((item(&mut empty, 0x14, 4), item(&mut empty, 0x0b, 4)), (vec![1, 0, 0, 0], vec![0; 4]));
}

#[test]
fn the_directory_is_sorted_and_leads_to_the_files() {
    let device = &mut device();
    let directory = item(device, 0x19, 2052);
    assert_eq!(directory[..4], [0, 0, 0, 3]);
    let entry = |at: usize| &directory[4 + 64 * at..][..64];
    let expected = [("opt/a", 0u32, 0x20u8), ("opt/large", 6000, 0x21), ("opt/x", 3, 0x22)];
    for (at, (name, len, key)) in expected.into_iter().enumerate() {
        let entry = entry(at);
        assert_eq!((&entry[..4], &entry[4..8]), (&len.to_be_bytes()[..], &[0, key, 0, 0][..]));
        assert_eq!(entry[8..].iter().position(|&byte| byte == 0), Some(name.len()));
        assert_eq!(&entry[8..8 + name.len()], name.as_bytes());
    }
    assert!(directory[4 + 64 * 3..].iter().all(|&byte| byte == 0));
    assert_eq!(item(device, 0x22, 5), b"abc\0\0");
    let long = "opt/".repeat(20);
    let directory = item(&mut FwCfg::new(Items::new(None, &[(&long, b"")])), 0x19, 80);
    assert_eq!((directory[12 + 54], directory[12 + 55]), (b't', 0), "a name ends within its field");
}

#[test]
fn a_word_has_its_bytes_in_the_order_of_memory() {
    let device = &mut device();
    for (width, first, second) in
        [(Width::Byte, 0x51, 0x45), (Width::Half, 0x4551, 0x554d), (Width::Word, 0x554d_4551, 0)]
    {
        select(device, 0);
        assert_eq!((device.read(0, width), device.read(0, width)), (first, second));
    }
    // What an item is short of is zero. A load of two words has the second from the register's other half.
    select(device, 0x11);
    assert_eq!((device.read(0, Width::Word), device.read(4, Width::Word)), (0x6c6c_6568, 0x0a6f));
    let signature = [(16, Width::Word, 0x554d_4551), (20, Width::Word, 0x4746_4320), (18, Width::Half, 0x554d)];
    for (offset, width, expected) in signature.into_iter().chain([(23, Width::Byte, 0x47)]) {
        assert_eq!(device.read(offset, width), expected, "{offset}");
    }
}

#[test]
fn nothing_else_does_anything() {
    let device = &mut device();
    select(device, 0x11);
    assert_eq!(bytes(device, 2), b"he");
    for width in [Width::Byte, Width::Half, Width::Word] {
        // A store to the data register, halves of registers, wrong widths: of these, QEMU aborts all but the first.
        (0..FRAME)
            .filter(|&at| (at, width) != (SELECTOR, Width::Half) && (at, width) != (DMA_LOW, Width::Word))
            .for_each(|at| device.write(at, width, 0x1900_1900));
        (1..DMA_HIGH)
            .filter(|&at| (at, width) != (4, Width::Word))
            .for_each(|at| assert_eq!(device.read(at, width), 0, "{at}"));
    }
    assert!(!device.is_busy());
    assert_eq!(bytes(device, 4), b"llo\n");
}

#[test]
fn dma_answers_as_qemus() {
    let (device, ram) = (&mut device(), &mut Ram::new());
    let buffer = u64::from(BUFFER);
    assert_eq!(dma(device, ram, (SELECT | READ, 8, buffer)), 0);
    assert_eq!(ram.get(BUFFER, 10), b"QEMU\0\0\0\0\xaa\xaa");
    assert_eq!(dma(device, ram, (READ, 4, buffer)), 0);
    assert_eq!(ram.get(BUFFER, 4), [0; 4], "it was at its end");
    assert_eq!(dma(device, ram, (0x0001_0000 | SELECT | WRITE, 4, buffer)), ERROR);
    assert_eq!(dma(device, ram, (0x0001_0000 | SELECT | WRITE, 0, buffer)), 0);
    assert_eq!(dma(device, ram, (0x0011_0000 | SELECT | SKIP, 2, 0)), 0);
    assert_eq!(dma(device, ram, (READ, 2, buffer)), 0);
    assert_eq!(ram.get(BUFFER, 2), b"ll");
    assert_eq!(dma(device, ram, (SKIP, u32::MAX, 0)), 0);
    assert_eq!(bytes(device, 1), [0]);
    assert_eq!(dma(device, ram, (0x0011_0000 | SELECT, 100, 0)), 0);
    assert_eq!(bytes(device, 1), b"h", "nothing but selected");
    assert_eq!(dma(device, ram, (ERROR, 100, 0)), 0);
    assert_eq!(dma(device, ram, (0x7fff_0000 | SELECT | READ, 4, buffer)), 0);
    assert_eq!(ram.get(BUFFER, 4), [0; 4]);
    assert_eq!(dma(device, ram, (0x7fff_0000 | SELECT | WRITE, 4, buffer)), ERROR);
    assert_eq!(dma(device, ram, (SELECT | READ | WRITE | SKIP, 4, buffer)), 0);
    assert_eq!(ram.get(BUFFER, 4), b"QEMU");
    // What fails half-way is half done, and the place in the item is behind all of it.
    assert_eq!(dma(device, ram, (SELECT | READ, 4, u64::from(END) - 2)), ERROR);
    assert_eq!(ram.get(END - 2, 2), b"QE");
    assert_eq!(dma(device, ram, (READ, 4, buffer)), 0);
    assert_eq!(ram.get(BUFFER, 4), [0; 4]);
}

#[test]
fn dma_to_where_no_ram_is_fails() {
    let (device, ram) = (&mut device(), &mut Ram::new());
    let read = 0x0022_0000 | SELECT | READ;
    for to in [0, u64::from(RAM) - 1, u64::from(END), u64::from(u32::MAX), 1 << 32, u64::from(RAM) | 1 << 32, u64::MAX]
    {
        assert_eq!(dma(device, ram, (read, 3, to)), ERROR, "{to:#x}");
        assert_eq!(dma(device, ram, (read, u32::MAX, to)), ERROR, "{to:#x}");
    }
    // All of RAM, its descriptor with it, and then what is not.
    let before = ram.bytes.len();
    assert_eq!(dma(device, ram, (SELECT | READ, u32::MAX, RAM.into())), ERROR);
    assert_eq!((ram.bytes.len(), ram.get(RAM, 6), ram.get(END - 2, 2)), (before, &b"QEMU\0\0"[..], &[0; 2][..]));
    assert!(ram.most <= PIECE as usize);
}

#[test]
fn a_descriptor_where_no_ram_is_does_nothing() {
    let (device, ram) = (&mut device(), &mut Ram::new());
    let read = (0x0022_0000 | SELECT | READ, 3, u64::from(BUFFER));
    for at in [0, u64::from(RAM) - 16, u64::from(END), 0xffff_fff0, u64::from(DESCRIPTOR_AT) | 1 << 32, u64::MAX] {
        assert_eq!(dma_at(device, ram, at, read), None, "{at:#x}");
    }
    assert_eq!(ram.get(BUFFER, 3), [0xaa; 3]);
    // Its first word is told if it can be.
    assert_eq!(dma_at(device, ram, u64::from(END) - 4, read), Some(ERROR));
    assert_eq!(dma_at(device, ram, u64::from(END) - 2, read), None);
    assert_eq!(bytes(device, 4), b"QEMU", "nothing was selected");
    // The high word of an address is good for one.
    device.write(DMA_HIGH, Width::Word, 1u32.swap_bytes());
    device.write(DMA_LOW, Width::Word, DESCRIPTOR_AT.swap_bytes());
    device.step(ram);
    assert_eq!(dma(device, ram, read), 0);
    assert_eq!(ram.get(BUFFER, 3), b"abc");
}

#[test]
fn what_is_long_is_done_in_pieces() {
    let (device, ram) = (&mut device(), &mut Ram::new());
    let at = BUFFER - 0x1000 + 100;
    let descriptor = [&(0x0012_0000 | SELECT | READ).to_be_bytes()[..], &7000u32.to_be_bytes(), &[0; 4]].concat();
    assert!(ram.write(RAM, &[&descriptor[..], &at.to_be_bytes()].concat()));
    device.write(DMA_LOW, Width::Word, RAM.swap_bytes());
    let steps: Vec<u32> = (0..).map_while(|_| device.is_busy().then(|| device.step(ram))).collect();
    // The descriptor; to the end of a page, to the end of the item, to the end of what was asked for.
    assert_eq!(steps, [16, 3996, 2004, 1000]);
    assert_eq!(ram.get(at, 6000), LARGE);
    assert_eq!((ram.get(at + 6000, 1000), ram.get(at + 7000, 1)), (&[0; 1000][..], &[0xaa][..]));
    assert_eq!(ram.get(RAM, 4), [0; 4]);
}

/// Whatever a guest does, only its RAM changes, no step is long, and DMA comes to an end.
#[test]
fn no_guest_gets_out_of_its_ram() {
    let random = &mut Random(5);
    let (device, ram) = (&mut device(), &mut Ram::new());
    let (mut failed, mut done) = (0, 0);
    for _ in 0..50_000 {
        for _ in 0..random.next() % 4 {
            access(device, FRAME, random);
            while device.is_busy() {
                assert!(device.step(ram) <= PIECE);
            }
        }
        let place = |random: &mut Random| -> u64 {
            match random.next() % 8 {
                0 => random.next().into(),
                1 => u64::from(random.next()) << 32 | u64::from(random.next()),
                2 => u64::from(END) - u64::from(random.next() % 32),
                3 => u64::from(RAM) - u64::from(random.next() % 32),
                _ => u64::from(RAM) + u64::from(random.next()) % SIZE as u64,
            }
        };
        let (at, to) = (place(random), place(random));
        let key = if random.next() & 1 == 0 { random.next() } else { random.next() % 0x24 };
        let length = [random.next(), random.next() % 0x4000, random.next() % 8][random.next() as usize % 3];
        let control = (key << 16) | (random.next() % 32);
        assert!(device.offset as usize <= device.items.bytes(device.key).len());
        match dma_at(device, ram, at, (control, length, to)) {
            Some(0) => done += 1,
            // What was read may lie over the descriptor.
            Some(_) => failed += 1,
            None => {}
        }
    }
    assert!(failed > 1000 && done > 1000, "{failed} {done}");
    assert_eq!(ram.bytes.len(), SIZE);
}

#[test]
fn a_place_that_cannot_be_is_not_put_back() {
    let kept = |key, offset, transfer| FwCfg { key, offset, transfer, ..device() };
    let restore = |kept: FwCfg| device().restore(kept);
    let read = |left, key, from| {
        let transfer = Transfer::Read { descriptor: 0, to: u64::MAX, left, key, from };
        kept(0, 0, Some(transfer))
    };
    for fine in [kept(0x11, 6, None), kept(0xffff, 0, None), kept(0, 4, Some(Transfer::Begin(u64::MAX)))] {
        assert_eq!(restore(fine), Ok(()));
    }
    assert_eq!(restore(read(1, 0x12, 6000)), Ok(()));
    for wrong in [kept(0x11, 7, None), kept(0xffff, 1, None), read(0, 0x12, 0), read(1, 0x12, 6001)] {
        assert_eq!(restore(wrong).unwrap_err().0, "a place in fw_cfg that this guest's has not");
    }
}
