//! From what is asked for to what a board boots: files checked, the bundle made, the command line put together.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use spica_bundle::{
    Address, FwCfgFile, FwCfgSource, GuestEntry, Kernel, MAX_MEMORY, Restart, check_firmware, parse_memory,
};

use crate::board::Board;
use crate::control::server::{Server, Who};
use crate::debian;
use crate::emulator::Emulator;
use crate::error::{Context, Error, Result};
use crate::files::Files;
use crate::fit::{self, Loader, Room, Wish, Wishes};
use crate::guest::{self, Guest};
use crate::guests::{Draft, Packed, Source};
use crate::image::{self, Image};
use crate::initramfs::Overlay;
use crate::names::{self, Names};
use crate::needed;
use crate::plugged::Plugged;
use crate::project::{Project, create_dir, read, write};
use crate::qemu::{Boot, Plugin, Session};
use crate::regular::{self, Most};
use crate::scratch::Scratch;
use crate::system;
use crate::unpacked;

/// Seconds since 1970 at the boot of a board whose time is the count of instructions: 2026-01-01, as for QEMU's clock.
const ICOUNT_TIME: u64 = 1_767_225_600;

const MIB: u64 = 1 << 20;

/// What is to be run. `None` leaves a choice to the guest of `guests/debian`.
#[derive(Clone, Debug)]
pub struct Request {
    /// The board.
    pub board: &'static Board,
    /// Whether the guest boots on the board itself, without Spica.
    pub native: bool,
    /// The run's name, for `spica list --run` and the like; `None`: the number of the process.
    pub label: Option<String>,
    /// Several guests, in place of the one that the fields from `kernel` to `memory` describe.
    pub guests: Option<Source>,
    /// The kernel.
    pub kernel: Option<PathBuf>,
    /// Whether Debian's kernel comes without its decompressor ([`unpacked`]).
    pub unpacked: bool,
    /// The initial RAM disk.
    pub initrd: Option<PathBuf>,
    /// What is added to the command line, which begins with the console.
    pub append: String,
    /// The guest's memory.
    pub memory: Option<String>,
    /// Files laid over the initial RAM disk.
    pub overlay: Overlay,
    /// Spica's own command line.
    pub spica_append: String,
    /// If the emulated time is the count of executed instructions, how long one takes: 2 to the power of this
    /// nanoseconds.
    pub icount: Option<u8>,
    /// Where the kernel goes, if it is a raw image.
    pub address: Address,
    /// A file with firmware, which starts from flash. It finds kernel and initial RAM disk, as they are in their files,
    /// and what is added to the command line in fw_cfg, if there is a kernel.
    pub bios: Option<PathBuf>,
    /// Files for the guest's fw_cfg, with their names there.
    pub fw_cfg: Vec<(String, PathBuf)>,
    /// What is plugged into the board.
    pub plugged: Plugged,
}

impl Request {
    /// The Debian guest under Spica on a board.
    #[must_use]
    pub fn new(board: &'static Board) -> Self {
        Self {
            board,
            native: false,
            label: None,
            guests: None,
            kernel: None,
            unpacked: false,
            initrd: None,
            append: String::new(),
            memory: None,
            overlay: Overlay::new(),
            spica_append: String::new(),
            icount: None,
            address: Address::default(),
            bios: None,
            fw_cfg: Vec::new(),
            plugged: Plugged::default(),
        }
    }
}

/// A run that is ready to start. Dropping it removes its files.
#[derive(Debug)]
pub struct Run {
    /// The board.
    pub board: &'static Board,
    /// Whether the guest boots without Spica.
    pub native: bool,
    /// The run's name.
    pub label: String,
    /// The guests' names in Spica's lines.
    pub names: Vec<String>,
    kernel: PathBuf,
    initrd: PathBuf,
    append: String,
    device_tree: Option<PathBuf>,
    board_memory_mib: u32,
    icount: Option<u8>,
    plugged: Vec<String>,
    /// A plugin's argument, and the QEMU that can load it.
    plugin: Option<(String, Emulator)>,
    scratch: Scratch,
}

impl Run {
    /// A run on the board of `request`, still without a kernel, and with Spica's command line.
    fn new(project: &Project, request: &Request, debian: &Guest, names: Vec<String>, memory_mib: u32) -> Result<Self> {
        let scratch = Scratch::new(&project.build("run"))?;
        // The boards have no clock that runs. With counted instructions, equal runs need an equal time.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let time = if request.icount.is_some() { ICOUNT_TIME } else { now };
        Ok(Self {
            board: request.board,
            native: request.native,
            label: request.label.clone().unwrap_or_else(|| std::process::id().to_string()),
            names,
            kernel: PathBuf::new(),
            initrd: names::bundle_in(scratch.path()),
            append: join(&request.spica_append, &format!("spica.time={time}")),
            device_tree: request.board.device_tree.map(|d| debian.device_trees.join(d)),
            board_memory_mib: memory_mib,
            icount: request.icount,
            plugged: request.plugged.options(),
            plugin: None,
            scratch,
        })
    }

