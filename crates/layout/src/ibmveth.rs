//! ibmveth, the logical LAN adapter of POWER partitions: hypervisor calls, buffer
//! descriptors, receive queue, attributes.
//!
//! Sources: PAPR+ (LoPAR), "Logical LAN option" and "Virtual I/O support"; Linux
//! `drivers/net/ethernet/ibm/ibmveth.h`, `arch/powerpc/include/asm/hvcall.h`; the
//! buffer-list page as QEMU's `hw/net/spapr_llan.c` keeps it.
//!
//! The adapter has no registers. Its driver calls the hypervisor with the adapter's
//! **unit address** as the first argument, and with **ioba**s: 32-bit addresses in the
//! adapter's translation table (TCEs). Call arguments are values in registers; what
//! lies in memory is big-endian.
//!
//! The driver lends buffers to the hypervisor with [`H_ADD_LOGICAL_LAN_BUFFER`]. For a
//! frame it takes the smallest that fits, writes the frame behind the buffer's first
//! [`CORRELATOR`] bytes, and an [`Entry`] with a copy of those bytes into the receive
//! queue. Which entries are new is told by their toggle, which changes its meaning
//! each time the queue wraps.

use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

// ---- calls, by number (the seam's `Hcall`) ----

/// Switches an adapter's interrupt: unit address, [`SIGNAL_OFF`] or [`SIGNAL_ON`].
pub const H_VIO_SIGNAL: u64 = 0x104;
/// Opens an adapter: unit address, ioba of the buffer list (a page), descriptor of the
/// receive queue, ioba of the filter list (a page), MAC ([`mac`]).
pub const H_REGISTER_LOGICAL_LAN: u64 = 0x114;
/// Closes it: unit address. Repeated while busy.
pub const H_FREE_LOGICAL_LAN: u64 = 0x118;
/// Lends a receive buffer: unit address, descriptor.
pub const H_ADD_LOGICAL_LAN_BUFFER: u64 = 0x11c;
/// Sends a frame. The arguments are in [`send`]; returns a correlator in the first
/// return register with H_BUSY, to be given back with the next try.
pub const H_SEND_LOGICAL_LAN: u64 = 0x120;
/// Multicast: unit address, command ([`multicast`]), MAC.
pub const H_MULTICAST_CTRL: u64 = 0x130;
/// Unit address, MAC.
pub const H_CHANGE_LOGICAL_LAN_MAC: u64 = 0x14c;
/// Takes a buffer back: unit address, its size.
pub const H_FREE_LOGICAL_LAN_BUFFER: u64 = 0x1d4;
/// Reads and changes attributes: unit address, mask to reset, mask to set; returns
/// what they are then in the first return register ([`attribute`]).
pub const H_ILLAN_ATTRIBUTES: u64 = 0x244;
/// Lends up to [`ADD_BUFFERS`] receive buffers: unit address, descriptors, the first that
/// is not valid ends them. Only with [`attribute::RX_MULTI_BUFF`].
pub const H_ADD_LOGICAL_LAN_BUFFERS: u64 = 0x248;

/// Descriptors in one H_ADD_LOGICAL_LAN_BUFFERS.
pub const ADD_BUFFERS: usize = 8;

/// Argument of H_VIO_SIGNAL: no interrupts.
pub const SIGNAL_OFF: u64 = 0;
/// Argument of H_VIO_SIGNAL: interrupts.
pub const SIGNAL_ON: u64 = 1;

