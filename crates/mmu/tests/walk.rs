//! The walker and the fault registers, against the manual's words; `spica prove --part mmu-walk` has random tables.

use spica_addr::{GuestPa, GuestVa};
use spica_mmu::{Access, AccessKind, Fault, FaultKind, PageSize, Regime, find_mapped, lookup, translate};
use spica_prove::mmu::model::Memory;

const RAM: u32 = 0x4000_0000;
const RAM_BYTES: u32 = 0x20_0000;

#[test]
fn faults_without_a_descriptor_have_no_domain() {
    for (kind, status) in [(FaultKind::Alignment, 0b00001), (FaultKind::Debug, 0b00010), (FaultKind::External, 0b01000)]
    {
        let fault = Fault { domain: 7, ..Fault::without_descriptor(kind) };
        assert_eq!(fault.fsr(false), status);
        assert_eq!(fault.fsr(true), status | 1 << 11);
        assert_eq!(fault.ifsr(), status);
    }
}

#[test]
fn a_supersection_ignores_the_domain_field_and_its_extended_base() {
    let mut memory = Memory { ram: vec![(RAM, RAM_BYTES)], ..Memory::default() };
    // Domain field and PA[35:32] all ones; AP = 0b11, nG = 0.
    memory.write(RAM + 0x123 * 4, 0x80f0_0000 | 1 << 18 | 0b1111 << 5 | 0b11 << 10 | 0b10);
    let r = Regime { sctlr: 1, ttbr0: RAM, dacr: 0b01, ..Regime::default() };
    let mapping = translate(&memory, &r, GuestVa(0x1234_5678), Access { kind: AccessKind::Write, privileged: false });
    assert_eq!(mapping.map(|m| (m.pa, m.domain)), Ok((GuestPa(0x8034_5678), 0)));
}

#[test]
fn access_flag_comes_before_domain_and_domain_before_permission() {
    let mut memory = Memory { ram: vec![(RAM, RAM_BYTES)], ..Memory::default() };
    memory.write(RAM, RAM | 0b10 | 3 << 5);
    let mut r = Regime { sctlr: 1 | 1 << 29, ttbr0: RAM, ..Regime::default() };
    let read = Access { kind: AccessKind::Read, privileged: false };
    let kind = |memory: &Memory, r: &Regime| translate(memory, r, GuestVa(0), read).unwrap_err().kind;
    assert_eq!(kind(&memory, &r), FaultKind::AccessFlag);
    memory.write(RAM, RAM | 0b10 | 3 << 5 | 1 << 10);
    assert_eq!(kind(&memory, &r), FaultKind::Domain);
    r.dacr = 0b01 << 6;
    assert_eq!(kind(&memory, &r), FaultKind::Permission);
    r.dacr = 0b11 << 6;
    assert!(translate(&memory, &r, GuestVa(0), read).is_ok());
}

/// TTBCR.EAE.
const LONG: u32 = 1 << 31;
/// A valid block; a table or a page.
const BLOCK: u64 = 0b01;
const TABLE: u64 = 0b11;
/// The access flag, and what user code may do.
const AF: u64 = 1 << 10;
const USER: u64 = 1 << 6;
const READ_ONLY: u64 = 1 << 7;

const READ: Access = Access { kind: AccessKind::Read, privileged: true };
const WRITE: Access = Access { kind: AccessKind::Write, privileged: true };
const USER_READ: Access = Access { kind: AccessKind::Read, privileged: false };
const FETCH: Access = Access { kind: AccessKind::Fetch, privileged: true };

fn write64(memory: &mut Memory, at: u32, value: u64) {
    memory.write(at, value as u32);
    memory.write(at + 4, (value >> 32) as u32);
}

