//! Fetch and execute: from an announced WQE to frames on the wire.

use super::command::Kinds;
use super::device::{Counters, Effect, Mlx5};
use super::loopback::Loopback;
use super::offload;
use super::queues::{Mkey, Sq, Table};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::hint::cold_path;
use doorbell_layout::mlx5::{
    CQ_UPDATE, CtrlSeg, DS, DataSeg, EQE_CQN, EQE_QUEUE_KIND, ETH_WQE_INSERT_VLAN, ETH_WQE_SVLAN, EthSeg, INLINE_LEN,
    INLINE_SEG, KIND_SQ, SqState, event, opcode, syndrome,
};
use doorbell_packet::Gso;
use doorbell_packet::checksum::Sum;
use doorbell_packet::headers::Layers;
use doorbell_packet::segment::Cut;
use doorbell_seam::{Iova, Port, Span, Time};
use zerocopy::FromBytes;

/// Some fetched WQEs of one queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub(super) sqn: u32,
    /// Counter after its last block.
    pub(super) end: u16,
    pub(super) bytes: u32,
    /// When it arrived.
    pub(super) at: Time,
}

/// What the send pipe is made of.
#[derive(Debug)]
pub(super) struct Pipe {
    packet_time: Span,
    delay: Span,
    byte_1024th: u32,
    pub(super) max_frame: usize,
    /// When the next packet may start.
    start_free: Time,
    /// Completion times of the last reads, a ring: the oldest is overwritten.
    reads: Box<[Time]>,
    next_read: usize,
    /// When the wire is free, and the rest of a picosecond beyond it, in 1024ths.
    pub(super) wire_free: Time,
    wire_rest: u32,
    /// Frames leave; else they go nowhere.
    pub(super) link_up: bool,
    /// What left, of multicast and broadcast frames apart.
    pub(super) kinds: Kinds,
    /// Bytes that left, padding included.
    pub(super) octets: u64,
    frame: Vec<u8>,
    /// What comes back instead of leaving.
    pub(super) loopback: Loopback,
    looped_limit: usize,
}

/// Why a WQE failed: a [`syndrome`].
type Failed = u8;

impl Pipe {
    pub(super) fn new(c: &super::Config) -> Pipe {
        Pipe {
            packet_time: c.packet_time,
            delay: c.pipeline_delay,
            byte_1024th: c.wire_byte_1024th_ps,
            max_frame: c.max_frame as usize,
            start_free: Time::ZERO,
            reads: alloc::vec![Time::ZERO; usize::from(c.reads_outstanding)].into_boxed_slice(),
            next_read: 0,
            wire_free: Time::ZERO,
            wire_rest: 0,
            link_up: true,
            kinds: Kinds::default(),
            octets: 0,
            frame: alloc::vec![0; c.max_frame as usize + 64],
            loopback: Loopback::default(),
            looped_limit: c.rx_fifo as usize,
        }
    }

    /// What a reset of the device does not change: the wire.
    pub(super) fn inherit(&mut self, before: &Pipe) {
        (self.wire_free, self.wire_rest) = (before.wire_free, before.wire_rest);
        (self.link_up, self.kinds, self.octets) = (before.link_up, before.kinds, before.octets);
    }

    /// When the next packet can start.
    #[inline(always)]
    fn ready(&self) -> Time {
        self.start_free.max(self.reads[self.next_read])
    }

    /// A packet starts at `t`.
    #[inline(always)]
    fn start(&mut self, t: Time) {
        self.start_free = t + self.packet_time;
    }

    /// Reads into the frame, at or after `t`, when fewer than the limit are in flight.
    #[inline(always)]
    fn read<P: Port>(&mut self, p: &mut P, t: Time, from: Iova, at: usize, len: usize) -> Result<Time, Failed> {
        let t = t.max(self.reads[self.next_read]);
        let arrived = p.read(t, from, &mut self.frame[at..at + len]).map_err(|_| syndrome::LOCAL_PROT)?;
        self.note(arrived);
        Ok(arrived)
    }

    #[inline(always)]
    fn note(&mut self, arrived: Time) {
        self.reads[self.next_read] = arrived;
        self.next_read += 1;
        if self.next_read == self.reads.len() {
            self.next_read = 0;
        }
    }

