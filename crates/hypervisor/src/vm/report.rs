//! The report: what a VM did and where it stands, for its end and for the escape key. A guest that prints nothing can
//! be diagnosed from it.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use super::backtrace::{Backtrace, Frame};
use super::counters::Class;
use super::{Stop, Vm};
use crate::engine::Engine;
use crate::layout::{REGION_SIZE, REGION_START};
use crate::println;
use crate::world::Counts;
use spica_addr::GuestVa;

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::PowerOff => write!(f, "powered off"),
            Stop::Reset => write!(f, "reset"),
            Stop::Debugger => write!(f, "halted for a debugger"),
            Stop::BigEndianKernel => {
                write!(f, "stopped: its kernel switched to big-endian data, which is not supported")
            }
            Stop::ExceptionLoop => write!(f, "stopped: its exception vectors fault themselves, endlessly"),
            Stop::WildJump(pc) => write!(f, "stopped: it ran astray in the code cache, at {pc:#010x}"),
            Stop::RegionMapped(va) => {
                write!(
                    f,
                    "stopped: it uses {va}, where the hypervisor lives ({REGION_START:#010x} to {:#010x})",
                    REGION_START + REGION_SIZE
                )
            }
            Stop::OutOfTables => write!(f, "stopped: no memory for its shadow tables"),
            Stop::BadAbort { fsr, far } => write!(f, "stopped: abort with status {fsr:#x} at {far:#010x}"),
        }
    }
}

/// More than a report takes on the console together with all counters of its VM, each line marked as an answer to a
/// program.
pub const BYTES: usize = 24 * 1024;

/// Lines that are printed in one go while guests run: some 50,000 instructions.
const PIECE: usize = 10;
/// More than these take on the console.
pub const PIECE_BYTES: usize = 2048;

/// The lines of a piece of a text, by number.
pub struct Piece {
    from: usize,
    /// Lines that have come by.
    lines: usize,
}

impl Piece {
    /// The lines from number `from` on.
    pub fn new(from: usize) -> Piece {
        Piece { from, lines: 0 }
    }

    /// Prints the next line of the text, marked as ours, if it is one of the piece. What is not printed is not made
    /// into text.
    pub fn line(&mut self, line: fmt::Arguments<'_>) {
        if (self.from..self.end()).contains(&self.lines) {
            println!("spica: {line}");
        }
        self.lines += 1;
    }

    /// The first line behind it.
    pub fn end(&self) -> usize {
        self.from + PIECE
    }

    /// Whether there was a line behind it.
    pub fn has_more(&self) -> bool {
        self.lines > self.end()
    }
}

