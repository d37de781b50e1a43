//! Where a kernel's time goes, by who has called whom: a flame graph, folded stacks for other programs, and a call
//! graph.
//!
//! Two things are known. How many instructions of each function were executed is counted, without a gap
//! ([`crate::counts`]). Who had called is known of *samples*, each taken at an instruction that was chosen at random
//! ([`crate::unwind`]). So what a function itself has executed is divided among the stacks that its samples have, in
//! proportion: its sum is exact, its parts are estimates, the better the more samples there are. What was executed of
//! a function without a sample stands apart, under [`UNKNOWN`].

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use inferno::flamegraph::{self, Options};
use spica_kallsyms::Symbol;
use spica_runner::error::{Error, Result};

use crate::counts::{Counts, place};
use crate::unwind::{Sample, Tables};

/// What functions seem to be called by of which there is no sample.
pub const UNKNOWN: &str = "[no sample]";
/// What has a smaller part of all, in parts of a thousand, is not drawn in a call graph.
const LEAST: u64 = 5;

/// What a file is to have, which its name says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// A flame graph, `.svg`.
    Flames,
    /// Folded stacks, `.folded`: a line for each stack, with the functions from the outermost on, `;` between them, and
    /// its instructions.
    Folded,
    /// A call graph for Graphviz, `.dot`.
    Graph,
}

impl Format {
    /// That of a file, if it is one of these.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "svg" => Some(Self::Flames),
            "folded" => Some(Self::Folded),
            "dot" => Some(Self::Graph),
            _ => None,
        }
    }
}

/// Where the kernel was, and where that was called from: see [`Tables::unwind`].
pub(crate) fn unwound(tables: &Tables, sample: &Sample, symbols: &[Symbol]) -> Vec<u32> {
    let of = |address: u32| place(address, symbols);
    let same = |a: u32, b: u32| of(a) == of(b);
    let begins = |address: u32| matches!(of(address), (begin, Some(_)) if begin == address);
    tables.unwind(sample, same, begins)
}

/// Instructions by stacks: functions, from the outermost on.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Stacks(BTreeMap<Vec<String>, u64>);

impl Stacks {
    /// Those of what was counted and sampled, with samples that are `every` instructions apart in the mean.
    #[must_use]
    pub fn new(counts: &Counts, symbols: &[Symbol], tables: &Tables, every: u32) -> Self {
        let of = |address: u32| place(address, symbols);
        let mut sampled: BTreeMap<_, BTreeMap<Vec<String>, u64>> = BTreeMap::new();
        for sample in &counts.samples {
            let mut stack: Vec<String> =
                unwound(tables, sample, symbols).into_iter().map(|address| name(of(address))).collect();
            stack.reverse();
            *sampled.entry(of(sample.pc)).or_default().entry(stack).or_default() += 1;
        }
        let mut stacks = Self::default();
        for (function, executed) in counts.functions(symbols) {
            match sampled.remove(&function) {
                Some(shares) => stacks.divide(shares, executed.instructions),
                None => stacks.add(vec![UNKNOWN.to_string(), name(function)], executed.instructions),
            }
        }
        // They had no counter.
        for shares in sampled.into_values() {
            let samples: u64 = shares.values().sum();
            stacks.divide(shares, samples.saturating_mul(every.into()));
        }
        stacks
    }

    fn add(&mut self, stack: Vec<String>, instructions: u64) {
        let sum = self.0.entry(stack).or_default();
        *sum = sum.saturating_add(instructions);
    }

    /// Divides instructions in these proportions, without a remainder.
    fn divide(&mut self, shares: BTreeMap<Vec<String>, u64>, instructions: u64) {
        let all = u128::from(shares.values().sum::<u64>()).max(1);
        let (mut sum, mut given) = (0, 0);
        for (stack, share) in shares {
            sum += u128::from(share);
            let until = (u128::from(instructions) * sum / all) as u64;
            self.add(stack, until - given);
            given = until;
        }
    }

