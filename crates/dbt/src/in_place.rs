//! Code that stays where it is: which words of a page of the guest's text must be replaced so that the page can run in
//! User mode, at its own address, from a copy.
//!
//! Most instructions of a kernel mean the same in User mode, and they are where their own PC says: calls, returns,
//! indirect branches and literals need nothing. What is *sensitive* is replaced in the copy by an `SVC`
//! ([`REPLACED`](crate::trap::REPLACED)) and, once it has been executed, by a branch to a block that stands for it, its
//! *stub*: the rules of translation are the same, and what they leave to be done ends with a branch back. Few can be
//! replaced by another instruction ([`instead`]).
//!
//! A word that is no instruction must stay what it is, since the guest reads it: the copy is all that is mapped there.
//! What a PC-relative load reads is known to be data, and so is a jump table. For the rest, what stands around a word
//! decides: nine of ten instructions of compiled code have no condition (bits 31:28 are 0xE, or 0xF), and one of eight
//! words of other data looks so. Where that does not tell, the page is not run in place.

use spica_addr::GuestVa;
use spica_isa::{ModImm, Op, Reg, decode};

use crate::layout::PAGE_WORDS;
use crate::{rules, trap};

/// The words of a page.
pub type Words = [u32; PAGE_WORDS];

/// A bit for each word of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WordSet([u32; PAGE_WORDS / 32]);

impl WordSet {
    /// No word.
    pub const EMPTY: WordSet = WordSet([0; PAGE_WORDS / 32]);
    /// All words.
    pub const ALL: WordSet = WordSet([u32::MAX; PAGE_WORDS / 32]);

    /// 32 words in each, the first one in bit 0.
    #[must_use]
    pub const fn bits(&self) -> &[u32; PAGE_WORDS / 32] {
        &self.0
    }

    /// Whether word `at` is a member. Those outside of the page are not.
    #[must_use]
    pub fn contains(&self, at: usize) -> bool {
        self.0.get(at / 32).is_some_and(|word| word >> (at % 32) & 1 != 0)
    }

    /// Makes word `at` a member, if it is one of the page.
    pub fn insert(&mut self, at: usize) {
        if let Some(word) = self.0.get_mut(at / 32) {
            *word |= 1 << (at % 32);
        }
    }

    /// Makes word `at` no member.
    pub fn remove(&mut self, at: usize) {
        if let Some(word) = self.0.get_mut(at / 32) {
            *word &= !(1 << (at % 32));
        }
    }

    /// Makes `count` words from word `first` on no members.
    pub fn remove_run(&mut self, first: usize, count: usize) {
        let (mut at, mut left) = (first, count);
        while let Some(word) = self.0.get_mut(at / 32)
            && left != 0
        {
            let here = left.min(32 - at % 32);
            *word &= !(u32::MAX >> (32 - here) << (at % 32));
            (at, left) = (at + here, left - here);
        }
    }

    /// Its members among the [`LONGEST`] words of which word `last` is the last, in order: those whose stubs may be
    /// made from that.
    pub fn up_to(&self, last: usize) -> impl Iterator<Item = usize> + use<> {
        let first = last.saturating_sub(LONGEST - 1);
        let [low, high] = [first / 32, first / 32 + 1].map(|at| u64::from(self.0.get(at).copied().unwrap_or(0)));
        let mut left = (high << 32 | low) >> (first % 32) & ((2_u64 << (last - first)) - 1);
        core::iter::from_fn(move || {
            let at = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (at < 64).then_some(first + at)
        })
    }

    /// Whether [`Self::up_to`] has any.
    #[inline]
    #[must_use]
    pub fn has_up_to(&self, last: usize) -> bool {
        let first = last.saturating_sub(LONGEST - 1);
        let word = |at: usize| self.0.get(at / 32).copied().unwrap_or(0);
        // Those of the last one's word, and of the word before it.
        let in_last = word(last) << (31 - last % 32);
        match first / 32 == last / 32 {
            true => in_last >> (31 - (last - first)) != 0,
            false => in_last != 0 || word(first) >> (first % 32) != 0,
        }
    }

