//! What translated code reaches: the code cache, the vCPU page behind it, and guest memory as Spica maps it.
//!
//! Each word of the vCPU page can be reached in the ways that the translator uses, and in no other.

use crate::translator::code::Code;
use crate::translator::lockstep::checks::marks;
use crate::translator::lockstep::edges::Edges;
use crate::translator::lockstep::in_place::InPlace;
use crate::translator::lockstep::is_shared_slot;
use crate::translator::memory::Memory;
use crate::translator::model::{Bus, Fault};
use spica_addr::CachePc;
use spica_dbt::checks::{MARKS, MARKS_SIZE};
use spica_dbt::layout::{Layout, PAGE};
use spica_dbt::spill::RETURN;
use spica_vcpu::{Bank, Banked, RETURNS, Shown, VcpuPage};
use std::mem::offset_of;

/// The kernel view of the guest's address space while translated code runs.
pub(super) struct KernelView<'a> {
    pub(super) code: &'a mut Code,
    pub(super) page: &'a mut VcpuPage,
    pub(super) memory: &'a mut Memory,
    pub(super) pc: u32,
    /// What the DACR that is real would still open after the write, if translated code has looked.
    pub(super) closing: &'a mut Option<u32>,
    /// The same for FPEXC.
    pub(super) turning_off: &'a mut Option<u32>,
    /// Undefined mode: translated code may write to its own page, and reach the shared slot; it reaches nothing else.
    pub(super) privileged: bool,
    pub(super) shared_slot: &'a mut u32,
    /// Where the code cache lies.
    pub(super) layout: Layout,
    pub(super) in_place: Option<&'a InPlace>,
    /// What is reached to count edges.
    pub(super) edges: Option<&'a mut Edges>,
}

/// How translated code may reach a word of the vCPU page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Load,
    Store,
    StoreByte,
}

/// Which entry of the shadow stack is at an address, in the first data page.
fn shadow_stack_entry(layout: &Layout, address: u32) -> Option<usize> {
    let offset = address.wrapping_sub(layout.base + offset_of!(VcpuPage, returns) as u32) as usize;
    (offset & 3 == 0 && offset / 4 < RETURNS + 2).then_some(offset / 4)
}

