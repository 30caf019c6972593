//! Transmission.
//!
//! Source: ibmvnic.c `ibmvnic_xmit`, `ibmvnic_tx_scrq_flush`, `ibmvnic_tx_scrq_clean_buffer`,
//! `ibmvnic_complete_tx`.
//!
//! A packet is copied to a slot of a long-term buffer; large sends have a pool of their own. Its
//! descriptors join an array of sixteen, which is sent when it is full, when the next packet does
//! not fit, and when no more is coming. A lone packet may go without an array ([`super::Direct`]).
//! A refused call has **no status per packet**, so all its packets are dropped. The server reports
//! each packet that it took in one completion, in any order, by its correlator. The segments of a
//! large send that the server does not take wait for slots with the queue stopped.

use super::config::{Config, Direct};
use super::ltb::{LtbSet, MapIds};
use super::{adaptive::AdaptiveDirect, headers, negotiate::Negotiated};
use super::{call, ring::coherent, stats::QueueStats, subcrq::SubCrq};
use crate::common::{
    DoneList, Plan, Room, Segment, SegmentQueue, SendSegments, both, complete_packet, copy_packet,
    plan_of,
};
use crate::{Bql, Opened, Sink, Tx};
use alloc::{collections::VecDeque, vec::Vec};
use doorbell_hal::{Alignment, Coherent, CpuWork, Host, Hypervisor};
use doorbell_layout::ibmvnic::{
    Caps, DESCRIPTOR, MAX_COMPLETIONS, MAX_INDIRECT, TSO_POOL, Tx as Desc, TxComp, can, desc,
    desc_req, first, status, tx,
};
use doorbell_packet::headers::{Ip, Transport};
use doorbell_packet::{Packet, ethernet::HEADER, vlan};
use zerocopy::byteorder::big_endian::{U16, U32, U64};

/// Bytes of a large send's slot.
const TSO_SLOT: u32 = 65_536;
/// Bytes of a slot beyond the MTU (`IBMVNIC_BUFFER_HLEN`).
const HEADROOM: u32 = 500;
const ARRAY: usize = MAX_INDIRECT as usize;
/// Most bytes of a frame that the driver looks at.
const START: usize = 256;

/// A slot, with its packet (`ibmvnic_tx_buff`).
#[derive(Debug, Default)]
struct TxBuff {
    /// The packet that comes back when this is done: none for the earlier segments of one.
    packet: Option<Packet>,
    /// Descriptors; 0 if the slot is free.
    entries: u32,
    /// Length as the counters have it.
    len: u32,
    /// Length with padding, as the byte limit counts it.
    bytes: u32,
    /// The server has it.
    sent: bool,
}

#[derive(Debug)]
struct TxPool {
    set: LtbSet,
    slots: Vec<TxBuff>,
    /// Free slots, in the order in which they were freed.
    free: VecDeque<u32>,
}

impl TxPool {
    fn allocate<H: Host>(h: &mut H, ids: &mut MapIds, count: u32, slot: u32) -> Opened<TxPool> {
        let set = LtbSet::allocate(h, ids, count, slot)?;
        let slots = (0..count).map(|_| TxBuff::default()).collect();
        Ok(TxPool { set, slots, free: (0..count).collect() })
    }

    /// Frees a slot. Returns its content.
    fn free(&mut self, index: u32) -> TxBuff {
        self.free.push_back(index);
        core::mem::take(&mut self.slots[index as usize])
    }
}

/// Which part of a packet a frame is.
#[derive(Clone, Copy)]
enum Part {
    /// A segment that others of its packet follow.
    Earlier,
    /// All of it, or its last segment, which stands for it.
    Last,
}

/// The descriptor fields that request offloads.
#[derive(Clone, Copy, Debug, Default)]
struct DescOffload {
    flags1: u8,
    mss: u16,
}

/// The first bytes of a frame.
struct FrameStart {
    bytes: [u8; START],
    len: usize,
}

