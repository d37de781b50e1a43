//! CP14 and CP15 register moves.

use super::{Flow, barrier, copy, emulate};
use crate::emit::Emitter;
use crate::options::Options;
use spica_isa::{CpReg, Decoded, Reg};
use spica_vcpu::field;

/// What is legal in User mode and means the same there is copied; what is plain storage is a load from the vCPU page;
/// the rest is interpreted.
pub fn register(e: &mut Emitter<'_>, options: &Options, d: &Decoded, load: bool, reg: CpReg, rt: Reg) -> Flow {
    if reg.coproc != 15 || rt.is_pc() || d.uncond {
        return emulate(e, d, false);
    }
    match (load, reg.crn, reg.opc1, reg.crm, reg.opc2) {
        // CP15ISB, CP15DSB, CP15DMB: barriers, unprivileged (B4.2.5).
        (false, 7, 0, 5, 4) => barrier(e, d),
        (false, 7, 0, 10, 4 | 5) => copy(e, d),
        // The real TPIDRURW is the guest's, and User mode may change it at any time (B4.1.150).
        (_, 13, 0, 0, 2) => copy(e, d),
        // So is TPIDRURO, which User mode reads (B4.1.149).
        (true, 13, 0, 0, 3) if options.plain_registers => copy(e, d),
        (true, 13, 0, 0, 4) if options.plain_registers => {
            e.page_field(true, d.cond, rt, field::TPIDRPRW);
            Flow::Continues
        }
        _ => emulate(e, d, false),
    }
}
