//! A guest's debugger: what it asks by the monitor ([`spica_console::debug`]), and when it is told that the guest
//! stands.
//!
//! A guest that stands is paused, so its clocks stand still; all others run on. Each question is answered at once, in a
//! bounded time, but for `wait`. What takes longer, to come to the end of a block or to execute an instruction, happens
//! in the guest's own turn ([`crate::vm::debug`]).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use spica_addr::GuestVa;
use spica_console::debug::{Debug, Edges, Heap, Sharing};
use spica_snapshot::{PAGE, STATE_BYTES, sum, unpack};

use super::guest::{Guest, State, Until};
use super::monitor::{After, Answer, Answering};
use super::scheduler::Scheduler;
use crate::vm::Stop;
use crate::vm::debug::Turn;
use crate::vm::sampled::Wanted;
use crate::vm::snapshot::Unkeepable;
use crate::{console, println};

/// See the module's text.
#[derive(Default)]
pub struct Debugger {
    /// The program's name for the question that is answered when the guest stands.
    waiting: Option<String>,
    /// The guest stands for the debugger.
    halted: bool,
    /// It has been asked for an instruction.
    stepped: bool,
    /// A state that is to be put back, as far as it has come.
    staged: Vec<u8>,
    /// The guest's memory is being replaced: it cannot go on.
    replacing: bool,
    /// Its clocks run on while it stands.
    clock_runs: bool,
}

impl Debugger {
    /// Whether the guest stood for the debugger, which it does no more.
    pub fn take_halted(&mut self) -> bool {
        if core::mem::take(&mut self.replacing) {
            console::expect_much(false);
        }
        core::mem::take(&mut self.halted)
    }

    /// Whether the guest cannot go on, because its memory is being replaced.
    pub const fn is_replacing(&self) -> bool {
        self.replacing
    }
}

impl Guest {
    /// It has stood up to now: its clocks did, too, unless its debugger wants otherwise.
    pub(super) fn has_stood(&mut self, now: u64) {
        if let State::Paused { since, .. } = &mut self.state {
            let stood = now - core::mem::replace(since, now);
            if !self.debugger.as_ref().is_some_and(|debugger| debugger.clock_runs) {
                self.vm.was_paused(stood);
            }
        }
    }

    /// It stands between two instructions.
    fn halted(&mut self, now: u64) {
        self.state = State::Paused { since: now, waiting: false };
        match &mut self.debugger {
            Some(debugger) => debugger.halted = true,
            None => println!(
                "spica: guest {}: waits for a debugger (`spica gdb`), or the monitor's `resume {}`",
                self.name(),
                self.name()
            ),
        }
    }

    /// Why it stands.
    fn why_halted(&self, pc: GuestVa) -> String {
        if let Some((kind, address)) = self.vm.watch_hit() {
            return format!("watch {} {address:x}", kind.name());
        }
        if let Some((old, new)) = self.vm.ttbr_caught() {
            return format!("ttbr {old:x} {new:x}");
        }
        match &self.debugger {
            Some(Debugger { stepped: true, .. }) => "step",
            _ if self.vm.stops_at(pc) => "breakpoint",
            _ => "halt",
        }
        .into()
    }

    /// Its debugger.
    ///
    /// # Errors
    /// If it has none.
    fn debugger(&mut self) -> Result<&mut Debugger, String> {
        let problem = format!("nobody debugs {}: `debug {} attach` comes first", self.name(), self.name());
        self.debugger.as_mut().ok_or(problem)
    }

    /// # Errors
    /// If it does not stand for its debugger.
    fn check_halted(&mut self) -> Result<(), String> {
        let halted = self.debugger()?.halted;
        match self.state {
            State::Paused { .. } if halted && self.vm.stands_at().is_some() => Ok(()),
            _ => Err(format!("{} is {}, not halted", self.name(), self.state_name())),
        }
    }

    /// Since when it stands for its debugger, and its memory is being replaced or not.
    ///
    /// # Errors
    /// If that is not so.
    fn check_replacing(&mut self, replacing: bool) -> Result<u64, String> {
        self.check_halted()?;
        let is_replacing = self.debugger()?.replacing;
        match self.state {
            State::Paused { since, .. } if is_replacing == replacing => Ok(since),
            _ if replacing => {
                Err(format!("the memory of {} is not being replaced: `replace` comes first", self.name()))
            }
            _ => Err(format!("the memory of {} is being replaced", self.name())),
        }
    }
}

