//! Where a guest's kernel switches from one process to another, and where it handles interrupts, as `spica watch
//! sharing` and `spica watch edges` have to know it.
//!
//! It is Linux 6.1 and what is like it: functions are known by their names, and what they do and where they return is
//! seen in their code, so that no debug symbols are needed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use spica_console::debug::Place;
use spica_isa::Op;
use spica_kallsyms::Symbol;
use spica_runner::error::{Error, Result};

use crate::kernel_code::{Names, Read, instructions, popped, target};

/// It says which task runs from there on.
const SWITCH: &str = "__switch_to";
/// All interrupts of a processor are handled in it.
const HANDLER: &str = "generic_handle_arch_irq";
/// A task gets its name in it: R0 and R1 are these.
const NAMED: &str = "__set_task_comm";
/// What lies between these labels enters the kernel and leaves it.
const ENTRIES: [&str; 2] = ["__entry_text_start", "__entry_text_end"];
/// A handler is called by it on a stack of its own.
const CALLS: &str = "call_with_stack";
/// Where Linux has its exception vectors, and what they branch to.
const VECTORS: Range<u32> = 0xffff_0000..0xffff_2000;
/// Functions in which a handler may end that it branches to, one behind the other, at most.
const MOST_TAILS: usize = 8;
/// What the linear map begins at a multiple of.
const LINEAR: u32 = 512 << 20;

/// What the board has to know of a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Switching {
    /// The first address of its linear map.
    pub base: u32,
    /// Where its code is to be told of.
    pub places: BTreeMap<u32, Place>,
    /// Where a process is about to get another name, if that is known.
    pub named: Option<u32>,
    /// Code by which the kernel is entered and left, in interrupts as well, as far as it is known.
    pub entries: Vec<Range<u32>>,
}

fn unknown(what: &str) -> Error {
    Error::failed(format!("it is not known how this kernel switches processes, which is to be like Linux 6.1: {what}"))
}

/// Finds where a kernel that has these names, in the order of their addresses, changes who uses memory.
///
/// # Errors
/// If it is not one that is known, or cannot be read.
pub fn find(names: &[Symbol], read: &mut Read<'_>) -> Result<Switching> {
    let names = Names(names);
    let needed = |name: &str| names.range(name).ok_or_else(|| unknown(&format!("it has no {name}")));
    let (switch, handler) = (needed(SWITCH)?, needed(HANDLER)?);
    let kept = instruction_that_switches(switch.start, &read(switch.clone())?);
    let (at, register) = kept.ok_or_else(|| unknown(&format!("{SWITCH} does not keep the task in TPIDRURO")))?;
    let mut places = BTreeMap::from([(at, Place::Switch(register)), (handler.start, Place::Interrupt)]);
    let before = places.len();
    for (at, words) in returns(names, handler, read)? {
        places.entry(at).or_insert(Place::Return(words));
    }
    if places.len() == before {
        return Err(unknown(&format!("{HANDLER} does not return")));
    }
    let at = |name| names.0.iter().find(|symbol| symbol.name == name).map(|symbol| symbol.address);
    let entries = ENTRIES.map(at);
    let entries = if let [Some(start), Some(end)] = entries { Some(start..end) } else { None };
    let entries = [Some(VECTORS), entries, names.range(CALLS)].into_iter().flatten().collect();
    Ok(Switching { base: switch.start / LINEAR * LINEAR, places, named: at(NAMED), entries })
}

/// Which instruction puts a register where Linux has the task that runs, into TPIDRURO, and which register.
fn instruction_that_switches(start: u32, words: &[u32]) -> Option<(u32, u8)> {
    // MCR to TPIDRURO (B4.1.150), always.
    let writes = |word: u32| word & 0xffff_0fff == 0xee0d_0f70 && word >> 12 & 15 != 15;
    let found = (start..).step_by(4).zip(words).find(|&(_, &word)| writes(word));
    found.map(|(at, &word)| (at, (word >> 12 & 15) as u8))
}