macro_rules! constants {
    ($type:ty; $($(#[doc = $doc:literal])+ $name:ident = $value:expr;)*) => {
        $($(#[doc = $doc])+ pub const $name: $type = $value;)*
    };
}

/// Return codes.
pub mod status {
    constants! { i64;
        /// Done.
        H_SUCCESS = 0;
        /// Busy: try again, with what it returned.
        H_BUSY = 1;
        /// The hardware failed.
        H_HARDWARE = -1;
        /// No such call.
        H_FUNCTION = -2;
        /// Not for this caller.
        H_PRIVILEGE = -3;
        /// An argument is wrong.
        H_PARAMETER = -4;
        /// What was asked for is not there.
        H_NOT_FOUND = -7;
        /// The frame was lost.
        H_DROPPED = -12;
        /// No room, or taken already.
        H_RESOURCE = -16;
    }
}

/// Where the arguments of H_SEND_LOGICAL_LAN are.
pub mod send {
    constants! { usize;
        /// Unit address.
        UNIT = 0;
        /// The first descriptor; the first that is not valid ends them.
        DESCRIPTORS = 1;
        /// Descriptors.
        MAX = 6;
        /// Correlator: 0, or what the last try returned with H_BUSY.
        CORRELATOR = 7;
        /// Maximum segment size. It is an argument only if large send was negotiated.
        MSS = 8;
        /// Arguments without large send.
        PLAIN = 8;
        /// Arguments with it.
        LARGE = 9;
    }
}

/// Commands of H_MULTICAST_CTRL: what to modify, to which state, and one of the table
/// commands.
pub mod multicast {
    constants! { u64;
        /// RecvModify: change whether multicast is received.
        RECEIVE_MODIFY = 0x8_0000;
        /// RecvEnable: it is.
        RECEIVE_ENABLE = 0x2_0000;
        /// FilterModify: change whether the table is looked at.
        FILTER_MODIFY = 0x4_0000;
        /// FilterEnable: it is; otherwise all multicast is received.
        FILTER_ENABLE = 0x1_0000;
        /// Table command: none.
        NONE = 0;
        /// Table command: add the address.
        ADD = 1;
        /// Table command: remove the address.
        REMOVE = 2;
        /// Table command: clear the table.
        CLEAR = 3;
        /// Where the table command is.
        TABLE = 3;
    }
}

/// Attributes of an adapter.
pub mod attribute {
    constants! { u64;
        /// H_ADD_LOGICAL_LAN_BUFFERS is there.
        RX_MULTI_BUFF = 0x4_0000;
        /// Large send and receive are on.
        LRG_SR_ENABLED = 0x1_0000;
        /// Large send is there.
        LRG_SND_SUPPORT = 0x8000;
        /// Checksums of padded frames are right: needed for checksum offload.
        PADDED_PKT_CSUM = 0x2000;
        /// Priority of a trunk adapter; 0 is none.
        TRUNK_PRI = 0x0f00;
        /// Where it begins.
        TRUNK_PRI_SHIFT = 8;
        /// TCP checksums over IPv6 may be left out.
        IPV6_TCP_CSUM = 4;
        /// TCP checksums over IPv4 may be left out.
        IPV4_TCP_CSUM = 2;
        /// The active trunk adapter: what has no local owner comes here.
        ACTIVE_TRUNK = 1;
    }
}

/// A MAC as a call argument: its first byte highest of the low 48 bits.
pub const fn mac(a: [u8; 6]) -> u64 {
    u64::from_be_bytes([0, 0, a[0], a[1], a[2], a[3], a[4], a[5]])
}

/// The MAC in a call argument.
pub const fn mac_bytes(v: u64) -> [u8; 6] {
    let [_, _, a, b, c, d, e, f] = v.to_be_bytes();
    [a, b, c, d, e, f]
}

// ---- buffers ----

/// A buffer descriptor: flags, a length of 24 bits, an ioba of 32. A call argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Descriptor(pub u64);

impl Descriptor {
    /// Without it there is no buffer.
    pub const VALID: u64 = 1 << 63;
    /// The toggle that the next entry will have; in the receive queue's descriptor, as
    /// the hypervisor keeps it.
    pub const TOGGLE: u64 = 1 << 62;
    /// Send: a large send, to be cut by the mss.
    pub const LRG_SND: u64 = 1 << 58;
    /// Send: the TCP checksum is left out.
    pub const NO_CSUM: u64 = 1 << 57;
    /// Send: the sender vouches for the data.
    pub const CSUM_GOOD: u64 = 1 << 56;
    /// Where the length begins.
    pub const LENGTH_SHIFT: u32 = 32;
    /// The largest length.
    pub const LENGTH_MAX: u32 = 0xff_ffff;

    /// A valid descriptor of `len` bytes at `ioba`, with further flags.
    ///
    /// `len` is at most [`Descriptor::LENGTH_MAX`].
    pub const fn new(flags: u64, len: u32, ioba: u32) -> Descriptor {
        debug_assert!(len <= Descriptor::LENGTH_MAX);
        Descriptor(
            Descriptor::VALID | flags | (len as u64) << Descriptor::LENGTH_SHIFT | ioba as u64,
        )
    }
    /// Whether there is a buffer.
    pub const fn is_valid(self) -> bool {
        self.0 & Descriptor::VALID != 0
    }
    /// Its bytes.
    pub const fn len(self) -> u32 {
        (self.0 >> Descriptor::LENGTH_SHIFT) as u32 & Descriptor::LENGTH_MAX
    }
    /// Whether it has none.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
    /// Where it is.
    pub const fn ioba(self) -> u32 {
        self.0 as u32
    }
}

/// Bytes at the beginning of a receive buffer that are the driver's: the hypervisor
/// returns them in the entry and writes the frame behind them.
pub const CORRELATOR: u32 = 8;
/// What a receive buffer needs beyond the MTU: Ethernet header and correlator.
pub const OVERHEAD: u32 = 14 + CORRELATOR;
/// Alignment of a receive buffer and of its length.
pub const BUFFER_ALIGN: u32 = 4;
/// The shortest receive buffer.
pub const BUFFER_MIN: u32 = 16;
/// A large packet ([`Entry::LRG_PKT`]) has its mss here, 64 bits of which the low 16
/// count; the entry's offset leads behind it.
pub const MSS_AT: u32 = CORRELATOR;
/// Bytes of the mss field.
pub const MSS_LEN: u32 = 8;

/// Buffer list and filter list are a page each, aligned.
pub const PAGE: u32 = 4096;

/// The buffer-list page. It is the hypervisor's while the adapter is open; a driver
/// reads [`buffer_list::RX_NO_BUFFER`] only.
pub mod buffer_list {
    constants! { u32;
        /// The receive queue's descriptor, with the toggle of the next entry.
        RX_QUEUE = 0;
        /// The filter list's descriptor.
        FILTER = 8;
        /// The first buffer descriptor.
        BUFFERS = 16;
        /// Buffer descriptors at most.
        MAX = (RX_NO_BUFFER - BUFFERS) / 8;
        /// Frames lost because no buffer fitted: 64 bits.
        RX_NO_BUFFER = super::PAGE - 8;
    }
}

// ---- receive queue ----

/// Bytes of an entry; the queue's address and length are multiples of it.
pub const ENTRY: u32 = 16;

/// An entry of the receive queue. The hypervisor writes `flags` last.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Entry {
    /// Toggle, flags, and where in the buffer the frame begins.
    pub flags: U32,
    /// Bytes of the frame.
    pub length: U32,
    /// The buffer's first eight bytes.
    pub correlator: U64,
}
const _: () = assert!(size_of::<Entry>() == ENTRY as usize);

impl Entry {
    /// New if it is 1 in the queue's first lap, 0 in the second, and so on.
    pub const TOGGLE: u32 = 0x8000_0000;
    /// There is a frame; otherwise the buffer only comes back.
    pub const VALID: u32 = 0x4000_0000;
    /// A large packet, the mss is in the buffer.
    pub const LRG_PKT: u32 = 0x0400_0000;
    /// The sender left the TCP checksum out.
    pub const NO_CSUM: u32 = 0x0200_0000;
    /// The sender vouches for the data.
    pub const CSUM_GOOD: u32 = 0x0100_0000;
    /// Where the frame begins, from the buffer's first byte.
    pub const OFFSET: u32 = 0xffff;
    /// Where the flags are.
    pub const FLAGS_AT: u32 = core::mem::offset_of!(Entry, flags) as u32;
    /// Where the length is.
    pub const LENGTH_AT: u32 = core::mem::offset_of!(Entry, length) as u32;
    /// Where the correlator is.
    pub const CORRELATOR_AT: u32 = core::mem::offset_of!(Entry, correlator) as u32;
}

/// The old in-band large send, of TCP over IPv4: the IP checksum has this value, and
/// the TCP checksum is the mss.
pub const OLD_LARGE_SEND: u16 = 0xffff;

#[cfg(test)]
mod tests;
