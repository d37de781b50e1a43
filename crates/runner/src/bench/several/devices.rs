//! What a byte costs that guests move: over the switch to each other, and on a disk.
//!
//! The guests are Debian's kernel with iperf3 and fio of Debian's packages, told what to do by scripts in
//! `bench/several`. A job is timed as a whole by its guest's clock, which counts the board's instructions, so that all
//! is in it: the guest's kernel, Spica, and for the network the other guest. What programs take to start and to end is
//! subtracted: by a run that moves less.

use spica_bench::results::{Finding, Group};

use super::boots::{self, Boots};
use crate::bench::watch::Flow;
use crate::bench::workloads::{Program, pack, packages, stopwatch};
use crate::bench::{instructions, request};
use crate::error::{Error, Result};
use crate::guests::Source;
use crate::initramfs::Overlay;
use crate::project::{create_dir, read, write};

const MIB: f64 = 1_048_576.0;
/// The disk's image.
const IMAGE: &str = "blank.img";

/// A board with Linux guests that move bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Board {
    /// Two guests at a switch.
    Network,
    /// One with a copy-on-write disk.
    Disk,
}

impl Board {
    /// Debian's package, the program in it, the script, and the manifest.
    const fn parts(self) -> (&'static str, Program, &'static str, &'static str) {
        match self {
            Self::Network => ("iperf3", IPERF3, "network.sh", NETWORK),
            Self::Disk => ("fio", FIO, "disk.sh", DISK),
        }
    }
}

const IPERF3: Program = Program { from: "usr/bin/iperf3", to: "bench/usr/bin/iperf3" };
const FIO: Program = Program { from: "usr/bin/fio", to: "bench/usr/bin/fio" };

const NETWORK: &str = "\
[[guest]]
name = \"alpha\"
memory = \"96M\"
networks = [\"lan\"]
restart = \"never\"

[[guest]]
name = \"beta\"
memory = \"96M\"
networks = [\"lan\"]
restart = \"never\"
";

/// fio and what it links to have 60 MiB, which the initial RAM disk has and then the file system.
const DISK: &str = "\
[[guest]]
name = \"alpha\"
memory = \"384M\"
disks = [{ file = \"blank.img\" }]
restart = \"never\"
";

/// Instructions for a byte of a TCP connection between two guests.
pub fn network(boots: &mut Boots<'_, '_>) -> Result<Finding> {
    let lines = boots.lines(Board::Network)?;
    let (less, more) = (taken(&lines, "network-1M")?, taken(&lines, "network-9M")?);
    let each = (more - less) / (8.0 * MIB);
    let mut finding = Finding::new(each);
    finding.parts.insert("instructions for a connection".into(), less - each * MIB);
    Ok(finding)
}

/// Instructions for a byte of the disk, in `job`, which moves 16 MiB.
pub fn disk(boots: &mut Boots<'_, '_>, job: &str) -> Result<Finding> {
    let lines = boots.lines(Board::Disk)?;
    let (none, all) = (taken(&lines, "disk-none")?, taken(&lines, &format!("disk-{job}"))?);
    let mut finding = Finding::new((all - none) / (16.0 * MIB));
    let block = if job.ends_with("64k") { 65536.0 } else { 4096.0 };
    finding.parts.insert("instructions for a request".into(), finding.value * block);
    Ok(finding)
}

/// The instructions that a job took: `@bench NAME ns NANOSECONDS STATUS`.
fn taken(lines: &[String], name: &str) -> Result<f64> {
    let start = format!("@bench {name} ns ");
    let rest = lines.iter().find_map(|line| line.strip_prefix(&start));
    let figure = rest.and_then(|rest| rest.strip_suffix(" 0")?.parse().ok());
    let said = || format!("{name}: the guest said {:?}", rest.unwrap_or("nothing"));
    figure.map(instructions).ok_or_else(|| Error::failed(said()))
}

/// Boots such a board; gives the lines of its first guest.
pub fn boot(boots: &mut Boots<'_, '_>, board: Board) -> Result<Vec<String>> {
    let project = boots.context.project;
    let (package, program, script, manifest) = board.parts();
    let scratch = boots.scratch.join(script);
    create_dir(&scratch)?;
    write(&scratch.join("guests.toml"), manifest.as_bytes())?;
    if board == Board::Disk {
        write(&scratch.join(IMAGE), &vec![0; 16 << 20])?;
    }
    let tree = packages::fetch(project, [package.to_string()].into())?;
    if tree.version(package).is_none() {
        return Err(Error::failed(format!("the Debian package {package} cannot be had")));
    }
    let mut files = pack::Files::new(&tree.root);
    files.add(&program)?;
    files.put("bench/bin/stopwatch", 0o755, read(&stopwatch(project)?)?);
    files.put("etc/hosts", 0o644, b"127.0.0.1 localhost\n".to_vec());
    let mut overlay = Overlay::new();
    for (path, permissions, data) in files.finish() {
        overlay.file(&path, permissions, &data);
    }
    overlay.file("spica/token", 0o600, b"bench");
    overlay.file("spica/command", 0o700, &read(&project.source("bench/several").join(script))?);
    let mut request = request(boots.job.board, boots.job.side, Group::Several);
    request.guests = Some(Source::Manifest(scratch.join("guests.toml")));
    request.append = String::new();
    request.memory = None;
    request.overlay = overlay;

    let mut lines = Vec::new();
    let result = boots.watch(&request, script, &mut |line| {
        let (name, text) = line.split_once("| ").unwrap_or(("alpha", line));
        // What is no line of its own may stand before it.
        if let Some(at) = text.find("@bench ").filter(|_| name == "alpha") {
            lines.push(text[at..].to_string());
        }
        if lines.last().is_some_and(|line| line == "@bench done") { Flow::Last } else { Flow::Continue }
    });
    result.map(|_: boots::Spica| lines)
}
