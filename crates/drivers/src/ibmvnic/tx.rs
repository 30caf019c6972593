//! Transmission.
//!
//! Source: ibmvnic.c `ibmvnic_xmit`, `ibmvnic_tx_scrq_flush`, `ibmvnic_tx_scrq_clean_buffer`,
//! `ibmvnic_complete_tx`.
//!
//! A packet is copied to a slot of a long-term buffer, one of two pools: large sends have their
//! own. Its descriptor, with its header descriptors behind it, joins an array of sixteen; the array
//! goes when it is full, when the next packet does not fit, and when nothing more is coming. A lone
//! packet may go without an array ([`super::Direct`]).
//!
//! A refused call took none of its packets: **there is no status for one of them**, and all are
//! dropped. What the server took is reported once in a completion, in any order, by its correlator.

use super::adaptive::Adaptive;
use super::config::{Config, Direct, OpenError};
use super::headers;
use super::ltb::{Ids, Set};
use super::negotiate::Negotiated;
use super::ring::coherent;
use super::stats::QueueStats;
use super::{call, subcrq::SubCrq};
use crate::{Sink, Tx};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use doorbell_hal::{Alignment, Coherent, CpuWork, Host, Hypervisor};
use doorbell_layout::ibmvnic::{
    DESCRIPTOR, MAX_COMPLETIONS, MAX_INDIRECT, TSO_POOL, Tx as Desc, TxComp, desc, desc_req, first,
    offload, status, tx,
};
use doorbell_packet::ethernet::HEADER;
use doorbell_packet::headers::{Ip, Layers, Transport};
use doorbell_packet::{Gso, GsoKind, MAX_HEADER, Packet, vlan};
use zerocopy::byteorder::big_endian::{U16, U32, U64};

/// Bytes of a large send's slot.
const TSO_SLOT: u32 = 65_536;
/// What a slot has beyond the MTU (`IBMVNIC_BUFFER_HLEN`).
const HEADROOM: u32 = 500;
const ARRAY: usize = MAX_INDIRECT as usize;

/// A packet in its slot.
#[derive(Debug)]
struct Slot {
    packet: Option<Packet>,
    /// Descriptors.
    entries: u32,
    /// The server has it.
    sent: bool,
}

#[derive(Debug)]
struct Pool {
    set: Set,
    slots: Vec<Slot>,
    /// Slots without a packet, in the order in which they came back.
    free: VecDeque<u32>,
}

impl Pool {
    fn allocate<H: Host>(
        h: &mut H,
        ids: &mut Ids,
        count: u32,
        slot: u32,
    ) -> Result<Pool, OpenError> {
        let set = Set::allocate(h, ids, count, slot)?;
        let slots = (0..count).map(|_| Slot { packet: None, entries: 0, sent: false }).collect();
        Ok(Pool { set, slots, free: (0..count).collect() })
    }
}

/// What the server is to do with a packet.
#[derive(Clone, Copy, Debug, Default)]
struct Offload {
    flags1: u8,
    mss: u16,
}

/// A transmit queue.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) crq: SubCrq<TxComp>,
    pub(super) handle: u64,
    /// Plain packets, large sends; none before the first login.
    pools: Option<[Pool; 2]>,
    array: Coherent,
    /// Descriptors in the array, and whose they are.
    batched: u32,
    batch: Vec<u32>,
    /// Descriptors under way, those in the array too.
    used: u32,
    limit: u32,
    stopped: bool,
    /// To be handed back.
    done: VecDeque<Packet>,
}

/// What a send needs, besides its queue.
pub(super) struct Context<'a> {
    pub(super) config: &'a Config,
    pub(super) negotiated: &'a Negotiated,
    pub(super) adaptive: &'a mut Adaptive,
}

/// The server is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone;

