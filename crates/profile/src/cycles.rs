//! Where the cycles of a workload go, by the model of a core (`spica_cycles`): which part of the time each row of a
//! profile is, and which pages, lines and instructions are at fault.
//!
//! What is counted is due to an instruction: a miss, to the one that was fetched, loaded or stored; a misprediction, to
//! the branch; the entry of an exception, to what came before it.

use std::collections::BTreeMap;

use serde::Serialize;
use spica_cycles::{Core, Count, Counts, Part, price};

use crate::area::{self, IMAGE, MIRROR, PAGE, Window};
use crate::executed::executed;
use crate::image::Image;
use crate::profile::Section;

/// What is due to each instruction, by its address.
pub type Places = BTreeMap<u32, Counts>;

/// So many pages, lines and instructions are named.
const NAMED: usize = 15;

/// What was due in a window of time, or in one less another: as [`Window`].
#[derive(Clone, Copy, Debug)]
pub struct Due<'a> {
    /// Where the window begins and ends.
    pub window: [&'a Places; 2],
    /// A window that is taken off.
    pub less: Option<[&'a Places; 2]>,
}

impl Due<'_> {
    fn differences(&self) -> BTreeMap<u32, [i64; Counts::LENGTH]> {
        let mut sums: BTreeMap<u32, [i64; Counts::LENGTH]> = BTreeMap::new();
        let mut add = |places: &Places, sign: i64| {
            for (&address, counts) in places {
                let sum = sums.entry(address).or_insert([0; Counts::LENGTH]);
                sum.iter_mut().zip(counts.numbers()).for_each(|(sum, n)| *sum += sign * n.cast_signed());
            }
        };
        for ([from, to], sign) in
            [(Some(self.window), 1), (self.less, -1)].into_iter().filter_map(|(w, s)| Some((w?, s)))
        {
            add(to, sign);
            add(from, -sign);
        }
        sums.retain(|_, sum| sum.iter().any(|n| *n != 0));
        sums
    }
}

/// Cycles by the parts of the time, in the order of [`Part::ALL`], at the middle prices.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize)]
pub struct Parts(pub [f64; Part::ALL.len()]);

impl Parts {
    fn of(core: Core, counts: &[i64; Counts::LENGTH], operations: u64) -> Self {
        let mut parts = Self::default();
        for (count, times) in Count::ALL.iter().zip(counts) {
            if let Some(at) = Part::ALL.iter().position(|part| *part == count.part()) {
                parts.0[at] += price::of(core, *count).cycles.mid * *times as f64 / operations as f64;
            }
        }
        parts
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }

    /// The cycles of these parts of the time.
    #[must_use]
    pub fn some(&self, which: &[Part]) -> f64 {
        Part::ALL.iter().zip(self.0).filter(|(part, _)| which.contains(part)).map(|(_, cycles)| cycles).sum()
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.0.iter().sum()
    }

    /// All but what the pipeline alone takes.
    #[must_use]
    pub fn beyond_base(&self) -> f64 {
        self.total() - self.some(&[Part::Base])
    }
}

/// A row of the table, for one operation.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Where it belongs.
    pub section: Section,
    /// What it is: the same as in the profile of instructions.
    pub name: String,
    /// Its cycles.
    pub parts: Parts,
}

/// A page, a line, or an instruction.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Spot {
    /// Its address.
    pub address: u32,
    /// What is there.
    pub what: String,
    /// Its cycles.
    pub parts: Parts,
}

/// The cycles of an operation.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Cycles {
    /// The core that is modelled.
    pub core: String,
    /// All of them, at low, middle and high prices.
    pub total: [f64; 3],
    /// Those of the bare board's user code and kernel, if that was run.
    pub native: Option<[Parts; 2]>,
    /// What they went to.
    pub rows: Vec<Row>,
    /// The pages of code that take most beyond what the pipeline alone does.
    pub pages: Vec<Spot>,
    /// The lines of the instruction cache.
    pub lines: Vec<Spot>,
    /// The instructions.
    pub instructions: Vec<Spot>,
}

impl Cycles {
    /// Those of all rows.
    #[must_use]
    pub fn parts(&self) -> Parts {
        let mut sum = Parts::default();
        self.rows.iter().for_each(|row| sum.add(&row.parts));
        sum
    }
}

/// An instruction: where it belongs, and what it is.
struct Known {
    section: Section,
    row: String,
    what: String,
}

