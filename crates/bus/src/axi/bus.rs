//! An AXI bus between a device in programmable logic and memory, in time.
//!
//! Read data, write data and registers have a line of reservations each. A read burst waits for a
//! slot of the issuing capability. A write is in memory when its response has come. A register read
//! does not push the device's writes before it. Interrupts are wires; a message is a write of four
//! bytes.

use super::Rules;
use super::cut::Run;
use crate::machine::{bus_of_platform, port_of_platform};
use crate::outstanding::OutstandingRequests;
use crate::reservations::{Interval, Reservations};
use crate::trace::{EventKind, Link, Transfer};
use crate::{Bus, Capture, FrameSink, Platform};
use core::iter;
use doorbell_hal::{Direction, DmaFault, Iova, Port, Span, Time};

/// Latencies beside the beats of [`Rules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// The time from a read's address to its first data.
    pub read: Span,
    /// The time from a write's last data to its response, when it is in memory.
    pub write: Span,
    /// The time between CPU and AXI4-Lite slave, one way.
    pub cpu: Span,
}

impl Latencies {
    /// A Zynq UltraScale+: DDR4 behind a high-performance port, registers behind M_AXI_HPM_FPD.
    pub const ZYNQMP: Latencies = Latencies {
        // Estimates: some 100 ns of a DDR4 read that misses the row, and as much for the
        // interconnect, the port's queues and two clock crossings. UG1085 gives none:
        // "expected to vary across a wide range".
        read: Span::from_ns(200),
        write: Span::from_ns(150),
        // A read by an A53 takes 96 ns with a slave at 333 MHz (ryuz88, "KV260 de PS kara PL", 30
        // May 2023); without some 4 clocks at the slave, half of it each way.
        cpu: Span::from_ns(42),
    };

    /// No latency beside that of the rules.
    pub const NONE: Latencies = Latencies { read: Span::ZERO, write: Span::ZERO, cpu: Span::ZERO };
}

/// One direction of data: its reservations, and the slots of its bursts.
#[derive(Debug)]
struct Lane {
    data: Reservations,
    slots: OutstandingRequests,
    /// The end of all bursts, when every slot is free.
    over: Time,
    /// The time from a burst's slot to its data.
    lead: Span,
    /// The time from a burst's last data to its end, which frees its slot.
    tail: Span,
    /// Data come in the order of the requests.
    in_order: bool,
    /// Full bursts of all other slots take no less than a burst's lead and tail: of a run, a burst
    /// that takes the slot of an earlier one finds it free.
    keeps_up: bool,
}

impl Lane {
    /// Books a burst whose data take `took`, wanted at `at`, behind one that ends at `end`. Returns
    /// the end of its data and its own.
    fn book(&mut self, at: Time, took: Span, end: Time) -> (Time, Time) {
        let ready = self.slots.free(at) + self.lead;
        let after = if self.in_order { end } else { Time::ZERO };
        let done = self.data.book(ready.max(after), took) + took;
        let end = end.max(done + self.tail);
        self.slots.take(end);
        self.over = self.over.max(end);
        (done, end)
    }

    /// Books all bursts of `run` at once where [`Lane::book`] would book one behind the other
    /// without a gap. Returns the end of the last, or nothing if a burst may have to wait.
    #[inline(always)]
    fn book_run(&mut self, at: Time, run: &Run) -> Option<Time> {
        // All data booked so far have gone, and all slots are free.
        if self.over > at || run.bursts > 1 && !self.keeps_up || run.bursts == 0 {
            return None;
        }
        let data = Interval { start: Time::ZERO, end: Time::ZERO + run.total };
        let start = self.data.append(at + self.lead, iter::once(data), run.total)?;
        self.over = start + run.total + self.tail;
        if run.bursts == 1 {
            self.slots.take(self.over);
        } else {
            // Later bursts take the slots of earlier ones.
            let reused = run.bursts.saturating_sub(self.slots.count() as u64);
            let end = start + run.first + run.full * reused + self.tail;
            self.slots.take_run(end, run.full, run.bursts - reused, self.over);
        }
        Some(self.over)
    }
}

/// An AXI bus with a platform behind it; the device's [`Port`].
#[derive(Debug)]
pub struct Axi<S = Capture> {
    platform: Platform,
    sink: S,
    rules: Rules,
    latencies: Latencies,
    reads: Lane,
    writes: Lane,
    registers: Reservations,
}

impl Axi {
    /// Creates a bus with these rules.
    pub fn new(platform: Platform, rules: Rules, latencies: Latencies) -> Axi {
        let lane = |slots, lead, tail, in_order| Lane {
            data: Reservations::new(),
            slots: OutstandingRequests::new(slots),
            over: Time::ZERO,
            lead,
            tail,
            in_order,
            keeps_up: rules.full * u64::from(slots - 1) >= lead + tail,
        };
        let reads = lane(rules.settings().reads, latencies.read, Span::ZERO, true);
        let writes = lane(rules.settings().writes, Span::ZERO, latencies.write, false);
        let (sink, registers) = (Capture::default(), Reservations::new());
        Axi { platform, sink, rules, latencies, reads, writes, registers }
    }
}

impl<S: FrameSink> Axi<S> {
    /// Returns the bus's rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns the whole clocks in `span`: the most beats of a direction.
    pub fn capacity(&self, span: Span) -> u64 {
        let beats = u128::from(span.ps()) * u128::from(self.rules.settings().mhz) / 1_000_000;
        u64::try_from(beats).unwrap_or(u64::MAX)
    }

