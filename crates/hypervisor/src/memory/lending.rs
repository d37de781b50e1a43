//! The pages that guests have given to their balloons, for others to use: the records ([`spica_ram::lent`]), and what
//! is in them.
//!
//! A page belongs to its guest, to whoever borrowed it, or to nobody. What its user leaves in it is cleared when it
//! goes, so that its owner finds nothing of others there; what its owner left, whoever borrows it writes over before it
//! reads.

use spica_addr::HostPa;

use super::{phys, ram};
use crate::arch::interrupts::IrqCell;
use crate::contain::shared;
use crate::host_cpu::HostSpace;
use spica_ram::lent::{Lent, Return, Ticket};

const PAGE: u32 = 4096;

static LENT: IrqCell<Option<(Lent, usize)>> = IrqCell::new(None);

/// Pages can be given from now on, and `most` of them borrowed at a time.
pub fn open(most: usize) {
    let banks = ram::banks();
    let (Some(first), Some(last)) = (banks.first(), banks.last()) else { return };
    let count = (last.end - first.start) / u64::from(PAGE);
    let lent = Lent::new((first.start / u64::from(PAGE)) as u32, count as u32, most as u32);
    LENT.with(|state| *state = Some((lent, most)));
}

fn with<R: Default>(act: impl FnOnce(&mut Lent) -> R) -> R {
    LENT.with(|state| state.as_mut().map(|(lent, _)| act(lent)).unwrap_or_default())
}

/// The bytes of a page that its guest has given.
fn page_bytes<'a>(_: HostSpace<'a>, page: u32) -> &'a mut [u8] {
    // SAFETY: its guest cannot reach it (`Common::exchange`), nobody else has its ticket, and it is mapped in the host
    // address space, where we are.
    unsafe { phys::slice_mut(HostPa(page * PAGE), PAGE) }
}

/// How many pages can be borrowed at most.
pub fn most() -> usize {
    LENT.with(|state| state.as_ref().map_or(0, |&(_, most)| most))
}

/// Bytes that are given and not used, and bytes that are.
pub fn usage() -> (u64, u64) {
    let (idle, used) = with(|lent| lent.counts());
    (u64::from(idle) * u64::from(PAGE), used as u64 * u64::from(PAGE))
}

/// Whether there are more idle pages since this was last asked: who waits may have its own back.
pub fn take_change() -> bool {
    with(Lent::take_change)
}

/// A guest gives the page at `pa`.
pub fn give(pa: HostPa) {
    with(|lent| lent.give(pa.0 / PAGE));
}

/// A guest wants the page at `pa` back. What that took; it has the page unless that is in use.
pub fn take_back(host_space: HostSpace<'_>, pa: HostPa) -> Return {
    let page = pa.0 / PAGE;
    shared(|| {
        let done = with(|lent| Some(lent.take_back(page))).unwrap_or(Return::Idle);
        if let Return::Moved(to) = done {
            page_bytes(host_space, to).copy_from_slice(page_bytes(host_space, page));
            page_bytes(host_space, page).fill(0);
        }
        done
    })
}

/// Borrows a page; what is in it is anything, and must not be read.
pub fn borrow() -> Option<Ticket> {
    with(Lent::borrow)
}

/// The bytes of a borrowed page, which must not be kept: it may be elsewhere the next time.
pub fn bytes<'a>(host_space: HostSpace<'a>, ticket: Ticket) -> &'a mut [u8] {
    match with(|lent| lent.page(ticket)) {
        Some(page) => page_bytes(host_space, page),
        None => &mut [],
    }
}

/// A borrowed page is not needed any more.
pub fn release(host_space: HostSpace<'_>, ticket: Ticket) {
    bytes(host_space, ticket).fill(0);
    with(|lent| lent.release(ticket));
}
