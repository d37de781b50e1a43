//! The reports: well-formed, complete, and true to their data.

use crate::common;
use roxmltree::{Document, Node, ParsingOptions};
use spica_bench::catalogue::KERNEL;
use spica_bench::report;
use spica_bench::results::*;

fn page(results: &Results) -> String {
    report::html(results)
}

fn parse(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page, options).expect("the page is well-formed XML")
}

fn class<'a>(node: &Node<'a, '_>) -> &'a str {
    node.attribute("class").unwrap_or("")
}

/// A horizontal place, in per cent.
fn percent(node: &Node, name: &str) -> f64 {
    node.attribute(name).and_then(|v| v.strip_suffix('%')).expect(name).parse().expect(name)
}

fn number(node: &Node, name: &str) -> f64 {
    node.attribute(name).expect(name).parse().expect(name)
}

#[test]
fn every_bar_lies_within_its_plot() {
    let text = page(&common::sample());
    let document = parse(&text);
    let mut bars = 0;
    for plot in document.descendants().filter(|n| class(n) == "plot") {
        let height = number(&plot, "height");
        for bar in plot.children().filter(|n| n.has_tag_name(("http://www.w3.org/2000/svg", "rect"))) {
            let (y, thick) = (number(&bar, "y"), number(&bar, "height"));
            assert!(y >= 0.0 && y + thick <= height, "a bar from {y}, {thick} thick, in a plot {height} high");
            if class(&bar).starts_with("bar ") {
                let (x, width) = (percent(&bar, "x"), percent(&bar, "width"));
                assert!(x >= 0.0 && width >= 0.0 && x + width <= 100.002, "a bar from {x} %, {width} % wide");
                bars += 1;
            }
        }
        for line in plot.children().filter(|n| class(n) == "whisker") {
            let (from, to) = (percent(&line, "x1"), percent(&line, "x2"));
            assert!(from >= 0.0 && from <= to && to <= 100.0);
        }
    }
    assert!(bars > 500, "only {bars} bars");
}

#[test]
fn bars_of_a_group_do_not_overlap() {
    let text = page(&common::sample());
    let document = parse(&text);
    for plot in document.descendants().filter(|n| class(n) == "plot") {
        let rects = plot.children().filter(|n| n.tag_name().name() == "rect");
        let mut places: Vec<_> = rects
            .map(|r| {
                let (left, right) = match class(&r) {
                    "missing" => (0.0, 1.0),
                    _ => (percent(&r, "x"), percent(&r, "x") + percent(&r, "width")),
                };
                (number(&r, "y"), number(&r, "y") + number(&r, "height"), left, right)
            })
            .collect();
        places.sort_by(|a, b| a.partial_cmp(b).unwrap());
        for pair in places.windows(2) {
            let apart = pair[1].0 >= pair[0].1 || pair[1].2 >= pair[0].3 - 0.002;
            assert!(apart, "{:?} lies over {:?}", pair[0], pair[1]);
        }
    }
}

#[test]
fn stacks_fill_their_width() {
    let text = page(&common::sample());
    let document = parse(&text);
    let mut rows = std::collections::BTreeMap::<(usize, u64), f64>::new();
    for (at, plot) in document.descendants().filter(|n| class(n) == "plot").enumerate() {
        for bar in plot.children().filter(|n| class(n).starts_with("bar t-") || class(n).starts_with("bar p-")) {
            *rows.entry((at, number(&bar, "y") as u64)).or_default() += percent(&bar, "width");
        }
    }
    assert!(rows.len() > 50);
    assert!(rows.values().all(|width| (width - 100.0).abs() < 0.05), "{rows:?}");
}

#[test]
fn longer_bars_are_greater_values() {
    let mut results = common::sample();
    results.measurements.retain(|m| m.board == Board::Cubieboard);
    let text = page(&results);
    let document = parse(&text);
    let first = document.descendants().find(|n| class(n) == "plot").unwrap();
    let widths: Vec<f64> = first.children().filter(|n| class(n) == "bar ours").map(|n| percent(&n, "width")).collect();
    // The made-up ratios grow from one kernel operation to the next; the last, mmap, is missing.
    assert_eq!(widths.len(), 21);
    assert!(widths.is_sorted() && widths[0] < widths[20], "{widths:?}");
}

