//! Where a kernel's tables of symbols are.
//!
//! `scripts/kallsyms.c` of Linux writes them, each aligned to 4 bytes on a 32-bit kernel. Linux 6.1 has
//!
//! | table | contents |
//! |---|---|
//! | `kallsyms_offsets` | a word for each symbol: its address less the base, in ascending order |
//! | `kallsyms_relative_base` | the base; without it (`CONFIG_KALLSYMS_BASE_RELATIVE=n`) there are addresses above |
//! | `kallsyms_num_syms` | how many symbols there are |
//! | `kallsyms_names` | for each its length (LEB128, of one byte or two), and that many bytes: each is a token |
//! | `kallsyms_markers` | a word for each 256th symbol: where its name begins among the names |
//! | `kallsyms_seqs_of_names` | not in all kernels: 3 bytes or 4 for each symbol |
//! | `kallsyms_token_table` | 256 strings that end with 0: what a token stands for |
//! | `kallsyms_token_index` | 256 half words: where each string begins |
//!
//! In newer kernels the offsets and the base come last, with the sequence behind them. The tables are found from the
//! back: characters stand for themselves, and each digit is in some name, so the token table has [`DIGITS`] in it. What
//! is found is right only if all of it fits together.

use std::ops::Range;

use crate::Problem;

/// Physical memory of a guest, wherever that is.
pub trait Memory {
    /// Where `pattern` is first in memory from `from` up to `to`, if it is there.
    ///
    /// # Errors
    /// If that cannot be asked.
    fn find(&mut self, from: u32, to: u32, pattern: &[u8]) -> Result<Option<u32>, Problem>;

    /// `bytes` bytes of memory at `at`, or as many of them as there are.
    ///
    /// # Errors
    /// If that cannot be asked.
    fn read(&mut self, at: u32, bytes: u32) -> Result<Vec<u8>, Problem>;
}

/// A kernel in a file: its memory begins at address 0.
pub struct Bytes<'a>(pub &'a [u8]);

impl Memory for Bytes<'_> {
    fn find(&mut self, from: u32, to: u32, pattern: &[u8]) -> Result<Option<u32>, Problem> {
        let bytes = self.0.get(from as usize..to as usize).unwrap_or_default();
        let at = bytes.windows(pattern.len()).position(|window| window == pattern);
        Ok(at.map(|at| from + at as u32))
    }

    fn read(&mut self, at: u32, bytes: u32) -> Result<Vec<u8>, Problem> {
        let (from, to) = (at as usize, at as usize + bytes as usize);
        Ok(self.0[from.min(self.0.len())..to.min(self.0.len())].to_vec())
    }
}

/// Part of each token table.
pub const DIGITS: &[u8] = b"0\x001\x002\x003\x004\x005\x006\x007\x008\x009\x00";

/// Symbols that a kernel has at most: Debian's has some 100,000.
pub const MOST_SYMBOLS: u32 = 500_000;
/// Bytes that are read at most of one place that looks right.
pub const MOST_BYTES: u32 = 24 << 20;
/// How far the token table and its index reach from a place in it.
const AROUND: u32 = 0x4000;
/// Bytes of a name, compressed, at most, in front of which its length is.
const LONGEST_NAME: u32 = 512;
/// How much is read in front of the token table to find the markers: first where nothing is in between.
const BACK: [u32; 4] = [0x4000, 0x4_0000, 0x10_0000, 0x28_0000];
/// How much is read at once to find where the names begin.
const STEP: u32 = 0x2000;
/// Names that are looked at, and words, until one place has been looked at for long enough.
const PATIENCE: u32 = 50_000_000;

/// The tables of a kernel.
pub struct Tables {
    /// What the tokens stand for.
    pub tokens: Vec<Vec<u8>>,
    /// The names, compressed, with nothing behind them but what aligns what follows.
    pub names: Vec<u8>,
    /// The address of each symbol.
    pub addresses: Vec<u32>,
}

/// Memory that was read, and more of it as it is needed. There are no gaps in it.
struct Window<'a> {
    memory: &'a mut dyn Memory,
    range: Range<u32>,
    start: u32,
    bytes: Vec<u8>,
    patience: u32,
}

