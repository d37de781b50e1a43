//! Which translation is used for each class of instruction: every optimisation has its switch.

/// The switches. [`Options::naive`] is the translator of STAR §3, where every row of its Table 1 traps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Direct branches between blocks are linked (STAR §5.1).
    pub link: bool,
    /// Blocks go on past a conditional branch, which becomes a side exit.
    pub side_exits: bool,
    /// Indirect branches and returns leave their target in the vCPU page for the fast look-up in the trap handler;
    /// else they are interpreted.
    pub indirect: bool,
    /// Reads of TPIDRPRW and of the SPSR are loads from the vCPU page; user-accessible thread IDs are used directly.
    pub plain_registers: bool,
    /// Interrupt masks are changed and the CPSR is read in the vCPU page (STAR §5.2); only an interrupt that waits, or a
    /// change of mode, leaves the cache.
    pub masks: bool,
    /// The most guest instructions in a block.
    pub max_block: usize,
}

impl Options {
    /// All on.
    #[must_use]
    pub const fn all() -> Options {
        Options { link: true, side_exits: true, indirect: true, plain_registers: true, masks: true, max_block: 32 }
    }

    /// All off: STAR's naive translator.
    #[must_use]
    pub const fn naive() -> Options {
        Options { link: false, side_exits: false, indirect: false, plain_registers: false, masks: false, max_block: 32 }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options::all()
    }
}
