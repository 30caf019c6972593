//! Doorbell pages as memory that the server polls.
//!
//! A word holds the last write alone, and all queues of a page share it: a ring says "look again".
//! The counters are in the doorbell records, which a driver writes first. A queue acts on a change
//! of its record; a CQ counts as armed from its creation. EQs have no record: see
//! [`Config::polled_doorbells`](super::Config::polled_doorbells). Polling is no DMA.
//!
//! Sources: mlx5 `en/txrx.h` mlx5e_notify_hw, linux/mlx5/cq.h mlx5_cq_arm.

use super::device::Mlx5;
use doorbell_hal::{Iova, Time};
use doorbell_layout::mlx5::SqState;

/// Of an SQ's counter, and of a CQ's arm, in their doorbell records.
const RECORD: u64 = 4;

impl Mlx5 {
    /// Acts on doorbell records that have changed; `record` reads one of them, as it stands in
    /// memory (big-endian). Returns the number of doorbells; all that one poll finds in a record
    /// are one.
    pub fn look_again(&mut self, at: Time, mut record: impl FnMut(Iova) -> Option<[u8; 4]>) -> u32 {
        let mut found = 0;
        let mut read = |dbr: u64| record(Iova(dbr) + RECORD).map(u32::from_be_bytes);
        // By their numbers: `announce` wants the whole device.
        for n in 0..self.sqs.len() {
            let Some((sqn, sq)) = self.sqs.nth_mut(n) else { continue };
            if sq.state == SqState::Reset {
                continue;
            }
            let Some(end) = read(sq.ctx.dbr).map(|v| v as u16).filter(|&end| end != sq.seen) else {
                continue;
            };
            sq.seen = end;
            self.announce(at, sqn, end);
            found += 1;
        }
        let before = found;
        for (_, cq) in self.cqs.iter_mut() {
            let Some(arm) = read(cq.ctx.dbr).filter(|&arm| arm != cq.seen) else { continue };
            cq.seen = arm;
            cq.arm(at, arm & 0xff_ffff);
            found += 1;
        }
        if found > before {
            self.find_events();
        }
        self.update_next_event();
        found
    }
}
