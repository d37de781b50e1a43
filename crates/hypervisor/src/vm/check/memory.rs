//! The guest's memory in a session: where its tables, code and data are, and random tables to begin with.
//!
//! Tables 1 to 3 are of processes: each has second-level tables of its own for [`OWN`], with entries that are not
//! global, and two ASIDs that no other has. Table 0 has nothing there, and so goes with any ASID, as Linux's own does.
//! What is global is the same in all: RAM from [`LINEAR`] on, again from [`FAR_LINEAR`] on, and the second-level
//! tables for [`COMMON`].

use spica_addr::GuestPa;
use spica_machine::map::{GICC, GICD, GPIO, RAM};
use spica_vcpu::exception::HIGH_VECTORS;

use super::random::Random;
use crate::arch::cache;
use crate::host_cpu::HostSpace;
use crate::layout::MEGABYTE;
use crate::vm::Vm;

/// Bytes of the guest's RAM.
pub const RAM_BYTES: u32 = 16 * MEGABYTE;
/// From here on lies all that a session uses.
pub const AREA: GuestPa = GuestPa(RAM.0 + 8 * MEGABYTE);
/// First-level tables.
pub const ROOTS: u32 = 4;
const SECOND_LEVEL: u32 = AREA.0 + 0x1_0000;
/// Kernel programs.
const PROGRAMS: u32 = AREA.0 + 0x2_0000;
/// So many programs of so many bytes each.
pub const PROGRAM_SLOTS: u32 = 32;
const PROGRAM_BYTES: u32 = 2048;
const VECTORS: u32 = AREA.0 + 0x3_0000;
const USER_CODE: u32 = AREA.0 + 0x3_1000;
/// Pages that user and kernel code reach by random tables.
const DATA: u32 = AREA.0 + 0x4_0000;
const DATA_PAGES: u32 = 32;
/// Pages of the area: all that a guest of ours may change.
pub const AREA_PAGES: u32 = 0x40 + DATA_PAGES;

/// Where the kernel has its RAM, within the return mirror's window, and once more outside of it.
pub const LINEAR: u32 = 0xc000_0000;
const FAR_LINEAR: u32 = 0xc800_0000;
/// Where each process has the user programs.
const USER_PROGRAMS: u32 = 0x0040_0000;

/// Megabytes of a process's own second-level tables.
pub const OWN: [u32; 7] = [0x000, 0x001, 0x004, 0x100, 0x7ff, 0xbe0, 0xbef];
/// Which of [`OWN`] has the user programs.
const PROGRAMS_OWN: u32 = 2;
/// Megabytes of second-level tables that all have in common: of modules, behind the linear map, at the top.
pub const COMMON: [u32; 4] = [0xbf0, 0xd00, 0xf0f, 0xfff];
/// Megabytes of sections, of a process's own.
const SECTIONS: [u32; 2] = [0x200, 0x211];
/// The megabyte of a supersection.
const SUPERSECTION: u32 = 0x220;
/// The megabyte in which all have the interrupt controller.
const CONTROLLER: u32 = 0xe10;
/// Where the kernel has its distributor and its CPU interface, in domain 1, which programs close now and then.
pub const CONTROLLER_FRAMES: [u32; 2] = [CONTROLLER << 20, CONTROLLER << 20 | 0x1000];
/// Nothing is there in any table, but for the last, which is in the hypervisor region.
const NOTHING: [u32; 3] = [0x300, 0xe00, 0xf50];
/// Entries of a second-level table that sessions use; those from [`LARGE`] on are a large page.
const ENTRIES: [u32; 8] = [0, 1, 2, 3, 0x10, 0x7f, 0xfe, 0xff];
const LARGE: u32 = 0x20;

/// A word that is harmless as code, whatever of it a store has changed: SVC in A32, SVC in its first half in T32.
pub const fn harmless(random: u32) -> u32 {
    0xef00_df00 | random & 0x00ff_00ff
}

/// Where a processor's tables and code are.
#[derive(Clone, Copy)]
pub struct Layout {
    /// SCTLR.V.
    pub high_vectors: bool,
}

