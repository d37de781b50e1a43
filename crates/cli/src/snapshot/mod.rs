//! Snapshots of a guest on a running board: read from it and put into it by questions to the monitor, as a debugger's.
//!
//! The guest stands meanwhile, and no time passes for it. If this process or its connection ends, the guest goes on by
//! itself; but not if its memory was being replaced: then it is off.
//!
//! Its debugger, for whom it stands anyway, does the same with a checkpoint ([`keep`], [`put_back`]).

pub mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

use file::{About, Pages, Snapshot};
use spica_console::base64;
use spica_console::debug::BLANK_BYTES;
use spica_runner::control::client::Board;
use spica_runner::control::reply::{self, GuestState};
use spica_runner::error::{Error, Result};
use spica_snapshot::{PAGE, pack, sum, unpack};

use crate::symbols::RAM;

/// Work that takes no longer is not spoken of.
const QUICK: Duration = Duration::from_secs(2);
/// The time between two words on how far it is, where they do not replace each other.
const SELDOM: Duration = Duration::from_secs(10);
/// How long devices may take to finish what they have begun, and the time between two looks.
const PATIENCE: Duration = Duration::from_secs(10);
const REST: Duration = Duration::from_millis(50);
/// Bytes of a piece of a state.
const PIECE: usize = 3072;

/// How far something is that takes long, on standard error.
struct Progress {
    what: String,
    begun: Instant,
    said: Option<Instant>,
}

impl Progress {
    fn begin() -> Self {
        Self { what: String::new(), begun: Instant::now(), said: None }
    }

    /// So many of all are done.
    fn at(&mut self, what: &str, done: usize, all: usize) {
        if self.what != what {
            *self = Self { what: what.into(), ..Self::begin() };
        }
        let mut err = std::io::stderr();
        let often = err.is_terminal();
        let rest = match (self.said, often) {
            (None, _) => QUICK,
            (Some(_), true) => Duration::from_secs(1),
            (Some(_), false) => SELDOM,
        };
        if self.said.unwrap_or(self.begun).elapsed() < rest {
            return;
        }
        self.said = Some(Instant::now());
        let percent = 100 * done / all.max(1);
        let line = format!("spica: {} … {percent} %, {} s", self.what, self.begun.elapsed().as_secs());
        // Nobody to tell if this fails.
        let _ = if often { write!(err, "\r{line}") } else { writeln!(err, "{line}") };
        let _ = err.flush();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.said.is_some() && std::io::stderr().is_terminal() {
            eprintln!();
        }
    }
}

/// Who is told how far it is: what is being done, how much of it is, and how much there is. Often.
pub type Tell<'a> = &'a mut dyn FnMut(&str, usize, usize);

/// A guest that stands for us.
struct Standing<'a> {
    board: &'a mut Board,
    guest: usize,
    state: GuestState,
    tell: Tell<'a>,
}

/// What was asked of a board came back as something else.
fn not_understood() -> Error {
    Error::failed("the board answered what this version does not understand")
}

impl<'a> Standing<'a> {
    /// Guest number `guest`, which stands already, and whose debugger we are.
    fn find(board: &'a mut Board, guest: usize, tell: Tell<'a>) -> Result<Self> {
        let states = reply::guests(&board.ask("list")?)?;
        let state = states.into_iter().find(|state| state.index as usize == guest).ok_or_else(not_understood)?;
        Ok(Self { board, guest, state, tell })
    }

    /// Has guest number `guest` stand between two instructions.
    fn halt(board: &'a mut Board, guest: usize, tell: Tell<'a>) -> Result<Self> {
        let mut standing = Self::find(board, guest, tell)?;
        let state = &standing.state;
        if state.state == "off" || state.state == "failed" {
            let (name, state) = (&state.name, &state.state);
            return Err(Error::failed(format!("{name} is {state}: `spica start {name}` turns it on")));
        }
        standing.ask("attach")?;
        standing.ask("halt")?;
        let lines = standing.ask("wait")?;
        if !lines.first().is_some_and(|line| line.starts_with("halted ")) {
            let name = &standing.state.name;
            return Err(Error::failed(format!("{name} was turned off before it stood")));
        }
        Ok(standing)
    }

