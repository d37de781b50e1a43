//! Do the guests fit the board's memory? Answered before a board starts, as Spica itself will answer it.
//!
//! Memory is given in whole runs: a guest's RAM is one, Spica's own is some. A boot loader leaves the bundle in the
//! middle of the board's memory, so it is not only the sum that counts. Here, Spica's `guests/mod.rs` and
//! `memory/ram.rs` are followed: each run comes from the lowest place that has it; first Spica's own, then the guests'
//! in their order. What is left is for what guests write to copy-on-write disks: each disk gets the same, as far as it
//! needs it.

use spica_bundle::{DiskMode, DiskSource, GuestEntry, MIN_MEMORY, flash_bytes};

use crate::board::Board;
use crate::error::{Error, Result};

const MIB: u64 = 1 << 20;

/// What Spica takes once: its image, its heap, the device tree, and what is lost to rounding.
const ONCE_MIB: u64 = 16;
/// What Spica takes for each guest at least: shadow tables, code cache, what it knows of the guest. Beyond it, each of
/// the following, and then whole megabytes.
const EACH: u64 = 12 * MIB + MIB / 2;
/// For each page of a guest's RAM.
const WORD: u64 = 4;
/// Bytes of a guest's RAM for each byte of its shadow tables beyond what is in [`EACH`], with no more than so many
/// guests.
const RAM_FOR_TABLES: u64 = 128;
const SPACIOUS: usize = 6;
/// For each network card: frames that wait for it.
const CARD: u64 = 64 * 1600;
/// For each page that can be written to a copy-on-write disk, and for each that it can borrow from balloons: what is
/// known of it.
const CLUSTER: u64 = 96;
const BORROWED: u64 = 96 + 64;
/// How many pages a disk can borrow.
const BORROWED_MOST: u64 = 4096;
/// The bytes of a page.
const PAGE: u64 = 4096;
/// More than Spica takes for a guest in any case: with it, Spica reckons how much disks will have left.
const EACH_MOST: u64 = 24 * MIB;
/// The most that can be written to a copy-on-write disk.
const WRITTEN_MOST: u64 = 128 * MIB;
/// With less room than this, a disk that is larger is of little use.
const WRITTEN_LEAST: u64 = 16 * MIB;
/// What Spica takes to drive the board's card, and the board's disks; 32 KiB for each guest's claim to one, and the
/// queue.
const UPLINK_MIB: u64 = 1;
const CLAIM: u64 = 36 << 10;
/// Where QEMU puts the initrd at the latest: so far from the start of memory, or at its middle.
const INITRD_MIB: u64 = 128;
/// The memory of a guest of the kind that `--count` makes: no more than this,
const MOST_MIB: u64 = 256;
/// no less than this, if a board can have more memory,
const COMFORTABLE_MIB: u64 = 128;
/// no less than this in any case,
const LEAST_MIB: u64 = 64;
/// and a multiple of this.
const STEP_MIB: u64 = 16;

/// How much of a board with U-Boot cannot be counted on, in MiB: what lies below the image, which is not moved, and
/// what U-Boot keeps at the end of memory.
const U_BOOT_MIB: u64 = 48;

/// Who loads Spica, and so decides where the bundle lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loader {
    /// QEMU, by itself: in the middle of memory.
    Qemu,
    /// U-Boot: at the end.
    UBoot,
}

/// A board as far as its memory goes.
#[derive(Clone, Copy, Debug)]
pub struct Room<'a> {
    /// The board's name, for errors.
    pub name: &'a str,
    /// The memory in MiB that it has, and that it could have.
    pub memory_mib: [u32; 2],
    /// What loads Spica.
    pub loader: Loader,
    /// The most bytes that Spica gives a copy-on-write disk.
    pub written_most: u64,
}

impl From<&Board> for Room<'_> {
    fn from(board: &Board) -> Self {
        Self::new(board.name, [board.memory_mib, board.most_memory_mib], Loader::Qemu)
    }
}

impl<'a> Room<'a> {
    /// A board with nothing on Spica's command line.
    #[must_use]
    pub fn new(name: &'a str, memory_mib: [u32; 2], loader: Loader) -> Self {
        Self { name, memory_mib, loader, written_most: WRITTEN_MOST }
    }

