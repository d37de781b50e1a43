//! What the model makes of the probes, without an emulator, a kernel or its ticks.

use spica_cycles::price::{self, Range};
use spica_cycles::{Core, Count, Counts, Instruction, Memory, Model, Registers};
use spica_probes::{Kind, OPERATIONS, PROBES, find};

use crate::machine::{Machine, Watch};

/// Memory whose tables map pages of 4 KiB, one to one: the first-level table at 0x4000, all others from 1 MiB on.
struct Pages;

impl Memory for Pages {
    fn word(&self, physical: u32) -> Option<u32> {
        match physical {
            0x4000..0x8000 => Some(0x10_0001 + ((physical - 0x4000) >> 2) * 0x400),
            0x10_0000..0x50_0000 => Some(((physical - 0x10_0000) >> 2) << 12 | 0xe | 0x800),
            _ => None,
        }
    }
}

/// Translation, caches and prediction on; ASID 1.
const ON: Registers = Registers { sctlr: 0x1805, ttbr0: 0x404a, ttbr1: 0, ttbcr: 0, contextidr: 1, prrr: 0, nmrr: 0 };

struct Modelled(Model);

impl Watch for Modelled {
    fn executes(&mut self, address: u32, word: u32) {
        self.0.execute(&Instruction::arm(address, word), 0, &Pages);
    }

    fn accesses(&mut self, address: u32, store: bool) {
        self.0.access(address, 4, store, &Pages);
    }
}

/// What is counted in so many operations of a warm probe, at least; and how many those are.
fn counts(core: Core, kind: Kind, operations: u32) -> (Counts, f64) {
    let mut machine = Machine::new(kind);
    let mut model = Modelled(Model::new(core));
    model.0.set_registers(ON, 1, 0x10_0000);
    machine.call(kind.warming(), &mut model);
    let before = model.0.counts();
    let rounds = operations.div_ceil(kind.in_round());
    machine.call(rounds, &mut model);
    (model.0.counts().since(&before), f64::from(rounds * kind.in_round()))
}

/// Cycles of an operation.
fn cycles(core: Core, kind: Kind, operations: u32) -> Range {
    let (counts, operations) = counts(core, kind, operations);
    price::total(core, &counts) * (1.0 / operations)
}

/// The same by a probe's name, the middle.
fn mid(core: Core, name: &str) -> f64 {
    cycles(core, find(name).unwrap().kind, 1 << 14).mid
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 0.05 * b.max(1.0) + 0.1
}

fn price_of(core: Core, count: Count) -> f64 {
    price::of(core, count).cycles.mid
}

#[test]
fn loads_show_the_caches() {
    for (core, first) in [(Core::CortexA8, 3.0), (Core::CortexA9, 4.0)] {
        let [inner, outer, memory] = ["16k", "128k", "2m"].map(|size| mid(core, &format!("probe-load-64-{size}")));
        assert!(near(inner, first), "{core}: {inner}");
        assert!(near(outer - inner, price_of(core, Count::LoadOuter)), "{core}: {outer}");
        // What the TLBs add is less than a cycle: there are 64 loads in a page.
        assert!(near(memory - inner, price_of(core, Count::LoadMemory)), "{core}: {memory}");
    }
}

#[test]
fn pages_show_the_tlbs() {
    // Beyond an entry for the stack.
    let [fits, more] = ["24", "64"].map(|pages| mid(Core::CortexA8, &format!("probe-pages-{pages}")));
    assert!(near(fits, 3.0) && near(more - fits, 24.0), "{fits}, {more}");
    let [fits, main, walks] = ["24", "96", "512"].map(|pages| mid(Core::CortexA9, &format!("probe-pages-{pages}")));
    let micro = price_of(Core::CortexA9, Count::DataMainTlb);
    assert!(near(fits, 4.0) && near(main - fits, micro) && walks - fits > 2.0 * micro, "{fits}, {main}, {walks}");
}

#[test]
fn branches_show_the_predictors() {
    for core in Core::ALL {
        let missed = price_of(core, Count::MissedDirect);
        // 256 branches are known, 2048 are too many.
        let [few, many] = ["probe-taken-8-256", "probe-taken-8-2048"].map(|name| mid(core, name));
        assert!(few < 2.0 && many - few > missed - 1.0, "{core}: {few}, {many}");
        // What is learnt costs next to nothing, of what is random every second one is wrong.
        let [pattern, random] = ["probe-pattern-4", "probe-pattern-random"].map(|name| mid(core, name));
        assert!((random - pattern - missed / 2.0).abs() < 1.5, "{core}: {pattern}, {random}");
        let [one, two] = ["probe-indirect-1", "probe-indirect-2"].map(|name| mid(core, name));
        assert!((two - one - missed).abs() < 3.0, "{core}: {one}, {two}");
        // A call and its return cost more where the return is not foreseen.
        let [known, deeper] = ["probe-calls-8", "probe-calls-9"].map(|name| mid(core, name));
        assert!(deeper > known, "{core}: {known}, {deeper}");
        let [eight, sixteen] = [8, 16].map(|depth| {
            let kind = Kind::Calls { depth };
            let (counts, _) = counts(core, kind, 1 << 12);
            counts.get(Count::MissedReturn)
        });
        assert!(eight <= 1 && sixteen.abs_diff(1 << 11) <= 1, "{core}: {eight}, {sixteen}");
    }
}

/// No probe is quicker than a core can be. Prints the cycles of each by the model alone, for
/// `docs/cycles-validation.md`.
#[test]
#[ignore = "all probes at their full lengths: a minute without optimisations"]
fn all_probes() {
    for probe in PROBES {
        let [a8, a9] = Core::ALL.map(|core| {
            let Range { low, mid, high } = cycles(core, probe.kind, OPERATIONS / 4);
            // Both cores begin two instructions a cycle at most.
            assert!(0.4 <= low && low <= mid && mid <= high, "{}: {low} {mid} {high}", probe.name);
            format!("{mid:.1} ({low:.1} to {high:.1})")
        });
        println!("| `{}` | {a8} | {a9} |", probe.name);
    }
}
