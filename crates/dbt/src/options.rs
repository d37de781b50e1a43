//! Which translation is used for each class of instruction: every optimisation has its switch.

use crate::spill::Spill;
use core::fmt;

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
        }

        impl Options {
            /// The names of all switches, as [`Options::parse`] knows them.
            pub const NAMES: &[&str] = &[$($name),+];

            /// All that Spica uses: on, but for what is there to be compared with that.
            #[must_use]
            pub const fn all() -> Options {
                Options { $($field: $all,)+ spill: Spill::VcpuPage, max_block: 32, thumbee: false, vfp: false }
            }

            /// All off: STAR's naive translator.
            #[must_use]
            pub const fn naive() -> Options {
                Options { $($field: false,)+ spill: Spill::VcpuPage, max_block: 32, thumbee: false, vfp: false }
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
    /// The SPSR, thread IDs and other registers that are plain storage are loads from and stores to the vCPU page; the real
    /// TPIDRURW is the guest's.
    plain_registers: "plain-registers" = true,
    /// Writes to DACR trap only if they close a domain that is really open (lazy opening).
    lazy_dacr: "lazy-dacr" = true,
    /// Such a write works with a register that the next instruction overwrites, where there is one, and spills none. Needs
    /// `literals`, by which the page's words are known not to change.
    free_registers: "free-registers" = true,
    /// Writes to FPEXC trap only if they turn off what is really on.
    fpexc: "fpexc" = true,
    /// FPSID, MVFR0 and MVFR1 are loads from the vCPU page.
    vfp_ids: "vfp-ids" = true,
    /// VFP is turned off, and on with the registers that are in the core still, in assembly, and so does user code find that its
    /// kernel has VFP off.
    quick_vfp: "quick-vfp" = true,
    /// Cache maintenance is put off until user code runs, or left out where nothing could tell.
    cache_maintenance: "cache-maintenance" = true,
    /// Unprivileged loads and stores are plain ones behind a trap that checks them (STAR §5.4).
    unprivileged: "unprivileged" = true,
    /// Maintenance of one TLB entry has a trap of its own.
    tlb_page: "tlb-page" = true,
    /// A loop of that over pages is told by its trap, which does several rounds at once. Needs `tlb-page`, and `literals`, by which
    /// the page's words are known not to change.
    tlb_range: "tlb-range" = true,
    /// Reads of the generic timer's counter have a trap of their own.
    counter: "counter" = true,
    /// Writes to TTBR0 and CONTEXTIDR have traps of their own, which switch to a space that is known in assembly.
    space_switch: "space-switch" = true,
    /// Transfers of User-mode registers use the vCPU page (STAR §5.3).
    user_bank: "user-bank" = true,
    /// Exception returns are a trap of their own, with the target in the vCPU page.
    exception_return: "exception-return" = true,
    /// Such traps, and system calls of user code, change worlds and modes in assembly.
    fast_switches: "fast-switches" = true,
    /// Ordinary aborts are answered before anything else is looked at.
    quick_faults: "quick-faults" = true,
    /// Loads and stores that reached a device are known to, and are emulated without a walk of the guest's tables.
    quick_mmio: "quick-mmio" = true,
    /// All spaces have the mappings of the guest's kernel in common.
    share_kernel: "share-kernel" = true,
    /// It is known page by page where in the kernel's range TLB maintenance has something to do.
    watch_pages: "watch-pages" = true,
    /// Who empties an address space's TLB entries again and again keeps the tables.
    keep_tables: "keep-tables" = true,
    /// Literals of the instruction's own page become constants.
    literals: "literals" = true,
    /// Interrupt masks are changed and the CPSR is read in the vCPU page (STAR §5.2); only an interrupt that waits, or a
    /// change of mode, leaves the cache.
    masks: "masks" = true,
    /// Indirect branches that do not go through the return mirror compare their target with the last one, and branch straight to
    /// its block where it is the same: an inline cache for each site, to be compared with the mirror. Needs `indirect`.
    inline_cache: "inline-cache" = false,
    /// Calls note where they are returned to, and returns that do not go through the return mirror go there if it is right: a
    /// shadow stack (STAR §5.1.1), to be compared with the mirror. Needs `indirect`.
    shadow_stack: "shadow-stack" = false,
}

/// A word of a list of switches that means nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownSwitch<'a>(pub &'a str);

impl fmt::Display for UnknownSwitch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is neither `all` nor `naive`, nor + or - before one of:", self.0)?;
        Options::NAMES.iter().try_for_each(|name| write!(f, " {name}"))?;
        write!(f, "; nor spill= before one of:")?;
        Spill::ALL.iter().try_for_each(|(name, _)| write!(f, " {name}"))
    }
}

