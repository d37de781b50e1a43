//! The part of the model of the processor.

use super::case::{Case, run};
use super::copies;
use super::stepper::Stepper;
use crate::part::{Failure, Part};
use crate::translator::generate;
use crate::work::{Work, attempt, verdict};

/// Cases in a batch.
const BATCH: u64 = 32;

/// The model against QEMU.
pub struct Model {
    /// Half of the code is T32.
    pub thumb: bool,
}

/// A stepper that comes up when it is wanted, and again after code that did not come back.
#[derive(Default)]
struct Lazy(Option<Stepper>);

impl Lazy {
    /// With a stepper, which is lost if `what` panics.
    fn with<T>(&mut self, what: impl FnOnce(&mut Stepper) -> T) -> T {
        let mut stepper = match self.0.take() {
            Some(stepper) => stepper,
            None => Stepper::start().unwrap_or_else(|error| panic!("{error}")),
        };
        let result = what(&mut stepper);
        self.0 = Some(stepper);
        result
    }

    fn run(&mut self, cases: &[Case], work: &Work) {
        for (what, times) in self.with(|stepper| run(stepper, cases)) {
            work.note(&what, times);
        }
    }

    fn copies(&mut self, seeds: &[u64], work: &Work) {
        for (what, times) in self.with(|stepper| copies::run(stepper, seeds)) {
            work.note(what, times);
        }
    }
}

/// The seeds of a batch: with the run's own seed above bit 32, as in [`Work::numbers`].
fn seeds(number: u64) -> impl Iterator<Item = u64> {
    let first = (number >> 32 << 32) + (number & 0xffff_ffff) * BATCH;
    first..first + BATCH
}

fn batch(number: u64, thumb: bool) -> Vec<Case> {
    seeds(number).map(|seed| Case { seed, single: false, thumb }).collect()
}

/// Which case of a batch it is, instruction by instruction if it fails like that, too.
fn reduced(number: u64, thumb: bool, message: &str, work: &Work) -> Failure {
    let mut stepper = Lazy::default();
    for case in batch(number, thumb) {
        for case in [Case { single: true, ..case }, case] {
            if let Err(message) = attempt(|| stepper.run(&[case], work)) {
                return Failure::of(case.to_string(), message);
            }
        }
    }
    Failure::trouble(format!("batch {number} failed once, and not again: {message}"))
}

impl Part for Model {
    fn name(&self) -> &str {
        if self.thumb { "model-t32" } else { "model" }
    }

    fn about(&self) -> &str {
        "the model behind the translator's cases, against their native execution by QEMU's processor"
    }

    fn on_board(&self) -> bool {
        true
    }

    fn weight(&self) -> u32 {
        2
    }

    fn must_see(&self) -> Vec<String> {
        const ALSO: &[&str] = &[
            "in User mode",
            "in Supervisor mode",
            "in Abort mode",
            "in Undefined mode",
            "in IRQ mode",
            "Undefined",
            "SupervisorCall",
            "PrefetchAbort",
            "DataAbort",
        ];
        let kinds = if self.thumb { generate::KINDS_OF_T32 } else { generate::KINDS };
        kinds.iter().chain(ALSO).map(|name| (*name).to_string()).collect()
    }

    fn run(&self, work: &Work) -> Result<(), Failure> {
        let ran = work.cases(work.numbers(), BATCH, Lazy::default, |stepper, number| {
            stepper.run(&batch(number, self.thumb), work)
        });
        ran.map(drop).map_err(|(number, message)| reduced(number, self.thumb, &message, work))
    }

    fn repeat(&self, case: &str, work: &Work) -> Result<(), Failure> {
        let parsed: Case = case.parse().map_err(Failure::trouble)?;
        verdict(case, attempt(|| Lazy::default().run(&[parsed], work)))
    }
}

/// What the translator copies, as the guest has it and as a copy.
pub struct Copies;

impl Part for Copies {
    fn name(&self) -> &str {
        "copies"
    }

    fn about(&self) -> &str {
        "what the translator copies, on QEMU's processor: in Supervisor mode, and in User mode at another address"
    }

    fn on_board(&self) -> bool {
        true
    }

    fn must_see(&self) -> Vec<String> {
        const CLASSES: &[&str] = &[
            "plain",
            "MOVW or MOVT",
            "a division",
            "an exclusive",
            "Advanced SIMD, elements",
            "Advanced SIMD, arithmetic",
            "VFP",
            "a load or store of VFP",
            "FPSCR",
            "a hint or barrier",
            "LDM or STM",
            "to its end",
            "to an exception",
        ];
        CLASSES.iter().map(|name| (*name).to_string()).collect()
    }

    fn run(&self, work: &Work) -> Result<(), Failure> {
        let batch = |stepper: &mut Lazy, number| stepper.copies(&seeds(number).collect::<Vec<u64>>(), work);
        work.cases(work.numbers(), BATCH, Lazy::default, batch).map(drop).map_err(|(number, message)| {
            let mut stepper = Lazy::default();
            let failing = seeds(number).find_map(|seed| Some((seed, attempt(|| stepper.copies(&[seed], work)).err()?)));
            match failing {
                Some((seed, message)) => Failure::of(seed.to_string(), message),
                None => Failure::trouble(format!("batch {number} failed once, and not again: {message}")),
            }
        })
    }

    fn repeat(&self, case: &str, work: &Work) -> Result<(), Failure> {
        let seed = case.parse().map_err(|_| Failure::trouble("a case is a number"))?;
        verdict(case, attempt(|| Lazy::default().copies(&[seed], work)))
    }
}
