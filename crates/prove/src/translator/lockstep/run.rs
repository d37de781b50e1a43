//! Running translated code, word by word, and entering it: what `Vm::run` of the hypervisor and the core do.

use crate::translator::coverage::is_through_mirror;
use crate::translator::instruction::length_at;
use crate::translator::lockstep::blocks::Place;
use crate::translator::lockstep::{Disturb, End, Lockstep, Next};
use crate::translator::memory::Memory;
use crate::translator::model::{self, Event};
use crate::translator::view::KernelView;
use crate::translator::{CODE_PAGES, PAGES};
use spica_addr::CachePc;
use spica_dbt::return_mirror::LINK_SLOT;
use spica_dbt::{BlockId, shadow_stack};
use spica_isa::Op;
use spica_isa::t32::ItState;

impl Lockstep {
    /// Runs at most `instructions`, or until something ends it.
    pub fn run(&mut self, instructions: u32, disturb: Disturb) -> End {
        self.left = instructions;
        self.disturb = disturb;
        self.words = 0;
        if disturb == Disturb::Random {
            // Where the block from a page that has changed is left, is worked out for A32 only.
            let thumb = self.window.thumb != 0;
            self.volatile = std::array::from_fn(|_| self.random.one_in(8) && !thumb);
        }
        let mut next = Next::Guest(self.reference_entry());
        // Words executed: an endless loop in the host would be a bug.
        for _ in 0..64 * instructions + 100 {
            next = match next {
                Next::End(end) => return end,
                Next::Cache(pc) => {
                    self.machine.pc = pc;
                    self.execute()
                }
                other => match self.enter(other) {
                    Ok(pc) => Next::Cache(pc),
                    Err(end) => return end,
                },
            };
        }
        self.fail("the host does not get on")
    }

    /// Finds the code-cache address for where the guest goes on.
    fn enter(&mut self, next: Next) -> Result<u32, End> {
        self.leave = None;
        self.take_over();
        self.prepare();
        let landing = matches!(next, Next::Land(_));
        let (pc, exit) = match next {
            Next::Link(pc, exit) => (pc, Some(exit)),
            Next::Guest(pc) | Next::Land(pc) => (pc, None),
            Next::Branch(target) => {
                self.it = ItState::OUTSIDE;
                (if target & 1 != 0 { target } else { target & !3 }, None)
            }
            Next::Cache(_) | Next::End(_) => unreachable!("not a guest address"),
        };
        let (mut pc, mut exit, mut landing) = (pc, exit, landing);
        if pc & 1 != 0 && self.window.thumb == 0 || !self.is_executable(pc) {
            if let Some(end) = self.boundary(pc, None) {
                return Err(end);
            }
            self.strayed += 1;
            (pc, exit, landing) = (self.window.address(&mut self.random), None, false);
            self.it = ItState::OUTSIDE;
            self.put_reference(pc, self.it);
        }
        if let Some(end) = self.rewrite(pc) {
            return Err(end);
        }
        if self.disturb_engine() {
            (exit, landing) = (None, false);
        }
        let pages = [pc, pc.wrapping_add(length_at(&self.memory, pc) - 1 - (pc & 1))];
        if pages.iter().any(|&at| self.volatile[Memory::page(at).expect("code")])
            || self.disturb == Disturb::Random && self.random.one_in(16)
        {
            let block = self.block_for_once(pc);
            return Ok(self.translator.entry(block).0);
        }
        if self.runs_in_place(pc, exit) {
            return Ok(pc);
        }
        if self.it.in_block() {
            self.note("a block from within an IT block");
        }
        let version = self.translator.version();
        let block = self.find_block(pc);
        if let (Some(exit), true) = (exit, version == self.translator.version()) {
            let linked = self.translator.link(exit, block, &mut self.code);
            if linked && self.translator.across(block).is_some() {
                self.note("a link to an instruction across the end of a page");
            }
        }
        if landing {
            self.translator.land(block, &mut self.code);
        }
        self.translator.remember(block);
        Ok(self.translator.entry(block).0)
    }

    /// Whether there is a whole instruction of code at `pc`.
    fn is_executable(&self, pc: u32) -> bool {
        Memory::is_code(pc) && Memory::is_code(pc.wrapping_add(length_at(&self.memory, pc) - 1 - (pc & 1)))
    }

    /// Words executed in the last run.
    #[must_use]
    pub fn words(&self) -> u32 {
        self.words
    }

