//! The walker against the model, over random tables and registers.

use super::model::{self, KINDS, Memory};
use crate::part::{Failure, Part};
use crate::random::Random;
use crate::work::{Work, attempt, verdict};
use spica_addr::{GuestPa, GuestVa};
use spica_mmu::{Access, AccessKind, Fault, Permission, Regime, find_mapped, lookup, translate};
use std::collections::BTreeMap;

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
        tops: [0; 2],
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

/// A guest's memory full of descriptors, and accesses under any registers: what the walker finds is what the model
/// finds.
fn walks(random: &mut Random, work: &Work) {
    let mut outcomes = BTreeMap::new();
    {
        let mut memory = Memory { ram: vec![(RAM, RAM_BYTES)], ..Memory::default() };
        // Descriptors of every kind all over RAM, so that any base finds some; second-level ones are as good as random.
        for _ in 0..40_000 {
            let word = if random.one_in(2) { first_level(random) } else { random.word() };
            let word = if random.one_in(10) { word.swap_bytes() } else { word };
            memory.write(RAM + random.below(RAM_BYTES) / 4 * 4, word);
        }
        for _ in 0..2_000 {
            let r = regime(random);
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
                    memory.write(at, first_level(random));
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
                    *outcomes.entry(outcome).or_insert(0u64) += 1;
                }
            }
        }
    }
    for (outcome, count) in outcomes {
        work.note(&outcome, count);
    }
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

/// What the quick search for mapped megabytes finds is what a slow loop finds.
fn searches(random: &mut Random, work: &Work) {
    let (mut found, mut nothing, mut quick) = (0, 0, 0);
    for round in 0..100 {
        let mut memory = Memory { ram: vec![(RAM, RAM_BYTES)], by_word_only: round % 3 == 0, ..Memory::default() };
        let r = Regime { sctlr: regime(random).sctlr | 1, ..regime(random) };
        let count = 1 + random.below(40);
        // In the part of the address space in which the hypervisor lives; up to the end of the address space and around
        // it; or across the border of the parts, either of which may be off.
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
                let word = first_level(random);
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
    for (what, times) in [("something mapped", found), ("nothing mapped", nothing), ("nothing there", quick)] {
        work.note(what, times);
    }
}

fn run(seed: u64, work: &Work) {
    let mut random = Random::new(seed);
    walks(&mut random, work);
    searches(&mut random, work);
}

/// The walk.
pub struct Walk;

impl Part for Walk {
    fn name(&self) -> &str {
        "mmu-walk"
    }

    fn about(&self) -> &str {
        "the walk of random guest tables, and its faults, against a slow model of the manual's B3.5"
    }

    fn must_see(&self) -> Vec<String> {
        let sizes = ["Small4K", "Large64K", "Section1M", "Super16M"].map(String::from);
        let kinds = ["Translation", "AccessFlag", "Domain", "Permission", "ExternalOnWalk"];
        let faults = kinds.iter().flat_map(|kind| [true, false].map(|first| format!("{kind} {first}")));
        let searches = ["something mapped", "nothing mapped", "nothing there"].map(String::from);
        sizes.into_iter().chain(faults).chain(searches).collect()
    }

    fn run(&self, work: &Work) -> Result<(), Failure> {
        let ran = work.cases(work.numbers(), 1, || (), |(), seed| run(seed, work));
        ran.map(drop).map_err(|(seed, message)| Failure::of(format!("{seed}"), message))
    }

    fn repeat(&self, case: &str, work: &Work) -> Result<(), Failure> {
        let seed = case.parse().map_err(|_| Failure::trouble("a case is a number"))?;
        verdict(case, attempt(|| run(seed, work)))
    }
}
