//! The short way of a fault: the ordinary cases of [`Shadow::fill`], and no others.
//!
//! Most faults of a running guest are for a small page with nG = 1, of a client domain, in a megabyte that has such pages in
//! the shadow already, or nothing, or they are for nothing at all: the guest pages on demand. For those, most of what `fill` looks
//! after is settled beforehand: the megabyte's notes are made, or there are none to be heeded, and no space becomes another one. What
//! remains is two loads from the guest's tables, one from each shadow table, and a store; and now and then a new table. Everything else is [`Quick::Other`], with
//! nothing changed, and `fill` decides; so this file may leave out what it likes, but whatever it answers must be what `fill`
//! would have answered (the part `mmu-shadow` of `spica prove` compares the two).

use crate::fault::{Fault, FaultKind};
use crate::host::{self, FirstLevel};
use crate::regime::{AccessKind, DomainAccess, Regime, SCTLR_AFE, SCTLR_EE, SCTLR_M, TTBCR_PD0};
use crate::shadow::Shadow;
use crate::space::{Origin, View};
use crate::table::{HostTlb, SECOND_LEVEL_BYTES, Table, TableMemory};
use crate::walk::{GuestMemory, PageSize, Permission, decode_ap};
use spica_addr::{GuestPa, GuestVa};

/// What became of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Quick {
    /// The tables now allow the access: [`Fill::Mapped`](crate::Fill::Mapped).
    Mapped,
    /// The guest must see this: [`Fill::GuestFault`](crate::Fill::GuestFault).
    GuestFault(Fault),
    /// Ask [`Shadow::fill`].
    Other,
}

/// Whether guest tables have the form that [`Shadow::quick_fill`] can read: little-endian, all of it under TTBR0, no access
/// flag.
#[must_use]
pub const fn is_plain(regime: &Regime) -> bool {
    regime.sctlr & (SCTLR_M | SCTLR_EE | SCTLR_AFE) == SCTLR_M && regime.ttbcr & (0b111 | TTBCR_PD0) == 0
}

const XN: u32 = 1 << 0;
const SMALL: u32 = 1 << 1;
const NOT_GLOBAL: u32 = 1 << 11;

impl Shadow {
    /// The hints about writers, a word for each page from the guest's first megabyte of RAM up: 0xFFFF_FFFF, none; 0xFFFF_FFFE, any; up
    /// to 0xF_FFFF, only at this page number of the virtual address space; with 0x10_0000 added, only there, and at the page's place
    /// among the hints plus the word before the first hint; with 0x4000_0000 added to a number less than
    /// [`MAX_ALIASED`](crate::MAX_ALIASED), where [`Shadow::aliases`] says. Anything else has to be looked into. They stay where they
    /// are. Whoever makes a writable mapping without [`Shadow::fill`] keeps to them, and stores its number where there is none.
    pub fn page_hints(&mut self) -> *mut u32 {
        self.ram.page_hints()
    }

    /// What is known of pages at several virtual addresses: five words for each of [`MAX_ALIASED`](crate::MAX_ALIASED). Four are page
    /// numbers, or 0xFFFF_FFFF where there are fewer. A page that is mapped writable at one of them may be so again, if the fifth is
    /// counted up for it; but where that would come to 4 or a higher power of two, it is for [`Shadow::fill`]. Another number may be
    /// added.
    ///
    /// The first word of what is not in use is the number of the next such five, or 0 at the last; the first five words are not in use,
    /// and so lead to the others. They may be taken into use for a page that was known at one number. All of them stay where they are.
    pub fn aliases(&mut self) -> *mut u32 {
        self.ram.aliases()
    }

    /// The megabytes (as for [`Shadow::watched_megabytes`]) where the user view of the active space holds entries that are not global.
    /// There, pages can be added to its tables without [`Shadow::fill`]. It stays where it is.
    #[must_use]
    pub fn private_megabytes(&self) -> &[u32; 128] {
        self.spaces[self.active_index()].view(View::User).private_words()
    }

    /// As [`Shadow::fill`] where the case is an ordinary one. The active space's regime [is plain](is_plain); `ttbr0` and
    /// `dacr` are the guest's.
    #[expect(clippy::too_many_arguments, reason = "the fault, the guest's memory and registers, and the two seams")]
    pub fn quick_fill(
        &mut self,
        mem: &impl GuestMemory,
        (ttbr0, dacr): (u32, u32),
        view: View,
        va: GuestVa,
        kind: AccessKind,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) -> Quick {
        let mb = (va.0 >> 20) as usize;
        if self.separation.baked_dacr(dacr) != self.baked_dacr || self.in_hole(va) {
            return Quick::Other;
        }
        let Some(l1) = mem.read_word(GuestPa(ttbr0 & !0x3fff | (mb as u32) << 2)) else { return Quick::Other };
        let domain = (l1 >> 5 & 0xf) as u8;
        let second = |kind| Quick::GuestFault(Fault { kind, domain, section_level: false });
        match l1 & 0b11 {
            0b00 => {
                let kind = FaultKind::Translation;
                self.stats.guest_faults += 1;
                return Quick::GuestFault(Fault { kind, domain: 0, section_level: true });
            }
            0b01 => {}
            _ => return Quick::Other,
        }
        let Some(l2) = mem.read_word(GuestPa(l1 & 0xffff_fc00 | va.0 >> 10 & 0x3fc)) else { return Quick::Other };
        if l2 & 0b11 == 0 {
            self.stats.guest_faults += 1;
            return second(FaultKind::Translation);
        }
        if l2 & SMALL == 0 || DomainAccess::of(dacr, domain) != DomainAccess::Client {
            return Quick::Other;
        }
        let (user, kernel) = decode_ap(l2 >> 7 & 0b100 | l2 >> 4 & 0b11, false);
        let xn = l2 & XN != 0;
        let permission = if view == View::Kernel { kernel } else { user };
        let permitted = match kind {
            AccessKind::Read => permission != Permission::None,
            AccessKind::Write => permission == Permission::ReadWrite,
            AccessKind::Fetch if view == View::Kernel => return Quick::Other,
            AccessKind::Fetch => permission != Permission::None && !xn,
        };
        if !permitted {
            self.stats.guest_faults += 1;
            return second(FaultKind::Permission);
        }
        // What megabytes with global entries need besides is not for here.
        if l2 & NOT_GLOBAL == 0 {
            return Quick::Other;
        }
        let pa = GuestPa(l2 & 0xffff_f000);
        let Some((page, protected)) = self.ram.page(pa) else { return Quick::Other };
        let writable = permission == Permission::ReadWrite && !protected;
        if kind == AccessKind::Write && !writable {
            return Quick::Other;
        }
        let alone = self.separation.is_privileged_alone(view, || user != permission);
        let domain = self.separation.domain(Some(domain), alone);
        let active = self.active_index();
        let entries = self.spaces[active].view(view);
        let table = match entries.first_level(mb, tables) {
            FirstLevel::Table { table, domain: present } if entries.has_private(mb) && present == domain => table,
            FirstLevel::Invalid => match self.quick_table(view, va, domain, tables) {
                Some(table) => table,
                None => return Quick::Other,
            },
            _ => return Quick::Other,
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
        Quick::Mapped
    }

    /// A second-level table for the megabyte of `va`, of which the active space's `view` has nothing, and the notes that go with
    /// its first page, which is not global. `None` where that concerns others: where it is the space's first such page, where the
    /// guest's tables are tracked, or where there is no table left.
    fn quick_table(&mut self, view: View, va: GuestVa, domain: u8, tables: &mut impl TableMemory) -> Option<Table> {
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
