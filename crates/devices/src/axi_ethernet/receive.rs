//! S2MM: from the wire to memory.
//!
//! A frame is checked whole on arrival (link, length, filter), padded to 60 bytes, and takes room
//! in the receive memory or is dropped. Each buffer is one write; its status follows when the data
//! are in memory, SOF in the first descriptor, EOF and the application words in the last. RS 0 in
//! the middle of a frame loses the rest of it.
//!
//! Source: PG021, "S2MM_STATUS"; PG138, "Receive AXI4-Stream Interface".

use super::channel::{Channel, Fetched, Link, RX_FETCH, Report, data_error};
use super::config::Config;
use super::device::AxiEthernet;
use super::mac::is_tagged;
use super::offload;
use alloc::{collections::VecDeque, vec::Vec};
use doorbell_hal::{DropReason, Iova, Port, RxVerdict, Time};
use doorbell_layout::axienet::{Descriptor, int, raf, rcw1, rx_app, sr, stat};
use doorbell_packet::ethernet::{self, Cast, FCS, HEADER, MAX_FRAME, MIN_FRAME, MTU};
use doorbell_packet::vlan::TAG;

/// Writes of data under way at the most.
const IN_FLIGHT: usize = 2;
/// PG021, "Latency": clocks from the stream's first data to the write's address.
const STREAM_TO_DATA: u64 = 39;

/// A frame in the receive memory.
#[derive(Debug)]
struct RxFrame {
    /// Time at which its first data can be written.
    ready: Time,
    bytes: Vec<u8>,
    /// Bytes of it that have been written.
    done: usize,
    app: [u32; 5],
}

/// A buffer that is being written.
#[derive(Debug)]
struct PendingWrite {
    at: Time,
    link: Link,
    status: u32,
    bytes: usize,
    /// Of a frame that ends here.
    app: Option<[u32; 5]>,
}

#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) ch: Channel,
    fifo: VecDeque<RxFrame>,
    used: usize,
    pending: VecDeque<PendingWrite>,
}

impl Receiver {
    pub(super) fn new(cfg: &Config) -> Receiver {
        Receiver {
            ch: Channel::new(cfg, RX_FETCH),
            fifo: VecDeque::new(),
            used: 0,
            pending: VecDeque::with_capacity(IN_FLIGHT),
        }
    }

    /// Frames that wait, and those whose data are on their way.
    pub(super) fn unfinished(&self) -> (u64, u64) {
        (self.fifo.len() as u64, self.pending.iter().filter(|l| l.app.is_some()).count() as u64)
    }

    /// Returns true if data are on their way to memory.
    pub(super) fn is_busy(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The MAC's receiver is reset: what has not begun to leave is gone. Returns the number of
    /// frames lost.
    pub(super) fn empty(&mut self) -> u64 {
        let before = self.fifo.len();
        self.fifo.truncate(usize::from(self.fifo.front().is_some_and(|f| f.done > 0)));
        self.count_used();
        (before - self.fifo.len()) as u64
    }

    fn count_used(&mut self) {
        let waiting: usize = self.fifo.iter().map(|f| f.bytes.len() - f.done).sum();
        self.used = waiting + self.pending.iter().map(|l| l.bytes).sum::<usize>();
    }

    /// Bytes in the receive memory.
    pub(super) fn used(&self) -> usize {
        self.used
    }
}

/// Returns true if the frame has a length field and it is wrong.
#[inline(always)]
fn has_wrong_length(frame: &[u8]) -> bool {
    let at = if is_tagged(frame) { 16 } else { 12 };
    let Some(&[a, b]) = frame.get(at..at + 2) else { return true };
    let field = usize::from(u16::from_be_bytes([a, b]));
    let have = frame.len() - at - 2;
    // Above the MTU it is a type. Of a short frame, the rest is padding.
    field <= MTU && (have < field || have > field && frame.len() > MIN_FRAME)
}

impl AxiEthernet {
    // ---- arrival ----

