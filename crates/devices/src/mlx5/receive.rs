//! Receive: from the wire to memory.
//!
//! Steering, TIR, RQT and RQ are decided on arrival. A frame then takes its WQE, unless as many
//! frames have one as writes may be on their way; it waits in the FIFO until then. WQEs are
//! prefetched; the doorbell record is read when all known ones are, once at a time. A queue's
//! frames go to memory in order, as soon as their WQEs are there, one write for each data segment,
//! and the CQE follows, or waits for others (`compress`). A failed WQE has an error CQE and takes
//! its queue to ERR; one that cannot be read has an event. LRO is not modelled.
//!
//! Sources: en_rx.c, en/params.c, en/reporter_rx.c; assumptions are values of [`Config`].

mod commands;
mod compress;
mod deliver;
mod describe;
mod paths;
mod queue;
#[cfg(test)]
pub(super) mod tests;

pub(super) use compress::Session;
pub(super) use queue::Rq;

use super::rss::Hash;
use super::steering::{Fields, Former};
use paths::Paths;
use queue::{Filler, Wqe};

use super::{Config, device::Mlx5, queues::Table as Objects};
use crate::common::SpareFrames;
use alloc::{boxed::Box, collections::VecDeque, vec::Vec};
use doorbell_hal::{DropReason, Port, RxVerdict, Span, Time, transfer_units};
use doorbell_layout::mlx5::receive::{RqState, RxCqe, STRIDE_BYTES, STRIDES_SHIFT, self_lb_block};
use doorbell_packet::ethernet::{FCS, HEADER, MIN_FRAME};

counters! {
    /// Counters of the receive side.
    struct Counters, names "rx_";
    arrived: "Frames that came in, of whatever fate.",
    packets: "Frames put into memory, once for each queue.",
    bytes in Bytes: "Bytes of those.",
    port_down: "Frames that came while the port was down.",
    bad_length: "Frames too short for an Ethernet header or too long for the port.",
    not_steered: "Frames that steering sent nowhere.",
    endless_walks: "Walks through the tables that had to be cut short.",
    not_ready: "Frames for a queue that is not there or not ready.",
    out_of_buffer: "Frames that found no WQE.",
    fifo_full: "Frames that found the FIFO full.",
    discarded: "Frames in the FIFO that were given up because their queue failed.",
    errors: "Queues that failed.",
    fetches: "Reads of WQEs.",
    fetched_bytes in Bytes: "Bytes of those.",
    record_reads: "Reads of doorbell records.",
    fillers: "CQEs that told of strides without a frame.",
    blocks: "Blocks of compressed CQEs.",
    block_packets: "Frames in those.",
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// Units of [`Port::charge`] of a frame that is compared under a mask.
const COMPARE: u64 = 12;

/// Units of a frame that takes its WQE after it has waited.
const TAKE: u64 = 4;

/// A frame in the FIFO.
#[derive(Debug)]
struct RxFrame {
    /// Time at which it is there, and its WQE.
    ready: Time,
    rqn: u32,
    /// The frame as it goes to memory, then what it may be padded with.
    bytes: Vec<u8>,
    /// The WQE, if it has one.
    wqe: Vec<u8>,
    /// The counter of the WQE.
    counter: u16,
    /// Strides of the WQE before that no frame fits into.
    filler: Option<Filler>,
    cqe: RxCqe,
}

impl RxFrame {
    /// Bytes of the frame.
    fn len(&self) -> usize {
        (self.cqe.byte_cnt.get() & STRIDE_BYTES) as usize
    }

    /// It has this WQE, and says so.
    fn names(&mut self, wqe: &Wqe) {
        self.counter = wqe.counter;
        self.filler = wqe.filler;
        let Some(strides) = wqe.strides else { return self.cqe.wqe_counter.set(wqe.counter) };
        self.cqe.wqe_id.set(strides.wqe_id);
        self.cqe.wqe_counter.set(strides.first);
        let used = u32::from(strides.count) << STRIDES_SHIFT;
        self.cqe.byte_cnt.set(used | self.len() as u32);
    }
}

/// Report that a failed queue still has to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RxError {
    /// Its WQEs or its doorbell record cannot be read.
    Unreadable,
    /// Posted WQEs are to be flushed.
    Flush,
    /// Of these, those from this counter on are left, so many.
    Flushing(u16, u16),
}

