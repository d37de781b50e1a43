//! The names of functions in Spica's reports: from the kernels that a board was given.
//!
//! A report has addresses ([`crate::spica`]). The run has the board's bundle, and in that the guests' kernels: an ELF
//! file has a symbol table, and a Linux kernel the names for its own backtraces ([`spica_kallsyms`]), as they are or
//! packed. So names cost the board nothing, and are there when it has ended. A kernel that a guest loads by itself has
//! none here.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use object::elf::SHF_EXECINSTR;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionFlags};
use spica_bundle::archive;
use spica_bundle::{MANIFEST, Manifest, Place};
use spica_kallsyms::Symbol;
use spica_kallsyms::tables::Bytes;

use crate::unpacked;

/// An address so far behind a function is none in it.
const FARTHEST: u32 = 0x1_0000;
/// What a kernel that is packed by `gzip` begins with (RFC 1952, 2.3.1).
const GZIP: &[u8] = b"\x1f\x8b\x08";
/// So much of a bundle is looked at: kernels come before disks, if there is one guest.
const MOST_OF_BUNDLE: u64 = 256 << 20;
/// A kernel has no more bytes than this, unpacked.
const MOST: u64 = 128 << 20;

/// The names of guests' functions. See the module's text.
#[derive(Debug, Default)]
pub struct Names {
    bundle: PathBuf,
    /// The guest of which the lines are.
    guest: String,
    /// What is known already: each guest's functions, in the order of their addresses.
    known: Vec<(String, Vec<Symbol>)>,
}

impl Names {
    /// Those of the guests in the bundle of this file, which is read when there is an address. If it cannot be read,
    /// there are no names.
    #[must_use]
    pub fn of(bundle: PathBuf) -> Self {
        Self { bundle, ..Self::default() }
    }

    /// Puts names into a line of a report that has addresses of code. The line `guest NAME: …` says whose they are
    /// from then on.
    #[must_use]
    pub fn put_into(&mut self, line: &str) -> String {
        if let Some((name, _)) = line.strip_prefix("guest ").and_then(|rest| rest.split_once(": ")) {
            self.guest = name.to_string();
        }
        if !line.starts_with("    ") || !line.split([' ', ',']).any(|word| address(word).is_some()) {
            return line.to_string();
        }
        let functions = self.functions();
        let named = |word: &str| {
            let bare = word.trim_end_matches(',');
            match address(bare).and_then(|address| name(functions, address)) {
                Some(name) => format!("{bare} <{name}>{}", &word[bare.len()..]),
                None => word.to_string(),
            }
        };
        line.split(' ').map(named).collect::<Vec<_>>().join(" ")
    }

    fn functions(&mut self) -> &[Symbol] {
        let at = self.known.iter().position(|(guest, _)| *guest == self.guest).unwrap_or_else(|| {
            let mut bundle = Vec::new();
            // What cannot be read has no names.
            let _ = File::open(&self.bundle).and_then(|file| file.take(MOST_OF_BUNDLE).read_to_end(&mut bundle));
            let functions = kernel(&bundle, &self.guest).map(functions).unwrap_or_default();
            self.known.push((self.guest.clone(), functions));
            self.known.len() - 1
        });
        &self.known[at].1
    }
}

/// An address as reports have it.
fn address(word: &str) -> Option<u32> {
    let digits = word.len() == 8 && word.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    digits.then(|| u32::from_str_radix(word, 16).ok()).flatten()
}

/// The function of an address, and how far behind its beginning that is.
fn name(functions: &[Symbol], address: u32) -> Option<String> {
    let at = functions.partition_point(|function| function.address <= address);
    let function = functions[..at].last()?;
    match address - function.address {
        0 => Some(function.name.clone()),
        offset if offset < FARTHEST => Some(format!("{}+{offset:#x}", function.name)),
        _ => None,
    }
}

/// The file of a guest's kernel.
fn kernel<'a>(bundle: &'a [u8], guest: &str) -> Option<&'a [u8]> {
    let find = |name: &str| archive::entries(bundle).flatten().find(|entry| entry.name == name).map(|entry| entry.data);
    let manifest = Manifest::parse(str::from_utf8(find(MANIFEST)?).ok()?, Place::Board).ok()?;
    let entry = manifest.guests.iter().find(|entry| entry.name == guest)?;
    find(entry.kernel.as_deref()?)
}

/// The functions of a kernel, in the order of their addresses; none if it does not say.
fn functions(kernel: &[u8]) -> Vec<Symbol> {
    let mut functions = match object::File::parse(kernel) {
        Ok(file) => symbols(&file),
        Err(_) => {
            let packed = unpack(kernel);
            [Some(kernel), packed.as_deref()].into_iter().flatten().find_map(names).unwrap_or_default()
        }
    };
    functions.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
    functions.dedup_by_key(|function| function.address);
    functions
}

