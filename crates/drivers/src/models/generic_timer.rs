//! The core's generic timer (ARM ARM B8.1): a counter of 64 bits, and a line that is raised as long as the deadline has
//! passed. A core has none until a test gives it one.

use std::cell::Cell;
use std::thread_local;

use super::bus;
use crate::hardware;

#[derive(Clone, Copy)]
struct State {
    /// CNTFRQ.
    frequency: u32,
    /// Ticks per second, whatever CNTFRQ says.
    speed: u32,
    deadline: Option<u64>,
}

impl State {
    fn now(&self) -> u64 {
        (u128::from(bus::now()) * u128::from(self.speed) / 1_000_000_000) as u64
    }
}

thread_local! {
    static STATE: Cell<Option<State>> = const { Cell::new(None) };
}

/// Gives the core a timer of so many ticks per second, on which firmware has left a deadline. `frequency` is what it
/// has written to CNTFRQ.
pub fn attach(speed: u32, frequency: u32) {
    STATE.set(Some(State { frequency, speed, deadline: Some(0) }));
}

/// Takes the timer from the core.
pub(super) fn detach() {
    STATE.set(None);
}

/// Whether the timer's line is raised.
#[must_use]
pub fn raised() -> bool {
    STATE.get().is_some_and(|state| state.deadline.is_some_and(|deadline| state.now() >= deadline))
}

/// The registers of the core's timer, for its driver.
pub struct GenericTimer(());

impl GenericTimer {
    pub(super) fn of_the_core() -> Option<GenericTimer> {
        STATE.get().map(|_| GenericTimer(()))
    }

    fn set(deadline: Option<u64>) {
        STATE.set(STATE.get().map(|state| State { deadline, ..state }));
    }
}

impl hardware::GenericTimer for GenericTimer {
    fn frequency(&self) -> u32 {
        STATE.get().map_or(0, |state| state.frequency)
    }

    fn now(&self) -> u64 {
        STATE.get().map_or(0, |state| state.now())
    }

    fn start(&mut self, deadline: u64) {
        Self::set(Some(deadline));
    }

    fn stop(&mut self) {
        Self::set(None);
    }
}
