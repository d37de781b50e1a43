//! A bank of NOR flash as QEMU's `virt` has two: a pair of 16-bit chips side by side on a 32-bit bus, with Intel's
//! extended command set (CFI command set 0x0001; JEDEC JESD68.01 and JEP137, and Intel's 28F256K3 data sheet for the
//! commands).
//!
//! The contents are not here. What this knows is which command the chips are in the middle of: a load gives a status or
//! an identification, or it reads the [contents](Flash::read); a store may [change](Change) them. Erasing a block is
//! long work, so it is done piece by piece, one with each access that follows, and the chips say meanwhile that they
//! are busy, as real ones do for a second.
//!
//! As on QEMU, commands count by their low byte and to both chips, blocks are never locked, and a program command takes
//! effect with its data. Unlike there, programming only clears bits, as it does in real chips, and the status is
//! "ready" after it was cleared.

use serde::{Deserialize, Serialize};

use crate::Width;
use crate::state::{State, Unsound, check};

/// Addresses of a bank.
pub const BANK_BYTES: u32 = 64 << 20;
/// What one erase command erases: a block of both chips.
pub const BLOCK_BYTES: u32 = 256 << 10;
/// What of that is done in one go.
pub const ERASE_PIECE: u32 = 16 << 10;

const CHIPS: u32 = 2;

/// Status register: ready.
const READY: u8 = 1 << 7;
/// Status register: an erase command failed; with [`PROGRAM_FAILED`]: a sequence of commands that is none.
const ERASE_FAILED: u8 = 1 << 5;
const PROGRAM_FAILED: u8 = 1 << 4;

const PROGRAM_ALTERNATE: u8 = 0x10;
const ERASE: u8 = 0x20;
const PROGRAM: u8 = 0x40;
const CLEAR_STATUS: u8 = 0x50;
const LOCK: u8 = 0x60;
const READ_STATUS: u8 = 0x70;
const READ_ID: u8 = 0x90;
const QUERY: u8 = 0x98;
const CONFIRM: u8 = 0xd0;
const WRITE_BUFFER: u8 = 0xe8;
const READ_ARRAY: u8 = 0xff;

/// Manufacturer and device, as on QEMU's `virt`: Intel, a 256-Mbit part.
const MANUFACTURER: u8 = 0x89;
const DEVICE: u8 = 0x18;

/// What loads give.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Mode {
    Array,
    Status,
    Id,
    Query,
}

/// What the next store is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Expects {
    Command,
    /// The data of a program command.
    Data,
    /// An erase command's confirmation, for the block at this offset.
    EraseConfirm(u32),
    /// What to do with a block's lock.
    LockOperation,
    /// How many stores of data follow, less one.
    Count,
    /// So many stores of data.
    Buffer(u32),
    /// The confirmation that ends them.
    BufferConfirm,
}

/// How the contents change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The bytes at `offset`, as many as are `width`, lose the bits that `value` has not.
    Program {
        /// Where, in the bank.
        offset: u32,
        /// How many bytes.
        width: Width,
        /// The bits that stay, in the low bytes.
        value: u32,
    },
    /// All bits of `len` bytes at `offset` are set, [`ERASE_PIECE`] at most.
    Erase {
        /// Where, in the bank.
        offset: u32,
        /// How many bytes.
        len: u32,
    },
}

/// A bank. Offsets are those in the bank; what is beyond its end wraps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Flash {
    /// The bytes of it that can change. Behind them it is erased for good.
    backed: u32,
    mode: Mode,
    expects: Expects,
    status: u8,
    /// What is still to be erased.
    erasing: Option<(u32, u32)>,
}

impl Flash {
    /// A bank whose first `backed` bytes can be programmed.
    #[must_use]
    pub const fn new(backed: u32) -> Self {
        Self { backed, mode: Mode::Array, expects: Expects::Command, status: READY, erasing: None }
    }

    /// Whether loads read the contents, all of them.
    #[must_use]
    pub fn is_array(&self) -> bool {
        self.mode == Mode::Array
    }

