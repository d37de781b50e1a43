//! What Spica's lines on the console mean.

/// Spica's last line: the board does nothing any more.
pub const HALTED: &str = "board halted";

/// What asks Spica's monitor for a report on its guests, sent to the board's UART.
pub const REPORT: &[u8] = b"\x1e@report regs\n";

/// Spica's last line of its answer.
pub const REPORT_END: &str = "@report ok";

/// The line of a report that Spica gives when asked with [`REPORT`], out of one of its lines.
#[must_use]
pub fn report_line(line: &str) -> Option<&str> {
    line.strip_prefix("@report regs ")
}

/// What a guest's end reads like when the guest wanted it.
const POWERED_OFF: &str = "powered off";

/// If `lines`, all that Spica wrote until it halted, end otherwise than by the wish of the guests of these names: the
/// reason and the report, of the first of several.
///
/// Spica says `guest NAME: REASON` when a guest ends, then its report. Without such a line, it did not come to starting
/// a guest, and all that it said is the reason.
#[must_use]
pub fn failure<'a>(lines: &'a [String], names: &[String]) -> Option<&'a [String]> {
    let of = |line: &str, name: &String| said_of(line, name).is_some();
    for name in names {
        let Some(end) = lines.iter().rposition(|l| of(l, name)) else { return Some(lines) };
        if !is_power_off(&lines[end], name) {
            let rest = &lines[end + 1..];
            let other = |line: &String| names.iter().any(|n| of(line, n)) || line == HALTED;
            let report = if names.len() == 1 { rest.len() } else { rest.iter().position(other).unwrap_or(rest.len()) };
            return Some(&lines[end..=end + report]);
        }
    }
    None
}

/// What a line says of the guest of this name.
fn said_of<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.strip_prefix("guest ")?.strip_prefix(name)?.strip_prefix(": ")
}

/// Whether this line is the end of a guest that switched itself off.
#[must_use]
pub fn is_power_off(line: &str, name: &str) -> bool {
    said_of(line, name).is_some_and(|l| l.starts_with(POWERED_OFF))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_and_bad_ends() {
        let lines = |text: &str| text.lines().map(str::to_string).collect::<Vec<_>>();
        let a = ["a".to_string()];
        assert_eq!(failure(&lines("hello\nguest a: started\nguest a: powered off\npc 0\nboard halted"), &a), None);
        let bad = lines("hello\nguest a: started\nguest a: jumped to nowhere\npc 0\nboard halted");
        assert_eq!(failure(&bad, &a), Some(&bad[2..]));
        let early = lines("no guest to run\nboard halted");
        assert_eq!(failure(&early, &a), Some(&early[..]));
        assert!(is_power_off("guest a: powered off", "a") && !is_power_off("guest a: restarted", "a"));
    }

    #[test]
    fn ends_of_several() {
        let lines = |text: &str| text.lines().map(str::to_string).collect::<Vec<_>>();
        let both = ["a".to_string(), "b".to_string()];
        assert_eq!(failure(&lines("guest b: powered off\nguest a: restarted\nguest a: powered off"), &both), None);
        let bad = lines("guest b: panicked\npc 0\nguest a: powered off\npc 1\nboard halted");
        assert_eq!(failure(&bad, &both), Some(&bad[..2]));
        let last = lines("guest a: powered off\npc 1\nguest b: panicked\npc 0\nboard halted");
        assert_eq!(failure(&last, &both), Some(&last[2..4]));
    }
}
