//! Tests: contexts use lines at random, and what is said of that is compared with a plain model.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use spica_sharing::{Context, Device, LINE, Lines, MOST_PROCESSES, MOST_USERS, Processes, Shared, State, Use};

const RAM: u32 = 1 << 20;
/// Lines that are used: few, so that they are shared, and fewer than there are records.
const USED: u32 = 40;

const READ: Use = Use { reads: true, writes: false };
const WRITE: Use = Use { reads: false, writes: true };
const NOTHING: Use = Use { reads: false, writes: false };
const BOTH: Use = Use { reads: true, writes: true };

fn memory(ram: u32) -> Vec<u32> {
    vec![0xdead_beef; spica_sharing::memory_bytes(ram) as usize / 4]
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Enter(Option<Context>),
    Interrupt,
    Resume,
    Access { offset: u32, bytes: u32, what: Use, pc: u32 },
    Device { device: Device, offset: u32, bytes: u32, write: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let offset = (0..USED * LINE / 4).prop_map(|word| 4 * word);
    let contexts = prop_oneof![
        1 => Just(None),
        6 => (0..5_usize).prop_map(|number| Some(Context::of_process(number))),
    ];
    let uses = prop_oneof![Just(READ), Just(WRITE), Just(BOTH)];
    let bytes = prop_oneof![4 => Just(1_u32), 4 => Just(4), 2 => Just(8), 1 => Just(64)];
    let devices = prop_oneof![Just(Device::Disk), Just(Device::Network)];
    prop_oneof![
        3 => contexts.prop_map(Step::Enter),
        2 => Just(Step::Interrupt),
        3 => Just(Step::Resume),
        8 => (offset.clone(), bytes, uses, 1..u32::MAX)
            .prop_map(|(offset, bytes, what, pc)| Step::Access { offset, bytes, what, pc }),
        1 => (devices, offset, 0..300_u32, any::<bool>())
            .prop_map(|(device, offset, bytes, write)| Step::Device { device, offset, bytes, write }),
    ]
}

/// What a context has done with a line.
#[derive(Clone, Default, Debug)]
struct Done {
    reads: bool,
    writes: bool,
    turns: u32,
    loads: Vec<u32>,
    stores: Vec<u32>,
}

/// A line: who has used it, who was last, and whether two had read it before anybody wrote.
#[derive(Default)]
struct Line {
    users: BTreeMap<Context, Done>,
    first: Option<Context>,
    last: Option<Context>,
    was_read_by_several: bool,
}

impl Line {
    fn note(&mut self, context: Context, what: Use, pc: u32) {
        let done = self.users.entry(context).or_default();
        done.turns += u32::from(self.last != Some(context));
        done.reads |= what.reads;
        done.writes |= what.writes;
        done.loads.extend(Some(pc).filter(|_| what.reads));
        done.stores.extend(Some(pc).filter(|_| what.writes));
        self.first.get_or_insert(context);
        self.last = Some(context);
        self.was_read_by_several |= self.users.len() > 1 && !self.is_written();
    }

    fn is_written(&self) -> bool {
        self.users.values().any(|done| done.writes)
    }

    fn is_shared(&self) -> bool {
        self.users.len() > 1 && self.is_written()
    }
}

fn touched(offset: u32, bytes: u32) -> impl Iterator<Item = u32> {
    offset / LINE..(offset + bytes).div_ceil(LINE)
}

fn all(lines: &Lines<'_>) -> BTreeMap<u32, Shared> {
    let mut found = BTreeMap::new();
    let mut from = Some(0);
    while let Some(at) = from {
        let (shared, next) = lines.next(at);
        found.extend(shared.map(|shared| (shared.offset / LINE, shared)));
        from = next;
    }
    found
}

fn compare(line: &Line, shared: &Shared) -> Result<(), TestCaseError> {
    let mut named = BTreeSet::new();
    let mut several = false;
    for user in shared.users() {
        if user.context == Context::SEVERAL {
            several = true;
            continue;
        }
        prop_assert!(named.insert(user.context), "twice");
        let done = line.users.get(&user.context);
        prop_assert!(done.is_some(), "{:?} has not used it", user);
        let done = done.expect("just looked at");
        prop_assert!(done.reads || !user.reads);
        prop_assert!(done.writes || !user.writes);
        prop_assert!(user.turns <= done.turns && user.turns > 0);
        prop_assert!(user.load == 0 || done.loads.contains(&user.load));
        prop_assert!(user.store == 0 || done.stores.contains(&user.store));
        if !line.was_read_by_several {
            prop_assert_eq!(user.turns, done.turns);
            prop_assert_eq!(user.writes, done.writes);
            prop_assert!(user.reads == done.reads || line.first == Some(user.context));
        }
    }
    prop_assert!(shared.users().any(|user| user.writes));
    prop_assert_eq!(several, line.was_read_by_several || line.users.len() > MOST_USERS);
    prop_assert!(several || named.len() == line.users.len());
    Ok(())
}

proptest! {
    #[test]
    fn what_is_said_is_what_a_model_says(steps in prop::collection::vec(step(), 1..300)) {
        let (mut memory, mut state) = (memory(RAM), State::default());
        let mut lines = Lines::new(RAM, &mut memory, &mut state).expect("enough memory");
        let mut model: BTreeMap<u32, Line> = BTreeMap::new();
        let (mut context, mut interrupted) = (None, None);
        // Of each line who has used it last, as far as that is known, and what they have done since.
        let mut since: BTreeMap<u32, (Context, Use)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Enter(next) => {
                    lines.enter(next);
                    (context, interrupted) = (next, None);
                }
                Step::Interrupt => {
                    if interrupted.is_none() {
                        lines.interrupt();
                        interrupted = Some(context);
                        context = Some(Context::INTERRUPTS);
                    }
                }
                Step::Resume => {
                    lines.resume();
                    context = interrupted.take().unwrap_or(context);
                }
                Step::Access { offset, bytes, what, pc } => {
                    // As translated code does it: it looks at the first and at the last word.
                    let looks = [offset, offset + bytes.saturating_sub(4)];
                    if looks.iter().any(|&at| lines.traps(at, what)) {
                        lines.accessed(offset, bytes, what, pc);
                    }
                    for line in touched(offset, bytes) {
                        if let Some(context) = context {
                            let before = since.entry(line).or_insert((context, NOTHING));
                            if before.0 != context {
                                *before = (context, NOTHING);
                            }
                            before.1.reads |= what.reads;
                            before.1.writes |= what.writes;
                            model.entry(line).or_default().note(context, what, pc);
                        }
                    }
                }
                Step::Device { device, offset, bytes, write } => {
                    lines.device(device, offset, bytes, write);
                    for line in touched(offset, bytes).filter(|_| bytes > 0) {
                        let what = if write { WRITE } else { READ };
                        model.entry(line).or_default().note(Context::of_device(device), what, 0);
                        since.insert(line, (Context::of_device(device), what));
                    }
                }
            }
            for line in (0..USED).filter(|_| context.is_some()) {
                // Who need not ask has done that already, and nobody else has come in between; or it is no news.
                let own = since.get(&line).filter(|(last, _)| Some(*last) == context);
                let done = own.map_or(NOTHING, |(_, done)| *done);
                let only_read = model.get(&line).is_some_and(|line| line.users.len() > 1 && !line.is_written());
                prop_assert!(lines.traps(line * LINE, READ) || done.reads || only_read);
                prop_assert!(lines.traps(line * LINE + 63, WRITE) || done.writes);
            }
        }
        let found = all(&lines);
        let expected: Vec<u32> = model.iter().filter(|(_, line)| line.is_shared()).map(|(at, _)| *at).collect();
        prop_assert_eq!(found.keys().copied().collect::<Vec<_>>(), expected);
        for (at, shared) in &found {
            compare(&model[at], shared)?;
        }
        prop_assert_eq!(state.lost(), 0);
    }

    /// A guest may say anything.
    #[test]
    fn nothing_that_is_said_does_harm(
        steps in prop::collection::vec((any::<u32>(), any::<u32>(), any::<bool>(), 0..6_usize), 1..200),
    ) {
        let (mut memory, mut state) = (memory(RAM), State::default());
        let mut lines = Lines::new(RAM, &mut memory, &mut state).expect("enough memory");
        for (offset, bytes, write, context) in steps {
            lines.enter(Some(Context::of_process(context)));
            lines.accessed(offset, bytes, Use { reads: !write, writes: write }, bytes);
            lines.accessed(offset % RAM, bytes, BOTH, offset);
            lines.device(Device::Other, offset, bytes, write);
        }
        for shared in all(&lines).values() {
            prop_assert!(shared.offset < RAM && shared.users().count() > 1);
        }
    }
}

