//! The world switch: Spica to guest and back.
//!
//! [`Context::enter`] runs the guest until its next trap and says which one it was. Everything that the guest can change
//! is in the [`Vcpu`] then; everything that it must not reach is put in place before. The assembly is in `switch.s`.

pub mod mirror;
pub mod space;
pub mod vfp;

use core::arch::global_asm;
use core::ffi::c_void;
use core::mem::offset_of;

use spica_dbt::jump_cache::{self, Entry, JumpCache};
use spica_vcpu::{Vcpu, VcpuPage, psr};

use crate::arch::barrier::isb;
use crate::arch::cp15::{SysRegWrite, Vbar};
use crate::vectors;

global_asm!(include_str!("switch.s"), world_panic = sym world_panic);

unsafe extern "C" {
    fn world_enter(cpu: *mut c_void) -> u32;
    fn world_install(cpu: *mut c_void);
    static world_kernel_vectors: [u32; 8];
    static world_user_vectors: [u32; 8];
}

/// Which of a guest's two worlds: they differ in shadow tables and in vectors, so that a trap from one cannot be taken
/// for one from the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum World {
    /// Translated guest kernel code.
    Kernel,
    /// Guest user code, native.
    User,
}

/// Why the guest was left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trap {
    /// Undefined Instruction; the PC is behind the instruction.
    Undefined,
    /// Supervisor Call; the PC is behind the instruction.
    SupervisorCall,
    /// Prefetch Abort; the PC is the instruction's.
    PrefetchAbort,
    /// Data Abort; the PC is the instruction's.
    DataAbort,
    /// IRQ of the host; the PC is that of the next instruction.
    Irq,
    /// FIQ of the host. Never happens: FIQs are masked.
    Fiq,
}

/// A virtual CPU with what the trap handlers in assembly need beside it. Privileged memory: the guest never sees it.
#[repr(C)]
pub struct Context {
    jump_cache: *const Entry,
    /// Non-zero: the fast path of indirect branches must leave to Rust, because an interrupt waits.
    pub leave: u32,
    /// Indirect branches that the jump cache answered.
    pub jump_hits: u32,
    host_sp: u32,
    scratch: [u32; 2],
    /// The virtual CPU.
    pub cpu: Vcpu,
}

/// Offset of a field before the virtual CPU, as `switch.s` has it.
const fn before_cpu(offset: usize) -> isize {
    offset as isize - offset_of!(Context, cpu) as isize
}

const _: () = {
    assert!(before_cpu(offset_of!(Context, jump_cache)) == -24);
    assert!(before_cpu(offset_of!(Context, leave)) == -20);
    assert!(before_cpu(offset_of!(Context, jump_hits)) == -16);
    assert!(before_cpu(offset_of!(Context, host_sp)) == -12);
    assert!(offset_of!(Vcpu, regs) == 0);
    assert!(offset_of!(Vcpu, pc) == 60);
    assert!(offset_of!(Vcpu, psr) == 64);
    assert!(offset_of!(Vcpu, page) == 68);
    assert!(offset_of!(VcpuPage, target) == 16);
    assert!(jump_cache::ENTRIES == 16384 && size_of::<Entry>() == 8);
    assert!(spica_dbt::trap::INDIRECT == 2);
};

impl Context {
    /// A context for `cpu`.
    pub fn new(cpu: Vcpu, jump_cache: &JumpCache) -> Context {
        Context { jump_cache: jump_cache.as_ptr(), leave: 0, jump_hits: 0, host_sp: 0, scratch: [0; 2], cpu }
    }

    /// Makes this the virtual CPU that the exception modes save to. To be called before [`Context::enter`] whenever
    /// another one ran, or this one was moved.
    pub fn install(&mut self) {
        // SAFETY: it changes the stack pointers of modes that no Rust code runs in.
        unsafe { world_install((&raw mut self.cpu).cast()) }
    }

    /// Runs the guest at `cpu.pc` until its next trap. The tables, DACR and the rest of the guest's world are in place.
    pub fn enter(&mut self, world: World) -> Trap {
        // The trust rule: what the guest left in the PSR decides neither mode nor masks.
        self.cpu.psr = psr::sanitize(self.cpu.psr);
        let vectors = match world {
            World::Kernel => &raw const world_kernel_vectors,
            World::User => &raw const world_user_vectors,
        };
        // SAFETY: the tables of vectors are aligned to 32 bytes and handle all exceptions of User mode; from here to
        // the guest's first instruction nothing of ours raises one. `world_enter` keeps to the calling convention.
        let trap = unsafe {
            Vbar::write_raw(vectors as u32);
            isb();
            let trap = world_enter((&raw mut self.cpu).cast());
            // From here on a fault is Spica's own, and its own vectors tell more about it.
            vectors::install();
            trap
        };
        match trap {
            1 => Trap::Undefined,
            2 => Trap::SupervisorCall,
            3 => Trap::PrefetchAbort,
            4 => Trap::DataAbort,
            6 => Trap::Irq,
            _ => Trap::Fiq,
        }
    }
}

/// An exception of Spica's own while a guest's vectors are installed.
extern "C" fn world_panic(spsr: u32, lr: u32, cpsr: u32) -> ! {
    panic!("exception in the hypervisor: mode {:#x}, from psr {spsr:#010x}, return address {lr:#010x}", cpsr & 0x1f);
}