/// The receive side.
#[derive(Debug)]
pub struct Receiver {
    /// Tables that decide the queues of a frame.
    pub(super) paths: Paths,
    /// Those from before a reset.
    pub(super) former: Former,
    pub(super) rqs: Objects<Rq>,
    /// Longest frame, FCS included (PMTU `admin_mtu`).
    pub port_mtu: u32,
    /// The port takes frames (PAOS).
    pub port_up: bool,
    /// Counters.
    pub counters: Counters,
    /// Per counter set.
    out_of_buffer: Box<[u64; 256]>,
    /// Frames with a WQE, by the time at which they are ready, and those that wait for one.
    fifo: VecDeque<RxFrame>,
    waiting: VecDeque<RxFrame>,
    /// Bytes in both.
    held: usize,
    /// Buffers for frames and WQEs to come.
    spare: SpareFrames,
    spare_wqes: SpareFrames,
    start_free: Time,
    /// Completion times of the last writes, a ring.
    writes: Box<[Time]>,
    next_write: usize,
    /// Writes of these that had not landed when last looked at, the latest ones.
    flying: usize,
    pending_errors: VecDeque<(Time, u32, RxError)>,
    /// CQs with entries that wait for others: until when.
    sessions: VecDeque<(Time, u32)>,
    cfg: Config,
}

impl Receiver {
    pub(super) fn new(cfg: &Config) -> Receiver {
        Receiver {
            paths: Paths::new(),
            former: Former::default(),
            rqs: Objects::new(0x4000),
            port_mtu: cfg.max_frame + FCS as u32,
            port_up: true,
            counters: Counters::default(),
            out_of_buffer: Box::new([0; 256]),
            fifo: VecDeque::with_capacity(256),
            waiting: VecDeque::new(),
            held: 0,
            spare: SpareFrames::new(),
            spare_wqes: SpareFrames::new(),
            start_free: Time::ZERO,
            writes: alloc::vec![Time::ZERO; usize::from(cfg.writes_outstanding)].into_boxed_slice(),
            next_write: 0,
            flying: 0,
            pending_errors: VecDeque::new(),
            sessions: VecDeque::new(),
            cfg: *cfg,
        }
    }

    /// Takes over what outlives a reset: counters, and what takes long to be let go.
    pub(super) fn inherit(&mut self, before: &mut Receiver) {
        self.counters = before.counters;
        self.former = core::mem::take(&mut before.former);
        self.former.take(&mut before.paths.change().steering);
    }

    /// Frames that found no WQE in the queues of a counter set (`QUERY_Q_COUNTER`);
    /// with `clear`, it begins again at zero.
    pub(crate) fn out_of_buffer(&mut self, set: u8, clear: bool) -> u64 {
        let counter = &mut self.out_of_buffer[usize::from(set)];
        let was = *counter;
        if clear {
            *counter = 0;
        }
        was
    }

    /// Returns the count of all objects, and of frames.
    pub(super) fn size(&self) -> usize {
        let queues = self.paths.tirs.live() + self.paths.rqts.live() + self.rqs.live();
        queues + self.paths.steering.len() + self.fifo_len() as usize + self.pending_errors.len()
    }

    /// Returns the count of frames in the FIFO.
    pub(super) fn fifo_len(&self) -> u64 {
        (self.fifo.len() + self.waiting.len()) as u64
    }

    /// Returns true if a receive queue completes to this CQ.
    pub(super) fn uses_cq(&self, cqn: u32) -> bool {
        self.rqs.any(|rq| rq.ctx.cqn == cqn)
    }