impl KernelView<'_> {
    /// The word of the vCPU page that a load or store of translated code means.
    fn field(&mut self, address: u32, reach: Reach) -> Option<&mut u32> {
        if let Some(entry) = shadow_stack_entry(&self.layout, address).filter(|_| reach != Reach::StoreByte) {
            return self.page.returns.get_mut(entry);
        }
        // Words, in the page behind; anything else is a stray pointer of the guest.
        let (page, word) = self.layout.find(CachePc(self.pc))?;
        // Near code in place, pointers of the guest's can lead there: ours have the PC as their base.
        let stray = self.in_place.is_some() && self.code.fetched[page as usize][word] >> 16 & 0xf != 0xf;
        if stray || address & !0xfff != (self.pc & !0xfff).wrapping_add(PAGE) || address & 3 != 0 {
            return None;
        }
        let field = (address & 0xfff) as usize;
        const SPILL_END: usize = offset_of!(VcpuPage, spill) + 15;
        const TARGET: usize = offset_of!(VcpuPage, target);
        const CONTROL: usize = offset_of!(VcpuPage, control);
        const PENDING: usize = offset_of!(VcpuPage, pending);
        const SPSR: usize = offset_of!(VcpuPage, spsr);
        const PRIVATE: usize = offset_of!(VcpuPage, tpidrprw);
        const READ_ONLY: usize = offset_of!(VcpuPage, tpidruro);
        const STALE: usize = offset_of!(VcpuPage, stale);
        const STALE_CODE: usize = offset_of!(VcpuPage, stale_code);
        const UNPRIVILEGED: usize = offset_of!(VcpuPage, unprivileged);
        const UNPRIVILEGED_END: usize = UNPRIVILEGED + 7;
        const DACR: usize = offset_of!(VcpuPage, dacr);
        const DACR_REAL: usize = offset_of!(VcpuPage, dacr_real);
        const DACR_SITE: usize = offset_of!(VcpuPage, dacr_site);
        const FPEXC: usize = offset_of!(VcpuPage, fpexc);
        const FPEXC_REAL: usize = offset_of!(VcpuPage, fpexc_real);
        const VFP_IDS: usize = offset_of!(VcpuPage, vfp_ids);
        const VFP_IDS_END: usize = VFP_IDS + 11;
        const TEEHBR: usize = offset_of!(VcpuPage, teehbr);
        const COUNTER: usize = offset_of!(VcpuPage, counter);
        const COUNTER_HIGH: usize = COUNTER + 4;
        const READ_WRITE: usize = offset_of!(VcpuPage, tpidrurw);
        const NEWEST_RETURN: usize = offset_of!(VcpuPage, newest_return);
        const SHOWN: usize = offset_of!(VcpuPage, shown);
        const SHOWN_END: usize = SHOWN + size_of::<Shown>() - 1;
        const USER: usize = offset_of!(VcpuPage, bank) + Bank::Usr as usize * size_of::<Banked>();
        const USER_SP: usize = USER + offset_of!(Banked, sp);
        const USER_LR: usize = USER + offset_of!(Banked, lr);
        const SUPERVISOR: usize = offset_of!(VcpuPage, bank) + Bank::Svc as usize * size_of::<Banked>();
        const SUPERVISOR_SP: usize = SUPERVISOR + offset_of!(Banked, sp);
        const SUPERVISOR_LR: usize = SUPERVISOR + offset_of!(Banked, lr);
        const SUPERVISOR_SPSR: usize = SUPERVISOR + offset_of!(Banked, spsr);
        let page = &mut *self.page;
        let (word, load, store) = match field {
            0..=SPILL_END => (&mut page.spill[field / 4], true, true),
            TARGET => (&mut page.target, false, true),
            CONTROL => (&mut page.control, true, true),
            PENDING => (&mut page.pending, true, false),
            SPSR => (&mut page.spsr, true, true),
            PRIVATE => (&mut page.tpidrprw, true, true),
            READ_ONLY => (&mut page.tpidruro, true, true),
            STALE => (&mut page.stale, false, true),
            STALE_CODE => (&mut page.stale_code, false, true),
            UNPRIVILEGED..=UNPRIVILEGED_END => (&mut page.unprivileged[(field - UNPRIVILEGED) / 4], true, false),
            DACR => (&mut page.dacr, true, true),
            DACR_REAL => {
                *self.closing = Some(page.dacr_real & !page.dacr);
                (&mut page.dacr_real, true, false)
            }
            DACR_SITE => (&mut page.dacr_site, false, true),
            FPEXC => (&mut page.fpexc, true, true),
            FPEXC_REAL => {
                *self.turning_off = Some(page.fpexc_real & !page.fpexc);
                (&mut page.fpexc_real, true, false)
            }
            VFP_IDS..=VFP_IDS_END => (&mut page.vfp_ids[(field - VFP_IDS) / 4], true, false),
            TEEHBR => (&mut page.teehbr, true, true),
            COUNTER => (&mut page.counter[0], true, false),
            COUNTER_HIGH => (&mut page.counter[1], true, false),
            READ_WRITE => (&mut page.tpidrurw, true, true),
            NEWEST_RETURN => (&mut page.newest_return, true, true),
            SHOWN..=SHOWN_END => {
                let Shown { ctr, sctlr, ttbr0, ttbr1, contextidr, dfsr, ifsr, dfar, ifar } = &mut page.shown;
                let word = match field - SHOWN {
                    n if n == offset_of!(Shown, ctr) => ctr,
                    n if n == offset_of!(Shown, sctlr) => sctlr,
                    n if n == offset_of!(Shown, ttbr0) => ttbr0,
                    n if n == offset_of!(Shown, ttbr1) => ttbr1,
                    n if n == offset_of!(Shown, contextidr) => contextidr,
                    n if n == offset_of!(Shown, dfsr) => dfsr,
                    n if n == offset_of!(Shown, ifsr) => ifsr,
                    n if n == offset_of!(Shown, dfar) => dfar,
                    n if n == offset_of!(Shown, ifar) => ifar,
                    other => panic!("word {other} of what is shown"),
                };
                (word, true, false)
            }
            USER_SP => (&mut page.bank[Bank::Usr as usize].sp, true, true),
            USER_LR => (&mut page.bank[Bank::Usr as usize].lr, true, true),
            SUPERVISOR_SP => (&mut page.bank[Bank::Svc as usize].sp, true, true),
            SUPERVISOR_LR => (&mut page.bank[Bank::Svc as usize].lr, true, true),
            SUPERVISOR_SPSR => (&mut page.bank[Bank::Svc as usize].spsr, true, true),
            other => panic!("translated code at {:#x} reaches word {other:#x} of the vCPU page", self.pc),
        };
        let allowed = match reach {
            Reach::Load => load,
            Reach::Store => store,
            Reach::StoreByte => field == CONTROL,
        };
        assert!(allowed, "translated code at {:#x} reaches word {field:#x} of the vCPU page as it must not", self.pc);
        Some(word)
    }
}

