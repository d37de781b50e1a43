//! Which lines of a guest's memory are used by several of its processes, its interrupts and its devices, noted by the
//! board, and what people read of that.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use spica_kallsyms::Symbol;
use spica_runner::control::client::Board;
use spica_runner::error::Result;
use spica_sharing::{Context, Device, LINE, User};

use crate::attached::{Attached, not_understood};
use crate::heap::position;
use crate::switching::Switching;
use crate::tasks::Tasks;

/// The time between two looks at whether somebody wants it to end, and at who has appeared.
const REST: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_millis(200);
/// Names of variables that are shown of a line, at most.
const MOST_VARIABLES: usize = 3;
/// How far from its start a variable reaches at most, as far as is known.
const MOST_VARIABLE: u32 = 0x1_0000;

/// A line that several use, one of which writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Its address in the kernel's linear map.
    pub address: u32,
    /// Who uses it.
    pub users: Vec<User>,
}

impl Line {
    /// How often somebody else came to use it.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.users.iter().map(|user| u64::from(user.turns)).sum()
    }
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Findings {
    /// The lines, those first that changed hands most.
    pub lines: Vec<Line>,
    /// The processes that are told apart, by their contexts.
    pub tasks: BTreeMap<Context, u32>,
    /// Their names, as far as they are known.
    pub names: BTreeMap<u32, String>,
    /// Accesses that the board was asked about.
    pub looked: u32,
    /// How often there was another process.
    pub switches: u32,
    /// Lines that several use, for which there was no room.
    pub lost: u32,
    /// It was noted to the end: the guest was not reset.
    pub to_the_end: bool,
}

/// A guest of which it is noted who uses its memory. When this goes, it is so no longer.
pub struct Watcher {
    attached: Attached,
    tasks: Tasks,
}

impl Watcher {
    /// Has the board note who uses the memory of guest number `guest`, whose kernel switches so. The guest stands for a
    /// moment.
    ///
    /// # Errors
    /// If somebody debugs it or looks into it already, it is off, its kernel runs in place, there is no memory, or the
    /// board has gone.
    pub fn start(board: Board, guest: usize, switching: &Switching) -> Result<Self> {
        let mut attached = Attached::new(board, guest)?;
        attached.halt()?;
        attached.ask(&format!("sharing begin {:x}", switching.base))?;
        for (at, place) in &switching.places {
            attached.ask(&format!("sharing at {at:x} {}", place.text()))?;
        }
        attached.ask("sharing on")?;
        attached.ask("go")?;
        Ok(Self { attached, tasks: Tasks::of_any() })
    }

    /// Waits until `until`, or `stop` holds, and reads the names of the processes that appear.
    ///
    /// # Errors
    /// If the board has gone, or answers what is not understood.
    pub fn wait(&mut self, until: Instant, stop: &dyn Fn() -> bool) -> Result<()> {
        let mut look = Instant::now();
        while !stop() {
            let now = Instant::now();
            if now >= look {
                self.look()?;
                look = now + LOOK;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(REST));
        }
        Ok(())
    }

    /// What is known by now, but for the lines.
    fn look(&mut self) -> Result<Findings> {
        let findings = understand_contexts(&self.attached.ask("sharing contexts")?)?;
        findings.tasks.values().for_each(|&task| self.tasks.note(self.attached.guest, task));
        self.tasks.read(&mut self.attached.board);
        Ok(findings)
    }

    /// What was found so far. The guest goes on.
    ///
    /// # Errors
    /// If the board has gone, or answers what is not understood.
    pub fn findings(&mut self) -> Result<Findings> {
        let found = self.look()?;
        while self.tasks.has_more() {
            self.tasks.read(&mut self.attached.board);
        }
        let lines = understand_lines(&self.attached.ask("sharing lines")?)?;
        let names = self.tasks.names.iter().map(|((_, task), name)| (*task, name.clone())).collect();
        Ok(Findings { lines, names, ..found })
    }

