//! The board's own disks, as far as guests have them: who they are, whose requests are under way, and that what was
//! written lasts when the board goes off.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;

use spica_bundle::{DiskMode, DiskSource, GuestSpec};
use spica_virtio::backend::{Disk, DiskError};
use spica_virtio_driver::{Block, Client, Kind, Request, State};

use super::pending::PendingSlots;
use crate::board::virtio::{Device, Shared, Window};
use crate::board::{Board, Line};
use crate::contain::shared;
use crate::memory::pool::Share;

/// How long a disk may take to say its name, in microseconds.
const NAMING: u32 = 1_000_000;
/// How long a disk may take to bring to safety what was written, when the board goes off.
const FLUSHING: u32 = 30_000_000;

/// A guest's claim to a disk, which other guests may have, too.
pub struct HostDisk(Client<Window, Shared>);

impl Disk for HostDisk {
    fn read(&mut self, sector: u64, into: &mut [u8]) -> Result<(), DiskError> {
        shared(|| self.0.read(sector, into))
    }

    fn write(&mut self, sector: u64, from: &[u8]) -> Result<(), DiskError> {
        shared(|| self.0.write(sector, from))
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        shared(|| self.0.flush())
    }

    fn clear(&mut self, sector: u64, sectors: u32) -> Result<(), DiskError> {
        shared(|| self.0.clear(sector, sectors))
    }

    fn discard(&mut self, sector: u64, sectors: u32) -> Result<(), DiskError> {
        shared(|| self.0.discard(sector, sectors))
    }
}

type Driver = Block<Window, Shared>;

/// A disk of the board.
struct Unit {
    driver: Rc<RefCell<Driver>>,
    line: Line,
    name: String,
    /// Which guest, and which slot of its machine, each client is.
    clients: Vec<(usize, usize)>,
}

/// See the module's text.
#[derive(Default)]
pub struct Disks {
    units: Vec<Unit>,
}

/// Why a guest does not get a disk of the board.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DiskProblem {
    /// There is none, or none of this name; the names of those that there are.
    Missing(DiskSource<()>, Vec<String>),
    /// It cannot be written.
    ReadOnly(String),
}

impl fmt::Display for DiskProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(_, names) if names.is_empty() => {
                write!(
                    f,
                    "the board has no disk that Spica can drive: it drives virtio disks only; name a file of the bundle"
                )
            }
            Self::Missing(source, names) => {
                let name = if let DiskSource::HostDisk(name) = source { name } else { "" };
                write!(f, "the board has no disk `{name}`: there are {}", names.join(", "))
            }
            Self::ReadOnly(name) => write!(f, "the board's disk {name} cannot be written; expected mode \"read-only\""),
        }
    }
}

