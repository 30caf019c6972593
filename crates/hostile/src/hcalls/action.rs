//! Actions of the guest, of its VMM and of the world.

use crate::fuzz::{Bytes, Frame, input};
use doorbell_layout::ibmveth;
use doorbell_layout::ibmvnic::hcall;

/// Calls that the adapters know.
pub(super) const CALLS: [u64; 20] = [
    hcall::REG_CRQ,
    hcall::FREE_CRQ,
    hcall::ENABLE_CRQ,
    hcall::SEND_CRQ,
    hcall::VIO_SIGNAL,
    hcall::VIOCTL,
    hcall::REG_SUB_CRQ,
    hcall::FREE_SUB_CRQ,
    hcall::SEND_SUB_CRQ,
    hcall::SEND_SUB_CRQ_INDIRECT,
    hcall::EOI,
    ibmveth::H_REGISTER_LOGICAL_LAN,
    ibmveth::H_FREE_LOGICAL_LAN,
    ibmveth::H_ADD_LOGICAL_LAN_BUFFER,
    ibmveth::H_ADD_LOGICAL_LAN_BUFFERS,
    ibmveth::H_FREE_LOGICAL_LAN_BUFFER,
    ibmveth::H_SEND_LOGICAL_LAN,
    ibmveth::H_MULTICAST_CTRL,
    ibmveth::H_CHANGE_LOGICAL_LAN_MAC,
    ibmveth::H_ILLAN_ATTRIBUTES,
];

/// An argument of a call from 5 bytes: small, an address, any, a buffer descriptor, a size.
pub(super) fn argument(b: [u8; 5]) -> u64 {
    let v = u64::from(u32::from_le_bytes([b[1], b[2], b[3], b[4]]));
    match b[0] % 6 {
        0 => v,
        1 => v << 4,
        2 => v << 12,
        3 => v << 32 | v,
        // Valid, length, address.
        4 => 1 << 63 | (v >> 16) << 32 | (v & 0xff) << 10,
        _ => 1 << 63 | v << 48,
    }
}

input! {
    /// An action of the guest, of its VMM, or of the world.
    pub enum Action {
        /// Makes a call that an adapter knows.
        Call {
            /// The CPU.
            cpu: u8,
            /// The index of the call.
            call: u8,
            /// Its arguments behind the unit's address: 5 bytes each.
            arguments: Bytes,
        },
        /// vNIC: sends a message on the CRQ.
        Message {
            /// The message.
            message: [u8; 16],
        },
        /// vNIC: begins a session and logs in.
        LogIn { },
        /// vNIC: sends a frame.
        Send {
            /// The frame.
            frame: Frame,
            /// The CPU, one call for each descriptor, header descriptors: bits.
            how: u8,
            /// Flags of the descriptor.
            flags: u8,
            /// Payload of a segment.
            mss: u16,
        },
        /// vNIC: posts receive buffers.
        Post {
            /// Their number.
            n: u8,
            /// Their size.
            len: u16,
        },
        /// vNIC: sends entries to a queue that may be there, with a byte changed.
        Entries {
            /// The queue, their number, the kind of call.
            shape: u8,
            /// Flags.
            flags: u16,
            /// Bytes of the frame.
            len: u16,
            /// Its offset.
            offset: u16,
            /// The byte,
            at: u8,
            /// and its change.
            bits: u8,
        },
        /// Logical LAN: registers it.
        Register {
            /// Entries of the receive queue, 16 and more.
            entries: u8,
        },
        /// Logical LAN: lends buffers.
        Lend {
            /// Their number.
            n: u8,
            /// Their size.
            len: u16,
            /// In one call.
            many: bool,
        },
        /// Logical LAN: sends a frame.
        SendLan {
            /// The frame.
            frame: Frame,
            /// Pieces.
            pieces: u8,
            /// Marks, at their place in the descriptor.
            marks: u8,
            /// Payload of a segment.
            mss: u16,
        },
        /// Writes the call area, if the plug-in is hostile; else memory.
        Area {
            /// The place,
            at: u16,
            /// shifted so far.
            shift: u8,
            /// The bytes.
            bytes: [u8; 8],
        },
        /// Writes memory.
        Poke {
            /// The place, in 4 bytes.
            at: u16,
            /// The bytes.
            bytes: [u8; 32],
        },
        /// Changes entries of the table: none names the other half of memory.
        Entry {
            /// The first page.
            at: u16,
            /// The entry; with a list, the first of successive pages.
            entry: u32,
            /// Their number, and in the highest bit whether a list in memory has them.
            count: u8,
        },
        /// A frame arrives.
        Receive {
            /// The frame.
            frame: Frame,
        },
        /// Time passes.
        Wait {
            /// Microseconds.
            us: u16,
        },
        /// Fails over, migrates, pulls the cable, reports an error: vNIC only.
        Outside {
            /// Which.
            what: u8,
        },
        /// The server is not there for the next action.
        Absent { },
    }
}

/// Bits of [`Action::Send`] above the CPU.
pub(super) const DIRECT: u8 = 0x10;
pub(super) const HEADERS: u8 = 0x20;
pub(super) const TAG: u8 = 0x40;