    /// A load at `offset`. `None`: it reads the contents.
    pub fn read(&mut self, offset: u32, width: Width) -> Option<u32> {
        let both = |value: u8| u32::from(value) * 0x0001_0001;
        // A chip's registers are 32 bits apart, each chip's copy in its half (QEMU: bank width 4, device width 2).
        let register = (offset % BANK_BYTES) >> 2;
        let value = match self.mode {
            Mode::Array => return None,
            Mode::Status => both(if self.erasing.is_some() { self.status & !READY } else { self.status }),
            Mode::Id => match register & 0xff {
                0 => both(MANUFACTURER),
                1 => both(DEVICE),
                // Block lock status: not locked.
                _ => 0,
            },
            Mode::Query => both(query(register)),
        };
        Some(match width {
            Width::Byte => value & 0xff,
            Width::Half => value & 0xffff,
            Width::Word => value,
        })
    }

    /// A store at `offset`; what of the contents changes with it.
    pub fn write(&mut self, offset: u32, width: Width, value: u32) -> Option<Change> {
        // Busy chips listen to nothing but a question for their status, which they give anyway.
        if self.erasing.is_some() {
            return None;
        }
        let offset = offset % BANK_BYTES;
        let command = value as u8;
        match self.expects {
            Expects::Command => {
                self.command(offset, command);
                None
            }
            Expects::Data => {
                self.expects = Expects::Command;
                self.program(offset, width, value)
            }
            Expects::EraseConfirm(block) => {
                self.expects = Expects::Command;
                match command {
                    CONFIRM => self.erasing = (block < self.backed).then_some((block, BLOCK_BYTES)),
                    READ_ARRAY => self.mode = Mode::Array,
                    _ => self.status |= ERASE_FAILED | PROGRAM_FAILED,
                }
                None
            }
            Expects::LockOperation => {
                self.expects = Expects::Command;
                // Set, clear, set for good: nothing is ever locked.
                if command == READ_ARRAY {
                    self.mode = Mode::Array;
                }
                None
            }
            Expects::Count => {
                self.expects = Expects::Buffer((value & 0xffff) + 1);
                None
            }
            Expects::Buffer(left) => {
                self.expects = if left > 1 { Expects::Buffer(left - 1) } else { Expects::BufferConfirm };
                self.program(offset, width, value)
            }
            Expects::BufferConfirm => {
                self.expects = Expects::Command;
                if command != CONFIRM {
                    self.mode = Mode::Array;
                }
                None
            }
        }
    }

    /// The next piece of an erase command. To be done after each access.
    pub fn go_on(&mut self) -> Option<Change> {
        let (offset, left) = self.erasing?;
        let len = left.min(ERASE_PIECE);
        self.erasing = (left > len).then_some((offset + len, left - len));
        Some(Change::Erase { offset, len })
    }

    fn command(&mut self, offset: u32, command: u8) {
        let (mode, expects) = match command {
            PROGRAM | PROGRAM_ALTERNATE => (Mode::Status, Expects::Data),
            ERASE => (Mode::Status, Expects::EraseConfirm(offset & !(BLOCK_BYTES - 1))),
            LOCK => (Mode::Status, Expects::LockOperation),
            WRITE_BUFFER => (Mode::Status, Expects::Count),
            READ_STATUS => (Mode::Status, Expects::Command),
            READ_ID => (Mode::Id, Expects::Command),
            QUERY => (Mode::Query, Expects::Command),
            CLEAR_STATUS => {
                self.status = READY;
                (Mode::Array, Expects::Command)
            }
            // Also what asks for other makers' chips, and what no chip knows.
            _ => (Mode::Array, Expects::Command),
        };
        (self.mode, self.expects) = (mode, expects);
    }

    fn program(&mut self, offset: u32, width: Width, value: u32) -> Option<Change> {
        let bytes = width.bytes();
        if offset.checked_add(bytes).is_some_and(|end| end <= self.backed) {
            return Some(Change::Program { offset, width, value });
        }
        self.status |= PROGRAM_FAILED;
        None
    }
}

