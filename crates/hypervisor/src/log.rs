//! How much the hypervisor says.
//!
//! Quiet by default: the console is the guests'. [`println!`](crate::println) always prints; the macros here print from their level
//! up, as `spica: …`.

use core::sync::atomic::{AtomicU8, Ordering};

/// Importance of a message, most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Something does not work.
    Error = 0,
    /// Something is not as it should be, and works all the same.
    Warn = 1,
    /// What is going on.
    Info = 2,
    /// Details for whoever works on Spica.
    Debug = 3,
}

impl Level {
    /// The level of this name, in lower case.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "error" => Self::Error,
            "warn" => Self::Warn,
            "info" => Self::Info,
            "debug" => Self::Debug,
            _ => return None,
        })
    }
}

static LEVEL: AtomicU8 = AtomicU8::new(Level::Warn as u8);

/// Prints messages up to `level` from now on.
pub fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// Whether messages of this level are printed.
pub fn enabled(level: Level) -> bool {
    level as u8 <= LEVEL.load(Ordering::Relaxed)
}

/// Prints a message of a level.
#[macro_export]
macro_rules! log {
    ($level:expr, $($argument:tt)*) => {
        if $crate::log::enabled($level) {
            $crate::println!("spica: {}", format_args!($($argument)*));
        }
    };
}

/// Something does not work.
#[macro_export]
macro_rules! error {
    ($($argument:tt)*) => { $crate::log!($crate::log::Level::Error, $($argument)*) };
}

/// Something is not as it should be.
#[macro_export]
macro_rules! warning {
    ($($argument:tt)*) => { $crate::log!($crate::log::Level::Warn, $($argument)*) };
}

/// What is going on.
#[macro_export]
macro_rules! info {
    ($($argument:tt)*) => { $crate::log!($crate::log::Level::Info, $($argument)*) };
}

/// Details.
#[macro_export]
macro_rules! debug {
    ($($argument:tt)*) => { $crate::log!($crate::log::Level::Debug, $($argument)*) };
}
