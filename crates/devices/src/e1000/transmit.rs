//! Transmit: from a descriptor to the FIFO, and its write-back.
//!
//! A packet is the buffers up to EOP. Segmentation and checksums follow its first data descriptor;
//! VLE, tag, IFCS and legacy checksum its last. One context for segmentation and one for checksums
//! are kept. A descriptor is done when its data are on the chip (82544 with RPS: sent). With
//! WTHRESH 0 only those with RS are reported. IDE starts TIDV and TADV instead of an interrupt.
//!
//! An 82574 has two queues, each with its ring and contexts; FIFO and timers are shared. A packet
//! is read whole before one of the other queue; while both have some, each has as many in a row as
//! its TARC says, the segments of a large send among them.
//!
//! Source: SDM 3.3 to 3.6, 13.4.33 to 13.4.46; 82574 7.2, 10.2.6.

use super::config::{Config, Slot, Variant};
use super::device::E1000;
use super::interrupt::{Delay, TIMER};
use super::offload::{self, Context};
use super::ring::{Desc, QUEUES, Ring};
use super::wire::TxFrame;
use crate::common::bad;
use alloc::{collections::VecDeque, vec::Vec};
use doorbell_hal::{DmaFault, Iova, Port, Time};
use doorbell_layout::e1000::{
    CTRL_VME, ContextTx, DD, DataTx, INT_TXD_LOW, INT_TXDW, INT_TXQ0, INT_TXQE, LegacyTx, TCTL_EN,
    TCTL_PSP, TXDCTL_LWTHRESH_SHIFT, reg::stat, tx_word,
};
use doorbell_packet::ethernet::{self, ADDRESSES, FCS, MIN_FRAME};
use doorbell_packet::headers::{Check, Verdict};
use doorbell_packet::tunnel::verify_at;
use zerocopy::FromBytes;

/// The longest packet.
const MAX: usize = LegacyTx::MAX as usize;
/// Erratum 10: the longest first buffer in PCI-X.
const MAX_FIRST_PCIX: u32 = 2015;
/// Status of a packet that collided too often, in a descriptor's upper half.
const ERROR_BITS: u64 = (LegacyTx::EC as u64) << 32;
/// A data descriptor's length, in its own word.
const LEGACY_LENGTH: u32 = 0xffff;

/// A packet being put together.
#[derive(Debug, Default)]
struct Packet {
    open: bool,
    /// To be segmented.
    large: bool,
    options: u8,
    /// Its first buffer has not been read.
    fresh: bool,
    /// The rest is not sent.
    discard: bool,
    bytes: Vec<u8>,
    /// Data of the current descriptor that have been read and belong to no segment yet, if it is
    /// to be segmented.
    ahead: Vec<u8>,
    header: Vec<u8>,
    segments: u32,
    /// Payload bytes of the segments before.
    before: u32,
}

/// A queue.
#[derive(Debug)]
pub(super) struct TxQueue {
    pub(super) ring: Ring,
    /// Plain, and for segmentation.
    contexts: [Context; 2],
    packet: Packet,
    /// Bytes of the current descriptor that have been read.
    offset: u32,
    /// Among the descriptors that wait is one to interrupt for without delay.
    immediate: bool,
}

/// The transmit side.
#[derive(Debug)]
pub(super) struct Transmitter {
    pub(super) queues: [TxQueue; QUEUES],
    /// The queue whose packet is being read, or was.
    active: usize,
    /// Packets that it may still read before one of the other.
    turn: u32,
    pub(super) delay: Delay,
    /// The arrival of the read under way; `NEVER`: none is, or DMA has failed.
    pub(super) arrives: Time,
    /// Bytes of that read.
    arriving: u32,
    pub(super) fifo: VecDeque<TxFrame>,
    pub(super) used: usize,
    /// Waits for room.
    pub(super) blocked: bool,
    /// Waits for ever.
    hung: bool,
    /// The front of the FIFO is being sent, until then.
    pub(super) sending: Option<Time>,
    /// A frame that a reset cannot call back occupies the wire until then.
    pub(super) quiet: Time,
    /// Obeying a pause frame until then.
    pub(super) paused: Time,
    /// A pause frame to be sent: since when, its time.
    pub(super) pause: Option<(Time, u16)>,
}

