//! The device models of the guest machine.
//!
//! Every device is a pure state machine: it is told of accesses, of the time and of its inputs, and it answers with
//! values and with the level of its interrupt line. None knows the board below it, none blocks, none allocates on an
//! access, and none can be made to panic by a guest: a register that does not exist reads as zero and ignores writes.
//!
//! In the life of a trap: a guest's load or store misses its shadow translation, the fault handler finds that the guest
//! physical address belongs to a device, and the machine (`spica-machine`) hands the access to a model here. The
//! model's interrupt line then goes to [`gic::Gic`], whose output decides whether the guest takes an IRQ.
#![no_std]

pub mod flash;
pub mod fw_cfg;
pub mod gic;
pub mod mmio;
pub mod pl011;
pub mod pl031;
pub mod pl061;
mod primecell;
mod ring;
pub mod state;
pub mod timer;

extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(test)]
mod robustness;
#[cfg(test)]
mod state_tests;

pub use flash::Flash;
pub use fw_cfg::FwCfg;
pub use gic::Gic;
pub use mmio::{Mmio, Width};
pub use pl011::Pl011;
pub use pl031::Pl031;
pub use pl061::Pl061;
pub use state::{State, Unsound};
pub use timer::{GenericTimer, Setting, TimerReg};