#[test]
fn lines_without_room_are_counted() {
    let (mut memory, mut state) = (memory(RAM), State::default());
    let mut lines = Lines::new(RAM, &mut memory, &mut state).expect("enough memory");
    for context in [0, 1] {
        lines.enter(Some(Context::of_process(context)));
        for line in 0..RAM / LINE {
            lines.accessed(line * LINE, 4, WRITE, 4);
        }
    }
    let found = all(&lines).len() as u32;
    assert!(found > 0 && found <= RAM / (16 << 10), "{found}");
    assert_eq!(found + state.lost(), RAM / LINE);
}

/// A context that uses more lines than can be open is asked again, and no less is known.
#[test]
fn many_open_lines_are_closed_at_once() {
    let (mut memory, mut state) = (memory(RAM), State::default());
    let mut lines = Lines::new(RAM, &mut memory, &mut state).expect("enough memory");
    lines.enter(Some(Context::INTERRUPTS));
    let most = spica_sharing::MOST_OPEN as u32;
    for line in 0..most {
        lines.accessed(line * LINE, 4, READ, 4);
    }
    assert!((0..most).all(|line| !lines.traps(line * LINE, READ) && lines.traps(line * LINE, WRITE)));
    lines.accessed(most * LINE, 4, READ, 4);
    assert!((0..most).all(|line| lines.traps(line * LINE, READ)));
    assert!(!lines.traps(most * LINE, READ));
    lines.enter(None);
    assert!(lines.traps(most * LINE, READ));
}

