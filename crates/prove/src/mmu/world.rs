//! The shadow tables under a guest that does everything at random.
//!
//! A simulated guest edits its tables, changes its registers, does (or forgets) TLB maintenance, and accesses memory
//! through a simulated host MMU with a spiteful TLB. An oracle remembers what a real TLB in that guest could still
//! hold. Checked at every access:
//!
//! * what gets through is the guest's present translation, or one that a real TLB could still hold, and it is the
//!   guest's own memory;
//! * what does not get through is turned by `fill` into just what the model of the guest's MMU says;
//! * after `Mapped`, the retry goes through, to exactly the guest's present translation;
//! * no write reaches a protected page, no fetch succeeds in the kernel view, nothing is mapped in the hypervisor
//!   region. (Where views are kept apart by domains, fetches in the kernel view may succeed, and are not tried.)

use super::model::{self, Entry, KINDS, Memory};
use super::sim::{Tables, Tlb, allowed, host_walk};
use crate::random::Random;
use spica_addr::{GuestPa, GuestVa, HostPa};
use spica_mmu::{
    AccessKind, Chunk, Config, FastFill, Fill, PAGEWISE_FROM, Regime, Root, Separation, Shadow, Stats, Table,
    TableMemory, Tracking, View, guest,
};
use std::collections::HashSet;

/// SCTLR.EE
const EE: u32 = 1 << 25;
const RAM: u32 = 0x4000_0000;
const MB: u32 = 0x10_0000;
/// Guest RAM: 3 + 4 MiB with a gap of one, on the host out of order.
const CHUNKS: [Chunk; 3] = [
    Chunk { guest: GuestPa(RAM), host: HostPa(0x6150_0000), megabytes: 2 },
    Chunk { guest: GuestPa(RAM + 4 * MB), host: HostPa(0x6000_0000), megabytes: 4 },
    Chunk { guest: GuestPa(RAM + 2 * MB), host: HostPa(0x6900_0000), megabytes: 1 },
];
const REGION_FIRST_MB: u32 = 0x302;
/// Shaped like pointers to tables of the hypervisor's; the simulated guest must never get there by a fill.
const REGION_KERNEL: [u32; 2] = [0, 0];
const REGION_USER: [u32; 2] = [0, 0];

/// The megabytes that the guest plays with: three supersection groups, the hypervisor region, both halves of a split
/// TTBCR, and where pages are watched one by one.
const VA_MB: [u32; 12] = [0x000, 0x001, 0x013, 0x300, 0x301, 0x302, 0x303, 0x308, 0xc00, 0xc01, 0xc08, 0xfff];
/// The pages of each: within one large page, across large pages, the last one.
const VA_PAGE: [u32; 8] = [0x00, 0x01, 0x0f, 0x10, 0x11, 0x1f, 0x80, 0xff];

const ROOTS: [u32; 4] = [RAM + 0x4000, RAM + 0x8000, RAM + 0xc000, RAM + 0x1_0000];
const SECOND: u32 = RAM + 0x2_0000;
const SECOND_COUNT: u32 = 6;

fn vas() -> impl Iterator<Item = u32> {
    VA_MB.iter().flat_map(|mb| VA_PAGE.iter().map(move |page| mb << 20 | page << 12))
}

/// Something that a real TLB in the guest may hold.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Held {
    va: u32,
    asid: u8,
    afe: bool,
    entry: Entry,
}

/// What kind of guest, and what its host has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub seed: u64,
    pub pool_bytes: usize,
    pub max_spaces: usize,
    pub share_kernel: bool,
    pub watch_pages: bool,
    pub keep_tables: bool,
    /// How much the shadow does in one piece.
    pub piece: u32,
    pub separation: Separation,
    pub tracking: Tracking,
    /// Hardly anything but small pages of processes, and the MMU on.
    pub plain: bool,
    /// But for one edit in so many, if that is not 0.
    pub odd: u32,
    /// Big-endian tables.
    pub ee: bool,
    /// Guest memory is read word by word.
    pub by_word_only: bool,
    /// So many second-level tables of the pool are taken.
    pub ballast: u32,
}

