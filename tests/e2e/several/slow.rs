//! A serial port that takes next to nothing, as real ones do, and guests that print without end.
//!
//! QEMU's 16550 waits when its other end does not read, so this reads slowly. Time is the count of instructions, so
//! that it is the guests' clocks that tell what they waited, however busy this machine is.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use spica_runner::bare::{self, Slept};
use spica_runner::bench::ICOUNT_SHIFT;
use spica_runner::board;
use spica_runner::guests::Source;
use spica_runner::prepare::{Request, prepare};
use spica_runner::project::Project;
use spica_tests::several::Part;

use super::SLEEPS;

/// What is read at once, and the rest after that: besides what the pipe takes, 640 bytes in a second.
const PIECE: usize = 64;
const REST: Duration = Duration::from_millis(100);
/// For so long: the sleeper needs some seconds. Then all is read, to find its line.
const SLOW: Duration = Duration::from_secs(15);
/// How long that may take: the test does not depend on it.
const PATIENCE: Duration = Duration::from_secs(600);

/// A process that ends with its owner.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a sleeper hears of its timer beside flood `kind`, and all that came out of the port until it said so.
fn beside(kind: u32, key: &str) -> (Slept, String) {
    let project = Project::find(None).unwrap();
    let scratch = project.build(&format!("several/slow-{}-{kind}", std::process::id()));
    let flood = [kind, 0];
    let parts = [
        Part::new("sleeper", "sleep", &SLEEPS),
        Part::new("flood", "flood", &flood).with("memory", "\"64M\"").with(key, "true"),
    ];
    let request = Request {
        guests: Some(Source::Manifest(bare::manifest(&scratch, &project, &parts).unwrap())),
        icount: Some(ICOUNT_SHIFT),
        ..Request::new(board::find("cubieboard").unwrap())
    };
    let run = prepare(&project, &request).unwrap();
    let _ = fs::remove_dir_all(&scratch);
    let boot = run.boot();
    let mut qemu = Command::new("qemu-system-arm");
    qemu.args(["-M", run.board.name, "-m", &format!("{}M", boot.memory_mib.unwrap())]);
    qemu.args(["-display", "none", "-monitor", "none", "-no-reboot", "-nic", "none"]);
    qemu.args(["-chardev", "stdio,id=uart,signal=off", "-serial", "chardev:uart"]);
    qemu.args(["-icount", &format!("shift={ICOUNT_SHIFT},sleep=off")]);
    qemu.arg("-kernel").arg(boot.kernel).args(["-append", boot.append]);
    qemu.arg("-initrd").arg(boot.initrd.unwrap()).arg("-dtb").arg(boot.device_tree.unwrap());
    let child = qemu.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut qemu = Ends(child);
    let mut port = qemu.0.stdout.take().unwrap();
    let (mut said, started) = (Vec::new(), Instant::now());
    loop {
        let mut piece = [0; PIECE];
        let len = port.read(&mut piece).unwrap();
        said.extend_from_slice(&piece[..len]);
        if started.elapsed() < SLOW {
            assert!(len != 0, "QEMU has ended");
            sleep(REST);
            continue;
        }
        let text = String::from_utf8_lossy(&said);
        let line = text.split_inclusive('\n').find(|line| line.starts_with("sleeper| slept") && line.ends_with('\n'));
        if let Some(line) = line.filter(|_| text.contains(" bytes lost]")) {
            return (Slept::read(line, SLEEPS[0], SLEEPS[1]).unwrap(), text.to_string());
        }
        let tail = &text[text.len().saturating_sub(500)..];
        assert!(
            len != 0 && started.elapsed() < PATIENCE,
            "the sleeper is not heard of, or the port is not slow:\n{tail}"
        );
    }
}

/// Nobody waits for what a flood prints but the flood, by its UART or its virtio console.
#[test]
fn a_flood_at_a_slow_port_delays_nobody() {
    for (kind, key) in [(12, "console"), (13, "console")] {
        let (slept, said) = beside(kind, key);
        println!("flood {kind}: {:.0} us late, {:.0} at worst, {} bytes said", slept.average, slept.worst, said.len());
        assert!(said.contains("flood| [") && !said.contains("sleeper| ["), "it is the flood that loses");
        assert!(slept.worst < 2_000.0, "flood {kind}: {slept:?}");
        assert!(said.contains("sleeper| up"), "{}", &said[..500]);
    }
}
