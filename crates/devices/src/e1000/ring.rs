//! A descriptor ring as the chip sees it; each queue of transmit and receive has one.
//!
//! With nothing on chip it fetches all up to the tail; below PTHRESH it prefetches if HTHRESH are
//! in memory, never past the tail or the ring's end. Descriptors wait for write-back until WTHRESH
//! are there or they are flushed; runs of neighbours are one write. Head or tail outside the ring
//! announce nothing; moving base, length or head drops what was fetched. A descriptor of packet
//! split is two of 16 bytes here, as head, tail, length and thresholds count it (82574 7.1.6).
//!
//! Source: SDM 3.2.4, 3.3, 3.4, 13.4.25 to 13.4.46.

use alloc::collections::VecDeque;
use doorbell_hal::{DmaFault, Iova, Port, Time};
use doorbell_layout::e1000::{
    DCTL_GRAN, DCTL_HTHRESH_SHIFT, DCTL_PTHRESH_SHIFT, DCTL_WTHRESH_SHIFT, DESCRIPTOR,
};

/// Queues of each direction; only the 82574 has the second.
pub(super) const QUEUES: usize = 2;
/// Descriptors on chip.
pub(super) const ON_CHIP: usize = 64;
/// Bytes of a descriptor.
pub(super) const DESC: usize = DESCRIPTOR as usize;
/// Writable bits of the length register.
pub(super) const LEN_MASK: u32 = 0x000f_ff80;
/// Thresholds in cache lines are at most so many descriptors.
const MAX_BY_LINE: u32 = 31;

/// A descriptor as two little-endian quadwords: every kind has the address or the
/// context's offsets in the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Desc {
    pub(super) low: u64,
    pub(super) high: u64,
}

impl Desc {
    fn from_bytes(b: &[u8; DESC]) -> Desc {
        let v = u128::from_le_bytes(*b);
        Desc { low: v as u64, high: (v >> 64) as u64 }
    }
    pub(super) fn to_bytes(self) -> [u8; DESC] {
        (u128::from(self.high) << 64 | u128::from(self.low)).to_le_bytes()
    }
}

/// Fields of RXDCTL and TXDCTL, in descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Thresholds {
    pub(super) prefetch: u32,
    pub(super) host: u32,
    pub(super) write_back: u32,
}