    /// Its members, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(at, &word)| {
            let next = |word: &u32| Some(word & (word - 1)).filter(|&word| word != 0);
            let words = core::iter::successors(Some(word).filter(|&word| word != 0), next);
            words.map(move |word| 32 * at + word.trailing_zeros() as usize)
        })
    }
}

/// A page of text with the pages around it, as far as they are there: literals and jump tables reach across.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    /// Where it is executed, or an address in it.
    pub va: GuestVa,
    /// The page.
    pub page: &'a Words,
    /// The page in front of it.
    pub before: Option<&'a Words>,
    /// The page behind it.
    pub behind: Option<&'a Words>,
}

/// Whether an instruction must not be executed as it is in User mode by code that believes to be in another mode: it
/// would do something else without a word (B1.3.2, and the notes of B9.3), or it is so frequent that a trap would cost
/// too much.
///
/// What traps by itself need not be: the trap says where. So it is with what is undefined in User mode, system
/// coprocessors as a rule, and with `SVC` and `BKPT`. Nor need be what touches VFP registers, which is undefined as
/// long as VFP is off.
#[must_use]
pub fn is_sensitive(word: u32) -> bool {
    may_be_sensitive(word) && is_nearly(word) && (reads_current(word) || decides(word))
}

/// The instruction that does in User mode what the sensitive one at hand does, where there is one. All others have
/// stubs.
///
/// A kernel reads TPIDRURO all the time: Linux has the current task there. User mode may read it, too, but not write
/// it, as a kernel does whenever it is entered and left. TPIDRURW it may write. So while the guest's kernel runs, the
/// core's TPIDRURW is *lent*: it has the guest's TPIDRURO, and the guest's own is in the vCPU page
/// ([`Options::lent_thread_id`](crate::Options::lent_thread_id)).
#[must_use]
pub fn instead(word: u32) -> Option<u32> {
    // TPIDRURW (B4.1.150) has bit 5 clear.
    (reads_current(word) && word >> 12 & 0xf != 15).then_some(word & !(1 << 5))
}

/// Whether word `at` of `page` is a write to DACR (B4.1.43) of a kind that has to trap nearly whenever it is executed:
/// one of two around a call or unprivileged accesses, with an `ISB` behind it. So Linux opens what user code can reach,
/// copies or calls what does, and closes it again. Their stubs would look whether they have to trap, by branches that
/// nobody predicts. If one traps without need, that costs time and nothing else.
#[must_use]
#[inline(always)]
pub fn is_window_edge(page: &Words, at: usize) -> bool {
    page.get(at + 1) == Some(&rules::ISB) && opens_or_closes(page, at)
}

/// The same where an `ISB` is behind the word.
fn opens_or_closes(page: &Words, at: usize) -> bool {
    const CALL: u32 = 0xeb;
    const BEFORE: usize = 4;
    const BEHIND: usize = 7;
    let is_write = is_dacr_write;
    let Some(&word) = page.get(at) else { return false };
    if !is_write(word) || word >> 28 != 0xe || word >> 12 & 0xf > 7 {
        return false;
    }
    // LDRT, STRT, LDRBT and STRBT (A5.3).
    let is_unprivileged = |word: u32| word & 0x0d20_0000 == 0x0420_0000 && word & 0x0200_0010 != 0x0200_0010;
    // Any branch, or another write, ends what is looked at; but whether an access has failed is asked before it is
    // closed, by a branch with a condition.
    let tells = |word: &&u32| **word >> 25 & 7 == 5 || is_write(**word) || is_unprivileged(**word);
    let uses = |word: &u32| *word >> 24 == CALL || is_unprivileged(*word);
    let is_question = |word: u32| word >> 24 & 0xf == 0xa && word >> 28 < 0xe;
    let mut before = page[at.saturating_sub(BEFORE)..at].iter().rev().filter(tells);
    let last = before.next();
    let before = match last {
        Some(&word) if is_question(word) => before.next().is_some_and(|&word| is_unprivileged(word)),
        last => last.is_some_and(uses),
    };
    before || page[at + 1..].iter().take(BEHIND).find(tells).is_some_and(uses)
}

