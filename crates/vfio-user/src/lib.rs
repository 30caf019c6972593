//! A vfio-user server: a PCI device for a virtual machine, in a process of its own.
//!
//! ```text
//! guest driver -> QEMU -> socket -> Channel -> Function -> Device (doorbell_hal)
//!                                                            | GuestPort
//!                    guest memory (mmap) <- DMA -------------+-> eventfds, Observer
//! ```
//!
//! Source: QEMU's docs/interop/vfio-user.rst, protocol 0.1, and linux/vfio.h. One thread calls
//! [`Function`], so an unmap or reset is complete when it returns. SECURITY.md: who trusts whom.
//!
//! ```
//! use doorbell_hal::{Device, Time};
//! use doorbell_vfio_user::{Function, GuestPort, Identity, Listener, Observer};
//!
//! /// Serves `device` to the next virtual machine that connects. (The loop needs one to end.)
//! fn serve<D: Device<GuestPort<W>>, W: Observer>(
//!     identity: Identity,
//!     device: D,
//!     observer: W,
//!     socket: &mut Listener,
//! ) -> std::io::Result<()> {
//!     let mut function = Function::new(identity, device, observer)?;
//!     if let Some(client) = socket.accept()? {
//!         function.connect(Time::ZERO, client)?;
//!     }
//!     while function.connected() && function.serve(|| Time::ZERO).is_ok() {}
//!     Ok(())
//! }
//! ```

// Not rust-vmm's crate `vfio_user` 0.1.7: its run loop blocks on one client, it has no DMA by
// message, and it cannot order an unmap with a device on another thread.
mod channel;
mod function;
mod irq;
mod message;
mod pci;
mod polled;
mod port;
mod wait;

pub use channel::{ConnectionError, Limits, is_later, receive_with_fds, send_with_fds};
pub use function::{DoorbellHandler, Function};
pub use pci::{Bar, BarOffset, Capability, Identity, PolledPages};
pub use port::{Crossing, GuestPort, Observer, Share};
pub use wait::{Listener, at_end, connect_now, exact_timers, readable, ready};

#[cfg(test)]
mod tests;
