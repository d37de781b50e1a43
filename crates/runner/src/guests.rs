//! Several guests: from a manifest on this machine, or so many of the Debian one.
//!
//! A manifest names files beside itself. What is wrong with it or with them is said with its name and line, before
//! anything is built or fetched. Then the guests without a kernel become Debian's, and all files go into the bundle.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use spica_bundle::{self as bundle, Disk, DiskMode, DiskSource, GuestEntry, MAX_GUESTS, Manifest, Place, SYSTEM_DISK};

use crate::error::{Error, Result};
use crate::files::Files;
use crate::fit::{self, Room, Wish, Wishes};
use crate::guest::Guest;
use crate::initramfs::Overlay;
use crate::project::{read, read_text};
use crate::regular::{self, Most};
use crate::system::Systems;

/// Where several guests come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A manifest on this machine.
    Manifest(PathBuf),
    /// As many guests of the Debian kind.
    Count(usize),
}

/// Several guests, as far as the user has named them.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The manifest as the user named it, for errors; empty for [`Source::Count`].
    file: String,
    guests: Vec<GuestEntry>,
    uplink: Option<String>,
    files: BTreeMap<PathBuf, Vec<u8>>,
    directory: PathBuf,
}

impl Draft {
    /// Reads what the user has named, and checks it. All of it must fit a board with that `room`.
    ///
    /// # Errors
    /// The first thing that is wrong with the manifest or one of its files, or a count that is none.
    pub fn read(source: &Source, room: &Room<'_>) -> Result<Self> {
        match source {
            Source::Manifest(file) => Self::of_manifest(file, room),
            Source::Count(count) if (1..=MAX_GUESTS).contains(count) => Ok(Self {
                file: String::new(),
                // How much memory there is for each depends on the size of the bundle; see `complete`.
                guests: (1..=*count).map(|n| GuestEntry::new(format!("debian-{n}"), 0)).collect(),
                uplink: None,
                files: BTreeMap::new(),
                directory: PathBuf::new(),
            }),
            Source::Count(count) => {
                Err(Error::usage(format!("--count {count}: expected 1 to {MAX_GUESTS}, as many as a board can run")))
            }
        }
    }

    fn of_manifest(file: &Path, room: &Room<'_>) -> Result<Self> {
        let text = read_text(file)?;
        let name = file.display().to_string();
        let Manifest { guests, uplink } =
            Manifest::parse(&text, Place::Workstation).map_err(|e| Error::failed(e.in_file(&name).to_string()))?;
        let directory = file.parent().unwrap_or(Path::new("")).to_path_buf();
        let most = Most::memory(room.name, room.memory_mib[1]);
        let named: Vec<_> = guests
            .iter()
            .flat_map(|guest| guest.files().map(move |(key, file)| (guest, key, file)))
            .map(|(guest, key, file)| {
                let place = format!("{name}:{}: guest `{}`, key `{key}`", guest.line, guest.name);
                (place, directory.join(file))
            })
            .collect();
        // All are looked at before one is read: together they may be more than this machine has memory. Files of one
        // size may be equal, and equal ones are stored once.
        let mut sizes = BTreeSet::new();
        for (place, path) in &named {
            let size = regular::size(path, &most).map_err(|e| Error::failed(format!("{place}: {e}")))?;
            sizes.insert(size);
            let total = sizes.iter().sum::<u64>();
            if total > most.bytes {
                return Err(Error::failed(format!(
                    "{place}: with {}, the guests' files have {}M; expected {most}; what need not be in memory can be \
                     a disk of the board, key `host`",
                    path.display(),
                    total.div_ceil(1 << 20)
                )));
            }
        }
        let mut files = BTreeMap::new();
        for (place, path) in named {
            if let Entry::Vacant(entry) = files.entry(path) {
                let bytes = regular::read(entry.key(), &most);
                entry.insert(bytes.map_err(|e| Error::failed(format!("{place}: {e}")))?);
            }
        }
        let draft = Self { file: name, guests, uplink, files, directory };
        draft.guests.iter().filter(|g| !g.is_debian()).try_for_each(|g| draft.check(g))?;
        Ok(draft)
    }

