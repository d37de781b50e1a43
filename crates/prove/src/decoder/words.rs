//! Words that are worth decoding: random ones, and those that random ones hardly ever are.

use crate::random::Random;

/// A word whose four-bit fields are often 0 or 15: those are what should-be bits and the PC are made of, and uniformly
/// random words almost never have them.
pub fn biased(random: &mut Random) -> u32 {
    (0..8).fold(0, |word, field| {
        let value = match random.below(4) {
            0 => 0,
            1 => 15,
            _ => random.below(16),
        };
        word | value << (4 * field)
    })
}

/// A word by bits 27:20 and 7:4, which select the instruction in nearly all tables of the manual, under a condition of
/// EQ, AL and 0b1111, with the other bits filled in some way that means something.
fn structured(random: &mut Random) -> u32 {
    const FILLS: [u32; 7] = [0x0000_0000, 0x000f_ff0f, 0x000f_f000, 0x0001_2003, 0x000d_4000, 0x000f_0f00, 0x0000_f000];
    let selector = random.below(4096);
    let fixed = random.pick(&[0, 14, 15]) << 28 | (selector & 0xff0) << 16 | (selector & 15) << 4;
    let fill = if random.one_in(4) { random.pick(&FILLS) } else { biased(random) };
    fixed | fill & 0x000f_ff0f
}

/// Shows `count` words of a group to `visit`: a third of each kind.
pub fn group(seed: u64, count: u64, visit: &mut dyn FnMut(u32)) {
    let mut random = Random::new(seed);
    for n in 0..count {
        visit(match n % 3 {
            0 => random.word(),
            1 => biased(&mut random),
            _ => structured(&mut random),
        });
    }
}
