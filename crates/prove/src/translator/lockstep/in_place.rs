//! Code in place: executed at the guest's own addresses, from twins of its pages, with blocks beside it. What
//! `vm/in_place.rs` and `engine/in_place.rs` of the hypervisor do, and the core.
//!
//! A page of the guest's code is mapped for its kernel as it is, as its twin, or not at all. Between any two words in
//! place, what the guest can see is compared, as it is between the instructions of a block: the PC of the core is the
//! guest's there, and no register is spilled.

use crate::translator::code::Code;
use crate::translator::coverage::Form;
use crate::translator::generate::{self, text_at};
use crate::translator::instruction::Instruction;
use crate::translator::lockstep::blocks::Place;
use crate::translator::lockstep::{Disturb, End, Lockstep, Next};
use crate::translator::memory::Memory;
use crate::translator::model::{self, Event};
use crate::translator::{CODE, CODE_PAGES, PAGES, VA_TO_PA};
use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_dbt::in_place::{Text, WordSet, Words, is_sensitive};
use spica_dbt::layout::{Layout, PAGE, PAGE_WORDS, Window};
use spica_dbt::twins::{GROUP, Made, StubMemory, TwinMemory, Twins};
use spica_dbt::{ExitId, Location, Translator, Undo, shadow_stack, trap};
use spica_isa::t32::ItState;
use spica_isa::{Cond, Op, asm};
use spica_vcpu::interp::Env;
use std::collections::HashMap;
use std::ops::RangeInclusive;

/// Where the code cache lies then: near the code.
pub(in crate::translator) const NEAR_LAYOUT: Layout = Layout { base: CODE - 0x60_0000, pages: 16, mirror: None };
const WINDOW: Window = Window { start: CODE - 0x100_0000, size: 0x280_0000, distance: 0, t32: false, guarded: false };
const TWINS: usize = 2 * GROUP;
/// Code elsewhere that the guest has executed once. Until it is seen that it does no more, its 64 KiB have the room
/// that those of [`CODE`] want.
const ELSEWHERE: GuestVa = GuestVa(CODE + 0x10_0000);

/// The twins, and what of them is mapped.
pub(in crate::translator) struct InPlace {
    pub twins: Twins,
    pub pages: Pages,
    /// By code page: the twin that is mapped there.
    mapped: [Option<u16>; CODE_PAGES as usize],
    /// By code page: words that were taken for data, so that they are not replaced, whatever they are.
    data: [WordSet; CODE_PAGES as usize],
    /// Pages that run by blocks for now, as one with a breakpoint does.
    by_blocks: [bool; CODE_PAGES as usize],
    /// The first code page is mapped in all address spaces, as all others are.
    pub first_is_global: bool,
    /// The names of what was executed, by the guest's word and whether something stands in for it.
    forms: HashMap<(u32, Option<u32>), Form>,
}

/// The memory of the twins: what is written, and what of it can be fetched.
pub(in crate::translator) struct Pages {
    written: Vec<Words>,
    fetched: Vec<Words>,
    /// The number of a twin, the first word and how many: what will be fetched once it is published.
    cleaned: Vec<(u16, usize, usize)>,
}

impl TwinMemory for Pages {
    fn twin(&mut self, number: u16) -> &mut Words {
        &mut self.written[usize::from(number)]
    }

    fn publish_twin(&mut self, number: u16, _: GuestVa, first: usize, words: usize) {
        let number = usize::from(number);
        self.fetched[number][first..first + words].copy_from_slice(&self.written[number][first..first + words]);
    }

    fn clean_twin(&mut self, number: u16, first: usize, words: usize) {
        self.cleaned.push((number, first, words));
    }

    fn publish_cleaned(&mut self) {
        for (number, first, words) in std::mem::take(&mut self.cleaned) {
            self.publish_twin(number, GuestVa(0), first, words);
        }
    }
}

/// That, and the code cache.
struct Both<'a>(&'a mut Pages, &'a mut Code);

