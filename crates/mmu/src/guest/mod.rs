//! The guest's side: its registers, its translation tables and how they are walked, its faults. Another format of guest
//! tables has its place beside [`walk`]; nothing here knows what the shadow's tables look like (`host.rs`).

pub mod fault;
mod long;
pub mod plain;
pub mod regime;
pub mod walk;
