//! A virtio-mmio slot: the registers (virtio 4.2.2) between a driver and the device that is plugged in, if one is.
//!
//! An access changes nothing but the slot's own state: a kick, or a backend's [`Slot::poke`], is noted, and the work is
//! done when the slot is [served](Slot::serve).
//!
//! Wrong accesses are harmless: a register that does not exist, or an access to one that is not 32 bits wide, reads as
//! zero and ignores writes. An index of a queue that does not exist selects nothing. What must not be written in the
//! present state is not written.

mod registers;
pub mod state;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use spica_devices::{Mmio, Width};

use crate::backend::Backends;
use crate::device::{Io, Model, Plug};
use crate::queue::Queue;
use crate::work::{Progress, Work};
use crate::{Dma, Malformed, features};

/// Bits of the device status (virtio 2.1). ACKNOWLEDGE and DRIVER are the driver's notes to itself.
mod status {
    pub(super) const DRIVER_OK: u32 = 1 << 2;
    pub(super) const FEATURES_OK: u32 = 1 << 3;
    pub(super) const NEEDS_RESET: u32 = 1 << 6;
    pub(super) const FAILED: u32 = 1 << 7;
    /// What a driver may set.
    pub(super) const DRIVERS: u32 = 0b1111 | FAILED;
}

/// Bits of the interrupt status (virtio 4.2.2): buffers were used; the configuration changed.
const USED_BUFFER: u32 = 1 << 0;
const CONFIG_CHANGED: u32 = 1 << 1;

/// A slot. An empty one has a device ID of zero, and drivers pass over it in silence.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    plugged: Option<Box<Plugged>>,
}

/// A device and its side of the transport.
#[derive(Clone, Debug)]
struct Plugged {
    model: Model,
    queues: Vec<Queue>,
    status: u32,
    /// What the driver accepts; counts once FEATURES_OK is set.
    accepted: u64,
    /// Which half of 64 feature bits the driver reads, and which it writes.
    device_half: u32,
    driver_half: u32,
    /// The queue that the registers of queues are about.
    selected: u32,
    interrupt: u32,
    /// An acknowledgement left something: see [`Slot::take_edge`].
    edge: bool,
    generation: u32,
    /// There may be something to do.
    attention: bool,
    /// What the driver did wrong last.
    malformed: Option<Malformed>,
}

impl Slot {
    /// A slot with a device in it.
    #[must_use]
    pub fn new(plug: &Plug) -> Self {
        let model = Model::new(plug);
        let queues = model.device().queues().iter().map(|&max| Queue::new(max)).collect();
        Self {
            plugged: Some(Box::new(Plugged {
                model,
                queues,
                status: 0,
                accepted: 0,
                device_half: 0,
                driver_half: 0,
                selected: 0,
                interrupt: 0,
                edge: false,
                generation: 0,
                attention: false,
                malformed: None,
            })),
        }
    }

    /// Whether the interrupt line is high.
    #[must_use]
    pub fn line(&self) -> bool {
        self.plugged.as_ref().is_some_and(|plugged| plugged.interrupt != 0)
    }

    /// Whether the line is to fall and rise again, if it is high. The device tree calls the interrupt edge-triggered,
    /// as QEMU's does; a cause that an acknowledgement left over would otherwise never be seen.
    pub fn take_edge(&mut self) -> bool {
        self.plugged.as_mut().is_some_and(|plugged| core::mem::take(&mut plugged.edge))
    }

    /// Whether [`serve`](Self::serve) may have something to do.
    #[must_use]
    pub fn wants_service(&self) -> bool {
        self.plugged.as_ref().is_some_and(|plugged| plugged.attention)
    }

    /// The backend has something for the device, or room for more, or is ready where it was not.
    pub fn poke(&mut self) {
        if let Some(plugged) = &mut self.plugged {
            plugged.attention = true;
        }
    }

    /// Lets the device work. If the work does not suffice, the slot [wants more](Self::wants_service).
    pub fn serve(&mut self, dma: &mut dyn Dma, backends: &mut dyn Backends, work: &mut Work) {
        if let Some(plugged) = &mut self.plugged
            && plugged.attention
        {
            dma.serves(plugged.model.device().id());
            plugged.attention = plugged.serve(dma, backends, work) == Progress::More;
        }
    }

    /// For a balloon: how many pages the host would like to have.
    pub fn set_balloon_target(&mut self, pages: u32) {
        if let Some(plugged) = &mut self.plugged
            && let Model::Balloon(balloon) = &mut plugged.model
            && balloon.set_target(pages)
        {
            plugged.config_changed();
        }
    }

    /// For a balloon: how many pages the host has. 0 for other devices.
    #[must_use]
    pub fn balloon_pages(&self) -> u32 {
        match self.plugged.as_ref().map(|plugged| &plugged.model) {
            Some(Model::Balloon(balloon)) => balloon.count(),
            _ => 0,
        }
    }

