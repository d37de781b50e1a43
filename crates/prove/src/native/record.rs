//! The state of the processor as the stepper loads it and leaves it, word by word, and what an exception does to it.

use crate::translator::model::{self, EN, Machine, T};

/// Words of a record. `tests/bare/stepper.S` has the same offsets, in bytes.
pub const WORDS: usize = 112;
/// SP and LR of User mode; R0 to R12 are before.
const USER: usize = 13;
/// SP, LR and SPSR of each of [`MODES`].
const BANKS: usize = 15;
/// Where it starts; afterwards, the vector.
pub const START: usize = 27;
const CPSR: usize = 28;
const CPACR: usize = 29;
const FPEXC: usize = 30;
/// TPIDRURW, TPIDRURO, TPIDRPRW.
const THREAD: usize = 31;
pub const DFSR: usize = 34;
pub const IFSR: usize = 35;
const DFAR: usize = 36;
const IFAR: usize = 37;
const TTBR1: usize = 38;
const CONTEXTIDR: usize = 39;
const DACR: usize = 40;
const TEEHBR: usize = 41;
/// Two patches, of an address and a word.
const PATCHES: usize = 42;
pub const FPSCR: usize = 46;
pub const VFP: usize = 48;

/// Supervisor, Abort, Undefined and IRQ mode, as their registers are in a record.
pub const MODES: [u32; 4] = [0x13, 0x17, 0x1b, 0x12];
pub const USER_MODE: u32 = 0x10;

/// Bits of a PSR that mean nothing in ARMv7-A: reading as zero, should be zero or preserved (B1.3.3).
pub const RESERVED: u32 = 0xf << 20;

/// All that a piece of code can see of the processor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Record(pub [u32; WORDS]);

/// How native code ended, which is always an exception.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Vector {
    Undefined = 1,
    SupervisorCall = 2,
    PrefetchAbort = 3,
    DataAbort = 4,
}

impl Vector {
    /// The mode that it is taken to (B1.8).
    fn mode(self) -> u32 {
        match self {
            Vector::Undefined => 0x1b,
            Vector::SupervisorCall => 0x13,
            Vector::PrefetchAbort | Vector::DataAbort => 0x17,
        }
    }
}

fn bank(mode: u32) -> Option<usize> {
    MODES.iter().position(|&banked| banked == mode).map(|n| BANKS + 3 * n)
}

/// The CPSR of a machine.
pub fn cpsr(machine: &Machine) -> u32 {
    machine.psr | machine.mode | machine.supervisor.map_or(0, |supervisor| supervisor.masks)
}

impl Record {
    /// Puts in what the model has; the rest stays.
    pub fn set_machine(&mut self, machine: &Machine) {
        let words = &mut self.0;
        words[..13].copy_from_slice(&machine.r[..13]);
        match bank(machine.mode) {
            Some(bank) => words[bank..bank + 2].copy_from_slice(&machine.r[13..]),
            None => words[USER..USER + 2].copy_from_slice(&machine.r[13..]),
        }
        (words[START], words[CPSR]) = (machine.pc, cpsr(machine));
        words[CPACR] = 0x00f0_0000;
        words[FPEXC] = if machine.vfp_on { EN } else { 0 };
        words[THREAD..THREAD + 2].copy_from_slice(&machine.thread);
        words[VFP..].copy_from_slice(&machine.vfp);
        // The model comes to System mode from Supervisor mode alone.
        let system = machine.mode == model::SYSTEM_MODE;
        let with_spsr = if system { model::SUPERVISOR_MODE } else { machine.mode };
        let (Some(supervisor), Some(bank)) = (machine.supervisor, bank(with_spsr)) else { return };
        words[bank + 2] = supervisor.spsr;
        let other = if system { bank } else { USER };
        words[other..other + 2].copy_from_slice(&supervisor.banked);
        words[CPACR] = if supervisor.vfp_denied { 0 } else { 0x00f0_0000 };
        (words[FPEXC], words[TEEHBR]) = (supervisor.fpexc, supervisor.teehbr);
        words[THREAD + 2] = supervisor.thread_private;
        let system = &supervisor.system;
        (words[DFSR], words[IFSR]) = (system[model::DFSR], system[model::IFSR]);
        (words[DFAR], words[IFAR]) = (system[model::DFAR], system[model::IFAR]);
        (words[TTBR1], words[CONTEXTIDR]) = (system[model::TTBR1], system[model::CONTEXTIDR]);
        words[DACR] = system[model::DACR];
    }

