//! A guest's heap, checked by the board, and what people read of that.

use std::fmt::Write;
use std::ops::Range;
use std::time::Instant;

use spica_kallsyms::Symbol;
use spica_runner::control::client::Board;
use spica_runner::error::{Error, Result};

use crate::allocator::Allocator;
use crate::attached::{Attached, not_understood, wait_until};
use crate::counts::{place, understand_samples};
use crate::stacks::unwound;
use crate::unwind::{Sample, Tables};

/// Callers that are shown of an error.
const MOST_CALLERS: usize = 12;

/// What an error is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An object was accessed that had been freed.
    UseAfterFree,
    /// An object was accessed behind its end.
    OutOfBounds,
    /// An object was freed that had been freed.
    DoubleFree,
    /// What was freed is in an object, and not its start.
    InvalidFree,
    /// What was read nobody has written since the object was allocated.
    Uninitialised,
}

impl Kind {
    /// What programs are told.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::UseAfterFree => "use-after-free",
            Kind::OutOfBounds => "out-of-bounds",
            Kind::DoubleFree => "double-free",
            Kind::InvalidFree => "invalid-free",
            Kind::Uninitialised => "uninitialised",
        }
    }
}

/// An error of the guest's kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// What.
    pub kind: Kind,
    /// Whether it stores.
    pub write: bool,
    /// Bytes that were accessed.
    pub bytes: u32,
    /// The instruction, or the allocator's caller.
    pub pc: u32,
    /// Where it was and what has called that, the first time, from the innermost on; nothing if that is not known.
    pub stack: Vec<u32>,
    /// What was accessed or freed.
    pub address: u32,
    /// The object: where it is and how large.
    pub object: (u32, u32),
    /// Who allocated it; 0 if that is not known.
    pub allocated_by: u32,
    /// Who freed it; 0 if nobody did.
    pub freed_by: u32,
    /// How often it happened.
    pub times: u32,
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Findings {
    /// What was wrong, in the order in which it happened first.
    pub faults: Vec<Fault>,
    /// Objects that were allocated.
    pub allocated: u32,
    /// And freed.
    pub freed: u32,
    /// Accesses that were looked at.
    pub looked: u32,
    /// Objects that were forgotten, because there was no room.
    pub forgotten: u32,
    /// Errors that had no place.
    pub lost: u32,
    /// Objects that were not cleared for who allocated them, as far as that was asked for.
    pub uninitialised: u32,
    /// It was checked to the end: the guest was not reset.
    pub to_the_end: bool,
}

/// A guest whose heap is checked. When this goes, it is so no longer.
pub struct Checker {
    attached: Attached,
    /// Where each error happened first.
    samples: Vec<Sample>,
}

impl Checker {
    /// Has the board check the heap of guest number `guest`, whose allocator this is; `uninitialised` says whether it
    /// looks for reads of what nobody has written, too. The guest stands for a moment.
    ///
    /// # Errors
    /// If somebody debugs it or looks into it already, it is off, its kernel runs in place, there is no memory, or the
    /// board has gone.
    pub fn start(board: Board, guest: usize, allocator: &Allocator, uninitialised: bool) -> Result<Self> {
        let mut checker = Self { attached: Attached::new(board, guest)?, samples: Vec::new() };
        checker.attached.halt()?;
        let Allocator { base, object_size, constructor, pages: (pages, bytes), hooks, code, copies, kernel } =
            allocator;
        let (from, to) = (kernel.start, kernel.end);
        checker.ask(&format!("heap begin {base:x} {object_size:x} {pages:x} {bytes:x} {from:x} {to:x}"))?;
        for (at, hook) in hooks {
            checker.ask(&format!("heap hook {at:x} {}", hook.text()))?;
        }
        checker.ask(&format!("heap skip {:x} {:x}", code.start, code.end))?;
        if uninitialised {
            let constructor = constructor.ok_or_else(|| {
                Error::failed("this kernel does not say which of its caches have constructors: it has no ctor_show")
            })?;
            checker.ask(&format!("heap uninitialised {constructor:x}"))?;
            for Range { start, end } in copies {
                checker.ask(&format!("heap copies {start:x} {end:x}"))?;
            }
        }
        checker.ask("heap on")?;
        checker.ask("go")?;
        Ok(checker)
    }

    fn ask(&mut self, question: &str) -> Result<Vec<String>> {
        self.attached.ask(question)
    }

    /// Waits until `until`, or `stop` holds.
    pub fn wait(&self, until: Instant, stop: &dyn Fn() -> bool) {
        wait_until(until, stop);
    }

