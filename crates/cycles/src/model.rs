//! The core as a whole: what is fed with instructions and accesses, and counts.

use crate::branch::{Branch, Predictor};
use crate::cache::Cache;
use crate::core::{Core, Parts};
use crate::counts::{Count, Counts};
use crate::decode::{Flow, Instruction, System, Unit};
use crate::ledger::Ledger;
use crate::pipeline::Pipeline;
use crate::tlb::Tlb;
use crate::walk::{self, Memory, Registers, Translation};

/// SCTLR.V (B4.1.130).
const HIGH_VECTORS: u32 = 1 << 13;

/// The instruction that was executed last.
#[derive(Clone, Copy)]
struct Last {
    address: u32,
    behind: u32,
    flow: Flow,
}

/// A core. The ledger is told which instruction each count is due to.
#[derive(Clone)]
pub struct Model<L = ()> {
    ledger: L,
    /// The instruction that counts are due to.
    due: u32,
    /// The pipeline's cycles that are in the ledger.
    charged: u64,
    parts: &'static Parts,
    registers: Registers,
    dacr: u32,
    vectors: u32,
    counts: Counts,
    pipeline: Pipeline,
    predictor: Predictor,
    instructions: Cache,
    data: Cache,
    outer: Cache,
    /// The TLBs of instructions and data: the micro TLBs, where there is a main one.
    tlbs: [Tlb; 2],
    main: Option<Tlb>,
    last: Option<Last>,
    /// The line of instructions that is being executed, by its virtual address and ASID, so that it is looked up once.
    line: Option<u32>,
}

/// What wants a translation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Fetch,
    Data,
}

impl Model {
    /// A core as it is after reset: nothing is cached.
    #[must_use]
    pub fn new(core: Core) -> Self {
        Self::with_ledger(core, ())
    }
}

impl<L: Ledger> Model<L> {
    /// The same, with a ledger.
    #[must_use]
    pub fn with_ledger(core: Core, ledger: L) -> Self {
        let parts = core.parts();
        Self {
            ledger,
            due: 0,
            charged: 0,
            parts,
            registers: Registers::default(),
            dacr: 0,
            vectors: 0,
            counts: Counts::default(),
            pipeline: Pipeline::new(parts),
            predictor: Predictor::new(parts),
            instructions: Cache::new(parts.instruction_cache),
            data: Cache::new(parts.data_cache),
            outer: Cache::new(parts.outer_cache),
            tlbs: parts.tlb_entries.map(|entries| Tlb::new(1, entries)),
            main: parts.main_tlb.map(|(sets, ways)| Tlb::new(sets, ways)),
            last: None,
            line: None,
        }
    }

