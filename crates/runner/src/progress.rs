//! Progress: what the library says while it works, to whoever listens.
//!
//! The library prints nothing. A program that shows what is done gives a [`Listener`] to [`listen`], once, as it would
//! give a logger; without one, all of this is silence.

use std::any::Any;
use std::fmt::Display;
use std::sync::OnceLock;

/// Hears what is done.
pub trait Listener: Send + Sync {
    /// Something that people want to know: a line, without its end.
    fn say(&self, line: &str);

    /// Work that may take long begins, and reads as `what`: "building the hypervisor". It ends when what this gives is
    /// dropped.
    fn begin(&self, what: &str) -> Box<dyn Any + Send>;

    /// Output of a guest that nobody asked for, but a run that shows everything shows.
    fn pass(&self, output: &[u8]);
}

static LISTENER: OnceLock<Box<dyn Listener>> = OnceLock::new();

/// Has `listener` hear what this process does from now on. The first one stays.
pub fn listen(listener: impl Listener + 'static) {
    // There is one program in a process, which calls this once.
    let _ = LISTENER.set(Box::new(listener));
}

/// Says a line.
pub fn say(line: impl Display) {
    if let Some(listener) = LISTENER.get() {
        listener.say(&line.to_string());
    }
}

/// Passes a guest's output on.
pub fn pass(output: &[u8]) {
    if let Some(listener) = LISTENER.get() {
        listener.pass(output);
    }
}

/// A piece of work that is under way; it ends when this is dropped.
pub struct Step {
    _under_way: Option<Box<dyn Any + Send>>,
}

impl Step {
    /// Begins work that reads as `what`: "building the hypervisor".
    #[must_use]
    pub fn begin(what: impl AsRef<str>) -> Self {
        Self { _under_way: LISTENER.get().map(|listener| listener.begin(what.as_ref())) }
    }
}
