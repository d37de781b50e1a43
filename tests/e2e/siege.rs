//! Attacks on what Spica does in one go: see `spica_tests::siege`.

use std::sync::OnceLock;

use spica_tests::Machine;
use spica_tests::hostile::Got;
use spica_tests::siege::{SIEGES, calm, goes_on_alone, hold};

fn siege(machine: Machine, name: &str, calm: &'static OnceLock<Got>) {
    let siege = SIEGES.iter().find(|(attack, ..)| attack.name == name).expect("a siege");
    let calm = calm.get_or_init(|| self::calm(machine));
    let got = hold(machine, siege, calm);
    println!("{name}: {} rounds of {}, {:?} us late", got.rounds, calm.rounds, got.late);
}

macro_rules! sieges {
    ($($module:ident: $machine:ident $(, #[$slow:meta])?;)*) => { $(
        mod $module {
            use super::*;
            static CALM: OnceLock<Got> = OnceLock::new();
            // The port and the reset are the board's; what the translator and the MMU do is the same on both.
            sieges! { @tests $machine;
                console: "console output";
                balloon: "resets with a full balloon";
            }

            #[test]
            fn console_alone() {
                goes_on_alone(Machine::$machine);
            }

            sieges! { @tests $machine $(, #[$slow])?;
                operands: "TLB maintenance with junk in its operands";
                selves: "pages that write to themselves";
                exits: "exits linked to one block";
                code_pages: "TLB maintenance with many pages of code";
                control: "system control with many blocks";
                region_nowhere: "tables to nowhere in the hypervisor region";
                region_empty: "empty tables in the hypervisor region";
                region_pages: "pages that are nowhere in the hypervisor region";
                region_sections: "sections that are nowhere in the hypervisor region";
            }
        }
    )* };
    (@tests $machine:ident; $($test:ident: $name:literal;)*) => { $(
        #[test]
        fn $test() {
            siege(Machine::$machine, $name, &CALM);
        }
    )* };
    (@tests $machine:ident, #[$slow:meta]; $($test:ident: $name:literal;)*) => { $(
        #[test]
        #[$slow]
        fn $test() {
            siege(Machine::$machine, $name, &CALM);
        }
    )* };
}

sieges! {
    cubieboard: Cubieboard;
    vexpress_a9: VexpressA9, #[ignore = "sieges of what is the same on the other board: a minute for all of them"];
}