impl FrameStart {
    fn read<H: Host>(h: &mut H, p: &Packet) -> FrameStart {
        let mut start = FrameStart { bytes: [0; START], len: 0 };
        for f in p.pieces() {
            let to = &mut start.bytes[start.len..];
            let len = to.len().min(f.len as usize);
            h.bytes(&f.buf, f.start..f.start + len as u32, |b| to[..len].copy_from_slice(b));
            start.len += len;
            if start.len == START {
                break;
            }
        }
        start
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[derive(Debug)]
pub(super) struct TxQueue {
    pub(super) stats: QueueStats,
    pub(super) crq: SubCrq<TxComp>,
    pub(super) handle: u64,
    /// For plain packets and for large sends; `None` before the first login.
    pools: Option<[TxPool; 2]>,
    array: Coherent,
    /// Descriptors in the array.
    batched: u32,
    /// Correlators of their packets.
    batch: Vec<u32>,
    /// Descriptors under way, those in the array included.
    used: u32,
    limit: u32,
    pub(super) stopped: bool,
    segments: SegmentQueue,
    /// The limit of the bytes under way.
    pub(super) bql: Bql,
    /// A call found the server gone.
    pub(super) disconnected: bool,
    /// Buffers of packets that are done, dropped or lost, until a poll passes them up.
    pub(super) done: DoneList,
}

/// The settings of the adapter.
pub(super) struct Context<'a> {
    pub(super) config: &'a Config,
    pub(super) negotiated: &'a Negotiated,
    pub(super) adaptive: &'a mut AdaptiveDirect,
}

impl TxQueue {
    pub(super) fn allocate<H: Host>(h: &mut H, c: &Config) -> Opened<TxQueue> {
        let crq = SubCrq::allocate(h)?;
        let array = coherent(h, (ARRAY * DESCRIPTOR) as u32, 4096);
        let (crq, array) = both(crq, array, |crq| crq.release(h))?;
        Ok(TxQueue {
            stats: QueueStats::default(),
            crq,
            handle: 0,
            pools: None,
            array,
            batched: 0,
            batch: Vec::with_capacity(ARRAY),
            used: 0,
            limit: 0,
            stopped: false,
            segments: SegmentQueue::default(),
            bql: Bql::new(c.bql),
            disconnected: false,
            done: DoneList::default(),
        })
    }

    pub(super) fn release<H: Host>(mut self, h: &mut H, ids: &mut MapIds) {
        self.release_pools(h, ids);
        self.done.release(h);
        h.release_coherent(self.array);
        self.crq.release(h);
    }

    fn release_pools<H: Host>(&mut self, h: &mut H, ids: &mut MapIds) {
        for p in self.pools.take().into_iter().flatten() {
            p.slots.into_iter().filter_map(|s| s.packet).for_each(|p| self.done.push_packet(p));
            p.set.release(h, ids);
        }
    }

    /// Allocates the pools that were granted, or keeps those that fit.
    pub(super) fn prepare<H: Host>(
        &mut self,
        h: &mut H,
        ids: &mut MapIds,
        c: &Config,
        n: &Negotiated,
    ) -> Opened {
        (self.batched, self.used, self.stopped) = (0, 0, false);
        self.limit = n.tx_entries as u32;
        let slot = n.mtu() + HEADROOM;
        if let Some([plain, tso]) = &self.pools
            && plain.set.fits(self.limit, slot)
            && tso.set.count == c.tso_buffers
        {
            return Ok(());
        }
        self.release_pools(h, ids);
        let plain = TxPool::allocate(h, ids, self.limit, slot)?;
        let tso = TxPool::allocate(h, ids, c.tso_buffers, TSO_SLOT);
        let (plain, tso) = both(plain, tso, |plain| plain.set.release(h, ids))?;
        self.pools = Some([plain, tso]);
        Ok(())
    }

    /// Returns whether the stack waits: the queue is stopped, or over its byte limit.
    pub(super) fn is_held(&self) -> bool {
        self.stopped || self.bql.is_over()
    }

    pub(super) fn sets(&mut self) -> impl Iterator<Item = &mut LtbSet> {
        self.pools.iter_mut().flatten().map(|p| &mut p.set)
    }

