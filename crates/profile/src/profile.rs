//! A profile: what the instructions of a workload went to, and whether it adds up.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::area::{KERNEL_CODE, NEW_BLOCKS, REFLECTED, TO_STUBS, USER, Window, of_kind};
use crate::code::Rule;
use crate::cycles::Cycles;
use crate::executed::{Executed, executed};
use crate::image::{Image, Symbol};
use crate::slow::{self, KINDS};

/// How far the sum of a profile may be from what QEMU says was executed, of that.
///
/// The plugin counts an instruction when it begins, QEMU when it is done: one that faults and is begun again is counted
/// once more here. That is an instruction for each fault, and each takes hundreds.
pub const BOUND: f64 = 0.001;

/// The same for what the workload reports. Its clock is not read in the very instruction where the board is stopped: a
/// tick of the timer may fall in between.
pub const BOUND_OF_CLOCK: f64 = 0.01;

/// The row of the branches that are executed in place of an instruction that has a stub.
pub(crate) const TO_STUBS_ROW: &str = "branches to stubs";

/// A part of the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Section {
    /// The guest's own instructions.
    Guest,
    /// What translation adds, per rule.
    Translation,
    /// Traps that are answered in assembly.
    Fast,
    /// Traps that Rust answers.
    Slow,
    /// Making translations.
    Translator,
    /// Shadow page tables.
    Mmu,
    /// Devices, interrupts and time.
    Devices,
    /// Guests and whose turn it is.
    Scheduler,
    /// What belongs nowhere else.
    Other,
}

impl Section {
    /// All of them, in the order of the table.
    pub const ALL: [Section; 9] = [
        Section::Guest,
        Section::Translation,
        Section::Fast,
        Section::Slow,
        Section::Translator,
        Section::Mmu,
        Section::Devices,
        Section::Scheduler,
        Section::Other,
    ];

    /// For programs, and in the notes of the image.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Section::Guest => "guest",
            Section::Translation => "translation",
            Section::Fast => "fast",
            Section::Slow => "slow",
            Section::Translator => "translator",
            Section::Mmu => "mmu",
            Section::Devices => "devices",
            Section::Scheduler => "scheduler",
            Section::Other => "other",
        }
    }

    /// For people.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Section::Guest => "the guest's own instructions",
            Section::Translation => "translation overhead, by rule",
            Section::Fast => "fast traps (assembly)",
            Section::Slow => "slow traps (Rust)",
            Section::Translator => "translator",
            Section::Mmu => "MMU",
            Section::Devices => "devices, interrupts, time",
            Section::Scheduler => "guests and scheduler",
            Section::Other => "other",
        }
    }
}

/// A row of the table, for one operation.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// What it is.
    pub name: String,
    /// Instructions.
    pub instructions: f64,
    /// How often it happens: guest instructions of a rule, entries of a handler. Where nothing says it, `None`.
    pub times: Option<f64>,
}

/// Rows that belong together.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Part {
    /// What they are.
    pub section: Section,
    /// The largest first.
    pub rows: Vec<Row>,
}

impl Part {
    /// The sum of its rows.
    #[must_use]
    pub fn instructions(&self) -> f64 {
        self.rows.iter().map(|row| row.instructions).sum()
    }
}

/// The same work on the bare board.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Native {
    /// Instructions of user code, for one operation.
    pub user: f64,
    /// Instructions of the kernel.
    pub kernel: f64,
    /// Blocks of the kernel that are executed for the first time, as QEMU divides its code.
    pub new_blocks: f64,
}

/// See the module's text.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Profile {
    /// The workload's name.
    pub workload: String,
    /// What one operation is.
    pub operation: String,
    /// How many were counted.
    pub operations: u64,
    /// Instructions of one, as QEMU counts them.
    pub executed: f64,
    /// Instructions of one, as the workload itself reports them by the guest's clock, if it does.
    pub reported: Option<f64>,
    /// The same without Spica, if that was run.
    pub native: Option<Native>,
    /// What they went to.
    pub parts: Vec<Part>,
    /// The slow traps by kind, with all that Spica executed for them. The same instructions are in `parts`, too, by
    /// function.
    pub slow: Vec<Row>,
    /// Spica's functions that took most, by themselves.
    pub symbols: Vec<Row>,
    /// Its cycles, if they were modelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles: Option<Cycles>,
}

/// How many of Spica's functions are named.
const SYMBOLS: usize = 15;

/// Collects rows of whole windows.
#[derive(Default)]
struct Sums(BTreeMap<(Section, String), (i64, Option<i64>)>);

impl Sums {
    fn add(&mut self, section: Section, row: &str, instructions: i64, times: Option<i64>) {
        let (sum, all) = self.0.entry((section, row.to_string())).or_default();
        *sum += instructions;
        if let Some(times) = times {
            *all = Some(all.unwrap_or_default() + times);
        }
    }
}

