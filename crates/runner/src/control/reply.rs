//! What a board's answers mean, for people and for programs.

use std::fmt::Write;

use serde::{Serialize, Serializer};

use crate::error::{Error, Result};

/// A line of `list`: `guest INDEX NAME STATE WEIGHT MEMORY_MIB RUN_PERMILLE ENGINE`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GuestState {
    /// Its number, from 0.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// What it does, in one word: `running`, `waiting`, `paused`, `off` …
    pub state: String,
    /// Its weight.
    pub weight: u32,
    /// Its memory in MiB.
    pub memory_mib: u32,
    /// How much of the time since the board's start it ran, in thousandths.
    pub run_permille: u32,
    /// What runs its kernel: `blocks` or `in-place`.
    pub engine: String,
}

/// The counters of guests, in the board's order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Counters {
    #[serde(serialize_with = "as_map")]
    guests: Vec<(String, Values)>,
}

impl Counters {
    /// A counter of the first guest that there is.
    #[must_use]
    pub fn first(&self, counter: &str) -> Option<u64> {
        let (_, Values(values)) = self.guests.first()?;
        values.iter().find(|(name, _)| name == counter).map(|(_, value)| *value)
    }
}

/// The counters of one guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
struct Values(#[serde(serialize_with = "as_map")] Vec<(String, u64)>);

fn as_map<T: Serialize, S: Serializer>(pairs: &[(String, T)], serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

/// Understands the answer to `list`.
///
/// # Errors
/// If it is not one.
pub fn guests(lines: &[String]) -> Result<Vec<GuestState>> {
    let guest = |line: &String| {
        let words: Vec<_> = line.split(' ').collect();
        let ["guest", index, name, state, weight, memory, run, engine] = words[..] else { return None };
        Some(GuestState {
            index: index.parse().ok()?,
            name: name.to_string(),
            state: state.to_string(),
            weight: weight.parse().ok()?,
            memory_mib: memory.parse().ok()?,
            run_permille: run.parse().ok()?,
            engine: engine.to_string(),
        })
    };
    lines.iter().map(|line| guest(line).ok_or_else(|| strange(line))).collect()
}

/// Understands the answer to `stats`: lines `stat NAME COUNTER VALUE`.
///
/// # Errors
/// If it is not one.
pub fn counters(lines: &[String]) -> Result<Counters> {
    let mut counters = Counters::default();
    for line in lines {
        let words: Vec<_> = line.split(' ').collect();
        let ["stat", name, counter, value] = words[..] else { return Err(strange(line)) };
        let value = value.parse().map_err(|_| strange(line))?;
        let at = counters.guests.iter().position(|(n, _)| n == name).unwrap_or_else(|| {
            counters.guests.push((name.to_string(), Values::default()));
            counters.guests.len() - 1
        });
        counters.guests[at].1.0.push((counter.to_string(), value));
    }
    Ok(counters)
}

/// What guests got and did from the board's start up to a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summaries {
    /// The board's time, in ticks.
    pub ticks: u64,
    /// How many of these a second has.
    pub hertz: u64,
    /// The guests, in the board's order.
    pub guests: Vec<Summary>,
}

/// What a guest got and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Its name.
    pub name: String,
    /// What it does, in one word.
    pub state: String,
    figures: Vec<(String, u64)>,
}

/// The figures of a summary that are counts, with what they count.
pub const FIGURES: [(&str, &str); 13] = [
    ("interrupts", "interrupts that it took"),
    ("waits", "waits for an interrupt"),
    ("wakes", "times that it was woken"),
    ("switches", "times that it got the processor from another guest"),
    ("calls", "system calls"),
    ("aborts", "page faults and other aborts of its own"),
    ("undefined", "undefined instructions"),
    ("fills", "faults of the shadow tables, which it does not see"),
    ("branches", "branches of its kernel that trapped"),
    ("emulated", "instructions of its kernel that were interpreted"),
    ("devices", "accesses to devices"),
    ("code", "writes to code that was translated"),
    ("host", "interrupts of the board while it ran"),
];

impl Summary {
    /// A figure; 0 if the board does not know it.
    #[must_use]
    pub fn get(&self, figure: &str) -> u64 {
        self.figures.iter().find(|(name, _)| name == figure).map_or(0, |(_, value)| *value)
    }
}

/// Understands the answer to `summary`: `time TICKS HERTZ`, and lines `summary NAME STATE FIGURE=VALUE …`.
///
/// # Errors
/// If it is not one.
pub fn summaries(lines: &[String]) -> Result<Summaries> {
    let mut summaries = Summaries::default();
    for line in lines {
        let mut words = line.split(' ');
        let understood = match words.next() {
            Some("time") => {
                let mut number = || words.next().and_then(|word| word.parse().ok());
                number().zip(number().filter(|&hertz| hertz != 0)).map(|time| (summaries.ticks, summaries.hertz) = time)
            }
            Some("summary") => words.next().zip(words.next()).and_then(|(name, state)| {
                let figure =
                    |word: &str| word.split_once('=').and_then(|(n, v)| Some((n.to_string(), v.parse().ok()?)));
                let figures = words.map(figure).collect::<Option<_>>()?;
                summaries.guests.push(Summary { name: name.to_string(), state: state.to_string(), figures });
                Some(())
            }),
            _ => None,
        };
        understood.ok_or_else(|| strange(line))?;
    }
    if summaries.hertz == 0 { Err(strange(&lines.join(" / "))) } else { Ok(summaries) }
}

