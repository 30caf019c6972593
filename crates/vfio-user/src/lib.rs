//! A vfio-user server: a PCI device for a virtual machine, in a process of its own.
//!
//! A virtual machine monitor (QEMU from 10.1 on with `-device vfio-user-pci`, Cloud
//! Hypervisor) connects to a UNIX socket and finds a PCI function there: its configuration
//! space, its BARs, its interrupts. It hands over the guest's memory as file descriptors
//! and eventfds for the interrupts, and forwards the guest's register accesses as
//! messages. The guest's own driver cannot tell.
//!
//! ```text
//! guest driver -> QEMU -> socket -> Channel -> Function -> Device (doorbell_hal)
//!                                                            | GuestPort
//!                    guest memory (mmap) <- DMA -------------+-> eventfds, Watch (wire, ledger)
//! ```
//!
//! Source: QEMU's docs/interop/vfio-user.rst, protocol 0.1, and linux/vfio.h.
//!
//! Decisions:
//!
//! * **Our own server, not the crate `vfio_user`** (rust-vmm, 0.1.7). That is well kept, and its
//!   run loop would limit us: it blocks on one client inside one call, so a device's timers and its
//!   wire would need threads and locks beside it; it has no DMA by message; and it cannot order an
//!   unmap with a device that another thread runs.
//! * **One thread.** [`Function`] is called for messages, for time, for frames, one after another.
//!   An unmap, reset or lost client is therefore complete when its call returns, and nothing can
//!   deadlock. [`readable`] waits for all descriptors at once.
//! * **Nothing here knows a NIC.** What a function looks like is a value, [`Identity`]; the device
//!   is any [`Device`](doorbell_hal::Device).
//! * **Doorbells without traps** are shared pages that the server polls ([`Polled`]). ioeventfds
//!   are not offered: they lose the value that was written, and QEMU asks for none.
//! * **Trust.** A client may send anything: lengths, counts and ranges are checked, what is wrong
//!   is answered with an errno or ends the connection, and memory is bounded (1 MiB a message,
//!   65,535 maps). What cannot be checked is that a client does not cut a file short that it has
//!   handed over: that kills the server (SIGBUS). Client and server belong to the same user; the
//!   socket's permissions see to that.

mod channel;
mod function;
mod irq;
mod message;
mod pci;
mod polled;
mod port;
mod wait;

pub use channel::{Gone, receive, send_with};
pub use function::{Function, Ring};
pub use pci::{Bar, Capability, Identity, InBar, Polled};
pub use port::{GuestPort, Watch};
pub use wait::{Listener, exact_timers, readable, ready};

#[cfg(test)]
mod tests;
