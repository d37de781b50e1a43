//! Which pages of the board's RAM guests have given away, and who uses them meanwhile.
//!
//! A page that was given lies in the middle of its guest's RAM, and that guest may want it back at any time. So whoever
//! borrows a page has a *ticket*, not an address: when the page must go back, its contents move to another one. Only
//! where there is no other one does its owner have to wait.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A borrowed page, whichever it is now.
pub type Ticket = u32;

/// What has to be done for a page that goes back to its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Return {
    /// Nothing: nobody has used it.
    Idle,
    /// Its contents are to be moved to this page.
    Moved(u32),
    /// It cannot go back: it is in use, and there is no other.
    InUse,
}

/// See the module's text. Pages go by their address divided by 4096.
#[derive(Default)]
pub struct Lent {
    /// The page of bit 0.
    first: u32,
    /// Pages that nobody uses, a bit each.
    idle: Vec<u32>,
    idle_count: u32,
    /// No bit is set in the words before.
    from: usize,
    /// The page of each ticket.
    tickets: Vec<Option<u32>>,
    /// The tickets that nobody has.
    spare: Vec<Ticket>,
    by_page: BTreeMap<u32, Ticket>,
    /// Somebody may have one back now who could not before.
    changed: bool,
}

impl Lent {
    /// Of `count` pages from `first` on, none is given. `most` can be borrowed at a time.
    pub fn new(first: u32, count: u32, most: u32) -> Lent {
        Lent {
            first,
            idle: alloc::vec![0; count.div_ceil(32) as usize],
            tickets: Vec::with_capacity(most as usize),
            spare: Vec::with_capacity(most as usize),
            ..Lent::default()
        }
    }

    /// Pages that nobody uses, and pages that are borrowed.
    pub fn counts(&self) -> (u32, usize) {
        (self.idle_count, self.by_page.len())
    }

    /// True once after there are more idle pages than before.
    pub fn take_change(&mut self) -> bool {
        core::mem::take(&mut self.changed)
    }

    fn set_idle(&mut self, page: u32, idle: bool) -> bool {
        let index = page.wrapping_sub(self.first) as usize;
        let Some(word) = self.idle.get_mut(index / 32) else { return false };
        let bit = 1 << (index % 32);
        if (*word & bit != 0) == idle {
            return false;
        }
        *word ^= bit;
        if idle {
            self.idle_count += 1;
            self.from = self.from.min(index / 32);
            self.changed = true;
        } else {
            self.idle_count -= 1;
        }
        true
    }

    fn take_idle(&mut self) -> Option<u32> {
        let words = self.idle.get(self.from..)?;
        let skipped = words.iter().position(|&word| word != 0);
        self.from += skipped.unwrap_or(words.len());
        let word = *self.idle.get(self.from)?;
        let page = self.first + self.from as u32 * 32 + word.trailing_zeros();
        self.set_idle(page, false);
        Some(page)
    }

    /// A guest gives a page away.
    pub fn give(&mut self, page: u32) {
        self.set_idle(page, true);
    }

    /// A guest wants a page back that it has given.
    pub fn take_back(&mut self, page: u32) -> Return {
        let Some(&ticket) = self.by_page.get(&page) else {
            self.set_idle(page, false);
            return Return::Idle;
        };
        let Some(other) = self.take_idle() else { return Return::InUse };
        self.by_page.remove(&page);
        self.by_page.insert(other, ticket);
        self.tickets[ticket as usize] = Some(other);
        Return::Moved(other)
    }

    /// Borrows a page. What is in it is anything.
    pub fn borrow(&mut self) -> Option<Ticket> {
        if self.spare.is_empty() && self.tickets.len() == self.tickets.capacity() {
            return None;
        }
        let page = self.take_idle()?;
        let ticket = self.spare.pop().unwrap_or_else(|| {
            self.tickets.push(None);
            self.tickets.len() as Ticket - 1
        });
        self.tickets[ticket as usize] = Some(page);
        self.by_page.insert(page, ticket);
        Some(ticket)
    }

    /// The page of a ticket, where it is now.
    pub fn page(&self, ticket: Ticket) -> Option<u32> {
        self.tickets.get(ticket as usize).copied().flatten()
    }

    /// A borrowed page is not needed any more. Whoever calls this has cleared it.
    pub fn release(&mut self, ticket: Ticket) {
        let Some(page) = self.tickets.get_mut(ticket as usize).and_then(Option::take) else { return };
        self.by_page.remove(&page);
        self.spare.push(ticket);
        self.set_idle(page, true);
    }
}
