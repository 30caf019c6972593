//! The transmit ring.
//!
//! Source: xilinx_axienet_main.c `axienet_start_xmit`, `axienet_check_tx_bd_space`,
//! `axienet_free_tx_chain`.
//!
//! A packet takes a descriptor for each fragment. SOF and the application words are in its first,
//! EOF is in its last. TAILDESC names the last descriptor that the device takes; it then idles with
//! CURDESC one further. Cmplt in a descriptor is the only sign that it is done; descriptors are
//! done in order. Mapping and cookie of a descriptor are beside the ring, not in its software area,
//! which the device would fetch. A large send is segmented here, as the stack does it for Linux's
//! driver; its segments wait for room with the queue stopped. The byte limit ([`Bql`], in Linux
//! since c900e49d58eb) gets a packet's bytes back with its last descriptor, as in Linux since
//! d1978d03e867.

use super::config::{Checksum, Config, PIECES};
use super::{hw, stats::Stats};
use crate::common::{
    self, DoneList, Plan, Room, Segment, SegmentQueue, SendSegments, coherent, complete_packet,
    next, plan, previous, unmap, vacant,
};
use crate::{Bql, Opened, Sink, Tx};
use alloc::boxed::Box;
use doorbell_hal::{Alignment, Coherent, CpuWork, Fence, Host, Mapped};
use doorbell_layout::axienet::{DESCRIPTOR, Descriptor, MM2S, can, tx_app};
use doorbell_packet::{Fragment, MAX_FRAGS, Packet, ethernet, vlan::TAG};
use zerocopy::little_endian::U32;

/// The driver's part of a descriptor.
#[derive(Debug, Default)]
struct DmaEntry {
    mapped: Option<Mapped>,
    cookie: u32,
    /// The frame ends here.
    last: bool,
    /// The packet ends here: the frame is all of it, or its last segment.
    ends: bool,
    /// At the frame's last: [`Bql::queued`] with the frame.
    queued: u32,
}

#[derive(Debug)]
pub(super) struct TxRing {
    config: Config,
    pub(super) stats: Stats,
    ring: Coherent,
    entries: Box<[DmaEntry]>,
    count: u32,
    /// Next descriptor to fill.
    next: u32,
    /// Next descriptor to reclaim.
    clean: u32,
    /// Descriptors from `clean` to `next`.
    used: u32,
    /// There are descriptors beyond TAILDESC.
    unannounced: bool,
    pub(super) stopped: bool,
    segments: SegmentQueue,
    pub(super) bql: Bql,
    /// Dropped by a reset.
    dropped: DoneList,
}

/// Allocates a ring of `count` descriptors, each linked to the next and the last to the first.
pub(super) fn ring<H: Host>(h: &mut H, c: &Config, count: u32) -> Opened<Coherent> {
    let size = (count * DESCRIPTOR, DESCRIPTOR);
    let ring = coherent(h, size, |at, len| c.reachable(at, len))?;
    for i in 0..count {
        let next = ring.iova().0 + u64::from(next(i, count) * DESCRIPTOR);
        h.store(&ring, i * DESCRIPTOR + Descriptor::NEXT_AT, halves(next));
    }
    Ok(ring)
}

/// Returns an address as it stands in a descriptor.
#[inline(always)]
pub(super) fn halves(at: u64) -> [U32; 2] {
    [U32::new(at as u32), U32::new((at >> 32) as u32)]
}

impl TxRing {
    pub(super) fn allocate<H: Host>(h: &mut H, c: &Config) -> Opened<TxRing> {
        Ok(TxRing {
            config: *c,
            stats: Stats::default(),
            ring: ring(h, c, c.tx_ring)?,
            entries: (0..c.tx_ring).map(|_| DmaEntry::default()).collect(),
            count: c.tx_ring,
            next: 0,
            clean: 0,
            used: 0,
            unannounced: false,
            stopped: false,
            segments: SegmentQueue::default(),
            bql: Bql::new(c.bql),
            dropped: DoneList::default(),
        })
    }

    /// Returns the address of the first descriptor.
    pub(super) fn start(&self) -> u64 {
        self.ring.iova().0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used == 0 && self.segments.is_empty()
    }

