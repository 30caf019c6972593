//! The device against a port that records what it does, and when.

mod arrival;
mod coalescing;
mod counters;
mod engine;
mod errors;
mod held;
mod hostile;
mod limits;
mod offloads;
mod receive;
mod registers;
mod transmit;

use super::{AxiEthernet, Checksum, Config, Speed};
pub(super) use crate::tests::{MEMORY, Record, frame, ns, us};
use alloc::vec;
use alloc::vec::Vec;
use doorbell_hal::{Device, DmaFaultKind, EventSource, Reg, RxVerdict, Span, Time};
use doorbell_layout::axienet::{
    DMA, Descriptor, MAC, MM2S, S2MM, cr, dma, fmi, int, line, mac, rcw1, sr, stat, tc,
};
use zerocopy::{FromBytes, IntoBytes};

pub(super) const TX_RING: u64 = 0x1000;
pub(super) const RX_RING: u64 = 0x4000;
/// Descriptors in either ring.
pub(super) const RING: u64 = 64;
pub(super) const BUFFERS: u64 = 0x10000;
/// A threshold that is not reached.
pub(super) const PATIENT: u32 = 255;

pub(super) struct Bench {
    pub(super) d: AxiEthernet,
    pub(super) p: Record,
    pub(super) now: Time,
    /// The next descriptor of the transmit ring.
    tx_at: u64,
}

/// A control word: threshold, delay, all interrupts, run.
pub(super) const fn run(threshold: u32, delay: u32) -> u32 {
    delay << cr::DELAY_SHIFT | threshold << cr::THRESHOLD_SHIFT | cr::IRQ_ALL | cr::RS
}

impl Bench {
    pub(super) fn new(cfg: Config) -> Bench {
        Bench { d: AxiEthernet::new(cfg), p: Record::new(), now: Time::ZERO, tx_at: 0 }
    }

    /// Promiscuous, both rings of 64 empty descriptors and running with threshold 1; no receive
    /// buffers.
    pub(super) fn up(cfg: Config) -> Bench {
        let mut b = Bench::new(cfg);
        b.bring_up(run(1, 0), run(1, 0));
        b
    }

    pub(super) fn bring_up(&mut self, tx: u32, rx: u32) {
        self.rings();
        self.put_mac(mac::FMI, fmi::PROMISCUOUS);
        for (ch, ring, control) in [(MM2S, TX_RING, tx), (S2MM, RX_RING, rx)] {
            self.put(ch + dma::CURDESC, ring as u32);
            if self.d.config().address_bits > 32 {
                self.put(ch + dma::CURDESC_MSB, (ring >> 32) as u32);
            }
            self.put(ch + dma::CR, control);
        }
    }

    /// Links both rings and clears them.
    pub(super) fn rings(&mut self) {
        self.tx_at = 0;
        for ring in [TX_RING, RX_RING] {
            for i in 0..RING {
                let mut d = Descriptor::default();
                d.next.set((ring + (i + 1) % RING * 64) as u32);
                self.set(ring + i * 64, d);
            }
        }
    }

    // ---- registers ----

    fn reg(region: u8, offset: u32) -> Reg {
        Reg { region, offset }
    }
    pub(super) fn get(&mut self, offset: u32) -> u32 {
        self.read(DMA, offset)
    }
    pub(super) fn put(&mut self, offset: u32, v: u32) {
        self.d.mmio_write(&mut self.p, self.now, Bench::reg(DMA, offset), 4, v.into());
    }
    pub(super) fn get_mac(&mut self, offset: u32) -> u32 {
        self.read(MAC, offset)
    }
    pub(super) fn put_mac(&mut self, offset: u32, v: u32) {
        self.d.mmio_write(&mut self.p, self.now, Bench::reg(MAC, offset), 4, v.into());
    }
    fn read(&mut self, region: u8, offset: u32) -> u32 {
        self.d.advance(&mut self.p, self.now);
        self.d.mmio_read(&mut self.p, self.now, Bench::reg(region, offset), 4) as u32
    }
    /// SR without the counters.
    pub(super) fn status(&mut self, ch: u32) -> u32 {
        self.get(ch + dma::SR) & 0xffff & !sr::SG_INCLUDED
    }

    // ---- time ----

