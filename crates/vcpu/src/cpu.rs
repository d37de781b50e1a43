//! The virtual CPU's core registers, its mode, and what a write to the CPSR does.

use crate::cp15::{Cp15, CpuId, FPEXC_EN};
use crate::page::{Bank, Banked, Shown, VcpuPage};
use crate::psr::{self, Mode};

/// A virtual CPU.
///
/// `regs`, `pc` and `psr` are what the world switch saves and restores, in that order; the rest is reached by name.
#[repr(C)]
pub struct Cpu {
    /// R0 to R14 of the current mode.
    pub regs: [u32; 15],
    /// Where the real core was or will be: an address in the code cache while the guest's kernel runs, the guest's own
    /// PC while its user code runs.
    pub pc: u32,
    /// The real CPSR of the guest; only [`psr::USER_BITS`] of it mean anything.
    pub psr: u32,
    /// The page that translated code shares. Hostile: see [`VcpuPage`].
    pub page: &'static mut VcpuPage,
    /// System control registers.
    pub cp15: Cp15,
    /// What the identification registers say.
    pub id: CpuId,
    /// The address that LDREXD last loaded from by the interpreter, and what it got: STREXD succeeds by it if that is
    /// there still. A processor alone cannot tell that from a monitor, unless the same came back in between.
    pub exclusive: Option<(u32, [u32; 2])>,
}

impl Cpu {
    /// A virtual CPU in the reset state (B1.9.1) with the given page.
    #[must_use]
    pub fn new(page: &'static mut VcpuPage, id: CpuId) -> Cpu {
        let mut cpu = Cpu { regs: [0; 15], pc: 0, psr: 0, page, cp15: Cp15::reset(), id, exclusive: None };
        cpu.reset();
        cpu
    }

    /// Back to the reset state.
    pub fn reset(&mut self) {
        *self.page = VcpuPage::reset();
        self.regs = [0; 15];
        self.pc = 0;
        self.psr = 0;
        self.exclusive = None;
        self.cp15 = Cp15::reset();
        self.show();
    }

    /// Brings the copies in the page up to the system control registers, after any write to those.
    pub fn show(&mut self) {
        let Cp15 { sctlr, ttbr0, ttbr1, contextidr, dfsr, ifsr, dfar, ifar, dacr, .. } = self.cp15;
        self.page.shown = Shown { ctr: self.id.ctr, sctlr, ttbr0, ttbr1, contextidr, dfsr, ifsr, dfar, ifar };
        self.page.vfp_ids = [self.id.fpsid, self.id.mvfr[1], self.id.mvfr[0]];
        self.page.dacr = dacr;
        self.page.fpexc = self.cp15.fpexc;
        self.page.teehbr = self.cp15.teehbr;
    }

    /// Takes over what translated code wrote to FPEXC and TEEHBR in the page. Whether VFP was turned on or off.
    pub fn take_vfp(&mut self) -> bool {
        self.cp15.teehbr = self.page.teehbr & !3;
        let new = self.page.fpexc & FPEXC_EN;
        core::mem::replace(&mut self.cp15.fpexc, new) != new
    }

    /// Takes over what translated code wrote to DACR in the page. The value before, if that is another.
    pub fn take_dacr(&mut self) -> Option<u32> {
        let new = self.page.dacr;
        let old = core::mem::replace(&mut self.cp15.dacr, new);
        (old != new).then_some(old)
    }

    /// The current mode. A guest that wrote nonsense over it in its page is in Supervisor mode.
    #[must_use]
    pub fn mode(&self) -> Mode {
        Mode::from_bits(self.page.control).unwrap_or(Mode::Svc)
    }

    /// Whether the guest is in a privileged mode, where its code is translated.
    #[must_use]
    pub fn privileged(&self) -> bool {
        self.mode() != Mode::Usr
    }

    /// Whether virtual IRQs are masked.
    #[must_use]
    pub fn irq_masked(&self) -> bool {
        self.page.control & psr::I != 0
    }

    /// Whether virtual FIQs are masked.
    #[must_use]
    pub fn fiq_masked(&self) -> bool {
        self.page.control & psr::F != 0
    }

    /// The CPSR as the guest sees it.
    #[must_use]
    pub fn cpsr(&self) -> u32 {
        self.psr & psr::USER_BITS | self.page.control & (psr::A | psr::I | psr::F) | self.mode() as u32
    }

    /// Replaces the whole CPSR, as an exception return does; a mode that does not exist leaves the mode as it is
    /// (UNPREDICTABLE, B1.3.3).
    pub fn set_cpsr(&mut self, value: u32) {
        if let Some(mode) = Mode::from_bits(value) {
            self.change_mode(mode);
        }
        self.set_masks(value, psr::A | psr::I | psr::F);
        self.psr = psr::sanitize(value);
    }

