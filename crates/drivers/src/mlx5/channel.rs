//! A channel: SQ, RQ, CQs and EQ with one interrupt, from open to close.

use super::cq::{Cq, Eq};
use super::firmware::{Firmware, Objects};
use super::redirect::Second;
use super::settings::{Config, Cqs, Stats};
use super::{Answer, rq::Rq, session::max_wqebbs, sq::Sq};
use crate::{Alarm, Driver, Irq, OpenError, Opened, Poll, Sink, Tx, check, common::both};
use alloc::{boxed::Box, vec::Vec};
use core::hint::cold_path;
use doorbell_hal::{CpuWork, Host, OutOfMemory};
use doorbell_layout::mlx5::receive::{RqState, mini_format};
use doorbell_layout::mlx5::{
    Caps, CmdStatus, Compression, CqContext, CqeTail, EqContext, SqContext, SqState, WQEBB,
    cqe_opcode, event, uar,
};
use doorbell_packet::Packet;
use zerocopy::byteorder::big_endian::U32;

/// One channel of the NIC, with its access to the firmware.
///
/// # Sessions
///
/// With [`Config::mpwqe`] off, each packet has a SEND WQE of one 64-byte block. With it on, packets
/// that are linear, untagged and need nothing inlined share an Enhanced MPWQE: 16 bytes each behind
/// 32 shared ones. A session opens with the first such packet. It closes when it is full, before a
/// packet with another Ethernet segment or one that cannot join, and at the end of the batch, with
/// the doorbell. It is never open across a doorbell, because the device would not see its packets.
///
/// # Recovery
///
/// After an error CQE nothing is sent, and flush CQEs retire the WQEs under way. Then
/// [`Driver::work`](crate::Driver::work) takes the SQ through ERR, RST and RDY, and counters
/// restart at zero. The doorbell record keeps its old value and must not be used before the next
/// doorbell.
///
/// # Fast path
///
/// A linear packet without segmentation or tag joins the session, or takes a WQE of its own with
/// more to follow, in code that is inlined and small. It counts only bytes: [`Channel::stats`]
/// derives the rest from the session's length and one counter.
#[derive(Debug)]
pub struct Channel<F> {
    sq: Sq,
    cq: Cq,
    /// The CQs of the receive queue and of queues that stay empty.
    others: Box<[Cq]>,
    rq: Option<Rq>,
    eq: Eq,
    /// The channel of the second port on this core.
    second: Option<Box<Second>>,
    fw: F,
    config: Config,
    objects: Objects,
    /// Its objects are destroyed and must be created again.
    reopening: bool,
}

/// Most CQEs handled in one poll (en.h `MLX5E_TX_CQ_POLL_BUDGET`).
pub(super) const CQ_POLL_BUDGET: u32 = 128;
/// Bytes of the shortest receive buffer.
const MIN_BUFFER: u32 = 64;
/// log2 of the events in a ring.
const LOG_EQ: u8 = 7;
/// Place of the CQ of UMRs, among [`Cqs::others`].
const OF_UMRS: usize = 1;
/// Place of the CQ of what a program sends, among [`Cqs::others`].
const OF_PROGRAM: usize = 3;

impl<F> Channel<F> {
    /// Creates the queues and makes them ready.
    ///
    /// # Errors
    /// Fails when memory runs out, the firmware refuses, a size is out of range, or the device
    /// lacks a capability that mlx5e requires. Nothing is left allocated then.
    pub fn open<H: Host>(h: &mut H, fw: F, c: &Config) -> Opened<Channel<F>>
    where
        F: Firmware<H>,
    {
        let mut channel = Channel::create(h, fw, c)?;
        channel.start(h);
        Ok(channel)
    }

