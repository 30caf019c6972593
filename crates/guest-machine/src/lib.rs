//! The machine of a guest in virtual time: the laboratory's bus, device and link, driven by the
//! accesses of a guest's CPU.
//!
//! The laboratory resolves a profile to a [`Plan`]. It goes to QEMU's plug-in as text, one number a
//! line. The plug-in makes the [`Board`] of it, and moves it by QEMU's virtual clock.
//!
//! ```
//! use doorbell_guest_machine::{Card, Plan, Slot};
//! use doorbell_bus::{pci, pcie};
//! use doorbell_hal::Span;
//!
//! let link = Span::from_ns(150);
//! let plan = Plan {
//!     card: Card::Mlx5(doorbell_devices::mlx5::Config::CONNECTX),
//!     slot: Slot::Express(
//!         pcie::Settings::link(3, 16),
//!         pcie::Latencies { link, memory: Span::from_ns(250) },
//!     ),
//!     rate: 100_000_000_000,
//!     delay: Span::ZERO,
//!     addresses: ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().unwrap()),
//!     captured: Default::default(),
//! };
//! assert_eq!(Plan::parse(&plan.text())?, plan);
//! # Ok::<(), doorbell_guest_machine::PlanError>(())
//! ```

mod board;
mod bridged;
mod fields;
mod partition;
mod peer;
mod plan;
mod recorder;
mod station;

pub use board::{Board, Counts, State};
pub use doorbell_sim::traffic::Frames as Captured;
pub use doorbell_sim::traffic::Sizes;
pub use doorbell_sim::traffic::arrivals::Pattern;
pub use partition::{Adapter, Hypervisor, Partition};
pub use peer::{Frames, Seen};
pub use plan::{Card, Plan, PlanError, Slot};
pub use recorder::Recorder;
pub use station::Requests;
