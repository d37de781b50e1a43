//! Attacks: bare-metal guests of `tests/bare` that do to others what they can. Tests run each beside guests that must
//! not notice; `spica bench --workload 'latency/*'` measures how late one is woken meanwhile.

use crate::bare::Part;

/// An attack.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// Its name.
    pub name: &'static str,
    // Guest, number and parameters, and what the guest needs in the manifest.
    guest: &'static str,
    number: u32,
    parameters: [u32; 2],
    needs: &'static [(&'static str, &'static str)],
    /// It goes on for ever.
    pub endless: bool,
    /// What attacks runs in place: all else does so only where it can be told from data.
    pub in_place: bool,
}

/// Attack `number` of a guest.
const fn attack(name: &'static str, guest: &'static str, number: u32) -> Attack {
    Attack { name, guest, number, parameters: [0; 2], needs: &[], endless: false, in_place: false }
}

impl Attack {
    /// A guest that only computes.
    pub const COMPUTING: Self =
        Self { parameters: [10_000, 10_000], ..attack("nothing but computing", "spin", 0) }.endless();

    const fn with(self, first: u32, second: u32) -> Self {
        Self { parameters: [first, second], ..self }
    }

    const fn endless(self) -> Self {
        Self { endless: true, ..self }
    }

    const fn needs(self, needs: &'static [(&'static str, &'static str)]) -> Self {
        Self { needs, ..self }
    }

    const fn in_place(self) -> Self {
        Self { in_place: true, ..self }
    }

    /// Its guest's parameters, with random numbers from `seed` on (0: where they always begin).
    #[must_use]
    pub const fn parameters(&self, seed: u32) -> [u32; 6] {
        [self.number, self.parameters[0], self.parameters[1], 0, 0, seed]
    }

    /// Its guest, with these parameters.
    #[must_use]
    pub fn part<'a>(&self, name: &'a str, parameters: &'a [u32]) -> Part<'a> {
        let part = Part::new(name, self.guest, parameters);
        self.needs.iter().fold(part, |part, (key, value)| part.with(key, value))
    }
}

/// A disk of its own, a console and a balloon.
const OTHERS: &[(&str, &str)] = &[("disks", "[{ file = \"blank.img\" }]"), ("console", "true"), ("balloon", "true")];

/// Its kernel runs in place, where RAM begins; and, as the board's command line says, from its first instruction on.
const IN_PLACE: &[(&str, &str)] = &[("engine", "\"in-place@0x40000000\"")];

/// All of them, by what they attack.
pub const ATTACKS: &[(&str, &[Attack])] = &[
    (
        "code cache and vCPU page",
        &[
            attack("words of the vCPU page", "hostile", 1),
            attack("distances in the vCPU page", "hostile", 2),
            attack("branches, loads and stores in the hypervisor region, MMU off", "hostile", 3),
            attack("the same, MMU on", "hostile", 3).with(1, 0),
            attack("stores to all of Spica's places", "assault", 0),
            attack("jumps to all of Spica's places", "assault", 1),
            attack("forged returns", "assault", 2).with(1000, 0),
        ],
    ),
    ("forged returns", &[attack("forged returns, more of them", "assault", 2).with(4000, 0)]),
    (
        "supervisor calls",
        &[
            attack("numbers that Spica uses", "hostile", 4),
            attack("random numbers, with a return mirror", "assault", 9),
        ],
    ),
    (
        "translation tables",
        &[
            attack("random tables", "hostile", 6),
            attack("tables that are nowhere", "hostile", 7),
            attack("changes of spaces, maintenance", "hostile", 8),
            attack("tables that map nothing", "hostile", 18),
            attack("RAM at Spica's image", "hostile", 5).with(0xf600_0000, 0),
            attack("RAM at the code cache", "hostile", 5).with(0xf180_0000, 0),
            attack("all physical memory", "assault", 3),
            attack("changes without maintenance", "assault", 4),
        ],
    ),
    (
        "devices",
        &[
            attack("every offset", "hostile", 11),
            attack("virtio: random bytes", "assault", 5).needs(&[("rng", "true")]),
            attack("virtio: network", "assault", 5).needs(&[("networks", "[\"lan\"]")]),
            attack("virtio: random bytes, all others", "assault", 5).needs(OTHERS),
            attack("virtio: requests", "rings", 0).needs(&[("rng", "true"), ("networks", "[\"lan\"]")]),
            attack("virtio: requests, all others", "rings", 0).needs(OTHERS),
            attack("the interrupt controller", "assault", 6),
            attack("coprocessors", "hostile", 12),
            attack("the firmware", "hostile", 10),
            attack("the firmware: suspends", "assault", 7),
        ],
    ),
    (
        "storms",
        &[
            attack("aborts", "hostile", 9),
            attack("more code than there is room for", "hostile", 14),
            attack("code that rewrites itself", "hostile", 15),
            attack("vectors that raise exceptions", "hostile", 17).endless(),
            attack("an interrupt that is never served", "hostile", 21).endless(),
            attack("masked for ever, spinning", "hostile", 20).endless(),
            attack("masked for ever, with costly operations", "assault", 8).endless(),
        ],
    ),
    (
        "states",
        &[
            attack("status registers", "hostile", 13),
            attack("no vectors", "hostile", 16),
            attack("Thumb", "hostile", 22),
            attack("big-endian data", "hostile", 24),
            attack("user code", "hostile", 27),
        ],
    ),
    (
        "in place",
        &[
            attack("in place: runs, stubs, data, rewritten", "assault", 10).needs(IN_PLACE).in_place(),
            attack("in place: a jump behind the stubs", "assault", 11).needs(IN_PLACE).in_place(),
            attack("in place: code that rewrites itself", "hostile", 15).with(1, 0).needs(IN_PLACE).in_place(),
            attack("in place: RAM at the stubs", "hostile", 5).with(0x3fa0_0000, 0).needs(IN_PLACE),
        ],
    ),
    (
        "in place, what others have by blocks",
        &[
            attack("in place: stores to all of Spica's places", "assault", 0).needs(IN_PLACE),
            attack("in place: jumps to all of Spica's places", "assault", 1).needs(IN_PLACE),
            attack("in place: numbers that Spica uses", "hostile", 4).with(1, 0).needs(IN_PLACE),
            attack("in place: random tables", "hostile", 6).needs(IN_PLACE),
            attack("in place: more code than there is room for", "hostile", 14).with(1, 0).needs(IN_PLACE),
        ],
    ),
];

