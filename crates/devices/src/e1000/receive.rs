//! Receive: from the wire to memory.
//!
//! A frame is checked whole on arrival (length, pause, filters, checksums), padded to 60 bytes, and
//! stored in the FIFO without tag (CTRL.VME) and with FCS (unless RCTL.SECRC). Each buffer is one
//! write. Write-back follows the data: at WTHRESH descriptors, or with the interrupt that RDTR and
//! RADV delay. Every frame counts in TPR and TORL, one in the FIFO in GPRC, one without room in
//! MPC. The queues share the FIFO and the timers: a frame whose queue has no descriptor holds up
//! those behind it.
//!
//! Source: SDM 3.2, 13.4.22, 13.4.25 to 13.4.32, 13.7; 82574 7.1.

use super::config::{Config, Variant};
use super::device::E1000;
use super::filter::{self, Pass};
use super::interrupt::{Delay, TIMER};
use super::ring::{DESC, Desc, QUEUES, Ring};
use super::rss::Hashed;
use alloc::{collections::VecDeque, vec::Vec};
use doorbell_hal::{DmaFault, DropReason, Iova, Port, RxVerdict, Time};
use doorbell_layout::e1000::{
    CTRL_RFCE, CTRL_VME, DCTL_WTHRESH_SHIFT, INT_RXDMT0, INT_RXO, INT_RXQ0, INT_RXT0, INT_SRPD,
    RCTL_BSEX, RCTL_DPF, RCTL_EN, RCTL_FLXBUF_SHIFT, RCTL_LPE, RCTL_RDMTS_SHIFT, RCTL_SECRC,
    RCTL_SZ_SHIFT, RFCTL_IPFRSP_DIS, RFCTL_IPV6_DIS, RXCSUM_PCSD, Rx, RxExtended, RxSplit,
    reg::stat,
};
use doorbell_packet::ethernet::{self, Cast, FCS, HEADER, MIN_FRAME};
use doorbell_packet::headers::{Ip, Layers};
use doorbell_packet::vlan::TAG;

/// Longest frame with tag and FCS, unless RCTL.LPE; and with it.
const MAX_FRAME: usize = ethernet::MAX_FRAME + TAG + FCS;
const MAX_LONG: usize = 16384;
/// Bits of status and errors in a descriptor's upper half begin here: in the legacy form, and in
/// the extended one, which has the length behind them (82574 7.1.5.2).
const LEGACY: [u32; 3] = [32, 40, 0];
const EXTENDED: [u32; 3] = [0, RxExtended::ERRORS_SHIFT, 32];
/// Writes of data under way at the most.
const IN_FLIGHT: usize = 2;

/// The time at which the data of a descriptor have landed, the bytes in each of its buffers, and
/// the field of the headers.
type Written = Result<(Time, [u16; RxSplit::BUFFERS], u16), DmaFault>;

/// A frame in the FIFO, as it goes to memory.
#[derive(Debug)]
struct RxFrame {
    ready: Time,
    bytes: Vec<u8>,
    /// Bytes of it that have been written.
    done: usize,
    status: u8,
    errors: u8,
    checksum: u16,
    special: u16,
    parsed: Parsed,
}

/// The part of extended descriptors that comes from a frame's headers.
#[derive(Debug, Default)]
struct Parsed {
    identification: Option<u16>,
    /// Its type, as in the status.
    packet: u32,
    hashed: Hashed,
    /// Length of the headers that can be split off; 0 for none.
    headers: u16,
}

/// A buffer that is being written.
#[derive(Debug)]
struct PendingWrite {
    at: Time,
    queue: usize,
    /// Its descriptor; `None` when the driver has moved the ring meanwhile.
    place: Option<Iova>,
    d: Desc,
    /// The second half of a descriptor of packet split.
    more: Option<Desc>,
    bytes: usize,
    /// The frame's length, when it ends here.
    frame: Option<usize>,
}

/// The receive side.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) rings: [Ring; QUEUES],
    pub(super) delay: Delay,
    fifo: VecDeque<RxFrame>,
    used: usize,
    pending: VecDeque<PendingWrite>,
    /// XOFF has been sent, and no XON.
    pub(super) held_off: bool,
}

impl Receiver {
    pub(super) fn new(cfg: &Config) -> Receiver {
        Receiver {
            // "Descriptors are normally written back as soon as one cache line is available."
            rings: [(); QUEUES].map(|()| Ring::new(cfg.cache_line, 1 << DCTL_WTHRESH_SHIFT)),
            delay: Delay::default(),
            fifo: VecDeque::new(),
            used: 0,
            pending: VecDeque::with_capacity(IN_FLIGHT),
            held_off: false,
        }
    }

