//! What a processor knows of those who take turns on it.

use spica_sched::RunQueue;

#[test]
fn all_time_is_charged_once() {
    let mut queue = RunQueue::new(10, 100);
    assert_eq!(queue.charge(130), 30);
    assert_eq!(queue.charge(130), 0);
    // The host's clock is read in several places: what was charged already is not given back.
    assert_eq!(queue.charge(120), 0);
    assert_eq!(queue.charge(140), 20);
}

#[test]
fn the_processor_is_one_guests_until_it_is_taken_from_it() {
    let mut queue = RunQueue::new(10, 0);
    assert_eq!(queue.take_current(), None);
    queue.set_current(3);
    assert!(queue.is_current(3) && !queue.is_current(2));
    assert_eq!(queue.take_current(), Some(3));
    assert!(!queue.is_current(3));
}

#[test]
fn the_first_follows_itself() {
    let mut queue = RunQueue::new(10, 0);
    assert_eq!(queue.follows(2), 2);
    assert_eq!(queue.follows(1), 2);
    assert_eq!(queue.follows(1), 1);
}
