//! Filling: what to do about an access of the guest that the host's MMU did not let through.
//!
//! This is the first stop of every data and prefetch abort from a guest. The guest's own tables decide. If the bare
//! core would have faulted, the guest gets that fault. If not, the shadow was behind (no entry yet, or one with less
//! permission than the guest's tables have by now), and is brought up; or the access is one that must not go through
//! natively, and somebody has to emulate it.
//!
//! Filling an invalid entry needs no TLB maintenance, as no TLB holds invalid entries. A valid entry is broken, flushed
//! and only then replaced.

use crate::common::Borrowers;
use crate::guest::fault::Fault;
use crate::guest::regime::{Access, AccessKind, Regime};
use crate::guest::walk::{GuestMemory, Mapping, PageSize, Permission, translate};
use crate::host::{self, FirstLevel};
use crate::ram::KNOWN;
use crate::shadow::{NoTable, Shadow};
use crate::space::{Key, Origin, View, ViewTables};
use crate::table::{HostTlb, Table, TableMemory};
use spica_addr::{GuestPa, GuestVa, HostPa};

/// What became of an access that faulted on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Fill {
    /// The tables now allow it, or there was too much else to do for one go: run the instruction again. (If it was a
    /// domain fault, the host's DACR may have to be brought up to the guest's as well.)
    Mapped,
    /// The bare core would have faulted: the guest must see this.
    GuestFault(Fault),
    /// The guest may, but the address is not RAM: a device, or nothing at all.
    Device(GuestPa),
    /// The guest may write there, but code was translated from that page: emulate the store, and drop the code. Or it
    /// is a page of tables (`Shadow::is_table_page`).
    CodePageWrite(GuestPa),
    /// The guest may, but the hypervisor lives at that virtual address: emulate the access.
    Region(GuestPa),
    /// Kernel view: the guest may fetch its instruction there, which means that it has to be translated.
    KernelFetch(GuestPa),
    /// User view: the guest may fetch its instruction there, but the page is a trapped one ([`Shadow::set_trapped`]):
    /// what is to be fetched instead is for [`Shadow::fill_trapped`].
    Trapped(GuestPa),
    /// There is no memory for a table ([`OutOfTables`](crate::OutOfTables)).
    OutOfTables,
}

impl From<NoTable> for Fill {
    fn from(none: NoTable) -> Fill {
        match none {
            // The access faults again, and finds more of them free.
            NoTable::Yet => Fill::Mapped,
            NoTable::Ever => Fill::OutOfTables,
        }
    }
}

/// Where a mapping goes, and for which view.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// To the active space.
    Own(View),
    /// To all spaces: see [`Common`](crate::common::Common).
    Common(View),
}

impl Place {
    const fn view(self) -> View {
        match self {
            Self::Own(view) | Self::Common(view) => view,
        }
    }
}

/// A host mapping as the guest's tables and the hypervisor's own needs make it.
struct Wanted {
    host: HostPa,
    domain: u8,
    writable: bool,
    xn: bool,
}

impl Shadow {
    /// Brings the active space's `view` up to the guest's tables at `va`, for an access of `kind` that the host
    /// refused. `regime` must be the one that was last activated, but for DACR, whose present value counts.
    ///
    /// To be called for translation, permission and domain faults of the host alike; alignment faults and external
    /// aborts are not its business.
    #[expect(clippy::too_many_arguments, reason = "the fault, the guest's memory and registers, and the two seams")]
    pub fn fill(
        &mut self,
        mem: &impl GuestMemory,
        regime: &Regime,
        view: View,
        va: GuestVa,
        kind: AccessKind,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) -> Fill {
        self.fill_with(mem, regime, (view, None), va, kind, tables, tlb)
    }

    /// As [`Self::fill`] for a fetch of user code that is answered by [`Fill::Trapped`]: what the guest fetches there
    /// is `code`, a page of the hypervisor's memory, which it can read as well. It stays until
    /// [`Shadow::forget_user_page`], or as long as any entry.
    pub fn fill_trapped(
        &mut self,
        mem: &impl GuestMemory,
        regime: &Regime,
        va: GuestVa,
        code: HostPa,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) -> Fill {
        self.fill_with(mem, regime, (View::User, Some(code)), va, AccessKind::Fetch, tables, tlb)
    }

