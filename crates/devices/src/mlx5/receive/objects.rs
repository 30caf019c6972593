//! Receive queues, TIRs and RQTs as the commands make and change them. Checks and
//! statuses are the firmware's.

use super::super::command::unused;
use super::super::device::Mlx5;
use super::super::ring::Ring;
use super::super::rss::{Dispatch, LOG_MAX_RQT, Rqt, Tir, TirContext};
use super::super::steering::Destination;
use super::{Rq, RxError};
use alloc::vec::Vec;
use doorbell_layout::mlx5::CmdStatus;
use doorbell_layout::mlx5::command::Rqc;
use doorbell_layout::mlx5::receive::{RqContext, RqState};

/// Objects of a kind at the most.
const LIMIT: usize = 1024;
/// log2 of the longest receive queue in WQEs, and of the longest WQE in bytes.
pub(in super::super) const LOG_MAX_RQ: u8 = 15;
pub(in super::super) const LOG_MAX_STRIDE: u8 = 10;

impl Mlx5 {
    /// `CREATE_RQ`, in state RST.
    #[cfg(test)]
    pub(crate) fn create_rq(&mut self, c: &RqContext) -> Result<u32, CmdStatus> {
        check(c.log_size <= LOG_MAX_RQ && (4..=LOG_MAX_STRIDE).contains(&c.log_stride))?;
        check(c.ring.is_multiple_of(4096) && c.dbr.is_multiple_of(4))?;
        self.cqs.find(c.cqn)?;
        self.install_rq(c, Ring::at_address(c.ring), &Rqc::ZERO)
    }

    /// The same with a ring in pages, as the command describes it.
    pub(in super::super) fn install_rq(
        &mut self,
        c: &RqContext,
        ring: Ring,
        context: &Rqc,
    ) -> Result<u32, CmdStatus> {
        let rq = Rq::new(*c, ring, context, self.cfg.rx_fetch_chunk);
        self.rx.rqs.insert(rq, LIMIT)
    }

    /// `MODIFY_RQ`: RST to RDY, anything to ERR or RST.
    pub(crate) fn modify_rq(
        &mut self,
        rqn: u32,
        from: RqState,
        to: RqState,
    ) -> Result<(), CmdStatus> {
        let rq = self.rx.rqs.find_mut(rqn)?;
        if rq.state != from || (from == RqState::Error && to == RqState::Ready) {
            return Err(CmdStatus::BadResourceState);
        }
        rq.state = to;
        match to {
            RqState::Reset => {
                rq.reset();
                self.rx.purge(rqn);
            }
            RqState::Error if from == RqState::Ready && rq.ctx.flush_in_error => {
                self.rx.pending_errors.push_back((self.rx.now, rqn, RxError::Flush));
            }
            _ => {}
        }
        self.update_next_event();
        Ok(())
    }

    /// `MODIFY_RQ` with `modify_bitmask` `vsd`: whether tags stay in the frame.
    #[cfg(test)]
    pub(crate) fn keep_vlan(&mut self, rqn: u32, keep: bool) -> Result<(), CmdStatus> {
        self.rx.rqs.find_mut(rqn)?.ctx.keep_vlan = keep;
        Ok(())
    }

    /// `QUERY_RQ`.
    #[cfg(test)]
    pub(crate) fn query_rq(&self, rqn: u32) -> Result<RqState, CmdStatus> {
        Ok(self.rx.rqs.find(rqn)?.state)
    }

    /// `DESTROY_RQ`; no TIR or RQT may name it. Work in flight for it is dropped.
    pub(crate) fn destroy_rq(&mut self, rqn: u32) -> Result<(), CmdStatus> {
        self.rx.rqs.find(rqn)?;
        let direct = self.rx.tirs.iter().any(|(_, t)| t.ctx.dispatch == Dispatch::Direct(rqn));
        unused(direct || self.rx.rqts.iter().any(|(_, t)| t.rqns.contains(&rqn)))?;
        self.rx.rqs.take(rqn)?;
        self.rx.purge(rqn);
        self.update_next_event();
        Ok(())
    }

    /// `CREATE_RQT`: an indirection table of these receive queues.
    pub(crate) fn create_rqt(&mut self, rqns: Vec<u32>) -> Result<u32, CmdStatus> {
        check(is_table(&rqns))?;
        self.rx.rqts.insert(Rqt { rqns }, LIMIT)
    }

    /// `MODIFY_RQT`: other queues.
    pub(crate) fn modify_rqt(&mut self, rqtn: u32, rqns: Vec<u32>) -> Result<(), CmdStatus> {
        check(is_table(&rqns))?;
        self.rx.rqts.find_mut(rqtn)?.rqns = rqns;
        Ok(())
    }

    /// `DESTROY_RQT`; no TIR may use it.
    pub(crate) fn destroy_rqt(&mut self, rqtn: u32) -> Result<(), CmdStatus> {
        self.rx.rqts.find(rqtn)?;
        unused(self.rx.tirs.iter().any(|(_, t)| t.ctx.dispatch == Dispatch::Indirect(rqtn)))?;
        self.rx.rqts.take(rqtn).map(|_| ())
    }

    /// `CREATE_TIR`.
    pub(crate) fn create_tir(&mut self, c: &TirContext) -> Result<u32, CmdStatus> {
        self.has_target(c)?;
        let n = self.rx.tirs.insert(Tir::new(*c), LIMIT)?;
        self.find_own_addresses();
        Ok(n)
    }

    /// `QUERY_TIR`: what a modification starts from.
    pub(crate) fn query_tir(&self, tirn: u32) -> Result<TirContext, CmdStatus> {
        Ok(self.rx.tirs.find(tirn)?.ctx)
    }

    /// `MODIFY_TIR`: as the context says.
    pub(crate) fn modify_tir(&mut self, tirn: u32, c: &TirContext) -> Result<(), CmdStatus> {
        self.has_target(c)?;
        *self.rx.tirs.find_mut(tirn)? = Tir::new(*c);
        self.find_own_addresses();
        Ok(())
    }

    /// `DESTROY_TIR`; no entry may name it.
    pub(crate) fn destroy_tir(&mut self, tirn: u32) -> Result<(), CmdStatus> {
        self.rx.tirs.find(tirn)?;
        unused(self.rx.steering.names(Destination::Tir(tirn)))?;
        self.rx.tirs.take(tirn)?;
        self.find_own_addresses();
        Ok(())
    }

    fn has_target(&self, c: &TirContext) -> Result<(), CmdStatus> {
        let is_there = match c.dispatch {
            Dispatch::Direct(rqn) => self.rx.rqs.get(rqn).is_some(),
            Dispatch::Indirect(rqtn) => self.rx.rqts.get(rqtn).is_some(),
        };
        if is_there { Ok(()) } else { Err(CmdStatus::BadResource) }
    }
}

/// Returns true if an RQT may be so. The queues need not exist: Linux fills a table with the drop
/// queue's number first.
fn is_table(rqns: &[u32]) -> bool {
    !rqns.is_empty() && rqns.len() <= 1 << LOG_MAX_RQT
}

fn check(ok: bool) -> Result<(), CmdStatus> {
    if ok { Ok(()) } else { Err(CmdStatus::BadParam) }
}
