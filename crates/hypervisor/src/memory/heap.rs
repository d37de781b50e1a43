//! The heap of Rust's `alloc`.
//!
//! Two arenas: a small one in .bss, which serves while the device tree is read and no RAM is known yet, and the start
//! of the pool. Exhaustion is a panic (Rust's default), which names the size that was asked for.

use talc::TalcLock;
use talc::source::Claim;

use core::sync::atomic::{AtomicBool, Ordering};

use crate::arch::interrupts;

/// Bytes of the arena in .bss. Until RAM is known, QEMU's `virt` has asked for 19 KiB, all that was given back counted;
/// other boards for half of that.
const EARLY: usize = 24 * 1024;

static mut EARLY_ARENA: [u8; EARLY] = [0; EARLY];

/// Exclusion on one core: interrupts are masked while the allocator runs.
struct MaskedInterrupts {
    held: AtomicBool,
    /// Whether they were masked before.
    were_masked: AtomicBool,
}

// SAFETY: one core, and while the lock is held nothing interrupts its holder.
unsafe impl talc::lock_api::RawMutex for MaskedInterrupts {
    #[allow(clippy::declare_interior_mutable_const)] // what the trait asks for
    const INIT: Self = Self { held: AtomicBool::new(false), were_masked: AtomicBool::new(true) };

    type GuardMarker = talc::lock_api::GuardNoSend;

    fn lock(&self) {
        assert!(self.try_lock(), "the allocator called itself");
    }

    fn try_lock(&self) -> bool {
        let were_masked = interrupts::masked();
        interrupts::mask();
        if self.held.load(Ordering::Relaxed) {
            // The holder masked interrupts and unmasks them; they stay as they are.
            return false;
        }
        self.held.store(true, Ordering::Relaxed);
        interrupts::hold();
        self.were_masked.store(were_masked, Ordering::Relaxed);
        true
    }

    unsafe fn unlock(&self) {
        self.held.store(false, Ordering::Relaxed);
        interrupts::release();
        if !self.were_masked.load(Ordering::Relaxed) {
            // SAFETY: they were unmasked when the lock was taken.
            unsafe { interrupts::unmask() }
        }
    }
}

#[global_allocator]
static HEAP: TalcLock<MaskedInterrupts, Claim> =
    // SAFETY: nothing else uses the arena.
    TalcLock::new(unsafe { Claim::array(&raw mut EARLY_ARENA) });

/// Gives the heap `len` bytes at `start` for good.
///
/// # Safety
/// Nothing else uses them, ever.
pub(super) unsafe fn extend(start: *mut u8, len: usize) {
    // SAFETY: passed on to the caller.
    let claimed = unsafe { HEAP.lock().claim(start, len) };
    assert!(claimed.is_some(), "the heap takes no {len} bytes at {start:p}");
}

/// Bytes that are allocated.
pub fn used_bytes() -> usize {
    HEAP.lock().counters().allocated_bytes
}
