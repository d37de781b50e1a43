//! System registers by their architectural names.
//!
//! `Register::read_raw()` and `unsafe Register::write_raw(value)` come from the `aarch32-cpu` crate's traits; the
//! registers that it lacks are described here in the same way, a line each. Values are plain words: their fields are
//! cut where they are used, next to the reason for it.
//!
//! The crate's accesses claim not to touch memory (`nomem`), so the compiler may move ordinary accesses across them.
//! Where the order matters, a barrier of [`super::barrier`] stands between; it is needed on the core as well.

pub use aarch32_cpu::register::{
    Contextidr, Cpacr, Ctr, Dacr, Dfar, Dfsr, IdDfr0, IdMmfr3, IdPfr0, IdPfr1, Ifar, Ifsr, Midr, Sctlr, SysReg,
    SysRegRead, SysRegWrite, Tpidruro, Tpidrurw, Vbar,
};

macro_rules! system_register {
    ($($(#[$doc:meta])* $name:ident = p $cp:literal, $op1:literal, c $crn:literal, c $crm:literal, $op2:literal: $($access:ident),+;)+) => {
        $(
            $(#[$doc])*
            pub struct $name;

            impl SysReg for $name {
                const CP: u32 = $cp;
                const OP1: u32 = $op1;
                const CRN: u32 = $crn;
                const CRM: u32 = $crm;
                const OP2: u32 = $op2;
            }

            $(impl $access for $name {})+
        )+
    };
}

system_register! {
    /// Translation table base 0 (B4.1.154), raw: the crate's type knows only the multiprocessing format.
    Ttbr0 = p 15, 0, c 2, c 0, 0: SysRegRead, SysRegWrite;
    /// Auxiliary control (implementation defined).
    Actlr = p 15, 0, c 1, c 0, 1: SysRegRead;
    /// Performance monitors: what user mode may reach (B4.1.126).
    Pmuserenr = p 15, 0, c 9, c 14, 0: SysRegRead, SysRegWrite;
    /// Performance monitors: control (B4.1.117).
    Pmcr = p 15, 0, c 9, c 12, 0: SysRegWrite;
    /// Performance monitors: the cycle counter (B4.1.113).
    Pmccntr = p 15, 0, c 9, c 13, 0: SysRegRead;
    /// Generic timer: what user mode may reach (B4.1.26).
    Cntkctl = p 15, 0, c 14, c 1, 0: SysRegRead, SysRegWrite;
    /// Generic timer: its frequency in Hz, as firmware set it (B4.1.21).
    Cntfrq = p 15, 0, c 14, c 0, 0: SysRegRead;
    /// Generic timer: control of the virtual timer (B4.1.31).
    CntvCtl = p 15, 0, c 14, c 3, 1: SysRegRead, SysRegWrite;
    /// ThumbEE control (A2.10): XED stops user mode from reaching ThumbEE's base register.
    Teecr = p 14, 6, c 0, c 0, 0: SysRegRead, SysRegWrite;
    /// ThumbEE handler base (A2.10).
    Teehbr = p 14, 6, c 1, c 0, 0: SysRegRead, SysRegWrite;
    /// Jazelle OS control (A2.10): CD stops user mode from reaching Jazelle's configuration.
    Joscr = p 14, 7, c 1, c 0, 0: SysRegRead, SysRegWrite;
    /// Debug status and control, internal view (C11.11.20).
    Dbgdscr = p 14, 0, c 0, c 1, 0: SysRegRead;

    /// Instruction cache and predictor: invalidate all to the point of unification (B4.2.1).
    Iciallu = p 15, 0, c 7, c 5, 0: SysRegWrite;
    /// Instruction cache: invalidate by address to the point of unification.
    Icimvau = p 15, 0, c 7, c 5, 1: SysRegWrite;
    /// Branch predictor: invalidate all.
    Bpiall = p 15, 0, c 7, c 5, 6: SysRegWrite;
    /// Data cache: clean by address to the point of unification.
    Dccmvau = p 15, 0, c 7, c 11, 1: SysRegWrite;
    /// Data cache: clean by set and way.
    Dccsw = p 15, 0, c 7, c 10, 2: SysRegWrite;
    /// Data cache: clean by address to the point of coherency.
    Dccmvac = p 15, 0, c 7, c 10, 1: SysRegWrite;
    /// Data cache: clean and invalidate by address to the point of coherency.
    Dccimvac = p 15, 0, c 7, c 14, 1: SysRegWrite;

    /// Address translation, as a read of PL1 (B4.2.4).
    Ats1cpr = p 15, 0, c 7, c 8, 0: SysRegWrite;
    /// The same, as a read of User mode.
    Ats1cur = p 15, 0, c 7, c 8, 2: SysRegWrite;
    /// What came of it (B4.1.112).
    Par = p 15, 0, c 7, c 4, 0: SysRegRead;

    /// TLBs: invalidate all, instructions and data, local core (B4.2.2).
    Tlbiall = p 15, 0, c 8, c 7, 0: SysRegWrite;
    /// TLBs: invalidate by address and ASID.
    Tlbimva = p 15, 0, c 8, c 7, 1: SysRegWrite;
    /// TLBs: invalidate by ASID.
    Tlbiasid = p 15, 0, c 8, c 7, 2: SysRegWrite;
}
