//! A driver with its machine and backend.

use super::Backend;
use crate::packets::{self, TestSink};
use doorbell_drivers::ibmveth::{Config, Ibmveth, Stats};
use doorbell_drivers::{Driver, Irq, Poll, Tx};
use doorbell_hal::Hypervisor;
use doorbell_packet::{OffloadRequest, Packet};

pub(super) struct Harness<'a, H: Hypervisor, A: Backend<H>> {
    pub(super) h: &'a mut H,
    pub(super) a: &'a mut A,
    pub(super) nic: Ibmveth,
    pub(super) up: TestSink,
}

/// A configuration with so few buffers that any adapter takes them all.
pub(super) fn small(c: &Config) -> Config {
    let mut c = *c;
    for p in &mut c.pools {
        p.count = 16;
    }
    c
}

impl<'a, H: Hypervisor, A: Backend<H>> Harness<'a, H, A> {
    pub(super) fn open(h: &'a mut H, a: &'a mut A, c: &Config) -> Self {
        let nic = Ibmveth::open(h, c).unwrap();
        Harness { h, a, nic, up: TestSink::default() }
    }

    pub(super) fn close(mut self) -> Stats {
        self.sent();
        assert!(self.up.received.is_empty());
        let s = self.nic.stats();
        self.nic.close(self.h);
        s
    }

    /// Interrupts and polls until there are no more; how many interrupts.
    pub(super) fn run(&mut self) -> u32 {
        for n in 0..1000 {
            if !self.a.interrupt(self.h) {
                return n;
            }
            let vector = self.nic.config().vector;
            if self.nic.interrupt(self.h, vector) == Irq::Poll {
                self.poll();
            }
        }
        panic!("it interrupts for ever");
    }

    pub(super) fn poll(&mut self) {
        while self.nic.poll(self.h, 16, &mut self.up) == Poll::Again {}
    }

    pub(super) fn packet(
        &mut self,
        bytes: &[u8],
        cuts: &[usize],
        listed: usize,
        todo: OffloadRequest,
    ) -> Packet {
        packets::packet(self.h, 41, bytes, cuts, listed, todo)
    }

    /// Sends a packet; what came out on the wire.
    pub(super) fn send(
        &mut self,
        bytes: &[u8],
        cuts: &[usize],
        listed: usize,
        todo: OffloadRequest,
    ) -> Vec<Vec<u8>> {
        let p = self.packet(bytes, cuts, listed, todo);
        assert_eq!(self.nic.transmit(self.h, p, false), Tx::Ok);
        self.wire()
    }

    pub(super) fn wire(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.a.collect(self.h)).collect()
    }

    /// Releases what was sent: how many pieces of how many packets.
    pub(super) fn sent(&mut self) -> (usize, usize) {
        self.nic.reclaim(self.h, &mut self.up);
        self.up.release_sent(self.h)
    }

    pub(super) fn came(&mut self) -> Vec<Vec<u8>> {
        let came = self.up.take_received(self.h);
        assert!(!came.iter().any(|f| f.verified), "nobody vouched for it");
        came.into_iter().map(|f| f.bytes).collect()
    }

    pub(super) fn receive(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        self.a.inject(self.h, frame);
        self.run();
        self.came()
    }
}
