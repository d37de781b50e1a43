//! What the image's code is for: notes for `spica profile` and `spica bench --events`, in the section `.spica.parts`,
//! which is not loaded.
//!
//! Profiles count instructions by their addresses. Which part of a report an address belongs to is said here, beside
//! the code: assembly has a note at each handler (`parts.s`), a module one beside its `mod` ([`part!`]), and the
//! packages in the image are below. So who adds a handler or moves a module changes no list elsewhere; code that no
//! note is about makes a profile fail, and a test of the image (`tests/e2e/image.rs`).
//!
//! A note is the address that it is about, 0 for none, and a text that ends with a zero. `crates/profile/src/image.rs`
//! reads them:
//!
//! | text | meaning |
//! |---|---|
//! | `part\|PART\|ROW` | assembly from here on counts as this row of that part (`Section` in `crates/profile`) |
//! | `handler\|PART\|ROW` | the same, and it is entered here |
//! | `module\|PATH\|PART\|ROW` | so do the functions of that module, or package; without a row, under the path of their file |
//! | `rust\|REASON`, `traps\|REASON` | here Rust is entered, for this; or for a trap of translated code |
//! | `guest` | here the guest is entered |
//! | `count\|EVENT` | the instruction here is executed once for each such event (`place_of` in `crates/bench/src/events.rs`) |

/// Says what a module, or a function, is for that is declared beside this: `part!(arch: other)`, or with the name of a
/// row.
macro_rules! part {
    ($module:ident: $part:ident) => {
        $crate::parts::part!($module: $part, "");
    };
    ($module:ident: $part:ident, $row:literal) => {
        $crate::parts::note!(concat!(module_path!(), "::", stringify!($module)), $part, $row);
    };
}

/// A note on the functions of a module or package.
macro_rules! note {
    ($path:expr, $part:ident, $row:literal) => {
        core::arch::global_asm!(
            ".pushsection .spica.parts, \"\", %progbits",
            ".4byte 0",
            concat!(".asciz \"module|", $path, "|", stringify!($part), "|", $row, "\""),
            ".popsection",
        );
    };
}

/// Has calls of a function counted, which is never inlined: `count!(deliver, "trap.guest-abort")`.
macro_rules! count {
    ($function:path, $event:literal) => {
        core::arch::global_asm!(
            ".pushsection .spica.parts, \"\", %progbits",
            ".4byte {function}",
            concat!(".asciz \"count|", $event, "\""),
            ".popsection",
            function = sym $function,
        );
    };
}

pub(crate) use {count, note, part};

/// The packages in the image, but for this one.
macro_rules! packages {
    ($($name:literal: $part:ident, $row:literal;)*) => { $(note!($name, $part, $row);)* };
}

packages! {
    "spica_dbt": translator, "";
    "spica_mmu": mmu, "";
    "spica_vcpu": slow, "spica_vcpu: the interpreter";
    "spica_isa": slow, "spica_isa: the decoder";
    "spica_devices": devices, "spica_devices";
    "spica_machine": devices, "spica_machine";
    "spica_virtio": devices, "spica_virtio";
    "spica_virtio_driver": devices, "spica_virtio_driver";
    "spica_console": devices, "spica_console";
    "spica_sched": scheduler, "spica_sched";
    "spica_trace_ring": other, "the timeline";
    "spica_drivers": devices, "";
    "spica_fdt": other, "start: bundle, device tree, boot";
    "spica_ram": other, "spica_ram";
    "spica_options": other, "start: bundle, device tree, boot";
    "log": other, "start: bundle, device tree, boot";
    "spica_addr": other, "spica_addr";
    "compiler_builtins": other, "copies and arithmetic of the compiler's";
    "talc": other, "the heap";
    "__rustc": other, "the heap";
    "spica_heap_check": other, "checks of a heap";
    "spica_sharing": other, "who uses which lines";
    "spica_snapshot": other, "snapshots";
    "lz4_flex": other, "snapshots";
    "postcard": other, "snapshots";
    "serde_core": other, "snapshots";
    "xxhash_rust": other, "snapshots";
    "alloc": other, "Rust's library";
    "core": other, "Rust's library";
    "spica_bundle": other, "start: bundle, device tree, boot";
    "spica_switches": other, "start: bundle, device tree, boot";
    "dtoolkit": other, "start: bundle, device tree, boot";
    "hashbrown": other, "start: bundle, device tree, boot";
    "indexmap": other, "start: bundle, device tree, boot";
    "serde_spanned": other, "start: bundle, device tree, boot";
    "sha2": other, "start: bundle, device tree, boot";
    "toml": other, "start: bundle, device tree, boot";
    "toml_datetime": other, "start: bundle, device tree, boot";
    "toml_parser": other, "start: bundle, device tree, boot";
    "twox_hash": other, "start: bundle, device tree, boot";
    "winnow": other, "start: bundle, device tree, boot";
    "zerocopy": other, "start: bundle, device tree, boot";
}
