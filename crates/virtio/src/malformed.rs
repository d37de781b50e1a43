//! What a driver can do wrong with its queues: [`Malformed`].

use core::fmt;

use crate::OutsideRam;

/// Why a device needs a reset: what the driver did that the standard forbids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// A queue was made ready with a size that is zero, no power of two, or above the maximum.
    QueueSize(u32),
    /// A queue was made ready with a ring that is not aligned (virtio 2.7).
    RingAlignment,
    /// A ring, table or buffer is not in RAM.
    Address,
    /// The available index is further ahead than the queue is long.
    AvailableIndex,
    /// The head of a chain, or the next descriptor of one, has a number that the table does not have.
    DescriptorIndex(u16),
    /// A chain is longer than the queue; it may be a loop.
    ChainLength,
    /// The buffers of a chain are 4 GiB together, or more.
    ChainBytes,
    /// A buffer has no bytes.
    EmptyBuffer,
    /// A buffer that the device reads comes after one that it writes (virtio 2.7.4.2).
    ReadAfterWrite,
    /// An indirect descriptor where the feature was not negotiated, inside an indirect table, or with a next one.
    IndirectFlags,
    /// An indirect table whose length is zero or no multiple of a descriptor's.
    IndirectLength(u32),
    /// A request without the parts that its device's section of the standard says it has.
    Request,
}

impl From<OutsideRam> for Malformed {
    fn from(_: OutsideRam) -> Self {
        Self::Address
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueSize(size) => write!(f, "queue of {size} descriptors"),
            Self::RingAlignment => f.write_str("ring not aligned"),
            Self::Address => f.write_str("ring or buffer outside RAM"),
            Self::AvailableIndex => f.write_str("available index too far ahead"),
            Self::DescriptorIndex(index) => write!(f, "no descriptor {index}"),
            Self::ChainLength => f.write_str("chain longer than its queue"),
            Self::ChainBytes => f.write_str("chain of 4 GiB or more"),
            Self::EmptyBuffer => f.write_str("buffer of no bytes"),
            Self::ReadAfterWrite => f.write_str("buffer to be read behind one to be written"),
            Self::IndirectFlags => f.write_str("indirect table where none may be"),
            Self::IndirectLength(bytes) => write!(f, "indirect table of {bytes} bytes"),
            Self::Request => f.write_str("request without its parts"),
        }
    }
}
