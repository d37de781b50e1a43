//! The fast path of a fault: the ordinary cases of [`Shadow::fill`], and no others.
//!
//! Most faults of a running guest are for a small page with nG = 1, of a client domain, in a megabyte that has such
//! pages in the shadow already, or nothing, or they are for nothing at all: the guest pages on demand. For those, most
//! of what `fill` looks after is settled beforehand: the megabyte's notes are made, or there are none to be heeded, and
//! no space becomes another one. What remains is two loads from the guest's tables, one from each shadow table, and a
//! store; and now and then a new table. Everything else is [`FastFill::Other`], with nothing changed, and `fill`
//! decides; so this file may leave out what it likes, but whatever it answers must be what `fill` would have answered
//! (the part `mmu-shadow` of `spica prove` compares the two).

use crate::guest::fault::Fault;
use crate::guest::plain::{self, Page, Plain};
use crate::guest::regime::AccessKind;
use crate::guest::walk::{GuestMemory, PageSize, Permission};
use crate::host::{self, FirstLevel};
use crate::shadow::Shadow;
use crate::space::{Origin, View};
use crate::table::{HostTlb, SECOND_LEVEL_BYTES, Table, TableMemory};
use spica_addr::GuestVa;

/// What became of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum FastFill {
    /// The tables now allow the access: [`Fill::Mapped`](crate::Fill::Mapped).
    Mapped,
    /// The guest must see this: [`Fill::GuestFault`](crate::Fill::GuestFault).
    GuestFault(Fault),
    /// Ask [`Shadow::fill`].
    Other,
}

impl Shadow {
    /// The hints about writers, a word for each page from the guest's first megabyte of RAM up: 0xFFFF_FFFF, none;
    /// 0xFFFF_FFFE, any; up to 0xF_FFFF, only at this page number of the virtual address space; with 0x10_0000 added,
    /// only there, and at the page's place among the hints plus the word before the first hint; with 0x4000_0000 added
    /// to a number less than [`MAX_ALIASED`](crate::MAX_ALIASED), where [`Shadow::aliases`] says. Anything else has to
    /// be looked into. They stay where they are. Whoever makes a writable mapping without [`Shadow::fill`] keeps to
    /// them, and stores its number where there is none.
    pub fn page_hints(&mut self) -> *mut u32 {
        self.ram.page_hints()
    }

    /// What is known of pages at several virtual addresses: five words for each of [`MAX_ALIASED`](crate::MAX_ALIASED).
    /// Four are page numbers, or 0xFFFF_FFFF where there are fewer. A page that is mapped writable at one of them may
    /// be so again, if the fifth is counted up for it; but where that would come to 4 or a higher power of two, it is
    /// for [`Shadow::fill`]. Another number may be added.
    ///
    /// The first word of what is not in use is the number of the next such five, or 0 at the last; the first five words
    /// are not in use, and so lead to the others. They may be taken into use for a page that was known at one number.
    /// All of them stay where they are.
    pub fn aliases(&mut self) -> *mut u32 {
        self.ram.aliases()
    }

    /// The megabytes (as for [`Shadow::watched_megabytes`]) where the user view of the active space holds entries that
    /// are not global. There, pages can be added to its tables without [`Shadow::fill`]. It stays where it is.
    #[must_use]
    pub fn private_megabytes(&self) -> &[u32; 128] {
        self.spaces[self.active_index()].view(View::User).private_words()
    }

    /// As [`Shadow::fill`] where the case is an ordinary one. The active space's regime [is
    /// plain](crate::guest::plain::is_plain); `ttbr0` and `dacr` are the guest's.
    #[expect(clippy::too_many_arguments, reason = "the fault, the guest's memory and registers, and the two seams")]
    pub fn fast_fill(
        &mut self,
        mem: &impl GuestMemory,
        (ttbr0, dacr): (u32, u32),
        view: View,
        va: GuestVa,
        kind: AccessKind,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) -> FastFill {
        debug_assert!(!self.has_trapped(), "trapped pages are nothing for a fast path");
        let mb = (va.0 >> 20) as usize;
        if self.separation.baked_dacr(dacr) != self.baked_dacr || self.in_region(va) {
            return FastFill::Other;
        }
        self.note_open(view, dacr);
        let Page { pa, domain, permission, user, xn, .. } =
            match plain::walk(mem, (ttbr0, dacr), va, kind, view == View::Kernel) {
                Plain::Page(page) if !page.global => page,
                Plain::Fault(fault) => {
                    self.stats.guest_faults += 1;
                    return FastFill::GuestFault(fault);
                }
                // What megabytes with global entries need besides is not for here.
                Plain::Page(_) | Plain::Other => return FastFill::Other,
            };
        let Some((page, protected)) = self.ram.page(pa) else { return FastFill::Other };
        let writable = permission == Permission::ReadWrite && !protected;
        if kind == AccessKind::Write && !writable {
            return FastFill::Other;
        }
        let alone = self.separation.is_privileged_alone(view, || user != permission);
        let domain = self.separation.domain(Some(domain), alone);
        let active = self.active_index();
        let entries = self.spaces[active].view(view);
        let table = match entries.first_level(mb, tables) {
            FirstLevel::Table { table, domain: present } if entries.has_private(mb) && present == domain => table,
            FirstLevel::Invalid => match self.fast_table(view, va, domain, tables) {
                Some(table) => table,
                None => return FastFill::Other,
            },
            _ => return FastFill::Other,
        };
        let space = &mut self.spaces[active];
        let entries = space.view_mut(view);
        let index = (va.0 >> 12 & 0xff) as usize;
        let word = host::page(page, writable, alone || xn);
        let known = if writable { self.ram.note_page_writer(pa, va.0 >> 12) } else { None };
        let present = tables.read(&table, index);
        if present == word {
            self.stats.idle_fills += 1;
        } else {
            if present != 0 {
                tables.write(&table, index, 0);
                tlb.flush_page(va.page().0, entries.asid);
            }
            space.fills += 1;
            self.stats.page_fills += 1;
            tables.write(&table, index, word);
        }
        if let Some(known) = known {
            self.narrow(pa, va.0 >> 12, known, tables, tlb);
        }
        FastFill::Mapped
    }

    /// A second-level table for the megabyte of `va`, of which the active space's `view` has nothing, and the notes
    /// that go with its first page, which is not global. `None` where that concerns others: where it is the space's
    /// first such page, where the guest's tables are tracked, or where there is no table left.
    fn fast_table(&mut self, view: View, va: GuestVa, domain: u8, tables: &mut impl TableMemory) -> Option<Table> {
        if self.tracked.is_on() || !self.holds_private() {
            return None;
        }
        let table = tables.alloc(SECOND_LEVEL_BYTES)?;
        let mb = (va.0 >> 20) as usize;
        self.touched.insert(mb);
        self.watched.small(va, false);
        let active = self.active_index();
        let origin = Origin { global: false, size: PageSize::Small4K };
        self.spaces[active].view_mut(view).set_table(mb, table, domain, origin, tables);
        Some(table)
    }
}
