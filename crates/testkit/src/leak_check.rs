//! A host that counts mappings and allocations, and can refuse them.

use core::ops::Range;
use doorbell_hal::{
    Alignment, Buf, Coherent, CpuWork, Direction, Fence, Host, MapError, MapFault, Mapped,
    OutOfMemory, Reg, Span, Time,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A wrapper of host `H` that detects leaks.
#[derive(Debug)]
pub struct LeakCheckHost<H> {
    /// The host.
    pub host: H,
    /// Mappings made and not ended: address, length, sorted.
    pub mapped: Vec<(u64, u32)>,
    /// Mappings ever made.
    pub maps: u64,
    /// Buffers taken and not released.
    pub buffers: u64,
    /// Coherent areas taken and not released.
    pub coherent: u64,
    /// The map after so many fails; then all work again.
    pub fail_map_after: Option<u64>,
    /// The coherent area after so many is refused.
    pub fail_coherent_after: Option<u64>,
    /// Work declared, in order.
    pub spent: Vec<CpuWork>,
}

impl<H> LeakCheckHost<H> {
    /// Wraps `host`.
    pub fn new(host: H) -> LeakCheckHost<H> {
        LeakCheckHost {
            host,
            mapped: Vec::new(),
            maps: 0,
            buffers: 0,
            coherent: 0,
            fail_map_after: None,
            fail_coherent_after: None,
            spent: Vec::new(),
        }
    }
}

/// Counts down. Returns true for the occurrence that must fail.
fn fails(after: &mut Option<u64>) -> bool {
    match after {
        Some(0) => {
            *after = None;
            true
        }
        Some(n) => {
            *n -= 1;
            false
        }
        None => false,
    }
}

impl<H: Host> Host for LeakCheckHost<H> {
    fn read32(&mut self, r: Reg) -> u32 {
        self.host.read32(r)
    }
    fn write32(&mut self, r: Reg, v: u32) {
        self.host.write32(r, v);
    }
    fn write64(&mut self, r: Reg, v: u64) {
        self.host.write64(r, v);
    }
    fn buffer(&mut self, len: u32, place: Alignment) -> Result<Buf, OutOfMemory> {
        let b = self.host.buffer(len, place)?;
        self.buffers += 1;
        Ok(b)
    }
    fn release(&mut self, b: Buf) {
        self.buffers -= 1;
        self.host.release(b);
    }
    fn bytes<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&[u8]) -> R) -> R {
        self.host.bytes(b, range, f)
    }
    fn bytes_mut<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&mut [u8]) -> R) -> R {
        self.host.bytes_mut(b, range, f)
    }
    fn copy(&mut self, from: &Buf, range: Range<u32>, to: &Coherent, offset: u32) {
        self.host.copy(from, range, to, offset);
    }
    fn map(&mut self, b: Buf, range: Range<u32>, dir: Direction) -> Result<Mapped, MapError> {
        if fails(&mut self.fail_map_after) {
            return Err(MapError { buf: b, why: MapFault::NoEntries });
        }
        let m = self.host.map(b, range, dir)?;
        self.maps += 1;
        let entry = (m.iova().0, m.len());
        let at = self.mapped.partition_point(|e| *e < entry);
        self.mapped.insert(at, entry);
        Ok(m)
    }
    fn unmap(&mut self, m: Mapped) -> Buf {
        let at = self.mapped.binary_search(&(m.iova().0, m.len())).expect("a live mapping");
        self.mapped.remove(at);
        self.host.unmap(m)
    }
    fn coherent(&mut self, len: u32, align: u32) -> Result<Coherent, OutOfMemory> {
        if fails(&mut self.fail_coherent_after) {
            return Err(OutOfMemory);
        }
        let c = self.host.coherent(len, align)?;
        self.coherent += 1;
        Ok(c)
    }
    fn release_coherent(&mut self, c: Coherent) {
        self.coherent -= 1;
        self.host.release_coherent(c);
    }
    fn load<T: FromBytes>(&mut self, at: &Coherent, offset: u32) -> T {
        self.host.load(at, offset)
    }
    fn store<T: IntoBytes + Immutable>(&mut self, at: &Coherent, offset: u32, v: T) {
        self.host.store(at, offset, v);
    }
    fn fence(&mut self, f: Fence) {
        self.host.fence(f);
    }
    fn charge(&mut self, w: CpuWork) {
        self.spent.push(w);
        self.host.charge(w);
    }
    fn relax(&mut self) {
        self.host.relax();
    }
    fn delay(&mut self, d: Span) {
        self.host.delay(d);
    }
    fn now(&self) -> Time {
        self.host.now()
    }
}
