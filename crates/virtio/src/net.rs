//! The network device (virtio 5.1): frames in both directions, without offloads.
//!
//! A frame to the driver goes into one chain, as drivers without mergeable buffers give it. Frames that
//! find none wait in the network, whose queues are bounded.

use alloc::boxed::Box;
use alloc::vec;

use crate::backend::Network;
use crate::device::{CONFIG, Device, Io, put};
use crate::queue::Queue;
use crate::work::{Progress, Work};
use crate::{Dma, Malformed};

/// The shortest frame: two addresses and a type.
pub(crate) const FRAME_LEAST: usize = 14;
/// The longest frame: that, a VLAN tag, and 1500 bytes.
pub(crate) const FRAME_MOST: usize = 1518;
/// What comes before each frame (virtio 5.1.6): all zero without offloads, but for the number of buffers at its end.
const HEADER: usize = 12;
const HEADER_IN: [u8; HEADER] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];

/// The least that a driver's buffers for frames have to hold (virtio 5.1.6.3.1).
const BUFFER_LEAST: u32 = 1526;

/// Features (virtio 5.1.3).
const MAC: u64 = 1 << 5;
const STATUS: u64 = 1 << 16;
/// The link is up.
const LINK_UP: u16 = 1;

/// The device.
#[derive(Clone, Debug)]
pub(crate) struct Net {
    port: usize,
    mac: [u8; 6],
    link: bool,
    /// The directions take turns, from one time to the next, so that neither waits for the other.
    receives_next: bool,
    frame: Box<[u8]>,
}

impl Net {
    pub(crate) fn new(port: usize, mac: [u8; 6]) -> Self {
        Self { port, mac, link: true, receives_next: false, frame: vec![0; FRAME_MOST].into_boxed_slice() }
    }

    /// Whether the cable is in. True if that is a change.
    pub(crate) fn set_link(&mut self, up: bool) -> bool {
        core::mem::replace(&mut self.link, up) != up
    }

    /// Takes one frame from the driver; false if there is none. One that is no frame of Ethernet's is lost.
    fn transmit(
        &mut self,
        queue: &mut Queue,
        dma: &mut dyn Dma,
        network: &mut dyn Network,
        work: &mut Work,
    ) -> Result<bool, Malformed> {
        let Some(chain) = queue.next(dma, work)? else { return Ok(false) };
        let _header: [u8; HEADER] = chain.read_part(dma)?;
        let len = chain.read(dma, &mut self.frame)?;
        work.spend(len as u32);
        if chain.readable() == 0
            && len >= FRAME_LEAST
            && self.link
            && let Some(frame) = self.frame.get(..len)
        {
            network.send(self.port, frame);
        }
        queue.complete(dma)?;
        Ok(true)
    }

    /// Gives one frame to the driver; false if there is none, or no buffer.
    fn receive(
        &self,
        queue: &mut Queue,
        dma: &mut dyn Dma,
        network: &mut dyn Network,
        work: &mut Work,
    ) -> Result<bool, Malformed> {
        let Some(frame) = network.next(self.port) else { return Ok(false) };
        if self.link {
            let Some(chain) = queue.next(dma, work)? else { return Ok(false) };
            if chain.writable() < BUFFER_LEAST {
                return Err(Malformed::Request);
            }
            work.spend(frame.len() as u32);
            // A frame with a tag may be too long even so. That is not the driver's fault: the frame is lost.
            if HEADER + frame.len() <= chain.writable() as usize {
                chain.write(dma, &HEADER_IN)?;
                chain.write(dma, frame)?;
                queue.complete(dma)?;
            }
        } else {
            work.spend(Work::REQUEST);
        }
        network.pop(self.port);
        Ok(true)
    }
}

impl Device for Net {
    fn id(&self) -> u32 {
        1
    }

    fn features(&self) -> u64 {
        MAC | STATUS
    }

    fn queues(&self) -> &'static [u16] {
        &[256, 256]
    }

    /// virtio 5.1.4.
    fn config(&self) -> [u8; CONFIG] {
        let mut config = [0; CONFIG];
        put(&mut config, 0, &self.mac);
        put(&mut config, 6, &(if self.link { LINK_UP } else { 0 }).to_le_bytes());
        config
    }

    fn reset(&mut self) {}

    fn serve(&mut self, io: Io<'_>) -> Result<Progress, Malformed> {
        let [input, output] = io.queues else { return Ok(Progress::Idle) };
        let network = io.backends.network();
        let mut idle = 0;
        while io.work.is_left() && idle < 2 {
            let moved = if self.receives_next {
                self.receive(input, io.dma, network, io.work)?
            } else {
                self.transmit(output, io.dma, network, io.work)?
            };
            self.receives_next = !self.receives_next;
            idle = if moved { 0 } else { idle + 1 };
        }
        Ok(if idle < 2 { Progress::More } else { Progress::Idle })
    }
}

#[cfg(test)]
mod tests;
