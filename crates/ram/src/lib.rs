//! The board's RAM in numbers: ranges of physical addresses ([`spans`]), and which pages guests have given away, and
//! who uses them meanwhile ([`lent`]). Nothing here touches memory: the hypervisor's `memory` does, with what this
//! says.
#![no_std]

extern crate alloc;

pub mod lent;
pub mod spans;
