//! Which words are sensitive, which of a page's are replaced, and the copies of pages.

use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_dbt::in_place::{
    LONGEST, MAY_BE_REPLACED, Text, WordSet, Words, instead, is_sensitive, is_window_edge, stub_length,
};
use spica_dbt::layout::{Layout, PAGE_WORDS, Window};
use spica_dbt::trap;
use spica_dbt::twins::{Made, StubMemory, TwinMemory, Twins};
use spica_dbt::{Capacity, CodeMemory, Options, Translator};
use spica_isa::{Op, decode};

const NOP: u32 = 0xe320_f000;
const BX_LR: u32 = 0xe12f_ff1e;
const CPSID_I: u32 = 0xf10c_0080;
pub const MRS_R0: u32 = 0xe10f_0000;
/// An `SVC` that says nothing of what it stands for.
const REPLACED: u32 = 0xef00_0000 | trap::REPLACED;

/// Code memory for one block.
struct Code([u32; PAGE_WORDS]);

impl CodeMemory for Code {
    fn page(&mut self, _page: u32) -> &mut [u32; PAGE_WORDS] {
        &mut self.0
    }

    fn publish(&mut self, _page: u32, _first: usize, _words: usize) {}

    fn mirror_page(&mut self, _page: u32) -> &mut [u32; PAGE_WORDS] {
        unreachable!("no return mirror here")
    }

    fn publish_mirror(&mut self, _page: u32, _va: u32, _first: usize, _words: usize) {}

    fn map_mirror(&mut self, _va: u32, _page: u32) {}

    fn unmap_mirror(&mut self, _va: Option<u32>) {}
}

/// Whether the rules of translation copy the instruction `word` as it is.
fn is_copied(word: u32) -> bool {
    const VA: u32 = 0x8000_0010;
    let layout = Layout { base: 0xf180_0000, pages: 1, mirror: None };
    let options = Options { vfp: true, thumbee: true, lent_thread_id: true, ..Options::all() };
    let mut translator = Translator::new(layout, options, Capacity { blocks: 4, exits: 64, mirror_pages: 0 });
    let mut code = Code([0; PAGE_WORDS]);
    let mut guest = [NOP; PAGE_WORDS];
    guest[4] = word;
    let block = translator.translate_some(1, GuestVa(VA), GuestPa(VA), true, &guest, &mut code);
    let entry = layout.find(translator.entry(block)).expect("in its page").1;
    // Behind it, the block's exit.
    code.0[entry] == word && code.0[entry + 1..entry + 3] == [0xef00_0000 | trap::LINK, VA + 4]
}

/// Whether an instruction reads or writes the PC in a way that works at its own address.
fn is_of_the_pc(word: u32) -> bool {
    match decode(word).op {
        Op::Branch { .. } | Op::BranchExchange { .. } => true,
        Op::DataProcessing { s, rd, op, .. } => !(s && rd.is_pc() && !op.is_test()),
        Op::Mem(mem) => !mem.unprivileged,
        Op::MemMultiple(mem) => !mem.user,
        Op::VfpMem { .. } | Op::Preload { .. } => true,
        _ => false,
    }
}

/// What traps by itself, as what User mode may not do with coprocessors does, and what nobody may rely on.
fn traps(word: u32) -> bool {
    match decode(word).op {
        Op::Undefined
        | Op::Unpredictable
        | Op::VirtExt
        | Op::SupervisorCall { .. }
        | Op::SecureMonitorCall { .. }
        | Op::HypervisorCall { .. }
        | Op::Breakpoint { .. }
        | Op::CoprocMove2 { .. }
        | Op::CoprocData { .. }
        | Op::CoprocMem { .. } => true,
        // The thread IDs can be read.
        Op::CoprocMove { load, reg, .. } => {
            decode(word).uncond || !(load && reg.coproc == 15 && reg.opc1 == 0 && reg.crn == 13)
        }
        _ => false,
    }
}

/// Instructions of all classes: bits 27:20 and 7:4 in all combinations, others at random.
fn all_classes() -> impl Iterator<Item = u32> {
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as u32
    };
    (0..0x1000 * 40u32).map(move |n| {
        let word = random() & 0x000f_ff0f | (n & 0xff0) << 16 | (n & 0xf) << 4;
        let word = match random() % 8 {
            // The PC, and system coprocessors, are rare by chance.
            0 => word | 0xf000,
            1 => word | 0xf_0000,
            2 => word & !0xf00 | 0xf00,
            _ => word,
        };
        word | [0xe000_0000, 0xe000_0000, 0xf000_0000, 0x1000_0000][n as usize / 0x1000 % 4]
    })
}

#[test]
fn what_is_not_sensitive_is_copied_by_the_rules_or_is_about_the_pc() {
    let (mut sensitive, mut plain) = (0, 0);
    for word in all_classes() {
        if is_sensitive(word) {
            sensitive += 1;
            assert!(!is_copied(word), "{word:08x} {} is copied, and yet sensitive", decode(word));
        } else {
            plain += 1;
            assert!(
                is_copied(word) || is_of_the_pc(word) || traps(word),
                "{word:08x} {} is not sensitive, and yet the rules do not copy it",
                decode(word)
            );
        }
    }
    assert!(sensitive > 10_000 && plain > 10_000, "{sensitive} sensitive words, {plain} others");
}

/// Linux's own.
#[test]
fn a_kernels_sensitive_instructions_are_found() {
    for word in [
        MRS_R0,      // MRS R0, CPSR
        0xe14f_8000, // MRS R8, SPSR
        0xe121_f003, // MSR CPSR_c, R3
        0xe16f_f005, // MSR SPSR_fsxc, R5
        CPSID_I,
        0xf108_0080, // CPSIE i
        0xee1d_3f70, // MRC p15, 0, R3, c13, c0, 3
        0xee1d_3f50, // MRC p15, 0, R3, c13, c0, 2
        0xee1d_3f90, // MRC p15, 0, R3, c13, c0, 4
        0xee03_3f10, // MCR p15, 0, R3, c3, c0, 0
        0xe8dd_ffff, // LDM SP, {R0-PC}^
        0xe95d_7fff, // LDMDB SP, {R0-LR}^
        0xe1b0_f00e, // MOVS PC, LR
        0xe25e_f004, // SUBS PC, LR, #4
        0xe4b1_3004, // LDRT R3, [R1], #4
        0xe0f1_30b2, // LDRHT
        0xe320_f003, // WFI
        0xe320_f002, // WFE
        0xec51_0f1e, // MRRC p15, 1, R0, R1, c14
        0xeed1_1e10, // MRC p14, 6, R1, c1, c0, 0
        0xeee8_3a10, // VMSR FPEXC, R3
        0xeef0_3a10, // VMRS R3, FPSID
        0xf8cd_0513, // SRS
        0xf8bd_0a00, // RFE
    ] {
        assert!(is_sensitive(word), "{word:08x} {}", decode(word));
    }
    for word in [
        NOP,
        BX_LR,
        0xe8bd_8010, // POP {R4, PC}
        0xe79f_f103, // LDR PC, [PC, R3, LSL #2]
        0xe59f_3010, // LDR R3, [PC, #16]
        0xe08f_f003, // ADD PC, PC, R3
        0xebff_fffe, // BL
        0xf57f_f05b, // DMB ISH
        0xf57f_f06f, // ISB
        0xe194_3f9f, // LDREX
        0xeef1_fa10, // VMRS APSR_nzcv, FPSCR
        0xed2d_8b10, // VPUSH
        0xe7f0_01f2, // UDF
        // They trap.
        0xef00_0000, // SVC
        0xe160_0070, // SMC
        0xe140_0070, // HVC
        0xe120_0070, // BKPT
        0xee8c_7f10, // MCR p15, 4, R7, c12, c0, 0
    ] {
        assert!(!is_sensitive(word), "{word:08x} {}", decode(word));
    }
}

