//! ibmveth, the logical LAN adapter of POWER partitions: calls, buffers, receive queue, attributes.
//!
//! Calls name the adapter by its **unit address**, and memory by **ioba**: a 32-bit address in the
//! adapter's translation table (TCEs). Structures in memory are big-endian. The driver lends
//! receive buffers. For a frame the hypervisor takes the smallest that fits, writes the frame
//! behind the first [`CORRELATOR`] bytes, and copies those into an [`Entry`] of the receive queue.
//! An entry's toggle tells that it is new; its sense changes each time the queue wraps.
//!
//! Sources: PAPR+ (LoPAR), "Logical LAN option" and "Virtual I/O support"; Linux `ibmveth.h` and
//! `hvcall.h`; the buffer-list page as in QEMU's `hw/net/spapr_llan.c`.

use crate::Call;
use crate::offload::{Offload, Request, checksum_and};
use core::mem::offset_of;
use doorbell_packet::headers::{Ip, Transport};
use zerocopy::big_endian::{U32, U64};

/// The smallest MSS of a large send. A physical adapter behind a shared Ethernet adapter that gets
/// a smaller one freezes until it is reset (linux cc427d24ac64, `ibmveth_features_check`).
pub const MIN_LSO_MSS: u16 = 224;
/// Most bytes of a large send, of which one call sends all.
pub const MAX_LARGE: u32 = 64 << 10;

/// The offloads that an adapter has negotiated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// TCP checksums over IPv4 and IPv6 may be left out.
    pub checksum: [bool; 2],
    /// TCP over IPv4 and IPv6 may be a large send.
    pub large: [bool; 2],
}

/// Returns what the firmware can do for a packet: TCP without a tunnel (PAPR, "ILLAN Checksum
/// Offload Support Option" and "ILLAN Large Send/Receive option"; ibmveth.c `ibmveth_start_xmit`).
pub fn can(request: &Request<'_>, caps: &Caps) -> Offload {
    match request.plain() {
        Some(h) if h.inner.is_none() && h.outer.transport == Some(Transport::Tcp) => {
            let ip = usize::from(h.outer.ip == Ip::V6);
            let all = checksum_and(request, |gso, payload| {
                let fits = gso.size >= MIN_LSO_MSS && request.len <= MAX_LARGE;
                caps.large[ip] && fits && payload > 0 && request.todo.checksum.is_some()
            });
            if caps.checksum[ip] { all } else { Offload::None }
        }
        _ => Offload::None,
    }
}

// ---- calls, by number (`hal::Hcall`) ----

