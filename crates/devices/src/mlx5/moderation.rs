//! The moderation of events, as an observer of the device sees it.

use super::device::Mlx5;

impl Mlx5 {
    /// Returns the moderation in force of a receive queue's CQ, of the one that has written most
    /// entries: the entries until an event, and the microseconds.
    pub fn receive_moderation(&self) -> Option<(u16, u16)> {
        let queues = self.rx.rqs.iter().filter_map(|(_, rq)| self.cqs.get(rq.ctx.cqn));
        queues.max_by_key(|cq| cq.pi).map(|cq| (cq.ctx.max_count, cq.ctx.period_us))
    }
}