/// Tables as U-Boot has them, with a block of each level and some pages: the first level at RAM, four entries.
fn long() -> (Memory, Regime) {
    let mut memory = Memory { ram: vec![(RAM, RAM_BYTES)], ..Memory::default() };
    let (second, third) = (u64::from(RAM) + 0x1000, u64::from(RAM) + 0x2000);
    write64(&mut memory, RAM, u64::from(RAM) & !0x3fff_ffff | AF | BLOCK);
    write64(&mut memory, RAM + 8, second | TABLE);
    write64(&mut memory, RAM + 16, 1 << 32 | AF | BLOCK);
    write64(&mut memory, RAM + 0x1000, 0x8060_0000 | AF | USER | BLOCK);
    write64(&mut memory, RAM + 0x1008, third | TABLE | 0b11 << 61);
    write64(&mut memory, RAM + 0x1010, 1 << 32 | third | TABLE);
    write64(&mut memory, RAM + 0x1018, u64::from(RAM + RAM_BYTES) | TABLE);
    write64(&mut memory, RAM + 0x1020, third | TABLE);
    for (index, value) in
        [0x8123_4000 | AF | USER | TABLE, AF | BLOCK, 0x5000 | TABLE, 0x6000 | AF | READ_ONLY | TABLE | 1 << 54]
            .into_iter()
            .enumerate()
    {
        write64(&mut memory, RAM + 0x2000 + 8 * index as u32, value);
    }
    // MAIR: attribute 0 is device memory.
    let regime = Regime { sctlr: 1, ttbr0: RAM, ttbcr: LONG | 0xf00, prrr: 0xffee_aa04, dacr: 0, ..Regime::default() };
    (memory, regime)
}

#[test]
fn long_descriptors_map_blocks_and_pages() {
    let (memory, r) = long();
    let at = |va, access| translate(&memory, &r, GuestVa(va), access).map(|mapping| (mapping.pa.0, mapping.size));
    assert_eq!(at(0x3456_7890, WRITE), Ok((0x7456_7890, PageSize::Block1G)));
    assert_eq!(at(0x401f_fffc, USER_READ), Ok((0x807f_fffc, PageSize::Block2M)));
    assert_eq!(at(0x4080_0123, USER_READ), Ok((0x8123_4123, PageSize::Small4K)));
    // What tables forbid is forbidden below them: here, user code all, and others writes.
    assert_eq!(at(0x4020_0123, READ), Ok((0x8123_4123, PageSize::Small4K)));
    let mapping = lookup(&memory, &r, GuestVa(0)).unwrap();
    assert!(mapping.global && mapping.device && !mapping.xn && mapping.domain == 0);

    let fault = |va, access| translate(&memory, &r, GuestVa(va), access).unwrap_err().ifsr();
    // Bit 9: the format. The status, with the level.
    assert_eq!(fault(0x4020_0123, USER_READ), 0x200 | 0b00_1111, "permission");
    assert_eq!(fault(0x4020_0123, WRITE), 0x200 | 0b00_1111);
    assert_eq!(fault(0, USER_READ), 0x200 | 0b00_1101);
    assert_eq!(fault(0x4080_3000, FETCH), 0x200 | 0b00_1111, "execute never");
    assert_eq!(fault(0x4080_3000, WRITE), 0x200 | 0b00_1111);
    assert_eq!(fault(0xc000_0000, READ), 0x200 | 0b00_0101, "translation");
    assert_eq!(fault(0x40a0_0000, READ), 0x200 | 0b00_0110);
    assert_eq!(fault(0x4080_1000, READ), 0x200 | 0b00_0111, "no blocks at the third level");
    assert_eq!(fault(0x4080_2000, READ), 0x200 | 0b00_1011, "access flag");
    assert_eq!(fault(0x4040_0000, READ), 0x200 | 0b01_0111, "a table above 4 GiB");
    assert_eq!(fault(0x4060_0000, READ), 0x200 | 0b01_0111, "a table outside of RAM");
    assert_eq!(fault(0x8000_0000, READ), 0x200 | 0b01_0000, "a block above 4 GiB");
    let alignment = Fault::without_descriptor(FaultKind::Alignment).under(&r);
    assert_eq!(alignment.fsr(true), 0x200 | 1 << 11 | 0b10_0001);

    assert_eq!(find_mapped(&memory, &r, GuestVa(0x4000_0000), 8, |pa| pa.0 >> 20 == 0x812), Some(GuestVa(0x4020_0000)));
    assert_eq!(find_mapped(&memory, &r, GuestVa(0x4000_0000), 8, |pa| pa.0 >> 20 == 0x999), None);
}

