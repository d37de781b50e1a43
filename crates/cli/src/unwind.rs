//! From a sample to the functions that were called: the kernel's stack, unwound.
//!
//! A sample has the words of the stack that may be return addresses, not the stack. Which of them is one, the kernel
//! itself says, if it was built with `CONFIG_ARM_UNWIND`, as Debian's is: its memory has tables of how to unwind each
//! function (*Exception Handling ABI for the Arm Architecture*, IHI 0038, sections 6 and 10), for its own backtraces.
//! They are read once. How large a function's frame is, and where LR is in it, hardly ever depends on a register, so
//! the numbers of the words are enough. Where it is found by R11, as in the scheduler, which is compiled with a frame
//! pointer, what lies below the registers that were pushed is as large as the function's first instructions make it.
//!
//! Where there are no tables, or a table does not fit what is on the stack, as in the first instructions of a function,
//! the next word is taken that has a call in front of it which may have called where the kernel was. That is a guess.

use std::ops::Range;

use spica_console::debug::{SAMPLE_CALL, SAMPLE_LR, SAMPLE_STALE};
use spica_isa::ModImm;
use spica_kallsyms::tables::Memory;
use spica_kallsyms::{Problem, Symbol};
use spica_kernel_log::place::Linear;

/// Calls in each other that are looked at, at most.
const MOST_FRAMES: usize = 64;
/// Bytes of a kernel's table at most: Debian's 6.1 has 270,000.
const MOST_TABLE: u32 = 4 << 20;
/// Bytes that are read at once.
const PIECE: u32 = 0x1_0000;
/// Words that an entry has elsewhere at most.
const MOST_WORDS: u32 = 4;
/// The function that uses the table, and so has its address.
const USER: &str = "unwind_frame";
/// Bytes of that which are looked at.
const USER_BYTES: u32 = 0x400;
/// Words at a function's beginning that may make its frame, and bytes between two functions whose first words are read
/// in one go.
const PROLOGUE: u32 = 16;
const GAP: u32 = 1024;
/// Functions whose first words are read at most, so that a guest cannot have all of its memory read: Debian's 6.1 has
/// 584.
const MOST_PROLOGUES: usize = 8192;
/// Words of a stack: no frame is larger.
const STACK: u32 = 2048;
/// An entry of a function that cannot be unwound: nothing has called it.
const CANTUNWIND: u32 = 1;

/// Words that an exception's frame has behind PC: CPSR, the old R0, DACR and TTBCR (`struct svc_pt_regs`).
const BEHIND_PC: u32 = 4;

/// A sample: see `spica_console::debug::Debug::Samples`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Sample {
    /// Where the kernel was.
    pub pc: u32,
    /// TPIDRURO, where Linux has its current task.
    pub task: u32,
    /// LR, if it may be a return address.
    pub lr: Option<Word>,
    /// The words of the stack that may be return addresses, in the order of their numbers.
    pub words: Vec<Word>,
}

/// Such a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word {
    /// Its number on the stack, from SP on.
    pub place: u32,
    /// Itself.
    pub address: u32,
    /// It has a call in front of it.
    pub call: bool,
    /// As far as that says what it calls, it may have called where the kernel was.
    pub plausible: bool,
}

impl Word {
    /// Where the kernel goes on, or was, in the function that this is an address of.
    fn place(&self, begins: impl Fn(u32) -> bool) -> u32 {
        // A call may be the last of its function, which has no end then; assembly makes LR a function's beginning.
        if !self.call && begins(self.address) { self.address } else { self.address.wrapping_sub(4) }
    }
}

impl Sample {
    /// Understands samples that follow each other. `None` if they are none.
    #[must_use]
    pub fn parse(mut bytes: &[u8]) -> Option<Vec<Sample>> {
        let mut samples = Vec::new();
        while let Some((&count, rest)) = bytes.split_first() {
            let (pc, rest) = rest.split_first_chunk()?;
            let (task, rest) = rest.split_first_chunk()?;
            let words = rest.get(..6 * usize::from(count))?;
            let mut sample =
                Sample { pc: u32::from_le_bytes(*pc), task: u32::from_le_bytes(*task), ..Sample::default() };
            for &[low, high, ref address @ ..] in words.as_chunks::<6>().0 {
                let marks = u16::from_le_bytes([low, high]);
                let place = marks & !(SAMPLE_CALL | SAMPLE_STALE);
                let word = Word {
                    place: place.into(),
                    address: u32::from_le_bytes(*address),
                    call: marks & SAMPLE_CALL != 0,
                    plausible: marks & (SAMPLE_CALL | SAMPLE_STALE) == SAMPLE_CALL,
                };
                if place == SAMPLE_LR {
                    sample.lr = Some(word);
                } else {
                    sample.words.push(word);
                }
            }
            samples.push(sample);
            bytes = &rest[words.len()..];
        }
        Some(samples)
    }

