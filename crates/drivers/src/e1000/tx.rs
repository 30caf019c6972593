//! The transmit ring.
//!
//! Source: e1000_main.c `e1000_xmit_frame`, `e1000_tso`, `e1000_tx_csum`, `e1000_tx_map`,
//! `e1000_tx_queue`, `e1000_clean_tx_irq`.
//!
//! head == tail is an empty ring. TDT is one past the last descriptor; writing it is the doorbell,
//! once a batch. Only the last descriptor of a packet asks for status: the packet is done when that
//! one has DD. In a queue over its byte limit ([`Bql`]) each packet writes TDT, whatever follows
//! (`netif_xmit_stopped`). A large send that the chip does not take is segmented here, as the stack
//! does it; its segments wait for room with the queue stopped.

use super::config::{COPY_MAX, Config};
use super::errata::{Errata, MAX_LENGTH, Split};
use super::hw::{on_bus, packet_memory, put, reachable};
use super::stats::Stats;
use crate::common::{
    self, DoneList, Plan, Room, Segment, SegmentQueue, SendSegments, both, coherent,
    complete_packet, next, plan, previous, unmap, vacant,
};
use crate::{Bql, Opened, Sink, Tx};
use alloc::boxed::Box;
use doorbell_hal::{Alignment, Coherent, CpuWork, Fence, Host, Mapped, Time};
use doorbell_layout::e1000::{
    Caps, ContextTx, DD, DESCRIPTOR, DataTx, STATUS_AT, can, reg, tx_word as w,
};
use doorbell_layout::offload::{Offload, Request};
use doorbell_moderation::Flow;
use doorbell_packet::headers::{Ip, Layers};
use doorbell_packet::{Fragment, Gso, MAX_FRAGS, Packet, ethernet, vlan};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{Immutable, IntoBytes};

/// Free descriptors at which a stopped queue wakes.
const WAKE: u32 = 32;
/// Shortest frame, without FCS: the controller's own padding may corrupt data.
const MIN_FRAME: u32 = ethernet::MIN_FRAME as u32;
const NONE: u32 = u32::MAX;

#[derive(Debug)]
enum Held {
    Mapped(Mapped),
    /// Copied to a slot; its buffers are returned when it is sent, as an skb is freed.
    Copied(Packet),
}

/// The driver's part of a descriptor.
#[derive(Debug)]
struct DmaEntry {
    /// A buffer that ends in this descriptor.
    held: Option<Held>,
    cookie: u32,
    /// The packet's last buffer.
    last: bool,
    /// The buffer is of a segment that others of its packet follow.
    segment: bool,
    /// At a packet's first descriptor: its last.
    watch: u32,
    /// At a packet's first descriptor: the time of queueing.
    since: Time,
    /// At a packet's first descriptor: [`Bql::queued`] with the packet.
    queued: u32,
}

impl DmaEntry {
    const EMPTY: DmaEntry = DmaEntry {
        held: None,
        cookie: 0,
        last: false,
        segment: false,
        watch: NONE,
        since: Time::ZERO,
        queued: 0,
    };
}

#[derive(Debug)]
pub(super) struct TxRing {
    config: Config,
    /// Offset of its registers from those of queue 0.
    registers: u32,
    pub(super) stats: Stats,
    ring: Coherent,
    slots: Option<Coherent>,
    entries: Box<[DmaEntry]>,
    count: u32,
    next: u32,
    clean: u32,
    /// TDT as written.
    announced: u32,
    pub(super) stopped: bool,
    segments: SegmentQueue,
    /// The last packet was a large send, and the erratum applies.
    after_tso: bool,
    /// Commands of a packet's last descriptor.
    last_cmd: u32,
    /// Free descriptors below which the queue stops.
    keep: u32,
    pub(super) bql: Bql,
    pub(super) reclaimed: Flow,
    /// Dropped by a restart.
    dropped: DoneList,
}

