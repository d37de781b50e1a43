//! A tiny host: table memory, a table walker, and a TLB with the worst manners that the architecture allows.
//!
//! The TLB keeps everything until it is told to forget, splits sections into pages (so that a flush of one address in a
//! section leaves the rest), and is filled by speculation as well as by accesses. The walker insists on what every
//! shadow entry must look like.

use spica_addr::HostPa;
use spica_mmu::{AccessKind, HostTlb, Pool, Root, Table, TableMemory};
use std::collections::HashMap;

/// Where the table pool lies on the simulated host.
pub const POOL_BASE: u32 = 0x8800_0000;

/// Table memory that notices misuse.
pub struct Tables {
    pub pool: Pool,
    words: HashMap<u32, u32>,
    live: HashMap<u32, usize>,
}

impl Tables {
    pub fn new(bytes: usize) -> Self {
        Self { pool: Pool::new(HostPa(POOL_BASE), bytes), words: HashMap::new(), live: HashMap::new() }
    }

    fn address(&self, table: &Table, index: usize) -> u32 {
        assert_eq!(self.live.get(&table.pa.0), Some(&table.bytes), "access to a table that is not allocated");
        assert!(index * 4 < table.bytes);
        table.pa.0 + index as u32 * 4
    }

    /// What the walker reads: any word of a live table.
    fn walk_read(&self, address: u32) -> u32 {
        let inside = |(&start, &bytes): (&u32, &usize)| address.wrapping_sub(start) < bytes as u32;
        assert!(self.live.iter().any(inside), "the walker reads {address:#x}, which is no table");
        self.words.get(&address).copied().unwrap_or(0)
    }
}

impl Tables {
    /// Removes the small page at `va` under `root`, as a trap handler does that knows nothing of who made it: see
    /// `Shadow::is_watched`. `false` where something else is mapped.
    pub fn forget_page(&mut self, root: Root, va: u32, tlb: &mut Tlb) -> bool {
        let l1 = self.walk_read(root.ttbr0.0 | va >> 20 << 2);
        match l1 & 3 {
            0 => true,
            1 => {
                let at = l1 & !0x3ff | (va >> 12 & 0xff) << 2;
                if self.walk_read(at) != 0 {
                    self.words.insert(at, 0);
                    tlb.flush_page(va & !0xfff, root.asid);
                }
                true
            }
            _ => false,
        }
    }
}

impl TableMemory for Tables {
    fn alloc(&mut self, bytes: usize) -> Option<Table> {
        let table = self.pool.alloc(bytes)?;
        assert_eq!(table.pa.0 % bytes as u32, 0);
        self.words.retain(|&at, _| at.wrapping_sub(table.pa.0) >= bytes as u32);
        assert_eq!(self.live.insert(table.pa.0, bytes), None);
        Some(table)
    }

    fn free(&mut self, table: Table) {
        assert_eq!(self.live.remove(&table.pa.0), Some(table.bytes));
        self.pool.free(table);
    }

    fn read(&self, table: &Table, index: usize) -> u32 {
        self.words.get(&self.address(table, index)).copied().unwrap_or(0)
    }

    fn write(&mut self, table: &Table, index: usize, value: u32) {
        self.words.insert(self.address(table, index), value);
    }
}

/// One page as the host's MMU sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostEntry {
    pub page: u32,
    /// It is one of the sixteen of a large page.
    pub large: bool,
    pub domain: u32,
    pub writable: bool,
    pub xn: bool,
}

