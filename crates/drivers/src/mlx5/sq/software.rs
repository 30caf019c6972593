//! Large sends that the device does not take: segmented here, as the stack does it.

use super::{DmaEntry, Sq};
use crate::common::{Plan, plan};
use crate::{Sink, Tx};
use doorbell_hal::{Alignment, Host};
use doorbell_layout::mlx5::can;
use doorbell_packet::Packet;

impl Sq {
    /// Returns whether the device takes a large send as it is, in one WQE.
    pub(super) fn takes_large<H: Host>(&self, h: &mut H, p: &mut Packet) -> bool {
        let caps = self.caps;
        self.is_acceptable(p)
            && self.fits_in_a_wqe(p)
            && matches!(plan(h, p, |request| can(request, &caps)), Plan::Device(_))
    }

    /// Segments a large send.
    #[cold]
    pub(super) fn segment<H: Host>(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        if let Err(p) = self.segments.begin(h, p, u32::MAX) {
            return self.drop_packet(h, p, more);
        }
        self.stats.tso_software += 1;
        self.send_segments(h, more).map_or(Tx::Ok, Tx::Dropped)
    }

    /// Sends segments of a large send as far as there is room. Stops the queue if some are left.
    /// Returns what stands for the large send if its last segment is not sent.
    #[cold]
    fn send_segments<H: Host>(&mut self, h: &mut H, more: bool) -> Option<Packet> {
        while !self.segments.is_empty() {
            if self.halted() {
                self.stats.stopped += u64::from(!self.stopped);
                self.set_stopped(true);
                self.flush(h);
                return None;
            }
            match self.segments.next(h, Alignment::ANY) {
                Ok(Some(s)) => match self.transmit(h, s.packet, more || !s.last) {
                    Tx::Ok if s.last => {}
                    Tx::Ok => self.mark_segment(h),
                    Tx::Busy(p) | Tx::Dropped(p) if s.last => return Some(p),
                    Tx::Busy(p) | Tx::Dropped(p) => p.release(h),
                },
                Ok(None) => {}
                Err(rest) => {
                    self.count_drop(h, false);
                    return Some(rest);
                }
            }
        }
        None
    }

    /// Marks the packet that was sent last as a segment that others follow: its buffer is not
    /// passed up.
    fn mark_segment<H: Host>(&mut self, h: &mut H) {
        let at = (self.fifo_head.wrapping_sub(1) & self.fifo_mask) as usize;
        match core::mem::take(&mut self.fifo[at]) {
            DmaEntry::Mapped(m, ..) => self.fifo[at] = DmaEntry::Segment(m),
            // The device has all of it.
            DmaEntry::Inlined(buf, ..) => h.release(buf),
            other => self.fifo[at] = other,
        }
    }

    /// Goes on with a large send whose segments waited for room. Returns whether the queue has been
    /// given all of it.
    #[cold]
    pub(super) fn go_on<H: Host>(&mut self, h: &mut H) -> bool {
        if let Some(p) = self.send_segments(h, false) {
            self.lost.push_packet(p);
        }
        self.segments.is_empty()
    }

    /// Passes up the packets that could not be segmented to the end.
    #[inline(always)]
    pub(in crate::mlx5) fn complete_lost<S: Sink>(&mut self, up: &mut S) {
        if !self.lost.is_empty() {
            self.lost.complete_tx(up);
        }
    }

    /// Releases what is left of a large send. Returns the number of packets.
    pub(super) fn release_segments<H: Host>(&mut self, h: &mut H) -> u64 {
        core::mem::take(&mut self.lost).release(h);
        let rest = self.segments.take();
        let packets = u64::from(rest.is_some());
        rest.into_iter().for_each(|p| p.release(h));
        packets
    }
}
