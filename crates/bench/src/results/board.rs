//! The boards that figures are measured on.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An emulated board that figures are measured on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Board {
    /// QEMU's `cubieboard`: Allwinner A10, Cortex-A8.
    #[serde(rename = "cubieboard")]
    Cubieboard,
    /// QEMU's `vexpress-a9`: Versatile Express, Cortex-A9.
    #[serde(rename = "vexpress-a9")]
    VexpressA9,
}

impl Board {
    /// All boards.
    pub const ALL: [Board; 2] = [Board::Cubieboard, Board::VexpressA9];

    /// QEMU's name of it, which is also its name on the command line and in result files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Board::Cubieboard => "cubieboard",
            Board::VexpressA9 => "vexpress-a9",
        }
    }

    /// The board of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Board> {
        Board::ALL.into_iter().find(|b| b.name() == name)
    }
}

impl fmt::Display for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
