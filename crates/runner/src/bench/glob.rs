//! Patterns for names: `*` stands for any characters, `?` for one, all else for itself.

/// Whether `name` is what `pattern` describes.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    fn go(pattern: &[char], name: &[char]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some(('*', rest)) => (0..=name.len()).any(|skip| go(rest, &name[skip..])),
            Some((c, rest)) => name.split_first().is_some_and(|(n, name)| (*c == '?' || c == n) && go(rest, name)),
        }
    }
    let chars = |text: &str| text.chars().collect::<Vec<_>>();
    go(&chars(pattern), &chars(name))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("null", "null", true),
            ("null", "nulls", false),
            ("fork-*", "fork-exec", true),
            ("fork-*", "fork-", true),
            ("*-exec", "fork-exec", true),
            ("*o*e*", "fork-exec", true),
            ("context-?", "context-16", false),
            ("context-?", "context-8", true),
            ("", "x", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} and {name}");
        }
    }
}
