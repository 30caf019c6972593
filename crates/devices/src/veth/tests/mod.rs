//! The LAN against partitions that record who touches which byte.

mod calls;
mod counters;
mod hostile;
mod limits;
mod offloads;
mod send;
mod switch;

use super::{Adapter, Config, Veth};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use doorbell_hal::{
    Direction, DmaFault, DmaFaultKind, EventSource, Hcall, HcallDevice, HcallReturn, Iova, Port,
    Span, Time,
};
use doorbell_layout::ibmveth::*;
use doorbell_packet::checksum::Sum;

pub(super) const PAGE: usize = 4096;
pub(super) const MEMORY: usize = 512 * 1024;
/// Memory map of a well-behaved partition.
pub(super) const LIST: u32 = 0x1000;
pub(super) const FILTER: u32 = 0x2000;
pub(super) const QUEUE: u32 = 0x3000;
pub(super) const ENTRIES: u32 = 8;
pub(super) const SEND: u32 = 0x10000;
pub(super) const BUFFERS: u32 = 0x30000;

/// A partition's memory and interrupts.
pub(super) struct Part {
    pub(super) memory: Vec<u8>,
    /// Pages in its table; what may be written.
    pub(super) mapped: Vec<bool>,
    pub(super) writable: Vec<bool>,
    pub(super) reads: Vec<Range<usize>>,
    pub(super) writes: Vec<Range<usize>>,
    pub(super) messages: Vec<(Time, u16)>,
    pub(super) frames: Vec<Vec<u8>>,
    /// Time of a write of any length.
    pub(super) price: Span,
    /// Every completion is to report a fault.
    pub(super) poisoned: bool,
    latest: Time,
}

impl Part {
    fn new() -> Part {
        Part {
            memory: vec![0; MEMORY],
            mapped: vec![true; MEMORY / PAGE],
            writable: vec![true; MEMORY / PAGE],
            reads: vec![],
            writes: vec![],
            messages: vec![],
            frames: vec![],
            price: Span::ZERO,
            poisoned: false,
            latest: Time::ZERO,
        }
    }

    fn check(&self, at: Iova, len: usize, pages: &[bool]) -> Result<Range<usize>, DmaFault> {
        let fault = DmaFault { at, kind: DmaFaultKind::Unmapped };
        let start = usize::try_from(at.0).map_err(|_| fault)?;
        let end = start.checked_add(len).filter(|e| *e <= MEMORY).ok_or(fault)?;
        if (start / PAGE..end.div_ceil(PAGE)).all(|p| pages[p]) {
            Ok(start..end)
        } else {
            Err(fault)
        }
    }

    fn reaches(&self, at: Iova, len: u32, dir: Direction) -> Result<(), DmaFault> {
        let pages = if dir == Direction::ToDevice { &self.mapped } else { &self.writable };
        self.check(at, len as usize, pages).map(|_| ())
    }
}

impl Port for Part {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        let r = self.check(from, into.len(), &self.mapped)?;
        into.copy_from_slice(&self.memory[r.clone()]);
        self.reads.push(r);
        Ok(at + self.price)
    }
    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        let r = self.check(to, from.len(), &self.writable)?;
        assert!(at >= self.latest, "writes of one port are in order");
        self.latest = at;
        self.memory[r.clone()].copy_from_slice(from);
        self.writes.push(r);
        Ok(at + self.price)
    }
    fn check_access(&mut self, at: Iova, len: u32, dir: Direction) -> Result<(), DmaFault> {
        self.reaches(at, len, dir)
    }
    fn begin_completion(&mut self, _: Time) -> bool {
        self.poisoned
    }
    fn set_irq_line(&mut self, _: Time, _: u16, _: bool) {
        panic!("it has no line");
    }
    fn raise_msi(&mut self, at: Time, vector: u16) {
        self.messages.push((at, vector));
    }
    fn emit(&mut self, _: Time, frame: &[u8]) {
        self.frames.push(frame.to_vec());
    }
}

/// A received frame, as a driver sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Got {
    pub(super) flags: u32,
    pub(super) correlator: u64,
    pub(super) mss: u64,
    pub(super) bytes: Vec<u8>,
}

