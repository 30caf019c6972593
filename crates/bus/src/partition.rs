//! Partitions under one hypervisor: several memories, one device between them.
//!
//! A logical partition's Ethernet adapter on POWER has no registers. Its driver calls the
//! hypervisor, which works on the caller's CPU and time and reaches memory through the partition's
//! translation table (PAPR, "Logical LAN" and "Virtual I/O"). [`Partitions`] is a [`Bus`] of
//! several buses; a machine of them implements [`Hypervisor`] beside [`Host`]. The same address in
//! two partitions is two places.

use crate::machine::{bus_of_platform, port_of_platform};
use crate::trace::{CpuStep, EventKind, Link, Transfer};
use crate::{Bus, Capture, FrameSink, Ledger, Machine, Platform, Reservations};
use doorbell_hal::{
    Device, Direction, DmaFault, EventSource, Fact, Hcall, HcallDevice, HcallReturn, Host,
    Hypervisor, Iova, Port, Reg, Reply, RxVerdict, Span, Time, write_each,
};

/// A device in the hypervisor, as a [`Machine`] holds it.
#[derive(Debug)]
pub struct HypervisorDevice<D>(pub D);

/// The callee of a [`Machine`]'s hypervisor calls: [`HypervisorDevice`], and a device that
/// wraps it.
pub trait Hypercalls<B> {
    /// Makes a call, as [`HcallDevice::hcall`]. The caller is the entered core's partition.
    fn hcall(&mut self, p: &mut Partitions<B>, at: Time, c: Hcall, a: &[u64; 9]) -> Reply;
}

/// A hypervisor call, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calls {
    /// Which.
    pub call: Hcall,
    /// Its price.
    pub price: CallPrice,
    /// Times that it was made.
    pub times: u64,
    /// CPU time that callers spent in it, price and waiting included.
    pub spent: Span,
}

/// The price of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallPrice {
    /// The price to the caller, besides what the device does and [`CallPrice::each`].
    pub fixed: Span,
    /// The price of each thing that the call is told to take.
    pub each: Each,
    /// For how much longer it has the hypervisor to itself: the same time line for the
    /// calls of all partitions, on which the caller waits for its turn and its end.
    pub serial: Span,
}

/// The price of a call by the number of things that an argument says; by default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Each {
    /// The argument that says how many, from 0.
    pub argument: usize,
    /// More than these are refused, and cost nothing more.
    pub most: u64,
    /// The price of one.
    pub price: Span,
}

impl Each {
    fn of(self, arguments: &[u64; 9]) -> Span {
        let n = arguments.get(self.argument).map_or(0, |n| *n.min(&self.most));
        Span::from_ps(self.price.ps() * n)
    }
}

/// The memories and interrupts of several partitions.
#[derive(Debug)]
pub struct Partitions<B> {
    /// Each partition's.
    pub ports: Vec<B>,
    /// The partition of each core.
    of_core: Vec<usize>,
    entered: usize,
    calls: Vec<Calls>,
    /// The price of a call that none was given for.
    other: Span,
    /// The hypervisor's lock: calls hold it one after another.
    serial: Reservations,
}

impl<B: Bus> Partitions<B> {
    /// Creates a partition for each of `ports`. Core `i` belongs to partition `of_core[i]`. Each
    /// call costs `price`.
    ///
    /// # Panics
    /// Panics if a core belongs to no partition, or there is no core.
    pub fn new(ports: Vec<B>, of_core: Vec<usize>, price: Span) -> Partitions<B> {
        assert!(
            !of_core.is_empty() && of_core.iter().all(|&p| p < ports.len()),
            "each core has a partition"
        );
        Partitions {
            ports,
            entered: of_core[0],
            of_core,
            calls: Vec::new(),
            other: price,
            serial: Reservations::new(),
        }
    }

    /// Sets the price of call `call`.
    pub fn price(&mut self, call: Hcall, price: CallPrice) {
        self.entry(call).price = price;
    }

    /// Returns the time for which the hypervisor's lock was held.
    pub fn held(&self) -> Span {
        self.serial.busy()
    }

    /// Returns the calls made or priced so far, in order of their first mention.
    pub fn calls(&self) -> &[Calls] {
        &self.calls
    }

    /// Returns the partition whose core was entered last.
    pub fn entered(&self) -> usize {
        self.entered
    }

    fn entry(&mut self, call: Hcall) -> &mut Calls {
        let i = self.place(call);
        &mut self.calls[i]
    }

    /// A driver uses a handful of calls, so a search costs less than a table of all.
    fn place(&mut self, call: Hcall) -> usize {
        self.calls.iter().position(|c| c.call == call).unwrap_or_else(|| {
            let price = CallPrice { fixed: self.other, ..CallPrice::default() };
            self.calls.push(Calls { call, price, times: 0, spent: Span::ZERO });
            self.calls.len() - 1
        })
    }

    fn own(&mut self) -> &mut B {
        &mut self.ports[self.entered]
    }
}

