//! The stacks on which Spica works for guests ([`crate::contain`]): one for each guest, each above a page that is not
//! mapped.

use spica_addr::HostPa;
use spica_bundle::MAX_GUESTS;

use super::{host_space, ram};
use crate::layout::{MEGABYTE, STACKS_START};

/// Bytes of a stack. What two Debians made use of from boot to shell were 2 KiB.
const STACK: u32 = 16 * 1024;
/// Bytes of addresses of one, with what is not mapped below it.
const PLACE: u32 = 4096 + STACK;

const _: () = assert!(MAX_GUESTS as u32 * PLACE <= MEGABYTE);

/// Makes stacks for `guests` guests, before there are tables of guests. False if there is no memory for them.
pub fn make(guests: usize) -> bool {
    let Some(memory) = ram::take(HostPa(0), guests as u32 * STACK, 4096) else { return false };
    for page in 0..guests as u32 * STACK / 4096 {
        let (guest, within) = (page * 4096 / STACK, page * 4096 % STACK);
        host_space::map_stack_page(STACKS_START + guest * PLACE + 4096 + within, memory.0 + page * 4096);
    }
    true
}

/// The address behind the stack of a guest, at which it begins.
///
/// # Panics
/// If there are not so many guests.
pub fn top(guest: usize) -> u32 {
    assert!(guest < MAX_GUESTS, "no stack for guest {guest}");
    STACKS_START + (guest as u32 + 1) * PLACE
}
