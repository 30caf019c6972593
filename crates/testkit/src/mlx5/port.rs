//! A port that records what an mlx5 does, and when.

use doorbell_hal::{DmaFault, DmaFaultKind, Iova, Port, Time, transfer_units};

/// An action of a device, with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// It read bytes: address, length.
    Read(Time, u64, usize),
    /// It wrote bytes: address, length.
    Write(Time, u64, usize),
    /// It raised an interrupt vector.
    Message(Time, u16),
    /// It sent a frame.
    Frame(Time, Vec<u8>),
}

/// Memory that records every access and fails the test on a forbidden one.
#[derive(Debug)]
pub struct RecordingPort {
    /// Memory from address 0.
    pub memory: Vec<u8>,
    /// Unmapped ranges.
    pub holes: Vec<std::ops::Range<u64>>,
    /// All actions in order.
    pub log: Vec<Access>,
    /// Any access fails the test.
    pub forbidden: bool,
    /// Seed of changes: each read makes one of its bytes change right after.
    pub racing: Option<u8>,
    /// Work that was charged.
    pub work: u64,
    /// Work with which the share of the turn is spent.
    pub share: u64,
}

impl RecordingPort {
    /// `size` bytes of zeroes.
    pub fn new(size: usize) -> RecordingPort {
        RecordingPort {
            memory: vec![0; size],
            holes: Vec::new(),
            log: Vec::new(),
            forbidden: false,
            racing: None,
            work: 0,
            share: u64::MAX,
        }
    }
    fn check(&self, at: Iova, len: usize) -> Result<usize, DmaFault> {
        assert!(!self.forbidden, "the device touched {len} bytes at {:#x}", at.0);
        let end = at.0.checked_add(len as u64).filter(|&end| end <= self.memory.len() as u64);
        let there =
            end.is_some_and(|end| self.holes.iter().all(|h| end <= h.start || h.end <= at.0));
        if there { Ok(at.0 as usize) } else { Err(DmaFault { at, kind: DmaFaultKind::Unmapped }) }
    }
}

impl Port for RecordingPort {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        self.work += transfer_units(into.len());
        let start = self.check(from, into.len())?;
        into.copy_from_slice(&self.memory[start..start + into.len()]);
        self.log.push(Access::Read(at, from.0, into.len()));
        if let Some(n) = self.racing.as_mut().filter(|_| !into.is_empty()) {
            *n = n.wrapping_mul(29).wrapping_add(7);
            self.memory[start + usize::from(*n) % into.len()] ^= *n;
        }
        Ok(at)
    }
    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        let start = self.check(to, from.len())?;
        self.memory[start..start + from.len()].copy_from_slice(from);
        self.log.push(Access::Write(at, to.0, from.len()));
        Ok(at)
    }
    fn charge(&mut self, units: u64) {
        self.work += units;
    }
    fn is_spent(&self) -> bool {
        self.work >= self.share
    }
    fn set_irq_line(&mut self, _at: Time, n: u16, _high: bool) {
        panic!("an mlx5 has no interrupt line, not even {n}");
    }
    fn raise_msi(&mut self, at: Time, vector: u16) {
        assert!(!self.forbidden, "the device raised vector {vector}");
        self.log.push(Access::Message(at, vector));
    }
    fn emit(&mut self, at: Time, frame: &[u8]) {
        assert!(!self.forbidden, "a frame of {} bytes left", frame.len());
        self.log.push(Access::Frame(at, frame.to_vec()));
    }
}
