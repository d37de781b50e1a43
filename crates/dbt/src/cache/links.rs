//! Links between blocks: which exit branches to which block, and what undoes that.
//!
//! A link is recorded in both directions: an exit has the block that it leads to, and a block the list of the exits
//! that lead to it. An exit that is *closed* traps, and stays in that list.

use core::ops::Range;

use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_isa::{Cond, asm};

use super::{BlockId, CHAIN, CodeMemory, ExitId, Translator, patch};
use crate::at::is_thumb;
use crate::in_place::LONGEST;
use crate::layout::PAGE_WORDS;
use crate::papers::shadow_stack;
use crate::records::{Exit, Flag, IN_PLACE, NO_BLOCK, NO_EXIT};
use crate::{return_mirror, rules};

/// The condition of the side exit at word `site`.
fn site_cond(page: u32, site: u16, memory: &mut impl CodeMemory) -> Cond {
    Cond::ALL[(memory.page(page)[usize::from(site)] >> 28) as usize % 15]
}

impl Translator {
    /// The exit whose `SVC` is at `svc`, if there is one: the guest can execute any word of a code page.
    #[must_use]
    pub fn exit(&self, svc: CachePc) -> Option<ExitId> {
        let (_, word) = self.layout.find(svc)?;
        let block = self.block_at(svc)?;
        self.exits_of(block).find(|&exit| usize::from(self.exits[exit as usize].stub) == word).map(ExitId)
    }

    /// The exits of a block.
    fn exits_of(&self, id: BlockId) -> Range<u32> {
        let next = self.blocks.get(usize::from(id.0) + 1);
        self.blocks[usize::from(id.0)].first_exit..next.map_or(self.exits.len() as u32, |next| next.first_exit)
    }

    /// Makes `exit` branch straight to block `to`, if that holds for as long as the block does: the target is in the
    /// same guest page, or its page is mapped in all address spaces.
    pub fn link(&mut self, exit: ExitId, to: BlockId, memory: &mut impl CodeMemory) -> bool {
        if !self.options.link {
            return false;
        }
        let from = self.exits[exit.0 as usize];
        let (source, target) = (&self.blocks[usize::from(from.source)], &self.blocks[usize::from(to.0)]);
        let same_page = source.va.page() == target.va.page() && source.pa().page() == target.pa().page();
        // The page behind may be mapped otherwise elsewhere, too.
        let holds = same_page && !from.is_way_back() && !target.is(Flag::Across) || target.is(Flag::Global);
        let dropped = source.is(Flag::Dropped) || target.is(Flag::Dropped);
        if dropped || !holds {
            return false;
        }
        let page = u32::from(source.code_page);
        let listed = from.linked == to.0;
        if from.linked != NO_BLOCK && (!from.is_closed() || !listed && !self.remove_incoming(exit.0, memory)) {
            return false;
        }
        let site = self.layout.code_page(page).wrapping_add(4 * u32::from(from.site));
        let offset = self.entry(to).0.wrapping_sub(site.0).wrapping_sub(8) as i32;
        let cond = if from.site == from.stub { Cond::Al } else { site_cond(page, from.site, memory) };
        let Some(word) = asm::b(cond, offset) else { return false };
        patch(page, from.site.into(), word, memory);
        let from = &mut self.exits[exit.0 as usize];
        from.set_closed(false);
        if !listed {
            from.linked = to.0;
            let target = &mut self.blocks[usize::from(to.0)];
            from.set_next_incoming(core::mem::replace(&mut target.incoming, exit.0));
        }
        self.stats.links += 1;
        true
    }

