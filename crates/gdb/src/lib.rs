//! GDB's remote protocol for a guest: what GDB asks becomes questions to the board's monitor
//! (`crates/console/src/debug.rs`), which this crate reaches through the trait [`Link`].
//!
//! [`registers`] says what GDB sees of a virtual CPU, [`target`] is the guest as the crate `gdbstub` wants it,
//! [`files`] has the names of its kernel's functions, and [`session`] is a debugger's stay, over whatever connects it.

mod conditional;
pub mod files;
pub mod registers;
pub mod session;
pub mod target;

use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// What goes wrong, for a person.
pub type Problem = String;

/// A guest on a board, whose debugger we are: questions are what comes behind `debug GUEST`.
pub trait Link {
    /// The guest's name.
    fn guest(&self) -> &str;

    /// Asks, and gives the lines of the answer without the last one.
    ///
    /// # Errors
    /// What the board says is wrong, or that it has gone.
    fn ask(&mut self, question: &str) -> Result<Vec<String>, Problem>;

    /// Asks `wait`, whose answer comes when the guest stands.
    ///
    /// # Errors
    /// If the board has gone.
    fn begin_wait(&mut self) -> Result<(), Problem>;

    /// What can be read when that answer is here.
    fn waits_for(&self) -> BorrowedFd<'_>;

    /// That answer.
    ///
    /// # Errors
    /// What the board says is wrong, or that it has gone.
    fn end_wait(&mut self) -> Result<Vec<String>, Problem>;

    /// An ELF file with the names of the kernel's functions, if they were read.
    fn symbols(&self) -> Option<Arc<[u8]>>;

    /// Reads them, which takes seconds. `progress` is called several times in each of them, with words for a person.
    ///
    /// # Errors
    /// If there are none, or the board has gone.
    fn read_symbols(&mut self, progress: &mut dyn FnMut(&str)) -> Result<(), Problem>;

    /// Keeps all that the guest is now, instead of what was kept before; how much that is, for a person. `progress` as
    /// above.
    ///
    /// # Errors
    /// If the guest has something that cannot be kept, or the board has gone.
    fn keep(&mut self, progress: &mut dyn FnMut(&str)) -> Result<String, Problem>;

    /// The guest becomes again what was kept. It has no breakpoints meanwhile.
    ///
    /// # Errors
    /// See [`NotBack`].
    fn put_back(&mut self) -> Result<(), NotBack>;
}

/// Why a guest has not become again what was kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotBack {
    /// It stands as it stood.
    Untouched(Problem),
    /// Half of it was replaced: it will be off when it has no debugger any more.
    Lost(Problem),
}