    fn ask(&mut self, question: &str) -> Result<Vec<String>> {
        self.board.ask(&format!("debug {} {question}", self.guest))
    }

    /// So many of all are done.
    fn tell(&mut self, what: &str, done: usize, all: usize) {
        (self.tell)(&format!("{what} {}", self.state.name), done, all);
    }

    /// What is behind `word` in each line of the answer to `question`, and the address that follows.
    fn read(&mut self, question: &str, word: &str, take: &mut dyn FnMut(&str) -> Option<()>) -> Result<Option<u32>> {
        let mut next = None;
        for line in self.ask(question)? {
            let understood = match line.split_once(' ') {
                Some(("next", address)) => {
                    next = u32::from_str_radix(address, 16).ok();
                    next.map(|_| ())
                }
                Some((first, rest)) if first == word => take(rest),
                _ => None,
            };
            understood.ok_or_else(not_understood)?;
        }
        Ok(next)
    }

    /// How much of its memory is below `address`: in pages, as far as RAM goes.
    fn pages_before(&self, address: u32) -> usize {
        (address.saturating_sub(RAM) / PAGE as u32) as usize
    }

    fn all_pages(&self) -> usize {
        (self.state.memory_mib as usize) << 8
    }

    /// The guest goes on, or stays paused if it was.
    fn let_go(mut self) -> Result<()> {
        self.ask("detach")?;
        if self.state.state == "paused" {
            self.board.ask(&format!("pause {}", self.guest))?;
        }
        Ok(())
    }
}

/// A line's address, and the bytes behind it.
fn address_and_bytes(line: &str) -> Option<(u32, Vec<u8>)> {
    let (address, bytes) = line.split_once(' ')?;
    Some((u32::from_str_radix(address, 16).ok()?, base64::decode(bytes)?))
}

/// Behind a question about pages: of a disk, or of memory.
fn of(disk: Option<usize>) -> String {
    disk.map_or(String::new(), |disk| format!(" {disk:x}"))
}

/// Saves guest number `guest`, which goes on afterwards as if nothing had happened.
///
/// # Errors
/// If it has something that cannot be saved, or the board has gone.
pub fn save(board: &mut Board, guest: usize) -> Result<Snapshot> {
    let mut progress = Progress::begin();
    let tell = &mut |what: &str, done, all| progress.at(what, done, all);
    let mut standing = Standing::halt(board, guest, tell)?;
    let read = read_all(&mut standing);
    // Whatever came of it, the guest goes on.
    let gone_on = standing.let_go();
    let snapshot = read?;
    gone_on?;
    Ok(snapshot)
}

/// Saves guest number `guest`, whose debugger we are, and which stands, as it does afterwards.
///
/// # Errors
/// As [`save`].
pub fn keep(board: &mut Board, guest: usize, tell: Tell<'_>) -> Result<Snapshot> {
    read_all(&mut Standing::find(board, guest, tell)?)
}

fn read_all(standing: &mut Standing<'_>) -> Result<Snapshot> {
    let disks = look_at_disks(standing)?;
    let state = read_state(standing)?;
    let pages = read_pages(standing, None)?;
    let disks = disks.into_iter().enumerate().map(|disk| read_pages(standing, Some(disk)));
    let disks: Vec<Pages> = disks.collect::<Result<_>>()?;
    let about = About {
        guest: standing.state.name.clone(),
        board: standing.board.who.board.clone(),
        memory_mib: standing.state.memory_mib,
        disk_pages: disks.iter().map(|pages| pages.len() as u32).sum(),
    };
    Ok(Snapshot { about, state, pages, disks })
}

/// Has the board look at what is below the guest's disks, which a state says: how many pages were written to each.
fn look_at_disks(standing: &mut Standing<'_>) -> Result<Vec<usize>> {
    let (mut disks, mut all) = (Vec::new(), 0);
    loop {
        let lines = standing.ask(&format!("base {:x}", disks.len()))?;
        let Some(line) = lines.first() else { return Ok(disks) };
        let number = |digits| usize::from_str_radix(digits, 16).map_err(|_| not_understood());
        match line.split_once(' ') {
            Some(("base", pages)) => {
                disks.push(number(pages)?);
                all = 0;
            }
            Some(("left", bytes)) => {
                let left = number(bytes)?;
                all = all.max(left);
                standing.tell("looking at the disks of", all - left, all);
            }
            _ => return Err(not_understood()),
        }
    }
}

