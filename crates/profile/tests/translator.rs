//! What words count as, compared with what the translator itself says of them: for the instructions of its own golden
//! files, and for random mixtures of them.

use std::collections::BTreeMap;
use std::path::Path;

use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_dbt::layout::{HOT_FIELDS, Layout, PAGE_WORDS, Window};
use spica_dbt::{Capacity, CodeMemory, Options, Translator};
use spica_isa::{Op, Reg, decode};
use spica_profile::code::{Class, Rule, classes};

const MIRROR: Window = Window { start: 0xbf00_0000, size: 40 << 20, distance: 0x3300_0000, t32: false, guarded: false };
const LAYOUT: Layout = Layout { base: 0xf180_0000, pages: 1, mirror: Some(MIRROR) };
const VA: u32 = 0xc010_0000;

struct Code(Box<[u32; PAGE_WORDS]>);

impl CodeMemory for Code {
    fn page(&mut self, _page: u32) -> &mut [u32; PAGE_WORDS] {
        &mut self.0
    }

    fn publish(&mut self, _page: u32, _first: usize, _words: usize) {}

    fn mirror_page(&mut self, _page: u32) -> &mut [u32; PAGE_WORDS] {
        unreachable!("nothing lands here")
    }

    fn publish_mirror(&mut self, _page: u32, _va: u32, _first: usize, _words: usize) {}

    fn map_mirror(&mut self, _va: u32, _page: u32) {}

    fn unmap_mirror(&mut self, _va: Option<u32>) {}
}

/// The instructions of the translator's golden files.
fn golden() -> Vec<u32> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dbt/tests/golden");
    let mut words = Vec::new();
    // Those of T32 code are in a directory of their own.
    let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path()).filter(|path| path.is_file());
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        let heads = text.lines().filter(|l| !l.starts_with([' ', '#']) && !l.is_empty());
        words.extend(heads.filter_map(|l| u32::from_str_radix(l.get(10..18)?, 16).ok()));
    }
    words.sort_unstable();
    words.dedup();
    assert!(words.len() > 150, "{} golden instructions", words.len());
    words
}

/// Where a word comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Origin {
    /// The guest instruction.
    at: u32,
    /// Its block's first one.
    first: u32,
    /// What is behind its block.
    end: u32,
}

/// A guest page translated block by block, as long as there is room in the code page: each block begins where the last
/// one ended. Gives the code page, and of each of its words the guest address that the translator says, and its block's
/// first and last.
fn translated(guest: &[u32; PAGE_WORDS]) -> (Box<[u32; PAGE_WORDS]>, BTreeMap<usize, Origin>) {
    let options = Options { vfp: true, thumbee: true, ..Options::all() };
    let mut translator = Translator::new(LAYOUT, options, Capacity { blocks: 400, exits: 2000, mirror_pages: 1 });
    let mut code = Code(Box::new([0; PAGE_WORDS]));
    let mut at = VA;
    let mut blocks = Vec::new();
    while at < VA + 0x1000 {
        let id = translator.translate(GuestVa(at), GuestPa(at), true, guest, &mut code);
        // All are forgotten when the page is full: what was there is of no use any more.
        if translator.version() != 0 || blocks.len() > 10 {
            break;
        }
        let length = translator.length(id) as u32;
        blocks.push((id, at, at + 4 * length));
        at += 4 * length;
    }
    let mut truth = BTreeMap::new();
    for word in HOT_FIELDS as usize / 4..PAGE_WORDS {
        let pc = CachePc(LAYOUT.code_page(0).0 + 4 * word as u32);
        let Some(id) = translator.block_at(pc) else { continue };
        let Some((_, first, end)) = blocks.iter().find(|(block, ..)| *block == id) else { continue };
        if let Some(location) = translator.locate(id, pc, guest) {
            truth.insert(word, Origin { at: location.guest.0, first: *first, end: *end });
        }
    }
    (code.0, truth)
}

/// What the word should count as. Of the words of a guest instruction, the first in the hot part is its own.
fn expected(truth: &BTreeMap<usize, Origin>, guest: &[u32; PAGE_WORDS], word: usize) -> Class {
    let origin = truth[&word];
    if origin.at >= origin.end {
        return Class { rule: Rule::BlockEnd, own: false };
    }
    let of_the_same = |word: usize| truth.get(&word) == Some(&origin);
    // A block's first word is its landing, if the block begins here.
    let mut first = (HOT_FIELDS as usize / 4..PAGE_WORDS).find(|&w| of_the_same(w)).unwrap_or(word);
    if origin.at == origin.first {
        if word == first {
            return Class { rule: Rule::Indirect, own: false };
        }
        first += 1;
    }
    Class { rule: rule(guest[(origin.at - VA) as usize / 4]), own: word == first }
}

