//! What a guest may have beside kernel and memory: how it is read, what is refused, and that it can be written and read
//! back.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::{GOOD, archive, error, zimage};
use crate::archive::Writer;
use crate::{
    Address, Bundle, Disk, DiskMode, DiskSource, Engine, FwCfgFile, FwCfgSource, GuestEntry, GuestOptions, KernelBase,
    Mac, Manifest, Network, Place, Restart, Start, System,
};

/// The error of a guest with these lines added to it, without the name of the file.
#[track_caller]
fn error_with(lines: &str) -> String {
    let text = error(&archive(&format!("{GOOD}{lines}\n")));
    text.strip_prefix("manifest.toml:").unwrap_or(&text).to_string()
}

#[test]
fn weights() {
    for value in ["0", "1001", "-1", "1.5", "\"100\"", "99999999999999999999"] {
        let expected = "5: wrong value of `weight`: expected a whole number from 1 to 1000, without quotes";
        assert_eq!(error_with(&format!("weight = {value}")), expected);
    }
    for (value, weight) in [("1", 1), ("1_000", 1000), ("0x10", 16)] {
        let bytes = archive(&format!("{GOOD}weight = {value}\n"));
        assert_eq!(Bundle::parse(&bytes).unwrap().guests()[0].options.weight, weight);
    }
}

#[test]
fn words() {
    assert_eq!(
        error_with("restart = \"on-error\""),
        "5: wrong value of `restart`: expected one of \"never\", \"on-crash\", \"always\""
    );
    assert_eq!(error_with("restart = true"), "5: wrong value of `restart`: expected a string, in double quotes");
    for wrong in [
        "in place",
        "In-Place",
        "in-place-from-start",
        "in-place@",
        "in-place@80000000",
        "in-place@0x80100000",
        "in-place@0x0",
        "in-place@0xf0000000",
        "in-place@0x1c0000000",
        "blocks@0x80000000",
        "",
    ] {
        assert_eq!(
            error_with(&format!("engine = \"{wrong}\"")),
            "5: wrong value of `engine`: expected \"in-place\", \"blocks\", or \"in-place@0x80000000\" with the address \
             where the kernel begins, a multiple of 16 MiB"
        );
    }
    assert_eq!(error_with("engine = 1"), "5: wrong value of `engine`: expected a string, in double quotes");
    assert_eq!(
        error_with("disks = [{ file = \"disk\", mode = \"rw\" }]"),
        "5: wrong value of `mode`: expected one of \"read-only\", \"copy-on-write\", \"read-write\""
    );
}

#[test]
fn switches() {
    for key in ["autostart", "console", "rng", "balloon"] {
        let expected = format!("5: wrong value of `{key}`: expected true or false, without quotes");
        assert_eq!(error_with(&format!("{key} = \"yes\"")), expected);
    }
}

#[test]
fn device_trees() {
    let with = |dtb: &[u8]| {
        let mut writer = Writer::new();
        writer.file("manifest.toml", 0o644, format!("{GOOD}dtb = \"tree\"\n").as_bytes());
        writer.file("vmlinuz", 0o644, &zimage());
        writer.file("tree", 0o644, dtb);
        Bundle::parse(&writer.finish()).map(|_| ()).map_err(|e| e.to_string())
    };
    let header = |size: u32| {
        let mut bytes = vec![0; 64];
        bytes[..4].copy_from_slice(&0xd00d_feed_u32.to_be_bytes());
        bytes[4..8].copy_from_slice(&size.to_be_bytes());
        bytes
    };
    assert_eq!(with(&header(64)), Ok(()));
    let error = "manifest.toml:1: guest `debian`: dtb `tree`: not a device tree: it does not begin with 0xd00dfeed; `dtc -O dtb` makes one";
    assert_eq!(with(b"/dts-v1/;"), Err(error.to_string()));
    for size in [39, 65] {
        let error = format!(
            "manifest.toml:1: guest `debian`: dtb `tree`: the device tree is cut short: its header says {size} bytes, the file has 64"
        );
        assert_eq!(with(&header(size)), Err(error));
    }
    assert_eq!(
        error_with("dtb = \"tree\""),
        "1: guest `debian`: the archive has no file `tree`, which its `dtb` names"
    );
    assert_eq!(error_with("dtb = \"\""), "5: wrong value of `dtb`: expected the name of a file");
}

