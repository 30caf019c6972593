//! Conformance cases of a logical LAN adapter and its driver.
//!
//! A case is generic over the machine, which makes hypervisor calls, and over a [`Backend`]: the
//! other end of the cable, the interrupt, and missing capabilities. Cases run on QEMU's
//! `spapr-vlan` and on our model. A case that needs an unsupported capability prints so.

mod codes;
mod harness;
mod lan;
mod offload;
mod receive;
mod transmit;

pub use codes::{codes, left_open, translation};
pub use lan::{busy, trunk};
pub use offload::{negotiation, software_offloads};
pub use receive::{
    copybreak, default_pools, interrupts, mac_and_filter, mtu, no_buffer, pools_by_size, receive,
    reopen, toggle,
};
pub use transmit::{bounce, loopback, scatter, too_long, transmit};

use crate::{Unsupported, supports};
use doorbell_hal::Hypervisor;

/// A capability that an adapter may lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capability {
    /// H_ILLAN_ATTRIBUTES negotiates checksums and large sends.
    Attributes,
    /// It accepts no more buffers than the buffer-list page has entries.
    BufferListEnds,
    /// A frame that fits no buffer is lost, and later ones are received.
    Loses,
    /// It filters frames to other stations and to groups that are not registered.
    Filter,
    /// It is an active trunk with another partition on its LAN: it receives frames to unknown
    /// stations and sends from any address.
    Trunk,
    /// A send of more than 1 KiB is answered H_BUSY at least once.
    Busy,
}

/// The environment of a device under test.
pub trait Backend<H: Hypervisor> {
    /// Delivers a frame without FCS from the wire, into memory if possible.
    fn inject(&mut self, h: &mut H, frame: &[u8]);
    /// Returns the next frame on the wire, if there is one.
    fn collect(&mut self, h: &mut H) -> Option<Vec<u8>>;
    /// Returns true if the adapter has interrupted since the last call.
    fn interrupt(&mut self, h: &mut H) -> bool;
    /// Returns the missing capabilities.
    fn unsupported(&self) -> Unsupported<Capability>;

    /// Returns true if it has a capability. Prints the reason otherwise.
    fn has(&self, case: &str, c: Capability) -> bool {
        supports(self.unsupported(), case, c)
    }
}