/// A siege: an attack, and one of the attacker's counters that shows that it was one, with what that has at least.
pub type Siege = (Attack, &'static str, u64);

/// All of them (`siege.S`).
pub const SIEGES: &[Siege] = &[
    (attack("TLB maintenance with junk in its operands", "siege", 0), "trap.branch.unlinked", 10),
    (
        attack("pages that write to themselves", "siege", 1).with(98_000, 0).needs(&[("memory", "\"400M\"")]),
        "translator.blocks",
        196_000,
    ),
    (attack("exits linked to one block", "siege", 2), "translator.links", 80_000),
    (attack("console output", "siege", 3).with(0x8000, 0).needs(&[("console", "true")]).endless(), "trap.mmio", 20),
    (
        attack("TLB maintenance with many pages of code", "siege", 4).with(8_000, 0).needs(&[("memory", "\"64M\"")]),
        "translator.blocks-now",
        8_000,
    ),
    (attack("system control with many blocks", "siege", 5).with(51_000, 0), "translator.links", 51_000),
    (
        attack("resets with a full balloon", "giver", 0)
            .with(30_000, 0)
            .needs(&[("memory", "\"128M\""), ("balloon", "true")])
            .endless(),
        "guest.resets",
        3,
    ),
    (attack("tables to nowhere in the hypervisor region", "siege", 6).with(0, 0), "mmu.invalidate-all", 2_000),
    (attack("empty tables in the hypervisor region", "siege", 6).with(1, 0), "mmu.invalidate-all", 2_000),
    (attack("pages that are nowhere in the hypervisor region", "siege", 6).with(2, 0), "mmu.invalidate-all", 2_000),
    (attack("sections that are nowhere in the hypervisor region", "siege", 6).with(3, 0), "mmu.invalidate-all", 2_000),
];

/// Floods (`flood.S`), which ask of Spica as much as they can.
pub const FLOODS: &[Attack] = &[
    attack("flood: page tables", "flood", 1).endless(),
    attack("flood: TLB maintenance", "flood", 2).endless(),
    attack("flood: address spaces", "flood", 3).endless(),
    attack("flood: device registers", "flood", 4).endless(),
    attack("flood: virtio, random bytes", "flood", 5).needs(&[("rng", "true")]).endless(),
    attack("flood: virtio, frames", "flood", 6).needs(&[("networks", "[\"lan\"]")]).endless(),
    attack("flood: code cache", "flood", 7).endless(),
    attack("flood: code that changes", "flood", 8).endless(),
    attack("flood: exceptions", "flood", 9).endless(),
    attack("flood: resets", "flood", 10).endless(),
    attack("flood: output", "flood", 12).endless(),
];
