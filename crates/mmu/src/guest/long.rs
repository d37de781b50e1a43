//! The walk of long descriptors, stage 1 (ARM ARM B3.6): what a guest's tables mean while its TTBCR.EAE is set.
//!
//! The processors that Spica runs on have short descriptors only, and a guest is told so. But firmware for QEMU's
//! `virt` is built for that machine's own processor, which has both, and does not ask. Nothing of the host depends on
//! the format: shadow tables are made of what a walk finds.
//!
//! A guest has nothing above 4 GiB: a table or a page there is where nothing answers. There are no domains: what is
//! mapped is in domain 0, and [`Regime::domain_access`] has that as a client.

use super::fault::{Fault, FaultKind};
use super::regime::{Regime, SCTLR_EE};
use super::walk::{GuestMemory, Mapping, PageSize, Permission};
use spica_addr::{GuestPa, GuestVa};

/// TTBCR.EPD0 and EPD1: walks through TTBR0, TTBR1 are disabled.
const EPD: [u32; 2] = [1 << 7, 1 << 23];

/// Which TTBR has `va`, and how many of its top bits that one does not look at (B3.6.4).
fn select(r: &Regime, va: u32) -> Option<(usize, u32)> {
    let [t0, t1] = [r.ttbcr & 0b111, r.ttbcr >> 16 & 0b111];
    let zeroes = va.leading_zeros() >= t0;
    let ones = va.leading_ones() >= t1;
    if zeroes && (t0 != 0 || t1 == 0 || !ones) {
        Some((0, t0))
    } else if ones && (t1 != 0 || t0 != 0) {
        Some((1, t1))
    } else {
        None
    }
}

/// As [`lookup`](super::walk::lookup), which calls it.
pub(super) fn lookup(mem: &impl GuestMemory, r: &Regime, va: GuestVa) -> Result<Mapping, Fault> {
    let va = va.0;
    let Some((which, size)) = select(r, va).filter(|&(which, _)| r.ttbcr & EPD[which] == 0) else {
        return Err(Fault::long(FaultKind::Translation, 1));
    };
    // Tables of less than four entries of the first level are done without: 1 GiB and less begins at the second.
    let first = if size < 2 { 1 } else { 2 };
    let bits = 32 - size - (39 - 9 * first);
    let mut level = first;
    let mut table = u64::from([r.ttbr0, r.ttbr1][which]) | u64::from(r.tops[which] & 0xff) << 32;
    table &= !((1 << (bits + 3)) - 1);
    // What tables say for all that is below them: no access for user code, no writes, XN, PXN.
    let mut below = 0;
    loop {
        let shift = 39 - 9 * level;
        let index_bits = if level == first { bits } else { 9 };
        let index = va >> shift & ((1 << index_bits) - 1);
        let on_walk = Fault::long(FaultKind::ExternalOnWalk, level as u8);
        let address = u32::try_from(table + u64::from(8 * index)).map_err(|_| on_walk)?;
        let word = |at: u32| mem.read_word(GuestPa(at)).ok_or(on_walk);
        let (low, high) = (word(address)?, word(address | 4)?);
        let big = r.sctlr & SCTLR_EE != 0;
        let (low, high) = if big { (high.swap_bytes(), low.swap_bytes()) } else { (low, high) };
        let is_table = level < 3 && low & 0b11 == 0b11;
        if is_table {
            below |= high >> 27 & 0xf;
            table = u64::from(low & 0xffff_f000) | u64::from(high & 0xff) << 32;
            level += 1;
            continue;
        }
        let (valid, size) = match level {
            1 => (low & 0b11 == 0b01, PageSize::Block1G),
            2 => (low & 0b11 == 0b01, PageSize::Block2M),
            _ => (low & 0b11 == 0b11, PageSize::Small4K),
        };
        if !valid {
            return Err(Fault::long(FaultKind::Translation, level as u8));
        }
        if high & 0xff != 0 {
            return Err(Fault::long(FaultKind::External, level as u8));
        }
        return Ok(mapping(r, va, (low, high), below, size));
    }
}

/// What a descriptor of a block or a page says (B3.6.2), and the tables above it.
fn mapping(r: &Regime, va: u32, (low, high): (u32, u32), below: u32, size: PageSize) -> Mapping {
    let flag = |word: u32, bit: u32| word >> bit & 1 != 0;
    let within = size.bytes() - 1;
    let kernel = if flag(low, 7) || flag(below, 3) { Permission::ReadOnly } else { Permission::ReadWrite };
    let user = if flag(low, 6) && !flag(below, 2) { kernel } else { Permission::None };
    let attributes = [r.prrr, r.nmrr][(low >> 4 & 1) as usize] >> (8 * (low >> 2 & 0b11));
    Mapping {
        pa: GuestPa(low & !within & !0xfff | va & within),
        size,
        global: !flag(low, 11),
        domain: 0,
        user,
        kernel,
        xn: flag(high, 22) || flag(below, 1),
        pxn: flag(high, 21) || flag(below, 0),
        device: attributes & 0xf0 == 0,
        accessed: flag(low, 10),
    }
}
