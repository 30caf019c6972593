//! Objects without commands, for this crate's own tests of the data paths: rings in one
//! piece, memory keys over all of memory, and no protection domain.

use super::super::device::Mlx5;
use super::super::queues::{Cq, Eq, Mkey, Pages, Sq};
use super::super::ring::Ring;
use super::super::{Answer, LIMIT, LOG_MAX_CQ_SZ, LOG_MAX_EQ_SZ, LOG_MAX_WQ, MAX_EQS};
use doorbell_layout::mlx5::command::Sqc;
use doorbell_layout::mlx5::{CmdStatus, CqContext, EqContext, SqContext};

impl Mlx5 {
    /// A key over all of memory.
    pub(crate) fn create_mkey(&mut self) -> Answer<u32> {
        let everything = Mkey {
            pd: 0,
            key: 0,
            start: 0,
            length: u64::MAX,
            log_page: 0,
            readable: true,
            writable: true,
            everything: true,
            free: false,
            pages: Pages::None,
        };
        Ok(self.mkeys.insert(everything, LIMIT)? << 8)
    }

    /// An event queue.
    pub(crate) fn create_eq(&mut self, c: &EqContext) -> Answer<u32> {
        check(u32::from(c.log_size) <= LOG_MAX_EQ_SZ && c.ring.is_multiple_of(4096))?;
        self.eqs.insert(Eq::new(*c, Ring::at_address(c.ring)), MAX_EQS)
    }

    /// A completion queue.
    pub(crate) fn create_cq(&mut self, c: &CqContext) -> Answer<u32> {
        check(
            u32::from(c.log_size) <= LOG_MAX_CQ_SZ
                && c.ring.is_multiple_of(4096)
                && c.dbr.is_multiple_of(8),
        )?;
        self.eqs.find(c.eqn)?;
        self.cqs.insert(Cq::new(*c, Ring::at_address(c.ring), self.cfg.polled_doorbells), LIMIT)
    }

    /// A send queue, in state RST.
    pub(crate) fn create_sq(&mut self, c: &SqContext) -> Answer<u32> {
        check(u32::from(c.log_size) <= LOG_MAX_WQ && c.ring.is_multiple_of(4096))?;
        check(c.dbr.is_multiple_of(8) && c.min_inline <= 3)?;
        self.cqs.find(c.cqn)?;
        let sq = Sq::new(*c, Ring::at_address(c.ring), 0, Some(0), &Sqc::ZERO);
        self.sqs.insert(sq, LIMIT)
    }
}

fn check(ok: bool) -> Answer {
    if ok { Ok(()) } else { Err(CmdStatus::BadParam) }
}