impl Sender {
    pub(super) fn allocate<H: Host>(h: &mut H) -> Result<Sender, OpenError> {
        let crq = SubCrq::allocate(h)?;
        match coherent(h, (ARRAY * DESCRIPTOR) as u32, 4096) {
            Ok(array) => Ok(Sender {
                crq,
                handle: 0,
                pools: None,
                array,
                batched: 0,
                batch: Vec::with_capacity(ARRAY),
                used: 0,
                limit: 0,
                stopped: false,
                done: VecDeque::new(),
            }),
            Err(e) => {
                crq.release(h);
                Err(e)
            }
        }
    }

    pub(super) fn release<H: Host>(mut self, h: &mut H, ids: &mut Ids) {
        self.release_pools(h, ids);
        for p in self.done {
            p.release(h);
        }
        h.release_coherent(self.array);
        self.crq.release(h);
    }

    fn release_pools<H: Host>(&mut self, h: &mut H, ids: &mut Ids) {
        for p in self.pools.take().into_iter().flatten() {
            self.done.extend(p.slots.into_iter().filter_map(|s| s.packet));
            p.set.release(h, ids);
        }
    }

    /// Pools for what was granted; those that fit are kept.
    pub(super) fn prepare<H: Host>(
        &mut self,
        h: &mut H,
        ids: &mut Ids,
        c: &Config,
        n: &Negotiated,
    ) -> Result<(), OpenError> {
        (self.batched, self.used, self.stopped) = (0, 0, false);
        self.limit = n.tx_entries as u32;
        let slot = n.mtu() + HEADROOM;
        if self
            .pools
            .as_ref()
            .is_some_and(|[p, t]| p.set.fits(self.limit, slot) && t.set.count == c.tso_buffers)
        {
            return Ok(());
        }
        self.release_pools(h, ids);
        let plain = Pool::allocate(h, ids, self.limit, slot)?;
        match Pool::allocate(h, ids, c.tso_buffers, TSO_SLOT) {
            Ok(tso) => self.pools = Some([plain, tso]),
            Err(e) => {
                plain.set.release(h, ids);
                return Err(e);
            }
        }
        Ok(())
    }

    pub(super) fn sets(&mut self) -> impl Iterator<Item = &mut Set> {
        self.pools.iter_mut().flatten().map(|p| &mut p.set)
    }

    pub(super) fn stopped(&self) -> bool {
        self.stopped
    }

    /// Packets that have a slot.
    pub(super) fn under_way(&self) -> u64 {
        self.pools.iter().flatten().map(|p| (p.slots.len() - p.free.len()) as u64).sum()
    }

    pub(super) fn is_drained(&self) -> bool {
        self.under_way() == 0 && self.done.is_empty()
    }

    /// The session is over: what was reported is done, and all else that had a slot is lost.
    pub(super) fn forget<H: Hypervisor>(&mut self, h: &mut H, s: &mut QueueStats) {
        if self.crq.number.is_some() {
            self.take_completions(h, s);
        }
        for p in self.pools.iter_mut().flatten() {
            for (i, slot) in p.slots.iter_mut().enumerate() {
                let Some(packet) = slot.packet.take() else { continue };
                if slot.sent {
                    s.tx_lost += 1;
                } else {
                    s.tx_dropped += 1;
                    s.tx_batch_lost += 1;
                }
                self.done.push_back(packet);
                p.free.push_back(i as u32);
            }
        }
        self.batch.clear();
        (self.batched, self.used) = (0, 0);
    }

    /// Whether there is something to hand back.
    pub(super) fn holds_lost(&self) -> bool {
        !self.done.is_empty()
    }

    /// Hands back what was not sent, or lost.
    pub(super) fn hand_back<S: Sink>(&mut self, up: &mut S) {
        while let Some(p) = self.done.pop_front() {
            give(p, up);
        }
    }

    // ---- a packet, in the order it meets it ----

