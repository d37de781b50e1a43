//! A code page read from its first word on, translation by translation.

use spica_dbt::layout::{HOT_FIELDS, PAGE_WORDS};
use spica_dbt::{Options, trap};
use spica_isa::{Mem, MemSize, Op, Reg, decode};
use spica_vcpu::{Bank, field};

use super::word::Word;
use super::{Class, Rule};

/// At most this many words does a translation have.
const LONGEST: usize = 32;
/// When a block ends for want of room: `emit::ROOM` and `emit::MAX_EXITS`.
const ROOM: usize = 32;
const MOST_EXITS: usize = 24;

/// What the words of a code page count as, if they are code: `words` is the page as it was when the last of them was
/// written. `near`: of the code cache near a kernel that runs in place, where each exit leads back to that.
#[must_use]
pub fn classes(words: &[u32], near: bool) -> Vec<Option<Class>> {
    let words = &words[..PAGE_WORDS.min(words.len())];
    let mut page = Page {
        words,
        classes: vec![None; words.len()],
        cold: words.len(),
        exits: 0,
        instructions: 0,
        split: false,
        near,
        most: Options::all().max_block,
    };
    let mut at = HOT_FIELDS as usize / 4;
    // What was not written yet is 0, an instruction that no compiler emits.
    while at < page.cold && words[at] != 0 {
        at = page.step(at);
    }
    page.classes
}

/// The translation of one guest instruction.
struct Translation {
    rule: Rule,
    /// The word behind it.
    end: usize,
    /// How many of its last words are literals.
    literals: usize,
    /// Its way out in the cold part.
    slow: Option<usize>,
}

impl Translation {
    fn new(rule: Rule, end: usize) -> Self {
        Self { rule, end, literals: 0, slow: None }
    }
}

struct Page<'a> {
    words: &'a [u32],
    classes: Vec<Option<Class>>,
    /// The lowest cold word of the blocks so far.
    cold: usize,
    /// Exits of the block so far.
    exits: usize,
    /// Guest instructions of the block so far.
    instructions: usize,
    /// The block has to end here.
    split: bool,
    /// All exits are ends of stubs.
    near: bool,
    /// [`Options::max_block`].
    most: usize,
}

