//! The manifest: which guests a board runs, as TOML.
//!
//! The same text serves in two places. On the board it is in the archive, and its files are entries of it. On the
//! development machine, where a person writes it, files are those of that machine, and a guest without a `kernel` is
//! the Debian guest that `spica run` boots. `spica` makes the one of the other; see docs/guests.md for every key.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::guest::{
    DEFAULT_WEIGHT, Disk, DiskMode, DiskSource, Engine, FwCfgFile, FwCfgSource, GuestEntry, GuestOptions,
    MAX_DISK_NAME, MAX_DISKS, MAX_FLASH, MAX_FW_CFG, MAX_FW_CFG_STRING, MAX_GUESTS, MAX_NAME, MAX_NETWORKS, MAX_WEIGHT,
    Network, Restart, SYSTEM_DISK, System, is_fw_cfg_name,
};
use crate::table::{Table, line_at};
use crate::{Address, BundleError, Mac, parse_memory};

mod write;

const TOP_KEYS: &[&str] = &["guest", "uplink"];
const GUEST_KEYS: &[&str] = &[
    "name",
    "system",
    "kernel",
    "load",
    "entry",
    "flash",
    "initrd",
    "dtb",
    "append",
    "memory",
    "weight",
    "restart",
    "autostart",
    "engine",
    "fw_cfg",
    "disks",
    "networks",
    "console",
    "rng",
    "balloon",
];
const DISK_KEYS: &[&str] = &["file", "host", "name", "mode"];
const FW_CFG_KEYS: &[&str] = &["name", "file", "string"];
const NETWORK_KEYS: &[&str] = &["name", "mac"];

const GUESTS: &str = "expected tables that begin with [[guest]]";
const DISKS: &str = "expected tables that begin with [[guest.disks]], or { file = \"…\" } in an array";
const FW_CFG: &str = "expected tables that begin with [[guest.fw_cfg]], or { name = \"…\", file = \"…\" } in an array";
const NETWORKS: &str = "expected an array of names of switches, such as [\"lan\"], or of { name = \"…\", mac = \"…\" }";
const GUEST_NAME: &str = "expected 1 to 32 of a-z, 0-9, '-', '_' and '.', but neither \"all\" nor digits only";
const NETWORK_NAME: &str = "expected 1 to 32 of a-z, 0-9, '-', '_' and '.'";
const DISK_NAME: &str = "expected 1 to 20 of a-z, 0-9, '-', '_' and '.'";

/// Where a manifest is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On a board: files are names in the archive, and every guest has a kernel.
    Board,
    /// On the development machine: files are the user's, and a guest without `kernel` is Debian's.
    Workstation,
}

/// A manifest, without the files that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The guests in their order; 1 to [`MAX_GUESTS`].
    pub guests: Vec<GuestEntry>,
    /// The switch that the board's own network card is connected to.
    pub uplink: Option<String>,
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// A [`BundleError`] with the line of the first thing that is wrong: TOML's syntax, an unknown, missing or
    /// ill-typed key, a value out of range, two guests of one name, two cards of one address, a disk of the board that
    /// two guests would spoil for each other, an uplink of a switch at which nobody is, too many guests, or none at
    /// all.
    pub fn parse(text: &str, place: Place) -> Result<Self, BundleError> {
        let root = DeTable::parse(text).map_err(|error| BundleError::Syntax {
            line: line_at(text, error.span().map_or(0, |s| s.start)),
            message: error.message().to_string(),
        })?;
        let root = Table { text, table: root.get_ref(), line: 1, place: "the manifest" };
        root.only(TOP_KEYS)?;

        let mut guests: Vec<GuestEntry> = Vec::new();
        for value in root.list("guest", MAX_GUESTS, GUESTS)? {
            let DeValue::Table(table) = value.get_ref() else {
                return Err(root.wrong("guest", value.span(), GUESTS));
            };
            let table = root.inner(table, value.span(), "[[guest]]");
            let guest = guest(&table, place, guests.len() as u8)?;
            if let Some(first) = guests.iter().find(|g| g.name == guest.name) {
                return Err(BundleError::DuplicateName { line: guest.line, first: first.line, name: guest.name });
            }
            guests.push(guest);
        }
        if guests.is_empty() {
            return Err(BundleError::NoGuest);
        }
        addresses_differ(&guests)?;
        host_disks_are_safe(&guests)?;
        let uplink = uplink(&root, &guests)?;
        Ok(Self { guests, uplink })
    }
}

