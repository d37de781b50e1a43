//! The generic timer of Cortex-A7 and A15 (ARM ARM B8), through its virtual counter and timer, which are accessible in
//! any state.

use alloc::boxed::Box;

use super::error::BoardError;
use super::hardware::{GenericTimer, Hardware};
use super::tree::Node;
use super::{Counter, HostTimer};

/// Index of the virtual timer in the node's `interrupts` (secure, non-secure, virtual, hypervisor).
pub const INTERRUPT: usize = 2;

struct Timer<T> {
    registers: T,
    frequency: u32,
}

/// Takes over the core's timer.
pub fn probe<H: Hardware>(node: &Node<'_>) -> Result<Box<dyn HostTimer>, BoardError> {
    let Some(mut registers) = H::generic_timer() else {
        return Err(node.error("compatible", "the core has no generic timer (ID_PFR1)"));
    };
    // Firmware that did not set CNTFRQ is made good for by the device tree.
    let frequency = match node.word("clock-frequency").unwrap_or_else(|| registers.frequency()) {
        0 => return Err(node.error("clock-frequency", "is missing, and CNTFRQ is 0")),
        frequency => frequency,
    };
    registers.stop();
    Ok(Box::new(Timer { registers, frequency }))
}

impl<T: GenericTimer> HostTimer for Timer<T> {
    fn frequency(&self) -> u32 {
        self.frequency
    }

    fn now(&mut self) -> u64 {
        self.registers.now()
    }

    fn set_deadline(&mut self, deadline: Option<u64>) {
        match deadline {
            Some(deadline) => self.registers.start(deadline),
            None => self.registers.stop(),
        }
    }

    fn acknowledge(&mut self) -> u64 {
        // The line stays raised as long as the deadline has passed: it goes with the deadline.
        self.registers.stop();
        self.now()
    }

    fn counter(&self) -> Option<Counter> {
        None
    }
}
