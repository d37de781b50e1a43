//! A virtual machine: everything that one guest owns.
//!
//! The path of a trap: the vectors in `world/switch.s` save the guest and return from
//! [`Context::enter`](crate::world::Context::enter); [`Vm::run`] passes the trap to `vm/trap/`, one file per class,
//! which says in a [`Resume`] where the guest goes on; [`Vm::resume`] takes interrupts that wait, finds or makes the
//! block for a guest PC, puts the guest's state in place, and enters.

pub mod backlog;
pub mod backtrace;
pub mod boot;
pub mod call_vector;
#[cfg(feature = "check-fast-paths")]
pub mod check;
pub mod checked;
mod counted;
pub mod counters;
pub mod debug;
pub mod devices;
pub mod disk_room;
pub mod env;
pub mod events;
mod flash;
mod in_place;
mod instruction;
pub mod kept_disks;
pub mod load;
pub mod mmio;
pub mod mmu;
mod outside;
mod prepare;
pub mod ram;
pub mod report;
mod resume;
mod run;
pub mod sampled;
pub mod snapshot;
pub mod summary;
pub mod tables;
mod traced;
mod translate;
pub mod trap;
mod user_code;
pub mod vcpu;
pub mod watched;

crate::parts::part!(devices: devices);
crate::parts::part!(disk_room: devices);
crate::parts::part!(flash: devices);
crate::parts::part!(mmu: mmu);
crate::parts::part!(ram: mmu);
crate::parts::part!(tables: mmu);
crate::parts::part!(traced: other, "the timeline");

use alloc::boxed::Box;
use alloc::string::String;

use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_switches::Switches;

use crate::engine::{KernelEngine, LedFrom};
use crate::host::Host;
use crate::host_cpu::HostCpu;
use crate::machine::{GuestMachine, Machine};
use crate::println;
use backlog::Backlog;
use boot::Loading;
use counters::Counters;
use devices::Devices;
use mmu::Mmu;
use ram::Ram;
use spica_dbt::code_map::CodeMap;
use spica_dbt::looks::Looks;
use spica_dbt::preemptive_flush::PreemptiveFlush;
use spica_dbt::volatile::VolatilePages;
use spica_switches::later::Later;

pub use prepare::{regime, vfp_enabled};
pub use vcpu::Vcpu;

/// Where the guest goes on after a trap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resume {
    /// At this code-cache address, in the same block: nothing happened that the block does not know.
    Cache(CachePc),
    /// The same, and the guest's state is as it was: no interrupt, register or table that it depends on has changed.
    Back(CachePc),
    /// At this guest address, in the mode and state that the CPSR now has. A precise point: interrupts may be taken.
    Guest(GuestVa),
    /// At this guest address; what led there does so by itself from now on, if that is allowed.
    Led(GuestVa, LedFrom),
    /// At this guest address, once there is an interrupt for the guest, masked or not (B1.8.13).
    Wait(GuestVa),
    /// Nowhere: the VM stops.
    Stop(Stop),
}

/// Why a VM does not run on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pause {
    /// It could, but the host has something else to see to.
    Yield,
    /// It waits for an interrupt.
    Wait,
    /// It is over.
    Stop(Stop),
}

/// Why a VM stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The guest powered itself off.
    PowerOff,
    /// The guest asked for a reset.
    Reset,
    /// The guest's kernel accesses data big-endian, which translated code cannot.
    BigEndianKernel,
    /// Not over: a debugger has something to see to ([`debug`]).
    Debugger,
    /// Taking an exception raises an exception, endlessly.
    ExceptionLoop,
    /// The guest's kernel jumped into the middle of Spica's code cache.
    WildJump(u32),
    /// The guest maps memory where Spica lives.
    RegionMapped(GuestVa),
    /// No memory for the least that the guest needs.
    OutOfTables,
    /// An abort that says that the hardware is broken, or that Spica is.
    BadAbort {
        /// DFSR or IFSR.
        fsr: u32,
        /// DFAR or IFAR.
        far: u32,
    },
}

/// A virtual machine: its virtual CPU, and what all of its virtual CPUs would have in common. There is one so far.
///
/// Both are for the files of `vm`, and for what is measured beside them ([`crate::papers`]). Whoever runs machines or
/// asks about them has methods for that (`vm/outside.rs`).
pub struct Vm {
    /// The virtual CPU.
    vcpu: Vcpu,
    /// All else.
    common: Common,
    /// What is to be put in place before it runs.
    loading: Loading,
}