    /// Returns the end of the last data booked, in either direction.
    pub fn booked_until(&self) -> Time {
        self.reads.data.horizon().max(self.writes.data.horizon())
    }

    /// Counts and books a transfer of the device. Returns the time of the last data read, or of
    /// the last response.
    #[inline(always)]
    fn transfer(&mut self, link: Link, at: Time, place: Iova, len: u32) -> Time {
        let run = self.rules.run(place.0, len);
        let lane = if link == Link::AxiRead {
            self.platform.ledger.count_axi_read(&run, len);
            &mut self.reads
        } else {
            self.platform.ledger.count_axi_write(&run, len);
            &mut self.writes
        };
        // A trace wants each burst.
        if !self.platform.is_recording()
            && let Some(end) = lane.book_run(at, &run)
        {
            return end;
        }
        self.transfer_by_burst(link, at, place, len)
    }

    #[inline(never)]
    fn transfer_by_burst(&mut self, link: Link, at: Time, place: Iova, len: u32) -> Time {
        let (lane, name) = match link {
            Link::AxiRead => (&mut self.reads, "read"),
            _ => (&mut self.writes, "write"),
        };
        let mut end = at;
        for burst in self.rules.bursts(place.0, len) {
            let took = self.rules.burst_time(&burst);
            let done;
            (done, end) = lane.book(at, took, end);
            note(&mut self.platform, link, (done, took), name, (burst.addr, burst.bytes, 1));
        }
        end
    }

    /// Books a write of the device. Returns the time of the last response.
    fn send_write(&mut self, at: Time, to: Iova, len: u32) -> Time {
        self.transfer(Link::AxiWrite, at, to, len)
    }

    /// Books a register access of `size` bytes. Returns the time at which the slave has done it.
    fn lite(&mut self, at: Time, size: u8, accesses: u64, name: &'static str) -> Time {
        let took = self.rules.clocks(accesses * u64::from(self.rules.settings().lite_clocks));
        let done = self.registers.book(at, took) + took;
        note(&mut self.platform, Link::AxiLite, (done, took), name, (0, size.into(), accesses));
        done
    }
}

/// Records in the trace a transfer that ended at `done` and took `took`.
#[inline(always)]
fn note(
    platform: &mut Platform,
    link: Link,
    (done, took): (Time, Span),
    name: &'static str,
    (addr, bytes, count): (u64, u32, u64),
) {
    let crossing = || Transfer { name, at: Iova(addr), bytes: bytes.into(), count };
    platform.note(Time::from_ps(done.ps() - took.ps()), done, || EventKind::Bus(link, crossing()));
}

/// The address of messages: the frame of an interrupt controller that takes them (GICv2m).
const MESSAGE_ADDRESS: Iova = Iova(0xf920_0040);

impl<S: FrameSink> Port for Axi<S> {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        self.platform.fetch(from, into)?;
        let done = self.transfer(Link::AxiRead, at, from, into.len() as u32);
        self.platform.note_transfer(at, done, from, into, Direction::ToDevice);
        Ok(done)
    }

    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        let place = self.platform.check_dma_write(to, from.len())?;
        let arrival = self.send_write(at, to, from.len() as u32);
        Ok(self.platform.post_write_since(at, arrival, place, from))
    }

    fn write_buffer(&mut self, at: Time, to: Iova, from: &mut Vec<u8>) -> Result<Time, DmaFault> {
        if self.platform.is_recording() {
            return self.write(at, to, from);
        }
        let place = self.platform.check_dma_write(to, from.len())?;
        let arrival = self.send_write(at, to, from.len() as u32);
        Ok(self.platform.post_buffer(at, arrival, place, from))
    }

    port_of_platform!();

    fn raise_msi(&mut self, at: Time, vector: u16) {
        let arrival = self.send_write(at, MESSAGE_ADDRESS, 4);
        self.platform.post_message(at, arrival, vector);
    }
}

impl<S: FrameSink> Bus for Axi<S> {
    type Sink = S;
    type With<T: FrameSink + Clone> = Axi<T>;

    fn with_sink<T: FrameSink + Clone>(self, sink: T) -> Axi<T> {
        let Axi { platform, rules, latencies, reads, writes, registers, .. } = self;
        Axi { platform, rules, latencies, reads, writes, registers, sink }
    }

    bus_of_platform!();

    fn register_write(&mut self, at: Time, size: u8) -> Time {
        let accesses = Rules::lite_accesses(size);
        self.platform.ledger.axi_lite_writes += accesses;
        self.lite(at + self.latencies.cpu, size, accesses, "write")
    }

    /// Books the request and the slave's time. The answer takes only the way back.
    fn register_read(&mut self, at: Time, size: u8) -> Time {
        let accesses = Rules::lite_accesses(size);
        self.platform.ledger.axi_lite_reads += accesses;
        self.lite(at + self.latencies.cpu, size, accesses, "read")
    }

    fn register_answer(&mut self, at: Time, _size: u8) -> Time {
        at + self.latencies.cpu
    }

    fn retire_before(&mut self, floor: Time) {
        self.reads.data.retire_before(floor);
        self.writes.data.retire_before(floor);
        self.registers.retire_before(floor);
    }

    fn booked_after(&self, at: Time) -> [Span; 2] {
        [&self.reads.data, &self.writes.data].map(|data| data.busy_after(at))
    }
}
