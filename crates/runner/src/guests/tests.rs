//! Tests of the module, with files in a directory of their own.

use std::fs;

use spica_bundle::{Bundle, BundleError, DiskSource};

use super::*;
use crate::board;

/// A directory with these files, which goes away with it.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str, files: &[(&str, &[u8])]) -> Self {
        let dir = std::env::temp_dir().join(format!("spica-guests-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        for (name, bytes) in files {
            fs::write(dir.join(name), bytes).unwrap();
        }
        Self(dir)
    }

    fn draft(&self) -> Result<Draft> {
        Draft::read(&Source::Manifest(self.0.join("guests.toml")), &cubieboard())
    }

    /// The error of the manifest, without the directory's name.
    fn error(&self) -> String {
        let error = self.draft().expect_err("the manifest is wrong").message;
        error.replace(&format!("{}/", self.0.display()), "")
    }

    fn debian(&self) -> Guest {
        let path = |name: &str| self.0.join(name);
        Guest {
            kernel: path("debian-kernel"),
            initrd: path("debian-initrd"),
            append: "console=ttyAMA0".to_string(),
            memory: "256M".to_string(),
            device_trees: path("trees"),
            packages: Vec::new(),
            tree: path("tree"),
            version: "6.1".to_string(),
            architecture: "armhf".to_string(),
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn zimage() -> Vec<u8> {
    let mut file = vec![0; 64];
    file[0x24..0x28].copy_from_slice(&0x016f_2818_u32.to_le_bytes());
    file[0x2c] = 64;
    file
}

/// The kernel of a guest that starts with a zImage.
fn zimage_of<'a>(guest: &spica_bundle::GuestSpec<'a>) -> &'a [u8] {
    match guest.start {
        spica_bundle::Start::Kernel(spica_bundle::Kernel::ZImage(file)) => file,
        _ => panic!("{:?}", guest.start),
    }
}

fn cubieboard() -> Room<'static> {
    board::find("cubieboard").unwrap().into()
}

#[test]
fn a_manifest_becomes_a_bundle() {
    let text = "[[guest]]\nname = \"own\"\nkernel = \"zImage\"\nmemory = \"64M\"\nweight = 300\n\
                disks = [{ file = \"image\" }]\n\
                [[guest]]\nname = \"web\"\nappend = \"quiet\"\nmemory = \"128M\"\ndisks = [{ file = \"image\" }]\n";
    let dir = Directory::new(
        "whole",
        &[
            ("guests.toml", text.as_bytes()),
            ("zImage", &zimage()),
            ("image", &[1; 512]),
            ("debian-kernel", &[&zimage()[..], b"d"].concat()),
            ("debian-initrd", b"1234"),
        ],
    );
    let mut overlay = Overlay::new();
    overlay.file("x", 0o644, b"x");
    let draft = dir.draft().unwrap();
    let wishes: Vec<_> = draft.wishes().guests.iter().map(|wish| (wish.name.clone(), wish.memory >> 20)).collect();
    assert_eq!(wishes, [("own".to_string(), 64), ("web".to_string(), 128)]);
    let packed = draft.complete(&cubieboard(), &dir.debian(), &Systems::new(), &overlay).unwrap();
    assert_eq!((packed.names, packed.board_memory_mib), (vec!["own".to_string(), "web".to_string()], 512));
    let bundle = Bundle::parse(&packed.bundle).unwrap();
    let [own, web] = bundle.guests() else { panic!("two guests") };
    assert_eq!((zimage_of(own), own.initrd, own.append.as_str(), own.options.weight), (&zimage()[..], None, "", 300));
    assert_eq!(web.append, "console=ttyAMA0 hostname=web quiet");
    assert_eq!(zimage_of(web).len(), 65);
    assert!(web.initrd.unwrap().starts_with(b"1234070701"));
    let place = |guest: &spica_bundle::GuestSpec<'_>| match guest.disks[0].source {
        DiskSource::File(bytes) => bytes.as_ptr(),
        _ => panic!("a file"),
    };
    assert_eq!(place(own), place(web), "the disk is stored once");
}

