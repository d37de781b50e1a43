//! Words of memory on their way from a store to where instructions are fetched, and to where walks read.
//!
//! A word that was written is on one of these steps (A3.5.4, B2.2.7 to B2.2.9):
//!
//! ```text
//! written ──clean──► cleaned ──DSB──► settled ──ICIMVAU, ICIALLU──► invalidated ──DSB──► complete ──ISB──► in step
//! ```
//!
//! A store takes it back to the first one. A store that goes past the data cache begins at the second one. Instructions
//! may be fetched when it is in step. Walks that do not look into the data cache see it from the third one on; others,
//! from the next DSB on. The instruction caches of A8 and A9 choose their set by the virtual address, and with 8 KiB
//! in a way one bit of that is not in the page: ICIMVAU counts for the addresses with the same bit, its **colour**.
//!
//! The state is a byte for each word of memory. Operations find the words that they concern by lists of lines.

use crate::complaint::Class;

/// The granule of lists: the smaller line of the two cores, in words.
const LINE_WORDS: usize = 8;
const LINE_SHIFT: u32 = 5;

// The steps, in the lower three bits of a word's state.
const STEP: u8 = 7;
const IN_STEP: u8 = 0;
const WRITTEN: u8 = 1;
const CLEANED: u8 = 2;
const SETTLED: u8 = 3;
const INVALIDATED: u8 = 4;
const COMPLETE: u8 = 5;
/// In step, but for a colour or the predictor.
const HALF: u8 = 6;
/// The colours that were invalidated, a bit each.
const COLOURS: u8 = 3 << 3;
const COLOUR_SHIFT: u32 = 3;
/// The predictor was invalidated since, or need not be.
const PREDICTED: u8 = 1 << 5;
/// Written, and no DSB since.
const UNSETTLED: u8 = 1 << 7;

/// A list of lines, each in it at most once.
#[derive(Debug)]
struct List {
    lines: Vec<u32>,
    /// The flag of those that are in it.
    flag: u8,
}

impl List {
    const fn new(flag: u8) -> List {
        List { lines: Vec::new(), flag }
    }

    fn put(&mut self, flags: &mut [u8], line: usize) {
        if flags[line] & self.flag == 0 {
            flags[line] |= self.flag;
            self.lines.push(line as u32);
        }
    }

    /// Takes all lines out.
    fn take(&mut self, flags: &mut [u8]) -> Vec<u32> {
        self.lines.iter().for_each(|&line| flags[line as usize] &= !self.flag);
        std::mem::take(&mut self.lines)
    }
}

/// The board's memory.
#[derive(Debug)]
pub struct Code {
    start: u32,
    words: Vec<u8>,
    /// For each line, which lists it is in.
    flags: Vec<u8>,
    /// For each line, how often the predictor had been invalidated when it was written last.
    written_at: Vec<u32>,
    predictor: u32,
    /// Whether anything was written since all was cleaned.
    is_written: bool,
    /// Whether the predictor must be invalidated for new code (ID_MMFR1\[31:28\]).
    needs_predictor: bool,
    unsettled: List,
    cleaned: List,
    settled: List,
    invalidated: List,
    complete: List,
    /// How many words came to be in step.
    pub done: u64,
}

impl Code {
    /// So many bytes of memory, all in step.
    #[must_use]
    pub fn new(start: u32, bytes: u32, needs_predictor: bool) -> Code {
        let words = bytes as usize / 4;
        Code {
            start,
            words: vec![0; words],
            flags: vec![0; words.div_ceil(LINE_WORDS)],
            written_at: vec![0; words.div_ceil(LINE_WORDS)],
            // So that nothing was written when it had the same number.
            predictor: 1,
            is_written: false,
            needs_predictor,
            unsettled: List::new(1),
            cleaned: List::new(2),
            settled: List::new(4),
            invalidated: List::new(8),
            complete: List::new(16),
            done: 0,
        }
    }

    fn index(&self, physical: u32) -> Option<usize> {
        let at = (physical.wrapping_sub(self.start) >> 2) as usize;
        (at < self.words.len()).then_some(at)
    }

    /// A store, which does not cross a page.
    pub fn write(&mut self, physical: u32, bytes: u32, cached: bool) {
        let Some(first) = self.index(physical) else { return };
        let last = self.index(physical.wrapping_add(bytes.max(1) - 1)).unwrap_or(first);
        self.is_written = true;
        for at in first..=last {
            let line = at / LINE_WORDS;
            self.words[at] = UNSETTLED | if cached { WRITTEN } else { CLEANED };
            self.written_at[line] = self.predictor;
            self.unsettled.put(&mut self.flags, line);
            if !cached {
                self.cleaned.put(&mut self.flags, line);
            }
        }
    }

