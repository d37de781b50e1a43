//! The parts of the translator: cases where everything happens at random, and cases where one thing happens everywhere.

use super::case::Case;
use super::{Disturb, Lockstep, Memory, forms, generate, generate_t32};
use crate::part::{Failure, Part};
use crate::work::{Work, attempt, verdict};
use spica_dbt::Options;

/// What random code there is, and what runs it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A32, by blocks.
    A32,
    /// Half of it is T32, by blocks.
    T32,
    /// A32, by blocks, with accesses that are checked.
    Checked,
    /// A32, in place and by blocks what cannot.
    InPlace,
}

impl Kind {
    fn case(self, seed: u64, disturb: Disturb) -> Case {
        let case = Case::numbered(seed, disturb);
        match self {
            Kind::A32 => case,
            Kind::T32 => case.with_t32(),
            Kind::Checked => case.checked(),
            Kind::InPlace => case.in_place(),
        }
    }
}

/// What a thread needs.
struct Pair {
    lockstep: Lockstep,
    memory: Memory,
}

impl Pair {
    fn new() -> Pair {
        Pair { lockstep: Lockstep::new(Options::all()), memory: Memory::new() }
    }
}

/// What has to happen in random cases beside instructions of all [`generate::KINDS`], and [`forms::ALL`].
const EVENTS: &[&str] = &[
    "DACR, eagerly",
    "DACR, with a trap",
    "DACR, without a trap",
    "FPEXC, with a trap",
    "FPEXC, without a trap",
    "TLB, by its own trap",
    "a block for once",
    "a branch to a guarded window",
    "a cache line, by its own trap",
    "a fault of cache maintenance",
    "a fault of the User bank",
    "a register is lost",
    "a register is lost across an ISB",
    "a fault with a register in PMCCNTR",
    "a fault with a register in TPIDRURW",
    "a fault with a register in a private slot",
    "a fault with a register in the shared slot",
    "a fault with a register in the vCPU page",
    "an interrupt with a register in PMCCNTR",
    "an interrupt with a register in TPIDRURW",
    "an interrupt with a register in a private slot",
    "an interrupt with a register in the shared slot",
    "an interrupt with a register in the vCPU page",
    "a return by the shadow stack, closed",
    "a return that was expected",
    "a return to elsewhere",
    "a return without a call",
    "an exception return that is followed",
    "an unprivileged access, checked",
];

/// What has to happen where accesses are looked at.
const EVENTS_OF_CHECKS: &[&str] = &[
    "a load whose line's mark is set",
    "a place is told of",
    "a store whose line's mark is set",
    "an access whose mark is set",
    "an edge is counted",
    "an edge is counted once more than it can be",
];

/// What has to happen beside T32 instructions of all [`generate_t32::KINDS`].
const EVENTS_OF_T32: &[&str] = &[
    "T32, in an IT block",
    "a block from within an IT block",
    "a branch of T32 code through the mirror",
    "a branch to a guarded window",
    "a branch of T32 code through the mirror, closed",
    "a fault in an IT block",
    "a fault in System mode, which did not begin",
    "a fault of T32",
    "a fault with two registers in the vCPU page",
    "an exception return to Thumb state",
    "a link to an instruction across the end of a page",
    "all of System mode at once",
    "an instruction across the end of a page",
    "an interrupt of a block in Thumb state",
    "back from System mode, without a trap",
    "the end of a block in an IT block",
    "to System mode, without a trap",
];

/// What has to happen beside instructions of all [`generate::KINDS`], and [`forms::IN_PLACE`].
const EVENTS_IN_PLACE: &[&str] = &[
    "a block for once",
    "a branch to Thumb state in place",
    "a branch to a stub",
    "a fault of the User bank",
    "a page is back in its place",
    "a page leaves its place",
    "a page that cannot run in place",
    "a prefetch abort of code in place",
    "a store of a block to its own page that leaves it",
    "a store to code that concerns no block",
    "a store to code, of a word",
    "a stub is found",
    "a stub is made",
    "a word is rewritten",
    "a write of DACR in place",
    "all stubs are made anew",
    "all twins are made anew",
    "an exception return that is followed",
    "an exit that leads to code in place",
    "an instruction in place that traps",
    "an interrupt of code in place",
    "an interrupt with a register in the vCPU page",
    "code in place is entered",
    "twins move, to lie together",
];

/// Counts what pairs have seen.
fn note(work: &Work, pairs: Vec<Pair>) {
    for Pair { mut lockstep, .. } in pairs {
        for (what, times) in &lockstep.seen {
            work.note(what, u64::from(*times));
        }
        let Lockstep { faults, interrupts, skipped, strayed, landings, .. } = lockstep;
        for (what, times) in [
            ("guest faults", faults),
            ("interrupts", interrupts),
            ("instructions that are not compared", skipped),
            ("branches to nowhere", strayed),
            ("branches through the mirror", landings),
        ] {
            work.note(what, u64::from(times));
        }
        for (name, times) in lockstep.coverage.take().into_iter().filter(|&(_, times)| times != 0) {
            work.note(&format!("{}{name}", forms::PREFIX), times);
        }
    }
}

/// The failure of a case, reduced.
fn reduced(case: &Case, message: &str) -> Failure {
    let small = case.reduced();
    let again = attempt(|| small.run(&mut Lockstep::new(small.options), &mut Memory::new()));
    let message = again.err().unwrap_or_else(|| format!("{message}\n(not when it was repeated)"));
    Failure::of(small.to_string(), format!("{message}\n{}", small.listing()))
}

