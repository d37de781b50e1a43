//! The board's own disk and network card: what a guest wrote and synced is there whatever becomes of the board, and
//! guests reach what is behind the card.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use spica_runner::board;
use spica_runner::exec::{Script, exec};
use spica_runner::guests::Source;
use spica_runner::plugged::Plugged;
use spica_runner::prepare::{Request, Run, prepare};
use spica_runner::project::{Project, create_dir};
use spica_runner::qemu::{Boot, Event, Session};

/// Boots may be slow, on a machine that is busy.
const TIMEOUT: Duration = Duration::from_secs(600);
const MIB: usize = 1 << 20;

fn scratch(name: &str) -> PathBuf {
    let project = Project::find(None).expect("the project");
    let dir = project.build(&format!("host-devices/{name}-{}", std::process::id()));
    create_dir(&dir).expect("a directory");
    dir
}

/// An empty disk.
fn image(dir: &Path) -> PathBuf {
    let path = dir.join("disk");
    fs::write(&path, vec![0; 16 * MIB]).expect("a file");
    path
}

fn request() -> Request {
    Request { unpacked: true, ..Request::new(board::find("virt").expect("a board")) }
}

fn ready(request: &mut Request, command: &str) -> (Run, Script) {
    let script = Script::new(command, &mut request.overlay).expect("a script");
    (prepare(&Project::find(None).expect("the project"), request).expect("a run"), script)
}

/// Runs a command in the only guest of a board; gives what it printed.
fn run(dir: &Path, plugged: Plugged, command: &str) -> String {
    let mut request = Request { plugged, ..request() };
    let (run, script) = ready(&mut request, command);
    let mut output = Vec::new();
    let mut listener = |bytes: &[u8]| {
        output.extend_from_slice(bytes);
        Ok(Vec::new())
    };
    exec(&run, &script, TIMEOUT, Some(&dir.join("log")), false, &mut listener).expect("an end");
    String::from_utf8_lossy(&output).into_owned()
}

/// Waits until the console has all these texts; gives what was on it.
fn wait_for(session: &mut Session, texts: &[&str]) -> String {
    let (mut seen, deadline) = (String::new(), Instant::now() + TIMEOUT);
    while let Some(missing) = texts.iter().find(|text| !seen.contains(**text)) {
        match session.next(None, Some(deadline)).expect("a console") {
            Event::Guest(bytes) => seen += &String::from_utf8_lossy(&bytes),
            Event::Quiet | Event::Exited(_) => panic!("no {missing:?}:\n{}", session.console(40)),
            _ => {}
        }
    }
    seen
}

/// A disk's bytes that the guest's `numbers FROM` prints: lines of numbers, 64 KiB.
fn numbers(from: usize) -> Vec<u8> {
    (from..).flat_map(|n| format!("{n}\n").into_bytes()).take(64 << 10).collect()
}

const NUMBERS: &str = "numbers() { seq $1 $(($1 + 30000)) | head -c 65536; }\n";

#[test]
fn what_was_synced_survives_the_board() {
    let dir = scratch("survives");
    let disk = image(&dir);
    let plugged = Plugged { disks: vec![disk.clone()], network: None };

    // The board goes as if its plug were pulled, once the guest has seen its fsync return.
    let mut wanted = Request { plugged: plugged.clone(), ..request() };
    let command = "numbers 5 | dd of=/dev/vda bs=4k seek=256 conv=fsync && echo is-\"synced\"; sleep 1000";
    let (pulled, _) = ready(&mut wanted, &format!("{NUMBERS}{command}"));
    let mut session = pulled.start(Some(&dir.join("log-1")), false).expect("QEMU");
    wait_for(&mut session, &["is-synced"]);
    drop(session);
    let bytes = fs::read(&disk).expect("the disk");
    assert!(bytes[MIB..][..64 << 10] == numbers(5), "what was synced is not on the disk");
    assert!(bytes[..MIB].iter().all(|&b| b == 0), "what was not written is");

    // The next guest finds it, and switches itself off in good order; all that it wrote is there then.
    let command = "dd if=/dev/vda bs=4k skip=256 count=16 2>/dev/null | md5sum; numbers 5 | md5sum; \
        numbers 7 | dd of=/dev/vda bs=4k seek=512 2>/dev/null; cat /sys/block/vda/size /sys/block/vda/serial";
    let output = run(&dir, plugged, &format!("{NUMBERS}{command}"));
    let lines: Vec<_> = output.lines().collect();
    assert_eq!(lines[0], lines[1], "the next boot reads something else");
    assert_eq!(lines[2..], ["32768", "disk0"]);
    let bytes = fs::read(&disk).expect("the disk");
    assert!(bytes[2 * MIB..][..64 << 10] == numbers(7), "what was written before the end is not on the disk");
    let _ = fs::remove_dir_all(&dir);
}

