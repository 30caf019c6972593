//! A CPU whose stores become visible as late, or in as odd an order, as its fences allow.
//!
//! A [`StoreBuffer`] stands between a driver's stores to coherent memory and memory. It keeps no
//! promise but those of the fences: [`Fence::DmaWrite`] and [`Fence::Write`] order stores, and
//! [`Fence::Write`] flushes those before it at the next register write. Stores to the same bytes
//! stay in order; those of more than eight bytes are several; after [`StoreBuffer::LIMIT`] a store
//! goes. [`Ordered`] is a bus whose machine has one. Source: linux
//! Documentation/memory-barriers.txt ("Kernel I/O barrier effects", `dma_wmb`).

use crate::log::moment;
use crate::machine::Bus;
use crate::random::splitmix;
use crate::{FrameSink, Ledger, Platform};
use core::fmt;
use core::ops::Range;
use doorbell_hal::{Coherent, Direction, DmaFault, Fence, Iova, Port, Reg, Span, Time};
use std::collections::VecDeque;

/// The choice among the allowed orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Delays each store as long as allowed. Finds a missing fence between a store and its
    /// doorbell.
    Late,
    /// Delays the first store after a fence, which all others pass. Finds a missing fence between a
    /// descriptor's body and its ownership word.
    Overtaken,
    /// Completes any store at any time, drawn from this seed. Finds either, eventually.
    Random(u64),
}

/// A store that has not reached memory: of up to eight bytes in an aligned word.
#[derive(Debug)]
pub struct Held {
    /// The area that it is to.
    pub area: Coherent,
    /// The first byte in the area.
    pub offset: u32,
    bytes: [u8; 8],
    len: u8,
    /// Fences before it.
    epoch: u64,
    /// Time at which the CPU made it.
    pub at: Time,
    /// Register writes of the CPU before it.
    writes: u64,
}

impl Held {
    /// Returns the bytes that it stores.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns its addresses, as the CPU sees them.
    pub fn range(&self) -> Range<u64> {
        let start = self.area.addr() + u64::from(self.offset);
        start..start + u64::from(self.len)
    }

