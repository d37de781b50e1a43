//! Bad bundles on the board: one clear error each, and the board halts; nothing hangs.

use std::fs;
use std::time::{Duration, Instant};

use spica_bundle::archive::Writer;
use spica_runner::board;
use spica_runner::console::PREFIX;
use spica_runner::image::Image;
use spica_runner::prepare;
use spica_runner::project::{Project, create_dir};
use spica_runner::qemu::{Boot, Event, Session};
use spica_runner::spica::HALTED;

const MANIFEST: &str = "[[guest]]\nname = \"one\"\nkernel = \"kernel\"\nmemory = \"256M\"\n";

/// The smallest file that passes for a kernel, and does nothing but branch to itself.
fn kernel() -> Vec<u8> {
    let mut kernel = 0xeaff_fffe_u32.to_le_bytes().repeat(64);
    kernel[0x24..0x28].copy_from_slice(&0x016f_2818_u32.to_le_bytes());
    kernel[0x28..0x2c].copy_from_slice(&0u32.to_le_bytes());
    kernel[0x2c..0x30].copy_from_slice(&256u32.to_le_bytes());
    kernel
}

fn bundle(manifest: &str, kernel: &[u8]) -> Vec<u8> {
    let mut archive = Writer::new();
    archive.file("manifest.toml", 0o644, manifest.as_bytes());
    archive.file("kernel", 0o644, kernel);
    archive.finish()
}

/// Boots Spica on both boards with this initrd: it must halt at once, and say `expected`.
#[track_caller]
fn refused(name: &str, initrd: Option<&[u8]>, expected: &str) {
    refused_on(&["cubieboard", "vexpress-a9"], name, initrd, expected);
}

/// The same on some boards.
#[track_caller]
fn refused_on(boards: &[&str], name: &str, initrd: Option<&[u8]>, expected: &str) {
    let project = Project::find(None).expect("the project");
    let image = prepare::board_image(&project, Image::Shipped).expect("the board image");
    let trees = prepare::fetch(&project, false).expect("the guest").device_trees;
    let dir = project.build("bundles");
    create_dir(&dir).expect("a directory");
    for board in boards {
        let board = board::find(board).expect("a board");
        let file = dir.join(format!("{name}-{}-{}", board.name, std::process::id()));
        fs::write(&file, initrd.unwrap_or_default()).expect("a file");
        let tree = board.device_tree.map(|t| trees.join(t));
        let boot = Boot {
            kernel: &image,
            initrd: initrd.map(|_| file.as_path()),
            append: "",
            device_tree: tree.as_deref(),
            memory_mib: None,
            icount: None,
            plugged: &[],
            debug: None,
            plugin: None,
        };
        let mut session = Session::start(board, &boot, None, false).expect("QEMU");
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut said = String::new();
        loop {
            match session.next(None, Some(deadline)).expect("a console") {
                Event::Spica(line) if line == HALTED => break,
                Event::Spica(line) => said += &format!("{PREFIX}{line}\n"),
                Event::Quiet | Event::Exited(_) => panic!("{} did not halt, but said:\n{said}", board.name),
                _ => {}
            }
        }
        let _ = fs::remove_file(&file);
        let errors: Vec<_> = said.lines().filter(|l| l.contains("error: ")).collect();
        assert_eq!(errors.len(), 1, "{} said:\n{said}", board.name);
        assert!(errors[0].contains(expected), "{} said:\n{said}", board.name);
    }
}

#[test]
fn no_initrd() {
    refused("none", None, "no guest at all: the board's initrd must hold a bundle");
}

#[test]
fn garbage() {
    refused("garbage", Some(&[0x5a; 8192]), "not a cpio archive in newc format: it does not begin with 070701");
}

#[test]
fn cut_short() {
    let whole = bundle(MANIFEST, &kernel());
    refused("short", Some(&whole[..whole.len() - 300]), "the archive is cut short in kernel: it has");
}

#[test]
fn no_manifest() {
    let mut archive = Writer::new();
    archive.file("kernel", 0o644, &kernel());
    refused("manifest", Some(&archive.finish()), "the archive has no manifest.toml, which lists the guests");
}

#[test]
fn unknown_key() {
    let manifest = MANIFEST.replace("memory", "memroy");
    refused("key", Some(&bundle(&manifest, &kernel())), "manifest.toml:4: unknown key `memroy` in [[guest]]");
}

#[test]
fn no_guest() {
    refused("guest", Some(&bundle("", &kernel())), "manifest.toml: there is no guest to run");
}

#[test]
fn kernel_that_is_none() {
    refused("kernel", Some(&bundle(MANIFEST, &[1; 256])), "guest `one`: kernel `kernel`: not an ARM Linux zImage");
}

#[test]
fn more_memory_than_the_board_has() {
    let manifest = MANIFEST.replace("256M", "2G");
    refused(
        "memory",
        Some(&bundle(&manifest, &kernel())),
        "2048 MiB wanted in one piece, but the largest free piece has ",
    );
}

/// The bundle lies 128 MiB into the memory. Behind it and the device tree, 383 whole MiB are left.
#[test]
fn memory_enough_in_all_but_not_in_one_piece() {
    let manifest = MANIFEST.replace("256M", "390M");
    let expected = "390 MiB wanted in one piece, but the largest free piece has 383 MiB: of 510 MiB that can be used, ";
    refused_on(&["cubieboard"], "piece", Some(&bundle(&manifest, &kernel())), expected);
}

#[test]
fn a_disk_that_the_board_does_not_have() {
    let manifest = format!("{MANIFEST}disks = [{{ host = true }}]\n");
    refused(
        "disk",
        Some(&bundle(&manifest, &kernel())),
        "guest one: disks: the board has no disk that Spica can drive",
    );
}

#[test]
fn a_disk_that_two_guests_would_change() {
    let guest = MANIFEST.replace("one", "two");
    let both =
        format!("{MANIFEST}disks = [{{ host = true, mode = \"read-write\" }}]\n{guest}disks = [{{ host = true }}]\n");
    refused("shared", Some(&bundle(&both, &kernel())), "guest `one` has the same disk of the board, or may have");
}

#[test]
fn an_uplink_without_a_card() {
    let manifest = format!("uplink = \"lan\"\n{MANIFEST}networks = [\"lan\"]\n");
    refused(
        "uplink",
        Some(&bundle(&manifest, &kernel())),
        "uplink: the board has no network card that Spica can drive",
    );
}
