//! Frames, messages and reports that stand exactly on a limit or are wrong, and their counts.

use super::harness::{Harness, Model, small};
use crate::frames::{ip, large, partial, tagged};
use doorbell_bus::Bus as _;
use doorbell_bus::fault::{Faults, Kind, Rule, When};
use doorbell_devices::vnic::{Config, Serial, Server};
use doorbell_drivers::ibmvnic::{Config as Driver, Direct};
use doorbell_drivers::{Driver as _, Tx};
use doorbell_hal::{Alignment, Iova, Port, Span, WorkKind};
use doorbell_layout::ibmvnic::{RxComp, TSO_POOL, TxComp, first, hcall, rx, status};
use doorbell_packet::{CsumPartial, OffloadRequest};
use zerocopy::byteorder::big_endian::{U16, U32, U64};

const PVM: Config = Config::POWERVM;
const TO: [u8; 6] = [2; 6];

/// Writes an entry of a queue as the server does. `queue` is in the order of registration: the one
/// of transmit completions comes first.
fn report<M: Model>(b: &mut Harness<M>, queue: usize, at: u64, entry: &[u8]) {
    let ring = Iova(b.spy().called(hcall::REG_SUB_CRQ)[queue][1]);
    let written =
        b.h.system().outside(|_, bus, now| bus.ports[0].write(now, ring + at * 32, entry));
    written.unwrap();
    b.h.delay(Span::from_us(1));
    b.poll();
}

/// A long-busy answer says how long to wait, in powers of ten.
pub fn a_long_busy_call_waits_as_long_as_it_is_told<M: Model>(make: impl Fn(Config) -> M) {
    for (n, ms) in [(0, 1), (1, 10), (2, 100), (3, 1_000)] {
        let mut b = Harness::up(&make, PVM, &small());
        b.spy().refuse.push((hcall::FREE_CRQ, None, status::LONG_BUSY_1_MS + n, 1));
        b.spy().calls.clear();
        b.nic.close(&mut b.h);
        let calls = &b.h.system().device.0.calls;
        let freed: Vec<_> = calls.iter().filter(|c| c.0 == hcall::FREE_CRQ).collect();
        let waited = freed[1].3.since(freed[0].3);
        assert!(waited >= Span::from_ms(ms) && waited < Span::from_us(ms * 1000 + 100), "{waited}");
    }
}

/// H_EOI takes the interrupt with the lowest priority in its first byte.
pub fn an_interrupt_is_ended_with_its_priority<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &Driver { queues: 2, ..small() });
    b.event(|s, now| s.migrate(0, now));
    b.wait(Span::from_ms(12));
    let ended: Vec<u64> = b.spy().called(hcall::EOI).iter().map(|a| a[0]).collect();
    let vectors: Vec<u64> = (0..2).flat_map(|q| b.nic.vectors(q)).map(u64::from).collect();
    let mut expected: Vec<u64> = vectors.iter().map(|v| 0xff00_0000 + v).collect();
    expected.sort_unstable();
    let mut sorted = ended;
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
    b.close();
}

/// Enters a completion for buffer `correlator` at place `at` of the first receive queue.
fn enter<M: Model>(b: &mut Harness<M>, at: u64, (offset, len): (u16, u32), correlator: u64) {
    let m = RxComp {
        first: first::VALID,
        flags: rx::END_FRAME,
        off_frame_data: U16::new(offset),
        len: U32::new(len),
        correlator: U64::new(correlator),
        ..RxComp::default()
    };
    report(b, 1, at, &m.bytes());
}

