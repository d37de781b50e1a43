//! The host's device tree, as the drivers want to see it.
//!
//! `dtoolkit` reads the flattened format. What it leaves to us is what needs more than one node at a time: a register's
//! physical address is found by applying the `ranges` of every bus above it, an interrupt's line by going through
//! `interrupt-parent` and `interrupt-map` (Devicetree Specification 0.4, sections 2.3.8 and 2.4). So a [`Node`] here
//! carries its ancestors along. The latter is in a file of its own. Pure: runs on the development machine as well.
//!
//! All of this runs once, while the board boots, and is called from many places; so that the image does not have it in
//! each of them, what is not tiny is not inlined.

pub mod interrupt;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node as _, Property as _};
use spica_addr::HostPa;

use super::error::BoardError;

/// A device tree that was found to be well-formed.
#[derive(Clone, Copy)]
pub struct Tree<'a> {
    fdt: Fdt<'a>,
}

/// A node, with the way to it.
#[derive(Clone)]
pub struct Node<'a> {
    /// From the root to the node itself.
    chain: Vec<FdtNode<'a>>,
}

impl<'a> Tree<'a> {
    /// Reads `bytes`, the whole blob.
    ///
    /// # Errors
    /// If it is not a well-formed flattened device tree.
    pub fn new(bytes: &'a [u8]) -> Result<Self, BoardError> {
        let reason = || Fdt::new(bytes).map_or_else(|error| error.to_string(), |_| "a block is cut short".into());
        let fdt = spica_fdt::open(bytes);
        let fdt = fdt.ok_or_else(|| BoardError::new("/", "", format!("not well-formed: {}", reason())))?;
        Ok(Self { fdt })
    }

    /// The root.
    pub fn root(self) -> Node<'a> {
        Node { chain: Vec::from([self.fdt.root()]) }
    }

    /// Ranges of the header's memory reservation block: start and size.
    pub fn reservations(self) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.fdt.memory_reservations().map(|reserved| (reserved.address(), reserved.size()))
    }

    /// The first node, depth first, that `wanted` accepts.
    #[inline(never)]
    pub fn find(self, mut wanted: impl FnMut(&Node<'a>) -> bool) -> Option<Node<'a>> {
        fn search<'a>(node: Node<'a>, wanted: &mut dyn FnMut(&Node<'a>) -> bool) -> Option<Node<'a>> {
            if wanted(&node) {
                return Some(node);
            }
            node.children().find_map(|child| search(child, wanted))
        }
        search(self.root(), &mut wanted)
    }

    /// The node at `path`, which is absolute, or starts with a name from `/aliases`. A component without a unit address
    /// matches the first node of that name.
    #[inline(never)]
    pub fn at(self, path: &str) -> Option<Node<'a>> {
        if !path.starts_with('/') {
            let (alias, rest) = path.split_once('/').unwrap_or((path, ""));
            let target = self.root().child("aliases")?.string(alias)?;
            return self.at(target)?.descendant(rest);
        }
        self.root().descendant(path)
    }

    /// The node with this phandle.
    #[inline(never)]
    pub fn phandle(self, phandle: u32) -> Option<Node<'a>> {
        self.find(|node| node.word("phandle").or_else(|| node.word("linux,phandle")) == Some(phandle))
    }
}

