//! The page is one file, with all that a recording has; a browser sees to the rest (`tests/e2e/trace.rs`).

use spica_trace::page;

use crate::example;

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

#[test]
fn the_shortest_are_left_out_where_there_are_too_many() {
    let timeline = example().timeline();
    let spans = |page: &str| {
        let (_, data) = page.split_once("const data = ").unwrap();
        let data: serde_json::Value = serde_json::from_str(data.lines().next().unwrap().trim_end_matches(';')).unwrap();
        let rows = data["rows"].as_array().unwrap().clone();
        rows.iter().map(|row| row["spans"].as_array().unwrap().len()).sum::<usize>()
    };
    let all = page::write(&timeline).unwrap();
    let few = page::write_with(&timeline, 12).unwrap();
    assert!(spans(&all) > 12 && spans(&few) <= 12 && spans(&few) > 5, "{} and {}", spans(&all), spans(&few));
    assert!(few.contains("shortest of its spans are not in this page") && !all.contains("shortest"));
}
