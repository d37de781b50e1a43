//! Cache maintenance by address (ARM ARM B2.2.7, B4.2.1).
//!
//! On ARMv7-A data caches behave as physically addressed, so any mapping of a location serves to clean it. Instruction
//! caches may be virtually indexed: code that is mapped at two addresses is invalidated at the one where it runs.

use core::arch::asm;

use super::barrier::{dsb, isb};
use super::cp15::{Bpiall, Ctr, Dccimvac, Dccmvau, Dccsw, Iciallu, Icimvau, IdMmfr3, SysRegRead, SysRegWrite};
use super::identity;

/// The smallest line of any data cache, in bytes (CTR\[19:16\] = log2 of it in words).
#[inline]
pub fn data_line() -> u32 {
    4 << (Ctr::read_raw() >> 16 & 0xf)
}

/// The smallest line of any instruction cache, in bytes (CTR\[3:0\] = log2 of it in words).
#[inline]
pub fn instruction_line() -> u32 {
    4 << (Ctr::read_raw() & 0xf)
}

/// Calls `operation` with an address in each line of `line` bytes (a power of two) that `start..start + len` touches.
#[inline]
fn for_each_line(start: u32, len: u32, line: u32, mut operation: impl FnMut(u32)) {
    if len == 0 {
        return;
    }
    let first = start & !(line - 1);
    // The last byte, not the one after it: a range may end at the top of the address space.
    let last = start.wrapping_add(len - 1) & !(line - 1);
    let mut at = first;
    loop {
        operation(at);
        if at == last {
            break;
        }
        at = at.wrapping_add(line);
    }
}

/// Makes instructions that were written to `va..va + len` ready to be executed there: cleans the data cache to the
/// point of unification, invalidates the instruction cache and the branch predictor (the sequence of ARM ARM B2.2.9).
///
/// The range has to be mapped, readable, in the current tables. Costs two operations per line and three barriers.
pub fn sync_code(va: u32, len: u32) {
    for_each_line(va, len, data_line(), |at| {
        // SAFETY: a clean changes no value that any access could read.
        unsafe { Dccmvau::write_raw(at) }
    });
    // The stores and cleans have to be complete before instructions are fetched again.
    dsb();
    for_each_line(va, len, instruction_line(), |at| {
        // SAFETY: instruction lines are never dirty; they are fetched again.
        unsafe { Icimvau::write_raw(at) }
    });
    invalidate_branch_predictor();
}

/// As [`sync_code`] for code that was written at `written` and is executed at `executed`, another mapping of the same
/// memory.
pub fn sync_code_alias(written: u32, executed: u32, len: u32) {
    for_each_line(written, len, data_line(), |at| {
        // SAFETY: as above.
        unsafe { Dccmvau::write_raw(at) }
    });
    dsb();
    for_each_line(executed, len, instruction_line(), |at| {
        // SAFETY: as above.
        unsafe { Icimvau::write_raw(at) }
    });
    invalidate_branch_predictor();
}

/// Drops instructions and predictions of `va..va + len`, at least a word, not at the end of the address space; `line`
/// is [`instruction_line`]. What was written there has been cleaned, and a [`dsb`] has followed; another has to come
/// before it is executed (B2.2.9).
///
/// The range is where the code runs. False if that is not mapped in the current tables: then nothing is certain.
#[must_use]
pub fn forget_code(va: u32, len: u32, line: u32) -> bool {
    let done: u32;
    // SAFETY: instruction lines are never dirty, and predictions are hints. Whether these operations fault where
    // nothing is mapped is IMPLEMENTATION DEFINED (B3.12.3); a fault of theirs is listed and leaves `done` at 0.
    unsafe {
        asm!(
            "2: mcr p15, 0, {at}, c7, c5, 1", // ICIMVAU
            "add {at}, {at}, {line}",
            "cmp {at}, {end}",
            "blo 2b",
            "3: mcr p15, 0, {word}, c7, c5, 7", // BPIMVA
            "add {word}, {word}, #4",
            "cmp {word}, {end}",
            "blo 3b",
            "mov {done}, #1",
            "4:",
            ".pushsection .fixups, \"a\"",
            ".word 2b, 4b, 3b, 4b",
            ".popsection",
            at = inout(reg) va & !(line - 1) => _,
            word = inout(reg) va => _,
            end = in(reg) va + len,
            line = in(reg) line,
            done = inout(reg) 0u32 => done,
            options(nostack)
        );
    }
    done != 0
}

