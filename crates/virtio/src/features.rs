//! The feature bits that do not belong to one device (virtio 6).

/// Chains may have a table of descriptors elsewhere in memory.
pub(crate) const INDIRECT_DESC: u64 = 1 << 28;
/// Both sides say at which index they want to be told (virtio 2.7.7.2).
pub(crate) const EVENT_IDX: u64 = 1 << 29;
/// This standard, not its predecessors. A driver that does not accept it is refused.
pub(crate) const VERSION_1: u64 = 1 << 32;
/// A queue can be reset by itself.
pub(crate) const RING_RESET: u64 = 1 << 40;

/// What every device offers.
pub(crate) const COMMON: u64 = INDIRECT_DESC | EVENT_IDX | VERSION_1 | RING_RESET;
