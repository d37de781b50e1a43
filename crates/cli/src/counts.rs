//! What a guest's kernel executes, counted on the board, and what people read of that.
//!
//! The board counts *runs*: instructions that were executed one behind the other ([`spica_console::debug`]). So each
//! instruction was executed as often as all runs that it is in.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;
use std::time::{Duration, Instant};

use spica_console::base64;
use spica_console::debug::{COUNT_BYTES, READ_BYTES};
use spica_kallsyms::Symbol;
use spica_runner::control::client::Board;
use spica_runner::error::Result;

use crate::attached::{Attached, not_understood};
use crate::cycles::{self, Code};
use crate::symbols;
use crate::unwind::Sample;

/// The time between two looks at whether somebody wants it to end.
const REST: Duration = Duration::from_millis(20);

/// Samples that are kept at most: they take some hundred bytes each.
const MOST_SAMPLES: usize = 1 << 20;

/// A run of instructions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Run {
    /// The address of its first one.
    pub start: u32,
    /// How many there are.
    pub length: u32,
    /// How often it was executed.
    pub count: u64,
}

/// What was counted.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// The runs that were executed, in the order of their addresses.
    pub runs: Vec<Run>,
    /// Runs that had no counter, and blocks of Thumb code, as often as they were translated.
    pub missed: u32,
    /// How often the former were executed.
    pub uncounted: u64,
    /// Samples, if they were wanted.
    pub samples: Vec<Sample>,
    /// How many were lost.
    pub lost: u32,
}

/// What samples are wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sampling {
    /// How many instructions they are apart in the mean.
    pub every: u32,
    /// Addresses of the kernel's code, if they are known.
    pub code: Option<Range<u32>>,
}

impl Sampling {
    /// Of a kernel with these names, or none.
    #[must_use]
    pub fn new(every: u32, names: &[Symbol]) -> Self {
        Self { every, code: code_range(names) }
    }
}

/// Addresses of the code of a kernel with these names, and of its modules.
pub(crate) fn code_range(names: &[Symbol]) -> Option<Range<u32>> {
    let code = || names.iter().filter(|symbol| is_code(symbol)).map(|symbol| symbol.address);
    // Modules are in front of the kernel; exception vectors, and what code is used at the start only, are behind.
    let start = code().min().map(|start| (start & 0xf000_0000).saturating_sub(MODULES));
    let end = names.iter().find(|symbol| symbol.name == "_etext").map(|symbol| symbol.address).or(code().max());
    start.zip(end).filter(|(start, end)| start < end).map(|(start, end)| start..end)
}

/// How far in front of a kernel's own addresses its modules are at most.
const MODULES: u32 = 16 << 20;

/// A guest that is being counted. When this goes, the board counts no longer.
pub struct Counter {
    attached: Attached,
    samples: Vec<Sample>,
    lost: u32,
    sampling: bool,
}

impl Counter {
    /// Has the board count what the kernel of guest number `guest` executes, and take samples if they are wanted. The
    /// guest stands for a moment.
    ///
    /// # Errors
    /// If somebody debugs or counts it already, it is off, its kernel runs in place, or the board has gone.
    pub fn start(board: Board, guest: usize, sampling: Option<&Sampling>) -> Result<Self> {
        let attached = Attached::new(board, guest)?;
        let mut counter = Self { attached, samples: Vec::new(), lost: 0, sampling: sampling.is_some() };
        counter.attached.halt()?;
        counter.ask(&match sampling {
            None => "count".to_string(),
            Some(Sampling { every, code: None }) => format!("count {every:x}"),
            Some(Sampling { every, code: Some(Range { start, end }) }) => format!("count {every:x} {start:x} {end:x}"),
        })?;
        counter.ask("go")?;
        Ok(counter)
    }

    fn ask(&mut self, question: &str) -> Result<Vec<String>> {
        self.attached.ask(question)
    }

