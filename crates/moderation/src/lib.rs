#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

mod controller;
mod epoch;
mod itr_classes;
mod link;
mod net_dim;
pub mod profiles;
mod rdma_dim;
mod trains;

pub use controller::{Controller, Direction, Fixed, Flow, Period, Sample, Setting};
pub use epoch::{EVENTS_PER_EPOCH, State, Tune};
pub use itr_classes::{Class, ItrClasses, ItrMode};
pub use link::{Limits, Link};
pub use net_dim::NetDim;
pub use rdma_dim::RdmaDim;
pub use trains::Trains;