pub struct World {
    random: Random,
    memory: Memory,
    regime: Regime,
    shadow: Shadow,
    tables: Tables,
    tlb: Tlb,
    held: Vec<Held>,
    protected: HashSet<u32>,
    /// Pages that the guest has given away.
    absent: HashSet<u32>,
    /// How often one was given.
    given: u64,
    /// Pieces of work that were left, and fills that had to come again.
    pieces: u64,
    again: u64,
    /// Pages of closed domains that got an entry.
    closed: u64,
    /// How often a space was switched to that was known.
    switched: u64,
    /// Domains (two bits each) that the host keeps closed although the guest opened them, until one faults.
    lazily_closed: u32,
    passed: [u64; 3],
    stale_passed: u64,
    /// Pages forgotten without the help of the shadow.
    forgotten: u64,
    /// The guest has hardly anything but small pages of its processes, and its MMU on.
    plain: bool,
    /// But for one edit in so many, if that is not 0.
    odd: u32,
    outcomes: [u64; 6],
    /// Faults that the fast path mapped, and passed on to the guest.
    fast_faults: [u64; 2],
    ballast: Vec<Table>,
    /// Spaces that could be switched to without asking, as the hypervisor knows them.
    known: Vec<Known>,
    generation: u32,
}

/// A space that is known: where TTBR0 and, if it matters, the ASID are these, its tables will do.
#[derive(Clone, Copy)]
struct Known {
    ttbr0: u32,
    asid: Option<u8>,
    index: usize,
    roots: [Root; 2],
    sole: Option<u8>,
}

impl World {
    pub fn new(kind: &Kind) -> Self {
        let Kind { seed, pool_bytes, max_spaces, plain, ee, .. } = *kind;
        let config = Config {
            ram: &CHUNKS,
            region_first_mb: REGION_FIRST_MB as usize,
            region_kernel: &REGION_KERNEL,
            region_user: &REGION_USER,
            asids: 17..=16 + 2 * max_spaces as u8,
            max_spaces,
            share_kernel: kind.share_kernel,
            watch_pages: kind.watch_pages,
            keep_tables: kind.keep_tables,
            piece: kind.piece,
            separation: kind.separation,
        };
        let ram = vec![(RAM, 3 * MB), (RAM + 4 * MB, 4 * MB)];
        let mut world = Self {
            random: Random::new(seed),
            memory: Memory { ram, by_word_only: kind.by_word_only, ..Memory::default() },
            regime: Regime {
                sctlr: if ee { EE } else { 0 },
                ttbr0: ROOTS[0],
                ttbr1: ROOTS[3],
                dacr: 0x5555_5555,
                ..Regime::default()
            },
            shadow: Shadow::new(&config).unwrap(),
            tables: Tables::new(pool_bytes),
            tlb: Tlb::default(),
            held: Vec::new(),
            protected: HashSet::new(),
            absent: HashSet::new(),
            given: 0,
            pieces: 0,
            again: 0,
            closed: 0,
            switched: 0,
            lazily_closed: 0,
            passed: [0; 3],
            stale_passed: 0,
            forgotten: 0,
            plain,
            odd: kind.odd,
            outcomes: [0; 6],
            fast_faults: [0; 2],
            ballast: Vec::new(),
            known: Vec::new(),
            generation: 0,
        };
        world.shadow.set_tracking(kind.tracking);
        for _ in 0..400 {
            world.edit();
        }
        world.ballast = (0..kind.ballast).map(|_| world.tables.alloc(1024).expect("the pool has room")).collect();
        world.regime.sctlr |= 1;
        world.activate();
        world
    }

    fn activate(&mut self) {
        // A write of DACR comes to the shadow by itself, before anything is switched to.
        if self.regime.sctlr & 1 != 0 {
            self.shadow.set_dacr(self.regime.dacr, &mut self.tables, &mut self.tlb);
        }
        self.enter_user();
        self.forget_changed();
        let (ttbr0, asid) = (self.regime.ttbr0, self.regime.asid);
        // Attributes of walks make no other space.
        let fits = |known: &&Known| known.ttbr0 >> 14 == ttbr0 >> 14 && known.asid.is_none_or(|known| known == asid);
        let known: Vec<_> = self.known.iter().filter(fits).copied().collect();
        self.shadow.activate(&self.regime, &mut self.tables, &mut self.tlb).expect("the pool suffices");
        self.settle();
        for known in known {
            if known.roots == self.roots() {
                // To know of less than may be forgotten costs time only.
                assert!(known.sole.is_none() || known.sole == self.shadow.sole_asid(), "TTBR0 {ttbr0:#x}, ASID {asid}");
            }
            // Where there is one for this ASID and one that is good under any, both will do.
            for (view, root) in [View::Kernel, View::User].into_iter().zip(known.roots) {
                for va in vas().collect::<Vec<_>>() {
                    self.attempt_in(root, view, va, AccessKind::Read);
                    self.attempt_in(root, view, va, AccessKind::Write);
                }
            }
            self.switched += 1;
        }
        self.learn();
    }