#[test]
fn on_a_logarithmic_axis_bars_begin_at_native() {
    let mut results = Results::new(common::run(), common::configurations());
    results.put(common::measured(Board::Cubieboard, "default", Group::Machine, "faster", 1000.0, 0.2));
    results.put(common::measured(Board::Cubieboard, "default", Group::Machine, "slower", 1000.0, 20.0));
    let text = page(&results);
    let document = parse(&text);
    let plot = document.descendants().find(|n| class(n) == "plot").unwrap();
    let bars: Vec<_> = plot.children().filter(|n| class(n) == "bar ours").collect();
    let native = percent(&plot.children().find(|n| class(n) == "mark").unwrap(), "x1");
    // From 0.2 to 20 native is at log 5 / log 100.
    assert!((native - 100.0 * 5f64.ln() / 100f64.ln()).abs() < 0.001);
    assert_eq!(percent(&bars[0], "x"), 0.0);
    assert!((percent(&bars[0], "width") - native).abs() < 0.002);
    assert!((percent(&bars[1], "x") - native).abs() < 0.002);
    assert!((percent(&bars[1], "x") + percent(&bars[1], "width") - 100.0).abs() < 0.002);
}

#[test]
fn what_is_missing_is_drawn_as_missing_and_named() {
    let text = page(&common::sample());
    let document = parse(&text);
    let empty: Vec<_> = document.descendants().filter(|n| class(n) == "missing").collect();
    let titles: Vec<_> = empty.iter().filter_map(|n| n.first_element_child()?.text()).collect();
    assert!(titles.contains(&"mmap: missing: the guest died: \"jumped <astray>\" & more"), "{titles:?}");
    assert!(
        text.contains("does not exist yet: single-shadow: one shadow table, DACR switched. (a single shadow table.)")
    );
    assert!(
        empty.iter().all(|n| n.attribute("width") == Some("24")),
        "a missing bar has a length that means something"
    );
    let markdown = report::markdown(&common::sample());
    assert!(
        markdown.contains("| cubieboard | default | missing: the guest died: \"jumped \\<astray\\>\" & more | mmap |")
    );
    assert!(markdown.contains("does not exist yet: a single shadow table"));
}

#[test]
fn what_nobody_asked_for_because_it_does_not_exist_is_named() {
    let mut results = Results::new(common::run(), common::configurations());
    results.put(common::measured(Board::Cubieboard, "default", Group::Kernel, "null", 130.0, 2.0));
    let spilling = results.configurations.iter_mut().find(|c| c.name == "spill-tpidrurw").unwrap();
    spilling.lacks = Some("no such technique".into());
    let markdown = report::markdown(&results);
    assert!(markdown.contains("### Not implemented"), "{markdown}");
    assert!(markdown.contains("| spill-tpidrurw | TPIDRURW | no such technique |"), "{markdown}");
    let text = page(&results);
    assert!(text.contains("does not exist yet: spill-tpidrurw: TPIDRURW. (no such technique.)"));
    assert!(text.contains("<td class=\"t\">no such technique</td>"));
    assert_eq!(Results::from_json("file", &results.to_json()).unwrap(), results);
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let text = page(&common::sample());
    let document = parse(&text);
    let names: std::collections::BTreeSet<_> = document.descendants().map(|n| n.tag_name().name()).collect();
    for name in ["script", "img", "link", "iframe", "object"] {
        assert!(!names.contains(name), "a {name} element");
    }
    assert!(document.descendants().all(|n| n.attribute("href").is_none_or(|h| h.starts_with('#'))));
    assert!(!text.contains("url(") && !text.contains("@import"));
    assert!(text.contains("prefers-color-scheme: dark"));
}

#[test]
fn every_colour_class_is_in_the_style_sheet() {
    let text = page(&common::sample());
    let document = parse(&text);
    let style = document.descendants().find(|n| n.tag_name().name() == "style").and_then(|n| n.text()).unwrap();
    for node in document.descendants().filter(|n| class(n).starts_with("bar ") || class(n).starts_with("swatch ")) {
        let colour = class(&node).split(' ').nth(1).unwrap();
        assert!(style.contains(&format!(".{colour} {{")), "no colour for {colour}");
    }
    for trap in spica_bench::events::Trap::ALL {
        assert!(style.contains(&format!(".t-{} {{", trap.key())), "no colour for {}", trap.key());
    }
}

#[test]
fn links_lead_somewhere() {
    let text = page(&common::sample());
    let document = parse(&text);
    let ids: Vec<_> = document.descendants().filter_map(|n| n.attribute("id")).collect();
    for link in document.descendants().filter_map(|n| n.attribute("href")) {
        assert!(ids.contains(&&link[1..]), "{link} leads nowhere");
    }
}