impl Scheduler {
    /// Does what a debugger wants of guest `at`, whose turn it is. If it is over, why.
    #[cold]
    pub(super) fn debug(&mut self, at: usize) -> Option<Stop> {
        let turn = self.on_behalf(at, |guest, core, host| guest.vm.debug_turn(core, host))?;
        match turn {
            Turn::More | Turn::Goes => None,
            Turn::Stop(stop) => Some(stop),
            Turn::Halted => {
                self.leave();
                let now = self.host.now();
                self.guests[at].halted(now);
                self.tell_debugger(at);
                None
            }
        }
    }

    /// Answers the debugger that waits for guest `at`, if it stands or is off.
    #[cold]
    pub(super) fn tell_debugger(&mut self, at: usize) {
        let guest = &mut self.guests[at];
        let Some(debugger) = &mut guest.debugger else { return };
        let text = match guest.state {
            State::Paused { .. } if debugger.halted => {
                let Some(pc) = guest.vm.stands_at() else { return };
                format!("halted {:x} {}", pc.0, guest.why_halted(pc))
            }
            State::Off(Until::Never | Until::Command) | State::Failed => "off".to_string(),
            _ => return,
        };
        if let Some(id) = guest.debugger.as_mut().and_then(|debugger| debugger.waiting.take()) {
            println!("spica: @{id} {text}");
            println!("spica: @{id} ok");
        }
    }

