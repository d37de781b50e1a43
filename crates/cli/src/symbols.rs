//! What is found in the memory of a guest's kernel, by questions to the monitor: the names of its functions, and its
//! log.

use std::collections::BTreeMap;
use std::ops::Range;

use spica_console::base64;
use spica_console::debug::{DUMP_BYTES, FIND_BYTES};
use spica_kallsyms::tables::Memory;
use spica_kallsyms::{Problem, Symbol, elf};
use spica_kernel_log::Log;
use spica_runner::control::client::Board;
use spica_runner::control::reply;
use spica_runner::error::{Error, Result};
use spica_runner::progress::Step;

use crate::allocator::{self, Allocator};
use crate::switching::{self, Switching};
use crate::unwind::Tables;

/// Where a guest's RAM begins.
pub(crate) const RAM: u32 = 0x4000_0000;
/// How far a kernel reaches from there at most: Debian's 6.1 takes 30 MiB.
const KERNEL: u32 = 48 << 20;
/// Its code comes first, which takes so much as a rule: there is nothing to be found there.
const CODE: u32 = 8 << 20;

/// An ELF file of symbols, and how many there are.
pub struct Symbols {
    /// The file's contents.
    pub file: Vec<u8>,
    /// How many symbols it has.
    pub count: usize,
}

/// The physical memory of a guest.
struct GuestMemory<'a> {
    board: &'a mut Board,
    guest: usize,
    progress: &'a mut dyn FnMut(),
}

impl GuestMemory<'_> {
    /// The addresses of its RAM.
    fn ram(&mut self) -> Result<Range<u32>> {
        let guests = reply::guests(&self.board.ask("list")?)?;
        let mib = guests.iter().find(|it| it.index as usize == self.guest).map_or(0, |it| it.memory_mib);
        Ok(RAM..RAM + (mib << 20))
    }

    fn ask(&mut self, question: &str) -> std::result::Result<Vec<String>, Problem> {
        (self.progress)();
        self.board.ask(&format!("debug {} {question}", self.guest)).map_err(|error| error.message)
    }
}

