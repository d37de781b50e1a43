//! Kernel modules: some of a package's, with what they depend on, as `modprobe` in the guest wants them.
//!
//! A package has no `modules.dep`: `depmod` makes it at installation, and nothing is installed here. What `depmod`
//! would find out stands in each module: the section `.modinfo` is a list of `key=value` strings, of which `depends`
//! names the modules whose symbols this one uses, and each `alias` a pattern for the devices that it drives.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection};

use crate::error::{Context, Error, Result};
use crate::project::read;

/// A module to be put into an initial RAM disk.
#[derive(Clone, Debug)]
pub struct Module {
    /// Its file below `lib/modules/VERSION/`.
    pub path: String,
    /// The file's bytes.
    pub data: Vec<u8>,
    /// The modules that must be loaded before it, in that order, as indices into the list that it is in.
    pub needs: Vec<usize>,
    /// Patterns of names, as devices have them in their `modalias`, for which this module is wanted.
    pub aliases: Vec<String>,
}

/// Collects the modules of these `names` below `dir` (`…/lib/modules/VERSION`) and all that they need.
///
/// # Errors
/// If there is no such module, or if one cannot be read.
pub fn collect(dir: &Path, names: &[String]) -> Result<Vec<Module>> {
    let mut files = BTreeMap::new();
    find(dir, &mut files)?;
    let mut collected = Collected { dir, files, modules: Vec::new(), index: BTreeMap::new() };
    for name in names {
        collected.add(name)?;
    }
    Ok(collected.modules)
}

/// `modules.dep` for these modules: each with all that it needs, the last to be loaded first, as `depmod` writes it.
#[must_use]
pub fn dependencies(modules: &[Module]) -> String {
    let line = |m: &Module| {
        let needs: String = m.needs.iter().rev().map(|&i| format!(" {}", modules[i].path)).collect();
        format!("{}:{needs}\n", m.path)
    };
    modules.iter().map(line).collect()
}

/// `modules.alias` for these modules: which one drives a virtio device that says its `modalias`. The other aliases are
/// left out, for by them the kernel would load modules of its own accord, in the midst of what is tested and measured.
#[must_use]
pub fn aliases(modules: &[Module]) -> String {
    let name = |m: &Module| normal(Path::new(&m.path).file_stem().unwrap_or_default().to_string_lossy().as_ref());
    let virtio = |m: &Module| {
        let aliases = m.aliases.iter().filter(|alias| alias.starts_with("virtio:"));
        aliases.map(|alias| format!("alias {alias} {}\n", name(m))).collect::<String>()
    };
    modules.iter().map(virtio).collect()
}

struct Collected<'a> {
    dir: &'a Path,
    files: BTreeMap<String, PathBuf>,
    modules: Vec<Module>,
    index: BTreeMap<String, usize>,
}

impl Collected<'_> {
    fn add(&mut self, name: &str) -> Result<usize> {
        let name = normal(name);
        if let Some(&index) = self.index.get(&name) {
            return Ok(index);
        }
        let file = self.files.get(&name);
        let file = file.ok_or_else(|| Error::failed(format!("the kernel's package has no module {name}")))?.clone();
        let data = read(&file)?;
        let mut needs = Vec::new();
        let info = |key| info(&data, key).map_err(|e| Error::failed(format!("{}: {e}", file.display())));
        let aliases = info("alias=")?;
        let depends = info("depends=")?;
        for needed in depends.iter().flat_map(|list| list.split(',')).filter(|name| !name.is_empty()) {
            let index = self.add(needed)?;
            for index in self.modules[index].needs.clone().into_iter().chain([index]) {
                if !needs.contains(&index) {
                    needs.push(index);
                }
            }
        }
        let path = file.strip_prefix(self.dir).unwrap_or(&file).to_string_lossy().into_owned();
        self.modules.push(Module { path, data, needs, aliases });
        self.index.insert(name, self.modules.len() - 1);
        Ok(self.modules.len() - 1)
    }
}

/// A module's name as the kernel writes it: file names use `-` and `_` as they like.
fn normal(name: &str) -> String {
    name.replace('-', "_")
}

fn find(dir: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).context(|| format!("cannot list {}", dir.display()))? {
        let entry = entry.context(|| format!("cannot list {}", dir.display()))?;
        let path = entry.path();
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            find(&path, files)?;
        } else if let Some(name) = entry.file_name().to_str().and_then(|n| n.strip_suffix(".ko")) {
            files.insert(normal(name), path);
        }
    }
    Ok(())
}

/// What stands behind `key` in a module's `.modinfo`, as often as it occurs.
fn info(module: &[u8], key: &str) -> object::Result<Vec<String>> {
    let file = object::File::parse(module)?;
    let info = match file.section_by_name(".modinfo") {
        Some(section) => section.data()?,
        None => &[],
    };
    let values = info.split(|&b| b == 0).filter_map(|s| s.strip_prefix(key.as_bytes()));
    Ok(values.map(|v| String::from_utf8_lossy(v).into_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_as_depmod_writes_them() {
        let module = |path: &str, needs: &[usize], aliases: &[&str]| Module {
            path: path.into(),
            data: Vec::new(),
            needs: needs.into(),
            aliases: aliases.iter().map(|a| (*a).into()).collect(),
        };
        let modules = [
            module("a.ko", &[], &[]),
            module("x/b-c.ko", &[0], &["virtio:d1v*", "y", "virtio:d2v*"]),
            module("c.ko", &[0, 1], &["z"]),
        ];
        assert_eq!(dependencies(&modules), "a.ko:\nx/b-c.ko: a.ko\nc.ko: x/b-c.ko a.ko\n");
        assert_eq!(aliases(&modules), "alias virtio:d1v* b_c\nalias virtio:d2v* b_c\n");
    }
}