    /// Puts the first `len` bytes of the frame on the wire; when its last bit leaves.
    #[inline(always)]
    fn send<P: Port>(&mut self, p: &mut P, whole_at: Time, len: usize) -> Time {
        let mut padded = len;
        if len < MIN_FRAME {
            self.frame[len..MIN_FRAME].fill(0);
            padded = MIN_FRAME;
        }
        let start = self.wire_free.max(whole_at + self.delay);
        if start > self.wire_free {
            self.wire_rest = 0;
        }
        self.octets += padded as u64;
        let ticks = (padded as u64 + WIRE_OVERHEAD) * u64::from(self.byte_1024th) + u64::from(self.wire_rest);
        self.wire_rest = (ticks & 1023) as u32;
        self.wire_free = start + Span::from_ps(ticks >> 10);
        if self.loopback.takes(&self.frame[..padded]) {
            self.loopback.push(self.wire_free, &self.frame[..padded], self.looped_limit);
        } else {
            p.emit(start, &self.frame[..padded]);
        }
        self.wire_free
    }
}

/// Shortest frame, without FCS.
const MIN_FRAME: usize = 60;
/// FCS, preamble and inter-frame gap.
const WIRE_OVERHEAD: u64 = 4 + 8 + 12;

#[inline(always)]
fn segment<T: FromBytes>(wqe: &[u8], ds: u32) -> Option<T> {
    let at = (ds * DS) as usize;
    T::read_from_bytes(wqe.get(at..at + size_of::<T>())?).ok()
}

impl Mlx5 {
    // ---- fetch ----

    /// When the next read of WQEs can start.
    #[inline]
    pub(super) fn fetch_due(&self) -> Time {
        let Some(sq) = self.round.front().and_then(|&sqn| self.sqs.get(sqn)) else { return Time::NEVER };
        // With the buffer full it starts when something has been executed.
        if self.on_chip + self.cfg.fetch_chunk > self.cfg.fetch_ahead && !self.chunks.is_empty() {
            return Time::NEVER;
        }
        sq.announced.front().map_or(Time::NEVER, |&(at, _)| at.max(self.fetch_free))
    }

    fn fetch<P: Port>(&mut self, p: &mut P, t: Time) {
        let Some(sqn) = self.round.pop_front() else { return };
        let Some(sq) = self.sqs.get_mut(sqn) else { return };
        self.fetch_free = t;
        // All doorbells that have arrived by now are one.
        let mut end = sq.fetched;
        while let Some(&(_, e)) = sq.announced.front().filter(|(at, _)| *at <= t) {
            end = e;
            sq.announced.pop_front();
        }
        let announced = u32::from(end.wrapping_sub(sq.fetched));
        let to_wrap = u32::from(sq.mask()) + 1 - u32::from(sq.fetched & sq.mask());
        let piece = sq.ring.piece(sq.offset(sq.fetched) as u64) / 64;
        let to_wrap = to_wrap.min(u32::try_from(piece).unwrap_or(u32::MAX));
        let mut blocks = (self.cfg.fetch_chunk / 64).min(announced).min(to_wrap);
        let start = sq.fetched;
        let offset = sq.offset(start);
        let mut end_of_chunk = start.wrapping_add(blocks as u16);
        let from = sq.ring.at(offset as u64);
        let mut read = |sq: &mut Sq, p: &mut P, blocks: u32| {
            self.counters.fetches += 1;
            self.counters.fetched_bytes += u64::from(blocks) * 64;
            p.read(t, from, &mut sq.wqes[offset..offset + blocks as usize * 64])
        };
        let mut arrived = read(sq, p, blocks);
        if self.cfg.refetch && arrived.is_ok() {
            // Drop a WQE that the chunk's end cut, unless it is all there is:
            // then the chunk was too short for it and it is read whole.
            let whole = whole_wqes(sq, start, blocks);
            if whole > 0 {
                blocks = whole;
            } else {
                let wqe = ds_of(sq, start).div_ceil(4).clamp(1, 16).min(announced).min(to_wrap);
                if wqe > blocks {
                    blocks = wqe;
                    arrived = read(sq, p, blocks);
                }
            }
            end_of_chunk = start.wrapping_add(blocks as u16);
        }
        match arrived {
            Ok(at) => {
                sq.fetched = end_of_chunk;
                if end != sq.fetched {
                    sq.announced.push_front((t, end));
                }
                if sq.announced.is_empty() {
                    sq.in_round = false;
                } else {
                    self.round.push_back(sqn);
                }
                let bytes = blocks * 64;
                sq.mirror(offset, bytes as usize);
                self.on_chip += bytes;
                self.chunks.push_back(Chunk { sqn, end: end_of_chunk, bytes, at });
            }
            Err(_) => {
                // There is no WQE to complete with an error: an event says it.
                sq.state = SqState::Error;
                sq.announced.clear();
                sq.in_round = false;
                self.counters.errors += 1;
                self.asynchronous_event(p, t, event::WQ_CATAS, 0, &[(EQE_CQN, sqn), (EQE_QUEUE_KIND, KIND_SQ)]);
            }
        }
    }

