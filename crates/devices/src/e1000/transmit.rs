//! Transmit: from a descriptor to the FIFO, and its write-back.
//!
//! A packet is the buffers up to EOP. Segmentation and checksums follow its first data descriptor;
//! VLE, tag, IFCS and legacy checksum its last. One context for segmentation and one for checksums
//! are kept. A descriptor is done when its data are on the chip (82544 with RPS: sent). With
//! WTHRESH 0 only those with RS are reported. IDE starts TIDV and TADV instead of an interrupt.
//!
//! Source: SDM 3.3 to 3.6, 13.4.33 to 13.4.46.

use super::config::{Config, Slot, Variant};
use super::device::E1000;
use super::interrupt::{Delay, TIMER};
use super::offload::{self, Context};
use super::ring::{Desc, Ring};
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

/// The transmit side.
#[derive(Debug, Default)]
pub(super) struct Transmitter {
    pub(super) ring: Ring,
    pub(super) delay: Delay,
    /// Plain, and for segmentation.
    contexts: [Context; 2],
    packet: Packet,
    /// Bytes of the current descriptor that have been read.
    offset: u32,
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
    /// Among the descriptors that wait is one to interrupt for without delay.
    immediate: bool,
}

impl Transmitter {
    pub(super) fn new(cfg: &Config) -> Transmitter {
        let ring = Ring::new(cfg.cache_line, 0);
        Transmitter { ring, arrives: Time::NEVER, ..Transmitter::default() }
    }

    /// The driver has moved the ring: a packet half read is lost with it.
    pub(super) fn restart(&mut self) {
        self.ring.restart();
        self.offset = 0;
        self.arrives = Time::NEVER;
        self.packet = Packet::default();
        self.blocked = false;
        self.immediate = false;
    }
}

impl E1000 {
    // ---- fetch ----

    fn tx_runs(&self) -> bool {
        !self.halted && !self.tx.hung && (self.regs.tctl & TCTL_EN != 0 || self.tx.packet.open)
    }

    /// Returns the times from which the next piece of work and the next fetch can begin.
    #[inline]
    pub(super) fn tx_dma_due(&self) -> (Time, Time) {
        if !self.tx_runs() {
            return (Time::NEVER, Time::NEVER);
        }
        let free = !self.tx.blocked && self.tx.arrives == Time::NEVER;
        let work = if free { self.tx.ring.arrived } else { Time::NEVER };
        (work, self.tx.ring.fetch_due())
    }

    pub(super) fn tx_fetch<P: Port>(&mut self, p: &mut P, t: Time) {
        let read = self.tx.ring.fetch(p, t);
        self.fetched(read);
    }

    // ---- data ----

    /// Begins with the next piece of the next descriptor.
    pub(super) fn tx_work<P: Port>(&mut self, p: &mut P, t: Time) {
        let Some((_, d)) = self.tx.ring.front() else { return };
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
        if !self.tx.packet.open {
            self.open_packet(d, word, extended);
        }
        let length = word & if extended { tx_word::LENGTH } else { LEGACY_LENGTH };
        if d.low == 0 || self.tx.packet.discard || self.tx.offset >= length {
            return self.tx_data_done(p, t, d);
        }
        if self.erratum(d.low, length) {
            self.tx.hung = true;
            self.counters.hangs += 1;
            return;
        }
        let packet = &mut self.tx.packet;
        let context = &self.tx.contexts[1];
        let goal =
            if packet.large { usize::from(context.header) + usize::from(context.mss) } else { MAX };
        let have = packet.bytes.len();
        if have >= goal {
            // It is too long, or a context for shorter segments came in the middle of it.
            packet.discard = true;
            self.counters.tx_discarded += 1;
            return;
        }
        let left = (length - self.tx.offset).min(self.cfg.max_read);
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
        let from = Iova(d.low) + u64::from(self.tx.offset);
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
        let first = self.tx.packet.fresh && self.tx.offset == 0;
        let last_byte = address.wrapping_add(u64::from(length) - 1);
        (first && length > MAX_FIRST_PCIX)
            || (self.cfg.variant == Variant::I82544Gc && length > 4 && last_byte & 4 == 0)
    }

