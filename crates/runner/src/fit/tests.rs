//! What fits and what does not.

use super::*;
use crate::board;

const BUNDLE: u64 = 8 * MIB;

fn room(name: &str) -> Room<'static> {
    board::find(name).unwrap().into()
}

fn mib(bytes: u32) -> u64 {
    u64::from(bytes) / MIB
}

/// Guests with so many MiB.
fn guests(memories: &[(&str, u64)]) -> Wishes {
    let wish = |(name, memory): &(&str, u64)| Wish { name: (*name).into(), memory: memory * MIB, ..Wish::default() };
    Wishes { guests: memories.iter().map(wish).collect(), uplink: false, bundle: BUNDLE }
}

/// The same, each with copy-on-write disks of so many MiB.
fn with_disks(memories: &[(&str, u64)], disks: &[u64]) -> Wishes {
    let mut wishes = guests(memories);
    wishes.guests.iter_mut().for_each(|wish| wish.written = disks.iter().map(|mib| mib * MIB).collect());
    wishes
}

#[test]
fn shares_fit_and_are_as_large_as_may_be() {
    for name in ["cubieboard", "vexpress-a9"] {
        let board = &room(name);
        for count in 1..=8 {
            let bytes = share(board, count, BUNDLE).unwrap();
            let memory = board_memory(board, &guests(&vec![("x", mib(bytes)); count])).unwrap();
            let more = guests(&vec![("x", mib(bytes) + STEP_MIB); count]);
            assert!(mib(bytes) == MOST_MIB || place(board, memory.into(), &more, 0).is_err(), "{name} {count}");
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
    assert_eq!(board_memory(board, &guests(&[("a", 256)])).unwrap(), 512);
    assert_eq!(board_memory(board, &guests(&[("a", 256), ("b", 256)])).unwrap(), 1024);
}

#[test]
fn too_much_in_all() {
    let error = board_memory(&room("cubieboard"), &guests(&[("a", 512), ("b", 512)])).unwrap_err();
    let expected = "the guests do not fit cubieboard, which has 1024M: they want 1024M (a 512M, b 512M), but 966M are \
                    left beside 50M for Spica and 8M for the bundle; b needs its memory in one piece, and the largest \
                    piece left has 376M; give b 376M or less";
    assert_eq!(error.message, expected);
}

#[test]
fn flash_takes_of_what_is_there_for_ram() {
    let mut wishes = Wishes { bundle: 65 * MIB, ..guests(&[("a", 256)]) };
    let small = &Room { memory_mib: [512; 2], ..room("cubieboard") };
    assert_eq!(most_alone(small, &wishes), Some(256));
    wishes.guests[0].flash = 65 * MIB;
    let error = board_memory(small, &wishes).unwrap_err();
    let expected = "the guest does not fit cubieboard, which has 512M: it wants 321M, 65M of that for its flash, but \
                    416M are left beside 31M for Spica and 65M for the bundle; it needs its memory in one piece, and \
                    the largest piece left has 319M, since the bundle lies in the middle; give it 254M or less";
    assert_eq!(error.message, expected);
    assert_eq!(most_alone(small, &wishes), Some(254));
    wishes.guests[0].memory = 254 * MIB;
    assert_eq!(board_memory(small, &wishes).unwrap(), 512);
    wishes.guests[0].flash = 400 * MIB;
    assert_eq!(most_alone(small, &wishes), None);
}

#[test]
fn enough_in_all_but_not_in_one_piece() {
    let error = board_memory(&room("vexpress-a9"), &guests(&[("a", 800), ("b", 150)])).unwrap_err();
    let expected = "the guests do not fit vexpress-a9, which has 1024M: they want 950M (a 800M, b 150M), but 966M are \
                    left beside 50M for Spica and 8M for the bundle; b needs its memory in one piece, and the largest \
                    piece left has 88M, since the bundle lies in the middle; give b 88M or less";
    assert_eq!(error.message, expected);
}

#[test]
fn what_is_said_to_fit_fits() {
    for (name, memory, bundle, fits) in
        [("cubieboard", 400, 8, 376), ("cubieboard", 352, 40, 344), ("vexpress-a9", 900, 8, 888)]
    {
        let most = board::find(name).unwrap().memory_mib;
        let room = Room::new(name, [most; 2], Loader::Qemu);
        let wish = |memory| Wishes { bundle: bundle * MIB, ..guests(&[("a", memory)]) };
        let error = board_memory(&room, &wish(memory)).unwrap_err();
        let end = format!(
            "it needs its memory in one piece, and the largest piece left has {fits}M, since the bundle lies in the \
             middle; give it {fits}M or less"
        );
        assert!(error.message.ends_with(&end), "{error}");
        assert_eq!(board_memory(&room, &wish(fits)).unwrap(), most);
        assert!(board_memory(&room, &wish(fits + 1)).is_err());
    }
}

#[test]
fn before_the_bundle_is_known() {
    let error = board_memory(&room("cubieboard"), &Wishes { bundle: 0, ..guests(&[("a", 2000)]) }).unwrap_err();
    let expected = "the guest does not fit cubieboard, which has 1024M: it wants 2000M, but 977M are left beside 47M \
                    for Spica, less what the bundle takes; it needs its memory in one piece, and the largest piece \
                    left has 896M; give it 896M less the size of the bundle";
    assert_eq!(error.message, expected);
}

#[test]
fn a_bundle_larger_than_the_board() {
    let wishes = Wishes { bundle: 2000 * MIB, ..guests(&[("a", 16)]) };
    let error = board_memory(&room("cubieboard"), &wishes).unwrap_err();
    let end = "but 0M are left beside 29M for Spica and 2000M for the bundle; name smaller files";
    assert!(error.message.ends_with(end), "{error}");
}

#[test]
fn u_boot_leaves_one_piece() {
    let room = Room::new("a board", [512; 2], Loader::UBoot);
    assert_eq!(board_memory(&room, &guests(&[("a", 300)])).unwrap(), 512);
    let error = board_memory(&room, &guests(&[("a", 430)])).unwrap_err();
    let expected = "the guest does not fit a board, which has 512M: it wants 430M, but 423M are left beside 81M for \
                    Spica and 8M for the bundle; it needs its memory in one piece, and the largest piece left has \
                    423M; give it 423M or less";
    assert_eq!(error.message, expected);
}

#[test]
fn disks_want_the_board_with_more_memory() {
    let board = &room("cubieboard");
    // 512M: 256M for the guest, 16M and 16M for Spica, 8M for the bundle, and 216M in two pieces for what is written.
    assert_eq!(board_memory(board, &with_disks(&[("a", 256)], &[64])).unwrap(), 512);
    assert_eq!(board_memory(board, &with_disks(&[("a", 256)], &[300])).unwrap(), 1024);
    // What Spica's command line takes from disks, they need not have.
    let less = board.with_words("spica.stats spica.overlay=1024");
    assert_eq!(board_memory(&less, &with_disks(&[("a", 256)], &[300])).unwrap(), 512);
    assert_eq!(board.with_words("quiet spica.overlay=x").written_most, WRITTEN_MOST);
    // Not all that they may have, but enough.
    assert_eq!(board_memory(board, &with_disks(&[("a", 400), ("b", 400)], &[300])).unwrap(), 1024);
}

#[test]
fn too_little_is_left_for_disks() {
    let board = &room("cubieboard");
    let memories = [("a", 440), ("b", 440), ("c", 56)];
    let error = board_memory(board, &with_disks(&memories, &[300])).unwrap_err();
    let expected = "the guests do not fit cubieboard, which has 1024M: they want 936M (a 440M, b 440M, c 56M), but 953M are \
                    left beside 63M for Spica and 8M for the bundle; of the rest, what is written to 3 copy-on-write disks \
                    gets 4M each, and 16M are the least; give them less, or run fewer";
    assert_eq!(error.message, expected);
    assert_eq!(board_memory(board, &with_disks(&memories, &[4])).unwrap(), 1024, "small disks are whole");
}

#[test]
fn what_spica_knows_of_a_guest_takes_room() {
    let own = |change: fn(&mut Wish)| {
        let mut wishes = guests(&[("a", 128)]);
        change(&mut wishes.guests[0]);
        own(1024, &wishes).iter().map(|bytes| bytes / MIB).collect::<Vec<_>>()
    };
    assert_eq!(own(|_| ()), [14]);
    assert_eq!(own(|wish| wish.memory = 800 * MIB), [20]);
    assert_eq!(own(|wish| wish.written = vec![4 * MIB]), [14]);
    assert_eq!(own(|wish| wish.written = vec![200 * MIB]), [17]);
    assert_eq!(own(|wish| wish.cards = 8), [15]);
    assert_eq!(own(|wish| (wish.lends, wish.written) = (true, vec![4 * MIB])), [15]);
    assert_eq!(own(|wish| wish.claims = 30), [14, 2]);
}