    /// Waits until `until`, or `stop` holds, and reads samples meanwhile.
    ///
    /// # Errors
    /// If the board has gone, or answers what is not understood.
    pub fn count(&mut self, until: Instant, stop: &dyn Fn() -> bool) -> Result<()> {
        while !stop() {
            self.read_samples()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(REST));
        }
        Ok(())
    }

    /// The samples that have come by now.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    fn read_samples(&mut self) -> Result<()> {
        if self.sampling {
            let lines = self.ask("samples")?;
            self.lost = understand_samples(&lines, &mut self.samples)?;
        }
        Ok(())
    }

    /// Ends it, and gives what was counted.
    ///
    /// # Errors
    /// If the board has gone, or answers what is not understood.
    pub fn end(mut self) -> Result<Counts> {
        let counts = self.stop()?;
        self.ask("detach")?;
        Ok(counts)
    }

    /// Ends it, and gives what was counted with its words, as far as they can be read.
    ///
    /// # Errors
    /// If the board has gone, or answers what is not understood.
    pub fn end_with_code(mut self, names: &[Symbol]) -> Result<(Counts, Code)> {
        let counts = self.stop()?;
        let ranges = cycles::ranges(&counts.runs);
        let guest = self.attached.guest;
        let mut code = symbols::words(&mut self.attached.board, guest, names, &ranges)?;
        // What is elsewhere, as modules are, is found by the guest's own tables, for which it stands.
        let elsewhere: Vec<_> = ranges.iter().filter(|range| !code.contains_key(&range.start)).collect();
        if !elsewhere.is_empty() && self.attached.halt().is_ok() {
            for at in elsewhere.into_iter().flat_map(|range| range.clone().step_by(READ_BYTES)) {
                // It may not be there any more.
                let Ok(lines) = self.ask(&format!("read va {at:x} {READ_BYTES:x}")) else { continue };
                let digits = lines.first().and_then(|line| line.strip_prefix("memory ")).unwrap_or_default();
                let word = |n: usize| u32::from_str_radix(digits.get(8 * n..8 * n + 8)?, 16).ok().map(u32::swap_bytes);
                code.extend((at..).step_by(4).zip((0..READ_BYTES / 4).map_while(word)));
            }
            self.ask("go")?;
        }
        self.ask("detach")?;
        Ok((counts, code))
    }

    fn stop(&mut self) -> Result<Counts> {
        // Of a guest that is off, there is nothing more to come.
        if self.attached.halt().is_ok() {
            self.ask("uncount")?;
            self.ask("go")?;
        }
        self.read_samples()?;
        let counts = understand(&self.ask("counts")?)?;
        Ok(Counts { samples: std::mem::take(&mut self.samples), lost: self.lost, ..counts })
    }
}

/// What was counted, from the lines of the board's answer.
///
/// # Errors
/// If they are not understood.
pub fn understand(lines: &[String]) -> Result<Counts> {
    let (first, rest) = lines.split_first().ok_or_else(not_understood)?;
    let numbers =
        first.strip_prefix("counted ").and_then(|numbers| numbers.split_once(' ')).ok_or_else(not_understood)?;
    let missed = numbers.0.parse().map_err(|_| not_understood())?;
    let uncounted = numbers.1.parse().map_err(|_| not_understood())?;
    let mut runs = Vec::new();
    for line in rest {
        let bytes = line.strip_prefix("counts ").and_then(base64::decode).ok_or_else(not_understood)?;
        let (whole, rest) = bytes.as_chunks::<COUNT_BYTES>();
        if !rest.is_empty() {
            return Err(not_understood());
        }
        runs.extend(whole.iter().map(|&[a, b, c, d, length, ref count @ ..]| Run {
            start: u32::from_le_bytes([a, b, c, d]),
            length: length.into(),
            count: u64::from_le_bytes(*count),
        }));
    }
    runs.sort_unstable();
    Ok(Counts { runs, missed, uncounted, ..Counts::default() })
}

