//! What drivers stand on, on the development machine: a bus with models of devices behind the drivers' own interface to
//! registers ([`crate::hardware`]), and a time that passes with each access.
//!
//! One bus for each thread, so one for each test. An access to an address where nothing answers, or that a device
//! answers with an abort, is a panic, unless the driver is prepared for that ([`Registers::try_read`]).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::thread_local;
use std::vec::Vec;

use spica_addr::HostPa;

use super::generic_timer::GenericTimer;
use crate::hardware::{Hardware, Registers};

/// Nanoseconds that an access takes, if a test says nothing else.
const ACCESS: u64 = 150;

/// A device's registers.
pub trait Model {
    /// Time has passed: it is `now` nanoseconds.
    fn run(&mut self, _now: u64) {}
    /// A register is read; `None` is an abort.
    fn read(&mut self, offset: u32) -> Option<u32>;
    /// A register is written.
    fn write(&mut self, offset: u32, value: u32);
    /// Whether its registers can be accessed as bytes; else that is an abort.
    fn takes_bytes(&self) -> bool {
        false
    }
}

/// A model that is on the bus, and that a test looks into.
pub type Shared<T> = Rc<RefCell<T>>;

#[derive(Clone)]
struct Slot {
    start: u32,
    len: u32,
    model: Shared<dyn Model>,
}

thread_local! {
    static SLOTS: RefCell<Vec<Slot>> = const { RefCell::new(Vec::new()) };
    static NOW: Cell<u64> = const { Cell::new(0) };
    static EACH: Cell<u64> = const { Cell::new(ACCESS) };
    static UNORDERED: Cell<bool> = const { Cell::new(false) };
}

/// Puts a device on the bus.
pub fn attach<T: Model + 'static>(start: u32, len: u32, model: T) -> Shared<T> {
    let model = Rc::new(RefCell::new(model));
    SLOTS.with_borrow_mut(|slots| slots.push(Slot { start, len, model: model.clone() }));
    model
}

/// Takes all devices off the bus: a test that has several cases begins again.
pub fn clear() {
    SLOTS.with_borrow_mut(Vec::clear);
    NOW.set(0);
    EACH.set(ACCESS);
    UNORDERED.set(false);
    super::generic_timer::detach();
}

/// Accesses take so many nanoseconds from now on: on a fast bus, a slow device needs to be waited for.
pub fn set_speed(nanoseconds: u64) {
    EACH.set(nanoseconds);
}

/// Nanoseconds since the test began.
pub fn now() -> u64 {
    NOW.get()
}

/// Lets time pass.
pub fn pass(nanoseconds: u64) {
    let now = NOW.get() + nanoseconds;
    NOW.set(now);
    let slots = SLOTS.with_borrow(Vec::clone);
    for slot in slots {
        // The device that is at work at the moment hears of it at its next access.
        if let Ok(mut model) = slot.model.try_borrow_mut() {
            model.run(now);
        }
    }
}

/// Whether a device was written to since the last barrier.
pub fn unordered() -> bool {
    UNORDERED.get()
}

/// The machine that all these devices are in.
pub enum Bus {}

impl Hardware for Bus {
    type Registers = Window;
    type GenericTimer = GenericTimer;
    type MapError = Crosses;

    fn map(pa: HostPa, len: u32) -> Result<Window, Crosses> {
        if len == 0 || (pa.0 % (1 << 20)).saturating_add(len) > 1 << 20 {
            return Err(Crosses);
        }
        Ok(Window { base: pa.0, len })
    }

    fn generic_timer() -> Option<GenericTimer> {
        GenericTimer::of_the_core()
    }

    fn dsb() {
        UNORDERED.set(false);
    }
}

/// As on the board, all can be mapped that is within a megabyte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crosses;

impl fmt::Display for Crosses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the registers cross a megabyte boundary")
    }
}

/// Registers of one device; here, virtual addresses are physical ones.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    base: u32,
    len: u32,
}

impl Window {
    /// The device behind the `size` bytes at `offset`, a register, and its offset there. Looking for it takes time.
    fn at(&self, offset: u32, size: u32) -> (Shared<dyn Model>, u32) {
        let address = self.address(offset, size);
        pass(EACH.get());
        let slots = SLOTS.with_borrow(Vec::clone);
        let slot = slots.into_iter().find(|slot| address.wrapping_sub(slot.start) < slot.len);
        let slot = slot.unwrap_or_else(|| panic!("external abort: nothing answers at {address:#010x}"));
        assert!(size == 4 || slot.model.borrow().takes_bytes(), "external abort: {address:#010x} is no byte");
        (slot.model, address - slot.start)
    }

    fn read_at(&self, offset: u32, size: u32) -> Option<u32> {
        let (model, at) = self.at(offset, size);
        model.borrow_mut().read(at)
    }

    fn write_at(&self, offset: u32, size: u32, value: u32) {
        let (model, at) = self.at(offset, size);
        model.borrow_mut().write(at, value);
        UNORDERED.set(true);
    }

    fn aborted(&self, offset: u32) -> ! {
        panic!("external abort: {:#010x} is read", self.base + offset)
    }
}

impl Registers for Window {
    fn address(&self, offset: u32, size: u32) -> u32 {
        assert!(
            offset.is_multiple_of(size) && offset.checked_add(size).is_some_and(|end| end <= self.len),
            "no register {offset:#x}"
        );
        self.base + offset
    }

    fn read(&self, offset: u32) -> u32 {
        self.read_at(offset, 4).unwrap_or_else(|| self.aborted(offset))
    }

    fn write(&self, offset: u32, value: u32) {
        self.write_at(offset, 4, value);
    }

    fn read_byte(&self, offset: u32) -> u8 {
        self.read_at(offset, 1).unwrap_or_else(|| self.aborted(offset)) as u8
    }

    fn write_byte(&self, offset: u32, value: u8) {
        self.write_at(offset, 1, value.into());
    }

    fn try_read(&self, offset: u32) -> Option<u32> {
        self.read_at(offset, 4)
    }
}