/// The guest's TTBR0 for table `root`.
pub const fn ttbr0(root: u32) -> u32 {
    (AREA.0 + root * 0x4000) | 0x59
}

/// The ASIDs of table `root`; those of table 0 are anybody's.
pub const fn asids(root: u32) -> [u32; 2] {
    [root, root + 0x80]
}

/// The linear address of a physical one.
pub const fn linear(pa: u32) -> u32 {
    pa - RAM.0 + LINEAR
}

fn own_table(root: u32, place: u32) -> u32 {
    SECOND_LEVEL + ((root * 8) + place) * 1024
}

fn common_table(place: u32) -> u32 {
    SECOND_LEVEL + (32 + place) * 1024
}

/// Physical and virtual address of kernel program `slot`; a third of them are outside of the mirror's window.
pub fn program(slot: u32) -> (u32, u32) {
    let pa = PROGRAMS + slot * PROGRAM_BYTES;
    (pa, if slot % 3 == 2 { pa - RAM.0 + FAR_LINEAR } else { linear(pa) })
}

/// Physical and virtual address of the words of user program `slot`.
pub fn user_program(slot: u32) -> (u32, u32) {
    let offset = slot * 32;
    (USER_CODE + offset, USER_PROGRAMS + offset)
}

/// The linear address of a data page, for a kernel that jumps there.
pub fn data_page(random: &mut Random) -> u32 {
    linear(DATA + random.below(4) * 4096)
}

/// A place in data by its linear address.
pub fn linear_data(random: &mut Random) -> u32 {
    linear(data(random) + random.below(0x400) * 4)
}

/// A place in a section.
pub fn in_section(random: &mut Random) -> u32 {
    random.pick(&SECTIONS) << 20 | random.below(0x6_0000) & !3
}

/// Where a session has most of its accesses, so that pages meet: two of [`OWN`].
pub fn favourites(random: &mut Random) -> [u32; 2] {
    [random.pick(&PLACES), random.pick(&PLACES)]
}

/// Places of [`OWN`] whose entries change.
const PLACES: [u32; 6] = [0, 1, 3, 4, 5, 6];
/// The one of them that has a large page: maintenance there is always for Rust.
const LARGE_PLACE: u32 = 4;

/// The second-level entry that a session changes: its address, and the virtual address that it maps.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Physical address.
    pub at: u32,
    /// What it maps.
    pub va: u32,
    /// Whose it is; nobody's is in all tables.
    pub root: Option<u32>,
}

/// Any entry that may be changed, of table `root` if that is said.
pub fn any_entry(random: &mut Random, favourites: [u32; 2], root: Option<u32>) -> Entry {
    let index = random.pick(&ENTRIES);
    if random.one_in(4) {
        let place = random.below(COMMON.len() as u32);
        // The vectors' page stays, and what is behind it.
        let index = if place == 3 { index & 3 } else { index };
        let va = COMMON[place as usize] << 20 | index << 12;
        return Entry { at: common_table(place) + index * 4, va, root: None };
    }
    let root = root.unwrap_or(1 + random.below(ROOTS - 1));
    let place = if random.one_in(3) { random.pick(&PLACES) } else { random.pick(&favourites) };
    Entry { at: own_table(root, place) + index * 4, va: OWN[place as usize] << 20 | index << 12, root: Some(root) }
}

/// An entry that is the same in all tables.
pub fn common_entry(random: &mut Random) -> Entry {
    let place = random.below(COMMON.len() as u32 - 1);
    let index = random.pick(&ENTRIES);
    Entry { at: common_table(place) + index * 4, va: COMMON[place as usize] << 20 | index << 12, root: None }
}

/// The same entry of table `other`, of one of table `root`'s own.
pub fn same_of(entry: Entry, root: u32, other: u32) -> Entry {
    Entry { at: entry.at + own_table(other, 0) - own_table(root, 0), root: Some(other), ..entry }
}

