//! The VFP and Advanced SIMD registers, switched lazily: a guest's are loaded when it first uses them.
//!
//! FPEXC.EN is 0 otherwise, so that a guest which has VFP off, or whose registers are not in the core, takes an Undefined
//! Instruction exception that the trap handler turns into a load, or passes on.

use core::arch::asm;

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

    /// Turns VFP off and leaves the registers where they are.
    pub fn park(&mut self) {
        // SAFETY: as above.
        unsafe { asm!(".fpu neon", "vmsr fpexc, {0}", "isb", in(reg) 0u32, options(nostack, preserves_flags)) }
    }
}
