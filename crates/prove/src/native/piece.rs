//! Pieces of code: as many instructions as the model and a real processor can be expected to agree on, and what must
//! come of them.
//!
//! The model says how far a piece goes: to an exception, or to a [marker] that stands where the next
//! instruction would be. What it says nothing about, or what the manual leaves open, is not executed; why, is counted.

use super::record::{RESERVED, Record, Vector, marker};
use super::stepper::{RAM, RAM_SIZE, code_at};
use crate::translator::generate::{self, cp15};
use crate::translator::instruction::{Instruction, length_at};
use crate::translator::model::{self, Bus, Event, Fault, IT, Machine, SYSTEM, T};
use crate::translator::{CODE, DATA, Memory};
use spica_isa::t32::{self, ItState};
use spica_isa::{Op, decode};

/// A piece, executed by the model.
pub struct Piece {
    /// The state that it starts from, and that in which it must end.
    pub start: Record,
    pub expected: Record,
    /// Words of the record that the manual leaves open.
    pub unknown: Vec<usize>,
    /// Its instructions, with their addresses.
    pub words: Vec<(u32, u32)>,
    /// The kinds of those that are T32.
    pub kinds: Vec<&'static str>,
    /// The words of memory that they store to.
    pub stored: Vec<u32>,
    /// The word that was there before the marker.
    pub replaced: Option<(u32, u32)>,
    /// How it ends.
    pub end: Vector,
}

/// Why an instruction is not compared.
pub type Reason = &'static str;

/// Memory that notes what is touched.
struct Watch<'a> {
    memory: &'a mut Memory,
    user: bool,
    /// Words of code that were loaded from or stored to.
    touched: &'a mut Vec<u32>,
    /// What the stepper has was touched, which the model does not know.
    strayed: bool,
    /// The words that were stored to.
    stored: Vec<u32>,
}

impl Watch<'_> {
    fn note(&mut self, address: u32, bytes: u32) {
        for at in [address, address.wrapping_add(bytes - 1)] {
            if Memory::is_code(at) {
                self.touched.push(at & !3);
            }
            let in_ram = at.wrapping_sub(RAM) < RAM_SIZE;
            self.strayed |= in_ram || matches!(at >> 20, 0x080 | 0x090);
        }
    }
}

impl Bus for Watch<'_> {
    fn fetch(&mut self, address: u32) -> u32 {
        self.memory.fetch(address)
    }

    fn load(&mut self, address: u32, bytes: u32) -> Result<u32, Fault> {
        self.note(address, bytes);
        self.memory.load(address, bytes)
    }

    fn store(&mut self, address: u32, bytes: u32, value: u32) -> Result<(), Fault> {
        self.note(address, bytes);
        self.stored.extend([address & !3, address.wrapping_add(bytes - 1) & !3]);
        self.memory.store(address, bytes, value)
    }

    fn set_unprivileged(&mut self, unprivileged: bool) {
        self.memory.set_unprivileged(unprivileged || self.user);
    }
}

/// How the model's way through a piece goes on.
enum Step {
    /// The machine has gone on.
    On,
    /// Ends here with an exception.
    Raised(Vector, Event),
    /// Not to be compared.
    Not(Reason),
}

/// A piece in the making.
pub struct Cut<'a> {
    pub machine: Machine,
    pub memory: &'a mut Memory,
    touched: Vec<u32>,
    /// The words that the last instruction stored to.
    stored: Vec<u32>,
    /// Where LDREX has put the monitor.
    reserved: Option<Exclusive>,
    /// T32 code is executed as well.
    thumb: bool,
}

/// Status of an abort at `address` that is none of alignment (B3.13.3): of the second level where there is a table.
fn status(memory: &Memory, address: u32) -> u32 {
    match Memory::page(address) {
        Some(page) if memory.present[page] => 0xf,
        _ if address >> 20 == CODE >> 20 || address >> 20 == DATA >> 20 => 7,
        _ => 5,
    }
}

/// What the model is about to execute: in A32, or what A32 has for it.
#[derive(Clone, Copy)]
struct Next {
    instruction: Instruction,
    /// The A32 word, under the condition that it has; 0 where there is none.
    word: u32,
}

impl Next {
    fn at(memory: &Memory, machine: &Machine) -> Next {
        let thumb = machine.psr & T != 0;
        let it = ItState::from_psr(machine.psr);
        let instruction = Instruction::at(memory, machine.pc | u32::from(thumb), it);
        Next { instruction, word: instruction.a32().map_or(0, |decoded| decoded.word) }
    }

