//! Where in the guest's address space there is code that was translated, as far as TLB maintenance has to know.
//!
//! Maintenance is frequent, and most of it concerns no code; what concerns a megabyte that one section maps, as Linux
//! maps its text, need not be looked at page by page. What is kept has a fixed size, wherever a guest executes code.

use alloc::boxed::Box;

/// Megabytes of the address space.
const MEGABYTES: usize = 4096;

/// A set of megabytes of the address space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Megabytes([u32; MEGABYTES / 32]);

impl Default for Megabytes {
    fn default() -> Self {
        Megabytes([0; MEGABYTES / 32])
    }
}

impl Megabytes {
    /// Whether megabyte `at` is a member.
    pub fn contains(&self, at: u32) -> bool {
        self.0[at as usize / 32] >> (at % 32) & 1 != 0
    }

    /// Makes megabyte `at` a member.
    pub fn insert(&mut self, at: u32) {
        self.0[at as usize / 32] |= 1 << (at % 32);
    }

    fn remove(&mut self, at: u32) {
        self.0[at as usize / 32] &= !(1 << (at % 32));
    }

    /// Empties the set.
    pub fn clear(&mut self) {
        self.0.fill(0);
    }
}

/// See the module's text.
pub struct CodeMap {
    /// Megabytes from which code was translated under the present tables, and those of them whose descriptor was not
    /// always the same.
    known: Megabytes,
    mixed: Megabytes,
    /// The guest's first-level descriptors of these, as they were then; 0 where there was none to read.
    descriptors: Box<[u32; MEGABYTES]>,
    /// A bit for each 16 MiB from which code was ever translated: TLB maintenance elsewhere concerns no block.
    regions: [u32; 8],
}

impl CodeMap {
    /// No code.
    #[inline(never)]
    pub fn new() -> CodeMap {
        // Made on the heap: too large for a stack.
        let descriptors = match alloc::vec![0; MEGABYTES].into_boxed_slice().try_into() {
            Ok(descriptors) => descriptors,
            Err(_) => unreachable!("there are as many"),
        };
        CodeMap { known: Megabytes::default(), mixed: Megabytes::default(), descriptors, regions: [0; 8] }
    }

    /// Code at `va` has been looked for.
    pub fn watch(&mut self, va: u32) {
        self.regions[va as usize >> 29] |= 1 << (va >> 24 & 31);
    }

    /// Whether blocks exist, or existed, for the 16 MiB around `va`.
    pub fn may_have_code(&self, va: u32) -> bool {
        self.regions[va as usize >> 29] >> (va >> 24 & 31) & 1 != 0
    }

    /// Whether code was translated from megabyte `at`.
    pub fn has(&self, at: u32) -> bool {
        self.known.contains(at)
    }

    /// Code is translated from megabyte `at`, whose first-level descriptor is `descriptor`.
    pub fn note(&mut self, at: u32, descriptor: u32) {
        let stored = &mut self.descriptors[at as usize];
        if !self.known.contains(at) {
            self.known.insert(at);
            *stored = descriptor;
        } else if *stored != descriptor {
            self.mixed.insert(at);
        }
    }

    /// The guest has maintained what `descriptor` maps, now that of megabyte `at`: whether code from there may have
    /// been made from another one.
    pub fn renew(&mut self, at: u32, descriptor: u32) -> bool {
        let changed = self.mixed.contains(at) || self.descriptors[at as usize] != descriptor;
        self.descriptors[at as usize] = descriptor;
        self.mixed.remove(at);
        changed
    }

    /// Whether the descriptor that was noted for megabyte `at` may be one of the sixteen of a supersection (B3.5.1):
    /// then maintenance of an address in any of these concerns it. Short descriptors are meant.
    pub fn may_be_wide(&self, at: u32) -> bool {
        const SECTION: u32 = 1 << 1;
        const SUPERSECTION: u32 = 1 << 18 | SECTION;
        let descriptor = self.descriptors[at as usize];
        // What was invalid may have become anything, without maintenance.
        descriptor & SUPERSECTION == SUPERSECTION || descriptor & 0b11 == 0 || self.mixed.contains(at)
    }

    /// The first megabyte from `from` on, and before `end`, from which code was translated.
    pub fn next(&self, from: u32, end: u32) -> Option<u32> {
        let mut at = from;
        while at < end {
            let rest = self.known.0[at as usize / 32] >> (at % 32);
            if rest != 0 {
                return Some(at + rest.trailing_zeros()).filter(|&at| at < end);
            }
            at = (at | 31) + 1;
        }
        None
    }

    /// The tables are others: nothing is known of them.
    pub fn forget_descriptors(&mut self) {
        self.known.clear();
        self.mixed.clear();
    }
}

impl Default for CodeMap {
    fn default() -> Self {
        CodeMap::new()
    }
}
