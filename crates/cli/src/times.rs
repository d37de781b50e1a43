//! Times as they are given on the command line.

use std::time::Duration;

/// The longest time: nobody waits longer.
const LONGEST: Duration = Duration::from_secs(3600);

/// A time with its unit.
///
/// # Errors
/// What would be right.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time from 1ms to 60m, such as 500ms, 5s or 2m".to_string();
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(digits);
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        _ => return Err(wrong()),
    };
    let number = number.parse::<u64>().map_err(|_| wrong())?;
    let time = Duration::from_millis(number.checked_mul(milliseconds).ok_or_else(wrong)?);
    if time.is_zero() || time > LONGEST { Err(wrong()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(parse("60m"), Ok(LONGEST));
        for wrong in ["", "5", "s", "0s", "0ms", "61m", "-1s", "1.5s", "5 s", "5h", "99999999999999999999s"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse(&format!("{}m", u64::MAX)).is_err());
    }
}
