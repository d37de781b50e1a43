//! The machine that guests find. Another one is another type here: the rest of the hypervisor knows [`GuestMachine`].

pub use spica_machine::{Done, GuestMachine, MachineConfig};

/// The machine of all guests: QEMU's `virt`.
pub type Machine = spica_machine::Virt;