    /// Returns the number of packets that have a slot.
    pub(super) fn under_way(&self) -> u64 {
        self.pools.iter().flatten().map(|p| (p.slots.len() - p.free.len()) as u64).sum()
    }

    pub(super) fn is_drained(&self) -> bool {
        self.under_way() == 0 && self.done.is_empty() && self.segments.is_empty()
    }

    /// Ends a session: takes its last completions and counts all other packets as lost.
    pub(super) fn end_session<H: Hypervisor>(&mut self, h: &mut H) {
        if self.crq.number.is_some() {
            self.take_completions(h);
        }
        for p in self.pools.iter_mut().flatten() {
            for (i, slot) in p.slots.iter_mut().enumerate() {
                let slot = core::mem::take(slot);
                if slot.entries == 0 {
                    continue;
                }
                if slot.sent {
                    self.stats.tx_lost += 1;
                } else {
                    self.stats.tx_dropped += 1;
                    self.stats.tx_batch_lost += 1;
                }
                slot.packet.into_iter().for_each(|p| self.done.push_packet(p));
                p.free.push_back(i as u32);
            }
        }
        if let Some(rest) = self.segments.take() {
            self.stats.tx_dropped += 1;
            self.done.push_packet(rest);
        }
        self.batch.clear();
        (self.batched, self.used) = (0, 0);
        self.bql.reset(h.now());
    }

    // ---- transmit ----

    pub(super) fn transmit<H: Hypervisor>(
        &mut self,
        h: &mut H,
        x: &mut Context<'_>,
        p: Packet,
        more: bool,
    ) -> Tx {
        if p.head.len < HEADER as u32 {
            return self.drop_packet(h, x, p);
        }
        let tagged = match p.todo.vlan {
            Some(_) if !x.negotiated.vlan_insert => p.insert_tag(h, Alignment::ANY),
            _ => Ok(p),
        };
        let mut p = match tagged {
            Ok(p) => p,
            Err(e) => return self.drop_packet(h, x, e.0),
        };
        let start = FrameStart::read(h, &p);
        let caps = caps(x.negotiated);
        match plan_of(h, &mut p, start.bytes(), |request| can(request, &caps)) {
            Plan::Invalid => self.drop_packet(h, x, p),
            Plan::Segment => self.segment(h, x, p, more),
            // Header descriptors carry the completed checksum.
            Plan::Plain { summed: true } => {
                self.stats.tx_csum_software += 1;
                let start = FrameStart::read(h, &p);
                self.send(h, x, p, more, Part::Last, (&start, DescOffload::default()))
            }
            plan => {
                let o = desc_offload(plan, &p);
                self.send(h, x, p, more, Part::Last, (&start, o))
            }
        }
    }

    /// Drops a packet, and sends the batch, which does not wait for it.
    fn drop_packet<H: Hypervisor>(&mut self, h: &mut H, x: &Context<'_>, p: Packet) -> Tx {
        self.stats.tx_dropped += 1;
        self.flush(h, x.config.unit);
        Tx::Dropped(p)
    }

    /// Segments a large send that the server does not take. The last segment stands for the packet.
    #[cold]
    fn segment<H: Hypervisor>(
        &mut self,
        h: &mut H,
        x: &mut Context<'_>,
        p: Packet,
        more: bool,
    ) -> Tx {
        let longest = x.negotiated.mtu() + HEADER as u32 + vlan::TAG as u32;
        if let Err(p) = self.segments.begin(h, p, longest) {
            return self.drop_packet(h, x, p);
        }
        self.stats.tx_segmented += 1;
        self.send_segments(h, x, more).map_or(Tx::Ok, Tx::Dropped)
    }

