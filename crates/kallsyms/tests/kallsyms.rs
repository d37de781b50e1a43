//! Kernels' memory that was made for this, sound and otherwise, and what is found there.

use std::ops::Range;

use object::{Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};
use proptest::prelude::*;
use spica_kallsyms::tables::{DIGITS, MOST_BYTES, Memory};
use spica_kallsyms::{Problem, Symbol, elf, find};

/// Where memory begins.
const START: u32 = 0x4000_0000;

/// Memory that counts what is read.
struct Ram {
    bytes: Vec<u8>,
    read: u64,
}

impl Memory for Ram {
    fn find(&mut self, from: u32, to: u32, pattern: &[u8]) -> Result<Option<u32>, Problem> {
        let bytes = &self.bytes[(from - START) as usize..(to - START) as usize];
        let at = bytes.windows(pattern.len()).position(|window| window == pattern);
        Ok(at.map(|at| from + at as u32))
    }

    fn read(&mut self, at: u32, bytes: u32) -> Result<Vec<u8>, Problem> {
        self.read += u64::from(bytes);
        let from = (at - START) as usize;
        Ok(self.bytes[from.min(self.bytes.len())..(from + bytes as usize).min(self.bytes.len())].to_vec())
    }
}

fn found(bytes: &[u8]) -> Result<Vec<Symbol>, Problem> {
    found_from(bytes, START)
}

fn found_from(bytes: &[u8], first: u32) -> Result<Vec<Symbol>, Problem> {
    let mut ram = Ram { bytes: bytes.to_vec(), read: 0 };
    let found = find(&mut ram, range(bytes), first);
    assert!(ram.read < 34 * u64::from(MOST_BYTES), "{}", ram.read);
    found
}

fn range(bytes: &[u8]) -> Range<u32> {
    START..START + bytes.len() as u32
}

/// How a version of Linux lays its tables out.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Layout {
    /// 6.1.
    Old,
    /// With addresses instead of offsets.
    Absolute,
    /// With a sequence of so many bytes each.
    Sequence(usize),
    /// That of newer kernels.
    New,
}

const LAYOUTS: [Layout; 5] = [Layout::Old, Layout::Absolute, Layout::Sequence(3), Layout::Sequence(4), Layout::New];

/// Tokens as a kernel has them: characters for themselves, and pairs of characters where no character is in use.
fn tokens() -> Vec<String> {
    let used = |n: u8| n.is_ascii_alphanumeric() || b"_.$".contains(&n);
    let pairs = ["sys_", "vfs", "__", "read", "init", ""];
    (0..=255).map(|n: u8| if used(n) { char::from(n).to_string() } else { pairs[usize::from(n) % 6].into() }).collect()
}

/// A name, the longest tokens first.
fn compress(name: &str, tokens: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let fits = |(_, token): &(usize, &String)| !token.is_empty() && rest.starts_with(token.as_str());
        match tokens.iter().enumerate().filter(fits).max_by_key(|(_, token)| token.len()) {
            Some((n, token)) => {
                out.push(n as u8);
                rest = &rest[token.len()..];
            }
            None => panic!("no token for {rest:?}"),
        }
    }
    out
}

