//! The directories of runs, `build/run/PID-N/`: each is locked by its process for as long as the run lasts.
//!
//! A process that is killed leaves its directory behind, and the next one removes it. The lock says whether the run is
//! over: it ends with the process, while the process's number may soon be another's, and means nothing in another
//! container.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{Context, Error, Result};
use crate::project::create_dir;

/// The directory of a run. Dropping it removes it.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// Locked.
    _open: File,
}

impl Scratch {
    /// Makes a directory in `runs`, and removes those of runs that are over.
    ///
    /// # Errors
    /// If it cannot be made or locked.
    pub fn new(runs: &Path) -> Result<Self> {
        create_dir(runs)?;
        let problem = |path: &Path| format!("cannot lock {}", path.display());
        // Nobody takes a directory for an old one between its making and its locking.
        let all = File::open(runs).context(|| problem(runs))?;
        all.lock().context(|| problem(runs))?;
        remove_old(runs);
        for number in 0.. {
            let path = runs.join(format!("{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                made => made.context(|| format!("cannot make the directory {}", path.display()))?,
            }
            let open = File::open(&path).context(|| problem(&path))?;
            open.try_lock().map_err(|error| Error::failed(format!("{}: {error}", problem(&path))))?;
            return Ok(Self { path, _open: open });
        }
        unreachable!("no directory has so many entries")
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The next run tries it again.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the directories that nobody has locked. What cannot be removed, another user's for one, is in nobody's way.
fn remove_old(runs: &Path) {
    for entry in fs::read_dir(runs).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Ok(directory) = File::open(entry.path())
            && directory.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    fn runs(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("spica-scratch-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        dir
    }

    /// A directory with a file in it.
    fn made(path: &Path) -> PathBuf {
        create_dir(path).unwrap();
        fs::write(path.join("initrd"), b"x").unwrap();
        path.to_path_buf()
    }

    /// Another process that has locked `path`.
    fn holder(path: &Path) -> Child {
        let child = Command::new("flock").arg("--no-fork").arg(path).args(["sleep", "600"]).spawn().unwrap();
        let locked = (0..1000).any(|_| {
            sleep(Duration::from_millis(10));
            File::open(path).unwrap().try_lock().is_err()
        });
        assert!(locked, "flock does not lock");
        child
    }

    #[test]
    fn what_a_killed_run_left_is_removed_and_nothing_else() {
        let runs = runs("killed");
        let first = Scratch::new(&runs).unwrap();
        fs::write(first.path().join("initrd"), b"x").unwrap();
        let other = made(&runs.join("4194304-0"));
        let mut child = holder(&other);
        // The number of a process that lives, but not the one that made the directory.
        let reused = made(&runs.join(format!("{}-7", std::process::id())));
        let second = Scratch::new(&runs).unwrap();
        assert_ne!(first.path(), second.path());
        assert!(first.path().join("initrd").exists() && other.join("initrd").exists());
        assert!(!reused.exists());

        child.kill().unwrap();
        child.wait().unwrap();
        let third = Scratch::new(&runs).unwrap();
        assert!(!other.exists());
        assert!([&first, &second, &third].iter().all(|run| run.path().exists()));
        drop((first, second, third));
        assert_eq!(fs::read_dir(&runs).unwrap().count(), 0);
        fs::remove_dir(&runs).unwrap();
    }

    #[test]
    fn a_directory_of_another_run_is_not_taken() {
        let runs = runs("taken");
        // A process of another container may have our number.
        let theirs = made(&runs.join(format!("{}-0", std::process::id())));
        let mut child = holder(&theirs);
        let ours = Scratch::new(&runs).unwrap();
        assert_ne!(ours.path(), theirs);
        assert!(theirs.join("initrd").exists());
        child.kill().unwrap();
        child.wait().unwrap();
        drop(ours);
        fs::remove_dir_all(&runs).unwrap();
    }
}
