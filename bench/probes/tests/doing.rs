//! Each probe does what its name says.

use std::collections::BTreeSet;

use spica_probes::{Kind, PAGE, PROBES, find};

use crate::machine::{CODE, DATA, Machine, Watch};

/// All that was done.
#[derive(Default)]
struct Done {
    executed: Vec<(u32, u32)>,
    loads: Vec<u32>,
    stores: Vec<u32>,
}

impl Watch for Done {
    fn executes(&mut self, address: u32, word: u32) {
        self.executed.push((address, word));
    }

    fn accesses(&mut self, address: u32, store: bool) {
        // Not the stack.
        if (DATA..DATA + (16 << 20)).contains(&address) {
            let list = if store { &mut self.stores } else { &mut self.loads };
            list.push(address - DATA);
        }
    }
}

fn done(kind: Kind, rounds: u32) -> Done {
    let mut done = Done::default();
    Machine::new(kind).call(rounds, &mut done);
    done
}

impl Done {
    /// How often instructions of a word, under a mask, were executed, and how often the next one was elsewhere.
    fn branches(&self, mask: u32, word: u32) -> (usize, usize) {
        let pairs = self.executed.windows(2).filter(|p| p[0].1 & mask == word);
        let (all, taken): (Vec<_>, Vec<_>) =
            (pairs.clone().collect(), pairs.filter(|p| p[1].0 != p[0].0 + 4).collect());
        (all.len(), taken.len())
    }
}

#[test]
fn names_are_distinct_and_found() {
    let names: BTreeSet<_> = PROBES.iter().map(|p| p.name).collect();
    assert_eq!(names.len(), PROBES.len());
    assert!(PROBES.iter().all(|p| find(p.name) == Some(p)));
    assert_eq!(find("probe-load-64"), None);
}

#[test]
fn a_chase_comes_by_each_place_once_before_it_comes_by_one_again() {
    for (probe, kind) in PROBES.iter().map(|p| (p.name, p.kind)) {
        let (places, stride, shuffled) = match kind {
            // The largest take as long as all others together.
            Kind::Chase { bytes, stride, shuffled } if bytes <= 1 << 20 => (bytes / stride, stride, shuffled),
            Kind::Pages { count } => (count, PAGE, false),
            _ => continue,
        };
        let loads = done(kind, places / 64 * 2 + 2).loads;
        let (first, second) = loads.split_at(places as usize);
        let set: BTreeSet<_> = first.iter().copied().collect();
        assert_eq!(set.len(), places as usize, "{probe}");
        assert!(second.iter().zip(first).all(|(now, then)| now == then), "{probe}: another way the second time");
        match kind {
            Kind::Pages { .. } => assert!((0..places).zip(&set).all(|(n, at)| at / PAGE == n), "{probe}"),
            _ => assert!((0..places).zip(&set).all(|(n, at)| *at == n * stride), "{probe}"),
        }
        // In order, or not: a random order steps forward by one place about once.
        let steps = first.windows(2).filter(|p| p[1] == p[0] + stride).count();
        assert!(if shuffled { steps < 12 } else { steps > 0 || stride == PAGE }, "{probe}: {steps}");
    }
}

#[test]
fn pages_have_lines_of_their_own_in_the_caches() {
    // 8 KiB a way, lines of 64 bytes: 128 sets of four ways hold all.
    let loads = done(find("probe-pages-512").unwrap().kind, 8).loads;
    let mut sets = [0; 128];
    loads.iter().for_each(|at| sets[(at / 64 % 128) as usize] += 1);
    assert_eq!(sets, [4; 128]);
}

#[test]
fn stores_come_by_each_line() {
    let kind = find("probe-store-16k").unwrap().kind;
    let stores = done(kind, 2).stores;
    assert!(stores.iter().enumerate().all(|(n, at)| *at == n as u32 % 256 * 64) && stores.len() == 512);
}

#[test]
fn operations_are_as_many_as_are_said() {
    for (probe, kind) in PROBES.iter().map(|p| (p.name, p.kind)) {
        let rounds = match kind {
            Kind::Chase { .. } | Kind::Pages { .. } => 1,
            _ => 3,
        };
        let done = done(kind, rounds);
        let count = |mask: u32, word: u32| done.branches(mask, word).0;
        let operations = match kind {
            Kind::Chase { .. } | Kind::Pages { .. } => done.loads.len(),
            Kind::Stores { .. } => done.stores.len(),
            Kind::Instruction { word } => count(u32::MAX, word),
            // All but the loop's.
            Kind::Taken { .. } => count(0xff00_0000, 0xea00_0000),
            Kind::NotTaken => count(0xff00_0000, 0x0a00_0000),
            Kind::Pattern { .. } | Kind::Random => count(0xff00_0000, 0x2a00_0000),
            Kind::Indirect { .. } => count(u32::MAX, 0xe12f_ff12),
            Kind::Calls { .. } => count(0xff00_0000, 0xeb00_0000),
            Kind::SystemCall => count(u32::MAX, 0xef00_0000),
        };
        assert_eq!(operations as u32, rounds * kind.in_round(), "{probe}");
        assert!(kind.rounds() > 0 && kind.warming() > 0 && !kind.unit().is_empty(), "{probe}");
    }
}

#[test]
fn branches_go_where_their_names_say() {
    for (probe, kind) in PROBES.iter().map(|p| (p.name, p.kind)) {
        if kind.unit() == "store" {
            continue; // It goes through megabytes in a round.
        }
        let done = done(kind, 320);
        match kind {
            Kind::Taken { count, spacing } => {
                let places: BTreeSet<_> =
                    done.executed.iter().filter(|(_, word)| word >> 24 == 0xea).map(|(at, _)| *at).collect();
                assert_eq!(places.len(), count as usize, "{probe}");
                let places: Vec<_> = places.into_iter().collect();
                assert!(places.windows(2).all(|p| p[1] - p[0] == spacing), "{probe}");
                let (all, taken) = done.branches(0xff00_0000, 0xea00_0000);
                assert_eq!(all, taken, "{probe}");
            }
            Kind::NotTaken => assert_eq!(done.branches(0xff00_0000, 0x0a00_0000).1, 0),
            Kind::Pattern { bits } => {
                let (all, taken) = done.branches(0xff00_0000, 0x2a00_0000);
                assert_eq!(taken, all / 32 * bits.count_ones() as usize, "{probe}");
            }
            Kind::Random => {
                let taken = done.branches(0xff00_0000, 0x2a00_0000).1;
                assert!((120..200).contains(&taken), "{taken} of 320");
            }
            Kind::Indirect { targets } => {
                let went: Vec<_> =
                    done.executed.windows(2).filter(|p| p[0].1 == 0xe12f_ff12).map(|p| (p[1].0 - CODE) / 16).collect();
                assert!(went.iter().zip(0..).all(|(went, n)| went - 2 == n % targets), "{probe}: {went:?}");
            }
            _ => {}
        }
    }
}

#[test]
fn calls_are_as_deep_as_their_names_say() {
    for (probe, kind) in PROBES.iter().map(|p| (p.name, p.kind)) {
        let Kind::Calls { depth } = kind else { continue };
        let (mut now, mut most) = (0, 0);
        for (_, word) in done(kind, 2).executed {
            match word {
                0xeb00_0000..0xec00_0000 => now += 1,
                0xe49d_f004 | 0xe12f_ff1e => now -= 1,
                _ => {}
            }
            most = most.max(now);
        }
        assert_eq!((now, most), (0, depth as i32), "{probe}");
    }
}
