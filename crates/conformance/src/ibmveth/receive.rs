//! Reception, interrupts, and changes in between.

use super::harness::{Harness, small};
use super::{Backend, Capability};
use crate::frames::{PEER, plain};
use doorbell_drivers::ibmveth::{Config, Ibmveth};
use doorbell_drivers::{Driver, Filter};
use doorbell_hal::Hypervisor;

/// Frames of all lengths arrive as they were.
pub fn receive<H: Hypervisor, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, &small(c));
    let lengths = [60, 61, 127, 128, 129, 504, 505, 1514];
    for len in lengths {
        let frame = plain(c.mac, len);
        assert_eq!(b.receive(&frame), [frame], "{len} bytes");
    }
    let broadcast = plain([0xff; 6], 100);
    assert_eq!(b.receive(&broadcast), [broadcast]);
    let s = b.close();
    assert_eq!((s.rx_packets, s.rx_bytes), (9, lengths.iter().sum::<usize>() as u64 + 100));
    assert_eq!((s.rx_bad_correlator, s.rx_malformed, s.rx_invalid_buffer), (0, 0, 0));
}

/// The queue wraps, and its toggle turns: several laps, in steps that do not divide
/// them.
pub fn toggle<H: Hypervisor, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let c = small(c);
    let mut b = Harness::open(h, a, &c);
    let laps = 4 * c.slots() as usize;
    let mut n = 0;
    while n < laps {
        let burst: Vec<_> = (0..7).map(|i| plain(c.mac, 60 + (n + i) % 1400)).collect();
        for f in &burst {
            b.a.inject(b.h, f);
        }
        b.run();
        assert_eq!(b.came(), burst, "after {n}");
        n += 7;
    }
    assert_eq!(b.close().rx_packets, n as u64);
}

/// A frame takes the smallest buffer that holds it, and eight bytes more.
pub fn pools_by_size<H: Hypervisor, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, &Config { rx_copybreak: 0, ..small(c) });
    assert_eq!(b.nic.lent(), [16, 16, 0, 0, 16]);
    for (len, pool) in [(60, 0), (504, 0), (505, 1), (2040, 1), (2041, 4), (9000, 4)] {
        let frame = plain(c.mac, len);
        b.a.inject(b.h, &frame);
        b.poll();
        let (p, _) = &b.up.received[0];
        // Buffers are of their pool's size.
        assert_eq!(p.head.buf.len(), c.pools[pool].size, "{len} bytes");
        assert_eq!(b.came(), [frame]);
    }
    b.run();
    b.close();
}

/// A small frame is copied, and its buffer stays: the pools need not be filled for it.
pub fn copybreak<H: Hypervisor, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, &small(c));
    for len in [60, 127, 128, 1000] {
        let frame = plain(c.mac, len);
        assert_eq!(b.receive(&frame), [frame]);
    }
    assert_eq!(b.nic.stats().rx_copied, 2);
    // Copied or not: a buffer that was used once is used again with the same correlator.
    for _ in 0..60 {
        let frame = plain(c.mac, 90);
        assert_eq!(b.receive(&frame), [frame]);
    }
    let s = b.close();
    assert_eq!((s.rx_copied, s.rx_bad_correlator), (62, 0));
}

/// A frame that fits no buffer is lost, and the hypervisor counts it at the end of its page.
pub fn no_buffer<H: Hypervisor, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut c = Config { mtu: 400, ..small(c) };
    for p in &mut c.pools[1..] {
        p.active = false;
    }
    let mut b = Harness::open(h, a, &c);
    assert_eq!(b.receive(&plain(c.mac, 505)), Vec::<Vec<u8>>::new());
    b.poll();
    let counted = b.nic.stats().rx_no_buffer;
    if !b.a.has("no_buffer", Capability::Loses) {
        // What is kept is offered again, and counted again.
        assert!(counted >= 1);
        b.close();
        return;
    }
    assert_eq!(counted, 1);
    let fits = plain(c.mac, 504);
    assert_eq!(b.receive(&fits), std::slice::from_ref(&fits));
    // The count goes on when the page is a new one.
    b.nic.set_mtu(b.h, 402).unwrap();
    assert_eq!(b.receive(&plain(c.mac, 600)), Vec::<Vec<u8>>::new());
    b.poll();
    assert_eq!(b.close().rx_no_buffer, 2);
}

