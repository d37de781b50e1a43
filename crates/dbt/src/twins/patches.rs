//! Words of its text that a guest's kernel patches one by one, as Linux does when it traces functions.

use spica_addr::{GuestPa, GuestVa};

use super::{GROUP, MOST_WRITES, TwinMemory, Twins, list};
use crate::in_place::{LONGEST, WordSet, is_sensitive};
use crate::{Translator, trap};

/// The only twin of a page, of which words may be [patched](Twins::patch) by whoever knows this, until anything else is
/// done to code, to twins or to what is mapped.
pub struct Patchable {
    /// Its number.
    pub number: u16,
    /// Where it is executed.
    pub va: GuestVa,
    /// Whether it may be mapped there. If not, it is enough that what is written to it is cleaned.
    pub mapped: bool,
    /// The words that may be, with any word that [`crate::in_place::MAY_BE_REPLACED`] does not name.
    pub free: WordSet,
    /// So many times.
    pub left: u16,
}

impl Twins {
    /// The guest writes `word` as word `at` of its page at `pa`: if nothing more has to be done about that than to
    /// write it to the page's twins, this does so. That is how most words are patched, none of which is replaced, or is
    /// part of a stub. False, and nothing is done, if it takes more: [`Self::change_stubs`], and [`Self::change_word`]
    /// behind the write. Bounded by the blocks that these look through.
    pub fn patch(
        &mut self,
        translator: &Translator,
        (pa, at): (GuestPa, usize),
        word: u32,
        memory: &mut impl TwinMemory,
    ) -> bool {
        let (page, first) = (pa.page(), self.by_pa[list(pa)]);
        let (mut number, mut any) = (first, false);
        while let Some(twin) = self.twins.get(usize::from(number)) {
            if twin.pa == page {
                any = true;
                if twin.writes.times(self.clock) >= MOST_WRITES || twin.replaced.has_up_to(at) {
                    return false;
                }
            }
            number = twin.next_by_pa;
        }
        let is_plain = !is_sensitive(word) && !trap::is_taken_for_ours(word);
        if !any || !is_plain || translator.has_made_from(page, at as u16) {
            return false;
        }
        number = first;
        while let Some(twin) = self.twins.get_mut(usize::from(number)) {
            if twin.pa == page {
                twin.writes.add(1, self.clock);
                memory.twin(number)[at] = word;
                self.groups[usize::from(number) / GROUP].wrote(number, twin.va, at, 1, memory);
            }
            number = twin.next_by_pa;
        }
        true
    }

    /// Which words of the guest's page at `pa` may be [patched](Self::patch) without looking at more than the new word.
    /// [`Self::were_patched`] is to be told how many were. `None` if it has no twin or several, or too many blocks.
    pub fn patchable(&mut self, translator: &Translator, pa: GuestPa) -> Option<Patchable> {
        let page = pa.page();
        let (mut number, mut found) = (self.by_pa[list(pa)], None);
        while let Some(twin) = self.twins.get(usize::from(number)) {
            if twin.pa == page && found.replace(number).is_some() {
                return None;
            }
            number = twin.next_by_pa;
        }
        let number = found?;
        let twin = &self.twins[usize::from(number)];
        let mut free = WordSet::ALL;
        twin.replaced.iter().for_each(|at| free.remove_run(at, LONGEST));
        if !translator.made_from(page, |words| free.remove_run((*words.start()).into(), words.count())) {
            return None;
        }
        let (group, bit) = (&mut self.groups[usize::from(number) / GROUP], 1 << (usize::from(number) % GROUP));
        let mapped = group.mapped & bit != 0;
        if !mapped {
            group.stale |= bit;
        }
        Some(Patchable {
            number,
            va: twin.va,
            mapped,
            free,
            left: MOST_WRITES.saturating_sub(twin.writes.times(self.clock)),
        })
    }

    /// So many words of a twin were patched, as [`Self::patchable`] has allowed.
    pub fn were_patched(&mut self, number: u16, times: u16) {
        if let Some(twin) = self.twins.get_mut(usize::from(number)) {
            twin.writes.add(times, self.clock);
        }
    }
}
