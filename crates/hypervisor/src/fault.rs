//! Faults of Spica's own, on request: how tests find out what becomes of guests then.
//!
//! `spica.faults` on the command line lets guests ask for them, by a function of the range that SMC calling convention
//! has for hypervisors' makers (DEN 0028, 6.10): whoever boots a board with that word gives its guests the power to end
//! themselves and it.

use alloc::vec::Vec;
use core::hint::black_box;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::contain::shared;
use crate::memory::host_space;

/// The function in R0; R1 says which fault.
const FUNCTION: u32 = 0x8600_fa17;

static ALLOWED: AtomicBool = AtomicBool::new(false);

/// Guests may ask from now on.
pub fn allow() {
    ALLOWED.store(true, Ordering::Relaxed);
}

/// Whether a call of the firmware asks for a fault. If so, it has not come to it: the number is none that there is.
pub fn asked_for(function: u32, which: u32) -> bool {
    if function != FUNCTION || !ALLOWED.load(Ordering::Relaxed) {
        return false;
    }
    match which {
        0 => panic!("a guest asked for it"),
        1 => drop(black_box(Vec::<u8>::with_capacity(1 << 30))),
        // SAFETY: it faults, which is what is wanted.
        2 => drop(black_box(unsafe { (host_space::stack_guard() as *const u32).read_volatile() })),
        3 => drop(black_box(deep(0))),
        // SAFETY: as above.
        4 => unsafe { core::arch::asm!("udf #0") },
        5 => shared(|| panic!("a guest asked for it, and something of all guests' is half changed")),
        _ => {}
    }
    true
}

/// Has no end, and takes stack.
#[expect(unconditional_recursion, reason = "as wanted")]
fn deep(depth: u32) -> u32 {
    let room = black_box([depth; 64]);
    deep(depth + 1) + room[depth as usize % 64]
}
