use super::{PROGRAMS, SECTION, object};
use object::read::elf::ElfFile64;
use object::{Architecture, Endianness, Object, ObjectSection, ObjectSymbol, SymbolKind};

/// Parses the object of a program as libbpf does: its section, and the function in it. Returns the
/// instructions in hexadecimal.
fn parsed(name: &str) -> Vec<String> {
    let (_, program) = PROGRAMS.iter().find(|(n, _)| *n == name).unwrap();
    let bytes = object(program).unwrap();
    let file = ElfFile64::<Endianness>::parse(&*bytes).unwrap();
    assert_eq!(file.architecture(), Architecture::Bpf);
    let section = file.section_by_name(SECTION).unwrap();
    let function = file.symbols().find(|s| s.kind() == SymbolKind::Text).unwrap();
    assert!(function.is_global() && function.section_index() == Some(section.index()));
    assert_eq!((function.address(), function.size()), (0, section.size()));
    let text = section.data().unwrap();
    text.chunks(8).map(|i| i.iter().map(|b| format!("{b:02x}")).collect()).collect()
}

#[test]
fn drop_is_what_llvm_assembles() {
    assert_eq!(parsed("drop"), ["b700000001000000", "9500000000000000"]);
}

#[test]
fn tx_is_what_llvm_assembles() {
    let expected = [
        "b700000001000000", // r0 = 1
        "6112040000000000", // r2 = *(u32 *)(r1 + 4)
        "6111000000000000", // r1 = *(u32 *)(r1 + 0)
        "bf13000000000000", // r3 = r1
        "070300000e000000", // r3 += 14
        "2d23090000000000", // if r3 > r2 goto +9
        "6112000000000000", // r2 = *(u32 *)(r1 + 0)
        "6913040000000000", // r3 = *(u16 *)(r1 + 4)
        "6114060000000000", // r4 = *(u32 *)(r1 + 6)
        "69150a0000000000", // r5 = *(u16 *)(r1 + 10)
        "6341000000000000", // *(u32 *)(r1 + 0) = r4
        "6b51040000000000", // *(u16 *)(r1 + 4) = r5
        "6321060000000000", // *(u32 *)(r1 + 6) = r2
        "6b310a0000000000", // *(u16 *)(r1 + 10) = r3
        "b700000003000000", // r0 = 3
        "9500000000000000", // exit
    ];
    assert_eq!(parsed("tx"), expected);
}