layout! {
    const u64 {
        /// Switches an adapter's interrupt: unit address, [`SIGNAL_OFF`] or [`SIGNAL_ON`].
        H_VIO_SIGNAL = 0x104;
        /// Opens an adapter: unit address, ioba of the buffer list (a page), descriptor of the
        /// receive queue, ioba of the filter list (a page), MAC ([`mac`]).
        H_REGISTER_LOGICAL_LAN = 0x114;
        H_FREE_LOGICAL_LAN = 0x118, "Closes it: unit address. Repeated while busy.";
        H_ADD_LOGICAL_LAN_BUFFER = 0x11c, "Lends a receive buffer: unit address, descriptor.";
        /// Sends a frame. The arguments are in [`send`]; returns a correlator in the first
        /// return register with H_BUSY, to be given back with the next try.
        H_SEND_LOGICAL_LAN = 0x120;
        H_MULTICAST_CTRL = 0x130, "Multicast: unit address, command ([`multicast`]), MAC.";
        H_CHANGE_LOGICAL_LAN_MAC = 0x14c, "Unit address, MAC.";
        H_FREE_LOGICAL_LAN_BUFFER = 0x1d4, "Takes a buffer back: unit address, its size.";
        /// Reads and changes attributes: unit address, mask to reset, mask to set; returns
        /// what they are then in the first return register ([`attribute`]).
        H_ILLAN_ATTRIBUTES = 0x244;
        /// Lends up to [`ADD_BUFFERS`] receive buffers: unit address, descriptors, the first that
        /// is not valid ends them. Only with [`attribute::RX_MULTI_BUFF`].
        H_ADD_LOGICAL_LAN_BUFFERS = 0x248;

        ADD_BUFFERS: usize = 8, "Descriptors in one H_ADD_LOGICAL_LAN_BUFFERS.";

        SIGNAL_OFF = 0, "Argument of H_VIO_SIGNAL: no interrupts.";
        SIGNAL_ON = 1, "Argument of H_VIO_SIGNAL: interrupts.";
    }

    /// Return codes.
    mod status: i64 {
        H_SUCCESS = 0, "Done.";
        H_BUSY = 1, "Busy: try again, with what it returned.";
        H_HARDWARE = -1, "The hardware failed.";
        H_FUNCTION = -2, "No such call.";
        H_PRIVILEGE = -3, "Not for this caller.";
        H_PARAMETER = -4, "An argument is wrong.";
        H_NOT_FOUND = -7, "The object named does not exist.";
        H_DROPPED = -12, "The frame was lost.";
        H_RESOURCE = -16, "No room, or taken already.";
    }

    /// Indices of the arguments of H_SEND_LOGICAL_LAN.
    mod send: usize {
        UNIT = 0, "Unit address.";
        DESCRIPTORS = 1, "The first descriptor; the first that is not valid ends them.";
        MAX = 6, "Descriptors.";
        CORRELATOR = 7, "Correlator: 0, or what the last try returned with H_BUSY.";
        MSS = 8, "Maximum segment size. It is an argument only if large send was negotiated.";
        PLAIN = 8, "Arguments without large send.";
        LARGE = 9, "Arguments with it.";
    }

    /// Commands of H_MULTICAST_CTRL: what to modify, to which state, and one of the table commands.
    mod multicast: u64 {
        RECEIVE_MODIFY = 0x8_0000, "RecvModify: change whether multicast is received.";
        RECEIVE_ENABLE = 0x2_0000, "RecvEnable: it is.";
        FILTER_MODIFY = 0x4_0000, "FilterModify: change whether the table is looked at.";
        FILTER_ENABLE = 0x1_0000, "FilterEnable: it is; otherwise all multicast is received.";
        NONE = 0, "Table command: none.";
        ADD = 1, "Table command: add the address.";
        REMOVE = 2, "Table command: remove the address.";
        CLEAR = 3, "Table command: clear the table.";
        TABLE = 3, "Bits of the table command.";
    }

    /// Attributes of an adapter.
    mod attribute: u64 {
        RX_MULTI_BUFF = 0x4_0000, "H_ADD_LOGICAL_LAN_BUFFERS is there.";
        LRG_SR_ENABLED = 0x1_0000, "Large send and receive are on.";
        LRG_SND_SUPPORT = 0x8000, "Large send is there.";
        /// Checksums of padded frames are right: needed for checksum offload.
        PADDED_PKT_CSUM = 0x2000;
        TRUNK_PRI = 0x0f00, "Priority of a trunk adapter; 0 is none.";
        TRUNK_PRI_SHIFT = 8, "Lowest bit of the priority.";
        IPV6_TCP_CSUM = 4, "TCP checksums over IPv6 may be left out.";
        IPV4_TCP_CSUM = 2, "TCP checksums over IPv4 may be left out.";
        ACTIVE_TRUNK = 1, "The active trunk adapter: what has no local owner comes here.";
    }
}

/// The calls of a logical LAN adapter, in the order of a packet's life.
pub const CALLS: [Call; 10] = calls! {
    H_SEND_LOGICAL_LAN, send, "H_SEND_LOGICAL_LAN: sends a frame.";
    H_ADD_LOGICAL_LAN_BUFFER, add_buffer, "H_ADD_LOGICAL_LAN_BUFFER: lends a receive buffer.";
    H_ADD_LOGICAL_LAN_BUFFERS, add_buffers, "H_ADD_LOGICAL_LAN_BUFFERS: lends up to eight.";
    H_VIO_SIGNAL, vio_signal, "H_VIO_SIGNAL: interrupts on or off.";
    H_REGISTER_LOGICAL_LAN, register, "H_REGISTER_LOGICAL_LAN: opens an adapter.";
    H_FREE_LOGICAL_LAN, free, "H_FREE_LOGICAL_LAN: closes an adapter.";
    H_ILLAN_ATTRIBUTES, attributes, "H_ILLAN_ATTRIBUTES: negotiates offloads.";
    H_MULTICAST_CTRL, multicast, "H_MULTICAST_CTRL: sets a multicast filter.";
    H_CHANGE_LOGICAL_LAN_MAC, change_mac, "H_CHANGE_LOGICAL_LAN_MAC: sets the address.";
    H_FREE_LOGICAL_LAN_BUFFER, free_buffer, "H_FREE_LOGICAL_LAN_BUFFER: takes a buffer back.";
};