    /// How many instructions these are.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.0.values().fold(0, |sum, &instructions| sum.saturating_add(instructions))
    }

    /// The stacks, each with its instructions.
    pub fn iter(&self) -> impl Iterator<Item = (&[String], u64)> {
        self.0.iter().map(|(stack, &instructions)| (stack.as_slice(), instructions))
    }

    /// See [`Format::Folded`].
    #[must_use]
    pub fn folded(&self) -> String {
        let mut text = String::new();
        for (stack, instructions) in self.iter().filter(|&(_, instructions)| instructions != 0) {
            let _ = writeln!(text, "{} {instructions}", stack.join(";"));
        }
        text
    }

    /// See [`Format::Flames`].
    ///
    /// # Errors
    /// If there is nothing to be drawn.
    pub fn flames(&self, title: &str, below: &str) -> Result<String> {
        let mut options = Options::default();
        options.title = title.to_string();
        options.subtitle = Some(below.to_string());
        options.count_name = "instructions".to_string();
        options.hash = true;
        let folded = self.folded();
        let mut svg = Vec::new();
        flamegraph::from_lines(&mut options, folded.lines(), &mut svg)
            .map_err(|error| Error::failed(format!("there is no flame graph of this: {error}")))?;
        String::from_utf8(svg).map_err(|_| Error::failed("there is no flame graph of this: it is no text"))
    }

    /// See [`Format::Graph`]. A function that calls itself counts once.
    #[must_use]
    pub fn graph(&self) -> String {
        let all = self.instructions().max(1);
        let mut functions: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        let mut calls: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (stack, instructions) in self.iter() {
            let mut seen: Vec<&str> = stack.iter().map(String::as_str).collect();
            if let Some(last) = seen.last() {
                functions.entry(last).or_default().0 += instructions;
            }
            let mut pairs: Vec<_> = seen.windows(2).map(|pair| (pair[0], pair[1])).collect();
            pairs.sort_unstable();
            pairs.dedup();
            for pair in pairs.into_iter().filter(|(caller, _)| *caller != UNKNOWN) {
                *calls.entry(pair).or_default() += instructions;
            }
            seen.sort_unstable();
            seen.dedup();
            for function in seen {
                functions.entry(function).or_default().1 += instructions;
            }
        }
        let is_drawn = |part: u64| u128::from(part) * 1000 >= u128::from(all) * u128::from(LEAST);
        let share = |part: u64| part as f64 * 100.0 / all as f64;
        let mut text = "digraph kernel {\n  node [shape=box, fontname=sans]\n  edge [fontname=sans]\n".to_string();
        for (name, (own, with_callees)) in functions.iter().filter(|(_, (_, part))| is_drawn(*part)) {
            let (own, all) = (share(*own), share(*with_callees));
            let _ = writeln!(
                text,
                "  {} [label={}]",
                quoted(name),
                quoted(&format!("{name}\n{all:.1} %, {own:.1} % itself"))
            );
        }
        for ((caller, callee), part) in calls.into_iter().filter(|(_, part)| is_drawn(*part)) {
            let label = quoted(&format!("{:.1} %", share(part)));
            let _ = writeln!(text, "  {} -> {} [label={label}]", quoted(caller), quoted(callee));
        }
        text + "}\n"
    }
}

/// What a function is called. Names are a guest's: what folded stacks have between them is none of a name.
fn name((address, name): (u32, Option<&str>)) -> String {
    match name {
        Some(name) => name.replace(|c: char| c == ';' || c.is_whitespace(), "_"),
        None => format!("[{address:#010x}]"),
    }
}

/// As a string of Graphviz's language.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::Run;
    use crate::unwind::{Sample, Word};

    fn symbols() -> Vec<Symbol> {
        [(0x1000, "top"), (0x2000, "mid; dle"), (0x3000, "leaf"), (0x4000, "alone"), (0x5000, "end")]
            .map(|(address, name)| Symbol { address, kind: b't', name: name.to_string() })
            .into()
    }

    /// `leaf` was sampled three times: twice in `mid; dle`, in `top`; once in `top`.
    fn stacks() -> Stacks {
        let word = |place, address| Word { place, address, call: true, plausible: true };
        let sample = |words: &[Word]| Sample { pc: 0x3008, words: words.to_vec(), ..Sample::default() };
        let deep = sample(&[word(0, 0x2010), word(1, 0x1010)]);
        let samples = vec![deep.clone(), sample(&[word(0, 0x1010)]), deep];
        let run = |start, count| Run { start, length: 2, count };
        let runs = vec![run(0x1000, 5), run(0x3000, 50), run(0x4000, 3)];
        let counts = Counts { runs, samples, ..Counts::default() };
        Stacks::new(&counts, &symbols(), &Tables::default(), 1000)
    }

    #[test]
    fn what_was_counted_is_divided_as_samples_are() {
        let expected = "[no sample];alone 6\n[no sample];top 10\ntop;leaf 33\ntop;mid__dle;leaf 67\n";
        assert_eq!(stacks().folded().lines().collect::<std::collections::BTreeSet<_>>(), expected.lines().collect());
        assert_eq!(stacks().instructions(), 116);
    }

    #[test]
    fn what_has_no_counter_has_what_its_samples_stand_for() {
        let samples = vec![Sample { pc: 0x3008, ..Sample::default() }; 3];
        let counts = Counts { samples, ..Counts::default() };
        assert_eq!(Stacks::new(&counts, &symbols(), &Tables::default(), 1000).folded(), "leaf 3000\n");
    }

    #[test]
    fn a_flame_graph_has_all_functions() {
        let svg = stacks().flames("a <title>", "below").expect("an SVG");
        for text in ["a &lt;title&gt;", "below", "<title>mid__dle (67 instructions", "<title>leaf (33 instructions"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(Stacks::default().flames("", "").is_err(), "of nothing");
    }

    #[test]
    fn a_call_graph_has_what_callers_and_callees_share() {
        let graph = stacks().graph();
        for line in [
            r#"  "top" [label="top\n94.8 %, 8.6 % itself"]"#,
            r#"  "leaf" [label="leaf\n86.2 %, 86.2 % itself"]"#,
            r#"  "top" -> "leaf" [label="28.4 %"]"#,
            r#"  "mid__dle" -> "leaf" [label="57.8 %"]"#,
        ] {
            assert!(graph.lines().any(|found| found == line), "{line} in\n{graph}");
        }
        assert!(!graph.contains("\"[no sample]\" ->"), "{graph}");
        assert_eq!(quoted("a\"b\\c\nd"), r#""a\"b\\c\nd""#);
    }

    #[test]
    fn a_file_says_what_it_is_to_have() {
        let of = |name: &str| Format::of(Path::new(name));
        assert_eq!(
            [of("a.svg"), of("b.c.folded"), of("d.dot")],
            [Format::Flames, Format::Folded, Format::Graph].map(Some)
        );
        assert_eq!([of("svg"), of("a.txt"), of("a.SVG ")], [None; 3]);
    }
}
