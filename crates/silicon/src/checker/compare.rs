//! What is done, beside what the core might have done instead: by other tables, by registers that were written, by what
//! walks may read that come too early.

use spica_cycles::walk::{self, Memory, Registers, Translation};

use super::{Checker, Kind, Machine, Walked};
use crate::code::Code;
use crate::complaint::Class;
use crate::tables::Tables;

/// Memory as walks may see it that come too early.
struct Before<'a, M> {
    machine: &'a M,
    code: &'a Code,
    tables: &'a Tables,
    coherent: bool,
}

impl<M: Machine> Memory for Before<'_, M> {
    fn word(&self, physical: u32) -> Option<u32> {
        if self.code.is_seen(physical, self.coherent) {
            self.machine.word(physical)
        } else {
            // What no walk has read may have been anything: a fault is the least that is certain.
            Some(self.tables.seen(physical).unwrap_or(0))
        }
    }
}

impl Checker {
    /// An abort: would it have come with what the TLB may hold?
    pub(super) fn abort(&mut self, fetch: bool, address: u32, machine: &impl Machine) {
        if !self.now.registers.translates() {
            return;
        }
        let Walked { found, unseen, .. } = self.walk(address, machine);
        let (now, user) = (self.now, self.user);
        let registers = now.registers;
        let asid = registers.asid();
        let may = |kind| found.as_ref().is_some_and(|found| now.allows(found, kind, user));
        // QEMU's plugins cannot read DFSR. Where loads are allowed, it was a store; where stores are as well, it was
        // nothing of the tables.
        let kind = match fetch {
            true => Kind::Fetch,
            false if may(Kind::Load) => Kind::Store,
            false => Kind::Load,
        };
        if may(kind) {
            return;
        }
        let physical = found.map_or(0, |found| found.physical(address));
        let mut stale = None;
        self.tlb.each(address, asid, |entry| {
            if now.allows(entry, kind, user) {
                stale = Some(entry.physical(address));
            }
        });
        if let Some(other) = stale {
            self.complain(Class::StaleAllows, address, physical, other);
            self.tlb.forgive(address, asid);
        }
        // What walks may find that come too early, by the tables of before.
        if let Some((at, older)) = unseen {
            let before = walk::walk(&registers, &self.before(address, machine), address, |_| ());
            if before.is_some_and(|before| now.allows(&before, kind, user)) {
                self.complain(Class::TableNotSeen, address, at, older.unwrap_or(0));
            }
        }
        // By other tables, under the same ASID.
        let others = self.spaces.others(asid, registers.ttbr0);
        let other = others.into_iter().find(|&ttbr0| {
            let elsewhere = walk::walk(&Registers { ttbr0, ..registers }, machine, address, |_| ());
            elsewhere.is_some_and(|e| e.asid.is_some() && now.allows(&e, kind, user))
        });
        if let Some(other) = other {
            self.complain(Class::MixedSpaces, address, physical, other);
            self.spaces.forget(asid, true);
        }
        // By registers that were written.
        if self.pending && self.settled_allows(kind, address, user, machine) {
            self.complain(Class::ContextRights, address, physical, self.written_by);
        }
    }

    /// Whether the registers of before the last writes allow an access.
    fn settled_allows(&self, kind: Kind, address: u32, user: bool, machine: &impl Machine) -> bool {
        let settled = self.settled;
        if !settled.registers.translates() {
            return true;
        }
        let older = walk::walk(&settled.registers, machine, address, |_| ());
        older.is_some_and(|older| settled.allows(&older, kind, user))
    }

    fn before<'a, M: Machine>(&'a self, address: u32, machine: &'a M) -> Before<'a, M> {
        Before { machine, code: &self.code, tables: &self.tables, coherent: self.coherent(address) }
    }

    /// What other tables have for the address, that the core may have walked for this ASID.
    pub(super) fn compare_spaces(&mut self, kind: Kind, found: &Translation, address: u32, machine: &impl Machine) {
        let registers = self.now.registers;
        let mut wrong = None;
        for other in self.spaces.others(registers.asid(), registers.ttbr0) {
            let elsewhere = walk::walk(&Registers { ttbr0: other, ..registers }, machine, address, |_| ());
            let Some(elsewhere) = elsewhere.filter(|elsewhere| elsewhere.asid.is_some()) else { continue };
            let same = (elsewhere.physical(address), elsewhere.cached, elsewhere.memory)
                == (found.physical(address), found.cached, found.memory);
            if !same || !self.now.allows(&elsewhere, kind, self.user) {
                wrong = Some(other);
            }
        }
        if let Some(other) = wrong {
            self.complain(Class::MixedSpaces, address, found.physical(address), other);
            self.spaces.forget(registers.asid(), true);
        }
    }

    /// What the registers of before the last writes make of the access, if nothing made sure of the new ones.
    pub(super) fn compare_settled(&mut self, kind: Kind, found: &Translation, address: u32, machine: &impl Machine) {
        if !self.pending {
            return;
        }
        let settled = self.settled;
        let older = if settled.registers.translates() {
            walk::walk(&settled.registers, machine, address, |_| ())
        } else {
            None
        };
        let flat = !settled.registers.translates();
        let physical = found.physical(address);
        let before = if flat { Some(address) } else { older.map(|older| older.physical(address)) };
        let class = if before != Some(physical) {
            Class::ContextAddress
        } else if older.is_some_and(|older| !settled.allows(&older, kind, self.user)) {
            Class::ContextRights
        } else {
            return;
        };
        self.complain(class, address, physical, self.written_by);
        // Once for each write.
        self.pending = false;
        self.settled = self.now;
        self.spaces.synchronise(self.now.registers.ttbr0, self.now.registers.asid());
    }

    /// Whether the registers of before the last writes make something else of a translation that is asked for.
    pub(super) fn compare_translated(&mut self, kind: Kind, address: u32, user: bool, machine: &impl Machine) {
        let now = self.now;
        if !self.pending || !now.registers.translates() {
            return;
        }
        let found = walk::walk(&now.registers, machine, address, |_| ());
        let allows = found.as_ref().is_some_and(|found| now.allows(found, kind, user));
        if allows != self.settled_allows(kind, address, user, machine) {
            self.complain(Class::ContextRights, address, found.map_or(0, |f| f.physical(address)), self.written_by);
        }
    }
}