    /// Frames that are not in memory, and those that are and are not reported.
    pub(super) fn unfinished(&self, extended: bool) -> (u64, u64) {
        let eop = u64::from(Rx::EOP) << form(extended)[0];
        let pending = self.pending.iter().filter(|l| l.frame.is_some()).count();
        let unreported = self.rings.iter().map(|ring| ring.unreported(eop)).sum();
        (self.fifo.len() as u64 + pending as u64, unreported)
    }

    /// Bytes in the FIFO.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// The driver has moved a ring.
    pub(super) fn restart(&mut self, queue: usize) {
        self.rings[queue].restart();
        self.pending.iter_mut().filter(|l| l.queue == queue).for_each(|l| l.place = None);
    }

    /// Returns the ring that fetches first of those that would by `t`: one without descriptors.
    fn fetching(&self, t: Time) -> Option<usize> {
        let due = |dry| move |r: &Ring| r.fetch_due() <= t && r.is_dry() == dry;
        [true, false].into_iter().find_map(|dry| self.rings.iter().position(due(dry)))
    }

    /// Returns true if a ring without descriptors would fetch by `t`.
    pub(super) fn is_dry(&self, t: Time) -> bool {
        self.rings.iter().any(|r| r.fetch_due() <= t && r.is_dry())
    }
}

/// Bytes of a buffer, unless descriptors split packets.
const fn buffer_size(rctl: u32) -> usize {
    let (size, flexible) = (2048 >> (rctl >> RCTL_SZ_SHIFT & 3), rctl >> RCTL_FLXBUF_SHIFT & 0xf);
    match flexible {
        // Size 0 with BSEX is reserved; it counts as without.
        0 if rctl & RCTL_BSEX != 0 && size != 2048 => size * 16,
        0 => size,
        kib => (kib as usize) << 10,
    }
}

/// Returns the causes of an interrupt for frames of the queues of these bits.
const fn causes(queues: u32) -> u32 {
    INT_RXT0 | (INT_RXQ0 * queues)
}

/// Returns where a written descriptor has status, errors and length.
const fn form(extended: bool) -> [u32; 3] {
    if extended { EXTENDED } else { LEGACY }
}

impl E1000 {
    // ---- arrival ----

    /// A frame arrives from the wire, or from our own transmitter.
    pub(super) fn arrive(&mut self, at: Time, frame: &[u8], looped: bool) -> RxVerdict {
        if !self.link || looped != self.loops() {
            self.counters.rx_dropped += 1;
            return RxVerdict::Dropped(DropReason::Off);
        }
        let len = frame.len().max(MIN_FRAME) + FCS;
        self.stats.count(stat::TPR);
        self.stats.bytes(stat::TORL, len);
        let rctl = self.regs.rctl;
        let longest = if rctl & RCTL_LPE != 0 { MAX_LONG } else { MAX_FRAME };
        if frame.len() < HEADER || len > longest {
            self.stats.count(if frame.len() < HEADER { stat::RUC } else { stat::ROC });
            self.counters.rx_dropped += 1;
            return RxVerdict::Dropped(DropReason::Malformed);
        }
        let pause = self.regs.is_flow_control(frame);
        if pause {
            self.control_frame(at, frame);
            if rctl & RCTL_DPF != 0 {
                return RxVerdict::Yes;
            }
        }
        if rctl & RCTL_EN == 0 {
            self.counters.rx_dropped += 1;
            return RxVerdict::Dropped(DropReason::Off);
        }
        let tag = filter::tag(frame, self.regs.vet);
        let pass = self.filter.pass(rctl, frame, tag);
        if pass == Pass::No {
            if pause {
                return RxVerdict::Yes;
            }
            self.counters.rx_filtered += 1;
            return RxVerdict::Dropped(DropReason::Filter);
        }
        if self.rx.used + len > self.regs.rx_fifo() {
            self.stats.count(stat::MPC);
            self.counters.rx_missed += 1;
            self.irq.raise(at, INT_RXO);
            return RxVerdict::Dropped(DropReason::Fifo);
        }
        self.stats.count(stat::GPRC);
        self.stats.bytes(stat::GORCL, len);
        self.stats.size_class(stat::PRC64, len);
        match Cast::of(frame) {
            Cast::Unicast => {}
            Cast::Multicast => self.stats.count(stat::MPRC),
            Cast::Broadcast => self.stats.count(stat::BPRC),
        }
        let queue = self.store(at, frame, tag, pass);
        if self.rx.rings[queue].left() == 0 {
            self.stats.count(stat::RNBC);
            self.counters.rx_waited += 1;
        }
        self.flow_control(at);
        RxVerdict::Yes
    }

