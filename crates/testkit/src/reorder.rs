//! A host whose CPU reorders stores and loads as far as its fences allow.
//!
//! [`Reorder`] puts a store buffer between a [`Host`]'s stores and memory, and keeps no promise but
//! those of the fences: [`Fence::DmaWrite`] and [`Fence::Write`] order stores, and [`Fence::Write`]
//! flushes those before it at the next register write. Stores to the same bytes stay in order;
//! those of more than eight bytes are several; after [`Reorder::LIMIT`] a store goes. A hypervisor
//! on the same CPU sees all stores. In [`Order::Random`] a load may be as old as one before it of
//! the same line, unless [`Fence::DmaRead`], a register read or a wait lies between. Source: linux
//! Documentation/memory-barriers.txt ("Kernel I/O barrier effects", `dma_wmb`).

use core::ops::Range;
use doorbell_bus::random::splitmix;
use doorbell_hal::{
    Alignment, Buf, Coherent, CpuWork, Direction, Fence, Hcall, HcallReturn, Host, Hypervisor,
    MapError, Mapped, OutOfMemory, Reg, Span, Time,
};
use std::collections::VecDeque;
use zerocopy::{FromBytes, Immutable, IntoBytes};

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

/// A store that has not reached memory.
#[derive(Debug)]
struct Held {
    area: Coherent,
    offset: u32,
    bytes: Vec<u8>,
    /// Fences before it.
    epoch: u64,
    at: Time,
}

impl Held {
    fn range(&self) -> Range<u64> {
        let start = self.area.addr() + u64::from(self.offset);
        start..start + self.bytes.len() as u64
    }

    fn overlaps(&self, other: &Range<u64>) -> bool {
        let own = self.range();
        own.start < other.end && other.start < own.end
    }
}

/// Bytes of a cache line, a power of two of at most 64.
const LINE: u64 = 64;

/// A cache line that was loaded from, as it was then.
#[derive(Debug)]
struct Loaded {
    /// The area it is of.
    area: u64,
    start: u64,
    bytes: [u8; LINE as usize],
    /// The bytes that a load has had. It has to look for those again.
    had: u64,
    at: Time,
}

/// A host with a store buffer: one CPU's. A driver that runs on several needs a
/// machine of its own for each.
#[derive(Debug)]
pub struct Reorder<H> {
    /// The host beneath. What is done to it directly passes the store buffer by.
    pub inner: H,
    /// A fence of this kind does nothing: what a driver that lacks it would do.
    pub ignored: Option<Fence>,
    /// Hypervisor calls that hand memory to another processor, as a message to another partition
    /// does.
    pub distant: &'static [Hcall],
    /// Callback after each store that reaches memory: a device that polls.
    pub reached: Option<fn(&mut H)>,
    order: Order,
    random: u64,
    /// Oldest first.
    held: VecDeque<Held>,
    /// Fences so far.
    epoch: u64,
    /// Stores of earlier epochs go before the next register write.
    before_register: u64,
    /// Lines that loads may be answered from.
    loaded: Vec<Loaded>,
    passed: u64,
}

impl<H: Host> Reorder<H> {
    /// The longest time for which a store is kept.
    pub const LIMIT: Span = Span::from_us(10);

    /// `inner` with an empty store buffer.
    pub fn new(inner: H, order: Order) -> Reorder<H> {
        let random = if let Order::Random(seed) = order { seed } else { 0 };
        Reorder {
            inner,
            ignored: None,
            distant: &[],
            reached: None,
            order,
            random,
            held: VecDeque::new(),
            epoch: 0,
            before_register: 0,
            loaded: Vec::new(),
            passed: 0,
        }
    }

    /// Returns the stores that reached memory before an older one: whether the arm did
    /// anything at all.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Everything held goes to memory, oldest first.
    pub fn drain(&mut self) {
        while !self.held.is_empty() {
            self.release_at(0);
        }
    }

    /// The host beneath, once the store buffer is empty.
    pub fn into_inner(mut self) -> H {
        self.drain();
        self.inner
    }