/// The fields that all data descriptors of a packet share.
#[derive(Clone, Copy)]
struct Common {
    cmd: u32,
    popts: u8,
    tag: u16,
}

impl TxRing {
    pub(super) fn allocate<H: Host>(h: &mut H, c: &Config, queue: u16) -> Opened<TxRing> {
        let size = (c.tx_ring * DESCRIPTOR, 4096);
        let ring = coherent(h, size, |at, len| reachable(c, at, len))?;
        let slots = if c.copy_align {
            // Slots are 2048 bytes on a boundary of that, so none crosses 64 KiB.
            let plain = Config { errata: Errata::NONE, ..*c };
            let size = (c.tx_ring * COPY_MAX, COPY_MAX);
            coherent(h, size, |at, len| reachable(&plain, at, len)).map(Some)
        } else {
            Ok(None)
        };
        let (ring, slots) = both(ring, slots, |ring| h.release_coherent(ring))?;
        let delayed = if c.tx_delay > 0 { w::IDE } else { 0 };
        let more = if c.errata.even_dword { MAX_FRAGS as u32 + 1 } else { 0 };
        Ok(TxRing {
            config: *c,
            registers: reg::QUEUE * u32::from(queue),
            stats: Stats::default(),
            ring,
            slots,
            entries: (0..c.tx_ring).map(|_| DmaEntry::EMPTY).collect(),
            count: c.tx_ring,
            next: 0,
            clean: 0,
            announced: 0,
            stopped: false,
            segments: SegmentQueue::default(),
            after_tso: false,
            last_cmd: w::EOP | w::IFCS | w::RS | delayed,
            keep: MAX_FRAGS as u32 + 7 + more,
            bql: Bql::new(c.bql),
            reclaimed: Flow::default(),
            dropped: DoneList::default(),
        })
    }

    pub(super) fn start<H: Host>(&mut self, h: &mut H) {
        let iova = self.ring.iova().0;
        put(h, reg::TDLEN + self.registers, self.count * DESCRIPTOR);
        put(h, reg::TDBAH + self.registers, (iova >> 32) as u32);
        put(h, reg::TDBAL + self.registers, iova as u32);
        put(h, reg::TDH + self.registers, 0);
        put(h, reg::TDT + self.registers, 0);
        // The count of the first queue is without this one.
        self.stats.tx_tail += u64::from(self.registers != 0);
    }

    fn unused(&self) -> u32 {
        common::unused(self.next, self.clean, self.count)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.clean == self.next && self.segments.is_empty()
    }

    // ---- transmit ----

    #[inline]
    pub(super) fn transmit<H: Host>(&mut self, h: &mut H, mut p: Packet, more: bool) -> Tx {
        if self.stopped {
            self.stats.tx_busy += 1;
            return Tx::Busy(p);
        }
        if p.todo.gso.is_some() && !self.takes_large(h, &mut p) {
            return self.segment(h, p, more);
        }
        self.queue(h, p, more, true)
    }

    /// Returns the most bytes of one descriptor: of an 82574 its transmit FIFO, less what a header
    /// takes (netdev.c `tx_fifo_limit`).
    fn longest_piece(&self, p: &Packet) -> u32 {
        if self.config.part.is_82574() {
            return (((40 - packet_memory(&self.config)) << 10) - 96).min(24 << 10);
        }
        p.todo.gso.map_or(MAX_LENGTH, |g| MAX_LENGTH.min(u32::from(g.size) << 2))
    }

    const fn caps(&self) -> Caps {
        Caps { vlan: self.config.vlan }
    }

