//! The code cache's records: one test for each promise, then everything at random.

mod blocks;
mod breakpoints;
mod counters;
mod fixture;
mod jump_cache;
mod links;
mod lookup;
mod patches;
mod random;
mod returns;
mod thumb;
