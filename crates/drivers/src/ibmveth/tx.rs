//! Transmission.
//!
//! Source: ibmveth.c `ibmveth_start_xmit`, `ibmveth_send`; for the mapped way that of
//! Linux 4.4.
//!
//! The call gathers the pieces while the caller waits, so a packet's buffers are free
//! when it returns, and no queue can be full. They wait in a list for whoever asks
//! ([`Sender::reclaim`]).

use super::call;
use super::config::{Config, OpenError, Transmit};
use super::negotiate::Negotiated;
use super::pool::reachable;
use super::stats::Stats;
use crate::{Sink, Tx};
use alloc::collections::VecDeque;
use doorbell_hal::{Alignment, Buf, Coherent, CpuWork, Direction, Hypervisor, Mapped};
use doorbell_layout::ibmveth::{Descriptor, OLD_LARGE_SEND, PAGE, send, status};
use doorbell_packet::ethernet::HEADER;
use doorbell_packet::headers::{Ip, Layers, Transport};
use doorbell_packet::{Fragment, Gso, GsoKind, MAX_HEADER, Packet};

/// Bytes of the buffer that is mapped for good: the longest large send.
pub(super) const COPY: u32 = 64 << 10;
/// Buffers that may wait to be handed back; then the queue stops.
const DONE: usize = 1024;

#[derive(Debug)]
pub(super) struct Sender {
    buffer: Coherent,
    done: VecDeque<(Buf, u32, bool)>,
}

/// What goes with a send.
#[derive(Clone, Copy, Debug)]
struct Offload {
    flags: u64,
    mss: u16,
}

impl Sender {
    pub(super) fn allocate<H: Hypervisor>(h: &mut H) -> Result<Sender, OpenError> {
        let buffer = h.coherent(COPY, PAGE)?;
        if !reachable(buffer.iova().0, COPY) {
            h.release_coherent(buffer);
            return Err(OpenError::Address);
        }
        Ok(Sender { buffer, done: VecDeque::with_capacity(DONE) })
    }

    pub(super) fn release<H: Hypervisor>(self, h: &mut H) {
        for (b, ..) in self.done {
            h.release(b);
        }
        h.release_coherent(self.buffer);
    }

    pub(super) fn stopped(&self) -> bool {
        self.done.len() >= DONE
    }

    pub(super) fn is_drained(&self) -> bool {
        self.done.is_empty()
    }

    /// Hands back what was sent.
    pub(super) fn reclaim<H: Hypervisor, S: Sink>(&mut self, h: &mut H, up: &mut S) {
        let stopped = self.stopped();
        let mut packets = 0;
        for (b, cookie, last) in self.done.drain(..) {
            packets += u32::from(last);
            up.sent(b, cookie, last);
        }
        if packets > 0 {
            h.charge(CpuWork::TxDone(packets));
        }
        if stopped {
            h.charge(CpuWork::Wake);
        }
    }

    // ---- a packet, in the order it meets it ----

    pub(super) fn transmit<H: Hypervisor>(
        &mut self,
        h: &mut H,
        c: &Config,
        n: &Negotiated,
        s: &mut Stats,
        p: Packet,
    ) -> Tx {
        if p.head.len < HEADER as u32 || p.len() > Descriptor::LENGTH_MAX {
            return dropped(s, p);
        }
        let start = p.head.start;
        if h.bytes(&p.head.buf, start..start + 6, |to| *to == c.mac) {
            s.tx_loopback += 1;
            return dropped(s, p);
        }
        let p = match p.insert_tag(h, Alignment::ANY) {
            Ok(p) => p,
            Err(e) => return dropped(s, e.0),
        };
        match p.todo.gso {
            Some(gso) if !takes(c, n, &p, gso) => self.segment(h, c, n, s, p),
            _ => match self.send(h, c, n, s, p) {
                Ok(p) => {
                    self.finish(p);
                    Tx::Ok
                }
                Err(p) => dropped(s, p),
            },
        }
    }

    /// Its buffers may be handed back.
    fn finish(&mut self, p: Packet) {
        let cookie = p.cookie;
        let more = p.more.map(|m| *m).unwrap_or_default();
        let rest = more.frags.len() + more.list.len();
        self.done.push_back((p.head.buf, cookie, rest == 0));
        for (i, q) in more.frags.into_iter().chain(more.list).enumerate() {
            self.done.push_back((q.buf, cookie, i + 1 == rest));
        }
    }

