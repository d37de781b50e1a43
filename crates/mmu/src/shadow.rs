//! The shadow tables of one guest: which spaces exist, which is active, and what the guest's own maintenance does.
//!
//! While a guest runs, the host's TTBR0 points to a first-level table from here: that of the active *space* (one per
//! setting of the guest's translation registers) and the current *view* (kernel or user). Entries appear on demand, in
//! `fill.rs`, when the guest trips over a missing one. They disappear for three reasons: the guest did TLB
//! maintenance (here), a page must be write-protected (`protect.rs`), or memory is short (here).
//!
//! The contract with the guest is that of a real TLB, no more and no less: a translation may be remembered until the
//! guest invalidates it, and invalid entries are never remembered. So nothing here watches guest tables.
//!
//! # Spaces
//! A process switch must be a table switch, so spaces are kept, up to a limit, and reused least recently used first.
//! Guests change TTBR0 and ASID in separate instructions; Linux passes through its kernel tables in between, with the
//! old ASID and then the new one. A space without private (nG = 1) entries means the same under every ASID, so such a
//! space is *renamed* instead of joined by a second one, and the passage costs nothing. A new space takes over the
//! global sections of the one before it, as those would stay in a real TLB.
//!
//! # Cost of maintenance
//! A guest chooses how often it invalidates. TLBIALL sweeps the active space, in proportion to what is populated
//! there, and only marks the others; they are swept when they are next activated.

use crate::bitmap::{MEGABYTES, MegabyteSet};
use crate::common::Common;
use crate::guest::regime::Regime;
use crate::guest::walk::PageSize;
use crate::papers::{Separation, Tracked};
use crate::piece::{Budget, Pending};
use crate::ram::{Chunk, Ram, RamError};
use crate::space::{Key, Space, View};
use crate::stats::Stats;
use crate::table::{HostTlb, OutOfTables, SECOND_LEVEL_BYTES, Table, TableMemory};
use crate::trapped::Trapped;
use crate::watched::Watched;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use spica_addr::{GuestPa, GuestVa, HostPa};

/// What a [`Shadow`] must know about its guest and about the host's address space.
#[derive(Clone, Debug)]
pub struct Config<'a> {
    /// The guest's RAM. Host memory of two chunks must not overlap: write protection goes by guest page.
    pub ram: &'a [Chunk],
    /// The first megabyte (virtual address divided by 1 MiB) of the hypervisor region, the hypervisor's part of the
    /// address space.
    pub region_first_mb: usize,
    /// The first-level entries of the hypervisor region in the kernel view, one per megabyte. Copied into every table,
    /// never changed afterwards.
    pub region_kernel: &'a [u32],
    /// The same for the user view; as many entries.
    pub region_user: &'a [u32],
    /// The host ASIDs that belong to this guest: no other guest, nor the hypervisor, may use them. 0 is not for use.
    /// Two per space.
    pub asids: RangeInclusive<u8>,
    /// How many spaces to keep at most.
    pub max_spaces: usize,
    /// Whether all spaces have the kernel's global mappings in common.
    pub share_kernel: bool,
    /// Whether it is known page by page where in the kernel's range TLB maintenance has something to do; else it always
    /// may.
    pub watch_pages: bool,
    /// Whether second-level tables may stay where TLBIASID empties them.
    pub keep_tables: bool,
    /// How the two views are kept apart.
    pub separation: Separation,
    /// How much is done in one piece: in first-level entries that are dropped, which take some hundred instructions
    /// each.
    pub piece: u32,
}

/// Megabytes of a code region, at most ([`Shadow::move_code`]).
const MOST_CODE: usize = 8;

/// A mistake in a [`Config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The RAM chunks do not fit together.
    Ram(RamError),
    /// The two lists of region entries differ in length, or the hypervisor region passes the end of the address space;
    /// or they cannot share a table, where the separation asks for that.
    Region,
    /// ASID 0 is in the range.
    AsidZero,
    /// There is no space at all, or the ASIDs do not suffice for two per space.
    Spaces,
}

/// Which spaces are not what they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// A bit for each of the first 64.
    spaces: u64,
    /// All under this ASID, too.
    asid: Option<u8>,
}

impl Changed {
    const ALL: Self = Self { spaces: u64::MAX, asid: None };