    /// Returns whether the chip takes a large send as it is, in descriptors that a ring can have.
    fn takes_large<H: Host>(&self, h: &mut H, p: &mut Packet) -> bool {
        let caps = self.caps();
        let max = self.longest_piece(p).max(1);
        let need: u32 = p.pieces().map(|f| self.config.errata.most(f.len.max(1), max)).sum();
        let header = p.todo.gso.map_or(0, |g| u32::from(g.header));
        let fits = need + 3 < self.count && header <= p.head.len && header < p.len();
        fits && is_scattered_by_a_stack(p)
            && matches!(plan(h, p, |request| can(request, &caps)), Plan::Device(_))
    }

    /// Segments a large send.
    #[cold]
    fn segment<H: Host>(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        let tag = if p.todo.vlan.is_some() { vlan::TAG as u32 } else { 0 };
        if let Err(p) = self.segments.begin(h, p, self.config.longest() - tag) {
            return self.drop_packet(h, p, more);
        }
        self.stats.tx_segmented += 1;
        self.send_segments(h, &mut (), more).map_or(Tx::Ok, Tx::Dropped)
    }

    /// Queues a packet, or a segment; `ends` if no other follows of the same packet.
    #[inline(always)]
    fn queue<H: Host>(&mut self, h: &mut H, mut p: Packet, more: bool, ends: bool) -> Tx {
        let errata = self.config.errata;
        let mut len = p.len();
        let max = self.longest_piece(&p);
        if !is_acceptable(&p, len, &self.config) {
            return self.drop_packet(h, p, more);
        }
        let copied = self.slots.is_some() && p.todo.gso.is_none() && len <= COPY_MAX;
        let need = 1 + if copied {
            errata.most(len.max(MIN_FRAME), max)
        } else {
            p.pieces().map(|f| errata.most(f.len.max(1), max)).sum()
        };
        if need + 2 > self.count - 1 {
            return self.drop_packet(h, p, more);
        }
        if self.unused() < need + 2 {
            self.stop();
            self.stats.tx_busy += 1;
            self.write_tail(h);
            return Tx::Busy(p);
        }
        if p.todo.vlan.is_some() && !self.config.vlan {
            p = match p.insert_tag(h, Alignment::ANY) {
                Ok(p) => p,
                Err(e) => return self.drop_packet(h, e.0, more),
            };
            len = p.len();
        }
        if !copied && len < MIN_FRAME {
            self.stats.tx_padded += 1;
            p = match pad(h, p) {
                Ok(p) => p,
                Err(p) => return self.drop_packet(h, p, more),
            };
        }
        let (first, len) = (self.next, len.max(MIN_FRAME));
        let Some(common) = self.write_context(h, &mut p) else {
            return self.drop_packet(h, p, more);
        };
        let large = p.todo.gso.is_some();
        let after_tso = self.after_tso && !large && (copied || p.is_linear());
        let split = Split { max, sentinel: false, first: true, after_tso };
        if copied {
            self.copy_packet(h, p, common, split, ends);
        } else if !self.map_packet(h, &mut p, common, (split, large), ends) {
            self.next = first;
            return self.drop_packet(h, p, more);
        }
        self.after_tso = self.after_tso && !after_tso || large && errata.after_tso;
        self.end_packet(h, first, len);
        if self.unused() < self.keep {
            self.stop();
        }
        if !more || self.stopped || self.bql.is_over() {
            self.write_tail(h);
        }
        Tx::Ok
    }

    fn stop(&mut self) {
        self.stopped = true;
        self.stats.tx_stopped += 1;
    }

    /// Completes the packet of `len` bytes that begins at descriptor `first`.
    #[inline(always)]
    fn end_packet<H: Host>(&mut self, h: &mut H, first: u32, len: u32) {
        let last = previous(self.next, self.count);
        let word: u32 = h.load::<U32>(&self.ring, last * DESCRIPTOR + 8).get();
        h.store(&self.ring, last * DESCRIPTOR + 8, U32::new(word | self.last_cmd));
        self.bql.queue(len);
        let entry = &mut self.entries[first as usize];
        (entry.watch, entry.since, entry.queued) = (last, h.now(), self.bql.queued());
        let used = (self.next + self.count - first) % self.count;
        h.charge(CpuWork::TxDescriptor(used));
        self.stats.tx_descriptors += u64::from(used);
        self.stats.tx_queued += 1;
    }

