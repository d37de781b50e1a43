//! Calls of the allocator that have begun and not returned.
//!
//! A call is known by the stack pointer that it began with, which its return has again: whatever interrupts it or is
//! switched to meanwhile has another stack, or is deeper on the same one.

/// A call of the allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// It returns an object of this size and slot.
    Allocate {
        /// Bytes that were asked for.
        size: u32,
        /// Bytes to the next object.
        slot: u32,
        /// Who wants it.
        by: u32,
        /// The allocator has cleared it.
        cleared: bool,
    },
    /// It returns how many objects it has put into an array.
    AllocateMany {
        /// Where the array is.
        array: u32,
        /// Bytes of an object.
        size: u32,
        /// Bytes to the next object.
        slot: u32,
        /// Who wants them.
        by: u32,
    },
    /// It returns how much of this object may be used.
    Size {
        /// Where the object begins.
        object: u32,
    },
}

/// Calls at most.
const MOST: usize = 32;
/// Bytes of a stack (`THREAD_SIZE` of Linux on ARM), which begins at a multiple of that.
const STACK: u32 = 8192;

/// See the module's text. If there are too many, the oldest are forgotten.
#[derive(Clone, Debug)]
pub struct Calls {
    calls: [Option<(u32, Call)>; MOST],
    next: usize,
}

impl Default for Calls {
    fn default() -> Self {
        Calls { calls: [None; MOST], next: 0 }
    }
}

impl Calls {
    /// A call begins with this stack pointer. One that began with the same has been left without a return, or ends in
    /// this one.
    pub fn begins(&mut self, sp: u32, call: Call) {
        let same = self.calls.iter().position(|known| known.is_some_and(|(at, _)| at == sp));
        // Who was interrupted or waits in its call may return after many others.
        let free = || self.calls.iter().position(Option::is_none);
        let place = same.or_else(free).unwrap_or_else(|| {
            self.next = (self.next + 1) % MOST;
            self.next
        });
        self.calls[place] = Some((sp, call));
    }

    /// The allocator clears memory, with this stack pointer: that of the object which the innermost call on this stack
    /// is about to return.
    pub fn clears(&mut self, sp: u32) {
        let outer = |at: u32| (at >= sp && at / STACK == sp / STACK).then(|| at - sp);
        let calls = self.calls.iter_mut().flatten();
        let innermost = calls.filter_map(|(at, call)| Some((outer(*at)?, call))).min_by_key(|(distance, _)| *distance);
        if let Some((_, Call::Allocate { cleared, .. })) = innermost {
            *cleared = true;
        }
    }

    /// The call that began with this stack pointer returns.
    pub fn returns(&mut self, sp: u32) -> Option<Call> {
        let known = self.calls.iter_mut().find(|known| known.is_some_and(|(at, _)| at == sp))?;
        known.take().map(|(_, call)| call)
    }
}
