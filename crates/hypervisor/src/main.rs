//! Spica's board image: what runs below the virtual machines.
//!
//! The platform: [`boot`] brings the machine from the boot loader's hands to Rust, [`memory`] and [`arch`] are the
//! processor and its memory, [`board`] lends both to the drivers of devices, [`console`] is how it talks, [`vectors`]
//! what happens when the hypervisor itself is interrupted or wrong. Guests run on top of that.
#![no_std]
#![no_main]

extern crate alloc;

pub mod arch;
mod assemble;
pub mod board;
pub mod boot;
pub mod console;
pub mod contain;
pub mod engine;
pub mod fault;
pub mod guests;
pub mod host;
pub mod host_cpu;
pub mod layout;
pub mod machine;
pub mod memory;
pub mod panic;
#[cfg_attr(not(feature = "papers"), path = "papers/absent.rs")]
pub mod papers;
mod parts;
pub mod platform;
pub mod selftest;
pub mod vectors;
pub mod vm;
pub mod world;

// What their code is for: see parts.rs.
parts::part!(arch: other);
parts::part!(board: devices);
parts::part!(boot: other, "start: bundle, device tree, boot");
parts::part!(console: other);
parts::part!(contain: other);
parts::part!(engine: translator);
parts::part!(fault: other);
parts::part!(guests: scheduler);
parts::part!(host: devices);
parts::part!(host_cpu: slow);
parts::part!(layout: other);
parts::part!(main: other, "start: bundle, device tree, boot");
parts::part!(memory: other);
parts::part!(panic: other);
parts::part!(platform: other, "start: bundle, device tree, boot");
parts::part!(selftest: other, "start: bundle, device tree, boot");
parts::part!(vectors: other);
parts::part!(vm: slow);
parts::part!(world: slow);

/// The whole life of the hypervisor.
fn main(handover: boot::Handover) -> ! {
    let platform = platform::bring_up(handover);
    println!("{platform}");
    // A condition, so that the compiler leaves out what follows, for which the image has no room, and does not call it
    // unused.
    #[cfg(feature = "check-fast-paths")]
    if cfg!(feature = "check-fast-paths") {
        vm::check::run(&platform);
    }
    for word in &platform.options.unknown {
        log::warn!("{word} on the command line means nothing to Spica");
    }
    if platform.options.selftest {
        selftest::run(&platform);
    }
    guests::run(&platform)
}
