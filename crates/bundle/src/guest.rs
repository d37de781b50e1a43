//! What a guest is made of, in two forms: a [`GuestEntry`] as a manifest names it, with file names, and a [`GuestSpec`]
//! as a board loads it, with the files' bytes.
//!
//! Everything that a guest may have has a default, and the defaults are a plain guest: a kernel, memory, a console, and
//! the same share of the processor as the others. Devices are there only when they are named: each costs a guest time
//! at its boot, and Spica memory.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::Mac;
use crate::image::{Address, Kernel};

/// The most guests of a board.
pub const MAX_GUESTS: usize = 8;
/// The most disks of a guest. Disks, network cards and the three small devices must fit the guest machine's 32 slots.
pub const MAX_DISKS: usize = 16;
/// The most network cards of a guest.
pub const MAX_NETWORKS: usize = 8;
/// The longest name of a guest or a network, in bytes.
pub const MAX_NAME: usize = 32;
/// The longest name of a disk in bytes: virtio's `VIRTIO_BLK_T_GET_ID` gives as many (virtio 1.2, §5.2.6).
pub const MAX_DISK_NAME: usize = 20;
/// The most files of a guest's in its firmware configuration device, which has room for 32.
pub const MAX_FW_CFG: usize = 16;
/// The longest name of such a file, in bytes: that of QEMU's device.
pub const MAX_FW_CFG_NAME: usize = 55;
/// The longest contents of such a file in the manifest itself, in bytes. The board keeps a copy.
pub const MAX_FW_CFG_STRING: usize = 4096;
/// The name of the disk with a [`System`].
pub const SYSTEM_DISK: &str = "root";
/// The share of the processor of a guest that says nothing of it.
pub const DEFAULT_WEIGHT: u32 = 100;
/// The largest share; the smallest is 1.
pub const MAX_WEIGHT: u32 = 1000;

/// What happens to a guest that has ended. A reset that the guest itself asked for is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restart {
    /// It stays off.
    Never,
    /// It starts again if an error stopped it, but stays off if it switched itself off.
    #[default]
    OnCrash,
    /// It starts again in any case.
    Always,
}

/// What runs a guest's kernel: docs/in-place.md has both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Translated blocks.
    Blocks,
    /// Its own code at its own addresses, as far as that can be, and blocks for the rest. With where it begins, if that
    /// is said.
    InPlace(Option<KernelBase>),
}

/// Where the kernel of a guest begins whose code runs in place: a multiple of 16 MiB, with room for that much in front
/// of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelBase(u32);

/// A system that the development machine makes, with a disk of its own, named [`SYSTEM_DISK`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    /// A whole Debian: systemd, ssh, and so on.
    Debian,
    /// The same with fewer packages, which is made sooner.
    DebianSmall,
}

/// Who may change what is on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskMode {
    /// Nobody: the guest's writes fail.
    ReadOnly,
    /// The guest changes a copy of its own, which is gone when the board is switched off.
    CopyOnWrite,
    /// The guest changes the disk itself; only of the board's own disks.
    ReadWrite,
}

/// Where the contents of a disk are. `F` is a file's name in a manifest, its bytes on a board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskSource<F> {
    /// In a file of the archive, which several guests may share.
    File(F),
    /// On the board's first own disk.
    FirstHostDisk,
    /// On the board's own disk of this name.
    HostDisk(String),
}

/// A disk of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk<F> {
    /// What the guest reads as the disk's serial number: `/dev/disk/by-id/virtio-NAME` in Linux. Unique in the guest.
    pub name: String,
    /// Its contents. A file's length is a multiple of 512 and not 0, once [`crate::Bundle::parse`] has let it pass.
    pub source: DiskSource<F>,
    /// Who may change them.
    pub mode: DiskMode,
}

/// Where the contents of a file in the firmware configuration device are. `F` as in [`DiskSource`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FwCfgSource<F> {
    /// In a file of the archive.
    File(F),
    /// In the manifest itself.
    Text(String),
}

/// A file that the guest, or its firmware, finds in its firmware configuration device, fw_cfg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FwCfgFile<F> {
    /// Its name, unique in the guest: see [`is_fw_cfg_name`].
    pub name: String,
    /// Its contents.
    pub source: FwCfgSource<F>,
}

/// Whether a file in fw_cfg may have this name: `opt/` and more, at most [`MAX_FW_CFG_NAME`] printable characters of
/// ASCII. What does not begin so is the machine's own (QEMU's docs/specs/fw_cfg.rst, "Externally Provided Items").
#[must_use]
pub fn is_fw_cfg_name(name: &str) -> bool {
    let rest = name.strip_prefix("opt/").unwrap_or_default();
    !rest.is_empty() && name.len() <= MAX_FW_CFG_NAME && rest.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A network card of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The switch that it is connected to: guests at a switch of the same name reach each other.
    pub name: String,
    /// Its address, unique on the board. [`Mac::generated`] unless the manifest says another.
    pub mac: Mac,
}

