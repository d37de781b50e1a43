//! Guest code.

use super::bytes::Bytes;
use crate::decoder::{round_trip, t32};
use crate::random::Random;
use crate::translator::generate::{self, WORDS, Window};
use crate::translator::{CODE, DATA, Disturb, Lockstep, Memory, mirrored};
use spica_dbt::Options;
use spica_isa::decode;
use spica_isa::t32::ItState;
use std::cell::RefCell;

/// See [`super::TARGETS`].
pub fn words(data: &[u8]) {
    let state = data.first().copied().unwrap_or(0);
    for chunk in data.chunks_exact(4) {
        let word = u32::from_le_bytes(chunk.try_into().expect("four bytes"));
        round_trip::check(word);
        assert!(!decode(word).to_string().is_empty());
        t32::rules::check(t32::cases::Case::of(word, ItState::new(state)));
    }
}

thread_local! {
    /// What runs code, which is slow to make and keeps some memory for ever.
    static PAIR: RefCell<(Lockstep, Memory)> = RefCell::new((Lockstep::new(Options::all()), Memory::new()));
}

/// See [`super::TARGETS`]. After four bytes for everything else come the words of the code, at the end of a page.
pub fn lockstep(data: &[u8]) {
    let bytes = &mut Bytes::new(data);
    let (seed, mut random) = (bytes.half(), Random::new(bytes.byte().into()));
    let disturb = bytes.pick(&[Disturb::Nothing, Disturb::Random]);
    let options = match seed % 3 {
        0 => Options { vfp: true, thumbee: true, ..Options::all() },
        1 => Options::naive(),
        _ => generate::options(&mut random),
    };
    let window = Window { start: CODE + 0x2000 - 4 * WORDS / 2, words: WORDS, thumb: 0 };
    PAIR.with_borrow_mut(|(lockstep, memory)| {
        *memory = Memory::new();
        for n in 0..WORDS {
            let word = if bytes.is_empty() { 0xe320_f000 } else { bytes.word() };
            memory.set_word(window.start + 4 * n, word);
        }
        for at in (DATA..DATA + 0x2000).step_by(64) {
            memory.set_word(at, generate::value(&mut random, &window));
        }
        let machine = generate::machine(&mut random, &window);
        lockstep.set_options(options, mirrored(false, seed & 1 == 0, seed & 8 == 0));
        lockstep.start(machine, memory, window, u64::from(seed));
        lockstep.run(40, disturb);
    });
}

/// Random instructions, with random bytes before them.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut random = Random::new(1);
    let window = Window { start: CODE + 0x2000 - 4 * WORDS / 2, words: WORDS, thumb: 0 };
    let mut seed = || {
        let mut bytes = random.word().to_le_bytes().to_vec();
        let first = window.start;
        for n in 0..24 {
            bytes.extend(generate::instruction(&mut random, first + 4 * n, &window).to_le_bytes());
        }
        bytes
    };
    (0..64).map(|_| seed()).collect()
}

/// Random bytes.
pub fn noise(count: u64, length: usize) -> Vec<Vec<u8>> {
    let noise = |n| {
        let mut random = Random::new(n);
        (0..length).map(|_| random.word() as u8).collect()
    };
    (0..count).map(noise).collect()
}
