//! From what is asked for to what a board boots: files checked, the bundle made, the command line put together.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use spica_bundle::archive::Writer;
use spica_bundle::{Bundle, GuestEntry, MANIFEST, Manifest, ZImage, parse_memory};

use crate::board::Board;
use crate::error::{Context, Error, Result};
use crate::guest::{self, Guest};
use crate::image;
use crate::initramfs::Overlay;
use crate::project::{Project, create_dir, read, write};
use crate::qemu::Boot;

/// Seconds since 1970 at the boot of a board whose time is the count of instructions: 2026-01-01, as for QEMU's clock.
const ICOUNT_TIME: u64 = 1_767_225_600;

const MIB: u64 = 1 << 20;

/// What Spica needs of a board's memory beside guests and the bundle: its image, its tables, and each guest's shadow
/// tables and code cache.
const RESERVE_MIB: u64 = 32;

/// What is to be run. `None` leaves a choice to the guest of `guests/debian`.
#[derive(Clone, Debug)]
pub struct Request {
    /// The board.
    pub board: &'static Board,
    /// Whether the guest boots on the board itself, without Spica.
    pub native: bool,
    /// The kernel.
    pub kernel: Option<PathBuf>,
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
    /// Whether the emulated time is the count of executed instructions.
    pub icount: bool,
}

