//! A machine that executes the probes: the few instructions that they are made of.

use spica_probes::{Kind, code, data};

/// Where a probe's code, its data and its stack are.
pub const CODE: u32 = 0x0100_0000;
pub const DATA: u32 = 0x0200_0000;
const STACK: u32 = 0x0300_0000;
/// Where it returns to.
const CALLER: u32 = 0x0400_0000;

/// Hears of what is executed.
pub trait Watch {
    /// An instruction begins.
    fn executes(&mut self, address: u32, word: u32);
    /// It loads or stores a word.
    fn accesses(&mut self, address: u32, store: bool);
}

/// The machine, ready to call a probe.
pub struct Machine {
    code: Vec<u32>,
    data: Vec<u32>,
    stack: Vec<u32>,
    pub registers: [u32; 16],
    zero: bool,
    carry: bool,
}

impl Machine {
    pub fn new(kind: Kind) -> Machine {
        let mut code = vec![0; code::words(kind)];
        let length = code::write(kind, &mut code);
        code.truncate(length);
        let mut data = vec![0; (data::bytes(kind) / 4) as usize];
        data::fill(kind, &mut data, DATA, |n| code::target(CODE, n));
        Machine { code, data, stack: vec![0; 64], registers: [0; 16], zero: false, carry: false }
    }

    fn word(&mut self, address: u32) -> &mut u32 {
        let (memory, from) = match address {
            DATA..STACK if address < DATA + self.data.len() as u32 * 4 => (&mut self.data, DATA),
            _ => (&mut self.stack, STACK),
        };
        assert!(address.is_multiple_of(4), "{address:#x}");
        memory.get_mut((address - from) as usize / 4).unwrap_or_else(|| panic!("nothing is at {address:#x}"))
    }

    fn load(&mut self, address: u32, watch: &mut impl Watch) -> u32 {
        watch.accesses(address, false);
        *self.word(address)
    }

    fn store(&mut self, address: u32, value: u32, watch: &mut impl Watch) {
        watch.accesses(address, true);
        *self.word(address) = value;
    }

    fn holds(&self, condition: u32) -> bool {
        match condition {
            0 => self.zero,
            1 => !self.zero,
            2 => self.carry,
            14 | 15 => true,
            _ => panic!("condition {condition}"),
        }
    }

    /// Calls the probe for so many rounds.
    pub fn call(&mut self, rounds: u32, watch: &mut impl Watch) {
        let kept = [0x44, 0x55, 0x77];
        (self.registers[0], self.registers[1], self.registers[14]) = (DATA, rounds, CALLER);
        self.registers[13] = STACK + self.stack.len() as u32 * 4;
        for (register, value) in [4, 5, 7].into_iter().zip(kept) {
            self.registers[register] = value;
        }
        let top = self.registers[13];
        self.registers[15] = CODE;
        while self.registers[15] != CALLER {
            self.step(watch);
        }
        assert_eq!(self.registers[13], top, "SP");
        assert_eq!([4, 5, 7].map(|r| self.registers[r]), kept, "registers of the caller's");
    }

    fn step(&mut self, watch: &mut impl Watch) {
        let pc = self.registers[15];
        let word = self.code[((pc - CODE) / 4) as usize];
        watch.executes(pc, word);
        self.registers[15] = pc + 4;
        if !self.holds(word >> 28) {
            return;
        }
        let [rd, rn] = [12, 16].map(|at| (word >> at & 15) as usize);
        let r = &mut self.registers;
        match word & 0x0fff_ffff {
            // Coprocessor reads, NOP, SVC: nothing that matters here.
            0x0320_f000 | 0x0f00_0000 => {}
            op if op & 0x0ff0_0000 == 0x0e10_0000 => {}
            _ if word >> 28 == 15 => {}
            op if op & 0x0e00_0000 == 0x0a00_0000 => {
                if op & 1 << 24 != 0 {
                    r[14] = pc + 4;
                }
                r[15] = (pc + 8).wrapping_add(((op << 8) as i32 >> 6) as u32);
            }
            op if op & 0x0fff_fff0 == 0x012f_ff10 => r[15] = r[(op & 15) as usize],
            op if op & 0x0ff0_0000 == 0x0300_0000 => r[rd] = op >> 4 & 0xf000 | op & 0xfff,
            op if op & 0x0ff0_0000 == 0x0340_0000 => r[rd] = r[rd] & 0xffff | (op >> 4 & 0xf000 | op & 0xfff) << 16,
            op if op & 0x0ff0_0000 == 0x0250_0000 => {
                r[rd] = r[rn].wrapping_sub(op & 0xff);
                self.zero = r[rd] == 0;
            }
            op if op & 0x0ff0_0000 == 0x0350_0000 => self.zero = r[rn] == op & 0xff,
            0x01a0_4000 => r[4] = r[0],
            0x01a0_0004 => r[0] = r[4],
            0x01b0_20a2 => {
                self.carry = r[2] & 1 != 0;
                r[2] >>= 1;
            }
            0x01b0_20e2 => {
                self.carry = r[2] & 1 != 0;
                r[2] = r[2].rotate_right(1);
            }
            0x0022_2003 => r[2] ^= r[3],
            0x0082_2002 => r[2] = r[2].wrapping_add(r[2]),
            0x0002_0392 => r[2] = r[2].wrapping_mul(r[3]),
            op if op & 0x0fff_0000 == 0x092d_0000 => {
                let list: Vec<_> = (0..16).filter(|n| op & 1 << n != 0).collect();
                let base = r[13] - 4 * list.len() as u32;
                let values = list.iter().map(|n| r[*n]).collect::<Vec<_>>();
                r[13] = base;
                (0..).zip(values).for_each(|(n, value)| self.store(base + 4 * n, value, watch));
            }
            op if op & 0x0fff_0000 == 0x08bd_0000 => {
                for n in (0..16).filter(|n| op & 1 << n != 0) {
                    let at = self.registers[13];
                    self.registers[n] = self.load(at, watch);
                    self.registers[13] += 4;
                }
            }
            0x0590_0000 => self.registers[0] = self.load(self.registers[0], watch),
            0x0590_2004 => self.registers[2] = self.load(self.registers[0] + 4, watch),
            0x0480_2040 => {
                let (at, value) = (self.registers[0], self.registers[2]);
                self.store(at, value, watch);
                self.registers[0] = at + 64;
            }
            0x052d_e004 => {
                self.registers[13] -= 4;
                let (at, value) = (self.registers[13], self.registers[14]);
                self.store(at, value, watch);
            }
            0x049d_f004 => {
                let at = self.registers[13];
                self.registers[15] = self.load(at, watch);
                self.registers[13] += 4;
            }
            _ => panic!("{word:08x} at {pc:#x} is none of the probes' instructions"),
        }
    }
}
