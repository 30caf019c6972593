//! Offsets of the headers in a frame, and checks of its checksums.
//!
//! [`Layers::of`] walks Ethernet, up to three VLAN tags, IPv4 or IPv6 with its extension headers,
//! and TCP or UDP, by the `etherparse` crate's checked views. It ignores length fields, so it also
//! takes the header template of a large send; [`verify`] and [`prepare_partial`] check them.
//!
//! The rules are those of Linux's `skb_checksum_setup` and `ip_rcv`: a fragment has no transport
//! checksum, a checksum ends with the IP datagram, before Ethernet's padding, and a packet with
//! segments left in an IPv6 routing header is not touched, because its final destination is unknown
//! (RFC 8200, 8.1).

use crate::{CsumPartial, GsoKind, checksum::Sum, ethernet::HEADER, vlan};
use core::ops::Range;
use etherparse::{
    EtherType, Ethernet2HeaderSlice, IpAuthHeaderSlice, IpNumber, Ipv4HeaderSlice,
    Ipv6FragmentHeaderSlice, Ipv6HeaderSlice, Ipv6RawExtHeaderSlice, SingleVlanHeaderSlice,
    TcpHeaderSlice, UdpHeaderSlice,
};

/// TCP's flags, at [`tcp::FLAGS`] in its header (RFC 9293, 3.1).
pub mod tcp {
    /// Offset of the flags.
    pub const FLAGS: usize = 13;
    /// No more data.
    pub const FIN: u8 = 0x01;
    /// Synchronize sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgment number is significant.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer is significant.
    pub const URG: u8 = 0x20;
    /// Congestion window reduced.
    pub const CWR: u8 = 0x80;
}

/// The network layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ip {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A transport whose checksum senders leave to devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Transport {
    /// Returns the offset of the checksum in the header (`csum_offset`).
    pub const fn checksum_offset(self) -> u16 {
        match self {
            Transport::Tcp => 16,
            Transport::Udp => 6,
        }
    }

    /// Returns the IP protocol number.
    pub const fn protocol(self) -> u8 {
        match self {
            Transport::Tcp => IpNumber::TCP.0,
            Transport::Udp => IpNumber::UDP.0,
        }
    }
}

/// Why the headers of a frame were not found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParseError {
    /// The frame is not IP: ARP, LLDP, more than three tags.
    #[error("not an IP packet")]
    NotIp,
    /// A header is truncated or inconsistent.
    #[error("malformed header")]
    Malformed,
}

/// Offsets of an IP frame's headers, in bytes from its first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layers {
    /// The IP header.
    pub l3: u16,
    /// The version of IP.
    pub ip: Ip,
    /// The header behind IP and its extension headers.
    pub l4: u16,
    /// IP protocol number of the header at `l4`.
    pub protocol: u8,
    /// The end of all headers, TCP's options included; `l4` when `transport` is `None`.
    pub end: u16,
    /// TCP or UDP, if the frame has its header and is not a fragment.
    pub transport: Option<Transport>,
    /// The packet is a fragment, possibly the first.
    pub fragment: bool,
    /// There is an IPv6 routing header with segments left.
    pub source_routed: bool,
}

impl Layers {
    /// Finds the headers of `frame`, which may be truncated behind them.
    pub fn of(frame: &[u8]) -> Result<Layers, ParseError> {
        use ParseError::Malformed;
        let (mut l3, mut ether_type) = match Ethernet2HeaderSlice::from_slice(frame) {
            Ok(e) => (HEADER, e.ether_type()),
            Err(_) => return Err(Malformed),
        };
        for _ in 0..vlan::MAX_TAGS {
            if !vlan::is_type(ether_type.0) {
                break;
            }
            let tag = SingleVlanHeaderSlice::from_slice(&frame[l3..]).map_err(|_| Malformed)?;
            (l3, ether_type) = (l3 + tag.slice().len(), tag.ether_type());
        }
        Layers::network(frame, l3, ether_type)
    }

    /// Finds the headers of the IP packet that begins at `l3`, by its version.
    pub fn of_ip(frame: &[u8], l3: usize) -> Result<Layers, ParseError> {
        let version = frame.get(l3).ok_or(ParseError::Malformed)? >> 4;
        match version {
            4 => Layers::network(frame, l3, EtherType::IPV4),
            6 => Layers::network(frame, l3, EtherType::IPV6),
            _ => Err(ParseError::NotIp),
        }
    }

