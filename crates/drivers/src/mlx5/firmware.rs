//! What a channel asks the device's firmware for: objects and their states.
//!
//! [`Hca`](super::Hca) asks it by commands. Tests that look at the rings alone
//! answer it themselves.

use alloc::rc::Rc;
use core::cell::RefCell;
use doorbell_hal::Host;
use doorbell_layout::mlx5::{Caps, CmdStatus, CqContext, EqContext, SqContext, SqState};

/// Numbers of a channel's objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// Doorbell page.
    pub uar: u32,
    /// Memory key, as it stands in a WQE.
    pub lkey: u32,
    /// Event queue.
    pub eqn: u32,
    /// Completion queue of the send queue.
    pub cqn: u32,
    /// Send queue.
    pub sqn: u32,
}

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
    fn modify_sq(
        &mut self,
        h: &mut H,
        sqn: u32,
        from: SqState,
        to: SqState,
    ) -> Result<(), CmdStatus>;
    /// `QUERY_SQ`.
    fn query_sq(&mut self, h: &mut H, sqn: u32) -> Result<SqState, CmdStatus>;
    /// `DESTROY_CQ`, of one that no queue refers to.
    fn destroy_cq(&mut self, h: &mut H, cqn: u32);
    /// Ends one channel's objects, those that refer to others first. The device
    /// touches none of them afterwards.
    fn destroy(&mut self, h: &mut H, o: &Objects);
}

/// Several channels of one device share its firmware; one asks at a time.
impl<H: Host, F: Firmware<H>> Firmware<H> for Rc<RefCell<F>> {
    fn caps(&mut self, h: &mut H) -> Caps {
        self.borrow_mut().caps(h)
    }
    fn alloc_uar(&mut self, h: &mut H) -> Result<u32, CmdStatus> {
        self.borrow_mut().alloc_uar(h)
    }
    fn create_mkey(&mut self, h: &mut H) -> Result<u32, CmdStatus> {
        self.borrow_mut().create_mkey(h)
    }
    fn create_eq(&mut self, h: &mut H, c: &EqContext) -> Result<u32, CmdStatus> {
        self.borrow_mut().create_eq(h, c)
    }
    fn create_cq(&mut self, h: &mut H, c: &CqContext) -> Result<u32, CmdStatus> {
        self.borrow_mut().create_cq(h, c)
    }
    fn create_sq(&mut self, h: &mut H, c: &SqContext) -> Result<u32, CmdStatus> {
        self.borrow_mut().create_sq(h, c)
    }
    fn modify_sq(
        &mut self,
        h: &mut H,
        sqn: u32,
        from: SqState,
        to: SqState,
    ) -> Result<(), CmdStatus> {
        self.borrow_mut().modify_sq(h, sqn, from, to)
    }
    fn query_sq(&mut self, h: &mut H, sqn: u32) -> Result<SqState, CmdStatus> {
        self.borrow_mut().query_sq(h, sqn)
    }
    fn destroy_cq(&mut self, h: &mut H, cqn: u32) {
        self.borrow_mut().destroy_cq(h, cqn);
    }
    fn destroy(&mut self, h: &mut H, o: &Objects) {
        self.borrow_mut().destroy(h, o);
    }
}
