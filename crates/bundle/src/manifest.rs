//! The manifest: which guests a board runs, as TOML.
//!
//! Read by hand from the tree of values, not by a derived decoder: the tree knows where each key stands, so an error
//! gives the line of the very key, and the code is half as large, which counts on the board.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::{BundleError, parse_memory};

const MAX_NAME: usize = 32;
const TOP_KEYS: &[&str] = &["guest"];
const GUEST_KEYS: &[&str] = &["name", "kernel", "initrd", "append", "memory"];

/// One `[[guest]]` of a manifest. Files are names in the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestEntry {
    /// The line of the manifest on which the guest begins, from 1.
    pub line: usize,
    /// Its name.
    pub name: String,
    /// The kernel's file.
    pub kernel: String,
    /// The initial RAM disk's file.
    pub initrd: Option<String>,
    /// The kernel's command line; empty when the manifest has none.
    pub append: String,
    /// The size of its RAM in bytes.
    pub memory_bytes: u32,
}

/// A manifest, without the files that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The guests in their order; at least one.
    pub guests: Vec<GuestEntry>,
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// A [`BundleError`] with the line of the first thing that is wrong: TOML's syntax, an unknown, missing or ill-typed
    /// key, a value out of range, two guests of one name, or no guest at all.
    pub fn parse(text: &str) -> Result<Self, BundleError> {
        let root = DeTable::parse(text).map_err(|error| BundleError::Syntax {
            line: line_at(text, error.span().map_or(0, |s| s.start)),
            message: error.message().to_string(),
        })?;
        let root = Table { text, table: root.get_ref(), line: 1, place: "the manifest" };
        root.only(TOP_KEYS)?;

        let mut guests: Vec<GuestEntry> = Vec::new();
        let list = match root.table.get("guest") {
            None => return Err(BundleError::NoGuest),
            Some(value) => match value.get_ref() {
                DeValue::Array(list) => list,
                _ => return Err(root.wrong("guest", value.span(), "expected tables that begin with [[guest]]")),
            },
        };
        for value in list.iter() {
            let DeValue::Table(table) = value.get_ref() else {
                return Err(root.wrong("guest", value.span(), "expected tables that begin with [[guest]]"));
            };
            let table = Table { text, table, line: line_at(text, value.span().start), place: "[[guest]]" };
            let guest = table.guest()?;
            if let Some(first) = guests.iter().find(|g| g.name == guest.name) {
                return Err(BundleError::DuplicateName { line: guest.line, first: first.line, name: guest.name });
            }
            guests.push(guest);
        }
        if guests.is_empty() { Err(BundleError::NoGuest) } else { Ok(Self { guests }) }
    }

    /// The manifest as text: what [`Manifest::parse`] reads back as the same guests, lines apart.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        for guest in &self.guests {
            out.push_str("[[guest]]\n");
            let memory = alloc::format!("{}M", guest.memory_bytes >> 20);
            let keys = [
                ("name", Some(&guest.name)),
                ("kernel", Some(&guest.kernel)),
                ("initrd", guest.initrd.as_ref()),
                ("append", Some(&guest.append)),
                ("memory", Some(&memory)),
            ];
            for (key, value) in keys {
                if let Some(value) = value {
                    out.push_str(key);
                    out.push_str(" = ");
                    quote(&mut out, value);
                    out.push('\n');
                }
            }
        }
        out
    }
}

/// Appends `value` as a TOML basic string.
fn quote(out: &mut String, value: &str) {
    out.push('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&alloc::format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A table of the manifest, with what its errors need to say where they are.
struct Table<'a> {
    text: &'a str,
    table: &'a DeTable<'a>,
    line: usize,
    place: &'static str,
}

impl Table<'_> {
    fn only(&self, known: &'static [&'static str]) -> Result<(), BundleError> {
        // The table is sorted by key; report the first in the file.
        let unknown = self.table.keys().filter(|k| !known.contains(&k.get_ref().as_ref()));
        match unknown.min_by_key(|k| k.span().start) {
            None => Ok(()),
            Some(key) => Err(BundleError::UnknownKey {
                line: line_at(self.text, key.span().start),
                key: key.get_ref().to_string(),
                place: self.place,
                known,
            }),
        }
    }

    fn wrong(&self, key: &'static str, at: Range<usize>, expected: &str) -> BundleError {
        BundleError::BadValue { line: line_at(self.text, at.start), key, expected: expected.to_string() }
    }

    fn string(&self, key: &'static str) -> Result<Option<Spanned<&str>>, BundleError> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::String(s) => Ok(Some(Spanned::new(value.span(), s.as_ref()))),
            _ => Err(self.wrong(key, value.span(), "expected a string, in double quotes")),
        }
    }

    fn required(&self, key: &'static str) -> Result<Spanned<&str>, BundleError> {
        self.string(key)?.ok_or(BundleError::MissingKey { line: self.line, key, place: self.place })
    }

    fn guest(&self) -> Result<GuestEntry, BundleError> {
        self.only(GUEST_KEYS)?;
        let name = self.required("name")?;
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
        if name.get_ref().is_empty() || name.get_ref().len() > MAX_NAME || !name.get_ref().bytes().all(legal) {
            return Err(self.wrong("name", name.span(), "expected 1 to 32 of a-z, 0-9, '-', '_' and '.'"));
        }
        let memory = self.required("memory")?;
        let memory_bytes =
            parse_memory(memory.get_ref()).map_err(|e| self.wrong("memory", memory.span(), &e.to_string()))?;
        let append = self.string("append")?;
        if let Some(append) = append.as_ref().filter(|a| a.get_ref().contains(['\0', '\n', '\r'])) {
            return Err(self.wrong("append", append.span(), "expected one line without NUL"));
        }
        Ok(GuestEntry {
            line: self.line,
            name: name.get_ref().to_string(),
            kernel: self.required("kernel")?.get_ref().to_string(),
            initrd: self.string("initrd")?.map(|s| s.get_ref().to_string()),
            append: append.map(|s| s.get_ref().to_string()).unwrap_or_default(),
            memory_bytes,
        })
    }
}

/// The line, from 1, of the byte at `offset`.
fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&b| b == b'\n').count()
}
