//! Memory that is mapped when it is first used: the aborts of loads, stores and fetches that a compiler has made, which
//! are carried out in the end.

use core::arch::asm;
use core::hint::black_box;

use crate::memory::{ON_DEMAND, publish, unmap};
use crate::{println, work};

/// A place that is mapped on demand, and that nobody else uses.
fn place<T>(offset: u32) -> *mut T {
    (ON_DEMAND + offset) as *mut T
}

/// CRC-32, bit by bit: it has all that it needs with it, so that it can be moved.
#[unsafe(link_section = ".portable")]
#[inline(never)]
extern "C" fn crc32(start: *const u8, len: usize) -> u32 {
    let mut crc = u32::MAX;
    for at in 0..len {
        // SAFETY: The caller gives bytes that are there.
        crc ^= u32::from(unsafe { start.add(at).read() });
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 != 0 { 0xedb8_8320 } else { 0 };
        }
    }
    !crc
}

/// Loads and stores.
fn data() {
    println!("data:");
    let (number, bytes) = (place::<u64>(0x1230), place::<[u8; 4096]>(0x10_0800));
    // SAFETY: What is loaded, and stored, is RAM once the handler has mapped it. It faults in the middle of what the
    // compiler takes for plain accesses, but it does not see that.
    unsafe {
        let before = number.read_volatile();
        number.write_volatile(before ^ 0x0123_4567_89ab_cdef);
        println!("  {before}, {:#x}", number.read_volatile());
        // The first access is that of a memset.
        (*bytes).fill(0x5a);
        work::fill(&mut *place::<[u32; 1024]>(0x10_0000), 7);
        println!("  {:#010x}", crc32(bytes.cast(), 4096));
    }
    // In an IT block: of three, the second one.
    let mut loaded = ON_DEMAND + 0x20_0000;
    let mut behind = 0;
    // SAFETY: The same. RAM that nobody has stored to is 0.
    unsafe {
        asm!("cmp r1, #0", "ittt eq", "addeq r1, #1", "ldreq r0, [r0]", "addeq r1, #2",
            inout("r0") loaded, inout("r1") behind, options(nostack));
    }
    println!("  {loaded}, {behind}");
    // Pages that go are mapped again, with what is in them.
    unmap(ON_DEMAND);
    // SAFETY: The same.
    println!("  {:#x}", unsafe { number.read_volatile() });
}

/// The function at `crc32`, from a copy at `to`, which is not mapped when it is called.
fn moved(len: usize, to: *mut u8) -> extern "C" fn(*const u8, usize) -> u32 {
    let (code, start) = (crc32 as *const () as usize, &raw const __portable_start);
    // SAFETY: The function's bytes are between these symbols of the linker's, and what is copied is executable once it
    // is published and mapped. It calls nothing, and is a multiple of four away from where it was: so it runs anywhere.
    unsafe {
        to.copy_from_nonoverlapping(start, len);
        publish(core::slice::from_raw_parts(to, len));
        unmap(to as u32);
        unmap(to as u32 + len as u32);
        core::mem::transmute::<usize, extern "C" fn(*const u8, usize) -> u32>(to as usize + (code - start as usize))
    }
}

unsafe extern "C" {
    static __portable_start: u8;
    static __portable_end: u8;
}

/// Fetches: a function is copied to where there is nothing, and called there; and again across the end of a section.
fn fetches() {
    println!("fetches:");
    let len = &raw const __portable_end as usize - &raw const __portable_start as usize;
    let text = black_box("123456789");
    println!("  {:#010x}", crc32(text.as_ptr(), text.len()));
    assert!(len > 0x60, "the function has code on both sides");
    for offset in [0x30_1000, 0x50_0000 - 0x48, 0x70_0000 - 0x20] {
        println!("  moved {:#010x}", moved(len, place(offset))(text.as_ptr(), text.len()));
    }
}

/// All of that.
pub fn run() {
    data();
    fetches();
}
