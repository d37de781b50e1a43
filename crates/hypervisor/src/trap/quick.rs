//! Aborts that need little: an entry that the shadow lacks, and a fault of the guest's user code.
//!
//! A guest that pages on demand has two of these for each page: its own fault, then the hidden one. What [`handle`] and
//! [`Vm::resume`] look after at every trap does not matter here: no device, no block and no register of the guest's but
//! those of the exception is concerned, and the world to go on in is either the one that was left or one that
//! `fast.s` could have entered. So the conditions are `fast.s`'s own: `Context::long_way` is 0 where worlds change. What is out
//! of the ordinary is left as it is, for [`handle`].
//!
//! [`handle`]: super::handle
//! [`Vm::resume`]: crate::vm::Vm

use spica_addr::{GuestVa, HostPa};
use spica_mmu::{AccessKind, Fault, Quick, View};
use spica_vcpu::{Exception, Vcpu};

use super::abort;
use crate::arch::barrier;
use crate::arch::cp15::{Dfar, Dfsr, Ifar, Ifsr, SysRegRead};
use crate::vm::Vm;
use crate::vm::tables::RealTlb;
use crate::world::{Trap, World, space};

/// Answers an abort, if it is an ordinary one. The world to enter then, with everything in place.
pub fn handle(vm: &mut Vm, world: World, trap: Trap) -> Option<World> {
    let (status, far, kind) = match (trap, world) {
        (Trap::DataAbort, _) => {
            let fsr = Dfsr::read_raw();
            (fsr, Dfar::read_raw(), if fsr >> 11 & 1 != 0 { AccessKind::Write } else { AccessKind::Read })
        }
        (Trap::PrefetchAbort, World::User) => (Ifsr::read_raw(), Ifar::read_raw(), AccessKind::Fetch),
        _ => return None,
    };
    let Vm { context, parts, .. } = vm;
    // A domain fault may be that of a bet on DACR; an alignment fault is the guest's, whatever its tables say.
    if !parts.plain_tables || !abort::is_for_tables(status) || context.space_switched() {
        return None;
    }
    let view = if world == World::Kernel { View::Kernel } else { View::User };
    let guest = (context.cpu.cp15.ttbr0, context.cpu.page.dacr);
    // The handler of the guest's fault, if it is translated.
    let vector = context.cpu.vector_base() | if kind == AccessKind::Fetch { 0x0c } else { 0x10 };
    let handler = match world {
        World::User if context.long_way == 0 => parts.translator.jump_cache.get(vector),
        _ => None,
    };
    let quick = parts.shadow.quick_fill(&parts.ram, guest, view, GuestVa(far), kind, &mut parts.tables, &mut RealTlb);
    let world = match (quick, handler) {
        (Quick::Mapped, _) => {
            parts.counters.hidden_faults += 1;
            world
        }
        (Quick::GuestFault(fault), Some(entry)) => {
            parts.counters.guest_aborts += 1;
            deliver(&mut context.cpu, fault, far, kind);
            context.cpu.pc = entry;
            context.cpu.page.dacr_real = context.kernel.guest_dacr;
            parts.mirror.set_dacr(context.kernel.dacr);
            World::Kernel
        }
        _ => return None,
    };
    let side = context.side(world);
    space::go_to_guest(HostPa(side.ttbr0 & !0x3fff), side.contextidr as u8);
    Some(world)
}

/// The guest takes the abort of its user code.
#[inline(never)]
fn deliver(cpu: &mut Vcpu, fault: Fault, far: u32, kind: AccessKind) {
    barrier::clear_exclusive();
    let pc = cpu.pc;
    cpu.take_exception(match kind {
        AccessKind::Fetch => Exception::PrefetchAbort { pc, fsr: fault.ifsr(), far },
        _ => Exception::DataAbort { pc, fsr: fault.fsr(kind == AccessKind::Write), far },
    });
}
