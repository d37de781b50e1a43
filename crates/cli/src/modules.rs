//! Kernel modules: some of a package's, with what they depend on, as `modprobe` in the guest wants them.
//!
//! A package has no `modules.dep`: `depmod` makes it at installation, and nothing is installed here. What `depmod` would
//! find out stands in each module: the section `.modinfo` is a list of `key=value` strings, and its `depends` names the
//! modules whose symbols this one uses.

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
        for needed in depends(&data).map_err(|e| Error::failed(format!("{}: {e}", file.display())))? {
            let index = self.add(&needed)?;
            for index in self.modules[index].needs.clone().into_iter().chain([index]) {
                if !needs.contains(&index) {
                    needs.push(index);
                }
            }
        }
        let path = file.strip_prefix(self.dir).unwrap_or(&file).to_string_lossy().into_owned();
        self.modules.push(Module { path, data, needs });
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

/// The value of `depends` in a module's `.modinfo`.
fn depends(module: &[u8]) -> object::Result<Vec<String>> {
    let file = object::File::parse(module)?;
    let info = match file.section_by_name(".modinfo") {
        Some(section) => section.data()?,
        None => &[],
    };
    let values = info.split(|&b| b == 0).filter_map(|s| s.strip_prefix(b"depends="));
    let values = values.flat_map(|v| v.split(|&b| b == b','));
    Ok(values.filter(|v| !v.is_empty()).map(|v| String::from_utf8_lossy(v).into_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_come_with_the_last_to_load_first() {
        let module = |path: &str, needs: &[usize]| Module { path: path.into(), data: Vec::new(), needs: needs.into() };
        let modules = [module("a.ko", &[]), module("b.ko", &[0]), module("c.ko", &[0, 1])];
        assert_eq!(dependencies(&modules), "a.ko:\nb.ko: a.ko\nc.ko: b.ko a.ko\n");
    }
}
