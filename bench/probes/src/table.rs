//! All probes, by their names.
//!
//! The first ones are the shortest: whatever happens once in a boot has happened when it comes to the others. Sizes are
//! chosen where published measurements have them: powers of two, and the stride of 128 bytes of Texas Instruments'
//! tables of `lat_mem_rd`.

use crate::{Kind, Probe};

const KIB: u32 = 1 << 10;

const fn probe(name: &'static str, kind: Kind) -> Probe {
    Probe { name, kind }
}

const fn chase(kib: u32, stride: u32, shuffled: bool) -> Kind {
    Kind::Chase { bytes: kib * KIB, stride, shuffled }
}

const fn taken(count: u32, spacing: u32) -> Kind {
    Kind::Taken { count, spacing }
}

/// The probe of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Probe> {
    PROBES.iter().find(|p| p.name == name)
}

/// All of them.
pub const PROBES: &[Probe] = &[
    probe("probe-add", Kind::Instruction { word: 0xe082_2002 }), // add r2, r2, r2
    probe("probe-multiply", Kind::Instruction { word: 0xe002_0392 }), // mul r2, r2, r3
    probe("probe-nop", Kind::Instruction { word: 0xe320_f000 }),
    probe("probe-tpidruro", Kind::Instruction { word: 0xee1d_2f70 }), // mrc p15, 0, r2, c13, c0, 3
    probe("probe-dmb", Kind::Instruction { word: 0xf57f_f05f }),
    probe("probe-dsb", Kind::Instruction { word: 0xf57f_f04f }),
    probe("probe-isb", Kind::Instruction { word: 0xf57f_f06f }),
    probe("probe-load-64-4k", chase(4, 64, false)),
    probe("probe-load-64-16k", chase(16, 64, false)),
    probe("probe-load-64-32k", chase(32, 64, false)),
    probe("probe-load-64-48k", chase(48, 64, false)),
    probe("probe-load-64-64k", chase(64, 64, false)),
    probe("probe-load-64-128k", chase(128, 64, false)),
    probe("probe-load-64-192k", chase(192, 64, false)),
    probe("probe-load-64-256k", chase(256, 64, false)),
    probe("probe-load-64-384k", chase(384, 64, false)),
    probe("probe-load-64-512k", chase(512, 64, false)),
    probe("probe-load-64-1m", chase(1024, 64, false)),
    probe("probe-load-64-2m", chase(2048, 64, false)),
    probe("probe-load-64-8m", chase(8192, 64, false)),
    probe("probe-load-32-16k", chase(16, 32, false)),
    probe("probe-load-32-64k", chase(64, 32, false)),
    probe("probe-load-32-128k", chase(128, 32, false)),
    probe("probe-load-32-512k", chase(512, 32, false)),
    probe("probe-load-32-8m", chase(8192, 32, false)),
    probe("probe-load-128-32k", chase(32, 128, false)),
    probe("probe-load-128-64k", chase(64, 128, false)),
    probe("probe-load-128-128k", chase(128, 128, false)),
    probe("probe-load-128-256k", chase(256, 128, false)),
    probe("probe-load-128-512k", chase(512, 128, false)),
    probe("probe-load-128-1m", chase(1024, 128, false)),
    probe("probe-load-4096-64k", chase(64, 4096, false)),
    probe("probe-load-4096-256k", chase(256, 4096, false)),
    probe("probe-load-4096-1m", chase(1024, 4096, false)),
    probe("probe-load-4096-8m", chase(8192, 4096, false)),
    probe("probe-random-32k", chase(32, 64, true)),
    probe("probe-random-64k", chase(64, 64, true)),
    probe("probe-random-128k", chase(128, 64, true)),
    probe("probe-random-256k", chase(256, 64, true)),
    probe("probe-random-512k", chase(512, 64, true)),
    probe("probe-random-1m", chase(1024, 64, true)),
    probe("probe-random-4m", chase(4096, 64, true)),
    probe("probe-pages-8", Kind::Pages { count: 8 }),
    probe("probe-pages-16", Kind::Pages { count: 16 }),
    probe("probe-pages-24", Kind::Pages { count: 24 }),
    probe("probe-pages-32", Kind::Pages { count: 32 }),
    probe("probe-pages-40", Kind::Pages { count: 40 }),
    probe("probe-pages-48", Kind::Pages { count: 48 }),
    probe("probe-pages-64", Kind::Pages { count: 64 }),
    probe("probe-pages-96", Kind::Pages { count: 96 }),
    probe("probe-pages-128", Kind::Pages { count: 128 }),
    probe("probe-pages-160", Kind::Pages { count: 160 }),
    probe("probe-pages-192", Kind::Pages { count: 192 }),
    probe("probe-pages-256", Kind::Pages { count: 256 }),
    probe("probe-pages-512", Kind::Pages { count: 512 }),
    probe("probe-store-16k", Kind::Stores { bytes: 16 * KIB }),
    probe("probe-store-128k", Kind::Stores { bytes: 128 * KIB }),
    probe("probe-store-1m", Kind::Stores { bytes: 1024 * KIB }),
    probe("probe-store-4m", Kind::Stores { bytes: 4096 * KIB }),
    probe("probe-not-taken", Kind::NotTaken),
    probe("probe-taken-8-16", taken(16, 8)),
    probe("probe-taken-8-64", taken(64, 8)),
    probe("probe-taken-8-128", taken(128, 8)),
    probe("probe-taken-8-256", taken(256, 8)),
    probe("probe-taken-8-384", taken(384, 8)),
    probe("probe-taken-8-512", taken(512, 8)),
    probe("probe-taken-8-768", taken(768, 8)),
    probe("probe-taken-8-1024", taken(1024, 8)),
    probe("probe-taken-8-2048", taken(2048, 8)),
    probe("probe-taken-64-16", taken(16, 64)),
    probe("probe-taken-64-64", taken(64, 64)),
    probe("probe-taken-64-128", taken(128, 64)),
    probe("probe-taken-64-256", taken(256, 64)),
    probe("probe-taken-64-512", taken(512, 64)),
    probe("probe-pattern-2", Kind::Pattern { bits: 0xaaaa_aaaa }),
    probe("probe-pattern-4", Kind::Pattern { bits: 0x8888_8888 }),
    probe("probe-pattern-8", Kind::Pattern { bits: 0x8080_8080 }),
    probe("probe-pattern-16", Kind::Pattern { bits: 0x8000_8000 }),
    probe("probe-pattern-32", Kind::Pattern { bits: 0x8000_0000 }),
    probe("probe-pattern-random", Kind::Random),
    probe("probe-indirect-1", Kind::Indirect { targets: 1 }),
    probe("probe-indirect-2", Kind::Indirect { targets: 2 }),
    probe("probe-indirect-4", Kind::Indirect { targets: 4 }),
    probe("probe-indirect-8", Kind::Indirect { targets: 8 }),
    probe("probe-calls-1", Kind::Calls { depth: 1 }),
    probe("probe-calls-2", Kind::Calls { depth: 2 }),
    probe("probe-calls-4", Kind::Calls { depth: 4 }),
    probe("probe-calls-6", Kind::Calls { depth: 6 }),
    probe("probe-calls-7", Kind::Calls { depth: 7 }),
    probe("probe-calls-8", Kind::Calls { depth: 8 }),
    probe("probe-calls-9", Kind::Calls { depth: 9 }),
    probe("probe-calls-10", Kind::Calls { depth: 10 }),
    probe("probe-calls-12", Kind::Calls { depth: 12 }),
    probe("probe-calls-16", Kind::Calls { depth: 16 }),
    probe("probe-calls-24", Kind::Calls { depth: 24 }),
    probe("probe-system-call", Kind::SystemCall),
];
