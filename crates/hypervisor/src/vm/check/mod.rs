//! The trap handlers in assembly (`world/fast.s`, `faults.s`, `undefined.s`) against those in Rust (feature
//! `check-fast-paths`).
//!
//! There are two virtual machines that are alike. In one, the handlers in assembly answer what they can; in the other,
//! each trap comes to Rust (`world/to_rust.s`). A *session* gives both the same random tables, and has both run the
//! same random programs, one after the other: first one machine the whole session, and what its guest could see is
//! noted at the end of each step; then the other, and what differs is a mistake of the one or the other. Behind each
//! step, the shadow tables and the real registers are looked at, too: they may have more or fewer entries than in the
//! other machine, but none that the guest's tables do not allow.
//!
//! What a session does is decided by its number alone. `spica prove` boots the image with numbers of its own
//! (`crates/prove/src/board/fast_paths.rs`).

mod memory;
mod program;
mod random;
mod state;
mod tables;

use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

use spica_addr::{CachePc, GuestVa};
use spica_bundle::GuestSpec;
use spica_console::consoles::Consoles;
use spica_dbt::{Capacity, trap as number};
use spica_sched::RunQueue;
use spica_vcpu::cp15::{SCTLR_A, SCTLR_M, SCTLR_V};
use spica_vcpu::psr;

use self::memory::Layout;
use self::program::{Kind, Program};
use self::random::Random;
use self::state::{End, Seen};
use super::boot::Image;
use super::devices::Devices;
use super::load::Sizes;
use super::{Resume, Vm, regime};
use crate::arch::cp15::{Dfar, Dfsr, IdPfr1, Ifar, Ifsr, SysRegRead};
use crate::arch::interrupts;
use crate::engine::Engine;
use crate::engine::code::Room;
use crate::host::Host;
use crate::host_cpu::HostCpu;
use crate::layout::MEGABYTE;
use crate::machine::GuestMachine;
use crate::memory::{device, host_space};
use crate::panic;
use crate::platform::{BOARD, Platform};
use crate::println;
use crate::vm::trap::{self, Answer};
use crate::world::{Privilege, Trap};

/// Steps of a session.
const STEPS: u32 = 48;
/// Programs that they choose from.
const PROGRAMS: u32 = 20;
const _: () = assert!(PROGRAMS <= memory::PROGRAM_SLOTS);
/// A step that has more traps does not end.
const MOST_TRAPS: u32 = 4000;
/// The longest time for a step, in microseconds. An ordinary one takes a thousandth of it.
const LONGEST: u32 = 1_000_000;
/// Ticks of the guest's counter by which an interrupt of its timer is late at most: a tenth of a second.
const LATE: u64 = 6_250_000;
/// So many traps of a step are told.
const TOLD: u32 = 40;

const SIZES: Sizes = Sizes {
    room: Room { code: 64, mirror: 32, near: 0 },
    capacity: Capacity { blocks: 2048, exits: 8192, mirror_pages: 32 },
    table_bytes: MEGABYTE / 2,
    spaces: 12,
    in_place: None,
};

/// Who answers what can be answered in assembly.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Assembly,
    Rust,
}

/// Which sessions are to run.
struct Sessions {
    first: u32,
    count: u32,
    /// Of the last one, so many steps; the traps of the last of them are told.
    steps: Option<u32>,
    /// And these not.
    without: Vec<u32>,
}

impl Sessions {
    /// What the command line asks for: `spica.sessions=FIRST+COUNT`, `spica.steps=N`, `spica.without=STEP,STEP`.
    fn asked_for(words: &[String]) -> Option<Sessions> {
        let value = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let (first, count) = value("spica.sessions")?.split_once('+')?;
        let without = value("spica.without").map(|list| list.split(',').flat_map(str::parse).collect());
        Some(Sessions {
            first: first.parse().ok()?,
            count: count.parse().ok()?,
            steps: value("spica.steps").and_then(|n| n.parse().ok()),
            without: without.unwrap_or_default(),
        })
    }
}

/// A virtual machine, and which way it takes.
struct Machine {
    vm: Vm,
    image: Image,
    way: Way,
}

/// What a session's number decides for all of its steps.
struct Plan {
    number: u32,
    layout: Layout,
    kind: Kind,
    vfp: bool,
    alignment: bool,
    /// In Rust, ordinary aborts take the fast path there.
    fast_aborts: bool,
    /// The step whose traps are told.
    told: Option<u32>,
}

