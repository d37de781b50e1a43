//! T32, as far as time goes: the flow, the unit, and the registers of the usual instructions (A6.2, A6.3).

use super::{FLAGS, Flow, Instruction, System, Unit, coprocessor};

const SP: u16 = 13;
const LR: u16 = 14;
const PC: u16 = 15;

const fn bit(register: u16) -> u32 {
    1 << (register & 15)
}

pub fn decode(address: u32, first: u16, second: Option<u16>) -> Instruction {
    let mut i = Instruction::plain(address, if second.is_some() { 4 } else { 2 });
    match second {
        None => short(&mut i, first),
        Some(second) => long(&mut i, first, second),
    }
    i
}

fn load(i: &mut Instruction, base: u16, to: u32, words: u32) {
    i.transfer(words);
    i.reads |= bit(base);
    i.early |= bit(base);
    i.writes |= to;
    i.latency = 1;
}

fn store(i: &mut Instruction, base: u16, from: u32, words: u32) {
    i.transfer(words);
    i.reads |= bit(base) | from;
    i.early |= bit(base);
    i.late |= from & !i.early;
}

fn branch(i: &mut Instruction, flow: Flow) {
    i.unit = Unit::Branch;
    i.flow = flow;
    if flow.is_call() {
        i.writes |= bit(LR);
    }
}

const INDIRECT: Flow = Flow::Indirect { conditional: false, call: false };
const BACK: Flow = Flow::Return { conditional: false };

fn short(i: &mut Instruction, h: u16) {
    let (rd, rn, rm) = (h & 7, h >> 3 & 7, h >> 6 & 7);
    match h >> 11 {
        // Shifts and additions of three operands.
        0..=2 => {
            i.reads |= bit(rn);
            i.early |= bit(rn);
            i.writes |= bit(rd) | FLAGS;
        }
        3 => {
            i.reads |= bit(rn) | if h & 0x400 == 0 { bit(rm) } else { 0 };
            i.writes |= bit(rd) | FLAGS;
        }
        // MOV, CMP, ADD, SUB with an immediate.
        4..=7 => {
            let r = h >> 8 & 7;
            if h >> 11 != 4 {
                i.reads |= bit(r);
            }
            i.writes |= FLAGS | if h >> 11 != 5 { bit(r) } else { 0 };
        }
        8 => special(i, h),
        // A literal.
        9 => load(i, PC, bit(h >> 8), 1),
        10 | 11 => {
            if h >> 9 & 7 >= 3 {
                load(i, rn, bit(rd), 1);
            } else {
                store(i, rn, bit(rd), 1);
            }
            i.reads |= bit(rm);
            i.early |= bit(rm);
        }
        12 | 14 | 16 => store(i, rn, bit(rd), 1),
        13 | 15 | 17 => load(i, rn, bit(rd), 1),
        18 => store(i, SP, bit(h >> 8 & 7), 1),
        19 => load(i, SP, bit(h >> 8 & 7), 1),
        20 | 21 => {
            i.reads |= if h >> 11 == 21 { bit(SP) } else { 0 };
            i.writes |= bit(h >> 8 & 7);
        }
        22 | 23 => miscellaneous(i, h),
        24 => {
            store(i, h >> 8 & 7, u32::from(h & 0xff), (h & 0xff).count_ones());
            i.writes |= bit(h >> 8 & 7);
        }
        25 => {
            load(i, h >> 8 & 7, u32::from(h & 0xff), (h & 0xff).count_ones());
            i.writes |= bit(h >> 8 & 7);
        }
        // 14 is undefined, 15 SVC.
        26 | 27 if h >> 8 & 15 < 14 => {
            branch(i, Flow::Direct { conditional: true, call: false });
            i.reads |= FLAGS;
        }
        28 => branch(i, Flow::Direct { conditional: false, call: false }),
        _ => {}
    }
}

