//! Where things are: the data that Spica is made of, and what is made from it.
//!
//! Both have a directory. The **home** has what is only read: the recipes of guests, and either all sources or a board
//! image that is built already, as `spica install` leaves it. It is the first of these that is one:
//!
//! 1. the directory that `--home` or the environment's `SPICA_HOME` names (nothing else will do then);
//! 2. the directory that we are in, or the nearest above it;
//! 3. `share/spica` beside the `bin` of this program;
//! 4. the sources that this program was built from.
//!
//! What is fetched or made is in `build/` of the home, if that has the sources and may be written to, and in
//! `$XDG_CACHE_HOME/spica` or `~/.cache/spica` otherwise.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{Access, access};
use sha2::{Digest, Sha256};
use spica_bundle::MAX_MEMORY;

use crate::error::{Context, Error, Result};
use crate::regular::{self, Most};

/// The longest text that makes sense, in MiB: Debian's package lists have as much.
const TEXT_MIB: u64 = 64;

/// The environment's variable that names the home.
pub const HOME_VARIABLE: &str = "SPICA_HOME";

/// What every home has.
const MARK: &str = "guests/debian/guest.toml";

/// What a home with the sources has.
const SOURCES: &str = "crates/hypervisor/Cargo.toml";

/// The board image of a home without the sources.
pub const PREBUILT: &str = "images/spica.bin";

/// A home, and the place for what is made.
#[derive(Clone, Debug)]
pub struct Project {
    root: PathBuf,
    build: PathBuf,
}

/// Where a home may be: what [`Project::find`] asks the system for.
#[derive(Clone, Debug, Default)]
struct Places {
    /// What `--home` names.
    option: Option<PathBuf>,
    /// What the environment names.
    variable: Option<OsString>,
    /// The directory that we are in.
    current: Option<PathBuf>,
    /// This program.
    program: Option<PathBuf>,
    /// The sources that it was built from.
    built_from: PathBuf,
}

impl Places {
    /// The home, by the rule above.
    fn home(&self) -> Result<PathBuf> {
        let named = self.option.clone().map(|home| ("--home", home));
        let variable = self.variable.clone().map(|home| (HOME_VARIABLE, PathBuf::from(home)));
        if let Some((what, home)) = named.or(variable) {
            let full = home.canonicalize().context(|| format!("{what}: cannot find {}", home.display()))?;
            if !is_home(&full) {
                return Err(Error::failed(format!(
                    "{what}: {} has no {MARK}; expected Spica's sources, or PREFIX/share/spica as `spica install` makes it",
                    home.display()
                )));
            }
            return Ok(full);
        }
        let above = self.current.iter().flat_map(|current| current.ancestors()).map(Path::to_path_buf);
        // The program may be known by a symbolic link.
        let program = self.program.as_ref().and_then(|program| program.canonicalize().ok());
        let beside = program.and_then(|program| Some(program.parent()?.parent()?.join("share/spica")));
        let mut places = above.chain(beside).chain([self.built_from.clone()]);
        let found = places.find_map(|place| place.canonicalize().ok().filter(|place| is_home(place)));
        found.ok_or_else(|| {
            Error::failed(format!(
                "cannot find Spica's data: neither the sources that this program was built from, {}, nor share/spica beside \
                 its directory is there; name a directory with Spica's sources with --home or {HOME_VARIABLE}",
                self.built_from.display()
            ))
        })
    }
}

fn is_home(path: &Path) -> bool {
    path.join(MARK).is_file()
}

/// The place for what is made with a home that has no place for it.
fn cache(xdg: Option<OsString>, user: Option<OsString>) -> Result<PathBuf> {
    // The XDG base directory specification has relative paths ignored.
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let place = xdg.and_then(absolute).or_else(|| Some(user.and_then(absolute)?.join(".cache")));
    let none = || Error::failed("no place for what is made: expected an absolute path in XDG_CACHE_HOME or HOME");
    Ok(place.ok_or_else(none)?.join("spica"))
}

impl Project {
    /// Finds the home, which `home` names if it is given, and the place for what is made.
    ///
    /// # Errors
    /// If what is named is no home, if there is none, or if there is no place for what is made.
    pub fn find(home: Option<&Path>) -> Result<Self> {
        let places = Places {
            option: home.map(Path::to_path_buf),
            variable: std::env::var_os(HOME_VARIABLE).filter(|home| !home.is_empty()),
            current: std::env::current_dir().ok(),
            program: std::env::current_exe().ok(),
            built_from: Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."),
        };
        let root = places.home()?;
        let own = root.join("build");
        let parent = if own.exists() { &own } else { &root };
        let build = if root.join(SOURCES).is_file() && access(parent, Access::WRITE_OK).is_ok() {
            own
        } else {
            cache(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))?
        };
        Ok(Self { root, build })
    }

    /// The home.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A file of the home.
    #[must_use]
    pub fn source(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// The board image of a home without the sources.
    #[must_use]
    pub fn prebuilt(&self) -> Option<PathBuf> {
        let image = self.source(PREBUILT);
        (!self.source(SOURCES).is_file() && image.is_file()).then_some(image)
    }

    /// Refuses a home without the sources, for `purpose`: "spica test".
    ///
    /// # Errors
    /// If the sources are not there: with what to do.
    pub fn needs_sources(&self, purpose: &str) -> Result<()> {
        if self.source(SOURCES).is_file() {
            return Ok(());
        }
        Err(Error::failed(format!(
            "{purpose} needs Spica's sources, and {} has none; call it in a directory with the sources, or name that with \
             --home",
            self.root.display()
        )))
    }

    /// A path under the directory for all that this tool makes or fetches.
    #[must_use]
    pub fn build(&self, path: &str) -> PathBuf {
        self.build.join(path)
    }
}

