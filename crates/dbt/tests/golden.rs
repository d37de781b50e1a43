//! Golden files: for each translation rule, guest instructions and the exact code that they become.
//!
//! A change of the code generator shows in review as a change of these files. `UPDATE_GOLDEN=1` writes them anew.

use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_dbt::checks::{Checks, Look};
use spica_dbt::layout::{Layout, PAGE_WORDS, Window};
use spica_dbt::spill::Place;
use spica_dbt::{BlockId, Capacity, CodeMemory, Options, Spill, Translator, trap};
use std::fmt::Write;
use std::path::PathBuf;

/// Guest code from here on has a return mirror.
const MIRROR: Window =
    Window { start: 0xc000_0000, size: 0x10_0000, distance: 0x3300_0000, t32: false, guarded: false };

/// Code memory that only one block is ever put into.
pub struct Code(pub Vec<[u32; PAGE_WORDS]>);

impl CodeMemory for Code {
    fn page(&mut self, page: u32) -> &mut [u32; PAGE_WORDS] {
        &mut self.0[page as usize]
    }

    fn publish(&mut self, _page: u32, _first: usize, _words: usize) {}

    fn mirror_page(&mut self, _page: u32) -> &mut [u32; PAGE_WORDS] {
        unreachable!("no return mirror here")
    }

    fn publish_mirror(&mut self, _page: u32, _va: u32, _first: usize, _words: usize) {}

    fn map_mirror(&mut self, _va: u32, _page: u32) {}

    fn unmap_mirror(&mut self, _va: Option<u32>) {}
}

/// Behind the instruction is one that does nothing, or, in these parts, one that overwrites a register.
const FREED: &str = "all(), before mov r2, sp";
const FREED_BEHIND_ISB: &str = "all(), before an ISB and a read of TPIDRURO to r2";
/// The guest may have code anywhere, in this part.
const GUARDED: &str = "all(), code that has a guarded return mirror";
const MOV_R0_R0: u32 = 0xe1a0_0000;
const MOV_R2_SP: u32 = 0xe1a0_200d;
const ISB: u32 = 0xf57f_f06f;
const MRC_R2_TPIDRURO: u32 = 0xee1d_2f70;

/// What the instruction `word` at `va` becomes: the words of its own, hot ones first, each with what is to be undone if
/// it faults.
fn translate(options: Options, va: u32, word: u32, behind: [u32; 2], once: bool, guarded: bool) -> String {
    let layout = Layout { base: 0xf180_0000, pages: 1, mirror: Some(Window { guarded, ..MIRROR }) };
    let mut code = Code(vec![[0; PAGE_WORDS]]);
    let mut translator = Translator::new(layout, options, Capacity { blocks: 4, exits: 64, mirror_pages: 1 });
    let mut guest = [0xe1a0_0000; PAGE_WORDS];
    guest[(va as usize & 0xfff) / 4 - 1] = 0xffff_ffff;
    guest[(va as usize & 0xfff) / 4] = word;
    guest[(va as usize & 0xfff) / 4 + 1..][..2].copy_from_slice(&behind);
    let block = if once {
        translator.translate_once(GuestVa(va), GuestPa(va), &guest, &mut code)
    } else {
        translator.translate(GuestVa(va), GuestPa(va), true, &guest, &mut code)
    };
    let text = format!("{va:08x}: {word:08x}  {}\n", spica_isa::decode(word));
    text + &made(&translator, &code, &guest, block, GuestVa(va))
}

/// The same of code whose accesses are looked at; `hooked` is told of.
fn translate_checked(look: Look, word: u32, hooked: bool) -> String {
    translate_for(Box::new(Checks::new(look)), word, hooked)
}

/// The same for whoever has asked for that.
fn translate_for(mut checks: Box<Checks>, word: u32, hooked: bool) -> String {
    const VA: u32 = 0x8000_8010;
    let layout = Layout { base: 0xf180_0000, pages: 1, mirror: Some(MIRROR) };
    let mut code = Code(vec![[0; PAGE_WORDS]]);
    let capacity = Capacity { blocks: 4, exits: 64, mirror_pages: 1 };
    let mut translator = Translator::new(layout, Options::all(), capacity);
    assert!(!hooked || checks.hook(GuestVa(VA), 0x2a));
    translator.start_checking(checks, &mut code);
    let mut guest = [MOV_R0_R0; PAGE_WORDS];
    guest[(VA as usize & 0xfff) / 4] = word;
    let block = translator.translate(GuestVa(VA), GuestPa(VA), true, &guest, &mut code);
    let text = format!("{VA:08x}: {word:08x}  {}\n", spica_isa::decode(word));
    text + &made(&translator, &code, &guest, block, GuestVa(VA))
}

