//! Where Spica itself lives in the virtual address space: the *hypervisor region*.
//!
//! The hypervisor region is 184 MiB that every translation table of the host holds alike, the hypervisor's own
//! (src/memory/host_space.rs) as well as the shadow tables of all guests. Because it is the same everywhere, its
//! entries are global, and a trap from a guest finds its vectors, its stack, its data and the host's devices without
//! any change of tables.
//!
//! | from        | to (excl.)  | what                                                                       |
//! |-------------|-------------|----------------------------------------------------------------------------|
//! | 0xF180_0000 | 0xF200_0000 | not mapped here: the code cache, whose mappings are each guest's own        |
//! | 0xF200_0000 | 0xF480_0000 | not mapped here: the return mirror, in the same way                         |
//! | 0xF500_0000 | 0xF580_0000 | not mapped here: the marks of a guest's memory while that is looked at, as the above |
//! | 0xF5F0_0000 | 0xF600_0000 | a stack for each guest ([`crate::memory::stacks`]), with pages between that are not mapped      |
//! | 0xF600_0000 | 0xF620_0000 | the image, by pages of 4 and 64 KiB: text RX, constants R, data and stacks RW |
//! | 0xF620_0000 | 0xFC00_0000 | the pool: the heap, and each virtual machine's share ([`crate::memory::pool`]); mapped as far as it is used |
//! | 0xFC00_0000 | 0xFD00_0000 | device windows of 1 MiB ([`crate::memory::device`])                         |
//!
//! The return mirror stands for guest addresses from 0xBF00_0000 to 0xC180_0000: modules and text of a Linux kernel
//! whose linear map begins at 0xC000_0000; or for others where a guest turns out to have its kernel ([`mirrors`]). At
//! the same distance below the mirror, the code cache stands for 0xBE80_0000 to 0xBF00_0000, the end of user space
//! there: no kernel executes code from it (see [`spica_dbt::return_mirror`]). Such addresses of each window are
//! [`unseen`].
//!
//! The place is one that guests leave alone: Linux fills its vmalloc area, which ends at 0xFF80_0000 and begins above
//! its linear map (at 0xF000_0000 or below), from the bottom, and puts its per-CPU areas at the top, below its PCI I/O
//! space at 0xFEE0_0000.
//!
//! All of it is accessible to privileged code only, in domain 15, which belongs to the host and is always client: a
//! guest's domain register never opens it.

use spica_addr::GuestVa;
use spica_dbt::at::is_thumb;
use spica_dbt::checks::{MARKS, MARKS_SIZE};
use spica_dbt::layout::Window;
use spica_dbt::return_mirror::undone;

/// First virtual address of the hypervisor region.
pub const REGION_START: u32 = 0xf180_0000;
/// Below the hypervisor region, and near it: an address that instructions have room for.
pub const REGION_MIN: u32 = REGION_START & 0xff00_0000;
/// Bytes of the hypervisor region: whole megabytes, since domains and first-level entries are per megabyte.
pub const REGION_SIZE: u32 = 184 * MEGABYTE;
/// First-level entries that make up the hypervisor region.
pub const REGION_ENTRIES: usize = (REGION_SIZE / MEGABYTE) as usize;

/// The first megabyte that holds the image; the image starts at `link.ld`'s offset into it.
pub const IMAGE_START: u32 = 0xf600_0000;
/// Megabytes that hold the image, as far as it goes.
pub const IMAGE_MEGABYTES: u32 = 2;

/// The megabyte that holds the guests' stacks.
pub const STACKS_START: u32 = IMAGE_START - MEGABYTE;

/// First virtual address of the pool.
pub const POOL_START: u32 = IMAGE_START + IMAGE_MEGABYTES * MEGABYTE;
/// Bytes of virtual address space kept for the pool.
pub const POOL_SIZE: u32 = DEVICES_START - POOL_START;
/// Bytes of the pool that are taken first, all for the heap of Rust's `alloc`: what is not one virtual machine's.
pub const FIRST_HEAP_SIZE: u32 = 3 * MEGABYTE;

