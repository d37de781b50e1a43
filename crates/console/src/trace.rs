//! What a program asks of the timeline: the monitor's `trace VERB`.

use alloc::string::{String, ToString};

/// Bytes of a piece of records, before they become text: 2,048 characters.
pub const PIECE_BYTES: usize = 1536;

/// A wish.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trace {
    /// `start`: record what guests do from now on. Answered with `clock HERTZ RECORDS`: the clock of the records, and
    /// how many of them wait to be read at most.
    Start,
    /// `calls GUEST`: the same of that guest's system calls alone, with what they say and what is returned.
    Calls(String),
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
pub fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Trace, String> {
    let trace = match (words.next(), words.next()) {
        (Some("start"), None) => Some(Trace::Start),
        (Some("calls"), Some(guest)) => Some(Trace::Calls(guest.to_string())),
        (Some("read"), None) => Some(Trace::Read),
        (Some("stop"), None) => Some(Trace::Stop),
        _ => None,
    };
    match (trace, words.next()) {
        (Some(trace), None) => Ok(trace),
        _ => Err("`trace` is followed by `start`, `calls GUEST`, `read` or `stop`; it is for `spica trace`".into()),
    }
}
