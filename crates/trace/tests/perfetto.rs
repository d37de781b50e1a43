//! The JSON is what the Trace Event Format asks for: types of fields, names of processes and threads, and spans of a
//! thread that lie in each other or do not touch.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use spica_trace::{Timeline, perfetto};

use crate::example;

/// Checks a file against the format, and gives its events.
#[track_caller]
pub fn check(timeline: &Timeline) -> Vec<Value> {
    let mut bytes = Vec::new();
    perfetto::write(timeline, &mut bytes).unwrap();
    let file: Value = serde_json::from_slice(&bytes).expect("JSON");
    assert_eq!(file["displayTimeUnit"], "ns");
    let events = file["traceEvents"].as_array().expect("events").clone();
    let (mut processes, mut threads, mut used) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut spans: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
    for event in &events {
        let fields: BTreeSet<&str> = event.as_object().expect("an object").keys().map(String::as_str).collect();
        let number = |field: &str| event[field].as_u64().unwrap_or_else(|| panic!("no number {field} in {event}"));
        // Microseconds with three decimals are nanoseconds.
        let time = |field: &str| {
            let time = event[field].as_f64().unwrap_or_else(|| panic!("no time {field} in {event}"));
            assert!(time >= 0.0, "{event}");
            (time * 1000.0).round() as u64
        };
        let (pid, tid) = (number("pid"), number("tid"));
        let name = event["name"].as_str().expect("a name");
        assert!(!name.is_empty() && event.get("args").is_none_or(Value::is_object), "{event}");
        match event["ph"].as_str().expect("a phase") {
            "M" => {
                assert_eq!(fields, ["args", "name", "ph", "pid", "tid"].into());
                match name {
                    "process_name" => assert!(event["args"]["name"].is_string() && processes.insert(pid)),
                    "thread_name" => assert!(event["args"]["name"].is_string() && threads.insert((pid, tid))),
                    "process_sort_index" | "thread_sort_index" => assert!(event["args"]["sort_index"].is_u64()),
                    _ => panic!("{event}"),
                }
                continue;
            }
            "X" => {
                let (begin, length) = (time("ts"), time("dur"));
                spans.entry((pid, tid)).or_default().push((begin, begin + length));
                used.insert((pid, tid));
            }
            "i" => {
                time("ts");
                assert_eq!(event["s"], "t");
                used.insert((pid, tid));
            }
            "C" => {
                time("ts");
                assert!(event["args"].as_object().expect("values").values().all(Value::is_number));
                assert!(processes.contains(&pid));
                continue;
            }
            _ => panic!("{event}"),
        }
        assert!(event["cat"].is_string(), "{event}");
    }
    assert!(used.is_subset(&threads), "threads without a name");
    assert!(threads.iter().all(|(pid, _)| processes.contains(pid)), "processes without a name");
    for (thread, mut spans) in spans {
        spans.sort_by_key(|&(begin, end)| (begin, u64::MAX - end));
        let mut open: Vec<u64> = Vec::new();
        for (begin, end) in spans {
            while open.last().is_some_and(|&around| around <= begin && around < end) {
                open.pop();
            }
            assert!(open.last().is_none_or(|&around| end <= around), "{thread:?}: {begin} to {end} sticks out");
            open.push(end);
        }
    }
    events
}

#[test]
fn the_example_is_what_the_format_asks_for() {
    let events = check(&example().timeline());
    let find = |name: &str| events.iter().find(|event| event["name"] == name).unwrap_or_else(|| panic!("no {name}"));
    let read = find("read");
    assert_eq!((read["ts"].as_f64(), read["dur"].as_f64(), &read["cat"]), (Some(110.0), Some(200.0), &"kernel".into()));
    let branch = find("unlinked branch");
    assert_eq!(branch["args"]["operand"], "0xc0100000");
    assert_eq!(branch["args"]["with"], "translation");
    assert_eq!(find("blocks translated")["args"]["blocks"], 4);
    assert_eq!(find("driver notifies virtio 1")["ph"], "i");
    let names: Vec<_> = events.iter().filter(|event| event["name"] == "process_name").collect();
    assert_eq!(names.iter().map(|event| &event["args"]["name"]).collect::<Vec<_>>(), ["board", "web", "<db>"]);
}
