//! When a translation takes over.

use spica_switches::Switches;
use spica_switches::later::Later;

/// After how many of `bytes` it is due.
fn due_after(until: &str, bytes: &str) -> Option<usize> {
    let mut later = Later::new(Switches::naive(), until);
    assert_eq!(later.switches(), Switches::naive());
    if later.is_due() {
        return Some(0);
    }
    bytes.bytes().position(|byte| {
        later.printed(byte);
        later.is_due()
    })
}

#[test]
fn it_is_due_when_the_text_has_been_printed() {
    assert_eq!(due_after("@bench", "Linux\r\n@bench null begin"), Some(12));
    assert_eq!(due_after("@bench", "@benc@benhc"), None);
    assert_eq!(due_after("aab", "aaab"), Some(3), "what begins twice");
    assert_eq!(due_after("x", "abcx"), Some(3));
}

#[test]
fn nothing_has_been_printed_at_once() {
    assert_eq!(due_after("", "abc"), Some(0));
}

#[test]
fn it_stays_due() {
    let mut later = Later::new(Switches::all(), "ab");
    "abcd".bytes().for_each(|byte| later.printed(byte));
    assert!(later.is_due());
}
