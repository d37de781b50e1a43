//! One thing that is to be proved, and what it means that it is not so.

use crate::work::Work;

/// One question about Spica, and an oracle that knows the answer.
pub trait Part: Sync {
    /// How it is called on the command line: words with hyphens.
    fn name(&self) -> &str;

    /// One line: what is compared with what.
    fn about(&self) -> &str;

    /// Its share of the time, relative to the others'.
    fn weight(&self) -> u32 {
        1
    }

    /// Whether it needs an emulated board, and with that QEMU and the image of Spica.
    fn on_board(&self) -> bool {
        false
    }

    /// What must have happened at least once before a run proves anything, as it was noted by [`Work::note`].
    fn must_see(&self) -> Vec<String> {
        Vec::new()
    }

    /// Works through cases until [`Work::is_over`].
    ///
    /// # Errors
    /// The first case that is not as it should be, reduced.
    fn run(&self, work: &Work) -> Result<(), Failure>;

    /// Runs the one case that a [`Failure`] named.
    ///
    /// # Errors
    /// If it still fails, or if there is no such case.
    fn repeat(&self, case: &str, work: &Work) -> Result<(), Failure>;
}

/// A case that is not as it should be, or a part that could not do its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What [`Part::repeat`] takes; nothing if it was not a case that failed.
    pub case: Option<String>,
    /// What is wrong, in several lines where that helps: what was expected, what came, the code of the case.
    pub message: String,
}

impl Failure {
    /// The case is wrong.
    pub fn of(case: impl Into<String>, message: impl Into<String>) -> Failure {
        Failure { case: Some(case.into()), message: message.into() }
    }

    /// The part could not do its work.
    pub fn trouble(message: impl Into<String>) -> Failure {
        Failure { case: None, message: message.into() }
    }
}