    /// Does the first half of [`Channel::open`]: creates everything, without interrupts.
    ///
    /// # Errors
    /// Returns the errors of [`Channel::open`].
    pub fn create<H: Host>(h: &mut H, mut fw: F, c: &Config) -> Opened<Channel<F>>
    where
        F: Firmware<H>,
    {
        let caps = fw.caps(h);
        check_capabilities(&caps)?;
        check((6..=13).contains(&c.log_sq), "log_sq: 6 to 13")?;
        check((1..=16).contains(&c.log_cq), "log_cq: 1 to 16")?;
        if let Some(rq) = &c.rq {
            check(c.cqs != Cqs::Send, "rq: its CQ is missing")?;
            check((1..=13).contains(&rq.log_size), "rq.log_size: 1 to 13")?;
            let bulks = 1..=1 << rq.log_size;
            check(bulks.contains(&rq.bulk), "rq.bulk: 1 to the size of the queue")?;
            check(rq.buffer >= MIN_BUFFER, "rq.buffer: at least 64 B")?;
            if let Some(log) = rq.log_stride {
                check(caps.striding, "rq.log_stride: the device has no striding queues")?;
                check((8..=12).contains(&log), "rq.log_stride: 8 to 12")?;
                check(!rq.xdp || log == 12, "rq.log_stride: 12 with a program")?;
                check(c.cqs != Cqs::Send, "rq.log_stride: the CQ of UMRs is missing")?;
            }
            check(!rq.xdp || c.cqs == Cqs::Five, "rq.xdp: the CQ of what it sends is missing")?;
            check(!rq.xdp || caps.min_inline == 0, "rq.xdp: the device wants headers inlined")?;
        }
        if c.second.is_some() {
            check(c.rq.is_some_and(|rq| rq.xdp), "second: no program redirects frames to it")?;
            check(caps.second_port, "second: the device has one port")?;
            check(c.second != Some(c.vector), "second: the vector is the first port's")?;
        }
        let mpw = c.mpwqe && caps.enhanced_mpw && caps.min_inline == 0;
        let mpw_wqebbs = if mpw { max_wqebbs(caps.max_wqe_sz_sq) } else { 0 };
        // All memory before any object, so that running out of it needs no commands.
        let eq = Eq::allocate(h, LOG_EQ)?;
        let cqs = allocate_cqs(h, c, &caps);
        let (eq, (cq, others)) = both(eq, cqs, |eq| eq.release(h))?;
        let sq = Sq::allocate(h, c, &caps, mpw_wqebbs);
        let ((eq, cq, others), sq) = both((eq, cq, others), sq, |(eq, cq, others)| {
            release_queues(h, eq, cq, others);
        })?;
        let rq = Rq::allocate(h, c, &caps, mpw_wqebbs);
        let ((eq, cq, others, sq), rq) = both((eq, cq, others, sq), rq, |(eq, cq, others, sq)| {
            sq.release(h);
            release_queues(h, eq, cq, others);
        })?;
        let second = Second::allocate(h, c, &caps, LOG_EQ);
        let ((eq, cq, others, sq, rq), second) =
            both((eq, cq, others, sq, rq), second, |(eq, cq, others, sq, rq)| {
                rq.into_iter().for_each(|rq| rq.release(h));
                sq.release(h);
                release_queues(h, eq, cq, others);
            })?;
        let (config, objects, second) = (*c, Objects::default(), second.map(Box::new));
        let mut channel =
            Channel { sq, cq, others, rq, eq, second, fw, config, objects, reopening: false };
        let created = channel.create_objects(h, caps.min_inline);
        Ok(both(channel, created, |channel| _ = channel.close(h))?.0)
    }

    /// Does the second half: requests interrupts.
    pub fn start<H: Host>(&mut self, h: &mut H) {
        self.arm(h);
        self.arm_second(h);
    }

    /// Arms the EQ and, as Linux does, every CQ: a doorbell record and a register write each.
    fn arm<H: Host>(&mut self, h: &mut H) {
        let page = self.sq.page;
        self.eq.arm(h, page);
        self.cq.arm(h, page);
        for cq in &mut self.others {
            cq.arm(h, page);
        }
    }

    /// Arms the channel of the second port, if there is one.
    fn arm_second<H: Host>(&mut self, h: &mut H) {
        let page = self.sq.page;
        self.second.iter_mut().for_each(|second| second.arm(h, page));
    }

    /// Takes all events, and counts them at their CQs. Returns their number, and whether one was a
    /// completion.
    fn take_events<H: Host>(&mut self, h: &mut H) -> (u32, bool) {
        let Channel { eq, cq, others, .. } = self;
        let mut completion = false;
        let events = eq.drain(h, |cqn| {
            completion = true;
            if let Some(cq) =
                core::iter::once(&mut *cq).chain(others.iter_mut()).find(|cq| cq.cqn == cqn)
            {
                cq.event();
            }
        });
        self.sq.stats.eqes += u64::from(events);
        (events, completion)
    }

