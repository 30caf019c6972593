//! The firmware's interface to a channel: objects and their states. [`Hca`](super::Hca) uses
//! commands; tests of the rings answer themselves.

use super::Answer;
use alloc::{rc::Rc, vec::Vec};
use core::cell::RefCell;
use doorbell_hal::Host;
use doorbell_layout::mlx5::receive::{RqContext, RqState};
use doorbell_layout::mlx5::{Caps, CmdStatus, CqContext, EqContext, SqContext, SqState};

/// The numbers of a channel's objects: those that exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// Doorbell page.
    pub uar: Option<u32>,
    /// Memory key, as it stands in a WQE.
    pub lkey: Option<u32>,
    /// That of the pages that UMRs map.
    pub page_key: Option<u32>,
    /// Event queue.
    pub eqn: Option<u32>,
    /// That of the second port's channel.
    pub second_eqn: Option<u32>,
    /// Completion queues, the send queue's first.
    pub cqns: Vec<u32>,
    /// Send queues, that of packets first.
    pub sqns: Vec<u32>,
    /// Receive queue.
    pub rqn: Option<u32>,
}

/// The firmware commands that a channel needs. Ids are 24-bit numbers.
pub trait Firmware<H: Host> {
    /// `QUERY_HCA_CAP`.
    fn caps(&mut self, h: &mut H) -> Caps;
    /// `ALLOC_UAR`. Returns the index of a doorbell page.
    fn alloc_uar(&mut self, h: &mut H) -> Answer<u32>;
    /// `CREATE_MKEY` over all of memory (PA mode). Returns the lkey for data segments.
    fn create_mkey(&mut self, h: &mut H) -> Answer<u32>;
    /// `CREATE_MKEY` for so many pages that UMRs map. Returns the lkey; without the capability it
    /// is refused.
    fn create_page_key(&mut self, _h: &mut H, _pages: u32) -> Answer<u32> {
        Err(CmdStatus::BadOp)
    }
    /// `CREATE_EQ`.
    fn create_eq(&mut self, h: &mut H, c: &EqContext) -> Answer<u32>;
    /// `CREATE_CQ`.
    fn create_cq(&mut self, h: &mut H, c: &CqContext) -> Answer<u32>;
    /// `MODIFY_CQ`: its moderation, in microseconds and completions.
    fn moderate_cq(&mut self, _h: &mut H, _cqn: u32, _period_us: u16, _max_count: u16) -> Answer {
        Err(CmdStatus::BadOp)
    }
    /// `CREATE_SQ`, in state [`SqState::Reset`].
    fn create_sq(&mut self, h: &mut H, c: &SqContext) -> Answer<u32>;
    /// `MODIFY_SQ`.
    fn modify_sq(&mut self, h: &mut H, sqn: u32, from: SqState, to: SqState) -> Answer;
    /// `QUERY_SQ`.
    fn query_sq(&mut self, h: &mut H, sqn: u32) -> Answer<SqState>;
    /// `CREATE_RQ`, in state [`RqState::Reset`].
    fn create_rq(&mut self, h: &mut H, c: &RqContext) -> Answer<u32>;
    /// `MODIFY_RQ`.
    fn modify_rq(&mut self, h: &mut H, rqn: u32, from: RqState, to: RqState) -> Answer;
    /// Destroys a channel's objects, those that refer to others first. The device uses none of them
    /// afterwards.
    fn destroy(&mut self, h: &mut H, o: &Objects);
}

/// Forwards methods to the value in a cell.
macro_rules! forward {
    ($($method:ident($($arg:ident: $type:ty),*) -> $result:ty,)*) => {
        $(fn $method(&mut self, h: &mut H, $($arg: $type),*) -> $result {
            self.borrow_mut().$method(h, $($arg),*)
        })*
    };
}

/// The firmware that several channels share.
impl<H: Host, F: Firmware<H>> Firmware<H> for Rc<RefCell<F>> {
    forward! {
        caps() -> Caps,
        alloc_uar() -> Answer<u32>,
        create_mkey() -> Answer<u32>,
        create_page_key(pages: u32) -> Answer<u32>,
        create_eq(c: &EqContext) -> Answer<u32>,
        create_cq(c: &CqContext) -> Answer<u32>,
        moderate_cq(cqn: u32, period_us: u16, max_count: u16) -> Answer,
        create_sq(c: &SqContext) -> Answer<u32>,
        modify_sq(sqn: u32, from: SqState, to: SqState) -> Answer,
        query_sq(sqn: u32) -> Answer<SqState>,
        create_rq(c: &RqContext) -> Answer<u32>,
        modify_rq(rqn: u32, from: RqState, to: RqState) -> Answer,
        destroy(o: &Objects) -> (),
    }
}