#[test]
fn disks() {
    let text = format!(
        "{GOOD}[[guest.disks]]\nfile = \"disk\"\n[[guest.disks]]\nfile = \"disk\"\nmode = \"read-only\"\nname = \"tools\"\n\
         [[guest.disks]]\nhost = true\n[[guest]]\nname = \"b\"\nkernel = \"vmlinuz\"\nmemory = \"16M\"\n\
         disks = [{{ file = \"disk\" }}]\n"
    );
    let with = |disk: &[u8]| {
        let mut writer = Writer::new();
        writer.file("manifest.toml", 0o644, text.as_bytes());
        writer.file("vmlinuz", 0o644, &zimage());
        writer.file("disk", 0o644, disk);
        writer.finish()
    };
    let bytes = with(&[7; 1024]);
    let bundle = Bundle::parse(&bytes).unwrap();
    let file: &[u8] = &[7; 1024];
    let disk = |name: &str, source, mode| Disk { name: name.to_string(), source, mode };
    assert_eq!(
        bundle.guests()[0].disks,
        [
            disk("disk0", DiskSource::File(file), DiskMode::CopyOnWrite),
            disk("tools", DiskSource::File(file), DiskMode::ReadOnly),
            disk("disk2", DiskSource::FirstHostDisk, DiskMode::ReadOnly),
        ]
    );
    // A file of two guests is the same bytes.
    let place = |guest: usize| match bundle.guests()[guest].disks[0].source {
        DiskSource::File(bytes) => bytes.as_ptr(),
        _ => panic!("a file"),
    };
    assert_eq!(place(0), place(1));
    for size in [0, 511, 513] {
        let expected = format!(
            "manifest.toml:1: guest `debian`: disk `disk` has {size} bytes; expected a multiple of 512, and at least one"
        );
        assert_eq!(error(&with(&vec![0; size])), expected);
    }
}

#[test]
fn disks_that_are_none() {
    let shape =
        "5: wrong value of `disks`: expected tables that begin with [[guest.disks]], or { file = \"…\" } in an array";
    assert_eq!(error_with("disks = \"disk\""), shape);
    assert_eq!(error_with("disks = [\"disk\"]"), shape);
    assert_eq!(
        error_with("[[guest.disks]]\nmode = \"read-only\""),
        "5: [[guest.disks]] has neither a `file`, which becomes part of the bundle, nor a `host`, which names a disk of \
         the board"
    );
    assert_eq!(
        error_with("[[guest.disks]]\nfile = \"a\"\nhost = true"),
        "7: wrong value of `host`: a disk has either a `file` or a `host`, not both"
    );
    for value in ["false", "1", "\"\"", "\"/dev/mmc\""] {
        let expected =
            "5: wrong value of `host`: expected true, for the board's first disk, or a disk's name, such as \"mmc0\"";
        assert_eq!(error_with(&format!("disks = [{{ host = {value} }}]")), expected);
    }
    assert_eq!(
        error_with("[[guest.disks]]\npath = \"a\""),
        "6: unknown key `path` in [[guest.disks]]; expected one of `file`, `host`, `name`, `mode`"
    );
    assert_eq!(
        error_with("[[guest.disks]]\nfile = \"a\"\nmode = \"read-write\""),
        "7: wrong value of `mode`: a `file` is in the bundle, where nothing is written back; expected \"read-only\" or \
         \"copy-on-write\""
    );
    assert_eq!(
        error_with("[[guest.disks]]\nfile = \"a\"\nname = \"a23456789012345678901\""),
        "7: wrong value of `name`: expected 1 to 20 of a-z, 0-9, '-', '_' and '.'"
    );
    assert_eq!(
        error_with("disks = [{ host = true, name = \"a\" }, { host = \"b\", name = \"a\" }]"),
        "5: wrong value of `name`: another disk of this guest has it; names must differ"
    );
    let many = format!("disks = [{}]", "{ host = true }, ".repeat(17));
    assert_eq!(error_with(&many), "5: wrong value of `disks`: 17 is too many; expected at most 16");
    assert_eq!(
        error_with("disks = [{ file = \"none\" }]"),
        "1: guest `debian`: the archive has no file `none`, which its `file` names"
    );
}

