//! A host whose device lies: the driver's side of an attack by a NIC or a hypervisor.
//!
//! [`Hostile`] stands between a driver and a machine with a well-behaved device, so that the driver
//! comes up. [`Lie`]s change what the driver reads, lose what it writes, answer its calls, and
//! refuse it memory; [`Hostile::poke`] and [`Hostile::replay`] write, as DMA would, where the
//! driver has given the device leave to. Areas, buffers and mappings are accounted. A call of the
//! driver that does not end is found by its steps; a polling loop takes longer the longer it lasts,
//! so that one with a limit in virtual time ends soon.

use core::ops::Range;
use doorbell_bus::random::splitmix;
use doorbell_hal::{
    Alignment, Buf, Coherent, CpuWork, Direction, Fence, Hcall, HcallReturn, Host, Hypervisor,
    MapError, MapFault, Mapped, OutOfMemory, Reg, Span, Time,
};
use std::collections::BTreeMap;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The crossing between driver and machine at which a lie is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crossing {
    /// A register read.
    Read,
    /// A register write, which is lost.
    Write,
    /// A load from an area that the device may write.
    Load,
    /// A call of the hypervisor.
    Call,
    /// A request for memory or a mapping, which is refused.
    Memory,
}

/// The form of a lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The truth with these bits changed. Of a call: the status, and the call is not made.
    Flip,
    /// These bits. Of a call: the status, and the call is made.
    Set,
    /// Bits drawn from a seed. Of a call: the values returned beside the status.
    Random,
}

/// A lie in wait for a crossing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lie {
    /// The crossing.
    pub at: Crossing,
    /// Crossings that are let through before.
    pub after: u32,
    /// Crossings that are lied at; [`u32::MAX`] for all from then on.
    pub times: u32,
    /// The form.
    pub form: Form,
    /// The bits, or the seed.
    pub value: u64,
}

/// A host with a liar beneath.
#[derive(Debug)]
pub struct Hostile<H> {
    /// The machine.
    pub inner: H,
    /// Lies told so far, by [`Crossing`].
    pub told: [u64; 5],
    /// Writes made in the device's place.
    pub pokes: u64,
    lies: Vec<Lie>,
    /// Live buffers: address, length.
    buffers: BTreeMap<u64, u32>,
    /// Buffers that the device may write: address, length, first mapped byte.
    lent: Vec<(u64, u32, Range<u32>)>,
    mapped: u64,
    areas: Vec<Coherent>,
    /// The last area loaded from, by address, and the place.
    looked: (u64, u32),
    steps: u32,
    began: Time,
    turns: u32,
}

/// Crossings of one call of the driver at the most.
const STEPS: u32 = 1 << 22;
/// Virtual time of one call of the driver at the most.
const LONGEST: Span = Span::from_ms(3_600_000);
/// Lies in wait at a time.
const MOST: usize = 16;

impl<H: Host> Hostile<H> {
    /// Creates a host without lies.
    pub fn new(inner: H) -> Hostile<H> {
        Hostile {
            inner,
            told: [0; 5],
            pokes: 0,
            lies: Vec::new(),
            buffers: BTreeMap::new(),
            lent: Vec::new(),
            mapped: 0,
            areas: Vec::new(),
            looked: (0, 0),
            steps: 0,
            began: Time::ZERO,
            turns: 0,
        }
    }

    /// Tells `lie` when its crossing comes. The oldest lie gives way to one too many.
    pub fn arm(&mut self, lie: Lie) {
        if self.lies.len() == MOST {
            self.lies.remove(0);
        }
        self.lies.push(lie);
    }

    /// Ends all lies.
    pub fn disarm(&mut self) {
        self.lies.clear();
    }

    /// Runs `f` without lies: what others than the driver do.
    pub fn honestly<R>(&mut self, f: impl FnOnce(&mut Hostile<H>) -> R) -> R {
        let lies = std::mem::take(&mut self.lies);
        let r = f(self);
        self.lies = lies;
        r
    }

    /// Begins a call of the driver.
    pub fn begin(&mut self) {
        (self.steps, self.turns, self.began) = (0, 0, self.inner.now());
    }

    /// Returns true if the driver has been lied to.
    pub fn has_lied(&self) -> bool {
        self.told != [0; 5] || self.pokes > 0
    }

    /// Returns what the driver holds: buffers, mappings, areas.
    pub fn held(&self) -> (usize, u64, usize) {
        (self.buffers.len(), self.mapped, self.areas.len())
    }

    /// Returns true if `b` is a live buffer of this host.
    pub fn is_live(&self, b: &Buf) -> bool {
        self.buffers.get(&b.addr()) == Some(&b.len())
    }

