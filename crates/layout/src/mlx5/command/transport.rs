//! How a command gets to the device: the initialization segment, the queue's
//! entries, the mailboxes (device.h `mlx5_init_seg`, `mlx5_cmd_layout`,
//! `mlx5_cmd_prot_block`).

use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Entries that a command queue may have at the most: the doorbell has a bit for each.
pub const SLOTS: u32 = 32;

/// Offsets in BAR0.
pub mod init_segment {
    /// Firmware revision: minor << 16 | major.
    pub const FW_REV: u32 = 0x00;
    /// Command interface revision (5) << 16 | sub minor.
    pub const CMDIF_REV: u32 = 0x04;
    /// The interface revision that drivers know.
    pub const CMDIF: u32 = 5;
    /// Command queue address, upper half.
    pub const CMDQ_HI: u32 = 0x10;
    /// Command queue address, lower half; \[9:8\] nic_interface, \[7:4\] log2 of its
    /// entries, \[3:0\] log2 of their distance. The last two can only be read.
    pub const CMDQ_LO: u32 = 0x14;
    /// Command doorbell: a bit for each slot.
    pub const DOORBELL: u32 = 0x18;
    /// \[31\] initializing, \[26:24\] nic_interface_supported.
    pub const INITIALIZING: u32 = 0x1fc;
    /// Health buffer, 64 bytes.
    pub const HEALTH: u32 = 0x200;
    /// Time that a command may take, and that coming up may take; in milliseconds, 0: the driver's
    /// own.
    pub const CMD_EXEC_TO: u32 = 0xff8;
    /// Internal timer, upper half.
    pub const TIMER_HI: u32 = 0x1000;
    /// Internal timer, lower half.
    pub const TIMER_LO: u32 = 0x1004;
    /// \[31:8\] a counter that moves while the device lives.
    pub const HEALTH_COUNTER: u32 = 0x1010;
    /// Bytes; MSI-X tables and doorbell pages follow.
    pub const LEN: u32 = 0x2000;
}

/// What a driver reads of the initialization segment before it does anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitSegment {
    /// Major, minor and sub minor revision of the firmware.
    pub firmware: (u16, u16, u16),
    /// Revision of the command interface.
    pub cmdif: u16,
    /// log2 of the command queue's entries.
    pub log_slots: u32,
    /// log2 of the distance between two entries in bytes.
    pub log_stride: u32,
}

/// `Entry::kind`: PCIe transport.
pub mod entry_type {
    /// The only one.
    pub const PCIE: u8 = 7;
}

/// A command queue entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Entry {
    /// [`entry_type`].
    pub kind: u8,
    /// Reserved.
    pub rsvd1: [u8; 3],
    /// Bytes of input.
    pub input_length: U32,
    /// First input mailbox; 0: there is none.
    pub input_mailbox: U64,
    /// The first 16 bytes of input.
    pub input: [u8; 16],
    /// The first 16 bytes of output.
    pub output: [u8; 16],
    /// First output mailbox; 0: there is none.
    pub output_mailbox: U64,
    /// Bytes of output.
    pub output_length: U32,
    /// Stands in every mailbox of the command.
    pub token: u8,
    /// With it all bytes of the entry add up, by exclusive or, to 0xff.
    pub signature: u8,
    /// Reserved.
    pub rsvd62: u8,
    /// \[0\] [`own::HARDWARE`], \[7:1\] [`delivery`] status.
    pub status_own: u8,
}
const _: () = assert!(size_of::<Entry>() == 64);

/// Who an entry belongs to.
pub mod own {
    /// The device.
    pub const HARDWARE: u8 = 1;
}

/// A mailbox: 512 bytes of a command's input or output beyond the first 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Mailbox {
    /// The bytes.
    pub data: [u8; mailbox::DATA],
    /// Reserved.
    pub rsvd: [u8; 48],
    /// The next one; 0: this is the last.
    pub next: U64,
    /// Counts from 0.
    pub block_number: U32,
    /// Reserved.
    pub rsvd572: u8,
    /// The entry's.
    pub token: u8,
    /// With it the bytes from `rsvd` to itself add up to 0xff.
    pub control_signature: u8,
    /// With it all bytes add up to 0xff.
    pub signature: u8,
}
const _: () = assert!(size_of::<Mailbox>() == 576);

/// Sizes of a [`Mailbox`].
pub mod mailbox {
    /// Bytes of data in it.
    pub const DATA: usize = 512;
    /// What its address is a multiple of.
    pub const ALIGN: u32 = 1024;
    /// Where what is not data begins.
    pub const CONTROL: usize = DATA;
}

impl Mailbox {
    /// Writes both signatures.
    pub fn sign(&mut self) {
        self.control_signature = 0;
        self.signature = 0;
        self.control_signature = !xor(&self.as_bytes()[mailbox::CONTROL..]);
        self.signature = !xor(self.as_bytes());
    }
}

impl Entry {
    /// Writes the signature.
    pub fn sign(&mut self) {
        self.signature = 0;
        self.signature = !xor(self.as_bytes());
    }
}

/// Exclusive or of all bytes.
pub fn xor(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |a, b| a ^ b)
}

/// Delivery status, \[7:1\] of [`Entry::status_own`]: whether a command arrived at all
/// (cmd.c `deliv_status_to_str`).
pub mod delivery {
    /// It did; the output says the rest.
    pub const OK: u8 = 0x00;
    /// A signature is wrong.
    pub const SIGNATURE: u8 = 0x01;
    /// A mailbox has another token.
    pub const TOKEN: u8 = 0x02;
    /// A mailbox has another number than its place.
    pub const BLOCK_NUMBER: u8 = 0x03;
    /// The output mailbox pointer is not aligned.
    pub const OUTPUT_POINTER: u8 = 0x04;
    /// The input mailbox pointer is not aligned.
    pub const INPUT_POINTER: u8 = 0x05;
    /// The device failed inside, or memory could not be read.
    pub const FIRMWARE: u8 = 0x06;
    /// The input is shorter than a header, longer than any command, or than its mailboxes.
    pub const INPUT_LENGTH: u8 = 0x07;
    /// The same for the output.
    pub const OUTPUT_LENGTH: u8 = 0x08;
    /// What is reserved is not zero.
    pub const RESERVED: u8 = 0x09;
    /// The entry is of no known kind.
    pub const DESCRIPTOR: u8 = 0x10;
}

/// All delivery statuses but OK.
pub const DELIVERY: [u8; 10] = [
    delivery::SIGNATURE,
    delivery::TOKEN,
    delivery::BLOCK_NUMBER,
    delivery::OUTPUT_POINTER,
    delivery::INPUT_POINTER,
    delivery::FIRMWARE,
    delivery::INPUT_LENGTH,
    delivery::OUTPUT_LENGTH,
    delivery::RESERVED,
    delivery::DESCRIPTOR,
];