/// Reads memory, or what was written to a disk: its number, and how many pages that are.
fn read_pages(standing: &mut Standing<'_>, disk: Option<(usize, usize)>) -> Result<Pages> {
    let mut pages = Pages::new();
    let mut from = 0;
    loop {
        let next =
            standing.read(&format!("pages {from:x}{}", of(disk.map(|(disk, _)| disk))), "page", &mut |line| {
                let (address, packed) = address_and_bytes(line)?;
                let mut page = Box::new([0; PAGE]);
                unpack(&packed, &mut page).then_some(())?;
                pages.insert(address, page);
                Some(())
            })?;
        let Some(next) = next else { return Ok(pages) };
        from = next;
        match disk {
            None => standing.tell("saving", standing.pages_before(from), standing.all_pages()),
            Some((_, written)) => standing.tell("saving a disk of", pages.len(), written),
        }
    }
}

/// Reads the state, once the guest's devices are in the midst of nothing.
fn read_state(standing: &mut Standing<'_>) -> Result<Vec<u8>> {
    let begun = Instant::now();
    loop {
        let mut state = Vec::new();
        let mut busy = None;
        for line in standing.ask("save")? {
            match line.split_once(' ').ok_or_else(not_understood)? {
                ("state", text) => state.extend(base64::decode(text).ok_or_else(not_understood)?),
                ("busy", slot) => busy = Some(slot.to_string()),
                _ => return Err(not_understood()),
            }
        }
        match busy {
            None => return Ok(state),
            Some(slot) if begun.elapsed() > PATIENCE => {
                let name = &standing.state.name;
                return Err(Error::failed(format!(
                    "the virtio device {slot} of {name} does not finish what it has begun"
                )));
            }
            Some(_) => std::thread::sleep(REST),
        }
    }
}

/// Restores guest number `guest` from a snapshot: it goes on where that was made.
///
/// # Errors
/// If the snapshot does not fit the guest, which then goes on untouched; or if the board has gone.
pub fn restore(board: &mut Board, guest: usize, snapshot: &Snapshot) -> Result<()> {
    let mut progress = Progress::begin();
    let tell = &mut |what: &str, done, all| progress.at(what, done, all);
    let mut standing = Standing::halt(board, guest, tell)?;
    if let Err(problem) = check(&mut standing, snapshot) {
        standing.let_go()?;
        return Err(problem);
    }
    // From here on, an error leaves the guest off, which the board says.
    replace(&mut standing, snapshot)?;
    // One that was paused is a thing of the past.
    standing.state.state.clear();
    standing.let_go()
}

/// How putting back a guest failed.
#[derive(Debug)]
pub enum Failure {
    /// Nothing has changed.
    Untouched(Error),
    /// Half of it was replaced: it is off as soon as nobody debugs it, and can do nothing before.
    Half(Error),
}

/// Puts a snapshot back into guest number `guest`, whose debugger we are, and which stands. It stands where it was made
/// then.
///
/// # Errors
/// If the snapshot does not fit the guest, or if the board has gone.
pub fn put_back(
    board: &mut Board,
    guest: usize,
    snapshot: &Snapshot,
    tell: Tell<'_>,
) -> std::result::Result<(), Failure> {
    let mut standing = Standing::find(board, guest, tell).map_err(Failure::Untouched)?;
    check(&mut standing, snapshot).map_err(Failure::Untouched)?;
    replace(&mut standing, snapshot).map_err(Failure::Half)
}

fn check(standing: &mut Standing<'_>, snapshot: &Snapshot) -> Result<()> {
    for (n, piece) in snapshot.state.chunks(PIECE).enumerate() {
        standing.ask(&format!("stage {:x} {}", n * PIECE, base64::encode(piece)))?;
    }
    look_at_disks(standing)?;
    standing.ask("check").map(drop)
}

fn replace(standing: &mut Standing<'_>, snapshot: &Snapshot) -> Result<()> {
    standing.ask("replace")?;
    replace_memory(standing, snapshot)?;
    for (disk, pages) in snapshot.disks.iter().enumerate() {
        replace_disk(standing, disk, pages)?;
    }
    standing.ask("restore").map(drop)
}

