//! A PCI Express link between a device and its host, in time.
//!
//! [`pcie`](crate::pcie) says what a transfer becomes; here it is booked: each
//! direction of the link is a [`Reservations`], host memory answers after a latency,
//! and every TLP goes to the ledger.
//!
//! A symbol time without a TLP ([`Gap`](super::Gap)) is short and waits for nothing. It
//! is booked in front of the next TLP of its direction, unless the line is idle between.
//!
//! Each read request holds one of the device's tags until its last completion has
//! arrived. It takes the tag that is free first, in the order in which the device reads.
//!
//! Neither a read request of the device nor the answer to a register read passes
//! its posted writes and messages. An access that an I/O MMU has to translate first
//! ([`iotlb`](crate::iotlb)) arrives as much later, and so do writes behind it.

use super::tags::Tags;
use super::{ByteClock, ByteTime, LinkDirection, Rules, Tlps};
use crate::machine::{bus_of_platform, port_of_platform};
use crate::reservations::{Interval, Reservations};
use crate::trace::{EventKind, Link, Transfer};
use crate::{Bus, Capture, FrameSink, Platform};
use doorbell_hal::{Direction, DmaFault, Iova, Port, Span, Time};

/// Time and place of things around the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// The time from the last bit sent to the packet being usable, one way.
    pub link: Span,
    /// The time from a read request at the root complex to its data.
    pub memory: Span,
}

/// The state of one direction of the link.
#[derive(Debug)]
struct Half {
    line: Reservations,
    byte: ByteTime,
    clock: ByteClock,
    /// Symbol times without a TLP that go in front of the next one, in bytes.
    gap: u64,
}

impl Half {
    fn new(rules: &Rules) -> Half {
        let byte = rules.byte_time();
        Half { line: Reservations::new(), byte, clock: ByteClock::new(byte), gap: 0 }
    }

    /// Sends `bytes` at or after `at`. Returns the interval.
    #[inline(always)]
    fn send(&mut self, at: Time, bytes: u64) -> Interval {
        let gap = core::mem::take(&mut self.gap);
        // On an idle line it has passed.
        let passed = gap == 0 || at >= self.line.horizon() + self.byte.span(gap);
        let duration = self.clock.take(if passed { bytes } else { bytes + gap });
        let start = self.line.book(at, duration);
        Interval { start, end: start + duration }
    }
}

/// A link with a platform at its upper end; the device's [`Port`].
#[derive(Debug)]
pub struct Pcie<S = Capture> {
    platform: Platform,
    sink: S,
    rules: Rules,
    latencies: Latencies,
    bar: u64,
    up: Half,
    down: Half,
    tags: Tags,
}

impl Pcie {
    /// A link by `rules`, with the device's registers at bus address `bar`.
    pub fn new(platform: Platform, rules: Rules, latencies: Latencies, bar: u64) -> Pcie {
        Pcie {
            platform,
            sink: Capture::default(),
            rules,
            latencies,
            bar,
            up: Half::new(&rules),
            down: Half::new(&rules),
            tags: Tags::new(rules.settings().tags),
        }
    }
}

impl<S: FrameSink> Pcie<S> {
    /// Returns the platform, when the link is no longer wanted.
    pub fn into_platform(self) -> Platform {
        self.platform
    }

    /// Returns the link's rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns the bytes that a direction carries in `span`, padding included.
    pub fn capacity(&self, span: Span) -> u64 {
        self.rules.byte_time().capacity(span)
    }

    /// Returns the end of the last packet in either direction.
    pub fn booked_until(&self) -> Time {
        self.up.line.horizon().max(self.down.line.horizon())
    }

    /// Sends TLPs at or after `at`. Returns the time at which the last byte is usable at the other
    /// end.
    #[inline(always)]
    fn send(&mut self, at: Time, t: Tlps) -> Time {
        let (line, link) = match t.toward {
            LinkDirection::Upstream => (&mut self.up, Link::PcieUp),
            LinkDirection::Downstream => (&mut self.down, Link::PcieDown),
        };
        let Interval { start, end } = line.send(at, t.bytes + t.pad);
        let (name, at) = (t.command.name(), Iova(t.addr));
        let crossing = || Transfer { name, at, bytes: t.bytes, count: t.count };
        self.platform.note(start, end, || EventKind::Bus(link, crossing()));
        let [down, up] = self.platform.ledger.count_tlps(&self.rules, &t);
        self.down.gap += down;
        self.up.gap += up;
        let shared = self.rules.shared_dllps(&t);
        if shared > 0 {
            self.acknowledge(t.toward, shared);
        }
        end + self.latencies.link
    }