impl Plan {
    fn new(number: u32) -> Plan {
        let mut random = Random::new(number, 0);
        Plan {
            number,
            layout: Layout { high_vectors: random.one_in(2) },
            kind: Kind {
                hostile: random.one_in(8),
                calm: !random.one_in(3),
                frequency: random.one_in(2),
                favourites: memory::favourites(&mut random),
            },
            vfp: !random.one_in(4),
            // Drawn in any case, so that a number means the same session on each board.
            alignment: random.one_in(4) && checks_alignment(),
            fast_aborts: random.one_in(2),
            told: None,
        }
    }
}

/// Whether SCTLR.A of this machine is heeded in User mode. QEMU looks at the Non-secure bank's there, so in Secure
/// state (a core with the Security Extensions, ID_PFR1 bits 7:4) the bit that Spica sets has no effect, and whether a
/// store of user code is aligned would decide which way it takes.
fn checks_alignment() -> bool {
    IdPfr1::read_raw() >> 4 & 0xf == 0
}

/// A zImage by its header, which is all that is ever looked at.
fn kernel() -> &'static [u8] {
    let mut words = [0u32; 16];
    // Magic, start, end.
    (words[9], words[11]) = (0x016f_2818, 64);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.leak()
}

/// Runs the sessions, says what came of them, and halts the board.
///
/// # Panics
/// If the command line does not ask for any.
pub fn run(platform: &Platform) -> ! {
    interrupts::mask();
    let Some(sessions) = Sessions::asked_for(&platform.options.unknown) else {
        panic!("this image compares handlers, and wants spica.sessions=FIRST+COUNT")
    };
    device::seal();
    let Some(board) = BOARD.with(Option::take) else { panic!("the board's devices are in use") };
    let names = ["assembly", "rust"];
    let mut host = Host::new(board, 0, Consoles::new(names.map(String::from)));
    // Nobody takes turns.
    let queue = RunQueue::new(0, host.now());
    let mut core = HostCpu::new(host_space::tables(platform.image), queue);
    let shares = names.map(|_| SIZES.share(memory::RAM_BYTES, 0).unwrap_or_else(|error| panic!("{error}")));
    let mut shares = shares.into_iter();
    let mut machines = names.map(|name| {
        let spec = GuestSpec::new(name, kernel(), memory::RAM_BYTES);
        let Some(share) = shares.next() else { panic!("as many shares as guests") };
        let devices = Devices::new(&spec, 0, &mut host, 0).unwrap_or_else(|error| panic!("{error}"));
        let ram = Vm::memory(&spec).unwrap_or_else(|error| panic!("{error}"));
        let switches = platform.options.switches;
        let image =
            Image::new(core.enter_host_space(), &spec, memory::RAM_BYTES).unwrap_or_else(|error| panic!("{error}"));
        let mut vm = Vm::create(&spec, ram, switches, SIZES, share, devices, &mut host)
            .unwrap_or_else(|error| panic!("{error}"));
        vm.load(&image, true);
        vm.vcpu.mmu.set_tracking(&platform.options);
        let way = if name == "rust" { Way::Rust } else { Way::Assembly };
        if way == Way::Rust {
            vm.vcpu.context.leave_to_rust();
        }
        Machine { vm, image, way }
    });
    let mut steps = 0;
    for number in sessions.first..sessions.first.saturating_add(sessions.count) {
        let last = number + 1 == sessions.first + sessions.count;
        let (most, without) = if last { (sessions.steps, &*sessions.without) } else { (None, &[][..]) };
        let plan = Plan { told: most.map(|most| most.saturating_sub(1)), ..Plan::new(number) };
        let most = most.unwrap_or(STEPS);
        let chosen: Vec<u32> = (0..most).filter(|step| !without.contains(step)).collect();
        match session(&mut machines, &mut core, &mut host, &plan, &chosen) {
            Ok(done) => steps += done,
            Err(problem) => {
                println!("check: FAILED in session {number}: {problem}\ncheck: done");
                panic::halt();
            }
        }
    }
    let context = &machines[0].vm.vcpu.context;
    println!(
        "check: {} sessions, {steps} steps; jumps {}, calls {}, kernel-returns {}, aborts {}, fills {}, undefined {}, \
         vfp-turns {}, tlb-pages {}, lines {}, counters {}, timers {}, spaces {}, \
         interrupts {}, alarms {}, modes {}, masks {}, unmasked {}, patches {}",
        sessions.count,
        context.counts.jump_hits,
        context.counts.user_calls,
        context.counts.kernel_returns,
        context.counts.user_aborts,
        context.counts.user_fills,
        context.counts.user_undefined,
        context.counts.vfp_turns,
        context.counts.tlb_pages,
        // What only the other machine has seen in Rust.
        machines[1].vm.common.counters.lines.saturating_sub(machines[0].vm.common.counters.lines),
        context.counts.counter_reads,
        context.counts.timer_accesses,
        context.counts.space_switches,
        context.counts.interrupt_accesses,
        context.counts.alarms,
        context.counts.mode_changes,
        context.counts.masks_kept,
        context.counts.unmasked,
        context.counts.patches
    );
    println!("check: done");
    panic::halt()
}

