//! What a kernel's habits cost: each test is a thing that guests do all day, and the counters that must not move.

use spica_addr::{GuestPa, GuestVa, HostPa};
use spica_mmu::{
    AccessKind, Chunk, Config, ConfigError, FastFill, Fill, OutOfTables, PageSize, RamError, Regime, Separation,
    Shadow, TableMemory, View,
};
use spica_prove::mmu::model::Memory;
use spica_prove::mmu::sim::{Tables, Tlb};

const RAM: u32 = 0x4000_0000;
const HOST: u32 = 0x6000_0000;
const CHUNK: Chunk = Chunk { guest: GuestPa(RAM), host: HostPa(HOST), megabytes: 16 };
const REGION: usize = 0xf00;

/// Global and private, read/write for both sides, domain 1.
const SECTION: u32 = 0b10 | 0b11 << 10 | 1 << 5;
const PRIVATE_SECTION: u32 = SECTION | 1 << 17;
const PAGE: u32 = 0b10 | 0b11 << 4;
const PRIVATE_PAGE: u32 = PAGE | 1 << 11;

/// The kernel's own tables, and those of two processes, which share the kernel's half.
const KERNEL: u32 = RAM + 0x4000;
const PROCESS: [u32; 2] = [RAM + 0x8000, RAM + 0xc000];
const USER_PAGES: [u32; 2] = [RAM + 0x1_0000, RAM + 0x1_0400];
const KERNEL_PAGES: u32 = RAM + 0x1_0800;

const LOWMEM: u32 = 0xc000_0000;
const VMALLOC: u32 = 0xd080_0000;
const USER: u32 = 0x0001_0000;