/// The tables of these symbols, as `scripts/kallsyms.c` would write them.
fn tables(symbols: &[Symbol], layout: Layout) -> Vec<u8> {
    fn align(bytes: &mut Vec<u8>) {
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    fn words(bytes: &mut Vec<u8>, words: impl IntoIterator<Item = u32>) {
        words.into_iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    }
    let tokens = tokens();
    let base = symbols[0].address;
    let offsets = symbols.iter().map(|symbol| symbol.address - base);
    let mut bytes = Vec::new();
    match layout {
        Layout::New => {}
        Layout::Absolute => words(&mut bytes, symbols.iter().map(|symbol| symbol.address)),
        _ => words(&mut bytes, offsets.clone().chain([base])),
    }
    words(&mut bytes, [symbols.len() as u32]);
    let (start, mut markers) = (bytes.len(), Vec::new());
    for (n, symbol) in symbols.iter().enumerate() {
        if n % 256 == 0 {
            markers.push((bytes.len() - start) as u32);
        }
        let name = compress(&format!("{}{}", char::from(symbol.kind), symbol.name), &tokens);
        if name.len() < 0x80 {
            bytes.push(name.len() as u8);
        } else {
            bytes.extend([name.len() as u8 & 0x7f | 0x80, (name.len() >> 7) as u8]);
        }
        bytes.extend(name);
    }
    align(&mut bytes);
    words(&mut bytes, markers);
    if let Layout::Sequence(each) = layout {
        bytes.extend((0..symbols.len() * each).map(|n| n as u8 | 1));
        align(&mut bytes);
    }
    let mut index = Vec::new();
    let table = bytes.len();
    for token in tokens {
        index.push((bytes.len() - table) as u16);
        bytes.extend(token.bytes().chain([0]));
    }
    align(&mut bytes);
    index.iter().for_each(|place| bytes.extend(place.to_le_bytes()));
    if layout == Layout::New {
        words(&mut bytes, offsets.chain([base]));
    }
    bytes
}

/// Memory with these tables in it, and other things around them.
fn memory(symbols: &[Symbol], layout: Layout) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..0x6000u32).flat_map(|n| (n.wrapping_mul(0x9e37_79b9) | 1).to_le_bytes()).collect();
    bytes.extend(DIGITS);
    bytes.resize(bytes.len().next_multiple_of(0x1000), 0);
    bytes.extend(tables(symbols, layout));
    bytes.resize(bytes.len() + 0x8000, 0x5a);
    bytes
}

/// So many symbols, with names of all lengths.
fn some(count: u32) -> Vec<Symbol> {
    let name = |n: u32| match n % 5 {
        0 => format!("vfs_read_{n}"),
        1 => format!("__initcall{n}{}", "x".repeat(n as usize % 300)),
        2 => "a".to_string(),
        3 => format!("sys_{n}.cold"),
        _ => "_".repeat(1 + n as usize % 9),
    };
    let kind = |n: u32| b"TtTtDdbRW"[(n / 7 % 9) as usize];
    (0..count).map(|n| Symbol { address: 0xc000_8000 + 8 * (n / 2), kind: kind(n), name: name(n) }).collect()
}

#[test]
fn the_tables_of_all_versions_are_found() {
    for layout in LAYOUTS {
        for count in [1, 2, 255, 256, 257, 600, 5000] {
            let symbols = some(count);
            let found = found(&memory(&symbols, layout));
            assert!(found.as_ref() == Ok(&symbols), "{layout:?} {count}: {:?}", found.map(|found| found.len()));
        }
    }
}

#[test]
fn it_matters_not_where_one_begins_to_look() {
    let symbols = some(600);
    let memory = memory(&symbols, Layout::Old);
    for first in
        [0, START, START + 0x1_0000, START + memory.len() as u32 - 0x9000, START + memory.len() as u32, u32::MAX]
    {
        assert_eq!(found_from(&memory, first).as_ref(), Ok(&symbols), "{first:#x}");
    }
}

#[test]
fn what_is_no_kernel_says_so() {
    let nothing = found(&[0; 0x10000]).unwrap_err();
    assert!(nothing.contains("has not started yet"), "{nothing}");
    // A few bytes of any table that are not as they have to be.
    let symbols = some(600);
    let sound = memory(&symbols, Layout::Old);
    let start = 0x19000;
    assert_eq!(sound[start..start + 4], [0; 4], "the first offset");
    let number = start + 4 * 601;
    let markers = number + 4 + {
        let mut at = number + 4;
        for _ in 0..600 {
            let long = sound[at] & 0x80 != 0;
            let length = usize::from(sound[at] & 0x7f) | if long { usize::from(sound[at + 1]) << 7 } else { 0 };
            at += length + 1 + usize::from(long);
        }
        at.next_multiple_of(4) - number - 4
    };
    for (what, at) in [
        ("the first offset is not 0", start),
        ("offsets fall", start + 4 * 300 + 3),
        ("the number of symbols", number),
        ("the length of a name", number + 4),
        ("a marker", markers + 4),
        ("the end of a token", markers + 3 * 4 + 4),
    ] {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x41;
        assert!(found(&bytes).is_err(), "{what}");
    }
}