    /// Cuts what the firmware cannot, as a stack would above a device without the feature.
    /// The buffer of the last segment stands for the packet.
    fn segment<H: Hypervisor>(
        &mut self,
        h: &mut H,
        c: &Config,
        n: &Negotiated,
        s: &mut Stats,
        p: Packet,
    ) -> Tx {
        let mut last: Option<Packet> = None;
        let cut = p.segment(h, Alignment::ANY, |h, segment| {
            let sent = match self.send(h, c, n, s, segment) {
                Ok(p) => {
                    s.tx_segments += 1;
                    p
                }
                Err(p) => {
                    s.tx_dropped += 1;
                    p
                }
            };
            if let Some(before) = last.replace(sent) {
                before.release(h);
            }
        });
        match cut {
            Ok(_) => {
                s.tx_segmented += 1;
                if let Some(p) = last {
                    self.finish(p);
                }
                Tx::Ok
            }
            Err(e) => {
                if let Some(p) = last {
                    p.release(h);
                }
                dropped(s, e.packet)
            }
        }
    }

    /// Sends a packet as one call; it comes back either way.
    fn send<H: Hypervisor>(
        &mut self,
        h: &mut H,
        c: &Config,
        n: &Negotiated,
        s: &mut Stats,
        mut p: Packet,
    ) -> Result<Packet, Packet> {
        let Some(o) = offload(h, n, s, &mut p) else { return Err(p) };
        match c.transmit {
            Transmit::Copy => self.send_copied(h, c, n, s, p, o),
            Transmit::Map { copybreak } => self.send_mapped(h, c, n, s, p, o, copybreak),
        }
    }

    fn send_copied<H: Hypervisor>(
        &mut self,
        h: &mut H,
        c: &Config,
        n: &Negotiated,
        s: &mut Stats,
        p: Packet,
        o: Offload,
    ) -> Result<Packet, Packet> {
        let len = p.len();
        if len > COPY {
            return Err(p);
        }
        let mut at = 0;
        for q in p.pieces() {
            h.copy(&q.buf, q.start..q.start + q.len, &self.buffer, at);
            at += q.len;
        }
        h.charge(CpuWork::Copy(len));
        s.tx_copied += 1;
        let mut d = [Descriptor::default(); send::MAX];
        d[0] = Descriptor::new(o.flags, len, self.buffer.iova().0 as u32);
        if submit(h, c, n, s, &d, len, o) { Ok(p) } else { Err(p) }
    }

    #[expect(clippy::too_many_arguments, reason = "what a send needs, not bundled for one caller")]
    fn send_mapped<H: Hypervisor>(
        &mut self,
        h: &mut H,
        c: &Config,
        n: &Negotiated,
        s: &mut Stats,
        p: Packet,
        o: Offload,
        copybreak: u32,
    ) -> Result<Packet, Packet> {
        let scattered =
            p.more.as_ref().is_some_and(|m| !m.list.is_empty() || m.frags.len() >= send::MAX);
        // A descriptor of no bytes would end the others.
        let p = if scattered || p.pieces().any(|q| q.len == 0) { linear(h, s, p)? } else { p };
        if p.is_linear() && p.len() < copybreak {
            return self.send_copied(h, c, n, s, p, o);
        }
        let p = match map_all(h, o, p) {
            Ok(mapped) => {
                let len = mapped.pieces.iter().flatten().map(Mapped::len).sum();
                let went = submit(h, c, n, s, &mapped.descriptors, len, o);
                let p = mapped.unmap(h);
                return if went { Ok(p) } else { Err(p) };
            }
            Err(p) => p,
        };
        // No translation entries are left; the buffer that is mapped for good needs none.
        s.tx_map_failed += 1;
        let p = if p.is_linear() { p } else { linear(h, s, p)? };
        self.send_copied(h, c, n, s, p, o)
    }
}

#[cold]
fn dropped(s: &mut Stats, p: Packet) -> Tx {
    s.tx_dropped += 1;
    Tx::Dropped(p)
}

/// Whether a large send goes as it is.
fn takes(c: &Config, n: &Negotiated, p: &Packet, gso: Gso) -> bool {
    let tcp = match gso.kind {
        GsoKind::Tcp4 => n.tso(true),
        GsoKind::Tcp6 => n.tso(false),
        GsoKind::Udp4 | GsoKind::Udp6 => false,
    };
    let listed = p.more.as_ref().is_some_and(|m| !m.list.is_empty());
    tcp && p.todo.checksum.is_some() && !p.todo.encapsulated && (!listed || n.fraglist(c))
}

/// One piece of it all.
fn linear<H: Hypervisor>(h: &mut H, s: &mut Stats, p: Packet) -> Result<Packet, Packet> {
    s.tx_linearized += 1;
    p.linearise(h, Alignment::ANY).map_err(|e| e.0)
}