    /// Executes one word of translated code.
    fn execute(&mut self) -> Next {
        let pc = CachePc(self.machine.pc);
        if let Some(in_place) = &mut self.in_place {
            in_place.unmap_gone();
            if self.is_guest_address(pc.0) {
                return self.execute_in_place();
            }
        }
        // The word, whatever the state.
        let thumb = self.machine.psr & model::T != 0;
        let word = if thumb { CachePc(pc.0 & !3) } else { pc };
        if self.layout.find(word).is_none() {
            return self.reflected();
        }
        if shadow_stack::is_miss(pc) {
            return self.missed(pc);
        }
        let Some(&place) = self.places.get(&word.0) else { self.fail("the host is not in a block") };
        let block = self.translator.block_at(word).expect("it has a place");
        if place.first && !std::mem::take(&mut self.retry) {
            if std::mem::take(&mut self.popped) {
                self.note("a return that was expected");
            }
            let outdated = self.is_outdated(block);
            let guest_pc = place.location.guest.0;
            let guest_pc = if outdated { self.behind_preloads(guest_pc) } else { guest_pc };
            if let Some(end) = self.boundary(guest_pc, place.location.undo.lost) {
                return Next::End(end);
            }
            if place.location.it.to_psr() != self.reference.psr & model::IT {
                self.fail(&format!("ITSTATE {:?} before {guest_pc:#x}", place.location.it));
            }
            if outdated {
                return Next::Guest(guest_pc);
            }
            self.under_way = !place.behind;
            self.looked = 0;
            self.begin_edge();
        }
        let entry = self.translator.entry(block);
        if self.leave.is_some_and(|waiting| waiting != entry) {
            self.fail("an interrupt waits, and the block was left without a trap");
        }
        if place.first {
            self.coverage.executed(place.form);
        }
        // No interrupt is taken in Undefined mode.
        if self.privileged.is_none() {
            let interrupts = self.interrupts;
            self.disturb(block, place);
            if thumb && self.interrupts != interrupts {
                self.note("an interrupt of a block in Thumb state");
                let Some(pc) = self.translator.in_a32(pc) else { self.fail("the block is not there") };
                self.machine.psr &= !model::T;
                // From the beginning of the instruction, or behind what is done of it.
                self.retry = pc.0 < word.0;
                return Next::Cache(pc.0);
            }
        }
        self.popped |= self.word(word.0) == shadow_stack::POP;
        let event = self.step(pc);
        self.check_edge(place.location.guest.0);
        match event {
            // A branch through the mirror to where the code cache is, less the distance: no place for a guest's code.
            Event::Done if self.mirrors_into_itself(word) => Next::End(End::Unpredictable),
            Event::Done => Next::Cache(self.machine.pc),
            Event::Supervisor(number) => self.trapped(number, pc, place),
            Event::Fault(fault) => self.faulted(fault, pc, place),
            Event::Undefined => {
                if let Some(next) = self.lightweight_trap(pc) {
                    return next;
                }
                self.take_over();
                if self.vfp_enabled() && !std::mem::replace(&mut self.machine.vfp_on, true) {
                    self.retry = place.first;
                    self.prepare();
                    return Next::Cache(pc.0);
                }
                // A copy of an instruction that is not modelled.
                let guest = self.undo(place);
                let instruction = self.instruction(guest, self.it);
                let known = !instruction.is_undefined() && !instruction.is_unpredictable();
                let event = self.advance();
                self.under_way = false;
                if !known || event != Event::Undefined {
                    self.fail(&format!("translated code at {pc} is undefined"));
                }
                self.compare(&self.machine.r.clone(), guest);
                self.skip(guest)
            }
            Event::Privileged if let Some(next) = self.return_from_trap(pc) => next,
            other => self.fail(&format!("translated code at {pc} is {other:?}")),
        }
    }

    /// Executes the word at `pc` as the core does.
    pub(super) fn step(&mut self, pc: CachePc) -> Event {
        if self.tracing {
            let at = pc.0 & !3;
            let word = self.word(at);
            let guest = self.places.get(&at).map(|place| place.location.guest);
            eprintln!("{guest:x?}: {pc} {word:08x} {}", spica_isa::decode(word));
        }
        let mut view = KernelView {
            code: &mut self.code,
            page: self.cpu.page,
            memory: &mut self.memory,
            pc: pc.0,
            closing: &mut self.closing,
            turning_off: &mut self.turning_off,
            privileged: self.privileged.is_some(),
            shared_slot: &mut self.shared_slot,
            layout: self.layout,
            in_place: self.in_place.as_ref(),
            edges: self.edges.as_mut(),
        };
        self.machine.step(&mut view)
    }