    pub(super) fn at(&mut self, t: Time) -> &mut Bench {
        assert!(t >= self.now);
        self.now = t;
        self.d.advance(&mut self.p, t);
        self
    }
    pub(super) fn after(&mut self, d: Span) -> &mut Bench {
        let t = self.now + d;
        self.at(t)
    }
    /// Everything that is due, as long as it takes.
    pub(super) fn settle(&mut self) -> &mut Bench {
        while let Some(due) = self.d.next_due() {
            self.now = self.now.max(due);
            self.d.advance(&mut self.p, self.now);
        }
        self
    }

    // ---- descriptors ----

    pub(super) fn set(&mut self, at: u64, d: Descriptor) {
        self.fill(at, d.as_bytes());
    }
    pub(super) fn desc(&self, at: u64) -> Descriptor {
        Descriptor::read_from_bytes(&self.p.memory[at as usize..at as usize + 64]).unwrap()
    }
    pub(super) fn fill(&mut self, at: u64, bytes: &[u8]) {
        self.p.memory[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }
    pub(super) fn bytes(&self, at: u64, len: usize) -> &[u8] {
        &self.p.memory[at as usize..at as usize + len]
    }
    /// Returns the address of transmit descriptor `i`.
    pub(super) fn tx(i: u64) -> u64 {
        TX_RING + i % RING * 64
    }
    pub(super) fn rx(i: u64) -> u64 {
        RX_RING + i % RING * 64
    }
    pub(super) fn status_of(&self, at: u64) -> u32 {
        self.desc(at).status.get()
    }

    /// Writes TAILDESC, both halves if there are two.
    pub(super) fn tail(&mut self, ch: u32, at: u64) {
        self.put(ch + dma::TAILDESC, at as u32);
        if self.d.config().address_bits > 32 {
            self.put(ch + dma::TAILDESC_MSB, (at >> 32) as u32);
        }
    }

    // ---- transmit ----

    /// The next transmit descriptor, for `len` bytes at `buffer`; the tail follows with `kick`.
    pub(super) fn piece(&mut self, buffer: u64, len: usize, flags: u32) -> u64 {
        self.piece_app(buffer, len, flags, [0; 3])
    }
    pub(super) fn piece_app(&mut self, buffer: u64, len: usize, flags: u32, app: [u32; 3]) -> u64 {
        let at = Bench::tx(self.tx_at);
        let mut d = self.desc(at);
        d.buffer.set(buffer as u32);
        d.buffer_msb.set((buffer >> 32) as u32);
        d.control.set(len as u32 | flags);
        d.status.set(0);
        for (to, from) in d.app.iter_mut().zip(app) {
            to.set(from);
        }
        self.set(at, d);
        self.tx_at += 1;
        at
    }
    /// Rings for all descriptors so far.
    pub(super) fn kick(&mut self) {
        let last = Bench::tx(self.tx_at + RING - 1);
        self.tail(MM2S, last);
    }
    /// A frame in one descriptor, at `buffer`.
    pub(super) fn queue_frame(&mut self, buffer: u64, frame: &[u8], app: [u32; 3]) -> u64 {
        self.fill(buffer, frame);
        self.piece_app(buffer, frame.len(), Descriptor::SOF | Descriptor::EOF, app)
    }
    pub(super) fn send(&mut self, frame: &[u8]) -> u64 {
        let at = self.queue_frame(0x8000, frame, [0; 3]);
        self.kick();
        at
    }
    pub(super) fn sent(&self) -> Vec<Vec<u8>> {
        self.p.sent()
    }

    // ---- receive ----

    /// Gives descriptors `from..to` with buffers of `size` bytes, 2048 apart.
    pub(super) fn post(&mut self, from: u64, to: u64, size: u32) {
        for i in from..to {
            let at = Bench::rx(i);
            let mut d = self.desc(at);
            d.buffer.set((BUFFERS + i % RING * 2048) as u32);
            d.control.set(size);
            d.status.set(0);
            self.set(at, d);
        }
        self.tail(S2MM, Bench::rx(to - 1));
    }
    pub(super) fn receive(&mut self, frame: &[u8]) -> RxVerdict {
        self.d.advance(&mut self.p, self.now);
        self.d.receive(&mut self.p, self.now, frame)
    }
    /// Returns the bytes of buffer `i`.
    pub(super) fn received(&self, i: u64, len: usize) -> &[u8] {
        self.bytes(BUFFERS + i % RING * 2048, len)
    }

    /// Returns the times at which line `n` rose.
    pub(super) fn rises(&self, n: u16) -> Vec<Time> {
        self.p.rises(n)
    }
}