    const fn one(index: usize) -> Self {
        if index < u64::BITS as usize { Self { spaces: 1 << index, asid: None } } else { Self::ALL }
    }

    /// Whether the space of that number and ASID is among them.
    #[must_use]
    pub fn concerns(&self, index: usize, asid: u32) -> bool {
        index >= u64::BITS as usize
            || self.spaces >> index & 1 != 0
            || self.asid.is_some_and(|own| u32::from(own) == asid)
    }

    fn add(&mut self, other: Self) {
        self.spaces |= other.spaces;
        match (self.asid, other.asid) {
            (Some(one), Some(another)) if one != another => *self = Self::ALL,
            (None, asid) => self.asid = asid,
            _ => {}
        }
    }
}

/// What to run a view with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// The first-level table, without any attribute bits of TTBR0.
    pub ttbr0: HostPa,
    /// The host ASID. Never 0.
    pub asid: u8,
}

/// The shadow tables of one guest.
pub struct Shadow {
    pub(crate) ram: Ram,
    region_first_mb: usize,
    region_kernel: Vec<u32>,
    region_user: Vec<u32>,
    code_first_mb: usize,
    code_kernel: Vec<u32>,
    pub(crate) share_kernel: bool,
    keep_tables: bool,
    pub(crate) separation: Separation,
    /// Which pages of the guest's tables are write-protected, where that is how changed mappings are learnt of.
    pub(crate) tracked: Tracked,
    pub(crate) spaces: Vec<Space>,
    pub(crate) common: Common,
    pub(crate) active: Option<usize>,
    /// How often [`Self::activate`] was called: see [`Self::victim`].
    clock: u32,
    /// What of the guest's DACR is baked into entries: see [`Separation::baked_dacr`].
    pub(crate) baked_dacr: u32,
    /// The domains under which entries of the user view were made, or may have been: see [`Separation::open_to_user`].
    pub(crate) open_to_user: u32,
    /// Megabytes in which any space ever had an entry: the guest may maintain the TLB for much that it never used.
    pub(crate) touched: MegabyteSet,
    /// Of these, the ones that ever had a global entry.
    pub(crate) global: MegabyteSet,
    /// See [`Shadow::generation`].
    generation: u32,
    /// See [`Shadow::take_changed`].
    changed: Changed,
    /// Where TLB maintenance by address is more than the removal of a small page of the active space.
    pub(crate) watched: Box<Watched>,
    pub(crate) stats: Stats,
    pub(crate) pending: Pending,
    pub(crate) piece: u32,
    /// A ROM may be mapped.
    pub(crate) rom_filled: bool,
    pub(crate) trapped: Trapped,
}

/// Why there is no second-level table.
pub(crate) enum NoTable {
    /// More spaces are to be given up, which is too much for one go.
    Yet,
    /// Nothing is left to be given up.
    Ever,
}

impl Shadow {
    /// Bytes of memory for the record of a space.
    pub const SPACE_BYTES: usize = size_of::<Space>();

    /// A guest without any space; it needs [`Shadow::activate`] before anything else. Allocates no table.
    ///
    /// # Errors
    /// What is wrong with `config`.
    pub fn new(config: &Config<'_>) -> Result<Self, ConfigError> {
        let region = config.region_kernel.len();
        if config.region_user.len() != region
            || config.region_first_mb > MEGABYTES
            || region > MEGABYTES - config.region_first_mb
        {
            return Err(ConfigError::Region);
        }
        if config.asids.contains(&0) {
            return Err(ConfigError::AsidZero);
        }
        if config.max_spaces == 0 || config.asids.clone().count() / 2 < config.max_spaces {
            return Err(ConfigError::Spaces);
        }
        let first = *config.asids.start();
        // In range: asids has two for each.
        let separation = config.separation;
        let space = |index: usize| Space::new([first + 2 * index as u8, first + 2 * index as u8 + 1], separation);
        let region_entries = config.region_kernel.iter().zip(config.region_user);
        let region_kernel: Option<Vec<_>> =
            region_entries.map(|(&kernel, &user)| separation.region_entry(kernel, user)).collect();
        Ok(Self {
            ram: Ram::new(config.ram).map_err(ConfigError::Ram)?,
            region_first_mb: config.region_first_mb,
            region_kernel: region_kernel.ok_or(ConfigError::Region)?,
            region_user: config.region_user.to_vec(),
            code_first_mb: 0,
            code_kernel: Vec::with_capacity(MOST_CODE),
            share_kernel: config.share_kernel,
            keep_tables: config.keep_tables,
            separation,
            tracked: Tracked::OFF,
            spaces: (0..config.max_spaces).map(space).collect(),
            common: Common::new(),
            active: None,
            clock: 0,
            baked_dacr: 0,
            open_to_user: 0,
            touched: MegabyteSet::new(),
            global: MegabyteSet::new(),
            generation: 0,
            changed: Changed::default(),
            // The hypervisor region's tables are not the guest's.
            watched: Watched::new(config.region_first_mb..config.region_first_mb + region, config.watch_pages),
            stats: Stats::default(),
            pending: Pending::default(),
            piece: config.piece,
            rom_filled: false,
            trapped: Trapped::NONE,
        })
    }

