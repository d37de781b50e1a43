//! The built-in test of the platform (`spica.selftest`): is what guests will rest on really there?
//!
//! Each step says `selftest: … ok` or panics. Bytes that arrive on the console are echoed for ever after, by interrupt.

use alloc::vec::Vec;
use core::arch::global_asm;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::arch::barrier::wait_for_interrupt;
use crate::arch::{copy, fixup, interrupts};
use crate::engine::code::Room;
use crate::host::Host;
use crate::host_cpu::HostCpu;
use crate::layout::MEGABYTE;
use crate::memory::pool::Share;
use crate::memory::{device, host_space, phys, ram};
use crate::platform::{BOARD, Platform, with_board};
use crate::vm::boot::Image;
use crate::vm::devices::Devices;
use crate::vm::load::Sizes;
use crate::vm::{Pause, Stop, Vm};
use crate::{console, println, vectors};

use spica_addr::HostPa;
use spica_bundle::GuestSpec;
use spica_console::consoles::Consoles;
use spica_dbt::Capacity;
use spica_sched::{Latency, RunQueue};
use spica_switches::Switches;

/// Timer interrupts that have come.
static TICKS: AtomicU32 = AtomicU32::new(0);

/// How many ticks are waited for, and how many come in a second.
const WANTED: u32 = 10;
const PER_SECOND: u32 = 100;

/// Bytes that are tried as a guest's RAM.
const GUEST: u32 = 16 * MEGABYTE;

fn handle() {
    let Some(line) = with_board(|board| board.interrupts.driver.acknowledge()) else { return };
    with_board(|board| {
        if line == board.timer_line {
            TICKS.fetch_add(1, Ordering::Relaxed);
            let timer = &mut board.timer.driver;
            timer.acknowledge();
            let next = timer.now() + u64::from(timer.frequency() / PER_SECOND);
            timer.set_deadline(Some(next));
        } else if Some(line) == board.console_line {
            while let Some(byte) = console::read() {
                console::write(&[byte]);
            }
        }
        board.interrupts.driver.end(line);
    });
}

/// Tests, then echoes what is typed, for ever.
pub fn run(platform: &Platform) -> ! {
    heap();
    copies();
    memory(platform);
    faults();
    timer();
    interrupts::without(|| two_guests(platform));
    let line = with_board(|board| board.console_line);
    match line {
        Some(line) => {
            with_board(|board| board.interrupts.driver.enable(line));
            console::enable_rx_interrupt();
            println!("selftest: console input echoes, by interrupt {}", line.0);
        }
        None => println!("selftest: the device tree tells no interrupt of the console"),
    }
    println!("selftest: done");
    loop {
        wait_for_interrupt();
    }
}

global_asm!(include_str!("selftest_guest.s"));

unsafe extern "C" {
    static selftest_guest_start: u8;
    static selftest_guest_mark: u8;
    static selftest_guest_end: u8;
}

/// The kernel of `selftest_guest.s`, with its mark.
fn guest_kernel(mark: u32) -> &'static [u8] {
    let start = &raw const selftest_guest_start;
    let (at, end) = (&raw const selftest_guest_mark, &raw const selftest_guest_end);
    // SAFETY: the symbols are the start, a word of and the end of constant data.
    let (mut kernel, at) = unsafe {
        let len = end.offset_from_unsigned(start);
        (core::slice::from_raw_parts(start, len).to_vec(), at.offset_from_unsigned(start))
    };
    kernel[at..at + 4].copy_from_slice(&mark.to_le_bytes());
    kernel.leak()
}

