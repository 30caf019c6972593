//! Programs of a known number of instructions, which show that counts are exact.
//!
//! Each is a static ELF file for a guest's `/init`: loops, and then a system call that does not
//! return. A count that differs by one is wrong.

use crate::Arch;
use std::ops::Range;

/// A program, and the work that it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// The ELF file.
    pub(super) elf: Vec<u8>,
    /// Addresses of its loops, and the instructions that it executes there; the last has its end,
    /// too.
    pub(super) loops: Vec<(Range<u64>, u64)>,
    /// Loads from device memory, and as many stores to it.
    pub(super) accesses: u64,
}

/// Returns a program with two loops. One loads from and stores to its stack `rounds` times. The
/// other stores to `pages` new pages of its stack, 64 KiB apart: each store faults once. The stack
/// has room for 100.
pub(super) fn memory_and_fault_loops(arch: Arch, rounds: u32, pages: u32) -> Program {
    let [memory, fault] = match arch {
        Arch::X86_64 => {
            [(X86_STACK, rounds), (X86_PAGES, pages)].map(|(b, n)| x86(Vec::new(), b, n))
        }
        Arch::Arm64 => {
            [(ARM64_STACK, rounds), (ARM64_PAGES, pages)].map(|(b, n)| arm64(Vec::new(), b, n))
        }
        Arch::Ppc64 => [(PPC64_STACK, rounds), (PPC64_PAGES, pages)].map(|(b, n)| ppc64(b, n)),
    };
    program(arch, &[(memory, rounds), (fault, pages)], 0)
}

/// Returns a program whose loop loads from and stores to device memory `rounds` times, each in the
/// middle of a translated block.
///
/// The kernel needs `iomem=relaxed`, the initramfs `/dev/mem`, and the machine must be `q35` or
/// `virt`. There is none for `pseries`, which has no device memory at a fixed address.
pub(super) fn device_loop(arch: Arch, rounds: u32) -> Option<Program> {
    let code = match arch {
        Arch::X86_64 => x86(X86_MAP.map(<[u8]>::to_vec).to_vec(), X86_DEVICE, rounds),
        Arch::Arm64 => arm64(words(&ARM64_MAP), ARM64_DEVICE, rounds),
        Arch::Ppc64 => return None,
    };
    Some(program(arch, &[(code, rounds)], rounds.into()))
}

/// Address of the file in memory.
const BASE: u32 = 0x40_0000;
/// Offsets of the segment's header, of the path of memory, and of the code.
const SEGMENT: usize = 64;
const PATH: usize = SEGMENT + 56;
const CODE: usize = PATH + 16;

/// Instructions. Those of the round are executed once a round, the others once.
struct Code {
    before: Vec<Vec<u8>>,
    round: Vec<Vec<u8>>,
    after: Vec<Vec<u8>>,
}

/// Returns a program of loops with their rounds, and the end of the last.
fn program(arch: Arch, all: &[(Code, u32)], accesses: u64) -> Program {
    let (mut code, mut loops) = (Vec::new(), Vec::new());
    for (n, (part, rounds)) in all.iter().enumerate() {
        let after = if n + 1 == all.len() { &part.after[..] } else { &[] };
        let start = code.len();
        code.extend([&part.before, &part.round, after].map(<[_]>::concat).concat());
        let once = part.before.len() + part.round.len() * *rounds as usize + after.len();
        let address = |offset: usize| u64::from(BASE) + (CODE + offset) as u64;
        loops.push((address(start)..address(code.len()), once as u64));
    }
    Program { elf: elf(arch, &code), loops, accesses }
}

