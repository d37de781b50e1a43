//! What counted instructions take in cycles, by the model of a Cortex-A8's pipeline ([`spica_cycles::pipeline`]).
//!
//! How often each run of instructions was executed is known exactly; what one execution takes follows from its
//! instructions, if caches and TLBs have all that it needs and branches are predicted. So this says which functions
//! wait for their own results, not for memory. Of a Cortex-A9, which goes on with others meanwhile, a run by itself
//! says little.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

use spica_cycles::pipeline::Pipeline;
use spica_cycles::{Core, Instruction};
use spica_kallsyms::Symbol;

use crate::counts::{Counts, Run, place};

/// Bytes between two runs that are read with them, at most.
const GAP: u32 = 64;

/// Words of code, by their addresses.
pub type Code = BTreeMap<u32, u32>;

/// The addresses of runs, in few pieces, in order.
#[must_use]
pub fn ranges(runs: &[Run]) -> Vec<Range<u32>> {
    let mut ranges: Vec<Range<u32>> = Vec::new();
    for run in runs {
        let end = run.start.saturating_add(4 * run.length);
        match ranges.last_mut() {
            Some(last) if run.start <= last.end.saturating_add(GAP) => last.end = last.end.max(end),
            _ => ranges.push(run.start..end),
        }
    }
    ranges
}

/// Of a function, or a page of code without names: cycles, and instructions whose words are known, and all.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Taken {
    cycles: u64,
    instructions: u64,
    unknown: u64,
}

fn functions<'a>(counts: &Counts, symbols: &'a [Symbol], code: &Code) -> BTreeMap<(u32, Option<&'a str>), Taken> {
    let mut functions: BTreeMap<_, Taken> = BTreeMap::new();
    for run in &counts.runs {
        let mut pipeline = Pipeline::new(Core::CortexA8.parts());
        for address in (0..run.length).map(|n| run.start.wrapping_add(4 * n)) {
            let taken = functions.entry(place(address, symbols)).or_default();
            taken.instructions = taken.instructions.wrapping_add(run.count);
            match code.get(&address) {
                Some(&word) => {
                    let before = pipeline.cycles();
                    pipeline.issue(&Instruction::arm(address, word));
                    let cycles = (pipeline.cycles() - before).wrapping_mul(run.count);
                    taken.cycles = taken.cycles.wrapping_add(cycles);
                }
                None => taken.unknown = taken.unknown.wrapping_add(run.count),
            }
        }
    }
    functions
}

/// A table of functions for people, those that take most cycles first. `code` has the words of all that was counted, as
/// far as they could be read; how many instructions' words are not known is the second result.
#[must_use]
pub fn table(counts: &Counts, symbols: &[Symbol], code: &Code) -> (String, u64) {
    let mut functions: Vec<_> = functions(counts, symbols, code).into_iter().collect();
    functions.sort_by_key(|((address, _), taken)| (Reverse(taken.cycles), *address));
    let all = functions.iter().fold(0_u64, |sum, (_, taken)| sum.wrapping_add(taken.cycles)).max(1);
    let mut text = format!("{:>14} {:>8} {:>14} {:>6}  function\n", "cycles", "share", "instructions", "each");
    let mut unknown = 0_u64;
    for ((address, name), taken) in functions {
        unknown = unknown.wrapping_add(taken.unknown);
        let Taken { cycles, instructions, .. } = taken;
        let share = cycles as f64 * 100.0 / all as f64;
        let each = cycles as f64 / instructions.wrapping_sub(taken.unknown).max(1) as f64;
        let name = name.map_or_else(|| format!("[{address:#010x}]"), str::to_string);
        let _ = writeln!(text, "{cycles:>14} {share:>6.2} % {instructions:>14} {each:>6.2}  {name}");
    }
    (text, unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(address: u32, name: &str) -> Symbol {
        Symbol { address, kind: b'T', name: name.to_string() }
    }

    #[test]
    fn runs_are_read_in_few_pieces() {
        let run = |start, length| Run { start, length, count: 1 };
        let runs = [run(0x100, 4), run(0x104, 1), run(0x150, 2), run(0x1000, 1), run(0xffff_fffc, 1)];
        assert_eq!(ranges(&runs), [0x100..0x158, 0x1000..0x1004, 0xffff_fffc..0xffff_ffff]);
        assert_eq!(ranges(&[]), []);
    }

    #[test]
    fn what_waits_for_its_own_results_takes_longer() {
        // Loads, each of which needs what the one in front of it has loaded; and additions that need nothing.
        let symbols = [symbol(0x1000, "chases"), symbol(0x1010, "adds"), symbol(0x2000, "end")];
        let mut code: Code = (0..4).map(|n| (0x1000 + 4 * n, 0xe590_0000)).collect();
        code.extend((0..4).map(|n| (0x1010 + 4 * n, 0xe281_2001 | (n & 1) << 12)));
        let run = |start, count| Run { start, length: 4, count };
        let counts = Counts { runs: vec![run(0x1000, 10), run(0x1010, 10), run(0x3000, 7)], ..Counts::default() };
        let (text, unknown) = table(&counts, &symbols, &code);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["cycles", "share", "instructions", "each", "function"]);
        assert_eq!(lines[1].last(), Some(&"chases"), "{text}");
        assert_eq!(lines[2].last(), Some(&"adds"), "{text}");
        let cycles: Vec<u64> = lines[1..].iter().map(|line| line[0].parse().expect("cycles")).collect();
        assert!(cycles[0] >= 2 * cycles[1] && cycles[1] > 0, "{text}");
        assert_eq!((cycles[2], unknown), (0, 28), "nothing is known of the third\n{text}");
    }
}