/// The symbols of an ELF file. A kernel in assembly has no types for them; those that begin with `$` are an assembler's
/// own.
fn symbols(file: &object::File<'_>) -> Vec<Symbol> {
    let is_code = |index| {
        let flags = file.section_by_index(index).map(|section| section.flags());
        matches!(flags, Ok(SectionFlags::Elf { sh_flags, .. }) if sh_flags.contains(SHF_EXECINSTR))
    };
    let code = file.symbols().filter(|symbol| symbol.section_index().is_some_and(is_code));
    let symbol = |symbol: object::Symbol<'_, '_>| {
        let name = symbol.name().ok().filter(|name| !name.is_empty() && !name.starts_with('$'))?;
        let name = name.chars().filter(|char| !char.is_control()).collect();
        Some(Symbol { address: symbol.address() as u32 & !1, kind: b't', name })
    };
    code.filter_map(symbol).collect()
}

/// The names of functions that a kernel has for itself.
fn names(kernel: &[u8]) -> Option<Vec<Symbol>> {
    let length = u32::try_from(kernel.len()).ok()?;
    let mut symbols = spica_kallsyms::find(&mut Bytes(kernel), 0..length, 0).ok()?;
    symbols.retain(|symbol| matches!(symbol.kind, b't' | b'T' | b'w' | b'W'));
    Some(symbols)
}

/// What is packed in a zImage.
fn unpack(zimage: &[u8]) -> Option<Vec<u8>> {
    if let Some(stream) = unpacked::stream(zimage) {
        return unpacked::unpack(stream).ok();
    }
    let begins = zimage.windows(GZIP.len()).enumerate().filter(|(_, bytes)| *bytes == GZIP);
    begins.map(|(at, _)| at).find_map(|at| {
        let mut bytes = Vec::new();
        let read = GzDecoder::new(&zimage[at..]).take(MOST).read_to_end(&mut bytes);
        (read.is_ok() && !bytes.is_empty()).then_some(bytes)
    })
}

/// The bundle of the run in this directory ([`crate::scratch`]).
#[must_use]
pub fn bundle_in(run: &Path) -> PathBuf {
    run.join("initrd")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let function = |address, name: &str| Symbol { address, kind: b't', name: name.into() };
        let web = vec![function(0xc010_0000, "start"), function(0xc010_0100, "vfs_read")];
        Names { known: vec![("web".into(), web), ("other".into(), Vec::new())], ..Names::default() }
    }

    #[test]
    fn lines_with_addresses_of_code_get_names() {
        let mut names = names();
        assert_eq!(names.put_into("guest web: stopped: c0100100"), "guest web: stopped: c0100100");
        for (line, with) in [
            ("    c0100000", "    c0100000 <start>"),
            ("    c01000fc ? calls c0100100", "    c01000fc <start+0xfc> ? calls c0100100 <vfs_read>"),
            (
                "    c0100104 data abort at 00000004, status 5, 3 times",
                "    c0100104 <vfs_read+0x4> data abort at 00000004, status 5, 3 times",
            ),
            ("    c0110100 interrupt", "    c0110100 interrupt"),
            ("    c00ffffc, far", "    c00ffffc, far"),
            ("    c0100108, near", "    c0100108 <vfs_read+0x8>, near"),
            ("  r0  [c0100104, c0100104]", "  r0  [c0100104, c0100104]"),
        ] {
            assert_eq!(names.put_into(line), with);
        }
        let _ = names.put_into("guest other: stopped");
        assert_eq!(names.put_into("    c0100000"), "    c0100000");
        let _ = names.put_into("guest third: stopped");
        assert_eq!(names.put_into("    c0100000"), "    c0100000", "there is no bundle");
    }

    #[test]
    fn an_elf_file_has_symbols() {
        let symbol = |address, kind, name: &str| Symbol { address, kind, name: name.into() };
        let all = [symbol(0x8000, b'T', "start"), symbol(0x8010, b'D', "data"), symbol(0x9000, b't', "end")];
        let file = spica_kallsyms::elf::write(&all).unwrap();
        let found: Vec<_> = functions(&file).into_iter().map(|it| (it.address, it.name)).collect();
        assert_eq!(found, [(0x8000, "start".to_string()), (0x9000, "end".to_string())]);
    }

    #[test]
    fn a_kernel_is_unpacked() {
        let kernel = b"kernel".repeat(100);
        let mut packed = flate2::write::GzEncoder::new(
            b"decompressor\x1f\x8b\x08, and what it needs ".to_vec(),
            flate2::Compression::best(),
        );
        std::io::Write::write_all(&mut packed, &kernel).unwrap();
        let mut zimage = packed.finish().unwrap();
        zimage.extend(b"what comes behind");
        assert_eq!(unpack(&zimage), Some(kernel));
    }

    #[test]
    fn what_is_no_kernel_has_no_names() {
        assert!(functions(b"").is_empty());
        assert!(functions(&[0x1f; 5000]).is_empty());
        assert!(functions(b"\x1f\x8b\x08\0\0\0\0\0\0\0").is_empty());
    }
}
