//! What Spica's lines on the console mean.

/// Spica's last line: the board does nothing any more.
pub const HALTED: &str = "board halted";

/// What asks Spica's monitor for a report on its guests, sent to the board's UART.
pub const REPORT: &[u8] = b"\x1e@report regs\n";

/// What a guest's end reads like when the guest wanted it.
const POWERED_OFF: &str = "powered off";

/// If `lines`, all that Spica wrote until it halted, end otherwise than by the guest's wish: the reason and the report.
///
/// Spica says `guest NAME: REASON` when a guest ends, then its report. Without such a line, it did not come to starting
/// a guest, and all that it said is the reason.
#[must_use]
pub fn failure<'a>(lines: &'a [String], name: &str) -> Option<&'a [String]> {
    let prefix = format!("guest {name}: ");
    match lines.iter().rposition(|l| l.starts_with(&prefix)) {
        Some(end) if lines[end][prefix.len()..].starts_with(POWERED_OFF) => None,
        Some(end) => Some(&lines[end..]),
        None => Some(lines),
    }
}

/// Whether this line is the end of a guest that switched itself off.
#[must_use]
pub fn is_power_off(line: &str, name: &str) -> bool {
    line.strip_prefix("guest ")
        .and_then(|l| l.strip_prefix(name)?.strip_prefix(": "))
        .is_some_and(|l| l.starts_with(POWERED_OFF))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_and_bad_ends() {
        let lines = |text: &str| text.lines().map(str::to_string).collect::<Vec<_>>();
        assert_eq!(failure(&lines("hello\nguest a: started\nguest a: powered off\npc 0\nboard halted"), "a"), None);
        let bad = lines("hello\nguest a: started\nguest a: jumped to nowhere\npc 0\nboard halted");
        assert_eq!(failure(&bad, "a"), Some(&bad[2..]));
        let early = lines("no guest to run\nboard halted");
        assert_eq!(failure(&early, "a"), Some(&early[..]));
        assert!(is_power_off("guest a: powered off", "a") && !is_power_off("guest a: restarted", "a"));
    }
}
