//! Exceptions taken while the hypervisor itself runs.
//!
//! The hypervisor runs in Supervisor mode. It does not fault on purpose, except at the instructions that
//! [`crate::arch::fixup`] lists; any other abort, undefined instruction or supervisor call is a bug and ends in a dump.
//! Interrupts come only where the hypervisor unmasks them, and go to one handler, [`set_irq_handler`].
//!
//! While a guest runs, VBAR points to other vectors; these are the ones of the way in between. The assembly is in
//! `vectors.s`: Abort, Undefined and FIQ mode have a stack of their own, so that even an overflow of the Supervisor
//! stack, which ends in its guard page, is reported.

use core::fmt;
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, Ordering};

use spica_vcpu::psr::{self, Mode};

use crate::arch::barrier::isb;
use crate::arch::cp15::{Dfar, Dfsr, Ifar, Ifsr, SysRegRead, SysRegWrite, Vbar};
use crate::arch::fixup;
use crate::assemble::assemble;

assemble! {
    files: [include_str!("vectors.s")];
    functions: [hypervisor_exception, hypervisor_irq];

    MODE_USR = Mode::Usr as u32;
    MODE_FIQ = Mode::Fiq as u32;
    MODE_SVC = Mode::Svc as u32;
    MODE_ABT = Mode::Abt as u32;
    MODE_UND = Mode::Und as u32;
    MODE_SYS = Mode::Sys as u32;
    PSR_MODE = psr::MODE;
    PSR_IF = psr::I | psr::F;

    FRAME_R = offset_of!(Frame, r);
    FRAME_PC = offset_of!(Frame, pc);
    FRAME_PSR = offset_of!(Frame, psr);

    RESET = Exception::Reset as u32;
    UNDEFINED = Exception::Undefined as u32;
    SUPERVISOR_CALL = Exception::SupervisorCall as u32;
    PREFETCH_ABORT = Exception::PrefetchAbort as u32;
    DATA_ABORT = Exception::DataAbort as u32;
    HYP_TRAP = Exception::HypTrap as u32;
    FAST_INTERRUPT = Exception::FastInterrupt as u32;
}

/// The registers at an exception, as `vectors.s` stores them.
#[repr(C)]
pub struct Frame {
    /// Stack pointer of the interrupted mode.
    pub sp: u32,
    /// Link register of the interrupted mode.
    pub lr: u32,
    /// R0 to R12.
    pub r: [u32; 13],
    /// Address of the instruction that the exception belongs to.
    pub pc: u32,
    /// CPSR of the interrupted code.
    pub psr: u32,
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, value) in self.r.iter().enumerate() {
            let end = if index % 4 == 3 { '\n' } else { ' ' };
            write!(f, "r{index:<2}={value:08x}{end}")?;
        }
        write!(f, "sp ={:08x} lr ={:08x} pc ={:08x}\npsr={:08x}", self.sp, self.lr, self.pc, self.psr)
    }
}

/// Which vector an exception was taken through; `vectors.s` gives the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Exception {
    /// A jump to address 0 of the vectors.
    Reset = 0,
    /// Undefined instruction.
    Undefined = 1,
    /// Supervisor call.
    SupervisorCall = 2,
    /// An instruction could not be fetched.
    PrefetchAbort = 3,
    /// A load or store was refused, or an earlier one failed (asynchronous abort).
    DataAbort = 4,
    /// The vector of Hyp mode, which Spica never uses.
    HypTrap = 5,
    /// A fast interrupt, which Spica never unmasks.
    FastInterrupt = 6,
}

unsafe extern "C" {
    static hypervisor_vectors: u32;
}

/// The handler of interrupts that come while the hypervisor runs; null before the first [`set_irq_handler`].
static IRQ_HANDLER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Makes these vectors the current ones.
pub fn install() {
    // SAFETY: the symbol is 32-byte aligned code in the hypervisor region, mapped in all tables.
    unsafe { Vbar::write_raw(&raw const hypervisor_vectors as u32) }
    isb();
}

/// Names the function that is called, with interrupts masked, for each interrupt that comes while the hypervisor runs.
///
/// It acknowledges and ends the interrupt itself, and is called again as long as a line stays raised.
pub fn set_irq_handler(handler: fn()) {
    IRQ_HANDLER.store(handler as *mut (), Ordering::Release);
}

extern "C" fn hypervisor_irq() {
    let handler = IRQ_HANDLER.load(Ordering::Acquire);
    assert!(!handler.is_null(), "an interrupt came before anybody asked for one");
    // SAFETY: only `set_irq_handler` stores here, a `fn()`.
    let handler: fn() = unsafe { core::mem::transmute(handler) };
    handler();
}

extern "C" fn hypervisor_exception(frame: &mut Frame, exception: Exception) {
    if matches!(exception, Exception::Undefined | Exception::DataAbort)
        && let Some(landing) = fixup::landing(frame.pc)
    {
        frame.pc = landing;
        return;
    }
    let fault = match exception {
        Exception::DataAbort => Some(("DFSR", Dfsr::read_raw(), "DFAR", Dfar::read_raw())),
        Exception::PrefetchAbort => Some(("IFSR", Ifsr::read_raw(), "IFAR", Ifar::read_raw())),
        _ => None,
    };
    match fault {
        Some((status, status_value, address, address_value)) => panic!(
            "{exception:?} in the hypervisor: {status}={status_value:#x} {address}={address_value:#010x}\n{frame}"
        ),
        None => panic!("{exception:?} in the hypervisor\n{frame}"),
    }
}