    /// Returns its addresses, as the device sees them.
    fn seen_by_device(&self) -> Range<u64> {
        let start = self.area.iova().0 + u64::from(self.offset);
        start..start + u64::from(self.len)
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Stores that wait at the most: several times those of a CPU, so that a long initialisation of
/// memory, which takes no time here, does not wait as a whole.
const MOST: usize = 1024;

/// The stores of a CPU that have not reached memory. Who takes one out puts it into memory.
#[derive(Debug)]
pub struct StoreBuffer {
    order: Order,
    random: u64,
    /// Oldest first.
    held: VecDeque<Held>,
    /// Fences so far.
    epoch: u64,
    /// Stores of earlier epochs go before the next register write.
    before_register: u64,
    /// Register writes so far.
    writes: u64,
    passed: u64,
}

impl StoreBuffer {
    /// The longest time for which a store is kept.
    pub const LIMIT: Span = Span::from_us(10);

    /// Creates an empty one.
    pub fn new(order: Order) -> StoreBuffer {
        let random = if let Order::Random(seed) = order { seed } else { 0 };
        let held = VecDeque::new();
        StoreBuffer { order, random, held, epoch: 0, before_register: 0, writes: 0, passed: 0 }
    }

    /// Returns the order.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Returns the stores that left before an older one.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Draws a random number.
    pub fn draw(&mut self) -> u64 {
        splitmix(&mut self.random) >> 32
    }

    /// Returns what it has, the oldest first.
    pub fn held(&self) -> impl Iterator<Item = &Held> {
        self.held.iter()
    }

    /// Takes the first bytes of a store at `now`, as many as an aligned word has, and returns their
    /// number. The store may go at once ([`StoreBuffer::overtaking`]).
    pub fn push(&mut self, to: &Coherent, offset: u32, bytes: &[u8], now: Time) -> usize {
        let to_boundary = 8 - (to.addr() + u64::from(offset)) % 8;
        let len = bytes.len().min(to_boundary as usize);
        let mut word = [0; 8];
        word[..len].copy_from_slice(&bytes[..len]);
        self.held.push_back(Held {
            area: Coherent::from_parts(to.addr(), to.iova(), to.len(), to.token()),
            offset,
            bytes: word,
            len: len as u8,
            epoch: self.epoch,
            at: now,
            writes: self.writes,
        });
        len
    }

    /// Takes out the newest store, if it passes those before it.
    pub fn overtaking(&mut self) -> Option<Held> {
        let newest = self.held.len().checked_sub(1).filter(|n| *n > 0)?;
        let passes = self.order == Order::Overtaken && self.may_go(newest);
        if passes { self.take(newest) } else { None }
    }

    /// Takes out the oldest store, if there are more than any CPU holds.
    pub fn overflowing(&mut self) -> Option<Held> {
        if self.held.len() > MOST { self.take(0) } else { None }
    }

    /// Takes out the oldest store.
    pub fn pop(&mut self) -> Option<Held> {
        self.take(0)
    }

    /// Takes out a store that is as old at `now` as any may be.
    pub fn due(&mut self, now: Time) -> Option<Held> {
        if self.held.front()?.at + Self::LIMIT <= now { self.take(0) } else { None }
    }

    /// Takes out any store that may go, in one case of two, in a random order.
    pub fn drawn(&mut self) -> Option<Held> {
        if !matches!(self.order, Order::Random(_)) {
            return None;
        }
        while !self.held.is_empty() && self.draw() & 1 == 1 {
            let i = self.draw() as usize % self.held.len();
            if self.may_go(i) {
                return self.take(i);
            }
        }
        None
    }

    /// Takes out a store that goes before a register write.
    pub fn before_register(&mut self) -> Option<Held> {
        self.of_before(self.before_register)
    }

    /// Takes out a store that a fence orders before what follows it.
    pub fn before_fence(&mut self) -> Option<Held> {
        self.of_before(self.epoch)
    }

    fn of_before(&mut self, epoch: u64) -> Option<Held> {
        if self.held.front()?.epoch < epoch { self.take(0) } else { None }
    }

    /// Counts a register write. Returns the number of those before it.
    pub fn register_written(&mut self) -> u64 {
        self.writes += 1;
        self.writes - 1
    }

    /// Orders stores. Returns true if all have to go, since what is kept behind a fence would keep
    /// what follows it from overtaking.
    pub fn fence(&mut self, f: Fence) -> bool {
        if f != Fence::DmaRead {
            self.epoch += 1;
            if f == Fence::Write {
                self.before_register = self.epoch;
            }
        }
        f != Fence::DmaRead && self.order == Order::Overtaken
    }

    /// Puts what the CPU has stored over the bytes that are in memory at `start`.
    pub fn forward(&self, start: u64, bytes: &mut [u8]) {
        let range = start..start + bytes.len() as u64;
        for held in &self.held {
            for (address, b) in held.range().zip(held.bytes()) {
                if range.contains(&address) {
                    bytes[(address - start) as usize] = *b;
                }
            }
        }
    }

    /// Returns true if nothing older has to go first.
    fn may_go(&self, i: usize) -> bool {
        let (epoch, range) = (self.held[i].epoch, self.held[i].range());
        let older = self.held.iter().take(i);
        older.clone().all(|older| older.epoch == epoch && !overlap(&older.range(), &range))
    }

    fn take(&mut self, i: usize) -> Option<Held> {
        self.passed += u64::from(i > 0);
        self.held.remove(i)
    }

    /// Returns the oldest store that the device misses at these addresses although the CPU wrote a
    /// register after it.
    fn missed(&self, at: Iova, len: usize) -> Option<&Held> {
        let range = at.0..at.0.saturating_add(len as u64);
        let mut held = self.held.iter().filter(|h| h.writes < self.writes);
        held.find(|h| overlap(&h.seen_by_device(), &range))
    }
}

/// A register write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// The register.
    pub reg: Reg,
    /// Its name in the manual, if the device knows it.
    pub name: Option<&'static str>,
    /// The value.
    pub value: u64,
    /// Time at which the CPU wrote it.
    pub at: Time,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Written { reg, name, value, at } = self;
        match name {
            Some(name) => f.write_str(name)?,
            None => write!(f, "register {:#x}", reg.offset)?,
        }
        write!(f, " {value:#x} at {}", moment(*at))
    }
}