/// Returns true for a call of a logical LAN adapter, one of [`CALLS`].
pub const fn is_call(number: u64) -> bool {
    matches!(
        number,
        H_VIO_SIGNAL
            | H_REGISTER_LOGICAL_LAN
            | H_FREE_LOGICAL_LAN
            | H_ADD_LOGICAL_LAN_BUFFER
            | H_ADD_LOGICAL_LAN_BUFFERS
            | H_FREE_LOGICAL_LAN_BUFFER
            | H_SEND_LOGICAL_LAN
            | H_MULTICAST_CTRL
            | H_CHANGE_LOGICAL_LAN_MAC
            | H_ILLAN_ATTRIBUTES
    )
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

layout! {
    impl Descriptor: u64 {
        VALID = 1 << 63, "Without it there is no buffer.";
        /// The toggle that the next entry will have; in the receive queue's descriptor, as
        /// the hypervisor keeps it.
        TOGGLE = 1 << 62;
        LRG_SND = 1 << 58, "Send: a large send, to be cut by the mss.";
        NO_CSUM = 1 << 57, "Send: the TCP checksum is left out.";
        CSUM_GOOD = 1 << 56, "Send: the sender vouches for the data.";
        LENGTH_SHIFT: u32 = 32, "Lowest bit of the length.";
        LENGTH_MAX: u32 = 0xff_ffff, "The largest length.";
    }
}

impl Descriptor {
    /// A valid descriptor of `len` bytes at `ioba`, with further flags.
    ///
    /// `len` is at most [`Descriptor::LENGTH_MAX`].
    pub const fn new(flags: u64, len: u32, ioba: u32) -> Descriptor {
        debug_assert!(len <= Descriptor::LENGTH_MAX);
        Descriptor(
            Descriptor::VALID | flags | (len as u64) << Descriptor::LENGTH_SHIFT | ioba as u64,
        )
    }
    /// Returns true if there is a buffer.
    pub const fn is_valid(self) -> bool {
        self.0 & Descriptor::VALID != 0
    }
    /// Its bytes.
    pub const fn len(self) -> u32 {
        (self.0 >> Descriptor::LENGTH_SHIFT) as u32 & Descriptor::LENGTH_MAX
    }
    /// Returns true if it has no bytes.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
    /// Its address.
    pub const fn ioba(self) -> u32 {
        self.0 as u32
    }
}

layout! {
    const u32 {
        /// Bytes at the beginning of a receive buffer that are the driver's: the hypervisor
        /// returns them in the entry and writes the frame behind them.
        CORRELATOR = 8;
        /// Bytes of a receive buffer beyond the MTU: Ethernet header and correlator.
        OVERHEAD = 14 + CORRELATOR;
        BUFFER_ALIGN = 4, "Alignment of a receive buffer and of its length.";
        BUFFER_MIN = 16, "The shortest receive buffer.";
        /// A large packet ([`Entry::LRG_PKT`]) has its mss here, 64 bits of which the low 16
        /// count; the entry's offset leads behind it.
        MSS_AT = CORRELATOR;
        MSS_LEN = 8, "Bytes of the mss field.";

        PAGE = 4096, "Buffer list and filter list are a page each, aligned.";
    }

    /// The buffer-list page. It is the hypervisor's while the adapter is open; a driver
    /// reads [`buffer_list::RX_NO_BUFFER`] only.
    mod buffer_list: u32 {
        RX_QUEUE = 0, "The receive queue's descriptor, with the toggle of the next entry.";
        FILTER = 8, "The filter list's descriptor.";
        BUFFERS = 16, "The first buffer descriptor.";
        MAX = (RX_NO_BUFFER - BUFFERS) / 8, "Buffer descriptors at most.";
        RX_NO_BUFFER = super::PAGE - 8, "Frames lost because no buffer fitted: 64 bits.";
    }
}

// ---- receive queue ----

/// Bytes of an entry; the queue's address and length are multiples of it.
pub const ENTRY: u32 = 16;

layout! {
    /// An entry of the receive queue. The hypervisor writes `flags` last.
    struct Entry[ENTRY] {
        flags: U32, "Toggle, flags, and where in the buffer the frame begins.";
        length: U32, "Bytes of the frame.";
        correlator: U64, "The buffer's first eight bytes.";
    }

    impl Entry: u32 {
        /// New if it is 1 in the queue's first lap, 0 in the second, and so on.
        TOGGLE = 0x8000_0000;
        VALID = 0x4000_0000, "There is a frame; otherwise the buffer only comes back.";
        LRG_PKT = 0x0400_0000, "A large packet, the mss is in the buffer.";
        NO_CSUM = 0x0200_0000, "The sender left the TCP checksum out.";
        CSUM_GOOD = 0x0100_0000, "The sender vouches for the data.";
        OFFSET = 0xffff, "Offset of the frame from the buffer's first byte.";
        FLAGS_AT = offset_of!(Entry, flags) as u32, "Offset of the flags.";
        LENGTH_AT = offset_of!(Entry, length) as u32, "Offset of the length.";
        CORRELATOR_AT = offset_of!(Entry, correlator) as u32, "Offset of the correlator.";
    }

    /// The old in-band large send, of TCP over IPv4: the IP checksum has this value, and
    /// the TCP checksum is the mss.
    const OLD_LARGE_SEND: u16 = 0xffff;
}

#[cfg(test)]
mod tests;
