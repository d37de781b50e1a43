//! Breakpoints: guest addresses of which no block is made, and that no block contains.
//!
//! Blocks end in front of them, so whatever leads to one traps, as to any address that has no block yet: an exit that
//! cannot be linked, a branch through the return mirror, a look into the jump cache. Whoever then asks for a block at
//! the address asks first whether there is a breakpoint ([`crate::Translator::is_breakpoint`]). Neither guest memory
//! nor translated code has anything of them, and an address may get one before there is code. An address here has no
//! state in bit 0: code of either state stops there.

use spica_addr::GuestVa;

/// Breakpoints that a guest can have. A block is compared with each of them when it is made.
pub const MOST_BREAKPOINTS: usize = 64;

/// See the module's text.
pub(crate) struct Breakpoints {
    at: [GuestVa; MOST_BREAKPOINTS],
    count: usize,
}

impl Breakpoints {
    pub(crate) const fn new() -> Breakpoints {
        Breakpoints { at: [GuestVa(0); MOST_BREAKPOINTS], count: 0 }
    }

    fn all(&self) -> &[GuestVa] {
        &self.at[..self.count]
    }

    /// Where there are none, this is all that there is to do.
    #[inline]
    pub(crate) fn contains(&self, va: GuestVa) -> bool {
        self.count != 0 && self.find(va).is_some()
    }

    #[cold]
    #[inline(never)]
    fn find(&self, va: GuestVa) -> Option<usize> {
        self.all().iter().position(|&at| at == va)
    }

    /// Adds one. False if there is no room.
    pub(crate) fn insert(&mut self, va: GuestVa) -> bool {
        if self.contains(va) {
            return true;
        }
        let Some(place) = self.at.get_mut(self.count) else { return false };
        *place = va;
        self.count += 1;
        true
    }

    /// Removes one. False if it is not there.
    pub(crate) fn remove(&mut self, va: GuestVa) -> bool {
        let Some(found) = self.find(va) else { return false };
        self.count -= 1;
        self.at[found] = self.at[self.count];
        true
    }

    /// How many words there are from `va` up to the next breakpoint behind it, or instructions of A32.
    #[inline]
    pub(crate) fn room_at(&self, va: GuestVa) -> usize {
        if self.count == 0 { usize::MAX } else { self.least_room_at(va) }
    }

    /// The next breakpoint behind `va`.
    #[inline]
    pub(crate) fn next_behind(&self, va: GuestVa) -> Option<GuestVa> {
        self.all().iter().filter(|at| at.0 > va.0).min().copied()
    }

    #[cold]
    #[inline(never)]
    fn least_room_at(&self, va: GuestVa) -> usize {
        let behind = self.all().iter().filter(|at| at.0 > va.0);
        behind.map(|at| (at.0 - va.0).div_ceil(4) as usize).min().unwrap_or(usize::MAX)
    }
}