/// Gives the report to `out`, line by line. Not made part of whoever asks: code has a megabyte.
#[inline(never)]
pub fn write(vm: &Vm, why: &dyn fmt::Display, out: &mut dyn FnMut(fmt::Arguments<'_>)) {
    macro_rules! say {
        ($($argument:tt)*) => { out(format_args!($($argument)*)) };
    }
    let context = &vm.vcpu.context;
    let cpu = &context.cpu;
    let common = &vm.common;
    let c = &common.counters;
    say!("guest {}: {why}", common.name);
    let real = spica_addr::CachePc(cpu.pc);
    let block = common.engine.code_at(real).map(|code| common.engine.source(code).0);
    match block {
        Some(va) => {
            say!("  pc in the block of {va} (code cache {real}), cpsr {:#010x}, {:?} mode", cpu.cpsr(), cpu.mode())
        }
        None => say!("  pc {:#010x}, cpsr {:#010x}, {:?} mode", cpu.pc, cpu.cpsr(), cpu.mode()),
    }
    for (at, five) in cpu.regs.chunks(5).enumerate() {
        say!("  r{:<2} {five:08x?}", 5 * at);
    }
    let s = &cpu.cp15;
    say!(
        "  sctlr {:08x} ttbr0 {:08x} ttbr1 {:08x} ttbcr {:x} dacr {:08x} contextidr {:08x}",
        s.sctlr,
        s.ttbr0,
        s.ttbr1,
        s.ttbcr,
        s.dacr,
        s.contextidr
    );
    say!("  dfsr {:x} dfar {:08x} ifsr {:x} ifar {:08x} spsr {:08x}", s.dfsr, s.dfar, s.ifsr, s.ifar, cpu.page.spsr);
    for line in format!("{}", common.machine).lines() {
        say!("  {}", line.trim_end());
    }
    say!("  traps, emulated instructions:");
    for class in Class::ALL {
        let count = c.emulated[class as usize];
        if count != 0 {
            say!("    {:<18} {count}", class.name());
        }
    }
    say!(
        "  traps, branches: {} direct not linked, {} indirect missed, {} indirect hit, {} not in the return mirror",
        c.links,
        c.indirect,
        context.counts.jump_hits,
        c.mirror_misses
    );
    say!(
        "  traps, others: {} system calls, {} undefined, {} hidden faults, {} guest aborts, {} MMIO, \
         {} writes to code, {} words of it patched",
        c.user_calls + u64::from(context.counts.user_calls),
        c.undefined + u64::from(context.counts.user_undefined),
        c.hidden_faults + hidden_faults_in_assembly(&context.counts),
        c.guest_aborts + u64::from(context.counts.user_aborts),
        c.mmio,
        c.code_page_writes,
        c.code_patches
    );
    say!(
        "  {} host interrupts, {} delivered, {} waits, {} VFP switches, {} resets",
        c.host_interrupts + u64::from(context.counts.ticks),
        c.interrupts + interrupts_in_assembly(&context.counts),
        c.waits,
        c.vfp_switches + u64::from(context.counts.vfp_turns),
        c.resets
    );
    let t = common.engine.blocks.translator().stats();
    let (blocks, exits, pages) = common.engine.blocks.translator().in_use();
    say!(
        "  code cache: {} blocks ({} instructions) translated, {} links, {} unlinks, {} dropped, {} flushes, \
         {} preemptive ones",
        t.translated,
        t.instructions,
        t.links,
        t.unlinks,
        t.dropped,
        t.flushes,
        c.preemptive_flushes
    );
    say!(
        "  code cache now: {blocks} blocks, {exits} exits, {pages} of {} pages",
        common.engine.blocks.translator().layout().pages
    );
    if let Some(twins) = common.engine.twins() {
        let ((pages, room), (whole, begun)) = (twins.usage(), twins.regions());
        say!("  in place: {pages} of {room} pages, {} made; {whole} of {begun} pieces of 64 KiB whole", c.twins);
    }
    let mirror = common.engine.blocks.translator().mirror();
    let (mirror_pages, taken) = mirror.usage();
    if let Some(window) = mirror.window() {
        say!(
            "  return mirror: of {} on, moved {} times; {mirror_pages} pages, {taken} taken from another use",
            GuestVa(window.start),
            c.mirror_moves
        );
    }
    let m = vm.vcpu.mmu.shadow().stats();
    let (used, total) = vm.vcpu.mmu.tables().usage();
    say!(
        "  shadow tables: {} spaces, {} KiB of {} KiB; {} section fills, {} page fills; maintenance {} all, {} page, {} ASID",
        m.spaces_live,
        used >> 10,
        total >> 10,
        m.section_fills,
        m.page_fills + u64::from(context.counts.user_fills),
        m.invalidate_all,
        m.invalidate_page,
        m.invalidate_asid
    );
    say!("  memory beyond the guest's RAM: {} KiB", common.overhead >> 10);
}

/// What comes last in a report: where the guest's kernel was called from, and what the guest did. Each line with an
/// address begins with four spaces, and with that of code: whoever has the kernel's names can put them there.
#[inline(never)]
pub fn write_past(vm: &Vm, backtrace: &Backtrace, out: &mut dyn FnMut(fmt::Arguments<'_>)) {
    macro_rules! say {
        ($($argument:tt)*) => { out(format_args!($($argument)*)) };
    }
    if backtrace.kernel {
        say!("  called from, by what is on its stack; ? may be left over:");
        say!("    {:08x}", backtrace.pc.0);
        for Frame { address, called, stale } in backtrace.frames() {
            let mark = if *stale { "? " } else { "" };
            match called {
                Some(called) => say!("    {:08x} {mark}calls {:08x}", address.0, called.0),
                None => say!("    {:08x} {mark}calls by a register", address.0),
            }
        }
    } else {
        say!("  in user code:");
        say!("    {:08x}", backtrace.pc.0);
    }
    let events = &vm.vcpu.events;
    if vm.vcpu.is_in_loop()
        && let Some(first) = events.first_of(vm.vcpu.nested)
    {
        say!("  the first of the exceptions in a row:");
        say!("    {first}");
    }
    say!("  what it did last, the latest at the end:");
    for event in events.lines() {
        say!("    {event}");
    }
}

/// Aborts that the guest has not seen, and Rust has not either.
pub fn hidden_faults_in_assembly(counts: &Counts) -> u64 {
    u64::from(counts.user_fills) + u64::from(counts.patches)
}

/// Interrupts that the guest has taken without Rust.
pub fn interrupts_in_assembly(counts: &Counts) -> u64 {
    u64::from(counts.ticks) + u64::from(counts.unmasked)
}

/// Every counter, by a name that programs know.
pub fn counters(vm: &Vm) -> impl Iterator<Item = (String, u64)> {
    let common = &vm.common;
    let c = &common.counters;
    let emulated = Class::ALL.into_iter();
    let emulated = emulated.map(|class| (format!("trap.emulated.{}", class.key()), c.emulated[class as usize]));
    let t = common.engine.blocks.translator().stats();
    let m = vm.vcpu.mmu.shadow().stats();
    let (blocks, exits, pages) = common.engine.blocks.translator().in_use();
    let (mirror_pages, mirror_taken) = common.engine.blocks.translator().mirror().usage();
    let rows: [(&str, u64); 61] = [
        ("trap.branch.unlinked", c.links),
        ("trap.branch.indirect-miss", c.indirect),
        ("trap.branch.indirect-hit", vm.vcpu.context.counts.jump_hits.into()),
        ("trap.branch.mirror-miss", c.mirror_misses),
        ("trap.system-call", c.user_calls + u64::from(vm.vcpu.context.counts.user_calls)),
        ("trap.fast.user-call", vm.vcpu.context.counts.user_calls.into()),
        ("trap.undefined", c.undefined + u64::from(vm.vcpu.context.counts.user_undefined)),
        ("trap.fast.user-undefined", vm.vcpu.context.counts.user_undefined.into()),
        ("trap.hidden-fault", c.hidden_faults + hidden_faults_in_assembly(&vm.vcpu.context.counts)),
        ("trap.fast.patch", vm.vcpu.context.counts.patches.into()),
        ("trap.fast.user-fill", vm.vcpu.context.counts.user_fills.into()),
        ("trap.lazy-opening", c.lazy_openings),
        ("trap.guest-abort", c.guest_aborts + u64::from(vm.vcpu.context.counts.user_aborts)),
        ("trap.fast.user-abort", vm.vcpu.context.counts.user_aborts.into()),
        ("trap.mmio", c.mmio + u64::from(vm.vcpu.context.counts.interrupt_accesses)),
        ("trap.code-page-write", c.code_page_writes),
        ("trap.code-patch", c.code_patches),
        ("in-place.twins", c.twins),
        ("in-place.unfit-pages", c.unfit_pages),
        ("trap.host-interrupt", c.host_interrupts + u64::from(vm.vcpu.context.counts.ticks)),
        ("trap.fast.tick", vm.vcpu.context.counts.ticks.into()),
        ("trap.fast.unmasked", vm.vcpu.context.counts.unmasked.into()),
        ("guest.interrupts", c.interrupts + interrupts_in_assembly(&vm.vcpu.context.counts)),
        ("guest.waits", c.waits),
        ("guest.vfp-switches", c.vfp_switches + u64::from(vm.vcpu.context.counts.vfp_turns)),
        ("guest.resets", c.resets),
        ("translator.blocks", t.translated),
        ("translator.instructions", t.instructions),
        ("translator.links", t.links),
        ("translator.unlinks", t.unlinks),
        ("translator.dropped", t.dropped),
        ("translator.flushes", t.flushes),
        ("translator.preemptive-flushes", c.preemptive_flushes),
        ("translator.blocks-now", blocks as u64),
        ("translator.exits-now", exits as u64),
        ("translator.pages-now", pages as u64),
        ("translator.guest-pages-now", common.engine.blocks.translator().guest_pages() as u64),
        ("translator.mirror-pages", mirror_pages as u64),
        ("translator.mirror-pages-taken", mirror_taken),
        ("translator.mirror-moves", c.mirror_moves),
        ("mmu.section-fills", m.section_fills),
        ("mmu.page-fills", m.page_fills + u64::from(vm.vcpu.context.counts.user_fills)),
        ("mmu.invalidate-all", m.invalidate_all),
        ("mmu.invalidate-page", m.invalidate_page + u64::from(vm.vcpu.context.counts.tlb_pages)),
        ("trap.fast.tlb-page", vm.vcpu.context.counts.tlb_pages.into()),
        ("trap.clean-line", c.lines),
        ("trap.fast.space-switch", vm.vcpu.context.counts.space_switches.into()),
        ("trap.fast.counter", vm.vcpu.context.counts.counter_reads.into()),
        ("trap.fast.timer", vm.vcpu.context.counts.timer_accesses.into()),
        ("trap.fast.mode-change", vm.vcpu.context.counts.mode_changes.into()),
        ("trap.fast.mask", vm.vcpu.context.counts.masks_kept.into()),
        ("trap.fast.alarm", vm.vcpu.context.counts.alarms.into()),
        ("trap.fast.interrupt-controller", vm.vcpu.context.counts.interrupt_accesses.into()),
        ("mmu.invalidate-asid", m.invalidate_asid),
        ("mmu.spaces-created", m.spaces_created),
        ("mmu.spaces-evicted", m.spaces_evicted),
        ("memory.given-bytes", u64::from(common.ram.absent_count()) * 4096),
        ("memory.disk-bytes", common.devices.overlay_usage().0 as u64),
        ("memory.disk-room-bytes", common.devices.overlay_usage().1 as u64),
        ("memory.table-bytes", vm.vcpu.mmu.tables().usage().0 as u64),
        ("memory.overhead-bytes", common.overhead.into()),
    ];
    emulated.chain(rows.into_iter().map(|(name, value)| (name.to_string(), value)))
}
