//! ConnectX-5 and later, Ethernet: the function, and its channels.
//!
//! Sources: linux drivers/net/ethernet/mellanox/mlx5/core/en_tx.c, en_rx.c, en/txrx.h,
//! en/reporter_tx.c, cmd.c, main.c (behaviour, 5.10 and 6.x).
//!
//! An [`Hca`] is the function: it brings the device up by firmware commands and creates the objects
//! of its channels, which reach it through the trait [`Firmware`]. A channel has a send queue (SQ),
//! its completion queue (CQ), an event queue (EQ) behind its interrupt, and the other CQs of
//! Linux's channel ([`Cqs`]), which stay empty but are armed by each poll. It may have a receive
//! queue (RQ); the function spreads the frames that arrive over those of all channels, as
//! [`queue_of`] says.

mod channel;
mod command;
mod cq;
mod decompress;
mod firmware;
mod redirect;
mod rq;
mod session;
mod settings;
mod sq;
mod strides;
#[cfg(test)]
mod tests;

/// The outcome of a command.
type Answer<T = ()> = Result<T, doorbell_layout::mlx5::CmdStatus>;

pub use channel::Channel;
pub use command::{Hca, queue_of};
pub use firmware::{Firmware, Objects};
pub use session::Sizing;
pub use settings::{Config, Cqs, Recycling, RqConfig, Stats};
