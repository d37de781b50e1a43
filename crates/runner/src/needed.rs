//! Other programs that we need, and Debian's packages that have them.
//!
//! `./spica` in the sources installs them. An installed `spica` changes nothing on the machine: it says what is
//! missing, all at once and before anything is fetched or built.

use std::ffi::OsStr;
use std::path::Path;

use rustix::fs::{Access, access};

use crate::error::{Error, Result};

/// What the board image is built with.
pub const FOR_IMAGE: &[&str] = &["cargo", "rustc", "cc", "arm-none-eabi-ld", "arm-none-eabi-objcopy"];

/// What emulates boards.
pub const QEMU: &str = "qemu-system-arm";

/// The source of Rust's library, which the board image is built with, below the compiler's directory.
pub const LIBRARY_SOURCE: (&str, &str) = ("lib/rustlib/src/rust/library", "rust-web-src");

/// The package of a program.
#[must_use]
pub fn package(program: &str) -> Option<&'static str> {
    Some(match program {
        QEMU => "qemu-system-arm",
        "cargo" => "cargo-web",
        "rustc" => "rustc-web",
        "cc" => "gcc",
        "arm-none-eabi-as" | "arm-none-eabi-ld" | "arm-none-eabi-objcopy" => "binutils-arm-none-eabi",
        "apt-get" | "apt-cache" | "apt-config" => "apt",
        "dpkg-deb" => "dpkg",
        "mke2fs" | "e2fsck" | "resize2fs" => "e2fsprogs",
        "git" => "git",
        "xz" => "xz-utils",
        _ => return None,
    })
}

/// Whether all `programs` are here.
///
/// # Errors
/// If not: with the packages that are missing.
pub fn check(programs: &[&str]) -> Result<()> {
    check_in(programs, &std::env::var_os("PATH").unwrap_or_default())
}

fn check_in(programs: &[&str], path: &OsStr) -> Result<()> {
    let executable = |file: &Path| file.is_file() && access(file, Access::EXEC_OK).is_ok();
    let here = |program: &&str| std::env::split_paths(path).any(|dir| executable(&dir.join(program)));
    let missing: Vec<_> = programs.iter().copied().filter(|program| !here(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<_> = missing.iter().filter_map(|program| package(program)).collect();
    packages.dedup();
    let rust = if missing.iter().any(|p| ["cargo", "rustc"].contains(p)) {
        // Without the source, the next attempt would fail.
        packages.push(LIBRARY_SOURCE.1);
        "; a Rust of rustup will do, too, with its component rust-src"
    } else {
        ""
    };
    Err(Error::failed(format!(
        "missing here: {}; with Debian, `apt-get install {}` as root{rust}",
        missing.join(", "),
        packages.join(" ")
    )))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn packages_are_named_all_at_once() {
        let dir = std::env::temp_dir().join(format!("spica-needed-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        for (name, mode) in [("cargo", 0o755), ("rustc", 0o755), ("cc", 0o755), ("arm-none-eabi-ld", 0o644)] {
            std::fs::write(dir.join(name), b"").unwrap();
            std::fs::set_permissions(dir.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
        }
        assert!(check_in(&["cargo", "cc"], dir.as_os_str()).is_ok());
        let mut all = FOR_IMAGE.to_vec();
        all.push(QEMU);
        // A file that cannot be executed is no program.
        assert_eq!(
            check_in(&all, dir.as_os_str()).unwrap_err().message,
            "missing here: arm-none-eabi-ld, arm-none-eabi-objcopy, qemu-system-arm; with Debian, `apt-get install \
             binutils-arm-none-eabi qemu-system-arm` as root"
        );
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(
            check_in(&["cargo", "rustc"], dir.as_os_str()).unwrap_err().message,
            "missing here: cargo, rustc; with Debian, `apt-get install cargo-web rustc-web rust-web-src` as root; a Rust of \
             rustup will do, too, with its component rust-src"
        );
    }
}
