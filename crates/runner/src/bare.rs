//! Bare-metal guests of our own: assembled, linked, and put into a manifest.
//!
//! A guest is one file `tests/bare/NAME.S` and the runtime that it includes, linked to where a kernel is loaded. It
//! looks like a zImage, so that `spica run --kernel` takes it. Tests run them, and `spica bench` measures several at
//! once.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Context, Result};
use crate::process;
use crate::project::{Project, create_dir, read, write};

/// A file of a megabyte of zeroes, for disks: who writes a manifest that names it makes it.
pub const BLANK: &str = "blank.img";
/// Where the sources are.
pub const SOURCES: &str = "tests/bare";
/// Where the runtime has its parameters, in bytes from the start of the image.
const PARAMETERS: usize = 0x34;

/// What a guest is built from.
#[derive(Clone, Debug)]
pub struct Guest<'a> {
    /// The file in `tests/bare`, without its extension.
    pub name: &'a str,
    /// Words that the guest finds at `parameters`: six at most.
    pub parameters: &'a [u32],
    /// Words that the guest finds behind its image.
    pub payload: &'a [u32],
}

/// A guest of a board.
#[derive(Clone, Debug)]
pub struct Part<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it runs; `None` for Debian.
    pub guest: Option<Guest<'a>>,
    /// What the manifest says of it beyond name and kernel.
    pub keys: String,
}

impl<'a> Part<'a> {
    /// A bare-metal guest that Spica never starts again, with `parameters`.
    #[must_use]
    pub fn new(name: &'a str, file: &'a str, parameters: &'a [u32]) -> Self {
        let guest = Guest { name: file, parameters, payload: &[] };
        Self { name, guest: Some(guest), keys: "memory = \"16M\"\nrestart = \"never\"\n".to_string() }
    }

    /// The same with another line in the manifest; it replaces one with the same key.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        let others: String = self.keys.lines().filter(|l| !l.starts_with(key)).fold(String::new(), |t, l| t + l + "\n");
        self.keys = others + &format!("{key} = {value}\n");
        self
    }
}

