//! Work on a guest's behalf that may be too much for one go, because the guest decides how much of it there is: after
//! TLB maintenance, all pages with translated code are looked up again, and the guest's tables are looked through for
//! mappings of the code cache; and both the engine ([`Engine::settle`]) and the shadow tables
//! ([`spica_mmu::Shadow::settle`]) may have something left of what they were asked for. It is done in pieces, in the
//! guest's own turn, and the guest does not go on before the end: so nobody sees that it was not done at once, and
//! other guests are held up for one piece at most.

use core::ops::RangeInclusive;

use spica_addr::{GuestPa, GuestVa};
use spica_mmu::{Access, AccessKind, DomainAccess, Regime, find_mapped, first_level_descriptor, translate};

use super::mmu::Mmu;
use super::{Common, Stop, Vm, regime};
use crate::engine::{Engine, Gone, KernelEngine};
use crate::host::Host;
use crate::host_cpu::{HostCpu, HostSpace};
use crate::layout::MEGABYTE;
use crate::machine::GuestMachine;
use spica_dbt::code_map::Megabytes;
use spica_vcpu::cp15::TlbOp;

/// Megabytes of the address space.
const MEGABYTES: u32 = 4096;
/// What is done in one piece: pages or descriptors that are looked at, and as much more as a page whose code must not
/// be reached is with it. Some 40,000 instructions.
const PIECE: u32 = 120;
/// To look at a page's record and find that nothing is to be done, as a part of a look at the guest's tables.
const RECORDS: u32 = 32;

/// The least time between two glances at what is mapped at the code cache's address, in microseconds.
const BETWEEN_GLANCES: u32 = 1_000;

/// What is still to be done.
#[derive(Default)]
pub struct Backlog {
    /// Megabytes that are still to be looked at after maintenance of everything, from this on.
    megabytes: Option<u32>,
    /// The megabytes whose pages with code are to be looked up again,
    stale: Megabytes,
    /// from this record on ([`Engine::next_page`]).
    pages: Option<usize>,
    /// Megabytes of the code cache that are still to be looked through for mappings, from this on.
    cache: Option<u32>,
    /// The megabyte of the code cache that is looked through at the next glance.
    glance: u32,
    /// Host time at which that is due.
    glance_due: u64,
    /// And at which the next page is looked through that may run in place ([`Common::go_on_in_place`]).
    pub(super) look_due: u64,
    /// And at which a second has passed for the pages that run in place.
    pub(super) second_due: u64,
}

impl Backlog {
    /// Host time from which on [`Common::glance_is_due`].
    pub fn next_glance(&self) -> u64 {
        self.glance_due
    }

    fn is_empty(&self) -> bool {
        self.megabytes.is_none() && self.pages.is_none() && self.cache.is_none()
    }

    /// The guest has invalidated the whole TLB.
    fn revalidate_all(&mut self) {
        self.megabytes = Some(0);
    }

    /// The first-level descriptor of megabyte `at` has changed, and the guest has maintained that.
    fn revalidate_megabyte(&mut self, at: u32) {
        self.stale.insert(at);
        self.pages = Some(0);
    }

    /// The guest may have mapped something where the code cache is.
    pub fn look_through_cache(&mut self) {
        self.cache = Some(0);
    }

    /// All that was to be done concerns code and tables that are no more.
    pub fn clear(&mut self) {
        (self.megabytes, self.pages, self.cache) = (None, None, None);
        self.stale.clear();
    }
}