    fn at(&self, place: u32) -> Option<Word> {
        self.words.iter().find(|word| word.place == place).copied()
    }
}

/// How a function is unwound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Frame {
    /// Nothing has called it.
    Outermost,
    /// Its frame has so many words; LR is this one of them, or still in LR.
    Size(u32, Option<u32>),
    /// The same of what was pushed; below that are so many words more, behind the instruction at this address.
    Below(u32, Option<u32>, u32, u32),
    /// All registers were saved, and PC is this one of these words: an exception's frame.
    Exception(u32),
    /// It depends on a register.
    Unknown,
}

/// The tables of a kernel, and its functions.
#[derive(Default)]
pub struct Tables {
    /// Addresses of functions, and how they are unwound.
    entries: Vec<(u32, Frame)>,
}

impl Tables {
    /// Reads the tables of the kernel with these symbols, in the order of their addresses; empty ones if it has none.
    ///
    /// # Errors
    /// If the memory cannot be read.
    pub fn read(memory: &mut dyn Memory, ram: Range<u32>, symbols: &[Symbol]) -> Result<Tables, Problem> {
        let Some(linear) = Linear::of(symbols, ram) else { return Ok(Tables::default()) };
        let Some(user) = symbols.iter().find(|symbol| symbol.name == USER) else { return Ok(Tables::default()) };
        let Some(code) = linear.words(memory, user.address, USER_BYTES / 4)? else { return Ok(Tables::default()) };
        for address in constants(&code) {
            let Some(first) = linear.words(memory, address, 64)? else { continue };
            if is_table(address, &first) {
                return Tables::read_at(memory, &linear, address);
            }
        }
        Ok(Tables::default())
    }

