//! Who uses which lines of a guest's memory ([`spica_sharing`]): its processes, its interrupts, and its devices.
//!
//! Its kernel tells which process runs where it switches from one to another, and of interrupts where their handler
//! begins and returns. Devices are asked where they reach the guest's RAM
//! ([`Common::serve`](crate::vm::Common::serve)), of which each line that they use is noted.
//!
//! Memory for it is a fortieth part of the guest's RAM at most. What is done at a switch, and at the beginning and the
//! end of an interrupt, is bounded by the lines that are open ([`spica_sharing::MOST_OPEN`]), and what is done for a
//! device by the device's budget.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use spica_console::debug::{Place, Sharing as Said};
use spica_sharing::{Context, Lines, Processes, Shared, State, Use};

use super::{Access, Checker, Client, Handler, Hooks, NOT_PREPARED, View};
use crate::host_cpu::{HostCpu, HostSpace};
use crate::vm::Vm;

/// Lines of an answer that are written in one go, and pieces of the table that are looked at for that.
const LINES_AT_ONCE: usize = 8;
const LOOKS: usize = 8;

/// See the module's text.
pub struct Known {
    hooks: Hooks<Place>,
    state: State,
    processes: Processes,
    interrupt: Handler,
    /// How often there was another process.
    switches: u32,
}

impl Known {
    /// Memory for it is there.
    pub(super) fn begin(&mut self, ram: u32, words: &mut [u32]) {
        // It is as much as was asked for.
        let _ = Lines::new(ram, words, &mut self.state);
    }

    /// The guest is at the place of this number, which may be forged.
    pub(super) fn at(&mut self, view: &View<'_>, words: &mut [u32], number: u8) {
        let Some(place) = self.hooks.get(number) else { return };
        let Some(mut lines) = Lines::over(view.ram.size(), words, &mut self.state) else { return };
        let regs = &view.vm.vcpu.context.cpu.regs;
        let sp = regs[13];
        match place {
            Place::Switch(register) => {
                let Some(&task) = regs.get(usize::from(register)) else { return };
                self.interrupt = Handler::default();
                self.switches = self.switches.saturating_add(1);
                lines.enter(Some(self.processes.context(task)));
            }
            // One that interrupts another one is the same context.
            Place::Interrupt => {
                if self.interrupt.begins(sp) {
                    lines.interrupt();
                }
            }
            Place::Return(words) => {
                if self.interrupt.ends(sp, words) {
                    lines.resume();
                }
            }
            Place::Named => {}
        }
    }

    /// Something is accessed whose line's mark is set.
    pub(super) fn accessed(&mut self, base: u32, ram: u32, words: &mut [u32], access: &Access) {
        let &Access { pc, address, what } = access;
        let offset = address.wrapping_sub(base);
        // The marks are found by the low bits of an address, which may be one of another memory.
        if offset < ram
            && let Some(mut lines) = Lines::over(ram, words, &mut self.state)
        {
            let done = Use { reads: !what.write, writes: what.write || what.exclusive };
            lines.accessed(offset, what.bytes, done, pc);
        }
    }
}

impl Known {
    /// The lines of a guest with so much RAM.
    pub(super) fn lines<'a>(&'a mut self, ram: u32, words: &'a mut [u32]) -> Option<Lines<'a>> {
        Lines::over(ram, words, &mut self.state)
    }
}

impl Checker {
    /// The same, if it is noted who uses them.
    fn lines<'a>(&'a mut self, host_space: HostSpace<'a>, ram: u32) -> Option<Lines<'a>> {
        let (words, _) = self.client.parts(ram, self.memory.as_mut()?.words_mut(host_space));
        match &mut self.client {
            Client::Sharing(known) => known.lines(ram, words),
            Client::Heap(_) | Client::Edges(_) => None,
        }
    }
}

impl Vm {
    /// Does what is said of who uses its memory. The guest stands.
    ///
    /// # Errors
    /// If that cannot be.
    pub fn say_of_sharing(&mut self, core: &mut HostCpu, said: Said) -> Result<(), &'static str> {
        match said {
            Said::Begin(base) => {
                let known = Known {
                    hooks: Hooks::new()?,
                    state: State::default(),
                    processes: Processes::default(),
                    interrupt: Handler::default(),
                    switches: 0,
                };
                self.prepare_checking(base, Client::Sharing(Box::new(known)))?;
            }
            Said::At(pc, place) => {
                let checker = self.common.checker.as_mut().ok_or(NOT_PREPARED)?;
                let (Client::Sharing(known), Some(checks)) = (&mut checker.client, &mut checker.checks) else {
                    return Err(NOT_PREPARED);
                };
                known.hooks.add(checks, pc, place)?;
            }
            Said::On => self.start_checking(core)?,
            Said::Off => self.stop_checking(),
            Said::Contexts | Said::Lines => {}
        }
        Ok(())
    }

    /// Who uses its memory: [`Said::Contexts`].
    pub fn sharing_contexts(&self) -> Vec<String> {
        let Some(checker) = &self.common.checker else { return Vec::new() };
        let Client::Sharing(known) = &checker.client else { return Vec::new() };
        let (is_on, looked) = (u32::from(self.common.engine.blocks.checks()), checker.looked);
        let first = format!("sharing {is_on} {looked} {} {}", known.switches, known.state.lost());
        let line = |(context, task): (Context, u32)| format!("context {:x} {task:x}", context.number());
        core::iter::once(first).chain(known.processes.iter().map(line)).collect()
    }

    /// Some of the lines that several use, from number `from` on, and where to go on: [`Said::Lines`].
    pub fn shared_lines(&mut self, core: &mut HostCpu, from: usize) -> (Vec<String>, Option<usize>) {
        let ram = self.common.ram.size();
        let (mut text, mut next) = (Vec::new(), Some(from));
        let Some(checker) = &mut self.common.checker else { return (text, None) };
        let base = checker.base;
        let Some(lines) = checker.lines(core.enter_host_space(), ram) else { return (text, None) };
        for _ in 0..LOOKS {
            let Some(from) = next.filter(|_| text.len() < LINES_AT_ONCE) else { break };
            let (found, behind) = lines.next(from);
            text.extend(found.map(|shared| describe(base, &shared)));
            next = behind;
        }
        (text, next)
    }
}

fn describe(base: u32, shared: &Shared) -> String {
    let mut text = format!("line {:x}", base.wrapping_add(shared.offset));
    for user in shared.users() {
        let ways = match (user.reads, user.writes) {
            (false, _) => "w",
            (true, false) => "r",
            (true, true) => "rw",
        };
        let (context, turns) = (user.context.number(), user.turns);
        // There is always room in a string, or none for anything.
        let _ = write!(text, " {context:x} {ways} {turns:x} {:x} {:x}", user.load, user.store);
    }
    text
}