    /// What was found so far. The guest goes on.
    ///
    /// # Errors
    /// If the board has gone, or answers what is not understood.
    pub fn findings(&mut self) -> Result<Findings> {
        let lines = self.ask("samples")?;
        understand_samples(&lines, &mut self.samples)?;
        understand(&self.ask("heap errors")?)
    }

    /// Ends it, and gives what was found, in a kernel with these names, whose functions are unwound so.
    ///
    /// # Errors
    /// If the board has gone, or answers what is not understood.
    pub fn end(mut self, symbols: &[Symbol], tables: &Tables) -> Result<Findings> {
        let findings = self.findings()?;
        // Of a guest that is off, there is nothing more to come.
        if self.attached.halt().is_ok() {
            self.ask("heap off")?;
            self.ask("go")?;
        }
        let mut last = self.findings()?;
        self.ask("detach")?;
        for (fault, sample) in last.faults.iter_mut().zip(&self.samples) {
            fault.stack = unwound(tables, sample, symbols);
        }
        Ok(Findings { to_the_end: findings.to_the_end, ..last })
    }
}

/// What was found, from the lines of the board's answer.
///
/// # Errors
/// If they are not understood.
pub fn understand(lines: &[String]) -> Result<Findings> {
    let (first, rest) = lines.split_first().ok_or_else(not_understood)?;
    let words = first.strip_prefix("heap ").ok_or_else(not_understood)?;
    let numbers: Option<Vec<u32>> = words.split(' ').map(|word| word.parse().ok()).collect();
    let &[on, allocated, freed, looked, forgotten, lost, uninitialised] =
        numbers.as_deref().ok_or_else(not_understood)?
    else {
        return Err(not_understood());
    };
    let faults = rest.iter().map(|line| fault(line).ok_or_else(not_understood)).collect::<Result<Vec<_>>>()?;
    let to_the_end = on == 1;
    Ok(Findings { faults, allocated, freed, looked, forgotten, lost, uninitialised, to_the_end })
}

fn fault(line: &str) -> Option<Fault> {
    let mut words = line.strip_prefix("fault ")?.split(' ');
    let kind = match words.next()? {
        "freed" => Kind::UseAfterFree,
        "outside" => Kind::OutOfBounds,
        "twice" => Kind::DoubleFree,
        "within" => Kind::InvalidFree,
        "uninitialised" => Kind::Uninitialised,
        _ => return None,
    };
    let write = match words.next()? {
        "r" => false,
        "w" => true,
        _ => return None,
    };
    let rest: Vec<&str> = words.collect();
    let (times, numbers) = rest.split_last()?;
    let numbers: Option<Vec<u32>> = numbers.iter().map(|word| u32::from_str_radix(word, 16).ok()).collect();
    let &[bytes, pc, address, start, size, allocated_by, freed_by] = numbers?.as_slice() else { return None };
    let (object, stack, times) = ((start, size), Vec::new(), times.parse().ok()?);
    Some(Fault { kind, write, bytes, pc, stack, address, object, allocated_by, freed_by, times })
}

/// Where in the kernel an address is: a function and how far into it, or the address.
pub(crate) fn position(address: u32, symbols: &[Symbol]) -> String {
    match place(address, symbols) {
        (start, Some(name)) => format!("{name}+{:#x}", address - start),
        (_, None) => format!("{address:#010x}"),
    }
}

fn bytes(count: u32) -> String {
    format!("{count} byte{}", if count == 1 { "" } else { "s" })
}

/// What was wrong, for people: a paragraph for each error.
#[must_use]
pub fn report(findings: &Findings, symbols: &[Symbol]) -> String {
    let mut text = String::new();
    let at = |address| position(address, symbols);
    for fault in &findings.faults {
        let Fault { kind, write, pc, address, object: (start, size), allocated_by, freed_by, times, .. } = *fault;
        let what = match kind {
            Kind::UseAfterFree => "use after free",
            Kind::OutOfBounds => "out of bounds",
            Kind::DoubleFree => "double free",
            Kind::InvalidFree => "invalid free",
            Kind::Uninitialised => "uninitialised memory",
        };
        let how = match kind {
            Kind::DoubleFree | Kind::InvalidFree => String::new(),
            _ => format!("{} of {} ", if write { "write" } else { "read" }, bytes(fault.bytes)),
        };
        let _ = writeln!(text, "{what}: {how}at {address:#010x}, {times} time{}", if times == 1 { "" } else { "s" });
        let _ = writeln!(text, "  by            {}", at(pc));
        for &caller in fault.stack.iter().filter(|&&frame| frame != pc).take(MOST_CALLERS) {
            let _ = writeln!(text, "    called by   {}", at(caller));
        }
        let offset = address.wrapping_sub(start);
        let _ = writeln!(text, "  object        {} at {start:#010x}; this is at offset {offset}", bytes(size));
        let allocated = if allocated_by == 0 { "before it was watched".to_string() } else { at(allocated_by) };
        let _ = writeln!(text, "  allocated by  {allocated}");
        if freed_by != 0 {
            let _ = writeln!(text, "  freed by      {}", at(freed_by));
        }
        text.push('\n');
    }
    text
}

