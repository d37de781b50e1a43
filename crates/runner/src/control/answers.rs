//! Answers of Spica to a program, taken out of the console's stream.
//!
//! A program asks by typing [`PROGRAM`] and the line `@ID COMMAND` on the board's UART. Spica answers with lines that
//! begin with `spica: @ID `; the last one is `ok`, or `error` and what is wrong. ID is chosen at random for each
//! question, so no guest can forge an answer. And since nothing else has it, an answer is known wherever it stands,
//! also behind a guest's prompt: it is cut out without a trace, and what remains is the console as if nobody had asked.

use std::fs::File;
use std::io::Read;

use crate::console::PREFIX;
use crate::error::{Context, Result};

/// The byte that, typed on the board's UART, begins a program's question: RS, which no key of a terminal sends.
pub const PROGRAM: u8 = 0x1e;

/// A name for one question: 12 of `a` to `z` and `0` to `9`, 62 bits that nobody can guess.
///
/// # Errors
/// If this machine has no random numbers.
pub fn random_id() -> Result<String> {
    let mut random = [0u8; 12];
    let source = "/dev/urandom";
    File::open(source).and_then(|mut f| f.read_exact(&mut random)).context(|| format!("cannot read {source}"))?;
    Ok(random.iter().map(|b| char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[usize::from(*b) % 36])).collect())
}

/// A line of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The question's name.
    pub id: String,
    /// The line, without prefix and end of line.
    pub text: String,
}

impl Answer {
    /// Whether no more lines come: the answer's end, or what went wrong.
    #[must_use]
    pub fn end(&self) -> Option<std::result::Result<(), &str>> {
        match self.text.split_once(' ') {
            None if self.text == "ok" => Some(Ok(())),
            Some(("error", message)) => Some(Err(message)),
            _ => None,
        }
    }
}

/// Takes answers out of a stream.
#[derive(Debug, Default)]
pub struct Filter {
    /// The questions that are open: their names, and what each line of their answers begins with.
    open: Vec<(String, Vec<u8>)>,
    /// The beginning of an answer's line, perhaps; or with `current`, an answer's line so far.
    held: Vec<u8>,
    /// Whose line is in `held`.
    current: Option<String>,
}

impl Filter {
    /// From now on, answers to the question `id` are taken out, up to their end.
    pub fn expect(&mut self, id: &str) {
        self.open.push((id.to_string(), format!("{PREFIX}@{id} ").into_bytes()));
    }

    /// Answers to the question `id` are not expected any longer; if they come, they are Spica's lines like others.
    pub fn forget(&mut self, id: &str) {
        self.open.retain(|(open, _)| open != id);
    }

    /// Takes the next bytes; gives those that are no answers', and the answers' lines that they end.
    pub fn feed(&mut self, bytes: &[u8]) -> (Vec<u8>, Vec<Answer>) {
        if self.open.is_empty() && self.held.is_empty() {
            return (bytes.to_vec(), Vec::new());
        }
        let (mut rest, mut answers) = (Vec::with_capacity(bytes.len()), Vec::new());
        for &byte in bytes {
            self.held.push(byte);
            if self.current.is_some() {
                if byte == b'\n' {
                    answers.extend(self.end_of_line());
                }
                continue;
            }
            // What cannot be a beginning is let through from the front, until the rest can.
            while !self.held.is_empty() && !self.open.iter().any(|(_, mark)| mark.starts_with(&self.held)) {
                rest.push(self.held.remove(0));
            }
            if let Some((id, _)) = self.open.iter().find(|(_, mark)| *mark == self.held) {
                self.current = Some(id.clone());
                self.held.clear();
            }
        }
        (rest, answers)
    }

    fn end_of_line(&mut self) -> Option<Answer> {
        let text = String::from_utf8_lossy(&self.held).trim_end_matches(['\r', '\n']).to_string();
        self.held.clear();
        let answer = Answer { id: self.current.take()?, text };
        if answer.end().is_some() {
            self.forget(&answer.id);
        }
        Some(answer)
    }

    /// Whether bytes are held back that could be no answer's.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.current.is_none() && !self.held.is_empty()
    }

    /// Whether they are, but are all of what Spica's lines begin with: nobody else prints that by accident.
    #[must_use]
    pub fn holds_prefix(&self) -> bool {
        self.holds() && self.held.len() >= PREFIX.len()
    }

    /// Gives up waiting: what is held back is no answer's.
    pub fn flush(&mut self) -> Vec<u8> {
        if self.holds() { std::mem::take(&mut self.held) } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(ids: &[&str], chunks: &[&[u8]]) -> (String, Vec<(String, String)>) {
        let mut filter = Filter::default();
        ids.iter().for_each(|id| filter.expect(id));
        let (mut rest, mut answers) = (Vec::new(), Vec::new());
        for chunk in chunks {
            let (bytes, lines) = filter.feed(chunk);
            rest.extend(bytes);
            answers.extend(lines.into_iter().map(|a| (a.id, a.text)));
        }
        rest.extend(filter.flush());
        (String::from_utf8(rest).unwrap(), answers)
    }

    #[test]
    fn answers_are_cut_out_wherever_they_stand() {
        let text =
            b"web| line\r\nroot@web:~$ spica: @a1 guest 0 web\r\nspica: @a1 ok\r\nls\r\nspica: sspica: @a2 error no\nx";
        let expected = "web| line\r\nroot@web:~$ ls\r\nspica: sx";
        let pair = |id: &str, text: &str| (id.to_string(), text.to_string());
        let answers = vec![pair("a1", "guest 0 web"), pair("a1", "ok"), pair("a2", "error no")];
        for chunk in 1..text.len() {
            let chunks: Vec<_> = text.chunks(chunk).collect();
            assert_eq!(filter(&["a1", "a2"], &chunks), (expected.to_string(), answers.clone()), "{chunk}");
        }
    }

    #[test]
    fn nobody_else_answers() {
        let text = b"spica: @b ok\nspica: @a ok\nspica: @a ok\n";
        let answers = vec![("a".to_string(), "ok".to_string())];
        assert_eq!(filter(&["a"], &[text]), ("spica: @b ok\nspica: @a ok\n".to_string(), answers));
    }

    #[test]
    fn what_is_held_back_can_be_had() {
        let mut filter = Filter::default();
        filter.expect("a");
        assert_eq!(filter.feed(b"x spica: @"), (b"x ".to_vec(), Vec::new()));
        assert!(filter.holds() && filter.holds_prefix());
        assert_eq!(filter.flush(), b"spica: @");
        filter.feed(b"spica:");
        assert!(filter.holds() && !filter.holds_prefix());
        filter.flush();
        // Half an answer is not given up: the rest is on its way.
        filter.feed(b"spica: @a gue");
        assert!(!filter.holds() && filter.flush().is_empty());
        assert_eq!(filter.feed(b"st\n").1[0].text, "guest");
    }

    #[test]
    fn names_are_not_the_same_twice() {
        let (a, b) = (random_id().unwrap(), random_id().unwrap());
        assert!(a != b && a.len() == 12 && a.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()));
    }
}
