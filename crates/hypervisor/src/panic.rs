//! The end: something that must not happen has happened in the hypervisor.
//!
//! The end of one guest, if that was for a guest and there are others ([`crate::contain`]); else that of the board.

use core::arch::asm;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::arch::barrier::wait_for_interrupt;
use crate::arch::interrupts;
use crate::{console, contain, print, println};

static PANICKING: AtomicBool = AtomicBool::new(false);

/// Prints where and why, and stops the guest or the board. Whoever started an emulator watches for the line.
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    interrupts::mask();
    // A panic while panicking has nothing to add.
    if PANICKING.swap(true, Ordering::Relaxed) {
        halt()
    }
    let (sp, cpsr): (u32, u32);
    // SAFETY: reads registers.
    unsafe { asm!("mov {}, sp", "mrs {}, cpsr", out(reg) sp, out(reg) cpsr, options(nomem, nostack, preserves_flags)) }
    let contained = contain::is_contained();
    if !contained {
        // Nobody is kept waiting any more.
        console::poll();
    }
    if contained {
        contain::with_name(|name| print!("\nspica: guest {name}: stopped by an internal error: "));
        println!("{}", info.message());
    } else {
        println!("\nspica: panic: {}", info.message());
    }
    if let Some(location) = info.location() {
        println!("spica: at {location}, sp={sp:#010x}, cpsr={cpsr:#010x}");
    }
    if contained {
        PANICKING.store(false, Ordering::Relaxed);
        // SAFETY: it is contained, and this does not return.
        unsafe { contain::abandon() }
    }
    println!("spica: board halted");
    halt()
}

/// Sends what was printed, and does nothing for ever, with interrupts masked.
pub fn halt() -> ! {
    interrupts::mask();
    console::poll();
    loop {
        wait_for_interrupt();
    }
}
