//! Writes to the guest's timer by which it may interrupt, or at another time than before: those that `world/fast.s`
//! does not do itself. A kernel has two of them with every tick of a program's interval timer, on a board whose timer
//! assembly cannot set.

use spica_addr::{CachePc, GuestVa};
use spica_vcpu::cp15::TimerReg;

use crate::host::Host;
use crate::machine::GuestMachine;
use crate::vm::counters::Class;
use crate::vm::{Common, Resume, Vm};
use crate::world::GuestTimer;

/// Carries out the instruction `word` of the guest's kernel at `pc`, if it is such a write, as compilers make them:
/// without a condition. The block goes on at `next`. Nothing has changed behind it but interrupts that wait.
#[inline]
pub fn write(vm: &mut Vm, host: &mut Host, word: u32, pc: GuestVa, next: CachePc) -> Option<Resume> {
    // MCR p15, 0, Rt, c14, c2, 1 (CNTP_CTL), and MCRR p15, 2, Rt, Rt2, c14 (CNTP_CVAL); the virtual timer's are with
    // c3, and with 3.
    let (control, compare) = (word & 0xffff_0ffe == 0xee0e_0f32, word & 0xfff0_0fef == 0xec40_0f2e);
    if !(control || compare) || !vm.common.switches.quick_timer {
        return None;
    }
    write_to(vm, host, word, control, pc, next)
}

#[inline(never)]
fn write_to(vm: &mut Vm, host: &mut Host, word: u32, control: bool, pc: GuestVa, next: CachePc) -> Option<Resume> {
    let Vm { vcpu, common, .. } = vm;
    let context = &mut *vcpu.context;
    let register = |shift: u32| context.cpu.regs.get((word >> shift & 0xf) as usize).copied().map(u64::from);
    let low = register(12)?;
    let physical = word & if control { 1 } else { 1 << 4 } == 0;
    let (reg, value) = match (control, physical) {
        (true, true) => (TimerReg::CntpCtl, low),
        (true, false) => (TimerReg::CntvCtl, low),
        (false, true) => (TimerReg::CntpCval, low | register(16)? << 32),
        (false, false) => (TimerReg::CntvCval, low | register(16)? << 32),
    };
    common.counters.emulated[Class::Coprocessor as usize] += 1;
    common.set_timer(&mut context.timer, host, reg, value);
    if vm.interrupt_deliverable() {
        return Some(Resume::Guest(pc.wrapping_add(4)));
    }
    vm.note_interrupts();
    Some(Resume::Back(next))
}

/// Ticks of the guest's counter for which the host's timer can be set without Rust at most, four seconds: the host's
/// clock, which turns, is looked at in time, whatever the guest does.
const FARTHEST: u64 = 1 << 28;

impl Common {
    /// The guest writes to a register of its generic timer; `timer` is what assembly knows of that.
    pub fn set_timer(&mut self, timer: &mut GuestTimer, host: &mut Host, reg: TimerReg, value: u64) {
        let now = host.guest_now(self.start);
        self.machine.timer_write(reg, value, now);
        timer.note(self.machine.timers());
        self.arm_timer(timer, host);
    }

    /// Sets the host's timer for what comes next of the guest's. What `timer` is of assembly.
    pub fn arm_timer(&mut self, timer: &mut GuestTimer, host: &mut Host) {
        host.arm_timer(self.start, self.machine.next_deadline());
        let others = self.machine.next_alarm().into_iter().chain(host.limit_of(self.start));
        timer.allow_until(others.fold(self.machine.updated() + FARTHEST, u64::min));
    }

    /// The guest's timer has just ticked, and may do so again without Rust, until somebody else wants to see an
    /// interrupt of the host's timer.
    pub fn allow_ticks(&self, timer: &mut GuestTimer, host: &Host) {
        let alarm = self.machine.next_alarm().map(|ticks| host.host_time(self.start, ticks));
        let others = alarm.into_iter().chain(host.limit());
        timer.allow_ticks(others.fold(self.backlog.next_glance(), u64::min));
    }
}