impl TwinMemory for Both<'_> {
    fn twin(&mut self, number: u16) -> &mut Words {
        self.0.twin(number)
    }

    fn publish_twin(&mut self, number: u16, va: GuestVa, first: usize, words: usize) {
        self.0.publish_twin(number, va, first, words);
    }

    fn clean_twin(&mut self, number: u16, first: usize, words: usize) {
        self.0.clean_twin(number, first, words);
    }

    fn publish_cleaned(&mut self) {
        self.0.publish_cleaned();
    }
}

impl StubMemory for Both<'_> {
    type Code = Code;

    fn code(&mut self) -> &mut Code {
        self.1
    }
}

fn pa(va: u32) -> GuestPa {
    GuestPa(va.wrapping_sub(VA_TO_PA))
}

fn code_page(va: u32) -> Option<usize> {
    Memory::page(va).filter(|_| Memory::is_code(va))
}

impl InPlace {
    pub fn new() -> InPlace {
        let blank = vec![[0xe7f0_00f0; PAGE_WORDS]; TWINS];
        let mut twins = Twins::new(WINDOW, (NEAR_LAYOUT.base, 0x40_0000), TWINS as u16);
        twins.begin_region(ELSEWHERE);
        InPlace {
            twins,
            pages: Pages { written: blank.clone(), fetched: blank, cleaned: Vec::new() },
            mapped: [None; CODE_PAGES as usize],
            data: [WordSet::EMPTY; CODE_PAGES as usize],
            by_blocks: [false; CODE_PAGES as usize],
            first_is_global: true,
            forms: HashMap::new(),
        }
    }

    /// Nothing runs in place any more.
    pub fn clear(&mut self) {
        self.twins.clear();
        self.twins.begin_region(ELSEWHERE);
        self.by_blocks = [false; CODE_PAGES as usize];
        self.unmap_gone();
    }

    /// As `settle` of the hypervisor, before the guest goes on.
    pub fn unmap_gone(&mut self) {
        while !self.twins.settle(&mut self.pages) {}
        while self.twins.is_anything_gone() {
            match self.twins.take_gone().map(|va| code_page(va.0)) {
                Some(page) => self.mapped[page.expect("a page of code")] = None,
                None => self.mapped = [None; CODE_PAGES as usize],
            }
        }
    }

    /// Spica does not map these pages any more.
    pub fn hide(&mut self, page: usize) {
        if let Some(mapped) = self.mapped.get_mut(page) {
            *mapped = None;
        }
    }

    /// The twin that is mapped at `va`.
    fn mapped(&self, va: u32) -> Option<u16> {
        self.mapped[code_page(va)?]
    }

    /// The word that is fetched at `pc`.
    pub fn fetch(&self, pc: u32) -> Option<u32> {
        Some(self.pages.fetched[usize::from(self.mapped(pc)?)][(pc & 0xfff) as usize / 4])
    }

    /// The word that is read at `pc`, as data.
    pub fn word(&self, pc: u32) -> Option<u32> {
        Some(self.pages.written[usize::from(self.mapped(pc)?)][(pc & 0xfff) as usize / 4])
    }

    /// Whether something stands in for the instruction at `pc`.
    fn is_replaced(&self, pc: u32) -> bool {
        self.mapped(pc).is_some_and(|number| self.twins.replaced(number).contains((pc & 0xfff) as usize / 4))
    }

    /// The guest loads `bytes` from `va`. It must find there what it has there, but where something stands in for an
    /// instruction: a guest can notice that, and here it does not.
    pub fn check_read(&self, memory: &Memory, va: u32, bytes: u32) {
        for at in (va & !3..va.wrapping_add(bytes)).step_by(4) {
            let Some(have) = self.word(at) else { continue };
            let want = memory.word(at);
            assert!(have == want || is_sensitive(want), "the twin has {have:08x} at {at:#x}, and the guest {want:08x}");
        }
    }

    /// Before that: words become others.
    pub fn words_change(
        &mut self,
        translator: &mut Translator,
        code: &mut Code,
        pa: GuestPa,
        words: Option<RangeInclusive<u16>>,
    ) -> bool {
        self.twins.change_stubs(translator, pa, words, &mut Both(&mut self.pages, code))
    }

