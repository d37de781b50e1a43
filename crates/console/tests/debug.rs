//! What a debugger asks.

use spica_console::base64::{decode, encode};
use spica_console::command::{Command, parse};
use spica_console::debug::{
    DUMP_BYTES, Debug, Edges, FIND_BYTES, Group, Heap, Hook, Place, READ_BYTES, Sharing, Space, WRITE_BYTES, Watch,
    find,
};

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
        ("clock stands", Debug::Clock { runs: false }),
        ("clock runs", Debug::Clock { runs: true }),
        ("wait", Debug::Wait),
        ("regs banked", Debug::Registers(Group::Banked)),
        ("set core f c0008000", Debug::Set(Group::Core, 15, 0xc000_8000)),
        ("read va ffff0000 100", Debug::Read(Space::Virtual, 0xffff_0000, READ_BYTES)),
        ("write pa 40000000 00fF", Debug::Write(Space::Physical, 0x4000_0000, vec![0, 0xff])),
        ("break c0008000", Debug::Break(0xc000_8000, None)),
        ("break ffff0008 7 c", Debug::Break(0xffff_0008, Some((7, 12)))),
        ("clear 0", Debug::Clear(0)),
        ("base 1", Debug::Base(1)),
        ("pages 40000000", Debug::Pages(0x4000_0000, None)),
        ("pages 1000 1", Debug::Pages(0x1000, Some(1))),
        ("sums 0 f", Debug::Sums(0, Some(15))),
        ("put 1000 0123456789abcdef AAAA 2", Debug::Put(0x1000, 0x0123_4567_89ab_cdef, vec![0; 3], Some(2))),
        ("blank 1000 2000", Debug::Blank(0x1000, 0x2000, None)),
        ("blank 1000 2000 0", Debug::Blank(0x1000, 0x2000, Some(0))),
        ("catch ttbr", Debug::CatchTtbr(None)),
        ("catch ttbr 4000406a", Debug::CatchTtbr(Some(0x4000_406a))),
        ("uncatch ttbr", Debug::UncatchTtbr),
        ("count", Debug::Count(None)),
        ("count 1388", Debug::Count(Some((5000, None)))),
        ("count 4e20 bf000000 c0e00000", Debug::Count(Some((20_000, Some(0xbf00_0000..0xc0e0_0000))))),
        ("samples", Debug::Samples),
        (
            "heap begin c0000000 10 c15ddc40 24 bf000000 c0e00000",
            Debug::Heap(Heap::Begin {
                base: 0xc000_0000,
                object_size: 16,
                pages: (0xc15d_dc40, 36),
                code: (0xbf00_0000, 0xc0e0_0000),
            }),
        ),
        ("heap hook c05aee64 return 9", Debug::Heap(Heap::Hook(0xc05a_ee64, Hook::Return(9)))),
        ("heap skip c05a9a4c c05b247c", Debug::Heap(Heap::Skip(0xc05a_9a4c, 0xc05b_247c))),
        ("heap on", Debug::Heap(Heap::On)),
        ("heap off", Debug::Heap(Heap::Off)),
        ("heap errors", Debug::Heap(Heap::Errors)),
        ("sharing begin c0000000", Debug::Sharing(Sharing::Begin(0xc000_0000))),
        ("sharing at c0101234 return 4", Debug::Sharing(Sharing::At(0xc010_1234, Place::Return(4)))),
        ("sharing on", Debug::Sharing(Sharing::On)),
        ("sharing off", Debug::Sharing(Sharing::Off)),
        ("sharing contexts", Debug::Sharing(Sharing::Contexts)),
        ("sharing lines", Debug::Sharing(Sharing::Lines)),
        ("edges begin c0000000", Debug::Edges(Edges::Begin(0xc000_0000))),
        ("edges at c0101234 named", Debug::Edges(Edges::At(0xc010_1234, Place::Named))),
        ("edges skip c03000ac c03012fc", Debug::Edges(Edges::Skip(0xc030_00ac, 0xc030_12fc))),
        ("edges only 7368", Debug::Edges(Edges::Only(*b"sh\0\0\0\0\0\0\0\0\0\0\0\0\0\0"))),
        ("edges only 303132333435363738393a3b3c3d3e", Debug::Edges(Edges::Only(*b"0123456789:;<=>\0"))),
        ("edges on", Debug::Edges(Edges::On)),
        ("edges names 570", Debug::Edges(Edges::Names(0x570))),
        ("edges off", Debug::Edges(Edges::Off)),
        ("edges maps", Debug::Edges(Edges::Maps)),
        ("edges map 1f", Debug::Edges(Edges::Map(31))),
        ("watch w c0008000 4", Debug::Watch(Watch::Write, 0xc000_8000, 4)),
        ("watch a 0 1000", Debug::Watch(Watch::Access, 0, 4096)),
        ("unwatch r ffffffff 1", Debug::Unwatch(Watch::Read, u32::MAX, 1)),
        ("dump 40000000 10000", Debug::Dump(0x4000_0000, DUMP_BYTES)),
        ("find 40000000 400000 3000310032003300", Debug::Find(0x4000_0000, FIND_BYTES, b"0\x001\x002\x003\0".to_vec())),
    ];
    for (line, question) in questions {
        assert_eq!(debug(line), Ok(question), "{line}");
    }
}

