//! The model in Thumb state, from chapters A6 and A8 of the manual, on its own as the rest: by bits, and by hand.
//!
//! What is the same operation as in A32 is executed as that, with the A32 word put together here; everything that has
//! to do with the PC, flags by position in an IT block, or operands that A32 lacks is written out.

use super::{Bus, C, Event, Fault, IT, Machine, bit, bits, condition_passed, shift_c};

/// AL, in an A32 word.
const AL: u32 = 14 << 28;

/// ITSTATE (A2.5.2), of its places in the PSR.
pub fn it_state(psr: u32) -> u32 {
    bits(psr, 15, 10) << 2 | bits(psr, 26, 25)
}

/// The PSR with that ITSTATE.
pub fn with_it_state(psr: u32, it: u32) -> u32 {
    psr & !IT | bits(it, 7, 2) << 10 | bits(it, 1, 0) << 25
}

/// Whether the instruction that begins with `first` has two halfwords.
pub fn is_wide(first: u32) -> bool {
    matches!(bits(first, 15, 11), 0b11101..=0b11111)
}

/// `ThumbExpandImm_C` (A6.3.2).
fn expand_imm(imm12: u32, carry: bool) -> (u32, bool) {
    let byte = bits(imm12, 7, 0);
    match bits(imm12, 11, 8) {
        0 => (byte, carry),
        1 => (byte << 16 | byte, carry),
        2 => (byte << 24 | byte << 8, carry),
        3 => (byte << 24 | byte << 16 | byte << 8 | byte, carry),
        _ => {
            let value = (0x80 | bits(imm12, 6, 0)).rotate_right(bits(imm12, 11, 7));
            (value, bit(value, 31))
        }
    }
}

/// A field of `width` bits as a signed number, in halfwords.
fn signed(value: u32, width: u32) -> u32 {
    (((value << (32 - width)) as i32) >> (32 - width)) as u32
}

/// A load or store.
struct Access {
    load: bool,
    bytes: u32,
    signed: bool,
    unprivileged: bool,
    rt: u32,
    address: u32,
    /// The base, and what it becomes.
    moved: Option<(u32, u32)>,
}

impl Machine {
    /// Executes the instruction at the PC, in Thumb state.
    pub(super) fn step_t32(&mut self, bus: &mut impl Bus) -> Event {
        let first = bus.fetch_half(self.pc);
        let wide = is_wide(first);
        let second = if wide { bus.fetch_half(self.pc.wrapping_add(2)) } else { 0 };
        self.length = if wide { 4 } else { 2 };
        let it = it_state(self.psr);
        // BKPT is executed whatever the condition is.
        let always = !wide && bits(first, 15, 8) == 0xbe;
        let passed = it & 15 == 0 || always || condition_passed(it >> 4, self.psr);
        let event = if !passed {
            self.next()
        } else if wide {
            self.wide(first, second, bus)
        } else {
            self.narrow(first, bus)
        };
        self.length = 4;
        // What follows IT has the state that it sets.
        let sets_it = passed && !wide && bits(first, 15, 8) == 0b1011_1111 && bits(first, 3, 0) != 0;
        if matches!(event, Event::Done | Event::Supervisor(_)) && !sets_it {
            let next = if it & 7 == 0 { 0 } else { it & 0xe0 | it << 1 & 0x1f };
            self.psr = with_it_state(self.psr, next);
        }
        event
    }

    /// Whether the instruction is outside of an IT block, where narrow ones set flags.
    fn outside(&self) -> u32 {
        u32::from(it_state(self.psr) & 15 == 0)
    }

    /// `BranchWritePC`: the state stays.
    fn branch_write_pc(&mut self, address: u32) -> Event {
        self.pc = address & !1;
        Event::Done
    }

