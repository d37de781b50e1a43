//! What the tests of the virtual CPU share: dice, a guest memory with pages that fault, and a naive model of modes and
//! banked registers, written from the figures of B1.3 on its own.
// Each test file uses a part of this.
#![allow(dead_code)]

use spica_vcpu::cp15::TimerReg;
use spica_vcpu::interp::{self, Abort, Env, Step};
use spica_vcpu::{Bank, Cpu, CpuId, VcpuPage};
use std::collections::HashMap;

/// Deterministic pseudo-random numbers (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..4 {
            random.word();
        }
        random
    }

    pub fn word(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    pub fn below(&mut self, limit: u32) -> u32 {
        ((u64::from(self.word()) * u64::from(limit)) >> 32) as u32
    }

    pub fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }

    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u32) as usize]
    }
}

/// The number of cases a random test runs, from the environment, and the first seed.
pub fn cases(default: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seed = number("SPICA_SEED").unwrap_or(1);
    seed..seed + number("SPICA_CASES").unwrap_or(default)
}

/// Says, while a test panics, which seed it was.
pub struct Seed(pub u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with SPICA_SEED={} SPICA_CASES=1", self.0);
        }
    }
}

/// Where the memory of [`World`] is: three pages. The second one is for privileged code only, the third one is not
/// there.
pub const RAM: u32 = 0x2000_0000;
pub const PRIVILEGED: u32 = RAM + 0x1000;
pub const ABSENT: u32 = RAM + 0x2000;

/// Translation fault and permission fault of a page (table B3-23).
pub const TRANSLATION: u32 = 0b00111;
pub const PERMISSION: u32 = 0b01111;
pub const ALIGNMENT: u32 = 0b00001;
pub const WRITE: u32 = 1 << 11;

/// An access that the interpreter made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    pub va: u32,
    pub bytes: u32,
    pub write: bool,
    pub privileged: bool,
}

/// The test double of the interpreter's environment.
#[derive(Default)]
pub struct World {
    pub bytes: HashMap<u32, u8>,
    pub log: Vec<Access>,
    /// What was written to the timer.
    pub timer: Vec<(TimerReg, u64)>,
}

impl World {
    fn access(&mut self, access: Access) -> Result<(), Abort> {
        self.log.push(access);
        for n in 0..access.bytes {
            let far = access.va.wrapping_add(n);
            let status = match far & !0xfff {
                RAM => continue,
                PRIVILEGED if access.privileged => continue,
                PRIVILEGED => PERMISSION,
                _ => TRANSLATION,
            };
            return Err(Abort { fsr: status | if access.write { WRITE } else { 0 }, far });
        }
        Ok(())
    }

    pub fn word(&self, va: u32) -> u32 {
        (0..4).fold(0, |word, n| word | u32::from(self.bytes.get(&va.wrapping_add(n)).copied().unwrap_or(0)) << (8 * n))
    }

    pub fn set_word(&mut self, va: u32, value: u32) {
        for n in 0..4 {
            self.bytes.insert(va + n, (value >> (8 * n)) as u8);
        }
    }
}

impl Env for World {
    fn load(&mut self, _cpu: &mut Cpu, va: u32, bytes: u32, privileged: bool) -> Result<u32, Abort> {
        self.access(Access { va, bytes, write: false, privileged })?;
        Ok(self.word(va) & u32::MAX >> (32 - 8 * bytes))
    }

    fn store(&mut self, _cpu: &mut Cpu, va: u32, bytes: u32, value: u32, privileged: bool) -> Result<(), Abort> {
        self.access(Access { va, bytes, write: true, privileged })?;
        for n in 0..bytes {
            self.bytes.insert(va + n, (value >> (8 * n)) as u8);
        }
        Ok(())
    }

    fn timer_read(&mut self, reg: TimerReg) -> u64 {
        0x0123_4567_89ab_cd00 | reg as u64
    }

    fn timer_write(&mut self, reg: TimerReg, value: u64) {
        self.timer.push((reg, value));
    }
}

/// A virtual CPU in the reset state.
pub fn vcpu() -> Cpu {
    Cpu::new(Box::leak(Box::new(VcpuPage::reset())), CpuId::default())
}

/// Interprets one instruction word.
pub fn execute(cpu: &mut Cpu, world: &mut World, word: u32, pc: u32) -> Step {
    interp::execute(cpu, world, &spica_isa::decode(word), pc)
}