    /// Sends a frame that begins with `start`.
    fn send<H: Hypervisor>(
        &mut self,
        h: &mut H,
        x: &mut Context<'_>,
        mut p: Packet,
        more: bool,
        part: Part,
        (start, mut o): (&FrameStart, DescOffload),
    ) -> Tx {
        let n = x.negotiated;
        let tagged = vlan::tag(start.bytes()).is_some();
        let (len, large) = (p.len(), p.todo.gso.is_some());
        let longest = n.mtu() + HEADER as u32 + if tagged { vlan::TAG as u32 } else { 0 };
        if !large && len > longest {
            return self.drop_packet(h, x, p);
        }
        let pool = self.pools.as_mut().map(|p| &mut p[usize::from(large)]);
        let Some(index) = pool.and_then(|p| p.free.pop_front()) else {
            self.stats.tx_no_buffer += 1;
            return self.drop_packet(h, x, p);
        };
        let correlator = index | if large { TSO_POOL } else { 0 };
        let lone = self.batched == 0 && !more && !large;
        let direct = lone && self.goes_directly(h, x, &mut p, &mut o);

        let mut entries = [[0; DESCRIPTOR]; 1 + headers::MAX_DESCRIPTORS];
        let mut count = 1;
        let d = self.fill_slot(h, n, &p, correlator);
        if !direct {
            let wanted = n.desc_req[header_request(o.flags1)];
            let (more, bytes) = headers::build(wanted, start.bytes(), &mut entries[1..]);
            count += more;
            self.stats.tx_header_descriptors += more as u64;
            self.stats.tx_header_bytes += bytes as u64;
        }
        let d = Desc {
            n_crq_elem: count as u8,
            flags1: tx::COMP_NEEDED | o.flags1 | if tagged { tx::VLAN_PRESENT } else { 0 },
            mss: U16::new(o.mss),
            ..d
        };
        entries[0] = d.bytes();
        h.charge(CpuWork::TxDescriptor(count as u32));
        self.stats.tx_descriptors += count as u64;
        self.stats.tx_csum += u64::from(o.flags1 & tx::CHKSUM_OFFLOAD != 0);
        self.stats.tx_large += u64::from(large);
        let bytes = d.sge_len.get();
        let packet = match part {
            Part::Last => Some(p),
            Part::Earlier => {
                p.release(h);
                None
            }
        };
        let slot = TxBuff { packet, entries: count as u32, len, bytes, sent: false };
        self.pool(correlator).expect("a slot was taken").0.slots[index as usize] = slot;
        if !direct && self.batched as usize + count > ARRAY {
            self.flush(h, x.config.unit);
        }
        self.bql.queue(bytes);
        self.submit(h, x.config.unit, correlator, &entries[..count], direct, more);
        Tx::Ok
    }

    /// Copies the frame to its slot. Returns a descriptor for it without offloads.
    fn fill_slot<H: Hypervisor>(
        &mut self,
        h: &mut H,
        n: &Negotiated,
        p: &Packet,
        correlator: u32,
    ) -> Desc {
        let len = p.len();
        let (pool, index) = self.pool(correlator).expect("a slot was taken");
        let (ltb, offset) = pool.set.at(index);
        copy_packet(h, p, &ltb.area, offset);
        // Bytes behind a short packet are another packet's.
        let padded = len.max((n.min_mtu as u32).min(pool.set.slot));
        for i in len..padded {
            h.store(&ltb.area, offset + i, 0u8);
        }
        let d = Desc {
            first: first::VALID,
            kind: desc::TX,
            n_crq_elem: 1,
            n_sge: 1,
            flags2: if p.todo.vlan.is_some() { tx::VLAN_INSERT } else { 0 },
            correlator: U32::new(correlator),
            vlan_id: U16::new(p.todo.vlan.unwrap_or(0)),
            dma_reg: U16::new(ltb.id.into()),
            sge_len: U32::new(padded),
            ioba: U64::new(ltb.area.iova().0 + u64::from(offset)),
            ..Desc::default()
        };
        self.stats.tx_padded += u64::from(padded > len);
        d
    }

    /// Returns the pool and the index of the slot that a correlator names.
    fn pool(&mut self, correlator: u32) -> Option<(&mut TxPool, u32)> {
        let pool = self.pools.as_mut().map(|p| &mut p[usize::from(correlator & TSO_POOL != 0)])?;
        Some((pool, correlator & !TSO_POOL))
    }