    /// What was counted until now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = self.counts.clone();
        counts.set(Count::Base, self.pipeline.cycles());
        counts
    }

    /// The registers of CP15 are these from now on, domains have those rights (DACR), and vectors are there (VBAR).
    ///
    /// A change of what micro TLBs are checked or filled by empties them, and DACR is such a register, because they
    /// hold rights, not domains (A9 TRM §6.2.1).
    pub fn set_registers(&mut self, registers: Registers, dacr: u32, vbar: u32) {
        if self.parts.micro_tlbs && (registers, dacr) != (self.registers, self.dacr) {
            self.tlbs.iter_mut().for_each(Tlb::clear);
        }
        self.registers = registers;
        self.dacr = dacr;
        self.vectors = if registers.sctlr & HIGH_VECTORS != 0 { 0xffff_0000 } else { vbar };
        self.line = None;
    }

    /// An instruction begins. `operand` is the value of the register that [`Instruction::operand`] names, and is
    /// looked at only if it is a system operation.
    pub fn execute(&mut self, i: &Instruction, operand: u32, memory: &impl Memory) {
        self.flow(i);
        self.due = i.address;
        self.add(Count::Instructions);
        let line = i.address >> self.instructions.line_shift();
        if self.line != Some(line) {
            self.fetch(i.address, memory);
            self.line = Some(line);
        }
        let end = i.behind().wrapping_sub(1);
        if end >> self.instructions.line_shift() != line {
            self.fetch(end, memory);
            self.line = Some(end >> self.instructions.line_shift());
        }
        self.pipeline.issue(i);
        let cycles = self.pipeline.cycles();
        self.ledger.charge(i.address, Count::Base, cycles - self.charged);
        self.charged = cycles;
        if i.unit == Unit::System
            && let Some(system) = i.system
        {
            self.system(system, operand, memory);
        }
        self.last = Some(Last { address: i.address, behind: i.behind(), flow: i.flow });
    }

    /// Once more, which is due to the present instruction.
    fn add(&mut self, count: Count) {
        self.counts.add(count);
        self.ledger.charge(self.due, count, 1);
    }

    /// What the step from the instruction before to this one was. It is due to the one before.
    fn flow(&mut self, i: &Instruction) {
        let Some(last) = self.last else { return };
        let sequential = last.behind == i.address;
        if sequential && last.flow == Flow::Next {
            return;
        }
        let vector = i.address.wrapping_sub(self.vectors);
        let missed = if !sequential && vector < 0x20 && vector.is_multiple_of(4) {
            // Whatever came before: its own flow was cut off.
            Count::ExceptionEntry
        } else {
            match last.flow {
                Flow::ExceptionReturn => Count::ExceptionReturn,
                Flow::Next => Count::Lost,
                flow => {
                    let branch = Branch { address: last.address, behind: last.behind, went: i.address, flow };
                    let right = if self.registers.predicts() { self.predictor.resolve(branch) } else { sequential };
                    if right {
                        return;
                    }
                    match flow {
                        Flow::Direct { .. } => Count::MissedDirect,
                        Flow::Return { .. } => Count::MissedReturn,
                        _ => Count::MissedIndirect,
                    }
                }
            }
        };
        self.add(missed);
        self.pipeline.redirect();
    }

    fn fetch(&mut self, address: u32, memory: &impl Memory) {
        let translation = self.translate(Side::Fetch, address, memory);
        let physical = translation.physical(address);
        let cached = translation.cached && self.registers.caches_instructions();
        if cached && self.instructions.touch(address, physical) {
            return;
        }
        let outer = cached && self.outer.touch(physical, physical);
        self.add(if outer { Count::FetchOuter } else { Count::FetchMemory });
        self.pipeline.stall();
    }

    /// A load or store of so many bytes.
    pub fn access(&mut self, address: u32, bytes: u32, store: bool, memory: &impl Memory) {
        self.access_line(address, store, memory);
        let end = address.wrapping_add(bytes.max(1) - 1);
        if (address ^ end) >> self.data.line_shift() != 0 {
            self.access_line(end, store, memory);
        }
    }

    fn access_line(&mut self, address: u32, store: bool, memory: &impl Memory) {
        let translation = self.translate(Side::Data, address, memory);
        let physical = translation.physical(address);
        if !translation.memory {
            self.add(if store { Count::StoreDevice } else { Count::LoadDevice });
            return;
        }
        if !translation.cached || !self.registers.caches_data() {
            self.add(if store { Count::StoreUncached } else { Count::LoadUncached });
            return;
        }
        if store && !self.parts.stores_allocate {
            if !self.data.holds(address, physical) {
                let outer = self.outer.touch(physical, physical);
                self.add(if outer { Count::StoreOuter } else { Count::StoreMemory });
            }
            return;
        }
        if self.data.touch(address, physical) {
            return;
        }
        let outer = self.outer.touch(physical, physical);
        self.add(match (store, outer) {
            (false, true) => Count::LoadOuter,
            (false, false) => Count::LoadMemory,
            (true, true) => Count::StoreOuter,
            (true, false) => Count::StoreMemory,
        });
    }

    fn translate(&mut self, side: Side, address: u32, memory: &impl Memory) -> Translation {
        if !self.registers.translates() {
            // Without translation, instructions may be cached and data may not (B3.2.1).
            return Translation::flat(address, side == Side::Fetch);
        }
        let asid = self.registers.asid();
        if let Some(found) = self.tlbs[side as usize].find(address, asid) {
            return found;
        }
        let (from_main, walked) = match side {
            Side::Fetch => (Count::FetchMainTlb, Count::FetchWalk),
            Side::Data => (Count::DataMainTlb, Count::DataWalk),
        };
        if let Some(found) = self.main.as_mut().and_then(|main| main.find(address, asid)) {
            self.add(from_main);
            self.tlbs[side as usize].put(found);
            return found;
        }
        self.add(walked);
        let inner = self.parts.walks_in_data_cache && self.registers.walks_cached(address);
        let (data, outer, counts) = (&mut self.data, &mut self.outer, &mut self.counts);
        let (ledger, due) = (&mut self.ledger, self.due);
        let found = walk::walk(&self.registers, memory, address, |at| {
            // A walk brings the lines that it reads: 7-cpu's 7 cycles for a main TLB miss allow no other.
            let count = if inner && data.touch(at, at) {
                Count::WalkInner
            } else if outer.touch(at, at) {
                Count::WalkOuter
            } else {
                Count::WalkMemory
            };
            counts.add(count);
            ledger.charge(due, count, 1);
        });
        let Some(found) = found else {
            self.add(Count::Lost);
            return Translation::flat(address, true);
        };
        self.tlbs[side as usize].put(found);
        if let Some(main) = &mut self.main {
            main.put(found);
        }
        found
    }

    fn system(&mut self, system: System, operand: u32, memory: &impl Memory) {
        let count = match system {
            System::Isb => Count::Isb,
            System::Dsb => Count::Dsb,
            System::Dmb => Count::Dmb,
            System::ModeChange => Count::ModeChange,
            System::Read => Count::CoprocessorRead,
            System::Context => Count::ContextWrite,
            System::Write => Count::CoprocessorWrite,
            System::TlbAll => {
                self.forget(|_| true);
                Count::TlbOperation
            }
            System::TlbPage => {
                self.forget(|t| t.covers(operand, operand as u8));
                Count::TlbOperation
            }
            System::TlbPageOfAll => {
                self.forget(|t| (t.address ^ operand) >> t.size_shift == 0);
                Count::TlbOperation
            }
            System::TlbAsid => {
                self.forget(|t| t.asid == Some(operand as u8));
                Count::TlbOperation
            }
            System::DataLineInvalidate => {
                let physical = self.translate(Side::Data, operand, memory).physical(operand);
                self.data.invalidate(operand, physical);
                Count::CacheLine
            }
            System::DataLineClean | System::DataSetWay => Count::CacheLine,
            System::InstructionLine => {
                let physical = self.translate(Side::Data, operand, memory).physical(operand);
                self.instructions.invalidate(operand, physical);
                Count::CacheLine
            }
            System::InstructionAll => {
                self.instructions.clear();
                self.predictor.flush();
                self.line = None;
                Count::InstructionCacheAll
            }
            System::Predictor => {
                self.predictor.flush();
                Count::PredictorFlush
            }
            System::PredictorWord => {
                self.predictor.forget(operand);
                Count::PredictorWord
            }
        };
        self.add(count);
        if matches!(system, System::Isb | System::Dsb) {
            self.pipeline.stall();
            self.line = None;
        }
    }

    /// Removes translations from all TLBs; micro TLBs are emptied by any maintenance.
    fn forget(&mut self, mut is_so: impl FnMut(&Translation) -> bool) {
        match &mut self.main {
            Some(main) => {
                main.remove(is_so);
                self.tlbs.iter_mut().for_each(Tlb::clear);
            }
            None => self.tlbs.iter_mut().for_each(|tlb| tlb.remove(&mut is_so)),
        }
        self.line = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::price;

    /// Memory with one first-level table at 0x4000: all of it is mapped one to one by sections, cached.
    struct Flat;

    impl Memory for Flat {
        fn word(&self, physical: u32) -> Option<u32> {
            (0x4000..0x8000).contains(&physical).then(|| ((physical - 0x4000) >> 2) << 20 | 0x1_000e)
        }
    }

    /// Translation, caches and prediction on; ASID 1.
    const ON: Registers =
        Registers { sctlr: 0x1805, ttbr0: 0x404a, ttbr1: 0, ttbcr: 0, contextidr: 1, prrr: 0, nmrr: 0 };

    /// DACR: domain 0 is client.
    const CLIENT: u32 = 1;

    fn model(core: Core) -> Model {
        let mut model = Model::new(core);
        model.set_registers(ON, CLIENT, 0x10_0000);
        model
    }

    /// Loads one word of each line of a stretch, again and again; gives cycles for a load beyond the pipeline's.
    fn latency(core: Core, bytes: u32, stride: u32) -> f64 {
        let mut model = model(core);
        let mut round = || (0..bytes / stride).for_each(|n| model.access(0x100_0000 + n * stride, 4, false, &Flat));
        (0..4).for_each(|_| round());
        let before = model.counts();
        let mut round = || (0..bytes / stride).for_each(|n| model.access(0x100_0000 + n * stride, 4, false, &Flat));
        (0..4).for_each(|_| round());
        let counts = model.counts().since(&before);
        price::total(core, &counts).mid / f64::from(4 * (bytes / stride))
    }

    #[test]
    fn working_sets_show_the_caches() {
        for core in Core::ALL {
            let steps = [16 << 10, 128 << 10, 8 << 20].map(|bytes| latency(core, bytes, 64));
            let outer = price::of(core, Count::LoadOuter).cycles.mid;
            let memory = price::of(core, Count::LoadMemory).cycles.mid;
            assert_eq!(steps[0], 0.0, "{core}: in the first cache");
            assert!((steps[1] / outer - 1.0).abs() < 0.1, "{core}: {steps:?}");
            assert!((steps[2] / memory - 1.0).abs() < 0.1, "{core}: {steps:?}");
        }
    }

    /// Memory whose tables map pages of 4 KiB, one to one.
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

    fn walks(core: Core, pages: u32) -> u64 {
        let mut model = model(core);
        let mut round = || (0..pages).for_each(|n| model.access(0x100_0000 + n * 0x1040, 4, false, &Pages));
        (0..4).for_each(|_| round());
        let before = model.counts();
        (0..pages).for_each(|n| model.access(0x100_0000 + n * 0x1040, 4, false, &Pages));
        model.counts().since(&before).get(Count::DataWalk)
    }

    #[test]
    fn tlbs_reach_as_far_as_they_have_entries() {
        assert_eq!((walks(Core::CortexA8, 32), walks(Core::CortexA8, 33)), (0, 33));
        assert_eq!((walks(Core::CortexA9, 120), walks(Core::CortexA9, 260)), (0, 260));
    }

    #[test]
    fn a_change_of_address_space_keeps_what_is_tagged() {
        for core in Core::ALL {
            let mut model = model(core);
            model.access(0x100_1000, 4, false, &Pages);
            model.set_registers(Registers { contextidr: 2, ..ON }, CLIENT, 0);
            model.access(0x100_1000, 4, false, &Pages);
            assert_eq!(model.counts().get(Count::DataWalk), 2, "{core}");
            model.set_registers(ON, CLIENT, 0);
            model.access(0x100_1000, 4, false, &Pages);
            let counts = model.counts();
            assert_eq!(counts.get(Count::DataWalk), 2, "{core}");
            assert_eq!(counts.get(Count::DataMainTlb), u64::from(core == Core::CortexA9));
            let other = Instruction::arm(0, 0xee08_0f37); // TLBIMVA
            model.execute(&other, 0x100_1003, &Flat);
            model.access(0x100_1000, 4, false, &Pages);
            assert_eq!(model.counts().get(Count::DataWalk), 2, "{core}: another address space's");
            let flush = Instruction::arm(0, 0xee08_0f53); // TLBIASID
            model.execute(&flush, 1, &Flat);
            model.access(0x100_1000, 4, false, &Pages);
            assert_eq!(model.counts().get(Count::DataWalk), 3, "{core}");
        }
    }

    #[test]
    fn a_change_of_domains_empties_micro_tlbs_alone() {
        for core in Core::ALL {
            let mut model = model(core);
            let mut look_ups = |dacr| {
                model.set_registers(ON, dacr, 0);
                model.access(0x100_1000, 4, false, &Pages);
                let counts = model.counts();
                [Count::DataWalk, Count::DataMainTlb].map(|count| counts.get(count))
            };
            assert_eq!(look_ups(CLIENT), [1, 0], "{core}");
            assert_eq!(look_ups(CLIENT), [1, 0], "{core}: the same value again");
            assert_eq!(look_ups(5), [1, u64::from(core == Core::CortexA9)], "{core}");
        }
    }

    /// Executes instructions at their places.
    fn run(model: &mut Model, program: &[(u32, u32)]) {
        program.iter().for_each(|&(address, word)| model.execute(&Instruction::arm(address, word), 0, &Flat));
    }

    #[test]
    fn exceptions_are_told_from_branches() {
        for core in Core::ALL {
            let mut model = model(core);
            let svc = (0x1000, 0xef00_0000);
            let vector = (0x10_0008, 0xea00_0000);
            let handler = (0x10_0010, 0xe1b0_f00e); // movs pc, lr
            run(&mut model, &[svc, vector, (0x10_0040, handler.1), (0x1004, 0xe1a0_0000)]);
            let counts = model.counts();
            let three = [Count::ExceptionEntry, Count::ExceptionReturn, Count::MissedDirect].map(|c| counts.get(c));
            assert_eq!(three, [1, 1, 1], "{core}");
            assert_eq!(counts.get(Count::Lost), 0);
            // An interrupt behind a branch: the branch is not judged.
            run(&mut model, &[(0x1008, 0xeaff_fffe), (0x10_0018, 0xe1a0_0000)]);
            assert_eq!(model.counts().get(Count::ExceptionEntry), 2);
            run(&mut model, &[(0x3000, 0xe1a0_0000)]);
            assert_eq!(model.counts().get(Count::Lost), 1, "a step that nothing explains");
        }
    }

    #[test]
    fn code_in_pages_of_one_colour_uses_half_of_the_sets() {
        // 64 pages' first 512 bytes, each page at an odd number; then pages of both parities.
        let misses = |odd: bool| {
            let mut model = model(Core::CortexA9);
            let mut lines = 0;
            for round in 0..6 {
                for page in 0..48u32 {
                    let page = if odd { 2 * page + 1 } else { page };
                    for line in 0..16 {
                        run(
                            &mut model,
                            &[(0x100_0000 + page * 0x1000 + (line * 8 + page % 128) % 128 * 32, 0xe1a0_0000)],
                        );
                    }
                }
                if round == 4 {
                    lines = model.counts().get(Count::FetchOuter);
                }
            }
            model.counts().get(Count::FetchOuter) - lines
        };
        assert!(misses(true) > misses(false));
    }

    #[test]
    fn a_ledger_has_all_that_is_counted() {
        #[derive(Default)]
        struct ByPlace(std::collections::BTreeMap<u32, Counts>);
        impl Ledger for ByPlace {
            fn charge(&mut self, address: u32, count: Count, times: u64) {
                let counts = self.0.entry(address).or_default();
                counts.set(count, counts.get(count) + times);
            }
        }
        for core in Core::ALL {
            let mut model = Model::with_ledger(core, ByPlace::default());
            model.set_registers(ON, CLIENT, 0x10_0000);
            // A loop of a load, a flush of the TLBs, and a branch; the branch back is wrong when the loop is left.
            for round in 0..20u32 {
                model.execute(&Instruction::arm(0x1000, 0xe590_1000), 0, &Flat);
                model.access(0x10_0000 + 64 * round, 4, false, &Flat);
                model.execute(&Instruction::arm(0x1004, 0xee08_0f17), 0, &Flat);
                model.execute(&Instruction::arm(0x1008, 0x1aff_fffc), 0, &Flat);
            }
            model.execute(&Instruction::arm(0x100c, 0xe1a0_0000), 0, &Flat);
            let places = &model.ledger.0;
            for count in Count::ALL {
                let sum: u64 = places.values().map(|counts| counts.get(*count)).sum();
                assert_eq!(sum, model.counts().get(*count), "{core}: {}", count.key());
            }
            assert_eq!(places[&0x1000].get(Count::LoadMemory), 20, "{core}");
            assert_eq!(places[&0x1004].get(Count::TlbOperation), 20, "{core}");
            assert!(places[&0x1008].get(Count::MissedDirect) > 0, "{core}: due to the branch, not to its target");
            assert_eq!(places[&0x100c].get(Count::MissedDirect), 0, "{core}");
        }
    }

    #[test]
    fn two_runs_agree_to_the_digit() {
        let run = || {
            let mut model = model(Core::CortexA8);
            let mut word = 3u32;
            for _ in 0..20_000 {
                word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let i = Instruction::arm(0x8000 + (word >> 20 & !3), word);
                model.execute(&i, word, &Pages);
                model.access(word >> 8, 4, word & 1 == 0, &Pages);
            }
            model.counts()
        };
        assert_eq!(run(), run());
    }

    #[test]
    fn without_caches_nothing_is_cached() {
        let mut model = Model::new(Core::CortexA8);
        (0..2).for_each(|_| model.access(0x8000, 4, false, &Flat));
        assert_eq!(model.counts().get(Count::LoadUncached), 2);
        model.set_registers(Registers { sctlr: 0x1, ..ON }, CLIENT, 0);
        (0..2).for_each(|_| model.access(0x8000, 4, true, &Flat));
        assert_eq!(model.counts().get(Count::StoreUncached), 2);
    }
}
