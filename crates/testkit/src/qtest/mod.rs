//! A driver's machine inside QEMU: its device models, driven over a socket.
//!
//! QEMU's NIC models are independent judges of a driver. Under its *qtest* accelerator no guest
//! code runs: the owner of the qtest socket makes every register access and steps virtual time.
//! [`QtestHost`] is a [`Host`](doorbell_hal::Host) on such a QEMU; frames cross a datagram socket
//! ([`Wire`]). [`Pseries`] runs a small guest that makes hypervisor calls instead. Every command
//! waits for its answer, so that runs are repeatable, and every wait has a limit.
//!
//! Source: QEMU, system/qtest.c (softmmu/qtest.c in 7.2), and its manual page for `-netdev dgram`.

mod accelerator;
mod client;
mod error;
mod heap;
mod host;
mod mailbox;
mod ml605;
mod pc;
mod pci;
mod process;
mod pseries;
mod ram;
mod remote;
mod wire;

pub use client::{IrqEvent, Qemu};
pub use error::Error;
pub use host::{Balance, Irq, QtestHost, Region};
pub use ml605::Ml605;
pub use pc::Pc;
pub use pci::{Apertures, Bar, Function};
pub use process::Launch;
pub use pseries::{Pseries, PseriesHost};
pub use ram::{Backing, Ram};
pub use wire::Wire;
