//! What a board with U-Boot needs to boot Spica with guests: a directory of files to be copied to its boot partition.
//!
//! ```text
//! spica.zImage    Spica: a flat binary with a zImage's header, which `bootz` takes
//! guests.cpio     the guests, in place of an initial RAM disk
//! board.dtb       the board's device tree, if one was given
//! boot.cmd        the commands of U-Boot that boot them, as text
//! boot.scr        the same as U-Boot runs it by itself
//! README          what is what, and how to boot it by hand
//! ```
//!
//! docs/booting.md says more.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::fit::{Loader, Room};
use crate::guests::Source;
use crate::initramfs::Overlay;
use crate::project::{Project, create_dir, read, write};
use crate::regular::{self, Most};
use crate::{prepare, uimage};

const IMAGE: &str = "spica.zImage";
const GUESTS: &str = "guests.cpio";
const TREE: &str = "board.dtb";
/// The largest device tree that makes sense, in MiB: Linux takes no larger one.
const TREE_MIB: u64 = 2;

/// What is to be packed.
#[derive(Clone, Debug)]
pub struct Request {
    /// The guests.
    pub guests: Source,
    /// The board's memory in MiB.
    pub board_memory_mib: u32,
    /// The board's device tree; `None`: U-Boot's own, or the one that lies beside it.
    pub board_dtb: Option<PathBuf>,
    /// Spica's command line.
    pub append: String,
    /// Where the files go.
    pub output: PathBuf,
}

/// A file that was written, and its size in bytes.
pub type Written = (PathBuf, u64);

/// Writes the files.
///
/// # Errors
/// If a guest or the device tree is not what it should be, the guests do not fit the board, or a file cannot be
/// written.
pub fn pack(project: &Project, request: &Request) -> Result<Vec<Written>> {
    // Said now, not after all is built.
    if request.output.exists() && !request.output.is_dir() {
        return Err(Error::usage(format!("--output: {} is a file; expected a directory", request.output.display())));
    }
    let tree = request.board_dtb.as_deref().map(device_tree).transpose()?;
    if let Some(c) = request.append.chars().find(|c| !(' '..='~').contains(c) || "\"'$;\\".contains(*c)) {
        return Err(Error::usage(format!(
            "--append has {c:?}, which U-Boot's shell would not pass on; expected plain words"
        )));
    }
    let room = Room::new("the board", [request.board_memory_mib; 2], Loader::UBoot).with_words(&request.append);
    let (image, _, packed) = prepare::pack(project, &request.guests, &room, &Overlay::new())?;
    let script = script(&request.append, tree.is_some());
    let boot = uimage::script("Spica", &script);
    let readme = readme(&packed.names, request.board_memory_mib, tree.is_some());
    let mut files = vec![(IMAGE, read(&image)?), (GUESTS, packed.bundle)];
    files.extend(tree.map(|tree| (TREE, tree)));
    files.extend([("boot.cmd", script.into_bytes()), ("boot.scr", boot), ("README", readme.into_bytes())]);
    create_dir(&request.output)?;
    let mut written = Vec::new();
    for (name, bytes) in files {
        let path = request.output.join(name);
        write(&path, &bytes)?;
        written.push((path, bytes.len() as u64));
    }
    Ok(written)
}

/// Reads a device tree, and checks that it is one.
fn device_tree(path: &Path) -> Result<Vec<u8>> {
    let wrong = |problem: String| Error::failed(format!("--board-dtb: {problem}"));
    let bytes = regular::read(path, &Most::mib(TREE_MIB)).map_err(|e| wrong(e.message))?;
    spica_bundle::check_dtb(&bytes).map_err(|e| wrong(format!("{}: {e}", path.display())))?;
    Ok(bytes)
}

