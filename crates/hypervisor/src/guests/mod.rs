//! From the bundle to running guests: the hypervisor's main job, once the platform is up.

pub mod debug;
pub mod guest;
pub mod monitor;
pub mod scheduler;

use alloc::vec::Vec;
use core::fmt::Display;

use spica_bundle::image::Kind;
use spica_bundle::{Bundle, Engine, GuestSpec, Kernel, KernelBase, Start};
use spica_console::consoles::Consoles;

use crate::host::Host;
use crate::host::disks::Disks;
use crate::host::networks::{CARD_BYTES, Networks};
use crate::host::pending::PendingSlots;
use crate::host::uplink::Uplink;
use crate::host_cpu::{HostCpu, HostSpace};
use crate::memory::{device, host_space, lending, phys, stacks};
use crate::platform::{BOARD, Platform};
use crate::vm::Vm;
use crate::vm::boot::Image;
use crate::vm::devices::{Devices, fw_cfg_bytes};
use crate::vm::disk_room::{self, LENT_MOST};
use crate::vm::load::Sizes;
use crate::vm::mmu::LONG_RECORDS;
use guest::Guest;
use scheduler::Scheduler;
use spica_options::{InPlace, Options};
use spica_sched::RunQueue;
use spica_switches::later::Later;

use crate::{arch, console, contain, fault, panic, papers, print, println};

/// Boots the guests of the bundle, and stays with them until they are off. Says what went wrong otherwise.
pub fn run(platform: &Platform) -> ! {
    // Interrupts are taken by polling from here on, and while a guest runs: hypervisor code is never interrupted.
    arch::interrupts::mask();
    // From here on the hypervisor region is copied into the guests' tables: no device may be added to it.
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
    let initrd = platform.initrd.filter(|span| !span.is_empty()).ok_or_else(|| {
        Problem::from("no guest at all: the board's initrd must hold a bundle, as `spica run` makes it")
    })?;
    // SAFETY: `platform` keeps the initrd's memory from being handed out, and nobody writes to it.
    let bytes: &'static [u8] = unsafe { phys::slice(spica_addr::HostPa(initrd.start as u32), initrd.len() as u32) };
    let bundle = Bundle::parse(bytes).map_err(|error| alloc::format!("{error}"))?;
    papers::check(&platform.options, bundle.guests().len())?;
    let board = BOARD.with(Option::take).ok_or_else(|| Problem::from("the board's devices are in use"))?;
    let names = bundle.guests().iter().map(|spec| spec.name.clone());
    let mut host = Host::new(board, platform.options.time, Consoles::new(names));
    contain::set_names(bundle.guests().iter().map(|spec| spec.name.clone()).collect());
    if platform.options.faults {
        fault::allow();
    }
    let queue = RunQueue::new(host.ticks(scheduler::SLICE), host.now());
    let mut core = HostCpu::new(host_space::tables(platform.image), queue);
    let host_space = core.enter_host_space();
    let mut guests = make(host_space, &bundle, &platform.options, &mut host)?;
    // Now, so that no guest begins with less of the processor's time to its credit than its neighbours.
    guests.iter_mut().for_each(|guest| guest.vm.clear(host_space));
    let mut scheduler = Scheduler::new(guests, core, host, platform.options.stats);
    if platform.options.trace {
        scheduler.start_trace(false, None)?;
    }
    console::start_buffer();
    scheduler.run();
    console::finish(&mut scheduler.host.consoles);
    scheduler.host.flush_disks()
}

/// What a guest's file was taken for, where that is not the usual.
fn say_what_starts(spec: &GuestSpec<'_>) {
    let name = &spec.name;
    match &spec.start {
        Start::Kernel(Kernel::ZImage(_)) => {}
        Start::Kernel(Kernel::Fixed(kernel)) => {
            let article = if kernel.kind == Kind::Elf { "an" } else { "a" };
            let (kind, entry) = (kernel.kind, kernel.entry & !1);
            let state = if kernel.entry & 1 != 0 { " in Thumb state" } else { "" };
            println!("spica: guest {name}: its kernel is {article} {kind}, and starts at {entry:#010x}{state}");
        }
        Start::Firmware { banks: [first, second], kernel } => {
            let (first, second) = (first.len(), second.len());
            print!("spica: guest {name}: starts from flash, with {first} bytes in it and {second} in the second bank");
            match kernel {
                Some(kernel) => println!(", and finds a kernel of {} bytes in fw_cfg", kernel.len()),
                None => println!(),
            }
        }
    }
}

