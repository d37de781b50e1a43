//! A client that has a kernel's accesses to memory looked at, and tells of places in its code (`CheckAccesses`).
//!
//! In front of each load and store of the guest's, translated code looks at a mark of the memory that is accessed, in a
//! map at [`MARKS`], for 512 MiB of addresses: a byte for each 64 of them. If the mark is set, code traps
//! ([`trap::CHECK`]), and Rust knows more. Flags stay as they are: the mark, as 0 or −1, is added to the PC. What a
//! mark is depends on who looks ([`Look`]).
//!
//! Not looked at are what goes by SP or PC; accesses with User mode's rights; those of VFP and SIMD; what lies between
//! a load-exclusive and its store, where more stores might make that fail for ever; stores of the PC with others; and
//! T32 code.

use spica_addr::GuestVa;
use spica_isa::{Cond, Decoded, Mem, MemMultiple, MemSize, ModImm, Offset, Op, Reg, ShiftType, asm, encode};
use spica_isa::{DpOp, Operand2};
use spica_vcpu::field;

use crate::client::Client;
use crate::emit::Emitter;
use crate::trap;

/// Where translated code finds the marks, in the kernel view: a byte for each 64 bytes, by the low 29 bits of an
/// address. It is a modified immediate of A32.
pub const MARKS: u32 = 0xf500_0000;
/// Bytes of them.
pub const MARKS_SIZE: u32 = 1 << MARKS_BITS;
/// An address's bits from this on say which byte has its mark, so many of them.
const BYTE: u32 = 6;
const MARKS_BITS: u32 = 23;
/// And with [`Look::Granule`] from this on which bit of it.
const BIT: u32 = 3;

/// What is looked for: which bit of a byte of marks is the mark of an access.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Look {
    /// Each bit is the mark of 8 bytes, the lowest bit of the first ones, for loads and stores alike: which objects of
    /// a heap may be accessed.
    #[default]
    Granule,
    /// [`LOADS`] is the mark of loads of all 64 bytes, and [`STORES`] that of stores: who uses which line. The other
    /// bits are not looked at.
    Line,
}

/// The bit of a line's mark that has loads trap ([`Look::Line`]).
pub const LOADS: u32 = 0;
/// And the one that has stores trap; a load-exclusive is taken as one, since its store-exclusive is not looked at.
pub const STORES: u32 = 1;

/// Places of a kernel at which its calls are told of, at most.
pub const MOST_HOOKS: usize = 96;
/// Ranges of a kernel's code whose accesses are not checked, at most.
pub const MOST_SKIPPED: usize = 8;

/// What of a kernel is told of, what is looked for in front of its accesses, and where that is not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checks {
    look: Look,
    hooks: [(GuestVa, u8); MOST_HOOKS],
    hook_count: usize,
    skipped: [(GuestVa, GuestVa); MOST_SKIPPED],
    skip_count: usize,
    /// Of two words, both are looked at.
    both: bool,
    /// No access is looked at, but edges are counted.
    edges: bool,
}

impl Checks {
    /// This is looked for everywhere, and nothing is told of.
    #[must_use]
    pub const fn new(look: Look) -> Self {
        let nowhere = GuestVa(0);
        Checks {
            look,
            hooks: [(nowhere, 0); MOST_HOOKS],
            hook_count: 0,
            skipped: [(nowhere, nowhere); MOST_SKIPPED],
            skip_count: 0,
            both: false,
            edges: false,
        }
    }

    /// No access is looked at, but edges are counted ([`crate::edges`]), and nothing is told of.
    #[must_use]
    pub fn of_edges() -> Self {
        Checks { edges: true, ..Checks::new(Look::default()) }
    }

    /// Whether that is so.
    pub(crate) const fn counts_edges(&self) -> bool {
        self.edges
    }

    /// Tells with `number` that the instruction at `pc`, which is A32, is about to be executed. False if there is no
    /// room, or something is told of there already.
    pub fn hook(&mut self, pc: GuestVa, number: u8) -> bool {
        let (Err(at), true) = (self.find(pc), self.hook_count < MOST_HOOKS) else { return false };
        self.hooks.copy_within(at..self.hook_count, at + 1);
        self.hooks[at] = (pc, number);
        self.hook_count += 1;
        true
    }