/// One `[[guest]]` of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestEntry {
    /// The line of the manifest on which the guest begins, from 1.
    pub line: usize,
    /// Its name.
    pub name: String,
    /// The kernel's file. `None` only on the development machine ([`crate::Place::Workstation`]), where it means
    /// Debian.
    pub kernel: Option<String>,
    /// Where its kernel goes, if that is a raw image.
    pub address: Address,
    /// The files in flash, bank by bank, with which the guest starts; none or [`MAX_FLASH`] at most. Its kernel, if
    /// there is one, is then for what is in flash to start.
    pub flash: Vec<String>,
    /// A whole system in place of `kernel` and `initrd`. Only on the development machine, which makes these and a disk
    /// of it.
    pub system: Option<System>,
    /// The initial RAM disk's file.
    pub initrd: Option<String>,
    /// The device tree's file; without one, Spica describes the guest machine to the guest.
    pub dtb: Option<String>,
    /// The kernel's command line; empty when the manifest has none.
    pub append: String,
    /// The size of its RAM in bytes.
    pub memory_bytes: u32,
    /// All the rest.
    pub options: GuestOptions,
    /// Files in its firmware configuration device.
    pub fw_cfg: Vec<FwCfgFile<String>>,
    /// Its disks, in the order of their slots.
    pub disks: Vec<Disk<String>>,
}

impl GuestEntry {
    /// A guest of this name and memory in bytes, with nothing else.
    #[must_use]
    pub fn new(name: impl Into<String>, memory_bytes: u32) -> Self {
        Self {
            line: 1,
            name: name.into(),
            kernel: None,
            address: Address::default(),
            flash: Vec::new(),
            system: None,
            initrd: None,
            dtb: None,
            append: String::new(),
            memory_bytes,
            options: GuestOptions::default(),
            fw_cfg: Vec::new(),
            disks: Vec::new(),
        }
    }

    /// Whether it is Debian's: it says nothing of what it starts with.
    #[must_use]
    pub fn is_debian(&self) -> bool {
        self.kernel.is_none() && self.flash.is_empty()
    }

    /// Every file that the guest needs, with the key that names it.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let keys = [("kernel", &self.kernel), ("initrd", &self.initrd), ("dtb", &self.dtb)];
        let plain = keys.into_iter().filter_map(|(key, file)| Some((key, file.as_deref()?)));
        let flash = self.flash.iter().map(|file| ("flash", file.as_str()));
        let fw_cfg = self.fw_cfg.iter().filter_map(|file| match &file.source {
            FwCfgSource::File(name) => Some(("file", name.as_str())),
            FwCfgSource::Text(_) => None,
        });
        plain.chain(flash).chain(fw_cfg).chain(self.disks.iter().filter_map(|disk| match &disk.source {
            DiskSource::File(name) => Some(("file", name.as_str())),
            _ => None,
        }))
    }
}

/// The banks of flash of a guest.
pub const MAX_FLASH: usize = 2;
/// The addresses of a bank, and so the most bytes of a file in it.
pub const FLASH_BANK: usize = 64 << 20;
/// A bank has memory for so many bytes, or a multiple.
pub const FLASH_UNIT: u32 = 1 << 20;

/// What a guest starts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start<'a> {
    /// A kernel.
    Kernel(Kernel<'a>),
    /// Firmware in flash.
    Firmware {
        /// The contents of each bank. The first has some.
        banks: [&'a [u8]; MAX_FLASH],
        /// The file of the kernel that it finds in fw_cfg, to start it. Nobody else has looked at it.
        kernel: Option<&'a [u8]>,
    },
}

/// The bytes of memory of the guest's banks of flash, if there is any: each has room for its file, and some.
#[must_use]
pub const fn flash_bytes(files: [usize; MAX_FLASH]) -> [u32; MAX_FLASH] {
    [flash_room(files[0]), flash_room(files[1])]
}

const fn flash_room(len: usize) -> u32 {
    let least = if len == 0 { 1 } else { len };
    least.next_multiple_of(FLASH_UNIT as usize) as u32
}

/// What a guest is given beside its files and memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestOptions {
    /// Its share of the processor, relative to the weights of the guests that want to run at the same time: 1 to
    /// [`MAX_WEIGHT`].
    pub weight: u32,
    /// What happens when it has ended.
    pub restart: Restart,
    /// Whether it starts when the board does; if not, when the monitor is told to `start` it.
    pub autostart: bool,
    /// What runs its kernel; `None`: what the board's command line says.
    pub engine: Option<Engine>,
    /// Its network cards, in the order of their slots.
    pub networks: Vec<Network>,
    /// Whether it has a virtio console (`hvc0` in Linux) beside the UART; both write to the guest's console.
    pub console: bool,
    /// Whether it has a virtio source of random numbers.
    pub rng: bool,
    /// Whether it has a virtio memory balloon, by which it gives memory back.
    pub balloon: bool,
}