/// Drops everything that the branch predictor learned, and waits for this and for all maintenance before it.
#[inline]
pub fn invalidate_branch_predictor() {
    // SAFETY: predictions are hints; the operand is ignored.
    unsafe { Bpiall::write_raw(0) }
    dsb();
    isb();
}

/// Drops all instructions from the instruction cache, and all predictions.
pub fn invalidate_instructions() {
    dsb();
    // SAFETY: instruction lines are never dirty; the operand is ignored.
    unsafe { Iciallu::write_raw(0) }
    invalidate_branch_predictor();
}

/// Makes stores to the translation tables in `va..va + len` visible to the table walk hardware.
///
/// ID_MMFR3\[23:20\] says whether walks look into the data cache; where they do not (Cortex-A8), the lines are cleaned
/// to the point of unification, which is as far as walks reach (ARM ARM B3.10.1, B4.1.92). The barrier makes sure that
/// a walk that comes later sees the stores. A caller that goes on to use the new mapping itself adds an [`isb`].
pub fn clean_table(va: u32, len: u32) {
    if IdMmfr3::read_raw() >> 20 & 0xf == 0 {
        for_each_line(va, len, data_line(), |at| {
            // SAFETY: a clean changes no value that any access could read.
            unsafe { Dccmvau::write_raw(at) }
        });
    }
    dsb();
}

/// Fills words with zeroes, 256 bytes at a time: `fill` comes to a loop of single stores.
pub fn clear(words: &mut [u32]) {
    let (blocks, rest) = words.as_chunks_mut::<64>();
    if !blocks.is_empty() {
        // SAFETY: stores to `blocks`, of which there is one at least, and to nothing else.
        unsafe {
            asm!(
                "2:",
                ".rept 8",
                "stmia {at}!, {{r0-r5, r8, r10}}",
                ".endr",
                "cmp {at}, {end}",
                "bne 2b",
                at = inout(reg) blocks.as_mut_ptr() => _,
                end = in(reg) blocks.as_mut_ptr_range().end,
                in("r0") 0, in("r1") 0, in("r2") 0, in("r3") 0, in("r4") 0, in("r5") 0, in("r8") 0, in("r10") 0,
                options(nostack),
            );
        }
    }
    rest.fill(0);
}

/// Cleans `va..va + len` from the data cache to the point of unification, where instruction fetches see it.
pub fn clean_to_pou(va: u32, len: u32) {
    for_each_line(va, len, data_line(), |at| {
        // SAFETY: a clean changes no value that any access could read.
        unsafe { Dccmvau::write_raw(at) }
    });
    dsb();
}

/// Cleans all that this core has written to the point of unification: the levels of data cache before it, by set and
/// way (B2.2.7, with the operand of B4.2.1). No other core writes. Takes some thousand instructions, however much was
/// written.
pub fn clean_all_to_pou() {
    let clidr = identity::clidr();
    // LoUU: how many levels are before the point of unification, for one core.
    for level in 0..clidr >> 27 & 7 {
        // Cache types from 2 on have data.
        if clidr >> (3 * level) & 7 < 2 {
            continue;
        }
        let ccsidr = identity::ccsidr(level << 1);
        let (line_shift, ways, sets) = ((ccsidr & 7) + 4, (ccsidr >> 3 & 0x3ff) + 1, (ccsidr >> 13 & 0x7fff) + 1);
        // The way's number is left-aligned.
        let way_shift = (ways - 1).leading_zeros();
        for way in 0..ways {
            for set in 0..sets {
                // SAFETY: a clean changes no value that any access could read.
                unsafe { Dccsw::write_raw(way.checked_shl(way_shift).unwrap_or(0) | set << line_shift | level << 1) }
            }
        }
    }
    dsb();
}

/// Cleans `va..va + len` from the data cache to the point of coherency, and drops it from there.
pub fn clean_invalidate(va: u32, len: u32) {
    for_each_line(va, len, data_line(), |at| {
        // SAFETY: what is dropped was cleaned first.
        unsafe { Dccimvac::write_raw(at) }
    });
    dsb();
}
