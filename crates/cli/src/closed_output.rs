//! Standard output whose reader has gone, as in `spica list | head -1`: nothing to tell of. Rust ignores SIGPIPE, which
//! ends other commands then, and panics where it prints instead. A write to QEMU or to a board that has gone is an
//! error like others, so that is kept.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

/// That of a command that SIGPIPE has ended, as shells have it: 128 and the signal's number.
pub const STATUS: u8 = 128 + 13;

/// Runs the command: its status, or [`STATUS`], without a word, if it printed for nobody. It is unwound then, so that
/// what it has started ends with it.
pub fn end_quietly(command: impl FnOnce() -> ExitCode) -> ExitCode {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if !is_of_closed_output(panic.payload()) {
            report(panic);
        }
    }));
    match panic::catch_unwind(AssertUnwindSafe(command)) {
        Ok(status) => status,
        Err(payload) if is_of_closed_output(&*payload) => ExitCode::from(STATUS),
        Err(payload) => panic::resume_unwind(payload),
    }
}

/// Whether a panic is what `println!` makes of EPIPE.
fn is_of_closed_output(payload: &(dyn Any + Send)) -> bool {
    payload.downcast_ref::<String>().is_some_and(|text| text.starts_with("failed printing to stdout: Broken pipe"))
}