impl Window<'_> {
    fn end(&self) -> u32 {
        self.start + self.bytes.len() as u32
    }

    /// The bytes of these addresses; `None` if they are not all in the range and there.
    fn want(&mut self, want: Range<u32>) -> Result<Option<&[u8]>, Problem> {
        if want.start > want.end || want.start < self.range.start || want.end > self.range.end {
            return Ok(None);
        }
        if self.bytes.is_empty() {
            self.start = want.start;
        }
        let (start, end) = (self.start.min(want.start), self.end().max(want.end));
        if end - start > MOST_BYTES {
            return Ok(None);
        }
        if start < self.start {
            let mut before = self.memory.read(start, self.start - start)?;
            if before.len() as u32 != self.start - start {
                return Ok(None);
            }
            before.append(&mut self.bytes);
            (self.start, self.bytes) = (start, before);
        }
        if end > self.end() {
            let behind = self.memory.read(self.end(), end - self.end())?;
            if behind.len() as u32 != end - self.end() {
                return Ok(None);
            }
            self.bytes.extend(behind);
        }
        let at = (want.start - self.start) as usize;
        Ok(self.bytes.get(at..at + (want.end - want.start) as usize))
    }

    fn words(&mut self, at: u32, count: u32) -> Result<Option<Vec<u32>>, Problem> {
        let Some(end) = at.checked_add(4 * count) else { return Ok(None) };
        let bytes = self.want(at..end)?;
        Ok(bytes.map(|bytes| bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect()))
    }
}

impl Tables {
    /// The tables whose token table has [`DIGITS`] at `at`, in memory of this range. `None` if that is none.
    ///
    /// # Errors
    /// If the memory cannot be read.
    pub fn around(memory: &mut dyn Memory, range: &Range<u32>, at: u32) -> Result<Option<Tables>, Problem> {
        let mut window = Window { memory, range: range.clone(), start: 0, bytes: Vec::new(), patience: PATIENCE };
        let start = (at & !3).saturating_sub(AROUND).max(range.start.next_multiple_of(4));
        let end = at.saturating_add(AROUND).min(range.end);
        let Some(around) = window.want(start..end)? else { return Ok(None) };
        let Some((tokens, table, index)) = token_table(around, at.saturating_sub(start) as usize) else {
            return Ok(None);
        };
        let (table, behind) = (start + table as u32, start + index as u32 + 512);
        for back in BACK {
            let from = table.saturating_sub(back).max(range.start.next_multiple_of(4));
            let Some(words) = window.words(from, (table - from) / 4)? else { return Ok(None) };
            for markers in markers(&words) {
                if let Some((names, addresses)) = names_and_addresses(&mut window, from, &markers, behind)? {
                    return Ok(Some(Tables { tokens, names, addresses }));
                }
            }
        }
        Ok(None)
    }
}

/// The token table and its index in `bytes`, of which it has [`DIGITS`] at `at`: what the tokens stand for, where the
/// table begins, where the index does. `bytes` begin at a multiple of 4.
fn token_table(bytes: &[u8], at: usize) -> Option<(Vec<Vec<u8>>, usize, usize)> {
    let half = |at: usize| Some(usize::from(u16::from_le_bytes([*bytes.get(at)?, *bytes.get(at + 1)?])));
    'index: for place in (at.next_multiple_of(4)..bytes.len()).step_by(4) {
        if half(place) != Some(0) {
            continue;
        }
        let mut begins = [0; 256];
        for n in 1..256 {
            match half(place + 2 * n) {
                Some(next) if next > begins[n - 1] => begins[n] = next,
                _ => continue 'index,
            }
        }
        // The last string, and up to 4 bytes of 0, are between the table's last known place and the index.
        let Some(last) = place.checked_sub(begins[255] + 1) else { continue };
        for table in (last.saturating_sub(LONGEST_NAME as usize)..=last).rev().filter(|table| table % 4 == 0) {
            if table > at {
                continue;
            }
            let token = |n: usize| {
                let end = if n == 255 { place } else { table + begins[n + 1] };
                let text = bytes.get(table + begins[n]..end)?;
                let length = text.iter().position(|&byte| byte == 0)?;
                let rest = text[length..].iter().all(|&byte| byte == 0);
                (rest && text.len() - length <= if n == 255 { 4 } else { 1 }).then(|| text[..length].to_vec())
            };
            if let Some(tokens) = (0..256).map(token).collect() {
                return Some((tokens, table, place));
            }
        }
    }
    None
}

/// What may be markers: the number of their first word, and they themselves.
struct Markers {
    at: usize,
    markers: Vec<u32>,
}

/// Everything in `words` that may be markers, so that the token table begins behind them; the nearest to it first.
fn markers(words: &[u32]) -> Vec<Markers> {
    let most = 256 * (LONGEST_NAME + 2);
    let follows = |&[a, b]: &[u32; 2]| b > a && (512..=most).contains(&(b - a));
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        if words[at] != 0 {
            at += 1;
            continue;
        }
        let count = 1 + words[at..].array_windows::<2>().take_while(|pair| follows(pair)).count();
        let gap = 4 * (words.len() - at - count) as u64;
        let symbols = 256 * (count as u64 - 1) + 1..=256 * count as u64;
        // Nothing is in between, or the sequence, of 3 bytes or 4 for each symbol.
        let fits = |each: u64| gap.saturating_sub(3).div_ceil(each) <= *symbols.end() && gap / each >= *symbols.start();
        if gap == 0 || fits(3) || fits(4) {
            found.push(Markers { at, markers: words[at..at + count].to_vec() });
        }
        at += count;
    }
    found.reverse();
    found
}