/// What is said in the descriptors about checksum and segments; what the firmware does
/// not do is done here. `None` when the packet is not what it says.
fn offload<H: Hypervisor>(
    h: &mut H,
    n: &Negotiated,
    s: &mut Stats,
    p: &mut Packet,
) -> Option<Offload> {
    let Some(partial) = p.todo.checksum else { return Some(Offload { flags: 0, mss: 0 }) };
    let (start, looked) = (p.head.start, p.head.len.min(MAX_HEADER as u32));
    let layers = h.bytes(&p.head.buf, start..start + looked, |b| Layers::of(b).ok());
    // TCP is all the firmware knows; its checksum has to be where it looks for it.
    let left_out = layers.filter(|l| {
        let tcp = l.transport == Some(Transport::Tcp) && l.partial() == Some(partial);
        tcp && !p.todo.encapsulated && n.checksum(l.ip == Ip::V4)
    });
    let Some(l) = left_out else {
        // A large send that says TCP and is none cannot go.
        if p.todo.gso.is_some() || p.complete_checksum(h).is_err() {
            return None;
        }
        s.tx_csum_software += 1;
        return Some(Offload { flags: 0, mss: 0 });
    };
    let mut put = |at: u32, v: u16| {
        h.bytes_mut(&p.head.buf, start + at..start + at + 2, |b| {
            b.copy_from_slice(&v.to_be_bytes());
        });
    };
    let (mut flags, mut mss) = (Descriptor::NO_CSUM | Descriptor::CSUM_GOOD, 0);
    let field = partial.field() as u32;
    match p.todo.gso {
        Some(gso) if n.large_send => {
            put(field, 0);
            (flags, mss) = (flags | Descriptor::LRG_SND, gso.size);
        }
        Some(gso) => {
            put(u32::from(l.l3) + 10, OLD_LARGE_SEND);
            put(field, gso.size);
        }
        None => put(field, 0),
    }
    s.tx_csum += 1;
    s.tx_large_packets += u64::from(p.todo.gso.is_some());
    Some(Offload { flags, mss })
}

/// The call; whether it went.
fn submit<H: Hypervisor>(
    h: &mut H,
    c: &Config,
    n: &Negotiated,
    s: &mut Stats,
    d: &[Descriptor; send::MAX],
    len: u32,
    o: Offload,
) -> bool {
    let used = d.iter().take_while(|d| d.is_valid()).count() as u32;
    h.charge(CpuWork::TxDescriptor(used));
    s.tx_descriptors += u64::from(used);
    let (answer, again) = call::send(h, c.unit, d, n.large_send.then_some(o.mss));
    s.tx_busy += u64::from(again);
    match answer {
        status::H_SUCCESS => {}
        // Nobody took it, which is no fault of this side.
        status::H_DROPPED => s.tx_hypervisor_dropped += 1,
        _ => {
            s.tx_send_failed += 1;
            return false;
        }
    }
    s.tx_packets += 1;
    s.tx_bytes += u64::from(len);
    true
}

/// A packet whose pieces are all mapped.
struct Whole {
    pieces: [Option<Mapped>; send::MAX],
    descriptors: [Descriptor; send::MAX],
    /// The packet without them.
    empty: Packet,
}

impl Whole {
    fn unmap<H: Hypervisor>(self, h: &mut H) -> Packet {
        let Whole { pieces, empty: mut p, .. } = self;
        let mut back = pieces.into_iter().flatten().map(|m| {
            let (start, len) = (m.range().start, m.len());
            Fragment { buf: h.unmap(m), start, len }
        });
        // No more come back than were taken: a place without one keeps what it has.
        if let Some(q) = back.next() {
            p.head = q;
        }
        for (to, q) in p.more.iter_mut().flat_map(|m| &mut m.frags).zip(back) {
            *to = q;
        }
        p
    }
}

/// Maps all pieces, six at most, and writes their descriptors: each has the flags. When
/// one cannot be mapped, none is.
fn map_all<H: Hypervisor>(h: &mut H, o: Offload, p: Packet) -> Result<Whole, Packet> {
    let mut w =
        Whole { pieces: [const { None }; send::MAX], descriptors: Default::default(), empty: p };
    let n = 1 + w.empty.more.as_ref().map_or(0, |m| m.frags.len());
    for i in 0..n {
        let piece = match i {
            0 => &mut w.empty.head,
            _ => &mut w.empty.more.as_mut().expect("fragments that were counted").frags[i - 1],
        };
        let (start, len) = (piece.start, piece.len);
        let buf = core::mem::replace(&mut piece.buf, Buf::from_parts(0, 0, 0));
        h.charge(CpuWork::Map);
        match h.map(buf, start..start + len, Direction::ToDevice) {
            Ok(m) if reachable(m.iova().0, len) => {
                w.descriptors[i] = Descriptor::new(o.flags, len, m.iova().0 as u32);
                w.pieces[i] = Some(m);
                continue;
            }
            Ok(m) => piece.buf = h.unmap(m),
            Err(e) => piece.buf = e.buf,
        }
        return Err(w.unmap(h));
    }
    Ok(w)
}

impl Negotiated {
    /// Whether large sends with a fragment list are taken.
    const fn fraglist(&self, c: &Config) -> bool {
        c.fraglist && self.active_trunk
    }
}