    /// Returns whether `n` descriptors and the one behind them are free, or all are.
    #[inline(always)]
    fn fits(&self, n: u32) -> bool {
        self.count - self.used > n || self.used == 0
    }

    // ---- transmit ----

    #[inline]
    pub(super) fn transmit<H: Host>(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        if self.stopped {
            self.stats.tx_busy += 1;
            return Tx::Busy(p);
        }
        if !is_acceptable(&p, &self.config) {
            return self.drop_packet(h, p, more);
        }
        let pieces = 1 + p.more.as_ref().map_or(0, |m| m.frags.len() as u32);
        if !self.fits(pieces) {
            // The queue stops early enough for this not to happen; but a packet may be refused.
            self.stop();
            self.stats.tx_busy += 1;
            self.write_tail(h);
            return Tx::Busy(p);
        }
        if p.todo.gso.is_some() {
            return self.segment(h, p, more);
        }
        self.queue(h, p, more, true)
    }

    /// Queues a frame that has room: a packet, or a segment; `ends` if no other follows of the same
    /// packet.
    #[inline(always)]
    fn queue<H: Host>(&mut self, h: &mut H, p: Packet, more: bool, ends: bool) -> Tx {
        let mut p = match p.todo.vlan {
            Some(_) => match p.insert_tag(h, Alignment::ANY) {
                Ok(p) => p,
                Err(e) => return self.drop_packet(h, e.0, more),
            },
            None => p,
        };
        let Some(app) = self.application_words(h, &mut p) else {
            return self.drop_packet(h, p, more);
        };
        let (app_at, len) = (self.next * DESCRIPTOR + Descriptor::APP_AT, p.len());
        let before = self.used;
        if let Err(p) = self.map_packet(h, p, ends) {
            return self.drop_packet(h, p, more);
        }
        // The device reads the application words of the first descriptor alone.
        match app {
            [0, ..] => h.store(&self.ring, app_at, U32::ZERO),
            words => h.store(&self.ring, app_at, words.map(U32::new)),
        }
        self.bql.queue(len);
        self.entries[previous(self.next, self.count) as usize].queued = self.bql.queued();
        // The tag may have made one piece of all.
        let written = self.used - before;
        h.charge(CpuWork::TxDescriptor(written));
        self.stats.tx_descriptors += u64::from(written);
        self.stats.tx_queued += 1;
        self.unannounced = true;
        if !self.fits(PIECES) {
            self.stop();
        }
        if !more || self.stopped || !self.config.batch {
            self.write_tail(h);
        }
        Tx::Ok
    }

    fn stop(&mut self) {
        self.stopped = true;
        self.stats.tx_stopped += 1;
    }

    #[cold]
    fn drop_packet<H: Host>(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        self.stats.tx_dropped += 1;
        if !more {
            self.write_tail(h);
        }
        Tx::Dropped(p)
    }

    /// Segments a large send, which the core cannot.
    #[cold]
    fn segment<H: Host>(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        let tag = if p.todo.vlan.is_some() { TAG as u32 } else { 0 };
        if let Err(p) = self.segments.begin(h, p, self.config.longest() - tag) {
            return self.drop_packet(h, p, more);
        }
        self.stats.tx_segmented += 1;
        self.send_segments(h, &mut (), more).map_or(Tx::Ok, Tx::Dropped)
    }

    /// Returns APP0 to APP2 of a packet, or `None` when the checksum field is not in the head.
    /// Completes the checksum where the core cannot.
    fn application_words<H: Host>(&mut self, h: &mut H, p: &mut Packet) -> Option<[u32; 3]> {
        let built = self.config.tx_checksum;
        let words = match plan(h, p, |request| can(request, built)) {
            Plan::Plain { summed } => {
                self.stats.tx_csum_software += u64::from(summed);
                return Some([0; 3]);
            }
            Plan::Segment | Plan::Invalid => return None,
            Plan::Device(_) if built == Checksum::Full => [tx_app::FULL, 0, 0],
            // The seed is zero: the field holds the pseudo-header's sum and is summed too.
            Plan::Device(_) => {
                let partial = p.todo.checksum?;
                let word = u32::from(partial.start) << tx_app::START_SHIFT | partial.field() as u32;
                [tx_app::PARTIAL, word, 0]
            }
        };
        self.stats.tx_csum += 1;
        Some(words)
    }

