//! The other way to learn of changed mappings: not from the guest's TLB maintenance, but from its writes to its tables.
//!
//! Pages of the guest's tables that shadow entries come from are write-protected, as those are that code was translated
//! from. A reverse map says which entries. A write is emulated, and [`Shadow::table_written`] drops what came from the
//! descriptors that it changes. So the shadow never holds what the tables do not say, and TLB maintenance concerns it
//! no more. Two things bound the cost: a page that was written [`RELEASE_AFTER`] times in a row, without an entry that
//! came from it in between, is released, with all that came from it, until an entry comes from it again, for it may be
//! no table any more; and a page from which too much came is noted as such.
//!
//! Here to be compared (docs/memory.md), as other hypervisors without hardware's help do so: [`Tracking::Writes`].

use crate::guest::regime::Regime;
use crate::guest::walk::{GuestMemory, first_level_address, first_level_descriptor};
use crate::shadow::Shadow;
use crate::space::Space;
use crate::table::{HostTlb, TableMemory};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use spica_addr::{GuestPa, GuestVa};

/// How the shadow learns that a mapping has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tracking {
    /// By the guest's TLB maintenance.
    #[default]
    Maintenance,
    /// By its writes to its tables, which are write-protected.
    Writes,
}

/// So many writes to a page between two entries that come from it, and it is released.
const RELEASE_AFTER: u32 = 16;
/// So many megabytes of spaces that a page is known to be behind, and no more.
const MAX_USERS: usize = 64;
/// So many pages, and no more: then all are released.
const MAX_PAGES: usize = 4096;

/// What came from a page: entries of a megabyte of a space.
#[derive(Clone, Copy, PartialEq, Eq)]
struct User {
    /// The first-level descriptor, or the first of the second-level descriptors.
    at: u32,
    second_level: bool,
    space: u8,
    mb: u16,
}

impl User {
    const fn bytes(&self) -> u32 {
        if self.second_level { 1024 } else { 4 }
    }
}

#[derive(Default)]
struct TablePage {
    users: Vec<User>,
    /// There were more than [`MAX_USERS`]: anything may have come from it.
    many: bool,
    writes: u32,
    /// Code was translated from it, too.
    code: bool,
}

/// The most memory that the reverse map takes, in bytes: its pages, with what a B-tree of half-full nodes has around
/// them, and their users.
pub const TRACKED_BYTES: u32 =
    (MAX_PAGES * (2 * (size_of::<(u32, TablePage)>() + size_of::<u32>()) + MAX_USERS * size_of::<User>())) as u32;

/// The reverse map, where there is one: what is known of pages of the guest's tables, by page number.
pub(crate) struct Tracked(Option<BTreeMap<u32, TablePage>>);

impl Tracked {
    pub(crate) const OFF: Self = Self(None);

    /// Whether writes are tracked.
    pub(crate) const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    fn page(&self, pa: GuestPa) -> Option<&TablePage> {
        self.0.as_ref()?.get(&(pa.0 >> 12))
    }

    fn page_mut(&mut self, pa: GuestPa) -> Option<&mut TablePage> {
        self.0.as_mut()?.get_mut(&(pa.0 >> 12))
    }

    /// Whether code was translated from a page of tables; `None` for all others.
    pub(crate) fn code(&self, pa: GuestPa) -> Option<bool> {
        self.page(pa).map(|page| page.code)
    }

    /// The same, to be changed.
    pub(crate) fn code_mut(&mut self, pa: GuestPa) -> Option<&mut bool> {
        self.page_mut(pa).map(|page| &mut page.code)
    }
}

impl Shadow {
    /// How the shadow learns of changed mappings.
    #[must_use]
    pub const fn tracking(&self) -> Tracking {
        if self.tracked.is_on() { Tracking::Writes } else { Tracking::Maintenance }
    }

    /// Sets that, before anything comes from the guest's tables.
    ///
    /// # Panics
    /// If something did.
    pub fn set_tracking(&mut self, tracking: Tracking) {
        assert!(!self.spaces.iter().any(Space::is_translated), "what is shadowed already is not tracked");
        self.tracked = Tracked((tracking == Tracking::Writes).then(BTreeMap::new));
    }

