//! Hands the linker script to the linker.

fn main() {
    let directory = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    println!("cargo::rustc-link-arg-bins=-T{directory}/link.ld");
    println!("cargo::rustc-link-arg-bins=-zmax-page-size=4096");
    println!("cargo::rerun-if-changed=link.ld");
}
