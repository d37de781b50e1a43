//! The guest's translation-table walk: short descriptors, complete, as ARM ARM B3.5 describes them;
//! `long` has the others.
//!
//! Every hidden fault starts here, so this is warm code; but it is the *reference* for what the guest may do, so it is
//! written to be checked against the manual first. [`lookup`] reads at most two words of guest memory and decodes
//! them; [`translate`] adds the checks in the order in which the manual has them (B3.12.3 and the pseudocode in
//! B3.19.6): external abort on the walk, translation, access flag, domain, permission. Alignment comes before all
//! of them but depends on the size of the access, so whoever decodes the instruction checks it.
//!
//! Both sides of UNPREDICTABLE are pinned: reserved AP and DACR values permit nothing. Physical addresses have 32
//! bits, so the extended base of a supersection is ignored (SBZ on such a CPU).

use super::fault::{Fault, FaultKind};
use super::regime::{Access, AccessKind, DomainAccess, Regime, SCTLR_EE, SCTLR_TRE, TTBCR_PD0, TTBCR_PD1};
use spica_addr::{GuestPa, GuestVa};

/// Guest memory as the table walker reads it.
pub trait GuestMemory {
    /// The word at `pa`, which is a multiple of four, in little-endian order (SCTLR.EE is the walker's business).
    /// `None` where there is no RAM: the walk then ends in an external abort.
    fn read_word(&self, pa: GuestPa) -> Option<u32>;

    /// The `count` words at `pa`, a multiple of four, if they can be had at once.
    fn words(&self, _pa: GuestPa, _count: usize) -> Option<&[u32]> {
        None
    }
}

/// The size of the region that one guest descriptor maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageSize {
    /// Small page, 4 KiB.
    Small4K,
    /// Large page, 64 KiB.
    Large64K,
    /// Section, 1 MiB.
    Section1M,
    /// Supersection, 16 MiB.
    Super16M,
    /// Block of the second level of long descriptors, 2 MiB.
    Block2M,
    /// Block of the first level of long descriptors, 1 GiB.
    Block1G,
}

impl PageSize {
    /// The size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Small4K => 0x1000,
            Self::Large64K => 0x1_0000,
            Self::Section1M => 0x10_0000,
            Self::Super16M => 0x100_0000,
            Self::Block2M => 0x20_0000,
            Self::Block1G => 0x4000_0000,
        }
    }

    /// Whether it covers the megabyte of any address in it: of short descriptors, those of the first level.
    #[must_use]
    pub const fn is_first_level(self) -> bool {
        !matches!(self, Self::Small4K | Self::Large64K)
    }

    /// The level of the long descriptor that maps it.
    const fn long_level(self) -> u8 {
        match self {
            Self::Block1G => 1,
            Self::Block2M => 2,
            _ => 3,
        }
    }
}

/// What one side (user or kernel) may do with a page, after AP and AFE are decoded. Fetching needs at least `ReadOnly`,
/// and no execute-never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// Nothing.
    None,
    /// Loads, and fetches where execute-never allows.
    ReadOnly,
    /// Loads and stores.
    ReadWrite,
}

/// What the guest's tables say about one virtual address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The physical address of the exact virtual address that was looked up.
    pub pa: GuestPa,
    /// The size of the region that the descriptor maps.
    pub size: PageSize,
    /// The entry holds for every ASID (nG = 0).
    pub global: bool,
    /// The domain, 0..=15. Supersections are in domain 0. Also 0 with the MMU off, where domains mean nothing.
    pub domain: u8,
    /// What unprivileged accesses may do, if the domain is client.
    pub user: Permission,
    /// What privileged accesses may do, if the domain is client.
    pub kernel: Permission,
    /// Execute-never.
    pub xn: bool,
    /// Privileged execute-never; always false where the guest's CPU has none.
    pub pxn: bool,
    /// The memory type is strongly-ordered or device.
    pub device: bool,
    /// The access flag; true where SCTLR.AFE is clear.
    pub accessed: bool,
}

impl Mapping {
    /// What `privileged` accesses may do under `regime`'s DACR: the descriptor's permissions in a client domain,
    /// everything in a manager domain, `None` without domain access.
    #[must_use]
    pub fn permission(&self, regime: &Regime, privileged: bool) -> Permission {
        let descriptor = if privileged { self.kernel } else { self.user };
        if !regime.mmu_on() {
            return descriptor;
        }
        match regime.domain_access(self.domain) {
            DomainAccess::None => Permission::None,
            DomainAccess::Client => descriptor,
            DomainAccess::Manager => Permission::ReadWrite,
        }
    }