pub fn text(page: &Words) -> Text<'_> {
    Text { va: VA, page, before: None, behind: None }
}

fn replaced(page: &Words) -> Option<Vec<usize>> {
    text(page).replaced().map(|set| set.iter().collect())
}

#[test]
fn instructions_are_replaced_and_literals_are_not() {
    let mut page = [NOP; PAGE_WORDS];
    page[100] = MRS_R0;
    page[101] = CPSID_I;
    assert_eq!(replaced(&page), Some(vec![100, 101]));
    // LDR R0, [PC, #0] at 100: the word at 102.
    page[100] = 0xe59f_0000;
    page[102] = MRS_R0;
    assert_eq!(replaced(&page), Some(vec![101]));
    // LDRD R0, [PC, #-12] at 104 reads the words at 103 and 104 + 2 - 3 = 103.
    page[104] = 0xe14f_00dc;
    page[103] = CPSID_I;
    assert_eq!(replaced(&page), Some(vec![101]));
    // VLDR D0, [PC, #8] at 200: 204 and 205.
    page[200] = 0xed9f_0b02;
    (page[204], page[205]) = (MRS_R0, MRS_R0);
    assert_eq!(replaced(&page), Some(vec![101]));
}

#[test]
fn an_address_that_is_far_away_says_nothing() {
    let mut page = [NOP; PAGE_WORDS];
    page[100] = MRS_R0;
    // SUB R1, PC, #0x80000002; LDR R2, [R1, #-0x50a], which is not here.
    (page[48], page[50]) = (0xe24f_110a, 0xe511_250a);
    assert_eq!(replaced(&page), Some(vec![100]));
    // SUB R1, PC, #0x40000000; LDR R2, [R1, #0xfff].
    (page[48], page[50]) = (0xe24f_1101, 0xe591_2fff);
    assert_eq!(replaced(&page), Some(vec![100]));
}

#[test]
fn literals_of_the_pages_around_are_known() {
    let mut page = [NOP; PAGE_WORDS];
    let mut near = [NOP; PAGE_WORDS];
    page[0] = MRS_R0;
    page[1023] = MRS_R0;
    assert_eq!(replaced(&page), Some(vec![0, 1023]));
    near[1020] = 0xe59f_0008; // the word at 1020 + 2 + 2
    let with = Text { va: VA, page: &page, before: Some(&near), behind: None };
    assert_eq!(with.replaced().map(|set| set.iter().collect()), Some(vec![1023]));
    near = [NOP; PAGE_WORDS];
    near[4] = 0xe51f_001c; // the word at 4 + 2 - 7
    let with = Text { va: VA, page: &page, before: None, behind: Some(&near) };
    assert_eq!(with.replaced().map(|set| set.iter().collect()), Some(vec![0]));
}

#[test]
fn tables_are_data() {
    let mut page = [NOP; PAGE_WORDS];
    // LDRLS PC, [PC, R3, LSL #2]; B; the table, with an entry that would be MSR if it was an instruction.
    page[10] = 0x979f_f103;
    page[11] = 0xea00_0010;
    (12..20).for_each(|at| page[at] = 0xc010_1234);
    page[15] = 0xc128_f000;
    assert!(is_sensitive(page[15]));
    assert_eq!(replaced(&page), Some(vec![]));
    // It is no table elsewhere, but one there with addresses from there, wherever a kernel is.
    let elsewhere =
        |page: &Words| Text { va: GuestVa(0x8010_0000), ..text(page) }.replaced().map(|set| set.iter().count());
    assert_eq!(elsewhere(&page), Some(1));
    (12..20).for_each(|at| page[at] = page[at] & 0x3fff_ffff | 0x8000_0000);
    assert!(is_sensitive(page[15]));
    assert_eq!((elsewhere(&page), replaced(&page)), (Some(0), Some(vec![15])));
    (12..20).for_each(|at| page[at] = NOP);
    // Constants of a hash, as they are in the text of a kernel's assembly.
    let mut state = 7u32;
    for (at, word) in page.iter_mut().enumerate().take(364).skip(300) {
        state = state.wrapping_mul(0x0801_4cd5).wrapping_add(12345);
        // Nothing that is sensitive next to instructions.
        *word = if (308..356).contains(&at) { state & 0x0fff_ffff | (at as u32 % 13) << 28 } else { 0x3000_0000 };
    }
    page[330] = 0xe8de_4786;
    assert!(is_sensitive(page[330]));
    assert_eq!(replaced(&page), Some(vec![]));
}

/// As in Linux's `domain_dirty_limits`, where each instruction around a read of the current task has a condition.
#[test]
fn what_is_exact_is_known_among_conditions() {
    let mut page = [NOP; PAGE_WORDS];
    (90..112).for_each(|at| page[at] = if at % 2 == 0 { 0x1284_4eff } else { 0x01a0_2602 });
    // MRC of TPIDRURO, and of TPIDRPRW, with a condition or without; MCR of DACR; MSR CPSR_c; CPSID.
    for word in [0xee1d_4f70, 0x0e1d_5f70, 0x1e1d_1f90, 0xee03_1f10, 0xe121_f003, CPSID_I] {
        page[100] = word;
        assert_eq!(replaced(&page), Some(vec![100]), "{word:08x}");
    }
    // With a condition, anything may be one of these by chance.
    for word in [0x0e03_1f10, 0x0121_f003] {
        page[100] = word;
        assert_eq!(replaced(&page), Some(vec![]), "{word:08x}");
    }
}

/// A table of numbers whose address is made elsewhere, with words that are instructions in it.
#[test]
fn what_is_exact_is_data_among_numbers() {
    let mut page = [NOP; PAGE_WORDS];
    page[90..94].copy_from_slice(&[1, 20, 300, 4000]);
    page[94..104].copy_from_slice(&[50000, 0x0a0b_0c0d, 7, 8, 9, 10, 0xe10f_0000, CPSID_I, 0xee1d_3f90, 11]);
    page[104..113].copy_from_slice(&[0x0012_0000, 13, 0x0140_0000, 15, 16, 17, 18, 19, 20]);
    assert_eq!(replaced(&page), Some(vec![]));
}

/// As in Linux's `__clear_user_std`: STRBTNE, among stores with conditions as well.
#[test]
fn an_unprivileged_store_with_a_condition_is_found() {
    let mut page = [NOP; PAGE_WORDS];
    let before =
        [0x5480_2004, 0x5aff_fffb, 0xe291_1004, 0x5480_2004, 0xe311_0002, 0x14c0_2001, 0x14c0_2001, 0xe311_0001];
    page[100..108].copy_from_slice(&before);
    page[108] = 0x14e0_2000;
    assert_eq!(replaced(&page), Some(vec![108]));
    // Where code ends and a table begins, it is an entry.
    page[109..120].fill(0xc012_f2a0);
    assert_eq!(replaced(&page), Some(vec![]));
}

/// As an instruction, 0xc04f_b5b0 loads a halfword that is 80 bytes in front of it, with a condition.
#[test]
fn entries_of_tables_say_nothing_of_literals() {
    let mut page = [NOP; PAGE_WORDS];
    let text = |page: &Words| Text { va: GuestVa(0xc04f_b000), ..text(page) }.replaced();
    page[534] = 0xee1d_3f70;
    page[552] = 0xc04f_b5b0;
    assert_eq!(text(&page).map(|set| set.iter().collect()), Some(vec![534]));
    // Without a condition it is a load.
    page[552] = 0xe15f_35b0;
    assert_eq!(text(&page).map(|set| set.iter().collect()), Some(vec![]));
}

#[test]
fn strings_are_data() {
    let mut page = [NOP; PAGE_WORDS];
    page[50] = u32::from_le_bytes(*b"aint");
    assert!(is_sensitive(page[50]));
    assert_eq!(replaced(&page), Some(vec![]));
}

