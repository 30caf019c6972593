//! Segmentation of a large send, as in Linux.
//!
//! Sources: `tcp_gso_segment` (net/ipv4/tcp_offload.c), `__udp_gso_segment`
//! (net/ipv4/udp_offload.c), `inet_gso_segment`, `ipv6_gso_segment`. A segment's headers are copies
//! with new lengths and checksums, IPv4 identifications that count up (also for UDP and with DF),
//! TCP sequence numbers, FIN and PSH on the last segment only, and CWR on the first only. The
//! pseudo-header's sum is computed anew, so the checksum field may hold anything.
//!
//! In a tunnel (`skb_udp_tunnel_segment`, `gre_gso_segment`) each segment has the outer headers
//! too, with a length, an identification and, where the large send has one, a checksum of its own.
//!
//! [`SegmentPlan`] works on the header alone, for payload that is not in one piece; [`Segments`] on
//! a frame that is.

use crate::headers::tcp::{CWR, FIN, FLAGS, PSH};
use crate::headers::{
    Ip, Layers, Transport, be16, be32, header_len_v4, prepare_partial, put16, put32,
};
use crate::tunnel::{Headers, Tunnel};
use crate::{CsumPartial, Gso, OffloadRequest, checksum::Sum};
use core::ops::Range;
use doorbell_hal::fail_if;

/// Why a large send cannot be segmented.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SegmentError {
    /// The headers do not match the request's kind or length, or are malformed, of a fragment, with
    /// segments left in an IPv6 routing header, or with a sequence number in a GRE header.
    #[error("headers do not match the large send")]
    Headers,
    /// The segment size is 0, or makes an IP datagram longer than 65535 bytes.
    #[error("bad segment size")]
    Size,
    /// The large send has no payload.
    #[error("no payload")]
    NoPayload,
}

/// The segmentation of one large send: its header, and the length of its payload.
#[derive(Clone, Debug)]
pub struct SegmentPlan<'a> {
    header: &'a [u8],
    layers: Layers,
    transport: Transport,
    size: u32,
    payload: u32,
    done: u32,
    id: u16,
    outer: Option<Outer>,
}

/// The headers around a tunnel.
#[derive(Clone, Copy, Debug)]
struct Outer {
    layers: Layers,
    tunnel: Tunnel,
    id: u16,
}

/// One segment whose header has been written. Its checksum field holds the
/// pseudo-header's sum until [`Segment::finish`].
#[derive(Clone, Debug)]
pub struct Segment {
    /// Range of its payload in that of the large send.
    pub payload: Range<u32>,
    /// Position of its checksum.
    pub partial: CsumPartial,
    /// The sum of pseudo-header and transport header, which has an even length.
    pub sum: Sum,
    /// The checksum of a tunnel's header, and its pseudo-header's sum.
    pub outer: Option<(CsumPartial, Sum)>,
}

impl<'a> SegmentPlan<'a> {
    /// Takes the headers, `gso.header` bytes, of a large send with `payload` bytes more.
    pub fn new(header: &'a [u8], payload: u32, gso: Gso) -> Result<SegmentPlan<'a>, SegmentError> {
        SegmentPlan::of(header, payload, &OffloadRequest { gso: Some(gso), ..OffloadRequest::NONE })
    }

    /// Takes the headers of a large send as [`SegmentPlan::new`] does, also those of a tunnel.
    pub fn of(
        header: &'a [u8],
        payload: u32,
        todo: &OffloadRequest,
    ) -> Result<SegmentPlan<'a>, SegmentError> {
        let headers = Headers::of(header, todo).map_err(|_| SegmentError::Headers)?;
        let (layers, gso) = (*headers.layers(), todo.gso.ok_or(SegmentError::Headers)?);
        let transport = layers.transport.ok_or(SegmentError::Headers)?;
        let counted_packets =
            matches!(headers.inner, Some((Tunnel::Gre { sequence: true, .. }, _)));
        if layers.end != gso.header
            || header.len() != layers.end as usize
            || layers.gso_kind() != Some(gso.kind)
            || layers.source_routed
            || counted_packets
        {
            return Err(SegmentError::Headers);
        }
        // What the outermost IP length field counts besides the payload; a short send never reaches
        // `size`.
        let Layers { l3, ip, .. } = headers.outer;
        let counted = layers.end - l3 - if ip == Ip::V6 { 40 } else { 0 };
        let largest = payload.min(gso.size as u32);
        fail_if(gso.size == 0 || counted as u32 + largest > 0xffff, SegmentError::Size)?;
        fail_if(payload == 0, SegmentError::NoPayload)?;
        let outer = headers.inner.map(|(tunnel, _)| Outer {
            layers: headers.outer,
            tunnel,
            id: identification(header, &headers.outer),
        });
        let id = identification(header, &layers);
        let size = gso.size as u32;
        Ok(SegmentPlan { header, layers, transport, size, payload, done: 0, id, outer })
    }