    /// Code from `from` up to `to` is not checked, nor are its edges counted. False if there is no room.
    pub fn skip(&mut self, from: GuestVa, to: GuestVa) -> bool {
        let Some(place) = self.skipped.get_mut(self.skip_count) else { return false };
        *place = (from, to);
        self.skip_count += 1;
        true
    }

    /// Of an access to two words, both are looked at, and not one for both: what is known of one may differ from what
    /// is known of the other.
    pub const fn look_at_both(&mut self) {
        self.both = true;
    }

    fn find(&self, pc: GuestVa) -> Result<usize, usize> {
        self.hooks[..self.hook_count].binary_search_by_key(&pc.0, |&(at, _)| at.0)
    }

    pub(crate) fn hook_at(&self, pc: GuestVa) -> Option<u8> {
        self.find(pc).ok().map(|at| self.hooks[at].1)
    }

    pub(crate) fn skips(&self, pc: GuestVa) -> bool {
        self.skipped[..self.skip_count].iter().any(|&(from, to)| (from.0..to.0).contains(&pc.0))
    }
}

/// How far from its base register's value an access begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Distance {
    Bytes(i32),
    Register { rm: Reg, shift: ShiftType, amount: u8, add: bool },
}

/// What an instruction accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accessed {
    /// Whether it stores.
    pub write: bool,
    /// How many bytes.
    pub bytes: u32,
    /// Whether it is a load that a store-exclusive may follow.
    pub exclusive: bool,
    rn: Reg,
    distance: Distance,
}

impl Accessed {
    /// That of an instruction that is checked.
    #[must_use]
    pub fn of(d: &Decoded) -> Option<Accessed> {
        if d.uncond {
            return None;
        }
        let accessed = match d.op {
            Op::Mem(mem) => single(mem)?,
            Op::MemMultiple(mem) => multiple(mem)?,
            Op::Exclusive => exclusive(d.word)?,
            _ => return None,
        };
        let rm = match accessed.distance {
            Distance::Bytes(_) => None,
            Distance::Register { rm, .. } => Some(rm),
        };
        (accessed.rn.n() < 13 || accessed.rn.n() == 14).then_some(accessed).filter(|_| !rm.is_some_and(Reg::is_pc))
    }

    /// Where it begins, with these registers.
    #[must_use]
    pub fn address(&self, regs: &[u32]) -> u32 {
        let value = |reg: Reg| regs.get(reg.n() as usize).copied().unwrap_or(0);
        match self.distance {
            Distance::Bytes(bytes) => value(self.rn).wrapping_add_signed(bytes),
            Distance::Register { rm, shift, amount, add } => {
                let (rm, by) = (value(rm), u32::from(amount));
                let distance = match (shift, by) {
                    (ShiftType::Lsl, _) => rm << by,
                    (ShiftType::Lsr, 0) => 0,
                    (ShiftType::Lsr, _) => rm >> by,
                    (ShiftType::Asr, 0) => (rm.cast_signed() >> 31).cast_unsigned(),
                    (ShiftType::Asr, _) => (rm.cast_signed() >> by).cast_unsigned(),
                    (ShiftType::Ror, _) => rm.rotate_right(by),
                };
                let base = value(self.rn);
                if add { base.wrapping_add(distance) } else { base.wrapping_sub(distance) }
            }
        }
    }

    /// Which of its bytes are looked at, from its start: one, or the first and one of the last word; `both` says
    /// whether that is so of two words, too.
    const fn looks(&self, look: Look, both: bool) -> (u32, Option<u32>) {
        match (look, self.bytes) {
            (_, 0..=4) => (0, None),
            // A doubleword and two words are as good as always in one granule, or they begin in one.
            (Look::Granule, 5..=8) if !both => (4, None),
            (_, bytes) => (0, Some(bytes - 4)),
        }
    }

    /// Which bit of a line's mark it asks for.
    #[must_use]
    pub const fn line_bit(&self) -> u32 {
        if self.write || self.exclusive { STORES } else { LOADS }
    }