/// Reads a file: one that is not larger than any guest's memory.
///
/// # Errors
/// As [`regular::read`].
pub fn read(path: &Path) -> Result<Vec<u8>> {
    regular::read(path, &Most::mib(u64::from(MAX_MEMORY) >> 20))
}

/// Reads a text file.
///
/// # Errors
/// As [`regular::read`], or if it is not UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    let bytes = regular::read(path, &Most::mib(TEXT_MIB))?;
    let text = String::from_utf8(bytes);
    text.map_err(|_| Error::failed(format!("cannot read {}: it is no text; expected UTF-8", path.display())))
}

/// Makes a directory and those above it.
///
/// # Errors
/// With the directory's name.
pub fn create_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).context(|| format!("cannot make the directory {}", path.display()))
}

/// Writes a file in one piece: readers see the old one or the whole new one, also after a crash, and whoever else
/// writes it meanwhile, here or in another run.
///
/// # Errors
/// With the file's name.
pub fn write(path: &Path, data: &[u8]) -> Result<()> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    if let Some(dir) = path.parent() {
        create_dir(dir)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}-{}.new", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    let new = path.with_file_name(name);
    fs::write(&new, data).and_then(|()| fs::rename(&new, path)).context(|| format!("cannot write {}", path.display()))
}

/// Removes a directory with all that is in it, if it is there.
///
/// # Errors
/// With the directory's name.
pub fn remove_dir(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::failed(format!("cannot remove {}: {e}", path.display())))
        }
        _ => Ok(()),
    }
}

/// The SHA-256 of all `parts`, each with its length, as 64 hexadecimal digits.
#[must_use]
pub fn fingerprint(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with homes in it, removed at the end.
    struct Somewhere(PathBuf);

    impl Somewhere {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("spica-home-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&dir);
            create_dir(&dir).unwrap();
            Self(dir.canonicalize().unwrap())
        }

        /// A home of that name.
        fn home(&self, name: &str) -> PathBuf {
            write(&self.0.join(name).join(MARK), b"").unwrap();
            self.0.join(name)
        }
    }

    #[test]
    fn several_may_write_a_file_at_once() {
        let somewhere = Somewhere::new("write");
        let file = somewhere.0.join("file");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50).for_each(|_| write(&file, &[7; 10_000]).unwrap()));
            }
        });
        assert_eq!(fs::read(&file).unwrap(), [7; 10_000]);
        assert_eq!(fs::read_dir(&somewhere.0).unwrap().count(), 1, "nothing is left behind");
    }

    impl Drop for Somewhere {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_first_home_of_the_rule_is_taken() {
        let dir = Somewhere::new("order");
        let [option, variable, current, built_from] =
            ["option", "variable", "current", "from"].map(|name| dir.home(name));
        let beside = dir.home("prefix/share/spica");
        let (deep, program) = (current.join("a/b"), dir.0.join("prefix/bin/spica"));
        create_dir(&deep).unwrap();
        write(&program, b"").unwrap();
        // A link leads to the program's own place.
        let link = dir.0.join("spica");
        std::os::unix::fs::symlink(&program, &link).unwrap();
        let mut places = Places {
            option: Some(option.clone()),
            variable: Some(variable.clone().into()),
            current: Some(deep),
            program: Some(link),
            built_from: built_from.clone(),
        };
        assert_eq!(places.home().unwrap(), option);
        places.option = None;
        assert_eq!(places.home().unwrap(), variable);
        places.variable = None;
        assert_eq!(places.home().unwrap(), current);
        fs::remove_dir_all(&current).unwrap();
        assert_eq!(places.home().unwrap(), beside);
        places.program = Some(dir.0.join("gone"));
        assert_eq!(places.home().unwrap(), built_from);
        fs::remove_dir_all(&built_from).unwrap();
        let error = places.home().unwrap_err().message;
        let expected = format!(
            "cannot find Spica's data: neither the sources that this program was built from, {}, nor share/spica beside its \
             directory is there; name a directory with Spica's sources with --home or SPICA_HOME",
            built_from.display()
        );
        assert_eq!(error, expected);
    }

    #[test]
    fn a_home_that_is_named_must_be_one() {
        let dir = Somewhere::new("named");
        let good = dir.home("good");
        let none = dir.0.join("none");
        let missing = Places { option: Some(none.clone()), current: Some(good.clone()), ..Places::default() };
        let error = missing.home().unwrap_err().message;
        assert_eq!(error, format!("--home: cannot find {}: No such file or directory (os error 2)", none.display()));
        let wrong = Places { variable: Some(dir.0.clone().into()), current: Some(good), ..Places::default() };
        let error = wrong.home().unwrap_err().message;
        let expected = format!(
            "SPICA_HOME: {} has no guests/debian/guest.toml; expected Spica's sources, or PREFIX/share/spica as `spica \
             install` makes it",
            dir.0.display()
        );
        assert_eq!(error, expected);
    }

    #[test]
    fn a_cache_is_where_the_specification_has_it() {
        let of = |xdg: &str, user: &str| cache(Some(xdg.into()), Some(user.into())).map_err(|e| e.message);
        assert_eq!(of("/x", "/home/u"), Ok(PathBuf::from("/x/spica")));
        assert_eq!(of("relative", "/home/u"), Ok(PathBuf::from("/home/u/.cache/spica")));
        assert_eq!(of("", "/home/u"), Ok(PathBuf::from("/home/u/.cache/spica")));
        assert!(of("", "").unwrap_err().contains("XDG_CACHE_HOME or HOME"));
        assert!(cache(None, None).is_err());
    }
}
