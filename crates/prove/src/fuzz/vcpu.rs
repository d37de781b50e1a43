//! The virtual CPU: any sensitive instruction in any mode.

use super::bytes::Bytes;
use spica_isa::decode;
use spica_vcpu::cp15::TimerReg;
use spica_vcpu::interp::{self, Abort, Env, Step};
use spica_vcpu::psr::{self, Mode};
use spica_vcpu::{Cpu, CpuId, Exception, VcpuPage};
use std::cell::RefCell;

/// Memory in which some addresses fault and all others are the same.
struct World(u32);

impl World {
    fn check(va: u32, write: bool) -> Result<(), Abort> {
        match va >> 28 {
            0xf => Err(Abort { fsr: 0b00111 | u32::from(write) << 11, far: va }),
            _ => Ok(()),
        }
    }
}

impl Env for World {
    fn load(&mut self, _: &mut Cpu, va: u32, bytes: u32, _: bool) -> Result<u32, Abort> {
        assert!(matches!(bytes, 1 | 2 | 4), "an access of {bytes} bytes");
        World::check(va, false)?;
        Ok(self.0 & u32::MAX >> (32 - 8 * bytes))
    }

    fn store(&mut self, _: &mut Cpu, va: u32, bytes: u32, value: u32, _: bool) -> Result<(), Abort> {
        assert!(matches!(bytes, 1 | 2 | 4), "an access of {bytes} bytes");
        World::check(va, true)?;
        self.0 = value;
        Ok(())
    }

    fn timer_read(&mut self, reg: TimerReg) -> u64 {
        reg as u64
    }

    fn timer_write(&mut self, _: TimerReg, _: u64) {}
}

thread_local! {
    /// A virtual CPU keeps its page for ever: there is one for all inputs.
    static CPU: RefCell<Cpu> = RefCell::new(Cpu::new(Box::leak(Box::new(VcpuPage::reset())), CpuId::default()));
}

/// A word that the interpreter may meet: of CP15 most of the time.
fn word(bytes: &mut Bytes<'_>) -> u32 {
    let word = bytes.word();
    match bytes.byte() % 8 {
        0..=3 => 0xee00_0f10 | word & 0x00ff_f0ef,
        4 => 0xec40_0f00 | word & 0x001f_f0ff,
        5 => 0xee00_0e10 | word & 0x00ff_f0ef,
        _ => word,
    }
}

fn run(cpu: &mut Cpu, bytes: &mut Bytes<'_>) {
    cpu.reset();
    let mut world = World(bytes.word());
    for _ in 0..100 {
        if bytes.is_empty() {
            break;
        }
        if bytes.byte().is_multiple_of(4) {
            cpu.regs[usize::from(bytes.byte() % 15)] = bytes.value();
        }
        if bytes.byte().is_multiple_of(16) {
            let mode = bytes.pick(&[Mode::Usr, Mode::Svc, Mode::Irq, Mode::Fiq, Mode::Abt, Mode::Und, Mode::Sys]);
            cpu.change_mode(mode);
        }
        let word = word(bytes);
        let d = decode(word);
        let (mode, pc) = (cpu.mode(), u32::from(bytes.half()) << 2);
        let step = interp::execute(cpu, &mut world, &d, pc);
        if mode == Mode::Usr && matches!(step, Step::Return(_)) {
            assert_eq!(cpu.mode(), Mode::Usr, "User mode left by {d}");
        }
        if matches!(step, Step::Undefined) {
            cpu.take_exception(Exception::Undefined { pc });
        }
        // The CPSR is whole, and writing back what was read changes nothing.
        let cpsr = cpu.cpsr();
        assert_eq!(cpsr & psr::MODE, cpu.mode() as u32, "{d}");
        cpu.set_cpsr(cpsr);
        assert_eq!(cpu.cpsr(), cpsr, "{d}");
        cpu.show();
    }
}

/// See [`super::TARGETS`].
pub fn instructions(data: &[u8]) {
    CPU.with_borrow_mut(|cpu| run(cpu, &mut Bytes::new(data)));
}

/// Bytes with a bit of everything.
pub fn seeds() -> Vec<Vec<u8>> {
    super::code::noise(8, 300)
}