/// Builds the guests and writes a manifest of them; gives its file, in `scratch`.
///
/// # Errors
/// If that does not work.
pub fn manifest(scratch: &Path, project: &Project, parts: &[Part<'_>]) -> Result<PathBuf> {
    let mut manifest = String::new();
    for part in parts {
        let _ = write!(manifest, "[[guest]]\nname = \"{}\"\n{}", part.name, part.keys);
        if let Some(guest) = &part.guest {
            let directory = scratch.join(part.name);
            create_dir(&directory)?;
            build(&directory, project, guest)?;
            let _ = writeln!(manifest, "kernel = \"{}/kernel.bin\"", part.name);
        }
    }
    let file = scratch.join("guests.toml");
    write(&file, manifest.as_bytes())?;
    Ok(file)
}

/// Assembles, links, and puts parameters and payload in; gives the kernel's file, in `scratch`.
///
/// # Errors
/// If that does not work.
pub fn build(scratch: &Path, project: &Project, guest: &Guest<'_>) -> Result<PathBuf> {
    let sources = project.source(SOURCES);
    let [object, elf, image] = ["o", "elf", "bin"].map(|e| scratch.join(format!("kernel.{e}")));
    let mut assembler = Command::new("arm-none-eabi-as");
    assembler.arg("--no-warn").arg("-I").arg(&sources).arg("-o").arg(&object);
    assembler.arg(sources.join(format!("{}.S", guest.name)));
    process::output(&mut assembler, "cannot assemble a guest")?;
    let mut linker = Command::new("arm-none-eabi-ld");
    linker.arg("-T").arg(sources.join("image.ld")).arg("-o").arg(&elf).arg(&object);
    process::output(&mut linker, "cannot link a guest")?;
    let mut objcopy = Command::new("arm-none-eabi-objcopy");
    process::output(objcopy.args(["-O", "binary"]).arg(&elf).arg(&image), "cannot make a guest's image")?;

    let mut bytes = read(&image)?;
    for (at, word) in guest.parameters.iter().enumerate() {
        bytes[PARAMETERS + 4 * at..][..4].copy_from_slice(&word.to_le_bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    for word in guest.payload {
        bytes.extend(word.to_le_bytes());
    }
    fs::write(&image, &bytes).context(|| format!("cannot write {}", image.display()))?;
    Ok(image)
}

/// The number behind ` NAME=` in a guest's line; they are hexadecimal.
#[must_use]
pub fn value(line: &str, name: &str) -> Option<u32> {
    let digits = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
    u32::from_str_radix(digits, 16).ok()
}

/// Ticks of the guest machine's counter in a millisecond.
pub const TICKS: f64 = 62_500.0;

/// Parameters of `pulse.S`: it sleeps for a millisecond of its clock, and after so many times says how late it was
/// woken.
pub const PULSE: [u32; 2] = [62_500, 250];

/// How late `pulse.S` was woken at worst so far, in microseconds, from a line of it.
#[must_use]
pub fn woken(line: &str) -> Option<f64> {
    Some(f64::from(value(line.strip_prefix("woken ")?, "worst")?) * 1000.0 / TICKS)
}

/// Rounds of 1,000 loops in a millisecond, from the line in which `spin.S` says what it got done.
#[must_use]
pub fn rate(line: &str) -> Option<f64> {
    Some(f64::from(value(line, "rounds")?) * TICKS / f64::from(value(line, "ticks")?))
}

/// What `sleep.S` says at its end.
#[derive(Clone, PartialEq, Debug)]
pub struct Slept {
    /// How much later than due it heard of its ticks, in microseconds: at worst.
    pub worst: f64,
    /// On average.
    pub average: f64,
    /// How many ticks came less than 2, 4, 8 … microseconds late, and not before; the last class has all the rest.
    pub classes: Vec<u32>,
}

impl Slept {
    /// Reads the line. The clock must have been right: it never went backwards; there was a tick for each `period`
    /// until the last one, none of them before its time, and none was left waiting once the guest ran and let it
    /// through. Several that are overdue come in one go, so that there may be more than the `count` that the sleeper
    /// waits for.
    ///
    /// # Errors
    /// What is wrong.
    pub fn read(line: &str, period: u32, count: u32) -> std::result::Result<Self, String> {
        let of = |name| value(line, name).ok_or_else(|| format!("no {name} in {line:?}"));
        let ticks = of("ticks")?;
        if (of("backwards")?, of("early")?, of("waiting")?) != (0, 0, 0) || ticks < count {
            return Err(format!("the clock was wrong: {line}"));
        }
        let (worst, late) = (of("worst")?, of("elapsed")?.checked_sub(period * ticks));
        if late.is_none_or(|late| late > worst) {
            return Err(format!("ticks were lost or doubled: {line}"));
        }
        let classes = line.split_once(" late ").map_or("", |(_, classes)| classes);
        Ok(Self {
            worst: f64::from(worst) * 1000.0 / TICKS,
            average: f64::from(of("total")?) * 1000.0 / TICKS / f64::from(ticks),
            classes: classes.split(' ').filter_map(|word| u32::from_str_radix(word, 16).ok()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_key_replaces_one_before() {
        let part = Part::new("a", "spin", &[]).with("memory", "\"64M\"").with("weight", "300");
        assert_eq!(part.keys, "restart = \"never\"\nmemory = \"64M\"\nweight = 300\n");
    }

    #[test]
    fn a_pulse_is_read() {
        assert_eq!(woken("woken late=00000001 worst=0000007d"), Some(2.0));
        assert_eq!(woken("up"), None);
    }

    #[test]
    fn spinners_and_sleepers_are_read() {
        assert_eq!(rate("done rounds=3e8 ticks=f424"), Some(1000.0));
        assert_eq!(rate("done ticks=f424"), None);
        let line = "slept elapsed=1f5 waiting=0 ticks=5 backwards=0 early=0 worst=7d total=fa late 1 4 0";
        let slept = Slept::read(line, 100, 5).unwrap();
        assert_eq!(slept, Slept { worst: 2.0, average: 0.8, classes: vec![1, 4, 0] });
        assert!(Slept::read(line, 100, 6).unwrap_err().contains("clock was wrong"));
        assert!(Slept::read(line, 101, 5).unwrap_err().contains("lost or doubled"));
        assert!(Slept::read(line, 75, 5).unwrap_err().contains("lost or doubled"), "one too many");
        assert!(Slept::read(&line.replace("early=0", "early=1"), 100, 5).is_err());
    }
}