    /// The guest is about to run: what is left is done.
    fn settle(&mut self) {
        let mut pieces = 0;
        while !self.shadow.is_settled() {
            self.shadow.settle(&mut self.tables, &mut self.tlb);
            pieces += 1;
            assert!(pieces < 100_000, "it does not come to an end");
        }
        self.pieces += pieces;
    }

    fn roots(&self) -> [Root; 2] {
        [View::Kernel, View::User].map(|view| self.shadow.root(view))
    }

    fn forget_changed(&mut self) {
        if core::mem::replace(&mut self.generation, self.shadow.generation()) != self.generation {
            let changed = self.shadow.take_changed();
            self.known.retain(|known| !changed.concerns(known.index, known.asid.map_or(0x100, u32::from)));
        }
    }

    /// Notes the active space, as the hypervisor does.
    fn learn(&mut self) {
        self.forget_changed();
        let asid = self.shadow.holds_private().then_some(self.regime.asid);
        let sole = asid.and_then(|_| self.shadow.sole_asid());
        let (ttbr0, index, roots) = (self.regime.ttbr0, self.shadow.active_space(), self.roots());
        self.known.retain(|known| (known.ttbr0 >> 14, known.asid) != (ttbr0 >> 14, asid));
        if self.regime.sctlr & 1 != 0 {
            self.known.push(Known { ttbr0, asid, index, roots, sole });
        }
    }

    fn afe(&self) -> bool {
        self.regime.sctlr >> 29 & 1 != 0
    }

    fn host_of(pa: u32) -> Option<u32> {
        let chunk = CHUNKS.iter().find(|chunk| pa.wrapping_sub(chunk.guest.0) < chunk.megabytes << 20)?;
        Some(chunk.host.0 + (pa - chunk.guest.0))
    }

    /// A real TLB may by now hold whatever is valid at present: to be called before anything changes.
    fn remember(&mut self) {
        if self.regime.sctlr & 1 == 0 {
            return;
        }
        for va in vas() {
            let Ok(entry) = model::walk(&self.memory, &self.regime, va) else { continue };
            if self.afe() && entry.ap & 1 == 0 {
                continue;
            }
            let held = Held { va, asid: self.regime.asid, afe: self.afe(), entry };
            if !self.held.contains(&held) {
                self.held.push(held);
            }
        }
    }

    fn ram_page(&mut self) -> u32 {
        // Now and then a device, or the gap.
        if self.random.one_in(12) {
            return self.random.pick(&[0x0900_0000, RAM + 3 * MB, RAM + 9 * MB, 0xfff0_0000]);
        }
        if self.shadow.tracking() == Tracking::Writes && self.random.one_in(8) {
            return self.random.pick(&[ROOTS[0], ROOTS[1], SECOND]);
        }
        // Few pages, so that aliases are frequent; none in the megabyte of the tables, if writes there would be missed.
        RAM + self.random.pick(&[1, 2, 4, 5, 7]) * MB + self.random.pick(&[0, 1, 15, 16, 17, 128, 255]) * 0x1000
    }

    /// A descriptor, in the order that SCTLR.EE says.
    fn put(&mut self, at: u32, word: u32) {
        let tracks = self.shadow.is_table_page(GuestPa(at));
        if tracks && self.random.one_in(8) {
            self.shadow.release_table(GuestPa(at), &mut self.tables, &mut self.tlb);
        }
        self.memory.write(at, if self.regime.sctlr & EE != 0 { word.swap_bytes() } else { word });
        if tracks {
            self.shadow.table_written(GuestPa(at), 4, &mut self.tables, &mut self.tlb);
        }
    }