/// Reads which switch the board's network card is connected to.
fn uplink(root: &Table<'_>, guests: &[GuestEntry]) -> Result<Option<String>, BundleError> {
    const UPLINK: &str = "expected the name of a switch at which a guest has a card";
    let Some(name) = root.string("uplink")? else { return Ok(None) };
    let mut cards = guests.iter().flat_map(|guest| &guest.options.networks);
    if !cards.any(|card| card.name == *name.get_ref()) {
        return Err(root.wrong("uplink", name.span(), UPLINK));
    }
    Ok(Some(name.get_ref().to_string()))
}

/// Reads one `[[guest]]`, the one that comes after `index` others.
fn guest(table: &Table<'_>, place: Place, index: u8) -> Result<GuestEntry, BundleError> {
    table.only(GUEST_KEYS)?;
    let name = table.required("name")?;
    let reserved = *name.get_ref() == "all" || name.get_ref().bytes().all(|b| b.is_ascii_digit());
    if !is_name(name.get_ref(), MAX_NAME) || reserved {
        return Err(table.wrong("name", name.span(), GUEST_NAME));
    }
    let file = |key| -> Result<Option<String>, BundleError> {
        match table.string(key)? {
            Some(file) if file.get_ref().is_empty() => {
                Err(table.wrong(key, file.span(), "expected the name of a file"))
            }
            file => Ok(file.map(|s| s.get_ref().to_string())),
        }
    };
    let (kernel, initrd, dtb) = (file("kernel")?, file("initrd")?, file("dtb")?);
    let flash = flash(table)?;
    let address = Address { load: table.address("load")?, entry: table.address("entry")? };
    let disks = disks(table)?;
    let system = table.word("system", System::WORDS)?;
    if let Some(system) = &system {
        let expected = match place {
            Place::Board => {
                Some("`spica` makes systems before the board starts; expected `kernel`, `initrd` and `disks`")
            }
            _ if kernel.is_some() || initrd.is_some() => {
                Some("it has its own `kernel` and `initrd`; expected none here")
            }
            _ if disks.iter().any(|d| d.name == SYSTEM_DISK) => {
                Some("its disk is named \"root\"; expected no other of that name")
            }
            _ if disks.len() == MAX_DISKS => {
                Some("it needs a disk, and the guest has as many as it can; expected fewer")
            }
            _ => None,
        };
        expected.map_or(Ok(()), |expected| Err(table.wrong("system", system.span(), expected)))?;
    }
    starts_with(table, !flash.is_empty(), kernel.is_some())?;
    if kernel.is_none() && flash.is_empty() && place == Place::Board {
        return Err(table.missing("kernel"));
    }
    let memory = table.required("memory")?;
    let memory_bytes =
        parse_memory(memory.get_ref()).map_err(|e| table.wrong("memory", memory.span(), &e.to_string()))?;
    let append = table.string("append")?;
    if let Some(append) = append.as_ref().filter(|a| a.get_ref().contains(['\0', '\n', '\r'])) {
        return Err(table.wrong("append", append.span(), "expected one line without NUL"));
    }
    Ok(GuestEntry {
        line: table.line,
        name: name.get_ref().to_string(),
        kernel,
        address,
        flash,
        initrd,
        dtb,
        append: append.map(|s| s.get_ref().to_string()).unwrap_or_default(),
        memory_bytes,
        options: GuestOptions {
            weight: table.number("weight", MAX_WEIGHT, DEFAULT_WEIGHT)?,
            restart: table.word("restart", Restart::WORDS)?.map_or_else(Restart::default, Spanned::into_inner),
            autostart: table.flag("autostart", true)?,
            engine: engine(table)?,
            networks: networks(table, index)?,
            console: table.flag("console", false)?,
            rng: table.flag("rng", false)?,
            balloon: table.flag("balloon", false)?,
        },
        system: system.map(Spanned::into_inner),
        fw_cfg: fw_cfg(table)?,
        disks,
    })
}

/// Where a guest has firmware, that starts the kernel, as QEMU leaves it to firmware; and only a kernel that Spica
/// starts has an address.
fn starts_with(table: &Table<'_>, flash: bool, kernel: bool) -> Result<(), BundleError> {
    let refuse = |keys: &[&'static str], expected| {
        let at = keys.iter().find_map(|&key| Some((key, table.get(key)?.span())));
        at.map_or(Ok(()), |(key, at)| Err(table.wrong(key, at, expected)))
    };
    if flash {
        let firmware = "the guest has `flash`, and what is there loads the kernel; expected no such key";
        refuse(&["system", "load", "entry"], firmware)?;
    }
    if flash && !kernel {
        refuse(&["initrd"], "the guest has `flash`, and no `kernel` that an initial RAM disk is for; expected both")?;
    }
    if !kernel {
        refuse(&["load", "entry"], "it says where a raw `kernel` goes; expected that key, too")?;
    }
    Ok(())
}

