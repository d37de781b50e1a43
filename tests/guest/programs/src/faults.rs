//! Faults: which signal, which code, which address, and which registers a program sees.

use core::arch::global_asm;

use spica_freestanding::linux::{Backing, exit, fork, map, number, protection, simple, wait};
use spica_freestanding::signals::signal;

use crate::line;
use crate::signals::{Caught, catch};

macro_rules! snippets {
    ($($name:ident: $($line:literal)*;)*) => {
        $(global_asm!(
            ".arm", ".fpu neon", ".arch_extension idiv", ".arch_extension sec",
            concat!(".global ", stringify!($name)), ".balign 4", concat!(stringify!($name), ":"), $($line,)* ".ltorg"
        );)*
        unsafe extern "C" { $(fn $name();)* }
    };
}

// Small functions of r0. The first instruction is the one that is tried, unless the name says otherwise.
snippets! {
    read_word: "ldr r0, [r0]" "bx lr";
    write_word: "str r0, [r0]" "bx lr";
    call_there: "bx r0";
    undefined_a32: "udf #0x1234" "bx lr";
    // VQDMULH of bytes, which it does not have.
    undefined_neon_word: ".inst 0xf2000b00" "bx lr";
    divide_a32: "mov r1, #7" "sdiv r0, r0, r1" "bx lr";
    read_midr: "mrc p15, 0, r0, c0, c0, 0" "bx lr";
    read_sctlr: "mrc p15, 0, r0, c1, c0, 0" "bx lr";
    write_sctlr: "mcr p15, 0, r0, c1, c0, 0" "bx lr";
    write_ttbr0: "mcr p15, 0, r0, c2, c0, 0" "bx lr";
    write_dacr: "mcr p15, 0, r0, c3, c0, 0" "bx lr";
    tlb_flush: "mcr p15, 0, r0, c8, c7, 0" "bx lr";
    cache_clean: "mcr p15, 0, r0, c7, c10, 1" "bx lr";
    write_vbar: "mcr p15, 0, r0, c12, c0, 0" "bx lr";
    read_tpidrprw: "mrc p15, 0, r0, c13, c0, 4" "bx lr";
    write_tpidruro: "mcr p15, 0, r0, c13, c0, 3" "bx lr";
    read_tpidruro: "mrc p15, 0, r0, c13, c0, 3" "bx lr";
    read_tpidrurw: "mrc p15, 0, r0, c13, c0, 2" "bx lr";
    write_tpidrurw: "mcr p15, 0, r0, c13, c0, 2" "bx lr";
    // TPIDRURW is written, an exception that the kernel takes comes, and TPIDRURW is read.
    abort_between: "mov r1, #0x55" "mcr p15, 0, r1, c13, c0, 2" "str r1, [r0]" "mrc p15, 0, r0, c13, c0, 2" "bx lr";
    vfp_between: "mov r1, #0x66" "mcr p15, 0, r1, c13, c0, 2" "vmov s0, r0" "mrc p15, 0, r0, c13, c0, 2" "bx lr";
    ticks_between:
        "mov r1, #0x77" "mcr p15, 0, r1, c13, c0, 2"
        "1:" "subs r0, r0, #1" "bne 1b"
        "mrc p15, 0, r0, c13, c0, 2" "bx lr";
    secure_monitor_call: "smc #0" "bx lr";
    // The last one is the barrier of older processors: MCR p15, 0, r0, c7, c10, 5.
    memory_barriers: "dmb" "dsb" "isb" ".inst 0xee070fba" "mov r0, #1" "bx lr";
    // Writes of the control bits and mode from user mode do nothing.
    change_mode: "msr cpsr_c, #0xd3" "cpsid aif, #0x13" "mrs r0, cpsr" "bx lr";
    thumb_entry: "ldr r1, =undefined_t32 + 1" "bx r1";
    thumb_divide_entry: "ldr r1, =divide_t32 + 1" "bx r1";
}

global_asm!(
    ".syntax unified",
    ".thumb",
    ".arch_extension idiv",
    ".balign 4",
    ".global undefined_t32",
    "undefined_t32:",
    "udf #0x12",
    "bx lr",
    ".balign 4",
    ".global divide_t32",
    "divide_t32:",
    "movs r1, #7",
    "sdiv r0, r0, r1",
    "bx lr",
    ".arm",
);

unsafe extern "C" {
    fn undefined_t32();
    fn divide_t32();
}

fn address(code: unsafe extern "C" fn()) -> u32 {
    code as *const () as u32
}

/// Calls a snippet; a fault's place is given relative to the snippet `at`.
fn report(what: &str, code: unsafe extern "C" fn(), argument: u32, at: u32) {
    // SAFETY: snippets are functions of r0 that keep the procedure call standard, or fault.
    match unsafe { catch(address(code), argument) } {
        Ok(result) => line(format_args!("{what}: {result:#x}")),
        Err(caught) => describe(what, &caught, at),
    }
}