    /// Gives all tables back, by and by: see [`Shadow::settle`]. The guest must not run until [`Shadow::activate`] is
    /// called again.
    pub fn release(&mut self, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) {
        self.release_all_tables(tables, tlb);
        self.active = None;
        self.mark_stale(Space::has_roots);
        for space in &mut self.spaces {
            space.key = None;
        }
        self.begin_release();
        self.settle(tables, tlb);
    }

    /// The hypervisor region of the kernel view has other first-level entries from now on, as many as before. And so
    /// has the *code region*, whose first megabyte comes with them: code of the hypervisor's that is to be near the
    /// guest's. It counts as a part of the hypervisor region, and the user view has nothing there. Where it was before,
    /// memory is the guest's again. Of all of it, the host's TLB may hold what was there, until the caller has it
    /// forget everything.
    ///
    /// # Errors
    /// As [`Self::new`], or if the code region is not in front of the hypervisor region. Nothing has changed then.
    pub fn move_code(
        &mut self,
        region_kernel: &[u32],
        code_region: Option<(usize, &[u32])>,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) -> Result<(), ConfigError> {
        let separation = self.separation;
        let entries = || region_kernel.iter().zip(&self.region_user).map(|(&k, &u)| separation.region_entry(k, u));
        let (first_mb, code) = code_region.unwrap_or((0, &[]));
        let code_entries = || code.iter().map(|&kernel| separation.region_entry(kernel, 0));
        if region_kernel.len() != self.region_kernel.len()
            || entries().chain(code_entries()).any(|entry| entry.is_none())
            || code.len() > MOST_CODE
            || first_mb > self.region_first_mb
            || code.len() > self.region_first_mb - first_mb
        {
            return Err(ConfigError::Region);
        }
        for (place, entry) in self.region_kernel.iter_mut().zip(entries().flatten()) {
            *place = entry;
        }
        // What the guest had there goes.
        for mb in first_mb..first_mb + code.len() {
            for space in &mut self.spaces {
                space.views.iter_mut().for_each(|view| view.drop_megabyte(mb, tables, tlb));
            }
            (0..self.common.views.len()).for_each(|table| self.drop_common(table, mb, tables, tlb));
        }
        self.code_kernel.fill(0);
        self.spaces.iter().for_each(|space| space.write_kernel(self.code_first_mb, &self.code_kernel, tables, tlb));
        self.code_kernel.clear();
        self.code_kernel.extend(code_entries().flatten());
        self.code_first_mb = first_mb;
        for space in &self.spaces {
            space.write_kernel(self.code_first_mb, &self.code_kernel, tables, tlb);
            space.write_kernel(self.region_first_mb, &self.region_kernel, tables, tlb);
        }
        self.change(Changed::ALL);
        Ok(())
    }

