//! What those want of a virtual machine who run it, or who ask about it: the scheduler and the monitor.

use super::Vm;
#[cfg(feature = "papers")]
use super::mmu::Mmu;
#[cfg(feature = "papers")]
use crate::engine::KernelEngine;
use crate::host::Host;
use crate::host_cpu::HostCpu;
use crate::machine::GuestMachine;
use spica_options::Options;
use spica_switches::later::Later;
use spica_trace_ring::Ring;
use spica_vcpu::Cpu;

impl Vm {
    /// Its name, from the manifest.
    pub fn name(&self) -> &str {
        &self.common.name
    }

    /// What runs its kernel, in a word of the manifest.
    pub fn engine_name(&self) -> &'static str {
        if self.common.engine.runs_in_place() { "in-place" } else { "blocks" }
    }

    /// Bytes of its RAM.
    pub fn ram_bytes(&self) -> u32 {
        self.common.ram.size()
    }

    /// Host time at which the guest's counter was 0.
    pub fn counts_from(&self) -> u64 {
        self.common.start
    }

    /// It was paused for so many ticks of the host's timer, which do not pass for the guest.
    pub fn was_paused(&mut self, ticks: u64) {
        self.common.start = self.common.start.wrapping_add(ticks);
    }

    /// Host time at which a timer of the guest's comes due.
    pub fn deadline(&self, host: &Host) -> Option<u64> {
        self.common.machine.next_deadline().map(|ticks| host.host_time(self.common.start, ticks))
    }

    /// Whether it has something to do though its guest waits: to take an interrupt, to serve its devices, or to stand
    /// for its debugger, as a device has written what is watched.
    pub fn wants_turn(&self) -> bool {
        self.common.interrupted() || self.common.machine.wants_service() || self.common.watches.are_hit()
    }

    /// Makes the core its own, whoever had it before.
    pub fn arrive(&mut self) {
        self.vcpu.arrive();
    }

    /// Leaves nothing of it in the core.
    pub fn depart(&mut self, core: &mut HostCpu) {
        self.vcpu.depart(core);
    }

    /// What it does is recorded in `ring` from now on, or no longer.
    pub fn set_trace(&mut self, ring: Option<&'static Ring>) {
        self.vcpu.context.set_trace(ring);
        self.vcpu.mmu.notice(ring.is_some() || self.common.engine.blocks.counts());
    }

    /// Its system calls, and nothing else, are recorded in `ring` from now on, with all that they say.
    pub fn trace_calls(&mut self, ring: &'static Ring) {
        self.vcpu.context.trace_calls(ring);
        self.vcpu.mmu.notice(true);
    }

    /// Presses its power key.
    pub fn press_power_key(&mut self) {
        self.common.machine.press_power_key();
    }

    /// Tells its balloon how many bytes it is to have. False if it has none.
    pub fn set_balloon(&mut self, bytes: u32) -> bool {
        let slot = self.common.devices.balloon();
        if let Some(slot) = slot {
            self.common.machine.with_slot(slot, |slot| slot.set_balloon_target(bytes / 4096));
        }
        slot.is_some()
    }

    /// All that its UART has still to send goes to `put`.
    pub fn take_last_output(&mut self, put: impl FnMut(u8)) {
        self.common.machine.take_output(usize::MAX, put);
    }

    /// How changes of its tables are noticed ([`crate::papers`]).
    pub fn set_tracking(&mut self, options: &Options) {
        self.vcpu.mmu.set_tracking(options);
    }

    /// What it runs with later.
    pub fn set_later(&mut self, later: Later) {
        self.common.set_later(later);
    }

    /// The virtual CPU's registers.
    pub fn cpu(&mut self) -> &mut Cpu {
        &mut self.vcpu.context.cpu
    }

    /// The virtual CPU's MMU, for techniques that are measured beside it.
    #[cfg(feature = "papers")]
    pub fn mmu(&mut self) -> &mut Mmu {
        &mut self.vcpu.mmu
    }

    /// What runs its kernel's code, for the same.
    #[cfg(feature = "papers")]
    pub fn engine(&mut self) -> &mut KernelEngine {
        &mut self.common.engine
    }
}
