//! A slot with a device, its driver, memory and the other ends, all together.

use super::{Buffer, Driver, Ends, Ram};
use crate::{Plug, Slot, Work};

/// Where RAM is.
pub const RAM: u32 = 0x4000_0000;
/// The first address behind all rings, for buffers.
pub const BUFFERS: u32 = RAM + 0x1_0000;
/// How much RAM there is.
const SIZE: usize = 0x10_0000;

/// A device under test.
#[derive(Clone, Debug)]
pub struct Rig {
    /// The device in its slot.
    pub slot: Slot,
    /// Guest memory.
    pub ram: Ram,
    /// The other ends.
    pub ends: Ends,
    /// The driver.
    pub driver: Driver,
}

impl Rig {
    /// A device whose driver has accepted all features, and has short queues.
    #[must_use]
    pub fn new(plug: &Plug) -> Self {
        Self::with(plug, u64::MAX, 16)
    }

    /// A device whose driver has accepted these features, and made queues of at most `most` descriptors.
    #[must_use]
    pub fn with(plug: &Plug, features: u64, most: u16) -> Self {
        let (mut slot, mut ram) = (Slot::new(plug), Ram::new(RAM, SIZE));
        let driver = Driver::start(&mut slot, &mut ram, features, most);
        Self { slot, ram, ends: Ends::new(64), driver }
    }

    /// Lets the device work until it has no more to do.
    pub fn serve(&mut self) {
        for _ in 0..1000 {
            let mut work = Work::new(1 << 20);
            self.slot.serve(&mut self.ram, &mut self.ends, &mut work);
            if !self.slot.wants_service() {
                return;
            }
        }
        panic!("the device works for ever");
    }

    /// Makes a chain available, kicks, and lets the device work.
    pub fn request(&mut self, queue: usize, buffers: &[Buffer]) -> u16 {
        let head = self.driver.queues[queue].put(&mut self.ram, buffers);
        self.kick(queue);
        head
    }

    /// Kicks, and lets the device work.
    pub fn kick(&mut self, queue: usize) {
        self.driver.kick(&mut self.slot, queue as u32);
        self.serve();
    }

    /// Something is pending from the host: lets it work.
    pub fn poke(&mut self) {
        self.slot.poke();
        self.serve();
    }

    /// What the device has used next.
    pub fn used(&mut self, queue: usize) -> Option<(u16, u32)> {
        self.driver.queues[queue].used(&self.ram)
    }

    /// Reads and acknowledges the interrupt status, which must be what the line says.
    pub fn interrupt(&mut self) -> u32 {
        let line = self.slot.line();
        let status = self.driver.interrupt(&mut self.slot);
        assert_eq!(line, status != 0);
        assert!(!self.slot.line());
        status
    }

    /// Whether the device asks for a reset.
    pub fn needs_reset(&mut self) -> bool {
        super::read(&mut self.slot, 0x070) & 0x40 != 0
    }
}