    /// A frame arrives, from the wire or from our own transmitter.
    fn arrive<P: Port>(&mut self, p: &mut P, at: Time, frame: &[u8], looped: bool) -> RxVerdict {
        self.counters.arrived += 1;
        if !self.port_up {
            self.counters.port_down += 1;
            return RxVerdict::Dropped(DropReason::Off);
        }
        if frame.len() < HEADER || frame.len() + FCS > self.port_mtu as usize {
            self.counters.bad_length += 1;
            return RxVerdict::Dropped(DropReason::Malformed);
        }
        let mut padded = [0; MIN_FRAME];
        let frame = match padded.get_mut(..frame.len()) {
            Some(start) => {
                start.copy_from_slice(frame);
                &padded[..]
            }
            None => frame,
        };
        let fields = Fields::of(frame);
        let path = self.paths.find(&fields);
        let (verdict, queues) = (path.verdict, path.queues);
        p.charge(transfer_units(frame.len()) + u64::from(verdict.compares) * COMPARE);
        self.counters.endless_walks += u64::from(verdict.endless);
        let mut fate = Err(DropReason::Filter);
        self.counters.not_steered += u64::from(verdict.tirs().is_empty());
        for (&(tirn, flow_tag), queue) in verdict.tirs().iter().zip(queues) {
            if looped && !self.takes_own(tirn) {
                continue;
            }
            let one = self.accept(p, at, frame, &fields, queue, flow_tag);
            // One copy that is taken is enough; else the first reason is told.
            if one.is_ok() || fate == Err(DropReason::Filter) {
                fate = fate.or(one);
            }
        }
        match fate {
            Ok(()) => RxVerdict::Yes,
            Err(why) => RxVerdict::Dropped(why),
        }
    }

    /// Returns true if a TIR takes unicast frames of the function itself.
    fn takes_own(&self, tirn: u32) -> bool {
        self.paths.tirs.get(tirn).is_some_and(|t| t.ctx.self_lb_block & self_lb_block::UNICAST != 0)
    }

    /// Finds the WQE for a frame in its queue, and puts it into the FIFO.
    fn accept<P: Port>(
        &mut self,
        p: &mut P,
        at: Time,
        frame: &[u8],
        f: &Fields,
        queue: Option<(u32, Hash)>,
        flow_tag: u32,
    ) -> Result<(), DropReason> {
        let ready = queue.and_then(|(rqn, hash)| Some((rqn, hash, self.rqs.get_mut(rqn)?)));
        let Some((rqn, hash, rq)) = ready.filter(|(_, _, rq)| rq.state == RqState::Ready) else {
            self.counters.not_ready += 1;
            return Err(DropReason::Off);
        };
        if self.held + frame.len() > self.cfg.rx_fifo as usize {
            self.counters.fifo_full += 1;
            return Err(DropReason::Fifo);
        }
        let mut bytes = self.spare.take();
        let full = self.cfg.checksum_full;
        let mut cqe = describe::cqe(frame, f, hash, full);
        describe::strip(&mut cqe, frame, f, rq.ctx.keep_vlan, full, &mut bytes);
        describe::place(&mut cqe, at, rqn, flow_tag, bytes.len());
        let ready = at + self.cfg.pipeline_delay;
        self.held += bytes.len();
        let arrived = RxFrame { ready, rqn, bytes, wqe: Vec::new(), counter: 0, filler: None, cqe };
        if !self.waiting.is_empty() || self.fifo.len() >= self.writes.len() {
            self.waiting.push_back(arrived);
            return Ok(());
        }
        self.take_wqe(p, at, arrived)
    }

    /// Gives a frame the next WQE of its queue, at `at`; without one it is lost.
    fn take_wqe<P: Port>(&mut self, p: &mut P, at: Time, mut f: RxFrame) -> Result<(), DropReason> {
        let ready = self.rqs.get_mut(f.rqn).filter(|rq| rq.state == RqState::Ready);
        let Some(rq) = ready else {
            self.counters.discarded += 1;
            self.recycle(f);
            return Err(DropReason::Off);
        };
        f.wqe = self.spare_wqes.take();
        let why = match rq.take(p, at, &mut self.counters, (f.len(), &mut f.wqe)) {
            Ok(Some(wqe)) => {
                if rq.ctx.end_padding {
                    f.bytes.resize(f.bytes.len() + LINE - 1, 0);
                }
                f.names(&wqe);
                // In order within a queue. Those of another queue need not wait for its WQEs.
                f.ready = f.ready.max(wqe.ready).max(rq.ready);
                rq.ready = f.ready;
                if self.fifo.back().is_none_or(|last| last.ready <= f.ready) {
                    self.fifo.push_back(f);
                    return Ok(());
                }
                let later = self.fifo.iter().rev().take_while(|other| other.ready > f.ready);
                self.fifo.insert(self.fifo.len() - later.count(), f);
                return Ok(());
            }
            Ok(None) => {
                self.counters.out_of_buffer += 1;
                self.out_of_buffer[usize::from(rq.ctx.counter_set)] += 1;
                DropReason::NoBuffer
            }
            Err(()) => {
                rq.state = RqState::Error;
                self.counters.errors += 1;
                self.pending_errors.push_back((at, f.rqn, RxError::Unreadable));
                DropReason::Dma
            }
        };
        self.recycle(f);
        Err(why)
    }