    /// The words of a line that are on a step go on to another.
    fn advance(&mut self, line: u32, from: u8, to: u8) -> bool {
        let first = line as usize * LINE_WORDS;
        let end = self.words.len().min(first + LINE_WORDS);
        let mut any = false;
        for word in &mut self.words[first..end] {
            if *word & STEP == from {
                *word = *word & !STEP | to;
                any = true;
            }
        }
        any
    }

    /// The lines of 32 bytes in a cache's line.
    fn lines(&self, physical: u32, line_bytes: u32) -> impl Iterator<Item = u32> + use<> {
        let first = physical & !(line_bytes - 1);
        let (start, end) = (self.start, self.flags.len() as u32);
        (0..line_bytes >> LINE_SHIFT)
            .map(move |n| first.wrapping_sub(start).wrapping_add(n << LINE_SHIFT) >> LINE_SHIFT)
            .filter(move |&line| line < end)
    }

    /// A line of the data cache is cleaned.
    pub fn clean(&mut self, physical: u32, line_bytes: u32) {
        for line in self.lines(physical, line_bytes) {
            if self.advance(line, WRITTEN, CLEANED) {
                self.cleaned.put(&mut self.flags, line as usize);
            }
        }
    }

    /// Lines of the data cache are cleaned by set and way. Which ones, would be a long way to find out: all are.
    pub fn clean_all(&mut self) {
        // Loops over sets and ways store nothing.
        if !std::mem::take(&mut self.is_written) {
            return;
        }
        for line in 0..self.flags.len() as u32 {
            if self.advance(line, WRITTEN, CLEANED) {
                self.cleaned.put(&mut self.flags, line as usize);
            }
        }
    }

    /// The instruction cache's line at an address is invalidated.
    pub fn invalidate(&mut self, address: u32, physical: u32, line_bytes: u32) {
        for line in self.lines(physical, line_bytes) {
            self.invalidate_line(line, 1 << (COLOUR_SHIFT + (address >> 12 & 1)));
        }
    }

    fn invalidate_line(&mut self, line: u32, colours: u8) {
        let first = line as usize * LINE_WORDS;
        let end = self.words.len().min(first + LINE_WORDS);
        let mut any = false;
        for word in &mut self.words[first..end] {
            match *word & STEP {
                SETTLED => {
                    *word = *word & !STEP | INVALIDATED | colours;
                    any = true;
                }
                // What is farther stays where it is, and has more colours. That the barriers are due for those again is
                // not looked at.
                INVALIDATED..=HALF => *word |= colours,
                _ => {}
            }
        }
        if any {
            self.invalidated.put(&mut self.flags, line as usize);
        }
    }

    /// The whole instruction cache is invalidated, and the predictor with it (B4.2.1).
    pub fn invalidate_all(&mut self) {
        for line in self.settled.take(&mut self.flags) {
            self.invalidate_line(line, COLOURS);
        }
        self.predictor = self.predictor.wrapping_add(1);
    }

    /// What is predicted of a word is invalidated. At which of its addresses is not looked at.
    pub fn invalidate_prediction(&mut self, physical: u32) {
        if let Some(at) = self.index(physical)
            && self.words[at] & STEP != IN_STEP
        {
            self.words[at] |= PREDICTED;
        }
    }

    /// The predictor is invalidated.
    pub fn invalidate_predictor(&mut self) {
        self.predictor = self.predictor.wrapping_add(1);
    }

    /// A DSB.
    pub fn dsb(&mut self) {
        for line in self.unsettled.take(&mut self.flags) {
            let first = line as usize * LINE_WORDS;
            let end = self.words.len().min(first + LINE_WORDS);
            self.words[first..end].iter_mut().for_each(|word| *word &= !UNSETTLED);
        }
        for line in self.cleaned.take(&mut self.flags) {
            if self.advance(line, CLEANED, SETTLED) {
                self.settled.put(&mut self.flags, line as usize);
            }
        }
        for line in self.invalidated.take(&mut self.flags) {
            if self.advance(line, INVALIDATED, COMPLETE) {
                self.complete.put(&mut self.flags, line as usize);
            }
        }
    }

