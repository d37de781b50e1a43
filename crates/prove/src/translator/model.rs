//! A slow and obvious ARMv7-A machine, written from the manual's pseudocode (ARM DDI 0406C, chapters A5 and
//! A8) on its own: it takes instructions apart by bits and shares no line with the decoder, the interpreter or the
//! translator. What it and they disagree about is a bug in one of them.
//!
//! It executes one instruction at a time on a [`Bus`]. As the reference it runs guest code at the guest's own
//! addresses, in a privileged mode with an SPSR; as the host it runs translated code in User mode, where a sensitive
//! instruction is an [`Event::Privileged`] that must never be seen. What it says itself is compared with an emulator
//! that others wrote (`crate::native`).
pub mod t32;

use super::VFP_IDS;

/// The generic timer's counter: time stands still.
pub const COUNTER: u64 = 0x1234_5678_9abc_def0;

pub const N: u32 = 1 << 31;
pub const Z: u32 = 1 << 30;
pub const C: u32 = 1 << 29;
pub const V: u32 = 1 << 28;
pub const Q: u32 = 1 << 27;
pub const GE: u32 = 0xf << 16;
pub const T: u32 = 1 << 5;
/// ITSTATE.
pub const IT: u32 = 0x0600_fc00;

/// An access that aborts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The first address that cannot be accessed, or the misaligned one.
    pub address: u32,
    pub write: bool,
    pub alignment: bool,
}

/// Memory as the machine sees it.
pub trait Bus {
    /// The instruction at `address`.
    fn fetch(&mut self, address: u32) -> u32;
    /// The half-word at `address`, for T32.
    fn fetch_half(&mut self, address: u32) -> u32 {
        self.fetch(address & !3) >> (8 * (address & 2)) & 0xffff
    }
    /// `bytes` (1, 2, 4) at `address`, of any alignment; nothing happens where one of them faults.
    fn load(&mut self, address: u32, bytes: u32) -> Result<u32, Fault>;
    fn store(&mut self, address: u32, bytes: u32, value: u32) -> Result<(), Fault>;
    /// The next accesses have the rights of User mode, or again those of the mode.
    fn set_unprivileged(&mut self, _unprivileged: bool) {}
}

/// What an instruction did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// It executed; the PC is that of the next one.
    Done,
    /// SVC; the PC is still at it.
    Supervisor(u32),
    /// It is sensitive, and the machine is in User mode; or it is sensitive and not modelled. The PC is still at it.
    Privileged,
    /// It is undefined, or not modelled. The PC is still at it.
    Undefined,
    /// What it does is UNPREDICTABLE: nothing can be compared any more.
    Unpredictable,
    /// It faulted: nothing but memory has changed, and what a load of several registers had got so far.
    Fault(Fault),
    /// An exception return to this address, not aligned yet: all is done but for the CPSR and the PC, which is still at
    /// it.
    Return(u32),
}

/// System control registers that are storage, in the order of [`Supervisor::system`].
pub const CTR: usize = 0;
pub const SCTLR: usize = 1;
pub const TTBR0: usize = 2;
pub const TTBR1: usize = 3;
pub const DACR: usize = 4;
pub const DFSR: usize = 5;
pub const IFSR: usize = 6;
pub const DFAR: usize = 7;
pub const IFAR: usize = 8;
pub const CONTEXTIDR: usize = 9;
/// CRn, opc1, CRm and opc2 of each (B3.17.1).
pub const SYSTEM: [(u32, u32, u32, u32); 10] = [
    (0, 0, 0, 1),
    (1, 0, 0, 0),
    (2, 0, 0, 0),
    (2, 0, 0, 1),
    (3, 0, 0, 0),
    (5, 0, 0, 0),
    (5, 0, 0, 1),
    (6, 0, 0, 0),
    (6, 0, 0, 2),
    (13, 0, 0, 1),
];

/// What the reference machine has beyond User mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Supervisor {
    /// CPSR.A, I, F in their places.
    pub masks: u32,
    /// That of Supervisor mode.
    pub spsr: u32,
    /// SP and LR of User and System mode, or in System mode those of Supervisor mode.
    pub banked: [u32; 2],
    /// TPIDRPRW.
    pub thread_private: u32,
    /// System control registers.
    pub system: [u32; 10],
    /// Times that DACR was written.
    pub dacr_writes: u32,
    /// Branch predictors, or instruction caches, were invalidated.
    pub stale: bool,
    /// Instruction caches were.
    pub stale_code: bool,
    /// FPEXC; nothing but EN means anything.
    pub fpexc: u32,
    /// CPACR forbids VFP.
    pub vfp_denied: bool,
    /// TEEHBR.
    pub teehbr: u32,
    /// TLB operations so far, and the last: its operand, as far as it counts, with opc2 in bits 11:8.
    pub tlb: (u32, u32),
}

