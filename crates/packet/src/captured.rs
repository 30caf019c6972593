//! Captured frames as a stack passes them on: with checksums and segmentation left to the device.
//!
//! A tunnel is recognised as its receiver recognises it: by IP protocol (IP in IP, GRE) or UDP port
//! (VXLAN, GENEVE). The offloads are then those of the inner packet, and the outer checksum is the
//! one that is right once the inner checksum is complete (`lco_csum`,
//! Documentation/networking/checksum-offloads.rst).
//!
//! A large send whose length does not fit into 16 bits, as of BIG TCP, has a length of 0. Over IPv6
//! it also has a hop-by-hop header with a jumbo payload option (RFC 2675), which a stack takes off
//! before it segments the packet (`ipv6_hopopt_jumbo_remove`).

use crate::checksum::Sum;
use crate::headers::{Ip, Layers, Transport, be16, be32, prepare_partial, put16, tcp};
use crate::segment::SegmentPlan;
use crate::tunnel::{self, Tunnel};
use crate::{Gso, OffloadRequest, vlan};
use core::ops::Range;

/// Bytes of an IPv6 header.
const IPV6: usize = 40;
/// Bytes of a hop-by-hop header with a jumbo payload option alone.
const JUMBO: usize = 8;

/// Turns a complete frame into one whose checksum is left to the device. Returns the request, which
/// is empty, and the frame unchanged, if nothing can be left: see [`prepare_partial`].
pub fn prepare_checksum(frame: &mut [u8]) -> OffloadRequest {
    if let Some((tunnel, outer, inner)) = tunnel::recognised(frame)
        && let Some(todo) = inner_checksum(frame, tunnel, &outer, &inner)
    {
        return todo;
    }
    OffloadRequest { checksum: prepare_partial(frame), ..OffloadRequest::NONE }
}

/// Turns a complete frame into a large send with segments of `size` bytes of payload. Returns
/// `None`, and changes nothing, if it cannot be one: it has no more payload than that, is a
/// fragment or no TCP or UDP, has bytes behind the datagram, or is in a tunnel that cannot be
/// repeated in each segment.
pub fn prepare_large(frame: &mut [u8], size: u16) -> Option<OffloadRequest> {
    let outer = Layers::of(frame).ok()?;
    let inner = tunnel::recognised(frame).map(|(.., inner)| inner);
    if inner.is_none() && tunnel::has_port(frame, &outer) {
        // Its payload is not UDP's to cut.
        return None;
    }
    let layers = inner.unwrap_or(outer);
    let whole = |l: &Layers| large_datagram(l, frame).is_some_and(|d| d.end == frame.len());
    if layers.source_routed || !whole(&outer) || !whole(&layers) {
        return None;
    }
    let segment = usize::from(layers.l4)..frame.len();
    let payload = (frame.len() - usize::from(layers.end)) as u32;
    let gso = Gso { kind: layers.gso_kind()?, size, header: layers.end };
    let todo = OffloadRequest {
        checksum: layers.partial(),
        gso: Some(gso),
        encapsulated: inner.is_some(),
        inner_network: inner.map_or(0, |l| l.l3),
        ..OffloadRequest::NONE
    };
    let header = &frame[..usize::from(layers.end)];
    if payload <= u32::from(size) || SegmentPlan::of(header, payload, &todo).is_err() {
        return None;
    }
    let pseudo = layers.pseudo_header(frame, segment.len() as u32).value();
    put16(frame, layers.partial()?.field(), pseudo);
    Some(todo)
}

/// Returns the payload that segments of a frame may have without being longer than `longest`
/// bytes; `None` if its headers alone are, or it cannot be a large send.
pub fn largest_payload(frame: &[u8], longest: usize) -> Option<u16> {
    let outer = Layers::of(frame).ok()?;
    let layers = tunnel::recognised(frame).map_or(outer, |(.., inner)| inner);
    layers.transport?;
    let room = longest.checked_sub(layers.end.into()).filter(|room| *room > 0)?;
    Some(room.min(usize::from(u16::MAX)) as u16)
}

/// One direction of a TCP or UDP connection: the addresses and ports of its packets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Flow {
    protocol: u8,
    /// Source, destination. An IPv4 address has zeros behind it.
    addresses: [[u8; 16]; 2],
    ports: [u16; 2],
}

impl Flow {
    /// Returns the other direction.
    pub const fn reversed(self) -> Flow {
        let ([source, destination], [from, to]) = (self.addresses, self.ports);
        Flow { addresses: [destination, source], ports: [to, from], ..self }
    }
}

/// A packet of a flow, as far as it tells how long the flow's segments are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The flow, in a tunnel that of the inner packet.
    pub flow: Flow,
    /// Bytes of payload.
    pub payload: u32,
    /// Bytes of TCP options.
    pub options: u16,
    /// The maximum segment size that a SYN announces (RFC 9293, 3.7.1), options not subtracted.
    pub announced: Option<u16>,
}