impl Default for GuestOptions {
    fn default() -> Self {
        Self {
            weight: DEFAULT_WEIGHT,
            restart: Restart::default(),
            autostart: true,
            engine: None,
            networks: Vec::new(),
            console: false,
            rng: false,
            balloon: false,
        }
    }
}

/// One guest of a bundle, ready to be loaded: its files borrow from the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestSpec<'a> {
    /// Its name, unique in the bundle: 1 to [`MAX_NAME`] of `a`–`z`, `0`–`9`, `-`, `_`, `.`; neither `all` nor a
    /// number.
    pub name: String,
    /// What it starts with.
    pub start: Start<'a>,
    /// The initial RAM disk's file, if there is one. With firmware, it is in fw_cfg, as the kernel is.
    pub initrd: Option<&'a [u8]>,
    /// The device tree that the guest is to see; `None`: one that describes the guest machine.
    pub dtb: Option<&'a [u8]>,
    /// The kernel's command line; may be empty.
    pub append: String,
    /// The size of its RAM in bytes: a multiple of 1 MiB from [`crate::MIN_MEMORY`] to [`crate::MAX_MEMORY`].
    pub memory_bytes: u32,
    /// What it is given beside that.
    pub options: GuestOptions,
    /// Files in its firmware configuration device.
    pub fw_cfg: Vec<FwCfgFile<&'a [u8]>>,
    /// Its disks, in the order of their slots. Equal files are the same bytes.
    pub disks: Vec<Disk<&'a [u8]>>,
}

impl<'a> GuestSpec<'a> {
    /// A guest with this zImage and as many bytes of memory, with nothing else.
    #[must_use]
    pub fn new(name: impl Into<String>, kernel: &'a [u8], memory_bytes: u32) -> Self {
        Self {
            name: name.into(),
            start: Start::Kernel(Kernel::ZImage(kernel)),
            initrd: None,
            dtb: None,
            append: String::new(),
            memory_bytes,
            options: GuestOptions::default(),
            fw_cfg: Vec::new(),
            disks: Vec::new(),
        }
    }

    /// The bytes of memory of its banks of flash; none at all if it has no flash.
    #[must_use]
    pub const fn flash_bytes(&self) -> [u32; MAX_FLASH] {
        match self.start {
            Start::Kernel(_) => [0; MAX_FLASH],
            Start::Firmware { banks: [first, second], .. } => flash_bytes([first.len(), second.len()]),
        }
    }
}

impl Restart {
    /// All policies with the words of the manifest.
    pub(crate) const WORDS: &'static [(&'static str, Self)] =
        &[("never", Self::Never), ("on-crash", Self::OnCrash), ("always", Self::Always)];
}

impl Engine {
    /// What [`Self::parse`] takes, for whoever wrote something else.
    pub(crate) const EXPECTED: &'static str = "expected \"in-place\", \"blocks\", or \"in-place@0x80000000\" with the \
                                               address where the kernel begins, a multiple of 16 MiB";

    /// `blocks`, `in-place`, or `in-place@` and a [`KernelBase`].
    pub(crate) fn parse(word: &str) -> Option<Self> {
        match word.split_once('@') {
            None if word == "blocks" => Some(Self::Blocks),
            None if word == "in-place" => Some(Self::InPlace(None)),
            Some(("in-place", base)) => KernelBase::parse(base).map(|base| Self::InPlace(Some(base))),
            _ => None,
        }
    }
}

impl KernelBase {
    /// Hexadecimal, behind `0x`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let base = u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
        let fits = base.is_multiple_of(16 << 20) && (0x100_0000..=0xe000_0000).contains(&base);
        fits.then_some(Self(base))
    }

    /// The address.
    #[must_use]
    pub const fn address(self) -> u32 {
        self.0
    }
}

impl System {
    /// All systems with the words of the manifest.
    pub(crate) const WORDS: &'static [(&'static str, Self)] =
        &[("debian", Self::Debian), ("debian-small", Self::DebianSmall)];
}

impl DiskMode {
    /// All modes with the words of the manifest.
    pub(crate) const WORDS: &'static [(&'static str, Self)] =
        &[("read-only", Self::ReadOnly), ("copy-on-write", Self::CopyOnWrite), ("read-write", Self::ReadWrite)];
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word(Self::WORDS, *self))
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blocks => f.write_str("blocks"),
            Self::InPlace(None) => f.write_str("in-place"),
            Self::InPlace(Some(base)) => write!(f, "in-place@{:#x}", base.address()),
        }
    }
}

impl fmt::Display for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word(Self::WORDS, *self))
    }
}

impl fmt::Display for DiskMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word(Self::WORDS, *self))
    }
}

fn word<T: Copy + PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    words.iter().find(|(_, v)| *v == value).map_or("", |(word, _)| word)
}