    /// A frame arrives from the wire.
    pub(super) fn arrive(&mut self, at: Time, frame: &mut Vec<u8>) -> RxVerdict {
        if !self.carries() || self.mac.rcw1 & rcw1::RX == 0 {
            self.counters.rx_dropped += 1;
            return RxVerdict::Dropped(DropReason::Off);
        }
        let on_wire = frame.len().max(MIN_FRAME) + FCS;
        if frame.len() < HEADER {
            return self.reject(DropReason::Malformed, stat::RX_UNDERSIZE);
        }
        let options = self.mac.rcw1;
        let tag = if options & rcw1::VLAN != 0 && is_tagged(frame) { TAG } else { 0 };
        if options & rcw1::JUMBO == 0
            && frame.len() > MAX_FRAME + tag
            && self.mac.raf & raf::RX_BAD == 0
        {
            return self.reject(DropReason::Malformed, stat::RX_OVERSIZE);
        }
        let checks = options & rcw1::LENGTH_TYPE_DISABLE == 0 && self.mac.raf & raf::RX_BAD == 0;
        if checks && has_wrong_length(frame) {
            return self.reject(DropReason::Malformed, stat::RX_LENGTH_ERRORS);
        }
        if !self.filter.pass(self.mac.raf, frame) {
            self.counters.rx_filtered += 1;
            self.mac.is |= int::RX_REJECT;
            return RxVerdict::Dropped(DropReason::Filter);
        }
        self.count_received(frame, on_wire);
        let fcs = options & rcw1::FCS != 0;
        let len = on_wire - if fcs { 0 } else { FCS };
        if self.rx.used + len > self.cfg.rx_memory as usize {
            self.counters.rx_missed += 1;
            self.mac.is |= int::RX_FIFO_OVERFLOW | int::RX_REJECT;
            return RxVerdict::Dropped(DropReason::Fifo);
        }
        let bytes = self.spare.exchange(frame);
        self.store(at, bytes, fcs);
        self.mac.is |= int::RX_COMPLETE;
        RxVerdict::Yes
    }

    fn reject(&mut self, why: DropReason, statistic: u32) -> RxVerdict {
        self.counters.rx_dropped += 1;
        self.stats.add(statistic, 1);
        self.mac.is |= int::RX_REJECT;
        RxVerdict::Dropped(why)
    }

    #[inline(always)]
    fn count_received(&mut self, frame: &[u8], on_wire: usize) {
        let s = &mut self.stats;
        s.add(stat::RX_BYTES, on_wire);
        s.add(stat::RX_GOOD, 1);
        s.size_class(stat::RX_64, on_wire);
        if is_tagged(frame) {
            s.add(stat::RX_VLAN, 1);
        }
        match Cast::of(frame) {
            Cast::Unicast => {}
            Cast::Multicast => s.add(stat::RX_MULTICAST, 1),
            Cast::Broadcast => s.add(stat::RX_BROADCAST, 1),
        }
    }

    /// Puts an accepted frame into the receive memory, with its application words.
    #[inline(always)]
    fn store(&mut self, at: Time, mut bytes: Vec<u8>, with_fcs: bool) {
        if bytes.len() < MIN_FRAME {
            bytes.resize(MIN_FRAME, 0);
        }
        let (status, sum) = offload::receive(self.cfg.rx_checksum, &bytes);
        if with_fcs {
            let fcs = ethernet::fcs(&bytes);
            bytes.extend_from_slice(&fcs);
        }
        let app = [0, 0, status, sum, bytes.len() as u32 & rx_app::LENGTH];
        self.rx.used += bytes.len();
        let ready = at + self.cfg.clocks(STREAM_TO_DATA);
        self.rx.fifo.push_back(RxFrame { ready, bytes, done: 0, app });
    }

    // ---- to memory ----

    /// Returns the error of a descriptor that no frame can use: bits of its status, if that is
    /// written, and of SR.
    #[inline(always)]
    fn rx_flaw(&self, f: &Fetched) -> Option<(Option<u32>, u32)> {
        if f.suspect { self.rx_suspect(f) } else { None }
    }

    #[cold]
    fn rx_suspect(&self, f: &Fetched) -> Option<(Option<u32>, u32)> {
        if self.rx.ch.is_stale(f) {
            return Some((None, sr::SG_INT_ERR));
        }
        let unaligned = !f.buffer.is_multiple_of(4);
        let bad = self.cfg.length(f.control) == 0 || unaligned && !self.cfg.realign;
        bad.then_some((Some(Descriptor::INT_ERR), sr::DMA_INT_ERR))
    }

