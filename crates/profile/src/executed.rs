//! The words of the code cache and of Spica's image that were executed in a window, one by one: what rows of a profile
//! are sums of.

use std::fmt::Write;

use crate::area::{NEAR, PAGE, Window, cached_pages};
use crate::code::{Class, classes};
use crate::image::Symbol;

/// A word of the code cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Executed {
    /// Its address.
    pub at: u32,
    /// The word, as it was at the end of the window.
    pub word: u32,
    /// What it counts as; `None` if no rule is known to emit it.
    pub class: Option<Class>,
    /// How often it was executed.
    pub count: i64,
}

/// All that were executed, in the order of their addresses.
pub fn executed<'a>(window: &'a Window<'a>) -> impl Iterator<Item = Executed> + 'a {
    cached_pages().flat_map(|page| {
        let counts: Vec<_> = (page..page + PAGE as u32).step_by(4).map(|at| window.at(at)).collect();
        let words = window.code().page(page);
        let classes =
            if counts.iter().any(|count| *count != 0) { classes(words, NEAR.contains(&page)) } else { Vec::new() };
        let word = move |(n, (class, count))| Executed { at: page + 4 * n as u32, word: words[n], class, count };
        classes.into_iter().zip(counts).enumerate().map(word).filter(|word| word.count != 0)
    })
}

/// A line for each of them that is executed at least once in a thousand of `operations`. Where words are left out,
/// there is an empty line.
#[must_use]
pub fn listing(window: &Window<'_>, operations: u64) -> String {
    let mut text = String::from(
        "# address, word, instruction; how often in an operation; the rule, and whether it is the guest's own\n",
    );
    let mut next = None;
    let often = |word: &Executed| word.count.unsigned_abs().saturating_mul(1000) >= operations;
    for Executed { at, word, class, count } in executed(window).filter(often) {
        if next.is_some_and(|next| next != at) {
            text.push('\n');
        }
        next = Some(at + 4);
        let (rule, own) = match class {
            Some(Class { rule, own }) => (rule.name(), if own { "own" } else { "" }),
            None => ("not known", ""),
        };
        let instruction = spica_isa::decode(word).to_string();
        let each = count as f64 / operations as f64;
        let _ = writeln!(text, "{at:08x} {word:08x}  {instruction:<40} {each:>12.3}  {own:<3} {rule}");
    }
    text
}

/// The same for Spica's own image, whose code is in `pieces`: under the name of each function, its words that were
/// executed. What stands there, a disassembly of the ELF says (`objdump --disassemble`), and where it comes from, its
/// line tables.
#[must_use]
pub fn image_listing(window: &Window<'_>, operations: u64, pieces: &[Symbol]) -> String {
    let mut text = String::from("# address; how often in an operation\n");
    for piece in pieces {
        let words = piece.range.clone().step_by(4).map(|at| (at, window.at(at)));
        let often = words.filter(|(_, count)| count.unsigned_abs().saturating_mul(1000) >= operations);
        let mut name = Some(&piece.name);
        for (at, count) in often {
            if let Some(name) = name.take() {
                let _ = writeln!(text, "\n{name}:");
            }
            let _ = writeln!(text, "{at:08x} {:>12.3}", count as f64 / operations as f64);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::area::{BYTES, CACHE, Counted, IMAGE, copy_of_page, counter};
    use crate::profile::Section;

    #[test]
    fn a_listing_of_the_image_has_functions() {
        let mut bytes = vec![0; BYTES];
        for (at, count) in [(4, 6000u64), (8, 1), (16, 2000)] {
            bytes[8 * counter(IMAGE.start + at)..][..8].copy_from_slice(&count.to_ne_bytes());
        }
        let (none, all) = (Counted::nothing(), Counted::from_bytes(0, &bytes).unwrap());
        let pieces = [(0, 12, "first"), (12, 16, "idle"), (16, 32, "last")].map(|(start, end, name)| Symbol {
            range: IMAGE.start + start..IMAGE.start + end,
            name: name.into(),
            section: Section::Fast,
            row: name.into(),
            counted: false,
        });
        let text = image_listing(&Window::between(&none, &all), 4000, &pieces);
        let start = IMAGE.start;
        let words = [(start + 4, "1.500"), (start + 16, "0.500")].map(|(at, each)| format!("{at:08x} {each:>12}"));
        let lines: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(lines, ["", "first:", &words[0], "", "last:", &words[1]]);
    }

    #[test]
    fn a_listing_has_what_was_executed() {
        let mut bytes = vec![0; BYTES];
        let code = CACHE.start + 0x1100;
        // Landing, mov r0, r0, LR's two halves, exit, its number.
        for (n, word) in [0xe59f_ef04u32, 0xe1a0_0000, 0xe300_e01c, 0xe34c_e010, 0xef00_0001, 7].iter().enumerate() {
            bytes[copy_of_page(code).unwrap() + 0x100 + 4 * n..][..4].copy_from_slice(&word.to_le_bytes());
        }
        // One in ten thousand is not worth a line.
        for (n, count) in [(0, 1000u64), (1, 1), (2, 6000), (3, 6000), (4, 6000)] {
            bytes[8 * counter(code + 4 * n)..][..8].copy_from_slice(&count.to_ne_bytes());
        }
        let (none, all) = (Counted::nothing(), Counted::from_bytes(0, &bytes).unwrap());
        let text = listing(&Window::between(&none, &all), 4000);
        let lines: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[0].starts_with("f1801100 e59fef04  ldr lr, [pc, #0xf04] "), "{text}");
        assert!(lines[0].ends_with("0.250      returns and indirect branches") && lines[1].is_empty(), "{text}");
        assert!(lines[2].ends_with("1.500  own direct branches and calls"), "{text}");
        assert!(lines[3].ends_with("1.500      direct branches and calls"), "{text}");
    }
}