    #[cold]
    fn drop_packet<H: Host>(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        self.stats.tx_dropped += 1;
        if !more {
            self.write_tail(h);
        }
        Tx::Dropped(p)
    }

    /// Writes a context descriptor if the packet needs one. Returns `None` when its headers do not
    /// match the request.
    fn write_context<H: Host>(&mut self, h: &mut H, p: &mut Packet) -> Option<Common> {
        let mut common = Common { cmd: w::IFCS, popts: 0, tag: 0 };
        if let Some(tag) = p.todo.vlan {
            common.cmd |= w::VLE;
            common.tag = tag;
        }
        if let Some(gso) = p.todo.gso {
            let (context, v4) = large_send(h, p, gso)?;
            self.put(h, context);
            self.stats.tx_contexts += 1;
            self.stats.tx_tso += 1;
            common.cmd |= w::DEXT | w::DTYP_DATA | w::TSE;
            common.popts = DataTx::TXSM | if v4 { DataTx::IXSM } else { 0 };
        } else if let Some(partial) = p.todo.checksum {
            let request = Request { headers: None, todo: &p.todo, len: p.len() };
            if can(&request, &self.caps()) != Offload::All {
                return p.complete_checksum(h).ok().map(|()| common);
            }
            let tcp = if partial.offset == 16 { w::TCP } else { 0 };
            let context = ContextTx {
                tucss: partial.start as u8,
                tucso: partial.field() as u8,
                word: U32::new(w::DEXT | tcp),
                ..ContextTx::default()
            };
            self.put(h, context);
            self.stats.tx_contexts += 1;
            self.stats.tx_csum += 1;
            common.cmd |= w::DEXT | w::DTYP_DATA;
            common.popts = DataTx::TXSM;
        }
        Some(common)
    }

    #[inline(always)]
    fn put<H: Host, T: IntoBytes + Immutable>(&mut self, h: &mut H, descriptor: T) {
        h.store(&self.ring, self.next * DESCRIPTOR, descriptor);
        self.next = next(self.next, self.count);
    }

    /// Writes descriptors for `left` bytes at `at`.
    #[inline(always)]
    fn describe<H: Host>(
        &mut self,
        h: &mut H,
        mut at: u64,
        mut left: u32,
        common: Common,
        split: &mut Split,
    ) {
        while left > 0 {
            let n = self.config.errata.next(at, left, *split);
            (split.first, split.after_tso) = (false, false);
            let d = DataTx {
                address: U64::new(at),
                word: U32::new(common.cmd | n),
                status: 0,
                popts: common.popts,
                special: U16::new(common.tag),
            };
            self.put(h, d);
            (at, left) = (at + u64::from(n), left - n);
        }
    }

    fn copy_packet<H: Host>(
        &mut self,
        h: &mut H,
        p: Packet,
        common: Common,
        mut split: Split,
        ends: bool,
    ) {
        let Some(slots) = &self.slots else { return };
        let (first, slot, len) = (self.next, self.next * COPY_MAX, p.len());
        if len < MIN_FRAME {
            self.stats.tx_padded += 1;
            h.store(slots, slot, [0u8; MIN_FRAME as usize]);
        }
        common::copy_packet(h, &p, slots, slot);
        self.stats.tx_copied += 1;
        let from = slots.iova().0 + u64::from(slot);
        self.describe(h, from, len.max(MIN_FRAME), common, &mut split);
        self.hold(first, Held::Copied(p), 0, (true, !ends));
    }