#[test]
fn what_cannot_be_told_is_refused() {
    let mut page = [NOP; PAGE_WORDS];
    // Behind an instruction are words of no kind.
    page[500] = 0xe8dd_0010; // LDM SP, {R4}^
    (501..520).for_each(|at| page[at] = 0x1234_5678);
    assert_eq!(replaced(&page), None);
    assert_eq!(text(&page).is_replaced(500), None);
    assert_eq!(text(&page).is_replaced(501), Some(false));
}

#[test]
fn members_up_to_a_word_are_found() {
    let dense = (0..PAGE_WORDS).filter(|at| at * at % 7 < 3 || (500..600).contains(at)).collect();
    let sparse = (0..PAGE_WORDS).step_by(13).chain([PAGE_WORDS - 1]).collect();
    for members in [dense, sparse, vec![]] {
        let mut set = WordSet::EMPTY;
        members.iter().for_each(|&at| set.insert(at));
        for last in 0..PAGE_WORDS {
            let all: Vec<_> = (last.saturating_sub(LONGEST - 1)..=last).filter(|&at| set.contains(at)).collect();
            assert_eq!(set.up_to(last).collect::<Vec<_>>(), all, "{last}");
            assert_eq!(set.has_up_to(last), !all.is_empty(), "{last}");
        }
    }
}

#[test]
fn near_instructions_have_one_stub() {
    let length_in = |page: &Words, replaced: &[usize], at| {
        let mut set = WordSet::EMPTY;
        replaced.iter().for_each(|&at| set.insert(at));
        stub_length(page, at, &set)
    };
    let length = |replaced: &[usize], at| length_in(&[NOP; PAGE_WORDS], replaced, at);
    assert_eq!(length(&[10], 10), 1);
    assert_eq!(length(&[10, 11], 10), 2);
    assert_eq!(length(&[10, 19], 10), 10);
    assert_eq!(length(&[10, 20], 10), 1);
    assert_eq!(length(&[10, 12, 15, 18, 21, 24, 27, 30, 33, 36], 10), LONGEST);
    assert_eq!(length(&[1023], 1023), 1);
    // What leads elsewhere ends it: B, BL, BLX, BX LR, MOV PC, LR, LDR PC, POP {PC}, a branch back; but for BEQ
    // forwards.
    let behind = |word: u32| {
        let mut page = [NOP; PAGE_WORDS];
        page[12] = word;
        length_in(&page, &[10, 14], 10)
    };
    for word in [0xea00_0010, BL, 0x0b00_0010, 0xfa00_0010, 0xe12f_ff1e, 0xe1a0_f00e, 0xe59f_f000, 0xe8bd_8000] {
        assert_eq!(behind(word), 1, "{word:x}");
    }
    assert_eq!(behind(0x3aff_fffb), 1);
    for word in [0x0a00_0010, 0xe8bd_0010, 0xe1a0_e00f, 0xe121_f000, 0xe328_f101, NOP] {
        assert_eq!(behind(word), 5, "{word:x}");
    }
    // A write to DACR has what it needs of what comes behind it: an ISB, and MRC r9, TPIDRURO or MOV r2, #1; not MOV of
    // its own register, nor CMP, nor a load, nor anything without an ISB.
    let write = WRITE_DACR & !0xf000 | 8 << 12;
    let at_end = |words: [u32; 3], at: usize| {
        let mut page = [NOP; PAGE_WORDS];
        page[at..].iter_mut().zip(words).for_each(|(to, word)| *to = word);
        length_in(&page, &[at], at)
    };
    for last in [0xee1d_9f70, 0xe3a0_2001] {
        assert_eq!(at_end([write, ISB, last], 10), 3);
    }
    assert_eq!(at_end([write, ISB, 0xee1d_9f70], 1021), 3);
    assert_eq!(at_end([write, ISB, 0xee1d_9f70], 1022), 1);
    for last in [0xe3a0_8001, 0xe282_2001, 0xe352_0000, 0xe592_2000, 0x03a0_2001, 0xee1d_df70, 0xee1d_9f50, NOP] {
        assert_eq!(at_end([write, ISB, last], 10), 1, "{last:x}");
    }
    for first in [write & !(1 << 29), write | 1 << 20, NOP] {
        assert_eq!(at_end([first, ISB, 0xee1d_9f70], 10), 1, "{first:x}");
    }
    assert_eq!(at_end([write, NOP, 0xee1d_9f70], 10), 1);
}

/// Memory for twins that says what has been published.
pub struct Memory {
    /// What is written, and what is seen.
    pub twins: Vec<(Words, Words)>,
    /// The number of a twin, the first word and how many: what will be seen once it is published.
    cleaned: Vec<(u16, usize, usize)>,
}

impl TwinMemory for Memory {
    fn twin(&mut self, number: u16) -> &mut Words {
        &mut self.twins[usize::from(number)].0
    }

    fn publish_twin(&mut self, number: u16, _: GuestVa, first: usize, words: usize) {
        let (written, seen) = &mut self.twins[usize::from(number)];
        seen[first..first + words].copy_from_slice(&written[first..first + words]);
    }

    fn clean_twin(&mut self, number: u16, first: usize, words: usize) {
        self.cleaned.push((number, first, words));
    }

    fn publish_cleaned(&mut self) {
        for (number, first, words) in std::mem::take(&mut self.cleaned) {
            self.publish_twin(number, VA, first, words);
        }
    }
}

impl Memory {
    pub fn new(twins: usize) -> Memory {
        Memory { twins: vec![([0; PAGE_WORDS], [0; PAGE_WORDS]); twins], cleaned: Vec::new() }
    }

    /// The words of a twin, once it is mapped at the latest.
    pub fn words(&self, number: u16) -> &Words {
        let (written, seen) = &self.twins[usize::from(number)];
        let mut seen = *seen;
        for &(_, first, words) in self.cleaned.iter().filter(|&&(of, ..)| of == number) {
            seen[first..first + words].copy_from_slice(&written[first..first + words]);
        }
        assert!(*written == seen, "not published");
        written
    }

    /// Whether they are seen by now.
    pub fn is_seen(&self, number: u16) -> bool {
        let (written, seen) = &self.twins[usize::from(number)];
        written == seen
    }
}

pub const WINDOW: Window = Window { start: 0xbf00_0000, size: 40 << 20, distance: 0, t32: false, guarded: false };
pub const CACHE: (u32, u32) = (0xbfa0_0000, 4 << 20);
pub const VA: GuestVa = GuestVa(0xc010_0000);
pub const PA: GuestPa = GuestPa(0x4010_0000);

/// What stands for `word`.
fn stand_in(word: u32) -> u32 {
    let (mut twins, mut memory) = (Twins::new(WINDOW, CACHE, 16), Memory::new(16));
    assert_eq!(twins.make(VA, PA, text(&page_with(7, word)), &mut memory), Made::Twin(0));
    let svc = memory.words(0)[7];
    assert_eq!((svc >> 24, twins.originals().of(svc & 0x00ff_ffff)), (0xef, Some(word)));
    svc
}

pub fn page_with(at: usize, word: u32) -> Words {
    let mut page = [NOP; PAGE_WORDS];
    page[at] = word;
    page
}

const ISB: u32 = 0xf57f_f06f;
const BL: u32 = 0xeb00_0010;
/// MRC, MCR p15, 0, R3, c3, c0, 0.
const READ_DACR: u32 = 0xee13_3f10;
const WRITE_DACR: u32 = 0xee03_3f10;

/// As Linux opens what user code can reach, and closes it, with what is in between: the writes at words 12 and 17.
fn window() -> Words {
    let mut page = page_with(12, WRITE_DACR);
    (page[10], page[13], page[15], page[17], page[18]) = (READ_DACR, ISB, BL, WRITE_DACR, ISB);
    page
}

