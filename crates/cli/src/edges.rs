//! Edges of a kernel's control flow, counted on the board for each of a guest's processes, and what people and fuzzers
//! read of that.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use serde_json::json;
use spica_console::base64;
use spica_console::debug::{EDGE_BYTES, NAME_BYTES};
use spica_runner::control::client::Board;
use spica_runner::error::{Error, Result};

use crate::attached::{Attached, not_understood, wait_until};
use crate::switching::Switching;
use crate::tasks::Tasks;

/// The maps that are no process's.
const INTERRUPTS: (usize, &str) = (0, "interrupts");
const OTHERS: (usize, &str) = (1, "all other processes");
/// The time between two looks at what has come, and how long it may take until a process is seen whose name is known.
const REST: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(20);

/// The edges that were taken, with how often: 255 goes on with 1.
pub type Map = BTreeMap<u16, u8>;

/// What was counted.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Findings {
    /// By the names of processes, those first that have most edges; then that of interrupts, and of other processes.
    pub maps: Vec<(String, Map)>,
    /// How often another process began to run.
    pub switches: u32,
    /// They were counted to the end: the guest was not reset.
    pub to_the_end: bool,
}

/// A guest of whose kernel the edges are counted. When this goes, they are so no longer.
pub struct EdgeCounter {
    attached: Attached,
}

/// A name as Linux keeps it of a process.
///
/// # Errors
/// If no process can have it.
pub fn name(text: &str) -> std::result::Result<String, String> {
    // It is cut off there, as the kernel does it.
    let end = text.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end < NAME_BYTES).last();
    match end {
        Some(end) if !text.contains('\0') => Ok(text[..end].to_string()),
        _ => Err("a process has a name of at least one character".to_string()),
    }
}

impl EdgeCounter {
    /// Has the board count the edges that the processes of guest number `guest` take, whose kernel switches so: of
    /// those called `only`, or all. The guest stands for a moment.
    ///
    /// # Errors
    /// If somebody debugs it or looks into it already, it is off, its kernel runs in place, there is no memory, no
    /// process runs whose name is known, or the board has gone.
    pub fn start(board: Board, guest: usize, switching: &Switching, only: &[String]) -> Result<Self> {
        let mut attached = Attached::new(board, guest)?;
        attached.halt()?;
        attached.ask(&format!("edges begin {:x}", switching.base))?;
        for (at, place) in &switching.places {
            attached.ask(&format!("edges at {at:x} {}", place.text()))?;
        }
        if let Some(at) = switching.named {
            attached.ask(&format!("edges at {at:x} named"))?;
        }
        for code in &switching.entries {
            attached.ask(&format!("edges skip {:x} {:x}", code.start, code.end))?;
        }
        for name in only {
            let name: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
            attached.ask(&format!("edges only {name}"))?;
        }
        attached.ask("edges on")?;
        attached.ask("go")?;
        let mut counter = Self { attached };
        let offset = counter.find_names()?;
        counter.attached.ask(&format!("edges names {offset:x}"))?;
        Ok(counter)
    }

    /// Where processes have their names, which is seen in those that run.
    fn find_names(&mut self) -> Result<u32> {
        let (mut tasks, guest) = (Tasks::of_any(), self.attached.guest);
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            for line in self.attached.ask("edges maps")? {
                if let Some(task) = line.strip_prefix("task ") {
                    tasks.note(guest, hexadecimal(task)?);
                }
            }
            tasks.read(&mut self.attached.board);
            if let Some(offset) = tasks.offset_of(guest) {
                return Ok(offset);
            }
            std::thread::sleep(REST);
        }
        Err(Error::failed(
            "processes cannot be told apart: of those that ran, none had a name that Linux gives itself, as swapper/0 or \
             kworker/0:1",
        ))
    }

    /// Waits until `until`, or `stop` holds.
    pub fn wait(&self, until: Instant, stop: &dyn Fn() -> bool) {
        wait_until(until, stop);
    }

    /// What was counted so far. The guest goes on.
    ///
    /// # Errors
    /// If the board has gone, or answers what is not understood.
    pub fn findings(&mut self) -> Result<Findings> {
        let (findings, named) = understand_maps(&self.attached.ask("edges maps")?)?;
        let mut maps = Vec::new();
        for (number, name) in named {
            maps.push((name, self.map(number)?));
        }
        maps.sort_by_key(|(name, map): &(String, Map)| (std::cmp::Reverse(map.len()), name.clone()));
        for (number, name) in [INTERRUPTS, OTHERS] {
            maps.push((name.to_string(), self.map(number)?));
        }
        Ok(Findings { maps, ..findings })
    }

    fn map(&mut self, number: usize) -> Result<Map> {
        understand_map(&self.attached.ask(&format!("edges map {number:x}"))?)
    }

    /// Ends it, and gives what was counted.
    ///
    /// # Errors
    /// If the board has gone, or answers what is not understood.
    pub fn end(mut self) -> Result<Findings> {
        let (Findings { to_the_end, .. }, _) = understand_maps(&self.attached.ask("edges maps")?)?;
        // Of a guest that is off, there is nothing more to come.
        if self.attached.halt().is_ok() {
            self.attached.ask("edges off")?;
            self.attached.ask("go")?;
        }
        let findings = self.findings()?;
        self.attached.ask("detach")?;
        Ok(Findings { to_the_end, ..findings })
    }
}

fn hexadecimal(word: &str) -> Result<u32> {
    u32::from_str_radix(word, 16).map_err(|_| not_understood())
}