/// Names, compressed, and addresses.
type NamesAndAddresses = (Vec<u8>, Vec<u32>);

/// The names and addresses that belong to these markers, the first of which is so many words behind `from`. Behind
/// `behind`, there may be offsets.
fn names_and_addresses(
    window: &mut Window<'_>,
    from: u32,
    Markers { at, markers }: &Markers,
    behind: u32,
) -> Result<Option<NamesAndAddresses>, Problem> {
    let end = from + 4 * *at as u32;
    let (count, last) = (markers.len() as u32, markers[markers.len() - 1]);
    // A symbol has a byte for its length, and one of its name.
    let Some(latest) = end.checked_sub(last.saturating_add(2)) else { return Ok(None) };
    let latest = latest & !3;
    let earliest = latest.saturating_sub(256 * (LONGEST_NAME + 2)).max(window.range.start.saturating_add(4) & !3);
    // More and more of it: most names are short.
    let mut before = latest;
    while before >= earliest {
        let from = before.saturating_sub(STEP).max(earliest - 4);
        let Some(words) = window.words(from, (before - from) / 4)? else { return Ok(None) };
        for (n, &symbols) in words.iter().enumerate().rev() {
            window.patience = window.patience.saturating_sub(1);
            if symbols.div_ceil(256) != count || symbols > MOST_SYMBOLS {
                continue;
            }
            let Some(patience) = window.patience.checked_sub(symbols) else { return Ok(None) };
            window.patience = patience;
            let number = from + 4 * n as u32;
            let Some(names) = window.want(number + 4..end)? else { return Ok(None) };
            if fits(names, symbols, markers) {
                let names = names.to_vec();
                let addresses = addresses(window, number, symbols, behind)?;
                return Ok(addresses.map(|addresses| (names, addresses)));
            }
        }
        before = from;
    }
    Ok(None)
}

/// Whether there are so many names, which the markers mark, and nothing behind them.
fn fits(names: &[u8], symbols: u32, markers: &[u32]) -> bool {
    let mut at = 0;
    for symbol in 0..symbols as usize {
        if symbol % 256 == 0 && markers.get(symbol / 256) != Some(&(at as u32)) {
            return false;
        }
        match length(&names[at..]) {
            Some((header, bytes)) if at + header + bytes <= names.len() => at += header + bytes,
            _ => return false,
        }
    }
    names.len() - at < 4 && names[at..].iter().all(|&byte| byte == 0)
}

/// The length of the name at the beginning of `names`: how many bytes say it, and how many follow.
pub(crate) fn length(names: &[u8]) -> Option<(usize, usize)> {
    let (&low, rest) = names.split_first()?;
    let (header, bytes) = match low {
        0..0x80 => (1, usize::from(low)),
        _ => (2, usize::from(low & 0x7f) | usize::from(*rest.first()?) << 7),
    };
    (bytes != 0).then_some((header, bytes))
}

/// The addresses of so many symbols, whose number is at `number`.
fn addresses(window: &mut Window<'_>, number: u32, symbols: u32, behind: u32) -> Result<Option<Vec<u32>>, Problem> {
    let relative = |words: &[u32], base: u32| -> Option<Vec<u32>> {
        // Addresses are larger than offsets.
        let small = words.last().is_some_and(|&last| last >> 31 == 0);
        let sound = base != 0 && words.first() == Some(&0) && words.is_sorted() && small;
        sound.then(|| words.iter().map(|word| base.wrapping_add(*word)).collect())
    };
    // In front of the number, with the base or without; or behind everything.
    let in_front = number.checked_sub(4 * symbols + 4).filter(|&at| at >= window.range.start);
    if let Some(at) = in_front
        && let Some(words) = window.words(at, symbols + 1)?
    {
        let (offsets, base) = words.split_at(symbols as usize);
        if let Some(found) = relative(offsets, base[0]) {
            return Ok(Some(found));
        }
        if words[1..].is_sorted() && words[1] != 0 {
            return Ok(Some(words[1..].to_vec()));
        }
    }
    let Some(words) = window.words(behind, symbols + 1)? else { return Ok(None) };
    let (offsets, base) = words.split_at(symbols as usize);
    Ok(relative(offsets, base[0]))
}
