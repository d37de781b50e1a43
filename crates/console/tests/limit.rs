//! How often the same is said.

use spica_console::Limit;

const SECOND: u64 = 1000;

#[test]
fn the_first_are_said_at_once_and_then_one_a_second() {
    let mut limit = Limit::new(SECOND);
    assert_eq!((limit.to_say(0), limit.deadline()), (None, None));
    let (mut said, mut happened, mut counted) = (Vec::new(), 0, 0);
    for now in 0..10 * SECOND {
        limit.happens();
        happened += 1;
        if let Some(times) = limit.to_say(now) {
            said.push(now);
            counted += times;
        }
    }
    assert_eq!(said[..4], [0, 1, 2, 3]);
    assert!(said[4..].windows(2).all(|pair| pair[1] - pair[0] == SECOND), "{said:?}");
    assert_eq!(said.len(), 4 + 9, "{said:?}");
    // None is forgotten, also if no more happen.
    let deadline = limit.deadline().unwrap();
    assert_eq!(limit.to_say(deadline - 1), None);
    assert_eq!(counted + limit.to_say(deadline).unwrap(), happened);
    assert_eq!((limit.deadline(), limit.to_say(deadline + SECOND), limit.rest()), (None, None, None));
    limit.happens();
    assert_eq!((limit.to_say(deadline + 1), limit.rest(), limit.deadline()), (Some(1), None, None));
    limit.happens();
    assert_eq!((limit.to_say(deadline + 2), limit.rest(), limit.deadline()), (None, Some(1), None));
}

#[test]
fn what_happens_now_and_then_is_said_each_time() {
    let mut limit = Limit::new(SECOND);
    for now in (0..100).map(|n| n * 2 * SECOND) {
        limit.happens();
        assert_eq!(limit.to_say(now), Some(1));
        assert_eq!(limit.to_say(now + 1), None);
    }
    // And a few at once.
    for now in 200 * SECOND..200 * SECOND + 4 {
        limit.happens();
        assert_eq!(limit.to_say(now), Some(1), "{now}");
    }
}
