//! QEMU's plugin that complains where code relies on what a core need not give
//! ([`bench/silicon`](../../../bench/silicon/src/lib.rs)): built, loaded, read, and what it says explained.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSymbol, SymbolKind};
use spica_cycles::Core;
pub use spica_silicon::{Class, Complaint, Report};

use crate::board::Board;
use crate::emulator::{self, Emulator};
use crate::error::{Error, Result};
use crate::process;
use crate::progress::Step;
use crate::project::{Project, read, read_text};

/// The plugin, and the QEMU that can load it.
#[derive(Clone, Debug)]
pub struct Tools {
    plugin: PathBuf,
    /// The QEMU.
    pub emulator: Emulator,
}

/// The core of a board, and where it has its memory.
fn core(board: &Board) -> Result<(Core, u32)> {
    match board.name {
        "cubieboard" => Ok((Core::CortexA8, 0x4000_0000)),
        "vexpress-a9" => Ok((Core::CortexA9, 0x6000_0000)),
        name => Err(Error::usage(format!(
            "{name} has a core that the checker does not know; it knows those of cubieboard and vexpress-a9"
        ))),
    }
}

/// Gets a QEMU that will do, and builds the plugin, if anything changed.
///
/// # Errors
/// If there is no such QEMU to be had, or the plugin does not compile.
pub fn prepare(project: &Project) -> Result<Tools> {
    let emulator = emulator::prepare(project)?;
    let _step = Step::begin("building the checker");
    let target = project.build("bench/silicon");
    let mut cargo = Command::new("cargo");
    cargo.current_dir(project.root()).env_remove("CARGO_TARGET_DIR");
    cargo.args(["build", "--release", "--locked", "--quiet", "-p", "spica-checker", "--target-dir"]).arg(&target);
    process::output(&mut cargo, "cannot build the checker")?;
    Ok(Tools { plugin: target.join("release/libspica_checker.so"), emulator })
}

impl Tools {
    /// What QEMU is told behind `-plugin`, for a board with so much memory, whose report goes to `file`. A report that
    /// is there is removed.
    ///
    /// # Errors
    /// If the board's core is not known, or the old report stays.
    pub fn argument(&self, file: &Path, board: &Board, mib: u32) -> Result<String> {
        let (core, start) = core(board)?;
        match fs::remove_file(file) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::failed(format!("cannot remove {}: {e}", file.display())));
            }
            _ => {}
        }
        let path = |path: &Path| path.display().to_string().replace(',', ",,");
        Ok(format!(
            "file={},report={},core={},ram={start:#x}:{:#x}",
            path(&self.plugin),
            path(file),
            core.key(),
            u64::from(mib) << 20,
        ))
    }
}

/// The report of a board that ran.
///
/// # Errors
/// If there is none: the plugin did not come to writing one.
pub fn report(file: &Path) -> Result<Report> {
    let text = read_text(file)?;
    Report::of_text(&text).ok_or_else(|| Error::failed(format!("{} is no report of the checker's", file.display())))
}

/// The functions and labels of Spica's image, by their addresses.
#[derive(Clone, Debug, Default)]
pub struct Symbols(Vec<(u32, String)>);

impl Symbols {
    /// Out of an ELF file.
    ///
    /// # Errors
    /// If it is none.
    pub fn read(elf: &Path) -> Result<Symbols> {
        let bytes = read(elf)?;
        let file = object::File::parse(&*bytes);
        let file = file.map_err(|e| Error::failed(format!("{} is no ELF file: {e}", elf.display())))?;
        let named = |symbol: &object::Symbol<'_, '_>| {
            let name = symbol.name().ok().filter(|name| !name.is_empty() && !name.starts_with('$'))?;
            matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Label | SymbolKind::Unknown)
                .then(|| (symbol.address() as u32, format!("{:#}", rustc_demangle::demangle(name))))
        };
        let mut all: Vec<_> = file.symbols().filter_map(|symbol| named(&symbol)).collect();
        all.sort();
        all.dedup_by_key(|(address, _)| *address);
        Ok(Symbols(all))
    }

    /// The place of an address: the symbol before it, and how far behind it is.
    fn place(&self, address: u32) -> Option<String> {
        let (start, name) = &self.0[..self.0.partition_point(|(start, _)| *start <= address)].last()?;
        (address - start < 0x1_0000).then(|| format!("{name}+{:#x}", address - start))
    }
}

/// A kind of complaint that is not a mistake, and why.
#[derive(Clone, Copy, Debug)]
pub struct Explained {
    /// The class.
    pub class: Class,
    /// Where.
    pub place: Place,
    /// Why it is no mistake.
    pub why: &'static str,
}