impl<B: Bus, D: Device<Partitions<B>> + Hypercalls<B>> Hypervisor for Machine<Partitions<B>, D> {
    fn hcall(&mut self, call: Hcall, a: &[u64]) -> HcallReturn {
        let mut all = [0; 9];
        all[..a.len()].copy_from_slice(a);
        let called = self.now();
        self.bus.platform_mut().ledger.hcalls += 1;
        let place = self.bus.place(call);
        let CallPrice { fixed: price, each, serial } = self.bus.calls[place].price;
        self.delay(price + each.of(&all));
        if serial > Span::ZERO {
            let turn = self.bus.serial.book(self.now(), serial);
            self.idle_until(turn + serial);
        }
        let (answer, back) = self.outside(|d, b, at| d.hcall(b, at, call, &all));
        self.idle_until(back);
        let spent = self.now().since(called);
        self.note(called, || CpuStep::Hcall(call));
        let entry = &mut self.bus.calls[place];
        entry.times += 1;
        entry.spent += spent;
        answer
    }
}

impl<B: Bus, D: HcallDevice<B>> Hypercalls<B> for HypervisorDevice<D> {
    fn hcall(&mut self, p: &mut Partitions<B>, at: Time, c: Hcall, a: &[u64; 9]) -> Reply {
        self.0.hcall(&mut p.ports, p.entered, at, c, a)
    }
}

impl<D: EventSource> EventSource for HypervisorDevice<D> {
    fn next_due(&self) -> Option<Time> {
        self.0.next_due()
    }
    fn diagnose(&self, tell: &mut dyn FnMut(&'static str, Fact)) {
        self.0.diagnose(tell);
    }
    fn counters(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.0.counters(tell);
    }
}

/// Register accesses without a device: reads return ones and writes are lost.
impl<B: Bus, D: HcallDevice<B>> Device<Partitions<B>> for HypervisorDevice<D> {
    fn mmio_read(&mut self, _: &mut Partitions<B>, _: Time, _: Reg, _: u8) -> u64 {
        u64::MAX
    }
    fn mmio_write(&mut self, _: &mut Partitions<B>, _: Time, _: Reg, _: u8, _: u64) {}
    fn receive(&mut self, p: &mut Partitions<B>, at: Time, frame: &[u8]) -> RxVerdict {
        self.0.receive(&mut p.ports, at, frame)
    }
    fn receive_buffer(
        &mut self,
        p: &mut Partitions<B>,
        at: Time,
        frame: &mut Vec<u8>,
    ) -> RxVerdict {
        self.0.receive_buffer(&mut p.ports, at, frame)
    }
    fn advance(&mut self, p: &mut Partitions<B>, until: Time) {
        self.0.advance(&mut p.ports, until);
    }
    fn reset(&mut self, p: &mut Partitions<B>, at: Time) {
        self.0.reset(&mut p.ports, at);
    }
}

/// Delivers writes in every partition. All else is the entered partition's.
impl<B: Bus> Bus for Partitions<B> {
    type Sink = B::Sink;
    type With<T: FrameSink + Clone> = Partitions<B::With<T>>;

    fn with_sink<T: FrameSink + Clone>(self, sink: T) -> Self::With<T> {
        let Partitions { ports, of_core, entered, calls, other, serial } = self;
        let ports = ports.into_iter().map(|p| p.with_sink(sink.clone())).collect();
        Partitions { ports, of_core, entered, calls, other, serial }
    }
    fn sink_mut(&mut self) -> &mut B::Sink {
        self.own().sink_mut()
    }
    fn platform(&self) -> &Platform {
        self.ports[self.entered].platform()
    }
    fn platform_mut(&mut self) -> &mut Platform {
        self.own().platform_mut()
    }
    fn register_write(&mut self, at: Time, size: u8) -> Time {
        self.own().register_write(at, size)
    }
    fn register_read(&mut self, at: Time, size: u8) -> Time {
        self.own().register_read(at, size)
    }
    fn register_answer(&mut self, at: Time, size: u8) -> Time {
        self.own().register_answer(at, size)
    }
    fn retire_before(&mut self, floor: Time) {
        self.serial.retire_before(floor);
        self.ports.iter_mut().for_each(|p| p.retire_before(floor));
    }
    fn platform_of(&self, n: usize) -> &Platform {
        self.ports[self.of_core[n]].platform()
    }
    fn interrupt_changes(&self) -> u64 {
        self.ports.iter().map(B::interrupt_changes).sum()
    }
    fn ledger(&self) -> Ledger {
        self.ports.iter().fold(Ledger::default(), |sum, p| sum.plus(&p.platform().ledger))
    }
    fn enter(&mut self, n: usize) {
        self.entered = self.of_core[n];
    }
    fn next_arrival(&self) -> Time {
        self.ports.iter().map(B::next_arrival).min().unwrap_or(Time::NEVER)
    }
    fn platforms(&mut self) -> impl Iterator<Item = &mut Platform> {
        self.ports.iter_mut().flat_map(B::platforms)
    }
    fn deliver(&mut self, until: Time) {
        self.ports.iter_mut().for_each(|p| p.deliver(until));
    }
}

/// The entered partition's.
impl<B: Bus> Port for Partitions<B> {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        self.own().read(at, from, into)
    }
    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        self.own().write(at, to, from)
    }
    fn check_access(&mut self, at: Iova, len: u32, dir: Direction) -> Result<(), DmaFault> {
        self.ports[self.entered].check_access(at, len, dir)
    }
    fn begin_completion(&mut self, at: Time) -> bool {
        self.own().begin_completion(at)
    }
    fn set_irq_line(&mut self, at: Time, n: u16, high: bool) {
        self.own().set_irq_line(at, n, high);
    }
    fn raise_msi(&mut self, at: Time, vector: u16) {
        self.own().raise_msi(at, vector);
    }
    fn emit(&mut self, at: Time, frame: &[u8]) {
        self.own().emit(at, frame);
    }
}

