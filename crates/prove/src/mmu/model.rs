//! A slow and obvious model of the ARMv7-A short-descriptor walk, written from ARM ARM section B3.5 (and B3.7 for the
//! checks) on its own: it shares no line with the crate, works on strings of bits as the manual's figures do, and takes
//! no short cut. What it and the crate disagree about is a bug in one of them.

use spica_mmu::{AccessKind, FaultKind, PageSize, Regime};
use std::collections::HashMap;

/// Guest memory: words that were never written read as zero inside RAM, and there is nothing outside.
#[derive(Default)]
pub struct Memory {
    /// Those pages that were written to, by number.
    pub pages: HashMap<u32, Vec<u32>>,
    pub ram: Vec<(u32, u32)>,
    /// Runs of words cannot be had at once.
    pub by_word_only: bool,
}

const PAGE_WORDS: usize = 1024;
static EMPTY_PAGE: [u32; PAGE_WORDS] = [0; PAGE_WORDS];

impl Memory {
    pub fn is_ram(&self, pa: u32) -> bool {
        self.ram.iter().any(|&(start, bytes)| pa.wrapping_sub(start) < bytes)
    }

    pub fn read(&self, pa: u32) -> Option<u32> {
        assert_eq!(pa % 4, 0, "misaligned descriptor");
        self.is_ram(pa).then(|| self.pages.get(&(pa >> 12)).map_or(0, |page| page[(pa as usize >> 2) % PAGE_WORDS]))
    }

    pub fn write(&mut self, pa: u32, value: u32) {
        assert!(self.is_ram(pa));
        let page = self.pages.entry(pa >> 12).or_insert_with(|| vec![0; PAGE_WORDS]);
        page[(pa as usize >> 2) % PAGE_WORDS] = value;
    }
}

impl spica_mmu::GuestMemory for Memory {
    fn read_word(&self, pa: spica_addr::GuestPa) -> Option<u32> {
        self.read(pa.0)
    }

    fn words(&self, pa: spica_addr::GuestPa, count: usize) -> Option<&[u32]> {
        let first = (pa.0 as usize >> 2) % PAGE_WORDS;
        if self.by_word_only || !self.is_ram(pa.0) {
            return None;
        }
        self.pages.get(&(pa.0 >> 12)).map_or(&EMPTY_PAGE[..], |page| &page[..]).get(first..first + count)
    }
}

/// Bits `high` down to `low` of `word`, as the manual writes `word<high:low>`.
pub fn bits(word: u32, high: u32, low: u32) -> u32 {
    let mut value = 0;
    for bit in (low..=high).rev() {
        value = value * 2 + (word / 2u32.pow(bit)) % 2;
    }
    value
}

fn bit(word: u32, at: u32) -> bool {
    bits(word, at, at) == 1
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelFault {
    pub kind: FaultKind,
    /// Where the manual says that the fault has a valid domain.
    pub domain: Option<u32>,
    pub level: u32,
}

/// A decoded entry, fields as in the manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub pa: u32,
    pub size: PageSize,
    pub domain: u32,
    pub ap: u32,
    pub xn: bool,
    pub pxn: bool,
    pub ng: bool,
    pub texcb: u32,
    pub level: u32,
    pub flat: bool,
}

/// TranslationTableWalkSD of the manual, up to and including the descriptors.
pub fn walk(memory: &Memory, r: &Regime, va: u32) -> Result<Entry, ModelFault> {
    let big_endian = bit(r.sctlr, 25);
    let read =
        |address: u32| memory.read(address).map(|w| if big_endian { u32::from_be_bytes(w.to_le_bytes()) } else { w });
    if !bit(r.sctlr, 0) {
        return Ok(Entry {
            pa: va,
            size: PageSize::Section1M,
            domain: 0,
            ap: 3,
            xn: false,
            pxn: false,
            ng: false,
            texcb: 0,
            level: 1,
            flat: true,
        });
    }
    let level1 = |kind| ModelFault { kind, domain: None, level: 1 };

    let n = bits(r.ttbcr, 2, 0);
    let top_is_zero = n == 0 || bits(va, 31, 32 - n) == 0;
    let address = if top_is_zero {
        if bit(r.ttbcr, 4) {
            return Err(level1(FaultKind::Translation));
        }
        // TTBR0<31:14-N> : MVA<31-N:20> : 00
        bits(r.ttbr0, 31, 14 - n) * 2u32.pow(14 - n) + bits(va, 31 - n, 20) * 4
    } else {
        if bit(r.ttbcr, 5) {
            return Err(level1(FaultKind::Translation));
        }
        bits(r.ttbr1, 31, 14) * 2u32.pow(14) + bits(va, 31, 20) * 4
    };
    let Some(l1) = read(address) else { return Err(level1(FaultKind::ExternalOnWalk)) };

    let l1_type = bits(l1, 1, 0);
    if l1_type == 0 || (l1_type == 3 && !r.pxn) {
        return Err(level1(FaultKind::Translation));
    }
    if l1_type == 1 {
        let domain = bits(l1, 8, 5);
        let level2 = |kind| ModelFault { kind, domain: Some(domain), level: 2 };
        let address = bits(l1, 31, 10) * 1024 + bits(va, 19, 12) * 4;
        let Some(l2) = read(address) else { return Err(level2(FaultKind::ExternalOnWalk)) };
        let pxn = r.pxn && bit(l1, 2);
        let common = Entry {
            pa: 0,
            size: PageSize::Small4K,
            domain,
            ap: bits(l2, 9, 9) * 4 + bits(l2, 5, 4),
            xn: false,
            pxn,
            ng: bit(l2, 11),
            texcb: 0,
            level: 2,
            flat: false,
        };
        return match bits(l2, 1, 0) {
            0 => Err(level2(FaultKind::Translation)),
            1 => Ok(Entry {
                pa: bits(l2, 31, 16) * 65536 + bits(va, 15, 0),
                size: PageSize::Large64K,
                xn: bit(l2, 15),
                texcb: bits(l2, 14, 12) * 4 + bits(l2, 3, 2),
                ..common
            }),
            _ => Ok(Entry {
                pa: bits(l2, 31, 12) * 4096 + bits(va, 11, 0),
                xn: bit(l2, 0),
                texcb: bits(l2, 8, 6) * 4 + bits(l2, 3, 2),
                ..common
            }),
        };
    }
    let supersection = bit(l1, 18);
    Ok(Entry {
        pa: if supersection {
            bits(l1, 31, 24) * 16 * 1024 * 1024 + bits(va, 23, 0)
        } else {
            bits(l1, 31, 20) * 1024 * 1024 + bits(va, 19, 0)
        },
        size: if supersection { PageSize::Super16M } else { PageSize::Section1M },
        domain: if supersection { 0 } else { bits(l1, 8, 5) },
        ap: bits(l1, 15, 15) * 4 + bits(l1, 11, 10),
        xn: bit(l1, 4),
        pxn: r.pxn && bit(l1, 0),
        ng: bit(l1, 17),
        texcb: bits(l1, 14, 12) * 4 + bits(l1, 3, 2),
        level: 1,
        flat: false,
    })
}

