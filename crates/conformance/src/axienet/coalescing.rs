//! Interrupts of the channels: threshold, delay, enables, and a controller on top.

use super::Backend;
use super::harness::Harness;
use crate::frames::{PEER, plain};
use doorbell_drivers::axienet::{Adaptive, Coalesce, Config};
use doorbell_drivers::{Driver, Irq, Poll};
use doorbell_hal::Host;
use doorbell_layout::axienet::{MM2S, S2MM, cr, dma, line, sr};
use doorbell_packet::OffloadRequest;

/// Long enough, in units, never to end in a case that does not wait for it.
const LONG: u32 = 255;

fn coalesced(c: &Config, rx: (u32, u32), tx: (u32, u32)) -> Config {
    // At this clock a unit of the register is a microsecond of the setting.
    let coalesce = Coalesce {
        rx_frames: rx.0,
        rx_usecs: rx.1,
        tx_frames: tx.0,
        tx_usecs: tx.1,
        adaptive_rx: Adaptive::Off,
    };
    Config { clock_hz: 125_000_000, coalesce, ..*c }
}

/// The interrupt of reception comes with every N-th packet; the count begins anew when
/// it comes, and when CR is written.
pub fn threshold<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    for n in [2, 3, 7] {
        let c = coalesced(c, (n, LONG), (1, 0));
        let mut b = Harness::open_as_is(h, a, &c);
        let mac = b.nic.mac();
        let left = |b: &mut Harness<'_, H, A>| b.dma(S2MM, dma::SR) >> sr::THRESHOLD_SHIFT & 0xff;
        for i in 1..=3 * n {
            b.a.inject(b.h, &plain(mac, 60));
            assert_eq!(b.line(line::RX), i % n == 0, "packet {i} of {n} at a time");
            if i % n == 0 {
                assert_eq!(b.dma(S2MM, dma::SR) & sr::IRQ_ALL, sr::IOC_IRQ);
                assert_eq!(b.nic.interrupt(b.h, line::RX), Irq::Poll);
                assert!(!b.line(line::RX), "writing SR lowers it");
                b.poll();
                assert_eq!(b.came().len(), n as usize);
            } else {
                assert_eq!(left(&mut b), n - i % n, "SR says how many are left");
            }
        }
        // All but one; the same setting again is a new count.
        for _ in 1..n {
            b.a.inject(b.h, &plain(mac, 60));
        }
        b.nic.set_coalesce(b.h, &c.coalesce).unwrap();
        assert_eq!(left(&mut b), n);
        for i in 1..=n {
            assert!(!b.line(line::RX), "after {i}");
            b.a.inject(b.h, &plain(mac, 60));
        }
        assert!(b.line(line::RX));
        b.run();
        assert_eq!(b.came().len(), 2 * n as usize - 1);
        assert_eq!(b.close().rx_irqs, 4);
    }
}

/// The threshold counts packets, not their descriptors.
pub fn threshold_counts_packets<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open_as_is(h, a, &coalesced(c, (1, 0), (3, LONG)));
    for i in 1..=6 {
        b.send(&plain(PEER, 300), &[60, 90, 120, 150, 180, 210, 240], OffloadRequest::NONE);
        assert!(b.a.collect(b.h).is_some());
        assert_eq!(b.line(line::TX), i % 3 == 0, "packet {i}, of 8 descriptors each");
        if i % 3 == 0 {
            b.run();
            assert_eq!(b.sent(), (24, 3));
        }
    }
    assert_eq!(b.close().tx_irqs, 2);
}