/// A first-level entry that may be changed: its address, and a descriptor for it.
pub fn any_first_level(random: &mut Random) -> (u32, u32) {
    let root = 1 + random.below(ROOTS - 1);
    let (megabyte, descriptor) = if random.one_in(3) {
        (random.pick(&SECTIONS), section(random))
    } else {
        let place = random.pick(&PLACES);
        (OWN[place as usize], table(random, own_table(root, place)))
    };
    (AREA.0 + root * 0x4000 + megabyte * 4, descriptor)
}

/// Domains that tables use: beyond the first six, and the last, are special.
const DOMAINS: [u32; 8] = [1, 1, 1, 2, 3, 5, 7, 15];

fn table(random: &mut Random, at: u32) -> u32 {
    let domain = random.pick(&DOMAINS) << 5;
    match random.below(16) {
        0 => 0,
        // Behind the end of RAM, or before its start.
        1 => 0x8000_0000 | random.word() & 0xffc00 | domain | 1,
        2 => 0x3ff0_0000 | domain | 1,
        3 => 0b11 | domain,
        _ => at | domain | 1,
    }
}

/// Small pages of data, now and then something else.
pub fn page(random: &mut Random, global: bool) -> u32 {
    let not_global = if global { 0 } else { 1 << 11 };
    // TEX, C and B: normal memory. S is anything.
    let attributes = 0b001 << 6 | 0b11 << 2 | random.below(2) << 10 | not_global;
    // AP[2:0]; what is reserved (0b100) is not drawn.
    let ap =
        if random.one_in(2) { 0b011 } else { random.pick(&[0b011, 0b010, 0b010, 0b111, 0b001, 0b101, 0b110, 0b000]) };
    let permission = (ap & 0b100) << 7 | (ap & 0b11) << 4 | u32::from(random.one_in(6));
    let small = attributes | permission | 0b10;
    match random.below(30) {
        0..3 => 0,
        3 => random.word() & !0b11,
        4 => GPIO.0 | small,
        5 => random.pick(&[0x0000_0000, 0x0b00_0000, 0x4100_0000, 0x7fff_f000, 0xf600_0000, 0xffff_f000]) | small,
        // Code that is translated, and what lies around the end of RAM.
        6 => (PROGRAMS + random.below(2) * 4096) & !0xfff | small,
        7 => USER_CODE | small,
        8 => (RAM.0 + RAM_BYTES - 4096) | small,
        _ => data(random) | small,
    }
}

/// A data page, most of the time one of a few, which so are mapped in several places.
fn data(random: &mut Random) -> u32 {
    let pages = if random.one_in(3) { DATA_PAGES } else { 8 };
    DATA + random.below(pages) * 4096
}

/// A small page of data that the kernel may write, of one process.
pub fn data_descriptor(random: &mut Random) -> u32 {
    data(random) | 1 << 11 | 0b001 << 6 | random.pick(&[0b01, 0b11]) << 4 | 0b11 << 2 | 0b10
}

/// A small page that the kernel may write: what a program at `va` has there.
pub fn kernel_page(va: u32) -> u32 {
    let linear = if va < FAR_LINEAR { LINEAR } else { FAR_LINEAR };
    (va - linear + RAM.0) & !0xfff | 0b001 << 6 | 0b01 << 4 | 0b11 << 2 | 0b10
}

/// A large page of data, or nothing.
pub fn large(random: &mut Random, global: bool) -> u32 {
    let not_global = if global { 0 } else { 1 << 11 };
    let ap = random.pick(&[0b11, 0b10, 0b01]) << 4;
    let base = random.pick(&[DATA, DATA + 0x1_0000, RAM.0 + MEGABYTE]);
    if random.one_in(4) { 0 } else { base | 0b001 << 12 | 0b11 << 2 | ap | not_global | 0b01 }
}

/// Where the first descriptor of table `root`'s large page is, and what it maps.
pub fn large_page(root: u32) -> (u32, u32) {
    (own_table(root, LARGE_PLACE) + LARGE * 4, OWN[LARGE_PLACE as usize] << 20 | LARGE << 12)
}