/// The buffers that Linux lends by default; where they are more than the adapter takes,
/// that is all.
pub fn default_pools<H: Hypervisor, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, c);
    let failures = b.nic.stats().replenish_add_buff_failure;
    let lent: u32 = b.nic.lent().iter().sum();
    assert_eq!(u64::from(lent), b.nic.stats().replenish_add_buff_success);
    if b.a.has("default_pools", Capability::BufferListEnds) {
        // A page has 509 places; a call for eight that does not find them all lends none.
        assert!(failures > 0 && (502..=509).contains(&lent), "{lent} lent, {failures} refused");
    } else {
        assert_eq!((lent, failures), (1024, 0));
    }
    let frame = plain(c.mac, 200);
    for _ in 0..40 {
        assert_eq!(b.receive(&frame), std::slice::from_ref(&frame));
    }
    b.close();
}

/// Interrupts are off from the handler to the end of the poll; what comes meanwhile is
/// found by the second look, or interrupts.
pub fn interrupts<H: Hypervisor, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, &small(c));
    let frame = plain(c.mac, 300);
    assert_eq!(b.run(), 0, "nothing came");
    b.a.inject(b.h, &frame);
    assert!(b.a.interrupt(b.h));
    let vector = c.vector;
    assert_eq!(b.nic.interrupt(b.h, vector + 1), doorbell_drivers::Irq::None);
    assert_eq!(b.nic.interrupt(b.h, vector), doorbell_drivers::Irq::Poll);
    b.a.inject(b.h, &frame);
    assert!(!b.a.interrupt(b.h), "they are off");
    assert_eq!(b.nic.interrupt(b.h, vector), doorbell_drivers::Irq::Handled);
    b.poll();
    assert_eq!(b.came().len(), 2);
    b.a.inject(b.h, &frame);
    assert!(b.a.interrupt(b.h), "and on again");
    b.poll();
    assert_eq!(b.came().len(), 1);
    b.close();
}

/// A longer MTU activates what holds it, through a reopening.
pub fn mtu<H: Hypervisor, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, &small(c));
    b.nic.set_mtu(b.h, 9000).unwrap();
    assert_eq!(b.nic.lent(), [16, 16, 16, 0, 16]);
    let long = plain(c.mac, 9014);
    assert_eq!(b.receive(&long), std::slice::from_ref(&long));
    let back = plain(PEER, 9014);
    assert_eq!(b.send(&back, &[], 0, doorbell_packet::OffloadRequest::NONE), [back]);
    assert!(b.nic.set_mtu(b.h, 65_515).is_err() && b.nic.set_mtu(b.h, 67).is_err());
    assert_eq!(b.nic.config().mtu, 9000);
    assert_eq!(b.close().reopened, 1);
}

/// Opened and closed many times, with frames in the queue and buffers lent.
pub fn reopen<H: Hypervisor, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let c = small(c);
    for i in 0..5 {
        let mut b = Harness::open(h, a, &c);
        let frame = plain(c.mac, 100 + i);
        assert_eq!(b.receive(&frame), std::slice::from_ref(&frame));
        // This one is never looked at.
        b.a.inject(b.h, &frame);
        b.close();
        a.interrupt(h);
    }
    let nic = Ibmveth::open(h, &c).unwrap();
    nic.close(h);
}

/// Another address, and groups.
pub fn mac_and_filter<H: Hypervisor, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, &small(c));
    let group = [0x01, 0x00, 0x5e, 0, 0, 7];
    b.nic.set_filter(b.h, &Filter { multicast: vec![group], ..Filter::default() }).unwrap();
    let frame = plain(group, 80);
    assert_eq!(b.receive(&frame), [frame]);
    let other = [0x02, 0, 0, 0, 0, 0x55];
    b.nic.set_mac(b.h, other).unwrap();
    let frame = plain(other, 80);
    assert_eq!(b.receive(&frame), [frame]);
    if b.a.has("mac_and_filter", Capability::Filter) {
        assert_eq!(b.receive(&plain(c.mac, 80)), Vec::<Vec<u8>>::new());
        assert_eq!(b.receive(&plain([0x01, 0, 0x5e, 0, 0, 8], 80)), Vec::<Vec<u8>>::new());
    }
    b.nic.set_filter(b.h, &Filter { all_multicast: true, ..Filter::default() }).unwrap();
    let frame = plain([0x01, 0, 0x5e, 0, 0, 8], 80);
    assert_eq!(b.receive(&frame), [frame]);
    b.close();
}