    fn narrow(&mut self, op: u32, bus: &mut impl Bus) -> Event {
        let s = self.outside() << 20;
        let (low, mid, high) = (bits(op, 2, 0), bits(op, 5, 3), bits(op, 8, 6));
        let (imm5, imm8, reg8) = (bits(op, 10, 6), bits(op, 7, 0), bits(op, 10, 8));
        match bits(op, 15, 11) {
            kind @ 0..=2 => self.a32(0x01a0_0000 | s | low << 12 | imm5 << 7 | kind << 5 | mid, bus),
            3 => {
                let opcode = if bit(op, 9) { 2 << 21 } else { 4 << 21 };
                let operand = if bit(op, 10) { 1 << 25 | high } else { high };
                self.a32(opcode | s | mid << 16 | low << 12 | operand, bus)
            }
            4 => self.a32(0x03a0_0000 | s | reg8 << 12 | imm8, bus),
            5 => self.a32(0x0350_0000 | reg8 << 16 | imm8, bus),
            6 => self.a32(0x0280_0000 | s | reg8 << 16 | reg8 << 12 | imm8, bus),
            7 => self.a32(0x0240_0000 | s | reg8 << 16 | reg8 << 12 | imm8, bus),
            8 if !bit(op, 10) => self.narrow_data(op, s, bus),
            8 => self.high_registers(op, bus),
            9 => self.single(Access { rt: reg8, address: self.literal().wrapping_add(4 * imm8), ..LDR }, bus),
            10 | 11 => {
                let address = self.reg(mid).wrapping_add(self.reg(high));
                let (load, bytes, signed) = [
                    (false, 4, false),
                    (false, 2, false),
                    (false, 1, false),
                    (true, 1, true),
                    (true, 4, false),
                    (true, 2, false),
                    (true, 1, false),
                    (true, 2, true),
                ][bits(op, 11, 9) as usize];
                self.single(Access { load, bytes, signed, rt: low, address, ..LDR }, bus)
            }
            kind @ 12..=17 => {
                let bytes = [4, 1, 2][(kind as usize - 12) / 2];
                let address = self.reg(mid).wrapping_add(imm5 * bytes);
                self.single(Access { load: kind & 1 != 0, bytes, rt: low, address, ..LDR }, bus)
            }
            kind @ (18 | 19) => {
                let address = self.r[13].wrapping_add(4 * imm8);
                self.single(Access { load: kind & 1 != 0, rt: reg8, address, ..LDR }, bus)
            }
            20 => self.result(reg8, self.literal().wrapping_add(4 * imm8)),
            21 => self.result(reg8, self.r[13].wrapping_add(4 * imm8)),
            22 | 23 => self.miscellaneous_t32(op, bus),
            24 => self.a32(0x08a0_0000 | reg8 << 16 | imm8, bus),
            25 => self.a32(0x0890_0000 | u32::from(!bit(imm8, reg8)) << 21 | reg8 << 16 | imm8, bus),
            26 | 27 => match bits(op, 11, 8) {
                14 => Event::Undefined,
                15 => Event::Supervisor(imm8),
                cond if condition_passed(cond, self.psr) => {
                    self.branch_write_pc(self.reg(15).wrapping_add(signed(imm8, 8) << 1))
                }
                _ => self.next(),
            },
            28 => self.branch_write_pc(self.reg(15).wrapping_add(signed(bits(op, 10, 0), 11) << 1)),
            _ => unreachable!("wide"),
        }
    }

    /// A6.2.2.
    fn narrow_data(&mut self, op: u32, s: u32, bus: &mut impl Bus) -> Event {
        let (d, m) = (bits(op, 2, 0), bits(op, 5, 3));
        let same = |opcode: u32| opcode << 21 | s | d << 16 | d << 12 | m;
        let test = |opcode: u32| opcode << 21 | 1 << 20 | d << 16 | m;
        let shift = |kind: u32| 0x01a0_0010 | s | d << 12 | m << 8 | kind << 5 | d;
        let word = match bits(op, 9, 6) {
            0 => same(0),
            1 => same(1),
            2 => shift(0),
            3 => shift(1),
            4 => shift(2),
            5 => same(5),
            6 => same(6),
            7 => shift(3),
            8 => test(8),
            9 => 0x0260_0000 | s | m << 16 | d << 12,
            10 => test(10),
            11 => test(11),
            12 => same(12),
            13 => s | d << 16 | d << 8 | 0x90 | m,
            14 => same(14),
            _ => 15 << 21 | s | d << 12 | m,
        };
        self.a32(word, bus)
    }

