//! What the core and the handlers in assembly need before a guest is entered: tables, DACR, VFP, interrupts that wait.

use super::later::Later;
use super::tables::RealTlb;
use super::{Parts, Stop, Vm};
use crate::arch::cache;
use crate::engine::Engine;
use crate::host::Host;
use crate::host_cpu::HostCpu;
use crate::layout::TTBR_WALK;
use crate::papers::SEPARATION;
use crate::world::{Context, NO_ASID, World};
use spica_addr::CachePc;
use spica_mmu::{Regime, View, quick};
use spica_vcpu::cp15::{FPEXC_EN, SCTLR_EE, SCTLR_M, SCTLR_TE};

impl Vm {
    /// Puts the guest's tables, DACR and the rest of its world in place, and what `fast.s` needs to change worlds.
    pub(super) fn prepare(&mut self, core: &mut HostCpu, world: World) {
        let mut changing = self.parts.later.as_ref().is_some_and(Later::is_due);
        // Between two blocks, which is where user code begins at the latest: that is entered from here then.
        if changing
            && world == World::User
            && let Some(later) = self.parts.later.take()
        {
            self.parts.set_switches(later.switches());
            changing = false;
        }
        let Vm { context, parts, .. } = self;
        let cpu = &mut context.cpu;
        let mmu_on = cpu.cp15.sctlr & SCTLR_M != 0;
        match world {
            World::Kernel => {
                cpu.page.dacr_real = cpu.cp15.dacr;
                parts.engine.publish();
            }
            World::User => {
                if core::mem::take(&mut cpu.page.stale) != 0 {
                    cache::invalidate_instructions();
                }
                parts.core_state.set_thread_id_read_only(cpu.page.tpidruro);
                parts.sides_known &= !parts.call_vector.release();
            }
        }
        let guest_dacr = cpu.cp15.dacr;
        let view = if world == World::Kernel { View::Kernel } else { View::User };
        let dacr = if mmu_on { SEPARATION.host_dacr(guest_dacr, view) } else { SEPARATION.flat_dacr(view) };
        if !core::mem::replace(&mut parts.sides_known, true) {
            Self::learn_sides(core, context, parts);
        } else if parts.plain && parts.spaces.is_behind(&parts.shadow) {
            Self::learn_space(context, parts);
        }
        Self::note_interrupts(context, parts, changing);
        parts.core_state.set_dacr(dacr);
        if !parts.vfp[world as usize] {
            parts.core_state.disable_vfp();
        }
        context.cpu.page.fpexc_real = if parts.core_state.vfp_on() { FPEXC_EN } else { 0 };
        let both = vfp_allowed(&context.cpu, World::Kernel) && vfp_allowed(&context.cpu, World::User);
        context.vfp_ready = u32::from(both && parts.core_state.holds_vfp() && parts.switches.quick_vfp && !changing);
        let side = context.side(world);
        (side.dacr, side.guest_dacr) = (dacr, guest_dacr);
        core.go_to(side);
        if mmu_on {
            context.note_dacr(guest_dacr);
        }
    }

    /// What translated code and assembly need to know of the virtual interrupts that wait. `changing`: the translator is to be
    /// changed where user code begins.
    fn note_interrupts(context: &mut Context, parts: &Parts, changing: bool) {
        let waits = parts.machine.irq_asserted();
        context.cpu.page.pending = if waits { u32::MAX } else { 0 };
        let plain = parts.plain && !changing && !waits && !parts.machine.fiq_asserted();
        context.long_way = u32::from(!plain);
    }

    /// A device has been accessed by translated code, and nothing else has happened: the guest can go on at `pc`, unless there is
    /// something for others to see to.
    pub fn goes_on_behind_device(&mut self, core: &mut HostCpu, host: &mut Host, pc: CachePc) -> bool {
        let Vm { context, parts, .. } = self;
        if !parts.sides_known || parts.machine.wants_service() || host.wants_attention() {
            return false;
        }
        context.cpu.pc = pc.0;
        Self::note_interrupts(context, parts, parts.later.as_ref().is_some_and(Later::is_due));
        parts.engine.publish();
        core.go_to(&context.kernel);
        true
    }