#[test]
fn names_are_fit_to_be_shown() {
    let mut bytes = memory(&some(300), Layout::Old);
    // What `.` stands for, in the token table.
    let digits = bytes.windows(DIGITS.len()).rposition(|window| window == DIGITS).unwrap();
    let dot = (0..digits).rev().find(|&at| bytes[at] == b'.').unwrap();
    bytes[dot] = 0x1b;
    let found = found(&bytes).unwrap();
    assert_eq!(found.len(), 300 - 60, "those with a dot");
    // Marks between code and data are no names.
    let symbols = [("T", "start"), ("t", "$a"), ("T", "end")];
    let symbols: Vec<_> = symbols
        .iter()
        .map(|&(kind, name)| Symbol { address: 0xc000_8000, kind: kind.as_bytes()[0], name: name.into() })
        .collect();
    let names: Vec<_> = self::found(&memory(&symbols, Layout::Old)).unwrap().into_iter().map(|s| s.name).collect();
    assert_eq!(names, ["start", "end"]);
}

#[test]
fn a_file_of_symbols() {
    let symbol = |address, kind, name: &str| Symbol { address, kind, name: name.into() };
    let symbols = [
        symbol(0xc000_8000, b'T', "_stext"),
        symbol(0xc000_8000, b't', "first"),
        symbol(0xc000_8010, b'W', "weak"),
        symbol(0xc010_0000, b'D', "jiffies"),
        symbol(0xc010_0004, b'b', "count"),
        symbol(0xc020_0000, b't', "last"),
    ];
    let bytes = elf::write(&symbols).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    assert_eq!((file.architecture(), file.kind()), (object::Architecture::Arm, object::ObjectKind::Executable));
    let sections: Vec<_> = file.sections().filter(|section| section.address() != 0).collect();
    let places: Vec<_> = sections.iter().map(|section| (section.address(), section.size(), section.kind())).collect();
    let (code, data) = (SectionKind::Text, SectionKind::UninitializedData);
    assert_eq!(
        places,
        [(0xc000_8000, 0x000f_8000, code), (0xc010_0000, 0x0010_0000, data), (0xc020_0000, 4, code)]
            .map(|(at, bytes, kind)| (at, bytes, if kind == code { places[0].2 } else { kind }))
    );
    let mut named: Vec<_> = file
        .symbols()
        .map(|s| (s.address(), s.size(), s.kind(), s.is_global(), s.name().unwrap().to_string()))
        .collect();
    named.sort_by_key(|symbol| (symbol.0, symbol.4.clone()));
    let expected = [
        (0xc000_8000, 0x10, SymbolKind::Text, true, "_stext"),
        (0xc000_8000, 0x10, SymbolKind::Text, false, "first"),
        (0xc000_8010, 0xf_7ff0, SymbolKind::Text, true, "weak"),
        (0xc010_0000, 4, SymbolKind::Data, true, "jiffies"),
        (0xc010_0004, 0xf_fffc, SymbolKind::Data, false, "count"),
        (0xc020_0000, 4, SymbolKind::Text, false, "last"),
    ];
    assert_eq!(named, expected.map(|(at, bytes, kind, global, name)| (at, bytes, kind, global, name.to_string())));
    // However many runs there are, there is a file.
    let many: Vec<_> = (0..30_000).map(|n| symbol(n, b"td"[n as usize % 2], "x")).collect();
    let bytes = elf::write(&many).unwrap();
    assert_eq!(object::File::parse(&*bytes).unwrap().symbols().count(), 30_000);
    assert!(object::File::parse(&*elf::write(&[]).unwrap()).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_change_is_survived(
        layout in prop::sample::select(&LAYOUTS[..]),
        count in 1u32..1200,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in any::<prop::sample::Index>(),
        keep in any::<bool>(),
    ) {
        let mut bytes = memory(&some(count), layout);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if !keep {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(symbols) = found(&bytes) {
            prop_assert!(elf::write(&symbols).is_ok());
        }
    }

    #[test]
    fn any_memory_around_a_token_table_is_survived(
        words in prop::collection::vec(prop_oneof![Just(0u32), 0..3000u32, any::<u32>()], 0..20_000),
        each in 1u32..4000,
    ) {
        // Words, something that looks like markers, and a sound token table.
        let sound = memory(&some(300), Layout::Old);
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend((0..60).flat_map(|n| (n * each).to_le_bytes()));
        let digits = sound.windows(DIGITS.len()).rposition(|window| window == DIGITS).unwrap();
        let table = (0..digits).rev().find(|&at| sound[at..].starts_with(b"\0\0\0\0")).unwrap();
        bytes.extend(&sound[table.next_multiple_of(4)..]);
        let _ = found(&bytes);
    }
}
