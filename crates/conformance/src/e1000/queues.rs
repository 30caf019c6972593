//! The case of two queues, which the 82574 alone has.

use super::{Backend, MAC};
use crate::frames::{PEER, ip, plain};
use crate::packets::{self, TestSink};
use doorbell_drivers::e1000::{Config, Queue};
use doorbell_drivers::{Driver, Irq, Poll, Tx};
use doorbell_hal::{Host, Span};
use doorbell_packet::OffloadRequest;
use doorbell_packet::headers::{Layers, Transport};
use doorbell_packet::toeplitz::{MICROSOFT, Toeplitz};

/// Interrupts, and polls both queues, until they are quiet.
fn run<H: Host, A: Backend<H>>(
    h: &mut H,
    a: &mut A,
    queues: &mut [Queue; 2],
    up: &mut [TestSink; 2],
) {
    while a.interrupt(h) {
        if queues[0].interrupt(h, 0) == Irq::Poll {
            for (queue, up) in queues.iter_mut().zip(&mut *up) {
                while queue.poll(h, 64, up) == Poll::Again {}
            }
        }
    }
}

/// Frames come to the queue that their hash chooses, and both queues send.
pub fn two_queues<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    if !c.part.is_82574() {
        return;
    }
    let c = Config { queues: 2, ..*c };
    for _ in 0..2 {
        let first = Queue::open(h, &c).unwrap();
        let mut queues = [first.another(0), first.another(1)];
        drop(first);
        let mut up = [TestSink::default(), TestSink::default()];
        let settling = a.settling();
        a.wait(h, settling);
        run(h, a, &mut queues, &mut up);
        Driver::<H>::work(&mut queues[0], h);
        let (key, mut came) = (Toeplitz::new(&MICROSOFT), [0; 2]);
        for (v4, udp, source) in (0..64).map(|i| (i & 1 == 0, i & 2 == 0, i / 4)) {
            let mut f = ip(MAC, v4, udp, 100);
            f[if v4 { 29 } else { 37 }] = source;
            let l = Layers::of(&f).unwrap();
            let hash = key.of(&f, &l, l.transport == Some(Transport::Tcp));
            let queue = (hash & 1) as usize;
            a.inject(h, &f);
            a.wait(h, Span::from_us(500));
            run(h, a, &mut queues, &mut up);
            let got = up[queue].take_received(h);
            assert_eq!(got.len(), 1, "v4 {v4}, udp {udp}, source {source}");
            assert_eq!(got[0].bytes, f);
            assert!(up[1 - queue].received.is_empty());
            came[queue] += 1;
        }
        assert!(came[0] > 16 && came[1] > 16, "{came:?}");
        // A frame that has no addresses to hash comes to the first.
        let f = plain(MAC, 300);
        a.inject(h, &f);
        a.wait(h, Span::from_us(500));
        run(h, a, &mut queues, &mut up);
        assert_eq!(up[0].take_received(h).len(), 1);
        for (i, queue) in [0, 1, 1, 0, 1].into_iter().enumerate() {
            let f = plain(PEER, 100 + i);
            let p = packets::packet(h, 42, &f, &[], 0, OffloadRequest::NONE);
            assert_eq!(queues[queue].transmit(h, p, false), Tx::Ok);
            let mut wire = a.collect(h);
            for _ in 0..20 {
                a.wait(h, Span::from_us(200));
                run(h, a, &mut queues, &mut up);
                wire = wire.or_else(|| a.collect(h));
                while queues[queue].poll(h, 64, &mut up[queue]) == Poll::Again {}
            }
            assert_eq!(wire, Some(f));
            assert_eq!(up[queue].release_sent(h), (1, 1), "queue {queue} has its buffer back");
        }
        let [first, second] = queues;
        assert_eq!((first.stats().tx_queued, second.stats().tx_queued), (2, 3));
        second.close(h);
        let s = first.close(h);
        assert_eq!((s.tx_queued, s.rx_packets), (5, 65));
    }
}