#[test]
fn a_name_that_a_disk_would_get_is_taken() {
    let text = format!("{GOOD}disks = [{{ host = true, name = \"disk1\" }}, {{ host = true }}]\n");
    let disks = &Manifest::parse(&text, Place::Board).unwrap().guests[0].disks;
    assert_eq!([&disks[0].name, &disks[1].name], ["disk1", "disk2"]);
}

#[test]
fn disks_of_the_board_that_two_would_spoil() {
    let two = |first: &str, second: &str| {
        let text = format!("{GOOD}disks = [{first}]\n{}disks = [{second}]\n", GOOD.replace("debian", "b"));
        Manifest::parse(&text, Place::Board).map(|_| ()).map_err(|e| e.to_string())
    };
    let named = "{ host = \"mmc0\" }";
    let written = "{ host = \"mmc0\", mode = \"read-write\" }";
    let first = "{ host = true, mode = \"read-write\" }";
    let error =
        Err("manifest.toml:6: guest `debian` has the same disk of the board, or may have, and one of both may \
                     change it; expected another disk, or a mode other than \"read-write\" for both"
            .to_string());
    assert_eq!(two(named, named), Ok(()));
    assert_eq!(two(named, written), error);
    assert_eq!(two(written, named), error);
    assert_eq!(two(first, named), error);
    assert_eq!(two(written, "{ host = \"mmc1\" }"), Ok(()));
}

#[test]
fn networks() {
    let text = format!(
        "{GOOD}networks = [\"lan\", {{ name = \"wan\", mac = \"52:54:00:aB:cd:ef\" }}]\n\
         {}networks = [\"lan\"]\n",
        GOOD.replace("debian", "b")
    );
    let guests = Manifest::parse(&text, Place::Board).unwrap().guests;
    let cards = |guest: usize| {
        let cards = guests[guest].options.networks.iter();
        cards.map(|c| (c.name.as_str(), c.mac.to_string())).collect::<Vec<_>>()
    };
    assert_eq!(cards(0), [("lan", "02:73:70:00:00:00".to_string()), ("wan", "52:54:00:ab:cd:ef".to_string())]);
    assert_eq!(cards(1), [("lan", "02:73:70:00:01:00".to_string())]);
}

#[test]
fn networks_that_are_none() {
    let shape = "5: wrong value of `networks`: expected an array of names of switches, such as [\"lan\"], or of { name = \
                 \"…\", mac = \"…\" }";
    assert_eq!(error_with("networks = \"lan\""), shape);
    assert_eq!(error_with("networks = [1]"), shape);
    assert_eq!(
        error_with("networks = [\"LAN\"]"),
        "5: wrong value of `networks`: expected 1 to 32 of a-z, 0-9, '-', '_' and '.'"
    );
    assert_eq!(
        error_with("networks = [{ name = \"lan\", ip = \"\" }]"),
        "5: unknown key `ip` in `networks`; expected one of `name`, `mac`"
    );
    assert_eq!(
        error_with("networks = [{ mac = \"02:00:00:00:00:01\" }]"),
        "5: `networks` has no key `name`, which it needs"
    );
    for mac in [
        "",
        "02:00:00:00:00",
        "02:00:00:00:00:00:01",
        "2:0:0:0:0:1",
        "01:00:00:00:00:01",
        "00:00:00:00:00:00",
        "02-00-00-00-00-01",
        "+2:00:00:00:00:01",
    ] {
        assert_eq!(
            error_with(&format!("networks = [{{ name = \"lan\", mac = \"{mac}\" }}]")),
            "5: wrong value of `mac`: expected the address of one card, such as \"02:00:00:12:34:56\"",
            "{mac}"
        );
    }
    let taken = format!(
        "networks = [\"lan\"]\n{}networks = [{{ name = \"lan\", mac = \"02:73:70:00:00:00\" }}]",
        GOOD.replace("debian", "b")
    );
    assert_eq!(
        error_with(&taken),
        "6: the network address 02:73:70:00:00:00 is one of guest `debian` already; addresses must differ"
    );
    let many = format!("networks = [{}]", "\"lan\", ".repeat(9));
    assert_eq!(error_with(&many), "5: wrong value of `networks`: 9 is too many; expected at most 8");
}

