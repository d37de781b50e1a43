//! The translator: guest code runs untranslated and translated, in step, and whatever the guest can see is the same
//! between any two of its instructions, and at every fault.
//!
//! Here is the hypervisor's part, in small: guest memory with pages that fault, code memory that must be published
//! before it can be fetched, and the handling of the traps that translated code makes, as `vm/trap/` of the hypervisor
//! does it.
//!
//! [`Lockstep`] runs the same guest on the [model] twice: untranslated at its own addresses, and
//! translated in the code cache. At every boundary between two guest instructions, and at every fault, all that the
//! guest could see must be the same.
#![allow(missing_docs, reason = "read by whoever reads the harness, and by nobody else")]

mod case;
mod code;
mod coverage;
mod env;
mod forms;
pub mod generate;
mod generate_t32;
pub(crate) mod instruction;
mod lockstep;
mod memory;
pub mod model;
mod parts;
mod view;

pub use lockstep::{Disturb, End, Lockstep};
pub use memory::Memory;
pub use parts::{Kind, Points, Random};
use spica_dbt::Capacity;
use spica_dbt::layout::{Layout, PAGE, Window as Mirrored};

/// Where the guest's code is: three pages.
pub const CODE: u32 = 0x8000_0000;
pub const CODE_PAGES: u32 = 3;
/// Where its data is: four pages.
pub const DATA: u32 = 0x9000_0000;
pub const DATA_PAGES: u32 = 4;
/// Guest PA = VA - this, so that a mix-up of the two does not go unseen.
const VA_TO_PA: u32 = 0x4000_0000;
/// The code cache, where no guest pointer is likely to point by accident.
pub const LAYOUT: Layout = Layout { base: 0xf1c3_0000, pages: 16, mirror: Some(NEAR) };
/// The return mirror of all of the guest's code that is mapped global: within the reach of a branch, and not.
const NEAR: Mirrored =
    Mirrored { start: CODE + PAGE, size: 0x10_0000, distance: 0x7200_0000, t32: false, guarded: false };
const FAR: Mirrored = Mirrored { distance: 0x2500_0000, ..NEAR };
/// The same of its T32 code.
const T32_NEAR: Mirrored = Mirrored { distance: 0xf200_0000, t32: true, ..NEAR };
const T32_FAR: Mirrored = Mirrored { distance: 0xa500_0000, ..T32_NEAR };
const PAGES: usize = (CODE_PAGES + DATA_PAGES) as usize;
const CAPACITY: Capacity = Capacity { blocks: 1000, exits: 4000, mirror_pages: 2 };

/// What the guest's CTR says.
pub const CTR: u32 = 0x8444_c004;
/// Its FPSID, MVFR1 and MVFR0: those of a Cortex-A15, as is its CTR, since QEMU's is what the model is compared with.
pub const VFP_IDS: [u32; 3] = [0x4104_30f0, 0x1111_1111, 0x1011_0222];

/// The return mirror of a case: of T32 code, near or far, and with all of the code in a guarded window, or not.
pub fn mirrored(t32: bool, far: bool, guarded: bool) -> Mirrored {
    let mirror = match (far, t32) {
        (false, false) => NEAR,
        (true, false) => FAR,
        (false, true) => T32_NEAR,
        (true, true) => T32_FAR,
    };
    if guarded { Mirrored { start: CODE, guarded, ..mirror } } else { mirror }
}
