//! What the devices have in common: the seam to the transport ([`Device`]), and what can be plugged ([`Plug`]).

use crate::backend::Backends;
use crate::balloon::Balloon;
use crate::block::Block;
use crate::console::Console;
use crate::net::Net;
use crate::queue::Queue;
use crate::rng::Rng;
use crate::work::{Progress, Work};
use crate::{Dma, Malformed};

/// The bytes of a configuration space that any device here has; what is behind reads as zero.
pub(crate) const CONFIG: usize = 64;

/// All that a device works with while it is served.
pub(crate) struct Io<'a> {
    /// Its queues, as many as [`Device::queues`] names.
    pub(crate) queues: &'a mut [Queue],
    /// Guest memory.
    pub(crate) dma: &'a mut dyn Dma,
    /// The other ends.
    pub(crate) backends: &'a mut dyn Backends,
    /// What it may do.
    pub(crate) work: &'a mut Work,
}

/// A device behind the transport. It is served only while its driver has set DRIVER_OK.
pub(crate) trait Device {
    /// Its number (virtio 5).
    fn id(&self) -> u32;

    /// The features that it offers beside [those that all do](crate::features::COMMON).
    fn features(&self) -> u64;

    /// The most descriptors of each of its queues.
    fn queues(&self) -> &'static [u16];

    /// Its configuration space.
    fn config(&self) -> [u8; CONFIG];

    /// The driver writes to its configuration space.
    fn write_config(&mut self, _offset: u32, _bytes: &[u8]) {}

    /// The driver resets it: what it was doing is forgotten, what it is stays.
    fn reset(&mut self);

    /// The driver resets one of its queues: what it was doing for that queue is forgotten.
    fn reset_queue(&mut self, _queue: usize) {
        self.reset();
    }

    /// The driver accepted these features.
    fn negotiate(&mut self, _accepted: u64) {}

    /// Finishes what a reset began. Comes before [`serve`](Self::serve), and whether or not there is a driver.
    fn settle(&mut self, _backends: &mut dyn Backends, _work: &mut Work) -> Progress {
        Progress::Idle
    }

    /// Whether it is in the midst of nothing: what it knows of its queues is in them.
    fn is_quiet(&self) -> bool {
        true
    }

    /// Does what its queues ask for, as far as the work goes.
    fn serve(&mut self, io: Io<'_>) -> Result<Progress, Malformed>;
}

/// What is plugged into a slot. Numbers such as `disk` go to [`Backends`], which finds by them what stands behind.
#[derive(Clone, Debug)]
pub enum Plug {
    /// An entropy device (virtio 5.4).
    Rng,
    /// A console of one port (virtio 5.3).
    Console {
        /// Which terminal.
        terminal: usize,
    },
    /// A block device (virtio 5.2).
    Block {
        /// Which disk.
        disk: usize,
        /// Its size in sectors of 512 bytes.
        sectors: u64,
        /// The guest may not write.
        read_only: bool,
        /// What the guest reads as its serial number, padded with zeroes.
        serial: [u8; 20],
    },
    /// A network device (virtio 5.1).
    Net {
        /// Which port of the network.
        port: usize,
        /// Its address.
        mac: [u8; 6],
    },
    /// A memory balloon (virtio 5.5).
    Balloon {
        /// The guest's RAM in pages of 4 KiB, from [`base`](Self::Balloon::base) on.
        pages: u32,
        /// The first page's guest physical address.
        base: spica_addr::GuestPa,
    },
}

/// One of the devices.
#[derive(Clone, Debug)]
pub(crate) enum Model {
    Rng(Rng),
    Console(Console),
    Block(Block),
    Net(Net),
    Balloon(Balloon),
}

impl Model {
    pub(crate) fn new(plug: &Plug) -> Self {
        match *plug {
            Plug::Rng => Self::Rng(Rng),
            Plug::Console { terminal } => Self::Console(Console::new(terminal)),
            Plug::Block { disk, sectors, read_only, serial } => {
                Self::Block(Block::new(disk, sectors, read_only, serial))
            }
            Plug::Net { port, mac } => Self::Net(Net::new(port, mac)),
            Plug::Balloon { pages, base } => Self::Balloon(Balloon::new(base, pages)),
        }
    }

    pub(crate) fn device(&self) -> &dyn Device {
        match self {
            Self::Rng(device) => device,
            Self::Console(device) => device,
            Self::Block(device) => device,
            Self::Net(device) => device,
            Self::Balloon(device) => device,
        }
    }

    pub(crate) fn device_mut(&mut self) -> &mut dyn Device {
        match self {
            Self::Rng(device) => device,
            Self::Console(device) => device,
            Self::Block(device) => device,
            Self::Net(device) => device,
            Self::Balloon(device) => device,
        }
    }
}

/// Puts `bytes` at `offset` of a configuration space.
pub(crate) fn put(config: &mut [u8; CONFIG], offset: usize, bytes: &[u8]) {
    if let Some(place) = config.get_mut(offset..offset + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}