/// The machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    pub r: [u32; 15],
    /// Address of the next instruction.
    pub pc: u32,
    /// NZCVQ, GE, T and ITSTATE.
    pub psr: u32,
    /// Bytes of the instruction being executed; 4 between instructions.
    pub length: u32,
    /// S0 to S31, and D16 to D31 behind them, two words each.
    pub vfp: [u32; 64],
    /// TPIDRURW and TPIDRURO.
    pub thread: [u32; 2],
    /// PMCCNTR, which does not count, where User mode can reach it.
    pub cycles: Option<u32>,
    /// FPEXC.EN of a core that executes in User mode only.
    pub vfp_on: bool,
    /// The mode, as in the CPSR.
    pub mode: u32,
    /// Branches to an address that ends in 0b10 are UNPREDICTABLE, as they are; else it is aligned, as Spica does it.
    pub strict: bool,
    /// `None` is User mode.
    pub supervisor: Option<Supervisor>,
}

/// Modes (table B1-1).
pub const SUPERVISOR_MODE: u32 = 0x13;
pub const SYSTEM_MODE: u32 = 0x1f;

/// FPEXC.EN
pub const EN: u32 = 1 << 30;

fn bit(word: u32, n: u32) -> bool {
    word >> n & 1 != 0
}

fn bits(word: u32, hi: u32, lo: u32) -> u32 {
    (word >> lo) & ((1u64 << (hi - lo + 1)) - 1) as u32
}

/// `AddWithCarry` (A2.2.1): result, carry, overflow.
fn add_with_carry(x: u32, y: u32, carry: bool) -> (u32, bool, bool) {
    let unsigned = u64::from(x) + u64::from(y) + u64::from(carry);
    let signed = i64::from(x as i32) + i64::from(y as i32) + i64::from(carry);
    let result = unsigned as u32;
    (result, u64::from(result) != unsigned, i64::from(result as i32) != signed)
}

/// `Shift_C` (A2.2.1) for a decoded shift of `n` places; `kind` 4 is RRX.
fn shift_c(value: u32, kind: u32, n: u32, carry: bool) -> (u32, bool) {
    if kind == 4 {
        return (u32::from(carry) << 31 | value >> 1, bit(value, 0));
    }
    let (mut value, mut carry) = (value, carry);
    // One place at a time.
    for _ in 0..n {
        (value, carry) = match kind {
            0 => (value << 1, bit(value, 31)),
            1 => (value >> 1, bit(value, 0)),
            2 => (((value as i32) >> 1) as u32, bit(value, 0)),
            _ => (value.rotate_right(1), bit(value, 0)),
        };
    }
    (value, carry)
}

/// `ConditionPassed` (A8.3.1).
pub fn condition_passed(cond: u32, psr: u32) -> bool {
    let (n, z, c, v) = (psr & N != 0, psr & Z != 0, psr & C != 0, psr & V != 0);
    let result = match cond >> 1 {
        0 => z,
        1 => c,
        2 => n,
        3 => v,
        4 => c && !z,
        5 => n == v,
        6 => n == v && !z,
        _ => return true,
    };
    result != (cond & 1 != 0)
}

/// PLD, PLDW and PLI (A5.7.1).
pub fn is_preload(word: u32) -> bool {
    word & 0xfc30_f000 == 0xf410_f000 && !(bit(word, 25) && bit(word, 4))
}

impl Machine {
    fn reg(&self, n: u32) -> u32 {
        match n {
            15 if self.psr & T != 0 => self.pc.wrapping_add(4),
            15 => self.pc.wrapping_add(8),
            n => self.r[n as usize],
        }
    }

    /// `BXWritePC`. What ends in 0b10 is UNPREDICTABLE; Spica aligns it.
    fn bx_write_pc(&mut self, address: u32) -> Event {
        if bit(address, 0) {
            self.psr |= T;
            self.pc = address & !1;
        } else if self.strict && bit(address, 1) {
            return Event::Unpredictable;
        } else {
            self.psr &= !T;
            self.pc = address & !3;
        }
        Event::Done
    }

    /// Whether VFP instructions are executed (B1.11.3).
    pub fn has_vfp(&self) -> bool {
        self.supervisor.map_or(self.vfp_on, |supervisor| supervisor.fpexc & EN != 0 && !supervisor.vfp_denied)
    }

    fn next(&mut self) -> Event {
        self.pc = self.pc.wrapping_add(self.length);
        Event::Done
    }

    fn flags(&mut self, result: u32, carry: bool, overflow: Option<bool>) {
        self.psr &= !(N | Z | C);
        self.psr |= result & N;
        if result == 0 {
            self.psr |= Z;
        }
        if carry {
            self.psr |= C;
        }
        if let Some(overflow) = overflow {
            self.psr = self.psr & !V | u32::from(overflow) << 28;
        }
    }

    /// Executes the instruction at the PC.
    pub fn step(&mut self, bus: &mut impl Bus) -> Event {
        if self.psr & T != 0 {
            return self.step_t32(bus);
        }
        let word = bus.fetch(self.pc);
        if word >> 28 == 15 {
            return self.unconditional(word);
        }
        if !condition_passed(word >> 28, self.psr) {
            return self.next();
        }
        self.conditional(word, bus)
    }