#[test]
fn what_opens_and_closes_around_a_call_is_told_by_what_is_near() {
    let is = |page: &Words| [12, 17].map(|at| is_window_edge(page, at));
    assert_eq!(is(&window()), [true; 2]);
    let with = |at: usize, word: u32| {
        let mut page = window();
        page[at] = word;
        is(&page)
    };
    // Not without a call, nor where something else leads away before it; and a condition, as good as another branch.
    for none in [NOP, 0xea00_0010, 0x0b00_0010, WRITE_DACR] {
        assert_eq!(with(15, none), [false; 2], "{none:x}");
    }
    assert_eq!((with(14, 0x0a00_0010), with(16, 0xea00_0010)), ([false, true], [true, false]));
    // Nor without the barrier, under a condition, of R8 and above, or any other register of CP15.
    for none in [WRITE_DACR & !(1 << 29), WRITE_DACR | 8 << 12, WRITE_DACR | 1, READ_DACR, NOP] {
        assert_eq!((with(12, none), with(17, none)), ([false, true], [true, false]), "{none:x}");
    }
    assert_eq!((with(13, NOP), with(18, NOP)), ([false, true], [true, false]));
    assert!((0..8).all(|reg| with(12, WRITE_DACR & !0xf000 | reg << 12) == [true; 2]));
    // Only so far, and only in the page.
    for apart in 0..20 {
        let mut page = page_with(100, WRITE_DACR);
        (page[101], page[101 + apart]) = (ISB, if apart == 0 { ISB } else { BL });
        assert_eq!(is_window_edge(&page, 100), (1..7).contains(&apart), "a call {apart} behind it");
        let mut page = page_with(100, WRITE_DACR);
        (page[101], page[100 - apart]) = (ISB, if apart == 0 { WRITE_DACR } else { BL });
        assert_eq!(is_window_edge(&page, 100), (1..=4).contains(&apart), "a call {apart} in front of it");
    }
    // The same with LDRBT, STRT, LDRBT by a register; whether they failed is asked before it is closed.
    for access in [0xe4f7_4001, 0xe4a0_1000, 0xe6f7_4001] {
        for apart in 0..20 {
            let mut page = page_with(100, WRITE_DACR);
            (page[101], page[101 + apart]) = (ISB, if apart == 0 { ISB } else { access });
            assert_eq!(is_window_edge(&page, 100), (1..7).contains(&apart), "an access {apart} behind it");
            let mut page = page_with(100, WRITE_DACR);
            (page[101], page[100 - apart]) = (ISB, if apart == 0 { WRITE_DACR } else { access });
            assert_eq!(is_window_edge(&page, 100), (1..=4).contains(&apart), "an access {apart} in front of it");
        }
        let closes = |question| {
            let mut page = page_with(100, WRITE_DACR);
            page[97..102].copy_from_slice(&[access, 0xe353_0000, question, WRITE_DACR, ISB]);
            is_window_edge(&page, 100)
        };
        // BNE; not B, nor BLNE, BLX.
        assert_eq!([0x1aff_ffe4, 0xeaff_ffe4, 0x1bff_ffe4, 0xfaff_ffe4].map(closes), [true, false, false, false]);
    }
    // Not a call, which would not be the last thing that is asked about.
    let mut page = page_with(100, WRITE_DACR);
    (page[101], page[99], page[98]) = (ISB, 0x1aff_ffe4, BL);
    assert!(!is_window_edge(&page, 100));
    // LDRB with writeback in front of it, or none; SSAT, which is none of these.
    for none in [0xe5f7_4001, 0xe4d7_4001, 0xe6a0_0011] {
        let mut page = page_with(100, WRITE_DACR);
        (page[101], page[102], page[98]) = (ISB, none, none);
        assert!(!is_window_edge(&page, 100), "{none:x}");
    }
    let mut page = page_with(PAGE_WORDS - 2, WRITE_DACR);
    (page[PAGE_WORDS - 3], page[PAGE_WORDS - 1]) = (BL, ISB);
    assert!(is_window_edge(&page, PAGE_WORDS - 2) && !is_window_edge(&page, PAGE_WORDS - 1));
    assert!(!is_window_edge(&page_with(PAGE_WORDS - 1, WRITE_DACR), PAGE_WORDS - 1));
    let mut page = page_with(0, WRITE_DACR);
    (page[1], page[2]) = (ISB, BL);
    assert!(is_window_edge(&page, 0) && !is_window_edge(&page, PAGE_WORDS));
}

/// Their `SVC` says what they are, and of which register, and no branch takes its place.
#[test]
fn what_opens_and_closes_around_a_call_stays_a_trap() {
    let (mut twins, mut translator) = (Twins::new(WINDOW, CACHE, 16), translator_near());
    let mut memory = Both(Memory::new(16), Code([0; PAGE_WORDS]));
    let page = window();
    assert_eq!(twins.make(VA, PA, text(&page), &mut memory), Made::Twin(0));
    let edges = [12, 17].map(|at| memory.0.words(0)[at]);
    for svc in edges {
        assert_eq!((svc >> 24, svc & 0xff), (0xef, trap::DACR_IN_PLACE | 3));
        assert_eq!(twins.originals().of(svc & 0x00ff_ffff), Some(WRITE_DACR));
    }
    for at in [10, 12, 17] {
        let va = VA.wrapping_add(4 * at);
        assert!(twins.stub(&mut translator, (va, PA.wrapping_add(4 * at)), true, &page, &mut memory).is_some());
    }
    assert_eq!(memory.0.words(0)[10] >> 24, 0xea);
    assert_eq!([12, 17].map(|at| memory.0.words(0)[at]), edges);
    // The read's stub ends in front of them.
    let mut replaced = WordSet::EMPTY;
    [10, 12, 14, 17].into_iter().for_each(|at| replaced.insert(at));
    assert_eq!(stub_length(&page, 10, &replaced), 1);
    // What is written near them makes new ones of them.
    let mut changed = page;
    changed[18] = NOP;
    assert!(twins.change_word(PA, 18, &changed, &mut memory));
    assert_eq!([12, 17].map(|at| memory.0.words(0)[at] & 0xff), [trap::DACR_IN_PLACE | 3, trap::REPLACED]);
}

/// A kernel's own `SVC` that assembly would answer keeps its page from running in place: its number is there to be
/// read.
#[test]
fn calls_that_would_be_taken_for_ours_are_not_in_place() {
    // All that assembly answers: what is left goes to Rust, which knows whose `SVC` it is.
    let is_taken = |number: u32| matches!(number & 0xff, 2..=15 | 31 | 0x22 | 0x28..=0x3f | 0x48..=0x57);
    for number in (0..256).chain([0x8004, 0x90_0104, 0xff_ff04, 0xff_ffff, 0x1_002f, 0x1_0040]) {
        for always in [0xef00_0000, 0x1f00_0000] {
            let word = always | number;
            let stays = (!is_taken(number)).then_some(WordSet::EMPTY);
            let page = page_with(7, word);
            assert_eq!(
                (text(&page).replaced(), text(&page).is_replaced(7)),
                (stays.clone(), stays.map(|_| false)),
                "{word:x}"
            );
            // In the middle of nothing.
            let mut page = [0; PAGE_WORDS];
            page[7] = word;
            assert_eq!((text(&page).replaced(), text(&page).is_replaced(7)), (Some(WordSet::EMPTY), Some(false)));
            // LDR R0, [PC, #8]: a literal.
            let mut page = page_with(7, word);
            page[3] = 0xe59f_0008;
            assert_eq!((text(&page).replaced(), text(&page).is_replaced(7)), (Some(WordSet::EMPTY), Some(false)));
        }
    }
    let (mut twins, mut memory) = (Twins::new(WINDOW, CACHE, 16), Memory::new(16));
    assert_eq!(twins.make(VA, PA, text(&page_with(7, 0xef00_0001)), &mut memory), Made::Twin(0));
    assert!(twins.change_word(PA, 8, &page_with(8, 0xef00_0001), &mut memory));
    assert!(!twins.change_word(PA, 8, &page_with(8, 0xef00_0004), &mut memory));
    assert_eq!(twins.make(VA, PA, text(&page_with(8, 0xef00_0004)), &mut memory), Made::Unfit);
}

