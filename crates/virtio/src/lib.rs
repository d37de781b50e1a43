//! The virtio devices of the guest machine (*Virtual I/O Device (VIRTIO) Version 1.2*, OASIS; cited as "virtio" with a
//! section), and the network switch between guests.
//!
//! The transport is virtio-mmio, version 2, with split queues. A guest drives it with the modules of its distribution.
//! The way of a request:
//!
//! 1. The guest's driver fills a ring in its memory and writes the queue's number to a register of its [`Slot`], which
//!    notes the kick and nothing else: no guest memory is touched in the middle of an instruction.
//! 2. Later, when the guest does not run, [`Slot::serve`] lets the device work. It takes chains of buffers from its
//!    queues ([`queue::Queue`]), moves bytes between them and a [backend], and hands the chains back.
//! 3. The slot's interrupt line ([`Slot::line`]) rises.
//!
//! What the host provides is behind traits: guest memory ([`Dma`]), and what stands at the other end of each device
//! ([`Backends`]).
//!
//! A driver is not trusted. All that it writes is checked where it is read, once; a descriptor is copied before it is
//! looked at. What breaks the rules of rings puts the device into the state DEVICE_NEEDS_RESET ([`Malformed`]), which
//! only costs the guest that device. How much a device does for one call is bounded by [`Work`], so that a scheduler
//! can spread what a guest asks for over the guest's own share of time.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod backend;
mod balloon;
mod block;
mod console;
mod device;
pub mod disk;
mod dma;
mod features;
mod malformed;
mod net;
pub mod queue;
mod rng;
mod slot;
pub mod switch;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod work;

pub use backend::Backends;
pub use device::Plug;
pub use dma::{Dma, OutsideRam};
pub use malformed::Malformed;
pub use slot::Slot;
pub use slot::state::Unkept;
pub use work::Work;