fn section(random: &mut Random) -> u32 {
    let ap = random.pick(&[0b011, 0b010, 0b010, 0b001, 0b111]);
    let permission = (ap & 0b100) << 13 | (ap & 0b11) << 10 | u32::from(random.one_in(4)) << 4;
    let domain = random.pick(&DOMAINS) << 5;
    let base = random.pick(&[AREA.0, RAM.0 + MEGABYTE, RAM.0 + MEGABYTE, RAM.0 + MEGABYTE, 0x0900_0000, 0x8000_0000]);
    if random.one_in(8) { 0 } else { base | 1 << 17 | 0b001 << 12 | 0b11 << 2 | permission | domain | 0b10 }
}

/// Any virtual address worth an access: in a page that may be there, near its end, and in others.
pub fn address(random: &mut Random, favourites: [u32; 2]) -> u32 {
    let entry = random.pick(&ENTRIES);
    let page = match random.below(40) {
        16.. => OWN[random.pick(&favourites) as usize] << 20 | entry << 12,
        0..8 => random.pick(&OWN) << 20 | entry << 12,
        8..11 => random.pick(&COMMON) << 20 | entry << 12,
        11 => (random.pick(&OWN) << 20) + ((LARGE + random.below(16)) << 12),
        12 => random.pick(&SECTIONS) << 20 | random.below(0x60) << 12,
        13 => (SUPERSECTION + random.below(16)) << 20 | random.below(0x60) << 12,
        14 => linear(data(random)),
        _ => random.pick(&NOTHING) << 20 | random.word() & 0xff000,
    };
    page + match random.below(14) {
        0..8 => random.below(0x3f0) * 4,
        8 => random.below(0xff0),
        9 => 0xff0,
        10 => 0xff4,
        11 => 0xffc,
        12 => 0xffe,
        _ => 0,
    }
}

/// Writes `words` at `pa`, as a device would: what was translated from there goes, and so do copies of its
/// instructions.
pub fn write(host_space: HostSpace<'_>, vm: &mut Vm, pa: u32, words: &[u32]) {
    let at = GuestPa(pa);
    if vm.vcpu.mmu.shadow().is_code_page(at) {
        vm.code_changes(at);
    }
    let bytes = 4 * words.len() as u32;
    if let Some(to) = vm.common.ram.bytes_mut(host_space, at, bytes) {
        to.iter_mut().zip(words.iter().flat_map(|word| word.to_le_bytes())).for_each(|(to, byte)| *to = byte);
        cache::sync_code(to.as_ptr() as u32, bytes);
    }
    vm.vcpu.mmu.table_written(host_space, at, bytes);
}

/// Whether these words are there already.
pub fn holds(host_space: HostSpace<'_>, vm: &Vm, pa: u32, words: &[u32]) -> bool {
    (0u32..).zip(words).all(|(at, &word)| vm.common.ram.load(host_space, GuestPa(pa + 4 * at), 4) == Some(word))
}

