//! A boot loader of the field: U-Boot, from Debian's package for QEMU's `virt` board, finds what `spica pack` made on a disk,
//! and boots it. Nobody types anything.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use spica_cli::apt::Apt;
use spica_cli::error::Result;
use spica_cli::guests::Source;
use spica_cli::project::{Project, create_dir, remove_dir};
use spica_cli::qemu::{Event, Session};
use spica_cli::spica::{HALTED, failure};
use spica_cli::{pack, process};

/// A kernel that prints `A` and a line feed on the guest machine's UART, then turns its machine off (PSCI's SYSTEM_OFF).
fn kernel() -> Vec<u8> {
    let mut words = [0; 24];
    words[0] = 0xea00_000a_u32; // b 0x30
    words[9] = 0x016f_2818;
    words[11] = 4 * words.len() as u32;
    let code = [
        0xe3a0_1409, // mov r1, #0x09000000
        0xe3a0_2041, // mov r2, #'A'
        0xe581_2000, // str r2, [r1]
        0xe3a0_200a, // mov r2, #'\n'
        0xe581_2000, // str r2, [r1]
        0xe300_0008, // movw r0, #0x0008
        0xe348_0400, // movt r0, #0x8400
        0xe160_0070, // smc #0
        0xeaff_fffe, // b .
    ];
    words[12..12 + code.len()].copy_from_slice(&code);
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// U-Boot for the `virt` board, fetched once.
fn u_boot(project: &Project) -> Result<PathBuf> {
    let dir = project.build("u-boot");
    let file = dir.join("tree/usr/lib/u-boot/qemu_arm/u-boot.bin");
    if !file.is_file() {
        let package = "u-boot-qemu";
        let files = Apt::update(&dir.join("apt"), "armhf")?.download(&[package], &dir.join("download"))?;
        let new = dir.join("tree.new");
        remove_dir(&new)?;
        let mut command = Command::new("dpkg-deb");
        process::output(command.arg("--extract").arg(&files[0]).arg(&new), "cannot unpack U-Boot")?;
        fs::rename(&new, dir.join("tree")).expect("a directory");
    }
    Ok(file)
}

#[test]
fn u_boot_boots_what_was_packed() {
    let project = Project::find().expect("the project");
    let firmware = u_boot(&project).expect("U-Boot");
    let dir = project.build(&format!("u-boot/test-{}", std::process::id()));
    create_dir(&dir).expect("a directory");
    let guest = |name: &str| format!("[[guest]]\nname = \"{name}\"\nkernel = \"kernel\"\nmemory = \"16M\"\n");
    fs::write(dir.join("kernel"), kernel()).expect("a file");
    fs::write(dir.join("guests.toml"), guest("one") + &guest("two")).expect("a file");
    let card = dir.join("card");
    let request = pack::Request {
        guests: Source::Manifest(dir.join("guests.toml")),
        board_memory_mib: 512,
        board_dtb: None,
        append: String::new(),
        output: card.clone(),
    };
    pack::pack(&project, &request).expect("the files for the card");

    // QEMU shows a directory as a disk with a FAT file system.
    let disk = format!("file=fat:{},format=raw,if=none,id=card,readonly=on", card.display());
    let mut qemu = Command::new("qemu-system-arm");
    qemu.args([
        "-M",
        "virt",
        "-cpu",
        "cortex-a15",
        "-m",
        "512M",
        "-display",
        "none",
        "-nic",
        "none",
        "-monitor",
        "none",
    ]);
    qemu.args(["-no-reboot", "-chardev", "stdio,id=uart,signal=off", "-serial", "chardev:uart"]);
    qemu.arg("-bios").arg(firmware).args(["-drive", &disk, "-device", "virtio-blk-device,drive=card"]);
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
            Event::Quiet | Event::Exited(_) => panic!("it did not come to an end:\n{console}\n{spica:#?}"),
            Event::Ending(_) | Event::Input(_) => {}
        }
    }
    let _ = remove_dir(&dir);
    assert!(console.contains("## Executing script at"), "{console}");
    for name in ["one", "two"] {
        assert!(console.lines().any(|l| l.trim_end() == format!("{name}| A")), "{console}\n{spica:#?}");
    }
    assert_eq!(failure(&spica, &["one".to_string(), "two".to_string()]), None, "{spica:#?}");
}
