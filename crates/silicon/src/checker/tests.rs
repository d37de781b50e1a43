//! Each rule, with code that keeps it and code that does not.

use super::*;
use std::collections::BTreeMap;

const RAM: u32 = 0x4000_0000;
const BYTES: u32 = 0x10_0000;
/// Two first-level tables, and a second-level table of each.
const ONE: u32 = RAM + 0x4000;
const TWO: u32 = RAM + 0x8000;
const LEAVES: [u32; 2] = [RAM + 0xc000, RAM + 0xc400];
/// Where the code is: a section, global, that both tables have; where the tables lie is mapped as it is.
const CODE: u32 = RAM + 0x1000;
/// A page that is not global, and where it leads by the first table; by the second, one page behind.
const DATA: u32 = 0x10_0000;
const PAGE: u32 = RAM + 0x2_0000;

const ISB: u32 = 0xf57f_f06f;
const DSB: u32 = 0xf57f_f04f;
const NOP: u32 = 0xe1a0_0000;
const CLREX: u32 = 0xf57f_f01f;
const TTBR0: u32 = 0xee02_0f10;
const CONTEXTIDR: u32 = 0xee0d_0f30;
const DACR: u32 = 0xee03_0f10;
const VBAR: u32 = 0xee0c_0f10;
const CPACR: u32 = 0xee01_0f50;
const TLBIALL: u32 = 0xee08_0f17;
const TLBIMVA: u32 = 0xee08_0f37;
const TLBIASID: u32 = 0xee08_0f57;
const DCCMVAU: u32 = 0xee07_0f3b;
const ICIMVAU: u32 = 0xee07_0f35;
const BPIALL: u32 = 0xee07_0fd5;
const ATS1CPR: u32 = 0xee07_0f18;
const READ_PAR: u32 = 0xee17_0f14;
const RFE: u32 = 0xf8bd_0a00;
const LOAD: u32 = 0xe590_3000;
const STORE: u32 = 0xe580_3000;

/// A small page, not global, for all: normal memory, write-back.
const fn page(physical: u32) -> u32 {
    physical | 0x83e
}

#[derive(Clone)]
struct Board {
    memory: BTreeMap<u32, u32>,
    context: Context,
    cpsr: u32,
    register: u32,
    faults: Faults,
}

impl Memory for Board {
    fn word(&self, physical: u32) -> Option<u32> {
        (physical.wrapping_sub(RAM) < BYTES).then(|| self.memory.get(&physical).copied().unwrap_or(0))
    }
}

impl Machine for Board {
    fn context(&self) -> Context {
        self.context
    }
    fn cpsr(&self) -> u32 {
        self.cpsr
    }
    fn register(&self, _: u8) -> u32 {
        self.register
    }
    fn faults(&self) -> Faults {
        self.faults
    }
}

struct Run {
    board: Board,
    checker: Checker,
    pc: u32,
}

impl Run {
    /// A core whose MMU and caches are on, under the first table and ASID 1.
    fn new(core: Core) -> Run {
        let mut memory = BTreeMap::new();
        for (n, table) in [ONE, TWO].into_iter().enumerate() {
            memory.insert(table + (RAM >> 20 << 2), RAM | 0xc0e);
            memory.insert(table + (DATA >> 20 << 2), LEAVES[n] | 1);
            memory.insert(LEAVES[n], page(PAGE + 0x1000 * n as u32));
        }
        // M, C, Z, I. Walks through the caches.
        let registers = Registers { sctlr: 0x1805, ttbr0: ONE | 0x4a, contextidr: 1, ..Registers::default() };
        let context = Context { registers, dacr: 0x5555_5555, vbar: CODE + 0x800, cpacr: 0 };
        let board = Board { memory, context, cpsr: 0x1d3, register: 0, faults: Faults::default() };
        let mut run = Run { board, checker: Checker::new(core, RAM, BYTES), pc: CODE };
        run.go(&[ISB]);
        run.quiet();
        run
    }

    fn a8() -> Run {
        Run::new(Core::CortexA8)
    }

    /// Executes words where the code is.
    fn go(&mut self, words: &[u32]) {
        for &word in words {
            self.checker.execute(&Step::arm(self.pc, word), &self.board);
            self.pc = self.pc.wrapping_add(4);
        }
    }

    /// An operation with an operand.
    fn with(&mut self, word: u32, register: u32) {
        self.board.register = register;
        self.go(&[word]);
    }