    /// Whether execute-never stands against a fetch: it does in client domains only.
    #[must_use]
    pub fn never_executes(&self, regime: &Regime, privileged: bool) -> bool {
        let manager = regime.mmu_on() && regime.domain_access(self.domain) == DomainAccess::Manager;
        !manager && (self.xn || (privileged && self.pxn))
    }

    /// The checks that follow a successful walk, in the manual's order: access flag, domain, permission.
    ///
    /// # Errors
    /// The first check that fails, as the guest is to see it.
    pub fn check(&self, regime: &Regime, access: Access) -> Result<(), Fault> {
        if !regime.mmu_on() {
            return Ok(());
        }
        let fault = |kind| {
            Err(match regime.is_long() {
                true => Fault::long(kind, self.size.long_level()),
                false => Fault { kind, domain: self.domain, section_level: self.size.is_first_level() },
            })
        };
        if !self.accessed {
            return fault(FaultKind::AccessFlag);
        }
        if regime.domain_access(self.domain) == DomainAccess::None {
            return fault(FaultKind::Domain);
        }
        let permission = self.permission(regime, access.privileged);
        let permitted = match access.kind {
            AccessKind::Read => permission >= Permission::ReadOnly,
            AccessKind::Write => permission == Permission::ReadWrite,
            AccessKind::Fetch => permission >= Permission::ReadOnly && !self.never_executes(regime, access.privileged),
        };
        if permitted { Ok(()) } else { fault(FaultKind::Permission) }
    }
}

/// The permissions (user, kernel) of a descriptor's AP\[2:0\] (ARM ARM tables B3-8 and B3-9).
pub(crate) const fn decode_ap(ap: u32, access_flag: bool) -> (Permission, Permission) {
    use Permission::{None, ReadOnly, ReadWrite};
    if access_flag {
        // AP[0] is the access flag: only AP[2:1] counts.
        return match ap >> 1 {
            0b00 => (None, ReadWrite),
            0b01 => (ReadWrite, ReadWrite),
            0b10 => (None, ReadOnly),
            _ => (ReadOnly, ReadOnly),
        };
    }
    match ap {
        0b001 => (None, ReadWrite),
        0b010 => (ReadOnly, ReadWrite),
        0b011 => (ReadWrite, ReadWrite),
        0b101 => (None, ReadOnly),
        0b110 | 0b111 => (ReadOnly, ReadOnly),
        // 0b000 is no access; 0b100 is reserved.
        _ => (None, None),
    }
}

/// Whether TEX:C:B (five bits) name strongly-ordered or device memory (ARM ARM tables B3-10 and B3-12).
const fn is_device(regime: &Regime, tex_c_b: u32) -> bool {
    if regime.sctlr & SCTLR_TRE != 0 {
        // TEX[0]:C:B selects a two-bit type in PRRR: 0b00 strongly-ordered, 0b01 device, 0b10 normal.
        return regime.prrr >> ((tex_c_b & 0b111) * 2) & 0b11 < 0b10;
    }
    matches!(tex_c_b, 0b00000 | 0b00001 | 0b01000)
}

/// The fields that all mapping descriptors have in common, wherever the format keeps them.
struct Attributes {
    ap: u32,
    tex_c_b: u32,
    not_global: bool,
    xn: bool,
    pxn: bool,
    domain: u8,
}

impl Attributes {
    fn mapping(self, regime: &Regime, pa: u32, size: PageSize) -> Mapping {
        let (user, kernel) = decode_ap(self.ap, regime.access_flag());
        Mapping {
            pa: GuestPa(pa),
            size,
            global: !self.not_global,
            domain: self.domain,
            user,
            kernel,
            xn: self.xn,
            pxn: self.pxn,
            device: is_device(regime, self.tex_c_b),
            accessed: !regime.access_flag() || self.ap & 1 != 0,
        }
    }
}

const fn field(word: u32, low: u32, bits: u32) -> u32 {
    word >> low & ((1 << bits) - 1)
}

const fn flag(word: u32, bit: u32) -> bool {
    word >> bit & 1 != 0
}

/// Where the first-level descriptor of `va` lies; `None` where TTBCR disables that half (ARM ARM B3.5.4).
pub(crate) const fn first_level_address(r: &Regime, va: u32) -> Option<u32> {
    let n = r.ttbcr & 0b111;
    // With N = 0 everything is TTBR0's; otherwise TTBR0 has the addresses whose N top bits are zero.
    if n == 0 || va >> (32 - n) == 0 {
        if r.ttbcr & TTBCR_PD0 != 0 {
            return None;
        }
        // The table shrinks with N, and so does its alignment: base bits 31:(14-N), index bits (31-N):20.
        let base = r.ttbr0 & !((1 << (14 - n)) - 1);
        return Some(base | va >> 20 << 2);
    }
    if r.ttbcr & TTBCR_PD1 != 0 {
        return None;
    }
    Some(r.ttbr1 & !0x3fff | va >> 20 << 2)
}