    fn edit(&mut self) {
        let plain = self.plain && !(self.odd != 0 && self.random.one_in(self.odd));
        let noise = self.random.word();
        // Domains 0 to 3, and 15; AP mostly useful.
        let domain = self.random.pick(&[0, 0, 1, 2, 3, 15]) << 5;
        let ap = self.random.pick(&[0b011, 0b011, 0b011, 0b010, 0b001, 0b111, 0b101, 0b110, 0b100, 0b000]);
        if self.random.one_in(3) {
            let root = self.random.pick(&ROOTS);
            let mb = self.random.pick(&VA_MB);
            let pa = self.ram_page();
            let attributes = (ap & 3) << 10 | (ap >> 2) << 15 | domain | noise & (1 << 17 | 1 << 4 | 0x700c);
            let kind = self.random.below(if plain { 5 } else { 8 });
            let word = match kind {
                0 => 0,
                1..=4 => (SECOND + self.random.below(SECOND_COUNT) * 0x400) | domain | 0b01,
                5 | 6 => pa & 0xfff0_0000 | attributes | 0b10,
                _ => pa & 0xff00_0000 | attributes & !(0xf << 5) | 1 << 18 | 0b10,
            };
            if word >> 18 & 1 != 0 && word & 3 == 2 {
                for piece in 0..16 {
                    self.put(root + ((mb & !15) + piece) * 4, word);
                }
            } else {
                self.put(root + mb * 4, word);
            }
        } else {
            let table = SECOND + self.random.below(SECOND_COUNT) * 0x400;
            let index = self.random.pick(&VA_PAGE);
            let pa = self.ram_page();
            let not_global = u32::from(plain) << 11;
            let attributes = (ap & 3) << 4 | (ap >> 2) << 9 | noise & (1 << 11 | 0xc) | not_global;
            let kind = self.random.below(6);
            match if plain && kind == 1 { 2 } else { kind } {
                0 => self.put(table + index * 4, 0),
                1 => {
                    let word = pa & 0xffff_0000 | attributes | noise & (1 << 15 | 0x7000) | 0b01;
                    for piece in 0..16 {
                        self.put(table + ((index & !15) + piece) * 4, word);
                    }
                }
                _ => self.put(table + index * 4, pa | attributes | noise & 0x1c1 | 0b10),
            }
        }
    }

    fn maintain(&mut self) {
        let va = self.random.pick(&VA_MB) << 20 | self.random.pick(&VA_PAGE) << 12;
        let own = self.plain && self.random.one_in(2);
        let asid = if own { self.regime.asid } else { self.random.pick(&[1, 2, 3]) };
        let covers = |held: &Held| {
            let mask = !(held.entry.size.bytes() - 1);
            held.va & mask == va & mask
        };
        let tracks = self.shadow.tracking() == Tracking::Writes;
        match self.random.below(20) {
            0 if tracks => self.held.clear(),
            1..=3 if tracks => self.held.retain(|held| held.asid != asid || !held.entry.ng),
            4 | 5 if tracks => self.held.retain(|held| !covers(held)),
            _ if tracks => self.held.retain(|held| !(covers(held) && (held.asid == asid || !held.entry.ng))),
            0 => {
                self.shadow.invalidate_all(&mut self.tables, &mut self.tlb);
                self.held.clear();
            }
            1..=3 => {
                self.shadow.invalidate_asid(asid, &mut self.tables, &mut self.tlb);
                self.held.retain(|held| held.asid != asid || !held.entry.ng);
            }
            4 | 5 => {
                self.shadow.invalidate_page(GuestVa(va), None, &mut self.tables, &mut self.tlb);
                self.held.retain(|held| !covers(held));
            }
            _ => {
                let mut last = va;
                if self.random.one_in(3) {
                    let count = 1 + self.random.below(256 - (va >> 12 & 0xff));
                    last += (count - 1) << 12;
                    self.shadow.invalidate_pages(GuestVa(va), count, Some(asid), &mut self.tables, &mut self.tlb);
                } else if self.random.one_in(2) || !self.forget_page(va, asid) {
                    self.shadow.invalidate_page(GuestVa(va), Some(asid), &mut self.tables, &mut self.tlb);
                }
                let covers = |held: &Held| {
                    let size = held.entry.size.bytes();
                    let first = held.va & !(size - 1);
                    first <= last && va <= first + (size - 1)
                };
                self.held.retain(|held| !(covers(held) && (held.asid == asid || !held.entry.ng)));
            }
        }
    }