    /// As `Common::code_was_stored_to`, within a page. False if the page changes as a whole.
    pub fn was_stored_to(&mut self, memory: &Memory, va: u32, bytes: u32) -> bool {
        let words = memory.page_words(va);
        let mut at = (va & 0xfff) as usize / 4..=((va + bytes - 1) & 0xfff) as usize / 4;
        let text = Text { va: GuestVa(va), page: &words, before: None, behind: None };
        if let Some(page) = code_page(va) {
            at.clone().for_each(|at| match text.is_replaced(at) {
                Some(true) => self.data[page].remove(at),
                _ => self.data[page].insert(at),
            });
        }
        at.all(|at| self.twins.change_word(pa(va), at, &words, &mut self.pages))
    }

    /// Blocks may have been flushed, to which twins lead.
    pub fn follow(&mut self, translator: &Translator) {
        self.twins.follow(translator);
    }
}

impl Lockstep {
    /// Whether code at `pc` is the guest's own, at its own address.
    pub(super) fn is_guest_address(&self, pc: u32) -> bool {
        self.in_place.is_some() && self.layout.find(CachePc(pc & !3)).is_none()
    }

    /// Where the code that the core is in comes from: the guest's page.
    pub(super) fn source_page(&self, pc: CachePc) -> GuestPa {
        if self.is_guest_address(pc.0) {
            return pa(pc.0).page();
        }
        let block = self.translator.block_at(pc).expect("it has a place");
        self.translator.source(block).1.page()
    }

    /// Whether the page that this code came from is as it was.
    pub(super) fn is_live(&self, pc: CachePc) -> bool {
        match &self.in_place {
            Some(in_place) if self.is_guest_address(pc.0) => in_place.twins.of(GuestVa(pc.0), pa(pc.0)).is_some(),
            _ => self.translator.is_live(self.translator.block_at(pc).expect("it has a place")),
        }
    }

    pub(super) fn follow(&mut self) {
        if let Some(in_place) = &mut self.in_place {
            in_place.follow(&self.translator);
        }
    }

    /// Everything was flushed.
    fn all_blocks_are_gone(&mut self) {
        self.forget_places();
        shadow_stack::clear(self.cpu.page, &self.layout);
        self.follow();
    }

    /// Things that happen between pieces of code. Whether all blocks are gone.
    pub(super) fn disturb_engine(&mut self) -> bool {
        if self.in_place.is_none() || self.disturb != Disturb::Random {
            return false;
        }
        let Some(in_place) = &mut self.in_place else { return false };
        let page = self.random.below(CODE_PAGES) as usize;
        let va = CODE + page as u32 * PAGE;
        match self.random.below(160) {
            // As `flush_preemptively`.
            0 => {
                self.translator.flush(&mut self.code);
                self.all_blocks_are_gone();
                self.note("all stubs are made anew");
                return true;
            }
            // No twin was left for another page.
            1 => {
                in_place.twins.clear();
                in_place.twins.begin_region(ELSEWHERE);
                self.translator.flush(&mut self.code);
                self.all_blocks_are_gone();
                self.note("all twins are made anew");
                return true;
            }
            // The page is written by something that is not interpreted.
            2 => {
                in_place.twins.remove(pa(va));
                self.translator.drop_page(pa(va), &mut self.code);
                self.memory.protected[page] = false;
            }
            // As for a breakpoint, and without it again.
            3..=5 => {
                if !std::mem::replace(&mut in_place.by_blocks[page], true) {
                    in_place.twins.leave(GuestVa(va));
                    self.note("a page leaves its place");
                }
            }
            // As `Common::go_on_in_place`.
            13..=16 => {
                in_place.twins.look_anew();
                in_place.unmap_gone();
                (0..CODE_PAGES).for_each(|page| in_place.twins.executes(GuestVa(CODE + page * PAGE)));
                if in_place.twins.gather(&mut in_place.pages) {
                    in_place.unmap_gone();
                    self.note("twins move, to lie together");
                }
            }
            6..=12 if std::mem::take(&mut in_place.by_blocks[page]) => self.note("a page is back in its place"),
            _ => {}
        }
        false
    }

