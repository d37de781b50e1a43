//! How long the guest that has the core may keep it, and who has it back when somebody woke in between.
//!
//! A guest that was interrupted goes on for what is left of its slice. If each wake of one guest made the slice of
//! another longer, a third would wait without end.

/// The slice of whoever has the core, in ticks of the host's timer. Guests go by number.
#[derive(Clone, Copy, Debug)]
pub struct Slices {
    length: u64,
    /// Whose slice it is, and when it is over.
    holder: Option<(usize, u64)>,
    /// Who was interrupted, and what is left of its slice.
    cut: Option<(usize, u64)>,
}

impl Slices {
    /// Slices of `length` ticks. Nobody has one.
    pub fn new(length: u64) -> Slices {
        Slices { length, holder: None, cut: None }
    }

    /// Who is to go on at `now`, of those that are `ready`: the holder of a slice that is not over, or whoever was
    /// interrupted by one that wants no more.
    pub fn heir(&self, now: u64, ready: impl Fn(usize) -> bool) -> Option<usize> {
        match self.holder {
            Some((_, end)) if now >= end => None,
            Some((at, _)) if ready(at) => Some(at),
            _ => self.cut.map(|(at, _)| at).filter(|&at| ready(at)),
        }
    }

    /// Who has used up its slice at `now`.
    pub fn used_up(&self, now: u64) -> Option<usize> {
        self.holder.filter(|&(_, end)| now >= end).map(|(at, _)| at)
    }

    /// Guest `at` has the core from `now` on; others that are `ready` want it. Gives the end of its slice.
    pub fn turn(&mut self, at: usize, now: u64, ready: impl Fn(usize) -> bool) -> u64 {
        let before = self.holder.map(|(holder, end)| (holder, end.saturating_sub(now)));
        // Who interrupts another and uses up a slice of its own has not done so for a moment.
        let over = matches!(before, Some((_, 0)));
        self.cut = self.cut.filter(|&(cut, _)| !over && ready(cut));
        let length = match (before, self.cut) {
            (Some((holder, left)), _) if holder == at && left != 0 => left,
            (_, Some((cut, left))) if cut == at => {
                self.cut = None;
                left
            }
            (Some((holder, left)), None) if left != 0 && ready(holder) => {
                self.cut = before;
                self.length
            }
            _ => self.length,
        };
        let end = now + length;
        self.holder = Some((at, end));
        end
    }
}
