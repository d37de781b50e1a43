//! A virtual CPU's state: another one that is brought to it is like the first, and what cannot be is refused.

use spica_vcpu::psr::Mode;
use spica_vcpu::{Cpu, CpuId, CpuState, VcpuPage, cp15, psr};

fn cpu(id: CpuId) -> Cpu {
    Cpu::new(Box::leak(Box::new(VcpuPage::reset())), id)
}

/// A CPU whose registers all differ, in this mode.
fn pattern(mode: Mode) -> Cpu {
    let mut cpu = cpu(CpuId::default());
    let mut value = 0x1000;
    let mut next = || {
        value += 0x11;
        value
    };
    cpu.regs = core::array::from_fn(|_| next());
    for n in 0..22 {
        *cpu.banked(n).expect("a register") = next();
    }
    cpu.change_mode(mode);
    cpu.psr = psr::NZCVQ | psr::GE | psr::T | 0x0600_0400;
    cpu.set_masks(psr::I, psr::A | psr::I | psr::F);
    cpu.page.tpidrprw = next();
    cpu.page.tpidruro = next();
    cpu.cp15.ttbr0 = next();
    cpu.cp15.vbar = 0x8000_0000;
    cpu.cp15.sctlr |= cp15::SCTLR_M | cp15::SCTLR_V;
    cpu.show();
    // What translated code wrote, and Rust has not heard of.
    cpu.page.dacr = next();
    cpu.page.fpexc = cp15::FPEXC_EN;
    cpu
}

#[test]
fn a_cpu_is_brought_to_what_another_was() {
    for mode in [Mode::Usr, Mode::Fiq, Mode::Irq, Mode::Svc, Mode::Abt, Mode::Und, Mode::Sys] {
        let mut first = pattern(mode);
        let state = first.state(0xc000_8002);
        let kept = postcard::to_allocvec(&state).unwrap();
        let state: CpuState = postcard::from_bytes(&kept).unwrap();
        // Whatever the other one was doing.
        let mut second = pattern(if mode == Mode::Fiq { Mode::Abt } else { Mode::Fiq });
        second.regs = [9; 15];
        second.set_state(&state).unwrap();
        assert_eq!(second.state(0xc000_8002), state, "{mode:?}");
        assert_eq!((second.cpsr(), second.mode(), second.regs), (first.cpsr(), mode, first.regs));
        for n in 0..22 {
            assert_eq!(second.banked(n), first.banked(n), "{mode:?} {n}");
        }
        assert_eq!(second.page.shown.ttbr0, first.cp15.ttbr0);
        assert_eq!((second.cp15.dacr, second.cp15.fpexc), (first.page.dacr, cp15::FPEXC_EN));
        // And on from there.
        first.change_mode(Mode::Irq);
        second.change_mode(Mode::Irq);
        assert_eq!((second.regs, second.page.spsr), (first.regs, first.page.spsr));
    }
}

#[test]
fn what_no_guest_can_do_is_refused() {
    let good = pattern(Mode::Svc).state(0xc000_8000);
    let refused = |change: fn(&mut CpuState)| {
        let (mut state, mut cpu) = (good.clone(), pattern(Mode::Irq));
        change(&mut state);
        let before = cpu.state(0);
        let problem = cpu.set_state(&state).err().map(|unsound| unsound.0);
        assert!(problem.is_none() || cpu.state(0) == before);
        problem
    };
    assert_eq!(refused(|_| ()), None);
    const REGISTER: Option<&str> = Some("a system control register that cannot be");
    assert_eq!(refused(|state| state.cpsr = 0x16), Some("a CPSR that cannot be"), "Monitor mode");
    assert_eq!(refused(|state| state.cpsr |= psr::J), Some("a CPSR that cannot be"));
    assert_eq!(refused(|state| state.pc |= 1), Some("a PC that is not aligned"));
    assert_eq!(refused(|state| (state.cpsr, state.pc) = (0x13, 2)), Some("a PC that is not aligned"));
    assert_eq!(refused(|state| state.cp15.sctlr = 0), REGISTER);
    assert_eq!(refused(|state| state.cp15.sctlr |= 1 << 17), REGISTER);
    assert_eq!(refused(|state| state.cp15.ttbcr = cp15::TTBCR_EAE), REGISTER, "there are no long descriptors");
    assert_eq!(refused(|state| state.cp15.tops[1] = 1), REGISTER);
    assert_eq!(refused(|state| state.cp15.cpacr = 1), REGISTER);
    assert_eq!(refused(|state| state.cp15.fpexc = 1), REGISTER);
    assert_eq!(refused(|state| state.cp15.vbar = 4), REGISTER);
    assert_eq!(refused(|state| state.cp15.teecr = 1), REGISTER, "there is no ThumbEE");
}
