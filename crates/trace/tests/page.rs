//! The page is one file, with all that a recording has; a browser sees to the rest (`tests/e2e/trace.rs`).

use std::collections::BTreeMap;

use serde_json::Value;
use spica_trace::page;

use crate::example;
use crate::perfetto::check;

/// What a page's script draws.
#[track_caller]
fn data(page: &str) -> Value {
    let (_, data) = page.split_once("const data = ").expect("data");
    serde_json::from_str(data.lines().next().unwrap().trim_end_matches(';')).expect("JSON")
}

#[test]
fn the_page_is_one_file() {
    let page = page::write(&example().timeline()).unwrap();
    for outside in ["src=", "href=", "@import", "url(", "fetch("] {
        assert!(!page.contains(outside), "{outside} in the page");
    }
    assert!(page.contains("&lt;db&gt;") && page.contains("\\u003cdb>") && !page.contains("<db>"), "a name is no tag");
    assert!(page.contains("17 records had no room"));
    assert!(page.contains("<tr><td>kernel: read</td><td>1</td><td>0.200</td><td>200.0</td><td>200.0</td></tr>"));
}

/// An event: its process, thread, name, category, nanoseconds from when to when if it is a span, and details.
type Event = (String, String, String, String, u64, Option<u64>, Vec<String>);

#[test]
fn the_page_draws_what_the_json_has() {
    let timeline = example().timeline();
    let text = |value: &Value| value.as_str().expect("text").to_string();
    let (mut subjects, mut rows, mut in_json) = (BTreeMap::new(), BTreeMap::new(), Vec::<Event>::new());
    for event in check(&timeline) {
        let (pid, tid) = (event["pid"].as_u64(), event["tid"].as_u64());
        match (event["ph"].as_str().unwrap(), event["name"].as_str().unwrap()) {
            ("M", "process_name") => _ = subjects.insert(pid, text(&event["args"]["name"])),
            ("M", "thread_name") => _ = rows.insert((pid, tid), text(&event["args"]["name"])),
            ("X" | "i", name) => {
                let time = |field: &str| Some((event.get(field)?.as_f64()? * 1000.0).round() as u64);
                let args = event.get("args").and_then(Value::as_object).into_iter().flatten();
                let mut details: Vec<String> =
                    args.map(|(key, value)| format!("{key}: {}", value.to_string().trim_matches('"'))).collect();
                details.sort();
                let (begin, category) = (time("ts").unwrap(), text(&event["cat"]));
                let (subject, row) = (subjects[&pid].clone(), rows[&(pid, tid)].clone());
                in_json.push((subject, row, name.into(), category, begin, time("dur"), details));
            }
            _ => {}
        }
    }
    let data = data(&page::write(&timeline).unwrap());
    let named = |list: &str, number: &Value| text(&data[list][number.as_u64().expect("a number") as usize]);
    let mut in_page = Vec::<Event>::new();
    for row in data["rows"].as_array().unwrap() {
        let mut add = |begin: &Value, length: Option<&Value>, [name, category, details]: [&Value; 3]| {
            let mut details: Vec<String> = details.as_str().unwrap().lines().map(str::to_string).collect();
            details.sort();
            let (name, category) = (named("names", name), named("categories", category));
            let (begin, length) = (begin.as_u64().unwrap(), length.map(|length| length.as_u64().unwrap()));
            in_page.push((text(&row["subject"]), text(&row["name"]), name, category, begin, length, details));
        };
        for span in row["spans"].as_array().unwrap() {
            add(&span[0], Some(&span[1]), [&span[2], &span[3], &span[5]]);
        }
        for point in row["points"].as_array().unwrap() {
            add(&point[0], None, [&point[1], &point[2], &point[3]]);
        }
    }
    assert!(in_page.len() > 20, "{in_page:?}");
    assert_eq!(in_page, in_json);
    let end = in_page.iter().map(|event| event.4 + event.5.unwrap_or(0)).max();
    assert_eq!(end, data["end"].as_u64(), "the script shows all of it");
}

#[test]
fn each_span_has_a_lane_of_its_own() {
    let data = data(&page::write(&example().timeline()).unwrap());
    let rows = data["rows"].as_array().unwrap();
    let traps = rows.iter().find(|row| row["name"] == "Spica: traps and translation").unwrap();
    let lanes: Vec<_> = traps["spans"].as_array().unwrap().iter().map(|span| span[4].as_u64().unwrap()).collect();
    assert_eq!(lanes, [0, 1, 0, 0, 0, 0]);
}

#[test]
fn the_shortest_are_left_out_where_there_are_too_many() {
    let timeline = example().timeline();
    let spans = |page: &str| {
        let rows = data(page)["rows"].as_array().unwrap().clone();
        rows.iter().map(|row| row["spans"].as_array().unwrap().len()).sum::<usize>()
    };
    let all = page::write(&timeline).unwrap();
    let few = page::write_with(&timeline, 12).unwrap();
    assert!(spans(&all) > 12 && spans(&few) <= 12 && spans(&few) > 5, "{} and {}", spans(&all), spans(&few));
    assert!(few.contains("shortest of its spans are not in this page") && !all.contains("shortest"));
}
