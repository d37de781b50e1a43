//! The names of a Linux guest's tasks, read from its memory while it runs.
//!
//! A task is known by the address of its `task_struct`, which has the name at an offset that depends on the kernel's
//! configuration. The first task, which idles, has its `task_struct` in the kernel's image and a name that is known: so
//! the offset is found there, once the guest has idled; or in any other task whose name the kernel gives alone, for who
//! can wait for so many bytes ([`Tasks::of_any`]). Names are as of when they are read: a program has its own only
//! since `execve`, and the memory of a task that has ended is soon another one's. So a task's memory may
//! have several names, in the order in which they were read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use spica_console::base64;
use spica_runner::control::client::Board;

use crate::symbols::RAM;

/// Where a kernel has its linear map of RAM, and how far its image reaches at most.
const LINEAR: u32 = 0xc000_0000;
const IMAGE_END: u32 = LINEAR + (48 << 20);
/// What the task is called that idles: `swapper/0`, or `swapper` where there is one processor.
const IDLE: &[u8] = b"swapper";
/// What other tasks' names begin with that the kernel itself makes.
const KERNELS: [&[u8]; 4] = [b"kworker/", b"ksoftirqd/", b"rcu_sched\0", b"rcu_preempt\0"];
/// Bytes of a `task_struct` in which the name is looked for.
const LOOKED_THROUGH: u32 = 4096;
/// What stands between the names of one task's memory.
const BETWEEN: &str = ", ";
/// Bytes of a name (TASK_COMM_LEN).
const NAME: u32 = 16;
/// Tasks that are named at most, of all guests: a guest can make as many as it likes.
const MOST: usize = 65_536;
/// Names that one task's memory has at most: a guest can call its tasks what it likes.
const MOST_NAMES: usize = 8;
/// Names that are asked for at once at most: other questions wait meanwhile.
const AT_ONCE: usize = 16;
/// When a name is read again of a task that still runs: it may have become another program.
const AGAIN: Duration = Duration::from_secs(1);

/// See the module's text.
#[derive(Debug, Default)]
pub struct Tasks {
    /// Those that were seen, and when their names were last to be read.
    seen: BTreeMap<(usize, u32), Instant>,
    /// Those whose names are still to be read.
    waiting: Vec<(usize, u32)>,
    /// Where names are is looked for in any task, and in which that was done.
    in_any: bool,
    looked: BTreeSet<(usize, u32)>,
    /// Where a guest's tasks have their names.
    offsets: BTreeMap<usize, u32>,
    /// The names; of a task's memory that had several, with `, ` between them.
    pub names: BTreeMap<(usize, u32), String>,
}

impl Tasks {
    /// The same where names are looked for in any task: a guest may never idle.
    #[must_use]
    pub fn of_any() -> Self {
        Self { in_any: true, ..Self::default() }
    }

    /// A task was seen.
    pub fn note(&mut self, guest: usize, task: u32) {
        let now = Instant::now();
        let seen = self.seen.get(&(guest, task));
        let wanted = seen.map_or(self.seen.len() < MOST, |read| now.duration_since(*read) >= AGAIN);
        if task >= LINEAR && task & 3 == 0 && wanted && self.waiting.len() < MOST {
            self.seen.insert((guest, task), now);
            self.waiting.push((guest, task));
        }
    }

    /// Reads some of the names that are missing. What cannot be read has none.
    pub fn read(&mut self, board: &mut Board) {
        let unknown = self.waiting.iter().copied().find(|it @ (guest, task)| {
            let is_idle = *task < IMAGE_END && !self.names.contains_key(it);
            !self.offsets.contains_key(guest) && !self.looked.contains(it) && (is_idle || self.in_any)
        });
        if let Some((guest, task)) = unknown {
            let bytes = dump(board, guest, task, LOOKED_THROUGH);
            match offset(&bytes, self.in_any) {
                Some(at) => _ = self.offsets.insert(guest, at),
                None if self.in_any => _ = self.looked.insert((guest, task)),
                // It is not that one.
                None => self.waiting.retain(|it| *it != (guest, task)),
            }
        }
        let known = |(guest, _): &(usize, u32)| self.offsets.contains_key(guest);
        let (now, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting).into_iter().partition(known);
        self.waiting = now.iter().skip(AT_ONCE).copied().chain(later).collect();
        for (guest, task) in now.into_iter().take(AT_ONCE) {
            let bytes = dump(board, guest, task.wrapping_add(self.offsets[&guest]), NAME);
            if let Some(name) = name(&bytes) {
                add(self.names.entry((guest, task)).or_default(), &name);
            }
        }
    }

