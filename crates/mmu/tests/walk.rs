//! The walker against the model, over random tables and registers, and the fault registers against the manual's table.

mod model;

use model::{KINDS, Memory, Random};
use spica_addr::{GuestPa, GuestVa};
use spica_mmu::{Access, AccessKind, Fault, FaultKind, Permission, Regime, find_mapped, lookup, translate};

const RAM: u32 = 0x4000_0000;
const RAM_BYTES: u32 = 0x20_0000;

/// A table address: mostly in RAM, now and then anywhere.
fn base(random: &mut Random) -> u32 {
    if random.one_in(30) { random.word() } else { RAM + random.below(RAM_BYTES) }
}

fn first_level(random: &mut Random) -> u32 {
    let noise = random.word();
    match random.below(8) {
        0 => noise,
        1..=4 => base(random) & !0x3ff | noise & 0x3fc | 0b01,
        5 => noise & !0b11 | 0b11,
        6 => noise & !0b11 | 1 << 18 | 0b10,
        _ => noise & !(1 << 18 | 0b11) | 0b10,
    }
}

fn regime(random: &mut Random) -> Regime {
    Regime {
        // M, EE, TRE, AFE at random; M mostly on, EE mostly off.
        sctlr: random.word() & (1 << 28 | 1 << 29) | u32::from(!random.one_in(20)) | u32::from(random.one_in(10)) << 25,
        ttbr0: base(random),
        ttbr1: base(random),
        ttbcr: if random.one_in(3) {
            0
        } else {
            random.below(8) | u32::from(random.one_in(10)) << 4 | u32::from(random.one_in(10)) << 5
        },
        dacr: random.word() | if random.one_in(2) { 0x5555_5555 } else { 0 },
        prrr: random.word(),
        nmrr: random.word(),
        asid: random.word() as u8,
        pxn: random.one_in(2),
    }
}

fn permission(rights: (bool, bool)) -> Permission {
    match rights {
        (false, _) => Permission::None,
        (true, false) => Permission::ReadOnly,
        (true, true) => Permission::ReadWrite,
    }
}

fn same_fault(fault: &Fault, model: &model::ModelFault, write: bool) {
    assert_eq!(fault.kind, model.kind);
    assert_eq!(fault.section_level, model.level == 1);
    assert_eq!(fault.domain_valid().then_some(u32::from(fault.domain)), model.domain);
    assert_eq!(fault.fsr(write), model::dfsr(model, write));
    assert_eq!(fault.ifsr(), model::dfsr(model, false) & !0xf0);
}

#[test]
fn walker_agrees_with_the_model_on_random_tables() {
    let mut random = Random(0x5eed);
    let mut outcomes = std::collections::BTreeMap::new();
    for _ in 0..60 {
        let mut memory = Memory { ram: vec![(RAM, RAM_BYTES)], ..Memory::default() };
        // Descriptors of every kind all over RAM, so that any base finds some; second-level ones are as good as random.
        for _ in 0..40_000 {
            let word = if random.one_in(2) { first_level(&mut random) } else { random.word() };
            let word = if random.one_in(10) { word.swap_bytes() } else { word };
            memory.write(RAM + random.below(RAM_BYTES) / 4 * 4, word);
        }
        for _ in 0..2_000 {
            let r = regime(&mut random);
            let va = random.word() >> random.pick(&[0, 0, 1, 4, 7]);
            // Make sure that something is there most of the time.
            if !random.one_in(4) && r.sctlr & 1 != 0 {
                let n = r.ttbcr & 7;
                let table0 = n == 0 || va >> (32 - n) == 0;
                let at = if table0 {
                    r.ttbr0 >> (14 - n) << (14 - n) | va >> 20 << 2
                } else {
                    r.ttbr1 & !0x3fff | va >> 20 << 2
                };
                if memory.is_ram(at) {
                    memory.write(at, first_level(&mut random));
                }
            }
            let context = format!("{va:#x} under {r:x?}");
            match (lookup(&memory, &r, GuestVa(va)), model::walk(&memory, &r, va)) {
                (Ok(mapping), Ok(entry)) => {
                    let afe = r.sctlr >> 29 & 1 != 0;
                    assert_eq!(mapping.pa, GuestPa(entry.pa), "{context}");
                    assert_eq!(mapping.size, entry.size, "{context}");
                    assert_eq!(u32::from(mapping.domain), entry.domain, "{context}");
                    assert_eq!(mapping.global, !entry.ng, "{context}");
                    assert_eq!((mapping.xn, mapping.pxn), (entry.xn, entry.pxn), "{context}");
                    assert_eq!(mapping.device, entry.device(&r), "{context}");
                    if !entry.flat {
                        assert_eq!(mapping.user, permission(entry.rights(afe, false)), "{context}");
                        assert_eq!(mapping.kernel, permission(entry.rights(afe, true)), "{context}");
                        assert_eq!(mapping.accessed, !afe || entry.ap & 1 == 1, "{context}");
                    }
                }
                (Err(fault), Err(expected)) => same_fault(&fault, &expected, false),
                (ours, models) => panic!("{context}: {ours:?}, but the model says {models:?}"),
            }
            for kind in KINDS {
                for privileged in [false, true] {
                    let write = kind == AccessKind::Write;
                    let ours = translate(&memory, &r, GuestVa(va), Access { kind, privileged });
                    let outcome = match (&ours, model::translate(&memory, &r, va, kind, privileged)) {
                        (Ok(mapping), Ok(entry)) => {
                            assert_eq!(mapping.pa.0, entry.pa, "{context}");
                            format!("{:?}", mapping.size)
                        }
                        (Err(fault), Err(expected)) => {
                            same_fault(fault, &expected, write);
                            format!("{:?} {}", fault.kind, fault.section_level)
                        }
                        (ours, models) => {
                            panic!(
                                "{kind:?} privileged={privileged} {context}: {ours:?}, but the model says {models:?}"
                            )
                        }
                    };
                    *outcomes.entry(outcome).or_insert(0u32) += 1;
                }
            }
        }
    }
    // The generator must have reached everything: four sizes, and five kinds of fault at two levels.
    println!("{outcomes:?}");
    assert_eq!(outcomes.len(), 4 + 5 * 2, "{outcomes:?}");
    assert!(outcomes.values().all(|&count| count > 100), "{outcomes:?}");
}

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