    /// Checks a guest's files as Spica will.
    fn check(&self, guest: &GuestEntry) -> Result<()> {
        let find = |name: &str| self.files.get(&self.directory.join(name)).map(Vec::as_slice);
        guest.load(find).map(|_| ()).map_err(|e| Error::failed(e.in_file(&self.file).to_string()))
    }

    /// What the guests want of the board's memory, as far as that is known.
    #[must_use]
    pub fn wishes(&self) -> Wishes {
        self.wishes_of(&self.guests, 0)
    }

    fn wishes_of(&self, guests: &[GuestEntry], bundle: u64) -> Wishes {
        let size = |name: &str| self.files.get(&self.directory.join(name)).map_or(0, |bytes| bytes.len() as u64);
        let guests = guests.iter().filter(|g| g.memory_bytes != 0).map(|g| Wish::of(g, size)).collect();
        Wishes { guests, uplink: self.uplink.is_some(), bundle }
    }

    /// The systems that guests want, each once.
    #[must_use]
    pub fn systems(&self) -> BTreeSet<bundle::System> {
        self.guests.iter().filter_map(|g| g.system).collect()
    }

    /// Makes guests without a kernel Debian's, with `overlay` over the initial RAM disk, and with the disks of
    /// `systems` where they want one, and packs all of them for a board with that `room`.
    ///
    /// # Errors
    /// If files do not fit a guest's memory, or the guests not the board's.
    pub fn complete(mut self, room: &Room<'_>, debian: &Guest, systems: &Systems, overlay: &Overlay) -> Result<Packed> {
        let mut guests = self.guests.clone();
        for guest in guests.iter_mut().filter(|g| g.is_debian()) {
            let mut take = |path: &Path, overlay: Option<&Overlay>| -> Result<String> {
                // An absolute path; should the manifest name the same file, its bytes are not the ones that are wanted
                // here.
                let mut bytes = read(path)?;
                overlay.iter().for_each(|o| o.append_to(&mut bytes));
                self.files.insert(path.to_path_buf(), bytes);
                Ok(path.display().to_string())
            };
            guest.kernel = Some(take(&debian.kernel, None)?);
            let wanted = guest.system.take();
            let append = match (wanted, wanted.and_then(|name| systems.get(&name))) {
                (None, _) => &debian.append,
                (Some(_), Some(system)) => {
                    guest.initrd = Some(take(&system.initrd, Some(overlay))?);
                    let source = DiskSource::File(take(&system.disk, None)?);
                    let disk = Disk { name: SYSTEM_DISK.to_string(), source, mode: DiskMode::CopyOnWrite };
                    guest.disks.insert(0, disk);
                    &system.append
                }
                (Some(name), None) => return Err(Error::failed(format!("the system {name} was not made"))),
            };
            if guest.initrd.is_none() {
                guest.initrd = Some(take(&debian.initrd, Some(overlay))?);
            }
            guest.append = format!("{append} hostname={} {}", guest.name, guest.append).trim().to_string();
        }

        let mut files = Files::new(self.uplink.clone());
        let mut packed = guests.clone();
        for guest in &mut packed {
            files.adopt(guest, |_, name| Ok(self.files[&self.directory.join(name)].clone()))?;
        }
        let size = files.len();
        if packed.iter().any(|g| g.memory_bytes == 0) {
            let memory = fit::share(room, packed.len(), size)?;
            guests.iter_mut().chain(&mut packed).for_each(|g| g.memory_bytes = memory);
        }
        guests.iter().try_for_each(|g| self.check(g))?;
        let board_memory_mib = fit::board_memory(room, &self.wishes_of(&guests, size))?;
        let names = packed.iter().map(|g| g.name.clone()).collect();
        Ok(Packed { names, bundle: files.bundle(packed)?, board_memory_mib })
    }
}

/// Several guests, ready to be booted.
#[derive(Clone, Debug)]
pub struct Packed {
    /// Their names.
    pub names: Vec<String>,
    /// What the board boots as its initrd.
    pub bundle: Vec<u8>,
    /// The memory that the board must have, in MiB.
    pub board_memory_mib: u32,
}

#[cfg(test)]
mod tests;
