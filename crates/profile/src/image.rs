//! What Spica's own code is for: from an address of the image to a row of the table.
//!
//! The image says so itself, by its symbols and by notes in the section `.spica.parts`
//! (`crates/hypervisor/src/parts.rs`). Assembly has a note at each handler. A Rust function is told by its path:
//! modules and packages have notes. The compiler inlines across crates, so what a small function costs is found where
//! it is called: this is self time of what is left as functions.

use std::ops::Range;

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use rustc_demangle::demangle;

use crate::profile::Section;
use crate::slow::{CALL, ENTRIES};

/// The section with the notes.
const NOTES: &str = ".spica.parts";

/// What the image's code is for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Image {
    /// The code, in pieces, by their addresses.
    pub pieces: Vec<Symbol>,
    /// Where Rust is entered.
    pub entries: Vec<Entry>,
    /// Where the guest is entered.
    pub guest: u32,
    /// Instructions that are executed once for each event of that name (`spica_bench::events::place_of`).
    pub counts: Vec<(u32, String)>,
    /// Names of pieces that no note is about.
    pub unknown: Vec<String>,
}

/// A piece of the image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    /// Its addresses.
    pub range: Range<u32>,
    /// Its name, for people.
    pub name: String,
    /// Where it belongs.
    pub section: Section,
    /// The row there.
    pub row: String,
    /// Executions of its first word are counted as how often.
    pub counted: bool,
}

/// A place where Rust is entered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its address.
    pub at: u32,
    /// Its kind of slow trap (`crate::slow`).
    pub kind: usize,
    /// What Rust is entered for.
    pub reason: String,
}

/// A symbol, as the linker has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label<'a> {
    /// Its address.
    pub at: u32,
    /// Its name.
    pub name: &'a str,
    /// It is a function of Rust's, not a label of assembly.
    pub function: bool,
}

