//! The exceptions: what they say is printed, and each is returned from, in Thumb state as it was taken.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::memory::{Fault, mend_data, mend_fetch};
use crate::{cp15, devices, memory, println, user};

/// What an exception interrupted, as start.s keeps it.
#[repr(C)]
pub struct Frame {
    registers: [u32; 13],
    /// Where it returns to.
    pc: u32,
    /// With which status.
    spsr: Status,
}

/// A program status register.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct Status(u32);

impl Status {
    fn is_thumb(self) -> bool {
        self.0 & 1 << 5 != 0
    }

    fn is_user(self) -> bool {
        self.0 & 0x1f == user::MODE
    }

    /// ITSTATE (B1.3.3).
    fn it(self) -> u32 {
        self.0 >> 25 & 3 | (self.0 >> 10 & 0x3f) << 2
    }
}

impl fmt::Display for Status {
    /// What does not depend on what the compiler has left in the flags.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_thumb() { "T32" } else { "A32" };
        let interrupts = if self.0 & 1 << 7 == 0 { "open" } else { "masked" };
        write!(f, "{state}, mode {:#x}, IT {:#04x}, interrupts {interrupts}", self.0 & 0x1f, self.it())
    }
}

/// Interrupts of the timer.
pub static TICKS: AtomicU32 = AtomicU32::new(0);
/// Those of them that came in User mode.
pub static USER_TICKS: AtomicU32 = AtomicU32::new(0);
/// Those of them that came in A32 code.
pub static A32_TICKS: AtomicU32 = AtomicU32::new(0);

/// The half-words of the instruction at an address: two of them, if it is long (A6.1).
fn instruction(pc: u32) -> (u16, Option<u16>) {
    // SAFETY: It was fetched, and what is executed can be read.
    let half = |at: u32| unsafe { (at as *const u16).read() };
    let first = half(pc);
    (first, (first >> 11 >= 0b11101).then(|| half(pc + 2)))
}

impl Frame {
    /// Goes on behind the instruction. That must be in no IT block, whose state would have to go on, too.
    fn skip(&mut self) {
        let long = !self.spsr.is_thumb() || instruction(self.pc).1.is_some();
        self.pc += if long { 4 } else { 2 };
    }
}

/// Called by start.s.
#[unsafe(no_mangle)]
extern "C" fn exception(frame: &mut Frame, vector: u32) {
    match vector {
        1 => undefined(frame),
        2 => supervisor_call(frame),
        3 => prefetch_abort(frame),
        4 => data_abort(frame),
        6 => interrupt(frame),
        _ => unreachable!(),
    }
}

fn interrupt(frame: &Frame) {
    devices::interrupt(|timer| {
        assert!(timer, "an interrupt that was not asked for");
        devices::timer_again();
        TICKS.fetch_add(1, Ordering::Relaxed);
        if frame.spsr.is_user() {
            USER_TICKS.fetch_add(1, Ordering::Relaxed);
        }
        if !frame.spsr.is_thumb() {
            A32_TICKS.fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// UDF is carried out: it turns R0. So is what the user program must not do: R0 is 0 then.
fn undefined(frame: &mut Frame) {
    // LR is not where it returns to (Table B1-7).
    frame.pc -= if frame.spsr.is_thumb() { 2 } else { 4 };
    let word = || {
        // SAFETY: As in `instruction`.
        unsafe { (frame.pc as *const u32).read() }
    };
    let number = match instruction(frame.pc) {
        _ if !frame.spsr.is_thumb() => {
            (word() & 0xfff0_00f0 == 0xe7f0_00f0).then(|| word() >> 4 & 0xfff0 | word() & 0xf)
        }
        (first, None) => (first & 0xff00 == 0xde00).then_some(u32::from(first & 0xff)),
        (first, Some(second)) => (first & 0xfff0 == 0xf7f0 && second & 0xf000 == 0xa000)
            .then_some(u32::from(first & 0xf) << 12 | u32::from(second & 0xfff)),
    };
    match number {
        Some(number) => {
            println!("  undefined: udf {number}, {}", frame.spsr);
            frame.registers[0] = frame.registers[0].rotate_left(number);
        }
        None if frame.spsr.is_user() => {
            println!("  undefined: not for users, {}", frame.spsr);
            frame.registers[0] = 0;
        }
        None => panic!("undefined instruction at {:#x}", frame.pc),
    }
    frame.skip();
}

fn supervisor_call(frame: &mut Frame) {
    // SAFETY: As in `instruction`: the call is before where it returns to.
    let number = match frame.spsr.is_thumb() {
        true => instruction(frame.pc - 2).0 & 0xff,
        // SAFETY: The same.
        false => unsafe { (frame.pc as *const u16).sub(2).read() },
    };
    let [first, second, ..] = frame.registers;
    match u32::from(number) {
        user::LEAVE if frame.spsr.is_user() => {
            unsafe extern "C" {
                fn user_left();
            }
            // Supervisor mode, in Thumb state.
            (frame.pc, frame.spsr) = (user_left as *const () as u32 & !1, Status(0x33));
        }
        user::WRITE if frame.spsr.is_user() => {
            let end = first.checked_add(second).expect("text that ends");
            assert!(
                first >= memory::TEXT && end <= memory::TEXT + (1 << 20)
                    || first >= memory::USER && end <= memory::USER_STACK,
                "text that is not the user's: {first:#x}"
            );
            // SAFETY: Both places are readable, and the user program, which waits, is the only one that writes there.
            devices::send(unsafe { core::slice::from_raw_parts(first as *const u8, second as usize) });
        }
        user::TICKS if frame.spsr.is_user() => frame.registers[0] = USER_TICKS.load(Ordering::Relaxed),
        user::FAIL => devices::power_off(),
        number if number >= 200 => {
            println!("  supervisor call {number} with {first} and {second}, {}", frame.spsr);
            frame.registers[0] = first.wrapping_mul(1000).wrapping_add(second);
        }
        number => panic!("supervisor call {number} before {:#x}", frame.pc),
    }
}

fn prefetch_abort(frame: &mut Frame) {
    let (fault, address) = (Fault::of(cp15::ifsr()), cp15::ifar());
    // Where in the page depends on the compiler.
    println!("  prefetch abort: {fault:?} in page {:#x}, {}", address & !0xfff, frame.spsr);
    // Of an instruction that goes on in the next page, the second half may be what is missing.
    let expected = [frame.pc, frame.pc + 2];
    assert!(expected.contains(&(address & !1)), "IFAR is {address:#x}, and it returns to {:#x}", frame.pc);
    assert!(mend_fetch(fault, address), "a fetch from {address:#x}");
}

fn data_abort(frame: &mut Frame) {
    let (status, address) = (cp15::dfsr(), cp15::dfar());
    let kind = if status & 1 << 11 != 0 { "store to" } else { "load from" };
    println!("  data abort: {:?}, {kind} {address:#x}, {}", Fault::of(status), frame.spsr);
    if frame.spsr.is_user() {
        frame.registers[0] = 0;
        frame.skip();
    } else {
        assert!(mend_data(Fault::of(status), address), "{kind} {address:#x} at {:#x}", frame.pc);
    }
}
