//! Lines of source, by a kernel's debug symbols (DWARF), and what was counted of each.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use gimli::{Dwarf, EndianArcSlice, RunTimeEndian};
use object::{Object, ObjectSection, ObjectSymbol, SectionKind};
use spica_kallsyms::Symbol;
use spica_runner::error::{Context, Error, Result};

use crate::counts::{Counts, Run};

type Reader = EndianArcSlice<RunTimeEndian>;

/// Of so many names that both have, one may be elsewhere. Of the same kernel, all are where the file says.
const TOLERANCE: usize = 100;

/// A line of a source file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Line {
    /// The file, as the compiler was given it, without `..`.
    pub file: String,
    /// Its number in there, from 1 on.
    pub number: u32,
}

/// What was executed of a line.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Executed {
    /// Instructions.
    pub instructions: u64,
    /// How often that of its instructions was that was executed most. Where the compiler has a line at several places,
    /// as in functions that it copies into others, that is the most of them, not the sum.
    pub times: u64,
}

/// Where code came from.
pub struct Source {
    lines: addr2line::Context<Reader>,
    /// Addresses of code: begins and ends.
    code: Vec<(u64, u64)>,
    /// Functions, as the file has them.
    functions: BTreeMap<u64, String>,
}

impl Source {
    /// Reads an ELF file with debug symbols.
    ///
    /// # Errors
    /// If it cannot be read, or has none.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&bytes).map_err(|problem| {
            Error::failed(format!(
                "{}: {problem}. What is wanted is the kernel as an ELF file with debug symbols, as the vmlinux of \
                 Debian's package linux-image-…-dbg is, below usr/lib/debug/boot",
                path.display()
            ))
        })
    }

    fn parse(bytes: &[u8]) -> std::result::Result<Self, String> {
        let file = object::File::parse(bytes).map_err(|error| format!("this is no ELF file: {error}"))?;
        if file.section_by_name(".debug_line").is_none() {
            return Err("it has no debug symbols (no section .debug_line)".into());
        }
        let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let sections = Dwarf::load(|id| {
            let section = file.section_by_name(id.name());
            let data = section.map_or(Ok(&[][..]), |section| section.data())?;
            Ok::<_, object::Error>(EndianArcSlice::new(Arc::from(data), endian))
        });
        let sections = sections.map_err(|error| format!("its debug symbols cannot be read: {error}"))?;
        let lines = addr2line::Context::from_dwarf(sections)
            .map_err(|error| format!("its debug symbols are not understood: {error}"))?;
        let code = file
            .sections()
            .filter(|section| section.kind() == SectionKind::Text && section.size() != 0)
            .map(|section| (section.address(), section.address() + section.size()));
        let functions = file
            .symbols()
            .filter(|symbol| symbol.kind() == object::SymbolKind::Text)
            .filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?.to_string())));
        Ok(Self { code: code.collect(), functions: functions.collect(), lines })
    }

    /// Looks whether this is the kernel that has these names.
    ///
    /// # Errors
    /// If it is another one.
    pub fn check(&self, names: &[Symbol]) -> Result<()> {
        let by_name: BTreeMap<&str, u64> =
            self.functions.iter().map(|(&address, name)| (name.as_str(), address)).collect();
        let known = names.iter().filter_map(|symbol| Some((symbol, by_name.get(symbol.name.as_str())?)));
        let known = known.filter(|(symbol, _)| matches!(symbol.kind, b'T'));
        let (mut all, mut elsewhere) = (0, None::<(usize, &Symbol, u64)>);
        for (symbol, &address) in known {
            all += 1;
            if u64::from(symbol.address) != address {
                elsewhere = Some(elsewhere.map_or((1, symbol, address), |(n, ..)| (n + 1, symbol, address)));
            }
        }
        match elsewhere {
            Some((n, symbol, address)) if n * TOLERANCE > all => Err(Error::failed(format!(
                "these are the debug symbols of another kernel: {n} of {all} functions are elsewhere, {} at {:#010x} \
                 in the guest and at {address:#010x} in the file",
                symbol.name, symbol.address
            ))),
            _ if all == 0 && !names.is_empty() => Err(Error::failed(
                "these are the debug symbols of another kernel: no function has a name of the guest's",
            )),
            _ => Ok(()),
        }
    }

    /// All lines that have code, and what was executed of each.
    ///
    /// # Errors
    /// If the debug symbols are damaged.
    pub fn lines(&self, counts: &Counts) -> Result<BTreeMap<Line, Executed>> {
        let executed = executed(counts);
        let mut lines: BTreeMap<Line, Executed> = BTreeMap::new();
        for &(begin, end) in &self.code {
            let ranges = self.lines.find_location_range(begin, end).map_err(damaged)?;
            for (address, length, location) in ranges {
                let (Some(file), Some(number)) = (location.file, location.line) else { continue };
                let line = lines.entry(Line { file: plain(file), number }).or_default();
                for (_, &times) in executed.range(address..address + length) {
                    line.instructions = line.instructions.wrapping_add(times);
                    line.times = line.times.max(times);
                }
            }
        }
        Ok(lines)
    }

    /// The line of a function's first instruction.
    fn line_of(&self, address: u64) -> Option<Line> {
        let location = self.lines.find_location(address).ok()??;
        Some(Line { file: plain(location.file?), number: location.line? })
    }

    /// A table of lines for people, those with most instructions first.
    ///
    /// # Errors
    /// As [`Self::lines`].
    pub fn table(&self, counts: &Counts) -> Result<String> {
        let all = counts.instructions().max(1);
        let mut lines: Vec<_> = self.lines(counts)?.into_iter().filter(|(_, line)| line.instructions != 0).collect();
        lines.sort_by(|(a, x), (b, y)| y.instructions.cmp(&x.instructions).then_with(|| a.cmp(b)));
        let mut text = format!("{:>14} {:>8} {:>12}  line\n", "instructions", "share", "times");
        for (Line { file, number }, Executed { instructions, times }) in lines {
            let share = instructions as f64 * 100.0 / all as f64;
            let _ = writeln!(text, "{instructions:>14} {share:>6.2} % {times:>12}  {file}:{number}");
        }
        Ok(text)
    }

    /// A tracefile of lcov (geninfo(1)): all source files that have code, with their lines and functions.
    ///
    /// # Errors
    /// As [`Self::lines`].
    pub fn lcov(&self, counts: &Counts) -> Result<String> {
        #[derive(Default)]
        struct File<'a> {
            functions: BTreeMap<(u32, &'a str), u64>,
            lines: BTreeMap<u32, u64>,
        }
        let mut files: BTreeMap<String, File<'_>> = BTreeMap::new();
        for (Line { file, number }, Executed { times, .. }) in self.lines(counts)? {
            files.entry(file).or_default().lines.insert(number, times);
        }
        let executed = executed(counts);
        for (&address, name) in &self.functions {
            if let Some(Line { file, number }) = self.line_of(address) {
                let count = executed.get(&address).copied().unwrap_or(0);
                files.entry(file).or_default().functions.insert((number, name), count);
            }
        }
        let mut text = String::new();
        for (name, File { functions, lines }) in &files {
            let _ = writeln!(text, "TN:spica\nSF:{name}");
            for (number, name) in functions.keys() {
                let _ = writeln!(text, "FN:{number},{name}");
            }
            for ((_, name), count) in functions {
                let _ = writeln!(text, "FNDA:{count},{name}");
            }
            let hit = functions.values().filter(|&&count| count != 0).count();
            let _ = writeln!(text, "FNF:{}\nFNH:{hit}", functions.len());
            // Line 0 stands for what has none.
            let lines: Vec<_> = lines.iter().filter(|(number, _)| **number != 0).collect();
            for (number, count) in &lines {
                let _ = writeln!(text, "DA:{number},{count}");
            }
            let hit = lines.iter().filter(|(_, count)| **count != 0).count();
            let _ = writeln!(text, "LF:{}\nLH:{hit}\nend_of_record", lines.len());
        }
        Ok(text)
    }
}

