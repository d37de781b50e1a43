//! The system calls that the tests use, and signals.
//!
//! Numbers and structures are those of Linux on 32-bit ARM (`arch/arm/tools/syscall.tbl`, `uapi/asm/sigcontext.h`).

use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;
use core::mem::size_of;

/// Numbers of system calls.
pub mod number {
    pub const EXIT: u32 = 1;
    pub const FORK: u32 = 2;
    pub const READ: u32 = 3;
    pub const WRITE: u32 = 4;
    pub const CLOSE: u32 = 6;
    pub const GETPID: u32 = 20;
    pub const PIPE: u32 = 42;
    pub const MUNMAP: u32 = 91;
    pub const SETITIMER: u32 = 104;
    pub const WAIT4: u32 = 114;
    pub const UNAME: u32 = 122;
    pub const MPROTECT: u32 = 125;
    pub const SCHED_YIELD: u32 = 158;
    pub const RT_SIGACTION: u32 = 174;
    pub const MMAP2: u32 = 192;
    pub const CACHEFLUSH: u32 = 0x0f_0002;
    pub const SET_TLS: u32 = 0x0f_0005;
}

/// A bad address, as system calls return it.
pub const EFAULT: i32 = -14;

/// Makes a system call.
///
/// # Safety
/// The arguments must be such that the kernel does nothing to this program's memory that Rust does not expect.
pub unsafe fn call(number: u32, args: [u32; 6]) -> i32 {
    let result;
    // SAFETY: the kernel keeps all registers but r0; the caller vouches for the rest.
    unsafe {
        asm!(
            "svc #0",
            in("r7") number,
            inlateout("r0") args[0] => result,
            in("r1") args[1], in("r2") args[2], in("r3") args[3], in("r4") args[4], in("r5") args[5],
            options(nostack)
        );
    }
    result
}

/// Makes a system call without memory arguments, or with such that cannot hurt.
pub fn simple(number: u32, a: u32, b: u32, c: u32) -> i32 {
    // SAFETY: by its contract.
    unsafe { call(number, [a, b, c, 0, 0, 0]) }
}

/// Ends the process.
pub fn exit(status: u32) -> ! {
    simple(number::EXIT, status, 0, 0);
    loop {
        core::hint::spin_loop();
    }
}

/// Writes bytes to a file.
pub fn write(file: u32, bytes: &[u8]) -> i32 {
    simple(number::WRITE, file, bytes.as_ptr() as u32, bytes.len() as u32)
}

/// Reads bytes from a file.
pub fn read(file: u32, bytes: &mut [u8]) -> i32 {
    simple(number::READ, file, bytes.as_mut_ptr() as u32, bytes.len() as u32)
}

/// Forks: 0 in the child, the child's number in the parent.
pub fn fork() -> i32 {
    simple(number::FORK, 0, 0, 0)
}

/// Waits for a child to end, and gives its status as the kernel encodes it.
pub fn wait(child: i32) -> u32 {
    let mut status = 0u32;
    let ended = simple(number::WAIT4, child as u32, (&raw mut status) as u32, 0);
    assert_eq!(ended, child, "wait");
    // SAFETY: it is this function's own variable, which the kernel has written.
    unsafe { (&raw const status).read_volatile() }
}

/// Protections of mapped memory.
pub mod protection {
    pub const NONE: u32 = 0;
    pub const READ: u32 = 1;
    pub const WRITE: u32 = 2;
    pub const EXEC: u32 = 4;
}

/// Maps `size` bytes of fresh private memory.
pub fn map(size: usize, protection: u32) -> *mut u8 {
    const PRIVATE_ANONYMOUS: u32 = 0x22;
    // SAFETY: the kernel chooses an address where nothing is.
    let address = unsafe { call(number::MMAP2, [0, size as u32, protection, PRIVATE_ANONYMOUS, u32::MAX, 0]) };
    assert!(!(-4095..0).contains(&address), "mmap: {address}");
    address as u32 as *mut u8
}

/// Unmaps memory that [`map`] gave.
pub fn unmap(address: *mut u8, size: usize) {
    assert_eq!(simple(number::MUNMAP, address as u32, size as u32, 0), 0, "munmap");
}

/// Changes the protection of memory that [`map`] gave.
pub fn protect(address: *mut u8, size: usize, protection: u32) {
    assert_eq!(simple(number::MPROTECT, address as u32, size as u32, protection), 0, "mprotect");
}

// --- Signals -------------------------------------------------------------------------------------------------------

/// Numbers of signals.
pub mod signal {
    pub const ILL: u32 = 4;
    pub const TRAP: u32 = 5;
    pub const BUS: u32 = 7;
    pub const SEGV: u32 = 11;
    pub const ALRM: u32 = 14;
}

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

#[repr(C)]
struct SignalAction {
    handler: u32,
    flags: u32,
    restorer: u32,
    mask: [u32; 2],
}

const SA_SIGINFO: u32 = 4;
const SA_RESTORER: u32 = 0x0400_0000;
const SA_NODEFER: u32 = 0x4000_0000;

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
    fn signal_return();
    fn resume_point();
}

global_asm!(
    ".arm",
    "signal_return:",
    "mov r7, #173", // rt_sigreturn
    "svc #0",
);

/// Installs a handler.
pub fn on_signal(signal: u32, handler: Handler) {
    let action = SignalAction {
        handler: handler as *const () as u32,
        flags: SA_SIGINFO | SA_RESTORER | SA_NODEFER,
        restorer: signal_return as *const () as u32,
        mask: [0, 0],
    };
    let mask_size = size_of::<[u32; 2]>() as u32;
    // SAFETY: the kernel only reads the structure, which is as it expects.
    let result = unsafe { call(number::RT_SIGACTION, [signal, (&raw const action) as u32, 0, mask_size, 0, 0]) };
    assert_eq!(result, 0, "sigaction");
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

// attempt(code, argument): calls `code` with `argument` in r0; a signal's handler resumes behind the call. All registers
// that a called function keeps are saved, since the code may be stopped anywhere.
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