/// A session with both machines; how many steps it had.
fn session(
    machines: &mut [Machine; 2],
    core: &mut HostCpu,
    host: &mut Host,
    plan: &Plan,
    steps: &[u32],
) -> Result<u32, String> {
    let mut noted: Vec<Seen> = vec![];
    // Of RAM outside of the area, if a machine came to the session's end.
    let mut elsewhere = [None; 2];
    for (machine, elsewhere) in machines.iter_mut().zip(&mut elsewhere) {
        set_up(machine, core, host, plan);
        let way = machine.way;
        let vm = &mut machine.vm;
        let mut steps = steps.iter();
        let mut at = 0;
        let outcome = loop {
            let Some(&step) = steps.next() else {
                *elsewhere = Some(memory::sum_elsewhere(core.enter_host_space(), vm));
                break Ok(());
            };
            let (end, program) = match self::step(vm, core, host, plan, step, way) {
                Ok(done) => done,
                Err((problem, program)) => break Err(described(plan, step, way, &problem, &program)),
            };
            // From here on they may differ. The other machine came upon it if this one goes farther.
            if matches!(end, End::Loop | End::Clock) || way == Way::Rust && noted.len() == at {
                break Ok(());
            }
            if way == Way::Assembly {
                noted.push(state::seen(vm, core.enter_host_space(), end));
            } else if !plan.kind.hostile
                && let Err(problem) = state::compare(vm, core.enter_host_space(), end, &noted[at])
            {
                break Err(described(plan, step, way, &problem, &program));
            }
            at += 1;
            if !matches!(end, End::At(_)) {
                break Ok(());
            }
        };
        machine.vm.vcpu.depart(core);
        outcome?;
    }
    let [answered, reference] = elsewhere;
    if !plan.kind.hostile && answered.is_some() && reference.is_some() && answered != reference {
        return Err(format!("step {STEPS} (rust): memory outside of the area"));
    }
    // Nothing of a session may matter to the next one: here is something that only one machine has.
    memory::leave_a_trace(core.enter_host_space(), &mut machines[1].vm);
    Ok(noted.len() as u32)
}

/// What a report of a step says.
fn described(plan: &Plan, step: u32, way: Way, problem: &str, program: &Program) -> String {
    let which = if way == Way::Assembly { "assembly" } else { "rust" };
    let mut text = format!("step {step} ({which}): {problem}\ncheck: acts {:?}", program.acts);
    text += &format!(
        "\ncheck: hostile {}, vfp {}, alignment {}, high vectors {}, fast aborts {}",
        plan.kind.hostile, plan.vfp, plan.alignment, plan.layout.high_vectors, plan.fast_aborts
    );
    for (va, words) in [(program.va, &program.words), (program.user_pa, &program.user)] {
        text += &format!("\ncheck: {va:#010x}:");
        words.iter().for_each(|word| text += &format!(" {word:08x}"));
    }
    text
}