    /// Returns the number of segments.
    pub const fn count(&self) -> u32 {
        self.payload.div_ceil(self.size)
    }

    /// Returns the length of the longest segment with its headers.
    pub fn longest(&self) -> usize {
        self.header.len() + self.size.min(self.payload) as usize
    }

    /// Returns the header that is copied.
    pub const fn header(&self) -> &'a [u8] {
        self.header
    }

    /// Returns the range of the next segment's payload; empty after the last.
    #[inline(always)]
    pub fn next_payload(&self) -> Range<u32> {
        self.done..self.payload.min(self.done.saturating_add(self.size))
    }

    /// Leaves out the next `n` segments.
    pub fn skip(&mut self, n: u32) {
        self.done = self.payload.min(self.done.saturating_add(self.size.saturating_mul(n)));
        self.id = self.id.wrapping_add(n as u16);
        if let Some(outer) = &mut self.outer {
            outer.id = outer.id.wrapping_add(n as u16);
        }
    }

    /// Writes the next segment's header to the start of `out`. Returns `None` after the last.
    ///
    /// # Panics
    /// Panics if `out` is shorter than the header.
    #[inline]
    pub fn next_header(&mut self, out: &mut [u8]) -> Option<Segment> {
        let Range { start: from, end: to } = self.next_payload();
        if from == to {
            return None;
        }
        self.done = to;

        let out = &mut out[..self.header.len()];
        out.copy_from_slice(self.header);
        let (l3, l4) = (self.layers.l3 as usize, self.layers.l4 as usize);
        let l4_len = (out.len() - l4) as u32 + to - from;
        let l3_len = (l4 - l3) as u32 + l4_len;
        write_network(out, &self.layers, l3_len, self.id);
        self.id = self.id.wrapping_add(1);
        match self.transport {
            Transport::Tcp => {
                put32(out, l4 + 4, be32(self.header, l4 + 4).wrapping_add(from));
                if from != 0 {
                    out[l4 + FLAGS] &= !CWR;
                }
                if to != self.payload {
                    out[l4 + FLAGS] &= !(FIN | PSH);
                }
            }
            Transport::Udp => put16(out, l4 + 4, l4_len as u16),
        }
        let partial =
            CsumPartial { start: self.layers.l4, offset: self.transport.checksum_offset() };
        let pseudo = self.layers.pseudo_header(out, l4_len).value();
        put16(out, partial.field(), pseudo);
        let outer = self.outer.as_mut().and_then(|outer| outer.write(out, to - from));
        Some(Segment { payload: from..to, partial, sum: Sum::of(&out[l4..]), outer })
    }
}

impl Outer {
    /// Writes the outer headers of a segment, `headers` and `payload` bytes. Returns its checksum.
    #[cold]
    fn write(&mut self, headers: &mut [u8], payload: u32) -> Option<(CsumPartial, Sum)> {
        let Layers { l3, l4, .. } = self.layers;
        let len = headers.len() as u32 + payload;
        let l4_len = len - u32::from(l4);
        write_network(headers, &self.layers, len - u32::from(l3), self.id);
        self.id = self.id.wrapping_add(1);
        match self.tunnel {
            Tunnel::Gre { checksum: true, .. } => {
                Some((CsumPartial { start: l4, offset: 4 }, Sum::ZERO))
            }
            Tunnel::Udp(_) => {
                let at = usize::from(l4);
                put16(headers, at + 4, l4_len as u16);
                let partial = CsumPartial { start: l4, offset: Transport::Udp.checksum_offset() };
                // 0: the tunnel does without.
                let pseudo = self.layers.pseudo_header(headers, l4_len);
                (be16(headers, partial.field()) != 0).then_some((partial, pseudo))
            }
            Tunnel::Ip | Tunnel::Gre { .. } => None,
        }
    }
}

