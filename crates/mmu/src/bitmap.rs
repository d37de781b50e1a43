//! A set of megabytes of the 4 GiB address space: one bit per first-level entry.
//!
//! Shadow tables are sparse and a guest may ask for their removal as often as it likes; with these sets a sweep costs
//! what is populated, not 4,096 reads of table memory.

/// The number of megabytes in the address space, and of entries in a first-level table.
pub(crate) const MEGABYTES: usize = 4096;

const WORDS: usize = MEGABYTES / 32;

/// A set of megabyte indices 0..4096.
pub(crate) struct MegabyteSet {
    words: [u32; WORDS],
    /// A bit for each of `words` that is not 0.
    summary: [u32; WORDS / 32],
}

impl MegabyteSet {
    pub(crate) const fn new() -> Self {
        Self { words: [0; WORDS], summary: [0; WORDS / 32] }
    }

    pub(crate) fn insert(&mut self, mb: usize) {
        self.words[mb / 32] |= 1 << (mb % 32);
        self.summary[mb / 1024] |= 1 << (mb / 32 % 32);
    }

    pub(crate) fn words(&self) -> &[u32; WORDS] {
        &self.words
    }

    pub(crate) fn remove(&mut self, mb: usize) {
        let word = &mut self.words[mb / 32];
        *word &= !(1 << (mb % 32));
        if *word == 0 {
            self.summary[mb / 1024] &= !(1 << (mb / 32 % 32));
        }
    }

    pub(crate) fn contains(&self, mb: usize) -> bool {
        self.words[mb / 32] >> (mb % 32) & 1 != 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        // Not by `==`, which comes to a loop over bytes.
        self.summary.iter().fold(0, |all, word| all | word) == 0
    }

    /// The bits of the aligned sixteen megabytes (one supersection's worth) that hold `mb`; bit 0 is the lowest.
    pub(crate) fn group16(&self, mb: usize) -> u32 {
        self.words[mb / 32] >> (mb & 16) & 0xffff
    }

    /// The first member at or after `from`.
    pub(crate) fn next(&self, from: usize) -> Option<usize> {
        let word = from / 32;
        let bits = self.words.get(word)? & (u32::MAX << (from % 32));
        if bits != 0 {
            return Some(word * 32 + bits.trailing_zeros() as usize);
        }
        let word = Self::next_in(&self.summary, word + 1)?;
        Some(word * 32 + self.words[word].trailing_zeros() as usize)
    }

    /// The first bit that is set at or after `from`.
    fn next_in(words: &[u32], from: usize) -> Option<usize> {
        let mut word = from / 32;
        let mut bits = *words.get(word)? & (u32::MAX << (from % 32));
        while bits == 0 {
            word += 1;
            bits = *words.get(word)?;
        }
        Some(word * 32 + bits.trailing_zeros() as usize)
    }
}

impl FromIterator<usize> for MegabyteSet {
    fn from_iter<I: IntoIterator<Item = usize>>(megabytes: I) -> Self {
        let mut set = Self::new();
        megabytes.into_iter().for_each(|mb| set.insert(mb));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_visits_every_member_in_order() {
        let mut set = MegabyteSet::new();
        let members = [0, 31, 32, 63, 100, 4095];
        for mb in members {
            set.insert(mb);
        }
        let mut seen = [0; 6];
        let mut count = 0;
        let mut from = 0;
        while let Some(mb) = set.next(from) {
            seen[count] = mb;
            count += 1;
            from = mb + 1;
        }
        assert_eq!(seen, members);
        assert_eq!(count, 6);
        set.remove(4095);
        assert_eq!(set.next(101), None);
        assert_eq!(set.next(MEGABYTES), None);
    }

    #[test]
    fn group16_is_the_supersection_of_a_megabyte() {
        let mut set = MegabyteSet::new();
        set.insert(16);
        set.insert(31);
        set.insert(32);
        assert_eq!(set.group16(20), 0x8001);
        assert_eq!(set.group16(15), 0);
        assert_eq!(set.group16(47), 1);
    }
}
