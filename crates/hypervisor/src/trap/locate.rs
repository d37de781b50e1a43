//! From an address in the code cache to the guest instruction that it stands for, with the guest's registers as they
//! were before it (STAR §3.7.1).

use spica_addr::{CachePc, GuestVa};
use spica_dbt::spill::Place;

#[cfg(feature = "spill-techniques")]
use crate::arch::cp15::{Pmccntr, SysRegRead, Tpidrurw};
use crate::vm::Vm;

/// Puts the guest's registers right for an exception at code-cache address `pc`, and returns the guest's own PC.
/// `None` if `pc` is in no live block: only a wild jump gets there.
pub fn guest_pc(vm: &mut Vm, pc: CachePc) -> Option<GuestVa> {
    let parts = &mut vm.parts;
    let block = parts.translator.block_at(pc)?;
    if !parts.translator.is_live(block) {
        return None;
    }
    let (_, pa) = parts.translator.source(block);
    let words = parts.source_words(pa)?;
    let location = parts.translator.locate(block, pc, words)?;
    if let Some((reg, place)) = location.undo.spilled {
        vm.context.cpu.regs[reg.n() as usize % 15] = spilled(vm, place);
    }
    let cpu = &mut vm.context.cpu;
    if let Some((reg, by)) = location.undo.adjust {
        let reg = &mut cpu.regs[reg.n() as usize % 15];
        *reg = reg.wrapping_add(by);
    }
    Some(location.guest)
}

/// The value of a register that is not in its place.
fn spilled(vm: &mut Vm, place: Place) -> u32 {
    match place {
        Place::Slot(slot) => vm.context.cpu.page.spill[slot as usize % 4],
        #[cfg(feature = "spill-techniques")]
        Place::Word(pc) => vm.parts.code.word(pc).unwrap_or_default(),
        #[cfg(feature = "spill-techniques")]
        Place::Shared => vm.parts.code.shared_slot(),
        #[cfg(feature = "spill-techniques")]
        Place::Tpidrurw => Tpidrurw::read_raw(),
        #[cfg(feature = "spill-techniques")]
        Place::Pmccntr => Pmccntr::read_raw(),
        #[cfg(not(feature = "spill-techniques"))]
        _ => unreachable!("guests are not started with another technique"),
    }
}
