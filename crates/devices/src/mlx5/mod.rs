//! ConnectX-5 and later, Ethernet: a device that an unmodified Linux mlx5_core drives.
//!
//! Sources: the interface that linux drivers/net/ethernet/mellanox/mlx5 expects
//! of the hardware (cmd.c, main.c, en_tx.c, en/txrx.h, eq.c, cq.c, reporter_tx.c;
//! mlx5_ifc.h); the public programmer's reference for names. How the silicon does
//! it inside is not public: what is assumed is a [`Config`] value, so that it can be
//! varied.
//!
//! BAR0 has the initialization segment, through which commands come (`command`: every
//! object is made by one), and doorbell pages. What comes from the wire is in
//! [`receive`], where it goes in [`steering`] and [`rss`]. The transmit data path:
//!
//! ```text
//! doorbell -> announced -> [fetch: reads of WQEs, round robin over SQs]
//!          -> chunks in order of arrival -> [execute: one packet after another,
//!             reads of data, a limited number outstanding]
//!          -> checksum, segmentation -> wire, in order -> CQE -> (moderation) EQE -> MSI-X
//! ```
//!
//! **A doorbell** is the first 8 bytes of the last announced WQE. It announces
//! everything up to that WQE's end, also WQEs that ask for no completion. The
//! doorbell record is not read: it may be ahead, or left over from before a reset.
//!
//! **Fetch** reads at most [`Config::fetch_chunk`] bytes at a time, and at most
//! [`Config::fetch_ahead`] bytes before they are executed. With
//! [`Config::refetch`], a WQE that the end of a chunk cut is read again whole.
//!
//! **Execute** takes packets in order. Each data segment is one read; at most
//! [`Config::reads_outstanding`] are in flight. Frames leave in order, at the
//! port's rate. A WQE's completion is written when its last frame has left.
//!
//! **Errors** are per queue: the WQE gets an error CQE, the queue goes to ERR, and
//! every later WQE that asks for a CQE gets one that says "flushed", until the
//! driver takes the queue through RST.
//!
//! **Rings** are lists of pages, and lie wherever the driver's pages do. **Memory keys**
//! are looked up for every data segment: domain, low byte, direction, and range.
//!
//! **After its end** an object is not touched: destroying it, `TEARDOWN_HCA` and a
//! function reset drop what is in flight for it before they are answered.

mod command;
mod config;
mod device;
#[cfg(test)]
mod direct;
#[cfg(test)]
mod frames;
mod loopback;
mod objects;
mod offload;
mod polled;
mod queues;
pub mod receive;
mod registers;
mod ring;
pub mod rss;
pub mod steering;
mod transmit;

pub use command::{CommandCounters, Unknown};
pub use config::Config;
pub use device::{Counters, Mlx5};
use objects::{LIMIT, LOG_MAX_CQ_SZ, LOG_MAX_EQ_SZ, LOG_MAX_WQ, MAX_EQS, VECTORS};