    /// What [`Self::prepare`] needs to know of system registers, after a change of any.
    fn learn_sides(core: &mut HostCpu, context: &mut Context, parts: &mut Parts) {
        for (world, view) in [(World::Kernel, View::Kernel), (World::User, View::User)] {
            let root = parts.shadow.root(view);
            let side = context.side(world);
            (side.ttbr0, side.contextidr) = (root.ttbr0.0 | TTBR_WALK, root.asid.into());
            parts.vfp[world as usize] = vfp_enabled(&context.cpu, world);
        }
        context.set_spill(parts.engine.translator().options().spill);
        let sctlr = context.cpu.cp15.sctlr;
        // What the handlers in assembly do not look at must be the same in both worlds, and settle nothing.
        parts.plain = parts.switches.fast_switches
            && sctlr & (SCTLR_M | SCTLR_EE | SCTLR_TE) == SCTLR_M
            && parts.vfp[0] == parts.vfp[1];
        parts.plain_tables = parts.switches.quick_faults && quick::is_plain(&parts.active);
        parts.core_state.set_sctlr(sctlr);
        context.tlb_asid = parts.shadow.sole_asid().map_or(NO_ASID, u32::from);
        context.note_space();
        context.watched = parts.shadow.watched_megabytes().as_ptr();
        context.watched_pages = Context::watched_pages(parts.shadow.watched_pages());
        context.table_offset = parts.tables.va_offset();
        let call = parts.call_target(core, &context.cpu);
        context.set_vectors(context.cpu.vector_base(), call);
        // What was given away may be somebody else's: tables there are not to be read.
        context.quick = u32::from(parts.plain_tables && parts.ram.absent_count() == 0);
        context.private = parts.shadow.private_megabytes().as_ptr();
        context.hints = parts.shadow.page_hints();
        context.aliases = parts.shadow.aliases();
        context.home = core.home_ttbr0();
        context.ram = parts.ram.place();
        if parts.plain {
            Self::learn_space(context, parts);
        }
    }

    /// The guest has turned VFP on or off, by FPEXC alone.
    pub fn note_vfp(&mut self) {
        let Vm { context, parts, .. } = self;
        let alike = parts.vfp[0] == parts.vfp[1];
        parts.vfp = [World::Kernel, World::User].map(|world| vfp_enabled(&context.cpu, world));
        // Of what Vm::learn_sides learns, nothing but this depends on it.
        parts.sides_known &= (parts.vfp[0] == parts.vfp[1]) == alike;
    }

    /// Notes the active space as one that assembly may switch to.
    fn learn_space(context: &Context, parts: &mut Parts) {
        // What holds nothing of its ASID is good under any; whose pages may be forgotten is another question.
        let asid = parts.shadow.holds_private().then(|| context.cpu.cp15.asid());
        let tlb_asid = asid.map_or(NO_ASID, |_| context.tlb_asid);
        parts.spaces.catch_up(&mut parts.shadow);
        parts.spaces.enter(context, parts.shadow.active_space(), asid, tlb_asid);
    }

    /// Activates the shadow tables for the guest's translation registers, after a change.
    pub fn regime_changed(&mut self, core: &mut HostCpu) -> Result<(), Stop> {
        core.go_home();
        let parts = &mut self.parts;
        let new = regime(&self.context.cpu);
        let old = core::mem::replace(&mut parts.active, new);
        // A process switch changes TTBR0 and the ASID. Anything more changes what global mappings mean, too.
        let process_switch = Regime { ttbr0: old.ttbr0, asid: old.asid, dacr: old.dacr, ..new } == old;
        if !process_switch {
            parts.code_map.forget_descriptors();
            parts.sites.clear();
            parts.call_vector.forget();
            parts.spaces.clear();
            parts.engine.all_moved();
        }
        parts.sides_known = false;
        let created = parts.shadow.spaces_created();
        parts.shadow.activate(&new, &mut parts.tables, &mut RealTlb).map_err(|_| Stop::OutOfTables)?;
        // A space that is known was looked at when it was new, and is looked at again at each interrupt.
        if !process_switch || parts.shadow.spaces_created() != created {
            parts.backlog.look_through_cache();
        }
        Ok(())
    }
}

/// Whether the guest's VFP is on for what runs in `world` (CPACR, B4.1.40, and FPEXC.EN).
pub fn vfp_enabled(cpu: &spica_vcpu::Vcpu, world: World) -> bool {
    vfp_allowed(cpu, world) && cpu.cp15.fpexc & FPEXC_EN != 0
}

fn vfp_allowed(cpu: &spica_vcpu::Vcpu, world: World) -> bool {
    let access = cpu.cp15.cpacr >> 20 & 0xf;
    access == 0xf || access == 0b0101 && world == World::Kernel
}

/// The guest's translation regime.
pub fn regime(cpu: &spica_vcpu::Vcpu) -> Regime {
    let cp15 = &cpu.cp15;
    Regime {
        sctlr: cp15.sctlr,
        ttbr0: cp15.ttbr0,
        ttbr1: cp15.ttbr1,
        ttbcr: cp15.ttbcr,
        dacr: cp15.dacr,
        prrr: cp15.prrr,
        nmrr: cp15.nmrr,
        asid: cp15.asid(),
        pxn: cpu.id.mmfr[0] & 0xf >= 4,
    }
}