    /// [`Self::fill`], or [`Self::fill_trapped`] if there is code.
    #[expect(clippy::too_many_arguments, reason = "the fault, the guest's memory and registers, and the two seams")]
    #[inline]
    fn fill_with(
        &mut self,
        mem: &impl GuestMemory,
        regime: &Regime,
        (view, code): (View, Option<HostPa>),
        va: GuestVa,
        kind: AccessKind,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) -> Fill {
        debug_assert!(self.is_active(Key::of(regime)), "fill under a regime that is not active: {regime:?}");
        if regime.mmu_on() {
            self.set_dacr(regime.dacr, tables, tlb);
            self.note_open(view, regime.dacr);
        }
        let privileged = view == View::Kernel;
        let mapping = match translate(mem, regime, va, Access { kind, privileged }) {
            Ok(mapping) => mapping,
            Err(fault) => {
                self.stats.guest_faults += 1;
                return Fill::GuestFault(fault);
            }
        };
        if privileged && kind == AccessKind::Fetch {
            return Fill::KernelFetch(mapping.pa);
        }
        if self.in_region(va) {
            return Fill::Region(mapping.pa);
        }
        self.track(mem, regime, va, tables, tlb);
        let Some(mut wanted) = self.wanted(regime, view, &mapping) else {
            return Fill::Device(mapping.pa);
        };
        let mut whole = true;
        if self.trapped.is_on() && self.separation.table_of(view) == self.separation.table_of(View::User) {
            whole = !self.trapped.has_megabyte(va);
            match code {
                _ if !self.trapped.contains(va) => {}
                None if kind == AccessKind::Fetch => return Fill::Trapped(mapping.pa),
                None => wanted.xn = true,
                Some(code) => (wanted.host, wanted.writable) = (code, false),
            }
        }
        let rom = self.ram.is_rom(mapping.pa);
        if kind == AccessKind::Write && !wanted.writable {
            // The guest's own permission was checked above.
            return if rom { Fill::Device(mapping.pa) } else { Fill::CodePageWrite(mapping.pa) };
        }
        self.rom_filled |= rom;
        if !mapping.global && !self.holds_private() {
            self.first_private();
        }
        self.touched.insert((va.0 >> 20) as usize);
        if mapping.global {
            self.global.insert((va.0 >> 20) as usize);
        }
        if mapping.size == PageSize::Super16M {
            // Its pieces may be in any of its sixteen megabytes.
            self.watched.sixteen(va);
        }
        let place = if self.shares(view, (va.0 >> 20) as usize, &mapping, tables, tlb) {
            Place::Common(view)
        } else {
            Place::Own(view)
        };
        let as_section = mapping.size.is_first_level() && self.ram.is_uniform(mapping.pa) && whole;
        if as_section {
            self.fill_section(place, va, &mapping, &wanted, tables, tlb);
            return Fill::Mapped;
        }
        let filled = self.fill_page(place, va, &mapping, &wanted, tables, tlb);
        let section = place == Place::Common(view) && mapping.size.is_first_level() && whole && !rom;
        if filled == Fill::Mapped && section && mapping.permission(regime, privileged) == Permission::ReadOnly {
            self.fill_around(view, va, &mapping, &wanted, tables);
        }
        filled
    }