fn config(region: &'static [u32]) -> Config<'static> {
    Config {
        ram: &[CHUNK],
        region_first_mb: REGION,
        region_kernel: region,
        region_user: region,
        asids: 1..=16,
        max_spaces: 8,
        share_kernel: true,
        watch_pages: true,
        keep_tables: true,
        piece: 1000,
        separation: Separation::Tables,
    }
}

struct Guest {
    memory: Memory,
    regime: Regime,
    shadow: Shadow,
    tables: Tables,
    tlb: Tlb,
}

impl Guest {
    /// A kernel as Linux lays it out, with its MMU on and its first process active under ASID 1.
    fn new() -> Self {
        Self::with(&config(&[0]))
    }

    fn with(config: &Config<'_>) -> Self {
        let mut memory = Memory { ram: vec![(RAM, 16 << 20)], ..Memory::default() };
        for root in [KERNEL, PROCESS[0], PROCESS[1]] {
            for mb in 0..16 {
                memory.write(root + ((LOWMEM >> 20) + mb) * 4, (RAM + (mb << 20)) | SECTION);
            }
            memory.write(root + (VMALLOC >> 20) * 4, KERNEL_PAGES | 1 << 5 | 0b01);
        }
        for page in 0..256 {
            memory.write(KERNEL_PAGES + page * 4, (RAM + (8 << 20) + (page << 12)) | PAGE);
        }
        for (process, table) in USER_PAGES.into_iter().enumerate() {
            memory.write(PROCESS[process], table | 1 << 5 | 0b01);
            for page in 0..256 {
                let pa = RAM + ((4 + process as u32) << 20) + (page << 12);
                memory.write(table + page * 4, pa | PRIVATE_PAGE);
            }
        }
        let regime = Regime { sctlr: 1, dacr: 0b01 << 2, ..Regime::default() };
        let mut guest = Self {
            memory,
            regime,
            shadow: Shadow::new(config).unwrap(),
            tables: Tables::new(64 * 16 * 1024),
            tlb: Tlb::default(),
        };
        guest.switch(PROCESS[0], 1);
        guest
    }

    fn switch(&mut self, ttbr0: u32, asid: u8) {
        self.regime.ttbr0 = ttbr0;
        self.regime.asid = asid;
        self.shadow.activate(&self.regime, &mut self.tables, &mut self.tlb).unwrap();
    }

    /// Switches as Linux does: to the kernel's own tables, to the new ASID, to the new tables.
    fn switch_process(&mut self, process: usize) {
        self.switch(KERNEL, self.regime.asid);
        self.switch(KERNEL, process as u8 + 1);
        self.switch(PROCESS[process], process as u8 + 1);
    }

    /// The host page behind `va`; fills if need be, and says whether that was so.
    fn touch(&mut self, view: View, va: u32, kind: AccessKind) -> (u32, bool) {
        let root = self.shadow.root(view);
        let allows = |entry: &spica_prove::mmu::sim::HostEntry| kind != AccessKind::Write || entry.writable;
        if let Some(entry) = self.tlb.get(&self.tables, root, va).filter(allows) {
            return (entry.page << 12, false);
        }
        let fill = self.fill(view, va, kind);
        assert_eq!(fill, Fill::Mapped);
        let entry = self.tlb.get(&self.tables, root, va).filter(allows).unwrap();
        (entry.page << 12, true)
    }

    fn fill(&mut self, view: View, va: u32, kind: AccessKind) -> Fill {
        let (tables, tlb) = (&mut self.tables, &mut self.tlb);
        self.shadow.fill(&self.memory, &self.regime, view, GuestVa(va), kind, tables, tlb)
    }

    fn fill_closed(&mut self, va: u32) -> Fill {
        self.shadow.fill_closed(&self.memory, &self.regime, GuestVa(va), &mut self.tables, &mut self.tlb)
    }

    fn touch_all(&mut self) -> u32 {
        let mut filled = 0;
        for va in [LOWMEM, LOWMEM + (3 << 20), VMALLOC] {
            filled += u32::from(self.touch(View::Kernel, va, AccessKind::Write).1);
        }
        for view in [View::Kernel, View::User] {
            filled += u32::from(self.touch(view, USER, AccessKind::Write).1);
        }
        filled
    }
}

#[test]
fn a_few_more_processes_than_spaces_lose_few_of_them() {
    const ROUNDS: u64 = 100;
    const PROCESSES: u64 = 11;
    let mut guest = Guest::new();
    let made = |guest: &Guest| guest.shadow.stats().spaces_created;
    for round in 0..2 * ROUNDS * PROCESSES {
        let asid = (round % PROCESSES + 1) as u8;
        guest.switch(PROCESS[0], asid);
        guest.touch(View::User, USER, AccessKind::Read);
    }
    let before = made(&guest);
    for round in 0..ROUNDS * PROCESSES {
        guest.switch(PROCESS[0], (round % PROCESSES + 1) as u8);
        guest.touch(View::User, USER, AccessKind::Read);
    }
    // What was not used for longest is what is needed next: by that, it would be all of them.
    let again = made(&guest) - before;
    assert!(again < ROUNDS * PROCESSES * 6 / 10, "{again} spaces made again of {}", ROUNDS * PROCESSES);
}

#[test]
fn a_process_switch_costs_no_fill_and_its_passage_no_space() {
    let mut guest = Guest::new();
    guest.switch_process(0);
    guest.touch_all();
    guest.switch_process(1);
    guest.touch_all();
    let before = guest.shadow.stats();
    assert_eq!(before.spaces_created, 3);
    for process in [0, 1, 0, 1] {
        guest.switch_process(process);
        assert_eq!(guest.touch_all(), 0);
        let (page, _) = guest.touch(View::User, USER, AccessKind::Read);
        assert_eq!(page, HOST + ((4 + process as u32) << 20) + 0x1_0000);
    }
    let after = guest.shadow.stats();
    assert_eq!(after.spaces_created, before.spaces_created);
    assert_eq!(after.section_fills + after.page_fills, before.section_fills + before.page_fills);
}

#[test]
fn a_new_space_starts_with_the_global_sections_of_the_last() {
    let mut guest = Guest::new();
    guest.memory.write(PROCESS[0] + 4, (RAM + (6 << 20)) | PRIVATE_SECTION);
    guest.memory.write(PROCESS[1] + 4, (RAM + (7 << 20)) | PRIVATE_SECTION);
    guest.touch_all();
    guest.touch(View::Kernel, 1 << 20, AccessKind::Read);
    guest.switch(PROCESS[1], 2);
    assert!(!guest.touch(View::Kernel, LOWMEM, AccessKind::Write).1);
    assert!(!guest.touch(View::Kernel, LOWMEM + (3 << 20) + 0x5000, AccessKind::Write).1);
    // Private ones stay behind.
    assert_eq!(guest.touch(View::Kernel, 1 << 20, AccessKind::Read), (HOST + (7 << 20), true));
    // What was adopted is forgotten like the rest.
    guest.shadow.invalidate_page(GuestVa(LOWMEM), Some(77), &mut guest.tables, &mut guest.tlb);
    guest.switch(PROCESS[0], 1);
    assert!(guest.touch(View::Kernel, LOWMEM, AccessKind::Write).1);
}

/// A process in which nothing happened yet, then the one that [`Guest::new`] begins with.
const NEXT_AND_FIRST: [(u32, u8); 2] = [(PROCESS[1], 2), (PROCESS[0], 1)];

#[test]
fn what_the_kernel_has_in_one_space_it_has_in_all() {
    let mut guest = Guest::new();
    guest.touch(View::Kernel, LOWMEM, AccessKind::Write);
    for (ttbr0, asid) in NEXT_AND_FIRST {
        guest.switch(ttbr0, asid);
        assert!(!guest.touch(View::Kernel, LOWMEM, AccessKind::Write).1);
        guest.touch(View::Kernel, VMALLOC, AccessKind::Write);
    }
    let fills = guest.shadow.stats().page_fills;
    guest.switch(PROCESS[1], 2);
    assert!(!guest.touch(View::Kernel, VMALLOC, AccessKind::Write).1);
    assert_eq!(guest.shadow.stats().page_fills, fills);

    // What goes, goes for all.
    for va in [VMALLOC, LOWMEM] {
        guest.shadow.invalidate_page(GuestVa(va), Some(77), &mut guest.tables, &mut guest.tlb);
        let gone = |guest: &mut Guest| {
            let root = guest.shadow.root(View::Kernel);
            guest.tlb.get(&guest.tables, root, va).is_none()
        };
        for (ttbr0, asid) in NEXT_AND_FIRST {
            guest.switch(ttbr0, asid);
            assert!(gone(&mut guest), "{va:#x}, ASID {asid}");
        }
    }
}

#[test]
fn a_page_that_becomes_code_is_not_writable_in_any_space() {
    let mut guest = Guest::new();
    for (ttbr0, asid) in NEXT_AND_FIRST {
        guest.switch(ttbr0, asid);
        guest.touch(View::Kernel, VMALLOC, AccessKind::Write);
        guest.touch(View::Kernel, LOWMEM, AccessKind::Write);
    }
    for (pa, va) in [(RAM + (8 << 20), VMALLOC), (RAM, LOWMEM)] {
        assert!(guest.shadow.protect_code_page(GuestPa(pa), &mut guest.tables, &mut guest.tlb));
        for (ttbr0, asid) in NEXT_AND_FIRST {
            guest.switch(ttbr0, asid);
            let root = guest.shadow.root(View::Kernel);
            assert!(guest.tlb.get(&guest.tables, root, va).is_none_or(|entry| !entry.writable), "{va:#x}, ASID {asid}");
        }
    }
}

#[test]
fn a_megabyte_with_something_private_is_not_shared() {
    let mut guest = Guest::new();
    let private = VMALLOC + 0x4_0000;
    guest.memory.write(KERNEL_PAGES + 0x40 * 4, (RAM + (9 << 20)) | PRIVATE_PAGE);
    guest.touch(View::Kernel, VMALLOC, AccessKind::Write);
    guest.switch(PROCESS[1], 2);
    assert!(guest.touch(View::Kernel, private, AccessKind::Write).1);
    guest.touch(View::Kernel, VMALLOC, AccessKind::Write);
    guest.switch(PROCESS[0], 1);
    assert!(!guest.touch(View::Kernel, VMALLOC, AccessKind::Write).1);
    let root = guest.shadow.root(View::Kernel);
    assert!(guest.tlb.get(&guest.tables, root, private).is_none(), "the other process's");
    guest.memory.write(KERNEL_PAGES + 0x40 * 4, (RAM + (10 << 20)) | PRIVATE_PAGE);
    assert_eq!(guest.touch(View::Kernel, private, AccessKind::Read), (HOST + (10 << 20), true));
}

#[test]
fn tlbiasid_keeps_what_is_global() {
    let mut guest = Guest::new();
    guest.touch_all();
    guest.shadow.invalidate_asid(1, &mut guest.tables, &mut guest.tlb);
    assert!(!guest.touch(View::Kernel, LOWMEM, AccessKind::Write).1);
    assert!(!guest.touch(View::Kernel, VMALLOC, AccessKind::Write).1);
    assert!(guest.touch(View::Kernel, USER, AccessKind::Write).1);
    assert!(guest.touch(View::User, USER, AccessKind::Write).1);
    guest.shadow.invalidate_asid(2, &mut guest.tables, &mut guest.tlb);
    assert_eq!(guest.touch_all(), 0);
}

#[test]
fn who_is_flushed_again_keeps_tables() {
    let mut guest = Guest::new();
    let mut counts = Vec::new();
    for _ in 0..3 {
        for view in [View::Kernel, View::User] {
            assert!(guest.touch(view, USER, AccessKind::Write).1, "what was there is gone");
        }
        guest.shadow.invalidate_asid(1, &mut guest.tables, &mut guest.tlb);
        assert!(guest.shadow.is_settled(), "the tables that stay are no work that is left");
        counts.push((guest.shadow.stats().second_level_tables, guest.shadow.holds_private()));
    }
    assert_eq!(counts, [(0, false), (2, true), (2, true)]);
    // Another process begins without.
    guest.shadow.invalidate_all(&mut guest.tables, &mut guest.tlb);
    assert_eq!(guest.shadow.stats().second_level_tables, 0);
}

#[test]
fn tlbiall_touches_inactive_spaces_only_when_they_are_used_again() {
    let mut guest = Guest::new();
    guest.touch_all();
    guest.switch(PROCESS[1], 2);
    guest.touch_all();
    let flushes = guest.tlb.asid_flushes;
    guest.shadow.invalidate_all(&mut guest.tables, &mut guest.tlb);
    let swept = guest.tlb.asid_flushes - flushes;
    assert_eq!(swept, 4, "what both have borrowed, and what the active one has of its own, in both views");
    assert_eq!(guest.shadow.stats().spaces_live, 1);
    assert_eq!(guest.touch_all(), 5);
    guest.switch(PROCESS[0], 1);
    assert_eq!(guest.tlb.asid_flushes - flushes, swept + 2);
    assert_eq!(guest.touch_all(), 2, "of the user's");
}

#[test]
fn nothing_maps_a_page_that_was_given_away() {
    let mut guest = Guest::new();
    let page = GuestPa(RAM + (3 << 20) + 0x7000);
    let va = LOWMEM + (3 << 20) + 0x7000;
    guest.touch(View::Kernel, va, AccessKind::Write);
    guest.switch(PROCESS[1], 2);
    guest.touch(View::Kernel, va, AccessKind::Write);
    assert!(guest.shadow.set_absent(page, true) && !guest.shadow.set_absent(page, true));
    guest.shadow.forget_all(&mut guest.tables, &mut guest.tlb);
    for process in [1, 0] {
        guest.switch_process(process);
        for kind in [AccessKind::Read, AccessKind::Write] {
            assert_eq!(guest.fill(View::Kernel, va, kind), Fill::Device(page));
        }
        // Its neighbours are there, one by one.
        assert_eq!(guest.touch(View::Kernel, va + 0x1000, AccessKind::Write).0, HOST + (3 << 20) + 0x8000);
        let root = guest.shadow.root(View::Kernel);
        assert!(guest.tlb.get(&guest.tables, root, va).is_none());
    }
    assert!(guest.shadow.set_absent(page, false));
    assert_eq!(guest.touch(View::Kernel, va, AccessKind::Write).0, HOST + (3 << 20) + 0x7000);
    // Also with the MMU off.
    guest.regime.sctlr = 0;
    guest.switch(PROCESS[0], 1);
    guest.touch(View::Kernel, page.0, AccessKind::Write);
    guest.shadow.set_absent(page, true);
    guest.shadow.forget_all(&mut guest.tables, &mut guest.tlb);
    assert_eq!(guest.fill(View::Kernel, page.0, AccessKind::Read), Fill::Device(page));
    assert!(!guest.shadow.set_absent(GuestPa(RAM - 4096), true));
}

#[test]
fn protecting_text_takes_one_look_per_space_and_spares_its_neighbours() {
    let mut guest = Guest::new();
    let text = LOWMEM + (3 << 20);
    for process in [1, 0] {
        guest.switch_process(process);
        guest.touch(View::Kernel, text, AccessKind::Write);
    }
    for page in 0..32 {
        let pa = GuestPa(RAM + (3 << 20) + (page << 12));
        assert!(guest.shadow.protect_code_page(pa, &mut guest.tables, &mut guest.tlb));
        for process in [1, 0] {
            guest.switch_process(process);
            let va = text + (page << 12);
            // Still readable, not writable; the next page still is, until its turn comes.
            assert!(guest.touch(View::Kernel, va, AccessKind::Read).0 == HOST + (3 << 20) + (page << 12));
            assert_eq!(guest.fill(View::Kernel, va + 8, AccessKind::Write), Fill::CodePageWrite(GuestPa(pa.0 + 8)));
            guest.touch(View::Kernel, va + 0x1000, AccessKind::Write);
        }
    }
    assert_eq!(guest.shadow.stats().protection_scans, 0);
    let pa = GuestPa(RAM + (3 << 20));
    assert!(guest.shadow.unprotect_code_page(pa));
    assert!(guest.touch(View::Kernel, text, AccessKind::Write).1);
}

#[test]
fn an_alias_does_not_get_around_protection() {
    let mut guest = Guest::new();
    // The same physical page three times: by section, by kernel page, by user page.
    let pa = RAM + (3 << 20) + 0x7000;
    guest.memory.write(KERNEL_PAGES, pa | PAGE);
    guest.memory.write(USER_PAGES[0] + 0x10 * 4, pa | PRIVATE_PAGE);
    let aliases = [(View::Kernel, LOWMEM + (3 << 20) + 0x7000), (View::Kernel, VMALLOC), (View::User, USER)];
    for (view, va) in aliases {
        assert_eq!(guest.touch(view, va, AccessKind::Write).0, HOST + (3 << 20) + 0x7000);
    }
    guest.shadow.protect_code_page(GuestPa(pa), &mut guest.tables, &mut guest.tlb);
    guest.tlb.check(&guest.tables);
    for (view, va) in aliases {
        let root = guest.shadow.root(view);
        assert!(guest.tlb.get(&guest.tables, root, va).is_none_or(|entry| !entry.writable));
        assert_eq!(guest.fill(view, va, AccessKind::Write), Fill::CodePageWrite(GuestPa(pa)));
    }
    // A manager domain does not either.
    guest.regime.dacr = 0b11 << 2;
    assert_eq!(guest.fill(View::User, USER, AccessKind::Write), Fill::CodePageWrite(GuestPa(pa)));
}

impl Guest {
    /// Protects the page at `pa`, which was writable at those addresses.
    fn protect_and_look(&mut self, pa: u32, aliases: &[(View, u32)]) {
        assert!(self.shadow.protect_code_page(GuestPa(pa), &mut self.tables, &mut self.tlb));
        for &(view, va) in aliases {
            let root = self.shadow.root(view);
            let writable = self.tlb.get(&self.tables, root, va).is_some_and(|entry| entry.writable);
            assert!(!writable, "{view:?} {va:#x}");
        }
        assert_eq!(self.shadow.stats().protection_scans, 0);
    }
}

#[test]
fn a_page_in_the_linear_map_and_elsewhere_is_found_at_both() {
    let pa = RAM + (3 << 20) + 0x7000;
    let mut aliases = [(View::Kernel, LOWMEM + (3 << 20) + 0x7000), (View::User, USER)];
    for _ in 0..2 {
        let mut guest = Guest::new();
        // So that the linear map of this megabyte is by pages.
        guest.shadow.protect_code_page(GuestPa(pa + 0x1000), &mut guest.tables, &mut guest.tlb);
        guest.memory.write(USER_PAGES[0] + 0x10 * 4, pa | PRIVATE_PAGE);
        for (view, va) in aliases {
            guest.touch(view, va, AccessKind::Write);
        }
        guest.protect_and_look(pa, &aliases);
        aliases.reverse();
    }
}

#[test]
fn what_was_mapped_elsewhere_is_forgotten_when_it_is_gone_and_not_before() {
    const OTHER: u32 = 0x0002_0000;
    let pa = RAM + (3 << 20) + 0x7000;
    let mut guest = Guest::with(&config(&[0]));
    for va in [USER, OTHER] {
        guest.memory.write(USER_PAGES[0] + (va >> 12) * 4, pa | PRIVATE_PAGE);
        guest.touch(View::User, va, AccessKind::Write);
    }
    let come_back = |guest: &mut Guest| {
        for _ in 0..20 {
            guest.shadow.invalidate_page(GuestVa(OTHER), Some(1), &mut guest.tables, &mut guest.tlb);
            assert!(guest.touch(View::User, OTHER, AccessKind::Write).1);
        }
    };
    come_back(&mut guest);
    assert_eq!(guest.shadow.stats().hints_narrowed, 0);
    guest.shadow.invalidate_page(GuestVa(USER), Some(1), &mut guest.tables, &mut guest.tlb);
    come_back(&mut guest);
    assert_eq!(guest.shadow.stats().hints_narrowed, 1);
    guest.touch(View::User, USER, AccessKind::Write);
    guest.protect_and_look(pa, &[(View::User, USER), (View::User, OTHER)]);
}

#[test]
fn a_page_in_the_linear_map_is_known_there_when_another_address_is_forgotten() {
    const OTHER: u32 = 0x0002_0000;
    let pa = RAM + (3 << 20) + 0x7000;
    let linear = LOWMEM + (3 << 20) + 0x7000;
    let mut guest = Guest::with(&config(&[0]));
    // So that the linear map of this megabyte is by pages.
    guest.shadow.protect_code_page(GuestPa(pa + 0x1000), &mut guest.tables, &mut guest.tlb);
    for va in [USER, OTHER] {
        guest.memory.write(USER_PAGES[0] + (va >> 12) * 4, pa | PRIVATE_PAGE);
    }
    for (view, va) in [(View::User, USER), (View::Kernel, linear), (View::User, OTHER)] {
        guest.touch(view, va, AccessKind::Write);
    }
    guest.shadow.invalidate_page(GuestVa(USER), Some(1), &mut guest.tables, &mut guest.tlb);
    for _ in 0..5 {
        guest.shadow.invalidate_page(GuestVa(OTHER), Some(1), &mut guest.tables, &mut guest.tlb);
        assert!(guest.touch(View::User, OTHER, AccessKind::Write).1);
    }
    assert_eq!(guest.shadow.stats().hints_narrowed, 1);
    guest.protect_and_look(pa, &[(View::Kernel, linear), (View::User, OTHER)]);
}

#[test]
fn what_another_process_has_elsewhere_is_no_reason_to_know_several_addresses() {
    const OTHER: u32 = 0x0002_0000;
    let pa = RAM + (3 << 20) + 0x7000;
    let mut guest = Guest::with(&config(&[0]));
    for (process, va) in [(1, USER), (0, OTHER)] {
        guest.memory.write(USER_PAGES[process] + (va >> 12) * 4, pa | PRIVATE_PAGE);
        guest.switch_process(process);
        guest.touch(View::User, va, AccessKind::Write);
    }
    for _ in 0..5 {
        guest.shadow.invalidate_page(GuestVa(OTHER), Some(1), &mut guest.tables, &mut guest.tlb);
        guest.touch(View::User, OTHER, AccessKind::Write);
    }
    assert_eq!(guest.shadow.stats().hints_narrowed, 1);
    // The other one finds it again, and is found.
    guest.switch_process(1);
    assert!(guest.touch(View::User, USER, AccessKind::Write).1);
    guest.protect_and_look(pa, &[(View::User, USER)]);
    guest.switch_process(0);
    assert!(guest.touch(View::User, OTHER, AccessKind::Read).0 == HOST + (3 << 20) + 0x7000);
    assert_eq!(guest.fill(View::User, OTHER, AccessKind::Write), Fill::CodePageWrite(GuestPa(pa)));
}

#[test]
fn the_hosts_dacr_is_never_manager_and_never_lets_go_of_domain_15() {
    let guest = Guest::new();
    for (dacr, expected) in [
        (0x0000_0000, 0x4000_0000),
        (0xffff_ffff, 0x5555_5555),
        (0xffff_fffd, 0x5555_5555),
        (0x5555_5555, 0x5555_5555),
        (0xaaaa_aaaa, 0x4000_0000),
        (0x0000_0051, 0x4000_0051),
        (0xc000_000c, 0x4000_0004),
    ] {
        assert_eq!(guest.shadow.separation().host_dacr(dacr, View::Kernel).raw(), expected, "{dacr:#010x}");
    }
}

#[test]
fn a_page_of_a_closed_domain_gets_an_entry_that_is_closed() {
    let mut guest = Guest::new();
    // The process has its pages in domain 1.
    guest.regime.dacr = 0;
    assert!(matches!(guest.fill(View::Kernel, USER, AccessKind::Read), Fill::GuestFault(_)));
    assert_eq!(guest.fill_closed(USER), Fill::Mapped);
    let root = guest.shadow.root(View::Kernel);
    let entry = guest.tlb.get(&guest.tables, root, USER).unwrap();
    let open = guest.shadow.separation().host_dacr(guest.regime.dacr, View::Kernel).raw();
    assert_eq!((entry.page << 12, open >> (2 * entry.domain) & 0b11), (HOST + (4 << 20) + 0x1_0000, 0));
    // What DACR does not close on the host must not be there.
    guest.memory.write(PROCESS[0], USER_PAGES[0] | 15 << 5 | 0b01);
    guest.shadow.forget_all(&mut guest.tables, &mut guest.tlb);
    assert!(matches!(guest.fill_closed(USER), Fill::GuestFault(_)));
    // Nor what the guest's tables do not have.
    assert!(matches!(guest.fill_closed(0x7000_0000), Fill::GuestFault(_)));
}

#[test]
fn what_is_closed_to_user_code_is_gone_before_it_runs() {
    let mut guest = Guest::new();
    let entry = |guest: &mut Guest| {
        let root = guest.shadow.root(View::User);
        guest.tlb.get(&guest.tables, root, USER).map(|entry| entry.domain)
    };
    let enter = |guest: &mut Guest, dacr| {
        guest.regime.dacr = dacr;
        guest.shadow.enter_user(dacr, &mut guest.tables, &mut guest.tlb);
        while !guest.shadow.is_settled() {
            guest.shadow.settle(&mut guest.tables, &mut guest.tlb);
        }
    };
    // The process has its pages in domain 1. The host's is its own, whatever DACR says while the kernel runs.
    enter(&mut guest, 0x5555_5555);
    assert_eq!(guest.fill(View::User, USER, AccessKind::Read), Fill::Mapped);
    assert_eq!(entry(&mut guest), Some(15));
    enter(&mut guest, 0x5555_5555);
    assert_eq!(entry(&mut guest), Some(15));
    let drops = guest.shadow.stats().dacr_drops;
    enter(&mut guest, 0x5555_5551);
    assert_eq!((entry(&mut guest), guest.shadow.stats().dacr_drops), (None, drops + 1));
    assert!(matches!(guest.fill(View::User, USER, AccessKind::Read), Fill::GuestFault(_)));
    // What is opened costs nothing.
    enter(&mut guest, 0x5555_5555);
    assert_eq!(guest.shadow.stats().dacr_drops, drops + 1);
    assert_eq!(guest.fill(View::User, USER, AccessKind::Read), Fill::Mapped);
    // Pages are added in assembly, under what was entered last.
    enter(&mut guest, 0x5555_5551);
    assert_eq!((entry(&mut guest), guest.shadow.stats().dacr_drops), (None, drops + 2));
}

#[test]
fn domains_that_the_host_can_close_are_opened_and_no_others() {
    for (dacr, tables, domains) in [
        (0x0000_0000, 0x1555_5555, 0x0000_0555),
        (0xffff_ffff, 0xffff_ffff, 0xffff_ffff),
        // The reserved value closes, too.
        (0xaaaa_aaaa, 0x9555_5555, 0xaaaa_a555),
        (0xc000_000c, 0xd555_555d, 0xc000_055d),
        (0x4000_4051, 0x5555_5555, 0x4000_4555),
    ] {
        assert_eq!(Separation::Tables.opened_dacr(dacr), tables, "{dacr:#010x}");
        assert_eq!(Separation::Domains.opened_dacr(dacr), domains, "{dacr:#010x}");
    }
}

#[test]
fn by_domains_what_is_the_kernels_alone_is_closed_to_user_code() {
    let dacr = |guest, view| Separation::Domains.host_dacr(guest, view).raw();
    // Domains 0 to 5 twice; 7 and 15 always, 14 for the kernel.
    assert_eq!(dacr(0, View::User), 0x4000_4000);
    assert_eq!(dacr(0, View::Kernel), 0x5000_4000);
    assert_eq!(dacr(0xffff_ffff, View::User), 0x4000_4555);
    assert_eq!(dacr(0x5555_5555, View::Kernel), 0x5555_4555);
    assert_eq!(dacr(0x0000_0051, View::Kernel), 0x5051_4051);
}

#[test]
fn by_domains_translated_code_is_in_the_table_of_both_but_closed_to_user_code() {
    const KERNEL: [u32; 2] = [0x6fff_0001 | 15 << 5, 0x7000_0001 | 15 << 5];
    const USER: [u32; 2] = [0x6fff_0001 | 15 << 5, 0];
    let by_domains =
        |user: &'static [u32]| Config { region_user: user, separation: Separation::Domains, ..config(&KERNEL) };
    let mut shadow = Shadow::new(&by_domains(&USER)).unwrap();
    let (mut tables, mut tlb) = (Tables::new(16 * 1024), Tlb::default());
    shadow.activate(&Regime::default(), &mut tables, &mut tlb).unwrap();
    assert_eq!(shadow.root(View::Kernel), shadow.root(View::User));
    let table = spica_mmu::Table { pa: shadow.root(View::User).ttbr0, bytes: spica_mmu::FIRST_LEVEL_BYTES };
    assert_eq!(tables.read(&table, REGION), KERNEL[0]);
    assert_eq!(tables.read(&table, REGION + 1), 0x7000_0001 | 14 << 5);
    // What is there for user code, and is not the same, cannot be had.
    assert_eq!(Shadow::new(&by_domains(&[0x6fff_0001 | 15 << 5, 0x1111_0001])).err(), Some(ConfigError::Region));
}

#[test]
fn the_region_is_copied_into_every_table_and_survives_eviction() {
    const ENTRIES: [u32; 2] = [0x6fff_0001 | 15 << 5, 0x7000_0c0e | 15 << 5];
    let mut config = config(&ENTRIES);
    config.max_spaces = 2;
    let mut shadow = Shadow::new(&config).unwrap();
    let (mut tables, mut tlb) = (Tables::new(16 * 16 * 1024), Tlb::default());
    let memory = Memory::default();
    let mut asids = std::collections::BTreeSet::new();
    for index in 0..6 {
        let regime = Regime { sctlr: 1, ttbr0: index << 14, asid: 3, ..Regime::default() };
        shadow.activate(&regime, &mut tables, &mut tlb).unwrap();
        for view in [View::Kernel, View::User] {
            let root = shadow.root(view);
            asids.insert(root.asid);
            let table = spica_mmu::Table { pa: root.ttbr0, bytes: spica_mmu::FIRST_LEVEL_BYTES };
            let words: Vec<u32> = (REGION - 1..REGION + 3).map(|mb| tables.read(&table, mb)).collect();
            assert_eq!(words, [0, ENTRIES[0], ENTRIES[1], 0]);
        }
        assert!(
            shadow.in_region(GuestVa((REGION as u32) << 20))
                && shadow.in_region(GuestVa(((REGION as u32 + 2) << 20) - 1))
        );
        assert!(!shadow.in_region(GuestVa((REGION as u32 + 2) << 20)));
        let fill = shadow.fill(&memory, &regime, View::User, GuestVa(0), AccessKind::Read, &mut tables, &mut tlb);
        assert!(matches!(fill, Fill::GuestFault(_)));
    }
    assert_eq!(asids.into_iter().collect::<Vec<_>>(), [1, 2, 3, 4]);
    shadow.release(&mut tables, &mut tlb);
    assert_eq!(tables.pool.used_bytes(), 0);
}

#[test]
fn a_pool_without_room_for_one_space_is_an_error_and_not_a_panic() {
    let mut shadow = Shadow::new(&config(&[0])).unwrap();
    let mut tables = Tables::new(16 * 1024);
    let activated = shadow.activate(&Regime::default(), &mut tables, &mut Tlb::default());
    assert_eq!(activated, Err(OutOfTables));
    assert_eq!(tables.pool.used_bytes(), 0);
    // Two first-level tables and nothing more: sections can be mapped, pages cannot.
    let mut guest = Guest::new();
    guest.shadow.release(&mut guest.tables, &mut guest.tlb);
    guest.tables = Tables::new(2 * 16 * 1024);
    guest.switch(PROCESS[0], 1);
    assert_eq!(guest.fill(View::Kernel, LOWMEM, AccessKind::Write), Fill::Mapped);
    assert_eq!(guest.fill(View::Kernel, VMALLOC, AccessKind::Write), Fill::OutOfTables);
    assert_eq!(guest.fill(View::Kernel, LOWMEM, AccessKind::Write), Fill::Mapped);
}

#[test]
fn mistakes_of_configuration_are_named() {
    let error = |change: &dyn Fn(&mut Config<'static>)| {
        let mut config = config(&[0]);
        change(&mut config);
        Shadow::new(&config).err()
    };
    assert_eq!(error(&|_| {}), None);
    assert_eq!(error(&|c| c.region_user = &[]), Some(ConfigError::Region));
    assert_eq!(error(&|c| c.region_first_mb = 4096), Some(ConfigError::Region));
    assert_eq!(error(&|c| c.asids = 0..=40), Some(ConfigError::AsidZero));
    assert_eq!(error(&|c| c.max_spaces = 9), Some(ConfigError::Spaces));
    assert_eq!(error(&|c| c.max_spaces = 0), Some(ConfigError::Spaces));
    const CROOKED: Chunk = Chunk { guest: GuestPa(RAM + 0x1000), ..CHUNK };
    assert_eq!(error(&|c| c.ram = &[CROOKED]), Some(ConfigError::Ram(RamError::BadChunk(CROOKED))));
    const BEYOND: Chunk = Chunk { guest: GuestPa(0xff00_0000), megabytes: 17, ..CHUNK };
    assert_eq!(error(&|c| c.ram = &[BEYOND]), Some(ConfigError::Ram(RamError::BadChunk(BEYOND))));
    // Two guest addresses for one host megabyte would be a way around write protection.
    const ALIAS: Chunk = Chunk { guest: GuestPa(0x8000_0000), ..CHUNK };
    assert_eq!(error(&|c| c.ram = &[CHUNK, ALIAS]), Some(ConfigError::Ram(RamError::Overlap(ALIAS))));
}

/// Which of these need the shadow at TLB maintenance.
fn watched<const N: usize>(guest: &Guest, all: [u32; N]) -> [bool; N] {
    all.map(|va| guest.shadow.is_watched(GuestVa(va)))
}

#[test]
fn below_the_kernel_megabytes_are_watched_where_anything_is_but_small_pages_of_a_process() {
    let mut guest = Guest::new();
    let all = [USER, 1 << 20, (REGION as u32) << 20];
    assert_eq!(watched(&guest, all), [false, false, true]);
    guest.touch(View::User, USER, AccessKind::Write);
    guest.touch(View::Kernel, USER, AccessKind::Write);
    assert_eq!(watched(&guest, all), [false, false, true]);
    // A section of one process, a global page, and pages that code was translated from.
    guest.memory.write(PROCESS[0] + 4, (RAM + (5 << 20)) | PRIVATE_SECTION);
    guest.touch(View::User, 1 << 20, AccessKind::Read);
    assert_eq!(watched(&guest, all), [false, true, true]);
    guest.memory.write(USER_PAGES[0] + 0x20 * 4, (RAM + (8 << 20)) | PAGE);
    guest.touch(View::Kernel, 0x2_0000, AccessKind::Write);
    assert_eq!(watched(&guest, all), [true, true, true]);
    guest.shadow.watch(GuestVa(0x7654_3210), PageSize::Section1M);
    guest.shadow.watch(GuestVa(0x7123_4567), PageSize::Small4K);
    for mb in 0x710..=0x770 {
        assert_eq!(watched(&guest, [mb << 20]), [(0x760..0x770).contains(&mb) || mb == 0x712], "{mb:#x}");
    }
    // It stays so, whatever is removed.
    guest.shadow.invalidate_all(&mut guest.tables, &mut guest.tlb);
    assert_eq!(watched(&guest, all), [true, true, true]);
}

/// The fast path may hang up a table where the active space had nothing: maintenance finds what is in it.
#[test]
fn a_table_made_on_the_short_way_is_maintained() {
    const FAR: u32 = 0x2000_0000;
    const MORE_PAGES: u32 = KERNEL_PAGES + 0x400;
    let mut guest = Guest::with(&config(&[0]));
    guest.memory.write(PROCESS[0] + (FAR >> 20) * 4, MORE_PAGES | 1 << 5 | 0b01);
    guest.memory.write(MORE_PAGES, (RAM + (6 << 20)) | PRIVATE_PAGE);
    guest.memory.write(KERNEL_PAGES, (RAM + (8 << 20)) | PRIVATE_PAGE);
    let fast = |guest: &mut Guest, view, va| {
        let base = (guest.regime.ttbr0, guest.regime.dacr);
        let (tables, tlb) = (&mut guest.tables, &mut guest.tlb);
        guest.shadow.fast_fill(&guest.memory, base, view, GuestVa(va), AccessKind::Read, tables, tlb)
    };
    assert_eq!(fast(&mut guest, View::User, FAR), FastFill::Other, "the first private page of the space");
    guest.touch(View::User, USER, AccessKind::Read);

    assert_eq!(fast(&mut guest, View::User, FAR), FastFill::Mapped);
    assert!(!guest.touch(View::User, FAR, AccessKind::Read).1);
    guest.shadow.invalidate_page(GuestVa(FAR), Some(1), &mut guest.tables, &mut guest.tlb);
    assert!(guest.touch(View::User, FAR, AccessKind::Read).1);

    assert_eq!(watched(&guest, [VMALLOC]), [false]);
    assert_eq!(fast(&mut guest, View::Kernel, VMALLOC), FastFill::Mapped);
    assert_eq!(watched(&guest, [VMALLOC]), [true]);
}

#[test]
fn of_the_kernel_pages_are_watched_until_nothing_is_there() {
    let mut guest = Guest::new();
    let invalidate =
        |guest: &mut Guest, va| guest.shadow.invalidate_page(GuestVa(va), None, &mut guest.tables, &mut guest.tlb);
    // Too far from each other for a fill around one of them to map another.
    let pages = [VMALLOC, VMALLOC + 0x4_0000, VMALLOC + 0x8_0000];
    assert_eq!(watched(&guest, pages), [false; 3]);
    guest.touch(View::Kernel, VMALLOC, AccessKind::Write);
    guest.touch(View::Kernel, VMALLOC + 0x4_0000, AccessKind::Write);
    assert_eq!(watched(&guest, pages), [true, true, false]);
    // In another process's tables, too.
    guest.switch(PROCESS[1], 2);
    guest.touch(View::Kernel, VMALLOC, AccessKind::Write);
    invalidate(&mut guest, VMALLOC);
    assert_eq!(watched(&guest, pages), [false, true, false]);

    // A section goes as a whole, and if it is in no other space, nothing is there.
    let lowmem = [LOWMEM, LOWMEM + 0x1000, LOWMEM + 0xf_f000, LOWMEM + (1 << 20)];
    guest.touch(View::Kernel, LOWMEM, AccessKind::Read);
    assert_eq!(watched(&guest, lowmem), [true, true, true, false]);
    invalidate(&mut guest, LOWMEM + 0x1000);
    assert_eq!(watched(&guest, lowmem), [false; 4]);

    // Others are told once.
    guest.shadow.watch(GuestVa(VMALLOC + 0x8_0000), PageSize::Small4K);
    invalidate(&mut guest, VMALLOC + 0x4_0000);
    assert_eq!(watched(&guest, pages), [false, false, true]);
    invalidate(&mut guest, VMALLOC + 0x8_0000);
    assert_eq!(watched(&guest, pages), [false; 3]);

    // What only one process has is not told apart, nor code in something large.
    guest.memory.write(KERNEL_PAGES + 0x40 * 4, (RAM + (8 << 20)) | PRIVATE_PAGE);
    guest.touch(View::Kernel, VMALLOC + 0x4_0000, AccessKind::Write);
    guest.shadow.watch(GuestVa(LOWMEM), PageSize::Section1M);
    guest.shadow.invalidate_all(&mut guest.tables, &mut guest.tlb);
    assert_eq!((watched(&guest, pages), watched(&guest, lowmem)), ([true; 3], [true; 4]));
}

#[test]
fn pages_in_a_row_go_as_one_by_one() {
    let mut guest = Guest::with(&config(&[0]));
    // Of the kernel's and of the process's the first, the last, and the one behind.
    const COUNT: u32 = 5;
    for (view, base) in [(View::Kernel, VMALLOC), (View::User, USER)] {
        for page in [0, COUNT - 1, COUNT] {
            guest.touch(view, base + (page << 12), AccessKind::Read);
        }
        guest.shadow.invalidate_pages(GuestVa(base), COUNT, Some(1), &mut guest.tables, &mut guest.tlb);
        if view == View::Kernel {
            let pages = [0, COUNT - 1, COUNT].map(|page| base + (page << 12));
            assert_eq!(watched(&guest, pages), [false, false, true]);
        }
        let gone = [0, COUNT - 1, COUNT].map(|page| guest.touch(view, base + (page << 12), AccessKind::Read).1);
        assert_eq!(gone, [true, true, false], "{view:?}");
    }
    assert_eq!(guest.shadow.stats().invalidate_page, u64::from(2 * COUNT));
}

#[test]
fn pages_of_a_space_with_another_kernel_are_watched_one_by_one() {
    let mut guest = Guest::new();
    let pages = [VMALLOC, VMALLOC + 0x8_0000];
    // What all have in common is of this kernel.
    guest.touch(View::Kernel, LOWMEM, AccessKind::Read);
    // SCTLR.AFE
    guest.regime.sctlr |= 1 << 29;
    guest.switch(PROCESS[1], 2);
    for va in pages {
        guest.touch(View::Kernel, va, AccessKind::Write);
    }
    guest.shadow.invalidate_page(GuestVa(VMALLOC), None, &mut guest.tables, &mut guest.tlb);
    assert_eq!(watched(&guest, pages), [false, true]);
    assert!(!guest.touch(View::Kernel, pages[1], AccessKind::Write).1);
}

#[test]
fn an_asid_that_another_space_has_entries_under_is_not_the_only_one() {
    let mut guest = Guest::new();
    assert_eq!(guest.shadow.sole_asid(), Some(1));
    guest.touch(View::User, USER, AccessKind::Write);
    assert_eq!(guest.shadow.sole_asid(), Some(1));
    // The other process under the same ASID.
    guest.switch(PROCESS[1], 1);
    assert_eq!(guest.shadow.sole_asid(), None);
    guest.shadow.invalidate_asid(1, &mut guest.tables, &mut guest.tlb);
    assert_eq!(guest.shadow.sole_asid(), Some(1));
    guest.switch(PROCESS[1], 2);
    assert_eq!(guest.shadow.sole_asid(), Some(2));
    // The flat map has none.
    guest.regime.sctlr = 0;
    guest.shadow.activate(&guest.regime, &mut guest.tables, &mut guest.tlb).unwrap();
    assert_eq!(guest.shadow.sole_asid(), None);
}

/// Flash: read and executed in place, never written, and out of reach while it is given commands.
#[test]
fn a_rom_is_mapped_while_it_is_open_and_never_writable() {
    const ROM: u32 = 0x0400_0000;
    const ROM_HOST: u32 = 0x7000_1000;
    let mut guest = Guest::new();
    let add =
        |guest: &mut Guest, at: u32, host: u32, bytes: u32| guest.shadow.add_rom(GuestPa(at), HostPa(host), bytes);
    assert!(!add(&mut guest, RAM + (4 << 20), ROM_HOST, 0x1000), "RAM is there");
    assert!(!add(&mut guest, RAM - 0x1000, ROM_HOST, 0x2000), "RAM begins in it");
    assert!(!add(&mut guest, ROM, ROM_HOST, 0x1004));
    assert!(!add(&mut guest, ROM, ROM_HOST, 0));
    assert!(!add(&mut guest, 0xffff_f000, ROM_HOST, 0x2000), "beyond the end");
    assert!(add(&mut guest, ROM, ROM_HOST, 0x2000));
    assert!(!add(&mut guest, ROM + 0x1000, ROM_HOST + 0x4000, 0x1000), "a ROM is there");
    let va = 0x0140_0000;
    guest.memory.write(PROCESS[0] + (va >> 20) * 4, ROM | PRIVATE_SECTION);
    let device = |offset: u32| Fill::Device(GuestPa(ROM + offset));
    let open = |guest: &mut Guest, open| {
        guest.shadow.set_rom_open(GuestPa(ROM), open, &mut guest.tables, &mut guest.tlb);
        guest.shadow.settle(&mut guest.tables, &mut guest.tlb);
    };
    for _ in 0..2 {
        assert_eq!(guest.fill(View::Kernel, va, AccessKind::Read), device(0));
        open(&mut guest, true);
        for view in [View::Kernel, View::User] {
            assert_eq!(guest.touch(view, va + 0x1004, AccessKind::Read), (ROM_HOST + 0x1000, true));
            assert_eq!(guest.touch(view, va + 0x1004, AccessKind::Read), (ROM_HOST + 0x1000, false));
            assert_eq!(guest.fill(view, va + 0x1004, AccessKind::Write), device(0x1004));
        }
        assert_eq!(guest.fill(View::Kernel, va + 0x2000, AccessKind::Read), device(0x2000), "behind its end");
        assert_eq!(guest.touch(View::User, va, AccessKind::Fetch), (ROM_HOST, true));
        open(&mut guest, false);
        let root = guest.shadow.root(View::Kernel);
        assert!(guest.tlb.get(&guest.tables, root, va + 0x1004).is_none(), "it is closed");
    }
}

/// Where the guest has a page of text, and the page of the hypervisor's that stands for it.
const TEXT: u32 = LOWMEM + 0x20_3000;
const TWIN: HostPa = HostPa(0x7000_5000);
/// And what stands for the 64 KiB around it.
const TWINS: HostPa = HostPa(0x7001_0000);

impl Guest {
    fn fill_code(&mut self, va: u32) -> Fill {
        let (tables, tlb) = (&mut self.tables, &mut self.tlb);
        self.shadow.fill_code(&self.memory, &self.regime, GuestVa(va), TWIN, false, tables, tlb)
    }

    /// Maps what stands for 64 KiB.
    fn fill_whole(&mut self, va: u32) -> Fill {
        let (tables, tlb) = (&mut self.tables, &mut self.tlb);
        let code = TWINS.wrapping_add(va & 0xf000);
        self.shadow.fill_code(&self.memory, &self.regime, GuestVa(va), code, true, tables, tlb)
    }

    /// The host page at `va` of the kernel view, if there is an entry, and whether it can be executed.
    fn kernel_page(&mut self, va: u32) -> Option<(u32, bool)> {
        let root = self.shadow.root(View::Kernel);
        self.tlb.get(&self.tables, root, va).map(|entry| (entry.page << 12, !entry.xn))
    }
}

#[test]
fn code_that_stands_for_a_page_is_executable_in_all_spaces_and_forgotten_in_all() {
    let mut guest = Guest::new();
    let page = HostPa(HOST + 0x20_3000);
    guest.shadow.protect_code_page(GuestPa(RAM + 0x20_3000), &mut guest.tables, &mut guest.tlb);
    // What is mapped for data gives way.
    assert_eq!(guest.touch(View::Kernel, TEXT, AccessKind::Read), (page.0, true));
    assert_eq!(guest.kernel_page(TEXT), Some((page.0, false)));
    assert_eq!(guest.fill_code(TEXT), Fill::Mapped);
    assert_eq!(guest.kernel_page(TEXT), Some((TWIN.0, true)));
    guest.switch_process(1);
    assert_eq!(guest.kernel_page(TEXT), Some((TWIN.0, true)));
    // It is nothing that user code could see, nor writable.
    assert_eq!(guest.fill(View::Kernel, TEXT, AccessKind::Write), Fill::CodePageWrite(GuestPa(RAM + 0x20_3000)));
    assert_eq!(guest.touch(View::User, TEXT, AccessKind::Read).0, page.0);
    // Its neighbours are what they were.
    assert_eq!(guest.touch(View::Kernel, TEXT + 0x1000, AccessKind::Read).0, page.0 + 0x1000);
    guest.shadow.forget_code(GuestVa(TEXT + 0x1000), &mut guest.tables, &mut guest.tlb);
    assert_eq!(guest.kernel_page(TEXT + 0x1000), Some((page.0 + 0x1000, false)));
    guest.shadow.forget_code(GuestVa(TEXT), &mut guest.tables, &mut guest.tlb);
    assert_eq!(guest.kernel_page(TEXT), None);
    guest.switch_process(0);
    assert_eq!(guest.kernel_page(TEXT), None);
    assert_eq!(guest.touch(View::Kernel, TEXT, AccessKind::Read), (page.0, true));
}

#[test]
fn around_a_page_of_text_that_is_read_others_are_mapped_and_no_more_than_the_guest_may() {
    let mut guest = Guest::new();
    let (text, data) = (LOWMEM + (3 << 20), LOWMEM + (5 << 20));
    const READ_ONLY: u32 = 0b10 | 1 << 15 | 0b01 << 10 | 1 << 5;
    for root in [KERNEL, PROCESS[0], PROCESS[1]] {
        guest.memory.write(root + (text >> 20) * 4, (RAM + (3 << 20)) | READ_ONLY);
    }
    let page = |mb: u32, page: u32| GuestPa(RAM + (mb << 20) + (page << 12));
    for mb in [3, 5] {
        assert!(guest.shadow.protect_code_page(page(mb, 5), &mut guest.tables, &mut guest.tlb));
    }
    guest.shadow.set_absent(page(3, 7), true);
    assert_eq!(guest.fill_code(text + 0x9000), Fill::Mapped);
    let fills = guest.shadow.stats().page_fills;
    assert!(guest.touch(View::Kernel, text + 0x2abc, AccessKind::Read).1);
    for process in [0, 1] {
        guest.switch_process(process);
        guest.touch(View::Kernel, text + 0x2abc, AccessKind::Read);
        for at in 0..17 {
            let host = HOST + (3 << 20) + (at << 12);
            let should = match at {
                7 | 16 => None,
                9 => Some((TWIN.0, true)),
                _ => Some((host, false)),
            };
            assert_eq!(guest.kernel_page(text + (at << 12)), should, "process {process}, page {at}");
            let root = guest.shadow.root(View::Kernel);
            let entry = guest.tlb.get(&guest.tables, root, text + (at << 12));
            assert!(!entry.is_some_and(|entry| entry.writable), "process {process}, page {at}");
        }
        assert!(matches!(guest.fill(View::Kernel, text + 0x3000, AccessKind::Write), Fill::GuestFault(_)));
    }
    assert_eq!(guest.shadow.stats().page_fills, fills + 14);
    // Where it may write, they come when it does, and are known as written then.
    guest.touch(View::Kernel, data + 0x2000, AccessKind::Read);
    guest.touch(View::Kernel, data + 0x5000, AccessKind::Read);
    assert_eq!([1, 3, 4, 6].map(|at| guest.kernel_page(data + (at << 12))), [None; 4]);
}

#[test]
fn what_one_space_alone_reads_is_mapped_for_no_other() {
    let mut guest = Guest::new();
    const READ_ONLY: u32 = 0b10 | 1 << 15 | 0b01 << 10 | 1 << 5;
    let text = LOWMEM + (3 << 20);
    guest.memory.write(PROCESS[0] + (text >> 20) * 4, (RAM + (3 << 20)) | READ_ONLY);
    guest.memory.write(PROCESS[1] + (text >> 20) * 4, (RAM + (5 << 20)) | READ_ONLY | 1 << 17);
    for mb in [3, 5] {
        guest.shadow.protect_code_page(GuestPa(RAM + (mb << 20)), &mut guest.tables, &mut guest.tlb);
    }
    guest.touch(View::Kernel, text, AccessKind::Read);
    guest.switch(PROCESS[1], 2);
    assert_eq!(guest.touch(View::Kernel, text + 0x1_1000, AccessKind::Read).0, HOST + (5 << 20) + 0x1_1000);
    guest.switch(PROCESS[0], 1);
    assert_eq!(guest.kernel_page(text + 0x1000), Some((HOST + (3 << 20) + 0x1000, false)));
    assert_eq!([0, 1, 2].map(|at| guest.kernel_page(text + 0x1_0000 + (at << 12))), [None; 3]);
}

#[test]
fn code_goes_with_the_guests_maintenance_and_faults_as_its_tables_say() {
    let mut guest = Guest::new();
    guest.shadow.protect_code_page(GuestPa(RAM + 0x20_3000), &mut guest.tables, &mut guest.tlb);
    assert_eq!(guest.fill_code(TEXT), Fill::Mapped);
    guest.shadow.invalidate_page(GuestVa(TEXT), Some(1), &mut guest.tables, &mut guest.tlb);
    assert_eq!(guest.kernel_page(TEXT), None);
    assert!(matches!(guest.fill_code(0x8000_0000), Fill::GuestFault(_)));
}

#[test]
fn code_that_stands_for_a_region_is_one_large_page_and_goes_as_one() {
    let mut guest = Guest::new();
    (0..16).for_each(|n| {
        let page = GuestPa(RAM + 0x20_0000 + n * 4096);
        guest.shadow.protect_code_page(page, &mut guest.tables, &mut guest.tlb);
    });
    let neighbour = TEXT + 0x4000;
    let entries = |guest: &Guest| {
        let root = guest.shadow.root(View::Kernel);
        let first = guest.tables.read(&spica_mmu::Table { pa: root.ttbr0, bytes: 16384 }, (TEXT >> 20) as usize);
        let second = spica_mmu::Table { pa: HostPa(first & 0xffff_fc00), bytes: 1024 };
        let first = (TEXT >> 12 & 0xf0) as usize;
        [0, 1, 14, 15, 16].map(|at| guest.tables.read(&second, first + at) & 0xffff_0003)
    };
    // What is mapped for data gives way, wherever in it that is.
    let data = HOST + 0x20_7000;
    assert_eq!(guest.touch(View::Kernel, neighbour, AccessKind::Read), (data, true));
    assert_eq!(guest.fill_whole(TEXT), Fill::Mapped);
    assert_eq!(entries(&guest), [0x7001_0001, 0x7001_0001, 0x7001_0001, 0x7001_0001, 0]);
    assert_eq!(guest.kernel_page(TEXT), Some((TWINS.0 + 0x3000, true)));
    assert_eq!(guest.kernel_page(neighbour), Some((TWINS.0 + 0x7000, true)));
    guest.switch_process(1);
    assert_eq!(guest.kernel_page(neighbour), Some((TWINS.0 + 0x7000, true)));
    assert_eq!(guest.fill(View::Kernel, neighbour, AccessKind::Write), Fill::CodePageWrite(GuestPa(RAM + 0x20_7000)));
    assert_eq!(guest.touch(View::User, TEXT, AccessKind::Read).0, HOST + 0x20_3000);
    // One that is mapped by itself: none of the others is, until it is asked for.
    assert_eq!(guest.fill_code(TEXT), Fill::Mapped);
    assert_eq!((guest.kernel_page(TEXT), guest.kernel_page(neighbour)), (Some((TWIN.0, true)), None));
    assert_eq!(guest.fill_whole(neighbour), Fill::Mapped);
    assert_eq!(guest.kernel_page(TEXT), Some((TWINS.0 + 0x3000, true)));
    guest.shadow.forget_code(GuestVa(neighbour), &mut guest.tables, &mut guest.tlb);
    assert_eq!(entries(&guest), [0; 5]);
    assert_eq!((guest.kernel_page(TEXT), guest.kernel_page(neighbour)), (None, None));
    guest.switch_process(0);
    assert_eq!(guest.kernel_page(TEXT), None);
    assert_eq!(guest.fill_whole(TEXT), Fill::Mapped);
    guest.shadow.invalidate_page(GuestVa(neighbour), Some(1), &mut guest.tables, &mut guest.tlb);
    assert_eq!((guest.kernel_page(TEXT), guest.kernel_page(neighbour)), (None, None));
}

#[test]
fn a_region_for_code_is_in_the_kernel_view_alone() {
    const CODE: usize = 0xcfa;
    let mut guest = Guest::with(&config(&[0]));
    let at = (CODE as u32) << 20;
    for table in [PROCESS[0], PROCESS[1]] {
        guest.memory.write(table + CODE as u32 * 4, RAM | SECTION);
    }
    // What the guest has there, in tables of its own and in those of all spaces, is gone when the code comes.
    for process in [0, 1] {
        guest.switch_process(process);
        assert_eq!(guest.fill(View::Kernel, at, AccessKind::Read), Fill::Mapped);
    }
    for (wrong, code) in [(&[][..], CODE), (&[0, 0], CODE), (&[0], REGION)] {
        let moved = guest.shadow.move_code(wrong, Some((code, &[0x1234_5c01])), &mut guest.tables, &mut guest.tlb);
        assert_eq!(moved, Err(ConfigError::Region));
    }
    assert!(!guest.shadow.in_region(GuestVa(at)));
    let code: Option<(usize, &[u32])> = Some((CODE, &[0x1234_5c01]));
    assert_eq!(guest.shadow.move_code(&[0], code, &mut guest.tables, &mut guest.tlb), Ok(()));
    for process in [0, 1] {
        guest.switch_process(process);
        let [kernel, user] = [View::Kernel, View::User].map(|view| {
            let root = guest.shadow.root(view);
            let table = spica_mmu::Table { pa: root.ttbr0, bytes: spica_mmu::FIRST_LEVEL_BYTES };
            guest.tables.read(&table, CODE)
        });
        assert_eq!((kernel, user), (0x1234_5c01, 0));
        assert_eq!(guest.fill(View::Kernel, at, AccessKind::Read), Fill::Region(GuestPa(RAM)));
        assert_eq!(guest.fill(View::User, at, AccessKind::Read), Fill::Region(GuestPa(RAM)));
        assert!(matches!(guest.fill_code(at), Fill::KernelFetch(_)));
        assert!(guest.shadow.in_region(GuestVa(at)) && !guest.shadow.in_region(GuestVa(at - 1)));
    }

    // What was there goes to the other one, and the guest has its addresses for itself.
    assert_eq!(guest.shadow.move_code(&[0x1234_5c01], None, &mut guest.tables, &mut guest.tlb), Ok(()));
    guest.memory.write(KERNEL + CODE as u32 * 4, RAM | SECTION);
    for process in [1, 0] {
        guest.switch_process(process);
        let entries = |guest: &Guest, view| {
            let table = spica_mmu::Table { pa: guest.shadow.root(view).ttbr0, bytes: spica_mmu::FIRST_LEVEL_BYTES };
            [CODE, REGION].map(|mb| guest.tables.read(&table, mb))
        };
        assert_eq!(entries(&guest, View::Kernel)[1], 0x1234_5c01);
        assert_eq!(entries(&guest, View::User), [0, 0]);
        assert_eq!(guest.touch(View::Kernel, at, AccessKind::Read).0, HOST);
        let fill = guest.fill(View::Kernel, (REGION as u32) << 20, AccessKind::Read);
        assert!(matches!(fill, Fill::GuestFault(_)));
        assert!(!guest.shadow.in_region(GuestVa(at)) && guest.shadow.in_region(GuestVa((REGION as u32) << 20)));
    }
}

impl Guest {
    fn fill_trapped(&mut self, va: u32) -> Fill {
        let (tables, tlb) = (&mut self.tables, &mut self.tlb);
        self.shadow.fill_trapped(&self.memory, &self.regime, GuestVa(va), TWIN, tables, tlb)
    }

    fn forget_user_page(&mut self, va: u32) {
        self.shadow.forget_user_page(GuestVa(va), &mut self.tables, &mut self.tlb);
    }

    /// The host page at `va` of the user view, if there is an entry, and whether it can be executed, and written.
    fn user_page(&mut self, va: u32) -> Option<(u32, bool, bool)> {
        let root = self.shadow.root(View::User);
        self.tlb.get(&self.tables, root, va).map(|entry| (entry.page << 12, !entry.xn, entry.writable))
    }
}

#[test]
fn user_code_of_a_trapped_page_is_fetched_from_a_copy_by_whoever_has_asked_for_it() {
    let mut guest = Guest::new();
    let (pa, host) = (RAM + 0x30_0000, HOST + 0x30_0000);
    for pages in USER_PAGES {
        guest.memory.write(pages + 0x10 * 4, pa | PRIVATE_PAGE);
        guest.memory.write(pages + 0x11 * 4, (pa + 0x1000) | PRIVATE_PAGE);
    }
    for process in [1, 0] {
        guest.switch_process(process);
        assert_eq!(guest.touch(View::User, USER, AccessKind::Fetch).0, host);
        assert_eq!(guest.user_page(USER), Some((host, true, true)));
    }
    guest.shadow.set_trapped([GuestVa(USER + 0x123), GuestVa(USER)].into_iter());
    guest.forget_user_page(USER + 0x123);
    for process in [1, 0] {
        guest.switch_process(process);
        assert_eq!(guest.user_page(USER), None);
        assert_eq!(guest.fill(View::User, USER + 4, AccessKind::Fetch), Fill::Trapped(GuestPa(pa + 4)));
        // Its data are what they were; only nothing is executed there.
        assert_eq!(guest.touch(View::User, USER, AccessKind::Read).0, host);
        assert_eq!(guest.user_page(USER), Some((host, false, true)));
        assert_eq!(guest.fill(View::User, USER, AccessKind::Fetch), Fill::Trapped(GuestPa(pa)));
        assert_eq!(guest.touch(View::User, USER + 0x1000, AccessKind::Fetch).0, host + 0x1000);
    }
    guest.shadow.protect_code_page(GuestPa(pa), &mut guest.tables, &mut guest.tlb);
    assert_eq!(guest.fill_trapped(USER), Fill::Mapped);
    assert_eq!(guest.user_page(USER), Some((TWIN.0, true, false)));
    assert_eq!(guest.fill(View::User, USER, AccessKind::Write), Fill::CodePageWrite(GuestPa(pa)));
    assert_eq!(guest.touch(View::Kernel, USER, AccessKind::Read).0, host);
    guest.switch_process(1);
    assert_ne!(guest.user_page(USER).map(|page| page.0), Some(TWIN.0));
    assert_eq!(guest.fill_trapped(USER), Fill::Mapped);
    // The guest's own maintenance forgets it as any entry.
    guest.shadow.invalidate_page(GuestVa(USER), Some(2), &mut guest.tables, &mut guest.tlb);
    assert_eq!(guest.user_page(USER), None);
    guest.switch_process(0);
    assert_eq!(guest.user_page(USER), Some((TWIN.0, true, false)));
    guest.forget_user_page(USER);
    assert_eq!(guest.user_page(USER), None);
    guest.shadow.set_trapped([].into_iter());
    guest.shadow.unprotect_code_page(GuestPa(pa));
    assert_eq!(guest.touch(View::User, USER, AccessKind::Fetch).0, host);
    assert_eq!(guest.user_page(USER), Some((host, true, true)));
}

#[test]
fn a_megabyte_with_a_trapped_page_is_no_section_for_user_code() {
    let mut guest = Guest::new();
    let va = 0x0020_0000;
    guest.memory.write(PROCESS[0] + (va >> 20) * 4, (RAM + 0x40_0000) | PRIVATE_SECTION);
    assert!(guest.touch(View::User, va + 0x3000, AccessKind::Fetch).1);
    guest.shadow.set_trapped([GuestVa(va + 0x5000)].into_iter());
    guest.forget_user_page(va + 0x5000);
    let sections = guest.shadow.stats().section_fills;
    assert!(guest.touch(View::User, va + 0x3000, AccessKind::Write).1);
    assert_eq!(guest.user_page(va + 0x3000), Some((HOST + 0x40_3000, true, true)));
    assert_eq!(guest.fill(View::User, va + 0x5000, AccessKind::Fetch), Fill::Trapped(GuestPa(RAM + 0x40_5000)));
    assert!(guest.touch(View::User, va + 0x5000, AccessKind::Write).1);
    assert_eq!(guest.user_page(va + 0x5000), Some((HOST + 0x40_5000, false, true)));
    assert_eq!(guest.shadow.stats().section_fills, sections);
    // The kernel has it as before.
    assert!(guest.touch(View::Kernel, va, AccessKind::Read).1);
    assert_eq!(guest.shadow.stats().section_fills, sections + 1);
}

#[test]
fn a_trapped_page_is_not_mapped_with_those_around_it() {
    let mut guest = Guest::new();
    // All may read and nobody write it, in all spaces.
    let va = LOWMEM + (3 << 20);
    for root in [KERNEL, PROCESS[0], PROCESS[1]] {
        guest.memory.write(root + (va >> 20) * 4, (RAM + (3 << 20)) | 0b10 | 1 << 15 | 0b11 << 10 | 1 << 5);
    }
    guest.shadow.set_trapped([GuestVa(va + 0x5000)].into_iter());
    assert!(guest.touch(View::User, va + 0x3000, AccessKind::Fetch).1);
    assert_eq!(guest.user_page(va + 0x3000), Some((HOST + 0x30_3000, true, false)));
    assert_eq!(guest.user_page(va + 0x5000), None);
    assert_eq!(guest.fill(View::User, va + 0x5000, AccessKind::Fetch), Fill::Trapped(GuestPa(RAM + 0x30_5000)));
}