#[test]
fn a_twin_is_the_page_but_for_what_is_replaced() {
    let (mut twins, mut memory) = (Twins::new(WINDOW, CACHE, 16), Memory::new(16));
    let page = page_with(7, MRS_R0);
    assert_eq!(twins.make(VA, PA, text(&page), &mut memory), Made::Twin(0));
    assert_eq!(memory.words(0), &page_with(7, stand_in(MRS_R0)));
    assert_eq!((twins.of(VA, PA), twins.of(VA, GuestPa(0x4020_0000))), (Some(0), None));
    assert_eq!(twins.source(0), PA);
    assert!(twins.lead_to(0, 7, CachePc(0xbfa0_1100), &mut memory));
    let branch = memory.words(0)[7];
    assert_eq!(branch, 0xea00_0000 | (0xbfa0_1100u32.wrapping_sub(VA.0 + 28 + 8) >> 2) & 0x00ff_ffff);
    // What may be in the stub has changed: it is to be asked for.
    let mut page = page;
    page[8] = BX_LR;
    assert!(twins.change_word(PA, 8, &page, &mut memory));
    assert_eq!((memory.words(0)[7], memory.words(0)[8]), (stand_in(MRS_R0), BX_LR));
    page[7] = NOP;
    assert!(twins.change_word(PA, 7, &page, &mut memory));
    assert_eq!(memory.words(0)[7], NOP);
    assert!(!twins.replaced(0).contains(7));
    page[20] = CPSID_I;
    assert!(twins.change_word(PA, 20, &page, &mut memory));
    assert_eq!(memory.words(0)[20], stand_in(CPSID_I));
    assert!(twins.replaced(0).contains(20));
    assert!(!twins.is_anything_gone());
}

/// So often the words of a page may be written in a short time before it loses its twin.
const MOST_WRITES: usize = 4096;

/// What a kernel patches is written to the twins at once, where [`Twins::change_word`] would do no more.
#[test]
fn words_on_which_nothing_depends_are_patched_at_once() {
    let (mut twins, mut translator) = (Twins::new(WINDOW, CACHE, 16), translator_near());
    let mut memory = Both(Memory::new(16), Code([0; PAGE_WORDS]));
    let mut page = page_with(100, MRS_R0);
    let other = VA.wrapping_add(4096);
    for (number, va) in [VA, other].into_iter().enumerate() {
        assert_eq!(twins.make(va, PA, text(&page), &mut memory), Made::Twin(number as u16));
    }
    // In front of what is replaced, and behind all that may be in its stub: in both twins.
    for at in [0, 99, 100 + LONGEST, PAGE_WORDS - 1] {
        assert!(twins.patch(&translator, (PA, at), BX_LR, &mut memory), "{at}");
        page[at] = BX_LR;
        for number in 0..2 {
            assert_eq!(memory.0.words(number)[at], BX_LR);
        }
    }
    // What is replaced, and what may be in its stub; what is to be replaced, or would be taken for ours; another page.
    let refused = [
        (PA, 100, NOP),
        (PA, 100 + LONGEST - 1, NOP),
        (PA, 7, CPSID_I),
        (PA, 7, 0xee1d_3f70),
        (PA, 7, 0xef00_0004),
        (GuestPa(PA.0 + 0x1000), 7, NOP),
    ];
    let before = [0, 1].map(|number| *memory.0.words(number));
    for (pa, at, word) in refused {
        assert!(!twins.patch(&translator, (pa, at), word, &mut memory), "{at} {word:x}");
    }
    assert_eq!([0, 1].map(|number| *memory.0.words(number)), before);
    // A stub that ends in front of it, of whose block it is a word.
    assert!(
        twins.stub(&mut translator, (VA.wrapping_add(400), PA.wrapping_add(400)), true, &page, &mut memory).is_some()
    );
    assert!(translator.has_made_from(PA, 100) && !translator.has_made_from(PA, 99));
    assert!(twins.patch(&translator, (PA, 99), NOP, &mut memory));
    // As often as words may change singly.
    let times = (0..).take_while(|_| twins.patch(&translator, (PA, 3), NOP, &mut memory)).count();
    assert_eq!(times, MOST_WRITES - 5);
    assert!(!twins.change_word(PA, 3, &page, &mut memory));
}

/// Assembly is told which words are patched so: those that [`Twins::patch`] would patch, and no other.
#[test]
fn what_may_be_patched_without_asking_is_what_is_patched() {
    let mut page = page_with(351, CPSID_I);
    // Across words of a set, and at the ends of the page.
    for at in [0, 2, 100, 203, 620, PAGE_WORDS - 2] {
        page[at] = MRS_R0;
    }
    // LDR R0, [PC, #0x100]: a stub is noted as made from all up to what is loaded.
    page[352] = 0xe59f_0100;
    page[353] = CPSID_I;
    // A page changes so often while it has a twin.
    const AT_ONCE: usize = 128;
    let free = |stub: bool| {
        let mut free = WordSet::EMPTY;
        for first in (0..PAGE_WORDS).step_by(AT_ONCE) {
            let (mut twins, mut translator) = (Twins::new(WINDOW, CACHE, 16), translator_near());
            let mut memory = Both(Memory::new(16), Code([0; PAGE_WORDS]));
            assert_eq!(twins.make(VA, PA, text(&page), &mut memory), Made::Twin(0));
            if stub {
                let at = (VA.wrapping_add(4 * 351), PA.wrapping_add(4 * 351));
                assert!(twins.stub(&mut translator, at, true, &page, &mut memory).is_some());
            }
            let said = twins.patchable(&translator, PA).expect("it has one twin");
            assert_eq!((said.number, said.va, said.mapped, said.left), (0, VA, false, 4096));
            for (at, &word) in page.iter().enumerate().skip(first).take(AT_ONCE) {
                let patched = twins.patch(&translator, (PA, at), word, &mut memory);
                assert_eq!(said.free.contains(at), patched, "{at}");
                if patched {
                    free.insert(at);
                }
            }
            assert!(twins.patchable(&translator, PA.wrapping_add(4096)).is_none(), "no twin");
            assert_eq!(twins.make(VA.wrapping_add(4096), PA, text(&page), &mut memory), Made::Twin(1));
            assert!(twins.patchable(&translator, PA).is_none(), "two twins");
        }
        free.iter().count()
    };
    let (without, with) = (free(false), free(true));
    assert!(with + 20 < without && with > 700, "{with} {without}");
    for word in (0..=0xfff_u32).flat_map(|high| (0..=0xff).map(move |low| high << 20 | low)) {
        let may_be = MAY_BE_REPLACED[(word >> 20) as usize];
        assert!(may_be || !is_sensitive(word) && !trap::is_taken_for_ours(word), "{word:08x}");
    }
}

/// What assembly has patched counts, and where the twin is mapped, that is said.
#[test]
fn what_was_patched_elsewhere_counts() {
    let (mut twins, translator) = (Twins::new(WINDOW, CACHE, 16), translator_near());
    let mut memory = Both(Memory::new(16), Code([0; PAGE_WORDS]));
    let page = page_with(7, MRS_R0);
    assert_eq!(twins.make(VA, PA, text(&page), &mut memory), Made::Twin(0));
    twins.maps(VA, &mut memory);
    let left = |twins: &mut Twins| twins.patchable(&translator, PA).map(|said| (said.mapped, said.left));
    assert_eq!(left(&mut twins), Some((true, 4096)));
    twins.were_patched(0, 4000);
    assert_eq!(left(&mut twins), Some((true, 96)));
    let times = (0..).take_while(|_| twins.patch(&translator, (PA, 100), NOP, &mut memory)).count();
    assert_eq!((times, left(&mut twins)), (96, Some((true, 0))));
    // Half of it is forgotten a second later.
    twins.second_passes();
    assert_eq!(left(&mut twins), Some((true, 2048)));
    twins.were_patched(0, 2048);
    // Mapped nowhere, what is written is to be seen once it is mapped again.
    twins.look_anew();
    assert_eq!(left(&mut twins), Some((false, 0)));
    memory.twin(0)[3] = BX_LR;
    memory.clean_twin(0, 3, 1);
    assert!(!memory.0.is_seen(0));
    twins.maps(VA, &mut memory);
    assert!(memory.0.is_seen(0));
}

