//! A driver with its machine and backend.

use super::Backend;
use crate::packets::{self, Frame, TestSink};
use doorbell_drivers::axienet::{Adaptive, Axienet, Coalesce, Config, Stats};
use doorbell_drivers::{Driver, Irq, Poll, Tx};
use doorbell_hal::{Host, Reg, Span};
use doorbell_layout::axienet::{DMA, line};
use doorbell_moderation::NetDim;
use doorbell_packet::{OffloadRequest, Packet};

pub(super) struct Harness<'a, H: Host, A: Backend<H>> {
    pub(super) h: &'a mut H,
    pub(super) a: &'a mut A,
    pub(super) nic: Axienet<NetDim>,
    pub(super) up: TestSink,
    before: (u64, u64),
}

/// Every packet interrupts.
pub(super) const AT_ONCE: Coalesce =
    Coalesce { rx_frames: 1, rx_usecs: 0, tx_frames: 1, tx_usecs: 0, adaptive_rx: Adaptive::Off };

impl<'a, H: Host, A: Backend<H>> Harness<'a, H, A> {
    /// With an interrupt for each packet.
    pub(super) fn open(h: &'a mut H, a: &'a mut A, c: &Config) -> Self {
        Self::open_as_is(h, a, &Config { coalesce: AT_ONCE, ..*c })
    }

    pub(super) fn open_as_is(h: &'a mut H, a: &'a mut A, c: &Config) -> Self {
        let nic = Axienet::open(h, c, c.net_dim()).unwrap();
        let mut b = Harness { h, a, nic, up: TestSink::default(), before: (0, 0) };
        // A device whose reset is partial may have an interrupt left from before.
        b.run();
        b.before = (b.nic.stats().tx_irqs, b.nic.stats().rx_irqs);
        b
    }

    pub(super) fn close(self) -> Stats {
        let Harness { h, nic, up, before, .. } = self;
        assert!(up.received.is_empty() && up.sent.is_empty());
        let s = nic.stats();
        let s = Stats { tx_irqs: s.tx_irqs - before.0, rx_irqs: s.rx_irqs - before.1, ..s };
        nic.close(h);
        s
    }

    /// Interrupts and polls until all lines are quiet.
    pub(super) fn run(&mut self) {
        for _ in 0..1000 {
            let Some(n) =
                [line::TX, line::RX, line::MAC].into_iter().find(|n| self.a.interrupt(self.h, *n))
            else {
                return;
            };
            if self.nic.interrupt(self.h, n) == Irq::Poll {
                self.poll();
            }
        }
        panic!("an interrupt line stays high");
    }
    pub(super) fn poll(&mut self) {
        loop {
            match self.nic.poll(self.h, 64, &mut self.up) {
                Poll::Again => {}
                Poll::Work => return self.nic.work(self.h),
                Poll::Idle => return,
            }
        }
    }
    pub(super) fn line(&mut self, n: u16) -> bool {
        self.a.interrupt(self.h, n)
    }
    /// A register of a DMA channel.
    pub(super) fn dma(&mut self, channel: u32, r: u32) -> u32 {
        self.h.read32(Reg { region: DMA, offset: channel + r })
    }
    pub(super) fn set_dma(&mut self, channel: u32, r: u32, v: u32) {
        self.h.write32(Reg { region: DMA, offset: channel + r }, v);
    }
    /// So many units of the delay.
    pub(super) fn units(&self, n: u64) -> Span {
        self.a.delay_unit() * n
    }

    pub(super) fn packet(&mut self, bytes: &[u8], cuts: &[usize], todo: OffloadRequest) -> Packet {
        packets::packet(self.h, 41, bytes, cuts, 0, todo)
    }

    pub(super) fn send(&mut self, bytes: &[u8], cuts: &[usize], todo: OffloadRequest) {
        let p = self.packet(bytes, cuts, todo);
        assert_eq!(self.nic.transmit(self.h, p, false), Tx::Ok);
    }

    /// Frames on the wire until no more come, and all that was sent is done.
    pub(super) fn wire(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for _ in 0..20 {
            while let Some(f) = self.a.collect(self.h) {
                frames.push(f);
            }
            self.run();
            self.poll();
            if self.nic.is_drained() {
                break;
            }
            self.a.wait(self.h, Span::from_us(50));
        }
        while let Some(f) = self.a.collect(self.h) {
            frames.push(f);
        }
        assert!(self.nic.is_drained(), "sent, and not done");
        frames
    }

    /// Releases what was sent: how many pieces of how many packets.
    pub(super) fn sent(&mut self) -> (usize, usize) {
        self.up.release_sent(self.h)
    }

    pub(super) fn came(&mut self) -> Vec<Frame> {
        self.up.take_received(self.h)
    }

    pub(super) fn receive(&mut self, frame: &[u8]) -> Vec<Frame> {
        self.a.inject(self.h, frame);
        self.run();
        self.came()
    }
}