#[test]
fn a_system_is_a_disk_that_guests_share() {
    let text = "[[guest]]\nname = \"a\"\nsystem = \"debian\"\nmemory = \"64M\"\ndisks = [{ file = \"image\" }]\n\
                [[guest]]\nname = \"b\"\nsystem = \"debian\"\nmemory = \"64M\"\nappend = \"quiet\"\n";
    let dir = Directory::new(
        "system",
        &[
            ("guests.toml", text.as_bytes()),
            ("image", &[1; 512]),
            ("debian-kernel", &zimage()),
            ("system-initrd", b"12345"),
            ("system-disk", &[2; 1024]),
        ],
    );
    let (initrd, disk) = (dir.0.join("system-initrd"), dir.0.join("system-disk"));
    let system = crate::system::System { initrd, disk, append: "console=ttyAMA0".to_string() };
    let draft = dir.draft().unwrap();
    assert_eq!(draft.systems(), [bundle::System::Debian].into());
    let systems = [(bundle::System::Debian, system)].into();
    let packed = draft.complete(&cubieboard(), &dir.debian(), &systems, &Overlay::new()).unwrap();
    let bundle = Bundle::parse(&packed.bundle).unwrap();
    let [a, b] = bundle.guests() else { panic!("two guests") };
    assert_eq!(b.append, "console=ttyAMA0 hostname=b quiet");
    assert_eq!((zimage_of(a), a.initrd), (&zimage()[..], Some(&b"12345"[..])));
    assert_eq!((a.disks.len(), b.disks.len()), (2, 1));
    assert_eq!(a.disks[0], b.disks[0]);
    assert_eq!((a.disks[0].name.as_str(), a.disks[0].mode), ("root", DiskMode::CopyOnWrite));
    let DiskSource::File(bytes) = a.disks[0].source else { panic!("a file") };
    assert_eq!(bytes, [2; 1024]);
}

#[test]
fn several_of_debian() {
    let dir = Directory::new("count", &[("debian-kernel", &zimage()), ("debian-initrd", b"1234")]);
    let packed = Draft::read(&Source::Count(3), &cubieboard())
        .unwrap()
        .complete(&cubieboard(), &dir.debian(), &Systems::new(), &Overlay::new())
        .unwrap();
    assert_eq!(packed.names, ["debian-1", "debian-2", "debian-3"]);
    let bundle = Bundle::parse(&packed.bundle).unwrap();
    assert!(bundle.guests().iter().all(|g| g.memory_bytes == 256 << 20));
    assert_eq!(packed.board_memory_mib, 1024);
    for count in [0, 9] {
        let error = Draft::read(&Source::Count(count), &cubieboard()).unwrap_err();
        assert_eq!(error.message, format!("--count {count}: expected 1 to 8, as many as a board can run"));
    }
}

#[test]
fn mistakes_are_said_with_the_file_and_the_line() {
    let error = |text: &str| Directory::new("bad", &[("guests.toml", text.as_bytes()), ("bad", &[0; 64])]).error();
    let guest = "\n[[guest]]\nname = \"a\"\nmemory = \"64M\"\n";
    assert_eq!(
        error(&format!("{guest}wieght = 1\n")),
        "guests.toml:5: unknown key `wieght` in [[guest]]; expected one of `name`, `system`, `kernel`, `load`, `entry`, `flash`, `initrd`, \
         `dtb`, `append`, `memory`, `weight`, `restart`, `autostart`, `engine`, `fw_cfg`, `disks`, `networks`, `console`, `rng`, \
         `balloon`"
    );
    assert_eq!(
        error(&format!("{guest}initrd = \"none\"\n")),
        "guests.toml:2: guest `a`, key `initrd`: cannot read none: No such file or directory (os error 2)"
    );
    assert_eq!(
        error(&format!("{guest}kernel = \"bad\"\n")),
        "guests.toml:2: guest `a`: kernel `bad`: not an ARM Linux zImage: the word at offset 0x24 is 0x00000000 instead of 0x016f2818; \
         nor a uImage or an ELF file; for a raw image, say with `load` where it goes"
    );
    let dir = Directory::new("none", &[]);
    assert_eq!(dir.error(), "cannot read guests.toml: No such file or directory (os error 2)");
}

