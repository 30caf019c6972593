//! A queue in the partition's memory that the server writes: the CRQ, and the sub-CRQs of
//! completions.
//!
//! The driver clears an entry's first byte when it has taken it; so a slot whose first byte is not
//! clear means that the queue is full. What has no room waits here, and is written when the
//! partition next makes a call. The first byte is written last.
//!
//! An interrupt that comes while it is off is remembered, and sent when it is switched on.

use alloc::collections::VecDeque;
use doorbell_hal::{Iova, Port, Time};

/// The queue; `N` bytes an entry.
#[derive(Debug)]
pub(super) struct Ring<const N: usize> {
    at: Iova,
    entries: u32,
    next: u32,
    pub(super) vector: u16,
    enabled: bool,
    pending: bool,
    waiting: VecDeque<[u8; N]>,
    written: Time,
}

impl<const N: usize> Ring<N> {
    pub(super) fn new(at: Iova, bytes: u64, vector: u16) -> Ring<N> {
        let entries = (bytes / N as u64).max(1) as u32;
        let (waiting, written) = (VecDeque::new(), Time::ZERO);
        Ring { at, entries, next: 0, vector, enabled: false, pending: false, waiting, written }
    }

    /// Returns the time at which the last entry so far arrives.
    pub(super) fn written(&self) -> Time {
        self.written
    }

    /// Entries for which there was no room.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Writes an entry. Returns how many could not be written: their memory is out of reach.
    pub(super) fn put<P: Port>(&mut self, p: &mut P, at: Time, entry: [u8; N]) -> u64 {
        self.waiting.push_back(entry);
        self.flush(p, at)
    }

    /// Writes what waits, as far as there is room; at least one entry if the partition's share of a
    /// turn is spent, so that it has an interrupt and calls again.
    pub(super) fn flush<P: Port>(&mut self, p: &mut P, at: Time) -> u64 {
        let mut faults = 0;
        let mut told = None;
        while let Some(entry) = self.waiting.front() {
            let slot = self.at + u64::from(self.next) * N as u64;
            let mut valid = [0];
            let done = p.read(at, slot, &mut valid).and_then(|_| {
                if valid[0] != 0 {
                    return Ok(None);
                }
                let body = p.write(at, slot + 1, &entry[1..])?;
                self.written = self.written.max(body);
                p.write(body, slot, &entry[..1]).map(Some)
            });
            match done {
                Ok(None) => break,
                Ok(Some(t)) => {
                    self.next = (self.next + 1) % self.entries;
                    self.written = self.written.max(t);
                    told = Some(t);
                }
                Err(_) => faults += 1,
            }
            self.waiting.pop_front();
            if p.is_spent() {
                break;
            }
        }
        if let Some(t) = told {
            if self.enabled {
                p.raise_msi(t, self.vector);
            } else {
                self.pending = true;
            }
        }
        faults
    }

    /// Switches the interrupt on or off.
    pub(super) fn enable<P: Port>(&mut self, p: &mut P, at: Time, on: bool) {
        self.enabled = on;
        if on && core::mem::take(&mut self.pending) {
            p.raise_msi(at, self.vector);
        }
    }

    /// Forgets what waits: its sender is gone.
    pub(super) fn purge(&mut self) -> usize {
        let n = self.waiting.len();
        self.waiting.clear();
        n
    }
}
