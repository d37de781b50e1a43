//! What the core and the handlers in assembly need before a guest is entered: tables, DACR, VFP, interrupts that wait.

use super::{Common, Resume, Stop, Vcpu, Vm};
use crate::arch::cache;
use crate::engine::Engine;
use crate::host::Host;
use crate::host_cpu::HostCpu;
use crate::layout::TTBR_WALK;
use crate::machine::{GuestMachine, Machine};
use crate::world::{IRQ_WAITS, Privilege};
use spica_addr::CachePc;
use spica_mmu::{Regime, View};
use spica_switches::later::Later;
use spica_vcpu::cp15::{FPEXC_EN, SCTLR_EE, SCTLR_M, TTBCR_EAE};
use spica_vcpu::psr::{self, Mode};

impl Vm {
    /// Puts the guest's tables, DACR and the rest of its state in place, and what `fast.s` needs to switch privilege.
    // Part of the loop that runs guests, though a debugger has it, too: a call costs a boot 0.2 % of its instructions.
    #[inline(always)]
    pub(super) fn prepare(&mut self, core: &mut HostCpu, privilege: Privilege) {
        let mut changing = self.common.later.as_ref().is_some_and(Later::is_due);
        // Between two blocks, which is where user code begins at the latest: that is entered from here then.
        if changing
            && privilege == Privilege::User
            && let Some(later) = self.common.later.take()
        {
            self.common.set_switches(&mut self.vcpu.mmu, later.switches());
            changing = false;
        }
        if privilege == Privilege::User && self.common.engine.waits_for_in_place() {
            self.may_begin_in_place(core, None);
        }
        if privilege == Privilege::User && self.common.engine.is_to_leave_in_place() {
            self.give_way();
        }
        let Vm { vcpu, common, .. } = self;
        let waits = common.engine.waits_for_in_place() || common.engine.is_to_leave_in_place();
        vcpu.context.takes_interrupts = (!waits).into();
        let cpu = &mut vcpu.context.cpu;
        let mmu_on = cpu.cp15.sctlr & SCTLR_M != 0;
        match privilege {
            Privilege::Kernel => cpu.page.dacr_real = cpu.cp15.dacr,
            Privilege::User => {
                match [core::mem::take(&mut cpu.page.stale), core::mem::take(&mut cpu.page.stale_code)] {
                    [0, 0] => {}
                    [_, 0] => cache::invalidate_branch_predictor(),
                    _ => cache::invalidate_instructions(),
                }
                vcpu.core_state.set_thread_id_read_only(cpu.page.tpidruro);
                if vcpu.mmu.call_vector.release() {
                    vcpu.mmu.make_stale();
                }
            }
        }
        let guest_dacr = effective_dacr(cpu);
        if mmu_on && privilege == Privilege::User {
            vcpu.mmu.enter_user(core, guest_dacr);
        }
        if vcpu.mmu.take_stale() {
            vcpu.learn_views(core, common);
        } else if vcpu.plain && vcpu.mmu.spaces().is_behind(vcpu.mmu.shadow()) {
            vcpu.mmu.learn_space(vcpu.context);
        }
        vcpu.note_interrupts(&common.machine, changing);
        vcpu.context.note_dacrs(privilege, guest_dacr, mmu_on);
        vcpu.core_state.set_dacr(vcpu.context.dacr_in_force(privilege));
        if !vcpu.vfp[privilege as usize] {
            vcpu.core_state.disable_vfp();
        }
        let context = &mut vcpu.context;
        context.cpu.page.fpexc_real = if vcpu.core_state.vfp_on() { FPEXC_EN } else { 0 };
        let both = vfp_allowed(&context.cpu, Privilege::Kernel) && vfp_allowed(&context.cpu, Privilege::User);
        context.vfp_ready = u32::from(both && vcpu.core_state.holds_vfp() && common.switches.quick_vfp && !changing);
        core.go_to(context.view_registers(privilege));
        // User code may come to kernel code without Rust.
        common.engine.publish(privilege == Privilege::Kernel);
    }

    /// A device has been accessed by translated code, and nothing else has happened: the guest can go on at `pc`,
    /// unless there is something for others to see to.
    pub fn goes_on_behind_device(&mut self, core: &mut HostCpu, host: &Host, pc: CachePc) -> bool {
        self.note_interrupts();
        self.goes_on(core, host, pc)
    }

    /// The kernel has waited, and an interrupt has come that it has masked, as Linux does: it can go on where `resume`
    /// says, at a block that is known, unless there is something for others to see to. Devices may have stored to its
    /// memory meanwhile, its tables among that.
    pub(super) fn goes_on_behind_wait(&mut self, core: &mut HostCpu, host: &Host, resume: Resume) -> bool {
        let Resume::Guest(pc) = resume else { return false };
        if !self.is_settled() || self.interrupt_deliverable() {
            return false;
        }
        let Vm { vcpu, common, .. } = self;
        let (mode, (pc, it)) = (vcpu.context.cpu.mode(), vcpu.entry(pc));
        let odd = matches!(mode, Mode::Usr | Mode::Fiq) || it.in_block() || vcpu.context.cpu.psr & psr::E != 0;
        if odd || vcpu.mmu.spaces().is_behind(vcpu.mmu.shadow()) {
            return false;
        }
        let Some(entry) = common.engine.known(pc) else { return false };
        let leaves = vcpu.context.leave;
        vcpu.context.leave = 0;
        if !self.goes_on_behind_device(core, host, entry) {
            self.vcpu.context.leave = leaves;
            return false;
        }
        self.vcpu.nested = 0;
        // Not before: of code in Thumb state, whoever else goes on has to know that.
        self.vcpu.enter_block();
        true
    }

