//! The decoders and the encoders of A32 and T32: every word, as far as time allows. What follows is about A32.
//!
//! [`RoundTrip`] asks whether the encoder is the inverse of the decoder. It is quick, and needs no oracle. [`text`]
//! compares the text of instructions with an independent decoder's.

#[cfg(feature = "command")]
pub mod exhaustive;
pub mod round_trip;
pub mod t32;
#[cfg(feature = "command")]
pub mod text;
pub mod words;

use crate::part::{Failure, Part};
use crate::work::{Work, attempt};

/// Words in a case: one alone is too quick to be worth its number.
const GROUP: u64 = 4096;

/// Runs `check` over sampled words, which panics if something is wrong with one; names that one.
fn sample(work: &Work, check: impl Fn(u32) + Sync) -> Result<(), Failure> {
    let group = |seed: u64, visit: &mut dyn FnMut(u32)| words::group(seed, GROUP, visit);
    work.cases(work.numbers(), GROUP, || (), |(), seed| group(seed, &mut |word| check(word))).map(drop).map_err(
        |(seed, message)| {
            let mut first = None;
            group(seed, &mut |word| {
                if first.is_none() {
                    first = attempt(|| check(word)).err().map(|message| (word, message));
                }
            });
            match first {
                Some((word, message)) => Failure::of(format!("{word:#010x}"), message),
                None => Failure::trouble(format!("group {seed} failed once, and not again: {message}")),
            }
        },
    )
}

/// Runs `check` for the word that a case names.
fn repeat(case: &str, check: impl Fn(u32)) -> Result<(), Failure> {
    let digits = case.trim_start_matches("0x");
    let word = u32::from_str_radix(digits, 16).map_err(|_| Failure::trouble("a case is a word, such as 0xe1a0f00e"))?;
    crate::work::verdict(case, attempt(|| check(word)))
}

/// Whether the encoder is the inverse of the decoder.
pub struct RoundTrip;

impl Part for RoundTrip {
    fn name(&self) -> &str {
        "encoder"
    }

    fn about(&self) -> &str {
        "encode(decode(x)) = x for A32 words, from fields alone, under any condition, with another base register"
    }

    fn run(&self, work: &Work) -> Result<(), Failure> {
        sample(work, round_trip::check)
    }

    fn repeat(&self, case: &str, _work: &Work) -> Result<(), Failure> {
        repeat(case, round_trip::check)
    }
}
