//! Fetching lists from a mirror that is in the middle of its update.

use super::*;
use spica_mirror::{Fault, Mirror, PACKAGE};

/// Fetches the lists of a mirror with these faults: what was said, how long it would have waited, whether the package
/// is known then, and how often the list was served.
fn fetch(name: &str, faults: &[Fault]) -> (Vec<String>, Vec<u64>, bool, usize) {
    let mirror = Mirror::start(faults);
    let dir = std::env::temp_dir().join(format!("spica-apt-{name}-{}", std::process::id()));
    remove_dir(&dir).unwrap();
    for sub in ["state/lists/partial", "cache/archives/partial", "sources"] {
        create_dir(&dir.join(sub)).unwrap();
    }
    write(&dir.join("sources/test.sources"), mirror.source().as_bytes()).unwrap();
    write(&dir.join("status"), b"").unwrap();
    let config = dir.join("apt.conf");
    write(&config, configuration(&dir, "armhf", "Acquire::http::Proxy \"DIRECT\";\n").as_bytes()).unwrap();
    let apt = Apt { config };
    let (mut said, mut pauses) = (Vec::new(), Vec::new());
    apt.fetch_lists(|message, pause| {
        said.push(message.to_string());
        pauses.push(pause.as_secs());
    });
    let known = apt.show(PACKAGE).is_ok_and(|fields| fields.get("Version") == Some("1"));
    remove_dir(&dir).unwrap();
    (said, pauses, known, mirror.served())
}

#[test]
fn a_mirror_in_order_is_asked_once() {
    assert_eq!(fetch("fine", &[]), (vec![], vec![], true, 1));
}

#[test]
fn a_mirror_that_is_being_updated_is_asked_again() {
    let (said, pauses, known, served) = fetch("updated", &[Fault::Size, Fault::Bytes]);
    assert_eq!((pauses, known, served), (vec![5, 15], true, 3), "{said:?}");
    let begin = "the mirror seems to be in the middle of an update; trying again in ";
    assert!(said.iter().all(|message| message.starts_with(begin)), "{said:?}");
    assert!(said[0].contains("5 s: E: Failed to fetch") && said[0].contains("File has unexpected size"), "{said:?}");
    assert!(said[1].contains("15 s: E: Failed to fetch") && said[1].contains("Hash Sum mismatch"), "{said:?}");
}

#[test]
fn an_update_that_does_not_end_is_not_waited_for() {
    let (said, pauses, known, served) = fetch("endless", &[Fault::Size; 9]);
    assert_eq!((pauses, known, served), (vec![5, 15, 30, 0], false, 4), "{said:?}");
    assert!(said[3].starts_with("warning: some of Debian's package lists are missing: E: Failed to fetch"), "{said:?}");
}

#[test]
fn what_time_does_not_mend_is_said_at_once() {
    let (said, pauses, known, _) = fetch("missing", &[Fault::Missing; 9]);
    assert_eq!((pauses, known), (vec![0], false), "{said:?}");
    assert!(said[0].starts_with("warning: some of Debian's package lists are missing: "), "{said:?}");
}