    /// Has the firmware create the objects. If it refuses one, those before it are destroyed.
    fn create_objects<H: Host>(&mut self, h: &mut H, min_inline: u8) -> Answer
    where
        F: Firmware<H>,
    {
        let created = self.create_in_order(h, min_inline);
        if created.is_err() {
            self.destroy(h);
        }
        created
    }

    fn create_in_order<H: Host>(&mut self, h: &mut H, min_inline: u8) -> Answer
    where
        F: Firmware<H>,
    {
        let Channel { sq, cq, others, rq, eq, second, fw, config: c, objects, .. } = self;
        let uar = fw.alloc_uar(h)?;
        objects.uar = Some(uar);
        // No page of a BAR, whose registers have offsets of 32 bits, has a higher number.
        sq.page = uar.checked_mul(uar::PAGE).ok_or(CmdStatus::Internal)?;
        let lkey = fw.create_mkey(h)?;
        objects.lkey = Some(lkey);
        sq.lkey = U32::new(lkey);
        let events = 1 << event::CQ_ERROR | 1 << event::WQ_CATAS;
        let eqc =
            EqContext { log_size: LOG_EQ, ring: eq.ring.iova().0, vector: c.vector, uar, events };
        eq.eqn = fw.create_eq(h, &eqc)?;
        objects.eqn = Some(eq.eqn);
        let cqc = CqContext {
            log_size: c.log_cq,
            ring: cq.ring.iova().0,
            dbr: cq.dbr.iova().0,
            eqn: eq.eqn,
            uar,
            period_us: c.cq_period_us,
            max_count: c.cq_max_count,
            compression: None,
        };
        cq.cqn = fw.create_cq(h, &cqc)?;
        objects.cqns.push(cq.cqn);
        for (i, cq) in others.iter_mut().enumerate() {
            let (ring, dbr, log_size) = (cq.ring.iova().0, cq.dbr.iova().0, cq.log_size);
            let mut cqc = CqContext { log_size, ring, dbr, ..cqc };
            if let Some(rq) = rq.as_ref().filter(|_| i == 0) {
                (cqc.period_us, cqc.max_count) = rq.moderation();
                cqc.compression = cq.blocks.as_ref().map(|blocks| blocks.compression);
            }
            cq.cqn = fw.create_cq(h, &cqc)?;
            objects.cqns.push(cq.cqn);
        }
        let sqc = SqContext {
            log_size: c.log_sq,
            ring: sq.ring.iova().0,
            dbr: sq.dbr.iova().0,
            cqn: cq.cqn,
            uar,
            min_inline,
            internal: false,
            second_port: false,
        };
        create_sq(h, fw, objects, sq, &sqc)?;
        if let (Some(back), Some(cq)) =
            (rq.as_mut().and_then(|rq| rq.back.as_mut()), others.get(OF_PROGRAM))
        {
            (back.page, back.lkey) = (sq.page, sq.lkey);
            create_sq(h, fw, objects, back, &SqContext { cqn: cq.cqn, ..sqc })?;
        }
        if let (Some(redirect), Some(second)) =
            (rq.as_mut().and_then(|rq| rq.redirect.as_mut()), second)
        {
            (redirect.sq.page, redirect.sq.lkey) = (sq.page, sq.lkey);
            second.create(h, fw, objects, &mut redirect.sq, (&eqc, &cqc, &sqc))?;
        }
        if let (Some(striding), Some(cq)) =
            (rq.as_mut().and_then(|rq| rq.striding.as_mut()), others.get(OF_UMRS))
        {
            let umrs = &mut striding.umrs;
            umrs.page = sq.page;
            let (ring, dbr, log_size) = (umrs.ring.iova().0, umrs.dbr.iova().0, umrs.log_size);
            let sqc = SqContext {
                log_size,
                ring,
                dbr,
                cqn: cq.cqn,
                internal: true,
                min_inline: 0,
                ..sqc
            };
            umrs.sqn = fw.create_sq(h, &sqc)?;
            objects.sqns.push(umrs.sqn);
            fw.modify_sq(h, umrs.sqn, SqState::Reset, SqState::Ready)?;
            let key = fw.create_page_key(h, striding.translations())?;
            objects.page_key = Some(key);
            striding.key = U32::new(key);
        }
        if let (Some(rq), Some(cq)) = (rq, others.first()) {
            if rq.striding.is_some() {
                // Its list names the key.
                rq.restart(h);
            }
            rq.lkey = U32::new(lkey);
            rq.rqn = fw.create_rq(h, &rq.context(cq.cqn))?;
            objects.rqn = Some(rq.rqn);
            rq.fill(h, &mut sq.stats);
            fw.modify_rq(h, rq.rqn, RqState::Reset, RqState::Ready)?;
        }
        Ok(())
    }

