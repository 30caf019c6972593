//! An AXI bus between a device in programmable logic and memory, in time.
//!
//! Read data, write data and registers have a line of reservations each. A read burst waits for a
//! slot of the issuing capability. A write is in memory when its response has come. A register read
//! does not push the device's writes before it. Interrupts are wires; a message is a write of four
//! bytes.

use super::Rules;
use crate::machine::{bus_of_platform, port_of_platform};
use crate::outstanding::OutstandingRequests;
use crate::reservations::Reservations;
use crate::trace::{EventKind, Link, Transfer};
use crate::{Bus, Capture, FrameSink, Platform};
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

/// An AXI bus with a platform behind it; the device's [`Port`].
#[derive(Debug)]
pub struct Axi<S = Capture> {
    platform: Platform,
    sink: S,
    rules: Rules,
    latencies: Latencies,
    read_data: Reservations,
    write_data: Reservations,
    registers: Reservations,
    reads: OutstandingRequests,
    writes: OutstandingRequests,
}

impl Axi {
    /// Creates a bus with these rules.
    pub fn new(platform: Platform, rules: Rules, latencies: Latencies) -> Axi {
        Axi {
            platform,
            sink: Capture::default(),
            rules,
            latencies,
            read_data: Reservations::new(),
            write_data: Reservations::new(),
            registers: Reservations::new(),
            reads: OutstandingRequests::new(rules.settings().reads),
            writes: OutstandingRequests::new(rules.settings().writes),
        }
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
        self.read_data.horizon().max(self.write_data.horizon())
    }

    /// Books a write of the device. Returns the time of the last response.
    fn send_write(&mut self, at: Time, to: Iova, len: u32) -> Time {
        let mut response = at;
        for burst in self.rules.bursts(to.0, len) {
            let took = self.rules.burst_time(&burst);
            let done = self.write_data.book(self.writes.free(at), took) + took;
            self.note(Link::AxiWrite, (done, took), "write", (burst.addr, burst.bytes, 1));
            response = response.max(done + self.latencies.write);
            self.writes.take(response);
            self.platform.ledger.count_axi_write(&burst);
        }
        response
    }

    /// Books a register access of `size` bytes. Returns the time at which the slave has done it.
    fn lite(&mut self, at: Time, size: u8, accesses: u64, name: &'static str) -> Time {
        let took = self.rules.clocks(accesses * u64::from(self.rules.settings().lite_clocks));
        let done = self.registers.book(at, took) + took;
        self.note(Link::AxiLite, (done, took), name, (0, size.into(), accesses));
        done
    }

    /// Records in the trace a transfer that ended at `done` and took `took`.
    #[inline(always)]
    fn note(
        &mut self,
        link: Link,
        (done, took): (Time, Span),
        name: &'static str,
        (addr, bytes, count): (u64, u32, u64),
    ) {
        let crossing = || Transfer { name, at: Iova(addr), bytes: bytes.into(), count };
        self.platform
            .note(Time::from_ps(done.ps() - took.ps()), done, || EventKind::Bus(link, crossing()));
    }
}

/// The address of messages: the frame of an interrupt controller that takes them (GICv2m).
const MESSAGE_ADDRESS: Iova = Iova(0xf920_0040);

impl<S: FrameSink> Port for Axi<S> {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        self.platform.fetch(from, into)?;
        let mut done = at;
        for burst in self.rules.bursts(from.0, into.len() as u32) {
            let took = self.rules.burst_time(&burst);
            let ready = self.reads.free(at) + self.latencies.read;
            // Data come in the order of the requests.
            done = self.read_data.book(ready.max(done), took) + took;
            self.note(Link::AxiRead, (done, took), "read", (burst.addr, burst.bytes, 1));
            self.reads.take(done);
            self.platform.ledger.count_axi_read(&burst);
        }
        self.platform.note_transfer(at, done, from, into, Direction::ToDevice);
        Ok(done)
    }

    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        self.platform.check_dma_write(to, from.len())?;
        let arrival = self.send_write(at, to, from.len() as u32);
        Ok(self.platform.post_write_since(at, arrival, to, from))
    }

    port_of_platform!();

    fn raise_msi(&mut self, at: Time, vector: u16) {
        let arrival = self.send_write(at, MESSAGE_ADDRESS, 4);
        self.platform.post_message(arrival, vector);
    }
}

impl<S: FrameSink> Bus for Axi<S> {
    type Sink = S;
    type With<T: FrameSink + Clone> = Axi<T>;

    fn with_sink<T: FrameSink + Clone>(self, sink: T) -> Axi<T> {
        let Axi {
            platform, rules, latencies, read_data, write_data, registers, reads, writes, ..
        } = self;
        Axi { platform, rules, latencies, read_data, write_data, registers, reads, writes, sink }
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
        self.read_data.retire_before(floor);
        self.write_data.retire_before(floor);
        self.registers.retire_before(floor);
    }
}
