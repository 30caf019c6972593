//! What a logical LAN adapter and its driver have to do together, on any arm.
//!
//! A body is generic over the machine, which makes hypervisor calls, and over an
//! [`Arm`], the rest of a test: the other end of the cable, the interrupt, and what this
//! machine's adapter is known to lack. Bodies run on QEMU's `spapr-vlan`, which
//! others wrote, and on any model of ours. A body that needs what an arm lacks prints so.

mod bench;
mod codes;
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

use doorbell_hal::Hypervisor;

/// What an adapter may lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fact {
    /// H_ILLAN_ATTRIBUTES, with checksums and large sends to be negotiated.
    Attributes,
    /// No more buffers are taken than the buffer-list page has places for.
    BufferListEnds,
    /// A frame that no buffer holds is lost, and others follow it.
    Loses,
    /// Frames to other stations, and to groups that were not asked for, are not received.
    Filter,
    /// It is an active trunk, with another partition on its LAN: what has no owner comes to it, and
    /// it sends from any address.
    Trunk,
    /// A send of more than a kilobyte is answered H_BUSY at least once.
    Busy,
}

/// What an arm lacks, and why.
pub type Lacks = &'static [(Fact, &'static str)];

/// The rest of a test.
pub trait Arm<H: Hypervisor> {
    /// A frame without FCS arrives from the wire, and is in memory on return if it can be.
    fn inject(&mut self, h: &mut H, frame: &[u8]);
    /// The next frame that left on the wire; `None` when none is on its way.
    fn collect(&mut self, h: &mut H) -> Option<Vec<u8>>;
    /// Whether the adapter has interrupted since this was last asked.
    fn interrupt(&mut self, h: &mut H) -> bool;
    /// What it lacks.
    fn lacks(&self) -> Lacks;

    /// Whether it has this fact; when not, that is printed.
    fn has(&self, body: &str, f: Fact) -> bool {
        let lack = self.lacks().iter().find(|(lack, _)| *lack == f);
        if let Some((_, why)) = lack {
            println!("{body}: not judged here: {f:?}: {why}");
        }
        lack.is_none()
    }
}