impl Vm {
    /// Does what is still to be done before the guest may go on. False if the host has something else to see to first.
    ///
    /// # Errors
    /// If the VM must stop for what was found.
    pub(super) fn work_off(&mut self, core: &mut HostCpu, host: &mut Host) -> Result<bool, Stop> {
        while !self.is_settled() {
            let regime = regime(&self.vcpu.context.cpu);
            self.work_off_piece(core, &regime)?;
            if !host.may_go_on() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the guest may go on, as far as this is concerned.
    pub fn is_settled(&self) -> bool {
        self.common.backlog.is_empty() && self.common.engine.is_settled() && self.vcpu.mmu.shadow().is_settled()
    }

    /// After TLB maintenance: blocks whose page is not mapped as it was are not to be branched to without looking. Of a
    /// page and `count - 1` behind it.
    pub fn revalidate(&mut self, core: &mut HostCpu, op: TlbOp, count: u32) {
        let Vm { vcpu, common, .. } = self;
        match op {
            TlbOp::All => {
                vcpu.mmu.forget_call_vector(&(GuestVa(0)..=GuestVa(u32::MAX)));
                common.backlog.revalidate_all();
            }
            TlbOp::Page { va, .. } => {
                // One operation removes the entry of a page of 4 or 64 KiB, or of a section of up to 16 MiB. The latter
                // changed only if a first-level descriptor did.
                if !common.code_map.may_have_code(va) {
                    return;
                }
                let last = va + ((count - 1) << 12);
                let range = GuestVa(va & !0xffff)..=GuestVa(last | 0xffff);
                vcpu.mmu.forget_call_vector(&range);
                let own = va / MEGABYTE;
                let end = (va >> 24 << 4) + 16;
                let mut from = end - 16;
                while let Some(megabyte) = common.code_map.next(from, end) {
                    from = megabyte + 1;
                    if megabyte != own && !common.code_map.may_be_wide(megabyte) {
                        continue;
                    }
                    let start = GuestVa(megabyte * MEGABYTE);
                    let (host_space, regime) = (core.enter_host_space(), regime(&vcpu.context.cpu));
                    let now = first_level_descriptor(&common.ram.at(host_space), &regime, start).unwrap_or(0);
                    if common.code_map.renew(megabyte, now) {
                        vcpu.mmu.forget_call_vector(&(start..=GuestVa(start.0 | (MEGABYTE - 1))));
                        common.backlog.revalidate_megabyte(megabyte);
                    }
                }
                // What was executed in place is not in the map.
                if common.code_map.has(own) || common.engine.runs_in_place() {
                    let (host_space, regime) = (core.enter_host_space(), regime(&vcpu.context.cpu));
                    common.revalidate_few(&mut vcpu.mmu, host_space, &regime, &range);
                }
            }
            // Only global pages are linked to from others.
            TlbOp::Asid(_) => {}
        }
    }

    /// The guest may have mapped something where the code cache is.
    pub fn look_through_cache(&mut self) {
        self.common.backlog.look_through_cache();
    }

    fn work_off_piece(&mut self, core: &mut HostCpu, regime: &Regime) -> Result<(), Stop> {
        let mmu = &mut self.vcpu.mmu;
        if !mmu.shadow().is_settled() {
            mmu.settle(core.enter_host_space());
            return Ok(());
        }
        match self.common.engine.next_gone() {
            Some(Gone::Page(va)) => {
                mmu.forget_code(va);
                return Ok(());
            }
            Some(Gone::All) => {
                mmu.forget_all(core.enter_host_space());
                return Ok(());
            }
            None => {}
        }
        if !self.common.engine.settle() {
            return Ok(());
        }
        self.common.look_piece(mmu, core, regime)
    }
}

impl Common {
    /// Looks at a piece of the guest's tables, for code and for the code cache.
    fn look_piece(&mut self, mmu: &mut Mmu, core: &mut HostCpu, regime: &Regime) -> Result<(), Stop> {
        if let Some(from) = self.backlog.megabytes {
            self.backlog.megabytes = self.look_at_megabytes(core.enter_host_space(), regime, from);
            if self.backlog.megabytes.is_none() {
                self.backlog.pages = Some(0);
            }
        } else if let Some(from) = self.backlog.pages {
            self.backlog.pages = self.look_up_pages(mmu, core.enter_host_space(), regime, from);
            if self.backlog.pages.is_none() {
                self.backlog.stale.clear();
            }
        } else if let Some(from) = self.backlog.cache {
            let (_, megabytes) = self.engine.kept_from_guest();
            self.backlog.cache = Some(from + 1).filter(|&next| next < megabytes);
            return self.look_through_cache(core.enter_host_space(), regime, from, 1);
        }
        Ok(())
    }

    /// After maintenance of everything: finds out from megabyte `from` on whose pages are to be looked up again. Where
    /// to go on.
    fn look_at_megabytes(&mut self, host_space: HostSpace<'_>, regime: &Regime, from: u32) -> Option<u32> {
        if !regime.mmu_on() {
            return None;
        }
        let mut from = from;
        for _ in 0..PIECE {
            let at = self.code_map.next(from, MEGABYTES)?;
            let descriptor =
                first_level_descriptor(&self.ram.at(host_space), regime, GuestVa(at * MEGABYTE)).unwrap_or(0);
            if self.code_map.renew(at, descriptor) || !is_open_section(regime, descriptor) {
                self.backlog.stale.insert(at);
            }
            from = at + 1;
        }
        Some(from)
    }

    /// Looks up pages with code in stale megabytes from record `from` on: blocks whose page is not mapped as it was are
    /// not to be branched to without looking. Where to go on.
    fn look_up_pages(
        &mut self,
        mmu: &mut Mmu,
        host_space: HostSpace<'_>,
        regime: &Regime,
        from: usize,
    ) -> Option<usize> {
        let mut from = from;
        let mut done = 0;
        while done < PIECE * RECORDS {
            let (number, va, pa) = self.engine.next_page(from)?;
            if self.backlog.stale.contains(va.0 / MEGABYTE) {
                done += RECORDS * self.look_up_page(mmu, host_space, regime, va, pa);
            }
            done += 1;
            from = number + 1;
        }
        Some(from)
    }

    /// Looks up the page at `va`, from which there is code as of `pa`. How much work it was.
    fn look_up_page(
        &mut self,
        mmu: &mut Mmu,
        host_space: HostSpace<'_>,
        regime: &Regime,
        va: GuestVa,
        pa: GuestPa,
    ) -> u32 {
        let access = Access { kind: AccessKind::Fetch, privileged: true };
        match translate(&self.ram.at(host_space), regime, va, access) {
            Ok(now) if now.pa.page() == pa && (now.global || !regime.mmu_on()) => {
                self.watch_code(mmu, va, now.size);
                1
            }
            _ => 1 + self.engine.page_moved(va),
        }
    }

    /// After maintenance of the pages in `range`, which are few.
    fn revalidate_few(
        &mut self,
        mmu: &mut Mmu,
        host_space: HostSpace<'_>,
        regime: &Regime,
        range: &RangeInclusive<GuestVa>,
    ) {
        let mut va = range.start().page();
        while va <= *range.end() {
            let mut next = self.engine.next_page_at(va, None);
            while let Some((number, pa)) = next {
                self.look_up_page(mmu, host_space, regime, va, pa);
                next = self.engine.next_page_at(va, Some(number));
            }
            let Some(behind) = va.0.checked_add(0x1000) else { break };
            va = GuestVa(behind);
        }
    }

    /// Whether the guest's own tables map RAM or a device at the code cache's address (Linux's decompressor maps the
    /// whole address space, with nothing behind most of it), in `count` megabytes from its megabyte `first` on.
    /// Translated code could reach the cache there instead of what the guest means. The rest of the hypervisor region
    /// faults by itself.
    ///
    /// A cache that is near a guest's kernel gives way ([`Vm::give_way`]).
    fn look_through_cache(
        &mut self,
        host_space: HostSpace<'_>,
        regime: &Regime,
        first: u32,
        count: u32,
    ) -> Result<(), Stop> {
        if !regime.mmu_on() {
            return Ok(());
        }
        let start = GuestVa(self.engine.kept_from_guest().0 + first * MEGABYTE);
        let counts = |pa| self.ram.contains(pa) || self.machine.has_device(pa);
        match find_mapped(&self.ram.at(host_space), regime, start, count, counts) {
            Some(va) if !self.engine.give_way() => Err(Stop::RegionMapped(va)),
            _ => Ok(()),
        }
    }

    /// Whether the guest's tables have anything where the code cache would be near a kernel that begins at `base`. All
    /// pages of it are not looked up, as that would take long.
    pub(super) fn has_tables_near(&self, host_space: HostSpace<'_>, regime: &Regime, base: u32) -> bool {
        let (start, megabytes) = KernelEngine::kept_near(base);
        !spica_mmu::has_no_descriptors(&self.ram.at(host_space), regime, GuestVa(start), megabytes)
    }

    /// Whether it is time for [`Self::glance_at_cache`]: at an interrupt, if the last time was a while ago. Guests that
    /// have an interrupt many times in a millisecond shall not pay it each time.
    pub fn glance_is_due(&mut self, host: &Host, now: u64) -> bool {
        let due = now >= self.backlog.glance_due;
        if due {
            self.backlog.glance_due = now + host.ticks(BETWEEN_GLANCES);
        }
        due
    }

    /// A mapping at the code cache's address may appear without TLB maintenance, so it is looked for now and then: at
    /// all megabytes if nothing is mapped at any, else at one, by turns.
    ///
    /// # Errors
    /// If there is one.
    pub fn glance_at_cache(&mut self, host_space: HostSpace<'_>, regime: &Regime) -> Result<(), Stop> {
        let (start, megabytes) = self.engine.kept_from_guest();
        if !regime.mmu_on()
            || spica_mmu::has_no_descriptors(&self.ram.at(host_space), regime, GuestVa(start), megabytes)
        {
            return Ok(());
        }
        self.backlog.glance = (self.backlog.glance + 1) % megabytes;
        self.look_through_cache(host_space, regime, self.backlog.glance, 1)
    }
}

/// Whether a first-level descriptor is that of a section, or a piece of a supersection, that its domain does not close
/// (ARM ARM figure B3-4): all pages in it are mapped as they were when it was the same.
fn is_open_section(regime: &Regime, descriptor: u32) -> bool {
    // Long descriptors are nothing for here: each page is looked at.
    if regime.is_long() {
        return false;
    }
    const SUPERSECTION: u32 = 1 << 18;
    let domain = if descriptor & SUPERSECTION != 0 { 0 } else { descriptor >> 5 & 0xf };
    descriptor & 0b10 != 0 && DomainAccess::of(regime.dacr, domain as u8) != DomainAccess::None
}
