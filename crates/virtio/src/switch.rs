//! A network switch between guests: an Ethernet bridge after IEEE 802.1D, without its spanning tree.
//!
//! A port is of one of two kinds ([`Port`]):
//!
//! * a *station* has one address, which the host gave it, and sends with no other. It gets what is for that address or
//!   for a group. So no guest gets another's frames by claiming its address, and there is nothing to learn.
//! * a *trunk* has whole networks behind it: the board's own network, or a guest that is a bridge itself. Which
//!   addresses are there is learned from the frames that come (`table`); an address that is not known goes to all
//!   trunks.
//!
//! A guest that sends without end costs the others nothing but the work that its own budget pays for. A queue towards a
//! port is divided among the senders, so that one that fills its part has its own frames dropped and no other's. Memory
//! is taken when the switch is made; frames take none.

mod fifo;
mod table;

use alloc::vec::Vec;

use crate::backend::Network;
use crate::net::{FRAME_LEAST, FRAME_MOST};
use fifo::Fifo;
use table::Table;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// The most ports.
pub const MOST_PORTS: usize = 64;

/// What is at a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Port {
    /// One station with this address.
    Station(Mac),
    /// Networks, whose addresses are learned.
    Trunk,
}

/// What happened at a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Frames that came from the port and were accepted.
    pub sent: u64,
    /// Frames that were delivered to it.
    pub delivered: u64,
    /// Frames for it that found its queue, or their sender's part of it, full.
    pub dropped: u64,
    /// Frames from it that were refused: no frame at all, or with an address that it must not use.
    pub refused: u64,
}

#[derive(Clone, Debug)]
struct Side {
    kind: Port,
    queue: Fifo,
    counters: Counters,
}

/// The switch.
#[derive(Clone, Debug)]
pub struct Switch {
    ports: Vec<Side>,
    table: Table,
    /// A bit for each port whose queue has something new.
    pending: u64,
    seconds: u64,
}

/// For a group of stations rather than one.
const fn is_group(mac: &Mac) -> bool {
    mac[0] & 1 != 0
}

/// Addresses that a bridge does not forward: what is said there is between neighbours (IEEE 802.1D, table 7-10).
const fn is_link_local(mac: &Mac) -> bool {
    matches!(mac, [0x01, 0x80, 0xc2, 0x00, 0x00, 0x00..=0x0f])
}

impl Switch {
    /// A switch with these ports, at most [`MOST_PORTS`], and queues of `depth` frames each. A queue takes 1.5 KiB for
    /// each frame. `depth` should be some times the number of ports: it is divided among them.
    #[must_use]
    pub fn new(ports: &[Port], depth: usize) -> Self {
        let count = ports.len().min(MOST_PORTS);
        let sides = ports.iter().take(count).map(|&kind| Side {
            kind,
            queue: Fifo::new(depth, count),
            counters: Counters::default(),
        });
        Self { ports: sides.collect(), table: Table::new(count), pending: 0, seconds: 0 }
    }

    /// It is now `seconds` since some moment: what was learned is forgotten after a while.
    pub fn set_time(&mut self, seconds: u64) {
        self.seconds = self.seconds.max(seconds);
    }

    /// The ports, one bit each, for which frames have come since the last call: their devices are to be
    /// [poked](crate::Slot::poke).
    #[must_use]
    pub fn take_pending(&mut self) -> u64 {
        core::mem::take(&mut self.pending)
    }

    /// What happened at a port, if there is such a port.
    #[must_use]
    pub fn counters(&self, port: usize) -> Option<Counters> {
        self.ports.get(port).map(|side| side.counters)
    }

    /// Forgets the frames that wait for a port, and the addresses that were learned there: its machine starts anew.
    pub fn clear(&mut self, port: usize) {
        if let Some(side) = self.ports.get_mut(port) {
            side.queue.clear();
            self.table.forget(port);
        }
    }

    /// Whether a station at another port has this address.
    fn is_taken(&self, mac: &Mac, port: usize) -> bool {
        self.ports.iter().enumerate().any(|(other, side)| other != port && side.kind == Port::Station(*mac))
    }

    /// Whether `port` may send from that address. A trunk's are learned on the way.
    fn admit(&mut self, port: usize, source: Mac) -> bool {
        match self.ports.get(port).map(|side| side.kind) {
            Some(Port::Station(own)) => source == own,
            Some(Port::Trunk) if is_group(&source) || self.is_taken(&source, port) => false,
            Some(Port::Trunk) => {
                self.table.learn(source, port, self.seconds);
                true
            }
            None => false,
        }
    }

    /// Whether a frame for `target` goes to port `to`, which is not where it came from.
    fn wants(&self, to: usize, target: &Mac, learned: Option<usize>) -> bool {
        match self.ports.get(to).map(|side| side.kind) {
            Some(Port::Station(own)) => is_group(target) || own == *target,
            Some(Port::Trunk) => learned.is_none_or(|at| at == to),
            None => false,
        }
    }
}

impl Network for Switch {
    fn send(&mut self, port: usize, frame: &[u8]) {
        let addresses = frame.first_chunk::<6>().zip(frame.get(6..).and_then(|rest| rest.first_chunk::<6>()));
        let Some((&target, &source)) = addresses else { return };
        let sound = (FRAME_LEAST..=FRAME_MOST).contains(&frame.len());
        let accepted = sound && self.admit(port, source);
        let Some(side) = self.ports.get_mut(port) else { return };
        if !accepted {
            side.counters.refused += 1;
            return;
        }
        side.counters.sent += 1;
        if is_link_local(&target) {
            return;
        }
        // Where the address is known to be; a group is everywhere.
        let station = self.ports.iter().position(|side| side.kind == Port::Station(target));
        let learned = if is_group(&target) { None } else { station.or(self.table.find(&target, self.seconds)) };
        for to in (0..self.ports.len()).filter(|&to| to != port) {
            if !self.wants(to, &target, learned) {
                continue;
            }
            let Some(side) = self.ports.get_mut(to) else { continue };
            if side.queue.push(port, frame) {
                self.pending |= 1 << to;
            } else {
                side.counters.dropped += 1;
            }
        }
    }

    fn next(&self, port: usize) -> Option<&[u8]> {
        self.ports.get(port)?.queue.front()
    }

    fn pop(&mut self, port: usize) {
        if let Some(side) = self.ports.get_mut(port)
            && side.queue.pop()
        {
            side.counters.delivered += 1;
        }
    }
}

#[cfg(test)]
mod tests;
