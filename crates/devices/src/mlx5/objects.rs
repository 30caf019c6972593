//! Objects changed and destroyed by commands, and their limits.

use super::{Config, command::unused, device::Mlx5};
use doorbell_layout::mlx5::{CmdStatus, SqState};

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
    /// Returns its configuration.
    pub fn config(&self) -> &Config {
        &self.cfg
    }

    /// The index of a doorbell page (`ALLOC_UAR`).
    pub(crate) fn alloc_uar(&mut self) -> Result<u32, CmdStatus> {
        self.uars.insert((), (BAR_PAGES - Mlx5::FIRST_UAR) as usize)
    }

    /// `MODIFY_SQ`: RST to RDY, RDY to ERR, and any to RST.
    pub(crate) fn modify_sq(
        &mut self,
        sqn: u32,
        from: SqState,
        to: SqState,
    ) -> Result<(), CmdStatus> {
        let sq = self.sqs.find_mut(sqn)?;
        if sq.state != from || (from == SqState::Error && to == SqState::Ready) {
            return Err(CmdStatus::BadResourceState);
        }
        sq.state = to;
        if to == SqState::Reset {
            sq.reset();
            self.purge(sqn);
        }
        Ok(())
    }

    /// `DESTROY_SQ`. Work in flight for it is dropped.
    pub(crate) fn destroy_sq(&mut self, sqn: u32) -> Result<(), CmdStatus> {
        self.sqs.take(sqn)?;
        self.purge(sqn);
        Ok(())
    }

    /// `DESTROY_CQ`. Work in flight for it is dropped.
    pub(crate) fn destroy_cq(&mut self, cqn: u32) -> Result<(), CmdStatus> {
        self.cqs.find(cqn)?;
        unused(self.rx.uses_cq(cqn) || self.sqs.iter().any(|(_, sq)| sq.ctx.cqn == cqn))?;
        self.cqs.remove(cqn);
        self.purge_cq(cqn);
        Ok(())
    }

    /// `DESTROY_EQ`.
    pub(crate) fn destroy_eq(&mut self, eqn: u32) -> Result<(), CmdStatus> {
        self.eqs.find(eqn)?;
        unused(self.cqs.iter().any(|(_, cq)| cq.ctx.eqn == eqn))?;
        self.eqs.remove(eqn);
        Ok(())
    }

    /// `DESTROY_MKEY`.
    pub(crate) fn destroy_mkey(&mut self, lkey: u32) -> Result<(), CmdStatus> {
        self.mkeys.take(lkey >> 8).map(|_| ())
    }
}
