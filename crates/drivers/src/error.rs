//! What can be wrong with a board's description.

use alloc::string::String;
use core::fmt;

/// A board that Spica cannot run on, or whose device tree does not make sense: where, what, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardError {
    /// Path of the device-tree node, or `/` if a whole class of devices is missing.
    pub node: String,
    /// The property that is wrong, or empty if it is the node itself.
    pub property: &'static str,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl BoardError {
    /// An error at a node, or at a property of it.
    pub fn new(node: impl Into<String>, property: &'static str, problem: impl Into<String>) -> Self {
        Self { node: node.into(), property, problem: problem.into() }
    }
}

impl fmt::Display for BoardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device tree, {}", self.node)?;
        if !self.property.is_empty() {
            write!(f, ", property {}", self.property)?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl core::error::Error for BoardError {}
