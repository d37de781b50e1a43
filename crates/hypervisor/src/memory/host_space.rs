//! The host table: the translation tables under which the hypervisor itself runs.
//!
//! Its upper part is the hypervisor region ([`crate::layout`]), which all other tables copy ([`region_entries`]);
//! below, all RAM is mapped at its physical address, so that the hypervisor reaches guests' memory, tables and bundles
//! without further ado ([`super::phys`]). RAM is normal memory, write-back, write-allocate, not shared (one core),
//! never executable here; it is not global, and belongs to ASID 1.
//!
//! The *region table* has the upper part alone, all of whose entries are global: each change of tables goes through it.
//! It is where the boot table was.
//!
//! An entry of the table only ever goes from invalid to valid: TLBs hold no invalid entries, so this needs no TLB
//! maintenance, only that the table walk sees the store (ARM ARM B3.10.1).

use core::cell::UnsafeCell;

use spica_addr::HostPa;

use crate::arch::barrier::isb;
use crate::arch::cache::clean_table;
use crate::arch::tlb;
use crate::boot::Handover;
use crate::layout::{
    HOST_ASID, HOST_DOMAIN, IMAGE_MEGABYTES, IMAGE_START, MEGABYTE, REGION_ENTRIES, REGION_SIZE, REGION_START,
    STACKS_START,
};

/// First-level section: privileged read/write, XN, in the host's domain.
pub const SECTION: u32 = 0b10 | HOST_DOMAIN << 5 | 1 << 10 | SECTION_XN;
/// Never executable.
pub const SECTION_XN: u32 = 1 << 4;
/// Normal memory, inner and outer write-back write-allocate (TEX = 001, C, B), not shared.
pub const SECTION_NORMAL: u32 = 1 << 12 | 1 << 3 | 1 << 2;
/// Device memory, not shareable (TEX = 010; ARM ARM table B3-10): on a Cortex-A8, accesses to shareable device memory
/// may complete out of order (erratum 709718). One core sees no other difference, and with LPAE there is none (A3.5.5).
const SECTION_DEVICE: u32 = 1 << 13;
/// Not global: the entry belongs to an address space.
pub const SECTION_NOT_GLOBAL: u32 = 1 << 17;

/// Second-level small page, normal memory as above.
pub const PAGE: u32 = 0b10 | 1 << 6 | 1 << 3 | 1 << 2;
/// Privileged read/write.
pub const PAGE_READ_WRITE: u32 = 1 << 4;
/// Not global.
pub const PAGE_NOT_GLOBAL: u32 = 1 << 11;
/// Privileged read only (AP = 101).
const PAGE_READ_ONLY: u32 = 1 << 9 | 1 << 4;
/// Execute never.
const PAGE_XN: u32 = 1;

/// Second-level large page, normal memory as above, the same entry sixteen times (B3.5.1). What may be done with it is
/// said by the same bits as of a small one.
pub const LARGE_PAGE: u32 = 0b01 | 1 << 12 | 1 << 3 | 1 << 2;
/// Execute never.
const LARGE_PAGE_XN: u32 = 1 << 15;
/// Bytes of one.
const LARGE_PAGE_SIZE: u32 = 1 << LARGE_PAGE_BITS;
/// The logarithm of that.
pub const LARGE_PAGE_BITS: u32 = 16;

/// First-level table: 16 KiB, aligned to that.
#[repr(C, align(16384))]
struct FirstLevel(UnsafeCell<[u32; 4096]>);

/// Second-level table: 1 KiB, aligned to that.
#[repr(C, align(1024))]
struct SecondLevel(UnsafeCell<[u32; 256]>);

// SAFETY: written only by the functions below, on the one core, with interrupt handlers not touching it.
unsafe impl Sync for FirstLevel {}
// SAFETY: as above.
unsafe impl Sync for SecondLevel {}

static HOST_TABLE: FirstLevel = FirstLevel(UnsafeCell::new([0; 4096]));
static IMAGE_PAGES: [SecondLevel; IMAGE_MEGABYTES as usize] =
    [const { SecondLevel(UnsafeCell::new([0; 256])) }; IMAGE_MEGABYTES as usize];
static STACK_PAGES: SecondLevel = SecondLevel(UnsafeCell::new([0; 256]));

