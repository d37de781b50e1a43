//! The guest made of Debian's packages: fetched once, unpacked, and its initial RAM disk made.
//!
//! `guests/debian/guest.toml` says which packages; `build/guests/debian/` holds what comes of them:
//!
//! ```text
//! packages.toml      the packages with versions and checksums: the stamp; nothing is fetched while it fits guest.toml
//! tree/              the packages, unpacked with dpkg-deb: nothing is installed, no maintainer script runs
//! initrd.cpio.gz     the initial RAM disk, made from tree/ and guests/debian/
//! initrd.stamp       what it was made from
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::apt::{self, Apt};
use crate::error::{Context, Error, Result};
use crate::initramfs;
use crate::modules;
use crate::progress::Step;
use crate::project::{Project, fingerprint, read, read_text, remove_dir, write};

/// `guest.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recipe {
    architecture: String,
    kernel: String,
    userland: String,
    append: String,
    memory: String,
    modules: Vec<String>,
}

/// `packages.toml`.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Fetched {
    /// The names in the recipe that these packages came from.
    requested: Vec<String>,
    package: Vec<Package>,
}

/// One package as it was fetched.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its file's SHA-256, as Debian's signed lists have it.
    pub sha256: String,
}

/// A guest that is ready to be started.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The kernel, byte for byte as in its package.
    pub kernel: PathBuf,
    /// The initial RAM disk.
    pub initrd: PathBuf,
    /// The command line on the guest machine.
    pub append: String,
    /// The memory on the guest machine, as the manifest writes it.
    pub memory: String,
    /// The device trees of the kernel's package, for native boots.
    pub device_trees: PathBuf,
    /// The packages that it is made of.
    pub packages: Vec<Package>,
    /// The packages, unpacked.
    pub tree: PathBuf,
    /// The kernel's version, as its modules' directory has it.
    pub version: String,
    /// Debian's name of the packages' architecture.
    pub architecture: String,
}

/// Makes the guest ready: fetches what is missing, or with `update` everything anew.
///
/// # Errors
/// If a package cannot be had or does not contain what it should.
pub fn prepare(project: &Project, update: bool) -> Result<Guest> {
    let recipe_file = project.source("guests/debian/guest.toml");
    let recipe_text = read_text(&recipe_file)?;
    let recipe: Recipe =
        toml::from_str(&recipe_text).map_err(|e| Error::failed(format!("{}: {e}", recipe_file.display())))?;

    let dir = project.build("guests/debian");
    let requested = vec![recipe.kernel.clone(), recipe.userland.clone(), recipe.architecture.clone()];
    let stamp = dir.join("packages.toml");
    let known = fs::read_to_string(&stamp).ok().and_then(|t| toml::from_str::<Fetched>(&t).ok());
    let fetched = match known {
        Some(fetched) if !update && fetched.requested == requested => fetched,
        _ => fetch(project, &recipe, requested, &dir)?,
    };

    let root = dir.join("tree");
    let version = kernel_version(&root)?;
    let initrd = dir.join("initrd.cpio.gz");
    let init = read(&project.source("guests/debian/init"))?;
    let profile = read(&project.source("guests/debian/profile"))?;
    let stamp_text = read(&stamp)?;
    let inputs = [recipe_text.as_bytes(), &stamp_text, &init, &profile, initramfs::FORMAT.as_bytes()];
    let inputs = fingerprint(&inputs);
    let initrd_stamp = dir.join("initrd.stamp");
    if fs::read_to_string(&initrd_stamp).is_ok_and(|s| s == inputs) && initrd.is_file() {
        // Nothing to do.
    } else {
        let _step = Step::begin("making the guest's initial RAM disk");
        let busybox = read(&root.join("bin/busybox"))?;
        let modules = modules::collect(&root.join("lib/modules").join(&version), &recipe.modules)?;
        write(&initrd, &initramfs::make(&busybox, &version, &modules, &init, &profile)?)?;
        write(&initrd_stamp, inputs.as_bytes())?;
    }
    Ok(Guest {
        kernel: root.join(format!("boot/vmlinuz-{version}")),
        initrd,
        append: recipe.append,
        memory: recipe.memory,
        device_trees: root.join(format!("usr/lib/linux-image-{version}")),
        packages: fetched.package,
        tree: root,
        version,
        architecture: recipe.architecture,
    })
}

/// Fetches and unpacks the packages of a recipe.
fn fetch(project: &Project, recipe: &Recipe, requested: Vec<String>, dir: &Path) -> Result<Fetched> {
    let apt = Apt::update(&project.build("apt"), &recipe.architecture)?;
    let meta = apt.show(&recipe.kernel)?;
    let kernel = meta.dependency("linux-image-").ok_or_else(|| {
        Error::failed(format!("{} does not depend on the package of a kernel; expected a meta package", recipe.kernel))
    })?;

    let names = [kernel, recipe.userland.as_str()];
    let mut package = Vec::new();
    for name in names {
        let fields = apt.show(name)?;
        let field = |key: &str| {
            let value = fields.get(key).map(str::to_string);
            value.ok_or_else(|| Error::failed(format!("Debian's package lists have no {key} of {name}")))
        };
        package.push(Package { name: name.to_string(), version: field("Version")?, sha256: field("SHA256")? });
    }
    let files = apt.download(&names, &dir.join("download"))?;

    let _step = Step::begin("unpacking the guest's packages");
    // The stamp goes first and comes last: whatever happens between, the next run begins anew.
    let stamp = dir.join("packages.toml");
    let _ = fs::remove_file(&stamp);
    let (root, new) = (dir.join("tree"), dir.join("tree.new"));
    remove_dir(&new)?;
    remove_dir(&root)?;
    for file in &files {
        apt::unpack(file, &new)?;
    }
    fs::rename(&new, &root).context(|| format!("cannot rename {}", new.display()))?;
    remove_dir(&dir.join("download"))?;
    let fetched = Fetched { requested, package };
    let text = toml::to_string(&fetched).expect("a list of packages is TOML");
    write(&stamp, text.as_bytes())?;
    Ok(fetched)
}

/// The version of the kernel in an unpacked package: there is one.
fn kernel_version(root: &Path) -> Result<String> {
    let boot = root.join("boot");
    let entries = fs::read_dir(&boot).context(|| format!("cannot list {}", boot.display()))?;
    let names = entries.flatten().filter_map(|e| e.file_name().into_string().ok());
    let mut versions: Vec<_> = names.filter_map(|n| n.strip_prefix("vmlinuz-").map(str::to_string)).collect();
    match (versions.pop(), versions.is_empty()) {
        (Some(version), true) => Ok(version),
        (None, _) => Err(Error::failed(format!("the kernel's package has no vmlinuz in {}", boot.display()))),
        _ => Err(Error::failed(format!(
            "more than one kernel in {}; `spica fetch --update` begins anew",
            boot.display()
        ))),
    }
}