impl Transmitter {
    pub(super) fn new(cfg: &Config) -> Transmitter {
        let queue = || TxQueue {
            ring: Ring::new(cfg.cache_line, 0),
            contexts: [Context::default(); 2],
            packet: Packet::default(),
            offset: 0,
            immediate: false,
        };
        Transmitter {
            queues: [(); QUEUES].map(|()| queue()),
            // Where there are two, queue 0 begins: the turn of the other is over.
            active: usize::from(cfg.variant.is_82574()),
            turn: 0,
            delay: Delay::default(),
            arrives: Time::NEVER,
            arriving: 0,
            fifo: VecDeque::new(),
            used: 0,
            blocked: false,
            hung: false,
            sending: None,
            quiet: Time::ZERO,
            paused: Time::ZERO,
            pause: None,
        }
    }

    /// The driver has moved a ring: a packet half read is lost with it.
    pub(super) fn restart(&mut self, queue: usize) {
        let q = &mut self.queues[queue];
        q.ring.restart();
        q.offset = 0;
        q.packet = Packet::default();
        q.immediate = false;
        if queue == self.active {
            self.arrives = Time::NEVER;
            self.blocked = false;
        }
    }

    /// The queue whose packet is being read.
    #[inline(always)]
    fn active(&mut self) -> &mut TxQueue {
        &mut self.queues[self.active % QUEUES]
    }
}

/// Returns the causes of an interrupt for packets of the queues of these bits.
const fn causes(queues: u32) -> u32 {
    INT_TXDW | (INT_TXQ0 * queues)
}

impl E1000 {
    // ---- fetch ----

    #[inline(always)]
    fn tx_runs(&self, queue: &TxQueue) -> bool {
        let on = self.regs.tctl & TCTL_EN != 0 || queue.packet.open;
        !self.halted && !self.tx.hung && on
    }

    /// Returns the times from which the next piece of work and the next fetch can begin.
    #[inline(always)]
    pub(super) fn tx_dma_due(&self) -> (Time, Time) {
        if self.regs.has_queues() {
            return self.tx_dma_due_of_two();
        }
        let queue = &self.tx.queues[0];
        if !self.tx_runs(queue) {
            return (Time::NEVER, Time::NEVER);
        }
        let free = !self.tx.blocked && self.tx.arrives == Time::NEVER;
        (if free { queue.ring.arrived } else { Time::NEVER }, queue.ring.fetch_due())
    }

    #[inline(never)]
    fn tx_dma_due_of_two(&self) -> (Time, Time) {
        let active = &self.tx.queues[self.tx.active % QUEUES];
        if !self.tx_runs(active) {
            return (Time::NEVER, Time::NEVER);
        }
        let free = !self.tx.blocked && self.tx.arrives == Time::NEVER;
        let (mut work, mut fetch) = (Time::NEVER, Time::NEVER);
        for (i, q) in self.tx.queues.iter().enumerate() {
            if self.regs.turn(i).is_some() {
                fetch = fetch.min(q.ring.fetch_due());
                work = work.min(q.ring.arrived);
            }
        }
        if active.packet.open {
            work = active.ring.arrived;
        }
        (if free { work } else { Time::NEVER }, fetch)
    }

    /// Returns the queue that fetches by `t`, if it is dry, or is not.
    fn tx_fetching(&self, t: Time, dry: bool) -> Option<usize> {
        let due = |q: &TxQueue| q.ring.fetch_due() <= t && q.ring.is_dry() == dry;
        (0..QUEUES).find(|i| due(&self.tx.queues[*i]) && self.regs.turn(*i).is_some())
    }

    /// Returns true if a queue without descriptors fetches by `t`.
    pub(super) fn tx_is_dry(&self, t: Time) -> bool {
        self.tx_fetching(t, true).is_some()
    }