/// What is in the middle of a command lies within the bank.
impl State for Flash {
    fn restore(&mut self, kept: Self) -> Result<(), Unsound> {
        check(kept.backed == self.backed, "flash of another size")?;
        let block = |at: u32| at < BANK_BYTES && at.is_multiple_of(BLOCK_BYTES);
        let expects = match kept.expects {
            Expects::EraseConfirm(at) => block(at),
            _ => true,
        };
        let erasing = kept.erasing.is_none_or(|(at, left)| {
            let end = at.checked_add(left);
            left != 0
                && left <= BLOCK_BYTES
                && end.is_some_and(|end| end <= self.backed && end.is_multiple_of(BLOCK_BYTES))
        });
        let status = kept.status & !(READY | ERASE_FAILED | PROGRAM_FAILED) == 0 && kept.status & READY != 0;
        check(expects && erasing && status, "flash in the middle of a command that is none")?;
        *self = kept;
        Ok(())
    }
}

/// A byte of the query table (JESD68.01), as QEMU has it.
fn query(register: u32) -> u8 {
    const BLOCKS: u32 = BANK_BYTES / BLOCK_BYTES;
    const CHIP_BLOCK: u32 = BLOCK_BYTES / CHIPS;
    match register {
        0x10 => b'Q',
        0x11 => b'R',
        0x12 => b'Y',
        // Intel's extended command set; its table.
        0x13 => 0x01,
        0x15 => 0x31,
        // Supply voltages.
        0x1b => 0x45,
        0x1c => 0x55,
        // Typical times of a word, a buffer, a block, as powers of two of µs, µs, ms; the most by that many more.
        0x1f | 0x20 => 0x07,
        0x21 => 0x0a,
        0x23..=0x25 => 0x04,
        // One chip's size; an interface of 16 bits; its buffer.
        0x27 => (BANK_BYTES / CHIPS).ilog2() as u8,
        0x28 => 0x02,
        0x2a => 0x0b,
        // One region of blocks: how many less one, and the size of one in 256 bytes.
        0x2c => 1,
        0x2d => (BLOCKS - 1) as u8,
        0x2e => ((BLOCKS - 1) >> 8) as u8,
        0x2f => (CHIP_BLOCK >> 8) as u8,
        0x30 => (CHIP_BLOCK >> 16) as u8,
        // The extended table: version 1.0, and one protection register.
        0x31 => b'P',
        0x32 => b'R',
        0x33 => b'I',
        0x34 => b'1',
        0x35 => b'0',
        0x3f => 0x01,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKED: u32 = 4 * BLOCK_BYTES;

    fn settle(flash: &mut Flash) -> std::vec::Vec<Change> {
        core::iter::from_fn(|| flash.go_on()).collect()
    }

    #[test]
    fn the_chips_describe_themselves_as_on_qemu() {
        let mut flash = Flash::new(BACKED);
        assert_eq!(flash.read(0x40, Width::Word), None);
        assert_eq!(flash.write(0x154, Width::Word, 0x0098_0098), None);
        let text: std::vec::Vec<u32> = (0x10..0x13).map(|n| flash.read(4 * n, Width::Word).unwrap()).collect();
        assert_eq!(text, [0x0051_0051, 0x0052_0052, 0x0059_0059]);
        assert_eq!(flash.read(0x40, Width::Half), Some(0x51));
        // 32 MiB a chip, 256 blocks of 128 KiB.
        assert_eq!([0x27, 0x2d, 0x2e, 0x2f, 0x30].map(|n| flash.read(4 * n, Width::Byte).unwrap()), [25, 255, 0, 0, 2]);
        assert_eq!(flash.write(0, Width::Word, 0x0090_0090), None);
        assert_eq!(flash.read(0, Width::Word), Some(0x0089_0089));
        assert_eq!(flash.read(4, Width::Half), Some(0x18));
        assert_eq!(flash.write(0, Width::Word, 0x00ff_00ff), None);
        assert!(flash.is_array());
    }

    #[test]
    fn a_word_is_programmed_and_a_buffer() {
        let mut flash = Flash::new(BACKED);
        flash.write(8, Width::Half, 0x40);
        let change = flash.write(8, Width::Half, 0x1234);
        assert_eq!(change, Some(Change::Program { offset: 8, width: Width::Half, value: 0x1234 }));
        assert_eq!(flash.read(8, Width::Half), Some(0x80));
        flash.write(0, Width::Half, 0xff);
        flash.write(0, Width::Half, 0xe8);
        assert_eq!(flash.read(0, Width::Half), Some(0x80));
        flash.write(0, Width::Half, 1);
        for (offset, value) in [(0, 0xaaaa), (2, 0x5555)] {
            let change = flash.write(offset, Width::Half, value);
            assert_eq!(change, Some(Change::Program { offset, width: Width::Half, value }));
        }
        assert_eq!(flash.write(0, Width::Half, 0xd0), None);
        assert_eq!(flash.read(0, Width::Half), Some(0x80));
        assert_eq!(flash.expects, Expects::Command);
    }

    #[test]
    fn a_block_is_erased_in_pieces_and_is_busy_meanwhile() {
        let mut flash = Flash::new(BACKED);
        let at = BLOCK_BYTES + 100;
        flash.write(at, Width::Half, 0x20);
        assert_eq!(flash.go_on(), None, "it is not confirmed");
        flash.write(at, Width::Half, 0xd0);
        assert_eq!(flash.read(at, Width::Half), Some(0));
        assert_eq!(flash.go_on(), Some(Change::Erase { offset: BLOCK_BYTES, len: ERASE_PIECE }));
        assert_eq!(flash.write(at, Width::Half, 0xff), None);
        assert!(!flash.is_array(), "busy chips do not listen");
        let rest = settle(&mut flash);
        assert_eq!(rest.len() as u32, BLOCK_BYTES / ERASE_PIECE - 1);
        assert_eq!(rest.last(), Some(&Change::Erase { offset: 2 * BLOCK_BYTES - ERASE_PIECE, len: ERASE_PIECE }));
        assert_eq!(flash.read(at, Width::Word), Some(0x0080_0080));
    }

    #[test]
    fn what_has_no_memory_stays_erased_and_says_so() {
        let mut flash = Flash::new(BACKED);
        flash.write(BACKED, Width::Word, 0x40);
        assert_eq!(flash.write(BACKED - 2, Width::Word, 0), None);
        assert_eq!(flash.read(0, Width::Half), Some(0x90));
        flash.write(0, Width::Half, 0x50);
        flash.write(BACKED, Width::Half, 0x20);
        flash.write(BACKED, Width::Half, 0xd0);
        assert_eq!(flash.go_on(), None);
        assert_eq!(flash.read(0, Width::Half), Some(0x80));
    }

    /// Whatever a guest stores, changes stay within what is backed, and all ends with two stores of 0xff.
    #[test]
    fn no_sequence_of_stores_leads_out() {
        let mut seed = 1u32;
        let mut random = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed >> 8
        };
        const COMMANDS: [u32; 12] = [0x10, 0x20, 0x40, 0x50, 0x60, 0x70, 0x90, 0x98, 0xd0, 0xe8, 0xf0, 0xff];
        let mut flash = Flash::new(BACKED);
        for _ in 0..200_000 {
            let width = [Width::Byte, Width::Half, Width::Word][random() as usize % 3];
            let offset =
                [random() << 8 | random(), random() % (BACKED + 8), u32::MAX - random() % 4][random() as usize % 3];
            let value = if random() % 4 == 0 { random() } else { COMMANDS[random() as usize % COMMANDS.len()] };
            let change = if random() % 3 == 0 {
                flash.read(offset, width);
                None
            } else {
                flash.write(offset, width, value)
            };
            for change in change.into_iter().chain(flash.go_on()) {
                let (offset, len) = match change {
                    Change::Program { offset, width, .. } => (offset, width.bytes()),
                    Change::Erase { offset, len } => (offset, len),
                };
                assert!(len <= ERASE_PIECE && offset + len <= BACKED, "{change:?}");
            }
        }
        settle(&mut flash);
        flash.expects = Expects::Command;
        flash.write(0, Width::Half, 0xff);
        assert!(flash.is_array());
    }
}
