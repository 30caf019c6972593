//! From the FIFO to memory: data, completions, and what is said of queues that failed.

use super::{super::device::Mlx5, Filler, LINE, RxError, RxFrame};
use doorbell_hal::{Port, RxVerdict, Time, fail_if, transfer_units};
use doorbell_layout::mlx5::receive::{
    CQE_RECEIVE_ERROR, CQE_RECEIVED, FILLER, RX_LEN, RqState, RxCqe, STRIDES_SHIFT, TERMINATE_LKEY,
};
use doorbell_layout::mlx5::{
    Cqe, DataSeg, EQE_CQN, EQE_QUEUE_KIND, KIND_RQ, MTT_WRITE, event, syndrome,
};
use zerocopy::{FromBytes, FromZeros, transmute};

impl Mlx5 {
    /// Updates the time of the receive side's next action.
    #[inline]
    pub(in super::super) fn receive_due(&self) -> Time {
        self.rx.due().min(self.pipe.loopback.due())
    }

    /// Returns true if what is due at `t` on the receive side is more than the writing of a frame:
    /// one of the function's own comes back, or a queue that failed is told of.
    pub(in super::super) fn works_at(&self, t: Time) -> bool {
        let error = self.rx.pending_errors.front().map_or(Time::NEVER, |m| m.0);
        let error = error.min(self.rx.sessions.front().map_or(Time::NEVER, |s| s.0));
        self.pipe.loopback.due().min(error) <= t
    }

    /// Does what is due next on the receive side.
    pub(in super::super) fn receive_step<P: Port>(&mut self, p: &mut P) {
        let t = self.receive_due();
        if self.pipe.loopback.due() <= t
            && let Some((at, frame)) = self.pipe.loopback.pop()
        {
            if self.rx.arrive(p, at, &frame, true) == RxVerdict::Yes {
                self.rx_casts.count(&frame);
            }
            return;
        }
        if self.rx.pending_errors.front().is_some_and(|m| m.0 <= t) {
            if let Some((at, rqn, mishap)) = self.rx.pending_errors.pop_front() {
                self.tell(p, at, rqn, mishap);
            }
            return;
        }
        if self.rx.sessions.front().is_some_and(|s| s.0 <= t) {
            if let Some((at, cqn)) = self.rx.sessions.pop_front() {
                self.end_session(p, at, cqn);
            }
            return;
        }
        if let Some(f) = self.rx.fifo.pop_front() {
            self.deliver(p, t, f);
        }
        self.rx.let_in(p, t);
    }

    /// Writes a frame to memory, and its CQE.
    fn deliver<P: Port>(&mut self, p: &mut P, t: Time, f: RxFrame) {
        let Some(rq) = self.rx.rqs.get_mut(f.rqn) else { return self.rx.recycle(f) };
        if rq.state != RqState::Ready {
            self.rx.counters.discarded += 1;
            return self.rx.recycle(f);
        }
        let cqn = rq.ctx.cqn;
        self.rx.start_free = t + self.rx.packet_time();
        let written = self.scatter(p, t, &f);
        let poisoned = written.is_ok() && p.begin_completion(t);
        match written.and_then(|()| fail_if(poisoned, syndrome::LOCAL_PROT)) {
            Ok(()) => {
                self.rx.counters.packets += 1;
                self.rx.counters.bytes += f.len() as u64;
                if let Some(filler) = f.filler {
                    self.rx.counters.fillers += 1;
                    self.put_cqe(p, t, cqn, filler_cqe(f.rqn, filler));
                }
                self.complete_frame(p, t, cqn, f.cqe);
            }
            Err(why) => self.fail(p, t, &f, why),
        }
        self.rx.recycle(f);
    }

