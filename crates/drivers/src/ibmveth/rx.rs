//! The receive queue, and the headers that a trunk has to restore in received packets.
//!
//! Source: ibmveth.c `ibmveth_poll`, `ibmveth_rxq_*`, `ibmveth_rx_csum_helper`,
//! `ibmveth_rx_mss_helper`.
//!
//! The hypervisor writes an entry's flags last, so the toggle is read alone, and the rest behind a
//! fence. The toggle begins as 1, so a queue of zeros is empty. In the second lap zero means new,
//! so entries are never cleared.

use super::config::{Config, reachable};
use super::{pool::Pools, stats::Stats};
use crate::Opened;
use crate::common::{coherent, next};
use doorbell_hal::{Alignment, Buf, Coherent, CpuWork, Fence, Host, Hypervisor, Mapped};
use doorbell_layout::ibmveth::{
    CORRELATOR, Descriptor, ENTRY, Entry, MSS_AT, MSS_LEN, OLD_LARGE_SEND, PAGE,
};
use doorbell_packet::headers::{Ip, Layers, Transport};
use doorbell_packet::{CsumPartial, Fragment, Gso, OffloadRequest, Packet};
use doorbell_packet::{checksum::Sum, ethernet::HEADER};
use zerocopy::big_endian::{U32, U64};

#[derive(Debug)]
pub(super) struct RxQueue {
    entries: Coherent,
    count: u32,
    index: u32,
    toggle: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RxEntry {
    flags: u32,
    length: u32,
    correlator: u64,
}

impl RxQueue {
    pub(super) fn allocate<H: Host>(h: &mut H, count: u32) -> Opened<RxQueue> {
        let entries = coherent(h, (count * ENTRY, PAGE), reachable)?;
        Ok(RxQueue { entries, count, index: 0, toggle: true })
    }

    pub(super) fn release<H: Host>(self, h: &mut H) {
        h.release_coherent(self.entries);
    }

    pub(super) fn descriptor(&self) -> Descriptor {
        Descriptor::new(0, self.entries.len(), self.entries.iova().0 as u32)
    }

    fn flags<H: Host>(&self, h: &mut H, i: u32) -> u32 {
        h.load::<U32>(&self.entries, i * ENTRY + Entry::FLAGS_AT).get()
    }

    /// Returns whether there is a new entry.
    pub(super) fn pending<H: Host>(&self, h: &mut H) -> bool {
        (self.flags(h, self.index) & Entry::TOGGLE != 0) == self.toggle
    }

    /// Returns the number of new entries, also behind one that was lost.
    pub(super) fn unread<H: Host>(&self, h: &mut H) -> u64 {
        let new = |i: u32| {
            let (at, lap) = ((self.index + i) % self.count, self.index + i >= self.count);
            (self.flags(h, at) & Entry::TOGGLE != 0) == (self.toggle != lap)
        };
        (0..self.count).map(new).filter(|new| *new).count() as u64
    }