    /// An ISB, or an exception's entry or return.
    pub fn synchronise(&mut self) {
        if self.complete.lines.is_empty() {
            return;
        }
        for line in self.complete.take(&mut self.flags) {
            let first = line as usize * LINE_WORDS;
            let end = self.words.len().min(first + LINE_WORDS);
            let predicted = !self.needs_predictor || self.written_at[line as usize] != self.predictor;
            for word in &mut self.words[first..end] {
                if *word & STEP == COMPLETE {
                    self.done += 1;
                    let predicted = predicted || *word & PREDICTED != 0;
                    *word = match (*word & COLOURS, predicted) {
                        (COLOURS, true) => *word & UNSETTLED | IN_STEP,
                        (colours, _) => *word & UNSETTLED | HALF | colours | if predicted { PREDICTED } else { 0 },
                    };
                }
            }
        }
    }

    /// What is wrong with executing the word at an address.
    #[inline]
    #[must_use]
    pub fn fetch(&self, address: u32, physical: u32, cached: bool) -> Option<Class> {
        let at = (physical.wrapping_sub(self.start) >> 2) as usize;
        let state = *self.words.get(at)?;
        if state & STEP == IN_STEP {
            return None;
        }
        self.judge(at, state, address, cached)
    }

    fn judge(&self, at: usize, state: u8, address: u32, cached: bool) -> Option<Class> {
        let colour = 1 << (COLOUR_SHIFT + (address >> 12 & 1));
        match state & STEP {
            WRITTEN => Some(Class::CodeNotCleaned),
            CLEANED => Some(Class::CodeNotSettled),
            // Where instructions are not cached, none is old.
            _ if !cached => None,
            SETTLED => Some(Class::CodeNotInvalidated),
            INVALIDATED => Some(Class::CodeInvalidationNotSettled),
            COMPLETE => Some(Class::CodeNotSynchronised),
            _ if state & colour == 0 => Some(Class::CodeNotInvalidated),
            // Since then, it may have been.
            _ if state & PREDICTED == 0 && self.written_at[at / LINE_WORDS] == self.predictor => {
                Some(Class::PredictorNotInvalidated)
            }
            _ => None,
        }
    }

    /// What was executed, or complained of, is in step: the next one is told of what is new.
    pub fn forgive(&mut self, physical: u32) {
        if let Some(at) = self.index(physical) {
            self.words[at] &= UNSETTLED;
        }
    }

