//! How long the guest that has the core may keep it.

use spica_sched::Slices;

#[test]
fn a_slice_goes_on_until_it_is_over() {
    let mut slices = Slices::new(100);
    assert_eq!(slices.heir(0, |_| true), None);
    assert_eq!(slices.turn(0, 0, |_| true), 100);
    assert_eq!(slices.heir(60, |_| true), Some(0));
    assert_eq!(slices.turn(0, 60, |_| true), 100);
    assert_eq!(slices.used_up(99), None);
    assert_eq!((slices.heir(100, |_| true), slices.used_up(100)), (None, Some(0)));
    assert_eq!(slices.turn(0, 110, |_| true), 210);
}

#[test]
fn who_was_interrupted_goes_on_for_what_is_left() {
    let mut slices = Slices::new(100);
    slices.turn(0, 0, |_| true);
    // Guest 2 wakes, and soon waits again; guest 1 has been there all the time.
    for wake in [30, 60, 90] {
        assert_eq!(slices.turn(2, wake, |_| true), wake + 100);
        assert_eq!(slices.heir(wake + 10, |at| at != 2), Some(0));
        assert_eq!(slices.turn(0, wake + 10, |at| at != 2), 100 + wake / 3);
    }
    assert_eq!(slices.heir(140, |_| true), None);
}

#[test]
fn of_two_that_wake_the_first_one_interrupted() {
    let mut slices = Slices::new(100);
    slices.turn(0, 0, |_| true);
    slices.turn(1, 40, |_| true);
    slices.turn(2, 50, |_| true);
    assert_eq!(slices.heir(60, |at| at != 2), Some(0));
    assert_eq!(slices.turn(0, 60, |at| at != 2), 120);
}

#[test]
fn nothing_is_left_for_who_waits_itself() {
    let mut slices = Slices::new(100);
    slices.turn(0, 0, |_| true);
    assert_eq!(slices.heir(30, |_| false), None);
    assert_eq!(slices.turn(1, 40, |at| at == 1), 140);
    assert_eq!(slices.turn(0, 50, |_| true), 150);
    // Guest 1, which was interrupted, has been paused meanwhile.
    assert_eq!(slices.heir(60, |_| false), None);
    assert_eq!(slices.turn(2, 70, |at| at == 2), 170);
    assert_eq!(slices.turn(1, 75, |at| at == 1), 175);
}

#[test]
fn who_uses_up_a_slice_has_not_interrupted() {
    let mut slices = Slices::new(100);
    slices.turn(0, 0, |_| true);
    slices.turn(1, 40, |_| true);
    assert_eq!(slices.heir(140, |_| true), None);
    assert_eq!(slices.turn(2, 140, |_| true), 240);
    // Nothing is kept for guest 0.
    assert_eq!(slices.heir(150, |at| at == 0), None);
}