    /// The same with `words` on Spica's command line: `spica.overlay=KIB` limits copy-on-write disks.
    #[must_use]
    pub fn with_words(self, words: &str) -> Self {
        let limit = |word: &str| word.strip_prefix("spica.overlay=")?.parse::<u64>().ok();
        let kib = words.split_whitespace().rev().find_map(limit).unwrap_or(WRITTEN_MOST);
        Self { written_most: kib.saturating_mul(1024).min(WRITTEN_MOST), ..self }
    }
}

/// What a guest wants of a board's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Its name.
    pub name: String,
    /// The bytes of its RAM.
    pub memory: u64,
    /// The bytes of its banks of flash, which lie behind its RAM, in the same piece.
    pub flash: u64,
    /// The sizes of its copy-on-write disks in bytes.
    pub written: Vec<u64>,
    /// How many disks of the board it has.
    pub claims: usize,
    /// How many network cards.
    pub cards: usize,
    /// Whether it gives memory to others.
    pub lends: bool,
}

impl Wish {
    /// Those of a guest of a manifest; `size` knows the bytes of files.
    pub fn of(guest: &GuestEntry, size: impl Fn(&str) -> u64) -> Self {
        let written = guest.disks.iter().filter(|disk| disk.mode == DiskMode::CopyOnWrite);
        let bytes = |source: &DiskSource<String>| match source {
            DiskSource::File(name) => size(name),
            // As large as it may be: nobody knows here.
            _ => u64::MAX,
        };
        let len = |bank: usize| guest.flash.get(bank).map_or(0, |file| size(file) as usize);
        let flash = if guest.flash.is_empty() { [0; 2] } else { flash_bytes([len(0), len(1)]) };
        Self {
            name: guest.name.clone(),
            memory: guest.memory_bytes.into(),
            flash: flash.map(u64::from).iter().sum(),
            written: written.map(|disk| bytes(&disk.source)).collect(),
            claims: guest.disks.iter().filter(|disk| !matches!(disk.source, DiskSource::File(_))).count(),
            cards: guest.options.networks.len(),
            lends: guest.options.balloon,
        }
    }

    /// The bytes that it wants in one piece.
    const fn piece(&self) -> u64 {
        self.memory + self.flash
    }

    /// The bytes of Spica's own memory for it as one of `guests`, where disks have `share` bytes each at most and
    /// somebody lends, or nobody does.
    fn own(&self, guests: usize, share: u64, lends: bool) -> u64 {
        let borrowed = if lends { BORROWED_MOST * BORROWED } else { 0 };
        let disks: u64 = self.written.iter().map(|&bytes| bytes.min(share) / PAGE * CLUSTER + borrowed).sum();
        let balloon = if self.lends { self.memory / PAGE } else { 0 };
        let tables = if guests <= SPACIOUS { self.memory / RAM_FOR_TABLES } else { 0 };
        let own = EACH + tables + self.piece() / PAGE * WORD + self.cards as u64 * CARD + disks + balloon;
        own.next_multiple_of(MIB)
    }
}

/// All that is to fit.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// The guests.
    pub guests: Vec<Wish>,
    /// Whether a network has the board's card.
    pub uplink: bool,
    /// The bytes of what the board boots as its initrd.
    pub bundle: u64,
}

/// The least memory of the board, in MiB, with which all guests fit and their disks have all the room that they may
/// have; if there is none, the least with which they have some.
///
/// # Errors
/// If they do not fit the most that the board can have: who wants what, and what there is.
pub fn board_memory(room: &Room<'_>, wishes: &Wishes) -> Result<u32> {
    let fit = |memory: u32, least: u64| place(room, memory.into(), wishes, least);
    for least in [u64::MAX, WRITTEN_LEAST] {
        if let Some(memory) = room.memory_mib.into_iter().find(|&memory| fit(memory, least).is_ok()) {
            return Ok(memory);
        }
    }
    let most = room.memory_mib[1];
    match fit(most, WRITTEN_LEAST) {
        Ok(()) => Ok(most),
        Err(misfit) => Err(Error::usage(explain(room, most, wishes, &misfit))),
    }
}

