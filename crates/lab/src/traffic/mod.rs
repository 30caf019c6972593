//! What is sent: packet generators and captures.

mod pktgen;

pub use pktgen::{Pktgen, Rate};

use doorbell_drivers::Sink;
use doorbell_packet::Packet;
use doorbell_seam::{Host, Time};

/// A source of packets for one core; it gets its buffers back as a [`Sink`].
pub trait Traffic<H: Host>: Sink {
    /// What to do next.
    fn next(&mut self, h: &mut H) -> Next;
    /// The driver dropped a packet; its buffers come back.
    fn dropped(&mut self, h: &mut H, p: Packet);
}

/// What a source wants.
#[derive(Debug)]
pub enum Next {
    /// Send this; with `true`, another follows at once.
    Packet(Packet, bool),
    /// Nothing before this time.
    At(Time),
    /// Nothing before a buffer has come back.
    Reclaim,
    /// Nothing any more, and all buffers are back.
    Done,
}