/// Which processes have maps, from the board's answer.
///
/// # Errors
/// If it is not understood.
pub fn understand_maps(lines: &[String]) -> Result<(Findings, Vec<(usize, String)>)> {
    let (first, rest) = lines.split_first().ok_or_else(not_understood)?;
    let (on, switches) =
        first.strip_prefix("edges ").and_then(|words| words.split_once(' ')).ok_or_else(not_understood)?;
    let switches = switches.parse().map_err(|_| not_understood())?;
    let mut named = Vec::new();
    for line in rest.iter().filter(|line| !line.starts_with("task ")) {
        let (number, name) =
            line.strip_prefix("map ").and_then(|words| words.split_once(' ')).ok_or_else(not_understood)?;
        let bytes: Option<Vec<u8>> = (0..name.len()).step_by(2).map(|at| byte(name.get(at..at + 2)?)).collect();
        let bytes = bytes.filter(|bytes| bytes.len() == NAME_BYTES).ok_or_else(not_understood)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
        // It is the guest's, and goes to a terminal.
        let name = String::from_utf8_lossy(&bytes[..end]).escape_debug().to_string();
        named.push((hexadecimal(number)? as usize, name));
    }
    Ok((Findings { switches, to_the_end: on == "1", ..Findings::default() }, named))
}

fn byte(digits: &str) -> Option<u8> {
    u8::from_str_radix(digits, 16).ok()
}

/// The edges of a map, from the board's answer.
///
/// # Errors
/// If it is not understood.
pub fn understand_map(lines: &[String]) -> Result<Map> {
    let mut map = Map::new();
    for line in lines {
        let bytes = line.strip_prefix("edges ").and_then(base64::decode).ok_or_else(not_understood)?;
        let (edges, []) = bytes.as_chunks::<EDGE_BYTES>() else { return Err(not_understood()) };
        map.extend(edges.iter().map(|&[low, high, count]| (u16::from_le_bytes([low, high]), count)));
    }
    Ok(map)
}

/// A line for each process: how many edges it has taken.
#[must_use]
pub fn report(findings: &Findings) -> String {
    let mut text = format!("{:>8}  process\n", "edges");
    for (name, map) in findings.maps.iter().filter(|(_, map)| !map.is_empty()) {
        let _ = writeln!(text, "{:>8}  {name}", map.len());
    }
    text
}

/// A line of JSON for each process, with its edges, each with how often it was taken.
#[must_use]
pub fn json(findings: &Findings) -> String {
    let line = |(name, map): &(String, Map)| {
        let edges: Vec<_> = map.iter().collect();
        json!({ "process": name, "edges": edges }).to_string() + "\n"
    };
    findings.maps.iter().filter(|(_, map)| !map.is_empty()).map(line).collect()
}

/// The map of the process of this name as AFL's `afl-showmap` writes it: a line for each edge, its number, and how
/// often it was taken.
#[must_use]
pub fn showmap(findings: &Findings, name: &str) -> String {
    let map = findings.maps.iter().find(|(known, _)| known == name);
    map.into_iter().flat_map(|(_, map)| map).map(|(edge, times)| format!("{edge:06}:{times}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[&str]) -> Vec<String> {
        text.iter().map(|line| (*line).to_string()).collect()
    }

    #[test]
    fn answers_are_understood() {
        let sh = "map 2 73680000000000000000000000000000";
        let (findings, named) = understand_maps(&lines(&["edges 1 42", "task c1d3c600", sh])).expect("maps");
        assert_eq!((findings.switches, findings.to_the_end), (42, true));
        assert_eq!(named, [(2, "sh".to_string())]);
        let map = understand_map(&lines(&["edges AQAC//8B"])).expect("a map");
        assert_eq!(map, Map::from([(1, 2), (0xffff, 1)]));
        let wrong: [&[&str]; 6] = [
            &[],
            &["edges 1"],
            &["edges 1 x"],
            &["edges 1 2", "map 2"],
            &["edges 1 2", "map 2 7368"],
            &["edges 1 2", "no"],
        ];
        for wrong in wrong {
            assert!(understand_maps(&lines(wrong)).is_err(), "{wrong:?}");
        }
        for wrong in ["edges AQ", "edges AQAC/w==", "map AQAC"] {
            assert!(understand_map(&lines(&[wrong])).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_name_is_text_whatever_the_guest_makes_of_it() {
        let (_, named) =
            understand_maps(&lines(&["edges 0 0", "map 2 1b5b32004a41414141414141414141ff"])).expect("maps");
        assert_eq!(named[0].1, "\\u{1b}[2");
    }

    #[test]
    fn names_are_as_long_as_those_of_the_kernel() {
        assert_eq!(name("sh").as_deref(), Ok("sh"));
        assert_eq!(name("a-name-that-is-too-long").as_deref(), Ok("a-name-that-is-"));
        assert_eq!(name("fourteen-byte-é").as_deref(), Ok("fourteen-byte-"));
        for wrong in ["", "a\0b"] {
            assert!(name(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn maps_are_written_for_people_and_programs() {
        let findings = Findings {
            maps: vec![
                ("find".into(), Map::from([(7, 255), (65_535, 1)])),
                ("sh".into(), Map::from([(3, 4)])),
                ("interrupts".into(), Map::new()),
            ],
            ..Findings::default()
        };
        assert_eq!(report(&findings), "   edges  process\n       2  find\n       1  sh\n");
        assert_eq!(
            json(&findings),
            "{\"edges\":[[7,255],[65535,1]],\"process\":\"find\"}\n{\"edges\":[[3,4]],\"process\":\"sh\"}\n"
        );
        assert_eq!(showmap(&findings, "find"), "000007:255\n065535:1\n");
        assert_eq!(showmap(&findings, "cat"), "");
    }
}
