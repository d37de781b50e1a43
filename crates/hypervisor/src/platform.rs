//! From the handover to a machine that guests can be made on: each step needs the ones before.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use spica_addr::HostPa;
use spica_drivers::find_serial;
use spica_drivers::info::Info;
use spica_drivers::tree::Tree;

use crate::arch::cpu::{self, CpuId};
use crate::arch::fixup;
use crate::arch::interrupts::IrqCell;
use crate::board::{BareMachine, Board};
use crate::boot::Handover;
use crate::layout::{FIRST_HEAP_SIZE, MEGABYTE};
use crate::memory::{host_space, pool, ram};
use crate::{console, vectors};
use spica_options::Options;
use spica_ram::spans::{Occupied, Span};

/// The board's devices, for whoever handles interrupts.
pub static BOARD: IrqCell<Option<Board>> = IrqCell::new(None);

/// Uses the board's devices.
///
/// # Panics
/// Before [`bring_up`].
pub fn with_board<R>(body: impl FnOnce(&mut Board) -> R) -> R {
    BOARD.with(|board| match board {
        Some(board) => body(board),
        None => panic!("no board yet"),
    })
}

/// What was found; prints as the one line that Spica says about itself.
pub struct Platform {
    /// The board's name.
    pub model: String,
    /// Banks of RAM.
    pub banks: Vec<Span>,
    /// The initial RAM disk.
    pub initrd: Option<Span>,
    /// What the command line asks for.
    pub options: Options,
    /// The core.
    pub cpu: CpuId,
    /// Physical address of the image.
    pub image: HostPa,
    /// The serial port's `compatible`.
    pub serial: &'static str,
    /// The interrupt controller's `compatible`.
    pub interrupts: &'static str,
    /// The timer's `compatible`.
    pub timer: &'static str,
    /// The timer's frequency in Hz.
    pub timer_frequency: u32,
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let banks: Vec<String> = self
            .banks
            .iter()
            .map(|bank| format!("{} MiB at {:#010x}", bank.len() / u64::from(MEGABYTE), bank.start))
            .collect();
        write!(
            f,
            "spica: {}, {}, {}, uart {}, interrupts {}, timer {} ",
            self.model,
            self.cpu,
            banks.join(" and "),
            self.serial,
            self.interrupts,
            self.timer,
        )?;
        match (self.timer_frequency, self.timer_frequency / 1000 % 1000) {
            (hz, 0) if hz % 1000 == 0 => write!(f, "{} MHz", hz / 1_000_000),
            (hz, khz) if hz % 100_000 == 0 => write!(f, "{}.{} MHz", hz / 1_000_000, khz / 100),
            (hz, _) => write!(f, "{hz} Hz"),
        }
    }
}

/// Brings the machine up. What goes wrong is a panic: there is nothing to go on with.
pub fn bring_up(handover: Handover) -> Platform {
    vectors::install();
    host_space::install(&handover);
    cpu::close_user_state();

    assert!(handover.device_tree_size > 0, "the boot loader passed no device tree in r2: Spica needs one");
    // SAFETY: the host table maps these bytes, and nobody ever writes to them: `ram` keeps them from being handed out.
    let blob =
        unsafe { core::slice::from_raw_parts(handover.device_tree.0 as *const u8, handover.device_tree_size as usize) };
    let tree = Tree::new(blob).unwrap_or_else(|error| panic!("{error}"));
    let serial = find_serial::<BareMachine>(tree).unwrap_or_else(|error| panic!("{error}"));
    console::set_port(serial.driver);

    let info = Info::read(tree).unwrap_or_else(|error| panic!("{error}"));
    let options = Options::parse(&info.command_line);
    console::start_log(options.level);
    let banks: Vec<Span> = info.banks.into_iter().map(span).collect();
    let initrd = info.initrd.map(span);
    let reserved = info.reserved.into_iter();
    let reserved = reserved.map(|reserved| Occupied { span: span(reserved.range), no_map: reserved.no_map });
    take_stock(&handover, &banks, reserved.collect(), initrd);

    let board = Board::discover(tree, &serial.node).unwrap_or_else(|error| panic!("{error}"));
    for words in &board.warnings {
        log::warn!("{words}");
    }
    let platform = Platform {
        cpu: CpuId::current(),
        image: handover.image,
        serial: serial.compatible,
        interrupts: board.interrupts.compatible,
        timer: board.timer.compatible,
        timer_frequency: board.timer.driver.frequency(),
        model: info.model,
        banks,
        initrd,
        options,
    };
    BOARD.with(|slot| *slot = Some(board));
    if fixup::take_pending_abort() {
        log::warn!("an access to a device, of the boot loader or of a driver here, has ended in an external abort");
    }
    platform
}

/// As the arithmetic of memory has it.
fn span(range: Range<u64>) -> Span {
    Span { start: range.start, end: range.end }
}

/// Finds out which RAM is free, and takes the pool from it.
fn take_stock(handover: &Handover, banks: &[Span], mut occupied: Vec<Occupied>, initrd: Option<Span>) {
    let image = Span::new(handover.image.0.into(), host_space::image_size().into());
    let tree = Span::new(handover.device_tree.0.into(), handover.device_tree_size.into());
    for (what, span) in [("the image", Some(image)), ("the device tree", Some(tree)), ("the initrd", initrd)] {
        if let Some(span) = span {
            assert!(
                banks.iter().any(|bank| bank.contains(&span)),
                "{what} at {span} is not in RAM, of which the device tree says {:x?}",
                banks
            );
        }
    }
    if let Some(initrd) = initrd {
        assert!(
            !initrd.overlaps(&image),
            "the initrd at {initrd} is overwritten by the image at {image}: load it further away"
        );
    }
    let others = [Some(tree), initrd];
    occupied.extend(others.into_iter().flatten().map(|span| Occupied { span, no_map: false }));
    // The image's whole megabyte stays out of the map of all RAM: there, its text and constants would be writable.
    // Where a loader put something else into that megabyte, reaching it comes first.
    let megabyte = image.grown_to(MEGABYTE.into());
    let shared = others.into_iter().flatten().any(|span| span.overlaps(&megabyte));
    occupied.push(Occupied { span: if shared { image } else { megabyte }, no_map: !shared });
    let lost = ram::init(banks, &occupied);
    if lost > 0 {
        log::warn!("{} KiB of RAM cannot be used: beyond what can be mapped at its own address", lost / 1024);
    }
    assert!(
        pool::init(handover.image),
        "no {} MiB of contiguous RAM are free: Spica needs them for itself",
        FIRST_HEAP_SIZE / MEGABYTE
    );
}