/// Who was interrupted need not ask again for what the interrupt has not used.
#[test]
fn lines_are_as_open_behind_an_interrupt_as_before() {
    let (mut memory, mut state) = (memory(RAM), State::default());
    let mut lines = Lines::new(RAM, &mut memory, &mut state).expect("enough memory");
    let opened = |lines: &Lines<'_>| [0, LINE, 2 * LINE].map(|at| (!lines.traps(at, READ), !lines.traps(at, WRITE)));
    lines.enter(Some(Context::of_process(0)));
    lines.accessed(0, 4, READ, 4);
    lines.accessed(LINE, 4, WRITE, 4);
    lines.accessed(2 * LINE, 4, BOTH, 4);
    assert_eq!(opened(&lines), [(true, false), (false, true), (true, true)]);
    lines.interrupt();
    assert_eq!(opened(&lines), [(false, false); 3]);
    lines.accessed(LINE, 4, READ, 8);
    lines.resume();
    assert_eq!(opened(&lines), [(true, false), (false, false), (true, true)]);
    // The next one has what it had used, and need not ask for that again.
    lines.interrupt();
    assert_eq!(opened(&lines), [(false, false), (true, false), (false, false)]);
    lines.resume();
    assert_eq!(opened(&lines), [(true, false), (false, false), (true, true)]);
    // A device may have used any.
    lines.interrupt();
    lines.device(Device::Disk, 0, 1, true);
    lines.resume();
    assert_eq!(opened(&lines), [(false, false); 3]);
    lines.accessed(LINE, 4, READ, 4);
    lines.interrupt();
    assert_eq!(opened(&lines), [(false, false); 3]);
    lines.enter(Some(Context::of_process(1)));
    lines.resume();
    assert_eq!(opened(&lines), [(false, false); 3]);
}

#[test]
fn processes_have_contexts_in_the_order_in_which_they_appear() {
    let mut processes = Processes::default();
    let tasks: Vec<u32> = (0..MOST_PROCESSES as u32 + 3).map(|number| 0xc100_0000 + 64 * number).collect();
    let contexts: Vec<Context> = tasks.iter().map(|&task| processes.context(task)).collect();
    let (own, others) = contexts.split_at(MOST_PROCESSES);
    assert_eq!(own.iter().collect::<BTreeSet<_>>().len(), MOST_PROCESSES);
    assert!(others.iter().all(|&context| context == Context::OTHER_PROCESSES));
    assert_eq!(processes.context(tasks[1]), own[1]);
    let known: Vec<(Context, u32)> = processes.iter().collect();
    assert_eq!(known, own.iter().copied().zip(tasks).collect::<Vec<_>>());
    // No two contexts have the same number.
    let special = [Context::INTERRUPTS, Context::OTHER_PROCESSES, Context::SEVERAL];
    let devices = [Device::Disk, Device::Network, Device::Console, Device::Other].map(Context::of_device);
    let all: BTreeSet<u8> = special.iter().chain(&devices).chain(own).map(|context| context.number()).collect();
    assert_eq!(all.len(), special.len() + devices.len() + MOST_PROCESSES);
    assert!(all.iter().all(|&number| Context::of_number(number.into()).is_some()));
    assert!(Context::of_number(0).is_none() && Context::of_number(32).is_none());
}
