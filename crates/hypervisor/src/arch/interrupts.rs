//! Masking of interrupts, and data shared with interrupt handlers.

use core::arch::asm;
use core::cell::{RefCell, RefMut};
use core::sync::atomic::{AtomicU32, Ordering};

/// The I bit of the CPSR.
const I: u32 = 1 << 7;

#[inline(always)]
fn cpsr() -> u32 {
    let value: u32;
    // SAFETY: reading the CPSR has no effect.
    unsafe { asm!("mrs {}, cpsr", out(reg) value, options(nomem, nostack, preserves_flags)) }
    value
}

/// Whether IRQs are masked.
pub fn masked() -> bool {
    cpsr() & I != 0
}

/// Masks IRQs.
#[inline(always)]
pub fn mask() {
    // SAFETY: interrupts that do not come break nothing; without `nomem` no access moves to before this.
    unsafe { asm!("cpsid i", options(nostack, preserves_flags)) }
}

/// Lets IRQs come.
///
/// # Safety
/// The vectors are set up, and no `with` of an [`IrqCell`] is under way.
#[inline(always)]
pub unsafe fn unmask() {
    // SAFETY: passed on to the caller.
    unsafe { asm!("cpsie i", options(nostack, preserves_flags)) }
}

/// Runs `body` with IRQs masked, and leaves the mask as it was.
pub fn without<R>(body: impl FnOnce() -> R) -> R {
    let before = masked();
    mask();
    let result = body();
    if !before {
        // SAFETY: they were unmasked when we came.
        unsafe { unmask() }
    }
    result
}

/// How much of what belongs to all is being changed right now: see [`crate::contain`].
static HELD: AtomicU32 = AtomicU32::new(0);

/// Something that belongs to all is about to be changed. One core, so that a load and a store make an addition.
#[inline]
pub fn hold() {
    HELD.store(HELD.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// It has been changed.
#[inline]
pub fn release() {
    HELD.store(HELD.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
}

/// Whether anything that belongs to all is half changed.
pub fn is_held() -> bool {
    HELD.load(Ordering::Relaxed) != 0
}

/// A value that is used by ordinary code and by interrupt handlers: each use masks IRQs for its duration.
///
/// Spica runs on one core, so that is all the exclusion there has to be. A second use within the first is a bug, found
/// at run time.
pub struct IrqCell<T>(RefCell<T>);

// SAFETY: one core, and no interrupt handler runs between the borrow and its end (`with`).
unsafe impl<T> Sync for IrqCell<T> {}

impl<T> IrqCell<T> {
    /// A cell that holds `value`.
    pub const fn new(value: T) -> Self {
        Self(RefCell::new(value))
    }

    /// Uses the value.
    ///
    /// # Panics
    /// If the value is in use already: `body` of one use may not start another.
    pub fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        without(|| {
            hold();
            let result = body(&mut self.0.borrow_mut());
            release();
            result
        })
    }

    /// Uses the value unless it is in use already: for the panic handler, which must not fail.
    pub fn try_with<R>(&self, body: impl FnOnce(RefMut<'_, T>) -> R) -> Option<R> {
        without(|| {
            hold();
            let result = self.0.try_borrow_mut().ok().map(body);
            release();
            result
        })
    }
}