/// `MCR p15, 0, Rt, c3, c0, 0`.
const fn is_dacr_write(word: u32) -> bool {
    word & 0x0fff_0fff == 0x0e03_0f10 && word >> 28 != 0xf
}

/// `MRC p15, 0, Rt, c13, c0, 3`, which reads TPIDRURO (B4.1.149): half of what is sensitive in Linux's text.
const fn reads_current(word: u32) -> bool {
    word & 0x0fff_0fff == 0x0e1d_0f70 && word >> 28 != 0xf
}

/// By bits 31:20: whether a word may be one that is [replaced](is_sensitive), or an `SVC`, whatever its others.
pub static MAY_BE_REPLACED: [bool; 4096] = {
    let mut may_be = [false; 4096];
    let mut bits = 0;
    while bits < 4096 {
        // Of bits 19:0, those that are looked at there.
        let word = bits << 20;
        may_be[bits as usize] = is_nearly(word)
            || is_nearly(word | 0xf000)
            || is_nearly(word | 0x90)
            || is_nearly(word | 0xe10)
            || is_call(word);
        bits += 1;
    }
    may_be
};

/// Nine of ten instructions are told at a glance: a page has 1,024, and is looked through before it is executed.
#[inline(always)]
fn may_be_sensitive(word: u32) -> bool {
    MAY_BE_REPLACED[(word >> 20) as usize]
}

/// Most others are by what is nearby: of those that are left, one of two is sensitive.
const fn is_nearly(word: u32) -> bool {
    const UNCONDITIONAL: u32 = 0xf;
    if word >> 28 == UNCONDITIONAL {
        // Advanced SIMD, preloads and barriers are not (A5.7).
        return word >> 27 & 1 != 0 || word >> 20 & 0xff == 0x10;
    }
    match word >> 25 & 7 {
        // Data processing into the PC; MRS, MSR and BXJ (A5.2.12); unprivileged loads and stores of halfwords.
        0 => {
            word & 0x0010_f000 == 0x0010_f000 || word & 0x0190_00d0 == 0x0100_0000 || word & 0x0120_0090 == 0x0020_0090
        }
        // The same; MSR and hints (A5.2.11), but not MOVW and MOVT.
        1 => word & 0x0010_f000 == 0x0010_f000 || word & 0x01b0_0000 == 0x0120_0000,
        2 => word & 0x0120_0000 == 0x0020_0000,
        // But not media instructions (A5.4).
        3 => word & 0x0120_0010 == 0x0020_0000,
        4 => word & 0x0040_0000 != 0,
        5 => false,
        6 => word & 0x0fe0_0e00 == 0x0c40_0e00,
        // Moves from and to coprocessors 10, 11, 14 and 15; SVC traps.
        _ => word & 0x0100_0a10 == 0x0a10,
    }
}

/// `SVC`, which is not sensitive: see [`trap::is_taken_for_ours`] for those that cannot be where they are either.
const fn is_call(word: u32) -> bool {
    word >> 24 & 0xf == 0xf && word >> 28 != 0xf
}