    /// A write of a register of CP15.
    fn set(&mut self, word: u32, change: impl FnOnce(&mut Context)) {
        self.go(&[word]);
        change(&mut self.board.context);
    }

    fn load(&mut self, address: u32) {
        self.go(&[LOAD]);
        self.checker.access(&Step::arm(0, LOAD), address, 4, false, &self.board);
    }

    fn store(&mut self, address: u32, physical: u32, value: u32) {
        self.go(&[STORE]);
        self.board.memory.insert(physical, value);
        self.checker.access(&Step::arm(0, STORE), address, 4, true, &self.board);
    }

    /// An exception's entry, at one of the vectors.
    fn exception(&mut self, vector: u32) {
        self.board.cpsr = 0x1d3;
        self.pc = self.board.context.vbar + vector;
        self.go(&[NOP]);
    }

    /// A return from an exception, in this mode, to other code.
    fn back(&mut self, cpsr: u32) {
        self.go(&[RFE]);
        self.board.cpsr = cpsr;
        self.pc = CODE + 0x400;
        self.go(&[NOP]);
    }

    /// Changes a descriptor of the first second-level table, with all that walks need.
    fn change(&mut self, descriptor: u32) {
        self.store(LEAVES[0], LEAVES[0], descriptor);
        self.with(DCCMVAU, LEAVES[0]);
        self.go(&[DSB]);
    }

    fn classes(&self) -> Vec<Class> {
        self.checker.report.complaints.iter().map(|c| c.class).collect()
    }

    fn quiet(&self) {
        assert_eq!(self.checker.report.complaints, []);
    }

    fn only(&self, class: Class) {
        assert_eq!(self.classes(), [class]);
    }
}

#[test]
fn a_page_that_moved_is_stale_until_it_is_invalidated() {
    for (invalidate, operand) in [(TLBIALL, 0), (TLBIMVA, DATA | 1), (TLBIASID, 1)] {
        let mut run = Run::a8();
        run.load(DATA);
        run.change(page(PAGE + 0x2000));
        run.with(invalidate, operand);
        run.go(&[DSB, ISB]);
        run.load(DATA);
        run.quiet();
    }
    for (invalidate, operand) in [(NOP, 0), (TLBIMVA, DATA | 0x1001), (TLBIMVA, DATA | 2), (TLBIASID, 2)] {
        let mut run = Run::a8();
        run.load(DATA);
        run.change(page(PAGE + 0x2000));
        run.with(invalidate, operand);
        run.go(&[DSB, ISB]);
        run.load(DATA);
        run.only(Class::StaleAddress);
        assert_eq!(run.checker.report.complaints[0].other, PAGE);
        // The next one is told of what is new.
        run.load(DATA);
        assert_eq!(run.checker.report.complaints[0].count, 1);
    }
    // Without the barriers, it may not have happened yet, or not be noticed.
    for barriers in [&[][..], &[DSB], &[ISB], &[ISB, DSB]] {
        let mut run = Run::a8();
        run.load(DATA);
        run.change(page(PAGE + 0x2000));
        run.with(TLBIALL, 0);
        run.go(barriers);
        run.load(DATA);
        run.only(Class::StaleAddress);
    }
}

#[test]
fn the_same_under_another_asid_is_another() {
    let mut run = Run::a8();
    run.load(DATA);
    run.set(CONTEXTIDR, |c| c.registers.contextidr = 0);
    run.go(&[ISB]);
    run.set(TTBR0, |c| c.registers.ttbr0 = TWO | 0x4a);
    run.go(&[ISB]);
    run.set(CONTEXTIDR, |c| c.registers.contextidr = 2);
    run.go(&[ISB]);
    run.load(DATA);
    run.quiet();
}

