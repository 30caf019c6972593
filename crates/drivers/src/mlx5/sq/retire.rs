//! Retiring WQEs by completions, waking, and the end of a queue.

use super::{DmaEntry, Sq};
use crate::{Sink, mlx5::Stats};
use core::mem;
use doorbell_hal::{Buf, CpuWork, Host, Mapped};
use doorbell_layout::mlx5::dbr;
use zerocopy::byteorder::big_endian::U32;

impl Sq {
    /// Retires all WQEs up to and including the one at `wqe_counter`. Returns the number of their
    /// packets. A counter that names no outstanding WQE is ignored.
    #[inline(always)]
    pub(in crate::mlx5) fn retire<H: Host, S: Sink>(
        &mut self,
        h: &mut H,
        wqe_counter: u16,
        up: &mut S,
    ) -> u32 {
        let pieces = self.advance(wqe_counter);
        self.release_entries(h, pieces, |_, buf, cookie, last| up.sent(buf, cookie, last))
    }

    /// Moves the consumer counter behind the WQE at `wqe_counter`. Returns the entries of all that
    /// it passes.
    #[inline(always)]
    pub(super) fn advance(&mut self, wqe_counter: u16) -> u32 {
        let from = self.cc;
        let target = wqe_counter.wrapping_sub(from);
        if target >= self.announced.wrapping_sub(from) {
            self.stats.cqe_stray += 1;
            return 0;
        }
        let (mut passed, mut pieces, mut done) = (0u16, 0u32, self.done);
        // With a broken device `target` may lie inside a WQE; passing it ends the walk too.
        while passed <= target {
            let wi = self.info[usize::from(from.wrapping_add(passed) & self.mask)];
            passed += 1 + u16::from(wi.more_wqebbs);
            pieces += u32::from(wi.pieces);
            done = wi.queued;
        }
        self.done = done;
        self.cc = from.wrapping_add(passed);
        pieces
    }

    /// Unmaps the next `pieces` buffers and passes them to `f`. Returns the number of their
    /// packets. Goes over the FIFO in slices up to its end, so that the inner loop tests only the
    /// entries.
    #[inline(always)]
    pub(super) fn release_entries<H: Host>(
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
            for entry in &mut rest[..n] {
                match mem::take(entry) {
                    DmaEntry::Mapped(m, cookie, last) => {
                        packets += u32::from(last);
                        let buf = h.unmap(m);
                        f(h, buf, cookie, last);
                    }
                    DmaEntry::Inlined(buf, cookie, last) => {
                        packets += u32::from(last);
                        f(h, buf, cookie, last);
                    }
                    DmaEntry::Empty => {}
                    DmaEntry::Segment(m) | DmaEntry::Page(m) => packets += release_segment(h, m),
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
            if !self.segments.is_empty() && !self.go_on(h) {
                return;
            }
            self.stats.wake += 1;
            h.charge(CpuWork::Wake);
        }
    }

    /// Returns whether all packets have been retired.
    pub(in crate::mlx5) fn is_drained(&self) -> bool {
        let announced = !self.session.is_open() && self.pc == self.announced;
        self.is_flushed() && announced && self.segments.is_empty()
    }

    pub(in crate::mlx5) fn last_announced(&self) -> u16 {
        self.last_wqe
    }

    /// Returns whether all WQEs before the last doorbell have been retired.
    pub(in crate::mlx5) fn is_flushed(&self) -> bool {
        self.cc == self.announced
    }

    /// Returns the same, and that no buffer is left.
    pub(in crate::mlx5) fn is_empty(&self) -> bool {
        self.is_flushed() && self.fifo_tail == self.fifo_head
    }

    /// Passes up the buffers of packets that the doorbell was never rung for, in recovery.
    pub(in crate::mlx5) fn abandon<H: Host, S: Sink>(&mut self, h: &mut H, up: &mut S) {
        let left = self.fifo_head.wrapping_sub(self.fifo_tail);
        let packets =
            self.release_entries(h, left, |_, buf, cookie, last| up.sent(buf, cookie, last));
        self.stats.dropped += u64::from(packets);
        self.retire_session();
    }

    /// Reports the retired bytes to the byte limit. Called once a poll.
    #[inline(always)]
    pub(in crate::mlx5) fn complete_bytes<H: Host>(&mut self, h: &mut H) {
        self.bql.complete_to(h.now(), self.done);
    }

    /// Restarts all counters at zero, in recovery. Nothing is queued.
    pub(in crate::mlx5) fn restart<H: Host>(&mut self, h: &mut H) {
        debug_assert!(self.is_empty());
        self.bql.reset(h.now());
        self.done = 0;
        self.pc = 0;
        self.cc = 0;
        self.announced = 0;
    }

    /// Treats all WQEs as retired, because the queue was destroyed.
    pub(in crate::mlx5) fn give_up(&mut self) {
        self.announced = self.pc;
        self.cc = self.pc;
    }

    /// Restarts a queue that is created again, with its doorbell record.
    pub(in crate::mlx5) fn restart_all<H: Host>(&mut self, h: &mut H) {
        self.restart(h);
        h.store(&self.dbr, dbr::SEND, U32::ZERO);
    }

    /// Releases all memory. Returns the counters, in which the packets still queued are dropped.
    pub(in crate::mlx5) fn release<H: Host>(mut self, h: &mut H) -> Stats {
        let left = self.fifo_head.wrapping_sub(self.fifo_tail);
        let packets = self.release_entries(h, left, |h, buf, _, _| h.release(buf));
        let segmented = self.release_segments(h);
        let mut stats = self.stats();
        stats.dropped += u64::from(packets) + segmented;
        h.release_coherent(self.ring);
        h.release_coherent(self.dbr);
        stats
    }
}

#[cold]
#[inline(never)]
fn release_segment<H: Host>(h: &mut H, m: Mapped) -> u32 {
    let buf = h.unmap(m);
    h.release(buf);
    1
}
