//! The pool, on the development machine: it has nothing to give. Drivers that share memory with devices are tested in their own
//! crate (`spica-virtio-driver`).

use spica_addr::HostPa;

/// A block; there is none.
#[derive(Debug)]
pub enum Block {}

impl Block {
    /// Of no block.
    #[must_use]
    pub fn va(&self) -> u32 {
        match *self {}
    }

    /// Of no block.
    #[must_use]
    pub fn pa(&self) -> HostPa {
        match *self {}
    }

    /// Of no block.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // as the board image's own
    pub fn len(&self) -> u32 {
        match *self {}
    }
}

/// A share of nothing.
#[derive(Debug)]
pub struct Share;

impl Share {
    /// Nothing.
    pub fn alloc(&mut self, _bytes: u32, _align: u32) -> Option<Block> {
        None
    }
}