/// What block `block`, made of `guest`, has of the instruction at `va`.
pub fn made(translator: &Translator, code: &Code, guest: &[u32; PAGE_WORDS], block: BlockId, va: GuestVa) -> String {
    let mut text = String::new();
    let mut literal = 0;
    for at in 0..PAGE_WORDS {
        let pc = CachePc(translator.layout().code_page(0).0 + 4 * at as u32);
        if translator.block_at(pc) != Some(block) {
            continue;
        }
        let location = translator.locate(block, pc, guest).expect("a word of the block");
        if location.guest != va {
            continue;
        }
        let word = code.0[0][at];
        // The words behind an SVC are its literals.
        let svc = word >> 24 == 0xef;
        let meaning = if literal > 0 { "literal".to_string() } else { spica_isa::decode(word).to_string() };
        literal = match trap::number(word) {
            _ if literal > 0 => literal - 1,
            trap::LINK | trap::IN_IT if svc => 1,
            trap::EMULATE | trap::EMULATE_T32 if svc => trap::EMULATE_LITERALS,
            _ => 0,
        };
        write!(text, "    +{:03x}: {word:08x}  {meaning}", 4 * at).expect("a string");
        if let Some((reg, place)) = location.undo.spilled {
            let place = match place {
                Place::Slot(slot) => format!("slot {slot}"),
                Place::Word(pc) => format!("+{:03x}", pc.0 & 0xfff),
                Place::Shared => "the shared slot".to_string(),
                Place::Tpidrurw => "TPIDRURW".to_string(),
                Place::Pmccntr => "PMCCNTR".to_string(),
            };
            write!(text, "    ; r{} is in {place}", reg.n()).expect("a string");
        }
        if let Some(reg) = location.undo.beside {
            write!(text, "    ; r{} is in slot 1", reg.n()).expect("a string");
        }
        if let Some(reg) = location.undo.lost {
            write!(text, "    ; r{} is lost", reg.n()).expect("a string");
        }
        if let Some((reg, by)) = location.undo.adjust {
            write!(text, "    ; r{} is off by {}", reg.n(), by as i32).expect("a string");
        }
        text.push('\n');
    }
    text
}

/// Compares these instructions with `tests/golden/<name>.txt`.
fn check(name: &str, words: &[u32]) {
    // A core that has all that there are rules for.
    let all = Options { vfp: true, thumbee: true, ..Options::all() };
    let first = &words[..words.len().min(2)];
    let indirect = if name == "indirect" { words } else { &[] };
    let once = if matches!(name, "indirect" | "memory" | "user_bank") { words } else { &[] };
    let dacr = if name == "coproc" { &[0xee03_0f10, 0xee03_2f10, 0x0e03_1f10][..] } else { &[] };
    let stacking = Options { return_mirror: false, shadow_stack: true, ..all };
    let calls = if name == "branch" { words } else { indirect };
    let lent = Options { lent_thread_id: true, ..all };
    let lent_words = match name {
        "coproc" => &[0xee1d_1f50, 0x0e0d_1f50, 0xee1d_1f70, 0xee0d_1f70, 0x0e0d_1f70][..],
        "exception_return" => first,
        _ => &[],
    };
    let parts: [(&str, Options, bool, u32, &[u32]); 12] = [
        ("all()", all, false, 0x8000_8010, words),
        ("naive()", Options::naive(), false, 0x8000_8010, words),
        ("all(), code that has a return mirror", all, false, 0xc000_8010, indirect),
        (GUARDED, all, false, 0xc000_8010, indirect),
        ("all(), high exception vectors", all, false, 0xffff_0ff0, &indirect[..indirect.len().min(6)]),
        ("all(), shadow stack instead of the return mirror", stacking, false, 0xc000_8010, calls),
        ("all(), for one execution", all, true, 0xc000_8010, once),
        // Addresses that MOVW alone can make, and just not.
        ("all(), at a low address", all, false, 0x0000_8010, first),
        ("all(), at a less low address", all, false, 0x0001_8010, first),
        (FREED, all, false, 0x8000_8010, dacr),
        (FREED_BEHIND_ISB, all, false, 0x8000_8010, dacr),
        ("all(), code in place has TPIDRURO in TPIDRURW", lent, false, 0x8000_8010, lent_words),
    ];
    check_parts(name, &parts);
}