/// A frame in the receive queue is inside its buffer and has a header. Others are counted, and
/// their buffers are the driver's again.
pub fn a_received_frame_is_inside_its_buffer<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &small());
    // The longest frame, a tag, and in whole lines.
    let size = (b.nic.config().mtu + 14 + 4).next_multiple_of(128);
    let cases = [
        ((0, 14), true),
        ((0, 13), false),
        ((0, size), true),
        ((0, size + 1), false),
        ((1, size), false),
        ((1, size - 1), true),
        ((2, size - 1), false),
        ((u16::MAX, 100), false),
        ((0, u32::MAX), false),
    ];
    let (mut good, mut bad) = (0, 0);
    for (i, (place, ok)) in cases.into_iter().enumerate() {
        enter(&mut b, i as u64, place, i as u64);
        good += u64::from(ok);
        bad += u64::from(!ok);
        let q = b.nic.totals();
        assert_eq!((q.rx_packets, q.rx_malformed), (good, bad), "{place:?}");
        assert_eq!(b.nic.lent(), 64 - i as u32 - 1);
    }
    let lens: u32 = b.came().iter().map(|f| f.bytes.len() as u32).sum();
    let q = b.nic.totals();
    assert_eq!((lens, q.rx_bytes), (14 + size + size - 1, u64::from(lens)));
    // Correlators that were never given, are back already, or do not exist.
    for (i, correlator) in [63, 63, 0, 64, 1 << 32, u64::MAX].into_iter().enumerate() {
        enter(&mut b, 9 + i as u64, (0, 100), correlator);
    }
    let q = b.nic.totals();
    assert_eq!((q.rx_bad_correlator, q.rx_packets), (5, good + 1));
    b.came();
    b.nic.close(&mut b.h);
}

/// A frame for which there is no memory is counted, and its buffer given again.
pub fn without_memory_a_frame_is_lost<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &small());
    let mut hoard = Vec::new();
    for len in [1 << 20, 1 << 10] {
        while let Ok(buf) = b.h.buffer(len, Alignment::ANY) {
            hoard.push(buf);
        }
    }
    let frame = ip(b.nic.config().mac, true, false, 1400);
    for lost in 1..=2 {
        assert!(b.receive(&frame).is_empty());
        assert_eq!((b.nic.totals().rx_no_memory, b.nic.totals().rx_packets), (lost, 0));
    }
    hoard.into_iter().for_each(|buf| b.h.release(buf));
    assert_eq!(b.receive(&frame).len(), 1);
    b.close();
}

/// Each report names a packet under way. Others are counted, and do nothing.
pub fn a_correlator_names_a_packet_under_way<M: Model>(make: impl Fn(Config) -> M) {
    // The server reports nothing; what it could have reported is written here.
    let hung = Config { wire_byte: Span::from_ms(10_000), ..PVM };
    let mut b = Harness::up(make, hung, &Driver { direct: Direct::Never, ..small() });
    let frame = ip(TO, true, false, 10);
    for _ in 0..3 {
        assert_eq!(b.transmit(&frame, OffloadRequest::NONE, false), Tx::Ok);
    }
    assert!(!b.nic.is_drained());
    let before = b.h.system().done(WorkKind::TxDone);
    // The middle one twice, one not sent, ones that do not exist, and none of the large sends.
    let all = [1, 1, 3, 64, TSO_POOL];
    let mut m = TxComp { first: first::VALID, num_comps: 5, ..TxComp::default() };
    all.iter().zip(&mut m.correlators).for_each(|(from, to)| *to = U32::new(*from));
    report(&mut b, 0, 0, &m.bytes());
    let q = b.nic.totals();
    assert_eq!((q.tx_completed, q.tx_bad_correlator, q.tx_comp_messages), (1, 4, 1));
    let mut m = TxComp { first: first::VALID, num_comps: 2, ..TxComp::default() };
    m.correlators[..2].copy_from_slice(&[U32::new(0), U32::new(2)]);
    report(&mut b, 0, 1, &m.bytes());
    let done = b.h.system().done(WorkKind::TxDone);
    assert_eq!((done.times - before.times, done.units - before.units), (2, 3));
    assert_eq!(b.nic.totals().tx_completed, 3);
    b.poll();
    assert_eq!(b.h.system().done(WorkKind::TxDone).times, done.times, "nothing new is no work");
    assert!(b.nic.is_drained());
    b.reclaim();
    b.nic.close(&mut b.h);
}

