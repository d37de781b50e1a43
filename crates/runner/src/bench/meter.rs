//! What counts while a board runs, if anything does: the counter of events, or the model of time.

use std::path::{Path, PathBuf};

use super::clock::{self, Clock};
use super::counter::Counter;
use super::counts::Reading;
use super::{Context, Side};
use crate::error::Result;
use crate::prepare::Run;
use crate::qemu::Plugin;

/// What is ready to count.
#[derive(Clone, Debug)]
pub enum Instrument {
    /// The plugin that counts events.
    Counter(PathBuf),
    /// The model of time.
    Clock(clock::Tools),
}

/// What counts.
#[derive(Debug)]
pub enum Meter<'a> {
    /// Events.
    Counter(Counter),
    /// Time.
    Clock(Clock, &'a clock::Tools),
}

impl<'a> Meter<'a> {
    /// What counts in a boot, in a file beside `log`; from the instruction at `from` on, if time is what is modelled.
    ///
    /// # Errors
    /// If it cannot be made ready.
    pub(super) fn new(
        context: &'a Context<'_>,
        run: &Run,
        side: Side,
        log: &Path,
        from: Option<u32>,
    ) -> Result<Option<Self>> {
        let file = log.with_extension("counts");
        Ok(match &context.instrument {
            None => None,
            Some(Instrument::Counter(plugin)) => {
                Some(Self::Counter(Counter::new(context.project, plugin, &file, side)?))
            }
            Some(Instrument::Clock(tools)) => Some(Self::Clock(Clock::new(tools, &file, run, from)?, tools)),
        })
    }

    /// What QEMU loads.
    #[must_use]
    pub fn plugin(&self) -> Plugin<'_> {
        match self {
            Self::Counter(counter) => Plugin { argument: &counter.argument, emulator: None },
            Self::Clock(clock, tools) => Plugin { argument: &clock.argument, emulator: Some(&tools.emulator) },
        }
    }

    /// What was counted until now. The board stands still.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(&self) -> Result<Reading> {
        Ok(match self {
            Self::Counter(counter) => Reading::Events(counter.read()?),
            Self::Clock(clock, _) => Reading::Time(Box::new(clock.read()?)),
        })
    }
}
