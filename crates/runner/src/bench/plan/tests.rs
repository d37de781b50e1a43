//! What is measured, and what is left to be.

use super::super::configurations::named;
use super::*;
use spica_bench::results::{Events, Figures, Finding, Run};

fn item(group: Group, name: &str, quick: bool) -> Item {
    Item { group, name: name.into(), unit: "call".into(), source: "test".into(), quick }
}

fn items() -> Vec<Item> {
    vec![
        item(Group::Boot, "init", true),
        item(Group::Kernel, "null", true),
        item(Group::Kernel, "fork-exec", false),
        item(Group::Machine, "null", true),
    ]
}

fn results() -> Results {
    let run = Run {
        commit: "c".into(),
        dirty: false,
        date: "2026-01-01".into(),
        qemu: "7.2".into(),
        icount_shift: 1,
        boards: [].into(),
        parameters: [].into(),
    };
    Results::new(run, Vec::new())
}

fn chosen(patterns: &[&str], quick: bool) -> Result<Vec<String>> {
    let patterns: Vec<_> = patterns.iter().map(ToString::to_string).collect();
    let items = select_items(&items(), &patterns, quick)?;
    Ok(items.iter().map(|i| format!("{}/{}", i.group, i.name)).collect())
}

#[test]
fn workloads_are_chosen_by_name_and_by_group() {
    assert_eq!(chosen(&[], false).unwrap().len(), 4);
    assert_eq!(chosen(&[], true).unwrap().len(), 3);
    assert_eq!(chosen(&["null"], false).unwrap(), ["kernel/null", "machine/null"]);
    assert_eq!(chosen(&["kernel/*", "init"], false).unwrap(), ["boot/init", "kernel/null", "kernel/fork-exec"]);
    let error = chosen(&["nul"], false).unwrap_err();
    assert_eq!(error.status, crate::error::USAGE);
    assert!(error.message.starts_with("no workload is called \"nul\"; the workloads are:\n"), "{error}");
    assert!(error.message.contains("\n  kernel/  null fork-exec\n"), "{error}");
    let error = chosen(&["fork-*"], true).unwrap_err();
    assert!(error.message.starts_with("workload \"fork-*\" is not in the quick subset"), "{error}");
}

#[test]
fn boards_are_chosen_by_name() {
    let names = |names: &[&str]| select_boards(&names.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(names(&[]).unwrap().len(), results::Board::ALL.len());
    assert_eq!(names(&["vexpress-a9"]).unwrap()[0].name, "vexpress-a9");
    let error = names(&["virt"]).unwrap_err();
    assert!(error.message.starts_with("unknown board \"virt\"; benchmarks run on cubieboard (Cortex-A8)"), "{error}");
}

/// What Spica cannot do.
const LACKING: Configuration = Configuration {
    name: "lacking",
    description: "a test",
    words: "",
    series: &[],
    lacks: Some("it is not there"),
    quick_boot: "",
    patience: 1,
};

#[test]
fn only_what_is_missing_is_run_and_in_whole_jobs() {
    let mut results = results();
    let boards = select_boards(&["cubieboard".into()]).unwrap();
    let configurations = [named("default").unwrap(), &LACKING];
    let (items, now) = (items(), |r: &Results| jobs(r, &boards, &configurations, &items(), Wanted::Figures));
    note(&mut results, &boards, &configurations, &items);
    assert_eq!(results.measurements.len(), 8);
    assert_eq!(now(&results).len(), 6, "three groups, with and without Spica");
    assert_eq!(jobs(&results, &boards, &configurations, &items, Wanted::Native).len(), 3);

    let put = |results: &mut Results, item: &Item, status| {
        results.put(measurement(results_board(boards[0]), "default", item, status));
    };
    let measured = || Status::Measured(Figures { native: 1.0, virtualised: 2.0, events: None, timing: None });
    put(&mut results, &items[0], measured());
    put(&mut results, &items[1], measured());
    put(&mut results, &items[2], Status::Missing { reason: "died".into(), native: Some(1.0) });
    let left = now(&results);
    let titles: Vec<_> = left.iter().map(Job::title).collect();
    assert_eq!(titles, ["cubieboard, native, machine", "cubieboard, default, kernel", "cubieboard, default, machine"]);
    assert_eq!(left[1].items.len(), 2, "the whole job, or its figures would not be those of the first time");

    for (reason, jobs) in [("this board has none", 1), ("it died", 3)] {
        let status = Status::Missing { reason: format!("{NATIVELY}{reason}"), native: None };
        put(&mut results, &items[3], status);
        assert_eq!(now(&results).len(), jobs, "what a board does not have is not tried again: {reason}");
    }

    let counting: Vec<_> =
        jobs(&results, &boards, &configurations, &items, Wanted::Events).iter().map(Job::title).collect();
    assert_eq!(
        counting,
        [
            "cubieboard, native, kernel",
            "cubieboard, native, machine",
            "cubieboard, native, boot",
            "cubieboard, default, kernel",
            "cubieboard, default, machine",
            "cubieboard, default, boot"
        ],
        "the bare board is counted again with each guest"
    );
    let events = Some(Events { operations: 1, ..Events::default() });
    put(&mut results, &items[0], Status::Measured(Figures { native: 1.0, virtualised: 2.0, events, timing: None }));
    assert_eq!(jobs(&results, &boards, &configurations, &items, Wanted::Events).len(), 4, "boots are counted");

    note(&mut results, &boards, &[named("naive").unwrap()], &items);
    let names: Vec<_> = results.configurations.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["lacking", "naive", "default"], "in the order of the table, what is not in it first");
    note(&mut results, &boards, &configurations, &items);
    assert!(results.is_settled(&key(boards[0], "default", &items[0])), "what is measured stays");
}

#[test]
fn several_guests_have_no_bare_board() {
    let mut results = results();
    let boards = select_boards(&["cubieboard".into()]).unwrap();
    let configurations = [named("default").unwrap()];
    let items = [item(Group::Several, "share", true)];
    note(&mut results, &boards, &configurations, &items);
    let titles = |results: &Results, wanted| -> Vec<_> {
        jobs(results, &boards, &configurations, &items, wanted).iter().map(Job::title).collect()
    };
    assert_eq!(titles(&results, Wanted::Figures), ["cubieboard, default, several"]);
    assert_eq!(titles(&results, Wanted::Native), [""; 0]);
    let status = Status::Found(Finding::new(0.5));
    results.put(measurement(results_board(boards[0]), "default", &items[0], status));
    for wanted in [Wanted::Figures, Wanted::Events] {
        assert_eq!(titles(&results, wanted), [""; 0], "nothing in it is counted");
    }
}