#[test]
fn more_guests_than_there_may_be() {
    let guests: String = (0..9).map(|n| GOOD.replace("debian", &format!("g{n}"))).collect();
    assert_eq!(error(&archive(&guests)), "manifest.toml:1: wrong value of `guest`: 9 is too many; expected at most 8");
}

#[test]
fn a_kernel_is_needed_on_a_board_only() {
    let text = GOOD.replace("kernel = \"vmlinuz\"\n", "");
    let guests = Manifest::parse(&text, Place::Workstation).unwrap().guests;
    assert_eq!(guests, [GuestEntry { line: 1, ..GuestEntry::new("debian", 256 << 20) }]);
    assert!(Manifest::parse(&text, Place::Board).is_err());
}

#[test]
fn a_system_is_made_before_a_board_starts() {
    let text = GOOD.replace("kernel = \"vmlinuz\"", "system = \"debian\"");
    let guests = Manifest::parse(&text, Place::Workstation).unwrap().guests;
    let expected = GuestEntry { system: Some(System::Debian), ..GuestEntry::new("debian", 256 << 20) };
    assert_eq!(guests, [expected]);
    let manifest = Manifest { guests, uplink: None };
    assert_eq!(Manifest::parse(&manifest.to_toml(), Place::Workstation), Ok(manifest));

    let error = |text: &str, place| Manifest::parse(text, place).unwrap_err().to_string();
    assert_eq!(
        error(&text, Place::Board),
        "manifest.toml:3: wrong value of `system`: `spica` makes systems before the board starts; expected `kernel`, \
         `initrd` and `disks`"
    );
    let more = |line: &str| error(&format!("{text}{line}\n"), Place::Workstation);
    for key in ["kernel", "initrd"] {
        assert_eq!(
            more(&format!("{key} = \"x\"")),
            "manifest.toml:3: wrong value of `system`: it has its own `kernel` and `initrd`; expected none here"
        );
    }
    assert_eq!(
        more("disks = [{ name = \"root\", file = \"x\" }]"),
        "manifest.toml:3: wrong value of `system`: its disk is named \"root\"; expected no other of that name"
    );
    assert_eq!(
        more(&format!("disks = [{}]", "{ file = \"x\" }, ".repeat(16))),
        "manifest.toml:3: wrong value of `system`: it needs a disk, and the guest has as many as it can; expected fewer"
    );
    assert_eq!(
        error(&text.replace("\"debian\"\nm", "\"debain\"\nm"), Place::Workstation),
        "manifest.toml:3: wrong value of `system`: expected one of \"debian\", \"debian-small\""
    );
}

#[test]
fn errors_name_the_file_of_the_user() {
    let error = Manifest::parse("guest = 1", Place::Workstation).unwrap_err();
    let expected = "my/guests.toml:1: wrong value of `guest`: expected tables that begin with [[guest]]";
    assert_eq!(error.in_file("my/guests.toml").to_string(), expected);
}

