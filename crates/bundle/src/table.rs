//! Tables of the manifest: the values of TOML as the types that are wanted, or an error with the line of the very
//! value.
//!
//! Read by hand from the tree of values, not by a derived decoder: the tree knows where each key stands, and the code
//! is half as large, which counts on the board.

use alloc::string::{String, ToString};
use core::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::BundleError;

/// A table of the manifest, with what its errors need to say where they are.
pub(crate) struct Table<'a> {
    /// The whole manifest.
    pub text: &'a str,
    /// The table.
    pub table: &'a DeTable<'a>,
    /// The line on which it begins, from 1.
    pub line: usize,
    /// What it is called in errors: `[[guest]]`.
    pub place: &'static str,
}

impl<'a> Table<'a> {
    /// Refuses keys that are not `known`; of several, the first in the file.
    pub fn only(&self, known: &'static [&'static str]) -> Result<(), BundleError> {
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

    /// The error for a value at `at`.
    pub fn wrong(&self, key: &'static str, at: Range<usize>, expected: &str) -> BundleError {
        BundleError::BadValue { line: line_at(self.text, at.start), key, expected: expected.to_string() }
    }

    /// The error for a key that is not there.
    pub fn missing(&self, key: &'static str) -> BundleError {
        BundleError::MissingKey { line: self.line, key, place: self.place }
    }

    /// The value of `key`, if it is there.
    pub fn get(&self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table.get(key)
    }

    /// A string that need not be there.
    pub fn string(&self, key: &'static str) -> Result<Option<Spanned<&'a str>>, BundleError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::String(s) => Ok(Some(Spanned::new(value.span(), s.as_ref()))),
            _ => Err(self.wrong(key, value.span(), "expected a string, in double quotes")),
        }
    }

    /// A string that must be there.
    pub fn required(&self, key: &'static str) -> Result<Spanned<&'a str>, BundleError> {
        self.string(key)?.ok_or_else(|| self.missing(key))
    }

    /// `true` or `false`, or what holds without the key.
    pub fn flag(&self, key: &'static str, default: bool) -> Result<bool, BundleError> {
        match self.get(key).map(|value| (value.get_ref(), value.span())) {
            None => Ok(default),
            Some((DeValue::Boolean(flag), _)) => Ok(*flag),
            Some((_, at)) => Err(self.wrong(key, at, "expected true or false, without quotes")),
        }
    }

    /// A whole number from 1 to `most`, or what holds without the key.
    pub fn number(&self, key: &'static str, most: u32, default: u32) -> Result<u32, BundleError> {
        let Some(value) = self.get(key) else { return Ok(default) };
        let number = match value.get_ref() {
            DeValue::Integer(i) => u32::from_str_radix(i.as_str(), i.radix()).ok(),
            _ => None,
        };
        number.filter(|n| (1..=most).contains(n)).ok_or_else(|| {
            let expected = alloc::format!("expected a whole number from 1 to {most}, without quotes");
            self.wrong(key, value.span(), &expected)
        })
    }

    /// An address, if the key is there.
    pub fn address(&self, key: &'static str) -> Result<Option<u32>, BundleError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = match value.get_ref() {
            DeValue::Integer(i) => u32::from_str_radix(i.as_str(), i.radix()).ok(),
            _ => None,
        };
        let expected = "expected an address of 32 bits, such as 0x40008000, without quotes";
        number.map(Some).ok_or_else(|| self.wrong(key, value.span(), expected))
    }

    /// One of a few words, if the key is there.
    pub fn word<T: Copy>(&self, key: &'static str, words: &[(&str, T)]) -> Result<Option<Spanned<T>>, BundleError> {
        let Some(value) = self.string(key)? else { return Ok(None) };
        match words.iter().find(|(word, _)| word == value.get_ref()) {
            Some((_, meaning)) => Ok(Some(Spanned::new(value.span(), *meaning))),
            None => {
                let mut expected = String::from("expected one of");
                for (i, (word, _)) in words.iter().enumerate() {
                    expected.push_str(if i == 0 { " \"" } else { ", \"" });
                    expected.push_str(word);
                    expected.push('"');
                }
                Err(self.wrong(key, value.span(), &expected))
            }
        }
    }

    /// The values of an array of at most `most`, or none without the key.
    pub fn list(
        &self,
        key: &'static str,
        most: usize,
        expected: &str,
    ) -> Result<impl Iterator<Item = &'a Spanned<DeValue<'a>>> + use<'a>, BundleError> {
        let list = match self.get(key).map(|value| (value.get_ref(), value.span())) {
            None => None,
            Some((DeValue::Array(list), at)) if list.len() > most => {
                return Err(self.wrong(
                    key,
                    at,
                    &alloc::format!("{} is too many; expected at most {most}", list.len()),
                ));
            }
            Some((DeValue::Array(list), _)) => Some(list),
            Some((_, at)) => return Err(self.wrong(key, at, expected)),
        };
        Ok(list.into_iter().flat_map(|list| list.iter()))
    }

    /// The same for a table within this one, at `at`.
    pub fn inner(&self, table: &'a DeTable<'a>, at: Range<usize>, place: &'static str) -> Table<'a> {
        Table { text: self.text, table, line: line_at(self.text, at.start), place }
    }
}

/// The line, from 1, of the byte at `offset`.
pub(crate) fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&b| b == b'\n').count()
}
