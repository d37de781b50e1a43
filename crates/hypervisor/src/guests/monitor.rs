//! The monitor: what is typed goes to the selected guest, or asks for something (see [`super::command`]).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::command::{BACKSPACE, Command, HELP, Lines, Request, Typed};
use super::consoles::View;
use super::guest::{Guest, State};
use super::plain::plain;
use super::scheduler::Scheduler;
use crate::layout::MEGABYTE;
use crate::memory::{heap, lending};
use crate::vm::report;
use crate::{console, println};

/// See the module's text.
#[derive(Default)]
pub struct Monitor {
    lines: Lines,
}

/// An answer: lines for a person, or lines behind `@ID` for a program.
struct Answer<'a>(Option<&'a str>);

impl Answer<'_> {
    fn line(&self, line: &str) {
        self.text("", line);
    }

    /// A line that programs find behind `mark`.
    fn text(&self, mark: &str, line: impl fmt::Display) {
        match self.0 {
            Some(id) => println!("spica: @{id} {mark}{line}"),
            None => println!("spica: {line}"),
        }
    }
}

fn prompt() {
    console::write(b"\r\nspica> ");
}

impl Monitor {
    /// Looks at all that was typed. False if that is nothing.
    pub fn listen(&mut self, scheduler: &mut Scheduler) -> bool {
        let mut typed = false;
        while let Some(byte) = scheduler.host.next_typed() {
            typed = true;
            match self.lines.typed(byte) {
                Typed::Guest(byte) => {
                    scheduler.host.consoles.release(&mut console::write);
                    scheduler.host.consoles.typed(byte);
                }
                Typed::Opened => {
                    scheduler.host.consoles.hold(&mut console::write);
                    prompt();
                }
                Typed::Part(None) => {}
                Typed::Part(Some(BACKSPACE)) => console::write(b"\x08 \x08"),
                Typed::Part(Some(byte)) => console::write(&[byte]),
                Typed::Line(request) => self.answer(&request, scheduler),
            }
        }
        typed
    }

    fn answer(&mut self, request: &Request, scheduler: &mut Scheduler) {
        let answer = Answer(request.id.as_deref());
        let result = match &request.command {
            Ok(command) => obey(command, scheduler, &answer),
            Err(problem) => Err(problem.clone()),
        };
        if request.id.is_some() {
            match result {
                Ok(_) => answer.line("ok"),
                Err(problem) => answer.line(&format!("error {problem}")),
            }
            return;
        }
        match result {
            Ok(After::Leave) => {
                console::write(b"\r\n");
                scheduler.host.consoles.release(&mut console::write);
                return;
            }
            Ok(After::Stay) => {}
            Err(problem) => answer.line(&problem),
        }
        self.lines.reopen();
        prompt();
    }
}

/// Whether a person goes on typing to the monitor.
enum After {
    Stay,
    Leave,
}

/// The guest of that name or number.
fn find(scheduler: &Scheduler, who: &str) -> Result<usize, String> {
    let by_name = scheduler.guests.iter().position(|guest| guest.name() == who);
    let by_number = || who.parse().ok().filter(|&at: &usize| at < scheduler.guests.len());
    by_name.or_else(by_number).ok_or_else(|| {
        let names: Vec<&str> = scheduler.guests.iter().map(|guest| guest.name()).collect();
        format!("no guest `{who}`: there are {}", names.join(", "))
    })
}

/// The guest of that name or number, or all.
fn find_all(scheduler: &Scheduler, who: Option<&String>) -> Result<core::ops::Range<usize>, String> {
    match who {
        Some(who) => find(scheduler, who).map(|at| at..at + 1),
        None => Ok(0..scheduler.guests.len()),
    }
}