/// Two virtual machines exist at once, and run one after the other: neither finds anything of the other's in the core,
/// and each keeps what is its own.
fn two_guests(platform: &Platform) {
    const SIZES: Sizes = Sizes {
        room: Room { code: 16, mirror: 8, near: 0 },
        capacity: Capacity { blocks: 256, exits: 1024, mirror_pages: 8 },
        table_bytes: MEGABYTE / 4,
        spaces: 4,
        in_place: None,
    };
    let mut core = HostCpu::new(host_space::tables(platform.image), RunQueue::new(0, 0));
    device::seal();
    let Some(board) = BOARD.with(Option::take) else { panic!("the board's devices are in use") };
    let marks = [0x1111_1111, 0x2222_2222];
    let names = marks.map(|mark| alloc::format!("{mark:x}"));
    let mut host = Host::new(board, 0, Consoles::new(names));
    let shares = marks.map(|_| SIZES.share(GUEST, 0).unwrap_or_else(|error| panic!("{error}")));
    let mut shares = shares.into_iter();
    let mut guests = marks.map(|mark| {
        let Some(share) = shares.next() else { panic!("as many shares as guests") };
        let spec = GuestSpec::new(alloc::format!("{mark:x}"), guest_kernel(mark), GUEST);
        let devices = Devices::new(&spec, 0, &mut host, 0).unwrap_or_else(|error| panic!("{error}"));
        let ram = Vm::memory(&spec).unwrap_or_else(|error| panic!("{error}"));
        let image = Image::new(core.enter_host_space(), &spec, GUEST).unwrap_or_else(|error| panic!("{error}"));
        let mut vm = Vm::create(&spec, ram, Switches::all(), SIZES, share, devices, &mut host)
            .unwrap_or_else(|error| panic!("{error}"));
        vm.load(&image, true);
        vm
    });
    for vm in &mut guests {
        vm.arrive();
        assert_eq!(
            vm.run(&mut core, &mut host, &mut Latency::default()),
            Pause::Stop(Stop::PowerOff),
            "the guest should power itself off"
        );
        vm.depart(&mut core);
    }
    for (vm, mark) in guests.iter_mut().zip(marks) {
        let regs = &vm.cpu().regs;
        assert_eq!(regs[4], mark, "a guest lost its register");
        assert_eq!(regs[5..10], [0; 5], "a guest found something of another's");
        assert_eq!(regs[10], mark, "a guest lost its banked register");
        assert_eq!(vm.cpu().page.tpidruro, mark, "a guest lost its thread ID");
    }
    BOARD.with(|slot| *slot = Some(host.into_board()));
    println!("selftest: two guests ok");
}

/// The first bytes of words are copied, as many as are said, and none around them.
fn copies() {
    const WORDS: usize = 30;
    let from: [u32; WORDS] = core::array::from_fn(|at| 0x0101_0101_u32.wrapping_mul(at as u32 + 1));
    for start in 0..4 {
        for bytes in 0..=4 * (WORDS - start) {
            let mut to = [u32::MAX; WORDS];
            copy::first_bytes(&mut to[start..], &from[start..], bytes);
            let (to, from) = (to.map(u32::to_ne_bytes), from.map(u32::to_ne_bytes));
            let (to, from) = (to.as_flattened(), from.as_flattened());
            let (before, behind) = (4 * start, 4 * start + bytes);
            assert_eq!(to[before..behind], from[before..behind], "{bytes} bytes from word {start} on");
            assert!(to[..before].iter().chain(&to[behind..]).all(|&byte| byte == 0xff), "more than {bytes} bytes");
        }
    }
    println!("selftest: copies ok");
}

fn heap() {
    let mut blocks: Vec<Vec<u32>> = (0..64u32).map(|index| (0..256 * index).collect()).collect();
    blocks.retain(|block| block.len() % 512 == 0);
    for block in &blocks {
        assert!(block.iter().enumerate().all(|(index, &value)| index as u32 == value), "the heap forgets");
    }
    println!("selftest: heap ok");
}

