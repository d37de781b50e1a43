//! What a guest printed, without what would move the cursor, change colours or ask questions on the terminal of whoever
//! reads it later.

use alloc::string::String;

const ESCAPE: char = '\x1b';
const BELL: char = '\x07';

/// `line` without control characters and control sequences (ECMA-48, 5.3 to 5.6). One that does not end takes the rest
/// of the line with it.
pub fn plain(line: &str) -> String {
    let mut chars = line.chars().peekable();
    let mut text = String::with_capacity(line.len());
    while let Some(char) = chars.next() {
        if char != ESCAPE && !char.is_control() {
            text.push(char);
        }
        if char != ESCAPE {
            continue;
        }
        match chars.next() {
            // Control sequences: parameters, and a final character.
            Some('[') => {
                chars.by_ref().find(|char| ('@'..='~').contains(char));
            }
            // Control strings: until ESC \ or, of xterm, BEL.
            Some(']' | 'P' | 'X' | '^' | '_') => {
                while let Some(char) = chars.next() {
                    if char == BELL || char == ESCAPE && chars.next_if_eq(&'\\').is_some() {
                        break;
                    }
                }
            }
            // Others: intermediate characters, and a final one.
            Some(' '..='/') => {
                chars.by_ref().find(|char| ('0'..='~').contains(char));
            }
            _ => {}
        }
    }
    text
}
