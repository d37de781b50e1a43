//! What others have measured, to be compared with what Spica does: STAR's techniques to spill registers ([`spill`]),
//! and its [`shadow_stack`]. Feature `papers`; `absent.rs` stands here without it, and has the same for the rest of the
//! crate.

pub mod shadow_stack;
pub mod spill;

pub(crate) use spill::{Spilling, room};

use crate::layout::PAGE_WORDS;
use crate::options::{Options, Spill};

/// What of `options` this build does not have, as a list of switches has it: nothing.
#[must_use]
pub fn lacking(_: &Options) -> Option<&'static str> {
    None
}

/// Whether translated code uses the core's TPIDRURW, so that the guest's is elsewhere.
pub(crate) fn takes_tpidrurw(options: &Options) -> bool {
    options.spill == Spill::Tpidrurw
}

/// What code pages need beside blocks.
pub(crate) struct Pages {
    /// Lightweight traps were made at some time.
    trapping: bool,
}

impl Pages {
    /// For code that is made with `options`.
    pub(crate) fn new(options: &Options) -> Self {
        Self { trapping: options.spill.traps() }
    }

    /// Code is made with `options` from now on.
    pub(crate) fn set_options(&mut self, options: &Options) {
        self.trapping |= options.spill.traps();
    }

    /// Prepares a page that is going to be used. So many of its words were written, from its start.
    pub(crate) fn begin(&self, options: &Options, words: &mut [u32; PAGE_WORDS]) -> usize {
        if self.trapping {
            // No part of a privileged sequence stays from before.
            words.fill(spill::UNDEFINED);
        }
        if options.shadow_stack {
            shadow_stack::begin_page(words);
        }
        match (self.trapping, options.shadow_stack) {
            (true, _) => PAGE_WORDS,
            (false, true) => shadow_stack::FRONT,
            (false, false) => 0,
        }
    }
}
