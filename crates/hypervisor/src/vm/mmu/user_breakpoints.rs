//! Breakpoints in the guest's user code, which runs natively.
//!
//! A page of the guest's with one is a *trapped* page of the user view ([`spica_mmu::MOST_TRAPPED`]): the first fetch
//! from it aborts, and what is then mapped there, read-only, is a copy of it that has BKPT at the breakpoint
//! ([`crate::vm::user_code::fetch`]). So the guest's memory is as it was, for its kernel, its devices and at all other
//! addresses. Only user code that reads, at its own address, the instruction where a breakpoint is reads BKPT: short
//! descriptors have nothing that can be executed but not read. The guest's page is write-protected, as one from which
//! blocks were made is; when it is written to, its copies go ([`Mmu::user_code_changes`]).
//!
//! BKPT must not be put into the middle of an instruction, nor into code of the other instruction set, and processes
//! have different programs at the same address. So a breakpoint belongs to the *code* that was there when it was set:
//! it is in any process that has the same bytes at this address. If the page was not mapped then, it belongs to the
//! address space until code is fetched from the page in that for the first time, and to that code from then on. GDB
//! takes its breakpoints away whenever the guest stands, and sets them again when it goes on, whatever process that is
//! in: what a breakpoint belongs to is forgotten only if the guest goes on without it.
//!
//! A single step ([`crate::vm::user_code`]) ends at a BKPT as well, and the breakpoint over which it leads is not there
//! meanwhile.

use alloc::vec::Vec;

use spica_addr::{GuestPa, GuestVa, HostPa};
use spica_dbt::at::{address, is_thumb};
use spica_mmu::{FIRST_LEVEL_BYTES, Fill, GuestMemory, MOST_TRAPPED, Regime, Table, TableMemory};

use super::Mmu;
use crate::vm::tables::RealTlb;

/// Breakpoints in user code at most, with those that were just taken away.
const MOST: usize = 64;
const _: () = assert!(MOST < MOST_TRAPPED, "there is a page for each, and one for the end of a step");

/// Copies of pages at a time: whoever needs another one takes that of the page that has had one for longest.
const COPIES: usize = TABLES * PAGES_OF_TABLE;
/// They lie in memory for first-level tables, so many of these.
const TABLES: usize = 2;
const PAGES_OF_TABLE: usize = FIRST_LEVEL_BYTES / 4096;

/// BKPT #0 in A32 (A8.8.24), and in T32.
const BKPT: u32 = 0xe120_0070;
const BKPT_T32: u32 = 0xbe00;

/// A breakpoint belongs to so many bytes, or as many as there are in its page.
const CODE_BYTES: usize = 8;

/// What a breakpoint belongs to.
enum Owner {
    /// The code of the address space with this TTBR0, which has not been there yet.
    Space(u32),
    /// This code.
    Code([u8; CODE_BYTES]),
}

struct Breakpoint {
    /// Its address, with the state in bit 0.
    at: GuestVa,
    owner: Owner,
    /// It has not been taken away.
    set: bool,
}

impl Breakpoint {
    /// The bytes from there on in a page.
    fn code(at: GuestVa, page: &[u32; 1024]) -> [u8; CODE_BYTES] {
        let offset = address(at).page_offset() as usize;
        let byte = |n: usize| page.get((offset + n) / 4).map_or(0, |word| word.to_le_bytes()[(offset + n) % 4]);
        core::array::from_fn(byte)
    }

    /// Whether it is in a page that reads so.
    fn belongs_to(&self, page: &[u32; 1024]) -> bool {
        matches!(&self.owner, Owner::Code(code) if *code == Self::code(self.at, page))
    }

    fn is_of_page(&self, va: GuestVa) -> bool {
        self.at.page() == va.page()
    }
}

/// A copy of a page: where the guest has it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Copied {
    va: GuestVa,
    pa: GuestPa,
}

/// See the module's text.
#[derive(Default)]
pub struct UserBreakpoints {
    all: Vec<Breakpoint>,
    /// A single step ends there: its address, with the state in bit 0.
    end: Option<GuestVa>,
    /// A breakpoint that is not there while it is stepped over.
    lifted: Option<GuestVa>,
    memory: Option<[Table; TABLES]>,
    copies: [Option<Copied>; COPIES],
    /// The copy that goes next.
    next: usize,
}