/// Summaries as lines for people.
#[must_use]
pub fn summary_text(summaries: &Summaries) -> String {
    let mut text = String::new();
    for (n, guest) in summaries.guests.iter().enumerate() {
        let ran = guest.get("ran") as f64 / summaries.hertz as f64;
        let _ = writeln!(
            text,
            "{}{} is {}, and has run for {ran:.1} s",
            if n == 0 { "" } else { "\n" },
            guest.name,
            guest.state
        );
        for (figure, what) in FIGURES {
            let _ = writeln!(text, "  {:>14}  {what}", guest.get(figure));
        }
        let [memory, given, tables, disks] =
            ["memory", "given", "tables", "disks"].map(|figure| guest.get(figure) >> 10);
        let _ = writeln!(text, "  {:>10} MiB  memory, of which it does without {} MiB", memory >> 10, given >> 10);
        let _ = writeln!(text, "  {tables:>10} KiB  shadow tables");
        let _ = writeln!(text, "  {disks:>10} KiB  changes to copy-on-write disks");
    }
    text
}

fn strange(line: &str) -> Error {
    Error::failed(format!("the board answered {line:?}, which this version does not understand"))
}

/// Guests as a table for people.
#[must_use]
pub fn guest_table(guests: &[GuestState]) -> String {
    let width = guests.iter().map(|g| g.name.len()).chain(["GUEST".len()]).max().unwrap_or(0);
    let mut text = format!("  #  {:<width$}  STATE    WEIGHT  MEMORY    RAN  ENGINE\n", "GUEST");
    for guest in guests {
        let GuestState { index, name, state, weight, memory_mib, run_permille, engine } = guest;
        let run = format!("{}.{}%", run_permille / 10, run_permille % 10);
        let _ =
            writeln!(text, "{index:>3}  {name:<width$}  {state:<7}  {weight:>6}  {memory_mib:>5}M {run:>6}  {engine}");
    }
    text
}

/// Counters as lines for people: one guest's counters under its name.
#[must_use]
pub fn counter_table(counters: &Counters) -> String {
    let mut text = String::new();
    for (index, (name, Values(counters))) in counters.guests.iter().enumerate() {
        let _ = writeln!(text, "{}{name}", if index == 0 { "" } else { "\n" });
        let width = counters.iter().map(|(counter, _)| counter.len()).max().unwrap_or(0);
        for (counter, value) in counters {
            let _ = writeln!(text, "  {counter:<width$}  {value:>14}");
        }
    }
    text
}

/// Anything of this module as JSON.
#[must_use]
pub fn json(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("names and numbers can be written as JSON");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_string).collect()
    }

    #[test]
    fn lists() {
        let guests =
            guests(&lines("guest 0 web running 100 256 12 in-place\nguest 1 database-1 off 1000 1024 1000 blocks"))
                .unwrap();
        let expected = "  #  GUEST       STATE    WEIGHT  MEMORY    RAN  ENGINE\n\
                        \u{20} 0  web         running     100    256M   1.2%  in-place\n\
                        \u{20} 1  database-1  off        1000   1024M 100.0%  blocks\n";
        assert_eq!(guest_table(&guests), expected);
        let expected = "[\n  {\n    \"index\": 0,\n    \"name\": \"web\",\n    \"state\": \"running\",\n    \"weight\": 100,\n    \
                        \"memory_mib\": 256,\n    \"run_permille\": 12,\n    \"engine\": \"in-place\"\n  }\n]\n";
        assert_eq!(json(&guests[..1].to_vec()), expected);
    }

    #[test]
    fn statistics() {
        let counters = counters(&lines("stat web traps.svc 18446744073709551615\nstat db a 1\nstat web b 2")).unwrap();
        let expected =
            "web\n  traps.svc  18446744073709551615\n  b                       2\n\ndb\n  a               1\n";
        assert_eq!(counter_table(&counters), expected);
        let expected = "{\n  \"web\": {\n    \"traps.svc\": 18446744073709551615,\n    \"b\": 2\n  },\n  \"db\": {\n    \"a\": \
                        1\n  }\n}\n";
        assert_eq!(json(&counters), expected);
    }

    #[test]
    fn summaries_are_understood() {
        let told =
            summaries(&lines("time 500 100\nsummary web running ran=250 calls=7 memory=134217728 new=1")).unwrap();
        assert_eq!((told.ticks, told.hertz, told.guests.len()), (500, 100, 1));
        assert_eq!(["ran", "calls", "waits"].map(|figure| told.guests[0].get(figure)), [250, 7, 0]);
        let text = summary_text(&told);
        assert!(text.starts_with("web is running, and has run for 2.5 s\n"), "{text}");
        assert!(text.contains("\n               7  system calls\n"), "{text}");
        assert!(text.contains("\n         128 MiB  memory, of which it does without 0 MiB\n"), "{text}");
        for wrong in
            ["", "time 1 0", "time 1", "time 1 2\nsummary web", "time 1 2\nsummary web on x=y", "time 1 2\nstat a b 1"]
        {
            assert!(summaries(&lines(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_answer_is_said() {
        let error = guests(&lines("guest 0 web running 100 256")).unwrap_err();
        assert!(error.message.starts_with("the board answered \"guest 0 web running 100 256\", which"), "{error}");
        assert!(guests(&lines("guest 0 web running x 256 1 blocks")).is_err());
        assert!(counters(&lines("stat web a -1")).is_err() && counters(&lines("stat a 1")).is_err());
    }
}
