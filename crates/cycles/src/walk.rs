//! Translation tables (short descriptors, B3.5), read as the core's walker reads them.

/// The board's memory.
pub trait Memory {
    /// The word at a physical address; nothing if there is no memory.
    fn word(&self, physical: u32) -> Option<u32>;
}

/// The registers of CP15 that say how addresses are translated. All zero is a core after reset.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[expect(missing_docs, reason = "the manual's names")]
pub struct Registers {
    pub sctlr: u32,
    pub ttbr0: u32,
    pub ttbr1: u32,
    pub ttbcr: u32,
    pub contextidr: u32,
    pub prrr: u32,
    pub nmrr: u32,
}

/// SCTLR.M, C, Z, I and TRE (B4.1.130).
const MMU: u32 = 1;
const DATA_CACHE: u32 = 1 << 2;
const PREDICTION: u32 = 1 << 11;
const INSTRUCTION_CACHE: u32 = 1 << 12;
const REMAP: u32 = 1 << 28;

impl Registers {
    /// Whether addresses are translated.
    #[must_use]
    pub const fn translates(&self) -> bool {
        self.sctlr & MMU != 0
    }

    /// Whether data is cached.
    #[must_use]
    pub const fn caches_data(&self) -> bool {
        self.sctlr & DATA_CACHE != 0
    }

    /// Whether instructions are cached.
    #[must_use]
    pub const fn caches_instructions(&self) -> bool {
        self.sctlr & INSTRUCTION_CACHE != 0
    }

    /// Whether branches are predicted.
    #[must_use]
    pub const fn predicts(&self) -> bool {
        self.sctlr & PREDICTION != 0
    }

    /// The address space that runs.
    #[must_use]
    pub const fn asid(&self) -> u8 {
        self.contextidr as u8
    }

    /// Whether walks of the tables that an address is looked up in may be answered by the inner cache (TTBR.IRGN,
    /// with the multiprocessing extensions' encoding, B4.1.154).
    #[must_use]
    pub fn walks_cached(&self, address: u32) -> bool {
        self.base(address).0 & 0x41 != 0
    }

    /// The translation base register for an address, and the bits of the address that choose in the first table.
    fn base(&self, address: u32) -> (u32, u32) {
        let n = self.ttbcr & 7;
        if n != 0 && address >> (32 - n) != 0 { (self.ttbr1, 0) } else { (self.ttbr0, n) }
    }

    /// Whether memory of these attributes (TEX, C, B) is memory at all, and not a device; and whether it is cached.
    fn attributes(&self, tex: u32, cb: u32) -> (bool, bool) {
        if self.sctlr & REMAP != 0 {
            let n = (tex & 1) << 2 | cb;
            let normal = self.prrr >> (2 * n) & 3 == 2;
            return (normal, normal && self.nmrr >> (2 * n) & 3 != 0);
        }
        match (tex, cb) {
            (0, 0 | 1) | (2, _) => (false, false),
            (0, _) | (1, 3) => (true, true),
            (1, _) => (true, false),
            (_, inner) => (true, inner != 0),
        }
    }
}

/// A translation, as a TLB holds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Translation {
    /// Where it begins.
    pub address: u32,
    /// The logarithm of its size.
    pub size_shift: u32,
    /// Where it leads.
    pub physical: u32,
    /// The address space that it is of; nothing if it is of all.
    pub asid: Option<u8>,
    /// Whether what is there may be cached.
    pub cached: bool,
    /// Whether it is memory, and not a device.
    pub memory: bool,
    /// Who may do what there.
    pub rights: Rights,
}

/// Permissions, as a descriptor has them. Time does not depend on them: what is executed was allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rights {
    /// The domain.
    pub domain: u8,
    /// AP\[2:0\].
    pub ap: u8,
    /// Whether instructions may not be fetched.
    pub never_executed: bool,
}

impl Rights {
    /// Of the descriptor that maps something: AP\[1:0\], AP\[2\] and XN are from these bits on; and of the first one,
    /// which has the domain.
    const fn of(descriptor: u32, first: u32, ap: u32, ap2: u32, xn: u32) -> Rights {
        Rights {
            domain: (first >> 5 & 0xf) as u8,
            ap: (descriptor >> ap & 3 | (descriptor >> ap2 & 1) << 2) as u8,
            never_executed: descriptor >> xn & 1 != 0,
        }
    }
}

impl Translation {
    /// Whether it is the translation of an address in an address space.
    #[must_use]
    pub fn covers(&self, address: u32, asid: u8) -> bool {
        (address ^ self.address) >> self.size_shift == 0 && self.asid.is_none_or(|a| a == asid)
    }

    /// Where an address leads that it covers.
    #[must_use]
    pub const fn physical(&self, address: u32) -> u32 {
        self.physical | address & ((1 << self.size_shift) - 1)
    }

    /// What is when nothing is translated: addresses are physical. Instructions may be cached then, data is not.
    #[must_use]
    pub const fn flat(address: u32, cached: bool) -> Translation {
        let page = address & !0xfff;
        let rights = Rights { domain: 0, ap: 3, never_executed: false };
        Translation { address: page, size_shift: 12, physical: page, asid: None, cached, memory: true, rights }
    }
}

