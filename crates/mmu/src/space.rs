//! One shadowed address space: two first-level tables (a view each), and what lives in them.
//!
//! A space holds what the guest's TLB could hold for one setting of its translation registers. It never knows *why* an
//! entry is there; it knows just enough to forget the right ones when the guest does TLB maintenance:
//!
//! * `private` and `global`: this megabyte holds entries that the guest marked nG = 1, nG = 0, or both;
//! * `coarse`: some small pages here are pieces of a larger guest page or section, which one TLBIMVA removes whole;
//! * `supers`: something here is a piece of a guest supersection, which spans sixteen first-level entries.
//!
//! A megabyte's entries go all at once or one small page at a time; nothing between. Taking down structure is always:
//! write the invalid entry, flush the ASID, free the table.

use crate::bitmap::{MEGABYTES, MegabyteSet};
use crate::guest::regime::{Regime, SCTLR_AFE, SCTLR_EE, SCTLR_M, TTBCR_EAE, TTBCR_PD0, TTBCR_PD1};
use crate::guest::walk::PageSize;
use crate::host::{self, FirstLevel};
use crate::papers::Separation;
use crate::piece::{Budget, CLEAR_TABLE};
use crate::table::{FIRST_LEVEL_BYTES, HostTlb, SECOND_LEVEL_BYTES, Table, TableMemory};
use spica_addr::HostPa;

/// Which of a guest's two modes is meant: whose permissions they grant to USR mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// For translated guest kernel code: the guest's privileged permissions, nothing executable.
    Kernel = 0,
    /// For guest user code that runs natively: the guest's unprivileged permissions and execute-never.
    User = 1,
}

/// The register values that make two spaces different: those on which the outcome of a walk depends, without DACR,
/// which is not in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    // What differs most often is compared first.
    ttbr0: u32,
    pub(crate) asid: u8,
    sctlr: u32,
    ttbr1: u32,
    ttbcr: u32,
}

/// What a walk of long descriptors looks at: T0SZ, EPD0, T1SZ, EPD1.
const LONG_TTBCR: u32 = TTBCR_EAE | 0b111 | 1 << 7 | 0b111 << 16 | 1 << 23;

impl Key {
    /// The flat space of a guest whose MMU is off.
    pub(crate) const FLAT: Self = Self { sctlr: 0, ttbr0: 0, ttbr1: 0, ttbcr: 0, asid: 0 };

    /// Bits that no walk looks at are left out, so that they do not split a space in two.
    pub(crate) fn of(regime: &Regime) -> Self {
        if !regime.mmu_on() {
            return Self::FLAT;
        }
        if regime.is_long() {
            // Where a table's upper word is not 0, there is no table, and nothing to be told apart.
            let sctlr = regime.sctlr & (SCTLR_M | SCTLR_EE);
            let [ttbr0, ttbr1] = [regime.ttbr0 & !0x1f, regime.ttbr1 & !0x1f];
            return Self { sctlr, ttbr0, ttbr1, ttbcr: regime.ttbcr & LONG_TTBCR, asid: regime.asid };
        }
        let n = regime.ttbcr & 0b111;
        Self {
            sctlr: regime.sctlr & (SCTLR_M | SCTLR_EE | SCTLR_AFE),
            ttbr0: regime.ttbr0 & !((1 << (14 - n)) - 1),
            ttbr1: if n == 0 { 0 } else { regime.ttbr1 & !0x3fff },
            ttbcr: regime.ttbcr & (0b111 | TTBCR_PD0 | TTBCR_PD1),
            asid: regime.asid,
        }
    }

    /// Equal but for the ASID.
    pub(crate) fn same_tables(&self, other: &Self) -> bool {
        Self { asid: 0, ..*self } == Self { asid: 0, ..*other }
    }

