//! The tests of this crate in one program: each program more would be linked with all of it again.

mod cache;
mod code_map;
mod golden;
mod golden_t32;
mod in_place;
mod return_mirror;
mod rules;
mod shadow_stack;
mod spill;
mod twins;
mod volatile;