    /// Writes `bytes` to device-writable memory: area or lent buffer number `n` from byte `at` on,
    /// or, without a number, `at` bytes behind where the driver last looked. Writes
    /// nothing if there is no such place.
    pub fn poke(&mut self, n: Option<usize>, at: u32, bytes: &[u8]) {
        let (areas, lent) = (self.areas.len(), self.lent.len());
        let (area, at) = match n {
            Some(n) if areas + lent > 0 && n % (areas + lent) >= areas => {
                let (addr, len, range) = self.lent[n % (areas + lent) - areas].clone();
                let buf = Buf::from_parts(addr, len, 0);
                let Some(last) = (range.end - range.start).checked_sub(bytes.len() as u32) else {
                    return;
                };
                let at = range.start + at % (last + 1);
                self.inner
                    .bytes_mut(&buf, at..at + bytes.len() as u32, |b| b.copy_from_slice(bytes));
                self.pokes += 1;
                return;
            }
            Some(n) if areas > 0 => (n % (areas + lent), at),
            Some(_) => return,
            None => {
                let (addr, base) = self.looked;
                let Some(i) = self.areas.iter().position(|a| a.addr() == addr) else { return };
                (i, base.wrapping_add(at))
            }
        };
        let area = &self.areas[area];
        for (i, b) in bytes.iter().enumerate() {
            self.inner.store(area, at.wrapping_add(i as u32) % area.len(), *b);
        }
        self.pokes += 1;
    }

    /// Writes the entry of `size` bytes in which the driver last looked once more, `back` entries
    /// further on: a completion that comes twice, or comes early.
    pub fn replay(&mut self, size: u32, back: u32) {
        let (addr, at) = self.looked;
        let Some(area) = self.areas.iter().find(|a| a.addr() == addr) else { return };
        let from = at / size * size;
        for i in 0..size {
            let b: u8 = self.inner.load(area, (from + i) % area.len());
            let to = from.wrapping_add(size.wrapping_mul(back)).wrapping_add(i) % area.len();
            self.inner.store(area, to, b);
        }
        self.pokes += 1;
    }

    fn step(&mut self) {
        self.steps += 1;
        assert!(self.steps < STEPS, "a call of the driver does not end");
        assert!(self.inner.now().since(self.began) < LONGEST, "a call of the driver takes an hour");
    }

    /// Takes the lie that is due at a crossing.
    fn lie(&mut self, at: Crossing) -> Option<Lie> {
        let mut due = None;
        for (i, l) in self.lies.iter_mut().enumerate().filter(|(_, l)| l.at == at) {
            if l.after > 0 {
                l.after -= 1;
            } else {
                due = due.or(Some(i));
            }
        }
        let i = due?;
        let lie = self.lies[i];
        match self.lies[i].times {
            0 | 1 => drop(self.lies.remove(i)),
            times => {
                self.lies[i].times = times.saturating_sub(u32::from(times < u32::MAX));
                if lie.form == Form::Random {
                    splitmix(&mut self.lies[i].value);
                }
            }
        }
        self.told[at as usize] += 1;
        Some(lie)
    }
}

impl Lie {
    /// Returns what is read in the place of `truth`.
    fn instead_of(self, truth: u64) -> u64 {
        match self.form {
            Form::Flip => truth ^ self.value,
            Form::Set => self.value,
            Form::Random => splitmix(&mut { self.value }),
        }
    }
}

impl<H: Host> Host for Hostile<H> {
    fn read32(&mut self, r: Reg) -> u32 {
        self.step();
        let truth = self.inner.read32(r);
        self.lie(Crossing::Read).map_or(truth, |l| l.instead_of(truth.into()) as u32)
    }
    fn write32(&mut self, r: Reg, v: u32) {
        self.step();
        if self.lie(Crossing::Write).is_none() {
            self.inner.write32(r, v);
        }
    }
    fn write64(&mut self, r: Reg, v: u64) {
        self.step();
        if self.lie(Crossing::Write).is_none() {
            self.inner.write64(r, v);
        }
    }

