//! Receiving: buffers in arrays, frames out of them, and interrupts.

use super::harness::{Harness, Model, small};
use crate::frames::{ip, tagged};
use doorbell_bus::Bus as _;
use doorbell_bus::fault::{Faults, Kind, Rule, When};
use doorbell_devices::vnic::{Config, Serial, Server};
use doorbell_drivers::ibmvnic::{Config as Driver, Ibmvnic, Replenish};
use doorbell_hal::{DropReason, RxVerdict, Span};
use doorbell_layout::ibmvnic::{hcall, status, vioctl};
use doorbell_packet::headers::Layers;

const PVM: Config = Config::POWERVM;

/// Frames of all lengths, wherever the server puts them in the buffer.
pub fn frames_come_up<M: Model>(make: impl Fn(Config) -> M) {
    for rx_offset in [0, 2, 127] {
        let server = Server { rx_offset, ..Server::POWERVM };
        let mut b = Harness::up(&make, Config { servers: [server; 2], ..PVM }, &small());
        let to = b.nic.config().mac;
        for payload in [0, 1, 63, 64, 65, 500, 1400, 1460] {
            let frame = ip(to, true, false, payload);
            let came = b.receive(&frame);
            assert_eq!(came.len(), 1);
            assert!(came[0].bytes == frame && came[0].verified);
        }
        assert_eq!(b.inject(&ip(to, true, false, 1475)), RxVerdict::Dropped(DropReason::Malformed));
        b.close();
    }
}

/// A frame is vouched for with both flags, never with one.
pub fn verified_takes_both_flags<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(&make, PVM, &small());
    let to = b.nic.config().mac;
    let good = ip(to, true, false, 100);
    let mut bad_transport = good.clone();
    bad_transport[80] ^= 1;
    let mut bad_ip = good.clone();
    bad_ip[24] ^= 1;
    for (f, verified) in
        [(good, true), (bad_transport, false), (bad_ip, false), (ip(to, false, true, 9), true)]
    {
        assert_eq!(b.receive(&f)[0].verified, verified);
    }
    b.close();
    let mut b = Harness::up(&make, PVM, &Driver { checksum: false, ..small() });
    assert!(!b.receive(&ip(to, true, false, 100))[0].verified, "not asked for");
    b.close();
}

/// A tag that the server took out comes beside the packet.
pub fn a_stripped_tag_comes_beside<M: Model>(make: impl Fn(Config) -> M) {
    for vlan_strip in [true, false] {
        let server = Server { vlan_strip, ..Server::POWERVM };
        let mut b = Harness::up(&make, Config { servers: [server; 2], ..PVM }, &small());
        let frame = ip(b.nic.config().mac, true, false, 100);
        let came = b.receive(&tagged(&frame, 0x6004));
        if vlan_strip {
            assert_eq!((&came[0].bytes, came[0].todo.vlan), (&frame, Some(0x6004)));
        } else {
            assert_eq!((&came[0].bytes, came[0].todo.vlan), (&tagged(&frame, 0x6004), None));
        }
        b.close();
    }
}

/// The arrays of buffers that `frames` received one after another cost a pool of `rx_entries`, by
/// `replenish`.
fn arrays<M: Model>(
    make: impl Fn(Config) -> M,
    replenish: Replenish,
    rx_entries: u64,
    frames: usize,
) -> Vec<u64> {
    let mut b = Harness::up(make, PVM, &Driver { replenish, rx_entries, ..small() });
    assert_eq!(u64::from(b.nic.lent()), rx_entries, "opening fills the pool");
    b.spy().calls.clear();
    let frame = ip(b.nic.config().mac, true, false, 100);
    for _ in 0..frames {
        assert_eq!(b.receive(&frame).len(), 1);
    }
    let arrays: Vec<u64> =
        b.spy().called(hcall::SEND_SUB_CRQ_INDIRECT).iter().map(|a| a[3]).collect();
    let q = b.nic.totals();
    assert_eq!(
        (q.rx_add_arrays - rx_entries.div_ceil(16), q.rx_added - rx_entries),
        (arrays.len() as u64, arrays.iter().sum())
    );
    b.close();
    arrays
}

/// Nothing until less than half of the pool is out, and then all that is missing.
pub fn a_pool_is_filled_below_half<M: Model>(make: impl Fn(Config) -> M) {
    let arrays = |entries, frames| arrays(&make, Replenish::BelowHalf, entries, frames);
    assert_eq!(arrays(64, 32), [0; 0], "half is not below half");
    assert_eq!(arrays(64, 33), [16, 16, 1]);
    assert_eq!(arrays(64, 65), [16, 16, 1], "the next time after as many");
    assert_eq!(arrays(64, 66), [16, 16, 1, 16, 16, 1]);
    assert_eq!(arrays(20, 10), [0; 0]);
    assert_eq!(arrays(20, 11), [11]);
}

