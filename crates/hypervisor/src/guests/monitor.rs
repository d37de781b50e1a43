//! The monitor: what is typed goes to the selected guest, or asks for something (see [`spica_console::command`]).
//!
//! Nothing of an answer is lost, and nobody waits for it: a long one is given in pieces ([`Answering`]), each when the
//! console has room for it, and guests run in between. What is typed meanwhile is looked at afterwards.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use spica_console::command::{BACKSPACE, Command, HELP, Lines, Request, Typed};
use spica_console::consoles::View;
use spica_console::debug::{DUMP_LINE, Debug, Edges, Sharing, Space};
use spica_console::trace::{PIECE_BYTES, Trace};
use spica_console::{base64, output, plain};
use spica_snapshot::{PAGE, pack};

use super::guest::{Guest, State};
use super::scheduler::Scheduler;
use crate::host::Host;
use crate::host_cpu::HostCpu;
use crate::layout::MEGABYTE;
use crate::memory::{heap, lending};
use crate::vm::backtrace::Backtrace;
use crate::vm::report;
use crate::vm::snapshot::Look;
use crate::{console, println};

/// See the module's text.
#[derive(Default)]
pub struct Monitor {
    lines: Lines,
    /// What is being answered.
    answering: Option<(Request, Answering)>,
}

/// The room for an answer, or a piece of one.
const PIECE: usize = report::BYTES;
/// Bytes of a guest's log in a piece of an answer: if each ends a line, the lines' beginnings take 8 KiB.
const LOG_PIECE: usize = 256;
/// Bytes of packed pages behind which an answer ends: at a serial line of 115,200 baud, some 8 s.
const SAID_AT_ONCE: usize = 64 * 1024;
/// Checksums in an answer: 4 MiB of memory.
const SUMS_IN_LINE: usize = 1024;
/// Pieces of what is below a disk that are looked at for an answer: 4 MiB.
const BASE_PIECES: u32 = 128;
/// Bytes that are searched in a piece of an answer.
const FIND_PIECE: u32 = 16 * 1024;

/// What is left of a long answer.
pub(super) enum Answering {
    /// The log of a guest, from a byte to another.
    Log(usize, u64, u64),
    /// The reports of these guests, and whether they are all: then nothing is said of one that has none.
    Registers(Range<usize>, bool),
    /// What comes last in the report of the guest in front of these.
    Past(Range<usize>, bool),
    /// The same with counters, and those of all together.
    Stats(Range<usize>, bool),
    /// The same with a summary of them.
    Summary(Range<usize>, bool),
    /// Physical memory of a guest: from where on, and how much.
    Memory(usize, u32, u32),
    /// The same, where bytes are looked for.
    Find(usize, u32, u32, Vec<u8>),
    /// What was counted of a guest's kernel; from this counter on, once it has been said how much there is.
    Counts(usize, Option<usize>),
    /// Samples of a guest's kernel; so many bytes of them, once it has been said how many there are.
    Samples(usize, Option<usize>),
    /// Lines of a guest's memory that several use, from the record of this number on.
    Shared(usize, usize),
    /// Edges of a guest's kernel: of this map, from this number on.
    Edges(usize, usize, usize),
    /// The state of a guest's processor and devices, from this byte on.
    State(Vec<u8>, usize),
    /// What is below a guest's disk is looked at, in the how manyeth piece.
    Base(usize, u32, u32),
    /// Pages of a guest's memory, or of its disk of this number: from where on, and how many bytes of packed ones were
    /// said.
    Pages((usize, Option<u32>), u32, usize),
    /// Checksums of them: from where on, and those that are not said yet, the first of which is of this address.
    Sums((usize, Option<u32>), u32, u32, Vec<u64>),
    /// So many records of the timeline at least, if there are.
    Trace(usize),
}

/// An answer: lines for a person, or lines behind `@ID` for a program.
pub(super) struct Answer<'a>(pub(super) Option<&'a str>, Shape);

/// Where the lines of an answer stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// By themselves: a line of a guest's that is not complete is broken for them.
    Lines,
    /// Wherever they come: there are so many that not much would be left of what guests print.
    Within,
}