    /// What the board boots.
    #[must_use]
    pub fn boot(&self) -> Boot<'_> {
        Boot {
            kernel: &self.kernel,
            initrd: Some(&self.initrd),
            append: &self.append,
            device_tree: self.device_tree.as_deref(),
            memory_mib: Some(self.board_memory_mib),
            icount: self.icount,
            plugged: &self.plugged,
            debug: None,
            plugin: self.plugin.as_ref().map(|(argument, emulator)| Plugin { argument, emulator: Some(emulator) }),
        }
    }

    /// Has QEMU load a plugin.
    pub fn load(&mut self, argument: String, emulator: Emulator) {
        self.plugin = Some((argument, emulator));
    }

    /// Starts the board. With Spica on it, it can be controlled from other terminals (see [`crate::control`]).
    ///
    /// # Errors
    /// As [`Session::start`].
    pub fn start(&self, log: Option<&Path>, verbose: bool) -> Result<Session> {
        let mut session = Session::start(self.board, &self.boot(), log, verbose)?;
        if !self.native {
            self.serve(&mut session)?;
        }
        Ok(session)
    }

    /// Lets a board of this run, with Spica on it, be controlled from elsewhere.
    ///
    /// # Errors
    /// If there can be no socket.
    pub fn serve(&self, session: &mut Session) -> Result<()> {
        let (run, board, guests) = (self.label.clone(), self.board.name.to_string(), self.names.clone());
        session.serve(Server::open(self.scratch.path(), Who { run, board, guests })?);
        Ok(())
    }

    /// The names of the guests' functions, for Spica's reports.
    #[must_use]
    pub fn function_names(&self) -> Names {
        if self.native { Names::default() } else { Names::of(names::bundle_in(self.scratch.path())) }
    }

    /// The board's memory in MiB.
    #[must_use]
    pub fn board_memory_mib(&self) -> u32 {
        self.board_memory_mib
    }
}

