//! Everything that comes from outside: files, device trees, guest code, and what a guest does to devices and registers.
//!
//! A [`Target`] takes bytes and panics if something is wrong. Where it is no file that the bytes are, `bytes::Bytes`
//! makes acts of them. libFuzzer, in `fuzz/`, looks for bytes that reach new branches; [`part`] starts it, and tests
//! run the same targets over seeds and what becomes of them by chance.

mod bytes;
mod code;
mod files;
mod machine;
#[cfg(feature = "command")]
pub mod part;
mod switch;
mod tables;
mod vcpu;

/// One thing to throw bytes at.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name; that of its part has `fuzz-` before it.
    pub name: &'static str,
    /// One line: what the bytes are.
    pub about: &'static str,
    /// Panics if something is wrong.
    pub run: fn(&[u8]),
    /// Bytes that mean something, to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "bundle",
        about: "an archive of guests: parsed, and each guest in it looked at",
        run: files::bundle,
        seeds: files::bundle_seeds,
    },
    Target {
        name: "manifest",
        about: "a manifest: parsed; what is written of it is read back the same",
        run: files::manifest,
        seeds: files::manifest_seeds,
    },
    Target {
        name: "zimage",
        about: "a kernel: its header, and where it goes in memory",
        run: files::zimage,
        seeds: files::zimage_seeds,
    },
    Target {
        name: "guest-tree",
        about: "a guest's own device tree: checked, and adapted to the guest",
        run: files::guest_tree,
        seeds: files::guest_tree_seeds,
    },
    Target {
        name: "board-tree",
        about: "the board's device tree: memory, addresses and interrupts of every node",
        run: files::board_tree,
        seeds: files::guest_tree_seeds,
    },
    Target {
        name: "monitor",
        about: "what is typed to the monitor, and the words of Spica's command line",
        run: files::monitor,
        seeds: files::monitor_seeds,
    },
    Target {
        name: "devices",
        about: "accesses to all devices of the machine at their addresses, time, input, service",
        run: machine::devices,
        seeds: machine::seeds,
    },
    Target {
        name: "virtio",
        about: "a driver that does anything to a virtio device: work is bounded, and a restart mends all",
        run: machine::virtio,
        seeds: machine::seeds,
    },
    Target {
        name: "switch",
        about: "frames between guests: to whom they belong and to nobody else, in order, and none lost but by full queues",
        run: switch::frames,
        seeds: machine::seeds,
    },
    Target {
        name: "cp15",
        about: "sensitive instructions, CP15 above all, in any mode: the interpreter and the virtual CPU's invariants",
        run: vcpu::instructions,
        seeds: vcpu::seeds,
    },
    Target {
        name: "mmu",
        about: "guest tables and registers: the walk, and its faults, against the slow model",
        run: tables::walk,
        seeds: tables::seeds,
    },
    Target {
        name: "translator",
        about: "guest code and registers, translated and untranslated in step",
        run: code::lockstep,
        seeds: code::seeds,
    },
    Target {
        name: "decoder",
        about: "instruction words: decoded, encoded again, and printed",
        run: code::words,
        seeds: code::seeds,
    },
];

/// The target of that name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Runs a target of that name; for the fuzzer, which panics without one.
pub fn run(name: &str, data: &[u8]) {
    let target = target(name).unwrap_or_else(|| panic!("there is no target {name:?}"));
    (target.run)(data);
}
