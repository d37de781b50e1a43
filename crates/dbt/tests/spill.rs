//! Lightweight traps: what runs in Undefined mode is what the translator meant to run there, whatever the guest's code
//! is.

use spica_addr::{GuestPa, GuestVa};
use spica_dbt::layout::{Layout, PAGE_WORDS};
use spica_dbt::spill::{RETURN, TRAP};
use spica_dbt::{Capacity, CodeMemory, Options, Spill, Translator};
use spica_prove::random::Random;
use spica_prove::translator::generate::{self, Window};

const LAYOUT: Layout = Layout { base: 0xf180_0000, pages: 2, mirror: None };
const CODE: u32 = 0x8000_0000;

/// Code memory that is full of traps at first.
struct Code(Vec<[u32; PAGE_WORDS]>);

impl CodeMemory for Code {
    fn page(&mut self, page: u32) -> &mut [u32; PAGE_WORDS] {
        &mut self.0[page as usize]
    }

    fn publish(&mut self, _page: u32, _first: usize, _words: usize) {}

    fn mirror_page(&mut self, _page: u32) -> &mut [u32; PAGE_WORDS] {
        unreachable!("no return mirror here")
    }

    fn publish_mirror(&mut self, _page: u32, _va: u32, _first: usize, _words: usize) {}

    fn map_mirror(&mut self, _va: u32, _page: u32) {}

    fn unmap_mirror(&mut self, _va: Option<u32>) {}
}

/// How many traps there are in a page that is in use; each begins a sequence of the technique, with nothing else in it.
fn sequences(spill: Spill, page: &[u32; PAGE_WORDS]) -> usize {
    let mut found = 0;
    for at in (0..PAGE_WORDS).filter(|&at| page[at] == TRAP) {
        found += 1;
        match spill {
            Spill::TrapPrivate => {
                let (store, after) = (page[at + 1], page[at + 2]);
                assert_eq!((store >> 16, after), (0xe58f, RETURN), "behind the trap at word {at}");
                assert!(store >> 12 & 15 < 13, "a register of User mode");
                let slot = at + 3 + (store & 0xfff) as usize / 4;
                assert_eq!(page[slot + 1], RETURN, "behind the slot at word {slot}");
            }
            _ => {
                let [low, high, access, after] = [1, 2, 3, 4].map(|n| page[at + n]);
                let slot = LAYOUT.shared_slot();
                assert_eq!((low & 0xfff) | low >> 4 & 0xf000, slot & 0xffff, "the slot's address");
                assert_eq!((high & 0xfff) | high >> 4 & 0xf000, slot >> 16);
                assert_eq!((low & 0xfff0_f000, high & 0xfff0_f000), (0xe300_e000, 0xe340_e000), "MOVW and MOVT of LR");
                assert_eq!((access & 0xffef_0fff, after), (0xe58e_0000, RETURN), "behind the trap at word {at}");
            }
        }
    }
    found
}

#[test]
fn no_word_is_a_trap_by_accident() {
    for spill in [Spill::TrapPrivate, Spill::TrapShared] {
        let mut found = 0;
        let mut flushes = 0;
        for seed in 0..30 {
            let mut random = Random::new(seed);
            let options = Options { spill, ..generate::options(&mut random) };
            let mut code = Code(vec![[TRAP; PAGE_WORDS]; LAYOUT.pages as usize]);
            let capacity = Capacity { blocks: 200, exits: 800, mirror_pages: 0 };
            let mut translator = Translator::new(LAYOUT, options, capacity);
            let window = Window::random(&mut random);
            for _ in 0..250 {
                let mut words = [0; PAGE_WORDS];
                for (n, word) in words.iter_mut().enumerate() {
                    // All ones is a literal of many programs, and an instruction of none.
                    let trap = random.one_in(6);
                    *word = if trap { TRAP } else { generate::instruction(&mut random, CODE + 4 * n as u32, &window) };
                }
                let at = 4 * random.below(PAGE_WORDS as u32);
                translator.translate(GuestVa(CODE + at), GuestPa(CODE + at), true, &words, &mut code);
                let (_, _, used) = translator.in_use();
                found += code.0[..used].iter().map(|page| sequences(spill, page)).sum::<usize>();
            }
            flushes += translator.stats().flushes;
        }
        assert!(found > 10_000 && flushes > 20, "{found} traps and {flushes} flushes prove little");
    }
}
