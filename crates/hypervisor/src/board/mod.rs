//! The board's devices: what the drivers of `spica-drivers` need of the machine, and what is theirs in the image.

pub mod virtio;

use spica_addr::HostPa;
use spica_drivers::hardware::{GenericTimer, Hardware};

use crate::arch::{barrier, cpu, generic_timer};
use crate::memory::device::{self, MapError, Mmio};

pub use spica_drivers::Line;

/// The devices that the hypervisor uses, besides the console.
pub type Board = spica_drivers::Board<BareMachine>;

/// The machine that Spica runs on.
pub enum BareMachine {}

impl Hardware for BareMachine {
    type Registers = Mmio;
    type GenericTimer = VirtualTimer;
    type MapError = MapError;

    fn map(pa: HostPa, len: u32) -> Result<Mmio, MapError> {
        device::map(pa, len)
    }

    fn generic_timer() -> Option<VirtualTimer> {
        cpu::has_generic_timer().then_some(VirtualTimer(()))
    }

    #[inline]
    fn dsb() {
        barrier::dsb();
    }
}

/// The core's virtual timer, on a core that has one.
pub struct VirtualTimer(());

impl GenericTimer for VirtualTimer {
    fn frequency(&self) -> u32 {
        generic_timer::frequency()
    }

    #[inline]
    fn now(&self) -> u64 {
        generic_timer::now()
    }

    #[inline]
    fn start(&mut self, deadline: u64) {
        generic_timer::start(deadline);
    }

    #[inline]
    fn stop(&mut self) {
        generic_timer::stop();
    }
}
