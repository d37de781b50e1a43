//! Eight general-purpose lines: a PL061 (DDI 0190), of which line 3 is the machine's power key.

use crate::mmio::{Mmio, Width};
use crate::primecell;
use crate::state::{State, Unsound};

use serde::{Deserialize, Serialize};

const DIR: u32 = 0x400;
const IS: u32 = 0x404;
const IBE: u32 = 0x408;
const IEV: u32 = 0x40c;
const IE: u32 = 0x410;
const RIS: u32 = 0x414;
const MIS: u32 = 0x418;
const IC: u32 = 0x41c;
const AFSEL: u32 = 0x420;

const ID: [u8; 4] = [0x61, 0x10, 0x04, 0x00];

/// The GPIO block: one bit per line everywhere.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pl061 {
    /// The levels from outside.
    input: u8,
    /// The levels that software drives where the line is an output.
    output: u8,
    direction: u8,
    /// 1: the interrupt follows a level, 0: an edge.
    sense_level: u8,
    both_edges: u8,
    /// 1: high level or rising edge.
    event: u8,
    enable: u8,
    alternate: u8,
    /// Edges seen since they were cleared.
    edges: u8,
}

impl Pl061 {
    /// The block after reset: eight inputs, all low, no interrupts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Drives an input line from outside; lines above 7 do not exist.
    pub fn set_input(&mut self, line: u32, high: bool) {
        if line < 8 {
            let before = self.levels();
            let bit = 1 << line;
            self.input = if high { self.input | bit } else { self.input & !bit };
            self.note_edges(before);
        }
    }

    /// Whether the interrupt line is high.
    #[must_use]
    pub const fn line(&self) -> bool {
        self.raw() & self.enable != 0
    }

    /// The levels on the eight lines, whoever drives them.
    const fn levels(&self) -> u8 {
        (self.input & !self.direction) | (self.output & self.direction)
    }

    fn note_edges(&mut self, before: u8) {
        let changed = before ^ self.levels();
        let wanted = self.both_edges | !(self.levels() ^ self.event);
        self.edges |= changed & wanted & !self.sense_level;
    }

    const fn raw(&self) -> u8 {
        let at_level = !(self.levels() ^ self.event);
        (self.sense_level & at_level) | (!self.sense_level & self.edges)
    }
}

impl Mmio for Pl061 {
    fn read(&mut self, offset: u32, width: Width) -> u32 {
        let word = match offset & !3 {
            // Address bits [9:2] choose the lines.
            data @ 0..0x400 => u32::from(self.levels()) & (data >> 2),
            DIR => self.direction.into(),
            IS => self.sense_level.into(),
            IBE => self.both_edges.into(),
            IEV => self.event.into(),
            IE => self.enable.into(),
            RIS => self.raw().into(),
            MIS => (self.raw() & self.enable).into(),
            AFSEL => self.alternate.into(),
            id => primecell::id_register(ID, id).unwrap_or(0),
        };
        width.extract(word, offset)
    }

    fn write(&mut self, offset: u32, _width: Width, value: u32) {
        let value = value as u8;
        let before = self.levels();
        match offset {
            data @ 0..0x400 if data & 3 == 0 => {
                let mask = (data >> 2) as u8;
                self.output = (self.output & !mask) | (value & mask);
            }
            DIR => self.direction = value,
            IS => self.sense_level = value,
            IBE => self.both_edges = value,
            IEV => self.event = value,
            IE => self.enable = value,
            IC => self.edges &= !value,
            AFSEL => self.alternate = value,
            _ => {}
        }
        self.note_edges(before);
    }
}

/// Each bit of each register can be anything.
impl State for Pl061 {
    fn restore(&mut self, kept: Self) -> Result<(), Unsound> {
        *self = kept;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const W: Width = Width::Word;
    const KEY: u32 = 1 << 3;

    #[test]
    fn data_is_masked_by_the_address() {
        let mut gpio = Pl061::new();
        gpio.write(DIR, W, 0x0f);
        gpio.write(0x3fc, W, 0xff);
        assert_eq!(gpio.read(0x3fc, W), 0x0f, "outputs show what is driven, inputs what comes in");
        gpio.write(0x5 << 2, W, 0);
        assert_eq!(gpio.read(0x3fc, W), 0x0a);
        gpio.set_input(7, true);
        assert_eq!(gpio.read(0x80 << 2, Width::Byte), 0x80);
        assert_eq!(gpio.read(0x02 << 2, W), 0x02);
    }

    #[test]
    fn power_key_as_both_edges() {
        let mut gpio = Pl061::new();
        gpio.write(IBE, W, KEY);
        gpio.write(IE, W, KEY);
        for pressed in [true, false] {
            gpio.set_input(3, pressed);
            assert!(gpio.line());
            assert_eq!(gpio.read(MIS, W), KEY);
            gpio.write(IC, W, KEY);
            assert!(!gpio.line());
        }
    }

    #[test]
    fn single_edges_and_levels() {
        let mut gpio = Pl061::new();
        gpio.write(IE, W, 0xff);
        gpio.write(IEV, W, KEY);
        gpio.set_input(3, true);
        assert_eq!(gpio.read(RIS, W), KEY, "rising");
        gpio.write(IC, W, 0xff);
        gpio.set_input(3, false);
        assert_eq!(gpio.read(RIS, W), 0, "falling is not asked for");
        gpio.write(IS, W, KEY);
        assert!(!gpio.line());
        gpio.set_input(3, true);
        assert!(gpio.line());
        gpio.write(IC, W, KEY);
        assert!(gpio.line(), "a level cannot be cleared");
        gpio.set_input(3, false);
        assert!(!gpio.line());
    }
}
