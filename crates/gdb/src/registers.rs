//! What GDB sees of a virtual CPU: its numbers for registers, and where the board has them.
//!
//! GDB asks for the core registers all at once, for the others one by one; so the board is asked for a group when one
//! of it is shown.

use std::fmt::Write;
use std::num::NonZeroUsize;
use std::sync::LazyLock;

use gdbstub::arch::{Arch, RegId, Registers};

/// Number of CPSR: GDB has old floating-point registers between PC and it.
const CPSR: usize = 25;
/// Number of D0.
const VFP: usize = 26;
/// Number of FPSCR.
const FPSCR: usize = VFP + 32;
/// Number of the first banked register.
const BANKED: usize = FPSCR + 1;
/// Number of the first system control register.
const SYSTEM: usize = BANKED + BANKED_NAMES.len();

/// In the board's order.
const BANKED_NAMES: [&str; 22] = [
    "sp_usr", "lr_usr", "sp_svc", "lr_svc", "spsr_svc", "sp_abt", "lr_abt", "spsr_abt", "sp_und", "lr_und", "spsr_und",
    "sp_irq", "lr_irq", "spsr_irq", "sp_fiq", "lr_fiq", "spsr_fiq", "r8_fiq", "r9_fiq", "r10_fiq", "r11_fiq",
    "r12_fiq",
];

/// In the board's order.
const SYSTEM_NAMES: [&str; 16] = [
    "sctlr",
    "cpacr",
    "ttbr0",
    "ttbr1",
    "ttbcr",
    "dacr",
    "dfsr",
    "ifsr",
    "dfar",
    "ifar",
    "vbar",
    "contextidr",
    "tpidrurw",
    "tpidruro",
    "tpidrprw",
    "fpexc",
];

/// An ARMv7-A core with VFP.
pub enum Arm {}

/// A register, as the board has it: the name of a group, which word of that, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// The group.
    pub group: &'static str,
    /// Its first word in the group.
    pub at: usize,
    /// Words.
    pub words: usize,
}

impl RegId for Register {
    fn from_raw_id(id: usize) -> Option<(Self, Option<NonZeroUsize>)> {
        let (group, at, words) = match id {
            0..16 => ("core", id, 1),
            CPSR => ("core", 16, 1),
            VFP..FPSCR => ("vfp", 2 * (id - VFP), 2),
            FPSCR => ("vfp", 64, 1),
            BANKED..SYSTEM => ("banked", id - BANKED, 1),
            SYSTEM.. if id < SYSTEM + SYSTEM_NAMES.len() => ("system", id - SYSTEM, 1),
            _ => return None,
        };
        Some((Register { group, at, words }, NonZeroUsize::new(4 * words)))
    }
}

/// The core registers: R0 to R15, CPSR.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Core(pub [u32; 17]);

impl Registers for Core {
    type ProgramCounter = u64;

    fn pc(&self) -> u64 {
        self.0[15].into()
    }

    fn gdb_serialize(&self, mut write_byte: impl FnMut(Option<u8>)) {
        self.0.iter().flat_map(|word| word.to_le_bytes()).for_each(|byte| write_byte(Some(byte)));
    }

    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        let (words, rest) = bytes.as_chunks::<4>();
        if words.len() < self.0.len() || !rest.is_empty() {
            return Err(());
        }
        for (to, word) in self.0.iter_mut().zip(words) {
            *to = u32::from_le_bytes(*word);
        }
        Ok(())
    }
}

impl Arch for Arm {
    // Debuggers ask for addresses that no 32 bits hold: LLDB for what is behind the last one. They get an error for it.
    type Usize = u64;
    type Registers = Core;
    type BreakpointKind = usize;
    type RegId = Register;

    fn target_description_xml() -> Option<&'static str> {
        static XML: LazyLock<String> = LazyLock::new(description);
        Some(&XML)
    }
}

/// GDB's target description (GDB manual, appendix G; "ARM Features").
fn description() -> String {
    let mut xml = String::from(
        "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\"><target version=\"1.0\">\
         <architecture>arm</architecture>",
    );
    let mut feature = |name: &str, group: &str, registers: &[(String, &str, usize)]| {
        let _ = write!(xml, "<feature name=\"{name}\">");
        for (name, kind, number) in registers {
            let bits = if *kind == "ieee_double" { 64 } else { 32 };
            let _ = write!(xml, "<reg name=\"{name}\" bitsize=\"{bits}\" regnum=\"{number}\" type=\"{kind}\"{group}/>");
        }
        xml.push_str("</feature>");
    };
    let plain = |names: &[&str], first: usize| -> Vec<_> {
        names.iter().enumerate().map(|(n, name)| (name.to_string(), "uint32", first + n)).collect()
    };
    let mut core: Vec<_> = (0..13).map(|n| (format!("r{n}"), "uint32", n)).collect();
    core.extend(
        [("sp", "data_ptr", 13), ("lr", "uint32", 14), ("pc", "code_ptr", 15), ("cpsr", "uint32", CPSR)]
            .map(|(name, kind, number)| (name.to_string(), kind, number)),
    );
    feature("org.gnu.gdb.arm.core", "", &core);
    let mut vfp: Vec<_> = (0..32).map(|n| (format!("d{n}"), "ieee_double", VFP + n)).collect();
    vfp.push(("fpscr".to_string(), "uint32", FPSCR));
    feature("org.gnu.gdb.arm.vfp", "", &vfp);
    feature("org.spica.banked", " group=\"banked\"", &plain(&BANKED_NAMES, BANKED));
    feature("org.spica.system", " group=\"system\"", &plain(&SYSTEM_NAMES, SYSTEM));
    xml.push_str("</target>");
    xml
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_described_register_is_one_of_the_boards() {
        let xml = Arm::target_description_xml().unwrap();
        let numbers: Vec<usize> =
            xml.split("regnum=\"").skip(1).map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect();
        assert_eq!(numbers.len(), 17 + 33 + 22 + 16);
        let mut places: Vec<_> = numbers.iter().map(|&number| Register::from_raw_id(number).unwrap().0).collect();
        places.dedup();
        assert_eq!(places.len(), numbers.len());
        for number in (16..25).chain([numbers[numbers.len() - 1] + 1, usize::MAX]) {
            assert!(Register::from_raw_id(number).is_none(), "{number}");
        }
    }

    #[test]
    fn core_registers_as_bytes_and_back() {
        let core = Core(std::array::from_fn(|n| 0x0102_0304 * n as u32));
        let mut bytes = Vec::new();
        core.gdb_serialize(|byte| bytes.extend(byte));
        let mut again = Core::default();
        again.gdb_deserialize(&bytes).unwrap();
        assert_eq!((again, bytes.len()), (core, 68));
        assert!(Core::default().gdb_deserialize(&bytes[1..]).is_err());
    }
}