impl Seen {
    /// Reads the innermost TCP or UDP header of a frame; `None` if there is none.
    pub fn of(frame: &[u8]) -> Option<Seen> {
        let outer = Layers::of(frame).ok()?;
        let layers = tunnel::recognised(frame).map_or(outer, |(.., inner)| inner);
        let transport = layers.transport?;
        let (l3, l4) = (usize::from(layers.l3), usize::from(layers.l4));
        let end = usize::from(layers.end);
        let (first, len) = if layers.ip == Ip::V4 { (12, 4) } else { (8, 16) };
        let address = |i: usize| {
            let mut address = [0; 16];
            address[..len].copy_from_slice(&frame[l3 + first + i * len..][..len]);
            address
        };
        let flow = Flow {
            protocol: layers.protocol,
            addresses: [address(0), address(1)],
            ports: [be16(frame, l4), be16(frame, l4 + 2)],
        };
        let payload = (large_datagram(&layers, frame)?.end - end) as u32;
        let options = if transport == Transport::Tcp { &frame[l4 + 20..end] } else { &[] };
        let syn = transport == Transport::Tcp && frame[l4 + tcp::FLAGS] & tcp::SYN != 0;
        let announced = if syn { announced(options) } else { None };
        Some(Seen { flow, payload, options: options.len() as u16, announced })
    }
}

/// Returns the value of the MSS option.
fn announced(mut options: &[u8]) -> Option<u16> {
    loop {
        options = match *options {
            [2, 4, high, low, ..] => return Some(u16::from_be_bytes([high, low])),
            [1, ref rest @ ..] => rest,
            [kind, len, ..] if kind > 1 && len > 1 => options.get(len.into()..)?,
            _ => return None,
        };
    }
}

/// Takes the hop-by-hop header of a jumbogram off, and leaves a payload length of 0. Returns the
/// new length of the frame; any other frame stays as it is.
pub fn remove_jumbo_header(frame: &mut [u8]) -> usize {
    let Some(header) = jumbo_header(frame) else { return frame.len() };
    let next_header = header.start - IPV6 + 6;
    frame[next_header] = frame[header.start];
    frame.copy_within(header.end.., header.start);
    frame.len() - JUMBO
}

/// Returns the range of the hop-by-hop header of a jumbogram that is all there.
fn jumbo_header(frame: &[u8]) -> Option<Range<usize>> {
    let l3 = vlan::header(frame);
    let at = l3 + IPV6;
    let &[_, len, option, option_len, ..] = frame.get(at..at + JUMBO)? else { return None };
    let ipv6 = frame[l3 - 2..l3] == [0x86, 0xdd] && frame[l3] >> 4 == 6;
    let jumbo = ipv6 && be16(frame, l3 + 4) == 0 && frame[l3 + 6] == 0;
    // The option counts all bytes behind the IPv6 header.
    let whole = be32(frame, at + 4) as usize == frame.len() - at;
    (jumbo && whole && (len, option, option_len) == (0, 0xc2, 4)).then_some(at..at + JUMBO)
}

/// Leaves the inner checksum to the device, and writes the outer one.
fn inner_checksum(
    frame: &mut [u8],
    tunnel: Tunnel,
    outer: &Layers,
    inner: &Layers,
) -> Option<OffloadRequest> {
    let (partial, segment) = (inner.partial()?, inner.segment(frame)?);
    let field = partial.field();
    let absent =
        inner.ip == Ip::V4 && inner.transport == Some(Transport::Udp) && be16(frame, field) == 0;
    let end = outer.datagram(frame)?.end;
    let padding = frame[segment.end..].iter().any(|b| *b != 0) || segment.end > end;
    if absent || inner.source_routed || padding {
        return None;
    }
    let pseudo = inner.pseudo_header(frame, segment.len() as u32).value();
    put16(frame, field, pseudo);
    let l4 = usize::from(outer.l4);
    let outer_check = match tunnel {
        Tunnel::Gre { checksum: true, .. } => Some((l4 + 4, Sum::ZERO)),
        Tunnel::Udp(_) if be16(frame, l4 + 6) != 0 => {
            Some((l4 + 6, outer.pseudo_header(frame, (end - l4) as u32)))
        }
        _ => None,
    };
    if let Some((at, pseudo_of_outer)) = outer_check {
        put16(frame, at, 0);
        let headers = Sum::of(&frame[l4..usize::from(inner.l4)]);
        // A complete inner segment sums to the complement of its pseudo-header.
        let sum = pseudo_of_outer.plus(headers).plus_be16(!pseudo);
        // A checksum of 0 and one of 0xffff are the same, and UDP's 0 says that there is none.
        put16(frame, at, sum.udp_checksum());
    }
    let (checksum, inner_network) = (Some(partial), inner.l3);
    Some(OffloadRequest { checksum, encapsulated: true, inner_network, ..OffloadRequest::NONE })
}

/// Returns the range of the IP datagram as [`Layers::datagram`] does. A TCP packet with a length of
/// 0 extends to the end of the frame.
fn large_datagram(layers: &Layers, frame: &[u8]) -> Option<Range<usize>> {
    let l3 = usize::from(layers.l3);
    let field = l3 + if layers.ip == Ip::V4 { 2 } else { 4 };
    if be16(frame, field) == 0 && !layers.fragment {
        return Some(l3..frame.len());
    }
    layers.datagram(frame)
}

#[cfg(test)]
mod tests;