    /// Maps what is not mapped of the 64 KiB around `va`, which was just mapped for all spaces, and is in a section
    /// that `view` may read and not write: as if each page had been read. A kernel that patches its text reads through
    /// all of it, and forgets all of it at the end.
    fn fill_around(
        &mut self,
        view: View,
        va: GuestVa,
        mapping: &Mapping,
        wanted: &Wanted,
        tables: &mut impl TableMemory,
    ) {
        let first_level = self.tables_at(Place::Common(view)).first_level((va.0 >> 20) as usize, tables);
        let FirstLevel::Table { table, .. } = first_level else { return };
        let first = (va.0 >> 12 & 0xf0) as usize;
        let mut entries = [0; 16];
        let mut filled = 0;
        for (at, entry) in entries.iter_mut().enumerate() {
            *entry = tables.read(&table, first + at);
            if *entry == 0
                && let Some(host) = self.ram.host(GuestPa(mapping.pa.0 & 0xffff_0000 | (at as u32) << 12))
            {
                *entry = host::page(host, false, wanted.xn);
                filled += 1;
            }
        }
        // One line of the table, cleaned once; what was there before is the same behind it.
        tables.write_run(&table, first, &entries);
        let active = self.active_index();
        self.spaces[active].fills += filled;
        self.stats.page_fills += filled;
    }

    /// As [`Self::fill`] for a load of the guest's privileged mode, but for its DACR: a page of a domain that is closed
    /// gets its entry as well, which the host's DACR closes. So what needs no access to a page, only that it is mapped,
    /// finds it.
    pub fn fill_closed(
        &mut self,
        mem: &impl GuestMemory,
        regime: &Regime,
        va: GuestVa,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) -> Fill {
        let regime = Regime { dacr: self.separation.opened_dacr(regime.dacr), ..*regime };
        self.fill(mem, &regime, View::Kernel, va, AccessKind::Read, tables, tlb)
    }

    /// The guest's privileged mode fetches from `va`, and what it is to execute there is `code`, a page of the
    /// hypervisor's memory that stands for the guest's own: maps that in the kernel view, for reading as well. It stays
    /// until [`Self::forget_code`], or as long as any entry.
    ///
    /// If `whole`, the pages around it in 64 KiB of the hypervisor's memory stand for those around the guest's: all
    /// sixteen are mapped, by a large page, where the guest has a section that is the same in all spaces.
    #[expect(clippy::too_many_arguments, reason = "the fetch, the guest's memory and registers, and the two seams")]
    pub fn fill_code(
        &mut self,
        mem: &impl GuestMemory,
        regime: &Regime,
        va: GuestVa,
        code: HostPa,
        whole: bool,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) -> Fill {
        debug_assert!(self.is_active(Key::of(regime)), "fill under a regime that is not active: {regime:?}");
        let view = View::Kernel;
        let mapping = match translate(mem, regime, va, Access { kind: AccessKind::Fetch, privileged: true }) {
            Ok(mapping) => mapping,
            Err(fault) => return Fill::GuestFault(fault),
        };
        if self.in_region(va) || !regime.mmu_on() {
            return Fill::KernelFetch(mapping.pa);
        }
        if regime.mmu_on() {
            self.set_dacr(regime.dacr, tables, tlb);
        }
        if !mapping.global && !self.holds_private() {
            self.first_private();
        }
        self.touched.insert((va.0 >> 20) as usize);
        if mapping.size == PageSize::Super16M {
            self.watched.sixteen(va);
        }
        let shared = self.shares(view, (va.0 >> 20) as usize, &mapping, tables, tlb);
        let place = if shared { Place::Common(view) } else { Place::Own(view) };
        let domain = self.separation.domain(Some(mapping.domain), true);
        let wanted = Wanted { host: code, domain, writable: false, xn: false };
        // Only there: in a table that has pages of one space alone, an entry may be replaced without looking at others
        // (`fast_fill`).
        if whole && shared && mapping.size.is_first_level() {
            return self.fill_large(va, &mapping, &wanted, tables, tlb);
        }
        self.fill_page(place, va, &mapping, &wanted, tables, tlb)
    }

