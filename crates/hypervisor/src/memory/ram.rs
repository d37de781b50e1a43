//! The board's RAM: what there is, what is taken, and what guests can have.

use alloc::vec::Vec;

use spica_addr::HostPa;

use super::host_space;
use crate::arch::interrupts::IrqCell;
use crate::layout::{MEGABYTE, REGION_START};
use spica_ram::spans::{Occupied, Span, most_each, place, subtract};

struct Ram {
    /// What the host table maps, in ascending order, neighbours joined.
    mapped: Vec<Span>,
    /// What nobody has taken yet.
    free: Vec<Span>,
}

static RAM: IrqCell<Ram> = IrqCell::new(Ram { mapped: Vec::new(), free: Vec::new() });

/// Takes stock: maps `banks` in the host table, and keeps `occupied` from ever being handed out.
///
/// Only whole megabytes are used, and only below the hypervisor region, where memory can be mapped at its own address.
/// Returns the bytes that are out of reach for that reason.
pub fn init(banks: &[Span], occupied: &[Occupied]) -> u64 {
    let reach = Span { start: 0, end: REGION_START.into() };
    let mut mapped: Vec<Span> = Vec::new();
    let mut lost = 0;
    // The library's sort is 14 KB of code, and there are a handful of banks.
    let mut sorted = Vec::with_capacity(banks.len());
    for bank in banks {
        sorted.insert(sorted.partition_point(|other| other < bank), *bank);
    }
    for bank in sorted {
        let usable = Span { start: bank.start, end: bank.end.min(reach.end) }.shrunk_to(MEGABYTE.into());
        lost += bank.len() - usable.len();
        if usable.is_empty() {
            continue;
        }
        match mapped.last_mut() {
            Some(last) if last.end >= usable.start => last.end = last.end.max(usable.end),
            _ => mapped.push(usable),
        }
    }
    for taken in occupied.iter().filter(|taken| taken.no_map) {
        mapped = subtract(&mapped, taken.span.grown_to(MEGABYTE.into()));
    }
    let mut free = mapped.clone();
    for taken in occupied {
        free = subtract(&free, taken.span.grown_to(4096));
    }
    for span in &mapped {
        for pa in (span.start..span.end).step_by(MEGABYTE as usize) {
            host_space::map_ram_megabyte(pa as u32);
        }
    }
    RAM.with(|ram| *ram = Ram { mapped, free });
    lost
}

/// Whether all of `span` is RAM that the host table maps.
pub fn is_mapped(span: Span) -> bool {
    RAM.with(|ram| ram.mapped.iter().any(|bank| bank.contains(&span)))
}

/// The banks of RAM, as mapped: ascending, neighbours joined.
pub fn banks() -> Vec<Span> {
    RAM.with(|ram| ram.mapped.clone())
}

/// Bytes that can still be taken, in total; the largest piece may be smaller.
pub fn free_bytes() -> u64 {
    RAM.with(|ram| ram.free.iter().map(Span::len).sum())
}

/// Bytes of the largest piece that [`take`] can still give, in whole megabytes.
pub fn largest_piece() -> u64 {
    RAM.with(|ram| most_each(&ram.free, 1, MEGABYTE.into()))
}

/// The most bytes that each of `count` pieces can have, in whole pages of 4 KiB.
pub fn most_bytes_each(count: u64) -> u64 {
    RAM.with(|ram| most_each(&ram.free, count, 4096))
}

/// Gives back what [`take`] has given. If there is no memory to note that, it is lost.
pub fn give_back(pa: HostPa, len: u32) {
    RAM.with(|ram| {
        let Span { start, end } = Span::new(pa.0.into(), len.into());
        let at = ram.free.partition_point(|other| other.start < start);
        let in_front = at.checked_sub(1).filter(|&before| ram.free[before].end == start);
        let behind = ram.free.get(at).is_some_and(|other| other.start == end);
        match (in_front, behind) {
            (Some(before), true) => {
                ram.free[before].end = ram.free[at].end;
                ram.free.remove(at);
            }
            (Some(before), false) => ram.free[before].end = end,
            (None, true) => ram.free[at].start = start,
            (None, false) => {
                if ram.free.try_reserve(1).is_ok() {
                    ram.free.insert(at, Span { start, end });
                }
            }
        }
    });
}

/// Takes `len` bytes, aligned to `align` (a power of two), from the lowest place at or above `from` that has them, else
/// from the lowest anywhere. What is in them is not cleared.
pub fn take(from: HostPa, len: u32, align: u32) -> Option<HostPa> {
    RAM.with(|ram| {
        let find = |from| place(&ram.free, from, len.into(), align.into());
        let span = find(from.0.into()).or_else(|| find(0))?;
        ram.free = subtract(&ram.free, span);
        Some(HostPa(span.start as u32))
    })
}
