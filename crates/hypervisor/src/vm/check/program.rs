//! Programs of a step: guest kernel code, straight-line, that does a few of the things that have handlers in assembly,
//! and may end with a return to a user program. Every one comes to an SMC in the end, its own or that of an exception
//! vector.
//!
//! What the architecture leaves open is not done, so that all ways must give the same: an entry that was valid is
//! changed with maintenance for every ASID that may have it, before anything else is accessed; an ASID belongs to one
//! table, or to none that has entries of its own.

mod modes;
mod time;
mod user;

use alloc::vec;
use alloc::vec::Vec;

use spica_vcpu::psr::{self, Mode};

use super::memory::{self, Entry, harmless};
use super::random::Random;
use crate::layout::CODE_CACHE_START;
use crate::world::announced_line;

/// What steps of a session have in common.
#[derive(Clone, Copy)]
pub struct Kind {
    /// The guest writes nonsense to its vCPU page: nothing is compared then, but nothing may happen to others.
    pub hostile: bool,
    /// Not much maintenance of everything: what was mapped stays.
    pub calm: bool,
    /// User code may read the generic timer's frequency, and so its counter, which it does not.
    pub frequency: bool,
    /// See [`memory::favourites`].
    pub favourites: [u32; 2],
}

/// A program, and the user program that it may return to.
pub struct Program {
    /// Kernel code.
    pub words: Vec<u32>,
    /// Where it is.
    pub pa: u32,
    /// Where it is entered.
    pub va: u32,
    /// User code.
    pub user: Vec<u32>,
    /// Where that is.
    pub user_pa: u32,
    /// What it does, for a report.
    pub acts: Vec<&'static str>,
}

/// The immediate of the SMC at the end of programs; those of vectors are below.
pub const END: u32 = 15;

/// CPSID I. When an interrupt is taken that comes while code runs may differ: it is at the next trap to Rust, which is
/// another one where assembly answers. So it waits for a change of the masks, which is a trap for both.
const CPSID_I: u32 = 0xf10c_0080;

/// An SMC that ends a step.
pub const fn smc(number: u32) -> u32 {
    0xe160_0070 | number
}

/// The eight vectors.
pub fn vectors() -> Vec<u32> {
    (0..8).map(smc).collect()
}

const MODES: [Mode; 5] = [Mode::Svc, Mode::Irq, Mode::Abt, Mode::Und, Mode::Sys];

/// Domain 0 is the kernel's: it stays open.
pub fn any_dacr(random: &mut Random) -> u32 {
    const USUAL: [u32; 8] =
        [0x4000_4555, 0x4000_4555, 0x4000_4555, 0x5555_5555, 0x5555_5555, 0x4000_4551, 0x0000_0001, 0x4000_4575];
    if random.one_in(6) { random.word() & !0b11 | random.pick(&[0b01, 0b01, 0b11]) } else { random.pick(&USUAL) }
}

/// A PSR for a return: flags, and now and then bits that should be zero.
fn any_psr(random: &mut Random, mode: u32) -> u32 {
    let flags = random.word() & 0xf80f_0000;
    let masks = if random.one_in(3) { random.word() & 0x1c0 } else { 0 };
    let odd = if random.one_in(12) { random.word() & 0x07f0_fc00 } else { 0 };
    flags | masks | odd | mode
}

struct Writer<'a> {
    random: &'a mut Random,
    kind: Kind,
    /// The table that is in force, once that is known.
    root: Option<u32>,
    /// And the ASID.
    asid: Option<u32>,
    words: Vec<u32>,
    va: u32,
    user: Vec<u32>,
    user_va: u32,
    mode: Mode,
    acts: Vec<&'static str>,
}

const fn mcr(rt: u32, crn: u32, crm: u32, opc2: u32) -> u32 {
    0xee00_0f10 | crn << 16 | rt << 12 | opc2 << 5 | crm
}