    /// A5.1, of an instruction whose condition holds.
    fn conditional(&mut self, word: u32, bus: &mut impl Bus) -> Event {
        match (bits(word, 27, 25), bit(word, 4)) {
            (0b000, _) if bit(word, 7) && bit(word, 4) => {
                if bits(word, 6, 5) != 0 {
                    self.extra_load_store(word, bus)
                } else if bit(word, 24) {
                    self.exclusive(word, bus)
                } else {
                    self.multiply(word)
                }
            }
            (0b000 | 0b001, _) if bits(word, 24, 23) == 0b10 && !bit(word, 20) => self.miscellaneous(word),
            (0b000 | 0b001, _) => self.data_processing(word),
            (0b010, _) | (0b011, false) => self.load_store(word, bus),
            (0b011, true) => self.media(word),
            (0b100, _) => self.block_transfer(word, bus),
            (0b110, _) if bits(word, 11, 9) == 0b101 => self.vfp_transfer(word, bus),
            (0b110, _) if word & 0x0ff0_0f0f == 0x0c50_0f0e => self.counter(word),
            (0b101, _) => {
                if bit(word, 24) {
                    self.r[14] = self.pc.wrapping_add(4);
                }
                self.pc = self.reg(15).wrapping_add(((word << 8) as i32 >> 6) as u32);
                Event::Done
            }
            (0b111, _) if bit(word, 24) => Event::Supervisor(word & 0x00ff_ffff),
            (0b111, true) if word & 0x0fef_0fff == 0x0ee8_0a10 => self.vfp_enable(word),
            (0b111, true) if word & 0x0ff0_0fff == 0x0ef0_0a10 && matches!(bits(word, 19, 16), 0 | 6 | 7) => {
                self.vfp_id(word)
            }
            (0b111, true) => self.coprocessor(word, bus),
            _ => Event::Undefined,
        }
    }

    /// A5.7: barriers, CLREX and preloads do nothing here; CPS of masks.
    fn unconditional(&mut self, word: u32) -> Event {
        let barrier = word & 0xffff_ff80 == 0xf57f_f000;
        if barrier || is_preload(word) {
            return self.next();
        }
        // CPSIE, CPSID without a mode.
        if word & 0xfffb_fe3f == 0xf108_0000 {
            let Some(supervisor) = &mut self.supervisor else { return Event::Privileged };
            let masks = word & 0x1c0;
            supervisor.masks = if bit(word, 18) { supervisor.masks | masks } else { supervisor.masks & !masks };
            return self.next();
        }
        // BLX to Thumb.
        if word >> 25 == 0x7d {
            self.r[14] = self.pc.wrapping_add(4);
            let offset = ((word << 8) as i32 >> 6) as u32 | u32::from(bit(word, 24)) << 1;
            return self.bx_write_pc(self.reg(15).wrapping_add(offset) | 1);
        }
        if word & 0xfff1_fe20 == 0xf100_0000 || word & 0xfe00_0000 == 0xf800_0000 {
            return Event::Privileged;
        }
        Event::Undefined
    }

    fn data_processing(&mut self, word: u32) -> Event {
        let carry_in = self.psr & C != 0;
        let (operand, shifter_carry) = if bit(word, 25) {
            let value = bits(word, 7, 0).rotate_right(2 * bits(word, 11, 8));
            (value, if bits(word, 11, 8) == 0 { carry_in } else { bit(value, 31) })
        } else if bit(word, 4) {
            if [0, 8, 12, 16].iter().any(|&lo| bits(word, lo + 3, lo) == 15) {
                return Event::Unpredictable;
            }
            shift_c(self.reg(bits(word, 3, 0)), bits(word, 6, 5), self.reg(bits(word, 11, 8)) & 0xff, carry_in)
        } else {
            let (kind, amount) = match (bits(word, 6, 5), bits(word, 11, 7)) {
                (kind @ (1 | 2), 0) => (kind, 32),
                (3, 0) => (4, 1),
                other => other,
            };
            shift_c(self.reg(bits(word, 3, 0)), kind, amount, carry_in)
        };
        let (opcode, s, rd) = (bits(word, 24, 21), bit(word, 20), bits(word, 15, 12));
        self.operate(opcode, s, rd, self.reg(bits(word, 19, 16)), (operand, shifter_carry))
    }

    /// An opcode of data processing (A5.2.1) on two operands.
    fn operate(&mut self, opcode: u32, s: bool, rd: u32, rn: u32, (operand, shifter_carry): (u32, bool)) -> Event {
        let carry_in = self.psr & C != 0;
        let (result, carry, overflow) = match opcode {
            0 | 8 => (rn & operand, shifter_carry, None),
            1 | 9 => (rn ^ operand, shifter_carry, None),
            12 => (rn | operand, shifter_carry, None),
            13 => (operand, shifter_carry, None),
            14 => (rn & !operand, shifter_carry, None),
            15 => (!operand, shifter_carry, None),
            _ => {
                let (result, carry, overflow) = match opcode {
                    2 | 10 => add_with_carry(rn, !operand, true),
                    3 => add_with_carry(!rn, operand, true),
                    4 | 11 => add_with_carry(rn, operand, false),
                    5 => add_with_carry(rn, operand, carry_in),
                    6 => add_with_carry(rn, !operand, carry_in),
                    _ => add_with_carry(!rn, operand, carry_in),
                };
                (result, carry, Some(overflow))
            }
        };
        let test = matches!(opcode, 8..=11);
        if !test && rd == 15 {
            // With S it is an exception return.
            return match (s, self.supervisor) {
                (true, None) => Event::Privileged,
                (true, Some(_)) if self.is_system() => Event::Unpredictable,
                (true, Some(_)) => Event::Return(result),
                _ => self.bx_write_pc(result),
            };
        }
        if s {
            self.flags(result, carry, overflow);
        }
        if !test {
            self.r[rd as usize] = result;
        }
        self.next()
    }