    fn network(frame: &[u8], l3: usize, ether_type: EtherType) -> Result<Layers, ParseError> {
        use ParseError::{Malformed, NotIp};
        let rest = frame.get(l3..).ok_or(Malformed)?;
        let (ip, l4, protocol, fragment, source_routed) = match ether_type {
            EtherType::IPV4 => {
                let h = Ipv4HeaderSlice::from_slice(rest).map_err(|_| Malformed)?;
                (Ip::V4, l3 + h.slice().len(), h.protocol(), h.is_fragmenting_payload(), false)
            }
            EtherType::IPV6 => {
                let h = Ipv6HeaderSlice::from_slice(rest).map_err(|_| Malformed)?;
                let l4 = l3 + h.slice().len();
                let x = extensions(h.next_header(), &frame[l4..]).ok_or(Malformed)?;
                (Ip::V6, l4 + x.len, x.next, x.fragment, x.source_routed)
            }
            _ => return Err(NotIp),
        };
        let (transport, end) = match protocol {
            _ if fragment => (None, l4),
            IpNumber::TCP => {
                let h = TcpHeaderSlice::from_slice(&frame[l4..]).map_err(|_| Malformed)?;
                (Some(Transport::Tcp), l4 + h.slice().len())
            }
            IpNumber::UDP => {
                let h = UdpHeaderSlice::from_slice(&frame[l4..]).map_err(|_| Malformed)?;
                (Some(Transport::Udp), l4 + h.slice().len())
            }
            _ => (None, l4),
        };
        let end = u16::try_from(end).map_err(|_| Malformed)?;
        Ok(Layers {
            l3: l3 as u16,
            ip,
            l4: l4 as u16,
            protocol: protocol.0,
            end,
            transport,
            fragment,
            source_routed,
        })
    }

    /// Returns the offload request for the transport's checksum.
    pub const fn partial(&self) -> Option<CsumPartial> {
        match self.transport {
            Some(t) => Some(CsumPartial { start: self.l4, offset: t.checksum_offset() }),
            None => None,
        }
    }

    /// Returns the kind of a large send with these headers.
    pub const fn gso_kind(&self) -> Option<GsoKind> {
        match (self.transport, self.ip) {
            (Some(Transport::Tcp), Ip::V4) => Some(GsoKind::Tcp4),
            (Some(Transport::Tcp), Ip::V6) => Some(GsoKind::Tcp6),
            (Some(Transport::Udp), Ip::V4) => Some(GsoKind::Udp4),
            (Some(Transport::Udp), Ip::V6) => Some(GsoKind::Udp6),
            (None, _) => None,
        }
    }

    /// Returns the sum of the pseudo-header for a transport header and payload of `len` bytes.
    ///
    /// # Panics
    /// Panics if `frame` is shorter than the headers that were found in it.
    pub fn pseudo_header(&self, frame: &[u8], len: u32) -> Sum {
        let (l3, next) = (self.l3 as usize, self.protocol);
        match self.ip {
            Ip::V4 => Sum::pseudo_v4(array(frame, l3 + 12), array(frame, l3 + 16), next, len),
            Ip::V6 => Sum::pseudo_v6(array(frame, l3 + 8), array(frame, l3 + 24), next, len),
        }
    }

    /// Returns the range of the IP datagram in `frame` by its length field, or `None` when the
    /// frame is too short for it or the length too short for the headers.
    pub fn datagram(&self, frame: &[u8]) -> Option<Range<usize>> {
        let l3 = self.l3 as usize;
        let len = match self.ip {
            Ip::V4 => be16(frame, l3 + 2) as usize,
            Ip::V6 => be16(frame, l3 + 4) as usize + 40,
        };
        (l3 + len >= self.end as usize && l3 + len <= frame.len()).then_some(l3..l3 + len)
    }

    /// Returns the range of transport header and payload by the length fields, for UDP its own.
    pub fn segment(&self, frame: &[u8]) -> Option<Range<usize>> {
        let (l4, end) = (self.l4 as usize, self.datagram(frame)?.end);
        match self.transport? {
            Transport::Tcp => Some(l4..end),
            Transport::Udp => {
                let len = be16(frame, l4 + 4) as usize;
                (len >= 8 && l4 + len <= end).then_some(l4..l4 + len)
            }
        }
    }
}

/// The result of the walk over the IPv6 extension headers.
struct Extensions {
    len: usize,
    next: IpNumber,
    fragment: bool,
    source_routed: bool,
}

