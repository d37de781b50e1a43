//! Which addresses are behind which trunk, as learned from the frames that came from there.
//!
//! Each port has room for [`MOST`] addresses of its own: a sender that invents addresses drives out its own, oldest
//! first. An address that was not heard of for [`AGE`] seconds is forgotten, as 802.1D has it (table 7-5).

use alloc::vec;
use alloc::vec::Vec;

use super::Mac;

/// Addresses per port.
pub(super) const MOST: usize = 64;
/// Seconds.
pub(super) const AGE: u64 = 300;

#[derive(Clone, Copy, Debug)]
struct Entry {
    mac: Mac,
    heard: u64,
}

/// The table.
#[derive(Clone, Debug)]
pub(super) struct Table {
    ports: Vec<Vec<Entry>>,
}

impl Table {
    pub(super) fn new(ports: usize) -> Self {
        Self { ports: vec![Vec::new(); ports] }
    }

    /// A frame came from `mac` at `port`. If it was known elsewhere, it has moved.
    pub(super) fn learn(&mut self, mac: Mac, port: usize, now: u64) {
        for (other, entries) in self.ports.iter_mut().enumerate() {
            if other != port {
                entries.retain(|entry| entry.mac != mac);
            }
        }
        let Some(entries) = self.ports.get_mut(port) else { return };
        let entry = Entry { mac, heard: now };
        if let Some(known) = entries.iter_mut().find(|known| known.mac == mac) {
            *known = entry;
        } else if entries.len() < MOST {
            entries.push(entry);
        } else if let Some(oldest) = entries.iter_mut().min_by_key(|entry| entry.heard) {
            *oldest = entry;
        }
    }

    /// The port behind which `mac` is.
    pub(super) fn find(&self, mac: &Mac, now: u64) -> Option<usize> {
        let known = |entry: &Entry| entry.mac == *mac && now.saturating_sub(entry.heard) <= AGE;
        self.ports.iter().position(|entries| entries.iter().any(known))
    }

    /// Forgets what was learned at a port.
    pub(super) fn forget(&mut self, port: usize) {
        if let Some(entries) = self.ports.get_mut(port) {
            entries.clear();
        }
    }
}
