//! The tests of this crate in one program: each program more would be linked with all of it again.

mod bootstrap;
mod closed_output;
mod wrong_input;