#[test]
fn reads_of_tpidruro_are_reads_of_tpidrurw() {
    const READ: u32 = 0xee1d_3f70;
    const INSTEAD: u32 = 0xee1d_3f50;
    assert_eq!(instead(READ), Some(INSTEAD));
    assert_eq!(instead(READ & 0x0fff_ffff), Some(INSTEAD & 0x0fff_ffff));
    // Flags; MRC2; a write; TPIDRURW and TPIDRPRW, which have stubs.
    for word in [0xee1d_ff70, 0xfe1d_3f70, 0xee0d_3f70, 0xee1d_3f50, 0xee1d_3f90, MRS_R0, NOP] {
        assert_eq!(instead(word), None, "{word:08x}");
    }
    let (mut twins, mut memory) = (Twins::new(WINDOW, CACHE, 16), Memory::new(16));
    let mut page = page_with(7, READ);
    page[8] = MRS_R0;
    assert_eq!(twins.make(VA, PA, text(&page), &mut memory), Made::Twin(0));
    assert_eq!(memory.words(0)[7..9], [INSTEAD, stand_in(MRS_R0)]);
    assert_eq!(twins.replaced(0).iter().collect::<Vec<_>>(), [8]);
    // It comes and goes as any word.
    page[7] = NOP;
    assert!(twins.change_word(PA, 7, &page, &mut memory));
    assert_eq!(memory.words(0)[7], NOP);
    page[8] = READ;
    assert!(twins.change_word(PA, 8, &page, &mut memory));
    assert_eq!(memory.words(0)[8], INSTEAD);
    assert_eq!(twins.replaced(0), &WordSet::EMPTY);
}

#[test]
fn stubs_that_are_gone_are_asked_for_anew() {
    let (mut twins, mut memory) = (Twins::new(WINDOW, CACHE, 16), Memory::new(16));
    let mut page = page_with(7, MRS_R0);
    page[1000] = CPSID_I;
    let other = VA.wrapping_add(4096);
    assert_eq!(twins.make(VA, PA, text(&page), &mut memory), Made::Twin(0));
    assert_eq!(twins.make(other, PA, text(&page), &mut memory), Made::Twin(1));
    assert!(twins.lead_to(0, 7, CachePc(0xbfa0_1100), &mut memory));
    assert!(twins.lead_to(1, 1000, CachePc(0xbfa0_1200), &mut memory));
    twins.forget_stubs();
    assert!(!twins.is_settled());
    assert!(twins.settle(&mut memory) && twins.is_settled());
    // What was no branch has not changed.
    assert_eq!((memory.words(0)[7], memory.words(0)[1000]), (REPLACED, stand_in(CPSID_I)));
    assert_eq!((memory.words(1)[7], memory.words(1)[1000]), (stand_in(MRS_R0), REPLACED));
    assert!(!twins.is_anything_gone());
    assert_eq!(twins.sources().collect::<Vec<_>>(), [PA, PA]);
    assert!(twins.lead_to(0, 7, CachePc(0xbfa0_1300), &mut memory));
    twins.forget_stubs();
    assert!(twins.settle(&mut memory));
    assert_eq!(memory.words(0)[7], REPLACED);
}

/// What leads to stubs is undone in pieces, each no longer than some 20,000 instructions take.
#[test]
fn stubs_of_many_pages_are_forgotten_in_pieces() {
    const PAGES: u32 = 96;
    let (mut twins, mut memory) = (Twins::new(WINDOW, CACHE, PAGES as u16), Memory::new(PAGES as usize));
    let mut page = page_with(7, MRS_R0);
    (0..20).for_each(|n| page[100 + 20 * n] = MRS_R0);
    let numbers: Vec<_> = (0..PAGES)
        .map(|n| {
            let va = VA.wrapping_add(4096 * n);
            let Made::Twin(number) = twins.make(va, PA, text(&page), &mut memory) else { panic!("there is room") };
            assert!(twins.lead_to(number, 7, CachePc(0xbfa0_1100), &mut memory));
            number
        })
        .collect();
    twins.forget_stubs();
    let lead = |memory: &Memory| numbers.iter().filter(|&&n| memory.words(n)[7] != REPLACED).count();
    let (mut before, mut pieces) = (lead(&memory), 1);
    assert_eq!(before, PAGES as usize);
    while !twins.settle(&mut memory) {
        assert!((1..=20).contains(&(before - lead(&memory))), "a piece");
        (before, pieces) = (lead(&memory), pieces + 1);
    }
    assert_eq!((lead(&memory), pieces), (0, 5));
}

#[test]
fn twins_go_with_their_page() {
    let (mut twins, mut memory) = (Twins::new(WINDOW, CACHE, 16), Memory::new(16));
    let page = [NOP; PAGE_WORDS];
    let other = GuestVa(0xc030_0000);
    let far = GuestPa(PA.0 + (1024 << 12));
    assert_eq!(twins.make(VA, PA, text(&page), &mut memory), Made::Twin(0));
    assert_eq!(twins.make(other, PA, text(&page), &mut memory), Made::Twin(1));
    for n in 2..16 {
        let va = GuestVa(0xc031_0000 + n * 4096);
        assert_eq!(twins.make(va, far, text(&page), &mut memory), Made::Twin(n as u16));
    }
    twins.remove(PA);
    assert!(!twins.has(PA) && twins.has(far));
    let mut gone = [twins.take_gone(), twins.take_gone()];
    gone.sort();
    assert_eq!(gone, [Some(VA), Some(other)]);
    assert!(!twins.is_anything_gone());
    assert!(matches!(twins.make(other, far, text(&page), &mut memory), Made::Twin(0 | 1)));
    // Another page at the same address: the old twin is not to be seen any more.
    assert!(matches!(twins.make(other, PA, text(&page), &mut memory), Made::Twin(0 | 1)));
    assert_eq!(twins.take_gone(), Some(other));
    twins.clear();
    assert!(twins.is_anything_gone());
    assert_eq!((twins.take_gone(), twins.is_anything_gone()), (None, false));
    assert_eq!((twins.at(other), twins.usage()), (None, (0, 16)));
}

/// What is to have twins as well.
fn left(twins: &mut Twins) -> Vec<GuestVa> {
    std::iter::from_fn(|| twins.take_left()).collect()
}

/// Makes the twins of 64 KiB from [`VA`] on; the pages of the guest's are `apart`.
fn make_region(twins: &mut Twins, memory: &mut Memory, apart: u32) {
    for n in 0..16 {
        let (va, pa) = (VA.wrapping_add(n << 12), PA.wrapping_add(n * apart));
        assert!(matches!(twins.make(va, pa, text(&[NOP; PAGE_WORDS]), memory), Made::Twin(_)));
    }
}

