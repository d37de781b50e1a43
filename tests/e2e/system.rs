//! Two whole Debians on one board: systemd comes up without a failure, and they talk over Spica's switch by ssh and
//! iperf3; what is written to their disks is what is read.
//!
//! Each is one test, because it is one boot, and that takes minutes: somebody logs in on the console of one guest and
//! types. The short one has the system with fewer packages, because that is installed first, on an emulated board.

use std::fs;
use std::time::{Duration, Instant};

use spica_runner::board;
use spica_runner::guests::Source;
use spica_runner::prepare::{Request, prepare};
use spica_runner::project::{Project, create_dir, read_text, write};
use spica_runner::qemu::{Event, Session};
use spica_runner::spica::{HALTED, failure};

/// The longest that any step may take, on a machine that is slow and busy.
const LIMIT: Duration = Duration::from_secs(900);
/// The user's shell is ready.
const PROMPT: &str = "root@alpha:~# ";
/// The address of the second guest.
const BETA: &str = "10.0.0.2";

/// The console of a board with several guests, and who sits at it.
struct Person {
    session: Session,
    /// What was printed since the last step, without carriage returns.
    text: String,
    /// The lines that Spica wrote.
    spica: Vec<String>,
    /// How many commands were typed.
    commands: u32,
}

impl Person {
    /// Takes events until `enough`, and gives what was printed up to then.
    #[track_caller]
    fn wait(&mut self, what: &str, enough: impl Fn(&str, &[String]) -> bool) -> String {
        let until = Instant::now() + LIMIT;
        while !enough(&self.text, &self.spica) {
            match self.session.next(None, Some(until)).expect("the board") {
                Event::Guest(bytes) => self.text.push_str(&String::from_utf8_lossy(&bytes).replace('\r', "")),
                Event::Spica(line) => self.spica.push(line),
                Event::Exited(_) | Event::Quiet => {
                    panic!("no {what}; Spica said {:#?}, the guests at last:\n{}", self.spica, self.session.console(40))
                }
                _ => {}
            }
        }
        std::mem::take(&mut self.text)
    }

    /// Types a command and gives what it prints; its status must be 0.
    #[track_caller]
    fn command(&mut self, command: &str) -> String {
        self.commands += 1;
        // The shell shows what is typed, so the marker is typed in another form.
        let marker = format!("<end of {}: ", self.commands);
        self.session.send(format!("{command}; echo \"<end of \"{}: $?\">\"\n", self.commands).as_bytes());
        let text =
            self.wait(command, |text, _| text.split_once(&marker).is_some_and(|(_, rest)| rest.contains(PROMPT)));
        let (output, end) = text.split_once(&marker).unwrap_or((&text, ""));
        assert!(end.starts_with("0>"), "{command}\n{output}\nended with status {end}");
        output.to_string()
    }
}

/// The word of 64 hexadecimal digits in a text.
#[track_caller]
fn sum(text: &str) -> &str {
    let word = text.split(|c: char| !c.is_ascii_hexdigit()).find(|word| word.len() == 64);
    word.unwrap_or_else(|| panic!("no SHA-256 in {text:?}"))
}

/// What is done on a board with two guests of a system.
struct Plan {
    board: &'static str,
    system: &'static str,
    /// The file that goes over the network.
    bytes: u32,
    /// What iperf3 sends.
    sent: &'static str,
    /// The commands that write to the disk and look at what was written.
    disk: &'static [&'static str],
}

#[test]
#[ignore = "installs a small Debian on an emulated board first: five minutes and more"]
fn two_small_debians_on_a_switch() {
    let disk: &[_] = &[
        "head -c 2000000 /dev/urandom >disk; sha256sum disk >sum; sync; echo 3 >/proc/sys/vm/drop_caches",
        "sha256sum --check sum",
    ];
    talk(&Plan { board: "cubieboard", system: "debian-small", bytes: 400_000, sent: "512K", disk });
}

#[test]
#[ignore = "makes a whole Debian first: ten minutes and more"]
fn two_debians_on_a_switch() {
    let disk: &[_] = &[
        "fio --name=disk --filename=disk --size=8M --rw=randwrite --bs=16k --ioengine=libaio --iodepth=4 --direct=1 \
                        --verify=crc32c",
    ];
    talk(&Plan { board: "vexpress-a9", system: "debian", bytes: 4_000_000, sent: "4M", disk });
}

fn talk(plan: &Plan) {
    let project = Project::find(None).expect("the project");
    let pair = read_text(&project.source("guests/debian-pair.toml")).expect("the pair");
    let pair = pair.replace("system = \"debian\"", &format!("system = \"{}\"", plan.system));
    let manifest = project.build(&format!("test-system-{}.toml", std::process::id()));
    write(&manifest, pair.as_bytes()).expect("a manifest");
    let board = board::find(plan.board).expect("a board");
    let guests = Some(Source::Manifest(manifest.clone()));
    let run = prepare(&project, &Request { guests, ..Request::new(board) });
    let _ = fs::remove_file(manifest);
    let run = run.unwrap_or_else(|error| panic!("{error}"));
    create_dir(&project.build("logs")).expect("a directory");
    let log = project.build(&format!("logs/{}.log", plan.system));
    let session = run.start(Some(&log), false).expect("a board");
    let mut alpha = Person { session, text: String::new(), spica: Vec::new(), commands: 0 };

    alpha.wait("login", |text, _| ["alpha login: ", "beta login: "].iter().all(|prompt| text.contains(prompt)));
    // What is typed goes to the first guest.
    alpha.session.send(b"root\n");
    alpha.wait("shell", |text, _| text.contains(PROMPT));
    // No sequences of a terminal in what is printed.
    alpha.command("bind 'set enable-bracketed-paste off'");

    let state = alpha.command("systemctl is-system-running --wait");
    assert!(state.contains("running"), "{state}");
    assert!(alpha.command("cat /etc/debian_version").contains("12."));

    let here = alpha.command(&format!("head -c {} /dev/urandom >file; sha256sum file", plan.bytes));
    alpha.command(&format!("scp -q file {BETA}:"));
    // Not from the page cache.
    let there =
        alpha.command(&format!("ssh -n {BETA} 'hostname; sync; echo 3 >/proc/sys/vm/drop_caches; sha256sum file'"));
    assert!(there.contains("beta"), "{there}");
    assert_eq!(sum(&here), sum(&there));

    alpha.command(&format!("ssh -n {BETA} iperf3 --server --one-off --daemon"));
    // It is soon there, but not at once.
    let client = format!("iperf3 --client {BETA} --bytes {} --format k", plan.sent);
    let iperf = alpha.command(&format!("for n in 1 2 3 4 5; do {client} && break; sleep 2; done"));
    assert!(iperf.contains("receiver"), "{iperf}");

    for command in plan.disk {
        let said = alpha.command(command);
        assert!(!command.starts_with("fio") || said.contains("err= 0"), "{said}");
    }

    let errors = alpha.command("dmesg --level=emerg,alert,crit,err --notime");
    assert!(!errors.contains("virtio") && !errors.contains("EXT4"), "{errors}");

    alpha.session.send(format!("ssh -n {BETA} poweroff; poweroff\n").as_bytes());
    alpha.wait("end", |_, spica| spica.iter().any(|line| line == HALTED));
    assert_eq!(failure(&alpha.spica, &run.names), None);
}