/// What is profiled.
#[derive(Clone, Debug)]
pub struct Workload<'a> {
    /// Its name.
    pub name: &'a str,
    /// What one operation is.
    pub operation: &'a str,
    /// How many are in the window.
    pub operations: u64,
    /// The instructions of the window that were executed before the MMU was on, where addresses say nothing.
    pub before_mmu: i64,
}

/// The profile of what was counted in a window, with Spica's `image`.
#[must_use]
pub fn profile(workload: &Workload<'_>, window: &Window<'_>, image: &Image) -> Profile {
    let mut sums = Sums::default();
    sums.add(Section::Guest, "user code", window.counter(USER) - workload.before_mmu, None);
    if workload.before_mmu != 0 {
        sums.add(Section::Other, "start: before the MMU is on", workload.before_mmu, None);
    }
    code_cache(&mut sums, window);
    sums.add(Section::Guest, "kernel code", window.counter(KERNEL_CODE), None);
    sums.add(Section::Translation, TO_STUBS_ROW, window.counter(TO_STUBS), None);
    sums.add(Section::Translation, "the return mirror's branches", window.counter(REFLECTED), None);
    let mut symbols = Vec::new();
    for piece in &image.pieces {
        let instructions: i64 = piece.range.clone().step_by(4).map(|at| window.at(at)).sum();
        let times = piece.counted.then(|| window.at(piece.range.start));
        sums.add(piece.section, &piece.row, instructions, times);
        symbols.push((piece, instructions));
    }
    let each = |sum: i64| sum as f64 / workload.operations as f64;
    let mut parts: Vec<_> = Section::ALL.map(|section| Part { section, rows: Vec::new() }).into();
    for ((section, name), (instructions, times)) in sums.0 {
        if instructions != 0 || times.is_some_and(|times| times != 0) {
            let row = Row { name, instructions: each(instructions), times: times.map(each) };
            parts.iter_mut().filter(|p| p.section == section).for_each(|p| p.rows.push(row.clone()));
        }
    }
    let by_size = |a: &Row, b: &Row| b.instructions.total_cmp(&a.instructions);
    parts.iter_mut().for_each(|part| part.rows.sort_by(by_size));
    let slow = (0..KINDS).map(|kind| {
        let [instructions, times] = of_kind(kind).map(|counter| each(window.counter(counter)));
        Row { name: slow::name(kind, image), instructions, times: Some(times) }
    });
    let mut slow: Vec<_> = slow.filter(|row| row.instructions != 0.0).collect();
    slow.sort_by(by_size);
    symbols.sort_by_key(|(_, instructions)| -instructions);
    let symbols = symbols.into_iter().take(SYMBOLS).filter(|(_, instructions)| *instructions > 0);
    let row = |(piece, instructions): (&Symbol, i64)| Row {
        name: piece.name.clone(),
        instructions: each(instructions),
        times: Some(each(window.at(piece.range.start))),
    };
    Profile {
        workload: workload.name.into(),
        operation: workload.operation.into(),
        operations: workload.operations,
        executed: each(window.executed()),
        reported: None,
        native: None,
        parts,
        slow,
        symbols: symbols.map(row).collect(),
        cycles: None,
    }
}

/// The words of the code cache, by what they count as.
fn code_cache(sums: &mut Sums, window: &Window<'_>) {
    let (mut own, mut unknown) = (0, 0);
    let mut rules: BTreeMap<Rule, (i64, i64)> = BTreeMap::new();
    for Executed { class, count, .. } in executed(window) {
        let Some(class) = class else {
            unknown += count;
            continue;
        };
        let (guest, overhead) = rules.entry(class.rule).or_default();
        if class.own {
            own += count;
            *guest += count;
        } else {
            *overhead += count;
        }
    }
    sums.add(Section::Guest, "kernel code", own, None);
    for (rule, (guest, overhead)) in rules {
        // Those that are copied have none.
        if rule != Rule::Copied {
            sums.add(Section::Translation, rule.name(), overhead, Some(guest).filter(|_| rule != Rule::BlockEnd));
        }
    }
    if unknown != 0 {
        sums.add(Section::Translation, "words that no rule is known to emit", unknown, None);
    }
}

/// The bare board's instructions, for one of `operations`.
#[must_use]
pub fn native(window: &Window<'_>, operations: u64, before_mmu: i64) -> Native {
    let user = window.counter(USER) - before_mmu;
    let kernel = window.executed() - user;
    let [user, kernel, new_blocks] =
        [user, kernel, window.counter(NEW_BLOCKS)].map(|count| count as f64 / operations as f64);
    Native { user, kernel, new_blocks }
}