    /// Ends it, and gives what was found.
    ///
    /// # Errors
    /// If the board has gone, or answers what is not understood.
    pub fn end(mut self) -> Result<Findings> {
        let to_the_end = self.look()?.to_the_end;
        // Of a guest that is off, there is nothing more to come.
        if self.attached.halt().is_ok() {
            self.attached.ask("sharing off")?;
            self.attached.ask("go")?;
        }
        let findings = self.findings()?;
        self.attached.ask("detach")?;
        Ok(Findings { to_the_end, ..findings })
    }
}

/// What is known beside the lines, from the board's answer.
///
/// # Errors
/// If it is not understood.
pub fn understand_contexts(lines: &[String]) -> Result<Findings> {
    let (first, rest) = lines.split_first().ok_or_else(not_understood)?;
    let words = first.strip_prefix("sharing ").ok_or_else(not_understood)?;
    let numbers: Option<Vec<u32>> = words.split(' ').map(|word| word.parse().ok()).collect();
    let &[on, looked, switches, lost] = numbers.as_deref().ok_or_else(not_understood)? else {
        return Err(not_understood());
    };
    let task = |line: &String| {
        let (context, task) = line.strip_prefix("context ")?.split_once(' ')?;
        Some((Context::of_number(hexadecimal(context)?)?, hexadecimal(task)?))
    };
    let tasks = rest.iter().map(|line| task(line).ok_or_else(not_understood)).collect::<Result<_>>()?;
    Ok(Findings { tasks, looked, switches, lost, to_the_end: on == 1, ..Findings::default() })
}

fn hexadecimal(word: &str) -> Option<u32> {
    u32::from_str_radix(word, 16).ok()
}

/// The lines, from the board's answer, those first that changed hands most.
///
/// # Errors
/// If it is not understood.
pub fn understand_lines(lines: &[String]) -> Result<Vec<Line>> {
    let mut lines = lines.iter().map(|text| line(text).ok_or_else(not_understood)).collect::<Result<Vec<_>>>()?;
    lines.sort_by_key(|line| (std::cmp::Reverse(line.turns()), line.address));
    Ok(lines)
}

fn line(text: &str) -> Option<Line> {
    let words: Vec<&str> = text.strip_prefix("line ")?.split(' ').collect();
    let (address, rest) = words.split_first()?;
    let (users, []) = rest.as_chunks::<5>() else { return None };
    let user = |&[context, ways, turns, load, store]: &[&str; 5]| {
        let (reads, writes) = match ways {
            "r" => (true, false),
            "w" => (false, true),
            "rw" => (true, true),
            _ => return None,
        };
        let context = Context::of_number(hexadecimal(context)?)?;
        let (load, store) = (hexadecimal(load)?, hexadecimal(store)?);
        Some(User { context, reads, writes, turns: hexadecimal(turns)?, load, store })
    };
    Some(Line { address: hexadecimal(address)?, users: users.iter().map(user).collect::<Option<_>>()? })
}

/// Contexts that are no processes with a name of their own.
const NAMED: [(Context, &str); 7] = [
    (Context::INTERRUPTS, "interrupts"),
    (Context::OTHER_PROCESSES, "other processes"),
    (Context::of_device(Device::Disk), "disk"),
    (Context::of_device(Device::Network), "network card"),
    (Context::of_device(Device::Console), "console"),
    (Context::of_device(Device::Other), "other devices"),
    (Context::SEVERAL, "several others"),
];

impl Findings {
    /// What a context is called: a process by its name and where its `task_struct` is.
    #[must_use]
    pub fn name(&self, context: Context) -> String {
        if let Some((_, name)) = NAMED.iter().find(|(known, _)| *known == context) {
            return (*name).to_string();
        }
        match self.tasks.get(&context) {
            Some(task) => format!("{}[{task:08x}]", self.names.get(task).map_or("?", String::as_str)),
            None => "?".to_string(),
        }
    }