/// A LAN and its partitions, each with one adapter, `n` of the partition being its own.
pub(super) struct Bench {
    pub(super) d: Veth,
    pub(super) p: Vec<Part>,
    pub(super) now: Time,
    adapters: Vec<Adapter>,
    /// Of each adapter: the next entry, and the toggle expected there.
    next: Vec<(u32, bool)>,
    posted: u64,
}

impl Bench {
    /// `n` partitions with a plain adapter each.
    pub(super) fn plain(n: u8) -> Bench {
        Bench::new(Config::new((0..n).map(|i| Adapter::new(i.into(), i)).collect()))
    }

    pub(super) fn new(cfg: Config) -> Bench {
        let adapters = cfg.adapters.clone();
        let n = adapters.len();
        Bench {
            d: Veth::new(cfg),
            p: (0..n).map(|_| Part::new()).collect(),
            now: Time::ZERO,
            adapters,
            next: vec![(0, true); n],
            posted: 0,
        }
    }

    /// The same with all adapters open and with four buffers of 2 KiB.
    pub(super) fn open(mut self) -> Bench {
        for i in 0..self.adapters.len() {
            self.register(i);
            for k in 0..4 {
                assert_eq!(self.post(i, 2048, BUFFERS + k * 2048), status::H_SUCCESS);
            }
        }
        self
    }

    pub(super) fn call(&mut self, from: usize, c: u64, a: &[u64]) -> HcallReturn {
        let mut all = [0; 9];
        all[..a.len()].copy_from_slice(a);
        self.d.advance(&mut self.p, self.now);
        let (answer, done) = self.d.hcall(&mut self.p, from, self.now, Hcall(c), &all);
        assert!(done >= self.now);
        self.now = done;
        answer
    }

    /// A call of adapter `i`'s partition for it.
    pub(super) fn own(&mut self, i: usize, c: u64, a: &[u64]) -> i64 {
        self.full(i, c, a).status
    }

    pub(super) fn full(&mut self, i: usize, c: u64, a: &[u64]) -> HcallReturn {
        let args: Vec<u64> = core::iter::once(self.unit(i)).chain(a.iter().copied()).collect();
        self.call(self.adapters[i].partition, c, &args)
    }

    pub(super) fn unit(&self, i: usize) -> u64 {
        self.adapters[i].unit
    }

    pub(super) fn mac(&self, i: usize) -> [u8; 6] {
        self.adapters[i].mac
    }

    pub(super) fn register(&mut self, i: usize) {
        let part = self.adapters[i].partition;
        self.p[part].memory[QUEUE as usize..(QUEUE + ENTRIES * ENTRY) as usize].fill(0);
        let queue = Descriptor::new(0, ENTRIES * ENTRY, QUEUE).0;
        let m = mac(self.adapters[i].mac);
        let code = self.own(i, H_REGISTER_LOGICAL_LAN, &[LIST.into(), queue, FILTER.into(), m]);
        assert_eq!(code, status::H_SUCCESS);
        self.next[i] = (0, true);
    }

    /// Lends a buffer with a correlator of its own.
    pub(super) fn post(&mut self, i: usize, len: u32, at: u32) -> i64 {
        self.posted += 1;
        let part = self.adapters[i].partition;
        self.p[part].memory[at as usize..at as usize + 8]
            .copy_from_slice(&self.posted.to_be_bytes());
        self.own(i, H_ADD_LOGICAL_LAN_BUFFER, &[Descriptor::new(0, len, at).0])
    }

    /// Puts a frame into memory and sends it in one piece, with flags and an mss.
    pub(super) fn send_marked(&mut self, i: usize, frame: &[u8], flags: u64, mss: u64) -> i64 {
        self.put(i, frame);
        self.own(
            i,
            H_SEND_LOGICAL_LAN,
            &[Descriptor::new(flags, frame.len() as u32, SEND).0, 0, 0, 0, 0, 0, 0, mss],
        )
    }

    pub(super) fn send(&mut self, i: usize, frame: &[u8]) -> i64 {
        self.send_marked(i, frame, 0, 0)
    }

    pub(super) fn put(&mut self, i: usize, frame: &[u8]) {
        let part = self.adapters[i].partition;
        self.p[part].memory[SEND as usize..SEND as usize + frame.len()].copy_from_slice(frame);
    }

