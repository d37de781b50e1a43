//! The generic timer of Cortex-A7 and A15 (ARM ARM B8), through its virtual counter and timer, which are accessible in any state.

use alloc::boxed::Box;

use super::error::BoardError;
use super::tree::Node;
use super::{Counter, HostTimer};
use crate::arch::generic_timer as registers;

/// Index of the virtual timer in the node's `interrupts` (secure, non-secure, virtual, hypervisor).
pub const INTERRUPT: usize = 2;

struct Timer {
    frequency: u32,
}

/// Takes over the core's timer.
pub fn probe(node: &Node<'_>) -> Result<Box<dyn HostTimer>, BoardError> {
    if !crate::arch::cpu::has_generic_timer() {
        return Err(node.error("compatible", "the core has no generic timer (ID_PFR1)"));
    }
    // Firmware that did not set CNTFRQ is made good for by the device tree.
    let frequency = match node.word("clock-frequency").unwrap_or_else(registers::frequency) {
        0 => return Err(node.error("clock-frequency", "is missing, and CNTFRQ is 0")),
        frequency => frequency,
    };
    registers::stop();
    Ok(Box::new(Timer { frequency }))
}

impl HostTimer for Timer {
    fn frequency(&self) -> u32 {
        self.frequency
    }

    fn now(&mut self) -> u64 {
        registers::now()
    }

    fn set_deadline(&mut self, deadline: Option<u64>) {
        match deadline {
            Some(deadline) => registers::start(deadline),
            None => registers::stop(),
        }
    }

    fn acknowledge(&mut self) {
        // The line stays raised as long as the deadline has passed: it goes with the deadline.
        registers::stop();
    }

    fn counter(&self) -> Option<Counter> {
        None
    }
}