    /// The guest, which is about to go on at `pc`, rewrites a word of its code, as a kernel does that patches itself.
    pub(super) fn rewrite(&mut self, pc: u32) -> Option<End> {
        let is_time = self.in_place.is_some() && self.disturb == Disturb::Random && self.random.one_in(12);
        if !is_time || self.is_volatile(pc) {
            return None;
        }
        // The instruction in front of it is as it was.
        if let Some(end) = self.boundary(pc, None) {
            return Some(end);
        }
        let mut at = self.window.address(&mut self.random) & !3;
        let load = self.memory.word(at);
        if load & 0x0f7f_0000 == 0x051f_0000 {
            // LDR of a literal, which may be a constant in a stub.
            let offset = if load >> 23 & 1 != 0 { load & 0xfff } else { (load & 0xfff).wrapping_neg() };
            let literal = at.wrapping_add(8).wrapping_add(offset) & !3;
            at = if Memory::is_code(literal) { literal } else { at };
        }
        let word = match generate::instruction(&mut self.random, at, &self.window) {
            word if word >> 28 < 14 && !self.random.one_in(4) => word & 0x0fff_ffff | 14 << 28,
            word => word,
        };
        let (mut env, cpu) = self.env();
        let done = env.store(cpu, at, 4, word, true);
        assert!(done.is_ok(), "the pages of code are there");
        self.reference_memory.set_word(at, word);
        self.note("a word is rewritten");
        None
    }

    /// As `Common::run_in_place`: whether the guest goes on at `pc` in place; `exit` leads there.
    pub(super) fn runs_in_place(&mut self, pc: u32, exit: Option<ExitId>) -> bool {
        let Some(page) = code_page(pc) else { return false };
        let Some(in_place) = &mut self.in_place else { return false };
        let global = page != 0 || in_place.first_is_global;
        let va = GuestVa(pc);
        if pc & 1 != 0 || !global || in_place.by_blocks[page] || !in_place.twins.is_fit(va) {
            return false;
        }
        if in_place.twins.of(va, pa(pc)).is_none() {
            self.memory.protected[page] = true;
            if self.random.one_in(2) {
                in_place.twins.begin_region(va);
            }
            let [before, this, behind] = text_at(&self.memory, pc);
            let this = this.expect("a page of code");
            let text = Text { va, page: &this, before: before.as_ref(), behind: behind.as_ref() };
            let made = in_place.twins.make(va, pa(pc), text, &mut in_place.pages);
            in_place.unmap_gone();
            if let Made::Unfit = made {
                self.note("a page that cannot run in place");
                return false;
            }
            assert!(matches!(made, Made::Twin(_)), "there are enough twins for all pages");
            let replaced = text.replaced().expect("it has a twin");
            in_place.data[page] = WordSet::EMPTY;
            (0..PAGE_WORDS).filter(|&at| !replaced.contains(at)).for_each(|at| in_place.data[page].insert(at));
        }
        let Some(in_place) = &mut self.in_place else { return false };
        in_place.unmap_gone();
        in_place.twins.executes(va);
        in_place.twins.maps(va, &mut in_place.pages);
        in_place.mapped[page] = in_place.twins.of(va, pa(pc));
        self.memory.hidden[page] = false;
        self.translator.enter_in_place(va, exit, &mut self.code);
        self.note(if exit.is_some() { "an exit that leads to code in place" } else { "code in place is entered" });
        true
    }