fn describe(what: &str, caught: &Caught, at: u32) {
    let name = match caught.info.signal {
        signal::ILL => "SIGILL",
        signal::TRAP => "SIGTRAP",
        signal::BUS => "SIGBUS",
        signal::SEGV => "SIGSEGV",
        _ => "?",
    };
    let relative = |value: u32| value.wrapping_sub(at).cast_signed();
    let context = &caught.context;
    let thumb = if context.cpsr & 0x20 != 0 { ", T32" } else { "" };
    if caught.info.signal == signal::ILL {
        let (address, pc) = (relative(caught.info.address), relative(context.r[15]));
        line(format_args!("{what}: {name} code {} at {address:+} pc {pc:+}{thumb}", caught.info.code));
    } else {
        let (code, address) = (caught.info.code, caught.info.address);
        let (far, fsr, pc) = (context.fault_address, fault_status(caught), relative(context.r[15]));
        line(format_args!("{what}: {name} code {code} at {address:#x} far {far:#x} fsr {fsr:#x} pc {pc:+}{thumb}"));
    }
    // A user program runs in user mode, with interrupts on.
    assert_eq!(context.cpsr & 0x9f, 0x10, "the program's CPSR is {:#x}", context.cpsr);
}

/// The fault status register as Linux shows it: bit 31 tells a prefetch abort. Those have no domain in the
/// architecture, even if an emulator gives one.
fn fault_status(caught: &Caught) -> u32 {
    let status = caught.context.error_code;
    if status >> 31 != 0 { status & !0xf0 } else { status }
}

fn own(what: &str, code: unsafe extern "C" fn(), argument: u32) {
    report(what, code, argument, address(code));
}

/// Reads through a null pointer, and near it.
pub fn null_read() {
    own("read 0", read_word, 0);
    own("read 0xff0", read_word, 0xff0);
}

/// Writes through a null pointer.
pub fn null_write() {
    own("write 0", write_word, 0);
}

/// Calls a null pointer.
pub fn null_call() {
    report("call 0", call_there, 0, 0);
    report("call 0x7000", call_there, 0x7000, 0x7000);
}

/// Writes to a program's own text.
pub fn text_write() {
    // The address differs from build to build; the page's start does not, and it is text.
    own("write to text", write_word, 0x1_0000);
}

/// Executes memory that may not be executed.
pub fn data_execute() {
    let page = map(4096, protection::READ | protection::WRITE, Backing::Fresh);
    // SAFETY: the page was just mapped; BX LR.
    unsafe { page.cast::<u32>().write_volatile(0xe12f_ff1e) };
    // SAFETY: it is a function, or it faults.
    match unsafe { catch(page as u32, 0) } {
        Ok(_) => line(format_args!("executed")),
        Err(caught) => {
            let here = |value: u32| value == page as u32;
            let context = &caught.context;
            line(format_args!(
                "signal {} code {} fsr {:#x}, at the page: {} {} {}",
                caught.info.signal,
                caught.info.code,
                fault_status(&caught),
                here(caught.info.address),
                here(context.fault_address),
                here(context.r[15]),
            ));
        }
    }
}

/// Places in the kernel's part of the address space, each for a reason: its image, its direct map, its allocations, the
/// hypervisor region that Spica uses, fixed maps, the vectors' neighbours.
const KERNEL_PLACES: &[u32] = &[
    0xbf00_0000,
    0xc000_0000,
    0xc000_8000,
    0xc800_0000,
    0xd080_0000,
    0xe000_0000,
    0xf000_0000,
    0xf000_1000,
    0xf100_0000,
    0xf200_0000,
    0xf300_0ffc,
    0xf400_0000,
    0xf7ff_f000,
    0xfee0_0000,
    0xff00_0000,
    0xff80_0000,
    0xffc0_0000,
    0xfffe_f000,
    0xffff_1000,
    0xffff_2000,
    0xffff_f000,
    0xffff_fffc,
];

/// Reads everywhere in the kernel's part of the address space: here by listing, then a word of every megabyte.
pub fn kernel_read() {
    let mut readable = 0;
    let mut others = 0;
    for megabyte in 0xbf0..0xfffu32 {
        // SAFETY: a function of r0, or it faults.
        match unsafe { catch(address(read_word), megabyte << 20) } {
            Ok(_) => readable += 1,
            Err(caught) if caught.info.signal != signal::SEGV => others += 1,
            Err(_) => {}
        }
    }
    line(format_args!("{readable} megabytes readable, {others} other signals"));
    everywhere("read", read_word, true);
}

/// Writes to the kernel's part of the address space.
pub fn kernel_write() {
    everywhere("write", write_word, true);
    own("write vectors", write_word, 0xffff_0000);
    own("write helpers", write_word, 0xffff_0fe0);
}

/// Calls into the kernel's part of the address space.
pub fn kernel_call() {
    everywhere("call", call_there, false);
}