fn decides(word: u32) -> bool {
    let decoded = decode(word);
    match decoded.op {
        Op::DataProcessing { op, s, rd, .. } => s && rd.is_pc() && !op.is_test(),
        Op::Mem(mem) => mem.unprivileged,
        Op::MemMultiple(mem) => mem.user,
        // The barriers of CP15 are for User mode (B4.2.5). What is left out traps.
        Op::CoprocMove { load, reg, .. } => match (reg.coproc, load, reg.crn, reg.opc1, reg.crm, reg.opc2) {
            (15, false, 7, 0, 5, 4) | (15, false, 7, 0, 10, 4 | 5) => false,
            // With TEEHBR, which Linux has in each of its processes.
            (15, _, _, 0, ..) | (14, true, 0, 0, ..) | (14, _, 1, 6, 0, 0) => !decoded.uncond,
            _ => false,
        },
        // The generic timer.
        Op::CoprocMove2 { coproc: 15, crm: 14, .. } => !decoded.uncond,
        // FPEXC, and the registers that say what VFP there is.
        Op::VfpSystem { sysreg, .. } => sysreg != 1,
        Op::BranchLinkExchangeImm { .. }
        | Op::BranchJazelle { .. }
        | Op::Mrs { .. }
        | Op::MsrReg { .. }
        | Op::MsrImm { .. }
        | Op::ChangeState { .. }
        | Op::SetEndian { .. }
        | Op::StoreReturnState { .. }
        | Op::ReturnFromException { .. }
        | Op::WaitForEvent
        | Op::WaitForInterrupt => true,
        Op::MoveWide { .. }
        | Op::Preload { .. }
        | Op::Exclusive
        | Op::Branch { .. }
        | Op::BranchExchange { .. }
        | Op::SupervisorCall { .. }
        | Op::SecureMonitorCall { .. }
        | Op::HypervisorCall { .. }
        | Op::Breakpoint { .. }
        | Op::CoprocMove2 { .. }
        | Op::CoprocData { .. }
        | Op::CoprocMem { .. }
        | Op::Hint
        | Op::ClearExclusive
        | Op::DataSyncBarrier { .. }
        | Op::DataMemBarrier { .. }
        | Op::InstrSyncBarrier { .. }
        | Op::Vfp
        | Op::VfpMem { .. }
        | Op::Divide
        | Op::VirtExt
        | Op::Plain
        | Op::Undefined
        | Op::Unpredictable => false,
    }
}

/// Whether a word cannot be as it is where it is executed, if it is an instruction.
#[inline(always)]
fn matters(word: u32) -> bool {
    is_nearly(word) && (reads_current(word) || decides(word)) || trap::is_taken_for_ours(word)
}

/// All text of a kernel is within reach of its branches (A8.8.18).
const REACH: u32 = 32 << 20;
/// What is looked at on either side of a word, to tell what it is.
const AROUND: i32 = 8;
/// A word is near no instructions if fewer of those on one side of it than so many of so many look like some.
const FEW: (u32, u32) = (1, 3);
/// And it is among instructions if at least so many do.
const MANY: (u32, u32) = (3, 5);

/// Whether a word looks like an instruction: it has no condition, or is a branch to somewhere near.
const fn is_likely(word: u32) -> bool {
    const BRANCH: u32 = 0b1010;
    let far = word >> 16 & 0xff;
    word >> 29 == 0b111 || word >> 24 & 0xf == BRANCH && (far == 0 || far == 0xff)
}

/// Whether a word may be a part of a string. As an instruction, it would have a condition.
fn is_characters(word: u32) -> bool {
    word.to_le_bytes().iter().all(|byte| matches!(byte, 0 | b'\t' | b'\n' | b'\r' | b' '..=b'~'))
}

/// Whether a sensitive word is one of so few that hardly any other data has it: one of 8,000 words is.
fn is_specific(word: u32) -> bool {
    matches!(
        decode(word).op,
        Op::CoprocMove { .. }
            | Op::CoprocMove2 { .. }
            | Op::VfpSystem { .. }
            | Op::Mrs { .. }
            | Op::MsrReg { .. }
            | Op::ChangeState { .. }
            | Op::WaitForEvent
            | Op::WaitForInterrupt
    )
}

/// Whether a word may be an instruction with a condition: it is none of the small numbers that tables are full of.
fn is_conditional(word: u32) -> bool {
    word >> 28 < 0xe && word >> 20 != 0 && !matches!(decode(word).op, Op::Undefined | Op::Unpredictable)
}