    /// Who writes and who uses that, with how many lines and turns: those first that have most lines.
    fn pairs(&self) -> Vec<((Context, Context), (usize, u64))> {
        let mut pairs: BTreeMap<(Context, Context), (usize, u64)> = BTreeMap::new();
        for line in &self.lines {
            for writer in line.users.iter().filter(|user| user.writes) {
                for user in line.users.iter().filter(|user| user.context != writer.context) {
                    let (lines, turns) = pairs.entry((writer.context, user.context)).or_default();
                    *lines += 1;
                    *turns += u64::from(user.turns);
                }
            }
        }
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_by_key(|&(who, (lines, turns))| (std::cmp::Reverse((lines, turns)), who));
        pairs
    }
}

/// The variables of the kernel that are in a line, as far as they have names.
fn variables(address: u32, symbols: &[Symbol]) -> Vec<String> {
    let is_data = |symbol: &&Symbol| matches!(symbol.kind, b'b' | b'B' | b'd' | b'D' | b'r' | b'R');
    let first = symbols.partition_point(|symbol| symbol.address <= address);
    let behind = symbols.partition_point(|symbol| symbol.address < address.saturating_add(LINE));
    // One that begins in front of it, if there are symbols behind it: the last one of all reaches nowhere.
    let around = symbols[..first].iter().rev().find(|symbol| !symbol.name.starts_with('$'));
    let around =
        around.filter(|symbol| first < symbols.len() && is_data(symbol) && address - symbol.address < MOST_VARIABLE);
    let within = symbols[first..behind.max(first)].iter().filter(is_data);
    let name = |symbol: &Symbol| match address.checked_sub(symbol.address) {
        Some(offset) if offset != 0 => format!("{}+{offset:#x}", symbol.name),
        _ => symbol.name.clone(),
    };
    around.into_iter().chain(within).take(MOST_VARIABLES).map(name).collect()
}

fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// What was found, for people: who communicates with whom, and `top` lines, those first that changed hands most.
#[must_use]
pub fn report(findings: &Findings, symbols: &[Symbol], top: usize) -> String {
    let mut text = String::new();
    if findings.lines.is_empty() {
        return text;
    }
    let _ = writeln!(text, "{:>7} {:>9}  {:<28} used by", "lines", "turns", "written by");
    for ((writer, user), (lines, turns)) in findings.pairs().into_iter().take(top) {
        let _ = writeln!(text, "{lines:>7} {turns:>9}  {:<28} {}", findings.name(writer), findings.name(user));
    }
    for line in findings.lines.iter().take(top) {
        let variables = variables(line.address, symbols).join(", ");
        let space = if variables.is_empty() { "" } else { "  " };
        let _ = writeln!(text, "\n{:#010x}  {}{space}{variables}", line.address, count(line.turns(), "turn"));
        for user in &line.users {
            let ways = match (user.reads, user.writes) {
                (true, true) => "reads, writes",
                (_, true) => "writes",
                _ => "reads",
            };
            let turns = count(user.turns.into(), "turn");
            let mut rest = String::new();
            for (how, pc) in [("load", user.load), ("store", user.store)] {
                if pc != 0 {
                    let _ = write!(rest, "  {how} {}", position(pc, symbols));
                }
            }
            let _ = writeln!(text, "  {:<28} {ways:<13} {turns:>12}{rest}", findings.name(user.context));
        }
    }
    text
}