    /// Equal but for what a process switch changes.
    pub(crate) fn same_kernel(&self, other: &Self) -> bool {
        Self { asid: 0, ttbr0: 0, ..*self } == Self { asid: 0, ttbr0: 0, ..*other }
    }
}

/// What a fill needs to tell a view about the guest entry behind a host entry.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) global: bool,
    pub(crate) size: PageSize,
}

/// First-level entries that are written at once: a line of the data cache on a Cortex-A8.
const RUN: usize = 16;

/// One view of a space: a first-level table, the ASID under which the host sees it, and what it holds.
pub(crate) struct ViewTables {
    pub(crate) asid: u8,
    pub(crate) root: Option<Table>,
    private: MegabyteSet,
    global: MegabyteSet,
    coarse: MegabyteSet,
    supers: MegabyteSet,
    /// Where the first-level entry is that of [`Common`](crate::common::Common). Nothing else here says anything of
    /// these.
    borrowed: MegabyteSet,
    second_tables: u32,
}

impl ViewTables {
    pub(crate) const fn new(asid: u8) -> Self {
        Self {
            asid,
            root: None,
            private: MegabyteSet::new(),
            global: MegabyteSet::new(),
            coarse: MegabyteSet::new(),
            supers: MegabyteSet::new(),
            borrowed: MegabyteSet::new(),
            second_tables: 0,
        }
    }

