//! Where the instructions of a virtualised workload go.
//!
//! QEMU counts every instruction that is executed, by its address ([`area`]; the plugin is `bench/counter`). This crate
//! says what such an address stands for, and adds up:
//!
//! | executed at | counts as | told by |
//! |---|---|---|
//! | an address below Spica's and the guest kernel's | user code of the guest, which runs as it is | the address |
//! | the code cache | the guest's own instruction, or overhead of a translation rule | [`code`]: the shape of the code |
//! | the return mirror | overhead of returns and indirect branches | the address |
//! | Spica's image | a fast trap, a slow trap, the translator, the MMU … | [`image`]: the symbol there |
//!
//! [`profile`] is what comes of it, [`cycles`] what that costs by the model of a core, [`text`] how it is written.
//! Nothing here runs a board: see `crates/runner/src/profile.rs`.

pub mod area;
pub mod code;
pub mod cycles;
pub mod executed;
pub mod image;
pub mod profile;
pub mod slow;
pub mod text;