/// The cycles of each of `operations` in a window, in which instructions were executed as `window` has it.
#[must_use]
pub fn cycles(core: Core, due: &Due<'_>, window: &Window<'_>, operations: u64, image: &Image) -> Cycles {
    let differences = due.differences();
    let mut translated = BTreeMap::new();
    for word in executed(window) {
        let own = word.class.is_some_and(|class| class.own);
        let rule = word.class.map_or("words that no rule is known to emit", |class| class.rule.name());
        let instruction = spica_isa::decode(word.word).to_string();
        let (section, row) = if own { (Section::Guest, "kernel code") } else { (Section::Translation, rule) };
        let known = Known { section, row: row.into(), what: format!("{instruction} ({rule})") };
        translated.insert(word.at, known);
    }
    let known = |address: u32| -> Known {
        let known = |section, row: &str, what: String| Known { section, row: row.into(), what };
        if area::is_cached(address) {
            return translated.get(&address).map_or_else(
                || known(Section::Translation, "words that no rule is known to emit", "translated code".into()),
                |k| known(k.section, &k.row, k.what.clone()),
            );
        }
        if MIRROR.contains(&address) {
            return known(Section::Translation, "the return mirror's branches", "the return mirror".into());
        }
        if let Some(piece) = image.pieces.iter().find(|piece| piece.range.contains(&address)) {
            let offset = address - piece.range.start;
            return known(piece.section, &piece.row, format!("{}+{offset:#x}", piece.name));
        }
        match area::counter(address) {
            area::USER => known(Section::Guest, "user code", "user code".into()),
            // Which words lead to stubs is not noted.
            area::KERNEL_CODE => known(Section::Guest, "kernel code", "kernel code in place".into()),
            _ => known(Section::Other, "what has no place", "what has no place".into()),
        }
    };
    let mut rows: BTreeMap<(Section, String), Parts> = BTreeMap::new();
    let mut sum = [0; Counts::LENGTH];
    let mut instructions = Vec::new();
    for (&address, counts) in &differences {
        sum.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
        let parts = Parts::of(core, counts, operations);
        let Known { section, row, what } = known(address);
        rows.entry((section, row)).or_default().add(&parts);
        instructions.push(Spot { address, what, parts });
    }
    let mut rows: Vec<_> = rows.into_iter().map(|((section, name), parts)| Row { section, name, parts }).collect();
    rows.sort_by(|a, b| a.section.cmp(&b.section).then(b.parts.total().total_cmp(&a.parts.total())));
    let sum = Counts::of(sum.map(|n| u64::try_from(n).unwrap_or(0)));
    let total = price::total(core, &sum);
    let line = core.parts().instruction_cache.line;
    Cycles {
        core: core.to_string(),
        total: [total.low, total.mid, total.high].map(|cycles| cycles / operations as f64),
        native: None,
        rows,
        pages: most(joined(&instructions, PAGE as u32, image)),
        lines: most(joined(&instructions, line, image)),
        instructions: most(instructions),
    }
}

/// The cycles of the bare board's user code and kernel, for one of `operations`.
#[must_use]
pub fn native(core: Core, due: &Due<'_>, operations: u64) -> [Parts; 2] {
    let mut split = [Parts::default(); 2];
    for (address, counts) in due.differences() {
        let kernel = usize::from(area::counter(address) != area::USER);
        split[kernel].add(&Parts::of(core, &counts, operations));
    }
    split
}

/// What lies in the same stretch of so many bytes, together.
fn joined(instructions: &[Spot], bytes: u32, image: &Image) -> Vec<Spot> {
    let mut joined: BTreeMap<u32, Parts> = BTreeMap::new();
    for spot in instructions {
        joined.entry(spot.address / bytes * bytes).or_default().add(&spot.parts);
    }
    let spot = |(address, parts)| Spot { address, what: stretch(address, bytes, image), parts };
    joined.into_iter().map(spot).collect()
}

/// What is in a stretch of code.
fn stretch(address: u32, bytes: u32, image: &Image) -> String {
    if area::is_cached(address) {
        return "translated code".into();
    }
    if MIRROR.contains(&address) {
        return "the return mirror".into();
    }
    if !IMAGE.contains(&address) {
        return match area::counter(address) {
            area::USER => "user code",
            area::KERNEL_CODE => "kernel code in place",
            _ => "what has no place",
        }
        .into();
    }
    let here = address..address + bytes;
    let inside = |p: &&crate::image::Symbol| p.range.start < here.end && here.start < p.range.end;
    let mut names: Vec<_> = image.pieces.iter().filter(inside).map(|p| p.name.as_str()).collect();
    let more = names.len().saturating_sub(3);
    names.truncate(3);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", names.join(", "))
}