    /// The exclusive access that this is, if its condition holds, and whether it stores.
    fn exclusive(&self, machine: &Machine) -> Option<(Exclusive, bool)> {
        let word = self.word;
        let (cond, rn, offset, double, stores) = match self.instruction {
            Instruction::T32(t32::Decoded { cond, op: t32::Op::LoadExclusive { rn, offset, rt2, .. }, .. }) => {
                (cond, rn, offset, rt2.is_some(), false)
            }
            Instruction::T32(t32::Decoded { cond, op: t32::Op::StoreExclusive { rn, offset, rt2, .. }, .. }) => {
                (cond, rn, offset, rt2.is_some(), true)
            }
            // The four sizes in A32, or what T32 has as A32 has it.
            _ if word >> 28 != 15 && word & 0x0f80_0ff0 == 0x0180_0f90 => {
                let size = word >> 21 & 3;
                let passed = size < 2 && model::condition_passed(word >> 28, machine.psr);
                let address = machine.r.get((word >> 16 & 15) as usize).copied();
                let access = |address| (Exclusive { address, double: size == 1 }, word & 1 << 20 == 0);
                return address.filter(|_| passed).map(access);
            }
            _ => return None,
        };
        let address = machine.r[rn.n() as usize % 15].wrapping_add(offset.into());
        cond.holds(machine.psr).then_some((Exclusive { address, double }, stores))
    }
}

/// What an exclusive access reserves, or wants to be reserved.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Exclusive {
    address: u32,
    /// LDREXD and STREXD, or LDREX and STREX.
    double: bool,
}

/// Why an instruction is not to be executed at all.
fn unfit(next: &Next, machine: &Machine, reserved: Option<Exclusive>) -> Option<Reason> {
    if next.instruction.is_unpredictable() {
        return Some("UNPREDICTABLE, by its encoding");
    }
    if let Some((exclusive, true)) = next.exclusive(machine)
        && reserved != Some(exclusive)
    {
        return Some("STREX without LDREX: the model has no monitor");
    }
    let it = ItState::from_psr(machine.psr);
    match next.instruction {
        Instruction::T32(d) if next.word == 0 || !d.cond.holds(machine.psr) => None,
        // It writes the state for a check of permission, and only states in a block behind it (7.2.22).
        Instruction::T32(_) if it.is_last() && next.word & 0x0f00_0f10 == 0x0e00_0f10 => {
            Some("MCR or MRC of CP15, last in an IT block: QEMU leaves ITSTATE as it was before it")
        }
        // QEMU has ThumbEE no more.
        Instruction::T32(_) | Instruction::A32(_) => unfit_in_a32(next.word, machine),
    }
}

/// The same of an A32 word.
fn unfit_in_a32(word: u32, machine: &Machine) -> Option<Reason> {
    if decode(word).op == Op::Unpredictable {
        return Some("UNPREDICTABLE, by its encoding");
    }
    if word >> 28 == 15 || !model::condition_passed(word >> 28, machine.psr) {
        return None;
    }
    let register = |lo: u32| machine.r.get((word >> lo & 15) as usize).copied();
    let body = word & 0x0fff_ffff;
    let writes = |n: usize| body & !0xf000 == cp15(false, SYSTEM[n], 0);
    if machine.mode == 0x10 && body & 0x0fff_0fff == 0x010f_0000 {
        return Some("MRS in User mode: mode and masks are UNKNOWN (A8.8.109)");
    }
    if body & 0x0ff0_0f0f == 0x0c50_0f0e {
        return Some("time");
    }
    if writes(model::SCTLR) || writes(model::TTBR0) || writes(model::DACR) && register(12).is_none_or(|v| v & 3 != 1) {
        return Some("what the stepper's own memory depends on");
    }
    if body & 0x0fff_0fff == 0x0ec1_0e10 && register(12).is_some_and(|value| value & 3 != 0) {
        return Some("TEEHBR with bits that should be zero (B6.1.103)");
    }
    let returns = body & 0x0c10_f000 == 0x0010_f000 && body & 0x0200_0090 != 0x90 && body & 0x0180_0000 != 0x0100_0000;
    if returns && !matches!(body >> 21 & 15, 2 | 13) {
        return Some("an exception return by neither SUBS nor MOVS (B9.3.20), which QEMU does not know");
    }
    None
}