    /// Destroys the queues and releases all memory. Returns the counters, in which the packets
    /// still queued are dropped.
    pub fn close<H: Host>(mut self, h: &mut H) -> Stats
    where
        F: Firmware<H>,
    {
        self.destroy(h);
        if let (Some(rq), Some(cq)) = (self.rq, self.others.first_mut()) {
            Rq::drop_left(h, cq, &mut self.sq.stats);
            self.sq.stats.add(&rq.sent());
            rq.release(h);
        }
        let stats = self.sq.release(h);
        self.second.into_iter().for_each(|second| second.release(h));
        release_queues(h, self.eq, self.cq, self.others);
        stats
    }

    /// Destroys the objects that exist.
    fn destroy<H: Host>(&mut self, h: &mut H)
    where
        F: Firmware<H>,
    {
        let objects = core::mem::take(&mut self.objects);
        self.fw.destroy(h, &objects);
    }

    /// Recovers from a hang (reporter_tx.c `mlx5e_tx_reporter_timeout_recover`): takes events whose
    /// interrupt was lost (`mlx5_eq_poll_irq_disabled`). Without any, destroys the queues;
    /// [`Driver::work`] creates them again when a poll has passed up their buffers.
    #[cold]
    fn recover_hang<H: Host>(&mut self, h: &mut H) -> Irq
    where
        F: Firmware<H>,
    {
        let (events, _) = self.take_events(h);
        if events > 0 {
            self.second.iter_mut().for_each(|second| second.first_scheduled = true);
            self.sq.stats.eq_rearm += 1;
            return Irq::Poll;
        }
        if !self.reopening {
            self.sq.stats.timeouts += 1;
            self.destroy(h);
            self.reopening = true;
            self.sq.set_recovering(true);
        }
        Irq::Poll
    }

    /// Creates the queues again; if that fails, the next alarm retries.
    #[cold]
    fn reopen<H: Host>(&mut self, h: &mut H)
    where
        F: Firmware<H>,
    {
        self.sq.restart_all(h);
        self.cq.restart(h);
        if let (Some(rq), Some(cq)) = (&mut self.rq, self.others.first_mut()) {
            Rq::drop_left(h, cq, &mut self.sq.stats);
            rq.restart(h);
            // What came before the queues were destroyed may have been sent since.
            rq.abandon_sent(h, &mut self.sq.stats);
            for sq in rq.sends() {
                sq.restart_all(h);
                sq.set_recovering(false);
            }
        }
        self.second.iter_mut().for_each(|second| second.restart(h));
        self.others.iter_mut().for_each(|cq| cq.restart(h));
        self.eq.restart(h);
        let min_inline = self.fw.caps(h).min_inline;
        if self.create_objects(h, min_inline).is_ok() {
            self.reopening = false;
            self.start(h);
            self.sq.set_recovering(false);
            self.sq.stats.recover += 1;
            self.sq.wake_if_room(h);
        }
    }

    /// Returns the channel's counters.
    pub fn stats(&self) -> Stats {
        let stats = self.sq.stats();
        self.rq.as_ref().map_or(stats, |rq| stats.plus(&rq.sent()))
    }

    /// Returns the counter of the WQE that the last doorbell requested a completion for. For tests
    /// and benches that act as the device.
    pub fn last_announced(&self) -> u16 {
        self.sq.last_announced()
    }

    /// Returns whether everything queued has been retired.
    pub fn is_drained(&self) -> bool {
        self.sq.is_drained()
    }

