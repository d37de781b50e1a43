//! The MMU of a virtual CPU: its shadow tables, with the memory that they are in, and what else was derived from the
//! guest's tables and is good as long as the guest's registers and its TLB maintenance say so.

pub mod user_breakpoints;

use alloc::boxed::Box;
use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use spica_addr::{CachePc, GuestPa, GuestVa, HostPa};
use spica_mmu::{
    AccessKind, DomainAccess, FastFill, Fill, GuestMemory, OutOfTables, PAGEWISE_FROM, PageSize, Regime, Shadow, View,
    guest, lookup,
};

use spica_options::Options;

use super::call_vector::CallVector;
use super::mmio::{Known, Sites};
use super::ram::Ram;
use super::tables::{RealTlb, Tables};
use crate::arch::tlb;
use crate::host_cpu::{HostCpu, HostSpace};
use crate::machine::{GuestMachine, Machine};
use crate::papers;
use crate::world::spaces::KnownSpaces;
use crate::world::{Context, GuestInterrupts, NO_ASID};
use user_breakpoints::UserBreakpoints;

/// Bytes of the heap that a guest with long descriptors takes beyond those of others.
pub const LONG_RECORDS: u32 = ((1 << 20) - (PAGEWISE_FROM.0 >> 12)) / 8 + 512;

/// All of what [`Shadow::watched_megabytes`] and [`Shadow::watched_pages`] tell apart.
struct AllWatched {
    megabytes: [u32; 128],
    pages: [u32; ((1 << 20) - (PAGEWISE_FROM.0 >> 12) as usize) / 32],
}

const _: () = assert!(size_of::<AllWatched>() == LONG_RECORDS as usize);

/// Below this, a guest has flash or nothing.
const FLASH_END: u32 = Machine::FLASH[1].0 + spica_machine::map::FLASH_BANK;

/// See the module's text.
pub struct Mmu {
    shadow: Shadow,
    tables: Tables,
    /// The regime that the shadow tables were last activated for, DACR apart.
    active: Regime,
    /// Its address spaces that assembly may switch to.
    spaces: KnownSpaces,
    /// Where system calls lead.
    pub(super) call_vector: CallVector,
    /// Places that reach devices.
    pub(super) sites: Sites,
    /// The tables and the vector in [`Context`] are not those of the active space, or may not be.
    stale: bool,
    /// The guest's tables are such as [`Shadow::fast_fill`] can read, and it may.
    plain_tables: bool,
    /// For a guest that may have long descriptors.
    all_watched: Option<Box<AllWatched>>,
    /// Pages that are covered, and whether they are hidden ([`super::watched`]).
    covered: Vec<(GuestPa, bool)>,
    /// Breakpoints in user code.
    pub(super) user_code: UserBreakpoints,
    /// Assembly switches to no space, as a debugger is to hear of it.
    asks_of_spaces: bool,
}

impl Mmu {
    /// The MMU with these shadow tables, in this memory.
    pub fn new(shadow: Shadow, tables: Tables) -> Mmu {
        Mmu {
            shadow,
            tables,
            active: Regime::default(),
            spaces: KnownSpaces::new(),
            call_vector: CallVector::default(),
            sites: Sites::default(),
            stale: true,
            plain_tables: false,
            all_watched: None,
            covered: Vec::new(),
            user_code: UserBreakpoints::default(),
            asks_of_spaces: false,
        }
    }

    /// The guest may have long descriptors. To be called when it is made, with room for [`LONG_RECORDS`].
    pub fn allow_long(&mut self) {
        let all = AllWatched {
            megabytes: [u32::MAX; 128],
            pages: [u32::MAX; ((1 << 20) - (PAGEWISE_FROM.0 >> 12) as usize) / 32],
        };
        self.all_watched = Some(Box::new(all));
    }

    /// The shadow tables, to ask them.
    pub fn shadow(&self) -> &Shadow {
        &self.shadow
    }

    /// Their memory, to ask how much of it is in use.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The spaces that assembly may switch to.
    pub fn spaces(&self) -> &KnownSpaces {
        &self.spaces
    }

    /// What assembly knows of tables and of the vector for system calls is to be learnt anew before the guest goes on.
    pub fn make_stale(&mut self) {
        self.stale = true;
    }

    /// Whether that is so.
    pub fn is_stale(&self) -> bool {
        self.stale
    }

    /// The same, which is seen to from now on.
    pub(super) fn take_stale(&mut self) -> bool {
        core::mem::take(&mut self.stale)
    }

    /// Whether [`Self::fast_fill`] can read the guest's tables, and is to.
    pub fn has_plain_tables(&self) -> bool {
        self.plain_tables
    }

