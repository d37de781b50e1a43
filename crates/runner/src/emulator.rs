//! A QEMU whose plugins read registers, where the model of time or the checker needs them.
//!
//! Plugins read registers since QEMU 9. Where the machine's own QEMU is older, as Debian 12's, the backports of the
//! distribution have a newer one. Its packages are fetched and unpacked, and nothing is installed: it runs beside the
//! machine's own, which goes on to make all other figures. `build/qemu/` holds what comes of it:
//!
//! ```text
//! packages.toml   the packages with versions and checksums: the stamp; nothing is fetched while it is there
//! tree/           the packages, unpacked with dpkg-deb: no maintainer script runs
//! apt/            apt's private state
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::apt::{self, Apt};
use crate::error::{Context, Error, Result};
use crate::guest::Package;
use crate::needed::QEMU;
use crate::process;
use crate::progress::Step;
use crate::project::{Project, create_dir, read_text, remove_dir, write};

/// The first version of QEMU that will do: its plugin interface is what the plugin is made for.
const FIRST: u32 = 10;

/// The packages that it is in.
const PACKAGES: [&str; 3] = ["qemu-system-arm", "qemu-system-common", "qemu-system-data"];

/// A QEMU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Emulator {
    /// The program.
    pub program: PathBuf,
    /// The directory that it is unpacked in; nothing for the machine's own.
    pub tree: Option<PathBuf>,
    /// Its version, as it states it.
    pub version: String,
}

/// `packages.toml`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Fetched {
    package: Vec<Package>,
}

/// The first number of a version.
fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

/// The version that a QEMU states.
///
/// # Errors
/// If it cannot be started.
pub fn version(program: &Path) -> Result<String> {
    let text = process::output(Command::new(program).arg("--version"), "cannot ask for QEMU's version")?;
    Ok(text.lines().next().unwrap_or_default().replace("QEMU emulator version ", ""))
}

/// Gives a QEMU that will do: the machine's own, or one that was fetched, now or before.
///
/// # Errors
/// If none can be had.
pub fn prepare(project: &Project) -> Result<Emulator> {
    let own = PathBuf::from(QEMU);
    if let Ok(version) = version(&own)
        && major(&version).is_some_and(|major| major >= FIRST)
    {
        return Ok(Emulator { program: own, tree: None, version });
    }
    let dir = project.build("qemu");
    create_dir(&dir)?;
    // Another run may be at the same.
    let path = dir.join("lock");
    let lock = fs::File::create(&path).context(|| format!("cannot write {}", path.display()))?;
    lock.lock().context(|| format!("cannot lock {}", path.display()))?;
    let (tree, stamp) = (dir.join("tree"), dir.join("packages.toml"));
    let here = fs::read_to_string(&stamp).is_ok_and(|text| toml::from_str::<Fetched>(&text).is_ok());
    if !here {
        fetch(&dir, &tree, &stamp).map_err(|error| Error {
            message: format!(
                "no QEMU {FIRST} can be had, whose plugins read registers: {}; it is in the backports of this Debian, \
                 which the archives in /etc/apt must offer, or may be installed as {QEMU}",
                error.message
            ),
            ..error
        })?;
    }
    let program = tree.join("usr/bin").join(QEMU);
    let version = version(&program).map_err(|error| Error {
        message: format!(
            "{}, which was fetched, does not run: {}; libraries that it needs come with Debian's package {QEMU}",
            program.display(),
            error.message
        ),
        ..error
    })?;
    if major(&version).is_none_or(|major| major < FIRST) {
        return Err(Error::failed(format!(
            "the backports of this Debian have QEMU {version}; QEMU {FIRST} is needed, whose plugins read registers"
        )));
    }
    Ok(Emulator { program, tree: Some(tree), version })
}

/// Fetches the packages and unpacks them.
fn fetch(dir: &Path, tree: &Path, stamp: &Path) -> Result<()> {
    let mut command = Command::new("dpkg");
    let architecture = process::output(command.arg("--print-architecture"), "cannot ask dpkg for the architecture")?;
    let apt = Apt::update_backports(&dir.join("apt"), architecture.trim())?;
    let mut package = Vec::new();
    for name in PACKAGES {
        let fields = apt.show(name)?;
        let field = |key: &str| {
            let value = fields.get(key).map(str::to_string);
            value.ok_or_else(|| Error::failed(format!("Debian's package lists have no {key} of {name}")))
        };
        package.push(Package { name: name.to_string(), version: field("Version")?, sha256: field("SHA256")? });
    }
    let files = apt.download(&PACKAGES, &dir.join("download"))?;
    let _step = Step::begin("unpacking QEMU");
    remove_dir(tree)?;
    create_dir(tree)?;
    for file in &files {
        apt::unpack(file, tree)?;
    }
    remove_dir(&dir.join("download"))?;
    let text = toml::to_string(&Fetched { package }).expect("a list of packages is TOML");
    write(stamp, text.as_bytes())
}

impl Emulator {
    /// The command that starts it.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if let Some(tree) = &self.tree {
            command.arg("-L").arg(tree.join("usr/share/qemu"));
            // Else it would look at the modules of the machine's own.
            command.env("QEMU_MODULE_DIR", tree.join("usr/lib/qemu-none"));
        }
        command
    }

    /// The versions and checksums of its packages, as they are pinned; nothing for the machine's own.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn packages(&self) -> Result<Vec<Package>> {
        let Some(tree) = &self.tree else { return Ok(Vec::new()) };
        let stamp = tree.with_file_name("packages.toml");
        let fetched = toml::from_str::<Fetched>(&read_text(&stamp)?);
        Ok(fetched.map_err(|e| Error::failed(format!("{}: {e}", stamp.display())))?.package)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(major("10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)"), Some(10));
        assert_eq!(major("7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)"), Some(7));
        assert_eq!(major("unknown"), None);
    }

    #[test]
    fn one_that_is_unpacked_keeps_to_its_own_files() {
        let tree = PathBuf::from("/x/qemu/tree");
        let emulator =
            Emulator { program: tree.join("usr/bin/qemu-system-arm"), tree: Some(tree), version: "10.0.2".into() };
        let command = emulator.command();
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["-L", "/x/qemu/tree/usr/share/qemu"]);
        assert!(command.get_envs().any(|(name, _)| name == "QEMU_MODULE_DIR"));
    }
}
