//! Simulated time: schedulers of cores, the link, traffic sources and faults.
//!
//! There are two schedulers, because they answer different questions. [`scheduler`] runs an open
//! loop: a core calls its driver in bursts, and nothing competes for the core. [`napi`] runs
//! interrupts, softirq, timers and system calls of Linux that compete for it, and sends after the
//! poll. A generator has no sockets, timers or softirq: as an endpoint of [`napi`] it would take
//! steps that are not its own.
//!
//! ```
//! use doorbell_hal::Span;
//! use doorbell_sim::histogram::Histogram;
//!
//! let mut latencies = Histogram::default();
//! (1..=1000).for_each(|ns| latencies.record(Span::from_ns(ns)));
//! let median = latencies.quantile(500).unwrap();
//! assert!((485..=515).contains(&(median.ps() / 1000)));
//! ```
#![forbid(unsafe_code)]

pub mod bql;
pub mod fault;
pub mod histogram;
pub mod link;
pub mod napi;
pub mod scheduler;
pub mod standstill;
pub mod traffic;
pub mod watch;

pub use watch::{Recording, Unwatched, Watch};
