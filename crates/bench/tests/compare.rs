//! Comparisons: worst first, and nothing left out.

use crate::common;
use spica_bench::compare::{Change, Comparison, compare};
use spica_bench::events::Trap;
use spica_bench::results::*;

fn kernel(workload: &str, native: f64, ratio: f64) -> Measurement {
    common::measured(Board::Cubieboard, "default", Group::Kernel, workload, native, ratio)
}

fn missing(workload: &str, reason: &str) -> Measurement {
    Measurement { status: Status::Missing { reason: reason.into(), native: None }, ..kernel(workload, 1.0, 1.0) }
}

fn results(measurements: impl IntoIterator<Item = Measurement>) -> Results {
    let mut results = Results::new(common::run(), common::configurations());
    measurements.into_iter().for_each(|m| results.put(m));
    results
}

fn of(a: &Results, b: &Results) -> Comparison {
    compare("a.json", a, "b.json", b)
}

#[test]
fn the_same_run_twice_is_identical() {
    let mut later = common::sample();
    later.run.date = "2027-01-01".into();
    let comparison = of(&common::sample(), &later);
    assert!(comparison.is_identical() && !comparison.is_worse());
    assert!(comparison.conditions.is_empty(), "the date is no condition");
    assert!(comparison.text().ends_with("in neither\n"), "{}", comparison.text());
}

#[test]
fn worst_first() {
    let a = results([
        kernel("same", 100.0, 2.0),
        kernel("better", 100.0, 4.0),
        kernel("much-better", 100.0, 8.0),
        kernel("worse", 100.0, 2.0),
        kernel("much-worse", 100.0, 2.0),
        kernel("dies", 100.0, 2.0),
        kernel("gone", 100.0, 2.0),
        missing("never", "no package"),
        missing("mended", "died"),
    ]);
    let b = results([
        kernel("same", 100.0, 2.0),
        kernel("better", 100.0, 3.0),
        kernel("much-better", 100.0, 2.0),
        kernel("worse", 100.0, 2.2),
        kernel("much-worse", 100.0, 6.0),
        missing("dies", "the guest died"),
        missing("never", "no package"),
        kernel("mended", 100.0, 2.5),
        kernel("fresh", 100.0, 2.5),
    ]);
    let comparison = of(&a, &b);
    let order: Vec<_> = comparison.changes.iter().map(|(key, _)| key.workload.as_str()).collect();
    assert_eq!(order, ["dies", "gone", "much-worse", "worse", "better", "much-better", "mended", "fresh"]);
    assert_eq!(comparison.unchanged, 1);
    assert_eq!(comparison.missing.len(), 1);
    assert!(comparison.is_worse() && !comparison.is_identical());
    assert_eq!(comparison.changes[2].1.factor(), Some(3.0));
    assert_eq!(comparison.changes[1].1, Change::Lost { reason: "not in b.json".into() });

    let text = comparison.text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "a.json -> b.json");
    assert_eq!(
        lines[1].trim_start(),
        "lost  cubieboard/default/kernel/dies                        missing: the guest died"
    );
    assert_eq!(
        lines[3], "+200.0 %  cubieboard/default/kernel/much-worse   2.00× → 6.00×  200 → 600 instructions",
        "{text}"
    );
    assert!(text.contains("new  cubieboard/default/kernel/mended       2.50×          before missing: died"), "{text}");
    assert!(text.contains("in neither: cubieboard/default/kernel/never: missing: no package"));
    assert_eq!(*lines.last().unwrap(), "2 lost, 2 slower, 2 faster, 1 the same, 2 new, 1 in neither");
}

#[test]
fn findings_are_worse_beyond_what_was_aimed_at() {
    let with = |idle, switch, new: Option<f64>| {
        let found = |name, value, goal| common::found(Board::Cubieboard, name, value, goal);
        let all = [found("idle", idle, Some(0.5)), found("switch", switch, None)];
        results(all.into_iter().chain(new.map(|value| found("new", value, None))))
    };
    assert!(of(&with(0.1, 9.0, None), &with(0.1, 9.0, None)).is_identical());
    let better = of(&with(0.1, 9.0, None), &with(0.3, 8.0, Some(2.5)));
    assert!(!better.is_worse(), "{}", better.text());
    assert!(
        better.text().contains("moved  cubieboard/default/several/idle    0.1000 → 0.3000    % of the core"),
        "{}",
        better.text()
    );
    assert!(better.text().contains("new  cubieboard/default/several/new     2.50 instructions"), "{}", better.text());
    assert!(better.text().ends_with("0 slower, 0 faster, 0 the same, 2 moved to what is no worse, 1 new\n"));
    assert!(of(&with(0.6, 9.0, None), &with(0.7, 9.0, None)).is_worse());
    let worse = of(&with(0.1, 9.0, None), &with(0.1, 9.5, None));
    assert!(worse.is_worse() && worse.text().contains("worse"), "{}", worse.text());
    assert!(of(&with(0.1, 9.0, Some(1.0)), &with(0.1, 9.0, None)).is_worse(), "one is lost");
}

#[test]
fn what_else_changed_is_said() {
    let traps = |n| common::with_events(kernel("null", 100.0, 2.0), common::traps(&[(Trap::Coprocessor, n)]));
    let comparison = of(&results([traps(1460)]), &results([traps(200)]));
    assert!(comparison.text().contains("14.6 → 2 traps"), "{}", comparison.text());
    assert!(comparison.text().contains("1 with the same ratio but other counts"));

    let comparison = of(&results([kernel("null", 100.0, 2.0)]), &results([kernel("null", 200.0, 2.0)]));
    assert!(comparison.text().contains("NATIVE figure changed too: 100 → 200"));

    let (a, mut b) = (common::sample(), common::sample());
    b.run.commit = "fedcba9876543210".into();
    b.run.dirty = true;
    b.run.boards.get_mut(&Board::Cubieboard).unwrap().kernel = "6.1.0-19-armmp".into();
    let comparison = of(&a, &b);
    assert!(comparison.text().contains("commit: 0123456789ab -> fedcba987654 with changes"));
    assert!(comparison.text().contains("cubieboard kernel: 6.1.0-18-armmp 6.1.76-1 -> 6.1.0-19-armmp"));
}