/// A part: its title, the options, whether it is for one execution, the address, the instructions.
type Part<'a> = (&'a str, Options, bool, u32, &'a [u32]);

/// The same for these parts.
fn check_parts(name: &str, parts: &[Part<'_>]) {
    let mut text = String::new();
    for &(title, options, once, va, words) in parts.iter().filter(|part| !part.4.is_empty()) {
        writeln!(text, "# Options::{title}\n").expect("a string");
        for &word in words {
            let behind = match title {
                FREED => [MOV_R2_SP, MOV_R0_R0],
                FREED_BEHIND_ISB => [ISB, MRC_R2_TPIDRURO],
                _ => [MOV_R0_R0; 2],
            };
            let guarded = title == GUARDED;
            writeln!(text, "{}", translate(options, va, word, behind, once, guarded)).expect("a string");
        }
    }
    compare(name, &text);
}

/// Compares with `tests/golden/<name>.txt`, or writes it.
pub fn compare(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("the directory can be made");
        std::fs::write(&path, text).expect("the golden file can be written");
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    for (line, (found, expected)) in text.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "{name}.txt, line {}: UPDATE_GOLDEN=1 if it is meant to change", line + 1);
    }
    assert_eq!(text, expected, "{name}.txt: UPDATE_GOLDEN=1 if it is meant to change");
}

/// What accesses memory in all ways, and what does not.
const ACCESSES: [u32; 26] = [
    0xe591_0004, // ldr r0, [r1, #4]
    0x1591_0004, // ldrne r0, [r1, #4]
    0xe511_0fff, // ldr r0, [r1, #-0xfff]
    0xe5c1_0123, // strb r0, [r1, #0x123]
    0xe491_0004, // ldr r0, [r1], #4
    0xe5b1_0004, // ldr r0, [r1, #4]!
    0xe781_0102, // str r0, [r1, r2, lsl #2]
    0xe711_0022, // ldr r0, [r1, -r2, lsr #32]
    0xe711_0062, // ldr r0, [r1, -r2, rrx]
    0xe1d1_20b2, // ldrh r2, [r1, #2]
    0xe1c1_20d8, // ldrd r2, r3, [r1, #8]
    0xe181_20f0, // strd r2, r3, [r1, r0]
    0xe890_000c, // ldm r0, {r2, r3}
    0xe8a0_500e, // stm r0!, {r1, r2, r3, r12, lr}
    0xe931_003c, // ldmdb r1!, {r2, r3, r4, r5}
    0xe890_8004, // ldm r0, {r2, pc}
    0xe191_0f9f, // ldrex r0, [r1]
    0xe181_2f90, // strex r2, r0, [r1]
    0xe59e_0000, // ldr r0, [lr]
    0xe58d_0004, // str r0, [sp, #4]
    0xe92d_4010, // push {r4, lr}
    0xe59f_0010, // ldr r0, [pc, #0x10]
    0xe4b1_0004, // ldrt r0, [r1], #4
    0xed91_0b00, // vldr d0, [r1]
    0xf5d1_f000, // pld [r1]
    0xe080_0001, // add r0, r0, r1
];

#[test]
fn checks() {
    let mut text = ACCESSES.map(|word| translate_checked(Look::Granule, word, false) + "\n").concat();
    text += "# Told of\n\n";
    for word in [0xe92d_4010, 0x08bd_8010, 0x112f_ff1e] {
        text += &(translate_checked(Look::Granule, word, true) + "\n");
    }
    compare("checks", &text);
}

#[test]
fn lines() {
    let mut text = ACCESSES.map(|word| translate_checked(Look::Line, word, false) + "\n").concat();
    text += "# Told of\n\n";
    text += &translate_checked(Look::Line, 0xe581_0000, true);
    compare("lines", &text);
}

#[test]
fn edges() {
    let mut text = "".to_string();
    // What may leave the block, and what may not.
    for (word, hooked) in [(0xe080_0001, false), (0x0a00_0010, false), (0xe591_0004, false), (0xe1a0_100f, true)] {
        text += &(translate_for(Box::new(Checks::of_edges()), word, hooked) + "\n");
    }
    text += "# Left out\n\n";
    let mut checks = Box::new(Checks::of_edges());
    assert!(checks.skip(GuestVa(0x8000_8000), GuestVa(0x8000_9000)));
    text += &translate_for(checks, 0xe080_0001, true);
    compare("edges", &text);
}

