//! One case, as it is written on the command line: a seed for everything, and what was taken away from it.

use super::generate::{self, WORDS, Window};
use super::instruction::{Instruction, half};
use super::{Disturb, End, Lockstep, Memory, mirrored};
use crate::random::Random;
use spica_dbt::{Options, Spill};
use spica_isa::decode;
use spica_isa::t32::ItState;
use spica_switches::Switches;
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::str::FromStr;

/// The ways to spill in turn, the default in between.
fn technique(number: u64) -> Spill {
    Spill::ALL.get(number as usize % (2 * Spill::ALL.len())).map_or_else(Spill::default, |(_, spill)| *spill)
}

/// NOP, which stands where an instruction was taken away.
const NOP: u32 = 0xe320_f000;
/// Two of T32.
const NOPS: u32 = 0xbf00_bf00;
/// Guest instructions of a case.
const STEPS: u32 = 80;

/// One case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Code, data, registers, what happens at random.
    pub seed: u64,
    /// What the translator may do.
    pub options: Options,
    /// What happens beside.
    pub disturb: Disturb,
    /// How many guest instructions are executed.
    pub steps: u32,
    /// Half of the code is T32.
    pub thumb: bool,
    /// The guest's kernel runs in place, and by blocks what cannot.
    pub in_place: bool,
    /// Accesses are checked.
    pub checked: bool,
    /// Words of the window that are NOPs instead.
    pub nops: BTreeSet<u32>,
}

impl Case {
    /// The case of that number: a third with everything on, a third with everything off, a third with any switches.
    #[must_use]
    pub fn numbered(seed: u64, disturb: Disturb) -> Case {
        let options = match seed % 3 {
            0 => Options { vfp: true, thumbee: true, spill: technique(seed / 3), ..Options::all() },
            1 => Options { spill: technique(seed / 3), ..Options::naive() },
            _ => generate::options(&mut Random::new(!seed)),
        };
        Case {
            seed,
            options,
            disturb,
            steps: STEPS,
            thumb: false,
            in_place: false,
            checked: false,
            nops: BTreeSet::new(),
        }
    }

    /// The same with T32 code.
    #[must_use]
    pub fn with_t32(self) -> Case {
        Case { thumb: true, ..self }
    }

    /// The same in place.
    #[must_use]
    pub fn in_place(self) -> Case {
        let options = Options { spill: Spill::default(), ..self.options };
        Case { in_place: true, options, ..self }
    }

    /// The same with accesses that are checked.
    #[must_use]
    pub fn checked(self) -> Case {
        let options = Options { spill: Spill::default(), ..self.options };
        Case { checked: true, options, ..self }
    }

    fn window(&self, random: &mut Random) -> Window {
        let window = Window::random(random);
        if self.thumb { window.with_t32() } else { window }
    }

    /// Runs it; panics if the two guests differ.
    pub fn run(&self, lockstep: &mut Lockstep, memory: &mut Memory) -> End {
        match self.in_place {
            true => lockstep.set_in_place(self.options),
            false => {
                let t32 = self.thumb && self.seed & 6 != 0;
                lockstep.set_options(self.options, mirrored(t32, self.seed & 1 == 0, self.seed & 8 == 0));
            }
        }
        let mut random = Random::new(self.seed);
        let window = self.window(&mut random);
        if self.checked {
            lockstep.check_accesses(&mut Random::new(!self.seed), &window);
        }
        *memory = Memory::new();
        generate::memory(&mut random, memory, &window);
        let machine = generate::machine(&mut random, &window);
        self.finish(memory, &window);
        lockstep.start(machine, memory, window, self.seed);
        lockstep.run(self.steps, self.disturb)
    }

    /// Takes away what is to be taken away, and makes the rest look like code, if that matters.
    fn finish(&self, memory: &mut Memory, window: &Window) {
        for &n in &self.nops {
            memory.set_word(window.start + 4 * n, if n < window.thumb { NOPS } else { NOP });
        }
        // In some cases it cannot be told from data.
        if self.in_place && !self.seed.is_multiple_of(16) {
            generate::make_text(&mut Random::new(!self.seed), memory, window);
        }
    }

    /// What is left of the code, for people.
    #[must_use]
    pub fn listing(&self) -> String {
        let mut random = Random::new(self.seed);
        let window = self.window(&mut random);
        let mut memory = Memory::new();
        generate::memory(&mut random, &mut memory, &window);
        let machine = generate::machine(&mut random, &window);
        let mut text = format!("begins at {:#x}\n", machine.pc);
        self.finish(&mut memory, &window);
        let mut at = window.start;
        while at < window.start + 4 * window.thumb {
            let instruction = Instruction::at(&memory, at | 1, ItState::OUTSIDE);
            if half(&memory, at) != NOPS & 0xffff {
                let _ = writeln!(text, "{at:08x}: {:04x}  {instruction}", half(&memory, at));
            }
            at += instruction.length();
        }
        for n in (window.thumb..window.words).filter(|n| !self.nops.contains(n)) {
            let at = window.start + 4 * n;
            let word = memory.word(at);
            let _ = writeln!(text, "{at:08x}: {word:08x}  {}", decode(word));
        }
        text
    }