    /// As the trap handler in assembly does it, where [`Shadow::is_watched`] says that it may.
    fn forget_page(&mut self, va: u32, asid: u8) -> bool {
        if self.shadow.is_watched(GuestVa(va)) {
            return false;
        }
        if va >= PAGEWISE_FROM.0 {
            self.forgotten += 1;
            return true;
        }
        if self.shadow.sole_asid() != Some(asid) {
            return false;
        }
        self.settle();
        let whole = [View::Kernel, View::User].into_iter().all(|view| {
            let root = self.shadow.root(view);
            self.tables.forget_page(root, va, &mut self.tlb)
        });
        self.forgotten += u64::from(whole);
        whole
    }

    fn change_registers(&mut self) {
        let tables_of_all = (self.regime.sctlr, self.regime.ttbcr);
        match self.random.below(16) {
            0 if self.plain => self.regime.ttbr0 = self.random.pick(&ROOTS),
            0 => self.regime.sctlr = self.regime.sctlr & !1 | u32::from(!self.random.one_in(4)),
            1 => self.regime.sctlr = self.regime.sctlr & (1 | EE) | u32::from(self.random.one_in(4)) << 29,
            2 => self.regime.ttbcr = self.random.pick(&[0, 0, 0, 0, 1, 2, 0x10, 0x21]),
            // Client and none, as a kernel with software PAN does; domains 14 to 4 are never used.
            3..=7 => {
                for domain in [0, 1, 2, 3, 15] {
                    let field = if self.random.one_in(4) { 0 } else { 0b01 };
                    if self.regime.dacr >> (2 * domain) & 3 != 3 {
                        self.regime.dacr = self.regime.dacr & !(3 << (2 * domain)) | field << (2 * domain);
                    }
                }
            }
            8 if self.random.one_in(3) => self.regime.dacr = self.random.word() | 0x5555_5555 & self.random.word(),
            8 | 9 => self.regime.dacr = 0x5555_5555,
            10..=12 => self.regime.asid = self.random.pick(&[1, 2, 3]),
            _ => self.regime.ttbr0 = self.random.pick(&ROOTS) | self.random.below(64),
        }
        if self.random.one_in(2) && self.regime.sctlr & 1 != 0 {
            self.shadow.set_dacr(self.regime.dacr, &mut self.tables, &mut self.tlb);
        }
        if self.random.one_in(2) {
            self.lazily_closed = self.random.pick(&[0xffff, 0x0003, 0x003c]);
        }
        if tables_of_all != (self.regime.sctlr, self.regime.ttbcr) {
            self.known.clear();
        }
        self.activate();
    }

    fn protect(&mut self) {
        if self.random.one_in(40) {
            self.shadow.unprotect_all_code_pages(&mut self.tables, &mut self.tlb);
            self.protected.clear();
            return;
        }
        let page = self.ram_page();
        let ram = Self::host_of(page).is_some() && !self.absent.contains(&page);
        if self.random.one_in(2) {
            let new = self.shadow.protect_code_page(GuestPa(page + 0x123), &mut self.tables, &mut self.tlb);
            assert_eq!(new, ram && self.protected.insert(page));
        } else {
            assert_eq!(self.shadow.unprotect_code_page(GuestPa(page)), self.protected.remove(&page));
        }
        assert_eq!(self.shadow.is_code_page(GuestPa(page)), self.protected.contains(&page));
    }

    /// The guest gives a page away, or has one back.
    fn exchange(&mut self) {
        let page = self.ram_page();
        // Not its tables, which would still be read here.
        if page.wrapping_sub(RAM) < MB {
            return;
        }
        let give = !self.absent.contains(&page);
        assert_eq!(self.shadow.set_absent(GuestPa(page), give), Self::host_of(page).is_some());
        if Self::host_of(page).is_none() {
            return;
        }
        if give {
            self.given += 1;
            self.absent.insert(page);
            self.shadow.forget_all(&mut self.tables, &mut self.tlb);
        } else {
            self.absent.remove(&page);
        }
    }

    fn is_absent(&self, host: u32) -> bool {
        self.absent.iter().any(|&page| Self::host_of(page) == Some(host & !0xfff))
    }