/// How a guest's kernel runs in place, if it does. From when on, only the command line says.
fn in_place(spec: &GuestSpec<'_>, options: &Options) -> Option<InPlace> {
    match spec.options.engine {
        Some(Engine::Blocks) => None,
        Some(Engine::InPlace(base)) => {
            let usual = options.in_place.unwrap_or(InPlace::ANYWHERE);
            Some(InPlace { base: base.map(KernelBase::address).or(usual.base), ..usual })
        }
        None => options.in_place,
    }
}

/// More than a guest's share of the hypervisor's memory ever is.
const SHARE_MOST: u32 = 24 << 20;

/// Makes the guests. Their shares of the hypervisor's memory come first: the tables of each hold all of them. Then
/// comes the memory of all guests, which must be in one piece each, and then what can be written to their disks.
fn make(
    host_space: HostSpace<'_>,
    bundle: &Bundle<'static>,
    options: &Options,
    host: &mut Host,
) -> Result<Vec<Guest>, Problem> {
    let specs = bundle.guests();
    let sizes = |spec: &GuestSpec<'_>| Sizes::linux(specs.len(), spec.memory_bytes, in_place(spec, options));
    let problem = |spec: &GuestSpec<'_>, error: &dyn Display| alloc::format!("guest {}: {error}", spec.name);
    let taken: u64 = specs.iter().map(|spec| u64::from(spec.memory_bytes) + u64::from(SHARE_MOST)).sum();
    // An upper bound, for the size of the records: in the end, pieces count.
    let most = disk_room::overlay_share(specs, taken);
    let lends = specs.iter().any(|spec| spec.options.balloon);
    let mut shares = Vec::new();
    let tracked = papers::record_bytes(options);
    for spec in specs {
        let cards = spec.options.networks.len() as u32 * CARD_BYTES;
        // Three bits for each page of its RAM that it may give.
        let balloon = if spec.options.balloon { spec.memory_bytes / 4096 } else { 0 };
        let long = if matches!(spec.start, Start::Firmware { .. }) { LONG_RECORDS } else { 0 };
        let fw_cfg = fw_cfg_bytes(spec);
        let records = fw_cfg + long + cards + disk_room::overlay_records(spec, most, lends) + balloon + tracked;
        shares.push(sizes(spec).share(spec.memory_bytes, records).map_err(|error| problem(spec, &error))?);
    }
    let mut memories = Vec::new();
    for spec in specs {
        memories.push(Vm::memory(spec).map_err(|error| problem(spec, &error))?);
    }
    if !stacks::make(specs.len()) {
        return Err("the board has no memory left for Spica's stacks".into());
    }
    if options.trace {
        host.reserve_trace();
    }
    if lends {
        lending::open(disk_room::overlays(specs) * LENT_MOST);
    }
    let uplink = match bundle.uplink() {
        Some(name) => Some((name, Uplink::start(host.board())?)),
        None => None,
    };
    host.networks = Networks::new(specs, uplink);
    host.disks = Disks::start(host.board(), specs)?;
    // Last, for it is all that is left.
    let overlay = disk_room::overlay_share(specs, 0).min(most).min(options.overlay);
    host.pending = PendingSlots::new(specs.len());
    let mut guests = Vec::new();
    for (at, ((spec, share), ram)) in specs.iter().zip(shares).zip(memories).enumerate() {
        let devices = Devices::new(spec, at, host, overlay).map_err(|error| problem(spec, &error))?;
        host.balloons.extend(devices.balloon().map(|slot| (at, slot)));
        host.terminals.extend(devices.console().map(|slot| (at, slot)));
        let switches = options.boot_switches.unwrap_or(options.switches);
        say_what_starts(spec);
        let image = Image::new(host_space, spec, spec.memory_bytes).map_err(|error| problem(spec, &error))?;
        let mut vm = Vm::create(spec, ram, switches, sizes(spec), share, devices, host)
            .map_err(|error| problem(spec, &error))?;
        vm.load(&image, true);
        vm.set_tracking(options);
        if options.boot_switches.is_some() {
            vm.set_later(Later::new(options.switches, &options.boot_until));
        }
        if options.halt {
            vm.halt_soon();
        }
        if options.digest {
            let (kernel, len) = vm.kernel(&image);
            print!("spica: guest {}: kernel of {len} bytes in its RAM at {kernel}, SHA-256 ", spec.name);
            vm.kernel_digest(host_space, &image).iter().for_each(|byte| print!("{byte:02x}"));
            println!();
        }
        guests.push(Guest::new(vm, image, &spec.options, host));
    }
    Ok(guests)
}