    /// A5.2.10 to A5.2.12, and MOVW, MOVT.
    fn miscellaneous(&mut self, word: u32) -> Event {
        let rd = bits(word, 15, 12) as usize;
        if bit(word, 25) {
            if !bit(word, 21) {
                let imm = bits(word, 19, 16) << 12 | bits(word, 11, 0);
                if rd == 15 {
                    return Event::Unpredictable;
                }
                self.r[rd] = if bit(word, 22) { self.r[rd] & 0xffff | imm << 16 } else { imm };
                return self.next();
            }
            if bits(word, 22, 16) == 0b010_0000 {
                // Hints; WFE and WFI are the hypervisor's.
                return if matches!(bits(word, 7, 0), 2 | 3) { Event::Privileged } else { self.next() };
            }
            return self.msr(word, bits(word, 7, 0).rotate_right(2 * bits(word, 11, 8)));
        }
        match (bits(word, 6, 4), bits(word, 22, 21)) {
            // MRS and MSR of banked registers, and what should be zero or one.
            (0, op) if bit(word, 9) || op & 1 == 0 && word & 0xf_0fff != 0xf_0000 => Event::Undefined,
            (0, op) if op & 1 != 0 && bits(word, 15, 4) != 0xf00 => Event::Undefined,
            (0, 0b00) => {
                let Some(supervisor) = self.supervisor else {
                    // What User mode reads below bit 10 is UNKNOWN.
                    self.r[rd] = self.psr & (N | Z | C | V | Q | GE) | 0x2a5;
                    return self.next();
                };
                self.r[rd] = self.psr & !(T | IT) | supervisor.masks | self.mode;
                self.next()
            }
            (0, 0b10) => {
                let Some(supervisor) = self.supervisor else { return Event::Privileged };
                if self.is_system() {
                    return Event::Unpredictable;
                }
                self.r[rd] = supervisor.spsr;
                self.next()
            }
            (0, _) => self.msr(word, self.reg(bits(word, 3, 0))),
            (1 | 3, 0b01) => {
                let target = self.reg(bits(word, 3, 0));
                if bits(word, 6, 4) == 3 {
                    self.r[14] = self.pc.wrapping_add(4);
                }
                self.bx_write_pc(target)
            }
            (1, 0b11) => {
                self.r[rd] = self.reg(bits(word, 3, 0)).leading_zeros();
                self.next()
            }
            (5, op) => {
                let (m, n) = (self.reg(bits(word, 3, 0)) as i32, self.reg(bits(word, 19, 16)) as i32);
                let n = if op & 2 != 0 {
                    if n.checked_mul(2).is_none() {
                        self.psr |= Q;
                    }
                    n.saturating_mul(2)
                } else {
                    n
                };
                let exact = if op & 1 != 0 { m.checked_sub(n) } else { m.checked_add(n) };
                if exact.is_none() {
                    self.psr |= Q;
                }
                self.r[rd] = if op & 1 != 0 { m.saturating_sub(n) } else { m.saturating_add(n) } as u32;
                self.next()
            }
            _ => Event::Undefined,
        }
    }

    /// System mode has no SPSR, and no other registers of User mode than its own (B1.3.2).
    fn is_system(&self) -> bool {
        self.mode == SYSTEM_MODE
    }

    /// MSR: flags and GE of the CPSR, masks where `c` is written, with the mode as it is or changed to or from System
    /// mode; any byte of the SPSR.
    fn msr(&mut self, word: u32, value: u32) -> Event {
        let system = self.is_system();
        let Some(supervisor) = &mut self.supervisor else { return Event::Privileged };
        if bit(word, 22) {
            if system {
                return Event::Unpredictable;
            }
            for byte in 0..4 {
                if bit(word, 16 + byte) {
                    let mask = 0xff << (8 * byte);
                    supervisor.spsr = supervisor.spsr & !mask | value & mask;
                }
            }
            return self.next();
        }
        if bit(word, 17) && bit(value, 9) {
            return Event::Privileged;
        }
        if bit(word, 16) && value & 0x1f != self.mode {
            if !matches!(value & 0x1f, 0x10..=0x13 | 0x16 | 0x17 | 0x1a | 0x1b | 0x1f) {
                return Event::Unpredictable;
            }
            if ![self.mode, value & 0x1f].iter().all(|mode| matches!(*mode, SUPERVISOR_MODE | SYSTEM_MODE)) {
                return Event::Privileged;
            }
            self.mode = value & 0x1f;
            let [sp, lr] = std::mem::replace(&mut supervisor.banked, [self.r[13], self.r[14]]);
            (self.r[13], self.r[14]) = (sp, lr);
        }
        let mut mask = 0;
        mask |= if bit(word, 19) { N | Z | C | V | Q } else { 0 };
        mask |= if bit(word, 18) { GE } else { 0 };
        self.psr = self.psr & !mask | value & mask;
        let mut mask = 0;
        mask |= if bit(word, 17) { 0x100 } else { 0 };
        mask |= if bit(word, 16) { 0xc0 } else { 0 };
        supervisor.masks = supervisor.masks & !mask | value & mask;
        self.next()
    }