#[test]
fn a_region_whose_pages_all_have_twins_is_whole() {
    let (mut twins, mut memory) = (Twins::new(WINDOW, CACHE, 48), Memory::new(48));
    let page = [NOP; PAGE_WORDS];
    // One that lies anywhere.
    assert_eq!(twins.make(GuestVa(0xc050_0000), PA, text(&page), &mut memory), Made::Twin(0));
    assert_eq!(left(&mut twins), []);
    twins.begin_region(VA.wrapping_add(0x5678));
    // It has one, and the last group is for twins from anywhere.
    twins.begin_region(VA);
    twins.begin_region(VA.wrapping_add(0x1_0000));
    assert_eq!(twins.make(VA.wrapping_add(0x7000), PA.wrapping_add(0x7000), text(&page), &mut memory), Made::Twin(23));
    assert_eq!(twins.whole(VA), None);
    // All are asked for but for those that are there, and once; if two are executed.
    twins.executes(VA.wrapping_add(0x7000));
    assert_eq!(left(&mut twins), []);
    assert_eq!(twins.make(VA.wrapping_add(0x3000), PA.wrapping_add(0x3000), text(&page), &mut memory), Made::Twin(19));
    assert_eq!(left(&mut twins), []);
    twins.executes(VA.wrapping_add(0x3000));
    let wanted: Vec<_> = (0..16).filter(|n| ![3, 7].contains(n)).map(|n| VA.wrapping_add(n << 12)).collect();
    assert_eq!(left(&mut twins), wanted);
    assert_eq!(left(&mut twins), []);
    make_region(&mut twins, &mut memory, 4096);
    assert_eq!((twins.whole(VA), twins.whole(VA.wrapping_add(0xf123))), (Some(16), Some(16)));
    assert_eq!(twins.whole(VA.wrapping_add(0x1_0000)), None);
    // Each at its place, so that it may be mapped by itself, too.
    let places = (0..16).map(|n| twins.of(VA.wrapping_add(n << 12), PA.wrapping_add(n << 12)));
    assert!(places.eq((16..32).map(Some)));
    twins.remove(PA.wrapping_add(0x3000));
    assert_eq!(twins.whole(VA), None);
    let again = twins.make(VA.wrapping_add(0x3000), PA.wrapping_add(0x3000), text(&page), &mut memory);
    assert_eq!((again, twins.whole(VA)), (Made::Twin(19), Some(16)));
    // The group is free when its last twin is gone.
    (0..16).for_each(|n| twins.remove(PA.wrapping_add(n << 12)));
    twins.begin_region(VA.wrapping_add(0x1_0000));
    assert_eq!(twins.regions(), (0, 1));
}

#[test]
fn twins_from_anywhere_make_room_for_others() {
    const GROUPS: u32 = 16;
    let (mut twins, mut memory) = (Twins::new(WINDOW, CACHE, 256), Memory::new(256));
    let page = [NOP; PAGE_WORDS];
    // Two groups are kept for these.
    for region in 0..GROUPS {
        let va = VA.wrapping_add(region << 16);
        twins.begin_region(va);
        assert!(matches!(twins.make(va, PA, text(&page), &mut memory), Made::Twin(_)));
    }
    assert_eq!((twins.regions(), twins.usage()), ((0, 14), (16, 256)));
    let anywhere = |n: u32| GuestVa(0xc080_0000 + (n << 12));
    let mut make = |twins: &mut Twins, n| {
        assert!(matches!(twins.make(anywhere(n), PA, text(&page), &mut memory), Made::Twin(_)), "{n}");
    };
    (2..32).for_each(|n| make(&mut twins, n));
    assert_eq!(twins.usage(), (46, 256));
    assert!(!twins.is_anything_gone());
    // There is no room for another one: all from anywhere go, and of each eight regions one, which others may have now.
    make(&mut twins, 32);
    assert_eq!((twins.regions(), twins.usage()), ((0, 12), (13, 256)));
    assert!(twins.is_anything_gone());
    assert_eq!((twins.take_gone(), twins.is_anything_gone()), (None, false), "more than are known one by one");
    assert!((2..32).all(|n| twins.at(anywhere(n)).is_none()) && twins.at(anywhere(32)).is_some());
    // A page that has to go again and again is not to blame.
    (0..20_000).for_each(|n| make(&mut twins, n % 300));
    assert!((0..300).all(|n| twins.is_fit(anywhere(n))));
    // In the end, no region is left that was there first.
    let first = (0..GROUPS).filter(|region| twins.at(VA.wrapping_add(region << 16)).is_some()).count();
    assert_eq!((twins.regions(), first), ((0, 0), 0));
}

#[test]
fn a_region_of_scattered_pages_is_not_whole() {
    let (mut twins, mut memory) = (Twins::new(WINDOW, CACHE, 32), Memory::new(32));
    twins.begin_region(VA);
    make_region(&mut twins, &mut memory, 8192);
    assert_eq!(twins.whole(VA), None);
}

#[test]
fn a_region_that_cannot_run_in_place_keeps_no_group() {
    let (mut twins, mut memory) = (Twins::new(WINDOW, CACHE, 32), Memory::new(32));
    let mut page = [NOP; PAGE_WORDS];
    page[500] = 0xe8dd_0010; // LDM SP, {R4}^
    (501..520).for_each(|at| page[at] = 0x1234_5678);
    twins.begin_region(VA);
    assert_eq!(twins.make(VA, PA, text(&page), &mut memory), Made::Unfit);
    assert_eq!(twins.regions(), (0, 0));
    twins.begin_region(VA.wrapping_add(0x1_0000));
    assert_eq!(twins.regions(), (0, 1));
}

#[test]
fn many_that_go_are_all_to_be_unmapped() {
    let (mut twins, mut memory) = (Twins::new(WINDOW, CACHE, 112), Memory::new(112));
    let page = [NOP; PAGE_WORDS];
    for n in 0..60 {
        let made = twins.make(VA.wrapping_add(n << 12), PA.wrapping_add(n << 12), text(&page), &mut memory);
        assert!(matches!(made, Made::Twin(_)));
    }
    (0..60).for_each(|n| twins.remove(PA.wrapping_add(n << 12)));
    assert_eq!((twins.take_gone(), twins.is_anything_gone()), (None, false));
}

#[test]
fn pages_that_change_all_the_time_do_not_run_in_place() {
    let (mut twins, mut memory) = (Twins::new(WINDOW, CACHE, 16), Memory::new(16));
    let page = [NOP; PAGE_WORDS];
    let mut copies = 0;
    while twins.is_fit(VA) {
        assert!(matches!(twins.make(VA, PA, text(&page), &mut memory), Made::Twin(_)));
        twins.remove(PA);
        copies += 1;
        assert!(copies < 100);
    }
    assert_eq!(twins.make(VA, PA, text(&page), &mut memory), Made::Unfit);
    // Nor does what is written again and again.
    let other = GuestVa(0xc020_0000);
    assert!(matches!(twins.make(other, PA, text(&page), &mut memory), Made::Twin(_)));
    let writes = (0..).take_while(|_| twins.change_word(PA, 3, &page, &mut memory)).count();
    assert_eq!(writes, MOST_WRITES);
    // They do when some time has passed, but not what cannot.
    let unfit = GuestVa(0xc040_0000);
    twins.refuse(unfit);
    assert!([VA, unfit].iter().all(|&va| !twins.is_fit(va)));
    twins.second_passes();
    assert!(matches!(twins.make(VA, PA, text(&page), &mut memory), Made::Twin(_)));
    (0..300).for_each(|_| twins.second_passes());
    assert_eq!([VA, unfit].map(|va| twins.is_fit(va)), [true, false]);
    // Nor what is nowhere near.
    for va in [0xbeff_f000, 0xc180_0000, CACHE.0, CACHE.0 + CACHE.1 - 4096, 0xffff_0000] {
        assert!(!twins.covers(GuestVa(va)), "{va:08x}");
        assert_eq!(twins.make(GuestVa(va), PA, text(&page), &mut memory), Made::Unfit);
    }
}

/// A page that is written now and then runs in place for good: a kernel whose functions are traced.
#[test]
fn pages_that_are_written_now_and_then_run_in_place() {
    let (mut twins, mut memory) = (Twins::new(WINDOW, CACHE, 16), Memory::new(16));
    let page = [NOP; PAGE_WORDS];
    assert_eq!(twins.make(VA, PA, text(&page), &mut memory), Made::Twin(0));
    for second in 0..100 {
        for write in 0..MOST_WRITES / 2 {
            assert!(twins.change_word(PA, 3, &page, &mut memory), "{second} {write}");
        }
        twins.second_passes();
    }
    // Nor do copies count that were made long ago: modules come and go.
    for second in 0..100 {
        for _ in 0..8 {
            twins.remove(PA);
            assert!(matches!(twins.make(VA, PA, text(&page), &mut memory), Made::Twin(_)), "{second}");
        }
        twins.second_passes();
    }
}