/// The hypervisor's access to a partition's memory: by the CPU it runs on, at so
/// much time a byte, through what the partition has mapped.
///
/// It may read all that is mapped, also a buffer that is mapped to be written: an entry of
/// the table never forbids reading, and the logical LAN reads a receive buffer's correlator.
#[derive(Debug)]
pub struct HypervisorPort<S = Capture> {
    platform: Platform,
    sink: S,
    per_kib: Span,
    /// The bytes of a write that joins several.
    joined: Vec<u8>,
}

impl HypervisorPort {
    /// Reading 1 KiB of `platform`'s memory costs `per_kib`, and writing it the same.
    pub fn new(platform: Platform, per_kib: Span) -> HypervisorPort {
        HypervisorPort { platform, sink: Capture::default(), per_kib, joined: Vec::new() }
    }
}

impl<S: FrameSink> HypervisorPort<S> {
    fn moved(&self, at: Time, bytes: usize) -> Time {
        at + Span::from_ps(self.per_kib.ps() * bytes as u64 / 1024)
    }

    /// Records in the trace a copy by the hypervisor.
    fn copied(&mut self, (at, until): (Time, Time), place: Iova, bytes: &[u8], dir: Direction) {
        self.platform.note(at, until, || {
            let name = if dir.is_written() { "write" } else { "read" };
            EventKind::Bus(
                Link::Hypervisor,
                Transfer { name, at: place, bytes: bytes.len() as u64, count: 1 },
            )
        });
        self.platform.note_transfer(at, until, place, bytes, dir);
    }
}

impl<S: FrameSink> Port for HypervisorPort<S> {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        self.platform.hypervisor_read(from, into)?;
        let until = self.moved(at, into.len());
        self.copied((at, until), from, into, Direction::ToDevice);
        Ok(until)
    }
    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        let arrival = self.moved(at, from.len());
        let place = self.platform.check_dma_write(to, from.len())?;
        let posted = self.platform.post_write(at, arrival, place, from);
        self.copied((at, arrival), to, from, Direction::FromDevice);
        Ok(posted)
    }
    fn write_buffer(&mut self, at: Time, to: Iova, from: &mut Vec<u8>) -> Result<Time, DmaFault> {
        if self.platform.is_recording() {
            return self.write(at, to, from);
        }
        let place = self.platform.check_dma_write(to, from.len())?;
        Ok(self.platform.post_buffer(at, self.moved(at, from.len()), place, from))
    }
    /// Posts the parts as one write that arrives with the last, unless each is to be seen.
    fn write_parts(
        &mut self,
        at: Time,
        to: Iova,
        parts: &[(u64, &[u8])],
    ) -> Result<Time, DmaFault> {
        let len = parts.iter().map(|part| part.1.len()).sum();
        let Some(place) = self.platform.may_join_writes(to, len) else {
            return write_each(self, at, to, parts);
        };
        self.joined.resize(len, 0);
        let mut arrival = at;
        for (offset, bytes) in parts.iter().filter(|part| !part.1.is_empty()) {
            self.joined[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
            arrival = self.platform.in_order(self.moved(arrival, bytes.len()));
        }
        Ok(self.platform.post_buffer(at, arrival, place, &mut self.joined))
    }
    fn check_access(&mut self, at: Iova, len: u32, dir: Direction) -> Result<(), DmaFault> {
        self.platform.hypervisor_reaches(at, len as usize, dir)
    }
    port_of_platform!();

    fn raise_msi(&mut self, at: Time, vector: u16) {
        self.platform.post_message(at, at, vector);
    }
}

/// No registers: an access to them takes no time.
impl<S: FrameSink> Bus for HypervisorPort<S> {
    type Sink = S;
    type With<T: FrameSink + Clone> = HypervisorPort<T>;

    fn with_sink<T: FrameSink + Clone>(self, sink: T) -> HypervisorPort<T> {
        let HypervisorPort { platform, per_kib, joined, .. } = self;
        HypervisorPort { platform, sink, per_kib, joined }
    }
    bus_of_platform!();

    fn register_write(&mut self, at: Time, _: u8) -> Time {
        at
    }
    fn register_read(&mut self, at: Time, _: u8) -> Time {
        at
    }
    fn register_answer(&mut self, at: Time, _: u8) -> Time {
        at
    }
    fn retire_before(&mut self, _: Time) {}
}

#[cfg(test)]
mod tests;
