//! Other switches, which hold from later on: when the guest's console has printed a text.
//!
//! A naive translation is measured, not booted: a boot takes it hundreds of times the instructions. So a guest may boot
//! with another one, until its console prints what the command line says. That is a point of the guest's own life: the
//! same one in each run, and behind whatever the kernel does before its first process.

use alloc::string::String;
use alloc::vec::Vec;

use crate::Switches;

/// The switches from some point on.
#[derive(Clone, Debug)]
pub struct Later {
    switches: Switches,
    until: String,
    /// As many of the last bytes as the text has, at most.
    last: Vec<u8>,
    due: bool,
}

impl Later {
    /// `switches` hold from when `until` has been printed. Nothing has been, so an empty text has.
    pub fn new(switches: Switches, until: &str) -> Later {
        Later { switches, until: until.into(), last: Vec::new(), due: until.is_empty() }
    }

    /// What holds then.
    pub fn switches(&self) -> Switches {
        self.switches
    }

    /// The guest's console prints a byte.
    pub fn printed(&mut self, byte: u8) {
        if self.due {
            return;
        }
        if self.last.len() == self.until.len() {
            self.last.remove(0);
        }
        self.last.push(byte);
        self.due = self.last == self.until.as_bytes();
    }

    /// Whether the text has been printed.
    pub fn is_due(&self) -> bool {
        self.due
    }
}
