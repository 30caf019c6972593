//! All headers of a packet with offload requests: its tags, and those inside a tunnel.
//!
//! The tunnels are IP in IP (RFC 2003, 2473), GRE (RFC 2784, 2890), VXLAN (RFC 7348) and GENEVE
//! (RFC 8926), one deep. A sender may say where the inner IP header is, as Linux's stack does; else
//! it is looked for: GENEVE on its port, and VXLAN on any other. In a captured packet, where nobody
//! says that there is a tunnel, VXLAN is on its own ports only.

use crate::headers::{Ip, Layers, ParseError, Transport, Verdict, be16, tcp, verify_layers};
use crate::{OffloadRequest, ethernet::HEADER, vlan::TAG};

/// UDP's port of VXLAN, by IANA.
pub const VXLAN_PORT: u16 = 4789;
/// UDP's port of VXLAN before it had a number, still the default of Linux.
pub const OLD_VXLAN_PORT: u16 = 8472;
/// UDP's port of GENEVE, by IANA.
pub const GENEVE_PORT: u16 = 6081;
/// Bytes of UDP's and VXLAN's header, and of GENEVE's without options.
pub const UDP_TUNNEL: u16 = 8 + 8;

const IPV4_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// The type of an Ethernet frame inside a tunnel (Transparent Ethernet Bridging).
const BRIDGED: u16 = 0x6558;

/// The header between the outer and the inner packet of a tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tunnel {
    /// None: an IP packet in an IP packet.
    Ip,
    /// GRE.
    Gre {
        /// It has a checksum of header and payload, at offset 4.
        checksum: bool,
        /// It counts packets.
        sequence: bool,
    },
    /// A UDP datagram to this port: VXLAN, GENEVE, or alike.
    Udp(u16),
}

/// The headers of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headers {
    /// Number of tags in the packet, 0 to 3.
    pub tags: u8,
    /// Types of the tags, the outermost first; 0 behind the last.
    pub tag_types: [u16; 3],
    /// The layers behind the tags.
    pub outer: Layers,
    /// The tunnel, and the layers inside it, of an encapsulated packet.
    pub inner: Option<(Tunnel, Layers)>,
    /// The inner IP header is right behind the tunnel's header, or behind an Ethernet header
    /// without a tag if the tunnel carries Ethernet.
    pub inner_untagged: bool,
    /// The innermost transport is TCP with CWR set.
    pub cwr: bool,
}

impl Headers {
    /// Finds the headers of `frame`, which may be truncated behind them, as far as `todo` speaks of
    /// them: a tunnel only in a packet that is encapsulated.
    pub fn of(frame: &[u8], todo: &OffloadRequest) -> Result<Headers, ParseError> {
        let outer = Layers::of(frame)?;
        let tags = ((outer.l3 as usize - HEADER) / TAG) as u8;
        let tag_type =
            |i: usize| if i < tags.into() { be16(frame, HEADER - 2 + i * TAG) } else { 0 };
        let tag_types = [0, 1, 2].map(tag_type);
        let inner = if todo.encapsulated {
            Some(inner(frame, &outer, todo.inner_network).ok_or(ParseError::Malformed)?)
        } else {
            None
        };
        let inner_untagged = inner.is_some_and(|(.., untagged)| untagged);
        let inner = inner.map(|(tunnel, layers, _)| (tunnel, layers));
        let l = inner.map_or(outer, |(_, l)| l);
        let cwr = l.transport == Some(Transport::Tcp)
            && frame[l.l4 as usize + tcp::FLAGS] & tcp::CWR != 0;
        Ok(Headers { tags, tag_types, outer, inner, inner_untagged, cwr })
    }

    /// Returns the innermost layers: those that a checksum or a large send is of.
    pub const fn layers(&self) -> &Layers {
        match &self.inner {
            Some((_, layers)) => layers,
            None => &self.outer,
        }
    }

    /// Returns whether the requested checksum and large send are of the innermost transport. A
    /// large send implies its checksum.
    pub fn match_request(&self, todo: &OffloadRequest) -> bool {
        let l = self.layers();
        let implied = todo.gso.is_some() && todo.checksum.is_none();
        let checksum = l.partial().is_some() && (implied || l.partial() == todo.checksum);
        let large = todo.gso.is_none_or(|g| l.gso_kind() == Some(g.kind) && l.end == g.header);
        checksum && large && !l.source_routed
    }
}

/// Checks the checksums of the packet inside a tunnel. None applies to a frame without one.
pub fn verify_inner(frame: &[u8]) -> Verdict {
    let found = Layers::of(frame).ok().and_then(|outer| inner(frame, &outer, 0));
    found.map_or(Verdict::NONE, |(_, layers, _)| verify_layers(frame, &layers))
}

