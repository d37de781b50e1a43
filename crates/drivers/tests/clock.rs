//! The 64-bit clock made from a 32-bit counter.

use spica_drivers::wrap::{Extended, ticks_until};

#[test]
fn a_wrap_adds_a_turn_and_nothing_else_does() {
    let mut clock = Extended::new();
    assert_eq!(clock.at(5), 5);
    assert_eq!(clock.at(5), 5);
    assert_eq!(clock.at(u32::MAX), 0xffff_ffff);
    assert_eq!(clock.at(0), 1 << 32);
    assert_eq!(clock.at(7), (1 << 32) + 7);
    assert_eq!(clock.at(6), (2 << 32) + 6);
}

#[test]
fn deadlines_are_clamped_to_what_the_timer_can_do() {
    assert_eq!(ticks_until(Some(1000), 400), 600);
    assert_eq!(ticks_until(Some(400), 400), 1, "0 would stop or never fire");
    assert_eq!(ticks_until(Some(1), 400), 1, "a passed deadline fires at once");
    assert_eq!(ticks_until(Some(u64::MAX), 0), 1 << 31, "half a turn, so that no turn is missed");
    assert_eq!(ticks_until(None, 12345), 1 << 31);
}