/// Why guests do not fit a board with `most` MiB: what there is, what takes it, and what would fit.
fn explain(room: &Room<'_>, most: u32, wishes: &Wishes, misfit: &Misfit) -> String {
    let guests = &wishes.guests;
    let loader = if room.loader == Loader::UBoot { U_BOOT_MIB } else { 0 };
    let own = loader + ONCE_MIB + own(most.into(), wishes).into_iter().sum::<u64>() / MIB;
    let bundle = wishes.bundle.div_ceil(MIB);
    let left = u64::from(most).saturating_sub(own + bundle);
    let total = guests.iter().map(|wish| wish.piece() / MIB).sum::<u64>();
    let mut text = match &guests[..] {
        [wish] => {
            format!("the guest does not fit {}, which has {most}M: it wants {total}M{}", room.name, of_flash(wish))
        }
        _ => {
            let of = |wish: &Wish| format!("{} {}M{}", wish.name, wish.piece() / MIB, of_flash(wish));
            let each: Vec<_> = guests.iter().map(of).collect();
            format!("the guests do not fit {}, which has {most}M: they want {total}M ({})", room.name, each.join(", "))
        }
    };
    text += &match bundle {
        0 => format!(", but {left}M are left beside {own}M for Spica, less what the bundle takes"),
        _ => format!(", but {left}M are left beside {own}M for Spica and {bundle}M for the bundle"),
    };
    let fewer = if guests.len() == 1 { "give it less" } else { "give them less, or run fewer" };
    match misfit {
        Misfit::Guest { guest, largest } => {
            let name = if guests.len() == 1 { "it" } else { guests[*guest].name.as_str() };
            text += &format!("; {name} needs its memory in one piece, and the largest piece left has {largest}M");
            if room.loader == Loader::Qemu && total <= left {
                text += ", since the bundle lies in the middle";
            }
            match most_of(room, most, wishes, *guest) {
                None => text + "; " + fewer,
                // What it has is not known yet.
                Some(fits) if bundle == 0 => text + &format!("; give {name} {fits}M less the size of the bundle"),
                Some(fits) => text + &format!("; give {name} {fits}M or less"),
            }
        }
        Misfit::Written { share } => {
            let count = guests.iter().map(|wish| wish.written.len()).sum::<usize>();
            let least = WRITTEN_LEAST / MIB;
            text + &format!(
                "; of the rest, what is written to {count} copy-on-write disks gets {}M each, and {least}M are the \
                 least; {fewer}",
                share / MIB
            )
        }
        Misfit::Spica if guests.len() == 1 => text + "; name smaller files",
        Misfit::Spica => text + "; name smaller files, or run fewer",
    }
}

/// What of a guest's wish is no RAM.
fn of_flash(wish: &Wish) -> String {
    match wish.flash {
        0 => String::new(),
        bytes => format!(", {}M of that for its flash", bytes.div_ceil(MIB)),
    }
}

/// The most MiB of RAM, at most what it has, with which the only guest would fit a board; none if it cannot.
#[must_use]
pub fn most_alone(room: &Room<'_>, wishes: &Wishes) -> Option<u64> {
    match board_memory(room, wishes) {
        Ok(_) => Some(wishes.guests[0].memory / MIB),
        Err(_) => most_of(room, room.memory_mib[1], wishes, 0),
    }
}

/// The most MiB with which `guest` would fit a board with `memory` MiB, if all others stay as they are.
fn most_of(room: &Room<'_>, memory: u32, wishes: &Wishes, guest: usize) -> Option<u64> {
    let mut other = wishes.clone();
    (u64::from(MIN_MEMORY) / MIB..wishes.guests[guest].memory / MIB).rev().find(|mib| {
        other.guests[guest].memory = mib * MIB;
        place(room, memory.into(), &other, WRITTEN_LEAST).is_ok()
    })
}

