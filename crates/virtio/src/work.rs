//! How much devices may do before they let others: [`Work`].

/// What is left of a budget of work, in bytes moved; looking at a descriptor counts as [`Work::DESCRIPTOR`] bytes, and
/// a request as [`Work::REQUEST`], a character of a console's output as [`Work::CHARACTER`], and a random byte as
/// [`Work::RANDOM`].
///
/// A device checks it before it takes the next piece of work, and pieces are bounded (a chain's descriptors, a block of
/// data), so that a budget is exceeded by no more than a piece.
#[derive(Debug)]
pub struct Work {
    left: u32,
}

impl Work {
    /// The cost of a descriptor: about that of as many bytes copied.
    pub const DESCRIPTOR: u32 = 64;
    /// The cost of a request besides its descriptors and data: its rings, its backend.
    pub const REQUEST: u32 = 512;
    /// The cost of a character of a console's output: a log, a ring and a device register of the host's.
    pub const CHARACTER: u32 = 512;
    /// The cost of a random byte: a hash for 32 of them, of some 2,500 instructions.
    pub const RANDOM: u32 = 128;

    /// A budget.
    #[must_use]
    pub const fn new(bytes: u32) -> Self {
        Self { left: bytes }
    }

    /// Whether anything is left.
    #[must_use]
    pub const fn is_left(&self) -> bool {
        self.left != 0
    }

    /// What is left.
    #[must_use]
    pub const fn left(&self) -> u32 {
        self.left
    }

    /// Takes from it, as far as it goes.
    pub const fn spend(&mut self, bytes: u32) {
        self.left = self.left.saturating_sub(bytes);
    }
}

/// How a device left off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// There is nothing to do until the driver kicks or the backend has something.
    Idle,
    /// The budget is used up, and there was more.
    More,
}

impl Progress {
    /// Both together: more if either has.
    pub(crate) const fn and(self, other: Self) -> Self {
        match self {
            Self::More => Self::More,
            Self::Idle => other,
        }
    }
}
