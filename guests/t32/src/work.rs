//! Work of the kinds that compilers make much of T32 of. Each line is a result.

pub mod machine;
pub mod sha256;

use core::arch::asm;
use core::fmt::{self, Write as _};
use core::hint::black_box;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::println;

/// Random numbers: xorshift.
pub struct Random(u32);

impl Random {
    /// The row that a seed begins.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        Self(seed | 1 << 31)
    }
}

impl Iterator for Random {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        Some(self.0)
    }
}

/// Fills memory with such a row.
pub fn fill(words: &mut [u32], seed: u32) {
    words.iter_mut().zip(Random::new(seed)).for_each(|(word, random)| *word = random);
}

/// Sorts, searches, and goes through slices.
fn slices() {
    let mut numbers = [0; 500];
    fill(&mut numbers, 3);
    let mut others = numbers;
    numbers.sort_unstable();
    // By insertion, which moves memory by one element.
    for end in 1..others.len() {
        let at = others[..end].partition_point(|&other| other < others[end]);
        others[at..=end].rotate_right(1);
    }
    println!("  sorted alike: {}, {}", numbers == others, numbers.is_sorted());
    let found = (0..=u32::MAX).step_by(1 << 23).filter_map(|n| numbers.binary_search(&n).err()).sum::<usize>();
    let rising = numbers.windows(3).filter(|w| w[1] - w[0] < w[2] - w[1]).count();
    let sums = numbers.chunks_exact(7).map(|c| c.iter().fold(0u32, |sum, &n| sum.wrapping_add(n)));
    let odd = numbers.iter().rev().step_by(3).map(|&n| n as u16).filter(|n| n % 2 == 1).max();
    let signed = numbers.iter().map(|&n| i64::from(n as i32)).sum::<i64>();
    println!("  {found} {rising} {:#x} {odd:?} {signed}", sums.fold(0, |all, sum| all ^ sum));
    let text = "Übung macht den Meister; 42 ist -7 mehr als 49.";
    let upper = text.chars().filter(|c| c.is_uppercase()).count();
    let values = text.split([' ', '.']).filter_map(|word| word.parse::<i32>().ok());
    println!("  {} bytes, {} letters, {upper} capitals, {}", text.len(), text.chars().count(), values.sum::<i32>());
}

/// Numbers that are longer than a register.
fn long_numbers() {
    let (mut a, mut b) = (0u128, black_box(1u128));
    for _ in 0..180 {
        (a, b) = (b, a + b);
    }
    println!("  fibonacci {b}");
    println!("  {} {} {:#x}", b / 1_000_000_007, b % 0xffff_ffff_ffff, a.wrapping_mul(b) >> 17);
    // Fermat: a prime of 61 bits.
    let prime = black_box((1u64 << 61) - 1);
    let (mut power, mut base, mut exponent) = (1u64, 3u64, prime - 1);
    while exponent != 0 {
        let times = |x: u64, y: u64| (u128::from(x) * u128::from(y) % u128::from(prime)) as u64;
        if exponent & 1 != 0 {
            power = times(power, base);
        }
        base = times(base, base);
        exponent >>= 1;
    }
    println!("  3^(p - 1) = {power} mod {prime}");
    let signed = black_box(-1_234_567_890_123_456_789_i64);
    println!(
        "  {} {} {} {}",
        signed / 987_654_321,
        signed % 1_000_003,
        signed.leading_zeros() + signed.count_ones() + signed.trailing_zeros(),
        signed.unsigned_abs().isqrt()
    );
    println!("  {:?} {:?} {}", 7u32.checked_pow(12), 7u64.checked_pow(12), (signed as i32).saturating_sub(i32::MAX));
}

/// Floating point without a unit for it.
fn floats() {
    // Machin's formula.
    let arctan = |inverse: f64| {
        let (mut sum, mut power) = (0.0, 1.0 / inverse);
        for k in 0..30u32 {
            let term = power / f64::from(2 * k + 1);
            sum += if k % 2 == 0 { term } else { -term };
            power /= inverse * inverse;
        }
        sum
    };
    let pi = 16.0 * arctan(black_box(5.0)) - 4.0 * arctan(black_box(239.0));
    let mut root = 1.0_f32;
    for _ in 0..20 {
        root = (root + 2.0 / root) / 2.0;
    }
    println!("  {pi:.15} {root:.6} {:e} {}", pi * 1e100, (pi as f32).to_bits());
    println!("  {:?} {} {}", f64::NAN.max(-0.0), (pi * 1e9) as i64, "2.5e-3".parse::<f64>().is_ok_and(|x| x == 0.0025));
}

/// Shapes that are known by what they do.
trait Shape {
    fn area(&self) -> u32;
    fn name(&self) -> &'static str {
        "shape"
    }
}
struct Square(u32);
struct Rectangle(u32, u32);
struct Scaled<'a>(&'a dyn Shape, u32);
impl Shape for Square {
    fn area(&self) -> u32 {
        self.0 * self.0
    }
    fn name(&self) -> &'static str {
        "square"
    }
}
impl Shape for Rectangle {
    fn area(&self) -> u32 {
        self.0 * self.1
    }
}
impl Shape for Scaled<'_> {
    fn area(&self) -> u32 {
        self.0.area() * self.1 * self.1
    }
    fn name(&self) -> &'static str {
        self.0.name()
    }
}