    /// Sends the descriptors of a packet directly, or adds them to the array, which has room, and
    /// sends that if it is due.
    fn submit<H: Hypervisor>(
        &mut self,
        h: &mut H,
        unit: u64,
        correlator: u32,
        entries: &[[u8; DESCRIPTOR]],
        direct: bool,
        more: bool,
    ) {
        self.used += entries.len() as u32;
        self.batch.push(correlator);
        if direct {
            h.charge(CpuWork::TxNotify);
            self.stats.tx_flushes += 1;
            let answer = call::send(h, unit, self.handle, entries[0]);
            self.sent(h, answer, true);
        } else {
            for e in entries {
                h.store(&self.array, self.batched * DESCRIPTOR as u32, *e);
                self.batched += 1;
            }
        }
        if self.used >= self.limit && !self.stopped {
            self.stopped = true;
            self.stats.tx_stopped += 1;
        }
        if !direct && (self.batched as usize >= ARRAY || !more || self.stopped) {
            self.flush(h, unit);
        }
    }

    /// Returns whether a packet that could go directly does so; completes its checksum if that
    /// requires it.
    fn goes_directly<H: Hypervisor>(
        &mut self,
        h: &mut H,
        x: &mut Context<'_>,
        p: &mut Packet,
        o: &mut DescOffload,
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
                if !plain || !x.adaptive.goes_directly(if free { 0 } else { summed }) {
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
        // Where the checksum cannot be completed here the server completes it.
        if p.complete_checksum(h).is_err() {
            return false;
        }
        self.stats.tx_csum_direct += 1;
        o.flags1 = 0;
        true
    }

    /// Sends the array.
    fn flush<H: Hypervisor>(&mut self, h: &mut H, unit: u64) {
        if self.batched == 0 {
            return;
        }
        h.charge(CpuWork::TxNotify);
        self.stats.tx_flushes += 1;
        self.stats.tx_arrays += 1;
        let answer = call::send_indirect(h, unit, self.handle, self.array.iova().0, self.batched);
        self.batched = 0;
        self.sent(h, answer, false);
    }

    /// Notes the result of a call: the server has its packets, or they are dropped.
    fn sent<H: Host>(&mut self, h: &mut H, answer: i64, direct: bool) {
        let s = &mut self.stats;
        let mut refused = 0;
        for correlator in self.batch.drain(..) {
            let Some(pools) = &mut self.pools else { continue };
            let pool = &mut pools[usize::from(correlator & TSO_POOL != 0)];
            let index = correlator & !TSO_POOL;
            if answer == status::SUCCESS {
                let slot = &mut pool.slots[index as usize];
                slot.sent = true;
                s.tx_packets += 1;
                s.tx_bytes += u64::from(slot.len);
                *(if direct { &mut s.tx_direct } else { &mut s.tx_batched }) += 1;
                continue;
            }
            s.tx_dropped += 1;
            s.tx_refused += 1;
            // A lost server, or a handle from before a reset, is not a failure.
            s.tx_send_failed += u64::from(answer != status::CLOSED && answer != status::PARAMETER);
            let slot = pool.free(index);
            self.used -= slot.entries;
            refused += slot.bytes;
            slot.packet.into_iter().for_each(|p| self.done.push_packet(p));
        }
        self.bql.complete(h.now(), refused);
        self.disconnected |= answer == status::CLOSED;
        self.wake(h);
    }

    // ---- completion ----

    /// Takes completions and passes the buffers of their packets up.
    pub(super) fn reclaim<H: Hypervisor, S: Sink>(
        &mut self,
        h: &mut H,
        x: &mut Context<'_>,
        up: &mut S,
    ) {
        self.take_completions(h);
        if !self.segments.is_empty()
            && self.used <= self.limit / 2
            && let Some(p) = self.send_segments(h, x, false)
        {
            complete_packet(p, |buf, cookie, last| up.sent(buf, cookie, last));
        }
        self.done.complete_tx(up);
        self.wake(h);
    }

    /// Wakes a stopped queue of which half is free.
    fn wake<H: Host>(&mut self, h: &mut H) {
        if self.stopped && self.segments.is_empty() && self.used <= self.limit / 2 {
            self.stopped = false;
            self.stats.tx_wakes += 1;
            h.charge(CpuWork::Wake);
        }
    }

    fn take_completions<H: Hypervisor>(&mut self, h: &mut H) {
        let (mut packets, mut bytes) = (0, 0);
        for _ in 0..self.crq.ring.lap() {
            let Some(m) = self.crq.ring.next(h) else { break };
            h.charge(CpuWork::Completion);
            self.stats.tx_comp_messages += 1;
            for i in 0..usize::from(m.num_comps).min(MAX_COMPLETIONS) {
                let Some(slot) = self
                    .pool(m.correlators[i].get())
                    .filter(|(p, i)| p.slots.get(*i as usize).is_some_and(|s| s.sent))
                    .map(|(p, i)| p.free(i))
                else {
                    self.stats.tx_bad_correlator += 1;
                    continue;
                };
                self.used -= slot.entries;
                bytes += slot.bytes;
                slot.packet.into_iter().for_each(|p| self.done.push_packet(p));
                packets += 1;
                let s = &mut self.stats;
                *(if m.rcs[i].get() == 0 { &mut s.tx_completed } else { &mut s.tx_errors }) += 1;
            }
        }
        if packets > 0 {
            h.charge(CpuWork::TxDone(packets));
            self.bql.complete(h.now(), bytes);
        }
    }
}

/// Large sends that the server does not take.
impl<H: Hypervisor> SendSegments<H, Context<'_>> for TxQueue {
    fn segments(&mut self) -> &mut SegmentQueue {
        &mut self.segments
    }

