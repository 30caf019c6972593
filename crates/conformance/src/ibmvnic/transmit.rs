//! Sending: pools, arrays, stop and wake, and what a refused call means.

use super::harness::{Harness, Model, small};
use super::session::unmaps;
use crate::frames::{ip, large, partial, tagged};
use doorbell_devices::vnic::{Config, Server};
use doorbell_drivers::ibmvnic::{Config as Driver, Direct};
use doorbell_drivers::{Alarm, Driver as _, Irq, Tx};
use doorbell_hal::{Iova, Port, Span};
use doorbell_layout::ibmvnic::{TSO_POOL, TxComp, first, hcall, status, tx};
use doorbell_packet::OffloadRequest;
use doorbell_packet::headers::{Check, verify};
use doorbell_packet::segment::Segments;
use zerocopy::byteorder::big_endian::U32;

const PVM: Config = Config::POWERVM;
const TO: [u8; 6] = [2; 6];
const RULES: [Direct; 5] = [
    Direct::Never,
    Direct::IgnoreHeaders,
    Direct::SoftwareChecksum,
    Direct::Inspect,
    Direct::Adaptive,
];

/// Every kind of frame arrives as it was, whatever its pieces, with its checksum made by the server
/// or here.
pub fn frames_arrive_intact<M: Model>(make: impl Fn(Config) -> M) {
    for direct in RULES {
        let mut b = Harness::up(&make, PVM, &Driver { direct, ..small() });
        for (v4, udp) in [(true, false), (true, true), (false, false), (false, true)] {
            for payload in [0, 1, 77, 1400] {
                let whole = ip(TO, v4, udp, payload);
                let (bytes, todo) = partial(&whole);
                for (bytes, todo) in [(&bytes, todo), (&whole, OffloadRequest::NONE)] {
                    for cuts in [&[][..], &[90], &[90, 91, 93]] {
                        let cuts = if whole.len() > 100 { cuts } else { &[] };
                        let p = b.packet(bytes, cuts, todo, 3);
                        assert_eq!(b.nic.transmit(&mut b.h, p, false), Tx::Ok);
                        b.settle();
                        let mut expected = whole.clone();
                        expected.resize(whole.len().max(60), 0);
                        assert_eq!(b.wire(), [expected], "{direct:?} {v4} {udp} {payload}");
                    }
                }
            }
        }
        assert_eq!(b.nic.totals().tx_csum_software, 0);
        b.close();
    }
}

/// A frame shorter than the server's shortest is padded with zeros, not with what was in the slot
/// before.
pub fn short_frames_are_padded<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &small());
    for _ in 0..64 {
        b.send(&ip(TO, true, false, 1400), OffloadRequest::NONE);
    }
    let short = [&TO[..], &[2, 0, 0, 0, 0, 1, 0x88, 0xb5, 1, 2, 3]].concat();
    let mut padded = short.clone();
    padded.resize(60, 0);
    assert_eq!(b.send(&short, OffloadRequest::NONE), [padded]);
    assert_eq!(b.nic.totals().tx_padded, 1);
    b.refused(&TO, OffloadRequest::NONE);
    b.close();
}

/// A tag is left to the server that inserts it, or inserted here; one in the frame is told.
pub fn tags<M: Model>(make: impl Fn(Config) -> M) {
    for vlan_insert in [true, false] {
        let server = Server { vlan_insert, ..Server::POWERVM };
        let mut b = Harness::up(&make, Config { servers: [server; 2], ..PVM }, &small());
        let whole = ip(TO, true, false, 200);
        let (bytes, todo) = partial(&whole);
        let expected = tagged(&whole, 0x2005);
        assert_eq!(
            b.send(&bytes, OffloadRequest { vlan: Some(0x2005), ..todo }),
            std::slice::from_ref(&expected)
        );
        let (bytes, todo) = partial(&expected);
        assert_eq!(b.send(&bytes, todo), [expected]);
        let arrays = b.spy().called(hcall::SEND_SUB_CRQ);
        let flags: Vec<u8> = arrays.iter().map(|a| (a[2] >> 24) as u8 & tx::VLAN_PRESENT).collect();
        assert_eq!(flags, if vlan_insert { [0, 1] } else { [1, 1] });
        b.close();
    }
}

