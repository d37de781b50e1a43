//! All of A32, word by word, over as many runs as it takes.
//!
//! The condition is not part of what an instruction is. So the words under AL and in the unconditional space are
//! compared with capstone, an eighth of all; the others must be what they are under AL, which takes no oracle and no
//! time.

use super::{repeat, round_trip, text};
use crate::part::{Failure, Part};
use crate::state::{Done, fingerprint};
use crate::work::{Work, attempt};

/// Words in a piece, whose end is remembered.
const PIECE: u64 = 1 << 18;
const PIECES: u64 = (1 << 32) / PIECE;

/// Panics if something is wrong with the word.
fn check(word: u32, work: &Work) {
    round_trip::check(word);
    if word >> 29 == 7 {
        text::check(word, work);
    } else {
        round_trip::check_condition(word);
    }
}

/// All words.
pub struct Exhaustive;

impl Part for Exhaustive {
    fn name(&self) -> &str {
        "decoder-all"
    }

    fn about(&self) -> &str {
        "all 2^32 A32 words, from where the last run ended: text against capstone's, encoder against decoder"
    }

    fn run(&self, work: &Work) -> Result<(), Failure> {
        let done = Done::load(&work.state, &fingerprint(&["crates/isa/src", "crates/prove/src/decoder"])?, PIECES)?;
        let piece = |number: u64| {
            // From the end, where the slow ones are.
            let first = (PIECES - 1 - number) * PIECE;
            (first..first + PIECE).map(|word| word as u32)
        };
        let ran = work.cases(
            done.first()..PIECES,
            PIECE,
            || (),
            |(), number| {
                piece(number).for_each(|word| check(word, work));
                work.say(format!("{} of {PIECES} pieces", done.finish(number)));
            },
        );
        work.note("pieces that are done, of 16384, in all runs together", done.first());
        ran.map(drop).map_err(|(number, message)| {
            match piece(number).find_map(|word| Some((word, attempt(|| check(word, work)).err()?))) {
                Some((word, message)) => Failure::of(format!("{word:#010x}"), message),
                None => Failure::trouble(format!("piece {number} failed once, and not again: {message}")),
            }
        })
    }

    fn repeat(&self, case: &str, work: &Work) -> Result<(), Failure> {
        repeat(case, |word| check(word, work))
    }
}
