//! Models of devices, for tests: written from the manuals, as far as the drivers use them, and on a [`bus`] that stands
//! for the machine. They know what software must not do, and panic if it does.

pub mod am33xx;
pub mod bus;
pub mod generic_timer;
pub mod gic;
mod lines;
pub mod sp804;
pub mod sun4i;
mod ticks;
pub mod uarts;

pub use lines::{Lines, set_line};
