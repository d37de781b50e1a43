//! Text without control sequences.

use spica_console::plain;

#[test]
fn control_sequences_go_as_a_whole() {
    for (line, expected) in [
        ("root@a:~# ls\x1b[6n", "root@a:~# ls"),
        ("\x1b[01;34mbin\x1b[0m\t\x1b[?2004hend\r", "binend"),
        ("\x1b]0;a title\x07one\x1b]0;another\x1b\\two", "onetwo"),
        ("\x1b(Bthree\x1b7four\x1bMfive", "threefourfive"),
        ("\u{fc}\u{9b}x", "\u{fc}x"),
        ("cut \x1b[12", "cut "),
        ("cut \x1b", "cut "),
        ("", ""),
    ] {
        assert_eq!(plain(line), expected, "{line:?}");
    }
}
