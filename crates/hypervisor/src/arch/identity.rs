//! The core's identification registers, as a guest's are made from them.

use core::arch::asm;

use spica_vcpu::CpuId;

macro_rules! mrc {
    ($cp:literal, $op1:literal, $crn:literal, $crm:literal, $op2:literal) => {{
        let value: u32;
        // SAFETY: identification registers are read without effect, and exist on every ARMv7-A core (B7.1, B4.1).
        unsafe {
            asm!(
                concat!("mrc p", $cp, ", ", $op1, ", {}, c", $crn, ", c", $crm, ", ", $op2),
                out(reg) value, options(nomem, nostack, preserves_flags)
            );
        }
        value
    }};
}

/// CLIDR: which caches there are (B4.1.20).
pub fn clidr() -> u32 {
    mrc!("15", "1", "0", "0", "1")
}

/// CCSIDR of the cache that CSSELR selects (B4.1.19, B4.1.41).
pub fn ccsidr(csselr: u32) -> u32 {
    // SAFETY: selecting a cache only changes what CCSIDR reads, after an ISB.
    unsafe {
        asm!("mcr p15, 2, {}, c0, c0, 0", "isb", in(reg) csselr, options(nostack, preserves_flags));
    }
    mrc!("15", "1", "0", "0", "0")
}

/// FPSID, MVFR0 and MVFR1; zero where there is no VFP.
fn vfp() -> [u32; 3] {
    if mrc!("15", "0", "1", "0", "2") >> 20 & 0xf == 0 {
        return [0; 3];
    }
    let (fpsid, mvfr0, mvfr1): (u32, u32, u32);
    // SAFETY: CPACR gives access; these can be read with FPEXC.EN = 0 (B9.3.25).
    unsafe {
        asm!(
            ".fpu neon", "vmrs {0}, fpsid", "vmrs {1}, mvfr0", "vmrs {2}, mvfr1",
            out(reg) fpsid, out(reg) mvfr0, out(reg) mvfr1, options(nomem, nostack, preserves_flags)
        );
    }
    [fpsid, mvfr0, mvfr1]
}

/// All of them, as they are.
pub fn read() -> CpuId {
    let [fpsid, mvfr0, mvfr1] = vfp();
    CpuId {
        midr: mrc!("15", "0", "0", "0", "0"),
        ctr: mrc!("15", "0", "0", "0", "1"),
        tcmtr: mrc!("15", "0", "0", "0", "2"),
        tlbtr: mrc!("15", "0", "0", "0", "3"),
        mpidr: mrc!("15", "0", "0", "0", "5"),
        revidr: mrc!("15", "0", "0", "0", "6"),
        pfr: [mrc!("15", "0", "0", "1", "0"), mrc!("15", "0", "0", "1", "1")],
        dfr0: mrc!("15", "0", "0", "1", "2"),
        afr0: mrc!("15", "0", "0", "1", "3"),
        mmfr: [
            mrc!("15", "0", "0", "1", "4"),
            mrc!("15", "0", "0", "1", "5"),
            mrc!("15", "0", "0", "1", "6"),
            mrc!("15", "0", "0", "1", "7"),
        ],
        isar: [
            mrc!("15", "0", "0", "2", "0"),
            mrc!("15", "0", "0", "2", "1"),
            mrc!("15", "0", "0", "2", "2"),
            mrc!("15", "0", "0", "2", "3"),
            mrc!("15", "0", "0", "2", "4"),
            mrc!("15", "0", "0", "2", "5"),
        ],
        clidr: mrc!("15", "1", "0", "0", "1"),
        ccsidr_data: ccsidr(0),
        ccsidr_instr: ccsidr(1),
        fpsid,
        mvfr: [mvfr0, mvfr1],
        dbgdidr: mrc!("14", "0", "0", "0", "0"),
        lpae: false,
    }
}

/// The `compatible` string of a device tree's CPU node for this core.
pub fn compatible() -> &'static str {
    match mrc!("15", "0", "0", "0", "0") >> 4 & 0xfff {
        0xc05 => "arm,cortex-a5",
        0xc07 => "arm,cortex-a7",
        0xc08 => "arm,cortex-a8",
        0xc09 => "arm,cortex-a9",
        0xc0f => "arm,cortex-a15",
        _ => "arm,armv7",
    }
}
