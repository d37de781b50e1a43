//! A BeagleBone Black, which no emulator has: its own device tree, as Debian's kernel package brings it, leads Spica's
//! drivers to the right registers; and `spica pack` makes for it what docs/booting.md says.

use std::fs;
use std::path::PathBuf;
use std::slice;

use spica_drivers::info::Info;
use spica_drivers::models::am33xx::{Chip, TIMER2, UART0};
use spica_drivers::models::bus::Bus;
use spica_drivers::tree::Tree;
use spica_drivers::{Board, Counter, Line, find_serial};
use spica_runner::guests::Source;
use spica_runner::project::{Project, read, read_text, remove_dir};
use spica_runner::{guest, pack};

const TREE: &str = "am335x-boneblack.dtb";

fn device_tree(project: &Project) -> PathBuf {
    guest::prepare(project, false).expect("the Debian guest").device_trees.join(TREE)
}

#[test]
fn the_drivers_find_their_devices() {
    let project = Project::find(None).expect("the project");
    let bytes = read(&device_tree(&project)).expect("the device tree");
    let tree = Tree::new(&bytes).expect("a device tree");
    // The models answer at the addresses of the manual's memory map, and nowhere else.
    let chip = Chip::new();

    let info = Info::read(tree).expect("memory");
    assert_eq!(info.model, "TI AM335x BeagleBone Black (ti,am33xx)");
    assert_eq!(info.banks, slice::from_ref(&(0x8000_0000..0xa000_0000)));

    let mut serial = find_serial::<Bus>(tree).expect("the UART");
    assert_eq!(serial.node, "/ocp/interconnect@44c00000/segment@200000/target-module@9000/serial@0");
    serial.driver.put(b'!');
    assert_eq!(chip.uart.borrow().sent, b"!");

    let mut board = Board::<Bus>::discover(tree, &serial.node).expect("interrupt controller and timers");
    let found = [&board.interrupts.node, &board.timer.node];
    let timer = "/ocp/interconnect@48000000/segment@0/target-module@40000/timer@0";
    assert_eq!(found, ["/ocp/interrupt-controller@48200000", timer]);
    assert_eq!((board.timer_line, board.console_line), (Line(TIMER2), Some(Line(UART0))));
    assert_eq!(board.timer.driver.frequency(), 24_000_000);
    assert_eq!(board.timer.driver.counter(), Some(Counter { address: 0x4804_203c, down: false }));
    assert!(!chip.watchdog.borrow().runs, "the watchdog resets the board");

    let (interrupts, timer) = (&mut board.interrupts.driver, &mut board.timer.driver);
    interrupts.enable(board.timer_line);
    let deadline = timer.now() + 24_000;
    timer.set_deadline(Some(deadline));
    while !chip.intc.borrow().irq() {
        assert!(timer.now() < deadline + 100, "no interrupt comes");
    }
    assert_eq!(interrupts.acknowledge(), Some(Line(TIMER2)));
    assert!(timer.now() >= deadline);
}

/// The lines of a text that are indented, without what begins them; `…` ends what matters.
fn commands(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("    ")).map(str::trim).collect()
}

#[test]
fn a_card_has_what_the_page_says() {
    let project = Project::find(None).expect("the project");
    let page = read_text(&project.source("docs/booting.md")).expect("the page");
    let (_, part) = page.split_once("\n## A BeagleBone Black's card\n").expect("the part about the board");
    let part = part.split("\n## ").next().unwrap_or(part);

    // The command of the page, word for word.
    let command = commands(part).into_iter().find(|line| line.starts_with("./spica pack ")).expect("the command");
    let option = |name: &str| {
        let mut words = command.split_whitespace().skip_while(|word| *word != name);
        words.nth(1).unwrap_or_else(|| panic!("no {name} in {command}"))
    };
    assert!(option("--board-dtb").ends_with(TREE));
    let output = project.build(&format!("beaglebone-{}", std::process::id()));
    let request = pack::Request {
        guests: Source::Count(option("--count").parse().expect("a number")),
        board_memory_mib: spica_bundle::parse_memory(option("--board-memory")).expect("a size") >> 20,
        board_dtb: Some(device_tree(&project)),
        append: String::new(),
        output: output.clone(),
    };
    let files = pack::pack(&project, &request).expect("the files of the card");
    let size = |name: &str| files.iter().find(|(path, _)| path.ends_with(name)).map(|(_, size)| *size);
    let readme = read_text(&output.join("README")).expect("a file");
    let same = fs::read(output.join("board.dtb")).ok() == fs::read(device_tree(&project)).ok();
    remove_dir(&output).expect("removed");

    assert!(same, "board.dtb is not what was given");
    for name in ["spica.zImage", "guests.cpio", "board.dtb", "boot.cmd", "boot.scr", "README"] {
        assert!(size(name).is_some_and(|size| size > 0), "no {name}");
        assert!(part.contains(name) || name == "boot.cmd" || name == "README", "the page does not speak of {name}");
    }
    // What is typed at U-Boot's prompt is the same on the page and on the card.
    let typed: Vec<_> = commands(&readme).into_iter().filter(|line| !line.contains("scriptaddr")).collect();
    assert!(typed.len() >= 4 && typed.iter().all(|line| commands(part).contains(line)), "{typed:#?}");
    // Nothing is loaded over something else, at the addresses that U-Boot has for the board.
    let at = |name: &str| {
        let row = part.lines().find(|line| line.contains(&format!("`{name}`"))).expect("a row of the table");
        let address = row.split_whitespace().find_map(|word| word.strip_prefix("0x")).expect("an address");
        u64::from_str_radix(&address.replace('_', ""), 16).expect("a number")
    };
    let (image, tree, bundle) = (at("kernel_addr_r"), at("fdt_addr_r"), at("ramdisk_addr_r"));
    let len = |name| size(name).unwrap_or_default();
    // Behind the image are two megabytes at most that it uses while it starts.
    assert!(image + len("spica.zImage") + (2 << 20) < tree && len("spica.zImage") < 2 << 20);
    assert!(tree + len("board.dtb") < bundle && bundle + len("guests.cpio") < 0xa000_0000 - (48 << 20));
}