    /// A6.2.3.
    fn high_registers(&mut self, op: u32, bus: &mut impl Bus) -> Event {
        let (d, m) = (bits(op, 7, 7) << 3 | bits(op, 2, 0), bits(op, 6, 3));
        match bits(op, 9, 8) {
            0 if d == 15 => self.branch_write_pc(self.reg(15).wrapping_add(self.reg(m))),
            0 => self.result(d, self.reg(d).wrapping_add(self.reg(m))),
            1 => self.a32(0x0150_0000 | d << 16 | m, bus),
            2 if d == 15 => self.branch_write_pc(self.reg(m)),
            2 => self.result(d, self.reg(m)),
            _ => {
                let target = self.reg(m);
                if bit(op, 7) {
                    self.r[14] = self.pc.wrapping_add(2) | 1;
                }
                self.bx_write_pc(target)
            }
        }
    }

    /// A6.2.5.
    fn miscellaneous_t32(&mut self, op: u32, bus: &mut impl Bus) -> Event {
        let (d, m) = (bits(op, 2, 0), bits(op, 5, 3));
        match bits(op, 11, 8) {
            0 => {
                let imm = 4 * bits(op, 6, 0);
                let sp = self.r[13];
                self.result(13, if bit(op, 7) { sp.wrapping_sub(imm) } else { sp.wrapping_add(imm) })
            }
            1 | 3 | 9 | 11 => {
                let offset = bits(op, 9, 9) << 6 | bits(op, 7, 3) << 1;
                if (self.r[d as usize] != 0) == bit(op, 11) {
                    self.branch_write_pc(self.reg(15).wrapping_add(offset))
                } else {
                    self.next()
                }
            }
            4 | 5 => self.a32(0x092d_0000 | bits(op, 8, 8) << 14 | bits(op, 7, 0), bus),
            12 | 13 => self.a32(0x08bd_0000 | bits(op, 8, 8) << 15 | bits(op, 7, 0), bus),
            6 if bits(op, 7, 5) == 0b011 => self.change_state(bits(op, 4, 4), bits(op, 2, 0)),
            6 if bits(op, 7, 4) == 0b0101 => Event::Privileged,
            2 => self.a32(0x06af_0070 | [1 << 20, 0, 5 << 20, 4 << 20][bits(op, 7, 6) as usize] | d << 12 | m, bus),
            10 => match bits(op, 7, 6) {
                0 => self.a32(0x06bf_0f30 | d << 12 | m, bus),
                1 => self.a32(0x06bf_0fb0 | d << 12 | m, bus),
                3 => self.a32(0x06ff_0fb0 | d << 12 | m, bus),
                _ => Event::Undefined,
            },
            15 if bits(op, 3, 0) != 0 => {
                self.psr = with_it_state(self.psr, bits(op, 7, 0));
                self.next()
            }
            15 => self.a32(0x0320_f000 | bits(op, 7, 4), bus),
            _ => Event::Undefined,
        }
    }

    /// CPS of masks alone.
    fn change_state(&mut self, disable: u32, aif: u32) -> Event {
        let Some(supervisor) = &mut self.supervisor else { return Event::Privileged };
        let masks = aif << 6;
        supervisor.masks = if disable != 0 { supervisor.masks | masks } else { supervisor.masks & !masks };
        self.next()
    }

    /// `Align(PC, 4)`.
    fn literal(&self) -> u32 {
        self.reg(15) & !3
    }

    fn result(&mut self, rd: u32, value: u32) -> Event {
        self.r[rd as usize] = value;
        self.next()
    }

    /// The A32 instruction of these bits, under no condition.
    fn a32(&mut self, body: u32, bus: &mut impl Bus) -> Event {
        self.conditional(AL | body, bus)
    }

