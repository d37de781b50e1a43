//! The devices of QEMU's `virt` that are used here: the UART PL011, the interrupt controller GICv2, the physical timer,
//! and the firmware, which switches the machine off.

use core::fmt;

use crate::cp15;
use crate::user;

/// A register of a device.
struct Register(usize);

impl Register {
    fn read(&self) -> u32 {
        // SAFETY: All registers are those of devices below, at addresses that are mapped one to one, or not at all.
        unsafe { (self.0 as *const u32).read_volatile() }
    }

    fn write(&self, value: u32) {
        // SAFETY: As in `read`; no device here writes to memory.
        unsafe { (self.0 as *mut u32).write_volatile(value) }
    }
}

const UART_DATA: Register = Register(0x0900_0000);
const UART_FLAGS: Register = Register(0x0900_0018);
const UART_CONTROL: Register = Register(0x0900_0030);
/// Of its flags: there is no room.
const UART_FULL: u32 = 1 << 5;
/// Of its control: it is on, and sends.
const UART_SENDS: u32 = 1 | 1 << 8;

const GICD_CTLR: Register = Register(0x0800_0000);
const GICD_ISENABLER0: Register = Register(0x0800_0100);
const GICC_CTLR: Register = Register(0x0801_0000);
const GICC_PMR: Register = Register(0x0801_0004);
const GICC_IAR: Register = Register(0x0801_000c);
const GICC_EOIR: Register = Register(0x0801_0010);
/// The physical timer's interrupt: PPI 14.
const TIMER: u32 = 16 + 14;

/// Sends bytes by the UART.
pub fn send(bytes: &[u8]) {
    for &byte in bytes {
        while UART_FLAGS.read() & UART_FULL != 0 {}
        UART_DATA.write(byte.into());
    }
}

/// The console of whoever asks: the kernel has the UART, and the user program the kernel.
pub struct Console;

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if user::is_here() {
            user::write(text)
        } else {
            send(text.as_bytes())
        }
        Ok(())
    }
}

/// Prints a line.
#[macro_export]
macro_rules! println {
    ($($words:tt)*) => {{
        use ::core::fmt::Write as _;
        // The console has no errors.
        let _ = ::core::writeln!($crate::devices::Console, $($words)*);
    }};
}

/// The UART sends.
pub fn uart_on() {
    UART_CONTROL.write(UART_SENDS);
}

/// The timer's interrupt comes each millisecond, once IRQs are not masked.
pub fn timer_on() {
    GICD_ISENABLER0.write(1 << TIMER);
    GICC_PMR.write(0xff);
    GICD_CTLR.write(1);
    GICC_CTLR.write(1);
    timer_again();
}

/// The timer's interrupt comes in a millisecond, and not before.
pub fn timer_again() {
    // SAFETY: What the timer does is to raise its interrupt.
    unsafe {
        cp15::set_timer_value(cp15::counter_frequency() / 1000);
        cp15::set_timer_control(1);
    }
}

/// Answers the controller: takes the interrupt that waits, has `handle` look at whether it was the timer's, and says
/// that it is done.
pub fn interrupt(handle: impl FnOnce(bool)) {
    let taken = GICC_IAR.read();
    handle(taken & 0x3ff == TIMER);
    GICC_EOIR.write(taken);
}

/// PSCI SYSTEM_OFF.
pub fn power_off() -> ! {
    // SAFETY: There is nothing behind it. `.inst.w` is `hvc #0` in T32, which the assembler takes for cores with the
    // virtualisation extensions alone.
    unsafe { core::arch::asm!(".inst.w 0xf7e08000", "1: b 1b", in("r0") 0x8400_0008_u32, options(noreturn, nostack)) }
}