/// The host's walk under a root: what USR mode may do with the page at `va`. Checks the form of every entry it meets.
pub fn host_walk(tables: &Tables, root: HostPa, va: u32) -> Option<HostEntry> {
    let l1 = tables.walk_read(root.0 | va >> 20 << 2);
    let domain = l1 >> 5 & 0xf;
    match l1 & 3 {
        0 => None,
        1 => {
            let l2 = tables.walk_read(l1 & !0x3ff | (va >> 12 & 0xff) << 2);
            if l2 == 0 {
                return None;
            }
            assert_eq!(l2 >> 11 & 1, 1, "nG");
            assert_eq!((l2 >> 10 & 1, l2 >> 9 & 1), (0, 0), "S, AP[2]");
            assert_eq!(l2 >> 5 & 1, 1, "AP: USR can read");
            let large = l2 & 0b10 == 0;
            let (memory, xn) = if large { (l2 >> 12 & 7, l2 >> 15 & 1) } else { (l2 >> 6 & 7, l2 & 1) };
            assert_eq!((memory, l2 >> 2 & 3), (1, 3), "normal write-back write-allocate");
            let mut page = l2 >> 12;
            if large {
                assert_eq!(l2 >> 6 & 7, 0, "reserved");
                let same = |n: u32| tables.walk_read(l1 & !0x3ff | (va >> 12 & 0xf0 | n) << 2) == l2;
                assert!((0..16).all(same), "a large page has the same entry sixteen times");
                page = l2 >> 16 << 4 | va >> 12 & 0xf;
            }
            Some(HostEntry { page, large, domain, writable: l2 >> 4 & 1 != 0, xn: xn != 0 })
        }
        2 => {
            assert_eq!(l1 >> 17 & 7, 1, "nG, not a supersection, NS = 0");
            assert_eq!((l1 >> 16 & 1, l1 >> 15 & 1), (0, 0), "S, AP[2]");
            assert_eq!((l1 >> 12 & 7, l1 >> 2 & 3), (1, 3), "normal write-back write-allocate");
            assert_eq!(l1 >> 11 & 1, 1, "AP: USR can read");
            let page = l1 >> 20 << 8 | va >> 12 & 0xff;
            Some(HostEntry { page, large: false, domain, writable: l1 >> 10 & 1 != 0, xn: l1 >> 4 & 1 != 0 })
        }
        _ => panic!("reserved first-level type in {l1:#x}"),
    }
}

/// The TLB: (ASID, virtual page) to entry, with the root that it came from.
#[derive(Default)]
pub struct Tlb {
    pub entries: HashMap<(u8, u32), (HostEntry, HostPa)>,
    pub page_flushes: u64,
    pub asid_flushes: u64,
    /// Set to make the TLB forget to forget, in order to prove that the tests would notice.
    pub deaf_to_pages: bool,
    pub deaf_to_asids: bool,
}

impl HostTlb for Tlb {
    fn flush_asid(&mut self, asid: u8) {
        assert_ne!(asid, 0);
        self.asid_flushes += 1;
        if !self.deaf_to_asids {
            self.entries.retain(|&(of, _), _| of != asid);
        }
    }

    fn flush_page(&mut self, va: u32, asid: u8) {
        assert_ne!(asid, 0);
        assert_eq!(va & 0xfff, 0);
        self.page_flushes += 1;
        if !self.deaf_to_pages {
            self.entries.retain(|&(of, page), (entry, _)| {
                let covered = if entry.large { va >> 16 == page >> 4 } else { va >> 12 == page };
                of != asid || !covered
            });
        }
    }
}

impl Tlb {
    /// Looks `va` up as the hardware would: a remembered entry first, then the walk, which is remembered.
    pub fn get(&mut self, tables: &Tables, root: Root, va: u32) -> Option<HostEntry> {
        let key = (root.asid, va >> 12);
        if let Some(&(entry, _)) = self.entries.get(&key) {
            return Some(entry);
        }
        let entry = host_walk(tables, root.ttbr0, va)?;
        self.entries.insert(key, (entry, root.ttbr0));
        if entry.large {
            // All of it is remembered at once.
            for n in 0..16 {
                let page = key.1 & !0xf | n;
                let entry = HostEntry { page: entry.page & !0xf | n, ..entry };
                assert!(
                    self.entries.insert((root.asid, page), (entry, root.ttbr0)).is_none_or(|(old, _)| old == entry),
                    "page {page:#x} under ASID {} is remembered already",
                    root.asid
                );
            }
        }
        Some(entry)
    }

    /// Every remembered entry is still what the tables say. Changing a valid entry without a flush, or freeing a table
    /// under one, breaks this; it is stronger than break-before-make.
    pub fn check(&self, tables: &Tables) {
        for (&(asid, page), &(entry, root)) in &self.entries {
            assert_eq!(
                host_walk(tables, root, page << 12),
                Some(entry),
                "stale TLB entry for page {page:#x} under ASID {asid}"
            );
        }
    }
}

/// Whether USR mode gets through. `Err` tells a permission or domain fault; the caller need not know which.
pub fn allowed(entry: &HostEntry, dacr: u32, kind: AccessKind) -> bool {
    match dacr >> (2 * entry.domain) & 3 {
        0b01 => {}
        0b00 => return false,
        field => panic!("the host's DACR has {field:#b} for domain {}", entry.domain),
    }
    match kind {
        AccessKind::Read => true,
        AccessKind::Write => entry.writable,
        AccessKind::Fetch => !entry.xn,
    }
}
