//! The translation tables: sections of a megabyte (ARM ARM B3.5.1), most of them there from the start, some mapped by
//! the handlers of aborts when they are first used.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::cp15;

/// Bits of a section's descriptor.
mod section {
    pub const SECTION: u32 = 0b10;
    /// Device memory, shareable: TEX 000, B.
    pub const DEVICE: u32 = 1 << 2;
    /// Normal memory, write-back, write-allocate: TEX 001, C, B.
    pub const NORMAL: u32 = 1 << 12 | 1 << 3 | 1 << 2;
    pub const NEVER_EXECUTED: u32 = 1 << 4;
    /// AP[2:0] 001: the kernel reads and writes.
    pub const KERNEL: u32 = 0b01 << 10;
    /// AP[2:0] 011: everybody reads and writes.
    pub const ALL: u32 = 0b11 << 10;
    /// AP[2:0] 101: the kernel reads.
    pub const KERNEL_READS: u32 = 1 << 15 | 0b01 << 10;
    /// AP[2:0] 111: everybody reads.
    pub const ALL_READ: u32 = 1 << 15 | 0b11 << 10;
}
use section::{ALL, ALL_READ, DEVICE, KERNEL, KERNEL_READS, NEVER_EXECUTED, NORMAL, SECTION};

const MIB: u32 = 1 << 20;
/// The end of the user program's stack.
pub const USER_STACK: u32 = 0x4040_0000;
/// The megabyte of that stack.
pub const USER: u32 = USER_STACK - MIB;
/// Text and read-only data.
pub const TEXT: u32 = 0x4010_0000;
/// Virtual addresses that are mapped on demand: to RAM from [`BEHIND`] on.
pub const ON_DEMAND: u32 = 0x5000_0000;
/// How much of that there is.
const DEMANDED: u32 = 8 * MIB;
/// RAM that nobody else uses.
const BEHIND: u32 = 0x4040_0000;

/// The first-level table.
#[repr(C, align(16384))]
struct Table([AtomicU32; 4096]);

static TABLE: Table = Table([const { AtomicU32::new(0) }; 4096]);

fn entry(address: u32) -> &'static AtomicU32 {
    &TABLE.0[(address / MIB) as usize]
}

/// The descriptor of the section at an address is another one from now on. Table walks need not look into the data
/// cache (ID_MMFR3, B4.1.92), so it is cleaned to where they do.
fn set(address: u32, descriptor: u32) {
    let entry = entry(address);
    entry.store(descriptor, Ordering::Relaxed);
    // SAFETY: To clean a line changes nothing in memory; nothing but the descriptor that was stored counts.
    unsafe {
        cp15::clean_data_line(entry.as_ptr() as u32);
        cp15::invalidate_tlb_entry(address & !(MIB - 1));
        cp15::invalidate_branches(0);
    }
}

/// The MMU and the caches are on from now on, and exceptions go to `vectors` in Thumb state.
///
/// Data caches are not invalidated by set and way before, as a real core may want: on QEMU there are none, and on the
/// guest machine they are Spica's.
pub fn on(vectors: u32) {
    let ram = SECTION | NORMAL;
    for (address, descriptor) in [
        (0x0800_0000, SECTION | DEVICE | KERNEL | NEVER_EXECUTED),
        (0x0900_0000, SECTION | DEVICE | KERNEL | NEVER_EXECUTED),
        (TEXT, ram | ALL_READ),
        (TEXT + MIB, ram | KERNEL | NEVER_EXECUTED),
        (USER, ram | ALL | NEVER_EXECUTED),
    ] {
        entry(address).store(address | descriptor, Ordering::Relaxed);
    }
    const M: u32 = 1;
    const C: u32 = 1 << 2;
    const Z: u32 = 1 << 11;
    const I: u32 = 1 << 12;
    const V: u32 = 1 << 13;
    const TE: u32 = 1 << 30;
    // SAFETY: The table maps all that the kernel has, one to one. Walks look into the cache (TTBR0.RGN and IRGN: write-
    // back, write-allocate).
    unsafe {
        cp15::set_vbar(vectors);
        cp15::set_ttbcr(0);
        cp15::set_ttbr0(TABLE.0.as_ptr() as u32 | 1 << 6 | 1 << 3);
        cp15::set_dacr(0b01);
        cp15::invalidate_tlb(0);
        cp15::invalidate_instructions(0);
        cp15::set_sctlr(cp15::sctlr() & !V | M | C | Z | I | TE);
    }
}

/// Why memory cannot be used, from a fault status: the fault status field of DFSR or IFSR (B3.13.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// There is no section.
    Translation,
    /// It is not for that.
    Permission,
    /// Something else.
    Other(u32),
}

impl Fault {
    /// That of a fault status register.
    pub fn of(status: u32) -> Self {
        match (status >> 10 & 1) << 4 | status & 0xf {
            0b00101 => Self::Translation,
            0b01101 => Self::Permission,
            other => Self::Other(other),
        }
    }
}

/// Whether an address is among those that are mapped on demand.
fn is_on_demand(address: u32) -> bool {
    (ON_DEMAND..ON_DEMAND + DEMANDED).contains(&address)
}

/// Mends what made an access to data fail. The first access maps the megabyte, to be read; the first store lets
/// it be written. Gives whether there was anything to mend.
pub fn mend_data(fault: Fault, address: u32) -> bool {
    let readable = SECTION | NORMAL | NEVER_EXECUTED | KERNEL_READS;
    let physical = (address & !(MIB - 1)).wrapping_sub(ON_DEMAND).wrapping_add(BEHIND);
    match fault {
        _ if !is_on_demand(address) => return false,
        Fault::Translation => set(address, physical | readable),
        // The one bit between both is AP[2].
        Fault::Permission => set(address, physical | readable & !(KERNEL_READS ^ KERNEL)),
        Fault::Other(_) => return false,
    }
    true
}

/// The same of a fetch. The first one maps the megabyte, the second one lets it be executed.
pub fn mend_fetch(fault: Fault, address: u32) -> bool {
    match fault {
        Fault::Permission if is_on_demand(address) => {
            set(address, entry(address).load(Ordering::Relaxed) & !NEVER_EXECUTED);
            true
        }
        _ => mend_data(fault, address),
    }
}

/// Takes a megabyte away again.
pub fn unmap(address: u32) {
    set(address, 0);
}

/// What was stored there is code from now on (B2.2.9).
pub fn publish(code: &[u8]) {
    // The smallest line of a cache is four words.
    let lines = || code.as_ptr_range().start as usize & !15..code.as_ptr_range().end as usize;
    // SAFETY: To clean and to invalidate changes nothing in memory.
    unsafe {
        lines().step_by(16).for_each(|line| cp15::clean_data_line(line as u32));
        lines().step_by(16).for_each(|line| cp15::invalidate_instruction_line(line as u32));
        cp15::invalidate_branches(0);
    }
}
