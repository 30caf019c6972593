//! Actions of the guest and of the world.

use crate::fuzz::{Bytes, Frame, input};

input! {
    /// An action of the guest, or of the world.
    pub enum Action {
        /// Writes memory, in units of 32 bytes.
        Poke {
            /// Place.
            at: u16,
            /// Bytes.
            bytes: Bytes,
        },
        /// Writes any register.
        Write {
            /// Region 1.
            other: bool,
            /// Offset,
            offset: u16,
            /// to be shifted so far.
            shift: u8,
            /// Width.
            size: u8,
            /// Value.
            value: u64,
        },
        /// Reads any register.
        Read {
            /// Offset.
            offset: u16,
            /// Width.
            size: u8,
        },
        /// Writes a doorbell with numbers that may be right.
        Doorbell {
            /// The word.
            which: u8,
            /// Its first half.
            first: u32,
            /// The queue.
            n: u8,
        },
        /// Rings for commands.
        Slots {
            /// Their bits.
            slots: u32,
        },
        /// Gives a command that makes sense, or is changed.
        Command {
            /// The kind.
            which: u8,
            /// Its numbers.
            n: u32,
            /// A byte that is changed,
            at: u16,
            /// by these bits.
            bits: u8,
            /// Another opcode, if not 0.
            opcode: u16,
            /// Modifier.
            op_mod: u8,
            /// Room for the output, in 8 bytes.
            room: u8,
        },
        /// Makes receive queues and lets them run.
        Queues {
            /// Their number.
            n: u8,
            /// log2 of the data segments in a WQE.
            stride: u8,
            /// Flags of the context.
            flags: u8,
        },
        /// Posts receive WQEs.
        Post {
            /// The queue.
            queue: u8,
            /// WQEs.
            n: u8,
            /// Bytes of a segment.
            len: u16,
            /// A fault in the WQEs.
            fault: u8,
        },
        /// Makes a TIR: to a queue, or by a hash to all of them.
        Tir {
            /// The hash, symmetric, loopback, direct: bits.
            how: u8,
            /// Hashed fields.
            fields: u32,
            /// Seed of the key.
            key: u8,
        },
        /// Makes a flow table.
        Table {
            /// Its level, and that of the table for what it misses: 4 bits each.
            level: u8,
        },
        /// Makes a rule: frames like this one, compared in these fields, go there.
        Rule {
            /// The table.
            table: u8,
            /// Fields.
            fields: u8,
            /// The frame.
            frame: Frame,
            /// Destination: a TIR, or with the highest bit a table.
            to: u8,
            /// Action beside the usual.
            action: u8,
        },
        /// Sends a frame.
        Send {
            /// The frame.
            frame: Frame,
            /// Checksums, tag, pieces: bits.
            how: u8,
            /// Payload of a segment, if it is to be cut.
            mss: u16,
        },
        /// A frame arrives.
        Receive {
            /// The frame.
            frame: Frame,
        },
        /// Any bytes arrive.
        ReceiveRaw {
            /// Their length,
            len: u16,
            /// their beginning.
            head: Bytes,
        },
        /// Time passes.
        Wait {
            /// Nanoseconds,
            ns: u16,
            /// shifted so far.
            shift: u8,
        },
        /// The cable is pulled and put in.
        Carrier { },
        /// Firmware asks for pages.
        Pages {
            /// Pages, or back if negative.
            n: u8,
        },
        /// The function is reset.
        Reset { },
        /// The station's address is put into the vport's list.
        Address { },
        /// Asks about an object that there is, changes or destroys it.
        Object {
            /// The command.
            which: u8,
            /// The object.
            n: u8,
        },
        /// Changes the state of a queue.
        State {
            /// The send queue, or a receive queue.
            queue: u8,
            /// Its state, as the guest takes it to be,
            from: u8,
            /// and the new one.
            to: u8,
        },
        /// Reads or writes a register of the port.
        Register {
            /// The register.
            which: u8,
            /// Writes it.
            write: bool,
            /// The double word of its contents
            at: u8,
            /// that is this, and not 0.
            value: u32,
        },
        /// Makes a memory key that queues name from now on: with an end, or with pages.
        Key {
            /// Pages, a short one, not readable, not writable: bits.
            how: u8,
            /// The order of its pages.
            order: u8,
        },
        /// Makes an event queue for all events.
        Events { },
        /// Maps pages by a UMR, with a fault.
        Umr {
            /// Place in the key's list, in octowords.
            place: u16,
            /// Octowords.
            octowords: u8,
            /// Flags beside the usual.
            flags: u8,
            /// Bits of the key's number that are wrong.
            key: u8,
            /// Data segments that are missing.
            short: u8,
            /// The page of the first translation.
            page: u16,
        },
    }
}

/// Bits of [`Action::Tir`] beside the hash function.
pub(super) const SYMMETRIC: u8 = 4;
pub(super) const LOOPBACK: u8 = 8;
pub(super) const DIRECT: u8 = 16;
/// Bits of [`Action::Rule`]: fields to compare.
pub(super) const ETHERTYPE: u8 = 1;
pub(super) const DMAC: u8 = 2;
pub(super) const IP_VERSION: u8 = 4;
pub(super) const PROTOCOL: u8 = 8;
pub(super) const PORTS: u8 = 16;
pub(super) const TAG: u8 = 32;
/// Bits of [`Action::Send`]: the tunnel that the frame is in.
pub(super) const CHECKSUMS: u8 = 1;
pub(super) const INSERT_TAG: u8 = 2;
pub(super) const TUNNEL: u8 = 12;
pub(super) const IP_IN_IP: u8 = 4;
pub(super) const GRE: u8 = 8;
pub(super) const VXLAN: u8 = 12;
/// Ethernet in GRE, behind a key.
pub(super) const KEYED: u8 = 64;
/// The WQE says where the headers are. What would be VXLAN is Geneve, for which the device does not
/// look.
pub(super) const TOLD: u8 = 128;
/// Bits of [`Action::Queues`]: tags stay, flushed in an error, a ring that cannot be read.
pub(super) const KEEP_TAG: u8 = 1;
pub(super) const FLUSH: u8 = 2;
pub(super) const UNREADABLE: u8 = 4;
/// With strides, in memory that UMRs map.
pub(super) const STRIDES: u8 = 8;
/// Bits of [`Action::Key`].
pub(super) const PAGES: u8 = 1;
pub(super) const SHORT: u8 = 2;
