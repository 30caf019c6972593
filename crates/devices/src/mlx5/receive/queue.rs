//! A receive queue, and how its WQEs come on chip.

use super::{super::ring::Ring, Counters};
use alloc::{boxed::Box, collections::VecDeque, vec::Vec};
use doorbell_hal::{Iova, Port, Time};
use doorbell_layout::mlx5::command::{Rqc, Wq};
use doorbell_layout::mlx5::receive::{DBR_RECEIVE, RqContext, RqState};

/// A receive queue: a cyclic WQ of WQEs of `1 << log_stride` bytes.
#[derive(Debug)]
pub(in super::super) struct Rq {
    pub(in super::super) ctx: RqContext,
    ring: Ring,
    pub(in super::super) pd: u32,
    pub(in super::super) uar: u32,
    /// The context it was created with.
    pub(in super::super) context: Box<Rqc>,
    pub(in super::super) state: RqState,
    /// Entries of RQTs that name it.
    pub(super) named: u32,
    /// The doorbell record, as last read: counter after the last WQE posted.
    pub(super) posted: u16,
    /// Arrival of a doorbell record that told of no new WQE.
    nothing_until: Time,
    /// Counter after the last WQE on chip.
    pub(super) fetched: u16,
    /// Counter of the next WQE for a frame.
    pub(super) taken: u16,
    /// Time at which the last frame with a WQE is ready.
    pub(super) ready: Time,
    /// Bytes of one read of WQEs.
    chunk: u32,
    /// WQEs on chip, from `taken` on, behind `used` bytes of those before.
    chip: Vec<u8>,
    used: usize,
    /// WQEs of each read, and the time of its arrival.
    pub(super) arrivals: VecDeque<(u16, Time)>,
}

/// A WQE that was read.
pub(super) struct Wqe {
    pub(super) counter: u16,
    pub(super) ready: Time,
}

impl Rq {
    pub(super) fn new(ctx: RqContext, ring: Ring, context: &Rqc, chunk: u32) -> Rq {
        let on_chip = 2 * chunk.max(1 << ctx.log_stride) as usize;
        let wq = context.part(Rqc::WQ);
        Rq {
            ctx,
            ring,
            pd: wq.get(Wq::PD),
            uar: wq.get(Wq::UAR),
            context: Box::new(*context),
            state: RqState::Reset,
            named: 0,
            posted: 0,
            nothing_until: Time::ZERO,
            fetched: 0,
            taken: 0,
            ready: Time::ZERO,
            chunk,
            chip: Vec::with_capacity(on_chip),
            used: 0,
            arrivals: VecDeque::with_capacity(8),
        }
    }

    pub(super) fn reset(&mut self) {
        (self.posted, self.fetched, self.taken, self.used) = (0, 0, 0, 0);
        (self.nothing_until, self.ready) = (Time::ZERO, Time::ZERO);
        self.chip.clear();
        self.arrivals.clear();
    }

    fn stride(&self) -> usize {
        1 << self.ctx.log_stride
    }

    /// WQEs in the ring.
    pub(super) fn len(&self) -> u32 {
        1 << self.ctx.log_size
    }

    /// WQEs on chip that no frame has.
    fn on_chip(&self) -> u16 {
        self.fetched.wrapping_sub(self.taken)
    }

    pub(super) fn read_record<P: Port>(
        &mut self,
        p: &mut P,
        at: Time,
        c: &mut Counters,
    ) -> Result<Time, ()> {
        let mut record = [0; 4];
        c.record_reads += 1;
        let read =
            p.read(at, Iova(self.ctx.dbr) + u64::from(DBR_RECEIVE), &mut record).map_err(|_| ())?;
        self.posted = u32::from_be_bytes(record) as u16;
        Ok(read)
    }

    /// Reads more WQEs, at `at`, if there are any: those known of, or those that the
    /// doorbell record tells of.
    fn fetch<P: Port>(&mut self, p: &mut P, mut at: Time, c: &mut Counters) -> Result<(), ()> {
        if self.posted == self.fetched {
            // One read of the record is under way at a time: a frame that comes meanwhile is lost.
            if at < self.nothing_until {
                return Ok(());
            }
            at = self.read_record(p, at, c)?;
            if self.posted == self.fetched {
                self.nothing_until = at;
            }
        }
        // More than a ring of them is a mistake: it counts as a ring.
        let room = self.len() - u32::from(self.on_chip()).min(self.len());
        let posted = u32::from(self.posted.wrapping_sub(self.fetched)).min(room);
        let place = u32::from(self.fetched) & (self.len() - 1);
        let offset = u64::from(place) << self.ctx.log_stride;
        let piece =
            u32::try_from(self.ring.piece(offset) >> self.ctx.log_stride).unwrap_or(u32::MAX);
        let chunk = (self.chunk >> self.ctx.log_stride).max(1);
        let n = chunk.min(posted).min(self.len() - place).min(piece);
        if n == 0 {
            return Ok(());
        }
        self.chip.drain(..self.used);
        self.used = 0;
        let (start, bytes) = (self.chip.len(), n as usize * self.stride());
        self.chip.resize(start + bytes, 0);
        c.fetches += 1;
        c.fetched_bytes += bytes as u64;
        let arrived = p.read(at, self.ring.at(offset), &mut self.chip[start..]).map_err(|_| ())?;
        self.arrivals.push_back((n as u16, arrived));
        self.fetched = self.fetched.wrapping_add(n as u16);
        Ok(())
    }

    /// Takes the next WQE, appending its bytes to `to`; and keeps some on chip.
    /// `Ok(None)` when none is posted.
    pub(super) fn take<P: Port>(
        &mut self,
        p: &mut P,
        at: Time,
        c: &mut Counters,
        to: &mut Vec<u8>,
    ) -> Result<Option<Wqe>, ()> {
        if self.on_chip() == 0 {
            self.fetch(p, at, c)?;
        }
        let Some((left, arrived)) = self.arrivals.front_mut() else { return Ok(None) };
        let wqe = Wqe { counter: self.taken, ready: *arrived };
        *left -= 1;
        if *left == 0 {
            self.arrivals.pop_front();
        }
        self.taken = self.taken.wrapping_add(1);
        let end = self.used + self.stride();
        to.extend_from_slice(&self.chip[self.used..end]);
        self.used = end;
        if u32::from(self.on_chip()) << self.ctx.log_stride <= self.chunk / 2 {
            self.fetch(p, at, c)?;
        }
        Ok(Some(wqe))
    }
}
