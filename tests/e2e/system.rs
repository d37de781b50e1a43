//! Two whole Debians on one board: systemd comes up without a failure, and they talk over Spica's switch by ssh and iperf3;
//! what is written to their disks is what is read.
//!
//! It is one test, because it is one boot, and that takes minutes: somebody logs in on the console of one guest and types.

use std::time::{Duration, Instant};

use spica_cli::board;
use spica_cli::guests::Source;
use spica_cli::prepare::{Request, prepare};
use spica_cli::project::{Project, create_dir};
use spica_cli::qemu::{Event, Session};
use spica_cli::spica::{HALTED, failure};

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

#[test]
#[ignore = "makes a whole Debian first: ten minutes and more"]
fn two_debians_on_a_switch() {
    let project = Project::find().expect("the project");
    let board = board::find("vexpress-a9").expect("a board");
    let guests = Some(Source::Manifest(project.source("guests/debian-pair.toml")));
    let run = prepare(&project, &Request { guests, ..Request::new(board) }).expect("a run");
    create_dir(&project.build("logs")).expect("a directory");
    let session = run.start(Some(&project.build("logs/system.log")), false).expect("a board");
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

    alpha.command("head -c 4000000 /dev/urandom >file");
    let here = alpha.command("sha256sum file");
    alpha.command(&format!("scp -q file {BETA}:"));
    // Not from the page cache.
    let there =
        alpha.command(&format!("ssh -n {BETA} 'hostname; sync; echo 3 >/proc/sys/vm/drop_caches; sha256sum file'"));
    assert!(there.contains("beta"), "{there}");
    assert_eq!(sum(&here), sum(&there));

    alpha.command(&format!("ssh -n {BETA} iperf3 --server --one-off --daemon"));
    // It is soon there, but not at once.
    let client = format!("iperf3 --client {BETA} --bytes 4M --format k");
    let iperf = alpha.command(&format!("for n in 1 2 3 4 5; do {client} && break; sleep 2; done"));
    assert!(iperf.contains("receiver"), "{iperf}");

    let fio = alpha.command(
        "fio --name=disk --filename=disk --size=8M --rw=randwrite --bs=16k --ioengine=libaio --iodepth=4 --direct=1 \
         --verify=crc32c",
    );
    assert!(fio.contains("err= 0"), "{fio}");

    let errors = alpha.command("dmesg --level=emerg,alert,crit,err --notime");
    assert!(!errors.contains("virtio") && !errors.contains("EXT4"), "{errors}");

    alpha.session.send(format!("ssh -n {BETA} poweroff; poweroff\n").as_bytes());
    alpha.wait("end", |_, spica| spica.iter().any(|line| line == HALTED));
    assert_eq!(failure(&alpha.spica, &run.names), None);
}
