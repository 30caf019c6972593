//! The used parts of ELF files: names of other files, and functions.

use crate::instructions::Text;
use object::read::elf::{Dyn, ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, SymbolKind, elf};
use std::collections::BTreeMap;

/// Returns the libraries that a program or library is linked with (`DT_NEEDED`).
pub(crate) fn libraries(file: &[u8]) -> Result<Vec<String>, object::Error> {
    let program = ElfFile64::<Endianness>::parse(file)?;
    let endian = program.endian();
    let segments = program.elf_program_headers();
    // The dynamic table names its strings by address.
    let at = |address: u64| {
        let loaded = segments.iter().filter(|s| s.p_type(endian) == elf::PT_LOAD);
        loaded.into_iter().find_map(|s| {
            let offset = address.checked_sub(s.p_vaddr(endian))?;
            let from = s.p_offset(endian).checked_add(offset)?;
            file.get(from as usize..).filter(|_| offset < s.p_filesz(endian))
        })
    };
    for segment in segments {
        let Some(table) = segment.dynamic(endian, file)? else { continue };
        let with = |tag| table.iter().filter(move |d| d.d_tag(endian) == tag);
        let strings = with(elf::DT_STRTAB).find_map(|d| at(d.d_val(endian)));
        let name = |d: &elf::Dyn64<Endianness>| {
            let rest = strings?.get(d.d_val(endian) as usize..)?;
            let end = rest.iter().position(|b| *b == 0)?;
            Some(String::from_utf8_lossy(&rest[..end]).into_owned())
        };
        return Ok(with(elf::DT_NEEDED).filter_map(name).collect());
    }
    Ok(Vec::new())
}

/// Returns the values of a key in the section `.modinfo` of a kernel module.
pub(crate) fn modinfo(module: &[u8], key: &str) -> Result<Vec<String>, object::Error> {
    let module = ElfFile64::<Endianness>::parse(module)?;
    let Some(section) = module.section_by_name(".modinfo") else { return Ok(Vec::new()) };
    let entries = section.data()?.split(|b| *b == 0);
    let value = |entry: &[u8]| {
        let text = String::from_utf8_lossy(entry);
        text.split_once('=').filter(|(k, _)| *k == key).map(|(_, v)| v.to_owned())
    };
    Ok(entries.filter_map(value).collect())
}

/// Returns the functions of an object by section of code, each with its distance from the section's
/// begin. Code that a kernel frees or leaves out is not among them.
pub(crate) fn text(object: &[u8]) -> Result<Vec<Text>, object::Error> {
    let object = ElfFile64::<Endianness>::parse(object)?;
    let mut all: BTreeMap<usize, Vec<(u64, &str)>> = BTreeMap::new();
    for symbol in object.symbols().filter(|s| s.kind() == SymbolKind::Text) {
        let Some(index) = symbol.section_index() else { continue };
        let section = object.section_by_index(index)?;
        let section = section.name()?;
        if ![".init", ".exit"].iter().any(|gone| section.starts_with(gone)) {
            all.entry(index.0).or_default().push((symbol.address(), symbol.name()?));
        }
    }
    Ok(all.into_values().map(Text::of).collect())
}

#[cfg(test)]
mod tests;