/// The same for programs: an object for each line.
#[must_use]
pub fn json(findings: &Findings, symbols: &[Symbol], top: usize) -> String {
    let place = |pc: u32| if pc == 0 { serde_json::Value::Null } else { position(pc, symbols).into() };
    let mut text = String::new();
    for line in findings.lines.iter().take(top) {
        let users: Vec<serde_json::Value> = line
            .users
            .iter()
            .map(|user| {
                let task = findings.tasks.get(&user.context);
                let name = match task {
                    Some(task) => findings.names.get(task).map(String::as_str).into(),
                    None => serde_json::Value::from(findings.name(user.context)),
                };
                serde_json::json!({
                    "name": name,
                    "task": task,
                    "reads": user.reads,
                    "writes": user.writes,
                    "turns": user.turns,
                    "load": place(user.load),
                    "store": place(user.store),
                })
            })
            .collect();
        let object = serde_json::json!({
            "address": line.address,
            "variables": variables(line.address, symbols),
            "turns": line.turns(),
            "users": users,
        });
        let _ = writeln!(text, "{object}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXTS: [&str; 3] = ["sharing 1 1000 20 3", "context 3 c1c9cb40", "context 4 c1b6a940"];
    const LINES: [&str; 2] = [
        "line c0200040 3 w 2 0 c0100010 4 r 1 c0100020 0",
        "line c0200080 1 rw 9 c0100104 c0100108 3 r 8 c0100150 0 1f r 1 0 0",
    ];

    fn symbols() -> Vec<Symbol> {
        let symbol = |address, kind, name: &str| Symbol { address, kind, name: name.to_string() };
        vec![
            symbol(0xc010_0000, b'T', "writer"),
            symbol(0xc010_0100, b'T', "tick"),
            symbol(0xc020_0020, b'd', "queue"),
            symbol(0xc020_0090, b'D', "jiffies"),
            symbol(0xc020_0094, b'B', "lock"),
            symbol(0xc020_00c0, b'B', "_end"),
        ]
    }

    fn findings() -> Findings {
        let found = understand_contexts(&CONTEXTS.map(String::from)).expect("contexts");
        let lines = understand_lines(&LINES.map(String::from)).expect("lines");
        Findings { lines, names: BTreeMap::from([(0xc1c9_cb40, "ls".to_string())]), ..found }
    }

    #[test]
    fn lines_are_shown_with_who_uses_them() {
        let findings = findings();
        assert!(findings.to_the_end);
        assert_eq!((findings.looked, findings.switches, findings.lost), (1000, 20, 3));
        let expected = "  lines     turns  written by                   used by
      1         8  interrupts                   ls[c1c9cb40]
      1         1  interrupts                   several others
      1         1  ls[c1c9cb40]                 ?[c1b6a940]

0xc0200080  18 turns  queue+0x60, jiffies, lock
  interrupts                   reads, writes      9 turns  load tick+0x4  store tick+0x8
  ls[c1c9cb40]                 reads              8 turns  load tick+0x50
  several others               reads               1 turn

0xc0200040  3 turns  queue+0x20
  ls[c1c9cb40]                 writes             2 turns  store writer+0x10
  ?[c1b6a940]                  reads               1 turn  load writer+0x20
";
        assert_eq!(report(&findings, &symbols(), 50), expected);
        assert_eq!(report(&findings, &symbols(), 1).lines().count(), 7);
        assert_eq!(report(&Findings::default(), &symbols(), 50), "");
    }

    #[test]
    fn programs_get_an_object_for_each_line() {
        let text = json(&findings(), &symbols(), 50);
        let objects: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        assert_eq!(objects.len(), 2);
        assert_eq!(objects[0]["address"], 0xc020_0080_u32);
        assert_eq!(objects[0]["users"][0]["name"], "interrupts");
        assert_eq!(objects[0]["users"][1]["task"], 0xc1c9_cb40_u32);
        assert_eq!(objects[1]["users"][0]["store"], "writer+0x10");
        assert!(objects[1]["users"][1]["name"].is_null() && objects[1]["users"][1]["store"].is_null());
    }

    #[test]
    fn answers_are_understood_or_refused() {
        let strings = |lines: &[&str]| lines.iter().map(|line| (*line).to_string()).collect::<Vec<_>>();
        for wrong in [&[][..], &["sharing 1 2 3"], &["sharing 1 2 3 x"], &[CONTEXTS[0], "context 3"]] {
            assert!(understand_contexts(&strings(wrong)).is_err(), "{wrong:?}");
        }
        assert!(understand_contexts(&strings(&[CONTEXTS[0], "context 20 c1c9cb40"])).is_err());
        for wrong in ["line", "line x", "line c0200040 3 w 2 0", "line c0200040 3 x 2 0 0", "line c0200040 0 w 2 0 0"] {
            assert!(understand_lines(&strings(&[wrong])).is_err(), "{wrong}");
        }
    }
}