macro_rules! linker_symbols {
    ($($name:ident)+) => {
        unsafe extern "C" {
            $(static $name: u8;)+
        }
    };
}

linker_symbols! {
    __image_start __text_end __rodata_end __image_end __exception_stack_guard __stack_guard __boot_table
}

macro_rules! address_of {
    ($symbol:ident) => {
        // Only the symbol's address is taken; it has no value.
        &raw const $symbol as u32
    };
}

/// Writes an entry of a table and makes it visible to table walks.
///
/// # Safety
/// `entry` points into one of the tables above, and the new mapping breaks no reference of Rust's.
unsafe fn write(entry: *mut u32, value: u32) {
    // SAFETY: passed on to the caller.
    unsafe { entry.write_volatile(value) }
    clean_table(entry as u32, 4);
    isb();
}

fn first_level(va: u32) -> *mut u32 {
    HOST_TABLE.0.get().cast::<u32>().wrapping_add((va / MEGABYTE) as usize)
}

/// The same in the region table.
fn region_level(va: u32) -> *mut u32 {
    (address_of!(__boot_table) as *mut u32).wrapping_add((va / MEGABYTE) as usize)
}

/// Writes a first-level entry of the hypervisor region to both tables.
///
/// # Safety
/// As for [`write()`]; [`install`] is done.
unsafe fn write_region(va: u32, value: u32) {
    for entry in [first_level(va), region_level(va)] {
        // SAFETY: passed on to the caller.
        unsafe { write(entry, value) }
    }
}

/// Physical address of something in the image, given its virtual one.
fn image_pa(image: HostPa, va: u32) -> HostPa {
    HostPa(va - address_of!(__image_start) + image.0)
}

/// The bytes of memory that the image occupies, from its first on, with all that the flat binary leaves out.
pub fn image_size() -> u32 {
    address_of!(__image_end) - address_of!(__image_start)
}

/// The image's text and constants: what never changes once the image is in its place.
pub fn constants() -> &'static [u32] {
    let start = address_of!(__image_start);
    let words = (address_of!(__rodata_end) - start) / 4;
    // SAFETY: mapped read-only for as long as the image runs, and aligned, for the image begins on a page.
    unsafe { core::slice::from_raw_parts(start as *const u32, words as usize) }
}

/// The page below the hypervisor's stack, which is not mapped.
pub fn stack_guard() -> u32 {
    address_of!(__stack_guard)
}

/// Builds the host table around the image and the device tree, and makes it current. Called once, first thing in Rust.
pub fn install(handover: &Handover) {
    let image = handover.image;
    let pages = (&raw const IMAGE_PAGES).cast::<u32>().cast_mut();
    let guards = [address_of!(__exception_stack_guard), address_of!(__stack_guard)];
    let mut va = address_of!(__image_start);
    while va < address_of!(__image_end) {
        let (access, xn) = if va < address_of!(__text_end) {
            (PAGE_READ_ONLY, false)
        } else if va < address_of!(__rodata_end) {
            (PAGE_READ_ONLY, true)
        } else {
            (PAGE_READ_WRITE, true)
        };
        let pa = image_pa(image, va).0;
        // A TLB has few entries, and traps leave most of them to the guest: text and constants take one for 64 KiB, but
        // where they meet, or end. `boot/start.s` has them like this, too.
        let piece = |va: u32| va / LARGE_PAGE_SIZE;
        let large = piece(va) < piece(address_of!(__rodata_end)) && piece(va) != piece(address_of!(__text_end));
        let (entry, count) = if large {
            (pa | LARGE_PAGE | access | if xn { LARGE_PAGE_XN } else { 0 }, LARGE_PAGE_SIZE / 4096)
        } else {
            (pa | PAGE | access | if xn { PAGE_XN } else { 0 }, 1)
        };
        for at in 0..if guards.contains(&va) { 0 } else { count } {
            // SAFETY: within the table (`link.ld` has the same bound for the image); mapped like this is how Rust
            // expects the image.
            unsafe { write(pages.wrapping_add(((va - IMAGE_START) / 4096 + at) as usize), entry) }
        }
        va += count * 4096;
    }
    let pages_pa = image_pa(image, pages as u32);
    // SAFETY: nothing is mapped there in the host table yet, which is not in use.
    for megabyte in 0..IMAGE_MEGABYTES {
        let table = pages_pa.0 + megabyte * size_of::<SecondLevel>() as u32;
        // SAFETY: as above.
        unsafe { write(first_level(IMAGE_START + megabyte * MEGABYTE), table | HOST_DOMAIN << 5 | 0b01) }
    }
    let stacks_pa = image_pa(image, STACK_PAGES.0.get() as u32);
    // SAFETY: as above; there is nothing in that table yet.
    unsafe { write(first_level(STACKS_START), stacks_pa.0 | HOST_DOMAIN << 5 | 0b01) }

    if handover.device_tree_size > 0 {
        let last = handover.device_tree.0 + (handover.device_tree_size - 1);
        for megabyte in handover.device_tree.0 / MEGABYTE..=last / MEGABYTE {
            map_ram_megabyte(megabyte * MEGABYTE);
        }
    }

    let HostTables { host, .. } = tables(image);
    // SAFETY: the new tables map the image as the old ones do, but for write permissions that Rust does not use. There
    // is no region table yet; what is remembered of the host table under ASID 0 instead, goes.
    unsafe { tlb::switch_table(host, host, HOST_ASID) }
    // What the boot table left behind belongs to ASID 0, which nobody has from here on.
    tlb::invalidate_all();
    for megabyte in 0..4096 {
        let va = megabyte * MEGABYTE;
        let in_region = va.wrapping_sub(REGION_START) < REGION_SIZE;
        // SAFETY: the boot table is in force no more, and nobody else has it; both are tables of 4096 entries.
        unsafe { write(region_level(va), if in_region { first_level(va).read_volatile() } else { 0 }) }
    }
}

