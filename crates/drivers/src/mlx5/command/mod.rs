//! The command queue, and the function's commands.
//!
//! Sources: linux core/cmd.c (queue, mailboxes, signatures), main.c (the order of bring-up and
//! teardown), pagealloc.c (pages).
//!
//! One command at a time is under way, and polled for. Every wait has a limit in the host's time; a
//! command that was not answered by then makes the queue unusable, because the device may still
//! answer it.

mod hca;
mod queue;
mod steering;

pub use hca::Hca;
pub use steering::queue_of;