/// First virtual address that the code cache may use.
pub const CODE_CACHE_START: u32 = REGION_START;
/// Bytes of virtual address space kept for the code cache.
pub const CODE_CACHE_SIZE: u32 = 8 * MEGABYTE;

/// Where the linear map of a guest's kernel is taken to begin, until it is seen elsewhere: where Linux has it, if its
/// configuration does not say otherwise (`VMSPLIT_3G`).
pub const LINEAR_MAP: u32 = 0xc000_0000;

/// First virtual address of the return mirror.
pub const MIRROR_START: u32 = 0xf200_0000;
/// Bytes of the return mirror.
pub const MIRROR_SIZE: u32 = 40 * MEGABYTE;
/// In front of a Linux kernel's linear map are its modules (Documentation/arm/memory.rst).
const MODULES: u32 = 16 * MEGABYTE;

/// In front of one in T32 are 8 MiB of them (the same).
const T32_MODULES: u32 = 8 * MEGABYTE;

/// The return mirror for a kernel whose linear map begins at `base`, a multiple of 16 MiB.
pub const fn mirror(base: u32) -> Window {
    let start = base - MODULES;
    Window { start, size: MIRROR_SIZE, distance: MIRROR_START - start, t32: false, guarded: false }
}

/// The same for a kernel in T32: half as many addresses, each half-word of which has a word. `None` if it would begin
/// with another bit 31 than it ends with.
pub const fn t32_mirror(base: u32) -> Option<Window> {
    let (start, size) = (base - T32_MODULES, MIRROR_SIZE / 2);
    let distance = MIRROR_START.wrapping_sub(start << 1);
    let window = Window { start, size, distance, t32: true, guarded: false };
    if start >> 31 == (start + size - 1) >> 31 { Some(window) } else { None }
}

/// The return mirror for privileged code anywhere: what is around `pc`, which has its state in bit 0.
pub const fn mirror_around(pc: GuestVa) -> Window {
    let t32 = is_thumb(pc);
    let size = Window::GUARDED >> t32 as u32;
    let start = pc.0 & !(size - 1);
    Window { start, size, distance: MIRROR_START.wrapping_sub(start << t32 as u32), t32, guarded: true }
}

/// Addresses where no kernel that has its return mirror for `window` may execute code, since a branch through it would
/// take them for others: the first and the last of each range of them, with their state in bit 0. They are those that
/// lead to the code cache, and those that share their places in the mirror with the window's; but not what is in the
/// window itself, in another state.
pub fn unseen(window: Window) -> impl Iterator<Item = GuestVa> {
    let mirror = window.base();
    let ends = [CODE_CACHE_START, CODE_CACHE_START + CODE_CACHE_SIZE, mirror, mirror + window.mirror_size()];
    let ranges = ends.into_iter().enumerate().map(|(at, end)| end - 4 * (at as u32 & 1));
    ranges.flat_map(move |pc| (0..4).map(move |low| undone(pc | low, window))).filter(move |va| !window.contains(va.0))
}

/// Where the linear map of the kernel that executes code at `pc` begins, if it is in one of the places where Linux may
/// be built to have it (`CONFIG_VMSPLIT_…`): the code is soon behind that, or in a module.
pub const fn linear_map(pc: u32) -> Option<u32> {
    let base = pc.wrapping_add(MODULES) & 0xf000_0000;
    match base {
        0x4000_0000 | 0x8000_0000 | 0xb000_0000 | 0xc000_0000 if mirror(base).contains(pc) => Some(base),
        _ => None,
    }
}

/// The windows that the return mirror may have for privileged code at `pc`, which has its state in bit 0, the better
/// one first. None for exception vectors, which are not where a kernel is.
pub fn mirrors(pc: GuestVa) -> impl Iterator<Item = Window> {
    let linux = linear_map(pc.0).and_then(|base| if is_thumb(pc) { t32_mirror(base) } else { Some(mirror(base)) });
    linux.into_iter().chain([mirror_around(pc)]).filter(move |window| window.has(pc) && pc.0 < REGION_START)
}

