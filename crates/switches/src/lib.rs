//! Which optimisations a guest runs with: every one has its switch, so that it can be measured and be taken out of a
//! search for a bug.
//!
//! The translator's switches are [`spica_dbt::Options`]. What the hypervisor does around it (shadow tables, faults,
//! devices, the way between kernel and user code) has its switches here, in [`Switches`], and the list of words by
//! which all are asked for.
#![no_std]

extern crate alloc;

pub mod later;

use core::fmt;

use spica_dbt::{Options, Spill};

/// The switches of a guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switches {
    /// The translator's.
    pub translation: Options,
    /// VFP is turned off, and on with the registers that are in the core still, in assembly, and so does user code find
    /// that its kernel has VFP off.
    pub quick_vfp: bool,
    /// Exception returns, and system calls of user code, switch privilege and mode in assembly.
    pub fast_switches: bool,
    /// Ordinary aborts are answered before anything else is looked at.
    pub quick_faults: bool,
    /// Loads and stores that reached a device are known to, and are emulated without a walk of the guest's tables.
    pub quick_mmio: bool,
    /// The timers' registers are read, and written as long as no interrupt can come of it, in assembly.
    pub quick_timer: bool,
    /// All spaces have the mappings of the guest's kernel in common.
    pub share_kernel: bool,
    /// It is known page by page where in the kernel's range TLB maintenance has something to do.
    pub watch_pages: bool,
    /// Who empties an address space's TLB entries again and again keeps the tables.
    pub keep_tables: bool,
    /// Code is made anew, close together, once the guest has come to rest.
    pub preemptive_flush: bool,
}

/// Where the switch of a name is.
type Place = fn(&mut Switches) -> &mut bool;

/// The hypervisor's own switches, by name.
const OWN: &[(&str, Place)] = &[
    ("quick-vfp", |switches| &mut switches.quick_vfp),
    ("fast-switches", |switches| &mut switches.fast_switches),
    ("quick-faults", |switches| &mut switches.quick_faults),
    ("quick-mmio", |switches| &mut switches.quick_mmio),
    ("quick-timer", |switches| &mut switches.quick_timer),
    ("share-kernel", |switches| &mut switches.share_kernel),
    ("watch-pages", |switches| &mut switches.watch_pages),
    ("keep-tables", |switches| &mut switches.keep_tables),
    ("preemptive-flush", |switches| &mut switches.preemptive_flush),
];

impl Switches {
    /// All that Spica uses: on, but for what is there to be compared with that.
    #[must_use]
    pub const fn all() -> Self {
        Self {
            translation: Options::all(),
            quick_vfp: true,
            fast_switches: true,
            quick_faults: true,
            quick_mmio: true,
            quick_timer: true,
            share_kernel: true,
            watch_pages: true,
            keep_tables: true,
            preemptive_flush: true,
        }
    }

    /// All off: STAR's naive translator (STAR §3), and nothing quick around it.
    #[must_use]
    pub const fn naive() -> Self {
        Self {
            translation: Options::naive(),
            quick_vfp: false,
            fast_switches: false,
            quick_faults: false,
            quick_mmio: false,
            quick_timer: false,
            share_kernel: false,
            watch_pages: false,
            keep_tables: false,
            preemptive_flush: false,
        }
    }

    /// The names of all switches, as [`Self::parse`] knows them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Options::NAMES.iter().copied().chain(OWN.iter().map(|&(name, _)| name))
    }

    /// The switch of that name.
    pub fn switch(&mut self, name: &str) -> Option<&mut bool> {
        match OWN.iter().find(|(own, _)| *own == name) {
            Some((_, place)) => Some(place(self)),
            None => self.translation.switch(name),
        }
    }

    /// Reads a list such as `naive,+link,+masks`, `all,-return-mirror` or `all,spill=tpidrurw`, from left to right. It
    /// starts from all on.
    ///
    /// # Errors
    /// The first word that is none.
    pub fn parse(list: &str) -> Result<Self, UnknownSwitch<'_>> {
        let mut switches = Self::all();
        for word in list.split(',').filter(|word| !word.is_empty()) {
            let unknown = UnknownSwitch(word);
            match word {
                "all" => switches = Self::all(),
                "naive" => switches = Self::naive(),
                _ => match (word.strip_prefix('+'), word.strip_prefix('-'), word.strip_prefix("spill=")) {
                    (Some(name), ..) => *switches.switch(name).ok_or(unknown)? = true,
                    (_, Some(name), _) => *switches.switch(name).ok_or(unknown)? = false,
                    (.., Some(name)) => switches.translation.spill = Spill::named(name).ok_or(unknown)?,
                    _ => return Err(unknown),
                },
            }
        }
        Ok(switches)
    }
}

impl Default for Switches {
    fn default() -> Self {
        Self::all()
    }
}

/// A word of a list of switches that means nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownSwitch<'a>(pub &'a str);

impl fmt::Display for UnknownSwitch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is neither `all` nor `naive`, nor + or - before one of:", self.0)?;
        Switches::names().try_for_each(|name| write!(f, " {name}"))?;
        write!(f, "; nor spill= before one of:")?;
        Spill::ALL.iter().try_for_each(|(name, _)| write!(f, " {name}"))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn lists_are_read_from_left_to_right() {
        let naive = Options::naive();
        let with = |translation| Ok(Switches { translation, ..Switches::naive() });
        assert_eq!(Switches::parse(""), Ok(Switches::all()));
        assert_eq!(Switches::parse("naive"), Ok(Switches::naive()));
        assert_eq!(Switches::parse("naive,+link,+masks,-link"), with(Options { masks: true, ..naive }));
        assert_eq!(Switches::parse("naive,spill=trap-private"), with(Options { spill: Spill::TrapPrivate, ..naive }));
        assert_eq!(Switches::parse("spill=pmccntr,naive"), Ok(Switches::naive()));
        for (name, spill) in Spill::ALL {
            assert_eq!((Spill::named(name), spill.name()), (Some(spill), name));
        }
        assert_eq!(Switches::parse("-keep-tables"), Ok(Switches { keep_tables: false, ..Switches::all() }));
    }

    #[test]
    fn every_switch_has_a_name_of_its_own() {
        let mut switches = Switches::naive();
        for name in Switches::names() {
            let all = *Switches::all().switch(name).unwrap();
            assert_eq!(all, name != "shadow-stack", "{name}");
            *switches.switch(name).unwrap() = all;
        }
        assert_eq!(switches, Switches::all());
        assert_eq!(Switches::names().collect::<BTreeSet<_>>().len(), Switches::names().count());
    }

    #[test]
    fn unknown_words_are_named() {
        assert_eq!(Switches::parse("naive,link"), Err(UnknownSwitch("link")));
        assert_eq!(Switches::parse("spill=stack"), Err(UnknownSwitch("spill=stack")));
        let error = Switches::parse("+lnik").unwrap_err();
        assert!(std::format!("{error}").starts_with("`+lnik` is neither"));
    }
}