#[test]
fn data() {
    check(
        "data",
        &[
            0xe1a0_100f, // mov r1, pc
            0x01a0_100f, // moveq r1, pc
            0xe28f_1010, // add r1, pc, #16
            0xe24f_1010, // sub r1, pc, #16
            0xe08f_1002, // add r1, pc, r2
            0xe08f_1001, // add r1, pc, r1
            0x009f_1001, // addseq r1, pc, r1
            0xe1b0_106f, // movs r1, pc, rrx
            0xe35f_0000, // cmp pc, #0
            0x131f_0004, // tstne pc, #4
            0xe0a3_318f, // adc r3, r3, pc, lsl #3
            0xe082_1003, // add r1, r2, r3
        ],
    );
}

#[test]
fn memory() {
    check(
        "memory",
        &[
            0xe59f_1010, // ldr r1, [pc, #16]
            0x059f_1010, // ldreq r1, [pc, #16]
            0xe59f_1ffc, // ldr r1, [pc, #4092]
            0xe59f_1011, // ldr r1, [pc, #17]
            0xe1cf_21d0, // ldrd r2, [pc, #16]
            0xe79f_1002, // ldr r1, [pc, r2]
            0xe58f_1010, // str r1, [pc, #16]
            0xe582_f000, // str pc, [r2]
            0xe482_f004, // str pc, [r2], #4
            0xed9f_0b04, // vldr d0, [pc, #16]
            0x159f_1010, // ldrne r1, [pc, #16]: a constant, if it may be
            0xe51f_1018, // ldr r1, [pc, #-24]: in front of the page
            0xe59f_1fe4, // ldr r1, [pc, #4068]: the last word of the page
            0xe59f_1fe8, // ldr r1, [pc, #4072]: the first behind it
            0xe5df_1010, // ldrb r1, [pc, #16]
            0xe4b2_1004, // ldrt r1, [r2], #4
            0x14b2_1004, // ldrtne r1, [r2], #4
            0xe6b2_1003, // ldrt r1, [r2], r3
            0xe4a2_1004, // strt r1, [r2], #4
            0xe4e2_1001, // strbt r1, [r2], #1
            0xe0f2_10b2, // ldrht r1, [r2], #2
            0xe4b2_f004, // ldrt pc, which is UNPREDICTABLE
            0xf5df_f010, // pld [pc, #16]
            0xf5d1_f010, // pld [r1, #16]
            0xe192_1f9f, // ldrex r1, [r2]
        ],
    );
}

#[test]
fn store_multiple() {
    check(
        "store_multiple",
        &[
            0xe8a2_8003, // stmia r2!, {r0, r1, pc}: the substitute is r3
            0x18a2_8003, // stmiane
            0xe92d_d800, // push {fp, ip, lr, pc}: none is left above LR
            0xe88d_c000, // stmia sp, {lr, pc}
            0xe8ad_c000, // stmia sp!, {lr, pc}
            0xe98d_c000, // stmib sp, {lr, pc}
            0xe9ad_c000, // stmib sp!, {lr, pc}
            0xe80d_c000, // stmda sp, {lr, pc}
            0xe82d_c000, // stmda sp!, {lr, pc}
            0xe90d_c000, // stmdb sp, {lr, pc}
            0xe90e_c000, // stmdb lr, {lr, pc}: the base is stored
            0xe88e_8000, // stmia lr, {pc}
        ],
    );
}

#[test]
fn user_bank() {
    check(
        "user_bank",
        &[
            0xe948_6000, // stmdb r8, {sp, lr}^, as Linux has it
            0xe8c2_6000, // stmia r2, {sp, lr}^
            0xe95d_7fff, // ldmdb sp, {r0-lr}^, as Linux has it
            0xe95d_7ffe, // ldmdb sp, {r1-lr}^
            0xe8d2_6000, // ldmia r2, {sp, lr}^
            0xe9d2_2000, // ldmib r2, {sp}^
            0xe852_4000, // ldmda r2, {lr}^
            0x18d0_6003, // ldmiane r0, {r0, r1, sp, lr}^
            0xe8d0_4001, // ldmia r0, {r0, lr}^: no register to spare
            0x08c0_2003, // stmiaeq r0, {r0, r1, sp}^
            0xe8cd_7fff, // stmia sp, {r0-lr}^: none to spare
            0xe8cd_1fff, // stmia sp, {r0-r12}^
            0xe8c2_8001, // stmia r2, {r0, pc}^
            0xe8e2_6000, // stmia r2!, {sp, lr}^, which is UNPREDICTABLE
        ],
    );
}

