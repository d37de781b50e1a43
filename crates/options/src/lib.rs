//! Spica's command line: the words that the boot loader passes in `/chosen/bootargs`.
//!
//! | word                | meaning                                                       |
//! |---------------------|---------------------------------------------------------------|
//! | `spica.verbose`     | say what is going on (the same as `spica.loglevel=info`)      |
//! | `spica.loglevel=L`  | `off`, `error`, `warn` (the default), `info`, `debug` or `trace` |
//! | `spica.time=S`      | seconds since 1970 at boot, for boards without a clock           |
//! | `spica.digest`        | say the SHA-256 of each guest's kernel as it lies in its RAM      |
//! | `spica.translation=L` | which optimisations guests run with, see [`Switches::parse`] |
//! | `spica.boot-translation=L` | the same until a guest first runs user code, or: a slow translation need not boot |
//! | `spica.boot-translation-until=T` | until a guest's console has printed T, and user code runs next |
//! | `spica.engine=E` | what runs the guests of which the manifest says nothing: `in-place`, their kernels run at their own addresses as far as they can (the default), or `blocks`, they are translated, which is the default where `spica.translation`, `spica.boot-translation`, `spica.tables=single` or `spica.tracking=writes` ask for what has to do with that; `in-place@A`, kernels that begin at A, not where they are found; with `in-place-from-start` and `in-place-from-start@A`, not only once they have taken an interrupt or run user code |
//! | `spica.tables=T` | `double`, a shadow table for the guest's kernel and one for its user code (the default), or `single`, one for both: an image of its own |
//! | `spica.tracking=T` | `maintenance`, changed mappings are learnt of by the guest's TLB maintenance (the default), or `writes`, by its writes to its tables: an image with the feature `papers` |
//! | `spica.halt`        | each guest waits for a debugger at its first instruction |
//! | `spica.trace`       | record what guests do from the start on, for `spica run --trace` |
//! | `spica.stats`       | say every counter at the end of a guest, `spica: stat NAME VALUE` |
//! | `spica.faults`      | guests may ask for faults of Spica's own, for tests: see `src/fault.rs` |
//! | `spica.selftest`    | test the platform instead of running guests, then stay idle   |
//!
//! Words that do not begin with `spica.` are not for us; others of ours are reported, not obeyed.

#![no_std]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use spica_bundle::KernelBase;
use spica_switches::Switches;

use log::LevelFilter;

/// How guests' kernels run in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPlace {
    /// Where they begin; `None`: where they are found to run.
    pub base: Option<u32>,
    /// From their first instruction on.
    pub from_start: bool,
}

impl InPlace {
    /// Wherever they are found, and once they have started.
    pub const ANYWHERE: Self = Self { base: None, from_start: false };

    /// `in-place` or `in-place-from-start`; with `@` and a [`KernelBase`] where that is to be said.
    fn parse(engine: &str) -> Option<Self> {
        let (name, base) = match engine.split_once('@') {
            Some((name, base)) => (name, Some(KernelBase::parse(base)?.address())),
            None => (engine, None),
        };
        let from_start = match name {
            "in-place" => false,
            "in-place-from-start" => true,
            _ => return None,
        };
        Some(Self { base, from_start })
    }
}

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How much is said.
    pub level: LevelFilter,
    /// Test the platform instead of running guests.
    pub selftest: bool,
    /// Say the SHA-256 of each guest's kernel.
    pub digest: bool,
    /// What guests run with.
    pub switches: Switches,
    /// What they run with before, if that is something else.
    pub boot_switches: Option<Switches>,
    /// Before what: until user code runs after a guest's console has printed this.
    pub boot_until: String,
    /// How guests' kernels run in place, where the manifest does not say otherwise; `None`: by blocks.
    pub in_place: Option<InPlace>,
    /// Whether a guest's kernel and its user code have one shadow table, if that was said.
    pub single_table: Option<bool>,
    /// Changed mappings are learnt of by the guest's writes to its tables.
    pub tracked_writes: bool,
    /// Each guest waits for a debugger at its first instruction.
    pub halt: bool,
    /// Record what guests do from the start on.
    pub trace: bool,
    /// Say every counter at the end of a guest.
    pub stats: bool,
    /// Guests may ask for faults of Spica's own.
    pub faults: bool,
    /// Bytes of memory of its own that a copy-on-write disk gets at most.
    pub overlay: u32,
    /// Seconds since 1970 at boot.
    pub time: u64,
    /// Words that begin with `spica.` and mean nothing.
    pub unknown: Vec<String>,
}

