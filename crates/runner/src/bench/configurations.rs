//! The configurations of Spica that are measured: one table, to be edited here and nowhere else.
//!
//! A configuration is a name and the words that it puts on Spica's command line. Four series stand in the table, after
//! the figures of STAR (Penneman et al.): the naive translator and its optimisations, each added to all before it in
//! the order of Figure 8; the ways to spill a register of §4; ways of indirect branches; and the memory modes of §3.
//! What Spica cannot do (yet) is in the table, too: it is listed, and reported as not implemented, with the reason.
//! Words for what others do are for board images of their own ([`crate::image::Image`]), which are built when such a
//! configuration is measured. Where a step is missing, those after it go without.
//!
//! A fifth series needs no table: for each switch of the translator's, everything but that one.
//!
//! Nothing is faked by a mistake in this table, either: a word that Spica does not know is in its log, and a run with
//! such a word counts as not implemented (see [`crate::bench::record`]).

use std::sync::LazyLock;

use spica_bench::results::{Configuration as Declared, Series};
use spica_switches::Switches;

use super::glob;
use crate::error::{Error, Result};

/// The pseudo-configuration that stands for the board without Spica. It is measured with every other one; asked for by
/// its name, it is measured alone.
pub const NATIVE: &str = "native";

/// A configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Its name on the command line and in result files.
    pub name: &'static str,
    /// What it is, for people.
    pub description: &'static str,
    /// Words for Spica's command line.
    pub words: &'static str,
    /// The comparisons that it belongs to.
    pub series: &'static [Series],
    /// If Spica cannot do it: what is missing.
    pub lacks: Option<&'static str>,
    /// Words that are added where it is not the boot that is measured, so that it is over soon.
    pub quick_boot: &'static str,
    /// How many times longer than others its guests may print nothing: without linked blocks, a boot takes QEMU an
    /// hour.
    pub patience: u32,
}

/// What takes QEMU an hour otherwise, all before the first workload, is translated as by default: until the guest's
/// script (bench/linux/run.sh) prints its first line.
const QUICK_BOOT: &str = "spica.boot-translation=all spica.boot-translation-until=@bench";

/// What the names of configurations without one switch begin with; the switch's follows.
pub const WITHOUT: &str = "without-";

/// Without these, a boot takes an hour.
const SLOW_WITHOUT: [&str; 2] = ["link", "indirect"];

/// All configurations, in the order of the report.
static CONFIGURATIONS: LazyLock<Vec<Configuration>> = LazyLock::new(|| {
    let on = Switches::names().filter(|name| *Switches::all().switch(name).expect("it has that name"));
    TABLE.iter().copied().chain(on.map(without)).collect()
});

/// All configurations, in the order of the report.
#[must_use]
pub fn all() -> &'static [Configuration] {
    &CONFIGURATIONS
}

/// Everything but the switch of that name.
fn without(switch: &str) -> Configuration {
    let slow = SLOW_WITHOUT.contains(&switch);
    Configuration {
        name: format!("{WITHOUT}{switch}").leak(),
        description: format!("everything but `{switch}`").leak(),
        words: format!("spica.translation=all,-{switch}").leak(),
        series: &[Series::Without],
        lacks: None,
        quick_boot: if slow { QUICK_BOOT } else { "" },
        patience: if slow { 10 } else { 1 },
    }
}