#[test]
fn what_does_not_fit_is_said_with_the_users_names() {
    let text = "[[guest]]\nname = \"a\"\nmemory = \"16M\"\ninitrd = \"big\"\n";
    let big = vec![0; 16 << 20];
    let dir = Directory::new("big", &[("guests.toml", text.as_bytes()), ("big", &big), ("debian-kernel", &zimage())]);
    let error =
        dir.draft().unwrap().complete(&cubieboard(), &dir.debian(), &Systems::new(), &Overlay::new()).unwrap_err();
    let expected = "guests.toml:1: guest `a`: its files have 16777280 bytes, more than its memory of 16M";
    assert!(error.message.ends_with(expected), "{error}");
}

#[test]
fn files_that_never_end_or_fit_no_board_are_refused_before_they_are_read() {
    let manifest = |keys: &str| format!("[[guest]]\nname = \"a\"\nmemory = \"64M\"\n{keys}\n");
    let error = |keys: &str| {
        let dir = Directory::new("hostile", &[("guests.toml", manifest(keys).as_bytes())]);
        for (name, mib) in [("huge", 8192), ("a", 600), ("b", 601), ("c", 601)] {
            fs::File::create(dir.0.join(name)).unwrap().set_len(mib << 20).unwrap();
        }
        dir.error()
    };
    let board = "at most 1024M, the memory of cubieboard";
    for (key, keys) in [
        ("kernel", "kernel = \"FILE\""),
        ("initrd", "initrd = \"FILE\""),
        ("dtb", "kernel = \"a\"\ndtb = \"FILE\""),
        ("file", "disks = [{ file = \"FILE\" }]"),
    ] {
        for (file, problem) in [
            ("/dev/zero", format!("it is a device; expected a regular file of {board}")),
            ("huge", format!("it has 8192M; expected a regular file of {board}")),
        ] {
            let expected = format!("guests.toml:1: guest `a`, key `{key}`: cannot read {file}: {problem}");
            assert_eq!(error(&keys.replace("FILE", file)), expected);
        }
    }
    assert_eq!(
        error("initrd = \"a\"\ndisks = [{ file = \"b\" }, { file = \"c\" }]"),
        format!(
            "guests.toml:1: guest `a`, key `file`: with b, the guests' files have 1201M; expected {board}; what need \
             not be in memory can be a disk of the board, key `host`"
        )
    );
}

/// A file of the project.
fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

#[test]
fn the_examples_are_right() {
    let directory = source("guests");
    let examples = fs::read_dir(&directory).unwrap().map(|e| e.unwrap().path());
    let examples: Vec<_> = examples.filter(|p| p.extension().is_some_and(|e| e == "toml")).collect();
    assert!(!examples.is_empty());
    for example in examples {
        let draft = Draft::read(&Source::Manifest(example.clone()), &cubieboard()).unwrap_or_else(|e| panic!("{e}"));
        fit::board_memory(&cubieboard(), &Wishes { bundle: 8 << 20, ..draft.wishes() })
            .unwrap_or_else(|e| panic!("{example:?}: {e}"));
    }
    let page = fs::read_to_string(source("docs/guests.md")).unwrap();
    let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    Manifest::parse(example, Place::Workstation).unwrap();
}

#[test]
fn the_page_has_every_key() {
    let page = fs::read_to_string(source("docs/guests.md")).unwrap();
    let guest = "[[guest]]\nname = \"a\"\nmemory = \"16M\"\n";
    for wrong in ["x = 1", "disks = [{ x = 1 }]", "fw_cfg = [{ x = 1 }]"] {
        let Err(BundleError::UnknownKey { known, .. }) =
            Manifest::parse(&format!("{guest}{wrong}"), Place::Workstation)
        else {
            panic!("an unknown key");
        };
        for key in known {
            assert!(page.lines().any(|l| l.starts_with(&format!("| `{key}` |"))), "{key}");
        }
    }
}