impl Request {
    /// The Debian guest under Spica on a board.
    #[must_use]
    pub fn new(board: &'static Board) -> Self {
        Self {
            board,
            native: false,
            kernel: None,
            initrd: None,
            append: String::new(),
            memory: None,
            overlay: Overlay::new(),
            spica_append: String::new(),
            icount: false,
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
    /// The guest's name in Spica's lines.
    pub name: &'static str,
    kernel: PathBuf,
    initrd: PathBuf,
    append: String,
    device_tree: Option<PathBuf>,
    icount: bool,
    scratch: PathBuf,
}

impl Run {
    /// What the board boots.
    #[must_use]
    pub fn boot(&self) -> Boot<'_> {
        Boot {
            kernel: &self.kernel,
            initrd: Some(&self.initrd),
            append: &self.append,
            device_tree: self.device_tree.as_deref(),
            icount: self.icount,
            debug: None,
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // What is left behind is in build/run, and does not matter.
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

/// Makes a run ready: builds and fetches what it needs, and checks what can be checked before a board starts.
///
/// # Errors
/// The first thing that is missing or does not fit.
pub fn prepare(project: &Project, request: &Request) -> Result<Run> {
    let board = request.board;
    // A mistake of the user's is said before anything is built or fetched.
    let own_kernel = request.kernel.as_deref().map(kernel_file).transpose()?;
    let own_initrd = request.initrd.as_deref().map(read).transpose()?;
    let memory =
        |text: &str| parse_memory(text).map_err(|e| Error::usage(format!("wrong value {text:?} of --memory: {e}")));
    let own_memory = request.memory.as_deref().map(memory).transpose()?;
    if let Some(bytes) = own_memory {
        fits_board(board, request.native, bytes, 0)?;
    }

    let (guest, image) = locked(project, || {
        let guest = guest::prepare(project, false)?;
        let image = if request.native { None } else { Some(image::build(project)?) };
        Ok((guest, image))
    })?;
    let name = if own_kernel.is_some() || own_initrd.is_some() { "guest" } else { "debian" };
    let kernel = match own_kernel {
        Some(bytes) => bytes,
        None => kernel_file(&guest.kernel)?,
    };
    let mut initrd = match own_initrd {
        Some(bytes) => bytes,
        None => read(&guest.initrd)?,
    };
    request.overlay.append_to(&mut initrd);
    let memory_bytes = match own_memory {
        Some(bytes) => bytes,
        None => memory(&guest.memory)?,
    };
    let needed = (kernel.len() + initrd.len()) as u64;
    if needed > u64::from(memory_bytes) {
        return Err(Error::usage(format!(
            "the guest's memory of {}M is too small: kernel and initrd alone have {}M; give more with --memory",
            u64::from(memory_bytes) / MIB,
            needed.div_ceil(MIB)
        )));
    }

    let scratch = scratch(project)?;
    let mut run = Run {
        board,
        native: request.native,
        name,
        kernel: PathBuf::new(),
        initrd: scratch.join("initrd"),
        append: String::new(),
        device_tree: board.device_tree.map(|d| guest.device_trees.join(d)),
        icount: request.icount,
        scratch,
    };
    match image {
        None => {
            run.kernel = request.kernel.clone().unwrap_or_else(|| guest.kernel.clone());
            run.append = native_command_line(board, request, own_memory);
            write(&run.initrd, &initrd)?;
        }
        Some(image) => {
            let append = join(&guest.append, &request.append);
            let bundle = bundle(name, &kernel, &initrd, append, memory_bytes)?;
            fits_board(board, false, memory_bytes, bundle.len() as u64)?;
            run.kernel = image;
            // The boards have no clock that runs. With counted instructions, equal runs need an equal time.
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            let time = if request.icount { ICOUNT_TIME } else { now };
            run.append = join(&request.spica_append, &format!("spica.time={time}"));
            write(&run.initrd, &bundle)?;
        }
    }
    Ok(run)
}

/// Fetches the guest, anew with `update`.
///
/// # Errors
/// As [`guest::prepare`].
pub fn fetch(project: &Project, update: bool) -> Result<Guest> {
    locked(project, || guest::prepare(project, update))
}

/// Builds the board image, if anything changed.
///
/// # Errors
/// As [`image::build`].
pub fn board_image(project: &Project) -> Result<PathBuf> {
    locked(project, || image::build(project))
}

/// Does work in `build/` that no other run may do at the same time.
fn locked<T>(project: &Project, work: impl FnOnce() -> Result<T>) -> Result<T> {
    create_dir(&project.build(""))?;
    let path = project.build("lock");
    let lock = fs::File::create(&path).context(|| format!("cannot write {}", path.display()))?;
    lock.lock().context(|| format!("cannot lock {}", path.display()))?;
    work()
}

/// A directory for the files of one run.
fn scratch(project: &Project) -> Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = project.build(&format!("run/{}-{count}", std::process::id()));
    create_dir(&dir)?;
    Ok(dir)
}

/// Reads a kernel, and checks that it is one.
fn kernel_file(path: &Path) -> Result<Vec<u8>> {
    let bytes = read(path)?;
    ZImage::parse(&bytes).map_err(|e| Error::failed(format!("{}: {e}", path.display())))?;
    Ok(bytes)
}

/// Makes the archive that Spica boots.
fn bundle(name: &str, kernel: &[u8], initrd: &[u8], append: String, memory_bytes: u32) -> Result<Vec<u8>> {
    let guest = GuestEntry {
        kernel: Some("kernel".to_string()),
        initrd: Some("initrd".to_string()),
        append,
        ..GuestEntry::new(name, memory_bytes)
    };
    let mut archive = Writer::new();
    archive.file(MANIFEST, 0o644, Manifest { guests: vec![guest] }.to_toml().as_bytes());
    archive.file("kernel", 0o644, kernel);
    archive.file("initrd", 0o644, initrd);
    let bytes = archive.finish();
    Bundle::parse(&bytes).map_err(|e| Error::failed(e.to_string()))?;
    Ok(bytes)
}

fn fits_board(board: &Board, native: bool, memory_bytes: u32, bundle: u64) -> Result<()> {
    let reserve = if native { 0 } else { RESERVE_MIB + bundle.div_ceil(MIB) };
    let most = u64::from(board.memory_mib) - reserve;
    let memory = u64::from(memory_bytes) / MIB;
    if memory > most {
        return Err(Error::usage(format!(
            "a guest with {memory}M does not fit: {} has {}M, of which a guest can have {most}M; give less with --memory",
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