fn replace_memory(standing: &mut Standing<'_>, snapshot: &Snapshot) -> Result<()> {
    let blanks = [0u8, 0xff].map(|byte| sum(&[byte; PAGE]));
    let mut elsewhere: BTreeSet<u32> = snapshot.pages.keys().copied().collect();
    let mut from = 0;
    loop {
        // Whatever the guest has there already is not sent.
        let mut there = Vec::new();
        let next = standing.read(&format!("sums {from:x}"), "sums", &mut |line| {
            let (address, sums) = address_and_bytes(line)?;
            let sums = sums.as_chunks().0.iter().map(|&sum| u64::from_le_bytes(sum));
            there.extend((address..).step_by(PAGE).zip(sums));
            Some(())
        })?;
        let mut blank = Blank::default();
        for (address, found) in there {
            elsewhere.remove(&address);
            match snapshot.pages.get(&address) {
                Some(page) => {
                    let wanted = sum(&page[..]);
                    if wanted != found {
                        put(standing, None, address, page)?;
                    }
                }
                None if found != blanks[usize::from(address < RAM)] => blank.add(standing, None, address)?,
                None => {}
            }
            standing.tell("restoring", standing.pages_before(address), standing.all_pages());
        }
        blank.flush(standing, None)?;
        let Some(next) = next else { break };
        from = next;
    }
    if let Some(address) = elsewhere.first() {
        return Err(Error::failed(format!(
            "the snapshot has a page for {address:#010x}, where the guest has no memory"
        )));
    }
    Ok(())
}

/// Has `pages` be what the guest has written to its disk of this number.
fn replace_disk(standing: &mut Standing<'_>, disk: usize, pages: &Pages) -> Result<()> {
    let mut there: BTreeMap<u32, u64> = BTreeMap::new();
    let mut from = Some(0);
    while let Some(address) = from {
        from = standing.read(&format!("sums {address:x} {disk:x}"), "sums", &mut |line| {
            let (address, sums) = address_and_bytes(line)?;
            let sums = sums.as_chunks().0.iter().map(|&sum| u64::from_le_bytes(sum));
            there.extend((address..).step_by(PAGE).zip(sums));
            Some(())
        })?;
    }
    // First what gives room, then what takes it: so there never is more than in the end.
    let mut blank = Blank::default();
    for &address in there.keys().filter(|&address| !pages.contains_key(address)) {
        blank.add(standing, Some(disk), address)?;
    }
    blank.flush(standing, Some(disk))?;
    let other: Vec<_> = pages.iter().filter(|(address, page)| there.get(address) != Some(&sum(&page[..]))).collect();
    let (zeroes, rest): (Vec<_>, Vec<_>) = other.iter().partition(|(_, page)| page.iter().all(|&byte| byte == 0));
    for (done, (address, page)) in zeroes.into_iter().chain(rest).enumerate() {
        put(standing, Some(disk), *address, page)?;
        standing.tell("restoring a disk of", done, other.len());
    }
    Ok(())
}

fn put(standing: &mut Standing<'_>, disk: Option<usize>, address: u32, page: &[u8; PAGE]) -> Result<()> {
    let mut question = format!("put {address:x} {:016x} ", sum(page));
    let _ = write!(question, "{}{}", base64::encode(&pack(page)), of(disk));
    // A byte may be lost on a serial line that has no flow control.
    standing.ask(&question).or_else(|_| standing.ask(&question)).map(drop)
}

/// Pages that follow each other and are to be blank.
#[derive(Default)]
struct Blank {
    from: u32,
    bytes: u32,
}

impl Blank {
    fn add(&mut self, standing: &mut Standing<'_>, disk: Option<usize>, address: u32) -> Result<()> {
        if self.bytes == BLANK_BYTES || self.from.wrapping_add(self.bytes) != address {
            self.flush(standing, disk)?;
            self.from = address;
        }
        self.bytes += PAGE as u32;
        Ok(())
    }

    fn flush(&mut self, standing: &mut Standing<'_>, disk: Option<usize>) -> Result<()> {
        let Self { from, bytes } = std::mem::take(self);
        if bytes != 0 {
            standing.ask(&format!("blank {from:x} {bytes:x}{}", of(disk)))?;
        }
        Ok(())
    }
}
