//! The drivers against the devices that guests see, which are on the same side of nothing but the specification.

use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;

use spica_virtio::backend::{Disk, DiskError};
use spica_virtio::testing::{Ends, Ram, read, write};
use spica_virtio::{Plug, Slot, Work};

use crate::{Block, Client, Error, Kind, Memory, Net, Registers, Request, State, kind};

const BASE: u32 = 0x4000_0000;

/// A device, the memory that it shares with its driver, and what is behind it.
struct Bench {
    slot: Slot,
    ram: Ram,
    ends: Ends,
    /// What the driver reads of a register in place of what is there.
    lie: Option<(u32, u32)>,
}

#[derive(Clone)]
struct Handle(Rc<RefCell<Bench>>);

impl Handle {
    fn new(plug: &Plug) -> Self {
        let (slot, ram) = (Slot::new(plug), Ram::new(BASE, 1 << 20));
        Self(Rc::new(RefCell::new(Bench { slot, ram, ends: Ends::new(1024), lie: None })))
    }

    fn disk(read_only: bool) -> Self {
        Self::new(&Plug::Block { disk: 0, sectors: 1024, read_only, serial: *b"serial-of-the-disk\0\0" })
    }

    fn serve(&self) {
        let Bench { slot, ram, ends, .. } = &mut *self.0.borrow_mut();
        while slot.wants_service() {
            slot.serve(ram, ends, &mut Work::new(1 << 20));
        }
    }

    fn line(&self) -> bool {
        self.0.borrow().slot.line()
    }

    fn ends<T>(&self, with: impl FnOnce(&mut Ends) -> T) -> T {
        with(&mut self.0.borrow_mut().ends)
    }
}

impl Registers for Handle {
    fn read(&self, offset: u32) -> u32 {
        let mut bench = self.0.borrow_mut();
        match bench.lie {
            Some((at, value)) if at == offset => value,
            _ => read(&mut bench.slot, offset),
        }
    }

    fn write(&mut self, offset: u32, value: u32) {
        write(&mut self.0.borrow_mut().slot, offset, value);
    }
}

impl Memory for Handle {
    fn address(&self) -> u64 {
        BASE.into()
    }

    fn len(&self) -> u32 {
        1 << 20
    }

    fn read(&self, at: u32, into: &mut [u8]) {
        into.copy_from_slice(self.0.borrow().ram.get(BASE + at, into.len()));
    }

    fn write(&mut self, at: u32, from: &[u8]) {
        self.0.borrow_mut().ram.set(BASE + at, from);
    }

    fn read_number(&self, at: u32) -> u16 {
        self.0.borrow().ram.get_u16(BASE + at)
    }

    fn write_number(&mut self, at: u32, value: u16) {
        Memory::write(self, at, &value.to_le_bytes());
    }

    fn order(&self) {}
}

type Shared = Rc<RefCell<Block<Handle, Handle>>>;

fn block(device: &Handle, clients: u16) -> Shared {
    Rc::new(RefCell::new(Block::new(device.clone(), device.clone(), clients).unwrap()))
}

/// Does what the interrupt does; gives the clients that are done.
fn interrupt(device: &Handle, disk: &Shared) -> Vec<usize> {
    device.serve();
    let mut done = vec![];
    disk.borrow_mut().collect(|tag| done.push(tag));
    assert!(!device.line());
    done
}

/// Asks until there is an answer, which takes `times` interrupts.
fn wait(
    device: &Handle,
    disk: &Shared,
    times: usize,
    mut ask: impl FnMut() -> Result<(), DiskError>,
) -> Result<(), DiskError> {
    for _ in 0..times {
        assert_eq!(ask(), Err(DiskError::Later));
        assert_eq!(ask(), Err(DiskError::Later), "asking again starts nothing");
        assert_eq!(interrupt(device, disk).len(), 1);
    }
    ask()
}

#[test]
fn devices_are_recognised() {
    let device = Handle::disk(false);
    assert_eq!(kind(&device), Kind::Block);
    assert_eq!(kind(&Handle::new(&Plug::Net { port: 0, mac: [2; 6] })), Kind::Net);
    assert_eq!(kind(&Handle::new(&Plug::Rng)), Kind::Other);
    assert_eq!(Net::new(device.clone(), device.clone()).err(), Some(Error::Kind(Kind::Block)));
    device.0.borrow_mut().lie = Some((0x004, 1));
    assert_eq!(kind(&device), Kind::Legacy);
    assert_eq!(Block::new(device.clone(), device, 1).err(), Some(Error::Kind(Kind::Legacy)));
    let device = Handle::disk(false);
    device.0.borrow_mut().lie = Some((0x010, 0));
    assert_eq!(Block::new(device.clone(), device.clone(), 1).err(), Some(Error::Features));
    let device = Handle::disk(false);
    let error = Block::new(device.clone(), device, 60).err();
    assert_eq!(error, Some(Error::Queue { wanted: 256, most: 128 }));
}

