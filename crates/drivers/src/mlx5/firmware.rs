//! What the driver asks the device's firmware for: objects and their states.
//!
//! The command queue will implement this; a lab that wants queues without
//! bring-up implements it by calling the device model directly.

use doorbell_layout::mlx5::{Caps, CmdStatus, CqContext, EqContext, SqContext, SqState};
use doorbell_seam::Host;

/// The firmware, as far as one channel needs it. Ids are 24-bit numbers.
pub trait Firmware<H: Host> {
    /// `QUERY_HCA_CAP`.
    fn caps(&mut self, h: &mut H) -> Caps;
    /// `ALLOC_UAR`: the index of a doorbell page.
    fn alloc_uar(&mut self, h: &mut H) -> Result<u32, CmdStatus>;
    /// `CREATE_MKEY` over all of memory (PA mode): the lkey for data segments.
    fn create_mkey(&mut self, h: &mut H) -> Result<u32, CmdStatus>;
    /// `CREATE_EQ`.
    fn create_eq(&mut self, h: &mut H, c: &EqContext) -> Result<u32, CmdStatus>;
    /// `CREATE_CQ`.
    fn create_cq(&mut self, h: &mut H, c: &CqContext) -> Result<u32, CmdStatus>;
    /// `CREATE_SQ`, in state [`SqState::Reset`].
    fn create_sq(&mut self, h: &mut H, c: &SqContext) -> Result<u32, CmdStatus>;
    /// `MODIFY_SQ`.
    fn modify_sq(&mut self, h: &mut H, sqn: u32, from: SqState, to: SqState) -> Result<(), CmdStatus>;
    /// `QUERY_SQ`.
    fn query_sq(&mut self, h: &mut H, sqn: u32) -> Result<SqState, CmdStatus>;
    /// `DESTROY_SQ`, `DESTROY_CQ`, `DESTROY_EQ`, `DESTROY_MKEY` of one channel,
    /// in that order. The device touches none of them afterwards.
    fn destroy(&mut self, h: &mut H, sqn: u32, cqn: u32, eqn: u32, lkey: u32);
}