/// What was wrong, for programs: an object of JSON in a line for each error.
#[must_use]
pub fn report_json(findings: &Findings, symbols: &[Symbol]) -> String {
    let mut text = String::new();
    let at = |address| position(address, symbols);
    // Who allocated what was there before anybody watched is not known.
    let who = |address: u32| (address != 0).then(|| at(address));
    for fault in &findings.faults {
        let access = match fault.kind {
            Kind::DoubleFree | Kind::InvalidFree => None,
            _ if fault.write => Some("write"),
            _ => Some("read"),
        };
        let callers: Vec<_> = fault.stack.iter().filter(|&&frame| frame != fault.pc).map(|&frame| at(frame)).collect();
        let line = serde_json::json!({
            "kind": fault.kind.name(),
            "access": access,
            "bytes": fault.bytes,
            "address": fault.address,
            "times": fault.times,
            "by": at(fault.pc),
            "called_by": callers,
            "object": fault.object.0,
            "size": fault.object.1,
            "allocated_by": who(fault.allocated_by),
            "freed_by": who(fault.freed_by),
        });
        let _ = writeln!(text, "{line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols() -> Vec<Symbol> {
        let symbol = |address, kind, name: &str| Symbol { address, kind, name: name.to_string() };
        vec![symbol(0xc010_0000, b'T', "user"), symbol(0xc010_0100, b'T', "owner"), symbol(0xc010_0200, b'B', "end")]
    }

    const LINES: [&str; 3] = [
        "heap 1 10 9 8 0 2 7",
        "fault freed r 4 c0100010 c2000008 c2000000 28 c0100104 c0100150 3",
        "fault outside w 1 c0100020 c2000032 c2000000 32 0 0 1",
    ];

    #[test]
    fn errors_are_shown() {
        let lines = LINES.map(String::from);
        let mut findings = understand(&lines).expect("findings");
        assert!(findings.to_the_end);
        assert_eq!((findings.allocated, findings.freed, findings.looked, findings.lost), (10, 9, 8, 2));
        findings.faults[0].stack = vec![0xc010_0010, 0xc010_0108];
        let expected = "\
use after free: read of 4 bytes at 0xc2000008, 3 times
  by            user+0x10
    called by   owner+0x8
  object        40 bytes at 0xc2000000; this is at offset 8
  allocated by  owner+0x4
  freed by      owner+0x50

out of bounds: write of 1 byte at 0xc2000032, 1 time
  by            user+0x20
  object        50 bytes at 0xc2000000; this is at offset 50
  allocated by  before it was watched

";
        assert_eq!(report(&findings, &symbols()), expected);
        let json = report_json(&findings, &symbols());
        let objects: Vec<serde_json::Value> =
            json.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        assert_eq!(objects.len(), 2);
        assert_eq!(objects[0]["kind"], "use-after-free");
        assert_eq!((&objects[0]["by"], &objects[0]["called_by"][0]), (&"user+0x10".into(), &"owner+0x8".into()));
        assert_eq!((&objects[1]["access"], &objects[1]["allocated_by"]), (&"write".into(), &serde_json::Value::Null));
    }

    #[test]
    fn answers_are_understood_or_refused() {
        let wrong = [
            &[][..],
            &["heap 1 2 3"],
            &["heap 1 10 9 8 0 2 x"],
            &[LINES[0], "fault freed r 4 c0100010"],
            &[LINES[0], "fault lost r 4 c0100010 c2000008 c2000000 28 c0100104 c0100150 3"],
            &[LINES[0], "fault freed x 4 c0100010 c2000008 c2000000 28 c0100104 c0100150 3"],
        ];
        for lines in wrong {
            let lines: Vec<String> = lines.iter().map(|line| (*line).to_string()).collect();
            assert!(understand(&lines).is_err(), "{lines:?}");
        }
    }
}
