//! The console (virtio 5.3) with one port: bytes in both directions.

use crate::backend::Terminal;
use crate::device::{CONFIG, Device, Io};
use crate::queue::Queue;
use crate::work::{Progress, Work};
use crate::{Dma, Malformed};

/// The queue of output; that of input is 0.
const OUTPUT: usize = 1;
/// How much goes to or from the terminal at once.
const PIECE: usize = 256;

/// The device.
#[derive(Clone, Debug)]
pub(crate) struct Console {
    terminal: usize,
    /// Output that was read from the open chain, and that the terminal had no room for.
    held: [u8; PIECE],
    held_from: usize,
    held_to: usize,
}

impl Console {
    pub(crate) fn new(terminal: usize) -> Self {
        Self { terminal, held: [0; PIECE], held_from: 0, held_to: 0 }
    }

    /// Input: as many bytes as there are, into one buffer after the other.
    fn receive(
        queue: &mut Queue,
        dma: &mut dyn Dma,
        terminal: &mut dyn Terminal,
        work: &mut Work,
    ) -> Result<Progress, Malformed> {
        while work.is_left() {
            let Some(chain) = queue.next(dma, work)? else { return Ok(Progress::Idle) };
            if chain.writable() == 0 && chain.written() == 0 {
                return Err(Malformed::Request);
            }
            let mut bytes = [0; PIECE];
            let room = PIECE.min(chain.writable() as usize);
            let wanted = bytes.get_mut(..room).unwrap_or_default();
            let got = if room == 0 { 0 } else { terminal.get(wanted).min(room) };
            chain.write(dma, wanted.get(..got).unwrap_or_default())?;
            work.spend(got as u32);
            if got == 0 {
                if chain.written() == 0 {
                    return Ok(Progress::Idle);
                }
                // What there is goes to the driver now, however large its buffer.
                queue.complete(dma)?;
            }
        }
        Ok(Progress::More)
    }

    /// Output: as much as the terminal takes.
    fn transmit(
        &mut self,
        queue: &mut Queue,
        dma: &mut dyn Dma,
        terminal: &mut dyn Terminal,
        work: &mut Work,
    ) -> Result<Progress, Malformed> {
        while work.is_left() {
            if let Some(held) = self.held.get(self.held_from..self.held_to).filter(|held| !held.is_empty()) {
                let put = terminal.put(held).min(held.len());
                self.held_from += put;
                if put == 0 {
                    return Ok(Progress::Idle);
                }
                continue;
            }
            let Some(chain) = queue.next(dma, work)? else { return Ok(Progress::Idle) };
            let read = chain.read(dma, &mut self.held)?;
            (self.held_from, self.held_to) = (0, read);
            work.spend(read as u32 * Work::CHARACTER);
            if chain.readable() == 0 {
                // The bytes are ours, the buffers are done with.
                queue.complete(dma)?;
            }
        }
        Ok(Progress::More)
    }
}

impl Device for Console {
    fn id(&self) -> u32 {
        3
    }

    fn features(&self) -> u64 {
        0
    }

    fn queues(&self) -> &'static [u16] {
        &[64, 64]
    }

    fn config(&self) -> [u8; CONFIG] {
        [0; CONFIG]
    }

    fn reset(&mut self) {
        (self.held_from, self.held_to) = (0, 0);
    }

    fn reset_queue(&mut self, queue: usize) {
        if queue == OUTPUT {
            self.reset();
        }
    }

    fn is_quiet(&self) -> bool {
        self.held_from == self.held_to
    }

    fn serve(&mut self, io: Io<'_>) -> Result<Progress, Malformed> {
        let [input, output] = io.queues else { return Ok(Progress::Idle) };
        let terminal = io.backends.terminal(self.terminal);
        let received = Self::receive(input, io.dma, terminal, io.work)?;
        Ok(received.and(self.transmit(output, io.dma, terminal, io.work)?))
    }
}

#[cfg(test)]
mod tests;
