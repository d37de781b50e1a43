//! An ELF file that has nothing but symbols, for debuggers.
//!
//! A debugger asks a symbol's section whether it is code. So there is a section for each run of symbols of one kind,
//! which says where they are and has no contents: those are the guest's.

use object::Endianness;
use object::elf::{
    EF_ARM_EABI_VER5, ELFOSABI_NONE, EM_ARM, ET_EXEC, SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, SHN_UNDEF, SHT_NOBITS,
    STB_GLOBAL, STB_LOCAL, STT_FUNC, STT_OBJECT, STV_DEFAULT,
};
use object::write::elf::{FileHeader, SectionHeader, Sym, Writer};

use crate::{Problem, Symbol};

/// Sections at most. A kernel has some hundred runs of code or data; of what has more, all is code.
const MOST_SECTIONS: usize = 10_000;

/// A run of symbols that are all code, or all data.
struct Section {
    code: bool,
    start: u32,
    end: u32,
}

fn is_code(symbol: &Symbol) -> bool {
    matches!(symbol.kind, b't' | b'T' | b'w' | b'W')
}

/// The sections, and which of them each symbol is in.
fn sections(symbols: &[Symbol]) -> (Vec<Section>, Vec<usize>) {
    let (mut sections, mut places) = (Vec::<Section>::new(), Vec::new());
    for symbol in symbols {
        let code = is_code(symbol);
        match sections.last_mut() {
            Some(section) if section.code == code || section.start == symbol.address => section.end = symbol.address,
            previous => {
                if let Some(previous) = previous {
                    previous.end = symbol.address;
                }
                sections.push(Section { code, start: symbol.address, end: symbol.address });
            }
        }
        places.push(sections.len() - 1);
    }
    // Nothing says where the last symbol ends.
    if let Some(last) = sections.last_mut() {
        last.end = last.end.saturating_add(4);
    }
    if sections.len() > MOST_SECTIONS {
        let (start, end) = (sections[0].start, sections[sections.len() - 1].end);
        return (vec![Section { code: true, start, end }], vec![0; symbols.len()]);
    }
    (sections, places)
}

/// An ELF file of these symbols, which are in the order of their addresses.
///
/// # Errors
/// If there are too many.
pub fn write(symbols: &[Symbol]) -> Result<Vec<u8>, Problem> {
    let problem = |error: object::write::Error| format!("the symbols cannot be written: {error}");
    let (sections, places) = sections(symbols);
    let mut bytes = Vec::new();
    let mut writer = Writer::new(Endianness::Little, false, &mut bytes);
    writer.reserve_file_header();
    writer.reserve_null_section_index();
    let sections: Vec<_> = sections
        .iter()
        .map(|section| {
            let name = writer.add_section_name(if section.code { b".text" } else { b".data" });
            (section, name, writer.reserve_section_index())
        })
        .collect();
    writer.reserve_symtab_section_index();
    writer.reserve_strtab_section_index();
    writer.reserve_shstrtab_section_index();

    // Those that only their files know come first.
    let is_local = |symbol: &Symbol| symbol.kind.is_ascii_lowercase() && symbol.kind != b'w';
    let (local, global): (Vec<usize>, Vec<usize>) = (0..symbols.len()).partition(|&n| is_local(&symbols[n]));
    writer.reserve_null_symbol_index();
    let names: Vec<_> = symbols.iter().map(|symbol| writer.add_string(symbol.name.as_bytes())).collect();
    for &n in local.iter().chain(&global) {
        writer.reserve_symbol_index(Some(sections[places[n]].2));
    }
    writer.reserve_symtab();
    writer.reserve_strtab().map_err(problem)?;
    writer.reserve_shstrtab().map_err(problem)?;
    writer.reserve_section_headers();

    let header = FileHeader {
        os_abi: ELFOSABI_NONE,
        abi_version: 0,
        e_type: ET_EXEC,
        e_machine: EM_ARM,
        e_entry: 0,
        e_flags: EF_ARM_EABI_VER5,
    };
    writer.write_file_header(&header).map_err(problem)?;
    writer.write_null_symbol();
    for &n in local.iter().chain(&global) {
        let (section, _, index) = &sections[places[n]];
        // As far as the next symbol that is elsewhere.
        let address = symbols[n].address;
        let next = symbols[n..].partition_point(|symbol| symbol.address == address);
        let end = symbols.get(n + next).map_or(section.end, |symbol| symbol.address.min(section.end));
        writer.write_symbol(&Sym {
            section: Some(index.0),
            st_name: writer.string_offset(Some(names[n])),
            st_info: (if section.code { STT_FUNC } else { STT_OBJECT })
                | (if is_local(&symbols[n]) { STB_LOCAL } else { STB_GLOBAL }),
            st_other: STV_DEFAULT.into(),
            st_shndx: SHN_UNDEF,
            st_value: address.into(),
            st_size: end.saturating_sub(address).into(),
        });
    }
    writer.write_strtab();
    writer.write_shstrtab();
    writer.write_null_section_header();
    for (section, name, _) in &sections {
        writer.write_section_header(&SectionHeader {
            sh_name: writer.section_name_offset(Some(*name)),
            sh_type: SHT_NOBITS,
            sh_flags: SHF_ALLOC | if section.code { SHF_EXECINSTR } else { SHF_WRITE },
            sh_addr: section.start.into(),
            sh_offset: 0,
            sh_size: (section.end - section.start).into(),
            sh_link: 0,
            sh_info: 0,
            sh_addralign: 1,
            sh_entsize: 0,
        });
    }
    writer.write_symtab_section_header(1 + local.len() as u32);
    writer.write_strtab_section_header();
    writer.write_shstrtab_section_header();
    Ok(bytes)
}
