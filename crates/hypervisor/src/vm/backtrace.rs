//! Where a guest's kernel was called from, as far as its stack tells.
//!
//! Few kernels keep frame pointers, and what else says where a function has its return address is the compiler's. So
//! the stack is looked through for words behind a call: addresses whose word in front is BL, or BLX of a register (ARM
//! ARM A8.8.25, A8.8.26). Such words may be left of what was called before. A direct call says what it calls: if that
//! is not a little in front of where the callee is, or its own callee was called, the word is marked.
//!
//! The stack and the code are a guest's, so anything may be there: a bounded number of words is looked at, and of
//! places in code.

use spica_addr::{CachePc, GuestPa, GuestVa, pieces};
use spica_mmu::lookup;
use spica_vcpu::Bank;
use spica_vcpu::psr::Mode;

use super::trap::guest_pc_of;
use super::{Vm, regime};
use crate::host_cpu::HostSpace;

/// Return addresses that are shown.
pub const FRAMES: usize = 16;
/// Bytes of a kernel's stack, which begins at a multiple of them: of Linux (`THREAD_SIZE`).
pub(super) const STACK: u32 = 8192;
/// Words in code that are looked at, at most.
const MOST_LOOKS: u32 = 128;
/// A function is no longer than this, as a rule.
const FUNCTION: u32 = 0x1_0000;
/// Code is no farther from other code than this: what BL reaches, as a rule.
const CODE: u32 = 32 << 20;

/// A return address.
#[derive(Clone, Copy)]
pub struct Frame {
    /// The address.
    pub address: GuestVa,
    /// What was called, if the call says so.
    pub called: Option<GuestVa>,
    /// It may be left of something before.
    pub stale: bool,
}

/// See the module's text.
#[derive(Clone, Copy)]
pub struct Backtrace {
    /// Where the guest is.
    pub pc: GuestVa,
    /// Whether that is its kernel.
    pub kernel: bool,
    frames: [Option<Frame>; FRAMES],
}

/// Code that is looked at, by virtual address.
pub(super) struct Code<'a> {
    vm: &'a Vm,
    host_space: HostSpace<'a>,
    /// The page that was looked at last.
    known: Option<(GuestVa, GuestPa)>,
    looks: u32,
}

impl<'a> Code<'a> {
    /// That of a guest. So many words are looked at, at most.
    pub(super) fn new(vm: &'a Vm, host_space: HostSpace<'a>, looks: u32) -> Self {
        Code { vm, host_space, known: None, looks }
    }

    pub(super) fn place(&mut self, va: u32) -> Option<GuestPa> {
        let va = GuestVa(va);
        let page = match self.known {
            Some((known, pa)) if known == va.page() => pa,
            _ => {
                let memory = self.vm.common.ram.at(self.host_space);
                let pa = lookup(&memory, &regime(&self.vm.vcpu.context.cpu), va).ok()?.pa.page();
                self.known = Some((va.page(), pa));
                pa
            }
        };
        Some(GuestPa(page.0 | va.page_offset()))
    }

    fn word(&mut self, va: u32) -> Option<u32> {
        let pa = self.place(va)?;
        self.vm.common.ram.load(self.host_space, pa, 4)
    }

    /// What the call in front of `address` calls; `None` if there is no call.
    pub(super) fn call(&mut self, address: u32) -> Option<Option<GuestVa>> {
        self.looks = self.looks.checked_sub(1)?;
        let call = address.wrapping_sub(4);
        let word = self.word(call)?;
        if word >> 28 == 0xf {
            return None;
        }
        if word >> 24 & 0xf == 0b1011 {
            let offset = (word << 8).cast_signed() >> 6;
            return Some(Some(GuestVa(call.wrapping_add(8).wrapping_add_signed(offset))));
        }
        (word & 0x0fff_fff0 == 0x012f_ff30).then_some(None)
    }
}

/// Whether code at `address` may have called that at `inner`.
pub(super) const fn near(address: u32, inner: u32) -> bool {
    address.is_multiple_of(4) && address.abs_diff(inner) < CODE
}

/// Whether a call of what it calls is not one of where `inner` is.
pub(super) fn stale(called: Option<GuestVa>, inner: u32) -> bool {
    called.is_some_and(|called| inner.wrapping_sub(called.0) >= FUNCTION)
}

impl Backtrace {
    /// That of a guest that does not run.
    pub fn of(vm: &Vm, host_space: HostSpace<'_>) -> Backtrace {
        let cpu = &vm.vcpu.context.cpu;
        let pc = guest_pc_of(vm, host_space, CachePc(cpu.pc)).unwrap_or(GuestVa(cpu.pc));
        let mut backtrace = Backtrace { pc, kernel: cpu.privileged(), frames: [None; FRAMES] };
        if backtrace.kernel {
            let code = || Code::new(vm, host_space, MOST_LOOKS);
            backtrace.fill(code(), cpu.regs[13], cpu.regs[14]);
            // Where an exception is taken, there is nothing yet on its mode's stack: what was interrupted is a kernel's
            // usual mode.
            if backtrace.frames[0].is_none() && cpu.mode() != Mode::Svc {
                let bank = &cpu.page.bank[Bank::Svc as usize];
                backtrace.fill(code(), bank.sp, bank.lr);
            }
        }
        backtrace
    }

    fn fill(&mut self, mut code: Code<'_>, sp: u32, lr: u32) {
        let (vm, host_space) = (code.vm, code.host_space);
        let mut frames = self.frames.iter_mut();
        let mut inner = self.pc.0;
        let mut look = |address: u32| {
            let called = near(address, inner).then(|| code.call(address)).flatten();
            let Some(called) = called else { return true };
            let stale = stale(called, inner);
            let Some(frame) = frames.next() else { return false };
            *frame = Some(Frame { address: GuestVa(address), called, stale });
            if !stale {
                inner = address;
            }
            true
        };
        if !look(lr) {
            return;
        }
        let sp = sp & !3;
        let mut stack = Code::new(vm, host_space, 0);
        for (at, len) in pieces(sp, (STACK - sp % STACK) as usize) {
            let Some(pa) = stack.place(sp.wrapping_add(at as u32)) else { return };
            let Some(bytes) = vm.common.ram.bytes(host_space, pa, len as u32) else { return };
            if !bytes.as_chunks::<4>().0.iter().all(|&word| look(u32::from_le_bytes(word))) {
                return;
            }
        }
    }

    /// From the innermost on.
    pub fn frames(&self) -> impl Iterator<Item = &Frame> {
        self.frames.iter().flatten()
    }
}
