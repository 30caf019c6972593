//! A driver's machine inside QEMU: its device models, driven over a socket.
//!
//! QEMU has models of several NICs that were written by others, so they are
//! independent judges of a driver. Under QEMU's *qtest* accelerator no guest
//! code runs: whoever holds the qtest socket makes every register access, and
//! virtual time moves only when that side steps it. [`QtestHost`] is a
//! [`Host`](doorbell_hal::Host) made of such a QEMU, so a driver runs on it as
//! it runs anywhere else. Frames go through a datagram socket ([`Wire`]), one
//! datagram a frame.
//!
//! ```text
//! driver -> QtestHost -> Qemu (text lines on a socket) -> QEMU's device -> Wire
//!                  \---> guest RAM (mapped, or through the socket) <---/
//! ```
//!
//! Source: the comment that opens system/qtest.c (softmmu/qtest.c in 7.2) in
//! QEMU, and its manual page for `-netdev dgram`.
//!
//! Decisions:
//!
//! * Every command waits for its answer, also a register write, which a driver thinks of as posted.
//!   Sending ahead would be ten times as fast, but then what the driver finds in memory would
//!   depend on a race with QEMU, and a run could not be repeated.
//! * Debian's QEMU has no qtest accelerator; `tools/qtest-accel/build.sh` makes it, and [`Launch`]
//!   finds it by the stamp in the QEMU binary.
//! * A POWER partition's adapter has no registers. [`Pseries`] lets a guest run that makes the
//!   hypervisor calls it finds in a mailbox.
//! * Every wait has an end. A QEMU that died is an error that carries what it said on stderr.
//! * A frame sent to QEMU is taken by its main loop, not by a command; two commands later it has
//!   been offered to the device ([`Qemu::settle`]).
//!
//! ```no_run
//! use doorbell_testkit::qtest::{Backing, Pc, QtestHost, Wire};
//! use doorbell_hal::{Host, Reg};
//!
//! let wire = Wire::new()?;
//! let nic = "e1000,mac=52:54:00:12:34:56";
//! let mut host = Pc { nic, wire: &wire, backing: Backing::Mapped }.start()?;
//! let status = host.read32(Reg::at(8));
//! host.finish()?;
//! # Ok::<(), doorbell_testkit::qtest::Error>(())
//! ```

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
