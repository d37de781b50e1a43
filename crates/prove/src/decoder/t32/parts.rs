//! The parts that ask about T32, and what they have in common.

use super::cases::{self, Case};
use super::{rules, text};
use crate::part::{Failure, Part};
use crate::state::{Done, fingerprint};
use crate::work::{Work, attempt, verdict};
use spica_isa::t32::{Code, ItState, Op, decode};

/// Cases in a group, or in a piece whose end is remembered.
const GROUP: u64 = 4096;

/// Panics if something is wrong.
pub fn check(case: Case, work: &Work) {
    rules::check(case);
    if case.has_text() {
        text::check(case, work);
    }
}

/// Checks the instructions of a program's code, one behind the other; gives their number. Panics if something is wrong
/// with one.
pub fn program(bytes: &[u8], work: &Work) -> u64 {
    let half = |at: usize| bytes.get(at..at + 2).map(|half| u16::from_le_bytes([half[0], half[1]]));
    let (mut at, mut it, mut count) = (0, ItState::OUTSIDE, 0);
    while let Some(first) = half(at) {
        let code = Code::new(first, half(at + 2).unwrap_or(0));
        check(Case { code, it }, work);
        it = match decode(code, it).op {
            Op::IfThen(state) => state,
            _ => it.advance(),
        };
        at += code.length() as usize;
        count += 1;
    }
    count
}

/// The first failure in a group that failed.
fn first(cases: impl Iterator<Item = Case>, work: &Work, message: &str) -> Failure {
    for case in cases {
        if let Err(message) = attempt(|| check(case, work)) {
            return Failure::of(case.to_string(), message);
        }
    }
    Failure::trouble(format!("it failed once, and not again: {message}"))
}

fn repeat(case: &str, work: &Work) -> Result<(), Failure> {
    let parsed =
        case.parse().map_err(|()| Failure::trouble("a case is an instruction, such as 0xf8d01000, and @0x18"))?;
    verdict(case, attempt(|| check(parsed, work)))
}

/// All narrow instructions, then sampled wide ones.
pub struct Sampled;

impl Part for Sampled {
    fn name(&self) -> &str {
        "decoder-t32"
    }

    fn about(&self) -> &str {
        "all narrow T32 instructions, sampled wide ones, in and outside of IT blocks: text against capstone's, encoder"
    }

    fn run(&self, work: &Work) -> Result<(), Failure> {
        let group = |number: u64| cases::sampled(number, GROUP);
        let numbers = work.numbers();
        let start = numbers.start;
        work.cases(numbers, GROUP, || (), |(), number| group(number - start).for_each(|case| check(case, work)))
            .map(drop)
            .map_err(|(number, message)| first(group(number - start), work, &message))
    }

    fn repeat(&self, case: &str, work: &Work) -> Result<(), Failure> {
        repeat(case, work)
    }
}

/// Everything.
pub struct Exhaustive;

impl Part for Exhaustive {
    fn name(&self) -> &str {
        "decoder-t32-all"
    }

    fn about(&self) -> &str {
        "all T32 instructions, from where the last run ended: text against capstone's, encoder, IT blocks"
    }

    fn run(&self, work: &Work) -> Result<(), Failure> {
        let sources = fingerprint(&["crates/isa/src", "crates/prove/src/decoder"])?;
        let done = Done::load(&work.state, &sources, cases::PIECES)?;
        let ran = work.cases(
            done.first()..cases::PIECES,
            cases::PIECE,
            || (),
            |(), number| {
                cases::piece(number).for_each(|case| check(case, work));
                work.say(format!("{} of {} pieces", done.finish(number), cases::PIECES));
            },
        );
        work.note(&format!("pieces that are done, of {}, in all runs together", cases::PIECES), done.first());
        ran.map(drop).map_err(|(number, message)| first(cases::piece(number), work, &message))
    }

    fn repeat(&self, case: &str, work: &Work) -> Result<(), Failure> {
        repeat(case, work)
    }
}