    pub(super) fn transmit<H: Hypervisor>(
        &mut self,
        h: &mut H,
        x: &mut Context<'_>,
        s: &mut QueueStats,
        p: Packet,
        more: bool,
    ) -> (Tx, Result<(), Gone>) {
        if p.head.len < HEADER as u32 {
            return self.drop(h, x, s, p);
        }
        let tagged = match p.todo.vlan {
            Some(_) if !x.negotiated.vlan_insert => p.insert_tag(h, Alignment::ANY),
            _ => Ok(p),
        };
        let p = match tagged {
            Ok(p) => p,
            Err(e) => return self.drop(h, x, s, e.0),
        };
        match p.todo.gso {
            Some(gso) if !takes(x.negotiated, &p, gso) => self.segment(h, x, s, p, more),
            _ => self.send(h, x, s, p, more),
        }
    }

    /// Dropped; what is batched does not wait for it.
    fn drop<H: Hypervisor>(
        &mut self,
        h: &mut H,
        x: &mut Context<'_>,
        s: &mut QueueStats,
        p: Packet,
    ) -> (Tx, Result<(), Gone>) {
        s.tx_dropped += 1;
        (Tx::Dropped(p), self.flush(h, x.config.unit, s))
    }

    /// Cuts what the server cannot. The buffers of all segments but the last come back as none of
    /// the packet's: they were made here.
    fn segment<H: Hypervisor>(
        &mut self,
        h: &mut H,
        x: &mut Context<'_>,
        s: &mut QueueStats,
        p: Packet,
        more: bool,
    ) -> (Tx, Result<(), Gone>) {
        let mut waiting: Option<Packet> = None;
        let mut gone = Ok(());
        let cut = p.segment(h, Alignment::ANY, |h, segment| {
            s.tx_segments += 1;
            if let Some(before) = waiting.replace(segment) {
                let (t, g) = self.send(h, x, s, before, true);
                gone = gone.and(g);
                if let Tx::Busy(p) | Tx::Dropped(p) = t {
                    p.release(h);
                }
            }
        });
        match cut {
            Ok(_) => s.tx_segmented += 1,
            Err(e) => {
                if let Some(p) = waiting {
                    p.release(h);
                }
                let (t, g) = self.drop(h, x, s, e.packet);
                return (t, gone.and(g));
            }
        }
        match waiting {
            Some(last) => {
                let (t, g) = self.send(h, x, s, last, more);
                (t, gone.and(g))
            }
            None => (Tx::Ok, gone),
        }
    }