    /// `CPSRWriteByInstr` for `MSR` (B1.3.3): the bytes in `fields` (bit 0 = c … bit 3 = f) of `value`. T, J and IT
    /// are not writable this way; in User mode only flags, GE and E are.
    pub fn write_cpsr_fields(&mut self, value: u32, fields: u8) {
        let mut user = 0;
        if fields & 8 != 0 {
            user |= psr::NZCVQ;
        }
        if fields & 4 != 0 {
            user |= psr::GE;
        }
        if fields & 2 != 0 {
            user |= psr::E;
        }
        self.psr = self.psr & !user | value & user;
        if self.privileged() {
            if fields & 2 != 0 {
                self.set_masks(value, psr::A);
            }
            if fields & 1 != 0 {
                self.set_masks(value, psr::I | psr::F);
                if let Some(mode) = Mode::from_bits(value) {
                    self.change_mode(mode);
                }
            }
        }
    }

    /// Sets those of the masks A, I, F that are in `which` from `value`.
    pub fn set_masks(&mut self, value: u32, which: u32) {
        let which = which & (psr::A | psr::I | psr::F);
        self.page.control = self.page.control & !which | value & which;
    }

    /// Goes to `mode`: the banked registers (B1.3.2) of the current mode go to the page, those of `mode` come from it.
    pub fn change_mode(&mut self, mode: Mode) {
        let from = self.mode();
        self.page.control = self.page.control & (psr::A | psr::I | psr::F) | mode as u32;
        let (old, new) = (Bank::of(from), Bank::of(mode));
        if old == new {
            return;
        }
        let page = &mut *self.page;
        page.bank[old as usize] = Banked { spsr: page.spsr, sp: self.regs[13], lr: self.regs[14] };
        Banked { spsr: page.spsr, sp: self.regs[13], lr: self.regs[14] } = page.bank[new as usize];
        if old == Bank::Fiq || new == Bank::Fiq {
            self.regs[8..13].swap_with_slice(&mut page.bank_r8_r12);
        }
    }

    /// Register `n` of User mode, whatever the mode (`n` below 15).
    #[must_use]
    pub fn user_reg(&self, n: usize) -> u32 {
        match (n, Bank::of(self.mode())) {
            (8..=12, Bank::Fiq) => self.page.bank_r8_r12[n - 8],
            (13, bank) if bank != Bank::Usr => self.page.bank[Bank::Usr as usize].sp,
            (14, bank) if bank != Bank::Usr => self.page.bank[Bank::Usr as usize].lr,
            _ => self.regs[n],
        }
    }

    /// Sets register `n` of User mode, whatever the mode (`n` below 15).
    pub fn set_user_reg(&mut self, n: usize, value: u32) {
        match (n, Bank::of(self.mode())) {
            (8..=12, Bank::Fiq) => self.page.bank_r8_r12[n - 8] = value,
            (13, bank) if bank != Bank::Usr => self.page.bank[Bank::Usr as usize].sp = value,
            (14, bank) if bank != Bank::Usr => self.page.bank[Bank::Usr as usize].lr = value,
            _ => self.regs[n] = value,
        }
    }

    /// SP of `mode`, for SRS.
    #[must_use]
    pub fn sp_of(&self, mode: Mode) -> u32 {
        if Bank::of(mode) == Bank::of(self.mode()) { self.regs[13] } else { self.page.bank[Bank::of(mode) as usize].sp }
    }

    /// Sets SP of `mode`, for SRS.
    pub fn set_sp_of(&mut self, mode: Mode, value: u32) {
        if Bank::of(mode) == Bank::of(self.mode()) {
            self.regs[13] = value;
        } else {
            self.page.bank[Bank::of(mode) as usize].sp = value;
        }
    }

    /// A banked register, wherever it is now, by its number in this order: SP and LR of User mode; SP, LR and SPSR of
    /// Supervisor, Abort, Undefined, IRQ and FIQ mode; R8 to R12 of FIQ mode.
    pub fn banked(&mut self, n: usize) -> Option<&mut u32> {
        let current = Bank::of(self.mode());
        let (bank, which) = match n {
            0 | 1 => (Bank::Usr, n),
            2..17 => ([Bank::Svc, Bank::Abt, Bank::Und, Bank::Irq, Bank::Fiq][(n - 2) / 3], (n - 2) % 3),
            17..22 if current == Bank::Fiq => return self.regs.get_mut(n - 9),
            17..22 => return self.page.bank_r8_r12.get_mut(n - 17),
            _ => return None,
        };
        Some(match (which, bank == current) {
            (0, true) => &mut self.regs[13],
            (1, true) => &mut self.regs[14],
            (_, true) => &mut self.page.spsr,
            (0, false) => &mut self.page.bank[bank as usize].sp,
            (1, false) => &mut self.page.bank[bank as usize].lr,
            (_, false) => &mut self.page.bank[bank as usize].spsr,
        })
    }
}
