//! The firmware configuration device, fw_cfg, as QEMU's `virt` has it: its specification is QEMU's
//! docs/specs/fw_cfg.rst, and where that leaves something open, this does what hw/nvram/fw_cfg.c of QEMU 7.2 does.
//!
//! There are items, each with a number, its key. The guest selects one and reads it from its beginning on: byte by byte
//! from a register, or by DMA, for which it gives the address of a descriptor. All numbers are big-endian, and a word
//! of an item has its bytes in memory's order. Items cannot be written: stores to the data register do nothing, as in
//! QEMU since 2.4, and a write by DMA fails.
//!
//! DMA is only begun by an access. Whoever runs the guest does it by [`FwCfg::step`], piece by piece, and lets the
//! guest wait until the end: on QEMU, all of it is done within the access, and there are drivers that count on this.
//! All that a descriptor says is the guest's, and may be anything; nothing of it is more than a number before
//! [`Memory`] has accepted it.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::mmio::{Mmio, Width};
use crate::state::{State, Unsound, check};

/// The keys of items that have no name.
pub mod key {
    /// `QEMU`.
    pub const SIGNATURE: u16 = 0x00;
    /// What the device can do.
    pub const ID: u16 = 0x01;
    /// The machine's UUID.
    pub const UUID: u16 = 0x02;
    /// 1: there is no display.
    pub const NOGRAPHIC: u16 = 0x04;
    /// How many processors run.
    pub const NB_CPUS: u16 = 0x05;
    /// The kernel's length.
    pub const KERNEL_SIZE: u16 = 0x08;
    /// That of the initial RAM disk.
    pub const INITRD_SIZE: u16 = 0x0b;
    /// Whether firmware is to show a menu.
    pub const BOOT_MENU: u16 = 0x0e;
    /// The kernel's file.
    pub const KERNEL_DATA: u16 = 0x11;
    /// That of the initial RAM disk.
    pub const INITRD_DATA: u16 = 0x12;
    /// The length of the command line, with the NUL at its end.
    pub const CMDLINE_SIZE: u16 = 0x14;
    /// The command line.
    pub const CMDLINE_DATA: u16 = 0x15;
    /// The directory of items with names.
    pub const FILE_DIR: u16 = 0x19;
    /// The first of these.
    pub const FILE_FIRST: u16 = 0x20;
}

/// The most items with names: as many places the directory has, on QEMU, too.
pub const FILE_SLOTS: usize = 0x20;
/// The longest name in bytes: it has a field of 56, with a NUL behind it.
pub const MAX_NAME: usize = 55;
/// The bytes of the device's frame.
pub const FRAME: u32 = 0x18;

/// What the selector says beside the key: that the item is to be written, which nothing follows from any more.
const WRITE_CHANNEL: u16 = 0x4000;
/// [`key::ID`]: by the register, and by DMA.
const FEATURES: u32 = 0b11;
/// What the register of the descriptor's address reads as.
const DMA_SIGNATURE: &[u8; 8] = b"QEMU CFG";

/// The registers, by their offsets.
const SELECTOR: u32 = 8;
const DMA_HIGH: u32 = 16;
const DMA_LOW: u32 = 20;

/// Bits of a descriptor's first word.
const ERROR: u32 = 1 << 0;
const READ: u32 = 1 << 1;
const SKIP: u32 = 1 << 2;
const SELECT: u32 = 1 << 3;
const WRITE: u32 = 1 << 4;

/// Bytes of a descriptor: what is to be done, the length, and the address in 64 bits.
const DESCRIPTOR: usize = 16;
/// The most bytes that one step moves.
pub const PIECE: u32 = 4096;

/// Guest memory as the device reaches it: each access is all in RAM, or fails and does nothing.
pub trait Memory {
    /// Copies what is at `at` to `into`. False if it is not RAM.
    #[must_use]
    fn read(&self, at: u32, into: &mut [u8]) -> bool;

    /// Copies `from` to `at`. False if that is not RAM.
    #[must_use]
    fn write(&mut self, at: u32, from: &[u8]) -> bool;
}

/// What firmware finds of the kernel that it is to start. It is passed on as it is: where it goes, and how it is
/// entered, firmware knows (QEMU's `arm_setup_firmware_boot`).
#[derive(Clone, Debug, Default)]
pub struct Boot {
    /// The kernel's file.
    pub kernel: &'static [u8],
    /// That of the initial RAM disk.
    pub initrd: Option<&'static [u8]>,
    /// The command line, which may be empty.
    pub command_line: String,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    key: u16,
    bytes: &'static [u8],
}

/// All items of a guest, made once: resets do not change them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Items(&'static [Item]);