    /// See [`Shadow::fill`].
    pub fn fill(
        &mut self,
        memory: &impl GuestMemory,
        regime: &Regime,
        view: View,
        va: GuestVa,
        kind: AccessKind,
    ) -> Fill {
        self.shadow.fill(memory, regime, view, va, kind, &mut self.tables, &mut RealTlb)
    }

    /// See [`Shadow::fill_closed`].
    pub fn fill_closed(&mut self, memory: &impl GuestMemory, regime: &Regime, va: GuestVa) -> Fill {
        self.shadow.fill_closed(memory, regime, va, &mut self.tables, &mut RealTlb)
    }

    /// See [`Shadow::fill_code`].
    pub fn fill_code(
        &mut self,
        memory: &impl GuestMemory,
        regime: &Regime,
        va: GuestVa,
        (code, whole): (HostPa, bool),
    ) -> Fill {
        self.shadow.fill_code(memory, regime, va, code, whole, &mut self.tables, &mut RealTlb)
    }

    /// See [`Shadow::forget_code`].
    pub fn forget_code(&mut self, va: GuestVa) {
        self.shadow.forget_code(va, &mut self.tables, &mut RealTlb);
    }

    /// See [`Shadow::move_code`].
    pub fn move_code(&mut self, region_kernel: &[u32], code_region: Option<(usize, &[u32])>) {
        let moved = self.shadow.move_code(region_kernel, code_region, &mut self.tables, &mut RealTlb);
        assert!(moved.is_ok(), "the region is as long as it was, and the code region in front of it");
        tlb::invalidate_all();
        self.make_stale();
    }

    /// See [`Shadow::fast_fill`].
    #[inline]
    pub fn fast_fill(
        &mut self,
        memory: &impl GuestMemory,
        guest: (u32, u32),
        view: View,
        va: GuestVa,
        kind: AccessKind,
    ) -> FastFill {
        self.shadow.fast_fill(memory, guest, view, va, kind, &mut self.tables, &mut RealTlb)
    }

    /// The page at `pa` is write-protected from now on: code was made of it.
    pub fn protect_code_page(&mut self, pa: GuestPa) {
        self.shadow.protect_code_page(pa, &mut self.tables, &mut RealTlb);
    }

    /// The page at `pa` is about to be written, and may be: no code of it is left.
    pub fn code_page_changes(&mut self, pa: GuestPa) {
        self.stale |= self.call_vector.forget_page(pa);
        self.user_code_changes(pa);
        if !self.is_covered(pa) {
            self.shadow.unprotect_code_page(pa);
        }
    }

    #[inline]
    fn is_covered(&self, pa: GuestPa) -> bool {
        !self.covered.is_empty() && self.covered.iter().any(|&(page, _)| page == pa.page())
    }

