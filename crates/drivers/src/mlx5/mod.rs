//! ConnectX-5 and later, Ethernet: the function, and the transmit side of its channels.
//!
//! Sources: linux drivers/net/ethernet/mellanox/mlx5/core/en_tx.c, en/txrx.h, en/reporter_tx.c,
//! cmd.c, main.c (behaviour, 5.10 and 6.x).
//!
//! An [`Hca`] is the function: it brings the device up by firmware commands and creates the objects
//! of its channels, which reach it through the trait [`Firmware`]. A channel has a send queue (SQ),
//! its completion queue (CQ), an event queue (EQ) behind its interrupt, and the other CQs of Linux's
//! channel ([`Cqs`]), which stay empty but are armed by each poll.
//!
//! # Sessions
//!
//! With [`Config::mpwqe`] off, each packet has a SEND WQE of one 64-byte block. With it on, packets
//! that are linear, untagged and need nothing inlined share an Enhanced MPWQE: 16 bytes each behind
//! 32 shared ones. A session opens with the first such packet. It closes when it is full, before a
//! packet with another Ethernet segment or one that cannot join, and at the end of the batch, with
//! the doorbell. It is never open across a doorbell, because the device would not see its packets.
//!
//! # Recovery
//!
//! After an error CQE nothing is sent, and flush CQEs retire the WQEs under way. Then
//! [`Driver::work`](crate::Driver::work) takes the SQ through ERR, RST and RDY, and counters restart
//! at zero. The doorbell record keeps its old value and must not be used before the next doorbell.
//!
//! # Fast path
//!
//! A linear packet without segmentation or tag joins the session, or takes a WQE of its own with
//! more to follow, in code that is inlined and small. It counts only bytes: [`Channel::stats`]
//! derives the rest from the session's length and one counter.

mod channel;
mod command;
mod cq;
mod firmware;
mod session;
mod settings;
mod sq;

pub use channel::Channel;
pub use command::Hca;
pub use firmware::{Firmware, Objects};
pub use session::Sizing;
pub use settings::{Config, Cqs, OpenError, Stats};