/// Where something is explained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In User mode, where Linux runs without Spica.
    NativeUser,
    /// In privileged modes, where Linux runs without Spica.
    NativeKernel,
    /// There, before the MMU is on: at physical addresses.
    NativeStart,
}

/// What Linux does that is not a mistake of Spica's.
pub const EXPLAINED: &[Explained] = &[
    Explained { class: Class::TableNotSeenFault, place: Place::NativeUser, why: FAULTS_AGAIN },
    Explained { class: Class::TableNotSeenFault, place: Place::NativeKernel, why: FAULTS_AGAIN },
    Explained {
        class: Class::CodeNotCleaned,
        place: Place::NativeKernel,
        why: "ftrace makes no-ops of calls that do nothing, some of them in the functions that it does it with, and has \
              all cleaned behind it: the old instruction does no harm",
    },
    Explained {
        class: Class::CodeInvalidationNotSettled,
        place: Place::NativeStart,
        why: "__v7_setup invalidates the instruction cache, where code was patched for one processor, and has its DSB \
              and ISB some instructions later; the two that were patched and executed in between choose the attributes of \
              walks, and either choice works",
    },
    Explained {
        class: Class::CodeNotInvalidated,
        place: Place::NativeStart,
        why: "__v7_ca9mp_setup reads ACTLR, to set its bit SMP, by an instruction that was patched for one processor, \
              before __v7_setup invalidates the instruction cache; the old one would set a bit that does no harm there",
    },
];

const FAULTS_AGAIN: &str = "after a fault, Linux writes a descriptor and returns without DSB: if the walk does not see it, \
                            the fault comes again, and is answered again";

/// Why a complaint is no mistake, if it is none.
#[must_use]
pub fn explanation(complaint: &Complaint, native: bool) -> Option<&'static str> {
    let place = match (native, complaint.user, complaint.pc) {
        (true, true, _) => Place::NativeUser,
        // Linux's own addresses.
        (true, false, 0xbf00_0000..) => Place::NativeKernel,
        (true, false, _) => Place::NativeStart,
        (false, ..) => return None,
    };
    EXPLAINED.iter().find(|e| e.class == complaint.class && e.place == place).map(|e| e.why)
}

/// A complaint in a line.
#[must_use]
pub fn say(complaint: &Complaint, symbols: &Symbols) -> String {
    let Complaint { class, pc, user, count, address, physical, other, at } = *complaint;
    let mut text = format!("{class} at {pc:#010x}");
    if let Some(place) = symbols.place(pc).filter(|_| !user) {
        let _ = write!(text, " ({place})");
    }
    let mode = if user { "User mode" } else { "a privileged mode" };
    let _ = write!(text, " in {mode}, {count} times: {} [address {address:#010x}, physical ", class.about());
    let _ = write!(text, "{physical:#010x}, other {other:#010x}, first behind {at} instructions]");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board;

    fn complaint(class: Class, user: bool) -> Complaint {
        Complaint { class, pc: 0xf600_0014, user, count: 3, address: 1, physical: 2, other: 3, at: 4 }
    }

    #[test]
    fn places_have_names() {
        let symbols = Symbols(vec![(0xf600_0000, "start".into()), (0xf600_0010, "go".into())]);
        assert_eq!(symbols.place(0xf600_0014).as_deref(), Some("go+0x4"));
        assert_eq!(symbols.place(0xf5ff_ffff), None);
        assert_eq!(symbols.place(0xffff_ffff), None);
        let said = say(&complaint(Class::Overlap, false), &symbols);
        assert!(said.starts_with("overlap at 0xf6000014 (go+0x4) in a privileged mode, 3 times: uses"), "{said}");
        assert!(!say(&complaint(Class::Overlap, true), &symbols).contains("go+"));
    }

    #[test]
    fn nothing_of_spicas_is_explained_away() {
        for class in Class::ALL {
            assert_eq!(explanation(&complaint(class, true), false), None);
            assert_eq!(explanation(&complaint(class, false), false), None);
        }
    }

    #[test]
    fn boards_whose_core_is_known() {
        let tools = Tools {
            plugin: "/a,b.so".into(),
            emulator: Emulator { program: "/q".into(), tree: None, version: "10.0".into() },
        };
        let none = Path::new("/nowhere/report");
        let argument = tools.argument(none, board::find("cubieboard").unwrap(), 512).unwrap();
        assert_eq!(argument, "file=/a,,b.so,report=/nowhere/report,core=a8,ram=0x40000000:0x20000000");
        assert!(tools.argument(none, board::find("virt").unwrap(), 512).unwrap_err().message.starts_with("virt has"));
    }
}