/// For whoever asks of breakpoints, by an address with the state in bit 0.
impl UserBreakpoints {
    /// Whether there is one.
    pub fn has(&self, at: GuestVa) -> bool {
        self.all.iter().any(|breakpoint| breakpoint.set && breakpoint.at == at)
    }

    /// Whether a single step ends there.
    pub fn ends_at(&self, at: GuestVa) -> bool {
        self.end == Some(at)
    }

    /// Whether there is one in a page that reads so.
    pub fn is_in(&self, at: GuestVa, page: &[u32; 1024]) -> bool {
        self.lifted != Some(at) && self.all.iter().any(|own| own.set && own.at == at && own.belongs_to(page))
    }

    /// The pages that are trapped.
    fn pages(&self) -> impl Iterator<Item = GuestVa> {
        let set = self.all.iter().filter(|breakpoint| breakpoint.set).map(|breakpoint| breakpoint.at);
        set.chain(self.end).map(GuestVa::page)
    }

    /// Has memory for copies.
    fn has_memory(&mut self, tables: &mut impl TableMemory) -> bool {
        if self.memory.is_some() {
            return true;
        }
        let Some(first) = tables.alloc(FIRST_LEVEL_BYTES) else { return false };
        let Some(second) = tables.alloc(FIRST_LEVEL_BYTES) else {
            tables.free(first);
            return false;
        };
        self.memory = Some([first, second]);
        true
    }
}

