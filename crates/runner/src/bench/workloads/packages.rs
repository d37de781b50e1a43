//! The packages of the workloads: fetched once, with the libraries that they need, and unpacked into one tree.
//!
//! `build/bench/linux/` holds what comes of it:
//!
//! ```text
//! packages.toml   what was asked for, and the packages with versions and checksums: the stamp
//! tree/           the packages, unpacked with dpkg-deb one over the other: no maintainer script runs
//! apt/            apt's private state: the guest's own has the component `main` only, this one `non-free`, too
//! ```
//!
//! A package that no list has is left out, and asked for again the next time.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::apt::{self, ARMHF, Apt};
use crate::error::{Context, Error, Result};
use crate::guest::Package;
use crate::progress::Step;
use crate::project::{Project, create_dir, remove_dir, write};

/// The packages that are not in Debian's `main`.
pub const NON_FREE: &[&str] = &["lmbench"];

/// `packages.toml`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Fetched {
    /// The names that were asked for.
    requested: BTreeSet<String>,
    package: Vec<Unpacked>,
}

/// One package as it was fetched.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Unpacked {
    name: String,
    version: String,
    sha256: String,
    /// The packages that it depends on; some of them may not be here.
    needs: Vec<String>,
}

/// Unpacked packages.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// The directory that stands for the guest's root.
    pub root: PathBuf,
    /// What went wrong on the way, if anything: not all may be there.
    pub trouble: Option<String>,
    packages: Vec<Unpacked>,
}

impl Tree {
    /// The version of a package; `None` if it is not there.
    #[must_use]
    pub fn version(&self, name: &str) -> Option<&str> {
        self.packages.iter().find(|p| p.name == name).map(|p| p.version.as_str())
    }

    /// Packages by their names, and those that they need, as far as they are there.
    #[must_use]
    pub fn packages_of(&self, names: &[&str]) -> Vec<Package> {
        let mut used: BTreeSet<&str> = BTreeSet::new();
        let mut todo: Vec<&str> = names.to_vec();
        while let Some(name) = todo.pop() {
            if let Some(package) = self.packages.iter().find(|p| p.name == name)
                && used.insert(&package.name)
            {
                todo.extend(package.needs.iter().map(String::as_str));
            }
        }
        let of = |p: &Unpacked| Package { name: p.name.clone(), version: p.version.clone(), sha256: p.sha256.clone() };
        self.packages.iter().filter(|p| used.contains(p.name.as_str())).map(of).collect()
    }
}

/// Gives a tree with these packages, as far as they can be had. If all are here already, nothing is fetched.
///
/// That packages cannot be had is no error, but [`Tree::trouble`].
///
/// # Errors
/// If files under `build/` cannot be read or written.
pub fn fetch(project: &Project, wanted: BTreeSet<String>) -> Result<Tree> {
    let dir = project.build("bench/linux");
    create_dir(&dir)?;
    // Another run may be at the same.
    let path = dir.join("lock");
    let lock = fs::File::create(&path).context(|| format!("cannot write {}", path.display()))?;
    lock.lock().context(|| format!("cannot lock {}", path.display()))?;

    let root = dir.join("tree");
    let stamp = dir.join("packages.toml");
    let known = fs::read_to_string(&stamp).ok().and_then(|t| toml::from_str::<Fetched>(&t).ok()).unwrap_or_default();
    let here = |name: &String| known.package.iter().any(|p| p.name == *name);
    if wanted.iter().all(here) {
        return Ok(Tree { root, trouble: None, packages: known.package });
    }
    let requested: BTreeSet<String> = known.requested.iter().cloned().chain(wanted).collect();
    match replace(&dir, &root, &stamp, requested, &known) {
        Ok(packages) => Ok(Tree { root, trouble: None, packages }),
        // What is here is as good as before, unless it was being replaced: then the stamp is gone.
        Err(error) => {
            let packages = if stamp.exists() { known.package } else { Vec::new() };
            let why = error.details.as_deref().unwrap_or_default().lines().rfind(|l| l.starts_with("E: "));
            let why = why.map_or_else(String::new, |l| format!(": {}", &l[3..]));
            let trouble = Some(format!("packages of workloads are missing: {}{why}", error.message));
            Ok(Tree { root, trouble, packages })
        }
    }
}

/// Fetches packages and puts them in the place of those that are there; not if the lists lack what is there, as they do
/// without a network.
fn replace(
    dir: &Path,
    root: &Path,
    stamp: &Path,
    requested: BTreeSet<String>,
    known: &Fetched,
) -> Result<Vec<Unpacked>> {
    let apt = Apt::update_with(&dir.join("apt"), ARMHF, &["non-free"])?;
    let names: Vec<String> = requested.iter().cloned().collect();
    let mut package = Vec::new();
    for fields in apt.closure(&names)? {
        let field = |key: &str| {
            let value = fields.get(key).map(str::to_string);
            value.ok_or_else(|| Error::failed(format!("Debian's package lists have a package without {key}")))
        };
        let needs = fields.needs().map(str::to_string).collect();
        package.push(Unpacked { name: field("Package")?, version: field("Version")?, sha256: field("SHA256")?, needs });
    }
    let lost = |p: &&Unpacked| known.requested.contains(&p.name) && !package.iter().any(|n| n.name == p.name);
    if let Some(lost) = known.package.iter().find(lost) {
        return Err(Error::failed(format!(
            "Debian's package lists could not be had, or have no {} any more; what is here stays",
            lost.name
        )));
    }
    let names: Vec<&str> = package.iter().map(|p| p.name.as_str()).collect();
    let files = if names.is_empty() { Vec::new() } else { apt.download(&names, &dir.join("download"))? };

    let _step = Step::begin("unpacking the packages of workloads");
    // The stamp goes first and comes last: whatever happens between, the next run begins anew.
    let _ = fs::remove_file(stamp);
    remove_dir(root)?;
    create_dir(root)?;
    for file in &files {
        apt::unpack(file, root)?;
    }
    remove_dir(&dir.join("download"))?;
    let fetched = Fetched { requested, package };
    let text = toml::to_string(&fetched).expect("a list of packages is TOML");
    write(stamp, text.as_bytes())?;
    Ok(fetched.package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_come_with_what_they_need() {
        let package = |name: &str, needs: &[&str]| Unpacked {
            name: name.into(),
            version: format!("{name}-1"),
            sha256: "0".into(),
            needs: needs.iter().map(ToString::to_string).collect(),
        };
        let packages = vec![
            package("gzip", &["libc6"]),
            package("lame", &["libmp3lame0", "libc6"]),
            package("libc6", &["libgcc-s1"]),
            package("libgcc-s1", &["libc6", "gcc-12-base"]),
            package("libmp3lame0", &["libc6"]),
        ];
        let tree = Tree { packages, ..Tree::default() };
        let names = |of: &[&str]| tree.packages_of(of).into_iter().map(|p| p.name).collect::<Vec<_>>();
        assert_eq!(names(&["gzip"]), ["gzip", "libc6", "libgcc-s1"]);
        assert_eq!(names(&["lame", "absent"]), ["lame", "libc6", "libgcc-s1", "libmp3lame0"]);
        assert_eq!(tree.version("lame"), Some("lame-1"));
        assert_eq!(tree.version("xz-utils"), None);
    }
}
