//! What drivers ask of the processor, on the development machine.

/// Barriers.
pub mod barrier {
    pub use crate::bus::barrier as dsb;
}

/// Caches: there are none between drivers and models.
pub mod cache {
    /// Nothing to do.
    pub fn clean_invalidate(_va: u32, _len: u32) {}
}

/// Accesses that may fault.
pub mod fixup {
    /// As the board image's own.
    ///
    /// # Safety
    /// None is needed here.
    pub unsafe fn read_word(address: u32) -> Option<u32> {
        crate::bus::try_read(address)
    }
}

/// The core.
pub mod cpu {
    /// This one has none.
    #[must_use]
    pub fn has_generic_timer() -> bool {
        false
    }
}

/// The generic timer, which [`cpu::has_generic_timer`] denies.
pub mod generic_timer {
    /// Not there.
    #[must_use]
    pub fn frequency() -> u32 {
        unreachable!()
    }

    /// Not there.
    #[must_use]
    pub fn now() -> u64 {
        unreachable!()
    }

    /// Not there.
    pub fn start(_deadline: u64) {
        unreachable!()
    }

    /// Not there.
    pub fn stop() {
        unreachable!()
    }
}