    /// Maps all of the packet and leaves vacant fragments in it. Undoes all and returns false if a
    /// mapping fails.
    #[inline(always)]
    fn map_packet<H: Host>(
        &mut self,
        h: &mut H,
        p: &mut Packet,
        common: Common,
        (mut split, large): (Split, bool),
        ends: bool,
    ) -> bool {
        let frags = p.more.as_ref().map_or(0, |m| m.frags.len());
        let start = self.next;
        for i in 0..=frags {
            split.sentinel = large && i == frags;
            let f = core::mem::replace(piece(p, i), vacant());
            match self.map_fragment(h, f, common, &mut split) {
                Ok(m) => self.hold_mapped(m, p.cookie, (i == frags, !ends)),
                Err(f) => {
                    *piece(p, i) = f;
                    self.unmap_packet(h, start, p);
                    return false;
                }
            }
        }
        true
    }

    #[inline(always)]
    fn map_fragment<H: Host>(
        &mut self,
        h: &mut H,
        f: Fragment,
        common: Common,
        split: &mut Split,
    ) -> Result<Mapped, Fragment> {
        let m = common::map(h, f)?;
        h.charge(CpuWork::Map);
        let (at, len) = (m.iova().0, m.len());
        if !on_bus(&self.config, at, len) {
            return Err(unmap(h, m));
        }
        self.describe(h, at, len, common, split);
        Ok(m)
    }

    /// Takes the fragments that were mapped since descriptor `start` back into the packet.
    #[cold]
    fn unmap_packet<H: Host>(&mut self, h: &mut H, start: u32, p: &mut Packet) {
        let (mut at, mut i) = (start, 0);
        while at != self.next {
            if let Some(Held::Mapped(m)) = self.entries[at as usize].held.take() {
                *piece(p, i) = unmap(h, m);
                i += 1;
            }
            at = next(at, self.count);
        }
    }

    fn hold(&mut self, at: u32, held: Held, cookie: u32, (last, segment): (bool, bool)) {
        let entry = &mut self.entries[at as usize];
        (entry.held, entry.cookie) = (Some(held), cookie);
        (entry.last, entry.segment) = (last, segment);
    }

    /// Keeps a mapping at the last descriptor written.
    #[inline(always)]
    fn hold_mapped(&mut self, m: Mapped, cookie: u32, last: (bool, bool)) {
        self.hold(previous(self.next, self.count), Held::Mapped(m), cookie, last);
    }

    /// Gives the device the descriptors that it does not know of yet.
    #[inline(always)]
    fn write_tail<H: Host>(&mut self, h: &mut H) {
        if self.announced == self.next {
            return;
        }
        h.charge(CpuWork::TxNotify);
        h.fence(Fence::Write);
        put(h, reg::TDT + self.registers, self.next);
        self.announced = self.next;
        self.stats.tx_tail += 1;
    }

    // ---- completion ----

    /// Passes the buffers of packets that are done to `up`, at most one lap of the ring. Returns
    /// whether that was all.
    pub(super) fn reclaim<H: Host, S: Sink>(&mut self, h: &mut H, up: &mut S) -> bool {
        if !self.dropped.is_empty() {
            self.dropped.complete_tx(up);
        }
        let (mut packets, mut done, mut sent) = (0, 0, 0);
        while self.clean != self.next && done < self.count {
            let DmaEntry { watch: last, queued, .. } = self.entries[self.clean as usize];
            if last == NONE || h.load::<u8>(&self.ring, last * DESCRIPTOR + STATUS_AT) & DD == 0 {
                break;
            }
            h.fence(Fence::DmaRead);
            h.charge(CpuWork::Completion);
            self.entries[self.clean as usize].watch = NONE;
            sent = queued;
            loop {
                let at = self.clean;
                let entry = &mut self.entries[at as usize];
                match entry.held.take() {
                    Some(Held::Mapped(m)) => {
                        self.reclaimed.bytes += u64::from(m.len());
                        let buf = h.unmap(m);
                        if entry.segment {
                            h.release(buf);
                        } else {
                            up.sent(buf, entry.cookie, entry.last);
                        }
                    }
                    Some(Held::Copied(p)) => {
                        self.reclaimed.bytes += u64::from(p.len());
                        if entry.segment {
                            p.release(h);
                        } else {
                            complete_packet(p, |buf, cookie, last| up.sent(buf, cookie, last));
                        }
                    }
                    None => {}
                }
                h.store(&self.ring, at * DESCRIPTOR + STATUS_AT, 0u8);
                self.clean = next(at, self.count);
                done += 1;
                if at == last {
                    break;
                }
            }
            packets += 1;
        }
        if packets > 0 {
            h.charge(CpuWork::TxDone(packets));
            self.bql.complete_to(h.now(), sent);
            self.reclaimed.packets += u64::from(packets);
            if !self.segments.is_empty()
                && let Some(p) = self.send_segments(h, &mut (), false)
            {
                complete_packet(p, |buf, cookie, last| up.sent(buf, cookie, last));
            }
            if self.stopped && self.segments.is_empty() && self.unused() >= WAKE {
                self.stopped = false;
                self.stats.tx_restart_queue += 1;
                h.charge(CpuWork::Wake);
            }
        }
        done < self.count
    }

