//! What a guest finds around its processor, for whoever runs one: devices and their interrupts, firmware, and what it
//! is booted with. The hypervisor knows no more of a machine than this; [`Virt`](crate::Virt) is the one that there is.

use alloc::vec::Vec;
use core::fmt;

use spica_addr::GuestPa;
use spica_devices::fw_cfg::Items;
use spica_devices::gic::Outlook;
use spica_devices::state::Writer;
use spica_devices::{Flash, Setting, TimerReg, Unsound};
use spica_virtio::{Backends, Dma, Plug, Slot, Unkept, Work};

use crate::fdt::{AdaptError, Blob, FdtSpec};
use crate::loader::{LoadError, Placement, Program};
use crate::psci::PsciResult;

/// What distinguishes one machine from another.
#[derive(Clone, Debug, Default)]
pub struct MachineConfig {
    /// The wall-clock time at the machine's start, in seconds since 1970.
    pub rtc_base_seconds: u64,
    /// The virtio devices, from slot 0 on. There are [`crate::map::VIRTIO_SLOTS`] slots; what is beyond is not plugged.
    pub virtio: Vec<Plug>,
    /// How many bytes of each bank of flash can be programmed, whole blocks. None at all: there is no flash.
    pub flash: [u32; 2],
    /// What the firmware configuration device has.
    pub fw_cfg: Items,
}

/// What a guest's kernel has done with its interrupt controller and its timers, in this order, as it had been told
/// ([`GuestMachine::interrupt_outlook`]).
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// It has read the number of the interrupt that is signalled, and so acknowledged that.
    pub acknowledged: bool,
    /// It has set its timers to this. As of the time up to which the lines are up to date: whoever raises a line by
    /// this has them [updated](GuestMachine::update).
    pub timers: Option<[Setting; 2]>,
    /// It has ended this interrupt.
    pub ended: Option<u32>,
}

/// See the module's text. It prints its state for a report about a silent guest.
pub trait GuestMachine: fmt::Display + Sized {
    /// Where RAM begins.
    const RAM: GuestPa;
    /// Where its banks of flash begin, if it has any.
    const FLASH: [GuestPa; 2];
    /// Ticks of the guest's counter in a second.
    const COUNTER_HZ: u32;

    /// A machine at power-on.
    #[must_use]
    fn new(config: &MachineConfig) -> Self;

    /// A load of 1, 2 or 4 bytes from a guest physical address at time `now`; `None` if nothing answers there, which
    /// the CPU reports as an external abort.
    fn mmio_read(&mut self, pa: GuestPa, bytes: u32, now: u64) -> Option<u32>;

    /// Whether a device answers in the page at `pa`.
    #[must_use]
    fn has_device(&self, pa: GuestPa) -> bool;

    /// The bank of flash at `pa`: its number, and the offset in it. Its contents are the caller's, and so are loads and
    /// stores: neither [`Self::mmio_read`] nor [`Self::mmio_write`] answers there.
    fn flash(&mut self, pa: GuestPa) -> Option<(usize, u32, &mut Flash)>;

    /// A load of 1, 2 or 4 bytes from the firmware configuration device; `None` if that is not at `pa`. The caller is
    /// where its items' bytes can be read, which whoever calls [`Self::mmio_read`] need not be: so that does not answer
    /// here, nor does [`Self::mmio_write`].
    fn fw_cfg_read(&mut self, pa: GuestPa, bytes: u32) -> Option<u32>;

    /// A store of 1, 2 or 4 bytes to the same. It may have begun DMA, which is to be [served](Self::serve) before the
    /// guest goes on.
    fn fw_cfg_write(&mut self, pa: GuestPa, bytes: u32, value: u32) -> Option<()>;

    /// Whether a device does something that the guest must wait for: to be [served](Self::serve), again and again,
    /// until this is false.
    #[must_use]
    fn holds_guest(&self) -> bool;

    /// A store of 1, 2 or 4 bytes to a guest physical address at time `now`; `None` if nothing answers there.
    fn mmio_write(&mut self, pa: GuestPa, bytes: u32, value: u32, now: u64) -> Option<()>;

    /// What the machine that this one stands for has at `pa`, where nothing answers here.
    #[must_use]
    fn absent(pa: GuestPa) -> Option<&'static str>;

    /// Reads a register of the generic timer at time `now`; 32-bit registers are zero-extended.
    #[must_use]
    fn timer_read(&mut self, reg: TimerReg, now: u64) -> u64;

    /// Writes a register of the generic timer at time `now`.
    fn timer_write(&mut self, reg: TimerReg, value: u64, now: u64);

    /// What the physical timer is set to, and the virtual one.
    fn timers(&self) -> [Setting; 2];

    /// Lets time pass until `now`: timers and alarms that have become due raise their lines.
    fn update(&mut self, now: u64);

    /// Whether the CPU's IRQ input is asserted.
    #[must_use]
    fn irq_asserted(&self) -> bool;