#[test]
fn rights_and_attributes_and_sizes() {
    // Writable now; the TLB may say that it is not. More rights than are needed do no harm.
    let mut run = Run::a8();
    run.change(page(PAGE) | 1 << 9);
    run.go(&[ISB]);
    run.load(DATA);
    run.change(page(PAGE));
    run.load(DATA);
    run.quiet();
    run.store(DATA, PAGE, 1);
    run.quiet();
    let mut run = Run::a8();
    run.change(page(PAGE) | 1 << 9);
    run.load(DATA);
    run.change(page(PAGE));
    run.store(DATA, PAGE, 1);
    run.only(Class::StaleRights);

    let mut run = Run::a8();
    run.load(DATA);
    run.change(page(PAGE) & !8);
    run.load(DATA);
    run.only(Class::StaleAttributes);

    // A section that becomes a table, with the same addresses.
    let mut run = Run::a8();
    let first = ONE + (0x20_0000 >> 20 << 2);
    run.board.memory.insert(first, RAM | 0x2_0c0e);
    run.load(0x20_0000);
    for n in 0..256 {
        run.board.memory.insert(RAM + 0xc800 + 4 * n, page(RAM + 0x1000 * n));
    }
    run.store(first, first, RAM + 0xc801);
    run.with(DCCMVAU, first);
    run.go(&[DSB]);
    run.load(0x20_0000);
    run.only(Class::Overlap);
}

/// A load of DATA aborts.
fn abort(run: &mut Run) {
    run.board.faults = Faults { dfar: DATA, ..Faults::default() };
    run.go(&[LOAD]);
    run.exception(0x10);
}

#[test]
fn what_the_tables_refuse_may_not_happen() {
    let mut run = Run::a8();
    run.store(DATA, PAGE, 1);
    run.change(page(PAGE) | 1 << 9);
    run.load(DATA);
    run.quiet();
    run.store(DATA, PAGE, 1);
    run.only(Class::StaleAllows);
}

#[test]
fn invalidation_is_in_vain_before_the_table_is_visible() {
    for (invalidate, operand) in [(TLBIALL, 0), (TLBIMVA, DATA | 1), (TLBIASID, 1)] {
        for (clean, settle, right) in [(true, true, true), (true, false, false), (false, true, false)] {
            let mut run = Run::a8();
            run.load(DATA);
            run.store(LEAVES[0], LEAVES[0], page(PAGE + 0x2000));
            if clean {
                run.with(DCCMVAU, LEAVES[0]);
            }
            if settle {
                run.go(&[DSB]);
            }
            run.with(invalidate, operand);
            run.go(&[DSB, ISB]);
            // All is visible from here on.
            run.with(DCCMVAU, LEAVES[0]);
            run.go(&[DSB, ISB]);
            run.load(DATA);
            if right {
                run.quiet();
            } else {
                run.only(Class::StaleAddress);
            }
        }
    }
    // Another descriptor that is not visible is nothing to it.
    let mut run = Run::a8();
    run.load(DATA);
    run.change(page(PAGE + 0x2000));
    run.store(LEAVES[0] + 4, LEAVES[0] + 4, page(PAGE));
    run.with(TLBIMVA, DATA | 1);
    run.go(&[DSB, ISB]);
    run.load(DATA);
    run.quiet();
}

#[test]
fn a_fault_must_be_one_for_walks_as_well() {
    // The TLB does not know the page: a walk finds it, if it reads the old descriptor.
    for barriers in [true, false] {
        let mut run = Run::a8();
        run.load(DATA);
        run.with(TLBIALL, 0);
        run.go(&[DSB, ISB]);
        run.store(LEAVES[0], LEAVES[0], 0);
        if barriers {
            run.with(DCCMVAU, LEAVES[0]);
            run.go(&[DSB]);
        }
        abort(&mut run);
        if barriers {
            run.quiet();
        } else {
            run.only(Class::TableNotSeen);
        }
    }
    // Or by another table, under the same ASID.
    for (asids, right) in [([1, 1], false), ([0, 2], true)] {
        let mut run = Run::a8();
        run.board.memory.insert(LEAVES[1], 0);
        run.set(CONTEXTIDR, |c| c.registers.contextidr = asids[0]);
        run.go(&[ISB]);
        run.set(TTBR0, |c| c.registers.ttbr0 = TWO | 0x4a);
        run.go(&[ISB]);
        run.set(CONTEXTIDR, |c| c.registers.contextidr = asids[1]);
        run.go(&[ISB]);
        abort(&mut run);
        if right {
            run.quiet();
        } else {
            run.only(Class::MixedSpaces);
        }
    }
    // Or by a domain that was open.
    for barrier in [true, false] {
        let mut run = Run::a8();
        run.board.memory.insert(ONE + (DATA >> 20 << 2), LEAVES[0] | 1 | 1 << 5);
        run.load(DATA);
        run.set(DACR, |c| c.dacr = 0x5555_5551);
        if barrier {
            run.go(&[ISB]);
        }
        abort(&mut run);
        assert_eq!(run.classes().contains(&Class::ContextRights), !barrier);
    }
}

