//! Records of what guests do and when: the ring that the board keeps them in ([`Ring`]), and the bytes that they travel
//! as to whoever looks at them ([`wire`]).
//!
//! A record is four words. One that is about something that takes time is written at its end and has its beginning and
//! its length, so it is complete by itself: what else is lost does not matter to it. Nobody waits for a ring that is
//! full: the newest records are lost, and counted.

#![no_std]

extern crate alloc;

pub mod record;
mod ring;
pub mod wire;

pub use record::Record;
pub use ring::{Ring, SLOTS};