impl Items {
    /// What every guest of one processor without a display has, with `boot` if firmware is to start a kernel, and with
    /// these `files`, by their names. What is made here is kept for ever.
    ///
    /// What QEMU's `virt` has beyond that: two empty files, `bios-geometry` and `bootorder`; `etc/boot-fail-wait`, for
    /// a BIOS; ACPI's and SMBIOS's tables, which would describe another machine.
    #[must_use]
    pub fn new(boot: Option<Boot>, files: &[(&str, &'static [u8])]) -> Self {
        let mut items = Vec::new();
        let mut add = |key, bytes: &'static [u8]| items.push(Item { key, bytes });
        let number = |number: u32| -> &'static [u8] { Vec::from(number.to_le_bytes()).leak() };
        add(key::SIGNATURE, b"QEMU");
        add(key::ID, const { &FEATURES.to_le_bytes() });
        add(key::UUID, &[0; 16]);
        add(key::NOGRAPHIC, &[1, 0]);
        add(key::NB_CPUS, &[1, 0]);
        add(key::BOOT_MENU, &[0, 0]);
        if let Some(boot) = boot {
            add(key::KERNEL_SIZE, number(boot.kernel.len() as u32));
            add(key::KERNEL_DATA, boot.kernel);
            if let Some(initrd) = boot.initrd {
                add(key::INITRD_SIZE, number(initrd.len() as u32));
                add(key::INITRD_DATA, initrd);
            }
            let mut line = boot.command_line.into_bytes();
            line.push(0);
            add(key::CMDLINE_SIZE, number(line.len() as u32));
            add(key::CMDLINE_DATA, line.leak());
        }
        let mut files: Vec<(String, &'static [u8])> =
            files.iter().take(FILE_SLOTS).map(|&(name, bytes)| (name.to_string(), bytes)).collect();
        // By name, as on QEMU: firmware for other machines once knew places.
        files.sort();
        add(key::FILE_DIR, directory(&files).leak());
        for (at, (_, bytes)) in files.iter().enumerate() {
            add(key::FILE_FIRST + at as u16, bytes);
        }
        Self(items.leak())
    }

    /// What the item of this key holds; nothing if there is none.
    fn bytes(self, key: u16) -> &'static [u8] {
        let item = self.0.iter().find(|item| item.key == key & !WRITE_CHANNEL);
        item.map_or(&[], |item| item.bytes)
    }
}

/// The directory, with room for files that are not there: how many there are, and of each the length, the key, two
/// bytes of nothing, and the name.
fn directory(files: &[(String, &'static [u8])]) -> Vec<u8> {
    const ENTRY: usize = 64;
    let mut directory = Vec::from((files.len() as u32).to_be_bytes());
    for (at, (name, bytes)) in files.iter().enumerate() {
        directory.extend((bytes.len() as u32).to_be_bytes());
        directory.extend((key::FILE_FIRST + at as u16).to_be_bytes());
        directory.extend([0; 2]);
        let mut field = [0; MAX_NAME + 1];
        field.iter_mut().zip(name.bytes().take(MAX_NAME)).for_each(|(to, byte)| *to = byte);
        directory.extend(field);
    }
    directory.resize(4 + ENTRY * FILE_SLOTS, 0);
    directory
}

/// What the device is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Transfer {
    /// The descriptor at this address is to be looked at.
    Begin(u64),
    /// Bytes of an item, and zeroes behind its end, go to memory.
    Read {
        /// The descriptor's address.
        descriptor: u32,
        /// Where the next of them goes.
        to: u64,
        /// How many are left.
        left: u32,
        /// The item.
        key: u16,
        /// Which byte of it is the next.
        from: u32,
    },
}

/// The device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FwCfg {
    #[serde(skip)]
    items: Items,
    /// What the guest has selected.
    key: u16,
    /// The next byte of that; the item's length at most.
    offset: u32,
    /// The high word of a descriptor's address, until its low word comes.
    high: u32,
    transfer: Option<Transfer>,
}

impl FwCfg {
    /// A device after reset, with these items.
    #[must_use]
    pub const fn new(items: Items) -> Self {
        Self { items, key: key::SIGNATURE, offset: 0, high: 0, transfer: None }
    }

    /// Whether there is DMA to be done, by [`Self::step`]. The guest must not run meanwhile.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        self.transfer.is_some()
    }

    /// Goes on with DMA, by one piece; how many bytes that moved.
    pub fn step(&mut self, memory: &mut dyn Memory) -> u32 {
        match self.transfer.take() {
            None => 0,
            Some(Transfer::Begin(descriptor)) => {
                self.begin(memory, descriptor);
                DESCRIPTOR as u32
            }
            Some(Transfer::Read { descriptor, to, left, key, from }) => {
                self.copy(memory, descriptor, (to, left), (key, from))
            }
        }
    }

    fn select(&mut self, key: u16) {
        (self.key, self.offset) = (key, 0);
    }

    /// Moves the place in the item by so many bytes, to its end at most.
    fn advance(&mut self, bytes: u32) {
        let len = self.items.bytes(self.key).len() as u32;
        self.offset = self.offset.saturating_add(bytes).min(len);
    }

    /// Does what a descriptor says, but for the copying. What several bits ask for is done as on QEMU: reading before
    /// writing, and that before skipping.
    fn begin(&mut self, memory: &mut dyn Memory, descriptor: u64) {
        // There is no RAM above 4 GiB, and nobody to be told of that.
        let Ok(at) = u32::try_from(descriptor) else { return };
        let mut bytes = [0; DESCRIPTOR];
        if !memory.read(at, &mut bytes) {
            // Of a descriptor that reaches beyond RAM, the first word may be in it.
            return finish(memory, at, ERROR);
        }
        let [c0, c1, c2, c3, l0, l1, l2, l3, address @ ..] = bytes;
        let (control, length) = (u32::from_be_bytes([c0, c1, c2, c3]), u32::from_be_bytes([l0, l1, l2, l3]));
        let to = u64::from_be_bytes(address);
        if control & SELECT != 0 {
            self.select((control >> 16) as u16);
        }
        let (key, from) = (self.key, self.offset);
        if control & (READ | WRITE | SKIP) != 0 {
            // Even if it fails.
            self.advance(length);
        }
        if control & READ != 0 && length != 0 {
            self.transfer = Some(Transfer::Read { descriptor: at, to, left: length, key, from });
            return;
        }
        // There is no item that can be written.
        let failed = control & READ == 0 && control & WRITE != 0 && length != 0;
        finish(memory, at, if failed { ERROR } else { 0 });
    }

    /// Copies a piece: to the end of a page of memory, or of the item. Gives how many bytes.
    fn copy(
        &mut self,
        memory: &mut dyn Memory,
        descriptor: u32,
        (to, left): (u64, u32),
        (key, from): (u16, u32),
    ) -> u32 {
        // No run of bytes that ends within RAM crosses the end of the address space.
        let Ok(at) = u32::try_from(to) else {
            finish(memory, descriptor, ERROR);
            return 0;
        };
        let most = left.min(PIECE - at % PIECE) as usize;
        let rest = self.items.bytes(key).get(from as usize..).unwrap_or_default();
        let piece = if rest.is_empty() { &[0; PIECE as usize][..most] } else { &rest[..most.min(rest.len())] };
        let moved = piece.len() as u32;
        if !memory.write(at, piece) {
            finish(memory, descriptor, ERROR);
        } else if moved == left {
            finish(memory, descriptor, 0);
        } else {
            let from = if rest.is_empty() { from } else { from + moved };
            let to = to + u64::from(moved);
            self.transfer = Some(Transfer::Read { descriptor, to, left: left - moved, key, from });
        }
        moved
    }

    /// The next bytes of the item, as many as a register of this width has, and zeroes behind its end.
    fn data(&mut self, width: Width) -> u32 {
        let rest = self.items.bytes(self.key).get(self.offset as usize..).unwrap_or_default();
        let mut bytes = [0; 4];
        bytes.iter_mut().zip(rest).take(width.bytes() as usize).for_each(|(to, byte)| *to = *byte);
        self.advance(width.bytes());
        u32::from_le_bytes(bytes)
    }
}

/// Tells the guest how its DMA ended, if its descriptor is in RAM.
fn finish(memory: &mut dyn Memory, descriptor: u32, control: u32) {
    let _in_ram = memory.write(descriptor, &control.to_be_bytes());
}

/// Whoever reads must be where the items' bytes can be read.
impl Mmio for FwCfg {
    fn read(&mut self, offset: u32, width: Width) -> u32 {
        match (offset, width) {
            // The register has eight bytes: a load of two words is one of the first word and one of the second.
            (0, _) | (4, Width::Word) => self.data(width),
            (DMA_HIGH.., _) => {
                let from = (offset - DMA_HIGH) as usize;
                let mut bytes = [0; 4];
                let signature = DMA_SIGNATURE.iter().skip(from);
                bytes.iter_mut().zip(signature).take(width.bytes() as usize).for_each(|(to, byte)| *to = *byte);
                u32::from_le_bytes(bytes)
            }
            _ => 0,
        }
    }

    fn write(&mut self, offset: u32, width: Width, value: u32) {
        match (offset, width) {
            (SELECTOR, Width::Half) => self.select((value as u16).swap_bytes()),
            (DMA_HIGH, Width::Word) => self.high = value.swap_bytes(),
            (DMA_LOW, Width::Word) => {
                let high = core::mem::take(&mut self.high);
                let address = u64::from(high) << 32 | u64::from(value.swap_bytes());
                // Of a guest that does not run while there is DMA, there is no second.
                self.transfer.get_or_insert(Transfer::Begin(address));
            }
            _ => {}
        }
    }
}

/// The items are not part of it: they are the guest's description, like its memory. It may have others than it had, as
/// long as what is selected is as long as the place in it.
impl State for FwCfg {
    fn restore(&mut self, kept: Self) -> Result<(), Unsound> {
        let within = |key, offset| offset as usize <= self.items.bytes(key).len();
        let transfer = match kept.transfer {
            None | Some(Transfer::Begin(_)) => true,
            Some(Transfer::Read { left, key, from, .. }) => left != 0 && within(key, from),
        };
        check(within(kept.key, kept.offset) && transfer, "a place in fw_cfg that this guest's has not")?;
        *self = Self { items: self.items, ..kept };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