    // ---- execute ----

    /// When the next packet can start.
    #[inline]
    pub(super) fn execute_due(&self) -> Time {
        self.chunks.front().map_or(Time::NEVER, |c| c.at.max(self.pipe.ready()))
    }

    /// Does all that starts up to `until`, in order of time.
    pub(super) fn transmit<P: Port>(&mut self, p: &mut P, until: Time) {
        loop {
            let (fetch, execute) = (self.fetch_due(), self.execute_due());
            if fetch.min(execute) > until {
                return;
            }
            if fetch < execute {
                self.fetch(p, fetch);
            } else if let Some(&chunk) = self.chunks.front() {
                let stop = until.min(fetch);
                let Mlx5 { sqs, pipe, counters, effects, mkeys, cfg, .. } = self;
                let finished = match sqs.get_mut(chunk.sqn) {
                    Some(sq) => Execution { p, pipe, counters, effects, mkeys, caps: &cfg.caps, sq, chunk }.run(stop),
                    None => true,
                };
                if finished {
                    self.on_chip -= chunk.bytes;
                    self.chunks.pop_front();
                }
            }
        }
    }
}

fn ds_of(sq: &Sq, pc: u16) -> u32 {
    segment::<CtrlSeg>(&sq.wqes[sq.offset(pc)..], 0).map_or(0, |c| c.ds())
}

/// How many of the `blocks` from `start` belong to WQEs that end within them.
fn whole_wqes(sq: &Sq, start: u16, blocks: u32) -> u32 {
    let mut whole = 0;
    while whole < blocks {
        let next = whole + ds_of(sq, start.wrapping_add(whole as u16)).div_ceil(4).max(1);
        if next > blocks {
            break;
        }
        whole = next;
    }
    whole
}

/// One queue's WQEs being executed.
struct Execution<'a, P> {
    p: &'a mut P,
    pipe: &'a mut Pipe,
    counters: &'a mut Counters,
    effects: &'a mut VecDeque<Effect>,
    mkeys: &'a Table<Mkey>,
    caps: &'a doorbell_layout::mlx5::Caps,
    sq: &'a mut Sq,
    chunk: Chunk,
}

/// What became of a WQE.
enum Outcome {
    /// Its last frame has left, or will have, at this time.
    Done(Time),
    /// Something of it starts later than it may now.
    Later,
    /// It failed, with so many of its packets not sent.
    Failed(Failed, u64),
}