    /// For a random record: what must not be random in it.
    pub fn make_legal(&mut self) {
        for n in 0..MODES.len() {
            self.0[BANKS + 3 * n + 2] &= !RESERVED;
        }
        (self.0[DACR], self.0[FPSCR]) = (1, 0);
        self.0[TEEHBR] &= !3;
        self.0[PATCHES..FPSCR].fill(0);
    }

    /// The stepper writes this word to this physical address before it starts: behind the patch of [`Self::add_patch`].
    pub fn set_marker(&mut self, address: u32, word: u32) {
        self.0[PATCHES + 2..][..2].copy_from_slice(&[address, word]);
    }

    /// What [`Self::set_marker`] was given.
    pub fn marker(&self) -> u32 {
        self.0[PATCHES + 3]
    }

    /// The stepper writes this word, too, if there is one, before that of the marker.
    pub fn add_patch(&mut self, patch: Option<(u32, u32)>) {
        let (address, word) = patch.unwrap_or((0, 0));
        self.0[PATCHES..][..2].copy_from_slice(&[address, word]);
    }

    /// Takes an exception that returns to `lr` (B1.8.3).
    pub fn take(&mut self, vector: Vector, machine: &Machine, lr: u32) {
        let bank = bank(vector.mode()).expect("a mode with a bank");
        (self.0[bank + 1], self.0[bank + 2]) = (lr, cpsr(machine));
        self.0[START] = vector as u32;
    }

    /// A data abort's status and address (B3.13, B4.1.51, B4.1.52).
    pub fn data_abort(&mut self, status: u32, write: bool, address: u32) {
        (self.0[DFSR], self.0[DFAR]) = (status | u32::from(write) << 11, address);
    }

    /// A prefetch abort's (B4.1.95, B4.1.96).
    pub fn prefetch_abort(&mut self, status: u32, address: u32) {
        (self.0[IFSR], self.0[IFAR]) = (status, address);
    }

    /// Where register `n` of a mode is.
    pub fn register(mode: u32, n: u32) -> usize {
        match (n, bank(mode)) {
            (13 | 14, Some(bank)) => bank + n as usize - 13,
            _ => n as usize,
        }
    }

    /// The words in which `self` is not as it should be; `unknown` says which bits do not count.
    pub fn differences(&self, expected: &Record, unknown: impl Fn(usize) -> u32) -> Vec<String> {
        (0..WORDS)
            .filter(|n| !(CPSR..=CPACR).contains(n) && !(PATCHES..FPSCR).contains(n))
            .filter(|&n| (self.0[n] ^ expected.0[n]) & !unknown(n) != 0)
            .map(|n| format!("{}: {:#x}, expected {:#x}", name(n), self.0[n], expected.0[n]))
            .collect()
    }
}

/// What a word of a record is, for people.
fn name(n: usize) -> String {
    const BANKED: [&str; 3] = ["SP", "LR", "SPSR"];
    const OF: [&str; 4] = ["svc", "abt", "und", "irq"];
    const SYSTEM: [&str; 17] = [
        "vector",
        "CPSR",
        "CPACR",
        "FPEXC",
        "TPIDRURW",
        "TPIDRURO",
        "TPIDRPRW",
        "DFSR",
        "IFSR",
        "DFAR",
        "IFAR",
        "TTBR1",
        "CONTEXTIDR",
        "DACR",
        "TEEHBR",
        "",
        "",
    ];
    match n {
        0..USER => format!("R{n}"),
        USER..BANKS => format!("{}_usr", BANKED[n - USER]),
        BANKS..START => format!("{}_{}", BANKED[(n - BANKS) % 3], OF[(n - BANKS) / 3]),
        START..FPSCR => SYSTEM[(n - START).min(16)].into(),
        FPSCR => "FPSCR".into(),
        _ => format!("S{} or D{}", n.saturating_sub(VFP), n.saturating_sub(VFP) / 2),
    }
}