/// Everything that a guest could see of its CPU, in one list.
pub fn snapshot(cpu: &Cpu) -> (Vec<u32>, String) {
    let page = &cpu.page;
    let mut words = cpu.regs.to_vec();
    words.extend([cpu.cpsr(), page.spsr, page.tpidrprw, page.tpidruro]);
    words.extend(page.bank.iter().flat_map(|bank| [bank.sp, bank.lr]));
    words.extend(page.bank.iter().map(|bank| bank.spsr));
    words.extend(page.bank_r8_r12);
    (words, format!("{:?}", cpu.cp15))
}

pub const USR: u32 = 0x10;
pub const FIQ: u32 = 0x11;
pub const IRQ: u32 = 0x12;
pub const SVC: u32 = 0x13;
pub const ABT: u32 = 0x17;
pub const UND: u32 = 0x1b;
pub const SYS: u32 = 0x1f;
pub const MODES: [u32; 7] = [USR, FIQ, IRQ, SVC, ABT, UND, SYS];

/// CPSR bits.
pub const T: u32 = 1 << 5;
pub const F: u32 = 1 << 6;
pub const I: u32 = 1 << 7;
pub const A: u32 = 1 << 8;
pub const E: u32 = 1 << 9;
pub const IT: u32 = 0x0600_fc00;
pub const FLAGS: u32 = 0xf80f_0000;

/// Registers by mode: one cell for each row and column of figure B1-2.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registers {
    pub cpsr: u32,
    /// By the letter of the column and the register's number; 16 is the SPSR.
    cells: HashMap<(&'static str, usize), u32>,
}

impl Registers {
    /// As at reset, all registers 0.
    pub fn new() -> Registers {
        Registers { cpsr: A | I | F | SVC, cells: HashMap::new() }
    }

    pub fn mode(&self) -> u32 {
        self.cpsr & 0x1f
    }

    fn column(mode: u32, n: usize) -> &'static str {
        let own = match mode {
            FIQ => "fiq",
            IRQ => "irq",
            SVC => "svc",
            ABT => "abt",
            UND => "und",
            _ => "usr",
        };
        match n {
            0..=7 => "usr",
            8..=12 if mode == FIQ => "fiq",
            8..=12 => "usr",
            _ => own,
        }
    }

    /// Register `n` as `mode` sees it; 16 is its SPSR.
    pub fn get(&self, mode: u32, n: usize) -> u32 {
        self.cells.get(&(Self::column(mode, n), n)).copied().unwrap_or(0)
    }

    pub fn set(&mut self, mode: u32, n: usize, value: u32) {
        self.cells.insert((Self::column(mode, n), n), value);
    }

    pub fn has_spsr(&self) -> bool {
        !matches!(self.mode(), USR | SYS)
    }

    /// Whether the virtual CPU holds just this.
    pub fn check(&self, cpu: &Cpu, what: &str) {
        let mode = self.mode();
        assert_eq!(cpu.cpsr(), self.cpsr, "CPSR after {what}");
        for n in 0..15 {
            assert_eq!(cpu.regs[n], self.get(mode, n), "R{n} in mode {mode:#x} after {what}");
            assert_eq!(cpu.user_reg(n), self.get(USR, n), "R{n}_usr in mode {mode:#x} after {what}");
        }
        if self.has_spsr() {
            assert_eq!(cpu.page.spsr, self.get(mode, 16), "SPSR in mode {mode:#x} after {what}");
        }
        let banks = [
            (FIQ, Bank::Fiq),
            (IRQ, Bank::Irq),
            (SVC, Bank::Svc),
            (ABT, Bank::Abt),
            (UND, Bank::Und),
            (USR, Bank::Usr),
        ];
        for (other, bank) in banks {
            if Self::column(other, 13) != Self::column(mode, 13) {
                assert_eq!(cpu.page.bank[bank as usize].sp, self.get(other, 13), "SP of {other:#x} after {what}");
                assert_eq!(cpu.page.bank[bank as usize].lr, self.get(other, 14), "LR of {other:#x} after {what}");
                if other != USR {
                    assert_eq!(
                        cpu.page.bank[bank as usize].spsr,
                        self.get(other, 16),
                        "SPSR of {other:#x} after {what}"
                    );
                }
            }
        }
    }
}
