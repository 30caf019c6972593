//! Fetch and execute: from an announced WQE to frames on the wire.

mod large;
mod packets;
mod pipe;
mod umr;

pub(super) use pipe::Pipe;

use super::Config;
use super::device::{Counters, Mlx5, PendingCompletion};
use super::queues::{Mkey, Sq, Table};
use super::receive;
use alloc::collections::VecDeque;
use doorbell_hal::{Port, Time};
use doorbell_layout::mlx5::{
    CQ_UPDATE, CtrlSeg, DS, EQE_CQN, EQE_QUEUE_KIND, INLINE_LEN, INLINE_SEG, KIND_SQ, SqState,
    event, opcode, syndrome,
};
use zerocopy::FromBytes;

/// Some fetched WQEs of one queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub(super) sqn: u32,
    /// Counter after its last block.
    pub(super) end: u16,
    pub(super) bytes: u32,
    pub(super) at: Time,
}

/// Reason of a failed WQE: a [`syndrome`].
type Failed = u8;
/// The time at which data are there.
type Arrival = Result<Time, Failed>;

#[inline(always)]
fn segment<T: FromBytes>(wqe: &[u8], ds: u32) -> Option<T> {
    let at = (ds * DS) as usize;
    T::read_from_bytes(wqe.get(at..at + size_of::<T>())?).ok()
}

impl Mlx5 {
    // ---- fetch ----

    /// Returns the time at which the next read of WQEs can start.
    #[inline]
    pub(super) fn fetch_due(&self) -> Time {
        let Some(sq) = self.round_robin.front().and_then(|&sqn| self.sqs.get(sqn)) else {
            return Time::NEVER;
        };
        // With the buffer full it starts when something has been executed.
        if self.on_chip + self.cfg.fetch_chunk > self.cfg.fetch_ahead && !self.chunks.is_empty() {
            return Time::NEVER;
        }
        let free = self.fetch_free.max(self.pipe.read_ready);
        sq.announced.front().map_or(Time::NEVER, |&(at, _)| at.max(free))
    }