    /// Takes up to `budget` received frames, and posts buffers in their place. Returns whether
    /// there may be more to do.
    fn poll_receive<H: Host, S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> bool {
        let Some(rq) = &mut self.rq else { return false };
        let cq = self.others.get_mut(OF_PROGRAM);
        let sent = cq.map_or(0, |cq| rq.complete_sent(h, cq, CQ_POLL_BUDGET, &mut self.sq.stats));
        if let Some(cq) = self.others.get_mut(OF_UMRS) {
            rq.complete_umrs(h, cq, &mut self.sq.stats);
        }
        let Some(cq) = self.others.first_mut() else { return false };
        let taken = rq.poll(h, cq, budget, &mut self.sq.stats, up);
        if rq.failed {
            return false;
        }
        let enough = rq.fill(h, &mut self.sq.stats);
        taken == budget || sent == CQ_POLL_BUDGET || !enough
    }

    /// Gives net_dim's decision to the device (`mlx5e_rx_dim_work`). If that refuses, it keeps what
    /// it had.
    fn moderate<H: Host>(&mut self, h: &mut H)
    where
        F: Firmware<H>,
    {
        let decided = self.rq.as_mut().and_then(Rq::take_decision);
        let (Some((period, count)), Some(cq)) = (decided, self.others.first()) else { return };
        let taken = self.fw.moderate_cq(h, cq.cqn, period, count);
        self.sq.stats.rx_moderated += u64::from(taken.is_ok());
    }

    /// Starts the receive queue again after an error: RST, without entries or buffers, RDY.
    #[cold]
    fn recover_receive<H: Host>(&mut self, h: &mut H)
    where
        F: Firmware<H>,
    {
        let (Some(rq), Some(cq)) = (&mut self.rq, self.others.first_mut()) else { return };
        if !rq.failed {
            return;
        }
        // Where UMRs failed, the queue itself has not.
        let from = if rq.unmapped { RqState::Ready } else { RqState::Error };
        if self.fw.modify_rq(h, rq.rqn, from, RqState::Reset).is_err() {
            // It is not in error, whatever the entry said.
            (rq.failed, rq.unmapped) = (false, false);
            return;
        }
        Rq::drop_left(h, cq, &mut self.sq.stats);
        if let Some(striding) = &rq.striding {
            let umrs = striding.umrs.sqn;
            let state = self.fw.query_sq(h, umrs).unwrap_or(SqState::Error);
            let reset = self.fw.modify_sq(h, umrs, state, SqState::Reset);
            if reset
                .and_then(|()| self.fw.modify_sq(h, umrs, SqState::Reset, SqState::Ready))
                .is_err()
            {
                return;
            }
            if let Some(cq) = self.others.get_mut(OF_UMRS) {
                while cq.next(h).is_some() {}
                cq.publish_ci(h);
            }
        }
        rq.restart(h);
        rq.fill(h, &mut self.sq.stats);
        let ready = self.fw.modify_rq(h, rq.rqn, RqState::Reset, RqState::Ready);
        if ready.is_ok() {
            self.sq.stats.rx_recover += 1;
        }
    }

    /// Polls the CQs of empty queues, as Linux does. An entry there is stray.
    fn poll_others<H: Host>(&mut self, h: &mut H) {
        let receives = self.rq.is_some();
        let maps = self.rq.as_ref().is_some_and(|rq| rq.striding.is_some());
        let sends = self.rq.as_ref().is_some_and(|rq| rq.back.is_some());
        for (i, cq) in self.others.iter_mut().enumerate() {
            if i == 0 && receives || i == OF_PROGRAM && sends || i == OF_UMRS && maps {
                continue;
            }
            if cq.next(h).is_some() {
                cold_path();
                self.sq.stats.cqes += 1;
                self.sq.stats.cqe_stray += 1;
                cq.publish_ci(h);
            }
        }
    }

    /// Polls the first port's channel.
    #[inline]
    fn poll_first<H: Host, S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> Poll
    where
        F: Firmware<H>,
    {
        h.charge(CpuWork::Poll);
        self.sq.complete_lost(up);
        let weight = budget;
        let budget = budget.min(CQ_POLL_BUDGET);
        let (mut cqes, mut packets) = (0, 0);
        while cqes < budget {
            let Some(tail) = self.cq.next(h) else { break };
            cqes += 1;
            packets += self.retire_one(h, tail, up);
        }
        if cqes > 0 {
            self.sq.stats.cqes += u64::from(cqes);
            h.charge(CpuWork::TxDone(packets));
            self.cq.publish_ci(h);
            self.sq.complete_bytes(h);
            self.sq.wake_if_room(h);
        }
        let more = self.poll_receive(h, weight, up);
        self.poll_others(h);
        if cqes == budget || more {
            return Poll::Again;
        }
        if self.reopening {
            self.sq.give_up();
            self.sq.abandon(h, up);
            return Poll::Work;
        }
        if let (Some(rq), Some(cq)) = (&mut self.rq, self.others.first()) {
            rq.sample(h, cq, &self.sq.stats);
        }
        self.arm(h);
        if !self.sq.recovering() {
            let works = self.rq.as_ref().is_some_and(|rq| rq.has_failed() || rq.decided.is_some());
            return if works { Poll::Work } else { Poll::Idle };
        }
        if self.sq.is_flushed() {
            self.sq.abandon(h, up);
        }
        Poll::Work
    }