    /// The CPU stores `bytes`: each aligned piece of up to eight is whole, and
    /// the pieces have no order.
    fn hold(&mut self, to: &Coherent, mut offset: u32, mut bytes: &[u8]) {
        assert!(offset as usize + bytes.len() <= to.len() as usize, "store outside the area");
        while !bytes.is_empty() {
            let to_boundary = 8 - (to.addr() + u64::from(offset)) % 8;
            let (piece, rest) = bytes.split_at(bytes.len().min(to_boundary as usize));
            let area = Coherent::from_parts(to.addr(), to.iova(), to.len(), to.token());
            let at = self.inner.now();
            self.held.push_back(Held {
                area,
                offset,
                bytes: piece.to_vec(),
                epoch: self.epoch,
                at,
            });
            let newest = self.held.len() - 1;
            if self.order == Order::Overtaken && newest > 0 && self.may_go(newest) {
                self.release_at(newest);
            }
            offset += piece.len() as u32;
            bytes = rest;
        }
    }

    /// One store goes to memory, at one moment: no device looks in between.
    fn release_at(&mut self, i: usize) {
        self.passed += u64::from(i > 0);
        let Some(Held { area, offset, bytes, .. }) = self.held.remove(i) else { return };
        for (at, b) in (offset..).zip(bytes) {
            self.inner.store(&area, at, b);
            // The CPU sees its own stores.
            let address = area.addr() + u64::from(at);
            for l in self.loaded.iter_mut().filter(|l| l.start == address & !(LINE - 1)) {
                l.bytes[(address - l.start) as usize] = b;
            }
        }
        if let Some(look) = self.reached {
            look(&mut self.inner);
        }
    }

    /// The CPU loads `bytes.len()` bytes, each now or, if it may, when its line was loaded from
    /// before.
    fn look(&mut self, at: &Coherent, offset: u32, bytes: &mut [u8]) {
        let (now, early) = (
            self.inner.now(),
            matches!(self.order, Order::Random(_)) && self.next_random() & 1 == 1,
        );
        self.loaded.retain(|l| now.since(l.at) < Self::LIMIT);
        for (o, byte) in (offset..).zip(bytes) {
            let address = at.addr() + u64::from(o);
            let (start, i) = (address & !(LINE - 1), (address % LINE) as usize);
            *byte = match self.loaded.iter_mut().find(|l| (l.area, l.start) == (at.addr(), start)) {
                Some(l) => {
                    let again = l.had >> i & 1 == 1;
                    l.had |= 1 << i;
                    if early && !again { l.bytes[i] } else { self.inner.load(at, o) }
                }
                None => {
                    let mut line = Loaded {
                        area: at.addr(),
                        start,
                        bytes: [0; LINE as usize],
                        had: 1 << i,
                        at: now,
                    };
                    for a in
                        start.max(at.addr())..(start + LINE).min(at.addr() + u64::from(at.len()))
                    {
                        line.bytes[(a - start) as usize] =
                            self.inner.load(at, (a - at.addr()) as u32);
                    }
                    let b = line.bytes[i];
                    self.loaded.push(line);
                    b
                }
            };
        }
    }

    /// Returns true if nothing older has to go first.
    fn may_go(&self, i: usize) -> bool {
        let (epoch, range) = (self.held[i].epoch, self.held[i].range());
        self.held.iter().take(i).all(|older| older.epoch == epoch && !older.overlaps(&range))
    }

    /// The CPU is about to do something during which the device may look.
    fn turn(&mut self) {
        let now = self.inner.now();
        while self.held.front().is_some_and(|h| h.at + Self::LIMIT <= now) {
            self.release_at(0);
        }
        if let Order::Random(_) = self.order {
            // One time in two nothing goes; else one or more do.
            while !self.held.is_empty() && self.next_random() & 1 == 1 {
                let i = self.next_random() as usize % self.held.len();
                if self.may_go(i) {
                    self.release_at(i);
                }
            }
        }
    }

    /// Releases the stores that the last [`Fence::Write`] orders before a register write.
    fn before_register_write(&mut self) {
        self.turn();
        self.release_before(self.before_register);
    }

    /// Stores of earlier epochs go to memory.
    fn release_before(&mut self, epoch: u64) {
        while self.held.front().is_some_and(|h| h.epoch < epoch) {
            self.release_at(0);
        }
    }

    fn next_random(&mut self) -> u64 {
        splitmix(&mut self.random) >> 32
    }
}