/// Lays out the area for a session.
pub fn lay_out(host_space: HostSpace<'_>, vm: &mut Vm, random: &mut Random, vectors: &[u32]) {
    for page in 0..AREA_PAGES {
        // Each page of data tells which it is.
        let word = if page >= 0x40 || page == 0x31 { harmless(page.wrapping_mul(0x0101_0101)) } else { 0 };
        write(host_space, vm, AREA.0 + page * 4096, &[word; 1024]);
    }
    write(host_space, vm, VECTORS, vectors);
    for root in 0..ROOTS {
        let at = |megabyte: u32| AREA.0 + root * 0x4000 + megabyte * 4;
        // Privileged code alone may read and write it, in domain 0.
        let ram = |at: u32| (RAM.0 + at * MEGABYTE) | (0b001 << 12) | 0b01 << 10 | 0b11 << 2 | 0b10;
        for mb in 0..RAM_BYTES / MEGABYTE {
            write(host_space, vm, at((LINEAR >> 20) + mb), &[ram(mb)]);
            write(host_space, vm, at((FAR_LINEAR >> 20) + mb), &[ram(mb)]);
        }
        for (place, megabyte) in (0u32..).zip(COMMON) {
            // The vectors are there.
            let domain = if place == 3 { 0 } else { place };
            write(host_space, vm, at(megabyte), &[common_table(place) | domain << 5 | 1]);
        }
        write(host_space, vm, at(CONTROLLER), &[common_table(COMMON.len() as u32) | 1 << 5 | 1]);
        if root == 0 {
            continue;
        }
        for (place, megabyte) in (0u32..).zip(OWN) {
            let own = own_table(root, place);
            let descriptor = if place == PROGRAMS_OWN { own | 1 << 5 | 1 } else { table(random, own) };
            write(host_space, vm, at(megabyte), &[descriptor]);
            fill(host_space, vm, random, own, false, place == LARGE_PLACE);
        }
        let user_code = USER_CODE | 0b001 << 6 | 0b11 << 2 | 0b11 << 4 | 1 << 11 | 0b10;
        write(host_space, vm, own_table(root, PROGRAMS_OWN), &[user_code]);
        for megabyte in SECTIONS {
            let descriptor = section(random);
            write(host_space, vm, at(megabyte), &[descriptor]);
        }
        let supersection = RAM.0 | 1 << 18 | 1 << 17 | 0b001 << 12 | 0b11 << 10 | 0b11 << 2 | 0b10;
        write(host_space, vm, at(SUPERSECTION), &[supersection; 16]);
    }
    for place in 0..COMMON.len() as u32 {
        fill(host_space, vm, random, common_table(place), true, place == 0);
    }
    for (index, frame) in (0u32..).zip([GICD, GICC]) {
        // Privileged code alone may read and write it.
        let descriptor = frame.0 | 0b01 << 4 | 1 << 2 | 1 | 0b10;
        write(host_space, vm, common_table(COMMON.len() as u32) + index * 4, &[descriptor]);
    }
    let vectors_page = VECTORS | 0b001 << 6 | 0b11 << 2 | 0b01 << 4 | 0b10;
    write(host_space, vm, common_table(3) + 0xf0 * 4, &[vectors_page]);
}

/// Random entries, and perhaps a large page.
fn fill(host_space: HostSpace<'_>, vm: &mut Vm, random: &mut Random, table: u32, common: bool, large: bool) {
    for index in ENTRIES {
        let global = common && !random.one_in(3);
        let descriptor = page(random, global);
        write(host_space, vm, table + index * 4, &[descriptor]);
    }
    if !large {
        return;
    }
    let global = common && !random.one_in(3);
    let descriptor = self::large(random, global);
    write(host_space, vm, table + LARGE * 4, &[descriptor; 16]);
}

/// Where the vectors are: the registers that say so.
pub fn vector_base(layout: Layout) -> u32 {
    if layout.high_vectors { HIGH_VECTORS } else { linear(VECTORS) }
}

/// A sum over each page of the area.
pub fn sums(host_space: HostSpace<'_>, vm: &Vm) -> alloc::vec::Vec<u32> {
    let page = |page: u32| {
        let words = vm.common.ram.page(host_space, GuestPa(AREA.0 + page * 4096));
        words.map_or(0, |words| {
            words.iter().fold(0, |sum: u32, &word| sum.rotate_left(5).wrapping_mul(0x0100_0193) ^ word)
        })
    };
    (0..AREA_PAGES).map(page).collect()
}

/// A sum over all RAM but the area.
pub fn sum_elsewhere(host_space: HostSpace<'_>, vm: &Vm) -> u32 {
    (0..RAM_BYTES / 4096)
        .map(|page| GuestPa(RAM.0 + page * 4096))
        .filter(|pa| !(AREA.0..AREA.0 + AREA_PAGES * 4096).contains(&pa.0))
        .filter_map(|pa| vm.common.ram.page(host_space, pa))
        .flatten()
        .fold(0, |sum: u32, &word| sum.rotate_left(1).wrapping_add(word))
}

/// Writes something to memory outside of the area, as a session does that the clock cuts short: an SVC where sections
/// and large pages lead.
pub fn leave_a_trace(host_space: HostSpace<'_>, vm: &mut Vm) {
    write(host_space, vm, RAM.0 + MEGABYTE, &[harmless(0)]);
}
