//! Objects by direct call: what the command interface will do on the driver's
//! behalf. Checks and statuses are the firmware's.

use super::device::Mlx5;
use super::queues::{Cq, Eq, Sq};
use doorbell_layout::mlx5::{Caps, CmdStatus, CqContext, EqContext, SqContext, SqState};

/// Objects of a kind at the most.
const LIMIT: usize = 1024;
/// EQs at the most: an arm has eight bits for the number, and it starts at 4.
const EQ_LIMIT: usize = 252;
/// The BAR's 32 MiB in pages.
const BAR_PAGES: u32 = 8192;
/// log2 of the longest send queue in blocks, and of the longest CQ and EQ.
const LOG_MAX_SQ: u8 = 15;
const LOG_MAX_RING: u8 = 22;

impl Mlx5 {
    /// `QUERY_HCA_CAP`.
    pub fn caps(&self) -> Caps {
        self.cfg.caps
    }

    /// `ALLOC_UAR`: the index of a doorbell page.
    pub fn alloc_uar(&mut self) -> Result<u32, CmdStatus> {
        if Mlx5::FIRST_UAR + self.uars == BAR_PAGES {
            return Err(CmdStatus::NoResources);
        }
        self.uars += 1;
        Ok(Mlx5::FIRST_UAR + self.uars - 1)
    }

    /// `CREATE_MKEY` over all of memory: the key for data segments.
    pub fn create_mkey(&mut self) -> Result<u32, CmdStatus> {
        let n = self.mkeys.insert((), LIMIT).ok_or(CmdStatus::NoResources)?;
        Ok(n << 8)
    }

    /// `CREATE_EQ`.
    pub fn create_eq(&mut self, c: &EqContext) -> Result<u32, CmdStatus> {
        check(c.log_size <= LOG_MAX_RING && c.ring.is_multiple_of(4096))?;
        self.eqs.insert(Eq::new(*c), EQ_LIMIT).ok_or(CmdStatus::NoResources)
    }

    /// `CREATE_CQ`.
    pub fn create_cq(&mut self, c: &CqContext) -> Result<u32, CmdStatus> {
        check(c.log_size <= LOG_MAX_RING && c.ring.is_multiple_of(4096) && c.dbr.is_multiple_of(8))?;
        self.eqs.get(c.eqn).ok_or(CmdStatus::BadResource)?;
        self.cqs.insert(Cq::new(*c), LIMIT).ok_or(CmdStatus::NoResources)
    }

    /// `CREATE_SQ`, in state RST.
    pub fn create_sq(&mut self, c: &SqContext) -> Result<u32, CmdStatus> {
        check(c.log_size <= LOG_MAX_SQ && c.ring.is_multiple_of(4096) && c.dbr.is_multiple_of(8) && c.min_inline <= 3)?;
        self.cqs.get(c.cqn).ok_or(CmdStatus::BadResource)?;
        self.sqs.insert(Sq::new(*c), LIMIT).ok_or(CmdStatus::NoResources)
    }

    /// `MODIFY_SQ`: RST to RDY, anything to ERR or RST.
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

    /// `QUERY_SQ`.
    pub fn query_sq(&self, sqn: u32) -> Result<SqState, CmdStatus> {
        Ok(self.sqs.get(sqn).ok_or(CmdStatus::BadResource)?.state)
    }

    /// `DESTROY_SQ`. What is in flight for it is dropped.
    pub fn destroy_sq(&mut self, sqn: u32) -> Result<(), CmdStatus> {
        self.sqs.remove(sqn).ok_or(CmdStatus::BadResource)?;
        self.forget(sqn);
        Ok(())
    }

    /// `DESTROY_CQ`.
    pub fn destroy_cq(&mut self, cqn: u32) -> Result<(), CmdStatus> {
        if self.rx.uses_cq(cqn) || self.sqs.iter().any(|(_, sq)| sq.ctx.cqn == cqn) {
            return Err(CmdStatus::ResourceBusy);
        }
        self.cqs.remove(cqn).ok_or(CmdStatus::BadResource)?;
        self.forget_cq(cqn);
        Ok(())
    }

    /// `DESTROY_EQ`.
    pub fn destroy_eq(&mut self, eqn: u32) -> Result<(), CmdStatus> {
        if self.cqs.iter().any(|(_, cq)| cq.ctx.eqn == eqn) {
            return Err(CmdStatus::ResourceBusy);
        }
        self.eqs.remove(eqn).ok_or(CmdStatus::BadResource)?;
        Ok(())
    }

    /// `DESTROY_MKEY`.
    pub fn destroy_mkey(&mut self, lkey: u32) -> Result<(), CmdStatus> {
        self.mkeys.remove(lkey >> 8).ok_or(CmdStatus::BadResource)
    }
}

fn check(ok: bool) -> Result<(), CmdStatus> {
    if ok { Ok(()) } else { Err(CmdStatus::BadParam) }
}