    /// The guest's translation registers are now `regime`: finds its space, or makes one, and makes it the active one.
    /// To be called when SCTLR, TTBR0, TTBR1, TTBCR or the ASID changed; [`Shadow::root`] must be asked again then.
    ///
    /// # Errors
    /// [`OutOfTables`] if there is no memory even after every other space was given up. No space is active then, and
    /// the guest cannot run.
    pub fn activate(
        &mut self,
        regime: &Regime,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) -> Result<(), OutOfTables> {
        if regime.mmu_on() {
            self.set_dacr(regime.dacr, tables, tlb);
        }
        let key = Key::of(regime);
        self.clock = self.clock.wrapping_add(1);
        if self.active.is_some_and(|index| self.spaces[index].key == Some(key)) {
            return Ok(());
        }
        let index = match self.find(key) {
            Some(index) => index,
            None => self.create(key, tables, tlb)?,
        };
        self.active = Some(index);
        if self.spaces[index].stale {
            self.unsettle();
            self.settle(tables, tlb);
        }
        Ok(())
    }

    /// The space for `key`; a space that holds nothing ASID-specific is as good under any ASID, and takes the new one.
    fn find(&mut self, key: Key) -> Option<usize> {
        if let Some(index) = self.spaces.iter().position(|space| space.key == Some(key)) {
            return Some(index);
        }
        let index = self.spaces.iter().position(|space| {
            let same_tables = space.key.is_some_and(|other| other.same_tables(&key));
            same_tables && (space.stale || !space.holds_private())
        })?;
        // Of another generation it need not be: it is as good under the old ASID, until it holds what is not.
        self.spaces[index].key = Some(key);
        self.spaces[index].flushed = false;
        self.stats.spaces_renamed += 1;
        Some(index)
    }

    /// A space for `key`, in an unused place or in that of the space least worth keeping.
    fn create(
        &mut self,
        key: Key,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) -> Result<usize, OutOfTables> {
        let region: [&[u32]; 2] = [&self.region_kernel, &self.region_user];
        let code: [&[u32]; 2] = [&self.code_kernel, &[]];
        let regions = [(self.region_first_mb, region), (self.code_first_mb, code)];
        let unused = self.spaces.iter().position(|space| !space.has_roots());
        let fresh = unused.filter(|&index| self.spaces[index].alloc_roots(&regions, tables));
        let index = match fresh {
            Some(index) => index,
            None => {
                let Some(victim) = self.victim() else {
                    self.active = None;
                    return Err(OutOfTables);
                };
                if self.spaces[victim].key.is_some() {
                    self.stats.spaces_evicted += 1;
                }
                self.spaces[victim].key = None;
                self.spaces[victim].stale = true;
                self.spaces[victim].clear(&mut Budget::new(self.piece), tables, tlb);
                victim
            }
        };
        // Not where the new space took the active one's place.
        // What a TLB holds still need not be what the new tables say, which is what is shadowed where writes are
        // tracked.
        if !self.tracked.is_on()
            && let Some(active) = self.active
            && let Ok([space, before]) = self.spaces.get_disjoint_mut([index, active])
            && !space.stale
            && !before.stale
            && before.key.is_some_and(|old| old.same_kernel(&key))
        {
            space.adopt_global_sections(before, tables);
        }
        self.spaces[index].key = Some(key);
        if !self.spaces[index].stale {
            self.lend_all(index, tables);
        }
        self.stats.spaces_created += 1;
        self.change(Changed::one(index));
        Ok(index)
    }

    /// The space whose loss costs least, the active one last: what waits to be swept, then what was never filled, then
    /// any. What was not used for longest would be the very one that is needed next where more processes take turns
    /// than there are spaces.
    fn victim(&self) -> Option<usize> {
        let worth = |index: usize, space: &Space| (self.active == Some(index), space.is_live(), space.fills != 0);
        let candidates = || self.spaces.iter().enumerate().filter(|(_, space)| space.has_roots());
        let least = candidates().map(|(index, space)| worth(index, space)).min()?;
        let of_those = || candidates().filter(|&(index, space)| worth(index, space) == least);
        let count = of_those().count().max(1);
        // Any numbers will do (Knuth, The Art of Computer Programming, 6.4: multiplicative hashing).
        let hash = self.clock.wrapping_mul(0x9e37_79b1);
        of_those().nth((hash >> 16) as usize % count).map(|(index, _)| index)
    }

