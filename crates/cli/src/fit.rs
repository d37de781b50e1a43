//! Do the guests fit the board's memory? Answered before a board starts, as Spica itself will answer it.
//!
//! Memory is given in whole runs: a guest's RAM is one, Spica's own is some. A boot loader leaves the bundle in the middle
//! of the board's memory, so it is not only the sum that counts. Here, Spica's `memory/ram.rs` is followed: each run comes
//! from the lowest place that has it; first Spica's own, then the guests' in their order.

use crate::board::Board;
use crate::error::{Error, Result};

const MIB: u64 = 1 << 20;

/// What Spica takes once: its image, its heap, the device tree, and what is lost to rounding.
const ONCE_MIB: u64 = 16;
/// What Spica takes for each guest: shadow tables, code cache, what it knows of the guest.
const EACH_MIB: u64 = 13;
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

/// How much of a board with U-Boot cannot be counted on, in MiB: what lies below the image, which is not moved, and what U-Boot
/// keeps at the end of memory.
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
}

impl From<&Board> for Room<'_> {
    fn from(board: &Board) -> Self {
        Self { name: board.name, memory_mib: [board.memory_mib, board.most_memory_mib], loader: Loader::Qemu }
    }
}

/// A guest's name and the bytes of its memory.
pub type Wish<'a> = (&'a str, u32);

/// The least memory of the board, in MiB, with which all guests fit, where `bundle` is the size of what it boots in bytes.
///
/// # Errors
/// If they do not fit the most that the board can have: who wants what, and what there is.
pub fn board_memory(room: &Room<'_>, guests: &[Wish<'_>], bundle: u64) -> Result<u32> {
    let sizes: Vec<_> = guests.iter().map(|(_, bytes)| u64::from(*bytes) / MIB).collect();
    let mut failure = None;
    for memory in room.memory_mib {
        match place(room.loader, memory.into(), &sizes, bundle) {
            Ok(()) => return Ok(memory),
            Err(misfit) => failure = Some(misfit),
        }
    }
    let most = room.memory_mib[1];
    let wishes: Vec<_> = guests.iter().zip(&sizes).map(|((name, _), mib)| format!("{name} {mib}M")).collect();
    let loader = if room.loader == Loader::UBoot { U_BOOT_MIB } else { 0 };
    let own = loader + ONCE_MIB + EACH_MIB * sizes.len() as u64;
    let bundle = bundle.div_ceil(MIB);
    let left = u64::from(most).saturating_sub(own + bundle);
    let total: u64 = sizes.iter().sum();
    let mut text = format!(
        "the guests do not fit {}, which has {most}M: they want {total}M ({}), but {left}M are left beside {own}M for Spica \
         and {bundle}M for the bundle",
        room.name,
        wishes.join(", ")
    );
    if let Some(Misfit { guest: Some(guest), largest }) = failure.filter(|_| total <= left) {
        text += &format!(
            "; for {}, which needs its memory in one piece, the largest piece left has {largest}M",
            guests[guest].0
        );
    }
    Err(Error::usage(text + "; give them less, or run fewer"))
}

