//! Which virtio devices of which guests have something new from the host: a frame, a request that is done. Pure.

use alloc::vec::Vec;

/// See the module's text.
#[derive(Default)]
pub struct PendingSlots {
    /// The slots of each guest, a bit each.
    slots: Vec<u32>,
}

impl PendingSlots {
    /// Of so many guests; there is none.
    pub fn new(guests: usize) -> PendingSlots {
        PendingSlots { slots: alloc::vec![0; guests] }
    }

    /// There is something new for that slot of that guest.
    pub fn tell(&mut self, guest: usize, slot: usize) {
        if let Some(slots) = self.slots.get_mut(guest) {
            *slots |= 1 << slot;
        }
    }

    /// Whether there is something new for a guest.
    pub fn is_for(&self, guest: usize) -> bool {
        self.slots.get(guest).is_some_and(|&slots| slots != 0)
    }

    /// The slots of a guest that have something new, a bit each; they have nothing new then.
    pub fn take(&mut self, guest: usize) -> u32 {
        self.slots.get_mut(guest).map(core::mem::take).unwrap_or_default()
    }
}