/// A store that a device did not see although a register write told it to look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unordered {
    /// Bytes from the area's start.
    pub offset: u32,
    /// The area's first byte, as the device sees it.
    pub area: Iova,
    /// Bytes stored.
    pub bytes: usize,
    /// Time of the store.
    pub at: Time,
    /// The first register write after it.
    pub write: Written,
    /// The direction of the device's access.
    pub dir: Direction,
}

impl fmt::Display for Unordered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unordered { offset, area, bytes, at, write, dir } = self;
        let what = if dir.is_written() { "overwrote" } else { "read" };
        write!(
            f,
            "the store of {bytes} B to offset {offset:#x} of the area at {:#x} at {}, before the \
             write of {write}: the device {what} the bytes before the store was there",
            area.0,
            moment(*at)
        )
    }
}

/// A core of the CPU.
#[derive(Debug)]
struct Core {
    buffer: StoreBuffer,
    /// Register writes that stores still wait behind, by the number of those before it.
    writes: VecDeque<(u64, Written)>,
}

impl Core {
    /// Creates core `n`. At random, each draws an order of its own.
    fn new(order: Order, n: usize) -> Core {
        let order = match order {
            Order::Random(seed) => Order::Random(seed.wrapping_add(n as u64)),
            other => other,
        };
        Core { buffer: StoreBuffer::new(order), writes: VecDeque::new() }
    }

    /// Returns the oldest store that the device misses at these addresses, and the register write
    /// after it.
    fn missed(&self, at: Iova, len: usize) -> Option<(&Held, Written)> {
        let held = self.buffer.missed(at, len)?;
        let write = self.writes.iter().find(|w| w.0 >= held.writes)?.1;
        Some((held, write))
    }
}

/// A bus whose CPU has a store buffer in each core.
#[derive(Debug)]
pub struct Ordered<B> {
    bus: B,
    order: Order,
    /// Those that have run, and the one that runs.
    cores: Vec<Core>,
    entered: usize,
}

impl<B: Bus> Ordered<B> {
    /// Gives the CPU of a bus store buffers.
    pub fn new(bus: B, order: Order) -> Ordered<B> {
        Ordered { bus, order, cores: vec![Core::new(order, 0)], entered: 0 }
    }

    fn core(&mut self) -> &mut Core {
        &mut self.cores[self.entered]
    }

    /// Puts all stores of a core into memory.
    fn drain(&mut self, core: usize) {
        while let Some(held) = self.cores[core].buffer.pop() {
            self.arrive(&held);
        }
    }

    fn arrive(&mut self, held: &Held) {
        let (at, bytes) = (held.range().start, held.bytes());
        self.platform_mut().memory.cpu(at, bytes.len()).copy_from_slice(bytes);
    }

    /// Notes the first store that the device misses, and counts them.
    fn look(&mut self, at: Iova, len: usize, dir: Direction) {
        let missed = self.cores.iter().find_map(|core| core.missed(at, len));
        let Some((held, write)) = missed else { return };
        let (offset, area) = (held.offset, held.area.iova());
        let (bytes, at) = (held.bytes().len(), held.at);
        self.platform_mut().missed(Unordered { offset, area, bytes, at, write, dir });
    }
}

