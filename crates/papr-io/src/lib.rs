//! Hypervisor calls of a guest under QEMU, answered by a device model in another process.
//!
//! QEMU's plug-in (crate `doorbell-plugin`) takes over the calls of some virtual adapters. It
//! shares two memories with the server: the call area (calls, interrupt masks, send ring) and the
//! table of translation entries. A socket carries a handshake,
//! the guest's memory, then interrupts; after its end calls are answered H_CLOSED. A message has 16
//! bytes: kind and argument, each 8 bytes little-endian, with descriptors.
//!
//! The device checks the guest's arguments, the table its addresses. All that the plug-in's process
//! can write are calls with any arguments. Both memories are sealed against shrinking.
//!
//! The server has the guest's memory, and so the guest. QEMU does not depend on it: whatever the
//! server sends or writes, a call ends within 11 s, and only interrupts of the adapter are raised.
//!
//! ```
//! use doorbell_papr_io::{sub_crq_interrupts, unit_interrupt};
//!
//! // The second vNIC of a guest: its interrupts do not meet those of the first.
//! let [first, second] = [0x3000_0003, 0x3000_1003];
//! assert_eq!(unit_interrupt(second), unit_interrupt(first) + 1);
//! assert_eq!(sub_crq_interrupts(second), sub_crq_interrupts(first) + 64);
//! ```

mod adapter;
mod call_area;
mod irq_masks;
#[cfg(all(test, loom))]
mod models;
mod partition;
#[cfg(kani)]
mod proofs;
mod send_ring;
mod table;
mod words;

pub use adapter::{Adapter, Answer, Handshake, LocalResult, WellFormed, arguments};
pub use call_area::{CALL_AREA_BYTES, CPUS};
pub use partition::{
    DeviceCallbacks, Greeted, Guest, Newcomer, Partition, PluginStats, PollCursor, Unit,
    publish_credits, step,
};
pub use send_ring::{SENDS, SendQueue};

use doorbell_vfio_user::ready;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

const MESSAGE: usize = 16;
/// First message of the plug-in: version, with the descriptors of call area, table and doorbell.
const HELLO: u64 = 0x6c6c_6562_726f_6f44;
const VERSION: u64 = 3;
/// The server's answer: unit address, and in the upper half the kind, [`VNIC`] or [`VETH`].
const WELCOME: u64 = 1;
/// Plug-in to server: size of the guest's memory in bytes, with its descriptor.
pub const MEMORY: u64 = 2;
/// Server to plug-in: an interrupt by its number in the guest.
pub const INTERRUPT: u64 = 3;
/// The kind of ibmvnic's adapter.
pub const VNIC: u32 = 1;
/// The kind of ibmveth's adapter.
pub const VETH: u32 = 2;
/// The unit addresses that a server may have. QEMU gives those above to devices of its own.
pub const UNITS: Range<u32> = 1..0x7100_0000;
/// The most sub-CRQs of a vNIC.
pub const SUB_CRQS: u16 = 64;

/// Returns the first interrupt of a vNIC's sub-CRQs. QEMU uses lower numbers for units that it
/// numbers itself. The units of two vNICs of one guest differ in bit 12.
pub const fn sub_crq_interrupts(unit: u32) -> u16 {
    0x1140 + SUB_CRQS * (unit >> 12 & 1) as u16
}

/// Returns the interrupt of a unit of [`UNITS`] as QEMU numbers it (hw/ppc/spapr_vio.c,
/// `spapr_vio_reg_to_irq`).
pub const fn unit_interrupt(unit: u32) -> u16 {
    0x11f0 | (unit >> 12 & 15) as u16
}

/// Returns the bytes of a message.
pub fn message(kind: u64, argument: u64) -> [u8; MESSAGE] {
    let mut m = [0; MESSAGE];
    m[..8].copy_from_slice(&kind.to_le_bytes());
    m[8..].copy_from_slice(&argument.to_le_bytes());
    m
}

/// Decodes a message into kind and argument.
fn parse(m: &[u8; MESSAGE]) -> (u64, u64) {
    let word = |b: &[u8]| b.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b));
    (word(&m[..8]), word(&m[8..]))
}

/// Waits for a message, not longer than the socket's timeout for a read, however its bytes come;
/// where the socket does not block, not at all for the first. Returns its kind and argument.
///
/// # Errors
/// If the other side has closed the socket, or the time is over (`WouldBlock`).
pub fn read_message(mut socket: &UnixStream) -> io::Result<(u64, u64)> {
    let (patience, since) = (socket.read_timeout()?, Instant::now());
    let (mut m, mut done) = ([0; MESSAGE], 0);
    loop {
        match socket.read(&mut m[done..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if done == MESSAGE {
            return Ok(parse(&m));
        }
        let left = || patience.map(|p| p.saturating_sub(since.elapsed()));
        while ready([socket.as_fd()], left())? == [false] {
            if left().is_some_and(|left| left.is_zero()) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
    }
}
