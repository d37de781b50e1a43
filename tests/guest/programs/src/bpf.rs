//! Packets through socket filters: random programs in classic BPF, which the kernel compiles if it may, and what each
//! must make of a packet.
//!
//! Encodings are those of Linux (`uapi/linux/bpf_common.h`, `uapi/linux/filter.h`).

use spica_freestanding::linux::{call, number, simple, write};

use crate::line;

const PROGRAMS: u32 = 300;
/// With so many packets each, of so many bytes.
const PACKETS: u32 = 3;
const LENGTH: u32 = 64;
/// Words of memory that a program has, and uses.
const MEMORY: u32 = 4;
/// The most instructions.
const MOST: usize = 64;

/// Classes, and what is combined with them.
mod code {
    pub const LD: u16 = 0x00;
    pub const LDX: u16 = 0x01;
    pub const ST: u16 = 0x02;
    pub const STX: u16 = 0x03;
    pub const ALU: u16 = 0x04;
    pub const JMP: u16 = 0x05;
    pub const RET_A: u16 = 0x16;
    pub const TAX: u16 = 0x07;
    pub const TXA: u16 = 0x87;
    /// Of a packet's bytes: at an address, or behind X.
    pub const ABS: u16 = 0x20;
    pub const IND: u16 = 0x40;
    pub const MEM: u16 = 0x60;
    pub const LEN: u16 = 0x80;
    /// X as the second operand.
    pub const BY_X: u16 = 0x08;
    pub const AND: u16 = 0x50;
    pub const RSH: u16 = 0x70;
}

/// `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Instruction {
    code: u16,
    then: u8,
    otherwise: u8,
    k: u32,
}

/// `struct sock_fprog`.
#[repr(C)]
struct Filter {
    len: u16,
    code: *const Instruction,
}

struct Random(u32);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }

    fn below(&mut self, end: u32) -> u32 {
        (self.next() >> 8) % end
    }

    /// Values at which arithmetic has its edges, and others.
    fn value(&mut self) -> u32 {
        match self.below(4) {
            0 => self.below(70),
            1 => self.below(3).wrapping_sub(2),
            2 => 1 << self.below(32),
            _ => self.next(),
        }
    }
}

struct Program {
    code: [Instruction; MOST],
    len: usize,
}

impl Program {
    fn push(&mut self, code: u16, k: u32) {
        self.code[self.len] = Instruction { code, k, ..Instruction::default() };
        self.len += 1;
    }

    fn random(random: &mut Random) -> Self {
        let mut program = Self { code: [Instruction::default(); MOST], len: 0 };
        // All that is read has a value, however it goes on: the kernel looks for that.
        for n in 0..MEMORY {
            program.push(code::LD, random.value());
            program.push(code::ST, n);
        }
        program.push(code::LD | code::ABS, random.below(LENGTH - 3));
        program.push(code::ALU | code::AND, 31);
        program.push(code::TAX, 0);
        // Sometimes beyond the packet's end, which drops it.
        program.push(code::LD | code::IND | [0, 8, 0x10][random.below(3) as usize], random.below(33));
        let body = random.below(40) as usize;
        for left in (0..body).rev() {
            let by_x = if random.below(2) == 0 { code::BY_X } else { 0 };
            match random.below(10) {
                0 => program.push(code::LD, random.value()),
                1 => {
                    let size = [0, 8, 0x10][random.below(3) as usize];
                    program.push(code::LD | code::ABS | size, random.below(LENGTH - 3));
                }
                2 => program.push(code::LD | code::MEM, random.below(MEMORY)),
                3 => program.push(code::LDX | code::MEM, random.below(MEMORY)),
                4 => program.push([code::ST, code::STX][random.below(2) as usize], random.below(MEMORY)),
                5 => program.push([code::TAX, code::TXA][random.below(2) as usize], 0),
                6 => program.push([code::LD | code::LEN, code::ALU | 0x80][random.below(2) as usize], 0),
                7 => {
                    program.push(code::JMP | [0x10, 0x20, 0x30, 0x40][random.below(4) as usize] | by_x, random.value());
                    let jump = &mut program.code[program.len - 1];
                    jump.then = random.below(left.min(9) as u32 + 1) as u8;
                    jump.otherwise = random.below(left.min(9) as u32 + 1) as u8;
                }
                // Shifts by X have no meaning if that is 32 or more.
                8 => program.push(code::ALU | [0x60, code::RSH][random.below(2) as usize], random.below(32)),
                _ => {
                    let operation = [0, 0x10, 0x20, 0x30, 0x40, code::AND, 0x90, 0xa0][random.below(8) as usize];
                    program.push(code::ALU | operation | by_x, random.value() | 1);
                }
            }
        }
        program.push(code::ALU | code::RSH, random.below(27));
        program.push(code::ALU | code::AND, LENGTH - 1);
        program.push(code::RET_A, 0);
        program
    }