    #[inline(always)]
    pub(super) fn rx_data_due(&self) -> Time {
        let r = &self.rx;
        // Mostly no frame waits.
        if r.fifo.is_empty() && !r.ch.suspects {
            return Time::NEVER;
        }
        if !r.ch.runs() || r.pending.len() >= IN_FLIGHT || !r.ch.has_room() {
            return Time::NEVER;
        }
        let Some(d) = r.ch.queue.front() else { return Time::NEVER };
        match r.fifo.front() {
            _ if self.rx_flaw(d).is_some() => d.at,
            Some(f) => f.ready.max(d.at),
            None => Time::NEVER,
        }
    }

    /// The next buffer of the frame in front.
    pub(super) fn rx_data<P: Port>(&mut self, p: &mut P, t: Time) {
        let Some(fetched) = self.rx.ch.queue.front() else { return };
        let (link, at) = (fetched.link, fetched.buffer);
        let size = self.cfg.length(fetched.control) as usize;
        match self.rx_flaw(fetched) {
            Some((None, errors)) => return self.rx_fail(t, link.place, errors),
            Some((Some(status), errors)) => {
                return self.rx_data_fails(p, t, link, (status, errors));
            }
            None => {}
        }
        let Some(f) = self.rx.fifo.front_mut() else { return };
        let len = f.bytes.len();
        let n = size.min(len - f.done);
        let written = if n == len {
            p.write_buffer(t, Iova(at), &mut f.bytes)
        } else {
            p.write(t, Iova(at), &f.bytes[f.done..f.done + n])
        };
        let landed = match written {
            Ok(landed) => landed.max(t),
            Err(fault) => return self.rx_data_fails(p, t, link, data_error(fault)),
        };
        self.counters.data_writes += 1;
        self.counters.data_write_bytes += n as u64;
        self.counters.rx_descriptors += 1;
        let mut status = n as u32 | Descriptor::CMPLT;
        if f.done == 0 {
            status |= Descriptor::SOF;
            self.rx.ch.coalescer.packet_begins();
        }
        f.done += n;
        let ends = f.done == len;
        let app = ends.then_some(f.app);
        if ends {
            status |= Descriptor::EOF;
            if let Some(f) = self.rx.fifo.pop_front() {
                self.counters.rx_packets += 1;
                self.counters.rx_bytes += len as u64;
                self.spare.push(f.bytes);
            }
        }
        self.rx.ch.take();
        // They land in the order they were made.
        let at = self.rx.pending.back().map_or(landed, |l| l.at.max(landed));
        self.rx.pending.push_back(PendingWrite { at, link, status, bytes: n, app });
    }

    fn rx_data_fails<P: Port>(&mut self, p: &mut P, t: Time, link: Link, why: (u32, u32)) {
        let (status, errors) = (why.0 | Descriptor::CMPLT, why.1);
        // If not even that can be written, there is one error more; it halts anyway.
        let _ = self.rx.ch.update(p, t, link, Report { status, app: None, eof: false });
        self.rx_fail(t, link.place, errors);
    }

    fn rx_fail(&mut self, t: Time, place: u64, errors: u32) {
        self.counters.dma_errors += 1;
        self.rx.ch.fail(t, place, errors);
        self.rx_stopped();
    }

    /// The channel runs no more: the rest of a frame in work is lost.
    pub(super) fn rx_stopped(&mut self) {
        if let Some(f) = self.rx.fifo.pop_front_if(|f| f.done > 0) {
            self.rx.used -= f.bytes.len() - f.done;
            self.counters.rx_dropped += 1;
            self.spare.push(f.bytes);
        }
    }

    pub(super) fn rx_write_due(&self) -> Time {
        self.rx.pending.front().map_or(Time::NEVER, |l| l.at)
    }

    /// A buffer's data are in memory: its status follows.
    pub(super) fn rx_written<P: Port>(&mut self, p: &mut P, t: Time) {
        let Some(l) = self.rx.pending.pop_front() else { return };
        self.rx.used -= l.bytes;
        let report = Report { status: l.status, app: l.app.as_ref(), eof: l.app.is_some() };
        match self.rx.ch.update(p, t, l.link, report) {
            Ok(false) => return,
            // The report of an error arrives.
            Ok(true) => {}
            Err(_) => self.counters.rx_unreported += u64::from(l.app.is_some()),
        }
        self.counters.dma_errors += 1;
        self.rx_stopped();
    }

    pub(super) fn rx_updated(&mut self, t: Time) {
        if self.rx.ch.updated(t) {
            self.counters.rx_completions += 1;
        }
    }
}