/// Those that are no rule's.
const TABLE: &[Configuration] = &[
    Configuration {
        name: "naive",
        description: "STAR §3: everything in its Table 1 traps",
        words: "spica.translation=naive",
        series: &[Series::Optimisation],
        lacks: None,
        quick_boot: QUICK_BOOT,
        patience: 10,
    },
    Configuration {
        name: "naive+link",
        description: "and direct branches are linked (STAR §5.1)",
        words: "spica.translation=naive,+link,+side-exits",
        series: &[Series::Optimisation],
        lacks: None,
        quick_boot: QUICK_BOOT,
        patience: 1,
    },
    Configuration {
        name: "naive+returns",
        description: "and returns and other indirect branches take no trap (STAR §5.1.1: shadow stack; Spica: return mirror)",
        words: "spica.translation=naive,+link,+side-exits,+indirect,+return-mirror",
        series: &[Series::Optimisation],
        lacks: None,
        quick_boot: QUICK_BOOT,
        patience: 1,
    },
    Configuration {
        name: "naive+modes",
        description: "and changes of interrupt masks take no trap (STAR §5.2)",
        words: "spica.translation=naive,+link,+side-exits,+indirect,+return-mirror,+masks",
        series: &[Series::Optimisation],
        lacks: None,
        quick_boot: QUICK_BOOT,
        patience: 1,
    },
    Configuration {
        name: "naive+user-bank",
        description: "and LDM and STM of user registers take no trap (STAR §5.3)",
        words: "spica.translation=naive,+link,+side-exits,+indirect,+return-mirror,+masks,+user-bank",
        series: &[Series::Optimisation],
        lacks: None,
        quick_boot: QUICK_BOOT,
        patience: 1,
    },
    Configuration {
        name: "naive+unprivileged",
        description: "and LDRT, STRT and their kin take a short trap only (STAR §5.4)",
        words: "spica.translation=naive,+link,+side-exits,+indirect,+return-mirror,+masks,+user-bank,+unprivileged",
        series: &[Series::Optimisation],
        lacks: None,
        quick_boot: QUICK_BOOT,
        patience: 1,
    },
    Configuration {
        name: "naive+coprocessor",
        description: "and coprocessor operations take no trap where they can do without (STAR §5.5)",
        words: "spica.translation=naive,+link,+side-exits,+indirect,+return-mirror,+masks,+user-bank,+unprivileged,+lazy-dacr,+cache-maintenance,+tlb-page,+fpexc",
        series: &[Series::Optimisation],
        lacks: None,
        quick_boot: QUICK_BOOT,
        patience: 1,
    },
    Configuration {
        name: "naive+registers",
        description: "and reads and writes of plain registers take no trap (STAR §5.6)",
        words: "spica.translation=naive,+link,+side-exits,+indirect,+return-mirror,+masks,+user-bank,+unprivileged,+lazy-dacr,+cache-maintenance,+tlb-page,+fpexc,+plain-registers",
        series: &[Series::Optimisation],
        lacks: None,
        quick_boot: QUICK_BOOT,
        patience: 1,
    },
    Configuration {
        name: "blocks",
        description: "guest kernels are translated, every optimisation on",
        words: "spica.engine=blocks",
        series: &[Series::Optimisation, Series::Indirect, Series::Memory, Series::Without],
        lacks: None,
        quick_boot: "",
        patience: 1,
    },
    Configuration {
        name: "default",
        description: "Spica as it is: guest kernels run at their own addresses (Power paper; BTKernel), every optimisation on",
        words: "",
        series: &[Series::Optimisation, Series::Indirect],
        lacks: None,
        quick_boot: "",
        patience: 1,
    },
    Configuration {
        name: "spill-page",
        description: "spilling to the vCPU page, in the image that has the other techniques",
        words: "spica.translation=all,spill=vcpu-page",
        series: &[Series::SpillOne],
        lacks: None,
        quick_boot: "",
        patience: 1,
    },
    Configuration {
        name: "spill-private",
        description: "spilling by lightweight trap to a slot in the block (STAR §4.1)",
        words: "spica.translation=all,spill=trap-private",
        series: &[Series::SpillOne],
        lacks: None,
        quick_boot: "",
        patience: 1,
    },
    Configuration {
        name: "spill-shared",
        description: "spilling by lightweight trap to one shared slot (STAR §4.1)",
        words: "spica.translation=all,spill=trap-shared",
        series: &[Series::SpillOne],
        lacks: None,
        quick_boot: "",
        patience: 1,
    },
    Configuration {
        name: "spill-tpidrurw",
        description: "spilling to TPIDRURW (STAR §4.2)",
        words: "spica.translation=all,spill=tpidrurw",
        series: &[Series::SpillOne],
        lacks: None,
        quick_boot: "",
        patience: 1,
    },
    Configuration {
        name: "spill-pmccntr",
        description: "spilling to PMCCNTR (STAR §4.2)",
        words: "spica.translation=all,spill=pmccntr",
        series: &[Series::SpillOne],
        lacks: None,
        quick_boot: "",
        patience: 1,
    },
    Configuration {
        name: "jump-cache",
        description: "indirect branches and returns by a trap and the jump cache, without the return mirror",
        words: "spica.translation=all,-return-mirror",
        series: &[Series::Indirect],
        lacks: None,
        quick_boot: "",
        patience: 1,
    },
    Configuration {
        name: "shadow-stack",
        description: "returns by a shadow stack (STAR §5.1.1), without the return mirror",
        words: "spica.translation=all,-return-mirror,+shadow-stack",
        series: &[Series::Indirect],
        lacks: None,
        quick_boot: "",
        patience: 1,
    },
    Configuration {
        name: "single-shadow",
        description: "one shadow table for the guest's kernel and user code, kept apart by domains (ARMvisor's single shadow table)",
        words: "spica.tables=single",
        series: &[Series::Memory],
        lacks: None,
        quick_boot: "",
        patience: 1,
    },
    Configuration {
        name: "tracked-writes",
        description: "the guest's tables are write-protected, with a reverse map, instead of following its TLB maintenance",
        words: "spica.tracking=writes",
        series: &[Series::Memory],
        lacks: None,
        quick_boot: "",
        patience: 2,
    },
];