impl<B: Bus> Port for Ordered<B> {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        self.look(from, into.len(), Direction::ToDevice);
        self.bus.read(at, from, into)
    }
    fn read_ready(&self) -> Time {
        self.bus.read_ready()
    }
    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        self.look(to, from.len(), Direction::FromDevice);
        self.bus.write(at, to, from)
    }
    fn write_buffer(&mut self, at: Time, to: Iova, from: &mut Vec<u8>) -> Result<Time, DmaFault> {
        self.look(to, from.len(), Direction::FromDevice);
        self.bus.write_buffer(at, to, from)
    }
    fn check_access(&mut self, at: Iova, len: u32, dir: Direction) -> Result<(), DmaFault> {
        self.bus.check_access(at, len, dir)
    }
    fn begin_completion(&mut self, at: Time) -> bool {
        self.bus.begin_completion(at)
    }
    fn charge(&mut self, units: u64) {
        self.bus.charge(units);
    }
    fn is_spent(&self) -> bool {
        self.bus.is_spent()
    }
    fn set_irq_line(&mut self, at: Time, n: u16, high: bool) {
        self.bus.set_irq_line(at, n, high);
    }
    fn raise_msi(&mut self, at: Time, vector: u16) {
        self.bus.raise_msi(at, vector);
    }
    fn emit(&mut self, at: Time, frame: &[u8]) {
        self.bus.emit(at, frame);
    }
    fn emit_buffer(&mut self, at: Time, frame: &mut Vec<u8>) {
        self.bus.emit_buffer(at, frame);
    }
}

impl<B: Bus> Bus for Ordered<B> {
    type Sink = B::Sink;
    type With<T: FrameSink + Clone> = Ordered<B::With<T>>;

    fn with_sink<T: FrameSink + Clone>(self, sink: T) -> Self::With<T> {
        let Ordered { bus, order, cores, entered } = self;
        Ordered { bus: bus.with_sink(sink), order, cores, entered }
    }
    fn sink_mut(&mut self) -> &mut B::Sink {
        self.bus.sink_mut()
    }
    fn platform(&self) -> &Platform {
        self.bus.platform()
    }
    fn platform_mut(&mut self) -> &mut Platform {
        self.bus.platform_mut()
    }
    fn register_write(&mut self, at: Time, size: u8) -> Time {
        self.bus.register_write(at, size)
    }
    fn register_read(&mut self, at: Time, size: u8) -> Time {
        self.bus.register_read(at, size)
    }
    fn register_answer(&mut self, at: Time, size: u8) -> Time {
        self.bus.register_answer(at, size)
    }
    fn retire_before(&mut self, floor: Time) {
        self.bus.retire_before(floor);
    }
    fn booked_after(&self, at: Time) -> [Span; 2] {
        self.bus.booked_after(at)
    }
    fn ledger(&self) -> Ledger {
        self.bus.ledger()
    }

    fn enter(&mut self, n: usize) {
        self.entered = n;
        for next in self.cores.len()..=n {
            self.cores.push(Core::new(self.order, next));
        }
        self.bus.enter(n);
    }
    fn holds_stores(&self) -> bool {
        true
    }
    fn hold(&mut self, to: &Coherent, mut offset: u32, mut bytes: &[u8], now: Time) {
        while !bytes.is_empty() {
            let buffer = &mut self.core().buffer;
            let n = buffer.push(to, offset, bytes, now);
            if let Some(held) = buffer.overtaking().or_else(|| buffer.overflowing()) {
                self.arrive(&held);
            }
            (offset, bytes) = (offset + n as u32, &bytes[n..]);
        }
    }
    fn forward(&self, start: u64, bytes: &mut [u8]) {
        self.cores[self.entered].buffer.forward(start, bytes);
    }
    fn stores_due(&mut self, now: Time, draws: bool) {
        for i in 0..self.cores.len() {
            while let Some(held) = self.cores[i].buffer.due(now) {
                self.arrive(&held);
            }
        }
        while let Some(held) = draws.then(|| self.core().buffer.drawn()).flatten() {
            self.arrive(&held);
        }
    }
    fn before_register_write(&mut self, write: Written) {
        self.stores_due(write.at, true);
        while let Some(held) = self.core().buffer.before_register() {
            self.arrive(&held);
        }
        let core = self.core();
        let n = core.buffer.register_written();
        let oldest = core.buffer.held().map(|h| h.writes).min().unwrap_or(u64::MAX);
        core.writes.retain(|w| w.0 >= oldest);
        core.writes.push_back((n, write));
    }
    fn fence(&mut self, f: Fence) {
        if self.core().buffer.fence(f) {
            self.drain(self.entered);
        }
    }
    fn drain_stores(&mut self) {
        for core in 0..self.cores.len() {
            self.drain(core);
        }
    }
}

#[cfg(test)]
mod tests;
