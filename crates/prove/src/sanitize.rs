//! The tests of the pure crates once more, with the address sanitizer, and with the compiler's checks of undefined
//! behaviour.
//!
//! The sanitizer's run-time library is that of gcc, which every machine has that builds Spica; Debian's Rust brings
//! none. The two agree on how they work together (version 8 of the interface). It has to come before the C library,
//! hence the preload. What stands in for Miri, which Debian does not have: checks that rustc puts into the code of a
//! debug build (null and misaligned pointers, invalid values of enumerations), the preconditions of the standard
//! library's unsafe functions, and arithmetic that overflows.

use crate::part::{Failure, Part};
use crate::work::Work;
use spica_runner::process::{output, tail};
use spica_runner::project::Project;
use std::process::{Command, Stdio};

const TRIPLE: &str = "x86_64-unknown-linux-gnu";
const FLAGS: &str = "-Zsanitizer=address -Zexternal-clangrt -Clink-arg=-lasan -Zextra-const-ub-checks \
    -Cdebug-assertions -Coverflow-checks";
/// The crates without an operating system, and of the others those with code of their own to say `unsafe` in.
const PACKAGES: [&str; 10] = [
    "spica-addr",
    "spica-isa",
    "spica-mmu",
    "spica-vcpu",
    "spica-devices",
    "spica-machine",
    "spica-bundle",
    "spica-virtio",
    "spica-virtio-driver",
    "spica-dbt",
];

/// The sanitizers.
pub struct Sanitize;

impl Sanitize {
    /// Runs the tests of one package, or of all; gives how many passed.
    fn test(package: &str) -> Result<u64, Failure> {
        let trouble = |e: spica_runner::error::Error| Failure::trouble(e.to_string());
        let project = Project::find(None).map_err(trouble)?;
        let mut compiler = Command::new("cc");
        let library =
            output(compiler.arg("-print-file-name=libasan.so"), "cannot find gcc's libasan").map_err(trouble)?;
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--locked", "--lib", "--tests", "--target", TRIPLE, "--package", package, "--target-dir"]);
        cargo.arg(project.build("prove/sanitize")).current_dir(project.root());
        cargo.env("RUSTFLAGS", FLAGS).env("RUSTC_BOOTSTRAP", "1").stdin(Stdio::null());
        // Some pages of virtual CPUs are kept for ever.
        cargo.env("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=1");
        cargo.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", format!("env LD_PRELOAD={}", library.trim()));
        let result = cargo.output().map_err(|e| Failure::trouble(format!("cannot start cargo: {e}")))?;
        let said = format!("{}{}", String::from_utf8_lossy(&result.stdout), String::from_utf8_lossy(&result.stderr));
        if !result.status.success() {
            return Err(Failure::of(package, tail(&said, 40)));
        }
        let passed = said
            .lines()
            .filter_map(|line| line.strip_prefix("test result: ok. ")?.split(' ').next()?.parse::<u64>().ok());
        Ok(passed.sum())
    }
}

impl Part for Sanitize {
    fn name(&self) -> &str {
        "sanitize"
    }

    fn about(&self) -> &str {
        "the tests of the pure crates, with the address sanitizer and the compiler's checks of undefined behaviour"
    }

    fn run(&self, work: &Work) -> Result<(), Failure> {
        for package in PACKAGES {
            if work.is_over() {
                work.note(&format!("{package}: not in this time"), 1);
                continue;
            }
            work.say(package);
            let passed = Sanitize::test(package)?;
            work.note(&format!("{package}: tests"), passed);
            work.count(passed);
        }
        Ok(())
    }

    fn repeat(&self, case: &str, _work: &Work) -> Result<(), Failure> {
        Sanitize::test(case).map(drop)
    }
}
