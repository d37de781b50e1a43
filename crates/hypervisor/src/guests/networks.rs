//! The guests' networks: a switch for each name in the manifest, and who is to be told of frames. Pure.

use alloc::string::String;
use alloc::vec::Vec;

use spica_bundle::GuestSpec;
use spica_virtio::backend::Network;
use spica_virtio::switch::{Counters, Port, Switch};

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
    /// Slots of each guest that have something new, a bit each.
    pokes: Vec<u32>,
}

impl Networks {
    /// The networks of these guests, whose cards are in the slots behind their disks.
    pub fn new(guests: &[GuestSpec<'_>]) -> Networks {
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
        let switches = ports.iter().map(|ports| Switch::new(ports, DEPTH)).collect();
        Networks { switches, cards, pokes: alloc::vec![0; guests.len()] }
    }

    /// The number of a guest's first card.
    pub fn first_card(&self, guest: usize) -> usize {
        self.cards.iter().position(|card| card.guest >= guest).unwrap_or(self.cards.len())
    }

    /// Notes for whom frames have come. True if any is for another guest than `current`.
    pub fn spread_news(&mut self, current: usize) -> bool {
        let mut others = false;
        for (index, switch) in self.switches.iter_mut().enumerate() {
            let news = switch.take_news();
            if news == 0 {
                continue;
            }
            for card in self.cards.iter().filter(|card| card.switch == index && news >> card.port & 1 != 0) {
                if let Some(pokes) = self.pokes.get_mut(card.guest) {
                    *pokes |= 1 << card.slot;
                }
                others |= card.guest != current;
            }
        }
        others
    }

    /// Whether a guest has slots to look at.
    pub fn has_news(&self, guest: usize) -> bool {
        self.pokes.get(guest).is_some_and(|&pokes| pokes != 0)
    }

    /// The slots of a guest that have something new, a bit each.
    pub fn take_news(&mut self, guest: usize) -> u32 {
        self.pokes.get_mut(guest).map(core::mem::take).unwrap_or_default()
    }

    /// A guest starts anew: what waited for it is gone.
    pub fn clear(&mut self, guest: usize) {
        for card in self.cards.iter().filter(|card| card.guest == guest) {
            self.switches[card.switch].clear(card.port);
        }
        self.take_news(guest);
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
            self.switches[*switch].send(*port, frame);
        }
    }

    fn next(&self, card: usize) -> Option<&[u8]> {
        let Card { switch, port, .. } = self.cards.get(card)?;
        self.switches[*switch].next(*port)
    }

    fn pop(&mut self, card: usize) {
        if let Some(Card { switch, port, .. }) = self.cards.get(card) {
            self.switches[*switch].pop(*port);
        }
    }
}
