//! The guest machine: QEMU's ARM `virt` board with one CPU.
//!
//! * [`map`]: what lies where, for every other module here.
//! * [`GuestMachine`]: what the hypervisor knows of a guest's machine.
//! * [`Virt`]: the devices behind that map, and the only place that knows how their interrupts are wired.
//! * [`psci`]: the firmware that the guest calls by `smc`.
//! * [`fdt`]: the device tree that describes all this to the guest's kernel.
//! * [`loader`]: where kernel, initial RAM disk and device tree go in the guest's memory.
//!
//! Nothing here knows the host. Time comes in as `now`: ticks of the guest's counter, [`map::COUNTER_HZ`] a second,
//! since the machine started.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod fdt;
mod guest_machine;
pub mod loader;
pub mod map;
pub mod psci;
mod virt;

pub use guest_machine::{Done, GuestMachine, MachineConfig};
pub use spica_devices::fw_cfg;
pub use spica_devices::gic::{End, GICC_EOIR, GICC_IAR, Outlook, SPURIOUS};
pub use spica_devices::state::{self, Unsound};
pub use spica_devices::{Setting, TimerReg, Width, flash};
pub use spica_virtio as virtio;
pub use virt::Virt;
