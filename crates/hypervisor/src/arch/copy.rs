//! Copies of words, by load and store multiple: assembly that the compiler calls (`copy.s`).

use crate::assemble::assemble;

assemble! {
    files: [include_str!("copy.s")];
    functions: [];
}

unsafe extern "C" {
    fn __aeabi_memcpy4(to: *mut u32, from: *const u32, bytes: usize);
}

/// Copies the first so many `bytes` of words, whatever the compiler makes of copies.
///
/// # Panics
/// If there are not so many on both sides.
pub fn first_bytes(to: &mut [u32], from: &[u32], bytes: usize) {
    assert!(bytes <= size_of_val(to) && bytes <= size_of_val(from), "{bytes} bytes are more than there are");
    // SAFETY: there are so many bytes, words are aligned, and what is borrowed to be changed does not overlap others.
    unsafe { __aeabi_memcpy4(to.as_mut_ptr(), from.as_ptr(), bytes) }
}
