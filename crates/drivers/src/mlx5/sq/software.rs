//! Large sends that the device does not take: segmented here, as the stack does it.

use super::{DmaEntry, Sq};
use crate::common::{Plan, Room, Segment, SegmentQueue, SendSegments, plan};
use crate::{Sink, Tx};
use doorbell_hal::Host;
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
        self.send_segments(h, &mut (), more).map_or(Tx::Ok, Tx::Dropped)
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
        if let Some(p) = self.send_segments(h, &mut (), false) {
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

impl<H: Host> SendSegments<H> for Sq {
    fn segments(&mut self) -> &mut SegmentQueue {
        &mut self.segments
    }

    fn room(&mut self, h: &mut H, (): &mut ()) -> Room {
        if !self.halted() {
            return Room::Left;
        }
        self.stats.stopped += u64::from(!self.stopped);
        self.set_stopped(true);
        self.flush(h);
        Room::Full
    }

    fn send_segment(&mut self, h: &mut H, (): &mut (), s: Segment, more: bool) -> Tx {
        let sent = self.transmit(h, s.packet, more);
        if sent == Tx::Ok && !s.last {
            self.mark_segment(h);
        }
        sent
    }

    fn drop_rest(&mut self, h: &mut H, (): &mut ()) {
        self.count_drop(h, false);
    }
}
