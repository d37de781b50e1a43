use alloc::vec;
use alloc::vec::Vec;

use spica_addr::GuestPa;

use crate::testing::{BUFFERS, Buffer, RAM, Rig, read, write};
use crate::{Plug, Work};

const B: u64 = BUFFERS as u64;
/// A machine of 256 pages, as much as the rig has RAM.
const PLUG: Plug = Plug::Balloon { pages: 256, base: GuestPa(RAM) };
const FIRST: u32 = RAM >> 12;

fn send(rig: &mut Rig, queue: usize, frames: &[u32]) {
    let bytes: Vec<u8> = frames.iter().flat_map(|frame| frame.to_le_bytes()).collect();
    rig.ram.set(BUFFERS, &bytes);
    rig.request(queue, &[Buffer::Read(B, bytes.len() as u32)]);
    assert!(rig.used(queue).is_some());
}

fn page(index: u32) -> GuestPa {
    GuestPa(RAM + index * 4096)
}

#[test]
fn the_driver_hears_of_a_new_target() {
    let mut rig = Rig::new(&PLUG);
    rig.slot.set_balloon_target(100);
    assert_eq!((read(&mut rig.slot, 0x100), rig.interrupt()), (100, 2));
    rig.slot.set_balloon_target(100);
    assert_eq!(rig.interrupt(), 0);
    rig.slot.set_balloon_target(1000);
    assert_eq!(read(&mut rig.slot, 0x100), 256, "no more than there are");
    write(&mut rig.slot, 0x104, 77);
    assert_eq!((read(&mut rig.slot, 0x104), rig.slot.balloon_pages()), (77, 0), "that is only what the driver says");
}

#[test]
fn the_host_hears_of_each_page_once() {
    let mut rig = Rig::new(&PLUG);
    send(&mut rig, 0, &[FIRST, FIRST + 5, FIRST + 5, FIRST + 255]);
    assert_eq!(rig.ends.pages, [(page(0), true), (page(5), true), (page(255), true)]);
    assert_eq!(rig.slot.balloon_pages(), 3);
    rig.ends.pages.clear();
    send(&mut rig, 1, &[FIRST + 5, FIRST + 6, FIRST + 5]);
    assert_eq!(rig.ends.pages, [(page(5), false)]);
    rig.ends.pages.clear();
    send(&mut rig, 0, &[0, FIRST - 1, FIRST + 256, u32::MAX, FIRST + (1 << 20)]);
    send(&mut rig, 1, &[0, FIRST - 1, FIRST + 256, u32::MAX]);
    assert_eq!(rig.ends.pages, [], "there are no such pages");
    assert_eq!(rig.slot.balloon_pages(), 2);
}

#[test]
fn a_reset_returns_all_pages_even_if_no_driver_comes_back() {
    let mut rig = Rig::new(&PLUG);
    let frames: Vec<u32> = (0..200).map(|n| FIRST + n).collect();
    send(&mut rig, 0, &frames);
    rig.ends.pages.clear();
    write(&mut rig.slot, 0x070, 0);
    assert!(rig.slot.wants_service());
    rig.slot.serve(&mut rig.ram, &mut rig.ends, &mut Work::new(2000));
    assert!(rig.slot.wants_service() && rig.ends.pages.len() < 10, "bit by bit");
    rig.serve();
    assert_eq!(rig.ends.pages, (0..200).map(|n| (page(n), false)).collect::<Vec<_>>());
    assert_eq!(rig.slot.balloon_pages(), 0);
}

#[test]
fn a_page_that_is_in_use_is_waited_for() {
    let mut rig = Rig::new(&PLUG);
    send(&mut rig, 0, &[FIRST, FIRST + 1, FIRST + 2]);
    rig.ends.pages.clear();
    rig.ends.kept = vec![page(1)];
    let bytes: Vec<u8> = [FIRST, FIRST + 1, FIRST + 2].iter().flat_map(|frame: &u32| frame.to_le_bytes()).collect();
    rig.ram.set(BUFFERS, &bytes);
    rig.request(1, &[Buffer::Read(B, 12)]);
    assert_eq!((rig.used(1), rig.slot.balloon_pages()), (None, 2), "the request waits");
    assert!(!rig.slot.wants_service(), "and takes no time meanwhile");
    // What is given meanwhile is no answer to that.
    send(&mut rig, 0, &[FIRST + 9]);
    assert_eq!(rig.used(1), None);
    rig.ends.kept.clear();
    rig.slot.poke();
    rig.serve();
    assert!(rig.used(1).is_some());
    assert_eq!(rig.ends.pages, [(page(0), false), (page(9), true), (page(1), false), (page(2), false)]);

    rig.ends.kept = vec![page(9)];
    write(&mut rig.slot, 0x070, 0);
    rig.serve();
    assert_eq!((rig.slot.balloon_pages(), rig.slot.wants_service()), (1, false));
    rig.ends.kept.clear();
    rig.slot.poke();
    rig.serve();
    assert_eq!(rig.slot.balloon_pages(), 0);
}

#[test]
fn statistics_are_asked_for() {
    let mut rig = Rig::new(&PLUG);
    let statistic = |tag: u16, value: u64| [&tag.to_le_bytes()[..], &value.to_le_bytes()].concat();
    rig.ram.set(BUFFERS, &[statistic(4, 1234), statistic(5, 99), statistic(999, 1)].concat());
    rig.request(2, &[Buffer::Read(B, 30)]);
    assert_eq!(rig.used(2), None, "the device keeps the buffer");
    assert_eq!(rig.slot.balloon_statistics().map(|s| (s[4], s[5])), Some((1234, 99)));
    rig.serve();
    assert!(rig.used(2).is_some() && rig.interrupt() == 1, "and gives it back for new ones");
    rig.ram.set(BUFFERS, &statistic(4, 5678));
    rig.request(2, &[Buffer::Read(B, 10)]);
    assert_eq!(rig.slot.balloon_statistics().map(|s| s[4]), Some(5678));
}

#[test]
fn odd_lists_of_pages_are_harmless() {
    let mut rig = Rig::new(&PLUG);
    rig.ram.set(BUFFERS, &(FIRST + 1).to_le_bytes());
    rig.request(0, &[Buffer::Read(B, 7)]);
    rig.request(1, &[Buffer::Write(B, 8)]);
    assert_eq!(rig.ends.pages, [(page(1), true)]);
    assert!(rig.used(0).is_some() && rig.used(1).is_some() && !rig.needs_reset());
}