fn obey(command: &Command, scheduler: &mut Scheduler, answer: &Answer<'_>) -> Result<After, String> {
    let done = |answer: &Answer<'_>, scheduler: &Scheduler, at: usize| {
        if answer.0.is_none() {
            let guest = &scheduler.guests[at];
            answer.line(&format!("{} is {}", guest.name(), guest.state_name()));
        }
    };
    match command {
        Command::Leave => return Ok(After::Leave),
        Command::Help => HELP.iter().for_each(|(command, text)| answer.line(&format!("{command:<16} {text}"))),
        Command::List => list(scheduler, answer),
        Command::ConsoleAll => {
            scheduler.host.consoles.select(View::All);
            return Ok(After::Leave);
        }
        Command::Console(who) => {
            let at = find(scheduler, who)?;
            scheduler.host.consoles.select(View::One(at));
            return Ok(After::Leave);
        }
        Command::Log(who) => {
            let at = find(scheduler, who)?;
            log(scheduler, at, answer);
        }
        Command::Registers(who) => {
            for at in find_all(scheduler, who.as_ref())? {
                let done = scheduler.ask_for(at, |guest, _| {
                    report::write(&guest.vm, &"report, as asked for", &mut |line| answer.text("regs ", line));
                });
                if who.is_some() {
                    done?
                }
            }
        }
        Command::Stats(who) => {
            for at in find_all(scheduler, who.as_ref())? {
                let done = scheduler.ask_for(at, |guest, _| {
                    for (name, value) in report::counters(&guest.vm).chain(guest.scheduling()) {
                        answer.line(&format!("stat {} {name} {value}", guest.name()));
                    }
                });
                if who.is_some() {
                    done?
                }
            }
            if who.is_none() {
                // No guest has this name.
                answer.line(&format!("stat all memory.heap-bytes {}", heap::used_bytes()));
                let (idle, lent) = lending::usage();
                answer.line(&format!("stat all memory.given-idle-bytes {idle}"));
                answer.line(&format!("stat all memory.given-used-bytes {lent}"));
            }
        }
        Command::Check => {
            scheduler.canary.check()?;
            answer.line("intact");
        }
        Command::Pause(who) => {
            let at = find(scheduler, who)?;
            scheduler.ask_for(at, Guest::pause)??;
            done(answer, scheduler, at);
        }
        Command::Resume(who) => {
            let at = find(scheduler, who)?;
            scheduler.resume(at)?;
            done(answer, scheduler, at);
        }
        Command::Shutdown(who) => {
            let at = find(scheduler, who)?;
            scheduler.ask_for(at, |guest, _| guest.press_power_key())??;
            done(answer, scheduler, at);
        }
        Command::Stop(who) => {
            let at = find(scheduler, who)?;
            scheduler.ask_for(at, |guest, _| guest.stop())??;
            done(answer, scheduler, at);
        }
        Command::Balloon(who, megabytes) => {
            let at = find(scheduler, who)?;
            scheduler.ask_for(at, |guest, _| guest.set_balloon(megabytes.saturating_mul(MEGABYTE)))??;
        }
        Command::Reset(who) => {
            let at = find(scheduler, who)?;
            if let State::Off(_) = scheduler.guests[at].state {
                return Err(format!("{who} is off: `start {who}` turns it on"));
            }
            scheduler.restart(at)?;
            done(answer, scheduler, at);
        }
        Command::Start(who) => {
            let at = find(scheduler, who)?;
            let (State::Off(_) | State::Failed) = scheduler.guests[at].state else {
                return Err(format!("{who} is not off, but {}", scheduler.guests[at].state_name()));
            };
            scheduler.restart(at)?;
            done(answer, scheduler, at);
        }
    }
    Ok(After::Stay)
}

fn list(scheduler: &mut Scheduler, answer: &Answer<'_>) {
    let passed = (scheduler.host.now() - scheduler.began).max(1);
    if answer.0.is_none() {
        answer.line("  # name             state    weight  memory  processor");
    }
    for (at, guest) in scheduler.guests.iter().enumerate() {
        let (name, state, weight) = (guest.name(), guest.state_name(), guest.turn.weight());
        let (memory, share) = (guest.vm.parts.ram.size() >> 20, guest.ran * 1000 / passed);
        answer.line(&match answer.0 {
            Some(_) => format!("guest {at} {name} {state} {weight} {memory} {share}"),
            None => {
                format!("{at:>3} {name:<16} {state:<8} {weight:>6} {memory:>3} MiB  {:>3}.{} %", share / 10, share % 10)
            }
        });
    }
}

fn log(scheduler: &Scheduler, at: usize, answer: &Answer<'_>) {
    let bytes: Vec<u8> = scheduler.host.consoles.log(at).collect();
    for line in String::from_utf8_lossy(&bytes).lines() {
        answer.text("log ", plain(line));
    }
}
