//! A hypervisor in a process of its own: the calls of a guest under QEMU, answered by a device
//! model.
//!
//! On POWER a driver of a virtual adapter has no registers; it calls the hypervisor. QEMU is that,
//! and a plug-in in it (crate `doorbell-plugin`) takes the calls of some adapters over. What
//! it has with the server is here:
//!
//! ```text
//! guest driver -> sc 1 -> plug-in -> Board -> Partition -> HcallDevice (doorbell_hal)
//!                         Adapter    posts       |  |
//!                           |        masks <-----|--+-> interrupts over the socket
//!                           | Table <- DMA ------+
//!                           guest memory <-------+
//! ```
//!
//! * **[`Board`]**, shared memory: a place for each CPU of the guest. A CPU puts its call there and
//!   waits, as it would for a hypervisor; the server looks for calls, and sleeps when there are
//!   none. On it are also the [masks] of interrupts, which the guest switches without asking
//!   anybody, and the ring of [posted sends](posts), whose answer is known before they are done.
//! * **[`Table`]**, shared memory: the adapter's translation entries (TCEs). The plug-in writes
//!   them as the guest asks, without asking anybody; the server reads them at each access.
//! * **A socket**: who is who at the start, the guest's memory, then interrupts. When it closes,
//!   the other side is gone: the guest's calls are then answered H_CLOSED.
//!
//! **Trust.** The guest reaches none of this; its arguments are checked by the device, its
//! addresses by table and memory at each access. The plug-in's process belongs to the server's
//! user. What it writes on the board is nevertheless no more than a call with any number and any
//! arguments.
//!
//! **Messages** have 16 bytes: what it is, as a little-endian word of 8 bytes, and its argument.
//! Descriptors come with them.

mod adapter;
mod board;
pub mod masks;
mod partition;
pub mod posts;
mod table;

pub use adapter::{Adapter, Answer, Known, Offer, WellFormed, arguments};
pub use board::{BOARD, Board, CPUS};
pub use partition::{Guest, Inside, Knows, Look, Partition, Unit, step, tell};
pub use posts::PostQueue;
pub use table::{ENTRIES, Table};

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

/// Bytes of a message.
pub const MESSAGE: usize = 16;
/// Plug-in to server, first: version of all this, with the descriptors of board, table and bell.
pub const HELLO: u64 = 0x6c6c_6562_726f_6f44;
/// Which this is.
pub const VERSION: u64 = 2;
/// Server to plug-in, its answer: unit address, and in the upper half the kind, [`VNIC`] or
/// [`VETH`].
pub const WELCOME: u64 = 1;
/// Plug-in to server: how many bytes the guest's memory has, with its descriptor.
pub const MEMORY: u64 = 2;
/// Server to plug-in: an interrupt, by its number in the guest.
pub const INTERRUPT: u64 = 3;
/// Kind: ibmvnic's adapter.
pub const VNIC: u32 = 1;
/// Kind: ibmveth's adapter.
pub const VETH: u32 = 2;
/// Sub-CRQs of a vNIC, at the most.
pub const SUB_CRQS: u16 = 64;

/// A vNIC's sub-CRQs interrupt from here on; QEMU has the numbers below for units that it numbers
/// itself. Two vNICs of one guest have units that differ in bit 12.
pub const fn sub_crq_interrupts(unit: u32) -> u16 {
    0x1140 + SUB_CRQS * (unit >> 12 & 1) as u16
}

/// The interrupt of a unit below 0x7100_0000, as QEMU numbers it (hw/ppc/spapr_vio.c,
/// `spapr_vio_reg_to_irq`).
pub const fn unit_interrupt(unit: u32) -> u16 {
    0x11f0 | (unit >> 12 & 15) as u16
}

/// The bytes of a message.
pub fn message(what: u64, argument: u64) -> [u8; MESSAGE] {
    let mut m = [0; MESSAGE];
    m[..8].copy_from_slice(&what.to_le_bytes());
    m[8..].copy_from_slice(&argument.to_le_bytes());
    m
}

/// What a message says.
pub fn parse(m: &[u8; MESSAGE]) -> (u64, u64) {
    let word = |b: &[u8]| b.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b));
    (word(&m[..8]), word(&m[8..]))
}

/// Reads one message, waiting for it.
///
/// # Errors
/// When the other side is gone.
pub fn read_message(mut socket: &UnixStream) -> io::Result<(u64, u64)> {
    let mut m = [0; MESSAGE];
    socket.read_exact(&mut m)?;
    Ok(parse(&m))
}

/// Writes one message.
///
/// # Errors
/// When the other side is gone.
pub fn write_message(mut socket: &UnixStream, what: u64, argument: u64) -> io::Result<()> {
    socket.write_all(&message(what, argument))
}