/// Samples, from the lines of the board's answer. How many were lost, of all.
///
/// # Errors
/// If they are not understood.
pub fn understand_samples(lines: &[String], samples: &mut Vec<Sample>) -> Result<u32> {
    let (first, rest) = lines.split_first().ok_or_else(not_understood)?;
    let (_, lost) =
        first.strip_prefix("sampled ").and_then(|numbers| numbers.split_once(' ')).ok_or_else(not_understood)?;
    for line in rest {
        let bytes = line.strip_prefix("samples ").and_then(base64::decode).ok_or_else(not_understood)?;
        samples.extend(Sample::parse(&bytes).ok_or_else(not_understood)?);
        samples.truncate(MOST_SAMPLES);
    }
    lost.parse().map_err(|_| not_understood())
}

/// A function, or a page of code that has no names.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Function {
    /// How many of its instructions were executed.
    pub instructions: u64,
    /// How often its first one was.
    pub entries: u64,
}

/// Whether a symbol is of code, as `nm` says it.
fn is_code(symbol: &Symbol) -> bool {
    matches!(symbol.kind, b't' | b'T' | b'w' | b'W')
}

/// Where the code at an address belongs, and what that is called. `symbols` are in the order of their addresses.
pub(crate) fn place(address: u32, symbols: &[Symbol]) -> (u32, Option<&str>) {
    let behind = symbols.partition_point(|symbol| symbol.address <= address);
    // What is behind the last symbol of all is far away from it.
    if let Some(last) = behind.checked_sub(1).map(|last| symbols[last].address).filter(|_| behind < symbols.len()) {
        let first = symbols.partition_point(|symbol| symbol.address < last);
        // Of several names of a place, one is enough; labels within functions are none.
        if let Some(symbol) =
            symbols[first..behind].iter().find(|symbol| is_code(symbol) && !symbol.name.starts_with('$'))
        {
            return (last, Some(&symbol.name));
        }
    }
    (address & !0xfff, None)
}

impl Counts {
    /// How many instructions were executed. What is counted is the guest's to write: it may be anything.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.runs.iter().fold(0, |sum, run| sum.wrapping_add(run.count.wrapping_mul(run.length.into())))
    }

    /// The functions that were executed, by their addresses, with their names.
    #[must_use]
    pub fn functions<'a>(&self, symbols: &'a [Symbol]) -> BTreeMap<(u32, Option<&'a str>), Function> {
        let mut functions = BTreeMap::new();
        for run in &self.runs {
            for n in 0..run.length {
                let address = run.start.wrapping_add(4 * n);
                let key = place(address, symbols);
                let function: &mut Function = functions.entry(key).or_default();
                function.instructions = function.instructions.wrapping_add(run.count);
                if address == key.0 {
                    function.entries = function.entries.wrapping_add(run.count);
                }
            }
        }
        functions
    }
}

/// A table of functions for people, those with most instructions first.
#[must_use]
pub fn table(counts: &Counts, symbols: &[Symbol]) -> String {
    let all = counts.instructions().max(1);
    let mut functions: Vec<_> = counts.functions(symbols).into_iter().collect();
    functions.sort_by_key(|((address, _), function)| (std::cmp::Reverse(function.instructions), *address));
    let mut text = format!("{:>14} {:>8} {:>12}  function\n", "instructions", "share", "entries");
    for ((address, name), Function { instructions, entries }) in functions {
        let share = instructions as f64 * 100.0 / all as f64;
        let name = name.map_or_else(|| format!("[{address:#010x}]"), str::to_string);
        let _ = writeln!(text, "{instructions:>14} {share:>6.2} % {entries:>12}  {name}");
    }
    text
}

/// What was counted, as it is: for each run its address, its length in instructions, and how often it was executed.
#[must_use]
pub fn runs(counts: &Counts) -> String {
    let mut text = String::new();
    for Run { start, length, count } in &counts.runs {
        let _ = writeln!(text, "{start:08x} {length:>2} {count}");
    }
    text
}