    /// For a balloon: what the driver said of the guest's memory when it was last asked, by tag (virtio 5.5.6.4), and
    /// asks it anew. It is the guest's word. All zero as long as it said nothing; `None` for other devices.
    pub fn balloon_statistics(&mut self) -> Option<[u64; 10]> {
        let plugged = self.plugged.as_mut()?;
        let Model::Balloon(balloon) = &mut plugged.model else { return None };
        plugged.attention = true;
        Some(balloon.statistics())
    }

    /// For a network device: whether its cable is in.
    pub fn set_link(&mut self, up: bool) {
        if let Some(plugged) = &mut self.plugged
            && let Model::Net(net) = &mut plugged.model
            && net.set_link(up)
        {
            plugged.config_changed();
        }
    }

    /// The device's number; 0 for an empty slot.
    #[must_use]
    pub fn device_id(&self) -> u32 {
        self.plugged.as_ref().map_or(0, |plugged| plugged.model.device().id())
    }
}

impl Plugged {
    /// Whether the driver has the device running, and nothing went wrong.
    const fn is_live(&self) -> bool {
        self.status & (status::DRIVER_OK | status::NEEDS_RESET | status::FAILED) == status::DRIVER_OK
    }

    fn serve(&mut self, dma: &mut dyn Dma, backends: &mut dyn Backends, work: &mut Work) -> Progress {
        if self.model.device_mut().settle(backends, work) == Progress::More {
            return Progress::More;
        }
        if !self.is_live() {
            return Progress::Idle;
        }
        let progress = self.model.device_mut().serve(Io { queues: &mut self.queues, dma, backends, work });
        // What was completed before something went wrong, was.
        let told = self.queues.iter_mut().try_fold(false, |told, queue| Ok(queue.take_interrupt(dma)? || told));
        if told == Ok(true) {
            self.interrupt |= USED_BUFFER;
        }
        match (progress, told) {
            (Ok(progress), Ok(_)) => progress,
            (Err(malformed), _) | (_, Err(malformed)) => {
                self.fail(malformed);
                Progress::Idle
            }
        }
    }

    /// The driver broke the rules: the device does nothing more until it is reset (virtio 2.1.2). The driver hears of
    /// it, as soon as it can.
    fn fail(&mut self, malformed: Malformed) {
        self.malformed = Some(malformed);
        self.status |= status::NEEDS_RESET;
        if self.status & status::DRIVER_OK != 0 {
            self.interrupt |= CONFIG_CHANGED;
        }
    }

    /// The configuration space changed by itself.
    fn config_changed(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        if self.status & status::DRIVER_OK != 0 {
            self.interrupt |= CONFIG_CHANGED;
        }
    }

    /// All that the device offers.
    fn offered(&self) -> u64 {
        self.model.device().features() | features::COMMON
    }

    fn reset(&mut self) {
        for queue in &mut self.queues {
            queue.reset();
            queue.negotiate(0);
        }
        (self.status, self.accepted, self.interrupt) = (0, 0, 0);
        (self.device_half, self.driver_half, self.selected) = (0, 0, 0);
        self.malformed = None;
        let device = self.model.device_mut();
        device.reset();
        device.negotiate(0);
        // What the reset leaves to be done.
        self.attention = true;
    }

    /// A write to the status register (virtio 3.1.1). Bits are only ever added; zero is a reset.
    fn write_status(&mut self, value: u32) {
        if value == 0 {
            return self.reset();
        }
        let mut new = value & status::DRIVERS & !self.status;
        if new & status::FEATURES_OK != 0 {
            let acceptable = self.accepted & !self.offered() == 0 && self.accepted & features::VERSION_1 != 0;
            if acceptable {
                self.model.device_mut().negotiate(self.accepted);
                for queue in &mut self.queues {
                    queue.negotiate(self.accepted);
                }
            } else {
                new &= !status::FEATURES_OK;
            }
        }
        // Without features agreed on, nothing may be used.
        if (self.status | new) & status::FEATURES_OK == 0 {
            new &= !status::DRIVER_OK;
        }
        self.status |= new;
        if new & status::DRIVER_OK != 0 {
            // There may be kicks from before, and the device may have something for the driver.
            self.attention = true;
            if self.status & status::NEEDS_RESET != 0 {
                self.interrupt |= CONFIG_CHANGED;
            }
        }
    }
}

impl Mmio for Slot {
    fn read(&mut self, offset: u32, width: Width) -> u32 {
        match &self.plugged {
            Some(plugged) => plugged.read(offset, width),
            None => registers::read_empty(offset, width),
        }
    }

    fn write(&mut self, offset: u32, width: Width, value: u32) {
        if let Some(plugged) = &mut self.plugged {
            plugged.write(offset, width, value);
        }
    }
}

/// One line for a report: what the device and its driver are doing.
impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(plugged) = &self.plugged else { return f.write_str("empty") };
        write!(f, "device {}, status {:#x}", plugged.model.device().id(), plugged.status)?;
        match plugged.malformed {
            Some(malformed) => write!(f, ", needs a reset: {malformed}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
