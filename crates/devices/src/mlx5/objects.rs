//! Objects as values: what the commands make of their messages, and what tests of
//! the data paths make directly, with rings in one piece, memory keys over all of
//! memory, and no protection domain.

use super::Config;
use super::command::unused;
use super::device::Mlx5;
use super::queues::{Cq, Eq, Mkey, Sq};
use super::ring::Ring;
use doorbell_layout::mlx5::command::Sqc;
use doorbell_layout::mlx5::{CmdStatus, CqContext, EqContext, SqContext, SqState};

/// Objects of a kind at the most.
pub(super) const LIMIT: usize = 1024;
/// EQs at the most: an arm has eight bits for the number, and it starts at 4.
pub(super) const MAX_EQS: usize = 124;
/// MSI-X vectors.
pub(super) const VECTORS: u32 = 64;
/// The BAR's 32 MiB in pages.
pub(super) const BAR_PAGES: u32 = 8192;
/// log2 of the longest work queue in entries, and of the longest CQ and EQ.
pub(super) const LOG_MAX_WQ: u32 = 15;
pub(super) const LOG_MAX_CQ_SZ: u32 = 18;
pub(super) const LOG_MAX_EQ_SZ: u32 = 18;

impl Mlx5 {
    /// What it is.
    pub fn config(&self) -> &Config {
        &self.cfg
    }

    /// The index of a doorbell page (`ALLOC_UAR`).
    pub fn alloc_uar(&mut self) -> Result<u32, CmdStatus> {
        self.uars.insert((), (BAR_PAGES - Mlx5::FIRST_UAR) as usize).ok_or(CmdStatus::NoResources)
    }

    /// A key over all of memory.
    pub fn create_mkey(&mut self) -> Result<u32, CmdStatus> {
        let n = self.mkeys.insert(Mkey::EVERYTHING, LIMIT).ok_or(CmdStatus::NoResources)?;
        Ok(n << 8)
    }

    /// An event queue.
    pub fn create_eq(&mut self, c: &EqContext) -> Result<u32, CmdStatus> {
        check(u32::from(c.log_size) <= LOG_MAX_EQ_SZ && c.ring.is_multiple_of(4096))?;
        self.eqs.insert(Eq::new(*c, Ring::at_address(c.ring)), MAX_EQS).ok_or(CmdStatus::NoResources)
    }

    /// A completion queue.
    pub fn create_cq(&mut self, c: &CqContext) -> Result<u32, CmdStatus> {
        check(u32::from(c.log_size) <= LOG_MAX_CQ_SZ && c.ring.is_multiple_of(4096) && c.dbr.is_multiple_of(8))?;
        self.eqs.get(c.eqn).ok_or(CmdStatus::BadResource)?;
        self.cqs
            .insert(Cq::new(*c, Ring::at_address(c.ring), self.cfg.polled_doorbells), LIMIT)
            .ok_or(CmdStatus::NoResources)
    }

    /// A send queue, in state RST.
    pub fn create_sq(&mut self, c: &SqContext) -> Result<u32, CmdStatus> {
        check(u32::from(c.log_size) <= LOG_MAX_WQ && c.ring.is_multiple_of(4096))?;
        check(c.dbr.is_multiple_of(8) && c.min_inline <= 3)?;
        self.cqs.get(c.cqn).ok_or(CmdStatus::BadResource)?;
        let sq = Sq::new(*c, Ring::at_address(c.ring), 0, Some(0), &Sqc::ZERO);
        self.sqs.insert(sq, LIMIT).ok_or(CmdStatus::NoResources)
    }

    /// `MODIFY_SQ`: RST to RDY, RDY to ERR, and any to RST.
    pub fn modify_sq(&mut self, sqn: u32, from: SqState, to: SqState) -> Result<(), CmdStatus> {
        let sq = self.sqs.get_mut(sqn).ok_or(CmdStatus::BadResource)?;
        if sq.state != from || (from == SqState::Error && to == SqState::Ready) {
            return Err(CmdStatus::BadResourceState);
        }
        sq.state = to;
        if to == SqState::Reset {
            sq.reset();
            self.forget(sqn);
        }
        Ok(())
    }

    /// The state of a send queue.
    pub fn query_sq(&self, sqn: u32) -> Result<SqState, CmdStatus> {
        Ok(self.sqs.get(sqn).ok_or(CmdStatus::BadResource)?.state)
    }

    /// `DESTROY_SQ`. What is in flight for it is dropped.
    pub fn destroy_sq(&mut self, sqn: u32) -> Result<(), CmdStatus> {
        self.sqs.remove(sqn).ok_or(CmdStatus::BadResource)?;
        self.forget(sqn);
        Ok(())
    }

    /// `DESTROY_CQ`. What is in flight for it is dropped.
    pub fn destroy_cq(&mut self, cqn: u32) -> Result<(), CmdStatus> {
        self.cqs.get(cqn).ok_or(CmdStatus::BadResource)?;
        unused(self.rx.uses_cq(cqn) || self.sqs.iter().any(|(_, sq)| sq.ctx.cqn == cqn))?;
        self.cqs.remove(cqn);
        self.forget_cq(cqn);
        Ok(())
    }

    /// `DESTROY_EQ`.
    pub fn destroy_eq(&mut self, eqn: u32) -> Result<(), CmdStatus> {
        self.eqs.get(eqn).ok_or(CmdStatus::BadResource)?;
        unused(self.cqs.iter().any(|(_, cq)| cq.ctx.eqn == eqn))?;
        self.eqs.remove(eqn);
        Ok(())
    }

    /// `DESTROY_MKEY`.
    pub fn destroy_mkey(&mut self, lkey: u32) -> Result<(), CmdStatus> {
        self.mkeys.remove(lkey >> 8).map(|_| ()).ok_or(CmdStatus::BadResource)
    }
}

fn check(ok: bool) -> Result<(), CmdStatus> {
    if ok { Ok(()) } else { Err(CmdStatus::BadParam) }
}