impl<P: Port> Execution<'_, P> {
    /// Executes what starts up to `until`. Whether the chunk is finished.
    fn run(&mut self, until: Time) -> bool {
        loop {
            let left = u32::from(self.chunk.end.wrapping_sub(self.sq.executed));
            if left == 0 || left > u32::from(self.sq.mask()) + 1 {
                return true;
            }
            let t = self.chunk.at.max(self.pipe.ready());
            if t > until {
                return false;
            }
            let at = self.sq.offset(self.sq.executed);
            let ctrl = match segment::<CtrlSeg>(&self.sq.wqes[at..], 0) {
                Some(ctrl) => ctrl,
                None => return true,
            };
            let wqebbs = ctrl.ds().div_ceil(4).max(1);
            if wqebbs > left {
                // The rest of it comes with the next chunk, unless nothing more
                // was announced: then its length is wrong.
                if self.sq.fetched != self.chunk.end || !self.sq.announced.is_empty() {
                    return true;
                }
                self.fail(t, &ctrl, syndrome::LOCAL_QP_OP, 1);
                self.sq.executed = self.chunk.end;
                continue;
            }
            if self.sq.state == SqState::Error {
                self.flush(t, &ctrl, at);
                self.next_wqe(wqebbs);
                continue;
            }
            let sane = ctrl.pc() == self.sq.executed && ctrl.opmod() == 0 && ctrl.ds() > 0;
            let outcome = match ctrl.opcode() {
                _ if !sane => Outcome::Failed(syndrome::LOCAL_QP_OP, 1),
                opcode::NOP => {
                    self.counters.nops += 1;
                    Outcome::Done(t)
                }
                _ if self.sq.tis.is_none() => Outcome::Failed(syndrome::LOCAL_QP_OP, 1),
                opcode::SEND => self.send(t, at, ctrl.ds()),
                opcode::ENHANCED_MPSW if self.caps.enhanced_mpw => self.multi_packet(until, at, ctrl.ds()),
                opcode::LSO if self.caps.log_max_lso > 0 => self.large_send(t, at, ctrl.ds()),
                _ => Outcome::Failed(syndrome::LOCAL_QP_OP, 1),
            };
            match outcome {
                Outcome::Later => return false,
                Outcome::Done(done) => {
                    self.counters.wqes += 1;
                    if ctrl.fm_ce_se & CQ_UPDATE != 0 {
                        self.complete(done, &ctrl, 0);
                    }
                }
                Outcome::Failed(why, packets) => self.fail(t, &ctrl, why, packets),
            }
            self.next_wqe(wqebbs);
        }
    }

    fn next_wqe(&mut self, wqebbs: u32) {
        self.sq.executed = self.sq.executed.wrapping_add(wqebbs as u16);
        self.sq.segment = 0;
    }

    fn complete(&mut self, at: Time, ctrl: &CtrlSeg, syndrome: u8) {
        let at = self.effects.back().map_or(at, |e| e.at.max(at));
        self.effects.push_back(Effect {
            at,
            cqn: self.sq.ctx.cqn,
            sqn: self.chunk.sqn,
            wqe_counter: self.sq.executed,
            opcode: ctrl.opcode(),
            syndrome,
        });
    }

    #[cold]
    fn fail(&mut self, t: Time, ctrl: &CtrlSeg, why: Failed, packets: u64) {
        self.counters.errors += 1;
        self.counters.wqes += 1;
        self.counters.discarded += packets;
        self.sq.state = SqState::Error;
        self.complete(t, ctrl, why);
    }

    /// A WQE of a queue in error: not executed, but accounted for.
    #[cold]
    fn flush(&mut self, t: Time, ctrl: &CtrlSeg, at: usize) {
        self.counters.wqes += 1;
        self.counters.discarded += match ctrl.opcode() {
            opcode::NOP => 0,
            opcode::ENHANCED_MPSW => self.session_left(at, ctrl.ds()),
            opcode::LSO => self.segments_of(at, ctrl.ds()),
            _ => 1,
        };
        if ctrl.fm_ce_se & CQ_UPDATE != 0 {
            self.complete(t, ctrl, syndrome::WR_FLUSH);
        }
    }

    #[cold]
    fn session_failed(&self, why: Failed, at: usize, ds: u32) -> Outcome {
        Outcome::Failed(why, self.session_left(at, ds))
    }

    /// Packets of a session that were not sent yet.
    #[cold]
    fn session_left(&self, at: usize, ds: u32) -> u64 {
        let (mut segment, mut packets) = (self.sq.segment.max(2), 0);
        while segment < ds {
            let inline = self.data(at, segment).map(|d| d.byte_count.get()).filter(|n| n & INLINE_SEG != 0);
            segment += inline.map_or(1, |n| (4 + (n & INLINE_LEN)).div_ceil(DS));
            packets += 1;
        }
        packets
    }

    // ---- packets ----

    fn data(&self, at: usize, ds: u32) -> Option<DataSeg> {
        segment(&self.sq.wqes[at..], ds)
    }

    /// Reads `n` bytes from `offset` of a data segment into the frame at `to`; when
    /// the last is there.
    #[inline(always)]
    fn read_data(&mut self, t: Time, d: &DataSeg, offset: u64, to: usize, n: usize) -> Result<Time, Failed> {
        let lkey = d.lkey.get();
        let key = self.mkeys.get(lkey >> 8).filter(|k| k.admits(self.sq.pd, lkey) && k.readable);
        let Some(key) = key else {
            cold_path();
            return Err(syndrome::LOCAL_PROT);
        };
        let addr = d.addr.get().wrapping_add(offset);
        if key.everything {
            return self.pipe.read(self.p, t, Iova(addr), to, n);
        }
        self.read_pieces(t, key, addr, to, n)
    }

    /// The same through a key that has an end, or pages.
    #[cold]
    fn read_pieces(&mut self, t: Time, key: &Mkey, addr: u64, to: usize, n: usize) -> Result<Time, Failed> {
        let (mut done, mut whole_at) = (0, t);
        while done < n {
            let left = (n - done) as u64;
            let (from, len) = key.find(addr.wrapping_add(done as u64), left).ok_or(syndrome::LOCAL_PROT)?;
            whole_at = whole_at.max(self.pipe.read(self.p, t, from, to + done, len as usize)?);
            done += len as usize;
        }
        Ok(whole_at)
    }

    /// Enhanced MPWQE: each data segment is a packet; all share the Ethernet segment.
    #[inline]
    fn multi_packet(&mut self, until: Time, at: usize, ds: u32) -> Outcome {
        let Some(eth) = segment::<EthSeg>(&self.sq.wqes[at..], 1).filter(|_| ds > 2) else {
            return Outcome::Failed(syndrome::LOCAL_QP_OP, 1);
        };
        if self.sq.segment == 0 {
            if self.sq.ctx.min_inline > 0 {
                // Data segments have no header to inline.
                return self.session_failed(syndrome::LOCAL_QP_OP, at, ds);
            }
            self.sq.segment = 2;
            self.counters.mpwqes += 1;
        }
        let mut done = Time::ZERO;
        while self.sq.segment < ds {
            let t = self.chunk.at.max(self.pipe.ready());
            if t > until {
                return Outcome::Later;
            }
            let Some(d) = self.data(at, self.sq.segment) else {
                return self.session_failed(syndrome::LOCAL_QP_OP, at, ds);
            };
            let count = d.byte_count.get();
            let (len, whole_at, used) = if count & INLINE_SEG == 0 {
                let len = count as usize;
                if len == 0 || len > self.pipe.max_frame {
                    return self.session_failed(syndrome::LOCAL_LENGTH, at, ds);
                }
                match self.read_data(t, &d, 0, 0, len) {
                    Ok(whole_at) => (len, whole_at, 1),
                    Err(why) => return self.session_failed(why, at, ds),
                }
            } else {
                let len = (count & INLINE_LEN) as usize;
                let used = (4 + len).div_ceil(DS as usize) as u32;
                let from = at + (self.sq.segment * DS) as usize + 4;
                if len == 0 || len > self.pipe.max_frame || self.sq.segment + used > ds {
                    return self.session_failed(syndrome::LOCAL_LENGTH, at, ds);
                }
                self.pipe.frame[..len].copy_from_slice(&self.sq.wqes[from..from + len]);
                (len, t, used)
            };
            self.pipe.start(t);
            if eth.cs_flags != 0 {
                offload::insert_checksums(&mut self.pipe.frame[..len], eth.cs_flags);
            }
            done = self.sent(whole_at, len);
            self.counters.mpwqe_packets += 1;
            self.sq.segment += used;
        }
        Outcome::Done(done)
    }

    /// Counts a frame and puts it on the wire.
    #[inline(always)]
    fn sent(&mut self, whole_at: Time, len: usize) -> Time {
        if !self.pipe.link_up {
            cold_path();
            self.counters.discarded += 1;
            return whole_at;
        }
        self.counters.packets += 1;
        self.counters.bytes += len as u64;
        if self.pipe.frame[0] & 1 != 0 {
            self.pipe.kinds.count(&self.pipe.frame[..len.max(MIN_FRAME)]);
        }
        self.pipe.send(self.p, whole_at, len)
    }

    /// The inline header of a WQE: how many bytes, and at which DS the data begins.
    fn inline_header(&self, eth: &EthSeg) -> (usize, u32) {
        let size = eth.inline_hdr_sz.get();
        if size == 0 || size & ETH_WQE_INSERT_VLAN != 0 {
            (0, 2)
        } else {
            let n = u32::from(size);
            (n as usize, 2 + n.saturating_sub(2).div_ceil(DS))
        }
    }

    fn copy_inline(&mut self, at: usize, eth: &EthSeg, len: usize) {
        // The first two bytes are in the Ethernet segment, the rest right behind it.
        let from = at + 2 * DS as usize;
        self.pipe.frame[..2].copy_from_slice(&eth.inline_hdr_start);
        let rest = len.saturating_sub(2);
        self.pipe.frame[2..2 + rest].copy_from_slice(&self.sq.wqes[from..from + rest]);
    }

    #[inline]
    fn send(&mut self, t: Time, at: usize, ds: u32) -> Outcome {
        match self.try_send(t, at, ds) {
            Ok(done) => Outcome::Done(done),
            Err(why) => Outcome::Failed(why, 1),
        }
    }

    #[inline(always)]
    fn try_send(&mut self, t: Time, at: usize, ds: u32) -> Result<Time, Failed> {
        let eth = segment::<EthSeg>(&self.sq.wqes[at..], 1).filter(|_| ds > 1).ok_or(syndrome::LOCAL_QP_OP)?;
        let (inline, first) = self.inline_header(&eth);
        if first > ds || (self.sq.ctx.min_inline > 0 && inline < 14) {
            return Err(syndrome::LOCAL_QP_OP);
        }
        let mut len = inline;
        if inline > self.pipe.max_frame {
            return Err(syndrome::LOCAL_LENGTH);
        }
        if inline > 0 {
            self.copy_inline(at, &eth, inline);
        }
        let mut whole_at = t;
        let mut seg = first;
        while seg < ds {
            let d = self.data(at, seg).ok_or(syndrome::LOCAL_QP_OP)?;
            let count = d.byte_count.get();
            if count & INLINE_SEG != 0 {
                let n = (count & INLINE_LEN) as usize;
                let used = (4 + n).div_ceil(DS as usize) as u32;
                if seg + used > ds || len + n > self.pipe.max_frame {
                    return Err(syndrome::LOCAL_LENGTH);
                }
                let from = at + (seg * DS) as usize + 4;
                self.pipe.frame[len..len + n].copy_from_slice(&self.sq.wqes[from..from + n]);
                len += n;
                seg += used;
                continue;
            }
            let n = count as usize;
            if n == 0 || len + n > self.pipe.max_frame {
                return Err(syndrome::LOCAL_LENGTH);
            }
            whole_at = whole_at.max(self.read_data(t, &d, 0, len, n)?);
            len += n;
            seg += 1;
        }
        if len == 0 {
            return Err(syndrome::LOCAL_LENGTH);
        }
        self.pipe.start(t);
        let insert = eth.inline_hdr_sz.get();
        if insert & ETH_WQE_INSERT_VLAN != 0 {
            let tpid = if insert & ETH_WQE_SVLAN != 0 { offload::S_TAG } else { offload::C_TAG };
            len = offload::insert_vlan(&mut self.pipe.frame, len, tpid, eth.inline_hdr_start);
        }
        if eth.cs_flags != 0 {
            offload::insert_checksums(&mut self.pipe.frame[..len], eth.cs_flags);
        }
        Ok(self.sent(whole_at, len))
    }
}