#[test]
fn exception_return() {
    check(
        "exception_return",
        &[
            0xe1b0_f00e, // movs pc, lr
            0x01b0_f00e, // movseq pc, lr
            0xe25e_f004, // subs pc, lr, #4
            0x025e_f004, // subseq pc, lr, #4
            0xe290_f008, // adds pc, r0, #8
            0xe1b0_f08e, // movs pc, lr, lsl #1
            0xe1f0_f00e, // mvns pc, lr
            0xe25f_f004, // subs pc, pc, #4
            0xe8fd_8001, // ldm sp!, {r0, pc}^
            0xe8dd_ffff, // ldm sp, {r0-pc}^
            0x08fd_9ffe, // ldmeq sp!, {r1-ip, pc}^
            0xe8f0_8000, // ldm r0!, {pc}^
            0xe8d0_8001, // ldm r0, {r0, pc}^
            0xe9fd_8001, // ldmib sp!, {r0, pc}^
            0xe87d_8001, // ldmda sp!, {r0, pc}^
            0xf8bd_0a00, // rfeia sp!
        ],
    );
}

#[test]
fn indirect() {
    check(
        "indirect",
        &[
            0xe12f_ff1e, // bx lr
            0x112f_ff1e, // bxne lr
            0xe12f_ff33, // blx r3
            0xe12f_ff3e, // blx lr
            0xe12f_ff1f, // bx pc
            0xe1a0_f00e, // mov pc, lr
            0xe08f_f102, // add pc, pc, r2, lsl #2
            0x908f_f100, // addls pc, pc, r0, lsl #2
            0xe49d_f004, // pop {pc}
            0xe59f_f010, // ldr pc, [pc, #16]
            0xe792_f103, // ldr pc, [r2, r3, lsl #2]
            0xe8bd_8010, // pop {r4, pc}
            0xe89d_a800, // ldm sp, {fp, sp, pc}
            0xe8bd_c000, // pop {lr, pc}: no register above LR
        ],
    );
}

#[test]
fn branch() {
    check(
        "branch",
        &[
            0xea00_0010, // b
            0x0a00_0010, // beq
            0xeb00_0010, // bl
            0x0b00_0010, // bleq
            0xeaff_fffe, // b .
            0xfa00_0010, // blx, to Thumb
        ],
    );
}

#[test]
fn status() {
    check(
        "status",
        &[
            0xe10f_1000, // mrs r1, cpsr
            0x010f_1000, // mrseq r1, cpsr
            0xe14f_1000, // mrs r1, spsr
            0xe121_f001, // msr cpsr_c, r1
            0x0121_f001, // msreq cpsr_c, r1
            0xe128_f001, // msr cpsr_f, r1
            0xe16f_f001, // msr spsr_fsxc, r1
            0xe169_f001, // msr spsr_fc, r1
            0xe321_f0d3, // msr cpsr_c, #0xd3
            0xf10c_0080, // cpsid i
            0xf108_0080, // cpsie i
            0xf10c_00c0, // cpsid if
            0xf102_0012, // cps #0x12
            0xf1010000,  // setend le
        ],
    );
}

