//! What `./spica` does before there is a command: it finds a Rust, and has packages installed.
//!
//! A copy of the script runs in a project of its own, and programs that would change this machine are others.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use spica_mirror::{Fault, Mirror, PACKAGE};

/// A project that has only the script, and programs that come before this machine's.
struct Project(PathBuf);

impl Project {
    /// One that wants a Rust as new as that.
    fn new(name: &str, rust: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("spica-bootstrap-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("bin")).unwrap();
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spica"), dir.join("spica")).unwrap();
        fs::write(dir.join("Cargo.toml"), format!("[workspace.package]\nrust-version = \"{rust}\"\n")).unwrap();
        let project = Self(dir);
        // Whoever runs the tests need not be root.
        project.program("sudo", "exec \"$@\"");
        project
    }

    /// A program that notes how it was called, and does what `script` says.
    fn program(&self, name: &str, script: &str) {
        let file = self.0.join("bin").join(name);
        let log = self.0.join("calls");
        fs::write(&file, format!("#!/bin/sh\necho {name} \"$@\" >>{}\n{script}\n", log.display())).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs the script: what it says, and its status.
    fn run(&self, environment: &[(&str, &str)]) -> (String, i32) {
        let path = format!("{}:{}", self.0.join("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(self.0.join("spica"));
        command.arg("list").env("PATH", path).envs(environment.iter().copied());
        // A test that starts a program at the moment in which this one writes the script holds that open for a while.
        let output = loop {
            match command.output() {
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => thread::sleep(Duration::from_millis(10)),
                result => break result.unwrap(),
            }
        };
        (String::from_utf8(output.stderr).unwrap(), output.status.code().unwrap())
    }

    /// The calls of a program.
    fn calls(&self, name: &str) -> Vec<String> {
        let log = fs::read_to_string(self.0.join("calls")).unwrap_or_default();
        log.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::to_string).collect()
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_rust_that_is_too_old_is_named_with_who_has_another() {
    for (name, policy, offer) in [
        (
            "old",
            "rustc-web:\n  Installed: (none)\n  Candidate: 1.85.0+dfsg3-1~deb12u3\n",
            "rustc-web 1.85.0+dfsg3-1~deb12u3.",
        ),
        ("nothing", "", "rustc-web in no version."),
        ("none", "rustc-web:\n  Installed: (none)\n  Candidate: (none)\n", "rustc-web in no version."),
    ] {
        let project = Project::new(name, "1.9999");
        project.program("apt-get", "");
        project.program("apt-cache", &format!("cat <<'END'\n{policy}END"));
        let (said, status) = project.run(&[]);
        assert_eq!(status, 125, "{said}");
        assert!(
            said.contains("spica: Rust 1.9999 or newer is missing, with its library's source. Here is rustc 1."),
            "{said}"
        );
        assert!(said.contains(&format!("; apt offers {offer}\n")), "{said}");
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let line = "\n    deb http://deb.debian.org/debian-security bookworm-security main\n";
        assert_eq!(said.contains(line), release.contains("VERSION_CODENAME=bookworm"), "{said}");
        assert!(said.ends_with("rustup: rustup toolchain install stable --component rust-src\n"), "{said}");
        assert_eq!(project.calls("apt-get"), ["--quiet --quiet update"], "nothing is installed in vain");
    }
}

#[test]
fn a_rust_that_apt_offers_is_installed() {
    let project = Project::new("new", "1.9999");
    project.program("apt-get", "");
    project.program("apt-cache", "echo '  Candidate: 1.10000.0+dfsg3-1~deb12u3'");
    let (said, status) = project.run(&[]);
    assert_eq!((status, project.calls("apt-get").len()), (125, 2), "{said}");
    assert!(project.calls("apt-get")[1].ends_with(" install rustc-web cargo-web rust-web-src"), "{said}");
    assert!(
        said.ends_with("spica: still missing after the installation: rustc-web cargo-web rust-web-src\n"),
        "{said}"
    );
}

/// Lets `./spica` fetch lists from a mirror with these faults: what it said, and how long it would have waited.
fn fetch(name: &str, faults: &[Fault]) -> (String, Vec<String>, usize) {
    let mirror = Mirror::start(faults);
    let project = Project::new(name, "1.1");
    project.program("sleep", "");
    let dir = project.0.join("apt");
    for sub in ["state/lists/partial", "cache/archives/partial", "sources"] {
        fs::create_dir_all(dir.join(sub)).unwrap();
    }
    fs::write(dir.join("sources/test.sources"), mirror.source()).unwrap();
    fs::write(dir.join("status"), "").unwrap();
    let (config, dir) = (dir.join("apt.conf"), dir.display());
    let text = format!(
        "Dir::State \"{dir}/state\";\nDir::State::status \"{dir}/status\";\nDir::Cache \"{dir}/cache\";\n\
         Dir::Log \"{dir}/log\";\nDir::Etc::main \"/dev/null\";\nDir::Etc::parts \"/dev/null\";\n\
         Dir::Etc::sourcelist \"/dev/null\";\nDir::Etc::sourceparts \"{dir}/sources\";\nAPT::Architecture \"armhf\";\n\
         APT::Architectures {{ \"armhf\"; }};\nAPT::Sandbox::User \"root\";\nAcquire::Languages \"none\";\n\
         Acquire::http::Proxy \"DIRECT\";\nAPT::Get::Simulate \"true\";\n"
    );
    fs::write(&config, text).unwrap();
    let (said, status) = project.run(&[("APT_CONFIG", config.to_str().unwrap()), ("SPICA_EXTRA_PACKAGES", PACKAGE)]);
    assert_eq!(status, 125, "{said}");
    (said, project.calls("sleep"), mirror.served())
}

#[test]
fn a_mirror_that_is_being_updated_is_asked_again() {
    let (said, pauses, served) = fetch("updated", &[Fault::Size, Fault::Bytes]);
    assert_eq!((pauses, served), (vec!["5".to_string(), "15".to_string()], 3), "{said}");
    assert!(
        said.contains("spica: the mirror seems to be in the middle of an update; trying again in 5 s: E: Failed"),
        "{said}"
    );
    assert!(!said.contains("warning"), "{said}");
    // apt knows the package now; it was told to simulate.
    assert!(said.ends_with(&format!("spica: still missing after the installation: {PACKAGE}\n")), "{said}");
}

#[test]
fn an_update_that_does_not_end_is_not_waited_for() {
    let (said, pauses, served) = fetch("endless", &[Fault::Size; 9]);
    assert_eq!((pauses.len(), served), (3, 4), "{said}");
    assert!(said.contains("spica: warning: some of Debian's package lists are missing; going on with those"), "{said}");
    assert!(said.ends_with(&format!("spica: could not install {PACKAGE}\n")), "{said}");
}

#[test]
fn what_time_does_not_mend_is_said_at_once() {
    let (said, pauses, _) = fetch("missing", &[Fault::Missing; 9]);
    assert!(pauses.is_empty(), "{said}");
    assert!(said.contains("spica: warning: some of Debian's package lists are missing"), "{said}");
}