    /// Makes room in table memory: releases the space least worth keeping; if only the active one is left, empties it;
    /// as far as `budget` goes. False when there was nothing left to give.
    fn reclaim(&mut self, budget: &mut Budget, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) -> bool {
        let Some(victim) = self.victim() else { return false };
        self.change(Changed::ALL);
        if self.active == Some(victim) {
            let had_entries = !self.spaces[victim].is_empty() || !self.common.is_empty();
            self.stats.active_emptied += u64::from(had_entries);
            if self.clear_common(budget, tables, tlb) {
                self.spaces[victim].clear(budget, tables, tlb);
            }
            return had_entries;
        }
        self.stats.spaces_evicted += u64::from(self.spaces[victim].key.is_some());
        self.spaces[victim].release(budget, tables, tlb);
        true
    }

    /// A second-level table, at other spaces' expense if need be.
    pub(crate) fn alloc_second(
        &mut self,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) -> Result<Table, NoTable> {
        let mut budget = Budget::new(self.piece);
        loop {
            if let Some(table) = tables.alloc(SECOND_LEVEL_BYTES) {
                return Ok(table);
            }
            if budget.is_spent() {
                return Err(NoTable::Yet);
            }
            if !self.reclaim(&mut budget, tables, tlb) {
                return Err(NoTable::Ever);
            }
        }
    }

    /// The active space's table and ASID for `view`. Stays the same until the next [`Shadow::activate`] or
    /// [`Shadow::release`].
    ///
    /// # Panics
    /// If no space is active.
    #[must_use]
    pub fn root(&self, view: View) -> Root {
        let view = self.spaces[self.active_index()].view(view);
        let root = view.root.expect("the active space has tables");
        Root { ttbr0: root.pa, asid: view.asid }
    }

    pub(crate) fn active_index(&self) -> usize {
        self.active.expect("no space is active: Shadow::activate must come first")
    }

    /// Whether `key` is the active space's: what [`Shadow::fill`] requires of its regime.
    pub(crate) fn is_active(&self, key: Key) -> bool {
        self.spaces[self.active_index()].key == Some(key)
    }

    /// Whether `va` lies in the hypervisor's part of the address space.
    #[must_use]
    pub fn in_region(&self, va: GuestVa) -> bool {
        let mb = (va.0 >> 20) as usize;
        mb.wrapping_sub(self.region_first_mb) < self.region_kernel.len()
            || mb.wrapping_sub(self.code_first_mb) < self.code_kernel.len()
    }

    /// Where guest RAM at `pa` really lies; `None` where the guest has none.
    #[must_use]
    pub fn host(&self, pa: GuestPa) -> Option<HostPa> {
        self.ram.host(pa)
    }

    /// Whether [`Shadow::invalidate_page`] must be called for `va`. Elsewhere there is less to do: from
    /// [`PAGEWISE_FROM`] on nothing, whatever the ASID. Below, if [`Shadow::sole_asid`] is the ASID, it comes to this:
    /// the small page's entry is cleared in both views of the active space, if it is there.
    ///
    /// [`PAGEWISE_FROM`]: crate::PAGEWISE_FROM
    #[must_use]
    pub fn is_watched(&self, va: GuestVa) -> bool {
        self.watched.contains(va)
    }

    /// The megabytes that are watched below [`PAGEWISE_FROM`](crate::PAGEWISE_FROM): bit `n % 32` of word `n / 32`.
    #[must_use]
    pub fn watched_megabytes(&self) -> &[u32; 128] {
        self.watched.megabytes()
    }

    /// The pages that are watched from [`PAGEWISE_FROM`](crate::PAGEWISE_FROM) on, a bit each, from there. They stay
    /// where they are.
    #[must_use]
    pub fn watched_pages(&self) -> &[u32] {
        self.watched.pages()
    }

    /// Maintenance of the page at `va`, which is as large as `size`, concerns others than this:
    /// [`Shadow::invalidate_page`] must be called, once, or if the page is not a small one, always.
    pub fn watch(&mut self, va: GuestVa, size: PageSize) {
        match size {
            PageSize::Small4K => self.watched.for_others(va),
            // Maintenance at any place in it removes all of it (B4.2.2).
            _ => self.watched.sixteen(va),
        }
    }

