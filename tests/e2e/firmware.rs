//! What a guest may start with beside a zImage. Firmware: Debian's U-Boot for QEMU's `virt`, unmodified, starts from
//! flash, and its commands answer as they do on that machine. Kernels: each kind of file, side by side on one board.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use spica_runner::board;
use spica_runner::guests::Source;
use spica_runner::prepare::{self, Request, Run, prepare};
use spica_runner::project::{Project, read};
use spica_runner::qemu::{Event, Session};
use spica_runner::spica::{HALTED, failure, is_power_off};
use spica_runner::{bench, process};

use super::uboot::{code as words, kernel as kernel_of_words, u_boot};

const LIMIT: Duration = Duration::from_secs(120);
const PROMPT: &str = "\n=> ";

/// The checksum of zip, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ if crc & 1 != 0 { 0xedb8_8320 } else { 0 })
    })
}

/// The console of firmware.
pub struct Console {
    pub session: Session,
    pub deadline: Instant,
    /// What Spica said.
    pub spica: Vec<String>,
}

impl Console {
    /// The console of a board that starts now, and ends within so long. What it starts with is the run's.
    #[track_caller]
    pub fn of(run: &Run, limit: Duration) -> Self {
        let session = run.start(None, false).expect("QEMU");
        Self { session, deadline: Instant::now() + limit, spica: Vec::new() }
    }

    /// The same at U-Boot's prompt.
    #[track_caller]
    fn at_prompt(run: &Run) -> Self {
        let mut console = Self::of(run, LIMIT);
        console.until("Hit any key");
        console.session.send(b" ");
        console.until(PROMPT);
        console
    }

    /// What comes until `text` does.
    #[track_caller]
    pub fn until(&mut self, text: &str) -> String {
        let mut seen = String::new();
        loop {
            match self.session.next(None, Some(self.deadline)).expect("a console") {
                Event::Guest(bytes) => seen += &String::from_utf8_lossy(&bytes).replace('\r', ""),
                Event::Spica(line) => self.spica.push(line),
                Event::Quiet | Event::Exited(_) => {
                    panic!("no {text:?}:\n{}\n{:#?}", self.session.console(40), self.spica)
                }
                _ => {}
            }
            if seen.contains(text) {
                return seen;
            }
        }
    }

    /// Types `text`. Firmware reads its UART only now and then, and that keeps no more than 16 characters: each is
    /// typed when the one before it has been shown.
    #[track_caller]
    pub fn type_in(&mut self, text: &str) {
        for letter in text.chars() {
            self.session.send(letter.to_string().as_bytes());
            self.until(&letter.to_string());
        }
    }

    /// What a command of U-Boot prints.
    #[track_caller]
    fn run(&mut self, command: &str) -> String {
        self.type_in(command);
        self.session.send(b"\n");
        self.until(PROMPT)
    }

    /// The guest switches itself off now.
    #[track_caller]
    pub fn goes_off(mut self) {
        while self.spica.last().is_none_or(|line| line != HALTED) {
            match self.session.next(None, Some(self.deadline)).expect("a console") {
                Event::Spica(line) => self.spica.push(line),
                Event::Quiet | Event::Exited(_) => panic!("it is not off:\n{:#?}", self.spica),
                _ => {}
            }
        }
        assert!(self.spica.iter().any(|line| is_power_off(line, "guest")), "{:#?}", self.spica);
        assert_eq!(failure(&self.spica, &["guest".to_string()]), None, "{:#?}", self.spica);
    }
}

/// What U-Boot says of fw_cfg, by commands that read its directory, the processors, and by DMA, a kernel and an initial
/// RAM disk; by a load of a word, and of a byte.
const FW_CFG: [&str; 12] = [
    "qfw cpus",
    "qfw load 40800000 41000000",
    "crc32 40800000 60",
    "crc32 41000000 493e0",
    "md.l 410493e0 1",
    "printenv bootargs",
    "fdt addr 40000000",
    "fdt print /fw-cfg@9020000",
    "md.l 9020010 2",
    "mw.w 9020008 0100",
    "md.l 9020000 1",
    "md.b 9020017 1",
];