impl<'a> Answer<'a> {
    fn new(request: &'a Request) -> Answer<'a> {
        let within = matches!(
            request.command,
            Ok(Command::Trace(_)
                | Command::Debug(
                    _,
                    Debug::Dump(..)
                        | Debug::Find(..)
                        | Debug::Counts
                        | Debug::Samples
                        | Debug::Sharing(Sharing::Lines)
                        | Debug::Edges(Edges::Map(_))
                        | Debug::Save
                        | Debug::Base(_)
                        | Debug::Pages(..)
                        | Debug::Sums(..)
                        | Debug::Stage(..)
                        | Debug::Put(..)
                        | Debug::Blank(..)
                ))
        );
        Answer(request.id.as_deref(), if within { Shape::Within } else { Shape::Lines })
    }

    pub(super) fn line(&self, line: &str) {
        self.text("", line);
    }

    /// A line that programs find behind `mark`.
    fn text(&self, mark: &str, line: impl fmt::Display) {
        match (self.0, self.1) {
            (Some(id), Shape::Lines) => println!("spica: @{id} {mark}{line}"),
            (Some(id), Shape::Within) => console::insert(format_args!("spica: @{id} {mark}{line}\n")),
            (None, _) => println!("spica: {line}"),
        }
    }
}

fn prompt() {
    console::write(b"\r\nspica> ");
}

impl Monitor {
    /// Goes on with an answer, or looks at what was typed. False if there is neither.
    pub fn listen(&mut self, scheduler: &mut Scheduler) -> bool {
        let mut busy = self.answering.is_some();
        if busy && console::room() >= PIECE {
            self.go_on(scheduler);
        }
        while self.answering.is_none()
            && console::room() >= PIECE
            && let Some(byte) = scheduler.host.next_typed()
        {
            busy = true;
            match self.lines.typed(byte) {
                Typed::Guest(byte) => {
                    scheduler.host.release_console();
                    scheduler.host.consoles.typed(byte);
                }
                Typed::Opened => {
                    scheduler.host.hold_console();
                    prompt();
                }
                Typed::Part(None) => {}
                Typed::Part(Some(BACKSPACE)) => console::write(b"\x08 \x08"),
                Typed::Part(Some(byte)) => console::write(&[byte]),
                Typed::Line(request) => self.answer(request, scheduler),
            }
        }
        busy
    }

    /// Whether there is more to do, for which others need not happen to come by.
    pub fn has_more(&self, host: &Host) -> bool {
        self.answering.is_some() || host.has_typed()
    }

    fn answer(&mut self, request: Request, scheduler: &mut Scheduler) {
        let answer = Answer::new(&request);
        let result = match &request.command {
            Ok(command) => obey(command, scheduler, &answer),
            Err(problem) => Err(problem.clone()),
        };
        match result {
            Ok(After::Later) => {}
            Ok(After::Answer(answering)) => {
                self.answering = Some((request, answering));
                self.go_on(scheduler);
            }
            result => self.end(&request, result, scheduler),
        }
    }

    /// Gives the next piece of an answer.
    fn go_on(&mut self, scheduler: &mut Scheduler) {
        let Some((request, answering)) = self.answering.take() else { return };
        match answering.piece(scheduler, &Answer::new(&request)) {
            Ok(Some(rest)) => self.answering = Some((request, rest)),
            result => self.end(&request, result.map(|_| After::Stay), scheduler),
        }
    }

    /// An answer is complete.
    fn end(&mut self, request: &Request, result: Result<After, String>, scheduler: &mut Scheduler) {
        let answer = Answer::new(request);
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
                scheduler.host.release_console();
                return;
            }
            Ok(After::Stay | After::Answer(_) | After::Later) => {}
            Err(problem) => answer.line(&problem),
        }
        self.lines.reopen();
        prompt();
    }
}

/// What comes after a command.
pub(super) enum After {
    /// A person goes on typing to the monitor.
    Stay,
    /// To the guests.
    Leave,
    /// There is more to be said first.
    Answer(Answering),
    /// The answer comes when what was asked for happens.
    Later,
}