impl Page<'_> {
    fn word(&self, at: usize) -> Word {
        if at < self.cold { Word::of(at, self.words[at]) } else { Word::Plain }
    }

    fn set(&mut self, at: usize, rule: Rule, own: bool) {
        if let Some(class) = self.classes.get_mut(at) {
            *class = Some(Class { rule, own });
        }
    }

    /// Takes what begins at `at`; gives where it ends.
    fn step(&mut self, at: usize) -> usize {
        let first = self.word(at);
        if first.is_landing() {
            self.begin_block();
            self.set(at, Rule::Indirect, false);
            return at + 1;
        }
        if first.exits() {
            let goes_on = self.near
                || self.split
                || self.instructions >= self.most
                || at + ROOM > self.cold
                || self.exits + 2 > MOST_EXITS;
            let rule = if goes_on { Rule::BlockEnd } else { Rule::Branch };
            self.set(at, rule, !goes_on);
            self.begin_block();
            return at + 2;
        }
        self.split = first == Word::Barrier;
        let skipped = self.skipped(at);
        let begin = at + usize::from(skipped.is_some());
        let mut translation = self.translation(begin);
        // A condition that a branch stands for holds for all of it.
        while let Some(end) = skipped.filter(|end| translation.end < *end) {
            let more = self.translation(translation.end);
            translation =
                Translation { rule: if more.rule == Rule::Copied { translation.rule } else { more.rule }, ..more };
            translation.end = translation.end.min(end);
        }
        for word in at..translation.end - translation.literals {
            self.set(word, translation.rule, word == at);
        }
        if let Some(slow) = translation.slow {
            self.follow(slow, translation.rule);
        }
        self.instructions += 1;
        let exits = translation.rule == Rule::Branch && translation.literals == 1;
        if skipped.is_none() && (exits || self.leaves(translation.end)) {
            self.begin_block();
        }
        translation.end
    }

    fn begin_block(&mut self) {
        self.exits = 0;
        self.instructions = 0;
        self.split = false;
    }

    /// Whether a translation that ends here is the end of its block.
    fn leaves(&self, end: usize) -> bool {
        let always = self.words[end - 1] >> 28 == 0xe;
        match self.word(end - 1) {
            Word::Trap(number) => {
                always && (matches!(number, trap::INDIRECT | trap::EXCEPTION_RETURN) || number & !0xf == trap::CLOSED)
            }
            word => always && word == Word::Reflect,
        }
    }

    /// Where the branch at `at` leads, if it is taken where a condition does not hold, over what stands for the rest of
    /// a guest instruction. Else it is a side exit: to its stub, or to a block, which begins with its landing in front.
    fn skipped(&self, at: usize) -> Option<usize> {
        let Word::Branch { always: false, words } = self.word(at) else { return None };
        let target = at + usize::try_from(words).ok().filter(|n| (2..=LONGEST).contains(n))?;
        (target + 2 < self.cold && !self.word(target - 1).is_landing()).then_some(target)
    }

    /// The translation that begins at `at`, behind a branch over it.
    fn translation(&mut self, at: usize) -> Translation {
        match self.word(at) {
            Word::Field { load, rt, field } => self.with_field(at, load, rt, field),
            Word::Half { rd: Reg::LR, top: false } => self.with_link(at),
            Word::Trap(trap::EMULATE) => Translation { literals: 2, ..Translation::new(Rule::Emulated, at + 3) },
            Word::Trap(trap::COUNTER) => Translation::new(Rule::Counter, at + 3),
            Word::Trap(number) => Translation::new(of_trap(number), at + 1),
            Word::Branch { always: false, .. } => {
                self.exits += 1;
                self.cold -= 2;
                self.set(self.cold, Rule::Branch, false);
                Translation::new(Rule::Branch, at + 1)
            }
            word if word.exits() => {
                self.exits += 1;
                Translation { literals: 1, ..Translation::new(Rule::Branch, at + 2) }
            }
            Word::Reflect => Translation::new(Rule::Indirect, at + 1),
            // A load of both, the rest of the list behind that by way of a base of its own.
            _ if self.stores_user_bank(at + 1) && self.stores_user_bank(at + 2) => {
                Translation::new(Rule::UserBank, at + 5)
            }
            _ => Translation::new(Rule::Copied, at + 1),
        }
    }

    fn with_field(&mut self, at: usize, load: bool, rt: Reg, field: u32) -> Translation {
        match field {
            _ if self.word(at).is_put_away() => self.reflection(at),
            f if f == field::spill(0) && !load => self.spilled(at, rt),
            field::DACR if !load => self.closing(at, Rule::Dacr),
            field::FPEXC if !load => self.closing(at, Rule::Fpexc),
            field::FPEXC => Translation::new(Rule::Fpexc, at + 2),
            field::TARGET => self.targeted(at),
            field::SPSR => Translation::new(Rule::Status, at + 1),
            field::STALE => Translation::new(Rule::Cache, at + 1),
            field::STALE_CODE => Translation::new(Rule::Cache, at + 2),
            _ => Translation::new(Rule::Register, at + 1),
        }
    }

    /// LR becomes a constant: for a call, if one follows.
    fn with_link(&mut self, at: usize) -> Translation {
        let next = self.word(at + 2);
        if self.word(at + 1) != (Word::Half { rd: Reg::LR, top: true }) {
            Translation::new(Rule::Copied, at + 1)
        } else if next.exits() {
            self.exits += 1;
            Translation { literals: 1, ..Translation::new(Rule::Branch, at + 4) }
        } else if next.is_put_away() {
            self.reflection(at)
        } else {
            Translation::new(Rule::Copied, at + 1)
        }
    }

    /// To the branch through the mirror.
    fn reflection(&self, at: usize) -> Translation {
        let branch = (at + 1..at + 8).find(|&word| self.word(word).reflects());
        Translation::new(Rule::Indirect, branch.unwrap_or(at) + 1)
    }

    /// The operand of a trap is where indirect branches have their target.
    fn targeted(&mut self, at: usize) -> Translation {
        let mut next = at + 1;
        if self.word(next) == (Word::Half { rd: Reg::LR, top: false }) {
            next += 2;
        }
        let Word::Trap(number) = self.word(next) else { return Translation::new(Rule::Register, next) };
        let access = usize::from(matches!(number, trap::UNPRIVILEGED_LOAD | trap::UNPRIVILEGED_STORE));
        Translation::new(of_trap(number), next + 1 + access)
    }

    /// A register that traps only if it closes what is open.
    fn closing(&self, at: usize, rule: Rule) -> Translation {
        let Some(choice) = (at..at + 12).find(|&word| self.word(word) == Word::Choose) else {
            return Translation::new(rule, at + 1);
        };
        let spills =
            |word| matches!(self.word(word), Word::Field { load: false, field, .. } if field == field::spill(0));
        let spilled = (at..choice).any(spills);
        Translation { slow: Some(choice), ..Translation::new(rule, choice + 3 + usize::from(spilled)) }
    }

    /// What works with a register that is spilled, to its reload or to what overwrites it.
    fn spilled(&self, at: usize, reg: Reg) -> Translation {
        let mut done = Translation::new(Rule::PcOperand, at + 1);
        if matches!(self.word(at + 1), Word::Field { load: true, field, .. } if of_known_page(field)) {
            return self.checked(at, reg);
        }
        let mut leaves = false;
        for word in at + 1..(at + LONGEST).min(self.cold) {
            match self.word(word) {
                Word::Field { load: true, rt, field } if rt == reg && field == field::spill(0) => {
                    done.end = word + 1;
                    if leaves {
                        let trap = |at: &usize| matches!(self.word(*at), Word::Trap(_));
                        let trap = (done.end..done.end + 3).find(trap).unwrap_or(word);
                        done = Translation::new(self.rule_of_trap(trap), trap + 1);
                    }
                    return done;
                }
                Word::Field { field: field::TARGET, .. } => leaves = true,
                Word::Field { field, .. } => done.rule = of_field(field).unwrap_or(done.rule),
                Word::Trap(trap::EXCEPTION_RETURN) => return Translation::new(Rule::ExceptionReturn, word + 1),
                Word::Choose => done.slow = Some(word),
                _ if done.rule == Rule::UserBank && self.overwrites(word, reg) => {
                    done.end = word + 1;
                    return done;
                }
                Word::Plain if done.rule == Rule::PcOperand && self.probes(word, reg) => done.rule = Rule::Cache,
                _ => {}
            }
        }
        done
    }

    /// An unprivileged access of a byte: it is looked whether it is in the page that is known to be allowed.
    fn checked(&self, at: usize, reg: Reg) -> Translation {
        let Some(choice) = (at..at + LONGEST).find(|&word| self.word(word) == Word::Choose) else {
            return Translation::new(Rule::Unprivileged, at + 1);
        };
        // Behind it: what is never reached, and the way out; the spilled register, unless it is overwritten; the
        // access.
        let comes_back = self.word(choice + 3) == Word::Field { load: true, rt: reg, field: field::spill(0) };
        let end = choice + 4 + usize::from(comes_back);
        Translation { slow: Some(choice), ..Translation::new(Rule::Unprivileged, end) }
    }

    fn rule_of_trap(&self, at: usize) -> Rule {
        if let Word::Trap(number) = self.word(at) { of_trap(number) } else { Rule::Indirect }
    }

    /// A byte is loaded from where a cache is maintained.
    fn probes(&self, at: usize, reg: Reg) -> bool {
        matches!(decode(self.words[at]).op, Op::Mem(Mem { load: true, size: MemSize::Byte, rt, .. }) if rt == reg)
    }

    /// The last transfer of a list, which gets the spilled register from memory. The first of a sequence, too, is a
    /// block transfer, but of that register alone, on its way to the vCPU page.
    fn overwrites(&self, at: usize, reg: Reg) -> bool {
        let Op::MemMultiple(list) = decode(self.words[at]).op else { return false };
        let stored =
            matches!(self.word(at + 1), Word::Field { load: false, rt, field } if rt == reg && is_user_bank(field));
        list.load && list.regs >> reg.n() & 1 != 0 && !stored
    }

    fn stores_user_bank(&self, at: usize) -> bool {
        matches!(self.word(at), Word::Field { load: false, field, .. } if is_user_bank(field))
    }

    /// Follows the way out behind the word that chooses.
    fn follow(&mut self, choice: usize, rule: Rule) {
        let Some(branch) = (choice + 1..choice + 3).find(|&at| matches!(self.word(at), Word::Branch { .. })) else {
            return;
        };
        let Word::Branch { words, .. } = self.word(branch) else { return };
        let Some(first) = branch.checked_add_signed(words as isize).filter(|first| *first > branch) else { return };
        let mut at = first;
        while at < self.words.len().min(first + 6) {
            self.set(at, rule, false);
            match Word::of(at, self.words[at]) {
                Word::Branch { .. } => break,
                Word::Trap(trap::EMULATE) => at += 1 + trap::EMULATE_LITERALS as usize,
                _ => at += 1,
            }
        }
        self.cold = self.cold.min(first);
    }
}