/// A disk whose every flush fails: the guest hears of it, so it is the disk that is flushed.
#[test]
fn a_flush_reaches_the_disk() {
    let dir = scratch("flush");
    let disk = image(&dir);
    let mut wanted = Request { plugged: Plugged { disks: vec![disk.clone()], network: None }, ..request() };
    let command = "seq 1000 | dd of=/dev/vda bs=4k 2>&1; echo plain $?; seq 1000 | dd of=/dev/vda bs=4k conv=fsync 2>&1; \
        echo synced $?; echo the-\"end\"; sleep 1000";
    let (run, _) = ready(&mut wanted, command);
    let file = disk.display().to_string().replace(',', ",,");
    let fails = "file.inject-error.0.event=none,file.inject-error.0.iotype=flush,file.inject-error.0.errno=5";
    let drive = format!(
        "if=none,id=disk0,driver=raw,file.driver=blkdebug,{fails},file.image.driver=file,file.image.filename={file}"
    );
    let plugged = ["-drive", &drive, "-device", "virtio-blk-device,drive=disk0,serial=disk0"].map(str::to_string);
    let boot = Boot { plugged: &plugged, ..run.boot() };
    let mut session = Session::start(run.board, &boot, Some(&dir.join("log")), false).expect("QEMU");
    let seen = wait_for(&mut session, &["the-end"]);
    assert!(seen.contains("plain 0"), "{seen}");
    assert!(seen.contains("synced 1"), "a flush that failed did not fail:\n{seen}");
    drop(session);
    let _ = fs::remove_dir_all(&dir);
}

/// Two guests read the board's disk, one of them with a layer of its own over it: what it writes, nobody else sees.
/// Through the switch, they reach the network that QEMU makes for the board's card, and each other.
#[test]
fn guests_share_a_disk_and_the_uplink() {
    let dir = scratch("share");
    let disk = image(&dir);
    let manifest = "uplink = \"lan\"\n\
        [[guest]]\nname = \"one\"\nmemory = \"64M\"\nappend = \"ip=2\"\nnetworks = [\"lan\"]\n\
        disks = [{ host = \"disk0\", mode = \"copy-on-write\" }]\n\
        [[guest]]\nname = \"two\"\nmemory = \"64M\"\nappend = \"ip=3\"\nnetworks = [\"lan\"]\n\
        disks = [{ host = true, mode = \"read-only\" }]\n";
    let file = dir.join("guests.toml");
    fs::write(&file, manifest).expect("a file");
    let plugged = Plugged { disks: vec![disk.clone()], network: Some("user,restrict=on,net=192.0.2.0/24".into()) };
    let mut wanted = Request { plugged, guests: Some(Source::Manifest(file)), ..request() };
    // The address of QEMU's own station is that of the network, plus two.
    let command = "ip=$(sed 's/.*ip=\\([0-9]\\).*/\\1/' /proc/cmdline); ip link set lo up; ip link set eth0 up; ip addr add 192.0.2.2$ip/24 dev eth0\n\
        for to in 2 22 23; do\n\
            until ping -c 1 -W 5 192.0.2.$to >/dev/null; do :; done; echo $ip reaches $to end\n\
        done\n\
        seq 100 | dd of=/dev/vda bs=512 seek=1 conv=fsync 2>/dev/null; echo $ip writes $? end\n\
        echo 3 >/proc/sys/vm/drop_caches\n\
        echo $ip reads $(dd if=/dev/vda bs=512 skip=1 count=1 2>/dev/null | tr '\\0' 0 | head -c 1) end; sleep 1000";
    let (run, _) = ready(&mut wanted, command);
    let mut session = run.start(Some(&dir.join("log")), false).expect("QEMU");
    let expected = [
        "2 reaches 2 end",
        "2 reaches 22 end",
        "2 reaches 23 end",
        "3 reaches 2 end",
        "3 reaches 22 end",
        "3 reaches 23 end",
        "2 writes 0 end",
        "3 writes 1 end",
        "2 reads 1 end",
        "3 reads 0 end",
    ];
    wait_for(&mut session, &expected);
    drop(session);
    assert!(fs::read(&disk).expect("the disk").iter().all(|&b| b == 0), "copy on write wrote to the disk");
    let _ = fs::remove_dir_all(&dir);
}

/// Two boards with a cable between their cards: a guest of one reaches a guest of the other.
#[test]
fn two_boards_with_a_cable() {
    let dir = scratch("cable");
    let cable = dir.join("cable");
    let end = |server: &str| format!("stream,server={server},addr.type=unix,addr.path={}", cable.display());
    let file = dir.join("guests.toml");
    let manifest = "uplink = \"wan\"\n[[guest]]\nname = \"far\"\nmemory = \"64M\"\n\
        networks = [{ name = \"wan\", mac = \"02:00:00:00:00:42\" }]\n";
    fs::write(&file, manifest).expect("a file");
    let network = |server| Plugged { disks: Vec::new(), network: Some(end(server)) };
    let mut wanted = Request { plugged: network("on"), guests: Some(Source::Manifest(file)), ..request() };
    let (far, _) =
        ready(&mut wanted, "ip link set eth0 up; ip addr add 192.0.2.1/24 dev eth0; echo is-\"up\"; sleep 1000");
    let mut session = far.start(Some(&dir.join("log-far")), false).expect("QEMU");
    wait_for(&mut session, &["is-up"]);
    let (done, ended) = std::sync::mpsc::channel();
    let answers = std::thread::spawn(move || {
        // The board's UART must not fill up.
        while ended.try_recv().is_err() {
            session.next(None, Some(Instant::now() + Duration::from_millis(200))).expect("a console");
        }
    });

    let command = "ip link set eth0 up; ip addr add 192.0.2.9/24 dev eth0; ping -c 5 -W 20 -s 1400 192.0.2.1";
    let output = run(&dir, network("off"), command);
    let _ = done.send(());
    answers.join().expect("the far end");
    assert!(output.contains(" 0% packet loss"), "{output}");
    let _ = fs::remove_dir_all(&dir);
}