/// A large send has a pool of its own, bit 31 of its correlator, and is reported once; what the
/// server cannot cut is cut here.
pub fn large_sends<M: Model>(make: impl Fn(Config) -> M) {
    for on in [true, false] {
        for v4 in [true, false] {
            let mut b = Harness::up(&make, PVM, &Driver { large_send: on, ..small() });
            let whole = ip(TO, v4, false, 30_000);
            let (bytes, todo) = large(&whole, 1400);
            let mut expected = vec![];
            let mut segments = Segments::new(&bytes, todo.gso.unwrap()).unwrap();
            let mut s = vec![0; 2000];
            while let Some(n) = segments.next_into(&mut s) {
                expected.push(s[..n].to_vec());
            }
            assert_eq!(b.send(&bytes, todo), expected);
            let q = b.nic.totals();
            assert_eq!((q.tx_large, q.tx_segmented), (u64::from(on), u64::from(!on)));
            assert_eq!(q.tx_completed, if on { 1 } else { 22 });
            assert_eq!(b.reclaim(), 1);
            b.close();
        }
    }
    // Longer than the server takes.
    let server = Server { max_large_tx: 20_000, ..Server::POWERVM };
    let mut b = Harness::up(&make, Config { servers: [server; 2], ..PVM }, &small());
    let (bytes, todo) = large(&ip(TO, true, false, 30_000), 1400);
    assert_eq!(b.send(&bytes, todo).len(), 22);
    assert_eq!(b.nic.totals().tx_segmented, 1);
    b.close();
}

/// A large send is left to the server if its bit and a length were offered. Longer than its slot it
/// is cut here, whatever the server would take.
pub fn large_sends_need_the_bit_a_length_and_a_slot<M: Model>(make: impl Fn(Config) -> M) {
    let pvm = Server { max_large_tx: 200_000, ..Server::POWERVM };
    let mut offloads = pvm.offloads;
    offloads[6..].fill(false);
    let mss = 8000;
    // 54 bytes of headers; a slot has 65 536.
    for (server, payload, left) in [
        (pvm, 65_482, true),
        (pvm, 65_483, false),
        (Server { offloads, ..pvm }, 30_000, false),
        (Server { max_large_tx: 0, ..pvm }, 30_000, false),
    ] {
        let mut b = Harness::up(
            &make,
            Config { servers: [server; 2], ..PVM },
            &Driver { mtu: 9000, ..small() },
        );
        assert_eq!(
            b.nic.negotiated().offloads[6..],
            [server.offloads[6] && server.max_large_tx > 0; 2]
        );
        // All slots of the pool, so that one that is overrun shows.
        for n in 0..4 {
            let (mut bytes, todo) = large(&ip(TO, true, false, payload), mss);
            bytes[60..].iter_mut().for_each(|x| *x ^= n);
            let mut expected = vec![];
            let mut segments = Segments::new(&bytes, todo.gso.unwrap()).unwrap();
            let mut s = vec![0; 9014];
            while let Some(n) = segments.next_into(&mut s) {
                expected.push(s[..n].to_vec());
            }
            assert!(b.send(&bytes, todo) == expected, "{payload} {n}");
        }
        let q = b.nic.totals();
        assert_eq!((q.tx_large, q.tx_segmented), if left { (4, 0) } else { (0, 4) }, "{payload}");
        b.close();
    }
}

/// Sixteen descriptors an array, never more; a packet that does not fit flushes first; nothing more
/// coming flushes.
pub fn arrays_of_sixteen<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(&make, PVM, &small());
    let whole = ip(TO, true, false, 100);
    let (bytes, todo) = partial(&whole);
    // Ethernet, IP and TCP: 54 bytes, in three descriptors; four with the packet's own.
    let before = b.spy().called(hcall::SEND_SUB_CRQ_INDIRECT).len();
    for i in 0..5 {
        assert_eq!(b.transmit(&bytes, todo, i < 4), Tx::Ok);
    }
    let counts = |b: &mut Harness<M>| -> Vec<u64> {
        b.spy().called(hcall::SEND_SUB_CRQ_INDIRECT)[before..].iter().map(|a| a[3]).collect()
    };
    assert_eq!(counts(&mut b), [16], "four packets fill it, and the fifth is alone again");
    assert_eq!(b.spy().called(hcall::SEND_SUB_CRQ).len(), 1);
    // Plain ones have one descriptor: 15 and then one of four does not fit.
    for i in 0..16 {
        let (bytes, todo) = if i < 15 { (&whole, OffloadRequest::NONE) } else { (&bytes, todo) };
        assert_eq!(b.transmit(bytes, todo, i < 15), Tx::Ok);
    }
    assert_eq!(counts(&mut b), [16, 15, 4]);
    b.settle();
    let frames = b.wire();
    assert_eq!(frames.len(), 21);
    assert!(frames.iter().all(|f| *f == whole));
    let q = b.nic.totals();
    assert_eq!((q.tx_batched, q.tx_direct, q.tx_flushes, q.tx_arrays), (20, 1, 4, 3));
    b.close();
}

