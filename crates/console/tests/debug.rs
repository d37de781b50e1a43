//! What a debugger asks.

use spica_console::command::{Command, parse};
use spica_console::debug::{Debug, Group, READ_BYTES, Space, WRITE_BYTES};

fn debug(line: &str) -> Result<Debug, String> {
    match parse(&format!("debug web {line}"))? {
        Command::Debug(guest, debug) if guest == "web" => Ok(debug),
        other => panic!("{other:?}"),
    }
}

#[test]
fn questions_are_understood() {
    let questions = [
        ("attach", Debug::Attach),
        ("detach", Debug::Detach),
        ("halt", Debug::Halt),
        ("go", Debug::Go),
        ("step", Debug::Step),
        ("wait", Debug::Wait),
        ("regs banked", Debug::Registers(Group::Banked)),
        ("set core f c0008000", Debug::Set(Group::Core, 15, 0xc000_8000)),
        ("read va ffff0000 100", Debug::Read(Space::Virtual, 0xffff_0000, READ_BYTES)),
        ("write pa 40000000 00fF", Debug::Write(Space::Physical, 0x4000_0000, vec![0, 0xff])),
        ("break c0008000", Debug::Break(0xc000_8000)),
        ("clear 0", Debug::Clear(0)),
    ];
    for (line, question) in questions {
        assert_eq!(debug(line), Ok(question), "{line}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let long = format!("write va 0 {}", "00".repeat(WRITE_BYTES + 1));
    let wrong = [
        "",
        "dance",
        "halt now",
        "regs",
        "regs all",
        "set core",
        "set core 0",
        "set core 0 100000000",
        "set core +1 0",
        "read 0 1",
        "read va 0",
        "read va 0 0",
        "read va 0 101",
        "read va -1 1",
        "write va 0",
        "write va 0 0",
        "write va 0 0g",
        "write va 0 é",
        &long,
        "break",
        "break main",
        "clear 0 0",
    ];
    for line in wrong {
        assert!(debug(line).is_err(), "{line}");
    }
    assert!(parse("debug").is_err());
}

#[test]
fn groups_have_names() {
    for group in [Group::Core, Group::Banked, Group::System, Group::Vfp] {
        assert_eq!(debug(&format!("regs {}", group.name())), Ok(Debug::Registers(group)));
    }
}