    /// What the host lets through must be legal for the guest.
    fn judge_pass(&mut self, host: u32, view: View, va: u32, kind: AccessKind) {
        let privileged = view == View::Kernel;
        let context = format!("{view:?} {kind:?} {va:#x} under {:x?}", self.regime);
        assert!(!(privileged && kind == AccessKind::Fetch), "kernel view executes: {context}");
        assert!(!self.shadow.in_region(GuestVa(va)), "mapped in the hypervisor region: {context}");
        assert!(!self.is_absent(host), "a page that was given away: {context}");
        if kind == AccessKind::Write {
            let table =
                [ROOTS[0], ROOTS[1], SECOND].into_iter().find(|&page| Self::host_of(page) == Some(host & !0xfff));
            assert!(!table.is_some_and(|page| self.shadow.is_table_page(GuestPa(page))), "write to a table: {context}");
            let protected = |page: &&u32| Self::host_of(**page) == Some(host & !0xfff);
            assert!(self.protected.iter().find(protected).is_none(), "write to a protected page: {context}");
        }
        let same_place = |entry: &Entry| Self::host_of(entry.pa & !0xfff | va & 0xfff) == Some(host);
        let now = model::translate(&self.memory, &self.regime, va, kind, privileged);
        if now.as_ref().is_ok_and(same_place) {
            self.passed[kind as usize] += 1;
            return;
        }
        assert!(self.regime.sctlr & 1 != 0, "the flat map is never out of date: {context}");
        let legal = self.held.iter().any(|held| {
            held.va == va & !0xfff
                && (!held.entry.ng || held.asid == self.regime.asid)
                && same_place(&held.entry)
                && held.entry.check(held.afe, self.regime.dacr, kind, privileged).is_ok()
        });
        assert!(legal, "no TLB could give {host:#x}: {context}; the model says {now:x?}");
        self.stale_passed += 1;
    }

    /// What comes before any access of user code: a hypervisor enters it.
    fn enter_user(&mut self) {
        if self.regime.sctlr & 1 != 0 {
            self.shadow.enter_user(self.regime.dacr, &mut self.tables, &mut self.tlb);
        }
    }

    fn attempt(&mut self, view: View, va: u32, kind: AccessKind) -> bool {
        if view == View::User {
            self.enter_user();
        }
        self.attempt_in(self.shadow.root(view), view, va, kind)
    }

    fn attempt_in(&mut self, root: Root, view: View, va: u32, kind: AccessKind) -> bool {
        self.settle();
        let separation = self.shadow.separation();
        if separation == Separation::Domains && view == View::Kernel && kind == AccessKind::Fetch {
            return false;
        }
        let open = if self.regime.sctlr & 1 != 0 {
            separation.host_dacr(self.regime.dacr, separation.dacr_of(view))
        } else {
            separation.flat_dacr(view)
        };
        let dacr = open.raw() & !self.lazily_closed;
        assert_eq!(dacr >> 30, 0b01);
        let Some(entry) = self.tlb.get(&self.tables, root, va) else { return false };
        if !allowed(&entry, dacr, kind) {
            return false;
        }
        self.judge_pass(entry.page << 12 | va & 0xfff, view, va, kind);
        true
    }

