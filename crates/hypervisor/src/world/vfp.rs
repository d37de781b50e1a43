//! The VFP and Advanced SIMD registers, switched lazily: a guest's are loaded when it first uses them.
//!
//! FPEXC.EN is 0 otherwise, so that a guest which has VFP off, or whose registers are not in the core, takes an
//! Undefined Instruction exception that the trap handler turns into a load, or passes on.

use core::arch::asm;

use spica_vcpu::cp15::FPEXC_EN;

/// Whether VFP is on in the core, which has it.
pub fn is_on() -> bool {
    let fpexc: u32;
    // SAFETY: CPACR gives access (close_user_state), and a privileged read of FPEXC changes nothing.
    unsafe { asm!(".fpu neon", "vmrs {0}, fpexc", out(reg) fpexc, options(nomem, nostack, preserves_flags)) }
    fpexc & FPEXC_EN != 0
}

/// Leaves zeroes in the registers, whose they ever were, and VFP off.
pub fn clear() {
    Bank { in_core: true, ..Bank::new() }.save();
}

/// One guest's registers while they are not in the core.
#[repr(C, align(8))]
pub struct Bank {
    registers: [u64; 32],
    fpscr: u32,
    /// The core holds this guest's registers; the copy here is stale.
    in_core: bool,
}

impl Bank {
    /// Registers as after reset, not in the core.
    pub const fn new() -> Bank {
        Bank { registers: [0; 32], fpscr: 0, in_core: false }
    }

    /// Turns VFP on (`fpexc`), and loads the registers unless the core has them still.
    pub fn load(&mut self, fpexc: u32) {
        // SAFETY: CPACR gives access (close_user_state). The register file is not Spica's: it is built for soft-float.
        unsafe {
            asm!(".fpu neon", "vmsr fpexc, {0}", "isb", in(reg) fpexc, options(nostack, preserves_flags));
            if !self.in_core {
                asm!(
                    ".fpu neon",
                    "vldmia {r}!, {{d0-d15}}",
                    "vmrs {t}, mvfr0",
                    "and {t}, {t}, #0xf",
                    "cmp {t}, #2",
                    "it eq",
                    "vldmiaeq {r}!, {{d16-d31}}",
                    "vmsr fpscr, {f}",
                    r = inout(reg) self.registers.as_ptr() => _,
                    t = out(reg) _,
                    f = in(reg) self.fpscr,
                    options(nostack, readonly)
                );
                self.in_core = true;
            }
        }
    }

    /// The registers and FPSCR, as long as the core does not hold them.
    pub fn saved(&mut self) -> (&mut [u64; 32], &mut u32) {
        self.save();
        (&mut self.registers, &mut self.fpscr)
    }

    /// Whether the core holds the registers.
    pub const fn in_core(&self) -> bool {
        self.in_core
    }

    /// Turns VFP off and leaves the registers where they are.
    pub fn park(&mut self) {
        // SAFETY: as above.
        unsafe { asm!(".fpu neon", "vmsr fpexc, {0}", "isb", in(reg) 0u32, options(nostack, preserves_flags)) }
    }

    /// Takes the registers out of the core, if they are there, and leaves zeroes for whoever is next.
    pub fn save(&mut self) {
        if !self.in_core {
            return;
        }
        self.in_core = false;
        let zeroes = [0u64; 32];
        // SAFETY: as above; `registers` and `zeroes` have room for 32 double words.
        unsafe {
            asm!(
                ".fpu neon",
                "vmsr fpexc, {on}",
                "isb",
                "vmrs {t}, fpscr",
                "str {t}, [{f}]",
                "vstmia {r}!, {{d0-d15}}",
                "vldmia {z}!, {{d0-d15}}",
                "vmrs {t}, mvfr0",
                "and {t}, {t}, #0xf",
                "cmp {t}, #2",
                "it eq",
                "vstmiaeq {r}!, {{d16-d31}}",
                "it eq",
                "vldmiaeq {z}!, {{d16-d31}}",
                "mov {t}, #0",
                "vmsr fpscr, {t}",
                "vmsr fpexc, {t}",
                "isb",
                on = in(reg) FPEXC_EN,
                t = out(reg) _,
                f = in(reg) &raw mut self.fpscr,
                r = inout(reg) self.registers.as_mut_ptr() => _,
                z = inout(reg) zeroes.as_ptr() => _,
                options(nostack)
            );
        }
    }
}

impl Default for Bank {
    fn default() -> Self {
        Bank::new()
    }
}