/// Data processing, operations on high registers, and branches to registers (A6.2.2, A6.2.3).
fn special(i: &mut Instruction, h: u16) {
    let rm = h >> 3 & 15;
    if h & 0x400 == 0 {
        i.reads |= bit(h & 7) | bit(h >> 3 & 7);
        i.writes |= bit(h & 7) | FLAGS;
        if h >> 6 & 15 == 13 {
            i.unit = Unit::Multiply;
            i.cycles = 2;
            i.latency = 3;
        }
        return;
    }
    let rd = h & 7 | h >> 4 & 8;
    match h >> 8 & 3 {
        3 => {
            i.reads |= bit(rm);
            let call = h & 0x80 != 0;
            branch(i, if rm == LR && !call { BACK } else { Flow::Indirect { conditional: false, call } });
        }
        1 => {
            i.reads |= bit(rd) | bit(rm);
            i.writes |= FLAGS;
        }
        operation => {
            i.reads |= bit(rm) | if operation == 0 { bit(rd) } else { 0 };
            i.writes |= bit(rd);
            if rd == PC {
                i.flow = if rm == LR && operation == 2 { BACK } else { INDIRECT };
            }
        }
    }
}

/// A6.2.5.
fn miscellaneous(i: &mut Instruction, h: u16) {
    match h >> 8 & 15 {
        0 => {
            i.reads |= bit(SP);
            i.writes |= bit(SP);
        }
        1 | 3 | 9 | 11 => {
            i.reads |= bit(h & 7);
            branch(i, Flow::Direct { conditional: true, call: false });
        }
        2 | 10 => {
            i.reads |= bit(h >> 3 & 7);
            i.writes |= bit(h & 7);
        }
        4 | 5 => {
            let registers = u32::from(h & 0xff) | u32::from(h >> 8 & 1) << 14;
            store(i, SP, registers, registers.count_ones());
            i.write_back(bit(SP));
        }
        12 | 13 => {
            let registers = u32::from(h & 0xff) | u32::from(h >> 8 & 1) << 15;
            load(i, SP, registers, registers.count_ones());
            i.write_back(bit(SP));
            if h & 0x100 != 0 {
                i.flow = BACK;
            }
        }
        _ => {}
    }
}

