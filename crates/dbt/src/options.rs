//! Which translation is used for each class of instruction: every optimisation has its switch.

macro_rules! options {
    ($($(#[doc = $doc:literal])+ $field:ident: $name:literal = $all:literal,)+) => {
        /// The switches. [`Options::naive`] is the translator of STAR §3, where every row of its Table 1 traps.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct Options {
            $($(#[doc = $doc])+ pub $field: bool,)+
            /// Where registers are spilled to.
            pub spill: Spill,
            /// The most guest instructions in a block.
            pub max_block: usize,
            /// The core has TEEHBR.
            pub thumbee: bool,
            /// The guest has given itself access to VFP's system registers (CPACR).
            pub vfp: bool,
            /// The core's TPIDRURW has the guest's TPIDRURO while its kernel runs: see [`crate::in_place`].
            pub lent_thread_id: bool,
        }

        impl Options {
            /// The names of all switches, as [`Options::switch`] knows them.
            pub const NAMES: &[&str] = &[$($name),+];

            /// All that Spica uses: on, but for what is there to be compared with that.
            #[must_use]
            pub const fn all() -> Options {
                Options { $($field: $all,)+ ..Options::naive() }
            }

            /// All off: STAR's naive translator.
            #[must_use]
            pub const fn naive() -> Options {
                Options {
                    $($field: false,)+
                    spill: Spill::VcpuPage,
                    max_block: 32,
                    thumbee: false,
                    vfp: false,
                    lent_thread_id: false,
                }
            }

            /// The switch of that name.
            pub fn switch(&mut self, name: &str) -> Option<&mut bool> {
                match name {
                    $($name => Some(&mut self.$field),)+
                    _ => None,
                }
            }
        }
    };
}

options! {
    /// Direct branches between blocks are linked (STAR §5.1).
    link: "link" = true,
    /// Blocks go on past a conditional branch, which becomes a side exit.
    side_exits: "side-exits" = true,
    /// Indirect branches and returns leave their target in the vCPU page for the fast look-up in the trap handler;
    /// else they are interpreted.
    indirect: "indirect" = true,
    /// Indirect branches of code that has a return mirror go through it, without a trap. Needs `indirect`.
    return_mirror: "return-mirror" = true,
    /// The SPSR, thread IDs and other registers that are plain storage are loads from and stores to the vCPU page; the
    /// real TPIDRURW is the guest's.
    plain_registers: "plain-registers" = true,
    /// Writes to DACR trap only if they close a domain that is really open (lazy opening).
    lazy_dacr: "lazy-dacr" = true,
    /// Such a write works with a register that the next instruction overwrites, where there is one, and spills none.
    /// Needs `literals`, by which the page's words are known not to change.
    free_registers: "free-registers" = true,
    /// Writes to FPEXC trap only if they turn off what is really on.
    fpexc: "fpexc" = true,
    /// FPSID, MVFR0 and MVFR1 are loads from the vCPU page.
    vfp_ids: "vfp-ids" = true,
    /// Cache maintenance is put off until user code runs, or left out where nothing could tell.
    cache_maintenance: "cache-maintenance" = true,
    /// Unprivileged loads and stores are plain ones behind a trap that checks them (STAR §5.4).
    unprivileged: "unprivileged" = true,
    /// Maintenance of one TLB entry has a trap of its own.
    tlb_page: "tlb-page" = true,
    /// A loop of that over pages is told by its trap, which does several rounds at once. Needs `tlb-page`, and
    /// `literals`, by which the page's words are known not to change.
    tlb_range: "tlb-range" = true,
    /// A loop of cache maintenance over lines is told by its trap, in the same way. Needs `cache-maintenance` and
    /// `literals`.
    line_range: "line-range" = true,
    /// Reads of the generic timer's counter have a trap of their own.
    counter: "counter" = true,
    /// Writes to TTBR0 and CONTEXTIDR have traps of their own, which switch to a space that is known in assembly.
    space_switch: "space-switch" = true,
    /// Transfers of User-mode registers use the vCPU page (STAR §5.3).
    user_bank: "user-bank" = true,
    /// Exception returns are a trap of their own, with the target in the vCPU page.
    exception_return: "exception-return" = true,
    /// Literals of the instruction's own page become constants.
    literals: "literals" = true,
    /// Interrupt masks are changed and the CPSR is read in the vCPU page (STAR §5.2); only an interrupt that waits, or
    /// a change of mode, leaves the cache.
    masks: "masks" = true,
    /// Calls note where they are returned to, and returns that do not go through the return mirror go there if it is
    /// right: a shadow stack (STAR §5.1.1), to be compared with the mirror. Needs `indirect`, and the feature `papers`.
    shadow_stack: "shadow-stack" = false,
}

/// Where a rule puts the register that it needs for itself.
///
/// All but the first are STAR's techniques (§4), there to be compared with it: only with the feature `papers`; see
/// [`lacking`](crate::lacking).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spill {
    /// A slot of the vCPU page, which every instruction reaches.
    #[default]
    VcpuPage,
    /// Lightweight trap, and a slot in the block (STAR §4.1).
    TrapPrivate,
    /// Lightweight trap, and one slot for all, which User mode cannot read (STAR §4.1).
    TrapShared,
    /// TPIDRURW (STAR §4.2). The guest's own is [`VcpuPage::tpidrurw`](spica_vcpu::VcpuPage::tpidrurw) while its kernel
    /// runs.
    Tpidrurw,
    /// PMCCNTR, which does not count (STAR §4.2). User mode can reach it while the guest's kernel runs.
    Pmccntr,
}

impl Spill {
    /// All, with their names behind `spill=` in a list of switches.
    pub const ALL: [(&str, Spill); 5] = [
        ("vcpu-page", Spill::VcpuPage),
        ("trap-private", Spill::TrapPrivate),
        ("trap-shared", Spill::TrapShared),
        ("tpidrurw", Spill::Tpidrurw),
        ("pmccntr", Spill::Pmccntr),
    ];

    /// The technique of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Spill> {
        Spill::ALL.iter().find(|(known, _)| *known == name).map(|(_, spill)| *spill)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Spill::VcpuPage => "vcpu-page",
            Spill::TrapPrivate => "trap-private",
            Spill::TrapShared => "trap-shared",
            Spill::Tpidrurw => "tpidrurw",
            Spill::Pmccntr => "pmccntr",
        }
    }
}

impl Options {
    /// The options for a block that is executed once: its page may change without notice, or the mode is FIQ, whose
    /// other registers no block expects.
    #[must_use]
    pub const fn once(self) -> Options {
        Options {
            literals: false,
            user_bank: false,
            return_mirror: false,
            space_switch: false,
            shadow_stack: false,
            ..self
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options::all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_switch_has_a_name() {
        let mut options = Options::naive();
        for name in Options::NAMES {
            let all = *Options::all().switch(name).unwrap();
            *options.switch(name).unwrap() = all;
        }
        assert_eq!(options, Options::all());
        assert!(options.switch("lnik").is_none());
    }
}