#[test]
fn what_is_not_said_has_a_default() {
    let bytes = archive(GOOD);
    let bundle = Bundle::parse(&bytes).unwrap();
    let expected = GuestOptions {
        weight: 100,
        restart: Restart::OnCrash,
        autostart: true,
        engine: None,
        networks: vec![],
        console: false,
        rng: false,
        balloon: false,
    };
    assert_eq!(bundle.guests()[0].options, expected);
    assert_eq!((bundle.guests()[0].dtb, bundle.guests()[0].disks.len()), (None, 0));
}

#[test]
fn files_of_a_guest() {
    let mut guest = GuestEntry::new("a", 16 << 20);
    guest.kernel = Some("k".to_string());
    guest.dtb = Some("d".to_string());
    let file = DiskSource::File("f".to_string());
    for source in [DiskSource::FirstHostDisk, file, DiskSource::HostDisk("h".to_string())] {
        guest.disks.push(Disk { name: "x".to_string(), source, mode: DiskMode::ReadOnly });
    }
    assert_eq!(guest.files().collect::<Vec<_>>(), [("kernel", "k"), ("dtb", "d"), ("file", "f")]);
}

#[test]
fn a_written_manifest_reads_back() {
    let mut one = GuestEntry::new("one", 64 << 20);
    one.kernel = Some("a/b \"c\"\\".to_string());
    one.initrd = Some("i".to_string());
    one.dtb = Some("tree".to_string());
    one.append = "x=\"y z\"\t\u{7f}ü".to_string();
    one.options = GuestOptions {
        weight: 7,
        restart: Restart::Always,
        autostart: false,
        engine: Some(Engine::InPlace(None)),
        networks: vec![
            Network { name: "lan".to_string(), mac: Mac::generated(0, 0) },
            Network { name: "wan".to_string(), mac: Mac([2, 0, 0, 0, 0, 255]) },
        ],
        console: true,
        rng: true,
        balloon: true,
    };
    let disk = |name: &str, source, mode| Disk { name: name.to_string(), source, mode };
    one.disks = vec![
        disk("root", DiskSource::File("r".to_string()), DiskMode::CopyOnWrite),
        disk("b", DiskSource::FirstHostDisk, DiskMode::ReadOnly),
        disk("c", DiskSource::HostDisk("mmc1".to_string()), DiskMode::ReadOnly),
    ];
    let mut two = GuestEntry::new("two", 16 << 20);
    two.options.engine = Some(Engine::Blocks);
    two.kernel = Some("k".to_string());
    two.address = Address { load: Some(0x4000_8000), entry: Some(0x4000_8004) };
    let mut three = GuestEntry::new("three", 16 << 20);
    three.options.engine = Some(Engine::InPlace(KernelBase::parse("0x80000000")));
    three.flash = vec!["u-boot \"x\"".to_string(), "env".to_string()];
    (three.kernel, three.initrd) = (Some("k".to_string()), Some("i".to_string()));
    let file = |name: &str, source| FwCfgFile { name: name.to_string(), source };
    three.fw_cfg = vec![
        file("opt/a", FwCfgSource::File("f".to_string())),
        file("opt/b", FwCfgSource::Text("two\nlines\0".to_string())),
    ];
    let mut manifest = Manifest { guests: vec![one, two, three], uplink: Some("wan".to_string()) };
    let mut read = Manifest::parse(&manifest.to_toml(), Place::Board).unwrap();
    for guest in manifest.guests.iter_mut().chain(&mut read.guests) {
        guest.line = 0;
    }
    assert_eq!(read, manifest);
}

#[test]
fn the_shortest_manifest_is_short() {
    let guests = Manifest::parse(GOOD, Place::Board).unwrap();
    assert_eq!(guests.to_toml(), GOOD);
}

