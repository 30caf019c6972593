//! A host whose CPU reorders stores and loads as far as its fences allow.
//!
//! [`Reorder`] puts a [`StoreBuffer`] between a [`Host`]'s stores and memory. A hypervisor on the
//! same CPU sees all stores. In [`Order::Random`] a load may be as old as one before it of the same
//! line, unless [`Fence::DmaRead`], a register read or a wait lies between. Source: linux
//! Documentation/memory-barriers.txt ("Kernel I/O barrier effects").

use core::ops::Range;
use doorbell_bus::order::{Held, StoreBuffer};
use doorbell_hal::{
    Alignment, Buf, Coherent, CpuWork, Direction, Fence, Hcall, HcallReturn, Host, Hypervisor,
    MapError, Mapped, OutOfMemory, Reg, Span, Time,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

pub use doorbell_bus::Order;

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
    buffer: StoreBuffer,
    /// Lines that loads may be answered from.
    loaded: Vec<Loaded>,
}

impl<H: Host> Reorder<H> {
    /// The longest time for which a store is kept.
    pub const LIMIT: Span = StoreBuffer::LIMIT;

    /// `inner` with an empty store buffer.
    pub fn new(inner: H, order: Order) -> Reorder<H> {
        Reorder {
            inner,
            ignored: None,
            distant: &[],
            reached: None,
            buffer: StoreBuffer::new(order),
            loaded: Vec::new(),
        }
    }

    /// Returns the stores that reached memory before an older one: whether the arm did
    /// anything at all.
    pub fn passed(&self) -> u64 {
        self.buffer.passed()
    }

    /// Everything held goes to memory, oldest first.
    pub fn drain(&mut self) {
        while let Some(held) = self.buffer.pop() {
            self.arrive(&held);
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
            let n = self.buffer.push(to, offset, bytes, self.inner.now());
            if let Some(held) = self.buffer.overtaking() {
                self.arrive(&held);
            }
            (offset, bytes) = (offset + n as u32, &bytes[n..]);
        }
    }

    /// One store goes to memory, at one moment: no device looks in between.
    fn arrive(&mut self, held: &Held) {
        for (at, b) in (held.offset..).zip(held.bytes()) {
            self.inner.store(&held.area, at, *b);
            // The CPU sees its own stores.
            let address = held.area.addr() + u64::from(at);
            for l in self.loaded.iter_mut().filter(|l| l.start == address & !(LINE - 1)) {
                l.bytes[(address - l.start) as usize] = *b;
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
            matches!(self.buffer.order(), Order::Random(_)) && self.buffer.draw() & 1 == 1,
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

    /// The CPU is about to do something during which the device may look.
    fn turn(&mut self) {
        let now = self.inner.now();
        while let Some(held) = self.buffer.due(now) {
            self.arrive(&held);
        }
        while let Some(held) = self.buffer.drawn() {
            self.arrive(&held);
        }
    }

    /// Releases the stores that the last [`Fence::Write`] orders before a register write.
    fn before_register_write(&mut self) {
        self.turn();
        while let Some(held) = self.buffer.before_register() {
            self.arrive(&held);
        }
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
        self.buffer.forward(at.addr() + u64::from(offset), &mut bytes);
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
        if f == Fence::DmaRead {
            self.loaded.clear();
        }
        if self.buffer.fence(f) {
            self.drain();
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
            while let Some(held) = self.buffer.before_fence() {
                self.arrive(&held);
            }
        } else {
            self.drain();
        }
        self.loaded.clear();
        self.inner.hcall(call, a)
    }
}

#[cfg(test)]
mod tests;