/// What runs the guest's kernel, if that is said.
fn engine(guest: &Table<'_>) -> Result<Option<Engine>, BundleError> {
    let Some(word) = guest.string("engine")? else { return Ok(None) };
    let engine = Engine::parse(word.get_ref());
    engine.map(Some).ok_or_else(|| guest.wrong("engine", word.span(), Engine::EXPECTED))
}

fn flash(guest: &Table<'_>) -> Result<Vec<String>, BundleError> {
    const FLASH: &str = "expected an array of names of files, such as [\"u-boot.bin\"]";
    let mut files = Vec::new();
    for value in guest.list("flash", MAX_FLASH, FLASH)? {
        match value.get_ref() {
            DeValue::String(name) if !name.is_empty() => files.push(name.to_string()),
            _ => return Err(guest.wrong("flash", value.span(), FLASH)),
        }
    }
    Ok(files)
}

fn fw_cfg(guest: &Table<'_>) -> Result<Vec<FwCfgFile<String>>, BundleError> {
    const NAME: &str =
        "expected \"opt/\" and more, such as \"opt/org.example/settings\", 55 characters of ASCII at most, no blanks";
    const ONE: &str = "its contents are either in a `file` or a `string`; expected one of both";
    let mut files: Vec<FwCfgFile<String>> = Vec::new();
    for value in guest.list("fw_cfg", MAX_FW_CFG, FW_CFG)? {
        let DeValue::Table(table) = value.get_ref() else {
            return Err(guest.wrong("fw_cfg", value.span(), FW_CFG));
        };
        let table = guest.inner(table, value.span(), "[[guest.fw_cfg]]");
        table.only(FW_CFG_KEYS)?;
        let name = table.required("name")?;
        if !is_fw_cfg_name(name.get_ref()) {
            return Err(table.wrong("name", name.span(), NAME));
        }
        if files.iter().any(|file| file.name == *name.get_ref()) {
            let expected = "another file of this guest's fw_cfg has it; names must differ";
            return Err(table.wrong("name", name.span(), expected));
        }
        let source = match (table.string("file")?, table.string("string")?) {
            (Some(file), None) if file.get_ref().is_empty() => {
                return Err(table.wrong("file", file.span(), "expected the name of a file"));
            }
            (Some(file), None) => FwCfgSource::File(file.get_ref().to_string()),
            (None, Some(text)) if text.get_ref().len() > MAX_FW_CFG_STRING => {
                let expected = "expected 4096 bytes at most; what is longer can be in a `file`";
                return Err(table.wrong("string", text.span(), expected));
            }
            (None, Some(text)) => FwCfgSource::Text(text.get_ref().to_string()),
            (Some(_), Some(text)) => return Err(table.wrong("string", text.span(), ONE)),
            (None, None) => return Err(table.wrong("fw_cfg", value.span(), ONE)),
        };
        files.push(FwCfgFile { name: name.get_ref().to_string(), source });
    }
    Ok(files)
}

fn disks(guest: &Table<'_>) -> Result<Vec<Disk<String>>, BundleError> {
    let mut disks: Vec<Disk<String>> = Vec::new();
    for value in guest.list("disks", MAX_DISKS, DISKS)? {
        let DeValue::Table(table) = value.get_ref() else {
            return Err(guest.wrong("disks", value.span(), DISKS));
        };
        let table = guest.inner(table, value.span(), "[[guest.disks]]");
        table.only(DISK_KEYS)?;
        let source = disk_source(&table)?;
        let of_file = matches!(source, DiskSource::File(_));
        let mode = match table.word("mode", DiskMode::WORDS)? {
            // A file can be shared and changed at no risk; of the board's own disks, nothing is changed unasked.
            None if of_file => DiskMode::CopyOnWrite,
            None => DiskMode::ReadOnly,
            Some(mode) if of_file && *mode.get_ref() == DiskMode::ReadWrite => {
                let expected = "a `file` is in the bundle, where nothing is written back; expected \"read-only\" or \
                                \"copy-on-write\"";
                return Err(table.wrong("mode", mode.span(), expected));
            }
            Some(mode) => mode.into_inner(),
        };
        let name = match table.string("name")? {
            Some(name) if !is_name(name.get_ref(), MAX_DISK_NAME) => {
                return Err(table.wrong("name", name.span(), DISK_NAME));
            }
            Some(name) if disks.iter().any(|d| d.name == *name.get_ref()) => {
                return Err(table.wrong("name", name.span(), "another disk of this guest has it; names must differ"));
            }
            Some(name) => name.get_ref().to_string(),
            None => (disks.len()..)
                .map(|n| alloc::format!("disk{n}"))
                .find(|n| disks.iter().all(|d| d.name != *n))
                .unwrap_or_default(),
        };
        disks.push(Disk { name, source, mode });
    }
    Ok(disks)
}