fn long(i: &mut Instruction, first: u16, second: u16) {
    let (rn, rd, rt, rm) = (first & 15, second >> 8 & 15, second >> 12, second & 15);
    match first >> 11 & 3 {
        // A6.3: 01, by bits 10:4.
        1 => match first >> 9 & 3 {
            0 if first & 0x40 == 0 => {
                let words = u32::from(second).count_ones();
                if first & 0x10 != 0 {
                    load(i, rn, u32::from(second), words);
                    if second & 0x8000 != 0 {
                        i.flow = if rn == SP { BACK } else { INDIRECT };
                    }
                } else {
                    store(i, rn, u32::from(second), words);
                }
                if first & 0x20 != 0 {
                    i.write_back(bit(rn));
                }
            }
            0 => {
                let table = first & 0xfff0 == 0xe8d0 && second & 0xffe0 == 0xf000;
                if table {
                    load(i, rn, 0, 1);
                    i.reads |= bit(rm);
                    i.flow = INDIRECT;
                } else if first & 0x10 != 0 {
                    load(i, rn, bit(rt) | if first & 0x100 != 0 { bit(rd) } else { 0 }, 2);
                } else {
                    store(i, rn, bit(rt), 2);
                }
            }
            1 => {
                i.reads |= bit(rn) | bit(rm);
                i.early |= bit(rm);
                i.writes |= bit(rd) | if first & 0x10 != 0 { FLAGS } else { 0 };
                if rd == PC && first & 0x10 == 0 {
                    i.flow = INDIRECT;
                }
            }
            _ => coprocessors(i, first, second),
        },
        // 10: immediates, and branches and control.
        2 => {
            if second & 0x8000 == 0 {
                let wide = matches!(first & 0xfbf0, 0xf240 | 0xf2c0);
                i.reads |= if wide && first & 0x80 == 0 { 0 } else { bit(rn) };
                i.writes |= bit(rd) | if first & 0x10 != 0 && first & 0x200 == 0 { FLAGS } else { 0 };
            } else {
                control(i, first, second);
            }
        }
        // 11.
        _ => match first >> 8 & 7 {
            0 | 1 if first & 0x400 == 0 && first >> 4 & 0x11 == 0x10 && first & 0x100 != 0 => i.unit = Unit::Float,
            0 | 1 if first & 0x400 == 0 => {
                let loads = first & 0x10 != 0;
                let is_indexed = first & 0x80 == 0 && second & 0x0800 != 0;
                if loads {
                    load(i, rn, bit(rt), 1);
                    if rt == PC {
                        let popped = rn == SP && is_indexed && second & 0x0400 == 0;
                        i.flow = if popped { BACK } else { INDIRECT };
                        // PLD and PLI have PC as their destination, too, but are no words.
                        if first & 0x60 != 0x40 {
                            i.flow = Flow::Next;
                            i.writes = 0;
                        }
                    }
                } else {
                    store(i, rn, bit(rt), 1);
                }
                if is_indexed && second & 0x0100 != 0 {
                    i.write_back(bit(rn));
                }
                if first & 0x80 == 0 && second & 0x0fc0 == 0 {
                    i.reads |= bit(rm);
                    i.early |= bit(rm);
                }
            }
            2 if first & 0x400 == 0 => {
                i.reads |= bit(rn) | bit(rm);
                i.early |= bit(rm);
                i.writes |= bit(rd);
            }
            3 if first & 0x400 == 0 => {
                i.unit = Unit::Multiply;
                i.reads |= bit(rn) | bit(rm) | if rt == PC { 0 } else { bit(rt) };
                i.writes |= bit(rd);
                i.cycles = 2;
                i.latency = 3;
                if first & 0x80 != 0 {
                    i.writes |= bit(rt);
                    i.cycles = 3;
                }
            }
            _ => coprocessors(i, first, second),
        },
    }
}

/// A6.3.4.
fn control(i: &mut Instruction, first: u16, second: u16) {
    match second >> 12 & 7 {
        operation @ (4..=7) => {
            // BL and BLX.
            debug_assert!(operation >= 4);
            branch(i, Flow::Direct { conditional: false, call: true });
        }
        1 | 3 => branch(i, Flow::Direct { conditional: false, call: false }),
        _ if first >> 7 & 7 != 7 => {
            i.reads |= FLAGS;
            branch(i, Flow::Direct { conditional: true, call: false });
        }
        _ if first & 0xfff0 == 0xf3b0 => {
            i.unit = Unit::System;
            i.system = match second >> 4 & 15 {
                4 => Some(System::Dsb),
                5 => Some(System::Dmb),
                6 => Some(System::Isb),
                _ => None,
            };
        }
        _ => {}
    }
}

fn coprocessors(i: &mut Instruction, first: u16, second: u16) {
    let number = second >> 8 & 15;
    if number & 14 == 10 || first & 0xef00 == 0xef00 {
        // VFP and NEON: loads and stores are those of coprocessor instructions.
        if first & 0xfe00 == 0xec00 && number & 14 == 10 {
            let multiple = first & 0x120 != 0x100;
            let words = if multiple { u32::from(second & 0xff).min(32) } else { 2 };
            if first & 0x10 != 0 { load(i, first & 15, 0, words) } else { store(i, first & 15, 0, words) }
        } else {
            i.unit = Unit::Float;
        }
    } else if first & 0xff00 == 0xee00 && second & 0x10 != 0 {
        let register =
            (number as u8, (first >> 5 & 7) as u8, (first & 15) as u8, (second & 15) as u8, (second >> 5 & 7) as u8);
        coprocessor(i, first & 0x10 != 0, register, (second >> 12) as u8);
    }
}
