//! From the bundle to running guests: the hypervisor's main job, once the platform is up.

use spica_bundle::{Bundle, GuestSpec};

use crate::cmdline::Options;
use crate::host::Host;
use crate::memory::{device, home, phys};
use crate::platform::{BOARD, Platform};
use crate::vm::load::Sizes;
use crate::vm::{Stop, Vm, report};
use crate::world::space;
use crate::{arch, panic, print, println};

/// Boots the guest of the bundle, and stays with it until it is off. Says what went wrong otherwise.
pub fn run(platform: &Platform) -> ! {
    // Interrupts are taken by polling from here on, and while a guest runs: hypervisor code is never interrupted.
    arch::interrupts::mask();
    space::start_at(home::table(platform.image));
    // From here on the hole is copied into the guests' tables: no device may be added to it.
    device::seal();
    match boot(platform) {
        Ok(()) => {}
        Err(problem) => println!("spica: error: {problem}"),
    }
    println!("spica: board halted");
    panic::halt()
}

/// What the user is told if there is no guest to run.
type Problem = alloc::string::String;

fn boot(platform: &Platform) -> Result<(), Problem> {
    let initrd = platform.info.initrd.filter(|span| !span.is_empty()).ok_or_else(|| {
        Problem::from("no guest at all: the board's initrd must hold a bundle, as `spica run` makes it")
    })?;
    // SAFETY: `platform` keeps the initrd's memory from being handed out, and nobody writes to it.
    let bytes: &'static [u8] = unsafe { phys::slice(spica_addr::HostPa(initrd.start as u32), initrd.len() as u32) };
    let bundle = Bundle::parse(bytes).map_err(|error| alloc::format!("{error}"))?;
    let guests = bundle.guests();
    let [spec] = guests else {
        return Err(alloc::format!("manifest.toml: {} guests; this version runs one at a time", guests.len()));
    };
    let board = BOARD.with(Option::take).ok_or_else(|| Problem::from("the board's devices are in use"))?;
    let mut host = Host::new(board, platform.options.time);
    run_guest(spec, &platform.options, &mut host).map_err(|error| alloc::format!("guest {}: {error}", spec.name))
}

fn run_guest(spec: &GuestSpec<'static>, options: &Options, host: &mut Host) -> Result<(), Problem> {
    let text = |error: &dyn core::fmt::Display| alloc::format!("{error}");
    let (mut vm, image) = Vm::create(spec, options.translation, Sizes::LINUX, host).map_err(|error| text(&error))?;
    if options.digest {
        let (kernel, len) = vm.kernel(&image);
        print!("spica: guest {}: kernel of {len} bytes in its RAM at {kernel}, SHA-256 ", spec.name);
        vm.kernel_digest(&image).iter().for_each(|byte| print!("{byte:02x}"));
        println!();
    }
    loop {
        let stop = vm.run(host);
        if stop != Stop::Reset {
            report::print(&vm, &stop);
            if options.stats {
                report::stats(&vm);
            }
            return Ok(());
        }
        println!("spica: guest {}: restarted", spec.name);
        vm.reboot(&image, host).map_err(|error| text(&error))?;
    }
}