fn memory(platform: &Platform) {
    let mut share = Share::take(0, 32768).unwrap_or_else(|error| panic!("{error}"));
    let mut block = share.alloc(16384, 16384).expect("the share has room");
    assert!(block.va().is_multiple_of(16384) && block.pa().0.is_multiple_of(16384), "the block is misaligned");
    block.words_mut()[4095] = 0x600d_cafe;
    let alias = phys::pointer(block.pa(), block.len()).cast::<u32>();
    // SAFETY: the block's last word, at its other address; the block is ours.
    assert_eq!(unsafe { alias.add(4095).read_volatile() }, 0x600d_cafe, "the pool and its physical address differ");
    let guest = ram::take(HostPa(0), GUEST, MEGABYTE).expect("RAM for a guest is free");
    // SAFETY: taken just now.
    let words = unsafe { phys::slice_mut(guest, GUEST) };
    words.iter_mut().step_by(4096).zip(0u32..).for_each(|(byte, index)| *byte = index as u8);
    assert!(words.iter().step_by(4096).zip(0u32..).all(|(byte, index)| *byte == index as u8), "RAM forgets");
    let mapped = host_space::region_entries().iter().filter(|&&entry| entry != 0).count();
    println!(
        "selftest: memory ok: a share of the pool at {}, a guest's RAM at {guest}, {mapped} MiB of the region mapped",
        block.pa()
    );
    if let Some(initrd) = platform.initrd {
        // SAFETY: the initrd is kept from being handed out.
        let bytes = unsafe { phys::slice(HostPa(initrd.start as u32), initrd.len() as u32) };
        println!("selftest: initrd {} bytes, checksum {:08x}", bytes.len(), crc32(bytes));
    }
}

/// CRC-32 as in ISO 3309 and gzip, so that it can be compared with the file.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ 0xedb8_8320 & (crc & 1).wrapping_neg())
    })
}

/// Write xor execute, and the list of faults that are survived.
fn faults() {
    static CONSTANT: u32 = 0x600d_cafe;
    static VARIABLE: AtomicU32 = AtomicU32::new(0);
    let text = faults as *const () as u32 & !3;
    let constant = &raw const CONSTANT as u32;
    let variable = VARIABLE.as_ptr() as u32;
    // SAFETY: what is written is a test variable's, or must not be writable, in which case the word would be the one
    // that is there.
    unsafe {
        let word = fixup::read_word(text).expect("the text cannot be read");
        assert!(!fixup::write_word(text, word), "the text can be written");
        assert!(!fixup::write_word(constant, CONSTANT), "constants can be written");
        assert!(fixup::write_word(variable, 7) && VARIABLE.load(Ordering::Relaxed) == 7, "variables cannot be written");
        assert!(fixup::read_word(host_space::stack_guard()).is_none(), "the stack has no guard page");
        assert!(
            fixup::read_word(crate::layout::CODE_CACHE_START).is_none(),
            "the code cache is mapped in the host address space"
        );
    }
    println!("selftest: faults ok");
}

fn timer() {
    vectors::set_irq_handler(handle);
    let (frequency, start) = with_board(|board| {
        let line = board.timer_line;
        board.interrupts.driver.enable(line);
        let timer = &mut board.timer.driver;
        let start = timer.now();
        timer.set_deadline(Some(start + u64::from(timer.frequency() / PER_SECOND)));
        (timer.frequency(), start)
    });
    // SAFETY: vectors and handler are set up, and the board is not in use.
    unsafe { interrupts::unmask() }
    while TICKS.load(Ordering::Relaxed) < WANTED {
        wait_for_interrupt();
    }
    let elapsed = with_board(|board| board.timer.driver.now()) - start;
    let least = u64::from(frequency / PER_SECOND) * u64::from(WANTED);
    assert!(elapsed >= least, "{WANTED} ticks came within {elapsed} counts, which is too soon");
    println!("selftest: timer ok: {WANTED} interrupts in {} ms", elapsed * 1000 / u64::from(frequency));
    with_board(|board| board.timer.driver.set_deadline(None));
}