    /// What comes of a packet: how many of its bytes are let through. 0 drops it.
    fn run(&self, packet: &[u8]) -> u32 {
        let (mut a, mut x, mut memory) = (0u32, 0u32, [0u32; MEMORY as usize]);
        let mut pc = 0;
        loop {
            let Instruction { code: word, then, otherwise, k } = self.code[pc];
            pc += 1;
            let operand = if word & code::BY_X != 0 { x } else { k };
            match word & 7 {
                code::LD if word & 0xe0 == 0 => a = k,
                code::LD if word & 0xe0 == code::MEM => a = memory[k as usize],
                code::LD if word & 0xe0 == code::LEN => a = packet.len() as u32,
                code::LD => {
                    let at = (if word & 0xe0 == code::IND { x + k } else { k }) as usize;
                    let size = [4, 2, 1][usize::from(word >> 3 & 3)];
                    let Some(bytes) = packet.get(at..at + size) else { return 0 };
                    a = bytes.iter().fold(0, |value, &byte| value << 8 | u32::from(byte));
                }
                code::LDX => x = memory[k as usize],
                code::ST => memory[k as usize] = a,
                code::STX => memory[k as usize] = x,
                code::ALU => {
                    a = match word >> 4 {
                        0 => a.wrapping_add(operand),
                        1 => a.wrapping_sub(operand),
                        2 => a.wrapping_mul(operand),
                        // By zero, the packet is dropped.
                        3 | 9 if operand == 0 => return 0,
                        3 => a / operand,
                        4 => a | operand,
                        5 => a & operand,
                        6 => a << operand,
                        7 => a >> operand,
                        8 => a.wrapping_neg(),
                        9 => a % operand,
                        _ => a ^ operand,
                    };
                }
                code::JMP => {
                    let holds = match word >> 4 {
                        1 => a == operand,
                        2 => a > operand,
                        3 => a >= operand,
                        _ => a & operand != 0,
                    };
                    pc += usize::from(if holds { then } else { otherwise });
                }
                _ if word == code::TAX => x = a,
                _ if word == code::TXA => a = x,
                _ => return a,
            }
        }
    }
}

/// Each program lets through what it must of each packet.
pub fn bpf() {
    const SOL_SOCKET: u32 = 1;
    const SO_ATTACH_FILTER: u32 = 26;
    const DONT_WAIT: u32 = 0x40;
    const NOTHING: i32 = -11;

    let mut ends = [0u32; 2];
    // Datagrams between programs of this machine.
    // SAFETY: the kernel writes the two numbers.
    let made = unsafe { call(number::SOCKETPAIR, [1, 2, 0, (&raw mut ends) as u32, 0, 0]) };
    // SAFETY: it is this function's own variable, which the kernel has written.
    let [sender, receiver] = unsafe { (&raw const ends).read_volatile() };
    assert_eq!(made, 0, "socketpair");
    let mut random = Random(0x2545_f491);
    let mut dropped = 0;
    for n in 0..PROGRAMS {
        let program = Program::random(&mut random);
        let filter = Filter { len: program.len as u16, code: program.code.as_ptr() };
        let filter = [SOL_SOCKET, SO_ATTACH_FILTER, (&raw const filter) as u32, size_of::<Filter>() as u32];
        // SAFETY: the kernel only reads the program.
        let set = unsafe { call(number::SETSOCKOPT, [receiver, filter[0], filter[1], filter[2], filter[3], 0]) };
        assert_eq!(set, 0, "program {n} is refused");
        for _ in 0..PACKETS {
            let mut packet = [0; LENGTH as usize];
            packet.fill_with(|| random.next() as u8);
            assert_eq!(write(sender, &packet), LENGTH as i32, "a packet is sent");
            let mut got = [0u8; LENGTH as usize];
            // SAFETY: the kernel writes to the buffer, no further than it goes.
            let received = unsafe { call(number::RECV, [receiver, got.as_mut_ptr() as u32, LENGTH, DONT_WAIT, 0, 0]) };
            let expected = program.run(&packet);
            let length = if received == NOTHING { 0 } else { received };
            assert_eq!(length, expected as i32, "program {n}: bytes of a packet");
            assert_eq!(got[..expected as usize], packet[..expected as usize], "program {n}: the bytes");
            dropped += u32::from(expected == 0);
        }
    }
    simple(number::CLOSE, sender, 0, 0);
    simple(number::CLOSE, receiver, 0, 0);
    // By division by zero or loads beyond the end, most of them.
    assert!(dropped < PROGRAMS * PACKETS * 2 / 3, "{dropped} packets were dropped");
    line(format_args!("ok"));
}
