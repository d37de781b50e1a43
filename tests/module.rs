//! A kernel module that reads user memory without leave, for the test that the kernel cannot.
//!
//! Nothing in Debian's packages does so on purpose in a way that comes back. So a small module of the kernel's package
//! gets another start routine: its code and its relocations are replaced, its signature is cut off.

use object::read::elf::{ElfFile32, FileHeader, SectionHeader};
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol};

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

/// Something that [`misuses_the_heap`] does.
pub struct Misuse {
    /// What, as `spica watch heap --json` has it.
    pub kind: &'static str,
    /// Bytes of the access.
    pub bytes: u32,
    /// Whether it is a store.
    pub write: bool,
    /// Where in the object.
    pub offset: u32,
    /// Bytes of the object.
    pub size: u32,
    /// How many instructions it is behind the return of the object's allocation.
    pub behind: u32,
}

/// All of that, in the order in which it is done. The last one is wrong only if the kernel does not clear the object.
pub const MISUSES: [Misuse; 4] = [
    Misuse { kind: "use-after-free", bytes: 4, write: false, offset: 8, size: 40, behind: 2 },
    Misuse { kind: "use-after-free", bytes: 4, write: true, offset: 12, size: 40, behind: 3 },
    Misuse { kind: "out-of-bounds", bytes: 1, write: true, offset: 50, size: 50, behind: 1 },
    Misuse { kind: "uninitialised", bytes: 4, write: false, offset: 24, size: 40, behind: 3 },
];

/// `GFP_KERNEL` of Linux 6.1.
const GFP_KERNEL: u32 = 0xcc0;
/// `BL` to itself, as a relocation wants it.
const BL: u32 = 0xebff_fffe;
/// `R_ARM_CALL` (ELF for the Arm Architecture, 5.6.1).
const R_ARM_CALL: u32 = 28;

/// A module whose start routine uses an object after it has freed it, writes behind the end of another one, reads what
/// it has not written, and fails, so that it can be loaded again; made from `original`, the module `rfkill`. What it
/// uses wrongly is memory that nobody else has then: nothing comes of it.
///
/// # Errors
/// If `original` is not as expected.
pub fn misuses_the_heap(original: &[u8]) -> Result<Vec<u8>> {
    let wrong = |what: &str| Error::failed(format!("the module for the test cannot be made: {what}"));
    let file = ElfFile32::<LittleEndian>::parse(original).map_err(|e| wrong(&e.to_string()))?;
    let text = file.section_by_name(".init.text").ok_or_else(|| wrong("it has no .init.text"))?;
    let (start, size) = text.file_range().ok_or_else(|| wrong(".init.text is empty"))?;
    let symbol = |name: &str| {
        let found = file.symbols().find(|symbol| symbol.name() == Ok(name));
        found.map(|symbol| symbol.index().0 as u32).ok_or_else(|| wrong(&format!("it does not call {name}")))
    };
    let (allocate, free) = (symbol("__kmalloc")?, symbol("kfree")?);

    let mut module = original.to_vec();
    let word = |module: &[u8], at: usize| u32::from_le_bytes(module[at..at + 4].try_into().unwrap_or_default());
    // PUSH of registers, with R4 and LR; then come PUSH {LR} and the call that a tracer makes use of, which stay.
    let push = word(&module, start as usize);
    if push >> 16 != 0xe92d || push & 0x4010 != 0x4010 {
        return Err(wrong("its start routine does not begin as expected"));
    }
    let mut code: Vec<(u32, Option<u32>)> = Vec::new();
    let mut emit = |word: u32, called: Option<u32>| code.push((word, called));
    let movw = |rd: u32, value: u32| 0xe300_0000 | (value & 0xf000) << 4 | rd << 12 | value & 0xfff;
    emit(movw(0, 40), None);
    emit(movw(1, GFP_KERNEL), None);
    emit(BL, Some(allocate));
    emit(0xe1a0_4000, None); // MOV R4, R0
    emit(BL, Some(free));
    emit(0xe594_1008, None); // LDR R1, [R4, #8]
    emit(0xe584_100c, None); // STR R1, [R4, #12]
    emit(movw(0, 50), None);
    emit(movw(1, GFP_KERNEL), None);
    emit(BL, Some(allocate));
    emit(0xe5c0_0031, None); // STRB R0, [R0, #49]
    emit(0xe5c0_0032, None); // STRB R0, [R0, #50]
    emit(BL, Some(free));
    emit(movw(0, 40), None);
    emit(movw(1, GFP_KERNEL), None);
    emit(BL, Some(allocate));
    emit(0xe580_0014, None); // STR R0, [R0, #20]
    emit(0xe590_1014, None); // LDR R1, [R0, #20]
    emit(0xe590_1010, None); // LDR R1, [R0, #16], in the same granule
    emit(0xe590_1018, None); // LDR R1, [R0, #24]
    emit(BL, Some(free));
    emit(0xe3e0_000a, None); // MVN R0, #10: -EAGAIN
    emit(0xe8bd_8000 | push & 0x3fff, None); // POP, with the PC

    // Up to the second function's call for tracers; all of that is ours.
    const FIRST: u32 = 12;
    const END: u32 = 0x100;
    if size < END.into() || FIRST as usize + 4 * code.len() > END as usize {
        return Err(wrong(".init.text is too small"));
    }
    for (at, (word, _)) in (start as usize + FIRST as usize..).step_by(4).zip(&code) {
        module[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    let relocations = file
        .elf_section_table()
        .iter()
        .find(|header| header.sh_info(LittleEndian) as usize == text.index().0 && header.sh_size(LittleEndian) != 0)
        .ok_or_else(|| wrong(".init.text has no relocations"))?;
    let table = relocations.sh_offset(LittleEndian) as usize;
    let calls = (FIRST..).step_by(4).zip(&code).filter_map(|(at, (_, called))| Some((at, (*called)?)));
    let mut calls = calls.map(|(at, symbol)| (at, symbol << 8 | R_ARM_CALL));
    for at in (table..table + relocations.sh_size(LittleEndian) as usize).step_by(8) {
        if (FIRST..END).contains(&word(&module, at)) {
            // What is left over is R_ARM_NONE.
            let (place, info) = calls.next().unwrap_or((FIRST, 0));
            module[at..at + 4].copy_from_slice(&place.to_le_bytes());
            module[at + 4..at + 8].copy_from_slice(&info.to_le_bytes());
        }
    }
    if calls.next().is_some() {
        return Err(wrong(".init.text has too few relocations"));
    }
    if module.ends_with(SIGNATURE) {
        module.truncate(module.len() - SIGNATURE.len());
    }
    Ok(module)
}