/// The machine as a session begins.
fn set_up(machine: &mut Machine, core: &mut HostCpu, host: &mut Host, plan: &Plan) {
    let Machine { vm, image, .. } = machine;
    // All of RAM is cleared: programs reach what is outside of the area, too, and a session that was cut short by the
    // clock in one machine alone has left other things there.
    vm.reboot(image, true, core, host);
    while !vm.load_on(core, host) {}
    memory::lay_out(core.enter_host_space(), vm, &mut Random::new(plan.number, 1), &program::vectors());
    let cp15 = &mut vm.vcpu.context.cpu.cp15;
    let switch = |on: bool, bit: u32| if on { bit } else { 0 };
    cp15.sctlr |= SCTLR_M | switch(plan.layout.high_vectors, SCTLR_V) | switch(plan.alignment, SCTLR_A);
    cp15.vbar = memory::vector_base(plan.layout);
    cp15.ttbr0 = memory::ttbr0(0);
    cp15.contextidr = memory::asids(0)[0];
    cp15.dacr = 0x5555_5555;
    cp15.cpacr = switch(plan.vfp, 0xf << 20);
    vm.vcpu.context.cpu.show();
    if vm.common.engine.set_vfp(plan.vfp) {
        vm.vcpu.mmu.unprotect_all_code_pages();
    }
    state::enable_interrupts(vm, host);
    if plan.kind.frequency {
        state::permit_counters(vm, host);
    }
    vm.vcpu.arrive();
    vm.show_time(host);
    vm.regime_changed(core).unwrap_or_else(|stop| panic!("{stop}"));
}

type Step = Result<(End, Program), (String, Program)>;

/// One step.
fn step(vm: &mut Vm, core: &mut HostCpu, host: &mut Host, plan: &Plan, step: u32, way: Way) -> Step {
    let mut random = Random::new(plan.number, 2 + step);
    let slot = random.below(PROGRAMS);
    let mut own = Random::new(plan.number, 1 << 16 | slot);
    let mode = state::any_mode(&mut own);
    let program = program::write(&mut own, slot, plan.kind, mode);
    let host_space = core.enter_host_space();
    for (pa, words) in [(program.pa, &program.words), (program.user_pa, &program.user)] {
        if !memory::holds(host_space, vm, pa, words) {
            memory::write(host_space, vm, pa, words);
        }
    }
    state::begin(vm, &mut random, mode);
    // One that is interrupted between the change of a descriptor and its maintenance may go either way.
    if random.one_in(6) && !program.acts.iter().any(|act| act.starts_with("edit")) {
        state::interrupt(vm, host);
    }
    let fast_aborts = way == Way::Assembly || plan.fast_aborts;
    let begun = host.guest_now(vm.common.start);
    let how = How { fast_aborts, hostile: plan.kind.hostile, told: plan.told == Some(step) };
    let late = host.now() + host.ticks(LONGEST);
    host.set_limit(Some(late));
    vm.common.arm_timer(&mut vm.vcpu.context.timer, host);
    let done = go(vm, core, host, GuestVa(program.va), late, how);
    host.set_limit(None);
    let missed = vm.common.machine.next_deadline().is_some_and(|at| at + LATE < host.guest_now(vm.common.start));
    state::stop_timers(vm, host, begun);
    state::take_interrupt(vm, host);
    let end = match done {
        Ok(end @ End::At(_)) => end,
        // It ran on until the limit, and a deadline of the guest's was long before.
        Ok(End::Loop) if missed => {
            return Err(("a timer's interrupt did not come".into(), program));
        }
        Ok(End::Endless) if !plan.kind.hostile => return Err((format!("{MOST_TRAPS} traps, and no end"), program)),
        Ok(end) => return Ok((end, program)),
        Err(problem) => return Err((problem, program)),
    };
    let hostile = plan.kind.hostile;
    let counted = if hostile { Ok(()) } else { state::check_counter(vm, host, begun) };
    let checked = counted
        .and_then(|()| tables::check_views(vm, hostile))
        .and_then(|()| tables::check(vm, core.enter_host_space(), hostile));
    match checked {
        Ok(()) => Ok((end, program)),
        Err(problem) => Err((problem, program)),
    }
}

/// How a step is run.
#[derive(Clone, Copy)]
struct How {
    fast_aborts: bool,
    hostile: bool,
    told: bool,
}