/// [`find_mapped`], page by page.
fn find_slowly(memory: &Memory, r: &Regime, va: u32, count: u32, counts: impl Fn(u32) -> bool) -> Option<u32> {
    (0..count).map(|n| va.wrapping_add(n << 20)).find(|&megabyte| {
        let walk = |page: u32| model::walk(memory, r, megabyte & 0xfff0_0000 | page << 12);
        // Where the first level faults, it does for all pages.
        let pages = if walk(0).is_err_and(|fault| fault.level == 1) { 0 } else { 256 };
        (0..pages).any(|page| walk(page).is_ok_and(|entry| counts(entry.pa)))
    })
}

#[test]
fn find_mapped_finds_what_a_slow_loop_finds() {
    let mut random = Random(0xf1d);
    let (mut found, mut nothing, mut quick) = (0, 0, 0);
    for round in 0..3000 {
        let mut memory = Memory { ram: vec![(RAM, RAM_BYTES)], by_word_only: round % 3 == 0, ..Memory::default() };
        let r = Regime { sctlr: regime(&mut random).sctlr | 1, ..regime(&mut random) };
        let count = 1 + random.below(40);
        // In the part of the address space in which the hypervisor lives; up to the end of the address space and around it;
        // or across the border of the parts, either of which may be off.
        let first = match random.below(8) {
            0 => 4096 - random.below(count + 1),
            1 | 2 => (4096u32 >> (r.ttbcr & 7)).saturating_sub(random.below(count)),
            _ => 0xf00 + random.below(200),
        };
        let va = (first << 20).wrapping_add(random.below(2) * (random.word() & 0xf_f000));
        let entries = random.pick(&[0, 0, 1, 3, 10]);
        for _ in 0..entries {
            // Around the range as well, in the table that it is in.
            let mb = (va >> 20).wrapping_add(random.below(count + 2)).wrapping_sub(1) & 0xfff;
            let n = r.ttbcr & 7;
            let lower = n == 0 || mb >> (12 - n) == 0;
            let base = if lower { r.ttbr0 >> (14 - n) << (14 - n) } else { r.ttbr1 & !0x3fff };
            if memory.is_ram(base + 4 * mb) {
                let word = first_level(&mut random);
                memory.write(base + 4 * mb, if r.sctlr >> 25 & 1 != 0 { word.swap_bytes() } else { word });
                // Something in a second-level table, now and then.
                if word & 3 == 1 && memory.is_ram(word & !0x3ff) && random.one_in(2) {
                    memory.write((word & !0x3ff) + 4 * random.below(256), random.word());
                }
            }
        }
        let bits = random.pick(&[0, 1 << 20, 1 << 31]);
        let counts = |pa: u32| pa & bits == bits;
        let expected = find_slowly(&memory, &r, va, count, counts);
        assert_eq!(
            find_mapped(&memory, &r, GuestVa(va), count, |pa| counts(pa.0)),
            expected.map(GuestVa),
            "{count} megabytes from {va:#x} under {r:x?}"
        );
        if expected.is_some() {
            found += 1;
        } else if entries == 0 {
            quick += 1;
        } else {
            nothing += 1;
        }
    }
    assert!(found > 300 && nothing > 300 && quick > 300, "{found} found, {nothing} not, {quick} quick");
}
