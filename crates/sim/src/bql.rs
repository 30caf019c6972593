//! The byte limit of a transmit queue (BQL), as a stack keeps to it.
//!
//! A queueing discipline hands over packets in batches (linux net/sched/sch_generic.c). It begins
//! none while the queue is over its limit (`netif_xmit_frozen_or_stopped`), and it ends one when
//! the bytes of it reach what the limit had left at its beginning (`try_bulk_dequeue_skb`). The
//! limit itself is kept by the driver's calls ([`doorbell_drivers::Bql`]).
//!
//! pktgen is no such stack: it calls the driver directly and looks at nothing but the driver's own
//! stop (net/core/pktgen.c, `netif_xmit_frozen_or_drv_stopped`).

use doorbell_drivers::Driver;
use doorbell_hal::Host;

/// Returns whether the stack waits for a driver's queue: it is stopped, or over its byte limit. A
/// watchdog checks the same (`netif_xmit_stopped`).
pub fn is_stopped<H: Host>(driver: &impl Driver<H>) -> bool {
    driver.stopped() || driver.byte_room() < 0
}

/// A batch of packets on its way to a driver.
#[derive(Clone, Copy, Debug, Default)]
pub struct Batch {
    /// Bytes that may still join it. `None` between batches.
    room: Option<i64>,
}

impl Batch {
    /// Returns whether the next packet may go to a driver whose byte limit leaves `room`: one of a
    /// batch that has begun always may.
    pub fn may_go(&mut self, room: i32) -> bool {
        if self.room.is_none() && room >= 0 {
            self.room = Some(i64::from(room));
        }
        self.room.is_some()
    }

    /// Ends the batch, because nothing waits.
    pub fn end(&mut self) {
        self.room = None;
    }

    /// Counts a packet of `len` bytes that goes, with `more` waiting behind it. Returns whether the
    /// next one belongs to the same batch.
    pub fn goes(&mut self, len: u32, more: bool) -> bool {
        let left = self.room.unwrap_or(0) - i64::from(len);
        self.room = (more && left > 0).then_some(left);
        self.room.is_some()
    }
}

#[cfg(test)]
mod tests;