    /// Fetches, for a queue without descriptors first.
    pub(super) fn tx_fetch<P: Port>(&mut self, p: &mut P, t: Time) {
        let i = match self.regs.has_queues() {
            true => self.tx_fetching(t, true).or_else(|| self.tx_fetching(t, false)),
            false => Some(0),
        };
        let Some(i) = i else { return };
        let read = self.tx.queues[i].ring.fetch(p, t);
        self.fetched(read);
    }

    /// Turns to the other queue, between two packets, if it has some and this one has none or has
    /// had its turn.
    #[inline]
    fn take_turns(&mut self, t: Time) {
        let ready = |i: usize| self.regs.turn(i).filter(|_| self.tx.queues[i].ring.arrived <= t);
        let other = self.tx.active ^ 1;
        if let Some(turn) = ready(other)
            && (self.tx.turn == 0 || ready(self.tx.active).is_none())
        {
            (self.tx.active, self.tx.turn) = (other, turn);
        }
    }

    // ---- data ----

    /// Begins with the next piece of the next descriptor.
    pub(super) fn tx_work<P: Port>(&mut self, p: &mut P, t: Time) {
        if self.regs.has_queues() && !self.tx.active().packet.open {
            self.take_turns(t);
        }
        let Some((_, d)) = self.tx.active().ring.front() else { return };
        let word = d.high as u32;
        let extended = word & tx_word::DEXT != 0;
        let kind = word & tx_word::DTYP;
        if extended && kind != tx_word::DTYP_DATA {
            if kind == 0 {
                self.load_context(d, word);
            } else {
                self.counters.bad_descriptors += 1;
            }
            return self.tx_done(p, t);
        }
        if !self.tx.active().packet.open {
            self.open_packet(d, word, extended);
        }
        let length = word & if extended { tx_word::LENGTH } else { LEGACY_LENGTH };
        let TxQueue { packet, offset, .. } = self.tx.active();
        if d.low == 0 || packet.discard || *offset >= length {
            return self.tx_data_done(p, t, d);
        }
        if self.erratum(d.low, length) {
            self.tx.hung = true;
            self.counters.hangs += 1;
            return;
        }
        let TxQueue { packet, contexts, offset, .. } = &mut self.tx.queues[self.tx.active % QUEUES];
        let (context, offset) = (&contexts[1], *offset);
        let goal =
            if packet.large { usize::from(context.header) + usize::from(context.mss) } else { MAX };
        let have = packet.bytes.len();
        if have >= goal {
            // It is too long, or a context for shorter segments came in the middle of it.
            packet.discard = true;
            self.counters.tx_discarded += 1;
            return;
        }
        let left = (length - offset).min(self.cfg.max_read);
        let least = left.min((goal - have) as u32);
        let taken = self.tx.used + have + least as usize;
        if taken > self.regs.tx_fifo() {
            self.tx.blocked = !self.tx.fifo.is_empty();
            self.tx.hung = !self.tx.blocked;
            self.counters.hangs += u64::from(self.tx.hung);
            return;
        }
        let n = if packet.large && self.cfg.read_across {
            // Each further segment takes room for its header and padding too.
            let room = self.regs.tx_fifo() - taken;
            let (mss, frame) = (usize::from(context.mss), goal.max(MIN_FRAME));
            least + (left - least).min((room / frame * mss) as u32)
        } else {
            least
        };
        let (into, kept) =
            if packet.large { (&mut packet.ahead, 0) } else { (&mut packet.bytes, have) };
        if into.capacity() == 0 {
            // All of it is written over.
            *into = self.spare.reuse();
        }
        into.resize(kept + n as usize, 0);
        let from = Iova(d.low) + u64::from(offset);
        match p.read(t, from, &mut into[kept..]) {
            Ok(arrived) => {
                self.counters.data_reads += 1;
                self.counters.data_read_bytes += u64::from(n);
                self.read_free = arrived;
                (self.tx.arrives, self.tx.arriving) = (arrived, n);
            }
            Err(_) => self.fault(),
        }
    }