#[test]
fn a_disk_says_what_it_is() {
    let device = Handle::disk(true);
    let disk = block(&device, 2);
    assert!(disk.borrow().read_only() && disk.borrow().needs_flush());
    assert_eq!(disk.borrow().sectors(), 1024);
    disk.borrow_mut().start(0, Request::Id);
    assert_eq!(interrupt(&device, &disk), [0]);
    assert_eq!(&disk.borrow().id(), b"serial-of-the-disk\0\0");
}

#[test]
fn what_is_read_is_what_is_there() {
    let device = Handle::disk(false);
    let disk = block(&device, 1);
    let mut client = Client::new(disk.clone(), 0);
    let all = device.ends(|ends| ends.disk.clone());
    let mut requests = 0;
    for (sector, sectors) in [(0, 8), (8, 8), (3, 1), (1023, 1), (1021, 3), (5, 8), (500, 64), (501, 60), (0, 1)] {
        let mut bytes = vec![0; 512 * sectors];
        let mut result = client.read(sector, &mut bytes);
        while result == Err(DiskError::Later) {
            requests += 1;
            assert_eq!(interrupt(&device, &disk), [0]);
            result = client.read(sector, &mut bytes);
        }
        assert_eq!(result, Ok(()));
        assert!(bytes == all[sector as usize * 512..][..bytes.len()], "{sector} {sectors}");
    }
    assert_eq!(requests, 5, "reads bring what comes next");
    assert_eq!(client.read(0, &mut [0; 65 * 512]), Err(DiskError::Failed), "more than the buffer");
}

#[test]
fn two_clusters_are_there_at_once() {
    let device = Handle::disk(false);
    let disk = block(&device, 1);
    let mut client = Client::new(disk.clone(), 0);
    let mut bytes = [0; 512];
    wait(&device, &disk, 1, || client.read(100, &mut bytes)).unwrap();
    wait(&device, &disk, 1, || client.read(15, &mut bytes)).unwrap();
    client.read(16, &mut bytes).unwrap();
    client.read(15, &mut bytes).unwrap();
}

#[test]
fn what_was_written_is_there_and_lasts() {
    let device = Handle::disk(false);
    let disk = block(&device, 1);
    let mut client = Client::new(disk.clone(), 0);
    let mut back = [0; 1024];
    wait(&device, &disk, 1, || client.read(9, &mut back)).unwrap();
    wait(&device, &disk, 1, || client.write(9, &[7; 1024])).unwrap();
    assert_eq!(device.ends(|ends| ends.disk[9 * 512..][..1025].to_vec())[..1024], [7; 1024]);
    assert_eq!(device.ends(|ends| ends.flushes), 0);
    wait(&device, &disk, 1, || client.flush()).unwrap();
    wait(&device, &disk, 1, || client.flush()).unwrap();
    assert_eq!(device.ends(|ends| ends.flushes), 2);
    wait(&device, &disk, 1, || client.read(9, &mut back)).unwrap();
    assert_eq!(back, [7; 1024], "nothing old is given");
    wait(&device, &disk, 1, || client.clear(10, 64)).unwrap();
    assert_eq!(device.ends(|ends| ends.disk[10 * 512..74 * 512].iter().position(|&b| b != 0)), None);
    assert_eq!(device.ends(|ends| ends.disk[9 * 512]), 7);
}

/// A guest may be reset while a request is under way. What comes of that must not pass for an answer to another.
#[test]
fn an_answer_is_for_its_own_question() {
    let device = Handle::disk(false);
    let disk = block(&device, 1);
    let mut client = Client::new(disk.clone(), 0);
    assert_eq!(client.write(9, &[1; 512]), Err(DiskError::Later));
    assert_eq!(client.write(9, &[2; 512]), Err(DiskError::Later), "the other is under way");
    interrupt(&device, &disk);
    wait(&device, &disk, 1, || client.write(9, &[2; 512])).unwrap();
    assert_eq!(device.ends(|ends| ends.disk[9 * 512]), 2);
    assert_eq!(client.write(9, &[3; 512]), Err(DiskError::Later));
    interrupt(&device, &disk);
    wait(&device, &disk, 1, || client.flush()).unwrap();
    assert_eq!(device.ends(|ends| ends.flushes), 1);
    assert_eq!(client.write(9, &[4; 512]), Err(DiskError::Later));
    interrupt(&device, &disk);
    let mut back = [0; 512];
    wait(&device, &disk, 1, || client.read(9, &mut back)).unwrap();
    assert_eq!(back, [4; 512]);
    // Equal writes one after the other are two.
    wait(&device, &disk, 1, || client.write(9, &[5; 512])).unwrap();
    wait(&device, &disk, 1, || client.write(9, &[5; 512])).unwrap();
}