impl Entry {
    /// Table B3-8 and table B3-9: may this side read, may it write?
    pub fn rights(&self, afe: bool, privileged: bool) -> (bool, bool) {
        if afe {
            let user = bit(self.ap, 1);
            let read_only = bit(self.ap, 2);
            let any = privileged || user;
            return (any, any && !read_only);
        }
        let table = [
            // AP: privileged, unprivileged
            ("", ""),
            ("rw", ""),
            ("rw", "r"),
            ("rw", "rw"),
            ("", ""), // reserved
            ("r", ""),
            ("r", "r"),
            ("r", "r"),
        ];
        let (kernel, user) = table[self.ap as usize];
        let text = if privileged { kernel } else { user };
        (text.contains('r'), text.contains('w'))
    }

    pub fn device(&self, r: &Regime) -> bool {
        if self.flat {
            return true;
        }
        if bit(r.sctlr, 28) {
            let n = bits(self.texcb, 2, 0);
            return matches!(bits(r.prrr, 2 * n + 1, 2 * n), 0 | 1);
        }
        let tex = bits(self.texcb, 4, 2);
        let (c, b) = (bit(self.texcb, 1), bit(self.texcb, 0));
        match tex {
            0 => !c,       // strongly-ordered, shareable device
            2 => !c && !b, // non-shareable device
            _ => false,
        }
    }

    /// The checks that come after the walk, under `dacr`.
    pub fn check(&self, afe: bool, dacr: u32, kind: AccessKind, privileged: bool) -> Result<(), ModelFault> {
        if self.flat {
            return Ok(());
        }
        let fault = |kind| Err(ModelFault { kind, domain: Some(self.domain), level: self.level });
        if afe && !bit(self.ap, 0) {
            return fault(FaultKind::AccessFlag);
        }
        match bits(dacr, 2 * self.domain + 1, 2 * self.domain) {
            0 | 2 => return fault(FaultKind::Domain),
            3 => return Ok(()),
            _ => {}
        }
        let (read, write) = self.rights(afe, privileged);
        let ok = match kind {
            AccessKind::Read => read,
            AccessKind::Write => write,
            AccessKind::Fetch => read && !self.xn && !(privileged && self.pxn),
        };
        if ok { Ok(()) } else { fault(FaultKind::Permission) }
    }
}

pub fn translate(
    memory: &Memory,
    r: &Regime,
    va: u32,
    kind: AccessKind,
    privileged: bool,
) -> Result<Entry, ModelFault> {
    let entry = walk(memory, r, va)?;
    entry.check(bit(r.sctlr, 29), r.dacr, kind, privileged)?;
    Ok(entry)
}

/// The DFSR of the manual (B4.1.52), from table B3-23 by its printed values.
pub fn dfsr(fault: &ModelFault, write: bool) -> u32 {
    let status = match (fault.kind, fault.level) {
        (FaultKind::Translation, 1) => 0x5,
        (FaultKind::Translation, _) => 0x7,
        (FaultKind::AccessFlag, 1) => 0x3,
        (FaultKind::AccessFlag, _) => 0x6,
        (FaultKind::Domain, 1) => 0x9,
        (FaultKind::Domain, _) => 0xb,
        (FaultKind::Permission, 1) => 0xd,
        (FaultKind::Permission, _) => 0xf,
        (FaultKind::ExternalOnWalk, 1) => 0xc,
        (FaultKind::ExternalOnWalk, _) => 0xe,
        (kind, _) => unreachable!("{kind:?} does not come from a walk"),
    };
    status + fault.domain.unwrap_or(0) * 16 + u32::from(write) * 2048
}

pub const KINDS: [AccessKind; 3] = [AccessKind::Read, AccessKind::Write, AccessKind::Fetch];