/// What stands where a piece of code is to end: an exception that does not touch the mode's own registers. Thumb code
/// ends at half of it.
pub fn marker(machine: &Machine, old: u32) -> (u32, Vector) {
    let (word, half, vector) = match machine.mode {
        0x1b => (0xefab_cdef, 0xdfde, Vector::SupervisorCall),
        _ => (0xe7f1_def1, 0xdede, Vector::Undefined),
    };
    match (machine.psr & T != 0, machine.pc & 2 != 0) {
        (false, _) => (word, vector),
        (true, false) => (old & 0xffff_0000 | half, vector),
        (true, true) => (old & 0xffff | half << 16, vector),
    }
}

/// What code can tell of the state in which it ended, wherever and with whatever privilege it ran.
pub struct Seen {
    vector: u32,
    /// R0 to R14.
    r: [u32; 15],
    /// Of the exception: how far behind the start it returns to, flags, and what changed of mode and masks.
    behind: u32,
    flags: u32,
    status: u32,
    /// FPEXC to TEEHBR, but for the addresses of prefetch aborts.
    system: Vec<u32>,
    vfp: Vec<u32>,
}

impl Record {
    /// Of a record that a piece left, with that from which it began.
    pub fn seen(&self, before: &Record) -> Seen {
        let words = &self.0;
        let mode = before.0[CPSR] & 0x1f;
        let mut r = [0; 15];
        for n in 0..15 {
            r[n as usize] = words[Record::register(mode, n)];
        }
        let taken = match words[START] {
            1 => 0x1b,
            2 => 0x13,
            _ => 0x17,
        };
        let at = bank(taken).expect("a mode with a bank");
        let cpsr = words[at + 2];
        let mut system = words[FPEXC..PATCHES].to_vec();
        if words[START] == Vector::PrefetchAbort as u32 {
            system[IFAR - FPEXC] = system[IFAR - FPEXC].wrapping_sub(before.0[START]);
        }
        Seen {
            vector: words[START],
            r,
            behind: words[at + 1].wrapping_sub(before.0[START]),
            flags: cpsr & !0x1df,
            status: (cpsr ^ before.0[CPSR]) & 0x1df,
            system,
            vfp: words[FPSCR..].iter().enumerate().filter(|(n, _)| *n != 1).map(|(_, word)| *word).collect(),
        }
    }

    /// FPSCR.
    pub fn set_status(&mut self, fpscr: u32) {
        self.0[FPSCR] = fpscr;
    }
}

impl Seen {
    /// Whether it ended where it was to, as far as that can be told: with an undefined instruction.
    pub fn is_marker(&self) -> bool {
        self.vector == Vector::Undefined as u32
    }

    /// In what the two differ.
    pub fn differences(&self, other: &Seen) -> Vec<String> {
        let mut all = Vec::new();
        let mut compare = |what: &str, one: &[u32], other: &[u32]| {
            for (n, (one, other)) in one.iter().zip(other).enumerate().filter(|(_, (one, other))| one != other) {
                all.push(format!("{what}[{n}]: {one:#x}, expected {other:#x}"));
            }
        };
        compare("vector", &[self.vector], &[other.vector]);
        compare("R", &self.r, &other.r);
        compare("LR of the exception", &[self.behind], &[other.behind]);
        compare("flags", &[self.flags], &[other.flags]);
        compare("mode or masks", &[self.status], &[other.status]);
        compare("FPEXC to TEEHBR", &self.system, &other.system);
        compare("FPSCR and VFP", &self.vfp, &other.vfp);
        all
    }
}