const TTBR0: u32 = mcr(0, 2, 0, 0);
const CONTEXTIDR: u32 = mcr(0, 13, 0, 1);
const DACR: u32 = mcr(0, 3, 0, 0);
const TLBIALL: u32 = mcr(0, 8, 7, 0);
const TLBIASID: u32 = mcr(0, 8, 7, 2);
const TLBIMVAA: u32 = mcr(0, 8, 7, 3);
const ICIALLU: u32 = mcr(0, 7, 5, 0);
const BPIALL: u32 = mcr(0, 7, 5, 6);
const DCCMVAU: u32 = mcr(0, 7, 11, 1);
const DCCMVAC: u32 = mcr(0, 7, 10, 1);
const ICIMVAU: u32 = mcr(0, 7, 5, 1);
const ISB: u32 = 0xf57f_f06f;
const DSB: u32 = 0xf57f_f04f;
const MOVS_PC_LR: u32 = 0xe1b0_f00e;
const MSR_SPSR_R5: u32 = 0xe16f_f005;
const MOV_LR_R6: u32 = 0xe1a0_e006;
const T32_NOP: u16 = 0xbf00;
const VMSR_FPEXC_R0: u32 = 0xeee8_0a10;

impl Writer<'_> {
    fn put(&mut self, word: u32) {
        self.words.push(word);
    }

    /// MOVW and MOVT.
    fn load(&mut self, reg: u32, value: u32) {
        let half = |value: u32| (value >> 12 & 0xf) << 16 | value & 0xfff;
        self.put(0xe300_0000 | reg << 12 | half(value));
        self.put(0xe340_0000 | reg << 12 | half(value >> 16));
    }

    /// An operation with its operand in R0.
    fn with(&mut self, operation: u32, operand: u32) {
        self.load(0, operand);
        self.put(operation);
    }

    fn here(&self) -> u32 {
        self.va + 4 * self.words.len() as u32
    }

    fn address(&mut self) -> u32 {
        memory::address(self.random, self.kind.favourites)
    }

    /// Whether something shall be done that leaves less of what was mapped: in a calm session, seldom.
    fn may_empty(&mut self) -> bool {
        !self.kind.calm || self.random.one_in(12)
    }

    /// One thing.
    fn act(&mut self) {
        let number = self.random.below(if self.kind.hostile { 33 } else { 30 });
        let name = match number {
            0 | 1 => "dacr",
            2..5 => "space",
            5 | 6 => "tlb page",
            7 | 8 => "tlb range",
            9 => "tlb",
            10 | 11 => "unprivileged",
            12 | 13 => "kernel access",
            14 | 15 => "branch",
            16 | 17 => "kernel return",
            18 => "vfp",
            19 => "counter",
            20 => "caches",
            21 | 22 => "edit",
            23 => "state",
            24..27 => "access and forget",
            27 => "edit large page",
            28 | 29 => "edit behind another ASID",
            _ => "hostile",
        };
        self.acts.push(name);
        match number {
            0 | 1 => self.domains(),
            2..5 => self.space(),
            5 | 6 => self.tlb_page(),
            7 | 8 => self.tlb_range(),
            9 => self.tlb(),
            10 | 11 => self.unprivileged(),
            12 | 13 => self.kernel_access(),
            14 | 15 => self.branch(),
            16 | 17 => self.kernel_return(),
            18 => self.vfp(),
            19 => self.counter(),
            20 => self.caches(),
            21 | 22 => self.edit(),
            23 => self.state(),
            24..27 => self.access_and_forget(),
            27 => self.edit_large(),
            28 => self.edit_of_two(),
            29 => self.edit_of_one(),
            _ => self.hostile(),
        }
    }

    fn domains(&mut self) {
        if self.random.one_in(3) {
            // What a manager may reach, a client may not.
            let va = self.address();
            for dacr in [0x4000_ffff, 0x4000_4555] {
                self.with(DACR, dacr);
                self.put(ISB);
                self.access(va);
            }
            return;
        }
        for _ in 0..=self.random.below(3) {
            let dacr = any_dacr(self.random);
            self.with(DACR, dacr);
        }
        self.put(ISB);
    }

    /// To a table and one of its ASIDs, in any of the orders in which kernels do it.
    fn space(&mut self) {
        // Most of the time to the same.
        let other = self.random.one_in(4);
        let root = if !other && self.kind.calm { 1 } else { self.random.below(memory::ROOTS) };
        self.root = (root != 0).then_some(root);
        let any = 1 + self.random.below(memory::ROOTS - 1);
        let asid = self.random.pick(&memory::asids(if root == 0 { any } else { root }));
        self.go_to(root, asid);
    }

    fn go_to(&mut self, root: u32, asid: u32) {
        self.asid = Some(asid);
        let process = if self.random.one_in(2) { self.random.word() & !0xff } else { 0 };
        let (table, context) = (memory::ttbr0(root), process | asid);
        match self.random.below(3) {
            0 => {
                self.with(TTBR0, memory::ttbr0(0));
                self.put(ISB);
                self.with(CONTEXTIDR, context);
                self.with(TTBR0, table);
            }
            1 => {
                self.with(CONTEXTIDR, context);
                self.with(TTBR0, table);
            }
            _ => {
                self.with(TTBR0, table);
                self.with(CONTEXTIDR, context);
            }
        }
        self.put(ISB);
    }

    /// An operand of TLBIMVA: bits 11:8 should be zero, and mean nothing (B4.2.2).
    fn operand(&mut self, va: u32, asid: u32) -> u32 {
        let ignored = if self.random.one_in(6) { 0x100 << self.random.below(4) } else { 0 };
        va & !0xfff | ignored | asid
    }

    fn any_asid(&mut self) -> u32 {
        let other = self.random.one_in(3);
        let root = self.root.filter(|_| !other).unwrap_or(self.random.below(memory::ROOTS));
        self.random.pick(&memory::asids(root))
    }

    fn tlb_page(&mut self) {
        for _ in 0..=self.random.below(3) {
            let va = self.address();
            let asid = self.any_asid();
            let operand = self.operand(va, asid);
            // TLBIMVA, ITLBIMVA, DTLBIMVA.
            let crm = self.random.pick(&[7, 7, 5, 6]);
            self.with(mcr(0, 8, crm, 1), operand);
        }
        self.put(DSB);
        self.put(ISB);
    }

    fn tlb_range(&mut self) {
        let va = self.address();
        let asid = self.any_asid();
        let pages = match self.random.below(4) {
            0 => self.random.below(3),
            1 => 0x100 + self.random.below(0x80),
            _ => self.random.below(0x20),
        };
        let end = (va & !0xfff).wrapping_add(pages << 12);
        let end =
            if self.random.one_in(16) { self.random.word() & 0xff | va.wrapping_add(0x5000) & !0xff } else { end };
        self.range(va, asid, end);
    }

    /// Linux's loop (`__cpu_flush_kern_tlb_range` and its like), with any two registers.
    fn range(&mut self, va: u32, asid: u32, end: u32) {
        // Neither begins nor ends in the last page: around the end of the address space it would not stop.
        let va = va.min(0xffff_e000);
        let end = if end < va & !0xfff { 0 } else { end.min(0xffff_f000) };
        let first = self.operand(va, asid);
        let page = self.random.below(8);
        let limit = (page + 1 + self.random.below(7)) % 8;
        self.load(page, first);
        self.load(limit, end);
        self.put(mcr(page, 8, 7, 1));
        self.put(0xe280_0a01 | page << 16 | page << 12);
        self.put(0xe150_0000 | page << 16 | limit);
        self.put(0x3aff_fffb);
        self.put(DSB);
        self.put(ISB);
    }

    fn tlb(&mut self) {
        match if self.may_empty() { self.random.below(3) } else { 2 } {
            0 => self.put(TLBIALL),
            1 => {
                let asid = self.any_asid();
                self.with(TLBIASID, asid);
            }
            _ => {
                let va = self.address();
                self.with(TLBIMVAA, va & !0xfff);
            }
        }
        self.put(DSB);
        self.put(ISB);
    }

    fn unprivileged(&mut self) {
        const LDRT: [u32; 3] = [0xe4b0_1000, 0xe4f0_1004, 0xe0f0_10b0];
        const STRT: [u32; 3] = [0xe4a0_2000, 0xe4e0_2004, 0xe0e0_20b0];
        let form = self.random.below(3) as usize;
        let va = if self.random.one_in(3) { memory::in_section(self.random) } else { self.address() };
        let value = harmless(self.random.word());
        self.load(2, value);
        // What is there the second time may be answered in assembly.
        for _ in 0..=self.random.below(3) {
            let store = self.random.one_in(2);
            self.load(0, if store { va & !3 } else { va });
            self.put(if store { STRT[form] } else { LDRT[form] });
        }
        self.unprivileged_and_edit();
        self.unprivileged_in_two_spaces();
    }

    /// Unprivileged accesses to one address of two processes, to which the second's page is closed: what was found of
    /// the first's does not hold for it. At last, that is accessed, too, which ends the step.
    fn unprivileged_in_two_spaces(&mut self) {
        // Numbers of its own, as in `timer`.
        let seed = self.words.iter().fold(self.va, |sum, word| sum.rotate_left(7) ^ word);
        let mut random = Random::new(seed, 33);
        if !random.one_in(3) {
            return;
        }
        let open = 1 + random.below(memory::ROOTS - 1);
        let closed = 1 + (open + random.below(memory::ROOTS - 2)) % (memory::ROOTS - 1);
        let entry = memory::any_entry(&mut random, self.kind.favourites, Some(open));
        if entry.root.is_none() {
            return;
        }
        self.acts.push("unprivileged in two spaces");
        let other = memory::same_of(entry, open, closed);
        for (entry, permission) in [(entry, 0b11), (other, 0b01)] {
            let descriptor = memory::data_descriptor(&mut random) & !(0b11 << 4) | permission << 4;
            self.store_descriptor(entry.at, descriptor);
            for asid in memory::asids(entry.root.unwrap_or(0)) {
                self.with(mcr(0, 8, 7, 1), entry.va & !0xfff | asid);
            }
            self.put(DSB);
            self.put(ISB);
        }
        self.with(DACR, 0x5555_5555);
        self.put(ISB);
        let access = |writer: &mut Self| writer.with(0xe4b0_1004, entry.va & !0xfff);
        for _ in 0..3 {
            for root in [closed, open] {
                self.with(CONTEXTIDR, memory::asids(root)[0]);
                self.with(TTBR0, memory::ttbr0(root));
                self.put(ISB);
            }
            access(self);
            access(self);
        }
        self.with(CONTEXTIDR, memory::asids(closed)[0]);
        self.with(TTBR0, memory::ttbr0(closed));
        self.put(ISB);
        (self.root, self.asid) = (Some(closed), Some(memory::asids(closed)[0]));
        access(self);
    }

    /// Unprivileged accesses to a page of a process's own, which is then changed: what was found of it is forgotten.
    fn unprivileged_and_edit(&mut self) {
        // Numbers of its own, as in `timer`.
        let seed = self.words.iter().fold(self.va, |sum, word| sum.rotate_left(7) ^ word);
        let mut random = Random::new(seed, 31);
        let (Some(root), Some(asid)) = (self.root, self.asid) else { return };
        let entry = memory::any_entry(&mut random, self.kind.favourites, Some(root));
        if entry.root.is_none() {
            return;
        }
        self.acts.push("unprivileged and edit");
        let store = random.one_in(2);
        self.store_descriptor(entry.at, 0);
        self.forget(entry);
        self.load(2, harmless(random.word()));
        for _ in 0..3 {
            let descriptor = memory::data_descriptor(&mut random);
            self.store_descriptor(entry.at, descriptor);
            self.with(mcr(0, 8, 7, 1), entry.va & !0xfff | asid);
            self.put(DSB);
            self.put(ISB);
            for _ in 0..3 {
                // STRT R2, [R0], #4 or LDRT R1, [R0], #4.
                self.with(if store { 0xe4a0_2004 } else { 0xe4b0_1004 }, entry.va & !0xfff | random.below(0x3f0) << 2);
            }
        }
    }

    fn kernel_access(&mut self) {
        let va = if self.random.one_in(3) { memory::linear_data(self.random) } else { self.address() };
        self.access(va);
    }

    /// What the kernel has mapped for itself alone, of the table that is in force, goes.
    fn access_and_forget(&mut self) {
        if self.asid.is_none() {
            self.space();
        }
        let va = memory::any_entry(self.random, self.kind.favourites, self.root).va;
        let offset = self.random.below(0x3f0) * 4;
        self.access(va | offset);
        let asid = self.asid.unwrap_or_default();
        let operand = self.operand(va, asid);
        self.with(mcr(0, 8, 7, 1), operand);
        self.put(DSB);
        self.put(ISB);
    }

    /// A page that a process has under both of its ASIDs is changed under one of them.
    fn edit_of_two(&mut self) {
        let root = self.root.unwrap_or(1);
        self.root = Some(root);
        let entry = memory::any_entry(self.random, self.kind.favourites, self.root);
        let (asids, forms) = (memory::asids(root), memory::page(self.random, entry.root.is_none()));
        for asid in asids {
            self.go_to(root, asid);
            self.access(entry.va);
        }
        self.store_descriptor(entry.at, forms);
        self.forget(entry);
        self.put(DSB);
        self.put(ISB);
        self.go_to(root, asids[0]);
    }

    /// A page that a process has under one of its ASIDs alone is changed, with maintenance for that alone.
    fn edit_of_one(&mut self) {
        let root = self.root.unwrap_or(1);
        self.root = Some(root);
        let mut asids = memory::asids(root);
        if self.random.one_in(2) {
            asids.reverse();
        }
        let place = self.kind.favourites;
        let entry = core::iter::repeat_with(|| memory::any_entry(self.random, place, Some(root)))
            .find(|entry| entry.root.is_some());
        let Some(entry) = entry else { return };
        self.store_descriptor(entry.at, 0);
        self.forget(entry);
        self.go_to(root, asids[0]);
        let (before, behind) = (memory::data_descriptor(self.random), memory::data_descriptor(self.random));
        self.store_descriptor(entry.at, before);
        self.put(ISB);
        self.access(entry.va);
        self.store_descriptor(entry.at, behind);
        let operand = self.operand(entry.va, asids[0]);
        self.with(mcr(0, 8, 7, 1), operand);
        self.put(DSB);
        self.put(ISB);
        self.access(entry.va);
        self.go_to(root, asids[1]);
        self.access(entry.va);
    }

    /// All of a large page's descriptors change; maintenance of any of its addresses is enough (B4.2.2).
    fn edit_large(&mut self) {
        let root = self.root.unwrap_or(1);
        let (at, va) = memory::large_page(root);
        for _ in 0..2 {
            let piece = self.random.below(16) << 12;
            self.access(va + piece);
        }
        let descriptor = memory::large(self.random, false);
        self.load(1, descriptor);
        self.load(0, memory::linear(at));
        for index in 0..16 {
            // STR R1, [R0, #4 * index].
            self.put(0xe580_1000 | (index * 4));
        }
        self.put(DSB);
        let offset = self.random.below(16) << 12;
        for asid in memory::asids(root) {
            let operand = self.operand(va + offset, asid);
            self.with(mcr(0, 8, 7, 1), operand);
        }
        self.put(DSB);
        self.put(ISB);
    }

    fn access(&mut self, va: u32) {
        let value = harmless(self.random.word());
        self.load(2, value);
        if self.random.one_in(2) {
            self.with(0xe590_1000, va);
        } else {
            self.with(0xe580_2000, va & !3);
        }
    }

    /// To what follows, as a new block.
    fn branch(&mut self) {
        let form = self.random.below(3);
        let target = self.here() + 4 * 3;
        self.load(4, target);
        self.put([0xe12f_ff14, 0xe1a0_f004, 0xe12f_ff34][form as usize]);
    }

    /// To what follows, in any mode.
    fn kernel_return(&mut self) {
        if self.mode == Mode::Sys {
            // System mode has no SPSR (B9.3.19).
            self.put(0xf102_0013);
            self.mode = Mode::Svc;
        }
        let mode = if self.random.one_in(10) { Mode::Fiq } else { self.random.pick(&MODES) };
        // One that does not exist leaves the mode as it is, here and in Rust (UNPREDICTABLE, B1.3.3).
        let none = self.random.one_in(8);
        let bits = if none { self.random.pick(&[0x00, 0x03, 0x07, 0x0f, 0x14, 0x16, 0x1d]) } else { mode as u32 };
        let mode = if none { self.mode } else { mode };
        let psr = any_psr(self.random, bits);
        // Numbers of its own, as in `timer`.
        let seed = self.words.iter().fold(self.va, |sum, word| sum.rotate_left(5) ^ word);
        let thumb = Random::new(seed, 41).one_in(2);
        self.load(5, if thumb { psr & !psr::IT | psr::T } else { psr & !psr::T });
        self.put(MSR_SPSR_R5);
        let form = self.random.below(3);
        let target = self.here() + 4 * 4;
        self.load(6, if form == 0 { target + 4 } else { target });
        self.put(MOV_LR_R6);
        // SUBS PC, LR, #4; MOVS PC, LR.
        self.put(if form == 0 { 0xe25e_f004 } else { MOVS_PC_LR });
        if thumb {
            // BX PC, at a word: to what is behind the next one.
            self.put(0x4778 | u32::from(T32_NOP) << 16);
        }
        self.mode = mode;
    }

    fn vfp(&mut self) {
        const ON: u32 = 0x4000_0000;
        if self.random.one_in(2) {
            // Loaded, turned off, and on again for whoever is next.
            self.with(VMSR_FPEXC_R0, ON);
            self.put(0xee00_1a10);
            self.with(VMSR_FPEXC_R0, 0);
            self.with(VMSR_FPEXC_R0, ON);
        }
        for _ in 0..=self.random.below(6) {
            match self.random.below(5) {
                0 | 1 => self.with(VMSR_FPEXC_R0, ON),
                2 => self.with(VMSR_FPEXC_R0, 0),
                // VMOV S0, R1 and back.
                3 => self.put(0xee00_1a10),
                _ => self.put(0xee10_1a10),
            }
        }
    }

    fn caches(&mut self) {
        let operation = self.random.pick(&[ICIALLU, BPIALL, DCCMVAU]);
        // Random numbers of their own, so that the others stay what they are in the sessions that tests repeat.
        let so_far = self.words.iter().fold(0u32, |sum, word| sum.rotate_left(1) ^ word);
        let mut random = Random::new(so_far, self.va);
        if operation == DCCMVAU {
            for _ in 0..=random.below(3) {
                let any = random.word();
                let address = if random.one_in(8) { any } else { memory::address(&mut random, self.kind.favourites) };
                self.with(random.pick(&[DCCMVAU, DCCMVAU, DCCMVAU, ICIMVAU, DCCMVAC]), address);
            }
        }
        for _ in 0..random.below(8) {
            let anywhere = random.one_in(2);
            let random = &mut random;
            let address =
                if anywhere { memory::address(random, self.kind.favourites) } else { memory::linear_data(random) };
            self.lines(random, address);
        }
        if random.one_in(2) {
            self.lines_of_what_goes(&mut random);
        }
        for _ in 0..random.below(4) {
            self.two_lines(&mut random);
        }
        let address = memory::linear(memory::AREA.0);
        self.with(operation, address);
        self.put(DSB);
        self.put(ISB);
    }

    /// Linux's loop over lines of a cache (`v7_flush_kern_dcache_area` and its like), with any three registers, and
    /// most of the time with the step that CTR announces.
    fn lines(&mut self, random: &mut Random, address: u32) {
        let [low, end] = [random.below(8), 1 + random.below(7)];
        let at = if random.one_in(3) { 12 } else { low };
        let (end, step) = ((low + end) % 8, (low + end % 7 + 1) % 8);
        let instructions = random.one_in(2);
        let line = announced_line();
        let bytes = if random.one_in(6) { random.pick(&[4, line / 2, 2 * line, 0x1000]) } else { line };
        let mut first = (address & !0xfff | random.below(0x1000)).min(0xffff_0000 - 0x2_0000);
        if random.one_in(3) {
            // From the end of a page that is mapped, perhaps into one that is not: LDR R1, [R0].
            self.load(0, first & !3);
            self.put(0xe590_1000);
            first |= 0xe00;
        }
        let offset = random.below(bytes) * random.below(2);
        self.load(at, first);
        self.load(end, first + random.below(24) * bytes + offset);
        self.load(step, bytes);
        let [crm, other] = if instructions { [5, 5] } else { [11, 10] };
        self.put(mcr(at, 7, if random.one_in(3) { other } else { crm }, 1));
        self.put(0xe080_0000 | at << 16 | at << 12 | step);
        self.put(0xe150_0000 | at << 16 | end);
        self.put(0x3aff_fffb);
    }

    /// Two lines with R12, the second one perhaps in a page that is not there.
    fn two_lines(&mut self, random: &mut Random) {
        let line = announced_line();
        let address = memory::address(random, self.kind.favourites);
        let mut first = (address & !0xfff | random.below(0x1000)).min(0xffff_0000 - 0x2_0000);
        if random.one_in(2) {
            first |= 0x1000 - line;
        }
        self.load(0, first & !3);
        self.put(0xe590_1000);
        self.load(12, first);
        self.load(1, first + line + 1 + random.below(line));
        self.load(2, random.pick(&[line, line, 2 * line]));
        self.put(mcr(12, 7, if random.one_in(2) { 5 } else { 11 }, 1));
        self.put(0xe08c_c002);
        self.put(0xe15c_0001);
        self.put(0x3aff_fffb);
    }

    /// Lines of a page of a process's own, cleaned while it is mapped, and once it is not any more; or in another
    /// process, which does not have it.
    fn lines_of_what_goes(&mut self, random: &mut Random) {
        let open = 1 + random.below(memory::ROOTS - 1);
        let closed = open % (memory::ROOTS - 1) + 1;
        let entry = memory::any_entry(random, self.kind.favourites, Some(open));
        if entry.root.is_none() {
            return;
        }
        self.acts.push("lines of what goes");
        let other = memory::same_of(entry, open, closed);
        for (entry, descriptor) in [(entry, memory::data_descriptor(random)), (other, 0)] {
            self.store_descriptor(entry.at, descriptor);
            self.forget_own(entry);
        }
        self.with(DACR, 0x5555_5555);
        self.put(ISB);
        for root in [closed, open, closed, open] {
            self.with(CONTEXTIDR, memory::asids(root)[0]);
            self.with(TTBR0, memory::ttbr0(root));
            self.put(ISB);
        }
        (self.root, self.asid) = (Some(open), Some(memory::asids(open)[0]));
        // LDR R1, [R0].
        self.with(0xe590_1000, entry.va);
        self.with(DCCMVAU, entry.va);
        if random.one_in(2) {
            // STR R1, [R0]; no line of it is cleaned, for that would be the last one.
            self.load(1, 0);
            self.with(0xe580_1000, memory::linear(entry.at));
            self.put(DSB);
            // Under its other ASID, it has not been mapped since.
            self.with(mcr(0, 8, 7, 1), entry.va & !0xfff | memory::asids(open)[0]);
            self.put(DSB);
            self.put(ISB);
        } else {
            self.with(CONTEXTIDR, memory::asids(closed)[0]);
            self.with(TTBR0, memory::ttbr0(closed));
            self.put(ISB);
            (self.root, self.asid) = (Some(closed), Some(memory::asids(closed)[0]));
        }
        self.with(DCCMVAU, entry.va);
    }

    /// Maintenance for the ASIDs of the process whose an entry is.
    fn forget_own(&mut self, entry: Entry) {
        for asid in entry.root.into_iter().flat_map(memory::asids) {
            self.with(mcr(0, 8, 7, 1), entry.va & !0xfff | asid);
        }
        self.put(DSB);
        self.put(ISB);
    }

    /// A descriptor is changed, and the old one forgotten.
    fn edit(&mut self) {
        if self.random.one_in(6) && self.may_empty() {
            let (at, descriptor) = memory::any_first_level(self.random);
            self.store_descriptor(at, descriptor);
            self.put(TLBIALL);
        } else {
            let entry = memory::any_entry(self.random, self.kind.favourites, self.root);
            let global = entry.root.is_none() && !self.random.one_in(3);
            let descriptor = memory::page(self.random, global);
            self.store_descriptor(entry.at, descriptor);
            self.forget(entry);
        }
        self.put(DSB);
        self.put(ISB);
        self.patches();
    }

    /// A page of the kernel's range is mapped anew, stored to once or more, and unmapped, as Linux patches its text.
    fn patches(&mut self) {
        // Numbers of its own, as in `timer`.
        let seed = self.words.iter().fold(self.va, |sum, word| sum.rotate_left(11) ^ word);
        let mut random = Random::new(seed, 47);
        if !random.one_in(3) {
            return;
        }
        let entry = memory::common_entry(&mut random);
        if random.one_in(2) {
            return self.patches_itself(entry);
        }
        self.acts.push("patches");
        for _ in 0..=random.below(3) {
            let descriptor = memory::page(&mut random, true);
            self.store_descriptor(entry.at, descriptor);
            self.with(mcr(0, 8, 7, 1), entry.va & !0xfff | self.asid.unwrap_or_default());
            self.put(DSB);
            self.put(ISB);
            for _ in 0..random.pick(&[1, 1, 1, 2]) {
                // STR R1, R9 or R12; STRB, STRH, STR with writeback, by a register, and of LR.
                const STORES: [u32; 10] = [
                    0xe580_1000,
                    0xe580_1000,
                    0xe500_1004,
                    0xe580_9008,
                    0xe580_c00c,
                    0xe5c0_1000,
                    0xe1c0_10b0,
                    0xe5a0_1004,
                    0xe780_1005,
                    0xe580_e000,
                ];
                let offset = if random.one_in(8) { 0xffe } else { 0x10 + random.below(0x3e0) * 4 };
                self.load(5, 4);
                for reg in [1, 9, 12] {
                    self.load(reg, harmless(random.word()));
                }
                self.with(random.pick(&STORES), entry.va & !0xfff | offset);
            }
        }
        self.store_descriptor(entry.at, 0);
        self.with(mcr(0, 8, 7, 1), entry.va & !0xfff);
        self.put(DSB);
        self.put(ISB);
    }

    /// The same of an instruction of its own, which has been executed before and is once more: R9 says which.
    fn patches_itself(&mut self, entry: Entry) {
        const ICIMVAU: u32 = mcr(0, 7, 5, 1);
        const MOV_R9: u32 = 0xe3a0_9000;
        self.acts.push("patches itself");
        self.load(8, 2);
        let begin = self.words.len();
        self.store_descriptor(entry.at, memory::kernel_page(self.va));
        self.with(mcr(0, 8, 7, 1), entry.va & !0xfff);
        self.put(DSB);
        self.put(ISB);
        let site = self.here();
        self.put(MOV_R9 | 1);
        self.load(1, MOV_R9 | 2);
        // STR R1, [R0].
        self.with(0xe580_1000, entry.va & !0xfff | site & 0xfff);
        self.with(DCCMVAU, site);
        self.put(DSB);
        self.put(ICIMVAU);
        self.put(DSB);
        self.put(ISB);
        // SUBS R8, R8, #1; BNE.
        self.put(0xe258_8001);
        let back = begin as u32;
        self.put(0x1a00_0000 | back.wrapping_sub(self.words.len() as u32 + 2) & 0x00ff_ffff);
        self.store_descriptor(entry.at, 0);
        self.with(mcr(0, 8, 7, 1), entry.va & !0xfff);
        self.put(DSB);
        self.put(ISB);
    }

    fn store_descriptor(&mut self, at: u32, descriptor: u32) {
        self.load(1, descriptor);
        self.load(0, memory::linear(at));
        // STR R1, [R0].
        self.put(0xe580_1000);
        self.put(DCCMVAU);
        self.put(DSB);
    }

    /// Maintenance for all ASIDs that may have it.
    fn forget(&mut self, entry: Entry) {
        let asids: Vec<u32> = match entry.root {
            Some(root) => memory::asids(root).into(),
            None => (0..memory::ROOTS).flat_map(memory::asids).collect(),
        };
        let all = self.may_empty();
        match self.random.below(if all { 6 } else { 3 }) + if all { 0 } else { 3 } {
            0 => self.put(TLBIALL),
            1 => self.with(TLBIMVAA, entry.va),
            2 if entry.root.is_some() => asids.iter().for_each(|&asid| self.with(TLBIASID, asid)),
            3 | 4 => {
                for asid in asids {
                    let before = self.random.below(4) << 12;
                    let behind = (1 + self.random.below(4)) << 12;
                    let first = if entry.va & 0xf_f000 < before { entry.va } else { entry.va - before };
                    self.range(first, asid, entry.va + behind);
                }
            }
            _ => {
                for asid in asids {
                    let operand = self.operand(entry.va, asid);
                    self.with(mcr(0, 8, 7, 1), operand);
                }
            }
        }
    }

    /// The vCPU page is the guest's to write, whatever that does to it: before the first code page it is mapped.
    fn hostile(&mut self) {
        const WORDS: [u32; 20] = [16, 20, 20, 24, 28, 36, 40, 44, 48, 52, 64, 68, 72, 92, 100, 108, 140, 144, 184, 188];
        for _ in 0..=self.random.below(3) {
            let word = CODE_CACHE_START + self.random.pick(&WORDS);
            let value = match self.random.below(4) {
                0 => self.random.word(),
                1 => self.random.below(0x200),
                2 => u32::MAX,
                _ => any_dacr(self.random),
            };
            self.load(1, value);
            self.with(0xe580_1000, word);
        }
    }

    /// Into data, which is an SVC of the kernel's: the page has code from now on.
    fn data_as_code(&mut self) {
        self.acts.push("data as code");
        let page = memory::data_page(self.random);
        self.load(4, page);
        self.put(0xe12f_ff14);
    }
}

/// Program `slot`.
pub fn write(random: &mut Random, slot: u32, kind: Kind, mode: Mode) -> Program {
    let ((pa, va), (user_pa, user_va)) = (memory::program(slot), memory::user_program(slot));
    let (words, user, acts) = (vec![], vec![], vec![]);
    let mut writer = Writer { random, kind, root: None, asid: None, words, va, user, user_va, mode, acts };
    // A third does nothing but to go to user code, in a space that it knows.
    if writer.random.one_in(3) {
        writer.acts.push("space");
        writer.space();
        if writer.random.one_in(2) {
            writer.with(DACR, 0x4000_4555);
            writer.put(ISB);
        }
        writer.user();
    } else {
        for _ in 0..writer.random.below(6) {
            writer.act();
        }
        match writer.random.below(12) {
            0..8 => writer.user(),
            8 => writer.data_as_code(),
            _ => {}
        }
    }
    writer.put(smc(END));
    Program { words: writer.words, pa, va, user: writer.user, user_pa, acts: writer.acts }
}