    /// Executes the word at the core's PC, which is a guest address.
    pub(super) fn execute_in_place(&mut self) -> Next {
        let pc = self.machine.pc;
        if self.leave.is_some() {
            self.fail("an interrupt waits, and its block was left for code in place without a trap");
        }
        if std::mem::take(&mut self.popped) {
            self.note("a return that was expected");
        }
        if self.machine.psr & model::T != 0 {
            // It would be executed where it is; both go elsewhere.
            self.note("a branch to Thumb state in place");
            self.machine.psr &= !model::T;
            return Next::Guest(pc | 1);
        }
        let location = Location { guest: GuestVa(pc), it: ItState::OUTSIDE, undo: Undo::NONE };
        let mut place = Place { location, first: true, behind: false, form: Form::NONE };
        if self.fetched(pc).is_none() {
            return self.not_fetched(pc);
        }
        // What is executed again may have stored something already: no interrupt is to show that.
        let again = std::mem::take(&mut self.retry);
        if !again && let Some(end) = self.boundary(pc, None) {
            return Next::End(end);
        }
        let stands_in = self.in_place.as_ref().is_some_and(|in_place| in_place.is_replaced(pc));
        let guest = self.memory.word(pc);
        self.under_way = !stands_in;
        if !again && let Some(next) = self.disturb_in_place(pc) {
            self.under_way = false;
            return next;
        }
        let Some(word) = self.fetched(pc) else {
            self.under_way = false;
            return self.not_fetched(pc);
        };
        if !stands_in && word == guest {
            if spica_isa::decode(guest).op == Op::Unpredictable {
                self.under_way = false;
                return self.skip(pc);
            }
            // See `docs/in-place.md`: nobody can tell whether a word is an instruction.
            if is_sensitive(guest) && self.is_taken_for_data(pc) {
                self.note("a sensitive word that was taken for data");
                return Next::End(End::Unpredictable);
            }
        }
        place.form = self.form_in_place(guest, (!stands_in).then_some(word));
        self.coverage.executed(place.form);
        match self.step(CachePc(pc)) {
            Event::Done if !stands_in && self.layout.find(CachePc(self.machine.pc)).is_some() => {
                // Where stubs are, a guest has no code.
                Next::End(End::Unpredictable)
            }
            Event::Done => {
                if stands_in {
                    self.note("a branch to a stub");
                }
                Next::Cache(self.machine.pc)
            }
            // Those that assembly takes for traps of translated code.
            Event::Supervisor(number) if !stands_in && trap::is_taken_for_ours(asm::svc(Cond::Al, number)) => {
                self.note("an SVC with a number of Spica's");
                Next::End(End::Unpredictable)
            }
            // As assembly does; or it takes the slow path.
            Event::Supervisor(number)
                if stands_in && trap::is_dacr_in_place(asm::svc(Cond::Al, number)) && self.random.one_in(2) =>
            {
                self.note("a write of DACR in place");
                self.under_way = true;
                self.cpu.page.dacr = self.machine.r[(number & 7) as usize];
                self.dacr_in_place = true;
                self.close_domains(pc.wrapping_add(4), true)
            }
            Event::Supervisor(_) => self.replaced(pc),
            Event::Fault(fault) => self.faulted(fault, CachePc(pc), place),
            Event::Undefined => {
                self.take_over();
                if self.vfp_enabled() && !std::mem::replace(&mut self.machine.vfp_on, true) {
                    self.retry = true;
                    self.prepare();
                    return Next::Cache(pc);
                }
                self.trapped_in_place(pc)
            }
            Event::Privileged if is_undefined_in_user_mode(word) => {
                self.take_over();
                self.trapped_in_place(pc)
            }
            Event::Unpredictable => {
                self.under_way = false;
                match self.advance() {
                    Event::Unpredictable => Next::End(End::Unpredictable),
                    other => self.fail(&format!("{word:08x} at {pc:#x} is UNPREDICTABLE in User mode, and {other:?}")),
                }
            }
            other => self.fail(&format!("{word:08x} at {pc:#x}, in place, is {other:?}")),
        }
    }

    fn fetched(&self, pc: u32) -> Option<u32> {
        self.in_place.as_ref()?.fetch(pc)
    }

    fn is_taken_for_data(&self, pc: u32) -> bool {
        let in_place = self.in_place.as_ref().zip(code_page(pc));
        in_place.is_some_and(|(in_place, page)| in_place.data[page].contains((pc & 0xfff) as usize / 4))
    }

    /// As `in_place::fetch`: nothing can be executed at `pc`.
    fn not_fetched(&mut self, pc: u32) -> Next {
        self.note("a prefetch abort of code in place");
        self.translator.jump_cache.remove(pc);
        Next::Guest(pc)
    }