    /// Makes `exit` branch straight to the guest's own address `to`, where code runs in place. That holds for ever: if
    /// nothing is there to be executed, the branch aborts. False if it is out of reach, or linked otherwise.
    pub fn link_in_place(&mut self, exit: ExitId, to: GuestVa, memory: &mut impl CodeMemory) -> bool {
        let from = self.exits[exit.0 as usize];
        let source = &self.blocks[usize::from(from.source)];
        if !self.options.link || from.linked != NO_BLOCK && !(from.linked == IN_PLACE && from.is_closed()) {
            return false;
        }
        let page = u32::from(source.code_page);
        let site = self.layout.code_page(page).wrapping_add(4 * u32::from(from.site));
        let offset = to.0.wrapping_sub(site.0).wrapping_sub(8) as i32;
        let cond = if from.site == from.stub { Cond::Al } else { site_cond(page, from.site, memory) };
        let Some(word) = asm::b(cond, offset) else { return false };
        patch(page, from.site.into(), word, memory);
        let from = &mut self.exits[exit.0 as usize];
        from.set_closed(false);
        from.linked = IN_PLACE;
        self.stats.links += 1;
        true
    }

    /// [`Self::link_in_place`] for those exits of a block of which `is_in_place` says that their target is such a
    /// place.
    pub fn link_all_in_place(
        &mut self,
        id: BlockId,
        is_in_place: impl Fn(GuestVa) -> bool,
        memory: &mut impl CodeMemory,
    ) {
        let page = u32::from(self.blocks[usize::from(id.0)].code_page);
        for exit in self.exits_of(id) {
            let stub = usize::from(self.exits[exit as usize].stub);
            // The target is behind the SVC.
            if let Some(target) = memory.page(page).get(stub + 1).map(|&target| GuestVa(target))
                && is_in_place(target)
            {
                self.link_in_place(ExitId(exit), target, memory);
            }
        }
    }

    /// Makes a linked exit trap, which stays in its target's list.
    fn close_exit(&mut self, exit: u32, memory: &mut impl CodeMemory) {
        let from = self.exits[exit as usize];
        if from.linked == NO_BLOCK || from.is_closed() {
            return;
        }
        let page = u32::from(self.blocks[usize::from(from.source)].code_page);
        let word = if from.site == from.stub {
            asm::svc(Cond::Al, crate::trap::LINK)
        } else {
            let offset = 4 * (i32::from(from.stub) - i32::from(from.site)) - 8;
            asm::b(site_cond(page, from.site, memory), offset).unwrap_or(asm::NOP)
        };
        patch(page, from.site.into(), word, memory);
        self.exits[exit as usize].set_closed(true);
        self.stats.unlinks += 1;
    }

    /// Makes an exit trap that is in no list any more.
    fn unlink(&mut self, exit: u32, memory: &mut impl CodeMemory) {
        self.close_exit(exit, memory);
        let from = &mut self.exits[exit as usize];
        from.linked = NO_BLOCK;
        from.set_next_incoming(NO_EXIT);
        from.set_closed(false);
    }

    /// Makes the next way out of a block trap, whichever it is: an interrupt waits for the end of the block.
    pub fn close(&mut self, id: BlockId, memory: &mut impl CodeMemory) {
        for exit in self.exits_of(id) {
            self.close_exit(exit, memory);
        }
        let window = self.mirror.window();
        let pops = shadow_stack::is_used(&self.options);
        if window.is_none() && !pops {
            return;
        }
        let block = &self.blocks[usize::from(id.0)];
        let (page, first, end) = (u32::from(block.code_page), usize::from(block.hot.0), usize::from(block.hot.1));
        let mut at = first;
        while at < end {
            let word = memory.page(page)[at];
            let reflects = window.and_then(|window| return_mirror::closed(word, window));
            if let Some(closed) = reflects.or_else(|| shadow_stack::closed(word).filter(|_| pops)) {
                memory.page(page)[at] = closed;
                memory.publish(page, at, 1);
            }
            at += 1 + crate::trap::literals(word);
        }
    }

    /// Makes the write to DACR that the guest was 8 bytes behind trap from now on, because what it opened is used at
    /// once. `site` is hearsay: what is there is looked at.
    pub fn make_dacr_eager(&self, site: CachePc, memory: &mut impl CodeMemory) {
        let load = CachePc(site.0.wrapping_sub(4));
        if let Some((page, at)) = self.layout.find(load)
            && let Some(word) = rules::make_eager(at, memory.page(page))
        {
            patch(page, at, word, memory);
        }
    }

