//! Intel 8254x gigabit controllers: 82540EM, 82544GC, 82545EM.
//!
//! Sources: linux drivers/net/ethernet/intel/e1000 (behaviour, 4.4); Intel's
//! developer's manual 317453; the errata of the specification updates.
//!
//! ```text
//! transmit -> context? -> descriptors -> TDT (once a batch)
//! device   -> DD in the last one, TXDW -> interrupt: ICR, IMC -> poll -> IMS
//! wire     -> buffers up to RDT, DD, RXT0 -> the same poll
//! ```
//!
//! **The switches** are `copy_align` and `rx_align`. A frame of up to 2 kB may be
//! copied to a slot that is 2048 bytes, aligned to that, and mapped for good: fewer
//! bus transactions, no mapping per packet, one copy. A receive buffer may begin on
//! a line, or two bytes behind it so that the IP header is on a word.
//!
//! **Descriptors.** A packet without offload is sent with legacy descriptors, as
//! Linux does; a checksum or a large send begins with a context descriptor and
//! goes on with data descriptors. How a buffer is cut is [`Errata`]'s.
//!
//! **States.** Up -> (queue full) stopped -> (poll) up; up -> (no DD in time)
//! hanging -> [`Driver::work`] resets everything, and what was queued is dropped.
//!
//! What it cannot do through the seam: PCI configuration space. MMRBC is to be at
//! most 2048 on PCI-X for these parts, and whoever owns the bus sets it.
//!
//! [`Driver::work`]: crate::Driver::work

mod config;
mod hw;
mod itr;
mod nic;
mod rx;
mod split;
mod stats;
#[cfg(test)]
mod tests;
mod tx;

pub use config::{Bus, COPY_MAX, Config, Eeprom, OpenError, Part, Thresholds, Throttle};
pub use hw::{Filter, hash};
pub use itr::{Class, Dynamic, interval};
pub use nic::{CAUSES, E1000, Link};
pub use split::{Cut, Errata, MAX_FIRST, MAX_PIECE};
pub use stats::{Hardware, Stats};

use doorbell_hal::{Host, Span};

/// Polls until `done`, for `limit` of the host's time at most.
fn wait<H: Host>(
    h: &mut H,
    what: &'static str,
    limit: Span,
    mut done: impl FnMut(&mut H) -> bool,
) -> Result<(), OpenError> {
    let limit = h.now() + limit;
    while !done(h) {
        if h.now() >= limit {
            return Err(OpenError::Timeout(what));
        }
        h.relax();
    }
    Ok(())
}
