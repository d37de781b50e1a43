//! Models of devices, for tests: written from the manuals, as far as the drivers use them, and on a [`bus`] that stands
//! for the machine. They know what software must not do, and panic if it does.

pub mod am33xx;
pub mod bus;
pub mod generic_timer;
pub mod gic;
pub mod sp804;
mod ticks;
pub mod uarts;
