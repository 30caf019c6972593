//! Calls to a hypervisor, for drivers whose device lives behind one.

use crate::{Host, Time};

/// A hypervisor call number (PAPR: H_SEND_LOGICAL_LAN is 0x120).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hcall(pub u64);

/// The answer of a device to a hypervisor call, and the time at which the call is done.
pub type Reply = (HcallReturn, Time);

/// The result of a hypervisor call: the status register and the return registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HcallReturn {
    /// PAPR return code: 0 is H_SUCCESS, 1 H_BUSY, negative values are errors.
    pub status: i64,
    /// Return registers (R4 to R12).
    pub ret: [u64; 9],
}

impl HcallReturn {
    /// A bare status, all return registers zero.
    pub const fn status(status: i64) -> HcallReturn {
        HcallReturn { status, ret: [0; 9] }
    }
}

/// A host that runs under a hypervisor.
pub trait Hypervisor: Host {
    /// Makes the call; `a` are its arguments (R4 onward, nine at most). Costs
    /// what the profile says of this call, and the time of what the hypervisor
    /// does meanwhile. It sees all stores made before.
    ///
    /// # Panics
    /// Panics with more than nine arguments: that is the caller's mistake.
    fn hcall(&mut self, call: Hcall, a: &[u64]) -> HcallReturn;
}