    /// Answers a debugger of guest `at`.
    ///
    /// # Errors
    /// What does not work, and why.
    pub(super) fn answer_debugger(&mut self, at: usize, debug: &Debug, answer: &Answer<'_>) -> Result<After, String> {
        let Some(id) = answer.0 else { return Err("`debug` is for programs: see `spica gdb --help`".into()) };
        if self.guests[at].state == State::Failed && *debug != Debug::Detach {
            return Err(self.guests[at].failure());
        }
        match debug {
            Debug::Attach => {
                let guest = &mut self.guests[at];
                if guest.debugger.is_some() {
                    return Err(format!("{} has a debugger already", guest.name()));
                }
                let halted = matches!(guest.state, State::Paused { .. }) && guest.vm.stands();
                guest.debugger = Some(Debugger { halted, ..Debugger::default() });
            }
            Debug::Detach => {
                self.guests[at].debugger()?;
                let now = self.host.now();
                self.guests[at].has_stood(now);
                let debugger = self.guests[at].debugger.take().unwrap_or_default();
                if let Some(id) = debugger.waiting {
                    println!("spica: @{id} detached");
                    println!("spica: @{id} ok");
                }
                self.ask_for(at, |guest, core, _| guest.vm.forget_debugger(core))?;
                if debugger.replacing {
                    console::expect_much(false);
                    let half = self.ask_for(at, |guest, core, _| guest.vm.forget_half(core))?;
                    let disks = if half { ", and what it had written to its disks is gone" } else { "" };
                    println!("spica: guest {}: was not restored to the end: it is off{disks}", self.guests[at].name());
                    self.ask_for(at, |guest, _, _| guest.stop())??;
                } else if let State::Paused { .. } = self.guests[at].state {
                    self.resume(at)?;
                }
            }
            Debug::Halt => return self.halt(at).map(|()| After::Stay),
            Debug::Go => {
                self.guests[at].check_replacing(false)?;
                self.guests[at].vm.go_soon();
                self.let_go(at, false)?;
            }
            Debug::Step => {
                self.guests[at].check_replacing(false)?;
                self.guests[at].vm.step_soon();
                self.let_go(at, true)?;
            }
            Debug::Clock { runs } => {
                self.guests[at].debugger()?;
                let now = self.host.now();
                self.guests[at].has_stood(now);
                self.guests[at].debugger()?.clock_runs = *runs;
            }
            Debug::Wait => {
                self.guests[at].debugger()?.waiting = Some(id.to_string());
                self.tell_debugger(at);
                return Ok(After::Later);
            }
            Debug::Registers(group) => {
                self.guests[at].check_halted()?;
                let values = self.ask_for(at, |guest, _, _| guest.vm.registers(*group))?;
                let mut text = "regs".to_string();
                values.iter().try_for_each(|value| write!(text, " {value:x}")).map_err(|_| "no memory")?;
                answer.line(&text);
            }
            Debug::Set(group, n, value) => {
                self.guests[at].check_halted()?;
                self.ask_for(at, |guest, _, _| guest.vm.set_register(*group, *n, *value))??;
            }
            Debug::Read(space, address, bytes) => {
                self.guests[at].check_halted()?;
                let found = self.ask_for(at, |guest, core, _| guest.vm.read_memory(core, *space, *address, *bytes))?;
                if found.is_empty() {
                    return Err(format!("there is no RAM at {address:x}"));
                }
                let mut text = "memory ".to_string();
                found.iter().try_for_each(|byte| write!(text, "{byte:02x}")).map_err(|_| "no memory")?;
                answer.line(&text);
            }
            Debug::Write(space, address, bytes) => {
                self.guests[at].check_halted()?;
                self.ask_for(at, |guest, core, _| guest.vm.write_memory(core, *space, *address, bytes))??;
            }
            Debug::Break(pc, condition) => {
                self.guests[at].check_halted()?;
                self.ask_for(at, |guest, core, _| guest.vm.set_breakpoint(core, GuestVa(*pc), *condition))??;
            }
            Debug::Watch(kind, address, bytes) => {
                self.guests[at].check_halted()?;
                self.ask_for(at, |guest, core, _| guest.vm.set_watch(core, *kind, *address, *bytes))??;
            }
            Debug::Unwatch(kind, address, bytes) => {
                self.guests[at].check_halted()?;
                if !self.ask_for(at, |guest, core, _| guest.vm.clear_watch(core, *kind, *address, *bytes))? {
                    return Err(format!("{address:x} is not watched"));
                }
            }
            Debug::Count(samples) => {
                self.guests[at].check_halted()?;
                let wanted = samples.clone().map(|(every, code)| Wanted { every, code });
                self.ask_for(at, |guest, _, _| guest.vm.start_counting(wanted))??;
            }
            Debug::Uncount => {
                self.guests[at].check_halted()?;
                self.ask_for(at, |guest, _, _| guest.vm.stop_counting())?;
            }
            Debug::Counts => {
                self.guests[at].debugger()?;
                return Ok(After::Answer(Answering::Counts(at, None)));
            }
            Debug::Samples => {
                self.guests[at].debugger()?;
                return Ok(After::Answer(Answering::Samples(at, None)));
            }
            Debug::Heap(Heap::Errors) => {
                self.guests[at].debugger()?;
                for line in self.guests[at].vm.heap_errors() {
                    answer.line(&line);
                }
            }
            Debug::Heap(heap) => {
                self.guests[at].check_halted()?;
                self.ask_for(at, |guest, core, _| guest.vm.say_of_heap(core, *heap))??;
            }
            Debug::Sharing(Sharing::Contexts) => {
                self.guests[at].debugger()?;
                for line in self.guests[at].vm.sharing_contexts() {
                    answer.line(&line);
                }
            }
            Debug::Sharing(Sharing::Lines) => {
                self.guests[at].debugger()?;
                return Ok(After::Answer(Answering::Shared(at, 0)));
            }
            Debug::Sharing(sharing) => {
                self.guests[at].check_halted()?;
                self.ask_for(at, |guest, core, _| guest.vm.say_of_sharing(core, *sharing))??;
            }
            Debug::Edges(Edges::Maps) => {
                self.guests[at].debugger()?;
                for line in self.guests[at].vm.edge_maps() {
                    answer.line(&line);
                }
            }
            Debug::Edges(Edges::Map(map)) => {
                self.guests[at].debugger()?;
                return Ok(After::Answer(Answering::Edges(at, *map, 0)));
            }
            Debug::Edges(edges) => {
                // Where names are turns out while processes run.
                if let Edges::Names(_) = edges {
                    self.guests[at].debugger()?;
                } else {
                    self.guests[at].check_halted()?;
                }
                self.ask_for(at, |guest, core, _| guest.vm.say_of_edges(core, *edges))??;
            }
            Debug::Dump(from, bytes) => {
                return Ok(After::Answer(Answering::Memory(at, *from, *bytes)));
            }
            Debug::Find(from, bytes, pattern) => {
                return Ok(After::Answer(Answering::Find(at, *from, *bytes, pattern.clone())));
            }
            Debug::CatchTtbr(wanted) => {
                self.guests[at].check_halted()?;
                self.ask_for(at, |guest, _, _| guest.vm.catch_ttbr(*wanted))?;
            }
            Debug::UncatchTtbr => {
                self.guests[at].check_halted()?;
                self.ask_for(at, |guest, _, _| guest.vm.uncatch_ttbr())?;
            }
            Debug::Save | Debug::Base(_) | Debug::Pages(..) | Debug::Sums(..) => {
                return self.read_all(at, debug, answer);
            }
            Debug::Stage(..) | Debug::Check | Debug::Replace | Debug::Put(..) | Debug::Blank(..) | Debug::Restore => {
                self.replace(at, debug)?;
            }
            Debug::Clear(pc) => {
                self.guests[at].debugger()?;
                if !self.guests[at].vm.clear_breakpoint(GuestVa(*pc)) {
                    return Err(format!("there is no breakpoint at {pc:x}"));
                }
            }
        }
        Ok(After::Stay)
    }