#[test]
fn tables_of_one_asid_may_differ_in_rights_alone() {
    // The other table lets the page be read only.
    for (store, right) in [(false, true), (true, false)] {
        let mut run = Run::a8();
        run.board.memory.insert(LEAVES[1], page(PAGE) | 1 << 9);
        run.set(TTBR0, |c| c.registers.ttbr0 = TWO | 0x4a);
        run.go(&[ISB]);
        run.set(TTBR0, |c| c.registers.ttbr0 = ONE | 0x4a);
        run.go(&[ISB]);
        if store {
            run.store(DATA, PAGE, 1);
        } else {
            run.load(DATA);
        }
        if right {
            run.quiet();
        } else {
            run.only(Class::MixedSpaces);
        }
    }
}

#[test]
fn translations_that_are_asked_for() {
    for barrier in [true, false] {
        let mut run = Run::a8();
        run.with(ATS1CPR, DATA);
        if barrier {
            run.go(&[ISB]);
        }
        run.go(&[READ_PAR, READ_PAR]);
        if barrier {
            run.quiet();
        } else {
            run.only(Class::TranslationNotSynchronised);
        }
    }
    // By a domain that has just been opened.
    for barrier in [true, false] {
        let mut run = Run::a8();
        run.board.context.dacr = 0x5555_5551;
        run.board.memory.insert(ONE + (DATA >> 20 << 2), LEAVES[0] | 1 | 1 << 5);
        run.set(DACR, |_| ());
        run.go(&[ISB]);
        run.set(DACR, |c| c.dacr = 0x5555_5555);
        if barrier {
            run.go(&[ISB]);
        }
        run.with(ATS1CPR, DATA);
        assert_eq!(run.classes().contains(&Class::ContextRights), !barrier);
    }
}

#[test]
fn a_fault_must_be_one_for_the_tlb_as_well() {
    let mut run = Run::a8();
    run.load(DATA);
    run.change(0);
    run.with(TLBIMVA, DATA | 1);
    run.go(&[DSB, ISB]);
    abort(&mut run);
    run.quiet();
    let mut run = Run::a8();
    run.load(DATA);
    run.change(0);
    abort(&mut run);
    run.only(Class::StaleAllows);
    // A page that nobody used: nothing remembers it.
    let mut run = Run::a8();
    run.change(0);
    abort(&mut run);
    run.quiet();
    // A store to what may be read only, and an abort that has nothing to do with the tables.
    for (descriptor, right) in [(page(PAGE) | 1 << 9, false), (page(PAGE), true)] {
        let mut run = Run::a8();
        run.load(DATA);
        run.change(descriptor);
        abort(&mut run);
        assert_eq!(run.classes().is_empty(), right);
    }
    // Instructions.
    let mut run = Run::a8();
    run.load(DATA);
    run.change(page(PAGE) | 1);
    run.board.faults = Faults { ifar: DATA, ..Faults::default() };
    run.exception(0xc);
    run.only(Class::StaleAllows);
}

#[test]
fn walks_need_tables_that_are_cleaned_and_settled() {
    // The Cortex-A8's do not look into the data cache.
    let clean_and_settle: [(Core, bool, bool, bool); 6] = [
        (Core::CortexA8, true, true, true),
        (Core::CortexA8, true, false, false),
        (Core::CortexA8, false, true, false),
        (Core::CortexA9, false, true, true),
        (Core::CortexA9, true, false, false),
        (Core::CortexA9, false, false, false),
    ];
    for (core, clean, settle, right) in clean_and_settle {
        let mut run = Run::new(core);
        run.load(DATA);
        run.store(LEAVES[0] + 4, LEAVES[0] + 4, page(PAGE));
        if clean {
            run.with(DCCMVAU, LEAVES[0] + 4);
        }
        if settle {
            run.go(&[DSB]);
        }
        run.load(DATA + 0x1000);
        if right {
            run.quiet();
        } else {
            run.only(Class::TableNotSeenFault);
        }
    }
    // Where TTBR0 says that walks go past the inner cache, the A9's need cleaning as well.
    let mut run = Run::new(Core::CortexA9);
    run.board.context.registers.ttbr0 = ONE;
    run.set(TTBR0, |_| ());
    run.go(&[ISB]);
    run.store(LEAVES[0] + 4, LEAVES[0] + 4, page(PAGE));
    run.go(&[DSB]);
    run.load(DATA + 0x1000);
    run.only(Class::TableNotSeenFault);
    // What leads elsewhere is worse than what faults.
    let mut run = Run::a8();
    run.load(DATA);
    run.go(&[TLBIALL, DSB, ISB]);
    run.store(LEAVES[0], LEAVES[0], page(PAGE + 0x3000));
    run.go(&[DSB]);
    run.load(DATA);
    run.only(Class::TableNotSeen);
    // A translation that is known already needs no walk.
    let mut run = Run::a8();
    run.load(DATA);
    run.store(LEAVES[0], LEAVES[0], page(PAGE) | 1);
    run.load(DATA);
    run.quiet();
}