/// Lets the guest go on from `at` until it comes to an SMC, up to host time `late` or a bit more: what `Vm::run` does,
/// with a look at the core at each trap.
fn go(vm: &mut Vm, core: &mut HostCpu, host: &mut Host, at: GuestVa, late: u64, how: How) -> Result<End, String> {
    let mut resume = Resume::Guest(at);
    let mut traps = 0;
    let mut course = Course::default();
    loop {
        // Nobody else is here to be let in between.
        while !match vm.work_off(core, host) {
            Ok(done) => done,
            Err(stop) => return Ok(End::Stop(stop)),
        } {}
        course.note(resume);
        let mut privilege = match vm.resume(core, resume) {
            Ok(privilege) => privilege,
            Err(stop) => return Ok(End::Stop(stop)),
        };
        if !vm.is_settled() {
            resume = vm.vcpu.unresumed(privilege);
            continue;
        }
        resume = loop {
            traps += 1;
            if traps > MOST_TRAPS {
                return Ok(if course.is_straight() { End::Loop } else { End::Endless });
            }
            vm.vcpu.mmu.catch_up_spaces();
            vm.vcpu.context.set_entries(privilege, &mut vm.common.engine, &vm.common.switches);
            vm.common.engine.mend(vm.vcpu.context.cpu.page);
            vm.offer(privilege);
            let (trap, left) = vm.vcpu.context.enter(privilege);
            vm.arrived(core, host, left);
            if how.told && traps < TOLD {
                let (pc, status) =
                    (vm.vcpu.context.cpu.pc, [Dfsr::read_raw(), Dfar::read_raw(), Ifsr::read_raw(), Ifar::read_raw()]);
                println!("check: {trap:?} from {left:?} at {pc:#x}, DFSR, DFAR, IFSR, IFAR {status:x?}");
            }
            tables::check_core(vm, left, how.hostile)?;
            if trap == Trap::Irq && host.now() >= late {
                host.serve_interrupts();
                return Ok(End::Loop);
            }
            if (trap, left) == (Trap::Undefined, Privilege::User) && reads_counter(vm, core) {
                return Ok(End::Clock);
            }
            if let Some(pc) = end(vm, left, trap) {
                return Ok(trap::catch_up(vm, core).map_or_else(End::Stop, |()| End::At(pc)));
            }
            let answer = if how.fast_aborts { trap::at_once(vm, core, host, left, trap) } else { Answer::None };
            match answer {
                Answer::Enter(next) if vm.is_settled() => privilege = next,
                Answer::Enter(next) => break vm.vcpu.unresumed(next),
                Answer::Resume(resume) => break resume,
                Answer::None => break trap::handle(vm, core, host, left, trap),
            }
        };
    }
}

/// Where a step's kernel code goes. A word of data that a store has made a branch leads behind all code, and from there
/// through memory that is all 0, which does nothing: each block is a trap, and there is no end, but nothing is stuck.
#[derive(Default)]
struct Course {
    last: u32,
    /// So many times in a row, farther on than before.
    ahead: u32,
}

impl Course {
    fn note(&mut self, resume: Resume) {
        let (Resume::Guest(at) | Resume::Led(at, _)) = resume else {
            return;
        };
        self.ahead = if at.0 > self.last { self.ahead + 1 } else { 0 };
        self.last = at.0;
    }

    /// Whether most of a step's traps were of a kernel that ran straight on.
    fn is_straight(&self) -> bool {
        self.ahead > MOST_TRAPS / 2
    }
}

/// Whether the instruction of user code that is undefined reads the generic timer's counter: MRRC of CNTPCT or CNTVCT
/// (B4.1.30, B4.1.34), which has the same bits in both instruction sets (A6.3.18).
fn reads_counter(vm: &mut Vm, core: &mut HostCpu) -> bool {
    let cpu = &vm.vcpu.context.cpu;
    let thumb = cpu.psr & psr::T != 0;
    let pc = GuestVa(cpu.pc.wrapping_sub(if thumb { 2 } else { 4 }));
    let regime = regime(cpu);
    let host_space = core.enter_host_space();
    let half = |at: GuestVa| {
        let mapping = spica_mmu::lookup(&vm.common.ram.at(host_space), &regime, at).ok()?;
        vm.common.ram.load(host_space, mapping.pa, 2)
    };
    let (Some(first), Some(second)) = (half(pc), half(pc.wrapping_add(2))) else { return false };
    let word = if thumb { first << 16 | second } else { second << 16 | first };
    word & 0x0ff0_0fef == 0x0c50_0f0e
}

/// Where in the guest's code the SMC is that a trap is for.
fn end(vm: &mut Vm, privilege: Privilege, trap: Trap) -> Option<GuestVa> {
    if (trap, privilege) != (Trap::SupervisorCall, Privilege::Kernel) {
        return None;
    }
    let behind = CachePc(vm.vcpu.context.cpu.pc);
    let engine = &mut vm.common.engine;
    let word = engine.word(CachePc(behind.0.wrapping_sub(4)))?;
    let literal = engine.word(behind)?;
    if number::number(word) != number::EMULATE || literal & !0xf != program::smc(0) {
        return None;
    }
    engine.word(behind.wrapping_add(4)).map(GuestVa)
}