impl Bus for KernelView<'_> {
    fn fetch(&mut self, address: u32) -> u32 {
        if let Some(word) = self.in_place.and_then(|in_place| in_place.fetch(address)) {
            return word;
        }
        let (page, word) = self.layout.find(CachePc(address)).expect("translated code stays in the code pages");
        self.code.fetched[page as usize][word]
    }

    fn load(&mut self, address: u32, bytes: u32) -> Result<u32, Fault> {
        if self.privileged {
            assert!(bytes == 4 && is_shared_slot(address), "a privileged load of {address:#x} at {:#x}", self.pc);
            return Ok(*self.shared_slot);
        }
        // Literals, in its own page; anything else is a stray pointer of the guest.
        if let Some((page, word)) = self.layout.find(CachePc(address))
            && self.layout.find(CachePc(self.pc)).is_some_and(|(own, _)| own == page)
        {
            return Ok(self.code.fetched[page as usize][word]);
        }
        // The base is MARKS, added by the word in front.
        if bytes == 1
            && let Some((page, word)) = self.layout.find(CachePc(self.pc))
            && let Some(sum) = word.checked_sub(1).map(|before| self.code.fetched[page as usize][before])
            && sum & 0xfff0_0fff == 0xe280_04f5
            && address & !(MARKS_SIZE - 1) == MARKS
        {
            return Ok(marks(address - MARKS));
        }
        if let Some(edges) = &mut self.edges
            && let Some(value) = edges.load(address, bytes)
        {
            return Ok(value);
        }
        if bytes == 4
            && let Some(field) = self.field(address, Reach::Load)
        {
            return Ok(*field);
        }
        self.memory.check(address, bytes, false, true)?;
        if let Some(in_place) = self.in_place {
            in_place.check_read(self.memory, address, bytes);
        }
        Ok(self.memory.get(address, bytes))
    }

    fn store(&mut self, address: u32, bytes: u32, value: u32) -> Result<(), Fault> {
        if self.privileged {
            assert_eq!(bytes, 4);
            if is_shared_slot(address) {
                *self.shared_slot = value;
            } else {
                let (page, word) = self.layout.find(CachePc(address)).expect("a privileged store is to a slot");
                assert_eq!(self.code.fetched[page as usize][word + 1], RETURN, "what is behind a private slot");
                self.code.written[page as usize][word] = value;
                self.code.fetched[page as usize][word] = value;
            }
            return Ok(());
        }
        // Code pages are read-only: a stray pointer of the guest's faults there, as one to nowhere does.
        if self.layout.find(CachePc(address & !3)).is_some() {
            return Err(Fault { address, write: true, alignment: false });
        }
        if let Some(edges) = &mut self.edges
            && edges.store(address, bytes, value).is_some()
        {
            return Ok(());
        }
        let reach = match bytes {
            4 => Some(Reach::Store),
            1 => Some(Reach::StoreByte),
            _ => None,
        };
        if let Some(field) = reach.and_then(|reach| self.field(address, reach)) {
            let mask = u32::MAX >> (32 - 8 * bytes);
            *field = *field & !mask | value & mask;
            return Ok(());
        }
        self.memory.check(address, bytes, true, true)?;
        self.memory.set(address, bytes, value);
        Ok(())
    }
}
