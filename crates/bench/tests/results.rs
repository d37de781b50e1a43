//! The result file: what is written is read back, and what is wrong with a file is said.

use crate::common;
use proptest::prelude::*;
use spica_bench::events::{Event, Trap};
use spica_bench::results::*;

fn read(text: &str) -> Result<Results, String> {
    Results::from_json("r.json", text).map_err(|e| e.to_string())
}

/// The sample's text with one passage replaced, which must be there.
fn broken(from: &str, to: &str) -> String {
    let text = common::sample().to_json();
    assert!(text.contains(from), "{from} is not in the file");
    read(&text.replacen(from, to, 1)).expect_err("the file is broken")
}

#[test]
fn what_is_written_is_read_back() {
    let sample = common::sample();
    assert_eq!(read(&sample.to_json()), Ok(sample));
}

#[test]
fn the_form_of_the_file() {
    let mut results =
        Results::new(common::run(), vec![common::configuration("default", "as shipped", &[Series::Memory])]);
    results.run.boards.clear();
    results.run.parameters.clear();
    let m = common::measured(Board::Cubieboard, "default", Group::Kernel, "null", 129.0, 2.0);
    let mut events = common::traps(&[(Trap::UserCall, 100)]);
    events.native.insert(Event::ExceptionEntry.key().into(), 100);
    results.put(common::with_events(m, events));
    let expected = r#"{
  "schema": 1,
  "run": {
    "commit": "0123456789abcdef0123456789abcdef01234567",
    "dirty": false,
    "date": "2026-01-01",
    "qemu": "7.2.11",
    "icount_shift": 1,
    "boards": {},
    "parameters": {}
  },
  "configurations": [
    {
      "name": "default",
      "description": "as shipped",
      "series": [
        "memory"
      ]
    }
  ],
  "measurements": [
    {
      "board": "cubieboard",
      "configuration": "default",
      "group": "kernel",
      "workload": "null",
      "unit": "operation",
      "source": "made up",
      "status": {
        "measured": {
          "native": 129.0,
          "virtualised": 258.0,
          "events": {
            "operations": 100,
            "traps": {
              "user-call": 100
            },
            "native": {
              "exception-entry": 100
            },
            "virtualised": {}
          }
        }
      }
    }
  ]
}
"#;
    assert_eq!(results.to_json(), expected, "the file's form changed: then SCHEMA must change too");
}

#[test]
fn errors_name_the_file_and_the_field() {
    let message = broken("\"native\": 129.0", "\"native\": \"many\"");
    assert!(message.starts_with("r.json: measurements[0].status.measured.native: "), "{message}");
    let message = broken("\"native\": 129.0", "\"native\": -1");
    assert_eq!(message, "r.json: measurements[0].status.measured.native: -1 is not a positive number of instructions");
    let message = broken("\"qemu\"", "\"kvm\"");
    assert!(message.starts_with("r.json: run") && message.contains("kvm"), "{message}");
    let message = broken("\"cubieboard\",\n      \"conf", "\"beagle\",\n      \"conf");
    assert!(message.starts_with("r.json: measurements[0].board: ") && message.contains("beagle"), "{message}");
    let message = broken("\"configuration\": \"default\"", "\"configuration\": \"quick\"");
    assert_eq!(message, "r.json: measurements[4].configuration: \"quick\" is not among `configurations`");
    let message = broken("\"name\": \"naive\"", "\"name\": \"default\"");
    assert_eq!(message, "r.json: configurations[4].name: default is declared twice");
    let message = broken("\"workload\": \"read\"", "\"workload\": \"null\"");
    assert!(message.ends_with("cubieboard/naive/kernel/null is there twice"), "{message}");
    let message = broken("\"operations\": 100", "\"operations\": 0");
    assert!(message.starts_with("r.json: measurements[0].status.measured.events.operations: "), "{message}");
    let message = broken("\"user-call\"", "\"use-call\"");
    assert!(message.starts_with("r.json: measurements[0].status.measured.events.traps.use-call: "), "{message}");
}