    /// Undoes [`Self::close`] for the branch through the mirror at `site`, of which
    /// [`return_mirror::ReturnMirror::target`] knows the target. False if there is none.
    pub fn reopen(&mut self, site: CachePc, memory: &mut impl CodeMemory) -> bool {
        let open =
            self.mirror.window().zip(self.layout.find(site)).and_then(|(window, (page, at))| {
                Some((page, at, return_mirror::reopened(memory.page(page)[at], window)?))
            });
        if let Some((page, at, word)) = open {
            patch(page, at, word, memory);
        }
        open.is_some()
    }

    /// Takes a linked exit out of its target's list, if it is found soon enough.
    fn remove_incoming(&mut self, exit: u32, memory: &mut impl CodeMemory) -> bool {
        let Exit { linked, .. } = self.exits[exit as usize];
        if linked == IN_PLACE {
            self.unlink(exit, memory);
            return true;
        }
        let next = self.exits[exit as usize].next_incoming();
        let target = &mut self.blocks[usize::from(linked)];
        let mut at = target.incoming;
        if at == exit {
            target.incoming = next;
            self.unlink(exit, memory);
            return true;
        }
        for _ in 0..CHAIN {
            let Some(before) = self.exits.get_mut(at as usize) else { break };
            let following = before.next_incoming();
            if following == exit {
                before.set_next_incoming(next);
                self.unlink(exit, memory);
                return true;
            }
            at = following;
        }
        false
    }

    /// Unlinks exits that lead to a block, `budget` at most, which is less by as many then. Whether none is left.
    pub(super) fn unlink_incoming(&mut self, id: u16, budget: &mut u32, memory: &mut impl CodeMemory) -> bool {
        loop {
            let exit = self.blocks[usize::from(id)].incoming;
            if exit == NO_EXIT {
                return true;
            }
            if *budget == 0 {
                return false;
            }
            *budget -= 1;
            self.blocks[usize::from(id)].incoming = self.exits[exit as usize].next_incoming();
            self.unlink(exit, memory);
        }
    }

    /// The block that record `id` is, or is for.
    pub(super) fn stands_for(&self, id: u16) -> u16 {
        if self.blocks[usize::from(id)].is(Flag::Second) { id - 1 } else { id }
    }

    /// Nothing leads to a block any more, but for exits that are [left](Self::settle).
    pub(super) fn isolate(&mut self, id: u16, budget: &mut u32, memory: &mut impl CodeMemory) {
        let id = self.stands_for(id);
        if !self.unlink_incoming(id, budget, memory) {
            self.left.add(id);
        }
        let va = self.blocks[usize::from(id)].va;
        self.jump_cache.remove(va.0);
        self.mirror.remove(va, memory);
    }
}

/// Code in place, which blocks stand beside.
impl Translator {
    /// The block for the instruction at `va`, mapped to `pa` in a page that reads `words`, which is replaced where it
    /// runs in place, and for those behind it, of `length` together: made if need be. What comes behind it is executed
    /// in place, if it is in the same page.
    pub fn stub(
        &mut self,
        length: usize,
        (va, pa): (GuestVa, GuestPa),
        global: bool,
        words: &[u32; PAGE_WORDS],
        memory: &mut impl CodeMemory,
    ) -> CachePc {
        // One that was made while the page ran by blocks may be longer: too long to be found by what is in it.
        let block = match self.lookup(va, pa).filter(|&block| self.length(block) <= LONGEST) {
            Some(block) => block,
            None => self.translate_some(length, va, pa, global, words, memory),
        };
        let page = va.page();
        // T32 does not run in place.
        self.link_all_in_place(block, |target| target.page() == page && !is_thumb(target), memory);
        self.entry(block)
    }

    /// The guest goes on at `va`, in place, from now on without a look; `exit`, if that led there, by itself.
    pub fn enter_in_place(&mut self, va: GuestVa, exit: Option<ExitId>, memory: &mut impl CodeMemory) {
        if let Some(exit) = exit {
            self.link_in_place(exit, va, memory);
        }
        self.jump_cache.insert(va.0, va.0);
    }
}
