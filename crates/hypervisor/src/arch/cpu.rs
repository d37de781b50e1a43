//! Which core this is, and its state that user mode can reach.

use core::fmt;

use super::barrier::isb;
use super::cp15::{
    Actlr, Cntkctl, CntvCtl, Cpacr, IdDfr0, IdPfr0, IdPfr1, Joscr, Midr, Pmuserenr, SysRegRead, SysRegWrite, Teecr,
    Teehbr, Tpidruro, Tpidrurw,
};
use crate::{try_read_register, try_write_register};

/// ACTLR of a Cortex-A8: the instructions that invalidate predictions do so.
const ACTLR_IBE: u32 = 1 << 6;

/// The identity of the core, from MIDR (ARM ARM B4.1.105); prints as `Cortex-A8 r3p2`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CpuId(pub u32);

impl CpuId {
    /// The core that runs this.
    pub fn current() -> Self {
        Self(Midr::read_raw())
    }

    fn name(self) -> Option<&'static str> {
        // Implementer A (Arm), primary part number: the TRMs' MIDR descriptions.
        if self.0 >> 24 != 0x41 {
            return None;
        }
        Some(match self.0 >> 4 & 0xfff {
            0xc05 => "Cortex-A5",
            0xc07 => "Cortex-A7",
            0xc08 => "Cortex-A8",
            0xc09 => "Cortex-A9",
            0xc0d | 0xc0e => "Cortex-A17",
            0xc0f => "Cortex-A15",
            _ => return None,
        })
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name}")?,
            None => write!(f, "core {:#010x}", self.0)?,
        }
        write!(f, " r{}p{}", self.0 >> 20 & 0xf, self.0 & 0xf)
    }
}

/// Whether the core has the generic timer (ID_PFR1\[19:16\]).
pub fn has_generic_timer() -> bool {
    IdPfr1::read_raw() >> 16 & 0xf != 0
}

/// Puts all state that unprivileged code can read or change, beyond its registers and memory, into a known and closed
/// state.
///
/// A guest's user code runs natively in user mode: what it could reach here would be a channel between guests, or a way
/// to change how the core runs. What is switched per guest afterwards (the thread registers, VFP) starts out as zero.
pub fn close_user_state() {
    // SAFETY: each write closes or clears what only user mode would use; the registers exist, as noted at each.
    unsafe {
        Tpidrurw::write_raw(0);
        Tpidruro::write_raw(0);

        // Coprocessor access: VFP and NEON for all modes (what is there; fields of missing coprocessors read as zero),
        // nothing else. FPEXC.EN = 0 keeps them off until somebody uses them. D32DIS and ASEDIS (bits 30, 31) stay
        // clear.
        Cpacr::write_raw(0xf << 20);
        isb();
        if Cpacr::read_raw() >> 20 & 0xf != 0 {
            core::arch::asm!(
                ".fpu neon", "vmsr fpexc, {zero}",
                zero = in(reg) 0u32, options(nostack, preserves_flags)
            );
        }

        // Performance monitors: ID_DFR0[27:24] is 0 or 15 on a core that has none.
        if !matches!(IdDfr0::read_raw() >> 24 & 0xf, 0 | 0xf) {
            Pmuserenr::write_raw(0);
        }

        // ThumbEE: ID_PFR0[15:12].
        if IdPfr0::read_raw() >> 12 & 0xf != 0 {
            Teehbr::write_raw(0);
            Teecr::write_raw(1);
        }

        // Jazelle: every ARMv7-A core has JOSCR, if only as the trivial implementation (A2.10.2). CD (bit 0) = 1.
        if IdPfr0::read_raw() >> 8 & 0xf != 0 {
            Joscr::write_raw(1);
        }

        // Cortex-A8: BPIALL, which keeps what guests teach the branch predictor from each other, does nothing unless
        // ACTLR.IBE is set (DDI 0344K, 3.2.26 and 5.6). Non-secure code may not set it, which makes the write
        // undefined; firmware has, or has not.
        if CpuId::current().0 >> 4 & 0xfff == 0xc08 && Actlr::read_raw() & ACTLR_IBE == 0 {
            try_write_register!("mcr p15, 0, {value}, c1, c0, 1", Actlr::read_raw() | ACTLR_IBE);
        }

        if has_generic_timer() {
            Cntkctl::write_raw(0);
            CntvCtl::write_raw(0);
        }
    }

    // The debug communications channel: DBGDSCR.UDCCdis (bit 12) makes it privileged. Writing DBGDSCR through CP14 is
    // DBGDSCRext, (c0, c2, 2) in v7 debug and (c0, c1, 0) in v6 debug; a core whose debug logic is locked or missing
    // makes it undefined. SAFETY: the accesses may be undefined, which is caught. Reading has no effect but on a
    // debugger's flow control, and writing changes UDCCdis only, which is none of an external debugger's business.
    unsafe {
        if let Some(value) = try_read_register!("mrc p14, 0, {value}, c0, c2, 2") {
            try_write_register!("mcr p14, 0, {value}, c0, c2, 2", value | 1 << 12);
        }
    }
    isb();
}
