//! Kernels that do all that they should not ([`crate::wild`]), beside a witness and a guest that sleeps.
//!
//! A case is BOARD/SEED, or BOARD/SEED/OPERATIONS: the operations that are left of that seed's program, each as
//! CHUNK.NUMBER.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use spica_tests::Machine;
use spica_tests::bare::value;
use spica_tests::exact::MACHINES;
use spica_tests::hostile::{self, Got};
use spica_tests::siege::{self, LATE};

use crate::part::{Failure, Part};
use crate::reduce;
use crate::wild::{Op, Program, names};
use crate::work::{Work, attempt, verdict};

/// So many boots are spent on making a case smaller.
const BUDGET: u32 = 120;
/// Of so many cases one is run twice: it must end the same.
const TWICE: u64 = 8;

/// Random operations of a kernel.
pub struct Wild;

/// What boots came to, all together.
#[derive(Default)]
struct Sum {
    boots: u64,
    operations: u64,
    ends: BTreeMap<String, u64>,
    /// In microseconds, and in which case.
    late: (f64, String),
}

/// How it ended, in a few words.
fn end(got: &Got) -> String {
    match got.end.as_deref() {
        None => "goes on".to_string(),
        Some("powered off") => "all done".to_string(),
        // Not with addresses.
        Some(end) => end.split(" 0x").next().unwrap_or(end).to_string(),
    }
}

/// What neighbours get otherwise.
fn calm(machine: Machine) -> &'static Got {
    static CALM: OnceLock<Mutex<BTreeMap<Machine, &'static Got>>> = OnceLock::new();
    let mut calm = CALM.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    calm.entry(machine).or_insert_with(|| Box::leak(Box::new(siege::calm(machine))))
}

/// Runs it; panics if it harms anybody.
fn run(machine: Machine, id: &str, program: &Program) -> Got {
    let got = hostile::wild(machine, id, &program.words());
    hostile::fair(id, got.rounds, calm(machine).rounds);
    assert!(got.late.is_some_and(|late| late < LATE), "{id}: woken {:?} us late", got.late);
    got
}

/// With counted instructions, all that does not depend on when the monitor was asked.
fn same(one: &Got, other: &Got) {
    assert_eq!((one.rounds, &one.end), (other.rounds, &other.end), "the same case ended in two ways");
    if one.end.is_some() {
        assert_eq!(one.counters, other.counters, "the same case was counted in two ways");
    }
}

/// How many operations of the program were begun.
fn operations(program: &Program, got: &Got) -> usize {
    let line = got.console.lines().rev().find(|line| line.contains("chunks="));
    let chunks = line.and_then(|line| value(line, "chunks")).unwrap_or(0) as usize;
    program.ops().iter().filter(|op| op.place.0 < chunks).count()
}

impl Sum {
    fn add(&mut self, work: &Work, id: &str, program: &Program, got: &Got) {
        let operations = operations(program, got);
        for op in &program.ops()[..operations] {
            work.note(op.kind, 1);
        }
        self.boots += 1;
        self.operations += operations as u64;
        *self.ends.entry(end(got)).or_default() += 1;
        let late = got.late.unwrap_or(0.0);
        if late > self.late.0 {
            self.late = (late, id.to_string());
        }
    }

    fn print(&self) {
        let Sum { boots, operations, ends, late } = self;
        println!("prove: hostile-random: {boots} boots, {operations} operations");
        for (end, count) in ends {
            println!("prove: hostile-random: {count:>6} {end}");
        }
        println!("prove: hostile-random: a neighbour was woken {:.0} us late at worst, in {}", late.0, late.1);
    }
}

/// A case, by its name: the board, the program, and all its operations or some.
fn parse(case: &str) -> Option<(Machine, Program)> {
    let mut pieces = case.split('/');
    let (machine, seed) = (super::machine(pieces.next()?)?, pieces.next()?.parse().ok()?);
    let program = Program::new(seed);
    let Some(places) = pieces.next() else { return Some((machine, program)) };
    let place = |text: &str| {
        let (chunk, number) = text.split_once('.')?;
        let place = (chunk.parse().ok()?, number.parse().ok()?);
        program.ops().iter().find(|op| op.place == place).cloned()
    };
    let ops = places.split(',').map(place).collect::<Option<Vec<Op>>>()?;
    pieces.next().is_none().then(|| (machine, program.only(&ops)))
}