impl Configuration {
    /// As a result file declares it.
    #[must_use]
    pub fn declared(&self) -> Declared {
        Declared {
            name: self.name.into(),
            description: self.description.into(),
            series: self.series.to_vec(),
            lacks: self.lacks.map(str::to_string),
        }
    }
}

/// The configuration of that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Configuration> {
    all().iter().find(|c| c.name == name)
}

/// What the command line asks for, by names or patterns, in the order of the table: without any
/// [`spica_bench::catalogue::DEFAULT`]; `all` means every one of the table. The second part of the answer says that the
/// native half alone is wanted.
///
/// # Errors
/// If there is no configuration of such a name; the error lists those that there are.
pub fn select(names: &[String]) -> Result<(Vec<&'static Configuration>, bool)> {
    let standard = vec![spica_bench::catalogue::DEFAULT.to_string()];
    let names = if names.is_empty() { &standard } else { names };
    for name in names {
        if name != "all" && name != NATIVE && !all().iter().any(|c| glob::matches(name, c.name)) {
            let known: Vec<_> = TABLE.iter().map(|c| c.name).collect();
            return Err(Error::usage(format!(
                "unknown configuration {name:?}; the configurations are {NATIVE}, {}, all of these, and {WITHOUT}SWITCH; \
                 `spica bench --list` says what they are",
                known.join(", ")
            )));
        }
    }
    let asked = |c: &Configuration, n: &str| if n == "all" { named_in_table(c.name) } else { glob::matches(n, c.name) };
    let chosen: Vec<_> = all().iter().filter(|c| names.iter().any(|n| asked(c, n))).collect();
    if chosen.is_empty() {
        // Only `native`: its half of the default's measurements.
        return Ok((named(spica_bench::catalogue::DEFAULT).into_iter().collect(), true));
    }
    Ok((chosen, false))
}

fn named_in_table(name: &str) -> bool {
    TABLE.iter().any(|c| c.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_table_is_sound() {
        let mut names = HashSet::from([NATIVE, "all"]);
        for configuration in all() {
            assert!(names.insert(configuration.name), "{} is there twice", configuration.name);
            assert!(!configuration.series.is_empty() && !configuration.description.is_empty());
            let words = configuration.words.split_whitespace();
            let mut words_of_all = words.clone().chain(configuration.quick_boot.split_whitespace());
            assert!(words_of_all.all(|w| w.starts_with("spica.")), "{}", configuration.words);
            assert!(configuration.lacks.is_none() || words.count() == 0, "{}: words for nothing", configuration.name);
        }
        for name in [spica_bench::catalogue::DEFAULT, spica_bench::catalogue::NAIVE, spica_bench::catalogue::LINKED] {
            assert!(named(name).is_some(), "the report asks for {name}");
        }
    }

    #[test]
    fn every_switch_is_known() {
        for word in all().iter().flat_map(|c| c.words.split_whitespace()) {
            if let Some(list) = word.strip_prefix("spica.translation=") {
                Switches::parse(list).unwrap_or_else(|e| panic!("{word}: {e}"));
            }
        }
    }

    #[test]
    fn selection() {
        let names = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(ToString::to_string).collect();
            select(&names).map(|(chosen, native)| (chosen.iter().map(|c| c.name).collect::<Vec<_>>(), native))
        };
        assert_eq!(names(&[]).unwrap(), (vec!["default"], false));
        assert_eq!(names(&["native"]).unwrap(), (vec!["default"], true));
        assert_eq!(names(&["default", "naive", "native"]).unwrap(), (vec!["naive", "default"], false));
        assert_eq!(names(&["all"]).unwrap().0.len(), TABLE.len());
        assert_eq!(names(&["without-link", "naive*ink"]).unwrap(), (vec!["naive+link", "without-link"], false));
        assert_eq!(names(&["without-*"]).unwrap().0.len(), all().len() - TABLE.len());
        assert_eq!(names(&["*"]).unwrap().0.len(), all().len());
        assert!(names(&["without-shadow-stack"]).is_err(), "it is off anyway");
        let error = names(&["native", "fast"]).unwrap_err();
        assert_eq!(error.status, crate::error::USAGE);
        assert!(error.message.starts_with("unknown configuration \"fast\"; the configurations are native, naive, "));
    }
}
