//! Merging of a flow's segments into a large send: the inverse of [`segment`](crate::segment).
//!
//! The rules are those of `tcp_gro_receive` and `udp_gro_receive_segment`. A segment joins when its
//! checksums hold, its headers differ from the first's only in what segmentation changes, its
//! sequence number and IPv4 identification follow on, and it is no longer than the first. A shorter
//! one, or one with FIN or PSH, is the last. SYN, RST and URG, and CWR on any but the first,
//! exclude a segment. Of UDP at most 64 datagrams merge.
//!
//! The result is in a sender's form: lengths of the whole, the pseudo-header's sum in the checksum
//! field, and an [`OffloadRequest`] by which segmentation gives the same segments again.

use crate::headers::tcp::{CWR, FIN, FLAGS, PSH, RST, SYN, URG};
use crate::headers::{Check, Ip, Layers, Transport, be16, be32, put16, verify};
use crate::{Gso, OffloadRequest, checksum::Sum, segment::write_ipv4_checksum};

/// Largest number of datagrams in a merge (`UDP_GRO_CNT_MAX`).
const DATAGRAMS: u32 = 64;

/// A merge in progress, in the caller's memory.
#[derive(Debug)]
pub struct Merge<'a> {
    out: &'a mut [u8],
    len: usize,
    layers: Layers,
    transport: Transport,
    /// Payload of the first segment.
    size: usize,
    segments: u32,
    closed: bool,
}

/// Returns the headers of a frame that can be merged: valid checksums, payload, no padding, and
/// none of the excluding flags.
fn mergeable(frame: &[u8]) -> Option<(Layers, Transport)> {
    let layers = Layers::of(frame).ok()?;
    let transport = layers.transport?;
    let sound = verify(frame);
    let whole = layers.datagram(frame)?.end == frame.len() && frame.len() > layers.end as usize;
    let l4 = layers.l4 as usize;
    let plain = match transport {
        Transport::Tcp => frame[l4 + FLAGS] & (SYN | RST | URG) == 0,
        Transport::Udp => be16(frame, l4 + 4) as usize == frame.len() - l4,
    };
    let intact = sound.transport == Check::Good && sound.ip != Check::Bad;
    (whole && plain && intact).then_some((layers, transport))
}

impl<'a> Merge<'a> {
    /// Starts with `frame`, copied to `out`. Returns `None` when it cannot be merged, or `out`
    /// cannot hold it.
    pub fn start(out: &'a mut [u8], frame: &[u8]) -> Option<Merge<'a>> {
        let (layers, transport) = mergeable(frame)?;
        out.get_mut(..frame.len())?.copy_from_slice(frame);
        let closed =
            transport == Transport::Tcp && frame[layers.l4 as usize + FLAGS] & (FIN | PSH) != 0;
        let size = frame.len() - layers.end as usize;
        Some(Merge { out, len: frame.len(), layers, transport, size, segments: 1, closed })
    }

    /// Adds the next segment. Returns false, and changes nothing, when it does not follow or does
    /// not fit; the caller then finishes this merge and starts one with it.
    pub fn add(&mut self, frame: &[u8]) -> bool {
        let end = self.layers.end as usize;
        let fits = !self.closed && frame.len() > end && frame.len() - end <= self.size;
        if !fits || !self.follows(frame) || mergeable(frame).is_none_or(|(l, _)| l != self.layers) {
            return false;
        }
        let (payload, at, l4) = (&frame[end..], self.len, self.layers.l4 as usize);
        // The whole must still fit IP's length field.
        if at + payload.len() - self.layers.l3 as usize > 0xffff {
            return false;
        }
        let Some(room) = self.out.get_mut(at..at + payload.len()) else {
            return false;
        };
        room.copy_from_slice(payload);
        self.len += payload.len();
        self.segments += 1;
        self.closed = payload.len() < self.size;
        match self.transport {
            Transport::Tcp => {
                let last = frame[l4 + FLAGS] & (FIN | PSH);
                self.out[l4 + FLAGS] |= last;
                self.closed |= last != 0;
            }
            Transport::Udp => self.closed |= self.segments == DATAGRAMS,
        }
        true
    }

    /// Returns whether the headers are those of the next segment.
    fn follows(&self, frame: &[u8]) -> bool {
        let (l3, l4, end) =
            (self.layers.l3 as usize, self.layers.l4 as usize, self.layers.end as usize);
        let first = &self.out[..end];
        let same = |from: usize, to: usize| first[from..to] == frame[from..to];
        let network = match self.layers.ip {
            // Between the fields: version to TOS; fragment, TTL, protocol; addresses and options.
            Ip::V4 => {
                let id = be16(first, l3 + 4).wrapping_add(self.segments as u16);
                let header = same(0, l3 + 2) && same(l3 + 6, l3 + 10) && same(l3 + 12, l4);
                header && be16(frame, l3 + 4) == id
            }
            Ip::V6 => same(0, l3 + 4) && same(l3 + 6, l4),
        };
        network
            && match self.transport {
                Transport::Tcp => {
                    let seq = be32(first, l4 + 4).wrapping_add((self.len - end) as u32);
                    let flags = (first[l4 + FLAGS], frame[l4 + FLAGS]);
                    same(l4, l4 + 4)
                        && be32(frame, l4 + 4) == seq
                        && same(l4 + 8, l4 + FLAGS)
                        && flags.1 & CWR == 0
                        && (flags.0 ^ flags.1) & !(FIN | PSH | CWR) == 0
                        && same(l4 + 14, l4 + 16)
                        && same(l4 + 18, end)
                }
                Transport::Udp => same(l4, l4 + 4),
            }
    }

    /// Returns the number of segments.
    pub const fn segments(&self) -> u32 {
        self.segments
    }

    /// Writes lengths and sums. Returns the length of the frame in `out` and its offload request; a
    /// single segment has checksum offload alone.
    pub fn finish(self) -> (usize, OffloadRequest) {
        let Layers { l3, l4, end, ip, .. } = self.layers;
        let frame = &mut self.out[..self.len];
        let (l3, l4, l4_len) = (l3 as usize, l4 as usize, self.len - l4 as usize);
        match ip {
            Ip::V4 => {
                put16(frame, l3 + 2, (self.len - l3) as u16);
                write_ipv4_checksum(frame, l3);
            }
            Ip::V6 => put16(frame, l3 + 4, (self.len - l3 - 40) as u16),
        }
        if self.transport == Transport::Udp {
            put16(frame, l4 + 4, l4_len as u16);
        }
        let pseudo: Sum = self.layers.pseudo_header(frame, l4_len as u32);
        put16(frame, l4 + self.transport.checksum_offset() as usize, pseudo.value());
        let kind = self.layers.gso_kind().filter(|_| self.segments > 1);
        let gso = kind.map(|kind| Gso { kind, size: self.size as u16, header: end });
        (self.len, OffloadRequest { checksum: self.layers.partial(), gso, ..OffloadRequest::NONE })
    }
}

#[cfg(test)]
mod tests;