impl<'a> Cut<'a> {
    pub fn new(machine: Machine, memory: &'a mut Memory, thumb: bool) -> Cut<'a> {
        Cut { machine, memory, touched: Vec::new(), stored: Vec::new(), reserved: None, thumb }
    }

    /// Whether there is a whole instruction of code at `pc`.
    fn is_executable(&self, pc: u32) -> bool {
        let thumb = u32::from(self.machine.psr & T != 0);
        Memory::is_code(pc) && Memory::is_code(pc.wrapping_add(length_at(self.memory, pc | thumb) - 1))
    }

    /// One instruction of the model; on anything but `On`, memory is as before.
    fn step(&mut self) -> Step {
        let machine = self.machine;
        let next = Next::at(self.memory, &machine);
        let word = next.word;
        if let Some(reason) = unfit(&next, &machine, self.reserved) {
            return Step::Not(reason);
        }
        let before = self.memory.clone();
        let touched = self.touched.len();
        let user = machine.supervisor.is_none();
        self.memory.set_unprivileged(user);
        let mut watch =
            Watch { memory: self.memory, user, touched: &mut self.touched, strayed: false, stored: Vec::new() };
        let mut after = machine;
        let event = after.step(&mut watch);
        let Watch { strayed, stored, .. } = watch;
        self.stored = stored;
        self.memory.set_unprivileged(false);
        let step = match event {
            _ if strayed => Step::Not("an address of the stepper's"),
            Event::Done if after.supervisor.is_some_and(|s| s.spsr & RESERVED != 0) => {
                Step::Not("SPSR with bits that should be zero (B1.3.3)")
            }
            Event::Done => {
                self.machine = after;
                Step::On
            }
            Event::Unpredictable => Step::Not("UNPREDICTABLE, by its registers"),
            Event::Privileged => Step::Not("sensitive, and not modelled"),
            Event::Undefined if is_undefined(&next.instruction, &machine) => Step::Raised(Vector::Undefined, event),
            Event::Undefined => Step::Not("not modelled"),
            Event::Supervisor(_) => {
                // ITSTATE is that behind it.
                self.machine.psr = after.psr;
                Step::Raised(Vector::SupervisorCall, event)
            }
            Event::Fault(_) if word & 0x0fff_0f10 == cp15(false, (7, 0, 0, 0), 0) => {
                Step::Not("a fault of cache maintenance: QEMU has no caches")
            }
            Event::Fault(fault) if splits_doubleword(word, fault, &self.stored) => {
                Step::Not("VSTM that aborts between the halves of a register: its memory is UNKNOWN (B1.9.8)")
            }
            Event::Fault(_) => Step::Raised(Vector::DataAbort, event),
            Event::Return(target) => {
                let spsr = after.supervisor.expect("only privileged modes return").spsr;
                // Back to the same mode, in A32, little-endian, outside of IT blocks.
                if spsr & 0x0700_fe3f == machine.mode {
                    after.return_to(target);
                    self.machine = after;
                    Step::On
                } else {
                    Step::Not("an exception return to elsewhere")
                }
            }
        };
        match &step {
            Step::On => {
                if let Some((exclusive, false)) = next.exclusive(&machine) {
                    self.reserved = Some(exclusive);
                } else if !self.stored.is_empty() {
                    self.reserved = None;
                }
            }
            // What a store of several words did before it faulted stays.
            Step::Raised(..) => {}
            Step::Not(_) => {
                *self.memory = before;
                self.touched.truncate(touched);
            }
        }
        step
    }

    /// A piece of at most `limit` instructions, and the model's state behind it. `base` has what the model has not.
    ///
    /// # Errors
    /// Why the first instruction is not compared.
    pub fn piece(&mut self, base: &Record, limit: usize) -> Result<Piece, Reason> {
        let first = self.machine;
        let memory = self.memory.clone();
        self.touched.clear();
        self.reserved = None;
        let (mut words, mut kinds, mut stored) = (Vec::new(), Vec::new(), Vec::new());
        let mut why = "its end cannot be marked";
        let raised = loop {
            let pc = self.machine.pc;
            // In an IT block, a marker has its condition.
            let in_it = self.machine.psr & IT != 0;
            let over = words.len() >= limit && !in_it || self.machine.psr & T != 0 && !self.thumb;
            if over || !self.is_executable(pc) {
                break None;
            }
            let Next { word, instruction } = Next::at(self.memory, &self.machine);
            let kind = match instruction {
                Instruction::T32(d) if d.cond.holds(self.machine.psr) => generate::kind_of_t32(&d),
                _ => None,
            };
            let step = self.step();
            stored.append(&mut self.stored);
            match step {
                Step::On => {}
                Step::Raised(vector, event) => {
                    words.push((pc, word));
                    kinds.extend(kind);
                    break Some((vector, event));
                }
                Step::Not(reason) => {
                    why = reason;
                    break None;
                }
            }
            words.push((pc, word));
            kinds.extend(kind);
        };
        if words.is_empty() {
            return Err(why);
        }
        if raised.is_none() && self.machine.psr & IT != 0 {
            (*self.memory, self.machine) = (memory, first);
            return Err("the end of an IT block that is not compared");
        }
        let mut piece = Piece {
            start: *base,
            expected: *base,
            unknown: Vec::new(),
            words,
            kinds,
            stored,
            replaced: None,
            end: Vector::DataAbort,
        };
        piece.start.set_machine(&first);
        piece.expected.set_machine(&self.machine);
        let pc = self.machine.pc;
        match raised {
            Some((vector, event)) => self.raise(&mut piece, vector, event),
            None if !Memory::is_code(pc) => {
                if pc.wrapping_sub(RAM) < RAM_SIZE || matches!(pc >> 20, 0x080 | 0x090) {
                    (*self.memory, self.machine) = (memory, first);
                    return Err("an address of the stepper's");
                }
                // From Thumb code, it is the same (table B1-7).
                piece.expected.take(Vector::PrefetchAbort, &self.machine, pc.wrapping_add(4));
                piece.expected.prefetch_abort(status(self.memory, pc), pc);
                piece.end = Vector::PrefetchAbort;
            }
            None => {
                let at = pc & !3;
                let executed = piece.words.iter().any(|&(pc, _)| pc & !3 == at || pc.wrapping_add(2) & !3 == at);
                if executed || self.touched.contains(&at) {
                    (*self.memory, self.machine) = (memory, first);
                    if piece.words.len() > limit {
                        return Err("the end of an IT block that cannot be marked");
                    }
                    // A shorter one ends elsewhere.
                    return self.piece(base, piece.words.len() - 1);
                }
                let old = self.memory.word(at);
                let (word, vector) = marker(&self.machine, old);
                self.memory.set_word(at, word);
                let size = if self.machine.psr & T != 0 { 2 } else { 4 };
                piece.expected.take(vector, &self.machine, pc.wrapping_add(size));
                piece.start.set_marker(code_at(at), word);
                (piece.replaced, piece.end) = (Some((at, old)), vector);
            }
        }
        Ok(piece)
    }

    /// The exception that the last instruction raised.
    fn raise(&self, piece: &mut Piece, vector: Vector, event: Event) {
        let machine = &self.machine;
        piece.end = vector;
        let Event::Fault(fault) = event else {
            let behind = if machine.psr & T != 0 { 2 } else { 4 };
            return piece.expected.take(vector, machine, machine.pc.wrapping_add(behind));
        };
        piece.expected.take(vector, machine, machine.pc.wrapping_add(8));
        let status = if fault.alignment { 1 } else { status(self.memory, fault.address) };
        piece.expected.data_abort(status, fault.write, fault.address);
        // A load of several registers that aborts leaves all but the base UNKNOWN (B1.9.8).
        let &(_, word) = piece.words.last().expect("one that faulted");
        let base = word >> 16 & 15;
        let dual = match Next::at(self.memory, machine).instruction {
            Instruction::T32(t32::Decoded { op: t32::Op::MemDual(m), .. }) if m.load => Some([m.rt.n(), m.rt2.n()]),
            _ => None,
        };
        let listed: Vec<u32> = match (word >> 25 & 7, word >> 20 & 1 != 0) {
            _ if dual.is_some() => dual.into_iter().flatten().collect(),
            (4, true) => (0..15).filter(|n| word >> n & 1 != 0).collect(),
            (0, false) if word & 0xf0 == 0xd0 => vec![word >> 12 & 15, (word >> 12 & 15) + 1],
            (6, true) => {
                piece.unknown.extend(super::record::VFP..super::record::WORDS);
                Vec::new()
            }
            _ => Vec::new(),
        };
        let user_bank = word >> 25 & 7 == 4 && word >> 22 & 1 != 0 && word >> 15 & 1 == 0;
        let mode = if user_bank { super::record::USER_MODE } else { machine.mode };
        // QEMU loses it, though, where it is the first register of LDRD, or in the list of LDM of the User bank.
        let kept = word >> 25 & 7 == 4 && !user_bank;
        let unknown = listed.into_iter().filter(|&n| n != base || !kept);
        piece.unknown.extend(unknown.map(|n| Record::register(mode, n)));
    }
}

/// Whether a store of doubleword registers aborts at the second word of one: some write the first, and some do not.
fn splits_doubleword(word: u32, fault: Fault, stored: &[u32]) -> bool {
    let doublewords = word & 0x0e10_0f00 == 0x0c00_0b00;
    doublewords && stored.first().is_some_and(|first| fault.address.wrapping_sub(*first) & 4 != 0)
}

/// Whether a word that the model has not is one that no processor has, or none that this one has now.
fn is_undefined(instruction: &Instruction, machine: &Machine) -> bool {
    match instruction.op() {
        _ if instruction.is_undefined() => true,
        Some(Op::Vfp | Op::VfpMem { .. }) => !machine.has_vfp(),
        _ => false,
    }
}