    #[cold]
    fn interrupt_of_second<H: Host>(&mut self, h: &mut H) -> Irq {
        let Some(second) = &mut self.second else { return Irq::None };
        let (events, completion) = second.take_events(h);
        if events == 0 {
            return Irq::None;
        }
        let stats = &mut self.sq.stats;
        (stats.eqes, stats.interrupts) = (stats.eqes + u64::from(events), stats.interrupts + 1);
        if !completion {
            second.eq.arm(h, self.sq.page);
            return Irq::Handled;
        }
        second.scheduled = true;
        Irq::Poll
    }

    /// Polls the channels that are on the poll list: the second port's first, because it was put
    /// there while the first port's was polled.
    #[inline(never)]
    fn poll_ports<H: Host, S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> Poll
    where
        F: Firmware<H>,
    {
        let Channel { second, rq, sq, .. } = self;
        let Some(second) = second else { return Poll::Idle };
        let scheduled = core::mem::take(&mut second.scheduled);
        let first = core::mem::take(&mut second.first_scheduled) || !scheduled || self.reopening;
        if scheduled && let Some((redirect, pages)) = rq.as_mut().and_then(Rq::redirected) {
            second.poll(h, redirect, pages, &mut sq.stats);
            if !self.reopening {
                second.arm(h, sq.page);
            }
        }
        if first {
            let end = self.poll_first(h, budget, up);
            self.second.iter_mut().for_each(|s| s.first_scheduled = end == Poll::Again);
            return end;
        }
        if self.rq.as_ref().is_some_and(Rq::has_failed) { Poll::Work } else { Poll::Idle }
    }

    fn retire_one<H: Host, S: Sink>(&mut self, h: &mut H, tail: CqeTail, up: &mut S) -> u32 {
        if tail.op_own >> 4 == cqe_opcode::REQ_ERR {
            self.sq.stats.cqe_err += 1;
            // The first one is the failure; those of flushed WQEs follow.
            if !self.sq.recovering() {
                self.sq.set_recovering(true);
            }
        }
        h.charge(CpuWork::Completion);
        self.sq.retire(h, tail.wqe_counter.get(), up)
    }
}

/// Creates a send queue of packets, whose ring and record it names itself, and has it run.
pub(super) fn create_sq<H: Host, F: Firmware<H>>(
    h: &mut H,
    fw: &mut F,
    objects: &mut Objects,
    sq: &mut Sq,
    c: &SqContext,
) -> Answer {
    sq.sqn = fw.create_sq(h, &SqContext { ring: sq.ring.iova().0, dbr: sq.dbr.iova().0, ..*c })?;
    objects.sqns.push(sq.sqn);
    fw.modify_sq(h, sq.sqn, SqState::Reset, SqState::Ready)
}

/// Allocates the send queue's CQ and the others.
pub(super) fn allocate_cqs<H: Host>(
    h: &mut H,
    c: &Config,
    caps: &Caps,
) -> Result<(Cq, Box<[Cq]>), OutOfMemory> {
    let mut cqs = (Cq::allocate(h, c.log_cq)?, Vec::with_capacity(c.cqs.others().len()));
    for (i, &log_size) in c.cqs.others().iter().enumerate() {
        let of_rq = c.rq.filter(|_| i == 0);
        let next = Cq::allocate(h, of_rq.map_or(log_size, |rq| rq.log_cqes()));
        let (all, next) = both(cqs, next, |(cq, others)| {
            cq.release(h);
            others.into_iter().for_each(|cq: Cq| cq.release(h));
        })?;
        cqs = all;
        cqs.1.push(next);
    }
    let layout = caps.compression.filter(|_| c.rq.is_some_and(|rq| rq.compression));
    if let (Some(layout), Some(cq)) = (layout, cqs.1.first_mut()) {
        let strides = c.rq.is_some_and(|rq| rq.log_stride.is_some());
        let format = if strides { mini_format::STRIDE } else { mini_format::CHECKSUM };
        cq.compress(h, Compression { layout, format });
    }
    Ok((cqs.0, cqs.1.into_boxed_slice()))
}

