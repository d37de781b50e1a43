//! The virtual CPU: registers, modes, exceptions, CP15 and CP14, and an interpreter for sensitive instructions.
//!
//! Nothing here knows of the host: the board's hypervisor keeps a [`Cpu`] per guest processor, lets the guest run, and
//! on a trap hands the instruction that must not run natively to [`interp::execute`], or an exception that the guest
//! must see to [`Cpu::take_exception`]. Section numbers are those of the ARM Architecture Reference Manual, ARMv7-A
//! and ARMv7-R edition (ARM DDI 0406C).
#![no_std]

pub mod alu;
pub mod cp15;
mod cpu;
pub mod exception;
pub mod interp;
mod page;
pub mod psr;
mod state;

pub use cp15::{Cp15, CpuId, Effect};
pub use cpu::Cpu;
pub use exception::Exception;
pub use page::{Bank, Banked, RETURNS, Shown, VcpuPage, field};
pub use state::CpuState;