/// Those that take most beyond what the pipeline alone does.
fn most(mut spots: Vec<Spot>) -> Vec<Spot> {
    spots.sort_by(|a, b| b.parts.beyond_base().total_cmp(&a.parts.beyond_base()));
    spots.truncate(NAMED);
    spots.retain(|spot| spot.parts.beyond_base() > 0.0);
    spots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::area::{BYTES, CACHE, Counted, copy_of_page};
    use crate::image::Symbol;

    fn counts(of: &[(Count, u64)]) -> Counts {
        let mut counts = Counts::default();
        of.iter().for_each(|(count, n)| counts.set(*count, *n));
        counts
    }

    #[test]
    fn cycles_have_rows_pages_lines_and_instructions() {
        let code = CACHE.start + 0x1100;
        let mut bytes = vec![0; BYTES];
        // Landing, mov r0, r0, LR's two halves, exit, its number.
        for (n, word) in [0xe59f_ef04u32, 0xe1a0_0000, 0xe300_e01c, 0xe34c_e010, 0xef00_0001, 7].iter().enumerate() {
            bytes[copy_of_page(code).unwrap() + 0x100 + 4 * n..][..4].copy_from_slice(&word.to_le_bytes());
        }
        let places = Places::from([
            (0x1_0000, counts(&[(Count::Instructions, 10), (Count::Base, 10)])),
            (code, counts(&[(Count::Instructions, 2), (Count::Base, 2), (Count::FetchOuter, 2)])),
            (code + 4, counts(&[(Count::Instructions, 2), (Count::Base, 2), (Count::DataWalk, 2)])),
            (IMAGE.start + 4, counts(&[(Count::Instructions, 2), (Count::Base, 4), (Count::Isb, 2)])),
            (MIRROR.start, counts(&[(Count::Instructions, 2), (Count::MissedIndirect, 2)])),
        ]);
        let piece = Symbol {
            range: IMAGE.start..IMAGE.start + 0x100,
            name: "indirect".into(),
            section: Section::Fast,
            row: "indirect branches".into(),
            counted: true,
        };
        let image = Image { pieces: vec![piece], ..Image::default() };
        let (none, all) = (Counted::nothing(), Counted::of_places(18, &bytes, &places).unwrap());
        let (before, window) = (Places::new(), Window::between(&none, &all));
        let due = Due { window: [&before, &places], less: None };
        let core = Core::CortexA8;
        let cycles = cycles(core, &due, &window, 2, &image);

        let price = |count| price::of(core, count).cycles.mid;
        let row = |section, name: &str| cycles.rows.iter().find(|r| (r.section, &*r.name) == (section, name)).unwrap();
        assert_eq!(row(Section::Guest, "user code").parts.total(), 5.0);
        assert_eq!(row(Section::Guest, "kernel code").parts.total(), 1.0 + price(Count::DataWalk));
        let fast = row(Section::Fast, "indirect branches").parts;
        assert_eq!((fast.total(), fast.beyond_base()), (2.0 + price(Count::Isb), price(Count::Isb)));
        let mirror = row(Section::Translation, "the return mirror's branches").parts;
        assert_eq!(mirror.some(&[Part::MissedIndirect]), price(Count::MissedIndirect));
        assert!((cycles.total[1] - cycles.parts().total()).abs() < 1e-9);
        assert!(cycles.total[0] < cycles.total[1] && cycles.total[1] < cycles.total[2]);

        let page = cycles.pages.iter().find(|page| page.address == code & !0xfff).unwrap();
        let beyond = price(Count::FetchOuter) + price(Count::DataWalk);
        assert_eq!((page.parts.beyond_base(), page.what.as_str()), (beyond, "translated code"));
        assert!(cycles.lines.iter().any(|line| line.address == code & !63 && line.parts.beyond_base() == beyond));
        assert!(cycles.instructions.iter().any(|i| i.address == IMAGE.start + 4 && i.what == "indirect+0x4"));
        let landing = cycles.instructions.iter().find(|i| i.address == code).unwrap();
        assert_eq!(landing.what, "ldr lr, [pc, #0xf04] (returns and indirect branches)");
        assert!(cycles.instructions.iter().all(|i| i.address != 0x1_0000), "it takes the pipeline's cycles alone");
    }

    #[test]
    fn the_second_of_two_windows_counts_by_what_it_has_more() {
        let at = |n| Places::from([(0x1_0000, counts(&[(Count::Base, n)])), (0xc000_0000, counts(&[(Count::Dsb, n)]))]);
        let (a, b, c) = (at(10), at(15), at(35));
        let due = Due { window: [&b, &c], less: Some([&a, &b]) };
        let [user, kernel] = native(Core::CortexA9, &due, 3);
        assert_eq!(user.total(), 5.0);
        assert_eq!(kernel.total(), 5.0 * price::of(Core::CortexA9, Count::Dsb).cycles.mid);
        assert_eq!(Due { window: [&b, &b], less: None }.differences().len(), 0);
    }
}