impl Mmu {
    /// Sets a breakpoint in user code, at an address with the state in bit 0. `page` is what is there now; if it is not
    /// mapped, TTBR0 says in whose.
    ///
    /// # Errors
    /// If there can be none.
    pub fn set_user_breakpoint(
        &mut self,
        at: GuestVa,
        ttbr0: u32,
        page: Option<&[u32; 1024]>,
    ) -> Result<(), &'static str> {
        if let Some(known) = self.user_code.all.iter_mut().find(|known| known.at == at) {
            known.set = true;
        } else {
            let all = &mut self.user_code.all;
            if all.len() == MOST {
                let cleared = all.iter().position(|breakpoint| !breakpoint.set);
                all.swap_remove(cleared.ok_or("there are too many breakpoints")?);
            }
            let owner = page.map_or(Owner::Space(ttbr0), |page| Owner::Code(Breakpoint::code(at, page)));
            all.try_reserve(1).map_err(|_| "there is no memory")?;
            if !self.user_code.has_memory(&mut self.tables) {
                return Err("there is no memory for copies of pages with breakpoints");
            }
            self.user_code.all.push(Breakpoint { at, owner, set: true });
        }
        self.user_breakpoints_change(at);
        Ok(())
    }

    /// Takes one away. False if there is none.
    pub fn clear_user_breakpoint(&mut self, at: GuestVa) -> bool {
        let Some(known) = self.user_code.all.iter_mut().find(|known| known.set && known.at == at) else { return false };
        known.set = false;
        self.user_breakpoints_change(at);
        true
    }

    /// The guest goes on without those that were taken away.
    pub fn forget_cleared_breakpoints(&mut self) {
        self.user_code.all.retain(|breakpoint| breakpoint.set);
    }

    /// There are none any more.
    pub fn forget_user_breakpoints(&mut self) {
        if self.user_code.memory.is_none() {
            return;
        }
        for copy in 0..COPIES {
            self.forget_copy(copy);
        }
        let gone = core::mem::take(&mut self.user_code);
        for breakpoint in &gone.all {
            self.forget_user_page(breakpoint.at);
        }
        gone.memory.into_iter().flatten().for_each(|table| self.tables.free(table));
        self.trap_user_pages();
    }

    /// A single step leads from the breakpoint at `from`, if there is one, to `end`; or it is over.
    ///
    /// # Errors
    /// If there is no memory for that.
    pub fn step_user_code(&mut self, step: Option<(GuestVa, GuestVa)>) -> Result<(), &'static str> {
        let old = [self.user_code.lifted, self.user_code.end];
        let new = [step.map(|step| step.0), step.map(|step| step.1)];
        if old == new {
            return Ok(());
        }
        if !self.user_code.has_memory(&mut self.tables) {
            return Err("there is no memory for a step of user code");
        }
        [self.user_code.lifted, self.user_code.end] = new;
        for at in old.into_iter().chain(new).flatten() {
            self.user_breakpoints_change(at);
        }
        Ok(())
    }

    /// What is to be in copies of the page of `at` has changed.
    fn user_breakpoints_change(&mut self, at: GuestVa) {
        self.forget_copies(|copied| copied.va == at.page());
        self.forget_user_page(at);
        self.trap_user_pages();
    }

    fn trap_user_pages(&mut self) {
        let Mmu { user_code, .. } = self;
        let pages = user_code.pages();
        self.shadow.set_trapped(pages);
        // What assembly may do is another question now.
        self.make_stale();
    }

    /// Whether pages may have copies.
    #[inline]
    pub fn copies_user_code(&self) -> bool {
        self.user_code.memory.is_some()
    }

    /// The guest's page at `pa` is about to be written: it has no copies any more.
    #[inline]
    pub fn user_code_changes(&mut self, pa: GuestPa) {
        if self.user_code.memory.is_some() {
            self.forget_copies(|copied| copied.pa == pa.page());
        }
    }

    /// No page need be protected any more.
    #[inline]
    pub(super) fn user_code_is_gone(&mut self) {
        if self.user_code.memory.is_some() {
            self.forget_copies(|_| true);
        }
    }

    #[cold]
    fn forget_copies(&mut self, which: impl Fn(Copied) -> bool) {
        for n in 0..COPIES {
            if self.user_code.copies[n].is_some_and(&which) {
                self.forget_copy(n);
            }
        }
    }

    fn forget_copy(&mut self, n: usize) {
        if let Some(copied) = self.user_code.copies[n].take() {
            self.forget_user_page(copied.va);
        }
    }

    /// The copy of the page at `pa`, which user code executes at `va`, where TTBR0 is this; it reads `page`. Whether it
    /// is a new one.
    pub fn copy_user_code(
        &mut self,
        (va, pa): (GuestVa, GuestPa),
        ttbr0: u32,
        page: &[u32; 1024],
    ) -> Option<(HostPa, bool)> {
        let memory = self.user_code.memory?;
        let mut came = false;
        for own in self.user_code.all.iter_mut().filter(|own| own.set && own.is_of_page(va)) {
            if matches!(own.owner, Owner::Space(space) if space == ttbr0) {
                own.owner = Owner::Code(Breakpoint::code(own.at, page));
                came = true;
            }
        }
        let place = |n: usize| (memory[n / PAGES_OF_TABLE], n % PAGES_OF_TABLE * 1024);
        let host = |n: usize| place(n).0.pa.wrapping_add(4 * place(n).1 as u32);
        let wanted = Copied { va: va.page(), pa: pa.page() };
        if came {
            self.forget_copies(|copied| copied.va == wanted.va);
        } else if let Some(n) = self.user_code.copies.iter().position(|copied| *copied == Some(wanted)) {
            return Some((host(n), false));
        }
        let n = self.user_code.next;
        self.user_code.next = (n + 1) % COPIES;
        self.forget_copy(n);
        self.user_code.copies[n] = Some(wanted);
        let (table, first) = place(n);
        self.tables.write_code(&table, first, page);
        let user_code = &self.user_code;
        let here = user_code.all.iter().map(|own| own.at).filter(|&at| user_code.is_in(at, page)).chain(user_code.end);
        for at in here.filter(|at| at.page() == wanted.va) {
            let offset = address(at).page_offset() as usize;
            let word = self.tables.read(&table, first + offset / 4);
            let shift = 8 * (offset & 2);
            let word = if is_thumb(at) { word & !(0xffff << shift) | BKPT_T32 << shift } else { BKPT };
            self.tables.write_code(&table, first + offset / 4, &[word]);
        }
        Some((host(n), true))
    }

    /// See [`Shadow::fill_trapped`](spica_mmu::Shadow::fill_trapped).
    pub fn fill_trapped(&mut self, memory: &impl GuestMemory, regime: &Regime, va: GuestVa, code: HostPa) -> Fill {
        self.shadow.fill_trapped(memory, regime, va, code, &mut self.tables, &mut RealTlb)
    }

    fn forget_user_page(&mut self, va: GuestVa) {
        self.shadow.forget_user_page(va.page(), &mut self.tables, &mut RealTlb);
    }
}