/// Bytes of virtual address space for the code cache of a guest whose kernel runs in place.
pub const NEAR_CODE_SIZE: u32 = 4 * MEGABYTE;
/// The code cache begins so far in front of the guest's kernel.
const NEAR_CODE: u32 = 6 * MEGABYTE;

/// First virtual address of the code cache of a guest whose kernel runs in place, with its linear map from `base` on,
/// and its code soon behind that. The cache has to be near: in front of the kernel, at the end of the 16 MiB for
/// Linux's modules, which are allocated from their start (Documentation/arm/memory.rst).
pub const fn near_code(base: u32) -> u32 {
    base - NEAR_CODE
}

/// The guest code that can run in place then: what branches from [`near_code`] reach, modules and text of a Linux
/// kernel.
pub const fn in_place(base: u32) -> Window {
    Window { start: base - MODULES, size: 40 * MEGABYTE, distance: 0, t32: false, guarded: false }
}

/// First virtual address of the device windows.
pub const DEVICES_START: u32 = 0xfc00_0000;
/// How many device windows of 1 MiB there are.
pub const DEVICE_WINDOWS: usize = 16;

/// The host's domain: that of the hypervisor region and of the host table.
pub const HOST_DOMAIN: u32 = 15;
/// The domain access control register while the host table is in force: domain 15 client.
pub const HOST_DACR: u32 = 1 << (2 * HOST_DOMAIN);

/// The address space identifier of the host table. ASID 0 is that of the table that Spica boots with.
pub const HOST_ASID: u32 = 1;

/// The attributes of a translation table base register: table walks are inner and outer write-back, not shared.
///
/// Bit 0 is C on a core without the multiprocessing extensions and IRGN\[1\] on one with them, bit 6 is reserved or
/// IRGN\[0\]: both read this as "inner write-back" (ARM ARM B4.1.154).
pub const TTBR_WALK: u32 = 0x59;

/// Bytes in a megabyte, the unit of first-level entries.
pub const MEGABYTE: u32 = 1 << 20;

const _: () = {
    assert!(CODE_CACHE_START + CODE_CACHE_SIZE <= MIRROR_START);
    // Addresses in the code cache are no A32 instructions, which the return mirror counts on.
    assert!(CODE_CACHE_START >= 0xf110_0000 && CODE_CACHE_START + CODE_CACHE_SIZE <= 0xf200_0000);
    assert!(MIRROR_START + MIRROR_SIZE <= MARKS && MARKS + MARKS_SIZE <= STACKS_START);
    // A distance is added by one instruction (A5.2.4).
    assert!(mirror(0xc000_0000).distance & 0xff_ffff == 0 && mirror(0x4000_0000).distance & 0xff_ffff == 0);
    assert!(matches!(t32_mirror(0xc000_0000), Some(w) if w.distance & 0xff_ffff == 0 && w.base() == MIRROR_START));
    assert!(matches!(t32_mirror(0x4000_0000), Some(w) if w.distance & 0xff_ffff == 0 && w.base() == MIRROR_START));
    assert!(mirror_around(GuestVa(0x47f3_5101)).base() == MIRROR_START && Window::GUARDED <= MIRROR_SIZE);
    assert!(t32_mirror(0x8000_0000).is_none());
    assert!(
        matches!(linear_map(0xc010_0000), Some(0xc000_0000)) && matches!(linear_map(0xbf00_0000), Some(0xc000_0000))
    );
    assert!(matches!(linear_map(0x8010_0000), Some(0x8000_0000)) && linear_map(0x5000_0000).is_none());
    assert!(linear_map(0xffff_0018).is_none() && linear_map(0xc180_0000).is_none());
    assert!(DEVICES_START + DEVICE_WINDOWS as u32 * MEGABYTE <= REGION_START + REGION_SIZE);
    assert!(FIRST_HEAP_SIZE < POOL_SIZE);
    // A branch reaches 32 MiB (A8.8.18).
    let window = in_place(0xc000_0000);
    assert!(window.start + window.size - near_code(0xc000_0000) < 32 * MEGABYTE);
    assert!(near_code(0xc000_0000) + NEAR_CODE_SIZE - window.start < 32 * MEGABYTE);
};
