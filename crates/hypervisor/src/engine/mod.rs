//! What runs a guest's kernel code, in User mode: an engine.
//!
//! The rest of the hypervisor knows [`Engine`]: code that is found or made for a guest address, which guest instruction
//! an address in it stands for, and what becomes of it when a page changes or moves. How code gets to its addresses,
//! and what its own traps ask for, is between an engine and its part of [`crate::vm`]. There are two: [`blocks`], and
//! [`in_place`] with blocks beside it. [`kernel`] chooses.

pub mod blocks;
pub mod code;
pub mod in_place;
pub mod kernel;

use core::ops::RangeInclusive;

use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_dbt::{Location, Start};
use spica_vcpu::VcpuPage;

pub use kernel::KernelEngine;

/// What in other code led to a piece of its code.
pub type LedFrom = <KernelEngine as Engine>::From;

/// A piece of its code.
pub type Code = <KernelEngine as Engine>::Code;

/// A page of the guest's, as words.
pub type Words = [u32; 1024];

/// Where code comes from.
#[derive(Clone, Copy)]
pub struct Source {
    /// The first instruction's address, bit 0 of which is set if it is T32.
    pub va: GuestVa,
    /// How T32 code begins.
    pub start: Start,
    /// Where that lies.
    pub pa: GuestPa,
    /// The page is mapped in all address spaces.
    pub global: bool,
}

/// What the guest's kernel must not execute any more where it is mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// The page at this address.
    Page(GuestVa),
    /// All pages.
    All,
}

/// See the module's text.
pub trait Engine {
    /// Names a piece of code until [`generation`](Self::generation) changes.
    type Code: Copy;
    /// What in other code led to a piece of code, and can lead there by itself the next time.
    type From: Copy;

    /// Where its own code is: the address, and how many megabytes. Nothing of the guest's may be mapped there.
    fn region(&self) -> (u32, u32);

    /// Where the code for `pc` begins, if that is at hand, as it is for most that is entered. It is good as long as the
    /// guest's tables are as they were.
    fn known(&self, pc: GuestVa) -> Option<CachePc>;
    /// The code for `pc` is not at hand any more.
    fn forget_known(&mut self, pc: GuestVa);
    /// The code for a guest address, if there is any.
    fn find(&mut self, source: Source) -> Option<Self::Code>;
    /// Makes the code for a guest address in a page that reads `words`, whose changes are announced from now on; and
    /// whether all other code had to go for it.
    fn make(&mut self, source: Source, words: &Words) -> (Self::Code, bool);
    /// Makes code for one execution, which is never found again. Where it begins.
    fn make_once(&mut self, source: Source, words: &Words) -> CachePc;
    /// The same for a single instruction, be it at a breakpoint.
    fn make_one(&mut self, source: Source, words: &Words) -> CachePc;
    /// Code is about to be entered, and at hand from now on. `from` leads there the next time, if that is allowed.
    /// Where it begins.
    fn enter(&mut self, code: Self::Code, from: Option<Self::From>) -> CachePc;

    /// Whether code at `pc` of the kernel view is the guest's own, at its own address: it can be left between any two
    /// instructions.
    fn is_guest_address(&self, pc: CachePc) -> bool;
    /// The code that `pc` is in, be it that of a page that has changed since.
    fn code_at(&self, pc: CachePc) -> Option<Self::Code>;
    /// Whether the page that code came from is as it was.
    fn is_live(&self, code: Self::Code) -> bool;
    /// The guest address of the first instruction of code, and where that lies.
    fn source(&self, code: Self::Code) -> (GuestVa, GuestPa);
    /// The guest instruction that `pc` in `code` stands for; `words` is what its page read when the code was made.
    /// `None` for what stands for none: the guest can jump anywhere.
    fn locate(&self, code: Self::Code, pc: CachePc, words: &Words) -> Option<Location>;
    /// What the page behind had of it, if it is one instruction across the end of its page.
    fn next_page_of(&self, code: Self::Code) -> Option<u16>;
    /// The word at `pc`.
    fn word(&mut self, pc: CachePc) -> Option<u32>;

    /// The page at `pa` is about to change: code from it is not found any more.
    fn page_changed(&mut self, pa: GuestPa);
    /// The guest writes to the page at `pa`, which has code, and these words of it become others, if any: code that was
    /// made from them is not found any more, and the rest of the page's code stays. False if nothing has been done,
    /// because the page should change as a whole ([`page_changed`](Self::page_changed)).
    fn words_change(&mut self, pa: GuestPa, words: Option<RangeInclusive<u16>>) -> bool;
    /// The page at `va` is not mapped as it was: nothing leads to code from it without [`find`](Self::find). How much
    /// work that was, in pieces of code.
    fn page_moved(&mut self, va: GuestVa) -> u32;
    /// Something that is to be unmapped before the guest goes on, if there is any.
    fn next_gone(&mut self) -> Option<Gone>;
    /// The first page with code from number `from` on: its number, where the guest has it, and where it lies.
    fn next_page(&self, from: usize) -> Option<(usize, GuestVa, GuestPa)>;
    /// The next page with code that the guest had at `va`, behind number `after`.
    fn next_page_at(&self, va: GuestVa, after: Option<usize>) -> Option<(usize, GuestPa)>;
    /// Any page may be mapped otherwise.
    fn all_moved(&mut self);
    /// Forgets all code.
    fn forget_all(&mut self);

    /// The code at `pc`, where the guest is, is left at its next end, for an interrupt.
    fn leave_soon(&mut self, pc: CachePc);

    /// Whether there is a breakpoint at `pc`. No code is to be made there.
    fn is_breakpoint(&self, pc: GuestVa) -> bool;
    /// Sets a breakpoint: there is no code that goes on to `pc` by itself. The guest must be in no code. False if there
    /// are too many.
    fn set_breakpoint(&mut self, pc: GuestVa) -> bool;
    /// Takes a breakpoint away. False if there is none.
    fn clear_breakpoint(&mut self, pc: GuestVa) -> bool;
    /// Takes all breakpoints away.
    fn clear_breakpoints(&mut self);

    /// The guest's VFP is there or not. True if that has made all code wrong, which is gone.
    fn set_vfp(&mut self, vfp: bool) -> bool;
    /// Whether nothing is left of what was asked for, and there is nothing to be unmapped.
    fn is_settled(&self) -> bool;
    /// Does a piece of what is left. True if nothing was.
    fn settle(&mut self) -> bool;
    /// Code can be fetched as it was written. `mapped`: where it runs is mapped now, as the kernel view is in force.
    fn publish(&mut self, mapped: bool);
    /// Clears what `page` has of addresses of code that are not good any more.
    fn mend(&mut self, page: &mut VcpuPage);
    /// The vCPU is reset, and its page with it.
    fn vcpu_reset(&mut self);

    /// Changes whenever code has gone.
    fn version(&self) -> u32;
    /// Changes whenever all code has gone.
    fn generation(&self) -> u64;
    /// Changes whenever an answer of [`known`](Self::known) may for one of these: see [`Self::watch_known`].
    fn known_version(&self) -> u32;
    /// Exception vectors at `vectors`, and what is at `other`, are what [`Self::known_version`] is about from now on.
    fn watch_known(&mut self, vectors: GuestVa, other: GuestVa);
    /// Pieces of code made so far.
    fn made(&self) -> u64;
    /// Pieces of code that there are, and what has been dropped and still takes room.
    fn pieces(&self) -> usize;
}
