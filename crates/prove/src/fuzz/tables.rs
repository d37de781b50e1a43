//! Guest translation tables.

use super::bytes::Bytes;
use crate::mmu::model::{self, KINDS, Memory};
use spica_addr::GuestVa;
use spica_mmu::{Access, AccessKind, Regime, translate};

const RAM: u32 = 0x4000_0000;
const RAM_BYTES: u32 = 0x10_0000;

/// See [`super::TARGETS`].
pub fn walk(data: &[u8]) {
    let bytes = &mut Bytes::new(data);
    let mut memory = Memory { ram: vec![(RAM, RAM_BYTES)], ..Memory::default() };
    let regime = Regime {
        sctlr: bytes.word() | 1,
        ttbr0: RAM + (bytes.word() & (RAM_BYTES - 1)),
        ttbr1: RAM + (bytes.word() & (RAM_BYTES - 1)),
        ttbcr: u32::from(bytes.byte() & 0x37),
        tops: [0; 2],
        dacr: bytes.word(),
        prrr: bytes.word(),
        nmrr: bytes.word(),
        asid: bytes.byte(),
        pxn: bytes.bit(),
    };
    for _ in 0..16 {
        if bytes.is_empty() {
            break;
        }
        let va = bytes.word();
        // Where a walk for that address looks first, and where that leads.
        let n = regime.ttbcr & 7;
        let lower = n == 0 || va >> (32 - n) == 0;
        let root = if lower { regime.ttbr0 >> (14 - n) << (14 - n) } else { regime.ttbr1 & !0x3fff };
        let mut put = |at: u32, word: u32| {
            if memory.is_ram(at & !3) {
                memory.write(at & !3, if regime.sctlr >> 25 & 1 != 0 { word.swap_bytes() } else { word });
            }
        };
        let first = bytes.word();
        put(root.wrapping_add(va >> 20 << 2), first);
        put((first & !0x3ff) | (va >> 12 & 0xff) << 2, bytes.word());
        for kind in KINDS {
            for privileged in [false, true] {
                let ours = translate(&memory, &regime, GuestVa(va), Access { kind, privileged });
                let context = format!("{va:#x} {kind:?} privileged={privileged} {regime:x?}");
                match (ours, model::translate(&memory, &regime, va, kind, privileged)) {
                    (Ok(mapping), Ok(entry)) => assert_eq!(mapping.pa.0, entry.pa, "{context}"),
                    (Err(fault), Err(expected)) => {
                        let write = kind == AccessKind::Write;
                        assert_eq!(fault.fsr(write), model::dfsr(&expected, write), "{context}");
                    }
                    (ours, models) => panic!("{context}: {ours:?}, but the model says {models:?}"),
                }
            }
        }
    }
}

/// Descriptors of all kinds.
pub fn seeds() -> Vec<Vec<u8>> {
    super::code::noise(8, 200)
}
