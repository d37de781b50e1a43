//! What a guest got and did, in so few figures that a person reads them, and that a program can ask for them each
//! second.
//!
//! All counters are in [`super::report`]; here, those are added up that mean the same to whoever asks why a guest is
//! slow.

use core::fmt;

use super::{Vm, report};

/// Figures from the scheduler.
const SCHEDULING: usize = 3;
/// Figures from the VM.
const OWN: usize = 16;

/// See the module's text.
pub struct Summary {
    figures: [(&'static str, u64); SCHEDULING + OWN],
    /// What runs its kernel; for people, as it is no figure.
    engine: &'static str,
}

/// As a program gets it: `NAME=VALUE …`.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (name, value)) in self.figures.iter().enumerate() {
            write!(f, "{}{name}={value}", if n == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

impl Summary {
    /// That of a guest, of which the scheduler knows this.
    pub fn new(vm: &Vm, scheduling: [(&'static str, u64); SCHEDULING]) -> Summary {
        let common = &vm.common;
        let (c, counts) = (&common.counters, &vm.vcpu.context.counts);
        let fast = |count: u32| u64::from(count);
        let own: [(&str, u64); OWN] = [
            ("interrupts", c.interrupts + report::interrupts_in_assembly(counts)),
            ("waits", c.waits),
            ("calls", c.user_calls + fast(counts.user_calls)),
            ("undefined", c.undefined + fast(counts.user_undefined)),
            ("aborts", c.guest_aborts + fast(counts.user_aborts)),
            ("fills", c.hidden_faults + report::hidden_faults_in_assembly(counts)),
            ("branches", c.links + c.indirect + c.mirror_misses + fast(counts.jump_hits)),
            ("emulated", c.emulated.iter().sum::<u64>()),
            ("devices", c.mmio),
            ("code", c.code_page_writes + c.code_patches),
            ("host", c.host_interrupts + fast(counts.ticks)),
            ("blocks", common.engine.blocks.translator().stats().translated),
            ("memory", u64::from(vm.ram_bytes())),
            ("given", u64::from(common.ram.absent_count()) * 4096),
            ("tables", vm.vcpu.mmu.tables().usage().0 as u64),
            ("disks", common.devices.overlay_usage().0 as u64),
        ];
        let mut figures = [("", 0); SCHEDULING + OWN];
        figures.iter_mut().zip(scheduling.into_iter().chain(own)).for_each(|(to, figure)| *to = figure);
        Summary { figures, engine: vm.engine_name() }
    }

    fn get(&self, name: &str) -> u64 {
        self.figures.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value)
    }

    /// As a person gets it, line by line; `passed` are ticks since the board's start.
    pub fn tell(&self, name: &str, state: &str, passed: u64, out: &mut dyn FnMut(fmt::Arguments<'_>)) {
        let permille = self.get("ran") * 1000 / passed.max(1);
        let mib = |name: &str| self.get(name) >> 20;
        out(format_args!(
            "{name}: {state}, {}.{} % of the processor since the board's start",
            permille / 10,
            permille % 10
        ));
        out(format_args!(
            "  {} interrupts, {} system calls; {} waits, {} wakes, {} switches to it",
            self.get("interrupts"),
            self.get("calls"),
            self.get("waits"),
            self.get("wakes"),
            self.get("switches")
        ));
        out(format_args!(
            "  faults: {} its own, {} of shadow tables, {} undefined instructions",
            self.get("aborts"),
            self.get("fills"),
            self.get("undefined")
        ));
        out(format_args!(
            "  traps: {} instructions, {} branches, {} device accesses, {} writes to code, {} interrupts of the board",
            self.get("emulated"),
            self.get("branches"),
            self.get("devices"),
            self.get("code"),
            self.get("host")
        ));
        out(format_args!(
            "  memory: {} MiB, {} MiB of it given back; {} KiB of tables, {} MiB of changes to disks",
            mib("memory"),
            mib("given"),
            self.get("tables") >> 10,
            mib("disks")
        ));
        out(format_args!("  engine: {}; {} blocks translated", self.engine, self.get("blocks")));
    }
}
