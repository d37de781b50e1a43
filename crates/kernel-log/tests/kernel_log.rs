//! Rings that were made for this, sound and otherwise, and what is read of them.

use proptest::prelude::*;
use spica_kallsyms::tables::Memory;
use spica_kallsyms::{Problem, Symbol};
use spica_kernel_log::place::{Linear, find};
use spica_kernel_log::ring::{MOST_BYTES, Ring};
use spica_kernel_log::{Log, Record, read};

/// Where memory begins, physically and for the kernel.
const START: u32 = 0x4000_0000;
const KERNEL: u32 = 0xc000_0000;
const SIZE: u32 = 0x4_0000;
/// The function that uses the ring, the variable that points to it, the ring, and its parts.
const CODE: u32 = KERNEL + 0x9000;
const POINTER: u32 = KERNEL + 0x1_0010;
const RING: u32 = KERNEL + 0x1_0100;
const DESCRIPTORS: u32 = KERNEL + 0x1_1000;
const INFOS: u32 = KERNEL + 0x1_2000;
const TEXTS: u32 = KERNEL + 0x1_8000;
/// 16 descriptors, and 512 bytes of text.
const COUNTS: u32 = 4;
const SIZES: u32 = 9;

/// What is done to memory.
type Change = fn(&mut Vec<u8>);

struct Ram {
    bytes: Vec<u8>,
    read: u64,
    /// Is done to the memory once so many bytes have been read.
    later: Option<(u64, Change)>,
}

impl Memory for Ram {
    fn find(&mut self, _: u32, _: u32, _: &[u8]) -> Result<Option<u32>, Problem> {
        Ok(None)
    }

    fn read(&mut self, at: u32, bytes: u32) -> Result<Vec<u8>, Problem> {
        assert!(at >= START, "{at:#x} is no RAM");
        self.read += u64::from(bytes);
        if let Some((_, change)) = self.later.take_if(|(after, _)| self.read > *after) {
            change(&mut self.bytes);
        }
        let from = (at - START) as usize;
        Ok(self.bytes[from.min(self.bytes.len())..(from + bytes as usize).min(self.bytes.len())].to_vec())
    }
}

fn put(bytes: &mut [u8], address: u32, words: &[u32]) {
    for (n, word) in words.iter().enumerate() {
        bytes[(address - KERNEL) as usize + 4 * n..][..4].copy_from_slice(&word.to_le_bytes());
    }
}

fn movw(register: u32, value: u32) -> u32 {
    0xe300_0000 | (value & 0xf000) << 4 | register << 12 | value & 0xfff
}

fn symbol(address: u32, name: &str) -> Symbol {
    Symbol { address, kind: b't', name: name.into() }
}

fn symbols() -> Vec<Symbol> {
    vec![
        symbol(KERNEL + 0x8000, "_text"),
        symbol(KERNEL + 0x8100, "prb_read_valid"),
        symbol(CODE, "vprintk_store.part.0"),
        symbol(CODE + 32, "vprintk_emit"),
    ]
}

/// A kernel's memory while it prints: as the kernel does, but for other processors.
struct Kernel {
    bytes: Vec<u8>,
    /// With the word that 5.19 brought.
    new: bool,
    id: u32,
    number: u64,
    head: u32,
}

impl Kernel {
    fn new(new: bool) -> Kernel {
        let mut bytes = vec![0; SIZE as usize];
        // MOVW and MOVT, with something in between; LDR R0, [R3, #8].
        let low = (POINTER - 8) & 0xffff;
        put(&mut bytes, CODE, &[movw(3, low), movw(2, 7), movw(3, POINTER >> 16) | 0x40_0000, 0xe593_0008]);
        put(&mut bytes, POINTER, &[RING]);
        let first = 0u32.wrapping_sub(1 << COUNTS).wrapping_sub(1) & 0x3fff_ffff;
        put(&mut bytes, DESCRIPTORS + 12 * (first & 15), &[first | 3 << 30, 1, 1]);
        let head = 0u32.wrapping_sub(1 << SIZES);
        let mut kernel = Kernel { bytes, new, id: first, number: 0, head };
        kernel.publish(first);
        kernel
    }

