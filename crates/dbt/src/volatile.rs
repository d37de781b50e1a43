//! Pages whose code changes itself, the block that is running, so often that protecting them does not pay, or with
//! instructions that cannot be interpreted: *volatile* pages. Their code is translated anew each time that it is
//! entered.
//!
//! A guest chooses how many such pages it has, so few are remembered. To forget one is no mistake: it is protected
//! again, and counted anew, from 0.

use spica_addr::GuestPa;

/// That many writes of code to its own page that left no more of its own block make the page volatile. Writes to data
/// beside it, or to other functions, do not count: Linux's function that patches code patches those around it, too.
const VOLATILE_AFTER: u16 = 256;
/// Sets of places, by the low bits of a page's number.
const SETS: usize = 32;
/// Places of a set.
const WAYS: usize = 4;

/// A page of which code wrote to itself.
#[derive(Clone, Copy)]
struct Page {
    /// Its number: guest PA divided by 4 KiB.
    number: u32,
    /// Writes so far, at most [`VOLATILE_AFTER`].
    writes: u16,
}

const NONE: Page = Page { number: u32::MAX, writes: 0 };

/// The pages that are known, up to [`VolatilePages::CAPACITY`] of them.
pub struct VolatilePages {
    sets: [[Page; WAYS]; SETS],
    /// There is one.
    used: bool,
}

impl Default for VolatilePages {
    fn default() -> Self {
        VolatilePages { sets: [[NONE; WAYS]; SETS], used: false }
    }
}

impl VolatilePages {
    /// Pages that can be known at once.
    pub const CAPACITY: usize = SETS * WAYS;

    fn set(number: u32) -> usize {
        number as usize % SETS
    }

    /// Whether code of the page at `pa` is not to be kept.
    pub fn contains(&self, pa: GuestPa) -> bool {
        let number = pa.0 >> 12;
        self.used
            && self.sets[Self::set(number)].iter().any(|page| page.number == number && page.writes == VOLATILE_AFTER)
    }

    /// Code in the page at `pa` wrote to its own page; the page is volatile from now on if `at_once`, or if that was
    /// often. Where there is no place, the page of the set that wrote least is forgotten.
    pub fn wrote_to_itself(&mut self, pa: GuestPa, at_once: bool) {
        let number = pa.0 >> 12;
        let set = &mut self.sets[Self::set(number)];
        let at = set.iter().position(|page| page.number == number).unwrap_or_else(|| {
            let least = (0..WAYS).min_by_key(|&way| set[way].writes).unwrap_or(0);
            set[least] = Page { number, writes: 0 };
            least
        });
        set[at].writes = if at_once { VOLATILE_AFTER } else { (set[at].writes + 1).min(VOLATILE_AFTER) };
        self.used = true;
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        if core::mem::take(&mut self.used) {
            self.sets = [[NONE; WAYS]; SETS];
        }
    }
}