/// Where a function returns, with how many words that takes from the stack. Where it ends with a branch to another
/// function, it returns where that does.
fn returns(names: Names<'_>, function: Range<u32>, read: &mut Read<'_>) -> Result<BTreeMap<u32, u8>> {
    let mut found = BTreeMap::new();
    let mut seen = BTreeSet::from([function.start]);
    let mut next = vec![function];
    while let Some(function) = next.pop() {
        for (at, instruction) in instructions(function.start, &read(function.clone())?) {
            found.extend(popped(&instruction).map(|words| (at, words)));
            if let (Some(target), Op::Branch { link: false, .. }) = (target(at, &instruction), instruction.op)
                && !function.contains(&target)
                && seen.insert(target)
            {
                if seen.len() > MOST_TAILS {
                    return Err(unknown(&format!("{HANDLER} ends in too many ways")));
                }
                let tail = names.range_from(target);
                next.push(tail.ok_or_else(|| unknown(&format!("{HANDLER} ends at {target:#x}, where nothing is")))?);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spica_isa::Cond;
    use spica_isa::asm::b;

    const START: u32 = 0xc010_0000;
    const WORDS: u32 = 8;
    const NAMES: [&str; 4] = [SWITCH, HANDLER, "irq_exit", "last"];
    /// PUSH of R4 to R6 and LR, the same back with LR or the PC; BX LR; NOP.
    const PUSH: u32 = 0xe92d_4070;
    const POP_LR: u32 = 0xe8bd_4070;
    const POP: u32 = 0xe8bd_8070;
    const POP_NE: u32 = 0x18bd_8070;
    const NOP: u32 = 0xe320_f000;
    /// MCR p15, 0, R7, c13, c0, 3.
    const SET_R7: u32 = 0xee0d_7f70;

    fn at(name: &str) -> u32 {
        START + 4 * WORDS * NAMES.iter().position(|known| *known == name).expect("a name") as u32
    }

    fn kernel() -> (Vec<Symbol>, Vec<u32>) {
        let symbol = |name: &&str| Symbol { address: at(name), kind: b'T', name: (*name).to_string() };
        let mut words = vec![NOP; WORDS as usize * NAMES.len()];
        let mut put = |name: &str, code: &[u32]| {
            let first = (at(name) - START) as usize / 4;
            words[first..first + code.len()].copy_from_slice(code);
        };
        let tail = b(Cond::Al, at("irq_exit").wrapping_sub(at(HANDLER) + 8 + 8).cast_signed()).expect("near");
        put(SWITCH, &[NOP, NOP, NOP, SET_R7]);
        put(HANDLER, &[PUSH, POP_LR, tail]);
        put("irq_exit", &[PUSH, POP_NE, NOP, POP]);
        (NAMES.iter().map(symbol).collect(), words)
    }

    fn found(names: &[Symbol], words: &[u32]) -> Result<Switching> {
        find(names, &mut |range: Range<u32>| {
            let word = |address: u32| (address - START) as usize / 4;
            Ok(words[word(range.start)..word(range.end)].to_vec())
        })
    }

    #[test]
    fn places_are_found_also_where_a_function_ends_in_another_one() {
        let (names, words) = kernel();
        let Switching { base, places, named, entries } = found(&names, &words).expect("places");
        assert_eq!((named, entries), (None, vec![VECTORS]));
        let expected = BTreeMap::from([
            (at(SWITCH) + 12, Place::Switch(7)),
            (at(HANDLER), Place::Interrupt),
            (at("irq_exit") + 4, Place::Return(4)),
            (at("irq_exit") + 12, Place::Return(4)),
        ]);
        assert_eq!((base, places), (0xc000_0000, expected));
    }

    #[test]
    fn what_else_is_known_is_found() {
        let (mut names, words) = kernel();
        let entry = [at(SWITCH), at(HANDLER)];
        for (name, address) in ENTRIES.into_iter().zip(entry).chain([(CALLS, entry[0]), (NAMED, entry[1])]) {
            names.push(Symbol { address, kind: b'T', name: name.to_string() });
        }
        names.sort_by_key(|symbol| symbol.address);
        let Switching { named, entries, .. } = found(&names, &words).expect("places");
        assert_eq!((named, entries), (Some(at(HANDLER)), vec![VECTORS, entry[0]..entry[1], entry[0]..entry[1]]));
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_is_missing() {
        for missing in [SWITCH, HANDLER] {
            let (mut names, words) = kernel();
            names.retain(|symbol| symbol.name != missing);
            let error = found(&names, &words).expect_err("it is not there");
            assert!(error.message.contains(missing), "{}", error.message);
        }
        // No task is kept; the PC is; no return; a branch to nowhere.
        let wrong = [
            (at(SWITCH) + 12, NOP),
            (at(SWITCH) + 12, 0xee0d_ff70),
            (at(HANDLER) + 8, NOP),
            (at(HANDLER) + 8, b(Cond::Al, 0x44).expect("near")),
        ];
        for (at, word) in wrong {
            let (names, mut words) = kernel();
            words[(at - START) as usize / 4] = word;
            let error = found(&names, &words).expect_err("it is not as it was");
            assert!(error.message.contains("Linux 6.1"), "{at:#x}: {}", error.message);
        }
    }
}