#[test]
fn the_uplink_is_one_of_the_guests_switches() {
    let with = |uplink: &str| alloc::format!("uplink = {uplink}\n{GOOD}networks = [\"lan\", \"wan\"]\n");
    assert_eq!(Manifest::parse(&with("\"wan\""), Place::Board).unwrap().uplink.as_deref(), Some("wan"));
    for wrong in ["\"man\"", "\"\""] {
        let error = Manifest::parse(&with(wrong), Place::Board).unwrap_err().to_string();
        let expected =
            "manifest.toml:1: wrong value of `uplink`: expected the name of a switch at which a guest has a card";
        assert_eq!(error, expected);
    }
}

#[test]
fn firmware_starts_a_guest_and_its_kernel() {
    let text = |rest: &str| alloc::format!("[[guest]]\nname = \"a\"\nmemory = \"16M\"\nflash = [\"fw\"]\n{rest}");
    let guest = |text: &str| Manifest::parse(text, Place::Board).map(|manifest| manifest.guests[0].clone());
    let entry = guest(&text("")).unwrap();
    assert!(!entry.is_debian());
    assert_eq!(entry.files().collect::<Vec<_>>(), [("flash", "fw")]);
    for key in ["load = 0", "entry = 0", "kernel = \"k\"\nload = 0"] {
        let error = guest(&text(key)).unwrap_err().to_string();
        assert!(error.contains("the guest has `flash`, and what is there loads the kernel; expected no"), "{error}");
    }
    let error = guest(&text("initrd = \"i\"")).unwrap_err().to_string();
    assert!(
        error.contains("`initrd`: the guest has `flash`, and no `kernel` that an initial RAM disk is for"),
        "{error}"
    );
    let error = guest(&text("").replace("[\"fw\"]", "[\"a\", \"b\", \"c\"]")).unwrap_err().to_string();
    assert!(error.contains("3 is too many; expected at most 2"), "{error}");
    let of = |file: &'static [u8]| entry.load(move |_| Some(file)).map(|spec| (spec.start.clone(), spec.flash_bytes()));
    let banks = [&b"cod\xea"[..], &[]];
    assert_eq!(of(b"cod\xea"), Ok((Start::Firmware { banks, kernel: None }, [1 << 20; 2])));
    // What is no kernel that Spica would start may be one for firmware.
    let entry = guest(&text("kernel = \"k\"\ninitrd = \"i\"\nappend = \"quiet\"")).unwrap();
    assert_eq!(entry.files().collect::<Vec<_>>(), [("kernel", "k"), ("initrd", "i"), ("flash", "fw")]);
    let spec = entry.load(|name| Some(if name == "fw" { b"cod\xea" } else { b"any" })).unwrap();
    assert_eq!(spec.start, Start::Firmware { banks, kernel: Some(b"any") });
    assert_eq!((spec.initrd, spec.append.as_str()), (Some(&b"any"[..]), "quiet"));
    let spec = entry.load(|name| (name != "k").then_some(&b"cod\xea"[..])).unwrap_err().to_string();
    assert!(spec.contains("the archive has no file `k`, which its `kernel` names"), "{spec}");
    let entry = guest(&text("")).unwrap();
    let of = |file: &'static [u8]| entry.load(move |_| Some(file)).map(|spec| (spec.start.clone(), spec.flash_bytes()));
    let error = of(b"").unwrap_err().to_string();
    assert!(error.contains("flash `fw` has 0 bytes; expected 67108864 at most, and at least one"), "{error}");
    let error = of(&[0, 0, 2, 0x20, 0xc5, 1, 0, 8, 1, 2, 0, 8, 3, 2, 0, 8]).unwrap_err().to_string();
    assert!(error.contains("flash `fw`: it begins with the vector table of a Cortex-M: 0x20020000 for"), "{error}");
}