/// Calls by registers, and of oneself.
fn calls() {
    let (square, rectangle) = (Square(12), Rectangle(3, 5));
    let scaled = Scaled(&rectangle, 4);
    let twice = Scaled(&scaled, 2);
    let shapes: [&dyn Shape; 4] = black_box([&square, &rectangle, &scaled, &twice]);
    for shape in shapes {
        println!("  {} {}", shape.name(), shape.area());
    }
    let functions: [fn(u32) -> u32; 4] =
        [u32::reverse_bits, u32::swap_bytes, |x| x.rotate_right(7), |x| x.wrapping_mul(x)];
    println!("  {:#x}", (0..100).fold(1u32, |x, at| black_box(functions)[at % 4](x).wrapping_add(at as u32)));

    // Queens on a board: columns and diagonals that are taken.
    fn queens(row: u32, columns: u32, left: u32, right: u32) -> u32 {
        if row == 8 {
            return 1;
        }
        let free = (0..8).map(|column| 1 << column).filter(|at| (columns | left | right) & at == 0);
        free.map(|at| queens(row + 1, columns | at, (left | at) << 1, (right | at) >> 1)).sum()
    }
    println!("  {} ways for 8 queens", queens(0, black_box(0), 0, 0));
}

/// A text in a buffer.
struct Text {
    bytes: [u8; 120],
    len: usize,
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let place = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

/// Formatting.
fn text() {
    #[derive(Debug)]
    #[expect(dead_code, reason = "the fields are read by `Debug` alone, which the compiler does not count")]
    enum Kind {
        Unit,
        Pair(i8, Option<char>),
        Named { wide: u64, text: &'static str },
    }
    for kind in [Kind::Unit, Kind::Pair(-128, Some('ß')), Kind::Named { wide: u64::MAX, text: "a\tb\"" }] {
        println!("  {kind:?} {:>+8}|{:<08.3}|{:^#12b}|", 77, 2.5, 5);
    }
    let mut text = Text { bytes: [0; 120], len: 0 };
    let written = (0..).take_while(|n| write!(text, "{n:02x}.").is_ok()).count();
    println!("  {written} {}", core::str::from_utf8(&text.bytes[..text.len]).is_ok_and(|t| t.ends_with("27.")));
}

/// Moves of memory of all small sizes, at all offsets, compared with moves byte by byte.
fn memory() {
    let mut bytes = [0u8; 256];
    let mut crc = 0u32;
    for len in 0..=67 {
        for (from, to) in [(16, 128), (17, 130), (19, 33), (33, 19), (40, 43), (43, 40), (20, 20)] {
            let random = Random::new(len as u32).map(|random| random as u8);
            bytes.iter_mut().zip(random).for_each(|(byte, random)| *byte = random);
            let mut slow = bytes;
            for at in 0..len {
                slow[to + at] = black_box(bytes[from + at]);
            }
            bytes.copy_within(from..from + len, to);
            assert!(bytes == slow, "{len} bytes from {from} to {to}");
            let place = black_box(from % 8);
            bytes[place..place + len].fill(len as u8);
            assert!(bytes[place..place + len].iter().all(|&byte| byte == len as u8));
            crc = bytes.iter().fold(crc, |crc, &byte| crc.rotate_left(5) ^ u32::from(byte));
        }
    }
    println!("  moved {crc:#010x}");
}

/// Exclusives of all sizes.
fn atomics() {
    let (byte, half) = (AtomicU8::new(250), AtomicU16::new(65_000));
    let (word, double) = (AtomicU32::new(1), AtomicU64::new(u64::MAX - 500));
    for at in 0..1000u32 {
        byte.fetch_add(at as u8, Relaxed);
        half.fetch_xor(at as u16, Relaxed);
        let _ = word.fetch_update(Relaxed, Relaxed, |word| Some(word.wrapping_mul(5) + at));
        double.fetch_add(u64::from(at), Relaxed);
    }
    let swapped = double.compare_exchange(499_498, 1, Relaxed, Relaxed);
    println!("  {byte:?} {half:?} {word:?} {double:?} {swapped:?} {}", word.swap(9, Relaxed));
    // A compiler takes pairs of registers, as A32 has to; T32 need not.
    let (low, high): (u32, u32);
    // SAFETY: It adds to a number that nobody else has.
    unsafe {
        asm!("2: ldrexd r5, r2, [r0]", "adds r5, #3", "adc r2, r2, #7", "strexd r1, r5, r2, [r0]", "cmp r1, #0",
            "bne 2b", in("r0") double.as_ptr(), out("r1") _, out("r5") low, out("r2") high, options(nostack));
    }
    println!("  {low} {high} {double:?}");
}

/// All of that.
pub fn run() {
    for (name, work) in [
        ("slices", slices as fn()),
        ("long numbers", long_numbers),
        ("floats", floats),
        ("calls by register", calls),
        ("text", text),
        ("memory", memory),
        ("atomics", atomics),
        ("machine", machine::run),
        ("hashes", sha256::run),
    ] {
        println!("{name}:");
        black_box(work)();
    }
}
