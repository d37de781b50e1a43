//! What most instructions of a kernel are: data processing, loads and stores, none of whose registers is the PC. They
//! are copied as they are, and told by a look at a table: to decode each of them would be most of what a translation
//! costs.

/// A one in the lowest bit of a field that names a register.
const RN: u32 = 1 << 16;
const RD: u32 = 1 << 12;
const RS: u32 = 1 << 8;
const RM: u32 = 1;
/// All bits of such a field.
const FIELD: u32 = 0xf;
/// A one where [`ones`] has one if bits 7 and 4 are set: with them, data processing is something else (A5.2).
const EXTRA: u32 = 1 << 4;

/// What must hold of instructions with the same bits 27:20, to be copied.
#[derive(Clone, Copy)]
struct Form {
    /// No field here has the number of the PC; and it is not [`EXTRA`], if that is here.
    not_ones: u32,
    /// No bit here is set.
    zero: u32,
}

impl Form {
    /// Nothing is copied.
    const NONE: Form = Form { not_ones: 0, zero: u32::MAX };

    /// By bits 27:20.
    const fn of(bits: u32) -> Form {
        match bits >> 5 {
            // Data processing (A5.2.1 to A5.2.3), but for what stands in place of comparisons without S.
            0 if bits & 0x19 != 0x10 => {
                let Form { not_ones, zero } = Form::data(bits >> 1 & 0xf);
                Form { not_ones: not_ones | RS | RM | EXTRA, zero }
            }
            // MOVW and MOVT.
            1 if bits & 0x1b == 0x10 => Form { not_ones: RD, zero: 0 },
            1 if bits & 0x19 != 0x10 => Form::data(bits >> 1 & 0xf),
            // Words and bytes at an offset from a base that stays (A5.3); by a register, and no media instruction.
            2 if bits & 0x12 == 0x10 => Form { not_ones: RN | RD, zero: 0 },
            3 if bits & 0x12 == 0x10 => Form { not_ones: RN | RD | RM, zero: 1 << 4 },
            _ => Form::NONE,
        }
    }

    /// Of data processing with this opcode: comparisons have no Rd, and moves no Rn.
    const fn data(opcode: u32) -> Form {
        let (not_ones, zero) = match opcode {
            8..=11 => (RN, RD * FIELD),
            13 | 15 => (RD, RN * FIELD),
            _ => (RN | RD, 0),
        };
        Form { not_ones, zero }
    }
}

static FORMS: [Form; 256] = {
    let mut forms = [Form::NONE; 256];
    let mut bits = 0;
    while bits < 256 {
        forms[bits as usize] = Form::of(bits);
        bits += 1;
    }
    forms
};

/// Whether the rule for `word` is certain to emit that word and no other, and has nothing to do with what is around it.
/// Of others for which that holds as well, this is not said.
#[inline(always)]
pub(crate) fn is_copied(word: u32) -> bool {
    const UNCONDITIONAL: u32 = 0xf;
    let form = &FORMS[(word >> 20 & 0xff) as usize];
    word >> 28 != UNCONDITIONAL && (ones(word) & form.not_ones) | (word & form.zero) == 0
}

/// The lowest bit of each field of four bits that are all ones, among others; and [`EXTRA`], which the field of bits 7
/// to 4 has as well if they are.
const fn ones(word: u32) -> u32 {
    let pairs = word & word >> 1;
    pairs & pairs >> 2 | word & word >> 3 & EXTRA
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::at::At;
    use crate::block::Undo;
    use crate::emit::{Emitter, NO_EXITS};
    use crate::layout::{HOT_FIELDS, Layout, PAGE_WORDS};
    use crate::options::Options;
    use crate::papers::Spilling;
    use crate::rules::{Flow, translate};
    use spica_addr::{CachePc, GuestVa};
    use spica_isa::decode;

    /// Whether the rule for `word` emits that word and no other, and the block goes on.
    fn rule_copies(word: u32) -> bool {
        const FIRST: usize = HOT_FIELDS as usize / 4;
        let layout = Layout { base: 0xf180_0000, pages: 2, mirror: None };
        let options = Options::default();
        let mut page = [0; PAGE_WORDS];
        let source = [word; PAGE_WORDS];
        let spilling = Spilling::new(options.spill, &layout, CachePc(layout.base));
        let mut exits = NO_EXITS;
        let mut e = Emitter::new(Some(&mut page), FIRST..PAGE_WORDS, None, None, Some(&source), spilling, &mut exits);
        let pc = GuestVa(0xc010_0040);
        e.begin(pc);
        let flow = translate(&mut e, &options, &decode(word), At::a32(pc));
        let alone = (e.hot(), e.cold(), e.exits().len(), e.constants()) == (FIRST + 1, PAGE_WORDS, 0, None);
        let rest = e.undo() == Undo::NONE && e.take_joined().is_none() && !e.take_checked() && e.take_taken() == (0, 0);
        alone && rest && flow == Flow::Continues && page[FIRST] == word
    }

    #[test]
    fn what_is_copied_is_what_its_rule_copies() {
        const REGISTERS: [u32; 4] = [0, 7, 14, 15];
        let mut copied = 0;
        for bits in 0..256 {
            for (rn, rd) in (0..16).flat_map(|rn| (0..16).map(move |rd| (rn, rd))) {
                for (rs, rm) in REGISTERS.into_iter().flat_map(|rs| REGISTERS.map(|rm| (rs, rm))) {
                    for middle in 0..16 {
                        let word = 0xe << 28 | bits << 20 | rn << 16 | rd << 12 | rs << 8 | middle << 4 | rm;
                        if is_copied(word) {
                            copied += 1;
                            // One condition is as good as another, but for the last.
                            let word = if copied % 8 == 0 { word & 0x0fff_ffff } else { word };
                            assert!(rule_copies(word), "{word:08x}");
                        }
                        assert!(!is_copied(word | 0xf << 28));
                    }
                }
            }
        }
    }

    #[test]
    fn most_of_what_compilers_make_is_copied() {
        let copied = |word: u32| is_copied(word);
        // MOV r4, r0; LDR r3, [r0, #8]; CMP r3, #0; MOVW, MOVT; ADD r0, r1, r2, LSL #2; STRB r3, [r4]; TST; MOVEQ.
        let words = [
            0xe1a0_4000,
            0xe590_3008,
            0xe353_0000,
            0xe300_f000 & 0xffff_3fff,
            0xe34c_3010,
            0xe081_0102,
            0xe5c4_3000,
            0xe313_0001,
            0x03a0_0000,
        ];
        assert!(words.into_iter().all(copied));
        // ADD r0, pc, #4; LDR pc, [r0]; LDR r0, [pc]; MRS; BX lr; MUL; STRH; LDRT; POP {pc}; B; SVC; CMP with Rd; UXTB.
        let words = [
            0xe28f_0004,
            0xe590_f000,
            0xe59f_0000,
            0xe10f_0000,
            0xe12f_ff1e,
            0xe000_0291,
            0xe1c0_30b0,
            0xe4b0_0000,
            0xe8bd_8000,
            0xeaff_fffe,
            0xef00_0000,
            0xe353_1000,
            0xe6ef_0070,
        ];
        assert!(!words.into_iter().any(copied));
    }
}
