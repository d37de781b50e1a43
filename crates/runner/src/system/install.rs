//! The installation: an empty disk and one with the packages, a board that turns the one into the system, and its size.
//!
//! File systems are made and shrunk by e2fsprogs in plain files: nothing is mounted on this machine.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use spica_bundle::SYSTEM_DISK;

use super::System;
use crate::error::{Context, Error, Result};
use crate::initramfs::Overlay;
use crate::process;
use crate::project::{read, write};

/// How large the disk is meanwhile, in MiB: it is a sparse file.
const ROOM_MIB: u64 = 1024;
/// How long the installation may take: about four minutes are usual.
const TIMEOUT: Duration = Duration::from_secs(3600);
/// What `guests/system/install` prints last, if all went well.
const INSTALLED: &str = "<spica: installed>";

/// Installs the packages and files of `seed` on `system`'s disk, of which `free` MiB are left free. Intermediate files
/// and the log are in `dir`.
///
/// # Errors
/// If one of the tools fails, or if the installation does; then the error has the end of its console.
pub fn install(dir: &Path, seed: &Path, kernel: &Path, system: &System, free: u64) -> Result<()> {
    let [new, packages, initrd, log] =
        ["disk.new.img", "seed.img", "install.cpio.gz", "install.log"].map(|name| dir.join(name));
    for file in [&new, &packages] {
        let _ = fs::remove_file(file);
    }
    let install = read(&seed.join("install"))?;
    let mut bytes = read(&system.initrd)?;
    Overlay::new().file("spica/install", 0o644, &install).append_to(&mut bytes);
    write(&initrd, &bytes)?;

    let room = format!("{ROOM_MIB}M");
    // A disk that is a copy in memory needs no journal, and no checksums.
    let features = ["-q", "-F", "-t", "ext4", "-m", "0", "-O", "^has_journal,^metadata_csum,^64bit", "-L", SYSTEM_DISK];
    tool(Command::new("mke2fs").args(features).arg(&new).arg(&room))?;
    tool(Command::new("mke2fs").args(["-q", "-F", "-t", "ext4", "-d"]).arg(seed).arg(&packages).arg(&room))?;
    run(&[(SYSTEM_DISK, &new), ("seed", &packages)], kernel, &initrd, &log)?;

    tool(Command::new("e2fsck").args(["-f", "-p"]).arg(&new))?;
    tool(Command::new("resize2fs").arg("-M").arg(&new))?;
    let least = fs::metadata(&new).context(|| format!("cannot look at {}", new.display()))?.len();
    tool(Command::new("resize2fs").arg(&new).arg(format!("{}M", least.div_ceil(1 << 20) + free)))?;
    fs::rename(&new, &system.disk).context(|| format!("cannot rename {}", new.display()))?;
    for file in [&packages, &initrd] {
        let _ = fs::remove_file(file);
    }
    Ok(())
}

/// Runs one of e2fsprogs' tools, which users other than root do not have in their path.
fn tool(command: &mut Command) -> Result<()> {
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    process::output(command, "cannot make the system's disk").map(|_| ())
}

/// Boots QEMU's `virt` board with these disks and waits for its end.
fn run(disks: &[(&str, &Path)], kernel: &Path, initrd: &Path, log: &Path) -> Result<()> {
    const PURPOSE: &str = "cannot install the Debian system";
    let console = File::create(log).context(|| format!("cannot write {}", log.display()))?;
    let errors = console.try_clone().context(|| format!("cannot write {}", log.display()))?;
    // The board is not to outlive us.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "qemu-system-arm"]);
    command.args(["-M", "virt,highmem=off", "-cpu", "cortex-a15", "-smp", "1", "-m", "1024M", "-no-reboot"]);
    command.args(["-display", "none", "-nic", "none", "-monitor", "none", "-serial", "stdio"]);
    command.arg("-kernel").arg(kernel).arg("-initrd").arg(initrd).args(["-append", "console=ttyAMA0 quiet"]);
    for (name, file) in disks {
        // Nothing is lost if this machine fails meanwhile: the next run begins anew.
        command.args(["-drive", &format!("file={},id={name},if=none,format=raw,cache=unsafe", escaped(file))]);
        command.args(["-device", &format!("virtio-blk-device,drive={name},serial={name}")]);
    }
    command.args(["-device", "virtio-rng-device"]);
    command.stdin(Stdio::null()).stdout(console).stderr(errors);
    let mut child =
        command.spawn().map_err(|e| Error::failed(format!("{PURPOSE}: qemu-system-arm cannot be started: {e}")))?;
    let start = Instant::now();
    let ended = loop {
        match child.try_wait().context(|| PURPOSE)? {
            Some(status) => break format!("QEMU ended: {status}"),
            None if start.elapsed() > TIMEOUT => {
                let _ = child.kill();
                let _ = child.wait();
                break format!("it took more than {} s", TIMEOUT.as_secs());
            }
            None => std::thread::sleep(Duration::from_millis(200)),
        }
    };
    let said = String::from_utf8_lossy(&read(log)?).into_owned();
    if said.lines().any(|line| line.trim_end() == INSTALLED) {
        return Ok(());
    }
    Err(Error::failed(format!("{PURPOSE}: {ended}; its console is in {}", log.display()))
        .with_details(process::tail(&said, 30)))
}

/// A file's name in an option of QEMU's: a comma is doubled.
fn escaped(file: &Path) -> String {
    file.display().to_string().replace(',', ",,")
}