    fn access(&mut self) {
        let view = self.random.pick(&[View::Kernel, View::User]);
        let kind = self.random.pick(&KINDS);
        let va = if self.regime.sctlr & 1 == 0 && self.random.one_in(2) {
            self.ram_page()
        } else {
            self.random.pick(&VA_MB) << 20 | self.random.pick(&VA_PAGE) << 12
        } | self.random.word() & 0xffc;
        if self.attempt(view, va, kind) {
            return;
        }
        let privileged = view == View::Kernel;
        let expected = model::translate(&self.memory, &self.regime, va, kind, privileged);
        let fill = self.fill(view, va, kind);
        let mut left = !self.shadow.is_settled();
        let context = format!("{view:?} {kind:?} {va:#x} under {:x?}: {fill:x?}, model {expected:x?}", self.regime);
        match fill {
            Fill::GuestFault(fault) => {
                let Err(model) = expected else { panic!("{context}") };
                let write = kind == AccessKind::Write;
                assert_eq!(fault.kind, model.kind, "{context}");
                assert_eq!(fault.fsr(write), model::dfsr(&model, write), "{context}");
                self.outcomes[0] += 1;
                return;
            }
            Fill::OutOfTables | Fill::Trapped(_) => panic!("{context}"),
            _ => {}
        }
        let Ok(entry) = expected else { panic!("{context}") };
        let in_region = (va >> 20).wrapping_sub(REGION_FIRST_MB) < 2;
        let is_ram = Self::host_of(entry.pa).is_some() && !self.absent.contains(&(entry.pa & !0xfff));
        match fill {
            Fill::KernelFetch(pa) => {
                assert!(privileged && kind == AccessKind::Fetch && pa.0 == entry.pa, "{context}");
                self.outcomes[1] += 1;
            }
            Fill::Region(pa) => {
                assert!(in_region && pa.0 == entry.pa, "{context}");
                self.outcomes[2] += 1;
            }
            Fill::Device(pa) => {
                assert!(!is_ram && !in_region && pa.0 == entry.pa, "{context}");
                self.outcomes[3] += 1;
            }
            Fill::CodePageWrite(pa) => {
                assert!(pa.0 == entry.pa && kind == AccessKind::Write, "{context}");
                let code = self.protected.contains(&(pa.0 & !0xfff));
                assert_eq!(code, self.shadow.is_code_page(pa), "{context}");
                assert!(code || self.shadow.is_table_page(pa), "{context}");
                if self.shadow.is_table_page(pa) {
                    self.shadow.table_written(pa, 4, &mut self.tables, &mut self.tlb);
                }
                self.outcomes[4] += 1;
            }
            Fill::Mapped => {
                self.lazily_closed = 0;
                let mut fills = 1;
                while !self.attempt(view, va, kind) {
                    // There was too much else to do, or so few tables are left.
                    assert!(fills < 100 && (left || !self.ballast.is_empty()), "mapped, but still faults: {context}");
                    assert_eq!(self.fill(view, va, kind), Fill::Mapped, "{context}");
                    left = !self.shadow.is_settled();
                    fills += 1;
                    self.again += 1;
                }
                let root = self.shadow.root(view);
                let page = self.tlb.get(&self.tables, root, va).map(|entry| entry.page);
                assert_eq!(page, Self::host_of(entry.pa).map(|host| host >> 12), "{context}");
                self.outcomes[5] += 1;
            }
            Fill::GuestFault(_) | Fill::OutOfTables | Fill::Trapped(_) => unreachable!("dealt with above"),
        }
    }

    /// A page gets an entry, whatever DACR says of its domain; what may be accessed stays as it is.
    fn fill_closed(&mut self) {
        self.settle();
        let va = self.random.pick(&VA_MB) << 20 | self.random.pick(&VA_PAGE) << 12;
        let mut opened = self.regime;
        // The domains that the host's DACR closes where the guest's does.
        let own = if self.shadow.separation() == Separation::Tables { 0..15 } else { 0..6 };
        for domain in own.filter(|domain| self.regime.dacr >> (2 * domain) & 1 == 0) {
            opened.dacr = opened.dacr & !(0b11 << (2 * domain)) | 0b01 << (2 * domain);
        }
        let expected = model::translate(&self.memory, &opened, va, AccessKind::Read, true);
        let (tables, tlb) = (&mut self.tables, &mut self.tlb);
        let fill = self.shadow.fill_closed(&self.memory, &self.regime, GuestVa(va), tables, tlb);
        let context = format!("{va:#x} under {:x?}: {fill:x?}, model {expected:x?}", self.regime);
        assert_eq!(matches!(fill, Fill::GuestFault(_)), expected.is_err(), "{context}");
        assert!(!matches!(fill, Fill::CodePageWrite(_) | Fill::KernelFetch(_) | Fill::OutOfTables), "{context}");
        let may = model::translate(&self.memory, &self.regime, va, AccessKind::Read, true);
        self.closed += u64::from(fill == Fill::Mapped && may.is_err());
        // What passes now is judged by DACR as it is.
        for view in [View::Kernel, View::User] {
            for kind in KINDS {
                self.attempt(view, va, kind);
            }
        }
    }

    /// By the fast path, if that has an answer.
    fn fill(&mut self, view: View, va: u32, kind: AccessKind) -> Fill {
        let (tables, tlb, regime) = (&mut self.tables, &mut self.tlb, &self.regime);
        if guest::plain::is_plain(regime) {
            let base = (regime.ttbr0, regime.dacr);
            match self.shadow.fast_fill(&self.memory, base, view, GuestVa(va), kind, tables, tlb) {
                FastFill::Mapped => {
                    self.fast_faults[0] += 1;
                    return Fill::Mapped;
                }
                FastFill::GuestFault(fault) => {
                    self.fast_faults[1] += 1;
                    return Fill::GuestFault(fault);
                }
                FastFill::Other => {}
            }
        }
        self.shadow.fill(&self.memory, regime, view, GuestVa(va), kind, tables, tlb)
    }

