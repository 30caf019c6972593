//! Traffic sources: packet generators, captures, arrivals and TCP.

pub mod arrivals;
mod pace;
mod pktgen;
mod replay;
pub mod tcp;

pub use pace::{Pace, Rate};
pub use pktgen::{Generated, Pktgen, Sizes, flow_headers, udp};
pub use replay::{CaptureFile, Frames, Replay, ReplayOptions, SegmentSize, SegmentSizes};

use doorbell_drivers::Sink;
use doorbell_hal::{Buf, Host, Time};
use doorbell_packet::Packet;

/// A source of packets for one core. Its buffers come back through [`Sink`].
pub trait Traffic<H: Host>: Sink {
    /// Returns the next packet, or the reason to wait.
    fn next(&mut self, h: &mut H) -> Next;
    /// Returns whether the source calls the driver directly, as pktgen does, without regard to the
    /// queue's byte limit.
    fn is_generator(&self) -> bool {
        false
    }
    /// Takes back a packet that the driver dropped.
    fn dropped(&mut self, h: &mut H, p: Packet);
}

/// The next action of a source.
#[derive(Debug)]
pub enum Next {
    /// Send this packet, which was due at the time. With `true`, another follows at once.
    Packet(Packet, bool, Time),
    /// Wait until this time.
    At(Time),
    /// Wait until a buffer comes back.
    Reclaim,
    /// The traffic has ended, and all buffers are back.
    Done,
}

/// One of the sources, so that the cores of a run may differ.
#[derive(Debug)]
pub enum Source {
    /// [`Pktgen`]
    Pktgen(Pktgen),
    /// [`Replay`]
    Replay(Replay),
}

impl Source {
    /// Starts the traffic at `at`.
    pub fn start(&mut self, at: Time) {
        match self {
            Source::Pktgen(s) => s.start(at),
            Source::Replay(s) => s.start(at),
        }
    }

    /// Returns whether all packets have been handed over.
    #[inline(always)]
    pub fn is_dry(&self) -> bool {
        match self {
            Source::Pktgen(s) => s.is_dry(),
            Source::Replay(s) => s.is_dry(),
        }
    }

    /// Ends the traffic early: a generator with its burst, a capture with its round.
    pub fn finish(&mut self) {
        match self {
            Source::Pktgen(s) => s.finish(),
            Source::Replay(s) => s.finish(),
        }
    }

    /// Releases all buffers. Returns the number of frames skipped for lack of memory or wrong form.
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