/// What a note says.
enum Note<'a> {
    /// Assembly from here on: section, row, whether it is entered here.
    Part(Section, &'a str, bool),
    /// Functions of a module: path, section, row.
    Module(&'a str, Section, &'a str),
    Rust(&'a str),
    Traps(&'a str),
    Guest,
    Count(&'a str),
}

impl Image {
    /// From the image's ELF file.
    ///
    /// # Errors
    /// If it is none, or has no notes that make sense.
    pub fn parse(elf: &[u8]) -> Result<Self, String> {
        let file = object::File::parse(elf).map_err(|e| format!("Spica's image is no ELF file: {e}"))?;
        let section = |name: &str| file.section_by_name(name).ok_or_else(|| format!("Spica's image has no {name}"));
        let text = section(".text")?;
        let address = |at: u64| u32::try_from(at).map_err(|_| "Spica's image is not for 32 bits".to_string());
        let text = address(text.address())?..address(text.address() + text.size())?;
        let notes = section(NOTES)?.data().map_err(|e| format!("Spica's image has no {NOTES}: {e}"))?;
        let labels = file.symbols().filter_map(|symbol| {
            let (at, name) = (u32::try_from(symbol.address()).ok()?, symbol.name().ok()?);
            Some(Label { at, name, function: symbol.kind() == SymbolKind::Text })
        });
        Self::new(labels, &text, notes)
    }

    /// From the symbols of the image, the addresses of its code, and its notes.
    ///
    /// # Errors
    /// If the notes make no sense, or lack where Rust or the guest is entered.
    pub fn new<'a>(
        labels: impl Iterator<Item = Label<'a>>,
        text: &Range<u32>,
        notes: &'a [u8],
    ) -> Result<Self, String> {
        let mut notes = read(notes)?;
        notes.sort_by_key(|(at, _)| *at);
        let mut image = Self::default();
        let mut next = CALL + 1;
        let mut guest = None;
        for (at, note) in &notes {
            match note {
                Note::Rust(reason) => {
                    image.entries.push(Entry { at: *at, kind: next, reason: (*reason).into() });
                    next += 1;
                }
                Note::Traps(reason) => {
                    image.entries.push(Entry { at: *at, kind: CALL, reason: (*reason).into() });
                }
                Note::Guest => guest = Some(*at),
                Note::Count(event) => image.counts.push((*at, (*event).into())),
                Note::Part(..) | Note::Module(..) => {}
            }
        }
        image.guest = guest.ok_or_else(|| format!("{NOTES} does not say where the guest is entered"))?;
        if next > CALL + ENTRIES || !image.entries.iter().any(|entry| entry.kind == CALL) {
            return Err(format!("{NOTES} says that Rust is entered at {} places", image.entries.len()));
        }

        let mut labels: Vec<_> =
            labels.filter(|label| text.contains(&label.at) && !label.name.starts_with('$')).collect();
        // Of names for the same place, the function's, and none of those that the linker makes.
        labels.sort_by_key(|label| (label.at, !label.function, label.name.starts_with("__"), label.name));
        labels.dedup_by_key(|label| label.at);
        let ends: Vec<_> = labels.iter().skip(1).map(|label| label.at).chain([text.end]).collect();
        let parts = notes.iter().filter_map(|(at, note)| match note {
            Note::Part(section, row, entered) => Some((*at, *section, *row, *entered)),
            _ => None,
        });
        let mut parts = parts.peekable();
        // What a label of assembly belongs to; a function in between has no notes.
        let mut here = None;
        for (label, end) in labels.into_iter().zip(ends) {
            let mut entered = false;
            while let Some((at, section, row, counted)) = parts.next_if(|(at, ..)| *at <= label.at) {
                here = Some((section, row.to_string()));
                entered |= counted && at == label.at;
            }
            let mut name = label.name.to_string();
            if label.function {
                name = format!("{:#}", demangle(label.name));
                here = None;
            }
            let found = if label.function { of_path(&name, &notes) } else { here.clone() };
            let (section, row) = found.unwrap_or_else(|| {
                image.unknown.push(name.clone());
                (Section::Other, "code that belongs to no part".into())
            });
            image.pieces.push(Symbol { range: label.at..end, name, section, row, counted: entered });
        }
        Ok(image)
    }

    /// What Rust is entered for.
    #[must_use]
    pub fn reason(&self, kind: usize) -> Option<&str> {
        self.entries.iter().find(|entry| entry.kind == kind).map(|entry| entry.reason.as_str())
    }
}

/// The notes of a section.
fn read(mut bytes: &[u8]) -> Result<Vec<(u32, Note<'_>)>, String> {
    let mut notes = Vec::new();
    while let Some((at, rest)) = bytes.split_first_chunk() {
        let end = rest.iter().position(|byte| *byte == 0).ok_or_else(|| format!("{NOTES} ends in the middle"))?;
        let text = std::str::from_utf8(&rest[..end]).map_err(|_| format!("{NOTES} is no text"))?;
        let wrong = || format!("{NOTES} has a note that makes no sense: {text:?}");
        let section = |name: &str| Section::ALL.into_iter().find(|s| s.key() == name).ok_or_else(wrong);
        let note = match *text.split('|').collect::<Vec<_>>() {
            ["part", part, row] => Note::Part(section(part)?, row, false),
            ["handler", part, row] => Note::Part(section(part)?, row, true),
            ["module", path, part, row] => Note::Module(path, section(part)?, row),
            ["rust", reason] => Note::Rust(reason),
            ["traps", reason] => Note::Traps(reason),
            ["guest"] => Note::Guest,
            ["count", event] => Note::Count(event),
            _ => return Err(wrong()),
        };
        notes.push((u32::from_le_bytes(*at), note));
        bytes = &rest[end + 1..];
    }
    if bytes.is_empty() { Ok(notes) } else { Err(format!("{NOTES} ends in the middle")) }
}

/// Where a function belongs, by its path: to the innermost module that has a note, unless it has one itself.
fn of_path(name: &str, notes: &[(u32, Note<'_>)]) -> Option<(Section, String)> {
    let (modules, path) = path(name);
    let within = |module: &str| path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    let found = notes.iter().filter_map(|(_, note)| match note {
        Note::Module(module, section, row) if within(module) => Some((*module, *section, *row)),
        _ => None,
    });
    let (_, section, row) = found.max_by_key(|(module, ..)| module.len())?;
    if !row.is_empty() {
        return Some((section, row.into()));
    }
    // As deep as a file.
    let short: Vec<_> = modules.into_iter().take(3).collect();
    Some((section, short.join("::").replace("spica_hypervisor::", "")))
}

/// The modules of a function, the package first; and its path, as far as that has small letters.
fn path(name: &str) -> (Vec<&str>, String) {
    let path = name.trim_start_matches(['<', '&', '*', '[', '(']).trim_start_matches("mut ").trim_start_matches("dyn ");
    let word = |part: &'_ str| part.find(['<', '>', ' ', ']', ';', ',']).map_or(part.len(), |end| end);
    let parts: Vec<_> = path.split("::").map(|part| &part[..word(part)]).collect();
    // The last part is the function; of a method, the type is before it. Modules have small letters.
    let small = |part: &&&str| part.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let mut modules: Vec<_> = parts.iter().take_while(small).copied().collect();
    let path = modules.join("::");
    modules.truncate(parts.len() - 1);
    match modules[..] {
        // Without a path: what compilers call by the names that the C library and the ABI for ARM give it.
        [] if name.starts_with("mem") || name.starts_with("__") => (modules, "compiler_builtins".into()),
        // Of a type that is part of the language.
        ["str" | "char" | "bool" | "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" | "isize", ..] => {
            (modules, "core".into())
        }
        _ => (modules, path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(notes: &[(u32, &str)]) -> Vec<u8> {
        notes.iter().flat_map(|(at, text)| [&at.to_le_bytes()[..], text.as_bytes(), &[0]].concat()).collect()
    }

    /// Without these, an image makes no sense.
    const ENTRIES: [(u32, &str); 2] = [(4, "guest"), (8, "traps|trap of kernel code")];

    #[test]
    fn paths_have_their_rows() {
        let bytes = section(&[
            (0, "module|spica_hypervisor::vm|slow|"),
            (0, "module|spica_hypervisor::vm::tables|mmu|"),
            (0, "module|spica_hypervisor::guests|scheduler|"),
            (0, "module|spica_hypervisor::main|other|start"),
            (0, "module|spica_mmu::guest::walk|mmu|"),
            (0, "module|spica_virtio|devices|spica_virtio"),
            (0, "module|spica_virtio_driver|devices|spica_virtio_driver"),
            (0, "module|spica_dbt|translator|"),
            (0, "module|alloc|other|Rust's library"),
            (0, "module|core|other|Rust's library"),
            (0, "module|__rustc|other|the heap"),
            (0, "module|compiler_builtins|other|copies"),
        ]);
        let notes = read(&bytes).unwrap();
        for (name, section, row) in [
            ("<spica_hypervisor::vm::tables::Tables as spica_mmu::TableMemory>::table", Section::Mmu, "vm::tables"),
            ("<spica_hypervisor::vm::Vm>::prepare", Section::Slow, "vm"),
            ("spica_hypervisor::vm::env::deep::f", Section::Slow, "vm::env"),
            ("spica_dbt::rules::indirect::exchange", Section::Translator, "spica_dbt::rules::indirect"),
            ("<spica_dbt::cache::Translator>::link", Section::Translator, "spica_dbt::cache"),
            ("<&spica_hypervisor::guests::fair::Fair>::next", Section::Scheduler, "guests::fair"),
            ("<spica_virtio_driver::disk::Disk<P>>::read", Section::Devices, "spica_virtio_driver"),
            ("<alloc::vec::Vec<spica_mmu::X>>::push", Section::Other, "Rust's library"),
            ("<u32 as core::fmt::Debug>::fmt", Section::Other, "Rust's library"),
            ("__rustc::__rust_alloc", Section::Other, "the heap"),
            ("<[u8]>::starts_with", Section::Other, "Rust's library"),
            ("<&[u32; 5] as core::fmt::Debug>::fmt", Section::Other, "Rust's library"),
            (
                "spica_mmu::guest::walk::lookup::<spica_hypervisor::vm::ram::Ram>",
                Section::Mmu,
                "spica_mmu::guest::walk",
            ),
            ("spica_hypervisor::main", Section::Other, "start"),
            ("memcpy", Section::Other, "copies"),
            ("__aeabi_uidiv", Section::Other, "copies"),
        ] {
            assert_eq!(of_path(name, &notes), Some((section, row.to_string())), "{name}");
        }
        assert_eq!(of_path("spica_mmu::space::f", &notes), None);
        assert_eq!(of_path("rust_start", &notes), None);
    }

    #[test]
    fn assembly_belongs_to_the_note_before_it() {
        let label = |at, name| Label { at, name, function: false };
        let function = |at, name| Label { at, name, function: true };
        let labels = [
            label(8, "indirect"),
            label(4, "world_enter"),
            label(4, "$a"),
            label(4, "__image_start"),
            label(12, "behind"),
            function(16, "_RNvNtCs1_9spica_dbt5block9translate"),
            label(20, "stray"),
            label(24, "_end"),
        ];
        let notes = [
            (8, "handler|fast|indirect branches"),
            (4, "part|slow|to Rust and back"),
            (8, "count|trap.mmio"),
            (0, "module|spica_dbt|translator|"),
        ];
        let image = Image::new(labels.into_iter(), &(0..24), &section(&[&notes[..], &ENTRIES].concat())).unwrap();
        let short: Vec<_> =
            image.pieces.iter().map(|s| (s.range.clone(), s.name.as_str(), s.row.as_str(), s.counted)).collect();
        let expected = [
            (4..8, "world_enter", "to Rust and back", false),
            (8..12, "indirect", "indirect branches", true),
            (12..16, "behind", "indirect branches", false),
            (16..20, "spica_dbt::block::translate", "spica_dbt::block", false),
            (20..24, "stray", "code that belongs to no part", false),
        ];
        assert_eq!(short, expected);
        assert_eq!((image.guest, image.reason(CALL)), (4, Some("trap of kernel code")));
        assert_eq!(image.counts, [(8, "trap.mmio".to_string())]);
        assert_eq!(image.unknown, ["stray"]);
    }

    #[test]
    fn notes_that_make_no_sense_are_said() {
        let of = |bytes: &[u8]| Image::new(std::iter::empty(), &(0..4), bytes).unwrap_err();
        assert!(of(&section(&[(4, "part|quick|x")])).contains("makes no sense: \"part|quick|x\""));
        assert!(of(&[1, 0, 0, 0, b'x']).contains("ends in the middle"));
        assert!(of(&[1, 0]).contains("ends in the middle"));
        assert!(of(&[]).contains("where the guest is entered"));
        assert!(of(&section(&[(4, "guest")])).contains("at 0 places"));
    }
}
