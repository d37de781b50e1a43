//! The hypervisor's pure modules, compiled for the development machine so that they can be tested there.
//!
//! The board image itself has no test harness. What it holds that is pure (the device-tree reader, the arithmetic of memory ranges,
//! pages that are lent, the 64-bit clock, the command line, when a translation takes over) is included here from its own files. So are the drivers of the host's devices, on a [`bus`] with models
//! of devices. Run from the top of the repository, where the image's cargo configuration does not apply:
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

pub mod am33xx;
pub mod arch;
pub mod bus;
pub mod uarts;

#[path = "../../src/board/mod.rs"]
pub mod board;

/// Memory, and what stands for it here.
#[path = "../../src/memory"]
pub mod memory {
    pub use crate::bus::device;
    #[path = "../../host-tests/src/pool.rs"]
    pub mod pool;
}