/// Takes an empty send queue through ERR, RST and RDY. Returns whether it is ready.
fn renew<H: Host, F: Firmware<H>>(h: &mut H, fw: &mut F, sq: &mut Sq) -> bool {
    // In any other state another agent is recovering the queue.
    if fw.query_sq(h, sq.sqn) != Ok(SqState::Error) {
        return false;
    }
    let reset = fw.modify_sq(h, sq.sqn, SqState::Error, SqState::Reset);
    let ready = reset.and_then(|()| {
        sq.restart(h);
        fw.modify_sq(h, sq.sqn, SqState::Reset, SqState::Ready)
    });
    if ready.is_ok() {
        sq.set_recovering(false);
        sq.stats.recover += 1;
    }
    ready.is_ok()
}

fn release_queues<H: Host>(h: &mut H, eq: Eq, cq: Cq, others: Box<[Cq]>) {
    cq.release(h);
    others.into_iter().for_each(|cq| cq.release(h));
    eq.release(h);
}

/// Bytes of the shortest WQEs that the driver works with: any inline header and a data segment.
const MIN_WQE: u32 = 4 * WQEBB;

fn check_capabilities(caps: &Caps) -> Opened {
    let missing = |have: bool, what| if have { Ok(()) } else { Err(OpenError::Capability(what)) };
    missing(caps.csum, "csum_cap")?;
    missing(caps.vlan, "vlan_cap")?;
    missing(caps.log_max_lso > 0, "max_lso_cap")?;
    missing(u32::from(caps.max_wqe_sz_sq) >= MIN_WQE, "max_wqe_sz_sq")
}

impl<H: Host, F: Firmware<H>> Driver<H> for Channel<F> {
    #[inline]
    fn transmit(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        self.sq.transmit(h, p, more)
    }

    #[inline]
    fn poll<S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> Poll {
        if self.second.is_some() {
            cold_path();
            return self.poll_ports(h, budget, up);
        }
        self.poll_first(h, budget, up)
    }

    fn interrupt(&mut self, h: &mut H, vector: u16) -> Irq {
        h.charge(CpuWork::Interrupt);
        if self.second.as_ref().is_some_and(|second| second.vector == vector) {
            return self.interrupt_of_second(h);
        }
        let (events, completion) = self.take_events(h);
        if events == 0 {
            return Irq::None;
        }
        self.sq.stats.interrupts += 1;
        self.second.iter_mut().for_each(|second| second.first_scheduled |= completion);
        if completion {
            Irq::Poll
        } else {
            self.eq.arm(h, self.sq.page);
            Irq::Handled
        }
    }

    /// Changes the moderation, and recovers from an error CQE (reporter_tx.c
    /// `mlx5e_tx_reporter_err_cqe_recover`): once all WQEs are retired, takes the SQ through ERR,
    /// RST and RDY.
    fn work(&mut self, h: &mut H) {
        if !self.reopening {
            self.moderate(h);
            self.recover_receive(h);
            let sends = self.rq.iter_mut().flat_map(Rq::sends);
            for sq in sends.filter(|sq| sq.recovering() && sq.is_empty()) {
                renew(h, &mut self.fw, sq);
            }
        }
        if !self.sq.recovering() || !self.sq.is_empty() {
            return;
        }
        if self.reopening {
            return self.reopen(h);
        }
        if renew(h, &mut self.fw, &mut self.sq) {
            self.sq.wake_if_room(h);
        }
    }

    fn alarm(&mut self, h: &mut H, why: Alarm) -> Irq {
        match why {
            Alarm::TxTimeout => self.recover_hang(h),
            // Every error has a CQE or an event of its own.
            Alarm::Tick | Alarm::IoError => {
                self.work(h);
                Irq::None
            }
        }
    }

    #[inline]
    fn stopped(&self) -> bool {
        self.sq.halted()
    }

    #[inline]
    fn byte_room(&self) -> i32 {
        self.sq.bql.room()
    }
}
