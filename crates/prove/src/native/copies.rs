//! What the translator copies, against itself: executed natively in Supervisor mode, as the guest has it, and natively
//! in User mode at another address, as the copy is.
//!
//! Here the model has no say. Arithmetic of VFP and Advanced SIMD, parallel and saturating arithmetic, divisions,
//! exclusives: for the translator, each is a word that it need not understand, as long as neither privilege nor the
//! place have a part in what it does. That is what this asks a processor that others made.

use super::record::{RESERVED, Record, USER_MODE, marker};
use super::stepper::{Batch, Native, RAM, RAM_SIZE, Stepper};
use crate::decoder::words;
use crate::random::Random;
use crate::translator::generate::{self, Window};
use crate::translator::model::{self, Machine};
use crate::translator::{CODE, DATA, DATA_PAGES, Memory};
use spica_dbt::layout::PAGE;
use spica_isa::{Op, Reg, decode};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Pieces of a case.
const PIECES: u32 = 64;
/// Where the first one is, and the first copy: a third of the code pages is enough for all.
const COPIES: u32 = PAGE + 0x400;
/// Code of a piece: at most two words, and the marker.
const ROOM: u32 = 16;

const ELEMENTS: &str = "Advanced SIMD, elements";

/// Whether it accesses memory: only as the first of a piece, because addresses are made for it.
fn is_access(word: u32) -> bool {
    let kind = copied(word);
    let swap = word & 0x0fb0_0ff0 == 0x0100_0090;
    swap || [ELEMENTS, "a load or store of VFP", "an exclusive", "LDM or STM"].map(Some).contains(&kind)
}

/// What is copied, by the arms of the translator's `rules::translate` that do so, and what it is called here.
fn copied(word: u32) -> Option<&'static str> {
    let free = |reg: Reg| !reg.is_pc();
    match decode(word).op {
        Op::Plain => Some("plain"),
        Op::MoveWide { .. } => Some("MOVW or MOVT"),
        Op::Divide => Some("a division"),
        Op::Exclusive | Op::ClearExclusive => Some("an exclusive"),
        Op::Vfp if word >> 24 == 0xf4 => Some(ELEMENTS),
        Op::Vfp if word >> 28 == 15 => Some("Advanced SIMD, arithmetic"),
        Op::Vfp => Some("VFP"),
        Op::VfpMem { rn, .. } if free(rn) => Some("a load or store of VFP"),
        Op::VfpSystem { sysreg: 1, .. } => Some("FPSCR"),
        Op::Hint | Op::DataSyncBarrier { .. } | Op::DataMemBarrier { .. } => Some("a hint or barrier"),
        Op::MemMultiple(mem) if mem.regs & 0x8000 == 0 && !mem.user => Some("LDM or STM"),
        _ => None,
    }
}

/// A word that is copied.
fn word(random: &mut Random, at: u32, window: &Window) -> u32 {
    loop {
        let any = random.word();
        let condition = if random.one_in(4) { any & 0xf000_0000 } else { 14 << 28 };
        let word = match random.below(9) {
            0 | 1 => condition | 0x0e00_0a00 | any & 0x00ff_f1ff,
            2 | 3 => 0xf200_0000 | any & 0x01ff_ffff,
            4 => 0xf400_0000 | any & 0x00ff_ffff,
            5 => condition | 0x0600_0010 | any & 0x01ff_ffef,
            6 => condition | random.pick(&[0x0000_0090, 0x0100_0050, 0x0100_0080]) | any & 0x00ff_ff6f,
            7 => generate::instruction(random, at, window),
            _ => words::biased(random),
        };
        if copied(word).is_some() {
            return word;
        }
    }
}

/// LDREX and STREX of the same size and address.
fn exclusives(random: &mut Random) -> [u32; 2] {
    let (size, address) = (random.below(4) << 21, random.below(8) << 16);
    [0xe190_af9f | size | address, 0xe180_9f9a | size | address]
}

/// A number that arithmetic of some size has a special case for.
fn number(random: &mut Random) -> u32 {
    let any = random.word();
    random.pick(&[
        any,
        any,
        any,
        0,
        1,
        u32::MAX,
        0x8000_0000,
        0x7f80_0000,
        0x7ff0_0000,
        0x3f80_0000,
        0x7fc0_0001,
        any >> 24,
    ])
}