/// Makes a run ready: builds and fetches what it needs, and checks what can be checked before a board starts.
///
/// # Errors
/// The first thing that is missing or does not fit.
pub fn prepare(project: &Project, request: &Request) -> Result<Run> {
    request.plugged.check(request.board)?;
    let mut programs = vec![needed::QEMU];
    if !request.native {
        programs.extend(Image::for_words(&request.spica_append).tools(project));
    }
    needed::check(&programs)?;
    if let Some(source) = &request.guests {
        return prepare_several(project, request, source);
    }
    let board = request.board;
    // A mistake of the user's is said before anything is built or fetched.
    let most = Most::memory(board.name, board.memory_mib);
    let named = |option, error: Error| Error { message: format!("--{option}: {}", error.message), ..error };
    let own_kernel = request.kernel.as_deref().map(|path| regular::read(path, &most));
    let own_kernel = own_kernel.transpose().map_err(|e| named("kernel", e))?;
    let bios = request.bios.as_deref().map(|path| regular::read(path, &most));
    let bios = bios.transpose().map_err(|e| named("bios", e))?;
    if let (Some(path), Some(bytes)) = (&request.bios, &bios) {
        let begins = check_firmware(bytes);
        begins.map_err(|e| Error::usage(format!("--bios: {}: {e}", path.display())))?;
    }
    if bios.is_some() && request.initrd.is_some() && request.kernel.is_none() {
        return Err(Error::usage(
            "--initrd with --bios is for the kernel that the firmware starts: expected --kernel, too".to_string(),
        ));
    }
    let own_initrd = request.initrd.as_deref().map(|path| regular::read(path, &most));
    let own_initrd = own_initrd.transpose().map_err(|e| named("initrd", e))?;
    let fw_cfg = request.fw_cfg.iter().map(|(name, path)| {
        let bytes = regular::read(path, &most).map_err(|e| named("fw-cfg", e))?;
        Ok((name.clone(), bytes))
    });
    let fw_cfg: Vec<(String, Vec<u8>)> = fw_cfg.collect::<Result<_>>()?;
    let memory =
        |text: &str| parse_memory(text).map_err(|e| Error::usage(format!("wrong value {text:?} of --memory: {e}")));
    let own_memory = request.memory.as_deref().map(memory).transpose()?;
    let own = own_kernel.is_some() || own_initrd.is_some() || bios.is_some();
    let name = if own { "guest" } else { "debian" };
    let mut entry = GuestEntry::new(name, own_memory.unwrap_or_default());
    // Whoever watches one guest wants to see its end.
    entry.options.restart = Restart::Never;
    let uplink = request.plugged.give_to(&mut entry);
    let mut linux = bios.is_none();
    if let (Some(path), Some(bytes), None) = (&request.kernel, &own_kernel, &bios) {
        linux = is_linux(path, bytes, request.address, own_memory)?;
    }
    if own_memory.is_some() {
        fits_board(request, &entry, 0, 0)?;
    }

    let (guest, image) = locked(project, || {
        let guest = debian(project, request.unpacked)?;
        let image = match request.native {
            true => None,
            false => Some(image::build(project, Image::for_words(&request.spica_append))?),
        };
        Ok((guest, image))
    })?;
    let kernel = match own_kernel {
        Some(bytes) => bytes,
        None if bios.is_some() => Vec::new(),
        None => regular::read(&guest.kernel, &most)?,
    };
    let has_initrd = own_initrd.is_some() || linux;
    let mut initrd = match own_initrd {
        Some(bytes) => bytes,
        None if linux => read(&guest.initrd)?,
        None => Vec::new(),
    };
    // What firmware passes on is passed on as it is.
    if has_initrd && bios.is_none() {
        request.overlay.append_to(&mut initrd);
    }
    entry.memory_bytes = match own_memory {
        Some(bytes) => bytes,
        None if request.native => board.memory_mib << 20,
        None => memory(&guest.memory)?,
    };
    let needed = (kernel.len() + initrd.len()) as u64;
    if needed > u64::from(entry.memory_bytes) {
        return Err(Error::usage(format!(
            "the guest's memory of {}M is too small: kernel and initrd alone have {}M; give more with --memory",
            u64::from(entry.memory_bytes) / MIB,
            needed.div_ceil(MIB)
        )));
    }

    let mut run = Run::new(project, request, &guest, vec![name.to_string()], board.memory_mib)?;
    match image {
        None => {
            run.kernel = request.kernel.clone().unwrap_or_else(|| guest.kernel.clone());
            run.append = native_command_line(board, request, own_memory);
            write(&run.initrd, &initrd)?;
        }
        Some(image) => {
            let mut files = Files::new(uplink);
            let flash_len = bios.as_ref().map_or(0, |bytes| bytes.len() as u64);
            match bios {
                Some(bytes) => {
                    entry.append.clone_from(&request.append);
                    entry.flash.push(files.add("flash", bytes));
                    entry.kernel = request.kernel.is_some().then(|| files.add("kernel", kernel));
                    entry.initrd = has_initrd.then(|| files.add("initrd", initrd));
                }
                None => {
                    entry.append = join(&guest.append, &request.append);
                    entry.address = request.address;
                    entry.kernel = Some(files.add("kernel", kernel));
                    entry.initrd = has_initrd.then(|| files.add("initrd", initrd));
                }
            }
            for (name, bytes) in fw_cfg {
                entry.fw_cfg.push(FwCfgFile { name, source: FwCfgSource::File(files.add("fw_cfg", bytes)) });
            }
            if own_memory.is_none() {
                // Large files leave less than what guests are given unless somebody says how much. The archive has its
                // manifest and headers as well, less than a megabyte.
                let (room, wishes) = alone(request, &entry, flash_len, files.len() + MIB);
                if let Some(mib) = fit::most_alone(&room, &wishes) {
                    entry.memory_bytes = (mib * MIB) as u32;
                }
            }
            let bundle = files.bundle(vec![entry.clone()])?;
            fits_board(request, &entry, flash_len, bundle.len() as u64)?;
            run.kernel = image;
            write(&run.initrd, &bundle)?;
        }
    }
    Ok(run)
}

/// The same for several guests.
fn prepare_several(project: &Project, request: &Request, source: &Source) -> Result<Run> {
    let room = Room::from(request.board).with_words(&request.spica_append);
    let (mut image, debian, packed) = pack_with(project, source, &room, &request.overlay, request.unpacked)?;
    let which = Image::for_words(&request.spica_append);
    if which != Image::Shipped {
        image = locked(project, || image::build(project, which))?;
    }
    let mut run = Run::new(project, request, &debian, packed.names, packed.board_memory_mib)?;
    run.kernel = image;
    write(&run.initrd, &packed.bundle)?;
    Ok(run)
}

/// Packs guests for a board with that `room`, with `overlay` over the initial RAM disks of Debian's; gives the board
/// image and the Debian guest, too.
///
/// # Errors
/// The first thing that is missing or does not fit.
pub fn pack(
    project: &Project,
    source: &Source,
    room: &Room<'_>,
    overlay: &Overlay,
) -> Result<(PathBuf, Guest, Packed)> {
    pack_with(project, source, room, overlay, false)
}