    /// What happens before the next word is executed.
    fn disturb(&mut self, block: BlockId, place: Place) {
        let number = self.words;
        self.words += 1;
        match self.disturb {
            Disturb::Random => self.disturb_at_random(block, place),
            Disturb::Interrupt(at) if at == number => self.interrupt(block, place),
            Disturb::Hide(at) if at == number => (0..PAGES).for_each(|page| self.hide(page)),
            Disturb::Unmap(at) if number >= at && place.first && self.under_way => {
                self.unmap_data();
            }
            _ => {}
        }
    }

    /// The guest maps no data page.
    pub(super) fn unmap_data(&mut self) {
        self.disturb = Disturb::Nothing;
        for page in CODE_PAGES as usize..PAGES {
            (self.memory.present[page], self.reference_memory.present[page]) = (false, false);
        }
    }

    /// A host interrupt brings one for the guest, at any word.
    fn interrupt(&mut self, block: BlockId, place: Place) {
        self.note_spilled(place, true);
        self.translator.close(block, &mut self.code);
        self.leave = Some(self.translator.entry(block));
        self.interrupts += 1;
        self.take_over();
        self.prepare();
    }

    fn disturb_at_random(&mut self, block: BlockId, place: Place) {
        if self.random.one_in(24) {
            self.interrupt(block, place);
        }
        if place.first && self.random.one_in(16) {
            self.cpu.page.pending = self.random.pick(&[0, u32::MAX]);
        }
        if place.first && self.random.one_in(16) {
            self.make_eager();
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
    }

    /// As `vm/trap/indirect.rs`: the host is where a branch through the return mirror led.
    fn reflected(&mut self) -> Next {
        let pc = self.machine.pc;
        if self.leave.is_some() {
            self.fail("an interrupt waits, and the block was left through the mirror");
        }
        let thumb = self.machine.psr & model::T != 0;
        let Some(target) = self.translator.mirror().target(self.machine.r[14]) else {
            self.fail("the host is not in a block")
        };
        let interrupted = self.disturb == Disturb::Random && self.random.one_in(24);
        if let Some(word) = self.code.mirror_word(pc)
            && !(interrupted || thumb)
        {
            let landing = match spica_isa::decode(word).op {
                Op::Branch { link: false, offset } => Some(pc.wrapping_add(8).wrapping_add(offset as u32)),
                Op::Mem(mem) if mem.load && mem.rt.is_pc() && mem.rn.is_pc() => {
                    let offset = word & 0xfff;
                    let at = pc.wrapping_add(8).wrapping_add(if mem.add { offset } else { offset.wrapping_neg() });
                    Some(self.code.mirror_word(at).expect("an address in the same page"))
                }
                Op::Undefined => None,
                op => self.fail(&format!("the mirror has {op:?} at {pc:#x}")),
            };
            if let Some(landing) = landing {
                self.landings += 1;
                if self.mirrors_t32() {
                    self.note("a branch of T32 code through the mirror");
                }
                if self.translator.mirror().window().is_some_and(|window| window.guarded) {
                    self.note("a branch to a guarded window");
                }
                return Next::Cache(landing);
            }
        }
        self.machine.r[14] = self.cpu.page.spill[LINK_SLOT as usize];
        self.machine.psr &= !model::T;
        self.it = ItState::OUTSIDE;
        if interrupted || thumb { Next::Guest(target.0) } else { Next::Land(target.0) }
    }

    /// Whether the return mirror is that of T32 code.
    pub(super) fn mirrors_t32(&self) -> bool {
        self.translator.mirror().window().is_some_and(|window| window.t32)
    }

    /// Whether a branch through the mirror at `pc` led into the code cache itself, where its distance leaves no place
    /// for code of the guest's.
    fn mirrors_into_itself(&self, pc: CachePc) -> bool {
        let branch = is_through_mirror(self.word(pc.0)) && self.machine.pc != pc.0.wrapping_add(4);
        branch && self.layout.find(CachePc(self.machine.pc)).is_some()
    }
}
