//! The entropy device (virtio 5.4): a queue of buffers that are filled with random bytes.

use crate::Malformed;
use crate::device::{CONFIG, Device, Io};
use crate::work::{Progress, Work};

/// The most bytes for one buffer: a device may give fewer than asked for (virtio 5.4.6.2), and randomness is dear.
const MOST: usize = 256;

/// The device. It has no state.
#[derive(Clone, Debug)]
pub(crate) struct Rng;

impl Device for Rng {
    fn id(&self) -> u32 {
        4
    }

    fn features(&self) -> u64 {
        0
    }

    fn queues(&self) -> &'static [u16] {
        &[8]
    }

    fn config(&self) -> [u8; CONFIG] {
        [0; CONFIG]
    }

    fn reset(&mut self) {}

    fn serve(&mut self, io: Io<'_>) -> Result<Progress, Malformed> {
        let [queue] = io.queues else { return Ok(Progress::Idle) };
        while io.work.is_left() {
            let Some(chain) = queue.next(io.dma, io.work)? else { return Ok(Progress::Idle) };
            let mut bytes = [0; MOST];
            let wanted = MOST.min(chain.writable() as usize);
            let Some(wanted) = bytes.get_mut(..wanted).filter(|wanted| !wanted.is_empty()) else {
                return Err(Malformed::Request);
            };
            let filled = io.backends.entropy().fill(wanted).min(wanted.len());
            if filled == 0 {
                return Ok(Progress::Idle);
            }
            chain.write(io.dma, wanted.get(..filled).unwrap_or_default())?;
            io.work.spend(filled as u32 * Work::RANDOM);
            queue.complete(io.dma)?;
        }
        Ok(Progress::More)
    }
}

#[cfg(test)]
mod tests;