#[test]
fn hooks_are_written_as_they_are_read() {
    use Hook::*;
    let all =
        [Allocate, AllocateSize, AllocateMany, Size, Return(0), Return(255), Clear, Free, FreeFor, FreeMany, FreePages];
    for hook in all {
        assert_eq!(debug(&format!("heap hook 4 {}", hook.text())), Ok(Debug::Heap(Heap::Hook(4, hook))));
    }
    for place in
        [Place::Switch(7), Place::Switch(14), Place::Interrupt, Place::Return(0), Place::Return(255), Place::Named]
    {
        assert_eq!(debug(&format!("sharing at 4 {}", place.text())), Ok(Debug::Sharing(Sharing::At(4, place))));
    }
}

#[test]
fn what_is_wrong_is_said() {
    let long = format!("write va 0 {}", "00".repeat(WRITE_BYTES + 1));
    let long_pattern = format!("find 0 1000 {}", "00".repeat(33));
    let wrong = [
        "",
        "dance",
        "halt now",
        "heap",
        "heap begin c0000000 10 c15ddc40 24 bf000000",
        "heap hook c05aee64",
        "heap hook c05aee64 elsewhere",
        "heap hook c05aee64 return 100",
        "heap skip c05a9a4c",
        "heap on now",
        "sharing",
        "sharing begin",
        "sharing at c0101234",
        "sharing at c0101234 elsewhere",
        "sharing at c0101234 return 100",
        "sharing at c0101234 switch",
        "sharing at c0101234 switch f",
        "sharing lines 0",
        "clock",
        "clock ticks",
        "edges",
        "edges at c0101234",
        "edges skip c0101234",
        "edges only",
        "edges only 7300",
        "edges only 30313233343536373839303132333435",
        "edges map",
        "regs",
        "regs all",
        "set core",
        "set core 0",
        "set core 0 100000000",
        "set core +1 0",
        "catch",
        "catch svc",
        "catch ttbr x",
        "uncatch ttbr 0",
        "break 0 7",
        "break 0 f 1",
        "break 0 7 1 1",
        "count 0",
        "count 1387",
        "count 4e20 0",
        "samples 1",
        "watch",
        "watch x 0 1",
        "watch w 0",
        "watch w 0 0",
        "unwatch w 0 100001",
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
        "dump 0",
        "dump 0 0",
        "dump 0 10001",
        "find 0 0 3000310032003300",
        "find 0 400001 3000310032003300",
        "find 0 1000 30003100320033",
        &long_pattern,
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

#[test]
fn patterns_are_found_wherever_they_are() {
    let pattern = *b"0\x001\x002\x003\x004\0";
    for at in 0..40 {
        let mut bytes = [0; 64];
        assert_eq!(find(&bytes, &pattern), None);
        bytes[at..at + 10].copy_from_slice(&pattern);
        assert_eq!(find(&bytes, &pattern), Some(at));
        assert_eq!(find(&bytes[..at + 10], &pattern), Some(at));
        assert_eq!(find(&bytes[..at + 9], &pattern), None);
        // The first of two, and one that begins before the first word that is alike.
        bytes[50..60].copy_from_slice(&pattern);
        assert_eq!(find(&bytes, &pattern), Some(at));
    }
    assert_eq!(find(&[7; 40], &[7; 8]), Some(0));
    assert_eq!(find(&[], &[7; 8]), None);
}

#[test]
fn bytes_as_text_and_back() {
    for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
        assert_eq!((encode(bytes.as_bytes()), decode(text)), (text.to_string(), Some(bytes.as_bytes().to_vec())));
    }
    let all: Vec<u8> = (0..=255).rev().collect();
    for from in 0..256 {
        assert_eq!(decode(&encode(&all[from..])), Some(all[from..].to_vec()));
    }
    for wrong in ["Z", "Zg=", "Zg==Zg==", "Z===", "====", "Zm9-", "Zg=v", "Zm9vZ"] {
        assert_eq!(decode(wrong), None, "{wrong}");
    }
}
