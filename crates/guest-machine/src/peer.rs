//! The other end of the link: it sends what it is told to, and notes what arrives.

use doorbell_hal::{EventSource, Span, Time};
use doorbell_sim::link::{Peer, Wire};

/// Frames to send: bursts at even distances, in which one follows the other as fast as the wire
/// takes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frames {
    /// Their number.
    pub count: u64,
    /// Bytes of each, without FCS.
    pub size: usize,
    /// Frames of a burst.
    pub burst: u64,
    /// Time from one burst's start to the next one's.
    pub gap: Span,
}

/// Frames that the peer has seen since [`Seen::default`] was put here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// Their number.
    pub frames: u64,
    /// Arrival of the first and of the last.
    pub span: Option<(Time, Time)>,
}

impl Seen {
    fn note(&mut self, at: Time) {
        self.frames += 1;
        self.span = Some((self.span.map_or(at, |s| s.0), at));
    }
}

/// A type of frames that no kernel answers (IEEE 802, local experimental).
const LOCAL_TYPE: [u8; 2] = [0x88, 0xb5];
/// Bytes of the shortest frame without FCS.
const SHORTEST: usize = 60;

/// The peer.
#[derive(Debug)]
pub(crate) struct Generator {
    /// The guest's address, and the one that frames come from.
    addresses: [[u8; 6]; 2],
    frame: Vec<u8>,
    plan: Frames,
    /// Start of the next burst.
    next: Time,
    /// Frames that arrived here.
    pub(crate) sent: Seen,
    /// Frames that left toward the device.
    pub(crate) offered: Seen,
}

impl Generator {
    pub(crate) fn new(guest: [u8; 6]) -> Generator {
        // The next address of the same vendor.
        let mut from = guest;
        from[5] ^= 3;
        let plan = Frames { count: 0, size: 0, burst: 1, gap: Span::ZERO };
        let (sent, offered) = (Seen::default(), Seen::default());
        let addresses = [guest, from];
        Generator { addresses, frame: Vec::new(), plan, next: Time::NEVER, sent, offered }
    }

    /// Sends these frames from `at` on, in place of those that are left.
    pub(crate) fn send(&mut self, at: Time, frames: Frames) {
        self.frame.clear();
        self.frame.extend(self.addresses.as_flattened());
        self.frame.extend(LOCAL_TYPE);
        self.frame.resize(frames.size.max(SHORTEST), 0);
        self.plan = Frames { burst: frames.burst.max(1), ..frames };
        self.next = if frames.count == 0 { Time::NEVER } else { at };
    }
}

impl EventSource for Generator {
    fn next_due(&self) -> Option<Time> {
        Some(self.next).filter(|next| *next < Time::NEVER)
    }
}

impl Peer for Generator {
    fn receive(&mut self, at: Time, _: &[u8], _: &mut Wire) {
        self.sent.note(at);
    }

    fn advance(&mut self, until: Time, wire: &mut Wire) {
        while self.next <= until && self.next < Time::NEVER {
            let now = self.plan.burst.min(self.plan.count);
            for _ in 0..now {
                let arrival = wire.send(self.next, &self.frame);
                self.offered.note(arrival);
            }
            self.plan.count -= now;
            self.next = if self.plan.count == 0 { Time::NEVER } else { self.next + self.plan.gap };
        }
    }
}