    /// Has room for so many covered pages.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn reserve_covered(&mut self, most: usize) -> Result<(), TryReserveError> {
        self.covered.try_reserve_exact(most.saturating_sub(self.covered.len()))
    }

    /// The page at `pa` is covered from now on ([`super::watched`]), and perhaps hidden; or it is not.
    pub fn set_covered(&mut self, pa: GuestPa, hidden: Option<bool>) {
        self.covered.retain(|&(page, _)| page != pa);
        self.covered.extend(hidden.map(|hidden| (pa, hidden)));
    }

    /// Whether a page is hidden that is the guest's.
    pub fn hides(&self) -> bool {
        self.covered.iter().any(|&(_, hidden)| hidden)
    }

    /// Whether that at `pa` is.
    pub fn hides_page(&self, pa: GuestPa) -> bool {
        !self.covered.is_empty() && self.covered.contains(&(pa.page(), true))
    }

    /// All pages may be written: no code is left. What rests on their protection is forgotten.
    pub fn unprotect_all_code_pages(&mut self) {
        self.user_code_is_gone();
        self.shadow.unprotect_all_code_pages(&mut self.tables, &mut RealTlb);
        for n in 0..self.covered.len() {
            self.protect_code_page(self.covered[n].0);
        }
        self.blocks_are_gone();
    }

    /// No block is left.
    pub fn blocks_are_gone(&mut self) {
        self.call_vector.forget();
        self.stale = true;
    }

    /// What the guest wrote at `pa` may be in its tables, where these are tracked.
    pub fn table_written(&mut self, _: HostSpace<'_>, pa: GuestPa, bytes: u32) {
        papers::table_written(&mut self.shadow, pa, bytes, &mut self.tables);
    }

    /// The page at `pa` is going to be written as a whole, or is to be the guest's no more: no table in it is tracked.
    pub fn release_table(&mut self, _: HostSpace<'_>, pa: GuestPa) {
        papers::release_table(&mut self.shadow, pa, &mut self.tables);
    }

    /// How changed mappings are learnt of.
    pub fn set_tracking(&mut self, options: &Options) {
        papers::set_tracking(&mut self.shadow, options);
    }

    /// The page at `pa` is the guest's no more, or is again.
    pub fn set_absent(&mut self, pa: GuestPa, absent: bool) {
        self.shadow.set_absent(pa, absent || self.hides_page(pa));
    }

    /// Loads and fetches of the bank of flash at `pa` reach its memory from now on, or do not.
    pub fn set_rom_open(&mut self, pa: GuestPa, open: bool) {
        if !open {
            // Its contents may change.
            self.user_code_is_gone();
        }
        self.shadow.set_rom_open(pa, open, &mut self.tables, &mut RealTlb);
    }

    /// Drops all entries.
    pub fn forget_all(&mut self, _: HostSpace<'_>) {
        self.shadow.forget_all(&mut self.tables, &mut RealTlb);
    }

    /// Gives back all tables.
    pub fn release(&mut self, _: HostSpace<'_>) {
        self.shadow.release(&mut self.tables, &mut RealTlb);
    }

    /// TLBIALL.
    pub fn invalidate_all(&mut self, _: HostSpace<'_>) {
        self.shadow.invalidate_all(&mut self.tables, &mut RealTlb);
    }

    /// TLBIMVA or TLBIMVAA, of `count` pages in a row. No table is changed that may be in force.
    pub fn invalidate_pages(&mut self, va: GuestVa, count: u32, asid: Option<u8>) {
        self.shadow.invalidate_pages(va, count, asid, &mut self.tables, &mut RealTlb);
    }

    /// TLBIASID.
    pub fn invalidate_asid(&mut self, _: HostSpace<'_>, asid: u8) {
        self.shadow.invalidate_asid(asid, &mut self.tables, &mut RealTlb);
    }

    /// The guest's DACR changes more than entries stand.
    pub fn set_dacr(&mut self, _: HostSpace<'_>, dacr: u32) {
        self.shadow.set_dacr(dacr, &mut self.tables, &mut RealTlb);
    }

    /// User code is about to run under `dacr`.
    pub(super) fn enter_user(&mut self, core: &mut HostCpu, dacr: u32) {
        if !self.shadow.is_open_to_user(dacr) {
            let _host_space = core.enter_host_space();
            self.shadow.enter_user(dacr, &mut self.tables, &mut RealTlb);
        }
    }

    /// Does a piece of what is left of maintenance.
    pub fn settle(&mut self, _: HostSpace<'_>) {
        self.shadow.settle(&mut self.tables, &mut RealTlb);
    }

    /// What is at `va` is of interest: TLB maintenance there must come to Rust.
    pub fn watch(&mut self, va: GuestVa, size: PageSize) {
        self.shadow.watch(va, size);
    }

    /// The tables for `regime` are those to be entered. What was derived from others is forgotten, if more has changed
    /// than a process switch does. Whether it has, or the space is new.
    ///
    /// # Errors
    /// If there is no memory for the least that it takes.
    pub(super) fn activate(&mut self, _: HostSpace<'_>, regime: &Regime) -> Result<Activated, OutOfTables> {
        let old = core::mem::replace(&mut self.active, *regime);
        // A process switch changes TTBR0 and the ASID. Anything more changes what global mappings mean, too.
        let process_switch = Regime { ttbr0: old.ttbr0, asid: old.asid, dacr: old.dacr, ..*regime } == old;
        if !process_switch {
            self.sites.clear();
            self.call_vector.forget();
            self.spaces.clear();
        }
        self.stale = true;
        let created = self.shadow.spaces_created();
        self.shadow.activate(regime, &mut self.tables, &mut RealTlb)?;
        Ok(Activated { process_switch, new: self.shadow.spaces_created() != created })
    }

    /// The same after a reset, when nothing that was derived from tables is left.
    pub(super) fn reset(&mut self, regime: &Regime) {
        self.active = *regime;
        self.stale = true;
        self.spaces.clear();
        // There are two first-level tables' worth of memory at least, so that this cannot fail.
        let _ = self.shadow.activate(regime, &mut self.tables, &mut RealTlb);
    }

    /// Forgets what was derived from the tables of a machine that is reset.
    pub(super) fn forget_derived(&mut self) {
        self.call_vector = CallVector::default();
        self.sites.clear();
    }

    /// Mappings in `range` may have changed.
    pub fn forget_call_vector(&mut self, range: &RangeInclusive<GuestVa>) {
        self.stale |= self.call_vector.forget_range(range);
    }

    /// See [`KnownSpaces::is_asked`].
    #[inline]
    pub(super) fn is_asked(&self) -> bool {
        self.spaces.is_asked(&self.shadow)
    }

    /// See [`KnownSpaces::notice`].
    pub(super) fn notice(&mut self, noticed: bool) {
        self.spaces.notice(noticed);
    }

    /// Forgets the spaces that are not what they were.
    #[inline]
    pub(super) fn catch_up_spaces(&mut self) {
        self.spaces.catch_up(&mut self.shadow);
    }

    /// Whether assembly may switch between spaces by itself.
    pub(super) fn set_knows_spaces(&mut self, knows: bool) {
        self.asks_of_spaces = !knows;
        self.spaces.clear();
        self.stale = true;
    }

    /// Tells assembly where this MMU's records are.
    pub(super) fn show(&mut self, context: &mut Context, quick_faults: bool) {
        self.plain_tables = quick_faults && guest::plain::is_plain(&self.active) && !self.shadow.has_trapped();
        context.tables.tlb_asid = self.shadow.sole_asid().map_or(NO_ASID, u32::from);
        // A block of a long descriptor may be anywhere in a GiB: all maintenance comes to Rust.
        let (megabytes, pages) = match &self.all_watched {
            Some(all) if self.active.is_long() => (&all.megabytes, &all.pages[..]),
            _ => (self.shadow.watched_megabytes(), self.shadow.watched_pages()),
        };
        context.tables.watched = megabytes.as_ptr();
        context.tables.watched_pages = Context::watched_pages(pages);
        context.tables.table_offset = self.tables.va_offset();
        context.tables.private = self.shadow.private_megabytes().as_ptr();
        context.tables.hints = self.shadow.page_hints();
        context.tables.aliases = self.shadow.aliases();
    }

    /// Notes the active space as one that assembly may switch to.
    pub(super) fn learn_space(&mut self, context: &Context) {
        if self.active.is_long() || self.asks_of_spaces {
            return;
        }
        // What holds nothing of its ASID is good under any; whose pages may be forgotten is another question.
        let asid = self.shadow.holds_private().then(|| context.cpu.cp15.asid());
        let tlb_asid = asid.map_or(NO_ASID, |_| context.tables.tlb_asid);
        self.spaces.catch_up(&mut self.shadow);
        self.spaces.enter(context, self.shadow.active_space(), asid, tlb_asid);
    }

    /// Forgets which places reach devices.
    pub fn forget_devices(&mut self) {
        self.sites.clear();
    }

    /// The device that the word at `pc` is known to reach at `va`.
    pub fn known_device(&self, pc: CachePc, generation: u64, va: GuestVa, write: bool, dacr: u32) -> Option<Known> {
        self.sites.get(pc, generation, va, write, dacr)
    }

    /// Tells assembly which places access the interrupt controller, in this code-cache generation.
    pub fn show_interrupt_sites(&self, interrupts: &mut GuestInterrupts, generation: u64) {
        let version = (self.sites.interrupt_version(), generation);
        if interrupts.version != version {
            interrupts.set_sites(self.sites.interrupt_sites(generation));
            interrupts.version = version;
        }
    }

    /// The `word` at `pc` reaches a device at `va`: where that can be remembered, it is.
    pub fn note_device(
        &mut self,
        (host_space, ram): (HostSpace<'_>, &Ram),
        (pc, generation, word): (CachePc, u64, u32),
        va: GuestVa,
        write: bool,
        regime: &Regime,
    ) {
        if !regime.mmu_on() {
            return;
        }
        let Ok(mapping) = lookup(&ram.at(host_space), regime, va) else { return };
        // A manager's access says nothing of what the page permits (B3.7.3), which `Sites::get` relies on.
        let checked = DomainAccess::of(regime.dacr, mapping.domain) == DomainAccess::Client;
        // Flash is a device only while it is given commands.
        let device = !ram.contains(mapping.pa) && mapping.pa.0 >= FLASH_END;
        if checked && mapping.global && mapping.size == PageSize::Small4K && device {
            self.sites.note(pc, generation, va, write, (Known::new(mapping.pa, word), mapping.domain));
            self.watch(va, mapping.size);
        }
    }
}

/// What [`Mmu::activate`] did.
pub(super) struct Activated {
    /// Nothing has changed but TTBR0 and the ASID.
    pub process_switch: bool,
    /// The space was not known.
    pub new: bool,
}
