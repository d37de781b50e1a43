//! The jump cache: guest PC to code-cache PC for indirect branches, looked up by the trap handler in assembly.
//!
//! Direct-mapped by the PC's word address. It lives in privileged memory, out of the guest's reach. An entry holds as
//! long as the guest's mapping of its page does; only pages that are mapped global enter it, so that a change of
//! address space leaves it alone.

/// Entries, a power of two; the assembly handler uses it as an immediate.
pub const ENTRIES: usize = 4096;
/// A guest PC that no A32 instruction has: marks an empty entry.
const EMPTY: u32 = 1;

/// One entry. The layout is known to the trap handler in assembly.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Entry {
    /// Guest PC.
    pub guest: u32,
    /// Where its block starts in the code cache.
    pub host: u32,
}

/// The table.
#[repr(C, align(8))]
pub struct JumpCache {
    entries: [Entry; ENTRIES],
}

const fn index(guest: u32) -> usize {
    (guest >> 2) as usize % ENTRIES
}

impl JumpCache {
    /// An empty table.
    #[must_use]
    pub const fn new() -> JumpCache {
        JumpCache { entries: [Entry { guest: EMPTY, host: 0 }; ENTRIES] }
    }

    /// Enters a block.
    pub fn insert(&mut self, guest: u32, host: u32) {
        self.entries[index(guest)] = Entry { guest, host };
    }

    /// The code-cache address for a guest PC.
    #[must_use]
    pub fn get(&self, guest: u32) -> Option<u32> {
        let entry = self.entries[index(guest)];
        (entry.guest == guest).then_some(entry.host)
    }

    /// Forgets one guest PC.
    pub fn remove(&mut self, guest: u32) {
        let entry = &mut self.entries[index(guest)];
        if entry.guest == guest {
            entry.guest = EMPTY;
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.fill(Entry { guest: EMPTY, host: 0 });
    }
}

impl Default for JumpCache {
    fn default() -> Self {
        JumpCache::new()
    }
}
