//! The hypervisor's pure modules, compiled for the development machine so that they can be tested there.
//!
//! The board image itself has no test harness. What it holds that is pure (the arithmetic of memory ranges, pages that are
//! lent, the command line, when a translation takes over) is included here from its own files. Run from the top of the
//! repository, where the image's cargo configuration does not apply:
//!
//! ```text
//! cargo test --manifest-path crates/hypervisor/host-tests/Cargo.toml
//! ```

extern crate alloc;

/// As the board image has it, on the console.
#[macro_export]
macro_rules! println {
    ($($argument:tt)*) => { ::std::println!($($argument)*) };
}

/// Memory.
#[path = "../../src/memory"]
pub mod memory {
    pub mod lent;
    pub mod spans;
}

/// Virtual machines.
#[path = "../../src/vm"]
pub mod vm {
    pub mod code_map;
    pub mod later;
    pub mod volatile;
}

#[path = "../../src/cmdline.rs"]
pub mod cmdline;

#[path = "../../src/log.rs"]
pub mod log;