    /// A6.3.
    fn wide(&mut self, first: u32, second: u32, bus: &mut impl Bus) -> Event {
        let whole = first << 16 | second;
        let op2 = bits(first, 10, 4);
        match (bits(first, 12, 11), op2 >> 5) {
            (1, 0) if !bit(first, 6) => self.multiple(first, second, bus),
            (1, 0) => self.dual_exclusive_table(first, second, bus),
            (1, 1) => self.shifted_register(first, second, bus),
            (2, _) if bit(second, 15) => self.branch_and_control(first, second, bus),
            (2, _) => self.immediate(first, second),
            (3, 0) if op2 & 0x11 == 0x10 => Event::Undefined, // Advanced SIMD
            (3, 0) => self.load_store_t32(first, second, bus),
            (3, 1) => self.register_and_multiply(first, second, bus),
            // Coprocessors have the same bits.
            (1, _) if bits(first, 9, 8) != 3 => self.a32(bits(whole, 27, 0), bus),
            _ => Event::Undefined,
        }
    }

    /// A6.3.5.
    fn multiple(&mut self, first: u32, second: u32, bus: &mut impl Bus) -> Event {
        let (op, w, load, n) = (bits(first, 8, 7), bits(first, 5, 5), bit(first, 4), bits(first, 3, 0));
        if matches!(op, 0 | 3) {
            return Event::Privileged;
        }
        // IA is 01, DB 10.
        let mode = if op == 1 { 1 << 23 } else { 1 << 24 };
        self.a32(0x0800_0000 | mode | w << 21 | u32::from(load) << 20 | n << 16 | second, bus)
    }

    /// A6.3.6.
    fn dual_exclusive_table(&mut self, first: u32, second: u32, bus: &mut impl Bus) -> Event {
        let (p, u, w, load) = (bit(first, 8), bit(first, 7), bit(first, 5), bit(first, 4));
        let n = bits(first, 3, 0);
        let (t, t2, imm8, m) = (bits(second, 15, 12), bits(second, 11, 8), bits(second, 7, 0), bits(second, 3, 0));
        if p || w {
            let base = if n == 15 { self.literal() } else { self.reg(n) };
            let moved = if u { base.wrapping_add(4 * imm8) } else { base.wrapping_sub(4 * imm8) };
            let address = if p { moved } else { base };
            return self.dual(load, t, t2, address, w.then_some((n, moved)), bus);
        }
        if !u {
            // LDREX and STREX with an offset
            let address = self.reg(n).wrapping_add(4 * imm8);
            return self.exclusive_word(load, address, t, t2, bus);
        }
        match (load, bits(second, 7, 4)) {
            (_, 7) => {
                let address = self.reg(n);
                self.exclusive_of_two(load, address, [t, t2], m, bus)
            }
            (true, op @ (0 | 1)) => {
                let address = self.reg(n).wrapping_add(self.reg(m) << op);
                match bus.load(address, 1 + op) {
                    Ok(value) => self.branch_write_pc(self.reg(15).wrapping_add(2 * value)),
                    Err(fault) => Event::Fault(fault),
                }
            }
            _ => Event::Undefined,
        }
    }

    fn exclusive_word(&mut self, load: bool, address: u32, t: u32, d: u32, bus: &mut impl Bus) -> Event {
        if address & 3 != 0 {
            return Event::Fault(Fault { address, write: !load, alignment: true });
        }
        if load {
            match bus.load(address, 4) {
                Ok(value) => self.r[t as usize] = value,
                Err(fault) => return Event::Fault(fault),
            }
        } else {
            if let Err(fault) = bus.store(address, 4, self.reg(t)) {
                return Event::Fault(fault);
            }
            self.r[d as usize] = 0;
        }
        self.next()
    }

    fn dual(
        &mut self,
        load: bool,
        t: u32,
        t2: u32,
        address: u32,
        moved: Option<(u32, u32)>,
        bus: &mut impl Bus,
    ) -> Event {
        if address & 3 != 0 {
            return Event::Fault(Fault { address, write: !load, alignment: true });
        }
        let second = address.wrapping_add(4);
        if load {
            let loaded = bus.load(address, 4).and_then(|low| bus.load(second, 4).map(|high| (low, high)));
            let (low, high) = match loaded {
                Ok(loaded) => loaded,
                Err(fault) => return Event::Fault(fault),
            };
            if let Some((n, moved)) = moved {
                self.r[n as usize] = moved;
            }
            (self.r[t as usize], self.r[t2 as usize]) = (low, high);
        } else {
            let (low, high) = (self.reg(t), self.reg(t2));
            if let Err(fault) = bus.store(address, 4, low).and_then(|()| bus.store(second, 4, high)) {
                return Event::Fault(fault);
            }
            if let Some((n, moved)) = moved {
                self.r[n as usize] = moved;
            }
        }
        self.next()
    }