/// Below the threshold the interrupt comes when after a packet nothing has come for the
/// delay; each packet starts it again. Without a packet, or with a delay of 0, none comes.
pub fn delay<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    const DELAY: u32 = 200;
    // The longest delivery of a frame to memory, in units.
    const SLACK: u64 = 45;
    let mut b = Harness::open_as_is(h, a, &coalesced(c, (LONG, DELAY), (LONG, DELAY)));
    let mac = b.nic.mac();
    let wait = |b: &mut Harness<'_, H, A>, units: u64| {
        let span = b.units(units);
        b.a.wait(b.h, span);
    };
    let inject = |b: &mut Harness<'_, H, A>| {
        b.a.inject(b.h, &plain(mac, 60));
    };
    let delay = u64::from(DELAY);
    wait(&mut b, 5 * delay);
    assert!(!b.line(line::RX), "it does not run without a packet");
    for gap in [None, Some(delay / 2), Some(delay - SLACK - 5)] {
        inject(&mut b);
        if let Some(gap) = gap {
            for _ in 0..4 {
                wait(&mut b, gap);
                assert!(!b.line(line::RX), "each packet postpones it");
                inject(&mut b);
            }
        }
        wait(&mut b, delay - SLACK - 5);
        assert!(!b.line(line::RX), "not before the delay is over");
        wait(&mut b, SLACK + 10);
        assert!(b.line(line::RX), "then it comes");
        assert_eq!(b.dma(S2MM, dma::SR) & sr::IRQ_ALL, sr::DLY_IRQ);
        b.run();
        assert_eq!(b.came().len(), if gap.is_some() { 5 } else { 1 });
        wait(&mut b, 3 * delay);
        assert!(!b.line(line::RX), "once");
    }
    // The transmit channel has its own.
    b.send(&plain(PEER, 60), &[], OffloadRequest::NONE);
    assert!(b.a.collect(b.h).is_some());
    assert!(!b.line(line::TX));
    wait(&mut b, delay + SLACK);
    assert!(b.line(line::TX) && !b.line(line::RX));
    b.run();
    assert_eq!(b.sent(), (1, 1));
    // A delay of 0 is none.
    let word = b.dma(S2MM, dma::CR);
    b.set_dma(S2MM, dma::CR, word & !cr::DELAY);
    inject(&mut b);
    wait(&mut b, 10 * delay);
    assert!(!b.line(line::RX));
    b.poll();
    assert_eq!(b.came().len(), 1);
    let s = b.close();
    assert_eq!((s.rx_irqs, s.tx_irqs), (3, 1));
}

/// A line is the causes in SR that CR enables: they latch while they are not enabled, and
/// interrupt when the poll's end enables them.
pub fn interrupt_levels<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, c);
    let mac = b.nic.mac();
    for n in [line::TX, line::RX, line::MAC] {
        assert!(!b.line(n));
        assert_eq!(b.nic.interrupt(b.h, n), Irq::None, "another device's");
    }
    b.a.inject(b.h, &plain(mac, 100));
    assert!(b.line(line::RX) && !b.line(line::TX));
    assert_eq!(b.nic.interrupt(b.h, line::RX), Irq::Poll);
    assert!(!b.line(line::RX));
    b.a.inject(b.h, &plain(mac, 101));
    assert!(!b.line(line::RX), "not enabled until the poll is done");
    assert_ne!(b.dma(S2MM, dma::SR) & sr::IOC_IRQ, 0, "but latched");
    assert_eq!(b.nic.poll(b.h, 1, &mut b.up), Poll::Again);
    assert!(!b.line(line::RX));
    b.poll();
    assert_eq!(b.came().len(), 2);
    assert!(b.line(line::RX), "it interrupts at once, and finds nothing");
    b.run();
    assert!(!b.line(line::RX));
    // The other channel is apart.
    b.send(&plain(PEER, 100), &[], OffloadRequest::NONE);
    assert!(b.a.collect(b.h).is_some());
    assert!(b.line(line::TX) && !b.line(line::RX));
    assert_eq!(b.dma(MM2S, dma::SR) & sr::IRQ_ALL, sr::IOC_IRQ);
    b.run();
    assert_eq!(b.sent(), (1, 1));
    b.close();
}

/// net_dim on a busy link climbs its profiles, and the device follows: the interrupts a
/// packet fall.
pub fn adaptive<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let coalesce = Coalesce { rx_usecs: 100, ..Coalesce::LINUX };
    let mut b =
        Harness::open_as_is(h, a, &Config { clock_hz: 125_000_000, coalesce, rx_ring: 64, ..*c });
    let mac = b.nic.mac();
    assert_eq!(b.nic.coalesce().rx_frames, 4);
    let (mut packets, mut counts) = (0u64, vec![4]);
    // An epoch is 64 interrupts; the second has to be better than nothing.
    while b.nic.stats().moderations < 2 {
        assert!(packets < 2_000, "{counts:?}");
        b.a.inject(b.h, &plain(mac, 60));
        packets += 1;
        if b.line(line::RX) {
            let gap = b.units(20);
            b.a.wait(b.h, gap);
            b.run();
            b.came();
            let count = b.nic.coalesce().rx_frames;
            assert_eq!(b.dma(S2MM, dma::CR) >> cr::THRESHOLD_SHIFT & 0xff, count);
            if counts.last() != Some(&count) {
                counts.push(count);
            }
        }
    }
    assert!(
        counts.iter().all(|n| [1, 4, 16, 64, 255].contains(n)) && counts.len() > 1,
        "{counts:?}"
    );
    assert_eq!(b.dma(S2MM, dma::CR) >> cr::DELAY_SHIFT, 100, "the delay is the user's");
    // What is left below the threshold is for the delay.
    let rest = b.units(110);
    b.a.wait(b.h, rest);
    b.run();
    b.came();
    let s = b.close();
    assert_eq!(s.rx_packets, packets);
    assert!(s.rx_irqs >= 64);
}
