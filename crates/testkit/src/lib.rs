//! Hosts, buses and clients for tests; no product links them.
//!
//! [`DirectHost`] passes every access straight to the device, [`ConstantLatencyBus`] takes the same
//! time for each, [`Reorder`] is a machine that reorders stores as a weakly ordered CPU does,
//! [`Hostile`] one whose device lies, [`LeakCheckHost`] one that counts what it lends,
//! [`lingering()`] a connection that is slow to close, [`qtest`] a machine inside QEMU,
//! and [`vfio_user`] the client of a served device.
//! [`mlx5`] drives the device of that name without a driver. [`forgotten()`] finds test files that
//! are in no program.

pub mod constant_latency;
pub mod direct;
mod forgotten;
pub mod hostile;
mod leak_check;
pub mod lingering;
pub mod mlx5;
pub mod qtest;
pub mod reorder;
pub mod vfio_user;

pub use constant_latency::ConstantLatencyBus;
pub use direct::{DirectHost, NoDevice};
pub use forgotten::forgotten;
pub use hostile::Hostile;
pub use leak_check::LeakCheckHost;
pub use lingering::lingering;
pub use reorder::Reorder;
