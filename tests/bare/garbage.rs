//! Words for a hostile guest to execute as kernel code.
//!
//! Three in ten are plain random numbers. The others are instructions of the kinds that a translator has to treat, with
//! random fields. What would end a run at once (a branch into Thumb state, big-endian data, a sleep without end) is
//! rare or left out.

/// How many there are: the guest executes them in chunks of 8.
const COUNT: usize = 12_000;

/// The classes: bits that are fixed, and bits that are random beside the condition.
const CLASSES: [(u32, u32); 33] = [
    (0x010f_0000, 0x0040_f000), // MRS
    (0x0120_f000, 0x004f_000f), // MSR, register
    (0x0320_f000, 0x004f_0fff), // MSR, immediate
    (0x0840_0000, 0x01bf_7fff), // LDM and STM with ^
    (0x0800_8000, 0x01af_ffff), // STM with the PC
    (0x0420_0000, 0x00df_ffff), // LDRT and its like
    (0x0620_0000, 0x00df_ffef),
    (0x0e00_0f10, 0x00ff_d0ef), // MCR p15
    (0x0e10_0f10, 0x00ff_d0ef), // MRC p15
    (0xf100_0000, 0x000e_01df), // CPS
    (0xf84d_0500, 0x01a0_001f), // SRS
    (0xf810_0a00, 0x01ef_0000), // RFE
    (0x0f00_0000, 0x00ff_ffff), // SVC
    (0x0160_0070, 0x0000_000f), // SMC
    (0x0140_0070, 0x000f_ff0f), // HVC
    (0xf101_0000, 0x0000_0000), // SETEND LE
    (0x0120_0070, 0x000f_ff0f), // BKPT
    (0x0180_0f90, 0x007f_f00f), // LDREX and its like
    (0x0100_0090, 0x004f_f00f), // SWP
    (0x000f_0000, 0x01ff_fdff), // data processing on the PC
    (0x040f_0000, 0x03df_ffff), // loads and stores by the PC
    (0x0000_0090, 0x01ff_ff6f), // multiplications, halfwords, double words
    (0x0e00_0a00, 0x00ff_f5ff), // VFP
    (0x0c00_0a00, 0x01ff_f5ff),
    (0xf200_0000, 0x01ff_ffff), // Advanced SIMD
    (0xf400_0000, 0x00ff_ffff),
    (0x0800_0000, 0x01ff_7fff), // LDM and STM
    (0x0400_0000, 0x03ff_ffff), // loads and stores
    (0x0000_0000, 0x01ff_ffff), // data processing
    (0x0600_0010, 0x01ff_ffef), // media
    (0x0320_f000, 0x0000_00ff), // hints
    (0xf570_0000, 0x0000_007f), // barriers and CLREX
    (0xf450_0000, 0x00ff_ffff), // preloads
];

/// A row of numbers (Marsaglia's xorshift).
struct Row(u64);

impl Row {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as u32
    }

    /// Whether something that happens in `percent` cases in a hundred happens.
    fn chance(&mut self, percent: u32) -> bool {
        self.next() % 100 < percent
    }
}

/// The words of a row.
#[must_use]
pub fn words(seed: u32) -> Vec<u32> {
    let mut row = Row(u64::from(seed) << 32 | 0x9e37_79b9);
    let mut words = Vec::with_capacity(COUNT);
    while words.len() < COUNT {
        let word = if row.chance(30) { row.next() } else { instruction(&mut row) };
        if let Some(word) = tamed(&mut row, word) {
            words.push(word);
        }
    }
    words
}

fn instruction(row: &mut Row) -> u32 {
    let (fixed, random) = CLASSES[row.next() as usize % CLASSES.len()];
    let word = fixed | row.next() & random;
    if fixed >> 28 == 0xf {
        return word;
    }
    let cond = if row.chance(70) { 0xe } else { row.next() % 15 };
    word | cond << 28
}

/// Leaves out what would end a run at once, most of the time.
fn tamed(row: &mut Row, word: u32) -> Option<u32> {
    let conditional = word >> 28 != 0xf;
    // WFI, by both encodings.
    if word & 0x0fff_ffff == 0x0320_f003 || word & 0x0fff_0fff == 0x0e07_0f90 {
        return None;
    }
    // Branches go a little forward, so that there are no loops.
    if conditional && word >> 25 & 7 == 0b101 {
        return Some(word & 0xff00_000f);
    }
    if word >> 16 == 0xf101 {
        return Some(word & !0x200);
    }
    let writes_e = word & 0x0db0_f000 == 0x0120_f000 && word >> 17 & 1 != 0;
    let returns = word & 0xfe10_0000 == 0xf810_0000;
    if (writes_e || returns) && !row.chance(8) || branches(word) && !row.chance(3) {
        return None;
    }
    Some(word)
}

/// Whether a word is a branch to where a register or memory says, or to Thumb code.
fn branches(word: u32) -> bool {
    let rd_is_pc = word >> 12 & 15 == 15;
    let load = word >> 20 & 1 != 0;
    if word >> 28 == 0xf {
        return word >> 25 & 7 == 0b101;
    }
    match word >> 25 & 7 {
        0b000 | 0b001 => rd_is_pc || word & 0x0fff_ff00 == 0x012f_ff00,
        0b010 | 0b011 => rd_is_pc && load,
        0b100 => load && word >> 15 & 1 != 0,
        _ => false,
    }
}
