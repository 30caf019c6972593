//! A receive queue, and how its WQEs come on chip.

use super::super::ring::Ring;
use super::Counters;
use alloc::{boxed::Box, collections::VecDeque, vec::Vec};
use doorbell_hal::{Iova, Port, Time};
use doorbell_layout::mlx5::DataSeg;
use doorbell_layout::mlx5::command::{Rqc, Wq};
use doorbell_layout::mlx5::receive::{DBR_RECEIVE, NextSeg, RX_LEN, RqContext, RqState};
use zerocopy::{FromBytes, IntoBytes};

/// A receive queue: WQEs of `1 << log_stride` bytes, in a ring, or linked and with strides that
/// frames share.
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
    /// WQEs of each read, the place of the first, and the time of its arrival.
    pub(super) arrivals: VecDeque<(u16, u16, Time)>,
    /// Of a linked list, the place of the next WQE to read; `None`: a link led out of the queue.
    next: Option<u16>,
    /// Of a striding queue, the WQE that has strides left.
    open: Option<Open>,
}

/// A WQE that was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wqe {
    pub(super) counter: u16,
    pub(super) ready: Time,
    /// A frame's strides of it, if it has some.
    pub(super) strides: Option<Taken>,
    /// Those left over of the WQE before.
    pub(super) filler: Option<Filler>,
}

/// Strides of a WQE: its place, the first of them, and how many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) wqe_id: u16,
    pub(super) first: u16,
    pub(super) count: u16,
}

/// Strides that no frame is in.
pub(super) type Filler = Taken;

/// A WQE with strides left.
#[derive(Debug)]
struct Open {
    counter: u16,
    place: u16,
    ready: Time,
    data: DataSeg,
    /// Strides that frames have.
    used: u32,
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
            next: Some(0),
            open: None,
        }
    }

    pub(super) fn reset(&mut self) {
        (self.posted, self.fetched, self.taken, self.used) = (0, 0, 0, 0);
        (self.nothing_until, self.ready) = (Time::ZERO, Time::ZERO);
        self.chip.clear();
        self.arrivals.clear();
        (self.next, self.open) = (Some(0), None);
    }

    /// Returns the counter of the first WQE that is not used up, and gives up what is on chip.
    pub(super) fn flush(&mut self) -> u16 {
        let first = self.open.take().map_or(self.taken, |open| open.counter);
        (self.fetched, self.taken) = (self.posted, self.posted);
        self.arrivals.clear();
        first
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
        let mut place = u32::from(self.fetched) & (self.len() - 1);
        if self.ctx.strides.is_some() && posted > 0 {
            place = self.next.ok_or(())?.into();
        }
        let offset = u64::from(place) << self.ctx.log_stride;
        let piece =
            u32::try_from(self.ring.piece(offset) >> self.ctx.log_stride).unwrap_or(u32::MAX);
        // Where a list goes on, a WQE says.
        let linked = self.ctx.strides.is_some();
        let chunk = if linked { 1 } else { (self.chunk >> self.ctx.log_stride).max(1) };
        if linked {
            at = self.arrivals.back().map_or(at, |last| last.2.max(at));
        }
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
        if linked {
            let link = NextSeg::read_from_prefix(&self.chip[start..]).map(|(s, _)| s.next.get());
            self.next = link.ok().filter(|next| u32::from(*next) < self.len());
        }
        self.arrivals.push_back((n as u16, place as u16, arrived));
        self.fetched = self.fetched.wrapping_add(n as u16);
        Ok(())
    }

    /// Takes room for a frame of `len` bytes: the next WQE, or strides. Appends to `to` the data
    /// segments that it goes to. `Ok(None)` when no WQE is posted that has it.
    pub(super) fn take<P: Port>(
        &mut self,
        p: &mut P,
        at: Time,
        c: &mut Counters,
        (len, to): (usize, &mut Vec<u8>),
    ) -> Result<Option<Wqe>, ()> {
        let Some(s) = self.ctx.strides else {
            let wqe = self.take_wqe(p, at, c, to)?;
            return Ok(wqe.map(|(counter, _, ready)| Wqe {
                counter,
                ready,
                strides: None,
                filler: None,
            }));
        };
        let all = 1u32 << s.log_count;
        // One that is longer than a WQE takes all of it, and fails for want of room.
        let needed = (len as u32).div_ceil(1 << s.log_size).clamp(1, all);
        let mut filler = None;
        if self.open.as_ref().is_none_or(|open| open.used + needed > all) {
            let Some((counter, place, ready)) = self.take_wqe(p, at, c, to)? else {
                return Ok(None);
            };
            let data =
                to.get(size_of::<NextSeg>()..).and_then(|b| DataSeg::read_from_prefix(b).ok());
            let data = data.ok_or(())?.0;
            to.clear();
            let left = self.open.replace(Open { counter, place, ready, data, used: 0 });
            filler = left.map(|open| Filler {
                wqe_id: open.place,
                first: open.used as u16,
                count: (all - open.used) as u16,
            });
        }
        let Some(open) = &mut self.open else { return Ok(None) };
        let (first, offset) = (open.used, u64::from(open.used) << s.log_size);
        open.used += needed;
        let room = u64::from(open.data.byte_count.get() & RX_LEN).saturating_sub(offset);
        let mut data = open.data;
        data.byte_count.set(room.min(u64::from(needed) << s.log_size) as u32);
        data.addr.set(data.addr.get().wrapping_add(offset));
        to.extend_from_slice(data.as_bytes());
        let strides = Taken { wqe_id: open.place, first: first as u16, count: needed as u16 };
        let taken =
            Wqe { counter: open.counter, ready: open.ready, strides: Some(strides), filler };
        if open.used == all {
            self.open = None;
        }
        Ok(Some(taken))
    }

    /// Takes the next WQE, appending its bytes to `to`; and keeps some on chip. Returns its
    /// counter, its place and the time from which it is there; `Ok(None)` when none is posted.
    fn take_wqe<P: Port>(
        &mut self,
        p: &mut P,
        at: Time,
        c: &mut Counters,
        to: &mut Vec<u8>,
    ) -> Result<Option<(u16, u16, Time)>, ()> {
        if self.on_chip() == 0 {
            self.fetch(p, at, c)?;
        }
        let Some((left, place, arrived)) = self.arrivals.front_mut() else { return Ok(None) };
        let wqe = (self.taken, *place, *arrived);
        *left -= 1;
        *place = place.wrapping_add(1);
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
