//! Debian's own drivers for the small virtio devices: a shell on the virtio console, random numbers from the entropy
//! device.
//!
//! Disks, networks and the balloon have tests of their own (`system.rs`, `host_devices.rs`, `balloon.rs`).

use spica_tests::Machine;
use spica_tests::several::{Board, Part};

/// How the prompt of the guest's shell begins.
const PROMPT: &str = "root@debian:";

/// Types a command, and gives what it prints.
#[track_caller]
fn command(board: &mut Board, command: &str) -> String {
    let before = board.console("debian").len();
    board.type_keys(&format!("{command}\r"));
    board.until(command, |board| {
        let text = &board.console("debian")[before..];
        // What was typed is shown, too.
        let (_, output) = text.split_once('\n')?;
        output.rsplit_once(PROMPT).map(|(output, _)| output.trim().to_string())
    })
}

fn drive(machine: Machine) {
    // What the kernel says, of interrupts that take long on a busy machine, say, would come between the answers.
    let append = "console=hvc0 loglevel=3";
    let keys = format!("memory = \"96M\"\nrng = true\nconsole = true\nappend = \"{append}\"\nrestart = \"never\"\n");
    let parts = [Part { name: "debian", guest: None, keys }];
    let mut board = Board::start_with(machine, &parts, false, "");
    board.until("a shell", |board| board.console("debian").contains(PROMPT).then_some(()));
    board.show(Some("debian"));

    // Every key and every character goes by the device's queues.
    assert_eq!(command(&mut board, "tty"), "/dev/hvc0");
    assert_eq!(command(&mut board, "cat /sys/class/misc/hw_random/rng_current"), "virtio_rng.0");
    let bytes = |board: &mut Board| command(board, "head -c 64 /dev/hwrng | sha256sum");
    assert_ne!(bytes(&mut board), bytes(&mut board), "the same random numbers twice");
    // More than a buffer has, and nothing of it constant.
    assert_eq!(command(&mut board, "head -c 20000 /dev/hwrng | tee /tmp/r | wc -c"), "20000");
    let packed = command(&mut board, "gzip -c /tmp/r | wc -c");
    assert!(
        packed.parse::<u32>().is_ok_and(|bytes| bytes >= 20_000),
        "random numbers that can be packed to {packed:?}"
    );
    // Lines that are longer than the queues' buffers come whole, in order.
    let line = command(&mut board, "seq 1 2000 | tr '\\n' ' '");
    let number = |word: &str| word.parse().unwrap_or_else(|_| panic!("{word:?} is no number, in {line:?}"));
    let numbers: Vec<u32> = line.split_whitespace().map(number).collect();
    assert!(numbers.iter().copied().eq(1..=2000), "{} numbers", numbers.len());
    assert_eq!(command(&mut board, "dmesg | grep -iE 'virtio.*(fail|error)|oops' || echo none"), "none");
}

macro_rules! boards {
    ($($module:ident: $machine:ident $(, #[$slow:meta])?;)*) => { $(
        mod $module {
            use super::*;

            #[test]
            $(#[$slow])?
            fn console_and_entropy() {
                drive(Machine::$machine);
            }
        }
    )* };
}

boards! {
    cubieboard: Cubieboard;
    vexpress_a9: VexpressA9, #[ignore = "a boot for what the other board shows, too: a minute"];
}
