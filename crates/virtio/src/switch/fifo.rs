//! The queue of frames towards a port, divided among the ports that they come from.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use crate::net::FRAME_MOST;

#[derive(Clone, Debug)]
struct Frame {
    len: u16,
    from: u16,
    bytes: [u8; FRAME_MOST],
}

/// A queue of a fixed number of frames.
#[derive(Clone, Debug)]
pub(super) struct Fifo {
    frames: Box<[Frame]>,
    head: usize,
    len: usize,
    /// How many of them came from each port.
    from: Vec<usize>,
    /// How many may come from one.
    share: usize,
}

impl Fifo {
    /// A queue of `depth` frames that come from `ports` ports, one of which is its own and sends none.
    pub(super) fn new(depth: usize, ports: usize) -> Self {
        let share = depth / ports.saturating_sub(1).max(1);
        let frames = vec![Frame { len: 0, from: 0, bytes: [0; FRAME_MOST] }; depth].into_boxed_slice();
        Self { frames, head: 0, len: 0, from: vec![0; ports], share: share.max(1) }
    }

    /// Appends a frame; false if there is no room, or its sender has taken its share.
    pub(super) fn push(&mut self, from: usize, frame: &[u8]) -> bool {
        let Some(count) = self.from.get_mut(from).filter(|count| **count < self.share) else { return false };
        if self.len == self.frames.len() {
            return false;
        }
        let tail = (self.head + self.len) % self.frames.len();
        let Some(place) = self.frames.get_mut(tail) else { return false };
        let Some(bytes) = place.bytes.get_mut(..frame.len()) else { return false };
        bytes.copy_from_slice(frame);
        (place.len, place.from) = (frame.len() as u16, from as u16);
        *count += 1;
        self.len += 1;
        true
    }

    /// The oldest frame.
    pub(super) fn front(&self) -> Option<&[u8]> {
        let frame = self.frames.get(self.head).filter(|_| self.len != 0)?;
        frame.bytes.get(..frame.len.into())
    }

    /// Drops the oldest frame; false if there is none.
    pub(super) fn pop(&mut self) -> bool {
        let Some(frame) = self.frames.get(self.head).filter(|_| self.len != 0) else { return false };
        if let Some(count) = self.from.get_mut(usize::from(frame.from)) {
            *count -= 1;
        }
        self.head = (self.head + 1) % self.frames.len();
        self.len -= 1;
        true
    }

    /// Drops all frames.
    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.from.fill(0);
    }
}