/// Returns a static ELF file of one segment, which begins with the file.
fn elf(arch: Arch, code: &[u8]) -> Vec<u8> {
    // e_machine, e_flags: the second is the version of the ABI.
    let (machine, flags) = match arch {
        Arch::X86_64 => (62_u16, 0_u32),
        Arch::Arm64 => (183, 0),
        Arch::Ppc64 => (21, 2),
    };
    let (base, length) = (u64::from(BASE), (CODE + code.len()) as u64);
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    elf.extend([2_u16, machine].map(u16::to_le_bytes).concat()); // ET_EXEC
    elf.extend(1_u32.to_le_bytes());
    // Entry, program headers, no section headers.
    elf.extend([base + CODE as u64, SEGMENT as u64, 0].map(u64::to_le_bytes).concat());
    elf.extend(flags.to_le_bytes());
    elf.extend([64_u16, 56, 1, 0, 0, 0].map(u16::to_le_bytes).concat());
    elf.extend([1_u32, 5].map(u32::to_le_bytes).concat()); // PT_LOAD, read and execute
    let segment = [0, base, base, length, length, 0x1_0000];
    elf.extend(segment.map(u64::to_le_bytes).concat());
    elf.extend(b"/dev/mem\0\0\0\0\0\0\0\0");
    elf.extend(code);
    elf
}

fn words(instructions: &[u32]) -> Vec<Vec<u8>> {
    instructions.iter().map(|w| w.to_le_bytes().to_vec()).collect()
}

