//! A packet, what is still to be done to it, and the doing.
//!
//! A [`Packet`] is what a driver gets to transmit: bytes in owned pieces of host
//! memory ([`Buf`] ranges: a linear head, fragments, and a list of further
//! packets' worth), and a note of what the sender left to others: a checksum
//! ([`CsumPartial`]), a cut into segments ([`Gso`]), a VLAN tag. A driver hands each
//! of these to its device, or does it itself with the functions here.
//!
//! On packets in host memory the functions are [`Packet`]'s own, and declare the
//! work they do: [`Packet::linearise`], [`Packet::complete_checksum`],
//! [`Packet::segment`], [`Packet::insert_tag`]. On bytes, for devices and tools, they are in
//! [`checksum`], [`headers`], [`segment`], [`merge`] and [`vlan`].
//!
//! The terms are Linux's: `CHECKSUM_PARTIAL` with `csum_start` and
//! `csum_offset`, `gso_size`, fragments and fragment list of an skb.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod checksum;
pub mod ethernet;
pub mod headers;
pub mod merge;
pub mod segment;
mod software;
#[cfg(test)]
mod testing;
pub mod vlan;

pub use software::{MAX_HEADER, NoBuffer, Unsegmented, WhyUnsegmented};

use alloc::boxed::Box;
use alloc::vec::Vec;
use doorbell_hal::{Buf, Host};

/// A range of an owned buffer.
#[derive(PartialEq, Eq, Debug)]
pub struct Fragment {
    /// The buffer, owned.
    pub buf: Buf,
    /// First byte that belongs to the packet.
    pub start: u32,
    /// How many do.
    pub len: u32,
}

impl Fragment {
    /// The whole of `buf`.
    pub const fn whole(buf: Buf) -> Fragment {
        let len = buf.len();
        Fragment { buf, start: 0, len }
    }
}

/// A packet without FCS, and what is still to be done to it.
#[derive(PartialEq, Eq, Debug)]
pub struct Packet {
    /// The linear head. Headers are in it.
    pub head: Fragment,
    /// What is left to the driver or the device.
    pub todo: OffloadRequest,
    /// What is not in the head; `None` for a linear packet.
    pub more: Option<Box<NonLinear>>,
    /// The sender's own mark; comes back with the packet.
    pub cookie: u32,
}

/// The nonlinear part of a packet.
#[derive(PartialEq, Eq, Debug, Default)]
pub struct NonLinear {
    /// Page fragments, in order (at most [`MAX_FRAGS`] from a Linux-like sender).
    pub frags: Vec<Fragment>,
    /// Further pieces that came as packets of their own (`frag_list`).
    pub list: Vec<Fragment>,
}

/// Linux's `MAX_SKB_FRAGS` with 4-KiB pages.
pub const MAX_FRAGS: usize = 17;

/// What the sender of a packet left undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OffloadRequest {
    /// A transport checksum to be completed.
    pub checksum: Option<CsumPartial>,
    /// A cut into segments.
    pub gso: Option<Gso>,
    /// An 802.1Q tag to be inserted (TCI).
    pub vlan: Option<u16>,
    /// The checksum and headers spoken of belong to the inner packet of a tunnel.
    pub encapsulated: bool,
    /// Where the inner IP header of an encapsulated packet begins; 0 where the sender does not
    /// say.
    pub inner_network: u16,
}

impl OffloadRequest {
    /// Nothing left to do.
    pub const NONE: OffloadRequest = OffloadRequest {
        checksum: None,
        gso: None,
        vlan: None,
        encapsulated: false,
        inner_network: 0,
    };
}

/// `CHECKSUM_PARTIAL`: sum from `start` to the end of the packet, fold,
/// complement, and store at `start + offset`, where the pseudo-header's sum is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CsumPartial {
    /// Where the transport header begins (`csum_start`, from the frame's first byte).
    pub start: u16,
    /// Where in it the checksum is (`csum_offset`).
    pub offset: u16,
}

/// A large send: payload to be cut into pieces of `size`, each behind a copy of
/// the first `header` bytes with lengths, ids, sequence numbers and flags as
/// they have to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gso {
    /// Which protocol.
    pub kind: GsoKind,
    /// Payload bytes a segment (`gso_size`, the MSS).
    pub size: u16,
    /// Length of all headers.
    pub header: u16,
}

/// What kind of large send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GsoKind {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP datagrams of `size` (`UDP_SEGMENT`, GSO_UDP_L4) over IPv4.
    Udp4,
    /// The same over IPv6.
    Udp6,
}

impl Packet {
    /// A linear packet with nothing left to do.
    pub const fn linear(head: Fragment) -> Packet {
        Packet { head, todo: OffloadRequest::NONE, more: None, cookie: 0 }
    }

    /// Whether all of it is in the head.
    #[inline(always)]
    pub const fn is_linear(&self) -> bool {
        self.more.is_none()
    }

    /// Bytes in all pieces.
    pub fn len(&self) -> u32 {
        self.head.len
            + self.more.as_ref().map_or(0, |m| m.frags.iter().chain(&m.list).map(|p| p.len).sum())
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the packet apart: the head, fragments and list, in order.
    pub fn into_fragments(self) -> impl Iterator<Item = Fragment> {
        let more = self.more.map(|m| *m).unwrap_or_default();
        core::iter::once(self.head).chain(more.frags).chain(more.list)
    }

    /// Releases all buffers.
    pub fn release<H: Host>(self, h: &mut H) {
        self.into_fragments().for_each(|f| h.release(f.buf));
    }
}