    fn publish(&mut self, oldest: u32) {
        let mut words = vec![COUNTS, DESCRIPTORS, INFOS, self.id, oldest];
        words.extend(self.new.then_some(self.id));
        words.extend([SIZES, TEXTS, self.head, self.head.wrapping_sub(100), 0]);
        put(&mut self.bytes, RING, &words);
    }

    fn print(&mut self, text: &str) {
        self.id = self.id.wrapping_add(1) & 0x3fff_ffff;
        let size = (4 + text.len() as u32).next_multiple_of(4);
        let begin = self.head;
        let (mut at, mut next) = (begin, begin.wrapping_add(size));
        let wrap = |position: u32| position >> SIZES;
        if wrap(begin) != wrap(next) {
            at = wrap(next) << SIZES;
            next = at + size;
        }
        let (at, n) = (TEXTS + (at & 511), self.id & 15);
        put(&mut self.bytes, at, &[self.id]);
        self.bytes[(at + 4 - KERNEL) as usize..][..text.len()].copy_from_slice(text.as_bytes());
        let positions = if text.is_empty() { [1, 3] } else { [begin, next] };
        if !text.is_empty() {
            self.head = next;
        }
        put(&mut self.bytes, DESCRIPTORS + 12 * n, &[self.id | 2 << 30, positions[0], positions[1]]);
        let time = 1_500_000_000 * self.number;
        let length = text.len() as u32 | 6 << 29;
        put(&mut self.bytes, INFOS + 88 * n, &[self.number as u32, 0, time as u32, (time >> 32) as u32, length]);
        self.number += 1;
        // Texts take more room than there is, long before descriptors do.
        self.publish(self.id.wrapping_sub(self.number.min(2) as u32) & 0x3fff_ffff);
    }

    fn ram(&self) -> Ram {
        Ram { bytes: self.bytes.clone(), read: 0, later: None }
    }

    fn log(&self, most: u32) -> Log {
        read(&mut self.ram(), START..START + SIZE, &symbols(), most).expect("a log")
    }
}

fn texts(log: &Log) -> Vec<String> {
    log.records.iter().map(|record| String::from_utf8_lossy(&record.text).into_owned()).collect()
}

#[test]
fn a_log_is_read_however_often_the_ring_has_turned() {
    for new in [false, true] {
        let mut kernel = Kernel::new(new);
        assert_eq!(kernel.log(9), Log::default(), "nothing was printed yet");
        for n in 0..100 {
            let text = |n: usize| "x".repeat(1 + n * 37 % 90) + &n.to_string();
            kernel.print(&text(n));
            let log = kernel.log(99);
            let from = n.saturating_sub(2);
            assert_eq!(texts(&log), (from..=n).map(text).collect::<Vec<_>>());
            let last = log.records.last().expect("one");
            assert_eq!((last.number, last.level), (n as u64, 6));
            assert_eq!(last.nanoseconds, 1_500_000_000 * n as u64);
        }
        kernel.print("");
        assert_eq!(texts(&kernel.log(1)), [""]);
        assert_eq!(kernel.log(1).older, 2);
        assert_eq!(kernel.log(0), Log { records: vec![], older: 3 });
    }
}

#[test]
fn lines_are_those_of_dmesg_without_what_moves_a_cursor() {
    let record = Record { number: 0, nanoseconds: 12_345_678_901, level: 4, text: b"a\x1b[2J\tb\nc\xff\n".to_vec() };
    assert_eq!(record.to_string(), "[   12.345678] a[2J\tb\n[   12.345678] c\u{fffd}");
}

/// The address may be in a literal pool, or be known by name.
#[test]
fn the_ring_is_found_in_other_ways() {
    let mut kernel = Kernel::new(true);
    kernel.print("here");
    // LDR R3, [PC, #8]; LDR R0, [R3, #-4].
    put(&mut kernel.bytes, CODE, &[0xe59f_3008, 0xe513_0004, 0xe12f_ff1e, 0, POINTER + 4]);
    assert_eq!(texts(&kernel.log(9)), ["here"]);
    put(&mut kernel.bytes, CODE, &[0; 8]);
    let mut symbols = symbols();
    symbols.push(symbol(POINTER, "prb"));
    let log = read(&mut kernel.ram(), START..START + SIZE, &symbols, 9).expect("a log");
    assert_eq!(texts(&log), ["here"]);
}

