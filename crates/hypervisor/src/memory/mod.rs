//! The host's memory: who may use what, and where it is mapped.
//!
//! Boot goes through these in order: [`host_space`] builds the hypervisor's own tables around the image, [`device`]
//! adds windows to the hypervisor region as drivers ask for them, [`ram`] learns from the device tree what RAM there is
//! and who occupies it, [`pool`] takes the hypervisor's share, of which [`heap`] gets the start; guests' memory comes
//! from [`ram`] again. [`phys`] is how the hypervisor reaches any of it by physical address. [`canary`] tells whether
//! any of it was written that must not be.

pub mod canary;
pub mod device;
pub mod heap;
pub mod host_space;
pub mod lending;
pub mod phys;
pub mod pool;
pub mod ram;
pub mod stacks;
