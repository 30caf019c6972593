//! The receive queue, and what a trunk has to mend in what it receives.
//!
//! Source: ibmveth.c `ibmveth_poll`, `ibmveth_rxq_*`, `ibmveth_rx_csum_helper`,
//! `ibmveth_rx_mss_helper`.
//!
//! The hypervisor writes an entry's flags last, so the toggle is looked at alone, and the
//! rest behind a fence. It begins as 1: a queue of zeros has nothing in it, but in the
//! second lap zero is what is new, which is why nothing ever clears an entry.

use super::config::{Config, OpenError};
use super::pool::{Pools, reachable};
use super::stats::Stats;
use doorbell_hal::{Alignment, Coherent, CpuWork, Fence, Host, Hypervisor, Mapped};
use doorbell_layout::ibmveth::{
    CORRELATOR, Descriptor, ENTRY, Entry, MSS_AT, MSS_LEN, OLD_LARGE_SEND, PAGE,
};
use doorbell_packet::checksum::Sum;
use doorbell_packet::ethernet::HEADER;
use doorbell_packet::headers::{Ip, Layers, Transport};
use doorbell_packet::{CsumPartial, Fragment, Gso, OffloadRequest, Packet};
use zerocopy::big_endian::{U32, U64};

/// The receive queue.
#[derive(Debug)]
pub(super) struct Queue {
    entries: Coherent,
    slots: u32,
    index: u32,
    /// The toggle of what is new.
    toggle: bool,
}

/// An entry that is new.
#[derive(Clone, Copy, Debug)]
pub(super) struct New {
    flags: u32,
    length: u32,
    correlator: u64,
}

impl Queue {
    pub(super) fn allocate<H: Host>(h: &mut H, slots: u32) -> Result<Queue, OpenError> {
        let entries = h.coherent(slots * ENTRY, PAGE)?;
        let q = Queue { entries, slots, index: 0, toggle: true };
        if !reachable(q.entries.iova().0, q.entries.len()) {
            q.release(h);
            return Err(OpenError::Address);
        }
        Ok(q)
    }

    pub(super) fn release<H: Host>(self, h: &mut H) {
        h.release_coherent(self.entries);
    }

    pub(super) fn descriptor(&self) -> Descriptor {
        Descriptor::new(0, self.entries.len(), self.entries.iova().0 as u32)
    }

    fn flags<H: Host>(&self, h: &mut H) -> u32 {
        h.load::<U32>(&self.entries, self.index * ENTRY + Entry::FLAGS_AT).get()
    }

    /// Whether there is a new entry.
    pub(super) fn pending<H: Host>(&self, h: &mut H) -> bool {
        (self.flags(h) & Entry::TOGGLE != 0) == self.toggle
    }

    /// How many entries are new, also behind one that was lost.
    pub(super) fn unread<H: Host>(&self, h: &mut H) -> u64 {
        let new = |i: u32| {
            let (at, lap) = ((self.index + i) % self.slots, self.index + i >= self.slots);
            let flags = h.load::<U32>(&self.entries, at * ENTRY + Entry::FLAGS_AT).get();
            (flags & Entry::TOGGLE != 0) == (self.toggle != lap)
        };
        (0..self.slots).map(new).filter(|new| *new).count() as u64
    }

    /// Takes the next entry, if it is new.
    #[inline]
    pub(super) fn next<H: Host>(&mut self, h: &mut H) -> Option<New> {
        let flags = self.flags(h);
        if (flags & Entry::TOGGLE != 0) != self.toggle {
            return None;
        }
        h.fence(Fence::DmaRead);
        h.charge(CpuWork::Completion);
        let at = self.index * ENTRY;
        let length = h.load::<U32>(&self.entries, at + Entry::LENGTH_AT).get();
        let correlator = h.load::<U64>(&self.entries, at + Entry::CORRELATOR_AT).get();
        self.index += 1;
        if self.index == self.slots {
            (self.index, self.toggle) = (0, !self.toggle);
        }
        Some(New { flags, length, correlator })
    }
}