    /// A6.3.11.
    fn shifted_register(&mut self, first: u32, second: u32, bus: &mut impl Bus) -> Event {
        let (op, s, n) = (bits(first, 8, 5), bits(first, 4, 4), bits(first, 3, 0));
        let (d, m) = (bits(second, 11, 8), bits(second, 3, 0));
        let (imm5, kind) = (bits(second, 14, 12) << 2 | bits(second, 7, 6), bits(second, 5, 4));
        let operand = imm5 << 7 | kind << 5 | m;
        if op == 3 && n != 15 {
            let (kind, amount) = match (kind, imm5) {
                (kind @ (1 | 2), 0) => (kind, 32),
                (3, 0) => (4, 1),
                other => other,
            };
            let (value, carry) = shift_c(self.reg(m), kind, amount, self.psr & C != 0);
            return self.operate(12, s != 0, d, self.reg(n), (!value, carry));
        }
        if op == 6 {
            return Event::Undefined; // PKH
        }
        let Some((opcode, d, n)) = opcode(op, s != 0, d, n) else { return Event::Undefined };
        self.a32(opcode << 21 | s << 20 | n << 16 | d << 12 | operand, bus)
    }

    /// A6.3.1 and A6.3.3.
    fn immediate(&mut self, first: u32, second: u32) -> Event {
        let n = bits(first, 3, 0);
        let d = bits(second, 11, 8);
        let imm12 = bits(first, 10, 10) << 11 | bits(second, 14, 12) << 8 | bits(second, 7, 0);
        if !bit(first, 9) {
            let (op, s) = (bits(first, 8, 5), bit(first, 4));
            let (value, carry) = expand_imm(imm12, self.psr & C != 0);
            if op == 3 && n != 15 {
                return self.operate(12, s, d, self.reg(n), (!value, carry));
            }
            let Some((opcode, d, n)) = opcode(op, s, d, n) else { return Event::Undefined };
            return self.operate(opcode, s, d, self.reg(n), (value, carry));
        }
        let base = if n == 15 { self.literal() } else { self.reg(n) };
        let (lsb, width) = (bits(second, 14, 12) << 2 | bits(second, 7, 6), bits(second, 4, 0));
        match bits(first, 8, 4) {
            0b00000 => self.result(d, base.wrapping_add(imm12)),
            0b01010 => self.result(d, base.wrapping_sub(imm12)),
            0b00100 => self.result(d, n << 12 | imm12),
            0b01100 => self.result(d, self.reg(d) & 0xffff | (n << 12 | imm12) << 16),
            0b10100 | 0b11100 if lsb + width < 32 => {
                let unused = 31 - width;
                let field = (base >> lsb) << unused;
                let signed = (field as i32 >> unused) as u32;
                self.result(d, if bit(first, 7) { field >> unused } else { signed })
            }
            0b10110 if width >= lsb => {
                let mask = (((1u64 << (width - lsb + 1)) - 1) as u32) << lsb;
                let value = if n == 15 { 0 } else { self.reg(n) << lsb };
                self.result(d, self.reg(d) & !mask | value & mask)
            }
            _ => Event::Undefined,
        }
    }