/// Looks an address up. `read` hears of the physical address of each descriptor that is read.
///
/// Nothing is found where the tables have nothing: the access faults. Permissions and domains are not checked.
pub fn walk(
    registers: &Registers,
    memory: &impl Memory,
    address: u32,
    mut read: impl FnMut(u32),
) -> Option<Translation> {
    let mut descriptor = |at: u32| {
        read(at);
        memory.word(at)
    };
    let (base, n) = registers.base(address);
    let table = base & (u32::MAX << (14 - n));
    let index = (address << n) >> n >> 20;
    let first = descriptor(table | index << 2)?;
    let asid = |not_global: bool| not_global.then(|| registers.asid());
    let entry = |size_shift: u32, physical: u32, tex: u32, cb: u32, not_global: bool, rights: Rights| {
        let (memory, cached) = registers.attributes(tex, cb);
        let cut = u32::MAX << size_shift;
        let (address, physical) = (address & cut, physical & cut);
        Some(Translation { address, size_shift, physical, asid: asid(not_global), cached, memory, rights })
    };
    match first & 3 {
        1 => {
            let second = descriptor(first & !0x3ff | (address >> 12 & 0xff) << 2)?;
            let not_global = second & 1 << 11 != 0;
            match second & 3 {
                0 => None,
                1 => {
                    let rights = Rights::of(second, first, 4, 9, 15);
                    entry(16, second, second >> 12 & 7, second >> 2 & 3, not_global, rights)
                }
                _ => {
                    let rights = Rights::of(second, first, 4, 9, 0);
                    entry(12, second, second >> 6 & 7, second >> 2 & 3, not_global, rights)
                }
            }
        }
        2 | 3 => {
            let not_global = first & 1 << 17 != 0;
            let mut rights = Rights::of(first, first, 10, 15, 4);
            let mut size_shift = 20;
            if first & 1 << 18 != 0 {
                // Supersections are of domain 0.
                (size_shift, rights.domain) = (24, 0);
            }
            entry(size_shift, first, first >> 12 & 7, first >> 2 & 3, not_global, rights)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    impl Memory for BTreeMap<u32, u32> {
        fn word(&self, physical: u32) -> Option<u32> {
            self.get(&physical).copied()
        }
    }

    #[test]
    fn pages_sections_and_faults() {
        let registers = Registers { ttbr0: 0x4000_404a, contextidr: 0x705, sctlr: MMU, ..Registers::default() };
        let memory: BTreeMap<u32, u32> = [
            (0x4000_4000, 0x4001_0001),               // a table for the first MiB
            (0x4001_0004, 0x4123_4000 | 0x802 | 0xc), // page 1: not global, write-back
            (0x4001_0040, 0x4765_0000 | 0x1),         // a large page at 64 KiB: strongly ordered
            (0x4000_4004, 0x4ab0_0000 | 0xe),         // a section
            (0x4000_4040, 0x4d00_0000 | 0x4_0002),    // a supersection
        ]
        .into();
        let mut reads = Vec::new();
        let page = walk(&registers, &memory, 0x1abc, |a| reads.push(a)).unwrap();
        assert_eq!((page.physical(0x1abc), page.asid, page.cached, page.memory), (0x4123_4abc, Some(5), true, true));
        assert_eq!(reads, [0x4000_4000, 0x4001_0004]);
        let large = walk(&registers, &memory, 0x1_0fff, |_| ()).unwrap();
        assert_eq!((large.physical(0x1_0fff), large.asid, large.memory), (0x4765_0fff, None, false));
        let section = walk(&registers, &memory, 0x12_3456, |_| ()).unwrap();
        assert_eq!((section.physical(0x12_3456), section.size_shift), (0x4ab2_3456, 20));
        let large = walk(&registers, &memory, 0x0100_0000, |_| ()).unwrap();
        assert_eq!((large.physical(0x01ff_0000), large.size_shift), (0x4dff_0000, 24));
        assert_eq!(walk(&registers, &memory, 0x2000, |_| ()), None);
        assert_eq!(walk(&registers, &memory, 0x0030_0000, |_| ()), None);
    }

    #[test]
    fn the_second_base_register_serves_the_upper_half() {
        let registers = Registers { ttbr0: 0x1000_2000, ttbr1: 0x2000_4000, ttbcr: 1, ..Registers::default() };
        let memory: BTreeMap<u32, u32> = [(0x1000_3ffc, 0x5000_000e), (0x2000_6000, 0x6000_000e)].into();
        assert_eq!(walk(&registers, &memory, 0x7ff0_0000, |_| ()).unwrap().physical, 0x5000_0000);
        assert_eq!(walk(&registers, &memory, 0x8000_0000, |_| ()).unwrap().physical, 0x6000_0000);
    }

    #[test]
    fn attributes_are_remapped_as_linux_does() {
        // Linux's PRRR and NMRR: index 0 strongly ordered, 1 uncached, 2 write-through, 3 write-back, 4 device, 7
        // write-back.
        let registers = Registers { sctlr: MMU | REMAP, prrr: 0xff0a_81a8, nmrr: 0x40e0_40e0, ..Registers::default() };
        let all: Vec<_> = (0..8).map(|n| registers.attributes(n >> 2, n & 3)).collect();
        assert_eq!(all[0], (false, false));
        assert_eq!(all[1], (true, false));
        assert_eq!(all[3], (true, true));
        assert_eq!(all[4], (false, false));
        assert_eq!(all[7], (true, true));
    }
}
