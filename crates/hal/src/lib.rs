//! The traits between a NIC driver, the machine it runs on, and a NIC.
//!
//! ```text
//! traffic -> driver -> | Host | bus rules + ledger | Port | <- device -> wire
//! ```
//!
//! A driver is written against [`Host`], one CPU's view of its machine; a device model against
//! [`Port`], its only access to memory, interrupts and the wire. Every crossing goes through them,
//! so an implementation can count it. Register values are those of a little-endian access. The
//! crate has no behaviour but the arithmetic of time, [`counters!`] and [`fail_if`].
//!
//! ```
//! use doorbell_hal::{Host, Reg, Span};
//!
//! /// Resets a device by its control register, and waits.
//! fn reset<H: Host>(h: &mut H) -> Span {
//!     let before = h.now();
//!     h.write32(Reg::at(0x0), 1 << 26);
//!     h.delay(Span::from_us(10));
//!     h.now().since(before)
//! }
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod counters;
mod device;
mod fail;
mod hcall;
mod host;
mod time;
mod work;

pub use counters::{Counter, CounterSet, Unit};
pub use device::transfer_units;
pub use device::{
    Device, DmaFault, DmaFaultKind, DropReason, EventSource, Fact, HcallDevice, Port, Rule,
    RxVerdict, write_each,
};
pub use fail::fail_if;
pub use hcall::{Hcall, HcallReturn, Hypervisor, Reply};
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