    /// What happens before a word in place is executed: the guest is left there, if need be.
    fn disturb_in_place(&mut self, pc: u32) -> Option<Next> {
        let number = self.words;
        self.words += 1;
        let interrupted = match self.disturb {
            Disturb::Random => {
                if self.random.one_in(16) {
                    self.cpu.page.pending = self.random.pick(&[0, u32::MAX]);
                }
                if self.random.one_in(32) {
                    // Another guest had VFP.
                    self.take_over();
                    self.machine.vfp_on = false;
                    self.prepare();
                }
                if self.random.one_in(64) {
                    let page = self.random.below(PAGES as u32) as usize;
                    self.hide(page);
                }
                self.random.one_in(24)
            }
            Disturb::Interrupt(at) => at == number,
            Disturb::Hide(at) => {
                if at == number {
                    (0..PAGES).for_each(|page| self.hide(page));
                }
                false
            }
            Disturb::Unmap(at) => {
                if number >= at && self.under_way {
                    self.unmap_data();
                }
                false
            }
            Disturb::Nothing => false,
        };
        interrupted.then(|| {
            self.interrupts += 1;
            self.note("an interrupt of code in place");
            Next::Guest(pc)
        })
    }

    /// Spica does not map a page any more.
    pub(super) fn hide(&mut self, page: usize) {
        self.memory.hidden[page] = true;
        if let Some(in_place) = &mut self.in_place {
            in_place.hide(page);
        }
    }

    /// As `in_place::replaced`: the SVC at `pc` was executed.
    fn replaced(&mut self, pc: u32) -> Next {
        self.take_over();
        if self.disturb == Disturb::Random && self.random.one_in(24) {
            self.under_way = false;
            return Next::Guest(pc);
        }
        let words = self.memory.page_words(pc);
        let Some(in_place) = &mut self.in_place else { unreachable!("it runs in place") };
        let (made, flushes) = (self.translator.stats().translated, self.translator.stats().flushes);
        let mut memory = Both(&mut in_place.pages, &mut self.code);
        let stub = in_place.twins.stub(&mut self.translator, (GuestVa(pc), pa(pc)), true, &words, &mut memory);
        let Some(stub) = stub else { return self.trapped_in_place(pc) };
        if self.translator.stats().flushes != flushes {
            self.all_blocks_are_gone();
        }
        if self.translator.stats().translated != made {
            let block = self.translator.block_at(stub).expect("it was just made");
            self.record_places(block, pc, &words);
            self.note("a stub is made");
        } else {
            self.note("a stub is found");
        }
        self.under_way = false;
        self.prepare();
        Next::Cache(stub.0)
    }

    /// As `in_place::trapped`: the guest's instruction at `pc` traps by itself, and is interpreted.
    fn trapped_in_place(&mut self, pc: u32) -> Next {
        let decoded = spica_isa::decode(self.memory.word(pc));
        if !decoded.cond.holds(self.machine.psr) {
            self.fail(&format!("{decoded} at {pc:#x} has trapped"));
        }
        self.note("an instruction in place that traps");
        self.emulate_instruction(Instruction::A32(decoded), pc, None)
    }

    /// The name of what is executed where the guest has `guest`: `word`, or its stub.
    fn form_in_place(&mut self, guest: u32, word: Option<u32>) -> Form {
        let Some(in_place) = &mut self.in_place else { return Form::NONE };
        let coverage = &mut self.coverage;
        *in_place.forms.entry((guest, word)).or_insert_with(|| coverage.form_in_place(guest, word))
    }
}

/// Whether an instruction that is for privileged modes is UNDEFINED in User mode, and so traps: accesses to CP14 and
/// CP15, to what VFP is and whether it is on, and SMC (B1.9.3, B3.15, B4.1, B9.3.14). So is what is neither RFE nor SRS
/// where these are (A5.7).
fn is_undefined_in_user_mode(word: u32) -> bool {
    if word >> 28 == 0xf {
        return word & 0xfe00_0000 == 0xf800_0000 && !matches!(word >> 20 & 0b101, 0b001 | 0b100);
    }
    let coprocessor = word >> 8 & 0xf;
    match word >> 24 & 0xf {
        0xe => matches!(coprocessor, 10 | 14 | 15),
        0xc | 0xd => matches!(coprocessor, 14 | 15),
        1 => word & 0x0fff_fff0 == 0x0160_0070,
        _ => false,
    }
}
