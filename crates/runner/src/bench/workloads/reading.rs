//! What the guest's script prints, understood.
//!
//! One line for each fact, on the console among whatever else is printed there: `@bench NAME KIND VALUE`. The kinds:
//! `begin`; `ns`, nanoseconds of one operation; `lmbench`, what lmbench printed, as it is; `again-ns` and
//! `again-lmbench`, the same of a second time; `sha256`, that of the output; `missing`, with the reason. The last line
//! is `@bench done`.

/// What each line begins with.
const PREFIX: &str = "@bench ";

/// A fact of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// A workload begins.
    Begin {
        /// Its name.
        name: String,
    },
    /// A workload has ended well: its figure.
    Time {
        /// Its name.
        name: String,
        /// The nanoseconds of one operation, by the guest's clock.
        ns: f64,
    },
    /// A workload was done a second time, to be counted: the figure of that.
    Again {
        /// Its name.
        name: String,
        /// The nanoseconds of one operation, by the guest's clock.
        ns: f64,
    },
    /// The SHA-256 of a workload's output.
    Digest {
        /// The workload's name.
        name: String,
        /// 64 hexadecimal digits.
        sha256: String,
    },
    /// A workload has no figure.
    Missing {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// The script has come to its end.
    Done,
}

/// Understands a line of the console; `None` if it is not one of the script's.
#[must_use]
pub fn parse(line: &str) -> Option<Reading> {
    let rest = line.trim_end().strip_prefix(PREFIX)?;
    if rest == "done" {
        return Some(Reading::Done);
    }
    let (name, rest) = rest.split_once(' ')?;
    let (kind, value) = rest.split_once(' ').unwrap_or((rest, ""));
    let (name, value) = (name.to_string(), value.trim());
    if let Some(kind) = kind.strip_prefix("again-") {
        let Some(Reading::Time { name, ns }) = parse(&format!("{PREFIX}{name} {kind} {value}")) else { return None };
        return Some(Reading::Again { name, ns });
    }
    let number = |value: &str| value.parse().ok().filter(|ns: &f64| ns.is_finite() && *ns > 0.0);
    Some(match kind {
        "begin" => Reading::Begin { name },
        "ns" => match number(value) {
            Some(ns) => Reading::Time { name, ns },
            None => Reading::Missing { name, reason: format!("{value:?} is no time") },
        },
        "lmbench" => match microseconds(value).and_then(|us| number(&thousandfold(us))) {
            Some(ns) => Reading::Time { name, ns },
            None if value.is_empty() => Reading::Missing { name, reason: "lmbench has measured nothing".into() },
            None => Reading::Missing { name, reason: format!("lmbench says: {value}") },
        },
        "sha256" => Reading::Digest { name, sha256: value.to_string() },
        "missing" => Reading::Missing { name, reason: value.to_string() },
        _ => return None,
    })
}

/// Finds the microseconds in what lmbench printed, its lines joined by spaces. Three forms:
/// `Simple read: 0.9999 microseconds`, `"size=0k ovr=5.12 2 8.55` (processes and microseconds) and `4.194304 172`
/// (megabytes and microseconds).
fn microseconds(text: &str) -> Option<&str> {
    let words: Vec<_> = text.split_whitespace().collect();
    let decimal = |word: &str| word.bytes().all(|b| b.is_ascii_digit() || b == b'.') && word.parse::<f64>().is_ok();
    match words[..] {
        [.., value, "microseconds"] if words[words.len() - 3].ends_with(':') && decimal(value) => Some(value),
        [size, overhead, processes, value]
            if size.starts_with("\"size=")
                && overhead.starts_with("ovr=")
                && processes.parse::<u32>().is_ok()
                && decimal(value) =>
        {
            Some(value)
        }
        [megabytes, value] if decimal(megabytes) && decimal(value) => Some(value),
        _ => None,
    }
}

/// A decimal number times a thousand, in decimal: no digit is lost, and none comes up.
fn thousandfold(number: &str) -> String {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = format!("{fraction:0<3}");
    format!("{whole}{}.{}", &fraction[..3], &fraction[3..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(line: &str) -> f64 {
        match parse(line) {
            Some(Reading::Time { ns, .. }) => ns,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn reason(line: &str) -> String {
        match parse(line) {
            Some(Reading::Missing { reason, .. }) => reason,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn times() {
        assert_eq!(parse("@bench gzip ns 1234567\r\n"), Some(Reading::Time { name: "gzip".into(), ns: 1_234_567.0 }));
        assert_eq!(time("@bench null ns 129.5"), 129.5);
        assert_eq!(time("@bench null lmbench Simple syscall: 0.2590 microseconds"), 259.0);
        assert_eq!(time("@bench select-10 lmbench Select on 10 fd's: 3.1193 microseconds"), 3119.3);
        assert_eq!(time("@bench fork-exec lmbench Process fork+execve: 13776.5000 microseconds"), 13_776_500.0);
        assert_eq!(time("@bench context-16 lmbench  \"size=0k ovr=5.13 16 9.1"), 9100.0);
        assert_eq!(time("@bench mmap lmbench 4.194304 171"), 171_000.0);
    }

    #[test]
    fn what_is_no_time_is_missing() {
        assert!(reason("@bench signal-catch lmbench ").contains("nothing"));
        assert!(reason("@bench signal-catch lmbench").contains("nothing"));
        assert!(reason("@bench stat lmbench /tmp/x: No such file or directory").contains("No such file"));
        assert!(reason("@bench null lmbench Simple syscall: nan microseconds").contains("nan"));
        assert!(reason("@bench null lmbench microseconds").contains("microseconds"));
        assert!(reason("@bench null ns -5").contains("-5"));
        assert!(reason("@bench null ns inf").contains("inf"));
        assert_eq!(reason("@bench xz missing exit status 3"), "exit status 3");
    }

    #[test]
    fn other_lines() {
        assert_eq!(parse("@bench done"), Some(Reading::Done));
        let again = Some(Reading::Again { name: "null".into(), ns: 258.5 });
        assert_eq!(parse("@bench null again-lmbench Simple syscall: 0.2585 microseconds"), again);
        assert_eq!(parse("@bench lame begin"), Some(Reading::Begin { name: "lame".into() }));
        assert_eq!(parse("[    3.0] @bench done"), None);
        assert_eq!(parse("@bench"), None);
        assert_eq!(parse("@bench null"), None);
        assert_eq!(parse("@bench null colour blue"), None);
    }
}
