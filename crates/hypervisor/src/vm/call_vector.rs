//! The guest's vector for system calls, and where it leads.
//!
//! Linux has `LDR PC, [PC, #…]` there, in A32 or in T32. Where that goes is known as long as neither the instruction
//! nor its literal changes, and then a system call need not execute it: seven instructions for each, with the return
//! mirror. So both pages are write-protected, and both mappings global: whoever drops translated code for the one
//! reason or the other, or all of it, forgets this, too. A store to another word of these pages, which stay protected,
//! changes nothing.

use core::ops::RangeInclusive;

use spica_addr::{GuestPa, GuestVa};
use spica_dbt::at::{At, address, is_thumb};
use spica_mmu::{Access, AccessKind, Mapping, translate};
use spica_vcpu::Cpu;

use super::mmu::Mmu;
use super::{Common, regime};
use crate::engine::Engine;
use crate::host_cpu::{HostCpu, HostSpace};

/// That many writes to the literal's page, and it is left alone.
const MAX_WRITES: u32 = 16;

/// What is known of the vector.
#[derive(Default)]
pub struct CallVector {
    known: Option<Known>,
    writes: u32,
    /// A write is under way: not to be looked at until user code runs.
    held: bool,
}

struct Known {
    vector: GuestVa,
    /// The vector, its literal, and where that leads.
    places: [(GuestVa, GuestPa); 3],
}

impl CallVector {
    /// Memory at `pa` is about to change. Whether that concerns the vector.
    pub fn forget_page(&mut self, pa: GuestPa) -> bool {
        let concerned = self.forget_if(|&(_, at)| at.page() == pa.page());
        self.writes += u32::from(concerned);
        self.held |= concerned;
        concerned
    }

    /// Whether what is known rests on one of the words at `pa`, that of the vector or its literal.
    pub fn rests_on(&self, pa: GuestPa, bytes: u32) -> bool {
        let places = self.known.as_ref().map_or(&[][..], |known| &known.places[..2]);
        places.iter().any(|&(_, at)| at.0 < pa.0.wrapping_add(bytes) && pa.0 < at.0.wrapping_add(4))
    }

    /// Mappings in `range` may have changed. Whether that concerns the vector.
    pub fn forget_range(&mut self, range: &RangeInclusive<GuestVa>) -> bool {
        self.forget_if(|(at, _)| range.contains(at))
    }

    fn forget_if(&mut self, concerned: impl Fn(&(GuestVa, GuestPa)) -> bool) -> bool {
        let concerned = self.known.as_ref().is_some_and(|known| known.places.iter().any(concerned));
        if concerned {
            self.known = None;
        }
        concerned
    }

    /// User code runs next: what was about to be written is. Whether there is something to look at again.
    pub fn release(&mut self) -> bool {
        core::mem::take(&mut self.held)
    }

    /// Everything may have changed, and code of the vector is to be found anew, which it is not while a write is under
    /// way.
    pub fn forget(&mut self) {
        (self.known, self.held) = (None, false);
    }
}

impl Common {
    /// The guest virtual and physical address at which a system call of the guest's user code arrives, as far as that
    /// is sure; otherwise the vector itself, with no physical address.
    pub fn call_target(&mut self, mmu: &mut Mmu, core: &mut HostCpu, cpu: &Cpu) -> (GuestVa, GuestPa) {
        let vector = GuestVa(cpu.vectors().wrapping_add(8));
        if mmu.call_vector.known.as_ref().is_none_or(|known| known.vector != vector) {
            mmu.call_vector.known = None;
            // Code is there, or nobody would notice a change of it.
            let quiet = !mmu.call_vector.held && mmu.call_vector.writes < MAX_WRITES
                // The vector is to be executed where instructions are counted.
                && !self.engine.blocks.counts();
            if quiet && self.engine.known(vector).is_some() {
                mmu.call_vector.known = self.look_through(mmu, core.enter_host_space(), cpu, vector);
            }
        }
        mmu.call_vector.known.as_ref().map_or((vector, GuestPa(0)), |known| known.places[2])
    }

    fn look_through(&mut self, mmu: &mut Mmu, host_space: HostSpace<'_>, cpu: &Cpu, vector: GuestVa) -> Option<Known> {
        let regime = regime(cpu);
        let global = |common: &Common, va, kind| -> Option<Mapping> {
            let access = Access { kind, privileged: true };
            let mapping = translate(&common.ram.at(host_space), &regime, address(va), access).ok()?;
            mapping.global.then_some(mapping)
        };
        let of_vector = global(self, vector, AccessKind::Fetch)?;
        let code = of_vector.pa;
        if !mmu.shadow().is_code_page(code) || self.volatile.contains(code) {
            return None;
        }
        let literal = literal_of_branch(vector, self.ram.load(host_space, code, 4)?)?;
        let of_literal = global(self, literal, AccessKind::Read)?;
        let data = of_literal.pa;
        // Bit 0 selects the state, as in any branch.
        let target = GuestVa(self.ram.load(host_space, data, 4).filter(|target| target & 3 != 2)?);
        let of_target = global(self, target, AccessKind::Fetch)?;
        for (va, size) in [(vector, of_vector.size), (literal, of_literal.size), (target, of_target.size)] {
            self.watch_code(mmu, address(va), size);
        }
        mmu.protect_code_page(data);
        Some(Known { vector, places: [(vector, code), (literal, data), (target, of_target.pa)] })
    }
}

/// The address that `LDR PC, [PC, #…]` at `entry` loads from, if `word`, which is there in memory, is one in the state
/// that bit 0 of `entry` says.
fn literal_of_branch(entry: GuestVa, word: u32) -> Option<GuestVa> {
    // A8.8.64: A1 with cond = AL, P = 1, W = 0, T2; Rn = Rt = 15 in both.
    const A32: u32 = 0xe51f_f000;
    const T32: u32 = 0xf85f_f000;
    const UP: u32 = 1 << 23;
    // The first half-word comes first in memory.
    let (at, expected, word) = if is_thumb(entry) {
        (At::t32(address(entry), 4), T32, word.rotate_left(16))
    } else {
        (At::a32(entry), A32, word)
    };
    if word & !(UP | 0xfff) != expected {
        return None;
    }
    let (base, offset) = (at.base().0, word & 0xfff);
    let literal = if word & UP != 0 { base.wrapping_add(offset) } else { base.wrapping_sub(offset) };
    (literal & 3 == 0).then_some(GuestVa(literal))
}