#[test]
fn registers_of_translation_take_effect_with_an_isb() {
    // All that is used is mapped alike: no barrier is needed.
    let mut run = Run::a8();
    run.set(TTBR0, |c| c.registers.ttbr0 = TWO | 0x4a);
    run.go(&[NOP, NOP]);
    run.load(CODE);
    run.quiet();
    run.load(DATA);
    assert_eq!(run.classes(), [Class::MixedSpaces, Class::ContextAddress], "under the same ASID, too");

    // An exception's return will do.
    let mut run = Run::a8();
    run.set(CONTEXTIDR, |c| c.registers.contextidr = 2);
    run.back(0x1d3);
    run.load(DATA);
    run.quiet();

    // DACR.
    for barrier in [true, false] {
        let mut run = Run::a8();
        run.board.context.dacr = 0x5555_5551;
        run.board.memory.insert(ONE + (DATA >> 20 << 2), LEAVES[0] | 1 | 1 << 5);
        run.set(DACR, |_| ());
        run.go(&[ISB]);
        run.set(DACR, |c| c.dacr = 0x5555_5555);
        if barrier {
            run.go(&[ISB]);
        }
        run.load(DATA);
        if barrier {
            run.quiet();
        } else {
            run.only(Class::ContextRights);
        }
    }

    // The MMU itself.
    let mut run = Run::a8();
    run.set(TTBR0, |c| c.registers.sctlr &= !1);
    run.load(CODE);
    run.quiet();
    run.set(TTBR0, |c| c.registers.sctlr |= 1);
    run.go(&[NOP]);
    run.quiet();
    run.set(TTBR0, |c| c.registers.sctlr &= !1);
    run.go(&[ISB]);
    run.set(TTBR0, |c| c.registers.sctlr |= 1);
    run.load(DATA);
    run.only(Class::ContextAddress);
    assert_eq!(run.checker.report.complaints[0].other, run.pc - 8, "names the write");
}

#[test]
fn vectors_and_vfp_as_well() {
    let mut run = Run::a8();
    run.set(VBAR, |c| c.vbar = CODE + 0xc00);
    run.exception(8);
    run.only(Class::ContextVectors);
    let mut run = Run::a8();
    run.set(VBAR, |c| c.vbar = CODE + 0xc00);
    run.go(&[ISB]);
    run.exception(8);
    run.quiet();
    // A return is enough, also to where nothing can be fetched; not if it has not returned.
    for (vector, quiet) in [(0xc, true), (0x18, true), (0x10, false)] {
        let mut run = Run::a8();
        run.set(VBAR, |c| c.vbar = CODE + 0xc00);
        run.go(&[RFE]);
        run.exception(vector);
        assert_eq!(!run.classes().contains(&Class::ContextVectors), quiet, "{vector:#x}");
    }
    for (barrier, quiet) in [(ISB, true), (DSB, false)] {
        let mut run = Run::a8();
        run.set(CPACR, |c| c.cpacr = 0xf << 20);
        run.go(&[barrier, 0xee30_0a00]);
        assert_eq!(run.classes().is_empty(), quiet);
    }
}