// ---- large send ----

/// A place in the data segments of a WQE, while payload is being gathered.
#[derive(Clone, Copy)]
struct Gather {
    segment: u32,
    offset: u32,
}

impl<P: Port> Execution<'_, P> {
    /// Header length, first data segment and payload length of a large send.
    fn large(&self, at: usize, ds: u32) -> Result<(EthSeg, usize, u32, u64), Failed> {
        let eth = segment::<EthSeg>(&self.sq.wqes[at..], 1).filter(|_| ds > 1).ok_or(syndrome::LOCAL_QP_OP)?;
        let (header, first) = self.inline_header(&eth);
        if first > ds {
            return Err(syndrome::LOCAL_QP_OP);
        }
        let mut payload = 0u64;
        for seg in first..ds {
            let d = self.data(at, seg).ok_or(syndrome::LOCAL_QP_OP)?;
            let n = d.byte_count.get();
            if n == 0 || n & INLINE_SEG != 0 {
                return Err(syndrome::LOCAL_LENGTH);
            }
            payload += u64::from(n);
        }
        Ok((eth, header, first, payload))
    }

    /// How many segments a large send that is not executed would have been.
    fn segments_of(&self, at: usize, ds: u32) -> u64 {
        match self.large(at, ds) {
            Ok((eth, _, _, payload)) if eth.mss.get() > 0 => payload.div_ceil(u64::from(eth.mss.get())).max(1),
            _ => 1,
        }
    }

    fn large_send(&mut self, t: Time, at: usize, ds: u32) -> Outcome {
        let before = self.counters.packets;
        match self.try_large_send(t, at, ds) {
            Ok(done) => {
                self.counters.lso += 1;
                Outcome::Done(done)
            }
            Err(why) => {
                let sent = self.counters.packets - before;
                Outcome::Failed(why, self.segments_of(at, ds) - sent)
            }
        }
    }

    /// Reads, finishes and sends one segment after another; each starts when the
    /// pipe can take it.
    fn try_large_send(&mut self, t: Time, at: usize, ds: u32) -> Result<Time, Failed> {
        let (eth, header, first, payload) = self.large(at, ds)?;
        let mss = eth.mss.get();
        if payload > 1 << self.caps.log_max_lso || header + usize::from(mss) > self.pipe.max_frame {
            return Err(syndrome::LOCAL_LENGTH);
        }
        self.copy_inline(at, &eth, header);
        let mut copy = [0u8; 1024];
        let headers = copy.get_mut(..header).ok_or(syndrome::LOCAL_LENGTH)?;
        headers.copy_from_slice(&self.pipe.frame[..header]);
        // What kind it is the parser says; a send that it cannot cut fails.
        let kind = Layers::of(headers).ok().and_then(|l| l.gso_kind()).ok_or(syndrome::LOCAL_QP_OP)?;
        let gso = Gso { kind, size: mss, header: header as u16 };
        let mut cut = Cut::new(headers, payload as u32, gso).map_err(|_| syndrome::LOCAL_LENGTH)?;
        let mut from = Gather { segment: first, offset: 0 };
        let mut start = t;
        let mut done = t;
        while let Some(piece) = cut.next_header(&mut self.pipe.frame) {
            start = start.max(self.pipe.ready());
            self.pipe.start(start);
            let len = (piece.payload.end - piece.payload.start) as usize;
            let whole_at = self.gather(start, at, &mut from, header, len)?;
            let (head, rest) = self.pipe.frame.split_at_mut(header);
            piece.finish(head, Sum::of(&rest[..len]));
            done = self.sent(whole_at, header + len);
        }
        Ok(done)
    }

    /// Reads the next `len` bytes of payload into the frame at `to`; when the last is there.
    fn gather(&mut self, t: Time, at: usize, from: &mut Gather, to: usize, len: usize) -> Result<Time, Failed> {
        let (mut to, end) = (to, to + len);
        let mut whole_at = t;
        while to < end {
            let d = self.data(at, from.segment).ok_or(syndrome::LOCAL_LENGTH)?;
            let left = d.byte_count.get() - from.offset;
            let n = left.min((end - to) as u32);
            whole_at = whole_at.max(self.read_data(t, &d, u64::from(from.offset), to, n as usize)?);
            to += n as usize;
            from.offset += n;
            if n == left {
                *from = Gather { segment: from.segment + 1, offset: 0 };
            }
        }
        Ok(whole_at)
    }
}