#[test]
fn coproc() {
    check(
        "coproc",
        &[
            0xee1d_1f90, // mrc p15, 0, r1, c13, c0, 4: TPIDRPRW
            0xee1d_1f70, // TPIDRURO
            0xee1d_1f50, // TPIDRURW
            0xee0d_1f90, // mcr TPIDRPRW
            0xee0d_1f70, // mcr TPIDRURO
            0xee11_1f10, // mrc SCTLR
            0xee10_1f30, // mrc CTR
            0xee12_1f10, // mrc TTBR0
            0xee12_1f30, // mrc TTBR1
            0xee13_1f10, // mrc DACR
            0xee15_1f10, // mrc DFSR
            0x0e15_1f30, // mrceq IFSR
            0xee16_1f10, // mrc DFAR
            0xee16_1f50, // mrc IFAR
            0xee1d_1f30, // mrc CONTEXTIDR
            0xee12_1f50, // mrc TTBCR, which is interpreted
            0xee02_1f10, // mcr TTBR0, which is interpreted
            0x0e03_1f10, // mcreq DACR
            0xee03_0f10, // mcr DACR, of r0
            0xee07_1f15, // mcr ICIALLU
            0x0e07_1f15, // mcreq ICIALLU
            0xee07_1f11, // mcr ICIALLUIS
            0xee07_1fd5, // mcr BPIALL
            0xee07_1ff5, // mcr BPIMVA
            0xee07_1f35, // mcr ICIMVAU
            0xee07_1f3a, // mcr DCCMVAC
            0x0e07_0f3e, // mcreq DCCIMVAC, of r0
            0xee07_1f36, // mcr DCIMVAC
            0xee07_1f3b, // mcr DCCMVAU, which is interpreted
            0xee07_1f5e, // mcr DCCISW
            0xee08_1f37, // mcr TLBIMVA
            0x0e08_1f37, // mcreq TLBIMVA
            0xee08_1f33, // mcr TLBIMVAIS
            0xee08_1f17, // mcr TLBIALL, which is interpreted
            0xeed1_1e10, // mrc p14, 6, r1, c1, c0, 0: TEEHBR
            0x0ec1_1e10, // mcreq TEEHBR
            0xee07_0fba, // CP15DMB
            0xec51_0f0e, // mrrc p15, 0, r0, r1, c14
            0xeef1_0a10, // vmrs r0, fpscr
            0xeef8_0a10, // vmrs r0, fpexc
            0xeef0_0a10, // vmrs r0, fpsid
            0x0ef6_1a10, // vmrseq r1, mvfr1
            0xeef7_2a10, // vmrs r2, mvfr0
            0x0ef8_1a10, // vmrseq r1, fpexc
            0xeee8_0a10, // vmsr fpexc, r0
            0x0ee8_1a10, // vmsreq fpexc, r1
            0xee31_0a01, // vadd.f32
        ],
    );
}

/// What spills and reloads look like with each technique: with and without a condition, with a slow path, of registers
/// that lightweight traps cannot reach, and with a base to be corrected.
#[test]
fn spill() {
    let words = [
        0xe09f_1001, // adds r1, pc, r1
        0x009f_1001, // addseq r1, pc, r1: skipped as a whole
        0x079f_1002, // ldreq r1, [pc, r2]: conditional spill and reload
        0xe121_f001, // msr cpsr_c, r1
        0xe10f_1000, // mrs r1, cpsr
        0xee03_1f10, // mcr DACR
        0xe8ad_c000, // stmia sp!, {lr, pc}
        0xe8a2_9000, // stmia r2!, {ip, pc}: the substitute is SP
        0xe8fd_8001, // ldm sp!, {r0, pc}^
        0xee1d_1f50, // mrc TPIDRURW
        0x0e0d_1f50, // mcreq TPIDRURW
    ];
    let of = |spill| Options { spill, ..Options::all() };
    // What would be a lightweight trap as a literal.
    let trap = [
        0xffff_ffff, // not an instruction
        0xe51f_100c, // ldr r1, [pc, #-12]: the word before, see `translate`
    ];
    let naive = Options { spill: Spill::TrapPrivate, ..Options::naive() };
    let mut parts: Vec<Part<'_>> = Vec::new();
    let titles: Vec<(String, Spill)> =
        Spill::ALL.iter().skip(1).map(|(name, spill)| (format!("all(), spill={name}"), *spill)).collect();
    parts.extend(titles.iter().map(|(title, spill)| (title.as_str(), of(*spill), false, 0x8000_8010, &words[..])));
    parts.push(("naive(), spill=trap-private", naive, false, 0x8000_8010, &words[..1]));
    parts.push(("all()", Options::all(), false, 0x8000_8010, &trap));
    check_parts("spill", &parts);
}

#[test]
fn system() {
    check(
        "system",
        &[
            0xef00_0000, // svc #0
            0xe160_0070, // smc #0
            0xe7f0_00f0, // udf #0
            0x07f0_00f0, // udfeq #0
            0xe320_f003, // wfi
            0xe320_f000, // nop
            0xf57f_f04f, // dsb sy
            0xf96d_0513, // srsdb sp!, #0x13
            0xf8bd_0a00, // rfeia sp!
            0xe731_f211, // sdiv r1, r1, r2: the real core says whether it has it
            0xe0e0_0090, // not an instruction, for what has no rule
        ],
    );
}
