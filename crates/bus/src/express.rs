//! A PCI Express link between a device and its host, in time.
//!
//! [`pcie`](crate::pcie) says what a transfer becomes; here it is booked: each
//! direction of the link is a [`TimeLine`], host memory answers after a latency,
//! and every TLP and DLLP goes to the ledger.
//!
//! A DLLP is small and waits for nothing: its bytes are booked in front of the
//! next TLP of its direction, so that totals are exact and a lone
//! acknowledgement moves nothing else.

use crate::pcie::{ByteClock, ByteTime, Class, DllpState, Dllps, Rules, Toward};
use crate::timeline::{Interval, TimeLine};
use crate::trace::{Crossing, Link, What};
use crate::{Bus, Capture, FrameSink, Platform};
use doorbell_hal::{Direction, DmaFault, Iova, Port, Span, Time};

/// Time and place of things around the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// From the last bit sent to the packet being usable, one way.
    pub link: Span,
    /// From a read request at the root complex to its data.
    pub memory: Span,
}

/// One direction of the link.
#[derive(Debug)]
struct Lane {
    line: TimeLine,
    clock: ByteClock,
    /// DLLP bytes that go in front of the next TLP.
    owed: u64,
}

impl Lane {
    fn new(rules: &Rules) -> Lane {
        Lane { line: TimeLine::new(), clock: ByteClock::new(rules.byte_time()), owed: 0 }
    }

    /// Sends `bytes` at or after `at`; from when to when.
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
    up: Lane,
    down: Lane,
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
            up: Lane::new(&rules),
            down: Lane::new(&rules),
            dllps: DllpState::new(&rules),
        }
    }
}

impl<S: FrameSink> Pcie<S> {
    /// What hangs on it, when the link is no longer wanted.
    pub fn into_platform(self) -> Platform {
        self.platform
    }

    /// The link's rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Bytes that a direction can carry in `span`, at the rate in force.
    pub fn capacity(&self, span: Span) -> u64 {
        self.rules.byte_time().capacity(span)
    }

    /// Bytes that a direction of the bare link carries in `span`: what published
    /// utilizations are shares of.
    pub fn raw_capacity(&self, span: Span) -> u64 {
        self.raw.capacity(span)
    }

    /// Until when the link is booked: the end of the last packet in either direction.
    pub fn booked_until(&self) -> Time {
        self.up.line.horizon().max(self.down.line.horizon())
    }

    /// The other end answers `count` TLPs that arrived at `at`.
    #[inline(always)]
    fn acknowledge(&mut self, toward: Toward, class: Class, count: u64, at: Time) {
        let answer: Dllps = self.dllps.tlps(toward, class, count as u32, at);
        let bytes = u64::from(answer.bytes());
        match toward {
            Toward::Host => {
                self.down.owed += bytes;
                self.platform.ledger.pcie_down_dllp_bytes += bytes;
            }
            Toward::Device => {
                self.up.owed += bytes;
                self.platform.ledger.pcie_up_dllp_bytes += bytes;
            }
        }
    }

    /// Sends `count` packets of `bytes` in all toward the device or the host; when the last byte is
    /// usable there.
    #[inline(always)]
    fn send(
        &mut self,
        toward: Toward,
        at: Time,
        name: &'static str,
        (place, bytes, count): (u64, u64, u64),
    ) -> Time {
        let (lane, link) = match toward {
            Toward::Host => (&mut self.up, Link::PcieUp),
            Toward::Device => (&mut self.down, Link::PcieDown),
        };
        let Interval { start, end } = lane.send(at, bytes);
        self.platform
            .note(start, end, || What::Bus(link, Crossing { name, at: Iova(place), bytes, count }));
        end + self.latencies.link
    }

    /// Posted bytes toward the host.
    #[inline(always)]
    fn send_write(&mut self, at: Time, to: Iova, len: u32) -> Time {
        let bill = self.rules.write_bill(to.0, len);
        let arrival = self.send(Toward::Host, at, "MWr", (to.0, bill.request_bytes, bill.requests));
        let l = &mut self.platform.ledger;
        l.pcie_mwr_up += bill.requests;
        l.pcie_up_tlp_bytes += bill.request_bytes;
        l.pcie_write_bytes += u64::from(len);
        self.acknowledge(Toward::Host, Class::Posted, bill.requests, arrival);
        arrival
    }
}

/// Where MSI-X messages go: the local APIC's page, below 4 GiB.
const MESSAGE_ADDRESS: Iova = Iova(0xfee0_0000);

