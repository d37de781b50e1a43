//! Which edges of its kernel's control flow each of a guest's processes has taken ([`spica_dbt::edges`]).
//!
//! A map belongs to all processes of one name, as Linux has it in their `task_struct`: who feeds a kernel what it does
//! not expect does so by a program of which there are many processes. The kernel tells which one runs where it switches
//! to it, and of its name where it gets one, which is when it becomes another program. What interrupts do is in a map
//! of its own, so that when they come does not matter to the others; where a handler returns, the process goes on with
//! the last place that it had.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use spica_addr::GuestVa;
use spica_console::debug::{EDGE_BYTES, Edges as Said, NAME_BYTES, Place};
use spica_dbt::checks::MARKS;
use spica_dbt::edges::{CURRENT, LAST, MAP, MAPS};
use spica_sharing::Processes;

use super::{Checker, Client, Handler, Hooks, NOT_PREPARED, PAGE, View};
use crate::host_cpu::{HostCpu, HostSpace};
use crate::vm::Vm;

/// Maps: of interrupts, of all processes that have none of their own, and of so many names.
const MOST_MAPS: usize = 64;
const INTERRUPTS: usize = 0;
const OTHERS: usize = 1;
const FIRST_NAME: usize = 2;
/// Pages in front of the maps that translated code reads, and does not write to; and all of both.
pub(super) const READ_ONLY_PAGES: u32 = 1;
pub(super) const PAGES: u32 = (MAPS - MARKS + MOST_MAPS as u32 * MAP) / PAGE;
/// Edges in a piece of an answer, and bytes of a map that are looked at for it.
const PIECE: usize = spica_console::trace::PIECE_BYTES / EDGE_BYTES;
const LOOKS: usize = 0x4000;

/// What a process is called: 15 bytes at most, and a 0.
type Name = [u8; NAME_BYTES];

/// See the module's text.
pub struct Known {
    hooks: Hooks<Place>,
    /// The processes that have run, as long as it is looked for where their names are; then where these are in a
    /// `task_struct`.
    seen: Processes,
    names_at: Option<u32>,
    /// Those that have maps, from [`FIRST_NAME`] on.
    names: Vec<Name>,
    /// No others get maps.
    fixed: bool,
    current: usize,
    interrupt: Handler,
    /// The last place of the process that it has interrupted.
    last: u32,
    switches: u32,
}

/// The word of the memory that translated code has at `va`.
const fn word_of(va: u32) -> usize {
    ((va - MARKS) / 4) as usize
}

impl Known {
    /// Memory for it is there, and blank.
    pub(super) fn begin(&self, words: &mut [u32]) {
        put_in_force(words, self.current);
    }

    /// The guest is at the place of this number, which may be forged.
    pub(super) fn at(&mut self, view: &View<'_>, words: &mut [u32], number: u8) {
        let Some(place) = self.hooks.get(number) else { return };
        let regs = &view.vm.vcpu.context.cpu.regs;
        let sp = regs[13];
        match place {
            Place::Switch(register) => {
                let Some(&task) = regs.get(usize::from(register)) else { return };
                self.interrupt = Handler::default();
                self.switches = self.switches.saturating_add(1);
                self.runs(view, task);
                words[word_of(LAST)] = 0;
                put_in_force(words, self.current);
            }
            Place::Interrupt => {
                if self.interrupt.begins(sp) {
                    self.last = core::mem::take(&mut words[word_of(LAST)]);
                    put_in_force(words, INTERRUPTS);
                }
            }
            Place::Return(popped) => {
                if self.interrupt.ends(sp, popped) {
                    words[word_of(LAST)] = self.last;
                    put_in_force(words, self.current);
                }
            }
            Place::Named => {
                let [task, name, ..] = *regs;
                if self.names_at.is_some() && !self.interrupt.runs() && task == running(view) {
                    self.current = self.map_of(name_at(view, name));
                    put_in_force(words, self.current);
                }
            }
        }
    }

    /// A process runs from now on.
    fn runs(&mut self, view: &View<'_>, task: u32) {
        self.current = match self.names_at {
            Some(at) => self.map_of(name_at(view, task.wrapping_add(at))),
            None => {
                self.seen.context(task);
                OTHERS
            }
        };
    }

    /// The map of the processes that are called so.
    fn map_of(&mut self, name: Name) -> usize {
        if let Some(number) = self.names.iter().position(|known| *known == name) {
            return FIRST_NAME + number;
        }
        if self.fixed || !self.add(name) { OTHERS } else { FIRST_NAME + self.names.len() - 1 }
    }

    /// One more name gets a map. False if there is no room.
    fn add(&mut self, name: Name) -> bool {
        let room = self.names.len() < MOST_MAPS - FIRST_NAME && self.names.try_reserve(1).is_ok();
        if room {
            self.names.push(name);
        }
        room
    }
}

/// Edges that are taken from now on are counted in this map.
fn put_in_force(words: &mut [u32], map: usize) {
    words[word_of(CURRENT)] = MAPS + map as u32 * MAP;
}

/// The process that runs: Linux has it in TPIDRURO.
fn running(view: &View<'_>) -> u32 {
    view.vm.vcpu.context.cpu.page.tpidruro
}

/// The name at a virtual address: what is behind its end does not matter.
fn name_at(view: &View<'_>, va: u32) -> Name {
    let mut name = [0; NAME_BYTES];
    for (n, byte) in (0..).zip(name.iter_mut().take(NAME_BYTES - 1)) {
        let at = va.wrapping_add(n);
        match view.word(at & !3).unwrap_or(0).to_le_bytes()[at as usize & 3] {
            0 => break,
            other => *byte = other,
        }
    }
    name
}

