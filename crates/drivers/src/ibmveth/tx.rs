//! Transmission.
//!
//! Source: ibmveth.c `ibmveth_start_xmit`, `ibmveth_send`; for the mapped way that of Linux 4.4.
//!
//! The call gathers the fragments before it returns, so a packet's buffers are free then, and no
//! queue can be full. They wait in a list until [`TxQueue::reclaim`].

use super::config::{Transmit, reachable};
use super::{call, call::Pieces, nic::Ibmveth};
use crate::common::{DoneList, Plan, coherent, copy_packet, map, plan, unmap, vacant};
use crate::{Opened, Sink, Tx};
use doorbell_hal::{Alignment, Coherent, CpuWork, Hypervisor, Mapped};
use doorbell_layout::ibmveth::{Descriptor, OLD_LARGE_SEND, PAGE, can, send, status};
use doorbell_packet::{Fragment, Packet, ethernet::HEADER};

/// Bytes of the buffer that stays mapped: the longest large send.
pub(super) const COPY: u32 = 64 << 10;
/// Buffers not yet reclaimed at which the queue stops.
const MAX_DONE: usize = 1024;

/// A packet that was sent, or was not.
type Sent = Result<Packet, Packet>;

#[derive(Debug)]
pub(super) struct TxQueue {
    /// The buffer that stays mapped.
    buffer: Coherent,
    done: DoneList,
}

/// The fields of a send that request offloads.
#[derive(Clone, Copy, Debug, Default)]
struct SendOffload {
    flags: u64,
    mss: u16,
}

impl TxQueue {
    pub(super) fn allocate<H: Hypervisor>(h: &mut H) -> Opened<TxQueue> {
        let buffer = coherent(h, (COPY, PAGE), reachable)?;
        Ok(TxQueue { buffer, done: DoneList::default() })
    }

    pub(super) fn release<H: Hypervisor>(self, h: &mut H) {
        self.done.release(h);
        h.release_coherent(self.buffer);
    }

    pub(super) fn stopped(&self) -> bool {
        self.done.len() >= MAX_DONE
    }

    pub(super) fn is_drained(&self) -> bool {
        self.done.is_empty()
    }

    /// Passes the buffers of sent packets up.
    pub(super) fn reclaim<H: Hypervisor, S: Sink>(&mut self, h: &mut H, up: &mut S) {
        let stopped = self.stopped();
        let packets = self.done.complete_tx(up);
        if packets > 0 {
            h.charge(CpuWork::TxDone(packets));
        }
        if stopped {
            h.charge(CpuWork::Wake);
        }
    }
}

/// Transmission.
impl Ibmveth {
    pub(super) fn send_packet<H: Hypervisor>(&mut self, h: &mut H, p: Packet) -> Tx {
        if p.head.len < HEADER as u32 || p.len() > Descriptor::LENGTH_MAX {
            return self.drop_packet(p);
        }
        let start = p.head.start;
        if h.bytes(&p.head.buf, start..start + 6, |to| *to == self.config.mac) {
            self.stats.tx_loopback += 1;
            return self.drop_packet(p);
        }
        let mut p = match p.insert_tag(h, Alignment::ANY) {
            Ok(p) => p,
            Err(e) => return self.drop_packet(e.0),
        };
        let caps = self.negotiated.caps();
        let plan = match plan(h, &mut p, |request| can(request, &caps)) {
            Plan::Invalid => return self.drop_packet(p),
            Plan::Segment => return self.segment(h, p),
            Plan::Device(_) if p.todo.gso.is_some() && !self.takes_pieces(&p) => {
                return self.segment(h, p);
            }
            plan => plan,
        };
        match self.send(h, p, plan) {
            Ok(p) => {
                self.tx.done.push_packet(p);
                Tx::Ok
            }
            Err(p) => self.drop_packet(p),
        }
    }

    /// Returns whether the pieces of a large send can be those of one send.
    fn takes_pieces(&self, p: &Packet) -> bool {
        let listed = p.more.as_ref().is_some_and(|m| !m.list.is_empty());
        !listed || self.negotiated.fraglist(&self.config)
    }

    #[cold]
    fn drop_packet(&mut self, p: Packet) -> Tx {
        self.stats.tx_dropped += 1;
        Tx::Dropped(p)
    }

    /// Segments a large send that the firmware does not take. The buffer of the last segment stands
    /// for the packet.
    fn segment<H: Hypervisor>(&mut self, h: &mut H, p: Packet) -> Tx {
        let mut last: Option<Packet> = None;
        let result = p.segment(h, Alignment::ANY, |h, segment| {
            let (Ok(sent) | Err(sent)) = self
                .send(h, segment, Plan::Plain { summed: false })
                .inspect(|_| self.stats.tx_segments += 1)
                .inspect_err(|_| self.stats.tx_dropped += 1);
            if let Some(before) = last.replace(sent) {
                before.release(h);
            }
        });
        match result {
            Ok(_) => {
                self.stats.tx_segmented += 1;
                last.into_iter().for_each(|p| self.tx.done.push_packet(p));
                Tx::Ok
            }
            Err(e) => {
                last.into_iter().for_each(|p| p.release(h));
                self.drop_packet(e.packet)
            }
        }
    }

    /// Sends a packet as one call; it comes back either way.
    fn send<H: Hypervisor>(&mut self, h: &mut H, mut p: Packet, plan: Plan) -> Sent {
        let Some(o) = self.offload(h, &mut p, plan) else { return Err(p) };
        match self.config.transmit {
            Transmit::Copy => self.send_copied(h, p, o),
            Transmit::Map { copybreak } => self.send_mapped(h, p, o, copybreak),
        }
    }