/// A queue whose descriptors are all used stops, and what is batched goes; it wakes at half.
pub fn stop_and_wake<M: Model>(make: impl Fn(Config) -> M) {
    let slow = Config { wire_byte: Span::from_ns(100), ..PVM };
    let mut b = Harness::up(make, slow, &Driver { direct: Direct::Never, ..small() });
    let frame = ip(TO, true, false, 10);
    let mut n = 0;
    while !b.nic.stopped_on(0) {
        assert_eq!(b.transmit(&frame, OffloadRequest::NONE, true), Tx::Ok);
        n += 1;
    }
    assert_eq!(n, 64, "entries that were granted");
    assert_eq!(b.nic.totals().tx_packets, 64, "none is left in the array");
    match b.transmit(&frame, OffloadRequest::NONE, false) {
        Tx::Busy(p) => p.release(&mut b.h),
        t => panic!("{t:?}"),
    }
    while b.nic.stopped_on(0) {
        b.wait(Span::from_us(5));
    }
    let done = b.nic.totals().tx_completed;
    assert!((32..40).contains(&done), "{done}");
    b.settle();
    b.settle();
    let q = b.nic.totals();
    assert_eq!((q.tx_stopped, q.tx_wakes, q.tx_completed), (1, 1, 64));
    b.close();
}

/// A queue that stopped wakes when its batch is refused: nothing else would wake it.
pub fn a_refused_batch_wakes_its_queue<M: Model>(make: impl Fn(Config) -> M) {
    let mut b =
        Harness::up(make, PVM, &Driver { direct: Direct::Never, tx_entries: 16, ..small() });
    b.spy().refuse.push((hcall::SEND_SUB_CRQ_INDIRECT, None, status::RESOURCE, 1));
    let frame = ip(TO, true, false, 10);
    for _ in 0..16 {
        assert_eq!(b.transmit(&frame, OffloadRequest::NONE, true), Tx::Ok);
    }
    let q = b.nic.totals();
    assert_eq!((q.tx_refused, q.tx_stopped, q.tx_wakes), (16, 1, 1));
    assert!(!b.nic.stopped_on(0));
    assert_eq!(b.send(&frame, OffloadRequest::NONE).len(), 1);
    b.close();
}

/// The limit counts descriptors, those of headers too; a queue that stops sends what it has, also
/// when its array is not full.
pub fn a_queue_that_stops_flushes_and_counts_descriptors<M: Model>(make: impl Fn(Config) -> M) {
    let slow = Config { wire_byte: Span::from_ns(100), ..PVM };
    let mut b =
        Harness::up(make, slow, &Driver { direct: Direct::Never, tx_entries: 40, ..small() });
    let whole = ip(TO, true, false, 10);
    let mut sent = 0;
    for (f, todo, packets) in [
        (whole.clone(), OffloadRequest::NONE, 40),
        // Three more descriptors each, for 54 bytes of headers.
        (partial(&whole).0, partial(&whole).1, 10),
        (whole.clone(), OffloadRequest::NONE, 40),
    ] {
        let mut n = 0;
        while !b.nic.stopped_on(0) {
            assert_eq!(b.transmit(&f, todo, true), Tx::Ok);
            n += 1;
        }
        sent += n;
        assert_eq!(
            (n, b.nic.totals().tx_packets),
            (packets, sent),
            "all that was granted, and none is left behind"
        );
        b.wait(Span::from_ms(1));
        assert_eq!(b.nic.totals().tx_completed, sent);
    }
    b.close();
}