    /// Maps all of the packet; undoes all if a mapping fails.
    fn map_packet<H: Host>(&mut self, h: &mut H, p: Packet, ends: bool) -> Result<(), Packet> {
        let Packet { head, todo, mut more, cookie } = p;
        let frags = more.as_ref().map_or(0, |m| m.frags.len());
        let flags = Descriptor::SOF | if frags == 0 { Descriptor::EOF } else { 0 };
        if let Err(head) = self.map_fragment(h, head, flags, (cookie, ends)) {
            return Err(Packet { head, todo, more, cookie });
        }
        for i in 0..frags {
            let Some(m) = more.as_mut() else { break };
            let f = core::mem::replace(&mut m.frags[i], vacant());
            let flags = if i + 1 == frags { Descriptor::EOF } else { 0 };
            if let Err(f) = self.map_fragment(h, f, flags, (cookie, ends)) {
                m.frags[i] = f;
                let head = self.unmap_packet(h, &mut m.frags[..i]);
                return Err(Packet { head, todo, more, cookie });
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn map_fragment<H: Host>(
        &mut self,
        h: &mut H,
        f: Fragment,
        flags: u32,
        (cookie, ends): (u32, bool),
    ) -> Result<(), Fragment> {
        let m = common::map(h, f)?;
        h.charge(CpuWork::Map);
        let (iova, len) = (m.iova().0, m.len());
        if !self.config.reachable(iova, len) {
            return Err(unmap(h, m));
        }
        let (i, at) = (self.next, self.next * DESCRIPTOR);
        h.store(&self.ring, at + Descriptor::BUFFER_AT, halves(iova));
        // With a status of zero: the device stops at a descriptor that is done.
        h.store(&self.ring, at + Descriptor::CONTROL_AT, [U32::new(len | flags), U32::ZERO]);
        let last = flags & Descriptor::EOF != 0;
        let ends = last && ends;
        self.entries[i as usize] = DmaEntry { mapped: Some(m), cookie, last, ends, queued: 0 };
        self.next = next(i, self.count);
        self.used += 1;
        Ok(())
    }

    /// Takes the last fragments that were mapped back into `frags`, and the head before them.
    /// Returns the head.
    #[cold]
    fn unmap_packet<H: Host>(&mut self, h: &mut H, frags: &mut [Fragment]) -> Fragment {
        let mut head = vacant();
        for f in frags.iter_mut().rev().chain([&mut head]) {
            let i = previous(self.next, self.count);
            (self.next, self.used) = (i, self.used - 1);
            self.free(h, i);
            if let Some(m) = self.entries[i as usize].mapped.take() {
                *f = unmap(h, m);
            }
        }
        head
    }

    /// Marks descriptor `i` as free, by a control word of zero.
    fn free<H: Host>(&mut self, h: &mut H, i: u32) {
        h.store(&self.ring, i * DESCRIPTOR + Descriptor::CONTROL_AT, [U32::ZERO; 2]);
    }

    /// Gives the device the descriptors that it does not know of yet.
    #[inline(always)]
    fn write_tail<H: Host>(&mut self, h: &mut H) {
        if !self.unannounced {
            return;
        }
        h.charge(CpuWork::TxNotify);
        h.fence(Fence::Write);
        let last = previous(self.next, self.count);
        hw::write_tail(h, &self.config, MM2S, self.start() + u64::from(last * DESCRIPTOR));
        self.unannounced = false;
        self.stats.tx_tail += 1;
    }

    // ---- completion ----

    /// Passes the buffers of at most `budget` packets that are done to `up`. Returns how many
    /// packets.
    pub(super) fn reclaim<H: Host, S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> u32 {
        let (mut packets, mut found, mut sent) = (0, 0, 0);
        while packets < budget && self.used > 0 {
            let i = self.clean;
            let status = h.load::<U32>(&self.ring, i * DESCRIPTOR + Descriptor::STATUS_AT).get();
            if status & Descriptor::CMPLT == 0 {
                break;
            }
            h.fence(Fence::DmaRead);
            h.charge(CpuWork::Completion);
            found += 1;
            self.stats.tx_status_bytes += u64::from(status & Descriptor::LENGTH);
            self.stats.tx_errors += u64::from(status & Descriptor::ERRORS != 0);
            let entry = &mut self.entries[i as usize];
            let (cookie, last, ends) = (entry.cookie, entry.last, entry.ends);
            if let Some(m) = entry.mapped.take() {
                self.stats.tx_bytes += u64::from(m.len());
                let buf = h.unmap(m);
                if last && !ends {
                    h.release(buf);
                } else {
                    up.sent(buf, cookie, ends);
                }
            }
            if last {
                packets += 1;
                sent = entry.queued;
            }
            self.free(h, i);
            self.clean = next(i, self.count);
            self.used -= 1;
        }
        if packets > 0 {
            h.charge(CpuWork::TxDone(packets));
            self.bql.complete_to(h.now(), sent);
            self.stats.tx_packets += u64::from(packets);
        }
        if found > 0
            && !self.segments.is_empty()
            && let Some(p) = self.send_segments(h, &mut (), false)
        {
            complete_packet(p, |buf, cookie, last| up.sent(buf, cookie, last));
        }
        if found > 0 && self.stopped && self.segments.is_empty() && self.fits(PIECES) {
            self.stopped = false;
            self.stats.tx_restart_queue += 1;
            h.charge(CpuWork::Wake);
        }
        packets
    }

    /// Returns whether the next poll has dropped packets to pass up.
    pub(super) fn holds_dropped(&self) -> bool {
        !self.dropped.is_empty()
    }

    /// Passes up the buffers of packets that a reset has dropped.
    pub(super) fn complete_dropped<S: Sink>(&mut self, up: &mut S) {
        if self.holds_dropped() {
            self.dropped.complete_tx(up);
        }
    }

    /// Takes back all that was queued; the device is off. Packets that are not done are dropped.
    pub(super) fn clear<H: Host>(&mut self, h: &mut H) {
        for i in (self.clean..self.count).chain(0..self.clean) {
            let entry = &mut self.entries[i as usize];
            if let Some(m) = entry.mapped.take() {
                let status =
                    h.load::<U32>(&self.ring, i * DESCRIPTOR + Descriptor::STATUS_AT).get();
                self.stats.tx_errors += u64::from(status & Descriptor::ERRORS != 0);
                self.stats.tx_dropped += u64::from(entry.last && status & Descriptor::CMPLT == 0);
                let buf = h.unmap(m);
                if entry.last && !entry.ends {
                    h.release(buf);
                } else {
                    self.dropped.push(buf, entry.cookie, entry.ends);
                }
            }
            self.free(h, i);
        }
        if let Some(rest) = self.segments.take() {
            self.stats.tx_dropped += 1;
            self.dropped.push_packet(rest);
        }
        (self.next, self.clean, self.used) = (0, 0, 0);
        (self.unannounced, self.stopped) = (false, false);
        self.bql.reset(h.now());
    }

    pub(super) fn release<H: Host>(self, h: &mut H) {
        self.dropped.release(h);
        h.release_coherent(self.ring);
    }
}

/// Large sends, which the core does not segment.
impl<H: Host> SendSegments<H> for TxRing {
    fn segments(&mut self) -> &mut SegmentQueue {
        &mut self.segments
    }

    fn room(&mut self, h: &mut H, (): &mut ()) -> Room {
        if self.fits(1) {
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

/// Returns whether the driver can send a packet: no fragment list (the stack linearises), no more
/// fragments than a stack makes, and none without bytes, which halts the engine. A large send is
/// copied, so its pieces do not matter.
fn is_acceptable(p: &Packet, c: &Config) -> bool {
    if p.todo.gso.is_some() {
        return true;
    }
    let listed = p.more.as_ref().is_some_and(|m| !m.list.is_empty() || m.frags.len() > MAX_FRAGS);
    let empty = p.pieces().any(|f| f.len == 0);
    let tag = if p.todo.vlan.is_some() { TAG as u32 } else { 0 };
    let fits = p.head.len >= ethernet::HEADER as u32 && p.len() + tag <= c.longest();
    !listed && !empty && fits
}