#[test]
fn other_versions_and_no_files_at_all() {
    assert_eq!(
        broken("\"schema\": 1", "\"schema\": 2"),
        "r.json: schema: the file has version 2; this spica reads version 1"
    );
    // A later version may look quite different, and must still be called by its name.
    assert!(read("{\"schema\": 7, \"things\": []}").unwrap_err().contains("version 7"));
    assert!(read("").unwrap_err().starts_with("r.json: "));
    assert!(read("{}").unwrap_err().contains("schema"));
    assert!(read("[1, 2]").unwrap_err().starts_with("r.json: "));
    let cut = common::sample().to_json();
    assert!(read(&cut[..cut.len() / 2]).unwrap_err().starts_with("r.json: "));
    assert!(read(&(common::sample().to_json() + "x")).is_err());
}

#[test]
fn figures_that_cannot_be_right_are_kept_out() {
    let mut results = Results::new(common::run(), common::configurations());
    for (name, value) in [("nan", f64::NAN), ("zero", 0.0), ("endless", f64::INFINITY)] {
        results.put(common::measured(Board::Cubieboard, "default", Group::Kernel, name, value, 1.0));
        let m = results.find(Board::Cubieboard, "default", Group::Kernel, name).unwrap();
        assert!(
            matches!(&m.status, Status::Missing { reason, native: None } if reason.contains("not a positive number"))
        );
    }
    read(&results.to_json()).expect("the file can be read");
}

#[test]
fn an_interrupted_run_is_resumed() {
    let missing = |workload: &str| Measurement {
        status: Status::Missing { reason: "interrupted".into(), native: Some(100.0) },
        ..common::measured(Board::Cubieboard, "default", Group::Kernel, workload, 100.0, 2.0)
    };
    let mut first = Results::new(common::run(), common::configurations());
    first.put(common::measured(Board::Cubieboard, "default", Group::Kernel, "null", 100.0, 2.0));
    first.put(missing("read"));
    first.put(missing("write"));
    let key = |w: &str| missing(w).key();
    assert!(first.is_settled(&key("null")) && !first.is_settled(&key("read")) && !first.is_settled(&key("stat")));
    assert_eq!(first.native(Board::Cubieboard, Group::Kernel, "read"), Some(100.0));

    let mut second = Results::new(Run { date: "2026-01-02".into(), ..common::run() }, common::configurations());
    second.put(missing("null"));
    second.put(common::measured(Board::Cubieboard, "default", Group::Kernel, "read", 100.0, 3.0));
    second.put(common::measured(Board::Cubieboard, "default", Group::Kernel, "stat", 100.0, 4.0));
    first.merge(second).unwrap();
    let ratios: Vec<_> = first.measurements.iter().map(|m| (m.workload.as_str(), m.ratio())).collect();
    assert_eq!(ratios, [("null", Some(2.0)), ("read", Some(3.0)), ("write", None), ("stat", Some(4.0))]);
    assert_eq!(first.run.date, "2026-01-01");
}

#[test]
fn only_parts_of_one_run_are_merged() {
    let other = |change: fn(&mut Run)| {
        let mut results = common::sample();
        change(&mut results.run);
        let before = common::sample();
        let mut ours = before.clone();
        let mismatch = ours.merge(results).unwrap_err();
        assert_eq!(ours, before, "nothing is merged then");
        mismatch.field
    };
    assert_eq!(other(|r| r.commit = "f00".into()), "commit");
    assert_eq!(other(|r| r.dirty = true), "dirty");
    assert_eq!(other(|r| r.qemu = "8".into()), "qemu");
    assert_eq!(other(|r| r.icount_shift = 0), "icount_shift");
    assert_eq!(
        other(|r| {
            r.boards.get_mut(&Board::VexpressA9).unwrap().kernel = "6.2".into();
        }),
        "boards.vexpress-a9.kernel"
    );
    assert_eq!(
        other(|r| {
            r.parameters.insert("lmbench repetitions".into(), "3".into());
        }),
        "parameters.lmbench repetitions"
    );
}