fn read_descriptor(mem: &impl GuestMemory, r: &Regime, address: u32) -> Option<u32> {
    let word = mem.read_word(GuestPa(address))?;
    Some(if r.sctlr & SCTLR_EE != 0 { word.swap_bytes() } else { word })
}

/// Walks the guest's tables for `va` and decodes what it finds. Checks neither access flag, nor domain, nor permission.
///
/// With the guest's MMU off the answer is the flat map: everything permitted, and device memory, as data accesses are
/// strongly-ordered then (ARM ARM B3.2.1); fetches are not, and whoever fetches knows.
///
/// # Errors
/// `Translation` where there is no valid descriptor, `ExternalOnWalk` where a descriptor would lie outside RAM.
pub fn lookup(mem: &impl GuestMemory, r: &Regime, va: GuestVa) -> Result<Mapping, Fault> {
    if !r.mmu_on() {
        return Ok(Mapping {
            pa: GuestPa(va.0),
            size: PageSize::Section1M,
            global: true,
            domain: 0,
            user: Permission::ReadWrite,
            kernel: Permission::ReadWrite,
            xn: false,
            pxn: false,
            device: true,
            accessed: true,
        });
    }
    if r.is_long() {
        return super::long::lookup(mem, r, va);
    }
    let va = va.0;
    let first = |kind| Fault { kind, domain: 0, section_level: true };
    let address = first_level_address(r, va).ok_or(first(FaultKind::Translation))?;
    let l1 = read_descriptor(mem, r, address).ok_or(first(FaultKind::ExternalOnWalk))?;
    match l1 & 0b11 {
        0b01 => lookup_page(mem, r, va, l1),
        0b10 => Ok(section(r, va, l1)),
        0b11 if r.pxn => Ok(section(r, va, l1)),
        _ => Err(first(FaultKind::Translation)),
    }
}

/// The first-level descriptor that a walk for `va` reads; `None` where there is none to read, and where the tables have
/// long descriptors. The MMU must be on.
pub fn first_level_descriptor(mem: &impl GuestMemory, r: &Regime, va: GuestVa) -> Option<u32> {
    if r.is_long() {
        return None;
    }
    read_descriptor(mem, r, first_level_address(r, va.0)?)
}

/// The first of `count` megabytes, that of `va` and those behind it, that the guest's tables map, in part at least, to
/// an address for which `counts` holds; as an address with the offset of `va` in its megabyte. Behind the last megabyte
/// of the address space comes the first. The MMU must be on.
///
/// What is mapped is what [`lookup`] finds, whether or not an access passes the checks: neither DACR nor permissions
/// nor the access flag matter. Nothing is mapped in megabytes that TTBCR.PD0 or PD1 turns off (the others of the range
/// count nevertheless), nor by tables outside RAM. `counts` is asked about every page of a second-level table, but only
/// once about a megabyte of a section or supersection, with the address that the offset of `va` gets.
///
/// Empty first-level entries cost little if they are all in one table.
pub fn find_mapped(
    mem: &impl GuestMemory,
    r: &Regime,
    va: GuestVa,
    count: u32,
    counts: impl Fn(GuestPa) -> bool,
) -> Option<GuestVa> {
    if has_no_descriptors(mem, r, va, count) {
        return None;
    }
    (0..count).map(|n| megabyte_behind(va, n)).find(|&va| maps_megabyte(mem, r, va, &counts))
}

/// Whether `count` megabytes, that of `va` and those behind it, have no first-level descriptors but invalid ones, as
/// far as that is quickly seen: false also where these are not all in one table, in a row. The MMU must be on.
pub fn has_no_descriptors(mem: &impl GuestMemory, r: &Regime, va: GuestVa, count: u32) -> bool {
    let Some(behind) = count.checked_sub(1) else { return true };
    if r.is_long() {
        return false;
    }
    // They are not where TTBR0's part of the address space ends, nor at its end.
    let first = first_level_address(r, va.0)
        .filter(|first| first_level_address(r, megabyte_behind(va, behind).0) == first.checked_add(4 * behind));
    first.and_then(|first| mem.words(GuestPa(first), count as usize)).is_some_and(|words| {
        words.iter().all(|&word| if r.sctlr & SCTLR_EE != 0 { word.swap_bytes() } else { word } & 0b11 == 0)
    })
}

