//! A disk (virtio 5.2): requests of several clients, one at a time of each.
//!
//! A client is a number, its *tag*. It has three descriptors of the queue and a buffer for itself, so that there is
//! nothing to allocate, and no client waits for another.

use alloc::vec::Vec;

use crate::queue::{Buffer, Queue};
use crate::transport::{Error, Kind, Transport};
use crate::{LINE, Memory, Registers};

/// The bytes of a client's buffer: the most that a request reads or writes.
pub const BUFFER: u32 = 32 * 1024;
/// The bytes of a sector.
const SECTOR: u32 = 512;

/// Features (virtio 5.2.3).
const READ_ONLY: u64 = 1 << 5;
const FLUSH: u64 = 1 << 9;

/// Descriptors of a request: header, data, status.
const CHAIN: u16 = 3;
/// Bytes of a client: a line for the header, one for the status, the buffer.
const CLIENT: u32 = 2 * LINE + BUFFER;
/// The length of a disk's serial number (virtio 5.2.6).
const ID: usize = 20;

/// A request to a disk. Sectors are on the disk, and a buffer's worth at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// So many sectors from this one on into the buffer.
    Read {
        /// The first sector.
        sector: u64,
        /// How many.
        sectors: u32,
    },
    /// So many sectors from this one on out of the buffer.
    Write {
        /// The first sector.
        sector: u64,
        /// How many.
        sectors: u32,
    },
    /// What was written is to last.
    Flush,
    /// The disk's serial number into the buffer.
    Id,
}

/// What a client's request has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// There is none.
    Idle,
    /// It is under way.
    Busy(Request),
    /// It is done, well or not. The buffer stays as it is until the next request.
    Done(Request, bool),
}

/// The driver of a disk.
#[derive(Debug)]
pub struct Block<R, M> {
    transport: Transport<R>,
    queue: Queue,
    memory: M,
    states: Vec<State>,
    sectors: u64,
    features: u64,
    broken: bool,
}

impl<R: Registers, M: Memory> Block<R, M> {
    /// The bytes of memory that a driver with `clients` clients needs.
    #[must_use]
    pub const fn bytes(clients: u16) -> u32 {
        Queue::bytes(Self::descriptors(clients)) + clients as u32 * CLIENT
    }

    const fn descriptors(clients: u16) -> u16 {
        (CHAIN * clients).next_power_of_two()
    }

    /// Takes the device over for `clients` clients; `memory` has [`bytes`](Self::bytes) at least.
    ///
    /// # Errors
    /// If it is no disk, or cannot be driven.
    pub fn new(registers: R, mut memory: M, clients: u16) -> Result<Self, Error> {
        let (mut transport, features) = Transport::begin(registers, Kind::Block, READ_ONLY | FLUSH)?;
        let queue = transport.queue(&mut memory, 0, Self::descriptors(clients), 0)?;
        transport.go();
        // Capacity (5.2.4) does not change under way but by the host's hand, which we do not follow.
        let sectors = u64::from(transport.config(0)) | u64::from(transport.config(4)) << 32;
        let states = alloc::vec![State::Idle; clients.into()];
        Ok(Self { transport, queue, memory, states, sectors, features, broken: false })
    }

    /// The disk's size in sectors.
    #[must_use]
    pub const fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Whether the disk cannot be written.
    #[must_use]
    pub const fn read_only(&self) -> bool {
        self.features & READ_ONLY != 0
    }

    /// Whether what was written lasts only once it was flushed.
    #[must_use]
    pub const fn needs_flush(&self) -> bool {
        self.features & FLUSH != 0
    }

    /// The tags of all clients.
    #[must_use]
    pub fn clients(&self) -> core::ops::Range<usize> {
        0..self.states.len()
    }

    /// Where the client's part of the memory is: header, status, buffer.
    const fn place(&self, tag: usize) -> [u32; 3] {
        let at = Queue::bytes(Self::descriptors(self.states.len() as u16)) + tag as u32 * CLIENT;
        [at, at + LINE, at + 2 * LINE]
    }