/// The order of completions is the server's: each goes by its correlator, and bit 31 of that says
/// which pool.
pub fn completions_come_in_any_order<M: Model>(make: impl Fn(Config) -> M) {
    // The server reports nothing; what it could have reported is written here.
    let hung = Config { wire_byte: Span::from_ms(10_000), ..PVM };
    let mut b = Harness::up(make, hung, &Driver { direct: Direct::Never, ..small() });
    let queue = Iova(b.spy().called(hcall::REG_SUB_CRQ)[0][1]);
    let small = ip(TO, true, false, 10);
    let big = large(&ip(TO, true, false, 3000), 1400);
    for cookie in 0..4 {
        let (bytes, todo) =
            if cookie < 3 { (&small, OffloadRequest::NONE) } else { (&big.0, big.1) };
        let p = b.packet(bytes, &[], todo, cookie);
        assert_eq!(b.nic.transmit(&mut b.h, p, false), Tx::Ok);
    }
    // Slots 0 to 2 of the one pool, slot 0 of the other.
    let report = |b: &mut Harness<M>, at: u64, all: &[u32]| {
        let mut m = TxComp { first: first::VALID, num_comps: all.len() as u8, ..TxComp::default() };
        all.iter().zip(&mut m.correlators).for_each(|(from, to)| *to = U32::new(*from));
        b.h.system()
            .outside(|_, bus, now| bus.ports[0].write(now, queue + at * 32, &m.bytes()))
            .unwrap();
        b.h.delay(Span::from_us(1));
        b.poll();
        std::mem::take(&mut b.up.sent)
            .into_iter()
            .map(|(buf, cookie, _)| (b.h.release(buf), cookie).1)
            .collect()
    };
    let first: Vec<u32> = report(&mut b, 0, &[2, TSO_POOL, 0]);
    assert_eq!(first, [2, 3, 0]);
    let rest: Vec<u32> = report(&mut b, 1, &[1]);
    assert_eq!((rest, b.nic.totals().tx_bad_correlator), (vec![1], 0));
    assert!(b.nic.is_drained());
    b.nic.close(&mut b.h);
}

/// Without a free slot a packet is dropped, and what is batched goes.
pub fn an_empty_pool_drops_and_flushes<M: Model>(make: impl Fn(Config) -> M) {
    let slow = Config { wire_byte: Span::from_ns(100), ..PVM };
    let mut b = Harness::up(make, slow, &Driver { tso_buffers: 2, ..small() });
    let (bytes, todo) = large(&ip(TO, true, false, 3000), 1400);
    for _ in 0..2 {
        assert_eq!(b.transmit(&bytes, todo, true), Tx::Ok);
    }
    assert_eq!(b.nic.totals().tx_flushes, 0);
    match b.transmit(&bytes, todo, true) {
        Tx::Dropped(p) => p.release(&mut b.h),
        t => panic!("{t:?}"),
    }
    let q = b.nic.totals();
    assert_eq!((q.tx_no_buffer, q.tx_dropped, q.tx_flushes, q.tx_packets), (1, 1, 1, 2));
    b.wait(Span::from_ms(3));
    assert_eq!(b.transmit(&bytes, todo, false), Tx::Ok, "slots come back");
    b.wait(Span::from_ms(3));
    b.close();
}