/// Whether a specific word is one that hardly any other data has: nothing but registers and the condition are left
/// open, or not even the latter. In code that has conditions everywhere, few words around it look like instructions.
fn is_exact(word: u32) -> bool {
    let always = word >> 29 == 0b111;
    if reads_current(word) {
        return true;
    }
    match decode(word).op {
        // Thread registers (B4.1.148 to 150): Linux has its current task and its per-CPU offset there.
        Op::CoprocMove { reg, .. } if reg.coproc == 15 && reg.opc1 == 0 => always || (reg.crn, reg.crm) == (13, 0),
        Op::Mrs { .. } | Op::MsrReg { .. } | Op::ChangeState { .. } => always,
        _ => false,
    }
}

impl Text<'_> {
    /// Word `at`, counted from the page's first.
    fn word(&self, at: i32) -> Option<u32> {
        const WORDS: i32 = PAGE_WORDS as i32;
        let (page, at) = match at {
            0..WORDS => (self.page, at),
            WORDS.. => (self.behind?, at - WORDS),
            _ => (self.before?, at + WORDS),
        };
        page.get(usize::try_from(at).ok()?).copied()
    }

    /// The words that are data for sure: literals and jump tables.
    fn data(&self) -> WordSet {
        // In a register, a comparison takes one instruction.
        let pc_as_base = core::hint::black_box(0xf000_0000);
        let mut data = WordSet::EMPTY;
        let parts = [(self.before, -(PAGE_WORDS as i32)), (Some(self.page), 0), (self.behind, PAGE_WORDS as i32)];
        for (words, first) in parts {
            let Some(words) = words else { continue };
            // Three pages are looked through for each: the compiler makes straight code of sixteen words.
            for (chunk, sixteen) in words.as_chunks::<16>().0.iter().enumerate() {
                for (at, &word) in sixteen.iter().enumerate() {
                    // All that says where data is, has the PC as its base, in bits 19:16. Branches have an offset
                    // there.
                    if word << 12 >= pc_as_base && word & 0x0e00_0000 != 0x0a00_0000 {
                        self.note_data(word, first + (16 * chunk + at) as i32, &mut data);
                    }
                }
            }
        }
        data
    }

    /// Notes in `data` what the instruction `word`, at `at`, says is data.
    #[inline(never)]
    fn note_data(&self, word: u32, at: i32, data: &mut WordSet) {
        // What reads as a load with a condition is a table's entry.
        if self.is_near(word) {
            return;
        }
        let mut insert = |at: i32| usize::try_from(at).into_iter().for_each(|at| data.insert(at));
        if let Some((offset, words)) = literal(word, Reg::PC) {
            // Rounded down, as a literal of a byte or a halfword is in some word.
            let first = (4 * (at + 2) + offset).div_euclid(4);
            (first..first + words).for_each(&mut insert);
        } else if let Some((base, offset)) = address(word) {
            // Compilers load a doubleword by its address.
            let near = (1..=NEAR).filter_map(|next| literal(self.word(at + next)?, base));
            for (more, words) in near {
                // An address is one modulo 2^32.
                let first = (4 * (at + 2)).wrapping_add(offset).wrapping_add(more).div_euclid(4);
                (first..first + words).for_each(&mut insert);
            }
        } else if is_table_branch(word) {
            // Behind the branch comes what is done if it is not taken, and behind that the table.
            let mut entry = at + 2;
            while self.word(entry).is_some_and(|target| self.is_near(target)) {
                insert(entry);
                entry += 1;
            }
        }
    }

    /// Whether `word` may be an address in the text that `self` is of: an entry of a jump table, or of other tables.
    fn is_near(&self, word: u32) -> bool {
        word & 3 == 0 && word.abs_diff(self.va.0) < REACH
    }

    /// Of the words next to `at`, on one side of it, how many `count`, and how many do or do not. Data are left out,
    /// and zeroes, with which functions are aligned, and for what `count` is not said.
    #[inline(always)]
    fn next_to(&self, at: i32, step: i32, data: &WordSet, count: impl Fn(u32) -> Option<bool>) -> (u32, u32) {
        let (mut some, mut all) = (0, 0);
        let mut near = at;
        for _ in 0..AROUND {
            near += step;
            let is_data = usize::try_from(near).is_ok_and(|near| data.contains(near));
            let word = self.word(near).filter(|&word| word != 0 && !is_data);
            if let Some(counts) = word.and_then(&count) {
                some += u32::from(counts);
                all += 1;
            }
        }
        (some, all)
    }

    /// How many of these look like instructions, and how many there are.
    fn likely(&self, at: i32, step: i32, data: &WordSet) -> (u32, u32) {
        self.next_to(at, step, data, |word| Some(is_likely(word)))
    }

    /// The same of those that are not exact themselves, where instructions with conditions count as well.
    fn plausible(&self, at: i32, step: i32, data: &WordSet) -> (u32, u32) {
        let may_be = |word| is_likely(word) || is_conditional(word) && !self.is_near(word) && !is_characters(word);
        self.next_to(at, step, data, |word| (!(is_sensitive(word) && is_exact(word))).then(|| may_be(word)))
    }

    /// Whether word `at`, which [`matters`], must be replaced, if `data` are the words that are data for sure. `None`
    /// if it cannot be told whether it is an instruction, or if it is one that must neither be replaced nor stay: an
    /// `SVC` of the guest's that would be [taken for ours](trap::is_taken_for_ours), whose number the guest reads where
    /// it is.
    fn decide(&self, at: usize, data: &WordSet) -> Option<bool> {
        let is_data = |word| data.contains(at) || is_characters(word);
        let word = self.page.get(at).copied().filter(|&word| !is_data(word));
        let Some(word) = word else { return Some(false) };
        let has = |(part, of): (u32, u32), (some, all): (u32, u32)| some * of >= part * all;
        if is_exact(word) && [-1, 1].into_iter().any(|step| has(MANY, self.plausible(at as i32, step, data))) {
            return Some(true);
        }
        let sides = [-1, 1].map(|step| self.likely(at as i32, step, data));
        if sides.into_iter().all(|side| !has(FEW, side)) {
            return Some(false);
        }
        if is_call(word) {
            // Where nothing is around it, it is data: a page without code has no other reason not to run in place.
            let among = |side: (u32, u32)| side.0 != 0 && has(MANY, side);
            return if sides.into_iter().all(among) { None } else { Some(false) };
        }
        if is_specific(word) || sides.into_iter().all(|side| has(MANY, side)) {
            return Some(true);
        }
        // Hardly anybody has a condition for these.
        if word >> 28 < 0xe {
            let some = sides.into_iter().all(|side| has(FEW, side));
            return Some(some && sides.into_iter().any(|side| has(MANY, side)));
        }
        None
    }

    /// The words of the page that must be replaced. `None` if it cannot be told which of them are instructions.
    #[must_use]
    pub fn replaced(&self) -> Option<WordSet> {
        let mut replaced = WordSet::EMPTY;
        // Not every page has anything for which it matters what is data.
        let mut data = None;
        for (chunk, eight) in self.page.as_chunks::<8>().0.iter().enumerate() {
            for (at, &word) in eight.iter().enumerate() {
                if may_be_sensitive(word) && self.replaces(word, 8 * chunk + at, &mut data)? {
                    replaced.insert(8 * chunk + at);
                }
            }
        }
        Some(replaced)
    }

    /// Whether `word`, which is word `at`, must be replaced, as [`Self::decide`] says; `data` are found out if need be.
    /// Once, and not eight times.
    #[inline(never)]
    fn replaces(&self, word: u32, at: usize, data: &mut Option<WordSet>) -> Option<bool> {
        if !matters(word) {
            return Some(false);
        }
        self.decide(at, data.get_or_insert_with(|| self.data()))
    }

    /// Whether word `at` of the page must be replaced. `None` as in [`Self::replaced`].
    #[must_use]
    pub fn is_replaced(&self, at: usize) -> Option<bool> {
        if !self.page.get(at).is_some_and(|&word| matters(word)) {
            return Some(false);
        }
        self.decide(at, &self.data())
    }
}

