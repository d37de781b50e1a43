//! A timeline as a page of HTML that needs no other file: rows of spans, to be moved and magnified, and the figures.
//!
//! The spans are in the page as numbers; a script draws those that can be seen, as SVG. Where there are more than a
//! browser likes, the shortest are left out, and the page says so.

use std::fmt::Write;

use serde::Serialize;

use crate::summary;
use crate::timeline::{Details, Row, Subject, Timeline, Value};

/// Spans and points in a page at most.
pub const MOST: usize = 400_000;
/// Lines of figures for each subject.
const FIGURES: usize = 40;

const SCRIPT: &str = include_str!("page.js");
const STYLE: &str = include_str!("page.css");

/// What the script draws. Times are nanoseconds.
#[derive(Serialize)]
struct Data<'a> {
    end: u64,
    names: Vec<&'a str>,
    categories: Vec<&'a str>,
    rows: Vec<DrawnRow<'a>>,
}

#[derive(Serialize)]
struct DrawnRow<'a> {
    subject: &'a str,
    name: &'a str,
    /// Begin, length, name, category, depth; and what else is known, as text.
    spans: Vec<(u64, u64, usize, usize, usize, String)>,
    /// Time, name, category, what else is known.
    points: Vec<(u64, usize, usize, String)>,
}

/// Numbers for names.
#[derive(Default)]
struct Names<'a>(std::collections::HashMap<&'a str, usize>, Vec<&'a str>);

impl<'a> Names<'a> {
    fn number(&mut self, name: &'a str) -> usize {
        *self.0.entry(name).or_insert_with(|| {
            self.1.push(name);
            self.1.len() - 1
        })
    }
}

fn text_of(details: &Details) -> String {
    let one = |(key, value): &(&str, Value)| match value {
        Value::Hex(number) => format!("{key}: {number:#010x}"),
        Value::Number(number) => format!("{key}: {number}"),
        Value::Text(text) => format!("{key}: {text}"),
    };
    details.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// How many spans each span of a row lies in.
fn depths(row: &Row) -> impl Iterator<Item = usize> + '_ {
    let mut open: Vec<u64> = Vec::new();
    row.spans.iter().map(move |span| {
        while open.last().is_some_and(|&end| end <= span.begin && end < span.end) {
            open.pop();
        }
        open.push(span.end);
        open.len() - 1
    })
}

/// The shortest length, in ticks, of which all spans have room.
fn threshold(timeline: &Timeline, most: usize) -> u64 {
    let rows = || timeline.rows.values().flatten();
    let points: usize = rows().map(|row| row.points.len()).sum();
    let mut lengths: Vec<u64> = rows().flat_map(|row| &row.spans).map(|span| span.end - span.begin).collect();
    let room = most.saturating_sub(points);
    if lengths.len() <= room {
        return 0;
    }
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    lengths[room].saturating_add(1)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The page.
///
/// # Errors
/// None that happen: what is written is numbers and texts.
pub fn write(timeline: &Timeline) -> serde_json::Result<String> {
    write_with(timeline, MOST)
}

/// The same with so many spans and points at most.
///
/// # Errors
/// As [`write()`].
pub fn write_with(timeline: &Timeline, most: usize) -> serde_json::Result<String> {
    let shortest = threshold(timeline, most);
    let (mut names, mut categories, mut left_out) = (Names::default(), Names::default(), 0);
    let mut rows = Vec::new();
    let mut points_left = most;
    for (&subject, of_subject) in &timeline.rows {
        let subject = match subject {
            Subject::Board => "board",
            Subject::Guest(number) => &timeline.guests[number],
        };
        for row in of_subject {
            let mut spans = Vec::new();
            for (span, depth) in row.spans.iter().zip(depths(row)) {
                if span.end - span.begin < shortest {
                    left_out += 1;
                    continue;
                }
                let (begin, end) = (timeline.nanoseconds(span.begin), timeline.nanoseconds(span.end));
                let (name, category) = (names.number(&span.name), categories.number(span.category));
                spans.push((begin, end - begin, name, category, depth, text_of(&span.details)));
            }
            left_out += row.points.len().saturating_sub(points_left);
            let mut points = Vec::new();
            for point in row.points.iter().take(points_left) {
                let (name, category) = (names.number(&point.name), categories.number(point.category));
                points.push((timeline.nanoseconds(point.time), name, category, text_of(&point.details)));
            }
            points_left -= points.len();
            rows.push(DrawnRow { subject, name: &row.name, spans, points });
        }
    }
    let end = timeline.nanoseconds(timeline.range.1);
    let data = Data { end, names: names.1, categories: categories.1, rows };
    // Nothing in it ends the script.
    let data = serde_json::to_string(&data)?.replace('<', "\\u003c");
    let mut notes = format!("{} ms of {}", end / 1_000_000, escaped(&timeline.guests.join(", ")));
    if timeline.lost != 0 {
        let _ = write!(notes, "; {} records had no room and are lost", timeline.lost);
    }
    if left_out != 0 {
        let _ = write!(notes, "; the {left_out} shortest of its spans are not in this page");
    }
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Timeline</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>Timeline</h1>\n<p>{notes}</p>\n\
         <p class=\"keys\">Wheel with Ctrl: magnify. Drag: move. Keys: W and S magnify, A and D move, 0 shows all. Rest the \
         pointer on a span to see what it is.</p>\n<div id=\"rows\"></div>\n<h2>Figures</h2>\n"
    );
    figures(timeline, &mut page);
    let _ = write!(page, "<script>\nconst data = {data};\n{SCRIPT}</script>\n</body>\n</html>\n");
    Ok(page)
}

fn figures(timeline: &Timeline, page: &mut String) {
    let lines = summary::lines(timeline);
    for &subject in timeline.rows.keys() {
        let name = match subject {
            Subject::Board => "board",
            Subject::Guest(number) => &timeline.guests[number],
        };
        let _ = write!(
            page,
            "<table>\n<caption>{}</caption>\n<tr><th>what</th><th>times</th><th>all, ms</th><th>mean, µs</th>\
             <th>longest, µs</th></tr>\n",
            escaped(name)
        );
        for line in lines.iter().filter(|line| line.subject == subject).take(FIGURES) {
            let _ = writeln!(
                page,
                "<tr><td>{}</td><td>{}</td><td>{}.{:03}</td><td>{}</td><td>{}</td></tr>",
                escaped(&line.name),
                line.count,
                line.total / 1_000_000,
                line.total / 1000 % 1000,
                summary::microseconds(line.total / line.count.max(1)),
                summary::microseconds(line.longest)
            );
        }
        page.push_str("</table>\n");
    }
}