impl Options {
    /// The options for a block that is executed once: its page may change without notice, or the mode is FIQ, whose other
    /// registers no block expects.
    #[must_use]
    pub const fn once(self) -> Options {
        Options {
            literals: false,
            user_bank: false,
            return_mirror: false,
            space_switch: false,
            inline_cache: false,
            shadow_stack: false,
            ..self
        }
    }

    /// Reads a list such as `naive,+link,+masks`, `all,-return-mirror` or `all,spill=tpidrurw`, from left to right. It starts
    /// from all on.
    ///
    /// # Errors
    /// The first word that is none.
    pub fn parse(list: &str) -> Result<Options, UnknownSwitch<'_>> {
        let mut options = Options::all();
        for word in list.split(',').filter(|word| !word.is_empty()) {
            match word {
                "all" => options = Options::all(),
                "naive" => options = Options::naive(),
                _ if word.starts_with("spill=") => {
                    options.spill = Spill::named(&word["spill=".len()..]).ok_or(UnknownSwitch(word))?;
                }
                _ => {
                    let (on, name) = match (word.strip_prefix('+'), word.strip_prefix('-')) {
                        (Some(name), _) => (true, name),
                        (_, Some(name)) => (false, name),
                        _ => return Err(UnknownSwitch(word)),
                    };
                    *options.switch(name).ok_or(UnknownSwitch(word))? = on;
                }
            }
        }
        Ok(options)
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
    fn lists_are_read_from_left_to_right() {
        assert_eq!(Options::parse(""), Ok(Options::all()));
        assert_eq!(Options::parse("naive"), Ok(Options::naive()));
        assert_eq!(Options::parse("naive,+link,+masks,-link"), Ok(Options { masks: true, ..Options::naive() }));
        assert_eq!(
            Options::parse("naive,spill=trap-private"),
            Ok(Options { spill: Spill::TrapPrivate, ..Options::naive() })
        );
        assert_eq!(Options::parse("spill=pmccntr,naive"), Ok(Options::naive()));
        for (name, spill) in Spill::ALL {
            assert_eq!((Spill::named(name), spill.name()), (Some(spill), name));
        }
        assert_eq!(Options::parse("-return-mirror"), Ok(Options { return_mirror: false, ..Options::all() }));
    }

    #[test]
    fn every_switch_has_a_name() {
        let mut options = Options::naive();
        for name in Options::NAMES {
            let all = *Options::all().switch(name).unwrap();
            *options.switch(name).unwrap() = all;
            assert_eq!(all, !["inline-cache", "shadow-stack"].contains(name), "{name}");
        }
        assert_eq!(options, Options::all());
    }

    #[test]
    fn unknown_words_are_named() {
        assert_eq!(Options::parse("naive,link"), Err(UnknownSwitch("link")));
        assert_eq!(Options::parse("spill=stack"), Err(UnknownSwitch("spill=stack")));
        let error = Options::parse("+lnik").unwrap_err();
        assert!(std::format!("{error}").starts_with("`+lnik` is neither"));
    }
}