    /// Maps the 64 KiB around `va` by a large page, for all spaces, where the guest has something larger.
    fn fill_large(
        &mut self,
        va: GuestVa,
        mapping: &Mapping,
        wanted: &Wanted,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) -> Fill {
        let place = Place::Common(View::Kernel);
        let origin = Origin { global: mapping.global, size: mapping.size };
        let table = match self.second_level(place, (va.0 >> 20) as usize, wanted.domain, origin, tables, tlb) {
            Ok(table) => table,
            Err(none) => return none.into(),
        };
        self.note_page(place, va, mapping, wanted);
        let word = host::large_page(wanted.host);
        let first = va.0 & 0xffff_0000;
        let entries = (first >> 12 & 0xff) as usize..;
        let entries = entries.take(host::LARGE);
        if entries.clone().all(|index| tables.read(&table, index) == word) {
            self.stats.idle_fills += 1;
            return Fill::Mapped;
        }
        // All that was there is broken before any of it is replaced (B3.10.1).
        let view = self.separation.table_of(View::Kernel);
        let mut borrowers = Borrowers { tlb, spaces: &self.spaces, table: view };
        for (index, va) in entries.clone().zip((first..).step_by(4096)) {
            if tables.read(&table, index) != 0 {
                tables.write(&table, index, 0);
                borrowers.flush_page(va, 0);
            }
        }
        let active = self.active_index();
        self.spaces[active].fills += 1;
        self.stats.page_fills += 1;
        entries.for_each(|index| tables.write(&table, index, word));
        Fill::Mapped
    }

    /// What [`Self::fill_code`] has mapped at `va` is to be found nowhere any more.
    pub fn forget_code(&mut self, va: GuestVa, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) {
        let table = self.separation.table_of(View::Kernel);
        for space in self.spaces.iter_mut().filter(|space| space.is_live()) {
            space.views[table].forget_executable(va.0 >> 12, tables, tlb);
        }
        let mut borrowers = Borrowers { tlb, spaces: &self.spaces, table };
        self.common.views[table].forget_executable(va.0 >> 12, tables, &mut borrowers);
    }

    /// An entry of `view` may be made under this DACR.
    pub(crate) const fn note_open(&mut self, view: View, guest_dacr: u32) {
        if let View::User = view {
            self.open_to_user |= self.separation.open_to_user(guest_dacr);
        }
    }

    /// The host mapping for a guest mapping; `None` if it is not RAM, or if the view's mode may not even read it.
    fn wanted(&self, regime: &Regime, view: View, mapping: &Mapping) -> Option<Wanted> {
        let permission = mapping.permission(regime, view == View::Kernel);
        if permission == Permission::None {
            return None;
        }
        let flat = !regime.mmu_on();
        let domain = (!flat).then_some(mapping.domain);
        let alone = self.separation.is_privileged_alone(view, || mapping.permission(regime, false) != permission);
        Some(Wanted {
            host: self.ram.host(mapping.pa)?,
            domain: self.separation.domain(domain, alone),
            writable: permission == Permission::ReadWrite
                && !self.ram.is_protected(mapping.pa)
                && !self.ram.is_rom(mapping.pa),
            xn: alone || mapping.never_executes(regime, false),
        })
    }

    /// Whose tables that are.
    fn tables_at(&mut self, place: Place) -> &mut ViewTables {
        match place {
            Place::Own(view) => {
                let active = self.active_index();
                self.spaces[active].view_mut(view)
            }
            Place::Common(view) => &mut self.common.views[self.separation.table_of(view)],
        }
    }

    fn drop_at(&mut self, place: Place, mb: usize, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) {
        match place {
            Place::Own(_) => self.tables_at(place).drop_megabyte(mb, tables, tlb),
            Place::Common(view) => self.drop_common(self.separation.table_of(view), mb, tables, tlb),
        }
    }

    /// What is in `mb` there now, all that share it have.
    fn lend_at(&mut self, place: Place, mb: usize, tables: &mut impl TableMemory) {
        if let Place::Common(view) = place {
            self.lend(view, mb, tables);
        }
    }