    /// The first populated megabyte at or after `from`.
    pub(crate) fn next_populated(&self, from: usize) -> Option<usize> {
        match (self.private.next(from), self.global.next(from)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    pub(crate) fn is_populated(&self, mb: usize) -> bool {
        self.private.contains(mb) || self.global.contains(mb)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.private.is_empty() && self.global.is_empty()
    }

    pub(crate) fn holds_private(&self) -> bool {
        !self.private.is_empty()
    }

    /// Whether `mb` holds entries that are not global.
    pub(crate) fn has_private(&self, mb: usize) -> bool {
        self.private.contains(mb)
    }

    pub(crate) fn private_words(&self) -> &[u32; 128] {
        self.private.words()
    }

    pub(crate) fn second_tables(&self) -> u32 {
        self.second_tables
    }

    /// The first-level entry of `mb`, which must not be in the hypervisor region, as it is in the table.
    pub(crate) fn first_level_word(&self, mb: usize, tables: &impl TableMemory) -> u32 {
        self.root.map_or(0, |root| tables.read(&root, mb))
    }

    /// The same, decoded.
    pub(crate) fn first_level(&self, mb: usize, tables: &impl TableMemory) -> FirstLevel {
        FirstLevel::decode(self.first_level_word(mb, tables))
    }

    /// Remembers where an entry of `mb` came from. `split` says that it is smaller than the guest's own.
    pub(crate) fn note(&mut self, mb: usize, origin: Origin, split: bool) {
        if origin.global {
            self.global.insert(mb)
        } else {
            self.private.insert(mb)
        }
        if split {
            self.coarse.insert(mb);
        }
        if origin.size == PageSize::Super16M {
            self.supers.insert(mb);
        }
    }

    /// Puts a section descriptor into the invalid entry of `mb`.
    pub(crate) fn set_section(&mut self, mb: usize, word: u32, origin: Origin, tables: &mut impl TableMemory) {
        let Some(root) = self.root else { return };
        tables.write(&root, mb, word);
        self.note(mb, origin, false);
    }

    /// Hangs an empty second-level table into the invalid entry of `mb`.
    pub(crate) fn set_table(
        &mut self,
        mb: usize,
        table: Table,
        domain: u8,
        origin: Origin,
        tables: &mut impl TableMemory,
    ) {
        let Some(root) = self.root else { return };
        tables.write(&root, mb, host::table(table, domain));
        self.second_tables += 1;
        // Before any page of it is there: what hangs in the root must be found by a sweep.
        self.note(mb, origin, false);
    }

    /// Invalidates the entry of `mb` and frees what hung there. The caller flushes the ASID before anything is
    /// allocated again.
    fn detach(&mut self, mb: usize, tables: &mut impl TableMemory) {
        let Some(root) = self.root else { return };
        let entry = FirstLevel::decode(tables.read(&root, mb));
        tables.write(&root, mb, 0);
        if let FirstLevel::Table { table, .. } = entry {
            tables.free(table);
            self.second_tables -= 1;
        }
        self.private.remove(mb);
        self.global.remove(mb);
        self.coarse.remove(mb);
        self.supers.remove(mb);
    }

    /// Drops everything in `mb`.
    pub(crate) fn drop_megabyte(&mut self, mb: usize, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) {
        if self.is_populated(mb) {
            self.detach(mb, tables);
            tlb.flush_asid(self.asid);
        }
    }

    /// Drops what is there, as far as `budget` goes. Whether nothing is left.
    pub(crate) fn clear(&mut self, budget: &mut Budget, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) -> bool {
        let mut next = 0;
        while let Some(mb) = self.next_populated(next).filter(|_| budget.spend(1)) {
            self.detach(mb, tables);
            next = mb + 1;
        }
        let (given_back, none_borrowed) = self.give_back_all(budget, tables);
        if given_back || next != 0 {
            tlb.flush_asid(self.asid);
        }
        none_borrowed && self.is_empty()
    }

    /// Whether the first-level entry of `mb` is borrowed.
    pub(crate) fn has_borrowed(&self, mb: usize) -> bool {
        self.borrowed.contains(mb)
    }

    /// Borrows the first-level entry `word` of `mb`, if there is nothing.
    pub(crate) fn borrow(&mut self, mb: usize, word: u32, tables: &mut impl TableMemory) {
        if let Some(root) = self.root
            && !self.is_populated(mb)
            && !self.borrowed.contains(mb)
        {
            tables.write(&root, mb, word);
            self.borrowed.insert(mb);
        }
    }

    /// The same with all that `common` has.
    pub(crate) fn borrow_all(&mut self, common: &Self, tables: &mut impl TableMemory) {
        let (Some(root), Some(source)) = (self.root, common.root) else { return };
        let mut next = 0;
        let mut run = [0; RUN];
        while let Some(first) = common.global.next(next) {
            let mut length = 0;
            while length < run.len() && first + length < MEGABYTES {
                let mb = first + length;
                if !common.global.contains(mb) || self.is_populated(mb) {
                    break;
                }
                run[length] = tables.read(&source, mb);
                self.borrowed.insert(mb);
                length += 1;
            }
            tables.write_run(&root, first, &run[..length]);
            next = first + length.max(1);
        }
    }

    /// Invalidates the entry of `mb`, if it is borrowed. Whether it was: the caller flushes the ASID then.
    pub(crate) fn give_back(&mut self, mb: usize, tables: &mut impl TableMemory) -> bool {
        let borrowed = self.borrowed.contains(mb);
        if borrowed {
            self.borrowed.remove(mb);
            self.root.iter().for_each(|root| tables.write(root, mb, 0));
        }
        borrowed
    }

    /// The same with all that are borrowed, as far as `budget` goes. Whether there were any, and whether none is left.
    pub(crate) fn give_back_all(&mut self, budget: &mut Budget, tables: &mut impl TableMemory) -> (bool, bool) {
        let Some(root) = self.root else { return (false, true) };
        let mut next = 0;
        while let Some(first) = self.borrowed.next(next).filter(|_| budget.spend(1)) {
            next = first;
            while next < first + RUN && next < MEGABYTES && self.borrowed.contains(next) {
                self.borrowed.remove(next);
                next += 1;
            }
            tables.write_run(&root, first, &[0; RUN][..next - first]);
        }
        (next != 0, self.borrowed.is_empty())
    }

    /// Whether maintenance of any page of `mb` removes all that is there.
    pub(crate) fn goes_whole(&self, mb: usize, tables: &impl TableMemory) -> bool {
        let is_section = || matches!(self.first_level(mb, tables), FirstLevel::Section { .. });
        self.is_populated(mb) && (self.coarse.contains(mb) || is_section())
    }

    /// Drops every megabyte that holds an entry the guest did not mark global, as far as `budget` goes. Returns how
    /// many went, and whether that was all. With `keep_tables`, tables of small pages stay, empty.
    pub(crate) fn clear_private(
        &mut self,
        keep_tables: bool,
        budget: &mut Budget,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) -> (u64, bool) {
        let (mut dropped, mut next, mut done) = (0, 0, true);
        while let Some(mb) = self.private.next(next) {
            done = budget.spend(CLEAR_TABLE);
            if !done {
                break;
            }
            match self.first_level(mb, tables) {
                FirstLevel::Table { table, .. } if keep_tables && !self.coarse.contains(mb) => tables.clear(&table),
                _ => self.detach(mb, tables),
            }
            next = mb + 1;
            dropped += 1;
        }
        if dropped != 0 {
            tlb.flush_asid(self.asid);
        }
        (dropped, done)
    }

    /// Whether [`Self::invalidate_page`] can have anything to do: most spaces hold nothing there.
    pub(crate) fn concerns(&self, va: u32, asid_matches: bool) -> bool {
        let mb = (va >> 20) as usize;
        self.global.contains(mb) || asid_matches && self.private.contains(mb) || self.supers.group16(mb) != 0
    }

    /// Forgets what came from the guest entry that maps `va`: all of it, whatever its size. Where `asid_matches` is
    /// false, only if it may have been global.
    pub(crate) fn invalidate_page(
        &mut self,
        va: u32,
        asid_matches: bool,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) {
        let mb = (va >> 20) as usize;
        // Pieces of a supersection may be in any of its sixteen megabytes, and not in this one.
        let mut pieces = self.supers.group16(mb);
        if !asid_matches {
            pieces &= self.global.group16(mb);
        }
        if pieces != 0 {
            for offset in (0..16).filter(|offset| pieces >> offset & 1 != 0) {
                self.detach((mb & !15) + offset, tables);
            }
            tlb.flush_asid(self.asid);
        }
        if !(self.global.contains(mb) || asid_matches && self.private.contains(mb)) {
            return;
        }
        match self.first_level(mb, tables) {
            FirstLevel::Invalid => {}
            FirstLevel::Table { table, .. } if !self.coarse.contains(mb) => {
                let index = (va >> 12 & 0xff) as usize;
                let word = tables.read(&table, index);
                if word != 0 {
                    host::entries_with(word, index).for_each(|index| tables.write(&table, index, 0));
                    tlb.flush_page(va & !0xfff, self.asid);
                }
            }
            FirstLevel::Table { .. } | FirstLevel::Section { .. } => self.drop_megabyte(mb, tables, tlb),
        }
    }

    /// Takes the writable section that maps host megabyte `base` out of `mb`, if it is there.
    pub(crate) fn drop_writable_section(
        &mut self,
        mb: usize,
        base: HostPa,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) {
        if self.has_writable_section(mb, base, tables) {
            self.drop_megabyte(mb, tables, tlb);
        }
    }

    /// Whether a writable section maps host megabyte `base` there.
    pub(crate) fn has_writable_section(&self, mb: usize, base: HostPa, tables: &impl TableMemory) -> bool {
        self.is_populated(mb) && self.first_level(mb, tables) == (FirstLevel::Section { base, writable: true })
    }

    /// Whether virtual page `number` is host page `base`, writable. Sections do not count.
    pub(crate) fn maps_writable(&self, number: u32, base: HostPa, tables: &impl TableMemory) -> bool {
        let mb = (number >> 8) as usize;
        if !self.is_populated(mb) {
            return false;
        }
        let FirstLevel::Table { table, .. } = self.first_level(mb, tables) else { return false };
        host::is_writable_page(tables.read(&table, (number & 0xff) as usize), base)
    }

    /// Forgets that, if it is so.
    pub(crate) fn forget_writable(
        &mut self,
        number: u32,
        base: HostPa,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) {
        if !self.maps_writable(number, base, tables) {
            return;
        }
        if let FirstLevel::Table { table, .. } = self.first_level((number >> 8) as usize, tables) {
            tables.write(&table, (number & 0xff) as usize, 0);
            tlb.flush_page(number << 12, self.asid);
        }
    }

    /// Forgets that virtual page `number` may be executed, if it may, and what is mapped as one with it.
    pub(crate) fn forget_executable(&mut self, number: u32, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) {
        let (mb, index) = ((number >> 8) as usize, (number & 0xff) as usize);
        if !self.is_populated(mb) {
            return;
        }
        let FirstLevel::Table { table, .. } = self.first_level(mb, tables) else { return };
        let word = tables.read(&table, index);
        if host::is_executable_page(word) {
            host::entries_with(word, index).for_each(|index| tables.write(&table, index, 0));
            tlb.flush_page(number << 12, self.asid);
        }
    }

    /// Takes write permission from the small page at `index` of `mb`, or from all of them, if they map host page `base`
    /// writable.
    pub(crate) fn downgrade(
        &mut self,
        mb: usize,
        index: Option<usize>,
        base: HostPa,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) {
        if !self.is_populated(mb) {
            return;
        }
        let FirstLevel::Table { table, .. } = self.first_level(mb, tables) else { return };
        for index in index.map_or(0..SECOND_LEVEL_BYTES / 4, |index| index..index + 1) {
            let word = tables.read(&table, index);
            if host::is_writable_page(word, base) {
                // Only permissions change, so there is no need to break the entry first (ARM ARM B3.10.1).
                tables.write(&table, index, host::read_only_page(word));
                tlb.flush_page((mb as u32) << 20 | (index as u32) << 12, self.asid);
            }
        }
    }

    /// Whether there is a second-level table in `mb`, which is populated.
    pub(crate) fn has_table(&self, mb: usize, tables: &impl TableMemory) -> bool {
        matches!(self.first_level(mb, tables), FirstLevel::Table { .. })
    }

    /// Takes over the guest-global sections of `other`, a space that differs only in what a process switch changes. A
    /// TLB would do the same: its global entries survive the switch.
    fn adopt_global_sections(&mut self, other: &Self, tables: &mut impl TableMemory) {
        let (Some(root), Some(source)) = (self.root, other.root) else { return };
        let mut next = 0;
        let mut run = [0; 16];
        while let Some(first) = other.global.next(next) {
            let mut length = 0;
            while length < run.len() {
                let mb = first + length;
                if mb >= MEGABYTES || !other.global.contains(mb) {
                    break;
                }
                run[length] = tables.read(&source, mb);
                // A section is one entry: if it is global, nothing in its megabyte is private.
                if !matches!(FirstLevel::decode(run[length]), FirstLevel::Section { .. }) {
                    break;
                }
                self.global.insert(mb);
                if other.supers.contains(mb) {
                    self.supers.insert(mb);
                }
                length += 1;
            }
            if length != 0 {
                tables.write_run(&root, first, &run[..length]);
            }
            // A run that broke off did so at a megabyte that is not to be copied.
            next = if length == run.len() { first + length } else { first + length + 1 };
        }
    }
}

/// A place for a shadowed address space. It owns its two host ASIDs for good, so that no ASID can ever name the
/// entries of two spaces; the tables come when the place is first used, and are reused by its next tenant.
pub(crate) struct Space {
    pub(crate) key: Option<Key>,
    /// By [`Separation::table_of`]; the second is empty where there is one for both views.
    pub(crate) views: [ViewTables; 2],
    separation: Separation,
    /// The guest invalidated everything since this space was last active: its content must go before it is used again.
    pub(crate) stale: bool,
    /// Entries filled for the present tenant.
    pub(crate) fills: u64,
    /// There was a TLBIASID for the present tenant.
    pub(crate) flushed: bool,
}

impl Space {
    pub(crate) const fn new(asids: [u8; 2], separation: Separation) -> Self {
        let [kernel, user] = asids;
        Self {
            key: None,
            separation,
            views: [ViewTables::new(kernel), ViewTables::new(user)],
            stale: false,
            fills: 0,
            flushed: false,
        }
    }

    pub(crate) const fn view(&self, view: View) -> &ViewTables {
        &self.views[self.separation.table_of(view)]
    }

    pub(crate) const fn view_mut(&mut self, view: View) -> &mut ViewTables {
        &mut self.views[self.separation.table_of(view)]
    }

    pub(crate) fn has_roots(&self) -> bool {
        self.views[0].root.is_some()
    }

    /// Whether its entries may be used or reached by maintenance: it has a tenant, and is not waiting to be swept.
    pub(crate) fn is_live(&self) -> bool {
        self.key.is_some() && !self.stale
    }

    /// Whether it has entries of the guest that a TLB operation can concern: the flat space does not.
    pub(crate) fn is_translated(&self) -> bool {
        self.key.is_some_and(|key| key != Key::FLAT)
    }

    pub(crate) fn holds_private(&self) -> bool {
        self.views.iter().any(ViewTables::holds_private)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.views.iter().all(ViewTables::is_empty)
    }

    /// Gets first-level tables with the hypervisor region's entries in them. Leaves nothing behind if there is no
    /// memory.
    pub(crate) fn alloc_roots(&mut self, regions: &[(usize, [&[u32]; 2])], tables: &mut impl TableMemory) -> bool {
        let count = self.separation.tables();
        for (number, view) in self.views[..count].iter_mut().enumerate() {
            view.root = tables.alloc(FIRST_LEVEL_BYTES);
            let Some(root) = &view.root else { break };
            for (first, entries) in regions {
                tables.write_run(root, *first, entries[number]);
            }
        }
        let complete = self.views[..count].iter().all(|view| view.root.is_some());
        if !complete {
            self.views.iter_mut().filter_map(|view| view.root.take()).for_each(|root| tables.free(root));
        }
        complete
    }

    /// Stores first-level entries of the kernel view, if the space has tables, from that megabyte on.
    pub(crate) fn write_kernel(
        &self,
        first: usize,
        entries: &[u32],
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) {
        let view = &self.views[self.separation.table_of(View::Kernel)];
        if let Some(root) = &view.root {
            tables.write_run(root, first, entries);
            tlb.flush_asid(view.asid);
        }
    }

    /// Drops all entries, as far as `budget` goes. If none is left, the space is no longer stale, and the answer is
    /// true.
    pub(crate) fn clear(&mut self, budget: &mut Budget, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) -> bool {
        let done = self.views.iter_mut().all(|view| view.clear(budget, tables, tlb));
        if done {
            self.stale = false;
            self.fills = 0;
            self.flushed = false;
        }
        done
    }

    /// Drops everything, tables and tenant included, as far as `budget` goes. Whether nothing is left.
    pub(crate) fn release(
        &mut self,
        budget: &mut Budget,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) -> bool {
        self.key = None;
        self.stale = true;
        if !self.clear(budget, tables, tlb) {
            return false;
        }
        for view in &mut self.views {
            if let Some(root) = view.root.take() {
                // The walker may have cached the hypervisor region's entries of this root.
                tlb.flush_asid(view.asid);
                tables.free(root);
            }
        }
        true
    }

    pub(crate) fn adopt_global_sections(&mut self, other: &Self, tables: &mut impl TableMemory) {
        for (view, source) in self.views.iter_mut().zip(&other.views) {
            view.adopt_global_sections(source, tables);
        }
    }
}