    /// The guest's ASID, if no space but the active one has entries under it.
    #[must_use]
    pub fn sole_asid(&self) -> Option<u8> {
        let asid = self.spaces[self.active?].key.filter(|&key| key != Key::FLAT)?.asid;
        let others = self.spaces.iter().enumerate().filter(|&(index, _)| self.active != Some(index));
        let mut same = others.filter(|(_, space)| space.key.is_some_and(|key| key.asid == asid) && space.is_live());
        // What is global is watched.
        (!same.any(|(_, space)| space.holds_private())).then_some(asid)
    }

    /// Whether the active space has entries that are good under its ASID only.
    #[must_use]
    pub fn holds_private(&self) -> bool {
        self.spaces[self.active_index()].holds_private()
    }

    /// A number that changes whenever a space stands for something else than before, is to be swept before it is used,
    /// or first holds entries of its ASID only: whoever remembers [`Shadow::root`] and [`Shadow::sole_asid`] of a space
    /// that is not active, to switch to it without asking, must forget those of [`Shadow::take_changed`] then.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Which spaces that concerns, since this was last asked.
    pub fn take_changed(&mut self) -> Changed {
        core::mem::take(&mut self.changed)
    }

    /// The number of the active space, for [`Changed::concerns`].
    ///
    /// # Panics
    /// If none is active.
    #[must_use]
    pub fn active_space(&self) -> usize {
        self.active_index()
    }

    fn change(&mut self, changed: Changed) {
        self.generation = self.generation.wrapping_add(1);
        self.changed.add(changed);
    }

    /// The active space is about to hold the first entries of its ASID only. It was good under any before; and other
    /// spaces of that ASID are not the only ones any more.
    pub(crate) fn first_private(&mut self) {
        let active = self.active_index();
        let asid = self.spaces[active].key.map(|key| key.asid);
        self.change(Changed { asid, ..Changed::one(active) });
    }

    /// Guest TLBIALL: everything goes. The active space is swept by [`Shadow::settle`], the others when they are next
    /// used.
    pub fn invalidate_all(&mut self, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) {
        self.stats.invalidate_all += 1;
        self.drop_translations(tables, tlb);
        self.watched.forget_all();
    }

    /// Drops what came from guest tables. The flat space has nothing from there.
    fn drop_translations(&mut self, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) {
        self.drop_spaces(Space::is_translated, tables, tlb);
    }

    /// Drops what is in those spaces: by [`Shadow::settle`], which is called once, or before they are next used.
    pub(crate) fn drop_spaces(
        &mut self,
        which: impl Fn(&Space) -> bool,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) {
        self.mark_stale(which);
        self.settle(tables, tlb);
    }

    /// Of those spaces and of what all have in common, nothing is to be used any more.
    pub(crate) fn mark_stale(&mut self, which: impl Fn(&Space) -> bool) {
        self.change(Changed::ALL);
        self.common.stale = true;
        self.spaces.iter_mut().filter(|space| which(space)).for_each(|space| space.stale = true);
        self.unsettle();
    }

    /// Guest TLBIMVA (with `asid`) or TLBIMVAA (without): whatever guest entry maps `va` goes, all of it. With an ASID,
    /// entries of other ASIDs stay unless they are global.
    pub fn invalidate_page(
        &mut self,
        va: GuestVa,
        asid: Option<u8>,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) {
        self.invalidate_pages(va, 1, asid, tables, tlb);
    }

    /// [`Self::invalidate_page`] of `count` pages in a row from that at `first`, all of the same megabyte.
    ///
    /// # Panics
    /// In debug builds, if they are not.
    pub fn invalidate_pages(
        &mut self,
        first: GuestVa,
        count: u32,
        asid: Option<u8>,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) {
        debug_assert!((1..=256 - (first.0 >> 12 & 0xff)).contains(&count), "{count} pages from {first:?}");
        self.stats.invalidate_page += u64::from(count);
        let pages = || (0..count).map(move |page| GuestVa(first.0 + (page << 12)));
        // A supersection's pieces may be in any of its sixteen megabytes.
        let group = (first.0 >> 20) as usize;
        if self.touched.group16(group) == 0 {
            pages().for_each(|va| self.watched.forget(va, true));
            return;
        }
        // Where no entry was ever global, only the spaces of the ASID are concerned: one, in general.
        let global = self.global.group16(group) != 0;
        let mut all_gone = true;
        for space in &mut self.spaces {
            let Some(key) = space.key else { continue };
            // What waits to be swept is not seen any more; and of the flat space nothing is ever maintained.
            if space.stale || key == Key::FLAT {
                continue;
            }
            let matches = asid.is_none_or(|asid| key.asid == asid);
            for view in &mut space.views {
                if (matches || global) && view.concerns(first.0, matches) {
                    pages().for_each(|va| view.invalidate_page(va.0, matches, tables, tlb));
                }
                all_gone &= !view.is_populated(group);
            }
        }
        pages().for_each(|va| self.invalidate_common(va.0, tables, tlb));
        all_gone &= !self.common.views.iter().any(|view| view.is_populated(group));
        pages().for_each(|va| self.watched.forget(va, all_gone));
    }

