//! Just enough of an assembler.

/// The supervisor calls of `wild.S`.
pub const END_OF_CHUNK: u32 = 0xef00_00e0;
/// From User mode to a privileged one.
pub const KERNEL_AGAIN: u32 = 0xef00_00e1;

/// A piece of code that can be anywhere.
#[derive(Default)]
pub struct Code {
    /// Its words.
    pub words: Vec<u32>,
}

impl Code {
    /// These words.
    pub fn put(&mut self, words: &[u32]) -> &mut Self {
        self.words.extend(words);
        self
    }

    /// `MOVW`, and `MOVT` if that is not all: register `reg` becomes `value`.
    pub fn set(&mut self, reg: u32, value: u32) -> &mut Self {
        let half = |half: u32| (half & 0xf000) << 4 | half & 0xfff;
        self.put(&[0xe300_0000 | reg << 12 | half(value & 0xffff)]);
        if value >> 16 != 0 {
            self.put(&[0xe340_0000 | reg << 12 | half(value >> 16)]);
        }
        self
    }

    /// `MCR p15, opc1, reg, CRn, CRm, opc2`.
    pub fn mcr(&mut self, reg: u32, (crn, opc1, crm, opc2): Cp15) -> &mut Self {
        self.put(&[0xee00_0f10 | opc1 << 21 | crn << 16 | reg << 12 | opc2 << 5 | crm])
    }

    /// `MRC`, likewise.
    pub fn mrc(&mut self, reg: u32, (crn, opc1, crm, opc2): Cp15) -> &mut Self {
        self.put(&[0xee10_0f10 | opc1 << 21 | crn << 16 | reg << 12 | opc2 << 5 | crm])
    }

    /// `DSB`, `ISB`.
    pub fn barriers(&mut self) -> &mut Self {
        self.put(&[0xf57f_f04f, 0xf57f_f06f])
    }
}

/// CRn, opc1, CRm, opc2.
pub type Cp15 = (u32, u32, u32, u32);