#[test]
fn another_kernel_is_told_apart() {
    let mut kernel = Kernel::new(true);
    let problem = |kernel: &Kernel, symbols: &[Symbol]| {
        find(&mut kernel.ram(), START..START + SIZE, symbols).expect_err("no log")
    };
    let without = |name: &str| symbols().into_iter().filter(|it| !it.name.starts_with(name)).collect::<Vec<_>>();
    assert!(problem(&kernel, &without("_text")).contains("where it is in memory"));
    put(&mut kernel.bytes, POINTER, &[0]);
    assert!(problem(&kernel, &symbols()).contains("another one than that of Linux 5.10"));
    assert!(problem(&kernel, &without("prb")).contains("older than Linux 5.10"));
    let mut none = without("prb");
    none.retain(|symbol| !symbol.name.starts_with("vprintk"));
    assert!(problem(&kernel, &none).contains("CONFIG_PRINTK"));
}

/// What is written over while it is read is left out, and nothing else.
#[test]
fn a_message_that_goes_while_it_is_read_is_left_out() {
    let mut kernel = Kernel::new(true);
    for text in ["one", "two", "three"] {
        kernel.print(text);
    }
    let linear = Linear { start: KERNEL, ram: START..START + SIZE };
    let mut ram = kernel.ram();
    let ring = Ring::at(&mut ram, &linear, RING).expect("memory").expect("a ring");
    // Behind descriptors and information: the first of the three is used again.
    ram.later = Some((ram.read + 3 * (12 + 88), |bytes| {
        let first = 0u32.wrapping_sub(16) & 0x3fff_ffff;
        let at = DESCRIPTORS + 12 * (first & 15);
        put(bytes, at, &[first.wrapping_add(16) & 0x3fff_ffff]);
        bytes[(TEXTS - KERNEL) as usize + 4..][..3].copy_from_slice(b"six");
    }));
    assert_eq!(texts(&ring.read(&mut ram, 9).expect("a log")), ["two", "three"]);
}

proptest! {
    /// Whatever a guest has there: no panic, and a bound.
    #[test]
    fn anything_is_survived(
        prints in 0usize..40,
        damage in proptest::collection::vec((0u32..0x1_8200 / 4, prop_oneof![any::<u32>(), 0u32..40, Just(KERNEL)]), 0..20),
        ring in proptest::collection::vec(prop_oneof![any::<u32>(), 0u32..26, KERNEL..KERNEL + SIZE], 10),
        replace in any::<bool>(),
    ) {
        let mut kernel = Kernel::new(true);
        for n in 0..prints {
            kernel.print(&"y".repeat(n * 7 % 60));
        }
        for (word, value) in damage {
            put(&mut kernel.bytes, KERNEL + 4 * word, &[value]);
        }
        if replace {
            put(&mut kernel.bytes, RING, &ring);
        }
        let mut ram = kernel.ram();
        if let Ok(log) = read(&mut ram, START..START + SIZE, &symbols(), u32::MAX) {
            log.records.iter().for_each(|record| drop(record.to_string()));
        }
        prop_assert!(ram.read < u64::from(MOST_BYTES) + 0x10_0000);
    }

    /// A ring whose parts are all somewhere in memory.
    #[test]
    fn any_ring_is_survived(newest in 0u32..64, oldest in 0u32..64, descriptors in proptest::collection::vec(any::<[u8; 4]>(), 48)) {
        let mut kernel = Kernel::new(true);
        kernel.print("first");
        for (n, [id, state, begin, next]) in (0..).zip(descriptors) {
            let words = [(u32::from(id) % 64) | (u32::from(state) << 30), u32::from(begin) * 8, u32::from(next) * 8];
            put(&mut kernel.bytes, DESCRIPTORS + 12 * n, &words);
        }
        put(&mut kernel.bytes, DESCRIPTORS + 12 * (newest & 15), &[newest | 2 << 30]);
        put(&mut kernel.bytes, DESCRIPTORS + 12 * (oldest & 15), &[oldest | 2 << 30]);
        put(&mut kernel.bytes, RING + 12, &[newest, oldest]);
        let _ = read(&mut kernel.ram(), START..START + SIZE, &symbols(), 16);
    }
}