    /// Returns true if an erratum forbids this buffer.
    fn erratum(&self, address: u64, length: u32) -> bool {
        if !self.cfg.errata || !matches!(self.cfg.slot, Slot::PciX { .. }) {
            return false;
        }
        let q = &self.tx.queues[self.tx.active % QUEUES];
        let first = q.packet.fresh && q.offset == 0;
        let last_byte = address.wrapping_add(u64::from(length) - 1);
        (first && length > MAX_FIRST_PCIX)
            || (self.cfg.variant == Variant::I82544Gc && length > 4 && last_byte & 4 == 0)
    }

    fn load_context(&mut self, d: Desc, word: u32) {
        self.counters.contexts += 1;
        if let Ok(c) = ContextTx::read_from_bytes(&d.to_bytes()) {
            self.tx.active().contexts[usize::from(word & tx_word::TSE != 0)] = Context::of(c);
        }
    }

    fn open_packet(&mut self, d: Desc, word: u32, extended: bool) {
        let large = extended && word & tx_word::TSE != 0;
        let TxQueue { packet: p, contexts, .. } = &mut self.tx.queues[self.tx.active % QUEUES];
        (p.open, p.large, p.fresh, p.discard) = (true, large, true, false);
        p.options = if extended { (d.high >> 40) as u8 } else { 0 };
        if large {
            p.bytes = self.spare.take();
            p.header.clear();
            (p.segments, p.before) = (0, 0);
            let c = &contexts[1];
            if c.header == 0 || c.mss == 0 || usize::from(c.header) + usize::from(c.mss) > MAX {
                p.discard = true;
                self.counters.tx_discarded += 1;
                self.stats.count(stat::TSCTFC);
            }
        }
    }

    /// A piece is on the chip.
    pub(super) fn tx_arrived<P: Port>(&mut self, p: &mut P, t: Time) {
        self.tx.arrives = Time::NEVER;
        let arriving = self.tx.arriving;
        let q = self.tx.active();
        let Some((_, d)) = q.ring.front() else { return };
        q.offset += arriving;
        q.packet.fresh = false;
        let word = d.high as u32;
        let length = word & if word & tx_word::DEXT != 0 { tx_word::LENGTH } else { LEGACY_LENGTH };
        let (ends, end) = (q.offset >= length, word & tx_word::EOP != 0);
        if q.packet.large {
            self.cut(t, d, ends && end);
        }
        if ends {
            self.tx_data_done(p, t, d);
        }
    }

    /// Makes segments of the data that have been read. `end`: they are the packet's last.
    fn cut(&mut self, t: Time, d: Desc, end: bool) {
        let q = self.tx.active();
        let c = &q.contexts[1];
        let goal = usize::from(c.header) + usize::from(c.mss);
        let ahead = core::mem::take(&mut q.packet.ahead);
        let mut rest = &ahead[..];
        // What comes after PAYLEN is read and not sent.
        while !rest.is_empty() && !self.tx.active().packet.discard {
            let packet = &mut self.tx.active().packet;
            let (piece, after) = rest.split_at(rest.len().min(goal - packet.bytes.len()));
            packet.bytes.extend_from_slice(piece);
            rest = after;
            if packet.bytes.len() == goal {
                self.segment(t, d, end && rest.is_empty());
            }
        }
        self.tx.active().packet.ahead = ahead;
    }

    /// All of the data descriptor in front, `d`, is on the chip.
    #[inline(always)]
    fn tx_data_done<P: Port>(&mut self, p: &mut P, t: Time, d: Desc) {
        if d.high as u32 & tx_word::EOP != 0 {
            let TxQueue { packet, contexts, .. } = &self.tx.queues[self.tx.active % QUEUES];
            let (len, header) = (packet.bytes.len(), usize::from(contexts[1].header));
            match () {
                () if packet.discard => {}
                () if !packet.large => self.finish(t, d),
                () if len < header => {
                    self.counters.tx_discarded += 1;
                    self.stats.count(stat::TSCTFC);
                }
                () if len > header || packet.segments == 0 => self.segment(t, d, true),
                () => {}
            }
            let packet = &mut self.tx.queues[self.tx.active % QUEUES].packet;
            if packet.segments > 0 {
                self.counters.large_sends += 1;
                self.stats.count(stat::TSCTC);
            }
            self.tx.turn = self.tx.turn.saturating_sub(packet.segments.max(1));
            self.spare.push(core::mem::take(&mut packet.bytes));
            (packet.open, packet.segments) = (false, 0);
        }
        self.tx_done(p, t);
    }

