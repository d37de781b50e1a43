//! What drivers stand on, on the development machine: a bus with models of devices behind the board image's own interface to
//! registers (`memory::device`), and a time that passes with each access.
//!
//! One bus for each thread, so one for each test. An access to an address where nothing answers, or that a device answers with an
//! abort, is a panic, unless it was made with [`try_read`] (`arch::fixup`).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use spica_addr::HostPa;

/// Nanoseconds that an access takes.
const ACCESS: u64 = 150;

/// A device's registers.
pub trait Model {
    /// Time has passed: it is `now` nanoseconds.
    fn run(&mut self, _now: u64) {}
    /// A register is read; `None` is an abort.
    fn read(&mut self, offset: u32) -> Option<u32>;
    /// A register is written.
    fn write(&mut self, offset: u32, value: u32);
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
    static UNORDERED: Cell<bool> = const { Cell::new(false) };
}

/// Puts a device on the bus.
pub fn attach<T: Model + 'static>(start: u32, len: u32, model: T) -> Shared<T> {
    let model = Rc::new(RefCell::new(model));
    SLOTS.with_borrow_mut(|slots| slots.push(Slot { start, len, model: model.clone() }));
    model
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

/// A data synchronisation barrier.
pub fn barrier() {
    UNORDERED.set(false);
}

/// Whether a device was written to since the last barrier.
pub fn unordered() -> bool {
    UNORDERED.get()
}

fn at(address: u32) -> (Shared<dyn Model>, u32) {
    let slots = SLOTS.with_borrow(Vec::clone);
    let slot = slots.into_iter().find(|slot| address.wrapping_sub(slot.start) < slot.len);
    let slot = slot.unwrap_or_else(|| panic!("external abort: nothing answers at {address:#010x}"));
    (slot.model, address - slot.start)
}

/// A read that may be answered with an abort.
pub fn try_read(address: u32) -> Option<u32> {
    pass(ACCESS);
    let (model, offset) = at(address);
    model.borrow_mut().read(offset)
}

/// The stand-in for the board image's `memory::device`.
pub mod device {
    use super::{ACCESS, HostPa, UNORDERED, at, fmt, pass, try_read};

    /// Registers of one device; here, virtual addresses are physical ones.
    #[derive(Clone, Copy, Debug)]
    pub struct Mmio {
        base: u32,
        len: u32,
    }

    /// Here, all can be mapped that is within a megabyte.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Crosses;

    impl fmt::Display for Crosses {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "the registers cross a megabyte boundary, which no window can show")
        }
    }

    /// As the board image's own.
    ///
    /// # Errors
    /// As there.
    pub fn map(pa: HostPa, len: u32) -> Result<Mmio, Crosses> {
        if len == 0 || (pa.0 % (1 << 20)).saturating_add(len) > 1 << 20 {
            return Err(Crosses);
        }
        Ok(Mmio { base: pa.0, len })
    }

    impl Mmio {
        /// As the board image's own.
        #[must_use]
        pub fn address(&self, offset: u32, size: u32) -> u32 {
            assert!(
                offset.is_multiple_of(size) && offset.checked_add(size).is_some_and(|end| end <= self.len),
                "no register {offset:#x}"
            );
            self.base + offset
        }

        /// As the board image's own.
        pub fn read(&self, offset: u32) -> u32 {
            let address = self.address(offset, 4);
            try_read(address).unwrap_or_else(|| panic!("external abort: {address:#010x} is read"))
        }

        /// As the board image's own.
        pub fn write(&self, offset: u32, value: u32) {
            pass(ACCESS);
            let (model, offset) = at(self.address(offset, 4));
            model.borrow_mut().write(offset, value);
            UNORDERED.set(true);
        }

        /// As the board image's own.
        #[must_use]
        pub fn read_byte(&self, offset: u32) -> u8 {
            let address = self.address(offset, 1);
            try_read(address).unwrap_or_else(|| panic!("external abort: {address:#010x} is read")) as u8
        }

        /// As the board image's own.
        pub fn write_byte(&self, offset: u32, value: u8) {
            pass(ACCESS);
            let (model, offset) = at(self.address(offset, 1));
            model.borrow_mut().write(offset, value.into());
            UNORDERED.set(true);
        }
    }
}
