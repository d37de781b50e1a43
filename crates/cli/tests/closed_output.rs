//! A reader that has seen enough (`spica … | head -1`): the command ends without a word.

use std::process::{Command, Stdio};

#[test]
fn nobody_reads_what_is_printed() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spica"));
    command.args(["bench", "--list"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(141));
}
