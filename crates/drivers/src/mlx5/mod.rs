//! ConnectX-5 and later, Ethernet: the function, and the transmit side of its channels.
//!
//! Sources: linux drivers/net/ethernet/mellanox/mlx5/core/en_tx.c, en/txrx.h,
//! en/reporter_tx.c, cmd.c, main.c (behaviour, 5.10 and 6.x).
//!
//! An [`Hca`] is the function: it brings the device up by firmware commands and makes
//! the objects of the channels, which share it. A channel asks for them through the
//! trait [`Firmware`], so that a test can answer instead.
//!
//! A channel is a send queue (SQ), the completion queue (CQ) that retires it and
//! the event queue (EQ) behind its interrupt. Beside them it has the other CQs of
//! Linux's channel ([`Cqs`]), which nothing completes to and each poll arms.
//!
//! ```text
//! transmit -> session open? add a data segment : WQE of its own
//!          -> batch ends: last WQE asks for a CQE, doorbell record, doorbell
//! device   -> CQE -> (CQ armed) EQE -> MSI-X -> interrupt -> poll -> arm again
//! ```
//!
//! **The switch** is `mpwqe`. Off, each packet has a SEND WQE (3 DS, one 64-byte
//! block). On, packets that are linear, untagged and need nothing inlined share
//! one Enhanced MPWQE, 16 bytes each behind 32 shared ones. A session lives until
//! it is full, the batch ends, a packet's Ethernet segment differs, or an
//! ineligible packet comes.
//!
//! **States of a session.** Closed -> open on the first eligible packet; open ->
//! open on each that fits; open -> closed, without doorbell, before an ineligible
//! packet or a differing Ethernet segment; open -> closed with doorbell at the
//! batch's end. A session never stays open across a doorbell: the device would
//! not see its packets.
//!
//! **States of the queue.** Ready -> (error CQE) recovering: nothing is sent,
//! flush CQEs retire what was announced; when all is retired, [`Driver::work`]
//! takes the SQ through ERR -> RST -> RDY and counts from zero again. The
//! doorbell record keeps its old value, so it must not be acted on before the
//! next doorbell.
//!
//! **The short way.** A linear packet with nothing to cut or to tag joins the open
//! session, or has a WQE of its own with more to follow, in code that is inlined
//! and small; all else is in functions of their own. The short way counts only
//! bytes: `stats` finds the rest from the session's length and from one counter.
//!
//! [`Driver::work`]: crate::Driver::work

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