    /// Returns when the oldest packet that is not done was queued.
    pub(super) fn oldest(&self) -> Option<Time> {
        (self.clean != self.next).then(|| self.entries[self.clean as usize].since)
    }

    /// Takes back all that was queued; the device is off. Packets that are not done are dropped.
    /// The next reclaim passes their buffers up.
    pub(super) fn clear<H: Host>(&mut self, h: &mut H) {
        for i in (self.clean..self.count).chain(0..self.clean) {
            let entry = &mut self.entries[i as usize];
            let last = core::mem::replace(&mut entry.watch, NONE);
            if last != NONE {
                let done = h.load::<u8>(&self.ring, last * DESCRIPTOR + STATUS_AT) & DD != 0;
                self.stats.tx_dropped += u64::from(!done);
            }
            match entry.held.take() {
                Some(Held::Mapped(m)) if entry.segment => {
                    let buf = h.unmap(m);
                    h.release(buf);
                }
                Some(Held::Copied(p)) if entry.segment => p.release(h),
                Some(Held::Mapped(m)) => self.dropped.push(h.unmap(m), entry.cookie, entry.last),
                Some(Held::Copied(p)) => self.dropped.push_packet(p),
                None => {}
            }
        }
        if let Some(rest) = self.segments.take() {
            self.stats.tx_dropped += 1;
            self.dropped.push_packet(rest);
        }
        (self.next, self.clean, self.announced) = (0, 0, 0);
        (self.stopped, self.after_tso) = (false, false);
        self.bql.reset(h.now());
    }

    pub(super) fn release<H: Host>(self, h: &mut H) {
        self.dropped.release(h);
        self.slots.into_iter().chain([self.ring]).for_each(|area| h.release_coherent(area));
    }
}

/// Large sends that the chip does not segment.
impl<H: Host> SendSegments<H> for TxRing {
    fn segments(&mut self) -> &mut SegmentQueue {
        &mut self.segments
    }

    fn room(&mut self, h: &mut H, (): &mut ()) -> Room {
        if self.unused() >= self.keep {
            return Room::Left;
        }
        if !self.stopped {
            self.stop();
        }
        self.write_tail(h);
        Room::Full
    }

    fn send_segment(&mut self, h: &mut H, (): &mut (), s: Segment, more: bool) -> Tx {
        self.stats.tx_segments += 1;
        self.queue(h, s.packet, more, s.last)
    }

    fn drop_rest(&mut self, h: &mut H, (): &mut ()) {
        self.stats.tx_dropped += 1;
        self.write_tail(h);
    }
}

/// Returns fragment `i` of a packet: its head, then its page fragments.
#[inline(always)]
fn piece(p: &mut Packet, i: usize) -> &mut Fragment {
    match &mut p.more {
        Some(m) if i > 0 => &mut m.frags[i - 1],
        _ => &mut p.head,
    }
}