    // ---- process ----

    /// The packet's bytes are one segment.
    fn segment(&mut self, t: Time, d: Desc, end: bool) {
        let TxQueue { packet, contexts, .. } = self.tx.active();
        let c = contexts[1];
        let header = usize::from(c.header);
        if packet.segments == 0 {
            packet.header.extend_from_slice(&packet.bytes[..header]);
        }
        let after = packet.before + (packet.bytes.len() - header) as u32;
        let last = end || after >= c.payload;
        c.patch(&mut packet.bytes, packet.segments, packet.before, last);
        (packet.segments, packet.before) = (packet.segments + 1, after);
        self.finish(t, d);
        let packet = &mut self.tx.active().packet;
        packet.bytes.clear();
        packet.bytes.extend_from_slice(&packet.header);
        packet.discard |= last;
    }

    /// The packet's bytes are a frame, described by `d` at its end.
    #[inline(always)]
    fn finish(&mut self, t: Time, d: Desc) {
        let word = d.high as u32;
        // One that is not cut is whole, and has no further use of its memory.
        let TxQueue { packet, contexts, .. } = &mut self.tx.queues[self.tx.active % QUEUES];
        let next = if packet.large { self.spare.take() } else { Vec::new() };
        let mut bytes = core::mem::replace(&mut packet.bytes, next);
        if bytes.is_empty() {
            self.spare.push(bytes);
            return;
        }
        if word & tx_word::DEXT == 0 {
            if word & tx_word::TSE != 0 {
                let start = (d.high >> 40) as u8;
                offload::legacy(&mut bytes, start, (word >> 16) as u8);
                let verdict = verify_at(&bytes, start.into());
                // The IP header is the sender's.
                let verdict = Verdict { ip: Check::NotApplicable, ..verdict };
                self.counters.wire_bad_checksums += bad(verdict);
            }
        } else {
            let c = &contexts[usize::from(packet.large)];
            if packet.options & DataTx::IXSM != 0 {
                c.insert_ip(&mut bytes);
            }
            if packet.options & DataTx::TXSM != 0 {
                let behind = bytes.len().saturating_sub(c.start.into()) as u32;
                c.insert_transport(&mut bytes, if packet.large { behind } else { 0 });
                let mut verdict = verify_at(&bytes, c.start.into());
                if packet.options & DataTx::IXSM == 0 {
                    verdict.ip = Check::NotApplicable;
                }
                self.counters.wire_bad_checksums += bad(verdict);
            }
        }
        if word & tx_word::VLE != 0 && self.regs.ctrl & CTRL_VME != 0 && bytes.len() >= ADDRESSES {
            let len = bytes.len();
            bytes.resize(len + 4, 0);
            bytes.copy_within(12..len, 16);
            bytes[12..14].copy_from_slice(&(self.regs.vet as u16).to_be_bytes());
            bytes[14..16].copy_from_slice(&((d.high >> 48) as u16).to_be_bytes());
        }
        if !packet.large && word & tx_word::IFCS == 0 {
            // The driver's own FCS comes last. A frame with a wrong one, or of nothing else, gets
            // no further than the next station.
            let body = bytes.len().saturating_sub(FCS);
            if body == 0 || bytes[body..] != ethernet::fcs(&bytes[..body]) {
                self.counters.tx_discarded += 1;
                self.spare.push(bytes);
                return;
            }
            bytes.truncate(body);
        }
        if self.regs.tctl & TCTL_PSP != 0 && bytes.len() < MIN_FRAME {
            bytes.resize(MIN_FRAME, 0);
        }
        self.tx.used += bytes.len();
        self.tx.fifo.push_back(TxFrame { ready: t, bytes, report: None });
    }

    // ---- write-back ----

