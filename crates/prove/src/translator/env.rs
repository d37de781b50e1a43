//! What the interpreter reaches: guest memory by the guest's own rights. A store to code drops what was made from it.

use crate::translator::VA_TO_PA;
use crate::translator::code::Code;
use crate::translator::lockstep::in_place::InPlace;
use crate::translator::memory::Memory;
use crate::translator::model::{self, Fault};
use spica_addr::GuestPa;
use spica_dbt::Translator;
use spica_dbt::layout::PAGE;
use spica_vcpu::Cpu;
use spica_vcpu::cp15::TimerReg;
use spica_vcpu::interp::{Abort, Env};

/// What the interpreter sees of the world.
pub(super) struct TrapEnv<'a> {
    pub(super) translator: &'a mut Translator,
    pub(super) code: &'a mut Code,
    pub(super) memory: &'a mut Memory,
    pub(super) in_place: Option<&'a mut InPlace>,
    /// Code in place, or beside it, was dropped: if there is more, its page changes as a whole.
    pub(super) patched: bool,
}

impl TrapEnv<'_> {
    pub(super) fn code_changes(&mut self, va: u32) {
        let page = Memory::page(va).expect("in the guest's memory");
        if let Some(in_place) = &mut self.in_place {
            in_place.twins.remove(GuestPa(va.wrapping_sub(VA_TO_PA)));
        }
        self.translator.drop_page(GuestPa(va.wrapping_sub(VA_TO_PA)), self.code);
        self.memory.protected[page] = false;
    }

    /// As `Common::code_is_stored_to`, within a page.
    fn code_is_stored_to(&mut self, va: u32, bytes: u32, value: u32) {
        let same = self.memory.get(va, bytes) == value & u32::MAX >> (32 - 8 * bytes);
        let word = |va: u32| (va % PAGE / 4) as u16;
        let words = (!same).then(|| word(va)..=word(va + bytes - 1));
        let (pa, version) = (GuestPa(va.wrapping_sub(VA_TO_PA)), self.translator.version());
        let done = match &mut self.in_place {
            Some(_) if self.patched => false,
            // As `KernelEngine::words_change`.
            Some(in_place) if in_place.twins.has(pa) => in_place.words_change(self.translator, self.code, pa, words),
            _ => self.translator.change_words(pa, words, self.code),
        };
        if !done {
            self.code_changes(va);
        }
        self.patched |= self.in_place.is_some() && self.translator.version() != version;
    }
}

pub(super) fn abort(fault: Fault) -> Abort {
    Abort { fsr: fsr(fault), far: fault.address }
}

/// DFSR of a fault: alignment, or a translation fault of a page (table B3-23).
fn fsr(fault: Fault) -> u32 {
    u32::from(fault.write) << 11 | if fault.alignment { 0b00001 } else { 0b00111 }
}

impl Env for TrapEnv<'_> {
    fn load(&mut self, _cpu: &mut Cpu, va: u32, bytes: u32, privileged: bool) -> Result<u32, Abort> {
        self.memory.check_as(privileged, va, bytes, false)?;
        Ok(self.memory.get(va, bytes))
    }

    fn store(&mut self, _cpu: &mut Cpu, va: u32, bytes: u32, value: u32, privileged: bool) -> Result<(), Abort> {
        self.memory.check_as(privileged, va, bytes, true)?;
        // Byte by byte where it crosses a page.
        let bytes_at_once = if va % PAGE > PAGE - bytes { 1 } else { bytes };
        for n in (0..bytes).step_by(bytes_at_once as usize) {
            let (va, value) = (va.wrapping_add(n), value >> (8 * n));
            let is_code = self.memory.protected[Memory::page(va).expect("checked")];
            if is_code {
                self.code_is_stored_to(va, bytes_at_once, value);
            }
            self.memory.set(va, bytes_at_once, value);
            if is_code
                && let Some(in_place) = &mut self.in_place
                && !in_place.was_stored_to(self.memory, va, bytes_at_once)
            {
                self.code_changes(va);
            }
        }
        Ok(())
    }

    fn timer_read(&mut self, reg: TimerReg) -> u64 {
        match reg {
            TimerReg::Cntpct | TimerReg::Cntvct => model::COUNTER,
            _ => 0,
        }
    }

    fn timer_write(&mut self, _reg: TimerReg, _value: u64) {}
}