/// Returns whether a packet has no fragment list (the stack linearises), no more fragments than a
/// stack makes, and none without bytes.
fn is_scattered_by_a_stack(p: &Packet) -> bool {
    let listed = p.more.as_ref().is_some_and(|m| !m.list.is_empty() || m.frags.len() > MAX_FRAGS);
    !listed && p.pieces().all(|f| f.len > 0)
}

/// Returns whether the part can send a packet, which is not too long, or a large send.
fn is_acceptable(p: &Packet, len: u32, c: &Config) -> bool {
    is_scattered_by_a_stack(p) && (p.todo.gso.is_some() || len <= c.longest())
}

/// Returns the context of a large send, and whether it is IPv4. Prepares the headers as the part
/// wants them: IP length and checksum zero, and in TCP's checksum the pseudo-header's sum *without*
/// length, which the part adds.
fn large_send<H: Host>(h: &mut H, p: &Packet, g: Gso) -> Option<(ContextTx, bool)> {
    let start = p.head.start;
    let l = h.bytes_mut(&p.head.buf, start..start + u32::from(g.header), |b| {
        let l = Layers::of(b).ok().filter(|l| l.gso_kind() == Some(g.kind) && l.end == g.header)?;
        let (l3, l4) = (usize::from(l.l3), usize::from(l.l4));
        match l.ip {
            Ip::V4 => {
                b[l3 + 2..l3 + 4].fill(0);
                b[l3 + 10..l3 + 12].fill(0);
            }
            Ip::V6 => b[l3 + 4..l3 + 6].fill(0),
        }
        let sum = l.pseudo_header(b, 0).value();
        b[l4 + 16..l4 + 18].copy_from_slice(&sum.to_be_bytes());
        Some(l)
    })?;
    let v4 = l.ip == Ip::V4;
    let payload = p.len() - u32::from(g.header);
    let ip = if v4 { w::IP } else { 0 };
    Some((
        ContextTx {
            ipcss: l.l3 as u8,
            ipcso: (l.l3 + 10) as u8,
            ipcse: U16::new(if v4 { l.l4 - 1 } else { 0 }),
            tucss: l.l4 as u8,
            tucso: (l.l4 + 16) as u8,
            tucse: U16::ZERO,
            word: U32::new(w::DEXT | w::TSE | w::TCP | ip | payload & w::LENGTH),
            status: 0,
            hdrlen: g.header as u8,
            mss: U16::new(g.size),
        },
        v4,
    ))
}

/// Pads a short frame to 60 bytes: in place where its buffer has room (`skb_padto`), else in a new
/// buffer.
#[cold]
fn pad<H: Host>(h: &mut H, mut p: Packet) -> Result<Packet, Packet> {
    let len = p.len();
    let end = p.head.start + MIN_FRAME;
    if p.is_linear() && end <= p.head.buf.len() {
        h.bytes_mut(&p.head.buf, p.head.start + len..end, |b| b.fill(0));
        p.head.len = MIN_FRAME;
        return Ok(p);
    }
    let Ok(buf) = h.buffer(MIN_FRAME, Alignment::ANY) else { return Err(p) };
    let (mut bytes, mut at) = ([0u8; MIN_FRAME as usize], 0);
    for q in p.pieces() {
        let to = &mut bytes[at..at + q.len as usize];
        h.bytes(&q.buf, q.start..q.start + q.len, |b| to.copy_from_slice(b));
        at += q.len as usize;
    }
    h.bytes_mut(&buf, 0..MIN_FRAME, |b| b.copy_from_slice(&bytes));
    h.charge(CpuWork::Copy(len));
    let (todo, cookie) = (p.todo, p.cookie);
    p.release(h);
    Ok(Packet { head: Fragment::whole(buf), todo, more: None, cookie })
}