fn repeat(case: &str) -> Result<(), Failure> {
    let parsed: Case = case.parse().map_err(Failure::trouble)?;
    let result = attempt(|| parsed.run(&mut Lockstep::new(parsed.options), &mut Memory::new()));
    verdict(case, result.map(drop))
        .map_err(|failure| Failure { message: format!("{}\n{}", failure.message, parsed.listing()), ..failure })
}

/// Random code, and random things that happen to it.
pub struct Random {
    /// Of which kind.
    pub kind: Kind,
}

impl Random {
    fn case(&self, seed: u64) -> Case {
        self.kind.case(seed, Disturb::Random)
    }
}

impl Part for Random {
    fn name(&self) -> &str {
        match self.kind {
            Kind::A32 => "translator",
            Kind::T32 => "translator-t32",
            Kind::Checked => "translator-checked",
            Kind::InPlace => "translator-in-place",
        }
    }

    fn about(&self) -> &str {
        match self.kind {
            Kind::A32 => {
                "random code translated and untranslated in step, any switches, interrupts and hidden pages in between"
            }
            Kind::T32 => "the same of T32 code, and A32 code that it calls and is called by",
            Kind::Checked => "the same of code whose accesses are checked",
            Kind::InPlace => "the same of code in place, and the blocks beside it",
        }
    }

    fn weight(&self) -> u32 {
        4
    }

    fn must_see(&self) -> Vec<String> {
        let names = |names: &[&str], events: &[&str]| {
            names.iter().chain(events).map(|name| (*name).to_string()).collect::<Vec<String>>()
        };
        if self.kind == Kind::T32 {
            return names(generate_t32::KINDS, EVENTS_OF_T32);
        }
        if self.kind == Kind::Checked {
            return names(generate::KINDS, EVENTS_OF_CHECKS);
        }
        if self.kind == Kind::InPlace {
            let forms = forms::IN_PLACE.iter().map(|name| format!("{}{name}", forms::PREFIX));
            return names(generate::KINDS, EVENTS_IN_PLACE).into_iter().chain(forms).collect();
        }
        let forms = forms::ALL.iter().map(|name| format!("{}{name}", forms::PREFIX));
        generate::KINDS.iter().chain(EVENTS).map(|name| (*name).to_string()).chain(forms).collect()
    }

    fn run(&self, work: &Work) -> Result<(), Failure> {
        let run = |pair: &mut Pair, seed: u64| {
            self.case(seed).run(&mut pair.lockstep, &mut pair.memory);
        };
        match work.cases(work.numbers(), 1, Pair::new, run) {
            Ok(pairs) => {
                note(work, pairs);
                Ok(())
            }
            Err((seed, message)) => Err(reduced(&self.case(seed), &message)),
        }
    }

    fn repeat(&self, case: &str, _work: &Work) -> Result<(), Failure> {
        repeat(case)
    }
}

/// Random code, and one thing that happens at each of its words in turn.
pub struct Points {
    /// Of which kind.
    pub kind: Kind,
}

impl Points {
    /// The cases of one seed, until one fails, which is given: first what happens by itself, then each thing at each
    /// word.
    fn all(&self, pair: &mut Pair, seed: u64, mut each: impl FnMut(&Case)) {
        let quiet = self.kind.case(seed, Disturb::Nothing);
        each(&quiet);
        quiet.run(&mut pair.lockstep, &mut pair.memory);
        for at in 0..pair.lockstep.words() {
            for disturb in [Disturb::Interrupt(at), Disturb::Hide(at), Disturb::Unmap(at)] {
                let case = Case { disturb, ..quiet.clone() };
                each(&case);
                case.run(&mut pair.lockstep, &mut pair.memory);
            }
        }
    }
}

impl Part for Points {
    fn name(&self) -> &str {
        match self.kind {
            Kind::A32 => "translator-points",
            Kind::T32 => "translator-t32-points",
            Kind::Checked => "translator-checked-points",
            Kind::InPlace => "translator-in-place-points",
        }
    }

    fn about(&self) -> &str {
        "random code in step, with an interrupt, all pages hidden, or all pages gone, at each word in turn"
    }

    fn weight(&self) -> u32 {
        2
    }

    fn must_see(&self) -> Vec<String> {
        let in_place: &[&str] = match self.kind {
            Kind::InPlace => &["an interrupt of code in place", "a prefetch abort of code in place"],
            _ => &[],
        };
        ["guest faults", "interrupts"].iter().chain(in_place).map(|name| (*name).to_string()).collect()
    }

    fn run(&self, work: &Work) -> Result<(), Failure> {
        let run = |pair: &mut Pair, seed: u64| self.all(pair, seed, |_| work.count(1));
        match work.cases(work.numbers(), 0, Pair::new, run) {
            Ok(pairs) => {
                note(work, pairs);
                Ok(())
            }
            Err((seed, message)) => {
                let mut last = self.kind.case(seed, Disturb::Nothing);
                let _ = attempt(|| self.all(&mut Pair::new(), seed, |case| last = case.clone()));
                Err(reduced(&last, &message))
            }
        }
    }

    fn repeat(&self, case: &str, _work: &Work) -> Result<(), Failure> {
        repeat(case)
    }
}
