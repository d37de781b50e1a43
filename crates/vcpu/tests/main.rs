//! The tests of this crate in one program: each program more would be linked with all of it again.

mod cp15;
mod interp;
mod modes;
mod page;
mod state;
mod support;
mod t32;
