//! Memory: mapping, protection, copy on write, code that is written and run, and pointers that the kernel must refuse.

use spica_freestanding::linux::{
    self, Backing, call, exit, fork, number, protect, protection, read, simple, unmap, wait, write,
};
use spica_freestanding::signals::signal;

use crate::line;
use crate::signals::{Frame, Shared, SignalInfo, on_signal};

const READ_WRITE: u32 = protection::READ | protection::WRITE;
const PAGE: usize = 4096;
/// A bad address, as system calls return it.
const EFAULT: i32 = -14;

fn map(size: usize, protection: u32) -> *mut u8 {
    linux::map(size, protection, Backing::Fresh)
}

fn poke(address: *mut u8, value: u32) {
    // SAFETY: callers pass mapped memory of this file's tests, aligned, that nothing else refers to.
    unsafe { address.cast::<u32>().write_volatile(value) };
}

fn peek(address: *const u8) -> u32 {
    // SAFETY: as in `poke`.
    unsafe { address.cast::<u32>().read_volatile() }
}

/// Bad pointers given to system calls: the kernel's access faults, and its exception table makes an error of it.
pub fn efault() {
    let mut pipe = [0u32; 2];
    assert_eq!(simple(number::PIPE, pipe.as_mut_ptr() as u32, 0, 0), 0, "pipe");
    let none = map(PAGE, protection::NONE);
    let read_only = map(PAGE, protection::READ);
    let hole = map(2 * PAGE, READ_WRITE);
    unmap(hole.wrapping_add(PAGE), PAGE);

    for bad in [0, 0x1000, none as u32, hole as u32 + PAGE as u32, 0xc000_8000, 0xf200_0000, 0xffff_f000] {
        assert_eq!(simple(number::WRITE, pipe[1], bad, 8), EFAULT, "write from {bad:#x}");
        assert_eq!(simple(number::UNAME, bad, 0, 0), EFAULT, "uname to {bad:#x}");
        assert_eq!(simple(number::PIPE, bad, 0, 0), EFAULT, "pipe to {bad:#x}");
    }
    assert_eq!(simple(number::UNAME, read_only as u32, 0, 0), EFAULT, "uname to read-only memory");
    // A structure whose second half is not there: the kernel copies until it faults.
    assert_eq!(simple(number::UNAME, hole as u32 + PAGE as u32 - 100, 0, 0), EFAULT, "uname over an edge");
    // Memory that was never touched faults, too, and gets a page.
    let fresh = map(PAGE, READ_WRITE);
    assert_eq!(simple(number::UNAME, fresh as u32, 0, 0), 0, "uname to fresh memory");
    assert_eq!(peek(fresh), u32::from_le_bytes(*b"Linu"));
    // A pipe's data lands in fresh memory, or stays in the pipe.
    assert_eq!(write(pipe[1], b"12345678"), 8);
    assert_eq!(simple(number::READ, pipe[0], 0xc000_8000, 8), EFAULT, "read to the kernel");
    let mut data = [0; 8];
    assert_eq!(read(pipe[0], &mut data), 8);
    assert_eq!(&data, b"12345678");
    line(format_args!("ok"));
}

/// Maps, touches, checks and unmaps memory of many sizes, over and over.
pub fn mmap() {
    for round in 0..40u32 {
        for pages in [1usize, 3, 16, 255, 256, 257, 700] {
            let memory = map(pages * PAGE, READ_WRITE);
            for page in 0..pages {
                assert_eq!(peek(memory.wrapping_add(page * PAGE)), 0, "fresh memory is zero");
                poke(memory.wrapping_add(page * PAGE), round ^ page as u32);
            }
            for page in (0..pages).rev() {
                assert_eq!(peek(memory.wrapping_add(page * PAGE)), round ^ page as u32, "memory keeps its contents");
            }
            unmap(memory, pages * PAGE);
        }
    }
    line(format_args!("ok"));
}

static FAULTS: Shared<u32> = Shared::new(0);
static EXPECTED: Shared<u32> = Shared::new(0);
static GRANT: Shared<u32> = Shared::new(0);

