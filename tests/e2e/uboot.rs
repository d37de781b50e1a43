//! A boot loader of the field: U-Boot, from Debian's packages, finds what `spica pack` made, and boots it. Nobody types
//! anything.
//!
//! The one for the Cubieboard is that of the real board, with drivers for its real devices, which QEMU has.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use spica_runner::error::Result;
use spica_runner::guests::Source;
use spica_runner::project::{Project, create_dir, remove_dir};
use spica_runner::qemu::{Event, Session};
use spica_runner::spica::{HALTED, failure};
use spica_runner::{pack, prepare};

/// A kernel that prints `A` and a line feed on the guest machine's UART, then turns its machine off (PSCI's
/// SYSTEM_OFF).
pub fn kernel() -> Vec<u8> {
    let mut words = [0; 24];
    words[0] = 0xea00_000a_u32; // b 0x30
    words[9] = 0x016f_2818;
    words[11] = 4 * words.len() as u32;
    let code = code();
    words[12..12 + code.len()].copy_from_slice(&code);
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// Its code, which runs anywhere.
pub const fn code() -> [u32; 9] {
    [
        0xe3a0_1409, // mov r1, #0x09000000
        0xe3a0_2041, // mov r2, #'A'
        0xe581_2000, // str r2, [r1]
        0xe3a0_200a, // mov r2, #'\n'
        0xe581_2000, // str r2, [r1]
        0xe300_0008, // movw r0, #0x0008
        0xe348_0400, // movt r0, #0x8400
        0xe160_0070, // smc #0
        0xeaff_fffe, // b .
    ]
}

/// Where a package of U-Boot has its files.
pub fn u_boot(project: &Project, package: &str) -> Result<PathBuf> {
    Ok(prepare::package(project, package)?.join("usr/lib/u-boot"))
}

/// A directory for the files of one test, with a subdirectory `card` that has what `spica pack` made.
struct Files(PathBuf);

impl Files {
    fn new(project: &Project, name: &str) -> Self {
        let dir = project.build(&format!("u-boot/{name}-{}", std::process::id()));
        create_dir(&dir).expect("a directory");
        let guest = |name: &str| format!("[[guest]]\nname = \"{name}\"\nkernel = \"kernel\"\nmemory = \"16M\"\n");
        fs::write(dir.join("kernel"), kernel()).expect("a file");
        fs::write(dir.join("guests.toml"), guest("one") + &guest("two")).expect("a file");
        let request = pack::Request {
            guests: Source::Manifest(dir.join("guests.toml")),
            board_memory_mib: 512,
            board_dtb: None,
            append: String::new(),
            output: dir.join("card"),
        };
        pack::pack(project, &request).expect("the files for the card");
        Self(dir)
    }

    fn card(&self) -> PathBuf {
        self.0.join("card")
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = remove_dir(&self.0);
    }
}

/// QEMU with this machine, its UART on standard input and output.
fn qemu(machine: &[&str]) -> Command {
    let mut qemu = Command::new("qemu-system-arm");
    qemu.args(machine).args(["-m", "512M", "-display", "none", "-nic", "none", "-monitor", "none", "-no-reboot"]);
    qemu.args(["-chardev", "stdio,id=uart,signal=off", "-serial", "chardev:uart"]);
    qemu
}

/// Waits until Spica halts the board; both guests must have run, and switched themselves off.
#[track_caller]
fn boots(qemu: Command) {
    let mut session = Session::launch(qemu, None, None, false).expect("QEMU");
    let deadline = Instant::now() + Duration::from_secs(300);
    let (mut console, mut spica) = (String::new(), Vec::new());
    loop {
        match session.next(None, Some(deadline)).expect("a console") {
            Event::Guest(bytes) => console += &String::from_utf8_lossy(&bytes),
            Event::Spica(line) => {
                let halted = line == HALTED;
                spica.push(line);
                if halted {
                    break;
                }
            }
            Event::Quiet | Event::Exited(_) => {
                panic!("it did not come to an end:\n{console}\n{spica:#?}\n{}", session.said())
            }
            Event::Ending(_) | Event::Input(_) => {}
        }
    }
    assert!(console.contains("## Executing script at"), "{console}");
    for name in ["one", "two"] {
        assert!(console.lines().any(|l| l.trim_end() == format!("{name}| A")), "{console}\n{spica:#?}");
    }
    assert_eq!(failure(&spica, &["one".to_string(), "two".to_string()]), None, "{spica:#?}");
}

#[test]
fn on_a_disk_of_virt() {
    let project = Project::find(None).expect("the project");
    let firmware = u_boot(&project, "u-boot-qemu").expect("U-Boot").join("qemu_arm/u-boot.bin");
    let files = Files::new(&project, "virt");
    // QEMU shows a directory as a disk with a FAT file system.
    let disk = format!("file=fat:{},format=raw,if=none,id=card,readonly=on", files.card().display());
    let mut qemu = qemu(&["-M", "virt", "-cpu", "cortex-a15"]);
    qemu.arg("-bios").arg(firmware).args(["-drive", &disk, "-device", "virtio-blk-device,drive=card"]);
    boots(qemu);
}

#[test]
fn on_a_card_of_a_cubieboard() {
    let project = Project::find(None).expect("the project");
    let package = u_boot(&project, "u-boot-sunxi").expect("U-Boot");
    let files = Files::new(&project, "cubieboard");
    // What the board's own loader reads from the card: 32 KiB that set up the memory, which QEMU does not need, a
    // header of 64 bytes, and U-Boot itself for this address.
    let loaders = fs::read(package.join("Cubieboard/u-boot-sunxi-with-spl.bin")).expect("U-Boot");
    let firmware = files.0.join("u-boot.bin");
    fs::write(&firmware, &loaders[(32 << 10) + 64..]).expect("a file");
    let loader = format!("loader,file={},addr=0x4a000000,force-raw=on", firmware.display());
    // Such a disk again; a card's size must be a power of two, and its contents not be protected.
    let card = format!("if=sd,snapshot=on,driver=raw,file.driver=vvfat,file.dir={},size=256M", files.card().display());
    let mut qemu = qemu(&["-M", "cubieboard"]);
    qemu.args(["-device", &loader, "-device", "loader,addr=0x4a000000,cpu-num=0", "-drive", &card]);
    boots(qemu);
}
