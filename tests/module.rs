//! A kernel module that reads user memory without leave, for the test that the kernel cannot.
//!
//! Nothing in Debian's packages does so on purpose in a way that comes back. So a small module of the kernel's package
//! gets another start routine: its code and its relocations are replaced, its signature is cut off.

use object::read::elf::{ElfFile32, FileHeader, SectionHeader};
use object::{LittleEndian, Object, ObjectSection};

use spica_runner::error::{Error, Result};

/// What the kernel's build appends to a signed module, at its very end.
const SIGNATURE: &[u8] = b"~Module signature appended~\n";

/// The new start routine: `MOV R0, #0x10000` (where busybox's text is mapped), `LDR R0, [R0]`, `MOV R0, #0`, `BX LR`.
const CODE: [u32; 4] = [0xe3a0_0801, 0xe590_0000, 0xe3a0_0000, 0xe12f_ff1e];

/// Bytes from the start of a section header to its `sh_size` (ELF-32).
const SH_SIZE: usize = 20;
/// Bytes in a section header.
const SH_BYTES: usize = 40;

/// The module, made from `original`.
///
/// # Errors
/// If that is no module with a start routine of its own.
pub fn reads_user_memory(original: &[u8]) -> Result<Vec<u8>> {
    let wrong = |what: &str| Error::failed(format!("the module for the test cannot be made: {what}"));
    let file = ElfFile32::<LittleEndian>::parse(original).map_err(|e| wrong(&e.to_string()))?;
    let text = file.section_by_name(".init.text").ok_or_else(|| wrong("it has no .init.text"))?;
    let (start, size) = text.file_range().ok_or_else(|| wrong(".init.text is empty"))?;
    if (size as usize) < 4 * CODE.len() {
        return Err(wrong(".init.text is too small"));
    }
    let headers = file.elf_header().e_shoff(LittleEndian) as usize;
    let relocations = file
        .elf_section_table()
        .enumerate()
        .find(|(_, header)| {
            header.sh_info(LittleEndian) as usize == text.index().0 && header.sh_size(LittleEndian) != 0
        })
        .map(|(index, _)| index.0)
        .ok_or_else(|| wrong(".init.text has no relocations"))?;

    let mut module = original.to_vec();
    for (at, word) in (start as usize..).step_by(4).zip(CODE) {
        module[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    let size = headers + relocations * SH_BYTES + SH_SIZE;
    module[size..size + 4].fill(0);
    if module.ends_with(SIGNATURE) {
        module.truncate(module.len() - SIGNATURE.len());
    }
    Ok(module)
}