/// Checks where the fault was, counts it, and grants what [`GRANT`] says, so that the access succeeds at its second
/// try.
extern "C" fn grant(_signal: u32, info: &SignalInfo, frame: &mut Frame) {
    assert_eq!(info.address, EXPECTED.get(), "the fault's address");
    assert_eq!(frame.context().fault_address, EXPECTED.get(), "the fault address register");
    FAULTS.set(FAULTS.get() + 1);
    protect((info.address & !0xfff) as *mut u8, PAGE, GRANT.get());
}

fn expect_fault(address: *mut u8, grant: u32, access: impl FnOnce(*mut u8)) {
    EXPECTED.set(address as u32);
    GRANT.set(grant);
    let before = FAULTS.get();
    access(address);
    assert_eq!(FAULTS.get(), before + 1, "one fault at {address:p}");
}

/// Every change of a protection has its effect at once.
pub fn mprotect() {
    on_signal(signal::SEGV, grant);
    let memory = map(64 * PAGE, READ_WRITE);
    for page in 0..64 {
        let address = memory.wrapping_add(page * PAGE + 4 * page);
        poke(address, 1);
        protect(memory.wrapping_add(page * PAGE), PAGE, protection::READ);
        assert_eq!(peek(address), 1);
        expect_fault(address, READ_WRITE, |a| poke(a, 2));
        protect(memory.wrapping_add(page * PAGE), PAGE, protection::NONE);
        expect_fault(address, protection::READ, |a| assert_eq!(peek(a), 2));
        expect_fault(address, READ_WRITE, |a| poke(a, 3));
        assert_eq!(peek(address), 3);
    }
    line(format_args!("{} faults", FAULTS.get()));
}

/// Thousands of faults that a handler mends.
pub fn fault_loop() {
    on_signal(signal::SEGV, grant);
    let page = map(PAGE, READ_WRITE);
    for i in 0..2000 {
        protect(page, PAGE, protection::NONE);
        expect_fault(page.wrapping_add(i * 4 % PAGE), READ_WRITE, |a| poke(a, i as u32));
    }
    line(format_args!("{} faults", FAULTS.get()));
}

/// After a fork, each process has its own copy of what is written.
pub fn copy_on_write() {
    const PAGES: usize = 300;
    let memory = map(PAGES * PAGE, READ_WRITE);
    let cell = |page: usize| memory.wrapping_add(page * PAGE);
    (0..PAGES).for_each(|p| poke(cell(p), p as u32));
    for round in 1..=5u32 {
        let child = fork();
        let mine = if child == 0 { 0x1000_0000 } else { 0x2000_0000 };
        for page in 0..PAGES {
            assert_eq!(peek(cell(page)), page as u32, "before the write, in round {round}");
            poke(cell(page), page as u32 | mine);
            if page % 50 == 0 {
                simple(number::SCHED_YIELD, 0, 0, 0);
            }
        }
        (0..PAGES).for_each(|p| assert_eq!(peek(cell(p)), p as u32 | mine, "after the write"));
        if child == 0 {
            exit(0);
        }
        assert_eq!(wait(child), 0, "the child");
        (0..PAGES).for_each(|p| poke(cell(p), p as u32));
    }
    line(format_args!("ok"));
}

/// Code that is written, announced to the kernel, and run, thousands of times at the same address.
pub fn self_modifying() {
    let page = map(PAGE, READ_WRITE | protection::EXEC);
    for i in 0..3000u32 {
        let at = page.wrapping_add(i as usize % 16 * 64);
        poke(at, 0xe300_0000 | (i & 0xf000) << 4 | i & 0xfff); // MOVW r0, #i
        poke(at.wrapping_add(4), 0xe12f_ff1e); // BX LR
        // SAFETY: it makes the kernel clean and invalidate caches for this memory.
        assert_eq!(unsafe { call(number::CACHEFLUSH, [at as u32, at as u32 + 8, 0, 0, 0, 0]) }, 0, "cacheflush");
        // SAFETY: these two instructions are there.
        let function: extern "C" fn() -> u32 = unsafe { core::mem::transmute(at) };
        assert_eq!(function(), i);
    }
    line(format_args!("ok"));
}
