//! Which guest runs next, and for how long.
//!
//! Time is in ticks of the host's timer, guests go by number, and nothing here knows what a guest is. The hypervisor's
//! scheduler (`crates/hypervisor/src/guests/scheduler.rs`) asks [`Slices`] who is to go on, and where nobody is, takes
//! the guest whose [`Turn`] has used least. What belongs to a processor, and not to a guest, is its [`RunQueue`].
#![no_std]

mod fair;
mod latency;
mod queue;
mod slice;

pub use fair::{Floor, Turn};
pub use latency::{BOUNDS, Latency, bounds_in_ticks};
pub use queue::RunQueue;
pub use slice::Slices;