type X86Round = [&'static [u8]; 3];

const X86_STACK: X86Round = [
    &[0x48, 0x8b, 0x04, 0x24], // mov rax, [rsp]
    &[0x48, 0xff, 0xc0],       // inc rax
    &[0x48, 0x89, 0x04, 0x24], // mov [rsp], rax
];

const X86_PAGES: X86Round = [
    &[0x48, 0x81, 0xec, 0, 0, 1, 0], // sub rsp, 65536
    &[0x48, 0x89, 0x04, 0x24],       // mov [rsp], rax
    &[0x90],                         // nop
];

const X86_DEVICE: X86Round = [
    &[0x8b, 0x03], // mov eax, [rbx]
    &[0xff, 0xc0], // inc eax
    &[0x89, 0x03], // mov [rbx], eax
];

/// Maps the registers of the HPET at rbx.
const X86_MAP: [&[u8]; 14] = [
    &[0xbf, PATH as u8, 0, 0x40, 0], // mov edi, the path
    &[0xbe, 0x02, 0x10, 0x10, 0],    // mov esi, O_RDWR | O_SYNC
    &[0xb8, 2, 0, 0, 0],             // mov eax, 2: open
    &[0x0f, 0x05],                   // syscall
    &[0x49, 0x89, 0xc0],             // mov r8, rax
    &[0x31, 0xff],                   // xor edi, edi
    &[0xbe, 0, 0x10, 0, 0],          // mov esi, 4096
    &[0xba, 3, 0, 0, 0],             // mov edx, PROT_READ | PROT_WRITE
    &[0x41, 0xba, 1, 0, 0, 0],       // mov r10d, MAP_SHARED
    &[0x41, 0xb9, 0, 0, 0xd0, 0xfe], // mov r9d, 0xfed00000
    &[0xb8, 9, 0, 0, 0],             // mov eax, 9: mmap
    &[0x0f, 0x05],                   // syscall
    &[0x48, 0x89, 0xc3],             // mov rbx, rax
    &[0x90],                         // nop
];

fn x86(mut before: Vec<Vec<u8>>, body: X86Round, rounds: u32) -> Code {
    before.push([&[0xb9_u8][..], &rounds.to_le_bytes()].concat()); // mov ecx
    let mut round = body.map(<[u8]>::to_vec).to_vec();
    round.push(vec![0xff, 0xc9]); // dec ecx
    let back = -(round.concat().len() as i8 + 2);
    round.push(vec![0x75, back.cast_unsigned()]); // jnz
    let after: [&[u8]; 6] = [
        &[0x31, 0xff],             // xor edi, edi
        &[0x31, 0xf6],             // xor esi, esi
        &[0x31, 0xd2],             // xor edx, edx
        &[0x45, 0x31, 0xd2],       // xor r10d, r10d
        &[0xb8, 0x0f, 0x01, 0, 0], // mov eax, 271: ppoll
        &[0x0f, 0x05],             // syscall
    ];
    Code { before, round, after: after.map(<[u8]>::to_vec).to_vec() }
}

type Arm64Round = [u32; 3];

const ARM64_STACK: Arm64Round = [
    0xf940_03e0, // ldr x0, [sp]
    0x9100_0400, // add x0, x0, #1
    0xf900_03e0, // str x0, [sp]
];

const ARM64_PAGES: Arm64Round = [
    0xd140_43ff, // sub sp, sp, #65536
    0xf900_03e0, // str x0, [sp]
    0xd503_201f, // nop
];

const ARM64_DEVICE: Arm64Round = [
    0xb940_0040, // ldr w0, [x2]
    0x1100_0400, // add w0, w0, #1
    0xb900_0040, // str w0, [x2]
];

/// Maps the registers of the first virtio-mmio transport at x2.
const ARM64_MAP: [u32; 15] = [
    0x9280_0c60,                      // mov x0, #-100: AT_FDCWD
    0xd280_0001 | (PATH as u32) << 5, // movz x1, the path
    0xf2a0_0801,                      // movk x1, #0x40, lsl #16
    0x5282_0042,                      // movz w2, #0x1002: O_RDWR | O_SYNC
    0x72a0_0202,                      // movk w2, #0x10, lsl #16
    0xd280_0708,                      // mov x8, #56: openat
    0xd400_0001,                      // svc #0
    0xaa00_03e4,                      // mov x4, x0
    0xd280_0000,                      // mov x0, #0
    0xd282_0001,                      // mov x1, #4096
    0xd280_0062,                      // mov x2, #3: PROT_READ | PROT_WRITE
    0xd280_0023,                      // mov x3, #1: MAP_SHARED
    0x52a1_4005,                      // mov w5, #0x0a000000
    0xd280_1bc8,                      // mov x8, #222: mmap
    0xd400_0001,                      // svc #0
];

fn arm64(mut before: Vec<Vec<u8>>, body: Arm64Round, rounds: u32) -> Code {
    before.extend(words(&[
        0xaa00_03e2,                          // mov x2, x0
        0x5280_0001 | (rounds & 0xffff) << 5, // movz w1
        0x72a0_0001 | (rounds >> 16) << 5,    // movk w1, lsl #16
    ]));
    let mut round = words(&body);
    round.extend(words(&[
        0x7100_0421, // subs w1, w1, #1
        0x54ff_ff81, // b.ne, back by four
    ]));
    let after = words(&[
        0xd280_0000, // mov x0, #0
        0xd280_0001, // mov x1, #0
        0xd280_0002, // mov x2, #0
        0xd280_0003, // mov x3, #0
        0xd280_0928, // mov x8, #73: ppoll
        0xd400_0001, // svc #0
    ]);
    Code { before, round, after }
}

type Ppc64Round = [u32; 4];

const PPC64_STACK: Ppc64Round = [
    0xe861_0000, // ld r3, 0(r1)
    0x3863_0001, // addi r3, r3, 1
    0xf861_0000, // std r3, 0(r1)
    0x6000_0000, // nop
];

const PPC64_PAGES: Ppc64Round = [
    0x3c21_ffff, // addis r1, r1, -1
    0xf861_0000, // std r3, 0(r1)
    0x6000_0000, // nop
    0x6000_0000, // nop
];

fn ppc64(body: Ppc64Round, rounds: u32) -> Code {
    let before = words(&[
        0x3c80_0000 | (rounds >> 16),    // lis r4
        0x6084_0000 | (rounds & 0xffff), // ori r4, r4
        0x7c89_03a6,                     // mtctr r4
    ]);
    let mut round = words(&body);
    round.extend(words(&[0x4200_fff0])); // bdnz, back by four
    let after = words(&[
        0x3860_0000, // li r3, 0
        0x3880_0000, // li r4, 0
        0x38a0_0000, // li r5, 0
        0x38c0_0000, // li r6, 0
        0x3800_0119, // li r0, 281: ppoll
        0x4400_0002, // sc
    ]);
    Code { before, round, after }
}