    /// Puts an accepted frame into the FIFO, as it is to look in memory. Returns its queue.
    fn store(&mut self, at: Time, frame: &[u8], tag: Option<u16>, pass: Pass) -> usize {
        let mut bytes = self.spare.take();
        bytes.extend_from_slice(frame);
        if bytes.len() < MIN_FRAME {
            bytes.resize(MIN_FRAME, 0);
        }
        let (mut status, errors, checksum) = filter::checksums(&bytes, self.regs.rxcsum);
        if pass == Pass::Inexact {
            status |= Rx::PIF;
        }
        let fcs = if self.regs.rctl & RCTL_SECRC == 0 { Some(ethernet::fcs(&bytes)) } else { None };
        let mut special = 0;
        if let Some(tci) = tag
            && self.regs.ctrl & CTRL_VME != 0
        {
            special = tci;
            status |= Rx::VP;
            bytes.copy_within(16.., 12);
            bytes.truncate(bytes.len() - TAG);
        }
        let parsed = self.parse(&bytes);
        if let Some(fcs) = fcs {
            bytes.extend_from_slice(&fcs);
        }
        self.rx.used += bytes.len();
        let queue = parsed.hashed.queue;
        let frame =
            RxFrame { ready: at, bytes, done: 0, status, errors, checksum, special, parsed };
        self.rx.fifo.push_back(frame);
        queue
    }

    /// Finds what extended descriptors have of a frame's headers, if they are in use.
    fn parse(&mut self, frame: &[u8]) -> Parsed {
        let has_hash = self.regs.rxcsum & RXCSUM_PCSD != 0;
        let Some((rfctl, rss)) = self.regs.parsing() else { return Parsed::default() };
        let Ok(l) = Layers::of(frame) else { return Parsed::default() };
        if l.ip == Ip::V6 && rfctl & RFCTL_IPV6_DIS != 0 {
            return Parsed::default();
        }
        let hashed = if has_hash { rss.hash(frame, &l, rfctl) } else { Hashed::default() };
        let l3 = usize::from(l.l3);
        let id = |l3: usize| u16::from_be_bytes([frame[l3 + 4], frame[l3 + 5]]);
        let packet = match (l.ip, l.transport) {
            (Ip::V4, None) => RxExtended::PACKET_IPV4,
            (Ip::V4, Some(_)) => RxExtended::PACKET_IPV4_TRANSPORT,
            (Ip::V6, None) => RxExtended::PACKET_IPV6,
            (Ip::V6, Some(_)) => RxExtended::PACKET_IPV6_TRANSPORT,
        };
        let whole = l.fragment && rfctl & RFCTL_IPFRSP_DIS != 0;
        Parsed {
            identification: (l.ip == Ip::V4).then(|| id(l3)),
            packet,
            hashed,
            headers: if whole { 0 } else { l.end },
        }
    }

    /// A MAC control frame: a pause, or one that nobody knows.
    fn control_frame(&mut self, at: Time, frame: &[u8]) {
        if self.regs.ctrl & CTRL_RFCE == 0 {
            return;
        }
        match frame.get(14..18) {
            Some(&[0, 1, high, low]) => {
                let quanta = u16::from_be_bytes([high, low]);
                self.stats.count(if quanta == 0 { stat::XONRXC } else { stat::XOFFRXC });
                self.counters.pauses_received += 1;
                // A quantum is 512 bit times.
                self.tx.paused = at + self.mode().speed.byte() * (u64::from(quanta) * 64);
            }
            _ => self.stats.count(stat::FCRUC),
        }
    }

    // ---- to memory ----

    #[inline(always)]
    pub(super) fn rx_fetch_due(&self) -> Time {
        let runs = !self.halted && self.regs.rctl & RCTL_EN != 0;
        let [first, second] = &self.rx.rings;
        match (runs, self.regs.has_queues()) {
            (false, _) => Time::NEVER,
            (true, false) => first.fetch_due(),
            (true, true) => first.fetch_due().min(second.fetch_due()),
        }
    }

    pub(super) fn rx_fetch<P: Port>(&mut self, p: &mut P, t: Time) {
        let Some(queue) = self.rx.fetching(t) else { return };
        let read = self.rx.rings[queue].fetch(p, t);
        self.fetched(read);
    }

