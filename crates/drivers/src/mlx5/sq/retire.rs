//! Retiring: what a completion gives back, waking, and the end of a queue's life.

use super::{Slot, Sq};
use crate::Sink;
use core::mem;
use doorbell_hal::{Buf, CpuWork, Host};
use doorbell_layout::mlx5::dbr;
use zerocopy::byteorder::big_endian::U32;

impl Sq {
    /// Retires all WQEs up to and including the one at `wqe_counter`; how many
    /// packets that were. A counter that names no outstanding WQE is ignored.
    #[inline(always)]
    pub(in crate::mlx5) fn retire<H: Host, S: Sink>(
        &mut self,
        h: &mut H,
        wqe_counter: u16,
        up: &mut S,
    ) -> u32 {
        let from = self.cc;
        let target = wqe_counter.wrapping_sub(from);
        if target >= self.announced.wrapping_sub(from) {
            self.stats.cqe_stray += 1;
            return 0;
        }
        let (mut passed, mut pieces, mut done) = (0u16, 0u32, self.done);
        // `target` may lie inside a WQE only if the device is wrong; passing it
        // ends the walk all the same.
        while passed <= target {
            let wi = self.info[usize::from(from.wrapping_add(passed) & self.mask)];
            passed += 1 + u16::from(wi.more_wqebbs);
            pieces += u32::from(wi.pieces);
            done = wi.queued;
        }
        self.done = done;
        self.cc = from.wrapping_add(passed);
        self.give_back(h, pieces, |_, buf, cookie, last| up.sent(buf, cookie, last))
    }

    /// Unmaps the next `pieces` buffers and hands them to `f`; how many packets
    /// they were. All of a CQE's WQEs at once, and slice by slice where the FIFO
    /// wraps: so the loop tests nothing but the slots.
    #[inline(always)]
    pub(super) fn give_back<H: Host>(
        &mut self,
        h: &mut H,
        mut pieces: u32,
        mut f: impl FnMut(&mut H, Buf, u32, bool),
    ) -> u32 {
        let mut packets = 0;
        while pieces > 0 {
            let start = (self.fifo_tail & self.fifo_mask) as usize;
            let rest = &mut self.fifo[start..];
            let n = rest.len().min(pieces as usize);
            for slot in &mut rest[..n] {
                match mem::take(slot) {
                    Slot::Mapped(m, cookie, last) => {
                        packets += u32::from(last);
                        let buf = h.unmap(m);
                        f(h, buf, cookie, last);
                    }
                    Slot::Inlined(buf, cookie, last) => {
                        packets += u32::from(last);
                        f(h, buf, cookie, last);
                    }
                    Slot::Empty => {}
                }
            }
            self.fifo_tail = self.fifo_tail.wrapping_add(n as u32);
            pieces -= n as u32;
        }
        packets
    }

    #[inline(always)]
    pub(in crate::mlx5) fn wake_if_room<H: Host>(&mut self, h: &mut H) {
        if self.stopped && !self.recovering && self.has_room_after(0) {
            self.set_stopped(false);
            self.stats.wake += 1;
            h.charge(CpuWork::Wake);
        }
    }

    /// Everything announced has been retired, and nothing waits unannounced.
    pub(in crate::mlx5) fn is_drained(&self) -> bool {
        self.is_flushed() && !self.session.is_open() && self.pc == self.announced
    }

    pub(in crate::mlx5) fn last_announced(&self) -> u16 {
        self.last_wqe
    }

    /// All that was announced has been retired.
    pub(in crate::mlx5) fn is_flushed(&self) -> bool {
        self.cc == self.announced
    }

    /// The same, and no buffer is left here.
    pub(in crate::mlx5) fn is_empty(&self) -> bool {
        self.is_flushed() && self.fifo_tail == self.fifo_head
    }

    /// For recovery: what was queued and never announced will not be. Its buffers
    /// come back, in order, as those of sent packets do.
    pub(in crate::mlx5) fn abandon<H: Host, S: Sink>(&mut self, h: &mut H, up: &mut S) {
        let left = self.fifo_head.wrapping_sub(self.fifo_tail);
        let packets = self.give_back(h, left, |_, buf, cookie, last| up.sent(buf, cookie, last));
        self.stats.dropped += u64::from(packets);
        self.forget_session();
    }

    /// Tells the byte limit what was retired. Once a poll.
    #[inline(always)]
    pub(in crate::mlx5) fn complete_bytes<H: Host>(&mut self, h: &mut H) {
        self.bql.complete_to(h.now(), self.done);
    }

    /// For recovery: all counters start again at zero. Nothing is queued.
    pub(in crate::mlx5) fn restart<H: Host>(&mut self, h: &mut H) {
        debug_assert!(self.is_empty());
        self.bql.reset(h.now());
        self.done = 0;
        self.pc = 0;
        self.cc = 0;
        self.announced = 0;
    }

    /// What was announced is not waited for any more: the queue is gone.
    pub(in crate::mlx5) fn give_up(&mut self) {
        self.announced = self.pc;
        self.cc = self.pc;
    }

    /// As [`Sq::restart`], for a queue that is made anew: nobody remembers its doorbell record.
    pub(in crate::mlx5) fn restart_all<H: Host>(&mut self, h: &mut H) {
        self.restart(h);
        h.store(&self.dbr, dbr::SEND, U32::ZERO);
    }

    pub(in crate::mlx5) fn release<H: Host>(mut self, h: &mut H) {
        let left = self.fifo_head.wrapping_sub(self.fifo_tail);
        self.give_back(h, left, |h, buf, _, _| h.release(buf));
        h.release_coherent(self.ring);
        h.release_coherent(self.dbr);
    }
}
