//! One case: the random code of the translator's case of the same number, executed natively piece by piece.

use super::compare;
use super::piece::{Cut, Piece};
use super::record::{MODES, Record, USER_MODE, WORDS};
use super::stepper::{Batch, Native, Stepper, code_at};
use crate::random::Random;
use crate::translator::generate::{self, Window};
use crate::translator::model::{self, IT, Machine, T};
use crate::translator::{CODE, CODE_PAGES, Memory};
use spica_dbt::layout::PAGE;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Instructions of a case, those included that cannot be compared.
const STEPS: usize = 80;

/// A case, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub seed: u64,
    /// Each instruction is a piece of its own.
    pub single: bool,
    /// Half of the code is T32.
    pub thumb: bool,
}

/// A case that the model has executed.
pub struct Plan {
    pub case: Case,
    pub native: Native,
    pub pieces: Vec<Piece>,
    /// Its memory in the end.
    pub memory: Memory,
    /// What was met how often.
    pub notes: BTreeMap<String, u64>,
}

/// The mode that a case runs in.
pub fn mode_name(mode: u32) -> &'static str {
    match mode {
        USER_MODE => "in User mode",
        0x13 => "in Supervisor mode",
        0x17 => "in Abort mode",
        0x1b => "in Undefined mode",
        _ => "in IRQ mode",
    }
}

impl Case {
    /// A state to start from, in the mode of this case, with what the stepper's registers hold.
    fn machine(self, random: &mut Random, window: &Window, known: [u32; 3]) -> Machine {
        let mut machine = generate::machine(random, window);
        let supervisor = machine.supervisor.as_mut().expect("a privileged mode");
        let [ctr, sctlr, ttbr0] = known;
        (supervisor.system[model::CTR], supervisor.system[model::SCTLR]) = (ctr, sctlr);
        supervisor.system[model::TTBR0] = ttbr0;
        supervisor.system[model::DACR] = supervisor.system[model::DACR] & !3 | 1;
        machine.strict = true;
        // Half of them where the guest's kernels spend their time.
        machine.mode = match self.seed / 2 % 8 {
            0..4 => 0x13,
            4 | 5 => USER_MODE,
            n => MODES[1 + (n as usize - 6 + self.seed as usize / 16) % 3],
        };
        if machine.mode == USER_MODE {
            machine.vfp_on = supervisor.fpexc & model::EN != 0;
            machine.supervisor = None;
        } else {
            if supervisor.spsr & 0x3f == 0x13 {
                supervisor.spsr = supervisor.spsr & !0x1f | machine.mode;
            }
            supervisor.spsr &= !super::record::RESERVED;
        }
        machine
    }

    /// Lets the model execute it.
    pub fn plan(self, known: [u32; 3]) -> Plan {
        let mut random = Random::new(self.seed);
        let window = Window::random(&mut random);
        let window = if self.thumb { window.with_t32() } else { window };
        let mut memory = Memory::new();
        generate::memory(&mut random, &mut memory, &window);
        exclusives(&mut random, &mut memory, &window);
        let machine = self.machine(&mut random, &window, known);
        let start = memory.clone();
        let mut base = Record(std::array::from_fn::<u32, WORDS, _>(|_| random.word()));
        base.make_legal();
        let mut plan = Plan {
            case: self,
            native: Native::new(&start, Vec::new()),
            pieces: Vec::new(),
            memory,
            notes: BTreeMap::new(),
        };
        plan.note(mode_name(machine.mode));
        let mut memory = plan.memory.clone();
        let mut cut = Cut::new(machine, &mut memory, self.thumb);
        let (mut left, mut restore) = (STEPS, None);
        while left > 0 {
            let limit = if self.single { 1 } else { random.pick(&[1, 1, 1, 2, 4, 16]) };
            let (at, thumb) = (cut.machine.pc, self.thumb && cut.machine.psr & T != 0);
            let next = match cut.piece(&base, limit) {
                Err(reason) => {
                    plan.note(reason);
                    left -= 1;
                    None
                }
                Ok(mut piece) => {
                    left = left.saturating_sub(piece.words.len());
                    plan.count(&piece);
                    piece.start.add_patch(restore.take());
                    let marked = piece.replaced;
                    plan.native.pieces.push(piece.start);
                    plan.pieces.push(piece);
                    // The model goes on without the marker; natively, it goes with the next piece.
                    if let Some((at, word)) = marked {
                        cut.memory.set_word(at, word);
                        restore = Some((code_at(at), word));
                    }
                    marked.map(|_| cut.machine.pc)
                }
            };
            match next.filter(|_| self.thumb || cut.machine.psr & T == 0) {
                Some(_) => {}
                None => go_on(&mut random, &mut cut.machine, &window, (at, thumb)),
            }
        }
        if let Some((at, _)) = restore {
            // The last marker stays.
            let va = at - code_at(CODE) + CODE;
            let piece = plan.pieces.last().expect("the one that it is from");
            memory.set_word(va, piece.start.marker());
        }
        plan.memory = memory;
        plan
    }
}