    /// Emits `to = address + more`.
    fn emit_address(&self, e: &mut Emitter<'_>, to: Reg, more: u32) {
        match self.distance {
            Distance::Bytes(bytes) => emit_sum(e, to, self.rn, bytes.wrapping_add_unsigned(more)),
            Distance::Register { rm, shift, amount, add } => {
                let op = if add { DpOp::Add } else { DpOp::Sub };
                let op2 = Operand2::Shifted { rm, shift, amount };
                let op = Op::DataProcessing { op, s: false, rd: to, rn: self.rn, op2 };
                e.emit(encode(&Decoded { word: 0, cond: Cond::Al, uncond: false, op }));
                if more != 0 {
                    e.emit(asm::add_imm(Cond::Al, to, to, asm::imm(more)));
                }
            }
        }
    }
}

/// Emits `to = from + distance`, which is less than 4,096 either way.
fn emit_sum(e: &mut Emitter<'_>, to: Reg, from: Reg, distance: i32) {
    let word = |to, from, imm| {
        let sum = if distance < 0 { asm::sub_imm } else { asm::add_imm };
        sum(Cond::Al, to, from, imm)
    };
    let bytes = distance.unsigned_abs();
    match ModImm::encode(bytes) {
        Some(imm) => e.emit(word(to, from, imm)),
        None => {
            e.emit(word(to, from, asm::imm(bytes & 0xff)));
            // Bits 11 to 8, rotated right by 24 bits.
            e.emit(word(to, to, ModImm::from_field(0xc00 | bytes >> 8 & 0xf)));
        }
    }
}

fn single(mem: Mem) -> Option<Accessed> {
    let Mem { load, size, rn, offset, add, pre, unprivileged, .. } = mem;
    if unprivileged {
        return None;
    }
    let bytes = match size {
        MemSize::Word => 4,
        MemSize::Byte | MemSize::SignedByte => 1,
        MemSize::Half | MemSize::SignedHalf => 2,
        MemSize::Dual => 8,
    };
    let distance = match offset {
        _ if !pre => Distance::Bytes(0),
        Offset::Imm(imm) if add => Distance::Bytes(imm.into()),
        Offset::Imm(imm) => Distance::Bytes(-i32::from(imm)),
        // With the carry flag.
        Offset::Reg { shift: ShiftType::Ror, amount: 0, .. } => return None,
        Offset::Reg { rm, shift, amount } => Distance::Register { rm, shift, amount, add },
    };
    Some(Accessed { write: !load, bytes, exclusive: false, rn, distance })
}

fn multiple(mem: MemMultiple) -> Option<Accessed> {
    let MemMultiple { load, before, increment, user, rn, regs, .. } = mem;
    if user {
        return None;
    }
    let bytes = 4 * regs.count_ones();
    let lowest = match (increment, before) {
        (true, false) => 0,
        (true, true) => 4,
        (false, false) => 4 - bytes.cast_signed(),
        (false, true) => -bytes.cast_signed(),
    };
    Some(Accessed { write: !load, bytes, exclusive: false, rn, distance: Distance::Bytes(lowest) })
}

/// The loads: LDREX, LDREXB, LDREXH and LDREXD (A8.8.75 to A8.8.78).
fn exclusive(word: u32) -> Option<Accessed> {
    let bytes = match word >> 20 & 0xff {
        0x19 => 4,
        0x1b => 8,
        0x1d => 1,
        0x1f => 2,
        _ => return None,
    };
    let rn = Reg::new(word >> 16 & 0xf);
    Some(Accessed { write: false, bytes, exclusive: true, rn, distance: Distance::Bytes(0) })
}

/// See the module's text.
pub(crate) struct CheckAccesses<'a> {
    checks: &'a Checks,
    /// A load-exclusive was translated, and no other exclusive access since.
    monitored: bool,
}

impl<'a> CheckAccesses<'a> {
    pub(crate) const fn new(checks: &'a Checks) -> Self {
        CheckAccesses { checks, monitored: false }
    }
}