    fn send<H: Hypervisor>(
        &mut self,
        h: &mut H,
        x: &mut Context<'_>,
        s: &mut QueueStats,
        mut p: Packet,
        more: bool,
    ) -> (Tx, Result<(), Gone>) {
        let n = x.negotiated;
        let mut look = [0; MAX_HEADER];
        let looked = peek(h, &p, &mut look);
        let tagged = vlan::tag(&look[..looked]).is_some();
        let len = p.len();
        let longest = n.mtu() + HEADER as u32 + if tagged { vlan::TAG as u32 } else { 0 };
        if p.todo.gso.is_none() && len > longest {
            return self.drop(h, x, s, p);
        }
        let Some(mut o) = offload(h, n, s, &mut p, &look[..looked]) else {
            return self.drop(h, x, s, p);
        };

        let large = p.todo.gso.is_some();
        let Some(index) = self.pools.as_mut().and_then(|p| p[usize::from(large)].free.pop_front())
        else {
            s.tx_no_buffer += 1;
            return self.drop(h, x, s, p);
        };
        let correlator = index | if large { TSO_POOL } else { 0 };

        let lone = self.batched == 0 && !more && !large;
        let direct = lone && self.direct(h, x, s, &mut p, &mut o);

        let pool = &mut self.pools.as_mut().expect("a slot was taken")[usize::from(large)];
        let (ltb, offset) = pool.set.at(index);
        let mut at = 0;
        for q in p.pieces() {
            h.copy(&q.buf, q.start..q.start + q.len, &ltb.area, offset + at);
            at += q.len;
        }
        h.charge(CpuWork::Copy(len));
        // What is behind a short packet is another's.
        let least = (n.min_mtu as u32).min(pool.set.slot);
        let padded = len.max(least);
        if padded > len {
            s.tx_padded += 1;
            for i in len..padded {
                h.store(&ltb.area, offset + i, 0u8);
            }
        }

        let insert = p.todo.vlan;
        let d = Desc {
            first: first::VALID,
            kind: desc::TX,
            n_crq_elem: 1,
            n_sge: 1,
            flags1: tx::COMP_NEEDED | o.flags1 | if tagged { tx::VLAN_PRESENT } else { 0 },
            flags2: if insert.is_some() { tx::VLAN_INSERT } else { 0 },
            mss: U16::new(o.mss),
            reserved: [0; 4],
            correlator: U32::new(correlator),
            vlan_id: U16::new(insert.unwrap_or(0)),
            dma_reg: U16::new(ltb.id.into()),
            sge_len: U32::new(padded),
            ioba: U64::new(ltb.area.iova().0 + u64::from(offset)),
        };
        let mut entries = [[0; DESCRIPTOR]; 1 + headers::MAX_DESCRIPTORS];
        let mut count = 1;
        if !direct {
            let wanted = n.desc_req[kind(o.flags1)];
            if wanted & desc_req::WANTED != 0 && p.todo.checksum.is_none() {
                // A checksum may have been made since.
                peek(h, &p, &mut look);
            }
            let (more, bytes) = headers::build(wanted, &look[..looked], &mut entries[1..]);
            count += more;
            s.tx_header_descriptors += more as u64;
            s.tx_header_bytes += bytes as u64;
        }
        entries[0] = Desc { n_crq_elem: count as u8, ..d }.bytes();
        h.charge(CpuWork::TxDescriptor(count as u32));
        s.tx_descriptors += count as u64;
        s.tx_csum += u64::from(o.flags1 & tx::CHKSUM_OFFLOAD != 0);
        s.tx_large += u64::from(large);
        pool.slots[index as usize] = Slot { packet: Some(p), entries: count as u32, sent: false };

        let mut gone = Ok(());
        if !direct && self.batched as usize + count > ARRAY {
            gone = self.flush(h, x.config.unit, s);
        }
        self.used += count as u32;
        if direct {
            self.batch.push(correlator);
            h.charge(CpuWork::TxNotify);
            s.tx_flushes += 1;
            let answer = call::send(h, x.config.unit, self.handle, entries[0]);
            gone = self.sent(s, answer, true);
        } else {
            for e in &entries[..count] {
                self.put(h, e);
            }
            self.batch.push(correlator);
        }
        if self.used >= self.limit && !self.stopped {
            self.stopped = true;
            s.tx_stopped += 1;
        }
        if !direct && (self.batched as usize >= ARRAY || !more || self.stopped) {
            gone = gone.and(self.flush(h, x.config.unit, s));
        }
        (Tx::Ok, gone)
    }

    /// Whether a packet that could go directly does; its checksum is made then, if that is the
    /// price.
    fn direct<H: Hypervisor>(
        &mut self,
        h: &mut H,
        x: &mut Context<'_>,
        s: &mut QueueStats,
        p: &mut Packet,
        o: &mut Offload,
    ) -> bool {
        let wants = |kind: usize| x.negotiated.desc_req[kind] & desc_req::WANTED != 0;
        let summed = match p.todo.checksum {
            Some(c) if o.flags1 & tx::CHKSUM_OFFLOAD != 0 => p.len().saturating_sub(c.start.into()),
            _ => 0,
        };
        let free = summed == 0 || !wants(desc_req::CHECKSUM);
        match x.config.direct {
            Direct::Never => return false,
            Direct::IgnoreHeaders => return true,
            Direct::SoftwareChecksum => {}
            Direct::Inspect if x.negotiated.desc_req[desc_req::PLAIN] != 0 => return false,
            Direct::Inspect => {}
            Direct::Adaptive => {
                let plain = summed > 0 && free || !wants(desc_req::PLAIN);
                if !plain || !x.adaptive.direct(if free { 0 } else { summed }) {
                    return false;
                }
                if free {
                    return true;
                }
            }
        }
        if summed == 0 {
            return true;
        }
        // Where it cannot be made here the server makes it.
        if p.complete_checksum(h).is_err() {
            return false;
        }
        s.tx_csum_direct += 1;
        o.flags1 = 0;
        true
    }