    /// Gives WQEs to frames that wait, as far as those may have one. When the share of the turn is
    /// spent, the rest comes with the next one.
    fn let_in<P: Port>(&mut self, p: &mut P, at: Time) {
        while self.fifo.len() < self.writes.len()
            && let Some(f) = self.waiting.pop_front()
        {
            // A loss is counted.
            let _ = self.take_wqe(p, at, f);
            p.charge(TAKE);
            if p.is_spent() {
                return;
            }
        }
    }

    /// Returns the time of the receive side's next action.
    #[inline]
    pub(super) fn due(&self) -> Time {
        let first = self.fifo.front().or(self.waiting.front());
        let frame = first.map_or(Time::NEVER, |f| f.ready.max(self.start()));
        let mishap = self.pending_errors.front().map_or(Time::NEVER, |m| m.0);
        let session = self.sessions.front().map_or(Time::NEVER, |s| s.0);
        frame.min(mishap).min(session)
    }

    /// Returns the time at which the next frame may start for memory.
    #[inline(always)]
    fn start(&self) -> Time {
        self.start_free.max(self.writes[self.next_write])
    }

    fn note_write(&mut self, landed: Time) {
        self.writes[self.next_write] = landed;
        self.next_write += 1;
        if self.next_write == self.writes.len() {
            self.next_write = 0;
        }
        self.flying = (self.flying + 1).min(self.writes.len());
    }

    /// Returns the count of writes of received data that are on their way at `t`.
    fn on_their_way(&mut self, t: Time) -> usize {
        while self.flying > 0 {
            let oldest = self.next_write.checked_sub(self.flying);
            let oldest = oldest.unwrap_or(self.next_write + self.writes.len() - self.flying);
            if self.writes[oldest] > t {
                break;
            }
            self.flying -= 1;
        }
        self.flying
    }

    /// A frame's buffer is free again.
    fn recycle(&mut self, f: RxFrame) {
        self.held -= f.len();
        self.spare.push(f.bytes);
        self.spare_wqes.push(f.wqe);
    }

    /// Gives up the frames of a queue; the counter of the first WQE they had.
    fn give_up(&mut self, rqn: u32) -> Option<u16> {
        for _ in 0..self.waiting.len() {
            let Some(f) = self.waiting.pop_front() else { break };
            if f.rqn == rqn {
                self.counters.discarded += 1;
                self.recycle(f);
            } else {
                self.waiting.push_back(f);
            }
        }
        let mut first = None;
        for _ in 0..self.fifo.len() {
            let Some(f) = self.fifo.pop_front() else { break };
            if f.rqn == rqn {
                first.get_or_insert(f.counter);
                self.counters.discarded += 1;
                self.recycle(f);
            } else {
                self.fifo.push_back(f);
            }
        }
        first
    }

    /// Drops what is in flight for a queue that was reset or destroyed.
    fn purge(&mut self, rqn: u32) {
        self.give_up(rqn);
        self.pending_errors.retain(|m| m.1 != rqn);
    }

    /// A CQ's entries wait no more.
    pub(super) fn forget_session(&mut self, cqn: u32) {
        self.sessions.retain(|s| s.1 != cqn);
    }

    fn packet_time(&self) -> Span {
        self.cfg.packet_time
    }
}

impl Mlx5 {
    /// Counters of the receive side.
    pub fn received(&self) -> &Counters {
        &self.rx.counters
    }

    pub(super) fn arrive<P: Port>(&mut self, p: &mut P, at: Time, frame: &[u8]) -> RxVerdict {
        let taken = self.rx.arrive(p, at, frame, false);
        self.update_next_event();
        taken
    }
}
