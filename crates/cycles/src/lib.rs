//! How long a Cortex-A8 and a Cortex-A9 take for what an emulator executes.
//!
//! QEMU counts instructions, and to it all are alike. On silicon a load that misses the caches costs as much as a
//! hundred others, and so does a hypervisor whose code is spread over many pages. This crate follows the executed
//! instructions and their accesses, keeps what the core would keep (caches, TLBs, branch predictors, the times at
//! which registers are ready), and counts what costs time.
//!
//! **Counts first, cycles later.** [`Model`] has no costs of its own for a miss or a misprediction. It counts them
//! ([`counts`]), and [`price`] says what one costs on either core: a low, a middle and a high figure, each with its
//! source or marked as an estimate. So one run gives the cycles for all three, and a better price needs no new run. The
//! pipeline alone is counted in cycles ([`pipeline`]).
//!
//! The way of an instruction: [`decode`] says once what it is; [`Model::execute`] fetches it (instruction TLB,
//! instruction cache), checks what the predictor made of the branch before it ([`branch`]) and puts it through the
//! pipeline; [`Model::access`] takes each of its accesses through the data TLB ([`tlb`]) and the caches ([`cache`]). A
//! miss of the TLB reads the real tables in the board's memory ([`walk`]), through the caches. Which instruction each
//! count is due to, a [`ledger`] may note.
//!
//! The crate touches no machine. It is as deterministic as what it is fed: what silicon replaces at random, it replaces
//! by a generator that always starts with the same number.

#![forbid(unsafe_code)]

pub mod branch;
pub mod cache;
pub mod core;
pub mod counts;
pub mod decode;
pub mod ledger;
pub mod model;
pub mod pipeline;
pub mod price;
pub mod tlb;
pub mod walk;

pub use core::Core;
pub use counts::{Count, Counts, Part};
pub use decode::Instruction;
pub use model::Model;
pub use walk::{Memory, Registers};
