//! What becomes of a guest when Spica itself fails while it works for it: that guest is stopped for good, and the
//! others go on.
//!
//! All that is done on behalf of one guest is done on a stack of that guest's own ([`on_behalf`]). A panic there (a
//! failed check, an allocation that cannot be had, a fault of Spica's own, the end of the stack) leaves that stack as
//! it is and returns to whoever called, on the host's stack. Nothing is unwound and nothing dropped: the frames that
//! are left are never gone back to, and their memory is never used again, for a guest that failed is never worked for
//! again. So this is what a thread would be that sleeps for ever: what it owns is lost, and what it borrowed is
//! nobody's but its guest's.
//!
//! That holds only as long as it was not changing what belongs to all. Whatever does so is done within [`shared`], and
//! a panic there halts the board, as does one outside of [`on_behalf`] and one where no other guest is left that could
//! go on.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use alloc::string::String;
use alloc::vec::Vec;

use spica_vcpu::psr::Mode;

use crate::arch::barrier::clear_exclusive;
use crate::arch::interrupts::{self, IrqCell};
use crate::assemble::assemble;
use crate::memory::stacks;
use crate::vectors;

assemble! {
    files: [include_str!("contain.s")];
    functions: [];

    MODE_SVC = Mode::Svc as u32;
}

unsafe extern "C" {
    fn contain_call(data: *mut c_void, function: unsafe extern "C" fn(*mut c_void), stack: u32, place: *mut u32)
    -> u32;
    fn contain_abandon(kept: u32) -> !;
}

/// The stack pointer that `contain_call` keeps.
struct Kept(UnsafeCell<u32>);

// SAFETY: one core, and no interrupt handler touches it.
unsafe impl Sync for Kept {}

static KEPT: Kept = Kept(UnsafeCell::new(0));

/// For which guest something is done, by its number; [`NOBODY`] where nothing is.
static GUEST: AtomicU32 = AtomicU32::new(NOBODY);
const NOBODY: u32 = u32::MAX;
/// There is another guest that can go on.
static OTHERS: AtomicBool = AtomicBool::new(false);
/// The guests' names, for the last word on one.
static NAMES: IrqCell<Vec<String>> = IrqCell::new(Vec::new());

/// These are the guests.
pub fn set_names(names: Vec<String>) {
    NAMES.with(|known| *known = names);
}

/// Does something on behalf of guest `guest`, on its stack. False if Spica failed there: nothing must be done for that
/// guest ever again, and what it has is not to be looked at, for it may be half changed; and nobody knows which
/// tables are in force ([`HostCpu::return_to_host_space`](crate::host_cpu::HostCpu::return_to_host_space)).
///
/// `others`: there is another guest that can go on. Without one, a failure halts the board.
///
/// # Panics
/// If something is being done on behalf of a guest already.
pub fn on_behalf(guest: usize, others: bool, mut body: &mut dyn FnMut()) -> bool {
    unsafe extern "C" fn make(body: *mut c_void) {
        // SAFETY: what `on_behalf` passes, which is there until this returns.
        unsafe { (*body.cast::<&mut dyn FnMut()>())() }
    }
    assert!(GUEST.load(Ordering::Relaxed) == NOBODY, "work for a guest within work for a guest");
    GUEST.store(guest as u32, Ordering::Relaxed);
    OTHERS.store(others, Ordering::Relaxed);
    // SAFETY: the stack is this guest's, and nothing is on it: whatever was done for it before has returned, or nothing
    // is done for it any more. `make` gets what it expects.
    let failed = unsafe { contain_call((&raw mut body).cast(), make, stacks::top(guest), KEPT.0.get()) } != 0;
    GUEST.store(NOBODY, Ordering::Relaxed);
    !failed
}

/// Changes something that belongs to all guests: Spica cannot go on if it fails in between.
#[inline]
pub fn shared<R>(body: impl FnOnce() -> R) -> R {
    interrupts::hold();
    let result = body();
    interrupts::release();
    result
}

/// After a panic: whether the guest that it was for can be stopped instead of the board.
pub fn is_contained() -> bool {
    GUEST.load(Ordering::Relaxed) != NOBODY && OTHERS.load(Ordering::Relaxed) && !interrupts::is_held()
}

/// Shows the name of the guest for which something is done.
pub fn with_name(show: impl FnOnce(&str)) {
    let guest = GUEST.load(Ordering::Relaxed) as usize;
    NAMES.try_with(|names| show(names.get(guest).map_or("?", String::as_str)));
}

/// Ends what is being done on behalf of a guest, in whatever state it is.
///
/// # Safety
/// [`is_contained`], and nothing that is on the current stack is used again.
pub unsafe fn abandon() -> ! {
    vectors::install();
    // A store-exclusive of whoever is next must not succeed on a reservation from here (A3.4).
    clear_exclusive();
    // SAFETY: passed on to the caller; `contain_call` has kept its stack pointer, and has not returned.
    unsafe { contain_abandon(*KEPT.0.get()) }
}