    fn fetch<P: Port>(&mut self, p: &mut P, t: Time) {
        let Some(sqn) = self.round_robin.pop_front() else { return };
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
        self.pipe.read_ready = p.read_ready();
        match arrived {
            Ok(at) => {
                sq.fetched = end_of_chunk;
                if end != sq.fetched {
                    sq.announced.push_front((t, end));
                }
                if sq.announced.is_empty() {
                    sq.in_round = false;
                } else {
                    self.round_robin.push_back(sqn);
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
                let queue = [(EQE_CQN, sqn), (EQE_QUEUE_KIND, KIND_SQ)];
                self.asynchronous_event(p, t, (event::WQ_CATAS, 0, &queue));
            }
        }
    }

    // ---- execute ----

    /// Returns the time at which the next packet can start.
    #[inline]
    pub(super) fn execute_due(&self) -> Time {
        self.chunks.front().map_or(Time::NEVER, |c| c.at.max(self.pipe.ready()))
    }

    /// Does all that starts up to `until`, in order of time.
    pub(super) fn transmit<P: Port>(&mut self, p: &mut P, until: Time) {
        loop {
            let (fetch, execute) = (self.fetch_due(), self.execute_due());
            if fetch.min(execute) > until || p.is_spent() {
                return;
            }
            // Packets go first, but a tag that both wait for goes to the read of WQEs.
            let tag = fetch == self.pipe.read_ready && fetch > Time::ZERO;
            if fetch < execute || tag && fetch == execute {
                self.fetch(p, fetch);
            } else if let Some(&chunk) = self.chunks.front() {
                let before = Time::from_ps(fetch.ps().saturating_sub(1));
                let stop = until.min(if execute < fetch { before } else { fetch });
                let Mlx5 { sqs, pipe, counters, completions, mkeys, cfg, rx, .. } = self;
                let received = &mut rx.counters;
                let finished = match sqs.get_mut(chunk.sqn) {
                    Some(sq) => Execution {
                        p,
                        pipe,
                        counters,
                        received,
                        completions,
                        mkeys,
                        cfg,
                        sq,
                        chunk,
                    }
                    .run(stop),
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

/// Returns how many of the `blocks` from `start` belong to WQEs that end within them.
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
    /// Counters of the receive side, for frames that come back.
    received: &'a mut receive::Counters,
    completions: &'a mut VecDeque<PendingCompletion>,
    mkeys: &'a mut Table<Mkey>,
    cfg: &'a Config,
    sq: &'a mut Sq,
    chunk: Chunk,
}

/// Result of a WQE.
enum Outcome {
    /// Its last frame has left, or will have, at this time.
    Done(Time),
    /// Something of it starts later than it may now.
    Later,
    /// It failed, with so many of its packets not sent.
    Failed(Failed, u64),
}

impl<P: Port> Execution<'_, P> {
    /// Executes all packets that start up to `until`. Returns true if the chunk is finished.
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
                // Of one whose rest could not be fetched its head says how many packets it was to
                // be.
                let cut_off = self.sq.state == SqState::Error;
                let packets = if cut_off { self.packets_of(&ctrl, at) } else { 1 };
                self.fail(t, &ctrl, syndrome::LOCAL_QP_OP, packets);
                // What follows begins behind it, whenever the rest of it is read.
                self.next_wqe(if cut_off { wqebbs } else { left });
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
                _ if self.poisoned() => {
                    Outcome::Failed(syndrome::LOCAL_QP_OP, self.packets_of(&ctrl, at))
                }
                opcode::NOP => {
                    self.counters.nops += 1;
                    Outcome::Done(t)
                }
                opcode::UMR if self.sq.ctx.internal && self.cfg.caps.striding => {
                    match self.change_key(&ctrl, at) {
                        Ok(()) => Outcome::Done(t),
                        Err(why) => Outcome::Failed(why, 0),
                    }
                }
                _ if self.sq.tis.is_none() => Outcome::Failed(syndrome::LOCAL_QP_OP, 1),
                opcode::SEND => self.send(t, at, ctrl.ds()),
                opcode::ENHANCED_MPSW if self.cfg.caps.enhanced_mpw => {
                    self.multi_packet(until, at, ctrl.ds())
                }
                opcode::LSO if self.cfg.caps.log_max_lso > 0 => self.large_send(t, at, ctrl.ds()),
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
        let at = self.completions.back().map_or(at, |e| e.at.max(at));
        self.completions.push_back(PendingCompletion {
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
        self.counters.discarded += self.packets_of(ctrl, at);
        if ctrl.fm_ce_se & CQ_UPDATE != 0 {
            self.complete(t, ctrl, syndrome::WR_FLUSH);
        }
    }

    /// Returns true if this WQE is one of those that are to fail ([`Config::fail_every`]).
    #[inline]
    fn poisoned(&self) -> bool {
        let every = u64::from(self.cfg.fail_every);
        every != 0 && (self.counters.wqes + 1).is_multiple_of(every)
    }

    /// Packets of a WQE that will not be sent.
    #[cold]
    fn packets_of(&self, ctrl: &CtrlSeg, at: usize) -> u64 {
        match ctrl.opcode() {
            opcode::NOP | opcode::UMR => 0,
            opcode::ENHANCED_MPSW => self.session_left(at, ctrl.ds()),
            opcode::LSO => self.segments_left(at, ctrl.ds()),
            _ => 1,
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
            let inline =
                self.data(at, segment).map(|d| d.byte_count.get()).filter(|n| n & INLINE_SEG != 0);
            segment += inline.map_or(1, |n| (4 + (n & INLINE_LEN)).div_ceil(DS));
            packets += 1;
        }
        packets
    }
}
