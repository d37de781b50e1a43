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

/// A guest's name and the bytes of its memory.
pub type Wish<'a> = (&'a str, u32);

/// The least memory of the board, in MiB, with which all guests fit, where `bundle` is the size of what it boots in bytes.
///
/// # Errors
/// If they do not fit the most that the board can have: who wants what, and what there is.
pub fn board_memory(board: &Board, guests: &[Wish<'_>], bundle: u64) -> Result<u32> {
    let sizes: Vec<_> = guests.iter().map(|(_, bytes)| u64::from(*bytes) / MIB).collect();
    let mut failure = None;
    for memory in [board.memory_mib, board.most_memory_mib] {
        match place(memory.into(), &sizes, bundle) {
            Ok(()) => return Ok(memory),
            Err(misfit) => failure = Some(misfit),
        }
    }
    let most = board.most_memory_mib;
    let wishes: Vec<_> = guests.iter().zip(&sizes).map(|((name, _), mib)| format!("{name} {mib}M")).collect();
    let own = ONCE_MIB + EACH_MIB * sizes.len() as u64;
    let bundle = bundle.div_ceil(MIB);
    let left = u64::from(most).saturating_sub(own + bundle);
    let total: u64 = sizes.iter().sum();
    let mut text = format!(
        "the guests do not fit {}, which has {most}M: they want {total}M ({}), but {left}M are left beside {own}M for Spica \
         and {bundle}M for the bundle",
        board.name,
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
pub fn share(board: &Board, count: usize, bundle: u64) -> Result<u32> {
    let largest = |memory: u32| {
        let fits = |mib: &u64| place(memory.into(), &vec![*mib; count], bundle).is_ok();
        (LEAST_MIB / STEP_MIB..=MOST_MIB / STEP_MIB).rev().map(|n| n * STEP_MIB).find(fits)
    };
    let small = largest(board.memory_mib).filter(|&mib| mib >= COMFORTABLE_MIB);
    let mib = small.or_else(|| largest(board.most_memory_mib)).ok_or_else(|| {
        Error::usage(format!(
            "{count} guests do not fit {}, which has {}M: each needs {LEAST_MIB}M at least; run fewer",
            board.name, board.most_memory_mib
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
fn place(memory: u64, guests: &[u64], bundle: u64) -> std::result::Result<(), Misfit> {
    let initrd = INITRD_MIB.min(memory / 2);
    let behind = initrd + bundle.div_ceil(MIB);
    let high = memory.checked_sub(behind).ok_or(Misfit { guest: None, largest: 0 })?;
    let mut free = [initrd, high];
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

    fn mib(bytes: u32) -> u64 {
        u64::from(bytes) / MIB
    }

    #[test]
    fn shares_fit_and_are_as_large_as_may_be() {
        for name in ["cubieboard", "vexpress-a9"] {
            let board = board::find(name).unwrap();
            for count in 1..=8 {
                let bytes = share(board, count, BUNDLE).unwrap();
                let guests = vec![("x", bytes); count];
                let memory = board_memory(board, &guests, BUNDLE).unwrap();
                let more = vec![mib(bytes) + STEP_MIB; count];
                assert!(mib(bytes) == MOST_MIB || place(memory.into(), &more, BUNDLE).is_err(), "{name} {count}");
            }
        }
        let cubieboard = board::find("cubieboard").unwrap();
        assert_eq!(mib(share(cubieboard, 1, BUNDLE).unwrap()), 256);
        assert_eq!(mib(share(cubieboard, 3, BUNDLE).unwrap()), 256);
        assert_eq!(mib(share(cubieboard, 8, BUNDLE).unwrap()), 96);
    }

    #[test]
    fn one_guest_of_256_mib_fits_the_small_board() {
        let board = board::find("cubieboard").unwrap();
        assert_eq!(board_memory(board, &[("a", 256 << 20)], BUNDLE).unwrap(), 512);
        assert_eq!(board_memory(board, &[("a", 256 << 20), ("b", 256 << 20)], BUNDLE).unwrap(), 1024);
    }

    #[test]
    fn too_much_in_all() {
        let board = board::find("cubieboard").unwrap();
        let error = board_memory(board, &[("a", 512 << 20), ("b", 512 << 20)], BUNDLE).unwrap_err();
        let expected = "the guests do not fit cubieboard, which has 1024M: they want 1024M (a 512M, b 512M), but 974M are \
                        left beside 42M for Spica and 8M for the bundle; give them less, or run fewer";
        assert_eq!(error.message, expected);
    }

    #[test]
    fn enough_in_all_but_not_in_one_piece() {
        let board = board::find("vexpress-a9").unwrap();
        let error = board_memory(board, &[("a", 800 << 20), ("b", 150 << 20)], BUNDLE).unwrap_err();
        let expected = "the guests do not fit vexpress-a9, which has 1024M: they want 950M (a 800M, b 150M), but 974M are \
                        left beside 42M for Spica and 8M for the bundle; for b, which needs its memory in one piece, the \
                        largest piece left has 88M; give them less, or run fewer";
        assert_eq!(error.message, expected);
    }

    #[test]
    fn a_bundle_larger_than_the_board() {
        let board = board::find("cubieboard").unwrap();
        let error = board_memory(board, &[("a", 16 << 20)], 2000 * MIB).unwrap_err();
        let end = "but 0M are left beside 29M for Spica and 2000M for the bundle; give them less, or run fewer";
        assert!(error.message.ends_with(end), "{error}");
    }
}
