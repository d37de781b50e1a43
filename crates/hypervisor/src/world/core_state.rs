//! State of the real core that follows the guest: DACR, SCTLR.{A, SW}, thread IDs, and whether VFP is on.
//!
//! Each is written only when it differs from what the core has; [`CoreState`] remembers that.

use crate::arch::barrier::{self, isb};
use crate::arch::cp15::{Cpacr, Dacr, Sctlr, SysRegRead, SysRegWrite, Tpidruro, Tpidrurw};
use crate::world::vfp::{self, Bank};
use spica_mmu::HostDacr;
use spica_vcpu::cp15::{FPEXC_EN, SCTLR_A, SCTLR_SW};

/// What the real core has on behalf of one guest, and what the guest has of it while another runs.
pub struct CoreState {
    dacr: u32,
    sctlr: u32,
    vfp_on: bool,
    bank: Bank,
    /// TPIDRURO and TPIDRURW while the guest does not run.
    thread_ids: [u32; 2],
    /// The core is the guest's.
    arrived: bool,
}

impl CoreState {
    /// The state of a guest after reset.
    pub fn new() -> CoreState {
        CoreState {
            dacr: Dacr::read_raw(),
            sctlr: Sctlr::read_raw(),
            vfp_on: false,
            bank: Bank::new(),
            thread_ids: [0; 2],
            arrived: false,
        }
    }

    /// The guest is about to run, after another one or none.
    pub fn arrive(&mut self) {
        self.arrived = true;
        self.dacr = Dacr::read_raw();
        self.sctlr = Sctlr::read_raw();
        self.set_thread_id_read_only(self.thread_ids[0]);
        self.set_thread_id_read_write(self.thread_ids[1]);
        // A reservation of whoever ran before is none of this guest's.
        barrier::clear_exclusive();
    }

    /// The guest stops running; nothing of it stays in the core that the next guest could see.
    pub fn depart(&mut self) {
        self.disable_vfp();
        self.bank.save();
        self.thread_ids = [Tpidruro::read_raw(), Tpidrurw::read_raw()];
        self.arrived = false;
        self.set_thread_id_read_only(0);
        // SAFETY: a register without effect on the hypervisor.
        unsafe { Tpidrurw::write_raw(0) }
    }

    /// Leaves nothing in the core of a guest whose records are lost.
    pub fn wipe() {
        // CPACR has no place for VFP where there is none (B4.1.40).
        if Cpacr::read_raw() >> 20 & 3 != 0 {
            vfp::clear();
        }
        // SAFETY: registers without effect on the hypervisor.
        unsafe {
            Tpidruro::write_raw(0);
            Tpidrurw::write_raw(0);
        }
    }

    /// Sets DACR.
    pub fn set_dacr(&mut self, value: HostDacr) {
        if self.dacr != value.raw() {
            // SAFETY: by its type, a value that leaves Spica its own domain and its tables their permissions.
            unsafe { Dacr::write_raw(value.raw()) }
            isb();
            self.dacr = value.raw();
        }
    }

    /// The guest's trap handlers in assembly may have changed DACR: it is `value` now.
    pub fn found_dacr(&mut self, value: HostDacr) {
        self.dacr = value.raw();
    }

    /// Lets alignment checking and SWP follow the guest's SCTLR (B4.1.130). Spica itself makes no unaligned access and
    /// uses no SWP.
    pub fn set_sctlr(&mut self, guest: u32) {
        let bits = SCTLR_A | SCTLR_SW;
        let value = self.sctlr & !bits | guest & bits;
        if self.sctlr != value {
            // SAFETY: only the two bits above change.
            unsafe { Sctlr::write_raw(value) }
            isb();
            self.sctlr = value;
        }
    }

    /// Sets the real TPIDRURO, which the guest's user code reads.
    pub fn set_thread_id_read_only(&mut self, value: u32) {
        // SAFETY: a register without effect on the hypervisor.
        unsafe { Tpidruro::write_raw(value) }
    }

    /// Sets the real TPIDRURW, which the guest's user code reads and writes; of a guest that does not run, what that
    /// will be.
    pub fn set_thread_id_read_write(&mut self, value: u32) {
        self.thread_ids[1] = value;
        if self.arrived {
            // SAFETY: as above.
            unsafe { Tpidrurw::write_raw(value) }
        }
    }

    /// The same, read.
    pub fn thread_id_read_write(&self) -> u32 {
        if self.arrived { Tpidrurw::read_raw() } else { self.thread_ids[1] }
    }

    /// Turns VFP on for the guest, with its registers loaded. `true` if it was off.
    pub fn enable_vfp(&mut self) -> bool {
        if self.vfp_on {
            return false;
        }
        self.vfp_on = true;
        self.bank.load(FPEXC_EN);
        true
    }

    /// The guest's trap handlers in assembly may have turned VFP on or off.
    pub fn found_vfp(&mut self) {
        // A core without VFP holds no registers of it, and has no FPEXC to ask.
        self.vfp_on = self.bank.in_core() && vfp::is_on();
    }

    /// Whether the core holds the guest's VFP registers, so that it takes no more than FPEXC to turn it on.
    pub fn holds_vfp(&self) -> bool {
        self.bank.in_core()
    }

    /// Whether VFP is on.
    pub fn vfp_on(&self) -> bool {
        self.vfp_on
    }

    /// The VFP registers D0 to D31 and FPSCR of a guest that does not run.
    pub fn vfp(&mut self) -> (&mut [u64; 32], &mut u32) {
        self.bank.saved()
    }

    /// Sets the thread IDs that user code reads (TPIDRURO) and writes (TPIDRURW), of a guest that does not run.
    pub fn set_thread_ids(&mut self, read_only: u32, read_write: u32) {
        self.thread_ids = [read_only, read_write];
    }

    /// Turns VFP off; the registers stay in the core until the guest departs.
    pub fn disable_vfp(&mut self) {
        if self.vfp_on {
            self.vfp_on = false;
            self.bank.park();
        }
    }
}

impl Default for CoreState {
    fn default() -> Self {
        CoreState::new()
    }
}