impl<S: FrameSink> Port for Pcie<S> {
    #[inline]
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        self.platform.fetch(from, into)?;
        let bill = self.rules.read_bill(from.0, into.len() as u32);
        let asked = self.send(Toward::Host, at, "MRd", (from.0, bill.request_bytes, bill.requests));
        self.acknowledge(Toward::Host, Class::NonPosted, bill.requests, asked);
        let data = (from.0, bill.completion_bytes, bill.completions);
        let answered = self.send(Toward::Device, asked + self.latencies.memory, "CplD", data);
        self.acknowledge(Toward::Device, Class::Completion, bill.completions, answered);
        let l = &mut self.platform.ledger;
        l.pcie_mrd_up += bill.requests;
        l.pcie_up_tlp_bytes += bill.request_bytes;
        l.pcie_cpld_down += bill.completions;
        l.pcie_down_tlp_bytes += bill.completion_bytes;
        l.pcie_read_bytes += into.len() as u64;
        self.platform.note_transfer(at, answered, from, into, Direction::ToDevice);
        Ok(answered)
    }

    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        self.platform.check_dma_write(to, from.len())?;
        let arrival = self.send_write(at, to, from.len() as u32);
        Ok(self.platform.post_write_since(at, arrival, to, from))
    }

    #[inline(always)]
    fn begin_completion(&mut self, at: Time) -> bool {
        self.platform.begin_completion(at)
    }

    fn set_irq_line(&mut self, at: Time, n: u16, high: bool) {
        self.platform.set_irq_line(at, n, high);
    }

    fn raise_msi(&mut self, at: Time, vector: u16) {
        let arrival = self.send_write(at, MESSAGE_ADDRESS, 4);
        self.platform.post_message(arrival, vector);
    }

    #[inline]
    fn emit(&mut self, at: Time, frame: &[u8]) {
        self.platform.count_frame(at, frame);
        self.sink.emit(at, frame);
    }
}

impl<S: FrameSink> Bus for Pcie<S> {
    type Sink = S;
    type With<T: FrameSink + Clone> = Pcie<T>;

    fn with_sink<T: FrameSink + Clone>(self, sink: T) -> Pcie<T> {
        let Pcie { platform, rules, latencies, bar, raw, up, down, dllps, .. } = self;
        Pcie { platform, rules, latencies, bar, raw, up, down, dllps, sink }
    }

    #[inline(always)]
    fn platform(&self) -> &Platform {
        &self.platform
    }

    #[inline(always)]
    fn platform_mut(&mut self) -> &mut Platform {
        &mut self.platform
    }

    #[inline(always)]
    fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    fn register_write(&mut self, at: Time, size: u8) -> Time {
        let bill = self.rules.write_bill(self.bar, size.into());
        let arrival =
            self.send(Toward::Device, at, "MWr", (self.bar, bill.request_bytes, bill.requests));
        self.platform.ledger.pcie_mwr_down += bill.requests;
        self.platform.ledger.pcie_down_tlp_bytes += bill.request_bytes;
        self.acknowledge(Toward::Device, Class::Posted, bill.requests, arrival);
        arrival
    }

    fn register_read(&mut self, at: Time, size: u8) -> Time {
        let bill = self.rules.read_bill(self.bar, size.into());
        let arrival =
            self.send(Toward::Device, at, "MRd", (self.bar, bill.request_bytes, bill.requests));
        self.platform.ledger.pcie_mrd_down += bill.requests;
        self.platform.ledger.pcie_down_tlp_bytes += bill.request_bytes;
        self.acknowledge(Toward::Device, Class::NonPosted, bill.requests, arrival);
        arrival
    }

    fn register_answer(&mut self, at: Time, size: u8) -> Time {
        let bill = self.rules.read_bill(self.bar, size.into());
        let arrival = self.send(
            Toward::Host,
            at,
            "CplD",
            (self.bar, bill.completion_bytes, bill.completions),
        );
        self.platform.ledger.pcie_cpld_up += bill.completions;
        self.platform.ledger.pcie_up_tlp_bytes += bill.completion_bytes;
        self.acknowledge(Toward::Host, Class::Completion, bill.completions, arrival);
        self.platform.answer_behind_posted(arrival)
    }

    fn set_floor(&mut self, floor: Time) {
        self.up.line.set_floor(floor);
        self.down.line.set_floor(floor);
    }
}
