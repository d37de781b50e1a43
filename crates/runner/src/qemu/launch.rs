//! QEMU's command line, and its start as a child that ends with us.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal};

use crate::board::Board;
use crate::emulator::Emulator;
use crate::error::{Error, Result};
use crate::needed::QEMU;
use crate::process::whose;

/// What a board boots.
#[derive(Clone, Copy, Debug)]
pub struct Boot<'a> {
    /// The image given to `-kernel`.
    pub kernel: &'a Path,
    /// The file given to `-initrd`.
    pub initrd: Option<&'a Path>,
    /// The command line.
    pub append: &'a str,
    /// The board's device tree.
    pub device_tree: Option<&'a Path>,
    /// The board's memory in MiB; `None`: as it is sold.
    pub memory_mib: Option<u32>,
    /// If the emulated time is the count of executed instructions, how long one takes: 2 to the power of this
    /// nanoseconds. Then equal runs are equal to the digit.
    pub icount: Option<u8>,
    /// QEMU's options for what is plugged into the board.
    pub plugged: &'a [String],
    /// For a board that does not start by itself: the ends of the channels that QEMU answers a debugger on.
    pub debug: Option<Channels<'a>>,
    /// A plugin for QEMU, with its arguments.
    pub plugin: Option<Plugin<'a>>,
}

/// A plugin that QEMU loads.
#[derive(Clone, Copy, Debug)]
pub struct Plugin<'a> {
    /// What it is told behind `-plugin`: the file, and the plugin's arguments.
    pub argument: &'a str,
    /// The QEMU that can load it, if the machine's own cannot.
    pub emulator: Option<&'a Emulator>,
}

/// QEMU's ends of the two channels of a debugger: sockets.
#[derive(Clone, Copy, Debug)]
pub struct Channels<'a> {
    /// For the guest: GDB's remote protocol.
    pub gdb: BorrowedFd<'a>,
    /// For QEMU itself: its machine protocol, QMP.
    pub qmp: BorrowedFd<'a>,
}

impl Boot<'_> {
    /// The command that starts `board` with this, its UART being standard input and output.
    pub(super) fn command(&self, board: &Board) -> Command {
        let emulator = self.plugin.and_then(|plugin| plugin.emulator);
        let mut command = emulator.map_or_else(|| Command::new(QEMU), Emulator::command);
        let memory = self.memory_mib.unwrap_or(board.memory_mib);
        command.args(["-M", board.name]).args(board.options).args(["-m", &format!("{memory}M")]);
        command.args(["-display", "none", "-monitor", "none", "-no-reboot"]);
        // Without `-nic none`, some boards want firmware for a network card.
        if !self.plugged.iter().any(|option| option == "-netdev") {
            command.args(["-nic", "none"]);
        }
        command.args(self.plugged);
        command.args(["-chardev", "stdio,id=uart,signal=off", "-serial", "chardev:uart"]);
        command.arg("-kernel").arg(self.kernel).args(["-append", self.append]);
        if let Some(initrd) = self.initrd {
            command.arg("-initrd").arg(initrd);
        }
        if let Some(device_tree) = self.device_tree {
            command.arg("-dtb").arg(device_tree);
        }
        if let Some(shift) = self.icount {
            command.args([
                "-icount",
                &format!("shift={shift},sleep=off"),
                "-rtc",
                "base=2026-01-01,clock=vm",
                "-seed",
                "1",
            ]);
        }
        if let Some(Channels { gdb, qmp }) = self.debug {
            let socket = |id: &str, fd: BorrowedFd<'_>| format!("socket,id={id},fd={}", fd.as_raw_fd());
            command.args(["-S", "-chardev", &socket("gdb", gdb), "-gdb", "chardev:gdb"]);
            command.args(["-chardev", &socket("qmp", qmp), "-mon", "chardev=qmp,mode=control"]);
        }
        if let Some(plugin) = self.plugin {
            command.args(["-plugin", plugin.argument]);
        }
        command
    }
}

/// Starts QEMU with pipes for its standard input and output and its errors.
pub(super) fn spawn(mut command: Command, debug: Option<Channels<'_>>) -> Result<Child> {
    command.env("QEMU_AUDIO_DRV", "none");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A terminal's Ctrl-C is for us to handle.
    command.process_group(0);
    let inherited = debug.map_or([None; 2], |c| [c.gdb, c.qmp].map(|fd| Some(fd.as_raw_fd())));
    let in_child = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        for fd in inherited.into_iter().flatten() {
            // SAFETY: `debug` borrows the descriptor, so it was open at the fork, and the child closes none.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes system calls only, and touches no memory that is shared.
    unsafe { command.pre_exec(in_child) };
    command.spawn().map_err(|e| Error::failed(format!("{QEMU} cannot be started: {e}{}", whose(QEMU))))
}