fn pack_with(
    project: &Project,
    source: &Source,
    room: &Room<'_>,
    overlay: &Overlay,
    unpacked: bool,
) -> Result<(PathBuf, Guest, Packed)> {
    let draft = Draft::read(source, room)?;
    fit::board_memory(room, &draft.wishes())?;
    needed::check(Image::Shipped.tools(project))?;
    let (debian, systems, image) = locked(project, || {
        let debian = debian(project, unpacked)?;
        let make = |name| Ok((name, system::prepare(project, &debian, name, false)?));
        let systems = draft.systems().into_iter().map(make).collect::<Result<_>>()?;
        Ok((debian, systems, image::build(project, Image::Shipped)?))
    })?;
    let packed = draft.complete(room, &debian, &systems, overlay)?;
    Ok((image, debian, packed))
}

/// The Debian guest, with its kernel `unpacked` or as it is in its package.
fn debian(project: &Project, unpacked: bool) -> Result<Guest> {
    let mut guest = guest::prepare(project, false)?;
    if unpacked {
        guest.kernel = unpacked::kernel(project, &guest.kernel)?;
    }
    Ok(guest)
}

/// Fetches the guest, anew with `update`.
///
/// # Errors
/// As [`guest::prepare`].
pub fn fetch(project: &Project, update: bool) -> Result<Guest> {
    locked(project, || guest::prepare(project, update))
}

/// A package of Debian's: [`debian::unpacked`].
///
/// # Errors
/// As there.
pub fn package(project: &Project, package: &str) -> Result<PathBuf> {
    locked(project, || debian::unpacked(project, package))
}

/// The source of a package of Debian's: the archive, fetched if it is not there.
///
/// # Errors
/// If it cannot be fetched.
pub fn source(project: &Project, package: &str) -> Result<PathBuf> {
    locked(project, || debian::source(project, package))
}

/// Builds the board image, if anything changed.
///
/// # Errors
/// As [`image::build`].
pub fn board_image(project: &Project, which: Image) -> Result<PathBuf> {
    locked(project, || image::build(project, which))
}

/// Does work in `build/` that no other run may do at the same time.
fn locked<T>(project: &Project, work: impl FnOnce() -> Result<T>) -> Result<T> {
    create_dir(&project.build(""))?;
    let path = project.build("lock");
    let lock = fs::File::create(&path).context(|| format!("cannot write {}", path.display()))?;
    lock.lock().context(|| format!("cannot lock {}", path.display()))?;
    work()
}

/// Whether a kernel of the user's is Linux, for which Debian's initial RAM disk may do: nothing but a zImage says so.
///
/// # Errors
/// If it cannot be started, with so much memory or as much as there can be.
fn is_linux(path: &Path, bytes: &[u8], address: Address, memory: Option<u32>) -> Result<bool> {
    let kernel = Kernel::parse(bytes, address, memory.unwrap_or(MAX_MEMORY));
    let kernel = kernel.map_err(|e| Error::failed(format!("--kernel: {}: {e}", path.display())))?;
    Ok(matches!(kernel, Kernel::ZImage(_)))
}

/// The memory of the board that boots a guest alone, and what is wanted of it, with a file of `flash` bytes for its
/// flash, if it has any, and a bundle of so many bytes.
fn alone<'a>(request: &'a Request, guest: &GuestEntry, flash: u64, bundle: u64) -> (Room<'a>, Wishes) {
    let board = request.board;
    let uplink = request.plugged.network.is_some();
    let room = Room::new(board.name, [board.memory_mib; 2], Loader::Qemu).with_words(&request.spica_append);
    (room, Wishes { guests: vec![Wish::of(guest, |_| flash)], uplink, bundle })
}

/// Whether a guest fits the board that boots it alone, with a file of `flash` bytes for its flash, if it has any, and a
/// bundle of so many bytes at least.
fn fits_board(request: &Request, guest: &GuestEntry, flash: u64, bundle: u64) -> Result<()> {
    let board = request.board;
    let memory = u64::from(guest.memory_bytes) / MIB;
    if !request.native {
        let (room, wishes) = alone(request, guest, flash, bundle);
        return match fit::board_memory(&room, &wishes) {
            Ok(_) => Ok(()),
            Err(error) => Err(Error::usage(error.message + ", with --memory")),
        };
    }
    if memory > board.memory_mib.into() {
        return Err(Error::usage(format!(
            "a guest with {memory}M does not fit {}, which has {}M; give it {1}M or less, with --memory",
            board.name, board.memory_mib
        )));
    }
    Ok(())
}

fn native_command_line(board: &Board, request: &Request, memory: Option<u32>) -> String {
    let mut line = format!("console={}", board.console);
    if let Some(bytes) = memory {
        line = join(&line, &format!("mem={}M", u64::from(bytes) / MIB));
    }
    join(&line, &request.append)
}

fn join(first: &str, second: &str) -> String {
    format!("{first} {second}").trim().to_string()
}