    fn multiply(&mut self, word: u32) -> Event {
        let (rd, ra) = (bits(word, 19, 16), bits(word, 15, 12));
        let (rm, rn) = (bits(word, 11, 8), bits(word, 3, 0));
        if [rd, rm, rn].contains(&15) {
            return Event::Unpredictable;
        }
        let (m, n, s) = (self.reg(rm), self.reg(rn), bit(word, 20));
        match bits(word, 23, 21) {
            3 if s => return Event::Undefined,
            op @ (0 | 1 | 3) => {
                let product = m.wrapping_mul(n);
                let result = match op {
                    0 => product,
                    1 => product.wrapping_add(self.reg(ra)),
                    _ => self.reg(ra).wrapping_sub(product),
                };
                self.r[rd as usize] = result;
                if s {
                    self.psr = self.psr & !(N | Z) | result & N | u32::from(result == 0) << 30;
                }
            }
            op @ (4 | 6) => {
                let result = if op == 4 {
                    u64::from(m) * u64::from(n)
                } else {
                    (i64::from(m as i32) * i64::from(n as i32)) as u64
                };
                self.r[ra as usize] = result as u32;
                self.r[rd as usize] = (result >> 32) as u32;
                if s {
                    self.psr = self.psr & !(N | Z) | (result >> 32) as u32 & N | u32::from(result == 0) << 30;
                }
            }
            _ => return Event::Undefined,
        }
        self.next()
    }

    /// Of A5.4 only the bit fields: BFI, BFC, UBFX, SBFX.
    fn media(&mut self, word: u32) -> Event {
        let (rd, rn, lsb) = (bits(word, 15, 12) as usize, bits(word, 3, 0), bits(word, 11, 7));
        let high = bits(word, 20, 16);
        let ones = |width: u32| ((1u64 << width) - 1) as u32;
        match (bits(word, 24, 21), bits(word, 6, 5)) {
            (0b1110, 0b00) if rd != 15 && high >= lsb => {
                let mask = ones(high - lsb + 1) << lsb;
                let value = if rn == 15 { 0 } else { self.reg(rn) << lsb };
                self.r[rd] = self.r[rd] & !mask | value & mask;
            }
            (op @ (0b1101 | 0b1111), 0b10) if rd != 15 && rn != 15 && lsb + high < 32 => {
                let unused = 31 - high;
                let field = (self.reg(rn) >> lsb) << unused;
                self.r[rd] = if op == 0b1101 { (field as i32 >> unused) as u32 } else { field >> unused };
            }
            _ => return Event::Undefined,
        }
        self.next()
    }

    /// LDREX, STREX, LDREXD and STREXD on a monitor that never loses a reservation.
    fn exclusive(&mut self, word: u32, bus: &mut impl Bus) -> Event {
        let address = self.reg(bits(word, 19, 16));
        let (d, t) = (bits(word, 15, 12), bits(word, 3, 0));
        match (bits(word, 23, 21), bit(word, 20)) {
            (0b100, _) => {}
            (0b101, true) if d % 2 == 0 && d < 14 => return self.exclusive_of_two(true, address, [d, d + 1], 0, bus),
            (0b101, false) if t % 2 == 0 && t < 14 => return self.exclusive_of_two(false, address, [t, t + 1], d, bus),
            _ => return Event::Undefined,
        }
        let write = !bit(word, 20);
        if address & 3 != 0 {
            return Event::Fault(Fault { address, write, alignment: true });
        }
        if write {
            if let Err(fault) = bus.store(address, 4, self.reg(bits(word, 3, 0))) {
                return Event::Fault(fault);
            }
            self.r[bits(word, 15, 12) as usize] = 0;
        } else {
            match bus.load(address, 4) {
                Err(fault) => return Event::Fault(fault),
                Ok(value) => self.r[bits(word, 15, 12) as usize] = value,
            }
        }
        self.next()
    }

    /// LDREXD and STREXD, in either state. What is aligned is in one page.
    fn exclusive_of_two(&mut self, load: bool, address: u32, two: [u32; 2], d: u32, bus: &mut impl Bus) -> Event {
        if address & 7 != 0 {
            return Event::Fault(Fault { address, write: !load, alignment: true });
        }
        for (address, t) in (address..).step_by(4).zip(two) {
            let done = if load {
                bus.load(address, 4).map(|value| self.r[t as usize] = value)
            } else {
                bus.store(address, 4, self.reg(t))
            };
            if let Err(fault) = done {
                return Event::Fault(fault);
            }
        }
        if !load {
            self.r[d as usize] = 0;
        }
        self.next()
    }