impl Options {
    /// Reads a command line. Of words that contradict each other the last counts.
    pub fn parse(line: &str) -> Self {
        let mut options = Self {
            level: LevelFilter::Warn,
            selftest: false,
            digest: false,
            switches: Switches::all(),
            boot_switches: None,
            boot_until: String::new(),
            in_place: None,
            single_table: None,
            tracked_writes: false,
            halt: false,
            trace: false,
            stats: false,
            faults: false,
            overlay: u32::MAX,
            time: 0,
            unknown: Vec::new(),
        };
        let mut engine = None;
        for word in line.split_ascii_whitespace() {
            let Some(ours) = word.strip_prefix("spica.") else { continue };
            match ours.split_once('=').unwrap_or((ours, "")) {
                ("verbose", "") => options.level = LevelFilter::Info,
                ("selftest", "") => options.selftest = true,
                ("loglevel", name) if name.parse::<LevelFilter>().is_ok() => {
                    options.level = name.parse().unwrap_or(options.level);
                }
                ("halt", "") => options.halt = true,
                ("trace", "") => options.trace = true,
                ("stats", "") => options.stats = true,
                ("faults", "") => options.faults = true,
                ("translation", list) if Switches::parse(list).is_ok() => {
                    options.switches = Switches::parse(list).unwrap_or_default();
                }
                ("boot-translation", list) if Switches::parse(list).is_ok() => {
                    options.boot_switches = Switches::parse(list).ok();
                }
                ("engine", "blocks") => engine = Some(None),
                ("engine", name) if InPlace::parse(name).is_some() => engine = Some(InPlace::parse(name)),
                ("tables", "double") => options.single_table = Some(false),
                ("tables", "single") => options.single_table = Some(true),
                ("tracking", "maintenance") => options.tracked_writes = false,
                ("tracking", "writes") => options.tracked_writes = true,
                ("boot-translation-until", text) => options.boot_until = text.into(),
                ("digest", "") => options.digest = true,
                ("overlay", kib) if kib.parse::<u32>().is_ok() => {
                    options.overlay = kib.parse::<u32>().map_or(u32::MAX, |kib| kib.saturating_mul(1024));
                }
                ("time", seconds) if seconds.parse::<u64>().is_ok() => {
                    options.time = seconds.parse().unwrap_or(options.time);
                }
                _ => options.unknown.push(word.into()),
            }
        }
        options.in_place = engine.unwrap_or_else(|| options.usual_engine());
        options
    }

    /// The engine if none is asked for: that of blocks where something else is asked for that is about these.
    fn usual_engine(&self) -> Option<InPlace> {
        let about_blocks = self.switches != Switches::all()
            || self.boot_switches.is_some()
            || self.single_table == Some(true)
            || self.tracked_writes;
        (!about_blocks).then_some(InPlace::ANYWHERE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_understood() {
        let engine = |word: &str| Options::parse(word).in_place;
        let in_place = |base| Some(InPlace { base, from_start: false });
        assert_eq!(engine("spica.verbose"), in_place(None));
        assert_eq!(engine("spica.engine=in-place"), in_place(None));
        assert_eq!(engine("spica.engine=in-place@0x80000000"), in_place(Some(0x8000_0000)));
        let at_80000000 = InPlace { base: Some(0x8000_0000), from_start: true };
        assert_eq!(engine("spica.engine=in-place-from-start@0x80000000"), Some(at_80000000));
        assert_eq!(engine("spica.engine=in-place spica.engine=blocks"), None);
        for about_blocks in ["translation=naive", "boot-translation=naive", "tables=single", "tracking=writes"] {
            assert_eq!(engine(&alloc::format!("spica.{about_blocks}")), None, "{about_blocks}");
            assert_eq!(engine(&alloc::format!("spica.engine=in-place spica.{about_blocks}")), in_place(None));
        }
        assert_eq!(engine("spica.translation=all spica.tables=double"), in_place(None));
        for wrong in [
            "in-place@0x80001000",
            "in-place@80000000",
            "in-place@0xf0000000",
            "in-place@0x0",
            "in",
            "blocks@0x80000000",
        ] {
            let options = Options::parse(&alloc::format!("spica.engine={wrong}"));
            assert_eq!((options.in_place, options.unknown.len()), (in_place(None), 1), "{wrong}");
        }
    }
}