/// The memory of twins and that of the blocks beside them.
struct Both(Memory, Code);

impl TwinMemory for Both {
    fn twin(&mut self, number: u16) -> &mut Words {
        self.0.twin(number)
    }

    fn publish_twin(&mut self, number: u16, va: GuestVa, first: usize, words: usize) {
        self.0.publish_twin(number, va, first, words);
    }

    fn clean_twin(&mut self, number: u16, first: usize, words: usize) {
        self.0.clean_twin(number, first, words);
    }

    fn publish_cleaned(&mut self) {
        self.0.publish_cleaned();
    }
}

impl StubMemory for Both {
    type Code = Code;

    fn code(&mut self) -> &mut Code {
        &mut self.1
    }
}

fn translator_near() -> Translator {
    let layout = Layout { base: CACHE.0, pages: 1, mirror: None };
    Translator::new(layout, Options::all(), Capacity { blocks: 16, exits: 64, mirror_pages: 0 })
}

/// Where a kernel's vectors lead, and where it leaves for user code, has different traps.
#[test]
fn returns_behind_vectors_are_told_from_those_to_user_code() {
    const MOVS_PC_LR: u32 = 0xe1b0_f00e;
    const LDM_USER: u32 = 0xe955_7fff;
    const STM_USER: u32 = 0xe8cd_6000;
    let number = |before: u32, instruction: u32, lent_thread_id: bool| {
        let layout = Layout { base: CACHE.0, pages: 1, mirror: None };
        let options = Options { lent_thread_id, ..Options::all() };
        let mut translator = Translator::new(layout, options, Capacity { blocks: 16, exits: 64, mirror_pages: 0 });
        let (mut twins, mut page) = (Twins::new(WINDOW, CACHE, 16), page_with(7, before));
        page[9] = instruction;
        let mut memory = Both(Memory::new(16), Code([0; PAGE_WORDS]));
        assert_eq!(twins.make(VA, PA, text(&page), &mut memory), Made::Twin(0));
        let at = (VA.wrapping_add(28), PA.wrapping_add(28));
        assert!(twins.stub(&mut translator, at, true, &page, &mut memory).is_some());
        let returns = [trap::EXCEPTION_RETURN, trap::LENT_EXCEPTION_RETURN, trap::LENT_VECTOR_RETURN];
        let is_return = |word: &&u32| returns.iter().any(|number| **word == 0xef00_0000 | number);
        let mut found = memory.1.0.iter().filter(is_return);
        let (first, more) = (found.next().map(|word| word & 0xff), found.next());
        assert_eq!(more, None);
        first.expect("one returns")
    };
    assert_eq!(number(MRS_R0, MOVS_PC_LR, true), trap::LENT_VECTOR_RETURN);
    assert_eq!(number(STM_USER, MOVS_PC_LR, true), trap::LENT_VECTOR_RETURN);
    assert_eq!(number(LDM_USER, MOVS_PC_LR, true), trap::LENT_EXCEPTION_RETURN);
    // SUBS PC, LR, #4; MOVS PC, R12.
    assert_eq!(number(MRS_R0, 0xe25e_f004, true), trap::LENT_EXCEPTION_RETURN);
    assert_eq!(number(MRS_R0, 0xe1b0_f00c, true), trap::LENT_EXCEPTION_RETURN);
    for before in [MRS_R0, LDM_USER] {
        assert_eq!(number(before, MOVS_PC_LR, false), trap::EXCEPTION_RETURN);
    }
    for number in [trap::LENT_EXCEPTION_RETURN, trap::LENT_VECTOR_RETURN] {
        assert_eq!(trap::number(0xef00_0000 | number), trap::EXCEPTION_RETURN);
    }
}

#[test]
fn a_stub_is_made_once_and_goes_with_all_blocks() {
    let (mut twins, mut translator) = (Twins::new(WINDOW, CACHE, 16), translator_near());
    let mut memory = Both(Memory::new(16), Code([0; PAGE_WORDS]));
    let page = page_with(7, MRS_R0);
    assert_eq!(twins.make(VA, PA, text(&page), &mut memory), Made::Twin(0));
    let at = |n: u32| (VA.wrapping_add(4 * n), PA.wrapping_add(4 * n));
    assert_eq!(twins.stub(&mut translator, at(6), true, &page, &mut memory), None);
    let stub = twins.stub(&mut translator, at(7), true, &page, &mut memory).expect("it is replaced");
    assert_eq!(memory.0.words(0)[7] >> 24, 0xea, "a branch");
    assert_eq!(twins.stub(&mut translator, at(7), true, &page, &mut memory), Some(stub));
    assert_eq!(translator.stats().translated, 1);
    twins.follow(&translator);
    assert!(twins.is_settled());
    assert_eq!(memory.0.words(0)[7] >> 24, 0xea, "still");
    translator.flush(&mut memory.1);
    twins.follow(&translator);
    assert!(!twins.is_settled() && twins.settle(&mut memory));
    assert_eq!(memory.0.words(0), &page_with(7, REPLACED));
}

/// While a page runs by blocks, they may be longer than any stub. Then nothing that is written more than a stub behind
/// would be known to be in what leads there.
#[test]
fn a_long_block_is_no_stub() {
    let (mut twins, mut translator) = (Twins::new(WINDOW, CACHE, 16), translator_near());
    let mut memory = Both(Memory::new(16), Code([0; PAGE_WORDS]));
    let mut page = page_with(7, MRS_R0);
    let (va, pa) = (VA.wrapping_add(28), PA.wrapping_add(28));
    let block = translator.translate(va, pa, true, &page, &mut memory.1);
    assert!(translator.length(block) > LONGEST);
    assert_eq!(twins.make(VA, PA, text(&page), &mut memory), Made::Twin(0));
    let stub = twins.stub(&mut translator, (va, pa), true, &page, &mut memory).expect("it is replaced");
    page[7 + LONGEST] = BX_LR;
    let word = (7 + LONGEST) as u16;
    assert!(twins.change_stubs(&mut translator, PA, Some(word..=word), &mut memory));
    assert!(twins.change_word(PA, 7 + LONGEST, &page, &mut memory));
    let live = translator.block_at(stub).is_some_and(|block| translator.is_live(block));
    assert!(live || memory.0.words(0)[7] >> 24 == 0xef, "the twin leads to a block that is gone");
}

/// A stub has constants for the literals of its page.
#[test]
fn a_stub_goes_with_its_literals() {
    let (mut twins, mut translator) = (Twins::new(WINDOW, CACHE, 16), translator_near());
    let mut memory = Both(Memory::new(16), Code([0; PAGE_WORDS]));
    let mut page = page_with(7, MRS_R0);
    // LDR R1, [PC, #360]
    (page[8], page[9]) = (0xe59f_1168, CPSID_I);
    page[100] = 0x1234_5678;
    assert_eq!(twins.make(VA, PA, text(&page), &mut memory), Made::Twin(0));
    let at = |n: u32| (VA.wrapping_add(4 * n), PA.wrapping_add(4 * n));
    let stub = twins.stub(&mut translator, at(7), true, &page, &mut memory).expect("it is replaced");
    let mut change = |word: u16, translator: &mut Translator| {
        page[usize::from(word)] = 0x8765_4321;
        assert!(twins.change_stubs(translator, PA, Some(word..=word), &mut memory));
        assert!(twins.change_word(PA, word.into(), &page, &mut memory));
        let live = translator.block_at(stub).is_some_and(|block| translator.is_live(block));
        (live, memory.0.words(0)[7] >> 24 == 0xef)
    };
    assert_eq!(change(101, &mut translator), (true, false));
    assert_eq!(change(100, &mut translator), (false, true));
}