impl Thresholds {
    /// Returns the fields of `control`, on a chip with cache lines of `line` bytes.
    fn of(control: u32, line: u32) -> Thresholds {
        let unit = |shift: u32| {
            let v = control >> shift & 0x3f;
            if control & DCTL_GRAN != 0 { v } else { (v * line / DESC as u32).min(MAX_BY_LINE) }
        };
        Thresholds {
            prefetch: unit(DCTL_PTHRESH_SHIFT),
            host: unit(DCTL_HTHRESH_SHIFT),
            write_back: unit(DCTL_WTHRESH_SHIFT),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    pub(super) base: u64,
    pub(super) len: u32,
    /// The chip's next descriptor.
    pub(super) head: u32,
    pub(super) tail: u32,
    control: u32,
    /// The fields of `control`.
    thresholds: Thresholds,
    line: u32,
    /// Pieces of 16 bytes of a descriptor: 1 or 2.
    pieces: usize,
    /// Time of the driver's last tail write.
    told: Time,
    /// Next to fetch.
    fetched: u32,
    /// Descriptors that the chip would fetch now ([`Ring::wants`]). Looked at far more often than
    /// it changes.
    wanted: u32,
    /// On chip, and when they arrived.
    chip: VecDeque<(Time, Desc)>,
    /// The arrival of all pieces of the first one; `NEVER` if it is not there.
    pub(super) arrived: Time,
    /// Used, and not yet written back.
    waiting: VecDeque<(Iova, Desc)>,
}

impl Ring {
    pub(super) fn new(line: u32, control: u32) -> Ring {
        let (chip, waiting) = (VecDeque::with_capacity(ON_CHIP), VecDeque::with_capacity(ON_CHIP));
        let thresholds = Thresholds::of(control, line);
        let (pieces, arrived) = (1, Time::NEVER);
        Ring { control, thresholds, line, pieces, chip, arrived, waiting, ..Ring::default() }
    }

    /// Descriptors in the ring.
    pub(super) fn size(&self) -> u32 {
        self.len / DESC as u32
    }

    /// Descriptors from `from` to the tail.
    fn to_tail(&self, from: u32) -> u32 {
        let size = self.size();
        match from < size && self.tail < size {
            true if self.tail >= from => self.tail - from,
            true => size - from + self.tail,
            false => 0,
        }
    }

    /// Descriptors that the driver has given and the chip not yet used.
    pub(super) fn left(&self) -> u32 {
        self.to_tail(self.head)
    }

    /// Returns whether a tail of `tail` passes descriptors that the chip has not used.
    pub(super) fn is_passed_by(&self, tail: u32) -> bool {
        let size = self.size();
        let inside = [tail, self.tail, self.head].iter().all(|i| *i < size);
        inside && self.left() + (tail + size - self.tail) % size >= size
    }

    /// RXDCTL or TXDCTL.
    pub(super) fn control(&self) -> u32 {
        self.control
    }

    pub(super) fn set_control(&mut self, control: u32) {
        self.control = control;
        self.thresholds = Thresholds::of(control, self.line);
    }

    pub(super) fn thresholds(&self) -> Thresholds {
        self.thresholds
    }

    /// The driver wrote the tail.
    pub(super) fn announce(&mut self, at: Time, tail: u32) {
        self.tail = tail & 0xffff;
        self.told = at;
        self.update();
    }

    /// Counts anew what the chip would fetch: a register of the ring was written, or descriptors
    /// came or went.
    pub(super) fn update(&mut self) {
        self.wanted = self.wants();
        let whole = if self.pieces == 1 { self.chip.front() } else { self.chip.get(1) };
        self.arrived = whole.map_or(Time::NEVER, |d| d.0);
    }

    /// Sets the pieces of a descriptor, 1 or 2.
    pub(super) fn set_pieces(&mut self, pieces: usize) {
        self.pieces = pieces;
        self.update();
    }

    /// Returns the pieces of a descriptor.
    pub(super) fn pieces(&self) -> usize {
        self.pieces
    }

    /// The driver moved the ring, or the chip's place in it.
    pub(super) fn restart(&mut self) {
        self.fetched = self.head;
        self.chip.clear();
        self.waiting.clear();
        self.update();
    }

    /// Returns the number of descriptors that the chip would fetch now.
    fn wants(&self) -> u32 {
        let (dry, t) = (self.is_dry(), self.thresholds);
        if !dry && self.chip.len() as u32 >= t.prefetch {
            return 0;
        }
        let announced = self.to_tail(self.fetched);
        if announced == 0 || !dry && announced < t.host {
            return 0;
        }
        let room = (ON_CHIP - self.chip.len()).saturating_sub(self.waiting.len()) as u32;
        let there = announced.min(self.size() - self.fetched);
        if there <= room {
            return there;
        }
        let beyond =
            (self.place(self.fetched + room).0 % u64::from(self.line) / DESC as u64) as u32;
        if room > beyond { room - beyond } else { room }
    }

    /// Returns the time from which it fetches.
    pub(super) fn fetch_due(&self) -> Time {
        if self.wanted == 0 { Time::NEVER } else { self.told }
    }

    /// Returns true if all work waits for a fetch.
    pub(super) fn is_dry(&self) -> bool {
        self.chip.len() < self.pieces
    }

    fn place(&self, index: u32) -> Iova {
        Iova(self.base) + u64::from(index) * DESC as u64
    }

    /// Fetches; when the descriptors are there, and how many.
    pub(super) fn fetch<P: Port>(&mut self, p: &mut P, at: Time) -> Result<(Time, u64), DmaFault> {
        let n = self.wanted as usize;
        let mut bytes = [0; ON_CHIP * DESC];
        let bytes = &mut bytes[..n * DESC];
        let arrived = p.read(at, self.place(self.fetched), bytes)?;
        for d in bytes.as_chunks::<DESC>().0 {
            self.chip.push_back((arrived, Desc::from_bytes(d)));
        }
        self.fetched += n as u32;
        if self.fetched >= self.size() {
            self.fetched = 0;
        }
        self.update();
        Ok((arrived, n as u64))
    }

    /// The next descriptor, and when it arrived.
    pub(super) fn front(&self) -> Option<(Time, Desc)> {
        self.chip.front().copied()
    }

    /// Takes the next descriptor off the chip. Its place in memory.
    #[inline]
    pub(super) fn take(&mut self) -> Option<(Iova, Desc)> {
        let (_, d) = self.chip.pop_front()?;
        let place = self.place(self.head);
        self.head += 1;
        if self.head >= self.size() {
            self.head = 0;
        }
        self.update();
        Some((place, d))
    }

    /// Lets a used descriptor wait for its write-back. Returns how many wait.
    pub(super) fn wait(&mut self, place: Iova, d: Desc) -> u32 {
        self.waiting.push_back((place, d));
        self.update();
        self.waiting.len() as u32
    }

    /// Returns the number of waiting descriptors whose upper half has this bit.
    pub(super) fn unreported(&self, bit: u64) -> u64 {
        self.waiting.iter().filter(|w| w.1.high & bit != 0).count() as u64
    }

    pub(super) fn any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Writes all that wait, neighbours in one piece. A single descriptor is written without its
    /// address, unless it is `extended` and has something in its place. Returns the number of
    /// writes, and of descriptors in them. A write that is to report a failure has the bits
    /// `poisoned` in the upper half of its first.
    pub(super) fn flush<P: Port>(
        &mut self,
        p: &mut P,
        at: Time,
        poisoned: u64,
        extended: bool,
    ) -> Result<(u64, u64), DmaFault> {
        let mut done = (0, 0);
        while let Some(&(start, first)) = self.waiting.front() {
            let follows =
                |n: &usize| self.waiting.get(*n).is_some_and(|w| w.0 == start + (n * DESC) as u64);
            let n = (1..ON_CHIP).take_while(follows).count() + 1;
            done = (done.0 + 1, done.1 + n as u64);
            if n == 1 && !extended {
                Ring::write_one(p, at, (start, first), poisoned)?;
            } else {
                self.write_run(p, at, n, poisoned)?;
            }
            // What could not be written waits on.
            self.waiting.drain(..n);
            self.update();
        }
        Ok(done)
    }

    /// Writes a descriptor without its address, as [`Ring::flush`] does.
    #[inline(always)]
    pub(super) fn write_one<P: Port>(
        p: &mut P,
        at: Time,
        (place, d): (Iova, Desc),
        poisoned: u64,
    ) -> Result<Time, DmaFault> {
        let poison = if p.begin_completion(at) { poisoned } else { 0 };
        p.write(at, place + 8, &(d.high | poison).to_le_bytes())
    }

    /// Writes the `n` neighbours that wait longest.
    #[inline(never)]
    fn write_run<P: Port>(
        &self,
        p: &mut P,
        at: Time,
        n: usize,
        poisoned: u64,
    ) -> Result<Time, DmaFault> {
        let mut bytes = [0; ON_CHIP * DESC];
        let mut poison = if p.begin_completion(at) { poisoned } else { 0 };
        for (b, (_, d)) in bytes.as_chunks_mut::<DESC>().0.iter_mut().zip(self.waiting.range(..n)) {
            *b = Desc { high: d.high | core::mem::take(&mut poison), ..*d }.to_bytes();
        }
        p.write(at, self.waiting[0].0, &bytes[..n * DESC])
    }
}

#[cfg(test)]
mod tests;