    fn read_at(memory: &mut dyn Memory, linear: &Linear, table: u32) -> Result<Tables, Problem> {
        let mut tables = Tables::default();
        let (mut last, mut elsewhere) = (0, Vec::new());
        let mut by_register = Vec::new();
        let mut take = |n: usize, entry: Entry| {
            if let Entry { frame: Frame::Size(words, lr), by_register: true } = entry {
                by_register.push((n, words, lr));
                Frame::Unknown
            } else {
                entry.frame
            }
        };
        'pieces: for from in (table..table.saturating_add(MOST_TABLE)).step_by(PIECE as usize) {
            let Some(words) = linear.words(memory, from, PIECE / 4)? else { break };
            for (at, &[function, how]) in (from..).step_by(8).zip(words.as_chunks::<2>().0) {
                let function = target(at, function);
                if function < last || how == 0 {
                    break 'pieces;
                }
                last = function;
                let frame = match how {
                    CANTUNWIND => Frame::Outermost,
                    _ if how >> 31 == 0 => {
                        elsewhere.push((tables.entries.len(), target(at + 4, how)));
                        Frame::Unknown
                    }
                    _ => take(tables.entries.len(), understand(&[how])),
                };
                tables.entries.push((function, frame));
            }
        }
        // What is elsewhere lies together.
        let from = elsewhere.iter().map(|&(_, at)| at).min().unwrap_or(0);
        let to = elsewhere.iter().map(|&(_, at)| at).max().unwrap_or(0);
        if to > from && to - from < MOST_TABLE {
            let words = linear.words(memory, from, (to - from) / 4 + MOST_WORDS)?.unwrap_or_default();
            for (n, at) in elsewhere {
                let words = words.get((at - from) as usize / 4..).unwrap_or_default();
                tables.entries[n].1 = take(n, understand(&words[..words.len().min(MOST_WORDS as usize)]));
            }
        }
        tables.read_prologues(memory, linear, by_register)?;
        Ok(tables)
    }

    /// Looks at the beginnings of functions whose frames are found by a register: entries, with words that are pushed,
    /// and LR among them.
    fn read_prologues(
        &mut self,
        memory: &mut dyn Memory,
        linear: &Linear,
        mut functions: Vec<(usize, u32, Option<u32>)>,
    ) -> Result<(), Problem> {
        functions.sort_unstable_by_key(|&(n, ..)| n);
        functions.truncate(MOST_PROLOGUES);
        let start = |&(n, ..): &(usize, u32, Option<u32>)| self.entries[n].0;
        let near = |a: &_, b: &_| start(b) - start(a) <= GAP;
        let mut found = Vec::new();
        for near in functions.chunk_by(near) {
            let (Some(first), Some(last)) = (near.first().map(start), near.last().map(start)) else { continue };
            let words = linear.words(memory, first, (last - first) / 4 + PROLOGUE)?.unwrap_or_default();
            for &(n, pushed, lr) in near {
                let from = (self.entries[n].0 - first) as usize / 4;
                let code = words.get(from..from + PROLOGUE as usize).unwrap_or_default();
                if let Some((at, below)) = lowered(code) {
                    found.push((n, Frame::Below(pushed, lr, below, self.entries[n].0 + at)));
                } else if !code.is_empty() {
                    found.push((n, Frame::Size(pushed, lr)));
                }
            }
        }
        for (n, frame) in found {
            self.entries[n].1 = frame;
        }
        Ok(())
    }

    /// How many functions have an entry.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn frame(&self, address: u32) -> Frame {
        let behind = self.entries.partition_point(|&(function, _)| function <= address);
        behind.checked_sub(1).map_or(Frame::Unknown, |n| self.entries[n].1)
    }

    /// Where the kernel was, and where that was called from: addresses, from the innermost on, each in the function
    /// that called. `begins` says whether a function begins at an address, and whether two addresses are in one.
    pub fn unwind(&self, sample: &Sample, same: impl Fn(u32, u32) -> bool, begins: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut frames = vec![sample.pc];
        let (mut pc, mut sp, mut lr) = (sample.pc, 0, sample.lr);
        if begins(pc)
            && let Some(caller) = lr.take()
        {
            // Nothing is on the stack yet.
            pc = caller.place(&begins);
            frames.push(pc);
        }
        while frames.len() < MOST_FRAMES {
            // In LR there may also be what the function itself has called last.
            let link = lr.take().filter(|lr| !same(lr.place(&begins), pc));
            let mut interrupted = None;
            let exact = match self.frame(pc) {
                Frame::Size(words, Some(place)) => sample.at(sp + place).map(|word| (word, sp + words)),
                Frame::Size(words, None) => link.map(|lr| (lr, sp + words)),
                Frame::Below(pushed, place, below, from) => {
                    let below = if frames.len() == 1 && pc <= from { 0 } else { below };
                    match place {
                        Some(place) => sample.at(sp + below + place).map(|word| (word, sp + below + pushed)),
                        None => link.map(|lr| (lr, sp + below + pushed)),
                    }
                }
                Frame::Exception(place) => {
                    lr = place.checked_sub(1).and_then(|place| sample.at(sp + place));
                    lr = lr.map(|word| Word { plausible: word.call, ..word });
                    let word = sample.at(sp + place);
                    interrupted = word.map(|word| word.address);
                    word.map(|word| (word, sp + place + 1 + BEHIND_PC))
                }
                // Nothing that may be a return address is behind the outermost function. But assembly that was called
                // seems to be one, too: the linker says so of what has no entry.
                Frame::Outermost | Frame::Unknown => None,
            };
            let guess = || {
                let next = sample.words.iter().find(|word| word.place >= sp && word.plausible);
                let outermost = self.frame(pc) == Frame::Outermost;
                let link = link.filter(|lr| lr.plausible || lr.call && !outermost);
                link.map(|lr| (lr, sp)).or_else(|| next.map(|word| (*word, word.place + 1)))
            };
            let Some((word, next)) = exact.or_else(guess) else { break };
            (pc, sp) = (interrupted.unwrap_or_else(|| word.place(&begins)), next);
            frames.push(pc);
        }
        frames
    }
}

/// The address that a word at `at` names, by its distance of 31 bits.
const fn target(at: u32, word: u32) -> u32 {
    at.wrapping_add_signed((word << 1).cast_signed() >> 1)
}