impl Answering {
    /// Says some of it. Gives the rest, if there is one.
    ///
    /// # Errors
    /// If a guest that was asked for cannot answer.
    fn piece(self, scheduler: &mut Scheduler, answer: &Answer<'_>) -> Result<Option<Answering>, String> {
        match self {
            Answering::Log(at, from, end) => {
                let (bytes, next) = scheduler.host.consoles.log(at, from, end, LOG_PIECE);
                for line in String::from_utf8_lossy(&bytes).lines() {
                    answer.text("log ", plain(line));
                }
                Ok(next.map(|next| Answering::Log(at, next, end)))
            }
            Answering::Registers(mut guests, all) => {
                let Some(at) = guests.next() else { return Ok(None) };
                let done = scheduler.ask_for(at, |guest, _, _| {
                    report::write(&guest.vm, &"report, as asked for", &mut |line| answer.text("regs ", line));
                });
                match done {
                    Ok(()) => Ok(Some(Answering::Past(guests, all))),
                    Err(_) if all => Ok((!guests.is_empty()).then_some(Answering::Registers(guests, all))),
                    Err(problem) => Err(problem),
                }
            }
            Answering::Past(guests, all) => {
                let done = scheduler.ask_for(guests.start - 1, |guest, core, _| {
                    let backtrace = Backtrace::of(&guest.vm, core.enter_host_space());
                    report::write_past(&guest.vm, &backtrace, &mut |line| answer.text("regs ", line));
                });
                if !all {
                    done?;
                }
                Ok((!guests.is_empty()).then_some(Answering::Registers(guests, all)))
            }
            Answering::Stats(mut guests, all) => {
                if let Some(at) = guests.next() {
                    let done = scheduler.ask_for(at, |guest, _, _| {
                        for (name, value) in report::counters(&guest.vm).chain(guest.scheduling()) {
                            answer.line(&format!("stat {} {name} {value}", guest.name()));
                        }
                    });
                    if !all {
                        done?;
                    }
                } else if all {
                    // No guest has this name.
                    answer.line(&format!("stat all memory.heap-bytes {}", heap::used_bytes()));
                    let (idle, lent) = lending::usage();
                    answer.line(&format!("stat all memory.given-idle-bytes {idle}"));
                    answer.line(&format!("stat all memory.given-used-bytes {lent}"));
                    return Ok(None);
                }
                Ok((all || !guests.is_empty()).then_some(Answering::Stats(guests, all)))
            }
            Answering::Summary(mut guests, all) => {
                let Some(at) = guests.next() else { return Ok(None) };
                let passed = (scheduler.host.now() - scheduler.began).max(1);
                let done = scheduler.ask_for(at, |guest, _, _| {
                    let summary = guest.summary();
                    match answer.0 {
                        Some(_) => answer.line(&format!("summary {} {} {summary}", guest.name(), guest.state_name())),
                        None => {
                            summary.tell(guest.name(), guest.state_name(), passed, &mut |line| answer.text("", line))
                        }
                    }
                });
                if !all {
                    done?;
                }
                Ok((!guests.is_empty()).then_some(Answering::Summary(guests, all)))
            }
            Answering::Memory(at, from, bytes) => {
                // Behind what is short, guests have their turn at the port.
                if console::room() < output::BYTES - output::GUESTS {
                    return Ok(Some(Answering::Memory(at, from, bytes)));
                }
                let piece = bytes.min(DUMP_LINE);
                let read = |guest: &mut Guest, core: &mut HostCpu, _: &mut Host| {
                    guest.vm.read_memory(core, Space::Physical, from, piece as usize)
                };
                let found = scheduler.ask_for(at, read)?;
                if !found.is_empty() {
                    answer.text("memory ", base64::encode(&found));
                }
                let more = found.len() as u32 == piece && bytes > piece;
                Ok(more.then_some(Answering::Memory(at, from.wrapping_add(piece), bytes.wrapping_sub(piece))))
            }
            Answering::State(state, from) => {
                let piece = &state[from..(from + DUMP_LINE as usize).min(state.len())];
                answer.text("state ", base64::encode(piece));
                let next = from + piece.len();
                Ok((next < state.len()).then_some(Answering::State(state, next)))
            }
            Answering::Base(at, disk, piece) => {
                match scheduler.ask_for(at, |guest, core, _| guest.vm.look_at_base(core, disk))?? {
                    None => {}
                    Some((0, written)) => answer.text("base ", format_args!("{written:x}")),
                    Some(_) if piece + 1 < BASE_PIECES => return Ok(Some(Answering::Base(at, disk, piece + 1))),
                    Some((left, _)) => answer.text("left ", format_args!("{left:x}")),
                }
                Ok(None)
            }
            Answering::Pages((at, disk), from, said) => {
                // As above.
                if console::room() < output::BYTES - output::GUESTS {
                    return Ok(Some(Answering::Pages((at, disk), from, said)));
                }
                Ok(match scheduler.ask_for(at, |guest, core, _| guest.vm.look_for_page(core, disk, from))? {
                    Look::End => None,
                    Look::Blank(next) => Some(Answering::Pages((at, disk), next, said)),
                    Look::Page(address, page) => {
                        let packed = pack(&page);
                        answer.text("page ", format_args!("{address:x} {}", base64::encode(&packed)));
                        if !scheduler.guests.iter().any(|guest| guest.state == State::Ready) {
                            scheduler.host.hurry_console();
                        }
                        let (next, said) = (address.wrapping_add(PAGE as u32), said + packed.len());
                        if said < SAID_AT_ONCE {
                            Some(Answering::Pages((at, disk), next, said))
                        } else {
                            answer.text("next ", format_args!("{next:x}"));
                            None
                        }
                    }
                })
            }
            Answering::Sums((at, disk), from, first, mut sums) => {
                // As above.
                if console::room() < output::BYTES - output::GUESTS {
                    return Ok(Some(Answering::Sums((at, disk), from, first, sums)));
                }
                let found = scheduler.ask_for(at, |guest, core, _| guest.vm.sums(core, disk, from))?;
                let first = if sums.is_empty() { found.as_ref().map_or(0, |(start, _)| *start) } else { first };
                let next = found.as_ref().map(|(start, some)| start.wrapping_add((some.len() * PAGE) as u32));
                // A line has pages that follow each other, up to a border of its own length.
                let follows = found.as_ref().is_some_and(|(start, _)| first + (sums.len() * PAGE) as u32 == *start);
                if follows && let Some((_, some)) = &found {
                    sums.extend_from_slice(some);
                }
                if follows && sums.len() < SUMS_IN_LINE {
                    return Ok(next.map(|next| Answering::Sums((at, disk), next, first, sums)));
                }
                if !sums.is_empty() {
                    let bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
                    answer.text("sums ", format_args!("{first:x} {}", base64::encode(&bytes)));
                }
                // What does not follow is read once more.
                if let Some(next) = if follows { next } else { found.map(|(start, _)| start) } {
                    answer.text("next ", format_args!("{next:x}"));
                }
                Ok(None)
            }
            Answering::Trace(records) => {
                // As above.
                if console::room() < output::BYTES - output::GUESTS {
                    return Ok(Some(Answering::Trace(records)));
                }
                let before = scheduler.host.tracer.waiting();
                let piece = scheduler.host.take_trace(PIECE_BYTES);
                if !piece.is_empty() {
                    answer.text("records ", base64::encode(&piece));
                }
                if scheduler.host.tracer.is_ending() {
                    // Nobody is left who would have to wait for the port.
                    console::drain();
                }
                let rest = records.saturating_sub(before - scheduler.host.tracer.waiting());
                Ok((rest > 0 && !piece.is_empty()).then_some(Answering::Trace(rest)))
            }
            Answering::Counts(at, from) => {
                // As above.
                if console::room() < output::BYTES - output::GUESTS {
                    return Ok(Some(Answering::Counts(at, from)));
                }
                let Some(from) = from else {
                    let (missed, uncounted) = scheduler.ask_for(at, |guest, _, _| guest.vm.not_counted())?;
                    answer.line(&format!("counted {missed} {uncounted}"));
                    return Ok(Some(Answering::Counts(at, Some(0))));
                };
                let (piece, next) = scheduler.ask_for(at, |guest, _, _| guest.vm.take_counts(from))?;
                if !piece.is_empty() {
                    answer.text("counts ", base64::encode(&piece));
                }
                Ok(next.map(|next| Answering::Counts(at, Some(next))))
            }
            Answering::Samples(at, bytes) => {
                // As above.
                if console::room() < output::BYTES - output::GUESTS {
                    return Ok(Some(Answering::Samples(at, bytes)));
                }
                let Some(bytes) = bytes else {
                    let (taken, lost, bytes) = scheduler.ask_for(at, |guest, _, _| guest.vm.sampled())?;
                    answer.line(&format!("sampled {taken} {lost}"));
                    return Ok(Some(Answering::Samples(at, Some(bytes))));
                };
                let piece = scheduler.ask_for(at, |guest, _, _| guest.vm.take_samples())?;
                if !piece.is_empty() {
                    answer.text("samples ", base64::encode(&piece));
                }
                let rest = bytes.saturating_sub(piece.len());
                Ok((rest > 0 && !piece.is_empty()).then_some(Answering::Samples(at, Some(rest))))
            }
            Answering::Shared(at, from) => {
                // As above.
                if console::room() < output::BYTES - output::GUESTS {
                    return Ok(Some(Answering::Shared(at, from)));
                }
                let (lines, next) = scheduler.ask_for(at, |guest, core, _| guest.vm.shared_lines(core, from))?;
                lines.iter().for_each(|line| answer.line(line));
                Ok(next.map(|next| Answering::Shared(at, next)))
            }
            Answering::Edges(at, map, from) => {
                // As above.
                if console::room() < output::BYTES - output::GUESTS {
                    return Ok(Some(Answering::Edges(at, map, from)));
                }
                let (piece, next) = scheduler.ask_for(at, |guest, core, _| guest.vm.edges_of(core, map, from))?;
                if !piece.is_empty() {
                    answer.text("edges ", base64::encode(&piece));
                }
                Ok(next.map(|next| Answering::Edges(at, map, next)))
            }
            Answering::Find(at, from, bytes, pattern) => {
                let piece = bytes.min(FIND_PIECE);
                let found = scheduler.ask_for(at, |guest, core, _| guest.vm.find(core, from, piece, &pattern))?;
                if let Some(found) = found {
                    answer.line(&format!("found {found:x}"));
                    return Ok(None);
                }
                let rest = bytes - piece;
                Ok((rest > 0).then(|| Answering::Find(at, from.wrapping_add(piece), rest, pattern)))
            }
        }
    }
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
fn find_all(scheduler: &Scheduler, who: Option<&String>) -> Result<Range<usize>, String> {
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
            return Ok(After::Answer(Answering::Log(at, 0, scheduler.host.consoles.printed(at))));
        }
        Command::Registers(who) => {
            let guests = find_all(scheduler, who.as_ref())?;
            return Ok(After::Answer(Answering::Registers(guests, who.is_none())));
        }
        Command::Stats(who, all) if *all || answer.0.is_some() => {
            let guests = find_all(scheduler, who.as_ref())?;
            return Ok(After::Answer(Answering::Stats(guests, who.is_none())));
        }
        Command::Stats(who, _) | Command::Summary(who) => {
            let guests = find_all(scheduler, who.as_ref())?;
            if answer.0.is_some() {
                answer.line(&format!("time {} {}", scheduler.host.now(), scheduler.host.ticks(1_000_000)));
            }
            return Ok(After::Answer(Answering::Summary(guests, who.is_none())));
        }
        Command::Check => {
            scheduler.canary.check()?;
            answer.line("intact");
        }
        Command::Pause(who) => {
            let at = find(scheduler, who)?;
            scheduler.ask_for(at, |guest, _, host| guest.pause(host))??;
            done(answer, scheduler, at);
        }
        Command::Resume(who) => {
            let at = find(scheduler, who)?;
            scheduler.resume(at)?;
            done(answer, scheduler, at);
        }
        Command::Shutdown(who) => {
            let at = find(scheduler, who)?;
            scheduler.ask_for(at, |guest, _, _| guest.press_power_key())??;
            done(answer, scheduler, at);
        }
        Command::Stop(who) => {
            let at = find(scheduler, who)?;
            scheduler.ask_for(at, |guest, _, _| guest.stop())??;
            scheduler.tell_debugger(at);
            done(answer, scheduler, at);
        }
        Command::Debug(who, debug) => {
            let at = find(scheduler, who)?;
            return scheduler.answer_debugger(at, debug, answer);
        }
        Command::Trace(trace) => {
            if answer.0.is_none() {
                return Err("`trace` is for programs: see `spica trace --help`".into());
            }
            match trace {
                Trace::Start | Trace::Calls(_) => {
                    let only = if let Trace::Calls(who) = trace { Some(find(scheduler, who)?) } else { None };
                    scheduler.start_trace(true, only)?;
                    let (hertz, records) = scheduler.host.trace_clock();
                    answer.line(&format!("clock {hertz} {records}"));
                }
                Trace::Read => return Ok(After::Answer(Answering::Trace(scheduler.host.tracer.waiting()))),
                Trace::Stop => scheduler.stop_trace(),
            }
        }
        Command::Balloon(who, megabytes) => {
            let at = find(scheduler, who)?;
            scheduler.ask_for(at, |guest, _, _| guest.set_balloon(megabytes.saturating_mul(MEGABYTE)))??;
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
        answer.line("  # name             state    weight  memory  processor  engine");
    }
    for (at, guest) in scheduler.guests.iter().enumerate() {
        let (name, state, weight) = (guest.name(), guest.state_name(), guest.turn.weight());
        let (memory, share) = (guest.vm.ram_bytes() >> 20, guest.ran * 1000 / passed);
        let engine = guest.vm.engine_name();
        answer.line(&match answer.0 {
            Some(_) => format!("guest {at} {name} {state} {weight} {memory} {share} {engine}"),
            None => {
                let (whole, part) = (share / 10, share % 10);
                format!("{at:>3} {name:<16} {state:<8} {weight:>6} {memory:>3} MiB  {whole:>3}.{part} %    {engine}")
            }
        });
    }
}