    fn room(&mut self, h: &mut H, x: &mut Context<'_>) -> Room {
        if self.disconnected {
            return Room::Gone;
        }
        if self.used < self.limit {
            return Room::Left;
        }
        self.stats.tx_stopped += u64::from(!self.stopped);
        self.stopped = true;
        self.flush(h, x.config.unit);
        Room::Full
    }

    fn send_segment(&mut self, h: &mut H, x: &mut Context<'_>, s: Segment, more: bool) -> Tx {
        self.stats.tx_segments += 1;
        let part = if s.last { Part::Last } else { Part::Earlier };
        let start = FrameStart::read(h, &s.packet);
        self.send(h, x, s.packet, more, part, (&start, DescOffload::default()))
    }

    fn drop_rest(&mut self, h: &mut H, x: &mut Context<'_>) {
        self.stats.tx_dropped += 1;
        if !self.disconnected {
            self.flush(h, x.config.unit);
        }
    }
}

/// Returns the index of the header request that applies to a packet.
fn header_request(flags1: u8) -> usize {
    if flags1 & tx::LSO != 0 {
        desc_req::LSO
    } else if flags1 & tx::CHKSUM_OFFLOAD != 0 {
        desc_req::CHECKSUM
    } else {
        desc_req::PLAIN
    }
}

/// Returns the offloads of a session.
fn caps(n: &Negotiated) -> Caps {
    let max_large = n.max_large_tx.min(TSO_SLOT);
    Caps { on: n.offloads, max_large, frame: n.mtu() + HEADER as u32 }
}

/// Returns the descriptor fields for what the server does.
fn desc_offload(plan: Plan, p: &Packet) -> DescOffload {
    let Plan::Device(Some(headers)) = plan else { return DescOffload::default() };
    let ip = if headers.outer.ip == Ip::V4 { tx::PROT_IPV4 } else { tx::PROT_IPV6 };
    let transport = match headers.outer.transport {
        Some(Transport::Tcp) => tx::PROT_TCP,
        Some(Transport::Udp) => tx::PROT_UDP,
        None => 0,
    };
    let flags1 = ip | transport | tx::CHKSUM_OFFLOAD;
    match p.todo.gso {
        Some(gso) => DescOffload { flags1: flags1 | tx::LSO, mss: gso.size },
        None => DescOffload { flags1, mss: 0 },
    }
}
