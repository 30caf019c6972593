//! Tests of devices with a bus and a wire: a port that records actions and their times.

use alloc::vec;
use alloc::vec::Vec;
use doorbell_hal::{DmaFault, DmaFaultKind, Iova, Port, Span, Time};

/// Bytes of its memory.
pub(crate) const MEMORY: usize = 1 << 20;

/// Memory, wire and lines; with a price for each read and write.
pub(crate) struct Record {
    pub(crate) memory: Vec<u8>,
    pub(crate) read_time: Span,
    pub(crate) read_ready: Time,
    pub(crate) write_time: Span,
    pub(crate) reads: Vec<(Time, u64, usize)>,
    pub(crate) writes: Vec<(Time, u64, usize)>,
    pub(crate) lines: Vec<(Time, u16, bool)>,
    pub(crate) messages: Vec<(Time, u16)>,
    pub(crate) frames: Vec<(Time, Vec<u8>)>,
    /// Every address is somewhere, instead of a fault.
    pub(crate) wraps: bool,
    /// An access that touches this address fails so.
    pub(crate) trap: Option<(u64, DmaFaultKind)>,
    /// Every completion is to report a fault.
    pub(crate) poisoned: bool,
    latest: Time,
}

impl Record {
    pub(crate) fn new() -> Record {
        Record {
            memory: vec![0; MEMORY],
            read_time: Span::ZERO,
            read_ready: Time::ZERO,
            write_time: Span::ZERO,
            reads: vec![],
            writes: vec![],
            lines: vec![],
            messages: vec![],
            frames: vec![],
            wraps: false,
            trap: None,
            poisoned: false,
            latest: Time::ZERO,
        }
    }

    fn check(&mut self, at: Time, a: Iova, len: usize) -> Result<usize, DmaFault> {
        assert!(at >= self.latest, "time goes back");
        assert!(len > 0, "an access to nothing");
        self.latest = at;
        if let Some((bad, kind)) = self.trap
            && (a.0..a.0.saturating_add(len as u64)).contains(&bad)
        {
            return Err(DmaFault { at: Iova(bad), kind });
        }
        if self.wraps {
            return Ok(a.0 as usize % (MEMORY - len));
        }
        match (a.0 as usize).checked_add(len) {
            Some(end) if end <= self.memory.len() => Ok(a.0 as usize),
            _ => Err(DmaFault { at: a, kind: DmaFaultKind::Unmapped }),
        }
    }

    /// Returns the frames that left on the wire.
    pub(crate) fn sent(&self) -> Vec<Vec<u8>> {
        self.frames.iter().map(|f| f.1.clone()).collect()
    }

    /// Returns the times at which line `n` rose.
    pub(crate) fn rises(&self, n: u16) -> Vec<Time> {
        self.lines.iter().filter(|l| l.1 == n && l.2).map(|l| l.0).collect()
    }
}

impl Port for Record {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        let start = self.check(at, from, into.len())?;
        into.copy_from_slice(&self.memory[start..start + into.len()]);
        self.reads.push((at, from.0, into.len()));
        Ok(at + self.read_time)
    }
    fn read_ready(&self) -> Time {
        self.read_ready
    }
    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        let start = self.check(at, to, from.len())?;
        self.memory[start..start + from.len()].copy_from_slice(from);
        self.writes.push((at, to.0, from.len()));
        Ok(at + self.write_time)
    }
    fn begin_completion(&mut self, _: Time) -> bool {
        self.poisoned
    }
    fn set_irq_line(&mut self, at: Time, n: u16, high: bool) {
        let last = self.lines.iter().rev().find(|l| l.1 == n);
        assert!(last.map_or(high, |l| l.0 <= at && l.2 != high), "line {n} changes, and forward");
        self.lines.push((at, n, high));
    }
    fn raise_msi(&mut self, at: Time, vector: u16) {
        self.messages.push((at, vector));
    }
    fn emit(&mut self, at: Time, frame: &[u8]) {
        self.frames.push((at, frame.to_vec()));
    }
}

pub(crate) fn ns(n: u64) -> Time {
    Time::ZERO + Span::from_ns(n)
}

pub(crate) fn us(n: u64) -> Time {
    Time::ZERO + Span::from_us(n)
}

/// A broadcast frame of `len` bytes, filled with a pattern.
pub(crate) fn frame(len: usize) -> Vec<u8> {
    let mut f: Vec<u8> = (0..len.max(14)).map(|i| (i * 7) as u8).collect();
    f[..6].fill(0xff);
    f[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    f[12..14].copy_from_slice(&[0x88, 0xb5]);
    f.truncate(len);
    f
}