    /// Has DLLPs of so many bytes go against TLPs in this direction, with those that wait already.
    #[inline(never)]
    fn acknowledge(&mut self, toward: LinkDirection, bytes: u64) {
        let l = &mut self.platform.ledger;
        let (against, counted) = match toward {
            LinkDirection::Upstream => (&mut self.down, &mut l.pcie_down_gap_bytes),
            LinkDirection::Downstream => (&mut self.up, &mut l.pcie_up_gap_bytes),
        };
        *counted += bytes.saturating_sub(against.gap);
        against.gap = against.gap.max(bytes);
    }

    /// Books the TLPs of a read. Returns the time at which all data has arrived.
    #[inline(always)]
    fn read_timed(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Time {
        let missed = self.platform.device_reads(from, into.len());
        let mut answered = at;
        for request in self.rules.split_read(from.0, into.len() as u32) {
            let start = at.max(self.tags.ready());
            let (first, len) = (Iova(request.addr), request.len as usize);
            let [request, data] = self.rules.request(request);
            let asked = self.send(start, request);
            let asked = self.platform.behind_posted(start, asked);
            let asked = self.platform.translated(asked, first, len);
            let arrived = self.send(asked + self.latencies.memory + missed, data);
            self.tags.hold(arrived);
            answered = answered.max(arrived);
        }
        self.platform.note_transfer(at, answered, from, into, Direction::ToDevice);
        answered
    }
}

/// The address of MSI-X messages: the local APIC's page, below 4 GiB.
const MESSAGE_ADDRESS: u64 = 0xfee0_0000;

impl<S: FrameSink> Port for Pcie<S> {
    // Once a packet, from a hot loop.
    #[inline(always)]
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        self.platform.fetch(from, into)?;
        Ok(self.read_timed(at, from, into))
    }

    #[inline(always)]
    fn read_passing(
        &mut self,
        at: Time,
        from: Iova,
        into: &mut [u8],
        seen: usize,
    ) -> Result<Time, DmaFault> {
        let looked_at = self.sink.looks() || self.platform.is_recording();
        self.platform.fetch_passing(from, into, if looked_at { usize::MAX } else { seen })?;
        Ok(self.read_timed(at, from, into))
    }

    fn read_ready(&self) -> Time {
        self.tags.ready()
    }

    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        let place = self.platform.check_dma_write(to, from.len())?;
        let arrival = self.send(at, self.rules.device_write(to.0, from.len() as u32));
        let arrival = self.platform.translated(arrival, to, from.len());
        Ok(self.platform.post_write_since(at, arrival, place, from))
    }

    port_of_platform!();

    fn raise_msi(&mut self, at: Time, vector: u16) {
        let arrival = self.send(at, self.rules.device_write(MESSAGE_ADDRESS, 4));
        self.platform.post_message(at, arrival, vector);
    }
}

impl<S: FrameSink> Bus for Pcie<S> {
    type Sink = S;
    type With<T: FrameSink + Clone> = Pcie<T>;

    fn with_sink<T: FrameSink + Clone>(self, sink: T) -> Pcie<T> {
        let Pcie { platform, rules, latencies, bar, up, down, tags, .. } = self;
        Pcie { platform, rules, latencies, bar, up, down, tags, sink }
    }

    bus_of_platform!();

    fn register_write(&mut self, at: Time, size: u8) -> Time {
        self.send(at, self.rules.cpu_write(self.bar, size))
    }

    fn register_read(&mut self, at: Time, size: u8) -> Time {
        let [request, _] = self.rules.cpu_read(self.bar, size);
        self.send(at, request)
    }

    fn register_answer(&mut self, at: Time, size: u8) -> Time {
        let [_, data] = self.rules.cpu_read(self.bar, size);
        let arrival = self.send(at, data);
        self.platform.behind_posted(at, arrival)
    }

    fn retire_before(&mut self, floor: Time) {
        self.up.line.retire_before(floor);
        self.down.line.retire_before(floor);
    }

    fn booked_after(&self, at: Time) -> [Span; 2] {
        [&self.down, &self.up].map(|half| half.line.busy_after(at))
    }
}

#[cfg(test)]
mod tests;