/// A tracefile of lcov (geninfo(1)): all functions that have names, in one source file, with a line for each.
#[must_use]
pub fn lcov(counts: &Counts, symbols: &[Symbol]) -> String {
    let functions = counts.functions(symbols);
    let mut text = "TN:spica\nSF:kernel\n".to_string();
    let mut at = u32::MAX;
    let (mut found, mut hit) = (0, 0);
    let mut lines = String::new();
    for symbol in symbols.iter().filter(|symbol| is_code(symbol)) {
        // One name of each place, as in `place`.
        let key = place(symbol.address, symbols);
        if symbol.address == at || key.1 != Some(&symbol.name) {
            continue;
        }
        at = symbol.address;
        found += 1;
        // Code that is entered elsewhere only, as exception handlers, has been executed all the same.
        let count =
            functions.get(&key).map_or(0, |it| if it.entries == 0 { it.instructions.min(1) } else { it.entries });
        hit += u32::from(count != 0);
        let _ = writeln!(text, "FN:{found},{}", symbol.name);
        let _ = writeln!(lines, "FNDA:{count},{}", symbol.name);
    }
    let _ = writeln!(lines, "FNF:{found}\nFNH:{hit}\nend_of_record");
    text + &lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(address: u32, kind: u8, name: &str) -> Symbol {
        Symbol { address, kind, name: name.to_string() }
    }

    fn symbols() -> Vec<Symbol> {
        vec![
            symbol(0xc010_0000, b'T', "first"),
            symbol(0xc010_0010, b't', "second"),
            symbol(0xc010_0010, b'T', "alias"),
            symbol(0xc010_0020, b'T', "never"),
            symbol(0xc010_0030, b'D', "data"),
            symbol(0xc010_0040, b'B', "end"),
        ]
    }

    fn counts() -> Counts {
        let run = |start, length, count| Run { start, length, count };
        let runs =
            vec![run(0xbf00_0004, 2, 5), run(0xc010_0000, 6, 10), run(0xc010_0014, 1, 1), run(0xffff_0008, 1, 3)];
        Counts { runs, ..Counts::default() }
    }

    #[test]
    fn a_run_across_functions_counts_for_each() {
        let expected = "  instructions    share      entries  function
            40  54.05 %           10  first
            21  28.38 %           10  second
            10  13.51 %            0  [0xbf000000]
             3   4.05 %            0  [0xffff0000]
";
        assert_eq!(table(&counts(), &symbols()), expected);
        assert_eq!(counts().instructions(), 74);
        assert_eq!(table(&counts(), &[]).lines().count(), 1 + 3, "without names, by pages");
    }

    #[test]
    fn functions_that_were_not_executed_are_in_a_tracefile() {
        let expected = "TN:spica\nSF:kernel\nFN:1,first\nFN:2,second\nFN:3,never\n\
                        FNDA:10,first\nFNDA:10,second\nFNDA:0,never\nFNF:3\nFNH:2\nend_of_record\n";
        assert_eq!(lcov(&counts(), &symbols()), expected);
    }

    #[test]
    fn answers_are_understood_or_refused() {
        let mut bytes = vec![0x78, 0x56, 0x34, 0x12, 7];
        bytes.extend(9_u64.to_le_bytes());
        let lines = ["counted 1 2".to_string(), format!("counts {}", base64::encode(&bytes))];
        let counts = understand(&lines).expect("counts");
        assert_eq!(
            counts,
            Counts {
                runs: vec![Run { start: 0x1234_5678, length: 7, count: 9 }],
                missed: 1,
                uncounted: 2,
                ..Counts::default()
            }
        );
        for wrong in [&[][..], &["counted 1".into()], &["counts".into()], &[lines[0].clone(), "counts AAAA".into()]] {
            assert!(understand(wrong).is_err(), "{wrong:?}");
        }
    }
}
