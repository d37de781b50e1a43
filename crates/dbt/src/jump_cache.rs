//! The jump cache: guest PC to code-cache PC for indirect branches, looked up by the trap handler in assembly.
//!
//! Direct-mapped by the PC's word address. It lives in privileged memory, out of the guest's reach. An entry holds as
//! long as the guest's mapping of its page does; only pages that are mapped global enter it, so that a change of
//! address space leaves it alone.

use alloc::boxed::Box;
use alloc::vec;

/// Entries, a power of two; the assembly handler uses it as an immediate.
pub const ENTRIES: usize = 16384;
/// Marks entry `index` as empty: an address that is looked up elsewhere. An odd one alone would not do, for a guest can
/// branch to any value. All but one are zeroes, so that the table is soon cleared.
const fn empty(index: usize) -> Entry {
    Entry { guest: if index == 0 { !0 } else { 0 }, host: 0 }
}

/// Entries that are cleared together.
const CHUNK: usize = 64;
const CHUNKS: usize = ENTRIES / CHUNK;
/// Chunks that are cleared in one go.
const CLEARED_AT_ONCE: usize = 48;

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
pub struct JumpCache {
    // Made on the heap: too large for a stack.
    entries: Box<[Entry]>,
    version: u32,
    /// Places of addresses that somebody wants to know about: the first of [`VECTORS`], and one more.
    watched: [usize; 2],
    /// Chunks that hold something, a bit each.
    used: [u32; CHUNKS / 32],
    /// Chunks that are forgotten, and not cleared yet.
    stale: [u32; CHUNKS / 32],
}

/// The word and the bit of the chunk that entry `at` is in.
const fn chunk(at: usize) -> (usize, u32) {
    (at / CHUNK / 32, 1 << (at / CHUNK % 32))
}

/// The exception vectors (B1.8.1), a word each.
const VECTORS: usize = 8;

const fn index(guest: u32) -> usize {
    (guest >> 2) as usize % ENTRIES
}

impl JumpCache {
    /// An empty table.
    #[must_use]
    pub fn new() -> JumpCache {
        let mut entries = vec![empty(1); ENTRIES].into_boxed_slice();
        entries[0] = empty(0);
        JumpCache { entries, version: 1, watched: [0; 2], used: [0; CHUNKS / 32], stale: [0; CHUNKS / 32] }
    }

    /// The first entry, for the trap handler. It stays where it is as long as the table lives.
    #[must_use]
    pub fn as_ptr(&self) -> *const Entry {
        self.entries.as_ptr()
    }

    /// A number that changes whenever the answer for a [watched](Self::watch) address may. It is never 0.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// From now on [`Self::version`] is about exception vectors at `vectors`, and about `other`.
    pub fn watch(&mut self, vectors: u32, other: u32) {
        self.watched = [index(vectors), index(other)];
        self.change();
    }

    /// The entry at `at` is about to be another one.
    const fn changes_at(&mut self, at: usize) {
        let [vectors, other] = self.watched;
        if at.wrapping_sub(vectors) < VECTORS || at == other {
            self.change();
        }
    }

    const fn change(&mut self) {
        self.version = if self.version == u32::MAX { 1 } else { self.version + 1 };
    }

    /// Enters a block.
    pub fn insert(&mut self, guest: u32, host: u32) {
        let at = index(guest);
        self.changes_at(at);
        let (word, bit) = chunk(at);
        if self.stale[word] & bit != 0 {
            self.clear_chunk(at / CHUNK);
        }
        self.used[word] |= bit;
        self.entries[at] = Entry { guest, host };
    }

    /// The code-cache address for a guest PC.
    #[must_use]
    pub fn get(&self, guest: u32) -> Option<u32> {
        let at = index(guest);
        let (word, bit) = chunk(at);
        let entry = self.entries[at];
        (entry.guest == guest && self.stale[word] & bit == 0).then_some(entry.host)
    }

    /// Forgets one guest PC.
    pub fn remove(&mut self, guest: u32) {
        let at = index(guest);
        if self.entries[at].guest == guest {
            self.changes_at(at);
            self.entries[at] = empty(at);
        }
    }

    /// Forgets everything. The trap handler must not look anything up before [`settle`](Self::settle) has said that
    /// all is cleared.
    pub fn clear(&mut self) {
        self.change();
        for (stale, used) in self.stale.iter_mut().zip(&mut self.used) {
            *stale |= core::mem::take(used);
        }
    }

    /// Clears some of what is forgotten, in a time that is bounded. Whether nothing is left of it.
    pub fn settle(&mut self) -> bool {
        for _ in 0..CLEARED_AT_ONCE {
            let Some(word) = self.stale.iter().position(|&word| word != 0) else { return true };
            self.clear_chunk(word * 32 + self.stale[word].trailing_zeros() as usize);
        }
        self.stale.iter().all(|&word| word == 0)
    }

    fn clear_chunk(&mut self, number: usize) {
        let first = number * CHUNK;
        self.entries[first..first + CHUNK].fill(empty(1));
        if first == 0 {
            self.entries[0] = empty(0);
        }
        let (word, bit) = chunk(first);
        self.stale[word] &= !bit;
    }
}

impl Default for JumpCache {
    fn default() -> Self {
        JumpCache::new()
    }
}