    /// The rest of a load or store, with the offset worked out.
    #[expect(clippy::too_many_arguments, reason = "the fields of the instruction")]
    fn transfer(
        &mut self,
        word: u32,
        offset: u32,
        load: bool,
        bytes: u32,
        signed: bool,
        dual: bool,
        bus: &mut impl Bus,
    ) -> Event {
        let unprivileged = !bit(word, 24) && bit(word, 21);
        bus.set_unprivileged(unprivileged);
        let event = self.privileged_transfer(word, offset, load, bytes, signed, dual, bus);
        bus.set_unprivileged(false);
        event
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of the instruction")]
    fn privileged_transfer(
        &mut self,
        word: u32,
        offset: u32,
        load: bool,
        bytes: u32,
        signed: bool,
        dual: bool,
        bus: &mut impl Bus,
    ) -> Event {
        let (rn, rt) = (bits(word, 19, 16), bits(word, 15, 12));
        let (pre, up, w) = (bit(word, 24), bit(word, 23), bit(word, 21));
        if !pre && w && self.supervisor.is_none() {
            return Event::Privileged;
        }
        let writeback = !pre || w;
        if writeback && (rn == 15 || rn == rt || dual && rn == rt + 1) {
            return Event::Unpredictable;
        }
        let base = self.reg(rn);
        let moved = if up { base.wrapping_add(offset) } else { base.wrapping_sub(offset) };
        let address = if pre { moved } else { base };
        if dual && address & 3 != 0 {
            return Event::Fault(Fault { address, write: !load, alignment: true });
        }
        if !load {
            let second = if dual { Some(self.reg(rt + 1)) } else { None };
            let mut result = bus.store(address, bytes, self.reg(rt));
            if let (Ok(()), Some(second)) = (result, second) {
                result = bus.store(address.wrapping_add(4), 4, second);
            }
            if let Err(fault) = result {
                return Event::Fault(fault);
            }
            if writeback {
                self.r[rn as usize] = moved;
            }
            return self.next();
        }
        let first = match bus.load(address, bytes) {
            Ok(value) => value,
            Err(fault) => return Event::Fault(fault),
        };
        let second = if dual {
            match bus.load(address.wrapping_add(4), 4) {
                Ok(value) => Some(value),
                Err(fault) => return Event::Fault(fault),
            }
        } else {
            None
        };
        if writeback {
            self.r[rn as usize] = moved;
        }
        if let Some(second) = second {
            self.r[rt as usize + 1] = second;
        }
        if rt == 15 {
            return self.bx_write_pc(first);
        }
        let unused = 32 - 8 * bytes;
        self.r[rt as usize] = if signed { ((first << unused) as i32 >> unused) as u32 } else { first };
        self.next()
    }

    /// A5.3.
    fn load_store(&mut self, word: u32, bus: &mut impl Bus) -> Event {
        let offset = if bit(word, 25) {
            let (kind, amount) = match (bits(word, 6, 5), bits(word, 11, 7)) {
                (kind @ (1 | 2), 0) => (kind, 32),
                (3, 0) => (4, 1),
                other => other,
            };
            shift_c(self.reg(bits(word, 3, 0)), kind, amount, self.psr & C != 0).0
        } else {
            bits(word, 11, 0)
        };
        let bytes = if bit(word, 22) { 1 } else { 4 };
        self.transfer(word, offset, bit(word, 20), bytes, false, false, bus)
    }

    /// A5.2.8.
    fn extra_load_store(&mut self, word: u32, bus: &mut impl Bus) -> Event {
        let offset = if bit(word, 22) { bits(word, 11, 8) << 4 | bits(word, 3, 0) } else { self.reg(bits(word, 3, 0)) };
        let (load, bytes, signed, dual) = match (bits(word, 6, 5), bit(word, 20)) {
            (1, load) => (load, 2, false, false),
            (2, true) => (true, 1, true, false),
            (3, true) => (true, 2, true, false),
            (2, false) => (true, 4, false, true),
            _ => (false, 4, false, true),
        };
        self.transfer(word, offset, load, bytes, signed, dual, bus)
    }

    /// LDM and STM; with `^` the registers of User mode, or an exception return.
    ///
    /// Where a load aborts, the base is as it was, and any other register of the list is UNKNOWN (B1.9.8): as on real
    /// cores, what was loaded before is there.
    fn block_transfer(&mut self, word: u32, bus: &mut impl Bus) -> Event {
        let (before, up, user) = (bit(word, 24), bit(word, 23), bit(word, 22));
        let (writeback, load, rn) = (bit(word, 21), bit(word, 20), bits(word, 19, 16));
        let list: Vec<u32> = (0..16).filter(|&n| bit(word, n)).collect();
        if list.is_empty() || rn == 15 || load && writeback && list.contains(&rn) {
            return Event::Unpredictable;
        }
        if user && self.supervisor.is_none() {
            return Event::Privileged;
        }
        if user && self.is_system() {
            return Event::Unpredictable;
        }
        let returns = user && load && list.contains(&15);
        let user = user && !returns;
        if user && writeback {
            return Event::Unpredictable;
        }
        let (base, size) = (self.reg(rn), 4 * list.len() as u32);
        let mut address = match (up, before) {
            (true, false) => base,
            (true, true) => base.wrapping_add(4),
            (false, false) => base.wrapping_sub(size).wrapping_add(4),
            (false, true) => base.wrapping_sub(size),
        };
        let after = if up { base.wrapping_add(size) } else { base.wrapping_sub(size) };
        if address & 3 != 0 {
            return Event::Fault(Fault { address, write: !load, alignment: true });
        }
        let mut loaded = Vec::new();
        for &n in &list {
            if load {
                match bus.load(address, 4) {
                    Ok(value) => loaded.push(value),
                    Err(fault) => {
                        if self.supervisor.is_none() {
                            for (&n, &value) in list.iter().zip(&loaded).filter(|&(&n, _)| n != rn) {
                                self.r[n as usize] = value;
                            }
                        }
                        return Event::Fault(fault);
                    }
                }
            } else {
                let value = match (n, user, self.supervisor) {
                    (13 | 14, true, Some(supervisor)) => supervisor.banked[n as usize - 13],
                    _ => self.reg(n),
                };
                if let Err(fault) = bus.store(address, 4, value) {
                    return Event::Fault(fault);
                }
            }
            address = address.wrapping_add(4);
        }
        if writeback {
            self.r[rn as usize] = after;
        }
        for (&n, &value) in list.iter().zip(&loaded) {
            match (n, user, &mut self.supervisor) {
                (15, _, _) if returns => return Event::Return(value),
                (15, _, _) => return self.bx_write_pc(value),
                (13 | 14, true, Some(supervisor)) => supervisor.banked[n as usize - 13] = value,
                _ => self.r[n as usize] = value,
            }
        }
        self.next()
    }

    /// VLDR, VSTR, VLDM, VSTM, VPUSH, VPOP (A7.6).
    fn vfp_transfer(&mut self, word: u32, bus: &mut impl Bus) -> Event {
        let (pre, up, w, load) = (bit(word, 24), bit(word, 23), bit(word, 21), bit(word, 20));
        let (rn, imm, double) = (bits(word, 19, 16), bits(word, 7, 0), bit(word, 8));
        let first = if double {
            2 * (bits(word, 22, 22) << 4 | bits(word, 15, 12))
        } else {
            bits(word, 15, 12) << 1 | bits(word, 22, 22)
        };
        let single_register = pre && !w;
        let words = match (single_register, double) {
            (true, true) => 2,
            (true, false) => 1,
            _ => imm,
        };
        // VLDM and VSTM: IA without and with writeback, DB with it. The rest is other instructions.
        let multiple = matches!((pre, up, w), (false, true, _) | (true, false, true));
        let limit = if double { 64 } else { 32 };
        if !single_register && (!multiple || double && imm % 2 != 0) {
            return Event::Undefined;
        }
        if !self.has_vfp() {
            return Event::Undefined;
        }
        if words == 0 || words > 32 || first + words > limit || rn == 15 && w {
            return Event::Unpredictable;
        }
        let base = if rn == 15 { self.reg(15) & !3 } else { self.reg(rn) };
        let moved = if up { base.wrapping_add(4 * imm) } else { base.wrapping_sub(4 * imm) };
        let address = if single_register || pre { moved } else { base };
        if address & 3 != 0 {
            return Event::Fault(Fault { address, write: !load, alignment: true });
        }
        let mut loaded = self.vfp;
        for n in 0..words {
            let (address, register) = (address.wrapping_add(4 * n), (first + n) as usize);
            let result = if load {
                bus.load(address, 4).map(|value| loaded[register] = value)
            } else {
                bus.store(address, 4, self.vfp[register])
            };
            if let Err(fault) = result {
                return Event::Fault(fault);
            }
        }
        self.vfp = loaded;
        if w {
            self.r[rn as usize] = moved;
        }
        self.next()
    }

    /// VMRS and VMSR of FPEXC (B9.3.25).
    fn vfp_enable(&mut self, word: u32) -> Event {
        let rt = bits(word, 15, 12);
        let Some(supervisor) = &mut self.supervisor else { return Event::Privileged };
        if supervisor.vfp_denied || rt == 15 {
            return Event::Undefined;
        }
        if bit(word, 20) {
            self.r[rt as usize] = supervisor.fpexc;
        } else {
            supervisor.fpexc = self.r[rt as usize] & EN;
        }
        self.next()
    }

    /// VMRS of FPSID, MVFR1 and MVFR0, whether VFP is on or not (B9.3.25).
    fn vfp_id(&mut self, word: u32) -> Event {
        let rt = bits(word, 15, 12);
        let Some(supervisor) = &self.supervisor else { return Event::Privileged };
        if supervisor.vfp_denied || rt == 15 {
            return Event::Undefined;
        }
        let [fpsid, mvfr1, mvfr0] = VFP_IDS;
        self.r[rt as usize] = match bits(word, 19, 16) {
            0 => fpsid,
            6 => mvfr1,
            _ => mvfr0,
        };
        self.next()
    }

    /// MRRC of CNTPCT, CNTVCT and the comparators, which are 0.
    fn counter(&mut self, word: u32) -> Event {
        let (rt, rt2, register) = (bits(word, 15, 12), bits(word, 19, 16), bits(word, 7, 4));
        if rt == 15 || rt2 == 15 || rt == rt2 || register > 3 {
            return Event::Undefined;
        }
        if self.supervisor.is_none() {
            return Event::Privileged;
        }
        let value = if register < 2 { COUNTER } else { 0 };
        self.r[rt as usize] = value as u32;
        self.r[rt2 as usize] = (value >> 32) as u32;
        self.next()
    }

    /// The thread ID registers, barriers, system registers that are storage, cache and TLB maintenance.
    fn coprocessor(&mut self, word: u32, bus: &mut impl Bus) -> Event {
        let rt = bits(word, 15, 12);
        // TEEHBR
        if word & 0x0fef_0fff == 0x0ec1_0e10 && rt != 15 {
            let Some(supervisor) = &mut self.supervisor else { return Event::Privileged };
            if bit(word, 20) {
                self.r[rt as usize] = supervisor.teehbr;
            } else {
                supervisor.teehbr = self.r[rt as usize] & !3;
            }
            return self.next();
        }
        if bits(word, 11, 8) != 15 || rt == 15 {
            return Event::Undefined;
        }
        let register = (bits(word, 19, 16), bits(word, 23, 21), bits(word, 3, 0), bits(word, 7, 5));
        match (bit(word, 20), register) {
            (true, (13, 0, 0, n @ (2 | 3))) => self.r[rt as usize] = self.thread[n as usize - 2],
            (false, (13, 0, 0, 2)) => self.thread[0] = self.reg(rt),
            (false, (7, 0, 5, 4) | (7, 0, 10, 4 | 5)) => {}
            (load, (9, 0, 13, 0)) if self.cycles.is_some() => {
                let value = self.reg(rt);
                match (load, &mut self.cycles) {
                    (true, Some(cycles)) => self.r[rt as usize] = *cycles,
                    (_, cycles) => *cycles = Some(value),
                }
            }
            (load, (13, 0, 0, n @ (3 | 4))) => {
                let value = self.reg(rt);
                let Some(supervisor) = &mut self.supervisor else { return Event::Privileged };
                match (load, n) {
                    (false, 3) => self.thread[1] = value,
                    (false, _) => supervisor.thread_private = value,
                    (true, _) => self.r[rt as usize] = supervisor.thread_private,
                }
            }
            (load, register) => {
                let value = self.reg(rt);
                let Some(supervisor) = &mut self.supervisor else { return Event::Privileged };
                let system = SYSTEM.iter().position(|&known| known == register);
                match (load, system, register) {
                    (true, Some(n), _) => self.r[rt as usize] = supervisor.system[n],
                    (false, Some(n @ (TTBR0 | TTBR1 | DACR | DFSR | IFSR | DFAR | IFAR | CONTEXTIDR)), _) => {
                        supervisor.system[n] = value;
                        supervisor.dacr_writes += u32::from(n == DACR);
                    }
                    (false, _, (8, 0, 3 | 7, op @ 0..=3) | (8, 0, 5 | 6, op @ 0..=2)) => {
                        // Of the whole TLB, an address with an ASID, an ASID, an address with any ASID (B4.2.2).
                        let counts = [0, 0xffff_f0ff, 0xff, 0xffff_f000][op as usize];
                        supervisor.tlb = (supervisor.tlb.0 + 1, value & counts | op << 8);
                    }
                    // BPIALLIS, BPIALL, BPIMVA.
                    (false, _, (7, 0, 1, 6) | (7, 0, 5, 6 | 7)) => supervisor.stale = true,
                    // ICIALLUIS, ICIALLU, ICIMVAU: the last does not fault in Spica.
                    (false, _, (7, 0, 1, 0) | (7, 0, 5, 0 | 1)) => {
                        (supervisor.stale, supervisor.stale_code) = (true, true);
                    }
                    // DCISW, DCCSW, DCCISW
                    (false, _, (7, 0, 6 | 10 | 14, 2)) => {}
                    // DCIMVAC, DCCMVAC, DCCMVAU, DCCIMVAC: their faults are those of a write (B3.12.3).
                    (false, _, (7, 0, 6 | 10 | 11 | 14, 1)) => {
                        if let Err(fault) = bus.load(value, 1) {
                            return Event::Fault(Fault { write: true, ..fault });
                        }
                    }
                    _ => return Event::Privileged,
                }
            }
        }
        self.next()
    }

    /// Makes the exception return to `target` good that [`Event::Return`] told of, to this mode.
    pub fn return_to(&mut self, target: u32) {
        let Some(supervisor) = &mut self.supervisor else { unreachable!("User mode has no SPSR") };
        assert_eq!(supervisor.spsr & 0x1f, self.mode, "back to the same mode");
        let thumb = supervisor.spsr & T != 0;
        supervisor.masks = supervisor.spsr & 0x1c0;
        // Without a mask, it is outside of an IT block, whatever the rest of ITSTATE is.
        let in_it = thumb && t32::it_state(supervisor.spsr) & 15 != 0;
        let state = if in_it {
            T | IT
        } else if thumb {
            T
        } else {
            0
        };
        self.psr = supervisor.spsr & (N | Z | C | V | Q | GE | state);
        self.pc = target & if thumb { !1 } else { !3 };
    }
}