    /// A6.3.4.
    fn branch_and_control(&mut self, first: u32, second: u32, bus: &mut impl Bus) -> Event {
        let (s, j1, j2) = (bits(first, 10, 10), bits(second, 13, 13), bits(second, 11, 11));
        let far = {
            let (i1, i2) = (1 ^ j1 ^ s, 1 ^ j2 ^ s);
            let offset = s << 24 | i1 << 23 | i2 << 22 | bits(first, 9, 0) << 12 | bits(second, 10, 0) << 1;
            signed(offset, 25)
        };
        let behind = self.pc.wrapping_add(4) | 1;
        match (bit(second, 14), bit(second, 12)) {
            (false, true) => self.branch_write_pc(self.reg(15).wrapping_add(far)),
            (true, true) => {
                self.r[14] = behind;
                self.branch_write_pc(self.reg(15).wrapping_add(far))
            }
            (true, false) if bit(second, 0) => Event::Undefined,
            (true, false) => {
                let target = self.literal().wrapping_add(far & !3);
                self.r[14] = behind;
                self.bx_write_pc(target)
            }
            (false, false) if bits(first, 9, 7) != 7 => {
                let near = s << 20 | j2 << 19 | j1 << 18 | bits(first, 5, 0) << 12 | bits(second, 10, 0) << 1;
                if condition_passed(bits(first, 9, 6), self.psr) {
                    self.branch_write_pc(self.reg(15).wrapping_add(signed(near, 21)))
                } else {
                    self.next()
                }
            }
            (false, false) => self.control(first, second, bus),
        }
    }

    /// The rest of A6.3.4.
    fn control(&mut self, first: u32, second: u32, bus: &mut impl Bus) -> Event {
        let (n, d) = (bits(first, 3, 0), bits(second, 11, 8));
        match bits(first, 10, 4) {
            0b011_1000 | 0b011_1001 if !bit(second, 5) => {
                self.a32(0x0120_f000 | bits(first, 4, 4) << 22 | d << 16 | n, bus)
            }
            0b011_1110 | 0b011_1111 if !bit(second, 5) => {
                self.a32(0x010f_0000 | bits(first, 4, 4) << 22 | d << 12, bus)
            }
            // Hints, and CPS
            0b011_1010 if bits(second, 10, 8) == 0 => self.a32(0x0320_f000 | bits(second, 7, 0), bus),
            0b011_1010 if !bit(second, 8) && bit(second, 10) => {
                self.change_state(bits(second, 9, 9), bits(second, 7, 5))
            }
            0b011_1010 => Event::Privileged,
            // CLREX and barriers; LEAVEX
            0b011_1011 if matches!(bits(second, 7, 4), 0 | 2 | 4 | 5 | 6) => self.next(),
            // SUBS PC, LR
            0b011_1101 => match self.supervisor {
                None => Event::Privileged,
                Some(_) if self.is_system() => Event::Unpredictable,
                Some(_) => Event::Return(self.r[14].wrapping_sub(bits(second, 7, 0))),
            },
            // BXJ, SMC
            0b011_1100 | 0b111_1110 | 0b111_1111 if !bit(second, 13) => Event::Privileged,
            _ => Event::Undefined,
        }
    }

    /// A6.3.7 to A6.3.10.
    fn load_store_t32(&mut self, first: u32, second: u32, bus: &mut impl Bus) -> Event {
        let (sign, up, size, load, n) =
            (bit(first, 8), bit(first, 7), bits(first, 6, 5), bit(first, 4), bits(first, 3, 0));
        let (t, imm12, imm8) = (bits(second, 15, 12), bits(second, 11, 0), bits(second, 7, 0));
        let bytes = match size {
            3 => return Event::Undefined,
            size => 1 << size,
        };
        let unallocated = sign && (!load || size == 2) || !load && n == 15;
        let base = if n == 15 { self.literal() } else { self.reg(n) };
        let by = |up: bool, offset: u32| if up { base.wrapping_add(offset) } else { base.wrapping_sub(offset) };
        let (address, moved, unprivileged) = if n == 15 {
            (by(up, imm12), None, false)
        } else if up {
            (by(true, imm12), None, false)
        } else if bits(second, 11, 6) == 0 {
            (by(true, self.reg(bits(second, 3, 0)) << bits(second, 5, 4)), None, false)
        } else if bit(second, 11) {
            let (p, u, w) = (bit(second, 10), bit(second, 9), bit(second, 8));
            let moved = by(u, imm8);
            match (p, u, w) {
                (true, true, false) => (moved, None, true),
                (true, false, false) => (moved, None, false),
                (false, _, false) => return Event::Undefined,
                (p, _, true) => (if p { moved } else { base }, Some((n, moved)), false),
            }
        } else {
            return Event::Undefined;
        };
        if unallocated {
            return Event::Undefined;
        }
        if load && t == 15 && size != 2 {
            // Memory hints
            return self.next();
        }
        self.single(Access { load, bytes, signed: sign, unprivileged, rt: t, address, moved }, bus)
    }

