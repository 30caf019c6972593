//! Interrupt moderation: when a NIC should interrupt, decided from what it did.
//!
//! A NIC that interrupts for every packet costs the CPU dearly; one that waits
//! makes packets late. What to wait for, a time or a number of packets, is a
//! [`Setting`]. A [`Controller`] reads a queue's counters at the end of each poll,
//! a [`Sample`], and says when the setting should change:
//!
//! | controller | decides by | source |
//! |---|---|---|
//! | [`NetDim`] | hill climbing over five profiles | Linux `lib/dim/net_dim.c` |
//! | [`RdmaDim`] | the same idea for completion queues, nine profiles | Linux `lib/dim/rdma_dim.c` |
//! | [`ItrClasses`] | three traffic classes, each a rate | Linux e1000, `e1000_set_itr` |
//! | [`Trains`] | whether packets come one behind the other | ours: see [`trains`] |
//! | [`Fixed`] | nothing | `ethtool -C` |
//!
//! The profiles that `NetDim` climbs are a table of their own ([`profiles`]):
//! Linux's defaults, a device's, or one computed from the speed and MTU of the
//! link ([`Link`]).
//!
//! ```
//! use doorbell_moderation::{Controller, Direction, Flow, NetDim, Period, Sample, profiles};
//!
//! let table = profiles::linux(Direction::Rx, Period::Event);
//! let mut dim = NetDim::new(table, Direction::Rx);
//! // At the end of each poll, with the driver's own counters:
//! for poll in 1..=65 {
//!     let rx = Flow { packets: poll * 10, bytes: poll * 10_000 };
//!     let sample = Sample { time_ns: poll * 50_000, events: poll, rx, ..Sample::default() };
//!     if let Some(setting) = dim.sample(&sample) {
//!         // ... tell the device: after `setting.delay_ns`, or `setting.packets` ...
//!         dim.applied();
//!         assert_eq!((poll, setting.usec()), (65, 1));
//!     }
//! }
//! ```
//!
//! The crate stands alone: `no_std`, no allocation, no dependency, integers only.
//! A controller is a plain value of some 100 bytes, one for each queue. The same
//! samples always give the same settings: no clock is read here.
#![no_std]
#![forbid(unsafe_code)]

mod controller;
mod epoch;
mod itr_classes;
mod link;
mod net_dim;
pub mod profiles;
mod rdma_dim;
pub mod trains;

pub use controller::{Controller, Direction, Fixed, Flow, Period, Sample, Setting};
pub use epoch::{EVENTS_PER_EPOCH, State, Tune};
pub use itr_classes::{Class, ItrClasses, ItrMode};
pub use link::{Limits, Link};
pub use net_dim::NetDim;
pub use rdma_dim::RdmaDim;
pub use trains::Trains;
