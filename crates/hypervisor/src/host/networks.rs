//! The guests' networks: a switch for each name in the manifest, one of them perhaps with the uplink, and who is to be
//! told of frames.

use alloc::string::String;
use alloc::vec::Vec;

use spica_bundle::GuestSpec;
use spica_virtio::backend::Network;
use spica_virtio::switch::{Counters, Port, Switch};

use super::pending::PendingSlots;
use super::uplink::Uplink;
use crate::board::Line;
use crate::contain::shared;

/// Frames that wait for a card, at most; each takes 1.5 KiB.
const DEPTH: usize = 64;
/// Bytes of the heap that a card takes.
pub const CARD_BYTES: u32 = DEPTH as u32 * 1600;

/// A network card of a guest.
struct Card {
    switch: usize,
    /// The port of that switch.
    port: usize,
    guest: usize,
    /// The slot in the guest's machine.
    slot: usize,
}

/// The networks of a board. A card's number is its place among the cards of all guests, in the manifest's order.
#[derive(Default)]
pub struct Networks {
    switches: Vec<Switch>,
    cards: Vec<Card>,
    /// The uplink, with its switch and the port of that.
    uplink: Option<(Uplink, usize, usize)>,
}

impl Networks {
    /// The networks of these guests, whose cards are in the slots behind their disks. The uplink is at the switch of
    /// that name, at which there is a card.
    pub fn new(guests: &[GuestSpec<'_>], uplink: Option<(&str, Uplink)>) -> Networks {
        let mut names: Vec<String> = Vec::new();
        let mut ports: Vec<Vec<Port>> = Vec::new();
        let mut cards = Vec::new();
        for (guest, spec) in guests.iter().enumerate() {
            for (at, network) in spec.options.networks.iter().enumerate() {
                let switch = names.iter().position(|name| *name == network.name).unwrap_or_else(|| {
                    names.push(network.name.clone());
                    ports.push(Vec::new());
                    names.len() - 1
                });
                cards.push(Card { switch, port: ports[switch].len(), guest, slot: spec.disks.len() + at });
                ports[switch].push(Port::Station(network.mac.0));
            }
        }
        let uplink = uplink.and_then(|(name, uplink)| {
            let switch = names.iter().position(|other| other == name)?;
            ports[switch].push(Port::Trunk);
            Some((uplink, switch, ports[switch].len() - 1))
        });
        let switches = ports.iter().map(|ports| Switch::new(ports, DEPTH)).collect();
        Networks { switches, cards, uplink }
    }

    /// The number of a guest's first card.
    pub fn first_card(&self, guest: usize) -> usize {
        self.cards.iter().position(|card| card.guest >= guest).unwrap_or(self.cards.len())
    }

    /// The uplink's interrupt.
    pub fn uplink_line(&self) -> Option<Line> {
        self.uplink.as_ref().map(|(uplink, ..)| uplink.line())
    }

    /// Moves frames between the uplink and its switch, at `seconds` since some moment. True if so many have come that
    /// no more are to be taken before the [next window](super::uplink::WINDOW).
    pub fn serve_uplink(&mut self, seconds: u64, new_window: bool) -> bool {
        let Some((uplink, switch, port)) = &mut self.uplink else { return false };
        let switch = &mut self.switches[*switch];
        switch.set_time(seconds);
        if new_window {
            uplink.begin_window();
        }
        uplink.interrupt(switch, *port)
    }

    /// Notes for whom frames have come, and sends those for the uplink. True if any is for another guest than
    /// `current`.
    pub fn mark_pending(&mut self, pending: &mut PendingSlots, current: usize) -> bool {
        let mut others = false;
        for (index, switch) in self.switches.iter_mut().enumerate() {
            let ports = switch.take_pending();
            if ports == 0 {
                continue;
            }
            if let Some((uplink, at, port)) = &mut self.uplink
                && *at == index
                && ports >> *port & 1 != 0
            {
                uplink.transmit(switch, *port);
            }
            for card in self.cards.iter().filter(|card| card.switch == index && ports >> card.port & 1 != 0) {
                pending.tell(card.guest, card.slot);
                others |= card.guest != current;
            }
        }
        others
    }

    /// A guest starts anew: what waited for it is gone.
    pub fn clear(&mut self, guest: usize) {
        for card in self.cards.iter().filter(|card| card.guest == guest) {
            self.switches[card.switch].clear(card.port);
        }
    }

    /// What happened at a guest's cards.
    pub fn counters(&self, guest: usize) -> impl Iterator<Item = Counters> + '_ {
        let cards = self.cards.iter().filter(move |card| card.guest == guest);
        cards.filter_map(|card| self.switches[card.switch].counters(card.port))
    }
}

impl Network for Networks {
    fn send(&mut self, card: usize, frame: &[u8]) {
        if let Some(Card { switch, port, .. }) = self.cards.get(card) {
            shared(|| self.switches[*switch].send(*port, frame));
        }
    }

    fn next(&self, card: usize) -> Option<&[u8]> {
        let Card { switch, port, .. } = self.cards.get(card)?;
        self.switches[*switch].next(*port)
    }

    fn pop(&mut self, card: usize) {
        if let Some(Card { switch, port, .. }) = self.cards.get(card) {
            shared(|| self.switches[*switch].pop(*port));
        }
    }
}