    fn fill_section(
        &mut self,
        place: Place,
        va: GuestVa,
        mapping: &Mapping,
        wanted: &Wanted,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) {
        let mb = (va.0 >> 20) as usize;
        let word = host::section(wanted.host, wanted.domain, wanted.writable, wanted.xn);
        let origin = Origin { global: mapping.global, size: mapping.size };
        match self.tables_at(place).first_level_word(mb, tables) {
            // Where nG or the guest's size is another by now, the older entry is what a TLB may hold as well.
            present if present == word => {
                self.lend_at(place, mb, tables);
                self.stats.idle_fills += 1;
                return;
            }
            0 => {}
            _ => self.drop_at(place, mb, tables, tlb),
        }
        if wanted.writable {
            self.ram.note_section_writer(mapping.pa, mb);
        }
        self.watched.large(mb, mapping.global);
        self.tables_at(place).set_section(mb, word, origin, tables);
        self.lend_at(place, mb, tables);
        let active = self.active_index();
        self.spaces[active].fills += 1;
        self.stats.section_fills += 1;
    }

    /// The second-level table of `mb` in the active space, or for all, made if need be.
    fn second_level(
        &mut self,
        place: Place,
        mb: usize,
        domain: u8,
        origin: Origin,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) -> Result<Table, NoTable> {
        let table = match self.tables_at(place).first_level(mb, tables) {
            FirstLevel::Table { table, domain: present } if present == domain => table,
            present => {
                if present != FirstLevel::Invalid {
                    // A section, or pages under another domain: the guest replaced its first-level entry.
                    self.drop_at(place, mb, tables, tlb);
                }
                let table = self.alloc_second(tables, tlb)?;
                self.tables_at(place).set_table(mb, table, domain, origin, tables);
                table
            }
        };
        self.lend_at(place, mb, tables);
        Ok(table)
    }

    fn fill_page(
        &mut self,
        place: Place,
        va: GuestVa,
        mapping: &Mapping,
        wanted: &Wanted,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) -> Fill {
        let mb = (va.0 >> 20) as usize;
        let origin = |mapping: &Mapping| Origin { global: mapping.global, size: mapping.size };
        let table = match self.second_level(place, mb, wanted.domain, origin(mapping), tables, tlb) {
            Ok(table) => table,
            Err(none) => return none.into(),
        };
        let active = self.active_index();
        let index = (va.0 >> 12 & 0xff) as usize;
        let word = host::page(wanted.host, wanted.writable, wanted.xn);
        let present = tables.read(&table, index);
        let known = self.note_page(place, va, mapping, wanted);
        if let Some(known) = known {
            self.narrow(mapping.pa, va.0 >> 12, known, tables, tlb);
        }
        if present == word {
            self.stats.idle_fills += 1;
            return Fill::Mapped;
        }
        if present != 0 {
            host::entries_with(present, index).for_each(|index| tables.write(&table, index, 0));
            match place {
                Place::Own(view) => tlb.flush_page(va.page().0, self.spaces[active].view(view).asid),
                Place::Common(view) => {
                    let table = self.separation.table_of(view);
                    Borrowers { tlb, spaces: &self.spaces, table }.flush_page(va.page().0, 0);
                }
            }
        }
        self.spaces[active].fills += 1;
        self.stats.page_fills += 1;
        tables.write(&table, index, word);
        Fill::Mapped
    }

    /// Notes what is about to be mapped. If it is worth looking whether the page is mapped elsewhere still, the answer
    /// is where.
    fn note_page(&mut self, place: Place, va: GuestVa, mapping: &Mapping, wanted: &Wanted) -> Option<[u32; KNOWN]> {
        let origin = Origin { global: mapping.global, size: mapping.size };
        let split = mapping.size != PageSize::Small4K;
        if mapping.global {
            self.global.insert((va.0 >> 20) as usize);
        }
        if split {
            self.watched.large((va.0 >> 20) as usize, mapping.global);
        } else {
            self.watched.small(va, mapping.global);
        }
        self.tables_at(place).note((va.0 >> 20) as usize, origin, split);
        if !wanted.writable {
            return None;
        }
        let linear = place.view() == View::Kernel && mapping.global && mapping.size.is_first_level();
        if linear && self.ram.note_linear_map(mapping.pa, va.0 >> 12) {
            self.linear_map_changed();
        }
        self.ram.note_page_writer(mapping.pa, va.0 >> 12)
    }
}