/// What fw_cfg has beside that: a file.
const FILE: &str = "opt/org.example/greeting";

/// A kernel that U-Boot starts, and an initial RAM disk that is longer than what devices move in one go.
fn for_fw_cfg(project: &Project, name: &str) -> (PathBuf, PathBuf, PathBuf) {
    let dir = project.build(&format!("fw-cfg-{name}-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory");
    let (kernel, initrd) = (dir.join("kernel"), dir.join("initrd"));
    fs::write(&kernel, kernel_of_words()).expect("a file");
    fs::write(&initrd, (0..75_000u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>()).expect("a file");
    (dir, kernel, initrd)
}

/// What these commands print natively, each for itself.
fn fw_cfg_natively(firmware: &Path, kernel: &Path, initrd: &Path) -> Vec<String> {
    let mut qemu = Command::new("qemu-system-arm");
    qemu.args(["-M", "virt", "-cpu", "cortex-a15", "-m", "64M", "-nographic", "-nic", "none", "-bios"]).arg(firmware);
    qemu.arg("-kernel").arg(kernel).arg("-initrd").arg(initrd).args(["-append", "quiet please"]);
    qemu.arg("-fw_cfg").arg(format!("name={FILE},string=hello"));
    let session = Session::launch(qemu, None, None, false).expect("QEMU");
    let mut console = Console { session, deadline: Instant::now() + LIMIT, spica: Vec::new() };
    console.until("Hit any key");
    console.session.send(b" ");
    console.until(PROMPT);
    let listed = console.run("qfw list");
    assert!(listed.contains(FILE), "{listed}");
    FW_CFG.map(|command| console.run(command)).into()
}

#[track_caller]
fn answers(board: &str, saves: bool) {
    let project = Project::find(None).expect("the project");
    let firmware = u_boot(&project, "u-boot-qemu").expect("U-Boot").join("qemu_arm/u-boot.bin");
    let code = read(&firmware).expect("U-Boot");
    let memory = Some("64M".to_string());
    let (dir, kernel, initrd) = for_fw_cfg(&project, board);
    let greeting = dir.join("greeting");
    fs::write(&greeting, "hello").expect("a file");
    // The other board's answers were the same.
    let native = saves.then(|| fw_cfg_natively(&firmware, &kernel, &initrd));
    let request = Request {
        bios: Some(firmware),
        kernel: Some(kernel),
        initrd: Some(initrd),
        append: "quiet please".to_string(),
        fw_cfg: vec![(FILE.to_string(), greeting)],
        memory,
        ..Request::new(board::find(board).expect("a board"))
    };
    let run = prepare(&project, &request).expect("a run");
    let mut console = Console::at_prompt(&run);

    assert!(console.run("version").contains("U-Boot 20"));
    let listed = console.run("qfw list");
    let names: Vec<_> = listed.lines().skip(1).map(str::trim_end).filter(|name| !name.is_empty()).collect();
    assert_eq!(names, [FILE, "=>"], "{listed}");
    let answers = FW_CFG.map(|command| console.run(command));
    for (command, answer) in FW_CFG.iter().zip(&answers) {
        assert!(!answer.contains("rror"), "{command}: {answer}");
    }
    if let Some(native) = native {
        // The properties of a node come in any order.
        let lines = |answer: &String| {
            let mut lines: Vec<_> = answer.lines().map(str::to_string).collect();
            lines.sort();
            lines
        };
        for ((command, answer), native) in FW_CFG.iter().zip(&answers).zip(&native) {
            assert_eq!(lines(answer), lines(native), "{command}");
        }
    }
    let info = console.run("bdinfo");
    for line in ["-> start    = 0x40000000", "-> size     = 0x04000000", "flashsize   = 0x04000000"] {
        assert!(info.contains(line), "{info}");
    }
    // Flash is read in place, again once it was given commands, and is erased behind its contents.
    let first = format!("==> {:08x}", crc32(&code[..0x1000]));
    assert!(console.run("crc32 0 1000").contains(&first));
    assert!(console.run("mw.l 40200000 12345678 400").contains(PROMPT));
    let pattern = 0x1234_5678_u32.to_le_bytes().repeat(0x400);
    assert!(console.run("crc32 40200000 1000").contains(&format!("==> {:08x}", crc32(&pattern))));
    let written = console.run("cp.b 40200000 40c0000 40");
    assert!(written.contains("done"), "{written}");
    assert!(console.run("crc32 40c0000 40").contains(&format!("==> {:08x}", crc32(&pattern[..0x40]))));
    let erased = console.run("erase 40c0000 +40");
    assert!(erased.contains("Erased 1 sectors"), "{erased}");
    assert!(console.run("crc32 40c0000 40").contains(&format!("==> {:08x}", crc32(&[0xff; 0x40]))));
    assert!(console.run("crc32 0 1000").contains(&first));

    // The environment is in the second bank: two blocks are erased, and half a megabyte is programmed.
    if saves {
        console.run("setenv greeting hello");
        let saved = console.run("saveenv");
        for line in ["Erased 2 sectors", "Writing to Flash... done", "Protected 2 sectors\nOK"] {
            assert!(saved.contains(line), "{saved}");
        }
    }

    // What is not there aborts, and Spica says what it was; U-Boot starts anew, by PSCI.
    console.session.send(b"md 3f000000 1\n");
    let abort = console.until("Hit any key");
    assert!(abort.contains("data abort"), "{abort}");
    console.session.send(b" ");
    console.until(PROMPT);
    let greeting = console.run("printenv greeting");
    assert_eq!(greeting.contains("greeting=hello"), saves, "{greeting}");
    let missing = "read of 0x3f000000: PCI configuration on QEMU's virt, this guest has none";
    assert_eq!(console.spica.iter().filter(|line| line.contains(missing)).count(), 1, "{:#?}", console.spica);

    // It starts the kernel from there, which prints a letter. By itself, it would load the RAM disk to where this guest
    // has no RAM.
    let loaded = console.run(FW_CFG[1]);
    assert!(loaded.contains("loading kernel to address 40800000 size 60"), "{loaded}");
    console.type_in("bootz 40800000 - $fdtcontroladdr");
    console.session.send(b"\n");
    let started = console.until("\nA\n");
    assert!(started.contains("Starting kernel ..."), "{started}");
    console.goes_off();
    let _ = fs::remove_dir_all(&dir);
}

#[test]
fn u_boot_answers_on_a_cortex_a8() {
    answers("cubieboard", true);
}

#[test]
fn u_boot_answers_on_a_cortex_a9() {
    // To save takes four seconds.
    answers("vexpress-a9", false);
}

/// Makes a disk of Debian's kernel and its initial RAM disk; U-Boot starts them by itself, from where it looks for what
/// to start.
#[track_caller]
fn starts_linux_from_a_disk(board: &str) {
    let project = Project::find(None).expect("the project");
    let dir = project.build(&format!("u-boot-disk-{board}-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory");
    let firmware = u_boot(&project, "u-boot-qemu").expect("U-Boot").join("qemu_arm/u-boot.bin");
    let guest = prepare::fetch(&project, false).expect("Debian's kernel");
    let mut build = Command::new(project.source("guests/u-boot/disk.sh"));
    build.args([guest.kernel, guest.initrd]).arg(&dir);
    let disk = process::output(&mut build, "cannot make the disk").expect("a disk");
    let manifest = format!(
        "[[guest]]\nname = \"guest\"\nmemory = \"192M\"\nflash = [{firmware:?}]\nrestart = \"never\"\n\
         [[guest.disks]]\nfile = {:?}\n",
        disk.trim()
    );
    fs::write(dir.join("guests.toml"), manifest).expect("a file");
    let guests = Some(Source::Manifest(dir.join("guests.toml")));
    let request = Request { guests, ..Request::new(board::find(board).expect("a board")) };
    let run = prepare(&project, &request).expect("a run");
    let mut console = Console::of(&run, LIMIT);
    console.until("Found /extlinux/extlinux.conf");
    console.until("Starting kernel ...");
    let prompt = "root@guest:/root# ";
    console.until(prompt);
    console.session.send(b"dmesg | grep -c 'Linux version 6.1'; cat /sys/block/vda/size\n");
    let answer = console.until(prompt);
    let sectors = fs::metadata(dir.join("disk.img")).expect("the disk").len() / 512;
    assert!(answer.contains(&format!("\n1\n{sectors}\n")), "{answer}");
    console.session.send(b"exit\n");
    console.goes_off();
    let _ = fs::remove_dir_all(&dir);
}

#[test]
#[ignore = "half a minute: boot loader and kernel, one after the other"]
fn u_boot_starts_linux_from_a_disk_on_a_cortex_a8() {
    starts_linux_from_a_disk("cubieboard");
}

#[test]
#[ignore = "half a minute: boot loader and kernel, one after the other"]
fn u_boot_starts_linux_from_a_disk_on_a_cortex_a9() {
    starts_linux_from_a_disk("vexpress-a9");
}

/// U-Boot with its own unit tests, built from the source that Debian has.
fn with_unit_tests(project: &Project) -> PathBuf {
    let source = prepare::source(project, "u-boot").expect("the source of U-Boot");
    let mut build = Command::new(project.source("guests/u-boot/build.sh"));
    build.arg(source).arg(project.build("u-boot-tests"));
    PathBuf::from(process::output(&mut build, "cannot build U-Boot").expect("U-Boot").trim())
}

/// The last of U-Boot's unit tests; behind it is the prompt. Some tests print that, too.
const LAST_TESTS: &str = "----Running str tests----";

/// What the unit tests print on QEMU's `virt`.
fn natively(firmware: &Path) -> String {
    let mut qemu = Command::new("timeout");
    qemu.args(["120", "qemu-system-arm", "-M", "virt,gic-version=2", "-cpu", "cortex-a15", "-m", "128M"]);
    qemu.args(["-nographic", "-nic", "none", "-icount", "shift=1,sleep=off", "-bios"]).arg(firmware);
    let mut qemu = qemu.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("QEMU");
    let mut keys = qemu.stdin.take().expect("a pipe");
    keys.write_all(b" \nut all\n").expect("a pipe");
    let mut output = qemu.stdout.take().expect("a pipe");
    let (mut printed, mut bytes) = (String::new(), [0; 4096]);
    let is_over = |printed: &str| printed.find(LAST_TESTS).is_some_and(|at| printed[at..].contains(PROMPT));
    while !is_over(&printed) {
        let count = output.read(&mut bytes).expect("a pipe");
        assert_ne!(count, 0, "the tests do not end:\n{printed}");
        printed += &String::from_utf8_lossy(&bytes[..count]).replace('\r', "");
    }
    keys.write_all(b"poweroff\n").expect("a pipe");
    qemu.wait().expect("QEMU");
    printed
}

/// The lines of `ut all`, but for what differs from run to run: figures of time, and what a test reads that it never
/// wrote (`linebuf`, in `print_hexdump_line`). Those of the clock are left out if it is `coarse`.
fn results(console: &str, coarse: bool) -> Vec<String> {
    let begin = console.find("----Running").expect("a beginning");
    let all = &console[begin..];
    let lines = all[..all.find(PROMPT).expect("an end")].lines();
    let mut clock = false;
    let part = |line: &str| {
        if line.starts_with("----Running") {
            clock = line == "----Running time tests----";
        }
        match line {
            _ if clock && coarse => None,
            _ if line.starts_with("test_time_comparison: ") || line.starts_with("test_udelay: ") => {
                line.split(": ").next().map(str::to_string)
            }
            _ if line.contains("-1 == linebuf[0]") => line.split(", got").next().map(str::to_string),
            _ => Some(line.trim_end().to_string()),
        }
    };
    lines.filter_map(part).collect()
}

/// Its unit tests come to what they come to on QEMU's `virt`, the three that fail there because they are made for
/// U-Boot's sandbox included.
#[test]
#[ignore = "builds U-Boot, once, and runs all of its unit tests: three minutes"]
fn u_boots_unit_tests_come_to_the_same() {
    let project = Project::find(None).expect("the project");
    let firmware = with_unit_tests(&project);
    let native = natively(&firmware);
    let expected = results(&native, false);
    assert!(expected.len() > 200 && expected.iter().any(|line| line == "----Running env tests----"), "{expected:#?}");
    for board in ["cubieboard", "vexpress-a9"] {
        let request = Request {
            bios: Some(firmware.clone()),
            memory: Some("128M".to_string()),
            icount: Some(bench::ICOUNT_SHIFT),
            ..Request::new(board::find(board).expect("a board"))
        };
        let run = prepare(&project, &request).expect("a run");
        let mut console = Console::at_prompt(&run);
        console.type_in("ut all");
        console.session.send(b"\n");
        let mut printed = console.until(LAST_TESTS);
        printed += &console.until(PROMPT);
        // Its clock counts microseconds. In the guest's 62.5 MHz, rounded down, every second one is half a tick short.
        let coarse = board == "vexpress-a9";
        let (is, should) = (results(&printed, coarse), results(&native, coarse));
        for (is, should) in is.iter().zip(&should) {
            assert_eq!(is, should, "{board}:\n{printed}");
        }
        assert_eq!(is.len(), should.len(), "{board}:\n{printed}");
        console.session.send(b"poweroff\n");
        console.goes_off();
    }
}

/// A program in T32 that prints `T` and a line feed on the guest machine's UART, then turns its machine off.
const T32: [u16; 12] = [
    0xf04f, 0x6110, // mov.w r1, #0x09000000
    0x2254, // movs r2, #'T'
    0x600a, // str r2, [r1]
    0x220a, // movs r2, #'\n'
    0x600a, // str r2, [r1]
    0x2008, // movs r0, #8
    0xf2c8, 0x4000, // movt r0, #0x8400
    0xf7f0, 0x8000, // smc #0
    0xe7fe, // b .
];

/// A program that prints a letter, in each kind of file, and with code that is not at its beginning where that can be.
#[test]
fn every_kind_of_image_starts() {
    let project = Project::find(None).expect("the project");
    let dir = project.build(&format!("images-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory");
    let code: Vec<u8> = words().iter().flat_map(|word| word.to_le_bytes()).collect();
    let behind = [&[0; 16][..], &code].concat();

    // Its data segment is above the code, and is all zeroes; its entry point is virtual.
    let mut elf = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let mut put = |words: &[u32]| words.iter().for_each(|word| elf.extend(word.to_le_bytes()));
    put(&[2 | 40 << 16, 1, 0xc010_0010, 52, 0, 0, 52 | 32 << 16, 2, 0]);
    let (offset, len) = (52 + 64, behind.len() as u32);
    put(&[1, offset, 0xc010_0000, 0x4010_0000, len, len, 5, 4]);
    put(&[1, 0, 0xc020_0000, 0x4020_0000, 0, 0x1000, 6, 4]);
    elf.extend(&behind);

    // Its entry point is odd, and no multiple of four is next to it.
    let t32: Vec<u8> = [0; 18].into_iter().chain(T32.into_iter().flat_map(u16::to_le_bytes)).collect();

    let mut header = [0; 64];
    let fields = [0x2705_1956, 0, 0, len, 0x4020_0000, 0x4020_0010, crc32(&behind), 0x0502_0200];
    for (field, value) in header.chunks_mut(4).zip(fields) {
        field.copy_from_slice(&u32::to_be_bytes(value));
    }
    let crc = crc32(&header);
    header[4..8].copy_from_slice(&crc.to_be_bytes());
    let uimage = [&header[..], &behind].concat();

    let mut manifest = String::new();
    for (name, bytes, more) in [
        ("elf", &elf, ""),
        ("uimage", &uimage, ""),
        ("raw", &behind, "load = 0x4040_0000\nentry = 0x4040_0010\n"),
        ("t32", &t32, "load = 0x4040_0000\nentry = 0x4040_0013\n"),
    ] {
        fs::write(dir.join(name), bytes).expect("a file");
        manifest += &format!("[[guest]]\nname = \"{name}\"\nkernel = \"{name}\"\nmemory = \"16M\"\n{more}");
    }
    // The same in flash, where it first programs itself: what comes behind the store is what is there now.
    let programs_itself = [
        0xe28f_4010_u32, // adr r4, letter
        0xe302_3042,     // movw r3, #0x2042
        0xe34e_33a0,     // movt r3, #0xe3a0: mov r2, #'B'
        0xe3a0_2040,     // mov r2, #0x40
        0xe584_2000,     // str r2, [r4]: program a word
        0xe584_3000,     // str r3, [r4]
        0xe3a0_2043,     // letter: mov r2, #'C'
        0xe3a0_1409,     // mov r1, #0x09000000
        0xe581_2000,     // str r2, [r1]
    ];
    // Then it reads a file from fw_cfg by DMA, more than devices move in several goes, and goes on as if that took no
    // time. All words of the descriptor are big-endian.
    let reads_fw_cfg = [
        0xe300_4000_u32, // movw r4, #0x0000
        0xe344_4080,     // movt r4, #0x4080: where the descriptor is
        0xe302_3000,     // movw r3, #0x2000
        0xe340_3a00,     // movt r3, #0x0a00: select item 0x20, and read
        0xe584_3000,     // str r3, [r4]
        0xe300_3d00,     // movw r3, #0x0d00
        0xe34a_30bb,     // movt r3, #0xa0bb: 900,000 bytes
        0xe584_3004,     // str r3, [r4, #4]
        0xe3a0_3000,     // mov r3, #0
        0xe584_3008,     // str r3, [r4, #8]
        0xe309_3040,     // movw r3, #0x9040
        0xe584_300c,     // str r3, [r4, #12]: to 0x40900000
        0xe300_5000,     // movw r5, #0x0000
        0xe340_5902,     // movt r5, #0x0902
        0xe308_3040,     // movw r3, #0x8040
        0xe585_3014,     // str r3, [r5, #20]
        0xe594_6000,     // ldr r6, [r4]
        0xe30b_3b9f,     // movw r3, #0xbb9f
        0xe344_309d,     // movt r3, #0x409d
        0xe5d3_7000,     // ldrb r7, [r3]
        0xe356_0000,     // cmp r6, #0
        0x0357_0044,     // cmpeq r7, #'D'
        0x13a0_704e,     // movne r7, #'N'
        0xe581_7000,     // str r7, [r1]
    ];
    // It calls a function in RAM, has DMA write another one over that, and calls what is there now.
    let runs_what_was_read = [
        0xe300_8000_u32, // movw r8, #0
        0xe344_80a0,     // movt r8, #0x40a0: where a function goes
        0xe307_304e,     // movw r3, #0x704e
        0xe34e_33a0,     // movt r3, #0xe3a0: mov r7, #'N'
        0xe588_3000,     // str r3, [r8]
        0xe30f_3f1e,     // movw r3, #0xff1e
        0xe34e_312f,     // movt r3, #0xe12f: bx lr
        0xe588_3004,     // str r3, [r8, #4]
        0xee07_3f15,     // mcr p15, 0, r3, c7, c5, 0
        0xf57f_f06f,     // isb
        0xe12f_ff38,     // blx r8
        0xe302_3100,     // movw r3, #0x2100
        0xe340_3a00,     // movt r3, #0x0a00: select item 0x21, and read
        0xe584_3000,     // str r3, [r4]
        0xe3a0_3302,     // mov r3, #0x08000000: 8 bytes
        0xe584_3004,     // str r3, [r4, #4]
        0xe30a_3040,     // movw r3, #0xa040: to 0x40a00000
        0xe584_300c,     // str r3, [r4, #12]
        0xe308_3040,     // movw r3, #0x8040
        0xe585_3014,     // str r3, [r5, #20]
        0xee07_3f15,     // mcr p15, 0, r3, c7, c5, 0
        0xf57f_f06f,     // isb
        0xe12f_ff38,     // blx r8
        0xe581_7000,     // str r7, [r1]
    ];
    let function = [0xe3a0_7043_u32, 0xe12f_ff1e]; // mov r7, #'C'; bx lr
    fs::write(dir.join("function"), function.map(u32::to_le_bytes).concat()).expect("a file");
    let mut file = vec![0; 900_000];
    file[899_999] = b'D';
    fs::write(dir.join("file"), file).expect("a file");
    // Firmware for a board without firmware of its own calls PSCI by HVC.
    const SMC: u32 = 0xe160_0070;
    const HVC: u32 = 0xe140_0070;
    let by_hvc = words().map(|word| if word == SMC { HVC } else { word });
    let flash: Vec<u8> = programs_itself
        .into_iter()
        .chain(reads_fw_cfg)
        .chain(runs_what_was_read)
        .chain(by_hvc)
        .flat_map(u32::to_le_bytes)
        .collect();
    fs::write(dir.join("flash"), &flash).expect("a file");
    manifest += "[[guest]]\nname = \"flash\"\nmemory = \"16M\"\nflash = [\"flash\"]\n\
                 fw_cfg = [{ name = \"opt/a\", file = \"file\" }, { name = \"opt/b\", file = \"function\" },\
                 { name = \"opt/c\", string = \"c\" }]\n";
    fs::write(dir.join("guests.toml"), manifest).expect("a file");
    let guests = Some(Source::Manifest(dir.join("guests.toml")));
    let request = Request { guests, ..Request::new(board::find("vexpress-a9").expect("a board")) };
    let run = prepare(&project, &request).expect("a run");
    let mut session = run.start(None, false).expect("QEMU");
    let deadline = Instant::now() + LIMIT;
    let (mut said, mut spica) = (String::new(), Vec::<String>::new());
    while spica.last().is_none_or(|line| line != HALTED) {
        match session.next(None, Some(deadline)).expect("a console") {
            Event::Guest(bytes) => said += &String::from_utf8_lossy(&bytes),
            Event::Spica(line) => spica.push(line),
            Event::Quiet | Event::Exited(_) => panic!("it does not end:\n{said}\n{spica:#?}"),
            _ => {}
        }
    }
    for (name, kind, prints) in [
        ("elf", "its kernel is an ELF file, and starts at 0x40100010", "A"),
        ("uimage", "its kernel is a uImage, and starts at 0x40200010", "A"),
        ("raw", "its kernel is a raw image, and starts at 0x40400010", "A"),
        ("t32", "its kernel is a raw image, and starts at 0x40400012 in Thumb state", "T"),
        ("flash", "starts from flash, with 264 bytes in it and 0 in the second bank", "BDCA"),
    ] {
        assert!(said.lines().any(|line| line.trim_end() == format!("{name}| {prints}")), "{said}\n{spica:#?}");
        assert!(spica.contains(&format!("guest {name}: {kind}")), "{spica:#?}");
    }
    let _ = fs::remove_dir_all(&dir);
}