    /// The processor may walk for any address at any time, under the present table and ASID.
    fn speculate(&mut self) {
        let view = self.random.pick(&[View::Kernel, View::User]);
        let root = self.shadow.root(view);
        for va in vas().collect::<Vec<_>>() {
            if self.random.one_in(4) {
                self.tlb.get(&self.tables, root, va);
            }
        }
    }

    fn step(&mut self) {
        match self.random.below(60) {
            0..=4 => {
                self.remember();
                self.edit();
            }
            5 | 6 => {
                self.remember();
                self.maintain();
            }
            7 => {
                self.remember();
                self.change_registers();
            }
            8 if self.random.one_in(6) => self.exchange(),
            8 => self.protect(),
            9 if self.random.one_in(3) => self.fill_closed(),
            9 => self.speculate(),
            _ => {
                self.access();
                return;
            }
        }
        self.tlb.check(&self.tables);
    }

    /// Nothing in either view of the active space leads anywhere but to guest RAM, and the kernel view is XN.
    fn check_active(&mut self) {
        self.settle();
        for view in [View::Kernel, View::User] {
            let root = self.shadow.root(view);
            for va in vas() {
                let Some(entry) = host_walk(&self.tables, root.ttbr0, va) else { continue };
                let host = entry.page << 12;
                let inside = |chunk: &Chunk| host.wrapping_sub(chunk.host.0) < chunk.megabytes << 20;
                assert!(CHUNKS.iter().any(inside), "{va:#x} leads out of the guest's memory");
                assert!(!self.is_absent(host), "{va:#x} leads to a page that was given away");
                let by_tables = self.shadow.separation() == Separation::Tables;
                assert!(view == View::User || entry.xn || !by_tables);
                assert!(
                    !entry.writable || !self.protected.iter().any(|&page| Self::host_of(page) == Some(host)),
                    "{va:#x} maps a protected page writable"
                );
            }
        }
    }

    /// Takes the steps with these numbers, each with random numbers of its own.
    pub fn run(&mut self, seed: u64, steps: &[u32]) {
        for &step in steps {
            self.random = Random::new(seed.rotate_left(32) ^ u64::from(step));
            self.step();
            if step % 64 == 0 {
                self.check_active();
            }
        }
    }

    /// What happened how often.
    pub fn seen(&self) -> Vec<(&'static str, u64)> {
        let stats = self.shadow.stats();
        let outcomes =
            ["guest faults", "fetches by the kernel", "the hypervisor region", "devices", "writes to code", "filled"];
        let passed = ["reads let through", "writes let through", "fetches let through"];
        let mut seen: Vec<_> =
            outcomes.into_iter().zip(self.outcomes).chain(passed.into_iter().zip(self.passed)).collect();
        seen.extend([
            ("out of date, but legal", self.stale_passed),
            ("pages forgotten in assembly", self.forgotten),
            ("filled on the fast path", self.fast_faults[0]),
            ("guest faults found on the fast path", self.fast_faults[1]),
            ("pieces of work that were left", self.pieces),
            ("fills that had to come again", self.again),
            ("pages of closed domains filled", self.closed),
            ("pages given away", self.given),
            ("switches to spaces that were known", self.switched),
            ("sections filled", stats.section_fills),
            ("pages filled", stats.page_fills),
            ("fills that changed nothing", stats.idle_fills),
            ("writes to tables", stats.table_writes),
            ("tables released", stats.tables_released),
            ("spaces evicted", stats.spaces_evicted),
            ("the active space emptied", stats.active_emptied),
        ]);
        seen
    }

    /// Lets the guest go: nothing may be left of it.
    pub fn finish(mut self) -> Stats {
        for table in self.ballast.drain(..) {
            self.tables.free(table);
        }
        let stats = self.shadow.stats();
        let in_use = stats.first_level_tables * 16 * 1024 + stats.second_level_tables * 1024;
        assert_eq!(self.tables.pool.used_bytes() as u64, in_use);
        self.shadow.release(&mut self.tables, &mut self.tlb);
        self.settle();
        assert_eq!(self.tables.pool.used_bytes(), 0, "tables leaked");
        assert!(self.tlb.entries.is_empty(), "the TLB remembers a guest that is gone");
        stats
    }
}
