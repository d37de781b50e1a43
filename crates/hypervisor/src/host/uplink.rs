//! The uplink: a port of a switch that is connected to the board's own network card.
//!
//! Frames that the switch has for the card wait in the switch's queue until the card has room. Frames that come are put
//! into the switch at once, where they may be lost. How many come is not up to us: after [`MOST`] of them the card's
//! interrupt is disabled for the rest of a millisecond, so that guests go on whatever the network does.

use alloc::boxed::Box;
use alloc::string::String;

use spica_virtio::backend::Network;
use spica_virtio::switch::Switch;
use spica_virtio_driver::{Kind, Net};

use super::networks::CARD_BYTES;
use crate::board::virtio::{Shared, Window};
use crate::board::{Board, Line};
use crate::memory::pool::Share;

/// The most frames that are taken in [`WINDOW`].
const MOST: u32 = 64;
/// How long that is, in microseconds.
pub const WINDOW: u32 = 1000;

/// The card at a port of a switch.
pub struct Uplink {
    card: Net<Window, Shared>,
    line: Line,
    frame: Box<[u8; 1518]>,
    /// Frames taken since the window began.
    taken: u32,
}

impl Uplink {
    /// Takes over the board's first network card.
    ///
    /// # Errors
    /// If there is none, or what is wrong with it.
    pub fn start(board: &mut Board) -> Result<Uplink, String> {
        let at = board.virtio.iter().position(|device| device.kind == Kind::Net);
        let at = at.ok_or("uplink: the board has no network card that Spica can drive: it drives virtio cards only")?;
        let device = board.virtio.remove(at);
        let mut share =
            Share::take(CARD_BYTES, Net::<Window, Shared>::BYTES).map_err(|error| alloc::format!("uplink: {error}"))?;
        let memory = Shared::take(&mut share, Net::<Window, Shared>::BYTES).ok_or("uplink: no memory")?;
        let card = Net::new(device.registers, memory);
        let card = card.map_err(|error| alloc::format!("uplink {}: {error}", device.node))?;
        board.interrupts.driver.enable(device.line);
        Ok(Uplink { card, line: device.line, frame: Box::new([0; 1518]), taken: 0 })
    }

    /// The card's interrupt.
    pub fn line(&self) -> Line {
        self.line
    }

    /// A new window begins.
    pub fn begin_window(&mut self) {
        self.taken = 0;
    }

    /// Settles the card's interrupt: moves frames in both directions. True if so many have come that the interrupt must
    /// be disabled until the next window.
    pub fn interrupt(&mut self, switch: &mut Switch, port: usize) -> bool {
        self.card.acknowledge();
        while self.taken < MOST {
            let Some(len) = self.card.receive(&mut self.frame) else { break };
            self.taken += 1;
            switch.send(port, self.frame.get(..len).unwrap_or_default());
        }
        self.transmit(switch, port);
        self.taken >= MOST
    }

    /// Gives the card what the switch has for it, as far as it has room.
    pub fn transmit(&mut self, switch: &mut Switch, port: usize) {
        loop {
            while let Some(frame) = switch.next(port) {
                if !self.card.send(frame) {
                    break;
                }
                switch.pop(port);
            }
            // Room that came just before the card was asked to tell of it is not told.
            if !self.card.push(switch.next(port).is_some()) {
                return;
            }
        }
    }
}