/// How often each instruction was executed, by its address, of those that were.
fn executed(counts: &Counts) -> BTreeMap<u64, u64> {
    let mut executed: BTreeMap<u64, u64> = BTreeMap::new();
    for &Run { start, length, count } in &counts.runs {
        for n in 0..length {
            let times = executed.entry(start.wrapping_add(4 * n).into()).or_default();
            *times = times.wrapping_add(count);
        }
    }
    executed
}

fn damaged(error: gimli::Error) -> Error {
    Error::failed(format!("the debug symbols are damaged: {error}"))
}

/// A path without `.` and `..`, by its text alone.
fn plain(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." if parts.last().is_some_and(|&last| !last.is_empty() && last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the tests count.
    #[unsafe(no_mangle)]
    #[inline(never)]
    extern "C" fn spica_lines_probe(n: u32) -> u32 {
        let double = n.wrapping_mul(2);
        std::hint::black_box(double) ^ 1
    }

    const PROBE: u32 = line!() - 5;

    /// This test program, its file, and where the function above is in there.
    fn itself() -> (Source, u32) {
        assert_eq!(std::hint::black_box(spica_lines_probe)(4), 9);
        let source = Source::read(&std::env::current_exe().expect("a path")).expect("debug symbols");
        let (&address, _) =
            source.functions.iter().find(|(_, name)| *name == "spica_lines_probe").expect("the function");
        (source, u32::try_from(address).expect("a program that is at low addresses until it is loaded"))
    }

    #[test]
    fn lines_have_what_was_executed_of_them() {
        let (source, start) = itself();
        let counts = Counts { runs: vec![Run { start, length: 1, count: 7 }], ..Counts::default() };
        let lines = source.lines(&counts).expect("lines");
        let executed: Vec<_> = lines.iter().filter(|(_, line)| line.times != 0).collect();
        let [(line, what)] = executed[..] else { panic!("{executed:?}") };
        assert!(line.file.ends_with("cli/src/lines.rs") && line.number == PROBE, "{line:?}, not {PROBE}");
        assert_eq!(*what, Executed { instructions: 7, times: 7 });
        assert!(lines.iter().any(|(line, what)| line.file.ends_with("cli/src/counts.rs") && what.times == 0));
        let table = source.table(&counts).expect("a table");
        assert_eq!(table.lines().count(), 2, "{table}");
        assert!(table.contains(" 100.00 %            7  ") && table.trim_end().ends_with(&format!("lines.rs:{PROBE}")));
        let lcov = source.lcov(&counts).expect("a tracefile");
        let file = lcov
            .split("TN:spica\n")
            .find(|file| file.lines().next().is_some_and(|sf| sf.ends_with("cli/src/lines.rs")));
        let file = file.expect("this file");
        for expected in [
            format!("FN:{PROBE},spica_lines_probe\n"),
            "FNDA:7,spica_lines_probe\n".into(),
            format!("DA:{PROBE},7\n"),
            format!("DA:{},0\n", PROBE + 2),
            "LH:1\nend_of_record\n".into(),
        ] {
            assert!(file.contains(&expected), "{expected:?} is not in {file}");
        }
    }

    #[test]
    fn symbols_of_another_kernel_are_refused() {
        let (source, address) = itself();
        let named = |address| vec![Symbol { address, kind: b'T', name: "spica_lines_probe".into() }];
        source.check(&named(address)).expect("the same");
        source.check(&[]).expect("nothing is known of it");
        let error = source.check(&named(address + 4)).expect_err("elsewhere").message;
        assert!(error.contains("another kernel: 1 of 1 functions are elsewhere"), "{error}");
        let other = vec![Symbol { address, kind: b'T', name: "never_heard_of".into() }];
        assert!(source.check(&other).expect_err("none").message.contains("no function has a name"));
    }

    #[test]
    fn what_is_no_file_with_debug_symbols_is_refused() {
        assert!(Source::parse(b"no").err().expect("nothing").starts_with("this is no ELF file"));
        let missing = Source::read(Path::new("/nonexistent/vmlinux")).err().expect("nothing").message;
        assert!(missing.contains("/nonexistent/vmlinux"), "{missing}");
    }

    #[test]
    fn paths_are_short() {
        for (path, expected) in [
            ("/build/linux/debian/build/../../fs/./namei.c", "/build/linux/fs/namei.c"),
            ("../../fs/namei.c", "../../fs/namei.c"),
            ("fs/namei.c", "fs/namei.c"),
        ] {
            assert_eq!(plain(path), expected);
        }
    }
}
