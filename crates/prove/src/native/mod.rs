//! The model of the processor, against a processor that others made: QEMU's, which executes the same random code
//! natively.
//!
//! `crate::translator` compares translated code with [`crate::translator::model`], which is ours. Whether that one is
//! right is asked here. The cases are the translator's own: the same numbers make the same code, the same memory, the
//! same registers. The model executes a case and cuts it into *pieces*: an instruction or some, from a state that is
//! written down to an exception. The board loads the state, executes the piece, and writes down what is left; that, and
//! in the end all of the memory, must be what the model has. The next piece begins from the model's state again, so
//! nothing is hidden by what was wrong before it, and a difference names its instruction.
//!
//! QEMU's processor is a Cortex-A15 without virtualisation: the same architecture as the guest machine's. It is an
//! oracle with limits of its own, which `piece.rs` names where it leaves something out.

mod case;
mod compare;
mod copies;
mod part;
mod piece;
mod record;
mod stepper;

pub use part::{Copies, Model};