/// The name of a case, and its operations in words.
fn describe(id: &str, ops: &[Op]) -> (String, String) {
    let places: Vec<_> = ops.iter().map(|Op { place: (chunk, number), .. }| format!("{chunk}.{number}")).collect();
    let lines: String = ops.iter().map(|op| format!("{:>6}.{:<2} {op}\n", op.place.0, op.place.1)).collect();
    (format!("{id}/{}", places.join(",")), lines)
}

/// The case made smaller, as far as it goes wrong still, and what it says then.
fn reduced(work: &Work, machine: Machine, id: &str, program: &Program, message: String) -> Failure {
    let mut message = message;
    // What went wrong, without figures and addresses.
    let kind = |message: &str| message.chars().filter(|c| !c.is_ascii_digit()).take(60).collect::<String>();
    let wanted = kind(&message);
    let mut tried = 0;
    let ops = reduce::list(program.ops(), BUDGET, |ops| {
        tried += 1;
        work.say(format!("{id} made smaller: {} operations, boot {tried} of {BUDGET}", ops.len()));
        match attempt(|| run(machine, id, &program.only(ops))) {
            Err(said) if kind(&said) == wanted => {
                message = said;
                true
            }
            _ => false,
        }
    });
    if ops.is_empty() {
        return Failure::trouble(format!("{message}\nwithout any operation, too"));
    }
    if ops.len() > MOST_NAMED {
        return Failure::of(id, format!("{message}\n{} operations are left of it", ops.len()));
    }
    let (case, lines) = describe(id, &ops);
    Failure::of(case, format!("{message}\n{lines}"))
}

/// A case of more operations is named by its seed alone.
const MOST_NAMED: usize = 200;

impl Part for Wild {
    fn name(&self) -> &str {
        "hostile-random"
    }

    fn about(&self) -> &str {
        "random privileged operations, beside guests whose memory, clock, share and wakes must stay their own"
    }

    fn weight(&self) -> u32 {
        2
    }

    fn on_board(&self) -> bool {
        true
    }

    fn must_see(&self) -> Vec<String> {
        names().map(str::to_string).collect()
    }

    fn run(&self, work: &Work) -> Result<(), Failure> {
        let sum = Mutex::new(Sum::default());
        let case = |number: u64| {
            let machine = MACHINES[number as usize % MACHINES.len()];
            (machine, format!("{}/{number}", machine.board()), Program::new(number))
        };
        let result = work.cases(
            work.numbers(),
            1,
            || (),
            |(), number| {
                let (machine, id, program) = case(number);
                work.say(id.clone());
                let got = run(machine, &id, &program);
                if number % TWICE == 0 {
                    same(&got, &run(machine, &id, &program));
                }
                sum.lock().unwrap_or_else(PoisonError::into_inner).add(work, &id, &program, &got);
            },
        );
        sum.into_inner().unwrap_or_else(PoisonError::into_inner).print();
        result.map(drop).map_err(|(number, message)| {
            let (machine, id, program) = case(number);
            reduced(work, machine, &id, &program, message)
        })
    }

    fn repeat(&self, case: &str, work: &Work) -> Result<(), Failure> {
        let Some((machine, program)) = parse(case) else {
            return Err(Failure::trouble(format!(
                "{case:?} is no case: expected BOARD/SEED or BOARD/SEED/CHUNK.NUMBER,…"
            )));
        };
        match attempt(|| run(machine, case, &program)) {
            Ok(got) => {
                let operations = operations(&program, &got);
                println!(
                    "{}, at least {operations} operations, woken {:.0} us late",
                    end(&got),
                    got.late.unwrap_or(0.0)
                );
                verdict(case, attempt(|| same(&got, &run(machine, case, &program))))
            }
            // One that is named by its seed is made smaller now.
            Err(message) if program.ops().len() > MOST_NAMED => Err(reduced(work, machine, case, &program, message)),
            Err(message) => Err(Failure::of(case, message)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_named_and_found() {
        let (machine, program) = parse("cubieboard/7").expect("a case");
        let ops = [program.ops()[2].clone(), program.ops()[50].clone()];
        let (case, lines) = describe("cubieboard/7", &ops);
        let (again, two) = parse(&case).expect("a smaller case");
        assert_eq!((again, two.words()), (machine, program.only(&ops).words()));
        assert_eq!(lines.lines().count(), 2);
        for wrong in
            ["cubieboard", "nothing/7", "cubieboard/x", "cubieboard/7/1", "cubieboard/7/0.99", "cubieboard/7/0.0/1"]
        {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
