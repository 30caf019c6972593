//! The moderation of events, as an observer of the device sees it.

use super::device::Mlx5;

impl Mlx5 {
    /// Returns the moderation of a receive queue's CQ in force, of the one that has written most
    /// entries: of how many entries it speaks at once, and after how many microseconds of fewer.
    pub fn receive_moderation(&self) -> Option<(u16, u16)> {
        let queues = self.rx.rqs.iter().filter_map(|(_, rq)| self.cqs.get(rq.ctx.cqn));
        queues.max_by_key(|cq| cq.pi).map(|cq| (cq.ctx.max_count, cq.ctx.period_us))
    }
}
