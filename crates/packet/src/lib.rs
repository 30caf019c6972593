#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod captured;
pub mod checksum;
pub mod ethernet;
pub mod headers;
pub mod merge;
pub mod segment;
mod software;
#[cfg(test)]
mod tests;
pub mod toeplitz;
pub mod tunnel;
pub mod vlan;

pub use software::{MAX_HEADER, NoBuffer, Segmentation, Unsegmented, WhyUnsegmented};

use alloc::{boxed::Box, vec::Vec};
use doorbell_hal::{Buf, Host};

/// A range of an owned buffer.
#[derive(PartialEq, Eq, Debug)]
pub struct Fragment {
    /// The buffer, owned.
    pub buf: Buf,
    /// First byte that belongs to the packet.
    pub start: u32,
    /// Number of bytes.
    pub len: u32,
}

impl Fragment {
    /// Returns the whole of `buf`.
    pub const fn whole(buf: Buf) -> Fragment {
        let len = buf.len();
        Fragment { buf, start: 0, len }
    }
}

/// A packet without FCS, and the offloads that its sender requests.
#[derive(PartialEq, Eq, Debug)]
pub struct Packet {
    /// The linear head, with the headers.
    pub head: Fragment,
    /// The offloads requested.
    pub todo: OffloadRequest,
    /// The rest behind the head; `None` for a linear packet.
    pub more: Option<Box<NonLinear>>,
    /// The sender's mark, returned with the buffers.
    pub cookie: u32,
}

/// The nonlinear part of a packet.
#[derive(PartialEq, Eq, Debug, Default)]
pub struct NonLinear {
    /// Page fragments, in order (at most [`MAX_FRAGS`] from a Linux-like sender).
    pub frags: Vec<Fragment>,
    /// Further fragments that came as packets of their own (`frag_list`).
    pub list: Vec<Fragment>,
}

/// Linux's `MAX_SKB_FRAGS` with 4-KiB pages.
pub const MAX_FRAGS: usize = 17;

/// The offloads that the sender of a packet requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OffloadRequest {
    /// A transport checksum to be completed.
    pub checksum: Option<CsumPartial>,
    /// Segmentation of a large send.
    pub gso: Option<Gso>,
    /// An 802.1Q tag to be inserted (TCI).
    pub vlan: Option<u16>,
    /// The checksum and headers are those of the inner packet of a tunnel.
    pub encapsulated: bool,
    /// Offset of the inner IP header of an encapsulated packet; 0 if the sender does not say.
    pub inner_network: u16,
}

impl OffloadRequest {
    /// No offloads.
    pub const NONE: OffloadRequest =
        Self { checksum: None, gso: None, vlan: None, encapsulated: false, inner_network: 0 };
}

/// `CHECKSUM_PARTIAL`: the sum from `start` to the end of the packet, folded and complemented, goes
/// to `start + offset`, where the pseudo-header's sum is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CsumPartial {
    /// Offset of the transport header in the frame (`csum_start`).
    pub start: u16,
    /// Offset of the checksum in that header (`csum_offset`).
    pub offset: u16,
}

/// A large send: payload to be split into segments of `size`, each behind a copy of the first
/// `header` bytes with adapted lengths, ids, sequence numbers and flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gso {
    /// The protocol.
    pub kind: GsoKind,
    /// Payload bytes per segment (`gso_size`, the MSS).
    pub size: u16,
    /// Length of all headers.
    pub header: u16,
}

/// The protocol of a large send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GsoKind {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP over IPv4 (`UDP_SEGMENT`, GSO_UDP_L4).
    Udp4,
    /// UDP over IPv6.
    Udp6,
}

impl Packet {
    /// Returns a linear packet without offloads.
    pub const fn linear(head: Fragment) -> Packet {
        Packet { head, todo: OffloadRequest::NONE, more: None, cookie: 0 }
    }

    /// Returns whether the packet is all in the head.
    #[inline(always)]
    pub const fn is_linear(&self) -> bool {
        self.more.is_none()
    }

    /// Returns the bytes of all fragments.
    pub fn len(&self) -> u32 {
        self.head.len
            + self.more.as_ref().map_or(0, |m| m.frags.iter().chain(&m.list).map(|p| p.len).sum())
    }

    /// Returns whether the packet has no bytes.
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
        h.release(self.head.buf);
        if let Some(more) = self.more {
            more.frags.into_iter().chain(more.list).for_each(|f| h.release(f.buf));
        }
    }
}