impl Profile {
    /// The sum of all rows.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.parts.iter().map(Part::instructions).sum()
    }

    /// Whether the rows come to what was executed, and that to what the workload reports.
    ///
    /// # Errors
    /// What does not add up.
    pub fn check(&self) -> Result<(), String> {
        let far = |a: f64, b: f64, bound: f64| (a - b).abs() > b.abs() * bound + 1.0;
        if far(self.sum(), self.executed, BOUND) {
            return Err(format!(
                "the profile of {} comes to {:.1} instructions for an operation, and {:.1} were executed",
                self.workload,
                self.sum(),
                self.executed
            ));
        }
        match self.reported {
            Some(reported) if far(reported, self.executed, BOUND_OF_CLOCK) => Err(format!(
                "{} reports {reported:.1} instructions for an operation, and {:.1} were executed",
                self.workload, self.executed
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::area::{BYTES, CACHE, Counted, IMAGE, copy_of_page, counter};

    /// Counters at addresses, and words of the code cache's second page.
    fn counted(executed: u64, counts: &[(u32, u64)], code: &[u32]) -> Counted {
        let mut bytes = vec![0; BYTES];
        for (at, count) in counts {
            bytes[8 * counter(*at)..][..8].copy_from_slice(&count.to_ne_bytes());
        }
        let page = copy_of_page(CODE).unwrap() + 0x100;
        for (n, word) in code.iter().enumerate() {
            bytes[page + 4 * n..][..4].copy_from_slice(&word.to_le_bytes());
        }
        Counted::from_bytes(executed, &bytes).unwrap()
    }

    const CODE: u32 = CACHE.start + 0x1000;

    #[test]
    fn rows_add_up() {
        // Landing, mov, bl: LR's two halves, exit, its number.
        let code = [0xe59f_eeef & !0xfff | 0xf04, 0xe1a0_0000, 0xe300_e01c, 0xe34c_e010, 0xef00_0001, 7];
        let piece = |range, name: &str, section, row: &str, counted| {
            let at = |offset| IMAGE.start + offset;
            let Range { start, end } = range;
            Symbol { range: at(start)..at(end), name: name.into(), section, row: row.into(), counted }
        };
        let pieces = vec![
            piece(0..8, "indirect", Section::Fast, "indirect branches", true),
            piece(8..0x100, "spica_dbt::block::translate", Section::Translator, "spica_dbt::block", false),
        ];
        let image = Image { pieces, ..Image::default() };
        let counts = [
            (0x1_0000, 40),
            (CODE + 0x100, 2),
            (CODE + 0x104, 10),
            (CODE + 0x108, 10),
            (CODE + 0x10c, 10),
            (CODE + 0x110, 10),
            (IMAGE.start, 6),
            (IMAGE.start + 4, 6),
            (IMAGE.start + 12, 16),
        ];
        let (none, all) = (Counted::nothing(), counted(110, &counts, &code));
        let workload = Workload { name: "w", operation: "o", operations: 2, before_mmu: 4 };
        let profile = profile(&workload, &Window::between(&none, &all), &image);
        let row = |section: Section, name: &str| {
            let part = profile.parts.iter().find(|p| p.section == section).unwrap();
            let row = part.rows.iter().find(|r| r.name == name).unwrap_or_else(|| panic!("{name}: {part:?}"));
            (row.instructions, row.times)
        };
        assert_eq!(row(Section::Guest, "user code"), (18.0, None));
        assert_eq!(row(Section::Other, "start: before the MMU is on"), (2.0, None));
        assert_eq!(row(Section::Guest, "kernel code"), (10.0, None));
        assert_eq!(row(Section::Translation, Rule::Branch.name()), (10.0, Some(5.0)));
        assert_eq!(row(Section::Translation, Rule::Indirect.name()), (1.0, Some(0.0)));
        assert_eq!(row(Section::Fast, "indirect branches"), (6.0, Some(3.0)));
        assert_eq!(row(Section::Translator, "spica_dbt::block"), (8.0, None));
        assert_eq!((profile.sum(), profile.executed, profile.check()), (55.0, 55.0, Ok(())));
        assert_eq!(profile.symbols[0].name, "spica_dbt::block::translate");

        let less = Profile { executed: 60.0, ..profile.clone() };
        assert!(less.check().unwrap_err().contains("comes to 55.0 instructions"));
        let other = Profile { reported: Some(70.0), ..profile };
        assert!(other.check().unwrap_err().contains("reports 70.0"));
    }

    #[test]
    fn the_bare_board_has_a_kernel_and_user_code() {
        let (none, all) = (Counted::nothing(), counted(100, &[(0x1_0000, 40), (0xc010_0000, 59)], &[]));
        let expected = Native { user: 15.0, kernel: 35.0, new_blocks: 0.0 };
        assert_eq!(native(&Window::between(&none, &all), 2, 10), expected);
    }
}