    /// The descriptor in front is used.
    #[inline(always)]
    fn tx_done<P: Port>(&mut self, p: &mut P, t: Time) {
        let q = self.tx.active();
        let Some((place, mut d)) = q.ring.take() else { return };
        q.offset = 0;
        let (left, control) = (q.ring.left(), q.ring.control());
        self.counters.tx_descriptors += 1;
        let word = d.high as u32;
        d.high |= u64::from(DD) << 32;
        if left == 0 {
            self.irq.raise(t, INT_TXQE);
        }
        let low = control >> TXDCTL_LWTHRESH_SHIFT;
        if low != 0 && left == low * 8 && self.cfg.variant.moderates() {
            self.irq.raise(t, INT_TXD_LOW);
        }
        if word & tx_word::RPS != 0 && word & tx_word::EOP != 0 && self.cfg.variant.reports_sent() {
            // A packet that was not sent must not take the report of the one before.
            match self.tx.fifo.back_mut().filter(|f| f.report.is_none()) {
                Some(f) => f.report = Some((place, d)),
                None => self.tx_report_now(p, t, 0, (place, d)),
            }
            return;
        }
        let i = self.tx.active;
        let ring = &self.tx.queues[i].ring;
        let (rs, threshold) = (word & tx_word::RS != 0, ring.thresholds().write_back);
        if threshold == 0 {
            if ring.any_waiting() {
                self.tx_flush(p, t, i);
            }
            if rs {
                self.tx_report_now(p, t, i, (place, d));
            }
        } else if rs || ring.any_waiting() {
            if rs {
                let delays = self.delays(t, i, word);
                self.tx.active().immediate |= !delays;
            }
            let ring = &mut self.tx.active().ring;
            if threshold == 1 && !ring.any_waiting() {
                let written = Ring::write_one(p, t, (place, d), ERROR_BITS);
                if written.is_err() {
                    ring.wait(place, d);
                }
                self.tx_flushed(t, i, written.map(|_| (1, 1)));
            } else if ring.wait(place, d) >= threshold {
                self.tx_flush(p, t, i);
            }
        }
    }

    /// Starts the delay of a reported descriptor, if it is to have one.
    #[inline(always)]
    fn delays(&mut self, t: Time, queue: usize, word: u32) -> bool {
        let tidv = self.regs.tidv & TIMER;
        let delayed = word & tx_word::IDE != 0 && tidv != 0 && !self.irq.every_write_back();
        if delayed {
            let tadv = if self.cfg.variant.moderates() { self.regs.tadv & TIMER } else { 0 };
            self.tx.delay.start(t, queue, tidv, tadv);
        }
        delayed
    }

    /// One dword for one descriptor.
    pub(super) fn tx_report_now<P: Port>(
        &mut self,
        p: &mut P,
        t: Time,
        queue: usize,
        (place, d): (Iova, Desc),
    ) {
        let poisoned = if p.begin_completion(t) { ERROR_BITS } else { 0 };
        let status = ((d.high | poisoned) >> 32) as u32;
        self.flushed(p.write(t, place + 12, &status.to_le_bytes()).map(|_| (1, 1)));
        if !self.delays(t, queue, d.high as u32) {
            self.tx_reported(t, queue);
        }
    }

    fn tx_flush<P: Port>(&mut self, p: &mut P, t: Time, queue: usize) {
        let written = self.tx.queues[queue].ring.flush(p, t, ERROR_BITS, false);
        self.tx_flushed(t, queue, written);
    }

    fn tx_flushed(&mut self, t: Time, queue: usize, written: Result<(u64, u64), DmaFault>) {
        self.flushed(written);
        if core::mem::take(&mut self.tx.queues[queue].immediate) {
            self.tx_reported(t, queue);
        }
    }

    /// Interrupts for a queue.
    fn tx_reported(&mut self, t: Time, queue: usize) {
        self.tx.delay.stop(queue);
        self.irq.raise(t, causes(1 << queue));
    }

    /// TIDV or TADV has ended.
    pub(super) fn tx_delay_over<P: Port>(&mut self, p: &mut P, t: Time) {
        let queues = self.tx.delay.end();
        for queue in 0..QUEUES {
            if !self.halted && self.tx.queues[queue].ring.any_waiting() {
                self.tx_flush(p, t, queue);
                self.reads_moved();
            }
        }
        self.irq.raise(t, causes(queues));
    }
}