/// The longest packet is the MTU, its header, and a tag if it has one; the shortest a header.
pub fn a_packet_is_as_long_as_the_mtu_and_a_tag<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &Driver { mtu: 1500, ..small() });
    let none = OffloadRequest::NONE;
    let longest = ip(TO, true, false, 1500 - 40);
    assert_eq!(longest.len(), 1514);
    assert_eq!(b.send(&longest, none), std::slice::from_ref(&longest));
    let with_tag = tagged(&longest, 5);
    assert_eq!(b.send(&with_tag, none), std::slice::from_ref(&with_tag));
    for frame in [ip(TO, true, false, 1461), tagged(&ip(TO, true, false, 1461), 5)] {
        b.refused(&frame, none);
    }
    // A head of 14 bytes, and one of 13.
    for (head, ok) in [(14, true), (13, false)] {
        let p = b.packet(&longest, &[head], none, 1);
        match b.nic.transmit(&mut b.h, p, false) {
            Tx::Ok => assert!(ok),
            Tx::Dropped(p) => {
                assert!(!ok);
                p.release(&mut b.h);
            }
            Tx::Busy(_) => panic!("there is room"),
        }
    }
    let q = b.nic.totals();
    assert_eq!((q.tx_packets, q.tx_dropped, q.tx_bytes), (3, 3, 1514 + 1518 + 1514));
    b.close();
}

/// A checksum is left to the server if it is where the headers say, and not in a tunnel.
pub fn a_checksum_that_is_elsewhere_is_made_here<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &small());
    let (bytes, todo) = partial(&ip(TO, true, false, 300));
    let elsewhere = Some(CsumPartial { start: 34, offset: 6 });
    for (todo, left, made) in [
        (todo, 1, 0),
        (OffloadRequest { checksum: elsewhere, ..todo }, 1, 1),
        (OffloadRequest { encapsulated: true, ..todo }, 1, 2),
    ] {
        assert_eq!(b.send(&bytes, todo).len(), 1);
        let q = b.nic.totals();
        assert_eq!((q.tx_csum + q.tx_csum_direct, q.tx_csum_software), (left, made), "{todo:?}");
    }
    b.close();
}

/// With a server that asks for the headers of plain packets only, packets with a checksum go
/// directly, and plain ones in an array.
pub fn adaptive_sends_directly_what_needs_no_headers<M: Model>(make: impl Fn(Config) -> M) {
    let server = Server { desc_req: [0xf0, 0, 0, 0, 0, 0, 0, 0], ..Server::POWERVM };
    let cfg = Config { servers: [server; 2], ..PVM };
    let mut b = Harness::up(make, cfg, &Driver { direct: Direct::Adaptive, ..small() });
    let whole = ip(TO, true, false, 300);
    let (bytes, todo) = partial(&whole);
    for n in 1..=3 {
        b.send(&bytes, todo);
        b.send(&whole, OffloadRequest::NONE);
        let q = b.nic.totals();
        assert_eq!((q.tx_direct, q.tx_batched, q.tx_csum, q.tx_csum_direct), (n, n, n, 0));
    }
    b.close();
}

/// Packets in the array at a failover were never sent; those sent and not reported are lost; the
/// buffers of the server are taken back.
pub fn a_failover_counts_what_it_ends<M: Model>(make: impl Fn(Config) -> M) {
    let hung = Config { wire_byte: Span::from_ms(10_000), ..PVM };
    let mut b = Harness::up(make, hung, &Driver { direct: Direct::Never, ..small() });
    let frame = ip(TO, true, false, 10);
    for more in [true, false, true, true, true] {
        assert_eq!(b.transmit(&frame, OffloadRequest::NONE, more), Tx::Ok);
    }
    b.event(|s, now| s.fail_over(0, now));
    b.wait(Span::from_ms(3));
    let q = b.nic.totals();
    assert_eq!((q.tx_packets, q.tx_lost, q.tx_batch_lost, q.tx_dropped), (2, 2, 3, 3));
    assert_eq!((q.rx_lost, q.rx_added, b.nic.lent()), (64, 128, 64));
    assert_eq!(b.reclaim(), 5);
    b.nic.close(&mut b.h);
}

