//! Wrong input to the `spica` command: it ends at once, with an error that names the option, the file, and what would
//! be right.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Longer than anything that is refused at once takes, also on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with files that make trouble, for one test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("spica-wrong-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("directory")).unwrap();
        mknodat(CWD, dir.join("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        File::create(dir.join("sparse")).unwrap().set_len(8 << 30).unwrap();
        fs::write(dir.join("empty"), b"").unwrap();
        fs::write(dir.join("bytes"), [0xff; 64]).unwrap();
        Self(dir)
    }

    /// What the command says and its status; files in its arguments are those of the place.
    fn spica(&self, arguments: &[&str]) -> (String, i32) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spica"));
        command.args(arguments).current_dir(&self.0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let begin = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if begin.elapsed() > PATIENCE {
                child.kill().unwrap();
                panic!("{arguments:?} hangs: {:?}", child.wait_with_output());
            }
            sleep(Duration::from_millis(10));
        }
        let Output { status, stderr, .. } = child.wait_with_output().unwrap();
        (String::from_utf8(stderr).unwrap(), status.code().unwrap())
    }

    /// The error is this one, and the status is that of a failure.
    #[track_caller]
    fn fails(&self, arguments: &[&str], expected: &str) {
        assert_eq!(self.spica(arguments), (format!("spica: {expected}\n"), 125), "{arguments:?}");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What each of the files is that must not be read.
const KINDS: [(&str, &str); 4] = [
    ("/dev/zero", "it is a device; expected"),
    ("fifo", "it is a pipe; expected"),
    ("directory", "it is a directory; expected"),
    ("sparse", "it has 8192M; expected"),
];

#[test]
fn what_is_no_file_of_some_size_is_not_read() {
    let place = Place::new("kinds");
    let board = "a regular file of at most 512M, the memory of cubieboard";
    for (file, problem) in KINDS {
        for (arguments, prefix, right) in [
            (&["run", "--timeout", "5", "--kernel", file][..], "--kernel: ", board),
            (&["run", "--timeout", "5", "--native", "--initrd", file], "--initrd: ", board),
            (&["run", "--timeout", "5", "--guests", file], "", "a regular file of at most 64M"),
            (&["pack", "--output", "card", "--guests", file], "", "a regular file of at most 64M"),
            (
                &["pack", "--output", "card", "--count", "1", "--board-dtb", file],
                "--board-dtb: ",
                "a regular file of at most 2M",
            ),
            (&["bench", "--report", file], "", "a regular file of at most 64M"),
            (&["bench", "--compare", file, "empty"], "", "a regular file of at most 64M"),
            (&["bench", "--resume", file], "", "a regular file of at most 64M"),
        ] {
            place.fails(arguments, &format!("{prefix}cannot read {file}: {problem} {right}"));
        }
    }
}

#[test]
fn a_disk_is_a_regular_file() {
    let place = Place::new("disk");
    for (file, problem) in &KINDS[..3] {
        let arguments = ["run", "--board", "virt", "--timeout", "5", "--disk", file];
        place.fails(&arguments, &format!("--disk: cannot read {file}: {problem} a regular file"));
    }
    let (said, status) = place.spica(&["run", "--board", "virt", "--disk", "empty"]);
    assert!(
        said.starts_with("spica: --disk: empty has 0 bytes, which is no disk; expected a multiple of 512"),
        "{said}"
    );
    assert_eq!(status, 2);
}

#[test]
fn a_manifest_names_the_key_of_a_file_that_must_not_be_read() {
    let place = Place::new("manifest");
    for (file, problem) in KINDS {
        let text = format!("[[guest]]\nname = \"a\"\nmemory = \"64M\"\ndisks = [{{ file = \"{file}\" }}]\n");
        fs::write(place.0.join("guests.toml"), text).unwrap();
        place.fails(
            &["run", "--guests", "guests.toml"],
            &format!(
                "guests.toml:1: guest `a`, key `file`: cannot read {file}: {problem} a regular file of at most 1024M, \
                 the memory of cubieboard"
            ),
        );
    }
}

#[test]
fn times_that_are_none() {
    let place = Place::new("times");
    for command in ["run --timeout", "bench --stall", "profile --stall"] {
        for time in ["0", "31536001", "18446744073709551615"] {
            let (said, status) = place.spica(&format!("{command} {time}").split(' ').collect::<Vec<_>>());
            let option = command.split(' ').nth(1).unwrap();
            let expected =
                format!("error: invalid value '{time}' for '{option} <SECS>': {time} is not in 1..=31536000\n");
            assert!(said.starts_with(&expected), "{command} {time}: {said}");
            assert_eq!(status, 2);
        }
    }
}

#[test]
fn files_for_fw_cfg_that_cannot_be() {
    let place = Place::new("fw-cfg");
    let long = format!("opt/{}=bytes", "x".repeat(52));
    for wrong in ["opt/a", "bytes", "etc/a=bytes", "opt/=bytes", "opt/a b=bytes", "=bytes", &long] {
        let (said, status) = place.spica(&["run", "--fw-cfg", wrong]);
        let expected = format!(
            "error: invalid value '{wrong}' for '--fw-cfg <NAME=FILE>': expected NAME=FILE, such as \
             opt/org.example/settings=settings.txt, where NAME begins with opt/"
        );
        assert!(said.starts_with(&expected), "{wrong}: {said}");
        assert_eq!(status, 2);
    }
    let (said, _) = place.spica(&["run", "--fw-cfg", "opt/a="]);
    assert!(said.contains("expected a file behind opt/a="), "{said}");
    let twice = ["run", "--fw-cfg", "opt/a=bytes", "--fw-cfg", "opt/a=empty"];
    let expected = "spica: two files of --fw-cfg have the name opt/a; names must differ\n";
    assert_eq!(place.spica(&twice), (expected.to_string(), 2));
    let many: Vec<String> = (0..17).flat_map(|n| ["--fw-cfg".to_string(), format!("opt/{n}=bytes")]).collect();
    let many: Vec<&str> = ["run"].into_iter().chain(many.iter().map(String::as_str)).collect();
    let expected = "spica: 17 times --fw-cfg is too often; expected at most 16\n";
    assert_eq!(place.spica(&many), (expected.to_string(), 2));
    // A kernel that firmware starts has no address of Spica's, and no shell that Spica knows.
    for more in [&["--load", "0x40008000"][..], &["--exec", "true"], &["--native"]] {
        let arguments = [&["run", "--bios", "bytes", "--kernel", "bytes"][..], more].concat();
        let (said, status) = place.spica(&arguments);
        assert!(said.contains("cannot be used with"), "{said}");
        assert_eq!(status, 2);
    }
}

#[test]
fn timelines_that_cannot_be() {
    let place = Place::new("timelines");
    for time in ["0s", "0ms", "5", "61m", "-1s", "9999999999999999999s"] {
        let (said, status) = place.spica(&["trace", &format!("--for={time}")]);
        let expected = format!(
            "error: invalid value '{time}' for '--for <TIME>': expected a time from 1ms to 60m, such as 500ms, 5s or 2m\n"
        );
        assert!(said.starts_with(&expected), "{time}: {said}");
        assert_eq!(status, 2);
    }
    place.fails(&["run", "--trace", "none/t.json"], "cannot write none/t.json: No such file or directory (os error 2)");
    place.fails(&["run", "--trace", "directory"], "cannot write directory: Is a directory (os error 21)");
    place.fails(&["run", "--trace", "fifo"], "cannot write fifo: it is a pipe or socket, and nobody reads there");
    let (said, _) = place.spica(&["trace", "--run", "none-of-that-name"]);
    assert!(said.starts_with("spica: no board is running") || said.starts_with("spica: no run is called"), "{said}");
}

#[test]
fn files_that_are_not_what_they_should_be() {
    let place = Place::new("files");
    let missing = "cannot read none: No such file or directory (os error 2)";
    place.fails(&["run", "--kernel", "none"], &format!("--kernel: {missing}"));
    place.fails(&["run", "--guests", "none"], missing);
    place.fails(&["bench", "--report", "none"], missing);
    let (said, status) = place.spica(&["pack", "--count", "1", "--output", "empty"]);
    assert_eq!((said.as_str(), status), ("spica: --output: empty is a file; expected a directory\n", 2));
    place.fails(
        &["bench", "--report", "empty"],
        "empty: EOF while parsing a value at line 1 column 0; expected a result file, as `spica bench` writes it",
    );
    fs::write(place.0.join("later.json"), "{\"schema\": 2}").unwrap();
    place.fails(
        &["bench", "--report", "later.json"],
        "later.json: schema: the file has version 2; this spica reads version 1; expected a result file, as `spica bench` \
         writes it",
    );
    let (said, status) = place.spica(&["bench", "--report", "later.json", "--output", "empty"]);
    assert_eq!((said.as_str(), status), ("spica: --output: empty is a file; expected a directory\n", 2));
    place.fails(&["run", "--guests", "bytes"], "cannot read bytes: it is no text; expected UTF-8");
    place.fails(&["run", "--guests", "empty"], "empty: there is no guest to run; expected at least one [[guest]]");
}