impl Memory for GuestMemory<'_> {
    fn find(&mut self, from: u32, to: u32, pattern: &[u8]) -> std::result::Result<Option<u32>, Problem> {
        let digits: String = pattern.iter().map(|byte| format!("{byte:02x}")).collect();
        for from in (from..to).step_by(FIND_BYTES as usize) {
            let bytes = (to - from).min(FIND_BYTES);
            let lines = self.ask(&format!("find {from:x} {bytes:x} {digits}"))?;
            let found = lines.first().and_then(|line| u32::from_str_radix(line.strip_prefix("found ")?, 16).ok());
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn read(&mut self, at: u32, bytes: u32) -> std::result::Result<Vec<u8>, Problem> {
        let mut read = Vec::new();
        while (read.len() as u32) < bytes {
            let piece = (bytes - read.len() as u32).min(DUMP_BYTES);
            let lines = self.ask(&format!("dump {:x} {piece:x}", at + read.len() as u32))?;
            let before = read.len();
            for line in lines {
                let bytes = line.strip_prefix("memory ").and_then(base64::decode);
                read.extend(bytes.ok_or("the board answered what this version does not understand")?);
            }
            if read.len() - before != piece as usize {
                break;
            }
        }
        read.truncate(bytes as usize);
        Ok(read)
    }
}

/// Finds the names of the functions of a kernel.
fn find(memory: &mut GuestMemory<'_>) -> Result<Vec<Symbol>> {
    let range = memory.ram()?;
    let range = range.start..range.end.min(RAM + KERNEL);
    spica_kallsyms::find(memory, range, RAM + CODE).map_err(Error::failed)
}

/// Reads the symbols of guest number `guest`. `progress` is called again and again meanwhile.
///
/// # Errors
/// If it has no Linux kernel that runs and has them, or the board has gone.
pub fn read(board: &mut Board, guest: usize, progress: &mut dyn FnMut()) -> Result<Symbols> {
    let symbols = find(&mut GuestMemory { board, guest, progress })?;
    let file = elf::write(&symbols).map_err(Error::failed)?;
    Ok(Symbols { file, count: symbols.len() })
}

/// Reads the names of the kernel of guest number `guest`, in the order of their addresses.
///
/// # Errors
/// As [`read`].
pub fn names(board: &mut Board, guest: usize) -> Result<Vec<Symbol>> {
    find(&mut GuestMemory { board, guest, progress: &mut || () })
}

/// What the Linux kernel of guest number `guest` calls itself, as `uname -r` says in the guest: it is the guest's own
/// text, of letters, digits and `.+-_~`.
///
/// # Errors
/// If it has no Linux kernel, or the board has gone.
pub fn release(board: &mut Board, guest: usize) -> Result<String> {
    let mut memory = GuestMemory { board, guest, progress: &mut || () };
    let range = memory.ram()?;
    let (mut from, to) = (range.start, range.end.min(RAM + KERNEL));
    // Where a kernel has its banner, for /proc/version, or others have a format for it.
    for _ in 0..MOST_BANNERS {
        let Some(at) = memory.find(from, to, BANNER).map_err(Error::failed)? else { break };
        let text = memory.read(at + BANNER.len() as u32, MOST_RELEASE).map_err(Error::failed)?;
        let name = text.split(|byte| *byte == b' ').next().filter(|name| name.len() < text.len()).unwrap_or_default();
        let is_known = |byte: &u8| byte.is_ascii_alphanumeric() || b".+-_~".contains(byte);
        if name.first().is_some_and(u8::is_ascii_digit) && name.iter().all(is_known) {
            return Ok(String::from_utf8_lossy(name).into_owned());
        }
        from = at + 1;
    }
    Err(Error::failed("the guest has no Linux kernel that says its version"))
}

/// What stands in front of a kernel's release in its banner.
const BANNER: &[u8] = b"Linux version ";
/// Places that are looked at: a guest may have this text wherever it likes.
const MOST_BANNERS: usize = 64;
/// Bytes of a release at most (`__NEW_UTS_LEN`), and of what is behind it.
const MOST_RELEASE: u32 = 65;

/// Reads how the functions of the kernel of guest number `guest`, which has these names, are unwound.
///
/// # Errors
/// If the board has gone.
pub fn unwind_tables(board: &mut Board, guest: usize, names: &[Symbol]) -> Result<Tables> {
    let mut memory = GuestMemory { board, guest, progress: &mut || () };
    let ram = memory.ram()?;
    Tables::read(&mut memory, ram, names).map_err(Error::failed)
}

/// Finds the allocator of the kernel of guest number `guest`, which has these names.
///
/// # Errors
/// If it is none that is known, or the board has gone.
pub fn allocator(board: &mut Board, guest: usize, names: &[Symbol]) -> Result<Allocator> {
    let mut memory = GuestMemory { board, guest, progress: &mut || () };
    let start = memory.ram()?.start;
    let mut read = |range: Range<u32>| code(&mut memory, start, names, range);
    let found = allocator::find(names, &mut read)?;
    let pages = read(found.pages.0..found.pages.0 + 4)?;
    let at = pages.first().copied().ok_or_else(|| Error::failed("the kernel's memory cannot be read"))?;
    Ok(Allocator { pages: (at, found.pages.1), ..found })
}

/// Finds where the kernel of guest number `guest`, which has these names, changes who uses memory.
///
/// # Errors
/// If it is none that is known, or the board has gone.
pub fn switching(board: &mut Board, guest: usize, names: &[Symbol]) -> Result<Switching> {
    let mut memory = GuestMemory { board, guest, progress: &mut || () };
    let start = memory.ram()?.start;
    switching::find(names, &mut |range| code(&mut memory, start, names, range))
}

/// The words of code of guest number `guest`, whose kernel has these names, in ranges of addresses, as far as they are
/// those of its linear map. The guest goes on meanwhile.
///
/// # Errors
/// If the board has gone.
pub fn words(board: &mut Board, guest: usize, names: &[Symbol], ranges: &[Range<u32>]) -> Result<BTreeMap<u32, u32>> {
    let mut memory = GuestMemory { board, guest, progress: &mut || () };
    let ram = memory.ram()?;
    let Some(first) = names.iter().find(|symbol| symbol.name == "_stext") else { return Ok(BTreeMap::new()) };
    let base = first.address & LINEAR;
    let linear = |range: &&Range<u32>| range.start >= base && range.end - base <= ram.end - ram.start;
    let mut words = BTreeMap::new();
    for range in ranges.iter().filter(linear) {
        words.extend((range.start..).step_by(4).zip(code(&mut memory, ram.start, names, range.clone())?));
    }
    Ok(words)
}

/// The words of a kernel's code in a range of addresses; its RAM begins at `start`.
fn code(memory: &mut GuestMemory<'_>, start: u32, names: &[Symbol], range: Range<u32>) -> Result<Vec<u32>> {
    let base = names.iter().find(|symbol| symbol.name == "_stext").map_or(0, |symbol| symbol.address) & LINEAR;
    let at = range.start.wrapping_sub(base).wrapping_add(start);
    let bytes = memory.read(at, range.end - range.start).map_err(Error::failed)?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect())
}

/// What of an address says where the linear map begins that it is in.
const LINEAR: u32 = 0xe000_0000;

/// Reads the last `most` messages of the log of guest number `guest`'s kernel. The guest goes on meanwhile.
///
/// # Errors
/// If it has no Linux kernel whose log is understood, or the board has gone.
pub fn read_log(board: &mut Board, guest: usize, most: u32) -> Result<Log> {
    let mut memory = GuestMemory { board, guest, progress: &mut || () };
    let step = Step::begin("looking for the kernel's log");
    let symbols = find(&mut memory)?;
    drop(step);
    let ram = memory.ram()?;
    spica_kernel_log::read(&mut memory, ram, &symbols, most).map_err(Error::failed)
}