/// The ranges of TTBR0 and TTBR1, by T0SZ and T1SZ (B3.6.4, table B3-2 in other words).
#[test]
fn long_tables_divide_the_address_space() {
    let mut memory = Memory { ram: vec![(RAM, RAM_BYTES)], ..Memory::default() };
    // All entries of a page of tables are blocks, good at the first and at the second level.
    for (base, pa) in [(RAM, 0x4000_0000u64), (RAM + 0x1000, 0x8000_0000)] {
        (0..512).for_each(|n| write64(&mut memory, base + 8 * n, pa | AF | BLOCK));
    }
    for (t0, t1) in (0..8u32).flat_map(|t0| (0..8).map(move |t1| (t0, t1))) {
        let r = Regime { sctlr: 1, ttbr0: RAM, ttbr1: RAM + 0x1000, ttbcr: LONG | t0 | t1 << 16, ..Regime::default() };
        for va in (0..256u32).flat_map(|top| [top << 24, top << 24 | 0xff_ffff]) {
            let low = u64::from(va) < 1 << (32 - t0);
            let first_of_high = if t1 != 0 { (1u64 << 32) - (1 << (32 - t1)) } else { 1 << (32 - t0) };
            let high = u64::from(va) >= first_of_high;
            let expected = match (t0, t1, low, high) {
                (0, 0, ..) => Some(0x4),
                (0, _, _, true) => Some(0x8),
                (_, _, true, _) => Some(0x4),
                (_, _, false, true) => Some(0x8),
                _ => None,
            };
            let found = lookup(&memory, &r, GuestVa(va)).ok().map(|mapping| mapping.pa.0 >> 28 & 0xc);
            assert_eq!(found, expected, "{va:#x} with T0SZ {t0}, T1SZ {t1}");
        }
        let off = Regime { ttbcr: r.ttbcr | 1 << 7 | 1 << 23, ..r };
        assert_eq!(lookup(&memory, &off, GuestVa(0)).unwrap_err().kind, FaultKind::Translation);
    }
}

/// Any words at all end in an answer.
#[test]
fn no_long_tables_make_a_walk_panic() {
    let mut seed = 3u32;
    let mut random = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        seed.rotate_left(16)
    };
    let mut memory = Memory { ram: vec![(RAM, RAM_BYTES)], ..Memory::default() };
    for at in 0..2048 {
        let word = match random() % 3 {
            0 => random(),
            1 => RAM | random() & 0x3fff | 0b11,
            _ => RAM | random() & 0x1f_fffd | 1 << 10,
        };
        memory.write(RAM + 4 * at, if at % 2 == 1 && random() % 4 != 0 { 0 } else { word });
    }
    let mut mapped = 0;
    for _ in 0..100_000 {
        let regime = Regime {
            sctlr: 1 | random() & 1 << 25,
            ttbr0: if random() % 8 == 0 { random() } else { RAM | random() & 0x3fff },
            ttbr1: RAM | random() & 0x3fff,
            tops: [if random() % 8 == 0 { random() } else { 0 }, 0],
            ttbcr: LONG | random(),
            prrr: random(),
            nmrr: random(),
            ..Regime::default()
        };
        mapped += u32::from(lookup(&memory, &regime, GuestVa(random())).is_ok());
    }
    assert!(mapped > 500, "{mapped}");
}
