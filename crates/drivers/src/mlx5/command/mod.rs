//! The way to the firmware: the command queue, and what the driver says through it.
//!
//! Sources: linux core/cmd.c (queue, mailboxes, signatures), main.c (the order in
//! which a function comes up and goes down), pagealloc.c (pages).
//!
//! ```text
//! queue: one command at a time: mailboxes, entry, fence, doorbell, poll the entry
//! hca:   ENABLE_HCA, ISSI, pages to boot, capabilities, pages to run, INIT_HCA,
//!        PD, transport domain, TIS, port up     (and all of it back)
//! ```
//!
//! Commands are polled for: nothing here waits for an interrupt. Every wait has an
//! end in [`Host::now`](doorbell_hal::Host::now); a command that was not answered
//! by then leaves the queue unusable, for the device may still answer it.

mod hca;
mod queue;

pub use hca::Hca;
