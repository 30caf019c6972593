//! Delivery of a command: initialization segment, queue entries, mailboxes (device.h
//! `mlx5_init_seg`, `mlx5_cmd_layout`, `mlx5_cmd_prot_block`).

use zerocopy::IntoBytes;
use zerocopy::byteorder::big_endian::{U32, U64};

/// Entries that a command queue may have at the most: the doorbell has a bit for each.
pub const SLOTS: u32 = 32;

layout! {
    /// Offsets in BAR0.
    registers init_segment: u32 {
        FW_REV = 0x00, "Firmware revision: minor << 16 | major.";
        CMDIF_REV = 0x04, "Command interface revision (5) << 16 | sub minor.";
        CMDIF = 5, "The interface revision that drivers know.";
        CMDQ_HI = 0x10, "Command queue address, upper half.";
        /// Command queue address, lower half; \[9:8\] nic_interface, \[7:4\] log2 of its
        /// entries, \[3:0\] log2 of their distance. The last two can only be read.
        CMDQ_LO = 0x14;
        DOORBELL = 0x18, "Command doorbell: a bit for each slot.";
        /// \[31\] initializing, \[26:24\] nic_interface_supported.
        INITIALIZING = 0x1fc;
        HEALTH = 0x200, "Health buffer, 64 bytes.";
        /// Time that a command may take, and that coming up may take; in milliseconds, 0: the
        /// driver's own.
        CMD_EXEC_TO = 0xff8;
        TIMER_HI = 0x1000, "Internal timer, upper half.";
        TIMER_LO = 0x1004, "Internal timer, lower half.";
        /// \[31:8\] a counter that moves while the device lives.
        HEALTH_COUNTER = 0x1010;
        LEN = 0x2000, "Bytes; MSI-X tables and doorbell pages follow.";
    }
}

/// Fields of the initialization segment that a driver reads first.
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

layout! {
    /// `Entry::kind`: PCIe transport.
    mod entry_type: u8 {
        PCIE = 7, "The only one.";
    }

    /// A command queue entry.
    struct Entry[64] {
        kind: u8, "[`entry_type`].";
        rsvd1: [u8; 3], "Reserved.";
        input_length: U32, "Bytes of input.";
        input_mailbox: U64, "First input mailbox; 0: there is none.";
        input: [u8; 16], "The first 16 bytes of input.";
        output: [u8; 16], "The first 16 bytes of output.";
        output_mailbox: U64, "First output mailbox; 0: there is none.";
        output_length: U32, "Bytes of output.";
        token: u8, "Stands in every mailbox of the command.";
        signature: u8, "With it all bytes of the entry add up, by exclusive or, to 0xff.";
        rsvd62: u8, "Reserved.";
        /// \[0\] [`own::HARDWARE`], \[7:1\] [`delivery`] status.
        status_own: u8;
    }

    /// Owner of an entry.
    mod own: u8 {
        HARDWARE = 1, "The device.";
    }

    /// A mailbox: 512 bytes of a command's input or output beyond the first 16.
    struct Mailbox[576] {
        data: [u8; mailbox::DATA], "The bytes.";
        rsvd: [u8; 48], "Reserved.";
        next: U64, "The next one; 0: this is the last.";
        block_number: U32, "Counts from 0.";
        rsvd572: u8, "Reserved.";
        token: u8, "The entry's.";
        control_signature: u8, "With it the bytes from `rsvd` to itself add up to 0xff.";
        signature: u8, "With it all bytes add up to 0xff.";
    }

    /// Sizes of a [`Mailbox`].
    mod mailbox: usize {
        DATA = 512, "Bytes of data in it.";
        ALIGN: u32 = 1024, "Alignment of its address.";
        CONTROL = DATA, "Offset of the first byte that is not data.";
    }
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

/// Returns the exclusive or of all bytes.
pub fn xor(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |a, b| a ^ b)
}

layout! {
    /// Delivery status, \[7:1\] of [`Entry::status_own`]: whether a command arrived at all
    /// (cmd.c `deliv_status_to_str`).
    mod delivery: u8 {
        OK = 0x00, "It did; the output says the rest.";
        SIGNATURE = 0x01, "A signature is wrong.";
        TOKEN = 0x02, "A mailbox has another token.";
        BLOCK_NUMBER = 0x03, "A mailbox has another number than its place.";
        OUTPUT_POINTER = 0x04, "The output mailbox pointer is not aligned.";
        INPUT_POINTER = 0x05, "The input mailbox pointer is not aligned.";
        FIRMWARE = 0x06, "The device failed inside, or memory could not be read.";
        /// The input is shorter than a header, longer than any command, or than its mailboxes.
        INPUT_LENGTH = 0x07;
        OUTPUT_LENGTH = 0x08, "The same for the output.";
        RESERVED = 0x09, "A reserved field is not zero.";
        DESCRIPTOR = 0x10, "The entry is of no known kind.";
    }
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
