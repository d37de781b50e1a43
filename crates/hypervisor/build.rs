//! Hands the linker script to the linker and rebuilds when it or an assembly file changes.

fn main() {
    let directory = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    println!("cargo::rustc-link-arg-bins=-T{directory}/link.ld");
    println!("cargo::rustc-link-arg-bins=--no-warn-rwx-segments");
    println!("cargo::rerun-if-changed=link.ld");
}
