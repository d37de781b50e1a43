//! What the processor offers, in words of the architecture manual: system registers, barriers, caches, TLBs,
//! interrupts.
//!
//! Everything here is privileged ARMv7-A (ARM ARM = DDI 0406C), works on any such core, and knows nothing of boards or
//! guests.

pub mod barrier;
pub mod cache;
pub mod copy;
pub mod cp15;
pub mod cpu;
pub mod fixup;
pub mod generic_timer;
pub mod identity;
pub mod interrupts;
pub mod tlb;
