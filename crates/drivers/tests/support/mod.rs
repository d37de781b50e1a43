//! Device trees, made for a test.

pub mod am33xx;
pub mod controllers;
pub mod plain;

use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};

/// A property of cells.
pub fn words(name: &str, cells: &[u32]) -> DeviceTreeProperty {
    let bytes: Vec<u8> = cells.iter().flat_map(|cell| cell.to_be_bytes()).collect();
    DeviceTreeProperty::new(name, bytes).unwrap()
}

/// A property of a string, or of several with zeroes between.
pub fn text(name: &str, value: &str) -> DeviceTreeProperty {
    DeviceTreeProperty::new(name, [value.as_bytes(), b"\0"].concat()).unwrap()
}

/// A node.
pub fn node(
    name: &str,
    properties: impl IntoIterator<Item = DeviceTreeProperty>,
    children: impl IntoIterator<Item = DeviceTreeNode>,
) -> DeviceTreeNode {
    let mut builder = DeviceTreeNode::builder(name).unwrap();
    for property in properties {
        builder = builder.property(property);
    }
    for child in children {
        builder = builder.child(child);
    }
    builder.build()
}

/// A tree: the root's properties and children.
pub fn blob(
    properties: impl IntoIterator<Item = DeviceTreeProperty>,
    children: impl IntoIterator<Item = DeviceTreeNode>,
) -> Vec<u8> {
    let mut tree = DeviceTree::new();
    for property in properties {
        tree.root.add_property(property);
    }
    for child in children {
        tree.root.add_child(child);
    }
    tree.to_dtb()
}