#[test]
fn files_in_fw_cfg() {
    let parse = |lines: &str| {
        let text = format!("{GOOD}{lines}\n");
        Manifest::parse(&text, Place::Workstation).map(|manifest| manifest.guests[0].clone())
    };
    let error = |lines: &str| parse(lines).unwrap_err().to_string();
    let entry = parse("fw_cfg = [{ name = \"opt/a\", file = \"f\" }, { name = \"opt/b\", string = \"\" }]").unwrap();
    assert_eq!(entry.files().collect::<Vec<_>>(), [("kernel", "vmlinuz"), ("file", "f")]);
    let kernel = zimage();
    let spec = entry.load(|name| Some(if name == "f" { b"contents" } else { &kernel[..] })).unwrap();
    let file = |name: &str, source| FwCfgFile { name: name.to_string(), source };
    let expected =
        [file("opt/a", FwCfgSource::File(&b"contents"[..])), file("opt/b", FwCfgSource::Text(String::new()))];
    assert_eq!(spec.fw_cfg, expected);
    let missing = entry.load(|name| (name != "f").then_some(&kernel[..])).unwrap_err().to_string();
    assert!(missing.contains("the archive has no file `f`, which its `file` names"), "{missing}");

    let longest = format!("opt/{}", "x".repeat(51));
    assert!(parse(&format!("fw_cfg = [{{ name = \"{longest}\", file = \"f\" }}]")).is_ok());
    for name in [&format!("{longest}x"), "etc/acpi/tables", "opt", "opt/", "", "opt/a b", "opt/ä", "opt/\\u0000"] {
        let error = error(&format!("fw_cfg = [{{ name = \"{name}\", file = \"f\" }}]"));
        assert!(error.contains("5: wrong value of `name`: expected \"opt/\" and more, such as"), "{name}: {error}");
    }
    for (lines, expected) in [
        ("{ name = \"opt/a\" }", "`fw_cfg`: its contents are either in a `file` or a `string`; expected one of both"),
        (
            "{ name = \"opt/a\", file = \"f\", string = \"t\" }",
            "`string`: its contents are either in a `file` or a `string`",
        ),
        ("{ name = \"opt/a\", file = \"\" }", "`file`: expected the name of a file"),
        ("{ file = \"f\" }", "[[guest.fw_cfg]] has no key `name`, which it needs"),
        ("{ name = \"opt/a\", text = \"s\" }", "unknown key `text` in [[guest.fw_cfg]]; expected one of `name`,"),
        ("\"opt/a\"", "`fw_cfg`: expected tables that begin with [[guest.fw_cfg]]"),
    ] {
        let error = error(&format!("fw_cfg = [{lines}]"));
        assert!(error.contains(expected), "{error}");
    }
    let long = |len| format!("fw_cfg = [{{ name = \"opt/a\", string = \"{}\" }}]", "x".repeat(len));
    assert!(parse(&long(4096)).is_ok());
    assert!(error(&long(4097)).contains("`string`: expected 4096 bytes at most; what is longer can be in a `file`"));
    let twice = "{ name = \"opt/a\", string = \"\" }, ";
    assert!(error(&format!("fw_cfg = [{}]", twice.repeat(2))).contains("another file of this guest's fw_cfg has it"));
    assert!(error(&format!("fw_cfg = [{}]", twice.repeat(17))).contains("17 is too many; expected at most 16"));
}

#[test]
fn only_a_kernel_has_an_address() {
    let parse = |text: &str| Manifest::parse(text, Place::Workstation).map(|manifest| manifest.guests[0].address);
    let address = Address { load: Some(0x4000_8000), entry: Some(0x4000_9000) };
    assert_eq!(parse(&alloc::format!("{GOOD}load = 0x4000_8000\nentry = 0x40009000\n")), Ok(address));
    for wrong in ["\"0x40008000\"", "-1", "0x1_0000_0000", "1.5"] {
        let error = parse(&alloc::format!("{GOOD}load = {wrong}\n")).unwrap_err().to_string();
        assert!(
            error.contains("`load`: expected an address of 32 bits, such as 0x40008000, without quotes"),
            "{error}"
        );
    }
    let error = parse("[[guest]]\nname = \"a\"\nmemory = \"16M\"\nload = 1\n").unwrap_err().to_string();
    assert!(error.contains("it says where a raw `kernel` goes; expected that key, too"), "{error}");
}