impl<H: Host> Host for Reorder<H> {
    fn read32(&mut self, r: Reg) -> u32 {
        self.turn();
        self.loaded.clear();
        self.inner.read32(r)
    }
    fn write32(&mut self, r: Reg, v: u32) {
        self.before_register_write();
        self.inner.write32(r, v);
    }
    fn write64(&mut self, r: Reg, v: u64) {
        self.before_register_write();
        self.inner.write64(r, v);
    }

    fn buffer(&mut self, len: u32, place: Alignment) -> Result<Buf, OutOfMemory> {
        self.inner.buffer(len, place)
    }
    fn release(&mut self, b: Buf) {
        self.inner.release(b);
    }
    fn bytes<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&[u8]) -> R) -> R {
        self.inner.bytes(b, range, f)
    }
    fn bytes_mut<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&mut [u8]) -> R) -> R {
        self.inner.bytes_mut(b, range, f)
    }
    fn copy(&mut self, from: &Buf, range: Range<u32>, to: &Coherent, offset: u32) {
        let bytes = self.inner.bytes(from, range, <[u8]>::to_vec);
        self.hold(to, offset, &bytes);
    }
    fn map(&mut self, b: Buf, range: Range<u32>, dir: Direction) -> Result<Mapped, MapError> {
        self.inner.map(b, range, dir)
    }
    fn unmap(&mut self, m: Mapped) -> Buf {
        self.inner.unmap(m)
    }

    fn coherent(&mut self, len: u32, align: u32) -> Result<Coherent, OutOfMemory> {
        self.inner.coherent(len, align)
    }
    fn release_coherent(&mut self, c: Coherent) {
        // Its memory may soon be somebody else's.
        self.drain();
        self.loaded.clear();
        self.inner.release_coherent(c);
    }

    fn load<T: FromBytes>(&mut self, at: &Coherent, offset: u32) -> T {
        self.turn();
        if u64::from(offset) + size_of::<T>() as u64 > u64::from(at.len()) {
            return self.inner.load(at, offset);
        }
        let mut bytes = vec![0; size_of::<T>()];
        self.look(at, offset, &mut bytes);
        let start = at.addr() + u64::from(offset);
        let range = start..start + size_of::<T>() as u64;
        for held in &self.held {
            for (address, b) in held.range().zip(&held.bytes) {
                if range.contains(&address) {
                    bytes[(address - start) as usize] = *b;
                }
            }
        }
        match T::read_from_bytes(&bytes) {
            Ok(v) => v,
            Err(_) => unreachable!("the bytes are as many as T has"),
        }
    }

    fn store<T: IntoBytes + Immutable>(&mut self, at: &Coherent, offset: u32, v: T) {
        if u64::from(offset) + size_of::<T>() as u64 > u64::from(at.len()) {
            return self.inner.store(at, offset, v);
        }
        self.hold(at, offset, v.as_bytes());
    }

    fn fence(&mut self, f: Fence) {
        if self.ignored == Some(f) {
            return;
        }
        match f {
            Fence::DmaRead => self.loaded.clear(),
            Fence::DmaWrite | Fence::Write => {
                self.epoch += 1;
                if f == Fence::Write {
                    self.before_register = self.epoch;
                }
                // What is kept behind a fence would keep what follows it from overtaking.
                if self.order == Order::Overtaken {
                    self.drain();
                }
            }
        }
        self.inner.fence(f);
    }

    fn charge(&mut self, w: CpuWork) {
        self.inner.charge(w);
    }
    fn relax(&mut self) {
        self.turn();
        self.loaded.clear();
        self.inner.relax();
    }
    fn delay(&mut self, d: Span) {
        self.turn();
        self.loaded.clear();
        self.inner.delay(d);
    }
    fn now(&self) -> Time {
        self.inner.now()
    }
}

impl<H: Hypervisor> Hypervisor for Reorder<H> {
    fn hcall(&mut self, call: Hcall, a: &[u64]) -> HcallReturn {
        if self.distant.contains(&call) {
            self.turn();
            self.release_before(self.epoch);
        } else {
            self.drain();
        }
        self.loaded.clear();
        self.inner.hcall(call, a)
    }
}

#[cfg(test)]
mod tests;