/// Where Spica's own tables are.
#[derive(Clone, Copy)]
pub struct HostTables {
    /// The host table, for [`tlb::switch_table`] with [`HOST_ASID`].
    pub host: HostPa,
    /// The region table.
    pub region: HostPa,
}

/// Spica's own tables.
pub fn tables(image: HostPa) -> HostTables {
    HostTables { host: image_pa(image, HOST_TABLE.0.get() as u32), region: image_pa(image, address_of!(__boot_table)) }
}

/// Maps a megabyte of RAM at its physical address.
///
/// # Panics
/// If the address lies in the hypervisor region: memory there is left out by [`super::ram`].
pub fn map_ram_megabyte(pa: u32) {
    assert!(pa.is_multiple_of(MEGABYTE) && pa < REGION_START, "RAM at {pa:#010x} cannot be mapped at its address");
    // SAFETY: RAM at its own address, where nothing else is or was mapped but the same.
    unsafe { write(first_level(pa), pa | SECTION | SECTION_NORMAL | SECTION_NOT_GLOBAL) }
}

/// Maps a megabyte of the pool at an address in the hypervisor region.
pub(super) fn map_pool_megabyte(va: u32, pa: u32) {
    // SAFETY: `pool` maps each megabyte of its range once.
    unsafe { write_region(va, pa | SECTION | SECTION_NORMAL) }
}

/// Maps a page of RAM in the megabyte of the guests' stacks.
pub(super) fn map_stack_page(va: u32, pa: u32) {
    let pages = STACK_PAGES.0.get().cast::<u32>();
    // SAFETY: within the table; `stacks` maps each page once, of RAM that it has taken.
    unsafe { write(pages.wrapping_add((va % MEGABYTE / 4096) as usize), pa | PAGE | PAGE_READ_WRITE | PAGE_XN) }
}

/// Maps a megabyte of devices at an address in the hypervisor region.
pub(super) fn map_device_megabyte(va: u32, pa: u32) {
    // SAFETY: `device` maps each window once.
    unsafe { write_region(va, pa | SECTION | SECTION_DEVICE) }
}

/// The first-level entries of the hypervisor region: every table that the host runs under holds these.
///
/// Taken once all device windows exist ([`super::device::seal`]) and every virtual machine has its share of the pool.
pub fn region_entries() -> [u32; REGION_ENTRIES] {
    core::array::from_fn(|index| {
        // SAFETY: within the table, and nothing writes to it meanwhile.
        unsafe { first_level(REGION_START + index as u32 * MEGABYTE).read_volatile() }
    })
}
