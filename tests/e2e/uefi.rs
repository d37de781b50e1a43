//! UEFI: Debian's firmware for QEMU's `virt` with a 32-bit processor, unmodified, comes to its shell. All of it but its
//! first instructions is T32, with the MMU off and on; its variables are in the second bank of flash. From a disk, it
//! starts Debian's GRUB, which starts Debian's kernel; and that, in A32, calls what is left of the firmware. From
//! fw_cfg, it starts that kernel itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use spica_runner::board;
use spica_runner::guests::Source;
use spica_runner::prepare::{self, Request, prepare};
use spica_runner::process;
use spica_runner::project::Project;

use super::firmware::Console;

const LIMIT: Duration = Duration::from_secs(300);
/// With the end of its colour, so that it is not found in what is typed.
const PROMPT: &str = "Shell> \x1b[0m";

impl Console {
    /// What a command of the shell prints.
    #[track_caller]
    fn shell(&mut self, command: &str) -> String {
        self.type_in(command);
        self.session.send(b"\r");
        self.until(PROMPT)
    }

    /// Passes the countdown that comes before the first prompt.
    #[track_caller]
    fn first_prompt(&mut self) {
        self.until("any other key to continue");
        self.session.send(b" ");
        self.until(PROMPT);
    }
}

/// Starts it by `request`, with `second` in the second bank.
#[track_caller]
fn comes_to_its_shell(project: &Project, request: &Request) {
    let run = prepare(project, request).expect("a run");
    let mut console = Console::of(&run, LIMIT);
    console.first_prompt();
    let version = console.shell("ver");
    assert!(version.contains("UEFI Interactive Shell v2.2"), "{version}");
    let map = console.shell("memmap");
    // All of RAM, and the bank of flash that it keeps for an operating system.
    for line in ["Total Memory:            128 MB (134,217,728 Bytes)", "0000000004000000-0000000007FFFFFF"] {
        assert!(map.contains(line), "{map}");
    }
    console.shell("set greeting hello");

    // What it keeps is there after a reset, which is by PSCI.
    console.type_in("reset");
    console.session.send(b"\r");
    console.first_prompt();
    let greeting = console.shell("set greeting");
    assert!(greeting.contains("hello"), "{greeting}");
    console.type_in("reset -s");
    console.session.send(b"\r");
    console.goes_off();
}

fn firmware(project: &Project) -> std::path::PathBuf {
    prepare::package(project, "qemu-efi-arm").expect("UEFI").join("usr/share/AAVMF")
}

/// With a second bank that is erased: the firmware makes a new store for its variables.
#[test]
fn uefi_comes_to_its_shell_on_a_cortex_a8() {
    let project = Project::find(None).expect("the project");
    let bios = Some(firmware(&project).join("AAVMF32_CODE.fd"));
    let board = board::find("cubieboard").expect("a board");
    comes_to_its_shell(&project, &Request { bios, memory: Some("128M".to_string()), ..Request::new(board) });
}