/// A set that fits is kept over a failover, with what is in it.
pub fn long_term_buffers_outlive_a_failover<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &small());
    let frame = ip(TO, true, false, 100);
    let big = large(&ip(TO, true, false, 3000), 1400);
    b.send(&frame, OffloadRequest::NONE);
    let plain = b.spy().called(hcall::SEND_SUB_CRQ)[0][5];
    b.spy().calls.clear();
    b.send(&big.0, big.1);
    let array = b.spy().called(hcall::SEND_SUB_CRQ_INDIRECT)[0][2];
    let read = |b: &mut Harness<M>, at: u64, len: usize| {
        let mut bytes = vec![0; len];
        let port = |bus: &mut doorbell_bus::Partitions<_>, now, bytes: &mut Vec<u8>| {
            let port: &mut doorbell_bus::HypervisorPort = &mut bus.ports[0];
            port.read(now, Iova(at), bytes).map(|_| ())
        };
        b.h.system().outside(|_, bus, now| port(bus, now, &mut bytes)).unwrap();
        bytes
    };
    let d = read(&mut b, array, 32);
    let tso = u64::from_be_bytes(d[24..32].try_into().unwrap());
    for _ in 0..2 {
        assert_eq!(read(&mut b, plain, frame.len()), frame);
        assert_eq!(read(&mut b, tso, big.0.len()), big.0);
        b.event(|s, now| s.fail_over(0, now));
        b.wait(Span::from_ms(3));
        assert!(b.nic.is_running());
    }
    b.close();
}

/// A large send that the server does not cut is cut here, and each segment counted.
pub fn segments_are_counted<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &Driver { large_send: false, ..small() });
    let (bytes, todo) = large(&ip(TO, true, false, 30_000), 1400);
    for n in 1..=2 {
        assert_eq!(b.send(&bytes, todo).len(), 22);
        let q = b.nic.totals();
        // The last segment stands for the packet.
        assert_eq!((q.tx_segmented, q.tx_segments, q.tx_packets), (n, 22 * n, 22 * n));
    }
    b.close();
}

/// A fault of the platform in a completion of a good packet is an error of that packet.
pub fn a_poisoned_report_is_an_error<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &small());
    let frame = ip(TO, true, false, 100);
    let rules = vec![Rule { kind: Kind::PoisonedCompletion, when: When::Every(2) }];
    b.h.system().bus.platform_mut().inject(Faults::new(rules, 0));
    for _ in 0..20 {
        assert_eq!(b.send(&frame, OffloadRequest::NONE).len(), 1);
    }
    b.h.system().bus.platform_mut().end_faults();
    let q = b.nic.totals();
    assert_eq!((q.tx_completed, q.tx_errors), (10, 10));
    b.close();
}

/// Traffic of every kind in both directions, with exact counts on both sides.
pub fn mixed_traffic_is_counted_once_on_each_side<M: Model>(make: impl Fn(Config) -> M) {
    let serial = Serial { receive: Span::from_ns(900), ..Serial::FREE };
    let mut b = Harness::up(make, Config { serial, ..PVM }, &small());
    let mac = b.nic.config().mac;
    let whole = ip(TO, true, false, 500);
    let (bytes, todo) = partial(&whole);
    let big = large(&ip(TO, true, false, 3000), 1400);
    b.send(&whole, OffloadRequest::NONE);
    b.send(&bytes, todo);
    b.send(&big.0, big.1);
    b.send(&whole[..40], OffloadRequest::NONE);
    b.refused(&TO, OffloadRequest::NONE);
    let mut bad = ip(mac, true, false, 100);
    bad[80] ^= 1;
    for f in [&ip(mac, true, false, 1000), &ip(mac, false, true, 60), &bad] {
        assert_eq!(b.receive(f).len(), 1);
    }
    let (q, d) = (b.nic.totals(), b.counters());
    assert_eq!((q.tx_packets, q.tx_dropped, q.tx_large, q.tx_padded), (4, 1, 1, 1));
    assert_eq!(q.tx_bytes, (whole.len() * 2 + big.0.len() + 40) as u64);
    assert_eq!((q.tx_csum + q.tx_csum_direct, q.tx_direct + q.tx_batched), (1 + 1, 4));
    // Three segments of the large send, and the short frame's padding.
    let on_wire = whole.len() * 2 + big.0.len() + 2 * 54 + 60;
    assert_eq!((d.tx_taken, d.tx_sent, d.tx_frames), (4, 4, 6));
    assert_eq!((d.tx_bytes, d.large_sends), (on_wire as u64, 1));
    assert_eq!((q.rx_packets, q.rx_csum_good, q.rx_errors), (3, 2, 0));
    assert_eq!((q.rx_bytes, d.rx_bytes), (d.rx_bytes, (1054 + 122 + 154) as u64));
    b.close();
}