    /// Returns the descriptor fields for checksum and segmentation, and writes to the headers what
    /// the firmware expects there.
    fn offload<H: Hypervisor>(
        &mut self,
        h: &mut H,
        p: &mut Packet,
        plan: Plan,
    ) -> Option<SendOffload> {
        let n = self.negotiated;
        let l = match plan {
            Plan::Plain { summed } => {
                self.stats.tx_csum_software += u64::from(summed);
                return Some(SendOffload::default());
            }
            Plan::Device(headers) => headers?.outer,
            Plan::Segment | Plan::Invalid => return None,
        };
        let (start, partial) = (p.head.start, p.todo.checksum?);
        let mut put = |at: u32, v: u16| {
            let at = start + at;
            h.bytes_mut(&p.head.buf, at..at + 2, |b| b.copy_from_slice(&v.to_be_bytes()));
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
        self.stats.tx_csum += 1;
        self.stats.tx_large_packets += u64::from(p.todo.gso.is_some());
        Some(SendOffload { flags, mss })
    }

    fn send_copied<H: Hypervisor>(&mut self, h: &mut H, p: Packet, o: SendOffload) -> Sent {
        let len = p.len();
        if len > COPY {
            return Err(p);
        }
        copy_packet(h, &p, &self.tx.buffer, 0);
        self.stats.tx_copied += 1;
        let mut d = [Descriptor::default(); send::MAX];
        d[0] = Descriptor::new(o.flags, len, self.tx.buffer.iova().0 as u32);
        if self.submit(h, &d, len, o.mss) { Ok(p) } else { Err(p) }
    }

    fn send_mapped<H: Hypervisor>(
        &mut self,
        h: &mut H,
        p: Packet,
        o: SendOffload,
        copybreak: u32,
    ) -> Sent {
        let scattered =
            p.more.as_ref().is_some_and(|m| !m.list.is_empty() || m.frags.len() >= send::MAX);
        // A descriptor of no bytes would end the others.
        let p = if scattered || p.pieces().any(|f| f.len == 0) { self.linearise(h, p)? } else { p };
        if p.is_linear() && p.len() < copybreak {
            return self.send_copied(h, p, o);
        }
        let p = match map_all(h, o, p) {
            Ok(mapped) => {
                let len = mapped.fragments.iter().flatten().map(Mapped::len).sum();
                let sent = self.submit(h, &mapped.descriptors, len, o.mss);
                let p = mapped.unmap(h);
                return if sent { Ok(p) } else { Err(p) };
            }
            Err(p) => p,
        };
        // No translation entries are left; the buffer that stays mapped needs none.
        self.stats.tx_map_failed += 1;
        let p = if p.is_linear() { p } else { self.linearise(h, p)? };
        self.send_copied(h, p, o)
    }

    fn linearise<H: Hypervisor>(&mut self, h: &mut H, p: Packet) -> Sent {
        self.stats.tx_linearized += 1;
        p.linearise(h, Alignment::ANY).map_err(|e| e.0)
    }

    /// Makes the call. Returns whether it succeeded.
    fn submit<H: Hypervisor>(&mut self, h: &mut H, d: &Pieces, len: u32, mss: u16) -> bool {
        let used = d.iter().take_while(|d| d.is_valid()).count() as u32;
        h.charge(CpuWork::TxDescriptor(used));
        self.stats.tx_descriptors += u64::from(used);
        let mss = self.negotiated.large_send.then_some(mss);
        let (answer, retries) = call::send(h, self.config.unit, d, mss);
        self.stats.tx_busy += u64::from(retries);
        match answer {
            status::H_SUCCESS => {}
            // No receiver took it, which is no error of the sender.
            status::H_DROPPED => self.stats.tx_hypervisor_dropped += 1,
            _ => {
                self.stats.tx_send_failed += 1;
                return false;
            }
        }
        self.stats.tx_packets += 1;
        self.stats.tx_bytes += u64::from(len);
        true
    }
}

/// A packet whose fragments are all mapped.
struct MappedPacket {
    fragments: [Option<Mapped>; send::MAX],
    descriptors: Pieces,
    /// The packet without its buffers.
    packet: Packet,
}

impl MappedPacket {
    fn unmap<H: Hypervisor>(self, h: &mut H) -> Packet {
        let MappedPacket { fragments, packet: mut p, .. } = self;
        for (to, m) in fragments_mut(&mut p).zip(fragments.into_iter().flatten()) {
            *to = unmap(h, m);
        }
        p
    }
}

fn fragments_mut(p: &mut Packet) -> impl Iterator<Item = &mut Fragment> {
    [&mut p.head].into_iter().chain(p.more.iter_mut().flat_map(|m| &mut m.frags))
}

/// Maps all fragments, six at most, and writes their descriptors, each with the flags. Maps none
/// when one cannot be mapped.
fn map_all<H: Hypervisor>(h: &mut H, o: SendOffload, p: Packet) -> Result<MappedPacket, Packet> {
    let mut mapped = MappedPacket {
        fragments: [const { None }; send::MAX],
        descriptors: Default::default(),
        packet: p,
    };
    let mut complete = true;
    let entries = mapped.fragments.iter_mut().zip(&mut mapped.descriptors);
    for (f, (entry, descriptor)) in fragments_mut(&mut mapped.packet).zip(entries) {
        h.charge(CpuWork::Map);
        *f = match map(h, core::mem::replace(f, vacant())) {
            Ok(m) if reachable(m.iova().0, m.len()) => {
                *descriptor = Descriptor::new(o.flags, m.len(), m.iova().0 as u32);
                *entry = Some(m);
                continue;
            }
            Ok(m) => unmap(h, m),
            Err(f) => f,
        };
        complete = false;
        break;
    }
    if complete { Ok(mapped) } else { Err(mapped.unmap(h)) }
}