    /// Where this guest's tasks have their names, if that was found.
    #[must_use]
    pub fn offset_of(&self, guest: usize) -> Option<u32> {
        self.offsets.get(&guest).copied()
    }

    /// Whether more can be read.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.waiting.iter().any(|(guest, _)| self.offsets.contains_key(guest))
    }
}

/// Adds a name to those of a task's memory, if it is another one and there are not too many.
fn add(names: &mut String, name: &str) {
    if names.is_empty() {
        names.push_str(name);
    } else if names.split(BETWEEN).all(|known| known != name) && names.split(BETWEEN).count() < MOST_NAMES {
        names.extend([BETWEEN, name]);
    }
}

/// Where a `task_struct` has its name, if it is one of those that are known.
fn offset(bytes: &[u8], in_any: bool) -> Option<u32> {
    let known = |bytes: &[u8]| bytes.starts_with(IDLE) || in_any && KERNELS.iter().any(|name| bytes.starts_with(name));
    let found = (0..bytes.len()).step_by(4).find(|&at| known(&bytes[at..]));
    found.map(|at| at as u32)
}

/// A name, if these bytes are one: text that ends with a zero.
fn name(bytes: &[u8]) -> Option<String> {
    let name = bytes.split(|&byte| byte == 0).next().filter(|name| name.len() < bytes.len())?;
    let is_text = !name.is_empty() && name.iter().all(|byte| (b' '..=b'~').contains(byte));
    is_text.then(|| String::from_utf8_lossy(name).into_owned())
}

/// Memory of a guest's kernel; nothing where it cannot be read.
fn dump(board: &mut Board, guest: usize, va: u32, bytes: u32) -> Vec<u8> {
    let pa = va.wrapping_sub(LINEAR).wrapping_add(RAM);
    let lines = board.ask(&format!("debug {guest} dump {pa:x} {bytes:x}")).unwrap_or_default();
    lines.iter().filter_map(|line| base64::decode(line.strip_prefix("memory ")?)).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::{MOST_NAMES, add, name, offset};

    #[test]
    fn names_are_found_in_tasks_of_the_kernel() {
        let task = |name: &[u8]| [&[0x55; 20][..], name, &[0; 16]].concat();
        assert_eq!(offset(&task(b"swapper/0"), false), Some(20));
        for name in [&b"swapper/0"[..], b"kworker/0:1", b"rcu_sched"] {
            assert_eq!(offset(&task(name), true), Some(20), "{name:?}");
        }
        for (name, in_any) in [(&b"kworker/0:1"[..], false), (b" kworker/0:1", true), (b"rcu_schedule", true)] {
            assert_eq!(offset(&task(name), in_any), None, "{name:?}");
        }
    }

    #[test]
    fn a_task_has_the_names_that_were_seen() {
        let mut names = String::new();
        for name in ["sh", "sh", "cat", "sh", "poweroff", "cat"] {
            add(&mut names, name);
        }
        assert_eq!(names, "sh, cat, poweroff");
        (0..100).for_each(|number| add(&mut names, &number.to_string()));
        assert_eq!(names.split(", ").count(), MOST_NAMES);
    }

    #[test]
    fn names_are_text() {
        assert_eq!(name(b"kworker/0:1\0\0\0\0\0").as_deref(), Some("kworker/0:1"));
        assert_eq!(name(b"sh\0ab\x01"), Some("sh".into()));
        for none in [&b""[..], b"\0\0", b"sixteen letters!", b"a\x1bb\0", b"\xff\0"] {
            assert_eq!(name(none), None, "{none:?}");
        }
    }
}
