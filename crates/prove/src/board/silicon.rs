//! What QEMU forgives and a core may not: see `spica_tests::silicon`. A case is a board with a bare-metal guest, or
//! with Debian, under Spica or without.

use spica_runner::error::Result as Checked;
use spica_tests::Machine;
use spica_tests::exact::MACHINES;
use spica_tests::silicon::{BLOCKS, Found, GUESTS, OURS_IN_PLACE, check, check_guest, check_several};
use std::time::Duration;

use crate::board::machine;
use crate::part::{Failure, Part};
use crate::work::{Limit, Work};

/// Debian's boots, how they are called, and the words on Spica's command line. Linux without Spica comes first: it is
/// the oracle.
const CASES: [(&str, Machine, &str); 6] = [
    ("cubieboard-native", Machine::CubieboardNative, ""),
    ("cubieboard", Machine::Cubieboard, ""),
    ("cubieboard-blocks", Machine::Cubieboard, BLOCKS),
    ("vexpress-a9-native", Machine::VexpressA9Native, ""),
    ("vexpress-a9", Machine::VexpressA9, ""),
    ("vexpress-a9-blocks", Machine::VexpressA9, BLOCKS),
];

/// Several guests at once, under Spica: small ones alone, and with a Debian among them.
const SEVERAL: [(&str, Machine, bool); 4] = [
    ("cubieboard-several", Machine::Cubieboard, false),
    ("vexpress-a9-several", Machine::VexpressA9, false),
    ("cubieboard-several-debian", Machine::Cubieboard, true),
    ("vexpress-a9-several-debian", Machine::VexpressA9, true),
];

/// What a boot of Debian takes at least.
const LEAST: Duration = Duration::from_secs(240);

/// See the module's text.
pub struct Silicon;

impl Part for Silicon {
    fn name(&self) -> &str {
        "silicon"
    }

    fn about(&self) -> &str {
        "caches, TLBs, barriers: boots under a checker of what a real core need not give; Linux alone is quiet"
    }

    fn weight(&self) -> u32 {
        4
    }

    fn on_board(&self) -> bool {
        true
    }

    fn must_see(&self) -> Vec<String> {
        let names = CASES.iter().map(|(name, ..)| name).chain(SEVERAL.iter().map(|(name, ..)| name));
        names.map(|name| (*name).to_string()).collect()
    }

    fn run(&self, work: &Work) -> Result<(), Failure> {
        for (machine, guest) in MACHINES.iter().flat_map(|machine| GUESTS.iter().map(move |guest| (*machine, *guest))) {
            if work.is_over() {
                return Ok(());
            }
            let name = format!("{}/{guest}", machine.board());
            verdict(&name, work, || check_guest(machine, guest, ""))?;
            let name = format!("{name}/in-place");
            verdict(&name, work, || check_guest(machine, guest, OURS_IN_PLACE))?;
            work.count(2);
        }
        for (name, machine, debian) in SEVERAL {
            let enough = !debian || matches!(work.limit(), Limit::Cases(_)) || work.left() >= LEAST;
            if work.is_over() || !enough {
                return Ok(());
            }
            verdict(name, work, || check_several(machine, debian))?;
            work.note(name, 1);
            work.count(1);
        }
        for (name, machine, words) in CASES {
            let enough = matches!(work.limit(), Limit::Cases(_)) || work.left() >= LEAST;
            if work.is_over() || !enough {
                return Ok(());
            }
            verdict(name, work, || check(machine, words))?;
            work.note(name, 1);
            work.count(1);
        }
        Ok(())
    }

    fn repeat(&self, case: &str, work: &Work) -> Result<(), Failure> {
        if let Some((name, machine, words)) = CASES.into_iter().find(|(name, ..)| *name == case) {
            return verdict(name, work, || check(machine, words));
        }
        if let Some((name, machine, debian)) = SEVERAL.into_iter().find(|(name, ..)| *name == case) {
            return verdict(name, work, || check_several(machine, debian));
        }
        let of_guest = case.split_once('/').and_then(|(board, guest)| Some((machine(board)?, guest)));
        let engine = |guest: &'_ str| match guest.split_once('/') {
            Some((name, "in-place")) => (name.to_string(), OURS_IN_PLACE),
            _ => (guest.to_string(), ""),
        };
        let of_guest = of_guest.map(|(machine, guest)| (machine, engine(guest)));
        match of_guest.filter(|(_, (guest, _))| GUESTS.contains(&guest.as_str())) {
            Some((machine, (guest, words))) => verdict(case, work, || check_guest(machine, &guest, words)),
            None => {
                let several = SEVERAL.iter().map(|(name, ..)| *name);
                let names: Vec<_> = CASES.iter().map(|(name, ..)| *name).chain(several).collect();
                Err(Failure::trouble(format!(
                    "{case:?} is no case: expected one of {}, BOARD/GUEST or BOARD/GUEST/in-place with a guest of {}",
                    names.join(", "),
                    GUESTS.join(", ")
                )))
            }
        }
    }
}

/// Runs a case, and says what came of it.
fn verdict(name: &str, work: &Work, check: impl FnOnce() -> Checked<Found>) -> Result<(), Failure> {
    work.say(name);
    let found = check()
        .map_err(|error| Failure::trouble(format!("{error}\n{}", error.details.as_deref().unwrap_or_default())))?;
    println!("prove: silicon: {name}: {}", found.figures());
    found.explained.iter().for_each(|line| println!("prove: silicon: {name}: explained: {line}"));
    found.verdict().map_err(|wrong| Failure::of(name, wrong))
}