/// The memory in bytes for each of `count` equal guests, as much as is useful and fits.
///
/// # Errors
/// If so many cannot fit.
pub fn share(room: &Room<'_>, count: usize, bundle: u64) -> Result<u32> {
    let largest = |memory: u32| {
        let fits = |mib: &u64| place(room.loader, memory.into(), &vec![*mib; count], bundle).is_ok();
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

/// Which guest finds no place, and the largest piece of memory that there is then. `None` is Spica itself.
#[derive(Debug, PartialEq, Eq)]
struct Misfit {
    guest: Option<usize>,
    largest: u64,
}

/// Places everything; all sizes in MiB but the bundle's.
fn place(loader: Loader, memory: u64, guests: &[u64], bundle: u64) -> std::result::Result<(), Misfit> {
    let (low, lost) = match loader {
        Loader::Qemu => (INITRD_MIB.min(memory / 2), 0),
        Loader::UBoot => (0, U_BOOT_MIB),
    };
    let taken = low + lost + bundle.div_ceil(MIB);
    let high = memory.checked_sub(taken).ok_or(Misfit { guest: None, largest: 0 })?;
    let mut free = [low, high];
    let mut take = |size: u64, guest: Option<usize>| match free.iter_mut().find(|piece| **piece >= size) {
        Some(piece) => {
            *piece -= size;
            Ok(())
        }
        None => Err(Misfit { guest, largest: free.into_iter().max().unwrap_or(0) }),
    };
    take(ONCE_MIB, None)?;
    guests.iter().try_for_each(|_| take(EACH_MIB, None))?;
    guests.iter().enumerate().try_for_each(|(index, &size)| take(size, Some(index)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board;

    const BUNDLE: u64 = 8 * MIB;

    fn room(name: &str) -> Room<'static> {
        board::find(name).unwrap().into()
    }

    fn mib(bytes: u32) -> u64 {
        u64::from(bytes) / MIB
    }

    #[test]
    fn shares_fit_and_are_as_large_as_may_be() {
        for name in ["cubieboard", "vexpress-a9"] {
            let board = &room(name);
            for count in 1..=8 {
                let bytes = share(board, count, BUNDLE).unwrap();
                let guests = vec![("x", bytes); count];
                let memory = board_memory(board, &guests, BUNDLE).unwrap();
                let more = vec![mib(bytes) + STEP_MIB; count];
                assert!(
                    mib(bytes) == MOST_MIB || place(Loader::Qemu, memory.into(), &more, BUNDLE).is_err(),
                    "{name} {count}"
                );
            }
        }
        let cubieboard = &room("cubieboard");
        assert_eq!(mib(share(cubieboard, 1, BUNDLE).unwrap()), 256);
        assert_eq!(mib(share(cubieboard, 3, BUNDLE).unwrap()), 256);
        assert_eq!(mib(share(cubieboard, 8, BUNDLE).unwrap()), 96);
    }

    #[test]
    fn one_guest_of_256_mib_fits_the_small_board() {
        let board = &room("cubieboard");
        assert_eq!(board_memory(board, &[("a", 256 << 20)], BUNDLE).unwrap(), 512);
        assert_eq!(board_memory(board, &[("a", 256 << 20), ("b", 256 << 20)], BUNDLE).unwrap(), 1024);
    }

    #[test]
    fn too_much_in_all() {
        let board = &room("cubieboard");
        let error = board_memory(board, &[("a", 512 << 20), ("b", 512 << 20)], BUNDLE).unwrap_err();
        let expected = "the guests do not fit cubieboard, which has 1024M: they want 1024M (a 512M, b 512M), but 974M are \
                        left beside 42M for Spica and 8M for the bundle; give them less, or run fewer";
        assert_eq!(error.message, expected);
    }

    #[test]
    fn enough_in_all_but_not_in_one_piece() {
        let board = &room("vexpress-a9");
        let error = board_memory(board, &[("a", 800 << 20), ("b", 150 << 20)], BUNDLE).unwrap_err();
        let expected = "the guests do not fit vexpress-a9, which has 1024M: they want 950M (a 800M, b 150M), but 974M are \
                        left beside 42M for Spica and 8M for the bundle; for b, which needs its memory in one piece, the \
                        largest piece left has 88M; give them less, or run fewer";
        assert_eq!(error.message, expected);
    }

    #[test]
    fn a_bundle_larger_than_the_board() {
        let board = &room("cubieboard");
        let error = board_memory(board, &[("a", 16 << 20)], 2000 * MIB).unwrap_err();
        let end = "but 0M are left beside 29M for Spica and 2000M for the bundle; give them less, or run fewer";
        assert!(error.message.ends_with(end), "{error}");
    }

    #[test]
    fn u_boot_leaves_one_piece() {
        let room = Room { name: "a board", memory_mib: [512; 2], loader: Loader::UBoot };
        assert_eq!(board_memory(&room, &[("a", 300 << 20)], BUNDLE).unwrap(), 512);
        let error = board_memory(&room, &[("a", 430 << 20)], BUNDLE).unwrap_err();
        let expected = "the guests do not fit a board, which has 512M: they want 430M (a 430M), but 427M are left beside 77M \
                        for Spica and 8M for the bundle; give them less, or run fewer";
        assert_eq!(error.message, expected);
    }
}
