//! RAM by physical address: the one place where a physical address becomes a pointer.
//!
//! It is mapped at its own address in the host table only, so this is for the hypervisor in the host address space
//! (slow paths), not for code that runs under a guest's tables.

use spica_addr::HostPa;

use super::ram;
use spica_ram::spans::Span;

/// Pointer to the `len` bytes of RAM at `pa`.
///
/// # Panics
/// If they are not all RAM that the host table maps.
pub fn pointer(pa: HostPa, len: u32) -> *mut u8 {
    assert!(ram::is_mapped(Span::new(pa.0.into(), len.into())), "{len:#x} bytes at {pa} are not all RAM");
    pa.0 as *mut u8
}

/// The `len` bytes of RAM at `pa`, for reading.
///
/// # Safety
/// Nothing writes to them as long as the reference lives: no guest runs that owns them, no `slice_mut` overlaps.
///
/// # Panics
/// If they are not all RAM that the host table maps.
pub unsafe fn slice(pa: HostPa, len: u32) -> &'static [u8] {
    // SAFETY: mapped, as checked; the rest is passed on to the caller.
    unsafe { core::slice::from_raw_parts(pointer(pa, len), len as usize) }
}

/// The `len` bytes of RAM at `pa`.
///
/// # Safety
/// They belong to the caller alone as long as the reference lives: no guest runs that owns them, no other reference
/// overlaps.
///
/// # Panics
/// If they are not all RAM that the host table maps.
pub unsafe fn slice_mut(pa: HostPa, len: u32) -> &'static mut [u8] {
    // SAFETY: mapped, as checked; the rest is passed on to the caller.
    unsafe { core::slice::from_raw_parts_mut(pointer(pa, len), len as usize) }
}