    /// Writes a frame to the places that its WQE names.
    fn scatter<P: Port>(&mut self, p: &mut P, t: Time, f: &RxFrame) -> Result<(), u8> {
        let (wqe, padded) = (&f.wqe, &f.bytes);
        let frame = &padded[..f.len()];
        let (pd, pads) =
            self.rx.rqs.get(f.rqn).map_or((0, false), |rq| (rq.pd, rq.ctx.end_padding));
        let mut room = 0;
        for d in segments(wqe) {
            let lkey = d.lkey.get();
            let key = self.mkeys.get(lkey >> 8).filter(|k| k.admits(pd, lkey) && k.writable);
            let n = d.byte_count.get() & RX_LEN;
            key.and_then(|k| k.find(d.addr.get(), u64::from(n), MTT_WRITE))
                .ok_or(syndrome::LOCAL_PROT)?;
            room += n as usize;
            if room >= frame.len() {
                break;
            }
        }
        fail_if(room < frame.len(), syndrome::LOCAL_LENGTH)?;
        let mut rest = frame;
        for d in segments(wqe) {
            let holds = (d.byte_count.get() & RX_LEN) as usize;
            let n = holds.min(rest.len());
            let (mut now, later) = rest.split_at(n);
            let mut addr = d.addr.get();
            while !now.is_empty() {
                let key = self.mkeys.get(d.lkey.get() >> 8);
                let (to, len) = key
                    .and_then(|k| k.find(addr, now.len() as u64, MTT_WRITE))
                    .ok_or(syndrome::LOCAL_PROT)?;
                let beyond = &now[len as usize..];
                let from = frame.len() - beyond.len() - later.len() - len as usize;
                let ends = pads && beyond.is_empty() && later.is_empty();
                let pad = if ends { to_line_end(to.0 + len).min(holds - n) } else { 0 };
                let piece = &padded[from..from + len as usize + pad];
                let landed = p.write(t, to, piece).map_err(|_| syndrome::LOCAL_PROT)?;
                self.rx.note_write(landed);
                (now, addr) = (beyond, addr.wrapping_add(len));
            }
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// A WQE failed, and its queue with it.
    #[cold]
    fn fail<P: Port>(&mut self, p: &mut P, t: Time, f: &RxFrame, why: u8) {
        self.rx.counters.errors += 1;
        self.rx.counters.discarded += 1;
        let counter = f.counter;
        let Some(rq) = self.rx.rqs.get_mut(f.rqn) else { return };
        rq.state = RqState::Error;
        let (cqn, flush) = (rq.ctx.cqn, rq.ctx.flush_in_error);
        self.put_cqe(p, t, cqn, error_cqe(f.rqn, counter, why));
        if flush {
            self.flush(p, t, f.rqn, Some(counter.wrapping_add(1)));
        }
    }

    #[cold]
    fn tell<P: Port>(&mut self, p: &mut P, t: Time, rqn: u32, mishap: RxError) {
        match mishap {
            RxError::Unreadable => {
                let queue = [(EQE_CQN, rqn), (EQE_QUEUE_KIND, KIND_RQ)];
                self.asynchronous_event(p, t, (event::WQ_CATAS, 0, &queue));
            }
            RxError::Flush => {
                let waiting = self.rx.fifo.iter().find(|f| f.rqn == rqn);
                let first = waiting.map(|f| f.counter);
                self.flush(p, t, rqn, first);
            }
            RxError::Flushing(next, left) => self.flush_from(p, t, rqn, (next, left)),
        }
    }

    /// Completes every posted WQE from `first` on with "flushed"; without it, from the first that
    /// is not used up.
    fn flush<P: Port>(&mut self, p: &mut P, t: Time, rqn: u32, first: Option<u16>) {
        p.charge(self.rx.fifo.len() as u64);
        self.rx.give_up(rqn);
        let Some(rq) = self.rx.rqs.get_mut(rqn) else { return };
        if rq.read_record(p, t, &mut self.rx.counters).is_err() {
            return;
        }
        let left = rq.flush();
        let first = first.unwrap_or(left);
        let posted = u32::from(rq.posted.wrapping_sub(first)).min(rq.len()) as u16;
        self.flush_from(p, t, rqn, (first, posted));
    }

    /// Completes so many WQEs from `next` on; when the share of the turn is spent, the rest comes
    /// with the next one.
    fn flush_from<P: Port>(
        &mut self,
        p: &mut P,
        t: Time,
        rqn: u32,
        (mut next, mut left): (u16, u16),
    ) {
        let Some(cqn) = self.rx.rqs.get(rqn).map(|rq| rq.ctx.cqn) else { return };
        while left > 0 {
            p.charge(transfer_units(size_of::<Cqe>()));
            self.put_cqe(p, t, cqn, error_cqe(rqn, next, syndrome::WR_FLUSH));
            (next, left) = (next.wrapping_add(1), left - 1);
            if left > 0 && p.is_spent() {
                self.rx.pending_errors.push_front((t, rqn, RxError::Flushing(next, left)));
                return;
            }
        }
    }
}

/// Returns the bytes from an address to the end of its cache line; 0 at the begin of one.
fn to_line_end(at: u64) -> usize {
    at.wrapping_neg() as usize % LINE
}

/// The places that a WQE names, up to the end of its list.
fn segments(wqe: &[u8]) -> impl Iterator<Item = DataSeg> {
    wqe.as_chunks::<16>()
        .0
        .iter()
        .filter_map(|b| DataSeg::read_from_bytes(b).ok())
        .take_while(|d| d.lkey.get() != TERMINATE_LKEY)
}

/// Returns the entry of strides that no frame is in.
fn filler_cqe(rqn: u32, f: Filler) -> Cqe {
    let mut cqe = RxCqe::new_zeroed();
    cqe.wqe_id.set(f.wqe_id);
    cqe.wqe_counter.set(f.first);
    cqe.byte_cnt.set(FILLER | u32::from(f.count) << STRIDES_SHIFT);
    cqe.flags_rqpn.set(rqn);
    cqe.op_own = CQE_RECEIVED << 4;
    transmute!(cqe)
}

fn error_cqe(rqn: u32, wqe_counter: u16, why: u8) -> Cqe {
    let mut cqe = Cqe::new_zeroed();
    cqe.timestamp[7] = why;
    cqe.sop_drop_qpn.set(rqn);
    cqe.wqe_counter.set(wqe_counter);
    cqe.op_own = CQE_RECEIVE_ERROR << 4;
    cqe
}