/// A refused call took none of its packets. A server that is gone stops everything; a stale handle
/// is not logged; all else is, and the queue goes on.
pub fn a_refused_send_drops_its_batch<M: Model>(make: impl Fn(Config) -> M) {
    let frame = ip(TO, true, false, 10);
    for (answer, failed) in [
        (status::PARAMETER, 0),
        (status::DROPPED, 3),
        (status::HARDWARE, 3),
        (status::RESOURCE, 3),
        (status::FUNCTION, 3),
    ] {
        let mut b = Harness::up(&make, PVM, &small());
        b.spy().refuse.push((hcall::SEND_SUB_CRQ_INDIRECT, None, answer, 1));
        for i in 0..3 {
            assert_eq!(b.transmit(&frame, OffloadRequest::NONE, i < 2), Tx::Ok);
        }
        let q = b.nic.totals();
        assert_eq!((q.tx_dropped, q.tx_send_failed, q.tx_packets), (3, failed, 0), "{answer}");
        assert!(b.nic.is_running() && !b.nic.stopped_on(0), "{answer}");
        assert_eq!(b.send(&frame, OffloadRequest::NONE).len(), 1, "{answer}: the next goes");
        b.poll();
        assert_eq!(b.reclaim(), 4, "{answer}: all are handed back");
        b.close();
    }
    // A packet with headers has several descriptors, and gives all of them back.
    let asks = Config { servers: [Server { desc_req: [0xf0; 8], ..Server::POWERVM }; 2], ..PVM };
    let mut b = Harness::up(&make, asks, &Driver { direct: Direct::Never, ..small() });
    b.spy().refuse.push((hcall::SEND_SUB_CRQ_INDIRECT, None, status::DROPPED, 64));
    for _ in 0..64 {
        assert_eq!(b.transmit(&frame, OffloadRequest::NONE, false), Tx::Ok);
    }
    let q = b.nic.totals();
    assert_eq!((q.tx_descriptors, q.tx_refused, q.tx_stopped), (64 * 4, 64, 0));
    b.poll();
    assert_eq!(b.reclaim(), 64);
    b.close();
    for direct in [false, true] {
        let mut b = Harness::up(&make, PVM, &Driver { queues: 2, ..small() });
        b.event(|s, now| s.fail_over(0, now));
        b.h.delay(Span::from_us(2));
        for i in 0..3 {
            let t = b.transmit(&frame, OffloadRequest::NONE, i < 2 && !direct);
            match t {
                Tx::Ok => {}
                Tx::Dropped(p) if direct && i > 0 => p.release(&mut b.h),
                t => panic!("{t:?}"),
            }
        }
        let q = b.nic.totals();
        assert_eq!((q.tx_dropped, q.tx_send_failed, q.tx_packets), (3, 0, 0));
        assert_eq!(b.nic.stats().closed_sends, 1);
        assert!(b.nic.stopped_on(0) && b.nic.stopped_on(1), "all queues");
        b.wait(Span::from_ms(3));
        assert_eq!(b.send(&frame, OffloadRequest::NONE).len(), 1, "on the other server");
        b.close();
    }
}

/// Bytes count from transmit to completion. With more to come they flush nothing
/// (`__netdev_tx_sent_queue`).
pub fn bytes_count_until_completion<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &Driver { direct: Direct::Never, ..small() });
    assert_eq!(b.nic.byte_room_on(0), 0, "one packet may go");
    let frame = ip(TO, true, false, 100);
    let len = frame.len() as i32;
    for i in 1..=5 {
        assert_eq!(b.transmit(&frame, OffloadRequest::NONE, true), Tx::Ok);
        assert_eq!((b.nic.byte_room_on(0), b.nic.totals().tx_flushes), (-len * i, 0));
    }
    assert_eq!(b.transmit(&frame, OffloadRequest::NONE, false), Tx::Ok);
    assert_eq!((b.nic.byte_room_on(0), b.nic.totals().tx_flushes), (-len * 6, 1));
    b.settle();
    assert_eq!(b.nic.byte_room_on(0), len * 6, "it ran dry with six");
    // A short packet counts as long as it goes.
    assert_eq!(b.transmit(&frame[..40], OffloadRequest::NONE, false), Tx::Ok);
    let shortest = b.nic.negotiated().min_mtu as i32;
    assert_eq!((b.nic.byte_room_on(0), shortest > 40), (len * 6 - shortest, true));
    b.settle();
    b.close();
}

/// Packets without a server owe no bytes: those of a refused array, and of a session that is over.
pub fn what_is_lost_owes_no_bytes<M: Model>(make: impl Fn(Config) -> M) {
    let frame = ip(TO, true, false, 10);
    let mut b = Harness::up(&make, PVM, &Driver { direct: Direct::Never, ..small() });
    // More often than the queue has entries.
    for refused in (2..=100).step_by(2) {
        b.spy().refuse.push((hcall::SEND_SUB_CRQ_INDIRECT, None, status::DROPPED, 1));
        assert_eq!(b.transmit(&frame, OffloadRequest::NONE, true), Tx::Ok);
        assert!(refused > 2 || b.nic.byte_room_on(0) < 0);
        assert_eq!(b.transmit(&frame, OffloadRequest::NONE, false), Tx::Ok);
        assert_eq!(b.nic.totals().tx_refused, refused);
        assert!(b.nic.byte_room_on(0) >= 0 && !b.nic.stopped_on(0));
        b.poll();
        assert_eq!(b.reclaim(), 2);
    }
    b.close();
    let hung = Config { wire_byte: Span::from_ms(10_000), ..PVM };
    let mut b = Harness::up(&make, hung, &Driver { direct: Direct::Never, ..small() });
    assert_eq!(b.transmit(&frame, OffloadRequest::NONE, false), Tx::Ok);
    assert!(b.nic.byte_room_on(0) < 0 && !b.nic.stopped_on(0));
    b.h.delay(Span::from_ms(5_000));
    assert!(b.nic.watchdog(&mut b.h), "a queue that is held back so long hangs");
    b.nic.work(&mut b.h);
    assert_eq!((b.nic.byte_room_on(0), b.nic.stats().timeouts), (0, 1));
    b.poll();
    b.close();
}