impl<'a> Node<'a> {
    fn node(&self) -> &FdtNode<'a> {
        // A chain starts with the root and only grows.
        &self.chain[self.chain.len() - 1]
    }

    /// Name with unit address; empty for the root.
    pub fn name(&self) -> &'a str {
        self.node().name()
    }

    /// Absolute path.
    #[inline(never)]
    pub fn path(&self) -> String {
        if self.chain.len() == 1 {
            return String::from("/");
        }
        self.chain[1..].iter().map(|node| format!("/{}", node.name())).collect()
    }

    /// An error at a property of this node.
    #[inline(never)]
    pub fn error(&self, property: &'static str, problem: impl Into<String>) -> BoardError {
        BoardError::new(self.path(), property, problem)
    }

    /// The node above; `None` for the root.
    #[inline(never)]
    pub fn parent(&self) -> Option<Self> {
        (self.chain.len() > 1).then(|| Self { chain: self.chain[..self.chain.len() - 1].to_vec() })
    }

    /// The nodes directly below.
    pub fn children(&self) -> impl Iterator<Item = Node<'a>> {
        self.node().children().map(|child| {
            let mut chain = self.chain.clone();
            chain.push(child);
            Node { chain }
        })
    }

    /// The first child of this name, with or without unit address.
    #[inline(never)]
    pub fn child(&self, name: &str) -> Option<Self> {
        self.children().find(|child| {
            let full = child.name();
            full == name || full.split_once('@').is_some_and(|(base, _)| base == name)
        })
    }

    fn descendant(&self, path: &str) -> Option<Self> {
        path.split('/').filter(|name| !name.is_empty()).try_fold(self.clone(), |node, name| node.child(name))
    }

    /// A property's bytes.
    #[inline(never)]
    pub fn property(&self, name: &str) -> Option<&'a [u8]> {
        self.node().property(name)?.value_as::<&'a [u8]>().ok()
    }

    /// A property's first string.
    #[inline(never)]
    pub fn string(&self, name: &str) -> Option<&'a str> {
        self.property(name)?.split(|&byte| byte == 0).next().and_then(|bytes| core::str::from_utf8(bytes).ok())
    }

    /// A property as 32-bit cells; `None` if it is missing or not whole cells.
    #[inline(never)]
    pub fn words(&self, name: &str) -> Option<Vec<u32>> {
        let (cells, []) = self.property(name)?.as_chunks::<4>() else { return None };
        Some(cells.iter().map(|cell| u32::from_be_bytes(*cell)).collect())
    }

    /// A property of one cell.
    #[inline(never)]
    pub fn word(&self, name: &str) -> Option<u32> {
        self.property(name)?.try_into().ok().map(u32::from_be_bytes)
    }

    #[inline(never)]
    fn word_or_error(&self, name: &'static str) -> Result<u32, BoardError> {
        self.word(name).ok_or_else(|| self.error(name, "is missing or not one cell"))
    }

    /// A property that is a number of one or two cells, as boot loaders write addresses into `/chosen`.
    #[inline(never)]
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.words(name)?[..] {
            [low] => Some(low.into()),
            [high, low] => Some(u64::from(high) << 32 | u64::from(low)),
            _ => None,
        }
    }

    /// The `compatible` strings, most specific first.
    pub fn compatible(&self) -> impl Iterator<Item = &'a str> {
        let bytes = self.property("compatible").unwrap_or_default();
        bytes
            .split(|&byte| byte == 0)
            .filter(|name| !name.is_empty())
            .filter_map(|name| core::str::from_utf8(name).ok())
    }

    /// Whether `name` is among the `compatible` strings.
    #[inline(never)]
    pub fn is(&self, name: &str) -> bool {
        self.compatible().any(|compatible| compatible == name)
    }

    /// Whether the device is there to be used: `status` missing or "okay".
    #[inline(never)]
    pub fn is_enabled(&self) -> bool {
        matches!(self.string("status"), None | Some("okay" | "ok"))
    }

    /// The rows of a property that consists of (address, size) pairs in the parent's cells, not translated: `reg` of
    /// memory.
    ///
    /// # Errors
    /// If the property does not consist of whole pairs.
    #[inline(never)]
    pub fn pairs(&self, name: &'static str) -> Result<Vec<(u64, u64)>, BoardError> {
        let parent = self.parent();
        let cells = |name, default| cells_of(parent.as_ref().and_then(|parent| parent.word(name)).unwrap_or(default));
        let (address, size) = (cells("#address-cells", 2), cells("#size-cells", 1));
        let words = self.words(name).ok_or_else(|| self.error(name, "is missing or not whole cells"))?;
        if address > 2 || size > 2 || address == 0 || words.len() % (address + size) != 0 {
            let problem = format!("{} cells are not pairs of {address} (address) and {size} (size) cells", words.len());
            return Err(self.error(name, problem));
        }
        let rows = words.chunks_exact(address + size);
        Ok(rows.map(|row| (join(&row[..address]), join(&row[address..]))).collect())
    }

    /// Physical address and size of the `index`th `reg` entry, through the `ranges` of all buses above.
    ///
    /// # Errors
    /// If a property on the way is missing or malformed, or does not map the address, or if that lies above 4 GiB.
    #[inline(never)]
    pub fn reg(&self, index: usize) -> Result<(HostPa, u32), BoardError> {
        let words = self.words("reg").ok_or_else(|| self.error("reg", "is missing or not whole cells"))?;
        let mut bus = self.parent().ok_or_else(|| self.error("reg", "the root has no address"))?;
        let (cells, size_cells) = (bus.address_cells(), bus.size_cells());
        let row = words
            .chunks_exact((cells + size_cells).max(1))
            .nth(index)
            .ok_or_else(|| self.error("reg", format!("has no entry {index}")))?;
        let mut address = row[..cells].to_vec();
        let size = join(&row[cells..]);
        while let Some(above) = bus.parent() {
            address = bus.translate(&address, above.address_cells())?;
            bus = above;
        }
        let address = join(&address);
        match (u32::try_from(address), u32::try_from(size)) {
            (Ok(address), Ok(size)) if size > 0 => Ok((HostPa(address), size)),
            _ => Err(self.error("reg", format!("{size:#x} bytes at {address:#x}: not a range below 4 GiB"))),
        }
    }

    fn address_cells(&self) -> usize {
        cells_of(self.word("#address-cells").unwrap_or(2))
    }

    fn size_cells(&self) -> usize {
        cells_of(self.word("#size-cells").unwrap_or(1))
    }

    /// An address on this bus as one on the bus above, which has `above` address cells.
    #[inline(never)]
    fn translate(&self, address: &[u32], above: usize) -> Result<Vec<u32>, BoardError> {
        let ranges = self
            .words("ranges")
            .ok_or_else(|| self.error("ranges", "is missing: the bus is not mapped to the one above"))?;
        if ranges.is_empty() {
            return Ok(address.to_vec());
        }
        let (here, size) = (self.address_cells(), self.size_cells());
        for row in ranges.chunks_exact((here + above + size).max(1)) {
            // With three or more cells the first are a space or chip-select code, compared as part of the number's top.
            let (start, offset_from) = (join(&row[..here]), join(address));
            let length = join(&row[here + above..]);
            if offset_from >= start && offset_from - start < length {
                let target = join(&row[here..here + above]).wrapping_add(offset_from - start);
                let mut cells: Vec<u32> = row[here..here + above].to_vec();
                if let [.., low] = cells.as_mut_slice() {
                    *low = target as u32;
                }
                if let [.., high, _] = cells.as_mut_slice() {
                    *high = (target >> 32) as u32;
                }
                return Ok(cells);
            }
        }
        Err(self.error("ranges", format!("does not map {:#x}", join(address))))
    }
}

/// A count of cells from a property. No bus or controller has more than four; a malformed count must not become a size
/// here.
fn cells_of(count: u32) -> usize {
    count.min(8) as usize
}

/// The last two of some big-endian cells as one number.
fn join(cells: &[u32]) -> u64 {
    cells.iter().fold(0, |number, &cell| number << 32 | u64::from(cell))
}