    /// Whether the page that holds `pa` has descriptors that entries came from: who writes there calls
    /// [`Shadow::table_written`] behind it, or [`Shadow::release_table`] before it.
    #[must_use]
    pub fn is_table_page(&self, pa: GuestPa) -> bool {
        self.tracked.code(pa).is_some()
    }

    /// Entries of `va` in the active space are about to be made: protects the tables that they come from.
    pub(crate) fn track(
        &mut self,
        mem: &impl GuestMemory,
        regime: &Regime,
        va: GuestVa,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) {
        if !self.tracked.is_on() || !regime.mmu_on() {
            return;
        }
        if self.tracked.0.as_ref().is_some_and(|pages| pages.len() > MAX_PAGES - 2) {
            self.release_all_tables(tables, tlb);
        }
        let (space, mb) = (self.active_index() as u8, (va.0 >> 20) as u16);
        let Some(at) = first_level_address(regime, va.0) else { return };
        self.track_user(User { at, second_level: false, space, mb }, tables, tlb);
        if let Some(descriptor) = first_level_descriptor(mem, regime, va).filter(|word| word & 0b11 == 0b01) {
            let user = User { at: descriptor & 0xffff_fc00, second_level: true, space, mb };
            self.track_user(user, tables, tlb);
        }
    }

    fn track_user(&mut self, user: User, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) {
        let pa = GuestPa(user.at).page();
        let Some(host) = self.ram.host(pa) else { return };
        let Some(pages) = &mut self.tracked.0 else { return };
        let page = pages.entry(pa.0 >> 12).or_insert_with(|| TablePage {
            // What is protected, and not as a table, is so for its code.
            code: self.ram.is_protected(pa),
            ..TablePage::default()
        });
        page.writes = 0;
        if page.many || page.users.contains(&user) {
            return;
        }
        if page.users.len() == MAX_USERS {
            (page.users, page.many) = (Vec::new(), true);
        } else {
            page.users.push(user);
        }
        if self.ram.set_protected(pa, true) {
            self.stats.protections += 1;
            self.drop_writers(pa, host, tables, tlb);
        }
    }

    /// The `bytes` of guest memory at `pa` were written: drops what came from them.
    pub fn table_written(&mut self, pa: GuestPa, bytes: u32, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) {
        let Some(page) = self.tracked.page_mut(pa) else { return };
        self.stats.table_writes += 1;
        page.writes += 1;
        if page.writes > RELEASE_AFTER || page.many {
            self.release_table(pa, tables, tlb);
            return;
        }
        let (first, last) = (pa.0 & !3, pa.0.wrapping_add(bytes - 1));
        let concerned = |user: &&User| first < user.at.wrapping_add(user.bytes()) && last >= user.at;
        let Self { tracked, spaces, .. } = self;
        let users = tracked.page(pa).into_iter().flat_map(|page| &page.users);
        for user in users.filter(concerned) {
            for view in &mut spaces[usize::from(user.space)].views {
                if !user.second_level {
                    view.drop_megabyte(user.mb.into(), tables, tlb);
                    continue;
                }
                let mut at = first.max(user.at);
                while at <= last && at < user.at + user.bytes() {
                    let va = u32::from(user.mb) << 20 | (at - user.at) << 10;
                    view.invalidate_page(va, true, tables, tlb);
                    at += 4;
                }
            }
        }
    }

    /// The page that holds `pa` is going to be written as a whole, or in ways that nobody looks at: drops what came
    /// from it, and lets it be written.
    pub fn release_table(&mut self, pa: GuestPa, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) {
        let Some(page) = self.tracked.0.as_mut().and_then(|pages| pages.remove(&(pa.0 >> 12))) else { return };
        self.stats.tables_released += 1;
        if page.many {
            self.drop_spaces(Space::is_translated, tables, tlb);
        }
        for user in &page.users {
            for view in &mut self.spaces[usize::from(user.space)].views {
                view.drop_megabyte(user.mb.into(), tables, tlb);
            }
        }
        if !page.code {
            self.ram.set_protected(pa, false);
        }
    }

    /// The same for all, with every translation.
    pub(crate) fn release_all_tables(&mut self, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) {
        let Some(pages) = &mut self.tracked.0 else { return };
        for (number, page) in core::mem::take(pages) {
            if !page.code {
                self.ram.set_protected(GuestPa(number << 12), false);
            }
        }
        self.drop_spaces(Space::is_translated, tables, tlb);
    }
}
