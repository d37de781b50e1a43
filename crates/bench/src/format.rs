//! How numbers and texts are written in tables and figures, everywhere the same.

/// A count: whole with thousands separated by spaces where it is large, with up to two decimals where it is small.
#[must_use]
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 100.0 || value == value.round() {
        return thousands(value.round());
    }
    let decimals = if magnitude >= 10.0 { 1 } else { 2 };
    let text = format!("{magnitude:.decimals$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if value < 0.0 { format!("−{text}") } else { text.to_string() }
}

/// A number that may be far below 1, as differences are.
#[must_use]
pub fn fine(value: f64) -> String {
    match value.abs() {
        m if m >= 1000.0 || m == m.round() => number(value),
        m if m >= 0.995 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A large count in short: `3.70 G`, `64.0 M`, `185.6 k`.
#[must_use]
pub fn short(value: f64) -> String {
    let magnitude = value.abs();
    let (scaled, suffix) = match magnitude {
        m if m >= 999.5e6 => (value / 1e9, " G"),
        m if m >= 999.5e3 => (value / 1e6, " M"),
        m if m >= 9999.5 => (value / 1e3, " k"),
        _ => return number(value),
    };
    let decimals = if scaled.abs() >= 99.95 {
        0
    } else if scaled.abs() >= 9.995 {
        1
    } else {
        2
    };
    format!("{scaled:.decimals$}{suffix}")
}

/// A ratio, without its sign `×`: three significant digits, whole from 100 on.
#[must_use]
pub fn ratio(value: f64) -> String {
    let decimals = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    if decimals == 0 { thousands(value.round()) } else { format!("{value:.decimals$}") }
}

/// A share as per cent, without its sign.
#[must_use]
pub fn percent(share: f64) -> String {
    let value = 100.0 * share;
    if value == 0.0 {
        "0".into()
    } else if value >= 9.95 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

/// From the least to the greatest share, as per cent; or that nothing was measured.
#[must_use]
pub fn percent_span(limits: Option<(f64, f64)>) -> String {
    match limits.map(|(low, high)| (percent(low), percent(high))) {
        None => "not measured".into(),
        Some((low, high)) if low == high => format!("{low} %"),
        Some((low, high)) => format!("{low} to {high} %"),
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) && digits.len() > 4 {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    if value < 0.0 && digits != "0" { format!("−{out}") } else { out }
}

/// A text as a cell of a Markdown table: on one line, with no character that means something there.
#[must_use]
pub fn cell(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '<' | '>' | '[' | ']' | '\\' | '#' => {
                out.push('\\');
                out.push(c);
            }
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(number(0.0), "0");
        assert_eq!(number(129.0), "129");
        assert_eq!(number(3385.0), "3385");
        assert_eq!(number(185_600.4), "185\u{202f}600");
        assert_eq!(number(14.64), "14.6");
        assert_eq!(number(0.5), "0.5");
        assert_eq!(number(1_000_000.0), "1\u{202f}000\u{202f}000");
        assert_eq!(number(-250.0), "−250");
        assert_eq!(number(-0.2), "−0.2");
    }

    #[test]
    fn short_numbers() {
        assert_eq!(short(3_700_000_000.0), "3.70 G");
        assert_eq!(short(64_000_000.0), "64.0 M");
        assert_eq!(short(185_600.0), "186 k");
        assert_eq!(short(9_999.0), "9999");
        assert_eq!(short(999_999.0), "1.00 M");
        assert_eq!(short(129.0), "129");
    }

    #[test]
    fn ratios_and_shares() {
        assert_eq!(ratio(1.9), "1.90");
        assert_eq!(ratio(9.996), "10.0");
        assert_eq!(ratio(75.96), "76.0");
        assert_eq!(ratio(1234.4), "1234");
        assert_eq!(percent(0.68), "68");
        assert_eq!(percent(0.041), "4.1");
        assert_eq!(percent(-0.0), "0");
        assert_eq!(percent(0.0999), "10");
    }

    #[test]
    fn markdown_cells() {
        assert_eq!(cell("a|b*c\nd"), "a\\|b\\*c d");
    }
}
