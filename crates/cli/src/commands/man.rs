//! Manual pages, made from what `--help` shows.
//!
//! clap_mangen writes what clap knows: options, subcommands. What is behind that in the help are sections of our own,
//! with examples whose lines must stay as they are; these we write ourselves.

use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use spica_runner::error::{Context, Error, Result};
use spica_runner::project::{create_dir, write};

/// Writes a page for `command` and one for each of its subcommands to `dir`.
pub fn pages(dir: &Path, command: Command) -> Result<()> {
    if dir.exists() && !dir.is_dir() {
        return Err(Error::usage(format!("{} is a file; expected a directory for manual pages", dir.display())));
    }
    create_dir(dir)?;
    let mut command = command.disable_help_subcommand(true);
    // Gives subcommands their full names and the options that all have.
    command.build();
    for command in command.get_subcommands().chain([&command]) {
        let (name, text) = page(command.clone())?;
        write(&dir.join(name), text.as_bytes())?;
    }
    Ok(())
}

/// A page: its file's name, and its text in roff.
fn page(command: Command) -> Result<(String, String)> {
    let sections = command.get_after_help().map(|help| sections(&help.to_string())).unwrap_or_default();
    let man = Man::new(command.after_help(None)).source(concat!("Spica ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    man.render(&mut text).context(|| "cannot make a manual page")?;
    Ok((man.get_filename(), ascii(&(String::from_utf8_lossy(&text).into_owned() + &sections))))
}

/// roff reads bytes, and has names for all other characters.
fn ascii(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_ascii() {
            true => ascii.push(c),
            false => ascii += &format!("\\[u{:04X}]", u32::from(c)),
        }
    }
    ascii
}

/// The end of a help text in roff. Blocks are separated by empty lines; one that begins with `Title:` is a section
/// whose lines are kept, and any other is a paragraph.
fn sections(help: &str) -> String {
    let (mut notes, mut sections) = (String::new(), String::new());
    for block in help.split("\n\n") {
        match block.split_once('\n').and_then(|(title, lines)| Some((title.strip_suffix(':')?, lines))) {
            Some((title, lines)) => {
                sections += &format!(".SH {}\n.nf\n", escaped(&title.to_uppercase()));
                for line in lines.lines() {
                    sections += &format!("{}\n", escaped(line.strip_prefix("  ").unwrap_or(line)));
                }
                sections += ".fi\n";
            }
            None => {
                notes += if notes.is_empty() { ".SH NOTES\n" } else { ".PP\n" };
                for line in block.lines() {
                    notes += &format!("{}\n", escaped(line));
                }
            }
        }
    }
    notes + &sections
}

/// A line that roff shows as it is.
fn escaped(line: &str) -> String {
    let escaped = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('`', "\\(ga");
    // A line that begins so would be a request.
    if escaped.starts_with('.') { format!("\\&{escaped}") } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_help_text_becomes_sections() {
        let help =
            "Some words.\nMore.\n\nExit status:\n  0 if so\n  .5 if not\n\nLast words.\n\nExamples:\n  a 'b\\'   --c";
        let expected = ".SH NOTES\nSome words.\nMore.\n.PP\nLast words.\n.SH EXIT STATUS\n.nf\n0 if so\n\\&.5 if not\n.fi\n\
                        .SH EXAMPLES\n.nf\na \\(aqb\\e\\(aq   \\-\\-c\n.fi\n";
        assert_eq!(sections(help), expected);
    }

    #[test]
    fn a_page_has_its_options_and_sections_once() {
        let command =
            Command::new("tool").about("Does it").after_help("Examples:\n  tool").arg(clap::arg!(--deep <N> "1, 2 …"));
        let (name, text) = page(command).unwrap();
        assert_eq!(name, "tool.1");
        assert!(text.contains(".SH NAME\ntool \\- Does it\n") && text.contains("\\-\\-deep"), "{text}");
        assert!(text.contains("\n1, 2 \\[u2026]\n"), "{text}");
        assert!(text.ends_with(".SH EXAMPLES\n.nf\ntool\n.fi\n") && !text.contains("EXTRA"), "{text}");
    }
}
