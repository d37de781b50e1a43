//! The hypervisor's pure modules, compiled for the development machine so that they can be tested there.
//!
//! The board image itself has no test harness. What it holds that is pure (the device-tree reader, the arithmetic of memory ranges, pages that are lent,
//! the 64-bit clock, the command line, the guests' turns, slices and consoles, when a translation takes over, the monitor's lines) is included here from its own files. Run from the top of the repository, where the image's
//! cargo configuration does not apply:
//!
//! ```text
//! cargo test --manifest-path crates/hypervisor/host-tests/Cargo.toml
//! ```

extern crate alloc;

/// The board's description.
#[path = "../../src/board"]
pub mod board {
    pub mod error;
    pub mod info;
    pub mod tree;
    pub mod wrap;
}

/// Guests among each other.
#[path = "../../src/guests"]
pub mod guests {
    pub mod command;
    pub mod consoles;
    pub mod fair;
    pub mod latency;
    pub mod plain;
    pub mod slice;
}

/// Ranges of memory.
#[path = "../../src/memory"]
pub mod memory {
    pub mod lent;
    pub mod spans;
}

/// Virtual machines.
#[path = "../../src/vm"]
pub mod vm {
    pub mod later;
}

#[path = "../../src/cmdline.rs"]
pub mod cmdline;

#[path = "../../src/log.rs"]
pub mod log;