#[test]
fn findings_are_checked() {
    let with = |change: fn(&mut Finding)| {
        let mut finding = Finding::new(1.0);
        change(&mut finding);
        let mut measurement = common::found(Board::Cubieboard, "switch", 1.0, None);
        measurement.status = Status::Found(finding);
        let mut results = Results::new(common::run(), common::configurations());
        results.put(measurement);
        results.measurements[0].reason().map(str::to_string)
    };
    assert_eq!(with(|f| f.value = -0.5), None);
    assert!(with(|f| f.value = f64::NAN).unwrap().contains("found.value"));
    assert!(with(|f| f.goal = Some(f64::INFINITY)).unwrap().contains("found.goal"));
    assert!(with(|f| f.parts = [("x".into(), f64::NAN)].into()).unwrap().contains("found.parts.x"));
    let twice = with(|f| f.histogram = vec![Class { below: 2, count: 0 }; 2]);
    assert!(twice.unwrap().contains("found.histogram[1].below"));
}

/// The form has grown, and what was written before is still read.
#[test]
fn files_of_before_are_read() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/results");
    let files = std::fs::read_dir(directory).unwrap().flatten().map(|e| e.path());
    let files: Vec<_> = files.filter(|f| f.extension().is_some_and(|e| e == "json")).collect();
    assert!(!files.is_empty());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        read(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
}

fn any_measurement() -> impl Strategy<Value = Measurement> {
    let status = prop_oneof![
        (1e-9f64..1e15, 1e-9f64..1e15, 1u64.., any::<u64>()).prop_map(|(native, virtualised, operations, count)| {
            let mut events = Events { operations, ..Events::default() };
            events.traps.insert(Trap::Mmio.key().into(), count);
            events.virtualised.insert(Event::TlbMiss.key().into(), count);
            Status::Measured(Figures { native, virtualised, events: Some(events), timing: None })
        }),
        (".*", proptest::option::of(1e-9f64..1e15)).prop_map(|(reason, native)| Status::Missing { reason, native }),
        (-1e15f64..1e15, proptest::option::of(-1e15f64..1e15), ".*", any::<u64>(), 1u64..1000).prop_map(
            |(value, goal, name, count, below)| {
                let histogram = vec![Class { below, count: count / 2 }, Class { below: below + 1, count: count / 3 }];
                Status::Found(Finding { value, goal, parts: [(name, value)].into(), histogram })
            }
        ),
        ".*".prop_map(|reason| Status::NotImplemented { reason }),
    ];
    (any::<bool>(), ".*", ".*", ".*", status).prop_map(|(a8, workload, unit, source, status)| Measurement {
        board: if a8 { Board::Cubieboard } else { Board::VexpressA9 },
        configuration: "default".into(),
        group: Group::Machine,
        workload,
        unit,
        source,
        status,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn anything_survives_the_file(measurements in proptest::collection::vec(any_measurement(), 0..8)) {
        let mut results = Results::new(common::run(), common::configurations());
        measurements.into_iter().for_each(|m| results.put(m));
        prop_assert_eq!(read(&results.to_json()), Ok(results));
    }

    #[test]
    fn anything_makes_a_well_formed_report(measurements in proptest::collection::vec(any_measurement(), 0..8)) {
        let mut results = Results::new(common::run(), common::configurations());
        measurements.into_iter().for_each(|m| results.put(m));
        let page = spica_bench::report::html(&results);
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        prop_assert!(roxmltree::Document::parse_with_options(&page, options).is_ok());
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in ".*") {
        let _ = read(&text);
    }
}
