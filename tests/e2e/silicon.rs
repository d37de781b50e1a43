//! Nothing relies on what QEMU gives and a core need not: see `spica_tests::silicon`.

use spica_tests::Machine;
use spica_tests::silicon::check;

fn quiet(machine: Machine) {
    let found = check(machine).unwrap_or_else(|error| panic!("{error}\n{}", error.details.clone().unwrap_or_default()));
    println!("{}\n{}", found.figures(), found.explained.join("\n"));
    if let Err(wrong) = found.verdict() {
        panic!("{wrong}");
    }
}

#[test]
#[ignore = "a boot that follows each instruction, with another QEMU: minutes"]
fn cubieboard() {
    quiet(Machine::Cubieboard);
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