/// Makes a packet of an entry, and brings its buffer where it belongs; the packet, and
/// whether its sender vouches for it.
pub(super) fn receive<H: Hypervisor>(
    h: &mut H,
    c: &Config,
    s: &mut Stats,
    pools: &mut Pools,
    e: New,
) -> Option<(Packet, bool)> {
    let Some((at, m)) = pools.find(e.correlator) else {
        s.rx_bad_correlator += 1;
        return None;
    };
    if e.flags & Entry::VALID == 0 {
        s.rx_invalid_buffer += 1;
        pools.recycle(at);
        return None;
    }
    let (offset, len) = (e.flags & Entry::OFFSET, e.length);
    let large = e.flags & Entry::LRG_PKT != 0;
    let least = if large { CORRELATOR + MSS_LEN } else { CORRELATOR };
    let fits = len <= m.len() && offset <= m.len() - len;
    if !fits || offset < least || len < HEADER as u32 {
        s.rx_malformed += 1;
        pools.recycle(at);
        return None;
    }
    let mss = large.then(|| mss(h, m));
    let copy = if len < c.rx_copybreak {
        h.buffer(len, Alignment { align: 64, offset: 2 }).ok()
    } else {
        None
    };
    let piece = match copy {
        Some(buf) => {
            copy_out(h, m, offset, &buf);
            pools.recycle(at);
            s.rx_copied += 1;
            Fragment::whole(buf)
        }
        // For want of memory the frame goes up where it is.
        None => {
            let m = pools.harvest(at)?;
            let start = m.range().start + offset;
            Fragment { buf: h.unmap(m), start, len }
        }
    };
    let good = e.flags & Entry::CSUM_GOOD != 0;
    s.rx_packets += 1;
    s.rx_bytes += u64::from(len);
    s.rx_csum_good += u64::from(good);
    let p = mend(h, c, s, piece, good, mss);
    h.charge(CpuWork::RxPacket);
    Some((p, good))
}

/// The segment size beside a large packet.
fn mss<H: Host>(h: &mut H, m: &Mapped) -> u16 {
    let start = m.range().start + MSS_AT;
    h.peek(m, start..start + MSS_LEN, |b| u16::from_be_bytes([b[6], b[7]]))
}

/// Copies a small frame out of its buffer, by way of the stack.
fn copy_out<H: Host>(h: &mut H, m: &Mapped, offset: u32, to: &doorbell_hal::Buf) {
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

// ---- what the sender left undone ----

/// What there is to see in a frame's headers.
#[derive(Clone, Copy, Debug)]
struct Look {
    layers: Layers,
    /// IPv4's header checksum, and what it has to be.
    ip_check: Option<(u16, u16)>,
    tcp: Option<Tcp>,
}

#[derive(Clone, Copy, Debug)]
struct Tcp {
    check: u16,
    /// The pseudo-header's sum.
    pseudo: u16,
    /// Where the datagram ends.
    end: u32,
}

impl Look {
    fn at(frame: &[u8]) -> Option<Look> {
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
        Some(Look { layers, ip_check, tcp })
    }
}

/// Rebuilds what the sender of a large send, or of a packet without its checksum, left
/// out, so that the packet can be forwarded as any other. `mss` is the segment size
/// of a packet that the firmware says is large.
fn mend<H: Host>(
    h: &mut H,
    c: &Config,
    s: &mut Stats,
    piece: Fragment,
    good: bool,
    mss: Option<u16>,
) -> Packet {
    let Fragment { buf, start, len } = piece;
    let look = h.bytes(&buf, start..start + len, Look::at);
    let mut p = Packet::linear(Fragment { buf, start, len });
    let Some(Look { layers, ip_check, tcp }) = look else { return p };
    let old = ip_check.filter(|(check, _)| *check == OLD_LARGE_SEND);
    if let Some((_, right)) = old {
        put(h, &p, u32::from(layers.l3) + 10, right);
        h.charge(CpuWork::Sum(u32::from(layers.l4 - layers.l3)));
    }
    let large = mss.is_some() || old.is_some() || len > c.mtu + u32::from(layers.l3);
    s.rx_large_packets += u64::from(large);
    let Some(tcp) = tcp else { return p };
    // Without the firmware's word the sender's is in the checksum.
    let size = mss.unwrap_or(tcp.check);
    let payload = tcp.end - u32::from(layers.end);
    let gso = (large && size > 0 && payload > u32::from(size))
        .then(|| layers.gso_kind().map(|kind| Gso { kind, size, header: layers.end }))
        .flatten();
    if gso.is_some() || old.is_some() || good && tcp.check == 0 {
        let partial = CsumPartial { start: layers.l4, offset: Transport::Tcp.checksum_offset() };
        put(h, &p, partial.field() as u32, tcp.pseudo);
        s.rx_csum_partial += 1;
        // Who completes it sums to the end, and Ethernet's padding does not belong to it.
        p.head.len = tcp.end;
        p.todo = OffloadRequest { checksum: Some(partial), gso, ..OffloadRequest::NONE };
    }
    p
}

fn put<H: Host>(h: &mut H, p: &Packet, at: u32, v: u16) {
    let at = p.head.start + at;
    h.bytes_mut(&p.head.buf, at..at + 2, |b| b.copy_from_slice(&v.to_be_bytes()));
}