/// The commands of U-Boot. They rest on the variables that boards set for scripts (`doc/develop/distro.rst` in U-Boot):
/// where the script came from, and which addresses are free for kernel, device tree and initial RAM disk.
fn script(append: &str, own_tree: bool) -> String {
    let mut text = String::from(
        "\
# Boots Spica with its guests. Made by `spica pack`; boot.scr is this as an image.
# Where the files are: where this script was, else on the first partition of the first card.
test -n \"${devtype}\" || setenv devtype mmc
test -n \"${devnum}\" || setenv devnum 0
test -n \"${distro_bootpart}\" || setenv distro_bootpart 1
test -n \"${prefix}\" || setenv prefix /
setenv spica_from ${devtype} ${devnum}:${distro_bootpart}

load ${spica_from} ${kernel_addr_r} ${prefix}spica.zImage || exit
",
    );
    text += if own_tree {
        "\
setenv spica_fdt ${fdt_addr_r}
load ${spica_from} ${spica_fdt} ${prefix}board.dtb || exit
"
    } else {
        "\
# The board's device tree: as it lies beside these files, else the one that U-Boot itself uses.
setenv spica_fdt ${fdtcontroladdr}
if test -n \"${fdtfile}\"; then
    for d in ${prefix} ${prefix}dtb/ ${prefix}dtbs/; do
        if test -e ${spica_from} ${d}${fdtfile}; then
            setenv spica_fdt ${fdt_addr_r}
            load ${spica_from} ${spica_fdt} ${d}${fdtfile}
        fi
    done
fi
"
    };
    text += &format!(
        "\
# Last, so that filesize is the bundle's.
load ${{spica_from}} ${{ramdisk_addr_r}} ${{prefix}}guests.cpio || exit

# The bundle goes to the end of memory, where it is in no guest's way.
setenv initrd_high
setenv bootm_size
setenv bootargs {append}
bootz ${{kernel_addr_r}} ${{ramdisk_addr_r}}:${{filesize}} ${{spica_fdt}}
"
    );
    text
}

fn readme(guests: &[String], memory_mib: u32, own_tree: bool) -> String {
    let tree = if own_tree { "board.dtb       the board's device tree\n" } else { "" };
    let (fdt, load_tree) = if own_tree {
        ("${fdt_addr_r}", "    load mmc 0:1 ${fdt_addr_r} board.dtb\n")
    } else {
        ("${fdtcontroladdr}", "")
    };
    format!(
        "\
Spica with {}, for a board with {memory_mib} MiB of memory and U-Boot.

spica.zImage    Spica
guests.cpio     the guests
{tree}boot.cmd        U-Boot's commands, to read
boot.scr        the same, to run

Copy all files to the first partition of the card that U-Boot boots from; boards that look for boot.scr boot Spica then.
By hand, at U-Boot's prompt:

    load mmc 0:1 ${{scriptaddr}} boot.scr; source ${{scriptaddr}}

or

    load mmc 0:1 ${{kernel_addr_r}} spica.zImage
{load_tree}    load mmc 0:1 ${{ramdisk_addr_r}} guests.cpio
    setenv initrd_high; setenv bootm_size
    bootz ${{kernel_addr_r}} ${{ramdisk_addr_r}}:${{filesize}} {fdt}

Spica and its guests speak on the board's serial console. Ctrl-] opens Spica's monitor there.
",
        guests.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts() {
        let text = script("spica.verbose", true);
        assert!(text.contains("load ${spica_from} ${spica_fdt} ${prefix}board.dtb || exit\n"));
        assert!(text.contains("\nsetenv bootargs spica.verbose\n"));
        assert!(text.ends_with("bootz ${kernel_addr_r} ${ramdisk_addr_r}:${filesize} ${spica_fdt}\n"));
        let text = script("", false);
        assert!(text.contains("setenv spica_fdt ${fdtcontroladdr}\n") && !text.contains("board.dtb"));
        // The size that bootz is told is the last file's.
        let load = text.rfind("\nload ").unwrap();
        assert!(text[load..].starts_with("\nload ${spica_from} ${ramdisk_addr_r} ${prefix}guests.cpio"));
    }

    #[test]
    fn what_a_readme_says() {
        let text = readme(&["a".to_string(), "b".to_string()], 512, true);
        assert!(text.starts_with("Spica with a, b, for a board with 512 MiB of memory and U-Boot.\n"));
        assert!(text.contains("board.dtb\n") && text.contains(":${filesize} ${fdt_addr_r}\n"));
        // A board's own limit would put the bundle into the middle of its memory.
        assert!(text.find("setenv bootm_size\n").unwrap() < text.find("bootz ").unwrap());
        assert!(!readme(&[], 512, false).contains("board.dtb"));
    }
}