    /// Whether a walk sees what was written to a word last. A coherent one looks into the data cache.
    #[must_use]
    pub fn is_seen(&self, physical: u32, coherent: bool) -> bool {
        let Some(at) = self.index(physical) else { return true };
        let state = self.words[at];
        if coherent { state & UNSETTLED == 0 } else { !matches!(state & STEP, WRITTEN | CLEANED) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u32 = 0x4000_1000;

    fn memory(needs_predictor: bool) -> Code {
        Code::new(0x4000_0000, 0x1_0000, needs_predictor)
    }

    /// The state after all but one of the steps that are due.
    fn without(step: usize) -> Option<Class> {
        let mut code = memory(true);
        code.write(AT, 4, true);
        let steps: [fn(&mut Code); 6] = [
            |c| c.clean(AT, 64),
            Code::dsb,
            |c| c.invalidate(AT, AT, 64),
            Code::invalidate_predictor,
            Code::dsb,
            Code::synchronise,
        ];
        for (n, one) in steps.into_iter().enumerate() {
            if n != step {
                one(&mut code);
            }
        }
        code.fetch(AT, AT, true)
    }

    #[test]
    fn every_step_is_needed() {
        assert_eq!(without(9), None);
        assert_eq!(without(0), Some(Class::CodeNotCleaned));
        // Without the first DSB, the invalidation comes too early, and the second one settles the cleaning.
        assert_eq!(without(1), Some(Class::CodeNotInvalidated));
        assert_eq!(without(2), Some(Class::CodeNotInvalidated));
        assert_eq!(without(3), Some(Class::PredictorNotInvalidated));
        assert_eq!(without(4), Some(Class::CodeInvalidationNotSettled));
        assert_eq!(without(5), Some(Class::CodeNotSynchronised));
    }

    #[test]
    fn neighbours_are_left_alone() {
        let mut code = memory(false);
        code.write(AT + 4, 4, true);
        assert_eq!(code.fetch(AT, AT, true), None);
        assert_eq!(code.fetch(AT + 8, AT + 8, true), None);
        assert_eq!(code.fetch(AT + 4, AT + 4, true), Some(Class::CodeNotCleaned));
        // Bytes count for their words, and a store may cross from one to the next.
        code.write(AT + 0x22, 4, true);
        assert!(code.fetch(AT, AT + 0x20, true).is_some() && code.fetch(AT, AT + 0x24, true).is_some());
        assert_eq!(code.fetch(AT, AT + 0x28, true), None);
        code.forgive(AT + 4);
        assert_eq!(code.fetch(AT + 4, AT + 4, true), None);
        // Outside of memory.
        code.write(0x1000_0000, 4, true);
        code.clean(0x3fff_ffe0, 64);
        assert_eq!(code.fetch(0, 0x1000_0000, true), None);
    }

    #[test]
    fn an_invalidation_is_of_a_colour() {
        let mut code = memory(false);
        code.write(AT, 4, true);
        code.clean(AT, 64);
        code.dsb();
        code.invalidate(0x8000_2000, AT, 64);
        code.dsb();
        code.synchronise();
        assert_eq!(code.fetch(0x9000_4000, AT, true), None);
        assert_eq!(code.fetch(0x8000_1000, AT, true), Some(Class::CodeNotInvalidated));
        code.invalidate(0x8000_1000, AT, 64);
        code.dsb();
        code.synchronise();
        assert_eq!(code.fetch(0x8000_1000, AT, true), None);
        assert_eq!(code.fetch(0x8000_2000, AT, true), None);
    }

    #[test]
    fn predictions_are_invalidated_by_words() {
        let mut code = memory(true);
        code.write(AT, 8, true);
        code.clean(AT, 64);
        code.dsb();
        code.invalidate(AT, AT, 64);
        code.invalidate_prediction(AT);
        code.dsb();
        code.synchronise();
        assert_eq!(code.fetch(AT, AT, true), None);
        assert_eq!(code.fetch(AT + 4, AT + 4, true), Some(Class::PredictorNotInvalidated));
        code.invalidate_prediction(AT + 4);
        assert_eq!(code.fetch(AT + 4, AT + 4, true), None);
        // What is written afterwards may be predicted again.
        code.write(AT, 4, true);
        code.clean(AT, 64);
        code.dsb();
        code.invalidate(AT, AT, 64);
        code.dsb();
        code.synchronise();
        assert_eq!(code.fetch(AT, AT, true), Some(Class::PredictorNotInvalidated));
    }

    #[test]
    fn invalidating_all_does_for_all_colours_and_the_predictor() {
        let mut code = memory(true);
        (0..100).for_each(|n| code.write(AT + 4 * n, 4, true));
        (0..8).for_each(|n| code.clean(AT + 64 * n, 64));
        code.dsb();
        code.invalidate_all();
        code.dsb();
        code.synchronise();
        assert!((0..100).all(|n| code.fetch(0x1000, AT + 4 * n, true).is_none()));
        assert_eq!(code.done, 100);
        // Too early is not at all.
        code.write(AT, 4, true);
        code.invalidate_all();
        code.clean(AT, 64);
        code.dsb();
        code.synchronise();
        assert_eq!(code.fetch(AT, AT, true), Some(Class::CodeNotInvalidated));
    }

    #[test]
    fn stores_past_the_cache_need_no_cleaning() {
        let mut code = memory(false);
        code.write(AT, 4, false);
        assert_eq!(code.fetch(AT, AT, false), Some(Class::CodeNotSettled));
        code.dsb();
        // An instruction cache that is off holds nothing.
        assert_eq!(code.fetch(AT, AT, false), None);
        assert_eq!(code.fetch(AT, AT, true), Some(Class::CodeNotInvalidated));
    }

    #[test]
    fn walks_see_what_was_cleaned_and_settled() {
        let mut code = memory(false);
        assert!(code.is_seen(AT, false) && code.is_seen(AT, true));
        code.write(AT, 4, true);
        assert!(!code.is_seen(AT, false) && !code.is_seen(AT, true));
        code.dsb();
        assert!(!code.is_seen(AT, false) && code.is_seen(AT, true));
        code.clean(AT, 32);
        assert!(!code.is_seen(AT, false));
        code.dsb();
        assert!(code.is_seen(AT, false));
        code.write(AT, 4, true);
        code.clean_all();
        code.dsb();
        assert!(code.is_seen(AT, false));
    }
}
