//! What a driver needs of the machine that it runs on. The board image implements it on the real one, the tests on
//! models of devices (`models`).

use core::fmt;

use spica_addr::HostPa;

/// The machine: a type, not a value, for there is one machine only.
pub trait Hardware: Send + 'static {
    /// How the registers of one device are reached.
    type Registers: Registers;
    /// The core's own timer.
    type GenericTimer: GenericTimer;
    /// Why registers cannot be reached, in words for people.
    type MapError: fmt::Display;

    /// Makes the `len` bytes of registers at `pa` accessible.
    ///
    /// # Errors
    /// If that is not possible.
    fn map(pa: HostPa, len: u32) -> Result<Self::Registers, Self::MapError>;

    /// The core's generic timer; `None` where the core has none (ID_PFR1, bits 19 to 16).
    fn generic_timer() -> Option<Self::GenericTimer>;

    /// Data synchronisation barrier (ARM ARM A3.8.3): what was written before it has reached its device.
    fn dsb();
}

/// The registers of one device. Offsets are in bytes, from the first of them.
///
/// Accesses are in program order among themselves (device memory). Where a device's register and normal memory, or two
/// devices, must be seen in a certain order, the driver adds the barrier.
///
/// # Panics
/// All methods do if what is accessed are not all registers of this device, or not aligned.
pub trait Registers: Copy + Send + 'static {
    /// Virtual address of the register of `size` bytes at `offset`, for code that must not call anything; valid in all
    /// translation tables.
    fn address(&self, offset: u32, size: u32) -> u32;

    /// Reads a 32-bit register.
    fn read(&self, offset: u32) -> u32;

    /// Writes a 32-bit register.
    fn write(&self, offset: u32, value: u32);

    /// Reads an 8-bit register.
    fn read_byte(&self, offset: u32) -> u8;

    /// Writes an 8-bit register.
    fn write_byte(&self, offset: u32, value: u8);

    /// Reads a 32-bit register of a device that may not be there or not answer; `None` if the access ends in an
    /// external abort. The other accesses must not.
    fn try_read(&self, offset: u32) -> Option<u32>;
}

/// The virtual counter and the virtual timer of the core (ARM ARM B8.1), which are accessible in any security state.
pub trait GenericTimer: Send + 'static {
    /// Ticks per second, as firmware has set it (CNTFRQ); 0 if it has not.
    fn frequency(&self) -> u32;

    /// Ticks since some moment before boot (CNTVCT); not read early.
    fn now(&self) -> u64;

    /// Raises the timer's line once the counter reaches `deadline`.
    fn start(&mut self, deadline: u64);

    /// Lowers the timer's line and keeps it low.
    fn stop(&mut self);
}
