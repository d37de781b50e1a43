//! What the device tree says besides devices: memory, who occupies it, and the boot loader's words.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::error::BoardError;
use super::tree::Tree;

/// A range of physical addresses that belongs to somebody else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reserved {
    /// Which addresses.
    pub range: Range<u64>,
    /// True if it must not even be mapped (`no-map`): a speculative access could abort or disturb its owner.
    pub no_map: bool,
}

/// Memory and boot parameters. Ranges are of physical addresses.
#[derive(Clone, Debug)]
pub struct Info {
    /// The board's own name, with the name of its chip where the device tree tells it.
    pub model: String,
    /// Banks of RAM.
    pub banks: Vec<Range<u64>>,
    /// Ranges that belong to somebody else: firmware, or what the device tree reserves.
    pub reserved: Vec<Reserved>,
    /// The initial RAM disk.
    pub initrd: Option<Range<u64>>,
    /// Spica's command line.
    pub command_line: String,
}

impl Info {
    /// Reads it from the device tree.
    ///
    /// # Errors
    /// If there is no memory, or a property does not make sense.
    pub fn read(tree: Tree<'_>) -> Result<Self, BoardError> {
        let root = tree.root();
        let chip = root.compatible().last();
        let model = match (root.string("model"), chip) {
            (Some(model), Some(chip)) => format!("{model} ({chip})"),
            (Some(name), None) | (None, Some(name)) => String::from(name),
            (None, None) => String::from("unnamed board"),
        };

        let mut banks = Vec::new();
        for node in root.children().filter(|node| node.string("device_type") == Some("memory") && node.is_enabled()) {
            banks.extend(node.pairs("reg")?.into_iter().map(range));
        }
        banks.retain(|bank| !bank.is_empty());
        if banks.is_empty() {
            let problem = "no memory: a node with device_type \"memory\" and a reg that is not empty is needed; boot loaders and \
                           emulators add it";
            return Err(BoardError::new("/memory", "reg", problem));
        }

        let header = tree.reservations().map(|pair| Reserved { range: range(pair), no_map: false });
        let mut reserved: Vec<_> = header.collect();
        if let Some(parent) = root.child("reserved-memory") {
            for node in parent.children().filter(|node| node.is_enabled() && node.property("reg").is_some()) {
                let no_map = node.property("no-map").is_some();
                reserved.extend(node.pairs("reg")?.into_iter().map(|pair| Reserved { range: range(pair), no_map }));
            }
        }

        let chosen = root.child("chosen");
        let number = |name: &'static str| chosen.as_ref().and_then(|chosen| chosen.number(name));
        let initrd = match (number("linux,initrd-start"), number("linux,initrd-end")) {
            (Some(start), Some(end)) if start < end => Some(start..end),
            _ => None,
        };
        let command_line = chosen.as_ref().and_then(|chosen| chosen.string("bootargs")).unwrap_or_default().into();
        Ok(Self { model, banks, reserved, initrd, command_line })
    }
}

/// The range of a start and a length.
fn range((start, len): (u64, u64)) -> Range<u64> {
    start..start.saturating_add(len)
}
