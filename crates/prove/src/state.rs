//! What outlives a run: how far an exhaustive part has come.
//!
//! It is worth something only as long as what was looked at is the same. So it begins with a fingerprint of the
//! sources, and counts for nothing when those have changed.

use crate::part::Failure;
use spica_runner::project::{self, Project};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A fingerprint of all files in these directories of the project.
///
/// # Errors
/// If they cannot be read.
pub fn fingerprint(directories: &[&str]) -> Result<String, Failure> {
    let trouble = |error: String| Failure::trouble(error);
    let project = Project::find(None).map_err(|e| trouble(e.to_string()))?;
    let mut files = Vec::new();
    let mut todo: Vec<PathBuf> = directories.iter().map(|directory| project.source(directory)).collect();
    while let Some(directory) = todo.pop() {
        let entries = std::fs::read_dir(&directory).map_err(|e| trouble(format!("{}: {e}", directory.display())))?;
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if path.is_dir() { todo.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    let bytes = files.iter().map(|file| project::read(file)).collect::<Result<Vec<_>, _>>();
    let bytes = bytes.map_err(|e| trouble(e.to_string()))?;
    Ok(project::fingerprint(&bytes.iter().map(Vec::as_slice).collect::<Vec<_>>()))
}

/// Which of a number of pieces are done.
pub struct Done {
    file: PathBuf,
    fingerprint: String,
    /// The first piece that is not done, and those behind it that are.
    pieces: Mutex<(u64, BTreeSet<u64>)>,
}

impl Done {
    /// What earlier runs did, in this directory. Where they did all of the pieces, it begins anew.
    ///
    /// # Errors
    /// If the directory cannot be made.
    pub fn load(directory: &Path, fingerprint: &str, pieces: u64) -> Result<Done, Failure> {
        project::create_dir(directory).map_err(|e| Failure::trouble(e.to_string()))?;
        let file = directory.join("done");
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let first = text.strip_prefix(fingerprint).and_then(|rest| rest.trim().parse().ok());
        let first = first.filter(|&first: &u64| first < pieces).unwrap_or(0);
        Ok(Done { file, fingerprint: fingerprint.into(), pieces: Mutex::new((first, BTreeSet::new())) })
    }

    /// The first piece that is not done.
    pub fn first(&self) -> u64 {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// One more piece is done; gives the first that is not. A file that cannot be written costs no more than time.
    pub fn finish(&self, piece: u64) -> u64 {
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, behind) = &mut *pieces;
        behind.insert(piece);
        while behind.remove(first) {
            *first += 1;
        }
        let _ = project::write(&self.file, format!("{} {first}\n", self.fingerprint).as_bytes());
        *first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_where_it_was_and_anew_after_a_change() {
        let directory = std::env::temp_dir().join(format!("spica-prove-state-{}", std::process::id()));
        let done = Done::load(&directory, "abc", 10).unwrap();
        assert_eq!(done.first(), 0);
        assert_eq!(done.finish(1), 0);
        assert_eq!(done.finish(0), 2);
        assert_eq!(done.finish(3), 2);
        assert_eq!(Done::load(&directory, "abc", 10).unwrap().first(), 2);
        assert_eq!(Done::load(&directory, "abd", 10).unwrap().first(), 0);
        assert_eq!(Done::load(&directory, "abc", 2).unwrap().first(), 0, "all are done");
        std::fs::remove_dir_all(directory).unwrap();
    }
}