/// Walks the extension headers up to the fragment header of a real fragment, behind which there
/// need not be a header.
fn extensions(first: IpNumber, bytes: &[u8]) -> Option<Extensions> {
    let mut x = Extensions { len: 0, next: first, fragment: false, source_routed: false };
    while !x.fragment {
        let rest = &bytes[x.len..];
        match x.next {
            IpNumber::IPV6_HEADER_HOP_BY_HOP
            | IpNumber::IPV6_ROUTE_HEADER
            | IpNumber::IPV6_DESTINATION_OPTIONS => {
                let h = Ipv6RawExtHeaderSlice::from_slice(rest).ok()?;
                // Segments left is the header's fourth byte.
                x.source_routed |= x.next == IpNumber::IPV6_ROUTE_HEADER && h.slice()[3] != 0;
                x.len += h.slice().len();
                x.next = h.next_header();
            }
            IpNumber::IPV6_FRAGMENTATION_HEADER => {
                let h = Ipv6FragmentHeaderSlice::from_slice(rest).ok()?;
                x.len += h.slice().len();
                x.next = h.next_header();
                x.fragment = h.is_fragmenting_payload();
            }
            IpNumber::AUTHENTICATION_HEADER => {
                let h = IpAuthHeaderSlice::from_slice(rest).ok()?;
                x.len += h.slice().len();
                x.next = h.next_header();
            }
            _ => break,
        }
    }
    Some(x)
}

/// The result of a checksum's check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// The checksum is right.
    Good,
    /// The checksum is wrong.
    Bad,
    /// The sender computed none: UDP over IPv4 with 0 in the field.
    Absent,
    /// There is none: another protocol, a fragment, or a malformed packet.
    NotApplicable,
}

/// The results for both checksums of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// IPv4's header checksum; not applicable to IPv6.
    pub ip: Check,
    /// TCP's or UDP's.
    pub transport: Check,
}

impl Verdict {
    /// Nothing was checked.
    pub(crate) const NONE: Verdict =
        Verdict { ip: Check::NotApplicable, transport: Check::NotApplicable };
}

/// Checks the checksums of a frame.
pub fn verify(frame: &[u8]) -> Verdict {
    let Ok(layers) = Layers::of(frame) else { return Verdict::NONE };
    verify_layers(frame, &layers)
}

/// Checks the checksums of headers that were found in `frame`.
pub(crate) fn verify_layers(frame: &[u8], layers: &Layers) -> Verdict {
    let l3 = layers.l3 as usize;
    let ip = match layers.ip {
        Ip::V4 => good(Sum::of(&frame[l3..l3 + header_len_v4(frame, l3)])),
        Ip::V6 => Check::NotApplicable,
    };
    Verdict { ip, transport: verify_transport(frame, layers) }
}

fn verify_transport(frame: &[u8], layers: &Layers) -> Check {
    let Some(segment) = layers.segment(frame).filter(|_| !layers.source_routed) else {
        return Check::NotApplicable;
    };
    if layers.transport == Some(Transport::Udp) && be16(frame, segment.start + 6) == 0 {
        // RFC 8200, 8.1: over IPv6 a receiver discards such a packet.
        return if layers.ip == Ip::V4 { Check::Absent } else { Check::Bad };
    }
    let sum = layers.pseudo_header(frame, segment.len() as u32).plus(Sum::of(&frame[segment]));
    good(sum)
}

fn good(sum: Sum) -> Check {
    if sum.is_intact() { Check::Good } else { Check::Bad }
}

/// Turns a complete TCP or UDP frame into one with checksum offload: writes the pseudo-header's sum
/// to the field, and returns the request. Does not check the checksum.
///
/// Returns `None`, and changes nothing, for a packet without transport checksum (ARP, ICMP,
/// fragments, UDP over IPv4 without one, malformed packets) and for a frame with other bytes than
/// zeros behind the part that the checksum covers, because completion sums to the end of the frame.
pub fn prepare_partial(frame: &mut [u8]) -> Option<CsumPartial> {
    let layers = Layers::of(frame).ok()?;
    let partial = layers.partial()?;
    let segment = layers.segment(frame)?;
    let field = partial.field();
    let absent =
        layers.ip == Ip::V4 && layers.transport == Some(Transport::Udp) && be16(frame, field) == 0;
    if absent || layers.source_routed || frame[segment.end..].iter().any(|b| *b != 0) {
        return None;
    }
    let sum = layers.pseudo_header(frame, segment.len() as u32);
    put16(frame, field, sum.value());
    Some(partial)
}

/// Returns the length of the IPv4 header at `l3`, by its IHL.
pub(crate) fn header_len_v4(frame: &[u8], l3: usize) -> usize {
    (frame[l3] & 0xf) as usize * 4
}

pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(bytes, at))
}
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(bytes, at))
}
pub(crate) fn put16(bytes: &mut [u8], at: usize, v: u16) {
    bytes[at..at + 2].copy_from_slice(&v.to_be_bytes());
}
pub(crate) fn put32(bytes: &mut [u8], at: usize, v: u32) {
    bytes[at..at + 4].copy_from_slice(&v.to_be_bytes());
}
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("inside the headers that were found")
}

#[cfg(test)]
mod tests;
