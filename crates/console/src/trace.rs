//! What a program asks of the timeline: the monitor's `trace VERB`.

use alloc::string::String;

/// Bytes of a piece of records, before they become text: 2,048 characters.
pub const PIECE_BYTES: usize = 1536;

/// A wish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trace {
    /// `start`: record what guests do from now on. Answered with `clock HERTZ RECORDS`: the clock of the records, and
    /// how many of them wait to be read at most.
    Start,
    /// `read`: what was recorded up to now and not read yet, in lines `records BASE64`; each is a piece of
    /// `spica_trace_ring::wire`.
    Read,
    /// `stop`: record nothing any more.
    Stop,
}

/// Understands what is behind `trace`.
///
/// # Errors
/// What would be right.
pub fn parse(verb: Option<&str>) -> Result<Trace, String> {
    match verb {
        Some("start") => Ok(Trace::Start),
        Some("read") => Ok(Trace::Read),
        Some("stop") => Ok(Trace::Stop),
        _ => Err("`trace` is followed by `start`, `read` or `stop`; it is for `spica trace`".into()),
    }
}