/// The older rule of Linux gives at the end of each poll that had budget left.
pub fn the_older_rule_fills_at_each_poll<M: Model>(make: impl Fn(Config) -> M) {
    assert_eq!(arrays(&make, Replenish::EachPoll, 64, 40), [1; 40]);
    // Two polls that use their budget up, and one that does not.
    let mut b = Harness::up(&make, PVM, &Driver { replenish: Replenish::EachPoll, ..small() });
    let frame = ip(b.nic.config().mac, true, false, 100);
    (0..9).for_each(|_| assert_eq!(b.inject(&frame), RxVerdict::Yes));
    b.h.delay(Span::from_us(50));
    b.spy().calls.clear();
    let given: Vec<u32> = (0..3)
        .map(|_| {
            b.nic.poll_on(&mut b.h, 0, 4, &mut b.up);
            b.nic.lent()
        })
        .collect();
    assert_eq!(given, [60, 56, 64]);
    b.close();
}

/// The rule of whole arrays makes one call for sixteen frames; a rest is given only below half.
pub fn whole_arrays_of_sixteen<M: Model>(make: impl Fn(Config) -> M) {
    let arrays = |entries, frames| arrays(&make, Replenish::WholeArrays, entries, frames);
    assert_eq!(arrays(64, 160), [16; 10], "one call for sixteen frames");
    assert_eq!(arrays(20, 10), [0; 0]);
    assert_eq!(arrays(20, 11), [11], "less than half are out");
}

/// A refused array stays with the driver, which gives it again.
pub fn a_refused_array_is_given_again<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &small());
    b.spy().refuse.push((hcall::SEND_SUB_CRQ_INDIRECT, None, status::HARDWARE, 2));
    let frame = ip(b.nic.config().mac, true, false, 100);
    for _ in 0..40 {
        assert_eq!(b.receive(&frame).len(), 1);
    }
    // Refused at the 33rd and 34th frame, given at the 35th.
    let q = b.nic.totals();
    assert_eq!((q.rx_add_failed, q.rx_add_arrays, b.nic.lent()), (2, 4 + 3, 64 - 5));
    b.close();
}

/// A queue that opened without buffers gets them from deferred work or an alarm: without any, no
/// completion and so no poll would come.
pub fn a_queue_that_opened_without_buffers_gets_some<M: Model>(make: impl Fn(Config) -> M) {
    use doorbell_drivers::{Alarm, Driver as _, Irq};
    let refusing = |times| {
        let mut h = make(PVM);
        let add = hcall::SEND_SUB_CRQ_INDIRECT;
        h.system().device.0.refuse.push((add, None, status::RESOURCE, times));
        h
    };
    // When it opens, and at the poll that finds the link up.
    let mut b = Harness::new(refusing(2), &small());
    assert_eq!((b.nic.totals().rx_add_failed, b.nic.lent()), (2, 64));
    let frame = ip(b.nic.config().mac, true, false, 100);
    assert_eq!(b.receive(&frame).len(), 1);
    b.close();
    let mut h = refusing(2);
    let two = Driver { queues: 2, ..small() };
    let mut nic = Ibmvnic::open(&mut h, &two).unwrap();
    assert_eq!(nic.lent(), 0);
    assert_eq!((nic.alarm(&mut h, Alarm::Tick), nic.lent()), (Irq::None, 128));
    nic.close(&mut h);
}

/// Without buffers frames are lost, and counted by the server.
pub fn without_buffers_frames_are_lost<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &small());
    let frame = ip(b.nic.config().mac, true, false, 100);
    let mut lost = 0;
    for _ in 0..70 {
        match b.inject(&frame) {
            RxVerdict::Yes => {}
            RxVerdict::Dropped(DropReason::NoBuffer) => lost += 1,
            t => panic!("{t:?}"),
        }
    }
    assert_eq!(lost, 6);
    b.settle();
    assert_eq!(b.came().len(), 64);
    assert_eq!(b.receive(&frame).len(), 1, "and then again");
    b.close();
}