    #[inline]
    pub(super) fn next<H: Host>(&mut self, h: &mut H) -> Option<RxEntry> {
        let flags = self.flags(h, self.index);
        if (flags & Entry::TOGGLE != 0) != self.toggle {
            return None;
        }
        h.fence(Fence::DmaRead);
        h.charge(CpuWork::Completion);
        let at = self.index * ENTRY;
        let length = h.load::<U32>(&self.entries, at + Entry::LENGTH_AT).get();
        let correlator = h.load::<U64>(&self.entries, at + Entry::CORRELATOR_AT).get();
        self.index = next(self.index, self.count);
        self.toggle ^= self.index == 0;
        Some(RxEntry { flags, length, correlator })
    }
}

/// Takes the packet of an entry and returns its buffer to the pools if it was copied. Returns the
/// packet, and whether its sender vouches for its checksum.
pub(super) fn receive<H: Hypervisor>(
    h: &mut H,
    c: &Config,
    s: &mut Stats,
    pools: &mut Pools,
    e: RxEntry,
) -> Option<(Packet, bool)> {
    let Some((at, m)) = pools.find(e.correlator) else {
        s.rx_bad_correlator += 1;
        return None;
    };
    if e.flags & Entry::VALID == 0 {
        s.rx_invalid_buffer += 1;
        pools.free(at);
        return None;
    }
    let (offset, len) = (e.flags & Entry::OFFSET, e.length);
    let large = e.flags & Entry::LRG_PKT != 0;
    let least = if large { CORRELATOR + MSS_LEN } else { CORRELATOR };
    let fits = len <= m.len() && offset <= m.len() - len;
    if !fits || offset < least || len < HEADER as u32 {
        s.rx_malformed += 1;
        pools.free(at);
        return None;
    }
    let mss = large.then(|| mss(h, m));
    let place = Alignment { align: 64, offset: 2 };
    let copy = if len < c.rx_copybreak { h.buffer(len, place).ok() } else { None };
    let frame = match copy {
        Some(buf) => {
            copy_out(h, m, offset, &buf);
            pools.free(at);
            s.rx_copied += 1;
            Fragment::whole(buf)
        }
        // Without memory for a copy the frame is passed up in its buffer.
        None => {
            let m = pools.free(at).take()?;
            let start = m.range().start + offset;
            Fragment { buf: h.unmap(m), start, len }
        }
    };
    let good = e.flags & Entry::CSUM_GOOD != 0;
    s.rx_packets += 1;
    s.rx_bytes += u64::from(len);
    s.rx_csum_good += u64::from(good);
    let p = restore_headers(h, c, s, frame, good, mss);
    h.charge(CpuWork::RxPacket);
    Some((p, good))
}

/// Returns the segment size beside a large packet.
fn mss<H: Host>(h: &mut H, m: &Mapped) -> u16 {
    let start = m.range().start + MSS_AT;
    h.peek(m, start..start + MSS_LEN, |b| u16::from_be_bytes([b[6], b[7]]))
}

/// Copies a small frame out of its buffer.
fn copy_out<H: Host>(h: &mut H, m: &Mapped, offset: u32, to: &Buf) {
    const BLOCK: u32 = 256;
    let (start, mut done) = (m.range().start + offset, 0);
    while done < to.len() {
        let n = (to.len() - done).min(BLOCK);
        let mut block = [0; BLOCK as usize];
        let block = &mut block[..n as usize];
        h.peek(m, start + done..start + done + n, |b| block.copy_from_slice(b));
        h.bytes_mut(to, done..done + n, |b| b.copy_from_slice(block));
        done += n;
    }
    h.charge(CpuWork::Copy(to.len()));
}

/// The headers of a received frame.
#[derive(Clone, Copy, Debug)]
struct Headers {
    layers: Layers,
    /// IPv4's header checksum as received, and the correct one.
    ip_check: Option<(u16, u16)>,
    tcp: Option<Tcp>,
}

#[derive(Clone, Copy, Debug)]
struct Tcp {
    check: u16,
    /// The pseudo-header's sum.
    pseudo: u16,
    end: u32,
}

impl Headers {
    fn of(frame: &[u8]) -> Option<Headers> {
        let be16 = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let layers = Layers::of(frame).ok()?;
        let l3 = usize::from(layers.l3);
        let ip_check = (layers.ip == Ip::V4).then(|| {
            let len = usize::from(frame[l3] & 0xf) * 4;
            let (head, tail) = (&frame[l3..l3 + 10], &frame[l3 + 12..l3 + len]);
            (be16(l3 + 10), Sum::of(head).plus(Sum::of(tail)).checksum())
        });
        let is_tcp = layers.transport == Some(Transport::Tcp) && !layers.source_routed;
        let tcp = layers.datagram(frame).filter(|_| is_tcp).map(|d| Tcp {
            check: be16(usize::from(layers.l4) + 16),
            pseudo: layers.pseudo_header(frame, (d.end - usize::from(layers.l4)) as u32).value(),
            end: d.end as u32,
        });
        Some(Headers { layers, ip_check, tcp })
    }
}

/// Restores the checksums that the sender of a large or checksum-less packet omitted, so that the
/// packet can be forwarded. `mss` is the segment size of a packet that the firmware marks as large.
fn restore_headers<H: Host>(
    h: &mut H,
    c: &Config,
    s: &mut Stats,
    frame: Fragment,
    good: bool,
    mss: Option<u16>,
) -> Packet {
    let (start, len) = (frame.start, frame.len);
    let headers = h.bytes(&frame.buf, start..start + len, Headers::of);
    let mut p = Packet::linear(frame);
    let Some(Headers { layers, ip_check, tcp }) = headers else { return p };
    let old = ip_check.filter(|(check, _)| *check == OLD_LARGE_SEND);
    if let Some((_, right)) = old {
        put(h, &p, u32::from(layers.l3) + 10, right);
        h.charge(CpuWork::Sum(u32::from(layers.l4 - layers.l3)));
    }
    let large = mss.is_some() || old.is_some() || len > c.mtu + u32::from(layers.l3);
    s.rx_large_packets += u64::from(large);
    let Some(tcp) = tcp else { return p };
    // In the old way the segment size is in the checksum field.
    let size = mss.unwrap_or(tcp.check);
    let payload = tcp.end - u32::from(layers.end);
    let gso = (large && size > 0 && payload > u32::from(size))
        .then(|| layers.gso_kind().map(|kind| Gso { kind, size, header: layers.end }))
        .flatten();
    if gso.is_some() || old.is_some() || good && tcp.check == 0 {
        let partial = CsumPartial { start: layers.l4, offset: Transport::Tcp.checksum_offset() };
        put(h, &p, partial.field() as u32, tcp.pseudo);
        s.rx_csum_partial += 1;
        // The sum runs to the end of the packet, which must not include Ethernet's padding.
        p.head.len = tcp.end;
        p.todo = OffloadRequest { checksum: Some(partial), gso, ..OffloadRequest::NONE };
    }
    p
}

fn put<H: Host>(h: &mut H, p: &Packet, at: u32, v: u16) {
    let at = p.head.start + at;
    h.bytes_mut(&p.head.buf, at..at + 2, |b| b.copy_from_slice(&v.to_be_bytes()));
}