#[test]
fn spaces_change_in_one_of_the_safe_orders() {
    let one: fn(&mut Context) = |c| c.registers.ttbr0 = ONE | 0x4a;
    let two: fn(&mut Context) = |c| c.registers.ttbr0 = TWO | 0x4a;
    // With the new ASID under the old table.
    let mut run = Run::a8();
    run.load(DATA);
    run.set(CONTEXTIDR, |c| c.registers.contextidr = 2);
    run.go(&[ISB]);
    run.set(TTBR0, two);
    run.go(&[ISB]);
    run.load(DATA);
    run.only(Class::MixedSpaces);
    // By way of a table that has nothing but what is global, as Linux does.
    let mut run = Run::a8();
    let global = RAM + 0xe_0000;
    run.board.memory.insert(global + (RAM >> 20 << 2), RAM | 0xc0e);
    run.load(DATA);
    run.set(TTBR0, |c| c.registers.ttbr0 = global | 0x4a);
    run.go(&[ISB]);
    run.set(CONTEXTIDR, |c| c.registers.contextidr = 2);
    run.go(&[ISB]);
    run.set(TTBR0, two);
    run.go(&[ISB]);
    run.load(DATA);
    run.quiet();
    // The old one under its own ASID is as it was; with the maintenance, an ASID may have another table.
    run.set(CONTEXTIDR, |c| c.registers.contextidr = 0);
    run.go(&[ISB]);
    run.set(TTBR0, one);
    run.go(&[ISB]);
    run.set(CONTEXTIDR, |c| c.registers.contextidr = 2);
    run.with(TLBIASID, 2);
    run.go(&[DSB, ISB]);
    run.load(DATA);
    run.quiet();
}

#[test]
fn code_is_in_step_by_each_step() {
    let target = CODE + 0xc00;
    let all = [(DCCMVAU, target), (DSB, 0), (ICIMVAU, target), (BPIALL, 0), (DSB, 0), (ISB, 0)];
    for left_out in 0..=all.len() {
        let mut run = Run::a8();
        run.store(target, target, NOP);
        for (n, (word, operand)) in all.into_iter().enumerate() {
            if n != left_out {
                run.with(word, operand);
            }
        }
        run.pc = target;
        run.go(&[NOP]);
        assert_eq!(run.classes().is_empty(), left_out == all.len(), "without {left_out}: {:?}", run.classes());
    }
    // The Cortex-A9 needs nothing for its predictor; an exception's return will do for the ISB.
    let mut run = Run::new(Core::CortexA9);
    run.store(CODE + 0x404, CODE + 0x404, NOP);
    run.with(DCCMVAU, CODE + 0x404);
    run.go(&[DSB]);
    run.with(ICIMVAU, CODE + 0x404);
    run.go(&[DSB]);
    run.back(0x1d3);
    run.go(&[NOP]);
    run.quiet();
    // T32, whose second half is in a word that was written.
    let mut run = Run::a8();
    run.store(CODE + 0x404, CODE + 0x404, 0);
    run.checker.execute(&Step::thumb(CODE + 0x402, 0xf8d3, Some(0)), &run.board);
    run.only(Class::CodeNotCleaned);
}

#[test]
fn operations_that_do_not_happen_do_nothing() {
    // In User mode, or if the condition does not hold.
    let mut run = Run::a8();
    run.load(DATA);
    run.change(page(PAGE + 0x2000));
    run.back(0x10);
    run.go(&[TLBIALL, DSB, ISB]);
    run.load(DATA);
    run.only(Class::StaleAddress);
    for (cpsr, quiet) in [(0x4000_01d3, true), (0x1d3, false)] {
        let mut run = Run::a8();
        run.load(DATA);
        run.change(page(PAGE + 0x2000));
        run.board.cpsr = cpsr;
        run.go(&[TLBIALL & 0x0fff_ffff, DSB, ISB]);
        run.load(DATA);
        assert_eq!(run.classes().is_empty(), quiet, "TLBIALLEQ");
    }
}

#[test]
fn exclusives_of_two_threads() {
    const LDREX: u32 = 0xe190_3f9f;
    const STREX: u32 = 0xe180_1f93;
    const CMP: u32 = 0xe351_0000;
    let exclusive = |run: &mut Run, address: u32| {
        run.go(&[LDREX]);
        run.checker.access(&Step::arm(0, LDREX), address, 4, false, &run.board);
    };
    let mut run = Run::a8();
    exclusive(&mut run, CODE);
    run.with(STREX, CODE);
    run.go(&[CMP]);
    run.quiet();
    for (clear, quiet) in [(CLREX, true), (NOP, false)] {
        let mut run = Run::a8();
        exclusive(&mut run, CODE);
        run.exception(8);
        run.go(&[clear]);
        run.back(0x10);
        run.with(STREX, CODE + 0x800);
        run.go(&[CMP]);
        assert_eq!(run.classes().is_empty(), quiet);
    }
}