/// An error in a completion is counted, and the slot comes back.
pub fn an_error_in_a_completion_gives_the_slot_back<M: Model>(make: impl Fn(Config) -> M) {
    // A server that says it cuts more than its large sends may have: what it takes, it refuses in
    // the completion.
    let mut b = Harness::up(make, PVM, &small());
    let mut frame = ip(TO, true, false, 100);
    // A checksum to be made of a packet whose length is a lie.
    let todo = partial(&frame).1;
    frame[16..18].copy_from_slice(&4000u16.to_be_bytes());
    for i in 0..100 {
        assert_eq!(b.transmit(&frame, todo, i % 2 == 0), Tx::Ok);
        b.settle();
    }
    assert_eq!(b.wire().len(), 0);
    let q = b.nic.totals();
    assert_eq!((q.tx_errors, q.tx_completed), (100, 0), "more than there are slots");
    b.close();
}

/// The driver computes checksums that the server does not.
pub fn checksums_the_server_cannot_make<M: Model>(make: impl Fn(Config) -> M) {
    let mut offloads = Server::POWERVM.offloads;
    offloads[3..6].fill(false);
    let server = Server {
        offloads,
        desc_req: [0xf0, 0, 0xf0, 0, 0xf0, 0, 0, 0],
        backing_needs_headers: true,
        ..Server::POWERVM
    };
    let mut b = Harness::up(make, Config { servers: [server; 2], ..PVM }, &small());
    for (v4, udp) in [(true, false), (true, true), (false, false), (false, true)] {
        let whole = ip(TO, v4, udp, 500);
        let (bytes, todo) = partial(&whole);
        assert_eq!(b.send(&bytes, todo), std::slice::from_ref(&whole));
        assert_eq!(verify(&whole).transport, Check::Good);
    }
    let q = b.nic.totals();
    assert_eq!((q.tx_csum, q.tx_csum_software, q.tx_csum_direct), (1, 3, 0));
    b.close();
}

/// A queue that stays stopped for five seconds is reset, and goes on.
pub fn a_hung_queue_is_reset<M: Model>(make: impl Fn(Config) -> M) {
    let hung = Config { wire_byte: Span::from_ms(10_000), ..PVM };
    let mut b = Harness::up(make, hung, &small());
    let frame = ip(TO, true, false, 10);
    b.h.delay(Span::from_ms(6_000));
    assert!(!b.nic.watchdog(&mut b.h), "a queue that is not held does not hang");
    assert_eq!(b.nic.alarm(&mut b.h, Alarm::TxTimeout), Irq::None);
    while !b.nic.stopped_on(0) {
        assert_eq!(b.transmit(&frame, OffloadRequest::NONE, true), Tx::Ok);
    }
    b.h.delay(Span::from_ms(4_900));
    assert!(!b.nic.watchdog(&mut b.h));
    b.h.delay(Span::from_ms(200));
    assert!(b.nic.watchdog(&mut b.h));
    b.nic.work(&mut b.h);
    b.settle();
    assert!(b.nic.is_running() && !b.nic.stopped_on(0));
    assert_eq!((b.nic.stats().timeouts, b.nic.totals().tx_lost), (1, 64));
    assert_eq!(unmaps(&mut b), 0, "the server unmaps");
    b.poll();
    // The stack's own watchdog tells of a queue.
    while !b.nic.stopped_on(0) {
        assert_eq!(b.transmit(&frame, OffloadRequest::NONE, true), Tx::Ok);
    }
    assert_eq!(b.nic.alarm(&mut b.h, Alarm::TxTimeout), Irq::Poll, "lost packets come up");
    assert_eq!((b.nic.stats().timeouts, b.nic.totals().tx_lost), (2, 128));
    b.poll();
    assert_eq!(b.nic.alarm(&mut b.h, Alarm::Tick), Irq::None);
    b.close();
}