    /// The next frame that an adapter has received, by the toggle.
    pub(super) fn received(&mut self, i: usize) -> Option<Got> {
        let memory = &self.p[self.adapters[i].partition].memory;
        let (index, toggle) = self.next[i];
        let at = (QUEUE + index * ENTRY) as usize;
        let word = |at: usize| u32::from_be_bytes(memory[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_be_bytes(memory[at..at + 8].try_into().unwrap());
        let flags = word(at);
        if (flags & Entry::TOGGLE != 0) != toggle {
            return None;
        }
        let correlator = long(at + 8);
        // Buffers are found by their correlator, which is still in them.
        let buffer =
            (0..MEMORY - 8).step_by(4).skip(BUFFERS as usize / 4).find(|b| long(*b) == correlator);
        let (len, offset) = (word(at + 4) as usize, (flags & Entry::OFFSET) as usize);
        let start = buffer.unwrap_or(0) + offset;
        let mss = if flags & Entry::LRG_PKT != 0 { long(start - 8) } else { 0 };
        let got = Got {
            flags: flags & !Entry::TOGGLE,
            correlator,
            mss,
            bytes: memory[start..start + len].to_vec(),
        };
        self.next[i] = if index + 1 == ENTRIES { (0, !toggle) } else { (index + 1, toggle) };
        Some(got)
    }

    /// The bytes of the next frame.
    pub(super) fn bytes(&mut self, i: usize) -> Option<Vec<u8>> {
        self.received(i).map(|g| g.bytes)
    }

    /// Time passes until nothing is left to do.
    pub(super) fn settle(&mut self) {
        let mut steps = 0;
        while let Some(due) = self.d.next_due() {
            self.now = self.now.max(due);
            self.d.advance(&mut self.p, self.now);
            steps += 1;
            assert!(steps < 10_000, "it goes on for ever");
        }
    }

    pub(super) fn dropped(&self, i: usize) -> u64 {
        self.d.counters(i).tx_dropped
    }
}

/// A frame of some type and so many bytes.
pub(super) fn plain(to: [u8; 6], from: [u8; 6], len: usize) -> Vec<u8> {
    let mut f: Vec<u8> = to.into_iter().chain(from).chain([0x88, 0xb5]).collect();
    f.extend((f.len()..len).map(|i| (i * 7 + 1) as u8));
    f
}

/// A TCP frame with right checksums.
pub(super) fn tcp(to: [u8; 6], from: [u8; 6], v6: bool, payload: usize) -> Vec<u8> {
    let mut f: Vec<u8> = to.into_iter().chain(from).collect();
    let l4_len = 20 + payload as u32;
    let pseudo = if v6 {
        f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        f.extend((l4_len as u16).to_be_bytes());
        f.extend([6, 64]);
        f.extend([0x21; 16]);
        f.extend([0x37; 16]);
        Sum::pseudo_v6([0x21; 16], [0x37; 16], 6, l4_len)
    } else {
        f.extend([8, 0]);
        let l3 = f.len();
        f.extend([0x45, 0]);
        f.extend((20 + l4_len as u16).to_be_bytes());
        f.extend([0xff, 0xff, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let check = Sum::of(&f[l3..]).checksum();
        f[l3 + 10..l3 + 12].copy_from_slice(&check.to_be_bytes());
        Sum::pseudo_v4([10, 0, 0, 1], [10, 0, 0, 2], 6, l4_len)
    };
    let l4 = f.len();
    f.extend([0x12, 0x34, 0, 80, 0, 0, 1, 0, 0, 0, 0, 1, 0x50, 0x18, 0x10, 0, 0, 0, 0, 0]);
    f.extend((0..payload).map(|i| (i * 13 + i / 251) as u8));
    let check = pseudo.plus(Sum::of(&f[l4..])).checksum();
    f[l4 + 16..l4 + 18].copy_from_slice(&check.to_be_bytes());
    f
}

/// Returns the offset of TCP's checksum in a frame of [`tcp`].
pub(super) const fn check_at(v6: bool) -> usize {
    if v6 { 14 + 40 + 16 } else { 14 + 20 + 16 }
}
