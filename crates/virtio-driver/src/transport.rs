//! What all devices have in common: they are recognised, agree on features with the driver, and are given queues
//! (virtio 3.1, 4.2.3).

use core::fmt;

use crate::queue::Queue;
use crate::{Memory, Registers};

const MAGIC_VALUE: u32 = 0x000;
const VERSION: u32 = 0x004;
const DEVICE_ID: u32 = 0x008;
const DEVICE_FEATURES: u32 = 0x010;
const DEVICE_FEATURES_SEL: u32 = 0x014;
const DRIVER_FEATURES: u32 = 0x020;
const DRIVER_FEATURES_SEL: u32 = 0x024;
const QUEUE_SEL: u32 = 0x030;
const QUEUE_NUM_MAX: u32 = 0x034;
const QUEUE_NUM: u32 = 0x038;
const QUEUE_READY: u32 = 0x044;
const QUEUE_NOTIFY: u32 = 0x050;
const INTERRUPT_STATUS: u32 = 0x060;
const INTERRUPT_ACK: u32 = 0x064;
const STATUS: u32 = 0x070;
const QUEUE_DESC: u32 = 0x080;
const QUEUE_DRIVER: u32 = 0x090;
const QUEUE_DEVICE: u32 = 0x0a0;
const CONFIG: u32 = 0x100;

/// "virt", little-endian.
const MAGIC: u32 = 0x7472_6976;

const ACKNOWLEDGE: u32 = 1;
const DRIVER: u32 = 2;
const DRIVER_OK: u32 = 4;
const FEATURES_OK: u32 = 8;
const NEEDS_RESET: u32 = 0x40;
const FAILED: u32 = 0x80;

/// The feature without which there is no device of version 1 (virtio 6).
const VERSION_1: u64 = 1 << 32;

/// What is behind a virtio-mmio window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A network card.
    Net,
    /// A disk.
    Block,
    /// Nothing, or nothing that is driven here.
    Other,
    /// Something behind the transport of before virtio 1.0, which is not driven.
    Legacy,
}

/// What is behind these registers. Reads only.
pub fn kind(registers: &impl Registers) -> Kind {
    if registers.read(MAGIC_VALUE) != MAGIC {
        return Kind::Other;
    }
    match (registers.read(DEVICE_ID), registers.read(VERSION)) {
        (1 | 2, 1) => Kind::Legacy,
        (1, 2) => Kind::Net,
        (2, 2) => Kind::Block,
        _ => Kind::Other,
    }
}

/// Why a device cannot be driven.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// It is another device, or its transport is not version 2.
    Kind(Kind),
    /// It does not offer VERSION_1, or does not accept what it offered itself.
    Features,
    /// Its queue has no room for so many descriptors.
    Queue {
        /// How many are needed.
        wanted: u16,
        /// How many it can have.
        most: u32,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(Kind::Legacy) => write!(f, "its transport is version 1; version 2 is needed"),
            Self::Kind(kind) => write!(f, "another device than was expected: {kind:?}"),
            Self::Features => write!(f, "no agreement on features; VERSION_1 is needed"),
            Self::Queue { wanted, most } => write!(f, "a queue of {wanted} is needed, it can have {most}"),
        }
    }
}

/// A device's registers, used as virtio says.
#[derive(Debug)]
pub(crate) struct Transport<R> {
    registers: R,
}

impl<R: Registers> Transport<R> {
    /// Resets the device, and agrees on those of `wanted` features that it offers. Gives these, too.
    pub(crate) fn begin(registers: R, expected: Kind, wanted: u64) -> Result<(Self, u64), Error> {
        let found = kind(&registers);
        if found != expected {
            return Err(Error::Kind(found));
        }
        let mut this = Self { registers };
        let registers = &mut this.registers;
        registers.write(STATUS, 0);
        // The device says when the reset is done (4.2.2.1, 2.4); all known ones do it at once.
        for _ in 0..1_000_000 {
            if registers.read(STATUS) == 0 {
                break;
            }
        }
        registers.write(STATUS, ACKNOWLEDGE);
        registers.write(STATUS, ACKNOWLEDGE | DRIVER);
        let mut offered = 0;
        for half in [0, 1] {
            registers.write(DEVICE_FEATURES_SEL, half);
            offered |= u64::from(registers.read(DEVICE_FEATURES)) << (32 * half);
        }
        let accepted = offered & (wanted | VERSION_1);
        for half in [0, 1] {
            registers.write(DRIVER_FEATURES_SEL, half);
            registers.write(DRIVER_FEATURES, (accepted >> (32 * half)) as u32);
        }
        registers.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK);
        if accepted & VERSION_1 == 0 || registers.read(STATUS) & FEATURES_OK == 0 {
            registers.write(STATUS, FAILED);
            return Err(Error::Features);
        }
        Ok((this, accepted))
    }

    /// Gives the device queue `index`, with its rings in `memory` from `at` on.
    pub(crate) fn queue(&mut self, memory: &mut impl Memory, index: u16, size: u16, at: u32) -> Result<Queue, Error> {
        let registers = &mut self.registers;
        registers.write(QUEUE_SEL, index.into());
        let most = registers.read(QUEUE_NUM_MAX);
        if most < size.into() {
            return Err(Error::Queue { wanted: size, most });
        }
        let queue = Queue::new(memory, index, size, at);
        registers.write(QUEUE_NUM, size.into());
        for (register, at) in [QUEUE_DESC, QUEUE_DRIVER, QUEUE_DEVICE].into_iter().zip(queue.places()) {
            let address = memory.address() + u64::from(at);
            registers.write(register, address as u32);
            registers.write(register + 4, (address >> 32) as u32);
        }
        memory.order();
        registers.write(QUEUE_READY, 1);
        Ok(queue)
    }

    /// From here on the device works.
    pub(crate) fn go(&mut self) {
        self.registers.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK);
    }

    /// Tells the device of new chains in queue `index`. The caller has seen to the order.
    pub(crate) fn notify(&mut self, index: u16) {
        self.registers.write(QUEUE_NOTIFY, index.into());
    }

    /// Lowers the interrupt line; false if the device is broken and wants a reset.
    pub(crate) fn acknowledge(&mut self) -> bool {
        let causes = self.registers.read(INTERRUPT_STATUS);
        if causes != 0 {
            self.registers.write(INTERRUPT_ACK, causes);
        }
        self.registers.read(STATUS) & NEEDS_RESET == 0
    }

    /// A word of the configuration space.
    pub(crate) fn config(&self, offset: u32) -> u32 {
        self.registers.read(CONFIG + offset)
    }
}
