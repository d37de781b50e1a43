//! The shadow stack, in step with the model: calls as deep as the ring and deeper, and returns that had no call.

use spica_dbt::Options;
use spica_prove::translator::generate::Window;
use spica_prove::translator::model::{self, Machine, Supervisor};
use spica_prove::translator::{CODE, CTR, DATA, Disturb, End, Lockstep, Memory};
use spica_vcpu::RETURNS;

const BX_LR: u32 = 0xe12f_ff1e;
const PUSH_LR: u32 = 0xe52d_e004;
const POP_PC: u32 = 0xe49d_f004;
/// Where pages are mapped in all address spaces.
const START: u32 = CODE + 0x1000;

/// Runs `words` for so many guest instructions, from the first one, with R0 = `r0` and a stack. Returns what was seen
/// of returns: expected, to elsewhere, without a call.
fn run(words: &[u32], r0: u32, instructions: u32) -> [u32; 3] {
    let mut lockstep = Lockstep::new(Options { return_mirror: false, shadow_stack: true, ..Options::all() });
    let mut memory = Memory::new();
    for (n, &word) in words.iter().enumerate() {
        memory.set_word(START + 4 * n as u32, word);
    }
    let mut r = [0; 15];
    (r[0], r[13]) = (r0, DATA + 0x1000);
    let state = Machine {
        r,
        pc: START,
        psr: 0x6000_0000,
        length: 4,
        vfp: [0; 64],
        thread: [1, 2],
        cycles: None,
        vfp_on: false,
        mode: 0x13,
        strict: false,
        supervisor: Some(Supervisor {
            masks: 0xc0,
            system: std::array::from_fn(|n| if n == model::CTR { CTR } else { 0 }),
            ..Supervisor::default()
        }),
    };
    lockstep.start(state, &memory, Window { start: START, words: 96, thumb: 0 }, 1);
    assert_eq!(lockstep.run(instructions, Disturb::Nothing), End::Enough);
    assert_eq!((lockstep.skipped, lockstep.strayed, lockstep.faults), (0, 0, 0));
    ["a return that was expected", "a return to elsewhere", "a return without a call"]
        .map(|what| lockstep.seen.get(what).copied().unwrap_or_default())
}

/// A function that calls itself R0 times, and the call of it: three instructions down and one up for each.
fn recursion(depth: u32) -> [u32; 3] {
    let words = [
        0xeb00_0000, // bl +8
        0xeaff_fffe, // b .
        PUSH_LR,
        0xe250_0001, // subs r0, r0, #1
        0x1bff_fffc, // blne -2
        POP_PC,
    ];
    run(&words, depth, 1 + 4 * depth + 1)
}

#[test]
fn calls_as_deep_as_the_ring_are_all_returned_from() {
    assert_eq!(recursion(1), [1, 0, 0]);
    assert_eq!(recursion(RETURNS as u32), [RETURNS as u32, 0, 0]);
}

/// The oldest entries are overwritten, and one is lost where the ring begins anew.
#[test]
fn calls_deeper_than_the_ring_lose_the_oldest() {
    let depth = RETURNS as u32 + 10;
    let [expected, elsewhere, without] = recursion(depth);
    assert_eq!(expected + elsewhere + without, depth);
    assert!(expected >= 9 && elsewhere + without >= 1, "{expected} {elsewhere} {without}");
}

/// A call, in it a return that had none, and the return of the call: that is expected still.
#[test]
fn a_return_without_a_call_shifts_nothing() {
    let words = [
        0xeb00_0000, // bl +8
        0xeaff_fffe, // b .
        0xe1a0_300e, // mov r3, lr
        0xe28f_e000, // add lr, pc, #0
        BX_LR,       // to the next instruction but one
        0xe1a0_0000, // nop
        0xe1a0_e003, // mov lr, r3
        BX_LR,
    ];
    // ADD LR, PC, #0 is the address of what is behind the BX.
    assert_eq!(run(&words, 0, 7), [1, 1, 0]);
}

#[test]
fn nothing_is_expected_before_the_first_call() {
    let words = [
        0xe28f_e000, // add lr, pc, #0
        BX_LR,
        0xeaff_fffe, // b .
    ];
    assert_eq!(run(&words, 0, 3), [0, 0, 1]);
}