    /// The smallest case that fails like this one, as far as it is found in some thousand runs.
    #[must_use]
    pub fn reduced(&self) -> Case {
        let mut best = self.clone();
        let fails = |case: &Case| {
            let mut memory = Memory::new();
            crate::work::attempt(|| case.run(&mut Lockstep::new(case.options), &mut memory)).is_err()
        };
        let smaller = |best: &mut Case, case: Case| {
            let better = fails(&case);
            if better {
                *best = case;
            }
            better
        };
        // As few steps as possible; what it does for longer is of no interest.
        for steps in 1..best.steps {
            let case = Case { steps, ..best.clone() };
            if smaller(&mut best, case) {
                break;
            }
        }
        for disturb in [Disturb::Nothing, Disturb::Interrupt(0), Disturb::Hide(0)] {
            let case = Case { disturb, ..best.clone() };
            if best.disturb == Disturb::Random && smaller(&mut best, case) {
                break;
            }
        }
        for name in Options::NAMES {
            let mut case = best.clone();
            if std::mem::replace(case.options.switch(name).expect("a name"), false) {
                smaller(&mut best, case);
            }
        }
        if best.options.spill != Spill::default() {
            let case = Case { options: Options { spill: Spill::default(), ..best.options }, ..best.clone() };
            smaller(&mut best, case);
        }
        let all: Vec<u32> = (0..WORDS).collect();
        let without = |kept: &[u32]| all.iter().copied().filter(|n| !kept.contains(n)).collect::<BTreeSet<u32>>();
        let kept = crate::reduce::list(&all, 1000, |kept| fails(&Case { nops: without(kept), ..best.clone() }));
        let case = Case { nops: without(&kept), ..best.clone() };
        smaller(&mut best, case);
        best
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = self.options;
        write!(f, "seed:{} options:naive", self.seed)?;
        for name in Options::NAMES {
            if *options.switch(name).expect("a name") {
                write!(f, ",+{name}")?;
            }
        }
        let Options { max_block, vfp, thumbee, spill, .. } = options;
        if spill != Spill::default() {
            write!(f, ",spill={}", spill.name())?;
        }
        if self.thumb {
            write!(f, " t32:true")?;
        }
        if self.in_place {
            write!(f, " in-place:true")?;
        }
        if self.checked {
            write!(f, " checked:true")?;
        }
        write!(f, " block:{max_block} vfp:{vfp} thumbee:{thumbee} steps:{}", self.steps)?;
        match self.disturb {
            Disturb::Nothing => {}
            Disturb::Random => write!(f, " random:0")?,
            Disturb::Interrupt(at) => write!(f, " interrupt:{at}")?,
            Disturb::Hide(at) => write!(f, " hide:{at}")?,
            Disturb::Unmap(at) => write!(f, " unmap:{at}")?,
        }
        if !self.nops.is_empty() {
            let kept: Vec<String> = (0..WORDS).filter(|n| !self.nops.contains(n)).map(|n| n.to_string()).collect();
            write!(f, " keep:{}", kept.join(","))?;
        }
        Ok(())
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Case, String> {
        fn number<T: FromStr>(value: &str) -> Result<T, String> {
            value.parse().map_err(|_| format!("{value} is not what is wanted there"))
        }
        let mut case = Case {
            seed: 0,
            options: Options::all(),
            disturb: Disturb::Nothing,
            steps: STEPS,
            thumb: false,
            in_place: false,
            checked: false,
            nops: BTreeSet::new(),
        };
        for word in text.split_whitespace() {
            let (key, value) = word.split_once(':').ok_or_else(|| format!("{word} has no colon"))?;
            match key {
                "seed" => case.seed = number(value)?,
                "options" => {
                    let Options { max_block, vfp, thumbee, .. } = case.options;
                    let options = Switches::parse(value).map_err(|error| error.to_string())?.translation;
                    case.options = Options { max_block, vfp, thumbee, ..options };
                }
                "block" => case.options.max_block = number(value)?,
                "vfp" => case.options.vfp = number(value)?,
                "thumbee" => case.options.thumbee = number(value)?,
                "in-place" => case.in_place = number(value)?,
                "checked" => case.checked = number(value)?,
                "t32" => case.thumb = number(value)?,
                "steps" => case.steps = number(value)?,
                "random" => case.disturb = Disturb::Random,
                "interrupt" => case.disturb = Disturb::Interrupt(number(value)?),
                "hide" => case.disturb = Disturb::Hide(number(value)?),
                "unmap" => case.disturb = Disturb::Unmap(number(value)?),
                "keep" => {
                    let kept = value.split(',').filter(|n| !n.is_empty()).map(number);
                    let kept = kept.collect::<Result<BTreeSet<u32>, _>>()?;
                    case.nops = (0..WORDS).filter(|n| !kept.contains(n)).collect();
                }
                _ => return Err(format!("{key} means nothing in a case")),
            }
        }
        Ok(case)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_can_be_written_and_read() {
        for seed in 0..50 {
            let disturb = [Disturb::Random, Disturb::Nothing, Disturb::Unmap(4), Disturb::Hide(7)][seed as usize % 4];
            let mut case = Case::numbered(seed, disturb);
            case.nops.extend(0..seed as u32);
            case.thumb = seed % 5 == 0;
            case.in_place = seed % 7 == 0;
            case.checked = seed % 6 == 0;
            assert_eq!(case.to_string().parse(), Ok(case));
        }
        assert!("seed=3".parse::<Case>().is_err() && "sead:3".parse::<Case>().is_err());
    }
}