/// Returns the identification in an IPv4 header; 0 for IPv6.
fn identification(header: &[u8], layers: &Layers) -> u16 {
    match layers.ip {
        Ip::V4 => be16(header, layers.l3 as usize + 4),
        Ip::V6 => 0,
    }
}

/// Writes length, identification and checksum of an IP header whose datagram has `len` bytes.
#[inline(always)]
fn write_network(out: &mut [u8], layers: &Layers, len: u32, id: u16) {
    let l3 = layers.l3 as usize;
    match layers.ip {
        Ip::V4 => {
            put16(out, l3 + 2, len as u16);
            put16(out, l3 + 4, id);
            write_ipv4_checksum(out, l3);
        }
        Ip::V6 => put16(out, l3 + 4, (len - 40) as u16),
    }
}

impl Segment {
    /// Completes the checksums in the segment's header by the sum of its payload.
    #[inline]
    pub fn finish(&self, header: &mut [u8], payload: Sum) {
        put16(header, self.partial.field(), self.partial.finish(self.sum.plus(payload)));
        if let Some((partial, pseudo)) = self.outer {
            put16(header, partial.field(), 0);
            let sum = Sum::of(&header[partial.start as usize..]);
            put16(header, partial.field(), partial.finish(pseudo.plus(sum).plus(payload)));
        }
    }
}

pub(crate) fn write_ipv4_checksum(frame: &mut [u8], l3: usize) {
    put16(frame, l3 + 10, 0);
    let check = Sum::of(&frame[l3..l3 + header_len_v4(frame, l3)]).checksum();
    put16(frame, l3 + 10, check);
}

/// The segments of a large send that lies in one piece.
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    plan: SegmentPlan<'a>,
    payload: &'a [u8],
}

impl<'a> Segments<'a> {
    /// Takes the frame of a large send.
    pub fn new(frame: &'a [u8], gso: Gso) -> Result<Segments<'a>, SegmentError> {
        let (header, payload) =
            frame.split_at_checked(gso.header as usize).ok_or(SegmentError::Headers)?;
        let len = u32::try_from(payload.len()).map_err(|_| SegmentError::Size)?;
        Ok(Segments { plan: SegmentPlan::new(header, len, gso)?, payload })
    }

    /// Returns the plan.
    pub const fn plan(&self) -> &SegmentPlan<'a> {
        &self.plan
    }

    /// Leaves out the next `n` segments.
    pub fn skip(&mut self, n: u32) {
        self.plan.skip(n);
    }

    /// Writes the next segment, complete, to the start of `out`. Returns its length.
    ///
    /// # Panics
    /// Panics if `out` is shorter than the segment; [`SegmentPlan::longest`] is enough for all.
    #[inline]
    pub fn next_into(&mut self, out: &mut [u8]) -> Option<usize> {
        let segment = self.plan.next_header(out)?;
        let from = &self.payload[segment.payload.start as usize..segment.payload.end as usize];
        let (header, rest) = out.split_at_mut(self.plan.header.len());
        let sum = Sum::copy(&mut rest[..from.len()], from);
        segment.finish(header, sum);
        Some(header.len() + from.len())
    }
}

/// Turns a complete frame into one with segmentation offload if it has more payload than `size`,
/// else into one with checksum offload alone. Returns `None`, and changes nothing, where
/// [`prepare_partial`] does.
pub fn prepare_gso(frame: &mut [u8], size: u16) -> Option<OffloadRequest> {
    let partial = prepare_partial(frame)?;
    let layers = Layers::of(frame).ok()?;
    let end = layers.datagram(frame)?.end;
    let large = size > 0 && frame.len() == end && end - layers.end as usize > size as usize;
    let gso =
        layers.gso_kind().filter(|_| large).map(|kind| Gso { kind, size, header: layers.end });
    Some(OffloadRequest { checksum: Some(partial), gso, ..OffloadRequest::NONE })
}

#[cfg(test)]
mod tests;