    fn put<H: Host>(&mut self, h: &mut H, entry: &[u8; DESCRIPTOR]) {
        h.store(&self.array, self.batched * DESCRIPTOR as u32, *entry);
        self.batched += 1;
    }

    /// Sends what is batched.
    pub(super) fn flush<H: Hypervisor>(
        &mut self,
        h: &mut H,
        unit: u64,
        s: &mut QueueStats,
    ) -> Result<(), Gone> {
        if self.batched == 0 {
            return Ok(());
        }
        h.charge(CpuWork::TxNotify);
        s.tx_flushes += 1;
        s.tx_arrays += 1;
        let answer = call::send_indirect(h, unit, self.handle, self.array.iova().0, self.batched);
        self.batched = 0;
        self.sent(s, answer, false)
    }

    /// A call has come back: its packets are with the server, or dropped.
    fn sent(&mut self, s: &mut QueueStats, answer: i64, direct: bool) -> Result<(), Gone> {
        for correlator in self.batch.drain(..) {
            let large = correlator & TSO_POOL != 0;
            let index = correlator & !TSO_POOL;
            let Some(pool) = self.pools.as_mut().map(|p| &mut p[usize::from(large)]) else {
                continue;
            };
            let slot = &mut pool.slots[index as usize];
            if answer == status::SUCCESS {
                slot.sent = true;
                s.tx_packets += 1;
                s.tx_bytes += slot.packet.as_ref().map_or(0, |p| u64::from(p.len()));
                *(if direct { &mut s.tx_direct } else { &mut s.tx_batched }) += 1;
                continue;
            }
            s.tx_dropped += 1;
            s.tx_refused += 1;
            // A server that is gone, or a handle of before a reset, is no failure.
            s.tx_send_failed += u64::from(answer != status::CLOSED && answer != status::PARAMETER);
            self.used -= slot.entries;
            self.done.extend(slot.packet.take());
            pool.free.push_back(index);
        }
        if answer == status::CLOSED { Err(Gone) } else { Ok(()) }
    }

    // ---- completions ----

    /// Takes completions and hands back their packets.
    pub(super) fn complete<H: Hypervisor, S: Sink>(
        &mut self,
        h: &mut H,
        s: &mut QueueStats,
        up: &mut S,
    ) {
        self.take_completions(h, s);
        self.hand_back(up);
        if self.stopped && self.used <= self.limit / 2 {
            self.stopped = false;
            s.tx_wakes += 1;
            h.charge(CpuWork::Wake);
        }
    }

    fn take_completions<H: Hypervisor>(&mut self, h: &mut H, s: &mut QueueStats) {
        let mut packets = 0;
        while let Some(m) = self.crq.ring.next(h) {
            h.charge(CpuWork::Completion);
            s.tx_comp_messages += 1;
            for i in 0..usize::from(m.num_comps).min(MAX_COMPLETIONS) {
                let correlator = m.correlators[i].get();
                let pool =
                    self.pools.as_mut().map(|p| &mut p[usize::from(correlator & TSO_POOL != 0)]);
                let index = correlator & !TSO_POOL;
                let Some(pool) =
                    pool.filter(|p| p.slots.get(index as usize).is_some_and(|s| s.sent))
                else {
                    s.tx_bad_correlator += 1;
                    continue;
                };
                let slot = &mut pool.slots[index as usize];
                slot.sent = false;
                self.used -= slot.entries;
                self.done.extend(slot.packet.take());
                pool.free.push_back(index);
                packets += 1;
                *(if m.rcs[i].get() == 0 { &mut s.tx_completed } else { &mut s.tx_errors }) += 1;
            }
        }
        if packets > 0 {
            h.charge(CpuWork::TxDone(packets));
        }
    }
}