/// With both of its files, as QEMU is given them.
#[test]
#[ignore = "but for its variables, the same as on the other board: a minute"]
fn uefi_comes_to_its_shell_on_a_cortex_a9() {
    let project = Project::find(None).expect("the project");
    let files = firmware(&project);
    let flash: Vec<_> = ["AAVMF32_CODE.fd", "AAVMF32_VARS.fd"].map(|file| name(&files.join(file))).into();
    let dir = project.build(&format!("uefi-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory");
    let manifest = format!("[[guest]]\nname = \"guest\"\nmemory = \"128M\"\nflash = {flash:?}\n");
    fs::write(dir.join("guests.toml"), manifest).expect("a file");
    let guests = Some(Source::Manifest(dir.join("guests.toml")));
    comes_to_its_shell(&project, &Request { guests, ..Request::new(board::find("vexpress-a9").expect("a board")) });
    let _ = fs::remove_dir_all(&dir);
}

/// A disk with Debian's GRUB, and the kernel and initial RAM disk that `spica run` starts.
fn disk(project: &Project, dir: &Path) -> PathBuf {
    let grub = prepare::package(project, "grub-efi-arm-bin").expect("GRUB");
    let guest = prepare::fetch(project, false).expect("Debian's kernel");
    let mut build = Command::new(project.source("guests/grub/build.sh"));
    build.arg(grub.join("usr/lib/grub/arm-efi")).args([guest.kernel, guest.initrd]).arg(dir);
    PathBuf::from(process::output(&mut build, "cannot make the disk").expect("a disk").trim())
}

/// What is asked of Linux: that it found the firmware, and has its clock from it, which is read by calling it.
const ASKED: &str = "dmesg | grep -oE 'efi: EFI v2.*'; cat /sys/class/rtc/rtc0/name; \
                     [ $(cat /sys/class/rtc/rtc0/since_epoch) -gt 1767225600 ] && echo 'the clock goes'; \
                     dmesg | grep -iE 'bug:|warning|oops|unhandled|undefined|unexpected|invalid magic'; \
                     echo 'that is'' all'\n";

#[track_caller]
fn starts_grub_and_that_linux(board: &str) {
    let project = Project::find(None).expect("the project");
    let dir = project.build(&format!("uefi-grub-{board}-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory");
    // Two megabytes, and nothing behind them that would have to be loaded.
    let code = fs::read(firmware(&project).join("AAVMF32_CODE.fd")).expect("UEFI");
    let (code, rest) = code.split_at(2 << 20);
    assert!(rest.iter().all(|&byte| byte == 0));
    fs::write(dir.join("code.fd"), code).expect("a file");
    let disk = disk(&project, &dir);
    // Linux 6.1 packs itself out under the firmware's tables, with a heap of 64 KiB behind what the firmware has loaded
    // of it (arch/arm/boot/compressed/head.S: MALLOC_SIZE is no part of SizeOfImage). With 256 MiB, a table is there,
    // and it overwrites that, on QEMU as well.
    let manifest = format!(
        "[[guest]]\nname = \"guest\"\nmemory = \"192M\"\nflash = [\"code.fd\"]\nrestart = \"never\"\n\
         [[guest.disks]]\nfile = {:?}\n",
        name(&disk)
    );
    fs::write(dir.join("guests.toml"), manifest).expect("a file");
    let guests = Some(Source::Manifest(dir.join("guests.toml")));
    let request = Request { guests, ..Request::new(board::find(board).expect("a board")) };
    let run = prepare(&project, &request).expect("a run");
    let mut console = Console::of(&run, 5 * LIMIT);
    console.until("GNU GRUB");
    console.until("EFI stub: Booting Linux Kernel");
    let prompt = "root@guest:/root# ";
    console.until(prompt);
    console.session.send(ASKED.as_bytes());
    let answer = console.until(&format!("that is all\n{prompt}"));
    for line in ["\nefi: EFI v2.70 by EDK II", "\nrtc-efi rtc-efi.0", "\nthe clock goes\nthat is all"] {
        assert!(answer.contains(line), "{answer}");
    }
    console.session.send(b"exit\n");
    console.goes_off();
    let _ = fs::remove_dir_all(&dir);
}

/// Debian's kernel, its initial RAM disk and a command line are in fw_cfg, where the firmware finds them by itself.
#[test]
#[ignore = "a minute: firmware and kernel, one after the other"]
fn uefi_starts_linux_from_fw_cfg() {
    let project = Project::find(None).expect("the project");
    let guest = prepare::fetch(&project, false).expect("Debian's kernel");
    let request = Request {
        bios: Some(firmware(&project).join("AAVMF32_CODE.fd")),
        kernel: Some(guest.kernel),
        initrd: Some(guest.initrd),
        append: "console=ttyAMA0 from=fw_cfg".to_string(),
        memory: Some("192M".to_string()),
        ..Request::new(board::find("vexpress-a9").expect("a board"))
    };
    let run = prepare(&project, &request).expect("a run");
    let mut console = Console::of(&run, LIMIT);
    let prompt = "root@guest:/root# ";
    let booted = console.until(prompt);
    assert!(booted.contains("EFI stub: Loaded initrd"), "{booted}");
    let asked = "cat /proc/cmdline; ls -d /sys/firmware/efi; cat /proc/device-tree/fw-cfg@9020000/compatible; \
                 echo 'that is'' all'\n";
    console.session.send(asked.as_bytes());
    let answer = console.until(&format!("that is all\n{prompt}"));
    for line in ["from=fw_cfg", "\n/sys/firmware/efi\n", "\nqemu,fw-cfg-mmio\0"] {
        assert!(answer.contains(line), "{answer}");
    }
    console.session.send(b"exit\n");
    console.goes_off();
}

#[test]
#[ignore = "two minutes: firmware, boot loader and kernel, one after the other"]
fn uefi_starts_grub_and_that_linux_on_a_cortex_a8() {
    starts_grub_and_that_linux("cubieboard");
}

#[test]
#[ignore = "two minutes: firmware, boot loader and kernel, one after the other"]
fn uefi_starts_grub_and_that_linux_on_a_cortex_a9() {
    starts_grub_and_that_linux("vexpress-a9");
}

fn name(file: &Path) -> String {
    file.to_str().expect("a name").to_string()
}