/// Where a load or store with the base `base` reads from, in bytes from that, and how many words: A8.8.63, 69, 73, 81,
/// 85, 89; A8.8.333.
fn literal(word: u32, base: Reg) -> Option<(i32, i32)> {
    let signed = |offset: u32| if word >> 23 & 1 != 0 { offset as i32 } else { -(offset as i32) };
    if word >> 28 == 0xf || word >> 16 & 0xf != base.n() {
        return None;
    }
    if word & 0x0e00_0000 == 0x0400_0000 {
        return Some((signed(word & 0xfff), 1));
    }
    // Halfwords, signed bytes, doublewords.
    if word & 0x0e40_0090 == 0x0040_0090 && word & 0x60 != 0 {
        let doubleword = word & 0x0010_0040 == 0x40;
        return Some((signed(word >> 4 & 0xf0 | word & 0xf), if doubleword { 2 } else { 1 }));
    }
    // VLDR.
    if word & 0x0f20_0e00 == 0x0d00_0a00 {
        return Some((signed(4 * (word & 0xff)), if word & 0x100 != 0 { 2 } else { 1 }));
    }
    None
}

/// `ADR`: the register, and the address in bytes from the PC (A8.8.12).
fn address(word: u32) -> Option<(Reg, i32)> {
    let value = || ModImm::from_field(word & 0xfff).value() as i32;
    match word & 0x0fff_0000 {
        0x028f_0000 => Some((Reg::new(word >> 12), value())),
        0x024f_0000 => Some((Reg::new(word >> 12), value().wrapping_neg())),
        _ => None,
    }
}