/// The memory in bytes for each of `count` equal guests, as much as is useful and fits.
///
/// # Errors
/// If so many cannot fit.
pub fn share(room: &Room<'_>, count: usize, bundle: u64) -> Result<u32> {
    let largest = |memory: u32| {
        let fits = |mib: &u64| {
            let guests = vec![Wish { memory: mib * MIB, ..Wish::default() }; count];
            place(room, memory.into(), &Wishes { guests, uplink: false, bundle }, 0).is_ok()
        };
        (LEAST_MIB / STEP_MIB..=MOST_MIB / STEP_MIB).rev().map(|n| n * STEP_MIB).find(fits)
    };
    let small = largest(room.memory_mib[0]).filter(|&mib| mib >= COMFORTABLE_MIB);
    let mib = small.or_else(|| largest(room.memory_mib[1])).ok_or_else(|| {
        Error::usage(format!(
            "{count} guests do not fit {}, which has {}M: each needs {LEAST_MIB}M at least; run fewer",
            room.name, room.memory_mib[1]
        ))
    })?;
    Ok((mib * MIB) as u32)
}

/// What finds no place in a board's memory.
#[derive(Debug, PartialEq, Eq)]
enum Misfit {
    /// Spica's own.
    Spica,
    /// A guest's RAM; the largest piece of memory that there is then, in MiB.
    Guest { guest: usize, largest: u64 },
    /// What is written to disks, each of which gets so many bytes.
    Written { share: u64 },
}

/// The bytes of Spica's own memory for each guest, and for what it drives.
fn own(memory: u64, wishes: &Wishes) -> Vec<u64> {
    let guests = &wishes.guests;
    let count = guests.iter().map(|wish| wish.written.len() as u64).sum::<u64>();
    // Spica's own upper bound, made before anything is given.
    let taken: u64 = guests.iter().map(|wish| wish.piece() + EACH_MOST).sum();
    let free = ((memory.saturating_sub(ONCE_MIB)) * MIB).saturating_sub(wishes.bundle + taken);
    let share = free.checked_div(count).unwrap_or(0).min(WRITTEN_MOST);
    let lends = guests.iter().any(|wish| wish.lends);
    let mut own: Vec<_> = guests.iter().map(|wish| wish.own(guests.len(), share, lends)).collect();
    if wishes.uplink {
        own.push(UPLINK_MIB * MIB);
    }
    let claims = guests.iter().map(|wish| wish.claims as u64).sum::<u64>();
    if claims > 0 {
        own.push((claims * CLAIM).next_multiple_of(MIB));
    }
    own
}

/// Places everything, so that each copy-on-write disk can be written as far as it goes, or `least` bytes of it.
fn place(room: &Room<'_>, memory: u64, wishes: &Wishes, least: u64) -> std::result::Result<(), Misfit> {
    let (low, lost) = match room.loader {
        Loader::Qemu => (INITRD_MIB.min(memory / 2), 0),
        Loader::UBoot => (0, U_BOOT_MIB),
    };
    let taken = low + lost + wishes.bundle.div_ceil(MIB);
    let high = memory.checked_sub(taken).ok_or(Misfit::Spica)?;
    let mut free = [low * MIB, high * MIB];
    let mut take = |size: u64| match free.iter_mut().find(|piece| **piece >= size) {
        Some(piece) => {
            *piece -= size;
            Ok(())
        }
        None => Err(free.into_iter().max().unwrap_or(0) / MIB),
    };
    take(ONCE_MIB * MIB).map_err(|_| Misfit::Spica)?;
    own(memory, wishes).into_iter().try_for_each(&mut take).map_err(|_| Misfit::Spica)?;
    for (guest, wish) in wishes.guests.iter().enumerate() {
        take(wish.piece()).map_err(|largest| Misfit::Guest { guest, largest })?;
    }
    let written: Vec<_> = wishes.guests.iter().flat_map(|wish| &wish.written).collect();
    let wanted = written.iter().map(|&&bytes| bytes.min(room.written_most)).max().unwrap_or(0).min(least);
    let share = most_each(free, written.len() as u64);
    if share < wanted { Err(Misfit::Written { share }) } else { Ok(()) }
}

/// The most bytes, whole pages, so that `count` pieces of that length are in `free`; 0 if `count` is.
fn most_each(free: [u64; 2], count: u64) -> u64 {
    let lengths = free.iter().flat_map(|piece| (1..=count).map(move |parts| piece / parts / PAGE * PAGE));
    let enough = |len: &u64| *len > 0 && free.iter().map(|piece| piece / len).sum::<u64>() >= count;
    lengths.filter(enough).max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
