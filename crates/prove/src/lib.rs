//! Looking for our own mistakes: generators of everything that a guest may do, independent oracles that say what must
//! come of it, and `spica prove`, which lets the one loose on the other for as long as you like.
//!
//! A [`part::Part`] is one question, such as: do decoder and capstone agree? It is asked in cases. A case is made from
//! a number, or is a number, so it can be repeated; a case that fails is made smaller while it still fails
//! ([`reduce`]), and is printed with the command that repeats it. [`run`] shares the time among the parts, [`work`]
//! hands out the cases.
//!
//! What is here beside parts, models and generators, is what the crates' own tests build upon, too: they have this
//! crate as a dev-dependency. The tests of the crates are what a person thought of; the parts are what nobody thought
//! of.

#[cfg(feature = "command")]
pub mod board;
pub mod decoder;
pub mod fuzz;
pub mod mmu;
#[cfg(feature = "command")]
pub mod native;
pub mod part;
pub mod random;
pub mod reduce;
pub mod run;
#[cfg(feature = "command")]
pub mod sanitize;
#[cfg(feature = "command")]
pub mod state;
pub mod translator;
pub mod wild;
pub mod work;

use part::Part;
use translator::Kind;

/// All parts, in the order in which they run.
#[must_use]
pub fn parts() -> Vec<Box<dyn Part>> {
    let parts: Vec<Box<dyn Part>> = vec![
        Box::new(decoder::RoundTrip),
        #[cfg(feature = "command")]
        Box::new(decoder::text::Text),
        #[cfg(feature = "command")]
        Box::new(decoder::exhaustive::Exhaustive),
        #[cfg(feature = "command")]
        Box::new(decoder::t32::parts::Sampled),
        #[cfg(feature = "command")]
        Box::new(decoder::t32::parts::Exhaustive),
        Box::new(translator::Random { kind: Kind::A32 }),
        Box::new(translator::Random { kind: Kind::T32 }),
        Box::new(translator::Random { kind: Kind::Checked }),
        Box::new(translator::Random { kind: Kind::InPlace }),
        Box::new(translator::Points { kind: Kind::A32 }),
        Box::new(translator::Points { kind: Kind::T32 }),
        Box::new(translator::Points { kind: Kind::Checked }),
        Box::new(translator::Points { kind: Kind::InPlace }),
        Box::new(mmu::Walk),
        Box::new(mmu::Shadow),
    ];
    #[cfg(feature = "command")]
    let parts = {
        let board: [Box<dyn Part>; 10] = [
            Box::new(native::Model { thumb: false }),
            Box::new(native::Model { thumb: true }),
            Box::new(native::Copies),
            Box::new(board::FastPaths),
            Box::new(board::Same),
            Box::new(board::Switches),
            Box::new(board::Hostile),
            Box::new(board::Wild),
            Box::new(board::Endurance),
            Box::new(board::Silicon),
        ];
        let sanitize: [Box<dyn Part>; 1] = [Box::new(sanitize::Sanitize)];
        parts.into_iter().chain(fuzz::part::parts()).chain(sanitize).chain(board).collect()
    };
    parts
}