fn disk_source(table: &Table<'_>) -> Result<DiskSource<String>, BundleError> {
    const ONE: &str = "a disk has either a `file` or a `host`, not both";
    const HOST: &str = "expected true, for the board's first disk, or a disk's name, such as \"mmc0\"";
    match (table.string("file")?, table.get("host").map(|value| (value.get_ref(), value.span()))) {
        (None, None) => Err(BundleError::NoDiskSource { line: table.line }),
        (Some(_), Some((_, at))) => Err(table.wrong("host", at, ONE)),
        (Some(file), None) if file.get_ref().is_empty() => {
            Err(table.wrong("file", file.span(), "expected the name of a file"))
        }
        (Some(file), None) => Ok(DiskSource::File(file.get_ref().to_string())),
        (None, Some((DeValue::Boolean(true), _))) => Ok(DiskSource::FirstHostDisk),
        (None, Some((DeValue::String(name), _))) if is_name(name, MAX_NAME) => {
            Ok(DiskSource::HostDisk(name.to_string()))
        }
        (None, Some((_, at))) => Err(table.wrong("host", at, HOST)),
    }
}

fn networks(guest: &Table<'_>, index: u8) -> Result<Vec<Network>, BundleError> {
    const MAC: &str = "expected the address of one card, such as \"02:00:00:12:34:56\"";
    let mut networks = Vec::new();
    for value in guest.list("networks", MAX_NETWORKS, NETWORKS)? {
        let generated = Mac::generated(index, networks.len() as u8);
        let (name, mac) = match value.get_ref() {
            DeValue::String(name) => (Spanned::new(value.span(), name.as_ref()), generated),
            DeValue::Table(table) => {
                let table = guest.inner(table, value.span(), "`networks`");
                table.only(NETWORK_KEYS)?;
                let mac = match table.string("mac")? {
                    None => generated,
                    Some(mac) => Mac::parse(mac.get_ref()).ok_or_else(|| table.wrong("mac", mac.span(), MAC))?,
                };
                (table.required("name")?, mac)
            }
            _ => return Err(guest.wrong("networks", value.span(), NETWORKS)),
        };
        if !is_name(name.get_ref(), MAX_NAME) {
            return Err(guest.wrong("networks", name.span(), NETWORK_NAME));
        }
        networks.push(Network { name: name.get_ref().to_string(), mac });
    }
    Ok(networks)
}

fn is_name(name: &str, longest: usize) -> bool {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
    !name.is_empty() && name.len() <= longest && name.bytes().all(legal)
}

/// No two cards have one address: a switch could not tell them apart.
fn addresses_differ(guests: &[GuestEntry]) -> Result<(), BundleError> {
    let mut seen: Vec<(Mac, &str)> = Vec::new();
    for guest in guests {
        for card in &guest.options.networks {
            if let Some((mac, first)) = seen.iter().find(|(mac, _)| *mac == card.mac) {
                return Err(BundleError::DuplicateMac { line: guest.line, mac: *mac, first: (*first).to_string() });
            }
            seen.push((card.mac, &guest.name));
        }
    }
    Ok(())
}

/// A disk of the board that one guest may change is no other's: neither file systems nor people expect that. The first
/// disk may be any.
fn host_disks_are_safe(guests: &[GuestEntry]) -> Result<(), BundleError> {
    let mut seen: Vec<(&Disk<String>, &str)> = Vec::new();
    for guest in guests {
        for disk in guest.disks.iter().filter(|d| !matches!(d.source, DiskSource::File(_))) {
            let same = |other: &Disk<String>| match (&disk.source, &other.source) {
                (DiskSource::HostDisk(a), DiskSource::HostDisk(b)) => a == b,
                _ => true,
            };
            let writes = |d: &Disk<String>| d.mode == DiskMode::ReadWrite;
            if let Some((_, first)) = seen.iter().find(|(d, _)| same(d) && (writes(d) || writes(disk))) {
                return Err(BundleError::SharedHostDisk { line: guest.line, first: (*first).to_string() });
            }
            seen.push((disk, &guest.name));
        }
    }
    Ok(())
}