/// Checks the checksums of the layers whose transport header is at `l4`, also inside a tunnel. None
/// applies to a frame in which no such header is found.
pub fn verify_at(frame: &[u8], l4: u16) -> Verdict {
    let Ok(outer) = Layers::of(frame) else { return Verdict::NONE };
    let found = if outer.l4 == l4 {
        Some(outer)
    } else {
        inner(frame, &outer, 0).map(|(_, layers, _)| layers).filter(|l| l.l4 == l4)
    };
    found.map_or(Verdict::NONE, |layers| verify_layers(frame, &layers))
}

/// Returns whether a packet is a UDP datagram to the port of a tunnel.
pub(crate) fn has_port(frame: &[u8], outer: &Layers) -> bool {
    outer.transport == Some(Transport::Udp)
        && matches!(be16(frame, outer.l4 as usize + 2), VXLAN_PORT | OLD_VXLAN_PORT | GENEVE_PORT)
}

/// Returns the tunnel of a captured packet, by protocol and port, with the layers outside and
/// inside it. VXLAN has its flag I, and GRE and GENEVE carry IP or Ethernet.
pub(crate) fn recognised(frame: &[u8]) -> Option<(Tunnel, Layers, Layers)> {
    const VALID_VNI: u8 = 0x08;
    let outer = Layers::of(frame).ok()?;
    let l4 = outer.l4 as usize;
    let carried = match outer.protocol {
        IPV4_IN_IP => IPV4,
        IPV6_IN_IP => IPV6,
        GRE => gre(frame, l4)?.2,
        _ if !has_port(frame, &outer) => return None,
        _ => match *frame.get(l4 + 8..l4 + 12)?.first_chunk()? {
            [version, _, a, b] if be16(frame, l4 + 2) == GENEVE_PORT => {
                (version < 0x40).then_some(u16::from_be_bytes([a, b]))?
            }
            [flags, ..] => (flags & VALID_VNI != 0).then_some(BRIDGED)?,
        },
    };
    let (tunnel, layers, _) = inner(frame, &outer, 0)?;
    let right = match carried {
        IPV4 => layers.ip == Ip::V4,
        IPV6 => layers.ip == Ip::V6,
        _ => carried == BRIDGED,
    };
    right.then_some((tunnel, outer, layers))
}

/// Returns the tunnel in the packet, its inner layers, and whether these follow it at once; `at` is
/// the offset of the inner IP header, or 0.
fn inner(frame: &[u8], outer: &Layers, at: u16) -> Option<(Tunnel, Layers, bool)> {
    let l4 = outer.l4 as usize;
    // Where the header ends, and what is behind it.
    let (tunnel, end, carried) = match outer.protocol {
        _ if outer.fragment || outer.source_routed => return None,
        IPV4_IN_IP | IPV6_IN_IP => (Tunnel::Ip, l4, 0),
        GRE => gre(frame, l4)?,
        _ if outer.transport == Some(Transport::Udp) => {
            let port = be16(frame, l4 + 2);
            let (options, carried) = match frame.get(l4 + 8..l4 + 12)? {
                [first, _, a, b] if port == GENEVE_PORT => {
                    (*first as usize % 64 * 4, u16::from_be_bytes([*a, *b]))
                }
                _ => (0, BRIDGED),
            };
            (Tunnel::Udp(port), l4 + UDP_TUNNEL as usize + options, carried)
        }
        _ => return None,
    };
    let at = match (at as usize, carried) {
        (0, BRIDGED) => end + Layers::of(frame.get(end..)?).ok()?.l3 as usize,
        (0, _) => end,
        (at, _) => Some(at).filter(|at| *at >= l4 + tunnel.len())?,
    };
    let ethernet = if carried == BRIDGED { HEADER } else { 0 };
    Some((tunnel, Layers::of_ip(frame, at).ok()?, at == end + ethernet))
}

/// Reads a GRE header at `at`. Returns its end and the type of what it carries.
fn gre(frame: &[u8], at: usize) -> Option<(Tunnel, usize, u16)> {
    const CHECKSUM: u16 = 0x8000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    let &[a, b, c, d] = frame.get(at..)?.first_chunk()?;
    let (flags, carried) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    let has = |flag: u16| flags & flag != 0;
    let options = [CHECKSUM, KEY, SEQUENCE].into_iter().filter(|f| has(*f)).count() * 4;
    let tunnel = Tunnel::Gre { checksum: has(CHECKSUM), sequence: has(SEQUENCE) };
    // Routing and the versions besides 0 are obsolete or another protocol.
    (flags & 0x4007 == 0).then_some((tunnel, at + 4 + options, carried))
}

impl Tunnel {
    /// Returns the least bytes of the header.
    const fn len(self) -> usize {
        match self {
            Tunnel::Ip => 0,
            Tunnel::Gre { checksum, sequence } => 4 + 4 * (checksum as usize + sequence as usize),
            Tunnel::Udp(_) => 8,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
