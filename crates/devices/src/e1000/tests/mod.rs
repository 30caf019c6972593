//! The device against a port that records what it does, and when.

mod counters;
mod ends;
mod held;
mod hostile;
mod i82574;
mod i82574_queues;
mod i82574_split;
mod interrupts;
mod limits;
mod offloads;
mod receive;
mod registers;
mod transmit;

use super::{Config, E1000};
pub(super) use crate::tests::{MEMORY, Record, frame, ns};
use alloc::vec::Vec;
use doorbell_hal::{Device, EventSource, Reg, RxVerdict, Time};
use doorbell_layout::e1000::{
    CTRL_SLU, RCTL_BAM, RCTL_EN, RCTL_SECRC, RCTL_UPE, Rx, TCTL_EN, TCTL_PSP, reg,
};

pub(super) const TX_RING: u64 = 0x1000;
pub(super) const RX_RING: u64 = 0x4000;
pub(super) const BUFFERS: u64 = 0x10000;

pub(super) struct Bench {
    pub(super) d: E1000,
    pub(super) p: Record,
    pub(super) now: Time,
    tx_tail: u32,
}

impl Bench {
    pub(super) fn new(cfg: Config) -> Bench {
        Bench { d: E1000::new(cfg), p: Record::new(), now: Time::ZERO, tx_tail: 0 }
    }

    /// Link up, both rings of 64, receiver for broadcast and all unicast without FCS.
    pub(super) fn up(cfg: Config) -> Bench {
        let mut b = Bench::new(cfg);
        b.bring_up();
        b
    }

    pub(super) fn bring_up(&mut self) {
        self.tx_tail = 0;
        for (r, v) in [
            (reg::CTRL, CTRL_SLU),
            (reg::TDBAL, TX_RING as u32),
            (reg::TDLEN, 64 * 16),
            (reg::RDBAL, RX_RING as u32),
            (reg::RDLEN, 64 * 16),
            (reg::TCTL, TCTL_EN | TCTL_PSP),
            (reg::RCTL, RCTL_EN | RCTL_BAM | RCTL_UPE | RCTL_SECRC),
        ] {
            self.write(r, v);
        }
        self.read(reg::ICR);
    }

    pub(super) fn read(&mut self, r: u32) -> u32 {
        self.d.advance(&mut self.p, self.now);
        self.d.mmio_read(&mut self.p, self.now, Reg::at(r), 4) as u32
    }
    pub(super) fn write(&mut self, r: u32, v: u32) {
        self.d.mmio_write(&mut self.p, self.now, Reg::at(r), 4, v.into());
    }
    pub(super) fn at(&mut self, t: Time) -> &mut Bench {
        assert!(t >= self.now);
        self.now = t;
        self.d.advance(&mut self.p, t);
        self
    }
    /// Everything that is due, as long as it takes.
    pub(super) fn settle(&mut self) -> &mut Bench {
        while let Some(due) = self.d.next_due() {
            self.now = self.now.max(due);
            self.d.advance(&mut self.p, self.now);
        }
        self
    }

    // ---- transmit ----

    /// Writes the next transmit descriptor; the tail follows with `kick`.
    pub(super) fn desc(&mut self, low: u64, high: u64) {
        let at = (TX_RING + u64::from(self.tx_tail) * 16) as usize;
        self.p.memory[at..at + 8].copy_from_slice(&low.to_le_bytes());
        self.p.memory[at + 8..at + 16].copy_from_slice(&high.to_le_bytes());
        self.tx_tail = (self.tx_tail + 1) % 64;
    }
    pub(super) fn kick(&mut self) {
        self.write(reg::TDT, self.tx_tail);
    }
    pub(super) fn put(&mut self, at: u64, bytes: &[u8]) {
        self.p.memory[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }
    /// A legacy frame of one buffer with EOP, IFCS and these command bits.
    pub(super) fn send(&mut self, at: u64, frame: &[u8], command: u32) {
        self.put(at, frame);
        let word = frame.len() as u32 | 0x0300_0000 | command;
        self.desc(at, word.into());
    }
    pub(super) fn tx_done(&self, i: usize) -> bool {
        self.p.memory[TX_RING as usize + i * 16 + 12] & 1 == 1
    }
    pub(super) fn sent(&self) -> Vec<Vec<u8>> {
        self.p.sent()
    }

    // ---- receive ----

    /// Fills `n` receive descriptors from 0 on, with buffers 2048 apart; the last stays held back.
    pub(super) fn post(&mut self, n: u32) {
        for i in 0..n {
            let at = (RX_RING + u64::from(i) * 16) as usize;
            let buffer = BUFFERS + u64::from(i) * 2048;
            self.p.memory[at..at + 8].copy_from_slice(&buffer.to_le_bytes());
            self.p.memory[at + 8..at + 16].fill(0);
        }
        self.write(reg::RDT, n - 1);
    }
    pub(super) fn receive(&mut self, frame: &[u8]) -> RxVerdict {
        self.d.advance(&mut self.p, self.now);
        self.d.receive(&mut self.p, self.now, frame)
    }
    pub(super) fn rx(&self, i: usize) -> Rx {
        use zerocopy::FromBytes;
        Rx::read_from_bytes(&self.p.memory[RX_RING as usize + i * 16..][..16]).unwrap()
    }
}