    pub(super) fn rx_data_due(&self) -> Time {
        if self.halted || self.rx.pending.len() >= IN_FLIGHT {
            return Time::NEVER;
        }
        let Some(f) = self.rx.fifo.front() else { return Time::NEVER };
        f.ready.max(self.rx.rings[f.parsed.hashed.queue].arrived)
    }

    /// The next descriptor of the frame in front.
    pub(super) fn rx_data<P: Port>(&mut self, p: &mut P, t: Time) {
        let (split, extended) = (self.regs.split_sizes(), self.regs.is_extended());
        let [status, errors, length] = form(extended);
        let Some(f) = self.rx.fifo.front() else { return };
        let queue = f.parsed.hashed.queue;
        let ring = &mut self.rx.rings[queue];
        let Some((place, mut d)) = ring.take() else { return };
        let second = split.and_then(|sizes| Some((sizes, ring.take()?.1)));
        self.counters.rx_descriptors += 1;
        let place = Some(place);
        let mut pending =
            PendingWrite { at: t, queue, place, d, more: None, bytes: 0, frame: None };
        if d.low == 0 {
            d.high = u64::from(Rx::DD) << status;
            pending.more = second.map(|_| Desc::default());
        } else {
            let written = match second {
                Some((sizes, more)) => self.rx_split(p, t, sizes, [d, more]),
                None => self.rx_whole(p, t, d.low),
            };
            let Ok((landed, lengths, headers)) = written else { return self.fault() };
            let Some(f) = self.rx.fifo.front_mut() else { return };
            d.high = u64::from(lengths[0]) << length | u64::from(Rx::DD) << status;
            if f.done == f.bytes.len() {
                d.high |= u64::from(f.status | Rx::EOP) << status
                    | u64::from(f.errors) << errors
                    | u64::from(f.special) << 48;
                if extended {
                    let (low, status) = f.extended(self.regs.rxcsum);
                    (d.low, d.high) = (low, d.high | status);
                } else {
                    d.high |= u64::from(f.checksum) << 16;
                }
                pending.frame = Some(f.done);
            } else if extended {
                d.low = 0;
            }
            pending.more = second.map(|_| {
                let [_, lengths @ ..] = lengths;
                let low = lengths.iter().rev().fold(0, |low, n| low << 16 | u64::from(*n));
                Desc { low: low << 16 | u64::from(headers), high: 0 }
            });
            let bytes = lengths.into_iter().map(usize::from).sum();
            (pending.at, pending.bytes) = (landed.max(t), bytes);
        }
        pending.d = d;
        // They land in the order they were made.
        pending.at = self.rx.pending.back().map_or(pending.at, |l| l.at.max(pending.at));
        if pending.frame.is_some()
            && let Some(f) = self.rx.fifo.pop_front()
        {
            self.spare.push(f.bytes);
        }
        self.rx.pending.push_back(pending);
        let fraction = (self.regs.rctl >> RCTL_RDMTS_SHIFT & 3).min(2) + 1;
        let ring = &self.rx.rings[queue];
        let (left, low) = (ring.left(), ring.size() >> fraction);
        if left <= low && left + ring.pieces() as u32 > low {
            self.irq.raise(t, INT_RXDMT0);
        }
    }

    /// Writes of the frame in front what its next buffer of one descriptor takes. Returns the time
    /// at which it has landed, and the bytes in each buffer.
    fn rx_whole<P: Port>(&mut self, p: &mut P, t: Time, to: u64) -> Written {
        let size = buffer_size(self.regs.rctl);
        let (landed, n) = self.rx_buffer(p, t, to, size)?;
        Ok((landed, [n, 0, 0, 0], 0))
    }

    /// Writes of the frame in front what the four buffers of a descriptor take: the headers to the
    /// first alone, if they fit; else one buffer after the other (82574 7.1.6).
    fn rx_split<P: Port>(
        &mut self,
        p: &mut P,
        t: Time,
        sizes: [usize; RxSplit::BUFFERS],
        [first, second]: [Desc; 2],
    ) -> Written {
        let f = self.rx.fifo.front().filter(|f| usize::from(f.parsed.headers) <= sizes[0]);
        let headers = f.map_or(0, |f| f.parsed.headers);
        let begins = f.is_some_and(|f| f.done == 0);
        let (mut landed, mut lengths) = (t, [0; RxSplit::BUFFERS]);
        let buffers = [first.low, first.high, second.low, second.high];
        for (i, (to, size)) in buffers.into_iter().zip(sizes).enumerate() {
            let size = match i {
                0 if headers > 0 => {
                    if begins {
                        headers.into()
                    } else {
                        0
                    }
                }
                // All ones is a buffer that is not there.
                _ if to == 0 || to == !0 => 0,
                _ => size,
            };
            let (at, n) = self.rx_buffer(p, t, to, size)?;
            (landed, lengths[i]) = (landed.max(at), n);
        }
        let is_split = headers > 0 && begins;
        let flag = if is_split { RxSplit::HDRSP } else { 0 };
        Ok((landed, lengths, flag | headers & RxSplit::HEADER))
    }

