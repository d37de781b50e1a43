//! Signals that ask this process to end, for those who have something to keep first.

use std::fs;
use std::io::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// Ctrl-C, `kill`, and the end of the terminal.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// From when this is made on, the first of these signals only says so; the second one ends the process as ever.
#[derive(Clone, Debug)]
pub struct Signals(Arc<AtomicUsize>);

/// Those that whoever started this process has it ignore, as nohup does: bit 0 is signal 1.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

impl Signals {
    /// Waits for them.
    ///
    /// # Errors
    /// If the system refuses that.
    pub fn keep() -> Result<Self> {
        let (came, first) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let ignored = ignored();
        for signal in SIGNALS.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0) {
            // In this order: what is done at the first one is not yet so when that one is looked at.
            flag::register_conditional_default(signal, came.clone())?;
            flag::register(signal, came.clone())?;
            flag::register_usize(signal, first.clone(), signal.unsigned_abs() as usize)?;
        }
        Ok(Self(first))
    }

    /// Whether one has come.
    #[must_use]
    pub fn has_come(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }

    /// Does what the one that has come asks for: this process ends, and whoever started it sees by what.
    pub fn obey(&self) {
        if let Ok(signal @ 1..) = i32::try_from(self.0.load(Ordering::SeqCst)) {
            let _ = low_level::emulate_default_handler(signal);
        }
    }
}