/// What a handler might do: back behind the instruction or elsewhere, with some registers put right.
fn go_on(random: &mut Random, machine: &mut Machine, window: &Window, (at, thumb): (u32, bool)) {
    machine.psr &= !(T | IT);
    let behind = at.wrapping_add(4);
    let inside = behind.wrapping_sub(window.start) < 4 * window.words && behind < CODE + CODE_PAGES * PAGE;
    if inside && !random.one_in(4) {
        machine.pc = behind;
        machine.psr |= if thumb { T } else { 0 };
    } else {
        let entry = window.address(random);
        machine.pc = entry & !1;
        machine.psr |= if entry & 1 != 0 { T } else { 0 };
    }
    for _ in 0..random.below(4) {
        let n = random.below(15) as usize;
        machine.r[n] = generate::value(random, window);
    }
}

/// LDREX and STREX as they are used: of one address, with little in between.
fn exclusives(random: &mut Random, memory: &mut Memory, window: &Window) {
    for _ in 0..random.below(3) {
        let at = window.start + 4 * (window.thumb + random.below(window.words - window.thumb - 2));
        let (address, old, new) = (random.below(13), random.below(13), random.below(13));
        let free = (0..13).find(|n| ![address, old, new].contains(n)).expect("one of four");
        memory.set_word(at, 0xe190_0f9f | address << 16 | old << 12);
        memory.set_word(at + 4, 0xe180_0f90 | address << 16 | free << 12 | new);
    }
}

impl Plan {
    fn note(&mut self, what: &str) {
        *self.notes.entry(what.into()).or_default() += 1;
    }

    fn count(&mut self, piece: &Piece) {
        for &(_, word) in &piece.words {
            self.note("instructions compared");
            if let Some(kind) = generate::kind(word) {
                self.note(kind);
            }
        }
        for &kind in &piece.kinds {
            self.note(kind);
        }
        self.note(if piece.replaced.is_some() { "pieces to a marker" } else { "pieces to an exception" });
        if piece.replaced.is_none() {
            self.note(&format!("{:?}", piece.end));
        }
    }
}

/// Runs cases natively; panics, with the case in what it says, if one is not as the model has it. Gives what was met.
pub fn run(stepper: &mut Stepper, cases: &[Case]) -> BTreeMap<String, u64> {
    let known = stepper.known();
    let plans: Vec<Plan> = cases.iter().map(|case| case.plan(known)).collect();
    let mut notes = BTreeMap::new();
    let mut batch = Batch { cases: Vec::new() };
    let mut expected = Vec::new();
    for Plan { case, native, pieces, memory, notes: met } in plans {
        batch.cases.push(native);
        expected.push((case, pieces, memory));
        for (what, times) in met {
            *notes.entry(what).or_default() += times;
        }
    }
    let ran = stepper.run(&mut batch);
    assert!(ran.is_ok(), "{}: {}", cases[0], ran.unwrap_err());
    for ((case, pieces, memory), native) in expected.iter().zip(&batch.cases) {
        if let Err(message) = compare::all(pieces, memory, native) {
            panic!("{case}: {message}");
        }
    }
    notes
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed:{}", self.seed)?;
        f.write_str(if self.thumb { " t32" } else { "" })?;
        f.write_str(if self.single { " single" } else { "" })
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Case, String> {
        let (seed, single) = text.strip_suffix(" single").map_or((text, false), |seed| (seed, true));
        let (seed, thumb) = seed.strip_suffix(" t32").map_or((seed, false), |seed| (seed, true));
        let seed = seed.strip_prefix("seed:").and_then(|seed| seed.parse().ok());
        seed.map(|seed| Case { seed, single, thumb })
            .ok_or_else(|| "a case is seed: with a number, t32 and single behind it or not".into())
    }
}
