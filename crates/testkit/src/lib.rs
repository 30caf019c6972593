//! Hosts, buses and clients for tests; no product links them.
//!
//! [`DirectHost`] passes every access straight to the device, [`ConstantLatencyBus`] takes the same
//! time for each, [`Reorder`] is a machine that reorders stores as a weakly ordered CPU does,
//! [`Hostile`] one whose device lies, [`lingering()`] a connection that is slow to close, and
//! [`qtest`] a machine inside QEMU.

pub mod constant_latency;
pub mod direct;
pub mod hostile;
pub mod lingering;
pub mod qtest;
pub mod reorder;

pub use constant_latency::ConstantLatencyBus;
pub use direct::{DirectHost, NoDevice};
pub use hostile::Hostile;
pub use lingering::lingering;
pub use reorder::Reorder;

/// Moves `state` on. Returns the next number of its sequence (SplitMix64).
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
