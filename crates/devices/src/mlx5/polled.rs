//! Doorbell pages as memory that somebody looks at.
//!
//! A served device's pages can be memory that the guest writes without leaving its CPU. A word
//! then holds the last write alone, and all queues of a page share its words: a ring says
//! "look again", no more. What was rung is in the doorbell records, which a driver writes first
//! (mlx5 `en/txrx.h` mlx5e_notify_hw, linux/mlx5/cq.h mlx5_cq_arm):
//!
//! * An SQ's has the counter after its last WQE: what a doorbell announces. After RST the old value
//!   stays in it until the next ring, so a queue acts on a *change*.
//! * A CQ's has the arm: sequence number, command and consumer counter. The number moves with every
//!   event, so an arm after an event is a change. The first one of all, with number and counter
//!   zero, is none; so a CQ counts as armed from its creation.
//! * EQs have no record: see [`Config::polled_doorbells`](super::Config::polled_doorbells).
//!
//! The looking is the server's, not the device's: it is no DMA, and in no ledger.

use super::device::Mlx5;
use doorbell_hal::{Iova, Time};
use doorbell_layout::mlx5::SqState;

/// Of an SQ's counter, and of a CQ's arm, in their doorbell records.
const RECORD: u64 = 4;

impl Mlx5 {
    /// Does what the doorbell records say that has not been done; `record` reads one of them, as it
    /// stands in memory (big-endian). How many doorbells that were; those that one look found
    /// together are one.
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
        self.look_ahead();
        found
    }
}