/// The address `n` megabytes behind `va`.
const fn megabyte_behind(va: GuestVa, n: u32) -> GuestVa {
    GuestVa(va.0.wrapping_add(n << 20))
}

/// Whether the guest's tables map a page of the megabyte of `va` to an address for which `counts` holds.
fn maps_megabyte(mem: &impl GuestMemory, r: &Regime, va: GuestVa, counts: impl Fn(GuestPa) -> bool) -> bool {
    if r.is_long() {
        return match lookup(mem, r, va) {
            Ok(mapping) if mapping.size.is_first_level() => counts(mapping.pa),
            _ => (0..256)
                .filter_map(|page| lookup(mem, r, GuestVa(va.0 & 0xfff0_0000 | page << 12)).ok())
                .any(|mapping| counts(mapping.pa)),
        };
    }
    let Some(l1) = first_level_address(r, va.0).and_then(|address| read_descriptor(mem, r, address)) else {
        return false;
    };
    match l1 & 0b11 {
        0b00 => false,
        0b01 => (0..256)
            .filter_map(|page| lookup_page(mem, r, va.0 & 0xfff0_0000 | page << 12, l1).ok())
            .any(|mapping| counts(mapping.pa)),
        0b11 if !r.pxn => false,
        _ => counts(section(r, va.0, l1).pa),
    }
}

/// A section or supersection descriptor (ARM ARM figure B3-4).
fn section(r: &Regime, va: u32, l1: u32) -> Mapping {
    let attributes = |domain| Attributes {
        ap: field(l1, 15, 1) << 2 | field(l1, 10, 2),
        tex_c_b: field(l1, 12, 3) << 2 | field(l1, 2, 2),
        not_global: flag(l1, 17),
        xn: flag(l1, 4),
        pxn: r.pxn && flag(l1, 0),
        domain,
    };
    if flag(l1, 18) {
        // Bits 8:5 are PA[39:36] here, and the domain is 0.
        attributes(0).mapping(r, l1 & 0xff00_0000 | va & 0x00ff_ffff, PageSize::Super16M)
    } else {
        attributes(field(l1, 5, 4) as u8).mapping(r, l1 & 0xfff0_0000 | va & 0x000f_ffff, PageSize::Section1M)
    }
}

/// The second level (ARM ARM figure B3-5), from a first-level descriptor of type "page table".
fn lookup_page(mem: &impl GuestMemory, r: &Regime, va: u32, l1: u32) -> Result<Mapping, Fault> {
    let second = |kind| Fault { kind, domain: field(l1, 5, 4) as u8, section_level: false };
    let address = l1 & 0xffff_fc00 | field(va, 12, 8) << 2;
    let l2 = read_descriptor(mem, r, address).ok_or(second(FaultKind::ExternalOnWalk))?;
    decode_page(r, va, l1, l2).ok_or(second(FaultKind::Translation))
}

/// The mapping of a valid second-level descriptor.
fn decode_page(r: &Regime, va: u32, l1: u32, l2: u32) -> Option<Mapping> {
    let domain = field(l1, 5, 4) as u8;
    let pxn = r.pxn && flag(l1, 2);
    // AP, nG, C and B are in the same place in both sizes; TEX and XN are not.
    let ap = field(l2, 9, 1) << 2 | field(l2, 4, 2);
    let c_b = field(l2, 2, 2);
    let not_global = flag(l2, 11);
    match l2 & 0b11 {
        0b00 => None,
        0b01 => {
            let tex_c_b = field(l2, 12, 3) << 2 | c_b;
            let attributes = Attributes { ap, tex_c_b, not_global, xn: flag(l2, 15), pxn, domain };
            Some(attributes.mapping(r, l2 & 0xffff_0000 | va & 0xffff, PageSize::Large64K))
        }
        _ => {
            let tex_c_b = field(l2, 6, 3) << 2 | c_b;
            let attributes = Attributes { ap, tex_c_b, not_global, xn: flag(l2, 0), pxn, domain };
            Some(attributes.mapping(r, l2 & 0xffff_f000 | va & 0xfff, PageSize::Small4K))
        }
    }
}

/// [`lookup`], then the checks that the access has to pass ([`Mapping::check`]).
///
/// # Errors
/// The fault that the bare core would take, in its order: external abort on the walk, translation, access flag, domain,
/// permission.
pub fn translate(mem: &impl GuestMemory, r: &Regime, va: GuestVa, access: Access) -> Result<Mapping, Fault> {
    let mapping = lookup(mem, r, va)?;
    mapping.check(r, access)?;
    Ok(mapping)
}