    /// Interrupts may wait that did not, or the other way round.
    pub(super) fn note_interrupts(&mut self) {
        self.vcpu.note_interrupts(&self.common.machine, self.common.later.as_ref().is_some_and(Later::is_due));
    }

    /// Nothing has happened that the guest's state depends on: its kernel can go on at `pc`, unless there is something
    /// for others to see to, or its tables are others, by a switch of spaces that assembly made and Rust learns of only
    /// now.
    pub fn goes_on(&mut self, core: &mut HostCpu, host: &Host, pc: CachePc) -> bool {
        if self.vcpu.mmu.is_stale() || self.common.machine.wants_service() || host.is_wanted() {
            return false;
        }
        // Code in place is left at once.
        if self.common.engine.is_guest_address(pc) && self.interrupt_deliverable() {
            return false;
        }
        let Vm { vcpu, common, .. } = self;
        vcpu.context.cpu.pc = pc.0;
        core.go_to(&vcpu.context.kernel);
        common.engine.publish(true);
        true
    }

    /// Activates the shadow tables for the guest's translation registers, after a change.
    pub fn regime_changed(&mut self, core: &mut HostCpu) -> Result<(), Stop> {
        let Vm { vcpu, common, .. } = self;
        let activated =
            vcpu.mmu.activate(core.enter_host_space(), &regime(&vcpu.context.cpu)).map_err(|_| Stop::OutOfTables)?;
        if !activated.process_switch {
            common.code_map.forget_descriptors();
            common.engine.all_moved();
        }
        // A space that is known was looked at when it was new, and is looked at again at each interrupt.
        if !activated.process_switch || activated.new {
            common.backlog.look_through_cache();
        }
        Ok(())
    }
}

impl Vcpu {
    /// What translated code and assembly need to know of the virtual interrupts that wait. `changing`: the translator
    /// is to be changed where user code begins.
    fn note_interrupts(&mut self, machine: &Machine, changing: bool) {
        let waits = machine.irq_asserted();
        self.context.cpu.page.pending = if waits { u32::MAX } else { 0 };
        let plain = self.plain && !changing && !machine.fiq_asserted();
        self.context.slow_path = match (plain, waits) {
            (true, false) => 0,
            (true, true) => IRQ_WAITS,
            (false, _) => 1,
        };
    }

    /// What [`Vm::prepare`] needs to know of system registers, after a change of any.
    #[inline(always)]
    fn learn_views(&mut self, core: &mut HostCpu, common: &mut Common) {
        let Vcpu { context, mmu, .. } = self;
        for (privilege, view) in [(Privilege::Kernel, View::Kernel), (Privilege::User, View::User)] {
            let root = mmu.shadow().root(view);
            let registers = context.view_registers(privilege);
            (registers.ttbr0, registers.contextidr) = (root.ttbr0.0 | TTBR_WALK, root.asid.into());
            self.vfp[privilege as usize] = vfp_enabled(&context.cpu, privilege);
        }
        context.set_spill(common.engine.blocks.translator().options().spill);
        let sctlr = context.cpu.cp15.sctlr;
        // What the handlers in assembly do not look at must be the same for kernel and user code, and settle nothing.
        self.plain =
            common.switches.fast_switches && sctlr & (SCTLR_M | SCTLR_EE) == SCTLR_M && self.vfp[0] == self.vfp[1];
        self.core_state.set_sctlr(sctlr);
        mmu.show(context, common.switches.quick_faults);
        context.note_space();
        let call = common.call_target(mmu, core, &context.cpu);
        context.set_vectors(context.cpu.vectors(), call);
        context.timer.quick = common.switches.quick_timer.into();
        // What was given away may be somebody else's: tables there are not to be read. Nor is what a debugger hides to
        // be mapped.
        context.fast_faults = u32::from(mmu.has_plain_tables() && common.ram.absent_count() == 0 && !mmu.hides());
        let [host, region] = core.host_ttbr0s();
        context.host_ttbr0 = host;
        (context.kernel.region_ttbr0, context.user.region_ttbr0) = (region, region);
        context.ram = common.ram.place();
        if self.plain {
            mmu.learn_space(context);
        }
    }
}

/// Whether the guest's VFP is on for what runs at `privilege` (CPACR, B4.1.40, and FPEXC.EN).
pub fn vfp_enabled(cpu: &spica_vcpu::Cpu, privilege: Privilege) -> bool {
    vfp_allowed(cpu, privilege) && cpu.cp15.fpexc & FPEXC_EN != 0
}

fn vfp_allowed(cpu: &spica_vcpu::Cpu, privilege: Privilege) -> bool {
    let access = cpu.cp15.cpacr >> 20 & 0xf;
    access == 0xf || access == 0b0101 && privilege == Privilege::Kernel
}

/// The guest's DACR. With long descriptors there are no domains: all are clients.
fn effective_dacr(cpu: &spica_vcpu::Cpu) -> u32 {
    if cpu.cp15.ttbcr & TTBCR_EAE != 0 { 0x5555_5555 } else { cpu.cp15.dacr }
}

/// The guest's translation regime.
pub fn regime(cpu: &spica_vcpu::Cpu) -> Regime {
    let cp15 = &cpu.cp15;
    Regime {
        sctlr: cp15.sctlr,
        ttbr0: cp15.ttbr0,
        ttbr1: cp15.ttbr1,
        ttbcr: cp15.ttbcr,
        dacr: effective_dacr(cpu),
        tops: [cp15.tops[0] & 0xff, cp15.tops[1] & 0xff],
        prrr: cp15.prrr,
        nmrr: cp15.nmrr,
        asid: cp15.asid(),
        pxn: cpu.id.mmfr[0] & 0xf >= 4,
    }
}
