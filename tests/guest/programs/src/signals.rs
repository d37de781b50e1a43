//! Signals as the tests need them: handlers in Rust, and calls of code that may fault.
//!
//! Structures are those of Linux on 32-bit ARM (`uapi/asm/sigcontext.h`).

use core::arch::global_asm;
use core::cell::UnsafeCell;

use spica_freestanding::signals::{self, signal};

/// The registers of an interrupted program: Linux's `struct sigcontext`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct SignalContext {
    trap_number: u32,
    /// The fault status register.
    pub error_code: u32,
    old_mask: u32,
    /// R0 to R15.
    pub r: [u32; 16],
    /// CPSR.
    pub cpsr: u32,
    /// The fault address register.
    pub fault_address: u32,
}

/// The beginning of Linux's `struct ucontext`.
#[repr(C)]
struct UserContext {
    flags: u32,
    link: u32,
    stack: [u32; 3],
    context: SignalContext,
}

/// The beginning of Linux's `siginfo_t`, for signals of faults.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct SignalInfo {
    /// The signal.
    pub signal: u32,
    /// An error number.
    pub error: u32,
    /// Why.
    pub code: u32,
    /// Where.
    pub address: u32,
}

/// A signal as [`catch`] got it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caught {
    /// What the kernel says about it.
    pub info: SignalInfo,
    /// The registers at the fault.
    pub context: SignalContext,
}

/// A handler of signals: it may change the context, to which the program returns.
pub type Handler = extern "C" fn(u32, &SignalInfo, &mut Frame);

/// What a [`Handler`] may look at and change of the interrupted program.
#[repr(transparent)]
pub struct Frame(UserContext);

impl Frame {
    /// The registers.
    pub fn context(&mut self) -> &mut SignalContext {
        &mut self.0.context
    }
}

unsafe extern "C" {
    fn resume_point();
}

/// Installs a handler.
pub fn on_signal(signal: u32, handler: Handler) {
    signals::install(signal, handler as *const () as u32, signals::NODEFER);
}

/// One value that a handler and the program share. There is one thread.
pub struct Shared<T>(UnsafeCell<T>);

// SAFETY: there is one thread.
unsafe impl<T> Sync for Shared<T> {}

impl<T: Copy> Shared<T> {
    /// A value to begin with.
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// The value.
    pub fn get(&self) -> T {
        // SAFETY: no reference to the value exists; volatile, because a handler may have changed it.
        unsafe { self.0.get().read_volatile() }
    }

    /// Changes the value.
    pub fn set(&self, value: T) {
        // SAFETY: no reference to the value exists.
        unsafe { self.0.get().write_volatile(value) }
    }
}

static CAUGHT: Shared<Caught> = Shared::new(Caught {
    info: SignalInfo { signal: 0, error: 0, code: 0, address: 0 },
    context: SignalContext { trap_number: 0, error_code: 0, old_mask: 0, r: [0; 16], cpsr: 0, fault_address: 0 },
});

extern "C" fn remember(_signal: u32, info: &SignalInfo, frame: &mut Frame) {
    CAUGHT.set(Caught { info: *info, context: *frame.context() });
    let context = frame.context();
    // Go on behind the call in `attempt`, in its instruction set.
    context.r[15] = resume_point as *const () as u32;
    context.cpsr &= !(1 << 5);
}

// attempt(code, argument): calls `code` with `argument` in r0; a signal's handler resumes behind the call. All
// registers that a called function keeps are saved, since the code may be stopped anywhere.
global_asm!(
    ".arm",
    "attempt:",
    "push {{r4-r11, lr}}",
    "sub sp, sp, #4",
    "str sp, [r2]",
    "mov r3, r0",
    "mov r0, r1",
    "blx r3",
    "resume_point:",
    "ldr r2, =attempt_stack",
    "ldr sp, [r2]",
    "add sp, sp, #4",
    "pop {{r4-r11, pc}}",
    ".ltorg",
    ".bss",
    ".balign 4",
    "attempt_stack: .space 4",
    ".text",
);

unsafe extern "C" {
    fn attempt(code: u32, argument: u32, stack: *mut u32) -> u32;
    static mut attempt_stack: u32;
}

/// Calls code with an argument, and gives its result or the fault's signal that stopped it.
///
/// # Safety
/// The code must keep to the procedure call standard, or fault.
pub unsafe fn catch(code: u32, argument: u32) -> Result<u32, Caught> {
    for signal in [signal::ILL, signal::TRAP, signal::BUS, signal::SEGV] {
        on_signal(signal, remember);
    }
    CAUGHT.set(Caught::default());
    // SAFETY: the caller vouches for the code; a fault in it ends in `remember`, which returns to `attempt`.
    let result = unsafe { attempt(code, argument, &raw mut attempt_stack) };
    let caught = CAUGHT.get();
    if caught.info.signal == 0 { Ok(result) } else { Err(caught) }
}
