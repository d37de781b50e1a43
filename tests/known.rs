//! What boards without Spica printed before: what follows from the same inputs need not be run again.
//!
//! A guest on the bare board is the measure for the same guest under Spica, and has nothing of the hypervisor in it. So
//! where its output does not depend on time, it is kept in `build/known`, under a name that has a fingerprint of all
//! that it is made with: QEMU, the guest's packages, and the sources of these tests and of the `spica` command, which
//! says how boards are started. Whoever doubts it removes the directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use spica_runner::error::{Context, Result};
use spica_runner::prepare;
use spica_runner::process;
use spica_runner::project::{Project, fingerprint, read, write};

/// The sources that have a part in what a bare board prints.
const SOURCES: [&str; 3] = ["crates/cli/src", "guests/debian", "tests"];

/// Programs that have a part in it: they say which version they are.
const PROGRAMS: [&str; 3] = ["qemu-system-arm", "arm-none-eabi-as", "rustc"];

/// The place for what a board prints.
#[derive(Debug)]
pub struct Known(PathBuf);

impl Known {
    /// The place for the run that has this `name`, which only runs of the same guest may have.
    ///
    /// # Errors
    /// If one of the inputs cannot be had.
    pub fn of(name: &str) -> Result<Self> {
        static INPUTS: Mutex<Option<String>> = Mutex::new(None);
        let project = Project::find(None)?;
        let mut inputs = INPUTS.lock().unwrap_or_else(PoisonError::into_inner);
        let inputs = match &*inputs {
            Some(inputs) => inputs,
            None => inputs.insert(all_inputs(&project)?),
        };
        Ok(Self(project.build("known").join(format!("{name}-{}", &inputs[..16]))))
    }

    /// What was printed.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        fs::read_to_string(&self.0).ok()
    }

    /// Keeps what was printed. Nothing may be kept that fails a test, or it would go on to.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&self, text: &str) -> Result<()> {
        write(&self.0, text.as_bytes())
    }
}

fn all_inputs(project: &Project) -> Result<String> {
    let guest = prepare::fetch(project, false)?;
    let mut parts = vec![read(&guest.kernel)?, read(&guest.initrd)?];
    for program in PROGRAMS {
        let version = process::output(Command::new(program).arg("--version"), "cannot ask for a version")?;
        parts.push(version.into_bytes());
    }
    for directory in SOURCES {
        add(&project.source(directory), &mut parts)?;
    }
    Ok(fingerprint(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>()))
}

/// Adds the names and contents of all files in a directory, in the order of their names.
fn add(directory: &Path, parts: &mut Vec<Vec<u8>>) -> Result<()> {
    let entries = fs::read_dir(directory).context(|| format!("cannot list {}", directory.display()))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if !path.is_dir() {
            parts.push(path.to_string_lossy().into_owned().into_bytes());
            parts.push(read(&path)?);
        } else if !path.ends_with("target") {
            add(&path, parts)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_and_depends_on_every_file() {
        let dir = std::env::temp_dir().join(format!("spica-known-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let known = Known(dir.join("known/a"));
        assert_eq!(known.text(), None);
        known.keep("one\ntwo").unwrap();
        assert_eq!(known.text().as_deref(), Some("one\ntwo"));

        let inputs = || {
            let mut parts = Vec::new();
            add(&dir, &mut parts).unwrap();
            fingerprint(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>())
        };
        let before = inputs();
        assert_eq!(before, inputs());
        known.keep("one\nthree").unwrap();
        let changed = inputs();
        fs::rename(dir.join("known/a"), dir.join("known/b")).unwrap();
        assert!(before != changed && inputs() != changed);
        fs::remove_dir_all(&dir).unwrap();
    }
}