    /// A single load or store. A load of the PC interworks.
    fn single(&mut self, access: Access, bus: &mut impl Bus) -> Event {
        let Access { load, bytes, signed, unprivileged, rt, address, moved } = access;
        bus.set_unprivileged(unprivileged);
        let result = if load { bus.load(address, bytes) } else { bus.store(address, bytes, self.reg(rt)).map(|()| 0) };
        bus.set_unprivileged(false);
        let value = match result {
            Ok(value) => value,
            Err(fault) => return Event::Fault(fault),
        };
        if let Some((n, moved)) = moved {
            self.r[n as usize] = moved;
        }
        if !load {
            return self.next();
        }
        if rt == 15 {
            return self.bx_write_pc(value);
        }
        let unused = 32 - 8 * bytes;
        self.result(rt, if signed { ((value << unused) as i32 >> unused) as u32 } else { value })
    }

    /// A6.3.12 to A6.3.17, as far as A32 is modelled.
    fn register_and_multiply(&mut self, first: u32, second: u32, bus: &mut impl Bus) -> Event {
        let (n, d, m) = (bits(first, 3, 0), bits(second, 11, 8), bits(second, 3, 0));
        let (a, op) = (bits(second, 15, 12), bits(second, 7, 4));
        match (bits(first, 9, 4), op) {
            // LSL, LSR, ASR, ROR by a register
            (op1 @ 0b10_0000..=0b10_0111, 0) if a == 15 => {
                let (kind, s) = (op1 >> 1 & 3, op1 & 1);
                self.a32(0x01a0_0010 | s << 20 | d << 12 | m << 8 | kind << 5 | n, bus)
            }
            (0b10_1011, 0b1000) if a == 15 => self.a32(0x016f_0f10 | d << 12 | m, bus),
            // QADD, QDADD, QSUB, QDSUB
            (0b10_1000, op @ 0b1000..=0b1011) if a == 15 => {
                let which = [0, 2, 1, 3][op as usize & 3];
                self.a32(0x0100_0050 | which << 21 | n << 16 | d << 12 | m, bus)
            }
            (0b11_0000, 0) if a == 15 => self.a32(0x90 | d << 16 | m << 8 | n, bus),
            (0b11_0000, 0) => self.a32(0x0020_0090 | d << 16 | a << 12 | m << 8 | n, bus),
            (0b11_0000, 1) => self.a32(0x0060_0090 | d << 16 | a << 12 | m << 8 | n, bus),
            (0b11_1000, 0) => self.a32(0x00c0_0090 | d << 16 | a << 12 | m << 8 | n, bus),
            (0b11_1010, 0) => self.a32(0x0080_0090 | d << 16 | a << 12 | m << 8 | n, bus),
            _ => Event::Undefined,
        }
    }
}

/// LDR, without operands.
const LDR: Access = Access { load: true, bytes: 4, signed: false, unprivileged: false, rt: 0, address: 0, moved: None };

/// The A32 opcode of an opcode of A6.3.1 and A6.3.11, with the registers that it has.
fn opcode(op: u32, s: bool, d: u32, n: u32) -> Option<(u32, u32, u32)> {
    Some(match (op, d == 15 && s, n == 15) {
        (0, true, _) => (8, 0, n),
        (0, ..) => (0, d, n),
        (1, ..) => (14, d, n),
        (2, _, true) => (13, d, 0),
        (2, ..) => (12, d, n),
        (3, _, true) => (15, d, 0),
        (4, true, _) => (9, 0, n),
        (4, ..) => (1, d, n),
        (8, true, _) => (11, 0, n),
        (8, ..) => (4, d, n),
        (10, ..) => (5, d, n),
        (11, ..) => (6, d, n),
        (13, true, _) => (10, 0, n),
        (13, ..) => (2, d, n),
        (14, ..) => (3, d, n),
        _ => return None,
    })
}
