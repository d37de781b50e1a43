//! A whole Debian on a disk: systemd, ssh and some tools, made from Debian's packages.
//!
//! Packages bring scripts that must run for the system to be one, and they are programs for ARM. So the system installs
//! itself, once, on QEMU's `virt` board without Spica: its own dpkg runs there, as root, and this machine neither
//! executes foreign code nor needs root's rights. What happens there is in `guests/system/install`; the module
//! `install` starts it.
//!
//! `guests/system/system.toml` says what is in the system; `build/guests/system/`, or `build/guests/system-small/`,
//! holds what comes of it:
//!
//! ```text
//! packages/          the packages, as fetched
//! packages.stamp     what they were fetched for
//! essential          the names of those that Debian cannot be without
//! initrd.cpio.gz     finds the disk and hands over to it, see guests/system/init
//! disk.img           the disk: one ext4 file system
//! disk.stamp         what both were made from
//! install.log        the console of the installation
//! ```

mod install;
mod plain;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use spica_bundle as bundle;

use crate::apt::Apt;
use crate::error::{Context, Error, Result};
use crate::guest::Guest;
use crate::initramfs;
use crate::modules;
use crate::process;
use crate::progress::Step;
use crate::project::{Project, fingerprint, read, read_text, remove_dir, write};

/// Changes whenever the same inputs give another system.
const FORMAT: &str = "2";

/// `system.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recipe {
    base: Vec<String>,
    packages: Vec<String>,
    more: Vec<String>,
    boot_modules: Vec<String>,
    modules: Vec<String>,
    free: u64,
    append: String,
}

/// A system that is ready to be booted, with the kernel of [`Guest`].
#[derive(Clone, Debug)]
pub struct System {
    /// The initial RAM disk that boots from the disk.
    pub initrd: PathBuf,
    /// The disk.
    pub disk: PathBuf,
    /// What the kernel's command line begins with.
    pub append: String,
}

/// Systems that are ready.
pub type Systems = BTreeMap<bundle::System, System>;

/// Makes a system ready: fetches what is missing, or with `update` everything anew, and installs it.
///
/// # Errors
/// If a package cannot be had, or if the installation fails.
pub fn prepare(project: &Project, guest: &Guest, which: bundle::System, update: bool) -> Result<System> {
    let sources = project.source("guests/system");
    let recipe_file = sources.join("system.toml");
    let mut recipe: Recipe = toml::from_str(&read_text(&recipe_file)?)
        .map_err(|e| Error::failed(format!("{}: {e}", recipe_file.display())))?;
    let dir = match which {
        bundle::System::Debian => {
            recipe.packages.append(&mut recipe.more);
            project.build("guests/system")
        }
        bundle::System::DebianSmall => project.build("guests/system-small"),
    };
    fetch(project, guest, &recipe, update, &dir)?;

    let system =
        System { initrd: dir.join("initrd.cpio.gz"), disk: dir.join("disk.img"), append: recipe.append.clone() };
    let inputs = inputs(guest, &sources, &dir)?;
    let stamp = dir.join("disk.stamp");
    let made = fs::read_to_string(&stamp).is_ok_and(|s| s == inputs);
    if made && system.disk.is_file() && system.initrd.is_file() {
        return Ok(system);
    }
    let _ = fs::remove_file(&stamp);
    let modules_dir = guest.tree.join("lib/modules").join(&guest.version);
    let modules = modules::collect(&modules_dir, &recipe.boot_modules)?;
    let (busybox, init) = (read(&guest.tree.join("bin/busybox"))?, read(&sources.join("init"))?);
    write(&system.initrd, &initramfs::make(&busybox, &guest.version, &modules, &init, b"")?)?;

    let _step = Step::begin("installing a whole Debian on an emulated board (once)");
    let seed = dir.join("seed");
    remove_dir(&seed)?;
    let mut command = Command::new("cp");
    process::output(command.arg("-R").arg(&sources).arg(&seed), "cannot copy what is to be installed")?;
    let essential = read_text(&dir.join("essential"))?;
    let essential: Vec<_> = essential.lines().map(str::to_string).collect();
    plain::packages(&dir.join("packages"), &seed.join("packages"), &essential, &seed.join("essential"))?;
    let names: Vec<_> = recipe.boot_modules.iter().chain(&recipe.modules).cloned().collect();
    let seeded = seed.join("modules").join(&guest.version);
    for module in modules::collect(&modules_dir, &names)? {
        write(&seeded.join(&module.path), &module.data)?;
    }
    // What `depmod` asks for beside the modules.
    for file in ["modules.order", "modules.builtin", "modules.builtin.modinfo"] {
        write(&seeded.join(file), &read(&modules_dir.join(file))?)?;
    }
    install::install(&dir, &seed, &guest.kernel, &system, recipe.free)?;
    remove_dir(&seed)?;
    write(&stamp, inputs.as_bytes())?;
    Ok(system)
}

/// Fetches the packages, unless they are there.
fn fetch(project: &Project, guest: &Guest, recipe: &Recipe, update: bool, dir: &Path) -> Result<()> {
    let wanted = fingerprint(&[recipe.base.join(" ").as_bytes(), recipe.packages.join(" ").as_bytes()]);
    let stamp = dir.join("packages.stamp");
    if !update && fs::read_to_string(&stamp).is_ok_and(|s| s.starts_with(&wanted)) {
        return Ok(());
    }
    let apt = Apt::update(&project.build("apt"), &guest.architecture)?;
    let mut names: Vec<_> = recipe.base.iter().map(String::as_str).collect();
    let essential = apt.resolve(&names)?;
    names.extend(recipe.packages.iter().map(String::as_str));
    let all = apt.resolve(&names)?;
    let _ = fs::remove_file(&stamp);
    let files = apt.download(&all.iter().map(String::as_str).collect::<Vec<_>>(), &dir.join("packages"))?;
    write(&dir.join("essential"), (essential.join("\n") + "\n").as_bytes())?;
    // The names have the versions.
    let mut text = wanted + "\n";
    for file in files {
        text += &format!("{}\n", file.file_name().unwrap_or_default().to_string_lossy());
    }
    write(&stamp, text.as_bytes())
}

/// A fingerprint of all that the system is made from.
fn inputs(guest: &Guest, sources: &Path, dir: &Path) -> Result<String> {
    let mut parts = vec![FORMAT.into(), initramfs::FORMAT.into(), read(&dir.join("packages.stamp"))?];
    parts.extend(guest.packages.iter().map(|p| p.sha256.clone().into_bytes()));
    let mut directories = vec![sources.to_path_buf()];
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory).context(|| format!("cannot list {}", directory.display()))?;
        let mut paths: Vec<_> = entries.flatten().map(|e| e.path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                directories.push(path);
            } else {
                parts.push(path.strip_prefix(sources).unwrap_or(&path).to_string_lossy().into_owned().into_bytes());
                parts.push(read(&path)?);
            }
        }
    }
    Ok(fingerprint(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>()))
}
