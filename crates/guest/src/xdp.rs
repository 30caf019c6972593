//! XDP programs for the driver under test, as objects that `ip link set … xdp obj` loads: one drops
//! every frame, the other sends every frame back.
//!
//! Sources: RFC 9669 (BPF instructions), Linux's uapi/linux/bpf.h (`xdp_md`, `xdp_action`).

#[cfg(test)]
mod tests;

use crate::Error;
use object::write::{Object, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, SectionKind};
use object::{SymbolFlags, SymbolKind, SymbolScope, elf};

/// The programs by their name in the word `xdp` of a workload.
pub(crate) const PROGRAMS: [(&str, &[Instruction]); 2] = [("drop", &DROP), ("tx", &TX)];
/// The section that holds the program. It names the type for libbpf.
pub(crate) const SECTION: &str = "xdp";

/// Classes, sizes and operations, ORed into an operation code.
mod code {
    /// Classes.
    pub(super) const LDX: u8 = 0x01;
    pub(super) const STX: u8 = 0x03;
    pub(super) const JMP: u8 = 0x05;
    pub(super) const ALU64: u8 = 0x07;
    /// Loads and stores at a register and an offset, of four bytes or of two.
    pub(super) const MEM_W: u8 = 0x60;
    pub(super) const MEM_H: u8 = 0x68;
    /// The second operand is a register.
    pub(super) const X: u8 = 0x08;
    /// Operations.
    pub(super) const ADD: u8 = 0x00;
    pub(super) const MOV: u8 = 0xb0;
    pub(super) const JGT: u8 = 0x20;
    pub(super) const EXIT: u8 = 0x90;
}
use code::{ADD, ALU64, EXIT, JGT, JMP, LDX, MEM_H, MEM_W, MOV, STX, X};

/// Results of a program.
const XDP_DROP: i32 = 1;
const XDP_TX: i32 = 3;

/// An instruction: operation code, destination, source, offset, immediate.
pub(crate) struct Instruction(u8, u8, u8, i16, i32);

const DROP: [Instruction; 2] =
    [Instruction(ALU64 | MOV, 0, 0, 0, XDP_DROP), Instruction(JMP | EXIT, 0, 0, 0, 0)];

/// Swaps the addresses. r1 is the context, whose first two fields are begin and end of the frame;
/// r0 is the result.
const TX: [Instruction; 16] = [
    Instruction(ALU64 | MOV, 0, 0, 0, XDP_DROP),
    Instruction(LDX | MEM_W, 2, 1, 4, 0),
    Instruction(LDX | MEM_W, 1, 1, 0, 0),
    // The verifier wants to see that both addresses are within the frame.
    Instruction(ALU64 | MOV | X, 3, 1, 0, 0),
    Instruction(ALU64 | ADD, 3, 0, 0, 14),
    Instruction(JMP | JGT | X, 3, 2, 9, 0),
    Instruction(LDX | MEM_W, 2, 1, 0, 0),
    Instruction(LDX | MEM_H, 3, 1, 4, 0),
    Instruction(LDX | MEM_W, 4, 1, 6, 0),
    Instruction(LDX | MEM_H, 5, 1, 10, 0),
    Instruction(STX | MEM_W, 1, 4, 0, 0),
    Instruction(STX | MEM_H, 1, 5, 4, 0),
    Instruction(STX | MEM_W, 1, 2, 6, 0),
    Instruction(STX | MEM_H, 1, 3, 10, 0),
    Instruction(ALU64 | MOV, 0, 0, 0, XDP_TX),
    Instruction(JMP | EXIT, 0, 0, 0, 0),
];

/// Returns a program as bytes. All guests that have XDP here are little-endian.
fn text(program: &[Instruction]) -> Vec<u8> {
    let bytes = |&Instruction(code, destination, source, offset, immediate): &Instruction| {
        let [o, p] = offset.to_le_bytes();
        let [a, b, c, d] = immediate.to_le_bytes();
        [code, source << 4 | destination, o, p, a, b, c, d]
    };
    program.iter().flat_map(bytes).collect()
}

/// Returns the object of a program.
pub(crate) fn object(program: &[Instruction]) -> Result<Vec<u8>, Error> {
    let mut file = Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
    let section = file.add_section(Vec::new(), SECTION.into(), SectionKind::Text);
    let text = text(program);
    file.append_section_data(section, &text, 8);
    file.add_symbol(Symbol {
        name: SECTION.into(),
        value: 0,
        size: text.len() as u64,
        kind: SymbolKind::Text,
        scope: SymbolScope::Linkage,
        weak: false,
        section: SymbolSection::Section(section),
        flags: SymbolFlags::Elf {
            st_info: elf::STB_GLOBAL | elf::STT_FUNC,
            st_other: elf::STV_DEFAULT.into(),
        },
    });
    file.write().map_err(|e| Error::Io {
        place: "an XDP program".to_owned(),
        source: std::io::Error::other(e),
    })
}