/// How many instructions behind an address that is made the load by it may be.
const NEAR: i32 = 6;

/// `LDR<cond> PC, [PC, Rm, LSL #2]`.
const fn is_table_branch(word: u32) -> bool {
    word & 0x0fff_fff0 == 0x079f_f100
}

/// How far behind a sensitive instruction the next one may be for both to have one stub, if it is executed next. To go
/// to another stub takes two branches, and a copied instruction nothing.
const APART: usize = 9;
/// The most instructions of a stub.
pub const LONGEST: usize = 24;

/// How many instructions the stub for word `at` of `page` is made of, where `replaced` are those that have to be. What
/// [traps as a rule](is_window_edge) is shorter where it is; and behind what leads elsewhere, who knows what is
/// executed.
#[must_use]
pub fn stub_length(page: &Words, at: usize, replaced: &WordSet) -> usize {
    let most = LONGEST.min(PAGE_WORDS - at);
    let mut length = 1;
    for next in 1..most {
        if next - length >= APART || leads(page[at + next - 1]) || is_window_edge(page, at + next) {
            break;
        }
        if replaced.contains(at + next) {
            length = next + 1;
        }
    }
    if length + 2 <= most && frees_behind_barrier(&page[at + length - 1..][..3]) { length + 2 } else { length }
}

/// Whether the first of three instructions is a write to DACR, and can use a register that the last overwrites, behind
/// an `ISB`: a stub that has all of them is two words shorter.
fn frees_behind_barrier(words: &[u32]) -> bool {
    let [write, rules::ISB, last] = *words else { return false };
    let rt = 1 << (write >> 12 & 0xf);
    is_dacr_write(write) && write >> 28 == 0xe && rules::overwritten(last, rt).is_some()
}

/// Whether a word is a branch or a call, or one of the others that write the PC, or may be; but for a branch forwards
/// with a condition, which is as often not taken.
const fn leads(word: u32) -> bool {
    // MSR and hints have ones where others have Rd (B9.3.11, B9.3.12, A8.8.119).
    let is_msr = word & 0x0fb0_f0f0 == 0x0120_f000 || word & 0x0fb0_f000 == 0x0320_f000;
    match word >> 25 & 7 {
        0..=3 => word >> 12 & 0xf == 15 && !is_msr,
        4 => word & 1 << 15 != 0,
        5 => word >> 28 >= 14 || word & (0b11 << 23) != 0,
        _ => false,
    }
}