/// Words of the look at one byte, behind its address, at most.
const LOOK: usize = 8;

impl Client for CheckAccesses<'_> {
    // A hook, two registers spilled and loaded, and two looks, the first with an address of one word, the second with
    // one of two: that of the second word of a doubleword, if both are looked at. For a line, whose look is two words
    // shorter, it is enough.
    const ROOM: usize = 1 + 4 + 1 + LOOK + 2 + LOOK;

    fn run_begins(&mut self, _: &mut Emitter<'_>, _: GuestVa) {}

    fn run_ends(&mut self, _: GuestVa) {}

    fn instruction(&mut self, e: &mut Emitter<'_>, d: &Decoded, pc: GuestVa) {
        if let Some(number) = self.checks.hook_at(pc) {
            e.emit(asm::svc(d.cond, trap::hook(number)));
        }
        let monitored = self.monitored;
        if matches!(d.op, Op::Exclusive | Op::ClearExclusive) {
            self.monitored = exclusive(d.word).is_some() && d.op == Op::Exclusive;
        }
        if monitored || self.checks.skips(pc) {
            return;
        }
        let Some(accessed) = Accessed::of(d) else { return };
        let mut used = 1 << accessed.rn.n();
        if let Distance::Register { rm, .. } = accessed.distance {
            used |= 1 << rm.n();
        }
        let mut free = (0..13).filter(|n| used >> n & 1 == 0).map(Reg::new);
        let (Some(address), Some(mark)) = (free.next(), free.next()) else { return };
        // A line's mark needs no more of the address than where it is.
        let look = self.checks.look;
        let mark = if look == Look::Line { address } else { mark };
        let spilled = [address, mark];
        let spilled = &spilled[..if look == Look::Line { 1 } else { 2 }];
        for (slot, &reg) in (0..).zip(spilled) {
            e.page_field(false, Cond::Al, reg, field::spill(slot));
        }
        let (first, last) = accessed.looks(look, self.checks.both);
        for at in [Some(first), last].into_iter().flatten() {
            accessed.emit_address(e, address, at);
            e.emit(ubfx(mark, address, BYTE, MARKS_BITS));
            e.emit(asm::add_imm(Cond::Al, mark, mark, MARKS_IMM));
            if let Some(word) = asm::ldr_str(true, Cond::Al, mark, mark, 0) {
                e.emit(asm::as_byte(word));
            }
            let bit = match look {
                Look::Granule => {
                    e.emit(ubfx(address, address, BIT, BYTE - BIT));
                    e.emit(lsr_reg(mark, mark, address));
                    0
                }
                Look::Line => accessed.line_bit(),
            };
            e.emit(sbfx(mark, mark, bit, 1));
            // Over the next word, if the bit is 0, else to it.
            e.emit(asm::add_pc(mark));
            e.emit(asm::svc(Cond::Al, trap::check(address.n() as u8, mark.n() as u8)));
        }
        for (slot, &reg) in (0..).zip(spilled) {
            e.page_field(true, Cond::Al, reg, field::spill(slot));
        }
    }
}

/// [`MARKS`].
const MARKS_IMM: ModImm = ModImm::from_field(0x4f5);

/// `UBFX rd, rn, #lsb, #width` (A8.8.246).
const fn ubfx(rd: Reg, rn: Reg, lsb: u32, width: u32) -> u32 {
    0xe7e0_0050 | (width - 1) << 16 | rd.n() << 12 | lsb << 7 | rn.n()
}

/// `SBFX rd, rn, #lsb, #width` (A8.8.164).
const fn sbfx(rd: Reg, rn: Reg, lsb: u32, width: u32) -> u32 {
    0xe7a0_0050 | (width - 1) << 16 | rd.n() << 12 | lsb << 7 | rn.n()
}

/// `LSR rd, rm, rs` (A8.8.98).
const fn lsr_reg(rd: Reg, rm: Reg, rs: Reg) -> u32 {
    0xe1a0_0030 | rd.n() << 12 | rs.n() << 8 | rm.n()
}

const _: () = assert!(MARKS_IMM.value() == MARKS);
