//! The other end of the link: it sends frames as it is told to, notes what arrives, and passes what
//! is for the host on to it.

use crate::plan::Plan;
use crate::station::{Requests, Station};
use doorbell_hal::{EventSource, Span, Time};
use doorbell_sim::histogram::Histogram;
use doorbell_sim::link::{Peer, Wire};
use doorbell_sim::traffic::Frames as Captured;
use doorbell_sim::traffic::Sizes;
use doorbell_sim::traffic::arrivals::{Arrivals, Pattern, Phase, stamped};
use std::collections::VecDeque;
use std::sync::Arc;

/// Frames to send.
#[derive(Clone, PartialEq, Debug)]
pub struct Frames {
    /// Their number.
    pub count: u64,
    /// Bytes of each, without FCS.
    pub sizes: Sizes,
    /// Their distribution in time.
    pub pattern: Pattern,
    /// They come for so long, then none come for as long, and so on.
    pub hold: Option<Span>,
    /// The UDP flows that they are of, in turn. Without one they are of a type that nobody answers.
    pub flows: Vec<u16>,
}

/// Frames that the peer has seen since [`Seen::default`] was put here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// Their number.
    pub frames: u64,
    /// Times of the first and of the last: of arrivals at the peer, or of the ends of their gaps
    /// where they leave it.
    pub span: Option<(Time, Time)>,
}

impl Seen {
    fn note(&mut self, frames: u64, at: Time) {
        if frames > 0 {
            self.frames += frames;
            self.span = Some((self.span.map_or(at, |s| s.0), at));
        }
    }
}

/// Time in which all frames have left.
const EVER: Span = Span::from_ps(1 << 62);

/// The peer.
pub(crate) struct OtherEnd {
    /// The guest's Ethernet address, and the host's.
    addresses: [[u8; 6]; 2],
    /// The host's IP address.
    host: [u8; 4],
    source: Arrivals,
    /// Frames of its own making, each with its time.
    given: VecDeque<(Time, Vec<u8>)>,
    /// The frames of [`Pattern::Captured`].
    captured: Arc<Captured>,
    pub(crate) station: Station,
    /// Frames that arrived here.
    pub(crate) sent: Seen,
    /// Frames that left toward the device.
    pub(crate) offered: Seen,
    /// Time from a request's first bit to its answer's last. A frame that comes back is an answer.
    pub(crate) answers: Histogram,
}

impl OtherEnd {
    /// Creates the peer of a guest with these addresses.
    pub(crate) fn new(guest: [u8; 6], plan: &Plan) -> OtherEnd {
        let [ip, host] = plan.addresses;
        // The next address of the same vendor.
        let mut own = guest;
        own[5] ^= 3;
        OtherEnd {
            addresses: [guest, own],
            host: host.octets(),
            source: Arrivals::new(guest, Vec::new(), 0, Vec::new()),
            given: VecDeque::new(),
            captured: Arc::clone(&plan.captured),
            station: Station::new([(guest, ip), (own, host)]),
            sent: Seen::default(),
            offered: Seen::default(),
            answers: Histogram::default(),
        }
    }

    /// Sends these frames from `at` on, in place of those that are left.
    pub(crate) fn send(&mut self, at: Time, frames: Frames) {
        let Frames { count, sizes, pattern, hold, flows } = frames;
        let phase = |pattern| Phase { lasts: hold.unwrap_or(EVER), pattern, size: sizes.largest() };
        let phases = match hold {
            _ if count == 0 => Vec::new(),
            None => vec![phase(pattern)],
            Some(_) => vec![phase(pattern), phase(Pattern::Silence)],
        };
        let source = Arrivals::new(self.addresses[0], phases, 0, flows).at_most(count);
        let source = source.of_sizes(sizes).of_capture(Arc::clone(&self.captured));
        self.source = if hold.is_some() { source.repeated() } else { source };
        self.source.start(at);
    }

    /// Sends a frame at `at`, behind those that were given before.
    pub(crate) fn give(&mut self, at: Time, frame: Vec<u8>) {
        self.given.push_back((at, frame));
    }

    /// Returns true if there are such frames.
    pub(crate) fn can_send(&self, frames: &Frames) -> bool {
        frames.pattern != Pattern::Captured || !self.captured.is_empty()
    }

    /// Begins the host's requests.
    pub(crate) fn ask(&mut self, at: Time, requests: Requests) {
        self.station.ask(at, requests);
    }

    /// Returns true while frames or requests are left.
    pub(crate) fn is_busy(&self) -> bool {
        self.source.next_due().is_some() || self.station.is_asking()
    }

    /// Begins the notes anew.
    pub(crate) fn mark(&mut self) {
        (self.sent, self.offered) = (Seen::default(), Seen::default());
        self.answers.clear();
    }

    /// Returns true if the host takes a frame: ARP, or IP for its address.
    fn is_for_host(&self, frame: &[u8]) -> bool {
        let own = frame.starts_with(&self.addresses[1]) || frame.starts_with(&[0xff; 6]);
        own && match frame.get(12..14) {
            Some([0x08, 0x06]) => true,
            Some([0x08, 0x00]) => frame.get(30..34) == Some(&self.host),
            _ => false,
        }
    }
}

impl EventSource for OtherEnd {
    fn next_due(&self) -> Option<Time> {
        let given = self.given.front().map_or(Time::NEVER, |(at, _)| *at);
        let next = self.source.next_due().unwrap_or(Time::NEVER).min(self.station.next());
        let next = next.min(given);
        Some(next).filter(|next| *next < Time::NEVER)
    }
}

impl Peer for OtherEnd {
    fn receive(&mut self, at: Time, frame: &[u8], wire: &mut Wire) {
        self.sent.note(1, at);
        if self.is_for_host(frame) {
            let before = wire.frames;
            self.station.receive(at, frame, wire, &mut self.answers);
            self.offered.note(wire.frames - before, wire.free());
        } else if !frame.starts_with(&self.addresses[1])
            && let Some(asked) = frame.first_chunk().and_then(|to| stamped(*to, at))
        {
            self.answers.record(at.since(asked));
        }
    }

    fn advance(&mut self, until: Time, wire: &mut Wire) {
        while let Some(due) = self.next_due().filter(|due| *due <= until) {
            let before = wire.frames;
            while let Some((at, frame)) = self.given.pop_front_if(|(at, _)| *at <= due) {
                wire.send(at, &frame);
            }
            self.source.advance(due, wire);
            if self.station.next() <= due {
                self.station.advance(due, wire, &mut self.answers);
            }
            self.offered.note(wire.frames - before, wire.free());
        }
    }
}
