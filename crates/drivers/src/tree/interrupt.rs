//! Where a device's interrupt ends: through `interrupt-parent` and all `interrupt-map`s to a controller (Devicetree
//! Specification 0.4, section 2.4).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Node, Tree, cells_of};
use crate::error::BoardError;

/// An interrupt, as its controller numbers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// Path of the controller's node.
    pub controller: String,
    /// The interrupt specifier, in the controller's own format.
    pub cells: Vec<u32>,
}

impl<'a> Tree<'a> {
    /// The `index`th interrupt of `node`, resolved through all `interrupt-map`s on the way to a controller.
    ///
    /// # Errors
    /// If a property on the way is missing or malformed, or leads nowhere.
    #[inline(never)]
    pub fn interrupt(self, node: &Node<'a>, index: usize) -> Result<Interrupt, BoardError> {
        let mut parent = self.interrupt_parent(node)?;
        let count = cells_of(parent.word_or_error("#interrupt-cells")?);
        let all = node.words("interrupts").ok_or_else(|| node.error("interrupts", "is missing"))?;
        let mut cells = all
            .chunks_exact(count.max(1))
            .nth(index)
            .ok_or_else(|| node.error("interrupts", format!("has no entry {index} of {count} cells")))?
            .to_vec();
        // A nexus translates; a chain of them ends at a controller. Trees are finite, loops in malformed ones are not.
        for _ in 0..8 {
            let Some(map) = parent.words("interrupt-map") else {
                return Ok(Interrupt { controller: parent.path(), cells });
            };
            (parent, cells) = self.through_map(node, &parent, &map, &cells)?;
        }
        Err(node.error("interrupts", "goes through more than 8 interrupt maps"))
    }

    #[inline(never)]
    fn interrupt_parent(self, node: &Node<'a>) -> Result<Node<'a>, BoardError> {
        let mut at = node.clone();
        loop {
            if let Some(phandle) = at.word("interrupt-parent") {
                return self
                    .phandle(phandle)
                    .ok_or_else(|| at.error("interrupt-parent", format!("no node has phandle {phandle:#x}")));
            }
            at = at.parent().ok_or_else(|| node.error("interrupt-parent", "neither here nor in any parent"))?;
            if at.property("#interrupt-cells").is_some() {
                return Ok(at);
            }
        }
    }

    /// One step through the `interrupt-map` of `nexus`: rows of (unit address, specifier, parent, parent's unit
    /// address, parent's specifier).
    #[inline(never)]
    fn through_map(
        self,
        node: &Node<'a>,
        nexus: &Node<'a>,
        map: &[u32],
        cells: &[u32],
    ) -> Result<(Node<'a>, Vec<u32>), BoardError> {
        let address_cells = cells_of(nexus.word("#address-cells").unwrap_or(2));
        let key_cells = address_cells + cells.len();
        let mask =
            nexus.words("interrupt-map-mask").unwrap_or_else(|| Vec::from_iter((0..key_cells).map(|_| u32::MAX)));
        let reg = node.words("reg").unwrap_or_default();
        let unit = (0..address_cells).map(|index| reg.get(index).copied().unwrap_or(0));
        let key: Vec<u32> = unit.chain(cells.iter().copied()).collect();
        let broken = || nexus.error("interrupt-map", "ends in the middle of a row");
        let mut rest = map;
        while !rest.is_empty() {
            let (row_key, after) = rest.split_at_checked(key_cells).ok_or_else(broken)?;
            let (&phandle, after) = after.split_first().ok_or_else(broken)?;
            let parent = self
                .phandle(phandle)
                .ok_or_else(|| nexus.error("interrupt-map", format!("no node has phandle {phandle:#x}")))?;
            let parent_address = cells_of(parent.word("#address-cells").unwrap_or(0));
            let parent_cells = cells_of(parent.word_or_error("#interrupt-cells")?);
            let (row_value, after) = after.split_at_checked(parent_address + parent_cells).ok_or_else(broken)?;
            let matches =
                key.iter().zip(row_key).zip(&mask).all(|((&wanted, &row), &mask)| wanted & mask == row & mask);
            if matches {
                return Ok((parent, row_value[parent_address..].to_vec()));
            }
            rest = after;
        }
        Err(node.error("interrupts", format!("{cells:x?} is not in the interrupt-map of {}", nexus.path())))
    }
}