/// How many disks of these guests are the board's.
fn wanted(guests: &[GuestSpec<'_>]) -> u16 {
    let disks = guests.iter().flat_map(|guest| &guest.disks);
    disks.filter(|disk| !matches!(disk.source, DiskSource::File(_))).count() as u16
}

impl Disks {
    /// Takes over the board's disks, if any of these guests has one.
    ///
    /// # Errors
    /// What is wrong with a disk, or that there is no memory.
    pub fn start(board: &mut Board, guests: &[GuestSpec<'_>]) -> Result<Disks, String> {
        let clients = wanted(guests);
        let mut disks = Disks::default();
        if clients == 0 {
            return Ok(disks);
        }
        let is_disk = |device: &Device| device.kind == Kind::Block;
        let found: Vec<_> = board.virtio.extract_if(.., |device| is_disk(device)).collect();
        if found.is_empty() {
            // Whoever wants one is told by `claim`.
            return Ok(disks);
        }
        let bytes = Driver::bytes(clients).next_multiple_of(4096);
        let mut share = Share::take(0, bytes * found.len() as u32).map_err(|error| format!("disks: {error}"))?;
        for (device, number) in found.into_iter().zip(0..) {
            let memory = Shared::take(&mut share, bytes).ok_or("disks: no memory")?;
            let driver = Driver::new(device.registers, memory, clients);
            let driver = driver.map_err(|error| format!("disk {}: {error}", device.node))?;
            let driver = Rc::new(RefCell::new(driver));
            let name = name(board, &driver).unwrap_or_else(|| format!("virtio{number}"));
            board.interrupts.driver.enable(device.line);
            disks.units.push(Unit { driver, line: device.line, name, clients: Vec::new() });
        }
        Ok(disks)
    }

    /// A guest's claim to a disk, for a slot of its machine, with the size in sectors. There are as many as the guests
    /// wanted.
    ///
    /// # Errors
    /// If there is no such disk, or it cannot be written but shall be.
    pub fn claim<F>(
        &mut self,
        source: &DiskSource<F>,
        mode: DiskMode,
        guest: usize,
        slot: usize,
    ) -> Result<(HostDisk, u64), DiskProblem> {
        let names = self.units.iter().map(|unit| unit.name.clone()).collect();
        let (unit, source) = match source {
            DiskSource::HostDisk(name) => {
                (self.units.iter_mut().find(|unit| unit.name == *name), DiskSource::HostDisk(name.clone()))
            }
            DiskSource::FirstHostDisk | DiskSource::File(_) => (self.units.first_mut(), DiskSource::FirstHostDisk),
        };
        let unit = unit.ok_or(DiskProblem::Missing(source, names))?;
        let driver = unit.driver.borrow();
        if mode == DiskMode::ReadWrite && driver.read_only() {
            return Err(DiskProblem::ReadOnly(unit.name.clone()));
        }
        unit.clients.push((guest, slot));
        Ok((HostDisk(Client::new(unit.driver.clone(), unit.clients.len() - 1)), driver.sectors()))
    }

    /// Settles the interrupt of `line`, if it is a disk's; true if requests of another guest than `current` are done.
    pub fn interrupt(&mut self, line: Line, pending: &mut PendingSlots, current: usize) -> bool {
        let mut others = false;
        for unit in self.units.iter().filter(|unit| unit.line == line) {
            unit.driver.borrow_mut().collect(|tag| {
                if let Some(&(guest, slot)) = unit.clients.get(tag) {
                    pending.tell(guest, slot);
                    others |= guest != current;
                }
            });
        }
        others
    }

    /// Waits until all that is under way is done and lasts.
    ///
    /// # Errors
    /// Which disk failed to see to that.
    pub fn flush(&mut self, board: &mut Board) -> Result<(), String> {
        for unit in &self.units {
            let mut driver = unit.driver.borrow_mut();
            let idle = |driver: &Driver| !driver.clients().any(|tag| matches!(driver.state(tag), State::Busy(_)));
            let mut well = wait(board, &mut driver, FLUSHING, idle);
            if well && driver.needs_flush() && !driver.read_only() {
                driver.start(0, Request::Flush);
                well = wait(board, &mut driver, FLUSHING, idle) && driver.state(0) == State::Done(Request::Flush, true);
            }
            if !well {
                return Err(format!("disk {}: what was written last may be lost: it does not flush", unit.name));
            }
        }
        Ok(())
    }
}

/// Waits, for so many microseconds at most, until the disk is as it should be.
fn wait(board: &mut Board, driver: &mut Driver, microseconds: u32, done: impl Fn(&Driver) -> bool) -> bool {
    let timer = &mut board.timer.driver;
    let until = timer.now() + u64::from(timer.frequency()) * u64::from(microseconds) / 1_000_000;
    while !done(driver) {
        if timer.now() > until {
            return false;
        }
        driver.collect(|_| {});
    }
    true
}

/// What the disk calls itself, if it does.
fn name(board: &mut Board, driver: &RefCell<Driver>) -> Option<String> {
    let mut driver = driver.borrow_mut();
    driver.start(0, Request::Id);
    let done = wait(board, &mut driver, NAMING, |driver| driver.state(0) == State::Done(Request::Id, true));
    let id = driver.id();
    let id = id.split(|&byte| byte == 0).next().and_then(|id| core::str::from_utf8(id).ok());
    id.filter(|id| done && !id.is_empty()).map(ToString::to_string)
}
