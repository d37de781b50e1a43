//! How the programs are linked: at the address that Linux programs like, and without what only a debugger reads.

fn main() {
    for argument in ["-Ttext-segment=0x10000", "-zmax-page-size=4096", "--strip-all"] {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
