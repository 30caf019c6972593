//! A PCI Express link between a device and its host, in time.
//!
//! [`pcie`](crate::pcie) says what a transfer becomes; here it is booked: each
//! direction of the link is a [`Reservations`], host memory answers after a latency,
//! and every TLP and DLLP goes to the ledger.
//!
//! A DLLP is small and waits for nothing: its bytes are booked in front of the
//! next TLP of its direction, so that totals are exact and a lone
//! acknowledgement moves nothing else.
//!
//! Neither a read request of the device nor the answer to a register read passes
//! its posted writes and messages.

use super::{ByteClock, ByteTime, DllpState, LinkDirection, Rules, Tlps};
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
    clock: ByteClock,
    /// DLLP bytes that go in front of the next TLP.
    owed: u64,
}

impl Half {
    fn new(rules: &Rules) -> Half {
        Half { line: Reservations::new(), clock: ByteClock::new(rules.byte_time()), owed: 0 }
    }

    /// Sends `bytes` at or after `at`. Returns the interval.
    #[inline(always)]
    fn send(&mut self, at: Time, bytes: u64) -> Interval {
        let duration = self.clock.take(bytes + core::mem::take(&mut self.owed));
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
    raw: ByteTime,
    up: Half,
    down: Half,
    dllps: DllpState,
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
            raw: rules.raw_byte_time(),
            up: Half::new(&rules),
            down: Half::new(&rules),
            dllps: DllpState::new(&rules),
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

    /// Returns the bytes that a direction can carry in `span`, at the rate in force.
    pub fn capacity(&self, span: Span) -> u64 {
        self.rules.byte_time().capacity(span)
    }

    /// Returns the bytes that a direction of the bare link carries in `span`: what published
    /// utilizations are shares of.
    pub fn raw_capacity(&self, span: Span) -> u64 {
        self.raw.capacity(span)
    }

    /// Returns the end of the last packet in either direction.
    pub fn booked_until(&self) -> Time {
        self.up.line.horizon().max(self.down.line.horizon())
    }

    /// Sends TLPs at or after `at`, and books the DLLPs that answer them. Returns the time at which
    /// the last byte is usable at the other end.
    #[inline(always)]
    fn send(&mut self, at: Time, t: Tlps) -> Time {
        let (line, link) = match t.toward {
            LinkDirection::Upstream => (&mut self.up, Link::PcieUp),
            LinkDirection::Downstream => (&mut self.down, Link::PcieDown),
        };
        let Interval { start, end } = line.send(at, t.bytes);
        let arrival = end + self.latencies.link;
        let (name, at) = (t.command.name(), Iova(t.addr));
        let crossing = || Transfer { name, at, bytes: t.bytes, count: t.count };
        self.platform.note(start, end, || EventKind::Bus(link, crossing()));
        self.platform.ledger.count_tlps(&t);
        let owed = self.platform.ledger.count_answer(&mut self.dllps, &t, arrival);
        match t.toward {
            LinkDirection::Upstream => self.down.owed += owed,
            LinkDirection::Downstream => self.up.owed += owed,
        }
        arrival
    }
}

/// The address of MSI-X messages: the local APIC's page, below 4 GiB.
const MESSAGE_ADDRESS: u64 = 0xfee0_0000;

impl<S: FrameSink> Port for Pcie<S> {
    // Once a packet, from a hot loop.
    #[inline(always)]
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        self.platform.fetch(from, into)?;
        let [request, data] = self.rules.device_read(from.0, into.len() as u32);
        let asked = self.send(at, request);
        let asked = self.platform.behind_posted(at, asked);
        let answered = self.send(asked + self.latencies.memory, data);
        self.platform.note_transfer(at, answered, from, into, Direction::ToDevice);
        Ok(answered)
    }

    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        let place = self.platform.check_dma_write(to, from.len())?;
        let arrival = self.send(at, self.rules.device_write(to.0, from.len() as u32));
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
        let Pcie { platform, rules, latencies, bar, raw, up, down, dllps, .. } = self;
        Pcie { platform, rules, latencies, bar, raw, up, down, dllps, sink }
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
}

#[cfg(test)]
mod tests;