    /// Writes at most `size` bytes of the frame in front. Returns the time at which they have
    /// landed, and their number.
    fn rx_buffer<P: Port>(
        &mut self,
        p: &mut P,
        t: Time,
        to: u64,
        size: usize,
    ) -> Result<(Time, u16), DmaFault> {
        let Some(f) = self.rx.fifo.front_mut() else { return Ok((t, 0)) };
        let n = size.min(f.bytes.len() - f.done);
        if n == 0 {
            return Ok((t, 0));
        }
        let landed = p.write(t, Iova(to), &f.bytes[f.done..f.done + n])?;
        self.counters.data_writes += 1;
        let crosses = to >> 16 != to.wrapping_add(n as u64 - 1) >> 16;
        self.counters.crossed_64k += u64::from(crosses && self.cfg.variant == Variant::I82545Em);
        self.counters.data_write_bytes += n as u64;
        f.done += n;
        Ok((landed, n as u16))
    }

    // ---- write-back ----

    pub(super) fn rx_write_due(&self) -> Time {
        match self.rx.pending.front() {
            Some(l) if !self.halted => l.at,
            _ => Time::NEVER,
        }
    }

    /// A buffer's data are in memory.
    pub(super) fn rx_written<P: Port>(&mut self, p: &mut P, t: Time) {
        let Some(l) = self.rx.pending.pop_front() else { return };
        self.rx.used -= l.bytes;
        self.flow_control(t);
        let Some(place) = l.place else { return };
        let ring = &mut self.rx.rings[l.queue];
        let mut waiting = ring.wait(place, l.d);
        if let Some(more) = l.more {
            waiting = ring.wait(place + DESC as u64, more);
        }
        let mut flush = waiting >= ring.thresholds().write_back;
        if let Some(len) = l.frame {
            self.counters.rx_packets += 1;
            self.counters.rx_bytes += len as u64;
            let (rdtr, moderates) = (self.regs.rdtr & TIMER, self.cfg.variant.moderates());
            if moderates && self.regs.rsrpd != 0 && len as u32 <= self.regs.rsrpd {
                flush = true;
                self.irq.raise(t, INT_SRPD);
            }
            if rdtr == 0 {
                flush = true;
                self.rx.delay.stop(l.queue);
                self.irq.raise(t, causes(1 << l.queue));
            } else {
                let radv = if moderates { self.regs.radv & TIMER } else { 0 };
                self.rx.delay.start(t, l.queue, rdtr, radv);
            }
        }
        if flush {
            self.rx_flush(p, t, l.queue);
        }
    }

    fn rx_flush<P: Port>(&mut self, p: &mut P, t: Time, queue: usize) {
        let extended = self.regs.is_extended();
        let poisoned = u64::from(Rx::CE) << form(extended)[1];
        let written = self.rx.rings[queue].flush(p, t, poisoned, extended);
        self.flushed(written);
    }

    /// RDTR or RADV has ended.
    pub(super) fn rx_delay_over<P: Port>(&mut self, p: &mut P, t: Time) {
        let queues = self.rx.delay.end();
        for queue in 0..QUEUES {
            if !self.halted && self.rx.rings[queue].any_waiting() {
                self.rx_flush(p, t, queue);
            }
        }
        self.irq.raise(t, causes(queues));
    }
}

impl RxFrame {
    /// Returns the lower half of an extended descriptor, and status for the upper: the packet's
    /// type; its hash, or IP identification and packet checksum (82574 7.1.5.2).
    fn extended(&self, rxcsum: u32) -> (u64, u64) {
        let f = &self.parsed;
        let status = u64::from(f.packet << RxExtended::PACKET_SHIFT);
        if rxcsum & RXCSUM_PCSD != 0 {
            let queue = (f.hashed.queue as u64) << RxExtended::QUEUE_SHIFT;
            return (u64::from(f.hashed.value) << 32 | queue | u64::from(f.hashed.kind), status);
        }
        let checksum = u64::from(self.checksum) << 48;
        let identified = |n| (u64::from(n) << 32 | checksum, status | u64::from(RxExtended::IPIDV));
        f.identification.map_or((checksum, status), identified)
    }
}

#[cfg(test)]
mod tests;