/// What a VM has beside its virtual CPUs.
pub struct Common {
    /// Its name, from the manifest.
    name: String,
    /// Memory.
    ram: Ram,
    /// Devices.
    machine: Machine,
    /// What stands behind its virtio devices.
    devices: Devices,
    /// What runs its kernel's code.
    engine: KernelEngine,
    /// Which optimisations it runs with.
    switches: Switches,
    /// Figures for the report.
    counters: Counters,
    /// Where code was translated from.
    code_map: Box<CodeMap>,
    /// What is to be done before the guest goes on.
    backlog: Box<Backlog>,
    /// Pages whose code is translated anew each time that it is entered.
    volatile: Box<VolatilePages>,
    /// The page of the last block from a volatile page, as it was when the block was made: the block may change it.
    snapshot: Box<[u32; 1024]>,
    /// What it runs with later, if that is something else.
    later: Option<Later>,
    /// When code that is there is made anew, closer together.
    preemptive_flush: PreemptiveFlush,
    /// When those pages are found that are executed, among those that run in place.
    looks: Looks,
    /// Where the last trap came from, while what the kernel executes is counted.
    trapped: Option<counted::Trapped>,
    /// Memory that its debugger watches.
    watches: watched::Watches,
    /// Samples of it, if they are taken.
    samples: Option<sampled::Samples>,
    /// What is known of its kernel's memory, if accesses are looked at.
    checker: Option<Box<checked::Checker>>,
    /// Either is to end as soon as the guest stands between two instructions.
    uncounting: bool,
    /// Which of the devices that the guest found missing have been said.
    missed: Missed,
    /// Host time at which the guest's counter was 0; below 0, modulo 2^64, for one that was saved and put back.
    start: u64,
    /// Bytes of the hypervisor's memory that this VM takes beyond the guest's RAM, without its devices'
    /// ([`load::Sizes::bytes`]).
    overhead: u32,
}

/// So many missing devices are said of a guest at most, from its making on.
const MISSED_MOST: usize = 8;

/// See [`Common::misses`].
#[derive(Default)]
struct Missed([Option<&'static str>; MISSED_MOST]);

impl Common {
    /// The guest found nothing at `pa`, and takes the abort that the bare machine gives. If it looked for a device that
    /// QEMU has, that is worth a line, once.
    pub fn misses(&mut self, pa: GuestPa, write: bool) {
        let Some(device) = Machine::absent(pa) else { return };
        let slot = self.missed.0.iter_mut().find(|said| said.is_none_or(|said| said == device));
        if let Some(said @ None) = slot {
            *said = Some(device);
            let (name, access) = (&self.name, if write { "write to" } else { "read of" });
            println!("spica: guest {name}: {access} {pa}: {device} on QEMU's virt, this guest has none");
        }
    }

    /// Brings the devices up to date: time has passed, and somebody may have typed. True if virtio devices had work to
    /// do.
    pub fn catch_up(&mut self, mmu: &mut Mmu, core: &mut HostCpu, host: &mut Host) -> bool {
        let worked = self.serve_host(mmu, core, host);
        let now = host.now();
        self.time_passes(host, now);
        worked
    }

    /// The same of what has come from the host alone.
    fn serve_host(&mut self, mmu: &mut Mmu, core: &mut HostCpu, host: &mut Host) -> bool {
        if host.has_input() {
            match self.devices.listening_console() {
                Some(slot) => self.machine.with_slot(slot, spica_virtio::Slot::poke),
                None => host.feed_console(&mut self.machine),
            }
        }
        self.serve(mmu, core, host)
    }

    /// The same of the time, up to `now` of the host's.
    fn time_passes(&mut self, host: &mut Host, now: u64) {
        self.machine.update(host.guest_at(self.start, now));
        self.pass_output(host);
    }

    /// What the guest's UART has sent goes to the console.
    pub fn pass_output(&mut self, host: &mut Host) {
        if !self.machine.has_output() {
            return;
        }
        self.machine.take_output(host.console_room(), |byte| {
            host.console_put(byte);
            if let Some(later) = &mut self.later {
                later.printed(byte);
            }
        });
        host.console_printed(self.machine.has_output());
    }

    /// Whether an interrupt is there for the guest, masked or not.
    pub fn interrupted(&self) -> bool {
        self.machine.irq_asserted() || self.machine.fiq_asserted()
    }
}