    /// Guest TLBIASID: what is not global under `asid` goes. Megabytes with global entries only stay.
    ///
    /// Linux does that when a process forks, and when it ends. Who forks is going to use the same megabytes again, and
    /// may do so again and again: from the second time on, the tables stay.
    pub fn invalidate_asid(&mut self, asid: u8, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) {
        self.stats.invalidate_asid += 1;
        let mut budget = Budget::new(self.piece);
        let mut left = false;
        for space in self.spaces.iter_mut().filter(|space| space.is_live() && space.is_translated()) {
            if space.key.is_some_and(|key| key.asid == asid) {
                let keep_tables = core::mem::replace(&mut space.flushed, true) && self.keep_tables;
                for view in &mut space.views {
                    let (dropped, done) = view.clear_private(keep_tables, &mut budget, tables, tlb);
                    self.stats.megabytes_dropped += dropped;
                    // Too much for one go: all of it goes, later.
                    space.stale |= !done;
                }
                left |= space.stale;
            }
        }
        if left {
            self.change(Changed::ALL);
            self.unsettle();
        }
    }

    /// The guest's DACR is now `guest_dacr` (and its MMU is on, or DACR means nothing). Opening and closing domains
    /// costs nothing here; if a domain became manager or ceased to be, or domain 15 changed at all, every entry goes,
    /// and the answer is true.
    pub fn set_dacr(&mut self, guest_dacr: u32, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) -> bool {
        let baked = self.separation.baked_dacr(guest_dacr);
        if baked == self.baked_dacr {
            return false;
        }
        self.baked_dacr = baked;
        self.stats.dacr_drops += 1;
        self.drop_translations(tables, tlb);
        true
    }

    /// Whether the guest's user code can run under `guest_dacr` as it is: see [`Self::enter_user`].
    #[must_use]
    pub const fn is_open_to_user(&self, guest_dacr: u32) -> bool {
        self.open_to_user == self.separation.open_to_user(guest_dacr)
    }

    /// Whether `view` may have entries of the guest's `domain`: the user view, of those alone that were open to it.
    #[must_use]
    pub const fn may_hold(&self, view: View, domain: u8) -> bool {
        match (self.separation.dacr_of(View::User), view) {
            (View::Kernel, View::User) => self.open_to_user >> (2 * domain) & 1 != 0,
            _ => true,
        }
    }

    /// The guest's user code is about to run, with its MMU on, and its DACR is `guest_dacr`. That opens or closes
    /// nothing in the user view: so if it closes a domain under which entries there were made, every entry goes.
    pub fn enter_user(&mut self, guest_dacr: u32, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) {
        let open = self.separation.open_to_user(guest_dacr);
        let closed = core::mem::replace(&mut self.open_to_user, open) & !open;
        if closed != 0 {
            self.stats.dacr_drops += 1;
            self.drop_translations(tables, tlb);
        }
    }

    /// How the two views are kept apart.
    #[must_use]
    pub const fn separation(&self) -> Separation {
        self.separation
    }

    /// Spaces made so far.
    #[must_use]
    pub fn spaces_created(&self) -> u64 {
        self.stats.spaces_created
    }

    /// What happened so far, and what is in use now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats;
        stats.spaces_live = self.spaces.iter().filter(|space| space.is_live()).count() as u64;
        for view in self.spaces.iter().flat_map(|space| &space.views).chain(self.common.views.iter()) {
            stats.first_level_tables += u64::from(view.root.is_some());
            stats.second_level_tables += u64::from(view.second_tables());
        }
        stats
    }
}