    /// What a client's request has come to.
    #[must_use]
    pub fn state(&self, tag: usize) -> State {
        self.states.get(tag).copied().unwrap_or(State::Idle)
    }

    /// The client has taken note of what its request has come to.
    pub fn forget(&mut self, tag: usize) {
        if let Some(state @ State::Done(..)) = self.states.get_mut(tag) {
            *state = State::Idle;
        }
    }

    /// Reads what is in a client's buffer from `at` on. Not while a request is under way.
    pub fn read_buffer(&self, tag: usize, at: u32, into: &mut [u8]) {
        let [_, _, buffer] = self.place(tag);
        self.memory.read(buffer + at, into);
    }

    /// Puts bytes into a client's buffer from `at` on. Not while a request is under way.
    pub fn write_buffer(&mut self, tag: usize, at: u32, from: &[u8]) {
        let [_, _, buffer] = self.place(tag);
        self.memory.write(buffer + at, from);
    }

    /// Starts a request, unless one is under way. The buffer holds what is to be written.
    pub fn start(&mut self, tag: usize, request: Request) {
        let [header_at, status_at, buffer_at] = self.place(tag);
        let base = self.memory.address();
        let Some(state) = self.states.get_mut(tag).filter(|state| !matches!(state, State::Busy(_))) else { return };
        if self.broken {
            *state = State::Done(request, false);
            return;
        }
        *state = State::Busy(request);
        let (kind, sector, len) = match request {
            Request::Read { sector, sectors } => (0u32, sector, sectors * SECTOR),
            Request::Write { sector, sectors } => (1, sector, sectors * SECTOR),
            Request::Flush => (4, 0, 0),
            Request::Id => (8, 0, ID as u32),
        };
        let mut header = [0; 16];
        header[..4].copy_from_slice(&kind.to_le_bytes());
        header[8..].copy_from_slice(&sector.to_le_bytes());
        self.memory.write(header_at, &header);
        // No status that there is: what the device leaves as it was, did not go well.
        self.memory.write(status_at, &[0xff]);
        let buffer = |at: u32, len, device_writes| Buffer { address: base + u64::from(at), len, device_writes };
        let header = buffer(header_at, 16, false);
        let data = buffer(buffer_at, len, !matches!(request, Request::Write { .. }));
        let status = buffer(status_at, 1, true);
        let head = tag as u16 * CHAIN;
        if len == 0 {
            self.queue.offer(&mut self.memory, head, &[header, status]);
        } else {
            self.queue.offer(&mut self.memory, head, &[header, data, status]);
        }
        if self.queue.wants_notice(&self.memory) {
            self.transport.notify(self.queue.index);
        }
    }

    /// Lowers the device's interrupt, and calls `done` with the tag of each client whose request is done now. True if
    /// any was.
    pub fn collect(&mut self, mut done: impl FnMut(usize)) -> bool {
        let mut any = false;
        if !self.transport.acknowledge() {
            self.broken = true;
        }
        self.memory.order();
        // No more than there can be, whatever the device says.
        for _ in 0..self.states.len() {
            let Some((head, _)) = self.queue.used(&self.memory) else { break };
            let tag = usize::from(head / CHAIN);
            let [_, status_at, _] = self.place(tag.min(self.states.len()));
            let Some(state) = self.states.get_mut(tag) else { continue };
            if let State::Busy(request) = *state {
                let mut status = [0xff];
                self.memory.read(status_at, &mut status);
                *state = State::Done(request, status == [0]);
                any = true;
                done(tag);
            }
        }
        if self.broken {
            // It does nothing more: nobody is left waiting.
            for (tag, state) in self.states.iter_mut().enumerate() {
                if let State::Busy(request) = *state {
                    *state = State::Done(request, false);
                    any = true;
                    done(tag);
                }
            }
        }
        any
    }

    /// The disk's serial number, which client 0 asked for with [`Request::Id`] and has in its buffer.
    #[must_use]
    pub fn id(&self) -> [u8; ID] {
        let mut id = [0; ID];
        self.read_buffer(0, 0, &mut id);
        id
    }
}