    fn buffer(&mut self, len: u32, place: Alignment) -> Result<Buf, OutOfMemory> {
        self.step();
        if self.lie(Crossing::Memory).is_some() {
            return Err(OutOfMemory);
        }
        let b = self.inner.buffer(len, place)?;
        assert_eq!(self.buffers.insert(b.addr(), b.len()), None, "one buffer at one place");
        Ok(b)
    }
    fn release(&mut self, b: Buf) {
        assert_eq!(self.buffers.remove(&b.addr()), Some(b.len()), "{b:?} is not live");
        self.inner.release(b);
    }
    fn bytes<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&[u8]) -> R) -> R {
        assert!(self.is_live(b), "{b:?} is not live");
        self.inner.bytes(b, range, f)
    }
    fn bytes_mut<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&mut [u8]) -> R) -> R {
        assert!(self.is_live(b), "{b:?} is not live");
        self.inner.bytes_mut(b, range, f)
    }
    fn copy(&mut self, from: &Buf, range: Range<u32>, to: &Coherent, offset: u32) {
        self.inner.copy(from, range, to, offset);
    }
    fn copy_out(&mut self, from: &Coherent, offset: u32, to: &Buf, range: Range<u32>) {
        self.inner.copy_out(from, offset, to, range);
    }

    fn map(&mut self, b: Buf, range: Range<u32>, dir: Direction) -> Result<Mapped, MapError> {
        self.step();
        if self.lie(Crossing::Memory).is_some() {
            return Err(MapError { buf: b, why: MapFault::NoEntries });
        }
        let m = self.inner.map(b, range, dir)?;
        self.mapped += 1;
        if dir.is_written() {
            self.lent.push((m.buf().addr(), m.buf().len(), m.range()));
        }
        Ok(m)
    }
    fn unmap(&mut self, m: Mapped) -> Buf {
        self.mapped -= 1;
        if m.direction().is_written() {
            let at = self.lent.iter().position(|l| l.0 == m.buf().addr()).expect("a live mapping");
            self.lent.swap_remove(at);
        }
        self.inner.unmap(m)
    }
    fn peek<R>(&mut self, m: &Mapped, range: Range<u32>, f: impl FnOnce(&[u8]) -> R) -> R {
        self.inner.peek(m, range, f)
    }

    fn coherent(&mut self, len: u32, align: u32) -> Result<Coherent, OutOfMemory> {
        self.step();
        if self.lie(Crossing::Memory).is_some() {
            return Err(OutOfMemory);
        }
        let c = self.inner.coherent(len, align)?;
        self.areas.push(Coherent::from_parts(c.addr(), c.iova(), c.len(), c.token()));
        Ok(c)
    }
    fn release_coherent(&mut self, c: Coherent) {
        let at = self.areas.iter().position(|a| *a == c).expect("a live area");
        let _ = self.areas.swap_remove(at);
        self.inner.release_coherent(c);
    }
    fn load<T: FromBytes>(&mut self, at: &Coherent, offset: u32) -> T {
        self.step();
        self.looked = (at.addr(), offset);
        let Some(lie) = self.lie(Crossing::Load) else { return self.inner.load(at, offset) };
        let mut bytes: Vec<u8> =
            (offset..).take(size_of::<T>()).map(|o| self.inner.load(at, o)).collect();
        let mut seed = lie.value;
        for chunk in bytes.chunks_mut(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let word = Lie { value: seed, ..lie }.instead_of(u64::from_le_bytes(word));
            chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
            if lie.form == Form::Random {
                splitmix(&mut seed);
            }
        }
        match T::read_from_bytes(&bytes) {
            Ok(v) => v,
            Err(_) => unreachable!("the bytes are as many as T has"),
        }
    }
    fn store<T: IntoBytes + Immutable>(&mut self, at: &Coherent, offset: u32, v: T) {
        self.step();
        self.inner.store(at, offset, v);
    }
    fn fence(&mut self, f: Fence) {
        self.inner.fence(f);
    }

    fn charge(&mut self, w: CpuWork) {
        self.inner.charge(w);
    }
    fn relax(&mut self) {
        self.step();
        self.turns += 1;
        self.inner.relax();
        let doublings = (self.turns / 64).min(30);
        if doublings > 0 {
            self.inner.delay(Span::from_ns(100 << doublings));
        }
    }
    fn delay(&mut self, d: Span) {
        self.step();
        self.inner.delay(d);
    }
    fn now(&self) -> Time {
        self.inner.now()
    }
}

impl<H: Hypervisor> Hypervisor for Hostile<H> {
    fn hcall(&mut self, call: Hcall, a: &[u64]) -> HcallReturn {
        self.step();
        let lie = self.lie(Crossing::Call);
        let status = |l: Lie| i64::from(l.value as i32);
        match lie {
            Some(l) if l.form == Form::Flip => HcallReturn::status(status(l)),
            Some(l) if l.form == Form::Set => {
                HcallReturn { status: status(l), ..self.inner.hcall(call, a) }
            }
            Some(l) => {
                let mut seed = l.value;
                let ret = std::array::from_fn(|_| splitmix(&mut seed));
                HcallReturn { ret, ..self.inner.hcall(call, a) }
            }
            None => self.inner.hcall(call, a),
        }
    }
}