/// The rule by what the instruction is, as the table in docs/translator.md has it.
fn rule(word: u32) -> Rule {
    let d = decode(word);
    match d.op {
        Op::DataProcessing { op, s, rd: Reg::PC, .. } if !op.is_test() => {
            if s {
                Rule::ExceptionReturn
            } else {
                Rule::Indirect
            }
        }
        Op::Mem(mem) if mem.unprivileged => Rule::Unprivileged,
        Op::Mem(mem) if mem.load && mem.rt == Reg::PC => Rule::Indirect,
        Op::Mem(mem) if mem.rn == Reg::PC || mem.rt == Reg::PC => Rule::PcOperand,
        Op::VfpMem { rn: Reg::PC, .. } => Rule::PcOperand,
        Op::MemMultiple(m) if m.user && m.load && m.regs >> 15 != 0 => Rule::ExceptionReturn,
        Op::MemMultiple(m) if m.user => Rule::UserBank,
        Op::MemMultiple(m) if m.regs >> 15 != 0 => {
            if m.load {
                Rule::Indirect
            } else {
                Rule::PcOperand
            }
        }
        Op::Branch { .. } | Op::BranchLinkExchangeImm { .. } => Rule::Branch,
        Op::BranchExchange { .. } => Rule::Indirect,
        Op::Mrs { .. } | Op::MsrReg { .. } | Op::ChangeState { .. } => Rule::Status,
        Op::CoprocMove2 { load: true, coproc: 15, crm: 14, .. } => Rule::Counter,
        Op::VfpSystem { sysreg: 8, .. } => Rule::Fpexc,
        Op::VfpSystem { load: true, sysreg: 0 | 6 | 7, .. } => Rule::Register,
        Op::CoprocMove { load, reg, .. } => match (load, reg.coproc, reg.crn, reg.crm, reg.opc2) {
            (false, 15, 7, 5, 4) | (false, 15, 7, 10, 4 | 5) | (_, 15, 13, 0, 2) => Rule::Copied,
            (false, 15, 3, ..) => Rule::Dacr,
            (false, 15, 8, ..) => Rule::Tlb,
            (false, 15, 2, 0, 0) | (false, 15, 13, 0, 1) => Rule::Space,
            // By set and way: nothing is left of it but a word that does nothing.
            (false, 15, 7, 6 | 10 | 14, 2) => Rule::Copied,
            (false, 15, 7, ..) => Rule::Cache,
            _ => Rule::Register,
        },
        _ => Rule::Copied,
    }
}

/// What cannot be told, as the module says: constants for the PC, `STM` with the PC in parts, hints that are dropped.
fn cannot_be_told(word: u32) -> bool {
    match decode(word).op {
        Op::DataProcessing { rd, .. } => rd != Reg::PC && rule(word) == Rule::Copied && mentions_pc(word),
        Op::Mem(mem) => mem.load && mem.rn == Reg::PC,
        Op::MemMultiple(list) => !list.load && list.regs >> 15 != 0 || list.user && list.regs & 0x6000 == 0,
        Op::Preload { .. } => mentions_pc(word),
        _ => false,
    }
}

fn mentions_pc(word: u32) -> bool {
    decode(word).to_string().contains("pc")
}

fn differences(guest: &[u32; PAGE_WORDS]) -> Vec<String> {
    let (code, truth) = translated(guest);
    let found = classes(&code[..], false);
    let mut wrong = Vec::new();
    for (&word, origin) in &truth {
        let expected = expected(&truth, guest, word);
        // Literals are none; the word behind one that chooses is never reached, and so is code of none.
        let Some(found) = found[word] else { continue };
        // What is interpreted says so itself.
        let emulated = found.rule == Rule::Emulated && found.own == expected.own;
        if found != expected && !emulated {
            let at = origin.at;
            let instruction = guest.get((at - VA) as usize / 4).map(|w| decode(*w).to_string()).unwrap_or_default();
            wrong.push(format!(
                "+{:03x} {:08x} of {at:08x} {instruction}: {found:?}, not {expected:?}",
                4 * word,
                code[word]
            ));
        }
    }
    assert!(truth.len() > 100);
    let executable = truth.keys().filter(|word| found[**word].is_some()).count();
    assert!(executable > truth.len() / 2, "{executable} of {} words", truth.len());
    wrong
}

#[test]
fn each_instruction_by_itself() {
    let mut wrong = Vec::new();
    for &word in golden().iter().filter(|word| !cannot_be_told(**word)) {
        let mut guest = [0xe1a0_0000; PAGE_WORDS];
        guest[3] = word;
        // Behind a write of DACR, it gives a register away.
        for next in [0xe1a0_0000, 0xe1a0_200d] {
            guest[4] = next;
            wrong.extend(differences(&guest));
        }
    }
    assert!(wrong.is_empty(), "{} differences\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn mixtures() {
    let golden: Vec<_> = golden().into_iter().filter(|word| !cannot_be_told(*word)).collect();
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let mut wrong = Vec::new();
    for _ in 0..300 {
        let mut guest = [0; PAGE_WORDS];
        // One in four does something special, as blocks would be short otherwise.
        guest.fill_with(|| if random() % 4 == 0 { golden[random() % golden.len()] } else { 0xe1a0_0000 });
        wrong.extend(differences(&guest));
    }
    assert!(wrong.is_empty(), "{} differences\n{}", wrong.len(), wrong[..wrong.len().min(30)].join("\n"));
}