impl Checker {
    /// The edges that are counted, with the memory of their maps.
    fn edges<'a>(&'a mut self, host_space: HostSpace<'a>, ram: u32) -> Option<(&'a mut Known, &'a mut [u32])> {
        let (words, _) = self.client.parts(ram, self.memory.as_mut()?.words_mut(host_space));
        match &mut self.client {
            Client::Edges(known) => Some((known, words)),
            Client::Heap(_) | Client::Sharing(_) => None,
        }
    }
}

impl Vm {
    /// Does what is said of whose edges are counted, and how. The guest stands.
    ///
    /// # Errors
    /// If that cannot be.
    pub fn say_of_edges(&mut self, core: &mut HostCpu, said: Said) -> Result<(), &'static str> {
        match said {
            Said::Begin(base) => {
                let known = Known {
                    hooks: Hooks::new()?,
                    seen: Processes::default(),
                    names_at: None,
                    names: Vec::new(),
                    fixed: false,
                    current: OTHERS,
                    interrupt: Handler::default(),
                    last: 0,
                    switches: 0,
                };
                self.prepare_checking(base, Client::Edges(Box::new(known)))?;
            }
            Said::At(pc, place) => {
                let checker = self.common.checker.as_mut().ok_or(NOT_PREPARED)?;
                let (Client::Edges(known), Some(checks)) = (&mut checker.client, &mut checker.checks) else {
                    return Err(NOT_PREPARED);
                };
                known.hooks.add(checks, pc, place)?;
            }
            Said::Skip(from, to) => {
                let checker = self.common.checker.as_mut().ok_or(NOT_PREPARED)?;
                let checks = checker.checks.as_mut().ok_or(NOT_PREPARED)?;
                if !checks.skip(GuestVa(from), GuestVa(to)) {
                    return Err("there are too many ranges");
                }
            }
            Said::Only(name) => {
                let checker = self.common.checker.as_mut().ok_or(NOT_PREPARED)?;
                let Client::Edges(known) = &mut checker.client else { return Err(NOT_PREPARED) };
                known.fixed = true;
                if !known.names.contains(&name) && !known.add(name) {
                    return Err("there are too many names");
                }
            }
            Said::On => self.start_checking(core)?,
            Said::Names(at) => self.tell_edges_apart(core, at)?,
            Said::Off => self.stop_checking(),
            Said::Maps | Said::Map(_) => {}
        }
        Ok(())
    }

    /// It is known where processes have their names, so that each gets its own map from now on.
    fn tell_edges_apart(&mut self, core: &mut HostCpu, at: u32) -> Result<(), &'static str> {
        let host_space = core.enter_host_space();
        let mut checker = self.common.checker.take().ok_or(NOT_PREPARED)?;
        let done = match checker.edges(host_space, self.common.ram.size()) {
            Some((known, _)) if known.names_at.is_some() => Err("that is known already"),
            Some((known, words)) => {
                known.names_at = Some(at);
                // No other map has been in force by now.
                words[word_of(MAPS)..word_of(MAPS + FIRST_NAME as u32 * MAP)].fill(0);
                words[word_of(LAST)] = 0;
                let base = checker.base;
                let view = View { vm: self, ram: &self.common.ram, host_space, base };
                // Which one it is until the next switch.
                if let Some((known, words)) = checker.edges(host_space, self.common.ram.size()) {
                    known.runs(&view, running(&view));
                    if !known.interrupt.runs() {
                        put_in_force(words, known.current);
                    }
                }
                Ok(())
            }
            None => Err(NOT_PREPARED),
        };
        self.common.checker = Some(checker);
        done
    }

    /// Which maps there are: [`Said::Maps`].
    pub fn edge_maps(&self) -> Vec<String> {
        let Some(checker) = &self.common.checker else { return Vec::new() };
        let Client::Edges(known) = &checker.client else { return Vec::new() };
        let is_on = u32::from(self.common.engine.blocks.checks());
        let first = format!("edges {is_on} {}", known.switches);
        let seen = known.seen.iter().filter(|_| known.names_at.is_none()).map(|(_, task)| format!("task {task:x}"));
        let named = (FIRST_NAME..).zip(&known.names).map(|(map, name)| {
            let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("map {map:x} {name}")
        });
        core::iter::once(first).chain(seen).chain(named).collect()
    }

    /// Some of the edges of a map, from number `from` on, and where to go on: [`Said::Map`].
    pub fn edges_of(&mut self, core: &mut HostCpu, map: usize, from: usize) -> (Vec<u8>, Option<usize>) {
        let ram = self.common.ram.size();
        let mut piece = Vec::with_capacity(PIECE * EDGE_BYTES);
        let Some(checker) = &mut self.common.checker else { return (piece, None) };
        let Some((_, words)) = checker.edges(core.enter_host_space(), ram) else { return (piece, None) };
        let first = word_of(MAPS) + map.min(MOST_MAPS) * (MAP / 4) as usize;
        let map = words.get(first..first + (MAP / 4) as usize).unwrap_or_default();
        let end = (from + LOOKS).min(MAP as usize);
        for edge in from..end {
            let Some(word) = map.get(edge / 4) else { return (piece, None) };
            let count = word.to_le_bytes()[edge % 4];
            if count != 0 {
                piece.extend_from_slice(&(edge as u16).to_le_bytes());
                piece.push(count);
                if piece.len() == PIECE * EDGE_BYTES {
                    return (piece, Some(edge + 1));
                }
            }
        }
        (piece, (end < MAP as usize).then_some(end))
    }
}
