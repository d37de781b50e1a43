//! The spica command on the development machine.
fn main() {}
