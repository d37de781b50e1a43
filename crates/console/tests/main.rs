//! The tests of this crate in one program: each program more would be linked with all of it again.

mod command;
mod consoles;
mod debug;
mod limit;
mod plain;
mod slow_port;