fn everywhere(what: &str, code: unsafe extern "C" fn(), here: bool) {
    for &place in KERNEL_PLACES {
        // SAFETY: a function of r0, or it faults.
        let result = unsafe { catch(address(code), place) };
        let Err(caught) = result else { panic!("{what} {place:#x} succeeded") };
        // The status tells what the kernel has there, which is not the same on all machines: see that it is a fault of
        // an access, and that all addresses are right.
        let expected_pc = if here { address(code) } else { place };
        let (info, context) = (&caught.info, &caught.context);
        let write = here && what == "write";
        assert_eq!(info.signal, signal::SEGV, "{what} {place:#x}");
        assert_eq!(info.address, place, "{what} {place:#x}: si_addr");
        assert_eq!(context.fault_address, place, "{what} {place:#x}: far");
        assert_eq!(context.r[15], expected_pc, "{what} {place:#x}: pc");
        assert_eq!(context.error_code & 0x800 != 0, write, "{what} {place:#x}: fsr {:#x}", context.error_code);
        let status = context.error_code & 0xf | context.error_code >> 6 & 0x10;
        let faults = [0x5, 0x7, 0x9, 0xb, 0xd, 0xf];
        assert!(faults.contains(&status), "{what} {place:#x}: fsr {:#x}", context.error_code);
    }
    line(format_args!("{what}: ok"));
}

/// Executes the A32 instruction that is undefined for good.
pub fn undefined_arm() {
    own("udf", undefined_a32, 0);
}

/// The same in T32.
pub fn undefined_thumb() {
    report("udf", thumb_entry, 0, address(undefined_t32) & !1);
}

/// A NEON encoding that does not exist.
pub fn undefined_neon() {
    own("neon", undefined_neon_word, 0);
}

/// Divides by an instruction that a Cortex-A8 and a Cortex-A9 do not have.
pub fn divide() {
    own("sdiv 700/7", divide_a32, 700);
}

/// The same in T32.
pub fn divide_thumb() {
    report("sdiv 700/7", thumb_divide_entry, 700, address(divide_t32) & !1);
}

/// Instructions that user mode does not have.
pub fn privileged() {
    own("read MIDR", read_midr, 0);
    own("read SCTLR", read_sctlr, 0);
    own("write SCTLR", write_sctlr, 0);
    own("write TTBR0", write_ttbr0, 0);
    own("write DACR", write_dacr, u32::MAX);
    own("flush the TLB", tlb_flush, 0);
    own("clean the cache", cache_clean, 0);
    own("write VBAR", write_vbar, 0);
    own("read TPIDRPRW", read_tpidrprw, 0);
    own("write TPIDRURO", write_tpidruro, 0);
    own("smc", secure_monitor_call, 0);
    own("barriers", memory_barriers, 0);
}

/// User mode cannot leave user mode.
pub fn mode_change() {
    // SAFETY: the snippet changes nothing that matters.
    let cpsr = unsafe { catch(address(change_mode), 0) }.unwrap_or_else(|c| panic!("signal {}", c.info.signal));
    line(format_args!("mode and interrupt mask {:#x}", cpsr & 0x9f));
}

/// The thread registers are the program's own.
pub fn thread_register() {
    let read = |code| {
        // SAFETY: the snippet only reads a register.
        unsafe { catch(address(code), 0) }.unwrap_or_else(|c| panic!("signal {}", c.info.signal))
    };
    let write = |value| {
        // SAFETY: nothing here uses the register.
        unsafe { catch(address(write_tpidrurw), value) }.unwrap_or_else(|c| panic!("signal {}", c.info.signal));
    };
    assert_eq!(simple(number::SET_TLS, 0x1234_5678, 0, 0), 0);
    write(0x1111_1111);
    let child = fork();
    let (tls, own) = if child == 0 { (0x8765_4320, 0x2222_2222) } else { (0x1234_5678, 0x3333_3333) };
    if child == 0 {
        assert_eq!(read(read_tpidrurw), 0x1111_1111, "a child begins with its parent's register");
        assert_eq!(simple(number::SET_TLS, tls, 0, 0), 0);
    }
    write(own);
    for _ in 0..200 {
        simple(number::SCHED_YIELD, 0, 0, 0);
        assert_eq!(read(read_tpidruro), tls, "TPIDRURO");
        assert_eq!(read(read_tpidrurw), own, "TPIDRURW");
    }
    // What comes between is no system call here.
    let through = |code, argument| {
        // SAFETY: the snippets write the register, and to a page that is nobody's.
        unsafe { catch(address(code), argument) }.unwrap_or_else(|c| panic!("signal {}", c.info.signal))
    };
    for _ in 0..20 {
        let page = map(4096, protection::READ | protection::WRITE, Backing::Fresh);
        assert_eq!(through(abort_between, page as u32), 0x55, "TPIDRURW behind a page fault");
        // The other process has VFP meanwhile.
        simple(number::SCHED_YIELD, 0, 0, 0);
        assert_eq!(through(vfp_between, 1), 0x66, "TPIDRURW behind a first use of VFP");
    }
    assert_eq!(through(ticks_between, 20_000_000), 0x77, "TPIDRURW behind interrupts");
    if child == 0 {
        exit(0);
    }
    assert_eq!(wait(child), 0, "the child");
    line(format_args!("ok"));
}