    /// Answers who reads all of guest `at`, to save it or to find out what is different.
    fn read_all(&mut self, at: usize, debug: &Debug, answer: &Answer<'_>) -> Result<After, String> {
        self.guests[at].check_halted()?;
        Ok(After::Answer(match *debug {
            Debug::Base(disk) => Answering::Base(at, disk, 0),
            Debug::Pages(from, disk) => Answering::Pages((at, disk), from, 0),
            Debug::Sums(from, disk) => Answering::Sums((at, disk), from, 0, Vec::new()),
            _ => {
                let since = self.guests[at].check_replacing(false)?;
                self.host.speak_for(at);
                match self.ask_for(at, |guest, core, host| guest.vm.keep(core, host, since))? {
                    Ok(state) => Answering::State(state, 0),
                    Err(Unkeepable::For(problem)) => return Err(problem),
                    Err(Unkeepable::Yet(slot)) => {
                        answer.line(&format!("busy {slot}"));
                        return Ok(After::Stay);
                    }
                }
            }
        }))
    }

    /// Does what who puts back a snapshot of guest `at` wants.
    fn replace(&mut self, at: usize, debug: &Debug) -> Result<(), String> {
        match debug {
            Debug::Stage(offset, bytes) => {
                self.guests[at].check_halted()?;
                let staged = &mut self.guests[at].debugger()?.staged;
                if *offset == 0 {
                    staged.clear();
                }
                if *offset != staged.len() || offset + bytes.len() > STATE_BYTES {
                    let most = STATE_BYTES >> 10;
                    return Err(format!("a state has {most} KiB at most, and its pieces follow each other"));
                }
                staged.try_reserve(bytes.len()).map_err(|_| "no memory")?;
                staged.extend_from_slice(bytes);
            }
            Debug::Check => {
                self.guests[at].check_replacing(false)?;
                let staged = core::mem::take(&mut self.guests[at].debugger()?.staged);
                let done = self.ask_for(at, |guest, _, host| guest.vm.check_kept(&staged, host));
                self.guests[at].debugger()?.staged = staged;
                done??;
            }
            Debug::Replace => {
                self.guests[at].check_replacing(false)?;
                self.guests[at].debugger()?.replacing = true;
                console::expect_much(true);
                self.ask_for(at, |guest, core, _| guest.vm.begin_replacing(core))?;
            }
            Debug::Put(address, checksum, packed, disk) => {
                self.guests[at].check_replacing(true)?;
                let mut page = [0; PAGE];
                if !unpack(packed, &mut page) || sum(&page) != *checksum {
                    return Err(format!("the page for {address:x} was damaged on its way"));
                }
                self.ask_for(at, |guest, core, _| guest.vm.put_page(core, *disk, *address, &page))??;
            }
            Debug::Blank(address, bytes, disk) => {
                self.guests[at].check_replacing(true)?;
                self.ask_for(at, |guest, core, _| guest.vm.put_blank(core, *disk, *address, *bytes))??;
            }
            _ => {
                let since = self.guests[at].check_replacing(true)?;
                let staged = core::mem::take(&mut self.guests[at].debugger()?.staged);
                self.ask_for(at, |guest, core, host| guest.vm.put_back(core, host, &staged, since))??;
                self.guests[at].debugger()?.replacing = false;
                console::expect_much(false);
            }
        }
        Ok(())
    }

    /// Guest `at` is to stand.
    fn halt(&mut self, at: usize) -> Result<(), String> {
        let guest = &mut self.guests[at];
        let debugger = guest.debugger()?;
        debugger.stepped = false;
        if debugger.halted {
            return Ok(());
        }
        match guest.state {
            State::Ready | State::Waiting if guest.vm.stands() => {
                // Nothing of it is to be in the core.
                self.leave();
                let now = self.host.now();
                self.guests[at].halted(now);
                self.tell_debugger(at);
            }
            State::Ready | State::Waiting => {
                guest.vm.halt_soon();
                guest.state = State::Ready;
            }
            State::Paused { .. } => {
                guest.vm.halt_soon();
                self.resume(at)?;
                self.guests[at].state = State::Ready;
            }
            State::Off(Until::Time(_)) => guest.vm.halt_soon(),
            State::Off(_) | State::Failed => {
                return Err(format!("{} is off: `spica start {}` turns it on", guest.name(), guest.name()));
            }
        }
        Ok(())
    }

    /// Guest `at`, which stood, does what it is to do.
    fn let_go(&mut self, at: usize, stepped: bool) -> Result<(), String> {
        self.resume(at)?;
        let debugger = self.guests[at].debugger()?;
        (debugger.halted, debugger.stepped) = (false, stepped);
        Ok(())
    }
}
