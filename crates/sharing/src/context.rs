//! Who uses memory.

/// Processes that are told apart.
pub const MOST_PROCESSES: usize = 24;

/// Who uses memory, by a number from 1 to 31.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Context(u8);

/// A kind of device that reads and writes memory by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Device {
    /// Disks.
    Disk,
    /// Network cards.
    Network,
    /// Consoles.
    Console,
    /// Any other.
    Other,
}

impl Context {
    /// Handlers of interrupts, and what the kernel does at their ends.
    pub const INTERRUPTS: Context = Context(1);
    /// Processes beyond [`MOST_PROCESSES`].
    pub const OTHER_PROCESSES: Context = Context(2);
    const FIRST_PROCESS: u8 = 3;
    const FIRST_DEVICE: u8 = Self::FIRST_PROCESS + MOST_PROCESSES as u8;
    /// Several contexts that are not told apart.
    pub const SEVERAL: Context = Context(31);

    /// That of a kind of device.
    #[must_use]
    pub const fn of_device(device: Device) -> Context {
        Context(Self::FIRST_DEVICE + device as u8)
    }

    /// That of the process that has appeared as this one, counted from 0.
    #[must_use]
    pub const fn of_process(number: usize) -> Context {
        if number < MOST_PROCESSES { Context(Self::FIRST_PROCESS + number as u8) } else { Context::OTHER_PROCESSES }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The context of a number.
    #[must_use]
    pub const fn of_number(number: u32) -> Option<Context> {
        if matches!(number, 1..=31) { Some(Context(number as u8)) } else { None }
    }
}

const _: () = assert!(Context::of_device(Device::Other).0 == Context::SEVERAL.0 - 1);

/// The processes that have contexts of their own, in the order in which they appeared.
#[derive(Clone, Debug)]
pub struct Processes {
    tasks: [u32; MOST_PROCESSES],
    count: usize,
}

impl Default for Processes {
    fn default() -> Self {
        Processes { tasks: [0; MOST_PROCESSES], count: 0 }
    }
}

impl Processes {
    /// The context of the process that is known by `task`.
    pub fn context(&mut self, task: u32) -> Context {
        let known = self.tasks[..self.count].iter().position(|known| *known == task);
        let number = known.unwrap_or(self.count);
        if known.is_none()
            && let Some(place) = self.tasks.get_mut(self.count)
        {
            *place = task;
            self.count += 1;
        }
        Context::of_process(number)
    }

    /// Those that have contexts of their own, and by what they are known.
    pub fn iter(&self) -> impl Iterator<Item = (Context, u32)> {
        self.tasks[..self.count].iter().enumerate().map(|(number, &task)| (Context::of_process(number), task))
    }
}
