//! Nothing relies on what QEMU gives and a core need not: see `spica_tests::silicon`.

use spica_runner::error::Result;
use spica_tests::Machine;
use spica_tests::exact::MACHINES;
use spica_tests::silicon::{BLOCKS, Found, GUESTS, OURS_IN_PLACE, check, check_guest};

fn quiet(machine: Machine) {
    verdict(check(machine, ""));
}

#[track_caller]
fn verdict(found: Result<Found>) {
    let found = found.unwrap_or_else(|error| panic!("{error}\n{}", error.details.clone().unwrap_or_default()));
    println!("{}\n{}", found.figures(), found.explained.join("\n"));
    if let Err(wrong) = found.verdict() {
        panic!("{wrong}");
    }
}

/// The guest that is told of the most when maintenance is left out of Spica (docs/silicon.md).
#[test]
fn a_guest_on_a_cortex_a8() {
    verdict(check_guest(Machine::Cubieboard, "attributes", ""));
}

#[test]
fn a_guest_in_place() {
    verdict(check_guest(Machine::Cubieboard, "code", OURS_IN_PLACE));
}

#[test]
#[ignore = "all guests in place on both boards, with another QEMU: four minutes"]
fn guests_in_place() {
    for (machine, guest) in MACHINES.iter().flat_map(|machine| GUESTS.iter().map(|guest| (*machine, *guest))) {
        println!("{machine:?}, {guest}");
        verdict(check_guest(machine, guest, OURS_IN_PLACE));
    }
}

#[test]
fn a_guest_on_a_cortex_a9() {
    verdict(check_guest(Machine::VexpressA9, "attributes", ""));
}

#[test]
#[ignore = "a boot that follows each instruction, with another QEMU: minutes"]
fn cubieboard() {
    quiet(Machine::Cubieboard);
}

#[test]
#[ignore = "a boot that follows each instruction, with another QEMU: minutes"]
fn cubieboard_by_blocks() {
    verdict(check(Machine::Cubieboard, BLOCKS));
}

#[test]
#[ignore = "a boot that follows each instruction, with another QEMU: minutes"]
fn vexpress_a9_by_blocks() {
    verdict(check(Machine::VexpressA9, BLOCKS));
}

#[test]
#[ignore = "a boot that follows each instruction, with another QEMU: minutes"]
fn cubieboard_without_spica() {
    quiet(Machine::CubieboardNative);
}

#[test]
#[ignore = "a boot that follows each instruction, with another QEMU: minutes"]
fn vexpress_a9() {
    quiet(Machine::VexpressA9);
}

#[test]
#[ignore = "a boot that follows each instruction, with another QEMU: minutes"]
fn vexpress_a9_without_spica() {
    quiet(Machine::VexpressA9Native);
}