    fn load_context(&mut self, d: Desc, word: u32) {
        self.counters.contexts += 1;
        if let Ok(c) = ContextTx::read_from_bytes(&d.to_bytes()) {
            self.tx.contexts[usize::from(word & tx_word::TSE != 0)] = Context::of(c);
        }
    }

    fn open_packet(&mut self, d: Desc, word: u32, extended: bool) {
        let large = extended && word & tx_word::TSE != 0;
        let p = &mut self.tx.packet;
        (p.open, p.large, p.fresh, p.discard) = (true, large, true, false);
        p.options = if extended { (d.high >> 40) as u8 } else { 0 };
        if large {
            p.bytes = self.spare.take();
            p.header.clear();
            (p.segments, p.before) = (0, 0);
            let c = &self.tx.contexts[1];
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
        let Some((_, d)) = self.tx.ring.front() else { return };
        self.tx.offset += self.tx.arriving;
        self.tx.packet.fresh = false;
        let word = d.high as u32;
        let length = word & if word & tx_word::DEXT != 0 { tx_word::LENGTH } else { LEGACY_LENGTH };
        let (ends, end) = (self.tx.offset >= length, word & tx_word::EOP != 0);
        if self.tx.packet.large {
            self.cut(t, d, ends && end);
        }
        if ends {
            self.tx_data_done(p, t, d);
        }
    }

    /// Makes segments of the data that have been read. `end`: they are the packet's last.
    fn cut(&mut self, t: Time, d: Desc, end: bool) {
        let c = &self.tx.contexts[1];
        let goal = usize::from(c.header) + usize::from(c.mss);
        let ahead = core::mem::take(&mut self.tx.packet.ahead);
        let mut rest = &ahead[..];
        // What comes after PAYLEN is read and not sent.
        while !rest.is_empty() && !self.tx.packet.discard {
            let packet = &mut self.tx.packet;
            let (piece, after) = rest.split_at(rest.len().min(goal - packet.bytes.len()));
            packet.bytes.extend_from_slice(piece);
            rest = after;
            if packet.bytes.len() == goal {
                self.segment(t, d, end && rest.is_empty());
            }
        }
        self.tx.packet.ahead = ahead;
    }

    /// All of the data descriptor in front, `d`, is on the chip.
    #[inline(always)]
    fn tx_data_done<P: Port>(&mut self, p: &mut P, t: Time, d: Desc) {
        if d.high as u32 & tx_word::EOP != 0 {
            let packet = &self.tx.packet;
            let (len, header) = (packet.bytes.len(), usize::from(self.tx.contexts[1].header));
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
            if self.tx.packet.segments > 0 {
                self.counters.large_sends += 1;
                self.stats.count(stat::TSCTC);
            }
            let bytes = core::mem::take(&mut self.tx.packet.bytes);
            self.spare.push(bytes);
            self.tx.packet.open = false;
            self.tx.packet.segments = 0;
        }
        self.tx_done(p, t);
    }

    // ---- process ----

    /// The packet's bytes are one segment.
    fn segment(&mut self, t: Time, d: Desc, end: bool) {
        let c = self.tx.contexts[1];
        let header = usize::from(c.header);
        let packet = &mut self.tx.packet;
        if packet.segments == 0 {
            packet.header.extend_from_slice(&packet.bytes[..header]);
        }
        let after = packet.before + (packet.bytes.len() - header) as u32;
        let last = end || after >= c.payload;
        c.patch(&mut packet.bytes, packet.segments, packet.before, last);
        (packet.segments, packet.before) = (packet.segments + 1, after);
        self.finish(t, d);
        let packet = &mut self.tx.packet;
        packet.bytes.clear();
        packet.bytes.extend_from_slice(&packet.header);
        packet.discard |= last;
    }

    /// The packet's bytes are a frame, described by `d` at its end.
    #[inline(always)]
    fn finish(&mut self, t: Time, d: Desc) {
        let word = d.high as u32;
        // One that is not cut is whole, and has no further use of its memory.
        let next = if self.tx.packet.large { self.spare.take() } else { Vec::new() };
        let packet = &mut self.tx.packet;
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
            let c = &self.tx.contexts[usize::from(packet.large)];
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
        let Some((place, mut d)) = self.tx.ring.take() else { return };
        self.tx.offset = 0;
        self.counters.tx_descriptors += 1;
        let word = d.high as u32;
        d.high |= u64::from(DD) << 32;
        let left = self.tx.ring.left();
        if left == 0 {
            self.irq.raise(t, INT_TXQE);
        }
        let low = self.tx.ring.control() >> TXDCTL_LWTHRESH_SHIFT;
        if low != 0 && left == low * 8 && self.cfg.variant.moderates() {
            self.irq.raise(t, INT_TXD_LOW);
        }
        if word & tx_word::RPS != 0 && word & tx_word::EOP != 0 && self.cfg.variant.reports_sent() {
            // A packet that was not sent must not take the report of the one before.
            match self.tx.fifo.back_mut().filter(|f| f.report.is_none()) {
                Some(f) => f.report = Some((place, d)),
                None => self.tx_report_now(p, t, place, d),
            }
            return;
        }
        let (rs, threshold) = (word & tx_word::RS != 0, self.tx.ring.thresholds().write_back);
        if threshold == 0 {
            if self.tx.ring.any_waiting() {
                self.tx_flush(p, t);
            }
            if rs {
                self.tx_report_now(p, t, place, d);
            }
        } else if rs || self.tx.ring.any_waiting() {
            if rs {
                self.tx.immediate |= !self.delays(t, word);
            }
            if threshold == 1 && !self.tx.ring.any_waiting() {
                let written = Ring::write_one(p, t, (place, d), ERROR_BITS);
                if written.is_err() {
                    self.tx.ring.wait(place, d);
                }
                self.tx_flushed(t, written.map(|_| (1, 1)));
            } else if self.tx.ring.wait(place, d) >= threshold {
                self.tx_flush(p, t);
            }
        }
    }

    /// Starts the delay of a reported descriptor, if it is to have one.
    #[inline(always)]
    fn delays(&mut self, t: Time, word: u32) -> bool {
        let tidv = self.regs.tidv & TIMER;
        let delayed = word & tx_word::IDE != 0 && tidv != 0 && !self.irq.every_write_back();
        if delayed {
            let tadv = if self.cfg.variant.moderates() { self.regs.tadv & TIMER } else { 0 };
            self.tx.delay.start(t, tidv, tadv);
        }
        delayed
    }

    /// One dword for one descriptor.
    pub(super) fn tx_report_now<P: Port>(&mut self, p: &mut P, t: Time, place: Iova, d: Desc) {
        let poisoned = if p.begin_completion(t) { ERROR_BITS } else { 0 };
        let status = ((d.high | poisoned) >> 32) as u32;
        self.flushed(p.write(t, place + 12, &status.to_le_bytes()).map(|_| (1, 1)));
        if !self.delays(t, d.high as u32) {
            self.tx.delay.stop();
            self.irq.raise(t, INT_TXDW | INT_TXQ0);
        }
    }

    fn tx_flush<P: Port>(&mut self, p: &mut P, t: Time) {
        let written = self.tx.ring.flush(p, t, ERROR_BITS, false);
        self.tx_flushed(t, written);
    }

    fn tx_flushed(&mut self, t: Time, written: Result<(u64, u64), DmaFault>) {
        self.flushed(written);
        if core::mem::take(&mut self.tx.immediate) {
            self.tx.delay.stop();
            self.irq.raise(t, INT_TXDW | INT_TXQ0);
        }
    }

    /// TIDV or TADV has ended.
    pub(super) fn tx_delay_over<P: Port>(&mut self, p: &mut P, t: Time) {
        self.tx.delay.stop();
        if !self.halted && self.tx.ring.any_waiting() {
            self.tx_flush(p, t);
            self.reads_moved();
        }
        self.irq.raise(t, INT_TXDW | INT_TXQ0);
    }
}