/// Whether words at `address` are a table's beginning: functions in the order of their addresses.
fn is_table(address: u32, words: &[u32]) -> bool {
    let functions: Vec<u32> =
        (address..).step_by(8).zip(words.as_chunks::<2>().0).map(|(at, &[function, _])| target(at, function)).collect();
    let near = |function: u32| function.abs_diff(address) < 64 << 20 && function.is_multiple_of(4);
    functions.is_sorted_by(|a, b| a < b) && functions.iter().all(|&function| near(function))
}

/// The constants that code loads, by MOVW and MOVT (ARM ARM A8.8.102, A8.8.106) or from behind itself.
fn constants(code: &[u32]) -> Vec<u32> {
    let mut low = [None::<u32>; 16];
    let mut found = Vec::new();
    for (n, &word) in (0..).zip(code) {
        let (register, half) = ((word >> 12 & 0xf) as usize, word >> 4 & 0xf000 | word & 0xfff);
        match word & 0x0fff_0000 {
            _ if word & 0x0ff0_0000 == 0x0300_0000 => low[register] = Some(half),
            _ if word & 0x0ff0_0000 == 0x0340_0000 => found.extend(low[register].map(|low| half << 16 | low)),
            0x059f_0000 => found.extend(code.get((4 * n + 8 + (word & 0xfff)) as usize / 4)),
            _ => {}
        }
    }
    found.retain(|address| address % 4 == 0);
    found.dedup();
    found
}

/// By how many words a function's first instructions lower SP, below what they push, and by which of them, as a
/// distance in bytes: `SUB SP, SP, #constant` (A8.8.225), in front of any branch. Of these, the one that traces
/// functions pops what was pushed for it.
fn lowered(code: &[u32]) -> Option<(u32, u32)> {
    let is_sub = |word: u32| word & 0xffff_f000 == 0xe24d_d000;
    let at = code.iter().position(|&word| is_sub(word) || word & 0x0e00_0000 == 0x0a00_0000)?;
    let constant = ModImm::from_field(code[at] & 0xfff).value();
    let is_frame = is_sub(code[at]) && constant.is_multiple_of(4) && constant / 4 < STACK;
    is_frame.then_some((4 * at as u32, constant / 4))
}

/// What an entry comes to.
struct Entry {
    frame: Frame,
    /// What was pushed is found by a register: [`lowered`] says what is below it.
    by_register: bool,
}

