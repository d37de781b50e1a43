//! A network card (virtio 5.1): frames in both directions, without offloads.
//!
//! Each direction has as many buffers as its queue has descriptors; a buffer's descriptor has its number. The card
//! takes all frames that are on its wire: without a control queue, no filter is ever set (5.1.6.5.1).

use crate::queue::{Buffer, Queue};
use crate::transport::{Error, Kind, Transport};
use crate::{Memory, Registers};

/// Buffers, and so frames under way, in each direction.
const DEPTH: u16 = 64;
/// What comes before each frame (virtio 5.1.6): all zero without offloads.
const HEADER: usize = 12;
/// The longest frame.
const FRAME: usize = 1518;
/// The bytes of a buffer: header and frame, in whole lines.
const BUFFER: u32 = 1536;
/// The queues' numbers.
const INPUT: u16 = 0;
const OUTPUT: u16 = 1;

/// The driver of a network card.
#[derive(Debug)]
pub struct Net<R, M> {
    transport: Transport<R>,
    input: Queue,
    output: Queue,
    memory: M,
    /// Output buffers that nobody uses, a bit each.
    free: u64,
    /// Whether the card has not been told of all that was sent.
    unsaid: bool,
}

/// Where a direction's buffer is in the memory.
const fn place(direction: u16, index: u16) -> u32 {
    2 * Queue::bytes(DEPTH) + (direction as u32 * DEPTH as u32 + index as u32) * BUFFER
}

impl<R: Registers, M: Memory> Net<R, M> {
    /// The bytes of memory that a driver needs.
    pub const BYTES: u32 = place(2, 0);

    /// Takes the card over; `memory` has [`BYTES`](Self::BYTES) at least. It raises its interrupt when frames have
    /// come.
    ///
    /// # Errors
    /// If it is no network card, or cannot be driven.
    pub fn new(registers: R, mut memory: M) -> Result<Self, Error> {
        let (mut transport, _) = Transport::begin(registers, Kind::Net, 0)?;
        let input = transport.queue(&mut memory, INPUT, DEPTH, 0)?;
        let output = transport.queue(&mut memory, OUTPUT, DEPTH, Queue::bytes(DEPTH))?;
        output.set_interrupt(&mut memory, false);
        transport.go();
        let mut this = Self { transport, input, output, memory, free: u64::MAX, unsaid: false };
        (0..DEPTH).for_each(|index| this.expect(index));
        this.transport.notify(INPUT);
        Ok(this)
    }

    fn buffer(&self, direction: u16, index: u16, len: u32) -> Buffer {
        let address = self.memory.address() + u64::from(place(direction, index));
        Buffer { address, len, device_writes: direction == INPUT }
    }

    /// Gives the card an input buffer.
    fn expect(&mut self, index: u16) {
        let buffer = self.buffer(INPUT, index, BUFFER);
        self.input.offer(&mut self.memory, index, &[buffer]);
    }

    /// Lowers the card's interrupt. What it was for is to be looked at afterwards.
    pub fn acknowledge(&mut self) {
        self.transport.acknowledge();
        self.memory.order();
    }

    /// Takes the next frame that has come into `frame`, and says how long it is. One that is too long is lost.
    pub fn receive(&mut self, frame: &mut [u8; FRAME]) -> Option<usize> {
        loop {
            let (index, len) = self.input.used(&self.memory)?;
            if index >= DEPTH {
                continue;
            }
            let into = (len as usize).checked_sub(HEADER).and_then(|len| frame.get_mut(..len));
            let taken = into.map(|into| {
                self.memory.read(place(INPUT, index) + HEADER as u32, into);
                into.len()
            });
            self.expect(index);
            if self.input.wants_notice(&self.memory) {
                self.transport.notify(INPUT);
            }
            if taken.is_some() {
                return taken;
            }
        }
    }

    /// Gives the card a frame to send; false if it has no buffer left. The card is told by [`push`](Self::push).
    pub fn send(&mut self, frame: &[u8]) -> bool {
        if self.free == 0 {
            self.reclaim();
        }
        let index = self.free.trailing_zeros() as u16;
        if index >= DEPTH || frame.len() > FRAME {
            // A frame that nobody can send is as good as sent.
            return index < DEPTH;
        }
        self.free &= !(1 << index);
        let at = place(OUTPUT, index);
        self.memory.write(at, &[0; HEADER]);
        self.memory.write(at + HEADER as u32, frame);
        let buffer = self.buffer(OUTPUT, index, HEADER as u32 + frame.len() as u32);
        self.output.offer(&mut self.memory, index, &[buffer]);
        self.unsaid = true;
        true
    }

    /// Tells the card of the frames to send. With `waiting`, more wait for room: the card raises its interrupt once it
    /// has sent something. True if there is room already, so that no interrupt may come.
    pub fn push(&mut self, waiting: bool) -> bool {
        if core::mem::take(&mut self.unsaid) && self.output.wants_notice(&self.memory) {
            self.transport.notify(OUTPUT);
        }
        self.output.set_interrupt(&mut self.memory, waiting);
        if waiting {
            // What was sent before the card saw that.
            self.reclaim();
        }
        waiting && self.free != 0
    }

    /// Takes back the buffers of what was sent.
    fn reclaim(&mut self) {
        for _ in 0..DEPTH {
            match self.output.used(&self.memory) {
                Some((index, _)) if index < DEPTH => self.free |= 1 << index,
                Some(_) => {}
                None => break,
            }
        }
    }
}