#[test]
fn clients_do_not_wait_for_each_other() {
    let device = Handle::disk(false);
    let disk = block(&device, 3);
    let mut clients: Vec<_> = disk.borrow().clients().map(|tag| Client::new(disk.clone(), tag)).collect();
    let write = |client: &mut Client<_, _>, n: u8| client.write(n.into(), &[n; 512]);
    for (client, n) in clients.iter_mut().zip(1..) {
        assert_eq!(write(client, n), Err(DiskError::Later));
    }
    assert_eq!(interrupt(&device, &disk), [0, 1, 2]);
    for (client, n) in clients.iter_mut().zip(1..) {
        write(client, n).unwrap();
        assert_eq!(device.ends(|ends| ends.disk[512 * usize::from(n)]), n);
    }
}

#[test]
fn failures_are_said() {
    let device = Handle::disk(false);
    let disk = block(&device, 1);
    let mut client = Client::new(disk.clone(), 0);
    device.ends(|ends| ends.disk_error = Some(DiskError::Failed));
    let mut bytes = [0; 512];
    assert_eq!(wait(&device, &disk, 1, || client.read(0, &mut bytes)), Err(DiskError::Failed));
    assert_eq!(wait(&device, &disk, 1, || client.write(0, &bytes)), Err(DiskError::Failed));
    assert_eq!(wait(&device, &disk, 1, || client.flush()), Err(DiskError::Failed));
    device.ends(|ends| ends.disk_error = None);
    wait(&device, &disk, 1, || client.read(0, &mut bytes)).unwrap();
}

#[test]
fn a_device_that_breaks_leaves_nobody_waiting() {
    let device = Handle::disk(false);
    let disk = block(&device, 2);
    let mut client = Client::new(disk.clone(), 1);
    assert_eq!(client.flush(), Err(DiskError::Later));
    device.0.borrow_mut().lie = Some((0x070, 0x4f));
    let mut done = vec![];
    disk.borrow_mut().collect(|tag| done.push(tag));
    assert_eq!(done, [1]);
    assert_eq!(client.flush(), Err(DiskError::Failed));
    assert_eq!(client.flush(), Err(DiskError::Later));
    assert_eq!(client.flush(), Err(DiskError::Failed));
    assert_eq!(disk.borrow().state(0), State::Idle);
}

fn card() -> (Handle, Net<Handle, Handle>) {
    let device = Handle::new(&Plug::Net { port: 0, mac: [2, 0, 0, 0, 0, 1] });
    let net = Net::new(device.clone(), device.clone()).unwrap();
    (device, net)
}

fn frame(n: usize) -> Vec<u8> {
    (0..60 + n % 1400).map(|at| (at + n) as u8).collect()
}

#[test]
fn frames_come() {
    let (device, mut net) = card();
    let mut buffer = [0; 1518];
    assert_eq!(net.receive(&mut buffer), None);
    for round in 0..5 {
        device.ends(|ends| ends.frames.extend((0..50).map(|n| frame(50 * round + n))));
        device.0.borrow_mut().slot.poke();
        device.serve();
        assert!(device.line());
        net.acknowledge();
        assert!(!device.line());
        for n in 0..50 {
            let len = net.receive(&mut buffer).unwrap();
            assert!(buffer[..len] == frame(50 * round + n)[..]);
        }
        assert_eq!(net.receive(&mut buffer), None);
    }
}

#[test]
fn frames_go() {
    let (device, mut net) = card();
    for n in 0..50 {
        assert!(net.send(&frame(n)));
    }
    assert!(!net.push(false));
    device.serve();
    assert!(!device.line(), "nobody wants to know");
    assert!(net.send(&[0; 1519]), "as good as sent");
    for n in 50..114 {
        assert!(net.send(&frame(n)), "{n}");
    }
    assert!(!net.send(&frame(114)), "no room");
    assert!(!net.push(true), "an interrupt will come");
    device.serve();
    assert!(device.line());
    net.acknowledge();
    assert!(net.send(&frame(114)));
    assert!(!net.push(false));
    device.serve();
    assert_eq!(device.ends(|ends| core::mem::take(&mut ends.sent)), (0..115).map(frame).collect::<Vec<_>>());
    // What was sent before the card saw that somebody waits.
    (0..64).for_each(|n| assert!(net.send(&frame(n))));
    assert!(!net.push(false));
    device.serve();
    assert!(net.push(true));
}