/// A state for both.
fn machine(random: &mut Random, window: &Window) -> Machine {
    let mut machine = generate::machine(random, window);
    for value in &mut machine.r {
        let any = number(random);
        // Nowhere near the code, nor the stepper, which User mode may not reach.
        let near = |base: u32, size: u32| any.wrapping_sub(base - 0x10_0000) < size + 0x20_0000;
        *value = match random.below(3) {
            0 if !near(RAM, RAM_SIZE) && !near(0x0800_0000, 0x0200_0000) && !near(CODE, 0x10_0000) => any,
            _ => DATA + 4 * random.below(DATA_PAGES * PAGE / 4) + if random.one_in(8) { random.below(4) } else { 0 },
        };
    }
    machine.vfp = std::array::from_fn(|_| number(random));
    machine.vfp_on = !random.one_in(16);
    machine.supervisor = machine.supervisor.map(|supervisor| model::Supervisor {
        fpexc: if machine.vfp_on { model::EN } else { 0 },
        vfp_denied: false,
        ..supervisor
    });
    if let Some(supervisor) = &mut machine.supervisor {
        supervisor.system[model::DACR] = 1;
        supervisor.spsr &= !RESERVED;
    }
    machine
}

/// The pieces of a case: where each begins, and their words.
struct Pieces(Vec<(u32, Vec<u32>)>);

/// The same code twice: in Supervisor mode, and as the copy.
fn pair(seed: u64) -> ([Native; 2], Pieces) {
    let mut random = Random::new(seed);
    let window = Window::random(&mut random);
    let mut memory = Memory::new();
    for at in (DATA..DATA + DATA_PAGES * PAGE).step_by(4) {
        memory.set_word(at, number(&mut random));
    }
    for page in &mut memory.present[crate::translator::CODE_PAGES as usize..] {
        *page = !random.one_in(8);
    }
    let (mut pieces, mut records) = (Vec::new(), [Vec::new(), Vec::new()]);
    for n in 0..PIECES {
        let at = CODE + n * ROOM;
        let words: Vec<u32> = match random.below(8) {
            0 => exclusives(&mut random).into(),
            n if n < 6 => vec![word(&mut random, at, &window)],
            _ => {
                let words = [0, 1].map(|_| word(&mut random, at, &window));
                words[usize::from(is_access(words[1]))..].into()
            }
        };
        let mut base = Record(std::array::from_fn(|_| random.word()));
        base.make_legal();
        let kernel = Machine { pc: at, ..machine(&mut random, &window) };
        let user = Machine { pc: at + COPIES, mode: USER_MODE, supervisor: None, ..kernel };
        // Rounding, flushing, and what was raised before.
        let status = random.word() & 0xf3c0_009f;
        for (machine, records) in [kernel, user].iter().zip(&mut records) {
            // What User mode has not, the second has from the first.
            base.set_machine(machine);
            base.set_status(status);
            records.push(base);
            for (n, word) in words.iter().enumerate() {
                memory.set_word(machine.pc + 4 * n as u32, *word);
            }
            memory.set_word(machine.pc + 4 * words.len() as u32, marker(machine, 0).0);
        }
        pieces.push((at, words));
    }
    (records.map(|records| Native::new(&memory, records)), Pieces(pieces))
}

/// Executes both of each of these cases natively; panics where they differ. Gives what was executed how often.
pub fn run(stepper: &mut Stepper, seeds: &[u64]) -> BTreeMap<&'static str, u64> {
    let mut notes = BTreeMap::new();
    let (mut all, mut batch) = (Vec::new(), Batch { cases: Vec::new() });
    for &seed in seeds {
        let (natives, pieces) = pair(seed);
        for word in pieces.0.iter().flat_map(|(_, words)| words) {
            *notes.entry(copied(*word).expect("one that is")).or_default() += 1;
        }
        all.push((seed, pieces, natives.each_ref().map(|native| native.pieces.clone())));
        batch.cases.extend(natives);
    }
    let ran = stepper.run(&mut batch);
    assert!(ran.is_ok(), "{}: {}", seeds[0], ran.unwrap_err());
    for ((seed, pieces, before), pair) in all.iter().zip(batch.cases.chunks_exact(2)) {
        for (n, (at, words)) in pieces.0.iter().enumerate() {
            let seen = [0, 1].map(|k| pair[k].pieces[n].seen(&before[k][n]));
            let [kernel, user] = &seen;
            *notes.entry(if kernel.is_marker() { "to its end" } else { "to an exception" }).or_default() += 1;
            let differences = user.differences(kernel);
            if !differences.is_empty() {
                let mut text = format!("{seed}: as a copy, {}\n", differences.join("; "));
                for (n, word) in words.iter().enumerate() {
                    let _ = writeln!(text, "{:08x}: {word:08x}  {}", at + 4 * n as u32, decode(*word));
                }
                let _ = writeln!(text, "before {:x?}", &before[0][n].0);
                panic!("{text}");
            }
        }
        assert!(pair[0].bytes == pair[1].bytes, "{seed}: memory is not the same");
    }
    notes
}
