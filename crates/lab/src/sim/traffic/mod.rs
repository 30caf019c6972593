//! What is sent: packet generators and captures.

pub mod arrivals;
mod pktgen;
mod replay;
pub mod tcp;

pub use pktgen::{Pktgen, Rate, udp};
pub use replay::{Frames, Replay, ReplayOptions};

use doorbell_drivers::Sink;
use doorbell_hal::{Buf, Host, Time};
use doorbell_packet::Packet;

/// A source of packets for one core; it gets its buffers back as a [`Sink`].
pub trait Traffic<H: Host>: Sink {
    /// What to do next.
    fn next(&mut self, h: &mut H) -> Next;
    /// Whether it calls the driver past the stack, as pktgen does. What goes through the stack
    /// keeps to the queue's byte limit.
    fn is_generator(&self) -> bool {
        false
    }
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

/// Any of the sources, so that cores of one run may differ.
#[derive(Debug)]
pub enum Source {
    /// [`Pktgen`]
    Pktgen(Pktgen),
    /// [`Replay`]
    Replay(Replay),
}

impl Source {
    /// The traffic begins at `at`: what is sent at a pace is due from then on.
    pub fn start(&mut self, at: Time) {
        match self {
            Source::Pktgen(s) => s.start(at),
            Source::Replay(s) => s.start(at),
        }
    }

    /// Returns whether everything has been handed over.
    #[inline(always)]
    pub fn is_dry(&self) -> bool {
        match self {
            Source::Pktgen(s) => s.is_dry(),
            Source::Replay(s) => s.is_dry(),
        }
    }

    /// Gives all buffers back. How many frames were skipped for want of memory or form.
    pub fn release<H: Host>(self, h: &mut H) -> u64 {
        match self {
            Source::Pktgen(s) => {
                s.release(h);
                0
            }
            Source::Replay(s) => s.release(h),
        }
    }
}

impl Sink for Source {
    #[inline(always)]
    fn sent(&mut self, b: Buf, cookie: u32, last: bool) {
        match self {
            Source::Pktgen(s) => s.sent(b, cookie, last),
            Source::Replay(s) => s.sent(b, cookie, last),
        }
    }
    fn received(&mut self, p: Packet, verified: bool) {
        match self {
            Source::Pktgen(s) => s.received(p, verified),
            Source::Replay(s) => s.received(p, verified),
        }
    }
}

impl<H: Host> Traffic<H> for Source {
    #[inline(always)]
    fn next(&mut self, h: &mut H) -> Next {
        match self {
            Source::Pktgen(s) => s.next(h),
            Source::Replay(s) => s.next(h),
        }
    }
    #[inline(always)]
    fn is_generator(&self) -> bool {
        matches!(self, Source::Pktgen(_))
    }
    fn dropped(&mut self, h: &mut H, p: Packet) {
        match self {
            Source::Pktgen(s) => s.dropped(h, p),
            Source::Replay(s) => s.dropped(h, p),
        }
    }
}
