//! The tests of this crate in one program: each program more would be linked with all of it again.

mod am33xx;
mod clock;
mod controllers;
mod device_tree;
mod generic_timer;
mod support;
mod timers;
mod uarts;
mod virtio;
