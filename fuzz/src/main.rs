//! The program that libFuzzer is linked into: throws its inputs at the target that SPICA_FUZZ_TARGET names.
//!
//! `spica prove --part fuzz-NAME` builds and starts it. The targets are in `crates/prove/src/fuzz`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spica_prove::fuzz;
use std::sync::LazyLock;

static TARGET: LazyLock<String> = LazyLock::new(|| std::env::var("SPICA_FUZZ_TARGET").unwrap_or_default());

fuzz_target!(|data: &[u8]| fuzz::run(&TARGET, data));
