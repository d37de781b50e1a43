//! Access to the system registers of coprocessor 15 (ARM ARM B4.1), and barriers.

/// Reads a register, by the operands of MRC behind the target.
macro_rules! read {
    ($name:ident, $opc1:literal, $crn:literal, $crm:literal, $opc2:literal, $what:literal) => {
        #[doc = $what]
        #[must_use]
        pub fn $name() -> u32 {
            let value;
            // SAFETY: To read this register has no effect. It is there in every ARMv7-A core that this runs on.
            unsafe {
                core::arch::asm!(
                    concat!("mrc p15, ", $opc1, ", {}, ", $crn, ", ", $crm, ", ", $opc2),
                    out(reg) value,
                    options(nomem, nostack, preserves_flags)
                );
            }
            value
        }
    };
}

/// Writes a register, and waits until that counts (B5.6.5).
macro_rules! write {
    ($name:ident, $opc1:literal, $crn:literal, $crm:literal, $opc2:literal, $what:literal) => {
        #[doc = $what]
        ///
        /// # Safety
        /// What it changes must be right for all code that runs from then on.
        pub unsafe fn $name(value: u32) {
            // SAFETY: The caller says so. No `nomem`: what is stored before must be stored before.
            unsafe {
                core::arch::asm!(
                    "dsb",
                    concat!("mcr p15, ", $opc1, ", {}, ", $crn, ", ", $crm, ", ", $opc2),
                    "dsb",
                    "isb",
                    in(reg) value,
                    options(nostack, preserves_flags)
                );
            }
        }
    };
}

read!(sctlr, "0", "c1", "c0", "0", "SCTLR.");
read!(dfsr, "0", "c5", "c0", "0", "DFSR.");
read!(dfar, "0", "c6", "c0", "0", "DFAR.");
read!(ifsr, "0", "c5", "c0", "1", "IFSR.");
read!(ifar, "0", "c6", "c0", "2", "IFAR.");
read!(counter_frequency, "0", "c14", "c0", "0", "CNTFRQ.");

write!(set_sctlr, "0", "c1", "c0", "0", "SCTLR.");
write!(set_ttbr0, "0", "c2", "c0", "0", "TTBR0.");
write!(set_ttbcr, "0", "c2", "c0", "2", "TTBCR.");
write!(set_dacr, "0", "c3", "c0", "0", "DACR.");
write!(set_vbar, "0", "c12", "c0", "0", "VBAR.");
write!(clean_data_line, "0", "c7", "c11", "1", "DCCMVAU: a line of the data cache, to the point of unification.");
write!(invalidate_instruction_line, "0", "c7", "c5", "1", "ICIMVAU.");
write!(invalidate_instructions, "0", "c7", "c5", "0", "ICIALLU: the instruction cache and the branch predictor.");
write!(invalidate_branches, "0", "c7", "c5", "6", "BPIALL.");
write!(invalidate_tlb, "0", "c8", "c7", "0", "TLBIALL.");
write!(invalidate_tlb_entry, "0", "c8", "c7", "1", "TLBIMVA: by address and ASID, which is 0.");
write!(set_timer_value, "0", "c14", "c2", "0", "CNTP_TVAL.");
write!(set_timer_control, "0", "c14", "c2", "1", "CNTP_CTL.");

/// The current mode: CPSR.M.
#[must_use]
pub fn mode() -> u32 {
    let cpsr: u32;
    // SAFETY: It reads the status register, which any mode may.
    unsafe { core::arch::asm!("mrs {}, cpsr", out(reg) cpsr, options(nomem, nostack, preserves_flags)) };
    cpsr & 0x1f
}

/// Unmasks IRQs.
///
/// # Safety
/// Their handler must be there.
pub unsafe fn unmask_interrupts() {
    // SAFETY: The caller says so.
    unsafe { core::arch::asm!("cpsie i", options(nostack, preserves_flags)) };
}