    /// Whether the CPU's FIQ input is asserted.
    #[must_use]
    fn fiq_asserted(&self) -> bool;

    /// Whether an interrupt is signalled to the CPU, or the guest has acknowledged one and not ended it.
    #[must_use]
    fn is_interrupting(&self) -> bool;

    /// What the guest's next accesses to the interrupt controller do, if that can be told, for those who answer them
    /// before they tell the machine.
    #[must_use]
    fn interrupt_outlook(&self) -> Option<Outlook>;

    /// Whether that may be something else than it was when this was last asked.
    fn interrupts_changed(&mut self) -> bool;

    /// Which of the two timers ([`Self::timers`]) has that interrupt.
    #[must_use]
    fn timer_of(&self, intid: u32) -> Option<usize>;

    /// Hears of what the guest has done. Gives the number of the interrupt that it acknowledged.
    fn catch_up(&mut self, done: Done) -> Option<u32>;

    /// The same, and [`Self::update`] up to `now`, if all of it comes to nothing: the guest has acknowledged an
    /// interrupt of a timer's and ended it, and by now that timer has raised its line again. What the interrupt
    /// controller does next is what it was. False, with nothing changed, if it is not so.
    #[must_use]
    fn comes_round(&mut self, done: Done, now: u64) -> bool;

    /// The interrupt that is signalled to the CPU, and one that the guest has acknowledged and not ended yet.
    #[must_use]
    fn interrupts(&self) -> (Option<u32>, Option<u32>);

    /// The time that the last [`update`](Self::update) was up to.
    #[must_use]
    fn updated(&self) -> u64;

    /// The time, in counter ticks, at which a timer or alarm will next raise a line by itself: always later than the
    /// last [`update`](Self::update). `None`: nothing will happen however long one waits.
    #[must_use]
    fn next_deadline(&self) -> Option<u64>;

    /// The same of what is no timer ([`Self::timers`]).
    #[must_use]
    fn next_alarm(&self) -> Option<u64>;

    /// A character from the host's console. False if the guest has no room for it now: keep it, and offer it again
    /// once the guest has read.
    #[must_use]
    fn console_input(&mut self, byte: u8) -> bool;

    /// Whether the guest has written to its console what nobody has taken.
    #[must_use]
    fn has_output(&self) -> bool;

    /// Hands what the guest has written to its console to `f`, in order, at most so many characters.
    fn take_output(&mut self, most: usize, f: impl FnMut(u8));

    /// Whether a virtio device has something to do, as far as the machine knows: its driver has told it so, its work
    /// did not suffice, or its slot was poked. Or there is DMA of the firmware configuration device.
    #[must_use]
    fn wants_service(&self) -> bool;

    /// Lets these devices do what they have to do, as far as `work` goes. What is left over
    /// [is wanted](Self::wants_service) afterwards, and the next call begins with another device.
    fn serve(&mut self, dma: &mut dyn Dma, backends: &mut dyn Backends, work: &mut Work);

    /// What the host wants of the device in a slot, such as [`Slot::poke`] or [`Slot::set_link`]. An empty slot does
    /// not mind.
    ///
    /// # Panics
    /// If there is no such slot.
    fn with_slot<R>(&mut self, index: usize, act: impl FnOnce(&mut Slot) -> R) -> R;

    /// What cannot be kept of it now, if there is anything: in which slot of virtio devices, and why. What is
    /// only busy comes last: it may be served, and asked again.
    fn unkept(&self) -> Option<(usize, Unkept)>;

    /// Writes down the state of its devices behind what is in `into`, as of the last [`update`](Self::update). What
    /// stands behind the devices, such as what flash holds, is not in it.
    fn keep(&self, into: &mut Writer);

    /// Puts the state of devices that was written down into a machine that is new, and goes on at time `now`. Its
    /// real-time clock goes on with its configuration's time.
    ///
    /// # Errors
    /// If it is none, or not one that this machine's guest could have made. Nothing is to be done with the machine
    /// then.
    fn restore(&mut self, kept: &[u8], now: u64) -> Result<(), Unsound>;

    /// Presses the power key: the guest's `gpio-keys` driver asks for an orderly power-off. The key stays
    /// down, for the driver debounces it.
    fn press_power_key(&mut self);

    /// The guest calls its firmware.
    fn firmware(&mut self, function: u32, arguments: [u32; 3]) -> PsciResult;

    /// Where what is started, RAM disk and device tree go in `ram_size` bytes of RAM.
    ///
    /// # Errors
    /// If the kernel is none, or they do not fit.
    fn plan(kernel: &Program<'_>, initrd_len: u32, tree_len: u32, ram_size: u32) -> Result<Placement, LoadError>;

    /// The device tree that a guest gets: its own, adapted, or the machine's.
    ///
    /// # Errors
    /// If its own is not usable.
    fn tree(own: Option<&[u8]>, spec: &FdtSpec<'_>) -> Result<Blob, AdaptError>;
}