/// A handler switches its own interrupt off, the poll on; what comes between the last look and that
/// is found by looking again.
pub fn interrupts<M: Model>(make: impl Fn(Config) -> M) {
    use doorbell_drivers::Driver as _;
    let mut b = Harness::up(make, PVM, &small());
    let v = b.nic.vectors(0);
    assert_eq!(v.len(), 2);
    b.spy().calls.clear();
    let frame = ip(b.nic.config().mac, true, false, 100);
    b.inject(&frame);
    b.h.delay(Span::from_us(5));
    assert_eq!(b.nic.interrupt(&mut b.h, v[1]), doorbell_drivers::Irq::Poll);
    let vioctl = |b: &mut Harness<M>| -> Vec<(u64, u64)> {
        b.spy().called(hcall::VIOCTL).iter().map(|a| (a[1], a[2])).collect()
    };
    let off = (vioctl::DISABLE_VIO_INTERRUPT, u64::from(v[1]));
    let on = (vioctl::ENABLE_VIO_INTERRUPT, u64::from(v[1]));
    assert_eq!(vioctl(&mut b), [off]);
    b.poll();
    assert_eq!(vioctl(&mut b), [off, on]);
    assert_eq!(b.came().len(), 1);
    // A frame that lands while the interrupt is being switched on: too late for the poll.
    b.inject(&frame);
    b.h.delay(Span::from_us(5));
    assert_eq!(b.nic.interrupt(&mut b.h, v[1]), doorbell_drivers::Irq::Poll);
    b.inject(&frame);
    b.poll();
    b.settle();
    assert_eq!(b.came().len(), 2);
    assert_eq!(b.nic.interrupt(&mut b.h, 60), doorbell_drivers::Irq::None);
    assert_eq!(b.nic.stats().stray_irqs, 1);
    b.run();
    b.close();
}

/// A frame that lands between the poll's last look and the interrupt's being on is found by that
/// poll, which looks again and switches the interrupt off once more.
pub fn what_lands_before_the_interrupt_is_on_is_found<M: Model>(make: impl Fn(Config) -> M) {
    use doorbell_drivers::Driver as _;
    let mut b = Harness::up(make, PVM, &small());
    let v = b.nic.vectors(0)[1];
    let frame = ip(b.nic.config().mac, true, false, 100);
    b.inject(&frame);
    b.h.delay(Span::from_us(5));
    assert_eq!(b.nic.interrupt(&mut b.h, v), doorbell_drivers::Irq::Poll);
    b.spy().calls.clear();
    b.spy().frame_at = Some((hcall::VIOCTL, v.into(), frame.clone()));
    b.poll();
    let came = b.came();
    assert!(came.len() == 2 && came.iter().all(|f| f.bytes == frame), "{}", came.len());
    let what: Vec<u64> = b.spy().called(hcall::VIOCTL).iter().map(|a| a[1]).collect();
    use vioctl::{DISABLE_VIO_INTERRUPT as OFF, ENABLE_VIO_INTERRUPT as ON};
    assert_eq!((what, b.nic.totals().poll_rechecks), (vec![ON, OFF, ON], 1));
    b.settle();
    b.close();
}

/// A buffer that comes back with a return code has no frame in it, and may be given again.
pub fn a_buffer_with_a_code_has_no_frame<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &small());
    let frame = ip(b.nic.config().mac, true, false, 100);
    let rules = vec![Rule { kind: Kind::PoisonedCompletion, when: When::Every(2) }];
    b.h.system().bus.platform_mut().inject(Faults::new(rules, 0));
    for n in 1..=200 {
        assert_eq!(b.receive(&frame).len(), n % 2, "{n}");
    }
    b.h.system().bus.platform_mut().end_faults();
    let q = b.nic.totals();
    assert_eq!(
        (q.rx_errors, q.rx_packets, q.rx_malformed, b.nic.lent()),
        (100, 100, 0, 64 - 200 % 33)
    );
    b.close();
}

/// Frames that land while earlier ones are handed up: byte 0 is looked at before the rest.
pub fn receive_during_a_poll<M: Model>(make: impl Fn(Config) -> M) {
    let serial = Serial { receive: Span::from_ns(900), ..Serial::FREE };
    let mut b = Harness::up(make, Config { serial, ..PVM }, &small());
    let to = b.nic.config().mac;
    for round in 0..100usize {
        for i in 0..12 {
            b.inject(&ip(to, true, false, 100 + i * 50 + round));
        }
        // The poll begins when the first is there.
        b.h.delay(Span::from_ns(950));
        b.run();
        b.settle();
        let came = b.came();
        assert_eq!(came.len(), 12, "landed during a poll");
        for (i, f) in came.iter().enumerate() {
            let frame = ip(to, true, false, 100 + i * 50 + round);
            assert!(f.verified && f.bytes == frame, "landed during a poll");
        }
    }
    b.close();
}

/// One flow stays on one queue, and several queues share the flows.
pub fn queues_share_the_flows<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &Driver { queues: 4, ..small() });
    let to = b.nic.config().mac;
    for port in 0..64u8 {
        let mut f = ip(to, true, false, 100);
        let l4 = usize::from(Layers::of(&f).unwrap().l4);
        f[l4 + 1] = port;
        for _ in 0..2 {
            b.receive(&f);
        }
    }
    let each: Vec<u64> = b.nic.queue_stats().iter().map(|q| q.rx_packets).collect();
    assert_eq!(each.iter().sum::<u64>(), 128);
    assert!(each.iter().all(|n| *n > 8 && n.is_multiple_of(2)), "{each:?}");
    b.close();
}
