//! A driver with its machine and backend.

use super::Backend;
use doorbell_drivers::ibmveth::{Config, Ibmveth, Stats};
use doorbell_drivers::{Driver, Irq, Poll, Sink, Tx};
use doorbell_hal::{Alignment, Buf, Hypervisor};
use doorbell_packet::{Fragment, NonLinear, OffloadRequest, Packet};

/// Collects the buffers and packets of a driver.
#[derive(Debug, Default)]
pub(super) struct TestSink {
    pub(super) sent: Vec<(Buf, u32, bool)>,
    pub(super) received: Vec<(Packet, bool)>,
}

impl Sink for TestSink {
    fn sent(&mut self, b: Buf, cookie: u32, last: bool) {
        self.sent.push((b, cookie, last));
    }
    fn received(&mut self, p: Packet, verified: bool) {
        self.received.push((p, verified));
    }
}

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
        let mut ends: Vec<usize> = cuts.to_vec();
        ends.push(bytes.len());
        let (mut from, mut pieces) = (0, Vec::new());
        for end in ends {
            // Anywhere but on a line.
            let len = (end - from) as u32;
            let buf = self.h.buffer(len + 10, Alignment { align: 64, offset: 41 }).unwrap();
            self.h.bytes_mut(&buf, 6..6 + len, |b| b.copy_from_slice(&bytes[from..end]));
            pieces.push(Fragment { buf, start: 6, len });
            from = end;
        }
        let list = pieces.split_off(pieces.len() - listed);
        let mut pieces = pieces.into_iter();
        let head = pieces.next().unwrap();
        let frags: Vec<Fragment> = pieces.collect();
        let more =
            (!frags.is_empty() || !list.is_empty()).then(|| Box::new(NonLinear { frags, list }));
        Packet { head, todo, more, cookie: 7 }
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
        let sent = std::mem::take(&mut self.up.sent);
        let n = (sent.len(), sent.iter().filter(|s| s.2).count());
        for (b, ..) in sent {
            self.h.release(b);
        }
        n
    }

    pub(super) fn came(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for (p, verified) in std::mem::take(&mut self.up.received) {
            assert!(!verified, "nobody vouched for it");
            let mut bytes = Vec::new();
            for q in p.pieces() {
                self.h.bytes(&q.buf, q.start..q.start + q.len, |b| bytes.extend_from_slice(b));
            }
            frames.push(bytes);
            p.release(self.h);
        }
        frames
    }

    pub(super) fn receive(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        self.a.inject(self.h, frame);
        self.run();
        self.came()
    }
}
