//! Accesses that may fault, and where to go on if they do.
//!
//! An instruction listed in the section `.fixups`, as a pair (its address, address to go on at), may raise a data abort
//! or an undefined instruction exception in the hypervisor: the vectors (src/vectors.rs) then return to the second
//! address instead of panicking. The pairs are written where the instructions are, by assembly.
//!
//! Uses: devices and registers that a board may lack (here), and every access of the world switch through a guest's
//! address.

use core::arch::asm;

/// One entry of the section `.fixups`.
#[repr(C)]
struct Fixup {
    /// The instruction that may fault.
    instruction: u32,
    /// Where execution goes on if it does.
    landing: u32,
}

unsafe extern "C" {
    static __fixups_start: Fixup;
    static __fixups_end: Fixup;
}

/// Where to go on after a fault of the instruction at `pc`, if it is one that may fault.
pub fn landing(pc: u32) -> Option<u32> {
    let first = &raw const __fixups_start;
    let end = &raw const __fixups_end;
    // SAFETY: the linker script puts the symbols around the pairs, which are constant data.
    let fixups = unsafe { core::slice::from_raw_parts(first, end.offset_from_unsigned(first)) };
    fixups.iter().find(|fixup| fixup.instruction == pc).map(|fixup| fixup.landing)
}

/// Reads a word of memory or of a device; `None` if the access aborts.
///
/// # Safety
/// Reading this address has no effect that matters: device registers may have side effects of reads.
pub unsafe fn read_word(address: u32) -> Option<u32> {
    let (value, done): (u32, u32);
    // SAFETY: the load either succeeds or is a listed fault that goes on behind it with `done` still 0. The barrier
    // makes an asynchronous abort of an earlier access arrive before, not here.
    unsafe {
        asm!(
            "dsb",
            "2: ldr {value}, [{address}]",
            "mov {done}, #1",
            "3:",
            ".pushsection .fixups, \"a\"",
            ".word 2b, 3b",
            ".popsection",
            address = in(reg) address,
            value = inout(reg) 0u32 => value,
            done = inout(reg) 0u32 => done,
            options(nostack)
        );
    }
    (done != 0).then_some(value)
}

/// Writes a word of memory or of a device; false if the access aborts.
///
/// # Safety
/// As for any write through a pointer, except that the address need not be writable.
pub unsafe fn write_word(address: u32, value: u32) -> bool {
    let done: u32;
    // SAFETY: as for `read_word`.
    unsafe {
        asm!(
            "dsb",
            "2: str {value}, [{address}]",
            "mov {done}, #1",
            "3:",
            ".pushsection .fixups, \"a\"",
            ".word 2b, 3b",
            ".popsection",
            address = in(reg) address,
            value = in(reg) value,
            done = inout(reg) 0u32 => done,
            options(nostack)
        );
    }
    done != 0
}

/// Lets an asynchronous abort come that waits (ARM ARM B1.9.8), and says whether there was one.
///
/// A write to a device that does not answer may be found out late, and the abort is masked in Spica and in boot
/// loaders, but not in guests: the first guest would be stopped for it.
pub fn take_pending_abort() -> bool {
    let none: u32;
    // SAFETY: an abort is taken at one of the instructions up to the last, all of which are listed, and goes on there.
    // Its handler has a stack of its own.
    unsafe {
        asm!(
            "dsb",
            "cpsie a",
            "2: isb",
            "3: nop",
            "4: mov {none}, #1",
            "5: cpsid a",
            ".pushsection .fixups, \"a\"",
            ".word 2b, 5b, 3b, 5b, 4b, 5b, 5b, 5b",
            ".popsection",
            none = inout(reg) 0u32 => none,
            options(nostack)
        );
    }
    none == 0
}

/// Reads a coprocessor register that some cores lack: `Some(value)`, or `None` where the instruction is undefined.
///
/// `$instruction` names its register operand `{value}`. Unsafe as the read is.
#[macro_export]
macro_rules! try_read_register {
    ($instruction:literal) => {{
        let (value, done): (u32, u32);
        core::arch::asm!(
            concat!("2: ", $instruction),
            "mov {done}, #1",
            "3:",
            ".pushsection .fixups, \"a\"",
            ".word 2b, 3b",
            ".popsection",
            value = inout(reg) 0u32 => value,
            done = inout(reg) 0u32 => done,
            options(nostack)
        );
        (done != 0).then_some(value)
    }};
}

/// Writes a coprocessor register that some cores lack, where it exists.
///
/// `$instruction` names its register operand `{value}`. Unsafe as the write is.
#[macro_export]
macro_rules! try_write_register {
    ($instruction:literal, $value:expr) => {
        core::arch::asm!(
            concat!("2: ", $instruction),
            "3:",
            ".pushsection .fixups, \"a\"",
            ".word 2b, 3b",
            ".popsection",
            value = in(reg) $value,
            options(nostack)
        )
    };
}