#[test]
fn an_empty_run_is_still_a_report() {
    let empty = Results::new(common::run(), Vec::new());
    parse(&page(&empty));
    let mut one = Results::new(common::run(), vec![common::configuration("default", "", &[])]);
    one.put(common::measured(Board::Cubieboard, "default", Group::Kernel, "null", 129.0, 1.9));
    let text = page(&one);
    let document = parse(&text);
    assert_eq!(document.descendants().filter(|n| class(n) == "bar ours").count(), 1, "nothing to model without traps");
    assert!(text.contains("not modelled: traps were not counted"));
    assert!(text.contains("This run did not include them."));
    assert!(report::markdown(&one).contains("| null | operation | 129 | 245 | 1.90× | not counted | not modelled |"));
}

#[test]
fn the_same_results_give_the_same_report() {
    let json = common::sample().to_json();
    let again = Results::from_json("sample.json", &json).unwrap();
    assert_eq!(page(&common::sample()), page(&again));
    assert_eq!(report::markdown(&common::sample()), report::markdown(&again));
}

#[test]
fn markdown_tables_are_rectangular() {
    let markdown = report::markdown(&common::sample());
    let mut width = None;
    for line in markdown.lines() {
        let cells = line.replace("\\|", "").matches('|').count();
        match (line.starts_with('|'), width) {
            (false, _) => width = None,
            (true, None) => width = Some(cells),
            (true, Some(w)) => assert_eq!(cells, w, "{line}"),
        }
    }
}

#[test]
fn figures_of_the_papers_stand_beside_ours() {
    let markdown = report::markdown(&common::sample());
    let row = |start: &str| markdown.lines().find(|l| l.starts_with(start)).unwrap_or_else(|| panic!("no row {start}"));
    // The made-up ratios of the linked configuration are 30 for null, 25 for open-close, which is the sixth operation.
    let calls = row("| simple system calls, unoptimised");
    assert!(calls.contains("STAR §6.2, Figure 8: 76×") && calls.contains("25.0 to 30.0×"), "{calls}");
    assert!(row("| applications of MiBench’s kind, optimised").contains("1.02 to 1.08×"));
    assert!(row("| traps to run a program that does nothing").contains("20\u{202f}602 traps"));
}

#[test]
fn what_an_optimisation_is_worth_is_its_mean_and_its_most() {
    let text = page(&common::sample());
    let (_, figure) = text.split_once("Without each optimisation").expect("the figure");
    // Of the operations that both configurations have: all but one, which `default` has no figure of.
    let both = KERNEL.len() as f64 - 1.0;
    let mean = (1.5f64.powf(both - 1.0) * 2.0).powf(1.0 / both);
    let most = format!("+100 % ({})", KERNEL[1].name);
    for label in [format!("+{:.0} %", (mean - 1.0) * 100.0), most] {
        assert!(figure.contains(&label), "no bar says {label}");
    }
}

#[test]
fn time_is_in_both_reports() {
    let mut results = common::sample();
    assert!(!report::markdown(&results).contains("modelled cycles of a"));
    let counted = |walks| Counted {
        operations: 10,
        counts: [("base".to_string(), 1000), ("data-walk".to_string(), walks)].into(),
    };
    let timing = Timing { native: counted(0), virtualised: counted(250) };
    let measured = results.measurements.iter_mut().find_map(|m| match &mut m.status {
        Status::Measured(figures) if m.configuration == "default" && m.board == Board::Cubieboard => Some(figures),
        _ => None,
    });
    measured.expect("a figure").timing = Some(timing);
    let text = report::markdown(&results);
    let beside = text.lines().find(|l| l.starts_with("| simple system calls, optimised")).expect("a row");
    assert!(beside.contains("2.00×, within 2.00 to 2.54×"), "{beside}");
    // 100 cycles, and 100 more for 25 walks at 4.
    assert!(text.contains("cubieboard: modelled cycles of a Cortex-A8") && text.contains("2.00×"), "{text}");
    assert!(text.contains("| data TLB |") && text.contains("0 / 100"), "{text}");
    let page = page(&results);
    parse(&page);
    assert!(page.contains("Prices of what the model counts on a Cortex-A8"));
    // It survives the file.
    let again = Results::from_json("again", &results.to_json()).expect("a result file");
    assert_eq!(again, results);
}