/// What an entry's words come to, in the compact forms that a kernel uses (IHI 0038, 10.3).
fn understand(words: &[u32]) -> Entry {
    const UNKNOWN: Entry = Entry { frame: Frame::Unknown, by_register: false };
    let Some(&first) = words.first() else { return UNKNOWN };
    let (skipped, more) = match first >> 24 {
        0x80 => (1, 0),
        0x81 | 0x82 => (2, (first >> 16 & 0xff) as usize),
        _ => return UNKNOWN,
    };
    let Some(words) = words.get(..=more) else { return UNKNOWN };
    let mut by_register = false;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).skip(skipped).collect();
    let (mut sp, mut lr, mut pc) = (0u32, None, None);
    let mut bytes = bytes.into_iter();
    let mut pop = |sp: &mut u32, registers: u32| {
        for register in 0..16 {
            if registers & 1 << register != 0 {
                match register {
                    14 => lr = Some(*sp),
                    15 => pc = Some(*sp),
                    _ => {}
                }
                *sp = sp.wrapping_add(1);
            }
        }
    };
    while let Some(byte) = bytes.next() {
        let n = u32::from(byte & 0xf);
        match byte {
            0x00..=0x3f => sp = sp.wrapping_add(u32::from(byte) + 1),
            // To what was pushed last.
            0x40..=0x7f if by_register && sp == 0 => {}
            0x40..=0x7f => sp = sp.wrapping_sub(u32::from(byte & 0x3f) + 1),
            0x9b => (sp, by_register) = (0, true),
            0x80..=0x8f => {
                let registers = n << 12 | u32::from(bytes.next().unwrap_or(0)) << 4;
                if registers == 0 {
                    return UNKNOWN;
                }
                pop(&mut sp, registers);
            }
            0xa0..=0xaf => {
                let link = if n & 8 == 0 { 0 } else { 1 << 14 };
                pop(&mut sp, ((2 << (n & 7)) - 1) << 4 | link);
            }
            0xb0 => break,
            0xb1 => pop(&mut sp, u32::from(bytes.next().unwrap_or(0) & 0xf)),
            0xb2 => {
                let (mut value, mut shift) = (0u32, 0);
                for byte in bytes.by_ref() {
                    value |= u32::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
                    shift += 7;
                    if byte & 0x80 == 0 {
                        break;
                    }
                }
                sp = sp.wrapping_add(0x81).wrapping_add(value);
            }
            _ => return UNKNOWN,
        }
    }
    let frame = match (pc, lr) {
        (Some(_), _) if by_register => Frame::Unknown,
        (Some(pc), _) if pc < STACK => Frame::Exception(pc),
        (None, lr) if sp < STACK && lr.is_none_or(|lr| lr < sp) => Frame::Size(sp, lr),
        _ => Frame::Unknown,
    };
    Entry { frame, by_register }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where RAM begins, physically and for the kernel.
    const START: u32 = 0x4000_0000;
    const KERNEL: u32 = 0xc000_0000;
    /// Functions: each has 64 KiB, so that a table of 32 looks like one.
    const FUNCTIONS: u32 = KERNEL + 0x10_0000;
    const TABLE: u32 = KERNEL + 0x8000;
    const ELSEWHERE: u32 = KERNEL + 0xa000;

    struct Ram(Vec<u8>);

    impl Memory for Ram {
        fn find(&mut self, _: u32, _: u32, _: &[u8]) -> Result<Option<u32>, Problem> {
            Ok(None)
        }

        fn read(&mut self, at: u32, bytes: u32) -> Result<Vec<u8>, Problem> {
            let from = (at - START) as usize;
            Ok(self.0[from.min(self.0.len())..(from + bytes as usize).min(self.0.len())].to_vec())
        }
    }

    impl Ram {
        fn put(&mut self, address: u32, word: u32) {
            self.0[(address - KERNEL) as usize..][..4].copy_from_slice(&word.to_le_bytes());
        }
    }

    fn symbol(address: u32, name: &str) -> Symbol {
        Symbol { address, kind: b't', name: name.to_string() }
    }

    /// A kernel whose functions, one each 64 KiB, are unwound so.
    fn kernel(entries: &[u32; 32], elsewhere: &[u32]) -> (Ram, Vec<Symbol>) {
        let mut ram = Ram(vec![0; 0x2_0000]);
        let user = KERNEL + 0x4000;
        // NOP; MOVW R3; MOVT R3: an address that is none; MOVW R1; MOVT R1.
        let movw = |register: u32, value: u32| 0xe300_0000 | (value & 0xf000) << 4 | register << 12 | value & 0xfff;
        let movt = |register: u32, value: u32| movw(register, value >> 16) | 0x0040_0000;
        let code = [0xe320_f000, movw(3, user), movt(3, user), movw(1, TABLE), movt(1, TABLE)];
        (0..).zip(code).for_each(|(n, word)| ram.put(user + 4 * n, word));
        for (n, &how) in (0..).zip(entries) {
            let at = TABLE + 8 * n;
            ram.put(at, (FUNCTIONS + 0x1_0000 * n).wrapping_sub(at) & 0x7fff_ffff);
            ram.put(at + 4, if how < 0x100 && how != CANTUNWIND { ELSEWHERE + how - at - 4 } else { how });
        }
        (0..).zip(elsewhere).for_each(|(n, &word)| ram.put(ELSEWHERE + 4 * n, word));
        (ram, vec![symbol(KERNEL + 0x1000, "_text"), symbol(user, USER)])
    }

    fn word(place: u32, address: u32) -> Word {
        Word { place, address, call: true, plausible: true }
    }

    #[test]
    fn entries_are_understood() {
        for (words, expected) in [
            // Finish; pop R4; pop R4 to R7, LR; pop R4, LR by mask, and 8 bytes before that.
            (&[0x80b0_b0b0][..], Frame::Size(0, None)),
            (&[0x80a0_b0b0], Frame::Size(1, None)),
            (&[0x80ab_b0b0], Frame::Size(5, Some(4))),
            (&[0x8001_8401], Frame::Size(4, Some(3))),
            // 0x204 + 4 * 0x81 bytes, by two bytes of ULEB128; then LR alone.
            (&[0x8101_b281, 0x0184_00b0], Frame::Size(0x81 + 0x81 + 1, Some(0x81 + 0x81))),
            // R0 to R3, then R4 to PC.
            (&[0x8101_b10f, 0x8fff_b0b0], Frame::Exception(15)),
            // SP = R11, 32 bytes down, pop R4 to R11, LR.
            (&[0x809b_47af], Frame::Size(9, Some(8))),
            // SP = R7; nothing to pop; another personality; cut off.
            (&[0x8097_b0b0], Frame::Unknown),
            (&[0x8080_00b0], Frame::Unknown),
            (&[0x83b0_b0b0], Frame::Unknown),
            (&[0x8102_b281, 0x0184_00b0], Frame::Unknown),
            (&[], Frame::Unknown),
        ] {
            assert_eq!(understand(words).frame, expected, "{words:x?}");
        }
    }

    #[test]
    fn tables_are_found_by_what_their_user_loads() {
        let mut entries = [CANTUNWIND; 32];
        (entries[1], entries[2], entries[3]) = (0x80a8_b0b0, 0, 8);
        let (mut ram, symbols) = kernel(&entries, &[0x8101_b10f, 0x8fff_b0b0, 0x80ab_b0b0]);
        let tables = Tables::read(&mut ram, START..START + 0x2_0000, &symbols).expect("memory");
        assert_eq!(tables.len(), 32);
        let at = |n: u32| tables.frame(FUNCTIONS + 0x1_0000 * n + 8);
        assert_eq!(
            [0, 1, 2, 3].map(at),
            [Frame::Outermost, Frame::Size(2, Some(1)), Frame::Exception(15), Frame::Size(5, Some(4))]
        );
        assert_eq!(tables.frame(FUNCTIONS - 4), Frame::Unknown);
        let none = Tables::read(&mut ram, START..START + 0x2_0000, &symbols[..1]).expect("memory");
        assert!(none.is_empty());
    }

    #[test]
    fn frames_that_are_found_by_a_register_are_as_large_as_code_makes_them() {
        let mut entries = [CANTUNWIND; 32];
        (entries[1], entries[2], entries[3], entries[4]) = (0x809b_47af, 8, 0x809b_47af, 0);
        let (mut ram, symbols) = kernel(&entries, &[0x80ab_b0b0, 0, 0x8101_9b42, 0x8483_b0b0]);
        // PUSH of R4 to R11 and LR, MRC, ADD FP, SUB SP of 60 bytes; PUSH, ADD FP, PUSH of LR, and BL.
        let push = [0xe92d_4ff0, 0xe28d_b020, 0xe52d_e004, 0xebd7_7d02, 0xe24d_d010];
        for (n, code) in [(1, &[0xe92d_4ff0, 0xee1d_7f70, 0xe28d_b020, 0xe24d_d03c][..]), (3, &push)] {
            let function = FUNCTIONS - KERNEL + 0x1_0000 * n;
            ram.0.resize((function + 0x1_0000) as usize, 0);
            (0..).zip(code).for_each(|(n, &word)| ram.put(KERNEL + function + 4 * n, word));
        }
        let end = START + ram.0.len() as u32;
        let tables = Tables::read(&mut ram, START..end, &symbols).expect("memory");
        let at = |n: u32| tables.frame(FUNCTIONS + 0x1_0000 * n + 8);
        let below = Frame::Below(9, Some(8), 15, FUNCTIONS + 0x1_0000 + 12);
        assert_eq!([1, 2, 3].map(at), [below, Frame::Size(4, Some(3)), Frame::Size(9, Some(8))]);
    }

    #[test]
    fn no_frame_is_larger_than_a_stack() {
        // SUB SP, SP of 496 bytes, of 8,192, and of 6.
        let below = [0xe24d_de1f, 0xe24d_da02, 0xe24d_d006].map(|word| lowered(&[0xe92d_4ff0, word]));
        assert_eq!(below, [Some((4, 124)), None, None]);
    }

    #[test]
    fn a_frame_is_not_there_before_it_is_made() {
        let frames = [Frame::Outermost, Frame::Size(2, Some(1)), Frame::Below(2, Some(1), 3, 0x200c)];
        let sample = |pc, words: &[(u32, u32)]| {
            let words = words.iter().map(|&(place, address)| word(place, address)).collect();
            Sample { pc, task: 0, lr: None, words }
        };
        // What is left over below is plausible, too.
        assert_eq!(unwound(&frames, &sample(0x200c, &[(0, 0x2010), (1, 0x1010), (3, 0x0010)])), [2, 1, 0]);
        let words = [(0, 0x2010), (1, 0x0010), (4, 0x1010), (6, 0x0010)];
        assert_eq!(unwound(&frames, &sample(0x2010, &words)), [2, 1, 0]);
    }

    /// Function N is at 0x1000 * N.
    fn unwound(frames: &[Frame], sample: &Sample) -> Vec<u32> {
        let tables = Tables { entries: (0..).zip(frames).map(|(n, frame)| (0x1000 * n, *frame)).collect() };
        let frames = tables.unwind(sample, |a, b| a >> 12 == b >> 12, |address| address % 0x1000 == 0);
        frames.into_iter().map(|address| address >> 12).collect()
    }

    #[test]
    fn stacks_are_unwound_by_tables_first() {
        let frames = [
            Frame::Outermost,
            Frame::Size(3, Some(2)),
            Frame::Size(2, Some(1)),
            Frame::Size(0, None),
            Frame::Exception(15),
            Frame::Unknown,
        ];
        // 3 was called by 2, which 1 has called, which 0 has called. What is left over is seen through.
        let words = vec![word(0, 0x5008), word(1, 0x1008), word(2, 0x5008), word(4, 0x0010)];
        let lr = Some(word(0x800, 0x2010));
        let mut sample = Sample { pc: 0x3008, task: 0, lr, words };
        assert_eq!(unwound(&frames, &sample), [3, 2, 1, 0]);
        // At the beginning of 2, all of its caller's stack is still there.
        sample.pc = 0x2000;
        sample.lr = Some(word(0x800, 0x1010));
        sample.words = vec![word(2, 0x0010)];
        assert_eq!(unwound(&frames, &sample), [2, 1, 0]);
        // LR is of what 2 has called itself: its caller is on the stack.
        sample.pc = 0x2010;
        sample.lr = Some(word(0x800, 0x2010));
        sample.words = vec![word(1, 0x0010)];
        assert_eq!(unwound(&frames, &sample), [2, 0]);
        // An exception's frame: PC and LR of what was interrupted, which is at its beginning or behind it.
        sample.pc = 0x4008;
        sample.lr = None;
        sample.words =
            vec![word(14, 0x2010), Word { call: false, plausible: false, ..word(15, 0x3010) }, word(21, 0x0010)];
        assert_eq!(unwound(&frames, &sample), [4, 3, 2, 0]);
        // Nothing is known of 5: the next plausible word.
        sample.pc = 0x5008;
        sample.words = vec![Word { plausible: false, ..word(0, 0x3010) }, word(3, 0x1010), word(6, 0x0010)];
        assert_eq!(unwound(&frames, &sample), [5, 1, 0]);
        // LR was made by assembly: what it names is where a function begins.
        sample.pc = 0x3008;
        sample.words = Vec::new();
        sample.lr = Some(Word { call: false, ..word(0x800, 0x1000) });
        assert_eq!(unwound(&frames, &sample), [3, 1]);
    }

    #[test]
    fn a_stack_that_never_ends_is_cut() {
        let words = (0..60).map(|n| word(n, 0x1008)).chain((60..120).map(|n| word(n, 0x2008))).collect();
        let sample = Sample { pc: 0x1008, task: 0, lr: None, words };
        assert_eq!(unwound(&[Frame::Unknown, Frame::Size(0, Some(0)), Frame::Unknown], &sample).len(), MOST_FRAMES);
    }

    #[test]
    fn samples_are_parsed_or_refused() {
        let mut bytes = vec![2];
        bytes.extend([0x1234_5678_u32, 9].iter().flat_map(|word| word.to_le_bytes()));
        for (marks, address) in [(SAMPLE_LR | SAMPLE_CALL, 1u32), (7 | SAMPLE_CALL | SAMPLE_STALE, 2)] {
            bytes.extend(marks.to_le_bytes());
            bytes.extend(address.to_le_bytes());
        }
        let lr = Some(Word { plausible: true, ..word(0x800, 1) });
        let words = vec![Word { plausible: false, ..word(7, 2) }];
        let sample = Sample { pc: 0x1234_5678, task: 9, lr, words };
        assert_eq!(Sample::parse(&[&bytes[..], &bytes[..]].concat()), Some(vec![sample.clone(), sample]));
        for cut in 1..bytes.len() {
            assert_eq!(Sample::parse(&bytes[..cut]), None, "{cut}");
        }
    }
}
