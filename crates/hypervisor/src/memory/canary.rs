//! Is Spica's own memory as it was? Words that nobody has a reason to write, in the image and in the heap, and a sum
//! over the image's text and constants. The monitor's `check` asks: so tests find a guest that got where it must not.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

use super::host_space;

/// Words of each of the two pieces.
const WORDS: usize = 1024;

/// The piece in the image, among what is written all the time.
static IN_IMAGE: [AtomicU32; WORDS] = [const { AtomicU32::new(0) }; WORDS];

/// What was put down, for later to be compared.
pub struct Canary {
    in_heap: Vec<u32>,
    sum: u32,
}

/// The word at a place: another one everywhere.
fn word(at: usize) -> u32 {
    (at as u32).wrapping_mul(0x9e37_79b9) ^ 0x5ca1_ab1e
}

/// A sum in which no two words can change places. `volatile`, for the compiler knows that constants do not change.
fn sum(words: &[u32]) -> u32 {
    words.iter().fold(0, |sum: u32, word| {
        // SAFETY: a reference can be read from.
        let word = unsafe { core::ptr::from_ref(word).read_volatile() };
        sum.rotate_left(5) ^ word.wrapping_mul(0x85eb_ca6b)
    })
}

impl Canary {
    /// Puts the words down. Once, before guests run.
    pub fn place() -> Canary {
        for (at, place) in IN_IMAGE.iter().enumerate() {
            place.store(word(at), Ordering::Relaxed);
        }
        Canary { in_heap: (0..WORDS).map(|at| word(at + WORDS)).collect(), sum: sum(host_space::constants()) }
    }

    /// Looks at all of it.
    ///
    /// # Errors
    /// What has changed.
    pub fn check(&self) -> Result<(), &'static str> {
        if IN_IMAGE.iter().enumerate().any(|(at, place)| place.load(Ordering::Relaxed) != word(at)) {
            return Err("the image's data have changed");
        }
        if self.in_heap.iter().enumerate().any(|(at, found)| *found != word(at + WORDS)) {
            return Err("the heap has changed");
        }
        if sum(host_space::constants()) != self.sum {
            return Err("the image's text or constants have changed");
        }
        Ok(())
    }
}