/// Gives all pieces of a packet back.
fn give<S: Sink>(p: Packet, up: &mut S) {
    let cookie = p.cookie;
    let more = p.more.map(|m| *m).unwrap_or_default();
    let rest = more.frags.len() + more.list.len();
    up.sent(p.head.buf, cookie, rest == 0);
    for (i, q) in more.frags.into_iter().chain(more.list).enumerate() {
        up.sent(q.buf, cookie, i + 1 == rest);
    }
}

/// Which byte of the header request is a packet's.
fn kind(flags1: u8) -> usize {
    if flags1 & tx::LSO != 0 {
        desc_req::LSO
    } else if flags1 & tx::CHKSUM_OFFLOAD != 0 {
        desc_req::CHECKSUM
    } else {
        desc_req::PLAIN
    }
}

/// Whether a large send goes as it is.
fn takes(n: &Negotiated, p: &Packet, gso: Gso) -> bool {
    let tcp = match gso.kind {
        GsoKind::Tcp4 => n.offloads[offload::LARGE_TX4],
        GsoKind::Tcp6 => n.offloads[offload::LARGE_TX6],
        GsoKind::Udp4 | GsoKind::Udp6 => false,
    };
    let fits = p.len() <= n.max_large_tx.min(TSO_SLOT);
    tcp && fits && p.todo.checksum.is_some() && !p.todo.encapsulated
}

/// The frame's first bytes; how many.
fn peek<H: Host>(h: &mut H, p: &Packet, to: &mut [u8; MAX_HEADER]) -> usize {
    let mut n = 0;
    for q in p.pieces() {
        let len = (q.len as usize).min(to.len() - n);
        h.bytes(&q.buf, q.start..q.start + len as u32, |b| to[n..n + len].copy_from_slice(b));
        n += len;
        if n == to.len() {
            break;
        }
    }
    n
}

/// What is left to the server; what it cannot do is done here. `None` when the packet is not what
/// it says.
fn offload<H: Host>(
    h: &mut H,
    n: &Negotiated,
    s: &mut QueueStats,
    p: &mut Packet,
    head: &[u8],
) -> Option<Offload> {
    let Some(partial) = p.todo.checksum else { return p.todo.gso.is_none().then(Offload::default) };
    let layers =
        Layers::of(head).ok().filter(|l| l.partial() == Some(partial) && !p.todo.encapsulated);
    let flags = layers.filter(|l| !l.source_routed).and_then(|l| {
        let (ip, v4) = if l.ip == Ip::V4 { (tx::PROT_IPV4, true) } else { (tx::PROT_IPV6, false) };
        let (transport, on) = match (l.transport?, v4) {
            (Transport::Tcp, true) => (tx::PROT_TCP, offload::TCP4),
            (Transport::Tcp, false) => (tx::PROT_TCP, offload::TCP6),
            (Transport::Udp, true) => (tx::PROT_UDP, offload::UDP4),
            (Transport::Udp, false) => (tx::PROT_UDP, offload::UDP6),
        };
        (p.todo.gso.is_some() || n.offloads[on]).then_some(ip | transport)
    });
    match (flags, p.todo.gso) {
        (Some(f), Some(gso)) => {
            Some(Offload { flags1: f | tx::LSO | tx::CHKSUM_OFFLOAD, mss: gso.size })
        }
        (Some(f), None) => Some(Offload { flags1: f | tx::CHKSUM_OFFLOAD, mss: 0 }),
        (None, Some(_)) => None,
        (None, None) => {
            p.complete_checksum(h).ok()?;
            s.tx_csum_software += 1;
            Some(Offload::default())
        }
    }
}
