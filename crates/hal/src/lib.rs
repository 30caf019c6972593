//! The seam between a NIC driver, the machine it runs on, and a NIC.
//!
//! ```text
//! traffic -> driver -> | Host | bus rules + ledger | Port | <- device -> wire
//! ```
//!
//! A driver is written against [`Host`]: one CPU's view of its machine, lent to
//! each call. A device model is written against [`Port`]: its only way out to
//! memory, interrupts and the wire. Neither knows what lies between, which is
//! why the same driver runs in the lab, on a bare array of bytes, and against
//! QEMU's device models, and the same device serves the lab and a guest's own
//! driver. Every crossing goes through these traits, so whatever implements
//! them can count it.
//!
//! This crate has no behaviour: the traits, the types they exchange, and the
//! arithmetic of time. It is all that an author of a driver or a device needs.
//!
//! # Conventions
//!
//! * Register values are the numbers a little-endian access of that width would carry: the bytes on
//!   the bus are `v.to_le_bytes()`. A big-endian device swaps for itself, as its driver does.
//! * A [`Buf`] is owned. Handing it to [`Host::map`] lends it to the device; [`Host::unmap`] gives
//!   it back. A driver cannot touch it in between because it does not have it, and a device that
//!   touches it outside that time gets a [`DmaFault`].
//! * What a crossing *saves* in CPU work is said beside the code that does the work, with
//!   [`Host::charge`]; the platform's profile alone prices it.
#![no_std]
#![forbid(unsafe_code)]

mod device;
mod hcall;
mod host;
mod time;
mod work;

pub use device::{
    Device, DmaFault, DmaFaultKind, DropReason, EventSource, Fact, HcallDevice, Port, RxVerdict,
};
pub use hcall::{Hcall, HcallReturn, Hypervisor};
pub use host::{
    Alignment, Buf, Coherent, Direction, Fence, Host, MapError, MapFault, Mapped, OutOfMemory,
};
pub use time::{Span, Time};
pub use work::{CpuWork, WorkKind};

/// A device register: the region it lives in (a PCI BAR number, or the index of
/// a platform device's register window) and the byte offset inside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reg {
    /// BAR or window number.
    pub region: u8,
    /// Byte offset in the region.
    pub offset: u32,
}

impl Reg {
    /// A register in region 0, where most NICs keep all of theirs.
    pub const fn at(offset: u32) -> Reg {
        Reg { region: 0, offset }
    }
}

/// An address as the device sees it: what the bus, after any I/O translation,
/// turns into a place in host memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Iova(pub u64);

impl core::ops::Add<u64> for Iova {
    type Output = Iova;
    fn add(self, bytes: u64) -> Iova {
        Iova(self.0.wrapping_add(bytes))
    }
}
