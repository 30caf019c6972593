//! ConnectX-5 and later, Ethernet: send WQEs, completion and event queue entries,
//! the doorbell page, the initialization segment, and the firmware commands with
//! the contexts that objects are created from.
//!
//! Everything in host memory and in BAR0 is big-endian. The unit of a WQE is the data segment (DS,
//! 16 bytes); the unit of a send queue is the basic block (WQEBB, 64 bytes, 4 DS). Names follow
//! linux/mlx5/{device,qp,cq}.h and, for commands, mlx5_ifc.h.

pub mod command;
mod context;
mod offload;
mod queue;
pub mod receive;
pub mod steering;
mod wqe;

pub use context::*;
pub use offload::can;
pub use queue::*;
pub use wqe::*;

/// Returns the name of what lies at `offset` in BAR 0: the initialization segment, then doorbell
/// pages, of which all have the same names.
pub fn register_name(offset: u32) -> Option<&'static str> {
    use command::init_segment;
    match (offset < init_segment::LEN, offset % uar::PAGE) {
        (true, _) => crate::name_of(offset, init_segment::NAMES),
        // Two doorbells by turns, of two sizes of pages.
        (false, uar::SEND..0xc00) => Some("SEND"),
        (false, offset) => crate::name_of(offset, uar::NAMES),
    }
}