fn of_trap(number: u32) -> Rule {
    match number {
        trap::LINK => Rule::Branch,
        trap::EXCEPTION_RETURN => Rule::ExceptionReturn,
        trap::DACR => Rule::Dacr,
        trap::VFP => Rule::Fpexc,
        trap::TLB_PAGE | trap::TLB_RANGE => Rule::Tlb,
        trap::TTBR0 | trap::CONTEXTIDR => Rule::Space,
        trap::UNPRIVILEGED_LOAD | trap::UNPRIVILEGED_STORE => Rule::Unprivileged,
        trap::COUNTER => Rule::Counter,
        trap::CLEAN_LINE | trap::FORGET_LINE => Rule::Cache,
        trap::EMULATE => Rule::Emulated,
        _ => Rule::Indirect,
    }
}

/// The rule that works on a field with a spilled register.
fn of_field(field: u32) -> Option<Rule> {
    match field {
        field::CONTROL | field::PENDING => Some(Rule::Status),
        field::TEEHBR => Some(Rule::Register),
        _ if is_user_bank(field) => Some(Rule::UserBank),
        _ => None,
    }
}

fn of_known_page(field: u32) -> bool {
    field == field::unprivileged(false) || field == field::unprivileged(true)
}

fn is_user_bank(field: u32) -> bool {
    field == field::bank_sp(Bank::Usr) || field == field::bank_lr(Bank::Usr)
}
